//! The lists of some vertices, block by block.
//!
//! Contract: a [`ListReader`] reads the blocks that have the lists of given vertices, each once, neighbouring ones
//! together, many at a time; and shows what each block has of them. It keeps the blocks that it read last, so that
//! frontiers of a few vertices whose lists lie side by side cost no read each.
//!
//! Bounds: [`ListReader::BYTES`] of blocks; at most one read a block that is not kept.

use std::collections::HashMap;

use outcore::{Job, Result, primitives};
use outcore_io::memory::Reservation;
use outcore_io::threads;

use super::plan::LISTS;
use super::{Direction, Graph, damaged};
use crate::format::list::{LIST_BLOCK_BYTES, List, alone_max, read_block};
use crate::format::{NO_VERTEX, Part};

/// Blocks that are kept.
const BLOCKS_KEPT: usize = 1024;
/// Blocks that are worth another thread.
const BLOCKS_A_THREAD: usize = 64;

/// One block of one of the files of lists.
type BlockKey = (bool, usize);

/// Reads lists; see the module.
pub struct ListReader<'g> {
    graph: &'g Graph,
    job: &'g Job,
    kept: HashMap<BlockKey, Box<[u32]>>,
    _held: Reservation,
}

impl<'g> ListReader<'g> {
    /// Memory that one takes, twice while blocks are being read.
    pub(crate) const BYTES: u64 = 2 * (BLOCKS_KEPT * LIST_BLOCK_BYTES) as u64;

    /// One for the lists of `graph`.
    ///
    /// # Errors
    /// [`outcore::Kind::Memory`].
    pub fn new(job: &'g Job, graph: &'g Graph) -> Result<Self> {
        Ok(ListReader {
            graph,
            job,
            kept: HashMap::new(),
            _held: job.budget.reserve("blocks of lists", Self::BYTES)?,
        })
    }

    /// The blocks that have the lists of `vertices`, which ascend; nothing if there are more than `most` of them.
    pub(super) fn blocks_of(
        &self,
        vertices: &[u32],
        direction: Direction,
        most: usize,
    ) -> Option<Vec<BlockKey>> {
        let mut blocks = Vec::new();
        for part in self.graph.parts(direction) {
            let index = self.graph.index(*part);
            for vertex in vertices {
                for block in index.blocks_of(*vertex) {
                    let key = (*part == Part::In, block);
                    if blocks.last() != Some(&key) {
                        blocks.push(key);
                    }
                }
                if blocks.len() > most {
                    return None;
                }
            }
        }
        Some(blocks)
    }

