//! Merges and checks of lines, and lines without keys, against naive ones.
//!
//! Contract: a merge of sorted files is the sort of all of them. A check finds the first line that
//! should precede the line before it. Errors about lines without a key name file and line number.

use std::sync::Arc;

use outcore::Kind;
use outcore::job::{Job, JobOptions};
use outcore::key::sort_key::{Tie, compare_items};
use outcore::read::sample::random;
use outcore::sort::lines::{OnNoKey, check_lines, merge_lines, merge_passes, sort_lines};
use outcore::{Input, Output};
use outcore_io::drive::testing::RamDevice;

use super::jobs::{LineJob, TestOrder};
use super::texts::{TEXTS, Text, text};

const BYTES: TestOrder = TestOrder::Bytes { descending: false };

fn orders() -> [TestOrder; 4] {
    [
        BYTES,
        TestOrder::Bytes { descending: true },
        TestOrder::Second {
            descending: true,
            tie: Tie::Position,
        },
        TestOrder::Length {
            descending: false,
            tie: Tie::BytesDescending,
        },
    ]
}

fn job_on(device: &RamDevice, memory_bytes: u64) -> Job {
    let options = JobOptions {
        memory_bytes,
        ..JobOptions::default()
    };
    Job::on(options, Arc::new(device.clone()))
}

/// Each input of `job` sorted by the naive sort.
fn sorted_inputs(job: &LineJob) -> LineJob {
    let mut sorted = job.clone();
    sorted.options.unique = false;
    let one = |input: &Vec<u8>| {
        let mut one = sorted.clone();
        one.inputs = vec![input.clone()];
        one.expected()
    };
    sorted.inputs = job.inputs.iter().map(one).collect();
    sorted.options = job.options;
    sorted
}

/// The merge of the inputs of `job`.
fn merged(job: &LineJob) -> Vec<u8> {
    let device = job.make_device();
    let run = job_on(&device, 8 << 20);
    let output = Output::File {
        path: job.out_path(),
        header: None,
    };
    let summary = merge_lines(&run, &job.sort_inputs(), output, &job.order, job.options).unwrap();
    let merged = device.get(job.out_path()).unwrap();
    assert_eq!(summary.bytes_out, merged.len() as u64);
    assert_eq!(summary.lines_in, job.lines().len() as u64);
    assert_eq!(run.budget.used_bytes(), 0);
    merged
}

#[test]
fn a_merge_of_sorted_files_is_the_sort_of_all() {
    for (number, order) in orders().into_iter().enumerate() {
        for (count, unique) in [(0, false), (1, true), (2, false), (3, true), (7, false)] {
            let mut job = LineJob::of(order, Vec::new());
            let kinds = (0..count).map(|i| TEXTS[(i + number) % TEXTS.len()]);
            job.inputs = kinds
                .enumerate()
                .map(|(i, kind)| text(kind, 30_000 * i, b'\n', i as u64))
                .collect();
            job.options.unique = unique;
            job.options.on_no_key = OnNoKey::Skip;
            job.drives = 2;
            let mut job = sorted_inputs(&job);
            if let Some(last) = job.inputs.last_mut() {
                last.pop();
            }
            assert!(merged(&job) == job.expected(), "{job:?}");
        }
    }
}

#[test]
fn more_files_than_the_memory_has_blocks_for_are_merged_in_passes() {
    for unique in [false, true] {
        let mut job = LineJob::of(orders()[0], Vec::new());
        job.inputs = (0..300_u64)
            .map(|i| text(TEXTS[0], 200, b'\n', i))
            .collect();
        job.options.unique = unique;
        job.options.on_no_key = OnNoKey::Skip;
        let job = sorted_inputs(&job);
        assert_eq!(merge_passes(8 << 20, job.inputs.len()), 2);
        assert!(merged(&job) == job.expected());
    }
}

#[test]
fn lines_with_empty_keys_keep_the_order_of_their_files() {
    for descending in [false, true] {
        let second = |tie| TestOrder::Second { descending, tie };
        for order in [
            TestOrder::Bytes { descending },
            second(Tie::Position),
            second(Tie::Bytes),
        ] {
            let mut job = LineJob::of(order, Vec::new());
            job.inputs = [
                &b"a \nb \nb\0 \n \n\n\n \0\n"[..],
                b"c \n \n\n",
                b" \n \nd \n \0\0\n",
            ]
            .map(<[u8]>::to_vec)
            .to_vec();
            job.options.on_no_key = OnNoKey::Skip;
            let job = sorted_inputs(&job);
            assert!(merged(&job) == job.expected(), "{job:?}");
        }
    }
}

#[test]
fn of_files_that_are_not_in_order_the_least_of_the_lines_at_hand_comes_first() {
    for order in [BYTES, TestOrder::Bytes { descending: true }] {
        let mut job = LineJob::of(order, Vec::new());
        job.inputs = [Text::Words, Text::Twice, Text::Few, Text::Prefix]
            .map(|kind| text(kind, 20_000, b'\n', 3))
            .to_vec();
        let mut rests: Vec<_> = job
            .inputs
            .iter()
            .map(|input| input.split_inclusive(|&byte| byte == b'\n').peekable())
            .collect();
        let mut expected = Vec::new();
        loop {
            let heads = rests.iter_mut().enumerate();
            let heads = heads.filter_map(|(run, rest)| Some((run, *rest.peek()?)));
            let first = heads.min_by(|a, b| compare_items(&order, a.1, b.1).unwrap());
            let Some((run, line)) = first else { break };
            expected.extend_from_slice(line);
            rests[run].next();
        }
        assert!(merged(&job) == expected, "{job:?}");
    }
}

