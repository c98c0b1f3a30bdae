//! Scans, selections, buckets, groups and gathers.
//!
//! Contract: every expected result comes from the standard library; nothing stays reserved.

use std::collections::{BTreeMap, BTreeSet};

use outcore::IoMode;
use outcore::Kind;
use outcore::job::Job;
use outcore::key::RecordFormat;
use outcore::key::expr::Schema;
use outcore::primitives::group::{Grouping, group, plan_group};
use outcore::primitives::tables::{
    ScanOp, distribute_table, find_table, histogram_table, scan_table, top_by_sort, top_table,
    top_table_for,
};
use outcore::primitives::{
    BucketFiles, GroupedBy, Inclusion, Scalar, Sequence, Table, collect, count_by, distribute,
    find_if, first, gather, histogram, partition, read, scan, tabulate, top_k, top_k_each, unique,
};
use outcore::{Input, Output};
use outcore_io::port::ScratchDrive;
use proptest::prelude::*;
use proptest::sample::Index;

use super::kit::{bytes_of, file, numbers, options, piped, put, ram_job};

fn prefixes(items: &[u64], inclusion: Inclusion) -> Vec<u64> {
    let mut so_far = 0_u64;
    let step = |x: &u64| {
        let before = so_far;
        so_far = so_far.wrapping_mul(3).wrapping_add(*x);
        match inclusion {
            Inclusion::Inclusive => so_far,
            Inclusion::Exclusive => before,
        }
    };
    items.iter().map(step).collect()
}

#[test]
fn the_largest_that_do_not_fit_the_memory_are_refused_by_name() {
    let (device, job) = ram_job(2, 8000, 1);
    let items = numbers(1000, 1);
    let inputs = put(&device, "in", &bytes_of(&items), 8, &[], 0);
    let twice = read::<u64>(&inputs).flat_map(|x| [x, x]);
    for k in [10_000_000, usize::MAX] {
        // The input has no more items.
        let (all, _) = top_k(&job, &read::<u64>(&inputs), k, u64::cmp).unwrap();
        assert!(all.is_sorted_by(|a, b| a >= b) && all.len() == items.len());
        // The number of a function's results is unknown.
        let error = top_k(&job, &twice, k, u64::cmp).unwrap_err();
        assert_eq!(error.kind(), Kind::Memory);
        let text = error.to_string();
        assert!(text.contains(&format!("the {k} largest items")), "{text}");
        assert!(text.contains("sort them on the drives"), "{text}");
    }
    assert_eq!(job.budget.used_bytes(), 0);
}

#[test]
fn more_of_the_largest_than_one_pass_can_select_take_several() {
    let (_, job) = ram_job(3, 3000, 1);
    let items = tabulate(300_000, |i| {
        (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52, i)
    });
    let compare = |a: &(u64, u64), b: &(u64, u64)| a.0.cmp(&b.0);
    let mut sorted: Vec<_> = (0..300_000_u64)
        .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52, i))
        .collect();
    sorted.sort_by(|a, b| compare(b, a));
    for k in [0, 1, 50_000, 299_999, u64::MAX] {
        let mut found = Vec::new();
        let each = |item| {
            found.push(item);
            Ok(())
        };
        let summary = top_k_each(&job, &items, k, compare, each).unwrap();
        let count = k.min(300_000) as usize;
        assert!(found == sorted[..count], "{k}: equal ones in order");
        assert_eq!(summary.records, count as u64);
        assert_eq!(summary.passes > 1, count >= 50_000, "{summary:?}");
    }
    // The result fits in memory, but not twice per thread.
    let (found, summary) = top_k(&job, &items, 20_000, compare).unwrap();
    assert!(
        found == sorted[..20_000] && summary.passes > 1,
        "{summary:?}"
    );
    let seen = std::sync::atomic::AtomicU64::new(0);
    let stops = |_| match seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        99 => Err(outcore::Error::usage("take", "that is enough")),
        _ => Ok(()),
    };
    let error = top_k_each(&job, &items, u64::MAX, compare, stops).unwrap_err();
    assert!(error.to_string().contains("that is enough"), "{error}");
    assert_eq!(job.budget.used_bytes(), 0);
}

