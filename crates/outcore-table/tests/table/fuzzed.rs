//! Runs the fuzz checks for tables on a fixed number of damaged inputs.
//!
//! Contract: as in [`mutations`]; `make fuzz` tests more inputs.

#[path = "../../../outcore/tests/support/mutations.rs"]
#[allow(unreachable_pub)]
mod mutations;
#[path = "../../../../fuzz/src/tables.rs"]
#[allow(unreachable_pub)]
mod tables;

use mutations::{INPUTS, mutations};

#[test]
fn damaged_rows_are_refused_or_other_values() {
    let seeds: [&[u8]; 5] = [
        &[0, 0, 9, 12, 0],
        &[1, 20, 200],
        &[2, 4, 255],
        &[3, 1, 0, 0, 0, b'a'],
        &[2, 30, 1, 31, 0],
    ];
    mutations(tables::row, INPUTS, &seeds);
}

#[test]
fn directories_of_any_name_are_columns_or_a_named_error() {
    let seeds: [&[u8]; 5] = [
        b"year=2024/country=de",
        b"a=%20x%zz/b=__HIVE_DEFAULT_PARTITION__",
        b"=x/key=1",
        b"n=99999999999999999999/n=1",
        b"\xff=\xfe%/text=%ff",
    ];
    mutations(tables::hive, INPUTS / 8, &seeds);
}
