//! Finds all rows within a distance of queries, and all pairs of rows within a distance of each
//! other.
//!
//! Contract: [`range_search`] returns for each query every row of the base whose distance in f64
//! ([`crate::exact`]) is at most the radius, ordered by row. [`pairs`] returns all pairs of rows of
//! a base within the radius, each pair once. Both depend only on the files. As in a
//! nearest-neighbour search, a product in f32 rules out rows that are certainly farther, and the
//! rest is measured in f64.
//!
//! Bounds: one read of the base for each group of queries; for pairs, only of the rows after the
//! group's first. Memory is 20 bytes per number of a query, and the share for results: an eighth of
//! the memory if further results can go to scratch, otherwise half.

use std::sync::Arc;

use outcore::{Error, Job, Phase, Result};
use outcore_io::memory::Reservation;

use super::bits::{self, Bits};
use super::cut::{self, Cut, Cuts, RowBound, is_kept, next_kept};
use super::hits::{self, Collector, Gathered, Hit, Hits, reserve_arrays};
use super::queries::Queries;
use super::subset::Subset;
use super::{Metric, QUERIES_AT_ONCE, check_files, plan};
use crate::format::VectorFile;
use crate::product::products;
use crate::scan::{Piece, Scan, TILE_ROWS, Tile, add_phase};

/// Options of a search.
#[derive(Debug, Clone)]
pub struct RangeOptions {
    /// The distance measure.
    pub metric: Metric,
    /// The largest distance (squared Euclidean, or one minus the cosine), or the least inner
    /// product.
    pub radius: f64,
    /// As in [`super::KnnOptions`].
    pub excludes_self: bool,
    /// As in [`super::KnnOptions`].
    pub subset: Option<Arc<Subset>>,
}

impl RangeOptions {
    /// Searches all rows within the radius.
    pub fn new(metric: Metric, radius: f64) -> Self {
        RangeOptions {
            metric,
            radius,
            excludes_self: false,
            subset: None,
        }
    }

    /// The radius as a distance; smaller values are nearer.
    fn bound(&self) -> Result<f64> {
        if !self.radius.is_finite() {
            let cause = format!("the radius is {}", self.radius);
            return Err(Error::usage(OPERATION, cause).hint("give a finite number"));
        }
        if self.radius < 0.0 && self.metric != Metric::Ip {
            let cause = format!("no distance is within a radius of {}", self.radius);
            return Err(Error::usage(OPERATION, cause)
                .hint("give 0 or more; only an inner product can be negative"));
        }
        Ok(match self.metric {
            Metric::Ip => 0.0 - self.radius,
            Metric::L2 | Metric::Cos | Metric::Hamming => self.radius,
        })
    }
}

const OPERATION: &str = "search within a radius";

/// The result of a search.
#[derive(Debug)]
pub struct Found {
    /// All results.
    pub hits: Hits,
    /// Passes over the base.
    pub passes: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// Distances that were measured in f64.
    pub measured: u64,
    /// The phases of the search, with their plans.
    pub phases: Vec<Phase>,
}

/// Results in faiss' form, in memory that is reserved for the lifetime of this value.
#[derive(Debug)]
pub struct Within {
    /// The start of each query's results, followed by the end of the last.
    pub limits: Vec<u64>,
    /// Rows of the base, ascending for each query.
    pub ids: Vec<u64>,
    /// Their distances.
    pub distances: Vec<f64>,
    held: Vec<Reservation>,
}

impl Within {
    /// Builds the arrays of these results.
    ///
    /// # Errors
    /// Memory: they do not fit. Errors of the sort.
    pub fn of(job: &Job, hits: Hits) -> Result<Self> {
        let count = hits.count();
        let limits_bytes = size_of_val(hits.limits()) as u64;
        let held = vec![
            job.budget.reserve("limits", limits_bytes)?,
            reserve_arrays(&job.budget, count, size_of::<(u64, f64)>() as u64)?,
        ];
        let mut within = Within {
            limits: hits.limits().to_vec(),
            ids: Vec::with_capacity(count as usize),
            distances: Vec::with_capacity(count as usize),
            held,
        };
        hits.each(job, &mut |hits| {
            within.ids.extend(hits.iter().map(|hit| hit.row));
            within.distances.extend(hits.iter().map(|hit| hit.distance));
            Ok(())
        })?;
        Ok(within)
    }

    /// Returns the query and row of each result, one after another.
    ///
    /// # Errors
    /// Memory: they do not fit.
    pub fn pairs(&mut self, job: &Job) -> Result<Vec<u64>> {
        let (count, pair_bytes) = (self.ids.len(), size_of::<[u64; 2]>() as u64);
        self.held
            .push(reserve_arrays(&job.budget, count as u64, pair_bytes)?);
        let mut pairs = Vec::with_capacity(2 * count);
        for (query, ends) in (0..).zip(self.limits.windows(2)) {
            for id in &self.ids[ends[0] as usize..ends[1] as usize] {
                pairs.extend([query, *id]);
            }
        }
        Ok(pairs)
    }
}

