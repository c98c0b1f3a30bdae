//! In-memory radix sort: one split into parts that fit in the first-level cache, and two passes
//! over each part.
//!
//! Models: the split is the first step of a radix sort by the most significant digit (McIlroy,
//! Bostic and McIlroy, "Engineering radix sort", 1993). Parts are sorted by the least significant
//! digit (Knuth, TAOCP 3, 5.2.5) of just enough leading bits to distinguish their items, and
//! finished by insertion.
//!
//! Contract: [`sort`] sorts items by their words and keeps the order of equal items, in a space of
//! the caller that can be reused for the next call. Digits are counted from the smallest word,
//! because items of a bucket are close together but may straddle a power of two. If the data are
//! larger than the caches, parts are prefetched with their destinations. Numbers that are split
//! into more parts than the first-level cache has lines are written past the caches, if the space
//! has room for that ([`numbers_space_bytes`]).
//!
//! Bounds: a copy of the items and [`PART_MAX`] more ([`space_len`]). Nothing else is allocated,
//! except for parts whose digits do not distinguish items well. Every split narrows the words by at
//! least one bit, and usually by ten or more, so the depth of the recursion is less than a word's
//! bits.
//!
//! N.B. voracious_radix_sort takes 1.5 times as long on u64, rdst 1.9 times, vectorised quicksorts
//! at least 1.4 times. Unchecked indices in the three loops that move items save 6 %, which is not
//! worth `unsafe`. Limiting splits to 10 bits and omitting the prefetch of parts takes 1.1 times as
//! long if the data fit in the second-level cache, and 1.2 to 1.8 times otherwise. With plain
//! stores, a split into more than 1,024 parts takes 1.5 times as long. With fewer parts, writing
//! past the caches takes 1.5 times as long (docs/decisions/0022).

use crate::partition::classify::Key;
use crate::partition::kernel::bounds::{bounds_u32, bounds_u64};
use crate::partition::kernel::fetch_all;
use crate::partition::kernel::parts::{HAS_STORES_PAST_CACHES, lines_bytes, split_past_caches};

/// A sortable item: its word defines its order.
pub(crate) trait Item: Copy {
    /// The type of the item's word.
    type Word: Key;

    /// The word of this item.
    fn word(&self) -> Self::Word;

    /// The smallest and the largest word of `items`, which must not be empty.
    fn bounds(items: &[Self]) -> (Self::Word, Self::Word) {
        let start = (Self::Word::MAX, items[0].word());
        items.iter().fold(start, |(least, most), item| {
            (least.min(item.word()), most.max(item.word()))
        })
    }

    /// Moves `items` to `parts` as [`split_past_caches`] does; false if `room` is too small, or for
    /// unsupported items, in which case nothing has been moved.
    fn split_past_caches(
        _items: &[Self],
        _parts: &mut [Self],
        _places: &mut [u32],
        _room: &mut [Self],
        _part: impl Fn(&Self) -> usize,
    ) -> bool {
        false
    }
}

/// The common implementation for numbers.
macro_rules! number {
    ($number:ty) => {
        type Word = $number;

        #[inline(always)]
        fn word(&self) -> $number {
            *self
        }

        fn split_past_caches(
            items: &[Self],
            parts: &mut [Self],
            places: &mut [u32],
            room: &mut [Self],
            part: impl Fn(&Self) -> usize,
        ) -> bool {
            split_past_caches(items, parts, places, room, part)
        }
    };
}

impl Item for u32 {
    number!(u32);

    fn bounds(items: &[u32]) -> (u32, u32) {
        bounds_u32(items)
    }
}

impl Item for u64 {
    number!(u64);

    fn bounds(items: &[u64]) -> (u64, u64) {
        bounds_u64(items)
    }
}

impl Item for u128 {
    number!(u128);
}

