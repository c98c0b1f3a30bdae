//! The input as regions of whole records of any length, for shuffles and sorts of lines.
//!
//! Contract: the input is the concatenation of its files' data, divided into [`Chunks`] of equal
//! length (except for the last). A record belongs to the chunk that contains its first byte. Each
//! thread has a [`RegionReader`], which takes chunks from the drive with the fewest requests and
//! returns their records in order, as [`Region`]s. A region consists of the whole records in a
//! block, in place, and copies of the records that span two blocks. A [`Framing`] defines where
//! records end. Records do not continue from one file into the next; an unterminated last record is
//! terminated here.
//!
//! A reader can first repeat the regions of an earlier run ([`RegionReader::after`]). A list of the
//! regions' chunks is enough for this, because the division of a chunk into regions depends only on
//! the sizes.
//!
//! Bounds: the reader alternates among `open_chunks` chunks, each with a window of reads of
//! `block_bytes` from the pool, and a record of at most `record_bytes_max` that is being assembled.
//! When these chunks have been requested completely, the reader reads the following chunks ahead in
//! the rest of the windows, because a chunk may be as short as one read. Each byte is read once,
//! except for a block or two at the boundaries of chunks.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

pub(crate) use super::chunks::Chunks;
use super::chunks::Stretch;
pub(crate) use super::framing::Framing;
pub use super::framing::{FixedLength, Terminated};
use super::source::became_shorter;
use outcore_io::drive::Op;
use outcore_io::memory::{BLOCK_BYTES, Buf, Pool, block_ceil, block_floor};
use outcore_io::port::{Port, Transfer};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Marks the tokens of reads made here; owners of the port use other tokens.
pub(crate) const REGION_TOKENS: u64 = 1 << 61;

/// The longest line, for any memory: offsets in memory have 32 bits, and a bucket of lines may use
/// half of that range.
pub(crate) const LINE_BYTES_LIMIT: usize = 1 << 30;

/// A record of at least this length is long.
const LONG_RECORD_BYTES: usize = 4 << 20;

/// Consecutive whole records of one file: `head`, then those in `body`, then `tail`.
#[derive(Debug)]
pub(crate) struct Region {
    /// Number of the chunk.
    pub chunk: u64,
    /// Index of the file.
    pub part: usize,
    /// Offset of the first record in the file's data.
    pub at_bytes: u64,
    /// Bytes of the input since the previous region; for progress.
    pub advance_bytes: u64,
    /// Whether the region is the last one of the chunk.
    pub ends_chunk: bool,
    /// Whether the region repeats one of an earlier run.
    pub is_repeated: bool,
    head: Vec<u8>,
    buf: Option<Buf>,
    body: Range<usize>,
    tail: Vec<u8>,
}

impl Region {
    /// Ranges of whole records, in order; some may be empty.
    pub(crate) fn slices(&self) -> [&[u8]; 3] {
        let body = self.buf.as_ref().map_or(&[][..], |buf| &buf[..]);
        [&self.head, &body[self.body.clone()], &self.tail]
    }
}

/// A requested read.
struct Read {
    stretch: Stretch,
    /// The wanted range of the file's data.
    from: u64,
    to: u64,
    /// Whether the read is the first of its stretch, where the start of a record must be found.
    is_first: bool,
    token: u64,
    buf: Option<Buf>,
}

/// A chunk that is being read.
struct OpenChunk<F> {
    number: u64,
    framing: F,
    /// Stretches that are not requested yet, and how much of the first one has been requested.
    left: VecDeque<Stretch>,
    next_from: Option<u64>,
    reads: VecDeque<Read>,
    /// The start of a record that continues in the next read, and its offset.
    begun: Vec<u8>,
    begun_at: u64,
    /// Whether records of the current stretch have begun.
    is_inside: bool,
    /// Whether a region of the chunk has been returned.
    is_begun: bool,
}

/// The sizes of a [`RegionReader`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegionSizes {
    /// Length of a read.
    pub block_bytes: usize,
    /// Chunks that are open at once.
    pub open_chunks: usize,
    /// Reads in flight per chunk.
    pub reads_a_chunk: usize,
    /// The longest record.
    pub record_bytes_max: usize,
}

