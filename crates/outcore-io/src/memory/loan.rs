//! Buffers lent in pieces: a [`Loan`] keeps the whole buffer, and [`Segment`]s travel.
//!
//! Contract: a striped request is one buffer of its caller and many pieces on many drives.
//! Splitting a [`Buf`] costs two atomic operations per piece; a segment costs none. A loan carves
//! its buffer from front to back into segments. These are unique handles to disjoint bytes; they
//! cannot be copied or created in any other way. Each returns to its loan when its transfer is
//! over; when all are back, the buffer is whole again. A loan that is dropped while segments are
//! out leaks its buffer, so that no device ever writes into memory that has been reused.
//!
//! Invariants: a byte belongs to at most one live segment; a loan returns its buffer only if none
//! of its segments is alive.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::Buf;

/// A buffer that is lent in pieces.
#[derive(Debug)]
pub struct Loan {
    /// `None` only in `end`.
    buf: Option<Buf>,
    carved_bytes: usize,
    returned_bytes: usize,
}

/// A piece of a lent buffer that only its holder may access. It has the layout of the system's
/// `iovec`.
#[repr(C)]
pub struct Segment {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: a segment is the only handle to its bytes, and the memory has no thread affinity.
unsafe impl Send for Segment {}
// SAFETY: a shared segment gives shared slices only.
unsafe impl Sync for Segment {}

impl Loan {
    /// Lends `buf`; no piece is out yet.
    pub fn new(buf: Buf) -> Self {
        Loan {
            buf: Some(buf),
            carved_bytes: 0,
            returned_bytes: 0,
        }
    }

    /// Length of the whole buffer.
    pub fn len_bytes(&self) -> usize {
        self.buf.as_ref().map_or(0, |buf| buf.len_bytes)
    }

    /// The next `len_bytes` of the buffer.
    ///
    /// # Panics
    /// If fewer are left.
    pub fn carve(&mut self, len_bytes: usize) -> Segment {
        let left_bytes = self.len_bytes() - self.carved_bytes;
        let Some(buf) = self.buf.as_ref().filter(|_| len_bytes <= left_bytes) else {
            panic!("{len_bytes} bytes carved of {left_bytes} that are left");
        };
        // SAFETY: `carved_bytes + len_bytes` is inside the buffer or one past it.
        let start = unsafe { buf.start.add(self.carved_bytes) };
        self.carved_bytes += len_bytes;
        Segment { start, len_bytes }
    }

    /// Takes a segment back; true if no other segment is out and nothing is left to carve.
    ///
    /// # Panics
    /// If the segment was carved from another loan.
    pub fn give_back(&mut self, segment: Segment) -> bool {
        let base = self.buf.as_ref().map_or(0, Buf::address);
        let at = segment.start.as_ptr() as usize;
        assert!(
            at >= base && at + segment.len_bytes <= base + self.carved_bytes,
            "a segment goes back to its own loan"
        );
        self.returned_bytes += segment.len_bytes;
        self.returned_bytes == self.len_bytes()
    }

    /// The buffer, once no segment is out.
    ///
    /// # Panics
    /// If a segment is still out.
    pub fn end(mut self) -> Buf {
        match self.buf.take() {
            Some(buf) if self.carved_bytes == self.returned_bytes => buf,
            other => {
                self.buf = other;
                panic!("a loan ends when all of its segments are back");
            }
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if self.carved_bytes != self.returned_bytes {
            // A device may still write into it.
            std::mem::forget(self.buf.take());
        }
    }
}

impl Segment {
    /// Pointer for a device; valid until the segment returns.
    pub(crate) fn as_io_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Deref for Segment {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the loan keeps the initialised memory until this segment returns, or forever.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_bytes) }
    }
}

impl DerefMut for Segment {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; no other segment holds these bytes and the loan gives none out.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes) }
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({} bytes)", self.len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::{Budget, Pool};

    use super::*;

    fn pool(slots: usize) -> Pool {
        Pool::new(&Budget::new(1 << 20), "test", 8192, slots).unwrap()
    }

    #[test]
    fn pieces_are_disjoint_and_the_buffer_comes_back_when_all_are_back() {
        let pool = pool(1);
        let mut loan = Loan::new(pool.take().unwrap());
        let mut pieces: Vec<Segment> = [512, 4096, 3584].map(|len| loan.carve(len)).into();
        for (index, piece) in pieces.iter_mut().enumerate() {
            piece.fill(index as u8 + 1);
        }
        assert!(!loan.give_back(pieces.remove(1)));
        assert!(!loan.give_back(pieces.remove(0)));
        assert!(loan.give_back(pieces.remove(0)));
        let buf = loan.end();
        assert_eq!(
            (buf[0], buf[511], buf[512], buf[4608], buf[8191]),
            (1, 1, 2, 3, 3)
        );
    }

    #[test]
    fn a_loan_that_ends_too_early_keeps_its_memory_from_everybody() {
        let pool = pool(1);
        let mut loan = Loan::new(pool.take().unwrap());
        let mut out = loan.carve(4096);
        drop(loan);
        assert_eq!(pool.free_slots(), 0);
        out.fill(7);
        assert_eq!(out[4095], 7);
    }

    #[test]
    #[should_panic(expected = "its own loan")]
    fn a_segment_of_another_loan_is_refused() {
        let pool = pool(2);
        let mut one = Loan::new(pool.take().unwrap());
        let mut other = Loan::new(pool.take().unwrap());
        let _out = one.carve(4096);
        one.give_back(other.carve(4096));
    }
}
