//! `sim policies`: the comparisons as tables, CSV, JSON and SVG.
//!
//! Contract: tables on standard output, or one JSON object with `--json`; with `--out` a folder gets
//! `policies.csv`, `policies.json` and a chart a metric, never over existing files without `--force`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use outcore::error::{Error, Result};
use serde_json::json;

use super::{
    Experiment, Metric, PolicyOptions, mechanisms, networks, sampling_table, schedules, to_csv,
    to_svg, to_table,
};
use crate::units::parse_size;

/// Which comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Figs. 4 to 6: networks, static and page against dynamic and fine.
    Networks,
    /// Figs. 7 to 9: Rodinia kernels, scheduling x allocation order.
    Schedules,
    /// Small random writes with each mechanism alone.
    Mechanisms,
}

/// `sim policies`.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// Comparisons; all without.
    #[arg(value_enum)]
    pub which: Vec<Which>,
    /// Preset of the drive.
    #[arg(long, default_value = "pm9a3")]
    pub preset: String,
    /// Requests of a run.
    #[arg(long, default_value_t = 40_000)]
    pub requests: u64,
    /// Fine mapping unit.
    #[arg(long, default_value = "4KiB")]
    pub fine: String,
    /// Size of the small writes by which each mechanism is compared alone.
    #[arg(long, default_value = "4KiB", value_name = "SIZE")]
    pub write: String,
    /// Blocks of a large chunk.
    #[arg(long, default_value_t = 8)]
    pub stride: u32,
    /// Acknowledge writes from the drive's DRAM.
    #[arg(long)]
    pub cached: bool,
    /// Leave out sustained writes, which take most of the time.
    #[arg(long)]
    pub burst: bool,
    /// Simulate only a sample of a network's kernels, enough for this error of their total time,
    /// such as 0.05 (Allegro); raise --requests with it.
    #[arg(long, value_name = "EPS")]
    pub sample: Option<f64>,
    /// Simulate all kernels as well and say how far off the sample is.
    #[arg(long, requires = "sample")]
    pub check: bool,
    /// Seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder for CSV, JSON and charts; made if it is missing.
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Overwrite files in it.
    #[arg(long)]
    pub force: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &PolicyArgs) -> Result<u8> {
    let size = |text: &str| parse_size(text).map_err(|cause| Error::usage("read options", cause));
    let options = PolicyOptions {
        preset: args.preset.clone(),
        fine_bytes: size(&args.fine)?,
        write_bytes: size(&args.write)?,
        requests: args.requests,
        stride: args.stride,
        cached: args.cached,
        sustained: !args.burst,
        sample_eps: args.sample,
        sample_check: args.check,
        seed: args.seed,
    };
    let all = [Which::Networks, Which::Schedules, Which::Mechanisms];
    let mut experiments = Vec::new();
    for which in all {
        if args.which.is_empty() || args.which.contains(&which) {
            experiments.push(match which {
                Which::Networks => networks(&options)?,
                Which::Schedules => schedules(&options)?,
                Which::Mechanisms => mechanisms(&options)?,
            });
        }
    }
    let value = json!({
        "type": "summary", "version": 1, "options": options, "experiments": experiments,
    });
    if let Some(folder) = &args.out {
        write_all(folder, args.force, &experiments, &value.to_string())?;
    }
    if args.json {
        say!("{value}");
        return Ok(0);
    }
    for experiment in &experiments {
        say!("{}\n", experiment.title);
        for metric in Metric::ALL {
            say!("{}", to_table(experiment, metric));
        }
        if let Some(table) = sampling_table(experiment) {
            say!("{table}");
        }
    }
    Ok(0)
}

fn write_all(folder: &Path, force: bool, experiments: &[Experiment], json: &str) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::io("make folder", &error).path(folder))?;
    let write = |name: String, text: &str| write_new(&folder.join(name), force, text);
    write("policies.csv".to_owned(), &to_csv(experiments))?;
    write("policies.json".to_owned(), json)?;
    for experiment in experiments {
        for metric in Metric::ALL {
            let name = format!("{}-{}.svg", experiment.name, metric.name());
            write(name, &to_svg(experiment, metric)?)?;
        }
    }
    Ok(())
}

fn write_new(path: &Path, force: bool, text: &str) -> Result<()> {
    let fail = |error: std::io::Error| {
        let is_there = error.kind() == std::io::ErrorKind::AlreadyExists;
        let error = Error::io("write results", &error).path(path);
        if is_there {
            error.hint("--force overwrites it")
        } else {
            error
        }
    };
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(force)
        .truncate(force)
        .create_new(!force)
        .open(path)
        .map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)
}
