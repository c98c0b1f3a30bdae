//! Real traces of other projects, with their known counts; they are not in the repository.
//!
//! The tests look for them in `../shared/reference` next to the repository; if they are missing,
//! the tests say so and pass. Sources: the CloudPhysics trace in libCacheSim (twice), fio's
//! `t/jobs/t0038.iolog`, and the traces of HolisticTraceAnalysis.
use std::path::{Path, PathBuf};

use outcore_traces::gpu::{GpuFormat, GpuOptions, load_kernels};
use outcore_traces::{Format, OnError, Op, ReadOptions, Request, Summary, TraceReader};

fn sample(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference");
    let path = root.join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("SKIP: {} is not here", path.display());
    None
}

#[test]
fn the_cloudphysics_head_has_its_8000_requests() {
    let Some(path) = sample("block-traces/cloudphysics-head.csv") else {
        return;
    };
    let options = ReadOptions {
        on_error: OnError::Fail,
        ..ReadOptions::default()
    };
    let mut reader = TraceReader::open(path, &options).unwrap();
    assert_eq!(reader.format(), Format::Vscsi);
    let summary = Summary::of(&mut reader).unwrap();
    assert_eq!(
        (summary.requests, summary.reads, summary.writes),
        (8000, 460, 7540)
    );
    assert_eq!((summary.size_min_bytes, summary.ignored), (512, 1));
    assert_eq!(summary.duration_ns(), 1772 * 1_000_000_000);
    assert_eq!((summary.devices, summary.skipped.total()), (1, 0));
    // Exact, computed by sorting the blocks of the file.
    let footprint_blocks = 22_940.0;
    let estimate = summary.footprint_bytes as f64 / 4096.0;
    assert!(
        (estimate / footprint_blocks - 1.0).abs() < 0.025,
        "{estimate}"
    );
}

#[test]
fn the_binary_cloudphysics_head_begins_with_the_requests_of_the_csv() {
    let (Some(csv), Some(binary)) = (
        sample("block-traces/cloudphysics-head.csv"),
        sample("block-traces/cloudphysics-head.vscsi"),
    ) else {
        return;
    };
    let options = ReadOptions {
        on_error: OnError::Fail,
        ..ReadOptions::default()
    };
    let mut csv = TraceReader::open(csv, &options).unwrap();
    let mut binary = TraceReader::open(binary, &options).unwrap();
    assert_eq!(binary.format(), Format::VscsiBinary);
    for (number, request) in csv.by_ref().enumerate() {
        let (request, exact) = (request.unwrap(), binary.next().unwrap().unwrap());
        // The CSV has whole seconds.
        let time_ns = exact.time_ns / 1_000_000_000 * 1_000_000_000;
        assert_eq!(Request { time_ns, ..exact }, request, "request {number}");
    }
    assert_eq!(binary.requests(), 8000);
    // Counted with an independent reader.
    let rest: Vec<Request> = binary.by_ref().map(Result::unwrap).collect();
    let count = |op| rest.iter().filter(|request| request.op == op).count();
    assert_eq!((rest.len(), binary.ignored()), (32_000, 0));
    assert_eq!(
        (count(Op::Read), count(Op::Write)),
        (16_047 - 460, 23_953 - 7540)
    );
    assert_eq!(rest.last().unwrap().time_ns, 5_635_759_956_297_000);
}

#[test]
fn the_fio_log_has_its_writes_and_trims() {
    let Some(path) = sample("block-traces/fio-t0038.iolog") else {
        return;
    };
    let options = ReadOptions {
        on_error: OnError::Fail,
        ..ReadOptions::default()
    };
    let mut reader = TraceReader::open(path, &options).unwrap();
    assert_eq!(reader.format(), Format::Fio);
    let requests: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    let count = |op| requests.iter().filter(|request| request.op == op).count();
    assert_eq!(
        (requests.len(), count(Op::Write), count(Op::Trim)),
        (20, 10, 10)
    );
    assert_eq!(
        (requests[0].time_ns, requests[19].time_ns),
        (10_736_000, 10_809_000)
    );
    assert_eq!(
        (requests[0].len_bytes, requests[19].offset_bytes),
        (1 << 31, 36_864)
    );
    assert_eq!(
        (reader.ignored(), reader.device_name(0)),
        (4, Some("/dev/null"))
    );
}

#[test]
fn the_gpu_traces_have_their_kernels() {
    // File, kernels, distinct names, sum of durations in ns.
    let known = [
        (
            "alexnet_benchmark_result_2869224_1695835535_trace.json.gz",
            79,
            16,
            10_692_000,
        ),
        (
            "timeline_analysis_sampled_rank-0.json.gz",
            1154,
            194,
            606_519_000,
        ),
        (
            "nccl_parser_config_nccl_data.json.gz",
            2700,
            70,
            162_532_340,
        ),
        (
            "ns_resolution_trace_rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
            4350,
            77,
            468_153_602,
        ),
    ];
    for (name, kernels, names, total_ns) in known {
        let Some(path) = sample(&format!("gpu-traces/{name}")) else {
            return;
        };
        let options = GpuOptions {
            on_error: OnError::Fail,
            ..GpuOptions::default()
        };
        let (list, report) = load_kernels(path, &options).unwrap();
        assert_eq!(report.format, GpuFormat::Torch);
        assert_eq!((list.len(), report.names), (kernels, names), "{name}");
        let sum_ns: u64 = list.iter().filter_map(|kernel| kernel.duration_ns).sum();
        assert_eq!(sum_ns, total_ns, "{name}");
        assert!(
            list.iter()
                .all(|kernel| kernel.blocks() > 0 && kernel.threads_per_block() > 0)
        );
    }
}
