//! The radix sort of what lies in memory: one split into parts that the first-level cache holds,
//! and two passes over each part.
//!
//! Models: the split is the first step of a radix sort by the most significant digit (McIlroy,
//! Bostic and McIlroy, "Engineering radix sort", 1993); parts are sorted by the least significant
//! digit (Knuth, TAOCP 3, 5.2.5) of just enough leading bits to tell their items apart, and
//! finished by insertion.
//!
//! Contract: [`sort`] orders items by their words and keeps the order of equal ones, in a space of
//! the caller's that is kept from one call to the next. Digits are counted from the least word on:
//! items of a bucket lie close together, but may straddle a power of two. Parts of what is larger
//! than the caches are prefetched with the room that they are sorted into. Numbers that are split
//! into more parts than the first-level cache has lines go past the caches, where the space has
//! room for that ([`numbers_space_bytes`]).
//!
//! Bounds: the items once more and [`PART_MAX`] of them ([`space_len`]); nothing is allocated but
//! for parts that no digit tells apart well. Every split narrows the words by a bit at least and
//! mostly by ten or more, so that the depth of the recursion is less than a word's bits.
//!
//! N.B. voracious_radix_sort takes 1.5 times as long on u64, rdst 1.9 times, vectorised quicksorts
//! 1.4 times or more. Unchecked indices in the three loops that move items save 6 %, which is not
//! worth `unsafe`; splits by 10 bits at most and parts that are not prefetched take 1.1 times as
//! long where the data fit the second-level cache, and 1.2 to 1.8 times beyond. A split into more
//! than 1,024 parts takes 1.5 times as long by plain stores; one into fewer parts does so past the
//! caches (docs/decisions/0022).

use crate::partition::classify::Key;
use crate::partition::kernel::bounds::{bounds_u32, bounds_u64};
use crate::partition::kernel::fetch_all;
use crate::partition::kernel::parts::{HAS_STORES_PAST_CACHES, lines_bytes, split_past_caches};

/// What can be sorted: its word says where it belongs.
pub(crate) trait Item: Copy {
    /// What it is sorted by.
    type Word: Key;

    /// What this item is sorted by.
    fn word(&self) -> Self::Word;

    /// The least and the greatest word of `items`, which are not empty.
    fn bounds(items: &[Self]) -> (Self::Word, Self::Word) {
        let start = (Self::Word::MAX, items[0].word());
        items.iter().fold(start, |(least, most), item| {
            (least.min(item.word()), most.max(item.word()))
        })
    }

