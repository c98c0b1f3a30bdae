//! `sim allegro`: chooses a sample of a GPU trace and reports its error.
//!
//! Contract: prints a summary on standard output (a table, or JSON with `--json`). `--list` writes
//! the launches of one seed as CSV; it overwrites an existing file only with `--force`.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use outcore_io::drive::NewFile;
use outcore_io::{Error, Result};
use outcore_traces::gpu::{GpuOptions, read_kernels};
use serde_json::json;

use super::{AllegroOptions, Plan, Profile};

const WRITE_LIST: &str = "write list of launches";

/// `sim allegro`.
#[derive(Debug, Args)]
pub struct AllegroArgs {
    /// GPU trace: PyTorch profiler JSON or nsys CSV, packed or not; `-` is standard input.
    pub trace: PathBuf,
    /// Allowed relative error of the total time.
    #[arg(long, default_value_t = 0.05)]
    pub eps: f64,
    /// Seed of the draw.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of seeds over which the true error is measured.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// A cluster is homogeneous if its standard deviation, divided by its mean, is at most this.
    #[arg(long, default_value_t = 0.05)]
    pub homogeneous: f64,
    /// Use only the paper's formula: do not correct for small clusters, and undo no split.
    #[arg(long)]
    pub paper: bool,
    /// Write the launches that `--seed` draws, as CSV.
    #[arg(long)]
    pub list: Option<PathBuf>,
    /// Overwrite the list.
    #[arg(long)]
    pub force: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &AllegroArgs) -> Result<u8> {
    let options = AllegroOptions {
        homogeneous_cv: args.homogeneous,
        ..if args.paper {
            AllegroOptions::paper(args.eps)
        } else {
            AllegroOptions {
                eps: args.eps,
                ..AllegroOptions::default()
            }
        }
    };
    let list = args
        .list
        .as_ref()
        .map(|path| NewFile::at(WRITE_LIST, path, args.force))
        .transpose()?;
    let mut profile = Profile::new();
    let report = read_kernels(&args.trace, &GpuOptions::default(), &mut |kernel| {
        profile.push(&kernel)
    })
    .map_err(|error| error.path(&args.trace))?;
    let plan = profile
        .plan(&options)
        .map_err(|error| error.path(&args.trace))?;
    if let Some(file) = list {
        file.fill(|out| {
            let failed = |error| Error::io(WRITE_LIST, &error).path(file.path());
            write_list(&plan, args.seed, BufWriter::new(out)).map_err(failed)
        })?;
    }
    eprintln!("{report}");
    let accuracy = plan.check(args.seeds);
    if args.json {
        let value = json!({
            "type": "summary", "version": 1, "launches": plan.launches, "groups": plan.groups.len(),
            "clusters": plan.clusters.len(), "samples": plan.samples, "reduction": plan.reduction(),
            "time_share": plan.time_share(args.seed), "total_ns": plan.total_ns as f64,
            "seed": args.seed, "estimate_ns": plan.estimate_ns(args.seed),
            "true_error": plan.error(args.seed), "options": plan.options, "accuracy": accuracy,
        });
        say!("{value}");
        return Ok(0);
    }
    say!(
        "{} launches in {} groups and {} clusters; {} to simulate ({:.2} times fewer, {:.1} % of the time)",
        plan.launches,
        plan.groups.len(),
        plan.clusters.len(),
        plan.samples,
        plan.reduction(),
        plan.time_share(args.seed) * 100.0
    );
    say!(
        "total {:.3} ms, estimated with seed {} {:.3} ms: true error {:.3} %",
        plan.total_ns as f64 / 1e6,
        args.seed,
        plan.estimate_ns(args.seed) / 1e6,
        plan.error(args.seed) * 100.0
    );
    say!(
        "{} seeds: {:.1} % within {:.1} %; error mean {:.3} %, 95th percentile {:.3} %, largest {:.3} %",
        accuracy.seeds,
        accuracy.share_within * 100.0,
        plan.options.eps * 100.0,
        accuracy.error_mean * 100.0,
        accuracy.error_p95 * 100.0,
        accuracy.error_max * 100.0
    );
    Ok(0)
}

fn write_list(plan: &Plan, seed: u64, mut out: impl Write) -> std::io::Result<()> {
    writeln!(out, "launch,weight,duration_ns,grid,block,name")?;
    let dims = |n: [u32; 3]| format!("{}x{}x{}", n[0], n[1], n[2]);
    for draw in plan.draw(seed) {
        let group = &plan.groups[plan.clusters[draw.cluster].group];
        writeln!(
            out,
            "{},{:.6},{},{},{},\"{}\"",
            draw.launch,
            draw.weight,
            draw.duration_ns,
            dims(group.grid),
            dims(group.block),
            group.name.replace('"', "\"\"")
        )?;
    }
    out.flush()
}
