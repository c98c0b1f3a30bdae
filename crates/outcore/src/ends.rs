//! The ends of a job: inputs opened and checked, output staged, scratch made.
//!
//! Contract: inputs are opened in the given order and checked against their headers and the
//! record's size. [`check_unchanged`] detects an input that was written in the meantime. Before any
//! work, the job rejects an existing output (unless it may be replaced) and drives without the room
//! that the plan needs. No data are read or written here.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::forecast::PhasePlan;
use crate::job::{InputPlace, Job, OutputPlaces};
use crate::read::source::InputPart;
use outcore_io::drive::paths::{self, Metadata};
use outcore_io::drive::{Access, PrivateDir};
use outcore_io::memory::{BLOCK_BYTES, Pool};
use outcore_io::output::{Room, ShardPlan, StagedOutput, parent_of};
use outcore_io::port::{ScratchDrive, Volume};
use outcore_io::scratch::Scratch;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// An input file.
#[derive(Debug, Clone)]
pub struct Input {
    /// The path of the file.
    pub path: PathBuf,
    /// Bytes before the data.
    pub header_bytes: u64,
    /// Bytes of data; by default the rest of the file.
    pub data_bytes: Option<u64>,
}

impl Input {
    /// A file that contains only data.
    pub fn raw(path: impl Into<PathBuf>) -> Self {
        Input {
            path: path.into(),
            header_bytes: 0,
            data_bytes: None,
        }
    }
}

/// Makes the header of an output from its number of elements. A header for a smaller number must
/// not be longer: the file has room for the header of the largest number, and shorter headers are
/// padded with spaces.
pub type MakeHeader = Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// Destination of the result.
pub enum Output {
    /// One file, with a header if a function for it is given.
    File {
        /// The name of the file.
        path: PathBuf,
        /// For formats that have a header.
        header: Option<MakeHeader>,
    },
    /// Several files of nearly equal length, in order, that appear together.
    Shards {
        /// The names of the files.
        paths: Vec<PathBuf>,
        /// The path of the list of shards.
        manifest: PathBuf,
    },
    /// A pipe.
    Pipe(Mutex<Box<dyn Write + Send>>),
}

impl From<&Path> for Output {
    fn from(path: &Path) -> Self {
        Output::File {
            path: path.to_path_buf(),
            header: None,
        }
    }
}

/// A finished phase of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// The name of the phase.
    pub name: &'static str,
    /// The duration of the phase.
    pub seconds: f64,
    /// Bytes read from all drives, or from a pipe.
    pub read_bytes: u64,
    /// Bytes written to all drives, and to a pipe by a pass.
    pub written_bytes: u64,
    /// The plan's prediction for the phase, if there was one.
    pub predicted: Option<PhasePlan>,
}

/// The consecutive phases of a run: duration of each, and bytes that the drives moved.
#[derive(Debug, Clone)]
pub(crate) struct Phases {
    pub(crate) started: Instant,
    current: Instant,
    /// (read, written) at the start of the current phase.
    moved_bytes: (u64, u64),
    ended: Vec<Phase>,
}

impl Phases {
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Phases {
            started: now,
            current: now,
            moved_bytes: (0, 0),
            ended: Vec::new(),
        }
    }

    /// Starts on a volume that has moved data before.
    pub(crate) fn start_on(volume: &Volume) -> Self {
        Phases {
            moved_bytes: volume.traffic_bytes(),
            ..Self::start()
        }
    }

    /// Ends the current phase of a job that moves data through `volume`.
    pub(crate) fn end(&mut self, name: &'static str, volume: &Volume) -> &mut Phase {
        let now = Instant::now();
        let moved_bytes = volume.traffic_bytes();
        self.ended.push(Phase {
            name,
            seconds: (now - self.current).as_secs_f64(),
            read_bytes: moved_bytes.0 - self.moved_bytes.0,
            written_bytes: moved_bytes.1 - self.moved_bytes.1,
            predicted: None,
        });
        self.current = now;
        self.moved_bytes = moved_bytes;
        let last = self.ended.len() - 1;
        &mut self.ended[last]
    }

    /// The finished phases, each with its prediction. If a phase occurred more than once, each
    /// occurrence gets the same prediction.
    pub(crate) fn beside(mut self, planned: &[PhasePlan]) -> Vec<Phase> {
        beside(&mut self.ended, planned);
        self.ended
    }
}

