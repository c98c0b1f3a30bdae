//! Shared parts of the integration tests: the conformance kit, the oracle, jobs and devices for
//! tests.
//!
//! Other crates' tests include the kit by path (`#[path = "../../outcore/tests/support/mod.rs"]`).

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod cases;
pub mod depth;
#[path = "../../../outcore-io/tests/support/devices.rs"]
pub mod devices;
pub mod often;
pub mod oracle;
pub mod patterns;
pub mod runs;
pub mod watchdog;

/// Whether long sweeps were requested (`OUTCORE_TEST_LONG=1`); prints a message once if not.
pub fn is_long() -> bool {
    static IS_LONG: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *IS_LONG.get_or_init(|| {
        let is_long = std::env::var_os("OUTCORE_TEST_LONG").is_some_and(|value| value == "1");
        if !is_long {
            eprintln!("short sweeps: OUTCORE_TEST_LONG=1 runs the long ones");
        }
        is_long
    })
}
