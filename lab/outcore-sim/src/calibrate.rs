//! Fits a preset to a drive that `outcore drives probe` or `outcore bench io` measured.
//!
//! Model: geometry and policies are those of a base preset. Five values are fitted, one after the
//! other, in rounds:
//! - the read latency of the flash, to random reads one at a time;
//! - the firmware's time per command, to the best rate of random reads;
//! - the link's rate, to sequential reads;
//! - the program latency, to sequential writes;
//! - the flash buses, where they would limit a figure.
//!
//! Every value is scaled by target / simulated, which converges if the value is the bottleneck. If
//! the base has a throttle, its rates are fitted to the sequential rates instead of the link and
//! the program latency.
//!
//! Random reads at depths between the first and the last are held back: no value is fitted to them.
//! They show whether the fitted drive also has the rates that it was not fitted to.
//!
//! Values without a measurement stay unchanged. A measurement of a file in memory, or through the
//! page cache, describes memory and not a drive.

use std::collections::BTreeMap;

use outcore_io::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use crate::config::DriveConfig;
use crate::presets::{Figure, depth_curve, measure};
use crate::quantities::{NS, SECOND};

const OPERATION: &str = "calibrate drive";
const ROUNDS: u32 = 6;
/// Largest deviation at which the fit stops.
const CLOSE: f64 = 0.01;

/// Measured figures; 0 if not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Targets {
    /// Name of the drive.
    pub name: String,
    /// Sequential reads, bytes per second.
    pub read_bytes_per_s: f64,
    /// Sequential writes, bytes per second.
    pub write_bytes_per_s: f64,
    /// Random reads of 4 KiB per second, by requests in flight, in rising order.
    pub iops_by_depth: Vec<(u32, f64)>,
}

/// One figure of a fit.
#[derive(Debug, Clone, Serialize)]
pub struct Fit {
    /// Name of the figure.
    pub figure: String,
    /// Measured value.
    pub target: f64,
    /// Value simulated with the fitted drive.
    pub simulated: f64,
    /// Whether no value was fitted to this figure, so that the figure checks the fit.
    pub is_held_back: bool,
}

/// A fitted drive.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// The drive, with the size of the base.
    pub config: DriveConfig,
    /// Deviation of every figure.
    pub fits: Vec<Fit>,
}

impl Calibrated {
    /// Largest deviation, as a share of the target.
    pub(crate) fn worst(&self) -> f64 {
        worst_of(self.fits.iter())
    }

    /// Largest deviation among the figures that it was fitted to, as a share of the target.
    fn worst_fitted(&self) -> f64 {
        worst_of(self.fits.iter().filter(|fit| !fit.is_held_back))
    }
}

fn worst_of<'a>(fits: impl Iterator<Item = &'a Fit>) -> f64 {
    fits.map(|fit| (fit.simulated / fit.target - 1.0).abs())
        .fold(0.0, f64::max)
}

/// The part of a drives file that is used here.
#[derive(serde::Deserialize)]
struct DrivesFile {
    #[serde(default)]
    drive: Vec<toml::Table>,
    #[serde(default)]
    drives: Vec<toml::Table>,
}

/// Reads the output of `outcore drives probe`: its drives file (TOML), or its JSON Lines, which
/// also has the rates by depth; or the report of `outcore bench io` (JSON). Returns one entry per
/// drive.
///
/// # Errors
/// The text has none of these forms, or contains no drive with a measured value.
pub fn read_targets(text: &str) -> Result<Vec<Targets>> {
    let is_json = text.trim_start().starts_with('{');
    let found = if is_json {
        from_json(text)?
    } else {
        from_toml(text)?
    };
    let measured: Vec<Targets> = found
        .into_iter()
        .filter(|t| {
            t.read_bytes_per_s > 0.0 || t.write_bytes_per_s > 0.0 || !t.iops_by_depth.is_empty()
        })
        .collect();
    if measured.is_empty() {
        return Err(
            Error::usage(OPERATION, "no drive in it has been measured").hint(
                "make it with `outcore drives probe DIR --json` or `outcore bench io DIR --json`",
            ),
        );
    }
    Ok(measured)
}

