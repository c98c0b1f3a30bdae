//! Measures drives: bandwidth, random reads by depth, alignment, and shared bandwidth limits.
//!
//! Contract: [`probe`] measures each drive alone, then all together, through the same [`Device`]
//! and [`Queue`](super::Queue) that jobs use. It uses a file of its own in a private directory,
//! which it removes in any case. Each step is bounded in time ([`ProbeOptions::step_seconds`]):
//!
//! | step | measurement | time |
//! |---|---|---|
//! | alignment | single transfers at 512-byte boundaries in the file, smaller ones in memory | |
//! | write | sequential 1 MiB blocks, 16 in flight, sync included | 1 step |
//! | read | the same for reads | 1 step |
//! | depth | the same reads with 1, 2, 4, 8 and 16 in flight | 5 x 1/4 step |
//! | random reads | 4 KiB at random offsets, with 1, 4, 16 and 64 in flight | 4 x 1/2 step |
//! | together | reads and writes of all drives at once | 2 steps |
//! | pairs | reads of two at once, only if together is less than the sum | 1/4 step per pair |
//!
//! Model: a drive alone is measured as in Kumar and Huang (Falcon, ATC 2017, Table 2). Drives that
//! together reach less than 85 % of their sum share a limit (controller, switch, disk).
//!
//! Bounds: [`ProbeOptions::file_bytes`] of space per drive, at most a quarter of the free space;
//! writes for two to four steps on each drive; 16 MiB of memory per drive. Directories on one file
//! system count as one drive, measured once.
//!
//! Limits: a file this small may fit in a drive's write cache, so that long writes are slower;
//! buffered reads come from the page cache. The report says so.

mod probed_drive;
mod report;

use std::sync::{Arc, Barrier};

use io_uring::IoUring;
use rustix::io::Errno;

pub use report::{DriveProbe, ProbeReport, Together};

use super::late::Engine;
use super::load::{Load, Moved};
use super::os::OsDevice;
use super::{BLOCK_BYTES, Device, Op};
use crate::config::{DriveSpec, IoMode};
use crate::error::{Error, Result};
use crate::threads;
use probed_drive::{ProbedDrive, large, small_reads};

/// Depth of sequential transfers.
const DEPTH_MAX: u32 = 16;
/// Depths at which sequential reads are measured.
const READ_DEPTHS: [u32; 5] = [1, 2, 4, 8, DEPTH_MAX];
/// Depths at which random reads are measured.
const RANDOM_DEPTHS: [u32; 4] = [1, 4, 16, 64];
/// A depth is deep enough if it reaches this share of the best rate.
const DEPTH_ENOUGH: f64 = 0.95;
/// Drives share a limit if together they reach less than this share of their sum.
const SHARED_BELOW: f64 = 0.85;
/// Alignments of offsets and lengths to try.
const ALIGNMENTS: [usize; 2] = [512, BLOCK_BYTES];
/// Alignments of memory to try.
const MEMORY_ALIGNMENTS: [usize; 4] = [4, 64, 512, BLOCK_BYTES];
const PROBE: &str = "probe drive";

/// How to measure, and the observer.
#[derive(Clone, Copy)]
pub struct ProbeOptions<'a> {
    /// Direct or buffered transfers.
    pub io: IoMode,
    /// Maximum size of the file on each drive.
    pub file_bytes: u64,
    /// Time of a step.
    pub step_seconds: f64,
    /// Called with a description of the current measurement.
    pub watch: Option<&'a (dyn Fn(&str) + Sync)>,
    /// Asked now and then whether to stop.
    pub is_cancelled: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl Default for ProbeOptions<'_> {
    fn default() -> Self {
        ProbeOptions {
            io: IoMode::Auto,
            file_bytes: 1 << 30,
            step_seconds: 1.0,
            watch: None,
            is_cancelled: None,
        }
    }
}

impl ProbeOptions<'_> {
    fn step_ns(&self, share: f64) -> u64 {
        (self.step_seconds * share * 1e9).max(1.0) as u64
    }

    fn say(&self, what: &str) {
        if let Some(watch) = self.watch {
            watch(what);
        }
    }

    fn check(&self) -> Result<()> {
        match self.is_cancelled {
            Some(is_cancelled) if is_cancelled() => Err(Error::interrupted()),
            _ => Ok(()),
        }
    }
}

