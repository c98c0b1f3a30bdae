//! Ids that are any numbers become vertices 0, 1, 2, ... in their order, with no more memory than a sort takes.
//!
//! Contract: each end of an edge becomes a pair of its id and its place (twice the edge's number, and one more for the
//! target). Sorted by id, all ends of one vertex are neighbours: it gets the next number, and its id is appended to the
//! names. Sorted by place again, the numbers of an edge's two ends are neighbours. So two sorts do what a join with
//! a table of names does, and no table has to fit into memory.
//!
//! Bounds: two sorts of 16 bytes an end, and one write and read each of 16 bytes an end and of the edges.

use std::path::{Path, PathBuf};

use outcore::primitives::Summary;
use outcore::{Context, Error, Input, Job, Result};
use outcore_io::drive::PrivateDir;

use crate::appended::{Appended, AppendedFile, append_to};
use crate::edges::EdgeFiles;
use crate::edges::item::{Edges, ItemShape};

/// Edges with new numbers, and what the vertices were called.
pub(super) struct Relabelled {
    pub(super) inputs: Vec<Input>,
    pub(super) shape: ItemShape,
    pub(super) vertices: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    names: PathBuf,
    _scratch: PrivateDir,
}

/// Numbers the vertices of `edges` anew.
pub(super) fn relabel(job: &Job, edges: &EdgeFiles, scratch: &Path) -> Result<Relabelled> {
    job.device.sweep_private_dirs(scratch)?;
    let dir = job.device.make_private_dir(scratch)?;
    let path = |name: &str| std::path::absolute(dir.path().join(name)).unwrap_or_default();
    let (ends, names, pairs) = (path("part-0"), path("part-1"), path("part-2"));
    let context = Context::of_job(job);

    // By id: every id gets the next number.
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
            "{vertices} different ids, {} are the most",
            super::VERTICES_MAX
        );
        return Err(Error::usage(super::CONVERT, cause));
    }

    // By place: the numbers of both ends are neighbours.
    let second = append_to(job, &pairs, |pairs| {
        let ends = context.read_inputs::<[u64; 2]>(&[Input::raw(&ends)]);
        ends.sort().for_each_in_order(|items| {
            for [_, number] in items {
                pairs.append(&(*number as u32).to_le_bytes())?;
            }
            Ok(())
        })
    })?;
    job.device.remove(&ends)?;
    let ends_bytes = first.records * 16;
    let mut found = Relabelled {
        inputs: vec![Input::raw(&pairs)],
        shape: ItemShape::new(false, false),
        vertices,
        read_bytes: first.read_bytes + second.read_bytes,
        written_bytes: written(&first) + written(&second) + ends_bytes + ends_bytes / 4,
        names,
        _scratch: dir,
    };
    if edges.shape.is_weighted() {
        found.add_weights(job, edges)?;
    }
    Ok(found)
}

/// Bytes written to scratch.
fn written(summary: &Summary) -> u64 {
    summary.written_bytes
}

impl Relabelled {
    /// Puts the weights of `edges` behind the new numbers, edge by edge.
    fn add_weights(&mut self, job: &Job, edges: &EdgeFiles) -> Result<()> {
        let context = Context::of_job(job);
        let numbers = context.read_inputs::<[u32; 2]>(&self.inputs);
        let path = self.inputs[0].path.with_file_name("part-3");
        let done = match edges.shape.is_wide() {
            true => {
                let items = context.read_inputs::<[u64; 3]>(&edges.inputs);
                let both = numbers.zip(items);
                both.map(|([a, b], item)| [a, b, item[2] as u32])
                    .write(&path)
            }
            false => {
                let items = context.read_inputs::<[u32; 3]>(&edges.inputs);
                let both = numbers.zip(items);
                both.map(|([a, b], item)| [a, b, item[2]]).write(&path)
            }
        }?;
        self.read_bytes += done.read_bytes;
        self.written_bytes += done.written_bytes;
        self.inputs = vec![Input::raw(path)];
        self.shape = ItemShape::new(false, true);
        Ok(())
    }
}

/// Copies the names to their place in the graph.
pub(super) fn copy_names(
    job: &Job,
    found: &Relabelled,
    mut file: AppendedFile,
) -> Result<Appended> {
    let names = Context::of_job(job).read_inputs::<u64>(&[Input::raw(&found.names)]);
    names.for_each_in_order(|names| file.append(bytemuck::cast_slice(names)))?;
    file.finish()
}
