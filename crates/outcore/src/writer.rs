//! Writes bytes at their final place: pieces of any length become aligned writes, each block once.
//!
//! Contract (PALID, SPAA 2025, section 3, batched writer): pieces of the output arrive in any order
//! from any thread and cover it exactly once. The part of a piece that fills whole 4 KiB blocks is
//! written from the piece's own buffer. This takes no copy if the buffer is aligned like the file
//! (`address % 4096 == offset % 4096`). The rest at its edges goes to a table of edge blocks that
//! all threads share; the piece that completes a block writes it. The last block is padded; the
//! file is truncated when it is published.
//!
//! If a journal vouches for the output, the writer notes the checksum of each write ([`written`]).
//!
//! Memory: one 4 KiB block for each edge that waits for its other half: at most two per piece in
//! flight, plus one per shard.

mod ranges;
mod written;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use outcore_io::drive::Op;
use outcore_io::memory::{BLOCK_BYTES, Buf, Pool, block_ceil, block_floor};
use outcore_io::output::StagedOutput;
use outcore_io::port::{Port, Volume, VolumeFile};
use outcore_io::transfers::{Arrival, ReadRange, Transfers, WRITE_BEHIND, wait_behind};
use outcore_io::{Error, Kind, Result};

pub(crate) use ranges::Ranges;
pub(crate) use written::{WrittenPiece, whole_pieces};

/// Token of the writes made here; callers use others for their own.
pub(crate) const WRITE_TOKEN: u64 = WRITE_BEHIND;

/// One file of the output, with the range of its data.
#[derive(Debug, Clone)]
struct Target {
    file: VolumeFile,
    start_bytes: u64,
    end_bytes: u64,
    header_bytes: u64,
}

/// A block of a file that is not full.
#[derive(Debug, Clone)]
pub(crate) struct EdgeBlock {
    /// Index of the file.
    pub(crate) file: usize,
    pub(crate) number: u64,
    pub(crate) bytes: Box<[u8; BLOCK_BYTES]>,
}

#[derive(Debug)]
struct Edge {
    bytes: Box<[u8; BLOCK_BYTES]>,
    filled_bytes: usize,
}

/// The shared destination of all writes to an output.
#[derive(Debug)]
pub(crate) struct Writer {
    targets: Vec<Target>,
    /// Keyed by (target, block number).
    edges: Mutex<HashMap<(usize, u64), Edge>>,
    /// Full edge blocks that found no slot: (target, block number, bytes).
    deferred: Mutex<Vec<(usize, u64, Edge)>>,
    edge_pool: Pool,
    /// The pieces submitted since the last call of [`Writer::take_written`], if a journal vouches
    /// for the output.
    written: Option<Mutex<Vec<WrittenPiece>>>,
}

impl Writer {
    /// A writer to the files of `output`; `edge_pool` has 4 KiB slots for edge blocks in flight.
    pub(crate) fn new(output: &StagedOutput, edge_pool: Pool) -> Self {
        let targets: Vec<Target> = output
            .shards()
            .iter()
            .map(|shard| Target {
                file: shard.file.clone(),
                start_bytes: shard.plan.start_bytes,
                end_bytes: shard.plan.start_bytes + shard.plan.len_bytes,
                header_bytes: shard.plan.header.len() as u64,
            })
            .collect();
        Writer {
            targets,
            edges: Mutex::new(HashMap::new()),
            deferred: Mutex::default(),
            edge_pool,
            written: None,
        }
    }

    /// The same writer to one file for which a journal vouches: it notes the pieces that it writes.
    pub(crate) fn noting_writes(mut self) -> Self {
        self.written = Some(Mutex::default());
        self
    }

    /// The pieces that were written to the file since the last call, and the length of its header.
    /// No write may be in flight.
    pub(crate) fn take_written(&self) -> (u64, Vec<WrittenPiece>) {
        let header_bytes = self.targets.first().map_or(0, |target| target.header_bytes);
        let Some(written) = &self.written else {
            return (header_bytes, Vec::new());
        };
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        (header_bytes, std::mem::take(&mut *written))
    }

