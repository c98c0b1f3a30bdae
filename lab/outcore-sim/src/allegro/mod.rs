//! Allegro chooses the kernel launches to simulate so that they predict the whole trace well
//! enough.
//!
//! Model: the kernel sampling of MQMS (Gundawar, Chung, Kim, "Towards Performance-Aware Allocation
//! for Accelerated Machine Learning on GPU-SSD Systems", its section on Allegro).
//! - Launches are grouped by name, grid and block.
//! - Exact one-dimensional 2-means of the durations halves a group repeatedly until its parts are
//!   homogeneous ([`split`]).
//! - From each part, `n = (z/eps * sigma/mu)^2` launches are drawn at random. By the central limit
//!   theorem this bounds the relative error of the part's total by `eps`, with the confidence that
//!   belongs to `z` (1.96: 95 %).
//! - The estimate of the whole is the sum over the parts of count times sample mean.
//!
//! Two refinements can be switched off. Launches are drawn without replacement, so that the
//! required number is `n / (1 + n / N)` (Cochran, "Sampling Techniques", section 4.6). A split is
//! kept only if its parts together need fewer samples than the whole.
//!
//! Invariants: every launch is in one cluster. A cluster holds launches of one group that are
//! adjacent in duration. A cluster with one distinct duration needs one sample. The same seed draws
//! the same launches on every machine (xoshiro256++).
//!
//! Bounds: 16 bytes per launch and the distinct names in memory; time `O(N log N)`.

#[cfg(feature = "cli")]
pub mod command;
mod sample;
mod split;

use std::collections::HashMap;
use std::sync::Arc;

use outcore_io::{Error, Result};
use outcore_traces::gpu::Kernel;
use serde::Serialize;

pub use sample::Accuracy;

const OPERATION: &str = "sample kernels";

/// The required accuracy, and how it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AllegroOptions {
    /// Allowed relative error of the total time, above 0 and below 1.
    pub eps: f64,
    /// Standard normal quantile of the confidence: 1.96 for 95 %.
    pub z: f64,
    /// A cluster whose standard deviation is at most this share of its mean is homogeneous.
    pub homogeneous_cv: f64,
    /// Minimum number of launches drawn from a cluster (or all, if it has fewer).
    pub samples_min: u64,
    /// Account for drawing without replacement.
    pub finite: bool,
    /// Undo splits that do not save samples.
    pub prune: bool,
}

impl Default for AllegroOptions {
    fn default() -> Self {
        AllegroOptions {
            eps: 0.05,
            z: 1.96,
            homogeneous_cv: 0.05,
            samples_min: 1,
            finite: true,
            prune: true,
        }
    }
}

impl AllegroOptions {
    /// Exactly the formula of the paper.
    pub fn paper(eps: f64) -> Self {
        AllegroOptions {
            eps,
            finite: false,
            prune: false,
            ..AllegroOptions::default()
        }
    }

    fn validate(&self) -> Result<()> {
        let wrong = |cause: String| Err(Error::usage(OPERATION, cause));
        if !(self.eps > 0.0 && self.eps < 1.0) {
            return wrong(format!("an error of {} is not between 0 and 1", self.eps));
        }
        if !(self.z > 0.0 && self.z < 10.0) {
            return wrong(format!("a quantile of {} is not between 0 and 10", self.z));
        }
        if !(self.homogeneous_cv >= 0.0 && self.homogeneous_cv.is_finite()) {
            return wrong(format!("homogeneity {} is negative", self.homogeneous_cv));
        }
        Ok(())
    }

    /// Samples that `count` launches with the given coefficient of variation need.
    pub fn samples(&self, count: u64, cv: f64) -> u64 {
        let wanted = (self.z / self.eps * cv).powi(2);
        let wanted = if self.finite {
            wanted / (1.0 + wanted / count.max(1) as f64)
        } else {
            wanted
        };
        (wanted.ceil() as u64)
            .max(self.samples_min)
            .max(1)
            .min(count)
    }
}

/// Launches of one kernel with one geometry.
#[derive(Debug, Clone)]
pub struct Group {
    /// The function's name.
    pub name: Arc<str>,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Sorted by duration after planning.
    launches: Vec<Launch>,
}

/// One run of a kernel. Launches sort by duration, and equal ones by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Launch {
    duration_ns: u64,
    /// Its position in the trace.
    number: u32,
}

/// One homogeneous part of a group.
#[derive(Debug, Clone, Serialize)]
pub struct Cluster {
    /// Its group, as an index into [`Plan::groups`].
    pub group: usize,
    /// Position of its first launch in the group's order of durations.
    first: usize,
    /// Number of launches.
    pub count: u64,
    /// Mean duration in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation divided by the mean.
    pub cv: f64,
    /// Launches to simulate.
    pub samples: u64,
}

/// Name, grid and block.
type Key = (Arc<str>, [u32; 3], [u32; 3]);

/// The launches of a trace by group, collected while the trace is read.
#[derive(Debug, Default)]
pub struct Profile {
    index_of: HashMap<Key, usize>,
    groups: Vec<Group>,
    launches: u64,
}

impl Profile {
    /// An empty profile.
    pub fn new() -> Self {
        Profile::default()
    }

