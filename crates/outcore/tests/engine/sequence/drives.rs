//! Sequences whose files are on one to eight drives, into one output or several.
//!
//! Contract: the output does not depend on the places of the files, on how many early results
//! memory holds, or on whether the data are read once or twice.

use std::path::PathBuf;

use outcore::primitives::{
    BucketFiles, Inclusion, Sequence, distribute, read, scan, tabulate, write,
};
use outcore::{Input, Output};
use outcore_io::drive::testing::RamDevice;
use proptest::prelude::*;

use super::kit::{bytes_of, file, file_with_header, numbers, piped, ram_job};

/// `items` in `files` files of equal length over `drives` drives, one file after another or
/// alternating.
fn spread(
    device: &RamDevice,
    items: &[u64],
    drives: usize,
    files: usize,
    by_turns: bool,
) -> Vec<Input> {
    let cut = |file: usize| items.len() * file / files;
    let place = |number: usize| {
        let drive = match by_turns {
            true => number % drives,
            false => number * drives / files,
        };
        let path = format!("/d{drive}/in-{number}");
        device.put(&path, bytes_of(&items[cut(number)..cut(number + 1)]));
        Input::raw(path)
    };
    (0..files).map(place).collect()
}

fn shards(drives: usize, count: usize, name: &str) -> (Vec<PathBuf>, Output) {
    let path = |number: usize| PathBuf::from(format!("/d{}/{name}-{number}", number % drives));
    let paths: Vec<PathBuf> = (0..count).map(path).collect();
    let output = Output::Shards {
        paths: paths.clone(),
        manifest: format!("/d0/{name}.outcore.json").into(),
    };
    (paths, output)
}

fn joined(device: &RamDevice, paths: &[PathBuf]) -> Vec<u8> {
    let parts = paths.iter().map(|path| device.get(path).unwrap());
    parts.flatten().collect()
}

/// The affine map x -> ax + b modulo 2^32 as one number, with a in the upper half.
const IDENTITY: u64 = 1 << 32;

/// First one map, then the other: associative, but not commutative.
fn after(first: u64, second: u64) -> u64 {
    let parts = |map: u64| ((map >> 32) as u32, map as u32);
    let ((a, b), (c, d)) = (parts(first), parts(second));
    let (slope, shift) = (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d));
    (u64::from(slope) << 32) | u64::from(shift)
}

fn sums(items: &[u64]) -> Vec<u64> {
    let mut sum = IDENTITY;
    let step = |item: &u64| {
        sum = after(sum, *item);
        sum
    };
    items.iter().map(step).collect()
}

