//! What is made of a graph's edges: samples, random walks, a matrix of SciPy.
//!
//! Contract: as in [`super`]. Rows are written by the original ids where these were relabelled.

use std::path::Path;
use std::time::Instant;

use outcore::{Error, Job, Kind, Result};
use outcore_front::inputs::{self, Streams};
use outcore_front::resources::Resources;
use outcore_front::spool::Spool;
use outcore_graph::graph::names::Names;
use outcore_graph::graph::{Direction, Graph};
use outcore_graph::{export, ids, kernels, results};
use outcore_io::output::parent_of;
use outcore_io::units;
use serde_json::json;

use super::{
    Destination, begin, check_new, files_of, open, refuse_inside, refuse_stdout, vertex_of,
    vertices_of,
};
use crate::cli::graph::{GraphExportArgs, GraphSampleArgs, GraphWalkArgs};
use crate::commands::table;
use crate::context::Context;
use crate::measure::{Summary, phases_json};
use crate::progress::watch;
use crate::resources;

/// Incoming or outgoing edges.
pub(super) fn direction_of(is_in: bool) -> Direction {
    match is_in {
        true => Direction::In,
        false => Direction::Out,
    }
}

/// The vertices that a file or a stream names; a stream is copied to scratch beside the output
/// first.
fn seeds_named(
    context: &Context,
    (job, resources): (&Job, &Resources),
    (name, output): (&Path, &Path),
    graph: (&Graph, Option<&Names>),
) -> Result<Vec<u32>> {
    let source = match inputs::find(&[name.to_path_buf()], Streams::Taken, &context.files)?.pop() {
        Some(source) if source.is_stream() => source,
        _ => return seeds_of(job, name, graph),
    };
    let mut spool = Spool::beside(job, resources, parent_of(output))?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let copy = watch(reporter, interrupt, &job.control, &[], || {
        spool.copy_records(job, &source, true)
    })?;
    seeds_of(job, &copy.path, graph).map_err(|error| inputs::explain([&copy], error))
}

/// The vertices that a file names.
fn seeds_of(job: &Job, path: &Path, (graph, names): (&Graph, Option<&Names>)) -> Result<Vec<u32>> {
    let found = match names.map(Names::numbers) {
        Some(None) => {
            let (wanted, _held) = ids::read_names(job, path)?;
            vertices_of(job, &wanted, (graph, names))
        }
        numbers => {
            let (wanted, _held) = ids::read_ids(job, path)?;
            let numbers = numbers.flatten();
            let vertices = wanted.iter();
            let vertices = vertices.map(|number| vertex_of(*number, graph, numbers));
            vertices.collect()
        }
    };
    found.map_err(|error| match error.kind() {
        Kind::Usage => error.path(path),
        _ => error,
    })
}

/// Writes rows of vertices to a table or another file.
fn write_rows(
    job: &Job,
    (output, force): (&Destination, bool),
    rows: (&[u32], &[String]),
    names: Option<&Names>,
) -> Result<()> {
    match output.table() {
        Some(path) => table::write_rows(job, (path, force), rows, names).map(drop),
        None => results::write_rows(job, output.open(job)?, force, rows.0, rows.1, names).map(drop),
    }
}

