//! Views of rows from a source, against a naive sort: by number, by key, extended, damaged.
//!
//! Contract: as in `lines`: the expected rows come from the standard library's sort.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use outcore::job::Job;
use outcore::key::sort_key::{SharedKey, Tie};
use outcore::runs::{BuildOptions, BuildSummary, RowType, SortedView, append_rows, build_rows};
use outcore::sort::lines::rows::RowBatch;
use outcore::{Error, Kind, Result};
use outcore_io::drive::Device;
use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice, RamOptions};
use proptest::prelude::*;

use super::kit::{DIR, job_on};
use super::metadata::{manifest_path, resealed};
use crate::lines::rows::{Batches, Front, key_of};
use crate::support::patterns::random;

const NAME: &str = "by the front";

fn order_of(name: &str) -> Result<SharedKey> {
    match name {
        NAME => Ok(Arc::new(Front {
            descending: false,
            tie: Tie::Bytes,
        })),
        _ => Err(Error::usage("open view", "another order")),
    }
}

/// A view of rows to test.
#[derive(Debug, Clone)]
struct RowCase {
    rows: usize,
    /// Length of the longest row, and of the longest key.
    row_bytes: usize,
    key_bytes: usize,
    run_bytes: Option<u64>,
    drives: usize,
    threads: usize,
    memory_bytes: u64,
    seed: u64,
}

impl RowCase {
    fn of(rows: usize, run_bytes: u64) -> Self {
        RowCase {
            rows,
            row_bytes: 80,
            key_bytes: 3,
            run_bytes: Some(run_bytes),
            drives: 1,
            threads: 2,
            memory_bytes: 64 << 20,
            seed: 5,
        }
    }

    /// Rows with many equal keys, followed by any bytes.
    fn rows(&self, seed: u64) -> Vec<Vec<u8>> {
        let draw = |row: usize, what: u64| random(self.seed + seed, what, row as u64);
        let row = |number: usize| {
            let key_bytes = draw(number, 0) as usize % (self.key_bytes + 1);
            let len = draw(number, 1) as usize % self.row_bytes;
            let mut row = vec![key_bytes as u8];
            row.extend((0..key_bytes).map(|at| draw(number, 2 + at as u64) as u8 % 7));
            row.extend((0..len).map(|at| (draw(number, 300) >> (at % 8 * 8)) as u8));
            row
        };
        (0..self.rows).map(row).collect()
    }

    fn job(&self, device: Arc<dyn Device>) -> Job {
        job_on(device, self.drives, self.threads, self.memory_bytes)
    }

    fn options(&self) -> BuildOptions {
        BuildOptions {
            run_bytes: self.run_bytes,
            ..BuildOptions::default()
        }
    }

    fn build(&self, job: &Job, rows: &[Vec<u8>]) -> Result<(SortedView, BuildSummary)> {
        build_rows(
            job,
            &source(rows),
            Path::new(DIR),
            row_type()?,
            self.options(),
        )
    }
}

fn row_type() -> Result<RowType> {
    Ok(RowType {
        description: Arc::from(&b"\0any \xff bytes"[..]),
        order_name: NAME.to_string(),
        order: order_of(NAME)?,
    })
}

fn source(rows: &[Vec<u8>]) -> Batches<'_> {
    Batches {
        rows,
        batch_rows: 100,
        next: AtomicUsize::new(0),
        fails_at: usize::MAX,
        told_bytes: rows.iter().map(|row| row.len() as u64 + 4).sum(),
    }
}

fn sorted(mut rows: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    rows.sort_by(|a, b| (key_of(a), a).cmp(&(key_of(b), b)));
    rows
}

