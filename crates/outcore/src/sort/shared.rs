//! State that the threads of a sort of numbers or records share in addition to the [`Partition`]:
//! elements, plan, and the inputs that are freed while they are read.

use std::ops::{Deref, Range};

use super::plan::SortPlan;
use crate::partition::Partition;
use crate::read_back::Tally;
use outcore_io::Result;
use outcore_io::consumed::Consumed;
use outcore_io::drive::PrivateDir;
use outcore_io::output::StagedOutput;
use outcore_io::port::VolumeFile;

/// State that all threads of a sort share.
pub(crate) struct Shared<'a, E> {
    pub(crate) partition: Partition<'a>,
    pub(crate) elements: &'a E,
    pub(crate) plan: &'a SortPlan,
    /// The inputs whose blocks are freed once they are distributed, and the output, which will
    /// contain their data.
    pub(crate) consumed: Option<(Consumed, Option<&'a StagedOutput>)>,
    /// Sums the elements that are read, if the output contains all elements and is read back.
    pub(crate) read: Option<&'a Tally>,
    /// Sums the elements that are kept, if one element per key is kept.
    pub(crate) kept: Option<&'a Tally>,
}

impl<'a, E> Deref for Shared<'a, E> {
    type Target = Partition<'a>;

    fn deref(&self) -> &Partition<'a> {
        &self.partition
    }
}

impl<E> Shared<'_, E> {
    /// Frees blocks of an input permanently; the input is marked before the first ones are freed.
    pub(crate) fn free_input(&self, file: &VolumeFile, blocks: Range<u64>) -> Result<()> {
        let Some((consumed, output)) = &self.consumed else {
            return Ok(());
        };
        let device = self.volume.device();
        let dirs = output.iter().flat_map(|output| output.dirs());
        let dirs: Vec<&PrivateDir> = dirs.chain(self.scratch()?.dirs()).collect();
        consumed.begin(device.as_ref(), &file.path, &dirs)?;
        device.punch(file.id, blocks.start, blocks.end - blocks.start)
    }
}
