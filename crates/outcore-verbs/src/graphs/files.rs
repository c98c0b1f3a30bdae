//! Opened graphs, the vertices that the user names, and the destinations of results.
//!
//! Contract: outputs that exist, that are inputs or that are in a graph's directory are rejected
//! before anything is read. If ids were relabelled, vertices have their original ids.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use outcore::passes::{JobOption, KeptPasses, PassRequest};
use outcore::{Error, Job, Output, Result};
use outcore_front::inputs::{Streams, is_stdout};
use outcore_front::output::{Consent, Holds, Target, check_terminal, file_or_pipe};
use outcore_front::resources::Resources;
use outcore_graph::graph::files::GraphFiles;
use outcore_graph::graph::names::Names;
use outcore_graph::graph::{Direction, Graph};
use outcore_graph::results::WriteOptions;
use outcore_io::checksum::bytes_checksum;
use outcore_io::output::parent_of;
use outcore_io::units;

use crate::columns;
use crate::host::{Host, Kept, begin};
use crate::option::{DriveArgs, ResourceArgs, RunArgs, SEED, resources_request};
use crate::report::{JobSummary, Moved, Phase, Stopwatch};
use crate::resumed::{Resuming, check_plain, may_exist, refused, tell_kept};

/// The resources of a job that needs no scratch of its own.
pub(super) fn load(host: &dyn Host, resources: &ResourceArgs) -> Result<Resources> {
    host.load(&resources_request(
        resources,
        &DriveArgs::default(),
        None,
        SEED,
    )?)
}

/// The files of the graph `name`: a directory, or a dataset on all drives of a volume.
pub(super) fn files_of(host: &dyn Host, name: &Path) -> Result<GraphFiles> {
    let Some(packed) = host.names().packed(name)? else {
        return Ok(GraphFiles::in_dir(name));
    };
    let manifest = packed.read(GraphFiles::MANIFEST)?;
    Ok(GraphFiles::packed(
        &packed.path,
        manifest,
        packed.stretches(),
    ))
}

/// The graph of those files, and a job with the given options; `resources` include the datasets.
pub(super) fn open(
    host: &dyn Host,
    resources: &Resources,
    files: GraphFiles,
) -> Result<(Job, Graph)> {
    let job = host.adopt(resources.pass_job(Vec::new()));
    let graph = Graph::open_files(&job, files)?;
    Ok((job, graph))
}

/// The rules for the name of a result.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Naming {
    /// Whether lines have the original ids, whatever the ending of the output.
    pub(super) by_name: bool,
    /// Whether a killed run may have left the output.
    pub(super) is_resumed: bool,
}

/// A graph that a verb reads, and the destination of its result.
pub(super) struct Opened<'a> {
    pub(super) host: &'a dyn Host,
    stopwatch: Stopwatch,
    /// The destination of the result; `None` if there is no output, or if a program receives
    /// arrays.
    pub(super) output: Option<Destination>,
    pub(super) how: WriteOptions<'static>,
    pub(super) resources: Resources,
    pub(super) job: Job,
    pub(super) graph: Graph,
    /// The output of a job that keeps its state.
    kept: Option<Target>,
}

