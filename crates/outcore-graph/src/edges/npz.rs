//! Reads SciPy's sparse matrices: `.npz`, as `scipy.sparse.save_npz` writes them, compressed or
//! not.
//!
//! Contract: the file is an archive ([`super::archive`]) of NumPy arrays: `format` (csr, csc or
//! coo), `shape`, indices and pointers, and `data`. Each stored entry is an edge from its row to
//! its column; `data` are the weights, if requested. Arrays have integers of four or eight bytes;
//! weights may also be floats. The archive's checksums, the lengths of arrays and all indices are
//! verified; a mismatch is an error of corrupt data.
//!
//! Bounds: one read of each needed array, unpacked as a stream. The pointers are in memory, eight
//! bytes per row. Edges are written once, or twice if they have weights.

use std::path::Path;

use outcore::{Context, Error, Input, Job, NpyHeader, Result};
use outcore_io::units;

use super::archive::{Member, corrupt, member, members_of, unpack};
use super::sides::MatrixSides;
use super::{Parsed, READ, ReadOptions};
use crate::format::weight::WeightType;
use outcore::primitives::appended::append_to;

/// The limit of vertex numbers.
const INDEX_LIMIT: u64 = u32::MAX as u64;

/// The arrays that contain the ends of edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Coordinates,
    Rows,
    Columns,
}

/// An archive whose contents are known.
#[derive(Debug)]
pub(crate) struct Matrix {
    members: Vec<Member>,
    layout: Layout,
    rows: u64,
    columns: u64,
    sides: MatrixSides,
    /// The type of the weights, if they are requested.
    weights: Option<WeightType>,
}

impl Matrix {
    /// Vertices.
    pub(super) fn vertices(&self) -> u64 {
        self.sides.vertices
    }

    /// The type of its weights in the graph, if they are requested.
    pub(super) fn weights(&self) -> Option<WeightType> {
        self.weights
    }
}

/// The type of an array's numbers.
#[derive(Debug, Clone, Copy)]
enum NumberKind {
    I32,
    I64,
    U32,
    U64,
    F32,
    F64,
    U8,
    I8,
}

impl NumberKind {
    fn of(descr: &str) -> Option<Self> {
        Some(match descr.trim_matches('\'') {
            "<i4" => NumberKind::I32,
            "<i8" => NumberKind::I64,
            "<u4" => NumberKind::U32,
            "<u8" => NumberKind::U64,
            "<f4" => NumberKind::F32,
            "<f8" => NumberKind::F64,
            "|b1" | "|u1" => NumberKind::U8,
            "|i1" => NumberKind::I8,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            NumberKind::U8 | NumberKind::I8 => 1,
            NumberKind::I32 | NumberKind::U32 | NumberKind::F32 => 4,
            NumberKind::I64 | NumberKind::U64 | NumberKind::F64 => 8,
        }
    }

    /// The type for weights of this kind in a graph.
    fn weights(self) -> WeightType {
        match self {
            NumberKind::F32 => WeightType::F32,
            NumberKind::F64 => WeightType::F64,
            _ => WeightType::I64,
        }
    }

    fn number(self, bytes: &[u8]) -> ArrayNumber {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let (low, all) = (
            u32::from_le_bytes([word[0], word[1], word[2], word[3]]),
            u64::from_le_bytes(word),
        );
        match self {
            NumberKind::I32 => ArrayNumber::Whole((low as i32).into()),
            NumberKind::I64 => ArrayNumber::Whole((all as i64).into()),
            NumberKind::I8 => ArrayNumber::Whole((word[0] as i8).into()),
            NumberKind::U32 | NumberKind::U64 | NumberKind::U8 => ArrayNumber::Whole(all.into()),
            NumberKind::F32 => ArrayNumber::Float(f32::from_bits(low).into()),
            NumberKind::F64 => ArrayNumber::Float(f64::from_bits(all)),
        }
    }
}

/// A number of an array.
#[derive(Debug, Clone, Copy)]
enum ArrayNumber {
    Whole(i128),
    Float(f64),
}

impl ArrayNumber {
    /// Returns the number if it is a nonnegative integer.
    fn index(self) -> Option<u64> {
        match self {
            ArrayNumber::Whole(number) => number.try_into().ok(),
            ArrayNumber::Float(_) => None,
        }
    }

