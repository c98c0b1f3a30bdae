//! Algorithms on graphs as verbs: `graph NAME`.
//!
//! Contract: a [`Kernel`] has the options of an algorithm, its computation and its report; all else
//! is here. The values go to a file, or to a program as an array; the terminal shows the vertices
//! with the largest values. The report has the traffic and the other results.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use outcore::passes::{JobOption, KeptPasses};
use outcore::{Context, Error, Job, Result};
use outcore_front::inputs::is_stdout;
use outcore_front::resources::default_scratch_dir;
use outcore_graph::format::NO_VERTEX;
use outcore_graph::graph::Graph;
use outcore_graph::graph::names::Names;
use outcore_graph::kernels::LabelFile;
use outcore_graph::results::{self, Value, Values, WriteOptions};
use outcore_io::output::parent_of;
use outcore_io::units;
use serde::Serialize;

use super::files::{Destination, Naming, Opened, vertices_given, vertices_of};
use crate::columns::{self, TablePlace};
use crate::host::{Array, Host, Weight, watch};
use crate::option::{RunArgs, parse_count};
use crate::report::{Described, FieldType, JobSummary, Phase, Place, report};
use crate::verb::{Inputs, Verb, Words};

// The options of every algorithm, and those of this one; the description is that of `own`.
#[derive(Debug, Args)]
pub(crate) struct KernelArgs<K: Args> {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    graph: PathBuf,
    /// Output: a value per vertex, in order. An array (.npy), a table (.parquet, .arrow) with the
    /// columns vertex, name (the original ids, if they were relabelled) and value, lines
    /// `vertex,value` with a header (.csv, with the original ids), or raw numbers; `-` for standard
    /// output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write lines `name,value` with the original ids of vertices, whatever the ending of the
    /// output
    #[arg(long, requires = "output")]
    names: bool,
    /// Print the N vertices with the largest values, by their original ids. For components and
    /// communities, print the N largest, each as its smallest vertex and its number of vertices
    #[arg(long, value_name = "N", value_parser = parse_count)]
    top: Option<u64>,
    #[command(flatten)]
    run: RunArgs,
    // `own` is the last field, because clap takes the description of the options that are flattened
    // last.
    #[command(flatten)]
    own: K,
}

report! {
    /// The result of a graph algorithm.
    pub(crate) struct KernelSummary {
        [used: JobSummary],
        /// The file with a value per vertex; none if no output was given.
        output: Option<Place>,
        /// Vertices of the graph.
        vertices: u64,
        /// Edges of the graph.
        edges: u64,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
        /// The vertices with the largest values, as pairs of id and value, as many as were asked
        /// for. For components and communities, the largest, as pairs of the id of the smallest
        /// vertex and the number of vertices.
        top: Vec<Ranked>,
    }
}

/// The report of an algorithm, which may have fields of its own.
pub(crate) trait KernelReport: Described + Serialize + Send + 'static {
    /// The part that all reports have.
    fn kernel(&self) -> &KernelSummary;

    /// The other results, in words.
    fn found(&self) -> Option<String> {
        None
    }
}

impl KernelReport for KernelSummary {
    fn kernel(&self) -> &KernelSummary {
        self
    }
}

/// An algorithm.
pub(crate) trait Kernel: Args + Send + 'static {
    /// The name of the verb.
    const NAME: &'static str;
    /// The result in words.
    const TITLE: &'static str;
    /// The parts whose progress is reported.
    const PHASES: &'static [Weight] = &[];
    /// Whether the user gives vertices to start from.
    const HAS_SOURCES: bool = false;
    /// Whether the report alone, without the values, is a result.
    const HAS_TOTAL: bool = false;
    /// Its report.
    type Report: KernelReport;

    /// Its options, if its state is kept so that a killed run continues.
    fn kept_options(&self) -> Option<Vec<JobOption>> {
        None
    }

    /// The values.
    fn compute(&self, on: &On<'_>) -> Result<Found<Self::Report>>;
}