impl<'a> Opened<'a> {
    /// Settles the output, and opens the graph, which is the first of the inputs.
    pub(super) fn begin(
        host: &'a dyn Host,
        inputs: &[&Path],
        output: Option<&Path>,
        naming: Naming,
        args: &RunArgs,
    ) -> Result<Self> {
        let stopwatch = Stopwatch::start();
        let resources = load(host, &args.resources)?.measuring(args.plan.explain);
        let graph = inputs[0];
        let how = WriteOptions {
            replace: args.force,
            names: None,
            by_name: naming.by_name,
        };
        let may_replace = args.force || may_exist(naming.is_resumed, output)?;
        let how_found = WriteOptions {
            replace: may_replace,
            ..how
        };
        output
            .filter(|_| naming.is_resumed)
            .map_or(Ok(()), check_plain)?;
        let named = output.map(|name| Destination::named(host, name, graph, how_found));
        let named = named.transpose()?;
        let graph_files = files_of(host, graph)?;
        let path = named.as_ref().and_then(Destination::path);
        if !naming.is_resumed {
            tell_kept(host, path);
        }
        let files: Vec<PathBuf> = path.iter().map(|path| path.to_path_buf()).collect();
        let kept = Kept {
            files: &files,
            force: args.force,
            ..Kept::default()
        };
        let resources = host.start(resources, args.record_io.path(), kept)?;
        begin(host, &resources, "graph", inputs, output);
        let (job, graph) = open(host, &resources, graph_files)?;
        if args.plan.explain {
            host.show_plans(&job.control);
        }
        Ok(Opened {
            host,
            stopwatch,
            output: named,
            how,
            resources,
            job,
            graph,
            kept: None,
        })
    }

    /// Keeps the state of the job, which has these `options`, or continues a killed run of it.
    ///
    /// # Errors
    /// The output is not a file; the errors of [`KeptPasses::begin`].
    pub(super) fn keep_passes(&mut self, mut options: Vec<JobOption>) -> Result<KeptPasses> {
        let Some(Destination::File(output)) = &self.output else {
            let cause = "only a job that writes one file can be resumed";
            return Err(refused(cause, "write one file, or leave --resume out"));
        };
        options.push(JobOption {
            name: "lines by name",
            value: self.how.by_name.to_string(),
        });
        for name in ["vertices", "weights"] {
            let given = self.host.arrays().and_then(|arrays| arrays.given(name));
            options.push(JobOption {
                name,
                value: given.map_or(0, bytes_checksum).to_string(),
            });
        }
        let target = Target::File(output.clone());
        let resuming = Resuming {
            is_asked: true,
            target: &target,
        };
        resuming.begin(self.host);
        let resume = self
            .resources
            .resume_options(self.host.call(), String::new());
        self.job.options.resume = Some(resume);
        let inputs = self.graph.inputs();
        let request = PassRequest {
            output,
            replace: self.how.replace,
            inputs: &inputs,
            options: &options,
        };
        let kept = KeptPasses::begin(&mut self.job, &request);
        let kept = kept.map_err(|error| resuming.explain(self.host, error))?;
        self.kept = Some(target);
        Ok(kept)
    }

    /// Adds to an error whether the job can be continued.
    pub(super) fn explain(&self, error: Error) -> Error {
        match &self.kept {
            None => error,
            Some(target) => {
                let resuming = Resuming {
                    is_asked: true,
                    target,
                };
                resuming.explain(self.host, error)
            }
        }
    }

    /// The cost of the job for this many records.
    pub(super) fn used(&self, records: u64) -> Result<JobSummary> {
        let phases = self.graph.phases();
        let moved = Moved {
            records,
            read_bytes: phases.iter().map(|phase| phase.read_bytes).sum(),
            written_bytes: phases.iter().map(|phase| phase.written_bytes).sum(),
            passes: 0,
        };
        let trace = self.host.end_trace()?;
        Ok(self.stopwatch.stop(moved, &[], &self.resources, trace))
    }

    /// The parts of the job.
    pub(super) fn phases(&self) -> Vec<Phase> {
        Phase::of_engine(&self.graph.phases())
    }
}

/// Incoming or outgoing edges.
pub(super) fn direction_of(is_in: bool) -> Direction {
    match is_in {
        true => Direction::In,
        false => Direction::Out,
    }
}

