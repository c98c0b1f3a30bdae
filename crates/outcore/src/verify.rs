//! Order, count, duplicates and checksum of files, read once by all threads.
//!
//! Contract: the inputs, in the given order, are one stream of records. Threads take its blocks
//! ([`Blocks`]), and each checks its own with a [`Checker`]. Adjacent results are merged as soon as
//! both exist, so the report is that of one checker that saw everything in order. Nothing is
//! written. An unordered stream is a result, not an error; a file that changes while it is read is
//! an error.
//!
//! Bounds: memory is a window of blocks per thread, at most half of the job's. It also holds the
//! first and last record of each stretch that waits for its neighbour: at most one stretch per
//! drive and one per block in flight. I/O is one read of the data; adjacent blocks share border
//! blocks.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::ends::{
    DriveTraffic, Input, Phase, Phases, check_unchanged, input_places, open_inputs,
    traffic_by_drive,
};
use crate::forecast::{Amounts, Forecast, PhasePlan};
use crate::job::thread_group::ThreadGroup;
use crate::job::{Job, OutputPlaces};
use crate::key::check::{CheckOptions, CheckReport, Checker};
use crate::key::record::RecordFormat;
use crate::read::source::{Block, Blocks, InputPart};
use outcore_io::drive::Access;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool};
use outcore_io::port::Volume;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Largest read: longer ones gain nothing.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Smallest read.
const READ_BYTES_MIN: u64 = 16 << 10;
/// The name of the phase.
const VERIFY: &str = "verify";
/// The name under which blocks are reserved.
const BLOCKS: &str = "blocks to check";
/// Reads in flight per thread.
const WINDOW: usize = 6;

/// The result of a check of all records.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifyReport {
    /// Order, count, duplicates, checksum.
    pub check: CheckReport,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives, or from the pipe.
    pub read_bytes: u64,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<DriveTraffic>,
    /// The pass over the records, with its prediction.
    pub phases: Vec<Phase>,
}

/// Checks all records of `inputs` as one stream.
///
/// # Errors
/// [`Kind::Usage`] for a size that is not a multiple of the record, [`Kind::Memory`], [`Kind::Io`],
/// [`Kind::Corrupt`] for a file that changes in the meantime, [`Kind::Interrupted`].
pub fn verify(
    job: &Job,
    inputs: &[Input],
    format: &RecordFormat,
    options: CheckOptions,
) -> Result<VerifyReport> {
    check_order(format, options)?;
    let mut phases = Phases::start();
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let parts = open_inputs(&volume, inputs, format.record_bytes(), Access::Read)?;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    let check = check_parts(job, &volume, parts.clone(), format, options)?;
    check_unchanged(&volume, &parts, false)?;
    phases.end(VERIFY, &volume);
    let reads = data_bytes as f64 / block_bytes(job, format.record_bytes())? as f64;
    let amounts = Amounts::of_files(data_bytes.into(), Forecast::NOTHING, reads);
    let layout = job.layout(&input_places(&parts), &OutputPlaces::Unknown);
    let plan = PhasePlan::new(VERIFY, amounts, &layout);
    Ok(VerifyReport {
        check,
        seconds: phases.started.elapsed().as_secs_f64(),
        read_bytes: volume.traffic_bytes().0,
        drives: traffic_by_drive(&volume),
        phases: phases.beside(&[plan]),
    })
}

/// Checks all records of open files, in this order, as one stream.
///
/// # Errors
/// The errors of [`verify`], except for a file that changes.
pub(crate) fn check_parts(
    job: &Job,
    volume: &Volume,
    parts: Vec<InputPart>,
    format: &RecordFormat,
    options: CheckOptions,
) -> Result<CheckReport> {
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    job.control.begin_phase(VERIFY, data_bytes);
    let block_bytes = block_bytes(job, format.record_bytes())?;
    let blocks = Blocks::new(parts, format.record_bytes(), block_bytes);
    let windows = WINDOW * job.options.threads.max(1);
    let windows_bytes = Pool::total_bytes(blocks.read_bytes_max(), windows);
    let job = &job.under(&Ledger::new("verify").always(BLOCKS, windows_bytes))?;
    let thread_group = ThreadGroup::new(job, data_bytes.div_ceil(block_bytes as u64));
    let checked = Checked {
        template: Checker::new(format, options),
        stretches: Mutex::default(),
        record_bytes: format.record_bytes(),
    };
    thread_group.run(|_| {
        let read_bytes = blocks.read_bytes_max();
        let pool = Pool::new(&job.budget, BLOCKS, read_bytes, WINDOW)?;
        blocks.read_each(
            volume,
            &pool,
            || thread_group.check(),
            |block, elements| {
                checked.check(block, elements);
                job.control.advance(block.payload_bytes as u64);
                job.control.watch(volume);
                Ok(())
            },
        )
    })?;
    checked.into_report(blocks.parts())
}