/// A range of rows, in steps of about `step_bytes`.
fn read(view: &SortedView, (from, to): (u64, u64), step_bytes: usize) -> Result<Vec<Vec<u8>>> {
    let mut reader = view.reader(view.reader_bytes(1))?;
    reader.seek(from..to)?;
    let (mut all, mut rows) = (Vec::new(), RowBatch::default());
    loop {
        rows.clear();
        reader.read_rows(&mut rows, step_bytes, |_| Ok(()))?;
        if rows.is_empty() {
            return Ok(all);
        }
        all.extend(rows.iter().map(<[u8]>::to_vec));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_rows_are_read_by_number_and_by_key_and_added_to(
        rows in 0usize..3000,
        row_bytes in 1usize..300,
        key_bytes in 0usize..40,
        runs in 1u64..12,
        (drives, threads) in (1usize..3, 1usize..4),
        (seed, step_bytes) in (0u64..1000, 1usize..9000),
    ) {
        let case = RowCase {
            rows, row_bytes, key_bytes, drives, threads, seed,
            run_bytes: Some(1 + (rows * row_bytes / 2) as u64 / runs),
            memory_bytes: 64 << 20,
        };
        let job = case.job(Arc::new(RamDevice::new(RamOptions::default())));
        let first = case.rows(0);
        let (view, built) = case.build(&job, &first)?;
        prop_assert_eq!(built.records, rows as u64);
        prop_assert_eq!(&read(&view, (0, view.len()), step_bytes)?, &sorted(first.clone()));
        drop(view);

        let more = case.rows(1);
        let dir = Path::new(DIR);
        append_rows(&job, &source(&more), dir, &row_type()?, case.options())?;
        let view = SortedView::open_with(&job, dir, &order_of)?;
        let known = view.what().rows().map(|rows| rows.description.to_vec());
        prop_assert_eq!(known, Some(b"\0any \xff bytes".to_vec()));
        let expected = sorted([first, more].concat());
        view.verify()?;
        prop_assert_eq!(&read(&view, (0, view.len()), step_bytes)?, &expected);
        for turn in 0..12 {
            let (a, b) = (random(seed, 7, turn), random(seed, 8, turn));
            let len = expected.len() as u64;
            let (a, b) = (a % (len + 1), b % (len + 1));
            let (from, to) = (a.min(b), a.max(b));
            let found = read(&view, (from, to), step_bytes)?;
            prop_assert_eq!(&found[..], &expected[from as usize..to as usize]);
            let Some(wanted) = expected.get(a as usize) else { continue };
            let mut reader = view.reader(view.reader_bytes(1))?;
            let rank = expected.partition_point(|row| key_of(row) < key_of(wanted));
            prop_assert_eq!(reader.seek_key(wanted)?, rank as u64);
        }
    }
}

#[test]
fn more_runs_than_a_reader_can_merge_are_merged_beforehand_and_long_rows_are_refused() {
    let mut case = RowCase::of(60_000, 0);
    (case.memory_bytes, case.run_bytes, case.row_bytes) = (6 << 20, Some(16 << 10), 120);
    let job = case.job(Arc::new(RamDevice::new(RamOptions::default())));
    let rows = case.rows(0);
    let (view, built) = case.build(&job, &rows).unwrap();
    assert!(
        !built.plan.merges.is_empty() && built.runs < built.plan.runs,
        "{}",
        built.plan
    );
    assert_eq!(read(&view, (0, view.len()), 5000).unwrap(), sorted(rows));
    drop(view);
    let mut long = vec![vec![0; 10]; 50];
    long.push(vec![0; 1 << 20]);
    let error = case.build(&job, &long).map(drop).unwrap_err();
    // A view exists already.
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    let dir = Path::new(DIR);
    let mut what = row_type().unwrap();
    let error = append_rows(&job, &source(&long), dir, &what, case.options());
    let error = error.map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory, "{error}");
    what.description = Arc::from(&b"others"[..]);
    let error = append_rows(&job, &source(&case.rows(1)), dir, &what, case.options());
    let error = error.map(drop).unwrap_err();
    assert!(error.to_string().contains("rows have changed"), "{error}");
    let view = SortedView::open_with(&job, dir, &order_of).unwrap();
    assert_eq!(view.len(), 60_000);
}

#[test]
fn every_operation_may_fail_once_and_damage_is_named() {
    let mut case = RowCase::of(1500, 20_000);
    (case.drives, case.threads) = (2, 1);
    let rows = case.rows(0);
    let expected = sorted(rows.clone());
    for fault in ["eio", "enospc", "flip"] {
        let (mut n, mut failed) = (1, 0);
        loop {
            let ram = RamDevice::new(RamOptions::default());
            let plan: FaultPlan = format!("{fault}@{n}").parse().unwrap();
            let device = Arc::new(FaultDevice::new(Arc::new(ram.clone()), plan));
            let job = case.job(Arc::clone(&device) as Arc<dyn Device>);
            let outcome = case.build(&job, &rows);
            match outcome.and_then(|(view, _)| read(&view, (0, view.len()), 3000)) {
                Ok(all) => assert!(all == expected, "{fault}@{n}"),
                Err(error) => {
                    failed += 1;
                    let kinds = [Kind::Io, Kind::NoSpace, Kind::Corrupt];
                    assert!(kinds.contains(&error.kind()), "{fault}@{n}: {error}");
                }
            }
            if ram.get(manifest_path()).is_some() && fault != "flip" {
                let job = case.job(Arc::new(ram.clone()));
                let view = SortedView::open_with(&job, Path::new(DIR), &order_of).unwrap();
                assert!(
                    read(&view, (0, view.len()), 3000).unwrap() == expected,
                    "{fault}@{n}"
                );
            }
            if device.operations() < n {
                break;
            }
            n += 1;
        }
        assert!(n > 12 && failed > 5, "{fault}: {failed} of {n}");
    }

    let ram = RamDevice::new(RamOptions::default());
    let job = case.job(Arc::new(ram.clone()));
    let (view, _) = case.build(&job, &rows).unwrap();
    let runs: Vec<PathBuf> = view
        .info()
        .runs
        .into_iter()
        .map(|(path, ..)| path)
        .collect();
    drop(view);
    for (turn, run) in runs.iter().cycle().take(30).enumerate() {
        let bits = ram.get(run).unwrap().len() as u64 * 8;
        let bit = random(3, 1, turn as u64) % bits;
        ram.flip_bit(run, bit);
        let found = SortedView::open_with(&job, Path::new(DIR), &order_of).and_then(|view| {
            view.verify()
                .map(drop)
                .and(read(&view, (0, view.len()), 3000))
        });
        match found {
            Ok(all) => assert!(all == expected, "bit {bit} of {}", run.display()),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Corrupt, "{error}");
                assert_eq!(error.file_path(), Some(run.as_path()), "{error}");
            }
        }
        ram.flip_bit(run, bit);
    }
    let whole = ram.get(manifest_path()).unwrap();
    let changes: [fn(&mut serde_json::Value); 4] = [
        |body| body["rows"]["order"] = "by what nobody knows".into(),
        |body| body["rows"]["description"] = "\u{4e2d}".into(),
        |body| body["rows"] = serde_json::Value::Null,
        |body| body["runs"][0]["bytes"] = serde_json::Value::Null,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        ram.put(manifest_path(), resealed(&whole, change));
        let error = SortedView::open_with(&job, Path::new(DIR), &order_of).map(drop);
        let error = error.unwrap_err();
        assert_eq!(
            error.file_path(),
            Some(manifest_path().as_path()),
            "{number}: {error}"
        );
    }
}