proptest! {
    #![proptest_config(crate::support::often::tried(16))]

    #[test]
    fn a_scan_is_what_a_loop_gives_after_filters_and_through_pipes_too(
        n in prop_oneof![Just(0usize), Just(1), 8191usize..8194, 0usize..300_000],
        threads in 1usize..4, memory_kib in 6000u64..30_000, seed: u64, is_inclusive: bool,
        cuts in prop::collection::vec(any::<Index>(), 0..4),
    ) {
        let inclusion = if is_inclusive { Inclusion::Inclusive } else { Inclusion::Exclusive };
        let (device, job) = ram_job(threads, memory_kib, seed);
        let items = numbers(n, seed);
        let inputs = put(&device, "in", &bytes_of(&items), 8, &cuts, 0);
        let horner = |a: u64, b: u64| a.wrapping_mul(3).wrapping_add(b);
        let whole = read::<u64>(&inputs);
        scan(&job, &whole, 0, horner, inclusion, &file("/d0/all"), false).unwrap();
        prop_assert!(device.get("/d0/all") == Some(bytes_of(&prefixes(&items, inclusion))));
        let odd: Vec<u64> = items.iter().copied().filter(|x| x % 2 == 1).collect();
        let through = piped(|pipe| {
            let odd = read::<u64>(&inputs).filter(|x| x % 2 == 1);
            scan(&job, &odd, 0, horner, inclusion, pipe, false).unwrap();
        });
        prop_assert!(through == bytes_of(&prefixes(&odd, inclusion)));
        let u64s = RecordFormat::parse_type("u64").unwrap();
        let table = Table::read(&inputs, &u64s, Schema::of_format(&u64s)).map("x % 1000").unwrap();
        scan_table(&job, &table, ScanOp::Sum, Inclusion::Inclusive, &file("/d1/sums"), false).unwrap();
        let mut sum = 0;
        let sums: Vec<u64> = items.iter().map(|x| { sum += x % 1000; sum }).collect();
        prop_assert!(device.get("/d1/sums") == Some(bytes_of(&sums)));
        prop_assert_eq!(job.budget.used_bytes(), 0);
    }

    #[test]
    fn selections_are_those_of_a_sorted_vector(
        n in 0usize..200_000, threads in 1usize..4, seed: u64, k in 1usize..3000,
        wanted in any::<Index>(), cuts in prop::collection::vec(any::<Index>(), 0..4),
    ) {
        let (device, job) = ram_job(threads, 30_000, seed);
        let items = numbers(n, seed);
        let inputs = put(&device, "in", &bytes_of(&items), 8, &cuts, 0);
        let u64s = RecordFormat::parse_type("u64").unwrap();
        let table = Table::read(&inputs, &u64s, Schema::of_format(&u64s));
        let mut sorted = items.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted.truncate(k);
        prop_assert_eq!(&top_k(&job, &read::<u64>(&inputs), k, u64::cmp).unwrap().0, &sorted);
        let least: Vec<Scalar> = {
            let mut sorted = items.clone();
            sorted.sort_unstable();
            sorted.iter().take(k).map(|x| Scalar::Int(i128::from(*x))).collect()
        };
        prop_assert_eq!(top_table(&job, &table, k, true).unwrap().0, least);
        let value = items.get(wanted.index(n.max(1))).copied();
        let position = value.map(|value| items.iter().position(|x| *x == value).unwrap() as u64);
        let found = find_if(&job, read::<u64>(&inputs), |x| Some(*x) == value).unwrap();
        prop_assert_eq!(found, position.zip(value));
        let condition = format!("x == {}", value.unwrap_or(1));
        prop_assert_eq!(find_table(&job, &table, &condition).unwrap().0, position);
        let odd = first(&job, &read::<u64>(&inputs).filter(|x| x % 7 == 3)).unwrap().0;
        prop_assert_eq!(odd, items.iter().copied().find(|x| x % 7 == 3));
        let (counts, _) = histogram(&job, &read::<u64>(&inputs), 9, |x| (x % 10 < 9).then_some((x % 10) as usize)).unwrap();
        let expected: Vec<u64> = (0..9).map(|bin| items.iter().filter(|x| *x % 10 == bin).count() as u64).collect();
        prop_assert_eq!(counts, expected);
        let small = table.map("x % 100").unwrap();
        let (found, _) = histogram_table(&job, &small, 10, Some((0.0, 100.0))).unwrap();
        let expected: Vec<u64> = (0..10).map(|bin| items.iter().filter(|x| *x % 100 / 10 == bin).count() as u64).collect();
        prop_assert_eq!(found.counts, expected);
        let (_, once) = histogram_table(&job, &table, 10, Some((0.0, 1.0))).unwrap();
        if n > 0 {
            // A separate pass finds the range.
            let (found, twice) = histogram_table(&job, &table, 10, None).unwrap();
            prop_assert_eq!(found.counts.iter().sum::<u64>(), n as u64);
            prop_assert_eq!((once.passes, twice.passes), (1, 2));
            prop_assert_eq!(twice.read_bytes, 2 * once.read_bytes);
        }
    }

    #[test]
    fn gathered_elements_are_those_asked_for_in_the_order_asked(
        n in 1usize..200_000, wanted in prop::collection::vec(any::<Index>(), 0..3000), record_bytes in prop_oneof![Just(8usize), Just(13), Just(5000)],
        threads in 1usize..4, seed: u64, cuts in prop::collection::vec(any::<Index>(), 0..4), header in 0usize..300,
    ) {
        let n = (n / record_bytes).max(1);
        let (device, job) = ram_job(threads, 40_000, seed);
        let bytes: Vec<u8> = numbers(n * record_bytes / 8 + 1, seed).iter().flat_map(|x| x.to_le_bytes()).take(n * record_bytes).collect();
        let inputs = put(&device, "in", &bytes, record_bytes, &cuts, header);
        let positions: Vec<u64> = wanted.iter().map(|index| index.index(n) as u64).collect();
        let (found, summary) = gather(&job, &inputs, record_bytes, &positions).unwrap();
        let expected: Vec<u8> = positions.iter().flat_map(|p| {
            let at = *p as usize * record_bytes;
            bytes[at..at + record_bytes].to_vec()
        }).collect();
        prop_assert!(found == expected);
        prop_assert_eq!(summary.records, positions.len() as u64);
        prop_assert_eq!(job.budget.used_bytes(), 0);
        let behind = gather(&job, &inputs, record_bytes, &[0, n as u64]).unwrap_err();
        prop_assert_eq!(behind.kind(), Kind::Usage);
    }
}

