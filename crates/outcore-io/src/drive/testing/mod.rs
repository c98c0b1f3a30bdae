//! Drives for tests: in memory with a virtual clock, with injected faults, and without power.
//!
//! Contract: they are devices like any other. A job uses them only on request. Three callers
//! request them: tests, the command with `OUTCORE_FAULT`, and measurements that must not touch a
//! drive. They are next to the real drives because this crate's own unit tests need them
//! (`docs/decisions/0017-devices-for-tests-stay-below.md`).

mod fault;
mod power;
mod ram;

pub use fault::{Counted, Fault, FaultDevice, FaultPlan};
pub use power::{AfterLoss, PowerDevice};
pub use ram::{RamDevice, RamOptions};
