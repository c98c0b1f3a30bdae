//! The conformance kit's table: one list of sorts on which engine, command and Python must agree.
//!
//! Contract: [`cases`] builds the list. `tests/conformance/cases.json` is the same list with
//! checksums (CRC-32) of input and expected output, for runners in other languages; a test keeps
//! the two equal. A runner makes the input ([`super::patterns`], or `conformance.py`), sorts it,
//! and compares the checksum.

use outcore::key::RecordFormat;
use outcore::sort::SortOptions;
use serde::{Deserialize, Serialize};

use super::patterns::{Payload, Values, fill};

/// One sort.
#[derive(Debug, Clone)]
pub struct Case {
    /// Record format as text, in the notation of `--type`.
    pub format: &'static str,
    /// The pattern of the keys.
    pub values: Values,
    /// The bytes outside of the keys.
    pub payload: Payload,
    /// Number of records.
    pub records: usize,
    /// Determines the data.
    pub seed: u64,
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys stay in the order of the input.
    pub stable: bool,
    /// One record per key.
    pub unique: bool,
}

/// A case as stored in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct CaseLine {
    pub name: String,
    pub format: String,
    pub values: String,
    pub payload: String,
    pub records: usize,
    pub seed: u64,
    /// Some of `descending`, `stable`, `unique`.
    pub options: Vec<String>,
    pub input_crc32: u32,
    pub output_records: usize,
    pub output_crc32: u32,
}

impl Case {
    /// The parsed format.
    pub fn record_format(&self) -> RecordFormat {
        RecordFormat::parse_type(self.format).unwrap()
    }

    /// The options for the engine.
    pub fn options(&self) -> SortOptions {
        SortOptions {
            descending: self.descending,
            stable: self.stable,
            unique: self.unique,
            ..SortOptions::default()
        }
    }

    /// The input.
    pub fn input(&self) -> Vec<u8> {
        let format = self.record_format();
        fill(&format, self.values, self.payload, self.seed, self.records)
    }

    fn option_names(&self) -> Vec<String> {
        let all = [
            (self.descending, "descending"),
            (self.stable, "stable"),
            (self.unique, "unique"),
        ];
        let set = all.into_iter().filter(|(is_set, _)| *is_set);
        set.map(|(_, name)| name.to_string()).collect()
    }

    /// The name of the case in messages.
    pub fn name(&self) -> String {
        let mut name = format!(
            "{} {} {} x{}",
            self.format,
            self.values.text(),
            self.payload.text(),
            self.records
        );
        for option in self.option_names() {
            name.push(' ');
            name.push_str(&option);
        }
        name
    }

    /// The case as stored in the file, from its input and its expected output.
    pub fn line(&self, input: &[u8], output: &[u8]) -> CaseLine {
        CaseLine {
            name: self.name(),
            format: self.format.to_string(),
            values: self.values.text(),
            payload: self.payload.text().to_string(),
            records: self.records,
            seed: self.seed,
            options: self.option_names(),
            input_crc32: crc32fast::hash(input),
            output_records: output.len() / self.record_format().record_bytes(),
            output_crc32: crc32fast::hash(output),
        }
    }
}

/// Every number type, both byte orders.
pub const NUMBERS: [&str; 18] = [
    "u8", "i8", "u16", "i16be", "u32", "u32be", "i32", "i32be", "f32", "f32be", "u64", "u64be",
    "i64", "i64be", "f64", "f64be", "u128", "u128be",
];

/// Vectors, byte strings and records of all shapes.
pub const RECORDS: [&str; 16] = [
    "f32x32",
    "u8x7",
    "i16bex3",
    "f64x2",
    "bytes1",
    "bytes16",
    "gensort",
    "16/0:8:u64",
    "12/4:8:f64be:desc",
    "100/90:10",
    "33/1:16:u128,20:4:i32:desc",
    "24/0:1,8:8:i64:desc,16:4:f32",
    "40/0:40",
    "9/3:2:u16,0:3:bytes:desc",
    "1000/500:13",
    "4999/4990:8:u64be",
];

/// Every pattern of values.
pub const VALUES: [Values; 15] = [
    Values::Uniform,
    Values::Few(1),
    Values::Few(2),
    Values::Few(17),
    Values::Few(300),
    Values::Zipf,
    Values::Periodic(3),
    Values::Periodic(64),
    Values::Periodic(1000),
    Values::Exponential,
    Values::Prefix,
    Values::Narrow,
    Values::Special,
    Values::Sorted,
    Values::Reversed,
];

/// The eight combinations of descending, stable and unique.
pub fn option_sets() -> impl Iterator<Item = (bool, bool, bool)> {
    (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0))
}

/// The table. Every format is combined with every option and, over the table, with every pattern;
/// sizes are around the boundaries of blocks (4 KiB), segments (up to 256 KiB) and small memories
/// (a few MiB).
pub fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut turn = 0;
    let mut push = |format, records, values, (descending, stable, unique)| {
        turn += 1;
        let payload = if turn % 2 == 0 {
            Payload::Random
        } else {
            Payload::Coarse
        };
        all.push(Case {
            format,
            values,
            payload,
            records,
            seed: turn,
            descending,
            stable,
            unique,
        });
    };
    let formats: Vec<&str> = NUMBERS.iter().chain(&RECORDS).copied().collect();
    // Every format with every option, rotating the patterns.
    for (index, format) in formats.iter().enumerate() {
        let record_bytes = RecordFormat::parse_type(format).unwrap().record_bytes();
        for (set, options) in option_sets().enumerate() {
            let records = (40_000 / record_bytes).clamp(20, 3000);
            push(
                *format,
                records,
                VALUES[(index * 8 + set) % VALUES.len()],
                options,
            );
        }
    }
    // Every pattern on the types that use the two paths through the engine.
    for format in ["u64", "f32be", "16/0:8:u64", "gensort"] {
        for (index, values) in VALUES.into_iter().enumerate() {
            let record_bytes = RecordFormat::parse_type(format).unwrap().record_bytes();
            let sets = [
                (false, false, false),
                (false, true, false),
                (true, false, true),
            ];
            push(format, 100_000 / record_bytes, values, sets[index % 3]);
        }
    }
    // Sizes at boundaries.
    for format in ["u32", "u128be", "gensort", "4999/4990:8:u64be"] {
        let record_bytes = RecordFormat::parse_type(format).unwrap().record_bytes();
        let borders = [0, 4096, 65_536, 262_144, 1 << 20];
        for (index, bytes) in borders.into_iter().enumerate() {
            let at = bytes / record_bytes;
            let values = [Values::Uniform, Values::Zipf][index % 2];
            for records in [at.saturating_sub(1), at, at + 1, at + 2] {
                push(format, records, values, (false, false, false));
            }
        }
    }
    all
}
