//! The elements of a sort: scalars or records, through one trait for the loops of distribution and
//! sort.
//!
//! Contract: [`Elements`] returns the unsigned key for classification, moves elements into buckets,
//! and states how deep the order goes. A scalar is its own key. It is converted to a native
//! unsigned integer when it is first read, and back when it is finally written, so scratch holds
//! ordered integers. A record keeps its bytes; its key at depth d is word d of its order string
//! ([`crate::key::order`]), and a bucket whose records share a word is split by the next word.
//! Everything here is monomorphised per key type; no allocation, no branch on configuration.

use std::cmp::Ordering;
use std::marker::PhantomData;

use crate::key::order::Order;
use crate::key::scalar::ScalarOrder;
use crate::key::whole::WholeOrder;
use crate::partition::classify::Key;
use crate::partition::scatter::{FixedItems, NumberItems, RecordItems};
use outcore_io::{Error, Kind, Result};

/// Elements of one size with an order.
pub(crate) trait Elements: Sync {
    /// The type of the keys for classification.
    type Key: Key;
    /// How elements are moved to their buckets.
    type Items: FixedItems;

    /// Size of an element.
    fn element_bytes(&self) -> usize;
    /// Whether an element is its key, so that equal keys are equal elements.
    fn is_scalar(&self) -> bool;
    /// Number of keys per element; elements that share all of them are equal in the order.
    fn depth_end(&self) -> usize;
    /// Converts input bytes to the form that is classified and kept on scratch.
    fn encode(&self, payload: &mut [u8]) -> Result<()>;
    /// Converts that form back to the input's bytes.
    fn decode(&self, payload: &mut [u8]) -> Result<()>;
    /// The keys at `depth` of all elements of `payload`; `space` holds them if they must be made.
    fn keys<'a>(
        &self,
        payload: &'a [u8],
        depth: usize,
        space: &'a mut Vec<Self::Key>,
    ) -> Result<&'a [Self::Key]>;
    /// How elements are moved to their buckets.
    fn items(&self) -> Self::Items;
    /// Compares two elements in the word at `depth` and those after it.
    fn compare_from(&self, a: &[u8], b: &[u8], depth: usize) -> Ordering;
    /// Whether two elements have the same key in the sense of `--unique`.
    fn is_same_key(&self, a: &[u8], b: &[u8]) -> bool;
}

/// Scalars of the native integer `K`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scalars<K> {
    order: ScalarOrder,
    key: PhantomData<K>,
}

impl<K> Scalars<K> {
    pub(crate) fn new(order: ScalarOrder) -> Self {
        Scalars {
            order,
            key: PhantomData,
        }
    }
}

/// The native integers in a payload, which starts at a multiple of their size.
pub(crate) fn as_keys<K: Key>(payload: &[u8]) -> Result<&[K]> {
    bytemuck::try_cast_slice(payload).map_err(|e| misaligned(&e))
}

/// As [`as_keys`], mutable.
pub(crate) fn as_keys_mut<K: Key>(payload: &mut [u8]) -> Result<&mut [K]> {
    bytemuck::try_cast_slice_mut(payload).map_err(|e| misaligned(&e))
}

fn misaligned(error: &bytemuck::PodCastError) -> Error {
    Error::new(Kind::Corrupt, "look at keys", error.to_string()).hint("a bug: please report it")
}

