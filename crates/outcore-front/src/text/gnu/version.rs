//! `-V`: version names as keys.
//!
//! Contract: [`append_version`] appends a prefix-free part in the order of gnulib's `filenvercmp`,
//! as coreutils 9 documents it (manual, "Version sort ordering"). First come the empty name, `.`,
//! `..`, and other names with a leading dot; then all other names. Names are compared without their
//! suffixes (`.tar.gz`) first, then as a whole. Chunks of other bytes and numbers alternate. In a
//! chunk of other bytes, `~` comes first, then the end of the chunk, then letters, then all other
//! bytes. Numbers compare by value.

use outcore::key::encode::{digits_len, without_zeros_in_front};

/// Ranks within a chunk.
const TILDE: u8 = 1;
const END: u8 = 2;
const LETTERS: u8 = 3;
const OTHERS: u8 = LETTERS + 52;
/// The first byte of a number whose number of digits exceeds one byte.
const LONG: u8 = 0xFF;

/// Appends the part of a name.
pub(crate) fn append_version(name: &[u8], key: &mut Vec<u8>) {
    let class = match name {
        [] => 0,
        b"." => 1,
        b".." => 2,
        [b'.', ..] => 3,
        _ => 4,
    };
    key.push(class);
    if class >= 3 {
        append_chunks(&name[..stem_len(name)], key);
        append_chunks(name, key);
    }
}

/// The length without suffixes. A suffix is a `.`, a letter or `~`, and then letters, digits and
/// `~`; all suffixes at the end are removed, but never the whole name.
fn stem_len(name: &[u8]) -> usize {
    let begins = |byte: u8| byte.is_ascii_alphabetic() || byte == b'~';
    let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'~';
    let mut stem = name.len();
    loop {
        let run = name[..stem].iter().rposition(|byte| !goes_on(*byte));
        match run {
            Some(dot) if dot > 0 && name[dot] == b'.' => match name[..stem].get(dot + 1) {
                Some(first) if begins(*first) => stem = dot,
                _ => return stem,
            },
            _ => return stem,
        }
    }
}

fn append_chunks(name: &[u8], key: &mut Vec<u8>) {
    let mut rest = name;
    loop {
        let chunk = rest.iter().position(u8::is_ascii_digit);
        let (chunk, behind) = rest.split_at(chunk.unwrap_or(rest.len()));
        key.extend(chunk.iter().map(|byte| rank(*byte)));
        key.push(END);
        let (number, behind) = behind.split_at(digits_len(behind));
        append_number(without_zeros_in_front(number), key);
        rest = behind;
        if rest.is_empty() {
            // A name that ends with a number has an empty chunk at its end. No other byte is
            // possible here, because a chunk after a number is not empty.
            key.push(END);
            return;
        }
    }
}

fn append_number(digits: &[u8], key: &mut Vec<u8>) {
    match u8::try_from(digits.len()) {
        Ok(len) if len < LONG => key.push(len),
        _ => {
            key.push(LONG);
            key.extend_from_slice(&(digits.len() as u64).to_be_bytes());
        }
    }
    key.extend_from_slice(digits);
}

fn rank(byte: u8) -> u8 {
    match byte {
        b'~' => TILDE,
        b'A'..=b'Z' => LETTERS + (byte - b'A'),
        b'a'..=b'z' => LETTERS + 26 + (byte - b'a'),
        // Other bytes are ranked by their values, without counting the bytes of the classes below
        // them.
        _ => {
            let before = [b'0'..=b'9', b'A'..=b'Z', b'a'..=b'z', b'~'..=b'~']
                .iter()
                .filter(|class| *class.end() < byte)
                .map(|class| class.end() - class.start() + 1)
                .sum::<u8>();
            OTHERS + (byte - before)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn key_of(name: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        append_version(name, &mut key);
        key
    }

    #[test]
    fn versions_are_in_the_order_of_the_manual() {
        let ordered: [&[u8]; 14] = [
            b"",
            b".",
            b"..",
            b".a",
            b".b",
            b"~",
            b"a~",
            b"a",
            b"a.b",
            b"a1.tar",
            b"a2.tar.gz",
            b"a10",
            b"b",
            b"#",
        ];
        for pair in ordered.windows(2) {
            assert!(key_of(pair[0]) < key_of(pair[1]), "{pair:?}");
        }
        assert_eq!(key_of(b"a01"), key_of(b"a1"));
        assert_eq!(key_of(b"a"), key_of(b"a0"));
    }

    /// By definition: one pair of bytes after the other.
    fn compare_chunks(a: &[u8], b: &[u8]) -> Ordering {
        let order = |text: &[u8], at: usize| match text.get(at) {
            None => -1,
            Some(byte) if byte.is_ascii_digit() => 0,
            Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
            Some(b'~') => -2,
            Some(byte) => i32::from(*byte) + 256,
        };
        let is_other =
            |text: &[u8], at: usize| text.get(at).is_some_and(|byte| !byte.is_ascii_digit());
        let (mut i, mut j) = (0, 0);
        while i < a.len() || j < b.len() {
            while is_other(a, i) || is_other(b, j) {
                match order(a, i).cmp(&order(b, j)) {
                    Ordering::Equal => (i, j) = (i + 1, j + 1),
                    different => return different,
                }
            }
            let number = |text: &[u8], at: &mut usize| {
                let digits = &text[(*at).min(text.len())..];
                let digits = &digits[..digits_len(digits)];
                *at += digits.len();
                let digits = without_zeros_in_front(digits);
                (digits.len(), digits.to_vec())
            };
            match number(a, &mut i).cmp(&number(b, &mut j)) {
                Ordering::Equal => {}
                different => return different,
            }
        }
        Ordering::Equal
    }

    proptest! {
        #[test]
        fn keys_compare_as_names_do(
            a in proptest::collection::vec(proptest::sample::select(&b"01290aZ~.-z\xff/\x00"[..]), 1..9),
            b in proptest::collection::vec(proptest::sample::select(&b"01290aZ~.-z\xff/\x00"[..]), 1..9),
        ) {
            let chunks = |name: &[u8]| {
                let mut key = Vec::new();
                append_chunks(name, &mut key);
                key
            };
            prop_assert_eq!(chunks(&a).cmp(&chunks(&b)), compare_chunks(&a, &b));
            let stems = compare_chunks(&a[..stem_len(&a)], &b[..stem_len(&b)]);
            if a[0] != b'.' && b[0] != b'.' {
                prop_assert_eq!(key_of(&a).cmp(&key_of(&b)), stems.then(compare_chunks(&a, &b)));
            }
        }
    }
}