/// The vertices with the names that the user gives.
pub(super) fn vertices_of(
    job: &Job,
    graph: &Graph,
    names: Option<&Names>,
    wanted: &[String],
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

/// The vertex with the number that the user gives.
pub(super) fn vertex_of(number: u64, graph: &Graph, numbers: Option<&[u64]>) -> Result<u32> {
    let found = match numbers {
        Some(numbers) => numbers.binary_search(&number).ok(),
        None => usize::try_from(number).ok(),
    };
    let found = found.filter(|vertex| *vertex < graph.vertices());
    found
        .map(|vertex| vertex as u32)
        .ok_or_else(|| no_vertex(&number, graph))
}

fn no_vertex(name: &dyn Display, graph: &Graph) -> Error {
    let count = units::count(graph.vertices() as u64);
    Error::usage(
        "read arguments",
        format!("{name} is not a vertex of the graph, which has {count}"),
    )
    .hint("in --source and in files of vertices, write vertices as in the file of edges")
}

/// The vertices that a program passes by number, if it passes any.
pub(super) fn vertices_given(host: &dyn Host, graph: &Graph) -> Result<Option<Vec<u32>>> {
    let Some(bytes) = host.arrays().and_then(|arrays| arrays.given("vertices")) else {
        return Ok(None);
    };
    let (numbers, _) = bytes.as_chunks();
    let numbers = numbers.iter().map(|bytes| u32::from_ne_bytes(*bytes));
    let vertices = numbers.map(|number| vertex_of(number.into(), graph, None));
    vertices.collect::<Result<_>>().map(Some)
}

/// The destination of a result of numbers: a new file, a pipe or device with a name, or standard
/// output.
pub(super) enum Destination {
    File(PathBuf),
    Pipe(Option<PathBuf>),
}

impl Destination {
    /// The destination `name` for a result of `graph`; lines if standard output gets names.
    pub(super) fn named(
        host: &dyn Host,
        name: &Path,
        graph: &Path,
        how: WriteOptions<'_>,
    ) -> Result<Self> {
        let (force, by_name) = (how.replace, how.by_name);
        if is_stdout(name) && host.streams() == Streams::Taken {
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
        let path = host.names().output(name, force)?;
        check_result_name(&path, by_name)?;
        refuse_inside(&path, graph)?;
        match file_or_pipe(&path, host.streams())? {
            Target::File(path) => check_new(&path, force).map(|()| Destination::File(path)),
            _ => Ok(Destination::Pipe(Some(path.into_owned()))),
        }
    }

    /// The file.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Destination::File(path) => Some(path),
            Destination::Pipe(_) => None,
        }
    }

    /// The file, if it is a table.
    pub(super) fn table(&self) -> Option<&Path> {
        self.path().filter(|path| columns::is_table_name(path))
    }

    /// The output in the engine's form.
    pub(super) fn open(&self, host: &dyn Host, job: &Job) -> Result<Output> {
        Ok(match self {
            Destination::File(path) => Output::from(path.as_path()),
            Destination::Pipe(path) => {
                Output::Pipe(Mutex::new(host.open_pipe(path.as_deref(), &job.control)?))
            }
        })
    }
}

/// Fails for a name whose ending does not match the result: lines with names and in `.csv`, numbers
/// otherwise.
fn check_result_name(path: &Path, by_name: bool) -> Result<()> {
    let end = path.extension().and_then(|end| end.to_str());
    match end {
        Some("gz" | "zst" | "bz2" | "xz") => Err(Error::usage(
            "create output",
            "results of graphs are not compressed",
        )
        .path(path)
        .hint("name it without the ending, or give `-o -` and compress the stream")),
        Some("csv") => Ok(()),
        Some("tsv") => Err(Error::usage(
            "create output",
            "results of graphs are separated by commas, but a .tsv file needs tabs",
        )
        .path(path)
        .hint("write x.csv, then convert it: `outcore convert x.csv -o x.tsv`")),
        _ if columns::is_table_name(path) => Ok(()),
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
pub(super) fn refuse_inside(path: &Path, graph: &Path) -> Result<()> {
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

/// Fails for an output that exists, unless it may be replaced.
pub(super) fn check_new(path: &Path, is_replaced: bool) -> Result<()> {
    match path.exists() && !is_replaced {
        false => Ok(()),
        true => Err(Error::usage("create output", "it exists")
            .path(path)
            .hint("replace it with --force, or name another file")),
    }
}
