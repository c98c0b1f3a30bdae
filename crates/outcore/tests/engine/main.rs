//! The engine against naive oracles, as one program: its parts share their devices and are linked
//! once.
//!
//! Contract: each part states the origin of its expected bytes; none shares code with the engine.
//! The test of the heap of a whole process is a separate program (`heap.rs`).

#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

mod lines;
mod npy_interop;
mod power;
mod read_back;
mod sequence;
mod sort;
mod view;
