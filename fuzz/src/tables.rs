//! Checks of the fuzz targets for tables. A panic also fails each of them.
//!
//! Contract: each function takes arbitrary bytes. A damaged row is decoded to an error or to other
//! values, never to a panic or a batch with another schema. Directories named `key=value` give a
//! column or a specific error, whatever bytes their names hold. Tests of `outcore-table` run these
//! checks too.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use outcore::sort::lines::rows::RowBatch;
use outcore::{IoMode, Job, JobOptions, Result};
use outcore_table::input::{InputOptions, TableInput};
use outcore_table::rows::{KeyColumn, RowCodec, key_of};

/// Columns of fixed and variable length, with nulls, and a nested one.
fn batch() -> Option<RecordBatch> {
    let lists = [
        Some(vec![Some(1_i64), None, Some(-7)]),
        None,
        Some(Vec::new()),
    ];
    let columns: [(&str, ArrayRef); 4] = [
        ("key", Arc::new(StringArray::from(vec!["b", "a", "c"]))),
        (
            "n",
            Arc::new(Int64Array::from(vec![Some(3), None, Some(i64::MIN)])),
        ),
        (
            "text",
            Arc::new(StringArray::from(vec![
                None,
                Some(""),
                Some("\u{1f600} long enough"),
            ])),
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)),
        ),
    ];
    RecordBatch::try_from_iter(columns).ok()
}

/// Decodes a row that `data` damages. `data` has offsets, each followed by the new byte; 0xff cuts
/// the row off there.
pub fn row(data: &[u8]) {
    let Some(batch) = batch() else { return };
    let Some((choice, patches)) = data.split_first() else {
        return;
    };
    let keys = [KeyColumn::new("key")];
    let Ok(codec) = RowCodec::new(&batch.schema(), &keys) else {
        return;
    };
    let mut rows = RowBatch::default();
    if codec.encode(&batch, &mut rows).is_err() {
        return;
    }
    let Some(row) = rows.iter().nth(usize::from(*choice) % 4) else {
        // The bytes are not derived from any row.
        std::hint::black_box(key_of(patches));
        std::hint::black_box(codec.decode(&[patches]).is_ok());
        return;
    };
    let mut row = row.to_vec();
    for patch in patches.chunks_exact(2) {
        let at = usize::from(patch[0]) % row.len().max(1);
        match (patch[1], row.get_mut(at)) {
            (0xff, _) => row.truncate(at),
            (new, Some(byte)) => *byte = new,
            (_, None) => {}
        }
    }
    std::hint::black_box(key_of(&row));
    if let Ok(decoded) = codec.decode(&[&row]) {
        assert_eq!(decoded.schema(), batch.schema());
        assert_eq!(decoded.num_rows(), 1);
    }
}

/// Opens a table in the directory that `data` names.
pub fn hive(data: &[u8]) {
    let name: Vec<u8> = data
        .iter()
        .copied()
        .filter(|byte| *byte != 0)
        .take(200)
        .collect();
    let Ok(dir) = tempfile::tempdir() else { return };
    let inside = dir.path().join(std::ffi::OsStr::from_bytes(&name));
    // Names that leave the directory are not tried.
    let is_inside = inside.starts_with(dir.path()) && !name.windows(2).any(|pair| pair == b"..");
    if !is_inside || std::fs::create_dir_all(&inside).is_err() {
        return;
    }
    let opened = open(dir.path(), &inside);
    if let Err(error) = opened {
        assert!(!error.cause().is_empty());
    }
}

fn open(root: &std::path::Path, inside: &std::path::Path) -> Result<()> {
    let Some(batch) = batch() else { return Ok(()) };
    let path = inside.join("part.arrow");
    let written = std::fs::File::create(&path).ok().and_then(|file| {
        let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).ok()?;
        writer.write(&batch).ok()?;
        writer.finish().ok()
    });
    if written.is_none() {
        return Ok(());
    }
    let options = JobOptions {
        memory_bytes: 64 << 20,
        threads: 1,
        ..JobOptions::default()
    };
    let job = Job::new(options, IoMode::Buffered);
    let input = TableInput::open(&job, &[root.to_path_buf()], &InputOptions::default())?;
    let mut reader = input.reader(16 << 20)?;
    let mut rows_count = 0;
    for piece in input.pieces() {
        for batch in reader.open(*piece)? {
            rows_count += batch?.num_rows();
        }
    }
    assert_eq!(rows_count, 3);
    Ok(())
}
