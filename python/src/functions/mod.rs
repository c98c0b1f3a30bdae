//! The functions of the module `outcore._outcore`, as Python calls them.
//!
//! Contract: each takes what Python gives, lets the job do its work on a thread of its own
//! ([`crate::run`]) and makes Python's objects of what comes back; none holds a rule of its own.

pub(crate) mod graph;
pub(crate) mod jobs;
pub(crate) mod table;
pub(crate) mod volume;
