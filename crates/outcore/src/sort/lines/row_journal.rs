//! The journal of a sort of rows whose sink writes one file.
//!
//! Contract: a [`RowJournal`] accompanies a job on rows from its beginning until its output has its
//! name. It finds the leftovers of a killed run before the caller divides the memory. A run that
//! continues a killed one uses its threads, its seed and its memory, so that both make the same
//! parts. [`RowJournal::claim`] compares the jobs and gives the directory for the output;
//! [`super::sort_rows_with`] makes the checkpoints; [`RowJournal::publish`] gives the output its
//! name. Then scratch is removed, and the journal last.

use std::path::Path;
use std::sync::Arc;

use crate::ends::Output;
use crate::job::{Job, ScratchDrive};
use crate::partition::checkpoint::LastRecord;
use crate::partition::restored::{Finished, IdentityOption};
use crate::partition::resumed::{Resumed, Staged, check_room};
use crate::read::source::InputPart;
use outcore_io::drive::PrivateDir;
use outcore_io::memory::{Budget, Reservation};
use outcore_io::output::StagedOutput;
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::scratch::Scratch;
use outcore_io::{Error, Result};

/// The line of a job's ledger for the memory of a run that continues another.
const MEMORY: &str = "memory of the continued run";

/// An option that changes the bytes of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOption {
    /// The name of the option in words.
    pub name: &'static str,
    /// The value of the option as text.
    pub value: String,
}

/// The place for an output.
pub enum Claimed {
    /// A killed run of the same job had put the output in place, with these numbers of rows.
    Finished {
        /// Rows read.
        rows_in: u64,
        /// Rows written.
        rows_out: u64,
    },
    /// A private directory next to the output, which may hold the unfinished output of a killed
    /// run.
    Dir(PrivateDir),
}

/// See the module.
pub struct RowJournal {
    resumed: Option<Resumed>,
    staged: Option<Staged>,
    memory_bytes: u64,
    _memory: Option<Reservation>,
    end: Option<RowsEnd>,
}

/// The parts of a sort that are kept until its output has a name.
pub(super) struct RowsEnd {
    /// The volume on which the journal and scratch are open.
    pub(super) volume: Arc<Volume>,
    pub(super) record: Option<LastRecord>,
    pub(super) scratch: Option<Scratch>,
    pub(super) rows_in: u64,
    pub(super) rows_out: u64,
}

impl RowsEnd {
    /// Moves itself to the journal of rows. Without a journal, returns the record and the scratch.
    pub(super) fn kept_by(
        self,
        journal: Option<&mut RowJournal>,
    ) -> (Option<LastRecord>, Option<Scratch>) {
        match journal {
            Some(journal) => {
                journal.end = Some(self);
                (None, None)
            }
            None => (self.record, self.scratch),
        }
    }
}

impl RowJournal {
    /// Finds the killed run that wrote `output`; `None` if the job keeps no journal. The job is the
    /// same if its `kind`, in words, and these `options` are.
    ///
    /// # Errors
    /// Usage: another run holds the journal. Memory. The system's error.
    pub fn begin(
        job: &Job,
        output: &Path,
        scratch_dir: &Path,
        kind: &str,
        options: Vec<RowOption>,
    ) -> Result<Option<Self>> {
        if job.options.resume.is_none() {
            return Ok(None);
        }
        let job = &with_drives(job, scratch_dir);
        let output = Output::File {
            path: output.to_path_buf(),
            header: None,
        };
        let options = options.into_iter();
        let options = options.map(|option| IdentityOption::of(option.name, option.value));
        let options = std::iter::once(IdentityOption::kind(kind)).chain(options);
        let resumed = Resumed::begin(job, &output, options.collect())?;
        let (memory, memory_bytes) = match resumed.rows_memory_bytes() {
            None => (None, job.budget.free_bytes()),
            Some(bytes) => {
                check_room(job, bytes)?;
                (Some(job.budget.reserve(MEMORY, bytes)?), bytes)
            }
        };
        Ok(Some(RowJournal {
            resumed: Some(resumed),
            staged: None,
            memory_bytes,
            _memory: memory,
            end: None,
        }))
    }

