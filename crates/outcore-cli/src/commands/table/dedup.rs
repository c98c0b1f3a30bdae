//! `outcore dedup`: tables without duplicate rows, in their own order.
//!
//! Contract: as the folder's. Lines are not taken: what keeps their order needs the rows'
//! positions, which lines have none of that would be cheap; `unique` has them in the order of their
//! keys.

use outcore::key::column::column_name;
use outcore::{Error, Result};
use outcore_io::units;
use outcore_table::jobs::{self, Keep, Near, PassageUnit, Shingles, Substring};
use outcore_table::rows::KeyColumn;
use serde_json::json;

use super::outputs::further_output;
use super::{Done, READ, Request, keys_of, names_of, run, settled};
use crate::cli::dedup::DedupArgs;
use crate::context::Context;

pub(crate) fn dedup(context: &Context, args: &DedupArgs) -> Result<u8> {
    let files = &args.files;
    let no_table = (
        "dedup takes only tables (Parquet, Arrow, .csv or .jsonl), and this file is not one",
        "`outcore unique --by` keeps one line of each key, in key order",
    );
    let (text, resources) = settled(context, files, no_table)?;
    let keys = keys_of(&args.by, false)?;
    let keep = match args.keep.as_str() {
        "first" => Keep::First,
        "last" => Keep::Last,
        column => Keep::Best(vec![KeyColumn::parse(column)?]),
    };
    let best = match &keep {
        Keep::Best(columns) => &columns[..],
        Keep::First | Keep::Last => &[],
    };
    let texts = args.near.iter().chain(&args.of);
    let texts = texts.map(|name| column_name(name));
    let text = text.needing(names_of(&keys).chain(names_of(best)).chain(texts));
    let near = near_of(args, &keep)?;
    let substring = match (&args.substring, &args.of) {
        (Some(count), Some(column)) => Some(Substring {
            column: column_name(column),
            units_count: *count,
            unit: match args.tokens {
                true => PassageUnit::Tokens,
                false => PassageUnit::Bytes,
            },
        }),
        _ => None,
    };
    let request = Request::of(files, &text);
    let removed = match &args.removed {
        None => None,
        Some(name) => Some(further_output(context, &request, name)?),
    };
    run(context, &request, resources, |job, ends| {
        let removed = removed.as_ref().map(|(path, writes)| (path, writes));
        if let Some(wanted) = &substring {
            let done = jobs::dedup_substring(job, ends, wanted, removed)?;
            let cuts = done.cuts;
            let (name, amount) = match wanted.unit {
                PassageUnit::Bytes => ("cut_bytes", units::bytes(done.cut_units)),
                PassageUnit::Tokens => ("cut_tokens", units::counted(done.cut_units, "token")),
            };
            let told = Done::new("kept", done.table)
                .with("cuts", json!(cuts))
                .with(name, json!(done.cut_units))
                .note(format!(
                    "cut {amount} from {}",
                    units::counted(cuts, "place")
                ));
            return Ok(match &args.removed {
                None => told,
                Some(name) => told
                    .with("removed_bytes", json!(done.removed_bytes))
                    .note(format!("wrote them to {}", name.display())),
            });
        }
        let done = match &near {
            Some(near) => jobs::dedup_near(job, ends, near, removed)?,
            None => jobs::dedup(job, ends, (&keys, &keep), removed)?,
        };
        let told = Done::new("kept", done.table).with("removed", json!(done.removed));
        Ok(match &args.removed {
            None => told,
            Some(name) => told
                .with("removed_bytes", json!(done.removed_bytes))
                .note(format!(
                    "wrote {} to {}",
                    units::counted(done.removed, "removed row"),
                    name.display()
                )),
        })
    })
}

/// What `--near` and the flags that go with it ask for.
fn near_of(args: &DedupArgs, keep: &Keep) -> Result<Option<Near>> {
    let Some(column) = &args.near else {
        return Ok(None);
    };
    if let Keep::Best(_) = keep {
        let cause = "of near duplicates the first or the last is kept, not the best by a column";
        return Err(Error::usage(READ, cause)
            .hint("give --keep first or --keep last; sort the table by that column first"));
    }
    Ok(Some(Near {
        shingles: Shingles::parse(&args.shingles)?,
        hashes_count: args.hashes,
        seed: args.seed,
        keeps_last: *keep == Keep::Last,
        ..Near::new(column_name(column), args.jaccard)
    }))
}
