//! Reads edges in all input formats, and converts them to one form.
//!
//! Contract: [`read_edges`] returns files of pairs of numbers, each with a weight if edges have
//! weights. Input files of this form are read in place. All others are parsed once, in parallel, to
//! files in a private directory that is removed when [`EdgeFiles`] is dropped. These are errors
//! with their place: a line that is not an edge, an id beyond the limit, a weight that is not a
//! number, and a truncated file.
//!
//! - `item`: pairs of numbers, in memory and in files
//! - `fields`: splits a line into fields
//! - `borders`: joins lines of text that is read in pieces
//! - `named`: lines with string ids
//! - [`rows`]: edges that the caller reads
//! - `lines`: text whose edges are taken without an intermediate file
//! - `syntax`: how a line is parsed to an edge
//! - `text`: edge lists: SNAP's, GAP's `.el` and `.wel`, the entries of Matrix Market, columns of
//!   CSV
//! - `serial`: GAP's serialized graphs, `.sg` and `.wsg`
//! - `sides`: the rows and columns of a matrix as vertices
//! - `archive`: ZIP archives, such as `.npz`
//! - `array`: arrays of NumPy with two columns, `.npy`
//! - `npz`: SciPy's sparse matrices, `.npz`
//! - [`formats`]: detects the format of a file

mod archive;
mod array;
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
/// The number of places in all files that are sampled, and the bytes of each.
pub(crate) const PLACES: usize = 128;
const PLACE_BYTES: usize = 4 << 10;

/// How edges are read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Files with their original names, if they are read from another path: copies of pipes, and
    /// unpacked files.
    pub called: Vec<(PathBuf, PathBuf)>,
    /// The format of the files; detected by extension if `None`.
    pub format: Option<EdgeFormat>,
    /// Whether edges have weights.
    pub is_weighted: bool,
    /// The type of the weights in the graph. If `None`, the type in the files, or eight-byte floats
    /// for text.
    pub weight_type: Option<WeightType>,
    /// The CSV column of the weights.
    pub weight_column: Option<String>,
    /// The columns of source and target, for files with named columns; the first two if empty.
    pub columns: Vec<String>,
    /// Whether the first line of CSV is an edge. Otherwise it is the header, unless it begins with
    /// two numbers.
    pub has_no_header: bool,
    /// Whether rows and columns of a matrix are different vertices; rows come first.
    pub is_bipartite: bool,
}

impl ReadOptions {
    /// Returns the original name of a file.
    pub(crate) fn name_of<'p>(&'p self, path: &'p Path) -> &'p Path {
        let mut called = self.called.iter();
        let called = called.find(|(copy, _)| copy == path);
        called.map_or(path, |(_, name)| name)
    }
}

/// Whether vertices are renumbered, and what their ids are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Relabel {
    /// No: ids are the numbers of vertices.
    #[default]
    No,
    /// Ids are any numbers; or any strings, if a line in the first 64 KiB of text or CSV has an id
    /// that is not an integer.
    Auto,
    /// Ids are any numbers below 2^64.
    Numbers,
    /// Ids are any strings.
    Text,
}

impl Relabel {
    /// Returns the choice with this name: `auto`, `numbers` or `text`.
    ///
    /// # Errors
    /// [`outcore::Kind::Usage`] for any other name.
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

/// Edges in files of one form.
#[derive(Default)]
pub(crate) struct EdgeFiles {
    pub(crate) inputs: Vec<Input>,
    pub(crate) shape: ItemShape,
    /// The number of vertices in a header.
    pub(crate) vertices: Option<u64>,
    /// The largest id, if it is known.
    pub(crate) largest: Option<u64>,
    /// Whether a header marks edges as undirected.
    pub(crate) is_undirected: bool,
    /// Whether another header marks them as directed.
    pub(crate) is_mixed: bool,
    /// Whether ids in the files may be negative. Negative ids are read here as numbers above all
    /// others.
    pub(crate) is_signed: bool,
    /// Bytes read from files that were parsed.
    pub(crate) parsed_bytes: u64,
    /// Skipped comments.
    pub(crate) skipped: u64,
    pub(crate) _scratch: Option<PrivateDir>,
}

impl EdgeFiles {
    /// The first number that is a negative id in the files; `None` if no id can be negative.
    pub(crate) fn first_negative(&self) -> Option<u64> {
        let first = match self.shape.is_wide() {
            true => 1 << 63,
            false => 1 << 31,
        };
        self.is_signed.then_some(first)
    }

    /// Whether `id`, which is read without a sign, is negative in the files.
    pub(crate) fn is_negative(&self, id: u64) -> bool {
        self.first_negative().is_some_and(|first| id >= first)
    }
}

/// Reads the edges in `files`; parsed files go to a private directory in `scratch`.
///
/// # Errors
/// [`outcore::Kind::Usage`] for files of several formats and names without a known extension,
/// [`outcore::Kind::Corrupt`] for input that is not an edge; errors of reading and writing.
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
        // An id does not fit into four bytes: parses again with eight.
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

/// Returns the files if they are pairs of numbers, which are read in place.
///
/// # Errors
/// As [`read_edges`], for options that do not apply to such files.
pub(crate) fn item_files(files: &[PathBuf], options: &ReadOptions) -> Result<Option<EdgeFiles>> {
    let format = formats::format_of(files, options)?;
    if format == EdgeFormat::Array {
        return array::files(files, options).map(Some);
    }
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

/// The offset and length of the data in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataSpan {
    pub(crate) at_bytes: u64,
    pub(crate) len_bytes: u64,
}

/// Places to sample in data that consist of items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SamplePlaces {
    pub(crate) item_bytes: u64,
    pub(crate) count: usize,
}

/// Passes up to `count` stretches of a file's data to `take`, evenly spread and including both
/// ends, each with its offset in the data. Stretches are multiples of `item_bytes`, about 4 KiB
/// long, and begin at such multiples. Unreadable stretches are left out.
pub(crate) fn look_at_places(
    path: &Path,
    data: DataSpan,
    SamplePlaces { item_bytes, count }: SamplePlaces,
    mut take: impl FnMut(u64, &[u8]),
) {
    let Ok(file) = File::open(path) else {
        return;
    };
    // Words, so that items of any alignment can be read.
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

/// Parses all files; `None` if an id is too large for narrow items.
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
        is_signed: false,
        parsed_bytes: 0,
        skipped: headers.iter().map(|header| header.skipped).sum(),
        _scratch: None,
    };
    for (index, (file, header)) in files.iter().zip(headers).enumerate() {
        // Each file gets two numbers for narrow items and two others for wide ones.
        let number = 2 * (2 * index + usize::from(is_wide));
        let to = [number, number + 1].map(|number| dir.path().join(format!("part-{number}")));
        let found = match (&header.serial, &header.matrix) {
            (Some(serial), _) => serial::parse(job, file, serial, weights, &to[0])?,
            (_, Some(matrix)) => {
                // These numbers come after those of all other files.
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

/// Fails for a file whose number of edges differs from its head.
fn check_entries(path: &Path, entries: Option<u64>, found: u64) -> Result<()> {
    match entries {
        Some(wanted) if wanted != found => {
            let cause = format!(
                "its header says {}, but the file has {found}",
                units::counted(wanted, "entry")
            );
            Err(Error::corrupt(READ, cause)
                .path(path)
                .hint("write the file again: it was cut short, or something was added to it"))
        }
        _ => Ok(()),
    }
}

/// The files that one input was parsed to.
pub(crate) struct Parsed {
    inputs: Vec<Input>,
    largest: Option<u64>,
    parsed_bytes: u64,
    skipped: u64,
}
