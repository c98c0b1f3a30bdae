//! Resources of a dataset: memory, threads, drives, and places for data between two passes.
//!
//! Contract: a front end states once what its user allows; the engine requests one job per pass.
//! The distribution of scratch over drives is decided when its size is known.

use std::path::{Path, PathBuf};

use crate::job::Job;
use outcore_io::Result;
use outcore_io::port::ScratchDrive;

/// See the module.
pub trait ResourceProvider: Send + Sync {
    /// A job with these resources. It gets the rates of the named drives, or else of the drive that
    /// holds `beside`.
    ///
    /// # Errors
    /// A drive that cannot be used.
    fn job(&self, beside: &Path) -> Result<Job>;

    /// The drives for `scratch_bytes` of scratch, with the result in `beside`; empty for a
    /// directory there.
    ///
    /// # Errors
    /// The errors of [`ResourceProvider::job`].
    fn scratch_drives(&self, scratch_bytes: u64, beside: &Path) -> Result<Vec<ScratchDrive>>;

    /// The directories for data between two passes: one on each drive.
    ///
    /// # Errors
    /// The errors of [`ResourceProvider::job`].
    fn scratch_dirs(&self, beside: &Path) -> Result<Vec<PathBuf>>;

    /// Rejects a result of `data_bytes` if the files have no room for it.
    ///
    /// # Errors
    /// [`crate::Kind::NoSpace`].
    fn check_room(&self, _files: &[PathBuf], _data_bytes: u64) -> Result<()> {
        Ok(())
    }
}