#[test]
fn long_elements_are_gathered_few_at_a_time_where_memory_is_short() {
    let (device, job) = ram_job(1, 6_500, 1);
    let record_bytes = 64 << 10;
    let bytes: Vec<u8> = numbers(100 * record_bytes / 8, 3)
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let inputs = put(&device, "in", &bytes, record_bytes, &[], 100);
    let positions: Vec<u64> = (0..60).map(|number| number * 7 % 100).collect();
    let (found, _) = gather(&job, &inputs, record_bytes, &positions).unwrap();
    for (element, position) in found.chunks(record_bytes).zip(positions) {
        assert!(element == &bytes[position as usize * record_bytes..][..record_bytes]);
    }
}

#[test]
fn buckets_keep_the_order_and_appear_together() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::new(options(3, 30_000), IoMode::Auto);
    let files = |name: &str, count: usize| BucketFiles {
        paths: (0..count)
            .map(|i| dir.path().join(format!("{name}-{i}")))
            .collect(),
        manifest: Some(dir.path().join(format!("{name}.outcore.json"))),
        replace: false,
        header: None,
    };
    let get = |path: &std::path::Path| -> Vec<u64> {
        bytemuck::pod_collect_to_vec(&std::fs::read(path).unwrap())
    };
    let items = numbers(300_000, 3);
    std::fs::write(dir.path().join("in"), bytes_of(&items)).unwrap();
    let input = [Input::raw(dir.path().join("in"))];
    let many = files("many", 37);
    let (counts, _) = distribute(&job, &read::<u64>(&input), |x| (x % 37) as usize, &many).unwrap();
    for (bucket, path) in many.paths.iter().enumerate() {
        let expected: Vec<u64> = items
            .iter()
            .copied()
            .filter(|x| x % 37 == bucket as u64)
            .collect();
        assert_eq!(counts[bucket], expected.len() as u64);
        assert!(get(path) == expected, "{bucket}");
    }
    let two = files("two", 2);
    partition(&job, &read::<u64>(&input), |x| x % 3 == 0, &two).unwrap();
    let (first, second): (Vec<u64>, Vec<u64>) = items.iter().partition(|x| *x % 3 == 0);
    assert!(get(&two.paths[0]) == first && get(&two.paths[1]) == second);
    let u64s = RecordFormat::parse_type("u64").unwrap();
    let table = Table::read(&input, &u64s, Schema::of_format(&u64s));
    let by_text = files("text", 2);
    distribute_table(&job, &table, "x % 3 != 0", &by_text).unwrap();
    assert!(get(&by_text.paths[0]) == first && get(&by_text.paths[1]) == second);
    let repeated = files("repeated", 3);
    let all = tabulate(50_000, |i| i).flat_map(|i| vec![i; (i % 40) as usize]);
    distribute(&job, &all, |x| (x % 3) as usize, &repeated).unwrap();
    let expected: Vec<u64> = (0..50_000)
        .filter(|i| i % 3 == 1)
        .flat_map(|i| vec![i; (i % 40) as usize])
        .collect();
    assert!(get(&repeated.paths[1]) == expected);
    let wrong = files("wrong", 2);
    let error = distribute(&job, &read::<u64>(&input), |x| (x % 3) as usize, &wrong).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(
        wrong.paths.iter().all(|path| !path.exists()) && !wrong.manifest.as_ref().unwrap().exists()
    );
    let hidden = std::fs::read_dir(dir.path()).unwrap();
    assert!(
        hidden
            .flatten()
            .all(|e| !e.file_name().to_string_lossy().starts_with('.'))
    );
}