/// Finds every row of `base` within the radius of each row of `queries`.
///
/// # Errors
/// Usage: dimensions that differ, NaN or an infinite number. Memory: the results do not fit, and
/// the job has no scratch. Errors of reading and writing.
pub fn range_search(
    job: &Job,
    base: &VectorFile,
    queries: &VectorFile,
    options: &RangeOptions,
) -> Result<Found> {
    check_files(base, queries, options.metric)?;
    let allowed = options.subset.as_deref();
    allowed.map_or(Ok(()), |subset| subset.check(base))?;
    let leaves_out = match options.excludes_self {
        true => LeavesOut::Itself,
        false => LeavesOut::Nothing,
    };
    search(job, base, queries, options, allowed, leaves_out)
}

/// Finds all pairs of rows of `base` within the radius; each pair is a result of its smaller row.
///
/// # Errors
/// As [`range_search`].
pub fn pairs(job: &Job, base: &VectorFile, options: &RangeOptions) -> Result<Found> {
    check_files(base, base, options.metric)?;
    search(job, base, base, options, None, LeavesOut::UpToItself)
}

/// Rows that are excluded from the results of a query that is a row of the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeavesOut {
    Nothing,
    Itself,
    /// The query itself, and the rows before it.
    UpToItself,
}

fn search(
    job: &Job,
    base: &VectorFile,
    queries: &VectorFile,
    options: &RangeOptions,
    allowed: Option<&Subset>,
    leaves_out: LeavesOut,
) -> Result<Found> {
    let bound = options.bound()?;
    let search_all = |collector: &Collector<'_>| {
        let mut spent = Spent::default();
        let mut from = 0;
        while from < queries.rows {
            let for_results_bytes = match job.options.drives.is_empty() {
                true => job.budget.free_bytes() / 2,
                false => collector.wanted_bytes(),
            };
            let memory = |group: usize| {
                let shared_bytes =
                    Queries::memory_bytes(queries, options.metric, group) + 8 * group as u64;
                (
                    Finder::memory_bytes(group),
                    shared_bytes + for_results_bytes,
                )
            };
            let left = usize::try_from(queries.rows - from).unwrap_or(usize::MAX);
            let behind = match leaves_out {
                LeavesOut::UpToItself => base.part(from, base.rows - from),
                LeavesOut::Nothing | LeavesOut::Itself => base.clone(),
            };
            let (count, scan) = plan(job, &behind, left, memory)?;
            let steps = format!(
                "read the base -> all rows within the radius of {count} of {} queries",
                queries.rows
            );
            scan.show(job, "search", &steps, behind.data_bytes(), 1);
            let part = queries.part(from, count as u64);
            let loaded = Queries::load(job, &part, options.metric)?;
            let cuts = (0..count).map(|query| {
                let cut = Cut::of(options.metric, base.dimension, loaded.norm(query), bound);
                (cut.factor, cut.level)
            });
            let (factors, levels) = cuts.unzip();
            let group = Group {
                collector,
                queries: loaded,
                factors,
                levels,
                bound,
                allowed,
                first_query: from,
                first_row: base.first_row + from,
                leaves_out,
            };
            group.search(job, &scan, &mut spent)?;
            from += count as u64;
        }
        Ok(spent)
    };
    let (spent, hits) = hits::collect(job, queries.rows, search_all)?;
    Ok(Found {
        hits,
        passes: spent.passes,
        read_bytes: spent.read_bytes,
        measured: spent.measured,
        phases: spent.phases,
    })
}

/// As in [`Found`].
#[derive(Default)]
struct Spent {
    passes: u32,
    read_bytes: u64,
    measured: u64,
    phases: Vec<Phase>,
}

/// Queries that are searched in one pass.
struct Group<'a> {
    collector: &'a Collector<'a>,
    queries: Queries,
    /// For each query, the value that products are compared with.
    factors: Vec<f32>,
    levels: Vec<f32>,
    bound: f64,
    allowed: Option<&'a Subset>,
    /// The number of the first query among all.
    first_query: u64,
    /// The row of the base that is the first query, if queries are rows of the base.
    first_row: u64,
    leaves_out: LeavesOut,
}

/// A thread's state for a search.
struct Finder {
    tile: Tile,
    scores: Vec<f32>,
    bounds: Vec<RowBound>,
    /// A buffer for a row of bits, and the row's distance from each query.
    words: Vec<u64>,
    differing: Vec<u32>,
    gathered: Gathered,
    measured: u64,
    _held: Reservation,
}

