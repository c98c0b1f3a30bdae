//! A stream of bytes to the output.
//!
//! Contract: [`InOrder`] takes consecutive pieces of any length. It joins them in chunks that are
//! aligned like the output, and writes each full chunk through the port of its owner's transfers.
//!
//! Bounds: its pool of chunks.

use super::task::{Sink, write_pipe};
use crate::job::Job;
use outcore_io::Result;
use outcore_io::memory::{Buf, Pool};
use outcore_io::transfers::Transfers;

/// See the module.
pub(crate) struct InOrder<'a> {
    sink: Sink<'a>,
    chunks: Pool,
    chunk: Option<Buf>,
    /// Where the stream's bytes begin in the chunk, and how far they may extend.
    phase: usize,
    end: usize,
    filled: usize,
    at_bytes: u64,
}

impl<'a> InOrder<'a> {
    /// A stream that starts at the first byte of `sink`.
    pub(crate) fn new(sink: Sink<'a>, chunks: Pool) -> Self {
        InOrder {
            sink,
            chunks,
            chunk: None,
            phase: 0,
            end: 0,
            filled: 0,
            at_bytes: 0,
        }
    }

    /// Number of bytes passed on.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.at_bytes
    }

    /// Takes the next bytes.
    #[inline]
    pub(crate) fn take<T>(
        &mut self,
        job: &Job,
        transfers: &mut Transfers<T>,
        bytes: &[u8],
    ) -> Result<()> {
        let begin = self.phase + self.filled;
        let room = self.end.saturating_sub(begin);
        match &mut self.chunk {
            Some(chunk) if bytes.len() < room => {
                chunk[begin..begin + bytes.len()].copy_from_slice(bytes);
                self.filled += bytes.len();
                Ok(())
            }
            _ => self.take_across(job, transfers, bytes),
        }
    }

    /// Takes bytes that fill the chunk, or for which there is no chunk yet.
    #[inline(never)]
    fn take_across<T>(
        &mut self,
        job: &Job,
        transfers: &mut Transfers<T>,
        mut bytes: &[u8],
    ) -> Result<()> {
        while !bytes.is_empty() {
            if self.chunk.is_none() {
                self.begin(job, transfers)?;
            }
            let Some(chunk) = &mut self.chunk else { break };
            let room = &mut chunk[self.phase + self.filled..self.end];
            let len = room.len().min(bytes.len());
            room[..len].copy_from_slice(&bytes[..len]);
            self.filled += len;
            bytes = &bytes[len..];
            if self.phase + self.filled == self.end {
                self.flush(transfers)?;
            }
        }
        Ok(())
    }

    fn begin<T>(&mut self, job: &Job, transfers: &mut Transfers<T>) -> Result<()> {
        let chunk = transfers.buffer(&self.chunks, || job.control.check())?;
        (self.phase, self.end) = match &self.sink {
            Sink::Files(writer) => {
                let phase = writer.phase(self.at_bytes);
                // No piece crosses the border of two files. Past the end of the last file, the
                // write fails.
                let room = usize::try_from(writer.room(self.at_bytes)).unwrap_or(usize::MAX);
                let room = if room == 0 { usize::MAX } else { room };
                (phase, chunk.len().min(phase.saturating_add(room)))
            }
            Sink::Pipe(_) => (0, chunk.len()),
        };
        self.filled = 0;
        self.chunk = Some(chunk);
        Ok(())
    }

    /// Passes on the bytes taken so far.
    pub(crate) fn flush<T>(&mut self, transfers: &mut Transfers<T>) -> Result<()> {
        let Some(chunk) = self.chunk.take() else {
            return Ok(());
        };
        match &self.sink {
            Sink::Files(writer) => {
                let port = transfers.port();
                writer.write(port, chunk, self.phase, self.filled, self.at_bytes)?;
                transfers.start()?;
            }
            Sink::Pipe(pipe) => write_pipe(pipe, &chunk[..self.filled])?,
        }
        self.at_bytes += self.filled as u64;
        Ok(())
    }
}
