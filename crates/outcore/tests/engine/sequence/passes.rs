//! Passes that succeed.
//!
//! Contract: one pass each over files with headers, divided anywhere, over drives in memory.

use outcore::key::RecordFormat;
use outcore::key::expr::Schema;
use outcore::primitives::write::produce;
use outcore::primitives::{
    Reduction, Scalar, Sequence, Table, count, fold, map_reduce, max, mean, min, read, reduce,
    reduce_table, sum, tabulate, write,
};
use proptest::prelude::*;
use proptest::sample::Index;

use super::kit::{bytes_of, file, file_with_header, numbers, piped, put, ram_job};

/// Sizes of 0 and 1, and around the boundaries of blocks and pieces.
fn any_count() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0),
        Just(1),
        510usize..515,
        8190usize..8195,
        131_070usize..131_075,
        0usize..300_000
    ]
}

/// Affine maps of the integers modulo 2^64: composing them is associative and does not commute.
fn after(first: (u64, u64), second: (u64, u64)) -> (u64, u64) {
    let (a, b) = first;
    let (c, d) = second;
    (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d))
}

proptest! {
    #![proptest_config(crate::support::often::tried(20))]

    #[test]
    fn one_pass_gives_what_iterators_give(
        n in any_count(), threads in 1usize..4, memory_kib in 6000u64..40_000, seed: u64,
        cuts in prop::collection::vec(any::<Index>(), 0..5), header in prop_oneof![Just(0usize), Just(128), 0usize..5000],
        modulus in 1u64..9,
    ) {
        let (device, job) = ram_job(threads, memory_kib, seed);
        let items = numbers(n, seed);
        let inputs = put(&device, "in", &bytes_of(&items), 8, &cuts, header);

        let mapped = read::<u64>(&inputs).map(|x| x.wrapping_mul(3) as u32);
        write(&job, &mapped, &file_with_header("/d0/mapped", header), false).unwrap();
        let mut expected = vec![n as u8; header];
        expected.extend(items.iter().flat_map(|x| (x.wrapping_mul(3) as u32).to_ne_bytes()));
        prop_assert!(device.get("/d0/mapped") == Some(expected), "map");

        let kept = read::<u64>(&inputs).filter(|x| x % modulus == 0);
        let summary = write(&job, &kept, &file_with_header("/d1/kept", header), false).unwrap();
        let left: Vec<u64> = items.iter().copied().filter(|x| x % modulus == 0).collect();
        let mut expected = vec![left.len() as u8; header];
        expected.extend(bytes_of(&left));
        prop_assert!(device.get("/d1/kept") == Some(expected), "filter");
        prop_assert_eq!(summary.records, left.len() as u64);
        prop_assert_eq!(summary.records_in, n as u64);

        let repeated = |x: u64| (0..x % modulus).map(move |i| x ^ i);
        let many = read::<u64>(&inputs).flat_map(repeated);
        write(&job, &many, &file("/d2/many"), false).unwrap();
        let all: Vec<u64> = items.iter().copied().flat_map(repeated).collect();
        prop_assert!(device.get("/d2/many") == Some(bytes_of(&all)), "flat_map");

        let through = piped(|pipe| {
            write(&job, &read::<u64>(&inputs).filter(|x| x % modulus == 0), pipe, false).unwrap();
        });
        prop_assert!(through == bytes_of(&left), "pipe");

        let maps = read::<u64>(&inputs).map(|x| (x | 1, x >> 7));
        let composed = items.iter().map(|x| (x | 1, x >> 7)).fold((1, 0), after);
        prop_assert_eq!(reduce(&job, &maps, (1, 0), after).unwrap(), composed);
        let affine = |x: u64| (x | 1, x >> 7);
        let kept = read::<u64>(&inputs).filter(|x| x % modulus == 0).flat_map(repeated);
        let composed = items.iter().copied().filter(|x| x % modulus == 0).flat_map(repeated);
        let composed = composed.map(affine).fold((1, 0), after);
        prop_assert_eq!(map_reduce(&job, &kept, affine, (1, 0), after).unwrap(), composed);
        let numbers = read::<u64>(&inputs);
        prop_assert_eq!(count(&job, &numbers).unwrap(), n as u64);
        prop_assert_eq!(sum(&job, &numbers).unwrap(), items.iter().map(|x| u128::from(*x)).sum());
        prop_assert_eq!(min(&job, &numbers).unwrap(), items.iter().copied().min());
        prop_assert_eq!(max(&job, &numbers).unwrap(), items.iter().copied().max());
        prop_assert_eq!(mean(&job, &numbers).unwrap().is_none(), n == 0);
        prop_assert_eq!(job.budget.used_bytes(), 0);
        prop_assert!(job.budget.peak_bytes() <= memory_kib << 10);
    }

    #[test]
    fn sequences_of_other_cuts_are_zipped_item_by_item(
        n in any_count(), threads in 1usize..4, seed: u64,
        cuts in prop::collection::vec(any::<Index>(), 0..4), others in prop::collection::vec(any::<Index>(), 0..4),
    ) {
        let (device, job) = ram_job(threads, 30_000, seed);
        let (a, b) = (numbers(n, seed), numbers(n, !seed));
        let small: Vec<u8> = b.iter().map(|x| *x as u8).collect();
        let left = put(&device, "a", &bytes_of(&a), 8, &cuts, 0);
        let right = put(&device, "b", &small, 1, &others, 64);
        let both = read::<u64>(&left)
            .zip(read::<u8>(&right))
            .zip(tabulate(n as u64, |i| i))
            .map(|((x, y), i)| x ^ u64::from(y) ^ i);
        write(&job, &both, &file("/d1/out"), false).unwrap();
        let expected: Vec<u64> = (0..n).map(|i| a[i] ^ u64::from(small[i]) ^ i as u64).collect();
        prop_assert!(device.get("/d1/out") == Some(bytes_of(&expected)));

        let tables = [
            Table::read(&left, &format("u64"), Schema::of_format(&format("u64"))),
            Table::read(&right, &format("u8"), Schema::of_format(&format("u8"))),
        ];
        let table = Table::zip(&tables).unwrap().filter("y % 3 != 0").unwrap().map("x ^ y").unwrap();
        produce(&job, &table, &file("/d2/out"), false).unwrap();
        let expected: Vec<u64> = (0..n)
            .filter(|i| !small[*i].is_multiple_of(3))
            .map(|i| a[i] ^ u64::from(small[i]))
            .collect();
        prop_assert!(device.get("/d2/out") == Some(bytes_of(&expected)));
    }

    #[test]
    fn tables_fold_as_iterators_do(
        n in any_count(), threads in 1usize..4, seed: u64,
        cuts in prop::collection::vec(any::<Index>(), 0..4),
    ) {
        let (device, job) = ram_job(threads, 30_000, seed);
        let items = numbers(n, seed);
        let inputs = put(&device, "in", &bytes_of(&items), 8, &cuts, 0);
        let u64s = format("u64");
        let table = Table::read(&inputs, &u64s, Schema::of_format(&u64s));
        let table = table.filter("x % 5 != 2 and index % 3 == 0").unwrap().map("i64(x) >> 3").unwrap();
        let left: Vec<i64> = (0..n)
            .filter(|i| items[*i] % 5 != 2 && i % 3 == 0)
            .map(|i| items[i] as i64 >> 3)
            .collect();
        let how = ["sum", "count", "min", "max", "mean", "a ^ b"].map(Reduction::parse);
        let (found, _) = reduce_table(&job, &table, &how).unwrap();
        let int = |value: Option<i64>| value.map_or(Scalar::None, |v| Scalar::Int(v.into()));
        let total: i128 = left.iter().map(|x| i128::from(*x)).sum();
        prop_assert_eq!(found[0], Scalar::Int(total));
        prop_assert_eq!(found[1], Scalar::Int(left.len() as i128));
        prop_assert_eq!(found[2], int(left.iter().copied().min()));
        prop_assert_eq!(found[3], int(left.iter().copied().max()));
        let mean = match left.len() {
            0 => Scalar::None,
            count => Scalar::Float(total as f64 / count as f64),
        };
        prop_assert_eq!(found[4], mean);
        prop_assert_eq!(found[5], int(left.iter().copied().reduce(|a, b| a ^ b)));
    }

    #[test]
    fn sums_of_floats_are_the_same_bits_whatever_threads_and_memory(
        n in 1usize..200_000, seed: u64, cut in any::<Index>(),
    ) {
        let items: Vec<f64> = numbers(n, seed).iter().map(|x| *x as f64 / 3.0).collect();
        let bytes: Vec<u8> = bytemuck::cast_slice(&items).to_vec();
        let f64s = format("f64");
        let mut seen = Vec::new();
        for (threads, memory_kib) in [(1, 4000), (3, 9000), (2, 60_000)] {
            let (device, job) = ram_job(threads, memory_kib, seed);
            let inputs = put(&device, "in", &bytes, 8, &[cut], 0);
            let typed = sum(&job, &read::<f64>(&inputs)).unwrap();
            let table = Table::read(&inputs, &f64s, Schema::of_format(&f64s));
            let (named, _) = reduce_table(&job, &table, &[Reduction::Sum]).unwrap();
            let Scalar::Float(named) = named[0] else { panic!("a float") };
            seen.push((typed.to_bits(), named.to_bits()));
        }
        prop_assert!(seen.iter().all(|bits| *bits == seen[0]), "{seen:?}");
        let naive: f64 = items.iter().sum();
        prop_assert!((f64::from_bits(seen[0].0) - naive).abs() <= naive.abs() * 1e-9);
    }
}

