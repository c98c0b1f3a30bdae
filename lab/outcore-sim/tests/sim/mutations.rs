//! Damaged input: the test changes, cuts, repeats and exchanges bytes of good files. Every parser
//! of the simulator and of the traces that it reads must return a value or an error.
//!
//! Contract: deterministic; a case is a seed, which is printed when it fails. Accepted input must
//! satisfy the same checks as in the fuzz targets (`fuzz/src/`), which find more where they can
//! run. A few hundred cases per parser run here; `make mutations` runs a hundred times as many.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use outcore_sim::array::read_trace;
use outcore_sim::calibrate::read_targets;
use outcore_sim::config::{Compat, DriveConfig};
use outcore_sim::gpu::pattern::{parse_access, read_pages};
use outcore_sim::gpu::{GpuConfig, Workload};
use outcore_sim::mqsim::{ascii_trace_from_text, drive_from_text, workload_from_text};
use outcore_sim::presets::preset;
use outcore_sim::workload_file::WorkloadFile;
use outcore_traces::gpu::{GpuOptions, read_kernels_from};
use outcore_traces::io_trace::{DriveInfo, Header, IoOp, Reader, Record, Writer};
use outcore_traces::{ReadOptions, TraceReader};

/// SplitMix64 (Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Replacements for numbers and words.
const TOKENS: [&str; 22] = [
    "0",
    "-1",
    "1",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "1e308",
    "-1e308",
    "nan",
    "1e-320",
    "9223372036854775807",
    "\"",
    "\u{0}",
    "{",
    "}",
    "[",
    "]",
    "<",
    "</",
    ",,",
    "\n",
    "\u{feff}",
];

fn mutated(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut data = good.to_vec();
    for _ in 0..=random.below(4) {
        let len = data.len();
        let at = random.below(len + 1);
        let until = (at + random.below(24)).min(len);
        match random.below(7) {
            0 if at < len => data[at] ^= 1 << random.below(8),
            1 if at < len => data[at] = random.next() as u8,
            2 => data.truncate(at),
            3 => drop(data.drain(at..until)),
            4 => {
                let part = data[at..until].to_vec();
                let to = random.below(data.len() + 1);
                data.splice(to..to, part);
            }
            5 => {
                let token = TOKENS[random.below(TOKENS.len())];
                data.splice(at..at, token.bytes());
            }
            _ => {
                // Replaces a number with another.
                let digits = |byte: &u8| byte.is_ascii_digit();
                if let Some(first) = data[at..].iter().position(digits).map(|n| n + at) {
                    let count = data[first..].iter().take_while(|byte| digits(byte)).count();
                    let token = TOKENS[random.below(11)];
                    data.splice(first..first + count, token.bytes());
                }
            }
        }
    }
    data
}

type Check = fn(&[u8]);

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

fn drive(data: &[u8]) {
    if let Ok(config) = DriveConfig::from_toml(&text(data)) {
        let again = config.to_toml().unwrap();
        assert_eq!(DriveConfig::from_toml(&again).unwrap(), config);
    }
}

fn workload(data: &[u8]) {
    if let Ok(file) = WorkloadFile::from_toml(&text(data)) {
        assert!(!file.flows().unwrap().is_empty());
    }
}

fn mqsim(data: &[u8]) {
    let text = text(data);
    for compat in [Compat::None, Compat::Mqsim] {
        let mut warnings = Vec::new();
        let path = Path::new("mutated.xml");
        if let Ok(config) = drive_from_text(path, &text, compat, &mut warnings) {
            config.validate().unwrap();
        }
        let _ = workload_from_text(path, &text, compat, &mut warnings);
    }
}

fn mqsim_trace(data: &[u8]) {
    let _ = ascii_trace_from_text(&text(data));
}

fn graph(data: &[u8]) {
    if let Ok(requests) = read_trace(&text(data)) {
        assert!(requests.iter().all(|request| request.bytes > 0));
    }
}

fn probe(data: &[u8]) {
    if let Ok(targets) = read_targets(&text(data)) {
        assert!(!targets.is_empty());
    }
}

fn pages(data: &[u8]) {
    if let Ok(pages) = read_pages(&text(data)) {
        assert!(pages.is_sorted_by_key(|page| (page.kernel, page.block)));
        assert!(pages.iter().all(|page| page.request().count > 0));
    }
}

fn access(data: &[u8]) {
    if let Ok(access) = parse_access(&text(data)) {
        for block in [0, 1, u64::from(u32::MAX)] {
            for index in [0, access.count - 1] {
                assert!(access.request(block, index, 7).count > 0);
            }
        }
    }
}

