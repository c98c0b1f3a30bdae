//! Finds the exact nearest neighbours of queries, in one or a few passes over the base.
//!
//! Contract: [`knn`] returns for each query the `k` rows of the base with the least distance in f64
//! ([`crate::exact`]), ties ordered by row. The result depends only on the two files. A product in
//! f32 of all queries with a tile of rows rules out every row that is farther than the `k`th best
//! so far, even with the largest error that [`cut`] allows. The remaining rows, about `k ln(N / k)`
//! per query, are measured in f64 while they are in memory. Threads share the distance of their
//! `k`th best; this only rules out more rows.
//!
//! A search through an index ([`indexed`]) reads a quarter of the bytes and has the same result. A
//! search through an index with lists ([`lists`]) reads a part of the rows, and the result is exact
//! among them.
//!
//! Distances: the squared Euclidean distance; the inner product, where the largest is nearest; one
//! minus the cosine; the number of bits that differ, which is counted for every row ([`bits`]).
//!
//! Bounds: one read of the base for each group of queries, with as few groups as the memory allows.
//! Memory is 12 bytes per number of a query in the group, 16 bytes per neighbour and thread, 48
//! bytes per neighbour of the result, and the memory of the scan.

mod bits;
mod cut;
mod hits;
mod indexed;
mod kept;
mod lists;
mod nearest;
mod queries;
mod range;
mod subset;

use std::path::PathBuf;
use std::sync::Arc;

use outcore::{Error, Job, Kind, Phase, Result};
use outcore_io::memory::Reservation;
use outcore_io::units;

use crate::format::{Element, VectorFile};
use crate::index::lists::ListFile;
use crate::index::{AnyIndex, IndexFile};
pub use crate::results::NO_ROW;
use crate::scan::{Piece, Scan, TILE_ROWS, Tile, add_phase};
use cut::RowBound;

use bits::Bits;
pub use hits::{Hit, Hits, TakeHits};
use kept::KeptNeighbours;
pub use lists::Recall;
use lists::{ListScan, Probes};
use nearest::{Nearest, Worst};
use queries::Queries;
pub use range::{Found, RangeOptions, Within, pairs, range_search};
pub use subset::{RowMarks, Subset};

/// The distance measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// The squared Euclidean distance.
    L2,
    /// The inner product; the largest is nearest.
    Ip,
    /// One minus the cosine of the angle; 1 if a vector is zero.
    Cos,
    /// The number of bits that differ; vectors of u8 are packed bits.
    Hamming,
}

impl Metric {
    /// Returns the metric with this name: `l2` (or `euclidean`), `ip` (`dot`), `cos` (`cosine`) or
    /// `hamming`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "l2" | "euclidean" => Some(Metric::L2),
            "ip" | "dot" => Some(Metric::Ip),
            "cos" | "cosine" => Some(Metric::Cos),
            "hamming" => Some(Metric::Hamming),
            _ => None,
        }
    }
}

/// Options of a search.
#[derive(Debug, Clone)]
pub struct KnnOptions {
    /// Neighbours per query.
    pub k: usize,
    /// The distance measure.
    pub metric: Metric,
    /// Whether the queries are the first rows of the base; a row is then not its own neighbour.
    pub excludes_self: bool,
    /// The rows of the base that may be neighbours; all if `None`.
    pub subset: Option<Arc<Subset>>,
    /// An index of the base ([`crate::index`]) that is read instead. It changes the result only if
    /// it has more lists than `probes`.
    pub index: Option<PathBuf>,
    /// For an index with lists, the number of lists to read per query; all if `None`.
    pub probes: Option<usize>,
    /// The number of queries for which recall is measured, if not all lists are read.
    pub recall_queries: usize,
}

/// The default number of queries for which recall is measured.
pub const RECALL_QUERIES: usize = 100;

impl KnnOptions {
    /// Searches all rows for the `k` nearest.
    pub fn new(k: usize, metric: Metric) -> Self {
        KnnOptions {
            k,
            metric,
            excludes_self: false,
            subset: None,
            index: None,
            probes: None,
            recall_queries: RECALL_QUERIES,
        }
    }
}

