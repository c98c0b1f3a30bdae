//! Measures the cost of processing a record or a line on this machine.
//!
//! Contract: the engine itself sorts and shuffles random items, on one thread and with files in
//! memory. A job gets half of the memory that its items need, so it must distribute them and then
//! work on buckets. [`measure`] does this [`ROUNDS`] times for records of one length and returns
//! the shortest time, because other work on the machine only adds time. [`compute_costs`] covers
//! all kinds of jobs, each with items of two lengths; their difference separates the cost per item
//! from the cost per byte. Later plans reuse the result. The cost includes copies into and out of
//! the files in memory; direct I/O on drives avoids these copies. One thread uses the memory bus
//! alone, so contention between threads is not included.
//!
//! Bounds: four times [`DATA_BYTES`] in memory; no round of [`measure`] starts after [`ENOUGH`].
//! All kinds together take a second or two.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outcore::job::{ComputeCosts, Job, JobOptions, KindCosts, ScratchDrive, StepCost};
use outcore::key::RecordFormat;
use outcore::key::sort_key::ByteOrder;
use outcore::shuffle::{ShuffleOptions, Unit, shuffle};
use outcore::sort::lines::{LineSortOptions, sort_lines};
use outcore::sort::{SortOptions, sort};
use outcore::{Error, Result};
use outcore::{Input, Output, Phase};
use outcore_io::drive::rates::RatesCache;
use outcore_io::drive::testing::{RamDevice, RamOptions};

/// More than a processor's caches hold, so that buckets come from memory, as for large data.
const DATA_BYTES: u64 = 96 << 20;
/// Bytes per kind when all kinds are measured.
const KIND_BYTES: u64 = 16 << 20;
const ROUNDS: u32 = 3;
const ENOUGH: Duration = Duration::from_secs(2);
/// The measured data would hold too few longer records.
const RECORD_BYTES_MAX: u64 = 64 << 10;
const OPERATION: &str = "measure computation";
/// Keys of the cache: each kind of job, for distributing and finishing.
const NAMES: [&str; 8] = [
    "numbers.distribute",
    "numbers.finish",
    "records.distribute",
    "records.finish",
    "lines.distribute",
    "lines.finish",
    "shuffle.distribute",
    "shuffle.finish",
];

/// Core nanoseconds per record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordCost {
    /// Time to distribute it into buckets.
    pub distribute_ns: f64,
    /// Time to sort it within its bucket.
    pub sort_ns: f64,
}

/// The computation of jobs on this machine: from `cache`, or measured now if that is allowed,
/// otherwise assumed.
pub(crate) fn compute_costs(cache: &RatesCache, may_measure: bool) -> ComputeCosts {
    let Some((found, origin)) = cache.costs(NAMES, may_measure.then_some(all_kinds)) else {
        return ComputeCosts::ASSUMED;
    };
    let step = |index: usize| StepCost {
        item_ns: found[index].0,
        byte_ns: found[index].1,
    };
    let kind = |index: usize| KindCosts {
        distribute: step(2 * index),
        finish: step(2 * index + 1),
    };
    ComputeCosts {
        numbers: kind(0),
        records: kind(1),
        lines: kind(2),
        shuffle: kind(3),
        origin,
    }
}

/// Measures all kinds. Returns the costs (per item, per byte) of each of [`NAMES`].
fn all_kinds() -> Result<[(f64, f64); 8]> {
    let format = |text: &str| RecordFormat::parse_type(text);
    let numbers = sorted_once(&format("u64")?, KIND_BYTES / 8, 8)?;
    let records = |record_bytes: u64| {
        let format = format(&format!("{record_bytes}/0:10"))?;
        sorted_once(&format, KIND_BYTES / record_bytes, record_bytes)
    };
    let [numbers_distribute, numbers_finish] =
        [numbers.distribute_ns, numbers.sort_ns].map(|ns| (0.0, ns / 8.0));
    let [records_distribute, records_finish] = by_two([16, 128], records)?;
    let [lines_distribute, lines_finish] = by_two([16, 128], lines_once)?;
    let [shuffle_distribute, shuffle_finish] = by_two([8, 128], shuffled_once)?;
    Ok([
        numbers_distribute,
        numbers_finish,
        records_distribute,
        records_finish,
        lines_distribute,
        lines_finish,
        shuffle_distribute,
        shuffle_finish,
    ])
}

/// The cost per item and per byte, for both steps. It follows from the costs that `measure` finds
/// for items of two lengths, the shorter length first.
fn by_two(
    lengths_bytes: [u64; 2],
    measure: impl Fn(u64) -> Result<RecordCost>,
) -> Result<[(f64, f64); 2]> {
    let [short_bytes, long_bytes] = lengths_bytes;
    let (short, long) = (measure(short_bytes)?, measure(long_bytes)?);
    let split = |short_ns: f64, long_ns: f64| {
        let byte_ns = ((long_ns - short_ns) / (long_bytes - short_bytes) as f64).max(0.0);
        let item_ns = (short_ns - byte_ns * short_bytes as f64).max(0.0);
        (item_ns, byte_ns)
    };
    Ok([
        split(short.distribute_ns, long.distribute_ns),
        split(short.sort_ns, long.sort_ns),
    ])
}

