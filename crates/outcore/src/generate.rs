//! Generated records to a file, to one shard a drive, or to a pipe.
//!
//! Contract: writes `records` records of a [`Generator`] behind an optional header. Records are a
//! pure function of their number, so each thread makes whole blocks of the file on its own: a
//! record that a border cuts is made on both sides. All writes are therefore aligned, large, and
//! independent of each other, and the bytes depend on the generator alone, never on threads,
//! memory or drives. Files appear whole or not at all; a pipe gets its bytes in order.
//!
//! Inputs of this kind (uniform, exponential, Zipf, one file a drive) are those of PALID (SPAA
//! 2025, section 5).
//!
//! Bounds: memory is a window of blocks a thread, at most half of the job's, and a record a
//! thread; I/O is the output once.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::ends::Output;
use crate::ends::{stage_output, traffic_by_drive};
use crate::error::{Error, Kind, Result};
use crate::job::Job;
use crate::key::generate::Generator;
use crate::memory::{BLOCK_BYTES, Pool, block_ceil};
use crate::partition::crew::Crew;
use crate::volume::output::{Room, StagedOutput};
use crate::volume::transfers::Transfers;
use crate::volume::{Volume, VolumeFile};

/// Largest write: beyond it the drives gain nothing.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Writes in flight a thread.
const WINDOW_MAX: usize = 8;
/// Writes are made smaller down to this before fewer are in flight.
const WRITE_BYTES_GOOD: u64 = 128 << 10;
/// Smallest write.
const WRITE_BYTES_MIN: usize = 16 << 10;
const _: () = assert!(WRITE_BYTES_MIN.is_multiple_of(BLOCK_BYTES));

/// What to generate, and where to.
pub struct GenerateRequest {
    /// Makes the records.
    pub generator: Generator,
    /// How many.
    pub records: u64,
    /// Where they go.
    pub output: Output,
    /// Replace an output that exists.
    pub replace: bool,
}

/// What was generated.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateSummary {
    /// Records written.
    pub records: u64,
    /// Wall time, the sync included.
    pub seconds: f64,
    /// Bytes read from all drives; 0 but for what a device reads to know itself.
    pub read_bytes: u64,
    /// Bytes written to all drives, or to the pipe.
    pub written_bytes: u64,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<(String, u64, u64)>,
}

/// Generates records as `request` says.
///
/// # Errors
/// [`Kind::Usage`] for an output that exists or a size beyond all files, [`Kind::Memory`] if the
/// job's memory is too little for its threads, [`Kind::NoSpace`], [`Kind::Io`],
/// [`Kind::Interrupted`]. Nothing is left behind.
pub fn generate(job: &Job, request: &GenerateRequest) -> Result<GenerateSummary> {
    let started = Instant::now();
    let record_bytes = request.generator.format().record_bytes();
    let data_bytes = request.records.checked_mul(record_bytes as u64);
    let data_bytes = data_bytes
        .filter(|&bytes| i64::try_from(bytes).is_ok())
        .ok_or_else(|| {
            let cause = format!("{} records of {record_bytes} bytes", request.records);
            Error::usage("generate", format!("{cause} are more than a file can hold"))
                .hint("give a smaller count with -n")
        })?;
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let staged = stage_output(
        &volume,
        &request.output,
        request.replace,
        Room::Exactly,
        data_bytes,
        record_bytes,
    )?;
    job.control.begin_phase("generate", data_bytes);
    let geometry = Geometry::new(job, data_bytes)?;
    let crew = Crew::new(job, data_bytes.div_ceil(geometry.block_bytes as u64));
    let record_space_bytes = (record_bytes * crew.threads()) as u64;
    let _space = job
        .budget
        .reserve("a record a thread", record_space_bytes)?;
    let written_bytes = match (&staged, &request.output) {
        (Some(staged), _) => {
            write_files(job, &crew, &volume, request, staged, geometry)?;
            volume.traffic_bytes().1
        }
        (None, Output::Pipe(pipe)) => {
            write_pipe(job, &crew, request, data_bytes, pipe, geometry)?;
            data_bytes
        }
        (None, _) => 0,
    };
    if let Some(staged) = staged {
        job.control.begin_phase("publish", 0);
        staged.publish(&volume, data_bytes)?;
    }
    Ok(GenerateSummary {
        records: request.records,
        seconds: started.elapsed().as_secs_f64(),
        read_bytes: volume.traffic_bytes().0,
        written_bytes,
        drives: traffic_by_drive(&volume),
    })
}

