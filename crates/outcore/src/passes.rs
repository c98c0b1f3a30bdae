//! Jobs in passes that can be resumed: from the search for a dead run to the naming of the output.
//!
//! Contract: [`KeptPasses::begin`] looks for a dead run with the same output before the first pass.
//! Its directory is next to the output, under a number that follows from the output's name, and its
//! lock admits one run at a time. If the dead run belongs to another job, `begin` fails, names the
//! difference, and removes nothing. From then on the job keeps its state ([`crate::states`]). The
//! result is written to a file below the private directory ([`KeptPasses::result`]).
//! [`KeptPasses::publish`] records which file that is, and gives it the output's name; the
//! directory is removed last. A run that finds that very file at the output's name repeats the
//! passes after the last state, and its result is dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ends::{Input, open_inputs, refuse_existing};
use crate::job::Job;
use crate::partition::restored::{
    FINISHED, Finished, IDENTITY, Identity, IdentityOption, RESUME, another_job,
};
use crate::partition::resume::{NOTHING_VOUCHED, continues, dir_of, key_of, mark_of};
use crate::states::{Keeping, LastStates, STATE, StateRecord, States};
use outcore_io::drive::link::file_behind;
use outcore_io::drive::{Access, PrivateDir};
use outcore_io::journal::{self, Journal, JournalEnd, KINDS_FROM, Progress};
use outcore_io::output::{Room, STAGED_PREFIX, ShardPlan, StagedOutput, parent_of};
use outcore_io::port::Volume;
use outcore_io::{Error, Kind, Result};

/// The folder of the result in the private directory.
const RESULT: &str = "tree";

/// A job in passes: what its output depends on, and where it goes.
#[derive(Debug, Clone, Copy)]
pub struct PassRequest<'a> {
    /// The output.
    pub output: &'a Path,
    /// Whether the output may replace an existing file.
    pub replace: bool,
    /// What the job reads.
    pub inputs: &'a [Input],
    /// The options of the job, and everything else that changes the output: names in words, and
    /// values.
    pub options: &'a [JobOption],
}

/// An option of a job, for the comparison with a killed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOption {
    /// The name of the option in words.
    pub name: &'static str,
    /// The value of the option, as text.
    pub value: String,
}

/// The journal of a dead run.
struct Found {
    identity: Identity,
    last: Option<StateRecord>,
    /// The previous state, in the other file.
    previous: Option<StateRecord>,
    finished: Option<Finished>,
    end: JournalEnd,
}

impl Found {
    /// Reads a journal; `None` if it vouches for nothing.
    fn read(dir: &PrivateDir) -> Result<Option<Self>> {
        let (mut identity, mut finished) = (None, None);
        let mut states = LastStates::default();
        let end = journal::read(dir, |record| {
            match record.kind {
                IDENTITY => identity = Some(record.value()?),
                STATE => states.add(record.value()?),
                FINISHED => finished = Some(record.value()?),
                kind if kind >= KINDS_FROM => {
                    let difference =
                        "the killed job divided its data, and this job reads the data in passes";
                    return Err(another_job(dir.path().to_path_buf(), difference));
                }
                _ => {}
            }
            Ok(())
        })?;
        let found = end.zip(identity).map(|(end, identity)| Found {
            identity,
            last: states.last,
            previous: states.previous,
            finished,
            end,
        });
        Ok(found)
    }
}

/// A job in passes that keeps its state.
#[derive(Debug)]
pub struct KeptPasses {
    output: PathBuf,
    replace: bool,
    states: Arc<States>,
    /// The folder for the result.
    folder: PathBuf,
    is_finished: bool,
}

impl KeptPasses {
    /// Finds the dead run of this job, or begins a journal. From now on `job` keeps its state.
    ///
    /// # Errors
    /// Usage: the dead run was another job; another run holds it; the output exists. Corrupt: a
    /// damaged journal. Memory; the device's error.
    pub fn begin(job: &mut Job, request: &PassRequest<'_>) -> Result<Self> {
        // The steps of the job keep no journals of their own.
        let Some(resume) = job.options.resume.take() else {
            return Err(Error::usage(RESUME, "the job keeps no journal"));
        };
        let output = file_behind("create output", request.output)?;
        let volume = Volume::new(Arc::clone(&job.device), &[])?;
        let parts = open_inputs(&volume, request.inputs, 1, Access::Read)?;
        let option = |option: &JobOption| IdentityOption::of(option.name, &option.value);
        let identity = Identity::of(&parts, request.options.iter().map(option).collect());
        parts.iter().for_each(|part| volume.close(&part.file));
        let (dir, found) = find(job, &output, &identity, request.replace)?;
        let finished = found.as_ref().and_then(|found| found.finished);
        let is_finished = finished.is_some();
        if !is_finished {
            refuse_existing(std::iter::once(output.as_path()), request.replace)?;
        }
        let mark = mark_of(&resume, &dir)?;
        let is_continued = found.is_some() && !is_finished;
        let remark = is_continued.then(|| continues(mark.age()));
        let journal = match &found {
            Some(found) => Journal::reopen(&volume, &dir, &job.budget, found.end)?,
            None => {
                let mut journal = Journal::create(&volume, &dir, &job.budget)?;
                journal.append_value(&volume, IDENTITY, &identity)?;
                journal
            }
        };
        let folder = dir.path().join(RESULT);
        if !folder.exists() {
            dir.make_folder(Path::new(RESULT))?;
        }
        let (last, previous) = found.map_or((None, None), |found| (found.last, found.previous));
        let keeping = Keeping {
            volume,
            mark,
            dir,
            journal,
            last,
            previous,
            remark,
        };
        let states = Arc::new(States::new(keeping, &job.budget)?);
        job.states = Some(Arc::clone(&states));
        Ok(KeptPasses {
            output,
            replace: request.replace,
            states,
            folder,
            is_finished,
        })
    }