impl RegionSizes {
    /// Length of the pool's buffers: a read and its margins.
    pub(crate) fn slot_bytes(&self) -> usize {
        block_ceil(self.block_bytes as u64) as usize + 3 * BLOCK_BYTES
    }

    /// Buffers per thread.
    pub(crate) fn slots(&self) -> usize {
        // The owner holds one more buffer.
        self.reads() + 1
    }

    /// Reads over all chunks.
    fn reads(&self) -> usize {
        self.open_chunks * self.reads_a_chunk
    }
}

/// One thread's progress through the chunks.
pub(crate) struct RegionReader<'a, F> {
    chunks: &'a Chunks,
    framing: F,
    sizes: RegionSizes,
    pool: Pool,
    open: Vec<OpenChunk<F>>,
    /// Open chunk to check first.
    turn: usize,
    /// The chunk of each region that is to be repeated.
    repeated: VecDeque<u64>,
    /// The chunks to repeat that are not open yet, in order.
    to_open: VecDeque<u64>,
    next_token: u64,
    /// Reads that have been requested and not returned.
    reads: usize,
    is_out: bool,
}

impl<'a, F: Framing> RegionReader<'a, F> {
    /// A reader with its own share of `pool`: [`RegionSizes::slots`] of
    /// [`RegionSizes::slot_bytes`].
    pub(crate) fn new(chunks: &'a Chunks, framing: F, sizes: RegionSizes, pool: Pool) -> Self {
        RegionReader {
            chunks,
            framing,
            sizes,
            pool,
            open: Vec::new(),
            turn: 0,
            repeated: VecDeque::new(),
            to_open: VecDeque::new(),
            next_token: 0,
            reads: 0,
            is_out: false,
        }
    }

    /// The same reader, which first returns a region of each of these chunks in turn. It then goes
    /// on with the chunks that have more regions, and takes others.
    pub(crate) fn after(self, repeated: &[u64]) -> Self {
        let mut known = HashSet::new();
        let first = repeated.iter().filter(|chunk| known.insert(**chunk));
        RegionReader {
            to_open: first.copied().collect(),
            repeated: repeated.iter().copied().collect(),
            ..self
        }
    }

    /// Whether all regions have been returned.
    pub(crate) fn is_done(&self) -> bool {
        self.is_out && self.open.is_empty()
    }

    /// Keeps the windows of reads full.
    pub(crate) fn start(&mut self, port: &mut Port) -> Result<()> {
        let mut open = std::mem::take(&mut self.open);
        let filled = open
            .iter_mut()
            .try_for_each(|open_chunk| self.fill(open_chunk, port));
        self.open = open;
        filled?;
        while !self.is_out && self.has_room() {
            let first = self.to_open.pop_front();
            let Some(chunk) = first.or_else(|| self.chunks.next(port)) else {
                self.is_out = true;
                break;
            };
            let mut open_chunk = OpenChunk {
                number: chunk,
                framing: self.framing.clone(),
                left: self.chunks.stretches(chunk),
                next_from: None,
                reads: VecDeque::new(),
                begun: Vec::new(),
                begun_at: 0,
                is_inside: false,
                is_begun: false,
            };
            // Filled now, so that its requests count when the next chunk's drive is selected.
            self.fill(&mut open_chunk, port)?;
            self.open.push(open_chunk);
        }
        Ok(())
    }

    /// Whether another chunk may be opened: fewer are open than alternate, or all open ones have
    /// been requested completely.
    fn has_room(&self) -> bool {
        let is_all_asked_for = || self.open.iter().all(|open| open.left.is_empty());
        self.reads < self.sizes.reads()
            && (self.open.len() < self.sizes.open_chunks || is_all_asked_for())
    }

