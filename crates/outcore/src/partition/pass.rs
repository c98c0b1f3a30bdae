//! One thread's pass over the data to distribute: the input's blocks or regions, or another source
//! that is read ahead.
//!
//! Contract: [`read_all`] keeps a [`Reader`] reading ahead, and the spill writing, while the loaded
//! data are processed, until all have been taken. [`BlockReader`] reads blocks of whole items of
//! one length; [`RegionReader`] reads whole items of any length. The same loop reads the segments
//! of a bucket that is distributed again ([`super::refine`]).
//!
//! Bounds: the readers' pools; each byte of the source is read once.

use super::no_buffer;
use super::scatter::ScatterWorker;
use crate::read::regions::{Framing, Region, RegionReader};
use crate::read::source::became_shorter;
use crate::read::source::{Block, Blocks, Stretch};
use outcore_io::Result;
use outcore_io::memory::{Buf, Pool};
use outcore_io::port::{Port, Transfer};
use outcore_io::transfers::{ASKED_TOKENS, ReadAhead};

/// A source that one thread reads ahead.
pub(crate) trait Reader {
    /// The type of the reader's results.
    type Read;

    /// Starts as many reads as there is room for.
    fn start(&mut self, port: &mut Port) -> Result<()>;
    /// The next result, if it has arrived.
    fn next(&mut self, port: &mut Port) -> Result<Option<Self::Read>>;
    /// Takes back a successful read.
    fn settle(&mut self, transfer: Transfer) -> Result<()>;
    /// Whether the input has ended, if there is no next result.
    fn is_done(&self) -> bool;
    /// Progress in the input that a result represents.
    fn advance_bytes(read: &Self::Read) -> u64;
    /// Takes back a processed result.
    fn give_back(&mut self, _read: Self::Read) {}
}

/// Reads all of a source, and passes each result to `take` as it arrives.
pub(crate) fn read_all<'a, R: Reader>(
    worker: &mut ScatterWorker<'a>,
    reader: &mut R,
    mut take: impl FnMut(&mut ScatterWorker<'a>, &mut R::Read) -> Result<()>,
) -> Result<()> {
    let partition = worker.partition;
    let control = &partition.job.control;
    loop {
        partition.check()?;
        reader.start(&mut worker.port)?;
        match reader.next(&mut worker.port)? {
            Some(mut read) => {
                take(worker, &mut read)?;
                let bytes = R::advance_bytes(&read);
                reader.give_back(read);
                if bytes > 0 {
                    control.advance(bytes);
                    control.watch(partition.volume);
                }
                worker.poll(false)?;
            }
            None if reader.is_done() => return Ok(()),
            None => worker.poll(true)?,
        }
        worker.settle_others(|transfer| reader.settle(transfer))?;
    }
}

/// How much one thread takes at once: the rest divided by `share`, at least one block or segment.
/// Long stretches leave fewer runs to remember if order matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TakeShare(pub(super) u64);

impl TakeShare {
    /// One block or segment.
    pub(crate) const ONE: TakeShare = TakeShare(u64::MAX);

    /// Long stretches, for each of `threads` threads.
    pub(crate) fn long(threads: usize) -> Self {
        match threads {
            1 => TakeShare(1),
            threads => TakeShare(2 * threads as u64),
        }
    }
}

/// One thread's progress through the blocks of the input.
pub(crate) struct BlockReader<'a> {
    blocks: &'a Blocks,
    share: TakeShare,
    is_ordered: bool,
    /// Positions of the blocks to read, in this order; `None` for all that no other thread takes.
    given: Option<std::slice::Iter<'a, u64>>,
    /// Taken but not yet requested.
    stretch: Stretch,
    ahead: ReadAhead<Block>,
    pool: Pool,
}

impl<'a> BlockReader<'a> {
    /// A reader of `window` blocks at once, with as many buffers of `pool`; with `is_ordered`, in
    /// the order in which it takes them.
    pub(crate) fn new(
        blocks: &'a Blocks,
        share: TakeShare,
        is_ordered: bool,
        window: usize,
        pool: Pool,
    ) -> Self {
        BlockReader {
            blocks,
            share,
            is_ordered,
            given: None,
            stretch: Stretch::default(),
            ahead: ReadAhead::new(window),
            pool,
        }
    }

    /// A reader of the blocks at these positions, in their order.
    pub(crate) fn of_given(
        blocks: &'a Blocks,
        positions: &'a [u64],
        window: usize,
        pool: Pool,
    ) -> Self {
        BlockReader {
            given: Some(positions.iter()),
            ..Self::new(blocks, TakeShare::ONE, true, window, pool)
        }
    }

    /// The next block of this thread.
    fn next_block(&mut self, port: &Port) -> Option<Block> {
        if let Some(given) = &mut self.given {
            return Some(self.blocks.at(*given.next()?));
        }
        loop {
            if let Some(block) = self.blocks.next_of(&mut self.stretch) {
                return Some(block);
            }
            self.stretch = self.blocks.next_stretch(self.share.0, port)?;
        }
    }
}

impl Reader for BlockReader<'_> {
    type Read = (Block, Buf);

    fn start(&mut self, port: &mut Port) -> Result<()> {
        while self.ahead.has_room() {
            let Some(block) = self.next_block(port) else {
                break;
            };
            let mut buf = self.pool.take().ok_or_else(no_buffer)?;
            let buf = buf.split_to(block.read_len_bytes);
            let file = &self.blocks.parts()[block.part].file;
            self.ahead.ask(port, file, block.read_at_bytes, buf, block);
        }
        Ok(())
    }

    fn next(&mut self, _: &mut Port) -> Result<Option<(Block, Buf)>> {
        let next = self.ahead.next(self.is_ordered);
        Ok(next.and_then(|(block, buf)| Some((block, buf?))))
    }

    fn settle(&mut self, transfer: Transfer) -> Result<()> {
        debug_assert!(transfer.token & ASKED_TOKENS != 0);
        let parts = self.blocks.parts();
        self.ahead.settle(transfer, |block, transfer| {
            // The file must still have its length.
            match transfer.len_bytes >= block.skip_bytes + block.payload_bytes {
                true => Ok(()),
                false => Err(became_shorter(
                    &parts[block.part],
                    block.read_at_bytes + transfer.len_bytes as u64,
                )),
            }
        })
    }

    fn is_done(&self) -> bool {
        self.ahead.is_idle()
    }

    fn advance_bytes((block, _): &Self::Read) -> u64 {
        block.payload_bytes as u64
    }
}

impl<F: Framing> Reader for RegionReader<'_, F> {
    type Read = Region;

    fn start(&mut self, port: &mut Port) -> Result<()> {
        RegionReader::start(self, port)
    }

    fn next(&mut self, port: &mut Port) -> Result<Option<Region>> {
        self.take(port)
    }

    fn settle(&mut self, transfer: Transfer) -> Result<()> {
        RegionReader::settle(self, transfer)
    }

    fn is_done(&self) -> bool {
        RegionReader::is_done(self)
    }

    fn advance_bytes(region: &Region) -> u64 {
        region.advance_bytes
    }
}