/// Largest number of items of a part that is sorted in cache.
const PART_MAX: usize = 2048;
/// A split aims at this number of items per part, as a power of two. Parts have between half this
/// number and all of it.
const PART_LOG: u32 = 10;
/// Largest number of bits in one split.
const SPLIT_BITS_MAX: u32 = 13;
/// Most splits use at most this number.
const SPLIT_BITS_FEW: u32 = 10;
/// More bytes than the caches hold: for such data, the next part is prefetched while one is sorted.
const FETCHED_BYTES_MIN: usize = 1 << 20;
/// Number of values of a digit in a part's two passes.
const DIGITS: usize = 256;
/// Bits in a part's two passes.
const PASSES_BITS: u32 = 16;
/// For fewer items, comparison sorting is faster.
const SMALL: usize = 64;
/// Largest number of moves per item for finishing a part by insertion; evenly spread keys need 0.1
/// moves.
const MOVES_MAX: usize = 4;

/// Number of items of space for sorting `item_count` items.
pub(crate) const fn space_len(item_count: usize) -> usize {
    item_count
        + if item_count < PART_MAX {
            item_count
        } else {
            PART_MAX
        }
}

/// Bytes of space for `numbers_bytes` of numbers of `number_bytes` each, with room for the lines of
/// a split past the caches.
pub(crate) const fn numbers_space_bytes(numbers_bytes: u64, number_bytes: usize) -> u64 {
    let split_bits = split_bits(numbers_bytes as usize / number_bytes);
    let lines_bytes = match HAS_STORES_PAST_CACHES && split_bits > SPLIT_BITS_FEW {
        true => lines_bytes(1 << split_bits),
        false => 0,
    };
    space_bytes(numbers_bytes, number_bytes) + lines_bytes as u64
}

/// Bytes of space for items of `item_bytes` each with `items_bytes` in total.
pub(crate) const fn space_bytes(items_bytes: u64, item_bytes: usize) -> u64 {
    let part_bytes = (PART_MAX * item_bytes) as u64;
    items_bytes
        + if items_bytes < part_bytes {
            items_bytes
        } else {
            part_bytes
        }
}

/// Sorts `items` by their words; equal ones keep their order.
///
/// # Panics
/// If `space` is shorter than [`space_len`].
pub(crate) fn sort<T: Item>(items: &mut [T], space: &mut [T]) {
    if items.len() < SMALL {
        return items.sort_by_key(T::word);
    }
    if items.is_sorted_by_key(T::word) {
        return;
    }
    let (space, rest) = space.split_at_mut(items.len());
    let (part, lines) = rest.split_at_mut(items.len().min(PART_MAX));
    sort_here(items, space, part, lines);
}

/// Sorts `items` in place; `other` has the same length, and `part` has room for one part. A split
/// into many parts uses `lines`, which may be too few.
fn sort_here<T: Item>(items: &mut [T], other: &mut [T], part: &mut [T], lines: &mut [T]) {
    if items.len() < SMALL {
        return items.sort_by_key(T::word);
    }
    let (least, most) = T::bounds(items);
    let bits = most.bits_above(least);
    if bits == 0 {
        return;
    }
    if items.len() <= part.len() {
        let digits = Digits::of(items.len(), least, bits);
        let between = &mut part[..items.len()];
        let places = digits.pass_low(items, between);
        digits.pass_high(between, items, places);
        return finish(items, other, part, digits);
    }
    split(items, other, lines, least, bits, |other, items, left| {
        sort_over(other, items, part, least, left);
    });
}

/// Sorts `items` into `sorted`, which has the same length. Relative to `least`, their words differ
/// only in the lowest `bits` bits.
fn sort_over<T: Item>(
    items: &mut [T],
    sorted: &mut [T],
    part: &mut [T],
    least: T::Word,
    bits: u32,
) {
    if items.len() <= part.len() || bits == 0 {
        return sort_part(items, sorted, part, least, bits);
    }
    let (least, most) = T::bounds(items);
    let bits = most.bits_above(least);
    split(items, sorted, &mut [], least, bits, |sorted, items, _| {
        sort_here(sorted, items, part, &mut []);
    });
}