    fn fill(&mut self, open_chunk: &mut OpenChunk<F>, port: &mut Port) -> Result<()> {
        while self.reads < self.sizes.reads() && open_chunk.reads.len() < self.sizes.reads_a_chunk {
            let Some(&stretch) = open_chunk.left.front() else {
                return Ok(());
            };
            let is_first = open_chunk.next_from.is_none();
            let from = open_chunk.next_from.unwrap_or(match F::IS_SCANNED {
                // The byte before decides whether a record begins here.
                true => stretch.from.saturating_sub(1),
                false => stretch.from,
            });
            let mut to = (from + self.sizes.block_bytes as u64).min(stretch.to);
            let len_bytes = self.chunks.parts()[stretch.part].data_len_bytes;
            if to == stretch.to {
                open_chunk.left.pop_front();
                open_chunk.next_from = None;
                if F::IS_SCANNED {
                    // The last record ends after the stretch, usually soon after it.
                    to = (to + BLOCK_BYTES as u64 / 2).min(len_bytes);
                }
            } else {
                open_chunk.next_from = Some(to);
            }
            let read = self.read(port, stretch, from..to, is_first)?;
            open_chunk.reads.push_back(read);
        }
        Ok(())
    }

    fn read(
        &mut self,
        port: &mut Port,
        stretch: Stretch,
        range: Range<u64>,
        is_first: bool,
    ) -> Result<Read> {
        let part = &self.chunks.parts()[stretch.part];
        let read_from = block_floor(part.data_at_bytes + range.start);
        let read_to = block_ceil(part.data_at_bytes + range.end);
        let mut buf = self.pool.take().ok_or_else(|| {
            Error::new(Kind::Memory, "take a buffer", "the pool is empty")
                .hint("this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it")
        })?;
        let buf = buf.split_to((read_to - read_from) as usize);
        let token = REGION_TOKENS | self.next_token;
        self.next_token += 1;
        port.submit(&part.file, Op::Read, read_from, buf, token);
        self.reads += 1;
        Ok(Read {
            stretch,
            from: range.start,
            to: range.end,
            is_first,
            token,
            buf: None,
        })
    }

    /// Takes back a completed read whose token contains [`REGION_TOKENS`]; its owner has checked
    /// for a fault.
    pub(crate) fn settle(&mut self, transfer: Transfer) -> Result<()> {
        let mut reads = self
            .open
            .iter_mut()
            .flat_map(|open_chunk| &mut open_chunk.reads);
        let Some(read) = reads.find(|read| read.token == transfer.token) else {
            return Ok(());
        };
        let part = &self.chunks.parts()[read.stretch.part];
        let read_from = block_floor(part.data_at_bytes + read.from);
        let got_to = read_from + transfer.len_bytes as u64;
        if got_to < part.data_at_bytes + read.to {
            return Err(became_shorter(part, got_to));
        }
        read.buf = Some(transfer.buf);
        Ok(())
    }

    /// The next region, if its bytes have arrived; otherwise the owner polls, unless all is done.
    pub(crate) fn take(&mut self, port: &mut Port) -> Result<Option<Region>> {
        let count = self.open.len();
        let begun = self.open.iter().filter(|open| open.is_begun).count();
        let may_begin = begun < self.sizes.open_chunks;
        let repeated = self.repeated.front();
        let is_ready = |open: &OpenChunk<F>| {
            let is_next = match repeated {
                Some(chunk) => open.number == *chunk,
                None => open.is_begun || may_begin,
            };
            is_next && open.reads.front().is_some_and(|r| r.buf.is_some())
        };
        // All arrived reads of one chunk come first, because each switch of chunks costs the owner
        // time.
        let ready = (0..count)
            .map(|step| (self.turn + step) % count)
            .find(|&index| is_ready(&self.open[index]));
        let Some(index) = ready else { return Ok(None) };
        self.turn = index;
        let mut open_chunk = self.open.remove(index);
        open_chunk.is_begun = true;
        let mut region = self.region(&mut open_chunk, port)?;
        region.is_repeated = self.repeated.pop_front().is_some();
        if !region.ends_chunk {
            self.open.insert(index, open_chunk);
        }
        Ok(Some(region))
    }