/// Count and checksum of the records of `inputs`, independent of their order: two inputs with equal
/// results hold the same records (see [`CheckReport::has_records_of`]).
///
/// # Errors
/// The errors of [`verify`].
pub fn checksum_of(job: &Job, inputs: &[Input], format: &RecordFormat) -> Result<VerifyReport> {
    let options = CheckOptions {
        unordered: true,
        ..CheckOptions::default()
    };
    verify(job, inputs, format, options)
}

/// Checks the records from a pipe, on one thread.
///
/// # Errors
/// The errors of [`verify`]; [`Kind::Corrupt`] if the stream ends inside a record.
pub fn verify_stream(
    job: &Job,
    input: &mut dyn Read,
    format: &RecordFormat,
    options: CheckOptions,
) -> Result<VerifyReport> {
    check_order(format, options)?;
    let started = Instant::now();
    job.control.begin_phase(VERIFY, 0);
    let block_bytes = block_bytes(job, format.record_bytes())?;
    let pool = Pool::new(&job.budget, BLOCKS, block_bytes, 1)?;
    let mut block = pool.take().ok_or_else(no_buffer)?;
    let mut checker = Checker::new(format, options);
    let mut read_bytes = 0;
    loop {
        job.control.check()?;
        let got_bytes = match input.read(&mut block) {
            Ok(0) => break,
            Ok(got_bytes) => got_bytes,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io("read from the pipe", &e).offset(read_bytes)),
        };
        checker.push(&block[..got_bytes]);
        read_bytes += got_bytes as u64;
        job.control.advance(got_bytes as u64);
        job.control.set_traffic(read_bytes, 0);
    }
    let check = checker.finish()?;
    let seconds = started.elapsed().as_secs_f64();
    // The length of a pipe's stream is unknown in advance.
    let phase = Phase {
        name: VERIFY,
        seconds,
        read_bytes,
        written_bytes: 0,
        predicted: None,
    };
    Ok(VerifyReport {
        check,
        seconds,
        read_bytes,
        drives: Vec::new(),
        phases: vec![phase],
    })
}

/// Fails if an order is to be checked and the records have none.
fn check_order(format: &RecordFormat, options: CheckOptions) -> Result<()> {
    match options.unordered {
        true => Ok(()),
        false => format.check_order(),
    }
}

/// Bytes of a block such that the windows of all threads, border blocks and kept records stay
/// within half of the job's memory.
fn block_bytes(job: &Job, record_bytes: usize) -> Result<usize> {
    let threads = job.options.threads.max(1) as u64;
    let limit_bytes = job.budget.free_bytes();
    let slot_bytes = limit_bytes / 2 / threads / WINDOW as u64;
    let least_bytes = READ_BYTES_MIN.max(record_bytes as u64) + 2 * BLOCK_BYTES as u64;
    if slot_bytes < least_bytes {
        let needed_bytes = least_bytes * 2 * threads * WINDOW as u64;
        let cause = format!(
            "{} need at least {}, but only {} are free",
            units::counted(threads, "thread"),
            units::bytes(needed_bytes),
            units::bytes(limit_bytes)
        );
        return Err(Error::new(Kind::Memory, "plan verify", cause)
            .hint("allow more with --memory, or use fewer --threads"));
    }
    let block_bytes = slot_bytes - 2 * BLOCK_BYTES as u64;
    Ok(block_bytes.min(READ_BYTES_MAX.max(record_bytes as u64)) as usize)
}

fn no_buffer() -> Error {
    Error::new(Kind::Memory, "take a buffer", "the pool is empty").hint(
        "this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it",
    )
}

/// Checked stretches of the stream, by the position of their first record, with gaps between them.
type Stretches = BTreeMap<u64, Checker>;

/// The results of all threads.
struct Checked {
    /// A checker that has seen nothing.
    template: Checker,
    stretches: Mutex<Stretches>,
    record_bytes: usize,
}

