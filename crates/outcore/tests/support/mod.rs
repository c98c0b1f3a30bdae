//! What the integration tests share: the conformance kit, the oracle, jobs and devices for tests.
//!
//! Other crates' tests include the kit by path (`#[path = "../../outcore/tests/support/mod.rs"]`).

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod cases;
pub mod devices;
pub mod oracle;
pub mod patterns;
pub mod runs;
pub mod watchdog;

/// Whether long sweeps were asked for (`OUTCORE_TEST_LONG=1`); says so where they were not.
pub fn is_long() -> bool {
    let is_long = std::env::var_os("OUTCORE_TEST_LONG").is_some_and(|value| value == "1");
    if !is_long {
        eprintln!("short sweep: OUTCORE_TEST_LONG=1 runs the long one");
    }
    is_long
}
