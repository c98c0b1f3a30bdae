//! Queries in memory: as f64, to measure with, and as f32, to multiply with.
//!
//! Contract: under the cosine, the f32 are those of the query scaled to norm 1. A zero vector has
//! no direction: its distance from all others is 1, as if it were at right angles to them.

use outcore::{Job, Result};
use outcore_io::memory::Reservation;

use super::Metric;
use super::bits::Bits;
use crate::exact::{dot, squared_distance};
use crate::format::VectorFile;
use crate::product::{Matrix, vectorized};
use crate::scan::load;

/// See the module.
pub(super) struct Queries {
    pub(super) metric: Metric,
    pub(super) dimension: usize,
    wide: Vec<f64>,
    narrow: Vec<f32>,
    norms: Vec<f64>,
    /// Of packed bits, which have none of the others.
    pub(super) bits: Option<Bits>,
    _held: Reservation,
}

impl Queries {
    /// What `count` queries take, while they are loaded too.
    pub(super) fn memory_bytes(file: &VectorFile, metric: Metric, count: usize) -> u64 {
        if metric == Metric::Hamming {
            return Bits::memory_bytes(file, count) + (count * size_of::<f64>()) as u64;
        }
        let number_bytes = 2 * size_of::<f64>() + size_of::<f32>();
        (count as u64) * (file.dimension * number_bytes + size_of::<f64>()) as u64
    }

    /// The vectors of `file`.
    ///
    /// # Errors
    /// What reading fails with.
    pub(super) fn load(job: &Job, file: &VectorFile, metric: Metric) -> Result<Self> {
        let rows = file.rows as usize;
        let held_bytes = Self::memory_bytes(file, metric, rows);
        let held = job.budget.reserve("queries", held_bytes)?;
        if metric == Metric::Hamming {
            return Ok(Queries {
                metric,
                dimension: file.dimension,
                wide: Vec::new(),
                narrow: Vec::new(),
                norms: vec![0.0; rows],
                bits: Some(Bits::load(job, file)?),
                _held: held,
            });
        }
        let wide = load(job, file)?;
        let dimension = file.dimension;
        let each = || wide.chunks_exact(dimension);
        let norms: Vec<f64> = each().map(|query| dot(query, query).sqrt()).collect();
        let scales = norms.iter().map(|norm| match metric {
            Metric::Cos if *norm == 0.0 => 0.0,
            Metric::Cos => 1.0 / norm,
            Metric::L2 | Metric::Ip | Metric::Hamming => 1.0,
        });
        let scaled = each().zip(scales);
        let narrow = scaled
            .flat_map(|(query, scale)| query.iter().map(move |number| (number * scale) as f32));
        Ok(Queries {
            metric,
            dimension,
            narrow: narrow.collect(),
            wide,
            norms,
            bits: None,
            _held: held,
        })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.norms.len()
    }

    /// The norm of what is multiplied for a query.
    pub(super) fn norm(&self, query: usize) -> f64 {
        match self.metric {
            Metric::Cos => 1.0,
            Metric::L2 | Metric::Ip | Metric::Hamming => self.norms[query],
        }
    }

    /// Some of them, to be multiplied.
    pub(super) fn block(&self, from: usize, most: usize) -> Matrix<'_> {
        let all = Matrix::dense(&self.narrow, self.dimension);
        all.part(from, most.min(self.count() - from))
    }

    /// The distance of `row` from a query, which is smaller for what is nearer.
    pub(super) fn distance(&self, query: usize, row: &[f64]) -> f64 {
        let wide = &self.wide[query * self.dimension..][..self.dimension];
        vectorized(|| match self.metric {
            Metric::L2 => squared_distance(wide, row),
            Metric::Ip => 0.0 - dot(wide, row),
            // Bits are compared as words.
            Metric::Hamming => f64::NAN,
            Metric::Cos => match self.norms[query] * dot(row, row).sqrt() {
                0.0 => 1.0,
                norms => 1.0 - dot(wide, row) / norms,
            },
        })
    }

    /// The distance as it is given out.
    pub(super) fn shown(&self, distance: f64) -> f64 {
        match self.metric {
            Metric::Ip => 0.0 - distance,
            Metric::L2 | Metric::Cos | Metric::Hamming => distance,
        }
    }
}