#[test]
fn groups_are_the_same_by_hash_and_by_sort() {
    let (device, small) = ram_job(2, 12_000, 1);
    let large = Job::on(options(3, 100_000), small.device.clone());
    let u64s = RecordFormat::parse_type("u64").unwrap();
    let items: Vec<u64> = numbers(400_000, 9).iter().map(|x| x % 300_000).collect();
    device.put("/d0/in", bytes_of(&items));
    let input = [Input::raw("/d0/in")];
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for item in &items {
        *counts.entry(*item).or_default() += 1;
    }
    let expected: Vec<u64> = counts
        .iter()
        .flat_map(|(item, count)| [*item, *count])
        .collect();
    let distinct: Vec<u64> = counts.keys().copied().collect();
    for (job, by) in [(&large, GroupedBy::Hash), (&small, GroupedBy::Sort)] {
        let output = file("/d0/counts");
        let done = count_by(job, &read::<u64>(&input), &u64s, &output, true).unwrap();
        assert_eq!((done.by, done.pass.records), (by, counts.len() as u64));
        assert!(
            device.get("/d0/counts") == Some(bytes_of(&expected)),
            "{by:?}"
        );
        let output = file("/d0/unique");
        unique(job, &read::<u64>(&input), &u64s, &output, true).unwrap();
        assert!(
            device.get("/d0/unique") == Some(bytes_of(&distinct)),
            "{by:?}"
        );
        assert_eq!(job.budget.used_bytes(), 0);
    }
}

/// If memory is small, a plan uses fewer threads than allowed, and so must the pass that supplies
/// its items.
#[test]
fn more_threads_than_the_memory_has_buffers_for_still_group_items() {
    let u64s = RecordFormat::parse_type("u64").unwrap();
    for (threads, memory_kib) in [(3, 6 << 10), (4, 8 << 10), (6, 10 << 10), (12, 10 << 10)] {
        let (device, job) = ram_job(threads, memory_kib, 1);
        let mut items = numbers(1_500_000, 9);
        device.put("/d0/in", bytes_of(&items));
        let input = [Input::raw("/d0/in")];
        let what = format!("{threads} threads in {memory_kib} KiB");
        let output = file("/d0/unique");
        let done = unique(&job, &read::<u64>(&input), &u64s, &output, true).expect(&what);
        assert_eq!(done.by, GroupedBy::Sort, "{what}");
        items.sort_unstable();
        items.dedup();
        assert!(device.get("/d0/unique") == Some(bytes_of(&items)), "{what}");
        let output = file("/d0/counts");
        let done = count_by(&job, &read::<u64>(&input), &u64s, &output, true).expect(&what);
        assert_eq!(done.pass.records, items.len() as u64, "{what}");
    }
}

#[test]
fn a_plan_says_from_a_sample_which_way_items_are_counted() {
    let u64s = RecordFormat::parse_type("u64").unwrap();
    for (distinct, memory_kib, by) in [
        (1000, 4_000, GroupedBy::Hash),
        (10_000, 12_000, GroupedBy::Hash),
        (100_000, 12_000, GroupedBy::Sort),
        (u64::MAX, 12_000, GroupedBy::Sort),
        (u64::MAX, 100_000, GroupedBy::Hash),
    ] {
        let (device, job) = ram_job(2, memory_kib, 1);
        let items: Vec<u64> = numbers(400_000, 9)
            .iter()
            .map(|x| (x >> 20) % distinct)
            .collect();
        let inputs = put(&device, "in", &bytes_of(&items), 8, &[], 64);
        let table = Table::read(&inputs, &u64s, Schema::of_format(&u64s));
        let table = table.filter("x % 4 != 0").unwrap();
        let plan = plan_group(&job, &table, &u64s, Grouping::Unique, "unique").unwrap();
        assert_eq!(plan.by, by, "{plan}");
        let expected: BTreeSet<u64> = items.iter().copied().filter(|x| x % 4 != 0).collect();
        let (low, high) = (expected.len() as u64 / 2, expected.len() as u64 * 2);
        assert!(
            (low..=high).contains(&plan.distinct),
            "{plan}: {}",
            expected.len()
        );
        assert!((250_000..350_000).contains(&plan.items), "{plan}");
        let output = file("/d1/unique");
        let done = group(&job, &table, &u64s, Grouping::Unique, &output, false).unwrap();
        assert_eq!(done.by, by, "what was planned is done");
        let expected: Vec<u64> = expected.into_iter().collect();
        assert!(device.get("/d1/unique") == Some(bytes_of(&expected)));
    }
}

