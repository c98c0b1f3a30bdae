//! Converts edges to a graph with one sort.
//!
//! Contract: [`convert`] reads edges ([`crate::edges`]) and writes a graph's directory
//! ([`crate::format`]), which is absent or whole. Each edge becomes a key for each list that
//! contains it ([`key`]). The keys go directly from the pass that makes them to the engine's sort,
//! and from there, in order, to the packers of tiles and lists ([`pack`]). Pairs and text are read
//! once ([`once`]). Other formats, and edges whose ids are relabelled ([`relabel`]), are first
//! parsed to files of pairs. The bytes of the graph depend only on the edges and the options.
//!
//! Bounds: memory for the sort, and a few MiB for output files. I/O is one read of the input; two
//! keys per edge of 8 bytes each (16 for weights or more than 2^31 vertices) to scratch and back;
//! and the graph. Formats that are parsed first are written to scratch and read once more. With
//! little memory, pairs are read once more to count the vertices, and text is parsed first.

mod given;
mod key;
mod named;
mod once;
mod pack;
mod relabel;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use outcore::primitives::Summary;
use outcore::{Context, Error, Job, Kind, Output, Phase, Result, ScratchDrive};
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::{folder, paths};
use outcore_io::memory::Reservation;
use outcore_io::metadata::{self, Owner};
use outcore_io::output::{NewDir, Room, ShardPlan, StagedOutput, parent_of};
use outcore_io::port::Volume;
use outcore_io::units;

use crate::edges::item::{Edge, Edges, at_edge, fail, largest_id};
use crate::edges::named::named_files;
use crate::edges::rows::EdgeRows;
use crate::edges::{EdgeFiles, ReadOptions, Relabel, read_edges};
use crate::format::manifest::{FORM, Manifest, NAME};
use crate::format::row::TileRow;
use crate::format::weight::WeightType;
use key::{EdgeKey, KeyShape, Placed};
use outcore::primitives::Sequence;
use outcore::primitives::appended::write_files;
use pack::{FILES, GraphKind, GraphSize, KeyWriter, Packed, Packing, Sizes, SizesOf};
use relabel::{Relabelled, Traffic};

const CONVERT: &str = "convert edges";
/// A graph with more vertices than this must have at least one edge per [`VERTICES_AN_EDGE`]
/// vertices, unless the caller gives the number of vertices.
const VERTICES_UNASKED: u64 = 1 << 24;
const VERTICES_AN_EDGE: u64 = 256;
/// The most vertices: a number has four bytes, and the last value means no vertex.
pub(crate) const VERTICES_MAX: u64 = u32::MAX as u64;

/// How edges are converted.
#[derive(Debug, Clone, Default)]
pub struct ConvertOptions {
    /// How the input files are read.
    pub read: ReadOptions,
    /// Whether edges have no direction.
    pub is_undirected: bool,
    /// Whether ids may be any numbers or strings; vertices are then numbered in the order of the
    /// ids.
    pub relabel: Relabel,
    /// Merges parallel edges; the least of several weights is kept.
    pub dedup: bool,
    /// Removes edges from a vertex to itself.
    pub drop_loops: bool,
    /// The number of vertices; one more than the largest id if `None`.
    pub vertices: Option<u64>,
    /// Whether an existing graph may be replaced.
    pub replace: bool,
}

/// The result of a conversion.
#[derive(Debug, Clone)]
pub struct ConvertSummary {
    /// Edges read.
    pub edges_in: u64,
    /// Lines that were skipped as comments.
    pub comments: u64,
    /// The manifest of the graph.
    pub manifest: Manifest,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// Bytes of the graph.
    pub graph_bytes: u64,
    /// The phases of the sort that makes the layout; the numbering of ids comes before them.
    pub phases: Vec<Phase>,
}

/// Converts the edges in `inputs` to a graph in the directory `dir`.
///
/// # Errors
/// [`Kind::Usage`] for an existing graph and for ids that are too large, [`Kind::Corrupt`] for
/// input that is not an edge, [`Kind::Memory`] if the plan does not fit; errors of reading and
/// writing. On failure, no file remains.
pub fn convert(
    job: &Job,
    inputs: &[PathBuf],
    dir: &Path,
    options: &ConvertOptions,
) -> Result<ConvertSummary> {
    run_from(job, &EdgesFrom::Files(inputs), dir, options)
}