/// Measures drives of the operating system. Other values of a spec are kept unless they are
/// measured.
///
/// # Errors
/// [`Kind::Usage`] without drives, [`Kind::NoSpace`] if there is too little room to measure,
/// [`Kind::Io`], [`Kind::Interrupted`]. No file remains in any of these cases.
pub fn probe(drives: &[DriveSpec], options: ProbeOptions<'_>) -> Result<ProbeReport> {
    let device = OsDevice::new(options.io);
    let features = match device.engine() {
        Engine::Uring => ring_features(),
        Engine::Psync => Vec::new(),
    };
    probe_on(
        &(Arc::new(device) as Arc<dyn Device>),
        &features,
        drives,
        options,
    )
}

/// Like [`probe`], but on any device; `features` are those that the device is known to have.
///
/// # Errors
/// As [`probe`].
pub(crate) fn probe_on(
    device: &Arc<dyn Device>,
    features: &[String],
    drives: &[DriveSpec],
    options: ProbeOptions<'_>,
) -> Result<ProbeReport> {
    if drives.is_empty() {
        return Err(Error::usage("probe drives", "no directory is given")
            .hint("name a directory on each drive"));
    }
    let started_ns = device.now_ns();
    let mut probes: Vec<DriveProbe> = Vec::new();
    let mut lanes: Vec<ProbedDrive> = Vec::new();
    for spec in drives {
        let file_system = device
            .file_system(&spec.dir)
            .map_err(|error| error.drive(&spec.name))?;
        if let Some(lane) = lanes.iter().find(|lane| lane.file_system == file_system) {
            probes.push(probes[lane.index].of_same_file_system(spec));
            continue;
        }
        let mut lane = ProbedDrive::open(device, spec, file_system, probes.len(), &options)
            .map_err(|error| error.drive(&spec.name))?;
        let alone = measure_alone(&mut lane, spec, features, &options);
        probes.push(alone.map_err(|error| error.drive(&spec.name))?);
        lanes.push(lane);
    }
    let mut report = ProbeReport::new(probes);
    // A file system in memory competes with the processor's own work, not with drives.
    lanes.retain(|lane| !lane.facts.is_in_memory);
    if lanes.len() > 1 {
        measure_together(&lanes, &mut report, &options)?;
    }
    report.group_twins();
    report.seconds = (device.now_ns() - started_ns) as f64 / 1e9;
    Ok(report)
}

/// The ring options that this kernel accepts. Polled completions are not among them: such a ring
/// can be created on drives whose first read then fails.
fn ring_features() -> Vec<String> {
    let mut features = vec!["io_uring".to_string()];
    let mut note = |name: &str, ring: std::io::Result<IoUring>| {
        if ring.is_ok() {
            features.push(name.to_string());
        }
    };
    note(
        "single-issuer",
        IoUring::builder().setup_single_issuer().build(2),
    );
    note(
        "coop-taskrun",
        IoUring::builder().setup_coop_taskrun().build(2),
    );
    let mut deferred = IoUring::builder();
    deferred.setup_single_issuer().setup_defer_taskrun();
    note("defer-taskrun", deferred.build(2));
    features
}

