//! Reads in flight, weighted by the virtual clock of in-memory drives.
//!
//! Contract: jobs run on one thread over in-memory drives, whose clock advances only while a caller
//! waits. For each phase, and separately for its inputs and for scratch, the numbers of reads in
//! flight are weighted by their durations. The median over the time with any reads is at least
//! [`DEPTH_LEAST`] reads, or at least [`BYTES_LEAST`] bytes. The number of bytes in flight keeps a
//! drive busy (its rate times its latency). If memory allows it, plans make reads long, up to 4
//! MiB, because a long read costs less processor time than many short ones. A plan with little
//! memory has short reads, and then their number counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use outcore::job::{Control, Job, JobOptions, ScratchDrive};
use outcore_io::drive::testing::{RamDevice, RamOptions};
use outcore_io::drive::{Device, Op};

use super::devices::{HookDevice, is_scratch};

/// The smallest median of reads in flight.
pub const DEPTH_LEAST: usize = 8;
/// The smallest median of bytes in flight with fewer reads: 256 KiB per drive, which a drive of 2.5
/// GB/s moves in 100 us.
const BYTES_LEAST: usize = DRIVES * (256 << 10);
/// Shorter phases are not judged: they are over before a window fills, or their reads come long
/// before they are needed.
const NS_LEAST: u64 = 2_000_000;
pub const DRIVES: usize = 4;

/// The target of the reads in a phase.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    pub phase: String,
    pub is_scratch: bool,
}

/// For each value of a number that changes, how many nanoseconds it lasted.
type Times = BTreeMap<usize, u64>;

/// The durations of each number of reads, and of bytes of reads, in flight.
#[derive(Default)]
struct Depths {
    now_ns: u64,
    /// Reads and their bytes: for inputs, and for scratch.
    in_flight: [(usize, usize); 2],
    times: BTreeMap<Reading, (Times, Times)>,
}

/// The reads in flight in a phase for at least half of the time.
#[derive(Debug, Clone)]
pub struct InFlight {
    reads: usize,
    bytes: usize,
    /// The total duration with any reads.
    ns: u64,
}

impl InFlight {
    fn is_long(&self) -> bool {
        self.ns >= NS_LEAST
    }

    fn keeps_drives_busy(&self, depth_least: usize) -> bool {
        self.reads >= depth_least || self.bytes >= BYTES_LEAST
    }
}

fn median_of(times: &Times) -> usize {
    let all_ns: u64 = times.values().sum();
    let mut below_ns = 0;
    let median = times.iter().find(|(_, ns)| {
        below_ns += **ns;
        2 * below_ns >= all_ns
    });
    median.map_or(0, |(value, _)| *value)
}

impl Depths {
    /// A transfer begins, or ends, now. Time that ends with the completion of a write was spent
    /// waiting for the write, while completed reads were ready.
    fn turn(
        &mut self,
        now_ns: u64,
        phase: &str,
        (op, is_scratch): (Op, bool),
        (begins, bytes): (bool, usize),
    ) {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.now_ns, now_ns));
        if op == Op::Write {
            return;
        }
        for is_scratch in [false, true] {
            let (reads, bytes) = self.in_flight[usize::from(is_scratch)];
            if reads > 0 && passed_ns > 0 {
                let phase = phase.to_string();
                let times = self.times.entry(Reading { phase, is_scratch });
                let (at_reads, at_bytes) = times.or_default();
                *at_reads.entry(reads).or_default() += passed_ns;
                *at_bytes.entry(bytes).or_default() += passed_ns;
            }
        }
        let (reads, all_bytes) = &mut self.in_flight[usize::from(is_scratch)];
        if begins {
            *reads += 1;
            *all_bytes += bytes;
        } else {
            *reads -= 1;
            *all_bytes -= bytes;
        }
    }

    /// For each phase that reads, the medians.
    fn medians(&self) -> Vec<(Reading, InFlight)> {
        let phases = self.times.iter();
        phases
            .map(|(reading, (at_reads, at_bytes))| {
                let in_flight = InFlight {
                    reads: median_of(at_reads),
                    bytes: median_of(at_bytes),
                    ns: at_reads.values().sum(),
                };
                (reading.clone(), in_flight)
            })
            .collect()
    }
}

