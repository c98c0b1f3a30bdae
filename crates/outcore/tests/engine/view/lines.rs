//! Views of lines against a naive sort of the text: by line, by byte, by key, extended, damaged.
//!
//! Contract: the expected text comes from the definition of the order (`compare_items`) and the
//! standard library's stable sort; every interface must return it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use outcore::job::{Job, JobOptions};
use outcore::key::sort_key::{SortKey, Tie};
use outcore::runs::{BuildOptions, LineType, SortedView, append_with, build};
use outcore::{Input, Kind, Output, Result};
use outcore_io::drive::Device;
use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice, RamOptions};

use super::kit::DIR;
use super::line_case::{BYTES, By, LineCase, TestOrder, any_case, read_left};
use super::metadata::{manifest_path, resealed};
use super::properties::Pipe;
use crate::lines::texts::{TEXTS, Text, text};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if crate::support::is_long() { 400 } else { 24 }))]

    #[test]
    fn whatever_is_read_of_lines_equals_the_sorted_text(
        case in any_case(),
        ranges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
        reads in prop::collection::vec((any::<prop::sample::Index>(), 1usize..5000), 1..10),
        parts in 1u64..5,
    ) {
        let (ram, inputs) = case.ram();
        let lines = case.sorted(&case.inputs());
        let text = case.text_of(&lines);
        let sorted = [&case.front[..], &text].concat();
        let job = case.job(Arc::new(ram.clone()) as Arc<dyn Device>);
        let (view, summary) = case.build(&job, &inputs).unwrap();
        prop_assert_eq!((summary.records, summary.bytes), (lines.len() as u64, text.len() as u64));
        drop(view);
        prop_assert_eq!(job.budget.used_bytes(), 0);

        let view = case.open(&job).unwrap();
        prop_assert_eq!((view.len(), view.len_bytes()), (lines.len() as u64, sorted.len() as u64));
        let mut reader = view.reader(view.reader_bytes(1)).unwrap();
        reader.seek(0..view.len()).unwrap();
        prop_assert!(read_left(&mut reader) == text, "all");
        for (a, b) in ranges {
            let (a, b) = (a.index(lines.len() + 1), b.index(lines.len() + 1));
            let (from, to) = (a.min(b), a.max(b));
            reader.seek(from as u64..to as u64).unwrap();
            prop_assert!(read_left(&mut reader) == case.text_of(&lines[from..to]), "{}..{}", from, to);
        }
        let mut joined = Vec::new();
        for part in view.split(parts) {
            reader.seek(part).unwrap();
            joined.extend(read_left(&mut reader));
        }
        prop_assert!(joined == text, "parts");
        for at in [0, lines.len() / 3, lines.len().saturating_sub(1)] {
            let Some(line) = lines.get(at) else { break };
            let key = |line: &[u8]| { let mut key = Vec::new(); case.order.append_key(line, &mut key).unwrap(); key };
            let is_before = |other: &&Vec<u8>| match case.order.descending {
                false => key(other) < key(line),
                true => key(other) > key(line),
            };
            let naive = lines.iter().take_while(is_before).count() as u64;
            prop_assert_eq!(reader.seek_key(line).unwrap(), naive);
        }
        let key = |line: &[u8]| { let mut key = Vec::new(); case.order.append_key(line, &mut key).unwrap(); key };
        let wanted: Vec<Vec<u8>> = (0..30)
            .filter_map(|step| lines.get(step * 37 % lines.len().max(1)))
            .flat_map(|line| [line.clone(), [&line[..line.len() / 2], b"q"].concat()])
            .collect();
        let keys: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
        for counts_equal in [false, true] {
            let (ranks, _) = view.lookup(&keys, counts_equal).unwrap();
            for (line, rank) in keys.iter().zip(ranks) {
                let is_before = |other: &&Vec<u8>| {
                    let order = key(other).cmp(&key(line));
                    let order = if case.order.descending { order.reverse() } else { order };
                    order.is_lt() || counts_equal && order.is_eq()
                };
                prop_assert_eq!(rank, lines.iter().take_while(is_before).count() as u64);
            }
        }
        let (found, _) = view.values(&keys).unwrap();
        let equal = keys.iter().flat_map(|wanted| {
            let is_equal = |line: &&Vec<u8>| key(line) == key(wanted);
            lines.iter().filter(is_equal)
        });
        let equal: Vec<Vec<u8>> = equal.cloned().collect();
        prop_assert!(found == case.text_of(&equal), "values");
        for (at, len) in reads {
            let at = at.index(sorted.len() + 10);
            let mut out = vec![0; len];
            for at in [at, at + len] {
                let got = reader.read_at(at as u64, &mut out).unwrap();
                let expected = &sorted[at.min(sorted.len())..(at + len).min(sorted.len())];
                prop_assert!(&out[..got] == expected, "{} bytes at {}", len, at);
            }
        }
        drop(reader);
        let mut reader = view.reader_of_runs(view.reader_bytes(1)).unwrap();
        reader.seek(0..view.len()).unwrap();
        let ended = |line: &Vec<u8>| [&line[..], &[case.terminator]].concat();
        let of_runs: Vec<u8> = lines.iter().flat_map(ended).collect();
        prop_assert!(read_left(&mut reader) == of_runs, "of runs");
        drop(reader);
        let output = Output::File { path: "/d0/out".into(), header: None };
        view.write_file(&output, false).unwrap();
        prop_assert!(ram.get("/d0/out").unwrap() == sorted, "written");
        let pipe = Pipe(Arc::new(Mutex::new(Vec::new())));
        view.write_file(&Output::Pipe(Mutex::new(Box::new(pipe.clone()))), false).unwrap();
        prop_assert!(std::mem::take(&mut *pipe.0.lock().unwrap()) == sorted, "all piped");
        let half = view.len() / 2;
        let piped = view.write_to(0..half, &Output::Pipe(Mutex::new(Box::new(pipe.clone()))), false).unwrap();
        prop_assert!(*pipe.0.lock().unwrap() == case.text_of(&lines[..half as usize]), "piped");
        prop_assert_eq!(piped.records, half);
        prop_assert_eq!(view.verify().unwrap().records, view.len());
        drop(view);
        prop_assert_eq!(job.budget.used_bytes(), 0);
        prop_assert!(job.budget.peak_bytes() <= case.memory_bytes);
    }
}