/// The input of an algorithm.
pub(crate) struct On<'a> {
    pub(super) job: &'a Job,
    pub(super) graph: &'a Graph,
    pub(super) names: Option<&'a Names>,
    host: &'a dyn Host,
    /// The output, or the graph if there is no output.
    beside: &'a Path,
    /// Whether values are needed to write names, or to find the largest.
    pub(super) are_looked_at: bool,
}

impl On<'_> {
    /// The vertices with these names, or those that a program gives.
    pub(super) fn vertices(&self, named: &[String]) -> Result<Vec<u32>> {
        let given = vertices_given(self.host, self.graph)?;
        given.map_or_else(|| vertices_of(self.job, self.graph, self.names, named), Ok)
    }

    /// Notes that the graph has no weights, for a result that depends on them.
    pub(super) fn note_unweighted(&self) {
        if !self.graph.manifest().weighted {
            self.host.note(
                "the graph has no weights, so every edge has weight 1; `graph convert --weights` stores weights",
            );
        }
    }

    /// The weights of vertices that a program gives.
    pub(super) fn weights(&self) -> Vec<f64> {
        let arrays = self.host.arrays();
        let bytes = arrays.and_then(|arrays| arrays.given("weights"));
        let (weights, _) = bytes.unwrap_or_default().as_chunks();
        let weights = weights.iter().map(|bytes| f64::from_ne_bytes(*bytes));
        weights.collect()
    }

    /// The directory for scratch: next to the output, if that is usable.
    pub(super) fn scratch_dir(&self) -> Result<PathBuf> {
        default_scratch_dir(parent_of(self.beside))
    }
}

/// A value for each vertex.
pub(super) enum Computed {
    /// Values in memory.
    Held(Values),
    /// Labels on scratch.
    Stored(LabelFile),
}

impl Computed {
    fn count(&self) -> u64 {
        match self {
            Computed::Held(values) => values.len() as u64,
            Computed::Stored(labels) => labels.vertices(),
        }
    }

    /// Writes the values to a table or another file.
    fn write(
        &self,
        host: &dyn Host,
        job: &Job,
        output: &Destination,
        options: WriteOptions<'_>,
    ) -> Result<()> {
        let WriteOptions { replace, names, .. } = options;
        let table = |path| TablePlace { path, replace };
        match (output.table(), self) {
            (Some(path), Computed::Held(values)) => {
                columns::write_values(job, table(path), values, names)?;
            }
            (Some(path), Computed::Stored(labels)) => {
                columns::write_labels(job, table(path), labels, names)?;
            }
            (None, Computed::Held(values)) => {
                results::write(job, output.open(host, job)?, values, options)?;
            }
            (None, Computed::Stored(labels)) => {
                results::write_stored(job, output.open(host, job)?, labels, options)?;
            }
        }
        Ok(())
    }

    /// Writes the values in the directory of a job in passes, and then gives the file its name.
    fn publish(
        &self,
        host: &dyn Host,
        job: &Job,
        kept: KeptPasses,
        options: WriteOptions<'_>,
    ) -> Result<()> {
        if !kept.is_finished() {
            let options = WriteOptions {
                replace: true,
                ..options
            };
            self.write(host, job, &Destination::File(kept.result()), options)?;
        }
        kept.publish(job)
    }

    /// The values as an array.
    fn array(self, job: &Job) -> Result<Array> {
        Ok(match self {
            Computed::Held(Values::Numbers(values) | Values::Vertices(values)) => {
                Array::U32(values)
            }
            Computed::Held(Values::Optional(values) | Values::Parents(values)) => {
                Array::I64(values.into_iter().map(or_minus_one).collect())
            }
            Computed::Held(Values::Counts(values)) => Array::U64(values),
            Computed::Held(Values::Floats(values)) => Array::F64(values),
            Computed::Stored(labels) => Array::U32(
                Context::of_job(job)
                    .read_inputs::<u32>(&[labels.input()])
                    .collect()?,
            ),
        })
    }
}

