//! The manifest of a view, which lists its runs and how to find them again.
//!
//! Contract: `view.json` in the view's directory is [metadata](outcore_io::metadata) with a
//! checksum. It contains format, order, block size and every run with its place, length and the
//! checksum of its index. Section 5 of the ActiveSort paper requires these facts of an interface:
//! key and record lengths, key type, sizes and places of runs. The manifest appears last, together
//! with the runs or not at all ([`super::level`]), so a directory with a manifest is a whole view.
//! Opening a view reads the manifest and the runs' indexes, and checks both; no record is read.
//!
//! Runs that a manifest replaces are removed after the manifest is in place. The manifest lists
//! these runs, so that the next change of the view removes the ones that a killed job left
//! ([`tidy`]).
//!
//! Runs belong to a view's id and directory ([`ViewDir`]). Runs inside the directory move and are
//! copied with it. Runs on other drives belong to the original, however often its directory is
//! copied: no copy removes them or adds to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::index::Index;
use super::run_set::{Run, RunSet};
use super::shape::{Rule, Shape};
use super::types::{FRONT_BYTES_MAX, LineOrders, LineType, RowType, ViewOrder, ViewType};
use super::view_dir::ViewDir;
use crate::job::Job;
use crate::key::record::RecordFormat;
use outcore_io::drive::Access;
use outcore_io::memory::{BLOCK_BYTES, Pool, Reservation, block_ceil};
use outcore_io::metadata::{Form, Owner};
use outcore_io::port::{Port, Volume, VolumeFile};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};
use outcore_io::{Error, Result};

/// Name of the manifest in the view's directory.
pub(super) const NAME: &str = "view.json";
const FORM: Form = Form {
    kind: "sorted view",
    version: 2,
    version_min: 2,
    operation: OPEN,
    len_bytes_max: 64 << 20,
    remedy: "restore it, or remove the view's directory and build the view again",
    upgrade: "remove the view's directory and its runs, and build it again: `outcore view build`",
};
/// The types of views of lines and of rows.
const LINES: &str = "lines";
const ROWS: &str = "rows";
const READ_BYTES: usize = 1 << 20;
const READS_MIN: usize = 4;
/// Reads of short indexes in flight.
const READS_MAX: usize = 16;
const OPEN: &str = "open view";
/// Limit on the size of a block, and on the data of a view; within them no sum of sizes overflows.
const BLOCK_BYTES_MAX: u64 = 1 << 30;
const DATA_BYTES_MAX: u64 = 1 << 56;

/// The manifest in its written form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) id: String,
    /// The directory for which the manifest was written.
    #[serde(rename = "home")]
    original_dir: ViewDir,
    /// In the notation of [`RecordFormat::parse_type`], or [`LINES`], or [`ROWS`].
    #[serde(rename = "type")]
    record_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lines: Option<ManifestLines>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<ManifestRows>,
    record_bytes: usize,
    key_bytes: usize,
    descending: bool,
    stable: bool,
    /// How NaNs compare, if a key contains floats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nans: Option<Nans>,
    pub(super) records: u64,
    /// Units per block: records, or bytes of lines.
    #[serde(rename = "block_records")]
    pub(super) block_units: u64,
    pub(super) runs: Vec<ManifestRun>,
    /// Runs of the previous view, which may still exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<Replaced>,
}

/// How NaNs with different bits compare in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Nans {
    /// NaNs are one key; bits only break ties.
    One,
}

/// The runs of a replaced view.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replaced {
    /// The id of that view.
    id: String,
    #[serde(
        serialize_with = "outcore_io::metadata::paths::write_paths",
        deserialize_with = "outcore_io::metadata::paths::read_paths"
    )]
    runs: Vec<PathBuf>,
}

/// The part of a manifest about lines.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestLines {
    terminator: u8,
    /// The terminator of the lines in the sorted file, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_terminator: Option<u8>,
    /// The bytes before the lines, each as the character of its number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    front: String,
    /// The name of the order, for the program that made the view.
    order: String,
}

impl ManifestLines {
    fn of(lines: &LineType) -> Self {
        ManifestLines {
            terminator: lines.terminator,
            file_terminator: lines.other_end(),
            front: text_of(&lines.front),
            order: lines.order_name.clone(),
        }
    }

