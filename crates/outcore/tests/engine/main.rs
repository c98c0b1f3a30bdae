//! The engine against naive oracles, as one program: its parts share their devices and are linked
//! once.
//!
//! Contract: each part says where its expected bytes come from; none shares code with the engine.
//! What counts the heap of a whole process has one of its own (`heap.rs`).

#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

mod lines;
mod npy_interop;
mod sequence;
mod sort;
mod view;
