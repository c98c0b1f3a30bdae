//! `sim presets`: the named drives, the sources of their values, and how accurate they are.
//!
//! Contract: `--measure` simulates every published figure, and the random reads over queue depth,
//! on a scaled drive. Drives are simulated in parallel and printed in order.

use clap::Args;
use outcore_io::Result;
use outcore_io::units::parse_bytes;
use rayon::prelude::*;
use serde::Serialize;

use super::json;
use crate::presets::{Figure, PRESETS, Preset, Value, depth_curve, measure, preset};

/// Queue depths of the curve.
const DEPTHS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// `sim presets`.
#[derive(Debug, Args)]
pub struct PresetArgs {
    /// Simulate the published figures, and random reads over queue depth (takes a minute).
    #[arg(long)]
    pub measure: bool,
    /// Print the preset as TOML, to start a drive of your own from. The file describes the whole
    /// drive, of which `--preset` simulates 16GiB by default.
    #[arg(long, requires = "name")]
    pub toml: bool,
    /// With --toml: the drive with this much flash, as `--preset` with the same size simulates it.
    #[arg(long, requires = "toml")]
    pub drive_size: Option<String>,
    /// Print JSON Lines.
    #[arg(long)]
    pub json: bool,
    /// Only this preset.
    pub name: Option<String>,
}

#[derive(Serialize)]
struct Row {
    figure: Figure,
    published: f64,
    simulated: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    name: &'static str,
    product: &'static str,
    values: Vec<Value>,
    figures: Vec<Row>,
    random_reads_by_depth: Vec<(u32, f64)>,
}

fn report(preset: &Preset, measured: bool) -> Result<Report> {
    let config = preset.scaled(256, 32)?;
    let mut figures = Vec::new();
    for published in preset.published {
        let simulated = measured
            .then(|| measure(&config, published.workload))
            .transpose()?;
        figures.push(Row {
            figure: published.workload,
            published: published.value,
            simulated,
        });
    }
    let random_reads_by_depth = if measured && !preset.published.is_empty() {
        depth_curve(&config, &DEPTHS)?
    } else {
        Vec::new()
    };
    Ok(Report {
        name: preset.name,
        product: preset.product,
        values: preset.values()?,
        figures,
        random_reads_by_depth,
    })
}

pub(super) fn run(args: &PresetArgs) -> Result<u8> {
    let chosen: Vec<&Preset> = match &args.name {
        Some(name) => vec![preset(name)?],
        None => PRESETS.iter().collect(),
    };
    if args.toml {
        for preset in chosen {
            let text = match &args.drive_size {
                Some(size) => preset.of_size(parse_bytes(size)?)?.to_toml()?,
                None => preset.text()?,
            };
            crate::say::text(&text);
        }
        return Ok(0);
    }
    let reports: Vec<Result<Report>> = chosen
        .par_iter()
        .map(|preset| report(preset, args.measure))
        .collect();
    for report in reports {
        let report = report?;
        if args.json {
            say!("{}", json(&report)?);
        } else {
            print(&report, args.name.is_some());
        }
    }
    Ok(0)
}

fn print(report: &Report, in_full: bool) {
    say!("{:<20} {}", report.name, report.product);
    if in_full {
        for value in &report.values {
            say!(
                "  {:<40} {:<10} {}",
                format!("{}.{} = {}", value.table, value.key, value.value),
                format!("{:?}", value.provenance).to_lowercase(),
                value.note
            );
        }
    }
    for row in &report.figures {
        let (unit, scale) = match row.figure {
            Figure::SequentialRead | Figure::SequentialWrite => ("GB/s", 1e9),
            _ => ("k/s", 1e3),
        };
        let name = format!("{:?}", row.figure);
        let simulated = row.simulated.map(|simulated| {
            let off = (simulated / row.published - 1.0) * 100.0;
            format!(", simulated {:>8.2} ({off:+.0} %)", simulated / scale)
        });
        say!(
            "  {name:<16} published {:>8.2} {unit}{}",
            row.published / scale,
            simulated.unwrap_or_default()
        );
    }
    if !report.random_reads_by_depth.is_empty() {
        say!("  random reads of 4 KiB, k/s by depth:");
        for (depth, rate) in &report.random_reads_by_depth {
            say!("    {depth:>4}  {:>8.1}", rate / 1e3);
        }
    }
}
