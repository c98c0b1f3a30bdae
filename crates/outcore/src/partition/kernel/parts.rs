//! Splits one area into consecutive parts of another, with more parts than the first-level cache
//! has lines.
//!
//! Contract: [`split_past_caches`] moves each key to the next place of its part, as a plain loop
//! does. However, it gathers keys in a line of their part and writes whole lines past the caches.
//! So a line of the area is not read before it is overwritten, and one line per part stays in the
//! second-level cache. The result is in memory afterwards, not in the caches. Models and reasons:
//! [`super`]. Memory: [`lines_bytes`], from the caller.

use bytemuck::{Pod, cast_slice_mut, pod_align_to_mut};

use super::{LINE_BYTES, Line, fence, store_line};

/// Whether the machine has stores that do not read the line that they overwrite. Without such
/// stores, lines are slower than plain stores.
pub(crate) const HAS_STORES_PAST_CACHES: bool = cfg!(target_arch = "x86_64");

/// Bytes of memory for the lines of this many parts, at any alignment.
pub(crate) const fn lines_bytes(part_count: usize) -> usize {
    (part_count + 1) * LINE_BYTES
}

/// Moves `keys` to `parts`, which has the same length. `places` has the place of each part's first
/// key, and the end of the last part; `part` returns the part of a key. False if `room` is too
/// small for the lines; then nothing has been moved.
pub(crate) fn split_past_caches<K: Pod>(
    keys: &[K],
    parts: &mut [K],
    places: &mut [u32],
    room: &mut [K],
    part: impl Fn(&K) -> usize,
) -> bool {
    let line_keys = const {
        assert!(size_of::<K>() == align_of::<K>() && size_of::<K>() <= LINE_BYTES);
        LINE_BYTES / size_of::<K>()
    };
    let (_, lines, _) = pod_align_to_mut::<K, Line>(room);
    let Some(lines) = lines.get_mut(..places.len()) else {
        return false;
    };
    // A key's place in its line is the same as in memory, wherever `parts` begins.
    let skipped = parts.as_ptr() as usize % LINE_BYTES / size_of::<K>();
    let in_line = |place: usize| (place + skipped) % line_keys;
    let bytes: &mut [u8] = cast_slice_mut(parts);
    for key in keys {
        let part = part(key);
        let (place, line) = (places[part] as usize, &mut lines[part]);
        let at = in_line(place);
        cast_slice_mut::<u8, K>(&mut line.0)[at] = *key;
        places[part] += 1;
        if at + 1 == line_keys {
            end_line(bytes, (place + 1) * size_of::<K>(), line);
        }
    }
    // If several parts share a line, the last of these parts has written the whole line. The keys
    // of the other parts are written after this fence.
    fence();
    let mut begin = 0;
    for (line, &end) in lines.iter_mut().zip(&*places) {
        let end = end as usize;
        let from = begin.max(end - in_line(end).min(end));
        let keys = cast_slice_mut::<u8, K>(&mut line.0);
        for place in from..end {
            parts[place] = keys[in_line(place)];
        }
        begin = end;
    }
    true
}

/// Writes a line that ends at `end_bytes`; if it begins before `bytes`, only the part inside.
#[inline(always)]
fn end_line(bytes: &mut [u8], end_bytes: usize, line: &Line) {
    let Some(begin_bytes) = end_bytes.checked_sub(LINE_BYTES) else {
        bytes[..end_bytes].copy_from_slice(&line.0[LINE_BYTES - end_bytes..]);
        return;
    };
    store_line(&mut bytes[begin_bytes..end_bytes], line);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::mixing::mix;
    use super::*;

    /// Splits `keys` by their lowest bits, `skipped` keys after the start of a line.
    fn is_split_as_by_a_plain_loop<K: Pod + PartialEq>(
        keys: &[K],
        low: impl Fn(&K) -> usize,
        skipped: usize,
        part_count: usize,
    ) -> bool {
        let part = |key: &K| low(key) % part_count;
        let mut expected: Vec<Vec<K>> = vec![Vec::new(); part_count];
        for key in keys {
            expected[part(key)].push(*key);
        }
        let mut sum = 0;
        let mut places: Vec<u32> = Vec::new();
        for keys in &expected {
            places.push(sum);
            sum += keys.len() as u32;
        }
        let mut parts = vec![K::zeroed(); keys.len() + skipped + 1];
        let len = lines_bytes(part_count) / size_of::<K>();
        let mut room = vec![K::zeroed(); len];
        let to = &mut parts[skipped..][..keys.len()];
        assert!(!split_past_caches(
            keys,
            to,
            &mut places,
            &mut room[..1],
            part
        ));
        assert!(split_past_caches(keys, to, &mut places, &mut room, part));
        let is_split = parts[skipped..][..keys.len()] == expected.concat();
        // No byte outside is written.
        let is_clean = |key: &K| *key == K::zeroed();
        is_split && parts[..skipped].iter().chain(parts.last()).all(is_clean)
    }

    proptest! {
        #[test]
        fn keys_come_to_their_parts_in_their_order(
            count in 0usize..3000,
            part_count in 1usize..300,
            skipped in 0usize..20,
            seed in any::<u64>(),
            spread in 0u32..60,
        ) {
            let keys: Vec<u64> = (0..count as u64).map(|key| mix(key ^ seed) >> spread).collect();
            prop_assert!(is_split_as_by_a_plain_loop(&keys, |key| *key as usize, skipped, part_count));
            let short: Vec<u32> = keys.iter().map(|key| *key as u32).collect();
            prop_assert!(is_split_as_by_a_plain_loop(&short, |key| *key as usize, skipped, part_count));
            let long: Vec<u128> = keys.iter().map(|key| u128::from(*key) << 3 | 5).collect();
            prop_assert!(is_split_as_by_a_plain_loop(&long, |key| (*key >> 3) as usize, skipped, part_count));
        }
    }
}
