//! Tables: what commands do with Parquet and Arrow.
//!
//! Contract: what is a table says [`outcore_front::what`], and which options are for tables the
//! table of [`crate::cli::kinds`]. Each command turns its flags into a [`Request`] and calls
//! [`run`], in this order: the output's names and format settled; a job made; the job of
//! [`outcore_table::jobs`]; the summary, which is that of other commands. Standard input is copied
//! to scratch, where it can be read in parts and more than once; standard output gets a table while
//! it is made ([`outputs`]).

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
mod view;
mod window;

use std::path::PathBuf;

use outcore::Result;
use outcore::key::column::column_names;
use outcore_front::resources::Resources;
use outcore_front::what::{Asked, What};
use outcore_table::input::{InputOptions, TextOptions};
use outcore_table::rows::KeyColumn;
use outcore_verbs::tables::{READ, is_stdin, keys_of, kind_of_table, tables_of};

use crate::cli::lines::TextFlags;
use crate::cli::tables::{TableArgs, TableFileArgs};
use crate::context::Context;
use crate::resources;

use report::Done;
use request::Request;
use run::run;

pub(crate) use outcore_front::result_tables::{
    has_columns, is_table_name, write_clusters, write_labels, write_near, write_rows, write_values,
};
pub(crate) use outcore_front::table_vectors::{rows_where, write_vectors};
pub(crate) use outcore_table::input::{check_not_read_again, is_several};

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
pub(crate) use view::{view_append, view_build, view_cat, view_materialize, view_order};
pub(crate) use window::window;

const OPEN: &str = "open input";

/// What is read of tables.
fn reads(tables: &TableArgs, text: &TextOptions) -> InputOptions {
    InputOptions {
        text: Some(text.clone()),
        columns: (!tables.columns.is_empty()).then(|| column_names(&tables.columns)),
        is_union: tables.union,
        ..InputOptions::default()
    }
}

/// The same of two tables: options are for one of them at least.
fn check_both_tables(
    context: &Context,
    inputs: &[PathBuf; 2],
    (tables, flags): (&TableArgs, &TextFlags),
    no_table: (&str, &str),
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
        kinds.push(kind_of_table(context, asked, no_table)?);
    }
    match kinds.iter().all(|what| what.is_table()) {
        true => context.given.applies_to_one_of(&kinds),
        false => Ok(()),
    }
}

/// How the files of a command that takes nothing but tables are read, and what it may use; fails
/// with `no_table` for other files.
fn settled(
    context: &Context,
    files: &TableFileArgs,
    no_table: (&str, &str),
) -> Result<(TextOptions, Resources)> {
    let flags = files.text.flags()?;
    check_from_and_tables(context, (&files.inputs, &files.tables, &flags), no_table)?;
    let text = text::options(&files.tables, &flags, &files.inputs)?;
    let limit_bytes = files.scratch.limit_bytes;
    let (given, drives) = (&files.resources, &files.drives);
    let resources = resources::load(given, drives, limit_bytes, resources::SEED)?;
    Ok((text, resources))
}

/// [`check_tables`], where standard input may be a table.
fn check_from_and_tables(
    context: &Context,
    (inputs, tables, flags): (&[PathBuf], &TableArgs, &TextFlags),
    no_table: (&str, &str),
) -> Result<What> {
    let asked = Asked {
        inputs,
        text: flags.kind(),
        is_table: true,
        piped: tables.piped(),
        ..Asked::default()
    };
    tables_of(context, asked, no_table)
}

/// The columns of keys.
fn names_of(keys: &[KeyColumn]) -> impl Iterator<Item = String> {
    keys.iter().map(|key| key.name.clone())
}
