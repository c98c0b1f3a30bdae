//! The primitives against iterators over vectors: types, sizes, files over drives, faults, panics.
//!
//! Contract: every expected result comes from the standard library's iterators over the whole data.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod arranged;
mod conformance;
mod consumers;
mod dataset;
mod drives;
mod faults;
mod files;
#[path = "../support/often.rs"]
mod often;
mod passes;
mod support;
mod trouble;
