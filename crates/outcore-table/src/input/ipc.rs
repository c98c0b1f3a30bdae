//! One Arrow IPC file or stream: where its batches are, and how much memory each needs.
//!
//! Contract: [`IpcFile::open`] finds the schema, the blocks of all messages and the rows of each
//! batch. For a file it reads the footer; for a stream it walks from message to message and reads
//! only their metadata. After that, both are read alike, batch by batch and in parallel.
//! Dictionaries are read at their first use. If a stream replaces a dictionary, each batch is
//! decoded with the dictionaries before it. Feather V2 is the file format; the reader rejects
//! Feather V1 and big-endian files with specific errors.
//!
//! Bounds: a batch is read whole, with all its columns. Its compressed and decompressed sizes are
//! checked against the reader's memory before it is decoded. For compressed batches with long
//! values, the sizes are known when the file is opened ([`super::ipc_lens`]); for others, when they
//! are read. The dictionaries of a file take at most a quarter of that memory.

use std::fmt::Display;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{
    Block, Endianness, Message, MessageHeader, MetadataVersion, root_as_footer, root_as_message,
};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use outcore_io::transfers::Transfers;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

use super::ipc_lens::{BatchLens, PackedBuffer};
use super::need::{InputNeed, long_bytes};
use super::parquet::NO_FOOTER;
use super::source::{DriveFile, Fetched, Whole};
use crate::fault::{self, guarded};

const READ: &str = "read Arrow file";
/// Memory for a column in the schema of a file.
const FIELD_BYTES: u64 = 512;
/// The magic at both ends of a file.
pub(super) const MAGIC: &[u8] = b"ARROW1";
/// The first bytes of each message of a stream.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];
/// The trailer after the footer: its length and the magic.
const TRAILER_BYTES: u64 = 10;
/// The prefix of a message: the continuation and its length.
const PREFIX_BYTES: u64 = 8;
/// The first read at each message of a stream; most metadata fit into it.
const STEP_BYTES: u64 = 16 << 10;
/// Dictionaries may take 1/`DICTIONARIES_SHARE` of a reader's memory.
const DICTIONARIES_SHARE: u64 = 4;
/// A reader has at least 1/`READERS_SHARE` of the memory.
const READERS_SHARE: u64 = 8;
const HINT: &str = "the file is damaged or was cut short: copy or write it again";

/// A message with a body.
#[derive(Debug, Clone, Copy)]
struct MessageAt {
    at_bytes: u64,
    metadata_bytes: u32,
    body_bytes: u64,
}

/// A batch, and the number of dictionaries before it.
#[derive(Debug, Clone, Copy)]
struct Batch {
    place: MessageAt,
    dictionaries_count: usize,
    rows_count: u64,
    /// Bytes after decompression; 0 if it is not compressed.
    opened_bytes: u64,
}

/// A file or stream whose messages have been found.
pub(super) struct IpcFile {
    file: Arc<DriveFile>,
    schema: SchemaRef,
    version: MetadataVersion,
    dictionaries: Vec<MessageAt>,
    batches: Vec<Batch>,
    /// For each root column with long values, a bound on its longest value.
    long_bytes: Vec<u64>,
    /// The last decoder used, and how many dictionaries it knows.
    decoder: Mutex<Option<(usize, Arc<FileDecoder>)>>,
}

impl MessageAt {
    fn len_bytes(self) -> u64 {
        u64::from(self.metadata_bytes).saturating_add(self.body_bytes)
    }

    fn range(self) -> Range<u64> {
        self.at_bytes..self.at_bytes.saturating_add(self.len_bytes())
    }

    fn of(block: &Block) -> Result<Self> {
        let place = MessageAt {
            at_bytes: u64::try_from(block.offset())
                .map_err(|_| damaged("a message has a negative place"))?,
            metadata_bytes: u32::try_from(block.metaDataLength())
                .map_err(|_| damaged("a message has a negative length"))?,
            body_bytes: u64::try_from(block.bodyLength())
                .map_err(|_| damaged("a message has a negative length"))?,
        };
        Ok(place)
    }

