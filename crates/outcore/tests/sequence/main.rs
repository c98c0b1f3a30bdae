//! The primitives against iterators over vectors: types, sizes, files over drives, faults, panics.
//!
//! Contract: every expected result comes from the standard library's iterators over the whole data.

#![allow(clippy::unwrap_used)]

mod conformance;
mod consumers;
mod drives;
mod faults;
mod files;
mod passes;
mod support;
mod trouble;