/// The neighbours of all queries, query by query, the nearest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbours {
    /// Neighbours per query.
    pub k: usize,
    /// Rows of the base; [`NO_ROW`] if a subset has fewer than `k`.
    pub ids: Vec<u64>,
    /// Their distances; infinite for [`NO_ROW`].
    pub distances: Vec<f64>,
    /// Passes over the base.
    pub passes: u32,
    /// Bytes read.
    pub read_bytes: u64,
    /// Distances that were measured in f64.
    pub measured: u64,
    /// Rows read from the base because an index could not rule them out.
    pub gathered: u64,
    /// Whether an index ruled out so few rows that the whole base was read.
    pub index_failed: bool,
    /// Lists read, counted for each group of queries.
    pub lists_read: u64,
    /// The measured recall, if not all lists were read.
    pub recall: Option<Recall>,
    /// The phases of the search, with their plans.
    pub phases: Vec<Phase>,
}

impl Neighbours {
    /// An empty result.
    fn none_yet(k: usize) -> Self {
        Neighbours {
            k,
            ids: Vec::new(),
            distances: Vec::new(),
            passes: 0,
            read_bytes: 0,
            measured: 0,
            gathered: 0,
            index_failed: false,
            lists_read: 0,
            recall: None,
            phases: Vec::new(),
        }
    }
}

/// Queries that are multiplied at a time.
const QUERIES_AT_ONCE: usize = 256;
/// Groups are not made smaller than this to allow more threads.
const GROUP_MIN: usize = 64;
/// Memory per neighbour of the result, including the caller's copy.
const RESULT_BYTES: u64 = 48;
/// The most neighbours per query.
const K_MAX: usize = 1 << 16;

/// Finds the `k` nearest rows of `base` for each row of `queries`.
///
/// # Errors
/// Usage: dimensions that differ, more neighbours than the base has rows, NaN or an infinite
/// number. Memory: not even one query fits, or the result does not. Errors of reading.
pub fn knn(
    job: &Job,
    base: &VectorFile,
    queries: &VectorFile,
    options: &KnnOptions,
) -> Result<Neighbours> {
    let count = queries.rows.saturating_mul(options.k as u64);
    let _result = job.budget.reserve("neighbours", count.saturating_mul(16))?;
    let (mut ids, mut distances) = (Vec::new(), Vec::new());
    let found = knn_each(job, base, queries, options, &mut |found| {
        ids.extend_from_slice(&found.ids);
        distances.extend_from_slice(&found.distances);
        Ok(())
    })?;
    Ok(Neighbours {
        ids,
        distances,
        ..found
    })
}

/// Takes the neighbours of the next queries.
pub type TakeNeighbours<'t> = dyn FnMut(&Neighbours) -> Result<()> + 't;