    /// The region that the first read of an open chunk completes.
    fn region(&mut self, open_chunk: &mut OpenChunk<F>, port: &mut Port) -> Result<Region> {
        let mut read = open_chunk.reads.pop_front().ok_or_else(nothing_read)?;
        self.reads -= 1;
        let (stretch, to) = (read.stretch, read.to);
        let part = &self.chunks.parts()[stretch.part];
        let buf = read.buf.take().ok_or_else(nothing_read)?;
        let read_at = part.data_at_bytes + read.from;
        let skip = (read_at - block_floor(read_at)) as usize;
        let bytes = &buf[skip..skip + (to - read.from) as usize];
        let mut region = Region {
            chunk: open_chunk.number,
            part: stretch.part,
            at_bytes: 0,
            advance_bytes: to
                .min(stretch.to)
                .saturating_sub(read.from.max(stretch.from)),
            ends_chunk: false,
            is_repeated: false,
            head: Vec::new(),
            buf: None,
            body: 0..0,
            tail: Vec::new(),
        };
        let mut begin = 0;
        if read.is_first && !open_chunk.is_inside {
            open_chunk.is_inside = stretch.from == 0 || !F::IS_SCANNED;
        }
        if !open_chunk.is_inside {
            let found = open_chunk.framing.next_begin(bytes);
            open_chunk.is_inside = found.is_some();
            begin = found.unwrap_or(bytes.len());
        }
        // No record of the stretch begins at its end or later.
        let is_over = read.from + begin as u64 >= stretch.to && open_chunk.begun.is_empty();
        let mut end = None;
        if is_over {
            end = Some(begin);
        } else if to >= stretch.to {
            end = self.stretch_end(open_chunk, &read, bytes);
        }
        let body = &bytes[begin..end.unwrap_or(bytes.len())];
        if !is_over && open_chunk.is_inside {
            region.at_bytes = read.from + begin as u64;
            self.cut(open_chunk, &mut region, body, skip + begin)?;
        }
        region.buf = Some(buf);
        if end.is_some() {
            self.end_stretch(open_chunk, &mut region)?;
            region.ends_chunk = open_chunk.reads.is_empty() && open_chunk.left.is_empty();
        } else if to >= stretch.to {
            // A long record continues beyond the estimated range.
            let len_bytes = part.data_len_bytes;
            let more = to..(to + self.sizes.block_bytes as u64).min(len_bytes);
            let read = self.read(port, stretch, more, false)?;
            open_chunk.reads.push_front(read);
        }
        Ok(region)
    }

    /// Where in `bytes` the stretch ends, if it does.
    fn stretch_end(&self, open_chunk: &OpenChunk<F>, read: &Read, bytes: &[u8]) -> Option<usize> {
        let stretch = read.stretch;
        let is_last = stretch.to == self.chunks.parts()[stretch.part].data_len_bytes;
        if !F::IS_SCANNED || is_last {
            return Some((stretch.to - read.from) as usize);
        }
        // The first record that begins at the end or later.
        let look_from = (stretch.to - 1).max(read.from) - read.from;
        let found = open_chunk.framing.next_begin(&bytes[look_from as usize..]);
        match found {
            Some(at) => Some(look_from as usize + at),
            None if read.to == self.chunks.parts()[stretch.part].data_len_bytes => {
                Some(bytes.len())
            }
            None => None,
        }
    }

    /// Divides `body`, which begins at `offset_bytes` of the buffer, into whole records and the
    /// start of another.
    fn cut(
        &self,
        open_chunk: &mut OpenChunk<F>,
        region: &mut Region,
        body: &[u8],
        offset_bytes: usize,
    ) -> Result<()> {
        let body_at = region.at_bytes;
        let mut from = 0;
        if !open_chunk.begun.is_empty() {
            region.at_bytes = open_chunk.begun_at;
            let end = open_chunk.framing.first_end(&open_chunk.begun, body);
            from = end.unwrap_or(body.len());
            let len_bytes = open_chunk.begun.len() + from;
            self.check_length(region.part, open_chunk.begun_at, len_bytes)?;
            self.append(open_chunk, &body[..from]);
            if end.is_none() {
                return Ok(());
            }
            region.head = std::mem::take(&mut open_chunk.begun);
        }
        let whole = open_chunk.framing.whole_end(&body[from..]);
        region.body = offset_bytes + from..offset_bytes + from + whole;
        let rest = &body[from + whole..];
        open_chunk.begun_at = body_at + (from + whole) as u64;
        self.check_length(region.part, open_chunk.begun_at, rest.len())?;
        self.append(open_chunk, rest);
        Ok(())
    }

