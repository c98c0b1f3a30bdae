//! Searches through an index: reads its records instead of the base, and only those rows of the
//! base that may be near.
//!
//! Contract: the result has the same bytes as the result of a pass over the base. A record gives a
//! lower and an upper bound on the distance of its row from a query ([`cut::interval`]). A row is
//! ruled out if `k` others are certainly nearer. The remaining candidates are read from the base,
//! the most promising first, measured in f64 and ranked as usual.
//!
//! If the bounds rule out too few rows, reading single rows would take longer than reading all. The
//! search stops as soon as there are more candidates than [`candidates_max`], and the base is read
//! instead. If the bounds rule out nothing, the search notices that within the first few thousand
//! records.
//!
//! Bounds: one read of the index for each group of queries, and one or two blocks per candidate.
//! Memory is as for a search of the base, plus 24 bytes per candidate.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outcore::primitives::gather::gather;
use outcore::{Error, Job, Kind, Result};
use outcore_io::memory::Reservation;

use super::cut;
use super::cut::RowBound;
use super::nearest::{self, Nearest, Worst};
use super::{Group, Neighbours, QUERIES_AT_ONCE};
use crate::format::{VectorFile, input_of};
use crate::index::IndexFile;
use crate::index::record::Facts;
use crate::product::{Matrix, products};
use crate::scan::{Piece, Scan, TILE_ROWS, Tile, add_phase, strange, strange_in};

/// A number of candidates that is always acceptable, if they fit into memory.
const CANDIDATES_FEW: u64 = 4096;
/// The block size for reading candidates.
const BLOCK_BYTES: u64 = 4096;
/// If the blocks of candidates exceed 1/`PART` of the base, the whole base is read.
const PART: u64 = 8;
/// Candidates may take 1/`MEMORY_PART` of the memory.
const MEMORY_PART: u64 = 16;

/// A row that may be near a query.
#[derive(Clone, Copy)]
struct Candidate {
    query: usize,
    row: u64,
    /// A lower bound on its distance.
    least: f64,
}

/// The most candidates for which a search of `base` is cheaper than reading all of it.
pub(super) fn candidates_max(job: &Job, base: &VectorFile) -> usize {
    let blocks = (base.row_bytes() as u64).div_ceil(BLOCK_BYTES) + 1;
    let worth = (base.data_bytes() / (blocks * BLOCK_BYTES) / PART).max(CANDIDATES_FEW);
    let fitting = job.budget.limit_bytes() / MEMORY_PART / size_of::<Candidate>() as u64;
    worth.min(fitting) as usize
}

/// A thread's state for searching records.
struct Scanner {
    numbers: Vec<f32>,
    facts: Vec<Facts>,
    bounds: Vec<RowBound>,
    scores: Vec<f32>,
    /// The rows with the least upper bounds on their distances.
    nearest: Nearest,
    candidates: Vec<Candidate>,
    candidates_max: usize,
    _held: Reservation,
}

impl Scanner {
    fn memory_bytes(count: usize, k: usize, candidates: usize) -> u64 {
        let scores = QUERIES_AT_ONCE.min(count) * TILE_ROWS * size_of::<f32>();
        let rows = TILE_ROWS * (size_of::<Facts>() + size_of::<RowBound>());
        let candidates = candidates * size_of::<Candidate>();
        (scores + rows + candidates) as u64 + Nearest::memory_bytes(count, k)
    }

    /// Keeps a candidate; if there is no room, first drops those that are ruled out by now. Returns
    /// false if there are still too many.
    fn keep(&mut self, candidate: Candidate) -> bool {
        if self.candidates.len() == self.candidates_max {
            let nearest = &self.nearest;
            self.candidates
                .retain(|kept| kept.least <= nearest.known(kept.query));
            if self.candidates.len() > self.candidates_max / 2 {
                return false;
            }
        }
        self.candidates.push(candidate);
        true
    }
}

/// Memory of a thread that searches through an index, for this many queries.
pub(super) fn memory_bytes(job: &Job, base: &VectorFile, count: usize, k: usize) -> u64 {
    let each = candidates_max(job, base).div_ceil(Scan::threads_wanted(job, base));
    Scanner::memory_bytes(count, k, each)
}

/// A row that is measured for a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    row: u64,
    query: usize,
}

