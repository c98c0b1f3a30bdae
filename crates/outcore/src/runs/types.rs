//! The contents of a view: records of one length, lines, or rows, and their order.
//!
//! Contract: pure definitions. An order of lines or rows is code, which a manifest cannot store. It
//! stores the order's name, and a program that opens such a view supplies the orders that names
//! mean ([`LineOrders`]). A view of rows also has a description: whatever its maker needs to read
//! the rows again.
//!
//! The sorted file may differ from the lines as stored in runs. The file may begin with further
//! bytes (the header of CSV). It may also have another terminator, for example if records contain
//! newlines and runs terminate records with NUL.

use std::fmt;
use std::sync::Arc;

use crate::key::record::RecordFormat;
use crate::key::scalar::ScalarOrder;
use crate::key::sort_key::{ByteOrder, SharedKey, Tie};
use outcore_io::{Error, Result};

/// The meaning of the names of line and row orders in manifests.
pub type LineOrders<'a> = &'a dyn Fn(&str) -> Result<SharedKey>;

/// How the records of a view are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewOrder {
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys are in the order of the input, not by the bytes of their records.
    pub stable: bool,
}

impl ViewOrder {
    /// How records of `format` are sorted as integers; `None` if they are not. NaNs with different
    /// bits are different integers but one key, and the positions of equal keys may matter.
    pub(crate) fn scalar(&self, format: &RecordFormat) -> Option<ScalarOrder> {
        let is_one_key = self.stable && format.has_floats();
        ScalarOrder::of(format, self.descending).filter(|_| !is_one_key)
    }

    /// Whether a view of this order sorts records of `format` as integers.
    pub fn sorts_scalars(&self, format: &RecordFormat) -> bool {
        self.scalar(format).is_some()
    }
}

/// Limit on the bytes before the lines, and on the description of rows.
pub(crate) const FRONT_BYTES_MAX: usize = 1 << 20;

/// Lines, and their order.
#[derive(Clone)]
pub struct LineType {
    /// The terminator of a line, in the input and in runs.
    pub terminator: u8,
    /// The terminator in the sorted file.
    pub file_terminator: u8,
    /// The bytes before the first line in the sorted file; at most [`FRONT_BYTES_MAX`].
    pub front: Arc<[u8]>,
    /// The order's name in the manifest; empty for byte order.
    pub order_name: String,
    /// The order itself.
    pub order: SharedKey,
}

impl LineType {
    /// Lines in the order of their bytes.
    pub fn of_bytes(terminator: u8) -> Self {
        Self::ordered(terminator, String::new(), Arc::new(ByteOrder))
    }

    /// Lines in a named order. The file contains nothing else.
    pub fn ordered(terminator: u8, order_name: String, order: SharedKey) -> Self {
        LineType {
            terminator,
            file_terminator: terminator,
            front: Arc::new([]),
            order_name,
            order,
        }
    }

    /// The byte that ends lines in the sorted file, if it differs from that of runs.
    pub fn other_end(&self) -> Option<u8> {
        (self.file_terminator != self.terminator).then_some(self.file_terminator)
    }

    /// Converts the terminators of lines from those of runs to those of the sorted file.
    pub(super) fn end_as_in_file(&self, lines: &mut [u8]) {
        if let Some(end) = self.other_end() {
            let ends = lines.iter_mut().filter(|byte| **byte == self.terminator);
            ends.for_each(|byte| *byte = end);
        }
    }
}

/// The general properties of an order of lines or rows.
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

/// Rows of any bytes, each preceded by its length, and their order.
#[derive(Clone)]
pub struct RowType {
    /// Data that their maker needs to read them again; at most 1 MiB.
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

/// The contents of a view.
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
    /// The records' format, unless they are lines or rows.
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

    /// The unit of positions in a run: a record, or a byte of lines or rows.
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

/// The orders that the engine knows: byte order.
pub(super) fn own_orders(name: &str) -> Result<SharedKey> {
    match name {
        "" => Ok(Arc::new(ByteOrder)),
        name => Err(
            Error::usage("open view", format!("its lines have the order `{name}`"))
                .hint("open it with the orders that contain this name (`open_with`)"),
        ),
    }
}

/// How a view is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BuildOptions {
    /// The order of records; lines have their own.
    pub order: ViewOrder,
    /// Whether an existing view is replaced.
    pub replace: bool,
    /// Keeps the data that are in memory at the end, so that a first read need not read them again.
    /// The memory belongs to the job until the view is dropped. Lines and rows are not kept.
    pub keeps_runs: bool,
    /// A run size, in place of the largest that fits in memory.
    pub run_bytes: Option<u64>,
}