/// Adds predictions to `phases`; see [`Phases::beside`].
pub(crate) fn beside(phases: &mut [Phase], planned: &[PhasePlan]) {
    for phase in phases {
        let is_it = |plan: &&PhasePlan| plan.name == phase.name;
        phase.predicted = planned.iter().find(is_it).cloned();
    }
}

/// Border blocks of the output: the name of their reservation, and their number.
pub(crate) const EDGES: &str = "edge blocks";
const EDGE_BLOCKS: usize = 128;
pub(crate) const EDGES_BYTES: u64 = (EDGE_BLOCKS * BLOCK_BYTES) as u64;

/// The pool for border blocks of the output.
pub(crate) fn edge_pool(job: &Job) -> Result<Pool> {
    Pool::new(&job.budget, EDGES, BLOCK_BYTES, EDGE_BLOCKS)
}

/// Opens the files of an input of elements of `element_bytes`.
pub(crate) fn open_inputs(
    volume: &Volume,
    inputs: &[Input],
    element_bytes: usize,
    access: Access,
) -> Result<Vec<InputPart>> {
    let mut parts = Vec::with_capacity(inputs.len());
    let mut first_position = 0;
    for input in inputs {
        check_is_file(&input.path)?;
        let file = volume.open(&input.path, access)?;
        let here_bytes = file.facts.len_bytes;
        let behind_bytes = here_bytes.checked_sub(input.header_bytes);
        let data_len_bytes = match (behind_bytes, input.data_bytes) {
            (Some(behind_bytes), None) => behind_bytes,
            (Some(behind_bytes), Some(data_bytes)) if data_bytes <= behind_bytes => data_bytes,
            _ => {
                let cause = format!("the file ends after {}", units::counted(here_bytes, "byte"));
                return Err(Error::corrupt("read input", cause)
                    .path(&input.path)
                    .hint("its header promises more data: copy it again"));
            }
        };
        let left_over_bytes = data_len_bytes % element_bytes as u64;
        if left_over_bytes != 0 {
            let cause = format!(
                "its length, {}, is not a multiple of the record's {element_bytes}: {} left over",
                units::counted(data_len_bytes, "byte"),
                match left_over_bytes {
                    1 => "1 is".to_string(),
                    count => format!("{count} are"),
                }
            );
            return Err(Error::usage("read input", cause)
                .path(&input.path)
                .hint("check --type or --record, or whether the file is complete"));
        }
        parts.push(InputPart {
            file,
            data_at_bytes: input.header_bytes,
            data_len_bytes,
            first_position,
        });
        first_position += data_len_bytes / element_bytes as u64;
    }
    Ok(parts)
}

/// Fails for a path that exists on the system and is not a plain file. Opening a named pipe would
/// wait forever, and directories and devices have no length for a plan.
fn check_is_file(path: &Path) -> Result<()> {
    let Ok(facts) = paths::facts(path) else {
        // Opening the file reports what is wrong; names on an in-memory device do not exist on the
        // system.
        return Ok(());
    };
    let (cause, hint) = match facts.file_type() {
        kind if kind.is_file() && !has_no_length(path, &facts) => return Ok(()),
        kind if kind.is_file() => ("its length is not known", "pipe it in: -"),
        kind if kind.is_dir() => (
            "a file is needed, but this is a directory",
            "name the files in it",
        ),
        kind if kind.is_fifo() => (
            "a file is needed, but this is a pipe",
            "read it as standard input: -",
        ),
        _ => (
            "a file is needed, but this is a device or socket",
            "copy it to a file, or pipe it in: -",
        ),
    };
    Err(Error::usage("open input", cause).path(path).hint(hint))
}

/// Whether a file has bytes but reports a length of 0, as those of /proc do.
fn has_no_length(path: &Path, facts: &Metadata) -> bool {
    let first = |file: File| file.take(1).read(&mut [0]);
    facts.len() == 0 && File::open(path).and_then(first).is_ok_and(|got| got > 0)
}