    /// Adds the next launch of the trace.
    ///
    /// # Errors
    /// The launch has no duration (a list without times), or exceeds the limit of 2^32 launches.
    pub fn push(&mut self, kernel: &Kernel) -> Result<()> {
        let Some(duration_ns) = kernel.duration_ns else {
            return Err(Error::usage(
                OPERATION,
                format!("launch {} ({}) has no duration", self.launches, kernel.name),
            )
            .hint(
                "profile the run with the PyTorch profiler or nsys; MacSim's lists have no times",
            ));
        };
        let number = u32::try_from(self.launches)
            .map_err(|_| Error::usage(OPERATION, "more than 2^32 launches"))?;
        self.launches += 1;
        let key = (Arc::clone(&kernel.name), kernel.grid, kernel.block);
        let groups = &mut self.groups;
        let index = *self.index_of.entry(key).or_insert_with(|| {
            groups.push(Group {
                name: Arc::clone(&kernel.name),
                grid: kernel.grid,
                block: kernel.block,
                launches: Vec::new(),
            });
            groups.len() - 1
        });
        groups[index].launches.push(Launch {
            duration_ns,
            number,
        });
        Ok(())
    }

    /// Splits the groups into clusters and decides how many launches of each are drawn.
    ///
    /// # Errors
    /// The trace has no launches or no total time, or an option is out of range.
    pub fn plan(mut self, options: &AllegroOptions) -> Result<Plan> {
        options.validate()?;
        let mut clusters = Vec::new();
        let mut total_ns = 0u128;
        for (at, group) in self.groups.iter_mut().enumerate() {
            group.launches.sort_unstable();
            group.launches.shrink_to_fit();
            total_ns += group
                .launches
                .iter()
                .map(|launch| u128::from(launch.duration_ns))
                .sum::<u128>();
            for part in split::clusters(&group.launches, options) {
                clusters.push(Cluster { group: at, ..part });
            }
        }
        if total_ns == 0 {
            return Err(Error::usage(
                OPERATION,
                format!("{} launches that take no time", self.launches),
            ));
        }
        Ok(Plan {
            options: *options,
            samples: clusters.iter().map(|cluster| cluster.samples).sum(),
            groups: self.groups,
            clusters,
            launches: self.launches,
            total_ns,
        })
    }
}

/// The clusters of a trace, and how many launches to draw from each.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The options of the plan.
    pub options: AllegroOptions,
    /// Kernels by name, grid and block.
    pub groups: Vec<Group>,
    /// Their homogeneous parts.
    pub clusters: Vec<Cluster>,
    /// Number of launches in the trace.
    pub launches: u64,
    /// Number of launches that are simulated.
    pub samples: u64,
    /// Time of all launches together.
    pub total_ns: u128,
}

impl Plan {
    /// The factor by which the number of simulated launches falls.
    pub fn reduction(&self) -> f64 {
        self.launches as f64 / self.samples as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, grid: u32, duration_ns: Option<u64>) -> Kernel {
        Kernel {
            name: name.into(),
            grid: [grid, 1, 1],
            block: [32, 1, 1],
            start_ns: None,
            duration_ns,
            stream: 0,
            registers: 0,
            shared_bytes: 0,
        }
    }

    fn plan(kernels: &[Kernel], options: &AllegroOptions) -> Plan {
        let mut profile = Profile::new();
        for kernel in kernels {
            profile.push(kernel).unwrap();
        }
        profile.plan(options).unwrap()
    }

    #[test]
    fn kernels_are_told_apart_by_name_grid_and_block() {
        let mut other = kernel("a", 1, Some(7));
        other.block = [64, 1, 1];
        let plan = plan(
            &[
                kernel("a", 1, Some(7)),
                kernel("b", 1, Some(7)),
                kernel("a", 2, Some(7)),
                other,
                kernel("a", 1, Some(7)),
            ],
            &AllegroOptions::default(),
        );
        assert_eq!(plan.groups.len(), 4);
        assert_eq!(plan.samples, 4);
        assert_eq!(plan.launches, 5);
    }

    #[test]
    fn equal_durations_need_one_sample_and_two_levels_need_two() {
        let kernels: Vec<_> = (0..1000)
            .map(|at| kernel("k", 1, Some(if at % 3 == 0 { 1_000 } else { 90_000 })))
            .collect();
        let plan = plan(&kernels, &AllegroOptions::default());
        assert_eq!(plan.clusters.len(), 2);
        assert_eq!(plan.samples, 2);
        assert_eq!(plan.check(50).share_within, 1.0);
        assert_eq!(plan.check(50).error_max, 0.0);
    }

    #[test]
    fn the_sample_size_is_the_papers_formula() {
        // (1.96 / 0.05 * 0.5)^2 = 384.16; without replacement from 1000: 277.5.
        assert_eq!(AllegroOptions::paper(0.05).samples(1000, 0.5), 385);
        assert_eq!(AllegroOptions::default().samples(1000, 0.5), 278);
        assert_eq!(AllegroOptions::paper(0.05).samples(10, 0.5), 10);
    }

    #[test]
    fn a_launch_without_duration_is_an_error_that_says_what_to_do() {
        let error = Profile::new().push(&kernel("k", 1, None)).unwrap_err();
        assert!(error.to_string().contains("launch 0 (k)"), "{error}");
        assert!(error.next_step().unwrap().contains("nsys"));
        assert!(Profile::new().plan(&AllegroOptions::default()).is_err());
    }

    #[test]
    fn options_out_of_range_are_refused() {
        for eps in [0.0, 1.0, -0.1, f64::NAN] {
            let mut profile = Profile::new();
            profile.push(&kernel("k", 1, Some(5))).unwrap();
            let options = AllegroOptions {
                eps,
                ..AllegroOptions::default()
            };
            assert!(profile.plan(&options).is_err(), "{eps}");
        }
    }
}
