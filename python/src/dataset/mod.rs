//! Lazy datasets: steps from Python, one native pass for each consumer.
//!
//! Contract: a dataset is a request (files, the type of their records, steps) that the Python half
//! builds; every consumer here runs it on a thread of its own. Steps that go item by item fuse into
//! one pass; the engine plans and runs them ([`outcore::dataset`]). Expressions stay in Rust. A
//! function of the caller gets the bytes of a batch. The job's threads call it, and hold the
//! interpreter for the call. An exception in it stops the job and is raised again unchanged.
//!
//! | file | does |
//! |---|---|
//! | `said` | Python's description: files, steps, functions |
//! | `watched` | a job on a thread of its own; the type and the plan of a dataset |
//! | [`open`] | opens files |
//! | [`steps`] | the engine's steps from Python's description |
//! | [`consume`] | folds, writes, selects |
//! | [`batches`] | iteration |

pub(crate) mod batches;
pub(crate) mod consume;
mod open;
mod said;
mod steps;
pub(crate) mod watched;