    /// Whether the dead run had put the output in place; nothing is left to write then.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// The file to which the result is written, which may exist. It has the name of the output.
    pub fn result(&self) -> PathBuf {
        self.folder
            .join(self.output.file_name().unwrap_or_default())
    }

    /// The states of the job.
    pub fn states(&self) -> &States {
        &self.states
    }

    /// Gives the written result the output's name, unless the dead run has done so, and removes
    /// what the job has kept.
    ///
    /// # Errors
    /// A file that appeared at the output's name; the device's error.
    pub fn publish(&self, job: &Job) -> Result<()> {
        let Some(ended) = self.states.end() else {
            return Ok(());
        };
        if self.is_finished {
            ended.dir.release();
            return Ok(());
        }
        let volume = self.states.volume();
        let staged = ended.dir.path().join(format!("{STAGED_PREFIX}0"));
        job.device.rename(&self.result(), &staged, true)?;
        let written = volume.open(&staged, Access::Read)?;
        volume.close(&written);
        let len_bytes = written.facts.len_bytes;
        let plan = ShardPlan {
            path: self.output.clone(),
            header: Vec::new(),
            start_bytes: 0,
            len_bytes,
        };
        let mut journal = ended.journal;
        if !ended.is_marked {
            // A run that was killed after the next step must find its journal.
            ended.dir.keep_to_resume(self.states.mark())?;
        }
        let staged = StagedOutput::stage_in(volume, plan, self.replace, Room::Exactly, ended.dir)?;
        let dirs = staged.publish_vouched(volume, len_bytes, |file| {
            let facts = volume.device().facts(file.id)?;
            journal.append_value(volume, FINISHED, &Finished::of(&facts, 0, 0))?;
            journal.commit(volume, Progress::default())?;
            journal.close(volume);
            Ok(())
        })?;
        // The directory goes last: until then, the next run knows that the output is finished.
        drop(dirs);
        Ok(())
    }
}

/// The directory for a job with this output, and what a dead run of the same job has left in it.
///
/// # Errors
/// As [`KeptPasses::begin`].
fn find(
    job: &Job,
    output: &Path,
    identity: &Identity,
    replace: bool,
) -> Result<(PrivateDir, Option<Found>)> {
    let path = dir_of(output);
    if let Some(dir) = job.device.reopen_private_dir(&path)? {
        if let Some(mut found) = Found::read(&dir)? {
            found.finished = found.finished.filter(|file| file.is_at(output));
            let finished = found.finished.as_ref();
            match (finished, found.identity.difference(identity, finished)) {
                (None, Some(difference)) => return Err(another_job(path, &difference)),
                (Some(_), Some(_)) => {
                    refuse_existing(std::iter::once(output), replace)?;
                }
                (is_finished, None) => {
                    if is_finished.is_some() {
                        let what = "the killed run had put its output in place; nothing is written";
                        job.control.note(what.to_owned());
                    }
                    let is_there = |state: &StateRecord| state.is_in(&dir);
                    let had_state = found.last.is_some();
                    found.previous = found.previous.filter(is_there);
                    found.last = found
                        .last
                        .filter(is_there)
                        .or_else(|| found.previous.take());
                    if found.last.is_some() || !had_state {
                        return Ok((dir, Some(found)));
                    }
                    let what = "the state of the killed job is gone; it begins anew";
                    job.control.note(what.to_owned());
                }
            }
        } else {
            job.control.note(NOTHING_VOUCHED.to_owned());
        }
        // The directory is of no use; dropping it removes it.
        dir.release();
    }
    let parent = parent_of(output);
    job.device.sweep_private_dirs(parent)?;
    let dir = job.device.claim_private_dir(parent, &key_of(output))?;
    match dir.path() == path {
        true => Ok((dir, None)),
        false => Err(Error::new(Kind::Io, RESUME, "its directory has another name").path(path)),
    }
}