/// Sizes that follow from the job's memory.
#[derive(Debug, Clone, Copy)]
struct Geometry {
    block_bytes: usize,
    window: usize,
}

impl Geometry {
    /// Large writes, as many in flight as half of the memory holds.
    fn new(job: &Job, data_bytes: u64) -> Result<Self> {
        let threads = job.options.threads.max(1) as u64;
        let limit_bytes = job.budget.limit_bytes();
        let share_bytes = limit_bytes / 2 / threads;
        let wanted_bytes = (share_bytes / WINDOW_MAX as u64).min(WRITE_BYTES_MAX as u64);
        let block_bytes = match wanted_bytes {
            0..WRITE_BYTES_GOOD => share_bytes / 2,
            enough => enough,
        };
        // A power of two keeps blocks on the borders that drives like.
        let block_bytes = 1_u64 << block_bytes.max(1).ilog2();
        if block_bytes < WRITE_BYTES_MIN as u64 {
            let least_bytes = 4 * threads * WRITE_BYTES_MIN as u64;
            let cause = format!(
                "{threads} threads need at least {least_bytes} bytes, {limit_bytes} are allowed"
            );
            return Err(Error::new(Kind::Memory, "plan generate", cause)
                .hint("allow more with --memory, or use fewer --threads"));
        }
        let block_bytes = block_bytes.min(block_ceil(data_bytes.max(1)).next_power_of_two());
        let window = (share_bytes / block_bytes).clamp(1, WINDOW_MAX as u64);
        Ok(Geometry {
            block_bytes: block_bytes as usize,
            window: window as usize,
        })
    }
}

/// A file (or pipe) of the output: a header, then a range of the records' bytes.
struct Content<'a> {
    generator: &'a Generator,
    header: &'a [u8],
    /// First byte of all the records' bytes that it holds.
    start_bytes: u64,
    data_bytes: u64,
}

impl Content<'_> {
    fn full_bytes(&self) -> u64 {
        self.header.len() as u64 + self.data_bytes
    }

    /// Bytes of records in a range of the file.
    fn data_bytes_in(&self, at_bytes: u64, len_bytes: u64) -> u64 {
        let header_bytes = self.header.len() as u64;
        let end_bytes = (at_bytes + len_bytes).min(self.full_bytes());
        end_bytes.saturating_sub(at_bytes.max(header_bytes))
    }

    /// Makes the bytes from `at_bytes` of the file on; zeros behind its end. `record` is space.
    fn fill(&self, at_bytes: u64, out: &mut [u8], record: &mut [u8]) {
        let head = self.header.get(at_bytes as usize..).unwrap_or_default();
        let (front, out) = out.split_at_mut(head.len().min(out.len()));
        front.copy_from_slice(&head[..front.len()]);
        let after_header = (at_bytes + front.len() as u64).saturating_sub(self.header.len() as u64);
        let left_bytes = self.data_bytes.saturating_sub(after_header);
        let data_bytes = left_bytes.min(out.len() as u64) as usize;
        let (data, padding) = out.split_at_mut(data_bytes);
        padding.fill(0);
        self.fill_data(self.start_bytes + after_header, data, record);
    }

    /// Makes a range of the records' bytes; records at its ends may be cut.
    fn fill_data(&self, from_bytes: u64, out: &mut [u8], record: &mut [u8]) {
        let record_bytes = record.len();
        let mut number = from_bytes / record_bytes as u64;
        let skip_bytes = (from_bytes % record_bytes as u64) as usize;
        let mut out = out;
        if skip_bytes > 0 {
            self.generator.fill(number, record);
            let rest = &record[skip_bytes..];
            let (front, behind) = out.split_at_mut(rest.len().min(out.len()));
            front.copy_from_slice(&rest[..front.len()]);
            out = behind;
            number += 1;
        }
        let whole_bytes = out.len() / record_bytes * record_bytes;
        let (whole, tail) = out.split_at_mut(whole_bytes);
        self.generator.fill(number, whole);
        if !tail.is_empty() {
            self.generator
                .fill(number + (whole_bytes / record_bytes) as u64, record);
            tail.copy_from_slice(&record[..tail.len()]);
        }
    }
}

