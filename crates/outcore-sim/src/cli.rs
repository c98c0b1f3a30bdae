//! The subcommands of `outcore sim` as clap arguments and one function that runs them.
//!
//! Contract: results go to standard output (a table, or JSON Lines with `--json`), all else to
//! standard error. [`run`] returns the exit code of a command that worked.

mod replay;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use outcore::error::{Error, Result};

use crate::config::{Compat, DriveConfig};
use crate::mqsim::{import_drive, import_workload};
use crate::plan::{SortJob, plan_sort};
use crate::presets::{Figure, PRESETS, measure, preset};
use crate::report::Summary;
use crate::run::{RunOptions, run as run_flows};
use crate::units::{parse_rate, parse_size};

/// Simulate SSDs and arrays of them.
#[derive(Debug, Parser)]
#[command(name = "outcore-sim", version)]
pub struct SimArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: SimCommand,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a workload on one drive.
    Run(RunArgs),
    /// List the drives known by name, with the published figures beside the simulated ones.
    Presets(PresetArgs),
    /// Replay a recorded job or a block trace on an array of drives.
    Replay(replay::ReplayArgs),
    /// Predict a sort from its plan.
    Plan(PlanArgs),
    /// Which launches of a GPU trace to simulate so that the whole is known well enough.
    Allegro(crate::allegro::command::AllegroArgs),
    /// ActiveSort: a drive that merges while it is read, then and now.
    Activesort(crate::activesort::command::ActiveSortArgs),
    /// A GPU inside the storage: networks, Rodinia kernels or a recorded trace.
    Gpu(crate::gpu::command::GpuArgs),
    /// Allocation, mapping and block scheduling compared, as tables and charts.
    Policies(crate::policies::command::PolicyArgs),
}

/// `sim run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Drive: MQSim's XML or a TOML configuration.
    #[arg(long)]
    pub ssd: PathBuf,
    /// Workload: MQSim's XML.
    #[arg(long)]
    pub workload: PathBuf,
    /// Whose quirks to reproduce: none or mqsim.
    #[arg(long, default_value = "none")]
    pub compat: String,
    /// Print JSON Lines.
    #[arg(long)]
    pub json: bool,
    /// Tell on standard error how long the event loop took.
    #[arg(long)]
    pub time: bool,
}

/// `sim presets`.
#[derive(Debug, Args)]
pub struct PresetArgs {
    /// Simulate the published figures as well (takes a minute).
    #[arg(long)]
    pub measure: bool,
    /// Only this preset.
    pub name: Option<String>,
}

/// Which drive is simulated.
#[derive(Debug, Args)]
pub struct DriveArgs {
    /// A drive by name (see `presets`).
    #[arg(long, default_value = "p41")]
    pub preset: String,
    /// A drive from a file instead: TOML, or MQSim's XML.
    #[arg(long)]
    pub ssd: Option<PathBuf>,
    /// Size of the preset's flash: smaller ones build and fill faster, at the same speed.
    #[arg(long, default_value = "16GiB")]
    pub drive_size: String,
}

impl DriveArgs {
    /// The configuration that is meant.
    pub fn config(&self) -> Result<DriveConfig> {
        match &self.ssd {
            Some(path) => {
                let mut warnings = Vec::new();
                let config = drive(path, Compat::None, &mut warnings)?;
                warn_all(&warnings);
                Ok(config)
            }
            None => {
                let bytes = parse_size(&self.drive_size).map_err(usage("read options"))?;
                preset(&self.preset)?.sized(bytes)
            }
        }
    }
}

fn warn_all(warnings: &[String]) {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
}

/// `sim plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Bytes to sort, such as 8TB.
    #[arg(long)]
    pub size: String,
    /// Memory, such as 200GB.
    #[arg(long)]
    pub memory: String,
    /// Bytes of a record.
    #[arg(long, default_value_t = 8)]
    pub record_bytes: u64,
    /// Cores.
    #[arg(long, default_value_t = 64)]
    pub cores: u32,
    /// Drives.
    #[arg(long, default_value_t = 30)]
    pub drives: u32,
    /// Each drive.
    #[command(flatten)]
    pub drive: DriveArgs,
    /// What all drives together can move, such as 146GB/s.
    #[arg(long)]
    pub shared: Option<String>,
    /// Core nanoseconds to distribute a record.
    #[arg(long, default_value_t = 15.0)]
    pub distribute_ns: f64,
    /// Core nanoseconds to sort a record.
    #[arg(long, default_value_t = 60.0)]
    pub sort_ns: f64,
    /// Print JSON Lines.
    #[arg(long)]
    pub json: bool,
}

fn usage(operation: &'static str) -> impl Fn(String) -> Error {
    move |cause| Error::usage(operation, cause)
}

fn shared(text: Option<&String>) -> Result<u64> {
    text.map_or(Ok(0), |text| parse_rate(text))
        .map_err(usage("read options"))
}

fn plan_command(args: &PlanArgs) -> Result<u8> {
    let size = |text: &str| parse_size(text).map_err(usage("read options"));
    let job = SortJob {
        size_bytes: size(&args.size)?,
        record_bytes: args.record_bytes,
        memory_bytes: size(&args.memory)?,
        cores: args.cores,
        distribute_ns: args.distribute_ns,
        sort_ns: args.sort_ns,
        bucket_buffer_bytes: 8 << 20,
    };
    let plan = plan_sort(
        &job,
        &args.drive.config()?,
        args.drives,
        shared(args.shared.as_ref())?,
    )?;
    if args.json {
        println!("{}", json(&plan)?);
        return Ok(0);
    }
    for phase in &plan.phases {
        println!(
            "{:<32} io {:>9.1} s  cpu {:>9.1} s  takes {:>9.1} s",
            phase.name, phase.io_seconds, phase.cpu_seconds, phase.seconds
        );
    }
    println!(
        "total {:.1} s ({:.1} h), bound by {}; array reads {:.1} GB/s, writes {:.1} GB/s",
        plan.seconds,
        plan.seconds / 3600.0,
        plan.bottleneck,
        plan.read_bytes_per_s / 1e9,
        plan.write_bytes_per_s / 1e9
    );
    Ok(0)
}

fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::usage("write JSON", error.to_string()))
}

fn compat(text: &str) -> Result<Compat> {
    match text {
        "none" => Ok(Compat::None),
        "mqsim" => Ok(Compat::Mqsim),
        other => Err(
            Error::usage("read options", format!("--compat {other} is unknown"))
                .hint("use none or mqsim"),
        ),
    }
}

fn drive(path: &PathBuf, compat: Compat, warnings: &mut Vec<String>) -> Result<DriveConfig> {
    if path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
    {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::io("read drive configuration", &error).path(path))?;
        return DriveConfig::from_toml(&text).map_err(|error| error.path(path));
    }
    import_drive(path, compat, warnings)
}

/// Runs a subcommand; the exit code of a command that worked.
pub fn run(args: SimArgs) -> Result<u8> {
    match args.command {
        SimCommand::Run(args) => run_command(&args),
        SimCommand::Presets(args) => presets_command(&args),
        SimCommand::Replay(args) => replay::run(&args),
        SimCommand::Plan(args) => plan_command(&args),
        SimCommand::Allegro(args) => crate::allegro::command::run(&args),
        SimCommand::Activesort(args) => crate::activesort::command::run(&args),
        SimCommand::Gpu(args) => crate::gpu::command::run(&args),
        SimCommand::Policies(args) => crate::policies::command::run(&args),
    }
}

fn run_command(args: &RunArgs) -> Result<u8> {
    let compat = compat(&args.compat)?;
    let mut warnings = Vec::new();
    let config = drive(&args.ssd, compat, &mut warnings)?;
    let scenarios = import_workload(&args.workload, compat, &mut warnings)?;
    warn_all(&warnings);
    for flows in &scenarios {
        let options = RunOptions {
            keep_log: false,
            warnings: warnings.clone(),
        };
        let outcome = run_flows(&config, flows, &options)?;
        if args.time {
            eprintln!(
                "event loop: {:.3} s, {:.0} requests/s, {:.1} ns an event",
                outcome.loop_seconds,
                outcome.summary.total.requests as f64 / outcome.loop_seconds,
                outcome.loop_seconds * 1e9 / outcome.summary.counters.events.max(1) as f64
            );
        }
        if args.json {
            println!("{}", summary_line(&outcome.summary)?);
        } else {
            print_summary(&outcome.summary);
        }
    }
    Ok(0)
}

fn presets_command(args: &PresetArgs) -> Result<u8> {
    for preset in &PRESETS {
        if args.name.as_ref().is_some_and(|name| name != preset.name) {
            continue;
        }
        println!("{:<14} {}", preset.name, preset.product);
        for (keys, from) in preset.provenance {
            println!("{:<14}   {from:?}: {keys}", "");
        }
        let config = preset.scaled(256, 32)?;
        for published in preset.published {
            let (unit, scale) = match published.workload {
                Figure::SequentialRead | Figure::SequentialWrite => ("GB/s", 1e9),
                _ => ("k/s", 1e3),
            };
            let value = published.value / scale;
            if args.measure {
                let seen = measure(&config, published.workload)? / scale;
                let off = (seen / value - 1.0) * 100.0;
                println!(
                    "{:<14}   {:?}: published {value:.2} {unit}, simulated {seen:.2} ({off:+.0} %)",
                    "", published.workload
                );
            } else {
                println!(
                    "{:<14}   {:?}: published {value:.2} {unit}",
                    "", published.workload
                );
            }
        }
    }
    if let Some(name) = &args.name {
        preset(name)?;
    }
    Ok(0)
}

fn summary_line(summary: &Summary) -> Result<String> {
    let mut value = serde_json::to_value(summary)
        .map_err(|error| Error::usage("write summary", error.to_string()))?;
    if let Some(object) = value.as_object_mut() {
        object.insert("type".to_owned(), "summary".into());
        object.insert("version".to_owned(), 1.into());
    }
    Ok(value.to_string())
}

fn print_summary(summary: &Summary) {
    println!("drive {}", summary.drive);
    println!(
        "{:<10} {:>10} {:>12} {:>10} {:>12} {:>12} {:>12}",
        "flow", "requests", "IOPS", "MB/s", "mean us", "p99 us", "p99.99 us"
    );
    for flow in summary.flows.iter().chain(std::iter::once(&summary.total)) {
        println!(
            "{:<10} {:>10} {:>12.0} {:>10.1} {:>12.2} {:>12.2} {:>12.2}",
            flow.name,
            flow.requests,
            flow.iops,
            flow.bytes_per_s / 1e6,
            flow.mean_response_ns / 1e3,
            flow.p99_response_ns as f64 / 1e3,
            flow.p9999_response_ns as f64 / 1e3
        );
    }
    println!("write amplification {:.3}", summary.write_amplification);
    println!("energy {:.3} J", summary.energy_joules);
    for (name, share) in &summary.breakdown.utilisation {
        println!("{name} used {:.1} %", share * 100.0);
    }
}
