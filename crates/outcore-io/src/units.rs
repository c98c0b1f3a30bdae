//! Parses and prints sizes, rates and durations, and suggests the nearest word. No other module of
//! the workspace converts numbers with units to or from text.
//!
//! Contract: pure functions over text and numbers, no state. Parsing is strict, so that no setting
//! is silently off by 7 %. `GiB` is 2^30 and `GB` is 10^9; the parser rejects `G`, `g` and `gb` and
//! spells out both readings. A bare number is bytes (or bytes per second for a rate); a duration
//! always needs its unit. The parser reads values printed by the `*_exact` functions back
//! unchanged.

use std::time::Duration;

use crate::error::{Error, Result};

mod show;

pub use show::Unit;

/// A unit of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedUnit {
    /// The name of the unit, as written after a number.
    pub name: &'static str,
    /// How many of the smallest units this unit equals.
    pub factor: u64,
}

impl NamedUnit {
    /// A unit.
    pub const fn new(name: &'static str, factor: u64) -> Self {
        NamedUnit { name, factor }
    }
}

/// Units of size, largest first, so that printing takes the first that fits.
const BYTE_UNITS: [NamedUnit; 12] = [
    NamedUnit::new("EiB", 1 << 60),
    NamedUnit::new("PiB", 1 << 50),
    NamedUnit::new("TiB", 1 << 40),
    NamedUnit::new("GiB", 1 << 30),
    NamedUnit::new("MiB", 1 << 20),
    NamedUnit::new("KiB", 1 << 10),
    NamedUnit::new("EB", 1_000_000_000_000_000_000),
    NamedUnit::new("PB", 1_000_000_000_000_000),
    NamedUnit::new("TB", 1_000_000_000_000),
    NamedUnit::new("GB", 1_000_000_000),
    NamedUnit::new("MB", 1_000_000),
    NamedUnit::new("KB", 1_000),
];

/// Number of [`BYTE_UNITS`] that are powers of two.
const BINARY_UNITS: usize = 6;

/// Units of time in nanoseconds.
const TIME_UNITS: [NamedUnit; 8] = [
    NamedUnit::new("d", 86_400_000_000_000),
    NamedUnit::new("h", 3_600_000_000_000),
    NamedUnit::new("min", 60_000_000_000),
    NamedUnit::new("s", 1_000_000_000),
    NamedUnit::new("ms", 1_000_000),
    NamedUnit::new("us", 1_000),
    NamedUnit::new("\u{b5}s", 1_000),
    NamedUnit::new("ns", 1),
];

/// Parses a size: `4GiB` (2^30), `4GB` (10^9), `1.5 MiB`, `4096`. Fractions of a byte are
/// truncated.
///
/// Errors (usage): no number, an unknown or ambiguous unit, more than 2^64 - 1 bytes.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let (number, unit) = split(text);
    let unit_bytes = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        _ => *find(&BYTE_UNITS, unit).ok_or_else(|| {
            wrong(
                "size",
                text,
                &format!("unknown unit `{unit}`"),
                &byte_unit_hint(number, unit),
            )
        })?,
    };
    scale(number, unit_bytes).map_err(|why| wrong("size", text, &why, SIZE_HINT))
}

const SIZE_HINT: &str = "write a size like 4GiB (2^30), 4GB (10^9) or plain bytes";

/// Parses a rate in bytes per second: `2GB/s`, `800MiB/s`, `2000000000`.
///
/// Errors (usage): those of [`parse_bytes`]; a unit without `/s`.
pub fn parse_rate(text: &str) -> Result<u64> {
    const HINT: &str = "write a rate like 2GB/s or 800MiB/s";
    let trimmed = text.trim();
    match trimmed.strip_suffix("/s") {
        Some(bytes) => parse_bytes(bytes).map_err(|error| {
            wrong(
                "rate",
                text,
                error.cause(),
                error.next_step().unwrap_or(HINT),
            )
        }),
        None if split(trimmed).1.is_empty() => {
            scale(split(trimmed).0, 1).map_err(|why| wrong("rate", text, &why, HINT))
        }
        None => Err(wrong("rate", text, "a rate must end in `/s`", HINT)),
    }
}