    fn to_type(&self, path: &Path, orders: LineOrders<'_>) -> Result<LineType> {
        let front = bytes_of(&self.front);
        Ok(LineType {
            terminator: self.terminator,
            file_terminator: self.file_terminator.unwrap_or(self.terminator),
            front: front
                .ok_or_else(|| broken(path, "the bytes in front of its lines"))?
                .into(),
            order_name: self.order.clone(),
            order: orders(&self.order).map_err(|error| error.path(path))?,
        })
    }
}

/// The part of a manifest about rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestRows {
    /// The bytes of the rows' description, each as the character of its number.
    description: String,
    /// The name of the order, for the program that made the view.
    order: String,
}

impl ManifestRows {
    fn of(rows: &RowType) -> Self {
        ManifestRows {
            description: text_of(&rows.description),
            order: rows.order_name.clone(),
        }
    }

    fn to_type(&self, path: &Path, orders: LineOrders<'_>) -> Result<RowType> {
        let description = bytes_of(&self.description);
        Ok(RowType {
            description: description
                .ok_or_else(|| broken(path, "the description of its rows"))?
                .into(),
            order_name: self.order.clone(),
            order: orders(&self.order).map_err(|error| error.path(path))?,
        })
    }
}

/// Bytes as text: each byte as the character of its number.
fn text_of(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// The bytes that [`text_of`] converted to this text; `None` if the text is invalid or too long.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
    bytes.filter(|bytes| bytes.len() <= FRONT_BYTES_MAX)
}

/// One run in the manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestRun {
    /// The path of the run, relative to the view's directory if the run is inside.
    #[serde(
        serialize_with = "outcore_io::metadata::paths::write_path",
        deserialize_with = "outcore_io::metadata::paths::read_path"
    )]
    pub(super) path: PathBuf,
    pub(super) number: u32,
    pub(super) records: u64,
    /// Bytes of the run's lines or rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    pub(super) index_checksum: String,
}

impl ManifestRun {
    /// The length of the run in units.
    fn units(&self) -> u64 {
        self.bytes.unwrap_or(self.records)
    }
}

impl Manifest {
    pub(super) fn of(
        shape: &Shape,
        dir: &Path,
        runs: Vec<ManifestRun>,
        replaces: Option<Replaced>,
    ) -> Self {
        let record_type = match &shape.what {
            ViewType::Lines(_) => LINES.to_string(),
            ViewType::Rows(_) => ROWS.to_string(),
            ViewType::Records(format) => format.to_string(),
        };
        let key_bytes = match &shape.rule {
            Rule::Records { order, .. } => order.key_bytes(),
            Rule::Items(_) => 0,
        };
        let has_floats = shape.what.records().is_some_and(RecordFormat::has_floats);
        Manifest {
            id: format!("{:016x}", shape.id),
            original_dir: ViewDir::of(dir),
            record_type,
            lines: shape.what.lines().map(ManifestLines::of),
            rows: shape.what.rows().map(ManifestRows::of),
            record_bytes: shape.unit_bytes,
            key_bytes,
            descending: shape.view_order.descending,
            stable: shape.view_order.stable,
            nans: has_floats.then_some(Nans::One),
            records: runs.iter().map(|run| run.records).sum(),
            block_units: shape.block_units,
            runs,
            replaces,
        }
    }

    /// The common properties of all runs.
    pub(super) fn shape(&self, path: &Path, orders: LineOrders<'_>) -> Result<Shape> {
        let what: ViewType = match (&self.lines, &self.rows) {
            (Some(lines), _) => lines.to_type(path, orders)?.into(),
            (None, Some(rows)) => ViewType::Rows(rows.to_type(path, orders)?),
            (None, None) => ViewType::Records(
                RecordFormat::parse_type(&self.record_type)
                    .map_err(|error| broken(path, error.cause()))?,
            ),
        };
        let id = u64::from_str_radix(&self.id, 16).map_err(|_| broken(path, "its id"))?;
        let block_bytes = self.block_units.checked_mul(self.record_bytes as u64);
        let is_block = block_bytes.is_some_and(|bytes| (1..=BLOCK_BYTES_MAX).contains(&bytes));
        let mut runs = self.runs.iter();
        let units = runs.try_fold(0_u64, |sum, run| sum.checked_add(run.units()));
        let data_bytes = units.and_then(|units| units.checked_mul(self.record_bytes as u64));
        let is_view = data_bytes.is_some_and(|bytes| bytes <= DATA_BYTES_MAX);
        let is_of_items = what.item_order().is_some();
        let has_bytes = |run: &ManifestRun| run.bytes.is_some() == is_of_items;
        let is_sized = is_block && is_view && self.runs.iter().all(has_bytes);
        if !is_sized || what.unit_bytes() != self.record_bytes {
            return Err(broken(path, "its sizes do not agree"));
        }
        if what.records().is_some_and(RecordFormat::has_floats) && self.nans != Some(Nans::One) {
            let cause = "it was made by an earlier outcore, which treated NaNs with different bits \
                         as different keys";
            return Err(Error::usage(OPEN, cause)
                .path(path)
                .hint("build it again from its source files"));
        }
        Ok(Shape::new(&what, self.order(), self.block_units, id))
    }

