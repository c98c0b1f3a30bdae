//! `outcore kmeans`: vectors clustered.
//!
//! Contract: as the folder's. Centroids and labels appear together.

use std::path::Path;

use outcore::{Error, Kind, Result};
use outcore_front::output::is_same_place;
use outcore_io::units;
use outcore_store::dataset::Named;
use outcore_vector::format::{Element, VectorFile};
use outcore_vector::kmeans::{self, Batches, Init, KmeansOptions, LabelOutput};
use outcore_vector::results::{self, Array, ResultFile};
use serde_json::json;

use super::Run;
use crate::cli::vectors::KmeansArgs;
use crate::commands::table;
use crate::context::Context;
use crate::measure::rate_text;

/// Runs it.
pub(crate) fn kmeans(context: &Context, args: &KmeansArgs) -> Result<u8> {
    let type_name = args.type_name.as_deref();
    let named = match args.init.to_str() {
        Some("k-means++") => Some(Init::FarRows),
        Some("parallel" | "k-means||") => Some(Init::ParallelRows),
        Some("random") => Some(Init::RandomRows),
        _ => None,
    };
    let mut read: Vec<&Path> = vec![&args.base];
    if named.is_none() {
        read.push(&args.init);
        check_init(args)?;
    }
    let mut written: Vec<&Path> = vec![&args.output];
    written.extend(args.labels.as_deref());
    let run = Run::begin(context, &args.run, (&read, &written))?;
    let base = run.open(&args.base, type_name)?;
    let init = match named {
        Some(init) => init,
        None => Init::Given(VectorFile::open_typed(&run.job, &args.init, type_name)?),
    };
    let options = KmeansOptions {
        init,
        batches: args
            .batch
            .map(|rows| Batches::new(usize::try_from(rows).unwrap_or(usize::MAX))),
        max_iterations: args.max_iterations,
        tolerance: args.tolerance,
        runs: args.runs,
        seed: args.seed,
        is_spherical: args.spherical,
        checkpoint: args.checkpoint.clone(),
        ..KmeansOptions::new(usize::try_from(args.k).unwrap_or(usize::MAX))
    };
    let wide = base.element == Element::F64;
    check_outputs(args, wide)?;
    let force = args.run.force;
    if let Some(path) = &args.checkpoint {
        check_checkpoint(context, path, &[&read[..], &written[..]].concat())?;
    }
    let found = run.watch(|job| {
        let mut found = kmeans::kmeans(job, &base, &options)?;
        let mut read_bytes = found.read_bytes;
        let centroids = ResultFile {
            path: run.place_of(&args.output),
            array: centroids(&found.centroids, wide),
            dimension: Some(base.dimension),
        };
        match &args.labels {
            Some(name) => {
                let labels = LabelOutput {
                    path: run.place_of(name),
                    replace: force,
                    beside: &[centroids],
                };
                let done = table::write_clusters(job, &base, &found, &labels)?;
                read_bytes += done.read_bytes;
                found.phases.extend(done.phases);
            }
            None => {
                results::write_all(job, &[centroids], force)?;
            }
        }
        kmeans::remove_checkpoint(job, &options)?;
        Ok((found, read_bytes))
    });
    let (found, read_bytes) = found.map_err(|error| tell_checkpoint(args, error))?;
    let passes = found.passes + u32::from(args.labels.is_some());
    let summary = run.summary(base.rows, read_bytes, passes, &found.phases);
    let seconds = summary.seconds;
    let summary = summary
        .with("output", json!(args.output.display().to_string()))
        .with("dimension", json!(base.dimension))
        .with("k", json!(found.row_counts.len()))
        .with("inertia", json!(found.inertia))
        .with("iterations", json!(found.iterations))
        .with("has_converged", json!(found.has_converged))
        .with("sizes", json!(found.row_counts));
    context.reporter.summary(&summary);
    let end = match found.has_converged {
        true => "converged",
        false => "stopped",
    };
    context.reporter.human(&format!(
        "clustered {} in {}, {end} after {} with an inertia of {:.6e}, in {}: {}",
        units::counted(base.rows, "vector"),
        units::counted(found.row_counts.len() as u64, "cluster"),
        match args.batch {
            Some(_) => units::counted(found.iterations.into(), "batch"),
            None => units::counted(found.iterations.into(), "iteration"),
        },
        found.inertia,
        units::seconds(seconds),
        rate_text(read_bytes, seconds),
    ));
    run.phases(&found.phases);
    Ok(0)
}

/// Fails for names of outputs that promise what the results are not.
fn check_outputs(args: &KmeansArgs, wide: bool) -> Result<()> {
    results::check_name(&args.output, centroids(&[], wide))?;
    if table::has_columns(&args.output) {
        let cause = "centroids are vectors, and this name is that of a table";
        return Err(Error::usage("create output", cause)
            .path(&args.output)
            .hint("end its name in .npy; --labels FILE writes the cluster of each vector, as a table too"));
    }
    match &args.labels {
        Some(path) if !table::has_columns(path) => {
            results::check_name(path, Array::Labels(&[])).map(drop)
        }
        _ => Ok(()),
    }
}

/// Fails for centroids to start from that are no file, and for several runs from them.
fn check_init(args: &KmeansArgs) -> Result<()> {
    let refused = |cause: &str, hint: &str| {
        let error = Error::usage("read arguments", cause).path(&args.init);
        Err(error.hint(hint))
    };
    if !args.init.exists() && !Named::is_mark(&args.init) {
        let cause = "it is neither a file of centroids nor a way to choose them";
        return refused(cause, "give --init k-means++, random, parallel or a file");
    }
    match args.runs {
        1 => Ok(()),
        _ => refused(
            "several runs from the same centroids would be one run several times",
            "leave --runs out",
        ),
    }
}

/// Fails for a checkpoint that is an input or an output, or would be a dataset.
fn check_checkpoint(context: &Context, path: &Path, others: &[&Path]) -> Result<()> {
    context.files.refuse_change(path)?;
    match others.iter().any(|other| is_same_place(other, path)) {
        false => Ok(()),
        true => Err(
            Error::usage("create checkpoint", "it is an input or an output, too")
                .path(path)
                .hint("name another file with --checkpoint"),
        ),
    }
}

/// Says of an interrupted run what it has left, and how it goes on.
fn tell_checkpoint(args: &KmeansArgs, error: Error) -> Error {
    match &args.checkpoint {
        Some(path) if error.kind() == Kind::Interrupted && path.exists() => error.hint(format!(
            "the checkpoint {} is left; run the same command again to go on from it",
            path.display()
        )),
        _ => error,
    }
}

/// Centroids as a result.
fn centroids(numbers: &[f64], wide: bool) -> Array<'_> {
    Array::Floats { numbers, wide }
}
