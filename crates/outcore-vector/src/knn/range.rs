//! All rows within a distance of queries, and all pairs of rows within one.
//!
//! Contract: [`range_search`] gives each query every row of the base whose distance in f64 ([`crate::exact`]) is at most the
//! radius, ordered by row; [`pairs`] gives every two rows of a base that are as near to each other, each pair once. Both
//! depend on the files alone. As in a search for the nearest, a product in f32 leaves out what is certainly farther, and the rest is
//! measured in f64.
//!
//! Bounds: one read of the base for each group of queries; for pairs, of what follows the group. Memory is 20 bytes a number
//! of a query, 40 bytes a result and 16 more from the second group on; half of the memory is kept for results, and more than fit are an error.

use std::path::PathBuf;

use outcore::{Error, Job, Phase, Result};
use outcore_io::memory::Reservation;

use super::bits::{self, Bits};
use super::cut::{self, Cut, is_kept, next_kept};
use super::hits::{Hit, Hits, too_many};
use super::queries::Queries;
use super::subset::Subset;
use super::{Metric, QUERIES_AT_ONCE, check_files, plan};
use crate::format::VectorFile;
use crate::product::products;
use crate::scan::{Piece, Scan, TILE_ROWS, Tile, add_phase};

/// What is looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeOptions {
    /// What is near.
    pub metric: Metric,
    /// The largest distance, the square of the Euclidean or one minus the cosine; the least inner product.
    pub radius: f64,
    /// As in [`super::KnnOptions`].
    pub excludes_self: bool,
    /// As in [`super::KnnOptions`].
    pub subset: Option<PathBuf>,
}

impl RangeOptions {
    /// All rows within the radius.
    pub fn new(metric: Metric, radius: f64) -> Self {
        RangeOptions {
            metric,
            radius,
            excludes_self: false,
            subset: None,
        }
    }

    /// The radius as a distance that is smaller for what is nearer.
    fn bound(&self) -> Result<f64> {
        if !self.radius.is_finite() {
            let cause = format!("a radius of {}", self.radius);
            return Err(Error::usage(OPERATION, cause).hint("give a finite number"));
        }
        Ok(match self.metric {
            Metric::Ip => 0.0 - self.radius,
            Metric::L2 | Metric::Cos | Metric::Hamming => self.radius,
        })
    }
}

const OPERATION: &str = "search within a radius";

/// What was found, as faiss has it.
#[derive(Debug)]
pub struct Within {
    /// Of each query, where its results begin; and where the last ones end.
    pub limits: Vec<u64>,
    /// Rows of the base, in order for each query.
    pub ids: Vec<u64>,
    /// Their distances.
    pub distances: Vec<f64>,
    /// Passes over the base.
    pub passes: u32,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Distances that were measured in f64.
    pub measured: u64,
    /// The phases of the search, beside what was planned of them.
    pub phases: Vec<Phase>,
    held: Vec<Reservation>,
}

impl Within {
    /// The query and row of each result, one after another; their memory is reserved for as long as this lives.
    ///
    /// # Errors
    /// Memory: they do not fit.
    pub fn pairs(&mut self, job: &Job) -> Result<Vec<u64>> {
        let pairs_bytes = 2 * size_of_val(self.ids.as_slice());
        self.held
            .push(job.budget.reserve("pairs", pairs_bytes as u64)?);
        let mut pairs = Vec::with_capacity(2 * self.ids.len());
        for (query, ends) in (0..).zip(self.limits.windows(2)) {
            for id in &self.ids[ends[0] as usize..ends[1] as usize] {
                pairs.extend([query, *id]);
            }
        }
        Ok(pairs)
    }
}

/// Every row of `base` within the radius of each row of `queries`.
///
/// # Errors
/// Usage: dimensions that differ, a number that is none, a zero vector whose cosine is asked for. Memory: the results do
/// not fit. What reading fails with.
pub fn range_search(
    job: &Job,
    base: &VectorFile,
    queries: &VectorFile,
    options: &RangeOptions,
) -> Result<Within> {
    check_files(base, queries, options.metric)?;
    let allowed = options.subset.as_deref();
    let allowed = allowed
        .map(|path| Subset::read(job, path, base))
        .transpose()?;
    let leaves_out = match options.excludes_self {
        true => LeavesOut::Itself,
        false => LeavesOut::Nothing,
    };
    search(
        job,
        (base, queries),
        options,
        (allowed.as_ref(), leaves_out),
    )
}