    /// Shows to `visit` all lists in `blocks`, those of other vertices, too; on several threads if there are many.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`] for a block that is not what was written; what `visit` and reading fail with.
    pub(super) fn each_in(
        &mut self,
        blocks: &[BlockKey],
        visit: &(impl Fn(List<'_>) -> Result<()> + Sync),
    ) -> Result<()> {
        for batch in blocks.chunks(BLOCKS_KEPT) {
            self.job.control.check()?;
            self.load(batch)?;
            let this = &*self;
            let show = |key: &BlockKey| this.show(*key, visit);
            let threads = this.job.options.threads.min(batch.len() / BLOCKS_A_THREAD);
            if threads < 2 {
                batch.iter().try_for_each(show)?;
                continue;
            }
            let share = batch.len().div_ceil(threads);
            let work = |thread: usize| {
                let from = (thread * share).min(batch.len());
                let to = (from + share).min(batch.len());
                batch[from..to].iter().try_for_each(show)
            };
            let done = threads::together("outcore-graph", threads, work)?;
            done.into_iter().collect::<Result<Vec<()>>>()?;
        }
        Ok(())
    }

    /// Shows to `visit` what each block has of the lists of `vertices`, which ascend.
    ///
    /// # Errors
    /// As reading and `visit` fail.
    pub fn each(
        &mut self,
        vertices: &[u32],
        direction: Direction,
        visit: impl Fn(List<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        let blocks = self.blocks_of(vertices, direction, usize::MAX);
        self.each_in(
            &blocks.unwrap_or_default(),
            &|list: List<'_>| match vertices.binary_search(&list.vertex) {
                Ok(_) => visit(list),
                Err(_) => Ok(()),
            },
        )
    }

    /// The neighbours at some places of lists, each named by its vertex and its place in the vertex's list, in the order
    /// asked. Of directed graphs, `direction` is one of both.
    ///
    /// # Errors
    /// As [`ListReader::each`]; [`outcore::Kind::Corrupt`] for a place that a list does not have.
    pub fn at(&mut self, wanted: &[(u32, u32)], direction: Direction) -> Result<Vec<u32>> {
        let part = self.graph.parts(direction).first().copied();
        let part = part.unwrap_or(Part::Out);
        let index = self.graph.index(part);
        let longest = alone_max(self.graph.manifest.weighted);
        // Where each is: its block, its vertex, its place in what the block has of the list, and where it goes.
        let places = wanted.iter().enumerate().map(|(to, (vertex, place))| {
            let blocks = index.blocks_of(*vertex);
            let place = *place as usize;
            match blocks.len() {
                1 => (blocks.start, *vertex, place, to),
                _ => (blocks.start + place / longest, *vertex, place % longest, to),
            }
        });
        let mut places: Vec<(usize, u32, usize, usize)> = places.collect();
        places.sort_unstable();
        let mut found = vec![NO_VERTEX; wanted.len()];
        let mut rest = &places[..];
        while !rest.is_empty() {
            self.job.control.check()?;
            let mut keys: Vec<BlockKey> = Vec::new();
            let mut count = 0;
            for (block, ..) in rest {
                let key = (part == Part::In, *block);
                if keys.last() != Some(&key) {
                    if keys.len() == BLOCKS_KEPT {
                        break;
                    }
                    keys.push(key);
                }
                count += 1;
            }
            self.load(&keys)?;
            let mut here = &rest[..count];
            for key in keys {
                let in_block = here.partition_point(|(block, ..)| *block == key.1);
                let mut left = &here[..in_block];
                here = &here[in_block..];
                self.show(key, |list: List<'_>| {
                    while let Some(((_, vertex, place, to), behind)) = left.split_first()
                        && *vertex == list.vertex
                    {
                        if let Some(neighbour) = list.neighbours.get(*place) {
                            found[*to] = *neighbour;
                        }
                        left = behind;
                    }
                    Ok(())
                })?;
            }
            rest = &rest[count..];
        }
        match found.contains(&NO_VERTEX) {
            false => Ok(found),
            true => {
                let cause = "a list is shorter than the degree of its vertex";
                Err(damaged(&self.graph.part_path(part), cause))
            }
        }
    }

    fn show(
        &self,
        (is_source, number): BlockKey,
        visit: impl FnMut(List<'_>) -> Result<()>,
    ) -> Result<()> {
        let part = part_of(is_source);
        let manifest = &self.graph.manifest;
        let words = self.kept.get(&(is_source, number));
        let bytes: &[u8] = words.map_or(&[], |words| bytemuck::cast_slice(words));
        let what = (manifest.id, part, number as u64, manifest.weighted);
        match read_block(bytes, what, visit)? {
            true => Ok(()),
            false => {
                let cause = format!("block {number} is not what was written");
                let at_bytes = (number * LIST_BLOCK_BYTES) as u64;
                Err(damaged(&self.graph.part_path(part), cause).offset(at_bytes))
            }
        }
    }

    /// Reads those of `batch` that are not kept.
    fn load(&mut self, batch: &[BlockKey]) -> Result<()> {
        let missing = |key: &&BlockKey| !self.kept.contains_key(key);
        let missing: Vec<BlockKey> = batch.iter().filter(missing).copied().collect();
        if self.kept.len() + missing.len() > BLOCKS_KEPT {
            let wanted: std::collections::HashSet<&BlockKey> = batch.iter().collect();
            self.kept.retain(|key, _| wanted.contains(key));
        }
        for is_source in [false, true] {
            let of_part = missing.iter().filter(|(part, _)| *part == is_source);
            let numbers: Vec<u64> = of_part.map(|(_, number)| *number as u64).collect();
            if numbers.is_empty() {
                continue;
            }
            let input = self.graph.part_input(part_of(is_source));
            let (bytes, done) = primitives::gather(self.job, &[input], LIST_BLOCK_BYTES, &numbers)?;
            self.graph.note_read((LISTS, None), &done);
            for (number, block) in numbers.iter().zip(bytes.chunks_exact(LIST_BLOCK_BYTES)) {
                let words = bytemuck::pod_collect_to_vec::<u8, u32>(block);
                self.kept
                    .insert((is_source, *number as usize), words.into_boxed_slice());
            }
        }
        Ok(())
    }
}

fn part_of(is_source: bool) -> Part {
    match is_source {
        true => Part::In,
        false => Part::Out,
    }
}
