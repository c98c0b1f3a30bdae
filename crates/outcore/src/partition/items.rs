//! Items of one length, and which of the two ways each kind goes to its buckets' buffers.
//!
//! Contract: scalars go through cache lines, records of any other length are copied
//! ([`super::kernel`]). What is generic over [`FixedItems`] is compiled for each.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::kernel::{Full, Scatter};

/// Items of one length, as a [`Scatter`] moves them.
pub(crate) trait FixedItems {
    /// The length.
    fn item_bytes(&self) -> usize;
    /// Moves the items that lie in `bytes` one after another to their buckets, or until a buffer is full.
    fn scatter(&self, into: &mut Scatter, bytes: &[u8], buckets: &[u16]) -> Option<Full>;
}

/// Numbers, which go through cache lines; they need not be aligned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberItems<K>(pub(crate) PhantomData<K>);

impl<K: Pod> FixedItems for NumberItems<K> {
    fn item_bytes(&self) -> usize {
        size_of::<K>()
    }

    fn scatter(&self, into: &mut Scatter, bytes: &[u8], buckets: &[u16]) -> Option<Full> {
        into.scatter_numbers::<K>(bytes, buckets)
    }
}

/// Records of any one length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordItems {
    pub(crate) item_bytes: usize,
}

impl FixedItems for RecordItems {
    fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    fn scatter(&self, into: &mut Scatter, bytes: &[u8], buckets: &[u16]) -> Option<Full> {
        into.scatter_records(bytes, self.item_bytes, buckets)
    }
}
