//! `outcore bench io`: measures drives, from single requests to the whole machine, in one report.
//!
//! Contract: [`run`] measures for about [`IoOptions::budget_s`] seconds, only reads unless writing
//! is allowed, and leaves nothing behind (see [`target`]). All I/O uses the engine's own drives and
//! volume. A rehearsal counts the steps first, so that the time is shared evenly.
//!
//! - block sizes, threads and depth: LLNL poster ("Threading Opportunities in High-Performance
//!   Flash-Memory Storage"): block transfers, peak and speed-up
//! - number of drives: PALID (SPAA 2025) Fig. 8a, 8b; Falcon (ATC 2017) Fig. 16, 18
//! - stripe sizes: Falcon Fig. 17
//! - buffered compared with direct, servers, mixes: Falcon Fig. 15, 19 (Filebench: fileserver,
//!   webserver, webproxy)
//! - distribution by number of buckets, with and without I/O: PALID's figure of the same
//! - one submitter: Falcon's 3.7 GB/s of 4 KiB on a null device
//! - each drive: Falcon Fig. 5, 9: latency and requests in flight per drive

mod bound;
mod distribution;
mod each;
mod field;
mod files;
mod mixes;
mod null;
pub(crate) mod striped;
mod sweeps;
pub(crate) mod target;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use outcore::IoMode;
use outcore::{Error, Result};
use outcore_io::drive::late::Engine;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::{Device, Op};
use outcore_io::units::{self, Unit};

use crate::watch::Watch;
use field::{Field, Measured, Shot};
use outcore_report::{Cell, Report, Section, Table};
use target::{Consent, Target, Whose};

/// Share of the time that filling files may take.
const LAY_OUT_SHARE: f64 = 0.25;
/// Share of the rest that is reserved for work that is not a step.
const SPARE_SHARE: f64 = 0.1;
/// Limit in seconds if the time is not shared.
const LAY_OUT_MAX_S: f64 = 3600.0;
const STEP_MIN_S: f64 = 0.05;
const STEP_MAX_S: f64 = 10.0;

/// Options of the measurement.
#[derive(Debug, Clone)]
pub struct IoOptions {
    /// Directories, block devices, files, drives files.
    pub targets: Vec<PathBuf>,
    /// Whether the measurement may write data.
    pub is_write_ok: bool,
    /// Approximate time in seconds.
    pub budget_s: f64,
    /// All block sizes, depths and numbers of threads instead of a selection.
    pub is_full: bool,
    /// Largest size of the file on each drive.
    pub file_bytes: u64,
    /// Direct or buffered.
    pub io: IoMode,
    /// Measure only these loads.
    pub loads: Vec<NamedLoad>,
}

impl Default for IoOptions {
    fn default() -> Self {
        IoOptions {
            targets: Vec::new(),
            is_write_ok: false,
            budget_s: 60.0,
            is_full: false,
            file_bytes: 1 << 30,
            io: IoMode::Auto,
            loads: Vec::new(),
        }
    }
}

/// A load in the user's notation: `randread:4KiB:32` or `write:1MiB:8:2`.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedLoad {
    text: String,
    shot: Shot,
}

impl FromStr for NamedLoad {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |cause: String| {
            Error::usage("read load", cause).hint(
                "write PATTERN:BLOCK:DEPTH[:THREADS], as in randread:4KiB:32 or write:1MiB:8:2",
            )
        };
        let parts: Vec<&str> = text.split(':').collect();
        let (&[pattern, block, depth], threads) = parts
            .split_first_chunk::<3>()
            .map(|(head, rest)| (head, rest.first().copied().unwrap_or("1")))
            .filter(|_| parts.len() <= 4)
            .ok_or_else(|| wrong(format!("`{text}` does not have three or four parts")))?;
        let (op, is_random) = match pattern {
            "read" => (Op::Read, false),
            "write" => (Op::Write, false),
            "randread" => (Op::Read, true),
            "randwrite" => (Op::Write, true),
            other => {
                return Err(wrong(format!(
                    "`{other}` is not one of read, write, randread, randwrite"
                )));
            }
        };
        let block_bytes = units::parse_bytes(block)?;
        if !(512..=64 << 20).contains(&block_bytes) || !block_bytes.is_multiple_of(512) {
            return Err(wrong(format!(
                "`{block}` is not a multiple of 512 up to 64MiB"
            )));
        }
        let number = |text: &str, max: u32| {
            let number = text.parse::<u32>().ok().filter(|n| (1..=max).contains(n));
            number.ok_or_else(|| wrong(format!("`{text}` is not a number from 1 to {max}")))
        };
        let mut shot = Shot::new(op, is_random, block_bytes, number(depth, 4096)?, 0);
        shot.threads = number(threads, 1024)?;
        Ok(NamedLoad {
            text: text.to_owned(),
            shot,
        })
    }
}

