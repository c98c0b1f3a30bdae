//! Edges as users have them: which files there are, and edges of one shape out of all of them.
//!
//! Contract: [`read_edges`] gives files of pairs of numbers, with a weight after them where there
//! is one. What is such a file already is read where it is; all else is parsed once, in parallel,
//! into files in a private directory that goes when [`EdgeFiles`] is dropped. A line that is not an
//! edge, an id beyond the limit, a weight that is not a number and a file that is cut short are
//! errors that say where.
//!
//! - `item`: pairs of numbers in memory and in files
//! - `fields`: the fields of a line
//! - `borders`: lines of a text that is read in pieces
//! - `named`: lines whose ids are any strings
//! - [`rows`]: edges that the caller reads
//! - `lines`: text whose edges are taken where it is read
//! - `syntax`: how a line says an edge
//! - `text`: edge lists: SNAP's, GAP's `.el` and `.wel`, the entries of Matrix Market, columns of
//!   CSV
//! - `serial`: GAP's serialized graphs, `.sg` and `.wsg`
//! - `sides`: the sides of a matrix as vertices
//! - `archive`: ZIP archives, which `npz` is one of
//! - `npz`: sparse matrices of SciPy, `.npz`
//! - [`formats`]: which of them a file is

mod archive;
pub(crate) mod borders;
pub(crate) mod fields;
pub mod formats;
pub(crate) mod item;
pub(crate) mod lines;
pub(crate) mod named;
mod npz;
pub mod rows;
mod serial;
mod sides;
pub(crate) mod syntax;
pub(crate) mod text;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use outcore::{Error, Input, Job, Result};
use outcore_io::drive::PrivateDir;
use outcore_io::units;

use formats::{EdgeFormat, Header};
use item::ItemShape;

use crate::format::weight::WeightType;

const READ: &str = "read edges";
/// Places at which files are looked at before they are read, all together, and bytes at each.
pub(crate) const PLACES: usize = 128;
const PLACE_BYTES: usize = 4 << 10;

/// What is read of the edges.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// What files are called that have other names where they are read: copies of pipes, and
    /// unpacked files.
    pub called: Vec<(PathBuf, PathBuf)>,
    /// What the files are; told by their names if not given.
    pub format: Option<EdgeFormat>,
    /// Whether edges have weights.
    pub is_weighted: bool,
    /// How the graph stores them; as the files do if not given, and text as floats of eight bytes.
    pub weight_type: Option<WeightType>,
    /// The column of CSV that has them.
    pub weight_column: Option<String>,
    /// The columns of source and target, where columns have names; the first two if there are none.
    pub columns: Vec<String>,
    /// The first line of CSV is an edge. Otherwise it names the columns, unless it begins with two
    /// numbers.
    pub has_no_header: bool,
    /// The rows and the columns of a matrix are different vertices: rows first.
    pub is_bipartite: bool,
}

impl ReadOptions {
    /// What a file is called.
    pub(crate) fn name_of<'p>(&'p self, path: &'p Path) -> &'p Path {
        let mut called = self.called.iter();
        let called = called.find(|(copy, _)| copy == path);
        called.map_or(path, |(_, name)| name)
    }
}

/// Whether vertices are numbered anew, and what their ids are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Relabel {
    /// Ids are the numbers of vertices.
    #[default]
    No,
    /// Any numbers, or any strings if a line in the first 64 KiB of text or CSV has an id that is
    /// not a whole number.
    Auto,
    /// Any numbers below 2^64.
    Numbers,
    /// Any strings.
    Text,
}

impl Relabel {
    /// That of a name: `auto`, `numbers` or `text`.
    ///
    /// # Errors
    /// [`outcore::Kind::Usage`] for another.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Relabel::Auto),
            "numbers" => Ok(Relabel::Numbers),
            "text" => Ok(Relabel::Text),
            _ => Err(Error::usage(READ, format!("ids cannot be `{name}`"))
                .hint("use auto, numbers or text")),
        }
    }
}

/// Edges of one shape.
#[derive(Default)]
pub(crate) struct EdgeFiles {
    pub(crate) inputs: Vec<Input>,
    pub(crate) shape: ItemShape,
    /// Vertices that a header speaks of.
    pub(crate) vertices: Option<u64>,
    /// The largest id, if it is known.
    pub(crate) largest: Option<u64>,
    /// Whether a header says that edges have no direction.
    pub(crate) is_undirected: bool,
    /// Whether another header says that they have one.
    pub(crate) is_mixed: bool,
    /// Bytes that were read of the files that were parsed.
    pub(crate) parsed_bytes: u64,
    /// Comments that were skipped.
    pub(crate) skipped: u64,
    pub(crate) _scratch: Option<PrivateDir>,
}

/// Reads the edges in `files`; what has to be parsed goes to a private directory in `scratch`.
///
/// # Errors
/// [`outcore::Kind::Usage`] for files of several formats and names that say none,
/// [`outcore::Kind::Corrupt`] for what is not an edge; what reading and writing fail with.
pub(crate) fn read_edges(
    job: &Job,
    files: &[PathBuf],
    scratch: &Path,
    options: &ReadOptions,
) -> Result<EdgeFiles> {
    if let Some(edges) = item_files(files, options)? {
        return Ok(edges);
    }
    let format = formats::format_of(files, options)?;
    job.device.sweep_private_dirs(scratch)?;
    let dir = job.device.make_private_dir(scratch)?;
    let mut headers: Vec<Header> = Vec::new();
    for file in files {
        headers.push(formats::header_of(job, file, format, options)?);
    }
    let mut parsed = parse_all(job, files, &headers, &dir, false)?;
    if parsed.is_none() {
        // An id that does not fit into four bytes: once more, with eight.
        parsed = parse_all(job, files, &headers, &dir, true)?;
    }
    let Some(mut edges) = parsed else {
        return Err(Error::usage(READ, "an id has more than 64 bits"));
    };
    edges.vertices = headers.iter().filter_map(|header| header.vertices).max();
    edges.is_undirected = headers.iter().any(|header| header.is_undirected);
    edges.is_mixed = edges.is_undirected && !headers.iter().all(|header| header.is_undirected);
    edges._scratch = Some(dir);
    Ok(edges)
}

