//! `sim replay`: a recorded job, or a block trace of others, on drives that one does not own.
//!
//! Contract: the kind of trace is told from its content (outcore's own, JSON Lines, or any format
//! that `outcore-traces` reads); the report goes to standard output, warnings to standard error.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use outcore::error::{Error, Result};
use outcore_traces::Format;
use outcore_traces::io_trace::{MAGIC, Reader};

use super::{DriveArgs, json, shared, usage};
use crate::array::block::{BlockOptions, Loop, replay_block};
use crate::array::recorded::{RecordedOptions, replay_recorded};
use crate::array::{ArrayConfig, Placement, ReplayReport, read_trace, replay};
use crate::units::parse_size;

/// `sim replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Trace: outcore's own (--record-io), JSON Lines (id, drive, op, offset, bytes, after,
    /// think_ns), or a block trace (SPC, MSR, FIU, fio, blktrace, Alibaba, Tencent, vscsi, MQSim).
    pub trace: PathBuf,
    /// Drives of the array; without it as many as were recorded, or one.
    #[arg(long)]
    pub drives: Option<u32>,
    /// The drive.
    #[command(flatten)]
    pub drive: DriveArgs,
    /// What all drives together can move, such as 146GB/s.
    #[arg(long)]
    pub shared: Option<String>,
    /// Stripe files over the drives in units of this size [default: 1MiB where their number
    /// differs from the recorded one].
    #[arg(long)]
    pub stripe: Option<String>,
    /// Share of every drive that holds data before the replay.
    #[arg(long, default_value_t = 0.5)]
    pub fill: f64,
    /// Requests in flight as a multiple of the recorded ones (outcore's trace), or auto: drives by
    /// recorded drives.
    #[arg(long, default_value = "auto")]
    pub window: String,
    /// Computation as a multiple of the recorded one (outcore's trace).
    #[arg(long, default_value_t = 1.0)]
    pub cpu: f64,
    /// Format of a block trace, where it cannot be told from the content.
    #[arg(long)]
    pub format: Option<String>,
    /// Play a block trace so many times as fast as recorded.
    #[arg(long = "speed", default_value_t = 1.0)]
    pub speedup: f64,
    /// Play a block trace with so many requests in flight instead of at its times.
    #[arg(long)]
    pub depth: Option<u32>,
    /// Stop a block trace after so many requests; 0 plays all.
    #[arg(long, default_value_t = 0)]
    pub requests: u64,
    /// Print JSON Lines.
    #[arg(long)]
    pub json: bool,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Recorded,
    JsonLines,
    Block,
}

fn kind_of(path: &Path) -> Result<Kind> {
    let mut head = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(4096).read_to_end(&mut head))
        .map_err(|error| Error::io("read trace", &error).path(path))?;
    if head.starts_with(&MAGIC) {
        return Ok(Kind::Recorded);
    }
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    Ok(if first == Some(&b'{') {
        Kind::JsonLines
    } else if outcore_traces::detect(&head, head.len() < 4096) == Some(Format::Outcore) {
        Kind::Recorded
    } else {
        Kind::Block
    })
}

pub(super) fn run(args: &ReplayArgs) -> Result<u8> {
    let kind = kind_of(&args.trace)?;
    let recorded = match kind {
        Kind::Recorded => Reader::open(&args.trace)?.header().drives.len().max(1) as u32,
        _ => 1,
    };
    let drives = args.drives.unwrap_or(recorded);
    let mut config = ArrayConfig::new(args.drive.config()?, drives);
    config.shared_bytes_per_s = shared(args.shared.as_ref())?;
    config.fill = args.fill;
    config.placement = match &args.stripe {
        Some(text) => Placement::Striped {
            stripe_bytes: parse_size(text).map_err(usage("read options"))?,
        },
        None if kind == Kind::JsonLines || drives == recorded => Placement::Recorded,
        None => config.placement,
    };
    let report = match kind {
        Kind::Recorded => {
            let window_scale = match args.window.as_str() {
                "auto" => (f64::from(drives) / f64::from(recorded)).max(1.0),
                text => text.parse().map_err(|_| {
                    Error::usage("read options", format!("--window {text} is no number"))
                        .hint("use auto, or a number of 1 and more")
                })?,
            };
            let options = RecordedOptions {
                window_scale,
                cpu_scale: args.cpu,
            };
            replay_recorded(&config, &args.trace, options)?
        }
        Kind::JsonLines => {
            let text = std::fs::read_to_string(&args.trace)
                .map_err(|error| Error::io("read trace", &error).path(&args.trace))?;
            let trace = read_trace(&text).map_err(|error| error.path(&args.trace))?;
            replay(&config, &trace)?
        }
        Kind::Block => replay_block(&config, &args.trace, &block_options(args)?)?,
    };
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    if args.json {
        println!("{}", json(&report)?);
    } else {
        print(&report);
    }
    Ok(0)
}

fn block_options(args: &ReplayArgs) -> Result<BlockOptions> {
    Ok(BlockOptions {
        format: args.format.as_ref().map(|name| name.parse()).transpose()?,
        pace: match args.depth {
            Some(depth) => Loop::Closed { depth },
            None => Loop::Open {
                speedup: args.speedup,
            },
        },
        requests_max: args.requests,
    })
}

fn print(report: &ReplayReport) {
    let moved = (report.read_bytes + report.write_bytes) as f64;
    println!(
        "{} requests in {:.3} s of simulated time, {:.1} MB/s",
        report.requests,
        report.seconds,
        moved / 1e6 / report.seconds.max(1e-12)
    );
    let response = &report.response_us;
    println!(
        "response in us: mean {:.1}, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, p99.99 {:.1}, max {:.1}",
        response.mean, response.p50, response.p99, response.p999, response.p9999, response.max
    );
    if report.computation_seconds > 0.0 {
        println!(
            "computation: {:.3} s over all threads (--cpu scales it)",
            report.computation_seconds
        );
    }
    println!("bottleneck: {}", report.bottleneck);
    for (at, drive) in report.drives.iter().enumerate() {
        println!(
            "drive {at}: {:.1} MB, busy {:.0} %, mean {:.1} us, {} {:.0} %, write amplification {:.2}",
            drive.bytes as f64 / 1e6,
            drive.busy * 100.0,
            drive.mean_response_us,
            drive.resource.0,
            drive.resource.1 * 100.0,
            drive.write_amplification
        );
    }
}
