//! The journal of a job that can be resumed: append-only records in its private directory.
//!
//! Contract: a [`Journal`] is a file of records, each with its length, its kind and a checksum that
//! continues the checksum of the record before it. Records count once a commit follows them:
//! [`Journal::commit`] writes all of them, syncs the file, and only then returns. The caller syncs
//! the data that the records vouch for before it commits. [`read`] passes on the records before the
//! last commit, and ignores everything after it: a torn or damaged tail ends the journal at the
//! last commit before it. A journal of another version is not read.
//!
//! Format: little-endian. Each record begins at a multiple of 16 bytes and consists of the
//! payload's length (u32), kind (u32), checksum (u64), payload and zeros. The checksum is XXH3,
//! seeded with the checksum of the previous record. After a commit, zeros fill the block of 4 KiB,
//! so that every write is aligned.
//!
//! Bounds: one buffer of [`BUFFER_BYTES`]; a record of at most [`PAYLOAD_BYTES_MAX`].

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checksum::seeded_checksum;
use crate::drive::{Access, PrivateDir};
use crate::error::{Error, Result};
use crate::memory::{BLOCK_BYTES, Budget, Buf, Pool};
use crate::port::{Volume, VolumeFile};
use crate::transfers::{Transfers, no_buffer};

/// The name of a journal in its private directory.
const JOURNAL: &str = "journal";
/// The line of a job's ledger for a journal, and its bytes.
pub const JOURNAL_LINE: &str = "journal";
/// Memory of a journal.
pub const BUFFER_BYTES: usize = 256 << 10;
/// Longest payload of a record.
const PAYLOAD_BYTES_MAX: usize = 64 << 10;

const VERSION: u32 = 4;
const HEADER_BYTES: usize = 16;
/// Seed of the first record's checksum.
const FIRST_SUM: u64 = 0x6f75_7463_6f72_6521;
/// Kinds of records that the journal writes itself; callers use larger ones.
const OPENING: u32 = 1;
const COMMIT: u32 = 2;
/// The first kind for callers.
pub const KINDS_FROM: u32 = 16;
const WRITE: &str = "write journal";

/// How far a job had come at a commit, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
pub struct Progress {
    /// Bytes of all phases that are done.
    pub done_bytes: u64,
    /// Bytes of all phases.
    pub total_bytes: u64,
}

/// The end of a journal that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalEnd {
    at_bytes: u64,
    sum: u64,
    /// The progress at the last commit.
    pub progress: Progress,
    /// Bytes of the file after the last commit. They do not count: a kill has torn them, or they
    /// are damaged.
    pub tail_bytes: u64,
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: VolumeFile,
    pool: Pool,
    buf: Option<Buf>,
    filled_bytes: usize,
    /// The offset of the buffer in the file.
    at_bytes: u64,
    sum: u64,
}

impl Journal {
    /// A new journal in `dir`, with a buffer from the line [`JOURNAL_LINE`] of `budget`.
    ///
    /// # Errors
    /// The device's error; memory.
    pub fn create(volume: &Volume, dir: &PrivateDir, budget: &Budget) -> Result<Self> {
        let file = volume.open(&dir.path().join(JOURNAL), Access::Create)?;
        let mut journal = Self::on(file, budget, 0, FIRST_SUM)?;
        journal.append(volume, OPENING, &VERSION.to_le_bytes())?;
        Ok(journal)
    }

    /// The journal in `dir`, to be continued at `end`; the rest of the file is cut off.
    ///
    /// # Errors
    /// The device's error; memory.
    pub fn reopen(
        volume: &Volume,
        dir: &PrivateDir,
        budget: &Budget,
        end: JournalEnd,
    ) -> Result<Self> {
        let file = volume.open(&dir.path().join(JOURNAL), Access::Update)?;
        volume.device().set_len(file.id, end.at_bytes)?;
        Self::on(file, budget, end.at_bytes, end.sum)
    }

    fn on(file: VolumeFile, budget: &Budget, at_bytes: u64, sum: u64) -> Result<Self> {
        let pool = Pool::new(budget, JOURNAL_LINE, BUFFER_BYTES, 1)?;
        let buf = pool.take();
        Ok(Journal {
            file,
            pool,
            buf,
            filled_bytes: 0,
            at_bytes,
            sum,
        })
    }

