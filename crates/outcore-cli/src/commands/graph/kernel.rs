//! Algorithms on graphs from the command line, a function each.
//!
//! Contract: an algorithm's result goes to a file, to the screen as the vertices with the largest
//! values, or both; the summary says what was read, and what else was found.

use std::path::PathBuf;
use std::time::Instant;

use outcore::{Error, Job, Result};
use outcore_front::inputs::is_stdout;
use outcore_front::resources::default_scratch_dir;
use outcore_graph::graph::Graph;
use outcore_graph::graph::names::{HeldNames, Names};
use outcore_graph::graph::plan::EdgeReads;
use outcore_graph::graph::state::{State, StateBytes};
use outcore_graph::kernels::{
    self, ClosenessOptions, Components, HitsOptions, JumpTarget, LabelFile, LouvainOptions,
    PageRankOptions,
};
use outcore_graph::results::{self, Value, Values, WriteOptions};
use outcore_io::output::parent_of;
use outcore_io::units;
use serde_json::json;

use super::drawn::direction_of;
use super::{Destination, begin, files_of, open, vertices_of};
use crate::cli::graph::KernelArgs;
use crate::commands::table;
use crate::context::Context;
use crate::measure::{Summary, phases_json};
use crate::progress::watch;
use crate::resources;
use outcore_verbs::host::Kept;

/// The number of edges of each vertex.
pub(super) fn degrees(context: &Context, args: &KernelArgs, is_in: bool) -> Result<u8> {
    run_kernel(context, args, "degrees", |job, graph, _| {
        let _state = State::planned(
            job,
            graph,
            "degrees",
            EdgeReads::Nothing,
            StateBytes::new(4, 0),
        )?;
        Ok(Values::Numbers(graph.degrees(job, direction_of(is_in))?))
    })
}

/// Components, on scratch beside the output where they do not fit into memory.
pub(super) fn components(context: &Context, args: &KernelArgs) -> Result<u8> {
    let output = args.output.as_deref().filter(|name| !is_stdout(name));
    let beside = output.unwrap_or(&args.graph);
    let is_looked_at = args.names || args.top.is_some_and(|count| count > 0);
    run_kernel(context, args, "components", |job, graph, names| {
        let is_named =
            names.is_some() && output.is_some_and(|name| name.extension() == Some("csv".as_ref()));
        if is_looked_at || is_named {
            // Labels on scratch have neither names nor an order of size.
            let labels = kernels::components(job, graph).map_err(|error| {
                let more = error
                    .next_step()
                    .unwrap_or("allow more with --memory")
                    .to_owned();
                error.hint(format!(
                    "{more}, or write an array (.npy) without --top and --names"
                ))
            });
            return Ok(Values::Vertices(labels?).into());
        }
        let scratch = default_scratch_dir(parent_of(beside))?;
        let found = kernels::components_of_any(job, graph, &scratch)?;
        Ok(Found {
            values: match found {
                Components::Held(labels) => Computed::Held(Values::Vertices(labels)),
                Components::Stored(labels) => Computed::Stored(labels),
            },
            facts: Vec::new(),
            told: None,
        })
    })
}

pub(super) fn strong_components(context: &Context, args: &KernelArgs) -> Result<u8> {
    run_kernel(context, args, "strong components", |job, graph, _| {
        Ok(Values::Vertices(kernels::strong_components(job, graph)?))
    })
}

/// Distances from some sources, or the vertices before each.
pub(super) fn search(
    context: &Context,
    args: &KernelArgs,
    (sources, parents): (&[String], bool),
) -> Result<u8> {
    run_from(context, args, ("search", true), |job, graph, names| {
        let sources = vertices_of(job, sources, (graph, names))?;
        let found = kernels::bfs_from(job, graph, &sources)?;
        Ok(match parents {
            true => Values::Parents(found.parents),
            false => Values::Optional(found.levels),
        })
    })
}

/// Lengths of shortest paths.
pub(super) fn lengths(context: &Context, args: &KernelArgs, sources: &[String]) -> Result<u8> {
    run_from(
        context,
        args,
        ("shortest paths", true),
        |job, graph, names| {
            let sources = vertices_of(job, sources, (graph, names))?;
            let lengths = kernels::shortest_paths_from(job, graph, &sources)?;
            Ok(Values::Floats(lengths))
        },
    )
}

