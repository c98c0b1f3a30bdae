//! The plan keeps its guarantees over the whole range of sizes.
//!
//! Contract: a plan fits in its memory, or the error names a memory size for which one does; never
//! a panic.

use outcore::Kind;
use outcore::job::{ComputeCosts, DriveRates, JobSize, Layout};
use outcore::sort::plan::{SortPlan, SortSize, plan_sort};
use proptest::prelude::*;

/// A number whose magnitude is uniformly distributed.
fn log_uniform(low: u64, high: u64) -> impl Strategy<Value = u64> {
    ((low as f64).ln()..(high as f64).ln()).prop_map(move |x| (x.exp() as u64).clamp(low, high))
}

fn any_size() -> impl Strategy<Value = SortSize> {
    (
        log_uniform(1, 100_000_000_000_000),
        prop_oneof![
            prop::sample::select(vec![(4usize, true), (8, true), (16, true)]),
            log_uniform(1, 1 << 20).prop_map(|bytes| (bytes as usize, false)),
        ],
        any::<bool>(),
        log_uniform(16 << 20, 1 << 40),
        log_uniform(1, 128),
        log_uniform(1, 64),
    )
        .prop_map(
            |(data, (element, is_scalar), is_ordered, memory, threads, drives)| SortSize {
                job: JobSize {
                    data_bytes: data.next_multiple_of(element as u64),
                    memory_bytes: memory,
                    held_bytes: 0,
                    threads: threads as usize,
                    drive_count: drives as usize,
                    layout: Layout::even(DriveRates::ASSUMED, drives as usize).into(),
                    costs: ComputeCosts::ASSUMED,
                },
                element_bytes: element,
                is_scalar,
                is_ordered: is_ordered && !is_scalar,
            },
        )
}

/// Reservations of the two phases, computed from the plan's figures.
fn reserved_bytes(plan: &SortPlan) -> u64 {
    let size = &plan.size;
    let segments = (plan.segment_slots() * plan.segment_bytes) as u64;
    let reads = (size.threads * plan.reads_in_flight * plan.read_block_bytes) as u64;
    let areas = plan.areas * plan.area_bytes() + plan.chunks * plan.chunk_bytes;
    let sorting = size.sort_space_bytes(plan.bucket_bytes_max);
    segments + reads.max(size.threads as u64 * (areas as u64 + sorting))
}

fn check(plan: &SortPlan) {
    let size = &plan.size;
    assert!(reserved_bytes(plan) <= size.memory_bytes, "{plan:?}");
    assert!(plan.bucket_count >= 1 && plan.bucket_count <= 16384);
    assert!(plan.segment_payload_bytes >= size.element_bytes);
    assert!(
        plan.segment_payload_bytes
            .is_multiple_of(size.element_bytes)
    );
    assert!(plan.segment_payload_bytes <= plan.segment_bytes);
    assert!(plan.segment_bytes.is_multiple_of(4096));
    assert!(plan.bucket_bytes_max >= size.element_bytes);
    assert!(
        plan.bucket_bytes_max < 1 << 31,
        "offsets in a bucket have 32 bits"
    );
    assert!(plan.reads_in_flight >= 1 && plan.writes_in_flight >= 1 && plan.areas >= 2);
    assert!(plan.predicted_read_bytes >= size.data_bytes);
    assert!(plan.predicted_written_bytes >= size.data_bytes);
    let passes = u64::from(plan.distributions) + 1;
    assert!(plan.predicted_written_bytes <= passes * size.data_bytes + 1);
    assert!(plan.distributions > 0 || plan.scratch_bytes == 0);
    assert!(plan.predicted_seconds.is_finite() && plan.predicted_seconds >= 0.0);
    assert!(!plan.to_string().is_empty());
}

#[test]
fn huge_data_get_the_passes_that_they_need() {
    let plan = |data_bytes, memory_bytes| {
        plan_sort(SortSize {
            job: JobSize {
                data_bytes,
                memory_bytes,
                held_bytes: 0,
                threads: 64,
                drive_count: 30,
                layout: Layout::even(DriveRates::ASSUMED, 30).into(),
                costs: ComputeCosts::ASSUMED,
            },
            element_bytes: 8,
            is_scalar: true,
            is_ordered: false,
        })
        .unwrap()
    };
    for (data, memory) in [
        (10 << 40, 256 << 30),
        (4 << 40, 128 << 30),
        (100 << 40, 1 << 40),
    ] {
        let plan = plan(data, memory);
        let leaves = (plan.bucket_count as f64).powf(f64::from(plan.distributions));
        assert!(
            data as f64 / leaves < plan.bucket_bytes_max as f64,
            "{plan}"
        );
    }
    // PALID's 8 TB take one distribution.
    assert_eq!(plan(8_000_000_000_000, 300_000_000_000).distributions, 1);
    assert!(plan(1 << 40, 256 << 30).bucket_count <= 2048);
}

/// The minimum in an error, as a user would type it.
fn named_minimum(text: &str) -> u64 {
    let (_, rest) = text.split_once("--memory ").unwrap();
    outcore_io::units::parse_bytes(rest.trim()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_fits_its_memory_or_the_error_names_one_that_does(size in any_size()) {
        match plan_sort(size.clone()) {
            Ok(plan) => check(&plan),
            Err(error) => {
                prop_assert_eq!(error.kind(), Kind::Memory);
                let least = named_minimum(&error.to_string());
                prop_assert!(least > size.memory_bytes, "{}", error);
                let job = JobSize { memory_bytes: least, ..size.job.clone() };
                let plan = plan_sort(SortSize { job, ..size.clone() });
                prop_assert!(plan.is_ok(), "{} is named and too little: {:?}", least, size);
            }
        }
    }
}