/// In-memory drives whose reads are never short.
pub fn drives() -> RamDevice {
    RamDevice::new(RamOptions {
        short_one_in: 0,
        ..RamOptions::default()
    })
}

/// Runs `work` on a job of one thread with this much memory, on the drives of `ram`; returns the
/// medians of each phase.
pub fn medians_on(
    ram: &RamDevice,
    memory_kib: u64,
    work: &mut dyn FnMut(&Job),
) -> Vec<(Reading, InFlight)> {
    let depths = Arc::new(Mutex::new(Depths::default()));
    let control: Arc<OnceLock<Arc<Control>>> = Arc::default();
    let turn = {
        let (ram, depths, control) = (ram.clone(), Arc::clone(&depths), Arc::clone(&control));
        move |path: &Path, op: Op, change: (bool, usize)| {
            let phase = control.get().map_or(String::new(), |c| c.progress().phase);
            let mut depths = depths.lock().unwrap();
            depths.turn(ram.now_ns(), &phase, (op, is_scratch(path)), change);
        }
    };
    let at_start = turn.clone();
    let device = HookDevice::with_starts(
        Arc::new(ram.clone()),
        move |path, request| at_start(path, request.op, (true, request.buf.len())),
        move |path, completion| {
            let request = &completion.request;
            turn(path, request.op, (false, request.buf.len()));
        },
    );
    let drives = (0..DRIVES).map(|drive| ScratchDrive::new(format!("/d{drive}")));
    let options = JobOptions {
        memory_bytes: memory_kib << 10,
        threads: 1,
        drives: drives.collect(),
        ..JobOptions::default()
    };
    let job = Job::on(options, Arc::new(device));
    assert!(control.set(Arc::clone(&job.control)).is_ok());
    work(&job);
    let depths = depths.lock().unwrap();
    depths.medians()
}

/// Checks each phase that waits for reads for some time, and that the given phases were among them.
pub fn check(what: &str, medians: &[(Reading, InFlight)], phases: &[(&str, bool)]) {
    check_for(what, medians, phases, DEPTH_LEAST);
}

/// Like [`check`], for another depth, if a job has too little memory for more.
pub fn check_for(
    what: &str,
    medians: &[(Reading, InFlight)],
    phases: &[(&str, bool)],
    depth_least: usize,
) {
    eprintln!("{what}: {medians:?}");
    for (phase, is_scratch) in phases {
        let found = medians
            .iter()
            .any(|(reading, _)| reading.phase == *phase && reading.is_scratch == *is_scratch);
        assert!(
            found,
            "{what}: {phase} reads of scratch {is_scratch}: {medians:?}"
        );
    }
    for (reading, in_flight) in medians.iter().filter(|(_, median)| median.is_long()) {
        assert!(
            in_flight.keeps_drives_busy(depth_least),
            "{what}: {reading:?} has a median of {in_flight:?}: {medians:?}"
        );
    }
}

/// Checks that every phase that reads for some time has a median of this many reads in flight, and
/// that there are such phases. Data that are read before the first one, such as footers, determine
/// where the next read goes.
pub fn check_reads(what: &str, medians: &[(Reading, InFlight)], reads_least: usize) {
    eprintln!("{what}: {medians:?}");
    let long: Vec<_> = medians
        .iter()
        .filter(|(reading, median)| median.is_long() && !reading.phase.is_empty())
        .collect();
    assert!(!long.is_empty(), "{what} reads nothing");
    for (reading, in_flight) in long {
        assert!(
            in_flight.reads >= reads_least,
            "{what}: {reading:?} has a median of {in_flight:?}: {medians:?}"
        );
    }
}
