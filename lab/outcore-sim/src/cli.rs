//! The subcommands of `outcore sim` as clap arguments and one function that runs them.
//!
//! Contract: results go to standard output (a table, or JSON Lines with `--json`), everything else
//! to standard error. [`run`] returns the exit code of a successful command.

mod calibrate;
mod page;
mod presets;
mod replay;
mod run;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use outcore_io::drive::paths;
use outcore_io::units::{self, parse_bytes, parse_positive_rate};
use outcore_io::{Error, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

use self::page::Given;
use crate::config::{Compat, DriveConfig};
use crate::mqsim::import_drive;
use crate::plan::cpu::{CpuCost, recorded};
use crate::plan::nodes::{Cluster, Prices, Store, plan_cluster};
use crate::plan::{SortJob, SortPlan, plan_sort};
use crate::presets::preset;

/// Stack of each thread: the size of a process's first thread.
const STACK_BYTES: usize = 8 << 20;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a workload on one drive.
    Run(run::RunArgs),
    /// List the drives known by name, with their published figures; --measure adds simulated ones.
    Presets(presets::PresetArgs),
    /// Replay a recorded job or a block trace on an array of drives.
    Replay(replay::ReplayArgs),
    /// Run a workload over values of any parameter.
    Sweep(run::SweepArgs),
    /// Fit the values of a drive to a measured drive.
    Calibrate(calibrate::CalibrateArgs),
    /// Predict a sort from its plan.
    Plan(PlanArgs),
    /// Choose launches of a GPU trace whose simulation predicts the whole trace well enough.
    Allegro(crate::allegro::command::AllegroArgs),
    /// Simulate ActiveSort, a drive that merges while it is read, in its prototype and in modern
    /// drives.
    Activesort(crate::activesort::command::ActiveSortArgs),
    /// Simulate a GPU inside the storage: networks, Rodinia kernels or a recorded trace.
    Gpu(crate::gpu::command::GpuArgs),
    /// Compare allocation, mapping and block scheduling, as tables and charts.
    Policies(crate::policies::command::PolicyArgs),
}

/// Which drive is simulated.
#[derive(Debug, Args)]
pub struct DriveArgs {
    /// A drive by name (see `presets`).
    #[arg(long, default_value = "p41")]
    pub preset: String,
    /// Take the drive from a file instead: TOML, or MQSim's XML.
    #[arg(long)]
    pub ssd: Option<PathBuf>,
    /// How much of the preset's flash to simulate. A smaller drive is built and filled faster, and
    /// reads and writes at the same speed. A drive takes about 17 bytes of memory per 4 KiB.
    #[arg(long, default_value = "16GiB")]
    pub drive_size: String,
    /// Change a value of the drive, such as flash.channels=16 (repeatable). `sim presets NAME`
    /// lists all of them.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}

impl DriveArgs {
    /// The selection, for a report.
    fn given(&self) -> Vec<Given> {
        let settings = Given::new("set", self.settings.join(", "));
        match &self.ssd {
            Some(path) => vec![Given::new("drive", path.display().to_string()), settings],
            None => vec![
                Given::new("drive", self.preset.clone()),
                Given::new("size", self.drive_size.clone()),
                settings,
            ],
        }
    }

    /// The selected configuration; warnings go to standard error.
    pub fn config(&self) -> Result<DriveConfig> {
        let mut warnings = Vec::new();
        let config = self.config_for(Compat::None, &mut warnings)?;
        warn_all(&warnings);
        Ok(config)
    }

