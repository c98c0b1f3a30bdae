//! MANY drives as one place: striped volumes, and datasets sealed on them.
//!
//! Model: Falcon (Kumar and Huang, ATC 2017): requests are batched over the volume and served per
//! drive.
//!
//! - [`mapping`]: which drive has which stripe of an address
//! - [`striped`], [`batch`]: a volume of several drives, and one thread's batches of requests to it
//! - [`dataset`]: sealed datasets: written once, checksummed, found again by name, also as files of
//!   a device
//! - [`load`]: what a volume sustains, measured

pub mod batch;
pub mod dataset;
pub mod load;
pub mod mapping;
mod serving;
mod slab;
mod stripe;
pub mod striped;
