//! `outcore scratch list|clean`: private directories and uploads of jobs, alive or dead.
//!
//! Contract: looks at the given directories, by default the configured drives or the current
//! directory. It also looks at directories directly inside them, where graphs and views are made.
//! The folders of partitions in these are included. It looks only at names that the engine makes.
//! It never touches four kinds of directory, and lists each with the reason: one whose lock is
//! held, because it belongs to a running job; one with the only copy of something; one of a job
//! that can be resumed; and one that only looks like one of ours. See
//! [`outcore_io::drive::private_dir`].
//!
//! In the place of a store, such as `s3://bucket`, it looks for uploads that outcore began and did
//! not complete, by their markers. It aborts those whose job has ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outcore::{Error, Result};
use outcore_front::objects::stores_of;
use outcore_front::resources::{Resources, check_dir};
use outcore_io::drive::objects::{Unfinished, is_object};
use outcore_io::drive::private_dir::{self, Resumable, State};
use outcore_io::journal::{self, Progress};
use outcore_io::units;
use serde_json::{Value, json};

use crate::cli::ScratchCommand;
use crate::context::Context;
use crate::measure::Summary;
use crate::resources;

/// Number of looks at a directory that is left over, before it counts as one that cannot be
/// removed.
const LOOKS_MAX: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &ScratchCommand) -> Result<u8> {
    let started = Instant::now();
    let resources = resources::without_flags()?;
    let (ScratchCommand::List { dirs } | ScratchCommand::Clean { dirs, .. }) = command;
    let (objects, dirs): (Vec<PathBuf>, Vec<PathBuf>) =
        dirs.iter().cloned().partition(|place| is_object(place));
    // Without a directory, the drives are meant, unless a store was named.
    let places = match objects.is_empty() || !dirs.is_empty() {
        true => dirs_of(&resources, &dirs)?,
        false => Vec::new(),
    };
    let uploads = uploads_in(&resources, &objects)?;
    let count = match command {
        ScratchCommand::List { .. } => list(context, &places, &uploads)?,
        ScratchCommand::Clean { resumable, .. } => {
            let forgotten = match resumable {
                true => forget(&places)?,
                false => Vec::new(),
            };
            let aborted = abort(context, &resources, &uploads)?;
            aborted + clean(context, &places, forgotten)?
        }
    };
    let summary = Summary::since(started).with("directories", json!(count));
    context.reporter.summary(&summary);
    Ok(0)
}

/// The unfinished uploads in places of stores.
fn uploads_in(resources: &Resources, places: &[PathBuf]) -> Result<Vec<Unfinished>> {
    let device = resources.device();
    let mut found = Vec::new();
    for place in places {
        found.extend(stores_of(&device, "look for uploads", place)?.unfinished(place)?);
    }
    Ok(found)
}

/// Aborts the uploads whose jobs have ended; returns their number.
fn abort(context: &Context, resources: &Resources, uploads: &[Unfinished]) -> Result<usize> {
    let device = resources.device();
    let mut count = 0;
    for upload in uploads {
        let name = upload.object.display().to_string();
        if upload.is_in_use {
            context
                .reporter
                .note(&format!("{name}: its upload is in use"));
            continue;
        }
        stores_of(&device, "abort upload", &upload.object)?.abort(upload)?;
        count += 1;
        context.reporter.event("removed", json!({"path": name}));
        context.reporter.data(&format!("{name}\n"));
    }
    Ok(count)
}

fn dirs_of(resources: &Resources, named: &[PathBuf]) -> Result<Vec<Place>> {
    let drives = &resources.config.drives.value.drives;
    let dirs: Vec<PathBuf> = match (named, drives.as_slice()) {
        ([], []) => vec![PathBuf::from(".")],
        ([], drives) => drives.iter().map(|drive| drive.dir.clone()).collect(),
        (named, _) => named.to_vec(),
    };
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for dir in dirs {
        check_dir("look for scratch", &dir)?;
        let mut inside = dirs_in(&dir);
        // Folders of partitions may be nested; they are searched at any depth, also in a
        // subdirectory.
        let mut next = 0;
        while let Some(folder) = inside.get(next) {
            let mut below = dirs_in(folder);
            if !is_of_partition(folder) {
                below.retain(|dir| is_of_partition(dir));
            }
            inside.extend(below);
            next += 1;
        }
        let inside = inside.into_iter().map(Place::inside);
        found.extend(std::iter::once(Place::named(dir)).chain(inside));
    }
    // A directory with two names counts once.
    found.retain(|place| {
        seen.insert(
            place
                .dir
                .canonicalize()
                .unwrap_or_else(|_| place.dir.clone()),
        )
    });
    Ok(found)
}

