//! The sort against a naive one: every type, distribution, option, size, device and fault.
//!
//! Contract: every expected output comes from `support::oracle`, which shares no code with the
//! engine.

mod conformance;
mod depth;
mod faults;
mod files;
mod ledgers;
mod plans;
mod properties;
mod shapes;
mod traffic;