/// Splits `items` by their highest bits into consecutive parts in `parts`. `each` receives every
/// part with the same range of `items` as free room, and the number of bits in which its words
/// still differ. Relative to `least`, the words of `items` differ in `bits` bits.
fn split<T: Item>(
    items: &mut [T],
    parts: &mut [T],
    lines: &mut [T],
    least: T::Word,
    bits: u32,
    each: impl FnMut(&mut [T], &mut [T], u32),
) {
    let split_bits = split_bits(items.len()).min(bits);
    // Small splits use little stack, however often parts are split again.
    match split_bits <= SPLIT_BITS_FEW {
        true => split_by::<T, { 1 << SPLIT_BITS_FEW }>(
            items,
            parts,
            &mut [],
            least,
            bits,
            split_bits,
            each,
        ),
        false => split_by::<T, { 1 << SPLIT_BITS_MAX }>(
            items, parts, lines, least, bits, split_bits, each,
        ),
    }
}

/// Like `split`, but by `split_bits` of the bits, into at most `PARTS_MAX` parts, a power of two;
/// past the caches if there are `lines` for that.
fn split_by<T: Item, const PARTS_MAX: usize>(
    items: &mut [T],
    parts: &mut [T],
    lines: &mut [T],
    least: T::Word,
    bits: u32,
    split_bits: u32,
    mut each: impl FnMut(&mut [T], &mut [T], u32),
) {
    let bits_left = bits - split_bits;
    // An area has less than 2^32 items.
    let mut places = [0u32; PARTS_MAX];
    let cell = |item: &T| item.word().cell(least, bits_left) & (PARTS_MAX - 1);
    for item in items.iter() {
        places[cell(item)] += 1;
    }
    sum_up(&mut places);
    let used = &mut places[..1 << split_bits];
    if !HAS_STORES_PAST_CACHES || !T::split_past_caches(items, parts, used, lines, cell) {
        for item in items.iter() {
            let place = &mut places[cell(item)];
            parts[*place as usize] = *item;
            *place += 1;
        }
    }
    let is_fetched = size_of_val(items) >= FETCHED_BYTES_MIN;
    let ends = &places[..1 << split_bits];
    let mut from = 0;
    for (part, &end) in ends.iter().enumerate() {
        let end = end as usize;
        if let (true, Some(&next_end)) = (is_fetched, ends.get(part + 1)) {
            let next = end..(next_end as usize).min(end + PART_MAX);
            fetch_all(&parts[next.clone()]);
            fetch_all(&items[next]);
        }
        if from < end {
            each(&mut parts[from..end], &mut items[from..end], bits_left);
        }
        from = end;
    }
}

/// Sorts `items` into `sorted` by as many of the highest of `bits` bits as distinguish them, and
/// then by the other bits.
fn sort_part<T: Item>(
    items: &mut [T],
    sorted: &mut [T],
    part: &mut [T],
    least: T::Word,
    bits: u32,
) {
    if bits == 0 || items.len() < SMALL {
        sorted.copy_from_slice(items);
        if bits > 0 {
            sorted.sort_by_key(T::word);
        }
        return;
    }
    let digits = Digits::of(items.len(), least, bits);
    let between = &mut part[..items.len()];
    let places = digits.pass_low(items, between);
    digits.pass_high(between, sorted, places);
    finish(sorted, items, part, digits);
}

/// The two digits by which a part is sorted.
#[derive(Clone, Copy)]
struct Digits<W> {
    /// The smallest word.
    least: W,
    /// Number of bits after both digits.
    bits_left: u32,
    low_bits: u32,
}

impl<W: Key> Digits<W> {
    /// The digits for this many items whose words, relative to `least`, differ only in the lowest
    /// `bits` bits.
    fn of(item_count: usize, least: W, bits: u32) -> Self {
        // With four bits more than are needed to count the items, one item in sixteen agrees with
        // another in all of these bits.
        let used_bits = (ceil_log(item_count) + 4).min(PASSES_BITS).min(bits);
        Digits {
            least,
            bits_left: bits - used_bits,
            low_bits: used_bits / 2,
        }
    }

