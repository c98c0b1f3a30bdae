//! Vectors: the native half of `outcore.knn` and `outcore.KMeans`.
//!
//! Contract: thin over [`outcore_vector`]. Each call opens its files and runs on a thread of its
//! own with the interpreter free, and stops for Ctrl-C like any job ([`crate::run`]); facts go back
//! as JSON, arrays as `bytearray`s that NumPy looks into.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{Job, Result, ScratchDrive};
use outcore_front::output::refuse_inputs;
use outcore_front::resources::default_scratch_dir;
use outcore_front::result_tables::write_clusters;
use outcore_front::table_vectors::{rows_where, write_vectors};
use outcore_io::output::parent_of;
use outcore_vector::convert::convert as run_convert;
use outcore_vector::format::{Element, VectorFile};
use outcore_vector::index::{self, ListOptions};
use outcore_vector::kmeans::{self, Batches, Clustering, Init, KmeansOptions, LabelOutput};
use outcore_vector::knn::{self, KnnOptions, Metric, RangeOptions, Subset, Within};
use outcore_vector::scan::load;
use pyo3::FromPyObject;
use serde_json::json;

use crate::datasets::{Datasets, Use};
use crate::request::Resources;
use crate::run::Run;

/// Neighbours to find.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct KnnRequest {
    base: PathBuf,
    /// None for the rows of the base themselves.
    queries: Option<PathBuf>,
    type_name: Option<String>,
    k: usize,
    metric: String,
    subset: Option<PathBuf>,
    /// A condition over the columns of a table, and its files.
    condition: Option<String>,
    tables: Vec<PathBuf>,
    index: Option<PathBuf>,
    nprobe: Option<usize>,
    recall_queries: usize,
    resources: Resources,
}

/// Vectors to convert.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct VectorConvertRequest {
    input: PathBuf,
    type_name: Option<String>,
    output: PathBuf,
    /// The kind of number of the output; None for that of its name or of the input.
    element: Option<String>,
    /// Whether the input is a table, and its column.
    is_table: bool,
    column: Option<String>,
    force: bool,
    resources: Resources,
}

/// Writes vectors in another format; how many there are.
pub(crate) fn convert(mut request: VectorConvertRequest, run: &Run) -> Result<u64> {
    let written = (&mut request.output, request.force);
    let is_dir = request.input.is_dir();
    let read = (!is_dir).then_some(&mut request.input);
    let staged = Staged::begin(&request.resources, read, Some(written), run)?;
    let (path, replace) = (request.output.as_path(), request.force);
    let rows = match request.is_table {
        true => {
            let column = request.column.as_deref();
            write_vectors(&staged.job, &request.input, column, (path, replace))?.rows_count
        }
        false => {
            let from = staged.open(&request.input, request.type_name.as_deref())?;
            let element = request.element.as_deref().and_then(Element::named);
            run_convert(&staged.job, &from, path, replace, element)?
                .0
                .rows
        }
    };
    staged.datasets.put(run).map(|()| rows)
}

/// Vectors to index.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct IndexRequest {
    base: PathBuf,
    type_name: Option<String>,
    output: PathBuf,
    /// None for an index without lists.
    nlist: Option<usize>,
    spherical: bool,
    seed: u64,
    force: bool,
    resources: Resources,
}

/// Writes an index; its bytes.
pub(crate) fn index(mut request: IndexRequest, run: &Run) -> Result<u64> {
    let written = (&mut request.output, request.force);
    let staged = Staged::begin(&request.resources, [&mut request.base], Some(written), run)?;
    let base = staged.open(&request.base, request.type_name.as_deref())?;
    let (path, replace) = (request.output.as_path(), request.force);
    let built = match request.nlist {
        None => index::build(&staged.job, &base, path, replace)?,
        Some(lists) => {
            let mut drives = staged.resources.named_drives(0)?;
            if drives.is_empty() {
                let dir = default_scratch_dir(parent_of(path))?;
                drives.push(ScratchDrive::new(dir));
            }
            let options = ListOptions {
                lists,
                is_spherical: request.spherical,
                seed: request.seed,
            };
            index::build_lists(
                &run.job(&staged.resources, drives),
                &base,
                path,
                replace,
                &options,
            )?
        }
    };
    staged.datasets.put(run).map(|()| built.index_bytes)
}

