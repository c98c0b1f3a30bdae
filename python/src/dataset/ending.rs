//! Steps that need all items, settled: from what Python says to what the engine runs.
//!
//! Contract: what makes no sense is refused here, before anything is read.

use outcore::algo::lines::{LineSortOptions, OnNoKey};
use outcore::algo::sequence::tables::ScanOp;
use outcore::algo::sequence::{Grouping, Inclusion};
use outcore::algo::sort::SortOptions;
use outcore::data::lines::LineOrder;
use outcore::{Error, Result};
use outcore_formats::records::{self, Decided};
use outcore_formats::text::csv_files::CsvSort;
use outcore_formats::text::gnu::{GnuOrder, GnuSort, Key, Ordering, Place};
use outcore_formats::text::json::JsonFields;

use super::{CsvRows, ScanStep, ShuffleStep, SortLinesStep, SortStep, Step};

/// How lines are put in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinesHow {
    pub(super) options: LineSortOptions,
    /// Whether each file is in order already.
    pub(super) merges: bool,
}

/// A step that needs all items.
pub(super) enum Ending {
    Sort(SortOptions, Decided),
    SortLines(Box<dyn LineOrder>, LinesHow),
    /// Becomes a [`Ending::SortLines`] when its files are looked at.
    SortCsv(CsvSort, LinesHow),
    Shuffle(ShuffleStep),
    /// Becomes a [`Ending::Shuffle`] when its files are looked at.
    ShuffleCsv(CsvSort, ShuffleStep),
    Group(Grouping, Decided),
    Scan(ScanOp, Inclusion),
}

impl Ending {
    /// Whether it reads files as they are, and not what a table makes of them.
    pub(super) fn reads_files(&self) -> bool {
        matches!(
            self,
            Ending::Sort(..) | Ending::SortLines(..) | Ending::Shuffle(_)
        ) || self.is_of_csv()
    }

    /// Whether it reads CSV, whose files have not been looked at.
    pub(super) fn is_of_csv(&self) -> bool {
        matches!(self, Ending::SortCsv(..) | Ending::ShuffleCsv(..))
    }

    /// Whether what it makes of records can be written as shards.
    pub(super) fn can_be_sharded(&self) -> bool {
        match self {
            Ending::Sort(options, _) => !options.unique,
            Ending::Shuffle(_) | Ending::Scan(..) => true,
            Ending::SortLines(..) | Ending::Group(..) => false,
            Ending::SortCsv(..) | Ending::ShuffleCsv(..) => false,
        }
    }
}

/// What a step does to records of which `now` is decided.
pub(super) fn of_records(now: Decided, step: Step) -> Result<Ending> {
    Ok(match step {
        Step::Sort(step) => {
            let options = SortOptions {
                descending: step.descending,
                stable: step.stable,
                unique: step.unique,
                replace: false,
                delete_input: false,
            };
            Ending::Sort(options, order_of(now, step)?)
        }
        Step::Shuffle(step) => Ending::Shuffle(step),
        Step::Unique(step) => match (step.is_counted, step.counted) {
            (false, _) => Ending::Group(Grouping::Unique, now),
            (true, counted) => {
                let counted = counted.map(|counted| counted.to_request()).transpose()?;
                let decided = counted
                    .map(|counted| records::named(&counted))
                    .transpose()?;
                let decided = decided
                    .flatten()
                    .ok_or_else(|| wrong_step("no type of counts"))?;
                Ending::Group(Grouping::Counted, decided)
            }
        },
        Step::Scan(step) => scan_of(&step)?,
        _ => return Err(wrong_step("it is a step of lines")),
    })
}

/// The format to sort by: that of the items, or one with other keys.
fn order_of(now: Decided, step: SortStep) -> Result<Decided> {
    let Some(by) = step.records else {
        return Ok(now);
    };
    let decided =
        records::named(&by.to_request()?)?.ok_or_else(|| wrong_step("no key is named"))?;
    let (bytes, item_bytes) = (decided.format.record_bytes(), now.format.record_bytes());
    match bytes == item_bytes {
        true => Ok(decided),
        false => Err(wrong_step(&format!(
            "a key in {bytes} bytes, and records of {item_bytes}"
        ))),
    }
}