fn from_toml(text: &str) -> Result<Vec<Targets>> {
    let file: DrivesFile =
        toml::from_str(text).map_err(|error| crate::config::toml_error(OPERATION, text, &error))?;
    let mut found = Vec::new();
    for table in file.drive.iter().chain(&file.drives) {
        let rate = |key: &str| match table.get(key) {
            Some(toml::Value::String(text)) => outcore_io::units::parse_rate(text)
                .map(|rate| rate as f64)
                .map_err(|cause| Error::usage(OPERATION, format!("{key}: {cause}"))),
            Some(toml::Value::Integer(rate)) => Ok(*rate as f64),
            _ => Ok(0.0),
        };
        let name = table.get("name").and_then(toml::Value::as_str);
        let dir = table.get("dir").and_then(toml::Value::as_str);
        let iops = table.get("read_iops").and_then(toml::Value::as_integer);
        let depth = table.get("queue_depth").and_then(toml::Value::as_integer);
        let depth = depth.and_then(|depth| u32::try_from(depth).ok());
        found.push(Targets {
            name: name.or(dir).unwrap_or("drive").to_owned(),
            read_bytes_per_s: rate("read_bandwidth")?,
            write_bytes_per_s: rate("write_bandwidth")?,
            iops_by_depth: iops
                .filter(|iops| *iops > 0)
                .map(|iops| (depth.unwrap_or(64).max(64), iops as f64))
                .into_iter()
                .collect(),
        });
    }
    Ok(found)
}

fn from_json(text: &str) -> Result<Vec<Targets>> {
    let mut found = Vec::new();
    // A report's own file is one object over several lines.
    if let Ok(report) = serde_json::from_str::<Value>(text)
        && report["sections"].is_array()
    {
        return Ok(from_report(&report).into_iter().collect());
    }
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(line)
            .map_err(|error| Error::usage(OPERATION, format!("line {}: {error}", number + 1)))?;
        if value["report"]["sections"].is_array() {
            found.extend(from_report(&value["report"]));
            continue;
        }
        // The event itself, or an object in it.
        let Some(drive) = [&value, &value["drive"], &value["data"]]
            .into_iter()
            .find(|value| value["iops_by_depth"].is_array())
        else {
            continue;
        };
        let rate = |key: &str| drive[key].as_f64().unwrap_or(0.0);
        let curve = drive["iops_by_depth"].as_array();
        let mut iops_by_depth: Vec<(u32, f64)> = curve
            .into_iter()
            .flatten()
            .filter_map(|rate| Some((rate["depth"].as_u64()? as u32, rate["per_s"].as_f64()?)))
            .filter(|(depth, rate)| *depth > 0 && *rate > 0.0)
            .collect();
        iops_by_depth.sort_by_key(|(depth, _)| *depth);
        found.push(Targets {
            name: drive["name"].as_str().unwrap_or("drive").to_owned(),
            read_bytes_per_s: rate("read_bytes_per_s"),
            write_bytes_per_s: rate("write_bytes_per_s"),
            iops_by_depth,
        });
    }
    Ok(found)
}

/// Above this number of requests in flight, a rate measures the machine that submits them.
const REPORTED_DEPTH_MAX: u64 = 1024;