/// Converts the edges that `rows` returns.
///
/// # Errors
/// As [`convert`]; [`Kind::Usage`] for names if the options require numbers, and the reverse.
pub fn convert_rows(
    job: &Job,
    rows: &dyn EdgeRows,
    dir: &Path,
    options: &ConvertOptions,
) -> Result<ConvertSummary> {
    let wrong = |cause: &str| {
        let hint = "leave it out: the input is a table";
        Err(Error::usage(CONVERT, cause).hint(hint))
    };
    match &options.read {
        read if read.has_no_header => wrong("--no-header is for CSV"),
        read if read.is_bipartite => wrong("--bipartite is for matrices"),
        _ => run_from(job, &EdgesFrom::Rows(rows), dir, options),
    }
}

/// The source of the edges.
enum EdgesFrom<'a> {
    Files(&'a [PathBuf]),
    Rows(&'a dyn EdgeRows),
}

fn run_from(
    job: &Job,
    from: &EdgesFrom<'_>,
    dir: &Path,
    options: &ConvertOptions,
) -> Result<ConvertSummary> {
    let started = Instant::now();
    if dir.join(NAME).exists() && !options.replace {
        return Err(Error::usage("create graph", "the graph already exists")
            .path(dir)
            .hint("replace it with --force, or name another directory"));
    }
    refuse_others(dir)?;
    let mut job = job.clone();
    let beside = parent_of(dir).to_path_buf();
    if job.options.drives.is_empty() {
        job.options.drives = vec![ScratchDrive::new(&beside)];
    }
    for drive in &job.options.drives {
        // This sweeps every drive, even if the conversion writes nothing there.
        job.device.sweep_private_dirs(&drive.dir)?;
    }
    let made = NewDir::make(job.device.as_ref(), "make graph", dir)?;
    let job = &job;
    let scratch = job.options.drives[0].dir.clone();
    let once = match from {
        EdgesFrom::Files(inputs) => once::convert_once(job, inputs, dir, options)?,
        EdgesFrom::Rows(_) => None,
    };
    let done = match once {
        Some(done) => done,
        None => convert_files(job, from, dir, &scratch, options)?,
    };
    made.keep();
    let mut phases = done.summary.phases;
    // The sort does not count the bytes of the graph that is made from its rows.
    for phase in phases.iter_mut().filter(|phase| phase.name == "sort") {
        phase.written_bytes += done.graph_bytes;
    }
    Ok(ConvertSummary {
        edges_in: done.edges_in,
        comments: done.skipped,
        manifest: done.manifest,
        seconds: started.elapsed().as_secs_f64(),
        read_bytes: done.before.read_bytes + done.summary.read_bytes,
        written_bytes: done.before.written_bytes + done.summary.written_bytes + done.graph_bytes,
        graph_bytes: done.graph_bytes,
        phases,
    })
}

/// The result of a sort.
struct Done {
    edges_in: u64,
    manifest: Manifest,
    /// The engine's summary of the sort.
    summary: Summary,
    /// Bytes read and written before it.
    before: Traffic,
    /// Skipped comments.
    skipped: u64,
    graph_bytes: u64,
}

/// Converts edges in files of pairs; other inputs have been parsed or relabelled before.
fn convert_files(
    job: &Job,
    from: &EdgesFrom<'_>,
    dir: &Path,
    scratch: &Path,
    options: &ConvertOptions,
) -> Result<Done> {
    let (edges, relabelled) = read_all(job, from, scratch, options)?;
    let mut before = Traffic {
        read_bytes: edges.parsed_bytes,
        written_bytes: 0,
    };
    let skipped = relabelled
        .as_ref()
        .map_or(edges.skipped, |found| found.skipped);
    if let Some(found) = &relabelled {
        before.read_bytes += found.read_bytes;
        before.written_bytes += found.written_bytes;
    }
    check_directions(edges.is_mixed, options)?;
    let vertices = count_vertices(job, &edges, options)?;
    let edges_in = input_items(&edges)?;
    if options.vertices.is_none() && edges.vertices.is_none() {
        check_density(vertices, edges_in)?;
    }
    let weights = edges.shape.weights();
    let conversion = Conversion {
        job,
        dir,
        options,
        shape: KeyShape::of(vertices, weights).check()?,
        kind: options.kind(weights, edges.is_undirected),
        about: GraphSize {
            vertices,
            edges: edges_in,
        },
    };
    let sizes = conversion.kind.sizes(options, vertices, edges_in);
    let sizes_of: SizesOf = Box::new(move || Ok(sizes));
    let source = SourceEdges {
        edges: &edges,
        vertices,
        ids_end: edges
            .first_negative()
            .map_or(vertices, |end| end.min(vertices)),
        options,
    };
    let (manifest, summary, graph_bytes) = match conversion.shape.is_narrow() {
        true => source.run::<u64>(&conversion, sizes_of, relabelled.as_ref())?,
        false => source.run::<u128>(&conversion, sizes_of, relabelled.as_ref())?,
    };
    Ok(Done {
        edges_in,
        manifest,
        summary,
        before,
        skipped,
        graph_bytes,
    })
}

/// Fails if only some files are undirected and the options do not make all of them undirected.
fn check_directions(is_mixed: bool, options: &ConvertOptions) -> Result<()> {
    if is_mixed && !options.is_undirected {
        let cause = "some files are undirected and others are directed";
        return Err(Error::usage(CONVERT, cause).hint(
            "convert files of one kind at a time, or convert all of them with --undirected",
        ));
    }
    Ok(())
}

/// Fails for a directory with anything other than a graph. Otherwise, its files would be replaced,
/// or mixed with those of the graph.
fn refuse_others(dir: &Path) -> Result<()> {
    let is_graph = FORM
        .read::<Manifest>(&dir.join(NAME), Owner::of(NAME))
        .is_ok();
    metadata::refuse_others("graph", dir, |name| {
        is_graph || name == NAME || file_names().any(|own| own == name)
    })
}

/// The names of all files of graphs, except for the manifest; no graph has all of them.
fn file_names() -> impl Iterator<Item = &'static str> {
    let own = FILES.iter().map(|file| file.name);
    own.chain(["names", "names.index"])
}

