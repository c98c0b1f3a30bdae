//! `outcore graph`: edges to graphs, and algorithms on them, from the command line.
//!
//! Contract: thin over [`outcore_graph`]. An algorithm's result goes to a file, to the screen as the vertices with the
//! largest values, or both; the summary says what was read. With relabelled ids, vertices are called by these.

mod drawn;

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::{Error, Job, Result, ScratchDrive};
use outcore_front::inputs::{self, Streams};
use outcore_front::resources::{Resources, default_scratch_dir};
use outcore_graph::convert::{ConvertOptions, check_memory, convert};
use outcore_graph::edges::ReadOptions;
use outcore_graph::graph::{Direction, Graph};
use outcore_graph::kernels::{self, HitsOptions, LouvainOptions, PageRankOptions};
use outcore_graph::results::{self, Value, Values};
use outcore_io::output::parent_of;
use outcore_io::units;
use serde_json::json;

use crate::cli::graph::{GraphCommand, GraphConvertArgs, GraphVerifyArgs, KernelArgs};
use crate::context::Context;
use crate::measure::{Summary, rate_text};
use crate::progress::watch;
use crate::recorder::Kept;
use crate::resources;

const READ: &str = "read arguments";

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &GraphCommand) -> Result<u8> {
    match command {
        GraphCommand::Convert(args) => run_convert(context, args),
        GraphCommand::Info { graph } => info(context, graph),
        GraphCommand::Export(args) => drawn::export(context, args),
        GraphCommand::Verify(args) => verify(context, args),
        GraphCommand::Degrees { kernel, is_in } => {
            let direction = match is_in {
                true => Direction::In,
                false => Direction::Out,
            };
            run_kernel(context, kernel, "degrees", |job, graph, _| {
                let bytes = graph.vertices() as u64 * 4;
                let _degrees = job.budget.reserve("degrees", bytes)?;
                Ok(Values::Numbers(graph.degrees(job, direction)?))
            })
        }
        GraphCommand::Cc { kernel } => {
            run_kernel(context, kernel, "components", |job, graph, _| {
                Ok(Values::Numbers(kernels::components(job, graph)?))
            })
        }
        GraphCommand::Bfs {
            kernel,
            source,
            parents,
        } => run_kernel(context, kernel, "search", |job, graph, names| {
            let sources = source.iter();
            let sources = sources.map(|name| vertex_of(*name, graph, names));
            let sources = sources.collect::<Result<Vec<u32>>>()?;
            let found = kernels::bfs_from(job, graph, &sources)?;
            Ok(Values::Optional(match parents {
                true => found.parents,
                false => found.levels,
            }))
        }),
        GraphCommand::Pagerank {
            kernel,
            alpha,
            tolerance,
            iterations,
            source,
        } => {
            let options = PageRankOptions {
                alpha: *alpha,
                tolerance: *tolerance,
                iterations_max: *iterations,
            };
            run_kernel(context, kernel, "PageRank", |job, graph, names| {
                if source.is_empty() {
                    return Ok(Values::Floats(kernels::pagerank(job, graph, options)?.0));
                }
                let targets = source
                    .iter()
                    .map(|name| Ok((vertex_of(*name, graph, names)?, 1.0)));
                let targets = targets.collect::<Result<Vec<_>>>()?;
                let ranks = kernels::personalized_pagerank(job, graph, options, &targets)?;
                Ok(Values::Floats(ranks.0))
            })
        }
        GraphCommand::Scc { kernel } => {
            run_kernel(context, kernel, "strong components", |job, graph, _| {
                Ok(Values::Numbers(kernels::strong_components(job, graph)?))
            })
        }
        GraphCommand::Sssp { kernel, source } => {
            run_kernel(context, kernel, "shortest paths", |job, graph, names| {
                let source = vertex_of(*source, graph, names)?;
                Ok(Values::Floats(kernels::shortest_paths(job, graph, source)?))
            })
        }
        GraphCommand::Walk(args) => drawn::walk(context, args),
        GraphCommand::Sample(args) => drawn::sample(context, args),
        GraphCommand::Triangles { kernel } => {
            run_kernel(context, kernel, "triangles", |job, graph, _| {
                let counts = kernels::triangles(job, graph)?;
                // Each triangle is counted at its three corners.
                let triangles = counts.iter().sum::<u64>() / 3;
                Ok(Found {
                    values: Values::Counts(counts),
                    facts: vec![("triangles", json!(triangles))],
                    told: Some(units::counted(triangles, "triangle")),
                })
            })
        }
        GraphCommand::Lp { kernel, rounds } => {
            run_kernel(context, kernel, "label propagation", |job, graph, _| {
                let found = kernels::label_propagation(job, graph, *rounds)?;
                let told = format!(
                    "{} in {}{}",
                    counted_communities(found.count),
                    units::counted(found.rounds.into(), "round"),
                    match found.is_stable {
                        true => "",
                        false => ", after which labels still change: allow more with --rounds",
                    }
                );
                Ok(Found {
                    values: Values::Numbers(found.labels),
                    facts: vec![
                        ("communities", json!(found.count)),
                        ("rounds", json!(found.rounds)),
                        ("stable", json!(found.is_stable)),
                    ],
                    told: Some(told),
                })
            })
        }
        GraphCommand::Louvain {
            kernel,
            resolution,
            threshold,
            seed,
        } => {
            let options = LouvainOptions {
                resolution: *resolution,
                threshold: *threshold,
                seed: *seed,
            };
            run_kernel(context, kernel, "communities", |job, graph, _| {
                let found = kernels::louvain(job, graph, options)?;
                let told = format!(
                    "{} of modularity {:.6} in {}",
                    counted_communities(found.count),
                    found.modularity,
                    units::counted(found.levels.into(), "level"),
                );
                Ok(Found {
                    values: Values::Numbers(found.labels),
                    facts: vec![
                        ("communities", json!(found.count)),
                        ("modularity", json!(found.modularity)),
                        ("levels", json!(found.levels)),
                    ],
                    told: Some(told),
                })
            })
        }
        GraphCommand::Hits {
            kernel,
            authorities,
            tolerance,
            iterations,
        } => {
            let options = HitsOptions {
                tolerance: *tolerance,
                iterations_max: *iterations,
            };
            run_kernel(context, kernel, "HITS", |job, graph, _| {
                let found = kernels::hits(job, graph, options)?;
                Ok(Found {
                    values: Values::Floats(match authorities {
                        true => found.authorities,
                        false => found.hubs,
                    }),
                    facts: vec![("iterations", json!(found.iterations))],
                    told: None,
                })
            })
        }
        GraphCommand::Kcore { kernel, k } => {
            run_kernel(context, kernel, "cores", |job, graph, _| {
                Ok(Values::Numbers(match k {
                    Some(k) => kernels::k_core(job, graph, *k)?,
                    None => kernels::core_numbers(job, graph)?,
                }))
            })
        }
    }
}

