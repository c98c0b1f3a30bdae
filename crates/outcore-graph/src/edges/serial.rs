//! Reads GAP's serialized graphs: `.sg`, and `.wsg` with weights.
//!
//! Contract: a file has
//!
//! - a byte that says whether edges are directed
//! - the numbers of edges and vertices (i64)
//! - the start of each vertex's list (i64, one more than there are vertices)
//! - the lists (i32 each; in `.wsg` an i32 weight after each)
//! - for directed edges, the lists of sources, which are redundant and not read
//!
//! An undirected edge is in two lists; it is taken from the list of its larger end. These are
//! errors of corrupt data: offsets that descend or are outside the lists, neighbours that are not
//! vertices, a wrong length, and undirected edges that are in only one list.
//!
//! Bounds: one read of offsets and lists; the offsets, and one number per piece, are in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::{self, Batch, Sequence};
use outcore::{Context, Error, Input, Job, Output, Result};
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::paths;
use outcore_io::memory::Reservation;
use outcore_io::units;

use super::item::{Edge, Item, fail};
use super::{Parsed, READ};
use crate::format::weight::WeightType;

const HEAD_BYTES: usize = 1 + 8 + 8;

/// The head of a serialized graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Serial {
    pub(super) vertices: u64,
    edges: u64,
    pub(super) is_directed: bool,
    /// Whether the file has weights, and whether they are requested.
    is_stored: bool,
    is_wanted: bool,
}

impl Serial {
    fn item_bytes(&self) -> u64 {
        if self.is_stored { 8 } else { 4 }
    }

    fn lists_at_bytes(&self) -> u64 {
        HEAD_BYTES as u64 + 8 * (self.vertices + 1)
    }

    /// The length of a complete file.
    fn file_bytes(&self) -> u64 {
        let lists_bytes = 8 * (self.vertices + 1) + self.edges * self.item_bytes();
        let directions = if self.is_directed { 2 } else { 1 };
        HEAD_BYTES as u64 + directions * lists_bytes
    }
}

/// Reads the head.
pub(super) fn open(job: &Job, path: &Path, is_stored: bool, is_wanted: bool) -> Result<Serial> {
    let corrupt = |cause: String| {
        Error::corrupt(READ, cause).path(path).hint(
            "write the graph again: it is cut short or too long, or not a serialized graph of GAP",
        )
    };
    let mut head = [0; HEAD_BYTES];
    if job.device.read_head(path, &mut head)? < HEAD_BYTES {
        return Err(corrupt(
            "it is shorter than its head of 17 bytes".to_owned(),
        ));
    }
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head[at..at + 8]);
        i64::from_le_bytes(bytes)
    };
    let sizes = (u64::try_from(number(1)).ok(), u64::try_from(number(9)).ok());
    let (Some(edges), Some(vertices)) = sizes else {
        return Err(corrupt(
            "it has a negative number of edges or vertices".to_owned(),
        ));
    };
    if head[0] > 1 || vertices > i32::MAX as u64 || edges > 1 << 56 {
        let cause = format!(
            "its header is wrong: it says {} and {}",
            units::counted(vertices, "vertex"),
            units::counted(edges, "edge")
        );
        return Err(corrupt(cause));
    }
    let serial = Serial {
        vertices,
        edges,
        is_directed: head[0] == 1,
        is_stored,
        is_wanted,
    };
    let facts = paths::facts(path);
    let found_bytes = facts.map_err(|error| Error::io(READ, &error).path(path))?;
    let (found_bytes, wanted_bytes) = (found_bytes.len(), serial.file_bytes());
    if found_bytes != wanted_bytes {
        let cause = format!(
            "it has {}, but {} with {} need {wanted_bytes}",
            units::counted(found_bytes, "byte"),
            units::counted(vertices, "vertex"),
            units::counted(edges, "edge")
        );
        return Err(corrupt(cause));
    }
    Ok(serial)
}

