//! Lazy datasets: steps that fuse into passes, and consumers that run them.
//!
//! Contract: a [`Dataset`] is a value that describes an input and the steps on it; nothing is read
//! before a consumer runs. Item-by-item steps fuse into one pass. A step that needs all items first
//! (a sort, a shuffle, ...) writes its result to private scratch, or, as the last step, directly to
//! the destination. The item type may be known only at run time: steps are expressions, given
//! orders, or functions over the bytes of a batch.
//!
//! The command and the Python package are thin layers over this module. A step and its options are
//! defined only here, and every figure of a summary ([`Summary`]) comes from the engine.
//!
//! Bounds: memory is that of one pass at a time, under the job's budget; I/O is one read and one
//! write per pass, plus the needs of a sort or a shuffle.
//!
//! - [`step`]: the steps, and the item type after each
//! - [`resources`]: resources of a dataset: memory, drives, places for scratch
//! - [`execution`]: a dataset on its way through its steps
//! - [`context`], `read`, [`typed`], [`text`]: the same for Rust programs: [`Context`], values of a
//!   type, lines
//! - [`buckets`]: distributed items, and a function on each bucket
//! - [`field`](mod@field): orders of lines by fields
//! - [`whole`], [`stream`]: steps that need all items, a result read while it is produced
//! - `explain`: the passes as text, with the plan of the first one
//! - `consume`: reductions, selections, files by bucket
//! - [`lines`]: the input of a dataset of lines, and consumers only for lines

pub mod buckets;
mod consume;
pub mod context;
pub mod execution;
mod explain;
pub mod field;
pub mod lines;
mod names;
mod read;
pub mod resources;
mod scratch;
pub(crate) mod stages;
pub mod step;
pub mod stream;
pub mod text;
pub(crate) mod typed;
pub mod whole;

pub use buckets::Buckets;
pub use context::{Context, ContextBuilder};
pub use execution::{Execution, Mode};
pub use field::{Field, field};
pub use lines::LineSource;
pub use resources::ResourceProvider;
pub use stages::Sortable;
pub use step::{ItemType, LateStep, Settled, Step};
pub use text::Lines;
pub use typed::TypedDataset;

pub use crate::primitives::Summary;

use crate::ends::Input;
use crate::key::NpyHeader;
use crate::key::expr::Schema;
use crate::primitives::Table;
use outcore_io::Result;

/// Files and the type of their items.
#[derive(Debug, Clone)]
pub struct TypedFiles {
    /// The files, one after another.
    pub files: Vec<Input>,
    /// The type of each item.
    pub item: ItemType,
}

/// An input, and the steps on it; see the module.
pub struct Dataset {
    items: Items,
    steps: Vec<Step>,
}

/// The kind of items.
pub(crate) enum Items {
    Records(Box<Records>),
    Lines {
        source: Box<dyn LineSource>,
        terminator: u8,
    },
}

/// Records, and the steps of the next pass over them.
pub(crate) struct Records {
    files: Vec<Input>,
    table: Table,
    /// The header of a `.npy` file of these records, if it says more than the format.
    header: Option<NpyHeader>,
    /// Whether the table has steps of its own.
    is_refined: bool,
}

impl Dataset {
    /// The records of `files`, one file after another.
    pub fn records(files: &[Input], item: ItemType) -> Self {
        let table = item.table(files);
        Self::of(Records {
            files: files.to_vec(),
            table,
            header: item.header,
            is_refined: false,
        })
    }

    /// The numbers 0 to `count - 1`, of type `u64`.
    ///
    /// # Errors
    /// None that a caller could cause.
    pub fn count_up(count: u64) -> Result<Self> {
        Ok(Self::of(Records {
            files: Vec::new(),
            table: Table::count_up(count)?,
            header: None,
            is_refined: true,
        }))
    }

    /// The records of several inputs combined by position, as in [`Table::zip`].
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for too many inputs.
    pub fn zip(inputs: &[TypedFiles]) -> Result<Self> {
        if let [TypedFiles { files, item }] = inputs {
            return Ok(Self::records(files, item.clone()));
        }
        let tables = inputs.iter().map(|input| input.item.table(&input.files));
        let tables: Vec<Table> = tables.collect();
        Ok(Self::of(Records {
            files: Vec::new(),
            table: Table::zip(&tables)?,
            header: None,
            is_refined: true,
        }))
    }

    /// The lines of `source`, each terminated by `terminator`.
    pub fn lines(source: impl LineSource + 'static, terminator: u8) -> Self {
        Dataset {
            items: Items::Lines {
                source: Box::new(source),
                terminator,
            },
            steps: Vec::new(),
        }
    }

    fn of(records: Records) -> Self {
        Dataset {
            items: Items::Records(Box::new(records)),
            steps: Vec::new(),
        }
    }

    /// This dataset with one more step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// This dataset with more steps.
    #[must_use]
    pub fn and(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.steps.extend(steps);
        self
    }

    /// Keeps only the items for which `condition`, an expression, is true.
    #[must_use]
    pub fn filter(self, condition: &str) -> Self {
        self.then(Step::Filter(condition.to_string()))
    }

    /// Replaces each item with the value of `expression`.
    #[must_use]
    pub fn map(self, expression: &str) -> Self {
        self.then(Step::Map(expression.to_string()))
    }
}

impl ItemType {
    /// The records of `files`, with their own names.
    pub fn table(&self, files: &[Input]) -> Table {
        Table::read(files, &self.format, self.schema())
    }

    /// The names of the records' numbers.
    pub(crate) fn schema(&self) -> Schema {
        match &self.header {
            Some(header) if header.format.record_bytes() == self.format.record_bytes() => {
                Schema::of_npy(header, &self.format)
            }
            _ => Schema::of_format(&self.format),
        }
    }
}
