//! A sort of numbers or records that can be resumed, from its beginning to its checkpoints.
//!
//! Contract: [`Resumed`] follows the steps of a sort: it finds what a dead run has left, stages the
//! output and scratch in the directories of that run, and makes the checkpoints. A resumed sort has
//! the plan, the seed and the threads of the dead one, whatever this run was given, so that its
//! splitters are the same; a sum over the sample checks that. Without a request to resume, every
//! step does what it would do anyway.

use std::os::unix::ffi::OsStrExt;

use super::SortOptions;
use super::distribute::join_restored;
use super::elements::Elements;
use super::plan::SortPlan;
use super::shared::Shared;
use super::source::Amount;
use super::splitters::KeySplitters;
use crate::ends::Output;
use crate::job::{Job, JobSize};
use crate::key::record::RecordFormat;
use crate::partition::LazyScratch;
use crate::partition::bucket::Bucket;
use crate::partition::checkpoint::{Checkpoints, Setting};
use crate::partition::driver::Ends;
use crate::partition::restored::{Continued, Identity, IdentityOption, Restored, Settled};
use crate::partition::resume::{FoundRest, Resuming};
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::private_dir::Resumable;
use outcore_io::journal::{BUFFER_BYTES, JOURNAL_LINE};
use outcore_io::memory::{Budget, Pool, Reservation, allow_hint};
use outcore_io::output::{Room, StagedOutput};
use outcore_io::scratch::Scratch;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// The beginning of a sort that may be resumed.
pub(super) struct Resumed {
    resuming: Option<Resuming>,
    /// What determines the bytes of the output, besides the inputs.
    options: Vec<IdentityOption>,
    memory: Option<Reservation>,
}

/// The same with a staged output.
pub(super) struct Staged {
    mark: Option<Resumable>,
    identity: Option<Identity>,
    rest: Option<FoundRest>,
    restored: Option<Restored>,
    _memory: Option<Reservation>,
}

/// The options that determine the bytes of a sort's output.
pub(super) fn options_of(format: &RecordFormat, options: SortOptions) -> Vec<IdentityOption> {
    let pair = |name: &str, value: String| IdentityOption {
        name: name.to_owned(),
        value,
    };
    vec![
        pair("type", format.to_string()),
        pair("descending order", options.descending.to_string()),
        pair("stable order", options.stable.to_string()),
        pair("choice of one record per key", options.unique.to_string()),
    ]
}

fn refused(cause: &str) -> Error {
    Error::usage("resume", cause).hint("run it without a journal")
}

impl Resumed {
    /// Finds the dead run of this sort, if the job keeps a journal.
    ///
    /// # Errors
    /// Usage: a sort that cannot be resumed; another run holds it.
    pub(super) fn begin(
        job: &Job,
        output: &Output,
        options: SortOptions,
        identity: Vec<IdentityOption>,
    ) -> Result<Self> {
        let is_asked = job.options.resume.is_some();
        if is_asked && options.delete_input {
            return Err(refused("a sort that frees its inputs cannot be resumed"));
        }
        let resuming = Resuming::find(job, output)?;
        let bytes = Pool::total_bytes(BUFFER_BYTES, 1);
        let memory = resuming
            .is_some()
            .then(|| job.budget.reserve(JOURNAL_LINE, bytes));
        Ok(Resumed {
            resuming,
            options: identity,
            memory: memory.transpose()?,
        })
    }

    /// The job, with the threads and the seed of the dead run.
    pub(super) fn job(&self, job: &Job) -> Job {
        match &self.resuming {
            Some(resuming) => Job {
                options: resuming.options(&job.options),
                ..job.clone()
            },
            None => job.clone(),
        }
    }

    /// Stages the output, in the directory of the dead run if there is one.
    ///
    /// # Errors
    /// The dead run was another job; the errors of staging.
    pub(super) fn stage(
        self,
        job: &Job,
        ends: &Ends<'_>,
        options: SortOptions,
        room: Room,
        amount: &Amount,
    ) -> Result<(Option<StagedOutput>, Staged)> {
        let mut later = Staged {
            mark: None,
            identity: None,
            rest: None,
            restored: None,
            _memory: self.memory,
        };
        let Some(mut resuming) = self.resuming else {
            let staged = ends.stage(options.replace, room, amount.most_bytes)?;
            return Ok((staged, later));
        };
        let mut named = self.options;
        let dirs = ends.drive_dirs().map(|dir| {
            let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
            dir.display().to_string()
        });
        named.push(IdentityOption {
            name: "place for scratch".to_owned(),
            value: dirs.collect::<Vec<_>>().join(", "),
        });
        let identity = Identity::of(&ends.parts, named);
        resuming.check(&identity)?;
        let (dir, rest) = resuming.take_dir(job)?;
        later.mark = Some(resuming.mark(&dir)?);
        later.identity = Some(identity);
        later.rest = rest;
        let staged = ends.stage_in(dir, options.replace, room, amount.most_bytes)?;
        Ok((staged, later))
    }
}