/// Removes files of a replaced graph that the new graph does not have. A file that cannot be
/// removed does no harm.
fn remove_replaced(dir: &Path, kept: &[PathBuf]) {
    let paths = file_names().map(|name| dir.join(name));
    for path in paths.filter(|path| !kept.contains(path)) {
        let _ = folder::remove_file(&path);
    }
}

/// Reads the edges between vertices, and the vertices' names.
fn read_all(
    job: &Job,
    from: &EdgesFrom<'_>,
    scratch: &Path,
    options: &ConvertOptions,
) -> Result<(EdgeFiles, Option<Relabelled>)> {
    let relabel = options.relabel;
    let named = match from {
        EdgesFrom::Files(inputs) => {
            let read = &options.read;
            let is_weighted = read.is_weighted || read.weight_column.is_some();
            let weights = is_weighted.then(|| read.weight_type.unwrap_or(WeightType::F64));
            let files = named_files(job, inputs, read, relabel)?;
            let found = files.map(|files| named::relabel_named(job, &files, weights, scratch));
            found.transpose()?
        }
        EdgesFrom::Rows(rows) => {
            check_ids(*rows, relabel)?;
            let found = rows.are_names();
            let found = found.then(|| given::relabel_given(job, *rows, scratch));
            found.transpose()?
        }
    };
    let (mut edges, found) = match (named, from) {
        (Some(found), _) => (EdgeFiles::default(), found),
        (None, from) => {
            let edges = match from {
                EdgesFrom::Files(inputs) => read_edges(job, inputs, scratch, &options.read)?,
                EdgesFrom::Rows(rows) => given::read_numbers(job, *rows, scratch)?,
            };
            if relabel == Relabel::No {
                return Ok((edges, None));
            }
            check_signs(job, &edges)?;
            let found = relabel::relabel(job, &edges, scratch)?;
            (edges, found)
        }
    };
    edges.inputs.clone_from(&found.inputs);
    edges.shape = found.shape;
    edges.is_signed = false;
    edges.vertices = Some(found.vertices);
    edges.largest = found.vertices.checked_sub(1);
    Ok((edges, Some(found)))
}

/// Fails for negative ids, because a vertex cannot have such a name.
fn check_signs(job: &Job, edges: &EdgeFiles) -> Result<()> {
    if !edges.is_signed {
        return Ok(());
    }
    let largest = largest_id(job, &edges.inputs, edges.shape)?.unwrap_or_default();
    check_sign(edges, largest)
}

/// Fails if `largest`, the largest id as a number without a sign, is negative in the files.
fn check_sign(edges: &EdgeFiles, largest: u64) -> Result<()> {
    match edges.is_negative(largest) {
        false => Ok(()),
        true => Err(negative().path(&edges.inputs[0].path)),
    }
}