/// Parses a rate above 0, for work that must end.
///
/// Errors (usage): those of [`parse_rate`]; 0.
pub fn parse_positive_rate(text: &str) -> Result<u64> {
    match parse_rate(text)? {
        0 => {
            let hint = "write a rate like 2GB/s or 800MiB/s";
            Err(wrong("rate", text, "a rate of 0 moves nothing", hint))
        }
        bytes_per_s => Ok(bytes_per_s),
    }
}

/// Parses a duration: `30s`, `5min`, `100us`, `1.5h`. Fractions of a nanosecond are truncated.
///
/// Errors (usage): no number, no unit or an unknown one, more than 2^64 - 1 ns (584 years).
pub fn parse_duration(text: &str) -> Result<Duration> {
    const HINT: &str = "write a duration such as 30s, 5min, 100us or 2h (units: ns us ms s min h \
                        d)";
    let (number, unit) = split(text);
    let unit_ns = find(&TIME_UNITS, unit).ok_or_else(|| {
        let why = match unit {
            "" => "a duration needs its unit".to_string(),
            "m" => "`m` could be minutes or milliseconds".to_string(),
            _ => format!("unknown unit `{unit}`"),
        };
        wrong("duration", text, &why, HINT)
    })?;
    let ns = scale(number, *unit_ns).map_err(|why| wrong("duration", text, &why, HINT))?;
    Ok(Duration::from_nanos(ns))
}

/// Parses a number in one of `units`, for quantities that only the caller knows: `1200MT/s`. `what`
/// and `forms` (the accepted notation) go into the error. Fractions of the smallest unit are
/// truncated.
///
/// Errors (usage): no number, no unit or an unknown one, more than 2^64 - 1 of the smallest unit.
pub fn parse_in(units: &[NamedUnit], what: &str, text: &str, forms: &str) -> Result<u64> {
    let hint = format!("write it as {forms}");
    let (number, unit) = split(text);
    let unit = find(units, unit).ok_or_else(|| {
        let why = match unit {
            "" => format!("a {what} needs its unit"),
            _ => format!("unknown unit `{unit}`"),
        };
        wrong(what, text, &why, &hint)
    })?;
    scale(number, *unit).map_err(|why| wrong(what, text, &why, &hint))
}

/// A text that [`parse_in`] reads back to exactly this number, in the first of `units` that divides
/// it.
pub fn exact_in(units: &[NamedUnit], value: u64) -> String {
    let unit = units
        .iter()
        .find(|unit| value >= unit.factor && value.is_multiple_of(unit.factor))
        .or(units.last());
    match unit {
        Some(unit) => format!("{}{}", value / unit.factor, unit.name),
        None => value.to_string(),
    }
}

/// Splits text into a number and its unit.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+');
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    (text[..end].trim_end(), text[end..].trim())
}

fn find<'a>(units: &'a [NamedUnit], name: &str) -> Option<&'a u64> {
    units
        .iter()
        .find(|unit| unit.name == name)
        .map(|unit| &unit.factor)
}

