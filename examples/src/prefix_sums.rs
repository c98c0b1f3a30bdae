//! Prefix sums, for example the places where items of variable length begin.
//!
//! One read and one write, whatever the size (PALID, SPAA 2025, section 4: scan).

use std::path::Path;

use outcore::Input;
use outcore::Result;
use outcore::job::Job;
use outcore::primitives::{Inclusion, Summary, read, scan};

/// Number i of `to` is the sum of the first i numbers of `from`.
///
/// # Errors
/// The errors of the pass.
pub fn prefix_sums(job: &Job, from: &Path, to: &Path) -> Result<Summary> {
    let lengths = read::<u64>(&[Input::raw(from)]);
    scan(
        job,
        &lengths,
        0,
        u64::wrapping_add,
        Inclusion::Exclusive,
        &crate::to_file(to),
        false,
    )
}
