//! Reads in flight, weighed by the virtual clock of in-memory drives.
//!
//! Contract: jobs run on one thread over in-memory drives, whose clock passes only while somebody
//! waits. For each phase, and apart for its inputs and for scratch, the reads in flight are weighed
//! by the time for which they were. The median over the time in which there were any is at least
//! [`DEPTH_LEAST`] reads, or at least [`BYTES_LEAST`] bytes: what keeps a drive busy is the number
//! of bytes in flight on it (its rate times its latency), and plans make reads long where memory
//! allows it, of up to 4 MiB, since a long read costs less of the processor than many short ones. A
//! plan with little memory has short reads, and then their number counts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use outcore::job::{Control, Job, JobOptions, ScratchDrive};
use outcore_io::drive::testing::{RamDevice, RamOptions};
use outcore_io::drive::{Device, Op};

use super::devices::{HookDevice, is_scratch};

/// The least median of reads in flight.
pub const DEPTH_LEAST: usize = 8;
/// The least median of bytes in flight where there are fewer reads: 256 KiB on each drive, which is
/// what a drive of 2.5 GB/s moves in 100 us.
const BYTES_LEAST: usize = DRIVES * (256 << 10);
/// What is waited for for less is over before a window fills, or comes long before it is wanted.
const NS_LEAST: u64 = 2_000_000;
pub const DRIVES: usize = 4;

/// What is read of in a phase.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    pub phase: String,
    pub is_scratch: bool,
}

/// Nanoseconds at each value of something that changes.
type Times = BTreeMap<usize, u64>;

/// For how long how many reads, and bytes of reads, were in flight.
#[derive(Default)]
struct Depths {
    now_ns: u64,
    /// Reads and their bytes: of inputs, and of scratch.
    in_flight: [(usize, usize); 2],
    times: BTreeMap<Reading, (Times, Times)>,
}

/// What was in flight in a phase for half of the time or longer.
#[derive(Debug, Clone)]
pub struct InFlight {
    reads: usize,
    bytes: usize,
    /// For how long there were any.
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
    /// A transfer begins, or ends, now. Time that the end of a write ends was spent waiting for
    /// that, while reads that had come stood ready.
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

/// Runs `work` on a job of one thread with this much memory, whose drives `ram` has; returns the
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

/// Checks each phase that is waited for for a while, and that these were among all.
pub fn check(what: &str, medians: &[(Reading, InFlight)], phases: &[(&str, bool)]) {
    check_for(what, medians, phases, DEPTH_LEAST);
}

/// The same for another depth, where a job has too little memory for more.
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

/// Checks that every phase that reads for a while has a median of this many reads in flight, and
/// that there are such phases. What is read before the first one, such as footers, says where the
/// next read goes.
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
