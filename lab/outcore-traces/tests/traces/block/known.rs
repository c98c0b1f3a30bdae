//! What the text fixtures of block traces contain: every request and every bad line.
//!
//! Contract: written by hand from the formats' descriptions, not by the readers.

use super::*;

/// The content of a fixture.
pub(super) struct Expected {
    pub(super) file: &'static str,
    pub(super) format: Format,
    pub(super) requests: Vec<Request>,
    /// Line and reason of every bad line.
    pub(super) bad: Vec<(u64, Reason)>,
    pub(super) ignored: u64,
}

pub(super) fn expected() -> Vec<Expected> {
    [
        storage_traces(),
        other_traces(),
        tool_traces(),
        text_of_tracers(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn storage_traces() -> Vec<Expected> {
    use Op::{Read, Write};
    let ticks = 128_166_372_003_061_629_u64 * 100;
    let s = 1_000_000_000_u64;
    vec![
        Expected {
            file: "small.spc",
            format: Format::Spc,
            requests: vec![
                request(0, 0, Write, 303_567 * 512, 3584),
                request(0, 1, Write, 55_590 * 512, 3072),
                request(26_214_000, 0, Read, 240_840 * 512, 3072),
                request(26_682_000, 0, Write, 303_574 * 512, 0),
                request(78_125_000, 0, Read, 1_209_856 * 512, 4096),
                request(s + s / 2, 0, Read, 999 * 512, 16_715_776),
            ],
            bad: vec![
                (5, Reason::Fields),
                (7, Reason::Operation),
                (8, Reason::Number),
                (9, Reason::Fields),
                (10, Reason::Range),
                (11, Reason::Time),
            ],
            ignored: 1,
        },
        Expected {
            file: "small.fiu",
            format: Format::Fiu,
            requests: vec![
                request(898_771, 6 << 20, Write, 904_265_560 * 512, 4096),
                request(898_772, 6 << 20, Read, 8 * 512, 8192),
                request(898_100, 6 << 20, Write, 16 * 512, 4096),
                request(899_000, (8 << 20) | 1, Write, 24 * 512, 512),
            ],
            bad: vec![
                (4, Reason::Operation),
                (5, Reason::Fields),
                (7, Reason::Operation),
            ],
            ignored: 0,
        },
        Expected {
            file: "small.msr.csv",
            format: Format::Msr,
            requests: vec![
                request(ticks, 0, Read, 383_496_192, 32_768),
                request(ticks + 1_332_052_600, 1, Write, 2_822_144, 4096),
                request(ticks + 1_332_047_100, 0, Write, 2_822_144, 4096),
                request(ticks + 2_332_061_600, 2, Read, 0, 512),
            ],
            bad: vec![
                (6, Reason::Fields),
                (7, Reason::Fields),
                (8, Reason::Time),
                (9, Reason::Operation),
            ],
            ignored: 1,
        },
    ]
}

fn tool_traces() -> Vec<Expected> {
    use Op::{Flush, Read, Trim, Write};
    vec![
        Expected {
            file: "v2.iolog",
            format: Format::Fio,
            requests: vec![
                request(0, 0, Read, 0, 4096),
                request(1_500_000, 0, Write, 4096, 8192),
                request(1_500_000, 0, Flush, 0, 0),
                request(2_000_000, 0, Trim, 0, 1 << 20),
            ],
            bad: vec![
                (10, Reason::Number),
                (11, Reason::Operation),
                (12, Reason::Fields),
            ],
            ignored: 6,
        },
        Expected {
            file: "v3.iolog",
            format: Format::Fio,
            requests: vec![
                request(10_000, 0, Write, 0, 4096),
                request(12_000, 1, Read, 8192, 512),
                request(11_000, 1, Flush, 0, 0),
                request(20_000, 0, Trim, 4096, 1 << 31),
            ],
            bad: vec![
                (10, Reason::Fields),
                (11, Reason::Time),
                (12, Reason::Fields),
            ],
            ignored: 7,
        },
    ]
}

fn other_traces() -> Vec<Expected> {
    use Op::{Flush, Read, Write};
    let s = 1_000_000_000_u64;
    vec![
        Expected {
            file: "small.alibaba.csv",
            format: Format::Alibaba,
            requests: vec![
                request(1_577_808_000_000_044_000, 419, Write, 8_792_731_648, 16_384),
                request(1_577_808_000_000_044_000, 419, Read, 0, 4096),
                request(1_577_808_000_000_100_000, 7, Read, 512, 512),
            ],
            bad: vec![
                (5, Reason::Operation),
                (6, Reason::Fields),
                (7, Reason::Range),
                (8, Reason::Fields),
            ],
            ignored: 1,
        },
        Expected {
            file: "small.tencent.csv",
            format: Format::Tencent,
            requests: vec![
                request(1_538_323_200 * s, 1063, Read, 12_910_952 * 512, 65_536),
                request(1_538_323_200 * s, 1323, Write, 4096, 4096),
                request(1_538_323_201 * s, 1063, Write, 0, 512),
            ],
            bad: vec![
                (4, Reason::Operation),
                (5, Reason::Fields),
                (6, Reason::Operation),
            ],
            ignored: 0,
        },
        Expected {
            file: "small.vscsi.csv",
            format: Format::Vscsi,
            requests: vec![
                request(100 * s, 0, Write, 42_932_745 * 512, 512),
                request(100 * s, 0, Read, 8192, 65_536),
                request(101 * s, 0, Flush, 0, 0),
                request(102 * s, 0, Write, 4096, 4096),
            ],
            bad: vec![
                (6, Reason::Operation),
                (7, Reason::Number),
                (9, Reason::Fields),
            ],
            ignored: 2,
        },
        Expected {
            file: "small.mqsim",
            format: Format::Mqsim,
            requests: vec![
                request(0, 0, Read, 5120, 4096),
                request(100, 0, Write, 9216, 4096),
                request(100, 1, Read, 512, 512),
                request(200, 0, Write, 0, 1 << 20),
            ],
            bad: vec![
                (4, Reason::Operation),
                (5, Reason::Fields),
                (6, Reason::Fields),
            ],
            ignored: 0,
        },
    ]
}

fn text_of_tracers() -> Vec<Expected> {
    use Op::{Flush, Read, Trim, Write};
    let (s, partition) = (1_000_000_000_u64, (259 << 20) | 12);
    let systor = 1_456_095_145 * s;
    vec![
        Expected {
            file: "small.blkparse",
            format: Format::Blkparse,
            requests: vec![
                request(0, 8 << 20, Read, 223_490 * 512, 4096),
                request(7_000, 8 << 20, Write, 8192, 512),
                request(s + s / 2, partition, Flush, 0, 0),
                request(2 * s + 1, partition, Trim, 2 << 20, 1 << 20),
            ],
            bad: vec![
                (7, Reason::Number),
                (8, Reason::Operation),
                (9, Reason::Fields),
                (10, Reason::Time),
            ],
            ignored: 9,
        },
        Expected {
            file: "small.systor.csv",
            format: Format::Systor,
            requests: vec![
                request(systor + 133_076_000, 0, Read, 899_056_122_368, 131_072),
                request(systor + 133_077_000, 4, Write, 4096, 512),
                request(systor + 133_075_000, 0, Write, 0, 4096),
            ],
            bad: vec![
                (5, Reason::Fields),
                (6, Reason::Operation),
                (8, Reason::Number),
                (9, Reason::Fields),
            ],
            ignored: 2,
        },
        Expected {
            file: "small.disksim",
            format: Format::Disksim,
            requests: vec![
                request(0, 0, Write, 303_567 * 512, 3584),
                request(26_214_000, 1, Read, 55_590 * 512, 3072),
                request(53_991_609, 30, Read, 602_470 * 512, 512),
                request(100_000_000, 0, Write, 0, 1 << 20),
            ],
            bad: vec![
                (3, Reason::Operation),
                (5, Reason::Fields),
                (7, Reason::Range),
            ],
            ignored: 0,
        },
    ]
}
