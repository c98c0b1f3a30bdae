//! Quantities of configuration files: `"4KiB"`, `"75us"`, `"1.2GB/s"`, `"333MT/s"`.
//!
//! Contract: [`outcore_io::units`] reads and writes the text, so sizes, times and rates have the
//! same form as everywhere in outcore. This file adds the units of the simulator. Times are integer
//! picoseconds, sizes are bytes, rates are bytes per second.

use outcore_io::Result;
use outcore_io::units::{self, NamedUnit};
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
pub(crate) const SECOND: Ps = 1_000_000_000_000;

/// Units of sizes, largest first.
const SIZE_UNITS: [NamedUnit; 5] = [
    NamedUnit::new("TiB", 1 << 40),
    NamedUnit::new("GiB", 1 << 30),
    NamedUnit::new("MiB", 1 << 20),
    NamedUnit::new("KiB", 1 << 10),
    NamedUnit::new("B", 1),
];

/// Units of time, largest first.
const TIME_UNITS: [NamedUnit; 6] = [
    NamedUnit::new("min", 60 * SECOND),
    NamedUnit::new("s", SECOND),
    NamedUnit::new("ms", MS),
    NamedUnit::new("us", US),
    NamedUnit::new("ns", NS),
    NamedUnit::new("ps", 1),
];

/// Units of the rate of a bus.
const TRANSFER_UNITS: [NamedUnit; 2] = [
    NamedUnit::new("GT/s", 1_000_000_000),
    NamedUnit::new("MT/s", 1_000_000),
];

/// Reads a duration such as `75us` as picoseconds.
///
/// Errors (usage): no number, a missing or unknown unit, more than 213 days.
pub(crate) fn parse_time(text: &str) -> Result<Ps> {
    units::parse_in(&TIME_UNITS, "time", text, "500ps, 75us, 3.5ms or 2s")
}

/// Reads a bus rate such as `1200MT/s` as transfers a second.
///
/// Errors (usage): no number, a missing or unknown unit.
pub(crate) fn parse_transfers(text: &str) -> Result<u64> {
    units::parse_in(&TRANSFER_UNITS, "bus rate", text, "1200MT/s")
}

macro_rules! quantity {
    ($name:ident, $parse:path, $doc:literal, $show:expr) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
        pub struct $name(pub u64);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(
                deserializer: D,
            ) -> std::result::Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                $parse(&text).map($name).map_err(serde::de::Error::custom)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(
                &self,
                serializer: S,
            ) -> std::result::Result<S::Ok, S::Error> {
                let show: fn(u64) -> String = $show;
                serializer.serialize_str(&show(self.0))
            }
        }
    };
}

pub(crate) fn show_time(ps: Ps) -> String {
    units::exact_in(&TIME_UNITS[1..], ps)
}

fn show_transfers(rate: u64) -> String {
    format!("{}MT/s", rate as f64 / 1e6)
}

quantity!(
    Size,
    units::parse_bytes,
    "Bytes; in files a text such as `\"4KiB\"`.",
    |bytes| units::exact_in(&SIZE_UNITS, bytes)
);
quantity!(
    Time,
    parse_time,
    "Picoseconds; in files a text such as `\"75us\"`.",
    show_time
);
quantity!(
    Rate,
    units::parse_rate,
    "Bytes per second; in files a text such as `\"7GB/s\"`.",
    units::rate_exact
);
quantity!(
    Transfers,
    parse_transfers,
    "Bus transfers per second; in files a text such as `\"1200MT/s\"`.",
    show_transfers
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_and_print_alike() {
        assert_eq!(parse_time("75us").unwrap(), 75 * US);
        assert_eq!(parse_time("1.5ns").unwrap(), 1500);
        assert_eq!(parse_transfers("1.2GT/s").unwrap(), 1_200_000_000);
        for ps in [1, 1500, 75 * US, 3 * SECOND] {
            assert_eq!(parse_time(&show_time(ps)).unwrap(), ps);
        }
        for text in ["\"4KiB\"", "\"512B\"", "\"2GB\"", "\"3GiB\""] {
            let size: Size = serde_json::from_str(text).unwrap();
            let again = serde_json::to_string(&size).unwrap();
            assert_eq!(
                serde_json::from_str::<Size>(&again).unwrap(),
                size,
                "{text}"
            );
        }
        let rate: Rate = serde_json::from_str("\"7GB/s\"").unwrap();
        assert_eq!(serde_json::to_string(&rate).unwrap(), "\"7GB/s\"");
    }

    #[test]
    fn wrong_quantities_name_the_accepted_forms() {
        for text in ["", "4 bananas", "-1us", "1e400s", "nan", "75"] {
            let error = parse_time(text).unwrap_err();
            assert!(error.next_step().unwrap().contains("75us"), "{text}");
        }
        let error = serde_json::from_str::<Rate>("\"7GB\"").unwrap_err();
        assert!(error.to_string().contains("/s"), "{error}");
        let error = serde_json::from_str::<Size>("\"4 bananas\"").unwrap_err();
        assert!(error.to_string().contains("4GiB"), "{error}");
    }
}
