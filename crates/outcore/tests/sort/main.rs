//! The sort against a naive one: every type, distribution, option, size, device and fault.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod conformance;
mod faults;
mod files;
mod plans;
mod properties;
mod shapes;
