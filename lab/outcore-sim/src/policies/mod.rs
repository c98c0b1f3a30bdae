//! The paper's comparisons of allocation, mapping and scheduling, as tables and plots.
//!
//! Model: MQMS (Gundawar, Chung, Kim, "Towards Performance-Aware Allocation for Accelerated Machine
//! Learning on GPU-SSD Systems"), Figs. 4 to 9: IOPS, device response and end time.
//! - Figs. 4 to 6 run three networks on two drives: static allocation with page-level mapping, and
//!   dynamic allocation with fine mapping.
//! - [`conditions`] starts with blocks that wait for the drive and adds one condition of the paper
//!   after the other. It shows which condition makes the effects of Figs. 4 to 6 so large.
//! - Figs. 7 to 9 run three Rodinia kernels under each combination of block scheduling and
//!   allocation order.
//! - [`arrivals`] sends requests of a sector at random times that do not wait for the drive, as
//!   kernels of a GPU do. The paper's orders of magnitude come from such arrivals.
//! - [`mechanisms`] is an addition that switches each mechanism alone under small random writes.
//!
//! Contract: every point is a run of its own, independent of the others and of their order. The
//! result therefore does not depend on the number of cores, and equal settings give equal digests.
//! Bounds: as many drives in memory as cores.

#[cfg(feature = "cli")]
pub mod command;
mod gpu_runs;
#[cfg(feature = "cli")]
mod show;
#[cfg(feature = "cli")]
mod verdict;

use outcore_io::units::bytes_exact;
use outcore_io::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;

use crate::config::{Allocation, DriveConfig};
use crate::drive::{Caching, QueueConfig};
use crate::gpu::Scheduling;
use crate::gpu::workloads::Network;
use crate::presets::preset;
use crate::quantities::Size;
use crate::run::{RunOptions, run as run_flows};
use crate::workload::{Addresses, FlowConfig, Origin, Pace, Sizes, Synthetic};
pub use gpu_runs::{Condition, conditions, networks};
use gpu_runs::{Length, NetworkRun};

/// A figure of a point that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Requests per second of simulated time.
    Iops,
    /// Mean device response: submission queue to completion.
    Response,
    /// Simulated end time.
    End,
    /// Mean time from a request's arrival to its completion, with the wait for the queue.
    EndToEnd,
}

impl Metric {
    /// The metrics of the paper, in the order of its figures.
    pub(crate) const PAPER: [Metric; 3] = [Metric::Iops, Metric::Response, Metric::End];
    /// The metrics of arrivals that do not wait for the drive.
    pub(crate) const OPEN: [Metric; 3] = [Metric::Iops, Metric::Response, Metric::EndToEnd];

    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Iops => "iops",
            Metric::Response => "response",
            Metric::End => "end",
            Metric::EndToEnd => "end-to-end",
        }
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Workload.
    pub row: String,
    /// Configuration.
    pub column: String,
    /// Completed requests.
    pub requests: u64,
    /// Requests per second.
    pub iops: f64,
    /// Mean device response.
    pub response_us: f64,
    /// Its 99th percentile.
    pub p99_us: f64,
    /// Simulated end time.
    pub end_ms: f64,
    /// Mean time from arrival to completion; `None` where requests wait for one another.
    pub end_to_end_us: Option<f64>,
    /// Units programmed per unit written.
    pub write_amplification: f64,
    /// Digest of all completions.
    pub digest: String,
    /// Set when only a sample of the kernels was simulated.
    pub sample: Option<Sampling>,
}

/// How a point was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sampling {
    /// Kernels that the point represents.
    pub kernels: u64,
    /// Kernels that were simulated.
    pub simulated: u64,
    /// Relative error of the end time against a run of all kernels, if that was simulated.
    pub end_error: Option<f64>,
}

/// A comparison: every row is run under every column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Experiment {
    /// Name in files, such as `networks`.
    pub name: &'static str,
    /// The figures of its points that are shown.
    pub metrics: [Metric; 3],
    /// Number of its first figure in the paper, if it has figures there. An experiment has three
    /// figures.
    pub figure: Option<u32>,
    /// Title of the comparison.
    pub title: String,
    /// Configurations.
    pub columns: Vec<String>,
    /// Workloads.
    pub rows: Vec<String>,
    /// Results, row by row.
    pub points: Vec<Point>,
}

