//! Objects of S3, Google Cloud Storage, Azure and web servers as files of a device.
//!
//! Contract: an [`ObjectDevice`] adds objects to the device below it: each name such as
//! `s3://bucket/key` is a readable file. Jobs know nothing of stores: a job reads a file with
//! requests in flight, and each request becomes a ranged GET into the job's own buffer. The device
//! has the stores' lists and uploads as [`Stores`](outcore_io::drive::Stores).
//!
//! - [`address`]: the parts of a name
//! - [`environment`]: settings and credentials
//! - [`cloud`]: the connections: one runtime, one client per bucket or server
//! - [`device`], [`open`], [`queue`], [`get`]: objects as files
//! - [`upload`]: files become objects, whole or absent
//! - [`fault`]: errors of stores, with the next step
//!
//! Bounds: [`cloud::GETS_MAX`] GETs in flight per process, each with at most some 100 KiB in the
//! client; the bytes themselves go to the buffers of the job.

mod address;
mod cloud;
mod device;
mod environment;
mod fault;
mod get;
mod open;
mod queue;
mod upload;

pub use device::ObjectDevice;
