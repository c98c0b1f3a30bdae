//! Tables: what commands do with Parquet and Arrow.
//!
//! Contract: an input is a table if the first file that is named begins like one, or is a directory of tables, or is text
//! that becomes one ([`text`]); neither
//! `--lines` nor a type of records may say otherwise. Each command turns its flags into a [`Request`] and calls
//! [`run`], in this order: flags that mean nothing for tables refused; the output's names and format settled; a job
//! made; the job of [`outcore_table::jobs`]; the summary, which is that of other commands. Standard input is copied to
//! scratch, where it can be read in parts and more than once; standard output gets a table while it is made ([`outputs`]).

mod convert;
mod dedup;
mod diff;
mod edges;
mod group;
mod info;
mod join;
mod order;
mod outputs;
mod part;
mod report;
mod request;
mod run;
mod select;
mod text;
mod verify;
mod view;
mod window;

use std::path::{Path, PathBuf};

use outcore::key::column::{column_name, listed};
use outcore::{Error, Result};
use outcore_front::inputs::{self, Streams};
use outcore_front::resources::Resources;
use outcore_store::dataset::Named;
use outcore_table::input::{InputOptions, TextOptions, check_local, is_directory_of_tables};
use outcore_table::output::TableFormat;
use outcore_table::rows::KeyColumn;

use crate::cli::lines::TextFlags;
use crate::cli::tables::{TableArgs, TableFileArgs};
use crate::context::Context;
use crate::resources;

use report::Done;
use request::Request;
use run::run;

pub(crate) use outcore_front::result_tables::{
    has_columns, is_table_name, write_labels, write_near, write_rows, write_values,
};
pub(crate) use outcore_front::table_vectors::{rows_where, write_vectors};

pub(crate) use convert::convert;
pub(crate) use dedup::dedup;
pub(crate) use diff::diff;
pub(crate) use edges::convert_edges;
pub(crate) use group::{count_by, group_by};
pub(crate) use info::info;
pub(crate) use join::join;
pub(crate) use order::{merge, shuffle, sort, unique};
pub(crate) use part::{head, sample, split};
pub(crate) use select::{filter, map};
pub(crate) use text::is_text_meant;
pub(crate) use verify::verify;
pub(crate) use view::{view_append, view_build, view_cat, view_materialize, view_order};
pub(crate) use window::window;

const READ: &str = "read arguments";
const OPEN: &str = "open input";

/// Whether `inputs` are tables: told by the first of them.
pub(crate) fn is_meant(context: &Context, inputs: &[PathBuf]) -> Result<bool> {
    let Some(first) = inputs.first() else {
        return Ok(false);
    };
    check_local(OPEN, first)?;
    let is_stdin = is_stdin(first);
    if first.is_dir() {
        return Ok(is_directory_of_tables(first));
    }
    let is_named = TableFormat::of_name(first).is_some_and(|format| !format.is_text());
    if !first.is_file() && !is_stdin {
        // A stream or a dataset; what is not there is what its name says, and reported when it is read.
        return Ok(is_named && !first.exists() && !Named::is_mark(first));
    }
    // An empty file is none, whatever it was meant to be; its name says what.
    let is_empty = first.metadata().is_ok_and(|facts| facts.len() == 0);
    if is_empty && is_named {
        return Ok(true);
    }
    let sources = inputs::find(std::slice::from_ref(first), Streams::Taken, &context.files)?;
    match sources.first() {
        Some(source) if !source.is_stream() => Ok(inputs::content_of(source)?.is_table()),
        _ => Ok(false),
    }
}

/// What is read of tables.
fn reads(tables: &TableArgs, text: &TextOptions) -> InputOptions {
    InputOptions {
        text: Some(text.clone()),
        columns: (!tables.columns.is_empty()).then(|| names_in(&tables.columns)),
        is_union: tables.union,
        ..InputOptions::default()
    }
}

/// The names in lists with commas between them. One in backquotes may hold commas, or be empty.
fn names_in(lists: &[String]) -> Vec<String> {
    let names = lists.iter().flat_map(|list| listed(list));
    names.map(column_name).collect()
}

/// Whether `name` means standard input.
fn is_stdin(name: &Path) -> bool {
    name.as_os_str() == "-"
}

/// Fails for flags of tables, where the input is none.
pub(crate) fn check_no_table(tables: &TableArgs) -> Result<()> {
    match tables.is_given() {
        false => Ok(()),
        true => Err(Error::usage(
            READ,
            "options that are for tables, and the input is not one",
        )
        .hint("leave --columns, --union, --codec, --group-rows, --bloom, --parts, --schema, --infer, --null, --on-error and --to out, or say with --csv, --jsonl or --from what the input is")),
    }
}

/// Fails for inputs that are not tables, with what to do instead; text is one whose name or flags say what it is.
fn check_tables(
    context: &Context,
    (inputs, flags): (&[PathBuf], &TextFlags),
    (cause, hint): (&str, &str),
) -> Result<()> {
    if text::is_text(flags, inputs) || is_meant(context, inputs)? {
        return Ok(());
    }
    match inputs.first() {
        // A missing file, or something else, is reported when it is opened.
        Some(first) if first.is_file() => Err(Error::usage(READ, cause).path(first).hint(hint)),
        _ => Ok(()),
    }
}

/// How the files of a command that takes nothing but tables are read, and what it may use; fails with `no_table` for
/// other files.
fn settled(
    context: &Context,
    files: &TableFileArgs,
    no_table: (&str, &str),
) -> Result<(TextOptions, Resources)> {
    let flags = files.text.flags()?;
    check_tables(context, (&files.inputs, &flags), no_table)?;
    let text = text::options(context, &files.tables, &flags, &files.inputs)?;
    let limit_bytes = files.scratch.limit_bytes;
    let (given, drives) = (&files.resources, &files.drives);
    let resources = resources::load(given, drives, limit_bytes, resources::SEED)?;
    Ok((text, resources))
}

/// Fails for what tables do not have.
fn refuse(is_given: bool, flag: &str) -> Result<()> {
    match is_given {
        false => Ok(()),
        true => {
            let hint = match flag {
                "--dry-run" => "--explain shows the plan of a table's job, and the job goes on",
                "--explain and --dry-run" => "leave it out; this job has no plan",
                _ => "leave it out; --by NAME[:desc][:nulls-first] names the columns of an order",
            };
            Err(Error::usage(READ, format!("{flag} cannot be used with tables")).hint(hint))
        }
    }
}

/// The columns of keys.
fn names_of(keys: &[KeyColumn]) -> impl Iterator<Item = String> {
    keys.iter().map(|key| key.name.clone())
}

/// The columns of `--by`; all others descend if the whole order does.
fn keys_of(by: &[String], is_descending: bool) -> Result<Vec<KeyColumn>> {
    let keys = by.iter();
    let keys = keys.map(|text| KeyColumn::parse_in(text, is_descending));
    keys.collect()
}
