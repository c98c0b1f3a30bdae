//! Finds the job that another run has left, and takes over its directories.
//!
//! Contract: [`Resuming::find`] looks for a dead job with the same output, before anything is
//! opened. Its directory is next to the output, under a number that follows from the output's name.
//! A run locks that directory, so of two runs that resume one job the second fails. If the journal
//! vouches for nothing, or the unfinished output is gone, the leftovers are removed and the job
//! begins anew. [`Resuming::check`] rejects a job that is not the same. Only after this check does
//! it read the unfinished output back, so that bytes that have changed are written again. A job
//! whose scratch is gone begins anew. [`Resuming::finished`] handles a job that had put its output
//! in place: the file with that name must be the one that its journal names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::restored::{
    FINISHED, Finished, Identity, IdentityOption, RESUME, Restored, another_job,
};
use crate::ends::{Output, refuse_existing, scratch_drives};
use crate::job::{Job, JobOptions, ResumeOptions};
use crate::writer::whole_pieces;
use outcore_io::drive::link::{file_behind, real_path};
use outcore_io::drive::private_dir::{Resumable, claimed_path, is_marked, reopened, sweep};
use outcore_io::drive::{Access, PrivateDir};
use outcore_io::memory::Pool;
use outcore_io::output::{STAGED_PREFIX, parent_of};
use outcore_io::port::{ScratchDrive, Volume};
use outcore_io::scratch::has_logs;
use outcore_io::{Error, Result, journal, units};

/// The line of a job's ledger for the unfinished output that is read back.
const OUTPUT_LINE: &str = "unfinished output to check";

/// The directory of a dead job's output, and the content of its journal.
pub(crate) struct Found {
    dir: PrivateDir,
    restored: Restored,
    rest: Rest,
    /// The time since its last checkpoint, if it is known.
    age: Option<Duration>,
}

/// The remains of a dead job.
enum Rest {
    /// The directories of the dead job on the scratch drives.
    Scratch(Vec<PrivateDir>),
    /// Too little to continue.
    NoScratch,
    /// The output of the dead job, which has its name.
    Output(Finished),
}

/// A job that can be resumed, or that continues a killed one.
pub(crate) struct Resuming {
    options: ResumeOptions,
    /// The directory that contains the output.
    parent: PathBuf,
    /// The key in the name of the private directory next to the output.
    key: OsString,
    /// The output.
    path: PathBuf,
    drives: Vec<ScratchDrive>,
    found: Option<Found>,
}

/// The key in the name of the private directory of a job that writes `output`.
pub(crate) fn key_of(output: &Path) -> OsString {
    let mut key = output.file_name().unwrap_or_default().to_os_string();
    key.push(" (resume)");
    key
}

/// The private directory, next to `output`, of a job that writes `output`.
pub(crate) fn dir_of(output: &Path) -> PathBuf {
    claimed_path(parent_of(output), &key_of(output))
}

/// The mark for the directories of a job whose journal is in `dir`.
///
/// # Errors
/// The system's error.
pub(crate) fn mark_of(options: &ResumeOptions, dir: &PrivateDir) -> Result<Resumable> {
    let journal = journal::path_in(dir.path());
    Resumable::new(&journal, options.keep, &options.command)
}

/// The mark of a dead job that wrote `output` and can be resumed.
pub fn resumable(output: &Path) -> Option<Resumable> {
    let output = file_behind(RESUME, output).ok()?;
    outcore_io::drive::private_dir::resumable_at(&dir_of(&output))
}

/// Whether the progress of a job that writes `output` is kept, for a run that continues it.
pub fn is_kept(output: &Path) -> bool {
    file_behind(RESUME, output).is_ok_and(|output| is_marked(&dir_of(&output)))
}

/// Whether a dead job had finished the file that is at `output`, and left its journal. This does
/// not check whether the job was the same.
///
/// # Errors
/// Usage: the job is running. The system's error; a damaged journal.
pub fn was_published(output: &Path) -> Result<bool> {
    let Ok(output) = file_behind(RESUME, output) else {
        return Ok(false);
    };
    if !output.exists() {
        return Ok(false);
    }
    let Some(dir) = reopened(&dir_of(&output))? else {
        // A run that was killed after it had removed its journal may have left its directory.
        sweep(parent_of(&output))?;
        return Ok(false);
    };
    let mut finished: Option<Finished> = None;
    journal::read(&dir, |record| {
        if record.kind == FINISHED {
            finished = Some(record.value()?);
        }
        Ok(())
    })?;
    Ok(finished.is_some_and(|finished| finished.is_at(&output)))
}

/// Removes the directory and the journal of this job, so that it begins anew.
///
/// # Errors
/// Usage: another run holds it. The system's error.
pub(crate) fn forget(job: &Job, output: &Output) -> Result<()> {
    let (Some(_), Output::File { path, .. }) = (&job.options.resume, output) else {
        return Ok(());
    };
    let path = file_behind(RESUME, path)?;
    let dir = job.device.reopen_private_dir(&dir_of(&path))?;
    // Dropping the directory removes it.
    dir.iter().for_each(PrivateDir::release);
    Ok(())
}

