//! Reads stay in flight: no phase of any job waits for one read before it requests the next.
//!
//! Contract: as in [`crate::support::depth`], with an input file on each drive.

use std::path::Path;

use outcore::job::Job;
use outcore::key::RecordFormat;
use outcore::key::check::CheckOptions;
use outcore::key::sort_key::{ByteOrder, NoKey, SortKey, Tie};
use outcore::primitives::{
    BucketFiles, Inclusion, Sequence, Side, count_by, distribute, gather, lookup, map_files, merge,
    read, reduce_by_key, reverse, scan, sum, top_k, unique, windows, write,
};
use outcore::read::sample::random;
use outcore::runs::{BuildOptions, SortedView, build};
use outcore::shuffle::{ShuffleOptions, Shuffled, Unit, shuffle};
use outcore::sort::lines::{LineSortOptions, check_lines, merge_lines, sort_lines};
use outcore::sort::{SortOptions, sort};
use outcore::verify::verify;
use outcore::{Input, Output};

use crate::support::depth::{
    DEPTH_LEAST, DRIVES, InFlight, Reading, check, check_for, drives, medians_on,
};
use crate::support::patterns::{Payload, Values, fill};

/// Runs `work` on `data` in one file per drive with this much memory; returns the medians of each
/// phase.
fn medians_of(
    data: &[&[u8]],
    memory_kib: u64,
    work: &mut dyn FnMut(&Job, &[Input]),
) -> Vec<(Reading, InFlight)> {
    let ram = drives();
    let mut inputs = Vec::new();
    for (index, bytes) in data.iter().enumerate() {
        let path = format!("/d{index}/in");
        ram.put(&path, bytes.to_vec());
        inputs.push(Input::raw(path));
    }
    medians_on(&ram, memory_kib, &mut |job| work(job, &inputs))
}

fn quarters(data: &[u8], unit_bytes: usize) -> Vec<&[u8]> {
    let each = (data.len() / DRIVES).next_multiple_of(unit_bytes);
    data.chunks(each).collect()
}

fn to_file() -> Output {
    Output::File {
        path: "/d0/out".into(),
        header: None,
    }
}

/// Lines of a random key of ten letters, a number and padding, like gensort's.
fn lines(bytes: usize) -> Vec<u8> {
    let mut lines = Vec::with_capacity(bytes + 100);
    let mut number = 0;
    while lines.len() < bytes {
        let key = random(7, number);
        lines.extend((0..10).map(|i| b'A' + (key >> (5 * i)) as u8 % 26));
        lines.extend(format!(" {number:08} ").bytes());
        lines.extend(std::iter::repeat_n(b'x', 79));
        lines.push(b'\n');
        number += 1;
    }
    lines
}

/// Lines by their first ten bytes, equal ones in the order of the input.
struct ByKey;

impl SortKey for ByKey {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> Result<(), NoKey> {
        key.extend_from_slice(&line[..10]);
        Ok(())
    }

    fn is_item(&self) -> bool {
        false
    }

    fn is_descending(&self) -> bool {
        false
    }

    fn tie(&self) -> Tie {
        Tie::Position
    }
}

#[test]
fn a_sort_of_numbers_or_records_keeps_reads_in_flight_in_every_phase() {
    for (text, mib, memory_kib) in [("u64", 64, 32 << 10), ("gensort", 64, 32 << 10)] {
        let format = RecordFormat::parse_type(text).unwrap();
        let records = (mib << 20) / format.record_bytes();
        let data = fill(&format, Values::Uniform, Payload::Random, 1, records);
        let mut levels = 0;
        let medians = medians_of(
            &quarters(&data, format.record_bytes()),
            memory_kib,
            &mut |job, inputs| {
                let summary = sort(job, inputs, to_file(), &format, SortOptions::default());
                levels = summary.unwrap().plan.map_or(0, |plan| plan.distributions);
            },
        );
        let what = format!("sort of {text} in {memory_kib} KiB, {levels} levels");
        check(&what, &medians, &[("distribute", false), ("sort", true)]);
    }
}

#[test]
fn a_sort_of_lines_keeps_reads_in_flight_in_every_phase() {
    let text = lines(64 << 20);
    let orders: [&dyn SortKey; 2] = [&ByteOrder, &ByKey];
    for order in orders {
        for memory_kib in [32 << 10, 6 << 10] {
            let mut levels = 0;
            let medians = medians_of(&quarters(&text, 100), memory_kib, &mut |job, inputs| {
                let options = LineSortOptions::default();
                let summary = sort_lines(job, inputs, to_file(), order, options).unwrap();
                levels = summary.plan.map_or(0, |plan| plan.distributions);
            });
            let what = format!("sort of lines in {memory_kib} KiB, {levels} levels");
            if memory_kib == 32 << 10 {
                check(&what, &medians, &[("distribute", false), ("sort", true)]);
                continue;
            }
            assert!(levels > 1, "buckets are split");
            let (scratch, input): (Vec<_>, Vec<_>) = medians
                .into_iter()
                .partition(|(reading, _)| reading.is_scratch);
            check(&what, &scratch, &[("distribute", true), ("sort", true)]);
            // In 6 MiB two stretches of the input are read in parallel, each one or two blocks
            // ahead.
            check_for(&what, &input, &[("distribute", false)], 2);
        }
    }
}