fn negative() -> Error {
    Error::usage(CONVERT, "an id is negative").hint("ids are whole numbers from 0 on")
}

/// Fails for ids that do not match `relabel`.
fn check_ids(rows: &dyn EdgeRows, relabel: Relabel) -> Result<()> {
    let (is, hint) = match (rows.are_names(), relabel) {
        (true, Relabel::No) => ("strings", "number them with --relabel"),
        (true, Relabel::Numbers) => ("strings", "use --relabel=text"),
        (false, Relabel::Text) => ("numbers", "use --relabel=numbers"),
        _ => return Ok(()),
    };
    Err(Error::usage(CONVERT, format!("the ids are {is}")).hint(hint))
}

/// The number of edges in the files, from their lengths.
fn input_items(edges: &EdgeFiles) -> Result<u64> {
    let mut items = 0;
    for input in &edges.inputs {
        let found = paths::facts(&input.path);
        let found = found.map_err(|error| Error::io(CONVERT, &error).path(&input.path))?;
        let item_bytes = edges.shape.bytes() as u64;
        let data_bytes = found.len().saturating_sub(input.header_bytes);
        if data_bytes % item_bytes != 0 {
            let cause = format!(
                "its length, {}, is not a multiple of the {item_bytes} bytes of an edge",
                units::counted(data_bytes, "byte")
            );
            return Err(Error::corrupt(CONVERT, cause)
                .path(&input.path)
                .hint("check --type and --weights, or whether the file is cut short"));
        }
        items += data_bytes / item_bytes;
    }
    Ok(items)
}

/// The number of vertices: the requested number, the number in the headers, or one more than the
/// largest id.
fn count_vertices(job: &Job, edges: &EdgeFiles, options: &ConvertOptions) -> Result<u64> {
    let told = options
        .vertices
        .filter(|_| options.relabel == Relabel::No)
        .or(edges.vertices);
    let is_parsed = edges.parsed_bytes > 0;
    let largest = match (edges.largest, told) {
        (Some(largest), _) => Some(largest),
        (None, _) if is_parsed || edges.inputs.is_empty() => None,
        // The sort checks each id.
        (None, Some(_)) => None,
        (None, None) => largest_id(job, &edges.inputs, edges.shape)?,
    };
    check_sign(edges, largest.unwrap_or_default())?;
    vertices_of(largest, told)
}

/// The number of vertices: the one that the options or a header state, or else the one that the
/// largest id requires.
fn vertices_of(largest: Option<u64>, told: Option<u64>) -> Result<u64> {
    let needed = largest.map_or(0, |largest| largest.saturating_add(1));
    let vertices = told.unwrap_or(needed);
    if needed > vertices {
        return Err(beyond(needed - 1, vertices));
    }
    if vertices > VERTICES_MAX {
        let cause = match told {
            Some(told) => format!("{told} vertices; at most {VERTICES_MAX} are possible"),
            None => format!(
                "the largest id is {}, but a graph has at most {VERTICES_MAX} vertices",
                largest.unwrap_or_default()
            ),
        };
        return Err(Error::usage(CONVERT, cause)
            .hint(
            "renumber the vertices that have edges, with --relabel; if ids of u32 were read as u64, \
             the type is wrong",
        ));
    }
    Ok(vertices)
}

/// Fails for ids so far apart that most of the graph would be vertices without edges, which take 8
/// bytes each.
fn check_density(vertices: u64, edges: u64) -> Result<()> {
    if vertices <= VERTICES_UNASKED || vertices / VERTICES_AN_EDGE <= edges {
        return Ok(());
    }
    let cause = format!(
        "the largest id is {}, but the input has only {}: nearly all vertices would have none",
        units::count(vertices - 1),
        units::counted(edges, "edge"),
    );
    Err(Error::usage(CONVERT, cause).hint(
        "renumber the vertices that have edges with --relabel, or confirm their number with \
         --vertices",
    ))
}

fn beyond(id: u64, vertices: u64) -> Error {
    let cause = format!("the id {id} is not below the number of vertices, {vertices}");
    Error::corrupt(CONVERT, cause).hint("give a larger --vertices, or leave it out")
}

impl ConvertOptions {
    /// The kind of the graph; a header may mark the edges as undirected.
    fn kind(&self, weights: Option<WeightType>, is_undirected: bool) -> GraphKind {
        GraphKind {
            weights,
            is_directed: !(self.is_undirected || is_undirected),
            dedup: self.dedup,
        }
    }
}