impl Resuming {
    /// Finds the dead job with the same output; `None` if the job keeps no journal.
    ///
    /// # Errors
    /// Usage: another run holds it; an output that is not one file. The system's error.
    pub(crate) fn find(job: &Job, output: &Output) -> Result<Option<Self>> {
        let Some(options) = job.options.resume.clone() else {
            return Ok(None);
        };
        let Output::File { path, .. } = output else {
            let cause = "only a job that writes one file can be resumed";
            return Err(Error::usage(RESUME, cause).hint("write one file"));
        };
        let path = file_behind("create output", path)?;
        let mut resuming = Resuming {
            options,
            parent: parent_of(&path).to_path_buf(),
            key: key_of(&path),
            path,
            drives: scratch_drives(job, output),
            found: None,
        };
        let dir = claimed_path(&resuming.parent, &resuming.key);
        let Some(dir) = job.device.reopen_private_dir(&dir)? else {
            return Ok(Some(resuming));
        };
        let age = resuming.mark(&dir)?.age();
        let restored = Restored::read(&dir)?;
        let rest = match &restored {
            Some(restored) => resuming.rest_of(job, &dir, restored)?,
            None => {
                job.control.note(NOTHING_VOUCHED.to_owned());
                None
            }
        };
        match restored.zip(rest) {
            Some((restored, rest)) => {
                resuming.found = Some(Found {
                    dir,
                    restored,
                    rest,
                    age,
                });
            }
            // Dropping the directory removes it.
            None => dir.release(),
        }
        Ok(Some(resuming))
    }

    /// The rest of a dead job whose journal in `dir` has this content; `None` if nothing of it can
    /// be used.
    ///
    /// # Errors
    /// Usage: other places for scratch. The system's error.
    fn rest_of(&self, job: &Job, dir: &PrivateDir, restored: &Restored) -> Result<Option<Rest>> {
        let finished = restored.finished.filter(|file| file.is_at(&self.path));
        if let Some(finished) = finished {
            return Ok(Some(Rest::Output(finished)));
        }
        if !staged_in(dir).exists() {
            let what = "the unfinished output of the killed job is gone; it begins anew";
            job.control.note(what.to_owned());
            return Ok(None);
        }
        if let Some(difference) = restored.identity.difference_in(&self.place()) {
            return Err(self.refused(&difference));
        }
        let dirs = self.scratch_dirs(job, restored)?;
        let is_all = dirs.len() == restored.settled.scratch_names.len()
            && dirs.len() == self.drives.len()
            && has_logs(&dirs, &restored.log_ends());
        Ok(Some(match is_all {
            true => Rest::Scratch(dirs),
            false => Rest::NoScratch,
        }))
    }

    /// The directories on the scratch drives that are still there.
    fn scratch_dirs(&self, job: &Job, restored: &Restored) -> Result<Vec<PrivateDir>> {
        use std::os::unix::ffi::OsStringExt;
        let names = &restored.settled.scratch_names;
        let mut dirs = Vec::new();
        for (drive, name) in self.drives.iter().zip(names) {
            let path = drive.dir.join(OsString::from_vec(name.clone()));
            if drive.dir.is_dir() {
                dirs.extend(job.device.reopen_private_dir(&path)?);
            }
        }
        Ok(dirs)
    }

    /// The option of the identity that says where scratch is.
    pub(crate) fn place(&self) -> IdentityOption {
        let dirs = self.drives.iter().map(|drive| real_path(&drive.dir));
        let dirs = dirs.map(|dir| dir.display().to_string());
        IdentityOption::of("place for scratch", dirs.collect::<Vec<_>>().join(", "))
    }

    fn refused(&self, difference: &str) -> Error {
        another_job(claimed_path(&self.parent, &self.key), difference)
    }

    /// Fails unless the job that is resumed is the one that `identity` describes. If it is, the
    /// lost bytes of its unfinished output are written again. If its scratch is gone, the job
    /// begins anew.
    ///
    /// # Errors
    /// Usage, with the first difference. The device's error; memory.
    pub(crate) fn check(&mut self, job: &Job, identity: &Identity) -> Result<()> {
        let Some(found) = &mut self.found else {
            return Ok(());
        };
        if let Some(difference) = found.restored.identity.difference(identity, None) {
            return Err(self.refused(&difference));
        }
        let has_scratch = match &found.rest {
            Rest::Scratch(dirs) => {
                found.restored.check_output(job, &found.dir)?;
                has_logs(dirs, &found.restored.log_ends())
            }
            Rest::NoScratch => false,
            Rest::Output(_) => true,
        };
        if !has_scratch {
            let what = "the scratch of the killed job is gone; it begins anew";
            job.control.note(what.to_owned());
            self.give_up(job)?;
        }
        Ok(())
    }

