//! Every case of the conformance kit, on drives in memory.
//!
//! Contract: each case is sorted by the engine and by the oracle, and both outputs are the same bytes.

use crate::support::cases::cases;
use crate::support::oracle;
use crate::support::runs::{Sort, assert_same};

#[test]
fn the_engine_agrees_with_the_oracle_on_every_case() {
    for case in cases() {
        let input = case.input();
        let format = case.record_format();
        let expected = oracle::sorted(&input, &format, case.options());
        let mut sort = Sort::of(&format, input);
        sort.options = case.options();
        let (summary, output) = sort.on_ram().unwrap();
        assert_same(&output, &expected, format.record_bytes(), &case.name());
        assert_eq!(
            summary.records as usize * format.record_bytes(),
            expected.len()
        );
    }
}
