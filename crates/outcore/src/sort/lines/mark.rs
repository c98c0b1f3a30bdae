//! The input position of a line, as text before it.
//!
//! Contract: all marks have the same length, compare like their positions, and consist of six-bit
//! digits, none of which is a line end.

use crate::read::source::InputPart;

/// Digits of a position, six bits each.
pub(super) const MARK_BYTES: usize = 11;
const DIGIT_BITS: u32 = 6;
/// The smallest digit; digits are consecutive bytes without newline and NUL.
const ZERO: u8 = b'0';

/// Appends the mark of a position.
pub(super) fn append_mark(place: u64, line: &mut Vec<u8>) {
    let digits = (0..MARK_BYTES as u32).rev();
    line.extend(digits.map(|digit| {
        let bits = place.checked_shr(DIGIT_BITS * digit).unwrap_or(0);
        ZERO + (bits as u8 & ((1 << DIGIT_BITS) - 1))
    }));
}

/// The place of a marked line: its part, and the byte of the part's data.
pub(super) fn place_of(line: &[u8], parts: &[InputPart]) -> Option<(usize, u64)> {
    let mark = line.get(..MARK_BYTES)?.iter();
    let place = mark.fold(0_u64, |place, digit| {
        place << DIGIT_BITS | u64::from(digit.wrapping_sub(ZERO))
    });
    let after = parts.partition_point(|part| part.first_position <= place);
    let index = (0..after)
        .rev()
        .find(|&index| parts[index].data_len_bytes > 0)?;
    Some((index, place - parts[index].first_position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_in_the_order_of_places_and_end_no_line() {
        let places = [0, 1, 63, 64, 4095, 1 << 40, u64::MAX];
        let marks = places.map(|place| {
            let mut mark = Vec::new();
            append_mark(place, &mut mark);
            mark
        });
        assert!(marks.is_sorted() && marks.iter().all(|mark| mark.len() == MARK_BYTES));
        assert!(
            marks
                .iter()
                .flatten()
                .all(|byte| (b'0'..b'p').contains(byte))
        );
    }
}
