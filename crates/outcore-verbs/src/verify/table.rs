//! `verify` of tables: their order, and a comparison with the rows of another table.
//!
//! Contract: as [`super`]. Without columns, the order is not checked.

use std::path::Path;

use outcore::{Error, Result};
use outcore_io::units;
use outcore_table::input::{InputOptions, TextOptions, null_texts};
use outcore_table::jobs::{self, TableCheck};

use super::page::{VerifyArgs, VerifyReport};
use crate::host::{Host, Kept, watch};
use crate::option::{DriveArgs, SEED, resources_request};
use crate::report::{Moved, Stopwatch};
use crate::tables::inputs::NoTable;
use crate::tables::outputs::sources_of;
use crate::tables::{READ, check_tables, keys_of, on_bad_row, unpacked};
use outcore::key::column::column_names;

/// Checks a table.
pub(super) fn verify(host: &dyn Host, args: &VerifyArgs) -> Result<VerifyReport> {
    let stopwatch = Stopwatch::start();
    if args.by.is_empty() && (args.unique || args.descending) {
        let cause = "--unique and --descending need an order, but no column gives one";
        return Err(Error::usage(READ, cause).hint("name columns with --by"));
    }
    let no_table = NoTable {
        cause: "the first input is a table, but this is not one",
        hint: "compare tables with tables",
        of_lines: "compare tables with tables",
    };
    if !args.against.is_empty() {
        check_tables(host, &args.against, None, no_table)?;
    }
    let all: Vec<_> = args.files.iter().chain(&args.against).cloned().collect();
    let sources = sources_of(host, &all)?;
    let request = resources_request(&args.resources, &DriveArgs::default(), None, SEED)?;
    let kept = Kept {
        sources: &sources,
        force: args.trace.force,
        ..Kept::default()
    };
    let resources = host.start(host.load(&request)?, args.trace.record_io.path(), kept)?;
    let job = host.adopt(resources.job(Vec::new()));
    let (copies, _spool) = unpacked(host, &job, &resources, &all, None, Path::new("."))?;
    let keys = keys_of(&args.by, args.descending)?;
    let text = TextOptions {
        nulls: null_texts(&args.bad_rows.null),
        on_bad: on_bad_row(args.bad_rows.on_error),
        ..TextOptions::default()
    };
    let text = text.needing_keys(&keys)?;
    let reads = InputOptions {
        columns: (!args.columns.is_empty()).then(|| column_names(&args.columns)),
        text: Some(text.clone()),
        copies,
        ..InputOptions::default()
    };
    let against = (!args.against.is_empty()).then_some(&args.against[..]);
    let (found, other) = watch(host, &job.control, &[], || {
        jobs::verify(&job, (&args.files, &reads), &keys, against)
    })?;
    let remarks = text.take_remarks();
    remarks.iter().for_each(|remark| host.remark(remark));
    text.take_notes().iter().for_each(|note| host.note(note));
    let is_same = |other: &TableCheck| (found.rows, found.checksum) == (other.rows, other.checksum);
    let same_records = other.as_ref().map(is_same);
    let checksum = |found: &TableCheck| format!("{:032x}", found.checksum);
    let of_order = !args.by.is_empty();
    let is_unique = !args.unique || found.equal_keys == 0;
    let moved = Moved {
        records: found.rows,
        read_bytes: found.read_bytes + other.as_ref().map_or(0, |other| other.read_bytes),
        passes: 1,
        ..Moved::default()
    };
    Ok(VerifyReport {
        used: stopwatch.stop(moved, &[], &resources, host.end_trace()?),
        phases: Vec::new(),
        ordered: of_order.then_some(found.first_unordered.is_none()),
        unordered: None,
        first_unordered: found.first_unordered,
        duplicate_keys: of_order.then_some(found.equal_keys),
        checksum: checksum(&found),
        same_records,
        against_records: other.as_ref().map(|other| other.rows),
        against_checksum: other.as_ref().map(checksum),
        ok: found.first_unordered.is_none() && is_unique && same_records != Some(false),
        text: order_text(of_order, &found),
        against_text: other
            .as_ref()
            .zip(same_records)
            .map(|(other, is_same)| against_text(other, is_same)),
    })
}

/// The result, in words.
fn order_text(of_order: bool, found: &TableCheck) -> String {
    let rows = units::counted(found.rows, "row");
    let order = match (of_order, found.first_unordered) {
        (false, _) => format!("{rows}; pass the expected order with --by"),
        (true, None) => format!(
            "{rows} in order, {} equal to the one before",
            units::counted(found.equal_keys, "key")
        ),
        (true, Some(row)) => format!(
            "row {} of {} is out of order",
            units::count(row + 1),
            units::count(found.rows)
        ),
    };
    let sum = format!("checksum of all rows: {:032x}", found.checksum);
    format!("{order}\n{sum}")
}

/// The result of the comparison with the other table, in words.
fn against_text(other: &TableCheck, is_same: bool) -> String {
    match is_same {
        true => "the other table has the same rows".to_owned(),
        false => format!(
            "the other table has other rows: {}, checksum {:032x}",
            units::counted(other.rows, "row"),
            other.checksum
        ),
    }
}
