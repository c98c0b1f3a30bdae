//! Searches through an index with lists: reads only the lists whose centroids are nearest to a
//! query.
//!
//! Contract: the nearest lists of a query are found by a search among the centroids, with the
//! metric of the search. The result is exact within the lists that are read: distances are in f64,
//! ties are ordered by row of the base. If a query's lists have fewer than `k` rows, further lists
//! are read. If a subset leaves too few rows, the number of lists is doubled. A search of all lists
//! has the same result as a search of the base.
//!
//! [`Recall`] measures how much the lists miss: it is the share of the exact neighbours of some
//! queries that was found.
//!
//! Bounds: one read of the union of the lists for each group of queries. If a subset leaves too few
//! rows, the lists of the affected queries are read once more after each doubling. Memory is as for
//! a search of the base, plus the lists of each query (8 bytes per list) and, per thread, a copy of
//! the queries of a list.

use outcore::{Error, Job, Phase, Result};
use outcore_io::memory::Reservation;

use super::nearest::{self, Nearest};
use super::queries::Queries;
use super::{Group, KnnOptions, Metric, Neighbours, QUERIES_AT_ONCE, Searcher, cut, knn};
use crate::format::VectorFile;
use crate::index::lists::ListFile;
use crate::product::Matrix;
use crate::scan::{Piece, Scan, Tile, add_phase};

/// How many of the exact neighbours a search of a few lists has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recall {
    /// The share of the exact neighbours that was found.
    pub share: f64,
    /// The number of queries for which this was measured; these are the first queries.
    pub queries: u64,
}

impl Recall {
    /// Searches the base for the neighbours of the first queries, and compares them with `ids`, the
    /// neighbours in the lists.
    pub(super) fn measure(
        job: &Job,
        base: &VectorFile,
        queries: &VectorFile,
        options: &KnnOptions,
        ids: &[u64],
        found: &mut Neighbours,
    ) -> Result<()> {
        let count = ids.len() / options.k;
        let exact = KnnOptions {
            index: None,
            probes: None,
            ..options.clone()
        };
        let queries = queries.part(0, count as u64);
        let exact = knn(&job.without_states(), base, &queries, &exact)?;
        let each = exact.ids.chunks(options.k).zip(ids.chunks(options.k));
        let hits: usize = each
            .map(|(exact, found)| exact.iter().filter(|id| found.contains(id)).count())
            .sum();
        found.read_bytes += exact.read_bytes;
        add_phases(&mut found.phases, "measure recall", exact.phases);
        found.recall = Some(Recall {
            share: hits as f64 / exact.ids.len() as f64,
            queries: count as u64,
        });
        Ok(())
    }
}

/// Adds the phases of an inner search, under one name.
fn add_phases(to: &mut Vec<Phase>, name: &'static str, phases: Vec<Phase>) {
    for phase in phases {
        let predicted = phase.predicted.map(|plan| plan.named(name));
        let renamed = Phase {
            name,
            predicted,
            ..phase
        };
        add_phase(to, renamed);
    }
}

/// Chooses the lists of queries.
struct ListSearch<'s> {
    job: &'s Job,
    lists: &'s ListFile,
    queries: &'s VectorFile,
    metric: Metric,
    /// The least number of rows in a query's lists.
    rows_min: u64,
}

/// A pass over lists, and a description of its steps.
pub(super) struct ListScan<'s> {
    pub(super) scan: &'s Scan<'s>,
    pub(super) steps: &'s str,
}

/// The lists that are read for each query.
pub(super) struct Probes {
    /// For each list, the queries that need it.
    queries_of: Vec<Vec<u32>>,
    /// For each query, its number of lists.
    reach: Vec<usize>,
    _held: Vec<Reservation>,
}

/// Memory per centroid and query while lists are chosen.
const FOUND_BYTES: u64 = 96;
/// Memory per list and query.
const PROBE_BYTES: u64 = 8;

impl Probes {
    /// Memory for the lists of `count` queries, for all threads together, and for each thread's
    /// copy of queries.
    pub(super) fn memory_bytes(lists: &ListFile, probes: usize, count: usize) -> (u64, u64) {
        let dimension = lists.centroids.dimension;
        let each_thread = count.min(QUERIES_AT_ONCE) * dimension * size_of::<f32>();
        let of_queries = count as u64 * (probes as u64 * PROBE_BYTES + 8);
        let of_lists = lists.count() * size_of::<Vec<u32>>();
        (each_thread as u64, of_queries + of_lists as u64)
    }