impl GraphKind {
    /// Derives the graph's id, which differs for other sizes and options.
    fn sizes(self, options: &ConvertOptions, vertices: u64, edges_in: u64) -> Sizes {
        let flags = [
            !self.is_directed,
            self.dedup,
            options.drop_loops,
            self.weights.is_some(),
        ];
        let flags = flags
            .iter()
            .fold(0, |bits, flag| bits << 1 | u64::from(*flag));
        let flags = match self.weights {
            None | Some(WeightType::F32) => flags,
            Some(WeightType::F64) => flags | 1 << 8,
            Some(WeightType::I64) => flags | 2 << 8,
        };
        let words = [vertices, edges_in, flags];
        Sizes {
            id: bytes_checksum(bytemuck::cast_slice(&words)),
            vertices,
        }
    }
}

/// A conversion that is about to begin.
struct Conversion<'a> {
    job: &'a Job,
    dir: &'a Path,
    options: &'a ConvertOptions,
    shape: KeyShape,
    kind: GraphKind,
    /// The approximate size of the graph.
    about: GraphSize,
}

/// Edges in files of pairs.
struct SourceEdges<'a> {
    edges: &'a EdgeFiles,
    vertices: u64,
    /// All ids are below.
    ids_end: u64,
    options: &'a ConvertOptions,
}

impl SourceEdges<'_> {
    fn run<K: EdgeKey>(
        &self,
        conversion: &Conversion<'_>,
        sizes_of: SizesOf,
        relabelled: Option<&Relabelled>,
    ) -> Result<(Manifest, Summary, u64)> {
        let make = |bytes: &[u8], first: u64| {
            let shape = self.edges.shape;
            let mut keys: Vec<K> = Vec::with_capacity(2 * bytes.len() / shape.bytes());
            let mut position = first;
            shape.each(bytes, |edge| {
                self.check(conversion.shape, &edge, position);
                conversion.push_keys(&edge, &mut keys);
                position += 1;
            });
            keys
        };
        let keys = Edges {
            shape: self.edges.shape,
            inputs: &self.edges.inputs,
            make,
        };
        let keys = (conversion.about.edges > 0).then_some(keys);
        conversion.run(keys, sizes_of, relabelled)
    }

    /// Fails for an edge that the graph cannot have; `position` is its number among all edges.
    #[inline(always)]
    fn check(&self, shape: KeyShape, edge: &Edge, position: u64) {
        let largest = edge.source.max(edge.target);
        if largest >= self.ids_end || !shape.accepts(edge.weight) {
            self.refuse(edge, position);
        }
    }

    #[cold]
    fn refuse(&self, edge: &Edge, position: u64) {
        let largest = edge.source.max(edge.target);
        let error = match largest >= self.ids_end {
            true if self.edges.is_negative(largest) => negative(),
            true => beyond(largest, self.vertices),
            false => not_finite(edge, self.edges.shape.weights()),
        };
        // The position of a parsed or relabelled edge says nothing about its place in the user's
        // file.
        let is_as_given = self.edges.parsed_bytes == 0 && self.options.relabel == Relabel::No;
        fail(match is_as_given {
            true => at_edge(error, self.edges.shape, &self.edges.inputs, position),
            false => error,
        });
    }
}

fn not_finite(edge: &Edge, weights: Option<WeightType>) -> Error {
    let (from, to) = (edge.source, edge.target);
    let weight = weights.map_or(1.0, |of| of.value(edge.weight));
    let cause = format!("the weight of the edge from {from} to {to} is {weight}");
    Error::corrupt(CONVERT, cause).hint("weights have to be finite")
}

