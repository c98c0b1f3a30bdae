//! `outcore verify` of tables: their order, and the rows of another.
//!
//! Contract: as the folder's; reads only. Exits with 1 where a row is out of order, or the rows are
//! others.

use std::path::Path;
use std::time::Instant;

use outcore::{Error, Result};
use outcore_io::units;
use outcore_table::input::InputOptions;
use outcore_table::jobs::{self, TableCheck};
use serde_json::json;

use super::text::{self, unpacked};
use super::{READ, check_tables, keys_of};
use crate::cli::VerifyArgs;
use crate::cli::lines::TextFlags;
use crate::cli::tables::TableArgs;
use crate::context::Context;
use crate::measure::{Summary, rate_text};
use crate::progress::watch;
use crate::recorder::Kept;
use crate::resources;

pub(crate) fn verify(context: &Context, args: &VerifyArgs) -> Result<u8> {
    let started = Instant::now();
    if args.by.is_empty() && (args.unique || args.descending) {
        let cause = "--unique and --descending are about an order, and no column says which";
        return Err(Error::usage(READ, cause).hint("name columns with --by"));
    }
    let no_table = (
        "the first input is a table, and this is not one",
        "compare tables with tables",
    );
    if !args.against.is_empty() {
        check_tables(context, &args.against, &TextFlags::default(), no_table)?;
    }
    let resources = resources::without_drives(&args.resources)?;
    let kept = Kept {
        force: args.trace.force,
        ..Kept::default()
    };
    let resources = context.start(resources, &args.trace.record_io, kept)?;
    let job = resources.job(Vec::new());
    let all: Vec<_> = args.files.iter().chain(&args.against).cloned().collect();
    let (copies, _spool) = unpacked(context, (&job, &resources), (&all, None), Path::new("."))?;
    let tables = TableArgs {
        columns: args.columns.clone(),
        ..args.bad_rows.to_tables()
    };
    let text = text::options(&tables, &TextFlags::default(), &[])?;
    let reads = InputOptions {
        copies,
        ..super::reads(&tables, &text)
    };
    let keys = keys_of(&args.by, args.descending)?;
    let against = (!args.against.is_empty()).then_some(&args.against[..]);
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (found, other) = watch(reporter, interrupt, &job.control, &[], || {
        jobs::verify(&job, (&args.files, &reads), &keys, against)
    })?;
    for note in text.take_notes() {
        reporter.human(&note);
    }
    Ok(report(context, args, (&found, other.as_ref()), started))
}

/// Says what was found; the exit code.
fn report(
    context: &Context,
    args: &VerifyArgs,
    (found, other): (&TableCheck, Option<&TableCheck>),
    started: Instant,
) -> u8 {
    let reporter = &context.reporter;
    let is_same = |other: &TableCheck| (found.rows, found.checksum) == (other.rows, other.checksum);
    let is_same = other.map(is_same);
    let is_unique = !args.unique || found.equal_keys == 0;
    let seconds = started.elapsed().as_secs_f64();
    let read_bytes = found.read_bytes + other.map_or(0, |other| other.read_bytes);
    let summary = Summary {
        records: found.rows,
        seconds,
        read_bytes,
        passes: 1,
        ..Summary::default()
    };
    let checksum = |found: &TableCheck| format!("{:032x}", found.checksum);
    // Without columns no order is looked for.
    let of_order = !args.by.is_empty();
    let summary = summary
        .with(
            "ordered",
            json!(of_order.then_some(found.first_unordered.is_none())),
        )
        .with("first_unordered", json!(found.first_unordered))
        .with(
            "duplicate_keys",
            json!(of_order.then_some(found.equal_keys)),
        )
        .with("checksum", json!(checksum(found)))
        .with("same_records", json!(is_same))
        .with("against_records", json!(other.map(|other| other.rows)))
        .with("against_checksum", json!(other.map(checksum)));
    reporter.summary(&summary);
    let rows = units::counted(found.rows, "row");
    let mut lines = vec![match (args.by.is_empty(), found.first_unordered) {
        (true, _) => format!("{rows}; --by says in which order they should be"),
        (false, None) => format!(
            "{rows} in order, {} equal to the one before",
            units::counted(found.equal_keys, "key")
        ),
        (false, Some(row)) => format!(
            "row {} of {}, counted from 0, is out of order",
            units::count(row),
            units::count(found.rows)
        ),
    }];
    lines.push(format!("checksum of all rows: {}", checksum(found)));
    if let (Some(other), Some(is_same)) = (other, is_same) {
        lines.push(match is_same {
            true => "the other table has the same rows".to_owned(),
            false => format!(
                "the other table has other rows: {}, checksum {}",
                units::counted(other.rows, "row"),
                checksum(other)
            ),
        });
    }
    lines.push(format!(
        "read {} in {}: {}",
        units::bytes(read_bytes),
        units::seconds(seconds),
        rate_text(read_bytes, seconds)
    ));
    lines.iter().for_each(|line| reporter.human(line));
    let is_right = found.first_unordered.is_none() && is_unique && is_same != Some(false);
    u8::from(!is_right)
}