proptest! {
    #![proptest_config(crate::support::often::tried(32))]

    #[test]
    fn results_are_in_order_whatever_drives_are_read_ahead(
        n in prop_oneof![Just(0usize), Just(1), 0usize..300_000, Just(262_144)],
        drives in 1usize..9, files in 1usize..20, by_turns: bool, outs in 1usize..9,
        threads in 1usize..4, memory_kib in prop_oneof![4200u64..9000, 9000u64..60_000], seed: u64,
    ) {
        let (device, job) = ram_job(threads, memory_kib, seed);
        let items = numbers(n, seed);
        let inputs = spread(&device, &items, drives, files.max(drives), by_turns);
        let all = || read::<u64>(&inputs);
        let odd: Vec<u64> = items.iter().copied().filter(|x| x % 3 == 1).collect();

        write(&job, &all().filter(|x| x % 3 == 1), &file_with_header("/d0/odd", 100), false).unwrap();
        let mut expected = vec![odd.len() as u8; 100];
        expected.extend(bytes_of(&odd));
        prop_assert!(device.get("/d0/odd") == Some(expected), "filter");
        let through = piped(|pipe| {
            write(&job, &all().filter(|x| x % 3 == 1), pipe, false).unwrap();
        });
        prop_assert!(through == bytes_of(&odd), "pipe");
        let (paths, output) = shards(drives, outs, "kept");
        write(&job, &all().filter(|x| x % 3 == 1), &output, false).unwrap();
        prop_assert!(joined(&device, &paths) == bytes_of(&odd), "filter into shards");
        let twice = |x: u64| std::iter::repeat_n(x, (x % 3) as usize);
        write(&job, &all().flat_map(twice), &file("/d0/twice"), false).unwrap();
        let expected: Vec<u64> = items.iter().copied().flat_map(twice).collect();
        prop_assert!(device.get("/d0/twice") == Some(bytes_of(&expected)), "flat_map");

        let (kind, one) = (Inclusion::Inclusive, file("/d0/sums"));
        scan(&job, &all(), IDENTITY, after, kind, &one, false).unwrap();
        prop_assert!(device.get("/d0/sums") == Some(bytes_of(&sums(&items))), "scan");
        let (paths, output) = shards(drives, outs, "sums");
        scan(&job, &all().filter(|x| x % 3 == 1), IDENTITY, after, kind, &output, false).unwrap();
        let found = joined(&device, &paths);
        prop_assert!(found == bytes_of(&sums(&odd)), "scan into shards");

        let (paths, _) = shards(drives, outs, "bucket");
        let files = BucketFiles { paths: paths.clone(), manifest: Some("/d0/buckets".into()), replace: false, header: None };
        let outs = outs as u64;
        distribute(&job, &all(), |x| (x % outs) as usize, &files).unwrap();
        for (bucket, path) in paths.iter().enumerate() {
            let expected: Vec<u64> = items.iter().copied().filter(|x| x % outs == bucket as u64).collect();
            prop_assert!(device.get(path) == Some(bytes_of(&expected)), "bucket {}", bucket);
        }
        prop_assert_eq!(job.budget.used_bytes(), 0);
        prop_assert!(job.budget.peak_bytes() <= memory_kib << 10);
    }
}

/// Prefix sums over `drives` drives into one shard per drive, with this much memory; returns how
/// often data were read.
fn passes_of_a_scan(drives: usize, memory_kib: u64) -> u32 {
    let (device, job) = ram_job(2, memory_kib, 1);
    let items = numbers(1_000_000, 1);
    let inputs = spread(&device, &items, drives, drives, true);
    let (paths, output) = shards(drives, drives.max(2), "sums");
    let all = read::<u64>(&inputs);
    let done = scan(
        &job,
        &all,
        IDENTITY,
        after,
        Inclusion::Inclusive,
        &output,
        false,
    )
    .unwrap();
    assert!(joined(&device, &paths) == bytes_of(&sums(&items)));
    let block_bytes = 4096 * 100;
    assert!(
        done.read_bytes <= u64::from(done.passes) * 8_000_000 + block_bytes,
        "{}",
        done.read_bytes
    );
    done.passes
}

#[test]
fn a_scan_reads_once_unless_more_drives_work_side_by_side_otherwise() {
    assert_eq!(passes_of_a_scan(1, 9_000), 1);
    assert_eq!(passes_of_a_scan(2, 9_000), 1);
    assert_eq!(passes_of_a_scan(3, 9_000), 2);
    assert_eq!(passes_of_a_scan(8, 9_000), 2);
    assert_eq!(passes_of_a_scan(8, 60_000), 1);
}

#[test]
fn generated_items_are_scanned_into_shards_in_one_pass() {
    let (device, job) = ram_job(3, 9_000, 1);
    let (paths, output) = shards(3, 5, "sums");
    let ones = tabulate(500_001, |i| i % 5);
    let done = scan(
        &job,
        &ones,
        IDENTITY,
        after,
        Inclusion::Inclusive,
        &output,
        false,
    )
    .unwrap();
    let items: Vec<u64> = (0..500_001).map(|i| i % 5).collect();
    assert!(joined(&device, &paths) == bytes_of(&sums(&items)));
    assert_eq!(done.passes, 1);
}
