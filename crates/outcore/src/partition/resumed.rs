//! The steps of a job that can be resumed, from its beginning to its checkpoints.
//!
//! Contract: [`Resumed`] follows the steps of a job. It finds the leftovers of a dead run, stages
//! the output and scratch in the directories of that run, and makes the checkpoints. A resumed job
//! uses the plan, the seed and the threads of the dead one, not those of this run. Its buckets are
//! therefore the same; a sum over the sample checks this. If the job keeps no journal, each step
//! does only its usual work. A job whose dead run had put its output in place ends with
//! [`Staged::finished`].

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::checkpoint::{Checkpoints, Setting};
use super::driver::Ends;
use super::restored::{
    Continued, Division, Finished, Identity, IdentityOption, PartsKept, RESUME, Restored, Settled,
};
use super::resume::{FoundRest, Resuming, continues};
use super::{LazyScratch, Partition};
use crate::ends::Output;
use crate::job::{Job, JobSize};
use crate::read::longest::Longest;
use crate::read::source::InputPart;
use crate::states::GIVE_UP;
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::PrivateDir;
use outcore_io::drive::private_dir::Resumable;
use outcore_io::journal::{BUFFER_BYTES, JOURNAL_LINE};
use outcore_io::memory::{Budget, Ledger, Pool, Reservation, allow_hint};
use outcore_io::output::{Room, StagedOutput};
use outcore_io::scratch::Scratch;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// The beginning of a job that may be resumed.
pub(crate) struct Resumed {
    resuming: Option<Resuming>,
    /// What determines the bytes of the output, besides the inputs.
    options: Vec<IdentityOption>,
    memory: Option<Reservation>,
}

/// A job that may be resumed, with its output staged.
#[derive(Default)]
pub(crate) struct Staged {
    mark: Option<Resumable>,
    identity: Option<Identity>,
    /// The output, if a dead run of the same job had put it in place: then nothing is staged.
    pub(crate) finished: Option<Finished>,
    rest: Option<FoundRest>,
    restored: Option<Restored>,
    /// The time since the last checkpoint of the dead run, if it is known.
    age: Option<Duration>,
    /// The memory that the source and the sink of rows divide between them; 0 without rows.
    pub(crate) rows_memory_bytes: u64,
    _memory: Option<Reservation>,
}

/// An output to stage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StageRequest {
    /// Whether an existing output is replaced.
    pub(crate) replace: bool,
    pub(crate) room: Room,
    pub(crate) data_bytes: u64,
}

/// Which input a resumed run must read again.
pub(crate) struct Reading<F> {
    /// Whether the items of a bucket are only counted, with nothing else to remember.
    pub(crate) is_counted: F,
    /// Whether the input is read in any case.
    pub(crate) is_whole: bool,
}

/// The error for a job that cannot be resumed.
pub(crate) fn refused(cause: &str) -> Error {
    Error::usage("resume", cause).hint("run it without a journal")
}

impl Resumed {
    /// Finds the dead run of this job, if the job keeps a journal.
    ///
    /// # Errors
    /// Usage: an output that is not one file; another run holds it. Memory.
    pub(crate) fn begin(job: &Job, output: &Output, options: Vec<IdentityOption>) -> Result<Self> {
        let resuming = Resuming::find(job, output)?;
        let bytes = Pool::total_bytes(BUFFER_BYTES, 1);
        let memory = resuming
            .is_some()
            .then(|| job.budget.reserve(JOURNAL_LINE, bytes));
        Ok(Resumed {
            resuming,
            options,
            memory: memory.transpose()?,
        })
    }

    /// The beginning of a job without a journal.
    pub(crate) fn none() -> Self {
        Resumed {
            resuming: None,
            options: Vec::new(),
            memory: None,
        }
    }

    /// The job, with the threads and the seed of the dead run.
    pub(crate) fn job(&self, job: &Job) -> Job {
        match &self.resuming {
            Some(resuming) => Job {
                options: resuming.options(&job.options),
                ..job.clone()
            },
            None => job.clone(),
        }
    }

    /// The memory that the source and the sink of rows had divided in the dead run.
    pub(crate) fn rows_memory_bytes(&self) -> Option<u64> {
        let restored = self.resuming.as_ref()?.restored()?;
        Some(restored.settled.rows_memory_bytes)
    }

    /// The longest item, if the dead run measured it.
    pub(crate) fn longest(&self) -> Option<Longest> {
        let restored = self.resuming.as_ref()?.restored()?;
        restored.settled.division.longest
    }

    /// Stages the output, in the directory of the dead run if there is one.
    ///
    /// # Errors
    /// The dead run was another job; the errors of staging.
    pub(crate) fn stage(
        self,
        job: &Job,
        ends: &Ends<'_>,
        asked: StageRequest,
    ) -> Result<(Option<StagedOutput>, Staged)> {
        let StageRequest {
            replace,
            room,
            data_bytes,
        } = asked;
        let (dir, later) = self.claim(job, &ends.parts, replace)?;
        let staged = match dir {
            _ if later.finished.is_some() => None,
            None => ends.stage(replace, room, data_bytes)?,
            Some(dir) => ends.stage_in(dir, replace, room, data_bytes)?,
        };
        Ok((staged, later))
    }