/// The files, if they are pairs of numbers, which are read where they are.
///
/// # Errors
/// As [`read_edges`], for options that are not for such files.
pub(crate) fn item_files(files: &[PathBuf], options: &ReadOptions) -> Result<Option<EdgeFiles>> {
    let format = formats::format_of(files, options)?;
    let Some(shape) = format.shape(options) else {
        return Ok(None);
    };
    if format == EdgeFormat::Graph500 && options.is_weighted {
        let cause = "packed edges of Graph500 have no weights";
        return Err(Error::usage(READ, cause).hint("leave --weights out"));
    }
    if shape.is_wide() && shape.weights() == Some(WeightType::F32) {
        let cause = "pairs of 8-byte ids have weights of 8 bytes";
        return Err(Error::usage(READ, cause).hint("use --weight-type f64 or i64, or --type u32"));
    }
    Ok(Some(EdgeFiles {
        inputs: files.iter().map(Input::raw).collect(),
        shape,
        ..EdgeFiles::default()
    }))
}

/// The place and length of the data in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataSpan {
    pub(crate) at_bytes: u64,
    pub(crate) len_bytes: u64,
}

/// Places to look at, in data that consist of items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SamplePlaces {
    pub(crate) item_bytes: u64,
    pub(crate) count: usize,
}

/// Shows up to `count` stretches of a file's data, evenly spread with the first and the last of
/// them, to `take`, each with its place among the data. They have `item_bytes` or a multiple of
/// that, about 4 KiB, and begin at such a multiple. What cannot be read is left out.
pub(crate) fn look_at_places(
    path: &Path,
    data: DataSpan,
    SamplePlaces { item_bytes, count }: SamplePlaces,
    mut take: impl FnMut(u64, &[u8]),
) {
    let Ok(file) = File::open(path) else {
        return;
    };
    // Items of any alignment can be looked at.
    let mut words = [0u64; PLACE_BYTES / size_of::<u64>()];
    let items = (PLACE_BYTES as u64).min(data.len_bytes) / item_bytes;
    let place: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let place = &mut place[..(items * item_bytes) as usize];
    let last_item = data.len_bytes / item_bytes - items;
    let gaps = (count as u64).saturating_sub(1).clamp(1, last_item.max(1));
    for number in 0..=gaps {
        let at_bytes = last_item * number / gaps * item_bytes;
        if file.read_exact_at(place, data.at_bytes + at_bytes).is_ok() {
            take(at_bytes, place);
        }
    }
}

/// Parses all files; nothing if an id is too large for items that are not wide.
fn parse_all(
    job: &Job,
    files: &[PathBuf],
    headers: &[Header],
    dir: &PrivateDir,
    is_wide: bool,
) -> Result<Option<EdgeFiles>> {
    let weights = formats::weights_of(headers);
    let mut edges = EdgeFiles {
        inputs: Vec::new(),
        shape: ItemShape::new(is_wide, weights),
        vertices: None,
        largest: None,
        is_undirected: false,
        is_mixed: false,
        parsed_bytes: 0,
        skipped: headers.iter().map(|header| header.skipped).sum(),
        _scratch: None,
    };
    for (index, (file, header)) in files.iter().zip(headers).enumerate() {
        // Two files each; those that are wide have other numbers.
        let number = 2 * (2 * index + usize::from(is_wide));
        let to = [number, number + 1].map(|number| dir.path().join(format!("part-{number}")));
        let found = match (&header.serial, &header.matrix) {
            (Some(serial), _) => serial::parse(job, file, serial, weights, &to[0])?,
            (_, Some(matrix)) => {
                // Behind the numbers of all others.
                let first = 4 * files.len() + npz::FILES_MAX * index;
                npz::parse(job, file, matrix, weights, dir.path(), first)?
            }
            _ => match text::parse(
                job,
                file,
                header.bytes,
                header.syntax.with_weights(weights),
                edges.shape,
                [&to[0], &to[1]],
            )? {
                Some((found, edges_count)) => {
                    check_entries(file, header.entries, edges_count)?;
                    found
                }
                None => return Ok(None),
            },
        };
        edges.inputs.extend(found.inputs);
        edges.largest = edges.largest.max(found.largest);
        edges.parsed_bytes += found.parsed_bytes;
        edges.skipped += found.skipped;
    }
    Ok(Some(edges))
}

/// Fails for a file that has other than as many edges as its head says.
fn check_entries(path: &Path, entries: Option<u64>, found: u64) -> Result<()> {
    match entries {
        Some(wanted) if wanted != found => {
            let cause = format!(
                "its header says {}, and it has {found}",
                units::counted(wanted, "entry")
            );
            Err(Error::corrupt(READ, cause)
                .path(path)
                .hint("write the file again: it is cut short, or was added to"))
        }
        _ => Ok(()),
    }
}

/// What one file was parsed to.
pub(crate) struct Parsed {
    inputs: Vec<Input>,
    largest: Option<u64>,
    parsed_bytes: u64,
    skipped: u64,
}
