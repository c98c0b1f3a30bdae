//! Views against a naive sort: whatever is read through one, by any interface, equals the sorted
//! file, and what is broken is named.
//!
//! Contract: every expected byte comes from `support::oracle`, which shares no code with the
//! engine.

mod build;
mod faults;
mod kit;
mod line_case;
mod lines;
mod metadata;
mod properties;
mod rows;
