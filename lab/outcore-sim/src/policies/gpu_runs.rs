//! Runs networks on the simulated GPU with each drive (Figs. 4 to 6), and shows which conditions
//! make the effects so large.
//!
//! Contract: a run has the first kernels of repeated passes, up to a number of requests to the
//! drive, or a sample of the paper's whole run. Equal settings give equal points. Bounds: one drive
//! per core.

use outcore_io::Result;
use rayon::prelude::*;
use serde::Serialize;

use super::{
    Experiment, MECHANISMS, Mechanism, Metric, Point, PolicyOptions, SECTOR_BYTES, Sampling,
};
use crate::allegro::AllegroOptions;
use crate::config::DriveConfig;
use crate::gpu::sampled::{Sample, sample};
use crate::gpu::workloads::Network;
use crate::gpu::{
    GpuConfig, GpuReport, Path, Reads, Scheduling, Setup, Workload, Writes, run as run_gpu,
};
use crate::quantities::Size;

const NETWORKS: [Network; 3] = [Network::Bert, Network::Gpt2, Network::Resnet50];

/// How the GPU issues requests. Each condition adds to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A block waits for its reads, 8 in flight, and for its writes; units of 4 KiB; every access
    /// goes to the drive.
    ClosedLoop,
    /// Writes leave as evictions.
    Evictions,
    /// Reads are spread over the kernel's computation and do not wait for answers.
    KernelTime,
    /// A submission queue holds 65,535 commands.
    Queue,
    /// Requests and fine mapping units are sectors.
    Sectors,
    /// The GPU's memory keeps the bytes that were read. One pass has run before.
    Memory,
}

impl Condition {
    /// All, in the order in which they are added.
    pub const ALL: [Condition; 6] = [
        Condition::ClosedLoop,
        Condition::Evictions,
        Condition::KernelTime,
        Condition::Queue,
        Condition::Sectors,
        Condition::Memory,
    ];

    const fn name(self) -> &'static str {
        match self {
            Condition::ClosedLoop => "closed loop",
            Condition::Evictions => "+ evictions",
            Condition::KernelTime => "+ reads by time",
            Condition::Queue => "+ queue of 65,535",
            Condition::Sectors => "+ sectors",
            Condition::Memory => "+ weights in memory",
        }
    }

    fn gpu(self) -> GpuConfig {
        let gpu = GpuConfig::default();
        GpuConfig {
            memory_bytes: if self >= Condition::Memory {
                gpu.memory_bytes
            } else {
                0
            },
            request_bytes: if self >= Condition::Sectors {
                SECTOR_BYTES
            } else {
                0
            },
            reads: if self >= Condition::KernelTime {
                Reads::Time
            } else {
                Reads::Answers
            },
            writes: if self >= Condition::Evictions {
                Writes::Evict
            } else {
                Writes::Wait
            },
            ..gpu
        }
    }
}

/// How much of a network runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Length {
    /// The first kernels of repeated passes whose requests to the drive add up to this number.
    Requests(u64),
    /// A sample of this many kernels, with about as many requests as given.
    Sampled { kernels: u64, requests: u64 },
}

/// A run of one network on one drive.
pub(super) struct NetworkRun<'a> {
    pub(super) options: &'a PolicyOptions,
    pub(super) network: Network,
    pub(super) row: String,
    pub(super) column: String,
    pub(super) length: Length,
    pub(super) condition: Condition,
    /// The GPU has memory, whatever the condition.
    pub(super) has_memory: bool,
    pub(super) drive: DriveConfig,
    pub(super) scheduling: Scheduling,
}