    /// The order of the view's records; lines and rows have their own.
    pub(super) fn order(&self) -> ViewOrder {
        ViewOrder {
            descending: self.descending,
            stable: self.stable,
        }
    }

    /// Reads the manifest of the view in `dir`.
    pub(super) fn read(job: &Job, volume: &Volume, dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        let missing = rustix::io::Errno::NOENT.raw_os_error();
        let file = volume.open(&path, Access::Read).map_err(|error| {
            match error.raw_errno() == Some(missing) {
                true => Error::errno(OPEN, missing)
                    .path(&path)
                    .hint("there is no view: build one with `outcore view build`"),
                false => error,
            }
        })?;
        FORM.check_len(file.facts.len_bytes)
            .map_err(|error| error.path(&path))?;
        let bytes = read_range(job, volume, &file, 0, file.facts.len_bytes)?;
        volume.close(&file);
        let owner = Owner {
            name: NAME,
            place: None,
        };
        let opened = FORM.open::<Manifest>(&path, owner, &bytes)?;
        let (manifest, place) = (opened.body, opened.place);
        if place != manifest.place() {
            return Err(broken(&path, "it is that of another view"));
        }
        let mut runs = manifest.runs.iter();
        let records = runs.try_fold(0_u64, |sum, run| sum.checked_add(run.records));
        if manifest.runs.is_empty() || records != Some(manifest.records) {
            return Err(broken(&path, "its counts do not agree"));
        }
        Ok(manifest)
    }

    /// The `place` of the manifest's metadata.
    fn place(&self) -> String {
        format!("view {}", self.id)
    }

    /// Whether the view has runs outside of its directory.
    fn has_runs_elsewhere(&self) -> bool {
        self.runs.iter().any(|run| run.path.is_absolute())
    }

    /// Whether this manifest, in `dir`, may change or remove all of its runs.
    pub(super) fn owns_runs(&self, dir: &Path) -> bool {
        !self.has_runs_elsewhere() || self.original_dir.is(dir)
    }

    /// Fails for a copy of a view whose runs on other drives belong to the original: additions to
    /// one would be lost with the other.
    pub(super) fn refuse_to_add_to_a_copy(&self, dir: &Path) -> Result<()> {
        match self.owns_runs(dir) {
            true => Ok(()),
            false => Err(self.not_owned("add to view", dir)),
        }
    }

    /// Fails unless the runs on other drives belong to this view, or certainly to the view that it
    /// is a copy of. Otherwise replacing the view would leave them behind unnoticed.
    pub(super) fn refuse_to_forget_runs(&self, job: &Job, dir: &Path) -> Result<()> {
        let original = self.original_dir.dir();
        let is_there = || {
            let found = Manifest::look(job, original);
            found.is_ok_and(|found| found.is_some_and(|found| found.id == self.id))
        };
        match self.owns_runs(dir) || (!ViewDir::of(dir).is(original) && is_there()) {
            true => Ok(()),
            false => Err(self.not_owned("replace view", dir)),
        }
    }

    fn not_owned(&self, operation: &str, dir: &Path) -> Error {
        let run = self.runs.iter().find(|run| run.path.is_absolute());
        let drive = run.and_then(|run| run.path.parent()).unwrap_or(dir);
        let cause = format!(
            "it was copied from {}: its runs on other drives ({}, ...) belong to the view there",
            self.original_dir.dir().display(),
            drive.display(),
        );
        Error::usage(operation, cause)
            .path(dir.join(NAME))
            .hint("build a view in another directory, from the inputs or from what `outcore view materialize` writes")
    }

    /// The runs of this view, to be listed by the manifest that replaces it.
    pub(super) fn to_replaced(&self) -> Replaced {
        Replaced {
            id: self.id.clone(),
            runs: self.run_paths(),
        }
    }

    /// The paths of the view's runs.
    pub(super) fn run_paths(&self) -> Vec<PathBuf> {
        self.runs.iter().map(|run| run.path.clone()).collect()
    }

