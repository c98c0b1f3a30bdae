//! Charts of measured and simulated values as SVG.
//!
//! Contract: pure; the same values give the same text, byte for byte. One SVG is at home on a page
//! of its own and inside HTML, on light and on dark ground: its colours are variables that
//! [`STYLE`] sets. Every point says its values when it is pointed at. Points without a place (not
//! finite, or not positive on a logarithmic axis) are left out; a chart without points is an error.
//!
//! N.B. This is the only chart stack. plotters drew the same lines and bars, but in fixed colours,
//! without values to point at, with ticks at 3.1 where a block size wants powers of two, and as one
//! more dependency.
//!
//! | module | what it has |
//! |---|---|
//! | `chart` | [`Chart`]: what is shown |
//! | `axis` | scales and their ticks |
//! | `draw` | the SVG |
#![forbid(unsafe_code)]

mod axis;
mod chart;
mod draw;

pub use chart::{Axis, Chart, Scale, Series, Shape};
pub use draw::STYLE;
