//! Requests as a Parquet file.
//!
//! Contract: columns of [`super::COLUMNS`], all required: `flow` and `sectors` INT32 (unsigned),
//! `op` a UTF-8 string from a dictionary, `lba` INT64 (unsigned), times DOUBLE in nanoseconds. Row
//! groups of [`GROUP_ROWS`] bound the memory. No compression, because it would require another
//! library.

use std::fs::File;
use std::sync::Arc;

use outcore_io::{Error, Result};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::{OPERATION, op_name};
use crate::drive::Done;
use crate::quantities::{NS, Ps};

const GROUP_ROWS: usize = 128 << 10;

const SCHEMA: &str = "message request {
    REQUIRED INT32 flow (INTEGER(32, false));
    REQUIRED BYTE_ARRAY op (UTF8);
    REQUIRED INT64 lba (INTEGER(64, false));
    REQUIRED INT32 sectors (INTEGER(32, false));
    REQUIRED DOUBLE arrival_ns;
    REQUIRED DOUBLE enqueue_ns;
    REQUIRED DOUBLE complete_ns;
}";

/// Writes the requests of `log`.
pub(super) fn write(file: &File, log: &[Done]) -> Result<()> {
    write_groups(file, log).map_err(|error| match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(error) => Error::io(OPERATION, &error),
            Err(other) => Error::usage(OPERATION, other.to_string()),
        },
        other => Error::usage(OPERATION, other.to_string()),
    })
}

fn write_groups(file: &File, log: &[Done]) -> std::result::Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties)?;
    for rows in log.chunks(GROUP_ROWS) {
        let mut group = writer.next_row_group()?;
        let ns = |ps: Ps| ps as f64 / NS as f64;
        let times = |of: fn(&Done) -> Ps| rows.iter().map(|done| ns(of(done))).collect();
        let columns = [
            Column::Int32(rows.iter().map(|done| i32::from(done.queue)).collect()),
            Column::Text(rows.iter().map(|done| op_name(done.op).into()).collect()),
            Column::Int64(rows.iter().map(|done| done.lba as i64).collect()),
            Column::Int32(rows.iter().map(|done| done.sectors as i32).collect()),
            Column::Double(times(|done| done.arrival)),
            Column::Double(times(|done| done.enqueued)),
            Column::Double(times(|done| done.completed)),
        ];
        for column in &columns {
            column.write(&mut group)?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

enum Column {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>),
    Text(Vec<ByteArray>),
}

impl Column {
    fn write(
        &self,
        group: &mut SerializedRowGroupWriter<'_, &File>,
    ) -> std::result::Result<(), ParquetError> {
        let mismatch = || ParquetError::General("a column differs from the schema".to_owned());
        let mut column = group.next_column()?.ok_or_else(mismatch)?;
        match (column.untyped(), self) {
            (ColumnWriter::Int32ColumnWriter(out), Column::Int32(values)) => {
                out.write_batch(values, None, None)?;
            }
            (ColumnWriter::Int64ColumnWriter(out), Column::Int64(values)) => {
                out.write_batch(values, None, None)?;
            }
            (ColumnWriter::DoubleColumnWriter(out), Column::Double(values)) => {
                out.write_batch(values, None, None)?;
            }
            (ColumnWriter::ByteArrayColumnWriter(out), Column::Text(values)) => {
                out.write_batch(values, None, None)?;
            }
            _ => return Err(mismatch()),
        }
        column.close()
    }
}

#[cfg(test)]
mod tests {
    use outcore_io::drive::NewFile;

    use super::*;
    use crate::drive::{Op, Status};
    use crate::requests::{COLUMNS, write_requests};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn every_request_comes_back_from_the_parquet_file() {
        let count = GROUP_ROWS as u64 + 5;
        let log: Vec<Done> = (0..count)
            .map(|at| Done {
                tag: 0,
                queue: (at % 3) as u16,
                op: [Op::Read, Op::Write, Op::Trim][at as usize % 3],
                status: Status::Success,
                lba: at << 33,
                sectors: at as u32 % 100,
                arrival: at * 1500,
                enqueued: at * 1501,
                completed: at * 2000,
            })
            .collect();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("requests.parquet");
        let file = NewFile::at(OPERATION, &path, false).unwrap();
        write_requests(&file, &log).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        let names: Vec<&str> = schema.columns().iter().map(|c| c.name()).collect();
        assert_eq!(names, COLUMNS);
        assert_eq!(reader.num_row_groups(), 2);
        let mut seen = 0;
        for (row, done) in reader.get_row_iter(None).unwrap().zip(&log) {
            let row = row.unwrap();
            assert_eq!(row.get_uint(0).unwrap(), u32::from(done.queue));
            assert_eq!(row.get_string(1).unwrap(), op_name(done.op));
            assert_eq!(row.get_ulong(2).unwrap(), done.lba);
            assert_eq!(row.get_uint(3).unwrap(), done.sectors);
            assert_eq!(row.get_double(6).unwrap(), done.completed as f64 / 1000.0);
            seen += 1;
        }
        assert_eq!(seen, log.len());
    }
}
