//! Drives for tests: in memory with a virtual clock, and with injected faults.
//!
//! Contract: both are devices like any other. No job uses them unless asked to: tests do, the
//! command with `OUTCORE_FAULT`, and measurements that must not touch a drive. They are next to the
//! real drives because this crate's own unit tests need them
//! (`docs/decisions/0017-devices-for-tests-stay-below.md`).

mod fault;
mod ram;

pub use fault::{Counted, Fault, FaultDevice, FaultPlan};
pub use ram::{RamDevice, RamOptions};