impl Group<'_> {
    /// Searches the records of `index`, which belongs to `base`; returns false if too many rows
    /// remain.
    pub(super) fn search_index(
        &self,
        job: &Job,
        index: &IndexFile,
        base: &VectorFile,
        scan: &Scan<'_>,
        found: &mut Neighbours,
    ) -> Result<bool> {
        let (count, dimension, k) = (self.queries.count(), base.dimension, self.k);
        let candidates_max = candidates_max(job, base).div_ceil(scan.threads());
        let state = || {
            let held_bytes = Scanner::memory_bytes(count, k, candidates_max);
            let held_bytes = held_bytes + Tile::memory_bytes(scan.file());
            Ok(Scanner {
                _held: job.budget.reserve("search", held_bytes)?,
                numbers: vec![0.0; TILE_ROWS * dimension],
                facts: vec![Facts::default(); TILE_ROWS],
                bounds: vec![RowBound::default(); TILE_ROWS],
                scores: vec![0.0; QUERIES_AT_ONCE.min(count) * TILE_ROWS],
                nearest: Nearest::new(&self.queries, k),
                candidates: Vec::with_capacity(candidates_max),
                candidates_max,
            })
        };
        let are_too_many = AtomicBool::new(false);
        // A scan that stops early does not report the bytes it has read.
        let seen_bytes = AtomicU64::new(0);
        let passed = scan.run(job, "search", state, |state, piece| {
            seen_bytes.fetch_add(piece.bytes.len() as u64, Ordering::Relaxed);
            match self.visit_records(state, index, base, piece)? {
                true => Ok(()),
                false => {
                    are_too_many.store(true, Ordering::Relaxed);
                    Err(Error::interrupted())
                }
            }
        });
        let passed = match passed {
            Err(error) if error.kind() == Kind::Interrupted => {
                job.control.check()?;
                return match are_too_many.into_inner() {
                    true => {
                        found.read_bytes += seen_bytes.into_inner();
                        Ok(false)
                    }
                    false => Err(error),
                };
            }
            passed => passed?,
        };
        add_phase(&mut found.phases, passed.phase("search"));
        found.passes += 1;
        found.read_bytes += passed.read_bytes;
        let kept: usize = passed
            .states
            .iter()
            .map(|state| state.candidates.len())
            .sum();
        let kept_bytes = (kept * size_of::<Candidate>()) as u64;
        let _held = job.budget.reserve("candidates", kept_bytes)?;
        let (mut candidates, mut each) = (Vec::with_capacity(kept), Vec::new());
        for state in passed.states {
            candidates.extend_from_slice(&state.candidates);
            each.push(state.nearest);
        }
        let most: Vec<f64> = (0..count)
            .map(|query| nearest::kth(&each, query, k))
            .collect();
        drop(each);
        candidates.retain(|kept| kept.least <= most[kept.query]);
        candidates.sort_unstable_by(|a, b| {
            let order = a.query.cmp(&b.query).then(a.least.total_cmp(&b.least));
            order.then(a.row.cmp(&b.row))
        });
        let mut nearest = Nearest::new(&self.queries, k);
        let measured = self.measure(job, base, &candidates, &most, &mut nearest, found);
        match measured {
            // The rows do not fit next to the candidates; a pass reads them in pieces.
            Err(error) if error.kind() == Kind::Memory => return Ok(false),
            measured => measured?,
        }
        index.check_base(job)?;
        nearest::merge(vec![nearest], &self.queries, k, found);
        Ok(true)
    }

    /// Finds candidates in records; returns false if there are too many.
    fn visit_records(
        &self,
        state: &mut Scanner,
        index: &IndexFile,
        base: &VectorFile,
        piece: Piece<'_>,
    ) -> Result<bool> {
        let (metric, dimension) = (self.queries.metric, base.dimension);
        let record_bytes = index.records().row_bytes();
        state.nearest.learn(&self.queries, &self.worst);
        let tiles = piece.bytes.chunks(TILE_ROWS * record_bytes);
        for (first, bytes) in (piece.first..).step_by(TILE_ROWS).zip(tiles) {
            let rows = bytes.len() / record_bytes;
            let (numbers, facts) = (
                &mut state.numbers[..rows * dimension],
                &mut state.facts[..rows],
            );
            index.decode(first, bytes, numbers, facts)?;
            cut::bound_records(metric, dimension, facts, &mut state.bounds);
            for from in (0..self.queries.count()).step_by(QUERIES_AT_ONCE) {
                let block = self.queries.block(from, QUERIES_AT_ONCE);
                let tile = Matrix::dense(&state.numbers[..rows * dimension], dimension);
                products(block, tile, &mut state.scores[..block.rows * rows]);
                let block_rows = first..first + rows as u64;
                let queries = from..from + block.rows;
                if !self.visit_products(state, block_rows, queries) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Keeps the rows of a tile that may be near some of the queries; returns false if there are
    /// too many.
    fn visit_products(&self, state: &mut Scanner, rows: Range<u64>, queries: Range<usize>) -> bool {
        let (metric, dimension) = (self.queries.metric, self.queries.dimension);
        let (first, rows) = (rows.start, (rows.end - rows.start) as usize);
        let (from, count) = (queries.start, queries.len());
        let mut next = 0;
        while let Some(hit) = state.nearest.next_hit(
            from..from + count,
            &state.scores[..count * rows],
            &state.bounds[..rows],
            next,
        ) {
            next = hit + 1;
            let row = first + hit as u64;
            for at in 0..count {
                let (query, product) = (from + at, state.scores[hit * count + at]);
                if self.is_left_out(query, row)
                    || !state.nearest.may_take(query, product, state.bounds[hit])
                {
                    continue;
                }
                let norm = self.queries.norm(query);
                let (least, most) =
                    cut::interval(metric, dimension, norm, &state.facts[hit], product);
                if !state.keep(Candidate { query, row, least }) {
                    return false;
                }
                state
                    .nearest
                    .offer(query, most, row, &self.queries, &self.worst);
            }
        }
        true
    }

    /// Measures the sorted candidates that may be among the nearest. It starts with the most
    /// promising ones, because they rule out others.
    fn measure(
        &self,
        job: &Job,
        base: &VectorFile,
        candidates: &[Candidate],
        most: &[f64],
        nearest: &mut Nearest,
        found: &mut Neighbours,
    ) -> Result<()> {
        let worst = Worst::new(self.queries.count());
        let mut left: Vec<&[Candidate]> = candidates.chunk_by(|a, b| a.query == b.query).collect();
        let mut step = 2 * self.k;
        loop {
            let mut wanted: Vec<Pair> = Vec::new();
            for left in &mut left {
                let Some(query) = left.first().map(|candidate| candidate.query) else {
                    continue;
                };
                let bound = most[query].min(nearest.known(query));
                let near = left.partition_point(|candidate| candidate.least <= bound);
                let (now, later) = left[..near].split_at(near.min(step));
                wanted.extend(now.iter().map(|candidate| Pair {
                    row: candidate.row,
                    query,
                }));
                *left = later;
            }
            if wanted.is_empty() {
                return Ok(());
            }
            wanted.sort_unstable();
            self.measure_rows(job, base, &wanted, nearest, &worst, found)?;
            step = usize::MAX;
        }
    }

    /// Measures sorted pairs of rows and queries.
    fn measure_rows(
        &self,
        job: &Job,
        base: &VectorFile,
        wanted: &[Pair],
        nearest: &mut Nearest,
        worst: &Worst,
        found: &mut Neighbours,
    ) -> Result<()> {
        let row_bytes = base.row_bytes();
        let at_once = (job.budget.free_bytes() / 4 / row_bytes as u64).max(1) as usize;
        let mut wide = vec![0.0; base.dimension];
        let by_row: Vec<&[Pair]> = wanted.chunk_by(|a, b| a.row == b.row).collect();
        for rows in by_row.chunks(at_once) {
            let positions: Vec<u64> = rows.iter().map(|pairs| pairs[0].row).collect();
            let (bytes, summary) = gather(job, &[input_of(base)], row_bytes, &positions)?;
            found.read_bytes += summary.read_bytes;
            for phase in summary.phases {
                add_phase(&mut found.phases, phase);
            }
            found.gathered += positions.len() as u64;
            for (pairs, bytes) in rows.iter().zip(bytes.chunks_exact(row_bytes)) {
                let row = pairs[0].row;
                base.element
                    .decode_f64(base.numbers(row, bytes)?, &mut wide);
                if let Some(column) = strange_in(&wide) {
                    return Err(strange(base, row, column, wide[column]));
                }
                found.measured += pairs.len() as u64;
                for Pair { row, query } in *pairs {
                    let distance = self.queries.distance(*query, &wide);
                    nearest.offer(*query, distance, *row, &self.queries, worst);
                }
            }
        }
        Ok(())
    }
}