/// A vertex or a distance, or -1 if there is none.
pub(super) fn or_minus_one(number: u32) -> i64 {
    match number {
        NO_VERTEX => -1,
        number => number.into(),
    }
}

/// The result of an algorithm.
pub(crate) struct Found<R> {
    pub(super) values: Computed,
    /// Further values, for programs only.
    pub(super) others: Option<Values>,
    pub(super) report: Box<dyn FnOnce(KernelSummary) -> R + Send>,
}

impl<R> Found<R> {
    /// A result with these values. `report` makes the report of the algorithm from the common part.
    pub(super) fn new(
        values: Values,
        report: impl FnOnce(KernelSummary) -> R + Send + 'static,
    ) -> Self {
        Found {
            values: Computed::Held(values),
            others: None,
            report: Box::new(report),
        }
    }
}

impl Found<KernelSummary> {
    /// A result with these values alone.
    pub(super) fn of(values: Computed) -> Self {
        Found {
            values,
            others: None,
            report: Box::new(|kernel| kernel),
        }
    }
}

/// An algorithm as a verb.
pub(crate) struct Algorithm<K>(PhantomData<K>);

impl<K: Kernel> Verb for Algorithm<K> {
    const NAME: &'static str = K::NAME;
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = KernelArgs<K>;
    type Report = K::Report;
    const PHASES: &'static [Weight] = K::PHASES;

    fn run(host: &dyn Host, args: &KernelArgs<K>) -> Result<K::Report> {
        run(host, args)
    }

    fn say(args: &KernelArgs<K>, report: &K::Report, words: &mut Words) {
        let kernel = report.kernel();
        words.data = kernel
            .top
            .iter()
            .map(|ranked| format!("{ranked}\n"))
            .collect();
        words.lines.extend(report.found());
        words.lines(&Self::headline(report));
        words.phases(&kernel.phases, args.run.plan.explain);
    }

    fn headline(report: &K::Report) -> String {
        let kernel = report.kernel();
        format!(
            "{} of {} and {} in {}",
            K::TITLE,
            units::counted(kernel.vertices, "vertex"),
            units::counted(kernel.edges, "edge"),
            units::seconds(kernel.used.seconds),
        )
    }

    fn takes_stdout(args: &KernelArgs<K>) -> bool {
        args.output.as_deref().is_some_and(is_stdout)
    }
}