/// Every two rows of `base` within the radius of each other, as results of the smaller row.
///
/// # Errors
/// As [`range_search`].
pub fn pairs(job: &Job, base: &VectorFile, options: &RangeOptions) -> Result<Within> {
    check_files(base, base, options.metric)?;
    search(job, (base, base), options, (None, LeavesOut::UpToItself))
}

/// Rows that are not results of a query which is a row of the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeavesOut {
    Nothing,
    Itself,
    /// Itself and those before it.
    UpToItself,
}

fn search(
    job: &Job,
    (base, queries): (&VectorFile, &VectorFile),
    options: &RangeOptions,
    (allowed, leaves_out): (Option<&Subset>, LeavesOut),
) -> Result<Within> {
    let bound = options.bound()?;
    let mut found = Within {
        limits: vec![0],
        ids: Vec::new(),
        distances: Vec::new(),
        passes: 0,
        read_bytes: 0,
        measured: 0,
        phases: Vec::new(),
        held: Vec::new(),
    };
    let limits_bytes = queries.rows.saturating_mul(size_of::<u64>() as u64);
    found.held.push(job.budget.reserve("limits", limits_bytes)?);
    let mut from = 0;
    while from < queries.rows {
        let for_results_bytes = job.budget.free_bytes() / 2;
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
        scan.show(job, ("search", &steps), behind.data_bytes());
        let part = queries.part(from, count as u64);
        let queries = Queries::load(job, &part, options.metric)?;
        let cuts = (0..count).map(|query| {
            let cut = Cut::of(options.metric, base.dimension, queries.norm(query), bound);
            (cut.factor, cut.level)
        });
        let (factors, levels) = cuts.unzip();
        let group = Group {
            queries,
            factors,
            levels,
            bound,
            allowed,
            first: base.first_row + from,
            leaves_out,
        };
        group.search(job, &scan, &mut found)?;
        from += count as u64;
    }
    Ok(found)
}

/// Queries that are searched for in one pass.
struct Group<'a> {
    queries: Queries,
    /// Of each, what products are compared with.
    factors: Vec<f32>,
    levels: Vec<f32>,
    bound: f64,
    allowed: Option<&'a Subset>,
    /// The row of the base that is the first query, if they are rows of the base.
    first: u64,
    leaves_out: LeavesOut,
}

/// What a thread searches with.
struct Finder {
    tile: Tile,
    scores: Vec<f32>,
    bounds: Vec<(f32, f32)>,
    /// Space for a row of bits, and its distance from each query.
    words: Vec<u64>,
    differing: Vec<u32>,
    hits: Hits,
    measured: u64,
    _held: Reservation,
}

impl Finder {
    fn memory_bytes(count: usize) -> u64 {
        let scores = QUERIES_AT_ONCE.min(count) * TILE_ROWS * size_of::<f32>();
        let differing = count * size_of::<u32>();
        (scores + TILE_ROWS * size_of::<(f32, f32)>() + differing) as u64
    }
}