/// Vectors to cluster.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct KmeansRequest {
    base: PathBuf,
    type_name: Option<String>,
    k: usize,
    /// `k-means++`, `k-means||`, `random` or a file.
    init: String,
    /// Rows of a batch; None for passes over all rows.
    batch_rows: Option<usize>,
    /// Batches without improvement after which the run ends.
    patience: Option<u32>,
    /// Take the base as one batch for centroids that were given so many rows so far.
    row_counts: Option<Vec<u64>>,
    is_partial: bool,
    iterations: u32,
    tolerance: f64,
    runs: u32,
    seed: u64,
    spherical: bool,
    /// A file that has the centroids between iterations.
    checkpoint: Option<PathBuf>,
    resources: Resources,
}

/// Vectors to label.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LabelRequest {
    base: PathBuf,
    type_name: Option<String>,
    /// A file of centroids.
    centroids: PathBuf,
    spherical: bool,
    output: PathBuf,
    force: bool,
    resources: Resources,
}

/// A job and the datasets among its files.
struct Staged {
    datasets: Datasets,
    resources: outcore_front::resources::Resources,
    job: Job,
}

impl Staged {
    /// For files that are read, and one that is written; each may name a dataset.
    fn begin<'a>(
        resources: &Resources,
        read: impl IntoIterator<Item = &'a mut PathBuf>,
        written: Option<(&'a mut PathBuf, bool)>,
        run: &Run,
    ) -> Result<Self> {
        let force = written.as_ref().is_some_and(|(_, force)| *force);
        let written = written.map(|(path, _)| path);
        let read: Vec<&mut PathBuf> = read.into_iter().collect();
        if let Some(path) = &written {
            let read: Vec<&Path> = read.iter().map(|path| path.as_path()).collect();
            refuse_inputs(&read, &[(path, path)])?;
        }
        let datasets = Datasets::stage(resources, Use::of_engine(force), read, written, run)?;
        let resources = datasets.resources(resources, true, run)?;
        let job = run.job(&resources, Vec::new());
        Ok(Staged {
            datasets,
            resources,
            job,
        })
    }

    /// Opens a file; a type is for those that do not tell theirs.
    fn open(&self, path: &Path, type_name: Option<&str>) -> Result<VectorFile> {
        VectorFile::open_typed(&self.job, path, type_name)
    }
}

/// The rows and distances that are nearest, and how the search went.
pub(crate) fn knn(mut request: KnnRequest, run: &Run) -> Result<(Vec<u8>, Vec<u8>, String)> {
    let others = [
        &mut request.queries,
        &mut request.subset,
        &mut request.index,
    ];
    let read = others.into_iter().flatten().chain([&mut request.base]);
    let staged = Staged::begin(&request.resources, read, None, run)?;
    let type_name = request.type_name.as_deref();
    let base = staged.open(&request.base, type_name)?;
    let queries = match &request.queries {
        Some(path) => staged.open(path, type_name)?,
        None => base.clone(),
    };
    let chosen = (request.subset.as_deref(), request.condition.as_deref());
    let options = KnnOptions {
        excludes_self: request.queries.is_none(),
        subset: subset(&staged.job, chosen, &request.tables, &base)?,
        index: request.index,
        probes: request.nprobe,
        recall_queries: request.recall_queries,
        ..KnnOptions::new(
            request.k,
            Metric::named(&request.metric).unwrap_or(Metric::L2),
        )
    };
    let found = knn::knn(&staged.job, &base, &queries, &options)?;
    let ids = found.ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    let distances = found.distances.iter();
    let distances = distances.flat_map(|number| number.to_le_bytes()).collect();
    let facts = json!({
        "queries": queries.rows,
        "passes": found.passes,
        "read_bytes": found.read_bytes,
        "measured": found.measured,
        "gathered": found.gathered,
        "index_failed": found.index_failed,
        "lists_read": found.lists_read,
        "recall": found.recall.map(|recall| recall.share),
        "recall_queries": found.recall.map(|recall| recall.queries),
    });
    Ok((ids, distances, facts.to_string()))
}

/// The rows of `base` that may be found, by a mask or a condition; all without either.
fn subset(
    job: &Job,
    (mask, condition): (Option<&Path>, Option<&str>),
    tables: &[PathBuf],
    base: &VectorFile,
) -> Result<Option<Arc<Subset>>> {
    let chosen = match (mask, condition) {
        (Some(mask), _) => Some(Subset::read(job, mask, base)?),
        (None, Some(condition)) => Some(rows_where(job, base, (condition, tables))?),
        (None, None) => None,
    };
    Ok(chosen.map(Arc::new))
}

/// Rows within a radius to find.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RangeRequest {
    base: PathBuf,
    /// None for the rows of the base themselves.
    queries: Option<PathBuf>,
    type_name: Option<String>,
    radius: f64,
    metric: String,
    subset: Option<PathBuf>,
    /// A condition over the columns of a table, and its files.
    condition: Option<String>,
    tables: Vec<PathBuf>,
    /// Whether every two rows of the base are told once, as pairs.
    is_pairs: bool,
    resources: Resources,
}

