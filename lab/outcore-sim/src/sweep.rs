//! Sweeps any parameter over values: one run of the simulator per combination, on all cores.
//!
//! Contract: points come in the order of the axes, the last axis fastest, independent of the core
//! that ran them. Each point equals a single run with its settings. An error names its settings.
//! Memory: one drive per thread at a time. If the caller gives no number of threads, as many
//! threads run as free memory has room for.

#[cfg(feature = "cli")]
pub(crate) mod show;

use outcore_io::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;

use crate::config::DriveConfig;
use crate::drive::need::{self, AtOnce};
use crate::report::Summary;
use crate::run::{RunOptions, run};
use crate::workload_file::WorkloadFile;

const OPERATION: &str = "sweep parameters";
/// Maximum number of combinations of one sweep.
const POINTS_MAX: usize = 100_000;

/// A parameter and its values: `flash.channels=4,8,16`, or `flow.depth=1,16,64` of the workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Axis {
    /// The key, as in the drive's TOML; keys of the workload begin with `flow.`.
    pub(crate) key: String,
    /// The values.
    pub(crate) values: Vec<String>,
}

impl std::str::FromStr for Axis {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (key, values) = crate::config::split_setting(text)?;
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(
                Error::usage(OPERATION, format!("`{text}` has an empty value"))
                    .hint("write it as flash.channels=4,8,16"),
            );
        }
        Ok(Axis {
            key: key.to_owned(),
            values,
        })
    }
}

/// The value of an axis in a combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// A setting is written as the list of its key and its value.
impl Serialize for Setting {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        [&self.key, &self.value].serialize(to)
    }
}

/// One combination and its outcome.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Point {
    /// Key and value of every axis.
    pub(crate) settings: Vec<Setting>,
    /// Result of the run.
    pub(crate) summary: Summary,
}

/// A figure of a run that is shown and drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    /// Requests per second.
    #[default]
    Iops,
    /// Bytes per second.
    BytesPerS,
    /// Mean response in nanoseconds.
    MeanNs,
    /// 99th percentile of the response.
    P99Ns,
    /// Simulated time.
    EndNs,
    /// Write amplification.
    WriteAmplification,
}

impl Metric {
    /// All metrics, with their names.
    pub(crate) const ALL: [(&'static str, Metric); 6] = [
        ("iops", Metric::Iops),
        ("bytes_per_s", Metric::BytesPerS),
        ("mean_ns", Metric::MeanNs),
        ("p99_ns", Metric::P99Ns),
        ("end_ns", Metric::EndNs),
        ("write_amplification", Metric::WriteAmplification),
    ];

    /// Its value in a run.
    pub(crate) fn of(self, summary: &Summary) -> f64 {
        let total = &summary.total;
        match self {
            Metric::Iops => total.iops,
            Metric::BytesPerS => total.bytes_per_s,
            Metric::MeanNs => total.mean_response_ns,
            Metric::P99Ns => total.p99_response_ns as f64,
            Metric::EndNs => total.sim_end_ns as f64,
            Metric::WriteAmplification => summary.write_amplification,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        Metric::ALL
            .iter()
            .find(|(_, metric)| *metric == self)
            .map_or("", |(name, _)| name)
    }
}

impl std::str::FromStr for Metric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Metric::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, metric)| *metric).ok_or_else(|| {
            let names = Metric::ALL.map(|(name, _)| name);
            Error::usage(OPERATION, format!("`{text}` is not a metric"))
                .hint(format!("known are {}", names.join(", ")))
        })
    }
}

/// How every point of a sweep is run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SweepOptions {
    /// [`RunOptions::warm_up`] of each point.
    pub(crate) warm_up: u64,
    /// Points that run at the same time; 0 means one per core.
    pub(crate) threads: usize,
}

