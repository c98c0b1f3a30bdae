//! `sim policies`: the comparisons as tables, CSV, JSON and SVG.
//!
//! Contract: prints tables on standard output, or one JSON object with `--json`. With `--out` it
//! writes `policies.csv`, `policies.json` and one chart per metric to a folder. Existing files are
//! overwritten only with `--force`; this is checked before anything is simulated.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use outcore_io::Result;
use outcore_io::drive::{NewFile, folder};
use outcore_io::units::parse_bytes;
use serde_json::json;

use super::show::{sampling_table, to_csv, to_gains, to_svg, to_table};
use super::verdict::verdict_table;
use super::{
    Experiment, Metric, PolicyOptions, arrivals, conditions, mechanisms, networks, schedules,
};
use crate::quantities::{NS, Ps, parse_time};

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Figs. 4 to 6: networks, static allocation and page mapping against dynamic and fine.
    Networks,
    /// Figs. 4 to 6 from a closed loop: each row adds one more condition of the paper.
    Conditions,
    /// Requests of a sector at times that do not depend on the drive: effects as large as in Figs.
    /// 4 to 6.
    Arrivals,
    /// Figs. 7 to 9: Rodinia kernels, scheduling x allocation order.
    Schedules,
    /// Small random writes with each mechanism alone.
    Mechanisms,
}

impl Which {
    const ALL: [Which; 5] = [
        Which::Networks,
        Which::Conditions,
        Which::Arrivals,
        Which::Schedules,
        Which::Mechanisms,
    ];

    /// The figures of its points that are shown.
    const fn metrics(self) -> [Metric; 3] {
        match self {
            Which::Arrivals => Metric::OPEN,
            _ => Metric::PAPER,
        }
    }

    /// Its name, also used in file names.
    pub fn name(self) -> &'static str {
        match self {
            Which::Networks => "networks",
            Which::Conditions => "conditions",
            Which::Arrivals => "arrivals",
            Which::Schedules => "schedules",
            Which::Mechanisms => "mechanisms",
        }
    }
}

/// `sim policies`.
#[derive(Debug, Args)]
pub struct PolicyArgs {
    /// Comparisons [default: all].
    #[arg(value_enum)]
    pub which: Vec<Which>,
    /// Preset of the drive.
    #[arg(long, default_value = "pm9a3")]
    pub preset: String,
    /// Requests of a run; networks, conditions and arrivals also run with four times as many.
    #[arg(long, default_value_t = 40_000)]
    pub requests: u64,
    /// Fine mapping unit [default: 512B for networks, 4KiB for others and for a closed loop].
    #[arg(long, value_name = "SIZE")]
    pub fine: Option<String>,
    /// Let the blocks of networks wait for the drive, and send all their accesses to it.
    #[arg(long)]
    pub closed_loop: bool,
    /// Size of the small writes that compare the mechanisms one by one.
    #[arg(long, default_value = "4KiB", value_name = "SIZE")]
    pub write: String,
    /// Mean time between two requests of `arrivals`.
    #[arg(long, default_value = "1200ns", value_name = "TIME", value_parser = parse_time)]
    pub interval: Ps,
    /// Number of neighbouring blocks that one core gets at a time, in a large chunk.
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
    /// Also simulate all kernels, and print the error of the sample.
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
    let is_asked = |which: &Which| args.which.is_empty() || args.which.contains(which);
    let asked: Vec<Which> = Which::ALL.into_iter().filter(is_asked).collect();
    if let Some(folder) = &args.out {
        make_folder(folder, args.force, &asked)?;
    }
    let options = PolicyOptions {
        preset: args.preset.clone(),
        fine_bytes: args.fine.as_deref().map(parse_bytes).transpose()?,
        is_closed_loop: args.closed_loop,
        write_bytes: parse_bytes(&args.write)?,
        requests: args.requests,
        interval_ns: (args.interval / NS).max(1),
        stride: args.stride,
        cached: args.cached,
        sustained: !args.burst,
        sample_eps: args.sample,
        sample_check: args.check,
        seed: args.seed,
    };
    let mut experiments = Vec::new();
    for which in asked {
        experiments.push(match which {
            Which::Networks => networks(&options)?,
            Which::Conditions => conditions(&options)?,
            Which::Arrivals => arrivals(&options)?,
            Which::Schedules => schedules(&options)?,
            Which::Mechanisms => mechanisms(&options)?,
        });
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
        for metric in experiment.metrics {
            say!("{}", to_table(experiment, metric));
        }
        if let Some(column) = compared(experiment.name) {
            say!("{}", to_gains(experiment, "static, page", column));
        }
        if let Some(table) = sampling_table(experiment) {
            say!("{table}");
        }
    }
    if let Some(table) = verdict_table(&experiments) {
        say!("Figures of the paper\n\n{table}");
    }
    Ok(0)
}

/// The column whose gains over the baseline are shown.
fn compared(experiment: &str) -> Option<&'static str> {
    match experiment {
        "networks" | "conditions" => Some("dynamic, fine"),
        "arrivals" => Some("dynamic, sector"),
        _ => None,
    }
}

const TABLE: &str = "policies.csv";
const JSON: &str = "policies.json";

fn chart(experiment: &str, metric: Metric) -> String {
    format!("{experiment}-{}.svg", metric.name())
}

fn file(folder: &Path, name: &str, is_forced: bool) -> Result<NewFile> {
    NewFile::at("write results", &folder.join(name), is_forced)
}

/// Creates the folder if all files in it may be written.
fn make_folder(folder: &Path, is_forced: bool, asked: &[Which]) -> Result<()> {
    folder::make_dirs(folder)?;
    let has_charts = |which: &&Which| **which != Which::Conditions;
    let charts = asked
        .iter()
        .filter(has_charts)
        .flat_map(|which| which.metrics().map(|metric| chart(which.name(), metric)));
    for name in [TABLE, JSON].map(str::to_owned).into_iter().chain(charts) {
        file(folder, &name, is_forced)?;
    }
    Ok(())
}

fn write_all(folder: &Path, force: bool, experiments: &[Experiment], json: &str) -> Result<()> {
    file(folder, TABLE, force)?.write(to_csv(experiments))?;
    file(folder, JSON, force)?.write(json)?;
    for experiment in experiments {
        // This experiment has too many rows for a chart.
        if experiment.name == Which::Conditions.name() {
            continue;
        }
        for metric in experiment.metrics {
            let name = chart(experiment.name, metric);
            file(folder, &name, force)?.write(to_svg(experiment, metric)?)?;
        }
    }
    Ok(())
}
