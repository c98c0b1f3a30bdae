//! The predictions of a plan are close to the facts, for all kinds of keys.
//!
//! Contract: bytes written and scratch in use stay near the plan for every pattern of keys, also
//! with payload. Frequent values, common prefixes and outliers cost no further pass over the data.

use std::sync::Arc;

use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::RecordFormat;
use outcore::key::sort_key::ByteOrder;
use outcore::shuffle::{ShuffleOptions, Unit, shuffle};
use outcore::sort::lines::{LineSortOptions, sort_lines};
use outcore::sort::{SortOptions, SortSummary, sort};
use outcore::{Input, Kind, Output, Phase};
use outcore_io::drive::testing::{RamDevice, RamOptions};

use crate::support::cases::VALUES;
use crate::support::is_long;
use crate::support::patterns::{Payload, Values, fill};
use crate::support::runs::Sort;

fn sort_of(text: &str, values: Values, mib: usize, memory_mib: u64, threads: usize) -> Sort {
    let format = RecordFormat::parse_type(text).unwrap();
    let records = (mib << 20) / format.record_bytes();
    let input = fill(&format, values, Payload::Random, 1, records);
    Sort {
        threads,
        memory_bytes: memory_mib << 20,
        ..Sort::of(&format, input)
    }
}

fn check(summary: &SortSummary, what: &str) {
    let plan = summary.plan.as_ref().unwrap();
    let ratio = |got: u64, predicted: u64| got as f64 / predicted.max(1) as f64;
    let written = ratio(summary.written_bytes, plan.predicted_written_bytes);
    let read = ratio(summary.read_bytes, plan.predicted_read_bytes);
    // Small buckets vary more, and some are split again: a value that fills two thirds of a leaf is
    // the worst case. Another pass over all data would mean 1.5 times the written bytes, or 1.33
    // times after two distributions.
    let facts =
        format!("{what}: written {written:.2} and read {read:.2} of the prediction: {plan}");
    let most = if plan.distributions > 1 { 1.3 } else { 1.42 };
    assert!(written < most && read < 1.9, "{facts}");
    let scratch = ratio(summary.scratch_bytes, plan.scratch_bytes);
    assert!(
        scratch < 1.4 || summary.scratch_bytes == 0,
        "scratch {scratch:.2} of the plan; {facts}"
    );
}

#[test]
fn no_pattern_of_keys_costs_a_pass_more_than_planned() {
    for text in ["u64", "gensort", "16/0:8:u64", "1000/500:13"] {
        for values in VALUES {
            let mut means = vec![(4, 0, 1), (4, 5, 2), (8, 8, 2)];
            if is_long() {
                means.extend([
                    (16, 0, 2),
                    (16, 6, 1),
                    (16, 12, 2),
                    (16, 16, 2),
                    (32, 16, 4),
                    (32, 24, 2),
                ]);
            }
            for (mib, memory_mib, threads) in means {
                let sort = sort_of(text, values, mib, memory_mib, threads);
                let (summary, _) = sort.on_ram().unwrap();
                check(&summary, &format!("{values:?} {}", sort.describe()));
            }
        }
    }
}

#[test]
fn what_fits_the_memory_stays_there_whatever_the_keys() {
    for text in ["u64", "gensort", "16/0:8:u64", "1000/500:13"] {
        for values in VALUES {
            let sort = sort_of(text, values, 6, 24, 2);
            let (summary, output) = sort.on_ram().unwrap();
            assert_eq!(
                summary.plan.as_ref().map(|plan| plan.distributions),
                Some(0)
            );
            // The edges of blocks are written as whole blocks.
            let most = output.len() as u64 + (8 << 10);
            assert!(summary.written_bytes <= most, "{values:?} {summary:?}");
        }
    }
}

#[test]
fn scratch_of_one_thread_has_no_gaps() {
    for (text, memory_mib) in [("u64", 12), ("u64", 16), ("gensort", 12)] {
        let sort = sort_of(text, Values::Uniform, 24, memory_mib, 1);
        let (summary, output) = sort.on_ram().unwrap();
        let plan = summary.plan.as_ref().unwrap();
        assert_eq!(plan.distributions, 1, "{plan}");
        let away_bytes = summary.written_bytes - output.len() as u64;
        let used_bytes = summary.scratch_bytes;
        assert!(used_bytes <= away_bytes, "{away_bytes} {summary:?}");
    }
}

#[test]
fn a_limit_on_scratch_is_kept_and_one_that_the_plan_fits_is_enough() {
    for text in ["u64", "gensort"] {
        for (memory_mib, threads) in [(0, 1), (5, 2), (6, 1)] {
            let sort = sort_of(text, Values::Uniform, 6, memory_mib, threads);
            let plan = sort.plan();
            let device = sort.make_device();
            for percent in [20, 80, 120] {
                let mut job: Job = sort.job(std::sync::Arc::new(device.clone()));
                let limit_bytes = plan.scratch_bytes * percent / 100;
                job.options.scratch_limit_bytes = limit_bytes;
                let ran = sort.run(&device, &job);
                if percent < 100 {
                    assert_eq!(ran.kind(), Some(Kind::NoSpace), "{}", ran.what);
                } else {
                    let (summary, _) = ran.unwrap();
                    assert!(summary.scratch_bytes <= limit_bytes);
                }
            }
        }
    }
}

