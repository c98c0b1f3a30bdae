//! Queries in memory: as f64 for measuring, and as f32 for products.
//!
//! Contract: for the cosine, the f32 numbers are those of the query scaled to norm 1. A zero vector
//! has no direction: its distance from all others is 1, as for orthogonal vectors.

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
    /// The queries as packed bits, which have none of the other fields.
    pub(super) bits: Option<Bits>,
    _held: Reservation,
}

impl Queries {
    /// The memory for `count` queries, including loading.
    pub(super) fn memory_bytes(file: &VectorFile, metric: Metric, count: usize) -> u64 {
        if metric == Metric::Hamming {
            return Bits::memory_bytes(file, count) + (count * size_of::<f64>()) as u64;
        }
        let number_bytes = 2 * size_of::<f64>() + size_of::<f32>();
        (count as u64) * (file.dimension * number_bytes + size_of::<f64>()) as u64
    }

    /// Loads the vectors of `file`.
    ///
    /// # Errors
    /// Errors of reading.
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

    /// The number of queries.
    pub(super) fn count(&self) -> usize {
        self.norms.len()
    }

    /// The norm of the f32 form of a query.
    pub(super) fn norm(&self, query: usize) -> f64 {
        match self.metric {
            Metric::Cos => 1.0,
            Metric::L2 | Metric::Ip | Metric::Hamming => self.norms[query],
        }
    }

    /// The f32 form of some of them.
    pub(super) fn block(&self, from: usize, most: usize) -> Matrix<'_> {
        let all = Matrix::dense(&self.narrow, self.dimension);
        all.part(from, most.min(self.count() - from))
    }

    /// The distance of `row` from a query; smaller values are nearer.
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

    /// The distance in the form of the result.
    pub(super) fn shown(&self, distance: f64) -> f64 {
        match self.metric {
            Metric::Ip => 0.0 - distance,
            Metric::L2 | Metric::Cos | Metric::Hamming => distance,
        }
    }
}