    /// Chooses `reach` lists for each query, and more if they have too few rows. Queries with a
    /// `reach` of 0 are skipped.
    fn find(
        search: &ListSearch<'_>,
        mut reach: Vec<usize>,
        found: &mut Neighbours,
    ) -> Result<Self> {
        let ListSearch { job, lists, .. } = *search;
        let mut probes = Probes {
            queries_of: vec![Vec::new(); lists.count()],
            reach: Vec::new(),
            _held: Vec::new(),
        };
        let mut from = 0;
        while from < reach.len() {
            // With many lists, only a few queries at a time, because the order of their centroids
            // is in memory.
            let wanted = reach[from..].iter().copied().max().unwrap_or(0);
            let each_bytes = wanted.max(1) as u64 * FOUND_BYTES;
            let fitting = (job.budget.free_bytes() / 4 / each_bytes).max(1) as usize;
            let count = fitting.min(reach.len() - from);
            probes.find_some(search, from, &mut reach[from..from + count], found)?;
            from += count;
        }
        probes.reach = reach;
        Ok(probes)
    }

    /// Chooses the lists of some queries, the first of which is `from`.
    fn find_some(
        &mut self,
        search: &ListSearch<'_>,
        from: usize,
        reach: &mut [usize],
        found: &mut Neighbours,
    ) -> Result<()> {
        let ListSearch {
            job,
            lists,
            rows_min,
            ..
        } = *search;
        // Centroids of norm 1 have the same order by product and by cosine.
        let metric = match search.metric {
            Metric::Cos if lists.is_spherical => Metric::Ip,
            metric => metric,
        };
        let queries = search.queries.part(from as u64, reach.len() as u64);
        let mut wanted = reach.iter().copied().max().unwrap_or(0);
        if wanted == 0 {
            return Ok(());
        }
        let near = loop {
            let options = KnnOptions::new(wanted, metric);
            let near = knn(&job.without_states(), &lists.centroids, &queries, &options)?;
            found.read_bytes += near.read_bytes;
            add_phases(&mut found.phases, "find lists", near.phases.clone());
            let rows_of = |near: &[u64]| -> u64 {
                let places = near.iter().map(|list| lists.places(*list as usize));
                places.map(|places| places.end - places.start).sum()
            };
            let mut each = near.ids.chunks(wanted).zip(reach.iter());
            let has_enough = each.all(|(near, reach)| *reach == 0 || rows_of(near) >= rows_min);
            if has_enough || wanted == lists.count() {
                break near;
            }
            wanted = (2 * wanted).min(lists.count());
        };
        let mut probes = 0;
        for (query, (near, reach)) in (from..).zip(near.ids.chunks(wanted).zip(reach)) {
            if *reach == 0 {
                continue;
            }
            let (least, mut rows) = (*reach, 0);
            *reach = 0;
            for list in near {
                if *reach >= least && rows >= rows_min {
                    break;
                }
                let places = lists.places(*list as usize);
                rows += places.end - places.start;
                self.queries_of[*list as usize].push(query as u32);
                *reach += 1;
            }
            probes += *reach;
        }
        let held = job
            .budget
            .reserve("lists of queries", probes as u64 * PROBE_BYTES)?;
        self._held.push(held);
        Ok(())
    }
}

/// A thread's state for searching lists.
struct ListSearcher {
    searcher: Searcher,
    /// The queries of a list in f32, for products.
    narrow: Vec<f32>,
}

