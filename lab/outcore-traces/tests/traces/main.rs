//! The tests of trace formats: one program, since each that links them takes seconds to build.
//!
//! Contract: a module a subject; no test depends on another or on what runs beside it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod block;
mod gpu;
mod io_trace;
mod recorded;
mod samples;
