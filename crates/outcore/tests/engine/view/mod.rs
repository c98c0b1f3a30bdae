//! Views against a naive sort: reads through any interface equal the sorted file, and damage is
//! reported.
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
