//! What a chart shows: axes, series, and the shape in which they are drawn.
//!
//! Contract: plain values without invariants; `draw` leaves out what has no place.

use outcore_io::units::Unit;
use serde::Serialize;

/// How equal distances on an axis relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal differences; the axis of values shows zero.
    #[default]
    Linear,
    /// Equal ratios, ticks at powers of two: block sizes, depths, threads.
    Log2,
    /// Equal ratios, ticks at powers of ten.
    Log10,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// How.
    pub scale: Scale,
    /// In what.
    pub unit: Unit,
    /// Names of the values 0, 1, 2 and so on, where they are not numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: impl Into<String>, unit: Unit) -> Self {
        Axis {
            label: label.into(),
            unit,
            ..Axis::default()
        }
    }

    /// The same on another scale.
    #[must_use]
    pub fn on(mut self, scale: Scale) -> Self {
        self.scale = scale;
        self
    }

    /// An axis of names.
    pub fn of_names(label: impl Into<String>, names: Vec<String>) -> Self {
        Axis {
            label: label.into(),
            names,
            ..Axis::default()
        }
    }
}

/// Some values over the x axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Series {
    /// What they are.
    pub name: String,
    /// Places and values.
    pub points: Vec<(f64, f64)>,
    /// Drawn thin and dashed: an ideal, a limit, something to compare with.
    pub is_reference: bool,
}

impl Series {
    /// Values that were found.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series {
            name: name.into(),
            points,
            is_reference: false,
        }
    }

    /// Values to compare with.
    pub fn reference(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series {
            is_reference: true,
            ..Series::new(name, points)
        }
    }
}

/// What the values are drawn as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A line with a mark at each point.
    #[default]
    Lines,
    /// Bars side by side over named places.
    Bars,
    /// Dots in the place of bars: for logarithmic axes, where the length of a bar means nothing.
    Dots,
}

/// Several series over one axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Chart {
    /// Name for files and links: `read-by-depth`.
    pub id: String,
    /// Above it.
    pub title: String,
    /// What the points are over.
    pub x: Axis,
    /// What they show.
    pub y: Axis,
    /// As what.
    pub shape: Shape,
    /// The values.
    pub series: Vec<Series>,
}
