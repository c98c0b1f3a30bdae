//! Items by key, by index, in another arrangement: against the standard library.
//!
//! Contract: results equal those of loops over vectors; budgets are unused when jobs end.

use std::collections::BTreeMap;
use std::sync::Mutex;

use outcore::Input;
use outcore::key::RecordFormat;
use outcore::primitives::{
    BucketFiles, Sequence, collect, distribute_indexed, for_each_batch, gather_ranges,
    group_by_key, histogram_by_index, map_files_to, merge, read, reduce_by_index, reduce_by_key,
    reverse, segmented_reduce, windows,
};
use outcore::sort::SortOptions;
use outcore::{Error, Kind};
use outcore_io::units;
use proptest::prelude::*;
use proptest::sample::Index;

use super::kit::{bytes_of, file, numbers, piped, put, ram_job};

fn u64s(bytes: &[u8]) -> Vec<u64> {
    bytemuck::pod_collect_to_vec(bytes)
}

fn pairs(items: &[u64], keys: u64) -> Vec<[u64; 2]> {
    items.iter().map(|x| [x % keys, x >> 7]).collect()
}

fn pair_format() -> RecordFormat {
    RecordFormat::parse_record(16, &["0:8:u64"]).unwrap()
}

proptest! {
    #![proptest_config(crate::support::often::tried(16))]

    #[test]
    fn the_last_item_comes_first_and_windows_have_all_neighbours(
        count in prop_oneof![0usize..20, 0usize..60_000], cuts: [Index; 3],
        header in prop_oneof![Just(0usize), Just(4096), 1usize..5000],
        threads in 1usize..5, memory_kib in 9000u64..30_000, seed: u64,
    ) {
        let (device, job) = ram_job(threads, memory_kib, seed);
        let items = numbers(count, seed);
        let inputs = put(&device, "in", &bytes_of(&items), 8, &cuts, header);
        let all = read::<u64>(&inputs);
        reverse(&job, &all, &file("/d1/out"), false).unwrap();
        let mut expected = items.clone();
        expected.reverse();
        prop_assert_eq!(&u64s(&device.get("/d1/out").unwrap()), &expected);
        let bytes = piped(|output| drop(reverse(&job, &all, output, false).unwrap()));
        prop_assert_eq!(&u64s(&bytes), &expected);

        let found = collect(&job, &windows::<u64, 3>(&job, &inputs).unwrap()).unwrap();
        let expected: Vec<[u64; 3]> =
            items.windows(3).map(|w| [w[0], w[1], w[2]]).collect();
        prop_assert_eq!(found, expected);

        let found = collect(&job, &all.enumerate()).unwrap();
        let expected: Vec<(u64, u64)> = (0..).zip(items).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(job.budget.used_bytes(), 0);
    }

    #[test]
    fn files_in_order_are_merged_to_one(
        lens in prop::collection::vec(prop_oneof![Just(0usize), 0usize..20_000], 0..9),
        kind in prop::sample::select(vec!["u64", "i64", "f64", "u64be", "16/0:8:u64"]),
        descending: bool, seed: u64, memory_kib in 12_000u64..40_000,
    ) {
        let (device, job) = ram_job(2, memory_kib, seed);
        let format = RecordFormat::parse_type(kind).unwrap();
        let options = SortOptions { descending, ..SortOptions::default() };
        let mut runs = Vec::new();
        for (number, len) in lens.iter().enumerate() {
            let mut bytes = bytes_of(&numbers(*len / 2 * 2, seed ^ number as u64));
            if kind == "f64" {
                let small = u64s(&bytes).into_iter().map(|x| (x % 999) as f64 - 500.0);
                bytes = bytemuck::pod_collect_to_vec(&small.collect::<Vec<f64>>());
            }
            let (from, to) = (format!("/d{}/raw{number}", number % 2), format!("/d1/run{number}"));
            device.put(&from, bytes);
            let raw = [Input::raw(&from)];
            outcore::sort::sort(&job, &raw, file(&to), &format, options).unwrap();
            runs.push(Input::raw(&to));
        }
        let raw: Vec<Input> =
            (0..lens.len()).map(|n| Input::raw(format!("/d{}/raw{n}", n % 2))).collect();
        outcore::sort::sort(&job, &raw, file("/d0/sorted"), &format, options).unwrap();
        let done = merge(&job, &runs, &format, options, &file("/d0/merged")).unwrap();
        let merged = device.get("/d0/merged").unwrap();
        prop_assert!(merged == device.get("/d0/sorted").unwrap());
        prop_assert_eq!(done.records * format.record_bytes() as u64, merged.len() as u64);
        prop_assert_eq!(done.passes, 1);
        let bytes = piped(|out| drop(merge(&job, &runs, &format, options, out).unwrap()));
        prop_assert!(bytes == merged);
        prop_assert_eq!(job.budget.used_bytes(), 0);
    }

    #[test]
    fn a_merge_names_the_first_record_of_a_file_that_is_out_of_order(
        len in 2usize..200_000, at: Index, descending: bool, seed: u64,
        kind in prop::sample::select(vec!["u64", "f64", "16/0:8:u64,8:8:u64:desc"]),
    ) {
        let (device, job) = ram_job(2, 20_000, seed);
        let format = RecordFormat::parse_type(kind).unwrap();
        let options = SortOptions { descending, ..SortOptions::default() };
        // Distinct numbers, all of which are small floats.
        let mut sorted: Vec<u64> = (0..len as u64 / 2 * 2).map(|n| n << 20).collect();
        if descending {
            sorted.reverse();
        }
        let words = |numbers: &[u64]| match kind {
            "f64" => bytemuck::pod_collect_to_vec(&numbers.iter().map(|n| *n as f64).collect::<Vec<_>>()),
            "u64" => bytes_of(numbers),
            _ => bytes_of(&numbers.iter().flat_map(|n| [*n, 7]).collect::<Vec<_>>()),
        };
        device.put("/d0/sorted", words(&sorted));
        let at = at.index(sorted.len() - 1);
        sorted.swap(at, at + 1);
        device.put("/d1/wrong", words(&sorted));
        let runs = [Input::raw("/d0/sorted"), Input::raw("/d1/wrong")];
        let error = merge(&job, &runs, &format, options, &file("/d0/merged")).unwrap_err();
        prop_assert_eq!(error.file_path(), Some(std::path::Path::new("/d1/wrong")));
        let wanted = format!("record {} comes before record", units::count(at as u64 + 2));
        prop_assert!(error.cause().starts_with(&wanted), "{}", error);
        prop_assert!(device.get("/d0/merged").is_none());
        prop_assert_eq!(job.budget.used_bytes(), 0);
    }

    #[test]
    fn items_of_one_key_are_reduced_and_grouped(
        count in prop_oneof![0usize..20, 0usize..50_000], keys in prop_oneof![1u64..5, 1u64..100_000],
        cuts: [Index; 2], threads in 1usize..4, seed: u64,
    ) {
        let (device, mut job) = ram_job(threads, 20_000, seed);
        job.options.drives = vec![outcore::job::ScratchDrive::new("/d0")];
        let items = pairs(&numbers(count, seed), keys);
        let bytes: Vec<u8> = bytemuck::pod_collect_to_vec(&items);
        let inputs = put(&device, "in", &bytes, 16, &cuts, 0);
        let all = read::<[u64; 2]>(&inputs);
        let mut groups: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for [key, value] in &items {
            groups.entry(*key).or_default().push(*value);
        }
        // The items of one key are in the order of their bytes.
        groups.values_mut().for_each(|values| values.sort_unstable_by_key(|x| x.to_le_bytes()));

        let sum = |a: [u64; 2], b: [u64; 2]| [a[0], a[1].wrapping_add(b[1])];
        let done = reduce_by_key(&job, &all, &pair_format(), sum, &file("/d1/sums"), false).unwrap();
        let found: Vec<[u64; 2]> =
            bytemuck::pod_collect_to_vec(&device.get("/d1/sums").unwrap());
        let total = |values: &Vec<u64>| values.iter().fold(0u64, |a, b| a.wrapping_add(*b));
        let expected: Vec<[u64; 2]> = groups.iter().map(|(k, v)| [*k, total(v)]).collect();
        prop_assert_eq!(done.records, expected.len() as u64);
        prop_assert_eq!(found, expected);

        let mut found = Vec::new();
        group_by_key(&job, &all, &pair_format(), |group| {
            let values = group.iter().map(|pair| pair[1]).collect::<Vec<u64>>();
            found.push((group[0][0], values));
            Ok(())
        }).unwrap();
        prop_assert_eq!(found, groups.into_iter().collect::<Vec<_>>());

        segmented_reduce(&job, &all, |a, b| a[0] == b[0], sum, &file("/d1/segments"), false).unwrap();
        let found: Vec<[u64; 2]> =
            bytemuck::pod_collect_to_vec(&device.get("/d1/segments").unwrap());
        let expected: Vec<[u64; 2]> = items
            .chunk_by(|a, b| a[0] == b[0])
            .map(|run| run.iter().copied().reduce(sum).unwrap())
            .collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(job.budget.used_bytes(), 0);
    }

    #[test]
    fn values_are_reduced_by_their_index_in_tables_or_in_stripes(
        count in 0usize..60_000, places in prop_oneof![1usize..70, Just(300_000usize)],
        threads in 1usize..5, seed: u64,
    ) {
        let (device, job) = ram_job(threads, 16_000, seed);
        let items = numbers(count, seed);
        let inputs = put(&device, "in", &bytes_of(&items), 8, &[], 0);
        let place = |x: u64| (x as usize) % places;
        let all = read::<u64>(&inputs).map(|x| (place(x), x));
        let (found, _) = reduce_by_index(&job, &all, places, 0, u64::wrapping_add).unwrap();
        let mut expected = vec![0u64; places];
        let mut counts = vec![0u64; places];
        for x in &items {
            expected[place(*x)] = expected[place(*x)].wrapping_add(*x);
            counts[place(*x)] += 1;
        }
        prop_assert_eq!(found, expected);
        let indices = read::<u64>(&inputs).map(place);
        prop_assert_eq!(histogram_by_index(&job, indices, places).unwrap().0, counts);
        if count > 0 {
            let all = read::<u64>(&inputs).map(|x| (place(x) + places, 1));
            let error = reduce_by_index(&job, &all, places, 0, |a, b| a + b).unwrap_err();
            prop_assert_eq!(error.kind(), Kind::Usage);
        }
        prop_assert_eq!(job.budget.used_bytes(), 0);
    }

    #[test]
    fn every_batch_is_seen_once_with_the_state_of_its_thread(
        count in 0usize..60_000, times in 0usize..4, threads in 1usize..5, seed: u64,
    ) {
        let (device, job) = ram_job(threads, 16_000, seed);
        let items = numbers(count, seed);
        let inputs = put(&device, "in", &bytes_of(&items), 8, &[], 0);
        let firsts = Mutex::new(Vec::new());
        let all = read::<u64>(&inputs);
        let visit = |seen: &mut Vec<u64>, first: u64, batch: &[u64]| {
            firsts.lock().unwrap().push((first, batch.len() as u64));
            seen.extend(batch);
            Ok(())
        };
        let (states, _) = for_each_batch(&job, &all, 0, Vec::new, visit).unwrap();
        let mut found = states.concat();
        found.sort_unstable();
        let mut expected = items.clone();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        let mut firsts = firsts.into_inner().unwrap();
        firsts.sort_unstable();
        let mut next = 0;
        for (first, len) in firsts {
            prop_assert_eq!(first, next);
            next += len;
        }
        let many = read::<u64>(&inputs).flat_map(|x| std::iter::repeat_n(x, times));
        let add = |sum: &mut usize, _: u64, batch: &[u64]| {
            *sum += batch.len();
            Ok(())
        };
        let (sums, _) = for_each_batch(&job, &many, 8, || 0, add).unwrap();
        prop_assert_eq!(sums.into_iter().sum::<usize>(), count * times);
    }

    #[test]
    fn ranges_are_gathered_in_the_order_asked(
        count in 1usize..60_000, ranges in prop::collection::vec(any::<(Index, Index)>(), 0..20),
        cuts: [Index; 2], seed: u64,
    ) {
        let (device, job) = ram_job(2, 16_000, seed);
        let items = numbers(count, seed);
        let inputs = put(&device, "in", &bytes_of(&items), 8, &cuts, 100);
        let ranges: Vec<std::ops::Range<u64>> = ranges.iter().map(|(a, b)| {
            let (a, b) = (a.index(count) as u64, b.index(count) as u64);
            a.min(b)..(a.max(b)).min(a.min(b) + 3000)
        }).collect();
        let (bytes, _) = gather_ranges(&job, &inputs, 8, &ranges).unwrap();
        let expected: Vec<u64> = ranges.iter()
            .flat_map(|range| &items[range.start as usize..range.end as usize]).copied().collect();
        prop_assert_eq!(u64s(&bytes), expected);
    }

    #[test]
    fn buckets_are_worked_on_by_themselves_and_written_side_by_side(
        count in 0usize..60_000, buckets in 1usize..12, threads in 1usize..5, seed: u64,
    ) {
        let (device, job) = ram_job(threads, 40_000, seed);
        let items = numbers(count, seed);
        let inputs = put(&device, "in", &bytes_of(&items), 8, &[], 0);
        let files = |name: &str| BucketFiles {
            paths: (0..buckets).map(|b| format!("/d{}/{name}{b}", b % 3).into()).collect(),
            manifest: Some(format!("/d0/{name}.outcore.json").into()),
            replace: false,
            header: None,
        };
        let of = |index: u64, item: &u64| ((index + item) % buckets as u64) as usize;
        let scattered = files("scattered");
        distribute_indexed(&job, &read::<u64>(&inputs), of, &scattered).unwrap();
        let inputs: Vec<Input> = scattered.paths.iter().map(Input::raw).collect();
        let (lens, _) = map_files_to(&job, &inputs, &files("worked"), |file| {
            let mut items = u64s(file.bytes);
            items.sort_unstable();
            items.dedup();
            Ok(bytes_of(&items))
        }).unwrap();
        prop_assert_eq!(lens.len(), buckets);
        for (bucket, &len) in lens.iter().enumerate() {
            let chosen = (0..).zip(&items).filter(|(i, x)| of(*i, x) == bucket);
            let mut expected: Vec<u64> = chosen.map(|(_, x)| *x).collect();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(len, expected.len() as u64 * 8);
            let path = format!("/d{}/worked{bucket}", bucket % 3);
            prop_assert_eq!(u64s(&device.get(&path).unwrap()), expected);
        }
        prop_assert_eq!(job.budget.used_bytes(), 0);
    }
}