    /// Whether both name the same runs.
    pub(super) fn names_runs_of(&self, other: &Manifest) -> bool {
        self.id == other.id && self.run_paths() == other.run_paths()
    }

    /// The manifest in its written form.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>> {
        let owner = Owner {
            name: NAME,
            place: Some(&self.place()),
        };
        FORM.seal(owner, self)
    }

    /// The manifest of the existing view in `dir`, if there is one.
    pub(super) fn look(job: &Job, dir: &Path) -> Result<Option<Self>> {
        let volume = Volume::new(Arc::clone(&job.device), &job.options.drives)?;
        match Manifest::read(job, &volume, dir) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error) if Manifest::is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether reading the manifest failed because the manifest does not exist.
    pub(super) fn is_missing(error: &Error) -> bool {
        error.raw_errno() == Some(rustix::io::Errno::NOENT.raw_os_error())
    }
}

/// Finishes the work of killed jobs on the view in `dir`; returns its manifest, if there is one.
/// Call it before a view is changed.
pub(super) fn tidy(job: &Job, dir: &Path) -> Result<Option<Manifest>> {
    job.device.sweep_private_dirs(dir)?;
    let manifest = Manifest::look(job, dir)?;
    if let Some(manifest) = &manifest
        && let Some(replaced) = &manifest.replaces
    {
        remove_runs(job, dir, replaced, manifest.original_dir.is(dir));
    }
    Ok(manifest)
}

/// Removes runs of a replaced view: those in its directory and, if it `owns` them, those on other
/// drives.
pub(super) fn remove_runs(job: &Job, dir: &Path, replaced: &Replaced, owns: bool) {
    let is_inside = |path: &Path| path.components().count() == 1;
    let is_its = |path: &&PathBuf| {
        is_run_name(path, &replaced.id) && (is_inside(path) || (owns && path.is_absolute()))
    };
    for path in replaced.runs.iter().filter(is_its) {
        // A run that cannot be removed only wastes space.
        let _ = job.device.remove(&dir.join(path));
    }
}

/// Prefix of the last part of a run's path.
pub(super) const RUN: &str = "run-";

/// Whether a path ends like those of the runs of the view `id` ([`super::level`]):
/// `run-NUMBER-ID-MADE`.
fn is_run_name(path: &Path, id: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let last = name.rsplit('.').next().unwrap_or_default();
    let mut parts = last.strip_prefix(RUN).unwrap_or_default().split('-');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.next().is_some_and(is_number)
        && parts.next() == Some(id)
        && parts.next().is_some()
        && parts.next().is_none()
}

fn broken(path: &Path, cause: &str) -> Error {
    let cause = format!("the manifest cannot be used: {cause}");
    FORM.damage(cause).path(path)
}

/// Opens all runs and reads their indexes; also returns the memory of the indexes.
pub(super) fn open_runs(
    job: &Job,
    volume: Volume,
    dir: &Path,
    manifest: &Manifest,
    orders: LineOrders<'_>,
) -> Result<(RunSet, Reservation)> {
    let shape = manifest.shape(&dir.join(NAME), orders)?;
    let blocks: u64 = manifest
        .runs
        .iter()
        .map(|run| shape.blocks_of(run.units()))
        .sum();
    let reservation = job
        .budget
        .reserve("the view's index", shape.index_bytes(blocks))?;
    let mut files = Vec::with_capacity(manifest.runs.len());
    for run in &manifest.runs {
        let path = dir.join(&run.path);
        let file = volume.open(&path, Access::Read).map_err(|error| {
            let cause = format!("run {} of the view: {}", run.number, error.cause());
            let mut named = match error.raw_errno() {
                Some(errno) => Error::errno(format!("open run {} of the view", run.number), errno),
                None => Error::new(error.kind(), OPEN, cause),
            };
            named = named.path(&path);
            named.hint("restore the run, or build the view again")
        })?;
        files.push(file);
    }
    let mut set = RunSet {
        volume: Arc::new(volume),
        shape,
        runs: Vec::with_capacity(files.len()),
    };
    for (run, file) in manifest.runs.iter().zip(files) {
        set.runs.push(Run {
            file,
            number: run.number,
            base_bytes: 0,
            units: run.units(),
            records: run.records,
            index: Arc::new(Index::new(&set.shape)),
            longest_block_bytes: 0,
            resident: None,
        });
    }
    let indexes = read_indexes(job, &set, &manifest.runs)?;
    for (run, index) in set.runs.iter_mut().zip(indexes) {
        run.longest_block_bytes = index.longest_bytes(run.units) as usize;
        run.index = Arc::new(index);
    }
    Ok((set, reservation))
}