/// Runs every combination of the axes' values.
///
/// # Errors
/// No axis, too many combinations, too little memory, or the first error of a run with its
/// settings.
pub(crate) fn sweep(
    drive: &DriveConfig,
    workload: &WorkloadFile,
    axes: &[Axis],
    options: SweepOptions,
) -> Result<Vec<Point>> {
    let count = axes
        .iter()
        .try_fold(1usize, |product, axis| {
            product.checked_mul(axis.values.len())
        })
        .filter(|count| *count <= POINTS_MAX && !axes.is_empty())
        .ok_or_else(|| {
            Error::usage(
                OPERATION,
                format!("1 to {POINTS_MAX} combinations are possible"),
            )
        })?;
    let points: Vec<Vec<Setting>> = (0..count).map(|at| combination(axes, at)).collect();
    let threads = threads_for(drive, workload, &points, options.threads)?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::usage(OPERATION, error.to_string()))?;
    let outcomes: Vec<Result<Point>> = pool.install(|| {
        points
            .into_par_iter()
            .map(|settings| point(drive, workload, settings, options.warm_up))
            .collect()
    });
    outcomes.into_iter().collect()
}

/// The number of threads: `asked`, or one per core, but no more than points, and no more than the
/// drives for which there is memory.
fn threads_for(
    drive: &DriveConfig,
    workload: &WorkloadFile,
    points: &[Vec<Setting>],
    asked: usize,
) -> Result<usize> {
    let most = match asked {
        0 => rayon::current_num_threads(),
        asked => asked,
    };
    let mut threads = most.min(points.len()).max(1);
    for settings in points {
        let (drive, _) = varied(drive, workload, settings)?;
        loop {
            let at_once = AtOnce {
                drives: threads as u64,
                filling: threads as u64,
            };
            match need::check(&drive, at_once) {
                Ok(()) => break,
                Err(_) if asked == 0 && threads > 1 => threads -= 1,
                Err(error) => return Err(error.hint(place_of(settings))),
            }
        }
    }
    Ok(threads)
}

fn combination(axes: &[Axis], at: usize) -> Vec<Setting> {
    let mut rest = at;
    let mut settings: Vec<Setting> = axes
        .iter()
        .rev()
        .map(|axis| {
            let value = axis.values[rest % axis.values.len()].clone();
            rest /= axis.values.len();
            let key = axis.key.clone();
            Setting { key, value }
        })
        .collect();
    settings.reverse();
    settings
}

/// Text of a combination, for its errors.
fn place_of(settings: &[Setting]) -> String {
    let at = settings
        .iter()
        .map(|Setting { key, value }| format!("{key}={value}"));
    format!("at {}", at.collect::<Vec<_>>().join(" "))
}

/// The drive and the workload of one combination.
fn varied(
    drive: &DriveConfig,
    workload: &WorkloadFile,
    settings: &[Setting],
) -> Result<(DriveConfig, WorkloadFile)> {
    let mut drive = drive.clone();
    let mut workload = workload.clone();
    for Setting { key, value } in settings {
        match key.strip_prefix("flow.") {
            Some(key) => workload = workload.set(key, value)?,
            None => drive = drive.set(key, value)?,
        }
    }
    Ok((drive, workload))
}

