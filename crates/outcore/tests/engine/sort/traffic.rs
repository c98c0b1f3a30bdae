//! What a plan predicts is about what happens, whatever the keys.
//!
//! Contract: bytes written and scratch in use stay near the plan for every pattern of keys, with
//! payload too: frequent values, common prefixes and outliers cost no further pass over the data.

use outcore::Kind;
use outcore::job::Job;
use outcore::key::RecordFormat;
use outcore::sort::SortSummary;

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
    // the worst. A pass more over all data would be 1.5 times what is written, or 1.33 times after
    // two distributions.
    let facts =
        format!("{what}: written {written:.2} and read {read:.2} of the prediction: {plan}");
    let most = if plan.levels > 1 { 1.3 } else { 1.42 };
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
            assert_eq!(summary.plan.as_ref().map(|plan| plan.levels), Some(0));
            // The edges of blocks are written whole.
            let most = output.len() as u64 + (8 << 10);
            assert!(summary.written_bytes <= most, "{values:?} {summary:?}");
        }
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