    /// The private directory for the output of a job on `parts` that keeps a journal.
    ///
    /// # Errors
    /// The dead run was another job; the output of another one exists. The system's error.
    pub(crate) fn claim(
        self,
        job: &Job,
        parts: &[InputPart],
        replace: bool,
    ) -> Result<(Option<PrivateDir>, Staged)> {
        let mut later = Staged {
            _memory: self.memory,
            ..Staged::default()
        };
        let Some(mut resuming) = self.resuming else {
            return Ok((None, later));
        };
        let mut named = self.options;
        named.push(resuming.place());
        let identity = Identity::of(parts, named);
        later.finished = resuming.finished(job, &identity, replace)?;
        if later.finished.is_some() {
            return Ok((None, later));
        }
        resuming.check(job, &identity)?;
        let (dir, rest) = resuming.take_dir(job)?;
        later.mark = Some(resuming.mark(&dir)?);
        later.identity = Some(identity);
        later.rest = rest;
        Ok((Some(dir), later))
    }
}

impl Staged {
    /// The parts of rows that the dead run has written, per checkpoint.
    pub(crate) fn parts(&self) -> &[PartsKept] {
        let rest = self.rest.as_ref();
        rest.map_or(&[], |rest| &rest.restored.parts)
    }

    /// Leaves out the parts of all checkpoints except for the first `checkpoints_count`.
    pub(crate) fn keep_parts(&mut self, checkpoints_count: usize) {
        if let Some(rest) = &mut self.rest {
            rest.restored.parts.truncate(checkpoints_count);
        }
    }

    /// The size to plan for: that of the dead run, if there is one.
    pub(crate) fn size(&self, size: JobSize) -> JobSize {
        self.rest
            .as_ref()
            .map_or(size, |rest| rest.restored.settled.size.clone())
    }

    /// Scratch for the plan: that of the dead run, if there is one.
    ///
    /// # Errors
    /// The device's error; no room.
    pub(crate) fn scratch<'e>(
        &mut self,
        job: &'e Job,
        ends: &'e Ends<'_>,
        scratch_bytes: u64,
        is_needed: bool,
    ) -> Result<LazyScratch<'e>> {
        let Some(rest) = self.rest.take() else {
            return ends.scratch(job, scratch_bytes, is_needed);
        };
        let FoundRest {
            scratch_dirs,
            restored,
            age,
        } = rest;
        self.age = age;
        let log_ends = restored.log_ends();
        self.restored = Some(restored);
        ends.scratch_again(job, scratch_dirs, &log_ends, scratch_bytes)
    }

    /// The checkpoints of a job that distributes its input, if it keeps a journal. `size` is what
    /// [`Staged::size`] has returned.
    ///
    /// # Errors
    /// The journal cannot be written; the dead run divided its data in another way.
    pub(crate) fn checkpoints<'s>(
        &mut self,
        partition: &Partition<'s>,
        staged: &'s StagedOutput,
        size: JobSize,
        division: Division,
        reading: Reading<impl Fn(usize) -> bool>,
    ) -> Result<Option<Checkpoints<'s>>> {
        let Some((mark, identity)) = self.mark.take().zip(self.identity.take()) else {
            return Ok(None);
        };
        let scratch = partition.scratch.get()?;
        let settled = Settled {
            size,
            seed: partition.job.options.seed,
            rows_memory_bytes: self.rows_memory_bytes,
            division,
            scratch_names: names_of(scratch),
            bands: scratch.bands(),
        };
        let restored = self.restored.take();
        if restored
            .as_ref()
            .is_some_and(|restored| restored.settled != settled)
        {
            let cause = "the killed job divided its data in another way";
            return Err(Error::new(Kind::Usage, RESUME, cause).hint(GIVE_UP));
        }
        if restored.is_some() {
            partition.job.control.note(continues(self.age));
        }
        let continued = restored.map(|restored| Continued {
            left: restored.left(reading.is_counted, reading.is_whole),
            restored,
        });
        let setting = Setting {
            volume: partition.volume,
            scratch,
            staged,
            budget: Budget::new(Pool::total_bytes(BUFFER_BYTES, 1)),
            mark,
            identity,
            settled,
            is_read_again: reading.is_whole,
        };
        Checkpoints::new(setting, continued).map(Some)
    }
}

/// Fails if a job has less memory than the plan of the dead run needs.
///
/// # Errors
/// [`Kind::Memory`], with the memory that is enough.
pub(crate) fn check_memory(job: &Job, ledger: &Ledger) -> Result<()> {
    match job.options.resume {
        Some(_) => check_room(job, ledger.bytes()),
        None => Ok(()),
    }
}

/// Fails if a job has less than `needed_bytes` of free memory, which the dead run used.
///
/// # Errors
/// [`Kind::Memory`], with the memory that is enough.
pub(crate) fn check_room(job: &Job, needed_bytes: u64) -> Result<()> {
    let free_bytes = job.budget.free_bytes();
    if needed_bytes <= free_bytes {
        return Ok(());
    }
    let enough_bytes = job.options.memory_bytes + (needed_bytes - free_bytes);
    let cause = format!(
        "the plan of the killed job needs {}",
        units::bytes(enough_bytes)
    );
    let enough_bytes = enough_bytes.next_multiple_of(1 << 20);
    Err(Error::new(Kind::Memory, "resume", cause).hint(allow_hint(enough_bytes)))
}

/// A sum over the items of a sample that does not depend on their order.
pub(crate) fn sum_of<'s>(items: impl Iterator<Item = &'s [u8]>) -> u64 {
    items.map(bytes_checksum).fold(0, u64::wrapping_add)
}

/// Names of the private directories of scratch.
fn names_of(scratch: &Scratch) -> Vec<Vec<u8>> {
    let names = scratch
        .dirs()
        .map(|dir| dir.path().file_name().unwrap_or_default());
    names.map(|name| name.as_bytes().to_vec()).collect()
}
