//! `sim gpu`: a GPU inside the storage, with one or several workloads.
//!
//! Contract: a table of the workloads on standard output, or JSON with `--json`; warnings on
//! standard error.

use std::path::{Path as FilePath, PathBuf};

use clap::Args;
use outcore_io::drive::paths;
use outcore_io::units::{nearest, parse_bytes};
use outcore_io::{Error, Result};
use outcore_traces::gpu::{GpuOptions, load_kernels};
use serde_json::json;

use super::engine::run as simulate;
use super::pattern::{parse_access, read_pages};
use super::workloads::{Network, front, requests_of};
use super::{
    FlowReport, GpuConfig, GpuReport, HostIo, KernelSpec, Path, Reads, Scheduling, Setup, Workload,
    Writes,
};
use crate::config::Allocation;
use crate::drive::Caching;
use crate::presets::preset;
use crate::quantities::Size;

/// `sim gpu`.
#[derive(Debug, Args)]
pub struct GpuArgs {
    /// Workloads that run at the same time: bert, gpt2, resnet50, backprop, hotspot, lavamd, or a
    /// JSON file.
    #[arg(long, value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Kernels from a GPU trace (PyTorch profiler JSON or nsys CSV) as a workload of its own.
    #[arg(long)]
    pub trace: Option<PathBuf>,
    /// Accesses that each block of the trace's kernels makes: op:pattern:bytes:count[:region].
    #[arg(long)]
    pub io: Vec<String>,
    /// Accesses of single blocks of the trace's kernels: JSON Lines of kernel, block, op, offset,
    /// bytes.
    #[arg(long)]
    pub pages: Option<PathBuf>,
    /// Number of requests to simulate of each named workload or trace, in whole kernels from its
    /// start [default: 50000 of a workload, all of a trace].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// Preset of the drive.
    #[arg(long, default_value = "pm9a3")]
    pub preset: String,
    /// Allocation: static, dynamic, restricted_channel or restricted_die [default: the preset's].
    #[arg(long)]
    pub allocation: Option<String>,
    /// Order of channel, way, die and plane for static allocation, such as CWDP or WCDP.
    #[arg(long)]
    pub order: Option<String>,
    /// Mapping unit such as 4KiB, or `page`.
    #[arg(long)]
    pub unit: Option<String>,
    /// How blocks go to cores: round-robin, large-chunk or auto.
    #[arg(long, default_value = "auto")]
    pub scheduling: String,
    /// Number of neighbouring blocks that one core gets at a time (with `large-chunk` and `auto`).
    #[arg(long, default_value_t = 8)]
    pub stride: u32,
    /// The GPU: t4, v100, a100 or h100. A trace needs a GPU with the limits of the recorded GPU.
    #[arg(long, default_value = "t4")]
    pub gpu: String,
    /// Cores of the GPU, if their number differs from that of the named GPU.
    #[arg(long)]
    pub cores: Option<u32>,
    /// How blocks read: with `answers`, a block keeps 8 reads in flight and computes when all are
    /// answered; with `time`, its reads are spread over its computation, whether or not earlier
    /// ones are answered.
    #[arg(long, value_enum, default_value_t = Reads::Answers)]
    pub reads: Reads,
    /// Whether a block waits for its writes, or ends while they leave as evictions.
    #[arg(long, value_enum, default_value_t = Writes::Wait)]
    pub writes: Writes,
    /// Largest request of a block, such as 512B: larger accesses are cut [default: no limit].
    #[arg(long, value_name = "SIZE")]
    pub request: Option<String>,
    /// Memory of the GPU, which keeps the most recently used data; with 0, all reads go to the
    /// drive [default: that of the GPU, 16GiB for the t4]
    #[arg(long, value_name = "SIZE")]
    pub gpu_memory: Option<String>,
    /// Commands that a submission queue holds [default: the preset's].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub queue: Option<u32>,
    /// Send requests through the host's processor and memory instead.
    #[arg(long)]
    pub mediated: bool,
    /// Number of random 4 KiB reads of the host that are in flight at the same time.
    #[arg(long, default_value_t = 0)]
    pub host_depth: u32,
    /// Acknowledge writes when they are programmed, not when they are in the drive's DRAM.
    #[arg(long)]
    pub no_cache: bool,
    /// Seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Default number of requests of a named workload.
const NAMED_REQUESTS: u64 = 50_000;

fn usage(cause: impl Into<String>) -> Error {
    Error::usage("read options", cause)
}

/// Runs the command.
pub fn run(args: &GpuArgs) -> Result<u8> {
    let gpu = gpu_of(args)?;
    let mut workloads = Vec::new();
    for name in &args.workload {
        workloads.push(named(name, args, &gpu)?);
    }
    if let Some(path) = &args.trace {
        workloads.push(recorded(path, args)?);
    }
    if workloads.is_empty() {
        return Err(usage("there is nothing to run")
            .hint("--workload bert, or --trace FILE with --io read:random:512B:16"));
    }
    let mut drive = preset(&args.preset)?.scaled(128, 64)?;
    if let Some(name) = &args.allocation {
        drive.mapping.allocation = allocation(name)?;
    }
    if let Some(order) = &args.order {
        drive.mapping.order.clone_from(order);
    }
    match args.unit.as_deref() {
        None => {}
        Some("page") => drive.mapping.unit = Size(0),
        Some(unit) => drive.mapping.unit = Size(parse_bytes(unit)?),
    }
    if let Some(commands) = args.queue {
        drive.host.queue_entries = commands + 1;
    }
    let setup = Setup {
        gpu,
        drive,
        workloads,
        scheduling: scheduling(&args.scheduling, args.stride)?,
        path: if args.mediated {
            Path::mediated()
        } else {
            Path::InStorage
        },
        caching: if args.no_cache {
            Caching::Off
        } else {
            Caching::Write
        },
        host: (args.host_depth > 0).then_some(HostIo {
            depth: args.host_depth,
            bytes: 4096,
            read_ratio: 1.0,
        }),
        seed: args.seed,
    };
    let report = simulate(&setup)?;
    if args.json {
        say!(
            "{}",
            json!({"type": "summary", "version": 1, "report": report})
        );
    } else {
        print_report(&report);
    }
    Ok(0)
}

fn gpu_of(args: &GpuArgs) -> Result<GpuConfig> {
    let mut gpu = GpuConfig::named(&args.gpu)?;
    gpu.cores = args.cores.unwrap_or(gpu.cores);
    gpu.reads = args.reads;
    gpu.writes = args.writes;
    if let Some(request) = &args.request {
        gpu.request_bytes = parse_bytes(request)?;
    }
    if let Some(memory) = &args.gpu_memory {
        gpu.memory_bytes = parse_bytes(memory)?;
    }
    Ok(gpu)
}

fn named(name: &str, args: &GpuArgs, gpu: &GpuConfig) -> Result<Workload> {
    if let Some(network) = Network::ALL.iter().find(|network| network.name() == name) {
        let requests_max = args.requests.unwrap_or(NAMED_REQUESTS);
        let workload = network.workload(requests_max, gpu, args.seed);
        if let Some(whole) = network.paper_kernels() {
            eprintln!(
                "{name}: {} kernels simulated; the paper's run has {whole}",
                workload.kernels.len()
            );
        }
        return Ok(workload);
    }
    let path = FilePath::new(name);
    if path
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        let text = paths::read_text("read workload", path)?;
        return Workload::from_json(&text).map_err(|error| error.path(path));
    }
    let names = Network::ALL.map(Network::name);
    let error = usage(format!("`{name}` is not one of {}", names.join(", ")));
    Err(match nearest(name, &names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("a file's name ends in .json"),
    })
}

