//! `outcore knn`: the exact nearest neighbours of vectors.
//!
//! Contract: as the folder's. Rows and distances appear together.

use std::path::Path;
use std::sync::Arc;

use outcore::{Error, Job, Result};
use outcore_io::units;
use outcore_vector::format::VectorFile;
use outcore_vector::knn::{self, KnnOptions, Metric, NO_ROW, Neighbours, RECALL_QUERIES, Subset};
use outcore_vector::results::{self, Array, NewRows, RowsWriter};
use serde_json::json;

use super::{NO_DISTANCES, Run, check_table, range};
use crate::cli::vectors::{KnnArgs, MetricName};
use crate::commands::table;
use crate::context::Context;
use crate::measure::rate_text;

/// Edges that are put together at a time, unless a query has more.
const EDGES_AT_ONCE: usize = 16 << 10;

/// Runs it.
pub(crate) fn knn(context: &Context, args: &KnnArgs) -> Result<u8> {
    let metric = match args.metric {
        MetricName::L2 => Metric::L2,
        MetricName::Ip => Metric::Ip,
        MetricName::Cos => Metric::Cos,
        MetricName::Hamming => Metric::Hamming,
    };
    if let Some(radius) = args.radius {
        return range::radius(context, args, (metric, radius));
    }
    let options = KnnOptions {
        excludes_self: args.is_self,
        index: args.index.clone(),
        probes: args
            .nprobe
            .map(|lists| usize::try_from(lists).unwrap_or(usize::MAX)),
        recall_queries: match args.no_recall {
            true => 0,
            false => RECALL_QUERIES,
        },
        ..KnnOptions::new(usize::try_from(args.k).unwrap_or(usize::MAX), metric)
    };
    let mut read: Vec<&Path> = vec![&args.base];
    read.extend(args.queries.as_deref());
    read.extend(args.subset.as_deref());
    read.extend(args.tables.iter().map(|path| path.as_path()));
    read.extend(args.index.as_deref());
    let mut written: Vec<&Path> = vec![&args.output];
    written.extend(args.distances.as_deref());
    let run = Run::begin_on(context, &args.run, Some(&args.drives), (&read, &written))?;
    let (base, queries) = run.base_and_queries(args)?;
    knn::check(&base, &queries, &options)?;
    let is_table = table::has_columns(&args.output);
    check_outputs(args, is_table)?;
    let found = run.watch(|job| {
        let options = KnnOptions {
            subset: run.subset(args, &base)?,
            ..options
        };
        if is_table {
            let to = (run.place_of(&args.output), args.run.force);
            return search_to_table(job, (&base, &queries), &options, to);
        }
        if args.edges {
            // A pair has no place for a neighbour that there is not.
            knn::check_chosen(&base, &options)?;
        }
        let k = options.k as u64;
        let ids = NewRows {
            path: run.place_of(&args.output),
            kind: Array::Ids(&[]),
            dimension: Some(if args.edges { 2 } else { options.k }),
            rows: if args.edges {
                queries.rows * k
            } else {
                queries.rows
            },
            id_max: base.rows.max(if args.edges { queries.rows } else { 0 }) - 1,
        };
        let mut files = vec![ids];
        if let Some(path) = &args.distances {
            files.push(NewRows {
                path: run.place_of(path),
                kind: NO_DISTANCES,
                dimension: Some(if args.edges { 1 } else { options.k }),
                ..ids
            });
        }
        let mut writer = RowsWriter::create(job, &files, args.run.force)?;
        let (mut first, mut edges) = (0, Vec::new());
        let found = knn::knn_each(job, &base, &queries, &options, &mut |found| {
            let (numbers, wide) = (&found.distances[..], false);
            let distances = Array::Floats { numbers, wide };
            if !args.edges {
                return writer.append(&[Array::Ids(&found.ids), distances]);
            }
            writer.append(&[Array::Ids(&[]), distances])?;
            let queries = (EDGES_AT_ONCE / options.k).max(1);
            for ids in found.ids.chunks(queries * options.k) {
                edges.clear();
                for (query, ids) in (first..).zip(ids.chunks(options.k)) {
                    edges.extend(ids.iter().flat_map(|id| [query, *id]));
                }
                first += (ids.len() / options.k) as u64;
                writer.append(&[Array::Ids(&edges), NO_DISTANCES])?;
            }
            Ok(())
        })?;
        writer.publish()?;
        Ok(found)
    })?;
    tell(context, &run, args, (&base, &queries), &found);
    Ok(0)
}

/// Fails for names of outputs that promise what the results are not.
fn check_outputs(args: &KnnArgs, is_table: bool) -> Result<()> {
    if args.limits.is_some() {
        let cause = "--limits is for --radius: each query has K neighbours here";
        return Err(
            Error::usage("read arguments", cause).hint("leave --limits out, or give --radius")
        );
    }
    if is_table {
        check_table(args.distances.as_deref(), args.edges)?;
    } else {
        results::check_name(&args.output, Array::Ids(&[]))?;
    }
    if let Some(path) = &args.distances {
        results::check_name(path, NO_DISTANCES)?;
    }
    Ok(())
}

