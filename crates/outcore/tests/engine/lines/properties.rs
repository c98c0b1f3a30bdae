//! Sorts by definition: all orders and options on all kinds of text, around the boundaries of
//! blocks, segments and memory.

use outcore::key::sort_key::Tie;
use outcore::sort::lines::{LineSortOptions, OnNoKey};
use proptest::prelude::*;

use super::jobs::{LineJob, TestOrder};
use super::texts::{TEXTS, Text, text};

const BYTES: TestOrder = TestOrder::Bytes { descending: false };

fn any_order() -> impl Strategy<Value = TestOrder> {
    let tie = prop_oneof![
        Just(Tie::Bytes),
        Just(Tie::BytesDescending),
        Just(Tie::Position),
    ];
    (0usize..3, any::<bool>(), tie).prop_map(|(which, descending, tie)| match which {
        0 => TestOrder::Bytes { descending },
        1 => TestOrder::Second { descending, tie },
        _ => TestOrder::Length { descending, tie },
    })
}

fn any_job() -> impl Strategy<Value = LineJob> {
    let text_of = (0..TEXTS.len(), 0usize..400_000, any::<u64>(), any::<bool>());
    let texts = prop::collection::vec(text_of, 1..4);
    let options = (0u8..3, prop_oneof![Just(b'\n'), Just(0u8)]);
    let machine = (
        1usize..4,
        1usize..9,
        any::<u64>(),
        any::<bool>(),
        any::<bool>(),
    );
    (any_order(), texts, options, machine).prop_map(
        |(order, texts, (which, terminator), (threads, drives, seed, to_pipe, has_room))| {
            let inputs = texts.into_iter().map(|(kind, bytes, seed, is_cut)| {
                let mut text = text(TEXTS[kind], bytes, terminator, seed);
                if is_cut {
                    text.pop();
                }
                text
            });
            let mut job = LineJob::of(order, Vec::new());
            job.inputs = inputs.collect();
            job.options = LineSortOptions {
                terminator,
                unique: which == 1,
                count: which == 2,
                on_no_key: OnNoKey::Skip,
                ..LineSortOptions::default()
            };
            job.to_pipe = to_pipe;
            (job.threads, job.drives, job.seed) = (threads, drives, seed);
            job.memory_bytes = if has_room { 32 << 20 } else { 0 };
            job
        },
    )
}

proptest! {
    #![proptest_config(crate::support::often::tried(48))]

    #[test]
    fn lines_are_sorted_as_by_definition(job in any_job()) {
        job.check();
    }
}

#[test]
fn every_kind_of_text_is_sorted_through_scratch() {
    for kind in TEXTS {
        let mut job = LineJob::of(BYTES, text(kind, 1_000_000, b'\n', 3));
        (job.threads, job.drives) = (2, 2);
        let summary = job.check();
        // In sorted lines, a sample from a few places says little about the rest.
        assert!(summary.passes > 2 || kind != Text::Sorted, "it was split");
        let is_counted = matches!(kind, Text::Same | Text::Empty);
        assert_eq!(
            summary.scratch_bytes == 0,
            is_counted,
            "{kind:?}: {:?}",
            summary.plan
        );
    }
}

#[test]
fn lines_that_are_there_twice_are_left_or_counted_once_and_the_first_of_equal_keys_stays() {
    let tie = Tie::Position;
    let second = |descending| TestOrder::Second { descending, tie };
    let bytes = |descending| TestOrder::Bytes { descending };
    for order in [bytes(false), bytes(true), second(false), second(true)] {
        for (case, count) in [false, true].into_iter().cycle().take(8).enumerate() {
            let mut job = LineJob::of(order, text(Text::Twice, 700_000, b'\n', 4));
            (job.options.unique, job.options.count) = (!count, count);
            job.threads = if case < 4 { 1 } else { 3 };
            job.to_pipe = case % 4 > 1;
            let summary = job.check();
            let plan = summary.plan.unwrap();
            assert_eq!(plan.table_bytes, 0, "lines are sorted: {plan}");
        }
    }
}

#[test]
fn files_of_any_length_keep_all_their_lines() {
    let whole = text(Text::Words, 10_000, b'\n', 5);
    let lens = [0, 1, 2, 4095, 4096, 4097, 8191, 8192];
    for len in lens {
        let mut job = LineJob::of(BYTES, whole[..len].to_vec());
        job.inputs.push(whole[len..].to_vec());
        job.check();
    }
}

#[test]
fn lines_as_long_as_blocks_and_segments_are_sorted() {
    for len in [4094, 4095, 4096, 65_535, 65_536, 200_000] {
        let mut input = Vec::new();
        for last in [b'c', b'a', b'b'] {
            input.extend(std::iter::repeat_n(b'x', len));
            input.push(last);
            input.extend_from_slice(b"\nshort\n");
        }
        let mut job = LineJob::of(BYTES, input);
        job.memory_bytes = 16 << 20;
        job.check();
        job.order = TestOrder::Length {
            descending: true,
            tie: Tie::Position,
        };
        job.check();
    }
}

/// Lines of `len` bytes `x`, a space and a number.
fn long_lines(len: usize, count: usize) -> Vec<u8> {
    let mut input = Vec::new();
    for number in 0..count as u64 {
        input.extend(std::iter::repeat_n(b'x', len));
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        input.extend_from_slice(format!(" {key}\n").as_bytes());
    }
    input
}

/// There are more lines than fit in memory. No block contains a whole line, and the beginnings of
/// all lines are equal.
#[test]
fn long_lines_are_told_apart_by_what_stands_at_their_ends() {
    let tie = Tie::Position;
    for len in [1500, 6000, 40_000] {
        for order in [
            TestOrder::Bytes { descending: false },
            TestOrder::Second {
                descending: true,
                tie,
            },
        ] {
            let summary = LineJob::of(order, long_lines(len, 6_000_000 / len)).check();
            assert!(summary.scratch_bytes > 0, "{len}: {:?}", summary.plan);
        }
    }
}

/// The common prefix of the lines is longer than the part of a key that is kept at first.
#[test]
fn lines_with_a_beginning_longer_than_sampled_keys_in_common_are_told_apart() {
    for len in [70_000, 300_000] {
        let mut job = LineJob::of(BYTES, long_lines(len, 24_000_000 / len));
        job.memory_bytes = 16 << 20;
        let summary = job.check();
        assert!(summary.scratch_bytes > 0, "{len}: {:?}", summary.plan);
    }
}

/// Lines that are prefixes of each other, continuing below and above the terminator: one line is
/// kept.
#[test]
fn of_equal_keys_the_line_that_begins_the_others_is_the_first() {
    for (tie, descending) in [
        (Tie::Bytes, false),
        (Tie::Bytes, true),
        (Tie::BytesDescending, false),
    ] {
        let mut input = Vec::new();
        for _ in 0..20_000 {
            for line in ["tab\tab", "", "tab", "tab\0", "\0\0\0", "tab\x0b\x0b\x0b"] {
                input.extend_from_slice(line.as_bytes());
                input.push(b'\n');
            }
        }
        let mut job = LineJob::of(TestOrder::Length { descending, tie }, input);
        job.options.unique = true;
        (job.threads, job.drives) = (2, 2);
        job.check();
    }
}
