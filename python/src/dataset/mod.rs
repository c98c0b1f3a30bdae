//! Lazy datasets: steps from Python, one native pass for each consumer.
//!
//! Contract: a dataset is a request (files, what their records are, steps) that the Python half
//! builds; every consumer here runs it on a thread of its own. Steps that go item by item fuse into
//! one pass; how they are planned and run is the engine's ([`outcore::dataset`]). Expressions stay
//! in Rust. A function of the caller's gets the bytes of a batch, from the job's threads with the
//! interpreter held for the call; what it raises stops the job and is raised again as it is.
//!
//! | file | does |
//! |---|---|
//! | `said` | what Python says: files, steps, functions |
//! | `watched` | a job on a thread of its own; what a dataset is, and would do |
//! | [`open`] | opens files |
//! | [`steps`] | the engine's steps, of what Python says |
//! | [`consume`] | folds, writes, selects |
//! | [`batches`] | iteration |

pub(crate) mod batches;
pub(crate) mod consume;
mod open;
mod said;
mod steps;
pub(crate) mod watched;