/// The blocks of all files, taking turns among them so that all of their drives write at once.
struct Turn<'a> {
    contents: Vec<(Content<'a>, VolumeFile)>,
    block_bytes: u64,
    rounds: u64,
    next: AtomicU64,
}

impl Turn<'_> {
    /// The next block: its file and place in it.
    fn next(&self) -> Option<(&Content<'_>, &VolumeFile, u64)> {
        let files = self.contents.len() as u64;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.rounds * files {
                return None;
            }
            let (content, file) = &self.contents[(number % files) as usize];
            let at_bytes = number / files * self.block_bytes;
            if at_bytes < content.full_bytes() {
                return Some((content, file, at_bytes));
            }
        }
    }
}

fn write_files(
    job: &Job,
    crew: &Crew<'_>,
    volume: &Volume,
    request: &GenerateRequest,
    staged: &StagedOutput,
    geometry: Geometry,
) -> Result<()> {
    let block_bytes = geometry.block_bytes as u64;
    let contents: Vec<_> = staged
        .shards()
        .iter()
        .map(|shard| {
            let content = Content {
                generator: &request.generator,
                header: &shard.plan.header,
                start_bytes: shard.plan.start_bytes,
                data_bytes: shard.plan.len_bytes,
            };
            (content, shard.file.clone())
        })
        .collect();
    let longest_bytes = contents.iter().map(|(content, _)| content.full_bytes());
    let turn = Turn {
        rounds: longest_bytes.max().unwrap_or(0).div_ceil(block_bytes),
        contents,
        block_bytes,
        next: AtomicU64::new(0),
    };
    let record_bytes = request.generator.format().record_bytes();
    crew.run(|_| {
        let mut worker = FileWorker {
            job,
            crew,
            volume,
            turn: &turn,
            writes: Transfers::new(volume)?,
            pool: Pool::new(
                &job.budget,
                "blocks to write",
                geometry.block_bytes,
                geometry.window,
            )?,
            record: vec![0; record_bytes],
        };
        worker.run()
    })
}

/// One thread that makes blocks of files and writes them.
struct FileWorker<'a> {
    job: &'a Job,
    crew: &'a Crew<'a>,
    volume: &'a Volume,
    turn: &'a Turn<'a>,
    /// Each with the bytes of data in it.
    writes: Transfers<u64>,
    pool: Pool,
    record: Vec<u8>,
}

impl FileWorker<'_> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.crew.check()?;
            while let Some(written) = self.writes.take()? {
                self.count(written.what);
            }
            let Some(mut slot) = self.pool.take() else {
                self.writes.wait()?;
                continue;
            };
            let Some((content, file, at_bytes)) = self.turn.next() else {
                break;
            };
            let left_bytes = block_ceil(content.full_bytes() - at_bytes);
            let len_bytes = left_bytes.min(self.turn.block_bytes) as usize;
            let mut block = slot.split_to(len_bytes);
            drop(slot);
            content.fill(at_bytes, &mut block, &mut self.record);
            let data_bytes = content.data_bytes_in(at_bytes, len_bytes as u64);
            self.writes.write(file, at_bytes, block, data_bytes);
            self.writes.start()?;
        }
        while let Some(written) = self.writes.next(|| self.crew.check())? {
            self.count(written.what);
        }
        Ok(())
    }

    fn count(&self, data_bytes: u64) {
        self.job.control.advance(data_bytes);
        self.job.control.watch(self.volume);
    }
}

/// Whose block a pipe gets next.
#[derive(Default)]
struct InOrder {
    turn: Mutex<u64>,
    changed: Condvar,
}

