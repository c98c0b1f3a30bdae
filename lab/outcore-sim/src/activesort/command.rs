//! `sim activesort`: the paper's tables, its memory sweep, and the effect of modern drives.
//!
//! Contract: one table after the other on standard output, or one JSON object with `--json`.

use clap::Args;
use outcore_io::Result;
use outcore_io::units::{parse_bytes, parse_rate};
use serde_json::json;

use super::MergeDrive;
use super::merge::Order;
use super::sort::{
    Array, Method, SortJob, SortReport, TABLE_1_MB_PER_S, TABLE_2_MB, modern_cores, modern_dma,
    paper_job, sort, table_1, table_2,
};
use crate::presets::preset;

/// The largest saving of ActiveSort in the paper, in percent of the time of two passes.
const GAIN_MAX_PERCENT: f64 = 39.0;

/// `sim activesort`.
#[derive(Debug, Args)]
pub struct ActiveSortArgs {
    /// Modern drive whose channels and link are used.
    #[arg(long, default_value = "pm9a3")]
    pub preset: String,
    /// Bytes to sort on the modern drives.
    #[arg(long, default_value = "256GB")]
    pub size: String,
    /// Bytes of a record on the modern drives.
    #[arg(long, default_value = "4KiB")]
    pub record: String,
    /// Memory of the host with the modern drives.
    #[arg(long, default_value = "16GB")]
    pub memory: String,
    /// Number of modern drives.
    #[arg(long, default_value_t = 8)]
    pub drives: u32,
    /// Rate of all modern drives together, such as 146GB/s.
    #[arg(long)]
    pub shared: Option<String>,
    /// Nanoseconds that the host needs to merge a record from several drives; 0 for drives with
    /// disjoint key ranges.
    #[arg(long, default_value_t = 0.0)]
    pub host_merge_ns: f64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

const TABLE_1_ROWS: [&str; 4] = [
    "write",
    "read",
    "read, merging sorted",
    "read, merging random",
];
/// The values of the drive that were chosen to reproduce the rows of Table 1, one per row.
const TABLE_1_FITTED: [&str; 4] = [
    "program time",
    "read time",
    "cycles per record",
    "prefetches in flight",
];
const TABLE_2_ROWS: [&str; 4] = [
    "ActiveSort reads",
    "ActiveSort writes",
    "NSORT reads",
    "NSORT writes",
];

struct Sweep {
    memory_gib: f64,
    conventional: SortReport,
    random: SortReport,
    sorted: SortReport,
}

impl Sweep {
    /// Time that ActiveSort saves, in percent.
    fn gain(&self) -> f64 {
        (1.0 - self.random.seconds / self.conventional.seconds) * 100.0
    }
}

fn gain_max(sweep: &[Sweep]) -> f64 {
    sweep.iter().map(Sweep::gain).fold(0.0, f64::max)
}

/// Prints the paper's tables: the one that the drive was fitted to, and the one that the fitted
/// drive predicts.
fn print_tables(fitted: [f64; 4], predicted: [f64; 4], gain_max: f64) {
    let row = |name: &str, paper: f64, here: f64, note: &str| {
        // Adding zero removes the sign of a negative zero.
        let off = ((here / paper - 1.0) * 1000.0).round() / 10.0 + 0.0;
        let line = format!("  {name:<36} {paper:>9.2} {here:>9.2} ({off:+.1} %){note}");
        say!("{line}");
    };
    say!("Fitted: the drive's values were chosen to give these figures, so they prove nothing");
    say!(" Table 1, MB/s: paper, simulated");
    for at in 0..4 {
        let by = format!("  by its {}", TABLE_1_FITTED[at]);
        row(TABLE_1_ROWS[at], TABLE_1_MB_PER_S[at], fitted[at], &by);
    }
    say!("Predicted from those values, nothing else fitted: paper, simulated");
    say!(" Table 2, MB that the flash moves, 1 GB of memory");
    for at in 0..4 {
        row(TABLE_2_ROWS[at], TABLE_2_MB[at], predicted[at], "");
    }
    say!(" Time with 1 to 3 GiB of memory, as below");
    row(
        "largest saving over two passes, %",
        GAIN_MAX_PERCENT,
        gain_max,
        "",
    );
}

/// Runs the command.
pub fn run(args: &ActiveSortArgs) -> Result<u8> {
    let prototype = MergeDrive::prototype();
    let (fitted, predicted) = (table_1(&prototype)?, table_2(&prototype)?);
    let sweep = memory_sweep(&prototype)?;
    let modern = modern_rows(args)?;
    if args.json {
        let value = json!({
            "table_1_mb_per_s": fitted, "table_1_fitted_by": TABLE_1_FITTED, "table_2_mb": predicted,
            "gain_max_percent": gain_max(&sweep),
            "memory_sweep": sweep.iter().map(|row| json!({
                "memory_gib": row.memory_gib, "conventional": row.conventional,
                "random": row.random, "sorted": row.sorted,
            })).collect::<Vec<_>>(),
            "modern": modern.iter()
                .map(|(name, drives, report)| json!({"name": name, "drives": drives, "report": report}))
                .collect::<Vec<_>>(),
        });
        say!("{value}");
        return Ok(0);
    }
    print_tables(fitted, predicted, gain_max(&sweep));
    say!("Memory sweep, 2 GiB of 4 KiB records, seconds with one reading of the result");
    say!(
        "  {:>6} {:>12} {:>12} {:>12} {:>8}",
        "GiB",
        "two-pass",
        "ActiveSort",
        "on sorted",
        "gain"
    );
    for row in &sweep {
        say!(
            "  {:>6.2} {:>12.1} {:>12.1} {:>12.1} {:>6.0} %",
            row.memory_gib,
            row.conventional.seconds,
            row.random.seconds,
            row.sorted.seconds,
            row.gain()
        );
    }
    say!(
        "{} of {} records on {}, {} of host memory",
        args.size,
        args.record,
        args.preset,
        args.memory
    );
    say!(
        "  {:<34} {:>6} {:>6} {:>9} {:>9} {:>9} {:>10} {:>6} {:>6}",
        "",
        "drives",
        "runs",
        "sort s",
        "read s",
        "total s",
        "link GB",
        "cpu %",
        "link %"
    );
    for (name, drives, report) in &modern {
        let used = |pick: fn(&super::merge::MergeReport) -> f64| {
            report
                .merge
                .as_ref()
                .map_or(0.0, |merge| pick(merge) * 100.0)
        };
        say!(
            "  {name:<34} {drives:>6} {:>6} {:>9.1} {:>9.1} {:>9.1} {:>10.1} {:>6.0} {:>6.0}",
            report.runs,
            report.sort_seconds,
            report.output_seconds,
            report.seconds,
            report.link_bytes as f64 / 1e9,
            used(|merge| merge.cpu_used),
            used(|merge| merge.link_used)
        );
    }
    Ok(0)
}

fn memory_sweep(drive: &MergeDrive) -> Result<Vec<Sweep>> {
    let one = Array::default();
    (4..=12)
        .map(|quarters: u32| {
            let memory_bytes = u64::from(quarters) << 28;
            let random = paper_job(memory_bytes, Order::Random);
            let sorted = paper_job(memory_bytes, Order::Sorted);
            Ok(Sweep {
                memory_gib: f64::from(quarters) / 4.0,
                conventional: sort(drive, &one, &random, Method::Conventional)?,
                random: sort(drive, &one, &random, Method::ActiveSort)?,
                sorted: sort(drive, &one, &sorted, Method::ActiveSort)?,
            })
        })
        .collect()
}

fn modern_rows(args: &ActiveSortArgs) -> Result<Vec<(String, u32, SortReport)>> {
    let job = SortJob {
        data_bytes: parse_bytes(&args.size)?,
        record_bytes: parse_bytes(&args.record)?,
        memory_bytes: parse_bytes(&args.memory)?,
        order: Order::Random,
    };
    let config = preset(&args.preset)?.config()?;
    let shared = args.shared.as_ref().map(|text| parse_rate(text));
    let shared_bytes_per_s = shared.transpose()?.unwrap_or(0);
    let mut rows = Vec::new();
    for drives in [1, args.drives] {
        let array = Array {
            drives,
            shared_bytes_per_s,
            host_merge_ns: args.host_merge_ns,
        };
        for (cpu_name, cpu) in [("cores copy", modern_cores()), ("DMA", modern_dma())] {
            let drive = MergeDrive::modern(&config, cpu)?;
            for method in [Method::Conventional, Method::ActiveSort, Method::Offloaded] {
                if method == Method::Conventional && cpu_name == "DMA" {
                    continue;
                }
                let name = match method {
                    Method::Conventional => "two passes on the host".to_owned(),
                    Method::ActiveSort => format!("merging read, {cpu_name}"),
                    Method::Offloaded => format!("runs formed in the drive, {cpu_name}"),
                };
                rows.push((name, drives, sort(&drive, &array, &job, method)?));
            }
        }
    }
    Ok(rows)
}