impl Checked {
    fn check(&self, block: &Block, payload: &[u8]) {
        let mut checker = self.template.clone();
        checker.push(payload);
        let records = (payload.len() / self.record_bytes) as u64;
        let mut stretches = self
            .stretches
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        add(&mut stretches, block.position, records, checker);
    }

    /// The report on the whole stream; fails if a part of it was not read.
    fn into_report(self, parts: &[InputPart]) -> Result<CheckReport> {
        let wanted: u64 = parts
            .iter()
            .map(|part| part.data_len_bytes / self.record_bytes as u64)
            .sum();
        let stretches = self.stretches.into_inner();
        let mut stretches = stretches.unwrap_or_else(PoisonError::into_inner);
        let whole = stretches.remove(&0).unwrap_or(self.template);
        if stretches.is_empty() && whole.report().records == wanted {
            return whole.finish();
        }
        let cause = "not every block of the input was seen";
        Err(Error::new(Kind::Io, "verify", cause).hint("this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it"))
    }
}

/// Adds a stretch of `records` records from `position` on and joins it with adjacent ones.
fn add(stretches: &mut Stretches, position: u64, records: u64, checker: Checker) {
    let mut checker = checker;
    if let Some(next) = stretches.remove(&(position + records)) {
        checker.merge(&next);
    }
    if let Some((start, before)) = stretches.range_mut(..position).next_back()
        && start + before.report().records == position
    {
        before.merge(&checker);
        return;
    }
    stretches.insert(position, checker);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::job::JobOptions;
    use crate::key::order::{Order, OrderOptions};
    use crate::key::sort_key::Tie;
    use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice, RamOptions};

    fn options(threads: usize, memory_bytes: u64) -> JobOptions {
        JobOptions {
            threads,
            memory_bytes,
            ..JobOptions::default()
        }
    }

    fn ram_job(threads: usize, memory_bytes: u64) -> (RamDevice, Job) {
        let device = RamDevice::new(RamOptions::default());
        let job = Job::on(options(threads, memory_bytes), Arc::new(device.clone()));
        (device, job)
    }

    /// The report from its definition, by one checker that sees everything in order.
    fn naive(format: &RecordFormat, options: CheckOptions, bytes: &[u8]) -> CheckReport {
        let mut checker = Checker::new(format, options);
        checker.push(bytes);
        checker.finish().unwrap()
    }

    fn records(format: &RecordFormat, count: usize, seed: u64) -> Vec<u8> {
        // The first byte of each record varies, with many equal values; all other bytes are equal.
        let mut bytes = vec![seed as u8; count * format.record_bytes()];
        let mut state = seed;
        for record in bytes.chunks_mut(format.record_bytes()) {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            record[0] = (state >> 33) as u8 % 200;
        }
        bytes
    }

    fn sorted(format: &RecordFormat, bytes: &[u8]) -> Vec<u8> {
        let order_options = OrderOptions {
            descending: false,
            tie: Tie::Bytes,
        };
        let order = Order::new(format, order_options);
        let mut records: Vec<&[u8]> = bytes.chunks(format.record_bytes()).collect();
        records.sort_by(|a, b| order.compare(a, b));
        records.concat()
    }

    fn any_options() -> impl Strategy<Value = CheckOptions> {
        (any::<bool>(), any::<bool>(), any::<bool>(), 0..6).prop_map(
            |(descending, ties, unique, rare)| CheckOptions {
                descending,
                ties,
                unique,
                unordered: rare == 0,
                order_only: false,
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn threads_and_files_on_many_drives_report_what_one_reader_would(
            format in prop_oneof![Just("u64"), Just("gensort"), Just("f32x3"), Just("9000/8:4")],
            options in any_options(), len_bytes in 0usize..2_000_000, is_sorted: bool,
            swapped in any::<prop::sample::Index>(), threads in 1usize..4, memory_mib in 1u64..12,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5), header_bytes in 0u64..5000,
        ) {
            let format = RecordFormat::parse_type(format).unwrap();
            let record_bytes = format.record_bytes();
            let count = len_bytes / record_bytes;
            let mut bytes = records(&format, count, 3);
            if is_sorted {
                bytes = sorted(&format, &bytes);
                if count > 1 && memory_mib % 2 == 0 {
                    let at = swapped.index(count) * record_bytes;
                    bytes[at..at + record_bytes].fill(1);
                }
            }
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(count + 1)).collect();
            ends.sort_unstable();
            ends.push(count);
            let (device, job) = ram_job(threads, memory_mib << 20);
            let mut inputs = Vec::new();
            let mut start = 0;
            for (number, end) in ends.into_iter().enumerate() {
                let path = format!("/d{}/{number}", number % 3);
                let mut file = vec![7; header_bytes as usize];
                file.extend_from_slice(&bytes[start * record_bytes..end * record_bytes]);
                device.put(&path, file);
                inputs.push(Input { path: path.into(), header_bytes, data_bytes: None });
                start = end;
            }
            let report = verify(&job, &inputs, &format, options).unwrap();
            let expected = naive(&format, options, &bytes);
            prop_assert_eq!(report.check, expected);
            prop_assert!(report.read_bytes as usize >= bytes.len());
            prop_assert_eq!(job.budget.used_bytes(), 0);
            let without_order = checksum_of(&job, &inputs, &format).unwrap();
            prop_assert!(without_order.check.has_records_of(&expected));
            let stream = verify_stream(&job, &mut &bytes[..], &format, options).unwrap();
            prop_assert_eq!(stream.check, expected);
        }

        #[test]
        fn stretches_added_in_any_order_become_one(
            seed: u64, count in 1usize..60,
        ) {
            let format = RecordFormat::parse_type("bytes1").unwrap();
            let options = CheckOptions::default();
            let bytes = records(&format, count, seed);
            let mut numbers: Vec<usize> = (0..count).collect();
            numbers.sort_by_key(|&n| seed.rotate_left(n as u32).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut stretches = Stretches::new();
            for number in numbers {
                let mut checker = Checker::new(&format, options);
                checker.push(&bytes[number..=number]);
                add(&mut stretches, number as u64, 1, checker);
            }
            prop_assert_eq!(stretches.len(), 1);
            prop_assert_eq!(stretches[&0].report(), naive(&format, options, &bytes));
        }
    }

    fn input(path: impl AsRef<Path>) -> Vec<Input> {
        vec![Input::raw(path.as_ref())]
    }

    #[test]
    fn sizes_that_are_no_multiple_missing_files_and_little_memory_are_named() {
        let (device, job) = ram_job(2, 8 << 20);
        let format = RecordFormat::gensort();
        let kind = |job: &Job, path: &str| {
            let outcome = verify(job, &input(path), &format, CheckOptions::default());
            outcome.unwrap_err().kind()
        };
        device.put("/d0/odd", vec![0; 250]);
        assert_eq!(kind(&job, "/d0/odd"), Kind::Usage);
        assert_eq!(kind(&job, "/d0/none"), Kind::Io);
        device.put("/d0/even", vec![0; 200]);
        assert_eq!(kind(&ram_job(99, 1 << 20).1, "/d0/even"), Kind::Io);
        let tight = Job::on(options(99, 1 << 20), Arc::new(device));
        assert_eq!(kind(&tight, "/d0/even"), Kind::Memory);
        job.control.cancel();
        assert_eq!(kind(&job, "/d0/even"), Kind::Interrupted);
        let (_, job) = ram_job(1, 1 << 20);
        let cut = verify_stream(&job, &mut &[0; 250][..], &format, CheckOptions::default());
        assert_eq!(cut.unwrap_err().kind(), Kind::Corrupt);
    }

    #[test]
    fn a_failed_read_is_an_error_and_never_a_report() {
        let format = RecordFormat::parse_type("u64").unwrap();
        for nth in 1.. {
            let plan: FaultPlan = format!("eio@{nth}:read").parse().unwrap();
            let ram = RamDevice::new(RamOptions::default());
            ram.put("/d0/in", vec![0; 500_000]);
            let device = Arc::new(FaultDevice::new(Arc::new(ram), plan));
            let job = Job::on(options(2, 1 << 20), Arc::clone(&device) as _);
            let outcome = verify(&job, &input("/d0/in"), &format, CheckOptions::default());
            if device.operations() < nth {
                assert!(nth > 5, "a job has more reads");
                assert_eq!(outcome.unwrap().check.records, 62_500);
                return;
            }
            let text = outcome.unwrap_err().to_string();
            assert!(text.contains("/d0/in"), "{text}");
        }
    }
}