/// Fails if a file has changed since it was opened: its length, or the time of its last change
/// unless this job frees its blocks.
pub(crate) fn check_unchanged(
    volume: &Volume,
    parts: &[InputPart],
    is_being_freed: bool,
) -> Result<()> {
    let mut parts = parts.iter();
    parts.try_for_each(|part| volume.check_unchanged(&part.file, is_being_freed))
}

/// As [`stage_output_in`].
pub(crate) fn stage_output(
    volume: &Volume,
    output: &Output,
    replace: bool,
    room: Room,
    data_bytes: u64,
    element_bytes: usize,
) -> Result<Option<StagedOutput>> {
    stage_output_in(
        volume,
        output,
        replace,
        room,
        data_bytes,
        element_bytes,
        None,
    )
}

/// Stages the files of `output` for `data_bytes` of elements; `None` for a pipe. A single file is
/// staged in `dir`, if that is given.
pub(crate) fn stage_output_in(
    volume: &Volume,
    output: &Output,
    replace: bool,
    room: Room,
    data_bytes: u64,
    element_bytes: usize,
    dir: Option<PrivateDir>,
) -> Result<Option<StagedOutput>> {
    let count = data_bytes / element_bytes as u64;
    let (mut plans, manifest) = match output {
        Output::Pipe(_) => return Ok(None),
        Output::File { path, header } => {
            let plan = ShardPlan {
                path: path.clone(),
                header: header.as_ref().map_or_else(Vec::new, |make| make(count)),
                start_bytes: 0,
                len_bytes: data_bytes,
            };
            (vec![plan], None)
        }
        Output::Shards { paths, manifest } => {
            let border = |shard: usize| {
                let border = u128::from(count) * shard as u128 / paths.len() as u128;
                border as u64 * element_bytes as u64
            };
            let plans = paths.iter().enumerate().map(|(index, path)| ShardPlan {
                path: path.clone(),
                header: Vec::new(),
                start_bytes: border(index),
                len_bytes: border(index + 1) - border(index),
            });
            (plans.collect(), Some(manifest.clone()))
        }
    };
    let paths = plans.iter().map(|plan| &plan.path).chain(&manifest);
    refuse_existing(paths.map(PathBuf::as_path), replace)?;
    if let Some(dir) = dir
        && let Some(plan) = plans.pop()
    {
        return StagedOutput::stage_in(volume, plan, replace, room, dir).map(Some);
    }
    StagedOutput::stage(volume, plans, manifest, replace, room).map(Some)
}

/// Fails for an output that exists, unless it may be replaced.
pub(crate) fn refuse_existing<'a>(
    mut paths: impl Iterator<Item = &'a Path>,
    replace: bool,
) -> Result<()> {
    match paths.find(|path| !replace && path.exists()) {
        None => Ok(()),
        Some(path) => Err(Error::usage("create output", "it exists already")
            .path(path)
            .hint("allow overwriting with --force")),
    }
}

/// Bytes moved by a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveTraffic {
    /// The name of the drive in messages.
    pub name: String,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// Traffic of each drive.
pub(crate) fn traffic_by_drive(volume: &Volume) -> Vec<DriveTraffic> {
    let drives = volume.drives().into_iter().map(|drive| {
        let traffic = drive.traffic();
        DriveTraffic {
            name: drive.name.clone(),
            read_bytes: traffic.read_bytes.load(Ordering::Relaxed),
            written_bytes: traffic.written_bytes.load(Ordering::Relaxed),
        }
    });
    drives.collect()
}

/// Adds the traffic of a later part of a job, drive by drive.
pub(crate) fn add_traffic(all: &mut Vec<DriveTraffic>, later: &[DriveTraffic]) {
    for drive in later {
        match all.iter_mut().find(|known| known.name == drive.name) {
            Some(known) => {
                known.read_bytes += drive.read_bytes;
                known.written_bytes += drive.written_bytes;
            }
            None => all.push(drive.clone()),
        }
    }
}