    /// The bits of a weight.
    fn weight(self, of: WeightType) -> std::result::Result<u64, String> {
        match self {
            ArrayNumber::Float(weight) => of.of_float(weight),
            ArrayNumber::Whole(weight) => match i64::try_from(weight) {
                Ok(weight) => of.of_whole(weight),
                Err(_) => of.of_text(&weight.to_string()),
            },
        }
    }
}

/// Passes each number of an array, with its index, to `take`; returns the number of elements and
/// the bytes read.
fn numbers(
    job: &Job,
    path: &Path,
    member: &Member,
    mut take: impl FnMut(u64, ArrayNumber) -> Result<()>,
) -> Result<(u64, u64)> {
    let name = &member.name;
    let (mut head, mut array, mut place) = (Vec::new(), None, 0);
    let read_bytes = unpack(job, path, member, |bytes| {
        head.extend_from_slice(bytes);
        let mut at = 0;
        if array.is_none() {
            let Some(head_bytes) = head_bytes_of(&head) else {
                return Ok(());
            };
            at = head_bytes;
            array = Some(header_kind(path, name, &head)?);
        }
        if let Some((kind, _)) = array {
            let whole = (head.len() - at) / kind.bytes() * kind.bytes();
            for number in head[at..at + whole].chunks_exact(kind.bytes()) {
                take(place, kind.number(number))?;
                place += 1;
            }
            head.drain(..at + whole);
        }
        Ok(())
    })?;
    match array {
        Some((_, rows)) if rows == place && head.is_empty() => Ok((place, read_bytes)),
        _ => Err(corrupt(path, format!("`{name}` is cut short"))),
    }
}

/// Reads the type of an array's numbers.
fn kind_of(job: &Job, path: &Path, member: &Member) -> Result<NumberKind> {
    let (mut head, mut found) = (Vec::new(), None);
    unpack(job, path, member, |bytes| {
        if found.is_none() {
            head.extend_from_slice(bytes);
            if head_bytes_of(&head).is_some() {
                found = Some(header_kind(path, &member.name, &head)?.0);
            }
        }
        Ok(())
    })?;
    found.ok_or_else(|| corrupt(path, format!("`{}` is cut short", member.name)))
}

/// Reads the type and the number of elements from a complete header.
fn header_kind(path: &Path, name: &str, head: &[u8]) -> Result<(NumberKind, u64)> {
    let header = NpyHeader::parse(head).map_err(|error| error.path(path))?;
    let kind = NumberKind::of(header.descr()).ok_or_else(|| {
        let cause = format!("`{name}` has numbers of {}", header.descr());
        Error::usage(READ, cause)
            .path(path)
            .hint("indices are int32 or int64, weights whole numbers, float32 or float64")
    })?;
    Ok((kind, header.rows))
}

/// The length of an array's header, once it is complete.
fn head_bytes_of(bytes: &[u8]) -> Option<usize> {
    let len_bytes = NpyHeader::len_bytes(bytes.get(..12)?).ok()?;
    (bytes.len() >= len_bytes).then_some(len_bytes)
}

/// Opens the archive and reads its metadata.
pub(super) fn open(
    job: &Job,
    path: &Path,
    &ReadOptions {
        is_weighted,
        is_bipartite,
        ..
    }: &ReadOptions,
) -> Result<Matrix> {
    let members = members_of(job, path)?;
    let mut text = Vec::new();
    unpack(job, path, member(path, &members, "format.npy")?, |bytes| {
        text.extend_from_slice(bytes);
        Ok(())
    })?;
    // Three letters, of one byte or of four bytes each.
    let letters = text.get(head_bytes_of(&text).unwrap_or(text.len())..);
    let letters: Vec<u8> = letters
        .unwrap_or_default()
        .iter()
        .copied()
        .filter(|byte| *byte > 0)
        .collect();
    let layout = match &letters[..] {
        b"coo" => Layout::Coordinates,
        b"csr" => Layout::Rows,
        b"csc" => Layout::Columns,
        other => {
            let cause = format!("its format is `{}`", String::from_utf8_lossy(other));
            return Err(Error::usage(READ, cause)
                .path(path)
                .hint("save it in the format csr, csc or coo"));
        }
    };
    let mut sides = Vec::new();
    numbers(
        job,
        path,
        member(path, &members, "shape.npy")?,
        |_, side| {
            sides.extend(side.index());
            Ok(())
        },
    )?;
    let [rows, columns] = sides[..] else {
        return Err(corrupt(path, "its shape does not have two sides"));
    };
    let weights = match is_weighted {
        true => Some(kind_of(job, path, member(path, &members, "data.npy")?)?.weights()),
        false => None,
    };
    let sides = MatrixSides::new(path, rows, columns, is_bipartite)?;
    if sides.vertices > INDEX_LIMIT {
        let cause =
            format!("its shape is {rows} x {columns}; at most {INDEX_LIMIT} vertices are possible");
        return Err(Error::usage(READ, cause).path(path));
    }
    Ok(Matrix {
        members,
        layout,
        rows,
        columns,
        sides,
        weights,
    })
}

/// The most files that [`parse`] makes.
pub(super) const FILES_MAX: usize = 5;

/// Writes the edges of a matrix to files in `dir`, numbered from `first`.
pub(super) fn parse(
    job: &Job,
    path: &Path,
    matrix: &Matrix,
    weights: Option<WeightType>,
    dir: &Path,
    first: usize,
) -> Result<Parsed> {
    let named = |number: usize| {
        let file = dir.join(format!("part-{}", first + number));
        std::path::absolute(&file).unwrap_or(file)
    };
    let mut read_bytes = 0;
    let mut indices = |name: &str, limit: u64, to: &Path| -> Result<u64> {
        let array = member(path, &matrix.members, name)?;
        append_to(job, to, |file| {
            let (count, bytes) = numbers(job, path, array, |_, index| match index.index() {
                Some(index) if index < limit => file.append(&(index as u32).to_le_bytes()),
                _ => Err(corrupt(
                    path,
                    format!("`{name}` has an index that is not below {limit}"),
                )),
            })?;
            read_bytes += bytes;
            Ok(count)
        })
    };
    let context = Context::of_job(job);
    let u32s = |path: &Path| context.read_inputs::<u32>(&[Input::raw(path)]);
    let pairs = named(0);
    let target_from = matrix.sides.target_from as u32;
    let edges = match matrix.layout {
        Layout::Coordinates => {
            let (rows, columns) = (named(1), named(2));
            let count = indices("row.npy", matrix.rows, &rows)?;
            if indices("col.npy", matrix.columns, &columns)? != count {
                return Err(corrupt(path, "it is not square"));
            }
            let both = u32s(&rows).zip(u32s(&columns));
            both.map(move |(row, column)| [row, column + target_from])
                .write(&pairs)?;
            count
        }
        layout => {
            let (sides, limit) = match layout {
                Layout::Columns => (matrix.columns, matrix.rows),
                _ => (matrix.rows, matrix.columns),
            };
            let others = named(1);
            let count = indices("indices.npy", limit, &others)?;
            let _held = job
                .budget
                .reserve("pointers of a matrix", 16 * (sides + 1))?;
            let starts = starts_of(job, path, matrix, sides, count)?;
            let places = outcore::primitives::tabulate(count, |place| {
                (starts.partition_point(|start| *start <= place) - 1) as u32
            });
            let both = context.sequence(places).zip(u32s(&others));
            let is_turned = layout == Layout::Columns;
            both.map(move |(side, other)| {
                if is_turned {
                    [other, side + target_from]
                } else {
                    [side, other + target_from]
                }
            })
            .write(&pairs)?;
            count
        }
    };
    let mut inputs = vec![Input::raw(&pairs)];
    if let Some(of) = weights {
        let (bits, weighted) = (named(3), named(4));
        let width = of.words() * size_of::<u32>();
        let array = member(path, &matrix.members, "data.npy")?;
        let count = append_to(job, &bits, |file| {
            numbers(job, path, array, |_, weight| {
                let bits = weight.weight(of);
                let bits = bits.map_err(|cause| corrupt(path, cause))?;
                file.append(&bits.to_le_bytes()[..width])
            })
        })?;
        if count.0 != edges {
            let [entries, weights] = [(edges, "entry"), (count.0, "weight")]
                .map(|(count, thing)| units::counted(count, thing));
            let cause = format!("it has {entries}, but {weights}");
            return Err(corrupt(path, cause));
        }
        let pairs = context.read_inputs::<[u32; 2]>(&inputs);
        match of {
            WeightType::F32 => pairs
                .zip(u32s(&bits))
                .map(|([source, target], weight)| [source, target, weight])
                .write(&weighted)?,
            WeightType::F64 | WeightType::I64 => pairs
                .zip(context.read_inputs::<[u32; 2]>(&[Input::raw(&bits)]))
                .map(|([source, target], [low, high])| [source, target, low, high])
                .write(&weighted)?,
        };
        inputs = vec![Input::raw(&weighted)];
    }
    Ok(Parsed {
        inputs,
        largest: None,
        parsed_bytes: read_bytes.max(1),
        skipped: 0,
    })
}

/// Reads the start of the entries of each row, or column, and the end of the last.
fn starts_of(job: &Job, path: &Path, matrix: &Matrix, sides: u64, count: u64) -> Result<Vec<u64>> {
    let mut starts: Vec<u64> = Vec::with_capacity(sides as usize + 1);
    let array = member(path, &matrix.members, "indptr.npy")?;
    numbers(job, path, array, |place, start| {
        let last = starts.last().copied().unwrap_or(0);
        match start.index() {
            Some(start) if start >= last && place <= sides => starts.push(start),
            _ => {
                return Err(corrupt(
                    path,
                    "`indptr.npy` does not ascend, or is too long",
                ));
            }
        }
        Ok(())
    })?;
    let is_sound = starts.len() as u64 == sides + 1
        && starts.first() == Some(&0)
        && starts.last() == Some(&count);
    match is_sound {
        true => Ok(starts),
        false => Err(corrupt(
            path,
            "`indptr.npy` does not lead from 0 to the number of entries",
        )),
    }
}
