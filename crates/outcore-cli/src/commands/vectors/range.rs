//! `outcore vector pairs`, and `outcore knn --radius`: all vectors that are near.
//!
//! Contract: as the folder's. All files of a result appear together.

use std::path::Path;

use outcore::{Error, Result};
use outcore_io::units;
use outcore_vector::format::VectorFile;
use outcore_vector::knn::{self, Metric, RangeOptions};
use outcore_vector::results::{self, Array, ResultFile};
use serde_json::json;

use super::{NO_DISTANCES, Run};
use crate::cli::vectors::{KnnArgs, PairsArgs};
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
    let run = Run::begin(context, &args.run, (&[&args.base], &written))?;
    let base = run.open(&args.base, args.type_name.as_deref())?;
    results::check_name(&args.output, Array::Ids(&[]))?;
    if let Some(path) = &args.distances {
        results::check_name(path, NO_DISTANCES)?;
    }
    let force = args.run.force;
    let found = run.watch(|job| {
        let mut found = knn::pairs(job, &base, &options)?;
        let pairs = found.pairs(job)?;
        let mut files = vec![ResultFile {
            path: run.place_of(&args.output),
            array: Array::Ids(&pairs),
            dimension: Some(2),
        }];
        let distances = args.distances.as_deref();
        let distances = distances.map(|name| run.place_of(name));
        files.extend(distances_to(distances, &found.distances));
        results::write_all(job, &files, force)?;
        Ok(found)
    })?;
    let what = units::counted(found.ids.len() as u64, "pair");
    tell(
        context,
        &run,
        (&args.output, &base, base.rows),
        (&found, &what),
    );
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
        subset: args.subset.clone(),
        ..RangeOptions::new(metric, radius)
    };
    let limits = args.limits.as_deref().ok_or_else(|| {
        let error = Error::usage("read arguments", "each query has its own number of results");
        error.hint("name a file for where they begin: --limits FILE")
    })?;
    let mut read: Vec<&Path> = vec![&args.base];
    read.extend(args.queries.as_deref());
    read.extend(args.subset.as_deref());
    let mut written: Vec<&Path> = vec![&args.output, limits];
    written.extend(args.distances.as_deref());
    let run = Run::begin(context, &args.run, (&read, &written))?;
    let (base, queries) = run.base_and_queries(args)?;
    for path in [&args.output, limits] {
        results::check_name(path, Array::Ids(&[]))?;
    }
    if let Some(path) = &args.distances {
        results::check_name(path, NO_DISTANCES)?;
    }
    let force = args.run.force;
    let found = run.watch(|job| {
        let found = knn::range_search(job, &base, &queries, &options)?;
        let flat = |path, ids| ResultFile {
            path,
            array: Array::Ids(ids),
            dimension: None,
        };
        let mut files = vec![
            flat(run.place_of(&args.output), &found.ids),
            flat(run.place_of(limits), &found.limits),
        ];
        let distances = args.distances.as_deref();
        let distances = distances.map(|name| run.place_of(name));
        files.extend(distances_to(distances, &found.distances));
        results::write_all(job, &files, force)?;
        Ok(found)
    })?;
    let what = units::counted(found.ids.len() as u64, "vector");
    tell(
        context,
        &run,
        (&args.output, &base, queries.rows),
        (&found, &what),
    );
    Ok(0)
}

/// The file of distances, if one is asked for.
fn distances_to<'a>(path: Option<&'a Path>, numbers: &'a [f64]) -> Option<ResultFile<'a>> {
    path.map(|path| ResultFile {
        path,
        array: Array::Floats {
            numbers,
            wide: false,
        },
        dimension: None,
    })
}

fn tell(
    context: &Context,
    run: &Run<'_>,
    (output, base, queries): (&Path, &VectorFile, u64),
    (found, what): (&knn::Within, &str),
) {
    let summary = run.summary(queries, found.read_bytes, found.passes, &found.phases);
    let seconds = summary.seconds;
    let summary = summary
        .with("output", json!(output.display().to_string()))
        .with("base_rows", json!(base.rows))
        .with("dimension", json!(base.dimension))
        .with("results", json!(found.ids.len()))
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