fn recorded(path: &FilePath, args: &GpuArgs) -> Result<Workload> {
    let io = args.io.iter().map(|text| parse_access(text));
    let io = io.collect::<Result<Vec<_>>>()?;
    let (kernels, report) = load_kernels(path, &GpuOptions::default())?;
    eprintln!("{report}");
    let mut specs = Vec::with_capacity(kernels.len());
    for kernel in &kernels {
        specs.push(KernelSpec::recorded(kernel, io.clone()).map_err(|error| error.path(path))?);
    }
    if let Some(pages) = &args.pages {
        let text = paths::read_text("read page-access trace", pages)?;
        for page in read_pages(&text).map_err(|error| error.path(pages))? {
            let count = specs.len();
            let Some(spec) = specs.get_mut(page.kernel as usize) else {
                let cause = format!("kernel {} of {count} does not exist", page.kernel);
                return Err(Error::usage("read page-access trace", cause).path(pages));
            };
            spec.pages.push(page);
        }
    }
    let all = specs.len();
    if let Some(requests_max) = args.requests {
        specs = front(specs.iter(), requests_max, requests_of);
    }
    let requests = specs.iter().map(requests_of).fold(0, u64::saturating_add);
    eprintln!(
        "trace: {} of {all} kernels simulated, {requests} requests (--requests takes the first of them)",
        specs.len()
    );
    Ok(Workload {
        name: "trace".to_owned(),
        kernels: specs,
        before: Vec::new(),
    })
}

fn allocation(name: &str) -> Result<Allocation> {
    Ok(match name {
        "static" => Allocation::Static,
        "dynamic" => Allocation::Dynamic,
        "restricted_channel" => Allocation::RestrictedChannel,
        "restricted_die" => Allocation::RestrictedDie,
        _ => {
            return Err(usage(format!("--allocation {name} is unknown"))
                .hint("static, dynamic, restricted_channel or restricted_die"));
        }
    })
}

fn scheduling(name: &str, stride: u32) -> Result<Scheduling> {
    Ok(match name {
        "round-robin" => Scheduling::RoundRobin,
        "large-chunk" => Scheduling::LargeChunk { stride },
        "auto" => Scheduling::Auto { stride },
        _ => {
            return Err(usage(format!("--scheduling {name} is unknown"))
                .hint("round-robin, large-chunk or auto"));
        }
    })
}

fn print_report(report: &GpuReport) {
    say!(
        "{:<10} {:>8} {:>9} {:>10} {:>11} {:>12} {:>10} {:>10} {:>10}",
        "",
        "kernels",
        "blocks",
        "requests",
        "IOPS",
        "response us",
        "p99 us",
        "wait us",
        "end ms"
    );
    let line = |flow: &FlowReport| {
        say!(
            "{:<10} {:>8} {:>9} {:>10} {:>11.0} {:>12.1} {:>10.1} {:>10.1} {:>10.3}",
            flow.name,
            flow.kernels,
            flow.blocks,
            flow.requests,
            flow.iops,
            flow.mean_response_us,
            flow.p99_response_us,
            flow.mean_wait_us,
            flow.end_seconds * 1e3
        );
    };
    for flow in report.workloads.iter().chain(&report.host) {
        line(flow);
    }
    line(&report.total);
    say!(
        "{:.1} blocks on the GPU on average, computing {:.1} % of their time; write amplification {:.2}",
        report.blocks_mean,
        report.compute_share * 100.0,
        report.write_amplification
    );
    if report.total.memory_hits > 0 {
        say!(
            "{} further reads were served by the GPU's memory",
            report.total.memory_hits
        );
    }
}
