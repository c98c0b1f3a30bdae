//! `outcore vector`: files of vectors converted and indexed, and what they hold; pairs of near
//! vectors are [`super::range`]'s.
//!
//! Contract: as the folder's; `info` reads nothing but the header.

use std::path::Path;

use outcore::{Error, Result};
use outcore_io::output::parent_of;
use outcore_io::units;
use outcore_vector::convert::convert;
use outcore_vector::format::{Container, Element, VectorFile};
use outcore_vector::index::{self, ListOptions};
use serde_json::json;

use super::super::table;
use super::range::pairs;
use super::{Run, check_input};
use crate::cli::vectors::{VectorCommand, VectorConvertArgs, VectorIndexArgs, VectorInfoArgs};
use crate::context::Context;
use crate::measure::{Summary, rate_text};
use crate::resources;

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &VectorCommand) -> Result<u8> {
    match command {
        VectorCommand::Convert(args) => run_convert(context, args),
        VectorCommand::Info(args) => info(context, args),
        VectorCommand::Index(args) => run_index(context, args),
        VectorCommand::Pairs(args) => pairs(context, args),
    }
}

fn run_convert(context: &Context, args: &VectorConvertArgs) -> Result<u8> {
    let input = std::slice::from_ref(&args.input.input);
    if context.is_table(input)? {
        return convert_column(context, args);
    }
    if let Some(column) = &args.column {
        let cause = format!("the input is no table, and has no column `{column}`");
        return Err(Error::usage("read arguments", cause)
            .path(&args.input.input)
            .hint("name a Parquet or Arrow file, or leave --column out"));
    }
    let element = args.to.as_deref().map(|name| {
        Element::named(name).ok_or_else(|| {
            Error::usage(
                "read arguments",
                format!("`{name}` is not a kind of number"),
            )
            .hint("--to takes f32, f16, f64, i8, u8, i32 or i64")
        })
    });
    let element = element.transpose()?;
    let files: (&[&Path], &[&Path]) = (&[&args.input.input], &[&args.output]);
    let run = Run::begin(context, &args.run, files)?;
    let from = VectorFile::open(&run.job, files.0[0], args.input.type_name.as_deref())?;
    let (path, replace) = (run.place_of(&args.output), args.run.force);
    let (to, done) = run.watch(|job| convert(job, &from, path, replace, element))?;
    let mut summary = run.summary(to.rows, done.read_bytes, 1, &done.phases);
    summary.written_bytes = done.written_bytes;
    let seconds = summary.seconds;
    context
        .reporter
        .summary(&summary.with("type", json!(to.type_name())));
    context.reporter.human(&format!(
        "converted {} of {} to {} in {}: {}",
        units::counted(to.rows, "vector"),
        from.type_name(),
        to.type_name(),
        units::seconds(seconds),
        rate_text(from.data_bytes(), seconds),
    ));
    run.phases(&done.phases);
    Ok(0)
}

/// Writes the vectors in a column of a table.
fn convert_column(context: &Context, args: &VectorConvertArgs) -> Result<u8> {
    let input = args.input.input.as_path();
    if args.to.is_some() || args.input.type_name.is_some() {
        let cause = "the numbers of a table's column have a type, and stay as they are";
        return Err(Error::usage("read arguments", cause)
            .path(input)
            .hint("leave --to and --type out; convert the output afterwards"));
    }
    let run = Run::begin(context, &args.run, (&[input], &[&args.output]))?;
    let output = (run.place_of(&args.output), args.run.force);
    let column = args.column.as_deref();
    let done = run.watch(|job| table::write_vectors(job, input, column, output))?;
    let mut summary = run.summary(done.rows_count, done.read_bytes, 1, &done.phases);
    summary.written_bytes = done.written_bytes;
    let seconds = summary.seconds;
    context.reporter.summary(
        &summary
            .with("type", json!(done.type_name))
            .with("column", json!(done.column)),
    );
    context.reporter.human(&format!(
        "converted {} of {} in column `{}` in {}: {}",
        units::counted(done.rows_count, "vector"),
        done.type_name,
        done.column,
        units::seconds(seconds),
        rate_text(done.written_bytes, seconds),
    ));
    run.phases(&done.phases);
    Ok(0)
}

fn run_index(context: &Context, args: &VectorIndexArgs) -> Result<u8> {
    let files: (&[&Path], &[&Path]) = (&[&args.base], &[&args.output]);
    let run = Run::begin_on(context, &args.run, Some(&args.drives), files)?;
    let base = run.open(&args.base, args.type_name.as_deref())?;
    let (path, replace) = (run.place_of(&args.output), args.run.force);
    let built = run.watch(|job| match args.nlist {
        None => index::build(job, &base, path, replace),
        Some(lists) => {
            let options = ListOptions {
                lists: usize::try_from(lists).unwrap_or(usize::MAX),
                is_spherical: args.spherical,
                seed: args.seed,
            };
            index::build_lists(job, &base, path, replace, &options)
        }
    })?;
    let passes = built.summary.passes;
    let mut summary = run.summary(
        base.rows,
        built.summary.read_bytes,
        passes,
        &built.summary.phases,
    );
    summary.written_bytes = built.summary.written_bytes;
    let seconds = summary.seconds;
    let summary = summary
        .with("type", json!(base.type_name()))
        .with("nlist", json!(args.nlist))
        .with("index_bytes", json!(built.index_bytes));
    context.reporter.summary(&summary);
    context.reporter.human(&format!(
        "indexed {} of {}{} in {} and {}: {}",
        units::counted(base.rows, "vector"),
        base.type_name(),
        args.nlist.map_or(String::new(), |lists| {
            format!(" by {}", units::counted(lists, "list"))
        }),
        units::bytes(built.index_bytes),
        units::seconds(seconds),
        rate_text(base.data_bytes(), seconds),
    ));
    run.phases(&built.summary.phases);
    Ok(0)
}

fn info(context: &Context, args: &VectorInfoArgs) -> Result<u8> {
    check_input(context, &args.input.input)?;
    let resources = context.files.add_to(resources::without_flags()?)?;
    let job = resources.job_at(Vec::new(), parent_of(&args.input.input));
    let file = VectorFile::open(&job, &args.input.input, args.input.type_name.as_deref())?;
    let format = match file.container {
        Container::Npy => "npy",
        Container::Vecs => "vecs",
        Container::Bin => "bin",
        Container::Raw => "raw",
        Container::Lists => "lists",
    };
    context.reporter.data(&format!(
        "{} of {} ({format}), {} of numbers after a header of {} bytes\n",
        units::counted(file.rows, "vector"),
        file.type_name(),
        units::bytes(file.rows * (file.dimension * file.element.bytes()) as u64),
        file.header_bytes,
    ));
    let summary = Summary {
        records: file.rows,
        ..Summary::default()
    };
    let summary = summary
        .with("type", json!(file.type_name()))
        .with("dimension", json!(file.dimension))
        .with("format", json!(format))
        .with("header_bytes", json!(file.header_bytes))
        .with("row_bytes", json!(file.row_bytes()));
    context.reporter.summary(&summary);
    Ok(0)
}
