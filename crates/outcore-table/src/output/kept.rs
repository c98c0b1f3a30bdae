//! The part of a table that a killed run has written, so that the run that continues it writes only
//! the rest.
//!
//! Contract: an output with a journal notes, whenever a section ends, how many sections, rows and
//! bytes its file has ([`KeptSections`]). The [state](KeptSections::take) of a checkpoint has all
//! that the next run needs: these counts, the checksum of all bytes, and the bytes after the last
//! whole block. In Parquet, it also has the metadata of the row groups since the previous
//! checkpoint, as a footer. [`KeptTable::read`] reads the states back and compares the checksum
//! with the file. [`KeptTable::replay`] then appends the row groups to a Parquet writer again. The
//! writer's sink counts their bytes and does not write them
//! ([`Sink::behind`](super::sink::Sink::behind)).
//!
//! Bounds: the metadata of the row groups since the last checkpoint; I/O is a read of the file when
//! it is continued.

use std::hash::Hasher as _;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use outcore::Job;
use outcore::sort::lines::rows::PartsInOutput;
use outcore_io::memory::{BLOCK_BYTES, Budget, Pool};
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::transfers::{ReadRange, Transfers};
use outcore_io::{Error, Result};
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::page_index::PageIndexBuilder;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataBuilder,
    ParquetMetaDataOptions, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use twox_hash::XxHash3_64;

use super::refused::unwritable;
use super::sink::{Front, Sink};
use super::{OpenFile, State, TableFormat, TableOutput, WRITE, Writer};
use crate::fault;

/// The length of a request, and the number of them in flight.
const READ_BYTES: usize = 256 << 10;
const READS: usize = 4;

/// The sections that a file has, for the next checkpoint.
#[derive(Default)]
pub(super) struct KeptSections {
    /// The columns of the row groups since the last checkpoint.
    groups: Vec<Vec<ColumnCloseResult>>,
    /// The row groups before these.
    groups_before: usize,
    /// The state of the file when a section ended, if that was after the last checkpoint.
    end: Option<SectionsEnd>,
}

/// The state of a file at the end of a section.
struct SectionsEnd {
    sections: u64,
    rows: u64,
    groups_count: usize,
    front: Front,
}

/// The state of a checkpoint.
pub(super) struct SectionsState {
    pub(super) sections: u64,
    pub(super) state: Vec<u8>,
}

impl KeptSections {
    /// Starts after the row groups of a killed run.
    pub(super) fn behind(groups_before: usize) -> Self {
        KeptSections {
            groups_before,
            ..KeptSections::default()
        }
    }

    /// Notes a row group.
    pub(super) fn note_group(&mut self, columns: Vec<ColumnCloseResult>) {
        self.groups.push(columns);
    }

    /// Notes the end of a section.
    pub(super) fn note_section(&mut self, sections: u64, rows: u64, front: Front) {
        self.end = Some(SectionsEnd {
            sections,
            rows,
            groups_count: self.groups.len(),
            front,
        });
    }

    /// The state since the last call, if a section has ended; `all` are the row groups of the file.
    ///
    /// # Errors
    /// Usage: metadata that cannot be written.
    pub(super) fn take(&mut self, all: &[RowGroupMetaData]) -> Result<Option<SectionsState>> {
        let Some(end) = self.end.take() else {
            return Ok(None);
        };
        let groups: Vec<_> = self.groups.drain(..end.groups_count).collect();
        let from = self.groups_before;
        self.groups_before += groups.len();
        let mut state = Vec::new();
        let Front {
            len_bytes,
            checksum,
            tail,
        } = end.front;
        let tail_bytes = tail.len() as u64;
        for number in [end.sections, end.rows, len_bytes, checksum, tail_bytes] {
            state.extend_from_slice(&number.to_le_bytes());
        }
        state.extend_from_slice(&tail);
        if let Some(metadata) = all
            .get(from..self.groups_before)
            .filter(|all| !all.is_empty())
        {
            let written = footer_of(metadata, groups, &mut state);
            written.map_err(|error| unwritable(&error))?;
        }
        Ok(Some(SectionsState {
            sections: end.sections,
            state,
        }))
    }
}