/// The places of open inputs.
pub(crate) fn input_places(parts: &[InputPart]) -> Vec<InputPlace> {
    let mut places: Vec<InputPlace> = Vec::new();
    for part in parts {
        let file_system = part.file.facts.file_system;
        let bytes = part.data_len_bytes;
        match places
            .iter_mut()
            .find(|place| place.file_system == file_system)
        {
            Some(place) => place.bytes += bytes,
            None => places.push(InputPlace {
                file_system,
                dir: parent_of(&part.file.path).to_path_buf(),
                bytes,
            }),
        }
    }
    places
}

impl Output {
    /// The places of the output's files.
    pub fn places(&self) -> OutputPlaces {
        match self {
            Output::File { path, .. } => OutputPlaces::Files(vec![path.clone()]),
            Output::Shards { paths, .. } => OutputPlaces::Files(paths.clone()),
            Output::Pipe(_) => OutputPlaces::Pipe,
        }
    }
}

/// The drives named for scratch, or the directory of the output (for a pipe, the current
/// directory).
pub(crate) fn scratch_drives(job: &Job, output: &Output) -> Vec<ScratchDrive> {
    if !job.options.drives.is_empty() {
        return job.options.drives.clone();
    }
    let dir = match output {
        Output::File { path, .. } => parent_of(path),
        Output::Shards { paths, .. } => paths.first().map_or(Path::new("."), |p| parent_of(p)),
        Output::Pipe(_) => Path::new("."),
    };
    vec![ScratchDrive::new(dir)]
}

/// A private directory for files between two steps.
pub(crate) fn make_dir(job: &Job, output: &Output) -> Result<PrivateDir> {
    let drives = scratch_drives(job, output);
    let dir = drives.first().map_or(Path::new("."), |drive| &drive.dir);
    job.device.sweep_private_dirs(dir)?;
    job.device.make_private_dir(dir)
}

/// How many of `files` to merge at once, at most `most`. This is the smallest width that needs the
/// fewest passes.
pub(crate) fn merge_width(files: usize, most: usize) -> (usize, u32) {
    let most = most.max(2);
    let mut passes = 1;
    while most.saturating_pow(passes) < files {
        passes += 1;
    }
    let reaches = |width: &usize| width.saturating_pow(passes) >= files;
    ((2..=most).find(reaches).unwrap_or(most), passes)
}

/// The files that are left to merge after some passes.
pub(crate) struct FewFiles<S> {
    pub(crate) files: Vec<Input>,
    /// Summaries of the merges.
    pub(crate) done: Vec<S>,
    /// The directory of the files; dropping it removes them.
    pub(crate) _dir: PrivateDir,
}

/// The next step if scratch exceeds its limit.
const RAISE_LIMIT: &str = "raise --scratch-limit or --memory";

/// Lengths of the data of `inputs`.
fn data_lens(job: &Job, inputs: &[Input]) -> Result<Vec<u64>> {
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let parts = open_inputs(&volume, inputs, 1, Access::Read)?;
    Ok(parts.iter().map(|part| part.data_len_bytes).collect())
}

/// A file that waits to be merged, and the length of its data.
#[derive(Clone)]
struct Waiting {
    input: Input,
    len_bytes: u64,
    is_ours: bool,
}

/// Fails if scratch files of `live_bytes` may not grow by another file of `more_bytes`.
fn check_limit(job: &Job, live_bytes: u64, more_bytes: u64) -> Result<()> {
    let (wanted_bytes, limit_bytes) = (live_bytes + more_bytes, job.options.scratch_limit_bytes);
    if wanted_bytes <= limit_bytes {
        return Ok(());
    }
    let cause = format!(
        "files between two passes already take {}, but the limit is {}",
        units::bytes(wanted_bytes),
        units::bytes(limit_bytes)
    );
    Err(Error::new(Kind::NoSpace, "merge in passes", cause).hint(RAISE_LIMIT))
}

