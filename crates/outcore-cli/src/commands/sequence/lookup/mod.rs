//! `outcore lookup`: where keys belong in sorted files, in sorted lines and in views.
//!
//! Contract: ranks come in the order of the keys, as u64; with `--values`, what is found comes in
//! their place. A directory is a view, text is lines ([`view`]), anything else is records
//! ([`records`]).

mod keys;
mod records;
mod view;

use std::path::Path;

use outcore::dataset::Summary as Done;
use outcore::job::Job;
use outcore::primitives::Side;
use outcore::primitives::gather::InMemory;
use outcore::primitives::write::produce;
use outcore::{Output, Result};
use outcore_front::output;
use outcore_front::what::{Asked, What};
use outcore_verbs::host::Host;

use crate::cli::sequence::{LookupArgs, SideArg};
use crate::context::Context;

const LOOKUP: &str = "lookup";

/// Runs it.
pub(super) fn lookup(context: &Context, args: &LookupArgs) -> Result<u8> {
    records::check(args)?;
    let mut read: Vec<&Path> = vec![&args.keys];
    read.extend(args.index.as_deref());
    output::refuse_inputs(&read, &[(&args.output.output, &args.output.output)])?;
    let what = what_is_searched(context, args)?;
    context.given.applies_to(what)?;
    match what {
        What::View | What::Lines => view::in_view(context, args, what == What::View),
        _ => records::in_records(context, args),
    }
}

/// The kind of data that keys are looked up in.
fn what_is_searched(context: &Context, args: &LookupArgs) -> Result<What> {
    if matches!(&args.input.inputs[..], [dir] if dir.is_dir()) {
        return Ok(What::View);
    }
    let record = &args.input.record;
    let what = context.what(Asked {
        inputs: &args.input.inputs,
        is_records: record.is_typed() || !record.keys.is_empty(),
        is_lines: args.lines || args.zero_terminated,
        ..Asked::default()
    })?;
    // Text has one order here, whatever it is called.
    Ok(if what.is_text() { What::Lines } else { what })
}

fn side_of(args: &LookupArgs) -> Side {
    match args.side {
        SideArg::Left => Side::Left,
        SideArg::Right => Side::Right,
    }
}

/// Writes items that are in memory, after what was `done` to find them.
fn write_found(
    job: &Job,
    (bytes, item_bytes): (&[u8], usize),
    (output, force): (&Output, bool),
    done: Done,
) -> Result<Done> {
    let written = produce(job, &InMemory { bytes, item_bytes }, output, force)?;
    Ok(and_written(done, written))
}

/// What was done, and then written.
fn and_written(done: Done, written: Done) -> Done {
    Done {
        records_in: done.records_in,
        ..done.and(Done {
            passes: 0,
            ..written
        })
    }
}
