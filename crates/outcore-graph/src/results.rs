//! Writes a kernel's result to a file, or finds the vertices with the largest values.
//!
//! Contract: [`write`] makes one file, absent or whole, in the order of vertices. It is a NumPy
//! array if the extension is `.npy`; lines `vertex,value` with a header if it is `.csv`; and raw
//! numbers otherwise. With [`WriteOptions::by_name`], it is lines for any extension. If the graph
//! has names, lines have names, also for values that are vertices; arrays have vertex numbers. A
//! pipe gets raw numbers, or lines by name. Names in lines are quoted as in CSV if necessary.
//! [`top`] returns equal values in the order of vertices.
//!
//! Bounds: string names are streamed; names of vertices that are values are in memory.

use std::sync::Arc;

use bytemuck::Pod;
use outcore::key::{Endian, Number, NumberType};
use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::{self, Batch, Sequence, Summary, tabulate};
use outcore::{Error, Input, Job, MakeHeader, NpyHeader, Output, RecordFormat, Result};

use crate::format::NO_VERTEX;
use crate::graph::names::Names;
use crate::kernels::LabelFile;

/// A value for each vertex.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Numbers, such as degrees and core numbers.
    Numbers(Vec<u32>),
    /// Vertices, such as the labels of components and communities.
    Vertices(Vec<u32>),
    /// Distances; -1 if there is none.
    Optional(Vec<u32>),
    /// Vertices, or none.
    Parents(Vec<u32>),
    /// Numbers that may exceed 32 bits.
    Counts(Vec<u64>),
    /// Ranks and lengths.
    Floats(Vec<f64>),
}

/// One of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// An integer; -1 for none.
    Whole(i64),
    /// A float.
    Float(f64),
}

impl Value {
    /// Returns the vertex, if values are vertices; `None` if there is none.
    pub fn vertex(&self) -> Option<u32> {
        match self {
            Value::Whole(number) => u32::try_from(*number).ok(),
            Value::Float(_) => None,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Whole(number) => number.fmt(f),
            Value::Float(number) => number.fmt(f),
        }
    }
}