fn point(
    drive: &DriveConfig,
    workload: &WorkloadFile,
    settings: Vec<Setting>,
    warm_up: u64,
) -> Result<Point> {
    let (drive, workload) = varied(drive, workload, &settings)?;
    let options = RunOptions {
        warm_up,
        ..RunOptions::default()
    };
    let outcome = run(&drive, &workload.flows()?, &options)
        .map_err(|error| error.hint(place_of(&settings)))?;
    Ok(Point {
        settings,
        summary: outcome.summary,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive() -> DriveConfig {
        let mut drive = DriveConfig {
            precondition: true,
            ..DriveConfig::default()
        };
        drive.flash.blocks = 64;
        drive.flash.pages = 32;
        drive.flash.over_provisioning = 0.2;
        drive
    }

    fn warmed(warm_up: u64) -> SweepOptions {
        SweepOptions {
            warm_up,
            threads: 0,
        }
    }

    fn axes(texts: &[&str]) -> Vec<Axis> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn points_come_in_order_and_equal_their_runs_alone() {
        let workload = WorkloadFile::one().set("requests", "2000").unwrap();
        let axes = axes(&["flash.channels=2,4", "flow.depth=1,8,32"]);
        let points = sweep(&drive(), &workload, &axes, warmed(0)).unwrap();
        assert_eq!(points.len(), 6);
        let seen: Vec<&str> = points
            .iter()
            .map(|p| p.settings[1].value.as_str())
            .collect();
        assert_eq!(seen, ["1", "8", "32", "1", "8", "32"]);
        let alone = drive().set("flash.channels", "4").unwrap();
        let flows = workload.set("depth", "8").unwrap().flows().unwrap();
        let alone = run(&alone, &flows, &RunOptions::default()).unwrap();
        assert_eq!(points[4].summary.digest, alone.summary.digest);
        assert!(points[5].summary.total.iops > points[3].summary.total.iops);
    }

    #[test]
    fn the_number_of_threads_changes_no_point() {
        let workload = WorkloadFile::one().set("requests", "1000").unwrap();
        let axes = axes(&["flash.channels=2,4", "flow.depth=1,8,32"]);
        let with = |threads| {
            let options = SweepOptions {
                warm_up: 0,
                threads,
            };
            let points = sweep(&drive(), &workload, &axes, options).unwrap();
            let digests = points.into_iter().map(|point| point.summary.digest);
            digests.collect::<Vec<_>>()
        };
        let one = with(1);
        assert_eq!(one.len(), 6);
        assert_eq!(with(3), one);
        assert_eq!(with(100), one);
    }

    #[test]
    fn threads_are_as_many_as_asked_for_and_useful() {
        let workload = WorkloadFile::one();
        let points = vec![Vec::new(); 5];
        let threads = |asked| threads_for(&drive(), &workload, &points, asked).unwrap();
        assert_eq!((threads(1), threads(3), threads(9)), (1, 3, 5));
        assert!((1..=5).contains(&threads(0)));
        // A drive of 2.5 GB of tables, of which 2000 fit into no machine's memory.
        let mut large = drive();
        large.flash.blocks = 1 << 12;
        large.flash.pages = 512;
        let points = vec![Vec::new(); 2000];
        let error = threads_for(&large, &workload, &points, 2000).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }

    #[test]
    fn every_point_of_a_sweep_is_warmed_up_as_its_run_alone() {
        let workload = WorkloadFile::one()
            .set("requests", "3000")
            .and_then(|file| file.set("read", "0"))
            .unwrap();
        let points = sweep(
            &drive(),
            &workload,
            &axes(&["flow.depth=4,16"]),
            warmed(1000),
        )
        .unwrap();
        let options = RunOptions {
            warm_up: 1000,
            ..RunOptions::default()
        };
        for (point, depth) in points.iter().zip(["4", "16"]) {
            let flows = workload.set("depth", depth).unwrap().flows().unwrap();
            let alone = run(&drive(), &flows, &options).unwrap().summary;
            assert_eq!(point.summary.digest, alone.digest);
            assert_eq!(point.summary.total.iops, alone.total.iops);
            assert!(point.summary.total.requests <= 2000);
        }
        let error = sweep(&drive(), &workload, &axes(&["flow.depth=4"]), warmed(4000)).unwrap_err();
        assert!(error.to_string().contains("within the warm-up"), "{error}");
    }

    #[test]
    fn a_sweep_that_makes_no_sense_says_where() {
        let workload = WorkloadFile::one();
        assert!(sweep(&drive(), &workload, &[], warmed(0)).is_err());
        let error = sweep(&drive(), &workload, &axes(&["flash.chanels=2"]), warmed(0)).unwrap_err();
        assert!(error.to_string().contains("did you mean"), "{error}");
        assert!("flash.channels=".parse::<Axis>().is_err());
        assert!("flash.channels=1,,2".parse::<Axis>().is_err());
        assert!("latency".parse::<Metric>().is_err());
    }
}