/// Limits of the results of queries or pairs of rows, rows, and distances.
pub(crate) fn range(mut request: RangeRequest, run: &Run) -> Result<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let others = [&mut request.queries, &mut request.subset];
    let read = others.into_iter().flatten().chain([&mut request.base]);
    let staged = Staged::begin(&request.resources, read, None, run)?;
    let type_name = request.type_name.as_deref();
    let (job, base) = (&staged.job, staged.open(&request.base, type_name)?);
    let metric = Metric::named(&request.metric).unwrap_or(Metric::L2);
    let chosen = (request.subset.as_deref(), request.condition.as_deref());
    let options = RangeOptions {
        excludes_self: request.queries.is_none(),
        subset: subset(job, chosen, &request.tables, &base)?,
        ..RangeOptions::new(metric, request.radius)
    };
    let bytes = |numbers: &[u64]| {
        numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    };
    let found = match (request.is_pairs, &request.queries) {
        (true, _) => knn::pairs(job, &base, &options)?,
        (false, Some(path)) => {
            knn::range_search(job, &base, &staged.open(path, type_name)?, &options)?
        }
        (false, None) => knn::range_search(job, &base, &base, &options)?,
    };
    let mut found = Within::of(job, found.hits)?;
    let distances = found.distances.iter();
    let distances = distances.flat_map(|number| number.to_le_bytes()).collect();
    let ids = match request.is_pairs {
        true => bytes(&found.pairs(job)?),
        false => bytes(&found.ids),
    };
    Ok((bytes(&found.limits), ids, distances))
}

/// Centroids and what belongs to them.
pub(crate) fn kmeans(mut request: KmeansRequest, run: &Run) -> Result<(Vec<u8>, String)> {
    let mut init = PathBuf::from(&request.init);
    let read = [&mut request.base, &mut init];
    let staged = Staged::begin(&request.resources, read, None, run)?;
    let type_name = request.type_name.as_deref();
    let (job, base) = (&staged.job, staged.open(&request.base, type_name)?);
    let all_rows = usize::try_from(base.rows).unwrap_or(usize::MAX);
    let batch_rows = request.batch_rows.map(|rows| rows.min(all_rows));
    let options = KmeansOptions {
        k: request.k,
        init: match request.init.as_str() {
            "k-means++" => Init::FarRows,
            "k-means||" => Init::ParallelRows,
            "random" => Init::RandomRows,
            _ => Init::Given(staged.open(&init, type_name)?),
        },
        batches: batch_rows.map(|rows| Batches {
            rows,
            patience: request.patience,
        }),
        // As scikit-learn counts them: reads of as many rows as there are.
        max_iterations: match batch_rows {
            Some(rows) => {
                let batches = u64::from(request.iterations) * base.rows / rows.max(1) as u64;
                batches.clamp(1, u32::MAX.into()) as u32
            }
            None => request.iterations,
        },
        tolerance: request.tolerance,
        runs: request.runs,
        seed: request.seed,
        is_spherical: request.spherical,
        checkpoint: request.checkpoint,
    };
    let found = match request.is_partial {
        true => kmeans::partial_fit(job, &base, &options, request.row_counts.as_deref())?,
        false => kmeans::kmeans(job, &base, &options)?,
    };
    kmeans::remove_checkpoint(job, &options)?;
    let centroids = found.centroids.iter();
    let centroids = centroids.flat_map(|number| number.to_le_bytes()).collect();
    let facts = json!({
        "rows": base.rows,
        "dimension": base.dimension,
        "inertia": found.inertia,
        "iterations": found.iterations,
        "has_converged": found.has_converged,
        "row_counts": found.row_counts,
        "passes": found.passes,
        "read_bytes": found.read_bytes,
    });
    Ok((centroids, facts.to_string()))
}

/// Writes the number of the nearest centroid for each row.
pub(crate) fn label(mut request: LabelRequest, run: &Run) -> Result<()> {
    let written = (&mut request.output, request.force);
    let read = [&mut request.base, &mut request.centroids];
    let staged = Staged::begin(&request.resources, read, Some(written), run)?;
    let base = staged.open(&request.base, request.type_name.as_deref())?;
    let centroids = staged.open(&request.centroids, None)?;
    let clustering = Clustering::of_centroids(
        load(&staged.job, &centroids)?,
        centroids.dimension,
        &base,
        request.spherical,
    )?;
    let output = LabelOutput {
        path: &request.output,
        replace: request.force,
        beside: &[],
    };
    write_clusters(&staged.job, &base, &clustering, &output)?;
    staged.datasets.put(run)
}
