//! gzip with several threads: blocks of a text are compressed in parallel and together form one
//! member.
//!
//! Model: pigz (Mark Adler, 2007). A block is deflated with the preceding text as its dictionary,
//! and ends at a whole byte, so that consecutive blocks form one stream. Their checksums are
//! combined.
//!
//! Contract: a [`GzipWriter`] writes one member, whose bytes do not depend on the number of
//! threads; only [`GzipWriter::finish`] completes it. The writing thread itself compresses a text
//! of one block, and any text if only one thread is requested.
//!
//! Bounds: [`writer_bytes`]. Source: RFC 1951, RFC 1952.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use outcore_io::threads::spawn;

/// Bytes of text per block.
const BLOCK_BYTES: usize = 128 << 10;
/// Bytes of text before a block that form its dictionary: as far back as the format reaches.
const WINDOW_BYTES: usize = 32 << 10;
/// Blocks per thread that are being compressed or wait to be written.
const BLOCKS_A_THREAD: usize = 2;
/// No flags, no time, no name, an unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// Approximate memory of a thread: its blocks as text and deflated, and the tables of the
/// compressor.
const THREAD_BYTES: u64 = 1 << 20;
/// Approximate memory of the writing thread.
const OWN_BYTES: u64 = 1 << 20;

/// Approximate memory for writing with this many threads.
pub(super) fn writer_bytes(threads: usize) -> u64 {
    match threads {
        0 | 1 => OWN_BYTES,
        threads => OWN_BYTES + threads as u64 * THREAD_BYTES,
    }
}

/// Compresses text into a member of gzip.
pub(crate) struct GzipWriter<W: Write> {
    inner: W,
    threads: usize,
    /// The dictionary, followed by the text that no worker has received.
    next: Block,
    is_begun: bool,
    /// Checksum of the written blocks.
    crc: Crc,
    workers: Option<Workers>,
    /// Buffers for text that are reused.
    spare: Vec<Vec<u8>>,
}

/// A block of text.
#[derive(Debug, Default)]
struct Block {
    /// Its dictionary, followed by the text itself.
    text: Vec<u8>,
    window_bytes: usize,
    is_last: bool,
}

impl Block {
    fn len_bytes(&self) -> usize {
        self.text.len() - self.window_bytes
    }
}

/// A compressed block.
struct Deflated {
    bytes: Vec<u8>,
    crc: Crc,
    /// The buffer of its text.
    text: Vec<u8>,
}

impl<W: Write> GzipWriter<W> {
    /// Prepares to write; threads start when there is more than one block.
    pub(crate) fn new(inner: W, threads: usize) -> Self {
        GzipWriter {
            inner,
            threads,
            next: Block::default(),
            is_begun: false,
            crc: Crc::new(),
            workers: None,
            spare: Vec::new(),
        }
    }

    /// The underlying writer.
    pub(crate) fn get_mut(&mut self) -> &mut W {
        &mut self.inner
    }

