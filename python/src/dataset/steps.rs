//! Translates Python's steps to those of the engine.
//!
//! Contract: invalid steps are rejected here, before anything is read.

use std::sync::{Arc, Mutex};

use outcore::dataset::Step;
use outcore::primitives::Inclusion;
use outcore::primitives::batch::Yield;
use outcore::primitives::tables::ScanOp;
use outcore::sort::SortOptions;
use outcore::{Error, Result};
use outcore_front::dataset::{CsvStep, LineFiles, OfCsv};
use outcore_front::records::{self, Decided};
use outcore_front::text::csv_files::CsvSort;
use outcore_front::text::output::Dress;
use outcore_verbs::sort::step::{LineOrder, LineStep};

use super::said::{
    self, Call, CallStep, MergeStep, Raised, ScanStep, SortLinesStep, SortStep, UniqueStep,
};
use crate::request::{self, csv_rows};

/// Makes the engine's steps.
pub(super) struct Maker<'a> {
    /// The files, if they contain lines.
    pub(super) lines: Option<&'a LineFiles>,
    /// The byte that ends a line.
    pub(super) terminator: u8,
    pub(super) raised: &'a Raised,
    pub(super) dress: &'a Arc<Mutex<Dress>>,
}

impl Maker<'_> {
    /// The engine's step.
    pub(super) fn make(&self, step: said::Step) -> Result<Step> {
        Ok(match step {
            said::Step::Where(step) => Step::Filter(step.condition),
            said::Step::Map(step) => Step::Map(step.expression),
            said::Step::Call(step) => self.call(step)?,
            said::Step::Sort(step) => sort(&step)?,
            said::Step::SortLines(step) => self.sort_lines(&step)?,
            said::Step::Shuffle(step) => {
                let (seed, epoch) = (step.shuffle_seed, step.epoch);
                match (step.csv, self.lines) {
                    (Some(csv), Some(_)) => {
                        self.late(csv_rows(csv), OfCsv::Shuffle { seed, epoch })?
                    }
                    _ => Step::Shuffle { seed, epoch },
                }
            }
            said::Step::Unique(step) => unique(&step)?,
            said::Step::Scan(step) => scan(&step)?,
            said::Step::FlatMap(step) => Step::FlatMap(step.expressions),
            said::Step::Enumerate(step) => Step::Enumerate {
                made: named(&step.numbered, "no type of numbered items")?,
            },
            said::Step::Windows(step) => Step::Windows(step.window),
            said::Step::Reverse(step) if !step.is_reversed => {
                return Err(wrong_step("reverse, but not reversed"));
            }
            said::Step::Reverse(_) => Step::Reverse,
            said::Step::Merge(step) => merge(&step)?,
        })
    }

    fn call(&self, step: CallStep) -> Result<Step> {
        let made = named(&step.records, "no type is given")?;
        let call = Call {
            function: step.function,
            raised: self.raised.clone(),
        };
        Ok(Step::Call {
            step: Arc::new(call),
            made,
            yields: match (step.expands, step.filters) {
                (true, _) => Yield::Any,
                (false, true) => Yield::AtMostOne,
                (false, false) => Yield::One,
            },
        })
    }

    fn sort_lines(&self, step: &SortLinesStep) -> Result<Step> {
        let LineStep {
            order, mut options, ..
        } = step.line_step(self.terminator)?;
        options.unique &= !step.counts;
        options.count = step.counts;
        let merges = step.merges;
        match order {
            LineOrder::Csv(csv) => self.late(csv, OfCsv::Sort { options, merges }),
            LineOrder::Lines(order) | LineOrder::Json(order) => Ok(Step::SortLines {
                order,
                options,
                merges,
            }),
        }
    }

    /// A step on CSV.
    fn late(&self, csv: CsvSort, of: OfCsv) -> Result<Step> {
        let Some(files) = self.lines else {
            return Err(wrong_step("it is a step of lines"));
        };
        if self.terminator != b'\n' {
            return Err(Error::usage("read CSV", "records of CSV end with newlines")
                .hint("open the files without zero_terminated"));
        }
        Ok(Step::Late(Arc::new(CsvStep {
            csv,
            of,
            files: files.clone(),
            dress: Arc::clone(self.dress),
        })))
    }
}

fn sort(step: &SortStep) -> Result<Step> {
    let by = step.records.as_ref();
    Ok(Step::Sort {
        by: by.map(|by| named(by, "no key is named")).transpose()?,
        options: SortOptions {
            descending: step.descending,
            stable: step.stable,
            unique: step.unique,
            replace: false,
            delete_input: false,
        },
    })
}

fn merge(step: &MergeStep) -> Result<Step> {
    let by = step.merge_by.as_ref();
    Ok(Step::Merge {
        by: by.map(|by| named(by, "no key is named")).transpose()?,
        options: SortOptions {
            descending: step.descending,
            stable: step.stable,
            ..SortOptions::default()
        },
    })
}

fn unique(step: &UniqueStep) -> Result<Step> {
    let counted = step.counted.as_ref();
    Ok(match step.is_counted {
        false => Step::Unique,
        true => Step::Count {
            counted: counted
                .map(|counted| named(counted, "no type of counts"))
                .transpose()?,
        },
    })
}

fn scan(step: &ScanStep) -> Result<Step> {
    let op = match step.operator.as_str() {
        "sum" => ScanOp::Sum,
        "product" => ScanOp::Product,
        "min" => ScanOp::Min,
        "max" => ScanOp::Max,
        other => {
            return Err(
                Error::usage("scan", format!("`{other}` is not an operator"))
                    .hint("scan with sum, product, min or max"),
            );
        }
    };
    Ok(Step::Scan(
        op,
        match step.exclusive {
            true => Inclusion::Exclusive,
            false => Inclusion::Inclusive,
        },
    ))
}

/// The type of the records in Python's description.
fn named(records: &request::Records, cause: &str) -> Result<Decided> {
    records::named(&records.to_request()?)?.ok_or_else(|| wrong_step(cause))
}

fn wrong_step(cause: &str) -> Error {
    Error::usage("read step", cause.to_string())
}
