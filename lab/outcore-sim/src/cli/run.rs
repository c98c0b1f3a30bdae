//! `sim run` and `sim sweep`: workloads on one drive, once or over values of any parameter.
//!
//! Contract: results go to standard output (a table, or JSON Lines with `--json`), warnings to
//! standard error. Output files are either complete or absent, and replace existing files only with
//! `--force`. A file that cannot be written is rejected before the work.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use outcore_io::drive::NewFile;
use outcore_io::drive::paths;
use outcore_io::{Error, Result};
use outcore_report::ReportArgs;
use outcore_traces::{FORMAT_HELP, Format, parse_time_unit};

use super::page::{Asked, Given, of_run, of_sweep};
use super::{DriveArgs, compat, json, warn_all};
use crate::array::block::{BlockOptions, Loop, load_list};
use crate::config::{Compat, DriveConfig, split_setting};
use crate::fit::Fit;
use crate::mqsim::import_workload;
use crate::plot::{View, run_svg};
use crate::report::Summary;
use crate::requests::{OPERATION as WRITE_REQUESTS, Table, write_requests};
use crate::run::{RunOptions, run as run_flows};
use crate::sweep::show::{to_csv, to_svg};
use crate::sweep::{Axis, Metric, SweepOptions, sweep};
use crate::workload::{FlowConfig, Origin};
use crate::workload_file::WorkloadFile;

/// `sim run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The drive.
    #[command(flatten)]
    pub drive: DriveArgs,
    /// Workload: MQSim's XML, or TOML. Default: random reads of 4 KiB.
    #[arg(long)]
    pub workload: Option<PathBuf>,
    /// A block trace as the workload, at its recorded times, or with --depth requests in flight.
    #[arg(long, conflicts_with = "workload")]
    pub trace: Option<PathBuf>,
    /// Format of the trace.
    #[arg(long, help = FORMAT_HELP, requires = "trace")]
    pub format: Option<Format>,
    /// Unit of the times of the trace, if it differs from that of the format: s, ms, us, ns, 100ns.
    #[arg(long = "time-unit", value_name = "UNIT", value_parser = parse_time_unit, requires = "trace")]
    pub time_unit_ns: Option<u64>,
    /// Number of requests of the trace in flight.
    #[arg(long, requires = "trace")]
    pub depth: Option<u32>,
    /// How requests of a trace are mapped onto the drive: refuse (a request beyond its end is an
    /// error), wrap (modulo its size) or scale (in proportion).
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value_t,
        hide_possible_values = true
    )]
    pub fit: Fit,
    /// Change a value of the flows (repeatable): depth=32, size=4KiB, read=0.7, requests=1000,
    /// pattern, hot, align, deviation, interval, stop, working_set, occupancy, namespace, handle,
    /// append, caching, class, seed, name, channels, chips, dies or planes.
    #[arg(long = "flow", value_name = "KEY=VALUE", conflicts_with = "trace")]
    pub flows: Vec<String>,
    /// Serve about this many requests before measuring: this gives sustained rates, on a drive in
    /// the steady state of its own load.
    #[arg(long, value_name = "REQUESTS", default_value_t = 0)]
    pub warm_up: u64,
    /// Whose quirks to reproduce: none or mqsim.
    #[arg(long, default_value = "none")]
    pub compat: String,
    /// Write every request to this file: .csv, or .parquet if the build supports it.
    #[arg(long, value_name = "FILE", alias = "requests-csv", value_parser = parse_table_name)]
    pub requests: Option<PathBuf>,
    /// Draw the percentiles of the response time into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub latency_svg: Option<PathBuf>,
    /// Draw requests per second over time into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub iops_svg: Option<PathBuf>,
    /// Write the whole report to a file.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Print JSON Lines.
    #[arg(long)]
    pub json: bool,
    /// Print on standard error how long the event loop took.
    #[arg(long)]
    pub time: bool,
}

/// The name of the table of requests. A number is an error, because the user probably means the
/// number of requests.
fn parse_table_name(text: &str) -> Result<PathBuf> {
    match text.parse::<f64>() {
        Ok(_) => Err(
            Error::usage("read arguments", format!("{text} is a number, not a file")).hint(format!(
                "--flow requests={text} is the number of requests; --requests FILE writes each of them"
            )),
        ),
        Err(_) => Ok(PathBuf::from(text)),
    }
}