/// Ranks, of jumps to some vertices if any are named.
pub(super) fn pagerank(
    context: &Context,
    args: &KernelArgs,
    (options, sources): (PageRankOptions, &[String]),
) -> Result<u8> {
    run_from(context, args, ("PageRank", true), |job, graph, names| {
        let found = match sources.is_empty() {
            true => kernels::pagerank(job, graph, options)?,
            false => {
                let targets = vertices_of(job, sources, (graph, names))?;
                let target = |vertex| JumpTarget {
                    vertex,
                    weight: 1.0,
                };
                let targets: Vec<JumpTarget> = targets.into_iter().map(target).collect();
                kernels::personalized_pagerank(job, graph, options, &targets)?
            }
        };
        let told = format!(
            "{}; in the last, all ranks changed by {:.3e} together",
            units::counted(found.iterations.into(), "iteration"),
            found.change,
        );
        Ok(Found {
            values: Computed::Held(Values::Floats(found.ranks)),
            facts: vec![
                ("iterations", json!(found.iterations)),
                ("change", json!(found.change)),
            ],
            told: Some(told),
        })
    })
}

/// Hubs, or authorities.
pub(super) fn hits(
    context: &Context,
    args: &KernelArgs,
    (options, authorities): (HitsOptions, bool),
) -> Result<u8> {
    run_kernel(context, args, "HITS", |job, graph, _| {
        let found = kernels::hits(job, graph, options)?;
        Ok(Found {
            values: Computed::Held(Values::Floats(match authorities {
                true => found.authorities,
                false => found.hubs,
            })),
            facts: vec![("iterations", json!(found.iterations))],
            told: Some(units::counted(found.iterations.into(), "iteration")),
        })
    })
}

/// How near each vertex is.
pub(super) fn closeness(
    context: &Context,
    args: &KernelArgs,
    options: ClosenessOptions,
) -> Result<u8> {
    run_kernel(context, args, "closeness", |job, graph, _| {
        let sources = u64::from(options.sources_count).min(graph.vertices() as u64);
        Ok(Found {
            values: Computed::Held(Values::Floats(kernels::closeness(job, graph, options)?)),
            facts: vec![("sources", json!(sources))],
            told: Some(format!("from {}", units::counted(sources, "source"))),
        })
    })
}

pub(super) fn triangles(context: &Context, args: &KernelArgs) -> Result<u8> {
    run_kernel(context, args, "triangles", |job, graph, _| {
        let counts = kernels::triangles(job, graph)?;
        // Each triangle is counted at its three corners.
        let triangles = counts.iter().sum::<u64>() / 3;
        Ok(Found {
            values: Computed::Held(Values::Counts(counts)),
            facts: vec![("triangles", json!(triangles))],
            told: Some(units::counted(triangles, "triangle")),
        })
    })
}

/// Communities by label propagation.
pub(super) fn propagation(context: &Context, args: &KernelArgs, rounds: u32) -> Result<u8> {
    run_kernel(context, args, "label propagation", |job, graph, _| {
        let found = kernels::label_propagation(job, graph, rounds)?;
        let told = format!(
            "{} in {}{}",
            units::counted(found.count, "community"),
            units::counted(found.rounds.into(), "round"),
            match found.is_stable {
                true => "",
                false => ", after which labels still change: allow more with --rounds",
            }
        );
        Ok(Found {
            values: Computed::Held(Values::Vertices(found.labels)),
            facts: vec![
                ("communities", json!(found.count)),
                ("rounds", json!(found.rounds)),
                ("stable", json!(found.is_stable)),
            ],
            told: Some(told),
        })
    })
}