/// One drive from a report of `outcore bench io`: its table by number of drives and, if the report
/// covers a single drive, random reads by threads and depth.
fn from_report(report: &Value) -> Option<Targets> {
    let list = |value: &'_ Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let tables: Vec<Value> = list(report, "sections")
        .iter()
        .flat_map(|section| list(section, "tables"))
        .collect();
    let table = |id: &str| tables.iter().find(|table| table["id"] == id);
    let by_count = table("drives")?;
    let alone = list(by_count, "rows")
        .into_iter()
        .find(|row| row[0] == 1.0)?;
    let of_one = |name: &str| {
        let columns = list(by_count, "columns");
        let at = columns.iter().position(|column| column["name"] == name)?;
        alone[at].as_f64()
    };
    let mut curve = BTreeMap::new();
    if list(by_count, "rows").len() == 1
        && let Some(table) = table("depths-random-read")
    {
        for row in list(table, "rows") {
            let cells = row.as_array().into_iter().flatten();
            for (column, rate) in list(table, "columns").iter().zip(cells) {
                let name = column["name"].as_str().unwrap_or_default();
                let depth = name
                    .strip_suffix(" in flight")
                    .and_then(|depth| depth.parse::<u64>().ok());
                let threads = row[0].as_f64().map(|threads| threads as u64);
                let Some((depth, (threads, rate))) = depth.zip(threads.zip(rate.as_f64())) else {
                    continue;
                };
                let together = depth.saturating_mul(threads);
                if (1..=REPORTED_DEPTH_MAX).contains(&together) && rate > 0.0 {
                    let best = curve.entry(together as u32).or_insert(rate);
                    *best = rate.max(*best);
                }
            }
        }
    }
    if curve.is_empty() {
        // The table by number of drives keeps 32 requests in flight.
        curve.extend(of_one("random reader").map(|rate| (32, rate)));
    }
    Some(Targets {
        name: "measured".to_owned(),
        read_bytes_per_s: of_one("streamer").unwrap_or(0.0),
        write_bytes_per_s: of_one("writer").unwrap_or(0.0),
        iops_by_depth: curve.into_iter().collect(),
    })
}

/// Fits `base` to `targets`. Every round simulates every figure, which takes some seconds; `base`
/// should be small (a scaled preset).
///
/// # Errors
/// The base cannot be simulated.
pub fn calibrate(base: &DriveConfig, targets: &Targets) -> Result<Calibrated> {
    let mut config = base.clone();
    config.name.clone_from(&targets.name);
    prepare(&mut config, targets);
    let mut best: Option<Calibrated> = None;
    for _ in 0..ROUNDS {
        let fits = compare(&config, targets)?;
        let now = Calibrated {
            config: config.clone(),
            fits,
        };
        let is_better = best
            .as_ref()
            .is_none_or(|best| now.worst_fitted() < best.worst_fitted());
        adjust(&mut config, targets, &now.fits);
        if is_better {
            best = Some(now);
        }
        if best
            .as_ref()
            .is_some_and(|best| best.worst_fitted() < CLOSE)
        {
            break;
        }
    }
    best.ok_or_else(|| Error::usage(OPERATION, "there is nothing to fit"))
}

/// Relaxes limits that would bound a figure but are not fitted themselves.
fn prepare(config: &mut DriveConfig, targets: &Targets) {
    let wanted = targets.read_bytes_per_s.max(targets.write_bytes_per_s);
    let channels = f64::from(config.flash.channels) * f64::from(config.flash.bus_bytes);
    let bus = (1.5 * wanted / channels) as u64;
    config.flash.bus.0 = config.flash.bus.0.max(bus);
    if let Some((depth, best)) = targets.iops_by_depth.last() {
        config.host.command_interval.0 = (SECOND as f64 / best) as u64;
        config.host.fetch_depth = config.host.fetch_depth.max(*depth);
    }
}

fn compare(config: &DriveConfig, targets: &Targets) -> Result<Vec<Fit>> {
    let mut fits = Vec::new();
    let depths: Vec<u32> = targets
        .iops_by_depth
        .iter()
        .map(|(depth, _)| *depth)
        .collect();
    let curve = depth_curve(config, &depths)?;
    for (at, ((depth, target), (_, simulated))) in
        targets.iops_by_depth.iter().zip(curve).enumerate()
    {
        fits.push(Fit {
            is_held_back: at > 0 && at + 1 < depths.len(),
            figure: format!("random reads at depth {depth}, per second"),
            target: *target,
            simulated,
        });
    }
    for (name, figure, target) in [
        (
            "sequential reads, bytes per second",
            Figure::SequentialRead,
            targets.read_bytes_per_s,
        ),
        (
            "sequential writes, bytes per second",
            Figure::SequentialWrite,
            targets.write_bytes_per_s,
        ),
    ] {
        if target > 0.0 {
            fits.push(Fit {
                figure: name.to_owned(),
                target,
                simulated: measure(config, figure)?,
                is_held_back: false,
            });
        }
    }
    Ok(fits)
}