fn format(name: &str) -> RecordFormat {
    RecordFormat::parse_type(name).unwrap()
}

#[test]
fn a_fold_has_any_type_and_keeps_the_order() {
    let (_, job) = ram_job(3, 30_000, 1);
    let digits = tabulate(50_000, |i| (i % 10) as u8);
    let text = fold(
        &job,
        &digits,
        String::new(),
        |mut text, digit| {
            text.push(char::from(b'0' + digit));
            text
        },
        |a, b| a + &b,
    );
    assert_eq!(text.unwrap(), "0123456789".repeat(5000));
}

#[test]
fn records_are_filtered_whole_and_their_fields_have_names() {
    let (device, job) = ram_job(2, 20_000, 7);
    let record = |i: u32| {
        let mut record = i.to_be_bytes().to_vec();
        record.extend([b'a' + (i % 26) as u8; 9]);
        record
    };
    let bytes: Vec<u8> = (0..40_000).flat_map(record).collect();
    let inputs = put(&device, "in", &bytes, 13, &[], 0);
    let records = RecordFormat::parse_record(13, &["0:4:u32be"]).unwrap();
    let table = Table::read(&inputs, &records, Schema::of_format(&records));
    let kept = table.filter("key0 % 1000 == 7").unwrap();
    produce(&job, &kept, &file("/d0/out"), false).unwrap();
    let expected: Vec<u8> = (0..40_000)
        .filter(|i| i % 1000 == 7)
        .flat_map(record)
        .collect();
    assert!(device.get("/d0/out") == Some(expected));
    let unknown = table.filter("key1 > 0").unwrap_err();
    assert!(unknown.next_step().unwrap().contains("key0"), "{unknown}");
    assert!(reduce_table(&job, &table, &[Reduction::Sum]).is_err());
    let (found, _) = reduce_table(&job, &table, &[Reduction::Count]).unwrap();
    assert_eq!(found, [Scalar::Int(40_000)]);
}
