//! `outcore graph`: edges to graphs, and algorithms on them, from the command line.
//!
//! Contract: thin over [`outcore_graph`]. Conversion and what is said of a graph are here;
//! algorithms are in [`kernel`], and what is made of edges in [`drawn`]. With relabelled ids,
//! vertices are called by these.

mod drawn;
mod kernel;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use outcore::key::column::{column_name, column_names};
use outcore::{Error, Job, Output, Result, ScratchDrive};
use outcore_front::inputs::{self, Streams, is_stdout};
use outcore_front::output::{Consent, Holds, Target, check_terminal, file_or_pipe};
use outcore_front::resources::{Resources, default_scratch_dir};
use outcore_front::spool;
use outcore_graph::convert::{ConvertOptions, check_memory, convert};
use outcore_graph::edges::ReadOptions;
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::format::weight::WeightType;
use outcore_graph::graph::Graph;
use outcore_graph::graph::files::GraphFiles;
use outcore_graph::graph::names::Names;
use outcore_graph::kernels::{ClosenessOptions, HitsOptions, LouvainOptions, PageRankOptions};
use outcore_io::output::parent_of;
use outcore_io::units;
use serde_json::json;

use crate::cli::graph::{GraphCommand, GraphConvertArgs, GraphVerifyArgs};
use crate::commands::table;
use crate::context::Context;
use crate::measure::{Summary, phases_json, rate_text};
use crate::pipe;
use crate::progress::watch;
use crate::resources;
use outcore_verbs::host::Kept;

const READ: &str = "read arguments";

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &GraphCommand) -> Result<u8> {
    match start(context, command) {
        // Whoever read the result needs no more of it.
        Err(error) if command.takes_stdout() && pipe::is_closed(&Target::Pipe(None), &error) => {
            Ok(pipe::CLOSED_PIPE)
        }
        other => other,
    }
}

fn start(context: &Context, command: &GraphCommand) -> Result<u8> {
    match command {
        GraphCommand::Convert(args) => run_convert(context, args),
        GraphCommand::Info { graph } => info(context, graph),
        GraphCommand::Export(args) => drawn::export(context, args),
        GraphCommand::Verify(args) => verify(context, args),
        GraphCommand::Walk(args) => drawn::walk(context, args),
        GraphCommand::Sample(args) => drawn::sample(context, args),
        GraphCommand::Degrees { kernel, is_in } => kernel::degrees(context, kernel, *is_in),
        GraphCommand::Cc { kernel } => kernel::components(context, kernel),
        GraphCommand::Scc { kernel } => kernel::strong_components(context, kernel),
        GraphCommand::Bfs {
            kernel,
            source,
            parents,
        } => kernel::search(context, kernel, (source, *parents)),
        GraphCommand::Sssp { kernel, source } => kernel::lengths(context, kernel, source),
        GraphCommand::Pagerank {
            kernel,
            alpha,
            tolerance,
            iterations,
            source,
            weighted,
        } => {
            let options = PageRankOptions {
                alpha: *alpha,
                tolerance: *tolerance,
                iterations_max: *iterations,
                by_weight: *weighted,
            };
            kernel::pagerank(context, kernel, (options, source))
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
            kernel::hits(context, kernel, (options, *authorities))
        }
        GraphCommand::Closeness {
            kernel,
            sources,
            seed,
        } => {
            let options = ClosenessOptions {
                sources_count: *sources,
                seed: *seed,
            };
            kernel::closeness(context, kernel, options)
        }
        GraphCommand::Lp { kernel, rounds } => kernel::propagation(context, kernel, *rounds),
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
            kernel::louvain(context, kernel, options)
        }
        GraphCommand::Triangles { kernel } => kernel::triangles(context, kernel),
        GraphCommand::Kcore { kernel, k } => kernel::cores(context, kernel, *k),
    }
}

