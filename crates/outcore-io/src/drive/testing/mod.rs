//! Drives for trying things out: in memory with a virtual clock, and with faults on purpose.
//!
//! Contract: both are devices like any other. No job runs on them unless it was asked to: tests do,
//! the command with `OUTCORE_FAULT`, and measurements that must not touch a drive. They stay beside
//! the real drives because this crate's own unit tests stand on them
//! (`docs/decisions/0017-devices-for-tests-stay-below.md`).

mod fault;
mod ram;

pub use fault::{Counted, Fault, FaultDevice, FaultPlan};
pub use ram::{RamDevice, RamOptions};