fn scan_of(step: &ScanStep) -> Result<Ending> {
    let op = match step.operator.as_str() {
        "sum" => ScanOp::Sum,
        "product" => ScanOp::Product,
        "min" => ScanOp::Min,
        "max" => ScanOp::Max,
        other => {
            return Err(Error::usage("scan", format!("`{other}` is no operator"))
                .hint("scan with sum, product, min or max"));
        }
    };
    let inclusion = match step.exclusive {
        true => Inclusion::Exclusive,
        false => Inclusion::Inclusive,
    };
    Ok(Ending::Scan(op, inclusion))
}

/// What a step does to lines that end with `terminator`.
pub(super) fn of_lines(step: Step, terminator: u8) -> Result<Ending> {
    let plain = |unique, count| LineSortOptions {
        terminator,
        unique,
        count,
        ..LineSortOptions::default()
    };
    Ok(match step {
        Step::Shuffle(ShuffleStep { csv: Some(_), .. }) if terminator != b'\n' => {
            return Err(csv_has_newlines());
        }
        Step::Shuffle(step) => match step.csv {
            Some(csv) => Ending::ShuffleCsv(csv_rows(csv), step),
            None => Ending::Shuffle(step),
        },
        Step::Unique(step) => {
            let order = GnuOrder::new(&GnuSort {
                unique: true,
                ..GnuSort::default()
            })?;
            let how = LinesHow {
                options: plain(!step.is_counted, step.is_counted),
                merges: false,
            };
            Ending::SortLines(Box::new(order), how)
        }
        Step::SortLines(step) => {
            let options = LineSortOptions {
                on_no_key: match step.skips {
                    true => OnNoKey::Skip,
                    false => OnNoKey::Fail,
                },
                ..plain(step.unique && !step.counts, step.counts)
            };
            let how = LinesHow {
                options,
                merges: step.merges,
            };
            match step.is_csv {
                true if terminator != b'\n' => return Err(csv_has_newlines()),
                true => Ending::SortCsv(csv_of(step)?, how),
                false => Ending::SortLines(line_order(step)?, how),
            }
        }
        _ => return Err(wrong_step("it is a step of records")),
    })
}

/// Records of CSV as they are read where no order is asked for: the byte between fields, and whether there is a
/// header.
pub(crate) fn csv_rows((separator, has_header): CsvRows) -> CsvSort {
    CsvSort {
        separator,
        has_header,
        ..CsvSort::default()
    }
}

fn csv_of(step: SortLinesStep) -> Result<CsvSort> {
    Ok(CsvSort {
        global: global_of(&step.letters, step.descending)?,
        by: step.by,
        separator: step.separator,
        has_header: step.has_header,
        stable: step.stable || step.unique,
        seed: 0,
    })
}

/// How keys without letters of their own compare.
fn global_of(letters: &str, descending: bool) -> Result<Ordering> {
    let mut global = Ordering::default();
    for letter in letters.bytes() {
        if !global.set(letter, Place::Both) {
            let cause = format!("`{}` is no letter of an order", char::from(letter));
            return Err(Error::usage("sort", cause).hint("use those of GNU sort: bdfghiMnRrV"));
        }
    }
    if descending {
        global.set(b'r', Place::Both);
    }
    Ok(global)
}

fn line_order(step: SortLinesStep) -> Result<Box<dyn LineOrder>> {
    let is_stable = step.stable || step.unique;
    if !step.by.is_empty() {
        return Ok(Box::new(JsonFields::new(
            &step.by,
            step.descending,
            is_stable,
        )?));
    }
    let keys: Result<Vec<Key>> = step.line_keys.iter().map(|key| Key::parse(key)).collect();
    let order = GnuOrder::new(&GnuSort {
        keys: keys?,
        global: global_of(&step.letters, step.descending)?,
        separator: step.separator,
        stable: step.stable,
        unique: step.unique,
        ..GnuSort::default()
    })?;
    Ok(Box::new(order))
}

/// Why nothing may come behind a sort of CSV.
pub(super) fn csv_is_last() -> Error {
    wrong_step("a step on CSV is the last one: others would take its header for a line")
        .hint("write it, and open what was written")
}

fn csv_has_newlines() -> Error {
    Error::usage("read CSV", "records of CSV end with newlines")
        .hint("open it without zero_terminated")
}

fn wrong_step(cause: &str) -> Error {
    Error::usage("read step", cause.to_string())
}
