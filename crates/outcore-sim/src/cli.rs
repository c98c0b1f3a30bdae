//! The subcommands of `outcore sim` as clap arguments and one function that runs them.
//!
//! Contract: results go to standard output (a table, or JSON Lines with `--json`), all else to
//! standard error. [`run`] returns the exit code of a command that worked.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use outcore::error::{Error, Result};

use crate::config::{Compat, DriveConfig};
use crate::mqsim::{import_drive, import_workload};
use crate::presets::{Figure, PRESETS, measure, preset};
use crate::report::Summary;
use crate::run::{RunOptions, run as run_flows};

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
    }
}

fn run_command(args: &RunArgs) -> Result<u8> {
    let compat = compat(&args.compat)?;
    let mut warnings = Vec::new();
    let config = drive(&args.ssd, compat, &mut warnings)?;
    let scenarios = import_workload(&args.workload, compat, &mut warnings)?;
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    for flows in &scenarios {
        let options = RunOptions {
            keep_log: false,
            warnings: warnings.clone(),
        };
        let outcome = run_flows(&config, flows, &options)?;
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
        let config = preset.scaled(96, 96)?;
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