/// `sim sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// A parameter and its values, such as flash.channels=4,8,16 or flow.depth=1,16,256
    /// (repeatable: every combination is run).
    #[arg(long, required = true, value_name = "KEY=VALUE,...")]
    pub vary: Vec<String>,
    /// The drive.
    #[command(flatten)]
    pub drive: DriveArgs,
    /// Workload as TOML. Default: random reads of 4 KiB.
    #[arg(long)]
    pub workload: Option<PathBuf>,
    /// Change a value of the flows, such as depth=32 (repeatable).
    #[arg(long = "flow", value_name = "KEY=VALUE")]
    pub flows: Vec<String>,
    /// Serve about this many requests at every point before measuring: this gives sustained rates,
    /// on a drive in the steady state of its own load.
    #[arg(long, value_name = "REQUESTS", default_value_t = 0)]
    pub warm_up: u64,
    /// Number of points that run at the same time. Default: one per core, or fewer where memory is
    /// short.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// The metric of the last column and of the chart: iops, bytes_per_s, mean_ns, p99_ns, end_ns
    /// or write_amplification.
    #[arg(long, default_value = "iops")]
    pub metric: String,
    /// Write the points as CSV to this file.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Draw the metric over the first parameter into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the whole report to a file.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Print JSON Lines.
    #[arg(long)]
    pub json: bool,
}

fn read(path: &Path, what: &str) -> Result<String> {
    paths::read_text(&format!("read {what}"), path)
}

/// The file for the results, if the user asked for one.
pub(super) fn new_file(path: Option<&PathBuf>, is_forced: bool) -> Result<Option<NewFile>> {
    path.map(|path| NewFile::at("write results", path, is_forced))
        .transpose()
}

fn workload_file(path: Option<&PathBuf>, settings: &[String]) -> Result<WorkloadFile> {
    let mut file = match path {
        Some(path) => {
            WorkloadFile::from_toml(&read(path, "workload")?).map_err(|error| error.path(path))?
        }
        None => WorkloadFile::one(),
    };
    for setting in settings {
        let (key, value) = split_setting(setting)?;
        // A flow may be impossible until all of its values are set.
        file = file.set_unchecked(key, value)?;
    }
    file.flows()?;
    Ok(file)
}

fn is_toml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// The flows of every scenario.
fn scenarios(
    args: &RunArgs,
    compat: Compat,
    warnings: &mut Vec<String>,
) -> Result<Vec<Vec<FlowConfig>>> {
    if let Some(path) = &args.trace {
        let options = BlockOptions {
            format: args.format,
            time_unit_ns: args.time_unit_ns,
            pace: match args.depth {
                Some(depth) => Loop::Closed { depth },
                None => Loop::Open { speedup: 1.0 },
            },
            requests_max: 0,
        };
        let (list, more) = load_list(path, &options)?;
        warnings.extend(more);
        let mut flows = WorkloadFile::one().flows()?;
        for flow in &mut flows {
            flow.name = "trace".to_owned();
            flow.origin = Origin::List(list.clone());
        }
        return Ok(vec![flows]);
    }
    match &args.workload {
        Some(path) if !is_toml(path) => {
            if !args.flows.is_empty() {
                return Err(
                    Error::usage("read options", "--flow changes TOML workloads only")
                        .hint("edit the XML file, or write the workload as TOML"),
                );
            }
            import_workload(path, compat, warnings)
        }
        path => Ok(vec![workload_file(path.as_ref(), &args.flows)?.flows()?]),
    }
}

