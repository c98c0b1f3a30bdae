//! Quantities with units in configuration files: `"4KiB"`, `"75us"`, `"1.2GB/s"`, `"333MT/s"`.
//!
//! Contract: every parser takes the whole text or fails with the accepted forms named; binary
//! prefixes are powers of 1024, decimal ones of 1000, as everywhere in outcore. Times are kept as
//! integer picoseconds, sizes as bytes, rates as bytes a second.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Picoseconds; the simulator's unit of time (2^64 ps are 213 days).
pub type Ps = u64;

/// Picoseconds in a nanosecond.
pub const NS: Ps = 1_000;
/// Picoseconds in a microsecond.
pub const US: Ps = 1_000_000;
/// Picoseconds in a millisecond.
pub const MS: Ps = 1_000_000_000;
/// Picoseconds in a second.
pub const SECOND: Ps = 1_000_000_000_000;

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn number(text: &str) -> Option<f64> {
    let plain = text.replace('_', "");
    let value: f64 = plain.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

fn scaled(value: f64, factor: f64) -> Option<u64> {
    let product = value * factor;
    (product <= 9.0e18).then(|| product.round() as u64)
}

fn size_factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

/// Parses a size such as `4KiB` or `2GB` into bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = split(text);
    number(digits)
        .zip(size_factor(unit))
        .and_then(|(value, factor)| scaled(value, factor))
        .ok_or_else(|| format!("`{text}` is not a size; write it as 4KiB, 256MiB or 2GB"))
}

/// Parses a duration such as `75us` into picoseconds.
pub fn parse_time(text: &str) -> Result<Ps, String> {
    let (digits, unit) = split(text);
    let factor = match unit {
        "ps" => 1.0,
        "ns" => NS as f64,
        "us" => US as f64,
        "ms" => MS as f64,
        "s" => SECOND as f64,
        "min" => 60.0 * SECOND as f64,
        _ => f64::NAN,
    };
    number(digits)
        .filter(|_| factor.is_finite())
        .and_then(|value| scaled(value, factor))
        .ok_or_else(|| format!("`{text}` is not a time; write it as 500ps, 75us, 3.5ms or 2s"))
}

/// Parses a rate such as `7GB/s` into bytes a second.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a rate; write it as 7GB/s or 512MiB/s");
    let size = text.trim().strip_suffix("/s").ok_or_else(wrong)?;
    parse_size(size).map_err(|_| wrong())
}

/// Parses a bus rate such as `1200MT/s` into transfers a second.
pub fn parse_transfers(text: &str) -> Result<u64, String> {
    let (digits, unit) = split(text);
    let factor = match unit {
        "MT/s" => 1e6,
        "GT/s" => 1e9,
        _ => f64::NAN,
    };
    number(digits)
        .filter(|_| factor.is_finite())
        .and_then(|value| scaled(value, factor))
        .ok_or_else(|| format!("`{text}` is not a bus rate; write it as 1200MT/s"))
}

macro_rules! quantity {
    ($name:ident, $parse:ident, $doc:literal, $show:expr) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
        pub struct $name(pub u64);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                $parse(&text).map($name).map_err(serde::de::Error::custom)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let show: fn(u64) -> String = $show;
                serializer.serialize_str(&show(self.0))
            }
        }
    };
}

fn show_size(bytes: u64) -> String {
    for (unit, factor) in [
        ("TiB", 1u64 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    format!("{bytes}B")
}

pub(crate) fn show_time(ps: u64) -> String {
    for (unit, factor) in [("s", SECOND), ("ms", MS), ("us", US), ("ns", NS)] {
        if ps >= factor && ps.is_multiple_of(factor) {
            return format!("{}{unit}", ps / factor);
        }
    }
    format!("{ps}ps")
}

pub(crate) fn show_rate(bytes: u64) -> String {
    for (unit, factor) in [("GB", 1_000_000_000u64), ("MB", 1_000_000), ("kB", 1_000)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}/s", bytes / factor);
        }
    }
    format!("{bytes}B/s")
}

fn show_transfers(rate: u64) -> String {
    format!("{}MT/s", rate as f64 / 1e6)
}

quantity!(
    Size,
    parse_size,
    "Bytes; in files a text such as `\"4KiB\"`.",
    show_size
);
quantity!(
    Time,
    parse_time,
    "Picoseconds; in files a text such as `\"75us\"`.",
    show_time
);
quantity!(
    Rate,
    parse_rate,
    "Bytes a second; in files a text such as `\"7GB/s\"`.",
    show_rate
);
quantity!(
    Transfers,
    parse_transfers,
    "Bus transfers a second; in files a text such as `\"1200MT/s\"`.",
    show_transfers
);

/// The candidate that differs least from `word` (edit distance, at most a third of its length).
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let budget = (word.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| {
            (
                edit_distance(&word.to_lowercase(), &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= budget)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let cost = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_and_print_alike() {
        assert_eq!(parse_size("4KiB"), Ok(4096));
        assert_eq!(parse_size("2GB"), Ok(2_000_000_000));
        assert_eq!(parse_time("75us"), Ok(75 * US));
        assert_eq!(parse_time("1.5ns"), Ok(1500));
        assert_eq!(parse_rate("7GB/s"), Ok(7_000_000_000));
        assert_eq!(parse_transfers("1.2GT/s"), Ok(1_200_000_000));
        for ps in [1, 1500, 75 * US, 3 * SECOND] {
            assert_eq!(parse_time(&show_time(ps)), Ok(ps));
        }
        for bytes in [1, 512, 4096, 3 << 30] {
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn wrong_quantities_name_the_accepted_forms() {
        for text in ["", "4 bananas", "-1KiB", "1e400s", "nan"] {
            assert!(
                parse_size(text).unwrap_err().contains("write it as"),
                "{text}"
            );
        }
        assert!(parse_time("75").unwrap_err().contains("75us"));
        assert!(parse_rate("7GB").unwrap_err().contains("/s"));
    }

    #[test]
    fn the_nearest_key_is_found_and_nonsense_is_not() {
        assert_eq!(
            nearest("chanels", ["channels", "chips", "planes"]),
            Some("channels")
        );
        assert_eq!(nearest("xyzzy", ["channels", "chips", "planes"]), None);
    }
}
