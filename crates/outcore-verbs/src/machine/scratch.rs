//! `scratch list` and `scratch clean`: private directories and uploads of jobs, alive or dead.
//!
//! Contract: looks only at names that the engine makes. It never touches four kinds of directory,
//! and lists each such directory with the reason:
//! - directories whose lock is held (they belong to a running job),
//! - directories with the only copy of some data,
//! - directories of jobs that can be resumed,
//! - directories that only look like ours. See [`outcore_io::drive::private_dir`].
//!
//! In the place of a store, such as `s3://bucket`, it looks for uploads that outcore began and did
//! not complete, by their markers. It aborts those whose job has ended.

use std::path::{Path, PathBuf};
use std::time::Duration;

use outcore::{Error, Kind, Result};
use outcore_front::objects::stores_of;
use outcore_front::resources::{Resources, ResourcesRequest};
use outcore_io::drive::objects::{Unfinished, is_object};
use outcore_io::drive::private_dir::{self, Resumable, State};
use outcore_io::{journal, units};
use serde_json::json;

use super::page::{
    CleanArgs, ListArgs, RemovedScratch, ResumableJob, ScratchEntry, ScratchListing, ScratchRemoval,
};
use super::places::{ScratchPlace, places_of};
use crate::host::Host;
use crate::report::{Listed, Moved, Place, Stopwatch};
use crate::verb::{Verb, Words};

/// How often `clean` looks at a left-over directory before it reports that the directory cannot be
/// removed.
const LOOKS_MAX: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The directories to search, and the unfinished uploads in stores.
struct Found {
    places: Vec<ScratchPlace>,
    uploads: Vec<Unfinished>,
}

impl Found {
    fn of(resources: &Resources, named: &[PathBuf]) -> Result<Self> {
        let (objects, dirs): (Vec<PathBuf>, Vec<PathBuf>) =
            named.iter().cloned().partition(|place| is_object(place));
        // The drives are searched if the user names neither a directory nor a store.
        let places = match objects.is_empty() || !dirs.is_empty() {
            true => places_of(resources, &dirs)?,
            false => Vec::new(),
        };
        let device = resources.device();
        let mut uploads = Vec::new();
        for place in &objects {
            uploads.extend(stores_of(&device, "look for uploads", place)?.unfinished(place)?);
        }
        Ok(Found { places, uploads })
    }
}

/// `list`: shows what there is.
pub(super) struct List;

impl Verb for List {
    const NAME: &'static str = "scratch list";
    type Args = ListArgs;
    type Report = ScratchListing;

    fn run(host: &dyn Host, args: &ListArgs) -> Result<ScratchListing> {
        let stopwatch = Stopwatch::start();
        let resources = host.load(&ResourcesRequest::default())?;
        let found = Found::of(&resources, &args.dirs)?;
        let mut entries = Vec::new();
        let mut list = |entry: ScratchEntry, what: &str, size: &str| {
            let line = format!("{}\t{what}\t{size}\n", entry.path.0.display());
            host.item("scratch", json!(entry), &line);
            entries.push(entry);
        };
        for upload in &found.uploads {
            let what = match upload.is_in_use {
                true => "upload in use",
                false => "upload left over",
            };
            let age = units::seconds(upload.age.as_secs_f64());
            list(entry_of_upload(upload), what, &age);
        }
        for place in &found.places {
            for (path, state) in place.look(private_dir::list)? {
                let entry = entry(path, &state);
                let (what, size) = (state_text(&entry), units::bytes(entry.bytes));
                list(entry, &what, &size);
            }
        }
        Ok(ScratchListing {
            used: stopwatch.stop(Moved::default(), &[], &resources, None),
            directories: Listed(entries),
        })
    }

    fn say(_args: &ListArgs, report: &ScratchListing, words: &mut Words) {
        if report.directories.0.is_empty() {
            words.lines(&Self::headline(report));
        }
    }

    fn headline(report: &ScratchListing) -> String {
        match report.directories.0.len() {
            0 => "no scratch directories".to_owned(),
            count => counted(count),
        }
    }
}

fn counted(count: usize) -> String {
    units::counted(count as u64, "scratch directory")
}

fn entry_of_upload(upload: &Unfinished) -> ScratchEntry {
    ScratchEntry {
        path: Place(upload.object.clone()),
        in_use: upload.is_in_use,
        kept_for: None,
        resume: None,
        left_alone: None,
        bytes: 0,
    }
}

fn entry(path: PathBuf, state: &State) -> ScratchEntry {
    ScratchEntry {
        bytes: private_dir::bytes_in(&path),
        path: Place(path),
        in_use: *state == State::InUse,
        kept_for: match state {
            State::Kept(kept_for) => Some(Place(kept_for.clone())),
            _ => None,
        },
        resume: match state {
            State::Resumable(mark) => Some(resumable(mark)),
            _ => None,
        },
        left_alone: match state {
            State::Unknown(cause) => Some(cause.clone()),
            _ => None,
        },
    }
}