#[test]
fn an_order_that_is_not_the_engines_must_be_brought_and_that_of_bytes_need_not() {
    let case = LineCase::of(Text::Words, 10_000, 2000);
    let (ram, inputs) = case.ram();
    let job = case.job(Arc::new(ram));
    case.build(&job, &inputs).unwrap();
    let error = SortedView::open(&job, DIR.as_ref()).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert!(error.to_string().contains("test"), "{error}");
    let options = BuildOptions {
        replace: true,
        ..case.options()
    };
    build(
        &job,
        &inputs,
        DIR.as_ref(),
        LineType::of_bytes(b'\n'),
        options,
    )
    .unwrap();
    let view = SortedView::open(&job, DIR.as_ref()).unwrap();
    assert_eq!(view.len(), case.sorted(&case.inputs()).len() as u64);
    assert!(view.format().is_none());
}

#[test]
fn further_lines_come_behind_equal_ones_where_places_count() {
    let mut case = LineCase::of(Text::Words, 40_000, 7000);
    case.order = TestOrder {
        by: By::Length,
        descending: true,
        tie: Tie::Position,
    };
    let (ram, inputs) = case.ram();
    let more = text(Text::Few, 30_000, b'\n', 9);
    ram.put("/d0/more", more.clone());
    let job = case.job(Arc::new(ram));
    case.build(&job, &inputs).unwrap();
    let added = [Input::raw("/d0/more")];
    let orders = case.orders();
    let (view, summary) = append_with(&job, &added, DIR.as_ref(), case.options(), &orders).unwrap();
    assert_eq!(summary.bytes, more.len() as u64);
    let mut both = case.inputs();
    both.push(more);
    let mut reader = view.reader(view.reader_bytes(1)).unwrap();
    reader.seek(0..view.len()).unwrap();
    assert!(read_left(&mut reader) == case.text_of(&case.sorted(&both)));
}

#[test]
fn more_runs_of_lines_than_memory_can_merge_are_merged_beforehand() {
    for by in [By::Line, By::Second] {
        let mut case = LineCase::of(Text::Long, 6_000_000, 6000);
        case.order.by = by;
        (case.threads, case.drives) = (2, 2);
        let (ram, inputs) = case.ram();
        let job = case.job(Arc::new(ram));
        let (view, summary) = case.build(&job, &inputs).unwrap();
        assert!(!summary.plan.merges.is_empty(), "{:?}", summary.plan);
        assert!(view.info().runs.len() <= 512);
        let mut reader = view.reader(view.reader_bytes(1)).unwrap();
        reader.seek(0..view.len()).unwrap();
        assert!(read_left(&mut reader) == case.text_of(&case.sorted(&case.inputs())));
        drop(reader);
        view.verify().unwrap();
        assert!(job.budget.peak_bytes() <= case.memory_bytes);
    }
}

