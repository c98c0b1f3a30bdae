//! Texts for tests: words, garbage, long, frequent and empty lines.
//!
//! Contract: each is the same for the same kind, length and seed.

use outcore::read::sample::random;

/// Kinds of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Lines of 0 to 60 random letters and spaces.
    Words,
    /// Lines of a number below 50, a space and a number.
    Few,
    /// All lines the same.
    Same,
    /// Only terminators.
    Empty,
    /// A common prefix of 1 KiB, then a number.
    Prefix,
    /// Any bytes.
    Garbage,
    /// One line in a hundred has up to 40 KB.
    Long,
    /// Half of the lines are one line, the others differ.
    Heavy,
    /// Numbers in order.
    Sorted,
    /// Most lines occur about twice, and some different lines have the same second field.
    Twice,
}

/// All kinds.
pub const TEXTS: [Text; 10] = [
    Text::Words,
    Text::Few,
    Text::Same,
    Text::Empty,
    Text::Prefix,
    Text::Garbage,
    Text::Long,
    Text::Heavy,
    Text::Sorted,
    Text::Twice,
];

/// About `bytes` of text.
pub fn text(kind: Text, bytes: usize, terminator: u8, seed: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 64);
    let mut draws = 0;
    let mut draw = |below: u64| {
        draws += 1;
        random(seed, draws) % below
    };
    let mut number = 0u64;
    while text.len() < bytes {
        match kind {
            Text::Words => {
                for _ in 0..draw(61) {
                    text.push(b" abcdefgh"[draw(9) as usize]);
                }
            }
            Text::Few => {
                let (first, second) = (draw(50), draw(7));
                text.extend_from_slice(format!("{first} {second}").as_bytes());
            }
            Text::Same => text.extend_from_slice(b"one and the same line"),
            Text::Empty => {}
            Text::Prefix => {
                text.extend(std::iter::repeat_n(b'x', 1024));
                text.extend_from_slice(format!(" {}", draw(1 << 40)).as_bytes());
            }
            Text::Garbage => {
                let len = draw(200);
                text.extend(
                    (0..len)
                        .map(|_| draw(256) as u8)
                        .filter(|&byte| byte != terminator),
                );
            }
            Text::Long => {
                let len = if draw(100) == 0 {
                    draw(40_000)
                } else {
                    draw(50)
                };
                let first = draw(26) as u8;
                text.extend((0..len).map(|i| b'a' + (u64::from(first) + i * i) as u8 % 26));
                text.extend_from_slice(format!(" {}", draw(100)).as_bytes());
            }
            Text::Heavy => {
                let tail = if draw(2) == 0 { 0 } else { draw(1 << 30) };
                text.extend_from_slice(format!("key {tail}").as_bytes());
            }
            Text::Sorted => {
                number += 1;
                text.extend_from_slice(format!("line {number:012}").as_bytes());
            }
            Text::Twice => {
                let (first, second) = (draw(2), draw(bytes as u64 / 80 + 1));
                let len = if second.is_multiple_of(5) { 70 } else { 5 };
                text.extend(std::iter::repeat_n(b'a' + first as u8, len));
                text.extend_from_slice(format!(" {second}").as_bytes());
            }
        }
        text.push(terminator);
    }
    text
}