#[test]
fn very_little_memory_shortens_reads_of_the_input_and_not_their_number() {
    let data: Vec<u8> = (0..4u64 << 20)
        .flat_map(|n| random(11, n).to_le_bytes())
        .collect();
    let format = RecordFormat::parse_type("u64").unwrap();
    let mut reads_in_flight = 0;
    let mut medians = medians_of(&quarters(&data, 8), 7 << 10, &mut |job, inputs| {
        let summary = sort(job, inputs, to_file(), &format, SortOptions::default());
        reads_in_flight = summary.unwrap().plan.unwrap().reads_in_flight;
    });
    assert!(reads_in_flight > DEPTH_LEAST, "{reads_in_flight}");
    medians.retain(|(reading, _)| !reading.is_scratch);
    // Most of the time, all reads have completed and their data wait for writes.
    check_for(
        "32 MiB of u64 in 7 MiB",
        &medians,
        &[("distribute", false)],
        3,
    );
}

#[test]
fn a_shuffle_keeps_reads_in_flight_in_every_phase() {
    let numbers: Vec<u8> = (0..8u64 << 20).flat_map(u64::to_le_bytes).collect();
    let text = lines(64 << 20);
    let records = Unit::Records { record_bytes: 8 };
    let terminated = Unit::Lines {
        terminator: b'\n',
        drops_blanks: false,
    };
    for (unit, data, unit_bytes, memory_kib) in [
        (records, &numbers, 8, 32 << 10),
        (terminated, &text, 100, 32 << 10),
    ] {
        let mut distributions = 0;
        let medians = medians_of(
            &quarters(data, unit_bytes),
            memory_kib,
            &mut |job, inputs| {
                let options = ShuffleOptions {
                    unit,
                    seed: 3,
                    epoch: 0,
                    replace: false,
                };
                let summary = shuffle(job, inputs, to_file(), options).unwrap();
                distributions = summary.plan.distributions;
            },
        );
        let what =
            format!("shuffle of {unit:?} in {memory_kib} KiB, {distributions} distributions");
        // N.B. a chunk of the input that a lane reads is one block long here. So there is one read
        // per open chunk, except for the chunk whose lines are being moved.
        check(&what, &medians, &[("distribute", false), ("permute", true)]);
    }
}

#[test]
fn passes_of_datasets_and_views_keep_reads_in_flight() {
    let numbers: Vec<u8> = (0..8u64 << 20)
        .flat_map(|n| random(5, n).to_le_bytes())
        .collect();
    let format = RecordFormat::parse_type("u64").unwrap();
    let data = quarters(&numbers, 8);
    let memory_kib = 32 << 10;
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        sum(job, &read::<u64>(inputs)).unwrap();
    });
    check("sum", &medians, &[]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        write(job, &read::<u64>(inputs), &to_file(), false).unwrap();
    });
    check("write", &medians, &[]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        scan(
            job,
            &read::<u64>(inputs),
            0,
            u64::wrapping_add,
            Inclusion::Inclusive,
            &to_file(),
            false,
        )
        .unwrap();
    });
    check("scan", &medians, &[]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        unique(job, &read::<u64>(inputs), &format, &to_file(), false).unwrap();
    });
    check("unique", &medians, &[]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        let options = BuildOptions::default();
        build(job, inputs, Path::new("/d0/view"), &format, options).unwrap();
    });
    check("view build", &medians, &[]);
}

#[test]
fn further_passes_keep_reads_in_flight() {
    let numbers: Vec<u8> = (0..8u64 << 20)
        .flat_map(|n| random(6, n).to_le_bytes())
        .collect();
    let format = RecordFormat::parse_type("u64").unwrap();
    let data = quarters(&numbers, 8);
    let memory_kib = 32 << 10;
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        let pairs = windows::<u64, 2>(job, inputs).unwrap();
        let sums = pairs.map(|pair: [u64; 2]| pair[0].wrapping_add(pair[1]));
        write(job, &sums, &to_file(), false).unwrap();
    });
    check("windows", &medians, &[("write", false)]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        reverse(job, &read::<u64>(inputs), &to_file(), false).unwrap();
    });
    check("reverse", &medians, &[]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        let files = BucketFiles {
            paths: (0..8)
                .map(|n| format!("/d{}/part-{n}", n % 4).into())
                .collect(),
            manifest: Some("/d0/parts.outcore".into()),
            replace: false,
            header: None,
        };
        distribute(job, &read::<u64>(inputs), |x| (x % 8) as usize, &files).unwrap();
    });
    check("distribute", &medians, &[]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        count_by(job, &read::<u64>(inputs), &format, &to_file(), false).unwrap();
    });
    check("count-by", &medians, &[]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        // A sort of the results of a pass, with no file in between.
        let odd = read::<u64>(inputs).map(|x| x | 1);
        reduce_by_key(job, &odd, &format, |a, _| a, &to_file(), false).unwrap();
    });
    check("sort of items", &medians, &[]);
    let sorted = sorted_numbers();
    let medians = medians_of(&quarters(&sorted, 8), memory_kib, &mut |job, inputs| {
        let keys: Vec<u8> = (0..4096)
            .flat_map(|n| (random(2, n) % (8 << 20)).to_le_bytes())
            .collect();
        lookup(job, inputs, &format, &keys, Side::Left).unwrap();
    });
    check("lookup", &medians, &[]);
}

