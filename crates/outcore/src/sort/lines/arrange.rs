//! Sorts the lines of an area by keys that are made from them.
//!
//! Contract: keys are in a separate memory space, each preceded by the place of its line, so that a
//! reference to a key leads to its line ([`to_line`]). Keys that are made in input order break ties
//! by their places.

use super::refs::{Ref, sort_refs};
use crate::key::sort_key::{NoKey, SortKey, Tie};

/// Bytes before each key: the place of its line.
pub(crate) const KEY_HEAD_BYTES: u64 = 8;

/// Appends the key of the line `from..end` of `area`, which `append_key` makes, to `keys`; returns
/// a reference to it.
///
/// # Errors
/// The line has no key.
pub(crate) fn key_ref(
    area: &[u8],
    from: usize,
    end: usize,
    keys: &mut Vec<u8>,
    append_key: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), NoKey>,
) -> Result<Ref, NoKey> {
    keys.extend_from_slice(&(from as u32).to_ne_bytes());
    keys.extend_from_slice(&((end - from) as u32).to_ne_bytes());
    let at = keys.len();
    append_key(&area[from..end], keys)?;
    Ok(Ref {
        word: 0,
        at: at as u32,
        len_bytes: (keys.len() - at) as u32,
    })
}

/// Sorts references to keys that agree in their first `depth` bytes, with ties as the order defines
/// them. For a descending order, the caller must reverse the result.
pub(crate) fn sort_keys(
    order: &dyn SortKey,
    area: &[u8],
    keys: &[u8],
    refs: &mut [Ref],
    depth: usize,
) {
    let is_turned = order.is_descending();
    let line = |key: &Ref| {
        let (at, len) = line_of(keys, key);
        &area[at as usize..(at + len) as usize]
    };
    match (order.tie(), is_turned) {
        (Tie::Position, false) => {
            sort_refs(keys, refs, depth, &|a: &Ref, b: &Ref| a.at.cmp(&b.at));
        }
        (Tie::Position, true) => {
            sort_refs(keys, refs, depth, &|a: &Ref, b: &Ref| b.at.cmp(&a.at));
        }
        (Tie::Bytes, false) | (Tie::BytesDescending, true) => {
            sort_refs(keys, refs, depth, &|a: &Ref, b: &Ref| line(a).cmp(line(b)));
        }
        (Tie::Bytes, true) | (Tie::BytesDescending, false) => {
            sort_refs(keys, refs, depth, &|a: &Ref, b: &Ref| line(b).cmp(line(a)));
        }
    }
}

/// The place of a key's line, stored before the key.
fn line_of(keys: &[u8], key: &Ref) -> (u32, u32) {
    let head = keys[..key.at as usize].last_chunk::<{ KEY_HEAD_BYTES as usize }>();
    head.map_or((0, 0), |&[a, b, c, d, e, f, g, h]| {
        let at = u32::from_ne_bytes([a, b, c, d]);
        (at, u32::from_ne_bytes([e, f, g, h]))
    })
}

/// Converts a reference to a key to one to its line.
pub(crate) fn to_line(keys: &[u8], key: &mut Ref) {
    (key.at, key.len_bytes) = line_of(keys, key);
}
