//! Replays of every kind of trace on files in a directory, with the counts that the trace has.
//!
//! Traces of other projects are in `../shared/reference/block-traces` next to the repository. If
//! that folder is missing, those tests say so and pass. All other traces are written here.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};

use outcore::Kind;
use outcore_bench::Watch;
use outcore_bench::replay::{FitTo, ReplayOptions, Speed, run, summary};
use outcore_report::Report;

fn sample(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference");
    let path = root.join("block-traces").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("SKIP: {} is not here", path.display());
    None
}

/// A table's value by the first cell of its row.
fn count(report: &Report, table: &str, row: &str) -> f64 {
    let tables = report.sections.iter().flat_map(|section| &section.tables);
    let json = serde_json::json!(tables.filter(|t| t.id == table).collect::<Vec<_>>());
    let rows = json[0]["rows"].as_array().unwrap();
    let found = rows.iter().find(|cells| cells[0] == row).unwrap();
    found[1].as_f64().unwrap()
}

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Home(tempfile::tempdir().unwrap())
    }

    fn write(&self, text: &str) -> PathBuf {
        let path = self.0.path().join("trace");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Options for two drives, which are directories next to the trace.
    fn options(&self, trace: PathBuf) -> ReplayOptions {
        let dirs = ["a", "b"].map(|name| self.0.path().join(name));
        dirs.iter()
            .for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        ReplayOptions {
            trace,
            targets: dirs.to_vec(),
            file_bytes: 16 << 20,
            ..ReplayOptions::default()
        }
    }

    fn is_clean(&self) -> bool {
        let of = |name: &str| std::fs::read_dir(self.0.path().join(name)).unwrap().count();
        of("a") + of("b") == 0
    }
}

#[test]
fn the_cloudphysics_head_replays_with_its_8000_requests() {
    let Some(trace) = sample("cloudphysics-head.csv") else {
        return;
    };
    let home = Home::new();
    for (fit, depth) in [(FitTo::Wrap, None), (FitTo::Scale, Some(4))] {
        let mut options = home.options(trace.clone());
        (options.fit, options.depth) = (fit, depth);
        let report = run(&options, Watch::none()).unwrap();
        assert_eq!(count(&report, "changes", "taken from the trace"), 8000.0);
        let (reads, writes) = (
            count(&report, "requests", "reads"),
            count(&report, "requests", "writes"),
        );
        let given = count(&report, "changes", "given to the drives");
        assert_eq!(reads + writes, given);
        // A request longer than 512 KiB becomes several.
        assert!(
            reads >= 460.0 && writes >= 7540.0 && given >= 8000.0,
            "{reads} {writes}"
        );
        let widened = count(&report, "changes", "writes widened to 4 KiB, read first");
        assert!(widened > 0.0);
        assert!(count(&report, "changes", "reads of widened writes") >= widened);
        assert!(home.is_clean());
    }
}

#[test]
fn the_fio_log_replays_with_its_writes_and_its_trims() {
    let Some(trace) = sample("fio-t0038.iolog") else {
        return;
    };
    let home = Home::new();
    let options = home.options(trace);
    let found = summary(&options).unwrap();
    assert_eq!((found.requests, found.writes, found.trims), (20, 10, 10));
    let report = run(&options, Watch::none()).unwrap();
    let refused = count(&report, "changes", "trims that the drives do not take");
    if refused > 0.0 {
        println!(
            "SKIP: the file system of {} knows no holes",
            home.0.path().display()
        );
    } else {
        assert_eq!(count(&report, "requests", "trims"), 10.0);
    }
    // Requests of 2 GiB are cut to the volume.
    assert!(count(&report, "changes", "cut to the volume") > 0.0);
    assert!(home.is_clean());
}

const SPC: &str =
    "0,303568,3584,w,0.0\n0,damaged\n0,55590,512,r,0.026\n0,8,8192,R,0.05\n0,16,0,w,0.06\n";

