//! What a view holds: records of one length, or lines, and how they are ordered.
//!
//! Contract: pure definitions. An order of lines is code, which a manifest cannot hold: it holds the
//! order's name, and whoever opens a view of lines brings the orders that names mean ([`LineOrders`]).

use std::fmt;
use std::sync::Arc;

use crate::data::lines::{ByteOrder, LineOrder, LineTie};
use crate::data::record::RecordFormat;
use crate::error::{Error, Result};

/// An order of lines that threads share.
pub type SharedLineOrder = Arc<dyn LineOrder + Send + Sync>;

/// The orders of lines that names in manifests mean.
pub type LineOrders<'a> = &'a dyn Fn(&str) -> Result<SharedLineOrder>;

/// How the records of a view are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewOrder {
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys in the order of the input, not by the bytes of their records.
    pub stable: bool,
}

/// Lines, and their order.
#[derive(Clone)]
pub struct LineType {
    /// What ends a line.
    pub terminator: u8,
    /// The order's name in the manifest; empty for the order of bytes.
    pub order_name: String,
    /// The order itself.
    pub order: SharedLineOrder,
}

impl LineType {
    /// Lines in the order of their bytes.
    pub fn of_bytes(terminator: u8) -> Self {
        LineType {
            terminator,
            order_name: String::new(),
            order: Arc::new(ByteOrder),
        }
    }

    /// What can be said of its order in general.
    pub(super) fn view_order(&self) -> ViewOrder {
        ViewOrder {
            descending: self.order.is_descending(),
            stable: !self.order.is_whole_line() && self.order.tie() == LineTie::Position,
        }
    }
}

impl fmt::Debug for LineType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineType")
            .field("terminator", &self.terminator)
            .field("order_name", &self.order_name)
            .finish_non_exhaustive()
    }
}

impl PartialEq for LineType {
    fn eq(&self, other: &Self) -> bool {
        self.terminator == other.terminator && self.order_name == other.order_name
    }
}

/// What a view holds.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewType {
    /// Records of one length.
    Records(RecordFormat),
    /// Lines.
    Lines(LineType),
}

impl ViewType {
    /// The records' format, if they are not lines.
    pub fn records(&self) -> Option<&RecordFormat> {
        match self {
            ViewType::Records(format) => Some(format),
            ViewType::Lines(_) => None,
        }
    }

    /// What positions in a run count: a record, or a byte of lines.
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
pub(super) fn own_orders(name: &str) -> Result<SharedLineOrder> {
    match name {
        "" => Ok(Arc::new(ByteOrder)),
        name => Err(
            Error::usage("open view", format!("its lines have the order `{name}`"))
                .hint("open it with the orders that the name is of (`open_with`)"),
        ),
    }
}