/// Settings of all experiments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyOptions {
    /// Preset of the drive, scaled to 128 blocks of 32 pages per plane (256 of 128 for sustained
    /// writes).
    pub preset: String,
    /// Bytes of the fine mapping unit; if absent, 512 B for [`networks`] and 4 KiB otherwise.
    pub fine_bytes: Option<u64>,
    /// [`networks`] run as a closed loop, in which blocks wait for the drive.
    pub is_closed_loop: bool,
    /// Bytes of a small random write in [`mechanisms`]; a multiple of the sector.
    pub write_bytes: u64,
    /// Requests per run.
    pub requests: u64,
    /// Mean time between two requests of [`arrivals`].
    pub interval_ns: u64,
    /// Number of blocks in a large chunk.
    pub stride: u32,
    /// Writes are acknowledged from DRAM; otherwise after their program.
    pub cached: bool,
    /// Also measure sustained writes, which take most of the time of [`mechanisms`].
    pub sustained: bool,
    /// Simulate only a sample of a network's kernels, chosen for this error of their total time.
    pub sample_eps: Option<f64>,
    /// Simulate all kernels as well, and report the error of the sample.
    pub sample_check: bool,
    /// Seed.
    pub seed: u64,
}

impl Default for PolicyOptions {
    fn default() -> Self {
        PolicyOptions {
            preset: "pm9a3".to_owned(),
            fine_bytes: None,
            is_closed_loop: false,
            write_bytes: 4096,
            requests: 40_000,
            interval_ns: 1_200,
            stride: 8,
            cached: false,
            sustained: true,
            sample_eps: None,
            sample_check: false,
            seed: 1,
        }
    }
}

/// How many blocks per plane and pages per block a scaled drive has.
#[derive(Debug, Clone, Copy)]
struct Geometry {
    blocks: u32,
    pages: u32,
}

impl Geometry {
    const SMALL: Geometry = Geometry {
        blocks: 128,
        pages: 32,
    };
}

impl PolicyOptions {
    fn drive(&self, allocation: Allocation, is_fine: bool, order: &str) -> Result<DriveConfig> {
        self.drive_of(Geometry::SMALL, allocation, is_fine, order)
    }

    fn drive_of(
        &self,
        geometry: Geometry,
        allocation: Allocation,
        is_fine: bool,
        order: &str,
    ) -> Result<DriveConfig> {
        if self.requests == 0 {
            return Err(Error::usage("compare policies", "a run needs requests"));
        }
        let mut drive = preset(&self.preset)?.scaled(geometry.blocks, geometry.pages)?;
        drive.mapping.allocation = allocation;
        drive.mapping.order = order.to_owned();
        drive.mapping.unit = Size(if is_fine { self.fine_bytes() } else { 0 });
        drive.validate()?;
        Ok(drive)
    }

    /// The fine unit: the given one, or 4 KiB.
    fn fine_bytes(&self) -> u64 {
        self.fine_bytes.unwrap_or(4096)
    }

    const fn caching(&self) -> Caching {
        if self.cached {
            Caching::Write
        } else {
            Caching::Off
        }
    }
}

/// A combination of mechanisms: name, allocation, fine mapping.
pub(crate) type Mechanism = (&'static str, Allocation, bool);

/// The combinations.
pub(crate) const MECHANISMS: [Mechanism; 6] = [
    ("static, page", Allocation::Static, false),
    ("static, fine", Allocation::Static, true),
    ("dynamic, page", Allocation::Dynamic, false),
    ("channel, fine", Allocation::RestrictedChannel, true),
    ("die, fine", Allocation::RestrictedDie, true),
    ("dynamic, fine", Allocation::Dynamic, true),
];

/// Figs. 7 to 9: scheduling x allocation order, with static allocation in that order. Blocks wait
/// for the drive, and every access goes to it; `lavamd` also runs on a GPU with memory, which holds
/// the boxes of neighbours that one earlier launch read.
///
/// # Errors
/// As [`networks`].
pub fn schedules(options: &PolicyOptions) -> Result<Experiment> {
    let rows = [
        ("backprop", Network::Backprop, false),
        ("hotspot", Network::Hotspot, false),
        ("lavamd", Network::Lavamd, false),
        ("lavamd, boxes in memory", Network::Lavamd, true),
    ];
    let stride = options.stride;
    let policies = [
        ("round-robin", Scheduling::RoundRobin),
        ("large-chunk", Scheduling::LargeChunk { stride }),
    ];
    let (mut jobs, mut columns) = (Vec::new(), Vec::new());
    for (policy, scheduling) in policies {
        for order in ["CWDP", "CDWP", "WCDP"] {
            columns.push((format!("{policy}, {order}"), scheduling, order));
        }
    }
    for row in rows {
        for (column, scheduling, order) in &columns {
            let drive = options.drive(Allocation::Static, true, order)?;
            jobs.push((row, column.clone(), drive, *scheduling));
        }
    }
    let points = jobs
        .into_par_iter()
        .map(|(named, column, drive, scheduling)| {
            let (row, network, has_memory) = named;
            let run = NetworkRun {
                options,
                network,
                row: row.to_owned(),
                column,
                length: Length::Requests(options.requests),
                condition: Condition::ClosedLoop,
                has_memory,
                drive,
                scheduling,
            };
            run.point()
        });
    Ok(Experiment {
        name: "schedules",
        metrics: Metric::PAPER,
        figure: Some(7),
        title: format!("block scheduling x allocation order on {}", options.preset),
        points: points.collect::<Result<_>>()?,
        columns: columns.into_iter().map(|(name, ..)| name).collect(),
        rows: rows.map(|(row, ..)| row.to_owned()).to_vec(),
    })
}

const SECTOR_BYTES: u64 = 512;

/// State of the drive before writes are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is written yet.
    Fresh,
    /// Everything is written; the run is short enough for the spare blocks.
    Full,
    /// The spare blocks are used up, and the planes no longer collect in step. Measured in the
    /// second half of a run of [`SUSTAINED`] requests.
    Sustained,
}

