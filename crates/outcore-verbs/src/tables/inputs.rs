//! Inputs of verbs on tables: kinds, names of columns, copies of inputs that cannot be read in
//! parts.
//!
//! Contract: [`outcore_front::what`] decides what is a table. Compressed files are first
//! decompressed to scratch, and the job reads the copies.

use std::path::{Path, PathBuf};

use outcore::key::column::{column_names, listed};
use outcore::{Error, Job, Result};
use outcore_front::inputs::{self, Streams};
use outcore_front::records;
use outcore_front::resources::Resources;
use outcore_front::spool::{Copies, Spool, unpack_files};
use outcore_front::what::{Asked, What};
use outcore_io::drive::objects::expanded;
use outcore_table::input::{InputOptions, NO_FILE, OnBadRow, TextKind, TextOptions, files_of};
use outcore_table::rows::KeyColumn;

use crate::host::{Host, watch};
use crate::option::OnError;
use crate::option::lines::TextFlags;
use crate::option::tables::TableArgs;

/// The hint for lines of text whose name does not end as that of a table.
pub(crate) const AS_TABLE: &str = "--csv or --jsonl reads the lines as a table, and --csv -t ' ' --no-header fields between blanks as the columns 1, 2, ...";
/// The operation in errors about arguments.
pub const READ: &str = "read arguments";

/// The rule for rows of text that lack columns, or have values of other types.
pub(crate) fn on_bad_row(on_error: Option<OnError>) -> OnBadRow {
    match on_error {
        Some(OnError::Skip) => OnBadRow::Skip,
        Some(OnError::Null) => OnBadRow::Null,
        Some(OnError::Fail) | None => OnBadRow::Fail,
    }
}

/// Whether `name` means standard input.
pub(crate) fn is_stdin(name: &Path) -> bool {
    name.as_os_str() == "-"
}

/// The error for an input that is not a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoTable<'a> {
    pub(crate) cause: &'a str,
    pub(crate) hint: &'a str,
    /// The verb that does the same to lines.
    pub(crate) of_lines: &'a str,
}

/// The kind of the inputs of a command that takes only tables; fails for other inputs, with a hint.
pub(crate) fn check_tables(
    host: &dyn Host,
    inputs: &[PathBuf],
    text: Option<TextKind>,
    no_table: NoTable<'_>,
) -> Result<What> {
    let asked = Asked {
        inputs,
        text,
        is_table: true,
        ..Asked::default()
    };
    tables_of(host, asked, no_table)
}

/// The kind of the inputs of `asked`; fails for other inputs, with `no_table`, and rejects options
/// that do not apply to the inputs.
pub(crate) fn tables_of(host: &dyn Host, asked: Asked<'_>, no_table: NoTable<'_>) -> Result<What> {
    let what = kind_of_table(host, asked, no_table)?;
    if what.is_table() {
        host.check_options(what, asked)?;
    }
    Ok(what)
}

/// The kind of the inputs of `asked`. Fails with `no_table` if the first input is a file that is
/// not a table.
pub(crate) fn kind_of_table(
    host: &dyn Host,
    asked: Asked<'_>,
    no_table: NoTable<'_>,
) -> Result<What> {
    let what = host.what(asked)?;
    match asked.inputs.first() {
        // A missing file, or a path that is not a file, is reported when it is opened.
        Some(first) if first.is_file() && !what.is_table() => {
            let is_text = what == What::Lines && is_text(host, first);
            let error = Error::usage(READ, no_table.cause).path(first);
            Err(match is_text {
                true => error.hint(format!("{AS_TABLE}; {}", no_table.of_lines)),
                false => error.hint(no_table.hint),
            })
        }
        _ => Ok(what),
    }
}

/// Whether the file begins with lines of text.
fn is_text(host: &dyn Host, name: &Path) -> bool {
    let found = inputs::find(&[name.to_path_buf()], Streams::Refused, host.names());
    found.is_ok_and(|sources| sources.first().is_some_and(records::is_text))
}

/// The columns in the lists of `--by`; if the whole order is descending, columns without a
/// direction descend.
pub(crate) fn keys_of(by: &[String], is_descending: bool) -> Result<Vec<KeyColumn>> {
    let keys = by.iter().flat_map(|list| listed(list));
    let keys = keys.map(|text| KeyColumn::parse_in(text, is_descending));
    keys.collect()
}