fn write_pipe(
    job: &Job,
    crew: &Crew<'_>,
    request: &GenerateRequest,
    data_bytes: u64,
    pipe: &Mutex<Box<dyn Write + Send>>,
    geometry: Geometry,
) -> Result<()> {
    let content = Content {
        generator: &request.generator,
        header: &[],
        start_bytes: 0,
        data_bytes,
    };
    let block_bytes = geometry.block_bytes as u64;
    let blocks = data_bytes.div_ceil(block_bytes);
    let next = AtomicU64::new(0);
    let order = InOrder::default();
    let pool = Pool::new(
        &job.budget,
        "blocks to write",
        geometry.block_bytes,
        crew.threads(),
    )?;
    let failed = |e: std::io::Error| Error::io("write to the pipe", &e);
    crew.run(|_| {
        let mut record = vec![0; request.generator.format().record_bytes()];
        let Some(mut block) = pool.take() else {
            return Err(Error::new(
                Kind::Memory,
                "take a buffer",
                "the pool is empty",
            ));
        };
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= blocks {
                return Ok(());
            }
            crew.check()?;
            let at_bytes = number * block_bytes;
            let len_bytes = block_bytes.min(data_bytes - at_bytes) as usize;
            content.fill(at_bytes, &mut block[..len_bytes], &mut record);
            let mut turn = order.turn.lock().unwrap_or_else(PoisonError::into_inner);
            while *turn != number {
                crew.check()?;
                let wait = order.changed.wait_timeout(turn, Duration::from_millis(50));
                turn = wait.unwrap_or_else(PoisonError::into_inner).0;
            }
            let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
            pipe.write_all(&block[..len_bytes]).map_err(failed)?;
            *turn += 1;
            drop(turn);
            order.changed.notify_all();
            job.control.advance(len_bytes as u64);
            job.control.set_traffic(0, at_bytes + len_bytes as u64);
        }
    })?;
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.flush().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::config::IoMode;
    use crate::drive::fault::{FaultDevice, FaultPlan};
    use crate::drive::ram::{RamDevice, RamOptions};
    use crate::job::JobOptions;
    use crate::key::generate::GenerateOptions;
    use crate::key::gensort::GensortOptions;
    use crate::key::record::RecordFormat;

    fn generator(format: &str) -> Generator {
        if format == "gensort" {
            return Generator::gensort(GensortOptions::default());
        }
        let format = RecordFormat::parse_type(format).unwrap();
        Generator::new(&format, GenerateOptions::default()).unwrap()
    }

    fn wanted(format: &str, records: u64) -> Vec<u8> {
        let generator = generator(format);
        let mut bytes = vec![0; records as usize * generator.format().record_bytes()];
        generator.fill(0, &mut bytes);
        bytes
    }

    fn options(threads: usize, memory_bytes: u64) -> JobOptions {
        JobOptions {
            threads,
            memory_bytes,
            ..JobOptions::default()
        }
    }

    fn request(format: &str, records: u64, output: Output) -> GenerateRequest {
        GenerateRequest {
            generator: generator(format),
            records,
            output,
            replace: false,
        }
    }

    fn file(path: impl AsRef<Path>) -> Output {
        Output::File {
            path: path.as_ref().to_path_buf(),
            header: None,
        }
    }

    fn any_format() -> impl Strategy<Value = &'static str> {
        prop_oneof![
            Just("u64"),
            Just("gensort"),
            Just("bytes7"),
            Just("f32x32"),
            Just("5000/4:4:u32")
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn a_file_holds_the_header_and_the_records_whatever_the_threads_and_the_memory(
            format in any_format(), bytes in 0u64..3_000_000, header_bytes in 0usize..9000,
            threads in 1usize..4, memory_mib in 1u64..40, seed: u64,
        ) {
            let records = bytes / generator(format).format().record_bytes() as u64;
            let device = RamDevice::new(RamOptions { seed, ..RamOptions::default() });
            let job = Job::on(options(threads, memory_mib << 20), Arc::new(device.clone()));
            let output = Output::File {
                path: "/d0/out".into(),
                header: Some(Arc::new(move |count| vec![count as u8; header_bytes])),
            };
            let summary = generate(&job, &request(format, records, output)).unwrap();
            let mut expected = vec![records as u8; header_bytes];
            expected.extend(wanted(format, records));
            prop_assert!(device.get("/d0/out") == Some(expected), "other bytes");
            prop_assert_eq!(summary.records, records);
            prop_assert_eq!(job.control.progress().done_bytes, 0);
            prop_assert_eq!(job.budget.used_bytes(), 0);
            prop_assert!(job.budget.peak_bytes() <= memory_mib << 20);
        }

        #[test]
        fn a_pipe_gets_the_records_in_order(
            format in any_format(), bytes in 0u64..3_000_000, threads in 1usize..4,
        ) {
            let records = bytes / generator(format).format().record_bytes() as u64;
            let device = Arc::new(RamDevice::new(RamOptions::default()));
            let job = Job::on(options(threads, 1 << 20), device);
            let (mut reader, writer) = std::io::pipe().unwrap();
            let read = std::thread::spawn(move || {
                let mut all = Vec::new();
                std::io::Read::read_to_end(&mut reader, &mut all).unwrap();
                all
            });
            let output = Output::Pipe(Mutex::new(Box::new(writer)));
            let summary = generate(&job, &request(format, records, output)).unwrap();
            prop_assert!(read.join().unwrap() == wanted(format, records), "other bytes");
            prop_assert_eq!(summary.written_bytes, wanted(format, records).len() as u64);
        }
    }

    #[test]
    fn shards_appear_together_and_make_up_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let job = Job::new(options(2, 8 << 20), IoMode::Auto);
        let paths: Vec<_> = (0..3)
            .map(|number| dir.path().join(format!("part-{number}")))
            .collect();
        let manifest = dir.path().join("parts.outcore.json");
        let output = Output::Shards {
            paths: paths.clone(),
            manifest: manifest.clone(),
        };
        generate(&job, &request("gensort", 70_001, output)).unwrap();
        let all: Vec<u8> = paths
            .iter()
            .flat_map(|path| std::fs::read(path).unwrap())
            .collect();
        assert!(all == wanted("gensort", 70_001));
        assert!(manifest.exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4);
    }

    #[test]
    fn files_of_the_system_are_written_and_never_replaced_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let job = Job::new(options(2, 8 << 20), IoMode::Auto);
        let mut request = request("gensort", 33_333, file(&path));
        let summary = generate(&job, &request).unwrap();
        assert!(std::fs::read(&path).unwrap() == wanted("gensort", 33_333));
        assert!(summary.written_bytes >= 3_333_300);
        let error = generate(&job, &request).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains("--force"), "{error}");
        request.replace = true;
        request.records = 1;
        generate(&job, &request).unwrap();
        assert!(std::fs::read(&path).unwrap() == wanted("gensort", 1));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_at_any_io_is_named_and_leaves_nothing() {
        for kind in ["eio", "enospc"] {
            for nth in 1.. {
                let plan: FaultPlan = format!("{kind}@{nth}").parse().unwrap();
                let ram = RamDevice::new(RamOptions::default());
                let device = Arc::new(FaultDevice::new(Arc::new(ram.clone()), plan));
                let job = Job::on(options(2, 1 << 20), Arc::clone(&device) as _);
                let outcome = generate(&job, &request("u64", 100_000, file("/d0/out")));
                if device.operations() < nth {
                    assert!(nth > 5, "a job has more operations");
                    outcome.unwrap();
                    break;
                }
                let error = outcome.unwrap_err();
                assert_eq!(error.kind() == Kind::NoSpace, kind == "enospc", "{error}");
                assert!(ram.get("/d0/out").is_none());
                assert_eq!(job.budget.used_bytes(), 0);
            }
        }
    }

    #[test]
    fn a_closed_pipe_a_cancelled_job_and_impossible_sizes_are_named() {
        let device = Arc::new(RamDevice::new(RamOptions::default()));
        let job = Job::on(options(2, 8 << 20), device.clone());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Output::Pipe(Mutex::new(Box::new(writer)));
        let error = generate(&job, &request("u64", 1 << 20, output)).unwrap_err();
        assert_eq!(error.raw_errno(), Some(32), "{error}");
        let error = generate(&job, &request("u64", u64::MAX / 8, file("/d0/x"))).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        let tight = Job::on(options(64, 1 << 20), device);
        let error = generate(&tight, &request("u64", 9, file("/d0/x"))).unwrap_err();
        assert_eq!(error.kind(), Kind::Memory);
        job.control.cancel();
        let error = generate(&job, &request("u64", 9, file("/d0/x"))).unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
    }
}
