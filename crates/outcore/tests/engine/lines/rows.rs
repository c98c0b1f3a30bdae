//! Rows of any bytes, from a source to a sink.
//!
//! Contract: the sink receives the result of a naive sort of the same rows, for any threads and
//! memory. Faults of source, sink and scratch end the job with a specific error.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use outcore::job::{ComputeCosts, Job, JobOptions, ScratchDrive};
use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::sort::lines::rows::{RowBatch, RowPart, RowSink, RowSource, TakeRows};
use outcore::sort::lines::{LineSummary, RowSortOptions, sort_rows};
use outcore::{Error, Kind, Result};
use outcore_io::drive::Device;
use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice, RamOptions};
use proptest::prelude::*;

/// The key of a row. The first byte of the row is the length of its key, which begins at the second
/// byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    pub(crate) descending: bool,
    pub(crate) tie: Tie,
}

pub(crate) fn key_of(row: &[u8]) -> Option<&[u8]> {
    let (&len, rest) = row.split_first()?;
    rest.get(..usize::from(len))
}

impl SortKey for Front {
    fn append_key(&self, row: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        key.extend_from_slice(key_of(row).ok_or_else(|| NoKey("it is too short".into()))?);
        Ok(())
    }

    fn is_item(&self) -> bool {
        false
    }

    fn is_descending(&self) -> bool {
        self.descending
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

/// Batches of rows; each thread takes the next one.
pub(crate) struct Batches<'r> {
    pub(crate) rows: &'r [Vec<u8>],
    pub(crate) batch_rows: usize,
    pub(crate) next: AtomicUsize,
    pub(crate) fails_at: usize,
    pub(crate) told_bytes: u64,
}

impl Batches<'_> {
    fn give(&self, number: usize, take: &mut TakeRows<'_>) -> Result<bool> {
        let Some(rows) = self.rows.chunks(self.batch_rows).nth(number) else {
            return Ok(false);
        };
        if number == self.fails_at {
            return Err(Error::new(Kind::Corrupt, "make rows", "as told"));
        }
        let mut batch = RowBatch::default();
        let (one_by_one, together) = rows.split_at(rows.len() / 2);
        one_by_one.iter().try_for_each(|row| batch.push(row))?;
        let lens: Vec<usize> = together.iter().map(Vec::len).collect();
        let mut starts = Vec::new();
        let bytes = batch.push_zeros(&lens, &mut starts)?;
        for (row, at) in together.iter().zip(starts) {
            bytes[at..at + row.len()].copy_from_slice(row);
        }
        assert!(batch.iter().eq(rows.iter().map(Vec::as_slice)));
        assert_eq!(batch.len(), rows.len());
        take(&batch, (number * self.batch_rows) as u64)?;
        Ok(true)
    }
}

impl RowSource for Batches<'_> {
    fn data_bytes(&self) -> u64 {
        self.told_bytes
    }

    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let count = self.rows.len().div_ceil(self.batch_rows);
        (0..count)
            .step_by((count / 20).max(1))
            .try_for_each(|number| match number == self.fails_at {
                true => Ok(()),
                false => self.give(number, take).map(|_| ()),
            })
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        while self.give(self.next.fetch_add(1, Ordering::Relaxed), take)? {}
        Ok(())
    }
}

/// Rows as they arrive, part by part.
#[derive(Default)]
struct Collected {
    parts: Mutex<BTreeMap<usize, PartRows>>,
    taken: AtomicUsize,
    fails_at: Option<usize>,
}

#[derive(Default)]
struct PartRows {
    rows_before: Option<u64>,
    rows: Vec<Vec<u8>>,
    is_finished: bool,
}

struct CollectedPart<'c> {
    all: &'c Collected,
    number: usize,
}

const PART_BYTES: u64 = 300_000;

impl RowSink for Collected {
    fn part_bytes(&self) -> u64 {
        PART_BYTES
    }