    /// The job, with the threads, the seed and the memory of the killed run.
    pub fn job(&self, job: &Job) -> Job {
        let mut job = match &self.resumed {
            Some(resumed) => resumed.job(job),
            None => job.clone(),
        };
        if self._memory.is_some() {
            job.budget = Budget::new(self.memory_bytes);
        }
        job
    }

    /// The place for the output of a job on the files `inputs`, which may `replace` a file. Needed
    /// once, before the output is made.
    ///
    /// # Errors
    /// Usage: the killed run was another job; the output exists. The system's error.
    pub fn claim(&mut self, job: &Job, inputs: &[VolumeFile], replace: bool) -> Result<Claimed> {
        let part = |file: &VolumeFile| InputPart {
            file: file.clone(),
            data_at_bytes: 0,
            data_len_bytes: file.facts.len_bytes,
            first_position: 0,
        };
        let parts: Vec<InputPart> = inputs.iter().map(part).collect();
        let Some(resumed) = self.resumed.take() else {
            return Err(no_place());
        };
        let (dir, mut staged) = resumed.claim(job, &parts, replace)?;
        staged.rows_memory_bytes = self.memory_bytes;
        let claimed = match (&staged.finished, dir) {
            (
                Some(Finished {
                    items, items_in, ..
                }),
                _,
            ) => Claimed::Finished {
                rows_in: *items_in,
                rows_out: *items,
            },
            (None, Some(dir)) => Claimed::Dir(dir),
            (None, None) => return Err(no_place()),
        };
        self.staged = Some(staged);
        Ok(claimed)
    }

    /// Gives the file of `staged`, with its length, its name; then removes scratch and the journal.
    ///
    /// # Errors
    /// The device's error.
    pub fn publish(self, volume: &Volume, staged: StagedOutput, len_bytes: u64) -> Result<()> {
        let Some(end) = self.end else {
            return staged.publish_each(volume, &[len_bytes]);
        };
        let vouch = |file: &VolumeFile| {
            let Some(record) = end.record else {
                return Ok(());
            };
            let facts = volume.device().facts(file.id)?;
            record.finish(
                &end.volume,
                &Finished::of(&facts, end.rows_out, end.rows_in),
            )
        };
        let dirs = staged.publish_vouched(volume, len_bytes, vouch)?;
        if let Some(scratch) = end.scratch {
            scratch.remove();
        }
        drop(dirs);
        Ok(())
    }

    /// The states of the parts that the sink of a killed run had written, per checkpoint.
    pub fn part_states(&self) -> Vec<&[u8]> {
        let staged = self.staged.iter().flat_map(Staged::parts);
        staged.map(|kept| &kept.state[..]).collect()
    }

    /// Keeps the parts of the first checkpoints only; the others are written again.
    pub fn keep_parts(&mut self, checkpoints_count: usize) {
        if let Some(staged) = &mut self.staged {
            staged.keep_parts(checkpoints_count);
        }
    }

    /// Notes how many rows the job has read and written, if the numbers of its sort differ.
    pub fn count(&mut self, rows_in: u64, rows_out: u64) {
        if let Some(end) = &mut self.end {
            (end.rows_in, end.rows_out) = (rows_in, rows_out);
        }
    }

    /// The result of [`RowJournal::claim`].
    pub(super) fn take_staged(&mut self) -> Staged {
        self.staged.take().unwrap_or_default()
    }
}

fn no_place() -> Error {
    Error::usage("create output", "it has no private directory").hint("a bug: please report it")
}

/// The job with scratch in `dir`, if it names no drives.
pub(super) fn with_drives(job: &Job, dir: &Path) -> Job {
    let mut job = job.clone();
    if job.options.drives.is_empty() {
        job.options.drives = vec![ScratchDrive::new(dir)];
    }
    job
}