/// Appends a footer for row groups with these columns to `state`.
fn footer_of(
    metadata: &[RowGroupMetaData],
    groups: Vec<Vec<ColumnCloseResult>>,
    state: &mut Vec<u8>,
) -> ParquetResult<()> {
    let columns_count = metadata[0].num_columns();
    let mut indexes = PageIndexBuilder::new(groups.len(), columns_count);
    for (group, columns) in groups.into_iter().enumerate() {
        for (place, column) in columns.into_iter().enumerate() {
            if let Some(index) = column.column_index {
                indexes.put_column_index(index, group, place);
            }
            if let Some(mut index) = column.offset_index {
                // The pages are adjacent, and begin where the column was appended.
                let mut offset = metadata[group].column(place).data_page_offset();
                for location in &mut index.page_locations {
                    location.offset = offset;
                    offset += i64::from(location.compressed_page_size);
                }
                indexes.put_offset_index(index, group, place);
            }
        }
    }
    let rows_count = metadata.iter().map(RowGroupMetaData::num_rows).sum();
    let schema = metadata[0].schema_descr_ptr();
    let file = FileMetaData::new(1, rows_count, None, None, schema, None);
    let footer = ParquetMetaDataBuilder::new(file)
        .set_row_groups(metadata.to_vec())
        .set_page_index(Some(Arc::new(indexes.build())))
        .build();
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, &footer).finish()?;
    state.extend_from_slice(&bytes);
    Ok(())
}

impl TableOutput {
    /// Opens the first file, after the part that a killed run has written. If `keeps_sections`, and
    /// if the format allows it, a run that continues this one starts after the last whole section.
    ///
    /// # Errors
    /// As [`TableOutput::create`].
    pub(super) fn begin(
        &self,
        mut kept: Option<KeptTable>,
        keeps_sections: bool,
    ) -> Result<Option<Arc<ArrowRowGroupWriterFactory>>> {
        let (mut first, factory) = self.open_file(0, kept.as_mut())?;
        let mut groups_count = 0;
        let mut state = self.sequencer.lock();
        if let Some(kept) = &kept {
            (state.next, state.rows) = (kept.sections, kept.rows);
            if let Writer::Parquet(writer) = &mut first.writer {
                let replayed = fault::written(WRITE, || {
                    kept.replay(writer).map_err(|error| unwritable(&error))
                });
                groups_count = replayed.map_err(|error| self.located(0, error))?;
            }
        }
        let is_able = match self.options.format {
            TableFormat::Parquet => self.options.bloom_filters.is_empty(),
            TableFormat::Csv | TableFormat::Tsv | TableFormat::JsonLines => true,
            _ => false,
        };
        let keeps_sections = keeps_sections && is_able;
        state.kept = keeps_sections.then(|| KeptSections::behind(groups_count));
        state.file = Some(first);
        Ok(factory)
    }

    /// The number of whole sections that are durably in the file of a job with a journal, with the
    /// state of the sections since the last call. `None` if there is nothing new.
    ///
    /// # Errors
    /// The drive's error; a request to stop.
    pub(crate) fn sections_in_file(&self) -> Result<Option<PartsInOutput>> {
        let mut state = self.sequencer.lock();
        let State { kept, file, .. } = &mut *state;
        let (Some(kept), Some(OpenFile { writer, .. })) = (kept, file) else {
            return Ok(None);
        };
        let (sink, groups) = match writer {
            Writer::Parquet(writer) => (writer.inner(), writer.flushed_row_groups()),
            Writer::Text(sink) => (&**sink, &[][..]),
            Writer::File(_) | Writer::Stream(_) => return Ok(None),
        };
        let Some(SectionsState { sections, state }) = kept.take(groups)? else {
            return Ok(None);
        };
        sink.wait(|| self.job.control.check())?;
        for shard in self.shards() {
            self.volume.device().sync(shard.file.id)?;
        }
        let parts = usize::try_from(sections).unwrap_or(usize::MAX);
        Ok(Some(PartsInOutput { parts, state }))
    }
}

