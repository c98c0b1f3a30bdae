//! Graphs end to end: converted and computed on, compared with naive algorithms in memory.
//!
//! Contract: every result is compared with that of an algorithm that is too simple to be wrong
//! ([`oracle`]), on random graphs of many shapes, with little memory, on one thread and several.

#![allow(missing_docs, clippy::unwrap_used)]

mod bundles;
mod columns;
mod common;
mod communities;
mod convert;
mod faults;
mod formats;
mod fuzzed;
mod in_flight;
mod kernels;
mod matrices;
mod names;
mod once;
mod oracle;
mod ranks;
mod samples;
mod weights;

#[path = "../../../outcore/tests/support/depth.rs"]
#[allow(dead_code, unreachable_pub)] // other tests use more of it
mod depth;
#[path = "../../../outcore-io/tests/support/devices.rs"]
#[allow(dead_code, unreachable_pub)]
mod devices;
