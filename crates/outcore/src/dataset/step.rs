//! The steps of a dataset, and what items are after each.
//!
//! Contract: every option of a step stands here, once for all fronts. What makes no sense is
//! refused when the step is taken, before anything is read.

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

/// What records are, and the header that a `.npy` file of them has.
#[derive(Debug, Clone)]
pub struct ItemType {
    /// Size and keys.
    pub format: RecordFormat,
    /// The header of the first input that has one, or of the dtype that was given.
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
    /// Records of a position (`u64`) and an item of this type, in the order of both.
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
    /// Makes a number, or a vector, of each record with an expression.
    Map(String),
    /// A function over the bytes of a batch.
    Call {
        /// The function.
        step: Arc<dyn BatchStep>,
        /// What it makes.
        made: ItemType,
        /// How many items it makes of one.
        yields: Yield,
    },
    /// All that some expressions make of each record, one after another.
    FlatMap(Vec<String>),
    /// Each record after its position, which counts from 0.
    Enumerate {
        /// What records of a position and an item are.
        made: ItemType,
    },
    /// Each record joined with the records that follow it: 2 to 8 in all.
    Windows(usize),
    /// The last record first.
    Reverse,
    /// The records of files that are each in order already, in one order; as [`Step::Sort`].
    Merge {
        /// Other keys than their own.
        by: Option<ItemType>,
        /// Direction and ties.
        options: SortOptions,
    },
    /// Records in order: in their own, or by other keys of records as long.
    Sort {
        /// The other keys.
        by: Option<ItemType>,
        /// Direction, ties, one record a key.
        options: SortOptions,
    },
    /// Lines in order.
    SortLines {
        /// The order.
        order: SharedKey,
        /// Ends of lines, one line a key, counts, lines without a key.
        options: LineSortOptions,
        /// Whether each file is in this order already, so that they are merged.
        merges: bool,
    },
    /// A step on lines that is known once their files have been looked at; the last one.
    Late(Arc<dyn LateStep>),
    /// All items in a random order that depends on seed and epoch alone.
    Shuffle {
        /// Chooses the order.
        seed: u64,
        /// Chooses another one, independent of it, for the same seed.
        epoch: u64,
    },
    /// One of each item, in order.
    Unique,
    /// One of each item, in order, with how many there are of it.
    Count {
        /// What records of an item and its count are; not needed for lines.
        counted: Option<ItemType>,
    },
    /// Prefixes of numbers.
    Scan(ScanOp, Inclusion),
}

/// A step on lines that depends on what their files hold: the columns of CSV, named by a header.
pub trait LateStep: Send + Sync {
    /// What it does, for people: as in "read lines -> sort".
    fn text(&self) -> &'static str;

    /// Looks at the files, makes them ready, and says what is to be done with them.
    ///
    /// # Errors
    /// Files that are not what the step is for.
    fn settle(&self, job: &Job) -> Result<Settled>;
}

/// What a [`LateStep`] becomes.
pub struct Settled {
    /// A sort of lines, or a shuffle.
    pub step: Step,
    /// What ends a line of the files now.
    pub terminator: u8,
}

impl Step {
    /// Whether it goes item by item, so that it fuses with its neighbours.
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

    /// Whether it reads files as they are, and not what a table makes of them.
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

    /// Whether what it makes of records can be written as shards.
    pub(super) fn can_be_sharded(&self) -> bool {
        match self {
            Step::Sort { options, .. } => !options.unique,
            Step::Shuffle { .. } | Step::Scan(..) | Step::Reverse => true,
            _ => false,
        }
    }

    /// The step as it is taken with records of type `now`.
    pub(super) fn of_records(self, now: &ItemType) -> Result<Step> {
        match &self {
            Step::Sort { by: Some(by), .. } | Step::Merge { by: Some(by), .. } => {
                let (bytes, item_bytes) = (by.format.record_bytes(), now.format.record_bytes());
                match bytes == item_bytes {
                    true => Ok(self),
                    false => Err(wrong_step(&format!(
                        "a key in {bytes} bytes, and records of {item_bytes}"
                    ))),
                }
            }
            Step::Count { counted: None } => Err(wrong_step("no type of counts")),
            Step::SortLines { .. } | Step::Late(_) => Err(wrong_step("this step is for lines")),
            _ => Ok(self),
        }
    }

    /// The step as it is taken with lines that end with `terminator`.
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

/// Why nothing may follow a step on CSV.
pub(super) fn late_is_last() -> Error {
    wrong_step("a step on CSV is the last one: others would take its header for a line")
        .hint("write it, and open what was written")
}

pub(super) fn wrong_step(cause: &str) -> Error {
    Error::usage("read step", cause.to_string())
}
