//! Checkpoints of centroids between iterations, from which an interrupted run continues.
//!
//! Contract: a checkpoint has the exact centroids for the next iteration, and everything else that
//! the iteration needs. So a continued run has the same result as an uninterrupted one. A
//! checkpoint belongs to one unchanged base ([`BaseFacts`]) and one set of options; others are
//! rejected. It is replaced atomically after each iteration. The caller removes it once the result
//! is safely written.
//!
//! Layout: [metadata](outcore_io::metadata) with its checksum, padded with zeros to
//! [`HEADER_BYTES`]; then the centroids, as f64.

use std::path::Path;

use outcore::primitives::write::{FileBytes, stage_together};
use outcore::states::{Column, PassState};
use outcore::{Error, Job, Result};
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::rates::bits;
use outcore_io::metadata::{Form, Owner};
use outcore_io::output::parent_of;
use serde::{Deserialize, Serialize};

use super::{Init, KmeansOptions};
use crate::format::known::BaseFacts;
use crate::format::{VectorFile, start};

const HEADER_BYTES: usize = 4096;
const NAME: &str = "k-means checkpoint";
const REMEDY: &str = "remove it to start the run again";

const FORM: Form = Form {
    kind: NAME,
    version: 1,
    version_min: 1,
    operation: "open checkpoint",
    len_bytes_max: HEADER_BYTES as u64,
    remedy: REMEDY,
    upgrade: REMEDY,
};

/// The metadata of a checkpoint. Numbers are stored by their bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    base: BaseFacts,
    k: usize,
    /// The kind of start, or the facts of the file of centroids.
    init: String,
    start: Option<BaseFacts>,
    seed: u64,
    is_spherical: bool,
    tolerance_bits: u64,
    /// Completed iterations.
    iterations: u32,
    /// The run ends when the squares of moves sum to less than this.
    enough_bits: u64,
    centroids_checksum: u64,
}

impl Facts {
    fn of(job: &Job, base: &VectorFile, options: &KmeansOptions) -> Result<Self> {
        Ok(Facts {
            base: BaseFacts::of(job, base)?,
            k: options.k,
            init: match &options.init {
                Init::FarRows => "far rows",
                Init::ParallelRows => "parallel rows",
                Init::RandomRows => "random rows",
                Init::Given(_) => "given",
            }
            .to_string(),
            start: match &options.init {
                Init::Given(file) => Some(BaseFacts::of(job, file)?),
                _ => None,
            },
            seed: options.seed,
            is_spherical: options.is_spherical,
            tolerance_bits: options.tolerance.to_bits(),
            iterations: 0,
            enough_bits: 0,
            centroids_checksum: 0,
        })
    }
}

/// A run between two iterations.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resumed {
    pub(super) centroids: Vec<f64>,
    pub(super) done: Done,
}

/// The iterations of a run so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) iterations: u32,
    /// The run ends when the squares of moves sum to less than this.
    #[serde(with = "bits")]
    pub(super) enough: f64,
}

impl Resumed {
    /// The place for a run with this many numbers of centroids.
    pub(super) fn empty(numbers: usize) -> Self {
        Resumed {
            centroids: vec![0.0; numbers],
            done: Done {
                iterations: 0,
                enough: 0.0,
            },
        }
    }
}

impl PassState for Resumed {
    const NAME: &'static str = "k-means";
    type Facts = Done;

    fn facts(&self) -> Done {
        self.done
    }

    fn take(&mut self, facts: Done) {
        self.done = facts;
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::of(&mut self.centroids)]
    }
}

/// The place where a run stores its centroids.
#[derive(Debug)]
pub(super) struct Checkpoint<'a> {
    path: &'a Path,
    facts: Facts,
}