/// Minimum number of requests for [`State::Sustained`].
const SUSTAINED: u64 = 2_000_000;

impl State {
    /// Blocks per plane and pages per block. If collection decides the result, a plane of 128 short
    /// blocks is misleading: its collector starts so late that static allocation waits for it. The
    /// drive itself, with 33 free blocks per plane, does not wait. Units of a sector use shorter
    /// blocks to save memory.
    fn geometry(self, fine_bytes: u64) -> Geometry {
        match self {
            State::Fresh | State::Full => Geometry::SMALL,
            State::Sustained => Geometry {
                blocks: 256,
                pages: (fine_bytes / 32).clamp(32, 128) as u32,
            },
        }
    }
}

/// Small random writes with each mechanism alone and with all together: by requests in flight on a
/// fresh drive and on a full one, and sustained.
///
/// # Errors
/// As [`networks`].
pub fn mechanisms(options: &PolicyOptions) -> Result<Experiment> {
    let mut rows = Vec::new();
    for (name, state) in [("fresh", State::Fresh), ("full", State::Full)] {
        for depth in [1, 16, 256, 1024] {
            rows.push((format!("{name}, depth {depth}"), state, depth));
        }
    }
    if options.sustained {
        rows.push(("sustained, 1024".to_owned(), State::Sustained, 1024));
    }
    let mut jobs = Vec::new();
    for (row, state, depth) in &rows {
        for (column, allocation, is_fine) in MECHANISMS {
            let geometry = state.geometry(options.fine_bytes());
            let mut drive = options.drive_of(geometry, allocation, is_fine, "CWDP")?;
            drive.precondition = *state != State::Fresh;
            jobs.push((row.clone(), column, drive, *state, *depth));
        }
    }
    // The longest runs start first, so that none of them starts at the end.
    jobs.reverse();
    let points = jobs
        .into_par_iter()
        .map(|(row, column, drive, state, depth)| {
            write_point(options, row, column, &drive, state, depth)
        });
    let mut points: Vec<Point> = points.collect::<Result<_>>()?;
    points.reverse();
    Ok(Experiment {
        name: "mechanisms",
        metrics: Metric::PAPER,
        figure: None,
        title: format!(
            "random writes of {} on {}",
            bytes_exact(options.write_bytes),
            options.preset
        ),
        points,
        columns: MECHANISMS.map(|(name, ..)| name.to_owned()).to_vec(),
        rows: rows.into_iter().map(|(row, ..)| row).collect(),
    })
}

fn write_point(
    options: &PolicyOptions,
    row: String,
    column: &str,
    drive: &DriveConfig,
    state: State,
    depth: u32,
) -> Result<Point> {
    let requests = match state {
        State::Sustained => options.requests.max(SUSTAINED),
        // Runs with few requests in flight take long and vary little.
        _ => options.requests.min(u64::from(depth) * 500).max(2_000),
    };
    let flow = random_flow(options, Pace::Depth(depth), requests)?;
    let run_options = RunOptions {
        warm_up: match state {
            State::Sustained => requests / 2,
            // A burst lasts from the first completion to the last; collection continues after it.
            _ => 1,
        },
        ..RunOptions::default()
    };
    flow_point(row, column, drive, &flow, &run_options)
}