    /// Converts it to the library's type. Offsets fit, because a file's length is an `i64`.
    fn block(self) -> Block {
        Block::new(
            self.at_bytes as i64,
            self.metadata_bytes as i32,
            self.body_bytes as i64,
        )
    }
}

fn damaged(cause: &str) -> Error {
    Error::corrupt(READ, cause).hint(HINT)
}

fn no_schema() -> Error {
    damaged("the stream has no schema")
}

fn message(bytes: &[u8]) -> Result<Message<'_>> {
    root_as_message(bytes).map_err(|error| invalid("message", error))
}

/// The error for a part that the flatbuffers library rejects. The first line of the library's
/// message has the cause.
fn invalid(part: &str, error: impl Display) -> Error {
    let text = error.to_string();
    let cause = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim_end_matches('.');
    damaged(&format!("an invalid {part}: {cause}"))
}

impl IpcFile {
    /// Finds the messages of `file`, which is a stream if `is_stream`.
    ///
    /// # Errors
    /// Corrupt: an invalid footer or message. I/O.
    pub(super) fn open(file: DriveFile, is_stream: bool) -> Result<Self> {
        let path = file.path().to_path_buf();
        let open = || {
            if is_stream {
                Self::walk(file)
            } else {
                Self::by_footer(file)
            }
        };
        guarded(READ, open).map_err(|error| error.path(path))
    }

    fn by_footer(file: DriveFile) -> Result<Self> {
        let len_bytes = file.len_bytes();
        let cut_short = || {
            let len = units::bytes(len_bytes);
            let cause = format!("the Arrow file ends without a footer, after {len}");
            Error::corrupt(READ, cause).hint(NO_FOOTER)
        };
        let trailer_at = len_bytes.checked_sub(TRAILER_BYTES).ok_or_else(cut_short)?;
        let trailer = file.read(trailer_at, TRAILER_BYTES)?;
        let trailer: [u8; 10] = trailer[..].try_into().map_err(|_| cut_short())?;
        if !trailer.ends_with(MAGIC) {
            return Err(cut_short());
        }
        let footer_bytes =
            read_footer_length(trailer).map_err(|error| fault::arrow(READ, &error))?;
        let footer_at = trailer_at.checked_sub(footer_bytes as u64);
        let footer_at = footer_at.ok_or_else(|| damaged("the footer is longer than the file"))?;
        let bytes = file.read(footer_at, footer_bytes as u64)?;
        let footer = root_as_footer(&bytes).map_err(|error| invalid("footer", error))?;
        let schema = footer
            .schema()
            .ok_or_else(|| damaged("the footer has no schema"))?;
        let schema = schema_of(schema)?;
        let blocks = footer.dictionaries().into_iter().flatten();
        let dictionaries = blocks.map(MessageAt::of).collect::<Result<Vec<_>>>()?;
        let dictionaries_count = dictionaries.len();
        let schema = Arc::new(schema);
        let mut found = FoundBatches::of(&file, &schema, false)?;
        for block in footer.recordBatches().into_iter().flatten() {
            let place = MessageAt::of(block)?;
            let metadata = found.metadata_of(place)?;
            found.add(
                place,
                &message(without_prefix(&metadata))?,
                dictionaries_count,
            )?;
        }
        let (batches, long_bytes) = found.into_parts();
        Ok(IpcFile {
            file: Arc::new(file),
            schema,
            version: footer.version(),
            dictionaries,
            batches,
            long_bytes,
            decoder: Mutex::new(None),
        })
    }

    /// Returns the same file with the sizes that all compressed buffers state.
    pub(super) fn looked_through(&self) -> Result<Self> {
        let mut found = FoundBatches::of(&self.file, &self.schema, true)?;
        for batch in &self.batches {
            let metadata = found.metadata_of(batch.place)?;
            let message = message(without_prefix(&metadata))?;
            found.add(batch.place, &message, batch.dictionaries_count)?;
        }
        let (batches, long_bytes) = found.into_parts();
        Ok(IpcFile {
            file: Arc::clone(&self.file),
            schema: Arc::clone(&self.schema),
            version: self.version,
            dictionaries: self.dictionaries.clone(),
            batches,
            long_bytes,
            decoder: Mutex::new(None),
        })
    }