impl Conversion<'_> {
    /// Appends the keys of an edge.
    #[inline(always)]
    fn push_keys<K: EdgeKey>(&self, edge: &Edge, keys: &mut Vec<K>) {
        let (source, target) = (edge.source as u32, edge.target as u32);
        let is_loop = source == target;
        if is_loop && self.options.drop_loops {
            return;
        }
        let mut push = |is_in, vertex, neighbour| {
            let placed = Placed {
                is_in,
                vertex,
                neighbour,
                weight: edge.weight,
            };
            keys.push(K::of(self.shape, placed));
        };
        push(false, source, target);
        match self.kind.is_directed {
            false if is_loop => {}
            is_directed => push(is_directed, target, source),
        }
    }

    /// The plan of the files, and the index of the first file with names.
    fn plans(&self, relabelled: Option<&Relabelled>) -> Result<(Vec<ShardPlan>, usize)> {
        let plan = |name: &str, len_bytes| ShardPlan {
            path: self.dir.join(name),
            header: Vec::new(),
            start_bytes: 0,
            len_bytes,
        };
        let files = FILES.iter().filter(|file| self.kind.has(file));
        let files = files.map(|file| plan(file.name, self.kind.about_bytes(file, self.about)));
        let mut plans: Vec<ShardPlan> = files.collect();
        let first_name = plans.len();
        let names = relabelled.map(Relabelled::name_files).transpose()?;
        let names = names.into_iter().flatten();
        plans.extend(names.map(|(name, len_bytes)| plan(name, len_bytes)));
        Ok((plans, first_name))
    }

    /// Sorts the keys and packs them.
    fn run<K: EdgeKey>(
        &self,
        keys: Option<impl Sequence<Item = K>>,
        sizes_of: SizesOf,
        relabelled: Option<&Relabelled>,
    ) -> Result<(Manifest, Summary, u64)> {
        let job = self.job;
        let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
        let (plans, first_name) = self.plans(relabelled)?;
        let kept: Vec<PathBuf> = plans.iter().map(|plan| plan.path.clone()).collect();
        let manifest_path = self.dir.join(NAME);
        let staged = StagedOutput::stage(
            &volume,
            plans,
            Some(manifest_path),
            self.options.replace,
            Room::AtMost,
        )?;
        let _batches: Reservation = job
            .budget
            .reserve("keys of edges", batches_bytes::<K>(job))?;
        let row_bytes = TileRow::bytes(self.shape.vertices_max());
        let _tiles: Reservation = job.budget.reserve("a row of tiles", row_bytes)?;
        let (manifest, lens_bytes, summary) = write_files(job, &volume, |appender| {
            let files = staged.shards().iter().map(|shard| &shard.file);
            let packing =
                Packing::<K>::new(job, &appender, self.shape, self.kind, sizes_of, files)?;
            let shared = Arc::new(Mutex::new(packing));
            let output = Output::Pipe(Mutex::new(Box::new(KeyWriter::new(&shared))));
            let sorted = match keys {
                None => Ok(Summary::default()),
                Some(keys) => Context::of_job(job)
                    .sequence(keys)
                    .sort()
                    .write_to(output, false),
            };
            let mut packing = shared.lock().unwrap_or_else(PoisonError::into_inner);
            // The sort only reports that its pipe is broken; the packer has the cause.
            packing.take_failure()?;
            let summary = sorted?;
            let Packed {
                mut manifest,
                mut lens_bytes,
            } = packing.finish()?;
            if let Some(found) = relabelled {
                let file = |number: usize| {
                    let shard = staged.shards().get(first_name + number);
                    let shard =
                        shard.ok_or_else(|| Error::usage(CONVERT, "a file is not planned"))?;
                    appender.file(job, &shard.file, 256 << 10, true)
                };
                lens_bytes.extend(found.copy_names(job, file, &mut manifest)?);
            }
            Ok((manifest, lens_bytes, summary))
        })?;
        job.control.begin_phase("publish", 0);
        let sealed = FORM.seal(Owner::of(NAME), &manifest)?;
        staged.publish_each_under(&volume, &lens_bytes, &sealed)?;
        remove_replaced(self.dir, &kept);
        Ok((manifest, summary, lens_bytes.iter().sum()))
    }
}

/// Memory for the keys of a batch of edges, on all threads.
fn batches_bytes<K>(job: &Job) -> u64 {
    const KEYS: usize = 4 * 1024;
    (job.options.threads.max(1) * KEYS * size_of::<K>()) as u64
}

/// Fails if there is less memory than any conversion needs.
///
/// # Errors
/// [`Kind::Memory`].
pub fn check_memory(job: &Job) -> Result<()> {
    const LEAST_BYTES: u64 = 16 << 20;
    match job.budget.free_bytes() >= LEAST_BYTES {
        true => Ok(()),
        false => {
            let [allowed, least] = [job.budget.free_bytes(), LEAST_BYTES].map(units::bytes);
            let cause = format!("{allowed} are allowed, but at least {least} are needed");
            Err(Error::new(Kind::Memory, CONVERT, cause)
                .hint(format!("allow at least {least} with --memory")))
        }
    }
}
