//! Where the merge happens: a seam for drives that merge what they store.
//!
//! Model: ActiveSort (Lee et al.), section 5: the host tells the drive where the runs lie and what
//! their keys are, and then reads the merged file as if it were there. [`MergeDevice::open`] is
//! that call, [`MergeStream::read`] that file. [`HostMerge`] is the one backend: this machine
//! merges. Whoever reads a view from several threads opens a stream on each.

use std::path::PathBuf;

use super::{SortedView, ViewReader, ViewType};
use outcore_io::Result;

/// A run, for who merges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLocation {
    /// Its file.
    pub path: PathBuf,
    /// Where its first record is.
    pub start_bytes: u64,
    /// How many it has.
    pub records: u64,
}

/// What is to be merged: the runs and the key that orders them.
#[derive(Debug, Clone, PartialEq)]
pub struct RunsAbout {
    /// The runs; equal records come in their order.
    pub runs: Vec<RunLocation>,
    /// Length of a record, place and type of its keys; or lines, and what their order is called.
    pub what: ViewType,
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys in the order of the runs, not by the bytes of their records.
    pub stable: bool,
}

/// Something that can merge runs.
pub trait MergeDevice {
    /// The merged file of `runs`, for the calling thread.
    ///
    /// # Errors
    /// Runs that are missing, or more than it can merge.
    fn open(&self, runs: &RunsAbout) -> Result<Box<dyn MergeStream>>;
}

/// The merged file.
pub trait MergeStream {
    /// Reads from `offset_bytes` on; gives how many bytes there were, fewer than `buffer` holds
    /// only at the end.
    ///
    /// # Errors
    /// What reading the runs fails with.
    fn read(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize>;
}

/// This machine, for the runs of one view.
pub struct HostMerge<'a> {
    /// The view whose runs are merged.
    pub view: &'a SortedView,
    /// Memory of each stream.
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
    /// What a [`MergeDevice`] must know of it.
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