    fn walk(file: DriveFile) -> Result<Self> {
        let mut transfers = file.queue()?;
        let mut at_bytes = 0;
        let mut found: Option<(SchemaRef, MetadataVersion)> = None;
        let (mut dictionaries, mut batches) = (Vec::new(), None);
        loop {
            if at_bytes >= file.len_bytes() {
                return Err(damaged("the stream ends without its end mark")
                    .offset(at_bytes)
                    .hint("the program that wrote it did not finish: run it again"));
            }
            let Some(metadata) = metadata_at(&file, &mut transfers, at_bytes)? else {
                check_end(&file, &mut transfers, at_bytes + PREFIX_BYTES)?;
                break;
            };
            let message = message(&metadata)?;
            let place = MessageAt {
                at_bytes,
                metadata_bytes: u32::try_from(metadata.len() as u64 + PREFIX_BYTES)
                    .map_err(|_| damaged("a message has 4 GiB or more"))?,
                body_bytes: u64::try_from(message.bodyLength())
                    .map_err(|_| damaged("a message has a negative length"))?,
            };
            let end_bytes = at_bytes.saturating_add(place.len_bytes());
            if end_bytes > file.len_bytes() {
                let cause = format!(
                    "a message of {} is cut short",
                    units::counted(place.len_bytes(), "byte")
                );
                return Err(damaged(&cause).offset(at_bytes));
            }
            match message.header_type() {
                MessageHeader::Schema if found.is_none() => {
                    let schema = message
                        .header_as_schema()
                        .ok_or_else(|| damaged("no schema"))?;
                    let schema = Arc::new(schema_of(schema)?);
                    batches = Some(FoundBatches::of(&file, &schema, false)?);
                    found = Some((schema, message.version()));
                }
                MessageHeader::DictionaryBatch => dictionaries.push(place),
                MessageHeader::RecordBatch => {
                    let batches = batches.as_mut().ok_or_else(no_schema)?;
                    batches.add(place, &message, dictionaries.len())?;
                }
                other => {
                    let cause = format!("a message has the kind {other:?} where a batch must be");
                    return Err(damaged(&cause).offset(at_bytes));
                }
            }
            at_bytes = end_bytes;
        }
        let (schema, version) = found.ok_or_else(no_schema)?;
        drop(transfers);
        let batches = batches.ok_or_else(no_schema)?;
        let (batches, long_bytes) = batches.into_parts();
        Ok(IpcFile {
            file: Arc::new(file),
            schema,
            version,
            dictionaries,
            batches,
            long_bytes,
            decoder: Mutex::new(None),
        })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn file(&self) -> &DriveFile {
        &self.file
    }

    /// Memory for the schema and the list of batches.
    pub(super) fn held_bytes(&self) -> u64 {
        let places = size_of_val(&self.batches[..]) + size_of_val(&self.dictionaries[..]);
        places as u64 + FIELD_BYTES * self.schema.fields().len() as u64
    }

    pub(super) fn batches_count(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn rows_count(&self, batch: usize) -> u64 {
        self.batches[batch].rows_count
    }

    /// Bytes of a batch on the drive.
    pub(super) fn stored_bytes(&self, batch: usize) -> u64 {
        self.batches[batch].place.len_bytes()
    }

    /// The least memory that can read a batch, computed from the known sizes. The dictionaries may
    /// take a quarter of it.
    pub(super) fn memory_min_bytes(&self, batch: usize) -> u64 {
        let opened_bytes = self.batches[batch].opened_bytes;
        let dictionaries = &self.dictionaries[..self.batches[batch].dictionaries_count];
        let dictionaries_bytes = dictionaries.iter().map(|place| place.len_bytes());
        let held_bytes = DICTIONARIES_SHARE.saturating_mul(dictionaries_bytes.sum());
        let read_bytes = self.stored_bytes(batch).saturating_add(opened_bytes);
        read_bytes.max(held_bytes)
    }

    /// A bound on the bytes of a row in these root columns, if values are long; 0 otherwise.
    pub(super) fn long_bytes(&self, columns: &[usize]) -> u64 {
        let columns = columns
            .iter()
            .filter_map(|&column| self.long_bytes.get(column));
        columns.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// The range and memory of a batch that is fetched whole. If it is compressed, its decompressed
    /// size may become known only when it is decoded.
    pub(super) fn whole(&self, batch: usize) -> Whole {
        let place = self.batches[batch].place;
        Whole {
            ranges: vec![place.range()],
            beside_bytes: place.len_bytes(),
        }
    }

    /// Reads a batch from fetched bytes, with its columns `columns` in the file's order.
    ///
    /// # Errors
    /// Memory: it needs more than `memory_bytes`. Corrupt. I/O. Errors of `check`.
    pub(super) fn read(
        &self,
        batch: usize,
        columns: &[usize],
        memory_bytes: u64,
        fetched: &Fetched,
        transfers: &mut Transfers<usize>,
        check: impl Fn() -> Result<()>,
    ) -> Result<RecordBatch> {
        let at = self.batches[batch];
        let located = |error: Error| error.path(self.file.path());
        let fits = |needed_bytes: u64| {
            if needed_bytes <= memory_bytes {
                return Ok(());
            }
            let cause = format!(
                "batch {batch} takes {}, but there is only {} to read it",
                units::bytes(needed_bytes),
                units::bytes(memory_bytes)
            );
            let need = InputNeed {
                piece_bytes: needed_bytes,
                long_bytes: long_bytes(needed_bytes, at.rows_count),
            };
            let enough = units::bytes_exact(need.enough_bytes());
            Err(Error::new(Kind::Memory, READ, cause).hint(format!(
                "allow --memory {enough} or more, or write the file with smaller batches"
            )))
        };
        fits(at.place.len_bytes()).map_err(located)?;
        let decoder = self.decoder(
            at.dictionaries_count,
            memory_bytes / DICTIONARIES_SHARE,
            transfers,
            &check,
        )?;
        let bytes = fetched.bytes(&at.place.range()).map_err(located)?;
        let decode = || {
            let opened_bytes = opened_bytes(&bytes, at.place)?;
            fits(at.place.len_bytes().saturating_add(opened_bytes))?;
            let decoded =
                decoder.read_record_batch(&at.place.block(), &Buffer::from(bytes.clone()));
            let decoded = decoded.map_err(|error| fault::arrow(READ, &error))?;
            let batch = decoded.ok_or_else(|| damaged("a message has no batch"))?;
            batch
                .project(columns)
                .map_err(|error| fault::arrow(READ, &error))
        };
        let place = |error: Error| located(error).offset(at.place.at_bytes);
        guarded(READ, decode).map_err(place)
    }

    fn fetch(
        &self,
        place: MessageAt,
        transfers: &mut Transfers<usize>,
        check: impl Fn() -> Result<()>,
    ) -> Result<Bytes> {
        self.file.read_with(transfers, &place.range(), check)
    }

    /// Returns a decoder that knows the first `count` dictionaries.
    fn decoder(
        &self,
        count: usize,
        memory_bytes: u64,
        transfers: &mut Transfers<usize>,
        check: impl Fn() -> Result<()>,
    ) -> Result<Arc<FileDecoder>> {
        let mut last = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, decoder)) = last.as_ref()
            && *known == count
        {
            return Ok(Arc::clone(decoder));
        }
        let located = |error: Error| error.path(self.file.path());
        let mut decoder = FileDecoder::new(Arc::clone(&self.schema), self.version);
        let (mut held_bytes, mut read_bytes) = (0u64, 0u64);
        for &place in &self.dictionaries[..count] {
            let within = |held_bytes: u64, read_bytes: u64| {
                if held_bytes <= memory_bytes {
                    return Ok(());
                }
                let cause = format!(
                    "the dictionaries take more than {}, a quarter of the memory",
                    units::bytes(memory_bytes)
                );
                // Their decompressed size is known only now, and a reader may have a small share of
                // the memory.
                let stored = self.dictionaries.iter().map(|place| place.len_bytes());
                let stored_bytes = stored.sum::<u64>();
                let so_far_bytes = read_bytes.max(1);
                let times = (held_bytes as f64 / so_far_bytes as f64).max(1.0);
                let all_bytes = (stored_bytes as f64 * times) as u64;
                let need = InputNeed {
                    piece_bytes: READERS_SHARE * DICTIONARIES_SHARE * all_bytes.max(held_bytes),
                    long_bytes: 0,
                };
                let error = Error::new(Kind::Memory, READ, cause);
                Err(located(error.hint(need.hint())))
            };
            held_bytes = held_bytes.saturating_add(place.len_bytes());
            read_bytes = read_bytes.saturating_add(place.len_bytes());
            within(held_bytes, read_bytes)?;
            let bytes = self.fetch(place, transfers, &check)?;
            let read = || {
                held_bytes = held_bytes.saturating_add(opened_bytes(&bytes, place)?);
                within(held_bytes, read_bytes)?;
                let read = decoder.read_dictionary(&place.block(), &Buffer::from(bytes.clone()));
                read.map_err(|error| fault::arrow(READ, &error))
            };
            guarded(READ, read).map_err(|error| located(error).offset(place.at_bytes))?;
        }
        let decoder = Arc::new(decoder);
        *last = Some((count, Arc::clone(&decoder)));
        Ok(decoder)
    }
}

/// Batches whose messages are being inspected.
struct FoundBatches<'f> {
    file: &'f DriveFile,
    schema: SchemaRef,
    transfers: Transfers<usize>,
    /// Whether every compressed buffer is inspected.
    is_exact: bool,
    batches: Vec<Batch>,
    long_bytes: Vec<u64>,
}