impl Group<'_> {
    fn search(&self, job: &Job, scan: &Scan<'_>, found: &mut Within) -> Result<()> {
        let count = self.queries.count();
        let known = found.ids.len() as u64;
        let state = || {
            let held_bytes = Finder::memory_bytes(count) + Tile::memory_bytes(scan.file());
            Ok(Finder {
                _held: job.budget.reserve("search", held_bytes)?,
                tile: Tile::new(scan.file()),
                scores: vec![0.0; QUERIES_AT_ONCE.min(count) * TILE_ROWS],
                bounds: vec![(0.0, 0.0); TILE_ROWS],
                words: Vec::new(),
                differing: vec![0; count],
                hits: Hits::default(),
                measured: 0,
            })
        };
        let passed = scan.run(job, "search", state, |finder, piece| {
            let visited = match &self.queries.bits {
                Some(bits) => self.visit_bits(job, bits, finder, piece),
                None => self.visit(job, finder, piece),
            };
            visited.map_err(|error| too_many(error, known + finder.hits.len() as u64))
        })?;
        found.passes += 1;
        add_phase(&mut found.phases, passed.phase(job, "search"));
        found.read_bytes += passed.read_bytes;
        found.measured += passed
            .states
            .iter()
            .map(|finder| finder.measured)
            .sum::<u64>();
        self.add(job, passed.states, found)
    }

    /// Puts the results of all threads in order, after those that are known.
    fn add(&self, job: &Job, finders: Vec<Finder>, found: &mut Within) -> Result<()> {
        let hits = || finders.iter().flat_map(|finder| finder.hits.iter());
        let mut starts = vec![0; self.queries.count() + 1];
        hits().for_each(|hit| starts[hit.query + 1] += 1);
        for query in 0..self.queries.count() {
            starts[query + 1] += starts[query];
        }
        let (before, count) = (found.ids.len(), starts.last().copied().unwrap_or(0));
        let each_bytes = size_of::<(u64, f64)>();
        let reserve = |results: usize| {
            let reserved = job.budget.reserve("results", (results * each_bytes) as u64);
            reserved.map_err(|error| too_many(error, (before + count) as u64))
        };
        found.held.push(reserve(count)?);
        // Those that are known move, and a query's are sorted beside.
        let widest = starts.windows(2).map(|ends| ends[1] - ends[0]).max();
        let _moved = reserve(before + widest.unwrap_or(0))?;
        found.ids.reserve_exact(count);
        found.distances.reserve_exact(count);
        found.ids.resize(before + count, 0);
        found.distances.resize(before + count, 0.0);
        let mut next = starts.clone();
        for hit in hits() {
            let place = before + next[hit.query];
            found.ids[place] = hit.row;
            found.distances[place] = self.queries.shown(hit.distance);
            next[hit.query] += 1;
        }
        let mut sorted = Vec::with_capacity(widest.unwrap_or(0));
        for ends in starts.windows(2) {
            let of_query = before + ends[0]..before + ends[1];
            let (ids, distances) = (
                &mut found.ids[of_query.clone()],
                &mut found.distances[of_query],
            );
            sorted.clear();
            sorted.extend(ids.iter().copied().zip(distances.iter().copied()));
            sorted.sort_unstable_by_key(|(row, _)| *row);
            for ((id, distance), sorted) in ids.iter_mut().zip(distances).zip(&sorted) {
                (*id, *distance) = *sorted;
            }
            found.limits.push((before + ends[1]) as u64);
        }
        Ok(())
    }

    fn is_left_out(&self, query: usize, row: u64) -> bool {
        let of_query = self.first + query as u64;
        match self.leaves_out {
            LeavesOut::Nothing => false,
            LeavesOut::Itself => row == of_query,
            LeavesOut::UpToItself => row <= of_query,
        }
    }

    fn visit_bits(
        &self,
        job: &Job,
        bits: &Bits,
        finder: &mut Finder,
        piece: Piece<'_>,
    ) -> Result<()> {
        let Finder {
            words,
            differing,
            hits,
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
                    let hit = Hit {
                        query,
                        row,
                        distance,
                    };
                    hits.push(job, hit)?;
                }
            }
            Ok(())
        })
    }

    fn visit(&self, job: &Job, finder: &mut Finder, piece: Piece<'_>) -> Result<()> {
        let Finder {
            tile,
            scores,
            bounds,
            hits,
            measured,
            ..
        } = finder;
        tile.each(piece, |rows, wide| {
            let (count, metric) = (rows.matrix.rows, self.queries.metric);
            cut::bound_rows(metric, rows.matrix.dimension, rows.squares, bounds);
            self.queries.check_rows(&rows, wide)?;
            for from in (0..self.queries.count()).step_by(QUERIES_AT_ONCE) {
                let block = self.queries.block(from, QUERIES_AT_ONCE);
                if self.is_left_out(from, rows.first + count as u64 - 1)
                    && self.leaves_out == LeavesOut::UpToItself
                {
                    // So are all rows of the tile, and for all later queries.
                    break;
                }
                let scores_len = block.rows * count;
                products(block, rows.matrix, &mut scores[..scores_len]);
                let ends = from..from + block.rows;
                let (factors, levels) = (&self.factors[ends.clone()], &self.levels[ends]);
                let mut row = 0;
                while let Some(hit) = next_kept(
                    (factors, levels),
                    &scores[..scores_len],
                    &bounds[..count],
                    row,
                ) {
                    row = hit + 1;
                    let id = rows.first + hit as u64;
                    if self.allowed.is_some_and(|allowed| !allowed.has(id)) {
                        continue;
                    }
                    rows.exact(hit, wide);
                    for at in 0..block.rows {
                        let product = scores[hit * block.rows + at];
                        let query = from + at;
                        let cut = (factors[at], levels[at]);
                        if !is_kept(cut, product, bounds[hit]) || self.is_left_out(query, id) {
                            continue;
                        }
                        *measured += 1;
                        let distance = self.queries.distance(query, wide);
                        if distance <= self.bound {
                            let hit = Hit {
                                query,
                                row: id,
                                distance,
                            };
                            hits.push(job, hit)?;
                        }
                    }
                }
            }
            Ok(())
        })
    }
}
