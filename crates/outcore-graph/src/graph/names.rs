//! The original ids of a graph's vertices, if these were renumbered.
//!
//! Contract: numeric ids are in memory, eight bytes each. Strings stay in their file
//! ([`crate::format::names`]); only its index is in memory. [`Names::held`] loads the names of some
//! vertices, [`Names::vertices`] finds vertices by name, and a pass over the blocks returns all
//! names in order. Blocks are verified when they are read.
//!
//! Bounds: [`CACHE_BLOCKS`] blocks during a search for vertices; the bytes of loaded names.

use std::collections::HashMap;
use std::path::PathBuf;

use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::{self, Batch, Sequence};
use outcore::{Input, Job, Result};
use outcore_io::checksum::bytes_checksum;
use outcore_io::memory::Reservation;
use outcore_io::units;

use super::{Graph, damaged, load_numbers};
use crate::edges::item::fail;
use crate::format::names::{NAME_BLOCK_BYTES, NameBlock};

/// Blocks that are read together, and kept during a search for vertices.
const CACHE_BLOCKS: usize = 64;
/// Memory of a loaded name in addition to its bytes.
const HELD_BYTES: u64 = 48;

/// The names of vertices; see the module.
#[derive(Debug)]
pub struct Names {
    kind: NamesKind,
    _held: Reservation,
}

#[derive(Debug)]
enum NamesKind {
    Numbers(Vec<u64>),
    Text(TextNames),
}

/// Names that are strings.
#[derive(Debug)]
pub(crate) struct TextNames {
    path: PathBuf,
    input: Input,
    id: u64,
    vertices: u32,
    firsts: Vec<u32>,
}

/// The names of some vertices, in memory.
#[derive(Debug)]
pub struct HeldNames {
    vertices: Vec<u32>,
    names: Vec<String>,
    _held: Reservation,
}

impl HeldNames {
    /// Returns the name of one of the requested vertices.
    pub fn get(&self, vertex: u32) -> &str {
        let found = self.vertices.binary_search(&vertex).ok();
        let name = found.and_then(|at| self.names.get(at));
        name.map_or("", String::as_str)
    }
}

impl Graph {
    /// Opens the original ids of the vertices, if they were renumbered.
    ///
    /// # Errors
    /// As [`Graph::open`]; [`outcore::Kind::Memory`] if numeric ids do not fit.
    pub fn names(&self, job: &Job) -> Result<Option<Names>> {
        let manifest = &self.manifest;
        let path = self.files.path("names");
        let input = self.files.input("names");
        if let Some(text) = &manifest.text_names {
            let held = job.budget.reserve("index of names", text.blocks * 4)?;
            let firsts =
                load_numbers(job, &self.files, "names.index", text.blocks, text.index_sum)?;
            let kind = NamesKind::Text(TextNames {
                path,
                input,
                id: manifest.id,
                vertices: self.vertices() as u32,
                firsts,
            });
            return Ok(Some(Names { kind, _held: held }));
        }
        let Some(sum) = manifest.names_sum else {
            return Ok(None);
        };
        let held = job
            .budget
            .reserve("original ids", 8 * self.vertices() as u64)?;
        let names = primitives::collect(job, &primitives::read::<u64>(&[input]))?;
        match bytes_checksum(bytemuck::cast_slice(&names)) == sum {
            true => Ok(Some(Names {
                kind: NamesKind::Numbers(names),
                _held: held,
            })),
            false => Err(damaged(
                &path,
                "it is damaged: it differs from what was written",
            )),
        }
    }
}

impl Names {
    /// The names, if they are numbers.
    pub fn numbers(&self) -> Option<&[u64]> {
        match &self.kind {
            NamesKind::Numbers(numbers) => Some(numbers),
            NamesKind::Text(_) => None,
        }
    }

    /// The names, if they are strings.
    pub(crate) fn text(&self) -> Option<&TextNames> {
        match &self.kind {
            NamesKind::Numbers(_) => None,
            NamesKind::Text(text) => Some(text),
        }
    }