impl NetworkRun<'_> {
    /// Runs it.
    pub(super) fn point(self) -> Result<Point> {
        let gpu = self.gpu();
        match self.length {
            Length::Requests(requests) => {
                let whole = self.network.workload(requests, &gpu, self.options.seed);
                let Some(eps) = self.options.sample_eps else {
                    return Ok(self.whole_point(&self.simulate(whole)?));
                };
                let end_seconds = match self.options.sample_check {
                    true => Some(self.simulate(whole.clone())?.total.end_seconds),
                    false => None,
                };
                let launches = whole.kernels.len() as u64;
                let options = allegro(eps, 1);
                let drawn = sample(&whole, launches, &options, self.lead(), self.options.seed)?;
                self.sampled_point(drawn, end_seconds)
            }
            Length::Sampled { kernels, requests } => {
                let pass = self.network.one_pass(&gpu);
                // The number of samples follows from the kernels that make `requests` requests. It
                // is divided among the kinds of kernels.
                let front = self.network.workload(requests, &gpu, self.options.seed);
                let mut kinds: Vec<_> = pass.kernels.iter().map(|k| (&k.name, k.grid)).collect();
                kinds.sort_unstable();
                kinds.dedup();
                let lead = self.lead();
                let each = kinds.len() * (lead + 1);
                let samples_min = (front.kernels.len() / each).max(2) as u64;
                let options = allegro(self.options.sample_eps.unwrap_or(0.05), samples_min);
                let drawn = sample(&pass, kernels, &options, lead, self.options.seed)?;
                self.sampled_point(drawn, None)
            }
        }
    }

    /// The number of kernels that lead to a sampled one. If blocks do not wait for the drive, a
    /// kernel competes with the requests of the kernels before it. Here, these are the kernels of
    /// one layer.
    fn lead(&self) -> usize {
        match self.condition {
            Condition::ClosedLoop => 0,
            _ => 12,
        }
    }

    fn gpu(&self) -> GpuConfig {
        let mut gpu = self.condition.gpu();
        if self.has_memory {
            gpu.memory_bytes = GpuConfig::default().memory_bytes;
        }
        gpu
    }

    fn simulate(&self, workload: Workload) -> Result<GpuReport> {
        let mut drive = self.drive.clone();
        if self.condition >= Condition::Queue {
            drive.host.queue_entries = 65_536;
        }
        run_gpu(&Setup {
            gpu: self.gpu(),
            drive,
            workloads: vec![workload],
            scheduling: self.scheduling,
            path: Path::InStorage,
            caching: self.options.caching(),
            host: None,
            seed: self.options.seed,
        })
    }

    fn sampled_point(&self, drawn: Sample, end_seconds: Option<f64>) -> Result<Point> {
        let report = self.simulate(drawn.workload.clone())?;
        let estimate = drawn.estimate(&report);
        Ok(Point {
            iops: estimate.iops,
            response_us: estimate.response_us,
            end_ms: estimate.end_seconds * 1e3,
            end_to_end_us: None,
            sample: Some(Sampling {
                kernels: estimate.kernels,
                simulated: estimate.simulated,
                end_error: end_seconds.map(|end| estimate.end_seconds / end - 1.0),
            }),
            ..self.whole_point(&report)
        })
    }

    fn whole_point(&self, report: &GpuReport) -> Point {
        Point {
            row: self.row.clone(),
            column: self.column.clone(),
            requests: report.total.requests,
            iops: report.total.iops,
            response_us: report.total.mean_response_us,
            p99_us: report.total.p99_response_us,
            end_ms: report.total.end_seconds * 1e3,
            end_to_end_us: Some(report.total.mean_wait_us),
            write_amplification: report.write_amplification,
            digest: report.digest.clone(),
            sample: None,
        }
    }
}

fn allegro(eps: f64, samples_min: u64) -> AllegroOptions {
    AllegroOptions {
        eps,
        samples_min,
        ..AllegroOptions::default()
    }
}

/// The drives without and with each mechanism, and the pair of the baseline and MQMS' drive.
const SWITCHED: [Mechanism; 4] = [MECHANISMS[0], MECHANISMS[2], MECHANISMS[1], MECHANISMS[5]];
const ENDS: [Mechanism; 2] = [MECHANISMS[0], MECHANISMS[5]];

/// A network, a length and a condition.
struct Row {
    name: String,
    network: Network,
    length: Length,
    condition: Condition,
}

