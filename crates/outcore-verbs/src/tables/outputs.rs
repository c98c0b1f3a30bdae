//! The outputs of tables: names of files, formats, directories of parts.
//!
//! Contract: the ending of the name determines the format. Standard output has the format of
//! `--to`, or else that of the first input. Nothing is created here.

use std::path::{Path, PathBuf};

use outcore::key::column::column_names;
use outcore::read::text_kind::{TextKind, usual_separator};
use outcore::{Error, Result};
use outcore_front::inputs::{self, Source, Streams, is_stdout};
use outcore_front::output::{
    Holds, check_is_file_name, check_placeholders, file_or_pipe, is_same_place, is_stream,
};
use outcore_front::resources::Resources;
use outcore_io::drive::paths;
use outcore_io::units;
use outcore_table::input::{check_local, check_not_read_again, matching};
use outcore_table::output::{Codec, OutputOptions, TableFormat};

use super::inputs::{READ, is_stdin};
use super::request::Request;
use crate::host::Host;
use crate::option::tables::{PipeFormat, TableArgs};
use crate::resumed::may_exist;

/// The largest number of files in a directory of parts.
const PARTS_MAX: u64 = 1_000_000;

/// The files that a job writes.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// Their names; none if nothing is written.
    pub files: Vec<PathBuf>,
    /// Their format.
    pub writes: OutputOptions,
}

/// The hint for an output whose name does not end as a table's.
fn format_hint(name: &Path) -> &'static str {
    match Holds::of_name(name) {
        Some(Holds::Vectors) => "outcore vector convert writes files of vectors",
        Some(_) => {
            "only text takes this ending, as in out.csv.gz; --codec compresses columns of Parquet"
        }
        None => {
            "let it end in .parquet, .arrow, .feather, .arrows, .csv, .tsv or .jsonl, or name a \
                 directory and --parts"
        }
    }
}

/// The names of the output's files, and their format.
pub(crate) fn outputs_of(host: &dyn Host, request: &Request<'_>) -> Result<Outputs> {
    let name = request.output.filter(|name| !is_stdout(name));
    let Some(name) = name.or_else(|| host.kept_table()) else {
        return to_stream(request, Path::new("-"));
    };
    if is_stream(name) {
        file_or_pipe(name, host.streams())?;
        return to_stream(request, name);
    }
    if request.tables.to.is_some() {
        let cause = "--to is the format of standard output, but the output is a file";
        return Err(Error::usage(READ, cause)
            .path(name)
            .hint("leave --to out, since the name already selects the format, or leave -o out"));
    }
    check_local("create output", name)?;
    check_placeholders(name, &[])?;
    let name = match request.tables.parts {
        None => {
            let may_exist = may_exist(request.keeps_journal, Some(name))?;
            host.names().output(name, request.force || may_exist)?
        }
        Some(_) => host.names().output_dir(name, request.force)?,
    };
    let format = match (TableFormat::of_name(&name), request.tables.parts) {
        (Some(format), None) => {
            check_is_file_name("create output", &name)?;
            format
        }
        (None, Some(_)) => TableFormat::Parquet,
        (Some(_), Some(_)) => {
            let cause = "--parts writes a directory, but this is the name of a file";
            return Err(Error::usage("create output", cause)
                .path(&name)
                .hint("name a directory"));
        }
        (None, None) => {
            let cause = "its name does not give the format of the table";
            return Err(Error::usage("create output", cause)
                .path(&name)
                .hint(format_hint(&name)));
        }
    };
    if let Some(parts) = request.tables.parts {
        check_range("--parts", parts, PARTS_MAX)?;
    }
    if let Some(rows) = request.tables.group_rows {
        check_range("--group-rows", rows, u64::MAX)?;
    }
    let directory = request.tables.parts.map(|_| name.to_path_buf());
    let outputs = match request.tables.parts {
        None => vec![name.into_owned()],
        Some(parts) => (0..parts)
            .map(|part| name.join(format!("part-{part:05}.parquet")))
            .collect(),
    };
    let codec = request.tables.codec.as_deref().map(Codec::parse);
    let mut writes = OutputOptions::new(format).named(&outputs[0], codec.transpose()?)?;
    if let Some(rows) = request.tables.group_rows {
        writes.group_rows_max = usize::try_from(rows).unwrap_or(usize::MAX);
    }
    writes.bloom_filters = column_names(&request.tables.bloom_filters);
    writes.directory = directory;
    check_has(request.tables, format)?;
    let files = outputs;
    Ok(Outputs { files, writes })
}