    /// Loads the names of some vertices, which may be in any order and repeat.
    ///
    /// # Errors
    /// [`outcore::Kind::Memory`] if they do not fit, [`outcore::Kind::Corrupt`] for a damaged
    /// block; errors of reading.
    pub fn held(&self, job: &Job, mut vertices: Vec<u32>) -> Result<HeldNames> {
        vertices.sort_unstable();
        vertices.dedup();
        let average_bytes = match &self.kind {
            NamesKind::Numbers(_) => 20,
            NamesKind::Text(text) => {
                (text.firsts.len() * NAME_BLOCK_BYTES) as u64 / u64::from(text.vertices.max(1))
            }
        };
        let bytes = vertices.len() as u64 * (average_bytes + HELD_BYTES);
        let held = job.budget.reserve("names of vertices", bytes)?;
        let names = match &self.kind {
            NamesKind::Numbers(numbers) => {
                let name = |vertex: &u32| numbers.get(*vertex as usize).map(u64::to_string);
                vertices
                    .iter()
                    .map(|vertex| name(vertex).unwrap_or_default())
                    .collect()
            }
            NamesKind::Text(text) => text.of(job, &vertices)?,
        };
        Ok(HeldNames {
            vertices,
            names,
            _held: held,
        })
    }

    /// Finds the vertex of each name; `None` for an unknown name.
    ///
    /// # Errors
    /// As [`Names::held`].
    pub fn vertices(&self, job: &Job, names: &[String]) -> Result<Vec<Option<u32>>> {
        match &self.kind {
            NamesKind::Numbers(numbers) => {
                let find = |name: &String| {
                    let number: u64 = name.parse().ok()?;
                    numbers
                        .binary_search(&number)
                        .ok()
                        .map(|vertex| vertex as u32)
                };
                Ok(names.iter().map(find).collect())
            }
            NamesKind::Text(text) => text.find(job, names),
        }
    }

    /// Reads all of the names, and fails if any block is damaged.
    ///
    /// # Errors
    /// As [`Names::held`].
    pub fn verify(&self, job: &Job) -> Result<()> {
        let Some(text) = self.text() else {
            return Ok(());
        };
        if text.firsts.is_empty() {
            return Ok(());
        }
        let counts = text.lines(|_, _, line: &mut Vec<u8>| line.push(1));
        let count = primitives::map_reduce(job, &counts, u64::from, 0, |a, b| a + b)?;
        match count == u64::from(text.vertices) {
            true => Ok(()),
            false => Err(damaged(
                &text.path,
                format!("it has {}", units::counted(count, "name")),
            )),
        }
    }
}

/// Adds the bytes that `write` makes for each vertex and its name.
pub(crate) struct NameLines<'n, W> {
    names: &'n TextNames,
    write: W,
}