fn run<K: Kernel>(host: &dyn Host, args: &KernelArgs<K>) -> Result<K::Report> {
    let top_count = args.top.unwrap_or(0) as usize;
    let named = args.output.as_deref();
    if top_count > 0 && named.is_some_and(is_stdout) {
        let cause = "--top prints to standard output, but the values already go there";
        return Err(
            Error::usage("read arguments", cause).hint("write the values to a file with -o")
        );
    }
    if named.is_none() && top_count == 0 && !K::HAS_TOTAL && host.arrays().is_none() {
        return Err(
            Error::usage("choose output", "the values would be written nowhere")
                .hint("write them with -o values.npy or -o values.csv, or print the 20 largest with --top 20"),
        );
    }
    let kept_options = args.own.kept_options();
    let naming = Naming {
        by_name: args.names,
        is_resumed: kept_options.is_some(),
    };
    let mut opened = Opened::begin(host, &[&args.graph], named, naming, &args.run)?;
    let kept = kept_options.map(|options| opened.keep_passes(options));
    let kept = kept.transpose()?;
    let (job, graph, output) = (&opened.job, &opened.graph, &opened.output);
    let path = output.as_ref().and_then(Destination::path);
    // Original numbers take memory that a kernel may need.
    let is_csv = path.is_some_and(|path| path.extension().is_some_and(|end| end == "csv"));
    let is_table = path.is_some_and(columns::is_table_name);
    let has_names = args.names || is_csv || is_table || top_count > 0;
    // Programs give vertices by their numbers.
    let names = match has_names || K::HAS_SOURCES && host.arrays().is_none() {
        true => graph.names(job)?,
        false => None,
    };
    let names = names.as_ref();
    let on = On {
        job,
        graph,
        names,
        host,
        beside: named.filter(|name| !is_stdout(name)).unwrap_or(&args.graph),
        are_looked_at: args.names || top_count > 0 || is_csv && names.is_some(),
    };
    let done = watch(host, &job.control, K::PHASES, || {
        let found = args.own.compute(&on)?;
        let values_count = found.values.count();
        let top = match &found.values {
            Computed::Held(values) => ranked(job, values, top_count, names)?,
            // Labels that are needed to write names, or to find the largest, are in memory.
            Computed::Stored(_) => Vec::new(),
        };
        match (output, host.arrays()) {
            (Some(output), _) => {
                let options = WriteOptions {
                    names,
                    ..opened.how
                };
                match kept {
                    Some(kept) => found.values.publish(host, job, kept, options)?,
                    None => found.values.write(host, job, output, options)?,
                }
            }
            (None, Some(arrays)) => {
                arrays.take("values", found.values.array(job)?);
                if let Some(others) = found.others {
                    arrays.take("others", Computed::Held(others).array(job)?);
                }
            }
            (None, None) => {}
        }
        Ok((values_count, top, found.report))
    });
    let (values_count, top, report) = done.map_err(|error| opened.explain(error))?;
    Ok(report(KernelSummary {
        used: opened.used(values_count)?,
        output: args.output.clone().map(Place),
        vertices: graph.manifest().vertices,
        edges: graph.manifest().edges,
        phases: opened.phases(),
        top,
    }))
}

/// The id of a vertex, or its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Told {
    /// An id that is a number.
    Id(u64),
    /// An id that is a name.
    Name(String),
    /// A whole number.
    Whole(i64),
    /// A float.
    Float(f64),
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Id(id) => id.fmt(f),
            Told::Name(name) => name.fmt(f),
            Told::Whole(number) => number.fmt(f),
            Told::Float(number) => number.fmt(f),
        }
    }
}

/// A vertex and its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Ranked(Told, Told);

impl fmt::Display for Ranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}", self.0, self.1)
    }
}

impl FieldType for Ranked {
    fn python_type() -> String {
        "tuple[int | str, int | float | str | None]".to_owned()
    }
}

/// This many vertices with the largest values, or the largest groups if values are their labels;
/// equal values are in the order of vertices.
fn ranked(job: &Job, values: &Values, count: usize, names: Option<&Names>) -> Result<Vec<Ranked>> {
    let (best, of_vertices) = match values {
        Values::Vertices(labels) => (results::largest_groups(job, labels, count)?, false),
        _ => (results::top(values, count), values.are_vertices()),
    };
    let mut vertices: Vec<u32> = best.iter().map(|(vertex, _)| *vertex as u32).collect();
    if of_vertices {
        vertices.extend(best.iter().filter_map(|(_, value)| value.vertex()));
    }
    let held = names.map(|names| names.held(job, vertices)).transpose()?;
    let is_text = names.is_some_and(|names| names.numbers().is_none());
    let id = |vertex: u32| match &held {
        Some(held) if is_text => Told::Name(held.get(vertex).to_owned()),
        Some(held) => Told::Id(held.get(vertex).parse().unwrap_or_default()),
        None => Told::Id(vertex.into()),
    };
    let pairs = best.iter().map(|(vertex, value)| {
        let told = match (value, value.vertex().filter(|_| of_vertices)) {
            (_, Some(other)) => id(other),
            (Value::Whole(number), None) => Told::Whole(*number),
            (Value::Float(number), None) => Told::Float(*number),
        };
        Ranked(id(*vertex as u32), told)
    });
    Ok(pairs.collect())
}
