//! Random sorts against the oracle: formats, patterns, options, memory, threads, drives, files.
//!
//! Contract: output depends only on input and options; memory stays under the limit; seeds are
//! printed.

use outcore::key::RecordFormat;
use outcore::sort::SortOptions;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::files::ways;
use crate::support::cases::{NUMBERS, RECORDS, VALUES};
use crate::support::patterns::{Payload, Values, fill};
use crate::support::runs::{Ran, Sort, Target, assert_same};
use crate::support::{is_long, oracle};

/// This many cases in a normal run, ten times as many in a long one.
fn config(cases: u32) -> Config {
    Config {
        cases: if is_long() { 10 * cases } else { cases },
        // The macro sets this itself; a custom runner needs it to find the failures of earlier
        // runs.
        source_file: Some(file!()),
        max_shrink_iters: 60,
        ..Config::default()
    }
}

fn any_key(record_bytes: usize) -> impl Strategy<Value = String> {
    let kinds = prop::sample::select(vec![
        "bytes", "bytes", "bytes", "u8", "i16", "u32be", "i32", "f32", "f32be", "u64", "i64be",
        "f64", "u128",
    ]);
    let direction = prop::sample::select(vec!["", "", ":desc"]);
    (kinds, direction, any::<prop::sample::Index>(), 1usize..=40).prop_map(
        move |(kind, direction, offset, len)| {
            let width = RecordFormat::parse_type(kind).map_or(1, |format| format.record_bytes());
            let (kind, width) = if width > record_bytes {
                ("bytes", 1)
            } else {
                (kind, width)
            };
            let count = (len / width).clamp(1, record_bytes / width);
            let offset = offset.index(record_bytes - count * width + 1);
            format!("{offset}:{}:{kind}{direction}", count * width)
        },
    )
}

fn any_format() -> impl Strategy<Value = RecordFormat> {
    let known: Vec<&str> = NUMBERS.iter().chain(&RECORDS).copied().collect();
    let sizes = prop_oneof![4 => 1usize..40, 3 => 40usize..300, 1 => 300usize..5000];
    let made = sizes.prop_flat_map(|size| {
        prop::collection::vec(any_key(size), 1..4)
            .prop_map(move |keys| format!("{size}/{}", keys.join(",")))
    });
    prop_oneof![prop::sample::select(known).prop_map(str::to_string), made]
        .prop_map(|text| RecordFormat::parse_type(&text).unwrap())
}

fn any_values() -> impl Strategy<Value = Values> {
    prop_oneof![
        4 => prop::sample::select(VALUES.to_vec()),
        1 => (1u64..2000).prop_map(Values::Few),
        1 => (1u64..5000).prop_map(Values::Periodic),
    ]
}

fn any_options() -> impl Strategy<Value = SortOptions> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(descending, stable, unique)| {
        SortOptions {
            descending,
            stable,
            unique,
            ..SortOptions::default()
        }
    })
}

fn any_target() -> impl Strategy<Value = Target> {
    prop_oneof![
        3 => Just(Target::File { header_bytes: 0 }),
        1 => prop::sample::select(vec![16usize, 128, 4080, 4096, 8256])
            .prop_map(|header_bytes| Target::File { header_bytes }),
        1 => (1usize..10).prop_map(Target::Shards),
        1 => Just(Target::Pipe),
    ]
}

/// A sort of up to `bytes_max` of data.
fn any_sort(bytes_max: usize) -> impl Strategy<Value = Sort> {
    let data = (
        any_format(),
        any_values(),
        any::<bool>(),
        any::<u64>(),
        0..=bytes_max,
    );
    let shape = (
        any_options(),
        any_target(),
        prop::sample::select(vec![0usize, 0, 16, 128, 4096, 5000]),
        1usize..5,
    );
    let means = (
        prop_oneof![2 => Just(0u64), 1 => 0u64..(16 << 20)],
        1usize..5,
        1usize..9,
        any::<u64>(),
    );
    (data, shape, means).prop_map(
        |((format, values, is_coarse, data_seed, bytes), shape, means)| {
            let (options, target, header_bytes, files) = shape;
            let (memory_bytes, threads, drives, seed) = means;
            let payload = if is_coarse {
                Payload::Coarse
            } else {
                Payload::Random
            };
            let records = bytes / format.record_bytes();
            let input = fill(&format, values, payload, data_seed, records);
            // A header keeps numbers aligned here; misaligned numbers have their own test.
            let header_bytes = if format.scalar().is_some() {
                header_bytes / 16 * 16
            } else {
                header_bytes
            };
            let mut sort = Sort {
                options,
                target,
                header_bytes,
                memory_bytes,
                threads,
                drives,
                seed,
                ..Sort::of(&format, input)
            }
            .split_input(files);
            if matches!(sort.target, Target::Shards(_)) {
                sort.options.unique = false;
            }
            sort
        },
    )
}

fn check(sort: &Sort, ran: Ran) {
    let expected = oracle::sorted(&sort.data(), &sort.format, sort.options);
    let (summary, output) = ran.unwrap();
    let record_bytes = sort.format.record_bytes();
    assert_same(&output, &expected, record_bytes, &sort.describe());
    assert_eq!(summary.records as usize * record_bytes, expected.len());
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn small_sorts_agree_with_the_oracle(sort in any_sort(64 << 10)) {
        check(&sort, sort.on_ram());
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn sorts_of_several_levels_agree_with_the_oracle(sort in any_sort(2 << 20)) {
        check(&sort, sort.on_ram());
    }
}

proptest! {
    #![proptest_config(config(20))]

    #[test]
    fn sorts_of_real_files_agree_with_the_oracle(
        sort in any_sort(512 << 10),
        way in any::<prop::sample::Index>(),
    ) {
        let ways = ways(&std::env::temp_dir());
        let (engine, mode) = *way.get(&ways);
        check(&sort, sort.on_files(engine, mode));
    }
}

/// Only in long runs: more levels, larger segments, more threads.
#[test]
fn large_sorts_agree_with_the_oracle() {
    if !is_long() {
        return;
    }
    let mut runner = TestRunner::new(config(4));
    let strategy = (any_sort(12 << 20), 0u64..(8 << 20));
    let checked = runner.run(&strategy, |(mut sort, more)| {
        sort.memory_bytes = sort.least_memory() + more;
        check(&sort, sort.on_ram());
        Ok(())
    });
    checked.unwrap();
}

proptest! {
    #![proptest_config(config(12))]

    #[test]
    fn means_never_change_the_output(
        sort in any_sort(512 << 10),
        memories in prop::array::uniform3(0u64..(32 << 20)),
        threads in prop::array::uniform3(1usize..5),
        drives in prop::array::uniform3(1usize..9),
        seeds in any::<[u64; 3]>(),
    ) {
        let (_, first) = sort.on_ram().unwrap();
        for turn in 0..3 {
            let mut other = sort.clone();
            other.memory_bytes = memories[turn];
            other.threads = threads[turn];
            other.drives = drives[turn];
            other.seed = seeds[turn];
            let (_, output) = other.on_ram().unwrap();
            let what = format!("{} against {}", other.describe(), sort.describe());
            assert_same(&output, &first, sort.format.record_bytes(), &what);
        }
    }
}