    /// Appends a record, which counts after the next commit.
    ///
    /// # Errors
    /// The device's error.
    ///
    /// # Panics
    /// If the payload is longer than [`PAYLOAD_BYTES_MAX`].
    pub fn append(&mut self, volume: &Volume, kind: u32, payload: &[u8]) -> Result<()> {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX, "{}", payload.len());
        let header = header_of(self.sum, kind, payload);
        self.sum = sum_of(&header);
        self.put(volume, &header)?;
        self.put(volume, payload)?;
        let padding = payload.len().next_multiple_of(HEADER_BYTES) - payload.len();
        self.put(volume, &[0; HEADER_BYTES][..padding])
    }

    /// Appends a value as a record.
    ///
    /// # Errors
    /// As [`Journal::append`]; a value that cannot be written as text.
    pub fn append_value(
        &mut self,
        volume: &Volume,
        kind: u32,
        value: &impl Serialize,
    ) -> Result<()> {
        let text = serde_json::to_vec(value);
        let text = text.map_err(|error| Error::usage(WRITE, error.to_string()))?;
        // Parts of a long text are consecutive records of one kind; the last one is shorter.
        for part in text.chunks(PAYLOAD_BYTES_MAX) {
            self.append(volume, kind, part)?;
        }
        match text.len().is_multiple_of(PAYLOAD_BYTES_MAX) {
            true => self.append(volume, kind, &[]),
            false => Ok(()),
        }
    }

    /// Makes all records so far durable.
    ///
    /// # Errors
    /// The device's error.
    pub fn commit(&mut self, volume: &Volume, progress: Progress) -> Result<()> {
        self.append_value(volume, COMMIT, &progress)?;
        let end_bytes = self.filled_bytes.next_multiple_of(BLOCK_BYTES);
        let buf = self.buf.as_mut().ok_or_else(no_buffer)?;
        buf[self.filled_bytes..end_bytes].fill(0);
        self.filled_bytes = end_bytes;
        self.write(volume)?;
        volume.device().sync(self.file.id)
    }

    /// Closes its file.
    pub fn close(self, volume: &Volume) {
        volume.close(&self.file);
    }

    fn put(&mut self, volume: &Volume, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let buf = self.buf.as_mut().ok_or_else(no_buffer)?;
            let now = bytes.len().min(buf.len() - self.filled_bytes);
            buf[self.filled_bytes..self.filled_bytes + now].copy_from_slice(&bytes[..now]);
            self.filled_bytes += now;
            bytes = &bytes[now..];
            if self.filled_bytes == buf.len() {
                self.write(volume)?;
            }
        }
        Ok(())
    }

    /// Writes the filled part of the buffer, which is a number of blocks.
    fn write(&mut self, volume: &Volume) -> Result<()> {
        if self.filled_bytes == 0 {
            return Ok(());
        }
        let mut buf = self.buf.take().ok_or_else(no_buffer)?;
        let part = buf.split_to(self.filled_bytes);
        let mut transfers = Transfers::new(volume)?;
        transfers.write(&self.file, self.at_bytes, part, ());
        transfers.next(|| Ok(()))?;
        self.at_bytes += self.filled_bytes as u64;
        self.filled_bytes = 0;
        // The slot is free once all of it has come back.
        drop((transfers, buf));
        self.buf = self.pool.take();
        Ok(())
    }
}

fn header_of(sum: u64, kind: u32, payload: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..8].copy_from_slice(&kind.to_le_bytes());
    let front = u64::from_le_bytes(header[..8].try_into().unwrap_or_default());
    let sum = seeded_checksum(sum ^ front, payload);
    header[8..].copy_from_slice(&sum.to_le_bytes());
    header
}

fn sum_of(header: &[u8; HEADER_BYTES]) -> u64 {
    u64::from_le_bytes(header[8..].try_into().unwrap_or_default())
}

/// A record of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The kind of the record.
    pub kind: u32,
    /// The payload of the record; for a value, all parts of its text together.
    pub payload: Vec<u8>,
}

impl Record {
    /// The value that [`Journal::append_value`] wrote.
    ///
    /// # Errors
    /// Corrupt: it is another value.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.payload)
            .map_err(|error| Error::corrupt("read journal", error.to_string()))
    }
}

/// Reads records one after another until one is torn or damaged.
struct Scan {
    file: File,
    at_bytes: u64,
    sum: u64,
}