/// Communities by Louvain's method, with scratch beside the output where edges between them do not
/// fit into memory.
pub(super) fn louvain(context: &Context, args: &KernelArgs, options: LouvainOptions) -> Result<u8> {
    let output = args.output.as_deref().filter(|name| !is_stdout(name));
    let beside = output.unwrap_or(&args.graph);
    run_kernel(context, args, "communities", |job, graph, _| {
        let scratch = default_scratch_dir(parent_of(beside))?;
        let found = kernels::louvain(job, graph, &scratch, options)?;
        let told = format!(
            "{} of modularity {:.6} in {}",
            units::counted(found.count, "community"),
            found.modularity,
            units::counted(found.levels.into(), "level"),
        );
        Ok(Found {
            values: Computed::Held(Values::Vertices(found.labels)),
            facts: vec![
                ("communities", json!(found.count)),
                ("modularity", json!(found.modularity)),
                ("levels", json!(found.levels)),
            ],
            told: Some(told),
        })
    })
}

/// Core numbers, or the members of one core.
pub(super) fn cores(context: &Context, args: &KernelArgs, k: Option<u32>) -> Result<u8> {
    run_kernel(context, args, "cores", |job, graph, _| {
        Ok(Values::Numbers(match k {
            Some(k) => kernels::k_core(job, graph, k)?,
            None => kernels::core_numbers(job, graph)?,
        }))
    })
}

/// A value for each vertex.
enum Computed {
    /// In memory.
    Held(Values),
    /// Labels on scratch.
    Stored(LabelFile),
}

/// What an algorithm has found.
struct Found {
    values: Computed,
    /// More for the summary,
    facts: Vec<(&'static str, serde_json::Value)>,
    /// and for the screen.
    told: Option<String>,
}

impl From<Values> for Found {
    fn from(values: Values) -> Self {
        Found {
            values: Computed::Held(values),
            facts: Vec::new(),
            told: None,
        }
    }
}

/// The vertices with the largest values, and what they are called.
struct Top {
    best: Vec<(usize, Value)>,
    /// Values are vertices, too.
    of_vertices: bool,
    names: Option<HeldNames>,
    is_text: bool,
}

impl Top {
    fn of(job: &Job, (values, count): (&Computed, usize), names: Option<&Names>) -> Result<Self> {
        let (best, of_vertices) = match values {
            Computed::Held(values) => (results::top(values, count), values.are_vertices()),
            // Components whose labels are looked at are held.
            Computed::Stored(_) => (Vec::new(), true),
        };
        let mut vertices: Vec<u32> = best.iter().map(|(vertex, _)| *vertex as u32).collect();
        if of_vertices {
            vertices.extend(best.iter().filter_map(|(_, value)| value.vertex()));
        }
        let held = names.map(|names| names.held(job, vertices));
        Ok(Top {
            best,
            of_vertices,
            names: held.transpose()?,
            is_text: names.is_some_and(|names| names.numbers().is_none()),
        })
    }

    fn name_of(&self, vertex: u32) -> String {
        match &self.names {
            Some(held) => held.get(vertex).to_owned(),
            None => vertex.to_string(),
        }
    }

    fn id_as_json(&self, vertex: u32) -> serde_json::Value {
        match (self.is_text, self.name_of(vertex)) {
            (true, name) => json!(name),
            (false, number) => json!(number.parse::<u64>().unwrap_or_default()),
        }
    }

    /// The vertex that a value is, where values are vertices.
    fn vertex_in(&self, value: &Value) -> Option<u32> {
        value.vertex().filter(|_| self.of_vertices)
    }

    /// Pairs of a vertex and its value.
    fn as_json(&self) -> serde_json::Value {
        let pairs = self.best.iter().map(|(vertex, value)| {
            let id = self.id_as_json(*vertex as u32);
            match (self.vertex_in(value), value) {
                (Some(other), _) => json!([id, self.id_as_json(other)]),
                (None, Value::Whole(number)) => json!([id, number]),
                (None, Value::Float(number)) => json!([id, number]),
            }
        });
        json!(pairs.collect::<Vec<_>>())
    }

