//! The steps of a dataset, and the item type after each.
//!
//! Contract: every option of a step is defined here, once for all front ends. An impossible step is
//! rejected when it is taken, before anything is read.

use std::sync::Arc;

use crate::job::Job;
use crate::key::sort_key::{ByteOrder, SharedKey};
use crate::key::{KeyField, NpyHeader, RecordFormat};
use crate::primitives::Inclusion;
use crate::primitives::batch::Yield;
use crate::primitives::table::BatchStep;
use crate::primitives::tables::ScanOp;
use crate::sort::SortOptions;
use crate::sort::lines::LineSortOptions;
use outcore_io::{Error, Result};

/// The type of records, and the header of a `.npy` file of them.
#[derive(Debug, Clone)]
pub struct ItemType {
    /// Size and keys.
    pub format: RecordFormat,
    /// The header of the first input that has one, or of the given dtype.
    pub header: Option<NpyHeader>,
}

impl From<RecordFormat> for ItemType {
    fn from(format: RecordFormat) -> Self {
        ItemType {
            format,
            header: None,
        }
    }
}

impl ItemType {
    /// Records of a position (`u64`) and an item of this type, ordered by both.
    ///
    /// # Errors
    /// Records that are too long.
    pub fn numbered(&self) -> Result<Self> {
        const POSITION_BYTES: usize = 8;
        let mut keys = vec![RecordFormat::parse_type("u64")?.keys()[0]];
        keys.extend(self.format.keys().iter().map(|key| KeyField {
            offset_bytes: key.offset_bytes + POSITION_BYTES,
            ..*key
        }));
        let record_bytes = self.format.record_bytes() + POSITION_BYTES;
        Ok(RecordFormat::new(record_bytes, keys)?.into())
    }
}

/// One step.
#[derive(Clone)]
pub enum Step {
    /// Keeps the records for which an expression is true.
    Filter(String),
    /// Computes a number, or a vector, from each record with an expression.
    Map(String),
    /// A function over the bytes of a batch.
    Call {
        /// The function.
        step: Arc<dyn BatchStep>,
        /// The type of the function's results.
        made: ItemType,
        /// The number of results per item.
        yields: Yield,
    },
    /// The results of several expressions for each record, one after another.
    FlatMap(Vec<String>),
    /// Each record preceded by its position, from 0.
    Enumerate {
        /// The type of records of a position and an item.
        made: ItemType,
    },
    /// Each record joined with its successors: 2 to 8 records in all.
    Windows(usize),
    /// The last record first.
    Reverse,
    /// Merges the records of sorted files into one order; see [`Step::Sort`] for the fields.
    Merge {
        /// Keys that replace the records' own.
        by: Option<ItemType>,
        /// Direction and ties.
        options: SortOptions,
    },
    /// Sorts records by their own keys, or by other keys of the same record length.
    Sort {
        /// The other keys.
        by: Option<ItemType>,
        /// Direction, ties, one record per key.
        options: SortOptions,
    },
    /// Sorts lines.
    SortLines {
        /// The order.
        order: SharedKey,
        /// Terminators, one line per key, counts, lines without a key.
        options: LineSortOptions,
        /// Whether each file is already in this order, so that a merge is enough.
        merges: bool,
    },
    /// A step on lines that depends on the contents of their files; it must be the last one.
    Late(Arc<dyn LateStep>),
    /// All items in a random order that depends only on seed and epoch.
    Shuffle {
        /// Determines the order.
        seed: u64,
        /// Selects another, independent order for the same seed.
        epoch: u64,
    },
    /// Each distinct item once, in order.
    Unique,
    /// Each distinct item once, in order, with its count.
    Count {
        /// The type of records of an item and its count; unused for lines.
        counted: Option<ItemType>,
    },
    /// Prefixes of numbers.
    Scan(ScanOp, Inclusion),
}

/// A step on lines that depends on the contents of their files: columns of CSV, named by a header.
pub trait LateStep: Send + Sync {
    /// The description of the step for people, as in "read lines -> sort".
    fn text(&self) -> &'static str;

    /// Examines the files, prepares them, and returns the step to run.
    ///
    /// # Errors
    /// Files that do not suit the step.
    fn settle(&self, job: &Job) -> Result<Settled>;
}

/// The result of a [`LateStep`].
pub struct Settled {
    /// A sort of lines, or a shuffle.
    pub step: Step,
    /// The terminator of the prepared files.
    pub terminator: u8,
}

impl Step {
    /// Whether the step works item by item, so that it fuses with its neighbours.
    pub fn is_fused(&self) -> bool {
        matches!(
            self,
            Step::Filter(_)
                | Step::Map(_)
                | Step::FlatMap(_)
                | Step::Enumerate { .. }
                | Step::Call { .. }
        )
    }

    /// Whether the step reads files directly, and not the results of a table.
    pub(super) fn reads_files(&self) -> bool {
        matches!(
            self,
            Step::Sort { .. }
                | Step::Merge { .. }
                | Step::SortLines { .. }
                | Step::Shuffle { .. }
                | Step::Late(_)
        )
    }

    /// Whether the step's results for records can be written as shards.
    pub(super) fn can_be_sharded(&self) -> bool {
        match self {
            Step::Sort { options, .. } => !options.unique,
            Step::Shuffle { .. } | Step::Scan(..) | Step::Reverse => true,
            _ => false,
        }
    }

    /// The step for records of type `now`.
    pub(super) fn of_records(self, now: &ItemType) -> Result<Step> {
        match &self {
            Step::Sort { by: Some(by), .. } | Step::Merge { by: Some(by), .. } => {
                let (bytes, item_bytes) = (by.format.record_bytes(), now.format.record_bytes());
                match bytes == item_bytes {
                    true => Ok(self),
                    false => Err(wrong_step(&format!(
                        "the key describes records of {bytes} bytes, but the records have \
                         {item_bytes}"
                    ))),
                }
            }
            Step::Count { counted: None } => Err(wrong_step("no type of counts")),
            Step::SortLines { .. } | Step::Late(_) => Err(wrong_step("this step is for lines")),
            _ => Ok(self),
        }
    }

    /// The step for lines that end with `terminator`.
    pub(super) fn of_lines(self, terminator: u8) -> Result<Step> {
        let whole = |unique, count| Step::SortLines {
            order: Arc::new(ByteOrder),
            options: LineSortOptions {
                terminator,
                unique,
                count,
                ..LineSortOptions::default()
            },
            merges: false,
        };
        match self {
            Step::Unique => Ok(whole(true, false)),
            Step::Count { .. } => Ok(whole(false, true)),
            Step::SortLines { .. } | Step::Late(_) | Step::Shuffle { .. } => Ok(self),
            _ => Err(wrong_step("this step is for records")),
        }
    }
}

/// Why no step may follow a step on CSV.
pub(super) fn late_is_last() -> Error {
    wrong_step("a step on CSV must be the last one: other steps would treat its header as a line")
        .hint("write it, and open the result")
}

pub(super) fn wrong_step(cause: &str) -> Error {
    Error::usage("read step", cause.to_string())
}