impl Values {
    /// The number of vertices.
    pub fn len(&self) -> usize {
        match self {
            Values::Numbers(values)
            | Values::Vertices(values)
            | Values::Optional(values)
            | Values::Parents(values) => values.len(),
            Values::Counts(values) => values.len(),
            Values::Floats(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the values are vertices.
    pub fn are_vertices(&self) -> bool {
        matches!(self, Values::Vertices(_) | Values::Parents(_))
    }

    /// Returns the value of a vertex.
    pub fn get(&self, vertex: usize) -> Value {
        match self {
            Values::Numbers(values) | Values::Vertices(values) => {
                Value::Whole(values[vertex].into())
            }
            Values::Optional(values) | Values::Parents(values) => {
                Value::Whole(optional(values[vertex]))
            }
            Values::Counts(values) => Value::Whole(values[vertex] as i64),
            Values::Floats(values) => Value::Float(values[vertex]),
        }
    }
}

/// A number, or -1 for none.
fn optional(number: u32) -> i64 {
    match number {
        NO_VERTEX => -1,
        number => number.into(),
    }
}

/// How values are written.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions<'n> {
    /// Whether an existing file may be replaced.
    pub replace: bool,
    /// The vertices' original ids.
    pub names: Option<&'n Names>,
    /// Whether to write lines `name,value` for any extension.
    pub by_name: bool,
}

/// Writes one value per vertex to a file, or to a pipe.
///
/// # Errors
/// Errors of writing; [`outcore::Kind::Usage`] for an existing file that may not be replaced,
/// [`outcore::Kind::Memory`] if names do not fit.
pub fn write(
    job: &Job,
    to: impl Into<Output>,
    values: &Values,
    options: WriteOptions<'_>,
) -> Result<Summary> {
    let names = options.names;
    let vertex = if names.is_some() { "name" } else { "vertex" };
    let to = Target {
        to: titled(to.into(), &[vertex, "value"]),
        replace: options.replace,
    };
    if options.by_name || is_called(&to.to, "csv") {
        let numbers = names.and_then(Names::numbers);
        let held = match (values, names) {
            (Values::Vertices(vertices) | Values::Parents(vertices), Some(names))
                if names.text().is_some() =>
            {
                let mut wanted = vertices.clone();
                wanted.retain(|vertex| *vertex != NO_VERTEX);
                Some(names.held(job, wanted)?)
            }
            _ => None,
        };
        let value = |vertex: usize, line: &mut Vec<u8>| {
            let value = values.get(vertex);
            let other = value.vertex().filter(|_| values.are_vertices());
            match (other, &held, numbers) {
                (Some(other), Some(held), _) => push_name(held.get(other).as_bytes(), line),
                (Some(other), None, Some(numbers)) => {
                    line.extend_from_slice(numbers[other as usize].to_string().as_bytes());
                }
                _ => line.extend_from_slice(value.to_string().as_bytes()),
            }
            line.push(b'\n');
        };
        if let Some(text) = names.and_then(Names::text) {
            let lines = text.lines(|vertex, name: &[u8], lines: &mut Vec<u8>| {
                push_name(name, lines);
                lines.push(b',');
                value(vertex as usize, lines);
            });
            return write_lines(job, to, &lines);
        }
        let line = |vertex: usize| {
            let name = numbers.map_or(vertex as u64, |names| names[vertex]);
            let mut line = format!("{name},").into_bytes();
            value(vertex, &mut line);
            line
        };
        let count = values.len();
        return write_lines(job, to, &Lines { count, line });
    }
    match values {
        Values::Numbers(values) | Values::Vertices(values) => {
            write_as(job, to, "u32", values.len(), |at| values[at])
        }
        Values::Optional(values) | Values::Parents(values) => {
            write_as(job, to, "i64", values.len(), |at| optional(values[at]))
        }
        Values::Counts(values) => write_as(job, to, "u64", values.len(), |at| values[at]),
        Values::Floats(values) => write_as(job, to, "f64", values.len(), |at| values[at]),
    }
}

/// Writes the labels of components on scratch, in the form of [`write`].
///
/// # Errors
/// As [`write`]; [`outcore::Kind::Usage`] for lines if vertices have string names, or by name.
pub fn write_stored(
    job: &Job,
    to: impl Into<Output>,
    labels: &LabelFile,
    options: WriteOptions<'_>,
) -> Result<Summary> {
    let to = Target {
        to: titled(to.into(), &["vertex", "value"]),
        replace: options.replace,
    };
    let count = labels.vertices() as usize;
    let is_csv = is_called(&to.to, "csv");
    if options.by_name || is_csv && options.names.is_some() {
        let cause = "to write lines by name, all vertices must fit in memory, but they do not";
        return Err(Error::usage("write labels", cause)
            .hint("write an array (.npy), or allow more with --memory"));
    }
    if is_csv {
        return write_lines(job, to, &StoredLines(labels.input()));
    }
    write_sequence(
        job,
        to,
        "u32",
        count,
        &primitives::read::<u32>(&[labels.input()]),
    )
}

/// Lines of vertices and their labels on scratch.
struct StoredLines(Input);

impl Sequence for StoredLines {
    type Item = u8;
    const YIELD: Yield = Yield::Any;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(Source {
            inputs: vec![self.0.clone()],
            element_bytes: size_of::<u32>(),
            align_bytes: align_of::<u32>(),
            count: 0,
        });
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = u8> {
        let labels: &[u32] = bytemuck::cast_slice(batch.bytes(0));
        let lines = (batch.first..).zip(labels);
        lines.flat_map(|(vertex, label)| format!("{vertex},{label}\n").into_bytes())
    }
}

/// Appends a name as a CSV field. It is quoted if it contains quotes or a comma, has blanks at its
/// ends, or begins like a comment.
fn push_name(name: &[u8], line: &mut Vec<u8>) {
    let is_plain = name.trim_ascii().len() == name.len()
        && !name.starts_with(b"#")
        && memchr::memchr3(b'"', b',', b'\r', name).is_none();
    if is_plain {
        line.extend_from_slice(name);
        return;
    }
    line.push(b'"');
    for byte in name {
        if *byte == b'"' {
            line.push(b'"');
        }
        line.push(*byte);
    }
    line.push(b'"');
}

/// Writes rows of vertices, one for each of `columns`, with their original ids if there are any,
/// and -1 for none. The output is a two-dimensional NumPy array, lines with the header `columns` if
/// the extension is `.csv`, or raw numbers. String names are only written to lines; arrays have the
/// numbers of such vertices.
///
/// # Errors
/// As [`write`].
pub fn write_rows(
    job: &Job,
    to: impl Into<Output>,
    replace: bool,
    vertices: &[u32],
    columns: &[String],
    names: Option<&Names>,
) -> Result<Summary> {
    let width = columns.len();
    let titles: Vec<&str> = columns.iter().map(String::as_str).collect();
    let to = titled(to.into(), &titles);
    let is_csv = is_called(&to, "csv");
    let held = match names.filter(|names| is_csv && names.text().is_some()) {
        Some(names) => {
            let mut wanted = vertices.to_vec();
            wanted.retain(|vertex| *vertex != NO_VERTEX);
            Some(names.held(job, wanted)?)
        }
        None => None,
    };
    let numbers = names.and_then(Names::numbers);
    let name = |vertex: u32| match numbers {
        Some(names) if vertex != NO_VERTEX => names[vertex as usize] as i64,
        _ => optional(vertex),
    };
    if is_csv {
        let line = |row: usize| {
            let mut line = Vec::new();
            for vertex in &vertices[row * width..(row + 1) * width] {
                match &held {
                    Some(held) if *vertex != NO_VERTEX => {
                        push_name(held.get(*vertex).as_bytes(), &mut line);
                    }
                    _ => line.extend_from_slice(name(*vertex).to_string().as_bytes()),
                }
                line.push(b',');
            }
            line.pop();
            line.push(b'\n');
            line
        };
        let count = vertices.len() / width.max(1);
        return write_lines(job, Target { to, replace }, &Lines { count, line });
    }
    let number = Number::new(NumberType::I64, Endian::Little);
    let header = match is_called(&to, "npy") {
        false => None,
        true => {
            let rows = (vertices.len() / width.max(1)) as u64;
            let header = NpyHeader::of_format(&RecordFormat::numbers(number, width)?, rows)?;
            // The output is counted in numbers.
            let of = move |numbers| header.encode(numbers / width.max(1) as u64);
            Some(Arc::new(of) as MakeHeader)
        }
    };
    let output = with_header(to, header);
    let all = tabulate(vertices.len() as u64, |at| name(vertices[at as usize]));
    primitives::write(job, &all, &output, replace)
}

/// An output that may replace an existing file.
struct Target {
    to: Output,
    replace: bool,
}

fn write_as<T: Pod + Send>(
    job: &Job,
    Target { to, replace }: Target,
    format: &str,
    count: usize,
    value: impl Fn(usize) -> T + Sync,
) -> Result<Summary> {
    let all = tabulate(count as u64, |index| value(index as usize));
    write_sequence(job, Target { to, replace }, format, count, &all)
}

fn write_sequence<S: Sequence>(
    job: &Job,
    Target { to, replace }: Target,
    format: &str,
    count: usize,
    all: &S,
) -> Result<Summary>
where
    S::Item: Pod + Send,
{
    let header = match is_called(&to, "npy") {
        true => Some(NpyHeader::of_format(
            &RecordFormat::parse_type(format)?,
            count as u64,
        )?),
        false => None,
    };
    let header = header.map(|header| Arc::new(move |rows| header.encode(rows)) as MakeHeader);
    primitives::write(job, all, &with_header(to, header), replace)
}

/// Whether it is a file with this extension.
fn is_called(to: &Output, ending: &str) -> bool {
    match to {
        Output::File { path, .. } => path.extension().is_some_and(|end| end == ending),
        Output::Shards { .. } | Output::Pipe(_) => false,
    }
}

/// Adds a header with the names of the columns, if it is a file of lines.
fn titled(to: Output, columns: &[&str]) -> Output {
    if !is_called(&to, "csv") {
        return to;
    }
    let line = format!("{}\n", columns.join(",")).into_bytes();
    let header = Arc::new(move |_| line.clone()) as MakeHeader;
    with_header(to, Some(header))
}

/// Adds a `header` to a file, if there is one.
fn with_header(to: Output, header: Option<MakeHeader>) -> Output {
    match to {
        Output::File { path, .. } => Output::File { path, header },
        other => other,
    }
}

/// Lines of CSV, a byte at a time.
struct Lines<F> {
    count: usize,
    line: F,
}

impl<F: Fn(usize) -> Vec<u8> + Sync> Sequence for Lines<F> {
    type Item = u8;
    const YIELD: Yield = Yield::Any;

    fn sources(&self, into: &mut Vec<Source>) {
        into.push(Source::generated(self.count as u64));
    }

    fn source_count(&self) -> usize {
        1
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = u8> {
        let first = batch.first as usize;
        (first..first + batch.count).flat_map(|number| (self.line)(number))
    }
}

fn write_lines(
    job: &Job,
    Target { to, replace }: Target,
    lines: &impl Sequence<Item = u8>,
) -> Result<Summary> {
    primitives::write(job, lines, &to, replace)
}

/// Returns the `count` largest groups of vertices with the same label, the largest first, as pairs
/// of the label and the number of its vertices. Groups of the same size are in the order of labels.
///
/// # Errors
/// Memory: the sizes, 4 bytes per vertex, exceed the budget.
pub fn largest_groups(job: &Job, labels: &[u32], count: usize) -> Result<Vec<(usize, Value)>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let bytes = 4 * labels.len() as u64;
    let _sizes = job.budget.reserve("sizes of groups", bytes)?;
    let mut sizes = vec![0_u32; labels.len()];
    for label in labels {
        sizes[*label as usize] += 1;
    }
    let mut largest = top(&Values::Numbers(sizes), count);
    largest.retain(|(_, size)| *size != Value::Whole(0));
    Ok(largest)
}

/// Returns the `count` vertices with the largest values, the largest first. Infinite values, such
/// as the lengths of paths that do not exist, come last.
pub fn top(values: &Values, count: usize) -> Vec<(usize, Value)> {
    let is_less = |a: &usize, b: &usize| {
        let order = match values {
            Values::Floats(values) => {
                let (a, b) = (values[*a], values[*b]);
                let finite_first = b.is_finite().cmp(&a.is_finite());
                finite_first.then(b.total_cmp(&a))
            }
            Values::Numbers(values) | Values::Vertices(values) => values[*b].cmp(&values[*a]),
            Values::Counts(values) => values[*b].cmp(&values[*a]),
            Values::Optional(values) | Values::Parents(values) => {
                optional(values[*b]).cmp(&optional(values[*a]))
            }
        };
        order.then(a.cmp(b))
    };
    let count = count.min(values.len());
    if count == 0 {
        return Vec::new();
    }
    let mut best: Vec<usize> = Vec::with_capacity(2 * count + 1);
    for vertex in 0..values.len() {
        best.push(vertex);
        if best.len() > 2 * count {
            best.sort_unstable_by(is_less);
            best.truncate(count);
        }
    }
    best.sort_unstable_by(is_less);
    best.truncate(count);
    best.into_iter()
        .map(|vertex| (vertex, values.get(vertex)))
        .collect()
}