    fn begin(&self, number: usize, rows_before: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        let part = PartRows {
            rows_before,
            ..PartRows::default()
        };
        let known = self.parts.lock().unwrap().insert(number, part);
        assert!(known.is_none(), "a part begins once");
        Ok(Box::new(CollectedPart { all: self, number }))
    }
}

impl RowPart for CollectedPart<'_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        let bucket = self.all.taken.fetch_add(1, Ordering::Relaxed);
        if self.all.fails_at == Some(bucket) {
            return Err(Error::new(Kind::NoSpace, "take rows", "as told"));
        }
        let rows: Vec<Vec<u8>> = rows.map(<[u8]>::to_vec).collect();
        let mut parts = self.all.parts.lock().unwrap();
        parts.get_mut(&self.number).unwrap().rows.extend(rows);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let mut parts = self.all.parts.lock().unwrap();
        let part = parts.get_mut(&self.number).unwrap();
        assert!(!part.rows.is_empty(), "no part is empty");
        part.is_finished = true;
        Ok(())
    }
}

impl Collected {
    /// All rows, after a check of how they arrived.
    fn into_rows(self, unique: bool) -> Vec<Vec<u8>> {
        let parts = self.parts.into_inner().unwrap();
        let mut rows: Vec<Vec<u8>> = Vec::new();
        for (index, (number, part)) in parts.into_iter().enumerate() {
            assert_eq!(number, index, "no part is left out");
            assert!(part.is_finished, "every part ends");
            let before = (!unique).then_some(rows.len() as u64);
            assert_eq!(part.rows_before, before);
            rows.extend(part.rows);
        }
        rows
    }
}

/// Rows with few or many different keys, most of them short, with all bytes in them.
fn rows(count: usize, key_bytes: usize, longest: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ mixed >> 27
    };
    (0..count)
        .map(|_| {
            let mut row = vec![key_bytes as u8];
            row.extend(next().to_le_bytes().iter().cycle().take(key_bytes));
            let rest = match next() % 50 {
                0 => next() as usize % longest,
                _ => next() as usize % 40,
            };
            row.extend((0..rest).map(|at| (at as u64 ^ seed) as u8));
            row.extend_from_slice(&next().to_le_bytes()[..2]);
            row
        })
        .collect()
}

fn expected(rows: &[Vec<u8>], order: Front, unique: bool) -> Vec<Vec<u8>> {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|a, b| {
        let by_key = key_of(a).cmp(&key_of(b));
        let by_key = if order.descending {
            by_key.reverse()
        } else {
            by_key
        };
        by_key.then_with(|| match order.tie {
            Tie::Position => std::cmp::Ordering::Equal,
            Tie::Bytes => a.cmp(b),
            Tie::BytesDescending => b.cmp(a),
        })
    });
    if unique {
        sorted.dedup_by(|a, b| key_of(a) == key_of(b));
    }
    sorted
}

fn options(memory_bytes: u64, threads: usize) -> JobOptions {
    JobOptions {
        memory_bytes,
        threads,
        drives: vec![ScratchDrive {
            name: "drive".into(),
            dir: PathBuf::from("/d0"),
            weight: 1.0,
            limit_bytes: u64::MAX,
        }],
        scratch_limit_bytes: u64::MAX,
        seed: 1,
        costs: ComputeCosts::ASSUMED,
        ..JobOptions::default()
    }
}

struct RowJob<'r> {
    rows: &'r [Vec<u8>],
    order: Front,
    unique: bool,
    batch_rows: usize,
    memory_bytes: u64,
    threads: usize,
    /// The size that the source declares, in percent of the real one.
    told_percent: u64,
    source_fails_at: usize,
    sink_fails_at: Option<usize>,
}

impl<'r> RowJob<'r> {
    fn of(rows: &'r [Vec<u8>]) -> Self {
        RowJob {
            rows,
            order: Front {
                descending: false,
                tie: Tie::Bytes,
            },
            unique: false,
            batch_rows: 100,
            memory_bytes: 5 << 20,
            threads: 2,
            told_percent: 100,
            source_fails_at: usize::MAX,
            sink_fails_at: None,
        }
    }