fn resumable(mark: &Resumable) -> ResumableJob {
    let progress = journal::progress_at(mark.journal());
    ResumableJob {
        command: mark.command.clone(),
        age_seconds: mark.age().map(|age| age.as_secs()),
        done_percent: progress
            .and_then(|progress| (100 * progress.done_bytes).checked_div(progress.total_bytes)),
    }
}

/// The state of a directory in words.
fn state_text(entry: &ScratchEntry) -> String {
    if entry.in_use {
        return "in use".to_owned();
    }
    if let Some(job) = &entry.resume {
        let done = job.done_percent.map(|percent| format!(" at {percent} %"));
        let age = job
            .age_seconds
            .map(|age| format!(", {} old", units::seconds(age.max(1) as f64)));
        let (done, age) = (done.unwrap_or_default(), age.unwrap_or_default());
        return format!("resumable{done}{age}: {}", job.command);
    }
    match (&entry.left_alone, &entry.kept_for) {
        (Some(cause), _) => format!("left alone, since {cause}"),
        (_, Some(kept_for)) => format!("kept for {}", kept_for.0.display()),
        _ => "left over".to_owned(),
    }
}

/// `clean`: removes what no job uses.
pub(super) struct Clean;

impl Verb for Clean {
    const NAME: &'static str = "scratch clean";
    type Args = CleanArgs;
    type Report = ScratchRemoval;

    fn run(host: &dyn Host, args: &CleanArgs) -> Result<ScratchRemoval> {
        let stopwatch = Stopwatch::start();
        let resources = host.load(&ResourcesRequest::default())?;
        let found = Found::of(&resources, &args.dirs)?;
        let mut removal = Removal {
            host,
            removed: Vec::new(),
        };
        let forgotten = match args.resumable {
            true => forget(&found.places)?,
            false => Vec::new(),
        };
        removal.abort(&resources, &found.uploads)?;
        forgotten.into_iter().for_each(|path| removal.tell(path));
        for place in &found.places {
            removal.clean(place)?;
        }
        Ok(ScratchRemoval {
            used: stopwatch.stop(Moved::default(), &[], &resources, None),
            directories: Listed(removal.removed),
        })
    }

    fn headline(report: &ScratchRemoval) -> String {
        format!("removed {}", counted(report.directories.0.len()))
    }
}

/// Removes the directories of jobs that can be resumed; files that these jobs have left elsewhere
/// then count as leftovers. Returns the directories.
fn forget(places: &[ScratchPlace]) -> Result<Vec<PathBuf>> {
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

/// The removed directories and uploads so far; each is reported at once.
struct Removal<'h> {
    host: &'h dyn Host,
    removed: Vec<RemovedScratch>,
}

impl Removal<'_> {
    fn tell(&mut self, path: PathBuf) {
        let removed = RemovedScratch { path: Place(path) };
        let line = format!("{}\n", removed.path.0.display());
        self.host.item("removed", json!(removed), &line);
        self.removed.push(removed);
    }

    /// Aborts the uploads whose jobs have ended.
    fn abort(&mut self, resources: &Resources, uploads: &[Unfinished]) -> Result<()> {
        let device = resources.device();
        for upload in uploads {
            if upload.is_in_use {
                let name = upload.object.display();
                self.host.note(&format!("{name}: its upload is in use"));
                continue;
            }
            stores_of(&device, "abort upload", &upload.object)?.abort(upload)?;
            self.tell(upload.object.clone());
        }
        Ok(())
    }

    /// Removes leftovers in a place.
    fn clean(&mut self, place: &ScratchPlace) -> Result<()> {
        let cleaned = swept(place)?;
        cleaned.removed.into_iter().for_each(|path| self.tell(path));
        for (path, state) in cleaned.left {
            if state == State::LeftOver {
                let cause = "a left-over directory cannot be removed yet";
                return Err(Error::new(Kind::Io, "clean scratch", cause)
                    .path(path)
                    .hint("check permissions, and that all drives of its job are mounted"));
            }
            if let Some(note) = note_of(&path, &state) {
                self.host.note(&note);
            }
        }
        Ok(())
    }
}

/// Why a directory stays, unless a running job uses it.
fn note_of(path: &Path, state: &State) -> Option<String> {
    let path = path.display();
    match state {
        State::Unknown(cause) => Some(format!("{path}: left alone, since {cause}")),
        State::Kept(kept_for) => Some(format!(
            "kept {path}: as long as {} has a marker, parts of that file exist only here",
            kept_for.display()
        )),
        State::Resumable(mark) => Some(format!(
            "{path} stays: its job can be resumed with: {}; --resumable removes it",
            mark.command
        )),
        _ => None,
    }
}

/// The results for the private directories in one place.
struct Cleaned {
    removed: Vec<PathBuf>,
    left: Vec<(PathBuf, State)>,
}

/// Sweeps a place until it contains no directory that a running job is just creating or removing:
/// such a directory has no lock for a moment.
fn swept(place: &ScratchPlace) -> Result<Cleaned> {
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
