//! Reads the lists of some vertices, block by block.
//!
//! Contract: a [`ListReader`] reads the blocks with the lists of given vertices. Each block is read
//! once; adjacent blocks are read together, with many reads in flight. The reader passes on the
//! parts of the lists in each block. If there are many blocks, the threads that read them pass them
//! on as they arrive, and do not keep them. If there are few, the most recent blocks are kept, so
//! small frontiers with adjacent lists do not need a read each.
//!
//! Bounds: [`ListReader::BYTES`] of blocks; at most one read per block that is not kept.

use std::collections::HashMap;

use outcore::{Job, Result, primitives};
use outcore_io::memory::Reservation;

use super::plan::LISTS;
use super::{Direction, Graph, damaged};
use crate::format::list::{BlockOf, LIST_BLOCK_BYTES, List, alone_max, read_block};
use crate::format::{NO_VERTEX, Part};

/// The number of blocks that are kept.
const BLOCKS_KEPT: usize = 1024;
/// More blocks than this are passed on as they arrive.
const BLOCKS_FEW: usize = 64;

/// A block of one of the files of lists.
type BlockKey = (bool, usize);

/// A place in the list of a vertex.
#[derive(Debug, Clone, Copy)]
pub struct ListPlace {
    /// The vertex.
    pub vertex: u32,
    /// The index of the neighbour.
    pub place: u32,
}

/// Reads lists; see the module.
pub struct ListReader<'g> {
    graph: &'g Graph,
    job: &'g Job,
    kept: HashMap<BlockKey, Box<[u32]>>,
    _held: Reservation,
}

impl<'g> ListReader<'g> {
    /// Its memory: twice that of the kept blocks, because other blocks are being read.
    pub(crate) const BYTES: u64 = 2 * (BLOCKS_KEPT * LIST_BLOCK_BYTES) as u64;

    /// Creates a reader for the lists of `graph`.
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

    /// Returns the blocks with the lists of `vertices`, which ascend; `None` if there are more than
    /// `most`.
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