/// Every measurement of a single drive.
fn measure_alone(
    lane: &mut ProbedDrive,
    spec: &DriveSpec,
    features: &[String],
    options: &ProbeOptions<'_>,
) -> Result<DriveProbe> {
    let say = |what: &str| options.say(&format!("{}: {what}", spec.name));
    let mut probe = DriveProbe::new(spec, lane.facts.is_direct, lane.facts.is_in_memory);
    probe.spec.features = features.to_vec();
    if !lane.try_one(Op::Write, 0, BLOCK_BYTES, 0)? {
        return Err(lane.explain(Op::Write, 0, Errno::INVAL.raw_os_error()));
    }
    if lane.facts.is_direct {
        say("alignment");
        measure_alignment(lane, &mut probe.spec)?;
    }
    say("sequential writes");
    let written = lane.run(
        large(Op::Write, DEPTH_MAX, options.step_ns(1.0)),
        options,
        None,
    )?;
    lane.written_bytes = written.bytes.min(lane.file_bytes);
    probe.spec.write_bytes_per_s = Some(rounded(written.bytes_per_s()));
    probe.file_bytes = lane.written_bytes;
    say("sequential reads");
    let read = lane.run(
        large(Op::Read, DEPTH_MAX, options.step_ns(1.0)),
        options,
        None,
    )?;
    probe.spec.read_bytes_per_s = Some(rounded(read.bytes_per_s()));
    for depth in READ_DEPTHS {
        let read = lane.run(large(Op::Read, depth, options.step_ns(0.25)), options, None)?;
        probe
            .read_by_depth
            .push((depth, rounded(read.bytes_per_s())));
    }
    let best = probe.read_by_depth.iter().map(|(_, rate)| *rate).max();
    let enough = best.unwrap_or(0) as f64 * DEPTH_ENOUGH;
    let shallowest = probe
        .read_by_depth
        .iter()
        .find(|(_, rate)| *rate as f64 >= enough);
    probe.spec.depth = shallowest.map(|(depth, _)| *depth);
    say("random reads");
    for depth in RANDOM_DEPTHS {
        let read = lane.run(small_reads(depth, options.step_ns(0.5)), options, None)?;
        probe
            .iops_by_depth
            .push((depth, rounded(read.requests_per_s())));
    }
    probe.spec.read_iops = probe.iops_by_depth.iter().map(|(_, rate)| *rate).max();
    probe.add_notes();
    Ok(probe)
}

/// The smallest alignments that direct transfers accept.
fn measure_alignment(lane: &ProbedDrive, spec: &mut DriveSpec) -> Result<()> {
    let both = |offset_bytes: u64, len_bytes: usize, skew_bytes: usize| -> Result<bool> {
        Ok(
            lane.try_one(Op::Write, offset_bytes, len_bytes, skew_bytes)?
                && lane.try_one(Op::Read, offset_bytes, len_bytes, skew_bytes)?,
        )
    };
    spec.alignment_bytes = None;
    for bytes in ALIGNMENTS {
        if both(bytes as u64, bytes, 0)? {
            spec.alignment_bytes = Some(bytes as u64);
            break;
        }
    }
    spec.memory_alignment_bytes = None;
    for bytes in MEMORY_ALIGNMENTS {
        if both(0, BLOCK_BYTES, bytes % BLOCK_BYTES)? {
            spec.memory_alignment_bytes = Some(bytes as u64);
            break;
        }
    }
    Ok(())
}

/// Sums over drives that work at the same time.
fn at_once(lanes: &[&ProbedDrive], load: Load, options: &ProbeOptions<'_>) -> Result<f64> {
    let gate = Barrier::new(lanes.len());
    let run = |number: usize| lanes[number].run(load, options, Some(&gate));
    let moved = threads::together("outcore-probe", lanes.len(), run)?;
    let moved = moved.into_iter().collect::<Result<Vec<Moved>>>()?;
    Ok(moved.iter().map(Moved::bytes_per_s).sum())
}

