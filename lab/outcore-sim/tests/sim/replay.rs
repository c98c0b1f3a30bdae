//! Replays: a real sort recorded through the engine, chains whose time is known, and block traces.
//!
//! Contract: expected times are computed by hand or follow from another run. Tests that compare
//! digests run every replay twice. The fixtures are those of `outcore-traces`.
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::record::RecordFormat;
use outcore::sort::{SortOptions, sort};
use outcore::{Input, Output};
use outcore_io::drive::recording::{RecordingDevice, TraceAbout};
use outcore_io::drive::testing::{RamDevice, RamOptions};
use outcore_sim::array::block::{BlockOptions, Loop, load_list, replay_block};
use outcore_sim::array::file::{FileOptions, replay_file};
use outcore_sim::array::recorded::{RecordedOptions, replay_recorded};
use outcore_sim::array::{ArrayConfig, Placement};
use outcore_sim::config::DriveConfig;
use outcore_sim::fit::Fit;
use outcore_sim::plan::cpu::recorded;
use outcore_sim::presets::preset;
use outcore_traces::io_trace::{DriveInfo, Header, IoOp, Submission, ThreadClock, Writer};

/// A drive of 4 GiB, which is built quickly.
fn drive() -> DriveConfig {
    preset("p41").unwrap().sized(4 << 30).unwrap()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("outcore-sim-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sorts 24 MiB of random keys with 12 MiB of memory on a drive in memory, and records it.
fn record_a_sort(trace: &Path) -> u64 {
    let ram = RamDevice::new(RamOptions::default());
    let mut bytes = Vec::new();
    let mut key = 1u64;
    for _ in 0..3 << 20 {
        key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&key.to_le_bytes());
    }
    ram.put("/d0/in", bytes);
    let about = TraceAbout {
        program: "test".into(),
        ..TraceAbout::default()
    };
    let device = Arc::new(RecordingDevice::create(Arc::new(ram), trace, about, true).unwrap());
    let dir = PathBuf::from("/d0");
    let options = JobOptions {
        memory_bytes: 12 << 20,
        threads: 1,
        drives: vec![ScratchDrive {
            name: "d0".into(),
            dir: dir.clone(),
            weight: 1.0,
            limit_bytes: u64::MAX,
        }],
        seed: 3,
        ..JobOptions::default()
    };
    let job = Job::on(options, Arc::clone(&device) as _);
    let output = Output::File {
        path: dir.join("out"),
        header: None,
    };
    let format = RecordFormat::parse_type("u64").unwrap();
    let inputs = [Input::raw(dir.join("in"))];
    sort(&job, &inputs, output, &format, SortOptions::default()).unwrap();
    device.finish().unwrap().requests
}

#[test]
fn a_recorded_sort_replays_whole_and_the_same_every_time() {
    let folder = Folder::new("sort");
    let trace = folder.0.join("run.trace");
    let requests = record_a_sort(&trace);
    let options = RecordedOptions {
        cpu_scale: 0.0,
        ..RecordedOptions::default()
    };
    let mut config = ArrayConfig::new(drive(), 1);
    config.placement = Placement::Recorded;
    let one = replay_recorded(&config, &trace, options).unwrap();
    assert_eq!(one.requests, requests);
    // Two passes: everything is read twice and written twice, except for the part that stays in
    // memory.
    let data = 24u64 << 20;
    assert!(
        one.read_bytes > data && one.read_bytes < 3 * data,
        "{}",
        one.read_bytes
    );
    assert!(
        one.write_bytes > data && one.write_bytes < 3 * data,
        "{}",
        one.write_bytes
    );
    assert!(one.warnings.is_empty(), "{:?}", one.warnings);
    let again = replay_recorded(&config, &trace, options).unwrap();
    assert_eq!(one.digest, again.digest);
    assert_eq!(one.seconds.to_bits(), again.seconds.to_bits());
}

#[test]
fn more_drives_and_wider_windows_shorten_a_job_without_computation() {
    let folder = Folder::new("wide");
    let trace = folder.0.join("run.trace");
    record_a_sort(&trace);
    let mut slow = drive();
    // The link is the bottleneck: 8 lanes of 12.5 MB/s.
    slow.host.pcie_lanes = 8;
    slow.host.pcie_lane_rate.0 = 12_500_000;
    let time = |drives: u32, window_scale: f64| {
        let config = ArrayConfig::new(slow.clone(), drives);
        let options = RecordedOptions {
            window_scale,
            cpu_scale: 0.0,
        };
        replay_recorded(&config, &trace, options).unwrap().seconds
    };
    let (one, four) = (time(1, 1.0), time(4, 4.0));
    assert!(one / four > 2.0 && one / four < 4.2, "{one} {four}");
    assert!(time(4, 1.0) >= four * 0.99);
}

#[test]
fn inputs_and_outputs_that_stay_whole_load_one_drive_and_bound_the_job() {
    let folder = Folder::new("whole");
    let trace = folder.0.join("run.trace");
    record_a_sort(&trace);
    let mut slow = drive();
    slow.host.pcie_lanes = 8;
    slow.host.pcie_lane_rate.0 = 12_500_000;
    let play = |stripe: &str| {
        let options = FileOptions {
            drives: Some(4),
            stripe: stripe.parse().unwrap(),
            ..FileOptions::default()
        };
        replay_file(&trace, slow.clone(), &options).unwrap()
    };
    let (whole, striped) = (play("none"), play("auto"));
    let data = 24u64 << 20;
    let scratch: u64 = whole.drives[1..].iter().map(|drive| drive.bytes).sum();
    assert!(whole.drives[1..].iter().all(|drive| drive.bytes < data));
    // The input and the output, and a quarter of the scratch.
    let expected = 2 * data + scratch / 3;
    assert!(
        whole.drives[0].bytes.abs_diff(expected) < data / 4,
        "{:?}",
        whole.drives
    );
    assert!(whole.seconds > 1.5 * striped.seconds);
    // The link moves 100 MB/s, so computation cannot be the limit of either.
    assert!(
        whole.bottleneck.starts_with("drives"),
        "{}",
        whole.bottleneck
    );
    assert!(whole.idle_seconds < 0.2 * whole.seconds);
}

/// A trace of one thread that makes `count` reads of 4 KiB with `window` in flight and computes
/// `think_ns` before each.
fn chain(path: &Path, count: u64, window: u64, think_ns: u64) {
    let drives = vec![DriveInfo {
        name: "d0".into(),
        ..DriveInfo::default()
    }];
    let mut writer = Writer::new(Vec::new(), &Header::new("test", drives)).unwrap();
    let mut clock = ThreadClock::default();
    let latency_ns = 10_000;
    let mut now_ns = 0u64;
    let mut waiting: VecDeque<(u64, u64, Submission)> = VecDeque::new();
    for number in 0..count + window {
        if number >= count || waiting.len() as u64 == window {
            let Some((done_ns, at, submission)) = waiting.pop_front() else {
                break;
            };
            if done_ns > now_ns {
                clock.blocked(now_ns, done_ns);
                now_ns = done_ns;
            }
            clock.reaped(now_ns);
            let mut record = submission.record(0, 0, 0, IoOp::Read, now_ns);
            record.offset_bytes = at * 4096;
            record.len_bytes = 4096;
            writer.request(&record).unwrap();
        }
        if number < count {
            now_ns += think_ns;
            waiting.push_back((now_ns + latency_ns, number, clock.submitted(now_ns)));
        }
    }
    std::fs::write(path, writer.finish(now_ns).unwrap()).unwrap();
}

#[test]
fn a_chain_takes_the_sum_of_its_thoughts_and_reads() {
    let folder = Folder::new("chain");
    let trace = folder.0.join("run.trace");
    chain(&trace, 200, 1, 1_000_000);
    let config = ArrayConfig::new(drive(), 1);
    let play = |cpu_scale: f64| {
        let options = RecordedOptions {
            cpu_scale,
            ..RecordedOptions::default()
        };
        replay_recorded(&config, &trace, options).unwrap()
    };
    let idle = play(0.0);
    let busy = play(1.0);
    let read_s = idle.seconds / 200.0;
    assert!(read_s > 40e-6 && read_s < 70e-6, "a read takes {read_s}");
    assert!(
        (busy.seconds - idle.seconds - 0.2).abs() < 1e-3,
        "{}",
        busy.seconds
    );
    assert_eq!(busy.bottleneck, "computation between requests");
    assert_eq!(busy.requests, 200);
    assert!((busy.computation_seconds - 0.2).abs() < 1e-9);
    assert_eq!(idle.computation_seconds, 0.0);
}

#[test]
fn the_computation_of_a_plan_is_that_of_the_recorded_job() {
    let folder = Folder::new("plan");
    let trace = folder.0.join("run.trace");
    chain(&trace, 100, 1, 50_000);
    // 100 reads of 4 KiB with 50 us each: 512 records of 8 bytes per read.
    let cost = recorded(&trace, 8).unwrap();
    let ns = cost.sort_ns;
    assert_eq!(ns, cost.distribute_ns);
    assert!((ns - 50_000.0 / 512.0).abs() < 1.0, "{ns}");
    assert!(recorded(&fixture("small.spc"), 8).is_err());
}

#[test]
fn a_wider_window_hides_latency() {
    let folder = Folder::new("window");
    let trace = folder.0.join("run.trace");
    chain(&trace, 2000, 2, 0);
    let config = ArrayConfig::new(drive(), 1);
    let time = |window_scale: f64| {
        let options = RecordedOptions {
            window_scale,
            cpu_scale: 0.0,
        };
        replay_recorded(&config, &trace, options).unwrap().seconds
    };
    let gain = time(1.0) / time(8.0);
    assert!(gain > 5.0 && gain < 8.5, "{gain}");
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../outcore-traces/tests/fixtures")
        .join(name)
}

#[test]
fn every_published_format_replays_open_and_closed() {
    for name in [
        "small.spc",
        "small.msr.csv",
        "small.fiu",
        "v2.iolog",
        "v3.iolog",
        "small.vscsi.csv",
        "small.mqsim",
        "small.alibaba.csv",
        "small.tencent.csv",
        "linux-6.18.blktrace",
        "small.v1.vscsi",
        "small.v2.vscsi",
        "small.systor.csv",
        "small.blkparse",
        "small.disksim",
        "small.oracleGeneral",
    ] {
        let path = fixture(name);
        for pace in [Loop::Open { speedup: 1e6 }, Loop::Closed { depth: 4 }] {
            let options = BlockOptions {
                pace,
                ..BlockOptions::default()
            };
            let config = ArrayConfig::new(drive(), 2);
            let report = replay_block(&config, &path, &options)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(report.requests > 0 && report.seconds > 0.0, "{name}");
            let (list, _) = load_list(&path, &options).unwrap();
            assert!(list.items.len() as u64 <= report.requests, "{name}");
        }
    }
}

#[test]
fn a_binary_block_trace_whose_first_byte_is_a_brace_is_not_taken_for_json() {
    let folder = Folder::new("brace");
    let path = folder.0.join("trace");
    for format in [None, Some(outcore_traces::Format::VscsiBinary)] {
        let mut bytes = std::fs::read(fixture("small.v1.vscsi")).unwrap();
        // The lowest byte of the first serial number.
        bytes[0] = b'{';
        std::fs::write(&path, bytes).unwrap();
        let mut options = FileOptions::default();
        options.block.format = format;
        let report = replay_file(&path, drive(), &options).unwrap();
        assert!(report.requests > 0);
    }
}

/// A block trace of `count` reads of 4 KiB, one every `gap_ns`.
fn spaced(path: &Path, count: u64, gap_ns: u64) {
    let line = |at: u64| format!("{} 0 {} 8 1\n", at * gap_ns, at * 8);
    std::fs::write(path, (0..count).map(line).collect::<String>()).unwrap();
}

#[test]
fn a_block_trace_is_bound_by_its_own_pace_or_by_the_drives_never_by_computation() {
    let folder = Folder::new("pace");
    let trace = folder.0.join("t.mqsim");
    let config = ArrayConfig::new(drive(), 1);
    let bound = |gap_ns, pace| {
        spaced(&trace, 20_000, gap_ns);
        let options = BlockOptions {
            pace,
            ..BlockOptions::default()
        };
        let report = replay_block(&config, &trace, &options).unwrap();
        assert!(report.drives[0].resource.1 <= 1.0, "{:?}", report.drives[0]);
        (report.bottleneck, report.seconds)
    };
    let open = Loop::Open { speedup: 1.0 };
    let (idle, seconds) = bound(100_000, open);
    assert_eq!(idle, "the trace's own pace");
    assert!((seconds - 2.0).abs() < 0.01, "{seconds}");
    // A request every 100 ns: ten million per second exceed every drive.
    let (full, _) = bound(100, open);
    assert!(full.starts_with("drives: "), "{full}");
    let (alone, _) = bound(100, Loop::Closed { depth: 1 });
    assert_eq!(
        alone,
        "drives: latency (more requests in flight would help)"
    );
}

#[test]
fn a_request_larger_than_all_drives_is_refused_before_it_is_cut_up() {
    let folder = Folder::new("huge");
    let trace = folder.0.join("t.csv");
    let line = |op: &str, bytes: u64| format!("7,R,0,4096,1\n7,{op},0,{bytes},2\n");
    for (fit, op) in [(Fit::Refuse, "R"), (Fit::Wrap, "W")] {
        std::fs::write(&trace, line(op, (1 << 63) - 1)).unwrap();
        let config = ArrayConfig {
            fit,
            ..ArrayConfig::new(drive(), 2)
        };
        let options = BlockOptions {
            format: Some(outcore_traces::Format::Alibaba),
            ..BlockOptions::default()
        };
        let error = replay_block(&config, &trace, &options).unwrap_err();
        assert!(error.to_string().contains("request 2 ("), "{error}");
        let error = load_list(&trace, &options).unwrap_err();
        assert!(error.to_string().contains("request 2 ("), "{error}");
        // A request at the last byte of the address space: widened to sectors it would end beyond.
        let last = format!("7,{op},{},100,1\n", u64::MAX - 100);
        std::fs::write(&trace, last).unwrap();
        let error = replay_block(&config, &trace, &options).unwrap_err();
        assert!(error.to_string().contains("request 1 ("), "{error}");
        assert!(error.to_string().contains("beyond 2^64 bytes"), "{error}");
    }
}

#[test]
fn what_a_cache_writes_after_the_last_request_is_neither_time_nor_use_of_the_job() {
    let folder = Folder::new("drain");
    let trace = folder.0.join("t.mqsim");
    let line = |at: u64| format!("{at} 0 {} 256 0\n", at * 256);
    std::fs::write(&trace, (0..64).map(line).collect::<String>()).unwrap();
    let mut config = ArrayConfig::new(drive(), 1);
    config.placement = Placement::Recorded;
    let options = BlockOptions {
        pace: Loop::Closed { depth: 4 },
        ..BlockOptions::default()
    };
    let report = replay_block(&config, &trace, &options).unwrap();
    assert!(report.drives[0].resource.1 <= 1.0, "{:?}", report.drives[0]);
    // 8 MiB fit into the cache, so they arrive as fast as the link moves them.
    assert!(report.seconds < 0.01, "{}", report.seconds);
    assert!(report.drives[0].write_amplification >= 1.0);
}

#[test]
fn a_block_trace_that_touches_more_than_the_drives_hold_is_refused_or_fitted() {
    let folder = Folder::new("far");
    let path = folder.0.join("far.spc");
    // Writes of 4 KiB, one per GiB of two devices, on a drive of which 64 MiB are simulated.
    let lines = (0..200u64).map(|at| format!("{},{},4096,w,0.{at:03}\n", at % 2, at << 21));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    let mut config = ArrayConfig::new(drive(), 1);
    config.drive.flash.channels = 1;
    (config.drive.flash.chips, config.drive.flash.dies) = (1, 1);
    (config.drive.flash.blocks, config.drive.flash.pages) = (64, 32);
    config.placement = Placement::Recorded;
    let options = BlockOptions {
        pace: Loop::Closed { depth: 4 },
        ..BlockOptions::default()
    };
    let error = replay_block(&config, &path, &options).unwrap_err();
    let (text, hint) = (error.to_string(), error.next_step().unwrap_or_default());
    assert!(
        text.contains("(write of 4.00 KiB at") && text.contains("no room"),
        "{text}"
    );
    assert!(
        hint.contains("--drive-size") && hint.contains("--fit wrap"),
        "{hint}"
    );
    let warnings = [Fit::Wrap, Fit::Scale].map(|fit| {
        config.fit = fit;
        let report = replay_block(&config, &path, &options).unwrap();
        assert_eq!(report.requests, 200);
        assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
        report.warnings[0].clone()
    });
    assert!(
        warnings[0].contains("of 200 pieces of 1.00 MiB were wrapped"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("all 200 requests were scaled"),
        "{warnings:?}"
    );
}

#[test]
fn a_reference_trace_replays_in_its_own_time_and_faster() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/reference/block-traces/cloudphysics-head.csv");
    if !path.exists() {
        println!("SKIP: {} is missing", path.display());
        return;
    }
    let config = ArrayConfig::new(drive(), 1);
    let play = |pace| {
        let options = BlockOptions {
            pace,
            requests_max: 20_000,
            ..BlockOptions::default()
        };
        replay_block(&config, &path, &options).unwrap()
    };
    let real = play(Loop::Open { speedup: 1.0 });
    let closed = play(Loop::Closed { depth: 32 });
    assert_eq!(real.requests, closed.requests);
    assert_eq!(real.read_bytes, closed.read_bytes);
    assert!(closed.seconds < real.seconds);
}

#[test]
fn what_is_no_trace_is_refused_with_its_name() {
    let folder = Folder::new("bad");
    let path = folder.0.join("bad.trace");
    std::fs::write(&path, b"\x89OCIO\r\n\x1a\x01\x00\x40\x00").unwrap();
    let config = ArrayConfig::new(drive(), 1);
    let error = replay_recorded(&config, &path, RecordedOptions::default()).unwrap_err();
    assert!(error.to_string().contains("bad.trace"), "{error}");
    std::fs::write(&path, "what,is,this\n").unwrap();
    assert!(replay_block(&config, &path, &BlockOptions::default()).is_err());
    let mut none = ArrayConfig::new(drive(), 0);
    assert!(replay_recorded(&none, &path, RecordedOptions::default()).is_err());
    none.drives = 1;
    none.fill = 2.0;
    assert!(replay_block(&none, &fixture("small.spc"), &BlockOptions::default()).is_err());
}
