//! The simulator's tests: one program, since each that links it takes seconds to build.
//!
//! Contract: a module a subject; no test depends on another or on what runs beside it.

#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod activesort;
mod allegro;
mod device;
mod frontends;
mod gpu;
mod mqsim;
mod mutations;
mod oracles;
mod policies;
mod random_drives;
mod replay;
