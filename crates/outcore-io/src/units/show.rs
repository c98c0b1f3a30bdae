//! Numbers with units, as short as possible while still comparable.
//!
//! Contract: pure. Three significant digits; sizes in powers of two (4 KiB), rates in powers of ten
//! (3.2 GB/s), as drives are sold. A value that is not a number prints as a dash.

use libm::{floor, log10, pow};
use serde::{Deserialize, Serialize};

use super::{BINARY_UNITS, BYTE_UNITS, NamedUnit, in_unit};

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A plain count, such as a number of threads.
    #[default]
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerS,
    /// Requests per second.
    Iops,
    /// Any other quantity per second.
    PerS,
    /// Seconds, shown as us, ms or s.
    Seconds,
    /// A share of 1, shown as a percentage.
    Share,
    /// A factor.
    Times,
}

const THOUSANDS: [NamedUnit; 4] = [
    NamedUnit::new("T", 1_000_000_000_000),
    NamedUnit::new("G", 1_000_000_000),
    NamedUnit::new("M", 1_000_000),
    NamedUnit::new("k", 1_000),
];
const TIMES_NS: [NamedUnit; 4] = [
    NamedUnit::new("s", 1_000_000_000),
    NamedUnit::new("ms", 1_000_000),
    NamedUnit::new("us", 1_000),
    NamedUnit::new("ns", 1),
];

impl Unit {
    /// The number with its unit: `3.21 GB/s`, `4 KiB`, `85 us`, `12.5 %`, `1.97x`.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return "-".to_owned();
        }
        match self {
            // Below ten thousand, a count is easier to read in full.
            Unit::Count | Unit::Iops | Unit::PerS if value.abs() < 9_999.5 => digits(value),
            Unit::Count | Unit::Iops | Unit::PerS => scaled(value, &THOUSANDS, ""),
            _ if value == 0.0 => digits(value),
            Unit::Bytes => scaled(value, &BYTE_UNITS[..BINARY_UNITS], " B"),
            Unit::BytesPerS => match in_unit(value, &BYTE_UNITS[BINARY_UNITS..]) {
                Some((value, name)) => format!("{} {name}/s", digits(value)),
                None => format!("{} B/s", digits(value)),
            },
            Unit::Seconds => scaled(value * 1e9, &TIMES_NS, " ns"),
            Unit::Share => format!("{} %", digits(value * 100.0)),
            Unit::Times => format!("{}x", digits(value)),
        }
    }

    /// Suffix for axes and column heads whose values do not show the unit.
    pub const fn title(self) -> &'static str {
        match self {
            Unit::Iops => "requests/s",
            Unit::PerS => "a second",
            _ => "",
        }
    }

    /// The unit of the bare number in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Bytes => "bytes",
            Unit::BytesPerS => "bytes_per_s",
            Unit::Iops => "requests_per_s",
            Unit::PerS => "per_s",
            Unit::Seconds => "seconds",
            Unit::Share => "share",
            Unit::Times => "times",
        }
    }
}

fn scaled(value: f64, units: &[NamedUnit], below: &str) -> String {
    match in_unit(value, units) {
        Some((value, name)) => format!("{} {name}", digits(value)),
        None => format!("{}{below}", digits(value)),
    }
}

fn round3(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = pow(10.0, floor(log10(value.abs())) - 2.0);
    (value / unit).round() * unit
}

/// Three significant digits, whole numbers in full, no trailing zeros.
fn digits(value: f64) -> String {
    let places = match round3(value).abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.1 => 3,
        _ => 4,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_carry_their_unit() {
        for (unit, value, text) in [
            (Unit::Count, 0.0, "0"),
            (Unit::Count, 8192.0, "8192"),
            (Unit::Count, 25_000.0, "25 k"),
            (Unit::Iops, 1_456_789.0, "1.46 M"),
            (Unit::Iops, 999_900.0, "1 M"),
            (Unit::Bytes, 4096.0, "4 KiB"),
            (Unit::Bytes, 1024.0, "1 KiB"),
            (Unit::Bytes, 1_048_576.0, "1 MiB"),
            (Unit::Bytes, 16_777_216.0, "16 MiB"),
            (Unit::Bytes, 512.0, "512 B"),
            (Unit::BytesPerS, 3_214_000_000.0, "3.21 GB/s"),
            (Unit::BytesPerS, 999_600_000.0, "1 GB/s"),
            (Unit::Seconds, 0.000_085, "85 us"),
            (Unit::Seconds, 61.26, "61.3 s"),
            (Unit::Share, 0.125, "12.5 %"),
            (Unit::Times, 1.974, "1.97x"),
            (Unit::Seconds, f64::NAN, "-"),
        ] {
            assert_eq!(unit.show(value), text, "{unit:?} {value}");
        }
    }
}
