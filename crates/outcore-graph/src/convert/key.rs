//! What edges are sorted by: one number for an edge's place in each of a graph's files.
//!
//! Contract: a key begins with the file ([`Part`]), so one sort brings the edges of all files in order, one file
//! after another; then for tiles the high bits of row and column and the low bits of both, for lists the vertex and
//! its neighbour; last the weight, as a number that has its order. The vertices' bits are as many as the largest
//! vertex has, and 16 at least. Keys of 64 bits are enough for 2^31 vertices without weights.

use bytemuck::Pod;
use outcore::Sortable;

use crate::format::Part;
use crate::format::tile::LOCAL_BITS;

const PART_BITS: u32 = 2;
const WEIGHT_BITS: u32 = u32::BITS;

/// How many bits the parts of a key have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyShape {
    vertex_bits: u32,
    weight_bits: u32,
}

/// An edge as one of the files has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placed {
    pub(super) part: Part,
    /// Row, or vertex.
    pub(super) first: u32,
    /// Column, or neighbour.
    pub(super) second: u32,
    pub(super) weight: f32,
}

impl KeyShape {
    /// For this many vertices.
    pub(super) fn of(vertices: u64, is_weighted: bool) -> Self {
        let largest = vertices.saturating_sub(1).max(1);
        KeyShape {
            vertex_bits: (u64::BITS - largest.leading_zeros()).clamp(LOCAL_BITS, u32::BITS),
            weight_bits: match is_weighted {
                true => WEIGHT_BITS,
                false => 0,
            },
        }
    }

    fn bits(self) -> u32 {
        PART_BITS + 2 * self.vertex_bits + self.weight_bits
    }

    /// Whether 64 bits are enough.
    pub(super) fn is_narrow(self) -> bool {
        self.bits() <= u64::BITS
    }
}

/// A number as a key.
pub(super) trait EdgeKey: Pod + Sortable + Eq + Send + Sync {
    fn of(shape: KeyShape, placed: Placed) -> Self;
    fn placed(self, shape: KeyShape) -> Placed;
    /// The same for all weights.
    fn without_weight(self, shape: KeyShape) -> Self;
}

/// A float as a number that has its order; there are no NaNs.
fn ordered(weight: f32) -> u32 {
    let bits = weight.to_bits();
    match bits >> 31 {
        0 => bits | 1 << 31,
        _ => !bits,
    }
}

fn unordered(bits: u32) -> f32 {
    f32::from_bits(match bits >> 31 {
        0 => !bits,
        _ => bits & !(1 << 31),
    })
}

macro_rules! keys {
    ($($key:ty),*) => {$(
        impl EdgeKey for $key {
            fn of(shape: KeyShape, placed: Placed) -> Self {
                let bits = shape.vertex_bits;
                let (first, second) = (<$key>::from(placed.first), <$key>::from(placed.second));
                let low = (1 << LOCAL_BITS) - 1;
                let vertices = match placed.part {
                    Part::Tiles => {
                        let (row, column) = (first >> LOCAL_BITS, second >> LOCAL_BITS);
                        let tile = row << (bits - LOCAL_BITS) | column;
                        (tile << LOCAL_BITS | first & low) << LOCAL_BITS | second & low
                    }
                    Part::Out | Part::In => first << bits | second,
                };
                let key = (placed.part as u32 as $key) << (2 * bits) | vertices;
                match shape.weight_bits {
                    0 => key,
                    weight_bits => key << weight_bits | <$key>::from(ordered(placed.weight)),
                }
            }

            fn without_weight(self, shape: KeyShape) -> Self {
                self >> shape.weight_bits
            }

            fn placed(self, shape: KeyShape) -> Placed {
                let bits = shape.vertex_bits;
                let weight = match shape.weight_bits {
                    0 => 1.0,
                    _ => unordered(self as u32),
                };
                let key = self >> shape.weight_bits;
                let vertex = |key: $key| (key & ((1 << bits) - 1)) as u32;
                let local = |key: $key| (key & ((1 << LOCAL_BITS) - 1)) as u32;
                let (part, first, second) = match key >> (2 * bits) {
                    0 => {
                        let high = bits - LOCAL_BITS;
                        let window = |key: $key| (key & ((1 << high) - 1)) as u32;
                        let tile = key >> (2 * LOCAL_BITS);
                        let row = window(tile >> high) << LOCAL_BITS | local(key >> LOCAL_BITS);
                        (Part::Tiles, row, window(tile) << LOCAL_BITS | local(key))
                    }
                    1 => (Part::Out, vertex(key >> bits), vertex(key)),
                    _ => (Part::In, vertex(key >> bits), vertex(key)),
                };
                Placed { part, first, second, weight }
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
        /// A key gives back what it was made of, and keys have the order of the files.
        #[test]
        fn keys_say_which_edge_they_are_and_sort_as_the_files_want(
            vertices in 1u64..=u64::from(u32::MAX),
            ends in prop::array::uniform4(any::<u32>()),
            weights in prop::array::uniform2(-1e9f32..1e9),
            part in prop::sample::select(vec![Part::Tiles, Part::Out, Part::In]),
            is_weighted in any::<bool>(),
        ) {
            let shape = KeyShape::of(vertices, is_weighted);
            let within = |id: u32| (u64::from(id) % vertices) as u32;
            let make = |at: usize| Placed {
                part,
                first: within(ends[at]),
                second: within(ends[at + 1]),
                weight: if is_weighted { weights[at / 2] } else { 1.0 },
            };
            let (a, b) = (make(0), make(2));
            prop_assert_eq!(round::<u128>(shape, a), a);
            if shape.is_narrow() {
                prop_assert_eq!(round::<u64>(shape, a), a);
            }
            let order = |p: Placed| match part {
                Part::Tiles => (p.first >> 16, p.second >> 16, p.first, p.second),
                _ => (p.first, p.second, 0, 0),
            };
            let keys = u128::of(shape, a).cmp(&u128::of(shape, b));
            let wanted = order(a).cmp(&order(b)).then(a.weight.total_cmp(&b.weight));
            prop_assert_eq!(keys, wanted);
        }
    }
}