#[test]
fn more_of_the_largest_than_memory_holds_come_from_a_sort() {
    let (device, mut job) = ram_job(2, 5_000, 1);
    let f64s = RecordFormat::parse_type("f64").unwrap();
    let items: Vec<f64> = numbers(300_000, 3)
        .iter()
        .map(|x| *x as f64 - 1e12)
        .collect();
    let inputs = put(&device, "in", bytemuck::cast_slice(&items), 8, &[], 64);
    let table = Table::read(&inputs, &f64s, Schema::of_format(&f64s));
    job.options.drives = vec![ScratchDrive::new("/d2")];
    let mut sorted = items;
    sorted.sort_unstable_by(f64::total_cmp);
    // The memory for the caller's own results counts.
    let count_of = |more_bytes| {
        let found = top_table_for(&job, &table, 2_000, false, more_bytes);
        found.map(|(found, _)| found.len())
    };
    assert_eq!(count_of(0).unwrap(), 2_000);
    assert_eq!(count_of(2_000_000).unwrap_err().kind(), Kind::Memory);
    for (k, smallest) in [(200_000, true), (200_000, false), (1 << 40, false)] {
        let mut found = Vec::new();
        let fits = top_table(&job, &table, k, smallest).map_err(|error| error.kind());
        assert_eq!(fits.unwrap_err(), Kind::Memory);
        let done = top_by_sort(&job, &table, k as u64, smallest, &mut |value| {
            found.push(value);
            Ok(())
        });
        let count = k.min(sorted.len());
        let expected: Vec<Scalar> = match smallest {
            true => sorted
                .iter()
                .take(count)
                .map(|x| Scalar::Float(*x))
                .collect(),
            false => sorted
                .iter()
                .rev()
                .take(count)
                .map(|x| Scalar::Float(*x))
                .collect(),
        };
        assert!(found == expected, "{k}");
        let done = done.unwrap();
        assert_eq!(done.records, count as u64);
    }
    assert_eq!(device.list().len(), inputs.len());
    assert_eq!(job.budget.used_bytes(), 0);
}

#[test]
fn shards_are_scanned_from_what_lies_before_them() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::new(options(2, 30_000), IoMode::Auto);
    let paths: Vec<_> = (0..4)
        .map(|i| dir.path().join(format!("part-{i}")))
        .collect();
    let output = Output::Shards {
        paths: paths.clone(),
        manifest: dir.path().join("parts.outcore.json"),
    };
    let ones = tabulate(500_001, |i| i % 5);
    let done = scan(
        &job,
        &ones,
        0,
        |a, b| a + b,
        Inclusion::Inclusive,
        &output,
        false,
    )
    .unwrap();
    assert_eq!(done.passes, 1);
    let all: Vec<u8> = paths
        .iter()
        .flat_map(|path| std::fs::read(path).unwrap())
        .collect();
    let mut sum = 0;
    let expected: Vec<u64> = (0..500_001_u64)
        .map(|i| {
            sum += i % 5;
            sum
        })
        .collect();
    assert!(all == bytes_of(&expected));
}

#[test]
fn collected_items_are_in_order_and_within_the_memory() {
    let (_, job) = ram_job(3, 20_000, 1);
    let squares = tabulate(300_000, |i| i * i).filter(|x| x % 3 == 1);
    let expected: Vec<u64> = (0..300_000).map(|i| i * i).filter(|x| x % 3 == 1).collect();
    assert!(collect(&job, &squares).unwrap() == expected);
    let error = collect(&job, &tabulate(10_000_000, |i| i)).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory);
    assert_eq!(job.budget.used_bytes(), 0);
}
