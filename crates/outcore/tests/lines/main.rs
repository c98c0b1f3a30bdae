//! Sorts of lines against a naive one: orders, options, odd files, drives, faults.
//!
//! Contract: every expected output comes from `jobs::expected`, which sorts with
//! [`outcore::key::sort_key::compare_items`] in memory and shares no code with the engine.

#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

mod faults;
mod jobs;
mod ledgers;
mod properties;
mod streams;
mod texts;