impl Finder {
    fn memory_bytes(count: usize) -> u64 {
        let scores = QUERIES_AT_ONCE.min(count) * TILE_ROWS * size_of::<f32>();
        let differing = count * size_of::<u32>();
        (scores + TILE_ROWS * size_of::<RowBound>() + differing) as u64 + Gathered::BYTES
    }
}

impl Group<'_> {
    fn search(&self, job: &Job, scan: &Scan<'_>, spent: &mut Spent) -> Result<()> {
        let count = self.queries.count();
        let state = || {
            let held_bytes = Finder::memory_bytes(count) + Tile::memory_bytes(scan.file());
            Ok(Finder {
                _held: job.budget.reserve("search", held_bytes)?,
                tile: Tile::new(scan.file()),
                scores: vec![0.0; QUERIES_AT_ONCE.min(count) * TILE_ROWS],
                bounds: vec![RowBound::default(); TILE_ROWS],
                words: Vec::new(),
                differing: vec![0; count],
                gathered: Gathered::new(),
                measured: 0,
            })
        };
        let passed = scan.run(job, "search", state, |finder, piece| {
            match &self.queries.bits {
                Some(bits) => self.visit_bits(bits, finder, piece),
                None => self.visit(finder, piece),
            }
        })?;
        spent.passes += 1;
        add_phase(&mut spent.phases, passed.phase("search"));
        spent.read_bytes += passed.read_bytes;
        for mut finder in passed.states {
            spent.measured += finder.measured;
            self.collector.take(&mut finder.gathered)?;
        }
        Ok(())
    }

    /// A result of a query in this group.
    fn hit(&self, query: usize, row: u64, distance: f64) -> Hit {
        Hit {
            query: self.first_query + query as u64,
            row,
            distance: self.queries.shown(distance),
        }
    }

    fn is_left_out(&self, query: usize, row: u64) -> bool {
        let of_query = self.first_row + query as u64;
        match self.leaves_out {
            LeavesOut::Nothing => false,
            LeavesOut::Itself => row == of_query,
            LeavesOut::UpToItself => row <= of_query,
        }
    }

    fn visit_bits(&self, bits: &Bits, finder: &mut Finder, piece: Piece<'_>) -> Result<()> {
        let Finder {
            words,
            differing,
            gathered,
            measured,
            ..
        } = finder;
        bits::each_row(piece, words, |row, of_row| {
            if self.allowed.is_some_and(|allowed| !allowed.has(row)) {
                return Ok(());
            }
            bits.distances(of_row, differing);
            *measured += differing.len() as u64;
            for (query, distance) in differing.iter().enumerate() {
                let distance = f64::from(*distance);
                if distance <= self.bound && !self.is_left_out(query, row) {
                    gathered.push(self.collector, self.hit(query, row, distance))?;
                }
            }
            Ok(())
        })
    }

    fn visit(&self, finder: &mut Finder, piece: Piece<'_>) -> Result<()> {
        let Finder {
            tile,
            scores,
            bounds,
            gathered,
            measured,
            ..
        } = finder;
        tile.each(piece, |rows, wide| {
            let (count, metric) = (rows.matrix.rows, self.queries.metric);
            cut::bound_rows(metric, rows.matrix.dimension, rows.squares, bounds);
            for from in (0..self.queries.count()).step_by(QUERIES_AT_ONCE) {
                let block = self.queries.block(from, QUERIES_AT_ONCE);
                if self.is_left_out(from, rows.first + count as u64 - 1)
                    && self.leaves_out == LeavesOut::UpToItself
                {
                    // All rows of the tile are left out, also for all later queries.
                    break;
                }
                let scores_len = block.rows * count;
                products(block, rows.matrix, &mut scores[..scores_len]);
                let ends = from..from + block.rows;
                let cuts = Cuts {
                    factors: &self.factors[ends.clone()],
                    levels: &self.levels[ends],
                };
                let mut row = 0;
                while let Some(hit) = next_kept(cuts, &scores[..scores_len], &bounds[..count], row)
                {
                    row = hit + 1;
                    let id = rows.first + hit as u64;
                    if self.allowed.is_some_and(|allowed| !allowed.has(id)) {
                        continue;
                    }
                    rows.exact(hit, wide);
                    for at in 0..block.rows {
                        let product = scores[hit * block.rows + at];
                        let query = from + at;
                        let cut = Cut {
                            factor: cuts.factors[at],
                            level: cuts.levels[at],
                        };
                        if !is_kept(cut, product, bounds[hit]) || self.is_left_out(query, id) {
                            continue;
                        }
                        *measured += 1;
                        let distance = self.queries.distance(query, wide);
                        if distance <= self.bound {
                            gathered.push(self.collector, self.hit(query, id, distance))?;
                        }
                    }
                }
            }
            Ok(())
        })
    }
}
