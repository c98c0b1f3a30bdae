//! Every single I/O operation of a small job fails once: the job reports a specific error, and no
//! file remains.
//!
//! Contract: the number of the failing operation runs from 1 until a job needs fewer operations; a
//! few dozen jobs of 3,000 rows.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use outcore::{IoMode, Job, JobOptions, Kind, Result};
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::FaultDevice;
use outcore_table::input::InputOptions;
use outcore_table::jobs::{self, ColumnPair, Join, Keep, TableEnds};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;

fn write_input(path: &Path) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3_000));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    for from in (0..3_000).step_by(1_000) {
        writer.write(&batch.slice(from, 1_000)).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

/// Runs `work` from one file to another, with each operation failing once.
fn walk(work: impl Fn(&Job, &TableEnds<'_>) -> Result<u64>, format: TableFormat) {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (
        dir.path().join("in.parquet"),
        dir.path().join("out.parquet"),
    );
    write_input(&input);
    let mut is_done = false;
    let (mut nth, mut failed) = (1, 0);
    while !is_done {
        let plan = format!("eio@{nth}").parse().unwrap();
        let device = Arc::new(FaultDevice::new(
            Arc::new(OsDevice::new(IoMode::Auto)),
            plan,
        ));
        let options = JobOptions {
            memory_bytes: 32 << 20,
            threads: 2,
            ..JobOptions::default()
        };
        let job = Job::on(options, Arc::clone(&device) as _);
        let ends = TableEnds {
            inputs: std::slice::from_ref(&input),
            reads: &InputOptions::default(),
            outputs: std::slice::from_ref(&out),
            writes: &OutputOptions::new(format),
        };
        let result = work(&job, &ends);
        is_done = device.operations() < nth;
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        match result {
            // A fault after the rename, or while private directories are removed, does not fail the
            // job.
            Ok(rows_out) => {
                assert_eq!(rows_out, 3_000, "operation {nth}");
                assert!(out.exists());
                std::fs::remove_file(&out).unwrap();
            }
            Err(error) => {
                failed += 1;
                let named = error.file_path().is_some() || !error.operation().is_empty();
                assert!(named && !error.cause().is_empty(), "{nth}: {error}");
                assert!(left <= 2, "operation {nth}: {left} entries; {error}");
                let _ = std::fs::remove_file(&out);
            }
        }
        assert_eq!(job.budget.used_bytes(), 0, "operation {nth}");
        nth += 1;
    }
    assert!(failed > 10, "{failed} of {nth}");
    // A later run removed the files that the failed one could not remove.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn each_failed_operation_of_a_copy_is_a_named_error_and_leaves_nothing() {
    for format in [TableFormat::Parquet, TableFormat::ArrowStream] {
        walk(|job, ends| Ok(jobs::copy(job, ends)?.rows_out), format);
    }
}

#[test]
fn each_failed_operation_of_a_join_is_a_named_error_and_leaves_nothing() {
    let wanted = Join {
        on: vec![ColumnPair::parse("id").unwrap()],
        ..Join::default()
    };
    let work = |job: &Job, ends: &TableEnds<'_>| {
        Ok(jobs::join(job, ends, (ends.inputs, ends.reads), &wanted)?.rows_out)
    };
    walk(work, TableFormat::Parquet);
}

#[test]
fn neither_of_two_tables_appears_where_there_is_no_room_for_both() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (input, kept, removed) = (
        path("in.parquet"),
        path("kept.parquet"),
        path("removed.parquet"),
    );
    write_input(&input);
    let writes = OutputOptions::new(TableFormat::Parquet);
    let (mut nth, mut failed) = (1, 0);
    loop {
        let plan = format!("enospc@{nth}:write").parse().unwrap();
        let device = Arc::new(FaultDevice::new(
            Arc::new(OsDevice::new(IoMode::Auto)),
            plan,
        ));
        let options = JobOptions {
            memory_bytes: 32 << 20,
            threads: 2,
            ..JobOptions::default()
        };
        let job = Job::on(options, Arc::clone(&device) as _);
        let inputs = [input.clone(), input.clone()];
        let ends = TableEnds {
            inputs: &inputs,
            reads: &InputOptions::default(),
            outputs: std::slice::from_ref(&kept),
            writes: &writes,
        };
        let by = (&[KeyColumn::new("id")][..], &Keep::First);
        let done = jobs::dedup(&job, &ends, by, Some((&removed, &writes)));
        if device.operations() < nth {
            done.unwrap();
            break;
        }
        let error = done.unwrap_err();
        assert_eq!(error.kind(), Kind::NoSpace, "write {nth}: {error}");
        assert!(!kept.exists() && !removed.exists(), "write {nth}: {error}");
        (nth, failed) = (nth + 1, failed + 1);
    }
    assert!(failed > 1, "{failed}");
    assert!(kept.exists() && removed.exists());
}
