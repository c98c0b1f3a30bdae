//! Shapes that once failed, or were likely to: one guarantee per test.
//!
//! Contract: each test is a minimal case of an earlier fault, and names the guarantee that it
//! violated.

use outcore::key::RecordFormat;
use outcore::sort::SortOptions;

use crate::support::oracle;
use crate::support::patterns::{Payload, Values, fill};
use crate::support::runs::{Sort, Target, assert_same};

fn format(text: &str) -> RecordFormat {
    RecordFormat::parse_type(text).unwrap()
}

fn check(sort: &Sort) {
    let expected = oracle::sorted(&sort.data(), &sort.format, sort.options);
    let (_, output) = sort.on_ram().unwrap();
    assert_same(
        &output,
        &expected,
        sort.format.record_bytes(),
        &sort.describe(),
    );
}

fn data(text: &str, values: Values, bytes: usize) -> Vec<u8> {
    let format = format(text);
    fill(
        &format,
        values,
        Payload::Random,
        1,
        bytes / format.record_bytes(),
    )
}

#[test]
fn as_many_values_as_buckets_find_buffers_for_all_their_buckets() {
    for text in ["u64", "16/0:8:u64"] {
        for extra_memory in [0, 8 << 20] {
            for threads in [1, 3] {
                let mut sort = Sort::of(&format(text), data(text, Values::Uniform, 4 << 20));
                sort.memory_bytes = extra_memory;
                sort.threads = threads;
                let buckets = sort.plan().bucket_count as u64;
                for count in [buckets / 2 + 1, buckets, buckets + 1] {
                    sort.inputs = vec![data(text, Values::Few(count), 4 << 20)];
                    check(&sort);
                }
            }
        }
    }
}

#[test]
fn headers_of_any_length_do_not_disturb_numbers() {
    for text in ["u32", "u64be", "f64", "u128", "16/0:8:u64"] {
        for (input, output) in [(1, 0), (10, 6), (4095, 4097), (80, 80), (0, 3)] {
            let mut sort = Sort::of(&format(text), data(text, Values::Zipf, 300_000));
            sort.header_bytes = input;
            sort.target = Target::File {
                header_bytes: output,
            };
            check(&sort);
        }
    }
}

#[test]
fn many_small_shards_lie_in_one_bucket() {
    for text in ["u64", "gensort"] {
        for bytes in [100_000, 1 << 20] {
            for shards in [2, 7, 64, 300] {
                let mut sort = Sort::of(&format(text), data(text, Values::Uniform, bytes));
                sort.target = Target::Shards(shards);
                check(&sort);
            }
        }
    }
}

#[test]
fn records_with_a_long_common_prefix_are_not_distributed_once_a_word() {
    for values in [Values::Prefix, Values::Few(1), Values::Few(2)] {
        let mut sort = Sort::of(&format("1000/0:1000"), data("1000/0:1000", values, 2 << 20));
        check(&sort);
        let (summary, _) = sort.on_ram().unwrap();
        let passes = summary.written_bytes as f64 / (2 << 20) as f64;
        assert!(passes < 8.0, "{values:?}: written {passes} times");
        sort.options = SortOptions {
            stable: true,
            ..SortOptions::default()
        };
        check(&sort);
    }
}

#[test]
fn patterns_that_fool_an_even_sample_are_still_sorted() {
    for period in [2, 8, 64, 128, 512, 513] {
        check(&Sort::of(
            &format("u64"),
            data("u64", Values::Periodic(period), 2 << 20),
        ));
        check(&Sort::of(
            &format("16/0:8:u64"),
            data("16/0:8:u64", Values::Periodic(period), 1 << 20),
        ));
    }
}