/// Random requests over the whole drive, all writes.
fn random_flow(options: &PolicyOptions, pace: Pace, requests: u64) -> Result<FlowConfig> {
    let sectors = u32::try_from(options.write_bytes / SECTOR_BYTES).unwrap_or(0);
    if sectors == 0 || !options.write_bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(Error::usage(
            "compare policies",
            format!(
                "writes of {} B are not whole sectors of 512 B",
                options.write_bytes
            ),
        ));
    }
    Ok(FlowConfig {
        name: "writes".to_owned(),
        queue: QueueConfig {
            caching: options.caching(),
            occupancy: 1.0,
            ..QueueConfig::default()
        },
        origin: Origin::Synthetic(Synthetic {
            working_set: 1.0,
            pace,
            read_ratio: 0.0,
            addresses: Addresses::Uniform,
            align_sectors: sectors,
            sizes: Sizes::Fixed(sectors),
            seed: (options.seed % 100_000) as i32,
            stop_at: 0,
            requests,
        }),
    })
}

fn flow_point(
    row: String,
    column: &str,
    drive: &DriveConfig,
    flow: &FlowConfig,
    run_options: &RunOptions,
) -> Result<Point> {
    let summary = run_flows(drive, std::slice::from_ref(flow), run_options)?.summary;
    Ok(Point {
        row,
        column: column.to_owned(),
        requests: summary.total.requests,
        iops: summary.total.iops,
        response_us: summary.total.mean_response_ns / 1e3,
        p99_us: summary.total.p99_response_ns as f64 / 1e3,
        end_ms: summary.total.sim_end_ns as f64 / 1e6,
        end_to_end_us: Some(summary.total.mean_end_to_end_ns / 1e3),
        write_amplification: summary.write_amplification,
        digest: summary.digest,
        sample: None,
    })
}

/// Requests of one sector that arrive at random times, with a mean of
/// [`PolicyOptions::interval_ns`] between them, on a full drive. The drive has units of a page, or
/// of a sector. There are runs of [`PolicyOptions::requests`] and of four times as many. They show
/// that the ratios of times grow with the run: if arrivals exceed a drive's rate, its queue grows
/// until the end.
///
/// # Errors
/// As [`networks`].
pub fn arrivals(options: &PolicyOptions) -> Result<Experiment> {
    let options = &PolicyOptions {
        fine_bytes: Some(SECTOR_BYTES),
        write_bytes: SECTOR_BYTES,
        ..options.clone()
    };
    let columns = [
        ("static, page", Allocation::Static, false),
        ("dynamic, page", Allocation::Dynamic, false),
        ("static, sector", Allocation::Static, true),
        ("dynamic, sector", Allocation::Dynamic, true),
    ];
    let mut rows = Vec::new();
    let mut jobs = Vec::new();
    for (name, read_ratio) in [("half writes", 0.5), ("writes", 0.0)] {
        for requests in [options.requests, options.requests.saturating_mul(4)] {
            let row = format!("{name}, {requests} requests");
            for (column, allocation, is_fine) in columns {
                let mut drive = options.drive(allocation, is_fine, "CWDP")?;
                drive.precondition = true;
                let flow = random_flow(options, Pace::Interval(options.interval_ns), requests)?;
                jobs.push((row.clone(), column, drive, with_reads(flow, read_ratio)));
            }
            rows.push(row);
        }
    }
    let points = jobs.into_par_iter().map(|(row, column, drive, flow)| {
        flow_point(row, column, &drive, &flow, &RunOptions::default())
    });
    Ok(Experiment {
        name: "arrivals",
        metrics: Metric::OPEN,
        figure: None,
        title: format!(
            "requests of 512 B, one every {} ns, on {}",
            options.interval_ns, options.preset
        ),
        points: points.collect::<Result<_>>()?,
        columns: columns.map(|(name, ..)| name.to_owned()).to_vec(),
        rows,
    })
}

fn with_reads(mut flow: FlowConfig, read_ratio: f64) -> FlowConfig {
    if let Origin::Synthetic(spec) = &mut flow.origin {
        spec.read_ratio = read_ratio;
    }
    flow
}

impl Experiment {
    /// The point of `row` under `column`.
    pub fn point(&self, row: &str, column: &str) -> Option<&Point> {
        let mut points = self.points.iter();
        points.find(|point| point.row == row && point.column == column)
    }
}