    /// Sorts on `device`, which has no files before or after.
    fn run(&self, ram: &RamDevice, device: Arc<dyn Device>) -> Result<(LineSummary, Vec<Vec<u8>>)> {
        let job = Job::on(options(self.memory_bytes, self.threads), device);
        let bytes: usize = self.rows.iter().map(|row| row.len() + 4).sum();
        let source = Batches {
            rows: self.rows,
            batch_rows: self.batch_rows,
            next: AtomicUsize::new(0),
            fails_at: self.source_fails_at,
            told_bytes: bytes as u64 * self.told_percent / 100,
        };
        let sink = Collected {
            fails_at: self.sink_fails_at,
            ..Collected::default()
        };
        let options = RowSortOptions {
            unique: self.unique,
            ..RowSortOptions::default()
        };
        let result = sort_rows(&job, &source, &sink, &self.order, &options);
        assert_eq!(job.budget.used_bytes(), 0, "all memory is given back");
        assert_eq!(ram.list(), Vec::<PathBuf>::new(), "nothing is left over");
        Ok((result?, sink.into_rows(self.unique)))
    }

    fn check(&self) -> LineSummary {
        let ram = RamDevice::new(RamOptions::default());
        let (summary, got) = self.run(&ram, Arc::new(ram.clone())).unwrap();
        let expected = expected(self.rows, self.order, self.unique);
        assert_eq!(summary.lines_in, self.rows.len() as u64);
        assert_eq!(summary.lines_out, expected.len() as u64);
        assert_eq!(got.len(), expected.len());
        assert!(got == expected, "rows are not in order");
        summary
    }
}

fn any_tie() -> impl Strategy<Value = Tie> {
    prop_oneof![
        Just(Tie::Position),
        Just(Tie::Bytes),
        Just(Tie::BytesDescending)
    ]
}

proptest! {
    #![proptest_config(crate::support::often::tried(40))]

    #[test]
    fn rows_are_handed_on_as_a_naive_sort_has_them(
        (count, key_bytes, longest) in (0usize..8000, 0usize..12, 1usize..20_000),
        (descending, unique, tie) in (any::<bool>(), any::<bool>(), any_tie()),
        (batch_rows, threads, memory_mib) in (1usize..500, 1usize..4, 6u64..24),
        (told_percent, seed) in (50u64..150, any::<u64>()),
    ) {
        let rows = rows(count, key_bytes, longest, seed);
        RowJob {
            order: Front { descending, tie },
            unique,
            batch_rows,
            threads,
            memory_bytes: memory_mib << 20,
            told_percent,
            ..RowJob::of(&rows)
        }
        .check();
    }
}

#[test]
fn rows_that_do_not_fit_the_memory_go_through_scratch() {
    let rows = rows(300_000, 8, 4000, 7);
    for tie in [Tie::Bytes, Tie::Position] {
        let job = RowJob {
            order: Front {
                descending: false,
                tie,
            },
            memory_bytes: 8 << 20,
            ..RowJob::of(&rows)
        };
        let summary = job.check();
        assert!(
            summary.scratch_bytes > 10 << 20,
            "{}",
            summary.scratch_bytes
        );
    }
}

#[test]
fn equal_rows_are_all_handed_on() {
    let rows = vec![b"\x03abc and some more".to_vec(); 200_000];
    for (tie, unique) in [
        (Tie::Bytes, false),
        (Tie::Position, false),
        (Tie::Bytes, true),
    ] {
        RowJob {
            order: Front {
                descending: true,
                tie,
            },
            unique,
            ..RowJob::of(&rows)
        }
        .check();
    }
}

#[test]
fn a_source_or_a_sink_that_fails_ends_the_job_in_its_own_words() {
    let rows = rows(50_000, 6, 100, 3);
    let failing = [
        (70, None, Kind::Corrupt),
        (usize::MAX, Some(0), Kind::NoSpace),
        (usize::MAX, Some(3), Kind::NoSpace),
    ];
    for (source_fails_at, sink_fails_at, kind) in failing {
        let job = RowJob {
            source_fails_at,
            sink_fails_at,
            ..RowJob::of(&rows)
        };
        let ram = RamDevice::new(RamOptions::default());
        let error = job.run(&ram, Arc::new(ram.clone())).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("as told"), "{error}");
    }
}