impl<'a> Checkpoint<'a> {
    /// Opens the checkpoint at `path` for such a run, and reads its contents if it exists.
    ///
    /// # Errors
    /// Usage: it belongs to another run, or is not a checkpoint. Corrupt: damage. Errors of
    /// reading.
    pub(super) fn open(
        job: &Job,
        path: &'a Path,
        base: &VectorFile,
        options: &KmeansOptions,
    ) -> Result<(Self, Option<Resumed>)> {
        let checkpoint = Checkpoint {
            path,
            facts: Facts::of(job, base, options)?,
        };
        if !path.exists() {
            return match parent_of(path).is_dir() {
                true => Ok((checkpoint, None)),
                false => Err(
                    Error::usage("create checkpoint", "its directory does not exist")
                        .path(path)
                        .hint("make the directory first, or name another file with --checkpoint"),
                ),
            };
        }
        let len_bytes = start::facts_of(job, path)?.len_bytes;
        let header = header_of(job, path, len_bytes)?;
        if !header.starts_with(b"{") {
            return Err(
                Error::usage(FORM.operation, "it is not a checkpoint of k-means")
                    .path(path)
                    .hint("name another file with --checkpoint"),
            );
        }
        let found: Facts = FORM.open(path, Owner::of(NAME), &header)?.body;
        let wanted = Facts {
            iterations: found.iterations,
            enough_bits: found.enough_bits,
            centroids_checksum: found.centroids_checksum,
            ..checkpoint.facts.clone()
        };
        if found != wanted {
            let cause = match found.base == wanted.base {
                true => "it belongs to a run with other options",
                false => "it belongs to another base, or the base has changed since",
            };
            return Err(Error::usage(FORM.operation, cause)
                .path(path)
                .hint("give the options of that run, or remove the checkpoint to start again"));
        }
        if found.iterations > options.max_iterations {
            let cause = format!("its run has already made {} iterations", found.iterations);
            return Err(Error::usage(FORM.operation, cause).path(path).hint(
                "allow more with --max-iterations, or remove the checkpoint to start again",
            ));
        }
        let centroids_bytes = options.k * base.dimension * size_of::<f64>();
        let damage = |cause: &str| FORM.damage(cause.to_string()).path(path);
        if len_bytes != (HEADER_BYTES + centroids_bytes) as u64 {
            return Err(damage("there are bytes after its centroids"));
        }
        let bytes = start::bytes_of(job, path, HEADER_BYTES as u64, centroids_bytes)?;
        if bytes_checksum(&bytes) != found.centroids_checksum {
            return Err(damage(
                "its centroids are damaged: they differ from what was written",
            ));
        }
        let (numbers, _) = bytes.as_chunks::<8>();
        let resumed = Resumed {
            centroids: numbers
                .iter()
                .map(|number| f64::from_le_bytes(*number))
                .collect(),
            done: Done {
                iterations: found.iterations,
                enough: f64::from_bits(found.enough_bits),
            },
        };
        Ok((checkpoint, Some(resumed)))
    }

    /// Stores centroids after this many iterations.
    ///
    /// # Errors
    /// Memory; errors of writing. The previous checkpoint is then unchanged.
    pub(super) fn keep(
        &self,
        job: &Job,
        centroids: &[f64],
        iterations: u32,
        enough: f64,
    ) -> Result<()> {
        let len_bytes = HEADER_BYTES + size_of_val(centroids);
        let _held = job.budget.reserve("checkpoint", 2 * len_bytes as u64)?;
        let numbers: Vec<u8> = centroids
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let facts = Facts {
            iterations,
            enough_bits: enough.to_bits(),
            centroids_checksum: bytes_checksum(&numbers),
            ..self.facts.clone()
        };
        let mut bytes = FORM.seal(Owner::of(NAME), &facts)?;
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(numbers);
        let file = FileBytes {
            path: self.path,
            bytes: &bytes,
        };
        let staged = stage_together(job, &[file], true)?;
        staged.publish().map(drop)
    }
}

/// Reads the metadata of the file at `path`, without the padding.
fn header_of(job: &Job, path: &Path, len_bytes: u64) -> Result<Vec<u8>> {
    let header_bytes = len_bytes.min(HEADER_BYTES as u64) as usize;
    let mut header = start::bytes_of(job, path, 0, header_bytes)?;
    let text_bytes = header.iter().rposition(|byte| *byte != 0);
    header.truncate(text_bytes.map_or(0, |last| last + 1));
    Ok(header)
}

/// Removes the checkpoint of a run whose result has been written. A file that is not a checkpoint
/// is not removed.
///
/// # Errors
/// It cannot be read or removed.
pub fn remove_checkpoint(job: &Job, options: &KmeansOptions) -> Result<()> {
    let Some(path) = options.checkpoint.as_deref().filter(|path| path.exists()) else {
        return Ok(());
    };
    let header = header_of(job, path, start::facts_of(job, path)?.len_bytes)?;
    match FORM.open::<Facts>(path, Owner::of(NAME), &header) {
        Ok(_) => job.device.remove(path),
        Err(_) => Ok(()),
    }
}