    /// Appends to the start of a record. A long record gets all the room that it may use at once:
    /// untouched memory costs nothing, while growth by doubling would.
    fn append(&self, open_chunk: &mut OpenChunk<F>, bytes: &[u8]) {
        let begun = &mut open_chunk.begun;
        let wanted_bytes = begun.len() + bytes.len();
        if wanted_bytes > begun.capacity() && wanted_bytes >= LONG_RECORD_BYTES {
            let room_bytes = self.sizes.record_bytes_max.max(wanted_bytes);
            begun.reserve_exact(room_bytes - begun.len());
        }
        begun.extend_from_slice(bytes);
    }

    /// Whether a record that begins at `at_bytes` of a part's data may have this length.
    fn check_length(&self, part: usize, at_bytes: u64, len_bytes: usize) -> Result<()> {
        if len_bytes <= self.sizes.record_bytes_max {
            return Ok(());
        }
        self.chunks.note_long_record();
        let limit = units::bytes(self.sizes.record_bytes_max as u64);
        let (whose, hint) = match self.sizes.record_bytes_max >= LINE_BYTES_LIMIT {
            true => ("a line may have", "check what ends a record"),
            false => (
                "this memory allows",
                "allow more --memory, or check what ends a record",
            ),
        };
        let cause = format!("a record is longer than {limit}, the most that {whose}");
        let part = &self.chunks.parts()[part];
        Err(Error::new(Kind::Memory, "read input", cause)
            .path(&part.file.path)
            .offset(part.data_at_bytes + at_bytes)
            .hint(hint))
    }

    /// Completes a record that the file leaves open.
    fn end_stretch(&self, open_chunk: &mut OpenChunk<F>, region: &mut Region) -> Result<()> {
        open_chunk.is_inside = false;
        if open_chunk.begun.is_empty() {
            return Ok(());
        }
        let mut tail = std::mem::take(&mut open_chunk.begun);
        open_chunk.framing.finish(&mut tail).map_err(|cause| {
            let part = &self.chunks.parts()[region.part];
            Error::corrupt("read input", cause)
                .path(&part.file.path)
                .offset(part.data_at_bytes + open_chunk.begun_at)
                .hint("check whether the file is complete, and what ends a record")
        })?;
        if region.head.is_empty() && region.body.is_empty() {
            region.at_bytes = open_chunk.begun_at;
        }
        region.tail = tail;
        Ok(())
    }
}