/// Like [`knn`], but `take` receives the neighbours of the queries of each pass as soon as they are
/// found, so the whole result need not fit into memory. The returned value has no neighbours.
///
/// # Errors
/// As [`knn`]; errors of `take`.
pub fn knn_each(
    job: &Job,
    base: &VectorFile,
    queries: &VectorFile,
    options: &KnnOptions,
    take: &mut TakeNeighbours<'_>,
) -> Result<Neighbours> {
    let job = &job.steady();
    check(base, queries, options)?;
    let allowed = options.subset.as_deref();
    allowed.map_or(Ok(()), |subset| subset.check(base))?;
    let (k, count) = (options.k, queries.rows as usize);
    let mut found = Neighbours::none_yet(k);
    let Indexes {
        records: index,
        lists,
    } = Indexes::open(job, base, options)?;
    let probes = lists::check(options, lists.as_ref())?;
    let recall_count = match &lists {
        Some(lists) if probes < lists.count() => options.recall_queries.min(count),
        _ => 0,
    };
    let mut first_ids = Vec::new();
    let (mut from, mut group_max) = (0, count);
    let mut kept = KeptNeighbours::begin(job, count, k)?;
    if let Some(kept) = kept.as_ref().filter(|kept| kept.is_begun()) {
        found = kept.figures();
        from = kept.found.ids.len() / k;
        first_ids.extend(kept.found.ids.iter().take(recall_count * k));
        take(&kept.found)?;
    }
    while from < count {
        let index = index.as_ref().filter(|_| !found.index_failed);
        let memory = |group: usize| {
            let result_bytes = group as u64 * k as u64 * RESULT_BYTES;
            let shared_bytes = Queries::memory_bytes(queries, options.metric, group) + result_bytes;
            match (index, &lists) {
                (Some(_), _) => (indexed::memory_bytes(job, base, group, k), shared_bytes),
                (None, Some(lists)) => {
                    let (thread, shared) = Probes::memory_bytes(lists, probes, group);
                    let thread_bytes = Searcher::memory_bytes(group, k) + thread;
                    (thread_bytes, shared_bytes + shared)
                }
                (None, None) => (Searcher::memory_bytes(group, k), shared_bytes),
            }
        };
        let read = match (index, &lists) {
            (Some(index), _) => index.records(),
            (None, Some(lists)) => &lists.rows,
            (None, None) => base,
        };
        let (group, scan) = plan(job, read, (count - from).min(group_max), memory)?;
        let steps = format!(
            "read {} -> the {k} nearest rows of each query ({group} of {count} queries in this pass)",
            what_is_read(index.is_some(), lists.is_some())
        );
        let part = queries.part(from as u64, group as u64);
        let group = Group {
            queries: Queries::load(job, &part, options.metric)?,
            worst: Worst::new(group),
            allowed,
            first_query: options.excludes_self.then_some(from as u64),
            k,
        };
        if lists.is_none() {
            scan.show(job, "search", &steps, read.data_bytes(), 1);
        }
        match index {
            Some(index) => {
                if !group.search_index(job, index, base, &scan, &mut found)? {
                    found.index_failed = true;
                    continue;
                }
            }
            None => match &lists {
                Some(lists) => {
                    let pass = ListScan {
                        scan: &scan,
                        steps: &steps,
                    };
                    match group.search_lists(job, lists, &part, probes, &pass, &mut found) {
                        // With a subset, some queries may need so many lists that fewer queries
                        // fit.
                        Err(error) if error.kind() == Kind::Memory && part.rows > 1 => {
                            group_max = part.rows.div_ceil(2) as usize;
                            continue;
                        }
                        searched => searched?,
                    }
                }
                None => group.search(job, &scan, &mut found)?,
            },
        }
        from += group.queries.count();
        let missing = (recall_count * k).saturating_sub(first_ids.len());
        first_ids.extend(found.ids.iter().take(missing));
        take(&found)?;
        if let Some(kept) = &mut kept {
            kept.add(&found);
            job.keep_state(kept)?;
        }
        found.ids.clear();
        found.distances.clear();
    }
    if recall_count > 0 {
        lists::Recall::measure(job, base, queries, options, &first_ids, &mut found)?;
    }
    Ok(found)
}

/// The index of a search, of either kind.
struct Indexes {
    records: Option<IndexFile>,
    lists: Option<ListFile>,
}

impl Indexes {
    /// Opens the index, if there is one.
    fn open(job: &Job, base: &VectorFile, options: &KnnOptions) -> Result<Self> {
        let path = options.index.as_deref();
        let index = path.map(|path| AnyIndex::open(job, path, base));
        let (records, lists) = match index.transpose()? {
            Some(AnyIndex::Records(records)) => (Some(records), None),
            Some(AnyIndex::Lists(lists)) => (None, Some(lists)),
            None => (None, None),
        };
        Ok(Indexes { records, lists })
    }
}

/// The input of a search, in words.
fn what_is_read(has_index: bool, has_lists: bool) -> &'static str {
    match (has_index, has_lists) {
        (true, _) => "the index, then the rows that it does not rule out",
        (false, true) => "the lists of the index that are nearest",
        (false, false) => "the base",
    }
}

/// Chooses the queries of the next pass, and plans the pass. It takes as many queries as leave
/// memory for all threads, but at least [`GROUP_MIN`]. `memory` returns the memory that a number of
/// queries needs: per thread, and for all threads together.
fn plan<'b>(
    job: &Job,
    base: &'b VectorFile,
    left: usize,
    memory: impl Fn(usize) -> (u64, u64),
) -> Result<(usize, Scan<'b>)> {
    let mut group = left;
    loop {
        let (each_bytes, shared_bytes) = memory(group);
        match Scan::plan(job, base, each_bytes, shared_bytes) {
            Ok(scan) => {
                let has_all = scan.threads() == Scan::threads_wanted(job, base);
                if has_all || group <= GROUP_MIN {
                    return Ok((group, scan));
                }
            }
            Err(error) if error.kind() != Kind::Memory || group == 1 => return Err(error),
            Err(_) => {}
        }
        group = group.div_ceil(2);
    }
}

