//! Reads stay in flight while tables are sorted and grouped, measured with the virtual clock of
//! in-memory drives.
//!
//! Contract: four Parquet files are on four drives and exceed the memory, so rows go through
//! scratch. A reader has the requests of one row group in flight. A row group of usual length (10
//! MB here) needs several requests. For short row groups (100 kB), the requests of the next ones
//! are also in flight.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use outcore_io::drive::testing::RamDevice;
use outcore_table::input::InputOptions;
use outcore_table::jobs::{Aggregate, TableEnds, TableOrder, copy, group_by, sort};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use crate::common::Draw;
use crate::depth;

const ROWS: usize = 400_000;
const GROUP_ROWS: usize = 200_000;
const SHORT_GROUP_ROWS: usize = 2_000;
const MEMORY_KIB: u64 = 64 << 10;
/// The least acceptable median of reads in flight.
const DEPTH_LEAST: usize = 4;

/// Writes a file of numbers and texts to each drive.
fn tables(ram: &RamDevice, group_rows: usize) -> Vec<PathBuf> {
    let put = |drive: usize| {
        let mut draw = Draw::new(drive as u64);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(
            (0..ROWS).map(|_| draw.word() as i64),
        ));
        let text = |_| format!("{:016x}{:016x}", draw.word(), draw.word());
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(text)));
        let batch = RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap();
        let settings = WriterProperties::builder()
            .set_max_row_group_row_count(Some(group_rows))
            .set_dictionary_enabled(false)
            .build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(settings)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let path = PathBuf::from(format!("/d{drive}/in.parquet"));
        ram.put(&path, bytes);
        path
    };
    (0..depth::DRIVES).map(put).collect()
}

#[test]
fn reads_stay_in_flight_in_every_phase_whether_row_groups_are_long_or_short() {
    for group_rows in [GROUP_ROWS, SHORT_GROUP_ROWS] {
        reads_stay_in_flight(group_rows);
    }
}

fn reads_stay_in_flight(group_rows: usize) {
    let ram = depth::drives();
    let inputs = tables(&ram, group_rows);
    let [sorted, grouped, copied] =
        ["sorted", "grouped", "copied"].map(|name| [PathBuf::from(format!("/d0/{name}"))]);
    let (reads, writes) = (
        InputOptions::default(),
        OutputOptions::new(TableFormat::Parquet),
    );
    let ends = |outputs| TableEnds {
        inputs: &inputs,
        reads: &reads,
        outputs,
        writes: &writes,
    };
    let keys = vec![KeyColumn::new("text")];
    let medians = depth::medians_on(&ram, MEMORY_KIB, &mut |job| {
        let order = TableOrder {
            keys: keys.clone(),
            ..TableOrder::default()
        };
        sort(job, &ends(&sorted), &order).unwrap();
    });
    depth::check_reads("sort of a table", &medians, DEPTH_LEAST);
    let medians = depth::medians_on(&ram, MEMORY_KIB, &mut |job| {
        let aggregates = Aggregate::parse_list("sum(id)").unwrap();
        group_by(job, &ends(&grouped), &keys, &aggregates).unwrap();
    });
    depth::check_reads("groups of a table", &medians, DEPTH_LEAST);
    let mut medians = depth::medians_on(&ram, MEMORY_KIB, &mut |job| {
        copy(job, &ends(&copied)).unwrap();
    });
    // Before the copy begins, footers are read.
    medians.retain(|(reading, _)| !reading.phase.is_empty());
    depth::check_reads("copy of a table", &medians, DEPTH_LEAST);
}