/// Fails for a count of zero, or one above the limit.
fn check_range(option: &str, count: u64, most: u64) -> Result<()> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    let hint = match most {
        u64::MAX => "give 1 or more".to_owned(),
        most => format!("give 1 to {}", units::count(most)),
    };
    let cause = format!("{option} cannot be {}", units::count(count));
    Err(Error::usage(READ, cause).hint(hint))
}

/// Fails for options that the output's format does not have.
fn check_has(tables: &TableArgs, format: TableFormat) -> Result<()> {
    let wrong = |cause: &str, option: &str| {
        let hint = format!("leave {option} out, or let the output end in .parquet");
        Err(Error::usage(READ, cause).hint(hint))
    };
    let has_filters = !tables.bloom_filters.is_empty();
    if tables.group_rows.is_some() && format.is_text() {
        let cause = "--group-rows is for Parquet and Arrow, but the output is text";
        return wrong(cause, "--group-rows");
    }
    if has_filters && format != TableFormat::Parquet {
        let cause = "--bloom is for Parquet, but the output has another format";
        return wrong(cause, "--bloom");
    }
    Ok(())
}

/// The default format of a stream: that of the first input, or CSV for files that are not text.
fn format_of_input(request: &Request<'_>) -> TableFormat {
    let Some(first) = request.inputs.first() else {
        return TableFormat::Csv;
    };
    if is_stdin(first) && request.tables.from == Some(PipeFormat::Arrow) {
        return TableFormat::ArrowStream;
    }
    let separator = request.text.separator;
    match request.text.kind.or_else(|| TextKind::of_table_name(first)) {
        Some(TextKind::JsonLines) => TableFormat::JsonLines,
        Some(TextKind::Csv) if separator.unwrap_or_else(|| usual_separator(first)) == b'\t' => {
            TableFormat::Tsv
        }
        Some(TextKind::Csv | TextKind::Fastq) | None => TableFormat::Csv,
    }
}

/// The output for the stream `name`, which is standard output or another.
fn to_stream(request: &Request<'_>, name: &Path) -> Result<Outputs> {
    // The name of a pipe can give the format, if the format needs no file.
    let named = TableFormat::of_name(name);
    let named = named.filter(|format| format.is_text() || *format == TableFormat::ArrowStream);
    let format = match request.tables.to {
        Some(PipeFormat::Arrow) => TableFormat::ArrowStream,
        Some(PipeFormat::Csv) => TableFormat::Csv,
        Some(PipeFormat::Tsv) => TableFormat::Tsv,
        Some(PipeFormat::Jsonl) => TableFormat::JsonLines,
        None => named.unwrap_or_else(|| format_of_input(request)),
    };
    if request.tables.parts.is_some() {
        return Err(
            Error::usage(READ, "--parts writes a directory, not a stream")
                .hint("name a directory with -o, or leave --parts out"),
        );
    }
    let codec = request.tables.codec.as_deref().map(Codec::parse);
    let mut writes = OutputOptions::new(format).named(name, codec.transpose()?)?;
    if let Some(rows) = request.tables.group_rows {
        writes.group_rows_max = usize::try_from(rows).unwrap_or(usize::MAX);
    }
    let first = request.inputs.first();
    let first_kind = first.and_then(|name| TextKind::of_name(name));
    writes.is_any_text = request.tables.to.or(request.tables.from).is_none()
        && request.text.kind.or(first_kind).is_none();
    check_has(request.tables, format)?;
    let files = vec![name.to_path_buf()];
    Ok(Outputs { files, writes })
}

