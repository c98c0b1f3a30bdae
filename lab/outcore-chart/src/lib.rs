//! Charts of measured and simulated values as SVG.
//!
//! Contract: pure; the same values give the same text, byte for byte. The same SVG works on a page
//! of its own and inside HTML, on light and on dark backgrounds, because its colours are variables
//! that [`STYLE`] sets. Pointing at a point shows its values. Points without a place (not finite,
//! or not positive on a logarithmic axis) are omitted; a chart without points is an error.
//!
//! N.B. This is the only chart stack. The library plotters draws the same lines and bars, but with
//! fixed colours, without values to point at, and with ticks at 3.1 where a block size needs powers
//! of two. It would also be one more dependency.
//!
//! | module | what it has |
//! |---|---|
//! | `chart` | [`Chart`]: the content |
//! | `axis` | scales and their ticks |
//! | `draw` | the SVG |
#![forbid(unsafe_code)]

mod axis;
mod chart;
mod draw;

pub use chart::{Axis, Chart, Scale, Series, Shape};
pub use draw::STYLE;