fn gpu_workload(data: &[u8]) {
    if let Ok(workload) = Workload::from_json(&text(data)) {
        for kernel in &workload.kernels {
            let _ = GpuConfig::default().block_ps(kernel);
            for io in &kernel.io {
                let last = kernel.blocks() - 1;
                assert!(io.request(last, io.count - 1, 3).count > 0);
            }
        }
    }
}

fn kernels(data: &[u8]) {
    let mut seen = 0;
    let stream = Cursor::new(data.to_vec());
    let options = GpuOptions::default();
    let report = read_kernels_from(stream, "mutated", &options, &mut |kernel| {
        seen += 1;
        std::hint::black_box(kernel.blocks());
        Ok(())
    });
    if let Ok(report) = report {
        assert_eq!(report.kernels, seen);
    }
}

fn block_trace(data: &[u8]) {
    let options = ReadOptions::default();
    let Ok(trace) = TraceReader::from_stream(Cursor::new(data.to_vec()), "mutated", &options)
    else {
        return;
    };
    for request in trace.flatten() {
        assert!(
            request
                .offset_bytes
                .checked_add(request.len_bytes)
                .is_some()
        );
    }
}

fn io_trace(data: &[u8]) {
    if let Ok(reader) = Reader::new(Cursor::new(data), "mutated") {
        std::hint::black_box(reader.records().map_while(Result::ok).count());
    }
}

const PAGES: &str = concat!(
    "{\"kernel\":0,\"block\":3,\"op\":\"read\",\"offset\":1048576,\"bytes\":4096}\n",
    "{\"kernel\":2,\"block\":0,\"op\":\"write\",\"offset\":0,\"bytes\":512}\n",
);
const GRAPH: &str = concat!(
    "{\"id\":3,\"drive\":0,\"op\":\"read\",\"offset\":0,\"bytes\":4096}\n",
    "{\"id\":7,\"drive\":1,\"op\":\"write\",\"offset\":4194304,\"bytes\":4194304,\"after\":[3],\"think_ns\":250000}\n",
);
const PROBES: [&str; 2] = [
    "[[drive]]\nname = \"d0\"\ndir = \"/mnt/d0\"\nread_bandwidth = \"3.2GB/s\"\nwrite_bandwidth = \"1.1GB/s\"\nread_iops = 400000\nqueue_depth = 64\n",
    concat!(
        "{\"event\":\"drive\",\"name\":\"d0\",\"read_bytes_per_s\":3200000000,\"write_bytes_per_s\":1100000000,",
        "\"iops_by_depth\":[{\"depth\":1,\"per_s\":12000},{\"depth\":64,\"per_s\":400000}]}\n",
    ),
];
const TORCH: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0}],"traceEvents":[
{"ph":"X","cat":"kernel","name":"gemm<float>(float*, int)","pid":0,"tid":7,"ts":100.5,"dur":20,
 "args":{"grid":[80,2,1],"block":[256,1,1],"registers per thread":32,"shared memory":1024,"stream":7}}]}"#;
const NSYS: &str = concat!(
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n",
    "100,2000,1,80,1,1,256,1,1,32,0.000,0.001,,,,,T4 (0),1,7,gemm\n",
);
const ACCESSES: [&str; 4] = [
    "read:random:512B:16:4GiB",
    "write:sequential:4KiB:1",
    "read:stride=64KiB:4KiB:8:1TiB",
    "write:stride=1088B:1088B:1",
];
const GPU_WORKLOAD: &str = r#"{"name":"two","kernels":[
{"name":"a","grid":[40,2,1],"block":[256,1,1],"duration_ns":5000,"registers":32,"shared_bytes":1024,
 "io":[{"op":"read","pattern":{"tile":{"row_bytes":2048,"blocks_x":32,"step_x_bytes":64,"step_y_rows":16}},
        "bytes":64,"count":16,"start_bytes":0,"region_bytes":1048576},
       {"op":"write","pattern":"random","bytes":512,"count":2,"start_bytes":4096,"region_bytes":65536}],
 "pages":[{"kernel":0,"block":3,"op":"read","offset":1048576,"bytes":4096}]},
{"name":"b","grid":[27,1,1],"block":[128,1,1],"duration_ns":1,
 "io":[{"op":"read","pattern":{"neighbours":{"side":3,"box_bytes":4000}},"bytes":1000,"count":108,
        "start_bytes":0,"region_bytes":108000}]}]}"#;