    /// Passes all lists in `blocks` to `visit`, including those of other vertices; on several
    /// threads if there are many.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`] for a damaged block; errors of `visit` and of reading.
    pub(super) fn each_in(
        &mut self,
        blocks: &[BlockKey],
        visit: &(impl Fn(List<'_>) -> Result<()> + Sync),
    ) -> Result<()> {
        if blocks.len() > BLOCKS_FEW {
            return self
                .stream(blocks, || (), |(), _, list| visit(list))
                .map(drop);
        }
        self.load(blocks)?;
        blocks.iter().try_for_each(|key| self.show(*key, visit))
    }

    /// Passes all lists in `blocks` to `visit` as they arrive, on all threads, each with the place
    /// of its block; returns the state of each thread.
    fn stream<S: Send>(
        &self,
        blocks: &[BlockKey],
        state: impl Fn() -> S + Sync,
        visit: impl Fn(&mut S, usize, List<'_>) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let mut states = Vec::new();
        for is_source in [false, true] {
            let of_part = blocks.iter().enumerate();
            let of_part = of_part.filter(|(_, (part, _))| *part == is_source);
            let (places, numbers): (Vec<usize>, Vec<u64>) = of_part
                .map(|(place, (_, number))| (place, *number as u64))
                .unzip();
            if numbers.is_empty() {
                continue;
            }
            let input = self.graph.part_input(part_of(is_source));
            let show = |state: &mut S, at: usize, bytes: &[u8]| {
                let key = (is_source, numbers[at] as usize);
                let visit = |list: List<'_>| visit(state, places[at], list);
                // In a packed file, the block may be at any offset.
                match bytemuck::try_cast_slice::<u8, u32>(bytes) {
                    Ok(_) => self.show_bytes(key, bytes, visit),
                    Err(_) => {
                        let words = bytemuck::pod_collect_to_vec::<u8, u32>(bytes);
                        self.show_bytes(key, bytemuck::cast_slice(&words), visit)
                    }
                }
            };
            let (made, done) = primitives::gather_each(
                self.job,
                &[input][..],
                LIST_BLOCK_BYTES,
                &numbers,
                &state,
                show,
            )?;
            self.graph.note_read(LISTS, None, &done);
            states.extend(made);
        }
        Ok(states)
    }

    /// Passes the parts of each block that belong to lists of `vertices`, which ascend, to `visit`.
    ///
    /// # Errors
    /// Errors of reading and of `visit`.
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

    /// Returns the neighbours at some places of lists, in the order of the request. For directed
    /// graphs, `direction` must be one of the two directions.
    ///
    /// # Errors
    /// As [`ListReader::each`]; [`outcore::Kind::Corrupt`] for a place beyond the end of a list.
    pub fn at(&mut self, wanted: &[ListPlace], direction: Direction) -> Result<Vec<u32>> {
        let part = self.graph.parts(direction).first().copied();
        let part = part.unwrap_or(Part::Out);
        let index = self.graph.index(part);
        let longest = alone_max(self.graph.manifest.weights());
        // For each wanted place: its block, its vertex, its index in the block's part of the list,
        // and its index in the result.
        let places = wanted
            .iter()
            .enumerate()
            .map(|(to, ListPlace { vertex, place })| {
                let blocks = index.blocks_of(*vertex);
                let place = *place as usize;
                match blocks.len() {
                    1 => (blocks.start, *vertex, place, to),
                    _ => (blocks.start + place / longest, *vertex, place % longest, to),
                }
            });
        let mut places: Vec<(usize, u32, usize, usize)> = places.collect();
        places.sort_unstable();
        let mut keys: Vec<BlockKey> = Vec::new();
        for (block, ..) in &places {
            let key = (part == Part::In, *block);
            if keys.last() != Some(&key) {
                keys.push(key);
            }
        }
        let find = |found: &mut Vec<(usize, u32)>, key: usize, list: List<'_>| {
            let wanted = (keys[key].1, list.vertex);
            let from = places.partition_point(|(block, vertex, ..)| (*block, *vertex) < wanted);
            let here = places[from..].iter();
            for (_, _, place, to) in here.take_while(|place| (place.0, place.1) == wanted) {
                if let Some(neighbour) = list.neighbours.get(*place) {
                    found.push((*to, *neighbour));
                }
            }
            Ok(())
        };
        let of_threads = match keys.len() > BLOCKS_FEW {
            true => self.stream(&keys, Vec::new, find)?,
            false => {
                self.load(&keys)?;
                let mut found = Vec::new();
                for (at, key) in keys.iter().enumerate() {
                    self.show(*key, |list| find(&mut found, at, list))?;
                }
                vec![found]
            }
        };
        let mut found = vec![NO_VERTEX; wanted.len()];
        for (to, neighbour) in of_threads.into_iter().flatten() {
            found[to] = neighbour;
        }
        match found.contains(&NO_VERTEX) {
            false => Ok(found),
            true => {
                let cause = "a list is shorter than the degree of its vertex";
                Err(damaged(&self.graph.part_path(part), cause))
            }
        }
    }

    /// Passes on the lists of a kept block.
    fn show(&self, key: BlockKey, visit: impl FnMut(List<'_>) -> Result<()>) -> Result<()> {
        let words = self.kept.get(&key);
        self.show_bytes(
            key,
            words.map_or(&[], |words| bytemuck::cast_slice(words)),
            visit,
        )
    }

    /// Passes on the lists of a block.
    fn show_bytes(
        &self,
        (is_source, number): BlockKey,
        bytes: &[u8],
        visit: impl FnMut(List<'_>) -> Result<()>,
    ) -> Result<()> {
        let part = part_of(is_source);
        let manifest = &self.graph.manifest;
        let what = BlockOf {
            id: manifest.id,
            part,
            number: number as u64,
            weights: manifest.weights(),
        };
        match read_block(bytes, what, visit)? {
            true => Ok(()),
            false => {
                let cause = format!("block {number} is damaged: it differs from what was written");
                let at_bytes = (number * LIST_BLOCK_BYTES) as u64;
                Err(damaged(&self.graph.part_path(part), cause).offset(at_bytes))
            }
        }
    }

    /// Reads the blocks of `batch` that are not kept.
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
            let keep = |kept: &mut Vec<(usize, Box<[u32]>)>, place: usize, block: &[u8]| {
                kept.push((
                    place,
                    bytemuck::pod_collect_to_vec(block).into_boxed_slice(),
                ));
                Ok(())
            };
            let (kept, done) = primitives::gather_each(
                self.job,
                &[input][..],
                LIST_BLOCK_BYTES,
                &numbers,
                Vec::new,
                keep,
            )?;
            self.graph.note_read(LISTS, None, &done);
            for (place, words) in kept.into_iter().flatten() {
                self.kept
                    .insert((is_source, numbers[place] as usize), words);
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