fn run_convert(context: &Context, args: &GraphConvertArgs) -> Result<u8> {
    let started = Instant::now();
    let resources = resources::load(&args.resources, &args.drives, None, resources::SEED)?;
    let sources = inputs::find(&args.inputs, Streams::Refused, &context.files)?;
    let dir = absolute(&args.output);
    let files: Vec<PathBuf> = sources.iter().map(|source| source.path.clone()).collect();
    let kept = Kept {
        sources: &sources,
        force: args.force,
        ..Kept::default()
    };
    let resources = context.start(resources, &args.record_io, kept)?;
    let job = resources.planned_job(drives_of(&resources, &dir)?, parent_of(&dir));
    check_memory(&job)?;
    let weight_column = args.weights.clone().filter(|column| !column.is_empty());
    let options = ConvertOptions {
        read: ReadOptions {
            format: args.format,
            is_weighted: args.weights.is_some(),
            weight_column,
        },
        is_undirected: args.undirected,
        relabel: args.relabel,
        dedup: args.dedup,
        drop_loops: args.drop_loops,
        vertices: args.vertices,
        replace: args.force,
    };
    begin(context, &resources, (&args.inputs, Some(&args.output)));
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let done = watch(reporter, interrupt, &job.control, &[], || {
        convert(&job, &files, &dir, &options)
    })?;
    let manifest = &done.manifest;
    let seconds = started.elapsed().as_secs_f64();
    let summary = Summary {
        records: manifest.edges,
        seconds,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        ..Summary::default()
    };
    let summary = summary
        .with("output", json!(args.output.display().to_string()))
        .with("edges_in", json!(done.edges_in))
        .with("vertices", json!(manifest.vertices))
        .with("loops", json!(manifest.loops))
        .with("directed", json!(manifest.directed))
        .with("weighted", json!(manifest.weighted))
        .with("graph_bytes", json!(done.graph_bytes));
    reporter.summary(&summary);
    reporter.human(&format!(
        "converted {} to a graph of {} and {}, {}, in {}: {}",
        units::counted(done.edges_in, "edge"),
        units::counted(manifest.vertices, "vertex").replace("vertexs", "vertices"),
        units::counted(manifest.edges, "edge"),
        units::bytes(done.graph_bytes),
        units::seconds(seconds),
        rate_text(done.read_bytes, seconds),
    ));
    Ok(0)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Drives for scratch: those named, or one where it is not in memory.
fn drives_of(resources: &Resources, dir: &Path) -> Result<Vec<ScratchDrive>> {
    let named = resources.named_drives(0)?;
    match named.is_empty() {
        false => Ok(named),
        true => Ok(vec![ScratchDrive::new(default_scratch_dir(parent_of(
            dir,
        ))?)]),
    }
}

fn begin(
    context: &Context,
    resources: &Resources,
    (inputs, output): (&[PathBuf], Option<&PathBuf>),
) {
    let inputs: Vec<String> = inputs
        .iter()
        .map(|name| name.display().to_string())
        .collect();
    context.reporter.event(
        "begin",
        json!({
            "inputs": inputs,
            "output": output.map(|name| name.display().to_string()),
            "type": "graph",
            "memory_bytes": resources.config.memory_bytes.value,
            "threads": resources.config.threads.value,
            "io": resources.config.io.value.name(),
        }),
    );
}

/// The graph in `dir`, and a job with what the flags allow.
fn open(resources: &Resources, dir: &Path) -> Result<(Job, Graph)> {
    let job = resources.job_at(Vec::new(), dir);
    let graph = Graph::open(&job, dir)?;
    Ok((job, graph))
}

fn info(context: &Context, dir: &Path) -> Result<u8> {
    let resources = resources::without_flags()?;
    let (_, graph) = open(&resources, dir)?;
    let manifest = graph.manifest();
    let yes = |is_so: bool, text: &'static str| if is_so { text } else { "" };
    let lists = std::iter::once(&manifest.out).chain(&manifest.sources);
    let list_bytes: u64 = lists.map(|lists| lists.blocks * 4096).sum();
    let text = format!(
        "{} vertices, {} edges ({} loops), {}{}{}{}\n  tiles {}, lists {}, largest degree {}\n",
        units::count(manifest.vertices),
        units::count(manifest.edges),
        units::count(manifest.loops),
        if manifest.directed {
            "directed"
        } else {
            "undirected"
        },
        yes(manifest.weighted, ", with weights"),
        yes(manifest.dedup, ", without parallel edges"),
        yes(manifest.relabelled, ", ids relabelled"),
        units::bytes(graph.tile_bytes()),
        units::bytes(list_bytes),
        units::count(manifest.out.degree_max.into()),
    );
    context.reporter.data(&text);
    let summary = Summary {
        records: manifest.edges,
        ..Summary::default()
    };
    let summary = summary
        .with("vertices", json!(manifest.vertices))
        .with("loops", json!(manifest.loops))
        .with("directed", json!(manifest.directed))
        .with("weighted", json!(manifest.weighted))
        .with("dedup", json!(manifest.dedup))
        .with("relabelled", json!(manifest.relabelled))
        .with("tile_bytes", json!(graph.tile_bytes()))
        .with("list_bytes", json!(list_bytes))
        .with("degree_max", json!(manifest.out.degree_max));
    context.reporter.summary(&summary);
    Ok(0)
}

fn verify(context: &Context, args: &GraphVerifyArgs) -> Result<u8> {
    let started = Instant::now();
    let resources = resources::without_drives(&args.resources)?;
    let (job, graph) = open(&resources, &args.graph)?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    watch(reporter, interrupt, &job.control, &[], || {
        graph.verify(&job)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    reporter.summary(&Summary {
        records: graph.manifest().edges,
        seconds,
        ..Summary::default()
    });
    reporter.result(&format!(
        "the graph is whole: {} edges in {}\n",
        units::count(graph.manifest().edges),
        units::seconds(seconds)
    ));
    Ok(0)
}

/// The number of a vertex that the user calls `name`.
fn vertex_of(name: u64, graph: &Graph, names: Option<&[u64]>) -> Result<u32> {
    let found = match names {
        Some(names) => names.binary_search(&name).ok(),
        None => usize::try_from(name).ok(),
    };
    let found = found.filter(|vertex| *vertex < graph.vertices());
    found.map(|vertex| vertex as u32).ok_or_else(|| {
        let count = units::count(graph.vertices() as u64);
        Error::usage(
            READ,
            format!("{name} is not a vertex of the graph, which has {count}"),
        )
        .hint("--source takes an id as it was in the edges")
    })
}

/// Fails for an output that exists, unless it may be replaced.
fn check_new(path: &Path, is_replaced: bool) -> Result<()> {
    match path.exists() && !is_replaced {
        false => Ok(()),
        true => Err(Error::usage("create output", "it exists")
            .path(path)
            .hint("replace it with --force, or name another file")),
    }
}

/// What an algorithm has found.
struct Found {
    values: Values,
    /// More for the summary,
    facts: Vec<(&'static str, serde_json::Value)>,
    /// and for the screen.
    told: Option<String>,
}

impl From<Values> for Found {
    fn from(values: Values) -> Self {
        Found {
            values,
            facts: Vec::new(),
            told: None,
        }
    }
}

fn counted_communities(count: u64) -> String {
    match count {
        1 => "1 community".to_owned(),
        _ => format!("{} communities", units::count(count)),
    }
}

fn run_kernel<F: Into<Found>>(
    context: &Context,
    args: &KernelArgs,
    name: &'static str,
    kernel: impl FnOnce(&Job, &Graph, Option<&[u64]>) -> Result<F>,
) -> Result<u8> {
    let started = Instant::now();
    let output = args.output.as_deref();
    let output = output
        .map(|name| context.files.output(name, args.force))
        .transpose()?;
    let resources = resources::without_drives(&args.resources)?;
    let files: Vec<PathBuf> = output.iter().map(|path| path.to_path_buf()).collect();
    let kept = Kept {
        files: &files,
        force: args.force,
        ..Kept::default()
    };
    let resources = context.start(resources, &args.record_io, kept)?;
    if let Some(path) = output.as_deref() {
        check_new(path, args.force)?;
    }
    begin(
        context,
        &resources,
        (std::slice::from_ref(&args.graph), args.output.as_ref()),
    );
    let (job, graph) = open(&resources, &args.graph)?;
    let names = graph.names(&job)?;
    let names_bytes = names.as_ref().map_or(0, |names| 8 * names.len() as u64);
    let _names = job.budget.reserve("original ids", names_bytes)?;
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let found = watch(reporter, interrupt, &job.control, &[], || {
        let found: Found = kernel(&job, &graph, names.as_deref())?.into();
        if let Some(path) = &output {
            results::write(&job, (path, args.force), &found.values, names.as_deref())?;
        }
        Ok(found)
    })?;
    let Found {
        values,
        facts,
        told,
    } = found;
    let seconds = started.elapsed().as_secs_f64();
    let top = results::top(&values, args.top.unwrap_or(0) as usize);
    let id_of = |vertex: usize| names.as_ref().map_or(vertex as u64, |names| names[vertex]);
    let number = |value: Value| match value {
        Value::Whole(number) => json!(number),
        Value::Float(number) => json!(number),
    };
    let listed = top
        .iter()
        .map(|(vertex, value)| json!([id_of(*vertex), number(*value)]));
    let summary = Summary {
        records: values.len() as u64,
        seconds,
        ..Summary::default()
    };
    let summary = summary
        .with(
            "output",
            json!(args.output.as_ref().map(|name| name.display().to_string())),
        )
        .with("vertices", json!(graph.manifest().vertices))
        .with("edges", json!(graph.manifest().edges))
        .with("top", json!(listed.collect::<Vec<_>>()));
    let summary = facts
        .into_iter()
        .fold(summary, |summary, (name, fact)| summary.with(name, fact));
    reporter.summary(&summary);
    let lines = top
        .iter()
        .map(|(vertex, value)| format!("{}\t{value}\n", id_of(*vertex)));
    let lines: String = lines.collect();
    if !lines.is_empty() {
        reporter.result(&lines);
    }
    if let Some(told) = told {
        reporter.human(&told);
    }
    reporter.human(&format!(
        "{name} of {} vertices and {} edges in {}",
        units::count(graph.manifest().vertices),
        units::count(graph.manifest().edges),
        units::seconds(seconds),
    ));
    Ok(0)
}
