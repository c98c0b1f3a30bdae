//! Sorts of lines against a naive one: orders, options, odd files, drives, faults.
//!
//! Contract: every expected output comes from `jobs::expected`, which sorts with
//! [`outcore::key::sort_key::compare_items`] in memory and shares no code with the engine.

mod faults;
mod jobs;
mod ledgers;
mod properties;
pub(crate) mod rows;
mod streams;
pub(crate) mod texts;
