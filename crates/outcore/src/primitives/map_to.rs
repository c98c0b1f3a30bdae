//! A function from file to file: each of many files becomes another file.
//!
//! Contract (PALID, SPAA 2025, sections 3 and 4: file mapper, scatter-gather): [`map_files_to`]
//! loads each whole file, and writes the function's result to the file of the same number. The
//! threads write in parallel, and all files appear together, with a manifest that lists them. After
//! [`distribute`](super::distribute()) this is scatter-gather: items go to buckets that fit in
//! memory, each bucket is processed alone, and the concatenated results are a sequence again.
//!
//! Bounds: one read of the files, one write of the results; memory is that of
//! [`map_files`](super::map_files()), the function's results, and [`CHUNKS`] chunks of
//! [`CHUNK_BYTES`] per thread.

use std::sync::Arc;

use super::distribute::BucketFiles;
use super::files::{LoadedFile, PHASE, each_file};
use super::summary::Summary;
use crate::ends::{Input, Phases};
use crate::forecast::Forecast;
use crate::job::Job;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool, block_ceil};
use outcore_io::output::{Room, ShardPlan, StagedOutput};
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::transfers::Transfers;
use outcore_io::{Error, Result, units};

/// Bytes that are written at once, and chunks per thread.
const CHUNK_BYTES: usize = 1 << 20;
const CHUNKS: usize = 4;
const PURPOSE: &str = "chunks of results";

/// Bytes of the write chunks of `threads` threads.
pub(crate) fn written_chunks_bytes(threads: usize) -> u64 {
    (threads * CHUNKS * CHUNK_BYTES) as u64
}

/// Writes the result of `f` for each of `inputs` to the file of the same number in `outputs`;
/// returns the bytes of each. Files are processed in no fixed order. A header in `outputs` becomes
/// that of each file, with the number of rows that `f` returned.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use outcore::primitives::{BucketFiles, map_files_to};
/// use outcore::Input;
/// use outcore::IoMode;
/// use outcore::job::{Job, JobOptions};
///
/// let dir = tempfile::tempdir()?;
/// let path = |name: &str| dir.path().join(name);
/// std::fs::write(path("a"), "one")?;
/// std::fs::write(path("b"), "two")?;
/// let outputs = BucketFiles {
///     paths: vec![path("A"), path("B")],
///     manifest: Some(path("both.outcore.json")),
///     replace: false,
///     header: None,
/// };
/// let inputs = ["a", "b"].map(|name| Input::raw(path(name)));
/// let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
/// let job = Job::new(limits, IoMode::Auto);
/// map_files_to(&job, &inputs, &outputs, |file| Ok(file.bytes.to_ascii_uppercase()))?;
/// assert_eq!(std::fs::read(path("B"))?, b"TWO");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`crate::Kind::Usage`] for another number of outputs and for existing files; the errors of
/// [`map_files`](super::map_files()) and of writing. No output remains then.
pub fn map_files_to(
    job: &Job,
    inputs: &[Input],
    outputs: &BucketFiles,
    f: impl Fn(LoadedFile<'_>) -> Result<Vec<u8>> + Sync,
) -> Result<(Vec<u64>, Summary)> {
    if inputs.len() != outputs.paths.len() {
        let cause = format!(
            "{}, and {} to write",
            units::counted(inputs.len() as u64, "file"),
            outputs.paths.len()
        );
        return Err(Error::usage("map files", cause).hint("name an output for each input"));
    }
    let mut phases = Phases::start();
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let staged = stage(&volume, outputs)?;
    let threads = job.options.threads.max(1);
    let chunks = Ledger::new("files to write")
        .always(PURPOSE, written_chunks_bytes(threads))
        .open(&job.budget)?;
    let state = || {
        Ok(Writer {
            writes: Transfers::new(&volume)?,
            chunks: Pool::new(&chunks, PURPOSE, CHUNK_BYTES, CHUNKS)?,
        })
    };
    let (lens, plan) = each_file(
        job,
        &volume,
        inputs,
        Forecast::Unknown,
        state,
        |writer, file| {
            let made = f(file)?;
            let header = outputs.header.as_ref();
            let front = match header {
                Some(header) => {
                    let row_bytes = header.format.record_bytes().max(1);
                    header.encode((made.len() / row_bytes) as u64)
                }
                None => Vec::new(),
            };
            writer.write(&staged.shards()[file.index].file, &front, &made)?;
            Ok(made.len() as u64)
        },
    )?;
    phases.end(PHASE, &volume);
    job.control.begin_phase("publish", 0);
    staged.publish_each(&volume, &lens)?;
    phases.end("publish", &volume);
    let count = lens.len() as u64;
    let done = Summary::of_pass(&volume, phases, &[plan], count, count, 0);
    Ok((lens, done))
}

fn stage(volume: &Volume, outputs: &BucketFiles) -> Result<StagedOutput> {
    let names = outputs.paths.iter().chain(&outputs.manifest);
    if let Some(path) = names
        .into_iter()
        .find(|path| !outputs.replace && path.exists())
    {
        return Err(Error::usage("create output", "it exists already")
            .path(path)
            .hint("allow overwriting with --force"));
    }
    let header = outputs.header.as_ref();
    let header = header.map_or(Vec::new(), |header| header.encode(0));
    let plans = outputs.paths.iter().map(|path| ShardPlan {
        path: path.clone(),
        header: header.clone(),
        start_bytes: 0,
        len_bytes: 0,
    });
    StagedOutput::stage(
        volume,
        plans.collect(),
        outputs.manifest.clone(),
        outputs.replace,
        Room::AtMost,
    )
}

/// One thread's writes.
struct Writer {
    writes: Transfers<()>,
    chunks: Pool,
}

impl Writer {
    /// Writes `front` and `made` to a file, with the last block padded with zeros.
    fn write(&mut self, file: &VolumeFile, front: &[u8], made: &[u8]) -> Result<()> {
        let mut at_bytes = 0;
        let mut left = [front, made];
        while left.iter().any(|part| !part.is_empty()) {
            let mut chunk = self.writes.buffer(&self.chunks, || Ok(()))?;
            let mut filled = 0;
            for part in &mut left {
                let (taken, rest) = part.split_at(part.len().min(chunk.len() - filled));
                chunk[filled..filled + taken.len()].copy_from_slice(taken);
                filled += taken.len();
                *part = rest;
            }
            let whole = block_ceil(filled as u64) as usize;
            chunk[filled..whole].fill(0);
            let buf = chunk.split_to(whole);
            drop(chunk);
            self.writes.write_behind(file, at_bytes, buf)?;
            at_bytes += whole as u64;
        }
        self.writes.finish(|| Ok(()))
    }
}

const _: () = assert!(CHUNK_BYTES.is_multiple_of(BLOCK_BYTES));