/// `number` times `unit`, exactly, rounded down; an error text if it is not a number or too large.
fn scale(number: &str, unit: u64) -> std::result::Result<u64, String> {
    let no_number = || {
        if number.is_empty() {
            "no number".to_string()
        } else {
            format!("`{number}` is not a number")
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: String = whole.chars().filter(|c| *c != '_').collect();
    let has_digits = !digits.is_empty() || !fraction.is_empty();
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !has_digits || !is_plain(&digits) || !is_plain(fraction) || fraction.len() > 18 {
        return Err(no_number());
    }
    let too_large = || "more than 64 bits can hold".to_string();
    let digits = if digits.is_empty() {
        "0"
    } else {
        digits.as_str()
    };
    let whole: u64 = digits.parse().map_err(|_| too_large())?;
    let tenths = 10_u128.pow(fraction.len() as u32);
    let part: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().map_err(|_| no_number())?
    };
    let total = u128::from(whole) * u128::from(unit) + part * u128::from(unit) / tenths;
    u64::try_from(total).map_err(|_| too_large())
}

fn wrong(what: &str, text: &str, why: &str, hint: &str) -> Error {
    Error::usage(format!("read {what} `{}`", text.trim()), why).hint(hint)
}

fn byte_unit_hint(number: &str, unit: &str) -> String {
    let lower = unit.to_ascii_lowercase();
    let prefix = lower.trim_end_matches("ib").trim_end_matches('b');
    let is_prefix = matches!(prefix, "k" | "m" | "g" | "t" | "p" | "e");
    if !is_prefix {
        return SIZE_HINT.to_string();
    }
    let letter = prefix.to_ascii_uppercase();
    format!("write {number}{letter}iB (powers of 1024) or {number}{letter}B (powers of 1000)")
}

/// A size for people: `1.50 GiB`, `812 KiB`, `17 B`. Three significant digits.
pub fn bytes(count_bytes: u64) -> String {
    human(count_bytes as f64, &BYTE_UNITS[..BINARY_UNITS], "")
}

/// A size that [`parse_bytes`] reads back exactly: `4GiB`, `1500KB`, `4097`.
pub fn bytes_exact(count_bytes: u64) -> String {
    let unit = BYTE_UNITS
        .iter()
        .filter(|unit| count_bytes >= unit.factor && count_bytes.is_multiple_of(unit.factor))
        .max_by_key(|unit| unit.factor);
    match unit {
        Some(unit) => format!("{}{}", count_bytes / unit.factor, unit.name),
        None => count_bytes.to_string(),
    }
}

/// A rate for people in powers of two: `1.86 GiB/s`.
pub fn rate(bytes_per_s: f64) -> String {
    human(bytes_per_s, &BYTE_UNITS[..BINARY_UNITS], "/s")
}

/// A rate for people in powers of ten, as drives are rated: `2.00 GB/s`.
pub fn rate_decimal(bytes_per_s: f64) -> String {
    human(bytes_per_s, &BYTE_UNITS[BINARY_UNITS..], "/s")
}

/// A rate that [`parse_rate`] reads back exactly: `2GB/s`.
pub fn rate_exact(bytes_per_s: u64) -> String {
    let text = bytes_exact(bytes_per_s);
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_bare {
        format!("{text}B/s")
    } else {
        format!("{text}/s")
    }
}

fn human(value: f64, units: &[NamedUnit], suffix: &str) -> String {
    if !value.is_finite() || value < 0.0 {
        return format!("? B{suffix}");
    }
    match in_unit(value, units) {
        Some((value, name)) => format!("{} {name}{suffix}", three_digits(value)),
        None => format!("{value:.0} B{suffix}"),
    }
}

/// A value in the largest unit that it reaches after rounding to three digits, so that 1023.9 MiB
/// becomes 1.00 GiB and not 1024 MiB; `None` if it is below the smallest unit.
fn in_unit(value: f64, units: &[NamedUnit]) -> Option<(f64, &'static str)> {
    let is_reached = |unit: u64| value.abs() >= unit as f64 * 0.9995;
    let unit = units.iter().find(|unit| is_reached(unit.factor))?;
    Some((value / unit.factor as f64, unit.name))
}

fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A time for people: `350 ns`, `12.5 ms`, `3.20 s`, `2 min 05 s`, `1 h 02 min`, `3 d 04 h`.
pub fn seconds(time_s: f64) -> String {
    if !time_s.is_finite() || time_s < 0.0 {
        return "? s".to_string();
    }
    let small = [("s", 1.0), ("ms", 1e-3), ("us", 1e-6)];
    if time_s < 99.95 {
        let unit = small.iter().find(|(_, unit)| time_s >= unit * 0.9995);
        return match unit {
            Some((name, unit)) => format!("{} {name}", three_digits(time_s / unit)),
            None => format!("{:.0} ns", time_s * 1e9),
        };
    }
    let total = time_s.round() as u64;
    match total {
        0..3_600 => format!("{} min {:02} s", total / 60, total % 60),
        3_600..86_400 => format!("{} h {:02} min", total / 3_600, total / 60 % 60),
        _ => format!("{} d {:02} h", total / 86_400, total / 3_600 % 24),
    }
}

/// A count with its digits in groups of three: `1,000,000`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number with the English singular or plural: `1 drive`, `1,000 drives`, `2 passes`,
/// `3 entries`, `4 vertices`.
pub fn counted(value: u64, thing: &str) -> String {
    let count = count(value);
    if value == 1 {
        return format!("{count} {thing}");
    }
    let is_vowel = |letter: u8| b"aeiou".contains(&letter);
    match thing.as_bytes() {
        [.., b'e', b'x'] => format!("{count} {}ices", &thing[..thing.len() - 2]),
        [.., before, b'y'] if !is_vowel(*before) => {
            format!("{count} {}ies", &thing[..thing.len() - 1])
        }
        [.., b's' | b'x'] | [.., b'c' | b's', b'h'] => format!("{count} {thing}es"),
        _ => format!("{count} {thing}s"),
    }
}

/// The word of `known` that `word` most likely meant; at most a third of its letters may differ.
/// Ties go to a word of the same letters, then to the earlier one. Cost: `known.len()` edit
/// distances.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let wanted = word.to_ascii_lowercase();
    let letters = sorted_letters(&wanted);
    let (distance, _, closest) = known
        .iter()
        .map(|candidate| {
            let lower = candidate.to_ascii_lowercase();
            let has_other_letters = sorted_letters(&lower) != letters;
            (
                edit_distance(&wanted, &lower),
                has_other_letters,
                *candidate,
            )
        })
        .min_by_key(|(distance, has_other_letters, _)| (*distance, *has_other_letters))?;
    let longest = wanted.chars().count().max(closest.chars().count());
    let is_near = distance * 3 <= longest.max(3) && distance < wanted.chars().count().max(1);
    is_near.then_some(closest)
}