/// The phases of `work` on `data` with this much memory.
fn phases_of(
    data: &[u8],
    memory_mib: u64,
    work: impl FnOnce(&Job, &[Input], Output) -> Vec<Phase>,
) -> Vec<Phase> {
    let ram = RamDevice::new(RamOptions::default());
    ram.put("/d0/in", data.to_vec());
    let options = JobOptions {
        memory_bytes: memory_mib << 20,
        threads: 2,
        drives: vec![ScratchDrive::new("/d0")],
        ..JobOptions::default()
    };
    let job = Job::on(options, Arc::new(ram));
    let output = Output::File {
        path: "/d0/out".into(),
        header: None,
    };
    work(&job, &[Input::raw("/d0/in")], output)
}

/// Checks that phases moved the planned bytes; with `may_be_less`, possibly fewer, because values
/// that are only counted need no scratch.
fn check_phases(what: &str, phases: &[Phase], data_bytes: u64, may_be_less: bool) {
    // Lines and blocks cross the boundaries of reads, and the sample determines the size of the
    // buckets that stay in memory.
    let slack_bytes = data_bytes / 10 + (1 << 20);
    for phase in phases {
        let Some(plan) = &phase.predicted else {
            let may = ["prepare", "sample", "publish"];
            assert!(
                may.contains(&phase.name),
                "{what}: {phase:?} is not planned"
            );
            continue;
        };
        let moved = [
            (phase.read_bytes, plan.read_bytes),
            (phase.written_bytes, plan.written_bytes),
        ];
        for (got, planned) in moved {
            let planned = planned.bytes().unwrap();
            let is_near = got.abs_diff(planned) <= slack_bytes;
            assert!(
                is_near || (may_be_less && got < planned),
                "{what}: {phase:?}"
            );
        }
    }
    let planned = phases.iter().filter(|phase| phase.predicted.is_some());
    assert!(planned.count() >= 2, "{what}: {phases:?}");
}

#[test]
fn each_phase_moves_what_was_planned_whatever_the_keys() {
    const DATA_BYTES: usize = 32 << 20;
    for values in [
        Values::Uniform,
        Values::Zipf,
        Values::Sorted,
        Values::Few(1),
    ] {
        let is_counted = matches!(values, Values::Zipf | Values::Few(_));
        for (text, memory_mib) in [("u64", 10), ("u64", 24), ("gensort", 10)] {
            let format = RecordFormat::parse_type(text).unwrap();
            let records = DATA_BYTES / format.record_bytes();
            let data = fill(&format, values, Payload::Random, 1, records);
            let phases = phases_of(&data, memory_mib, |job, inputs, output| {
                let done = sort(job, inputs, output, &format, SortOptions::default());
                done.unwrap().phases
            });
            let what = format!("sort of {values:?} {text} in {memory_mib} MiB");
            check_phases(&what, &phases, data.len() as u64, is_counted);
            let unit = Unit::Records {
                record_bytes: format.record_bytes(),
            };
            let phases = phases_of(&data, memory_mib, |job, inputs, output| {
                let options = ShuffleOptions {
                    unit,
                    seed: 1,
                    epoch: 0,
                    replace: false,
                };
                shuffle(job, inputs, output, options).unwrap().phases
            });
            let what = format!("shuffle of {values:?} {text} in {memory_mib} MiB");
            check_phases(&what, &phases, data.len() as u64, false);
        }
        let format = RecordFormat::parse_type("u64").unwrap();
        let numbers = fill(&format, values, Payload::Random, 1, DATA_BYTES / 48);
        let lines = numbers.chunks_exact(8).map(|number| {
            let number = u64::from_le_bytes(number.try_into().unwrap());
            format!("{number:020} some words behind it\n")
        });
        let text: String = lines.collect();
        for memory_mib in [10, 24] {
            let phases = phases_of(text.as_bytes(), memory_mib, |job, inputs, output| {
                let options = LineSortOptions::default();
                let done = sort_lines(job, inputs, output, &ByteOrder, options);
                done.unwrap().phases
            });
            let what = format!("sort of {values:?} lines in {memory_mib} MiB");
            check_phases(&what, &phases, text.len() as u64, is_counted);
        }
    }
}

#[test]
fn buckets_of_lines_that_are_split_are_sampled_from_few_of_their_segments() {
    let format = RecordFormat::parse_type("u64").unwrap();
    for values in [Values::Uniform, Values::Sorted] {
        let numbers = fill(&format, values, Payload::Random, 1, 3 << 19);
        let lines = numbers.chunks_exact(8).map(|number| {
            let number = u64::from_le_bytes(number.try_into().unwrap());
            format!("{number:020} some words behind it\n")
        });
        let text: String = lines.collect();
        let phases = phases_of(text.as_bytes(), 6, |job, inputs, output| {
            let options = LineSortOptions::default();
            let done = sort_lines(job, inputs, output, &ByteOrder, options).unwrap();
            assert_eq!(done.plan.unwrap().distributions, 2);
            done.phases
        });
        let phase = phases.iter().find(|phase| phase.name == "distribute");
        let phase = phase.unwrap();
        let planned = phase
            .predicted
            .as_ref()
            .unwrap()
            .read_bytes
            .bytes()
            .unwrap();
        let more = phase.read_bytes.saturating_sub(planned) as f64 / text.len() as f64;
        assert!(
            more < 0.6,
            "{values:?}: {more:.2} of the data are read again"
        );
    }
}