/// Runs each network, length and condition on each drive.
fn compare(options: &PolicyOptions, columns: &[Mechanism], rows: &[Row]) -> Result<Vec<Point>> {
    let mut runs = Vec::new();
    for row in rows {
        let condition = row.condition;
        for (column, allocation, is_fine) in columns.iter().copied() {
            let mut drive = options.drive(allocation, is_fine, "CWDP")?;
            if is_fine && condition >= Condition::Sectors {
                drive.mapping.unit = Size(options.fine_bytes.unwrap_or(SECTOR_BYTES));
                drive.validate()?;
            }
            runs.push(NetworkRun {
                options,
                network: row.network,
                row: row.name.clone(),
                column: column.to_owned(),
                length: row.length,
                condition,
                has_memory: false,
                drive,
                scheduling: Scheduling::Auto {
                    stride: options.stride,
                },
            });
        }
    }
    runs.into_par_iter().map(NetworkRun::point).collect()
}

/// The two lengths of a run.
fn lengths(options: &PolicyOptions) -> [u64; 2] {
    [options.requests, options.requests.saturating_mul(4)]
}

/// Figs. 4 to 6: the networks on the baseline drive, with each mechanism, and on MQMS' drive, in
/// two lengths and as a sample of all kernels of the paper's run. With
/// [`PolicyOptions::sample_eps`] only the first length is run, as a sample.
///
/// # Errors
/// An unknown preset, a unit that does not divide its page, or a run that fails.
pub fn networks(options: &PolicyOptions) -> Result<Experiment> {
    let condition = match options.is_closed_loop {
        true => Condition::ClosedLoop,
        false => Condition::Memory,
    };
    let mut rows = Vec::new();
    for network in NETWORKS {
        let name = network.name();
        for requests in lengths(options) {
            let row = format!("{name}, {requests} requests");
            rows.push(Row {
                name: row,
                network,
                length: Length::Requests(requests),
                condition,
            });
            if options.sample_eps.is_some() {
                break;
            }
        }
        if let Some(kernels) = network.paper_kernels()
            && options.sample_eps.is_none()
        {
            let row = format!("{name}, all {kernels} kernels");
            let requests = options.requests;
            let length = Length::Sampled { kernels, requests };
            rows.push(Row {
                name: row,
                network,
                length,
                condition,
            });
        }
    }
    let fine = match options.is_closed_loop {
        true => options.fine_bytes(),
        false => options.fine_bytes.unwrap_or(SECTOR_BYTES),
    };
    let kind = match options.is_closed_loop {
        true => "blocks wait",
        false => "arrivals by kernel time",
    };
    Ok(Experiment {
        name: "networks",
        metrics: Metric::PAPER,
        figure: Some(4),
        title: format!(
            "networks on {}, {kind}, fine units of {} B",
            options.preset, fine
        ),
        columns: SWITCHED.map(|(name, ..)| name.to_owned()).to_vec(),
        rows: rows.iter().map(|row| row.name.clone()).collect(),
        points: compare(options, &SWITCHED, &rows)?,
    })
}

/// The networks under each [`Condition`], in two lengths.
///
/// # Errors
/// As [`networks`].
pub fn conditions(options: &PolicyOptions) -> Result<Experiment> {
    let mut rows = Vec::new();
    for network in NETWORKS {
        for requests in lengths(options) {
            for condition in Condition::ALL {
                let row = format!(
                    "{}, {requests} requests, {}",
                    network.name(),
                    condition.name()
                );
                rows.push(Row {
                    name: row,
                    network,
                    length: Length::Requests(requests),
                    condition,
                });
            }
        }
    }
    let whole = PolicyOptions {
        sample_eps: None,
        ..options.clone()
    };
    Ok(Experiment {
        name: "conditions",
        metrics: Metric::PAPER,
        figure: None,
        title: format!(
            "networks on {}, one condition after the other",
            options.preset
        ),
        columns: ENDS.map(|(name, ..)| name.to_owned()).to_vec(),
        rows: rows.iter().map(|row| row.name.clone()).collect(),
        points: compare(&whole, &ENDS, &rows)?,
    })
}
