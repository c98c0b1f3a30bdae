//! The keys by which edges are sorted: one number for an edge's place in each list.
//!
//! Contract: a key consists of the direction, the vertex, its neighbour, and the weight as a number
//! with the same order. So one sort puts the edges of all lists in order: first the lists of
//! targets, then the lists of sources. Tiles are made from the lists ([`crate::format::row`]). The
//! largest vertex determines the number of bits of a vertex in a key. Keys of 64 bits are enough
//! for 2^31 vertices without weights.

use bytemuck::Pod;
use outcore::{Error, Result, Sortable};

use crate::format::weight::WeightType;

const DIRECTION_BITS: u32 = 1;

/// The number of bits of each part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyShape {
    vertex_bits: u32,
    weight_bits: u32,
    weights: Option<WeightType>,
}

/// An edge in the list of one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placed {
    /// Whether it is in the list of sources.
    pub(super) is_in: bool,
    pub(super) vertex: u32,
    pub(super) neighbour: u32,
    /// The bits of its weight.
    pub(super) weight: u64,
}

impl KeyShape {
    /// The shape for this many vertices.
    pub(super) fn of(vertices: u64, weights: Option<WeightType>) -> Self {
        let largest = vertices.saturating_sub(1).max(1);
        KeyShape {
            vertex_bits: (u64::BITS - largest.leading_zeros()).min(u32::BITS),
            weight_bits: weights.map_or(0, |of| of.words() as u32 * u32::BITS),
            weights,
        }
    }

    /// Fails if keys have no room for this many vertices and eight-byte weights.
    pub(super) fn check(self) -> Result<Self> {
        match self.bits() <= u128::BITS {
            true => Ok(self),
            false => {
                let cause = "a graph of more than 2^31 vertices has no weights of eight bytes";
                Err(Error::usage(super::CONVERT, cause)
                    .hint("use weights of four bytes: --weight-type f32"))
            }
        }
    }

    /// Whether a weight is a finite number.
    #[inline(always)]
    pub(super) fn accepts(self, weight: u64) -> bool {
        self.weights.is_none_or(|of| of.is_finite(weight))
    }

    fn ordered(self, weight: u64) -> u64 {
        self.weights.map_or(0, |of| of.ordered(weight))
    }

    fn unordered(self, number: u64) -> u64 {
        self.weights.map_or(0, |of| of.unordered(number))
    }

    /// The most vertices for keys of this shape.
    pub(super) fn vertices_max(self) -> u64 {
        1 << self.vertex_bits
    }

    fn bits(self) -> u32 {
        DIRECTION_BITS + 2 * self.vertex_bits + self.weight_bits
    }

    /// Whether 64 bits are enough.
    pub(super) fn is_narrow(self) -> bool {
        self.bits() <= u64::BITS
    }
}

/// An integer that serves as a key.
pub(super) trait EdgeKey: Pod + Sortable + Eq + Send + Sync {
    fn of(shape: KeyShape, placed: Placed) -> Self;
    fn placed(self, shape: KeyShape) -> Placed;
    /// The part that all edges of a list share.
    fn list(self, shape: KeyShape) -> Self;
    /// The neighbour, and the bits of the edge's weight.
    fn neighbour(self, shape: KeyShape) -> (u32, u64);
    /// The key without the weight.
    fn without_weight(self, shape: KeyShape) -> Self;
}

macro_rules! keys {
    ($($key:ty),*) => {$(
        impl EdgeKey for $key {
            #[inline(always)]
            fn of(shape: KeyShape, placed: Placed) -> Self {
                let bits = shape.vertex_bits;
                let vertex = <$key>::from(placed.vertex);
                let ends = vertex << bits | <$key>::from(placed.neighbour);
                let key = <$key>::from(placed.is_in) << (2 * bits) | ends;
                match shape.weight_bits {
                    0 => key,
                    weight_bits => key << weight_bits | <$key>::from(shape.ordered(placed.weight)),
                }
            }

            #[inline(always)]
            fn without_weight(self, shape: KeyShape) -> Self {
                self >> shape.weight_bits
            }

            #[inline(always)]
            fn list(self, shape: KeyShape) -> Self {
                self >> (shape.vertex_bits + shape.weight_bits)
            }

            #[inline(always)]
            fn neighbour(self, shape: KeyShape) -> (u32, u64) {
                let weight = match shape.weight_bits {
                    0 => 0,
                    _ => shape.unordered(self as u64),
                };
                let mask = (1 << shape.vertex_bits) - 1;
                ((self >> shape.weight_bits & mask) as u32, weight)
            }

            fn placed(self, shape: KeyShape) -> Placed {
                let list = self.list(shape);
                let (neighbour, weight) = self.neighbour(shape);
                Placed {
                    is_in: list >> shape.vertex_bits != 0,
                    vertex: (list & ((1 << shape.vertex_bits) - 1)) as u32,
                    neighbour,
                    weight,
                }
            }
        }
    )*};
}
keys!(u64, u128);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round<K: EdgeKey>(shape: KeyShape, placed: Placed) -> Placed {
        K::of(shape, placed).placed(shape)
    }

    proptest! {
        /// A key decodes to the edge it was made from, and keys sort in the order of the lists.
        #[test]
        fn keys_say_which_edge_they_are_and_sort_as_lists_want(
            vertices in 1u64..=u64::from(u32::MAX),
            ends in prop::array::uniform4(any::<u32>()),
            weights in prop::array::uniform2(-1_000_000_000i64..1_000_000_000),
            is_in in any::<bool>(),
            of in prop_oneof![
                Just(None),
                Just(Some(WeightType::F32)),
                Just(Some(WeightType::F64)),
                Just(Some(WeightType::I64)),
            ],
        ) {
            let shape = KeyShape::of(vertices, of);
            let within = |id: u32| (u64::from(id) % vertices) as u32;
            let make = |at: usize| Placed {
                is_in,
                vertex: within(ends[at]),
                neighbour: within(ends[at + 1]),
                weight: of.map_or(0, |of| of.of_whole(weights[at / 2]).unwrap()),
            };
            prop_assume!(shape.check().is_ok());
            let (a, b) = (make(0), make(2));
            prop_assert_eq!(round::<u128>(shape, a), a);
            if shape.is_narrow() {
                prop_assert_eq!(round::<u64>(shape, a), a);
            }
            let order = |p: Placed| (p.vertex, p.neighbour);
            let keys = u128::of(shape, a).cmp(&u128::of(shape, b));
            let value = |p: Placed| of.map_or(0.0, |of| of.value(p.weight));
            let wanted = order(a).cmp(&order(b)).then(value(a).total_cmp(&value(b)));
            prop_assert_eq!(keys, wanted);
        }
    }
}
