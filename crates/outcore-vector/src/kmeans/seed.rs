//! Initial centroids: rows of a sample, chosen far from each other or at random.
//!
//! Contract: the choice depends only on the seed and the base. The base is divided into as many
//! equal stretches as the sample has rows, and one random row of each stretch is taken; a small
//! base is used completely.
//!
//! Bounds: a sample of 4096 rows, or eight per centroid, in memory. One thread computes as many
//! distances as the sample has rows, for each centroid and draw.
//!
//! Source: Arthur and Vassilvitskii, "k-means++: The Advantages of Careful Seeding", SODA 2007. The
//! best of several candidates is kept for each centroid, as in the authors' own program (section 5)
//! and in scikit-learn.

use outcore::read::sample::random;
use outcore::{Error, Job, Result};
use outcore_io::memory::Reservation;
use outcore_io::units;

use super::gathered::Gathered;
use crate::exact::squared_distance;
use crate::format::VectorFile;
use crate::product::vectorized;

/// The least number of rows in a sample, if the base has as many.
const SAMPLE_ROWS_MIN: u64 = 4096;
/// Rows of a sample per centroid.
const SAMPLE_ROWS_EACH: u64 = 8;
/// With more centroids, only one candidate is drawn for each, because every draw visits the whole
/// sample.
const TRIED_CENTROIDS_MAX: usize = 1024;
/// Numbers of the random streams.
const PLACES: u64 = 0;
const DRAWS: u64 = 1;

/// A sample of the base.
pub(super) struct Sample {
    numbers: Vec<f64>,
    /// The number of rows of the base that each sampled row represents.
    weights: Vec<f64>,
    dimension: usize,
    pub(super) read_bytes: u64,
    _held: Option<(Reservation, Reservation)>,
}

/// The number of rows in a sample.
fn sample_rows(base: &VectorFile, k: usize) -> u64 {
    base.rows
        .min(SAMPLE_ROWS_MIN.max(SAMPLE_ROWS_EACH * k as u64))
}

impl Sample {
    /// Reads a sample for `k` centroids.
    ///
    /// # Errors
    /// Memory: it does not fit. Usage: NaN or an infinite number. Errors of reading.
    pub(super) fn read(job: &Job, base: &VectorFile, k: usize, seed: u64) -> Result<Self> {
        let (rows, dimension) = (sample_rows(base, k), base.dimension);
        let places = (0..rows).map(|stretch| {
            let start = |stretch: u64| {
                (u128::from(base.rows) * u128::from(stretch) / u128::from(rows)) as u64
            };
            let (from, to) = (start(stretch), start(stretch + 1));
            from + random(random(seed, PLACES), stretch) % (to - from)
        });
        let gathered = Gathered::read(job, base, places.collect())?;
        let (numbers, held) = gathered.vectors(job)?;
        let weights_bytes = rows * size_of::<f64>() as u64;
        Ok(Sample {
            numbers,
            weights: vec![1.0; rows as usize],
            dimension,
            read_bytes: gathered.read_bytes,
            _held: Some((
                held,
                job.budget.reserve("sample of vectors", weights_bytes)?,
            )),
        })
    }

    /// A sample of weighted rows; the caller reserves their memory.
    pub(super) fn of_weighted(numbers: Vec<f64>, weights: Vec<f64>, dimension: usize) -> Self {
        Sample {
            numbers,
            weights,
            dimension,
            read_bytes: 0,
            _held: None,
        }
    }

    /// The largest absolute value in it.
    pub(super) fn largest(&self) -> f64 {
        let sizes = self.numbers.iter().map(|number| number.abs());
        sizes.fold(0.0, f64::max)
    }

    /// Its vectors, mutable.
    pub(super) fn vectors_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        self.numbers.chunks_exact_mut(self.dimension)
    }

    fn rows(&self) -> usize {
        self.numbers.len() / self.dimension
    }

    fn row(&self, index: usize) -> &[f64] {
        &self.numbers[index * self.dimension..][..self.dimension]
    }

    /// Chooses `k` random rows.
    pub(super) fn random_rows(&self, k: usize, seed: u64) -> Vec<f64> {
        let mut rows: Vec<usize> = (0..self.rows()).collect();
        for place in 0..k {
            let left = (rows.len() - place) as u64;
            let drawn = random(random(seed, DRAWS), place as u64) % left;
            rows.swap(place, place + drawn as usize);
        }
        rows[..k]
            .iter()
            .flat_map(|row| self.row(*row))
            .copied()
            .collect()
    }

    /// Chooses `k` rows. Each row is drawn with a probability proportional to its squared distance
    /// from the rows chosen before. The best of several draws is taken.
    pub(super) fn far_rows(&self, job: &Job, k: usize, seed: u64) -> Result<Vec<f64>> {
        let rows = self.rows();
        let seed = random(seed, DRAWS);
        let mut draws = (0..).map(|draw| (random(seed, draw) >> 11) as f64 / 2.0_f64.powi(53));
        let mut draw = move || draws.next().unwrap_or(0.0);
        let trials = match k {
            0..=TRIED_CENTROIDS_MAX => 2 + (k as f64).ln() as usize,
            _ => 1,
        };
        let first = place_of(draw() * self.weights.iter().sum::<f64>(), &self.weights);
        let mut chosen = self.row(first).to_vec();
        let distances_to = |row: usize, least: &[f64], out: &mut [f64]| -> f64 {
            let wanted = self.row(row);
            for (index, (out, least)) in out.iter_mut().zip(least).enumerate() {
                let distance = vectorized(|| squared_distance(self.row(index), wanted));
                *out = least.min(distance * self.weights[index]);
            }
            out.iter().sum()
        };
        let mut least = vec![f64::INFINITY; rows];
        let (mut tried, mut best) = (vec![0.0; rows], vec![0.0; rows]);
        let mut potential = distances_to(first, &least.clone(), &mut least);
        while chosen.len() < k * self.dimension {
            job.control.check()?;
            let mut kept: Option<(f64, usize)> = None;
            for _ in 0..trials {
                let row = place_of(draw() * potential, &least);
                let reached = distances_to(row, &least, &mut tried);
                if kept.is_none_or(|(before, _)| reached < before) {
                    kept = Some((reached, row));
                    std::mem::swap(&mut tried, &mut best);
                }
            }
            if let Some((reached, row)) = kept {
                potential = reached;
                std::mem::swap(&mut least, &mut best);
                chosen.extend_from_slice(self.row(row));
            }
        }
        Ok(chosen)
    }
}

/// The first place at which the running sum of `weights` exceeds `wanted`, or the last place.
fn place_of(wanted: f64, weights: &[f64]) -> usize {
    let mut sum = 0.0;
    let found = weights.iter().position(|weight| {
        sum += weight;
        sum > wanted
    });
    found.unwrap_or(weights.len() - 1)
}

/// The error for an unsuitable file of initial centroids.
pub(super) fn misfit(file: &VectorFile, base: &VectorFile, k: usize) -> Error {
    let cause = format!(
        "it has {} of {}, but the job needs {k} of {}",
        units::counted(file.rows, "vector"),
        units::counted(file.dimension as u64, "dimension"),
        base.dimension
    );
    Error::usage("read centroids", cause)
        .path(&file.path)
        .hint("give as many centroids as -k, with the dimension of the base")
}
