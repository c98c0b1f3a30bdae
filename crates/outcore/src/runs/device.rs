//! An interface for drives that merge what they store.
//!
//! Model: ActiveSort (Lee et al.), section 5. The host tells the drive where the runs are and what
//! their keys are, and then reads the merged file as if it existed. [`MergeDevice::open`] is that
//! call, [`MergeStream::read`] that file. [`HostMerge`] is the only backend: this machine merges. A
//! program that reads a view from several threads opens one stream per thread.

use std::path::PathBuf;

use super::{SortedView, ViewReader, ViewType};
use outcore_io::Result;

/// The location of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLocation {
    /// The file that holds the run.
    pub path: PathBuf,
    /// Offset of the run's first record.
    pub start_bytes: u64,
    /// Number of the run's records.
    pub records: u64,
}

/// The runs to merge, and the key that orders them.
#[derive(Debug, Clone, PartialEq)]
pub struct RunsAbout {
    /// The runs; equal records are in their order.
    pub runs: Vec<RunLocation>,
    /// Length of a record, offset and type of its keys; or lines, and the name of their order.
    pub what: ViewType,
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys are in the order of the runs, not by the bytes of their records.
    pub stable: bool,
}

/// A device that can merge runs.
pub trait MergeDevice {
    /// The merged file of `runs`, for the calling thread.
    ///
    /// # Errors
    /// Runs that are missing, or more runs than it can merge.
    fn open(&self, runs: &RunsAbout) -> Result<Box<dyn MergeStream>>;
}

/// The merged file.
pub trait MergeStream {
    /// Reads the bytes that start at `offset_bytes`; returns the number of bytes, less than the
    /// length of `buffer` only at the end.
    ///
    /// # Errors
    /// The errors of reading the runs.
    fn read(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize>;
}

/// This machine, for the runs of one view.
pub struct HostMerge<'a> {
    /// The view with the runs.
    pub view: &'a SortedView,
    /// Memory per stream.
    pub memory_bytes: u64,
}

impl MergeDevice for HostMerge<'_> {
    fn open(&self, runs: &RunsAbout) -> Result<Box<dyn MergeStream>> {
        if *runs != self.view.about() {
            return Err(outcore_io::Error::usage(
                "open merge",
                "other runs than those of the view",
            ));
        }
        Ok(Box::new(self.view.reader(self.memory_bytes)?))
    }
}

impl MergeStream for ViewReader {
    fn read(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_at(offset_bytes, buffer)
    }
}

impl SortedView {
    /// The facts about the view that a [`MergeDevice`] needs.
    pub fn about(&self) -> RunsAbout {
        let runs = self.set.runs.iter().map(|run| RunLocation {
            path: run.file.path.to_path_buf(),
            start_bytes: run.base_bytes,
            records: run.records,
        });
        let shape = &self.set.shape;
        RunsAbout {
            runs: runs.collect(),
            what: shape.what.clone(),
            descending: shape.view_order.descending,
            stable: shape.view_order.stable,
        }
    }
}
