//! Timing model of SSDs and of the programs that use them. It answers questions about hardware
//! before anyone buys it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | one drive as TOML with units |
//! | [`mqsim`] | import of MQSim's XML files and traces |
//! | [`presets`] | drives by name, with the provenance of their values |
//! | [`workload`] | generators and lists of requests |
//! | [`drive`] | the model of one drive |
//! | [`run`] | runs a drive and its flows from the first event to the last |
//! | [`fit`] | handles requests that reach beyond the drives |
//! | [`array`] | several drives, and the replay of a recorded trace on them |
//! | `sweep`, [`plot`] | varies any parameter (table, CSV, SVG); charts of one run |
//! | [`requests`] | every request of a run as CSV or Parquet |
//! | [`calibrate`] | fits a drive to a measured one |
//! | [`workload_file`] | workloads as TOML |
//! | [`device`] | simulated drives as devices of the engine: real bytes, virtual time |
//! | [`plan`] | predicts a sort from its plan |
//! | [`allegro`] | chooses the kernel launches to simulate so that they represent all of them |
//! | [`activesort`] | a drive that merges sorted runs while the host reads them |
//! | [`gpu`] | a GPU inside the storage and its workloads |
//! | [`policies`] | compares allocation, mapping and scheduling |
//! | [`report`] | latencies, counters, summary |
//!
//! ```
//! use outcore_sim::config::DriveConfig;
//! use outcore_sim::drive::QueueConfig;
//! use outcore_sim::run::{RunOptions, run};
//! use outcore_sim::workload::{Addresses, FlowConfig, Origin, Pace, Sizes, Synthetic};
//!
//! let drive = DriveConfig::from_toml("precondition = true\n[flash]\nblocks = 64\npages = 64\n")?;
//! let flow = FlowConfig {
//!     name: "reads".to_owned(),
//!     queue: QueueConfig::default(),
//!     origin: Origin::Synthetic(Synthetic {
//!         working_set: 1.0,
//!         pace: Pace::Depth(8),
//!         read_ratio: 1.0,
//!         addresses: Addresses::Uniform,
//!         align_sectors: 8,
//!         sizes: Sizes::Fixed(8),
//!         seed: 1,
//!         stop_at: 0,
//!         requests: 1000,
//!     }),
//! };
//! let outcome = run(&drive, &[flow], &RunOptions::default())?;
//! assert_eq!(outcome.summary.total.requests, 1000);
//! # Ok::<(), outcore_io::Error>(())
//! ```
#[cfg(feature = "cli")]
#[macro_use]
mod say;

pub mod activesort;
pub mod allegro;
pub mod array;
pub mod calibrate;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod device;
pub mod drive;
mod event;
pub mod fit;
mod flow_order;
mod flows;
pub mod gpu;
mod hot;
pub mod mqsim;
pub mod plan;
pub mod plot;
pub mod policies;
pub mod presets;
pub mod quantities;
pub mod report;
#[cfg(feature = "cli")]
mod requests;
pub mod rng;
pub mod run;
#[cfg(feature = "cli")]
mod sweep;
pub mod workload;
pub mod workload_file;
