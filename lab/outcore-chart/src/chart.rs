//! The content of a chart: axes, series, and the shape in which they are drawn.
//!
//! Contract: plain values without invariants; `draw` omits points without a place.

use outcore_io::units::Unit;
use serde::Serialize;

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal distances are equal differences; the axis of values includes zero.
    #[default]
    Linear,
    /// Equal distances are equal ratios, with ticks at powers of two: block sizes, depths, threads.
    Log2,
    /// Equal distances are equal ratios, with ticks at powers of ten.
    Log10,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Axis {
    /// Its title.
    pub label: String,
    /// Its scale.
    pub scale: Scale,
    /// Unit of its values.
    pub unit: Unit,
    /// Names of the values 0, 1, 2 and so on, if they are not numbers.
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

    /// The same axis on another scale.
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
    /// Its name.
    pub name: String,
    /// Places and values.
    pub points: Vec<(f64, f64)>,
    /// Drawn thin and dashed: an ideal, a limit, or another reference value.
    pub is_reference: bool,
}

impl Series {
    /// A series of results.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series {
            name: name.into(),
            points,
            is_reference: false,
        }
    }

    /// A series of reference values.
    pub fn reference(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Series {
            is_reference: true,
            ..Series::new(name, points)
        }
    }
}

/// How the values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A line with a mark at each point.
    #[default]
    Lines,
    /// Bars next to each other over named places.
    Bars,
    /// Dots instead of bars, for logarithmic axes, where the length of a bar has no meaning.
    Dots,
}

/// Several series over a common axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Chart {
    /// Name for files and links: `read-by-depth`.
    pub id: String,
    /// Title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// How the series are drawn.
    pub shape: Shape,
    /// The values.
    pub series: Vec<Series>,
}