/// Shared limits: all drives at once, then which of them slow each other down.
fn measure_together(
    lanes: &[ProbedDrive],
    report: &mut ProbeReport,
    options: &ProbeOptions<'_>,
) -> Result<()> {
    let all: Vec<&ProbedDrive> = lanes.iter().collect();
    let read = |lanes: &[&ProbedDrive], share: f64| {
        at_once(
            lanes,
            large(Op::Read, DEPTH_MAX, options.step_ns(share)),
            options,
        )
    };
    let write = |lanes: &[&ProbedDrive], share: f64| {
        at_once(
            lanes,
            large(Op::Write, DEPTH_MAX, options.step_ns(share)),
            options,
        )
    };
    options.say("all drives at once: reads");
    let read_bytes_per_s = read(&all, 1.0)?;
    options.say("all drives at once: writes");
    let write_bytes_per_s = write(&all, 1.0)?;
    let alone = |of: fn(&DriveSpec) -> Option<u64>| -> Vec<f64> {
        let specs = lanes.iter().map(|lane| &report.drives[lane.index].spec);
        specs.map(|spec| of(spec).unwrap_or(0) as f64).collect()
    };
    let reads_alone = alone(|spec| spec.read_bytes_per_s);
    let together = Together {
        read_bytes_per_s: rounded(read_bytes_per_s),
        write_bytes_per_s: rounded(write_bytes_per_s),
        read_share: read_bytes_per_s / reads_alone.iter().sum::<f64>(),
        write_share: write_bytes_per_s / alone(|spec| spec.write_bytes_per_s).iter().sum::<f64>(),
    };
    report.together = Some(together);
    if together.read_share >= SHARED_BELOW && together.write_share >= SHARED_BELOW {
        return Ok(());
    }
    options.say("pairs of drives");
    let is_shared = |first: usize, second: usize| -> Result<bool> {
        let rate = read(&[&lanes[first], &lanes[second]], 0.25)?;
        Ok(rate < SHARED_BELOW * (reads_alone[first] + reads_alone[second]))
    };
    let groups = report::find_groups(lanes.len(), is_shared)?;
    for members in groups {
        let is_all = members.len() == lanes.len();
        let chosen: Vec<&ProbedDrive> = members.iter().map(|member| &lanes[*member]).collect();
        let (read_rate, write_rate) = match is_all {
            true => (read_bytes_per_s, write_bytes_per_s),
            false => (read(&chosen, 0.5)?, write(&chosen, 0.5)?),
        };
        let indices: Vec<usize> = chosen.iter().map(|lane| lane.index).collect();
        report.add_group(&indices, rounded(read_rate), rounded(write_rate));
    }
    Ok(())
}