    fn lines(&self) -> String {
        let best = self.best.iter();
        let line = |(vertex, value): &(usize, Value)| {
            let value = match self.vertex_in(value) {
                Some(other) => self.name_of(other),
                None => value.to_string(),
            };
            format!("{}\t{value}\n", self.name_of(*vertex as u32))
        };
        best.map(line).collect()
    }
}

/// Writes a value for each vertex to a table or another file.
fn write_found(
    job: &Job,
    output: &Destination,
    values: &Computed,
    options: WriteOptions<'_>,
) -> Result<()> {
    let WriteOptions { replace, names, .. } = options;
    match (output.table(), values) {
        (Some(path), Computed::Held(values)) => {
            table::write_values(job, (path, replace), values, names)?;
        }
        (Some(path), Computed::Stored(labels)) => {
            table::write_labels(job, (path, replace), labels, names)?;
        }
        (None, Computed::Held(values)) => {
            results::write(job, output.open(job)?, values, options)?;
        }
        (None, Computed::Stored(labels)) => {
            results::write_stored(job, output.open(job)?, labels, options)?;
        }
    }
    Ok(())
}

fn run_kernel<F: Into<Found>>(
    context: &Context,
    args: &KernelArgs,
    name: &'static str,
    kernel: impl FnOnce(&Job, &Graph, Option<&Names>) -> Result<F>,
) -> Result<u8> {
    run_from(context, args, (name, false), kernel)
}

/// The same for a kernel that starts from vertices that the user names, if `has_sources`.
fn run_from<F: Into<Found>>(
    context: &Context,
    args: &KernelArgs,
    (name, has_sources): (&'static str, bool),
    kernel: impl FnOnce(&Job, &Graph, Option<&Names>) -> Result<F>,
) -> Result<u8> {
    let started = Instant::now();
    let top_count = args.top.unwrap_or(0) as usize;
    let named = args.output.as_deref();
    if top_count > 0 && named.is_some_and(is_stdout) {
        let cause = "--top prints to standard output, which takes the values";
        return Err(
            Error::usage("read arguments", cause).hint("write the values to a file with -o")
        );
    }
    let how = (args.force, args.names);
    let output = named.map(|name| Destination::named(context, (name, &args.graph), how));
    let output = output.transpose()?;
    let graph_files = files_of(context, &args.graph)?;
    let resources = resources::without_drives(&args.resources)?.measuring(args.plan.explain);
    let path = output.as_ref().and_then(Destination::path);
    let files: Vec<PathBuf> = path.iter().map(|path| path.to_path_buf()).collect();
    let kept = Kept {
        files: &files,
        force: args.force,
        ..Kept::default()
    };
    let resources = context.start(resources, &args.record_io, kept)?;
    begin(
        context,
        &resources,
        (std::slice::from_ref(&args.graph), args.output.as_ref()),
    );
    let (job, graph) = open(&resources, graph_files)?;
    if args.plan.explain {
        context.reporter.show_plans(&job.control);
    }
    // Numbers take memory, which a kernel may need.
    let is_csv = path.is_some_and(|path| path.extension().is_some_and(|end| end == "csv"));
    let is_table = path.is_some_and(table::is_table_name);
    let names = match args.names || is_csv || is_table || top_count > 0 || has_sources {
        true => graph.names(&job)?,
        false => None,
    };
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (found, top) = watch(reporter, interrupt, &job.control, &[], || {
        let found: Found = kernel(&job, &graph, names.as_ref())?.into();
        let top = Top::of(&job, (&found.values, top_count), names.as_ref())?;
        if let Some(output) = &output {
            let options = WriteOptions {
                replace: args.force,
                names: names.as_ref(),
                by_name: args.names,
            };
            write_found(&job, output, &found.values, options)?;
        }
        Ok((found, top))
    })?;
    let Found {
        values,
        facts,
        told,
    } = found;
    let values_count = match &values {
        Computed::Held(values) => values.len() as u64,
        Computed::Stored(labels) => labels.vertices(),
    };
    let seconds = started.elapsed().as_secs_f64();
    let summary = Summary {
        records: values_count,
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
        .with("phases", phases_json(&graph.phases()))
        .with("top", top.as_json());
    let summary = facts
        .into_iter()
        .fold(summary, |summary, (name, fact)| summary.with(name, fact));
    reporter.summary(&summary);
    let lines = top.lines();
    if !lines.is_empty() {
        reporter.result(&lines);
    }
    if let Some(told) = told {
        reporter.human(&told);
    }
    reporter.human(&format!(
        "{name} of {} and {} in {}",
        units::counted(graph.manifest().vertices, "vertex"),
        units::counted(graph.manifest().edges, "edge"),
        units::seconds(seconds),
    ));
    reporter.phases(&graph.phases(), args.plan.explain);
    Ok(0)
}
