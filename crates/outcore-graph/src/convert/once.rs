//! Converts edges that are read once: pairs of numbers, and text.
//!
//! Contract: the pass that reads the edges also makes the keys for their sort. The number of
//! vertices is known at the end of the pass, before the first key comes out of the sort. The keys
//! are made before that; they have room for the largest id in a sample of the files, and a
//! thousandth more. If a larger id occurs, the pass fails, leaves nothing behind, and the edges are
//! converted like those of other formats. The graph is the same.
//!
//! Bounds: those of [`super`], and first a read of some places of each file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::{Batch, Sequence, Summary};
use outcore::{Error, Job, Result};

use super::key::{EdgeKey, KeyShape};
use super::pack::{GraphSize, SizesOf};
use super::relabel::Traffic;
use super::{
    CONVERT, Conversion, ConvertOptions, Done, VERTICES_MAX, check_density, check_directions,
    input_items, negative, not_finite, vertices_of,
};
use crate::edges::item::{Edge, Edges, at_edge, fail, largest_of_sample};
use crate::edges::lines::LineFiles;
use crate::edges::{EdgeFiles, Relabel, item_files};
use crate::format::manifest::Manifest;
use crate::format::weight::WeightType;

/// With less memory, the buffers for a row of tiles could be a large part of it. They are small for
/// few vertices, but the number of vertices is not known yet.
const MEMORY_BYTES_LEAST: u64 = 64 << 20;

/// Memory per thread for the keys of a piece of text: a line of four bytes makes two.
const PIECE_KEYS_BYTES: u64 = 1 << 20;

/// The results of the pass.
#[derive(Debug, Default)]
struct Seen {
    /// One more than the largest id, or 0 without edges.
    needed: AtomicU64,
    /// Whether an id was too large for the keys.
    is_beyond: AtomicBool,
}

impl Seen {
    /// Notes the largest of some ids; fails the pass if it is too large.
    fn note(&self, largest: Option<u64>, shape: KeyShape) {
        let needed = largest.map_or(0, |largest| largest.saturating_add(1));
        if needed > shape.vertices_max().min(VERTICES_MAX) {
            self.is_beyond.store(true, Ordering::Relaxed);
            // This message is never shown.
            fail(Error::usage(CONVERT, "an id is larger than those before"))
        }
        if needed > self.needed.load(Ordering::Relaxed) {
            self.needed.fetch_max(needed, Ordering::Relaxed);
        }
    }

    fn largest(&self) -> Option<u64> {
        self.needed.load(Ordering::Relaxed).checked_sub(1)
    }
}

/// Converts `inputs` if they are pairs or text, and if memory and ids allow reading them only once.
pub(super) fn convert_once(
    job: &Job,
    inputs: &[PathBuf],
    dir: &Path,
    options: &ConvertOptions,
) -> Result<Option<Done>> {
    if options.relabel != Relabel::No || job.budget.free_bytes() < MEMORY_BYTES_LEAST {
        return Ok(None);
    }
    if let Some(lines) = LineFiles::open(job, inputs, &options.read)? {
        return convert_lines(job, lines, dir, options);
    }
    match item_files(inputs, &options.read)? {
        // If the number of vertices is given, a conversion in several passes also reads pairs once.
        Some(edges) if options.vertices.is_none() => convert_items(job, &edges, dir, options),
        _ => Ok(None),
    }
}

/// The shape of keys for the given number of vertices, or for the sampled ids and some more. `None`
/// if there are too many vertices for a pass that may have to be repeated.
fn shape_for(
    told: Option<u64>,
    seen: Option<u64>,
    weights: Option<WeightType>,
) -> Option<KeyShape> {
    let seen = seen.map_or(0, |largest| {
        largest.saturating_add(largest / 1024).saturating_add(1)
    });
    let vertices = told.unwrap_or(seen);
    let shape = KeyShape::of(vertices, weights);
    (vertices <= VERTICES_MAX && shape.check().is_ok()).then_some(shape)
}

/// Returns the result, or `None` if an id was too large.
fn unless_beyond(seen: &Seen, done: Result<Done>) -> Result<Option<Done>> {
    match done {
        Err(_) if seen.is_beyond.load(Ordering::Relaxed) => Ok(None),
        done => done.map(Some),
    }
}

fn convert_items(
    job: &Job,
    edges: &EdgeFiles,
    dir: &Path,
    options: &ConvertOptions,
) -> Result<Option<Done>> {
    let is_file = |path: &Path| path.metadata().is_ok_and(|facts| facts.is_file());
    if !edges.inputs.iter().all(|input| is_file(&input.path)) {
        return Ok(None);
    }
    let edges_in = input_items(edges)?;
    let sampled = largest_of_sample(&edges.inputs, edges.shape);
    let weights = edges.shape.weights();
    let Some(shape) = shape_for(None, sampled, weights) else {
        return Ok(None);
    };
    let conversion = Conversion {
        job,
        dir,
        options,
        shape,
        kind: options.kind(weights, false),
        about: GraphSize {
            vertices: shape.vertices_max(),
            edges: edges_in,
        },
    };
    let seen = Arc::new(Seen::default());
    let sizes_of: SizesOf = {
        let (seen, kind, options) = (Arc::clone(&seen), conversion.kind, options.clone());
        let first_negative = edges.first_negative();
        let path = edges.inputs.first().map(|input| input.path.clone());
        Box::new(move || {
            let largest = seen.largest();
            if first_negative.is_some() && largest >= first_negative {
                return Err(negative().path(path.clone().unwrap_or_default()));
            }
            let vertices = vertices_of(largest, None)?;
            check_density(vertices, edges_in)?;
            Ok(kind.sizes(&options, vertices, edges_in))
        })
    };
    let made = match shape.is_narrow() {
        true => run_items::<u64>(&conversion, edges, &seen, sizes_of),
        false => run_items::<u128>(&conversion, edges, &seen, sizes_of),
    };
    let done = made.map(|(manifest, summary, graph_bytes)| Done {
        edges_in,
        manifest,
        summary,
        before: Traffic::default(),
        skipped: 0,
        graph_bytes,
    });
    unless_beyond(&seen, done)
}

