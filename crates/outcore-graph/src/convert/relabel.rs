//! Numbers arbitrary numeric ids as vertices 0, 1, 2, ... in their order, with no more memory than
//! a sort needs.
//!
//! Contract: each end of an edge becomes a pair of its id and its place (twice the edge's number,
//! plus one for the target). After a sort by id, all ends of one vertex are adjacent; the vertex
//! gets the next number, and its id is appended to the names. After a sort by place, the numbers of
//! an edge's two ends are adjacent. So two sorts replace a join with a table of names, and no table
//! has to fit into memory.
//!
//! Bounds: two sorts of 16 bytes per end, and one write and read of 16 bytes per end and of the
//! edges.

use std::path::{Path, PathBuf};

use outcore::primitives::Summary;
use outcore::{Context, Error, Input, Job, Result};
use outcore_io::drive::PrivateDir;
use outcore_io::drive::paths;

use crate::edges::EdgeFiles;
use crate::edges::item::{Edges, ItemShape};
use crate::edges::named::NAME_BYTES_MAX;
use crate::format::manifest::{Manifest, NamesManifest};
use crate::format::names::{NAME_BLOCK_BYTES, NamePacker};
use crate::format::weight::WeightType;
use outcore::primitives::appended::{AppendedFile, append_to};

/// Edges with new numbers, and the vertices' original ids.
pub(super) struct Relabelled {
    pub(super) inputs: Vec<Input>,
    pub(super) shape: ItemShape,
    pub(super) vertices: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// Skipped comments in text.
    pub(super) skipped: u64,
    names: NamesFile,
    _scratch: PrivateDir,
}

/// The original ids on scratch.
pub(super) enum NamesFile {
    /// Eight bytes each.
    Numbers(PathBuf),
    /// Each with a two-byte length and its bytes.
    Text(PathBuf),
}

/// Numbers the vertices of `edges` anew.
pub(super) fn relabel(job: &Job, edges: &EdgeFiles, scratch: &Path) -> Result<Relabelled> {
    job.device.sweep_private_dirs(scratch)?;
    let dir = job.device.make_private_dir(scratch)?;
    let path = |name: &str| std::path::absolute(dir.path().join(name)).unwrap_or_default();
    let (ends, names) = (path("part-0"), path("part-1"));
    let context = Context::of_job(job);

    // Sorted by id: each distinct id gets the next number.
    let make = |bytes: &[u8], first: u64| {
        let mut items: Vec<[u64; 2]> = Vec::new();
        let mut number = first;
        edges.shape.each(bytes, |edge| {
            items.push([edge.source, 2 * number]);
            items.push([edge.target, 2 * number + 1]);
            number += 1;
        });
        items
    };
    let all = Edges {
        shape: edges.shape,
        inputs: &edges.inputs,
        make,
    };
    let mut vertices = 0;
    let first = append_to(job, &names, |names| {
        append_to(job, &ends, |ends| {
            let mut last = None;
            context.sequence(all).sort().for_each_in_order(|items| {
                for [id, place] in items {
                    if last != Some(*id) {
                        last = Some(*id);
                        vertices += 1;
                        names.append(&id.to_le_bytes())?;
                    }
                    let item = [*place, vertices - 1];
                    ends.append(bytemuck::bytes_of(&item))?;
                }
                Ok(())
            })
        })
    })?;
    if vertices >= super::VERTICES_MAX {
        let cause = format!(
            "{vertices} different ids; at most {} are possible",
            super::VERTICES_MAX
        );
        return Err(Error::usage(super::CONVERT, cause));
    }

    let ends_bytes = first.records * 16;
    let traffic = Traffic {
        read_bytes: first.read_bytes,
        written_bytes: written(&first) + ends_bytes,
    };
    let names = NamesFile::Numbers(names);
    let mut found = number_edges(job, dir, &ends, names, vertices, None, traffic)?;
    found.skipped = edges.skipped;
    if edges.shape.weights().is_some() {
        found.add_weights(job, edges)?;
    }
    Ok(found)
}

/// Bytes read and written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

/// Sorts ends by place, so that the numbers of an edge's two ends are adjacent. An end consists of
/// its place, its number and, if edges have weights, the edge's weight.
pub(super) fn number_edges(
    job: &Job,
    dir: PrivateDir,
    ends: &Path,
    names: NamesFile,
    vertices: u64,
    weights: Option<WeightType>,
    traffic: Traffic,
) -> Result<Relabelled> {
    let pairs = std::path::absolute(dir.path().join("part-2")).unwrap_or_default();
    let width = weights.map_or(0, WeightType::words) * size_of::<u32>();
    let context = Context::of_job(job);
    let inputs = [Input::raw(ends)];
    let done = append_to(job, &pairs, |pairs| {
        let mut take = |place: u64, number: u64, weight: u64| {
            pairs.append(&(number as u32).to_le_bytes())?;
            match place % 2 == 1 {
                true => pairs.append(&weight.to_le_bytes()[..width]),
                false => Ok(()),
            }
        };
        match weights {
            None => context
                .read_inputs::<[u64; 2]>(&inputs)
                .sort()
                .for_each_in_order(|items| {
                    let mut items = items.iter();
                    items.try_for_each(|[place, number]| take(*place, *number, 0))
                }),
            Some(_) => context
                .read_inputs::<[u64; 3]>(&inputs)
                .sort()
                .for_each_in_order(|items| {
                    let mut items = items.iter();
                    items.try_for_each(|[place, number, weight]| take(*place, *number, *weight))
                }),
        }
    })?;
    job.device.remove(ends)?;
    let pairs_bytes = done.records * (8 + width as u64) / 2;
    Ok(Relabelled {
        inputs: vec![Input::raw(&pairs)],
        shape: ItemShape::new(false, weights),
        vertices,
        read_bytes: traffic.read_bytes + done.read_bytes,
        written_bytes: traffic.written_bytes + written(&done) + pairs_bytes,
        skipped: 0,
        names,
        _scratch: dir,
    })
}