pub(super) fn run(args: &RunArgs) -> Result<u8> {
    let began = Instant::now();
    let compat = compat(&args.compat)?;
    let mut warnings = Vec::new();
    let config = args.drive.config_for(compat, &mut warnings)?;
    let scenarios = scenarios(args, compat, &mut warnings)?;
    warn_all(&warnings);
    let requests = match &args.requests {
        Some(path) => {
            Table::of(path)?;
            Some(NewFile::at(WRITE_REQUESTS, path, args.report.force)?)
        }
        None => None,
    };
    let charts = [
        (
            new_file(args.latency_svg.as_ref(), args.report.force)?,
            View::Latency,
        ),
        (
            new_file(args.iops_svg.as_ref(), args.report.force)?,
            View::Iops,
        ),
    ];
    let saver = args.report.saver()?;
    let is_drawn = charts.iter().any(|(file, _)| file.is_some()) || !saver.is_empty();
    let keep_log = requests.is_some() || is_drawn;
    let mut log = Vec::new();
    let mut summaries = Vec::new();
    for flows in &scenarios {
        let options = RunOptions {
            keep_log,
            warm_up: args.warm_up,
            fit: args.fit,
            warnings: warnings.clone(),
            ..RunOptions::default()
        };
        let mut outcome = run_flows(&config, flows, &options)?;
        log.append(&mut outcome.log);
        // The warnings of the input have been printed already.
        warn_all(&outcome.summary.warnings[warnings.len()..]);
        if args.time {
            eprintln!(
                "event loop: {:.3} s, {:.0} requests/s, {:.1} ns per event",
                outcome.loop_seconds,
                outcome.summary.total.requests as f64 / outcome.loop_seconds,
                outcome.loop_seconds * 1e9 / outcome.summary.counters.events.max(1) as f64
            );
        }
        if args.json {
            say!("{}", summary_line(&outcome.summary)?);
        } else {
            print_summary(&outcome.summary);
        }
        summaries.push(outcome.summary);
    }
    if let Some(file) = &requests {
        write_requests(file, &log)?;
    }
    let names: Vec<String> = scenarios
        .iter()
        .flat_map(|flows| flows.iter().map(|flow| flow.name.clone()))
        .collect();
    for (file, view) in charts {
        if let Some(file) = file {
            file.write(run_svg(&config.name, &names, &log, view)?)?;
        }
    }
    if !saver.is_empty() {
        let options = given(args);
        let asked = Asked { options, began };
        saver.write(&of_run(&summaries, &names, &log, &asked))?;
    }
    Ok(0)
}

/// The options of a run, for its report.
fn given(args: &RunArgs) -> Vec<Given> {
    let mut given = args.drive.given();
    let path = |path: &Option<PathBuf>| {
        let path = path.as_ref();
        path.map_or_else(String::new, |path| path.display().to_string())
    };
    given.extend([
        Given::new("workload", path(&args.workload)),
        Given::new("trace", path(&args.trace)),
        Given::new("flow", args.flows.join(", ")),
        Given::new("warm-up", args.warm_up.to_string()),
    ]);
    given
}

/// The options of a sweep, for its report.
fn given_to_sweep(args: &SweepArgs) -> Vec<Given> {
    let mut given = args.drive.given();
    given.extend([
        Given::new("vary", args.vary.join(", ")),
        Given::new("flow", args.flows.join(", ")),
        Given::new("warm-up", args.warm_up.to_string()),
    ]);
    given
}

