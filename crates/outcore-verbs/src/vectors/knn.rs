//! `knn`: the exact nearest neighbours of vectors.
//!
//! Contract: as in [`super`]. Rows and distances appear together, or are arrays of a program.

use std::mem;
use std::path::Path;

use outcore::{Error, Job, Result};
use outcore_io::units;
use outcore_vector::format::VectorFile;
use outcore_vector::knn::{self, KnnOptions, NO_ROW, Neighbours};
use outcore_vector::results::{Array, NewRows, RowsWriter};

use super::range;
use super::run::{NO_DISTANCES, Run, rate_text, written_by};
use super::search::{KnnArgs, KnnSummary};
use crate::columns::{self, TablePlace};
use crate::host::{self, Arrays, Host, Weight};
use crate::report::{JobSummary, Moved, Phase, Place};
use crate::verb::{Inputs, Verb, Words};

/// The number of edges that are assembled at a time, unless a query has more.
const EDGES_AT_ONCE: usize = 16 << 10;

/// The verb.
pub(crate) struct Knn;

impl Verb for Knn {
    const NAME: &'static str = "knn";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = KnnArgs;
    type Report = KnnSummary;
    const PHASES: &'static [Weight] = &[("search", 1.0)];

    fn run(host: &dyn Host, args: &KnnArgs) -> Result<KnnSummary> {
        match args.radius {
            Some(radius) => range::radius(host, args, args.metric.into(), radius),
            None => nearest(host, args),
        }
    }

    fn say(args: &KnnArgs, report: &KnnSummary, words: &mut Words) {
        words.lines(&report.text);
        if let (Some(recall), Some(queries)) = (report.recall, report.recall_queries) {
            words.lines(&format!(
                "recall {recall:.4}: the fraction of the exact neighbours of the first {} that was \
                 found{}",
                units::counted(queries, "query"),
                if recall < 1.0 {
                    "; a larger --nprobe finds more"
                } else {
                    ""
                },
            ));
        }
        words.phases(&report.phases, args.run.plan.explain);
    }

    fn headline(report: &KnnSummary) -> String {
        report.text.lines().next().unwrap_or_default().to_owned()
    }
}

/// The nearest vectors of each query.
fn nearest(host: &dyn Host, args: &KnnArgs) -> Result<KnnSummary> {
    let options = args.options();
    let files = args.files(None);
    let mut run = Run::begin(host, &args.run, Some(&args.drives), &files)?;
    let (base, queries) = run.base_and_queries(args)?;
    knn::check(&base, &queries, &options)?;
    args.check_outputs()?;
    if let Some(output) = &args.output {
        run.keep_passes(output, &files.read, args.kept_options(Knn::NAME))?;
    }
    let found = run.watch(|job| {
        let options = KnnOptions {
            subset: run.subset(args, &base)?,
            ..options
        };
        match (&args.output, host.arrays()) {
            (None, Some(arrays)) => search_to_arrays(job, &base, &queries, &options, arrays),
            (Some(output), _) if args.is_table() => {
                let to = TablePlace {
                    path: run.place_of(output),
                    replace: run.force,
                };
                search_to_table(job, &base, &queries, &options, to)
            }
            (output, _) => {
                let output = output.as_deref().unwrap_or(Path::new(""));
                search_to_files(&run, args, output, &base, &queries, &options)
            }
        }
    })?;
    let moved = Moved {
        records: queries.rows,
        read_bytes: found.read_bytes,
        written_bytes: written_by(&found.phases),
        passes: found.passes,
    };
    let used = run.used(moved)?;
    Ok(KnnSummary {
        text: text(args, &base, &found, &used),
        used,
        output: args.output.clone().map(Place),
        base_rows: base.rows,
        dimension: base.dimension,
        k: Some(found.k),
        results: None,
        measured: found.measured,
        gathered: found.gathered,
        index_failed: found.index_failed,
        lists_read: found.lists_read,
        recall: found.recall.map(|recall| recall.share),
        recall_queries: found.recall.map(|recall| recall.queries),
        phases: Phase::of_engine(&found.phases),
    })
}

/// Passes rows and distances to a program.
fn search_to_arrays(
    job: &Job,
    base: &VectorFile,
    queries: &VectorFile,
    options: &KnnOptions,
    arrays: &dyn Arrays,
) -> Result<Neighbours> {
    let mut found = knn::knn(job, base, queries, options)?;
    // A missing row is -1.
    let ids = mem::take(&mut found.ids);
    arrays.take("ids", host::Array::U64(ids));
    let distances = mem::take(&mut found.distances);
    arrays.take("distances", host::Array::F64(distances));
    Ok(found)
}

/// Writes rows, or edges to them, and distances.
fn search_to_files(
    run: &Run<'_>,
    args: &KnnArgs,
    output: &Path,
    base: &VectorFile,
    queries: &VectorFile,
    options: &KnnOptions,
) -> Result<Neighbours> {
    let job = &run.job;
    if args.edges {
        // A pair cannot store a missing neighbour.
        knn::check_chosen(base, options)?;
    }
    let k = options.k as u64;
    let ids = NewRows {
        path: run.place_of(output),
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
    let mut writer = RowsWriter::create(job, &files, run.force)?;
    let (mut first, mut edges) = (0, Vec::new());
    let found = knn::knn_each(job, base, queries, options, &mut |found| {
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
}

/// Writes a row for each neighbour: the query, its rank, counted from 0, the row of the base and
/// the distance.
fn search_to_table(
    job: &Job,
    base: &VectorFile,
    queries: &VectorFile,
    options: &KnnOptions,
    to: TablePlace<'_>,
) -> Result<Neighbours> {
    let (mut first, mut all) = (0, None);
    let (mut ids, mut distances) = (Vec::new(), Vec::new());
    columns::write_near(job, to, &["query", "rank", "row"], |take| {
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

/// The result, and how it was found, in words.
fn text(args: &KnnArgs, base: &VectorFile, found: &Neighbours, used: &JobSummary) -> String {
    let times = u64::from(found.passes);
    let searched_bytes = match found.lists_read {
        0 => base.data_bytes() * times,
        _ => found.read_bytes,
    };
    let pass = units::counted(times, "pass");
    let how = match (&args.index, found.index_failed) {
        (None, _) => pass,
        (Some(_), true) => format!("{pass} over the base"),
        (Some(_), false) if found.lists_read > 0 => {
            units::counted(found.lists_read, "read") + " of the index"
        }
        (Some(_), false) => format!(
            "{pass} over the index, {} read from the base",
            units::counted(found.gathered, "vector")
        ),
    };
    let note = match args.index.is_some() && found.index_failed {
        true => "\n  the index leaves out too few vectors",
        false => "",
    };
    format!(
        "found the {} nearest of {} for {} with {how}, in {}: {}{note}",
        found.k,
        units::counted(base.rows, "vector"),
        units::counted(used.records, "query"),
        units::seconds(used.seconds),
        rate_text(searched_bytes, used.seconds),
    )
}