/// Runs the measurement.
///
/// # Errors
/// Usage (a target that must not be measured), no space, errors of the drives, interrupted. Nothing
/// is left behind.
pub fn run(options: &IoOptions, watch: Watch<'_>) -> Result<Report> {
    let started = Instant::now();
    let os = OsDevice::new(options.io);
    let engine = os.engine();
    let device: Arc<dyn Device> = Arc::new(os);
    let consent = match options.is_write_ok {
        true => Consent::WriteOk,
        false => Consent::ReadOnly,
    };
    watch.say("open the drives");
    let mut targets = target::open_all(&device, &options.targets, options.file_bytes, consent)?;
    watch.say("lay out files to read");
    let limit_s = match options.loads.is_empty() {
        true => options.budget_s * LAY_OUT_SHARE,
        // The full requested size, because a smaller file may be faster.
        false => LAY_OUT_MAX_S,
    };
    let spans = Field::new(&device, &targets, watch).lay_out(limit_s, 1 << 20)?;
    for (target, span_bytes) in targets.iter_mut().zip(spans) {
        target.place.span_bytes = span_bytes;
    }
    let field = Field::new(&device, &targets, watch);
    let mut report = Report::new("bench io", title(&targets));
    describe(&mut report, options, &targets, engine);
    if options.loads.is_empty() {
        sections(options, &field, &device, &mut Report::new("", ""))?;
        field.begin(step_s(options, &field, started));
        report.option("time of a step", units::seconds(field.step_s()));
        sections(options, &field, &device, &mut report)?;
    } else {
        let steps = options.loads.len() as f64;
        field.begin((options.budget_s / steps).max(STEP_MIN_S));
        report.option("time of a step", units::seconds(field.step_s()));
        report.section(named_loads(options, &field)?);
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

fn step_s(options: &IoOptions, field: &Field<'_>, started: Instant) -> f64 {
    let left_s = options.budget_s - started.elapsed().as_secs_f64();
    let step_s = left_s * (1.0 - SPARE_SHARE) / f64::from(field.steps().max(1));
    step_s.clamp(STEP_MIN_S, STEP_MAX_S)
}

/// Runs all sections in order: once in rehearsal and once measured.
fn sections(
    options: &IoOptions,
    field: &Field<'_>,
    device: &Arc<dyn Device>,
    report: &mut Report,
) -> Result<()> {
    let sweep = sweeps::Sweep::new(options, field);
    let depths = sweep.threads_and_depths()?;
    let blocks = sweep.block_sizes()?;
    let matrix = sweep.matrix()?;
    let drives = sweep.numbers_of_drives()?;
    let stripes = striped::stripes(options, field, device)?;
    let buffered = mixes::buffered_beside_direct(options, field)?;
    let mixes = mixes::filebench(options, field)?;
    let servers = files::servers(options, field)?;
    let distribution = distribution::by_buckets(options, field, device)?;
    let null = null::one_submitter(field)?;
    let (each, alarms) = each::each_drive(field, device)?;
    let limits = bound::Limits::measure(field)?;
    if field.is_rehearsal() {
        return Ok(());
    }
    let findings = sweep.into_findings();
    bound::conclude(&findings, &limits, field, report);
    report.verdict.extend(alarms);
    for section in [
        blocks,
        matrix,
        depths,
        drives,
        stripes,
        each,
        distribution,
        buffered,
        servers,
        mixes,
        null,
    ] {
        report.section(section);
    }
    report.section(limits.section(field));
    Ok(())
}

fn title(targets: &[Target]) -> String {
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    match names.len() {
        0..=3 => format!("The rates of {}", names.join(", ")),
        count => format!("The rates of {count} drives"),
    }
}

fn describe(report: &mut Report, options: &IoOptions, targets: &[Target], engine: Engine) {
    report.option(
        "engine",
        match engine {
            Engine::Uring => "io_uring",
            Engine::Psync => "pread and pwrite in threads",
        },
    );
    report.option(
        "writes",
        match options.is_write_ok {
            true => "allowed",
            false => "none but the files to read (--write-ok measures writes)",
        },
    );
    report.option("time", units::seconds(options.budget_s));
    for target in targets {
        let what = match target.whose {
            Whose::Own => "own file in",
            Whose::File => "file",
            Whose::BlockDevice => "device",
        };
        let mode = match (target.facts.is_in_memory, target.facts.is_direct) {
            (true, _) => "in memory",
            (_, true) => "direct",
            _ => "buffered",
        };
        report.option(
            &target.name,
            format!(
                "{what} {}, {} measured, {mode}",
                target.named.display(),
                units::bytes(target.place.span_bytes)
            ),
        );
    }
    if targets.iter().any(|target| target.facts.is_in_memory) {
        report.verdict.push(
            "Some targets are in memory (tmpfs): their figures say nothing about drives."
                .to_owned(),
        );
    }
    if let Some(shared) = on_one_drive(targets) {
        report.verdict.push(shared);
    }
    let is_buffered = |t: &Target| !t.facts.is_direct && !t.facts.is_in_memory;
    if targets.iter().any(is_buffered) {
        report.verdict.push(
            "Some targets are read through the page cache, so their figures are those of memory."
                .to_owned(),
        );
    }
}

/// A sentence about the first targets that are on the same file system, if there are any, because
/// they are not separate drives.
fn on_one_drive(targets: &[Target]) -> Option<String> {
    let are_together = |one: &Target, other: &Target| {
        one.whose != Whose::BlockDevice && one.facts.file_system == other.facts.file_system
    };
    targets.iter().find_map(|first| {
        let together = targets.iter().filter(|target| are_together(first, target));
        let names: Vec<&str> = together.map(|target| target.name.as_str()).collect();
        (names.len() > 1).then(|| {
            format!(
                "{} are on one file system: they share a drive, and cannot scale like separate \
                 drives.",
                names.join(", ")
            )
        })
    })
}

/// Fills the files of our own among `targets` without a time limit. Returns how much may be read of
/// each.
///
/// # Errors
/// Errors of the drives, interrupted.
pub(crate) fn lay_out(
    device: &Arc<dyn Device>,
    targets: &[Target],
    watch: Watch<'_>,
) -> Result<Vec<u64>> {
    Field::new(device, targets, watch).lay_out(LAY_OUT_MAX_S, 1 << 20)
}

/// Only the loads that the user asked for.
fn named_loads(options: &IoOptions, field: &Field<'_>) -> Result<Section> {
    let mut section = Section::new(
        "loads",
        "Loads",
        "The loads of --load, on all drives together.",
    );
    let mut table = Table::new("loads", "Each load", &LOAD_COLUMNS);
    for load in &options.loads {
        let mut shot = load.shot;
        shot.drives = field.targets.len();
        if shot.read_share < 1.0 && !field.targets.iter().all(|target| target.is_writable) {
            return Err(
                Error::usage("measure writes", "not all targets may be written to")
                    .hint("--write-ok allows it, in directories and on empty devices"),
            );
        }
        field.watch().say(&load.text);
        table.row(load_row(&load.text, field.measure(shot)?.as_ref()));
    }
    section.tables.push(table);
    Ok(section)
}

const LOAD_COLUMNS: [(&str, Unit); 9] = [
    ("load", Unit::Count),
    ("rate", Unit::BytesPerS),
    ("IOPS", Unit::Iops),
    ("mean", Unit::Seconds),
    ("p50", Unit::Seconds),
    ("p99", Unit::Seconds),
    ("p99.9", Unit::Seconds),
    ("CPU us/request", Unit::Count),
    ("CPU", Unit::Share),
];

fn load_row(name: &str, measured: Option<&Measured>) -> Vec<Cell> {
    let Some(measured) = measured else {
        let mut row = vec![Cell::from(name)];
        row.resize(LOAD_COLUMNS.len(), Cell::None);
        return row;
    };
    let requests = measured.moved.requests.max(1) as f64;
    let sum: f64 = measured
        .lanes
        .iter()
        .map(|lane| lane.latency_ns.mean() * lane.requests as f64)
        .sum();
    vec![
        Cell::from(name),
        measured.moved.bytes_per_s().into(),
        measured.moved.requests_per_s().into(),
        (sum / requests / 1e9).into(),
        measured.latency_s(0.5).into(),
        measured.latency_s(0.99).into(),
        measured.latency_s(0.999).into(),
        measured.cpu_us_per_request().into(),
        measured.cpu_share().into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore::Kind;

    fn quick(dir: &std::path::Path) -> IoOptions {
        IoOptions {
            targets: vec![dir.to_path_buf()],
            budget_s: 0.5,
            file_bytes: 8 << 20,
            ..IoOptions::default()
        }
    }

    #[test]
    fn loads_are_read_and_nonsense_is_refused() {
        let load: NamedLoad = "randwrite:8KiB:16:2".parse().unwrap();
        let shot = load.shot;
        assert_eq!((shot.block_bytes, shot.depth, shot.threads), (8192, 16, 2));
        assert!(shot.is_random && shot.read_share == 0.0);
        for text in [
            "",
            "read",
            "read:4KiB",
            "read:4KiB:0",
            "read:5:1",
            "fly:4KiB:1",
            "read:4KiB:1:1:1",
        ] {
            assert!(text.parse::<NamedLoad>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_whole_run_has_every_section_and_leaves_the_directory_empty() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = quick(dir.path());
        options.is_write_ok = true;
        let second = tempfile::tempdir_in(dir.path()).unwrap();
        options.targets.push(second.path().to_path_buf());
        let report = run(&options, Watch::none()).unwrap();
        let ids: Vec<&str> = report.sections.iter().map(|s| s.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "blocks",
                "matrix",
                "depths",
                "drives",
                "stripes",
                "each",
                "distribution",
                "buffered",
                "servers",
                "mixes",
                "null",
                "limits"
            ]
        );
        let matrix = &report.sections[1];
        // Four patterns with two numbers of threads, by three block sizes, in one chart.
        assert_eq!(matrix.charts.len(), 1);
        let lines = &matrix.charts[0].series;
        assert_eq!((lines.len(), matrix.tables[0].rows.len()), (8, 8));
        assert!(lines.iter().all(|line| line.points.len() == 3));
        assert!(!report.headlines.is_empty());
        let shared = report
            .verdict
            .iter()
            .filter(|line| line.contains("share a drive"));
        assert_eq!(shared.count(), 1, "{:?}", report.verdict);
        drop(second);
        assert!(report.to_html().unwrap().contains("<svg"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn without_consent_nothing_is_written_but_the_file_to_read() {
        let dir = tempfile::tempdir().unwrap();
        let report = run(&quick(dir.path()), Watch::none()).unwrap();
        let text = report.to_text();
        assert!(
            !text.contains("random write") && text.contains("random read"),
            "{text}"
        );
        let mut options = quick(dir.path());
        options.loads.push("write:64KiB:4".parse().unwrap());
        let error = run(&options, Watch::none()).unwrap_err();
        assert!(error.to_string().contains("--write-ok"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn who_stops_it_finds_nothing_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let asked = std::sync::atomic::AtomicU32::new(0);
        let watch = Watch {
            say: &|_| (),
            is_cancelled: &|| asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 40,
        };
        let error = run(&quick(dir.path()), watch).unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