    /// Both digits of a word.
    #[inline(always)]
    fn both(&self, word: W) -> usize {
        word.cell(self.least, self.bits_left)
    }

    #[inline(always)]
    fn low(&self, word: W) -> usize {
        self.both(word) & ((1 << self.low_bits) - 1) & (DIGITS - 1)
    }

    #[inline(always)]
    fn high(&self, word: W) -> usize {
        word.cell(self.least, self.bits_left + self.low_bits) & (DIGITS - 1)
    }

    /// Sorts `items` into `between` by the low digit; returns the place of the first item of each
    /// high digit.
    fn pass_low<T: Item<Word = W>>(&self, items: &[T], between: &mut [T]) -> [u32; DIGITS] {
        let (mut low_places, mut high_places) = ([0u32; DIGITS], [0u32; DIGITS]);
        for item in items {
            low_places[self.low(item.word())] += 1;
            high_places[self.high(item.word())] += 1;
        }
        sum_up(&mut low_places);
        sum_up(&mut high_places);
        for item in items {
            let place = &mut low_places[self.low(item.word())];
            between[*place as usize] = *item;
            *place += 1;
        }
        high_places
    }

    /// Sorts the items in `between` into `sorted` by the high digit.
    fn pass_high<T: Item<Word = W>>(
        &self,
        between: &[T],
        sorted: &mut [T],
        mut places: [u32; DIGITS],
    ) {
        for item in between {
            let place = &mut places[self.high(item.word())];
            sorted[*place as usize] = *item;
            *place += 1;
        }
    }
}

/// Sorts items that are sorted by their digits by the remaining bits; `other` has the same length.
fn finish<T: Item>(sorted: &mut [T], other: &mut [T], part: &mut [T], digits: Digits<T::Word>) {
    if digits.bits_left == 0 || insert(sorted) {
        return;
    }
    // Many items agree in all bits so far: only the remaining bits distinguish them.
    let agree = |a: &T, b: &T| digits.both(a.word()) == digits.both(b.word());
    let mut from = 0;
    for group in sorted.chunk_by_mut(agree) {
        let end = from + group.len();
        sort_here(group, &mut other[from..end], part, &mut []);
        from = end;
    }
}

/// Sorts nearly sorted items; false if they are not, with the items in the order of the insertions
/// so far.
fn insert<T: Item>(items: &mut [T]) -> bool {
    let mut moves_left = MOVES_MAX * items.len();
    for index in 1..items.len() {
        let item = items[index];
        if item.word() >= items[index - 1].word() {
            continue;
        }
        let mut at = index;
        while at > 0 && item.word() < items[at - 1].word() {
            items[at] = items[at - 1];
            at -= 1;
        }
        items[at] = item;
        let moves = index - at;
        if moves > moves_left {
            return false;
        }
        moves_left -= moves;
    }
    true
}

/// Number of bits of a split of this many items.
const fn split_bits(item_count: usize) -> u32 {
    match ceil_log(item_count).saturating_sub(PART_LOG) {
        0 => 1,
        bits if bits > SPLIT_BITS_MAX => SPLIT_BITS_MAX,
        bits => bits,
    }
}

/// Number of bits for counting `item_count` items.
const fn ceil_log(item_count: usize) -> u32 {
    usize::BITS - item_count.saturating_sub(1).leading_zeros()
}

