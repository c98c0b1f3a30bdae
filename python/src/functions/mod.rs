//! The functions of the module `outcore._outcore`, as Python calls them.
//!
//! Contract: each takes Python's arguments, runs the job on a thread of its own ([`crate::run`])
//! and turns the result into Python objects; none has rules of its own.

pub(crate) mod graph;
pub(crate) mod jobs;
pub(crate) mod table;
pub(crate) mod volume;