/// Whether a directory has the name of a partition, such as `day=7`.
fn is_of_partition(dir: &Path) -> bool {
    let name = dir.file_name();
    name.is_some_and(|name| name.as_encoded_bytes().contains(&b'='))
}

/// A directory to search.
struct Place {
    dir: PathBuf,
    /// The user did not name it, so a running job may have removed it by now.
    is_inside: bool,
}

impl Place {
    fn named(dir: PathBuf) -> Self {
        Place {
            dir,
            is_inside: false,
        }
    }

    fn inside(dir: PathBuf) -> Self {
        Place {
            dir,
            is_inside: true,
        }
    }

    /// The result of `look` there; nothing if the directory no longer exists.
    fn look<T>(&self, look: impl FnOnce(&Path) -> Result<Vec<T>>) -> Result<Vec<T>> {
        match look(&self.dir) {
            Err(error) if self.is_inside && is_gone(&error) => Ok(Vec::new()),
            found => found,
        }
    }
}

fn is_gone(error: &Error) -> bool {
    error.raw_errno() == Some(rustix::io::Errno::NOENT.raw_os_error())
}

/// The readable directories in `dir`, in order, without following links.
fn dirs_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let is_dir = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let is_own = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(b".outcore-")
    };
    let dirs = entries
        .flatten()
        .filter(|entry| is_dir(entry) && !is_own(entry));
    let readable = dirs
        .map(|entry| entry.path())
        .filter(|path| std::fs::read_dir(path).is_ok());
    let mut dirs: Vec<PathBuf> = readable.collect();
    dirs.sort();
    dirs
}

fn list(context: &Context, places: &[Place], uploads: &[Unfinished]) -> Result<usize> {
    let mut count = 0;
    for upload in uploads {
        count += 1;
        let path = upload.object.display().to_string();
        context.reporter.event(
            "scratch",
            json!({
                "path": path,
                "in_use": upload.is_in_use,
                "kept_for": None::<String>,
                "left_alone": None::<String>,
                "bytes": 0,
            }),
        );
        let text = match upload.is_in_use {
            true => "upload in use",
            false => "upload left over",
        };
        let age = units::seconds(upload.age.as_secs_f64());
        context.reporter.data(&format!("{path}\t{text}\t{age}\n"));
    }
    for place in places {
        for (path, state) in place.look(private_dir::list)? {
            count += 1;
            let size_bytes = bytes_in(&path);
            let kept_for = match &state {
                State::Kept(kept_for) => Some(kept_for.display().to_string()),
                _ => None,
            };
            let left_alone = match &state {
                State::Unknown(cause) => Some(cause.as_str()),
                _ => None,
            };
            let mark = match &state {
                State::Resumable(mark) => Some(Resume::of(mark)),
                _ => None,
            };
            let text = match (&state, &kept_for) {
                (State::InUse, _) => "in use".to_string(),
                (State::Resumable(_), _) => mark.as_ref().map(Resume::text).unwrap_or_default(),
                (State::Unknown(cause), _) => format!("left alone, since {cause}"),
                (_, Some(kept_for)) => format!("kept for {kept_for}"),
                _ => "left over".to_string(),
            };
            context.reporter.event(
                "scratch",
                json!({
                    "path": path.display().to_string(),
                    "in_use": state == State::InUse,
                    "kept_for": kept_for,
                    "resume": mark.map(|mark| mark.fields()),
                    "left_alone": left_alone,
                    "bytes": size_bytes,
                }),
            );
            context.reporter.data(&format!(
                "{}\t{text}\t{}\n",
                path.display(),
                units::bytes(size_bytes)
            ));
        }
    }
    if count == 0 {
        context.reporter.human("no scratch directories");
    }
    Ok(count)
}

/// What is known of a job that can be resumed.
struct Resume<'a> {
    command: &'a str,
    age_seconds: Option<u64>,
    progress: Option<Progress>,
}