/// Merges adjacent `inputs` into scratch files, pass by pass, until there are at most `width`.
/// `merge` makes one file from at most `width` files. The scratch files keep to the scratch limit.
pub(crate) fn merge_to_few<S>(
    job: &Job,
    output: &Output,
    inputs: &[Input],
    width: usize,
    mut merge: impl FnMut(&[Input], Output) -> Result<S>,
) -> Result<FewFiles<S>> {
    let lens_bytes = data_lens(job, inputs)?;
    let dir = make_dir(job, output)?;
    let given = inputs.iter().cloned().zip(lens_bytes);
    let mut files: Vec<Waiting> = given
        .map(|(input, len_bytes)| Waiting {
            input,
            len_bytes,
            is_ours: false,
        })
        .collect();
    let mut done = Vec::new();
    let mut live_bytes = 0;
    while files.len() > width {
        let mut merged = Vec::with_capacity(files.len().div_ceil(width));
        for group in files.chunks(width) {
            if let [only] = group {
                merged.push(only.clone());
                continue;
            }
            let group_bytes = group.iter().map(|file| file.len_bytes).sum();
            check_limit(job, live_bytes, group_bytes)?;
            let path = dir.path().join(done.len().to_string());
            let to = Output::from(path.as_path());
            let from: Vec<Input> = group.iter().map(|file| file.input.clone()).collect();
            done.push(merge(&from, to)?);
            let input = Input::raw(path);
            let len_bytes = data_lens(job, std::slice::from_ref(&input))?[0];
            live_bytes += len_bytes;
            merged.push(Waiting {
                input,
                len_bytes,
                is_ours: true,
            });
            for file in group.iter().filter(|file| file.is_ours) {
                job.device.remove(&file.input.path)?;
                live_bytes -= file.len_bytes;
            }
        }
        files = merged;
    }
    Ok(FewFiles {
        files: files.into_iter().map(|file| file.input).collect(),
        done,
        _dir: dir,
    })
}

/// Alternates among the files of the output, so that all of their drives write at once; the data to
/// write start at `start_bytes`.
pub(crate) fn interleave<T>(
    leaves: &mut [T],
    staged: &StagedOutput,
    start_bytes: impl Fn(&T) -> u64,
) {
    let shards = staged.shards();
    if shards.len() < 2 {
        return;
    }
    let mut rank = vec![0u64; shards.len()];
    let mut order: Vec<(u64, usize)> = Vec::with_capacity(leaves.len());
    for leaf in leaves.iter() {
        let at = start_bytes(leaf);
        let shard = shards
            .partition_point(|s| s.plan.start_bytes + s.plan.len_bytes <= at)
            .min(shards.len() - 1);
        order.push((rank[shard], shard));
        rank[shard] += 1;
    }
    let mut keys = order.into_iter();
    leaves.sort_by_cached_key(|_| keys.next());
}

/// Scratch for `scratch_bytes` on the drives of the job, after a check of their free space.
pub(crate) fn make_scratch(
    job: &Job,
    volume: &Volume,
    drives: &[ScratchDrive],
    scratch_bytes: u64,
) -> Result<Scratch> {
    let mut seen = Vec::new();
    let mut free_bytes = 0u64;
    let mut listed = Vec::new();
    for drive in drives {
        let file_system = job.device.file_system(&drive.dir)?;
        if !seen.contains(&file_system) {
            seen.push(file_system);
            let free_here_bytes = job.device.free_bytes(&drive.dir)?;
            let here_bytes = free_here_bytes.min(drive.limit_bytes);
            free_bytes = free_bytes.saturating_add(here_bytes);
            listed.push(format!("{} has {}", drive.name, units::bytes(here_bytes)));
        }
    }
    if free_bytes < scratch_bytes {
        let cause = format!(
            "about {} of scratch are needed, but {}",
            units::bytes(scratch_bytes),
            listed.join(", ")
        );
        return Err(Error::new(Kind::NoSpace, "plan scratch", cause)
            .hint("free some space, add a --drive or allow more --memory"));
    }
    if job.options.scratch_limit_bytes < scratch_bytes {
        let cause = format!(
            "about {} of scratch are needed, but the limit is {}",
            units::bytes(scratch_bytes),
            units::bytes(job.options.scratch_limit_bytes)
        );
        return Err(Error::new(Kind::NoSpace, "plan scratch", cause).hint(RAISE_LIMIT));
    }
    Scratch::create(
        volume,
        drives,
        job.options.scratch_limit_bytes,
        scratch_bytes,
        job.options.seed,
    )
}