/// The cost of records of `record_bytes` on this machine: integers for 4 or 8 bytes, otherwise
/// records ordered by their first ten bytes. `check` is called between rounds and may stop the
/// measurement.
///
/// # Errors
/// Records of zero bytes or of more than [`RECORD_BYTES_MAX`]; an error of `check`.
pub fn measure(record_bytes: u64, check: &dyn Fn() -> Result<()>) -> Result<RecordCost> {
    if record_bytes == 0 || record_bytes > RECORD_BYTES_MAX {
        let cause = format!("records of {record_bytes} B cannot be measured");
        return Err(Error::usage(OPERATION, cause).hint("give --distribute-ns and --sort-ns"));
    }
    let format = match record_bytes {
        4 => RecordFormat::parse_type("u32")?,
        8 => RecordFormat::parse_type("u64")?,
        size => RecordFormat::parse_type(&format!("{size}/0:{}", size.min(10)))?,
    };
    let mut least = RecordCost {
        distribute_ns: f64::INFINITY,
        sort_ns: f64::INFINITY,
    };
    let started = Instant::now();
    for round in 0..ROUNDS {
        check()?;
        if round > 0 && started.elapsed() > ENOUGH {
            break;
        }
        let found = sorted_once(&format, DATA_BYTES / record_bytes, record_bytes)?;
        least.distribute_ns = least.distribute_ns.min(found.distribute_ns);
        least.sort_ns = least.sort_ns.min(found.sort_ns);
    }
    Ok(least)
}

fn sorted_once(format: &RecordFormat, records: u64, record_bytes: u64) -> Result<RecordCost> {
    let data = random_bytes(records * record_bytes);
    run_once(data, records, "sort", |job, inputs, output| {
        let done = sort(job, inputs, output, format, SortOptions::default())?;
        Ok(done.phases)
    })
}

/// Lines of `line_bytes` letters.
fn lines_once(line_bytes: u64) -> Result<RecordCost> {
    let mut data = random_bytes(KIND_BYTES);
    for line in data.chunks_mut(line_bytes as usize) {
        line.iter_mut().for_each(|byte| *byte = b'a' + *byte % 16);
        if let Some(last) = line.last_mut() {
            *last = b'\n';
        }
    }
    run_once(
        data,
        KIND_BYTES / line_bytes,
        "sort",
        |job, inputs, output| {
            let options = LineSortOptions::default();
            Ok(sort_lines(job, inputs, output, &ByteOrder, options)?.phases)
        },
    )
}

fn shuffled_once(record_bytes: u64) -> Result<RecordCost> {
    run_once(
        random_bytes(KIND_BYTES),
        KIND_BYTES / record_bytes,
        "permute",
        |job, inputs, output| {
            let options = ShuffleOptions {
                unit: Unit::Records {
                    record_bytes: record_bytes as usize,
                },
                seed: 1,
                epoch: 0,
                replace: false,
            };
            Ok(shuffle(job, inputs, output, options)?.phases)
        },
    )
}

/// The cost per item of a job over `items` items with files in memory: of the distribution, and of
/// the phase `finish`.
fn run_once(
    data: Vec<u8>,
    items: u64,
    finish: &str,
    work: impl FnOnce(&Job, &[Input], Output) -> Result<Vec<Phase>>,
) -> Result<RecordCost> {
    let ram = RamDevice::new(RamOptions {
        short_one_in: 0,
        ..RamOptions::default()
    });
    let memory_bytes = data.len() as u64 / 2;
    ram.put("/in", data);
    let options = JobOptions {
        memory_bytes,
        threads: 1,
        drives: vec![ScratchDrive {
            name: "memory".to_owned(),
            dir: PathBuf::from("/scratch"),
            weight: 1.0,
            limit_bytes: u64::MAX,
        }],
        ..JobOptions::default()
    };
    let job = Job::on(options, Arc::new(ram) as _);
    let output = Output::File {
        path: PathBuf::from("/out"),
        header: None,
    };
    let phases = work(&job, &[Input::raw("/in")], output)?;
    let cost_ns = |name: &str| {
        let phases = phases.iter().filter(|phase| phase.name == name);
        phases.map(|phase| phase.seconds).sum::<f64>() * 1e9 / items as f64
    };
    Ok(RecordCost {
        distribute_ns: cost_ns("distribute"),
        sort_ns: cost_ns(finish),
    })
}

fn random_bytes(len_bytes: u64) -> Vec<u8> {
    let mut word = 1u64;
    let words = (0..len_bytes.div_ceil(8)).map(|_| {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // The low bits of a linear congruential sequence are not random.
        word.rotate_right(32).to_le_bytes()
    });
    let mut bytes: Vec<u8> = words.flatten().collect();
    bytes.truncate(len_bytes as usize);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_of_a_sort_cost_something() {
        for (name, record_bytes) in [("u64", 8), ("100/0:10", 100)] {
            let format = RecordFormat::parse_type(name).unwrap();
            let cost = sorted_once(&format, (24 << 20) / record_bytes, record_bytes).unwrap();
            assert!(cost.distribute_ns > 0.0 && cost.sort_ns > 0.0, "{cost:?}");
        }
    }

    #[test]
    fn every_kind_of_job_is_measured_and_then_remembered() {
        let home = tempfile::tempdir().unwrap();
        let cache = RatesCache::new(Some(home.path().join("rates.toml")));
        assert_eq!(compute_costs(&cache, false), ComputeCosts::ASSUMED);
        let measured = compute_costs(&cache, true);
        for kind in [
            measured.numbers,
            measured.records,
            measured.lines,
            measured.shuffle,
        ] {
            for step in [kind.distribute, kind.finish] {
                assert!(step.seconds(1.0, 100.0) > 0.0, "{measured:?}");
            }
        }
        assert_eq!(compute_costs(&cache, false), measured);
    }

    #[test]
    fn records_that_cannot_be_measured_are_refused() {
        for size in [0, RECORD_BYTES_MAX + 1] {
            assert!(measure(size, &|| Ok(())).is_err());
        }
    }

    #[test]
    fn a_caller_may_stop_it() {
        let stop = || Err(Error::usage(OPERATION, "stopped"));
        assert!(measure(8, &stop).is_err());
    }
}