/// Edges around some vertices, a row each.
pub(super) fn sample(context: &Context, args: &GraphSampleArgs) -> Result<u8> {
    let started = Instant::now();
    let output = Destination::named(context, (&args.output, &args.graph), (args.force, false))?;
    let files = files_of(context, &args.graph)?;
    let resources = resources::without_drives(&args.resources)?.measuring(args.plan.explain);
    let resources = context.files.add_to(resources)?;
    let inputs: Vec<_> = [Some(&args.graph), args.seeds.as_ref()]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    begin(context, &resources, (&inputs, Some(&args.output)));
    let (job, graph) = open(&resources, files)?;
    if args.plan.explain {
        context.reporter.show_plans(&job.control);
    }
    let names = graph.names(&job)?;
    let names = names.as_ref();
    let degrees_bytes = 4 * graph.vertices() as u64;
    let _held = job.budget.reserve("degrees", degrees_bytes)?;
    let mut seeds = match &args.seeds {
        Some(name) => {
            let place = (name.as_path(), args.output.as_path());
            seeds_named(context, (&job, &resources), place, (&graph, names))?
        }
        None => Vec::new(),
    };
    seeds.extend(vertices_of(&job, &args.source, (&graph, names))?);
    let direction = direction_of(args.is_in);
    let degrees = graph.degrees(&job, direction)?;
    let fanouts: Vec<Option<u32>> = args.fanouts.iter().map(|fanout| fanout.0).collect();
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let sample = watch(reporter, interrupt, &job.control, &[], || {
        let mut sampler = kernels::Sampler::new(&job, &graph, &degrees, direction)?;
        let sample = sampler.neighbours(&seeds, &fanouts, args.seed)?;
        drop(sampler);
        let rows_bytes = 8 * sample.sources.len() as u64;
        let _rows = job.budget.reserve("sampled edges", rows_bytes)?;
        let ends = sample.sources.iter().zip(&sample.targets);
        let rows = ends.flat_map(|(neighbour, vertex)| {
            let (neighbour, vertex) = (
                sample.vertices[*neighbour as usize],
                sample.vertices[*vertex as usize],
            );
            match args.is_in {
                true => [neighbour, vertex],
                false => [vertex, neighbour],
            }
        });
        let rows: Vec<u32> = rows.collect();
        let columns = ["source", "target"].map(str::to_owned);
        write_rows(&job, (&output, args.force), (&rows, &columns), names)?;
        Ok(sample)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let edges_count = sample.sources.len() as u64;
    let summary = Summary {
        records: edges_count,
        seconds,
        read_bytes: graph.phases().iter().map(|phase| phase.read_bytes).sum(),
        ..Summary::default()
    };
    let summary = summary
        .with("output", json!(args.output.display().to_string()))
        .with("vertices", json!(sample.vertices.len()))
        .with("hop_edges", json!(sample.hop_edges))
        .with("seed", json!(args.seed))
        .with("phases", phases_json(&graph.phases()));
    reporter.summary(&summary);
    reporter.human(&format!(
        "{} between {} in {}",
        units::counted(edges_count, "edge"),
        units::counted(sample.vertices.len() as u64, "vertex"),
        units::seconds(seconds),
    ));
    reporter.phases(&graph.phases(), args.plan.explain);
    Ok(0)
}

/// The graph as a sparse matrix of SciPy.
pub(super) fn export(context: &Context, args: &GraphExportArgs) -> Result<u8> {
    let started = Instant::now();
    refuse_stdout(
        &args.output,
        "an archive (.npz) is written in several places at once",
    )?;
    if args.output.extension().is_some_and(|end| end != "npz") {
        let cause =
            "a matrix is written as an archive of arrays, and the name promises another format";
        return Err(Error::usage("create output", cause)
            .path(&args.output)
            .hint("let the name end in .npz"));
    }
    let output = context.files.output(&args.output, args.force)?;
    refuse_inside(&output, &args.graph)?;
    check_new(&output, args.force)?;
    let files = files_of(context, &args.graph)?;
    let resources = resources::without_drives(&args.resources)?;
    let resources = context.files.add_to(resources)?;
    begin(
        context,
        &resources,
        (std::slice::from_ref(&args.graph), Some(&args.output)),
    );
    let (job, graph) = open(&resources, files)?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (entries_count, written_bytes) = watch(reporter, interrupt, &job.control, &[], || {
        export::export_npz(&job, &graph, &output, args.force)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let summary = Summary {
        records: entries_count,
        seconds,
        written_bytes,
        ..Summary::default()
    };
    let summary = summary.with("output", json!(args.output.display().to_string()));
    reporter.summary(&summary);
    reporter.human(&format!(
        "{} of a matrix, {}, in {}",
        units::counted(entries_count, "entry"),
        units::bytes(written_bytes),
        units::seconds(seconds),
    ));
    Ok(0)
}

/// Random walks, a row each.
pub(super) fn walk(context: &Context, args: &GraphWalkArgs) -> Result<u8> {
    let started = Instant::now();
    let output = Destination::named(context, (&args.output, &args.graph), (args.force, false))?;
    let files = files_of(context, &args.graph)?;
    let resources = resources::without_drives(&args.resources)?.measuring(args.plan.explain);
    let resources = context.files.add_to(resources)?;
    begin(
        context,
        &resources,
        (std::slice::from_ref(&args.graph), Some(&args.output)),
    );
    let (job, graph) = open(&resources, files)?;
    if args.plan.explain {
        context.reporter.show_plans(&job.control);
    }
    let names = graph.names(&job)?;
    let starts = match args.source.is_empty() {
        true => (0..graph.vertices() as u32).collect(),
        false => vertices_of(&job, &args.source, (&graph, names.as_ref()))?,
    };
    let starts: Vec<u32> = starts
        .iter()
        .flat_map(|start| std::iter::repeat_n(*start, args.repeats_count as usize))
        .collect();
    let direction = direction_of(args.is_in);
    let width = args.steps_count as usize + 1;
    let held_bytes = 4 * (graph.vertices() + starts.len() * (width + 1)) as u64;
    let _held = job.budget.reserve("walks", held_bytes)?;
    let degrees = graph.degrees(&job, direction)?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    watch(reporter, interrupt, &job.control, &[], || {
        let mut sampler = kernels::Sampler::new(&job, &graph, &degrees, direction)?;
        let walks = sampler.walks(&starts, args.steps_count as usize, args.seed)?;
        drop(sampler);
        let columns: Vec<String> = (0..width).map(|step| format!("step{step}")).collect();
        let to = (&output, args.force);
        write_rows(&job, to, (&walks, &columns), names.as_ref())
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let walks_count = starts.len() as u64;
    let summary = Summary {
        records: walks_count,
        seconds,
        ..Summary::default()
    };
    let summary = summary
        .with("output", json!(args.output.display().to_string()))
        .with("length", json!(args.steps_count))
        .with("seed", json!(args.seed))
        .with("phases", phases_json(&graph.phases()));
    reporter.summary(&summary);
    reporter.human(&format!(
        "{} of {} in {}",
        units::counted(walks_count, "walk"),
        units::counted(u64::from(args.steps_count), "step"),
        units::seconds(seconds),
    ));
    reporter.phases(&graph.phases(), args.plan.explain);
    Ok(0)
}
