//! Reads sorted files, all of them or a range, as a consumer would.
//!
//! Contract: past the page cache if the drives support it, in large pieces, from all drives at the
//! same time; the bytes are not used. Memory: a few pieces per drive.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use outcore::Result;
use outcore_io::drive::{Access, Op};
use outcore_io::memory::Pool;
use outcore_io::port::{Volume, VolumeFile};

use super::{Bench, Cost, RECORD_BYTES};

/// Size of the pieces in which a file is read, several at a time.
const READ_BYTES: usize = 4 << 20;
const READS: usize = 4;

/// A sorted file, or its shards in order, read past the page cache.
pub(super) struct SortedFiles<'a> {
    bench: &'a Bench<'a>,
    volume: Volume,
    files: Vec<VolumeFile>,
    pool: Pool,
}

impl<'a> SortedFiles<'a> {
    pub(super) fn open(bench: &'a Bench<'a>, name: &str) -> Result<Self> {
        Self::open_at(bench, &bench.paths(name))
    }

    pub(super) fn open_at(bench: &'a Bench<'a>, paths: &[PathBuf]) -> Result<Self> {
        let reads = READS * paths.len();
        let job = bench.job(2 * (reads * READ_BYTES) as u64);
        let volume = Volume::new(Arc::clone(&bench.device), &job.options.drives)?;
        let files = paths.iter().map(|path| volume.open(path, Access::Read));
        Ok(SortedFiles {
            files: files.collect::<Result<_>>()?,
            pool: Pool::new(&job.budget, "reads", READ_BYTES, reads)?,
            bench,
            volume,
        })
    }

    pub(super) fn read_all(&self) -> Result<Cost> {
        self.read(0..self.bench.data_bytes / RECORD_BYTES as u64)
    }

    /// Reads a range of records from all drives at the same time.
    pub(super) fn read(&self, records: Range<u64>) -> Result<Cost> {
        let started = Instant::now();
        let mut port = self.volume.port()?;
        // The remaining range of each file: next byte and end.
        let mut rest: Vec<(u64, u64)> = Vec::with_capacity(self.files.len());
        let mut start_bytes = 0;
        for file in &self.files {
            let len_bytes = file.facts.len_bytes;
            let inside = |record: u64| {
                let at_bytes = record * RECORD_BYTES as u64;
                at_bytes.clamp(start_bytes, start_bytes + len_bytes) - start_bytes
            };
            rest.push((inside(records.start), inside(records.end)));
            start_bytes += len_bytes;
        }
        let mut finished = Vec::new();
        let mut read_bytes = 0;
        loop {
            self.bench.watch.check()?;
            let mut is_any = true;
            while is_any {
                is_any = false;
                for (file, (next, end)) in self.files.iter().zip(&mut rest) {
                    if next < end
                        && let Some(mut buf) = self.pool.take()
                    {
                        let len_bytes = (*end - *next).min(READ_BYTES as u64);
                        let buf = buf.split_to(len_bytes as usize);
                        port.submit(file, Op::Read, *next, buf, 0);
                        *next += len_bytes;
                        is_any = true;
                    }
                }
            }
            if port.in_flight() == 0 {
                break;
            }
            port.poll(true, &mut finished)?;
            for transfer in finished.drain(..) {
                if let Some(fault) = transfer.fault {
                    return Err(self.volume.explain(&fault));
                }
                read_bytes += transfer.len_bytes as u64;
            }
        }
        Ok(Cost {
            seconds: started.elapsed().as_secs_f64(),
            read_bytes,
            written_bytes: 0,
        })
    }
}

impl Drop for SortedFiles<'_> {
    fn drop(&mut self) {
        for file in &self.files {
            self.volume.close(file);
        }
    }
}