fn run_items<K: EdgeKey>(
    conversion: &Conversion<'_>,
    edges: &EdgeFiles,
    seen: &Seen,
    sizes_of: SizesOf,
) -> Result<(Manifest, Summary, u64)> {
    let make = |bytes: &[u8], first: u64| {
        let mut keys: Vec<K> = Vec::with_capacity(2 * bytes.len() / edges.shape.bytes());
        let (mut largest, mut position) = (None, first);
        edges.shape.each(bytes, |edge| {
            if !conversion.shape.accepts(edge.weight) {
                let error = not_finite(&edge, edges.shape.weights());
                fail(at_edge(error, edges.shape, &edges.inputs, position))
            }
            largest = largest.max(Some(edge.source.max(edge.target)));
            conversion.push_keys(&edge, &mut keys);
            position += 1;
        });
        seen.note(largest, conversion.shape);
        keys
    };
    let keys = Edges {
        shape: edges.shape,
        inputs: &edges.inputs,
        make,
    };
    let keys = (conversion.about.edges > 0).then_some(keys);
    conversion.run(keys, sizes_of, None)
}

fn convert_lines(
    job: &Job,
    lines: LineFiles,
    dir: &Path,
    options: &ConvertOptions,
) -> Result<Option<Done>> {
    check_directions(lines.is_mixed, options)?;
    let told = options.vertices.or(lines.vertices);
    let sampled = lines.sample();
    let Some(shape) = shape_for(told, sampled.largest, lines.weights) else {
        return Ok(None);
    };
    let conversion = Conversion {
        job,
        dir,
        options,
        shape,
        kind: options.kind(lines.weights, lines.is_undirected),
        about: GraphSize {
            vertices: shape.vertices_max(),
            edges: sampled.edges,
        },
    };
    let lines = Arc::new(lines);
    let seen = Arc::new(Seen::default());
    let sizes_of: SizesOf = {
        let (seen, kind, options) = (Arc::clone(&seen), conversion.kind, options.clone());
        let lines = Arc::clone(&lines);
        Box::new(move || {
            let edges_in = lines.finish()?;
            let vertices = vertices_of(seen.largest(), told)?;
            if told.is_none() {
                check_density(vertices, edges_in)?;
            }
            Ok(kind.sizes(&options, vertices, edges_in))
        })
    };
    let made = match shape.is_narrow() {
        true => run_lines::<u64>(&conversion, &lines, &seen, sizes_of),
        false => run_lines::<u128>(&conversion, &lines, &seen, sizes_of),
    };
    let done = made.and_then(|(manifest, summary, graph_bytes)| {
        Ok(Done {
            edges_in: lines.finish()?,
            manifest,
            summary,
            before: Traffic::default(),
            skipped: lines.skipped(),
            graph_bytes,
        })
    });
    unless_beyond(&seen, done)
}

fn run_lines<K: EdgeKey>(
    conversion: &Conversion<'_>,
    lines: &LineFiles,
    seen: &Seen,
    sizes_of: SizesOf,
) -> Result<(Manifest, Summary, u64)> {
    let job = conversion.job;
    let keys_bytes = job.options.threads.max(1) as u64 * PIECE_KEYS_BYTES;
    let _keys = job.budget.reserve("keys of lines", keys_bytes)?;
    let keys = LineKeys {
        lines,
        make: |batch: Batch<'_>| {
            // Lines may be short, but most pieces have fewer keys than this.
            let mut keys: Vec<K> = Vec::with_capacity(batch.count / 6);
            let mut largest = None;
            lines.each(&batch, |edge: Edge| {
                largest = largest.max(Some(edge.source.max(edge.target)));
                conversion.push_keys(&edge, &mut keys);
            });
            seen.note(largest, conversion.shape);
            keys
        },
    };
    let keys = (!lines.is_empty()).then_some(keys);
    conversion.run(keys, sizes_of, None)
}

/// The keys that `make` makes from the lines in pieces of files.
struct LineKeys<'a, F> {
    lines: &'a LineFiles,
    make: F,
}

impl<K: EdgeKey, F: Fn(Batch<'_>) -> Vec<K> + Sync> Sequence for LineKeys<'_, F> {
    type Item = K;
    const YIELD: Yield = Yield::Any;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(self.lines.source());
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = K> {
        (self.make)(batch).into_iter()
    }
}