    fn config_for(&self, compat: Compat, warnings: &mut Vec<String>) -> Result<DriveConfig> {
        let config = match &self.ssd {
            Some(path) => drive(path, compat, warnings)?,
            None => {
                let bytes = parse_bytes(&self.drive_size)?;
                preset(&self.preset)?.of_size(bytes)?
            }
        };
        config.set_all(&self.settings)
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
    /// The job.
    #[arg(default_value = "sort", value_parser = ["sort"])]
    pub job: String,
    /// Bytes to sort, such as 8TB.
    #[arg(long)]
    pub size: String,
    /// Memory, such as 200GB.
    #[arg(long)]
    pub memory: String,
    /// Record size in bytes.
    #[arg(long, default_value_t = 8)]
    pub record_bytes: u64,
    /// Number of cores.
    #[arg(long, default_value_t = 64)]
    pub cores: u32,
    /// Number of drives.
    #[arg(long, default_value_t = 30)]
    pub drives: u32,
    /// Each drive.
    #[command(flatten)]
    pub drive: DriveArgs,
    /// Total rate of all drives, such as 146GB/s.
    #[arg(long)]
    pub shared: Option<String>,
    /// Rate of the memory bus, such as 145GB/s; a byte crosses it five times while it is
    /// distributed and eight times while its bucket is sorted.
    #[arg(long, value_name = "RATE")]
    pub memory_rate: Option<String>,
    /// Take the computation per record from this trace of a sort on the machine in question (made
    /// with `outcore sort --record-io`), instead of measuring it on this machine.
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["distribute_ns", "sort_ns"])]
    pub cpu_from: Option<PathBuf>,
    /// Core nanoseconds to distribute a record [default: measured on this machine].
    #[arg(long)]
    pub distribute_ns: Option<f64>,
    /// Core nanoseconds to sort a record [default: measured on this machine].
    #[arg(long)]
    pub sort_ns: Option<f64>,
    /// Number of machines that sort together, each with this memory, these cores and these drives;
    /// several numbers print one line each.
    #[arg(long, value_delimiter = ',', value_name = "N", requires = "link")]
    pub nodes: Vec<u32>,
    /// Rate of a machine's network link, each way, such as 3GB/s.
    #[arg(long, value_name = "RATE", requires = "nodes")]
    pub link: Option<String>,
    /// The input and the output are in an object store behind the link, not on the machines'
    /// drives.
    #[arg(long, requires = "nodes")]
    pub objects: bool,
    /// Price of a machine per hour.
    #[arg(long, value_name = "MONEY", default_value_t = 0.0, requires = "nodes")]
    pub node_price: f64,
    /// Price of a thousand reads of the object store, of 8 MiB each.
    #[arg(
        long,
        value_name = "MONEY",
        default_value_t = 0.0,
        requires = "objects"
    )]
    pub get_price: f64,
    /// Price of a thousand writes to the object store, of 16 MiB each.
    #[arg(
        long,
        value_name = "MONEY",
        default_value_t = 0.0,
        requires = "objects"
    )]
    pub put_price: f64,
    /// Print JSON Lines.
    #[arg(long)]
    pub json: bool,
}

/// Measures the cost of a record of this size on this machine. The simulator has no access to the
/// engine's sort, so the caller supplies this function.
pub type MeasureCpu<'a> = &'a (dyn Fn(u64) -> Result<CpuCost> + Sync);

/// The limit from the option; 0 without it.
fn shared(text: Option<&String>) -> Result<u64> {
    let Some(text) = text else {
        return Ok(0);
    };
    parse_positive_rate(text).map_err(|error| error.hint("leave the option out for no limit"))
}

/// The cost as given, as recorded, or as measured here. A value that the user did not give is
/// printed on standard error.
fn cpu_cost(args: &PlanArgs, measure: MeasureCpu<'_>) -> Result<CpuCost> {
    if let (Some(distribute_ns), Some(sort_ns)) = (args.distribute_ns, args.sort_ns) {
        return Ok(CpuCost {
            distribute_ns,
            sort_ns,
        });
    }
    let (mut cost, source) = match &args.cpu_from {
        Some(path) => (recorded(path, args.record_bytes)?, "as recorded"),
        None => (measure(args.record_bytes)?, "as measured here"),
    };
    cost.distribute_ns = args.distribute_ns.unwrap_or(cost.distribute_ns);
    cost.sort_ns = args.sort_ns.unwrap_or(cost.sort_ns);
    eprintln!(
        "a record costs {:.1} core nanoseconds to distribute and {:.1} to sort, {source}",
        cost.distribute_ns, cost.sort_ns
    );
    Ok(cost)
}

fn plan_command(args: &PlanArgs, measure: MeasureCpu<'_>) -> Result<u8> {
    let job = SortJob {
        size_bytes: parse_bytes(&args.size)?,
        record_bytes: args.record_bytes,
        memory_bytes: parse_bytes(&args.memory)?,
        cores: args.cores,
        cpu: cpu_cost(args, measure)?,
        memory_bytes_per_s: shared(args.memory_rate.as_ref())?,
    };
    if !args.nodes.is_empty() {
        return plan_nodes(args, &job);
    }
    let plan = plan_sort(
        &job,
        &args.drive.config()?,
        args.drives,
        shared(args.shared.as_ref())?,
    )?;
    if args.json {
        say!("{}", json(&plan)?);
        return Ok(0);
    }
    for phase in &plan.phases {
        say!(
            "{:<32} io {:>8.1} s  cpu {:>8.1} s  memory {:>8.1} s  takes {:>8.1} s",
            phase.name,
            phase.io_seconds,
            phase.cpu_seconds,
            phase.memory_seconds,
            phase.seconds
        );
    }
    say_distributions(&plan, &job);
    say!(
        "total {:.1} s ({:.1} h), bound by {}; array reads {:.1} GB/s, writes {:.1} GB/s",
        plan.seconds,
        plan.seconds / 3600.0,
        plan.bottleneck,
        plan.read_bytes_per_s / 1e9,
        plan.write_bytes_per_s / 1e9
    );
    Ok(0)
}

