//! `filter` and `map` of tables: some rows, and computed columns.
//!
//! Contract: as the folder's. Expressions are those of [`outcore_table::expr`]; the meaning of
//! `--where` is that of `filter`.

use outcore::{Error, Result};
use outcore_table::expr::{Assignment, Expr};
use outcore_table::jobs::{self, Selection};

use super::{Done, READ, of_sequence, run, text};
use crate::cli::sequence::{FilterArgs, InputArgs, MapArgs, OutputArgs};
use crate::context::Context;
use crate::resources;
use outcore_verbs::option::lines::TextFlags;
use outcore_verbs::option::tables::TableArgs;

pub(crate) fn filter(context: &Context, args: &FilterArgs) -> Result<u8> {
    let conditions = std::slice::from_ref(&args.expression);
    let files = (&args.input, &args.output, &args.tables);
    select(context, files, ("kept", conditions), Vec::new())
}

pub(crate) fn map(context: &Context, args: &MapArgs) -> Result<u8> {
    let computed = Assignment::parse_all(&args.expression)?;
    let files = (&args.input, &args.output, &args.tables);
    select(context, files, ("mapped", &[]), computed)
}

fn select(
    context: &Context,
    (input, output, tables): (&InputArgs, &OutputArgs, &TableArgs),
    (what, conditions): (&'static str, &[String]),
    computed: Vec<Assignment>,
) -> Result<u8> {
    let conditions = conditions.iter().chain(&input.conditions);
    let selection = Selection {
        conditions: conditions
            .map(|text| Expr::parse(text))
            .collect::<Result<_>>()?,
        computed,
    };
    if tables.parts.is_some() && !selection.conditions.is_empty() {
        let cause = "--parts needs the number of rows, which a condition leaves open";
        return Err(Error::usage(READ, cause).hint("write one file, then `outcore split` it"));
    }
    let resources = resources::load(&input.resources, &input.drives, None, resources::SEED)?;
    let text = text::options(tables, &TextFlags::default(), &input.inputs)?;
    let text = text.needing(selection.names_needed());
    let request = of_sequence(input, Some(&output.output), tables, &text);
    run(context, &request, resources, |job, ends| {
        Ok(Done::new(what, jobs::select(job, ends, &selection)?))
    })
}
