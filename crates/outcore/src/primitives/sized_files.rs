//! Files that are written piece by piece and appear together, for results that are made one after
//! another and may exceed the memory.
//!
//! Contract: the length of each file is known in advance. Pieces come in any order and cover each
//! file exactly once. [`SizedFiles::publish`] publishes all files or none; dropping the value
//! before leaves nothing.
//!
//! Bounds: four areas, each a 64th of the memory and at most 256 KiB, and the border blocks that
//! wait for their other half.

use std::path::Path;
use std::sync::Arc;

use super::summary::Summary;
use crate::ends::{Phases, refuse_existing};
use crate::job::Job;
use crate::partition::task::write_in_place;
use crate::writer::Writer;
use outcore_io::memory::{BLOCK_BYTES, Pool};
use outcore_io::output::{Room, ShardPlan, StagedOutput, WrittenOutput};
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::wait_behind;
use outcore_io::{Error, Result};

const AREA_BYTES_MIN: u64 = 8 << 10;
const AREA_BYTES_MAX: u64 = 256 << 10;
const AREAS: usize = 4;
/// Slots for border blocks in flight.
const EDGE_SLOTS: usize = 8;
const RESULTS: &str = "results on their way to files";

/// See the module.
pub struct SizedFiles {
    volume: Volume,
    staged: StagedOutput,
    writer: Writer,
    port: Port,
    pool: Pool,
    /// Offset of each file in their concatenation, and the end of the last one.
    starts_bytes: Vec<u64>,
    phases: Phases,
}

/// A file and its length.
#[derive(Debug, Clone, Copy)]
pub struct SizedFile<'a> {
    /// The path of the file.
    pub path: &'a Path,
    /// The length of the file.
    pub len_bytes: u64,
}

impl SizedFiles {
    /// Stages files of these lengths.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for an existing file, unless `replace`, and for no file at all;
    /// [`crate::Kind::Memory`]; the errors of creating files.
    pub fn create(job: &Job, files: &[SizedFile<'_>], replace: bool) -> Result<Self> {
        if files.is_empty() {
            return Err(Error::usage("create output", "no file is given"));
        }
        refuse_existing(files.iter().map(|file| file.path), replace)?;
        let phases = Phases::start();
        let volume = Volume::new(Arc::clone(&job.device), &[])?;
        let area_bytes = (job.budget.free_bytes() / 64).clamp(AREA_BYTES_MIN, AREA_BYTES_MAX);
        let area_bytes = area_bytes.next_multiple_of(BLOCK_BYTES as u64) as usize;
        let pool = Pool::new(&job.budget, RESULTS, area_bytes, AREAS)?;
        let edge_pool = Pool::new(&job.budget, RESULTS, BLOCK_BYTES, EDGE_SLOTS)?;
        let mut starts_bytes = vec![0];
        let plans = files.iter().map(|file| {
            let start_bytes = starts_bytes.last().copied().unwrap_or(0);
            starts_bytes.push(start_bytes + file.len_bytes);
            ShardPlan {
                path: file.path.to_path_buf(),
                header: Vec::new(),
                start_bytes,
                len_bytes: file.len_bytes,
            }
        });
        let plans = plans.collect();
        let staged = StagedOutput::stage(&volume, plans, None, replace, Room::Exactly)?;
        Ok(SizedFiles {
            writer: Writer::new(&staged, edge_pool),
            port: volume.port()?,
            volume,
            staged,
            pool,
            starts_bytes,
            phases,
        })
    }

    /// Writes a piece of a file.
    ///
    /// # Errors
    /// The errors of writing this piece or an earlier one.
    pub fn write(&mut self, file: usize, at_bytes: u64, mut bytes: &[u8]) -> Result<()> {
        let mut at_bytes = self.starts_bytes[file] + at_bytes;
        while !bytes.is_empty() {
            let mut area = loop {
                match self.pool.take() {
                    Some(area) => break area,
                    None => wait_behind(&mut self.port)?,
                }
            };
            let phase = self.writer.phase(at_bytes);
            let (now, rest) = bytes.split_at(bytes.len().min(area.len() - phase));
            area[phase..phase + now.len()].copy_from_slice(now);
            let place = (phase, now.len(), at_bytes);
            write_in_place(
                &self.writer,
                &mut self.port,
                area,
                place.0,
                place.1,
                place.2,
            )?;
            at_bytes += now.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Writes the waiting border blocks; returns the end of the last file.
    fn finish(&mut self) -> Result<u64> {
        let end_bytes = self.starts_bytes.last().copied().unwrap_or(0);
        self.writer.finish(&mut self.port, end_bytes)?;
        self.phases.end("write", &self.volume);
        Ok(end_bytes)
    }

    /// Publishes the files together with those of another output, which is not a set and whose
    /// files have the lengths `other_lens_bytes`.
    ///
    /// # Errors
    /// The errors of [`SizedFiles::publish`].
    pub fn publish_with(mut self, other: StagedOutput, other_lens_bytes: &[u64]) -> Result<()> {
        self.finish()?;
        let lens_bytes = self.starts_bytes.windows(2).map(|ends| ends[1] - ends[0]);
        let own = WrittenOutput {
            lens_bytes: lens_bytes.collect(),
            output: self.staged,
        };
        let other = WrittenOutput {
            lens_bytes: other_lens_bytes.to_vec(),
            output: other,
        };
        StagedOutput::publish_all(vec![own, other], &self.volume)
    }

    /// Publishes the files.
    ///
    /// # Errors
    /// The errors of writing and publishing; no file remains then.
    pub fn publish(mut self) -> Result<Summary> {
        let end_bytes = self.finish()?;
        self.staged.publish(&self.volume, end_bytes)?;
        self.phases.end("publish", &self.volume);
        let summary = Summary::of_pass(&self.volume, self.phases, &[], 0, 0, 0);
        Ok(Summary {
            passes: 0,
            ..summary
        })
    }
}
