//! The drive's own speed: reads one file and writes another of the same size at the same time.
//!
//! Contract: a sort larger than memory must do this work at least twice. It must also remove its
//! scratch, so the removal of the written file is measured as well: on a drive that discards freed
//! blocks at once, that takes time. Both directions go through the engine's own port, in large
//! blocks, each with its own window; the time includes the sync.
//!
//! Bounds: at most half of the job's memory; each direction transfers the file once.

use std::path::Path;
use std::time::Instant;

use outcore::job::Job;
use outcore::{Error, Kind, Result};
use outcore_io::drive::{Access, Op};
use outcore_io::memory::{BLOCK_BYTES, Pool};
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::transfers::Transfers;

/// Largest block.
const TRANSFER_BYTES_MAX: u64 = 4 << 20;
/// Blocks in flight in each direction.
const WINDOW: usize = 16;

/// The measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    /// Time to transfer the file once in each direction.
    pub(crate) seconds: f64,
    /// Time to remove the written file.
    pub(crate) remove_seconds: f64,
    /// Whether the I/O bypassed the page cache; if not, the result says little about the drive.
    pub(crate) is_direct: bool,
}

/// Reads `input` while writing a file of its size to `output`, which must not exist.
///
/// # Errors
/// Those of the drive; [`Kind::Interrupted`].
pub(crate) fn measure(job: &Job, input: &Path, output: &Path) -> Result<Floor> {
    let volume = Volume::new(job.device.clone(), &[])?;
    let from = volume.open(input, Access::Read)?;
    let to = volume.open(output, Access::Create)?;
    let len_bytes = from.facts.len_bytes / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    volume.device().allocate(to.id, len_bytes)?;
    job.control.begin_phase("measure", 2 * len_bytes);
    let share_bytes = job.budget.limit_bytes() / 4 / WINDOW as u64;
    let block_bytes = share_bytes.clamp(BLOCK_BYTES as u64, TRANSFER_BYTES_MAX) as usize;
    let block_bytes = block_bytes / BLOCK_BYTES * BLOCK_BYTES;
    let copy = Both {
        job,
        volume: &volume,
        block_bytes,
        len_bytes,
    };
    let started = Instant::now();
    let sides = [(&from, Op::Read), (&to, Op::Write)];
    copy.run(sides.map(|(file, op)| Side { file, op }))?;
    volume.device().sync(to.id)?;
    let seconds = started.elapsed().as_secs_f64();
    volume.close(&from);
    volume.close(&to);
    let started = Instant::now();
    volume.device().remove(output)?;
    Ok(Floor {
        seconds,
        remove_seconds: started.elapsed().as_secs_f64(),
        is_direct: from.facts.is_direct && to.facts.is_direct,
    })
}

/// A file, and the operation on it.
#[derive(Clone, Copy)]
struct Side<'a> {
    file: &'a VolumeFile,
    op: Op,
}

/// Two files, one read and one written at the same time.
struct Both<'a> {
    job: &'a Job,
    volume: &'a Volume,
    block_bytes: usize,
    len_bytes: u64,
}

impl Both<'_> {
    fn run(&self, sides: [Side<'_>; 2]) -> Result<()> {
        let budget = &self.job.budget;
        let pools = [
            Pool::new(budget, "blocks to measure with", self.block_bytes, WINDOW)?,
            Pool::new(budget, "blocks to measure with", self.block_bytes, WINDOW)?,
        ];
        let mut transfers = Transfers::new(self.volume)?;
        let mut at_bytes = [0; 2];
        while at_bytes.iter().any(|at| *at < self.len_bytes) || !transfers.is_empty() {
            self.job.control.check()?;
            for (side, Side { file, op }) in sides.iter().enumerate() {
                while at_bytes[side] < self.len_bytes {
                    let Some(mut block) = pools[side].take() else {
                        break;
                    };
                    let left_bytes = self.len_bytes - at_bytes[side];
                    let part = left_bytes.min(block.len() as u64) as usize;
                    let part = block.split_to(part);
                    let len_bytes = part.len() as u64;
                    match op {
                        Op::Read => transfers.read(file, at_bytes[side], part, ()),
                        Op::Write => transfers.write(file, at_bytes[side], part, ()),
                    }
                    at_bytes[side] += len_bytes;
                }
            }
            transfers.wait()?;
            self.settle(&mut transfers)?;
        }
        Ok(())
    }

    fn settle(&self, transfers: &mut Transfers<()>) -> Result<()> {
        while let Some(transfer) = transfers.take()? {
            if transfer.len_bytes == 0 {
                let cause = "the file changed while it was read: it became shorter";
                return Err(Error::new(Kind::Corrupt, "measure drive", cause));
            }
            self.job.control.advance(transfer.len_bytes as u64);
        }
        let (read_bytes, written_bytes) = self.volume.traffic_bytes();
        self.job.control.set_traffic(read_bytes, written_bytes);
        Ok(())
    }
}