impl State {
    /// Notes the state of the file at the end of a section.
    pub(super) fn note_section(&mut self) -> Result<()> {
        let (Some(kept), Some(file)) = (&mut self.kept, &mut self.file) else {
            return Ok(());
        };
        let sink = match &mut file.writer {
            Writer::Parquet(writer) => {
                // The writer has its own buffer in front of the sink.
                let flushed = writer.flush();
                flushed.map_err(|error| fault::passed_through(WRITE, &error))?;
                writer.inner_mut()
            }
            Writer::Text(sink) => sink,
            Writer::File(_) | Writer::Stream(_) => return Ok(()),
        };
        if let Some(front) = sink.front()? {
            kept.note_section(self.next, self.rows, front);
        }
        Ok(())
    }
}

/// The part of a table that a killed run has written.
pub(crate) struct KeptTable {
    pub(super) sections: u64,
    pub(super) rows: u64,
    pub(super) front: Front,
    /// The checksum of all bytes so far.
    pub(super) sum: XxHash3_64,
    /// Footers of its row groups.
    footers: Vec<Bytes>,
}

impl KeptTable {
    /// The table that a killed run has written, from the `states` of its checkpoints; `None` if the
    /// file has other bytes.
    ///
    /// # Errors
    /// Corrupt: a state that is cut short. The device's error; a request to stop.
    pub(crate) fn read(
        job: &Job,
        volume: &Volume,
        file: &VolumeFile,
        states: &[&[u8]],
    ) -> Result<Option<Self>> {
        const NUMBERS: usize = 5;
        let mut footers = Vec::new();
        let mut last = None;
        for state in states {
            let words = state.as_chunks::<8>().0;
            let words = words.get(..NUMBERS).ok_or_else(cut_short)?;
            let numbers: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
            let &[sections, rows, len_bytes, checksum, tail_bytes] = &numbers[..] else {
                return Err(cut_short());
            };
            let behind = &state[NUMBERS * size_of::<u64>()..];
            let tail_bytes = usize::try_from(tail_bytes).map_err(|_| cut_short())?;
            let (tail, footer) = behind.split_at_checked(tail_bytes).ok_or_else(cut_short)?;
            if !footer.is_empty() {
                footers.push(Bytes::copy_from_slice(footer));
            }
            let front = Front {
                len_bytes,
                checksum,
                tail: tail.to_vec(),
            };
            last = Some((sections, rows, front));
        }
        let Some((sections, rows, front)) = last else {
            return Ok(None);
        };
        let mut sum = XxHash3_64::default();
        let blocks_bytes = front.len_bytes - front.tail.len() as u64;
        let is_whole = read_blocks(job, volume, file, blocks_bytes, &mut sum)?;
        sum.write(&front.tail);
        let is_same = is_whole && sum.finish() == front.checksum;
        Ok(is_same.then_some(KeptTable {
            sections,
            rows,
            front,
            sum,
            footers,
        }))
    }

    /// Appends its row groups to a writer whose sink does not write them; returns their number.
    pub(super) fn replay(&self, writer: &mut SerializedFileWriter<Sink>) -> ParquetResult<usize> {
        let mut count = 0;
        for footer in &self.footers {
            let reader = ParquetMetaDataReader::new();
            let reader = reader.with_page_index_policy(PageIndexPolicy::Optional);
            // The library cannot write a mask again.
            let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
            let reader = reader.with_metadata_options(Some(options));
            let metadata = reader.parse_and_finish(footer)?;
            for number in 0..metadata.num_row_groups() {
                append(writer, &metadata, number)?;
                count += 1;
            }
        }
        Ok(count)
    }
}