#[test]
fn a_row_without_a_key_is_an_error() {
    let mut rows = rows(1000, 6, 100, 3);
    rows[700] = vec![200, 1, 2];
    let ram = RamDevice::new(RamOptions::default());
    let error = RowJob::of(&rows)
        .run(&ram, Arc::new(ram.clone()))
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(
        error
            .to_string()
            .contains("a row has no key: it is too short"),
        "{error}"
    );
}

#[test]
fn a_fault_on_scratch_is_named() {
    let rows = rows(30_000, 6, 3000, 5);
    let job = RowJob {
        threads: 1,
        ..RowJob::of(&rows)
    };
    let kinds = [
        ("eio", "read", Kind::Io),
        ("eio", "write", Kind::Io),
        ("enospc", "write", Kind::NoSpace),
        ("flip", "read", Kind::Corrupt),
    ];
    for (fault, counted, kind) in kinds {
        let mut failed = 0;
        for n in [1, 2, 5, 9, 20, 40] {
            let plan: FaultPlan = format!("{fault}@{n}:{counted}").parse().unwrap();
            let ram = RamDevice::new(RamOptions::default());
            let faulty = Arc::new(FaultDevice::new(Arc::new(ram.clone()), plan));
            match job.run(&ram, faulty) {
                Err(error) => {
                    assert_eq!(error.kind(), kind, "{fault}@{n}:{counted} {error}");
                    failed += 1;
                }
                Ok((_, got)) => assert!(got == expected(&rows, job.order, false)),
            }
        }
        assert!(failed > 0, "{fault}:{counted} was met");
    }
}

/// A sink whose parts end in order; the first one fails before it begins, once another waits for
/// it.
#[derive(Default)]
struct InTurn {
    state: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Default)]
struct Turn {
    is_waited_for: bool,
    is_given_up: bool,
}

const LONG: Duration = Duration::from_secs(60);

impl RowSink for InTurn {
    fn part_bytes(&self) -> u64 {
        PART_BYTES
    }

    fn begin(&self, number: usize, _: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        if number > 0 {
            return Ok(Box::new(PartInTurn(self)));
        }
        let state = self.state.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(state, LONG, |state| !state.is_waited_for);
        assert!(!waited.unwrap().1.timed_out(), "no other part has come");
        Err(Error::new(Kind::Corrupt, "begin a part", "as told"))
    }

    fn give_up(&self) {
        self.state.lock().unwrap().is_given_up = true;
        self.changed.notify_all();
    }
}

struct PartInTurn<'s>(&'s InTurn);

impl RowPart for PartInTurn<'_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        rows.for_each(drop);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let mut state = self.0.state.lock().unwrap();
        state.is_waited_for = true;
        self.0.changed.notify_all();
        let waited = self
            .0
            .changed
            .wait_timeout_while(state, LONG, |state| !state.is_given_up);
        assert!(!waited.unwrap().1.timed_out(), "a part waits for ever");
        Err(Error::interrupted())
    }
}

#[test]
fn no_part_waits_for_one_whose_thread_failed_before_it_began() {
    let rows = rows(60_000, 8, 100, 5);
    let ram = RamDevice::new(RamOptions::default());
    let job = Job::on(options(5 << 20, 2), Arc::new(ram));
    let source = Batches {
        rows: &rows,
        batch_rows: 100,
        next: AtomicUsize::new(0),
        fails_at: usize::MAX,
        told_bytes: rows.iter().map(|row| row.len() as u64 + 4).sum(),
    };
    let order = Front {
        descending: false,
        tie: Tie::Bytes,
    };
    let sink = InTurn::default();
    let error = sort_rows(&job, &source, &sink, &order, &RowSortOptions::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert_eq!(job.budget.used_bytes(), 0, "all memory is given back");
}