fn scale(value: u64, factor: f64) -> u64 {
    // One round changes a value by at most a factor of eight: if it is not a bottleneck, a larger
    // change has no effect.
    ((value as f64) * factor.clamp(0.125, 8.0)).max(1.0) as u64
}

fn adjust(config: &mut DriveConfig, targets: &Targets, fits: &[Fit]) {
    let mut at = fits.iter();
    let curve: Vec<&Fit> = at.by_ref().take(targets.iops_by_depth.len()).collect();
    if let (Some((1, _)), Some(fit)) = (targets.iops_by_depth.first(), curve.first()) {
        // One request at a time: the difference of the latencies is taken from the flash, then from
        // the firmware.
        let lacking = SECOND as f64 / fit.target - SECOND as f64 / fit.simulated;
        for read in &mut config.flash.read {
            let wanted = read.0 as f64 + lacking;
            read.0 = wanted.max(NS as f64 * 500.0) as u64;
        }
        let first = config.flash.read.first().map_or(0.0, |read| read.0 as f64);
        if first <= NS as f64 * 500.0 {
            let less = config.host.command_overhead.0 as f64 + lacking;
            config.host.command_overhead.0 = less.max(0.0) as u64;
        }
    }
    if let Some(fit) = curve.last() {
        let interval = &mut config.host.command_interval.0;
        *interval = scale(*interval, fit.simulated / fit.target);
    }
    if targets.read_bytes_per_s > 0.0
        && let Some(fit) = at.next()
    {
        let rate = if config.throttle.read.0 > 0 {
            &mut config.throttle.read.0
        } else {
            &mut config.host.pcie_lane_rate.0
        };
        *rate = scale(*rate, fit.target / fit.simulated);
    }
    if targets.write_bytes_per_s > 0.0
        && let Some(fit) = at.next()
    {
        if config.throttle.write.0 > 0 {
            let rate = &mut config.throttle.write.0;
            *rate = scale(*rate, fit.target / fit.simulated);
            return;
        }
        for program in &mut config.flash.program {
            program.0 = scale(program.0, fit.simulated / fit.target).max(NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::presets::preset;

    #[test]
    fn a_drive_is_found_again_from_its_own_figures() {
        let drive = preset("pm963").unwrap().scaled(128, 32).unwrap();
        let targets = Targets {
            name: "found".to_owned(),
            read_bytes_per_s: measure(&drive, Figure::SequentialRead).unwrap(),
            write_bytes_per_s: measure(&drive, Figure::SequentialWrite).unwrap(),
            iops_by_depth: depth_curve(&drive, &[1, 64]).unwrap(),
        };
        let base = preset("970pro").unwrap().scaled(128, 32).unwrap();
        let fitted = calibrate(&base, &targets).unwrap();
        assert!(fitted.worst() < 0.05, "{:?}", fitted.fits);
        assert_eq!(fitted.config.name, "found");
    }

    #[test]
    fn a_throttle_is_fitted_and_depths_between_the_ends_are_held_back() {
        let mut drive = preset("throttled").unwrap().scaled(128, 32).unwrap();
        drive.throttle.read.0 = 20_000_000;
        drive.throttle.write.0 = 30_000_000;
        let targets = Targets {
            name: "slower".to_owned(),
            read_bytes_per_s: measure(&drive, Figure::SequentialRead).unwrap(),
            write_bytes_per_s: measure(&drive, Figure::SequentialWrite).unwrap(),
            iops_by_depth: depth_curve(&drive, &[1, 4, 64]).unwrap(),
        };
        let base = preset("throttled").unwrap().scaled(128, 32).unwrap();
        let fitted = calibrate(&base, &targets).unwrap();
        assert!(fitted.worst() < 0.05, "{:?}", fitted.fits);
        let read = fitted.config.throttle.read.0 as f64;
        assert!((read / 20e6 - 1.0).abs() < 0.05, "{read}");
        let held: Vec<bool> = fitted.fits.iter().map(|fit| fit.is_held_back).collect();
        assert_eq!(held, [false, true, false, false, false]);
    }

    #[test]
    fn both_forms_of_a_probe_are_read() {
        let toml = "[[drive]]\nname = \"d0\"\ndir = \"/mnt/d0\"\nread_bandwidth = \"2GB/s\"\nwrite_bandwidth = \"1GB/s\"\nread_iops = 400000\n";
        let targets = read_targets(toml).unwrap();
        assert_eq!(targets.len(), 1);
        assert_eq!(targets[0].read_bytes_per_s, 2e9);
        assert_eq!(targets[0].iops_by_depth, [(64, 400_000.0)]);
        let json = "{\"type\":\"begin\"}\n{\"event\":\"drive\",\"name\":\"d1\",\"read_bytes_per_s\":3000000000,\"iops_by_depth\":[{\"depth\":4,\"per_s\":30000},{\"depth\":1,\"per_s\":9000}]}\n";
        let targets = read_targets(json).unwrap();
        assert_eq!(
            (targets[0].name.as_str(), targets[0].read_bytes_per_s),
            ("d1", 3e9)
        );
        assert_eq!(targets[0].iops_by_depth, [(1, 9000.0), (4, 30_000.0)]);
        assert!(
            read_targets("[[drive]]\ndir = \"/mnt\"\n")
                .unwrap_err()
                .to_string()
                .contains("probe")
        );
        assert!(read_targets("{\"x\":1}\n{\n").is_err());
    }

    #[test]
    fn a_report_of_bench_io_is_read_as_its_file_and_as_a_summary() {
        let head = |names: &[&str]| -> Vec<Value> {
            names.iter().map(|name| json!({"name": name})).collect()
        };
        let report = |counts: Value| {
            json!({"v": 1, "sections": [{"tables": [
                {"id": "depths-random-read", "columns": head(&["threads", "1 in flight", "64 in flight", "peak"]),
                 "rows": [[1.0, 9000.0, 90_000.0, 90_000.0], [2.0, 17_000.0, null, 17_000.0]]},
                {"id": "drives", "columns": head(&["drives", "streamer", "of ideal", "writer", "random reader"]),
                 "rows": counts},
            ]}]})
        };
        let one = report(json!([[1.0, 3e9, 1.0, 2e9, 50_000.0]]));
        let targets = &read_targets(&format!("{one:#}\n")).unwrap()[0];
        assert_eq!(
            (targets.read_bytes_per_s, targets.write_bytes_per_s),
            (3e9, 2e9)
        );
        assert_eq!(
            targets.iops_by_depth,
            [(1, 9000.0), (2, 17_000.0), (64, 90_000.0)]
        );
        let lines = format!(
            "{}\n{}\n",
            json!({"event": "begin"}),
            json!({"report": one})
        );
        assert_eq!(read_targets(&lines).unwrap()[0], *targets);
        // The depths of several drives together do not apply to one drive.
        let two = report(json!([
            [1.0, 3e9, 1.0, 2e9, 50_000.0],
            [2.0, 6e9, 1.0, 4e9, 99_000.0]
        ]));
        assert_eq!(
            read_targets(&two.to_string()).unwrap()[0].iops_by_depth,
            [(32, 50_000.0)]
        );
        assert!(read_targets("{\"sections\":[]}").is_err());
    }
}
