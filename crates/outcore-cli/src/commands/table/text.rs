//! CSV and JSON lines as tables.
//!
//! Contract: when text is a table says [`outcore_front::what`]. Compressed files are unpacked to
//! scratch first, where a job looks for their copies.

use std::path::{Path, PathBuf};

use outcore::{Error, Job, Result};
use outcore_front::inputs::{self, Streams};
use outcore_front::resources::Resources;
use outcore_front::spool::{Copies, Spool, unpack_files};
use outcore_table::input::{OnBadRow, TextKind, TextOptions, files_of, null_texts, parse_types};

use super::{READ, is_stdin};
use crate::cli::lines::{OnError, TextFlags};
use crate::cli::tables::TableArgs;
use crate::context::Context;
use crate::progress::watch;

/// Fails for `--from` where standard input is none of the inputs.
///
/// # Errors
/// Usage.
pub(super) fn check_from(tables: &TableArgs, inputs: &[PathBuf]) -> Result<()> {
    if tables.from.is_some() && !inputs.iter().any(|name| is_stdin(name)) {
        let cause = "--from says what standard input is, and that is no input here";
        return Err(Error::usage(READ, cause)
            .hint("name - as an input, or leave --from out: files say what they are"));
    }
    Ok(())
}

/// How text is read.
///
/// # Errors
/// Usage: types that are none.
pub(super) fn options(
    tables: &TableArgs,
    flags: &TextFlags,
    inputs: &[PathBuf],
) -> Result<TextOptions> {
    if !inputs.is_empty() {
        check_from(tables, inputs)?;
    }
    Ok(TextOptions {
        kind: flags.kind().or_else(|| tables.piped().flatten()),
        separator: flags.separator,
        is_without_header: flags.no_header,
        nulls: null_texts(&tables.null),
        on_bad: match tables.on_error {
            Some(OnError::Skip) => OnBadRow::Skip,
            Some(OnError::Null) => OnBadRow::Null,
            Some(OnError::Fail) | None => OnBadRow::Fail,
        },
        schema: match &tables.schema {
            Some(schema) => parse_types(schema)?,
            None => Vec::new(),
        },
        ..TextOptions::default()
    })
}

/// Unpacks those files of text that are compressed, and copies standard input; each with its copy.
/// All files are text if their `kind` is given. The copies live as long as what comes with them.
pub(super) fn unpacked(
    context: &Context,
    (job, resources): (&Job, &Resources),
    (inputs, kind): (&[PathBuf], Option<TextKind>),
    beside: &Path,
) -> Result<(Copies, Option<Spool>)> {
    let mut files = files_of(inputs, true)?;
    let stdin = files.iter().position(|file| is_stdin(file));
    let stdin = stdin.map(|place| files.swap_remove(place));
    files.retain(|file| kind.is_some() || TextKind::of_name(file).is_some());
    // A stream may be silent for long, and much may be to be unpacked.
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    watch(reporter, interrupt, &job.control, &[], || {
        copies_of(context, (job, resources), (files, stdin), beside)
    })
}

/// The copies of `files`, and of standard input.
fn copies_of(
    context: &Context,
    (job, resources): (&Job, &Resources),
    (files, stdin): (Vec<PathBuf>, Option<PathBuf>),
    beside: &Path,
) -> Result<(Copies, Option<Spool>)> {
    let (mut copies, mut spool) = unpack_files((job, resources), beside, &files, &context.files)?;
    let Some(stdin) = stdin else {
        return Ok((copies, spool));
    };
    for source in inputs::find(std::slice::from_ref(&stdin), Streams::Taken, &context.files)? {
        if source.start_bytes > 0 {
            let cause = "a part of standard input was read by somebody else";
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