    /// Moves `items` to `parts` as [`split_past_caches`] does; false if `room` is too small, or for
    /// items that it does not take: nothing has been moved then.
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

/// What numbers have in common.
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

/// Items of a part that is sorted in cache, at most.
const PART_MAX: usize = 2048;
/// The number of items that a split aims at in a part is between half of this and this, as a power
/// of two.
const PART_LOG: u32 = 10;
/// Bits that one split looks at, at most.
const SPLIT_BITS_MAX: u32 = 13;
/// Most splits look at no more.
const SPLIT_BITS_FEW: u32 = 10;
/// More bytes than the caches hold for sure: of them, the next part is prefetched while one is
/// sorted.
const FETCHED_BYTES_MIN: usize = 1 << 20;
/// Values of a digit of a part's two passes.
const DIGITS: usize = 256;
/// Bits of a part's two passes.
const PASSES_BITS: u32 = 16;
/// Fewer are sorted faster by comparing.
const SMALL: usize = 64;
/// Moves an item with which a part is finished by insertion; of spread keys it takes a tenth of
/// one.
const MOVES_MAX: usize = 4;

/// Items of space that sorting `item_count` items takes.
pub(crate) const fn space_len(item_count: usize) -> usize {
    item_count
        + if item_count < PART_MAX {
            item_count
        } else {
            PART_MAX
        }
}

/// The same in bytes for `numbers_bytes` of numbers of `number_bytes` each, with room for the lines
/// of a split past the caches.
pub(crate) const fn numbers_space_bytes(numbers_bytes: u64, number_bytes: usize) -> u64 {
    let split_bits = split_bits(numbers_bytes as usize / number_bytes);
    let lines_bytes = match HAS_STORES_PAST_CACHES && split_bits > SPLIT_BITS_FEW {
        true => lines_bytes(1 << split_bits),
        false => 0,
    };
    space_bytes(numbers_bytes, number_bytes) + lines_bytes as u64
}

/// The same in bytes, for items of `item_bytes` each that are `items_bytes` together.
pub(crate) const fn space_bytes(items_bytes: u64, item_bytes: usize) -> u64 {
    let part_bytes = (PART_MAX * item_bytes) as u64;
    items_bytes
        + if items_bytes < part_bytes {
            items_bytes
        } else {
            part_bytes
        }
}

/// Sorts `items` by their words, equal ones in the order in which they came.
///
/// # Panics
/// When `space` is shorter than [`space_len`] says.
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

/// Sorts `items` where they are; `other` is as long, and `part` has room for one part. A split of
/// many uses `lines`, which may be too few.
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

/// Sorts `items` into `sorted`, which is as long. From `least` on, their words differ in the lowest
/// `bits` bits alone.
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

/// Splits `items` by their highest bits into parts, one after another in `parts`. Each is handed to
/// `each` with the room in `items` at the same place, and the number of bits in which its words
/// differ still; they differed in `bits` bits from `least` on.
fn split<T: Item>(
    items: &mut [T],
    parts: &mut [T],
    lines: &mut [T],
    least: T::Word,
    bits: u32,
    each: impl FnMut(&mut [T], &mut [T], u32),
) {
    let split_bits = split_bits(items.len()).min(bits);
    // Few of many bits take little room on the stack, however often parts are split again.
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

/// The same by `split_bits` of the bits, into `PARTS_MAX` parts at most, a power of two; past the
/// caches if there are `lines` for that.
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

/// Sorts `items` into `sorted` by as many of the highest of `bits` bits as tell them apart, and
/// finishes by the others.
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

/// The two digits that a part is sorted by.
#[derive(Clone, Copy)]
struct Digits<W> {
    /// No word is less.
    least: W,
    /// Bits after both digits.
    bits_left: u32,
    low_bits: u32,
}

impl<W: Key> Digits<W> {
    /// Those of so many items whose words differ in the lowest `bits` bits alone, from `least` on.
    fn of(item_count: usize, least: W, bits: u32) -> Self {
        // With four bits more than count them, one item in sixteen agrees with another in all of
        // them.
        let used_bits = (ceil_log(item_count) + 4).min(PASSES_BITS).min(bits);
        Digits {
            least,
            bits_left: bits - used_bits,
            low_bits: used_bits / 2,
        }
    }

    /// Both digits.
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

    /// Sorts `items` into `between` by the low digit; where the first item of each high digit
    /// belongs.
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

    /// Sorts what lies `between` into `sorted` by the high digit.
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

/// Puts items that are sorted by their digits in order by the bits after these; `other` is as long.
fn finish<T: Item>(sorted: &mut [T], other: &mut [T], part: &mut [T], digits: Digits<T::Word>) {
    if digits.bits_left == 0 || insert(sorted) {
        return;
    }
    // Many agree in all bits that were looked at: what tells these apart lies in the bits after
    // them.
    let agree = |a: &T, b: &T| digits.both(a.word()) == digits.both(b.word());
    let mut from = 0;
    for group in sorted.chunk_by_mut(agree) {
        let end = from + group.len();
        sort_here(group, &mut other[from..end], part, &mut []);
        from = end;
    }
}

/// Sorts what is nearly sorted; false where it is not, and items are left in any order that the
/// insertions so far have made.
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

/// Bits that a split of so many items looks at.
const fn split_bits(item_count: usize) -> u32 {
    match ceil_log(item_count).saturating_sub(PART_LOG) {
        0 => 1,
        bits if bits > SPLIT_BITS_MAX => SPLIT_BITS_MAX,
        bits => bits,
    }
}

/// The number of bits that count `item_count` items.
const fn ceil_log(item_count: usize) -> u32 {
    usize::BITS - item_count.saturating_sub(1).leading_zeros()
}

/// Makes counts to places: where the first of each is.
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

    /// A word and where it stood.
    type Placed = (u64, u32);

    impl Item for Placed {
        type Word = u64;

        fn word(&self) -> u64 {
            self.0
        }
    }

    /// Words as they come in buckets: spread, crowded at many scales, in few values, in runs.
    fn any_words() -> impl Strategy<Value = Vec<u64>> {
        let words = |count: usize, kind: u8, seed: u64, spread: u32| {
            let word = move |index: u64| {
                let mixed = mix(index ^ seed);
                match kind {
                    0 => mixed >> spread,
                    // As many of each length.
                    1 => mixed >> (mix(mixed) % 64),
                    2 => (mixed % 7) << spread,
                    3 => index >> (spread % 5),
                    4 => (count as u64 - index) << (spread % 40),
                    // Nearly all agree in many leading bits.
                    5 if mixed.is_multiple_of(100) => mixed,
                    5 => (1 << 62) + (mixed >> (spread % 20 + 44)),
                    // Astride of a power of two.
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
            // Where they begin in a line makes no difference.
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
