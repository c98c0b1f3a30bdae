//! Ranks of keys in sorted files.
//!
//! Contract: ranks are those found by counting, for numbers of all kinds and for records; nothing
//! stays reserved.

use std::path::Path;

use outcore::key::{Order, OrderOptions, RecordFormat};
use outcore::primitives::{Side, build_index, lookup, lookup_indexed};
use outcore::{Input, Kind};
use proptest::prelude::*;
use proptest::sample::Index;

use super::kit::{numbers, put, ram_job};

/// Records of bytes in the order of their keys, with few different ones if `domain` is small.
fn sorted(format: &RecordFormat, count: usize, domain: u64, seed: u64) -> Vec<u8> {
    let record_bytes = format.record_bytes();
    let order = Order::new(format, OrderOptions::default());
    let words = numbers(count * record_bytes.div_ceil(8), seed);
    let words = words.chunks(record_bytes.div_ceil(8));
    let record = |words: &[u64]| -> Vec<u8> {
        let bytes = words.iter().flat_map(|word| (word % domain).to_le_bytes());
        bytes.take(record_bytes).collect()
    };
    let mut records: Vec<Vec<u8>> = words.map(record).collect();
    records.sort_by(|a, b| order.compare_keys(a, b));
    records.concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn ranks_are_those_that_counting_gives(
        which in 0_usize..7, n in 0_usize..30_000, wanted in prop::collection::vec(any::<Index>(), 0..400),
        others in 0_usize..100, domain in prop_oneof![Just(3_u64), Just(5_000), Just(u64::MAX)],
        threads in 1_usize..4, seed: u64, cuts in prop::collection::vec(any::<Index>(), 0..4),
        header in prop_oneof![Just(0_usize), Just(128), 0_usize..300], is_right: bool,
    ) {
        let format = match which {
            0 => RecordFormat::parse_type("u64").unwrap(),
            1 => RecordFormat::parse_type("i32").unwrap(),
            2 => RecordFormat::parse_type("u8").unwrap(),
            3 => RecordFormat::parse_type("u32be").unwrap(),
            4 => RecordFormat::new(13, vec!["2:4:u32".parse().unwrap()]).unwrap(),
            5 => RecordFormat::new(24, vec!["8:16".parse().unwrap()]).unwrap(),
            _ => RecordFormat::new(5_000, vec!["0:8:u64".parse().unwrap()]).unwrap(),
        };
        let record_bytes = format.record_bytes();
        let n = if record_bytes > 1_000 { n % 90 } else { n };
        let bytes = sorted(&format, n, domain, seed);
        let mut keys: Vec<u8> = Vec::new();
        if n > 0 {
            for index in &wanted {
                keys.extend_from_slice(&bytes[index.index(n) * record_bytes..][..record_bytes]);
            }
        }
        keys.extend(sorted(&format, others, domain, seed ^ 1));
        let (device, job) = ram_job(threads, 400_000, seed);
        let inputs = put(&device, "in", &bytes, record_bytes, &cuts, header);
        let side = if is_right { Side::Right } else { Side::Left };
        let (ranks, summary) = lookup(&job, &inputs, &format, &keys, side).unwrap();
        let order = Order::new(&format, OrderOptions::default());
        let records: Vec<&[u8]> = bytes.chunks(record_bytes).collect();
        let expected: Vec<u64> = keys.chunks(record_bytes).map(|key| {
            records.partition_point(|record| {
                let found = order.compare_keys(record, key);
                found.is_lt() || is_right && found.is_eq()
            }) as u64
        }).collect();
        prop_assert!(ranks == expected);
        let index = Path::new("/d1/index");
        let built = build_index(&job, &inputs, &format, index, false);
        if record_bytes > 1_000 {
            prop_assert_eq!(built.unwrap_err().kind(), Kind::Usage);
        } else {
            built.unwrap();
            let (found, _) = lookup_indexed(&job, &inputs, &format, &keys, side, index).unwrap();
            prop_assert!(found == expected);
        }
        prop_assert_eq!(summary.records, ranks.len() as u64);
        prop_assert_eq!(job.budget.used_bytes(), 0);
    }
}