#[test]
fn lines_longer_than_blocks_are_read_in_the_memory_there_is_and_longer_ones_refused() {
    let long = |letter: u8, len: usize| [vec![letter; len], vec![b'\n']].concat();
    let mut case = LineCase::of(Text::Words, 400_000, 5_000_000);
    case.threads = 2;
    let (ram, mut inputs) = case.ram();
    let mut texts = case.inputs();
    texts.push(
        [
            long(b'b', 1_900_000),
            long(b'c', 700),
            long(b'a', 1_700_000),
        ]
        .concat(),
    );
    ram.put("/d0/long", texts[1].clone());
    inputs.push(Input::raw("/d0/long"));
    let job = case.job(Arc::new(ram.clone()));
    let (view, _) = case.build(&job, &inputs).unwrap();
    let lines = case.sorted(&texts);
    let mut reader = view.reader(view.reader_bytes(2)).unwrap();
    reader.seek(0..view.len()).unwrap();
    assert!(read_left(&mut reader) == case.text_of(&lines));
    for (at, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.len() > 600)
    {
        reader.seek(at as u64..at as u64 + 1).unwrap();
        assert!(
            read_left(&mut reader) == case.text_of(std::slice::from_ref(line)),
            "{at}"
        );
    }
    drop(reader);
    view.verify().unwrap();
    assert!(job.budget.peak_bytes() <= case.memory_bytes);

    let before = b"short\n".repeat(400_000);
    ram.put(
        "/d0/longer",
        [&before[..], &long(b'z', 30_000_000)].concat(),
    );
    let added = [Input::raw("/d0/longer")];
    let orders = case.orders();
    let error = append_with(&job, &added, DIR.as_ref(), case.options(), &orders).map(drop);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), Kind::Memory, "{error}");
    assert!(error.next_step().unwrap().contains("--memory"), "{error}");
    assert_eq!(error.offset_bytes(), Some(before.len() as u64), "{error}");
    assert!(error.to_string().contains("/d0/longer"), "{error}");
    // A long line for which there is room is measured and accepted.
    ram.put("/d0/longer", [&before[..], &long(b'z', 3_000_000)].concat());
    append_with(&job, &added, DIR.as_ref(), case.options(), &orders).unwrap();
}

#[test]
fn lines_are_read_once_to_build_a_view_and_once_to_read_it() {
    let mut case = LineCase::of(Text::Words, 16_000_000, 1 << 30);
    case.order.by = By::Second;
    let (ram, inputs) = case.ram();
    let data_bytes = case.inputs().concat().len() as f64;
    let job = case.job(Arc::new(ram));
    let (view, summary) = case.build(&job, &inputs).unwrap();
    let before = view.traffic_bytes().0;
    let mut reader = view.reader(view.reader_bytes(2)).unwrap();
    reader.seek(0..view.len()).unwrap();
    assert_eq!(read_left(&mut reader).len() as f64, data_bytes);
    // The reads of the sample, of the ends of runs and of the index are small, even for a small
    // text.
    let built = summary.read_bytes as f64 / data_bytes;
    assert!(built <= 1.02, "{built} N");
    let read = (view.traffic_bytes().0 - before) as f64 / data_bytes;
    assert!(read <= 1.02, "{read} N");
    let written = summary.written_bytes as f64 / data_bytes;
    assert!(written <= 1.01, "{written} N");
}

#[test]
fn more_lines_than_a_sample_predicts_are_sorted_in_several_passes() {
    for (by, tie) in [(By::Line, Tie::Bytes), (By::Second, Tie::Position)] {
        let mut case = LineCase::of(Text::Prefix, 3_000_000, 1 << 20);
        case.order = TestOrder {
            by,
            descending: by == By::Second,
            tie,
        };
        let (ram, mut inputs) = case.ram();
        let mut texts = case.inputs();
        // A run of only short lines.
        texts.push(text(Text::Few, 900_000, b'\n', 3));
        ram.put("/d0/short", texts[1].clone());
        inputs.push(Input::raw("/d0/short"));
        let job = case.job(Arc::new(ram));
        let (view, summary) = case.build(&job, &inputs).unwrap();
        let lines = summary.plan.size.lines.unwrap();
        let short_lines = texts[1].iter().filter(|byte| **byte == b'\n').count() as u64;
        let predicted = (1 << 20) / lines.line_bytes;
        assert!(short_lines > 2 * predicted, "{short_lines} and {predicted}");
        let mut reader = view.reader(view.reader_bytes(1)).unwrap();
        reader.seek(0..view.len()).unwrap();
        assert!(read_left(&mut reader) == case.text_of(&case.sorted(&texts)));
        assert!(job.budget.peak_bytes() <= case.memory_bytes);
    }
}