/// The indexes of all runs of a view, in their written form.
fn read_indexes(job: &Job, set: &RunSet, about: &[ManifestRun]) -> Result<Vec<Index>> {
    let shape = &set.shape;
    let mut wanted = Vec::with_capacity(set.runs.len());
    for (at, run) in set.runs.iter().enumerate() {
        let stored_bytes = run.base_bytes + shape.stored_bytes(run.units);
        if run.file.facts.len_bytes < stored_bytes {
            return Err(set.too_short(at, run.file.facts.len_bytes));
        }
        let index_at = run.base_bytes + block_ceil(run.units * shape.unit_bytes as u64);
        let index_bytes = shape.index_bytes(shape.blocks_of(run.units));
        wanted.push((&run.file, index_at, index_bytes));
    }
    let mut indexes = Vec::with_capacity(wanted.len());
    read_ranges(job, &set.volume, &wanted, |bytes| {
        let at = indexes.len();
        let run = &set.runs[at];
        let mut index = Index::new(shape);
        index.read_from(&bytes);
        index.lines = run.records;
        let is_whole = format!("{:016x}", index.checksum()) == about[at].index_checksum;
        if !is_whole || !index.is_sound(shape.block_units, run.units, run.records) {
            let (_, index_at, _) = wanted[at];
            return Err(set.fault(
                at,
                index_at,
                "its index is damaged: it differs from what was written",
            ));
        }
        indexes.push(index);
        Ok(())
    })?;
    Ok(indexes)
}

/// Reads `len_bytes` from `at_bytes` (a multiple of 4 KiB) of a file.
pub(super) fn read_range(
    job: &Job,
    volume: &Volume,
    file: &VolumeFile,
    at_bytes: u64,
    len_bytes: u64,
) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    read_ranges(job, volume, &[(file, at_bytes, len_bytes)], |bytes| {
        all = bytes;
        Ok(())
    })?;
    Ok(all)
}

/// Reads `ranges`, and passes the bytes of each to `take` in order. A range is a file, an offset (a
/// multiple of 4 KiB) and a length in bytes.
fn read_ranges(
    job: &Job,
    volume: &Volume,
    ranges: &[(&VolumeFile, u64, u64)],
    mut take: impl FnMut(Vec<u8>) -> Result<()>,
) -> Result<()> {
    let longest_bytes = ranges.iter().map(|(.., len_bytes)| *len_bytes).max();
    let slot_bytes = block_ceil(longest_bytes.unwrap_or(0)) as usize;
    let slot_bytes = slot_bytes.clamp(BLOCK_BYTES, READ_BYTES);
    let reads = (READ_BYTES / slot_bytes).clamp(READS_MIN, READS_MAX);
    let pool = Pool::new(&job.budget, "reads of an index", slot_bytes, reads)?;
    let parts_of = |number: usize| {
        let (.., len_bytes) = ranges[number];
        let parts = (0..len_bytes.max(1)).step_by(slot_bytes);
        parts.map(move |from_bytes| (number, from_bytes))
    };
    let mut parts = (0..ranges.len()).flat_map(parts_of);
    let next = |_: &Port| {
        let (number, from_bytes) = parts.next()?;
        let (file, at_bytes, len_bytes) = ranges[number];
        let left_bytes = block_ceil((len_bytes - from_bytes).max(1));
        Some(ReadRange {
            file,
            at_bytes: at_bytes + from_bytes,
            len_bytes: left_bytes.min(slot_bytes as u64) as usize,
            what: (number, from_bytes),
        })
    };
    let mut whole = Vec::new();
    let gather = |read: Arrival<(usize, u64)>| {
        let (number, from_bytes) = read.what;
        let (file, at_bytes, len_bytes) = ranges[number];
        let want = (len_bytes - from_bytes).min(read.buf.len() as u64) as usize;
        if read.len_bytes < want {
            return Err(Error::corrupt(OPEN, "the file became shorter")
                .path(&file.path)
                .offset(at_bytes + from_bytes));
        }
        whole.extend_from_slice(&read.buf[..want]);
        match whole.len() as u64 == len_bytes {
            true => take(std::mem::take(&mut whole)),
            false => Ok(()),
        }
    };
    Transfers::new(volume)?.read_in_order(&pool, || job.control.check(), next, gather)
}