#[test]
fn a_check_names_the_first_line_out_of_order() {
    for order in orders() {
        let mut job = LineJob::of(order, Vec::new());
        job.inputs = vec![
            text(Text::Few, 20_000, b'\n', 1),
            text(Text::Long, 300_000, b'\n', 2),
        ];
        job.options.on_no_key = OnNoKey::Skip;
        let whole = job.expected();
        for seed in 0..4 {
            let mut lines: Vec<&[u8]> = whole.split_inclusive(|&byte| byte == b'\n').collect();
            let (a, b) = (
                random(seed, 1) as usize % lines.len(),
                random(seed, 2) as usize % lines.len(),
            );
            if seed > 0 {
                lines.swap(a, b);
            }
            let cut = lines.len() / 3;
            let mut checked = job.clone();
            checked.inputs = vec![lines[..cut].concat(), lines[cut..].concat()];
            let bare: Vec<&[u8]> = lines.iter().map(|line| &line[..line.len() - 1]).collect();
            let is_wrong = |pair: &[&[u8]]| {
                let order = outcore::key::sort_key::compare_items(&order, pair[0], pair[1]);
                order.unwrap() == std::cmp::Ordering::Greater
            };
            let first = bare.windows(2).position(is_wrong).map(|at| at + 1);
            let device = checked.make_device();
            let run = job_on(&device, 8 << 20);
            let found = check_lines(&run, &checked.sort_inputs(), &order, job.options).unwrap();
            let expected = first.map(|at| match at.checked_sub(cut) {
                None => (0, at + 1, bare[at]),
                Some(behind) => (1, behind + 1, bare[at]),
            });
            let got = found.as_ref().map(|found| {
                let file = usize::from(found.path == checked.input_path(1));
                (file, found.line_number as usize, &found.line[..])
            });
            let shown =
                expected.map(|(file, number, line)| (file, number, &line[..line.len().min(4096)]));
            assert_eq!(got, shown, "{checked:?}");
            assert_eq!(run.budget.used_bytes(), 0);
        }
    }
}

#[test]
fn with_unique_a_check_takes_equal_keys_for_a_disorder() {
    let mut job = LineJob::of(BYTES, b"a\nb\nb\n".to_vec());
    let device = job.make_device();
    let run = job_on(&device, 8 << 20);
    let check = |job: &LineJob| check_lines(&run, &job.sort_inputs(), &BYTES, job.options).unwrap();
    assert_eq!(check(&job), None);
    job.options.unique = true;
    assert_eq!(check(&job).unwrap().line_number, 3);
}

#[test]
fn a_line_without_a_key_is_named_by_file_and_number() {
    let order = TestOrder::Second {
        descending: false,
        tie: Tie::Bytes,
    };
    let good = b"a b\n".repeat(100_000);
    let mut bad = good[..3 * 4096 * 4].to_vec();
    let number = bad.len() / 4 + 1;
    bad.extend_from_slice(b"nothing\n");
    bad.extend_from_slice(&good);
    let mut job = LineJob::of(order, good);
    job.inputs.push(bad);
    let error = job.on_ram().result.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert_eq!(error.file_path(), Some(&*job.input_path(1)));
    assert_eq!(
        error.cause(),
        format!("line {number} has no key: it has no second field")
    );
    job.options.on_no_key = OnNoKey::Skip;
    assert_eq!(job.check().skipped, 1);
}

#[test]
fn a_line_longer_than_the_memory_allows_is_refused_by_name() {
    let mut input = b"short\n".to_vec();
    input.extend(std::iter::repeat_n(b'x', 6 << 20));
    let mut job = LineJob::of(BYTES, input);
    job.memory_bytes = 8 << 20;
    let error = job.on_ram().result.unwrap_err();
    assert_eq!(error.kind(), Kind::Memory, "{error}");
    assert!(error.file_path().is_some(), "{error}");
}

#[test]
fn a_job_that_is_cancelled_leaves_nothing() {
    let job = LineJob::of(BYTES, text(Text::Words, 300_000, b'\n', 1));
    let device = job.make_device();
    let run = job.job(Arc::new(device.clone()));
    run.control.cancel();
    let ran = job.run(&device, &run);
    assert_eq!(ran.result.unwrap_err().kind(), Kind::Interrupted);
}

#[test]
fn a_header_stands_in_front_of_the_lines() {
    let job = LineJob::of(BYTES, text(Text::Words, 100_000, b'\n', 1));
    let device = job.make_device();
    let path = job.out_path();
    let sorts = [sort_lines, merge_lines];
    let expected = [b"the header\n".to_vec(), job.expected()].concat();
    device.put(job.input_path(1), job.expected());
    for (index, sort) in sorts.into_iter().enumerate() {
        let output = Output::File {
            path: path.clone(),
            header: Some(Arc::new(|_| b"the header\n".to_vec())),
        };
        let mut options = job.options;
        options.replace = true;
        let input = Input::raw(job.input_path(index));
        let run = job_on(&device, 16 << 20);
        sort(&run, &[input], output, &BYTES, options).unwrap();
        assert!(device.get(&path) == Some(expected.clone()));
    }
}