impl<'f> FoundBatches<'f> {
    fn of(file: &'f DriveFile, schema: &SchemaRef, is_exact: bool) -> Result<Self> {
        Ok(FoundBatches {
            file,
            transfers: file.queue()?,
            is_exact,
            batches: Vec::new(),
            long_bytes: vec![0; schema.fields().len()],
            schema: Arc::clone(schema),
        })
    }

    /// Reads the header of a message, with the prefix before it.
    fn metadata_of(&mut self, place: MessageAt) -> Result<Bytes> {
        let end_bytes = place.at_bytes.saturating_add(place.metadata_bytes.into());
        let range = place.at_bytes..end_bytes;
        self.file.read_with(&mut self.transfers, &range, || Ok(()))
    }

    fn add(
        &mut self,
        place: MessageAt,
        message: &Message<'_>,
        dictionaries_count: usize,
    ) -> Result<()> {
        let batch = message
            .header_as_record_batch()
            .ok_or_else(|| damaged("a message has no batch"))?;
        let rows_count = u64::try_from(batch.length());
        let rows_count =
            rows_count.map_err(|_| damaged("a batch has a negative number of rows"))?;
        let (file, transfers) = (self.file, &mut self.transfers);
        let body_bytes = place.at_bytes.saturating_add(place.metadata_bytes.into());
        let opened = |buffer: PackedBuffer| {
            let at_bytes = body_bytes.saturating_add(buffer.at_bytes);
            let end_bytes = at_bytes.saturating_add(size_of::<i64>() as u64);
            if buffer.len_bytes == 0 || end_bytes > place.range().end {
                return Ok(0);
            }
            let head = file.read_with(transfers, &(at_bytes..end_bytes), || Ok(()))?;
            let said = head.first_chunk().map(|head| i64::from_le_bytes(*head));
            // -1 means that the buffer is not compressed.
            Ok(said.map_or(0, |said| u64::try_from(said).unwrap_or(buffer.len_bytes)))
        };
        let lens = BatchLens::of(&self.schema, &batch, self.is_exact, opened)?;
        for (most, bytes) in self.long_bytes.iter_mut().zip(lens.long_bytes) {
            *most = bytes.max(*most);
        }
        self.batches.push(Batch {
            place,
            dictionaries_count,
            rows_count,
            opened_bytes: lens.opened_bytes,
        });
        Ok(())
    }