/// Checks that the two files can be searched together.
fn check_files(base: &VectorFile, queries: &VectorFile, metric: Metric) -> Result<()> {
    for file in [base, queries] {
        if file.element.is_id() {
            let cause = format!("it holds ids ({}), not vectors", file.element.name());
            return Err(Error::usage("search neighbours", cause)
                .path(&file.path)
                .hint("convert it to f32 with `outcore vector convert`"));
        }
        if metric == Metric::Hamming && file.element != Element::U8 {
            let cause = format!("it holds {}, not packed bits", file.type_name());
            return Err(Error::usage("search neighbours", cause)
                .path(&file.path)
                .hint("give u8 with eight bits per byte, as numpy.packbits makes them"));
        }
    }
    if base.dimension != queries.dimension {
        let cause = format!(
            "the base has {}, but the queries have {}",
            units::counted(base.dimension as u64, "dimension"),
            queries.dimension
        );
        return Err(Error::usage("search neighbours", cause)
            .path(&queries.path)
            .hint("name queries with the same dimension as the base"));
    }
    Ok(())
}

/// Rejects impossible searches before anything is read.
///
/// # Errors
/// Usage, as [`knn`].
pub fn check(base: &VectorFile, queries: &VectorFile, options: &KnnOptions) -> Result<()> {
    check_files(base, queries, options.metric)?;
    if let Some(path) = options
        .index
        .as_ref()
        .filter(|_| options.metric == Metric::Hamming)
    {
        let cause = "there is no index for packed bits";
        return Err(Error::usage("search neighbours", cause)
            .path(path)
            .hint("search bits without an index"));
    }
    check_k(base, options, base.rows)
}

/// Fails if a subset has fewer rows than `k`, for results that cannot hold [`NO_ROW`].
///
/// # Errors
/// Usage.
pub fn check_chosen(base: &VectorFile, options: &KnnOptions) -> Result<()> {
    match &options.subset {
        Some(subset) => check_k(base, options, subset.count()),
        None => Ok(()),
    }
}

/// Fails if `rows` rows have fewer than `k` neighbours.
fn check_k(base: &VectorFile, options: &KnnOptions, rows: u64) -> Result<()> {
    let others = rows.saturating_sub(u64::from(options.excludes_self));
    if options.k == 0 || options.k as u64 > others || options.k > K_MAX {
        let noun = if options.excludes_self {
            "other row"
        } else {
            "row"
        };
        let is_chosen = rows < base.rows;
        let cause = format!(
            "{} requested, but {} {}",
            match options.k {
                1 => "1 neighbour was".to_string(),
                k => format!("{k} neighbours were"),
            },
            match is_chosen {
                true => "the subset or the condition leaves",
                false => "there are",
            },
            units::counted(others, noun)
        );
        return Err(Error::usage("search neighbours", cause)
            .path(&base.path)
            .hint(match is_chosen {
                true => "choose a smaller -k, or leave more rows",
                false => "choose -k between 1 and the number of rows, at most 65536",
            }));
    }
    Ok(())
}

/// Queries that are searched in one pass.
struct Group<'a> {
    queries: Queries,
    worst: Worst,
    allowed: Option<&'a Subset>,
    /// The row of the base that is the first query, if queries are rows of the base.
    first_query: Option<u64>,
    k: usize,
}

/// A thread's state for a search.
struct Searcher {
    tile: Tile,
    scores: Vec<f32>,
    nearest: Nearest,
    /// For each row of a tile, its bounds for the comparison.
    bounds: Vec<RowBound>,
    /// A buffer for a row of bits, and the row's distance from each query.
    words: Vec<u64>,
    differing: Vec<u32>,
    measured: u64,
    _held: Reservation,
}

impl Searcher {
    fn memory_bytes(count: usize, k: usize) -> u64 {
        let scores = QUERIES_AT_ONCE.min(count) * TILE_ROWS * size_of::<f32>();
        let differing = count * size_of::<u32>();
        (scores + TILE_ROWS * size_of::<RowBound>() + differing) as u64
            + Nearest::memory_bytes(count, k)
    }
}