/// The edges of the lists.
struct Lists<'a, T> {
    serial: &'a Serial,
    weights: Option<WeightType>,
    path: &'a Path,
    input: Input,
    starts: &'a [u64],
    /// For each piece, by its first position: the sum for its undirected edges.
    sums: Mutex<BTreeMap<u64, u64>>,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T: Item> Lists<'_, T> {
    fn items(&self, bytes: &[u8], first: u64) -> Vec<T> {
        let words: &[i32] = bytemuck::cast_slice(bytes);
        let step = self.serial.item_bytes() as usize / 4;
        let mut vertex = self.starts.partition_point(|at| *at <= first) - 1;
        let mut items = Vec::with_capacity(words.len() / step);
        let mut sum = 0u64;
        for (position, word) in (first..).zip(words.chunks_exact(step)) {
            while self.starts[vertex + 1] <= position {
                vertex += 1;
            }
            let source = vertex as u64;
            let target = match u64::try_from(word[0]) {
                Ok(target) if target < self.serial.vertices => target,
                _ => {
                    let cause = format!("the neighbour {} is not a vertex", word[0]);
                    let at_bytes = self.input.header_bytes + position * self.serial.item_bytes();
                    let error = Error::corrupt(READ, cause).path(self.path);
                    fail(
                        error
                            .offset(at_bytes)
                            .hint("write the graph again, from the edges"),
                    );
                }
            };
            let weight_bits = if self.serial.is_wanted { word[1] } else { 0 };
            let number = mixed(source.min(target), source.max(target), weight_bits);
            sum = match source.cmp(&target) {
                std::cmp::Ordering::Less => sum.wrapping_add(number),
                std::cmp::Ordering::Equal => sum,
                std::cmp::Ordering::Greater => sum.wrapping_sub(number),
            };
            if !self.serial.is_directed && target > source {
                continue;
            }
            let weight = match self.weights {
                Some(of) => of.of_whole(word[1].into()),
                None => Ok(0),
            };
            let weight = weight.unwrap_or_else(|cause| fail(Error::corrupt(READ, cause)));
            items.extend(T::of(Edge {
                source,
                target,
                weight,
            }));
        }
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.insert(first, sum);
        items
    }

    /// Fails for undirected edges that are not in the lists of both ends.
    ///
    /// Each edge adds a hash of its ends and its weight when it is read from the smaller end, and
    /// subtracts it when it is read from the larger one, in any order. Symmetric lists give 0.
    /// Other lists give 0 with a probability of 2^-64. A crafted file can give 0, because the hash
    /// is known.
    fn check_symmetric(&self) -> Result<()> {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = sums
            .values()
            .fold(0, |sum: u64, some| sum.wrapping_add(*some));
        match self.serial.is_directed || sum == 0 {
            true => Ok(()),
            false => Err(Error::corrupt(
                READ,
                "it is marked as undirected, but an edge is not in the lists of both ends with the \
                 same weight",
            )
            .path(self.path)
            .hint("write the graph again, as directed or with each edge in both lists")),
        }
    }
}

/// A pseudorandom number for an edge.
fn mixed(low: u64, high: u64, weight_bits: i32) -> u64 {
    bytes_checksum(bytemuck::cast_slice(&[low, high, weight_bits as u64]))
}

impl<T: Item> Sequence for Lists<'_, T> {
    type Item = T;
    const YIELD: Yield = Yield::Any;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(Source {
            inputs: vec![self.input.clone()],
            element_bytes: self.serial.item_bytes() as usize,
            align_bytes: 4,
            count: 0,
        });
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = T> {
        self.items(batch.bytes(0), batch.first).into_iter()
    }
}

/// Reads and checks the offsets, which are in memory as long as the reservation is held.
fn offsets_of(job: &Job, path: &Path, serial: &Serial) -> Result<(Vec<u64>, Reservation)> {
    let bytes = 8 * (serial.vertices + 1);
    let held = job
        .budget
        .reserve("offsets of a serialized graph", 2 * bytes)?;
    let input = Input {
        path: path.to_path_buf(),
        header_bytes: HEAD_BYTES as u64,
        data_bytes: Some(bytes),
    };
    let offsets = Context::of_job(job)
        .read_inputs::<u64>(&[input])
        .collect()?;
    let is_sound = offsets.windows(2).all(|pair| pair[0] <= pair[1])
        && offsets.first() == Some(&0)
        && offsets.last() == Some(&serial.edges);
    match is_sound {
        true => Ok((offsets, held)),
        false => Err(Error::corrupt(
            READ,
            "its offsets do not ascend from 0 to the number of edges",
        )
        .path(path)
        .hint("write the graph again")),
    }
}

/// Writes the edges of a serialized graph to `to`.
pub(super) fn parse(
    job: &Job,
    path: &Path,
    serial: &Serial,
    weights: Option<WeightType>,
    to: &Path,
) -> Result<Parsed> {
    match weights {
        None => parse_to::<[u32; 2]>(job, path, serial, None, to),
        Some(WeightType::F32) => parse_to::<[u32; 3]>(job, path, serial, weights, to),
        Some(_) => parse_to::<[u32; 4]>(job, path, serial, weights, to),
    }
}

fn parse_to<T: Item>(
    job: &Job,
    path: &Path,
    serial: &Serial,
    weights: Option<WeightType>,
    to: &Path,
) -> Result<Parsed> {
    let (offsets, _held) = offsets_of(job, path, serial)?;
    let lists = Lists::<T> {
        serial,
        weights,
        path,
        input: Input {
            path: path.to_path_buf(),
            header_bytes: serial.lists_at_bytes(),
            data_bytes: Some(serial.edges * serial.item_bytes()),
        },
        starts: &offsets,
        sums: Mutex::default(),
        item: std::marker::PhantomData,
    };
    let output = Output::File {
        path: to.to_path_buf(),
        header: None,
    };
    let done = primitives::write(job, &lists, &output, false)?;
    lists.check_symmetric()?;
    Ok(Parsed {
        inputs: vec![Input::raw(to)],
        largest: serial.vertices.checked_sub(1),
        parsed_bytes: done.read_bytes,
        skipped: 0,
    })
}
