//! The simulator's tests are one program, because linking each program takes seconds.
//!
//! Contract: one module per subject. No test depends on another or on tests that run at the same
//! time.

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