/// Prints how many times the data go to scratch, and how much memory would make one time enough.
fn say_distributions(plan: &SortPlan, job: &SortJob) {
    let enough = plan.one_distribution_memory_bytes.map(|bytes| {
        let whole_bytes = bytes.next_multiple_of(1 << 20);
        format!("; --memory {} is enough", units::bytes_exact(whole_bytes))
    });
    match plan.distributions {
        0 => say!("no distribution: the data fit in memory"),
        1 => say!("1 distribution: the data go to scratch once"),
        count => say!(
            "{count} distributions: the data go to scratch {count} times. With {}, {} of memory \
             hold too few buckets for a single distribution{}",
            units::counted(job.cores.into(), "thread"),
            units::bytes(job.memory_bytes),
            enough.unwrap_or_default()
        ),
    }
}

/// A line for each number of machines.
fn plan_nodes(args: &PlanArgs, job: &SortJob) -> Result<u8> {
    let drive = args.drive.config()?;
    let shared_bytes_per_s = shared(args.shared.as_ref())?;
    let link_bytes_per_s = shared(args.link.as_ref())?;
    let has_prices = args.node_price + args.get_price + args.put_price > 0.0;
    if !args.json {
        let cost = if has_prices { "       cost" } else { "" };
        say!("  nodes    per node   partition        sort       total  bound by{cost}");
    }
    for &nodes in &args.nodes {
        let cluster = Cluster {
            nodes,
            link_bytes_per_s,
            store: if args.objects {
                Store::Objects
            } else {
                Store::Drives
            },
            prices: Prices {
                node_hour: args.node_price,
                get_thousand: args.get_price,
                put_thousand: args.put_price,
            },
        };
        let plan = plan_cluster(job, &drive, args.drives, shared_bytes_per_s, &cluster)?;
        if args.json {
            say!("{}", json(&plan)?);
            continue;
        }
        let cost = if has_prices {
            format!(" {:>10.2}", plan.nodes_cost + plan.requests_cost)
        } else {
            String::new()
        };
        say!(
            "{nodes:>7} {:>11} {:>9.0} s {:>9.0} s {:>9.0} s  {:<8}{cost}",
            units::bytes(plan.node_bytes),
            plan.stages[0].seconds,
            plan.stages[1].seconds,
            plan.seconds,
            plan.bottleneck
        );
    }
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
        let text = paths::read_text("read drive configuration", path)?;
        return DriveConfig::from_toml(&text).map_err(|error| error.path(path));
    }
    import_drive(path, compat, warnings)
}

/// Runs a subcommand and returns the exit code of a successful command. Plans without a given cost
/// per record call `measure`.
///
/// # Errors
/// The errors of the subcommand; [`Error::kind`] has the exit code.
pub fn run(command: &SimCommand, measure: MeasureCpu<'_>) -> Result<u8> {
    match threads() {
        Some(threads) => threads.install(|| run_here(command, measure)),
        None => run_here(command, measure),
    }
}

/// A pool with as many threads as processors, or as the system grants. Returns `None` if the system
/// grants no thread; the command then runs in the current one.
fn threads() -> Option<ThreadPool> {
    let mut count = std::thread::available_parallelism().map_or(1, usize::from);
    loop {
        let builder = ThreadPoolBuilder::new().stack_size(STACK_BYTES);
        let made = match count {
            // This pool needs no thread from the system: the current thread works in it.
            0 => return builder.num_threads(1).use_current_thread().build().ok(),
            count => builder.num_threads(count).build(),
        };
        match made {
            Ok(threads) => return Some(threads),
            Err(_) => count /= 2,
        }
    }
}

fn run_here(command: &SimCommand, measure: MeasureCpu<'_>) -> Result<u8> {
    match command {
        SimCommand::Run(args) => run::run(args),
        SimCommand::Sweep(args) => run::sweep_command(args),
        SimCommand::Calibrate(args) => calibrate::run(args),
        SimCommand::Presets(args) => presets::run(args),
        SimCommand::Replay(args) => replay::run(args),
        SimCommand::Plan(args) => plan_command(args, measure),
        SimCommand::Allegro(args) => crate::allegro::command::run(args),
        SimCommand::Activesort(args) => crate::activesort::command::run(args),
        SimCommand::Gpu(args) => crate::gpu::command::run(args),
        SimCommand::Policies(args) => crate::policies::command::run(args),
    }
}