    /// Returns the batches, and the longest value of each column.
    fn into_parts(self) -> (Vec<Batch>, Vec<u64>) {
        (self.batches, self.long_bytes)
    }
}

/// Converts the schema of a little-endian file or stream.
fn schema_of(schema: arrow_ipc::Schema<'_>) -> Result<Schema> {
    if schema.endianness() != Endianness::Little {
        let cause = "its numbers are big-endian";
        return Err(Error::usage(READ, cause).hint(
            "write it again as little-endian: pyarrow swaps the bytes when it reads the file",
        ));
    }
    try_fb_to_schema(schema).map_err(|error| fault::arrow(READ, &error))
}

/// Reads the metadata of the message at `at_bytes` of a stream; `None` at its end mark.
fn metadata_at(
    file: &DriveFile,
    transfers: &mut Transfers<usize>,
    at_bytes: u64,
) -> Result<Option<Bytes>> {
    let end_bytes = file.len_bytes().min(at_bytes.saturating_add(STEP_BYTES));
    let head = file.read_with(transfers, &(at_bytes..end_bytes), || Ok(()))?;
    let Some((prefix, _)) = head.split_first_chunk::<8>() else {
        return Err(damaged("the stream is cut short").offset(at_bytes));
    };
    let [c0, c1, c2, c3, l0, l1, l2, l3] = *prefix;
    if [c0, c1, c2, c3] != CONTINUATION {
        return Err(damaged("no message begins where one must begin").offset(at_bytes));
    }
    let len_bytes = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
    if len_bytes == 0 {
        return Ok(None);
    }
    let from = PREFIX_BYTES as usize;
    if let Some(metadata) = head.get(from..from + len_bytes as usize) {
        return Ok(Some(head.slice_ref(metadata)));
    }
    let from_bytes = at_bytes + PREFIX_BYTES;
    let range = from_bytes..from_bytes.saturating_add(len_bytes);
    file.read_with(transfers, &range, || Ok(())).map(Some)
}

