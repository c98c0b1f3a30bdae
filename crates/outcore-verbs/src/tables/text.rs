//! CSV and JSON lines as tables.
//!
//! Contract: [`outcore_front::what`] decides when text is a table. Compressed files are first
//! decompressed to scratch, and the job reads the copies.

use std::path::PathBuf;

use outcore::{Error, Result};
use outcore_table::input::{TextOptions, null_texts, parse_types};

use super::inputs::{READ, is_stdin, on_bad_row};
use crate::option::lines::TextFlags;
use crate::option::tables::TableArgs;

/// Fails for `--from` if standard input is not an input.
///
/// # Errors
/// Usage.
pub(crate) fn check_from(tables: &TableArgs, inputs: &[PathBuf]) -> Result<()> {
    if tables.from.is_some() && !inputs.iter().any(|name| is_stdin(name)) {
        let cause = "--from is the format of standard input, but standard input is not an input \
                     here";
        return Err(Error::usage(READ, cause)
            .hint("pass - as an input, or leave --from out: files do not need it"));
    }
    Ok(())
}

/// How text is read.
///
/// # Errors
/// Usage: invalid types.
pub fn options(tables: &TableArgs, flags: &TextFlags, inputs: &[PathBuf]) -> Result<TextOptions> {
    if !inputs.is_empty() {
        check_from(tables, inputs)?;
    }
    Ok(TextOptions {
        kind: flags.kind().or_else(|| tables.piped().flatten()),
        separator: flags.separator.or_else(|| tables.piped_separator()),
        is_without_header: flags.no_header,
        nulls: null_texts(&tables.null),
        on_bad: on_bad_row(tables.on_error),
        schema: match &tables.schema {
            Some(schema) => parse_types(schema)?,
            None => Vec::new(),
        },
        ..TextOptions::default()
    })
}
