//! Random views, read in every way.
//!
//! Contract: types, orders, duplicates, numbers of runs, drives and threads are random; the results
//! of every interface are compared with the oracle's sorted bytes. All memory is returned.

use std::sync::Arc;
use std::sync::Mutex;

use proptest::prelude::*;

use outcore::Output;
use outcore::key::RecordFormat;
use outcore::runs::{HostMerge, MergeDevice, SortedView, ViewOrder};
use outcore_io::drive::Device;

use super::kit::{Case, DIR, read_all};
use crate::support::cases::{NUMBERS, RECORDS};
use crate::support::oracle::compare_keys;
use crate::support::patterns::{Payload, Values};

fn any_case() -> impl Strategy<Value = Case> {
    let formats: Vec<&'static str> = NUMBERS.iter().chain(&RECORDS).copied().collect();
    let values = prop_oneof![
        Just(Values::Uniform),
        Just(Values::Few(1)),
        Just(Values::Few(7)),
        Just(Values::Zipf),
        Just(Values::Prefix),
        Just(Values::Special),
        Just(Values::Sorted),
        Just(Values::Reversed),
        Just(Values::Periodic(50)),
    ];
    let payload = prop_oneof![Just(Payload::Random), Just(Payload::Coarse)];
    let runs = prop_oneof![Just(1usize), 2usize..9, 9usize..70, 400usize..=500];
    let shape = (1usize..9, 1usize..4, any::<bool>(), 64u64..200);
    (
        prop::sample::select(formats),
        (values, payload),
        0usize..4000,
        runs,
        shape,
        (any::<bool>(), any::<bool>()),
        any::<u64>(),
    )
        .prop_map(
            |(format, (values, payload), records, runs, shape, (descending, stable), seed)| {
                let format = RecordFormat::parse_type(format).unwrap();
                let (drives, threads, keeps_runs, memory_mib) = shape;
                let records = records.min(1_000_000 / format.record_bytes());
                Case {
                    format,
                    order: ViewOrder { descending, stable },
                    values,
                    payload,
                    records,
                    runs,
                    drives,
                    threads,
                    memory_bytes: memory_mib << 20,
                    keeps_runs,
                    seed,
                }
            },
        )
}

