//! The primitives against iterators over vectors: types, sizes, files over drives, faults, panics.
//!
//! Contract: every expected result comes from the standard library's iterators over the whole data.

mod arranged;
mod conformance;
mod consumers;
mod dataset;
mod drives;
mod faults;
mod files;
mod forecasts;
mod kit;
mod lookups;
mod passes;
mod trouble;