#[test]
fn a_function_from_file_to_file_that_fails_leaves_nothing() {
    let (device, job) = ram_job(2, 40_000, 1);
    device.put("/d0/a", vec![1; 5000]);
    let outputs = BucketFiles {
        paths: vec!["/d0/b".into()],
        manifest: Some("/d0/b.outcore.json".into()),
        replace: false,
        header: None,
    };
    let inputs = [Input::raw("/d0/a")];
    let fail = |_: outcore::primitives::LoadedFile<'_>| Err(Error::usage("try", "no"));
    let error = map_files_to(&job, &inputs, &outputs, fail).unwrap_err();
    assert_eq!(error.file_path(), Some("/d0/a".as_ref()));
    assert!(device.get("/d0/b").is_none());
    assert_eq!(job.budget.used_bytes(), 0);
    let none: [Input; 0] = [];
    let error = map_files_to(&job, &none, &outputs, fail).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
}

#[test]
fn a_group_that_exceeds_the_memory_is_refused_and_not_held() {
    let (device, mut job) = ram_job(1, 9000, 1);
    job.options.drives = vec![outcore::job::ScratchDrive::new("/d0")];
    let items = vec![[7u64, 1]; 1 << 20];
    device.put("/d0/in", bytemuck::pod_collect_to_vec(&items));
    let all = read::<[u64; 2]>(&[Input::raw("/d0/in")]);
    let error = group_by_key(&job, &all, &pair_format(), |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory);
    assert!(job.budget.peak_bytes() <= 9000 << 10);
}