const FLOWS: &str = "[[flow]]\nname = \"log\"\nread = 0.0\nsize = \"64KiB\"\npattern = \"streaming\"\ndepth = 4\nrequests = 20\n[[flow]]\ninterval = \"20us\"\ndepth = 0\nclass = \"urgent\"\ncaching = \"off\"\nworking_set = 0.5\nchannels = [0, 1]\n";

/// Every parser, with good files as starting points.
fn parsers() -> Vec<(&'static str, Check, Vec<Vec<u8>>)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = |folder: &str, wanted: fn(&str) -> bool| -> Vec<Vec<u8>> {
        let mut paths: Vec<_> = std::fs::read_dir(here.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file() && wanted(&path.file_name().unwrap().to_string_lossy()))
            .collect();
        paths.sort();
        assert!(!paths.is_empty(), "{folder} has no fixtures");
        paths
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect()
    };
    let drives = ["pm9a3", "mqsim-default", "activesort-openssd", "throttled"]
        .map(|name| preset(name).unwrap().text().unwrap().into_bytes());
    let inline = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let traces = files("../outcore-traces/tests/fixtures", |_| true);
    let recorded = outcore_trace();
    vec![
        ("drive", drive as Check, drives.to_vec()),
        ("workload", workload, inline(&[FLOWS])),
        (
            "MQSim's XML",
            mqsim,
            files("tests/fixtures/mqsim", |name| {
                name.ends_with("_00.xml") || name.ends_with("_12.xml")
            }),
        ),
        (
            "MQSim's trace",
            mqsim_trace,
            files("../outcore-traces/tests/fixtures", |name| {
                name.ends_with(".mqsim")
            }),
        ),
        ("graph", graph, inline(&[GRAPH])),
        ("probe", probe, inline(&PROBES)),
        ("pages", pages, inline(&[PAGES])),
        ("access", access, inline(&ACCESSES)),
        ("GPU workload", gpu_workload, inline(&[GPU_WORKLOAD])),
        ("GPU trace", kernels, inline(&[TORCH, NSYS])),
        ("block trace", block_trace, traces),
        ("outcore's trace", io_trace, vec![recorded]),
    ]
}

/// A trace of the engine's own format with a few records.
fn outcore_trace() -> Vec<u8> {
    let drive = |name: &str| DriveInfo {
        name: name.into(),
        ..DriveInfo::default()
    };
    let header = Header::new("mutations", vec![drive("d0"), drive("d1")]);
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for at in 0..20u64 {
        let record = Record {
            thread: 0,
            drive: (at % 2) as u8,
            file: (at % 3) as u32,
            op: [IoOp::Read, IoOp::Write, IoOp::Sync][at as usize % 3],
            is_failed: false,
            offset_bytes: at << 20,
            len_bytes: 1 << 20,
            submit_ns: at * 1000,
            complete_ns: at * 1000 + 500,
            reaped: at,
            outstanding: 0,
            think_ns: 100,
            busy_ns: 100,
        };
        writer.request(&record).unwrap();
    }
    writer.finish(1 << 20).unwrap()
}

fn damage(cases: u64) {
    for (name, check, good) in parsers() {
        for file in &good {
            check(file);
        }
        for seed in 0..cases {
            let mut random = Random(seed);
            let file = &good[random.below(good.len())];
            let data = mutated(file, &mut random);
            let outcome = catch_unwind(AssertUnwindSafe(|| check(&data)));
            assert!(
                outcome.is_ok(),
                "{name}: the parser fails on seed {seed}:\n{}",
                text(&data)
            );
        }
    }
}

/// Cases per parser: `OUTCORE_MUTATIONS`, or few enough for every run of the tests.
fn cases() -> u64 {
    let wanted = std::env::var("OUTCORE_MUTATIONS").ok();
    wanted.map_or(300, |count| count.parse().unwrap())
}

#[test]
fn damaged_files_are_read_or_refused_and_nothing_else() {
    damage(cases());
}

#[test]
fn the_good_files_of_the_damaged_ones_are_good() {
    assert!(read_pages(PAGES).is_ok() && Workload::from_json(GPU_WORKLOAD).is_ok());
    assert!(WorkloadFile::from_toml(FLOWS).is_ok() && read_trace(GRAPH).is_ok());
    assert!(PROBES.iter().all(|text| read_targets(text).is_ok()));
    assert!(ACCESSES.iter().all(|text| parse_access(text).is_ok()));
    for trace in [TORCH, NSYS] {
        let stream = Cursor::new(trace.as_bytes().to_vec());
        let report = read_kernels_from(stream, "good", &GpuOptions::default(), &mut |_| Ok(()));
        assert_eq!(report.unwrap().kernels, 1, "{trace}");
    }
}
