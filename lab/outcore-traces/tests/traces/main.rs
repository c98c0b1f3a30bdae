//! The tests of trace formats are one program, because linking each program takes seconds.
//!
//! Contract: one module per subject. No test depends on another or on tests that run at the same
//! time.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod block;
mod gpu;
mod io_trace;
mod recorded;
mod samples;