/// Converts counts to places: the start of each.
fn sum_up(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += std::mem::replace(count, sum);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::partition::kernel::mixing::mix;

    /// A word and its original place.
    type Placed = (u64, u32);

    impl Item for Placed {
        type Word = u64;

        fn word(&self) -> u64 {
            self.0
        }
    }

    /// Words as they occur in buckets: spread, clustered at many scales, few different values,
    /// runs.
    fn any_words() -> impl Strategy<Value = Vec<u64>> {
        let words = |count: usize, kind: u8, seed: u64, spread: u32| {
            let word = move |index: u64| {
                let mixed = mix(index ^ seed);
                match kind {
                    0 => mixed >> spread,
                    // Equally many of each length.
                    1 => mixed >> (mix(mixed) % 64),
                    2 => (mixed % 7) << spread,
                    3 => index >> (spread % 5),
                    4 => (count as u64 - index) << (spread % 40),
                    // Almost all agree in many leading bits.
                    5 if mixed.is_multiple_of(100) => mixed,
                    5 => (1 << 62) + (mixed >> (spread % 20 + 44)),
                    // On both sides of a power of two.
                    _ => (1u64 << spread)
                        .wrapping_add(mixed % 3000)
                        .wrapping_sub(1500),
                }
            };
            (0..count as u64).map(word).collect()
        };
        let count = prop_oneof![0usize..300, 300usize..6000, 30_000usize..70_000];
        (count, 0u8..7, any::<u64>(), 0u32..63)
            .prop_map(move |(count, kind, seed, spread)| words(count, kind, seed, spread))
    }

    fn sorted<T: Item + Ord + Default>(mut items: Vec<T>) -> Vec<T> {
        let mut space = vec![T::default(); space_len(items.len())];
        sort(&mut items, &mut space);
        items
    }

    #[test]
    fn many_numbers_are_split_past_the_caches_where_there_is_room() {
        fn check<T: Item<Word = T> + Key + Default + std::fmt::Debug>(number: impl Fn(u64) -> T) {
            let count = (1 << 20) + 3;
            let numbers: Vec<T> = (0..count).map(|index| number(mix(index))).collect();
            let number_bytes = size_of::<T>();
            let space_bytes = numbers_space_bytes(count * number_bytes as u64, number_bytes);
            let mut space = vec![T::default(); space_bytes as usize / number_bytes];
            let has_room = space.len() > space_len(numbers.len());
            assert_eq!(has_room, HAS_STORES_PAST_CACHES);
            let mut expected = numbers.clone();
            expected.sort_unstable();
            // The alignment within a line makes no difference.
            for skipped in 0..3 {
                let mut found = numbers[skipped..].to_vec();
                sort(&mut found, &mut space[skipped..]);
                let mut expected = expected.clone();
                for number in &numbers[..skipped] {
                    expected.remove(expected.binary_search(number).unwrap());
                }
                assert!(found == expected, "{skipped}");
            }
        }
        check(|word| word as u32);
        check(|word| word);
        check(|word| u128::from(word) << 40);
    }

    #[test]
    fn what_is_larger_than_the_caches_is_split_finely() {
        for spread in [0, 20] {
            let word = |index: u32| (mix(index.into()) >> spread) as u32;
            let words: Vec<u32> = (0..2_200_000).map(word).collect();
            let mut expected = words.clone();
            expected.sort_unstable();
            assert!(sorted(words) == expected, "{spread}");
        }
    }

    proptest! {
        #[test]
        fn items_come_in_the_order_of_their_words_and_equal_ones_as_they_came(words in any_words()) {
            let placed: Vec<Placed> = words.iter().copied().zip(0..).collect();
            let mut expected = placed.clone();
            expected.sort();
            prop_assert_eq!(sorted(placed), expected);
        }

        #[test]
        fn numbers_of_every_length_are_sorted(words in any_words()) {
            let mut expected = words.clone();
            expected.sort_unstable();
            prop_assert_eq!(sorted(words.clone()), expected);
            let short: Vec<u32> = words.iter().map(|word| *word as u32).collect();
            let mut expected = short.clone();
            expected.sort_unstable();
            prop_assert_eq!(sorted(short), expected);
            let long = words.iter().map(|word| u128::from(*word).rotate_left(*word as u32 % 9));
            let long: Vec<u128> = long.collect();
            let mut expected = long.clone();
            expected.sort_unstable();
            prop_assert_eq!(sorted(long), expected);
        }
    }
}