/// Writes a row for each neighbour: the query, its rank from 0 on, the row of the base and the
/// distance.
fn search_to_table(
    job: &Job,
    (base, queries): (&VectorFile, &VectorFile),
    options: &KnnOptions,
    to: (&Path, bool),
) -> Result<Neighbours> {
    let (mut first, mut all) = (0, None);
    let (mut ids, mut distances) = (Vec::new(), Vec::new());
    table::write_near(job, to, &["query", "rank", "row"], |take| {
        let found = knn::knn_each(job, base, queries, options, &mut |found| {
            let each = found
                .ids
                .chunks(options.k)
                .zip(found.distances.chunks(options.k));
            for (nearest, far) in each {
                for (rank, (id, distance)) in (0..).zip(nearest.iter().zip(far)) {
                    if *id != NO_ROW {
                        ids.extend([first, rank, *id]);
                        distances.push(*distance);
                    }
                }
                first += 1;
            }
            take(&ids, &distances)?;
            ids.clear();
            distances.clear();
            Ok(())
        })?;
        all = Some(found);
        Ok(())
    })?;
    all.ok_or_else(|| Error::usage("search neighbours", "nothing was searched"))
}

impl Run<'_> {
    /// The vectors that are searched, and those that are looked for.
    pub(super) fn base_and_queries(&self, args: &KnnArgs) -> Result<(VectorFile, VectorFile)> {
        let type_name = args.type_name.as_deref();
        let base = self.open(&args.base, type_name)?;
        let queries = match &args.queries {
            // Only the base, or only the queries, may be raw numbers.
            Some(path) => VectorFile::open_typed(&self.job, path, type_name)?,
            None => base.clone(),
        };
        Ok((base, queries))
    }

    /// The vectors that may be found; all if nothing is said of them.
    pub(super) fn subset(&self, args: &KnnArgs, base: &VectorFile) -> Result<Option<Arc<Subset>>> {
        let chosen = match (&args.subset, &args.condition) {
            (Some(mask), _) => Some(Subset::read(&self.job, mask, base)?),
            (None, Some(condition)) => {
                let of_tables = (condition.as_str(), &args.tables[..]);
                Some(table::rows_where(&self.job, base, of_tables)?)
            }
            (None, None) => None,
        };
        Ok(chosen.map(Arc::new))
    }
}

/// Says what was found, and how.
fn tell(
    context: &Context,
    run: &Run<'_>,
    args: &KnnArgs,
    (base, queries): (&VectorFile, &VectorFile),
    found: &Neighbours,
) {
    let summary = run.summary(queries.rows, found.read_bytes, found.passes, &found.phases);
    let seconds = summary.seconds;
    let summary = summary
        .with("output", json!(args.output.display().to_string()))
        .with("base_rows", json!(base.rows))
        .with("dimension", json!(base.dimension))
        .with("k", json!(found.k))
        .with("measured", json!(found.measured));
    let summary = match args.index {
        Some(_) => summary
            .with("gathered", json!(found.gathered))
            .with("index_failed", json!(found.index_failed))
            .with("lists_read", json!(found.lists_read))
            .with("recall", json!(found.recall.map(|recall| recall.share)))
            .with(
                "recall_queries",
                json!(found.recall.map(|recall| recall.queries)),
            ),
        None => summary,
    };
    context.reporter.summary(&summary);
    let times = u64::from(found.passes);
    let searched_bytes = match found.lists_read {
        0 => base.data_bytes() * times,
        _ => found.read_bytes,
    };
    let pass = units::counted(times, "pass");
    let how = match (&args.index, found.index_failed) {
        (None, _) => pass,
        (Some(_), true) => {
            format!("{pass} over the base, since the index leaves out too few vectors")
        }
        (Some(_), false) if found.lists_read > 0 => {
            let reads = units::counted(found.lists_read, "read");
            format!("{reads} of lists of the index")
        }
        (Some(_), false) => format!(
            "{pass} over the index, {} read from the base",
            units::counted(found.gathered, "vector")
        ),
    };
    context.reporter.human(&format!(
        "found the {} nearest of {} for {} in {how} and {}: {}",
        found.k,
        units::counted(base.rows, "vector"),
        units::counted(queries.rows, "query"),
        units::seconds(seconds),
        rate_text(searched_bytes, seconds),
    ));
    if let Some(recall) = found.recall {
        context.reporter.human(&format!(
            "recall {:.4}: this part of the exact neighbours of the first {} was found{}",
            recall.share,
            units::counted(recall.queries, "query"),
            if recall.share < 1.0 {
                "; more --nprobe finds more"
            } else {
                ""
            },
        ));
    }
    run.phases(&found.phases);
}
