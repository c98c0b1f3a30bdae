//! Draws launches, estimates the total from them, and measures the error of the estimate.
//!
//! Model: stratified sampling without replacement. The estimate is the sum over clusters of count
//! times sample mean, which is unbiased. If the trace has all durations, the true error is known,
//! and [`Plan::check`] measures it over many seeds.
//!
//! Invariants: a seed determines the draw on every machine; no launch is drawn twice.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rayon::prelude::*;
use serde::Serialize;

use super::Plan;

/// One launch to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Draw {
    /// Position in the trace, from 0.
    pub(crate) launch: u32,
    /// Index into [`Plan::clusters`].
    pub(crate) cluster: usize,
    /// Its duration in the trace.
    pub(crate) duration_ns: u64,
    /// Number of launches that it represents.
    pub(crate) weight: f64,
}

/// The true error over many seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Accuracy {
    /// Seeds 0 to `seeds - 1` were tried.
    pub seeds: u64,
    /// Share of the seeds whose relative error was at most eps.
    pub share_within: f64,
    /// Mean absolute value of the relative error.
    pub error_mean: f64,
    /// 95 % of the seeds have a smaller error.
    pub error_p95: f64,
    /// Largest error.
    pub error_max: f64,
}

impl Plan {
    /// The launches that `seed` draws, in the order of the trace.
    pub(crate) fn draw(&self, seed: u64) -> Vec<Draw> {
        let mut draws = Vec::with_capacity(self.samples as usize);
        self.each(seed, |draw| draws.push(draw));
        draws.sort_unstable_by_key(|draw| draw.launch);
        draws
    }

    fn each(&self, seed: u64, mut take: impl FnMut(Draw)) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for (at, cluster) in self.clusters.iter().enumerate() {
            let launches = &self.groups[cluster.group].launches[cluster.first..];
            let (count, samples) = (cluster.count as usize, cluster.samples as usize);
            let weight = count as f64 / samples as f64;
            for chosen in rand::seq::index::sample(&mut rng, count, samples) {
                let launch = launches[chosen];
                take(Draw {
                    launch: launch.number,
                    cluster: at,
                    duration_ns: launch.duration_ns,
                    weight,
                });
            }
        }
    }

    /// Total time in nanoseconds, predicted from the sample of `seed`.
    pub(crate) fn estimate_ns(&self, seed: u64) -> f64 {
        let mut sum = 0.0;
        self.each(seed, |draw| sum += draw.duration_ns as f64 * draw.weight);
        sum
    }

    /// Share of the GPU's time that the sample of `seed` takes.
    pub fn time_share(&self, seed: u64) -> f64 {
        let mut sum = 0u128;
        self.each(seed, |draw| sum += u128::from(draw.duration_ns));
        sum as f64 / self.total_ns as f64
    }

    /// Absolute relative error of the estimate of `seed`.
    pub fn error(&self, seed: u64) -> f64 {
        let total_ns = self.total_ns as f64;
        (self.estimate_ns(seed) - total_ns).abs() / total_ns
    }

    /// The true error over the seeds `0 .. seeds` (at least one), on all cores.
    pub fn check(&self, seeds: u64) -> Accuracy {
        let seeds = seeds.max(1);
        let mut errors: Vec<f64> = (0..seeds)
            .into_par_iter()
            .map(|seed| self.error(seed))
            .collect();
        errors.sort_unstable_by(f64::total_cmp);
        let within = errors.partition_point(|error| *error <= self.options.eps);
        let p95 = (errors.len() * 95).div_ceil(100).max(1) - 1;
        Accuracy {
            seeds,
            share_within: within as f64 / seeds as f64,
            error_mean: errors.iter().sum::<f64>() / seeds as f64,
            error_p95: errors[p95],
            error_max: errors.last().copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AllegroOptions, Profile};
    use super::*;
    use outcore_traces::gpu::Kernel;

    /// One kernel with durations from a skewed distribution, the worst case for few samples.
    fn skewed(count: u64, eps: f64) -> Plan {
        let mut profile = Profile::new();
        let mut rng = crate::rng::Rng::new(7);
        for _ in 0..count {
            let duration_ns = 2_000.0 + rng.exponential(10_000.0);
            profile
                .push(&Kernel {
                    name: "k".into(),
                    grid: [1; 3],
                    block: [1; 3],
                    start_ns: None,
                    duration_ns: Some(duration_ns as u64),
                    stream: 0,
                    registers: 0,
                    shared_bytes: 0,
                })
                .unwrap();
        }
        let options = AllegroOptions {
            eps,
            ..AllegroOptions::default()
        };
        profile.plan(&options).unwrap()
    }

    #[test]
    fn a_seed_draws_the_same_launches_and_none_twice() {
        let plan = skewed(5_000, 0.05);
        let draws = plan.draw(3);
        assert_eq!(draws, plan.draw(3));
        assert_ne!(draws, plan.draw(4));
        assert_eq!(draws.len() as u64, plan.samples);
        assert!(draws.windows(2).all(|two| two[0].launch < two[1].launch));
        let weight: f64 = draws.iter().map(|draw| draw.weight).sum();
        assert!((weight - 5_000.0).abs() < 1e-6, "{weight}");
    }

    #[test]
    fn the_draw_of_a_seed_is_the_same_on_every_machine() {
        let launches: Vec<u32> = skewed(100, 0.2).draw(1).iter().map(|d| d.launch).collect();
        let digest = launches
            .iter()
            .fold(7u64, |h, n| h.wrapping_mul(31).wrapping_add(u64::from(*n)));
        assert_eq!((launches.len(), digest), EXPECTED);
    }

    const EXPECTED: (usize, u64) = (12, 5_673_333_414_494_040_929);

    #[test]
    fn at_least_95_of_100_seeds_stay_below_eps() {
        for eps in [0.02, 0.05, 0.1] {
            let plan = skewed(20_000, eps);
            let accuracy = plan.check(400);
            assert!(accuracy.share_within >= 0.95, "{eps}: {accuracy:?}");
            assert!(plan.reduction() > 5.0, "{eps}: {}", plan.reduction());
        }
    }

    #[test]
    fn estimates_are_unbiased() {
        let plan = skewed(3_000, 0.1);
        let seeds = 2_000;
        let mean = (0..seeds).map(|seed| plan.estimate_ns(seed)).sum::<f64>() / seeds as f64;
        let off = mean / plan.total_ns as f64 - 1.0;
        assert!(off.abs() < 0.005, "{off}");
    }
}
