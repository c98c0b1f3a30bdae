//! Sorting of a trace that is nearly sorted by time.
//!
//! Contract: [`Reorder`] is stable, holds a window of requests and no more, and counts what came later than
//! the window could mend.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use outcore_io::Result;

use crate::request::{Op, Request};

/// Sorts a trace by time within a window: for traces that are nearly sorted (FIU, MSR).
///
/// Stable; holds `window_requests` requests; `late` counts those that came even later than the
/// window could mend, and are given out late.
pub struct Reorder<I> {
    inner: I,
    window_requests: usize,
    heap: BinaryHeap<Reverse<(u64, u64, Held)>>,
    sequence: u64,
    last_ns: u64,
    late: u64,
}

/// The parts of a request that time and arrival do not order.
type Held = (u32, u8, u64, u64);

impl<I: Iterator<Item = Result<Request>>> Reorder<I> {
    /// Sorts `inner` within `window_requests`.
    pub fn new(inner: I, window_requests: usize) -> Self {
        Reorder {
            inner,
            window_requests,
            heap: BinaryHeap::new(),
            sequence: 0,
            last_ns: 0,
            late: 0,
        }
    }

    /// Requests given out later than their time.
    pub fn late(&self) -> u64 {
        self.late
    }
}

pub(crate) const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Trim, Op::Flush];

impl<I: Iterator<Item = Result<Request>>> Iterator for Reorder<I> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.heap.len() <= self.window_requests {
            match self.inner.next() {
                None => break,
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(request)) => {
                    let held = (
                        request.device,
                        request.op as u8,
                        request.offset_bytes,
                        request.len_bytes,
                    );
                    self.heap
                        .push(Reverse((request.time_ns, self.sequence, held)));
                    self.sequence += 1;
                }
            }
        }
        let Reverse((time_ns, _, (device, op, offset_bytes, len_bytes))) = self.heap.pop()?;
        self.late += u64::from(time_ns < self.last_ns);
        self.last_ns = self.last_ns.max(time_ns);
        let op = OPS[usize::from(op) % OPS.len()];
        Some(Ok(Request {
            time_ns,
            device,
            op,
            offset_bytes,
            len_bytes,
        }))
    }
}