#[test]
fn a_seek_to_a_line_reads_a_few_blocks_of_each_run() {
    let case = LineCase::of(Text::Words, 8_000_000, 500_000);
    let (ram, inputs) = case.ram();
    let job = case.job(Arc::new(ram));
    let (view, _) = case.build(&job, &inputs).unwrap();
    let lines = case.sorted(&case.inputs());
    let mut reader = view.reader(view.reader_bytes(1)).unwrap();
    let runs = view.info().runs.len() as u64;
    let before = reader.blocks_read();
    let seeks = 40;
    for seek in 0..seeks {
        let at = crate::support::patterns::random(3, 1, seek) as usize % lines.len();
        reader.seek(at as u64..at as u64 + 1).unwrap();
        assert!(
            read_left(&mut reader) == case.text_of(&lines[at..at + 1]),
            "{at}"
        );
    }
    let blocks = (reader.blocks_read() - before) as f64 / (seeks * runs) as f64;
    assert!(blocks <= 3.0, "{blocks} blocks a run");
}

#[test]
fn a_flipped_bit_anywhere_in_a_run_of_lines_is_found_and_named() {
    let mut case = LineCase::of(Text::Words, 300_000, 70_000);
    case.drives = 2;
    let (ram, inputs) = case.ram();
    let job = case.job(Arc::new(ram.clone()));
    let (view, _) = case.build(&job, &inputs).unwrap();
    let runs = view.info().runs;
    drop(view);
    let sorted = case.text_of(&case.sorted(&case.inputs()));
    let read = || -> Result<Vec<u8>> {
        let view = case.open(&job)?;
        let mut reader = view.reader(view.reader_bytes(1))?;
        reader.seek(0..view.len())?;
        let mut all = vec![0; view.len_bytes() as usize];
        reader.read(&mut all)?;
        Ok(all)
    };
    for (turn, (run, _, _)) in runs.iter().cycle().take(40).enumerate() {
        let bits = ram.get(run).unwrap().len() as u64 * 8;
        let bit = crate::support::patterns::random(3, 1, turn as u64) % bits;
        ram.flip_bit(run, bit);
        match read() {
            // Padding between lines and index, or after it.
            Ok(all) => assert!(all == sorted, "bit {bit} of {}", run.display()),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Corrupt, "{error}");
                assert_eq!(error.file_path(), Some(run.as_path()), "{error}");
                assert!(error.offset_bytes().unwrap() <= bit / 8, "{error}");
                assert!(error.drive_name().is_some() && error.to_string().contains("run "));
            }
        }
        ram.flip_bit(run, bit);
    }
    assert!(read().unwrap() == sorted);
}

#[test]
fn every_operation_of_a_build_and_a_read_of_lines_may_fail_once() {
    let mut case = LineCase::of(Text::Few, 60_000, 20_000);
    (case.drives, case.is_ended) = (2, false);
    let sorted = case.text_of(&case.sorted(&case.inputs()));
    for fault in ["eio", "enospc", "flip"] {
        let (mut n, mut failed) = (1, 0);
        loop {
            let (ram, inputs) = case.ram();
            let plan: FaultPlan = format!("{fault}@{n}").parse().unwrap();
            let device = Arc::new(FaultDevice::new(Arc::new(ram.clone()), plan));
            let job = case.job(Arc::clone(&device) as Arc<dyn Device>);
            let outcome = case.build(&job, &inputs).and_then(|(view, _)| {
                let mut reader = view.reader(view.reader_bytes(1))?;
                reader.seek(0..view.len())?;
                let mut all = vec![0; view.len_bytes() as usize];
                reader.read(&mut all)?;
                Ok(all)
            });
            match outcome {
                Ok(all) => assert!(fault == "flip" || all == sorted, "{fault}@{n}"),
                Err(error) => {
                    failed += 1;
                    let kinds = match fault {
                        "flip" => [Kind::Corrupt, Kind::Io],
                        // A drive that fails or is full is not a fault of a line.
                        _ => [Kind::NoSpace, Kind::Io],
                    };
                    assert!(kinds.contains(&error.kind()), "{fault}@{n}: {error}");
                }
            }
            if device.operations() < n {
                break;
            }
            n += 1;
        }
        assert!(n > 20 && failed > 5, "{fault}: {failed} of {n}");
    }
}