fn append(
    writer: &mut SerializedFileWriter<Sink>,
    metadata: &ParquetMetaData,
    number: usize,
) -> ParquetResult<()> {
    let group = metadata.row_group(number);
    let indexes = metadata.page_index_for_row_group(number);
    let mut appended = writer.next_row_group()?;
    for (place, column) in group.columns().iter().enumerate() {
        let close = ColumnCloseResult {
            bytes_written: column.compressed_size() as u64,
            rows_written: group.num_rows() as u64,
            metadata: as_encoded(column)?,
            bloom_filter: None,
            column_index: indexes.column_index(place).cloned(),
            offset_index: indexes.offset_index(place).cloned(),
        };
        appended.append_column(&Passing, close)?;
    }
    appended.close()?;
    Ok(())
}

/// A column as its encoder described it. A footer does not say whether the minimum and the maximum
/// are also written in the fields that old readers use. This depends on the order of the values.
fn as_encoded(column: &ColumnChunkMetaData) -> ParquetResult<ColumnChunkMetaData> {
    let is_signed = column.column_descr().sort_order().is_signed();
    let Some(statistics) = column.statistics().cloned() else {
        return Ok(column.clone());
    };
    macro_rules! with_old {
        ($($kind:ident),*) => {
            match statistics {
                $(Statistics::$kind(values) => {
                    Statistics::$kind(values.with_backwards_compatible_min_max(is_signed))
                })*
            }
        };
    }
    let statistics = with_old!(
        Boolean,
        Int32,
        Int64,
        Int96,
        Float,
        Double,
        ByteArray,
        FixedLenByteArray
    );
    column
        .clone()
        .into_builder()
        .set_statistics(statistics)
        .build()
}

/// Stands for bytes that the file already has; the sink does not write them.
struct Passing;

impl Length for Passing {
    fn len(&self) -> u64 {
        u64::MAX
    }
}

impl ChunkReader for Passing {
    type T = Box<dyn Read>;

    fn get_read(&self, _: u64) -> ParquetResult<Box<dyn Read>> {
        Ok(Box::new(io::repeat(0)))
    }

    fn get_bytes(&self, _: u64, length: usize) -> ParquetResult<Bytes> {
        Ok(Bytes::from(vec![0; length]))
    }
}

/// Adds the first `len_bytes` of a file to `sum`. Returns whether the file has that many bytes.
fn read_blocks(
    job: &Job,
    volume: &Volume,
    file: &VolumeFile,
    len_bytes: u64,
    sum: &mut XxHash3_64,
) -> Result<bool> {
    job.control
        .begin_phase("check unfinished output", len_bytes);
    // The output has not begun to use its memory.
    let budget = Budget::new(Pool::total_bytes(READ_BYTES, READS));
    let pool = Pool::new(&budget, WRITE, READ_BYTES, READS)?;
    let (mut at_bytes, mut left_bytes) = (0, len_bytes);
    let next = |_: &_| {
        let from = at_bytes;
        let wanted = (len_bytes - from).min(READ_BYTES as u64);
        at_bytes += wanted;
        (wanted > 0).then_some(ReadRange {
            file,
            at_bytes: from,
            len_bytes: (wanted as usize).next_multiple_of(BLOCK_BYTES),
            what: wanted as usize,
        })
    };
    let mut transfers = Transfers::new(volume)?;
    transfers.read_in_order(
        &pool,
        || job.control.check(),
        next,
        |arrival| {
            let found_bytes = arrival.len_bytes.min(arrival.what);
            sum.write(&arrival.buf[..found_bytes]);
            left_bytes -= found_bytes as u64;
            Ok(())
        },
    )?;
    Ok(left_bytes == 0)
}

fn cut_short() -> Error {
    Error::corrupt(
        "resume",
        "the record of the killed run's output is cut short",
    )
    .hint("give the killed job up, and begin anew")
}