impl Scan {
    /// The next valid record.
    fn next(&mut self) -> io::Result<Option<Record>> {
        loop {
            let mut header = [0; HEADER_BYTES];
            if !self.fill(&mut header)? {
                return Ok(None);
            }
            if header == [0; HEADER_BYTES] {
                // The rest of the block after a commit.
                let next_bytes = self.at_bytes.next_multiple_of(BLOCK_BYTES as u64);
                if next_bytes == self.at_bytes {
                    return Ok(None);
                }
                self.at_bytes = self.file.seek(SeekFrom::Start(next_bytes))?;
                continue;
            }
            let word =
                |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default());
            let (len_bytes, kind) = (word(0) as usize, word(4));
            if len_bytes > PAYLOAD_BYTES_MAX {
                return Ok(None);
            }
            let mut payload = vec![0; len_bytes.next_multiple_of(HEADER_BYTES)];
            if !self.fill(&mut payload)? {
                return Ok(None);
            }
            payload.truncate(len_bytes);
            if header_of(self.sum, kind, &payload) != header {
                return Ok(None);
            }
            self.at_bytes += (HEADER_BYTES + len_bytes.next_multiple_of(HEADER_BYTES)) as u64;
            self.sum = sum_of(&header);
            return Ok(Some(Record { kind, payload }));
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.file.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn scan(file: &File) -> io::Result<Scan> {
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(0))?;
    Ok(Scan {
        file,
        at_bytes: 0,
        sum: FIRST_SUM,
    })
}

/// The end of the last commit in a journal; `None` if there is none, or if the journal has another
/// version.
fn end_of(file: &File) -> io::Result<Option<JournalEnd>> {
    let mut records = scan(file)?;
    let first = records.next()?;
    let is_known =
        first.is_some_and(|first| first.kind == OPENING && first.payload == VERSION.to_le_bytes());
    let len_bytes = file.metadata()?.len();
    let mut end = None;
    while is_known && let Some(record) = records.next()? {
        if record.kind == COMMIT {
            let at_bytes = records.at_bytes.next_multiple_of(BLOCK_BYTES as u64);
            end = Some(JournalEnd {
                at_bytes,
                sum: records.sum,
                progress: record.value().unwrap_or_default(),
                tail_bytes: len_bytes.saturating_sub(at_bytes),
            });
        }
    }
    Ok(end)
}

/// Reads the journal in `dir`, and passes each record that counts to `take`, in order. Returns the
/// end of the journal; `None` if no record counts, or there is no journal.
///
/// # Errors
/// The system's error; the errors of `take`.
pub fn read(
    dir: &PrivateDir,
    mut take: impl FnMut(Record) -> Result<()>,
) -> Result<Option<JournalEnd>> {
    let failed = |error: io::Error| Error::io("read journal", &error).path(path_in(dir.path()));
    // Another error than that of a missing file comes from opening it.
    if matches!(path_in(dir.path()).try_exists(), Ok(false)) {
        return Ok(None);
    }
    let file = dir.open_file(JOURNAL)?;
    let Some(end) = end_of(&file).map_err(failed)? else {
        return Ok(None);
    };
    let mut records = scan(&file).map_err(failed)?;
    let mut text: Option<Record> = None;
    while records.sum != end.sum
        && let Some(record) = records.next().map_err(failed)?
    {
        // The parts of a value's text.
        let record = match text.take() {
            Some(mut begun) if begun.kind == record.kind => {
                begun.payload.extend_from_slice(&record.payload);
                (begun, record.payload.len())
            }
            _ => {
                let len_bytes = record.payload.len();
                (record, len_bytes)
            }
        };
        match record {
            (record, PAYLOAD_BYTES_MAX) => text = Some(record),
            (record, _) if record.kind >= KINDS_FROM => take(record)?,
            _ => {}
        }
    }
    Ok(Some(end))
}

/// The progress of the job whose journal is at `path`; `None` if nothing can be resumed.
pub fn progress_at(path: &Path) -> Option<Progress> {
    let file = File::open(path).ok()?;
    end_of(&file).ok()?.map(|end| end.progress)
}

/// The path of the journal in a private directory.
pub fn path_in(dir: &Path) -> PathBuf {
    dir.join(JOURNAL)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::IoMode;
    use crate::drive::Device;
    use crate::drive::os::OsDevice;
    use proptest::prelude::*;

    struct Kit {
        volume: Volume,
        dir: PrivateDir,
        _place: tempfile::TempDir,
    }

    fn kit() -> Kit {
        let place = tempfile::tempdir().unwrap();
        let device: Arc<dyn Device> = Arc::new(OsDevice::new(IoMode::Auto));
        let dir = device.make_private_dir(place.path()).unwrap();
        Kit {
            volume: Volume::new(device, &[]).unwrap(),
            dir,
            _place: place,
        }
    }

    fn budget() -> Budget {
        Budget::new(1 << 20)
    }

    impl Kit {
        fn path(&self) -> PathBuf {
            path_in(self.dir.path())
        }

        /// The payloads of the records that count, and the end.
        fn found(&self) -> (Vec<Vec<u8>>, Option<JournalEnd>) {
            let mut found = Vec::new();
            let end = read(&self.dir, |record| {
                found.push(record.payload);
                Ok(())
            });
            (found, end.unwrap())
        }
    }

    fn done(done_bytes: u64) -> Progress {
        Progress {
            done_bytes,
            total_bytes: 9,
        }
    }

    /// Payloads of several commits, some longer than the buffer together.
    fn groups() -> Vec<Vec<Vec<u8>>> {
        let long = |byte: u8| vec![byte; PAYLOAD_BYTES_MAX - 5];
        vec![
            vec![b"one".to_vec(), vec![0; 100]],
            (0..9).map(long).collect(),
            vec![vec![], vec![7; 4096]],
        ]
    }

    fn write_groups(kit: &Kit) {
        let mut journal = Journal::create(&kit.volume, &kit.dir, &budget()).unwrap();
        for (number, group) in groups().iter().enumerate() {
            for payload in group {
                journal.append(&kit.volume, KINDS_FROM, payload).unwrap();
            }
            journal.commit(&kit.volume, done(number as u64)).unwrap();
        }
    }

    #[test]
    fn records_count_from_their_commit_on_and_a_journal_is_continued() {
        let kit = kit();
        let mut journal = Journal::create(&kit.volume, &kit.dir, &budget()).unwrap();
        journal.append(&kit.volume, 20, b"first").unwrap();
        assert_eq!(kit.found(), (vec![], None), "nothing is committed");
        journal.commit(&kit.volume, done(1)).unwrap();
        journal.append(&kit.volume, 20, &[1; 60_000]).unwrap();
        for _ in 0..9 {
            // Enough records that the buffer is written before any commit.
            journal.append(&kit.volume, 20, &[2; 60_000]).unwrap();
        }
        drop(journal);
        let (found, end) = kit.found();
        assert_eq!(found, [b"first"]);
        let end = end.unwrap();
        assert_eq!(end.progress, done(1));
        let mut journal = Journal::reopen(&kit.volume, &kit.dir, &budget(), end).unwrap();
        journal.append(&kit.volume, 20, b"second").unwrap();
        journal.commit(&kit.volume, done(2)).unwrap();
        let (found, end) = kit.found();
        assert_eq!(found, [b"first".to_vec(), b"second".to_vec()]);
        assert_eq!(end.unwrap().progress, done(2));
        assert_eq!(progress_at(&kit.path()), Some(done(2)));
    }

    #[test]
    fn values_of_any_length_come_back() {
        let kit = kit();
        let mut journal = Journal::create(&kit.volume, &kit.dir, &budget()).unwrap();
        let exact = "x".repeat(2 * PAYLOAD_BYTES_MAX - 2);
        let texts = ["a".to_string(), "b".repeat(200_000), exact, "c".to_string()];
        for text in &texts {
            journal.append_value(&kit.volume, 30, text).unwrap();
        }
        journal.commit(&kit.volume, done(1)).unwrap();
        let mut found = Vec::new();
        read(&kit.dir, |record| {
            found.push(record.value::<String>()?);
            Ok(())
        })
        .unwrap();
        assert_eq!(found, texts);
    }

    #[test]
    fn a_torn_tail_ends_the_journal_at_a_commit_before_it() {
        let kit = kit();
        write_groups(&kit);
        let whole = std::fs::read(kit.path()).unwrap();
        let all: Vec<Vec<u8>> = groups().concat();
        let counts = [0, 2, 11, 13];
        let mut seen = std::collections::BTreeSet::new();
        for len in (0..whole.len()).step_by(509).chain([whole.len()]) {
            std::fs::write(kit.path(), &whole[..len]).unwrap();
            let (found, _) = kit.found();
            assert!(counts.contains(&found.len()), "{len}: {}", found.len());
            assert_eq!(found, all[..found.len()], "{len}");
            seen.insert(found.len());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), counts);
    }

    #[test]
    fn another_version_is_not_read() {
        let kit = kit();
        let mut journal = Journal::on(
            kit.volume.open(&kit.path(), Access::Create).unwrap(),
            &budget(),
            0,
            FIRST_SUM,
        )
        .unwrap();
        let next = (VERSION + 1).to_le_bytes();
        journal.append(&kit.volume, OPENING, &next).unwrap();
        journal.append(&kit.volume, 20, b"later").unwrap();
        journal.commit(&kit.volume, done(1)).unwrap();
        assert_eq!(kit.found(), (vec![], None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn a_flipped_bit_never_changes_a_record_that_counts(at: usize, bit in 0u8..8) {
            let kit = kit();
            write_groups(&kit);
            let mut bytes = std::fs::read(kit.path()).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            std::fs::write(kit.path(), &bytes).unwrap();
            let (found, _) = kit.found();
            let all: Vec<Vec<u8>> = groups().concat();
            prop_assert_eq!(&found[..], &all[..found.len()]);
        }
    }
}