    /// Submits a write of whole blocks of a file.
    fn submit(&self, port: &mut Port, index: usize, at_bytes: u64, buf: Buf) {
        if let Some(written) = &self.written {
            let piece = WrittenPiece::of(at_bytes, &buf);
            let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
            written.push(piece);
        }
        let file = &self.targets[index].file;
        port.submit(file, Op::Write, at_bytes, buf, WRITE_TOKEN);
    }

    /// Offset in its file, modulo 4 KiB, of output byte `at_bytes`: buffers with this alignment are
    /// written without a copy.
    pub(crate) fn phase(&self, at_bytes: u64) -> usize {
        let target = self.target_of(at_bytes).map_or(at_bytes, |(_, target)| {
            target.header_bytes + (at_bytes - target.start_bytes)
        });
        (target % BLOCK_BYTES as u64) as usize
    }

    /// Bytes from `at_bytes` to the end of the file that holds it.
    pub(crate) fn room(&self, at_bytes: u64) -> u64 {
        self.target_of(at_bytes)
            .map_or(0, |(_, target)| target.end_bytes - at_bytes)
    }

    fn target_of(&self, at_bytes: u64) -> Option<(usize, &Target)> {
        let after = self
            .targets
            .partition_point(|target| target.end_bytes <= at_bytes);
        self.targets.get(after).map(|target| (after, target))
    }

    /// Writes the header of the first file; it has the planned length.
    pub(crate) fn write_header(&self, port: &mut Port, header: &[u8]) {
        let mut at = 0;
        for block in header.chunks(BLOCK_BYTES) {
            self.fill_edge(port, 0, at, block);
            at += block.len() as u64;
        }
    }

    /// Writes `buf[skip_bytes..skip_bytes + len_bytes]` at output byte `at_bytes`, all of it inside
    /// one file and aligned like the file (see [`Writer::phase`]). Fails if the piece is beyond the
    /// planned end; the write's own completion carries [`WRITE_TOKEN`].
    pub(crate) fn write(
        &self,
        port: &mut Port,
        mut buf: Buf,
        skip_bytes: usize,
        len_bytes: usize,
        at_bytes: u64,
    ) -> Result<()> {
        let Some((index, target)) = self.target_of(at_bytes) else {
            return Err(beyond(at_bytes));
        };
        if at_bytes + len_bytes as u64 > target.end_bytes {
            return Err(beyond(at_bytes));
        }
        let file_at = target.header_bytes + (at_bytes - target.start_bytes);
        let file_end = file_at + len_bytes as u64;
        assert_eq!(
            (buf.address() + skip_bytes) % BLOCK_BYTES,
            (file_at % BLOCK_BYTES as u64) as usize,
            "the buffer is laid out like the file"
        );
        let inner_from = block_ceil(file_at);
        let inner_to = block_floor(file_end);
        if inner_from >= inner_to {
            // No whole block: one edge, or two adjacent ones.
            let border = inner_from.min(file_end);
            let head = (border - file_at) as usize;
            let piece = &buf[skip_bytes..skip_bytes + len_bytes];
            self.fill_edge(port, index, file_at, &piece[..head]);
            self.fill_edge(port, index, border, &piece[head..]);
            return Ok(());
        }
        let head = (inner_from - file_at) as usize;
        let inner = (inner_to - inner_from) as usize;
        let tail = (file_end - inner_to) as usize;
        self.fill_edge(port, index, file_at, &buf[skip_bytes..skip_bytes + head]);
        let tail_from = skip_bytes + head + inner;
        self.fill_edge(port, index, inner_to, &buf[tail_from..tail_from + tail]);
        drop(buf.split_to(skip_bytes + head));
        let whole = buf.split_to(inner);
        self.submit(port, index, inner_from, whole);
        Ok(())
    }