pub(super) fn sweep_command(args: &SweepArgs) -> Result<u8> {
    let began = Instant::now();
    let metric: Metric = args.metric.parse()?;
    let axes: Vec<Axis> = args
        .vary
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_>>()?;
    let drive: DriveConfig = args.drive.config()?;
    let workload = workload_file(args.workload.as_ref(), &args.flows)?;
    let csv = new_file(args.csv.as_ref(), args.report.force)?;
    let svg = new_file(args.svg.as_ref(), args.report.force)?;
    let saver = args.report.saver()?;
    let options = SweepOptions {
        warm_up: args.warm_up,
        threads: args.threads.map_or(0, usize::from),
    };
    let points = sweep(&drive, &workload, &axes, options)?;
    if let Some(file) = csv {
        file.write(to_csv(&points))?;
    }
    if let Some(file) = svg {
        file.write(to_svg(&points, metric)?)?;
    }
    if !saver.is_empty() {
        let options = given_to_sweep(args);
        let asked = Asked { options, began };
        saver.write(&of_sweep(&drive.name, &points, metric, &asked))?;
    }
    if args.json {
        for point in &points {
            say!("{}", json(point)?);
        }
        return Ok(0);
    }
    let keys: Vec<String> = axes
        .iter()
        .map(|axis| format!("{:>18}", axis.key))
        .collect();
    // A metric with a column of its own is not shown twice.
    let is_extra = !matches!(metric, Metric::Iops);
    let extra = |text: String| {
        if is_extra {
            format!("  {text}")
        } else {
            String::new()
        }
    };
    say!(
        "{} {:>12} {:>12} {:>12} {:>10}{}",
        keys.join(" "),
        "IOPS",
        "mean us",
        "p99 us",
        "MB/s",
        extra(metric.name().to_owned())
    );
    for point in &points {
        let values = point
            .settings
            .iter()
            .map(|setting| format!("{:>18}", setting.value));
        let total = &point.summary.total;
        say!(
            "{} {:>12.0} {:>12.2} {:>12.2} {:>10.1}{}",
            values.collect::<Vec<_>>().join(" "),
            total.iops,
            total.mean_response_ns / 1e3,
            total.p99_response_ns as f64 / 1e3,
            total.bytes_per_s / 1e6,
            extra(format!("{:.4}", metric.of(&point.summary)))
        );
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
    say!("drive {}", summary.drive);
    say!(
        "{:<10} {:>10} {:>12} {:>10} {:>12} {:>12} {:>12} {:>12}",
        "flow",
        "requests",
        "IOPS",
        "MB/s",
        "mean us",
        "p99 us",
        "p99.99 us",
        "max us"
    );
    for flow in summary.flows.iter().chain(std::iter::once(&summary.total)) {
        say!(
            "{:<10} {:>10} {:>12.0} {:>10.1} {:>12.2} {:>12.2} {:>12.2} {:>12.2}",
            flow.name,
            flow.requests,
            flow.iops,
            flow.bytes_per_s / 1e6,
            flow.mean_response_ns / 1e3,
            flow.p99_response_ns as f64 / 1e3,
            flow.p9999_response_ns as f64 / 1e3,
            flow.max_response_ns as f64 / 1e3
        );
    }
    let total = &summary.total;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let over = seconds(total.rates_over_ns);
    match total.rates_over_ns == total.sim_end_ns {
        true => say!("IOPS and MB/s: requests completed in {over:.6} s, until the last event"),
        false => say!(
            "IOPS and MB/s: requests completed in {over:.6} s, until the last request; the last \
             event was at {:.6} s",
            seconds(total.sim_end_ns)
        ),
    }
    say!("write amplification {:.3}", summary.write_amplification);
    let counters = &summary.counters;
    if counters.slc_units > 0 || counters.folds > 0 {
        say!(
            "SLC cache: {:.1} % of the host's units; {} blocks folded",
            counters.slc_units as f64 / counters.user_units.max(1) as f64 * 100.0,
            counters.folds
        );
    }
    if counters.zone_resets > 0 || counters.zone_closes > 0 {
        say!(
            "zones: {} reset, {} closed by the drive",
            counters.zone_resets,
            counters.zone_closes
        );
    }
    for (what, parts) in [
        ("namespace", &summary.namespaces),
        ("handle", &summary.handles),
    ] {
        for part in parts {
            say!(
                "{what} {}: write amplification {:.3}; {} units written, {} moved",
                part.name,
                part.write_amplification,
                part.host_units,
                part.moved_units
            );
        }
    }
    say!("energy {:.3} J", summary.energy_joules);
    let time = &summary.breakdown;
    say!("link {:.2} us per request", time.link_ns / 1e3);
    say!(
        "per flash operation of the host: queued {:.2} us, bus {:.2} us, array {:.2} us, waiting \
         for the bus {:.2} us",
        time.wait_die_ns / 1e3,
        time.bus_ns / 1e3,
        time.array_ns / 1e3,
        time.wait_bus_ns / 1e3
    );
    say!(
        "collection used {:.1} % of the dies' time",
        time.collection_share * 100.0
    );
    for (name, share) in &time.utilisation {
        say!("{name} used {:.1} %", share * 100.0);
    }
}