/// Bytes written to scratch.
fn written(summary: &Summary) -> u64 {
    summary.written_bytes
}

impl Relabelled {
    /// Appends the weights of `edges` to the new numbers, edge by edge.
    fn add_weights(&mut self, job: &Job, edges: &EdgeFiles) -> Result<()> {
        let context = Context::of_job(job);
        let numbers = context.read_inputs::<[u32; 2]>(&self.inputs);
        let path = self.inputs[0].path.with_file_name("part-3");
        let weights = edges.shape.weights();
        let is_short = weights == Some(WeightType::F32);
        let halves = |weight: u64| [weight as u32, (weight >> u32::BITS) as u32];
        let done = match (edges.shape.is_wide(), is_short) {
            (true, true) => {
                let both = numbers.zip(context.read_inputs::<[u64; 3]>(&edges.inputs));
                both.map(|([a, b], item)| [a, b, item[2] as u32])
                    .write(&path)
            }
            (true, false) => {
                let both = numbers.zip(context.read_inputs::<[u64; 3]>(&edges.inputs));
                both.map(move |([a, b], item)| {
                    let [low, high] = halves(item[2]);
                    [a, b, low, high]
                })
                .write(&path)
            }
            (false, true) => {
                let both = numbers.zip(context.read_inputs::<[u32; 3]>(&edges.inputs));
                both.map(|([a, b], item)| [a, b, item[2]]).write(&path)
            }
            (false, false) => {
                let both = numbers.zip(context.read_inputs::<[u32; 4]>(&edges.inputs));
                both.map(|([a, b], item)| [a, b, item[2], item[3]])
                    .write(&path)
            }
        }?;
        self.read_bytes += done.read_bytes;
        self.written_bytes += done.written_bytes;
        self.inputs = vec![Input::raw(path)];
        self.shape = ItemShape::new(false, weights);
        Ok(())
    }
}

impl Relabelled {
    /// The files of names in a graph, with their approximate lengths.
    pub(super) fn name_files(&self) -> Result<Vec<(&'static str, u64)>> {
        let path = match &self.names {
            NamesFile::Numbers(_) => return Ok(vec![("names", self.vertices * 8)]),
            NamesFile::Text(path) => path,
        };
        let found = paths::facts(path);
        let found = found.map_err(|error| Error::io(super::CONVERT, &error).path(path))?;
        let block_bytes = NAME_BLOCK_BYTES as u64;
        // A block may have unused space at its end, too small for one of the longest names.
        let blocks = found.len() / (block_bytes - NAME_BYTES_MAX as u64 - 64) + 1;
        Ok(vec![
            ("names", blocks * block_bytes),
            ("names.index", blocks * 4),
        ])
    }

    /// Copies the names into the graph of `manifest`, adds them to the manifest, and returns the
    /// lengths of the files.
    pub(super) fn copy_names(
        &self,
        job: &Job,
        mut files: impl FnMut(usize) -> Result<AppendedFile>,
        manifest: &mut Manifest,
    ) -> Result<Vec<u64>> {
        manifest.relabelled = true;
        let mut names = files(0)?;
        let path = match &self.names {
            NamesFile::Numbers(path) => {
                let all = Context::of_job(job).read_inputs::<u64>(&[Input::raw(path)]);
                all.for_each_in_order(|all| names.append(bytemuck::cast_slice(all)))?;
                let names = names.finish()?;
                manifest.names_sum = Some(names.sum);
                return Ok(vec![names.len_bytes]);
            }
            NamesFile::Text(path) => path,
        };
        let mut index = files(1)?;
        let mut take = |block: &[u8], first: u32| {
            names.append(block)?;
            index.append(&first.to_le_bytes())
        };
        let mut packer = NamePacker::new(manifest.id);
        if self.vertices > 0 {
            each_name(job, path, |name| packer.push(name, &mut take))?;
        }
        let blocks = packer.finish(&mut take)?;
        let (names, index) = (names.finish()?, index.finish()?);
        manifest.text_names = Some(NamesManifest {
            blocks,
            index_sum: index.sum,
        });
        Ok(vec![names.len_bytes, index.len_bytes])
    }
}

/// Passes each name in a file of appended names to `take`, in order.
fn each_name(job: &Job, path: &Path, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let bytes = Context::of_job(job).read_inputs::<u8>(&[Input::raw(path)]);
    let mut rest: Vec<u8> = Vec::new();
    bytes.for_each_in_order(|bytes| {
        rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((len, behind)) = rest[at..].split_first_chunk::<2>() {
            let len_bytes = u16::from_le_bytes(*len) as usize;
            let Some(name) = behind.get(..len_bytes) else {
                break;
            };
            take(name)?;
            at += 2 + len_bytes;
        }
        rest.drain(..at);
        Ok(())
    })?;
    match rest.is_empty() {
        true => Ok(()),
        false => {
            Err(Error::corrupt(super::CONVERT, "the names of vertices are cut short").path(path))
        }
    }
}
