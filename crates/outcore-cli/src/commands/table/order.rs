//! Tables merged.
//!
//! Contract: as the folder's.

use outcore::Result;
use outcore_table::jobs::{self, TableOrder};

use super::{Done, keys_of, names_of, of_sequence, run, text};
use crate::cli::sequence::MergeArgs;
use crate::context::Context;
use crate::resources;
use outcore_verbs::option::lines::TextFlags;

/// `outcore merge` of tables.
pub(crate) fn merge(context: &Context, args: &MergeArgs) -> Result<u8> {
    let input = &args.input;
    let resources = resources::load(&input.resources, &input.drives, None, resources::SEED)?;
    let flags = TextFlags::default();
    let text = text::options(&args.tables, &flags, &input.inputs)?;
    let keys = keys_of(&args.by, args.descending)?;
    let text = text.needing(names_of(&keys));
    let request = of_sequence(input, Some(&args.output.output), &args.tables, &text);
    let order = TableOrder {
        keys,
        is_stable: true,
        is_descending: args.descending,
    };
    run(context, &request, resources, |job, ends| {
        Ok(Done::new("merged", jobs::merge(job, ends, &order)?))
    })
}
