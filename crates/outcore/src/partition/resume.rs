//! Finds the job that another run has left, and takes over its directories.
//!
//! Contract: [`Resuming::find`] looks for a dead job with the same output, before anything is
//! opened. Its directory is next to the output, under a number that follows from the output's name.
//! It holds the lock, so of two runs that resume one job the second fails. If the journal vouches
//! for nothing, or if scratch or the unfinished output is gone, what is left is removed and the job
//! begins anew. [`Resuming::check`] rejects a job that is not the same.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::restored::{Identity, Restored, Settled};
use crate::ends::{Output, scratch_drives};
use crate::job::{Job, JobOptions, ResumeOptions};
use outcore_io::drive::PrivateDir;
use outcore_io::drive::link::file_behind;
use outcore_io::drive::private_dir::{Resumable, claimed_path, remove_without, sweep};
use outcore_io::journal;
use outcore_io::output::{STAGED_PREFIX, parent_of};
use outcore_io::{Error, Result};

const RESUME: &str = "resume";

/// The directories of a dead job, and what its journal says.
pub(crate) struct Found {
    pub(crate) dir: PrivateDir,
    pub(crate) scratch_dirs: Vec<PrivateDir>,
    pub(crate) restored: Restored,
}

/// A job that can be resumed, or is.
pub(crate) struct Resuming {
    options: ResumeOptions,
    /// The directory that contains the output.
    parent: PathBuf,
    /// What names the private directory next to the output.
    key: OsString,
    pub(crate) found: Option<Found>,
}

/// What names the private directory of a job that writes `output`.
fn key_of(output: &Path) -> OsString {
    let mut key = output.file_name().unwrap_or_default().to_os_string();
    key.push(" (resume)");
    key
}

/// The mark of a dead job that wrote `output` and can be resumed.
pub fn resumable(output: &Path) -> Option<Resumable> {
    let output = file_behind(RESUME, output).ok()?;
    let path = claimed_path(parent_of(&output), &key_of(&output));
    outcore_io::drive::private_dir::resumable_at(&path)
}

/// Whether a dead job had put `output` in place, and left only its directory, which is removed. Its
/// scratch is left over then, and the next job on its drives removes it.
///
/// # Errors
/// Usage: the job is running. The system's error.
pub fn was_published(output: &Path) -> Result<bool> {
    let Ok(output) = file_behind(RESUME, output) else {
        return Ok(false);
    };
    let parent = parent_of(&output);
    let path = claimed_path(parent, &key_of(&output));
    let staged = format!("{STAGED_PREFIX}0");
    let is_published = output.exists() && remove_without(&path, &staged)?;
    if is_published {
        sweep(parent)?;
    }
    Ok(is_published)
}

/// Gives up what this job has left in its directory, and its journal, so that it begins anew.
///
/// # Errors
/// Usage: another run holds it. The system's error.
pub(crate) fn forget(job: &Job, output: &Output) -> Result<()> {
    let (Some(_), Output::File { path, .. }) = (&job.options.resume, output) else {
        return Ok(());
    };
    let path = file_behind(RESUME, path)?;
    let dir = claimed_path(parent_of(&path), &key_of(&path));
    let dir = job.device.reopen_private_dir(&dir)?;
    // Dropping it removes it.
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
            found: None,
        };
        let dir = claimed_path(&resuming.parent, &resuming.key);
        let Some(dir) = job.device.reopen_private_dir(&dir)? else {
            return Ok(Some(resuming));
        };
        let restored = Restored::read(&dir)?;
        let has_output = dir.path().join(format!("{STAGED_PREFIX}0")).exists();
        let Some(restored) = restored.filter(|_| has_output) else {
            // Dropping it removes it.
            dir.release();
            return Ok(Some(resuming));
        };
        match scratch_dirs(job, output, &restored.settled)? {
            Some(scratch_dirs) => {
                resuming.found = Some(Found {
                    dir,
                    scratch_dirs,
                    restored,
                });
            }
            None => {
                job.control
                    .note("the scratch of the killed job is gone; it begins anew".to_owned());
                dir.release();
            }
        }
        Ok(Some(resuming))
    }

    /// Fails unless the job that is resumed is the one that `identity` describes.
    ///
    /// # Errors
    /// Usage, with the first difference.
    pub(crate) fn check(&self, identity: &Identity) -> Result<()> {
        let found = self.found.as_ref();
        let difference = found.and_then(|found| found.restored.identity.difference(identity));
        match difference {
            None => Ok(()),
            Some(difference) => Err(Error::usage(
                RESUME,
                format!("the killed job with this output is another one: {difference}"),
            )
            .path(claimed_path(&self.parent, &self.key))
            .hint("resume it with its own inputs and options, or begin anew without resuming")),
        }
    }

    /// The private directory for the output, and what was restored.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn take_dir(&mut self, job: &Job) -> Result<(PrivateDir, Option<FoundRest>)> {
        if let Some(found) = self.found.take() {
            let rest = FoundRest {
                scratch_dirs: found.scratch_dirs,
                restored: found.restored,
            };
            return Ok((found.dir, Some(rest)));
        }
        job.device.sweep_private_dirs(&self.parent)?;
        let dir = job.device.claim_private_dir(&self.parent, &self.key)?;
        Ok((dir, None))
    }

    /// The mark for the directories of the job, whose journal is in `dir`.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn mark(&self, dir: &PrivateDir) -> Result<Resumable> {
        let journal = journal::path_in(dir.path());
        Resumable::new(&journal, self.options.keep, &self.options.command)
    }

    /// The options of a job that follows the plan of the dead one.
    pub(crate) fn options(&self, options: &JobOptions) -> JobOptions {
        match &self.found {
            Some(found) => JobOptions {
                threads: found.restored.settled.size.threads,
                seed: found.restored.settled.seed,
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
}

/// The directories on the scratch drives; `None` if one is gone.
fn scratch_dirs(job: &Job, output: &Output, settled: &Settled) -> Result<Option<Vec<PrivateDir>>> {
    use std::os::unix::ffi::OsStringExt;
    let drives = scratch_drives(job, output);
    let mut dirs = Vec::new();
    for (drive, name) in drives.iter().zip(&settled.scratch_names) {
        let path = drive.dir.join(OsString::from_vec(name.clone()));
        match job.device.reopen_private_dir(&path)? {
            Some(dir) => dirs.push(dir),
            None => {
                dirs.iter().for_each(PrivateDir::release);
                return Ok(None);
            }
        }
    }
    let is_all = drives.len() == settled.scratch_names.len();
    if !is_all {
        let (was, is) = (settled.scratch_names.len(), drives.len());
        let cause = format!("the killed job had {was} drives for scratch, and {is} are given now");
        return Err(Error::usage(RESUME, cause).hint("give the same drives in the same order"));
    }
    Ok(Some(dirs))
}
