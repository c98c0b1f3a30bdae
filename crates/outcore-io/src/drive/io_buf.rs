//! The memory of one transfer: one buffer, or pieces of borrowed buffers that are adjacent on the
//! drive.
//!
//! Contract: an [`IoBuf`] owns the bytes of a [`super::Request`] until it completes. A buffer in
//! pieces is one vectored transfer, however many requests were merged into it. Backends see it as
//! slices that start at any byte. Only memory devices copy.

use std::io::{IoSlice, IoSliceMut};

use crate::memory::{Buf, Segment};

/// The memory of a transfer.
#[derive(Debug)]
pub enum IoBuf {
    /// One buffer.
    Whole(Buf),
    /// Several pieces, in the order of their offsets; at most 1024, none of them empty.
    Pieces(Vec<Segment>),
}

impl From<Buf> for IoBuf {
    fn from(buf: Buf) -> Self {
        IoBuf::Whole(buf)
    }
}

impl IoBuf {
    /// Total bytes.
    pub fn len(&self) -> usize {
        match self {
            IoBuf::Whole(buf) => buf.len(),
            IoBuf::Pieces(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
        }
    }

    /// Whether there is nothing to transfer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The buffer of a transfer that was submitted as one buffer.
    ///
    /// # Panics
    /// If the transfer is in pieces.
    pub fn into_whole(self) -> Buf {
        match self {
            IoBuf::Whole(buf) => buf,
            IoBuf::Pieces(_) => panic!("a transfer that was handed in whole comes back whole"),
        }
    }

    /// The bytes of the transfer, in order.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let (whole, pieces) = match self {
            IoBuf::Whole(buf) => (Some(&buf[..]), &[][..]),
            IoBuf::Pieces(pieces) => (None, &pieces[..]),
        };
        whole
            .into_iter()
            .chain(pieces.iter().map(|piece| &piece[..]))
    }

    /// The bytes of the transfer, in order, mutable.
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (whole, pieces) = match self {
            IoBuf::Whole(buf) => (Some(&mut buf[..]), &mut [][..]),
            IoBuf::Pieces(pieces) => (None, &mut pieces[..]),
        };
        whole
            .into_iter()
            .chain(pieces.iter_mut().map(|piece| &mut piece[..]))
    }

    /// Copies `bytes` to offset `start` of the transfer.
    ///
    /// # Panics
    /// If the bytes extend beyond the end of the transfer.
    pub fn copy_in(&mut self, mut start: usize, mut bytes: &[u8]) {
        for slice in self.slices_mut() {
            let skip = start.min(slice.len());
            start -= skip;
            let (now, later) = bytes.split_at(bytes.len().min(slice.len() - skip));
            slice[skip..skip + now.len()].copy_from_slice(now);
            bytes = later;
        }
        assert!(bytes.is_empty(), "no more bytes than the transfer has");
    }

    /// Copies the bytes from offset `start` of the transfer into `bytes`.
    ///
    /// # Panics
    /// If the transfer ends earlier.
    pub(super) fn copy_out(&self, mut start: usize, mut bytes: &mut [u8]) {
        for slice in self.slices() {
            let skip = start.min(slice.len());
            start -= skip;
            let (now, later) = bytes.split_at_mut(bytes.len().min(slice.len() - skip));
            now.copy_from_slice(&slice[skip..skip + now.len()]);
            bytes = later;
        }
        assert!(bytes.is_empty(), "no more bytes than the transfer has");
    }

    /// The bytes after `start`, for a vectored write.
    pub(super) fn io_slices(&self, mut start: usize) -> Vec<IoSlice<'_>> {
        let mut rest = Vec::new();
        for slice in self.slices() {
            let skip = start.min(slice.len());
            start -= skip;
            if skip < slice.len() {
                rest.push(IoSlice::new(&slice[skip..]));
            }
        }
        rest
    }

    /// The rest from `start`, for a vectored read.
    pub(super) fn io_slices_mut(&mut self, mut start: usize) -> Vec<IoSliceMut<'_>> {
        let mut rest = Vec::new();
        for slice in self.slices_mut() {
            let skip = start.min(slice.len());
            start -= skip;
            if skip < slice.len() {
                rest.push(IoSliceMut::new(&mut slice[skip..]));
            }
        }
        rest
    }
}
