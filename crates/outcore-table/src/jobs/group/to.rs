//! The destination of groups: a table, or memory if they are few.
//!
//! Contract: several threads take parts of the groups in parallel, each part in order; the parts'
//! numbers give the overall order.
//!
//! Bounds: [`Few`] holds the given number of groups, and fails for more.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use outcore::sort::lines::rows::PartsInOutput;
use outcore_io::output::StagedOutput;
use outcore_io::{Error, Result, units};

use super::GROUP;
use crate::output::{Section, TableOutput};

/// Takes groups.
pub(super) trait GroupsTo: Sync {
    /// Begins a part.
    fn part(&self, number: usize) -> Box<dyn GroupsPart + '_>;

    /// As [`RowSink::staged`](outcore::sort::lines::rows::RowSink::staged).
    fn staged(&self) -> Option<&StagedOutput> {
        None
    }

    /// As [`RowSink::parts_in_output`](outcore::sort::lines::rows::RowSink::parts_in_output).
    fn parts_in_output(&self) -> Result<Option<PartsInOutput>> {
        Ok(None)
    }

    /// As [`RowSink::give_up`](outcore::sort::lines::rows::RowSink::give_up).
    fn give_up(&self) {}
}

/// A part of the groups.
pub(super) trait GroupsPart: Send {
    /// Takes the next groups.
    ///
    /// # Errors
    /// Errors of the destination.
    fn write(&mut self, groups: &RecordBatch) -> Result<()>;

    /// Ends the part.
    ///
    /// # Errors
    /// As [`GroupsPart::write`].
    fn finish(self: Box<Self>) -> Result<()>;
}

impl GroupsTo for TableOutput {
    fn part(&self, number: usize) -> Box<dyn GroupsPart + '_> {
        Box::new(self.section(number as u64, 0))
    }

    fn staged(&self) -> Option<&StagedOutput> {
        TableOutput::staged(self)
    }

    fn parts_in_output(&self) -> Result<Option<PartsInOutput>> {
        self.sections_in_file()
    }

    fn give_up(&self) {
        TableOutput::give_up(self);
    }
}

impl GroupsPart for Section<'_> {
    fn write(&mut self, groups: &RecordBatch) -> Result<()> {
        Section::write(self, groups)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Section::finish(*self)
    }
}

/// Groups in memory.
pub(super) struct Few {
    groups_max: usize,
    /// Batches by part number.
    parts: Mutex<BTreeMap<usize, Vec<RecordBatch>>>,
}

impl Few {
    /// Creates room for this many groups.
    pub(super) fn new(groups_max: usize) -> Self {
        Few {
            groups_max,
            parts: Mutex::default(),
        }
    }

    /// Returns all groups, in order.
    pub(super) fn into_batches(self) -> Vec<RecordBatch> {
        let parts = self
            .parts
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        parts.into_values().flatten().collect()
    }
}

impl GroupsTo for Few {
    fn part(&self, number: usize) -> Box<dyn GroupsPart + '_> {
        Box::new(FewPart { to: self, number })
    }
}

struct FewPart<'f> {
    to: &'f Few,
    number: usize,
}

impl GroupsPart for FewPart<'_> {
    fn write(&mut self, groups: &RecordBatch) -> Result<()> {
        let mut parts = self.to.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.entry(self.number).or_default().push(groups.clone());
        let count: usize = parts.values().flatten().map(RecordBatch::num_rows).sum();
        match count > self.to.groups_max {
            true => {
                let most = units::count(self.to.groups_max as u64);
                let cause = format!("there are more than {most} groups");
                Err(Error::usage(GROUP, cause)
                    .hint("use columns with fewer values, or filter the table into several first"))
            }
            false => Ok(()),
        }
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