    /// Copies bytes inside one block of one file, at output byte `at_bytes`.
    pub(crate) fn write_edge_of(&self, port: &mut Port, bytes: &[u8], at_bytes: u64) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (index, target) = self.target_of(at_bytes).ok_or_else(|| beyond(at_bytes))?;
        let file_at = target.header_bytes + (at_bytes - target.start_bytes);
        assert!(file_at % BLOCK_BYTES as u64 + bytes.len() as u64 <= BLOCK_BYTES as u64);
        self.fill_edge(port, index, file_at, bytes);
        Ok(())
    }

    /// Copies bytes of any length inside one file, starting at output byte `at_bytes`, block by
    /// block.
    pub(crate) fn write_copied(
        &self,
        port: &mut Port,
        mut bytes: &[u8],
        mut at_bytes: u64,
    ) -> Result<()> {
        while !bytes.is_empty() {
            let room = BLOCK_BYTES - self.phase(at_bytes);
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            self.write_edge_of(port, now, at_bytes)?;
            while !self.write_deferred(port) {
                wait_behind(port)?;
            }
            at_bytes += now.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Writes the waiting edge blocks once all data up to `end_bytes` have arrived: the last block
    /// of each file, padded with zeros.
    pub(crate) fn finish(&self, port: &mut Port, end_bytes: u64) -> Result<()> {
        let mut edges = self.edges.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left: Vec<_> = edges.drain().collect();
        drop(edges);
        left.sort_by_key(|((index, block), _)| (*index, *block));
        for ((index, block), edge) in left {
            let target = &self.targets[index];
            let data_end = end_bytes.clamp(target.start_bytes, target.end_bytes);
            let file_end = target.header_bytes + (data_end - target.start_bytes);
            let expected = (file_end - block * BLOCK_BYTES as u64).min(BLOCK_BYTES as u64);
            if edge.filled_bytes as u64 != expected {
                return Err(Error::new(
                    Kind::Corrupt,
                    "finish output",
                    format!(
                        "{} of {expected} bytes of a block were written",
                        edge.filled_bytes
                    ),
                )
                .path(&target.file.path)
                .offset(block * BLOCK_BYTES as u64)
                .hint("a bug: please report it"));
            }
            self.write_edge(port, index, block, edge);
        }
        while !self.write_deferred(port) || port.in_flight() > 0 {
            wait_behind(port)?;
        }
        Ok(())
    }

    /// Passes the edge blocks that are not written to `take`: index of the file, number, contents.
    /// No thread may be writing.
    pub(crate) fn each_edge(
        &self,
        mut take: impl FnMut(usize, u64, &[u8; BLOCK_BYTES]) -> Result<()>,
    ) -> Result<()> {
        let edges = self.edges.lock().unwrap_or_else(PoisonError::into_inner);
        for ((index, block), edge) in edges.iter() {
            take(*index, *block, &edge.bytes)?;
        }
        let deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, block, edge) in deferred.iter() {
            take(*index, *block, &edge.bytes)?;
        }
        Ok(())
    }

    /// Adds the blocks at the borders of `ranges`, which an earlier run has written, to `edges`,
    /// read from the files. Blocks that are among `edges` are not read.
    ///
    /// # Errors
    /// A read that failed; memory.
    pub(crate) fn read_borders(
        &self,
        volume: &Volume,
        ranges: &Ranges,
        edges: &mut Vec<EdgeBlock>,
    ) -> Result<()> {
        let borders = ranges
            .list()
            .iter()
            .flat_map(|range| [range.start, range.end]);
        let place = |border: u64| {
            let (file, target) = self.target_of(border)?;
            let at_bytes = target.header_bytes + (border - target.start_bytes);
            let is_inside = !at_bytes.is_multiple_of(BLOCK_BYTES as u64);
            is_inside.then_some((file, at_bytes / BLOCK_BYTES as u64))
        };
        let mut places: Vec<(usize, u64)> = borders.filter_map(place).collect();
        places.sort_unstable();
        places.dedup();
        places.retain(|place| edges.iter().all(|edge| (edge.file, edge.number) != *place));
        let pool = &self.edge_pool;
        let mut left = places.into_iter();
        let next = |_: &Port| {
            let (file, number) = left.next()?;
            Some(ReadRange {
                file: &self.targets[file].file,
                at_bytes: number * BLOCK_BYTES as u64,
                len_bytes: BLOCK_BYTES,
                what: (file, number),
            })
        };
        let take = |read: Arrival<(usize, u64)>| {
            let (file, number) = read.what;
            let mut bytes = Box::new([0; BLOCK_BYTES]);
            bytes[..read.len_bytes].copy_from_slice(&read.buf[..read.len_bytes]);
            edges.push(EdgeBlock {
                file,
                number,
                bytes,
            });
            Ok(())
        };
        Transfers::new(volume)?.read_each(pool, || Ok(()), next, take)
    }

    /// Takes an edge block of an earlier run, in which the bytes of the output in `ranges` are
    /// filled.
    pub(crate) fn restore_edge(&self, edge: EdgeBlock, ranges: &Ranges) {
        let EdgeBlock {
            file: index,
            number: block,
            bytes,
        } = edge;
        let Some(target) = self.targets.get(index) else {
            return;
        };
        let in_output =
            |file_at: u64| (file_at + target.start_bytes).saturating_sub(target.header_bytes);
        let at = block * BLOCK_BYTES as u64;
        let filled = ranges.inside(&(in_output(at)..in_output(at + BLOCK_BYTES as u64)));
        let filled_bytes = filled as usize;
        let edge = Edge {
            bytes,
            filled_bytes,
        };
        if filled_bytes == BLOCK_BYTES {
            let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
            deferred.push((index, block, edge));
        } else if filled_bytes > 0 {
            let mut edges = self.edges.lock().unwrap_or_else(PoisonError::into_inner);
            edges.insert((index, block), edge);
        }
    }

    /// Adds bytes inside one block of a file; writes the block once it is full.
    fn fill_edge(&self, port: &mut Port, index: usize, file_at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let block = file_at / BLOCK_BYTES as u64;
        let within = (file_at % BLOCK_BYTES as u64) as usize;
        let mut edges = self.edges.lock().unwrap_or_else(PoisonError::into_inner);
        let edge = edges.entry((index, block)).or_insert_with(|| Edge {
            bytes: Box::new([0; BLOCK_BYTES]),
            filled_bytes: 0,
        });
        edge.bytes[within..within + bytes.len()].copy_from_slice(bytes);
        edge.filled_bytes += bytes.len();
        if edge.filled_bytes < BLOCK_BYTES {
            return;
        }
        let full = edges.remove(&(index, block));
        drop(edges);
        self.write_deferred(port);
        if let Some(edge) = full {
            self.write_edge(port, index, block, edge);
        }
    }

    /// Writes a complete edge block, or defers it while all slots are in flight.
    fn write_edge(&self, port: &mut Port, index: usize, block: u64, edge: Edge) {
        match self.edge_pool.take() {
            Some(mut buf) => {
                buf.copy_from_slice(&edge.bytes[..]);
                let at = block * BLOCK_BYTES as u64;
                self.submit(port, index, at, buf);
            }
            None => {
                let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
                deferred.push((index, block, edge));
            }
        }
    }

    /// Writes deferred edge blocks, as far as there are slots; true if none is left.
    fn write_deferred(&self, port: &mut Port) -> bool {
        while self.edge_pool.free_slots() > 0 {
            let next = self
                .deferred
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            let Some((index, block, edge)) = next else {
                return true;
            };
            self.write_edge(port, index, block, edge);
        }
        self.deferred
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }
}

fn beyond(at_bytes: u64) -> Error {
    Error::new(
        Kind::Corrupt,
        "write output",
        "a piece is beyond the planned end",
    )
    .offset(at_bytes)
    .hint("a bug: please report it")
}
