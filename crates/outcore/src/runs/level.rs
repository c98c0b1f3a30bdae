//! One generation of runs that are being written, staged together.
//!
//! Contract: [`Level::stage`] reserves a place for every run, spread over the drives by weight. The
//! runs of a view get one file per run; runs that are merged again get one file per drive. Until
//! [`Level::publish`] they are in private directories and are removed if the job ends. Publishing
//! makes them durable and gives them and the manifest their names, all or none; a sweep finishes
//! this if the job is killed during it. If the number and lengths of runs are unknown in advance, a
//! [`GrowingLevel`] gives each run its place when it is full. This module writes no data.
//!
//! Memory: the indexes of the runs, which their writers supply.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::index::Index;
use super::manifest::{Manifest, ManifestRun, NAME, RUN, Replaced};
use super::run_set::{Run, RunSet};
use super::shape::Shape;
use crate::job::ScratchDrive;
use crate::read::sample::random;
use outcore_io::Result;
use outcore_io::output::{Room, ShardPlan, StagedOutput};
use outcore_io::port::{Volume, VolumeFile};

/// Possible places for runs.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    pub(super) volume: &'a Arc<Volume>,
    pub(super) drives: &'a [ScratchDrive],
    pub(super) dir: &'a Path,
}

impl Places<'_> {
    /// The drive of each run, in the order of `turns`.
    fn spread(&self, stored_bytes: &[u64], turns: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut taken_bytes = vec![0u64; self.drives.len()];
        let mut chosen = vec![0; stored_bytes.len()];
        for run in turns {
            chosen[run] = self.choose(&mut taken_bytes, stored_bytes[run]);
        }
        chosen
    }

    /// The drive for a run of this many bytes: the one with the least data for its weight; adds the
    /// bytes to it.
    fn choose(&self, taken_bytes: &mut [u64], bytes: u64) -> usize {
        let load = |drive: usize| {
            let after_bytes = taken_bytes[drive] + bytes;
            let is_over = after_bytes > self.drives[drive].limit_bytes;
            let weight = self.drives[drive].weight.max(f64::MIN_POSITIVE);
            (is_over, after_bytes as f64 / weight)
        };
        let least = (0..self.drives.len()).min_by(|&a, &b| {
            load(a)
                .partial_cmp(&load(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let drive = least.unwrap_or(0);
        taken_bytes[drive] += bytes;
        drive
    }

    /// The name of a run's file on a drive. It contains the view's id and the time of creation,
    /// because runs that are added to a view and to its copy must never have the same name.
    fn path_of(&self, drive: usize, id: u64, made: u32, name: &str) -> PathBuf {
        let drive_dir = &self.drives[drive].dir;
        let file = format!("{name}-{id:016x}-{made:08x}");
        if drive_dir == self.dir {
            return drive_dir.join(file);
        }
        let view = self.dir.file_name().unwrap_or_default().to_string_lossy();
        drive_dir.join(format!("{view}.{file}"))
    }
}

/// The generation of runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Generation {
    /// Runs that are merged again.
    Passing,
    /// Runs of the view.
    Last {
        /// Whether the view's manifest may replace an existing one.
        replace: bool,
    },
}

/// One generation of runs that are being written.
pub(super) struct Level {
    pub(super) volume: Arc<Volume>,
    pub(super) shape: Shape,
    output: StagedOutput,
    pub(super) runs: Vec<LevelRun>,
}

/// One run of a generation.
pub(super) struct LevelRun {
    pub(super) file: VolumeFile,
    pub(super) base_bytes: u64,
    pub(super) number: u32,
    /// Number of records, or bytes of lines or rows.
    pub(super) units: u64,
    pub(super) index: Mutex<Index>,
}

impl LevelRun {
    fn records(&self, shape: &Shape, index: &Index) -> u64 {
        shape.items().map_or(self.units, |_| index.lines)
    }
}

impl Level {
    /// Stages the files of runs with these numbers of units, which are written in the order of
    /// `turns`. Runs of the view get one file each; other runs share one file per drive.
    pub(super) fn stage(
        places: &Places<'_>,
        shape: &Shape,
        counts: &[u64],
        turns: impl IntoIterator<Item = usize>,
        first_number: u32,
        generation: Generation,
    ) -> Result<Self> {
        let stored: Vec<u64> = counts
            .iter()
            .map(|&count| shape.stored_bytes(count))
            .collect();
        let chosen = places.spread(&stored, turns);
        let mut plans: Vec<ShardPlan> = Vec::new();
        let mut where_at: Vec<(usize, u64)> = Vec::with_capacity(counts.len());
        let mut start_bytes = 0;
        let mut add = |path: PathBuf, len_bytes: u64| {
            plans.push(ShardPlan {
                path,
                header: Vec::new(),
                start_bytes,
                len_bytes,
            });
            start_bytes += len_bytes;
        };
        let mut manifest = None;
        let mut may_replace = false;
        if let Generation::Last { replace } = generation {
            manifest = Some(places.dir.join(NAME));
            may_replace = replace;
            for (at, (&bytes, &drive)) in stored.iter().zip(&chosen).enumerate() {
                let name = run_name(first_number + at as u32);
                add(
                    places.path_of(drive, shape.id, made_now(shape), &name),
                    bytes,
                );
                where_at.push((at, 0));
            }
        } else {
            let mut ends = vec![0; places.drives.len()];
            for (&bytes, &drive) in stored.iter().zip(&chosen) {
                where_at.push((drive, ends[drive]));
                ends[drive] += bytes;
            }
            for (drive, &bytes) in ends.iter().enumerate() {
                add(
                    places.path_of(drive, shape.id, made_now(shape), "runs"),
                    bytes,
                );
            }
        }
        let output =
            StagedOutput::stage(places.volume, plans, manifest, may_replace, Room::Exactly)?;
        let runs = counts.iter().zip(where_at).enumerate();
        let runs = runs.map(|(at, (&units, (shard, base_bytes)))| LevelRun {
            file: output.shards()[shard].file.clone(),
            base_bytes,
            number: first_number + at as u32,
            units,
            index: Mutex::new(Index::new(shape)),
        });
        Ok(Level {
            volume: Arc::clone(places.volume),
            shape: shape.clone(),
            runs: runs.collect(),
            output,
        })
    }

    /// The runs, for reading.
    pub(super) fn to_set(&self, range: std::ops::Range<usize>) -> RunSet {
        let runs = self.runs[range].iter().map(|run| {
            let index = run.index.lock().unwrap_or_else(PoisonError::into_inner);
            Run {
                file: run.file.clone(),
                number: run.number,
                base_bytes: run.base_bytes,
                units: run.units,
                records: run.records(&self.shape, &index),
                longest_block_bytes: index.longest_bytes(run.units) as usize,
                index: Arc::new(index.clone()),
                resident: None,
            }
        });
        RunSet {
            volume: Arc::clone(&self.volume),
            shape: self.shape.clone(),
            runs: runs.collect(),
        }
    }

    /// Records and bytes of all runs.
    pub(super) fn totals(&self) -> (u64, u64) {
        let records = self.runs.iter().map(|run| {
            let index = run.index.lock().unwrap_or_else(PoisonError::into_inner);
            run.records(&self.shape, &index)
        });
        let units: u64 = self.runs.iter().map(|run| run.units).sum();
        (records.sum(), units * self.shape.unit_bytes as u64)
    }

    /// Makes the runs durable and publishes them, together with a manifest. The manifest lists them
    /// after the `known` ones, and names the view that it `replaces`.
    pub(super) fn publish(
        self,
        dir: &Path,
        known: &[ManifestRun],
        replaces: Option<Replaced>,
    ) -> Result<()> {
        let mut runs = known.to_vec();
        for (run, shard) in self.runs.iter().zip(self.output.shards()) {
            let path = &shard.plan.path;
            let path = match path.strip_prefix(dir) {
                Ok(inside) => inside.to_path_buf(),
                Err(_) => std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            };
            let index = run.index.lock().unwrap_or_else(PoisonError::into_inner);
            runs.push(ManifestRun {
                path,
                number: run.number,
                records: run.records(&self.shape, &index),
                bytes: self.shape.items().map(|_| run.units),
                index_checksum: format!("{:016x}", index.checksum()),
            });
        }
        let manifest = Manifest::of(&self.shape, dir, runs, replaces);
        self.output
            .publish_under(&self.volume, &manifest.to_bytes()?)
    }

    pub(super) fn close(self) {
        for shard in self.output.shards() {
            self.volume.close(&shard.file);
        }
    }
}

/// The time of creation of runs for their names.
fn made_now(shape: &Shape) -> u32 {
    (random(now_seed(), shape.id) >> 32) as u32
}

fn run_name(number: u32) -> String {
    format!("{RUN}{number:04}")
}

/// A level whose runs get their places one after another, on any thread.
pub(super) struct GrowingLevel<'a> {
    places: Places<'a>,
    shape: &'a Shape,
    first_number: u32,
    made: u32,
    /// Whether the level's runs are merged again: they share one file per drive.
    is_passing: bool,
    state: Mutex<Grown>,
}

/// The state of a level so far.
struct Grown {
    output: StagedOutput,
    taken_bytes: Vec<u64>,
    runs: u32,
}

impl<'a> GrowingLevel<'a> {
    /// A level without runs.
    pub(super) fn begin(
        places: Places<'a>,
        shape: &'a Shape,
        first_number: u32,
        generation: Generation,
    ) -> Result<Self> {
        let made = made_now(shape);
        let (manifest, replace) = match generation {
            Generation::Last { replace } => (Some(places.dir.join(NAME)), replace),
            Generation::Passing => (None, false),
        };
        let is_passing = manifest.is_none();
        let drives = if is_passing {
            0..places.drives.len()
        } else {
            0..0
        };
        let plans = drives.map(|drive| ShardPlan {
            path: places.path_of(drive, shape.id, made, "runs"),
            header: Vec::new(),
            start_bytes: 0,
            len_bytes: 0,
        });
        let plans = plans.collect();
        let output = StagedOutput::stage(places.volume, plans, manifest, replace, Room::Exactly)?;
        Ok(GrowingLevel {
            state: Mutex::new(Grown {
                output,
                taken_bytes: vec![0; places.drives.len()],
                runs: 0,
            }),
            places,
            shape,
            first_number,
            made,
            is_passing,
        })
    }

    /// The place of another run, of this many units.
    pub(super) fn add(&self, units: u64) -> Result<LevelRun> {
        let bytes = self.shape.stored_bytes(units);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let drive = self.places.choose(&mut state.taken_bytes, bytes);
        let number = self.first_number + state.runs;
        let (shard, base_bytes) = match self.is_passing {
            true => {
                let end_bytes = state.taken_bytes[drive];
                let file = &state.output.shards()[drive].file;
                let device = self.places.volume.device();
                device
                    .allocate(file.id, end_bytes)
                    .map_err(|error| error.path(&file.path))?;
                (drive, end_bytes - bytes)
            }
            false => {
                let plan = ShardPlan {
                    path: self
                        .places
                        .path_of(drive, self.shape.id, self.made, &run_name(number)),
                    header: Vec::new(),
                    start_bytes: 0,
                    len_bytes: bytes,
                };
                let output = &mut state.output;
                output.add(self.places.volume, plan, Room::Exactly)?;
                (output.shards().len() - 1, 0)
            }
        };
        state.runs += 1;
        Ok(LevelRun {
            file: state.output.shards()[shard].file.clone(),
            base_bytes,
            number,
            units,
            index: Mutex::new(Index::new(self.shape)),
        })
    }

    pub(super) fn shape(&self) -> &Shape {
        self.shape
    }

    pub(super) fn volume(&self) -> &Volume {
        self.places.volume
    }

    /// The level of these runs, which are all that were added.
    pub(super) fn finish(self, mut runs: Vec<LevelRun>) -> Level {
        runs.sort_by_key(|run| run.number);
        let state = self.state.into_inner();
        Level {
            volume: Arc::clone(self.places.volume),
            shape: self.shape.clone(),
            output: state.unwrap_or_else(PoisonError::into_inner).output,
            runs,
        }
    }
}

/// A unique number for each view ever made.
pub(super) fn now_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64)
}