#[test]
fn an_index_of_blocks_of_another_size_is_damage_and_no_search_without_end() {
    let case = LineCase {
        order: TestOrder {
            by: By::Second,
            ..BYTES
        },
        ..LineCase::of(TEXTS[0], 90_000, 30_000)
    };
    let (ram, inputs) = case.ram();
    let job = case.job(Arc::new(ram.clone()));
    case.build(&job, &inputs).unwrap();
    let whole = ram.get(manifest_path()).unwrap();
    let mut refused = 0;
    for block_bytes in (15_000..18_000u64).step_by(50) {
        let changed = resealed(&whole, |body| body["block_records"] = block_bytes.into());
        ram.put(manifest_path(), changed);
        // Most damaged manifests are rejected when the view is opened, the others when it is read.
        let read = case.open(&job).and_then(|view| {
            let mut reader = view.reader(view.reader_bytes(1))?;
            reader.seek(view.len() / 3..view.len() / 3 + 10)?;
            reader.seek_key(b"x y").map(drop)
        });
        refused += u32::from(read.is_err_and(|error| error.kind() == Kind::Corrupt));
    }
    assert!(refused > 50, "{refused}");
}

#[test]
fn lines_of_a_sorted_file_are_looked_up_without_a_view() {
    let mut lines: Vec<Vec<u8>> = (0..40_000u32)
        .map(|n| format!("{:x}", n.wrapping_mul(2_654_435_761) % 60_000).into_bytes())
        .collect();
    lines.push(vec![b'k'; 100_000]);
    lines.extend([vec![], vec![], b"k".to_vec()]);
    lines.sort();
    let text = lines.join(&b'\n');
    for (ends, memory_bytes) in [(true, 64 << 20), (false, 12 << 20)] {
        let ram = RamDevice::new(RamOptions::default());
        let end: &[u8] = if ends { b"\n" } else { b"" };
        ram.put("/d0/sorted", [&text[..], end].concat());
        let options = JobOptions {
            memory_bytes,
            threads: 2,
            ..JobOptions::default()
        };
        let job = Job::on(options, Arc::new(ram.clone()));
        let type_of_lines = LineType::of_bytes(b'\n');
        let view =
            SortedView::of_sorted_lines(&job, Path::new("/d0/sorted"), &type_of_lines).unwrap();
        assert_eq!(view.len(), lines.len() as u64);
        let wanted: Vec<Vec<u8>> = (0..3000u32)
            .map(|n| format!("{:x}", n.wrapping_mul(97) % 70_000).into_bytes())
            .chain([vec![], b"k".to_vec(), vec![b'k'; 100_000], vec![b'z']])
            .collect();
        let keys: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
        for counts_equal in [false, true] {
            let (ranks, phase) = view.lookup(&keys, counts_equal).unwrap();
            assert!(phase.read_bytes > 0);
            for (key, rank) in wanted.iter().zip(ranks) {
                let naive = lines.partition_point(|line| match counts_equal {
                    true => line <= key,
                    false => line < key,
                });
                assert_eq!(
                    rank,
                    naive as u64,
                    "{:?}",
                    String::from_utf8_lossy(&key[..key.len().min(9)])
                );
            }
        }
        // If two different lines are exchanged anywhere, the error names the second.
        for at in (1..lines.len()).step_by(997).chain([lines.len() - 1]) {
            if lines[at - 1] == lines[at] {
                continue;
            }
            let mut wild = lines.clone();
            wild.swap(at - 1, at);
            ram.put("/d0/wild", [&wild.join(&b'\n')[..], end].concat());
            let found = SortedView::of_sorted_lines(&job, Path::new("/d0/wild"), &type_of_lines);
            let error = found.map(drop).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            let named = format!("line {} ", at + 1);
            assert!(error.to_string().contains(&named), "{named}: {error}");
        }
        ram.put("/d0/empty", Vec::new());
        let empty =
            SortedView::of_sorted_lines(&job, Path::new("/d0/empty"), &type_of_lines).unwrap();
        assert_eq!(empty.lookup(&keys[..2], true).unwrap().0, [0, 0]);
    }
}
