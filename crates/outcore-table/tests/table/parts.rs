//! First rows, sampled rows, and tables split in two.
//!
//! Contract: a sample has the right number of rows, keeps their order, and is the same on any
//! number of threads; each row is about equally likely.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use outcore_table::input::{InputOptions, RowSpan};
use outcore_table::jobs::{TableEnds, halves, sample, span};
use outcore_table::output::{OutputOptions, TableFormat};

use crate::common::{job, read_parquet, write_parquet};

fn numbers(path: &std::path::Path) -> Vec<i64> {
    let batch = read_parquet(path);
    batch
        .column(0)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec()
}

struct TableFiles {
    dir: tempfile::TempDir,
    inputs: Vec<PathBuf>,
    outputs: [PathBuf; 1],
    writes: OutputOptions,
    reads: InputOptions,
}

impl TableFiles {
    /// The numbers from 0, in two files.
    fn with(rows: i64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let inputs: Vec<PathBuf> = ["a.parquet", "b.parquet"]
            .map(|name| dir.path().join(name))
            .to_vec();
        let cut = rows / 3;
        for (path, range) in inputs.iter().zip([0..cut, cut..rows]) {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(range));
            let batch = RecordBatch::try_from_iter([("number", numbers)]).unwrap();
            write_parquet(path, &batch, 1_700);
        }
        TableFiles {
            outputs: [dir.path().join("out.parquet")],
            writes: OutputOptions {
                is_replacing: true,
                ..OutputOptions::new(TableFormat::Parquet)
            },
            reads: InputOptions::default(),
            dir,
            inputs,
        }
    }

    fn ends(&self) -> TableEnds<'_> {
        TableEnds {
            inputs: &self.inputs,
            reads: &self.reads,
            outputs: &self.outputs,
            writes: &self.writes,
        }
    }
}

#[test]
fn the_first_rows_are_copied_and_no_more_is_read() {
    let place = TableFiles::with(30_000);
    for count in [0, 1, 1_700, 1_701, 9_999, 10_000, 10_001, 30_000, 40_000] {
        let done = span(&job(64 << 20, 3), &place.ends(), RowSpan::First(count)).unwrap();
        let expected: Vec<i64> = (0..30_000.min(count as i64)).collect();
        assert!(numbers(&place.outputs[0]) == expected, "{count}");
        assert_eq!(done.rows_out, expected.len() as u64);
    }
}

#[test]
fn drawn_rows_are_as_many_as_asked_for_in_order_and_equally_likely() {
    let rows = 12_000;
    let place = TableFiles::with(rows);
    for count in [0, 1, 77, 11_999, 12_000, 20_000] {
        let mut first = None;
        for threads in [1, 3] {
            sample(&job(64 << 20, threads), &place.ends(), count, 7).unwrap();
            let drawn = numbers(&place.outputs[0]);
            assert_eq!(drawn.len() as u64, count.min(rows as u64));
            assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "{count}");
            assert!(*first.get_or_insert_with(|| drawn.clone()) == drawn);
        }
    }
    // In 60 samples of a tenth, each tenth of the table gets a tenth of the rows: 7,200 of 72,000,
    // within 4.5 deviations.
    let mut tenths = [0_i64; 10];
    for seed in 0..60 {
        sample(&job(64 << 20, 2), &place.ends(), 1_200, seed).unwrap();
        for number in numbers(&place.outputs[0]) {
            tenths[(number * 10 / rows) as usize] += 1;
        }
    }
    assert!(
        tenths.iter().all(|&count| (count - 7_200).abs() < 350),
        "{tenths:?}"
    );
}

#[test]
fn a_table_cut_in_two_is_whole_and_appears_whole() {
    let place = TableFiles::with(12_000);
    let rest = place.dir.path().join("rest.parquet");
    for share in [0.0, 0.25, 0.9, 1.0] {
        let job = job(64 << 20, 2);
        let (one, other) = halves(&job, &place.ends(), share, 3, &rest, &place.writes).unwrap();
        assert_eq!(job.budget.used_bytes(), 0);
        assert_eq!(one.rows_out, (12_000.0 * share) as u64);
        assert_eq!(one.rows_out + other.rows_out, 12_000);
        let mut both = [numbers(&place.outputs[0]), numbers(&rest)].concat();
        both.sort_unstable();
        assert!(both == (0..12_000).collect::<Vec<i64>>());
    }
    let names = || {
        let entries = std::fs::read_dir(place.dir.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    std::fs::remove_file(&place.outputs[0]).unwrap();
    std::fs::remove_file(&rest).unwrap();
    let before = names();
    assert!(
        halves(
            &job(64 << 20, 2),
            &place.ends(),
            1.5,
            3,
            &rest,
            &place.writes
        )
        .is_err()
    );
    // The second output cannot be created, so the first does not appear.
    let missing = place.dir.path().join("no/rest.parquet");
    let failed = halves(
        &job(64 << 20, 2),
        &place.ends(),
        0.5,
        3,
        &missing,
        &place.writes,
    );
    assert!(failed.is_err());
    assert_eq!(names(), before);
}