    /// Ends the member and returns the underlying writer.
    ///
    /// # Errors
    /// A failed write of the rest.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.hand_out(true)?;
        self.take_back(0)?;
        self.inner.write_all(&self.crc.sum().to_le_bytes())?;
        self.inner.write_all(&self.crc.amount().to_le_bytes())?;
        Ok(self.inner)
    }

    /// Passes the collected text to a thread that compresses it.
    fn hand_out(&mut self, is_last: bool) -> io::Result<()> {
        let mut text = self.spare.pop().unwrap_or_default();
        text.clear();
        let front = self.next.text.len().saturating_sub(WINDOW_BYTES);
        text.extend_from_slice(&self.next.text[front..]);
        let window_bytes = text.len();
        let after = Block {
            text,
            window_bytes,
            is_last: false,
        };
        let mut block = std::mem::replace(&mut self.next, after);
        block.is_last = is_last;
        let is_alone = is_last && self.workers.is_none();
        if self.threads > 1 && !is_alone {
            let workers = self
                .workers
                .get_or_insert_with(|| Workers::start(self.threads));
            if !workers.threads.is_empty() {
                workers.begin(block);
                return self.take_back(BLOCKS_A_THREAD * self.threads);
            }
        }
        self.put(deflate(block)?)
    }

    /// Writes compressed blocks, and waits for the first ones while more than `most` are not
    /// compressed.
    fn take_back(&mut self, most: usize) -> io::Result<()> {
        while let Some(deflated) = self.workers.as_mut().and_then(|them| them.end(most)) {
            self.put(deflated?)?;
        }
        Ok(())
    }

    fn put(&mut self, deflated: Deflated) -> io::Result<()> {
        if !self.is_begun {
            self.inner.write_all(&HEADER)?;
            self.is_begun = true;
        }
        self.inner.write_all(&deflated.bytes)?;
        self.crc.combine(&deflated.crc);
        self.spare.push(deflated.text);
        Ok(())
    }
}

impl<W: Write> Write for GzipWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room_bytes = BLOCK_BYTES - self.next.len_bytes();
        let taken = &bytes[..bytes.len().min(room_bytes)];
        self.next.text.extend_from_slice(taken);
        if self.next.len_bytes() == BLOCK_BYTES {
            self.hand_out(false)?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.next.len_bytes() > 0 {
            self.hand_out(false)?;
        }
        self.take_back(0)?;
        self.inner.flush()
    }
}

/// Compresses a block.
///
/// N.B. A new [`Compress`] per block is required: one that was used before gives different bytes
/// even after [`Compress::reset`].
fn deflate(block: Block) -> io::Result<Deflated> {
    let mut compress = Compress::new(Compression::default(), false);
    let (window, text) = block.text.split_at(block.window_bytes);
    if !window.is_empty() {
        compress.set_dictionary(window)?;
    }
    let flush = match block.is_last {
        true => FlushCompress::Finish,
        false => FlushCompress::Sync,
    };
    let mut bytes = Vec::new();
    loop {
        bytes.reserve(text.len() / 2 + 1024);
        let taken = compress.total_in() as usize;
        let status = compress.compress_vec(&text[taken..], &mut bytes, flush)?;
        // A flush is complete if it leaves room in the output.
        let is_flushed = compress.total_in() as usize == text.len()
            && bytes.len() < bytes.capacity()
            && !block.is_last;
        if is_flushed || status == Status::StreamEnd {
            break;
        }
    }
    let mut crc = Crc::new();
    crc.update(text);
    Ok(Deflated {
        bytes,
        crc,
        text: block.text,
    })
}

/// A block, and the channel for its compressed form.
type Task = (Block, SyncSender<io::Result<Deflated>>);

/// Threads that compress, and their blocks in order.
struct Workers {
    /// `None` when there is no more work.
    tasks: Option<Sender<Task>>,
    begun: VecDeque<Receiver<io::Result<Deflated>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts as many threads as the system allows, possibly none.
    fn start(threads: usize) -> Self {
        let (tasks, list) = channel::<Task>();
        let list = Arc::new(Mutex::new(list));
        let run = |list: Arc<Mutex<Receiver<Task>>>| {
            let next = || list.lock().unwrap_or_else(PoisonError::into_inner).recv();
            while let Ok((block, done)) = next() {
                // A writer that has given up does not receive.
                let _ = done.send(deflate(block));
            }
        };
        let threads = (0..threads).map_while(|_| {
            let list = list.clone();
            spawn("outcore-gzip", move || run(list)).ok()
        });
        Workers {
            threads: threads.collect(),
            tasks: Some(tasks),
            begun: VecDeque::new(),
        }
    }

    fn begin(&mut self, block: Block) {
        let (done, deflated) = sync_channel(1);
        // Without threads, `done` is dropped here, so the receiver gets an error instead of a
        // block.
        if let Some(tasks) = &self.tasks {
            let _ = tasks.send((block, done));
        }
        self.begun.push_back(deflated);
    }