/// The rank of the first record whose key is not before that of `key`, by definition.
fn naive_key_rank(case: &Case, sorted: &[u8], key: &[u8]) -> u64 {
    let records = sorted.chunks(case.format.record_bytes());
    let is_before =
        |record: &&[u8]| compare_keys(record, key, &case.format, case.order.descending).is_lt();
    records.take_while(is_before).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if crate::support::is_long() { 400 } else { 20 }))]

    #[test]
    fn whatever_is_read_equals_the_sorted_file(
        case in any_case(),
        ranges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
        reads in prop::collection::vec((any::<prop::sample::Index>(), 1usize..5000), 1..12),
        parts in 1u64..5,
    ) {
        let ram = case.ram();
        let input = case.input();
        ram.put("/d0/in", input.clone());
        let sorted = case.sorted(&input);
        let job = case.job(Arc::new(ram.clone()) as Arc<dyn Device>);
        let (view, summary) = case.build(&job).unwrap();
        prop_assert_eq!(summary.records as usize, case.records);
        prop_assert!(read_all(&view) == sorted, "just built");
        drop(view);
        prop_assert_eq!(job.budget.used_bytes(), 0);

        let view = SortedView::open(&job, DIR.as_ref()).unwrap();
        let record_bytes = view.unit_bytes();
        let count = case.records as u64;
        prop_assert_eq!(view.len(), count);
        prop_assert!(read_all(&view) == sorted, "opened again");
        let bytes = |from: u64, to: u64| &sorted[from as usize * record_bytes..to as usize * record_bytes];
        let mut reader = view.reader(view.reader_bytes(1)).unwrap();
        for (a, b) in ranges {
            let (a, b) = (a.index(case.records + 1) as u64, b.index(case.records + 1) as u64);
            let (from, to) = (a.min(b), a.max(b));
            reader.seek(from..to).unwrap();
            let mut out = vec![0; (to - from) as usize * record_bytes];
            prop_assert_eq!(reader.read(&mut out).unwrap(), out.len());
            prop_assert!(out == bytes(from, to), "range {}..{}", from, to);
        }
        let mut joined = Vec::new();
        for part in view.split(parts) {
            reader.seek(part.clone()).unwrap();
            let mut out = vec![0; (part.end - part.start) as usize * record_bytes];
            prop_assert_eq!(reader.read(&mut out).unwrap(), out.len());
            joined.extend(out);
        }
        prop_assert!(joined == sorted, "parts");
        for record in [&sorted, &input].into_iter().filter(|_| count > 0 && count < 500) {
            let at = case.seed as usize % case.records * record_bytes;
            let key = &record[at..at + record_bytes];
            let rank = reader.seek_key(key).unwrap();
            prop_assert_eq!(rank, naive_key_rank(&case, &sorted, key));
        }
        drop(reader);
        // Many keys at once: some that exist and some that may not.
        if count > 0 {
            let mut wanted: Vec<Vec<u8>> = Vec::new();
            for step in 0..40 {
                let at = (case.seed as usize).wrapping_mul(step + 1) % case.records * record_bytes;
                let mut key = sorted[at..at + record_bytes].to_vec();
                if step % 3 == 1 {
                    let byte = step % record_bytes;
                    key[byte] = key[byte].wrapping_add(1);
                }
                wanted.push(key);
            }
            let keys: Vec<&[u8]> = wanted.iter().map(Vec::as_slice).collect();
            for counts_equal in [false, true] {
                let (ranks, _) = view.lookup(&keys, counts_equal).unwrap();
                for (key, rank) in keys.iter().zip(ranks) {
                    let is_before = |record: &&[u8]| {
                        let order = compare_keys(record, key, &case.format, case.order.descending);
                        order.is_lt() || counts_equal && order.is_eq()
                    };
                    let naive = sorted.chunks(record_bytes).take_while(is_before).count() as u64;
                    prop_assert_eq!(rank, naive, "{:?}", counts_equal);
                }
            }
            let (found, _) = view.values(&keys).unwrap();
            let equal = keys.iter().flat_map(|key| {
                let is_equal = |record: &&[u8]| {
                    compare_keys(record, key, &case.format, case.order.descending).is_eq()
                };
                sorted.chunks(record_bytes).filter(is_equal)
            });
            prop_assert!(found == equal.collect::<Vec<_>>().concat(), "values");
        }
        let device = HostMerge { view: &view, memory_bytes: view.reader_bytes(1) };
        let mut stream = device.open(&view.about()).unwrap();
        for (at, len) in reads {
            let at = at.index(sorted.len() + 10);
            let mut out = vec![0; len];
            let got = stream.read(at as u64, &mut out).unwrap();
            let expected = &sorted[at.min(sorted.len())..(at + len).min(sorted.len())];
            prop_assert!(&out[..got] == expected, "{} bytes at {}", len, at);
            // Reading continues from there.
            let got = stream.read((at + len) as u64, &mut out).unwrap();
            let expected = &sorted[(at + len).min(sorted.len())..(at + 2 * len).min(sorted.len())];
            prop_assert!(&out[..got] == expected, "{} bytes behind {}", len, at);
        }
        drop(stream);
        let output = Output::File { path: "/d0/out".into(), header: None };
        view.write_to(0..count, &output, false).unwrap();
        prop_assert!(ram.get("/d0/out").unwrap() == sorted, "written");
        let mut piped = Vec::new();
        let pipe = Pipe(Arc::new(Mutex::new(Vec::new())));
        view.write_to(0..count, &Output::Pipe(Mutex::new(Box::new(pipe.clone()))), false).unwrap();
        piped.append(&mut pipe.0.lock().unwrap());
        prop_assert!(piped == sorted, "piped");
        let report = view.verify().unwrap();
        prop_assert_eq!(report.records, count);
        drop(view);
        prop_assert_eq!(job.budget.used_bytes(), 0);
        prop_assert!(job.budget.peak_bytes() <= case.memory_bytes);
    }
}

/// A pipe whose bytes can be examined.
#[derive(Clone)]
pub(crate) struct Pipe(pub(crate) Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