fn run_convert(context: &Context, args: &GraphConvertArgs) -> Result<u8> {
    let started = Instant::now();
    let resources = resources::load(&args.resources, &args.drives, None, resources::SEED)?;
    let is_piped = args.inputs.iter().any(|input| is_stdout(input));
    let is_table = args.format().is_none() && !is_piped && context.is_table(&args.inputs)?;
    // Directories of tables have no blocks of their own.
    let sources = match is_table {
        true => Vec::new(),
        false => inputs::find(&args.inputs, Streams::Taken, &context.files)?,
    };
    refuse_stdout(&args.output, "a graph is a directory")?;
    let output = context.files.output(&args.output, args.force)?;
    let dir = absolute(&output);
    for input in &args.inputs {
        refuse_inside(input, &dir).map_err(|error| {
            error.hint("name another output: the files of a graph are replaced as a whole")
        })?;
    }
    table::check_not_read_again(args.inputs.iter().map(PathBuf::as_path), &[&dir])?;
    let kept = Kept {
        sources: &sources,
        force: args.force,
        ..Kept::default()
    };
    let resources = context.start(
        resources.measuring(args.plan.explain),
        &args.record_io,
        kept,
    )?;
    let job = resources.planned_job(drives_of(&resources, &dir)?, parent_of(&dir));
    check_memory(&job)?;
    if args.plan.explain {
        context.reporter.show_plans(&job.control);
    }
    let mut options = convert_options(args);
    begin(context, &resources, (&args.inputs, Some(&args.output)));
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let done = watch(reporter, interrupt, &job.control, &[], || {
        if is_table {
            return table::convert_edges(&job, &args.inputs, &dir, &options);
        }
        let are_records = args.format().is_some_and(EdgeFormat::is_binary);
        let from = (&sources[..], are_records);
        // Copies live until the end.
        let (copies, called, _spool) =
            spool::edge_files((&job, &resources), parent_of(&dir), from)?;
        let files: Vec<PathBuf> = copies.iter().map(|copy| copy.path.clone()).collect();
        options.read.called = called;
        convert(&job, &files, &dir, &options).map_err(|error| inputs::explain(&copies, error))
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
        .with("comments", json!(done.comments))
        .with("vertices", json!(manifest.vertices))
        .with("loops", json!(manifest.loops))
        .with("directed", json!(manifest.directed))
        .with("weighted", json!(manifest.weighted))
        .with(
            "weight_type",
            json!(manifest.weights().map(WeightType::name)),
        )
        .with("named", json!(manifest.text_names.is_some()))
        .with("graph_bytes", json!(done.graph_bytes))
        .with("phases", phases_json(&done.phases));
    reporter.summary(&summary);
    if done.comments > 0 {
        let comments = units::counted(done.comments, "comment");
        reporter.human(&format!(
            "skipped {comments}: lines that begin with #, % or //"
        ));
    }
    reporter.human(&format!(
        "converted {} to a graph of {}{} and {}, {}, in {}: {}",
        units::counted(done.edges_in, "edge"),
        units::counted(manifest.vertices, "vertex"),
        match manifest.text_names {
            Some(_) => " with names",
            None => "",
        },
        units::counted(manifest.edges, "edge"),
        units::bytes(done.graph_bytes),
        units::seconds(seconds),
        rate_text(done.read_bytes, seconds),
    ));
    reporter.phases(&done.phases, args.plan.explain);
    Ok(0)
}

/// How edges become a graph, as far as the flags say it.
fn convert_options(args: &GraphConvertArgs) -> ConvertOptions {
    let weight_column = args.weights.as_ref().filter(|column| !column.is_empty());
    ConvertOptions {
        read: ReadOptions {
            called: Vec::new(),
            format: args.format(),
            is_weighted: args.weights.is_some(),
            weight_type: args.weight_type,
            weight_column: weight_column.map(|column| column_name(column)),
            columns: column_names(&args.columns),
            has_no_header: args.no_header,
            is_bipartite: args.bipartite,
        },
        is_undirected: args.undirected,
        relabel: args.relabel.unwrap_or_default(),
        dedup: args.dedup,
        drop_loops: args.drop_loops,
        vertices: args.vertices,
        replace: args.force,
    }
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

/// The files of the graph that is called `name`: a directory, or a dataset on all drives of a
/// volume.
fn files_of(context: &Context, name: &Path) -> Result<GraphFiles> {
    let Some(packed) = context.files.packed(name)? else {
        return Ok(GraphFiles::in_dir(name));
    };
    let manifest = packed.read(GraphFiles::MANIFEST)?;
    Ok(GraphFiles::packed(
        &packed.path,
        manifest,
        packed.stretches(),
    ))
}

/// The graph of those files, and a job with what the flags allow; `resources` know the datasets.
fn open(resources: &Resources, files: GraphFiles) -> Result<(Job, Graph)> {
    let job = resources.job_at(Vec::new(), files.place());
    let graph = Graph::open_files(&job, files)?;
    Ok((job, graph))
}

fn info(context: &Context, dir: &Path) -> Result<u8> {
    let files = files_of(context, dir)?;
    let resources = context.files.add_to(resources::without_flags()?)?;
    let (_, graph) = open(&resources, files)?;
    let manifest = graph.manifest();
    let yes = |is_so: bool, text: &'static str| if is_so { text } else { "" };
    let lists = std::iter::once(&manifest.out).chain(&manifest.sources);
    let list_bytes: u64 = lists.map(|lists| lists.blocks * 4096).sum();
    let text = format!(
        "{}, {} ({}), {}{}{}{}\n  tiles {}, lists {}, largest degree {}\n",
        units::counted(manifest.vertices, "vertex"),
        units::counted(manifest.edges, "edge"),
        units::counted(manifest.loops, "loop"),
        if manifest.directed {
            "directed"
        } else {
            "undirected"
        },
        match manifest.weights() {
            None => String::new(),
            Some(of) => format!(", with weights ({})", of.name()),
        },
        yes(manifest.dedup, ", without parallel edges"),
        match (manifest.relabelled, &manifest.text_names) {
            (_, Some(_)) => ", ids are names",
            (true, None) => ", ids relabelled",
            (false, None) => "",
        },
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
        .with(
            "weight_type",
            json!(manifest.weights().map(WeightType::name)),
        )
        .with("dedup", json!(manifest.dedup))
        .with("relabelled", json!(manifest.relabelled))
        .with("named", json!(manifest.text_names.is_some()))
        .with("tile_bytes", json!(graph.tile_bytes()))
        .with("list_bytes", json!(list_bytes))
        .with("degree_max", json!(manifest.out.degree_max));
    context.reporter.summary(&summary);
    Ok(0)
}

fn verify(context: &Context, args: &GraphVerifyArgs) -> Result<u8> {
    let started = Instant::now();
    let files = files_of(context, &args.graph)?;
    let resources = resources::without_drives(&args.resources)?;
    let resources = context.files.add_to(resources)?;
    let (job, graph) = open(&resources, files)?;
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
        "the graph is whole: {} in {}\n",
        units::counted(graph.manifest().edges, "edge"),
        units::seconds(seconds)
    ));
    Ok(0)
}

/// The vertices that the user calls so.
fn vertices_of(
    job: &Job,
    wanted: &[String],
    (graph, names): (&Graph, Option<&Names>),
) -> Result<Vec<u32>> {
    let found = match names {
        Some(names) => names.vertices(job, wanted)?,
        None => {
            let vertices = graph.vertices() as u64;
            let number = |name: &String| {
                let number = name
                    .parse()
                    .ok()
                    .filter(|number: &u64| *number < vertices)?;
                u32::try_from(number).ok()
            };
            wanted.iter().map(number).collect()
        }
    };
    let found = wanted.iter().zip(found);
    let found = found.map(|(name, vertex)| vertex.ok_or_else(|| no_vertex(name, graph)));
    found.collect()
}

/// The vertex that the user gives that number.
fn vertex_of(number: u64, graph: &Graph, numbers: Option<&[u64]>) -> Result<u32> {
    let found = match numbers {
        Some(numbers) => numbers.binary_search(&number).ok(),
        None => usize::try_from(number).ok(),
    };
    let found = found.filter(|vertex| *vertex < graph.vertices());
    found
        .map(|vertex| vertex as u32)
        .ok_or_else(|| no_vertex(&number, graph))
}

fn no_vertex(name: &dyn std::fmt::Display, graph: &Graph) -> Error {
    let count = units::count(graph.vertices() as u64);
    Error::usage(
        READ,
        format!("{name} is not a vertex of the graph, which has {count}"),
    )
    .hint("--source and files of vertices take ids as they were in the edges")
}

/// Where a result of numbers goes: a file that is made, the pipe or device of a name, or standard
/// output.
enum Destination {
    File(PathBuf),
    Pipe(Option<PathBuf>),
}

impl Destination {
    /// The one that is called `name`, made of the graph `graph`; lines if they go to standard
    /// output `by_name`.
    ///
    /// # Errors
    /// Usage for a file of the graph, for one that exists, unless it may be replaced, and for
    /// numbers to a terminal; what datasets fail with.
    fn named(
        context: &Context,
        (name, graph): (&Path, &Path),
        (force, by_name): (bool, bool),
    ) -> Result<Self> {
        if is_stdout(name) {
            let holds = match by_name {
                true => Holds::Lines,
                false => Holds::Records,
            };
            let consent = Consent {
                force,
                ..Consent::default()
            };
            check_terminal(&Target::Pipe(None), holds, consent)?;
            return Ok(Destination::Pipe(None));
        }
        let path = context.files.output(name, force)?;
        check_result_name(&path, by_name)?;
        refuse_inside(&path, graph)?;
        match file_or_pipe(&path, Streams::Taken)? {
            Target::File(path) => check_new(&path, force).map(|()| Destination::File(path)),
            _ => Ok(Destination::Pipe(Some(path.into_owned()))),
        }
    }

    /// The file.
    fn path(&self) -> Option<&Path> {
        match self {
            Destination::File(path) => Some(path),
            Destination::Pipe(_) => None,
        }
    }

    /// The file, if it is a table.
    fn table(&self) -> Option<&Path> {
        self.path().filter(|path| table::is_table_name(path))
    }

    /// As the engine wants it.
    fn open(&self, job: &Job) -> Result<Output> {
        Ok(match self {
            Destination::File(path) => Output::from(path.as_path()),
            Destination::Pipe(path) => {
                Output::Pipe(Mutex::new(pipe::open(path.as_deref(), &job.control)?))
            }
        })
    }
}

/// Fails for a name that promises other contents than a result has: lines by name and in `.csv`,
/// numbers otherwise.
fn check_result_name(path: &Path, by_name: bool) -> Result<()> {
    let end = path.extension().and_then(|end| end.to_str());
    match end {
        Some("gz" | "zst" | "bz2" | "xz") => Err(Error::usage(
            "create output",
            "results of graphs are not compressed",
        )
        .path(path)
        .hint("name it without the ending, or give `-o -` and compress what comes")),
        Some("csv") => Ok(()),
        Some("tsv") => Err(Error::usage(
            "create output",
            "results of graphs have commas between their fields, and a .tsv file has tabs",
        )
        .path(path)
        .hint("end its name in .csv, and write that with tabs: `outcore convert x.csv -o x.tsv`")),
        _ if table::is_table_name(path) => Ok(()),
        _ if by_name => Holds::Lines.check_name(path),
        _ => Holds::Records.check_name(path).map_err(|error| {
            error.hint(
                "end its name in .csv, .parquet or .arrow for a table, .npy for an array of NumPy, \
                 or .bin for raw numbers",
            )
        }),
    }
}

/// Fails for a file in the directory of a graph.
fn refuse_inside(path: &Path, graph: &Path) -> Result<()> {
    let dir = parent_of(path).canonicalize();
    match (dir, graph.canonicalize()) {
        (Ok(dir), Ok(graph)) if graph.is_dir() && dir.starts_with(&graph) => Err(Error::usage(
            "create output",
            "it is in the directory of the graph",
        )
        .path(path)
        .hint("name a file in another directory")),
        _ => Ok(()),
    }
}

/// Fails if `name` means standard output, for what is not a stream.
fn refuse_stdout(name: &Path, cause: &'static str) -> Result<()> {
    let is_pipe = || matches!(file_or_pipe(name, Streams::Taken), Ok(Target::Pipe(_)));
    let what = match is_stdout(name) {
        true => "standard output".to_owned(),
        false if is_pipe() => name.display().to_string(),
        false => return Ok(()),
    };
    Err(
        Error::usage("create output", format!("{cause}, and {what} is a stream"))
            .hint("name a place on a drive with -o"),
    )
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