    /// Returns the first block if it is compressed. If there are more than `most` blocks, waits for
    /// the first one.
    fn end(&mut self, most: usize) -> Option<io::Result<Deflated>> {
        let first = self.begun.front()?;
        let ended = match self.begun.len() > most {
            true => first
                .recv()
                .unwrap_or_else(|_| Err(io::Error::other("a thread that compresses has ended"))),
            false => first.try_recv().ok()?,
        };
        self.begun.pop_front();
        Some(ended)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.tasks = None;
        for thread in self.threads.drain(..) {
            // The thread's failure has been reported to the receiver of its block.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::bufread::GzDecoder;
    use flate2::read::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn written(text: &[u8], threads: usize, piece_bytes: usize) -> Vec<u8> {
        let mut writer = GzipWriter::new(Vec::new(), threads);
        for piece in text.chunks(piece_bytes) {
            writer.write_all(piece).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read_back(bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut decoder = GzDecoder::new(bytes);
        decoder.read_to_end(&mut text).unwrap();
        assert!(decoder.into_inner().is_empty(), "there is one member");
        text
    }

    /// Lines, or bytes that cannot be compressed.
    fn text(len_bytes: usize, is_noise: bool) -> Vec<u8> {
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        let mut text = Vec::new();
        while text.len() < len_bytes {
            match is_noise {
                true => text.push(next() as u8),
                false => text.extend_from_slice(format!("line {}\n", next() % 5000).as_bytes()),
            }
        }
        text.truncate(len_bytes);
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn any_text_comes_back_and_no_thread_changes_a_byte(
            len_bytes in prop_oneof![
                0usize..100,
                (0usize..6, -2isize..3).prop_map(|(blocks, off)| (blocks * BLOCK_BYTES).saturating_add_signed(off)),
                0usize..800_000,
            ],
            is_noise in any::<bool>(),
            piece_bytes in prop_oneof![Just(usize::MAX), 1usize..300_000],
        ) {
            let text = text(len_bytes, is_noise);
            let alone = written(&text, 1, usize::MAX);
            prop_assert!(read_back(&alone) == text);
            for threads in [1, 2, 3] {
                prop_assert!(written(&text, threads, piece_bytes) == alone, "{threads} threads");
            }
        }
    }

    #[test]
    fn blocks_cost_less_than_a_hundredth_of_the_space() {
        let text = text(2_000_000, false);
        let mut whole = Vec::new();
        let mut encoder = GzEncoder::new(&text[..], Compression::default());
        encoder.read_to_end(&mut whole).unwrap();
        let blocks = written(&text, 2, usize::MAX);
        assert!(
            blocks.len() < whole.len() + whole.len() / 100,
            "{} and {} bytes",
            blocks.len(),
            whole.len()
        );
    }

    #[test]
    fn text_that_is_flushed_can_be_read_before_the_end() {
        let mut writer = GzipWriter::new(Vec::new(), 2);
        writer.write_all(b"first\n").unwrap();
        writer.flush().unwrap();
        let mut text = vec![0; 6];
        GzDecoder::new(&writer.get_mut()[..])
            .read_exact(&mut text)
            .unwrap();
        assert_eq!(text, b"first\n");
        writer.write_all(b"second\n").unwrap();
        assert_eq!(read_back(&writer.finish().unwrap()), b"first\nsecond\n");
    }

    /// Accepts this many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 < bytes.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn where_there_is_no_room_the_error_says_so() {
        let text = text(2_000_000, true);
        for threads in [1, 3] {
            for room_bytes in [0, 5, 300_000, 1_999_000] {
                let mut writer = GzipWriter::new(Full(room_bytes), threads);
                let ended = writer.write_all(&text);
                let ended = ended.and_then(|()| writer.finish().map(|_| ()));
                assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::StorageFull);
            }
        }
    }
}
