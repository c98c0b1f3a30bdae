//! Many drives as one place: striped volumes, and sealed datasets on them.
//!
//! Model: Falcon (Kumar and Huang, ATC 2017): requests are batched over the volume and served per
//! drive.
//!
//! - [`mapping`]: which drive stores which stripe of an address range
//! - [`striped`], [`batch`]: a volume of several drives, and one thread's batches of requests to it
//! - [`dataset`]: sealed datasets: written once, checksummed, found by name, also available as
//!   files of a device
//! - [`load`]: measures the rates that a volume sustains

pub mod batch;
pub mod dataset;
pub mod load;
pub mod mapping;
mod serving;
mod slab;
mod stripe;
pub mod striped;