/// Decompresses the text files that are compressed, and copies standard input; returns each with
/// its copy. All files are text if their `kind` is given. The copies live as long as the value that
/// is returned with them.
pub(crate) fn unpacked(
    host: &dyn Host,
    job: &Job,
    resources: &Resources,
    inputs: &[PathBuf],
    kind: Option<TextKind>,
    beside: &Path,
) -> Result<(Copies, Option<Spool>)> {
    let files = expanded(job.device.as_ref(), inputs)?;
    let mut files = files_of(&files, true)?;
    let stdin = files.iter().position(|file| is_stdin(file));
    let stdin = stdin.map(|place| files.swap_remove(place));
    // A stream may be silent for a long time, and decompression may take long.
    watch(host, &job.control, &[], || {
        let is_text = |file: &Path| kind.is_some() || TextKind::of_table_name(file).is_some();
        copies_of(
            host,
            job,
            resources,
            &files,
            stdin.as_ref(),
            beside,
            &is_text,
        )
    })
}

/// The error of a job without inputs; the user may have wanted to read from a pipe.
pub(crate) fn explain_no_input(
    host: &dyn Host,
    inputs: &[PathBuf],
    tables: &TableArgs,
    error: Error,
) -> Error {
    let is_none = inputs.is_empty() && error.cause() == NO_FILE;
    if !is_none || host.streams() == Streams::Refused {
        return error;
    }
    if tables.piped().is_some() {
        let cause = "--from gives the format of standard input, but the line has no input";
        return Error::usage(READ, cause).hint("name standard input: - in place of a file");
    }
    let cause = "no input is named, and standard input needs a format";
    Error::usage(READ, cause).hint(
        "read it as CSV with `- --from csv`, or with jsonl or arrow; Parquet cannot be read from a \
         pipe: name the file",
    )
}

/// The copies of `files`, and of standard input.
fn copies_of(
    host: &dyn Host,
    job: &Job,
    resources: &Resources,
    files: &[PathBuf],
    stdin: Option<&PathBuf>,
    beside: &Path,
    is_text: &dyn Fn(&Path) -> bool,
) -> Result<(Copies, Option<Spool>)> {
    let names = host.names();
    let (mut copies, mut spool) = unpack_files(job, resources, beside, files, is_text, names)?;
    let Some(stdin) = stdin else {
        return Ok((copies, spool));
    };
    for source in inputs::find(std::slice::from_ref(stdin), host.streams(), host.names())? {
        if source.start_bytes > 0 {
            let cause = "another program has read a part of standard input";
            return Err(Error::usage(READ, cause).hint("name the file, or pipe what is left of it"));
        }
        let copy = match source.is_stream() {
            false => source.path,
            true => {
                let spool = match &mut spool {
                    Some(spool) => spool,
                    none => none.insert(Spool::beside(job, resources, beside)?),
                };
                spool.copy_table(job, &source)?.path
            }
        };
        copies.push((stdin.clone(), copy));
    }
    Ok((copies, spool))
}

/// The options for reading tables.
pub fn reads(tables: &TableArgs, text: &TextOptions) -> InputOptions {
    InputOptions {
        text: Some(text.clone()),
        columns: (!tables.columns.is_empty()).then(|| column_names(&tables.columns)),
        is_union: tables.union,
        ..InputOptions::default()
    }
}

/// Fails with a hint if the inputs of a verb on two tables are something else. An option must apply
/// to at least one of the tables.
pub(crate) fn check_both_tables(
    host: &dyn Host,
    inputs: &[PathBuf; 2],
    tables: &TableArgs,
    flags: &TextFlags,
    no_table: NoTable<'_>,
) -> Result<()> {
    let mut kinds = Vec::new();
    for input in inputs {
        let asked = Asked {
            inputs: std::slice::from_ref(input),
            text: flags.kind(),
            is_table: true,
            piped: tables.piped().filter(|_| is_stdin(input)),
            ..Asked::default()
        };
        kinds.push(kind_of_table(host, asked, no_table)?);
    }
    match kinds.iter().all(|what| what.is_table()) {
        true => host.given().applies_to_one_of(&kinds),
        false => Ok(()),
    }
}
