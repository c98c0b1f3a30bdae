//! Tests of a striped volume: bytes in their places, batches merged, order kept, slots and marks
//! respected, faults only in their request, slow drives that delay no others.
//!
//! Contract: in-memory drives with a seed and a virtual clock, so every figure here is exact; a
//! plain array of bytes is the oracle.

#![allow(clippy::unwrap_used)]

mod datasets;
mod directories;
mod faults;
mod in_place;
mod manifests;
mod membership;
mod metadata;
mod parity;
mod pressure;
mod raw;
mod repairs;
mod servers;

#[path = "../../../outcore-io/tests/support/devices.rs"]
#[allow(dead_code, unreachable_pub)] // other tests use more of it
mod devices;

use std::path::PathBuf;
use std::sync::Arc;

use outcore_io::drive::Device;
use outcore_io::drive::Op;
use outcore_io::drive::queue::Class;
use outcore_io::drive::testing::{RamDevice, RamOptions};
use outcore_io::memory::{Budget, Pool};
use outcore_store::batch::{Submitter, VolumeCompletion, VolumeRequest};
use outcore_store::striped::{Member, StripeOptions, StripedVolume};

/// In-memory drives. About one transfer in `short_one_in` is cut short; 0 for never.
fn ram(short_one_in: u32) -> RamDevice {
    RamDevice::new(RamOptions {
        short_one_in,
        ..RamOptions::default()
    })
}

fn dirs(drives: usize) -> Vec<PathBuf> {
    (0..drives)
        .map(|drive| PathBuf::from(format!("/drive{drive}")))
        .collect()
}

/// One member per drive, each of `capacity_bytes`.
fn members(drives: usize, capacity_bytes: u64) -> Vec<Member> {
    dirs(drives)
        .iter()
        .map(|dir| Member {
            name: dir.display().to_string(),
            capacity_bytes: Some(capacity_bytes),
            ..Member::new(dir.join("volume"))
        })
        .collect()
}

fn volume(
    device: impl Device + 'static,
    members: &[Member],
    options: StripeOptions,
) -> StripedVolume {
    StripedVolume::create(Arc::new(device), members, options).unwrap()
}

fn pool(slot_bytes: usize, slots: usize) -> Pool {
    Pool::new(&Budget::new(1 << 30), "test", slot_bytes, slots).unwrap()
}

fn request(pool: &Pool, op: Op, offset_bytes: u64, len_bytes: usize, token: u64) -> VolumeRequest {
    VolumeRequest {
        token,
        op,
        class: Class::Foreground,
        offset_bytes,
        buf: pool.take().unwrap().split_to(len_bytes),
    }
}

/// Submits a whole batch and waits for all of it.
fn run(submitter: &mut Submitter, mut batch: Vec<VolumeRequest>) -> Vec<VolumeCompletion> {
    let mut done = Vec::new();
    submitter.submit_all(&mut batch, &mut done).unwrap();
    submitter.drain(&mut done).unwrap();
    done
}

/// A number that depends only on its arguments (splitmix64).
fn random(seed: u64, number: u64) -> u64 {
    let mut z = seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
