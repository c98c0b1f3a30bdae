//! `outcore vector pairs`, and `outcore knn --radius`: all vectors that are near.
//!
//! Contract: as the folder's. All files of a result appear together.

use std::path::Path;

use outcore::{Error, Job, Phase, Result};
use outcore_io::units;
use outcore_vector::format::VectorFile;
use outcore_vector::knn::{self, Found, Hit, Metric, RangeOptions};
use outcore_vector::results::{self, Array, NewRows, RowsWriter};
use serde_json::json;

use super::{NO_DISTANCES, Run, check_table};
use crate::cli::vectors::{KnnArgs, PairsArgs};
use crate::commands::table;
use crate::context::Context;
use crate::measure::rate_text;

/// All pairs of near vectors.
pub(crate) fn pairs(context: &Context, args: &PairsArgs) -> Result<u8> {
    let options = match (args.min_cos, args.max_l2, args.max_hamming) {
        (Some(cosine), ..) => RangeOptions::new(Metric::Cos, 1.0 - cosine),
        (_, Some(square), _) => RangeOptions::new(Metric::L2, square),
        (.., Some(bits)) => RangeOptions::new(Metric::Hamming, f64::from(bits)),
        _ => {
            let error = Error::usage("read arguments", "nothing says which pairs are near");
            return Err(error.hint("give --min-cos, --max-l2 or --max-hamming"));
        }
    };
    let mut written: Vec<&Path> = vec![&args.output];
    written.extend(args.distances.as_deref());
    let files: (&[&Path], &[&Path]) = (&[&args.base], &written);
    let run = Run::begin_on(context, &args.run, Some(&args.drives), files)?;
    let base = run.open(&args.base, args.type_name.as_deref())?;
    let is_table = table::has_columns(&args.output);
    match is_table {
        true => check_table(args.distances.as_deref(), false)?,
        false => _ = results::check_name(&args.output, Array::Ids(&[]))?,
    }
    if let Some(path) = &args.distances {
        results::check_name(path, NO_DISTANCES)?;
    }
    let results = run.watch(|job| {
        let found = knn::pairs(job, &base, &options)?;
        if is_table {
            return write_table(&run, job, found, (&args.output, &["first", "second"]));
        }
        let pairs = NewRows {
            path: run.place_of(&args.output),
            kind: Array::Ids(&[]),
            dimension: Some(2),
            rows: found.hits.count(),
            id_max: base.rows - 1,
        };
        let files = (pairs, None, args.distances.as_deref());
        write(&run, job, found, files, |hit| [hit.query, hit.row])
    })?;
    let what = units::counted(results.count, "pair");
    let files = (&*args.output, &base, base.rows);
    tell(context, &run, files, (&results, &what));
    Ok(0)
}

/// All vectors within a radius of queries.
pub(super) fn radius(
    context: &Context,
    args: &KnnArgs,
    (metric, radius): (Metric, f64),
) -> Result<u8> {
    let options = RangeOptions {
        excludes_self: args.is_self,
        ..RangeOptions::new(metric, radius)
    };
    let is_table = table::has_columns(&args.output);
    let limits = match (&args.limits, is_table) {
        (limits, true) => {
            check_table(limits.as_deref().or(args.distances.as_deref()), args.edges)?;
            None
        }
        (Some(limits), false) => Some(limits.as_path()),
        (None, false) => {
            let cause =
                "each query has its own number of results, and no --limits says where they begin";
            let error = Error::usage("read arguments", cause);
            return Err(error.hint(
                "name a file for where they begin, --limits FILE, or end the output's name in .parquet",
            ));
        }
    };
    let mut read: Vec<&Path> = vec![&args.base];
    read.extend(args.queries.as_deref());
    read.extend(args.subset.as_deref());
    read.extend(args.tables.iter().map(|path| path.as_path()));
    let mut written: Vec<&Path> = vec![&args.output];
    written.extend(limits);
    written.extend(args.distances.as_deref());
    let run = Run::begin_on(context, &args.run, Some(&args.drives), (&read, &written))?;
    let (base, queries) = run.base_and_queries(args)?;
    if let Some(limits) = limits {
        for path in [&args.output, limits] {
            results::check_name(path, Array::Ids(&[]))?;
        }
    }
    if let Some(path) = &args.distances {
        results::check_name(path, NO_DISTANCES)?;
    }
    let results = run.watch(|job| {
        let options = RangeOptions {
            subset: run.subset(args, &base)?,
            ..options
        };
        let found = knn::range_search(job, &base, &queries, &options)?;
        if is_table {
            return write_table(&run, job, found, (&args.output, &["query", "row"]));
        }
        let rows = NewRows {
            path: run.place_of(&args.output),
            kind: Array::Ids(&[]),
            dimension: None,
            rows: found.hits.count(),
            id_max: base.rows - 1,
        };
        let files = (rows, limits, args.distances.as_deref());
        write(&run, job, found, files, |hit| [hit.row])
    })?;
    let what = units::counted(results.count, "vector");
    let files = (&*args.output, &base, queries.rows);
    tell(context, &run, files, (&results, &what));
    Ok(0)
}

