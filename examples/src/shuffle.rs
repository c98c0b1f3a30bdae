//! A global shuffle for training: every epoch has another order, which is the same on every
//! machine.
//!
//! Contract: two reads and two writes of the data that do not fit in memory.

use std::path::Path;

use outcore::Input;
use outcore::Result;
use outcore::job::Job;
use outcore::shuffle::{ShuffleOptions, ShuffleSummary, Unit, shuffle};

/// Bytes of an example.
const RECORD_BYTES: usize = 8;

/// Writes the records (8 bytes) of `from` to `to`, in the order of epoch `epoch`.
///
/// # Errors
/// The errors of the shuffle.
pub fn global_shuffle(job: &Job, from: &Path, to: &Path, epoch: u64) -> Result<ShuffleSummary> {
    let options = ShuffleOptions {
        unit: Unit::Records {
            record_bytes: RECORD_BYTES,
        },
        seed: 42,
        epoch,
        replace: false,
    };
    shuffle(job, &[Input::raw(from)], crate::to_file(to), options)
}