impl Staged {
    /// The size to plan for: that of the dead run, if there is one.
    pub(super) fn size(&self, size: JobSize) -> JobSize {
        self.rest
            .as_ref()
            .map_or(size, |rest| rest.restored.settled.size.clone())
    }

    /// Scratch for the plan: that of the dead run, if there is one.
    ///
    /// # Errors
    /// The device's error; no room.
    pub(super) fn scratch<'e>(
        &mut self,
        job: &'e Job,
        ends: &'e Ends<'_>,
        plan: &SortPlan,
    ) -> Result<LazyScratch<'e>> {
        let Some(rest) = self.rest.take() else {
            return ends.scratch(job, plan.scratch_bytes, plan.distributions > 0);
        };
        let FoundRest {
            scratch_dirs,
            restored,
        } = rest;
        let log_ends = restored.log_ends();
        self.restored = Some(restored);
        ends.scratch_again(job, scratch_dirs, &log_ends, plan.scratch_bytes)
    }

    /// The checkpoints of a sort that distributes its input, if it keeps a journal.
    ///
    /// # Errors
    /// The journal cannot be written; splitters that are not those of the dead run.
    pub(super) fn checkpoints<'s, E: Elements>(
        &mut self,
        shared: &Shared<'s, E>,
        scratch: &'s LazyScratch<'_>,
        staged: &'s StagedOutput,
        size: JobSize,
        sample: &[u8],
        splitters: &KeySplitters<E::Key>,
    ) -> Result<Option<Checkpoints<'s>>> {
        let Some((mark, identity)) = self.mark.take().zip(self.identity.take()) else {
            return Ok(None);
        };
        let scratch = scratch.get()?;
        let item_bytes = shared.elements.element_bytes();
        let settled = Settled {
            size,
            seed: shared.job.options.seed,
            item_bytes,
            sample_sum: sum_of(sample, item_bytes),
            bucket_count: splitters.bucket_count(),
            scratch_names: names_of(scratch),
            bands: scratch.bands(),
        };
        let restored = self.restored.take();
        if restored
            .as_ref()
            .is_some_and(|restored| restored.settled != settled)
        {
            let cause = "the killed job divided its data in another way";
            return Err(
                Error::new(Kind::Usage, "resume", cause).hint("begin anew without resuming")
            );
        }
        let is_counted = |bucket| shared.elements.is_scalar() && splitters.is_equal(bucket);
        let continued = restored.map(|restored| Continued {
            left: restored.left(is_counted),
            restored,
        });
        let setting = Setting {
            volume: shared.volume,
            scratch,
            staged,
            budget: Budget::new(Pool::total_bytes(BUFFER_BYTES, 1)),
            mark,
            identity,
            settled,
        };
        Checkpoints::new(setting, continued).map(Some)
    }
}

/// Fails if a job has less memory than the plan of the dead run needs.
///
/// # Errors
/// [`Kind::Memory`], with the memory that is enough.
pub(super) fn check_memory(job: &Job, plan: &SortPlan) -> Result<()> {
    let (needed_bytes, free_bytes) = (plan.ledger().bytes(), job.budget.free_bytes());
    if job.options.resume.is_none() || needed_bytes <= free_bytes {
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
fn sum_of(sample: &[u8], item_bytes: usize) -> u64 {
    let items = sample.chunks(item_bytes);
    items.map(bytes_checksum).fold(0, u64::wrapping_add)
}

/// Names of the private directories of scratch.
fn names_of(scratch: &Scratch) -> Vec<Vec<u8>> {
    let names = scratch
        .dirs()
        .map(|dir| dir.path().file_name().unwrap_or_default());
    names.map(|name| name.as_bytes().to_vec()).collect()
}

/// The buckets of a dead run whose distribution had ended, if nothing of them is lost.
///
/// # Errors
/// The journal cannot be written.
pub(super) fn read_again<E: Elements>(
    shared: &Shared<'_, E>,
    splitters: &KeySplitters<E::Key>,
) -> Result<Option<Vec<Bucket>>> {
    match shared.continued() {
        Some(continued) if !continued.left.needs_input() => {
            join_restored(shared, splitters, Vec::new()).map(Some)
        }
        _ => Ok(None),
    }
}
