//! `sim replay`: replays a recorded job, or a block trace of another tool, on drives that the user
//! does not own.
//!
//! Contract: the content decides the kind of trace (outcore's own, JSON Lines, or any format that
//! `outcore-traces` reads). The report goes to standard output, warnings to standard error.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use outcore_io::{Error, Result};
use outcore_report::ReportArgs;
use outcore_traces::{FORMAT_HELP, Format, parse_time_unit};

use super::page::{Asked, of_replay};
use super::{DriveArgs, json, shared};
use crate::array::ReplayReport;
use crate::array::block::{BlockOptions, Loop};
use crate::array::file::{FileOptions, Stripe, replay_file};
use crate::fit::Fit;

/// `sim replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Trace: outcore's own (--record-io), JSON Lines (id, drive, op, offset, bytes, after,
    /// think_ns), or a block trace of another program (--format lists them).
    pub trace: PathBuf,
    /// Number of drives in the array. Default: the recorded number, or 1.
    #[arg(long)]
    pub drives: Option<u32>,
    /// The drive.
    #[command(flatten)]
    pub drive: DriveArgs,
    /// Total rate of all drives, such as 146GB/s.
    #[arg(long)]
    pub shared: Option<String>,
    /// Stripe files over the drives in units of this size. `none` keeps inputs and outputs whole
    /// and stripes only scratch, as the engine stores them. `auto`: 1MiB if the number of drives
    /// differs from the recorded one.
    #[arg(long, value_name = "SIZE", default_value = "auto")]
    pub stripe: Stripe,
    /// Share of every drive that holds data before the replay.
    #[arg(long, default_value_t = 0.5)]
    pub fill: f64,
    /// Treatment of requests that do not fit on the drives: refuse (an error), wrap (reuse the
    /// space) or scale (offsets in proportion; not for outcore's own traces).
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value_t,
        hide_possible_values = true
    )]
    pub fit: Fit,
    /// Factor for the recorded number of requests in flight (outcore's trace), or auto: the number
    /// of drives divided by the recorded number of drives.
    #[arg(long, default_value = "auto")]
    pub window: String,
    /// Factor for the recorded time of computation (outcore's trace).
    #[arg(long, default_value_t = 1.0)]
    pub cpu: f64,
    /// Format of a block trace.
    #[arg(long, help = FORMAT_HELP)]
    pub format: Option<Format>,
    /// Unit of the times of a block trace, if it differs from that of the format: s, ms, us, ns,
    /// 100ns.
    #[arg(long = "time-unit", value_name = "UNIT", value_parser = parse_time_unit)]
    pub time_unit_ns: Option<u64>,
    /// Play a block trace faster than recorded, by this factor.
    #[arg(long = "speed", default_value_t = 1.0)]
    pub speedup: f64,
    /// Play a block trace with this many requests in flight instead of at its recorded times.
    #[arg(long)]
    pub depth: Option<u32>,
    /// Stop a block trace after this many requests; 0 plays all.
    #[arg(long, default_value_t = 0)]
    pub requests: u64,
    /// Write the whole report to a file.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Print JSON Lines.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(args: &ReplayArgs) -> Result<u8> {
    let began = Instant::now();
    let window_scale = match args.window.as_str() {
        "auto" => None,
        text => Some(text.parse().map_err(|_| {
            Error::usage("read options", format!("--window {text} is not a number"))
                .hint("use auto, or a number of 1 and more")
        })?),
    };
    let options = FileOptions {
        drives: args.drives,
        shared_bytes_per_s: shared(args.shared.as_ref())?,
        stripe: args.stripe,
        fill: args.fill,
        fit: args.fit,
        window_scale,
        cpu_scale: args.cpu,
        block: block_options(args)?,
        ..FileOptions::default()
    };
    let saver = args.report.saver()?;
    let report = replay_file(&args.trace, args.drive.config()?, &options)?;
    for warning in &report.warnings {
        eprintln!("warning: {warning}");
    }
    if args.json {
        say!("{}", json(&report)?);
    } else {
        print(&report);
    }
    if !saver.is_empty() {
        let options = args.drive.given();
        let asked = Asked { options, began };
        let name = args.trace.file_name().unwrap_or(args.trace.as_os_str());
        let name = name.to_string_lossy();
        saver.write(&of_replay(&name, &report, &asked))?;
    }
    Ok(0)
}

fn block_options(args: &ReplayArgs) -> Result<BlockOptions> {
    Ok(BlockOptions {
        format: args.format,
        time_unit_ns: args.time_unit_ns,
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
    say!(
        "{} requests in {:.3} s of simulated time, {:.1} MB/s",
        report.requests,
        report.seconds,
        moved / 1e6 / report.seconds.max(1e-12)
    );
    let response = &report.response_us;
    say!(
        "response in us: mean {:.1}, p50 {:.1}, p99 {:.1}, p99.9 {:.1}, p99.99 {:.1}, max {:.1}",
        response.mean,
        response.p50,
        response.p99,
        response.p999,
        response.p9999,
        response.max
    );
    if report.computation_seconds > 0.0 {
        say!(
            "computation: {:.3} s over all threads (--cpu scales it)",
            report.computation_seconds
        );
    }
    if report.idle_seconds > 0.0 {
        say!("no request in flight: {:.3} s", report.idle_seconds);
    }
    say!("bottleneck: {}", report.bottleneck);
    for (at, drive) in report.drives.iter().enumerate() {
        say!(
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