impl TextNames {
    /// A pass over all names; `write` adds bytes for each.
    pub(crate) fn lines<W: Fn(u32, &[u8], &mut Vec<u8>) + Sync>(
        &self,
        write: W,
    ) -> NameLines<'_, W> {
        NameLines { names: self, write }
    }

    fn block<'b>(&self, number: u64, bytes: &'b [u8]) -> Result<NameBlock<'b>> {
        let block = NameBlock::read(bytes, self.id, number);
        let first = self.firsts.get(number as usize).copied();
        let block = block.filter(|block| Some(block.first) == first);
        block.ok_or_else(|| {
            damaged(
                &self.path,
                format!("block {number} is damaged: it differs from what was written"),
            )
            .offset(number * NAME_BLOCK_BYTES as u64)
        })
    }

    fn read(&self, job: &Job, numbers: &[u64]) -> Result<Vec<u8>> {
        let input = std::slice::from_ref(&self.input);
        let (bytes, _) = primitives::gather(job, input, NAME_BLOCK_BYTES, numbers)?;
        Ok(bytes)
    }

    /// Returns the names of vertices, which ascend.
    fn of(&self, job: &Job, vertices: &[u32]) -> Result<Vec<String>> {
        let bytes = (CACHE_BLOCKS * NAME_BLOCK_BYTES) as u64;
        let _blocks = job.budget.reserve("blocks of names", bytes)?;
        let block_of = |vertex: u32| {
            let behind = self.firsts.partition_point(|first| *first <= vertex);
            behind.saturating_sub(1) as u64
        };
        let mut numbers: Vec<u64> = vertices.iter().map(|vertex| block_of(*vertex)).collect();
        numbers.dedup();
        let mut names = Vec::with_capacity(vertices.len());
        let mut rest = vertices.iter().peekable();
        for some in numbers.chunks(CACHE_BLOCKS) {
            let bytes = self.read(job, some)?;
            for (number, bytes) in some.iter().zip(bytes.chunks_exact(NAME_BLOCK_BYTES)) {
                let block = self.block(*number, bytes)?;
                for (vertex, name) in (block.first..).zip(block.iter()) {
                    if rest.next_if(|wanted| **wanted == vertex).is_some() {
                        names.push(String::from_utf8_lossy(name).into_owned());
                    }
                }
            }
        }
        match names.len() == vertices.len() {
            true => Ok(names),
            false => Err(damaged(&self.path, "it lacks names of vertices")),
        }
    }

    /// Finds the vertices of names: a binary search over the blocks, then within a block.
    fn find(&self, job: &Job, names: &[String]) -> Result<Vec<Option<u32>>> {
        let bytes = (CACHE_BLOCKS * NAME_BLOCK_BYTES) as u64;
        let _blocks = job.budget.reserve("blocks of names", bytes)?;
        let mut order: Vec<usize> = (0..names.len()).collect();
        // In sorted order, adjacent names use the same blocks.
        order.sort_unstable_by(|a, b| names[*a].cmp(&names[*b]));
        let mut kept: HashMap<u64, Vec<u8>> = HashMap::new();
        let mut found = vec![None; names.len()];
        for index in order {
            job.control.check()?;
            let wanted = names[index].as_bytes();
            let (mut low, mut high) = (0, self.firsts.len() as u64);
            while low < high {
                let middle = low + (high - low) / 2;
                if !kept.contains_key(&middle) {
                    if kept.len() + 1 >= CACHE_BLOCKS {
                        kept.clear();
                    }
                    kept.insert(middle, self.read(job, &[middle])?);
                }
                let bytes = kept.get(&middle).map_or(&[][..], Vec::as_slice);
                let block = self.block(middle, bytes)?;
                let place = block.iter().take_while(|name| *name <= wanted).count();
                let last = block.iter().nth(place.wrapping_sub(1));
                match place {
                    0 => high = middle,
                    _ if last == Some(wanted) => {
                        found[index] = Some(block.first + place as u32 - 1);
                        break;
                    }
                    _ if place == block.len() => low = middle + 1,
                    _ => break,
                }
            }
        }
        Ok(found)
    }
}

impl<W: Fn(u32, &[u8], &mut Vec<u8>) + Sync> Sequence for NameLines<'_, W> {
    type Item = u8;
    const YIELD: Yield = Yield::Any;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(Source {
            inputs: vec![self.names.input.clone()],
            element_bytes: NAME_BLOCK_BYTES,
            align_bytes: 1,
            count: 0,
        });
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = u8> {
        let blocks = batch.bytes(0).chunks_exact(NAME_BLOCK_BYTES);
        (batch.first..).zip(blocks).flat_map(|(number, bytes)| {
            let block = self.names.block(number, bytes);
            let block = block.unwrap_or_else(|error| fail(error));
            let mut lines = Vec::new();
            for (vertex, name) in (block.first..).zip(block.iter()) {
                (self.write)(vertex, name, &mut lines);
            }
            lines
        })
    }
}