/// Three significant digits; more digits would suggest a precision that the measurement lacks.
fn rounded(rate: f64) -> u64 {
    let digits = rate.max(1.0).log10().floor() as i32;
    let unit = 10_f64.powi((digits - 2).max(0));
    ((rate / unit).round() * unit).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::config::DriveSet;
    use crate::drive::testing::{FaultDevice, RamDevice, RamOptions};
    use crate::error::Kind;

    fn quick() -> ProbeOptions<'static> {
        ProbeOptions {
            file_bytes: 8 << 20,
            step_seconds: 0.02,
            ..ProbeOptions::default()
        }
    }

    fn ram(capacity_bytes: u64) -> RamDevice {
        RamDevice::new(RamOptions {
            capacity_bytes,
            ..RamOptions::default()
        })
    }

    fn drives(names: &[&str]) -> Vec<DriveSpec> {
        DriveSet::from_arguments(names).unwrap().drives
    }

    #[test]
    fn a_modelled_drive_gets_the_figures_of_its_model() {
        let ram = ram(u64::MAX);
        let device: Arc<dyn Device> = Arc::new(ram.clone());
        let report = probe_on(&device, &[], &drives(&["/d0"]), quick()).unwrap();
        let found = &report.drives[0];
        // The model: 80 us plus up to 80 us of jitter, then 2 bytes per nanosecond, with any number
        // of requests at once.
        let at = |depth: u32| {
            let entry = found
                .iops_by_depth
                .iter()
                .find(|(known, _)| *known == depth);
            entry.unwrap().1 as f64
        };
        assert!((7000.0..9500.0).contains(&at(1)), "{found:?}");
        for depth in [4, 16, 64] {
            let ratio = at(depth) / at(1);
            let wanted = f64::from(depth);
            assert!(ratio > 0.7 * wanted && ratio < 1.3 * wanted, "{found:?}");
        }
        // A request of 1 MiB takes 524 us more.
        let alone = found.read_by_depth[0].1 as f64;
        assert!((1.5e9..1.75e9).contains(&alone), "{found:?}");
        assert_eq!(found.spec.depth, Some(16));
        assert!(found.spec.write_bytes_per_s.unwrap() > 10_000_000_000);
        assert_eq!(found.spec.alignment_bytes, Some(512));
        assert_eq!(found.spec.direct_io, Some(true));
        assert_eq!(report.together, None);
        assert_eq!(
            ram.list(),
            Vec::<PathBuf>::new(),
            "something was left behind"
        );
    }

    #[test]
    fn names_on_one_file_system_are_one_drive_and_others_are_measured_together() {
        let device: Arc<dyn Device> = Arc::new(ram(u64::MAX));
        let specs = drives(&["/d0/a", "/d1/b", "/d0/c"]);
        let said = Mutex::new(Vec::new());
        let watch = |what: &str| said.lock().unwrap().push(what.to_string());
        let options = ProbeOptions {
            watch: Some(&watch),
            ..quick()
        };
        let report = probe_on(&device, &["io_uring".into()], &specs, options).unwrap();
        let said = said.into_inner().unwrap();
        assert!(said.contains(&"b: random reads".to_string()), "{said:?}");
        assert!(!said.iter().any(|what| what.starts_with("c:")), "{said:?}");
        assert!(report.together.is_some());
        let [a, _, c] = &report.drives[..] else {
            unreachable!("three drives were named");
        };
        assert_eq!(c.spec.name, "c");
        assert_eq!(c.spec.dir, Path::new("/d0/c"));
        assert_eq!(c.spec.read_bytes_per_s, a.spec.read_bytes_per_s);
        assert!(c.notes[0].contains("`a`"), "{:?}", c.notes);
        assert_eq!(c.spec.features, ["io_uring"]);
    }

    #[test]
    fn a_directory_of_the_system_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let specs = drives(&[&dir.path().display().to_string()]);
        for io in [IoMode::Auto, IoMode::Buffered] {
            let options = ProbeOptions { io, ..quick() };
            let report = probe(&specs, options).unwrap();
            let spec = &report.drives[0].spec;
            assert!(spec.read_bytes_per_s.unwrap() > 0, "{report}");
            assert!(spec.read_iops.unwrap() > 0, "{report}");
            if io == IoMode::Buffered {
                assert_eq!(spec.direct_io, Some(false));
                assert_eq!(spec.alignment_bytes, None);
            }
            assert!(!report.drives[0].notes.is_empty());
            assert!(report.seconds > 0.0);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn too_little_room_no_drives_and_a_stop_are_named() {
        let device: Arc<dyn Device> = Arc::new(ram(8 << 20));
        let error = probe_on(&device, &[], &drives(&["/d0"]), quick()).unwrap_err();
        assert_eq!(error.kind(), Kind::NoSpace);
        assert_eq!(error.drive_name(), Some("d0"));
        let error = probe_on(&device, &[], &[], quick()).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        let missing = drives(&["/no/such/directory"]);
        assert_eq!(probe(&missing, quick()).unwrap_err().kind(), Kind::Io);
        let ram = ram(u64::MAX);
        let device: Arc<dyn Device> = Arc::new(ram.clone());
        let asked = AtomicU64::new(0);
        let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) > 20;
        let options = ProbeOptions {
            is_cancelled: Some(&is_cancelled),
            ..quick()
        };
        let error = probe_on(&device, &[], &drives(&["/d0"]), options).unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
        assert_eq!(ram.list(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_failing_drive_is_named_and_nothing_stays() {
        for plan in ["eio@1:write", "eio@40:read", "enospc@2:write", "eio@1:sync"] {
            let ram = ram(u64::MAX);
            let faulty = FaultDevice::new(Arc::new(ram.clone()), plan.parse().unwrap());
            let device: Arc<dyn Device> = Arc::new(faulty);
            let error = probe_on(&device, &[], &drives(&["/d0"]), quick()).unwrap_err();
            assert_eq!(error.drive_name(), Some("d0"), "{plan}: {error}");
            assert_eq!(ram.list(), Vec::<PathBuf>::new(), "{plan}");
        }
    }

    #[test]
    fn figures_have_three_digits() {
        for (rate, wanted) in [
            (1_234_567.0, 1_230_000),
            (999.6, 1000),
            (0.2, 1),
            (87.4, 87),
        ] {
            assert_eq!(rounded(rate), wanted);
        }
    }
}