macro_rules! scalars {
    ($unsigned:ty, $encode:ident, $decode:ident) => {
        impl Elements for Scalars<$unsigned> {
            type Key = $unsigned;
            type Items = NumberItems<$unsigned>;

            fn element_bytes(&self) -> usize {
                size_of::<$unsigned>()
            }

            fn is_scalar(&self) -> bool {
                true
            }

            fn depth_end(&self) -> usize {
                1
            }

            fn encode(&self, payload: &mut [u8]) -> Result<()> {
                if !self.order.is_identity() {
                    self.order.$encode(as_keys_mut(payload)?);
                }
                Ok(())
            }

            fn decode(&self, payload: &mut [u8]) -> Result<()> {
                if !self.order.is_identity() {
                    self.order.$decode(as_keys_mut(payload)?);
                }
                Ok(())
            }

            fn keys<'a>(
                &self,
                payload: &'a [u8],
                _depth: usize,
                _space: &'a mut Vec<$unsigned>,
            ) -> Result<&'a [$unsigned]> {
                as_keys(payload)
            }

            fn items(&self) -> Self::Items {
                NumberItems(PhantomData)
            }

            fn compare_from(&self, _a: &[u8], _b: &[u8], _depth: usize) -> Ordering {
                Ordering::Equal
            }

            fn is_same_key(&self, a: &[u8], b: &[u8]) -> bool {
                a == b
            }
        }
    };
}
scalars!(u32, encode_u32, decode_u32);
scalars!(u64, encode_u64, decode_u64);
scalars!(u128, encode_u128, decode_u128);

/// Records that are one integer each; see [`WholeOrder`].
#[derive(Debug, Clone)]
pub(crate) struct Wholes {
    order: WholeOrder,
}

impl Wholes {
    pub(crate) fn new(order: WholeOrder) -> Self {
        Wholes { order }
    }
}

impl Elements for Wholes {
    type Key = u128;
    type Items = NumberItems<u128>;

    fn element_bytes(&self) -> usize {
        size_of::<u128>()
    }

    fn is_scalar(&self) -> bool {
        true
    }

    fn depth_end(&self) -> usize {
        1
    }

    fn encode(&self, payload: &mut [u8]) -> Result<()> {
        self.order.encode(payload);
        Ok(())
    }

    fn decode(&self, payload: &mut [u8]) -> Result<()> {
        self.order.decode(payload);
        Ok(())
    }

    /// Unlike numbers, records need no alignment.
    fn keys<'a>(
        &self,
        payload: &'a [u8],
        _depth: usize,
        space: &'a mut Vec<u128>,
    ) -> Result<&'a [u128]> {
        if let Ok(keys) = bytemuck::try_cast_slice(payload) {
            return Ok(keys);
        }
        space.resize(payload.len() / size_of::<u128>(), 0);
        bytemuck::cast_slice_mut(space).copy_from_slice(payload);
        Ok(&space[..])
    }

    fn items(&self) -> NumberItems<u128> {
        NumberItems(PhantomData)
    }

    fn compare_from(&self, _a: &[u8], _b: &[u8], _depth: usize) -> Ordering {
        Ordering::Equal
    }

    fn is_same_key(&self, a: &[u8], b: &[u8]) -> bool {
        a == b
    }
}

/// Records with a payload, or with several keys.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    order: Order,
}

impl Records {
    pub(crate) fn new(order: Order) -> Self {
        Records { order }
    }
}

impl Elements for Records {
    type Key = u64;
    type Items = RecordItems;

    fn element_bytes(&self) -> usize {
        self.order.record_bytes()
    }

    fn is_scalar(&self) -> bool {
        false
    }

    fn depth_end(&self) -> usize {
        self.order.words()
    }

    fn encode(&self, _payload: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn decode(&self, _payload: &mut [u8]) -> Result<()> {
        Ok(())
    }

    fn keys<'a>(
        &self,
        payload: &'a [u8],
        depth: usize,
        space: &'a mut Vec<u64>,
    ) -> Result<&'a [u64]> {
        space.resize(payload.len() / self.order.record_bytes(), 0);
        self.order.fill_words(payload, depth, space);
        Ok(&space[..])
    }

    fn items(&self) -> RecordItems {
        RecordItems {
            item_bytes: self.order.record_bytes(),
        }
    }

    fn compare_from(&self, a: &[u8], b: &[u8], depth: usize) -> Ordering {
        self.order.compare_from_word(a, b, depth)
    }

    fn is_same_key(&self, a: &[u8], b: &[u8]) -> bool {
        self.order.compare_keys(a, b) == Ordering::Equal
    }
}