fn nothing_read() -> Error {
    Error::new(Kind::Corrupt, "read input", "a block is missing").hint(
        "this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::read::source::InputPart;
    use outcore_io::drive::os::OsDevice;
    use outcore_io::drive::{Access, Device};
    use outcore_io::memory::Budget;
    use outcore_io::port::Volume;

    /// The results of a reader.
    struct Found {
        /// All records, by chunk.
        by_chunk: Vec<Vec<u8>>,
        /// The chunk and the records of each region.
        regions: Vec<(u64, Vec<u8>)>,
    }

    /// All records of `files` by chunk, read with one port.
    fn read<F: Framing>(
        files: &[Vec<u8>],
        framing: F,
        chunk_bytes: u64,
        sizes: RegionSizes,
    ) -> Result<Vec<Vec<u8>>> {
        read_after(files, framing, chunk_bytes, sizes, &[]).map(|found| found.by_chunk)
    }

    /// Like `read`, but after the regions of these chunks.
    fn read_after<F: Framing>(
        files: &[Vec<u8>],
        framing: F,
        chunk_bytes: u64,
        sizes: RegionSizes,
        repeated: &[u64],
    ) -> Result<Found> {
        let dir = tempfile::tempdir().unwrap();
        let device: Arc<dyn Device> = Arc::new(OsDevice::new(outcore_io::config::IoMode::Auto));
        let volume = Volume::new(device, &[]).unwrap();
        let mut parts = Vec::new();
        for (index, bytes) in files.iter().enumerate() {
            let path = dir.path().join(index.to_string());
            std::fs::write(&path, bytes).unwrap();
            parts.push(InputPart {
                file: volume.open(&path, Access::Read).unwrap(),
                data_at_bytes: 0,
                data_len_bytes: bytes.len() as u64,
                first_position: 0,
            });
        }
        let chunks = Chunks::new(parts, chunk_bytes).without(repeated.to_vec());
        let pool = Pool::new(
            &Budget::new(1 << 30),
            "test",
            sizes.slot_bytes(),
            sizes.slots(),
        )?;
        let mut port = volume.port()?;
        let mut reader = RegionReader::new(&chunks, framing, sizes, pool).after(repeated);
        let mut regions = Vec::new();
        let mut by_chunk = vec![Vec::new(); chunks.count() as usize];
        let mut advanced_bytes = 0;
        let mut finished = Vec::new();
        let mut begun = std::collections::BTreeSet::new();
        loop {
            reader.start(&mut port)?;
            let is_all_asked_for = reader.open.iter().all(|open| open.left.is_empty());
            let is_full = reader.reads == sizes.reads() || !is_all_asked_for;
            assert!(reader.is_out || is_full, "windows are full");
            if let Some(region) = reader.take(&mut port)? {
                begun.insert(region.chunk);
                assert!(begun.len() <= sizes.open_chunks, "{begun:?}");
                if region.ends_chunk {
                    begun.remove(&region.chunk);
                }
                advanced_bytes += region.advance_bytes;
                let out: &mut Vec<u8> = &mut by_chunk[region.chunk as usize];
                let joined = region.slices().concat();
                let mut framing = framing_of(&reader);
                assert_eq!(
                    framing.whole_end(&joined),
                    joined.len(),
                    "records are whole"
                );
                let file = &files[region.part];
                let at = region.at_bytes as usize;
                let same = joined.len().min(file.len() - at.min(file.len()));
                assert_eq!(&joined[..same], &file[at.min(file.len())..][..same]);
                out.extend_from_slice(&joined);
                assert_eq!(region.is_repeated, regions.len() < repeated.len());
                regions.push((region.chunk, joined));
            } else if reader.is_done() {
                break;
            } else {
                port.poll(true, &mut finished)?;
                finished
                    .drain(..)
                    .try_for_each(|transfer| reader.settle(transfer))?;
            }
        }
        assert_eq!(advanced_bytes, chunks.total_bytes());
        Ok(Found { by_chunk, regions })
    }

    fn framing_of<F: Framing>(reader: &RegionReader<'_, F>) -> F {
        reader.framing.clone()
    }

    /// The records by chunk, by definition: each line goes to the chunk of its first byte.
    fn lines_by_chunk(files: &[Vec<u8>], chunk_bytes: u64) -> Vec<Vec<u8>> {
        let total: usize = files.iter().map(Vec::len).sum();
        let mut by_chunk = vec![Vec::new(); (total as u64).div_ceil(chunk_bytes) as usize];
        let mut at = 0;
        for line in files
            .iter()
            .flat_map(|f| f.split_inclusive(|&b| b == b'\n'))
        {
            let out: &mut Vec<u8> = &mut by_chunk[(at / chunk_bytes) as usize];
            out.extend_from_slice(line);
            if line.last() != Some(&b'\n') {
                out.push(b'\n');
            }
            at += line.len() as u64;
        }
        by_chunk
    }

    fn sizes(block_bytes: usize, open_chunks: usize) -> RegionSizes {
        RegionSizes {
            block_bytes,
            open_chunks,
            reads_a_chunk: 2,
            record_bytes_max: 1 << 20,
        }
    }

    fn file() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            8 => 0usize..40,
            2 => 4000usize..4200,
            1 => 10_000usize..14_000,
        ];
        (prop::collection::vec(line, 0..30), any::<bool>()).prop_map(|(lens, is_ended)| {
            let mut bytes = Vec::new();
            for (index, len) in lens.into_iter().enumerate() {
                bytes.extend((0..len).map(|at| b'a' + ((at + index) % 26) as u8));
                bytes.push(b'\n');
            }
            if !is_ended {
                bytes.pop();
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn every_line_is_given_once_in_order_in_the_chunk_of_its_first_byte(
            files in prop::collection::vec(file(), 0..4),
            chunk_bytes in prop_oneof![1u64..100, 4090..4100u64, 1000..30_000u64],
            block_bytes in prop_oneof![Just(4096usize), 4096..20_000usize],
            open_chunks in 1usize..4,
        ) {
            let framing = Terminated { terminator: b'\n' };
            let total: usize = files.iter().map(Vec::len).sum();
            let chunk_bytes = chunk_bytes.max(total as u64 / 50 + 1);
            let got = read(&files, framing, chunk_bytes, sizes(block_bytes, open_chunks)).unwrap();
            prop_assert_eq!(got, lines_by_chunk(&files, chunk_bytes));
        }

        #[test]
        fn regions_of_an_earlier_run_are_repeated_first_and_every_line_is_given_once(
            files in prop::collection::vec(file(), 1..4),
            chunk_bytes in prop_oneof![1000..9000u64, 9000..30_000u64],
            block_bytes in prop_oneof![Just(4096usize), 4096..20_000usize],
            open_chunks in 1usize..4,
            share in 0usize..=100,
        ) {
            let framing = Terminated { terminator: b'\n' };
            let sizes = sizes(block_bytes, open_chunks);
            let first = read_after(&files, framing, chunk_bytes, sizes, &[]).unwrap();
            let count = first.regions.len() * share / 100;
            let repeated: Vec<u64> = first.regions[..count].iter().map(|(chunk, _)| *chunk).collect();
            let again = read_after(&files, framing, chunk_bytes, sizes, &repeated).unwrap();
            prop_assert_eq!(&again.regions[..count], &first.regions[..count]);
            prop_assert_eq!(again.by_chunk, lines_by_chunk(&files, chunk_bytes));
        }

        #[test]
        fn records_of_one_length_keep_their_place(
            record_bytes in 1usize..300,
            counts in prop::collection::vec(0usize..300, 1..4),
            chunk_records in 1u64..200,
            block_bytes in 4096usize..9000,
        ) {
            let mut byte = 0u8;
            let mut fill = |count: usize| (0..count * record_bytes).map(|_| { byte = byte.wrapping_mul(5).wrapping_add(7); byte }).collect::<Vec<u8>>();
            let files: Vec<Vec<u8>> = counts.iter().map(|&count| fill(count)).collect();
            let chunk_bytes = chunk_records * record_bytes as u64;
            let got = read(&files, FixedLength { record_bytes }, chunk_bytes, sizes(block_bytes, 2)).unwrap();
            prop_assert!(got.iter().rev().skip(1).all(|chunk| chunk.len() as u64 == chunk_bytes));
            prop_assert_eq!(got.concat(), files.concat());
        }
    }

    #[test]
    fn a_record_longer_than_allowed_is_an_error_that_names_its_place() {
        let mut file = b"short\n".to_vec();
        file.extend(vec![b'x'; 100_000]);
        let small = RegionSizes {
            record_bytes_max: 50_000,
            ..sizes(8192, 1)
        };
        let framing = Terminated { terminator: b'\n' };
        let other = b"of another length\n".to_vec();
        for (files, place) in [
            (vec![file.clone()], "0, at byte 6"),
            (vec![other.clone(), file], "1, at byte 6"),
            (vec![other, vec![b'x'; 60_000]], "1, at byte 0"),
        ] {
            let error = read(&files, framing, 1 << 20, small).unwrap_err();
            assert_eq!(error.kind(), Kind::Memory);
            assert!(error.to_string().contains(place), "{error}");
        }
    }
}
