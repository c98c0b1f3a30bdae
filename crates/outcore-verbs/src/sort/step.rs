//! A sort of lines as a step of a dataset.
//!
//! Contract: the options are those of the verb. They are parsed and checked in the same way, before
//! any data are read. The order of `-R` is the same in each run.

use std::ffi::OsString;

use outcore::Result;
use outcore::key::sort_key::SharedKey;
use outcore::sort::lines::LineSortOptions;
use outcore_front::text::csv_files::CsvSort;
use outcore_front::what::What;

use super::lines::{csv_of, order_of};
use super::{Sort, SortArgs};
use crate::verb::read;

/// See the module.
pub struct LineStep {
    /// The order of the lines.
    pub order: LineOrder,
    /// The treatment of equal lines, and of lines without a key.
    pub options: LineSortOptions,
    /// The byte between fields, if it is given.
    pub separator: Option<u8>,
}

/// An order of lines.
pub enum LineOrder {
    /// An order of plain lines.
    Lines(SharedKey),
    /// An order of JSON lines.
    Json(SharedKey),
    /// An order of CSV records, which is known only after the header has been read.
    Csv(CsvSort),
}

/// The step for `words`, which are arguments of the verb, on lines that end with `terminator`.
///
/// # Errors
/// Usage, as for the verb.
pub fn line_step(words: Vec<OsString>, terminator: u8) -> Result<LineStep> {
    let (args, given): (SortArgs, _) = read::<Sort>(words)?;
    let mut text = args.text.clone();
    text.jsonl |= !text.csv && !text.by.is_empty();
    let what = match (text.csv, text.jsonl) {
        (true, _) => What::Csv,
        (_, true) => What::JsonLines,
        _ => What::Lines,
    };
    given.applies_to(what)?;
    let seed = args.seed.unwrap_or_default();
    let is_whole = text.csv && args.unique && text.by.is_empty();
    let order = match is_whole {
        true => LineOrder::Csv(csv_of(&args, &text, seed)?),
        false => {
            let order = order_of(&args, &text, seed)?;
            match what {
                What::Csv => LineOrder::Csv(csv_of(&args, &text, seed)?),
                What::JsonLines => LineOrder::Json(order),
                _ => LineOrder::Lines(order),
            }
        }
    };
    let options = LineSortOptions {
        terminator,
        unique: args.unique,
        on_no_key: args.tables.on_no_key(&text.by)?,
        ..LineSortOptions::default()
    };
    Ok(LineStep {
        order,
        options,
        separator: args.order.separator()?,
    })
}