#[test]
fn corrupt_lines_are_skipped_counted_and_shown_or_end_it() {
    let home = Home::new();
    let mut options = home.options(home.write(SPC));
    let report = run(&options, Watch::none()).unwrap();
    assert_eq!(count(&report, "changes", "taken from the trace"), 4.0);
    assert_eq!(count(&report, "changes", "dropped as empty"), 1.0);
    assert_eq!(count(&report, "requests", "reads"), 2.0);
    let text = report.to_text();
    assert!(
        text.contains("skipped: ") && text.contains("damaged"),
        "{text}"
    );
    options.on_error = outcore_traces::OnError::Fail;
    let error = run(&options, Watch::none()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(home.is_clean());
}

#[test]
fn flushes_are_made_and_counted_in_both_loops() {
    let home = Home::new();
    let mut text = "fio version 2 iolog\n/dev/x add\n/dev/x open\n".to_owned();
    for at in 0..40 {
        text += &format!("/dev/x write {} 8192\n", at * 8192);
        if at % 4 == 3 {
            text += "/dev/x sync 0 0\n";
        }
    }
    let mut options = home.options(home.write(&text));
    for speed in [Speed::Max, Speed::Times(1.0)] {
        options.speed = speed;
        let report = run(&options, Watch::none()).unwrap();
        assert_eq!(count(&report, "requests", "writes"), 40.0);
        assert_eq!(count(&report, "requests", "flushes"), 10.0);
        assert_eq!(count(&report, "changes", "given to the drives"), 50.0);
        assert!(home.is_clean());
    }
}

#[test]
fn a_timed_replay_takes_the_time_of_the_trace_over_its_speed() {
    let home = Home::new();
    let lines: String = (0..50)
        .map(|at| format!("0,{},4096,r,{}\n", at * 8, f64::from(at) * 0.02))
        .collect();
    let mut options = home.options(home.write(&lines));
    options.speed = Speed::Times(4.0);
    let report = run(&options, Watch::none()).unwrap();
    assert_eq!(count(&report, "requests", "reads"), 50.0);
    // 49 steps of 20 ms at four times the speed; any additional time depends on the machine.
    let headline = report
        .headlines
        .iter()
        .find(|headline| headline.name == "requests");
    let seconds = 50.0 / headline.unwrap().value;
    assert!(seconds >= 0.245, "{seconds}");
}

#[test]
fn what_outcore_recorded_itself_replays_with_its_dependencies() {
    use outcore_traces::io_trace::{DriveInfo, Header, IoOp, Record, ThreadClock, Writer};
    let home = Home::new();
    let path = home.0.path().join("own");
    let drives = vec![DriveInfo {
        name: "d0".into(),
        ..DriveInfo::default()
    }];
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = Writer::new(file, &Header::new("test", drives)).unwrap();
    let mut clock = ThreadClock::default();
    let mut now_ns = 0;
    for at in 0..40_u64 {
        let op = if at % 4 == 3 { IoOp::Write } else { IoOp::Read };
        let submission = clock.submitted(now_ns);
        clock.blocked(now_ns, now_ns + 100_000);
        now_ns += 100_000;
        clock.reaped(now_ns);
        let record = Record {
            offset_bytes: at << 20,
            len_bytes: 1 << 20,
            ..submission.record(0, 0, (at % 2) as u32, op, now_ns)
        };
        writer.request(&record).unwrap();
        now_ns += 50_000;
    }
    writer.thread_end(0, &clock, now_ns).unwrap();
    writer.finish(now_ns).unwrap();
    for speed in [Speed::Max, Speed::Times(10.0)] {
        let mut options = home.options(path.clone());
        options.speed = speed;
        let report = run(&options, Watch::none()).unwrap();
        assert_eq!(count(&report, "changes", "taken from the trace"), 40.0);
        // Each request consists of two of 512 KiB.
        assert_eq!(count(&report, "requests", "reads"), 60.0);
        assert_eq!(count(&report, "requests", "writes"), 20.0);
        assert!(home.is_clean());
    }
}

#[test]
fn a_file_that_is_there_is_never_written_to_and_nonsense_is_refused() {
    let home = Home::new();
    let trace = home.write(SPC);
    let theirs = home.0.path().join("theirs");
    std::fs::write(&theirs, vec![7; 8 << 20]).unwrap();
    let mut options = home.options(trace);
    options.targets = vec![theirs.clone()];
    assert_eq!(
        run(&options, Watch::none()).unwrap_err().kind(),
        Kind::Usage
    );
    assert_eq!(std::fs::read(&theirs).unwrap(), vec![7; 8 << 20]);
    options.stripe_bytes = 1000;
    assert_eq!(
        run(&options, Watch::none()).unwrap_err().kind(),
        Kind::Usage
    );
    for text in ["", "0", "-1", "fast", "inf"] {
        assert!(text.parse::<Speed>().is_err(), "{text}");
    }
}