#[test]
fn an_index_takes_one_block_a_key_and_is_refused_where_it_does_not_fit() {
    let format = RecordFormat::parse_type("u64").unwrap();
    let mut items = numbers(400_000, 7);
    items.sort_unstable();
    let bytes: Vec<u8> = items.iter().flat_map(|x| x.to_le_bytes()).collect();
    let (device, job) = ram_job(2, 4_000_000, 1);
    let inputs = put(&device, "in", &bytes, 8, &[], 0);
    let keys: Vec<u8> = numbers(50, 9)
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let index = Path::new("/d1/index");
    build_index(&job, &inputs, &format, index, false).unwrap();
    let through = |inputs: &[Input], format: &RecordFormat| {
        lookup_indexed(&job, inputs, format, &keys, Side::Left, index)
    };
    let (_, summary) = through(&inputs, &format).unwrap();
    let index_bytes = 4096 + 400_000 / 512 * 8;
    assert!(
        summary.read_bytes <= (50 + 1) * 4096 + index_bytes,
        "{}",
        summary.read_bytes
    );
    let refused = |inputs: &[Input], format: &RecordFormat, kind: Kind, cause: &str| {
        let error = through(inputs, format).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(cause), "{error}");
        assert!(error.to_string().contains("/d1/index"), "{error}");
        assert!(error.next_step().is_some(), "{error}");
    };
    let others = put(&device, "others", &bytes[..bytes.len() - 8], 8, &[], 0);
    refused(&others, &format, Kind::Usage, "other files");
    let signed = RecordFormat::parse_type("i64").unwrap();
    refused(&inputs, &signed, Kind::Usage, "the files hold i64");
    assert!(build_index(&job, &inputs, &format, index, false).is_err());
    let whole = device.get("/d1/index").unwrap();
    for at in [3, 200, 4096, 4101, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        device.put("/d1/index", damaged);
        refused(&inputs, &format, Kind::Corrupt, "lookup index");
    }
    device.put("/d1/index", whole[..4000].to_vec());
    refused(&inputs, &format, Kind::Usage, "not an index");
    assert_eq!(job.budget.used_bytes(), 0);
}

#[test]
fn an_index_beyond_the_memory_is_used_as_far_as_it_is_held() {
    let format = RecordFormat::new(256, vec!["0:8:u64".parse().unwrap()]).unwrap();
    let (few, all) = (ram_job(2, 3_000, 1), ram_job(2, 64_000, 1));
    let bytes = sorted(&format, 160_000, 100_000, 3);
    let keys = [
        &bytes[..256],
        &bytes[256 * 99_000..256 * 99_300],
        &sorted(&format, 300, 100_000, 4),
        &bytes[bytes.len() - 256..],
    ]
    .concat();
    let mut found = Vec::new();
    for (device, job) in [few, all] {
        let parts = [
            &bytes[..256 * 50_001],
            &bytes[256 * 50_001..256 * 50_003],
            &bytes[256 * 50_003..],
        ];
        let inputs: Vec<Input> = (0..)
            .zip(parts)
            .flat_map(|(number, part)| put(&device, &format!("in{number}"), part, 256, &[], 20))
            .collect();
        let index = Path::new("/d1/index");
        build_index(&job, &inputs, &format, index, false).unwrap();
        for side in [Side::Left, Side::Right] {
            let (ranks, _) = lookup(&job, &inputs, &format, &keys, side).unwrap();
            let through = lookup_indexed(&job, &inputs, &format, &keys, side, index);
            let (through, summary) = through.unwrap();
            assert!(through == ranks);
            found.push(summary.read_bytes);
        }
        assert_eq!(job.budget.used_bytes(), 0);
    }
    // A smaller part of the index takes more reads.
    assert!(found[0] > found[2] && found[1] > found[3], "{found:?}");
}

#[test]
fn files_in_the_wrong_order_are_seen_without_an_index() {
    let format = RecordFormat::parse_type("u64").unwrap();
    let bytes =
        |items: std::ops::Range<u64>| -> Vec<u8> { items.flat_map(u64::to_le_bytes).collect() };
    let (device, job) = ram_job(2, 64_000, 1);
    let mut inputs = put(&device, "front", &bytes(0..30_001), 8, &[], 0);
    inputs.extend(put(&device, "none", &[], 8, &[], 0));
    inputs.extend(put(&device, "back", &bytes(29_999..64_000), 8, &[], 0));
    let error = lookup(&job, &inputs, &format, &bytes(7..8), Side::Left).unwrap_err();
    assert!(error.to_string().contains("ascending"), "{error}");
    assert!(error.to_string().contains("back"), "{error}");
    inputs.swap(0, 2);
    assert!(lookup(&job, &inputs, &format, &bytes(7..8), Side::Left).is_err());
}