impl<'a> Resume<'a> {
    fn of(mark: &'a Resumable) -> Self {
        Resume {
            command: &mark.command,
            age_seconds: mark.age().map(|age| age.as_secs()),
            progress: journal::progress_at(mark.journal()),
        }
    }

    fn done_percent(&self) -> Option<u64> {
        let progress = self.progress?;
        (100 * progress.done_bytes).checked_div(progress.total_bytes)
    }

    fn text(&self) -> String {
        let done = self
            .done_percent()
            .map(|percent| format!(" at {percent} %"));
        let age = self
            .age_seconds
            .map(|age| format!(", {} old", units::seconds(age.max(1) as f64)));
        let (done, age) = (done.unwrap_or_default(), age.unwrap_or_default());
        format!("resumable{done}{age}: {}", self.command)
    }

    fn fields(&self) -> Value {
        json!({
            "command": self.command,
            "age_seconds": self.age_seconds,
            "done_percent": self.done_percent(),
        })
    }
}

/// Reports why a directory that only looks like one of ours is left alone.
fn tell_unknown(context: &Context, path: &Path, state: &State) {
    if let State::Unknown(cause) = state {
        let text = format!("{}: left alone, since {cause}", path.display());
        context.reporter.note(&text);
    }
}

/// Removes the directories of jobs that can be resumed; what these jobs have left elsewhere is left
/// over from then on. Returns the directories.
fn forget(places: &[Place]) -> Result<Vec<PathBuf>> {
    let mut forgotten = Vec::new();
    for place in places {
        for (path, state) in place.look(private_dir::list)? {
            if matches!(state, State::Resumable(_)) && private_dir::forget(&path)? {
                forgotten.push(path);
            }
        }
    }
    Ok(forgotten)
}

fn tell_removed(context: &Context, path: &Path) {
    let name = path.display().to_string();
    context.reporter.event("removed", json!({"path": name}));
    context.reporter.data(&format!("{name}\n"));
}

/// Removes what is left over. Reports that and the directories that were `forgotten` before, and
/// returns the number of both.
fn clean(context: &Context, places: &[Place], forgotten: Vec<PathBuf>) -> Result<usize> {
    let mut count = forgotten.len();
    forgotten
        .iter()
        .for_each(|path| tell_removed(context, path));
    for place in places {
        let cleaned = swept(place)?;
        count += cleaned.removed.len();
        cleaned
            .removed
            .iter()
            .for_each(|path| tell_removed(context, path));
        for (path, state) in cleaned.left {
            tell_unknown(context, &path, &state);
            if let State::Kept(kept_for) = &state {
                context.reporter.note(&format!(
                    "kept {}: it has the only copy of parts of {}, as long as that file has a \
                     marker",
                    path.display(),
                    kept_for.display()
                ));
            }
            if let State::Resumable(mark) = &state {
                context.reporter.note(&format!(
                    "{} stays: its job can be resumed with: {}; --resumable removes it",
                    path.display(),
                    mark.command
                ));
            }
            if state == State::LeftOver {
                let cause = "a left-over directory cannot be removed yet";
                return Err(Error::new(outcore::Kind::Io, "clean scratch", cause)
                    .path(path)
                    .hint("check permissions, and that all drives of its job are mounted"));
            }
        }
    }
    context.reporter.human(&format!(
        "removed {}",
        units::counted(count as u64, "scratch directory")
    ));
    Ok(count)
}

/// The results for the private directories in one place.
struct Cleaned {
    removed: Vec<PathBuf>,
    left: Vec<(PathBuf, State)>,
}

/// Sweeps a place until it contains no directory that a running job is just creating or removing:
/// such a directory has no lock for a moment.
fn swept(place: &Place) -> Result<Cleaned> {
    let mut removed = Vec::new();
    let mut looks = 0;
    loop {
        removed.extend(place.look(private_dir::sweep)?);
        let left = place.look(private_dir::list)?;
        looks += 1;
        let is_settled = left.iter().all(|(_, state)| *state != State::LeftOver);
        if is_settled || looks == LOOKS_MAX {
            return Ok(Cleaned { removed, left });
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The bytes that the files in and below a directory occupy; unreadable files count as 0.
fn bytes_in(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, facts)| match facts.is_dir() {
            true => bytes_in(&path),
            false => facts.blocks() * 512,
        })
        .sum()
}
