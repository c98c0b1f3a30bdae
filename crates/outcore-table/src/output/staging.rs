//! The files of an output before they are written: their numbers of rows, and their staging.
//!
//! Contract: as the folder's. An existing file is rejected unless it may be replaced. Several files
//! have a list next to them, or a directory to themselves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::Job;
use outcore::sort::lines::RowJournal;
use outcore_io::drive::PrivateDir;
use outcore_io::drive::paths;
use outcore_io::output::{Room, SET_LIST, ShardPlan, StagedOutput};
use outcore_io::port::Volume;
use outcore_io::{Error, Result};

use super::OutputOptions;
use super::WRITE;
use super::kept::KeptTable;
use crate::input::check_room_for_set;

/// The only file of an output in the private directory of a job that keeps a journal. Its table may
/// be made later.
pub(crate) struct StagedFile {
    pub(super) volume: Arc<Volume>,
    pub(super) staged: StagedOutput,
    /// The part that a killed run has written.
    pub(super) kept: Option<KeptTable>,
    /// Whether a run that continues this one starts after the last whole section.
    pub(super) keeps_sections: bool,
}

impl StagedFile {
    /// Stages the file `path` in `dir`, and checks what the killed run of a `journal` has written.
    ///
    /// # Errors
    /// As [`TableOutput::create`](super::TableOutput::create).
    pub(crate) fn stage(
        job: &Job,
        path: &Path,
        is_replacing: bool,
        dir: PrivateDir,
        journal: &mut RowJournal,
    ) -> Result<Self> {
        let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
        let paths = [path.to_path_buf()];
        let staged = stage(job, &volume, &paths, None, is_replacing, Some(dir))?;
        let states = journal.part_states();
        let kept = match (staged.shards(), &states[..]) {
            ([shard], [_, ..]) => KeptTable::read(job, &volume, &shard.file, &states)?,
            _ => None,
        };
        if kept.is_none() && !states.is_empty() {
            let what = "the unfinished output of the killed job was changed: it is written again";
            job.control.note(what.to_owned());
            journal.keep_parts(0);
        }
        Ok(StagedFile {
            volume,
            staged,
            kept,
            keeps_sections: true,
        })
    }

    /// Returns the same file for an output that a continued run writes again as a whole.
    pub(crate) fn whole(self) -> Self {
        StagedFile {
            keeps_sections: false,
            ..self
        }
    }

    /// The unfinished file.
    pub(crate) fn staged(&self) -> &StagedOutput {
        &self.staged
    }
}

/// Rows per file, except for the last.
pub(super) fn file_rows(paths: &[PathBuf], rows_count: Option<u64>) -> Result<u64> {
    match (paths.len(), rows_count) {
        (0, _) => Err(Error::usage(WRITE, "no output given").hint("name a file")),
        (1, _) => Ok(u64::MAX),
        (count, Some(rows_count)) => Ok(rows_count.div_ceil(count as u64).max(1)),
        (_, None) => Err(Error::usage(
            WRITE,
            "the number of rows is not known in advance, so they cannot be cut into files",
        )
        .hint("write one file, and cut it with `outcore convert`")),
    }
}

/// Stages the files `paths`, which have `directory` to themselves if it is given. A single file is
/// staged in the private directory `dir`, if that is given.
pub(super) fn stage(
    job: &Job,
    volume: &Volume,
    paths: &[PathBuf],
    directory: Option<&Path>,
    is_replacing: bool,
    dir: Option<PrivateDir>,
) -> Result<StagedOutput> {
    if let Some(directory) = directory.filter(|directory| directory.is_dir()) {
        // If a killed job had decided to publish its files, this completes the publication first,
        // because these files count as existing ones.
        job.device.sweep_private_dirs(directory)?;
        check_room_for_set(directory, paths, is_replacing)?;
    }
    for path in paths {
        let exists = paths::link_facts(path).is_ok();
        if exists && !is_replacing {
            return Err(Error::usage(WRITE, "the file exists")
                .path(path)
                .hint("name another file, or replace this one with --force"));
        }
    }
    job.control.check()?;
    let plan = |path: &PathBuf| ShardPlan {
        path: path.clone(),
        header: Vec::new(),
        start_bytes: 0,
        len_bytes: 0,
    };
    let mut plans: Vec<ShardPlan> = paths.iter().map(plan).collect();
    if let Some(dir) = dir
        && let Some(plan) = plans.pop()
    {
        return StagedOutput::stage_in(volume, plan, is_replacing, Room::AtMost, dir);
    }
    if let Some(directory) = directory {
        let room = Room::AtMost;
        return StagedOutput::stage_directory(
            volume,
            directory,
            SET_LIST,
            plans,
            is_replacing,
            room,
        );
    }
    StagedOutput::stage(
        volume,
        plans,
        list_of(paths, None),
        is_replacing,
        Room::AtMost,
    )
}

/// The path of the list for a table in the files `paths`, if it has one: in `directory`, which they
/// have to themselves, or next to the first file.
pub fn list_of(paths: &[PathBuf], directory: Option<&Path>) -> Option<PathBuf> {
    match (directory, paths) {
        (Some(directory), _) => Some(directory.join(SET_LIST)),
        (None, [first, _, ..]) => Some(manifest_of(first)),
        (None, _) => None,
    }
}

/// The list of several files, which makes them appear together. Readers of tables skip names that
/// begin with `_`. Its name contains the whole name of the first file, because `a-0.csv` and
/// `a-0.parquet` belong to two sets.
fn manifest_of(first: &Path) -> PathBuf {
    let name = first.file_name().unwrap_or_default().to_string_lossy();
    let suffix = outcore_io::output::MANIFEST_SUFFIX;
    first.with_file_name(format!("_{name}{suffix}"))
}

/// The volume and the files of an output.
pub(super) struct StagedFiles {
    pub(super) volume: Arc<Volume>,
    /// `None` for a stream.
    pub(super) staged: Option<StagedOutput>,
    pub(super) kept: Option<KeptTable>,
}

/// The files of an output, the only one of which may be staged already.
pub(super) fn staged_file(
    file: Option<StagedFile>,
    job: &Job,
    paths: &[PathBuf],
    options: &OutputOptions,
) -> Result<StagedFiles> {
    if let Some(file) = file {
        return Ok(StagedFiles {
            volume: file.volume,
            staged: Some(file.staged),
            kept: file.kept,
        });
    }
    let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
    let (directory, replaces) = (options.directory.as_deref(), options.is_replacing);
    let staged = match &options.stream {
        Some(_) => None,
        None => Some(stage(job, &volume, paths, directory, replaces, None)?),
    };
    Ok(StagedFiles {
        volume,
        staged,
        kept: None,
    })
}