#[test]
fn no_index_is_made_where_only_blocks_or_files_are_out_of_order() {
    let format = RecordFormat::parse_type("u64").unwrap();
    let bytes = |items: &[u64]| -> Vec<u8> { items.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let ordered: Vec<u64> = (0..1 << 16).collect();
    for block in [512, 1024, 1 << 15] {
        let turned: Vec<u64> = ordered.chunks(block).rev().flatten().copied().collect();
        let (device, job) = ram_job(2, 64_000, 1);
        let inputs = put(&device, "in", &bytes(&turned), 8, &[], 0);
        let index = Path::new("/d1/index");
        let error = build_index(&job, &inputs, &format, index, false).unwrap_err();
        assert!(error.to_string().contains("ascending"), "{block}: {error}");
        assert!(device.get("/d1/index").is_none());
    }
    let (device, job) = ram_job(2, 64_000, 1);
    let (front, back) = ordered.split_at(30_001);
    let mut inputs = put(&device, "front", &bytes(front), 8, &[], 0);
    inputs.extend(put(&device, "back", &bytes(back), 8, &[], 0));
    build_index(&job, &inputs, &format, Path::new("/d1/right"), false).unwrap();
    inputs.reverse();
    let found = build_index(&job, &inputs, &format, Path::new("/d1/wrong"), false);
    assert!(found.unwrap_err().to_string().contains("ascending"));
}

#[test]
fn zeros_and_nans_are_equal_to_their_like() {
    let nan = f64::NAN;
    let values = [
        f64::NEG_INFINITY,
        -1.0,
        -0.0,
        -0.0,
        0.0,
        2.0,
        f64::INFINITY,
        nan,
        -nan,
    ];
    for (name, big) in [("f64", false), ("f64be", true)] {
        let format = RecordFormat::parse_type(name).unwrap();
        let bytes_of = |values: &[f64]| -> Vec<u8> {
            let bytes = values.iter().map(|value| match big {
                true => value.to_be_bytes(),
                false => value.to_le_bytes(),
            });
            bytes.flatten().collect()
        };
        let (device, job) = ram_job(1, 400_000, 1);
        let inputs = put(&device, "in", &bytes_of(&values), 8, &[], 0);
        let keys = bytes_of(&[0.0, -0.0, nan, -nan, 1.0, f64::INFINITY]);
        let ranks = |side| lookup(&job, &inputs, &format, &keys, side).unwrap().0;
        assert_eq!(ranks(Side::Left), [2, 2, 7, 7, 5, 6], "{name}");
        assert_eq!(ranks(Side::Right), [5, 5, 9, 9, 5, 7], "{name}");
    }
    let format = RecordFormat::parse_type("f32").unwrap();
    let bytes: Vec<u8> = [-0.0_f32, 0.0, f32::NAN]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let (device, job) = ram_job(1, 400_000, 1);
    let inputs = put(&device, "in", &bytes, 4, &[], 0);
    let ranks = |side| lookup(&job, &inputs, &format, &bytes, side).unwrap().0;
    assert_eq!(ranks(Side::Left), [0, 0, 2]);
    assert_eq!(ranks(Side::Right), [2, 2, 3]);
}

#[test]
fn evenly_spread_keys_cost_a_few_blocks_each_and_what_does_not_ascend_is_told() {
    let format = RecordFormat::parse_type("u64").unwrap();
    let mut items = numbers(400_000, 7);
    items.sort_unstable();
    let bytes: Vec<u8> = items.iter().flat_map(|x| x.to_le_bytes()).collect();
    let (device, job) = ram_job(2, 4_000_000, 1);
    let inputs = put(&device, "in", &bytes, 8, &[], 0);
    let keys: Vec<u8> = numbers(50, 9)
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let (_, summary) = lookup(&job, &inputs, &format, &keys, Side::Left).unwrap();
    let blocks = summary.read_bytes / 4096;
    assert!(blocks <= 50 * 4, "{blocks} blocks for 50 keys");
    items.reverse();
    let bytes: Vec<u8> = items.iter().flat_map(|x| x.to_le_bytes()).collect();
    let inputs = put(&device, "turned", &bytes, 8, &[], 0);
    let wrong = lookup(&job, &inputs, &format, &keys, Side::Left).unwrap_err();
    assert!(wrong.to_string().contains("ascending"), "{wrong}");
    let cut = lookup(&job, &inputs, &format, &keys[1..], Side::Left).unwrap_err();
    assert_eq!(cut.kind(), Kind::Usage);
}