/// 64 MiB of sorted numbers.
fn sorted_numbers() -> Vec<u8> {
    (0..8u64 << 20).flat_map(u64::to_le_bytes).collect()
}

#[test]
fn checks_of_order_keep_reads_in_flight() {
    let numbers = sorted_numbers();
    let format = RecordFormat::parse_type("u64").unwrap();
    let medians = medians_of(&quarters(&numbers, 8), 32 << 10, &mut |job, inputs| {
        verify(job, inputs, &format, CheckOptions::default()).unwrap();
    });
    check("verify", &medians, &[("verify", false)]);
    let text = lines(32 << 20);
    let mut rows: Vec<&[u8]> = text.chunks(100).collect();
    rows.sort_unstable();
    let sorted = rows.concat();
    let medians = medians_of(&quarters(&sorted, 100), 32 << 10, &mut |job, inputs| {
        let options = LineSortOptions::default();
        let disorder = check_lines(job, inputs, &ByteOrder, options).unwrap();
        assert_eq!(disorder, None);
    });
    check("check of lines", &medians, &[("check", false)]);
}

#[test]
fn merges_keep_reads_in_flight() {
    let text = lines(32 << 20);
    let data = quarters(&text, 100);
    let sorted: Vec<Vec<u8>> = data
        .into_iter()
        .map(|part| {
            let mut rows: Vec<&[u8]> = part.chunks(100).collect();
            rows.sort_unstable();
            rows.concat()
        })
        .collect();
    let sorted: Vec<&[u8]> = sorted.iter().map(Vec::as_slice).collect();
    let medians = medians_of(&sorted, 32 << 10, &mut |job, inputs| {
        let options = LineSortOptions::default();
        merge_lines(job, inputs, to_file(), &ByteOrder, options).unwrap();
    });
    check("merge of lines", &medians, &[("merge", false)]);
    let numbers = sorted_numbers();
    let format = RecordFormat::parse_type("u64").unwrap();
    let medians = medians_of(&quarters(&numbers, 8), 32 << 10, &mut |job, inputs| {
        let options = SortOptions::default();
        merge(job, inputs, &format, options, &to_file()).unwrap();
    });
    check("merge of numbers", &medians, &[("merge", false)]);
}

#[test]
fn reads_of_a_view_keep_reads_in_flight() {
    let numbers: Vec<u8> = (0..8u64 << 20)
        .flat_map(|n| random(9, n).to_le_bytes())
        .collect();
    let format = RecordFormat::parse_type("u64").unwrap();
    let path = Path::new("/d0/view");
    let medians = medians_of(&quarters(&numbers, 8), 8 << 10, &mut |job, inputs| {
        let options = BuildOptions {
            run_bytes: Some(2 << 20),
            ..BuildOptions::default()
        };
        drop(build(job, inputs, path, &format, options).unwrap());
        let view = SortedView::open(job, path).unwrap();
        view.write_file(&to_file(), false).unwrap();
        view.verify().unwrap();
    });
    let phases = [("merge", false), ("verify", false)];
    // Publishing reads one block from each drive.
    let published = |(reading, _): &(Reading, InFlight)| reading.phase != "publish";
    let medians: Vec<_> = medians.into_iter().filter(published).collect();
    check("view", &medians, &phases);
}

#[test]
fn random_reads_and_whole_files_keep_reads_in_flight() {
    let numbers = sorted_numbers();
    let data = quarters(&numbers, 8);
    let memory_kib = 32 << 10;
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        let positions: Vec<u64> = (0..4096).map(|n| random(1, n) % (8 << 20)).collect();
        gather(job, inputs, 8, &positions).unwrap();
    });
    check("gather", &medians, &[("gather", false)]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        let order = Shuffled::open(job, inputs, 8, 5, 0).unwrap();
        order.read(1000, &mut vec![0; 8 * 4096]).unwrap();
    });
    check("random order", &medians, &[]);
    let medians = medians_of(&data, 64 << 10, &mut |job, inputs| {
        map_files(job, inputs, |file| Ok(file.bytes.len())).unwrap();
    });
    check("map files", &medians, &[("map files", false)]);
    let medians = medians_of(&data, memory_kib, &mut |job, inputs| {
        top_k(job, &read::<u64>(inputs), 10, u64::cmp).unwrap();
    });
    check("top", &medians, &[("top", false)]);
}