/// Fails if anything except for zeros follows the end mark of a stream. It could be another stream,
/// whose rows would be lost.
fn check_end(file: &DriveFile, transfers: &mut Transfers<usize>, at_bytes: u64) -> Result<()> {
    let end_bytes = file.len_bytes().min(at_bytes.saturating_add(STEP_BYTES));
    let rest = file.read_with(transfers, &(at_bytes.min(end_bytes)..end_bytes), || Ok(()))?;
    match rest.iter().all(|&byte| byte == 0) {
        true => Ok(()),
        false => Err(damaged("there are bytes after the end mark of the stream")
            .offset(at_bytes)
            .hint("put every stream into a file of its own, and name all of them")),
    }
}

/// Strips the prefix: the continuation and the length, or only the length, as old writers wrote it.
fn without_prefix(metadata: &[u8]) -> &[u8] {
    let skip = if metadata.starts_with(&CONTINUATION) {
        8
    } else {
        4
    };
    metadata.get(skip..).unwrap_or(&[])
}

/// Returns the size of a message's body after decompression, or 0 if it is not compressed.
fn opened_bytes(bytes: &[u8], place: MessageAt) -> Result<u64> {
    let (head, body) = bytes
        .split_at_checked(place.metadata_bytes as usize)
        .ok_or_else(|| damaged("a message is shorter than its metadata"))?;
    let message = message(without_prefix(head))?;
    let batch = match message.header_type() {
        MessageHeader::DictionaryBatch => message
            .header_as_dictionary_batch()
            .and_then(|dictionary| dictionary.data()),
        _ => message.header_as_record_batch(),
    };
    let batch = batch.ok_or_else(|| damaged("a message has no batch"))?;
    if batch.compression().is_none() {
        return Ok(0);
    }
    let mut sum_bytes = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let at = usize::try_from(buffer.offset()).unwrap_or(usize::MAX);
        let behind = body.get(at..).unwrap_or(&[]);
        let Some((len, _)) = behind
            .split_first_chunk::<8>()
            .filter(|_| buffer.length() > 0)
        else {
            continue;
        };
        // -1 means that the buffer is not compressed.
        let len_bytes = u64::try_from(i64::from_le_bytes(*len)).unwrap_or(0);
        sum_bytes = sum_bytes.saturating_add(len_bytes);
    }
    Ok(sum_bytes)
}