impl Group<'_> {
    /// Searches the `probes` nearest lists of each query, and doubles the number while these have
    /// fewer than `k` possible results.
    pub(super) fn search_lists(
        &self,
        job: &Job,
        lists: &ListFile,
        queries: &VectorFile,
        probes: usize,
        pass: &ListScan<'_>,
        found: &mut Neighbours,
    ) -> Result<()> {
        let rows_min = self.k as u64 + u64::from(self.first_query.is_some());
        let search = ListSearch {
            job,
            lists,
            queries,
            metric: self.queries.metric,
            rows_min,
        };
        let count = self.queries.count();
        let mut reach = vec![probes; count];
        let mut nearest_of = vec![Vec::new(); count];
        loop {
            let probes = Probes::find(&search, reach, found)?;
            let each = self.search_probes(job, lists, &probes, pass, found)?;
            reach = probes.reach;
            for query in (0..count)
                .filter(|query| reach[*query] > 0)
                .collect::<Vec<_>>()
            {
                // A subset may leave few rows of a list.
                let is_short = nearest::kth(&each, query, self.k).is_infinite();
                if is_short && reach[query] < lists.count() {
                    reach[query] = (2 * reach[query]).min(lists.count());
                } else {
                    nearest_of[query] = nearest::of_query(&each, query, self.k);
                    reach[query] = 0;
                }
            }
            if reach.iter().all(|reach| *reach == 0) {
                break;
            }
        }
        nearest::add(nearest_of, &self.queries, self.k, found);
        Ok(())
    }

    /// Finds the nearest rows of each query in its lists, for each thread.
    fn search_probes(
        &self,
        job: &Job,
        lists: &ListFile,
        probes: &Probes,
        pass: &ListScan<'_>,
        found: &mut Neighbours,
    ) -> Result<Vec<Nearest>> {
        let (count, k) = (self.queries.count(), self.k);
        let ListScan { scan, steps } = *pass;
        let state = || {
            let held_bytes = Searcher::memory_bytes(count, k) + Tile::memory_bytes(scan.file());
            Ok(ListSearcher {
                searcher: self.searcher(scan.file(), job.budget.reserve("search", held_bytes)?),
                narrow: Vec::new(),
            })
        };
        let is_read = |list: &usize| !probes.queries_of[*list].is_empty();
        let ranges: Vec<_> = (0..lists.count())
            .filter(is_read)
            .map(|list| lists.places(list))
            .collect();
        let rows: u64 = ranges.iter().map(|places| places.end - places.start).sum();
        let read_bytes = rows * lists.rows.row_bytes() as u64;
        scan.show(job, "search", steps, read_bytes, 1);
        let passed = scan.run_ranges(job, "search", &ranges, state, |state, piece| {
            self.visit_list(state, lists, probes, piece)
        })?;
        lists.check_base(job)?;
        add_phase(&mut found.phases, passed.phase("search"));
        found.passes += 1;
        found.read_bytes += passed.read_bytes;
        found.lists_read += ranges.len() as u64;
        let searchers = || passed.states.iter().map(|state| &state.searcher);
        found.measured += searchers().map(|state| state.measured).sum::<u64>();
        let each = passed
            .states
            .into_iter()
            .map(|state| state.searcher.nearest);
        Ok(each.collect())
    }

    /// Searches rows of one list for the queries that need it.
    fn visit_list(
        &self,
        ListSearcher { searcher, narrow }: &mut ListSearcher,
        lists: &ListFile,
        probes: &Probes,
        piece: Piece<'_>,
    ) -> Result<()> {
        let Searcher {
            tile,
            scores,
            nearest,
            bounds,
            measured,
            ..
        } = searcher;
        nearest.learn(&self.queries, &self.worst);
        let list = lists.list_at(piece.first);
        let row_bytes = piece.file.row_bytes();
        let ids = piece.bytes.chunks_exact(row_bytes);
        let ids: Vec<u64> = ids
            .map(|row| lists.row_of(list, row))
            .collect::<Result<_>>()?;
        tile.each(piece, |rows, wide| {
            let (metric, dimension) = (self.queries.metric, rows.matrix.dimension);
            let count = rows.matrix.rows;
            let ids = &ids[(rows.first - piece.first) as usize..][..count];
            cut::bound_rows(metric, dimension, rows.squares, bounds);
            for queries in probes.queries_of[list].chunks(QUERIES_AT_ONCE) {
                self.queries.copy(queries, narrow);
                let block = Matrix::dense(narrow, dimension);
                let scores = &mut scores[..block.rows * count];
                crate::product::products(block, rows.matrix, scores);
                for (row, products) in scores.chunks_exact(block.rows).enumerate() {
                    let mut is_exact = false;
                    for (query, product) in queries.iter().zip(products) {
                        let query = *query as usize;
                        if !nearest.may_take(query, *product, bounds[row])
                            || self.is_left_out(query, ids[row])
                        {
                            continue;
                        }
                        if !is_exact {
                            rows.exact(row, wide);
                            is_exact = true;
                        }
                        *measured += 1;
                        let distance = self.queries.distance(query, wide);
                        nearest.offer(query, distance, ids[row], &self.queries, &self.worst);
                    }
                }
            }
            Ok(())
        })
    }
}

/// Rejects options that an index with lists does not support, and options that need such an index.
pub(super) fn check(options: &KnnOptions, lists: Option<&ListFile>) -> Result<usize> {
    let refused = |cause: &str, hint: &str| {
        let error = Error::usage("search neighbours", cause.to_string());
        let error = match &options.index {
            Some(path) => error.path(path),
            None => error,
        };
        Err(error.hint(hint))
    };
    match (lists, options.probes) {
        (None, Some(_)) => refused(
            "only an index with lists can be searched in part",
            "make one with `outcore vector index BASE -o OUT --nlist N`, or leave --nprobe out",
        ),
        (Some(lists), Some(probes)) if probes == 0 || probes > lists.count() => refused(
            &format!(
                "{probes} lists were requested, and the index has {}",
                lists.count()
            ),
            "choose --nprobe between 1 and the number of lists",
        ),
        (Some(lists), probes) => Ok(probes.unwrap_or(lists.count())),
        (None, None) => Ok(0),
    }
}

impl Queries {
    /// Copies some of the queries in f32, one after another.
    fn copy(&self, queries: &[u32], out: &mut Vec<f32>) {
        out.clear();
        for query in queries {
            out.extend_from_slice(self.block(*query as usize, 1).row(0));
        }
    }
}