/// An additional table that a job of `request` writes, in the format of its name.
pub(crate) fn further_output(
    host: &dyn Host,
    request: &Request<'_>,
    name: &Path,
) -> Result<(PathBuf, OutputOptions)> {
    if is_stdout(name) || is_stream(name) {
        let cause = "the second of two tables cannot go to a stream";
        return Err(Error::usage(READ, cause).hint("name a file for it"));
    }
    let tables = TableArgs {
        parts: None,
        to: None,
        ..request.tables.clone()
    };
    let further = Request {
        output: Some(name),
        tables: &tables,
        ..*request
    };
    let sources = sources_of(host, request.inputs)?;
    check_is_no_dataset_read(&sources, Some(name))?;
    // Each use of a dataset's name returns another path.
    if request
        .output
        .is_some_and(|other| is_same_place(other, name))
    {
        return Err(Error::usage("create output", "two outputs have this name")
            .path(name)
            .hint("name another file"));
    }
    let Outputs {
        files: mut paths,
        mut writes,
    } = outputs_of(host, &further)?;
    check_inputs_kept(&sources, request.inputs, &paths, false)?;
    let new: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    check_not_read_again(request.inputs.iter().map(PathBuf::as_path), &new)?;
    let path = paths.swap_remove(0);
    writes.is_replacing = request.force;
    Ok((path, writes))
}

/// Fails for an output that is a dataset among the inputs.
pub(crate) fn check_is_no_dataset_read(sources: &[Source], output: Option<&Path>) -> Result<()> {
    let mut datasets = sources.iter().filter(|source| source.sealed.is_some());
    match output.filter(|output| datasets.any(|source| source.name == *output)) {
        Some(output) => Err(Error::usage("create output", "it is an input")
            .path(output)
            .hint("name another dataset")),
        None => Ok(()),
    }
}

/// The files with these names, which must not be overwritten.
pub(crate) fn sources_of(host: &dyn Host, names: &[PathBuf]) -> Result<Vec<Source>> {
    if names.iter().filter(|name| is_stdin(name)).count() > 1 {
        return Err(
            Error::usage(READ, "standard input (-) is given more than once")
                .hint("give it once: it can be read only once"),
        );
    }
    let mut files = matching(names)?;
    files.retain(|name| !name.is_dir());
    let find = |names: Vec<PathBuf>, streams| match names.is_empty() {
        true => Ok(Vec::new()),
        false => inputs::find(&names, streams, host.names()),
    };
    let (stdin, files) = files.into_iter().partition(|name| is_stdin(name));
    let mut sources = find(files, Streams::Refused)?;
    sources.extend(find(stdin, Streams::Taken)?);
    Ok(sources)
}

/// The resources of a job that only reads `inputs`: datasets among them are files of its device.
///
/// # Errors
/// An invalid input; the volume cannot be opened.
pub(crate) fn reading(
    host: &dyn Host,
    inputs: &[PathBuf],
    resources: Resources,
) -> Result<Resources> {
    sources_of(host, inputs)?;
    host.names().add_to(resources)
}

/// Fails if an output is an input, or a file in a directory that is an input, unless that is
/// allowed.
pub(crate) fn check_inputs_kept(
    sources: &[Source],
    names: &[PathBuf],
    outputs: &[PathBuf],
    may_replace: bool,
) -> Result<()> {
    let key = |path: &PathBuf| paths::key(path);
    let is_input = |path: &&PathBuf| {
        let key = key(path);
        let is_inside = |dir: &PathBuf| match (dir.canonicalize(), path.canonicalize()) {
            (Ok(dir), Ok(path)) => dir.is_dir() && path.starts_with(dir),
            _ => false,
        };
        key.is_some()
            && (sources.iter().any(|source| source.key == key) || names.iter().any(is_inside))
    };
    match outputs.iter().find(is_input) {
        Some(path) if !may_replace => Err(Error::usage("create output", "it is an input")
            .path(path)
            .hint("name another file; `outcore sort --replace` sorts a file in place")),
        _ => Ok(()),
    }
}
