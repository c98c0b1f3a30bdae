//! `sim activesort`: the paper's tables, its memory sweep and what modern drives change.
//!
//! Contract: one table after the other on standard output, or one JSON object with `--json`.

use clap::Args;
use outcore::error::{Error, Result};
use serde_json::json;

use super::MergeDrive;
use super::merge::Order;
use super::sort::{
    Array, Method, SortJob, SortReport, TABLE_1_MB_PER_S, TABLE_2_MB, modern_cores, modern_dma,
    paper_job, sort, table_1, table_2,
};
use crate::presets::preset;
use crate::units::{parse_rate, parse_size};

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
    /// Host memory beside the modern drives.
    #[arg(long, default_value = "16GB")]
    pub memory: String,
    /// Modern drives.
    #[arg(long, default_value_t = 8)]
    pub drives: u32,
    /// What all modern drives together can move, such as 146GB/s.
    #[arg(long)]
    pub shared: Option<String>,
    /// Nanoseconds in which the host merges a record from several drives; 0: disjoint key ranges.
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

/// Runs the command.
pub fn run(args: &ActiveSortArgs) -> Result<u8> {
    let prototype = MergeDrive::prototype();
    let tables = [
        (
            "Table 1, MB/s",
            TABLE_1_ROWS,
            TABLE_1_MB_PER_S,
            table_1(&prototype)?,
        ),
        (
            "Table 2, MB, 1 GB of memory",
            TABLE_2_ROWS,
            TABLE_2_MB,
            table_2(&prototype)?,
        ),
    ];
    let sweep = memory_sweep(&prototype)?;
    let modern = modern_rows(args)?;
    if args.json {
        let value = json!({
            "table_1_mb_per_s": tables[0].3, "table_2_mb": tables[1].3,
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
    for (title, names, paper, here) in tables {
        say!("{title}: paper, simulated");
        for at in 0..4 {
            let off = (here[at] / paper[at] - 1.0) * 100.0;
            say!(
                "  {:<22} {:>9.2} {:>9.2} ({off:+.1} %)",
                names[at],
                paper[at],
                here[at]
            );
        }
    }
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
            (1.0 - row.random.seconds / row.conventional.seconds) * 100.0
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
    let usage = |cause| Error::usage("read options", cause);
    let size = |text: &str| parse_size(text).map_err(usage);
    let job = SortJob {
        data_bytes: size(&args.size)?,
        record_bytes: size(&args.record)?,
        memory_bytes: size(&args.memory)?,
        order: Order::Random,
    };
    let config = preset(&args.preset)?.config()?;
    let shared = args.shared.as_ref().map_or(Ok(0), |text| parse_rate(text));
    let shared_bytes_per_s = shared.map_err(usage)?;
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