/// What was found and is written.
struct Results {
    count: u64,
    passes: u32,
    read_bytes: u64,
    measured: u64,
    phases: Vec<Phase>,
}

/// Writes a row for each result: both ids, which are called so, and the distance.
fn write_table(
    run: &Run<'_>,
    job: &Job,
    found: Found,
    (name, ids): (&Path, &[&str]),
) -> Result<Results> {
    let count = found.hits.count();
    let to = (run.place_of(name), run.force);
    let mut phases = found.phases;
    let (mut both, mut distances) = (Vec::new(), Vec::new());
    let mut sorted = Vec::new();
    table::write_near(job, to, ids, |take| {
        sorted = found.hits.each(job, &mut |hits| {
            both.clear();
            both.extend(hits.iter().flat_map(|hit| [hit.query, hit.row]));
            distances.clear();
            distances.extend(hits.iter().map(|hit| hit.distance));
            take(&both, &distances)
        })?;
        Ok(())
    })?;
    phases.extend(sorted);
    Ok(Results {
        count,
        passes: found.passes,
        read_bytes: found.read_bytes,
        measured: found.measured,
        phases,
    })
}

/// Writes what was found: the numbers that `ids_of` gives for each result, and the limits and
/// distances to the files that are named.
fn write<const N: usize>(
    run: &Run<'_>,
    job: &Job,
    found: Found,
    (ids, limits, distances): (NewRows<'_>, Option<&Path>, Option<&Path>),
    ids_of: impl Fn(&Hit) -> [u64; N],
) -> Result<Results> {
    let count = found.hits.count();
    let limits = limits.map(|name| NewRows {
        path: run.place_of(name),
        rows: found.hits.limits().len() as u64,
        id_max: count,
        ..ids
    });
    let distances = distances.map(|name| NewRows {
        path: run.place_of(name),
        kind: NO_DISTANCES,
        dimension: None,
        ..ids
    });
    let files: Vec<NewRows<'_>> = [Some(ids), distances, limits]
        .into_iter()
        .flatten()
        .collect();
    let mut writer = RowsWriter::create(job, &files, run.force)?;
    let append = |writer: &mut RowsWriter, ids: &[u64], numbers: &[f64], limits: &[u64]| {
        let wide = false;
        let arrays = [
            Some(Array::Ids(ids)),
            distances.map(|_| Array::Floats { numbers, wide }),
            Some(Array::Ids(limits)),
        ];
        let arrays: Vec<Array<'_>> = arrays.into_iter().flatten().collect();
        writer.append(&arrays[..files.len()])
    };
    append(&mut writer, &[], &[], found.hits.limits())?;
    let (mut ids, mut numbers) = (Vec::new(), Vec::new());
    let sorted = found.hits.each(job, &mut |hits| {
        ids.clear();
        ids.extend(hits.iter().flat_map(&ids_of));
        numbers.clear();
        numbers.extend(hits.iter().map(|hit| hit.distance));
        append(&mut writer, &ids, &numbers, &[])
    })?;
    writer.publish()?;
    let mut phases = found.phases;
    phases.extend(sorted);
    Ok(Results {
        count,
        passes: found.passes,
        read_bytes: found.read_bytes,
        measured: found.measured,
        phases,
    })
}

fn tell(
    context: &Context,
    run: &Run<'_>,
    (output, base, queries): (&Path, &VectorFile, u64),
    (found, what): (&Results, &str),
) {
    let summary = run.summary(queries, found.read_bytes, found.passes, &found.phases);
    let seconds = summary.seconds;
    let summary = summary
        .with("output", json!(output.display().to_string()))
        .with("base_rows", json!(base.rows))
        .with("dimension", json!(base.dimension))
        .with("results", json!(found.count))
        .with("measured", json!(found.measured));
    context.reporter.summary(&summary);
    context.reporter.human(&format!(
        "found {what} within the radius, among {} in {} and {}: {}",
        units::counted(base.rows, "vector"),
        units::counted(found.passes.into(), "pass"),
        units::seconds(seconds),
        rate_text(found.read_bytes, seconds),
    ));
    run.phases(&found.phases);
}