fn sorted_letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// Insertions, deletions, substitutions and swaps of adjacent letters between two words.
fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            let is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if is_swap {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A duration that [`parse_duration`] reads back to exactly this number of nanoseconds: `5min`.
    fn duration_exact(duration: Duration) -> String {
        match u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) {
            0 => "0s".to_string(),
            ns => exact_in(&TIME_UNITS, ns),
        }
    }

    #[test]
    fn things_are_counted_in_the_plural() {
        let plurals = [
            "drives", "vertices", "entries", "passes", "batches", "arrays", "boxes",
        ];
        let things = ["drive", "vertex", "entry", "pass", "batch", "array", "box"];
        for (thing, plural) in things.iter().zip(plurals) {
            assert_eq!(counted(1, thing), format!("1 {thing}"));
            assert_eq!(counted(1000, thing), format!("1,000 {plural}"));
        }
    }

    #[test]
    fn sizes_are_read_in_powers_of_1024_and_of_1000() {
        let cases = [
            ("4096", 4096),
            ("0", 0),
            ("17B", 17),
            ("4KiB", 4096),
            ("4KB", 4000),
            ("4kB", 4000),
            ("512MiB", 512 << 20),
            ("1.5 GiB", 3 << 29),
            (" 4GiB ", 4 << 30),
            ("4GB", 4_000_000_000),
            ("2TiB", 2 << 40),
            ("1_000", 1000),
            (".5KiB", 512),
            ("15.999999999EiB", 18_446_744_072_556_630_111),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_bytes(text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn ambiguous_and_broken_sizes_are_refused_with_the_right_spelling() {
        let text = parse_bytes("512K").unwrap_err().to_string();
        assert!(text.contains("512KiB") && text.contains("512KB"), "{text}");
        let text = parse_bytes("2gb").unwrap_err().to_string();
        assert!(text.contains("2GiB") && text.contains("2GB"), "{text}");
        for text in [
            "",
            "GiB",
            "-1",
            "1.2.3",
            "1e9",
            "4 bananas",
            "16EiB",
            "+4",
            "4GiB/s",
            ".",
        ] {
            let error = parse_bytes(text).unwrap_err();
            assert_eq!(error.kind(), crate::error::Kind::Usage, "{text}");
            assert!(error.next_step().is_some(), "{text}");
        }
    }

    #[test]
    fn rates_need_their_second_and_durations_their_unit() {
        assert_eq!(parse_rate("2GB/s").unwrap(), 2_000_000_000);
        assert_eq!(parse_rate("800 MiB/s").unwrap(), 800 << 20);
        assert_eq!(parse_rate("1000").unwrap(), 1000);
        for zero in ["0", "0B/s", "0GB/s", "0.4B/s"] {
            let error = parse_positive_rate(zero).unwrap_err();
            assert!(error.to_string().contains("moves nothing"), "{error}");
        }
        assert!(parse_rate("2GB").unwrap_err().to_string().contains("2GB/s"));
        assert!(parse_rate("2G/s").unwrap_err().to_string().contains("2GiB"));
        assert_eq!(parse_duration("30s").unwrap(), Duration::from_secs(30));
        assert_eq!(parse_duration("5min").unwrap(), Duration::from_secs(300));
        assert_eq!(parse_duration("100us").unwrap(), Duration::from_micros(100));
        assert_eq!(parse_duration("1.5h").unwrap(), Duration::from_secs(5400));
        assert!(
            parse_duration("30")
                .unwrap_err()
                .to_string()
                .contains("needs its unit")
        );
        assert!(
            parse_duration("5m")
                .unwrap_err()
                .to_string()
                .contains("minutes or milliseconds")
        );
    }

    #[test]
    fn values_are_printed_with_three_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1 << 20), "1.00 MiB");
        assert_eq!(bytes(3 << 29), "1.50 GiB");
        assert_eq!(bytes((1 << 30) - 1), "1.00 GiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(rate(1.5 * (1u64 << 30) as f64), "1.50 GiB/s");
        assert_eq!(rate_decimal(812e6), "812 MB/s");
        assert_eq!(rate(f64::NAN), "? B/s");
        assert_eq!(seconds(0.0), "0 ns");
        assert_eq!(seconds(3.5e-7), "350 ns");
        assert_eq!(seconds(0.0125), "12.5 ms");
        assert_eq!(seconds(0.99999), "1.00 s");
        assert_eq!(seconds(125.0), "2 min 05 s");
        assert_eq!(seconds(3725.0), "1 h 02 min");
        assert_eq!(seconds(4.0 * 3600.0 + 3.0 * 86400.0), "3 d 04 h");
        assert_eq!(count(7), "7");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(268_435_456), "268,435,456");
        assert_eq!(bytes_exact(4 << 30), "4GiB");
        assert_eq!(bytes_exact(1_500_000), "1500KB");
        assert_eq!(bytes_exact(4097), "4097");
        assert_eq!(rate_exact(2_000_000_000), "2GB/s");
        assert_eq!(duration_exact(Duration::from_secs(300)), "5min");
    }

    proptest! {
        #[test]
        fn exact_values_are_read_back(value: u64, shift in 0u32..64) {
            let value = value >> shift << (shift / 2);
            prop_assert_eq!(parse_bytes(&bytes_exact(value)).unwrap(), value);
            prop_assert_eq!(parse_rate(&rate_exact(value)).unwrap(), value);
            let duration = Duration::from_nanos(value);
            prop_assert_eq!(parse_duration(&duration_exact(duration)).unwrap(), duration);
        }

        #[test]
        fn no_text_makes_a_parser_panic(text in "[0-9._+-]{0,22} ?[A-Za-z/\u{b5}]{0,4}") {
            let _ = (parse_bytes(&text), parse_rate(&text), parse_duration(&text));
        }
    }

    #[test]
    fn a_misspelt_word_finds_its_neighbour_and_nonsense_finds_none() {
        let known = ["u32", "u64", "f32", "gensort"];
        assert_eq!(nearest("U64", &known), Some("u64"));
        assert_eq!(nearest("gnesort", &known), Some("gensort"));
        assert_eq!(nearest("u46", &known), Some("u64"));
        assert_eq!(nearest("banana", &known), None);
        assert_eq!(nearest("x", &[]), None);
    }
}