impl Group<'_> {
    /// Creates a thread's state for rows of `file`.
    fn searcher(&self, file: &VectorFile, held: Reservation) -> Searcher {
        let count = self.queries.count();
        Searcher {
            tile: Tile::new(file),
            scores: vec![0.0; QUERIES_AT_ONCE.min(count) * TILE_ROWS],
            nearest: Nearest::new(&self.queries, self.k),
            bounds: vec![RowBound::default(); TILE_ROWS],
            words: Vec::new(),
            differing: vec![0; count],
            measured: 0,
            _held: held,
        }
    }

    fn search(&self, job: &Job, scan: &Scan<'_>, found: &mut Neighbours) -> Result<()> {
        let (count, k) = (self.queries.count(), self.k);
        let state = || {
            let held_bytes = Searcher::memory_bytes(count, k) + Tile::memory_bytes(scan.file());
            Ok(self.searcher(scan.file(), job.budget.reserve("search", held_bytes)?))
        };
        let passed = scan.run(job, "search", state, |state, piece| {
            match &self.queries.bits {
                Some(bits) => self.visit_bits(bits, state, piece),
                None => self.visit(state, piece),
            }
        })?;
        add_phase(&mut found.phases, passed.phase("search"));
        found.passes += 1;
        found.read_bytes += passed.read_bytes;
        found.measured += passed
            .states
            .iter()
            .map(|state| state.measured)
            .sum::<u64>();
        let each = passed.states.into_iter().map(|state| state.nearest);
        nearest::merge(each.collect(), &self.queries, k, found);
        Ok(())
    }

    fn is_left_out(&self, query: usize, id: u64) -> bool {
        let of_query = self.first_query.map(|first| first + query as u64);
        of_query == Some(id) || self.allowed.is_some_and(|allowed| !allowed.has(id))
    }

    fn visit_bits(&self, bits: &Bits, state: &mut Searcher, piece: Piece<'_>) -> Result<()> {
        let Searcher {
            nearest,
            words,
            differing,
            measured,
            ..
        } = state;
        nearest.learn(&self.queries, &self.worst);
        bits::each_row(piece, words, |id, row| {
            bits.distances(row, differing);
            *measured += differing.len() as u64;
            for (query, distance) in differing.iter().enumerate() {
                let distance = f64::from(*distance);
                if distance <= nearest.known(query) && !self.is_left_out(query, id) {
                    nearest.offer(query, distance, id, &self.queries, &self.worst);
                }
            }
            Ok(())
        })
    }

    fn visit(&self, state: &mut Searcher, piece: Piece<'_>) -> Result<()> {
        let Searcher {
            tile,
            scores,
            nearest,
            bounds,
            measured,
            ..
        } = state;
        nearest.learn(&self.queries, &self.worst);
        tile.each(piece, |rows, wide| {
            let count = rows.matrix.rows;
            cut::bound_rows(
                self.queries.metric,
                rows.matrix.dimension,
                rows.squares,
                bounds,
            );
            for from in (0..self.queries.count()).step_by(QUERIES_AT_ONCE) {
                let block = self.queries.block(from, QUERIES_AT_ONCE);
                let scores = &mut scores[..block.rows * count];
                crate::product::products(block, rows.matrix, scores);
                let mut row = 0;
                while let Some(hit) =
                    nearest.next_hit(from..from + block.rows, scores, &bounds[..count], row)
                {
                    row = hit + 1;
                    let id = rows.first + hit as u64;
                    if self.allowed.is_some_and(|allowed| !allowed.has(id)) {
                        continue;
                    }
                    rows.exact(hit, wide);
                    let products = &scores[hit * block.rows..][..block.rows];
                    for (at, product) in products.iter().enumerate() {
                        let query = from + at;
                        if self.is_left_out(query, id)
                            || !nearest.may_take(query, *product, bounds[hit])
                        {
                            continue;
                        }
                        *measured += 1;
                        let distance = self.queries.distance(query, wide);
                        nearest.offer(query, distance, id, &self.queries, &self.worst);
                    }
                }
            }
            Ok(())
        })
    }
}