    /// The output of a dead job, if `identity` describes that job and its output is in place.
    /// Nothing is left to do then, and everything else that it left is removed. If the dead job was
    /// another one, the new job begins anew, and needs `replace` if that output exists.
    ///
    /// # Errors
    /// Usage: the output exists. The system's error.
    pub(crate) fn finished(
        &mut self,
        job: &Job,
        identity: &Identity,
        replace: bool,
    ) -> Result<Option<Finished>> {
        let Some(Found { restored, rest, .. }) = &self.found else {
            return Ok(None);
        };
        let Rest::Output(finished) = *rest else {
            return Ok(None);
        };
        let difference = restored.identity.difference(identity, Some(&finished));
        if difference.is_some() {
            refuse_existing(std::iter::once(self.path.as_path()), replace)?;
        }
        self.give_up(job)?;
        if difference.is_none() {
            self.sweep(job)?;
            let what = "the killed run had put its output in place; nothing is left to do";
            job.control.note(what.to_owned());
        }
        Ok(difference.is_none().then_some(finished))
    }

    /// Removes directories without a mark. A killed run had made them in addition to those of its
    /// journal, or was removing them.
    fn sweep(&self, job: &Job) -> Result<()> {
        let dirs = self.drives.iter().map(|drive| &drive.dir);
        for dir in dirs.chain([&self.parent]).filter(|dir| dir.is_dir()) {
            job.device.sweep_private_dirs(dir)?;
        }
        Ok(())
    }

    /// Removes the files of a dead job, its journal last.
    fn give_up(&mut self, job: &Job) -> Result<()> {
        let Some(found) = self.found.take() else {
            return Ok(());
        };
        let dirs = match found.rest {
            Rest::Scratch(dirs) => dirs,
            Rest::NoScratch | Rest::Output(_) => self.scratch_dirs(job, &found.restored)?,
        };
        dirs.iter().for_each(PrivateDir::release);
        drop(dirs);
        found.dir.release();
        Ok(())
    }

    /// The journal of a dead job that can be continued.
    pub(crate) fn restored(&self) -> Option<&Restored> {
        let found = self.found.as_ref()?;
        matches!(found.rest, Rest::Scratch(_)).then_some(&found.restored)
    }

    /// The private directory for the output, and the state that was restored.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub(crate) fn take_dir(&mut self, job: &Job) -> Result<(PrivateDir, Option<FoundRest>)> {
        self.sweep(job)?;
        if let Some(Found {
            dir,
            restored,
            rest: Rest::Scratch(scratch_dirs),
            age,
        }) = self.found.take()
        {
            let rest = FoundRest {
                scratch_dirs,
                restored,
                age,
            };
            return Ok((dir, Some(rest)));
        }
        let dir = job.device.claim_private_dir(&self.parent, &self.key)?;
        Ok((dir, None))
    }

    /// The mark for the directories of the job, whose journal is in `dir`.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn mark(&self, dir: &PrivateDir) -> Result<Resumable> {
        mark_of(&self.options, dir)
    }

    /// The options of a job that follows the plan of the dead one.
    pub(crate) fn options(&self, options: &JobOptions) -> JobOptions {
        match self.restored() {
            Some(restored) => JobOptions {
                threads: restored.settled.size.threads,
                seed: restored.settled.seed,
                ..options.clone()
            },
            None => options.clone(),
        }
    }
}

/// The rest of a dead job, except for the directory of its output.
pub(crate) struct FoundRest {
    pub(crate) scratch_dirs: Vec<PrivateDir>,
    pub(crate) restored: Restored,
    /// The time since the last checkpoint, if it is known.
    pub(crate) age: Option<Duration>,
}

/// The remark on a job whose journal is damaged, or was never committed.
pub(crate) const NOTHING_VOUCHED: &str =
    "the journal of the killed job vouches for nothing; the job begins anew";

/// The remark on a job that continues, this time after its last checkpoint.
pub(crate) fn continues(age: Option<Duration>) -> String {
    let ago = age.map(|age| units::seconds(age.as_secs_f64()));
    let ago = ago.map_or(String::new(), |ago| {
        format!(", {ago} after its last checkpoint")
    });
    format!("continues the run that was killed{ago}")
}

/// The path of the unfinished output in its private directory.
fn staged_in(dir: &PrivateDir) -> PathBuf {
    dir.path().join(format!("{STAGED_PREFIX}0"))
}

impl Restored {
    /// Reads back the bytes that the unfinished output in `dir` must hold. Forgets the bytes that
    /// the file does not hold, so that they are written again.
    ///
    /// # Errors
    /// The device's error; memory; a request to stop.
    fn check_output(&mut self, job: &Job, dir: &PrivateDir) -> Result<()> {
        let pieces = self.needed_pieces();
        let bytes = pieces.iter().map(|piece| piece.len_bytes).sum();
        job.control.begin_phase("check unfinished output", bytes);
        let volume = Volume::new(Arc::clone(&job.device), &[])?;
        let file = volume.open(&staged_in(dir), Access::Read)?;
        let pool = Pool::passing(&job.budget, OUTPUT_LINE)?;
        let control = &job.control;
        let whole = whole_pieces(&volume, &file, &pieces, &pool, || control.check());
        volume.close(&file);
        let lost_bytes = self.keep_whole(&whole?);
        if lost_bytes > 0 {
            control.note(format!(
                "the unfinished output of the killed job was changed: {} are written again",
                units::bytes(lost_bytes)
            ));
        }
        Ok(())
    }
}
