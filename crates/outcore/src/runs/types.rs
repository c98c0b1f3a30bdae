//! What a view holds: records of one length, lines, or rows, and how they are ordered.
//!
//! Contract: pure definitions. An order of lines or rows is code, which a manifest cannot hold: it
//! holds the order's name, and whoever opens such a view brings the orders that names mean
//! ([`LineOrders`]). A view of rows also has a description, which is whatever their maker needs to
//! read them again.
//!
//! The sorted file may have more than lines as they lie in runs: bytes in front of them, as CSV has
//! its header, and another end of lines, as where records hold newlines and runs end them with NUL.

use std::fmt;
use std::sync::Arc;

use crate::key::record::RecordFormat;
use crate::key::scalar::ScalarOrder;
use crate::key::sort_key::{ByteOrder, SharedKey, Tie};
use outcore_io::{Error, Result};

/// The orders of lines and rows that names in manifests mean.
pub type LineOrders<'a> = &'a dyn Fn(&str) -> Result<SharedKey>;

/// How the records of a view are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewOrder {
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys in the order of the input, not by the bytes of their records.
    pub stable: bool,
}

impl ViewOrder {
    /// How records of `format` are sorted as integers; nothing where they are not. NaNs of
    /// different bits are one key, among which places may count, and different integers.
    pub(crate) fn scalar(&self, format: &RecordFormat) -> Option<ScalarOrder> {
        let is_one_key = self.stable && format.has_floats();
        ScalarOrder::of(format, self.descending).filter(|_| !is_one_key)
    }

    /// Whether a view of this order sorts records of `format` as integers.
    pub fn sorts_scalars(&self, format: &RecordFormat) -> bool {
        self.scalar(format).is_some()
    }
}

/// The most bytes in front of the lines, and of the description of rows.
pub(crate) const FRONT_BYTES_MAX: usize = 1 << 20;

/// Lines, and their order.
#[derive(Clone)]
pub struct LineType {
    /// What ends a line, in the input and in runs.
    pub terminator: u8,
    /// What ends it in the sorted file.
    pub file_terminator: u8,
    /// What stands before the first line in the sorted file; at most [`FRONT_BYTES_MAX`].
    pub front: Arc<[u8]>,
    /// The order's name in the manifest; empty for the order of bytes.
    pub order_name: String,
    /// The order itself.
    pub order: SharedKey,
}

impl LineType {
    /// Lines in the order of their bytes.
    pub fn of_bytes(terminator: u8) -> Self {
        Self::ordered(terminator, String::new(), Arc::new(ByteOrder))
    }

    /// Lines in an order and its name. The file has nothing but them.
    pub fn ordered(terminator: u8, order_name: String, order: SharedKey) -> Self {
        LineType {
            terminator,
            file_terminator: terminator,
            front: Arc::new([]),
            order_name,
            order,
        }
    }

    /// The byte that ends lines in the sorted file, if it is not that of runs.
    pub fn other_end(&self) -> Option<u8> {
        (self.file_terminator != self.terminator).then_some(self.file_terminator)
    }

    /// Ends lines that were read from runs as the sorted file ends them.
    pub(super) fn end_as_in_file(&self, lines: &mut [u8]) {
        if let Some(end) = self.other_end() {
            let ends = lines.iter_mut().filter(|byte| **byte == self.terminator);
            ends.for_each(|byte| *byte = end);
        }
    }
}

/// What can be said of an order of lines or rows in general.
pub(super) fn view_order_of(order: &SharedKey) -> ViewOrder {
    ViewOrder {
        descending: order.is_descending(),
        stable: !order.is_item() && order.tie() == Tie::Position,
    }
}

impl fmt::Debug for LineType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineType")
            .field("terminator", &self.terminator)
            .field("file_terminator", &self.file_terminator)
            .field("front_bytes", &self.front.len())
            .field("order_name", &self.order_name)
            .finish_non_exhaustive()
    }
}

impl PartialEq for LineType {
    fn eq(&self, other: &Self) -> bool {
        self.terminator == other.terminator
            && self.file_terminator == other.file_terminator
            && self.front == other.front
            && self.order_name == other.order_name
    }
}

/// Rows of any bytes, each with its length in front, and their order.
#[derive(Clone)]
pub struct RowType {
    /// What their maker needs to read them again; at most 1 MiB.
    pub description: Arc<[u8]>,
    /// The order's name in the manifest.
    pub order_name: String,
    /// The order itself.
    pub order: SharedKey,
}

impl fmt::Debug for RowType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowType")
            .field("description_bytes", &self.description.len())
            .field("order_name", &self.order_name)
            .finish_non_exhaustive()
    }
}

impl PartialEq for RowType {
    fn eq(&self, other: &Self) -> bool {
        self.description == other.description && self.order_name == other.order_name
    }
}

/// What a view holds.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewType {
    /// Records of one length.
    Records(RecordFormat),
    /// Lines.
    Lines(LineType),
    /// Rows.
    Rows(RowType),
}

impl ViewType {
    /// The records' format, if they are not lines or rows.
    pub fn records(&self) -> Option<&RecordFormat> {
        match self {
            ViewType::Records(format) => Some(format),
            ViewType::Lines(_) | ViewType::Rows(_) => None,
        }
    }

    /// The lines, if they are lines.
    pub fn lines(&self) -> Option<&LineType> {
        match self {
            ViewType::Records(_) | ViewType::Rows(_) => None,
            ViewType::Lines(lines) => Some(lines),
        }
    }

    /// The rows, if they are rows.
    pub fn rows(&self) -> Option<&RowType> {
        match self {
            ViewType::Records(_) | ViewType::Lines(_) => None,
            ViewType::Rows(rows) => Some(rows),
        }
    }

    /// The order of lines or rows, and its name.
    pub(super) fn item_order(&self) -> Option<(&str, &SharedKey)> {
        match self {
            ViewType::Records(_) => None,
            ViewType::Lines(lines) => Some((&lines.order_name, &lines.order)),
            ViewType::Rows(rows) => Some((&rows.order_name, &rows.order)),
        }
    }

    /// What positions in a run count: a record, or a byte of lines or rows.
    pub(super) fn unit_bytes(&self) -> usize {
        self.records().map_or(1, RecordFormat::record_bytes)
    }
}

impl From<&RecordFormat> for ViewType {
    fn from(format: &RecordFormat) -> Self {
        ViewType::Records(format.clone())
    }
}

impl From<LineType> for ViewType {
    fn from(lines: LineType) -> Self {
        ViewType::Lines(lines)
    }
}

/// The orders that the engine knows: that of bytes.
pub(super) fn own_orders(name: &str) -> Result<SharedKey> {
    match name {
        "" => Ok(Arc::new(ByteOrder)),
        name => Err(
            Error::usage("open view", format!("its lines have the order `{name}`"))
                .hint("open it with the orders that the name is of (`open_with`)"),
        ),
    }
}

/// How a view is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BuildOptions {
    /// The order of records; lines bring theirs.
    pub order: ViewOrder,
    /// Replace a view that is there.
    pub replace: bool,
    /// Keep in memory what is there at the end, so that a first read need not read it again. The
    /// memory is the job's until the view is dropped. Of lines and rows nothing is kept.
    pub keeps_runs: bool,
    /// Runs of that size, instead of the largest that fit the memory.
    pub run_bytes: Option<u64>,
}
