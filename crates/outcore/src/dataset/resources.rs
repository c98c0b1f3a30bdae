//! What a dataset may use: memory, threads, drives, and places for what lies between two passes.
//!
//! Contract: a front says once what its user allows; the engine asks for a job a pass. How scratch
//! is shared among drives is decided when its size is known.

use std::path::{Path, PathBuf};

use crate::job::Job;
use outcore_io::Result;
use outcore_io::port::ScratchDrive;

/// See the module.
pub trait ResourceProvider: Send + Sync {
    /// A job of these resources, on the drives that were named, or, for its rates, on the one that
    /// holds `beside`.
    ///
    /// # Errors
    /// A drive that cannot be used.
    fn job(&self, beside: &Path) -> Result<Job>;

    /// The drives for that much scratch, where the result goes to `beside`; none for a directory
    /// there.
    ///
    /// # Errors
    /// As [`ResourceProvider::job`].
    fn scratch_drives(&self, scratch_bytes: u64, beside: &Path) -> Result<Vec<ScratchDrive>>;

    /// The directories for what is written between two passes: one on each drive.
    ///
    /// # Errors
    /// As [`ResourceProvider::job`].
    fn scratch_dirs(&self, beside: &Path) -> Result<Vec<PathBuf>>;

    /// Refuses a result of `data_bytes` in files that have no room for it.
    ///
    /// # Errors
    /// [`crate::Kind::NoSpace`].
    fn check_room(&self, _files: &[PathBuf], _data_bytes: u64) -> Result<()> {
        Ok(())
    }
}
