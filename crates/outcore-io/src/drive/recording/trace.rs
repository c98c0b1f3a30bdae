//! The trace of a [`super::RecordingDevice`]: records, thread clocks, and the trace file.
//!
//! Contract: writes the format of `docs/formats/io-trace.md` version 1, little-endian. The caller
//! holds the lock and passes the time; no code here reads a clock. Threads, drives and files are
//! numbered in order of first appearance. The header is written at once, and again whenever a drive
//! is new, into the space reserved for it. Memory: the write buffer and one entry per thread,
//! drive, open file and inode.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use std::thread::ThreadId;

use serde::Serialize;

use crate::drive::{FileFacts, FileId};
use crate::error::{Error, Kind, Result};

const MAGIC: [u8; 8] = *b"\x89OCIO\r\n\x1a";
const VERSION: u16 = 1;
pub(super) const RECORD_BYTES: usize = 64;
const PREAMBLE_BYTES: usize = 16;
/// Space for the names of drives, which are unknown at the start.
const DRIVES_JSON_BYTES: usize = 16 << 10;
const BUFFER_BYTES: usize = 256 << 10;
/// Drive number of operations without a drive.
const DRIVE_NONE: u8 = 255;
/// Largest length of one record; freed ranges may be longer.
pub(super) const LEN_BYTES_MAX: u64 = 2 << 30;

pub(super) const KIND_READ: u8 = 1;
pub(super) const KIND_WRITE: u8 = 2;
pub(super) const KIND_SYNC: u8 = 3;
pub(super) const KIND_TRIM: u8 = 4;
const KIND_PHASE: u8 = 13;
const KIND_THREAD_END: u8 = 14;
const KIND_END: u8 = 15;
pub(super) const FLAG_FAILED: u8 = 0x10;

pub(super) const OPERATION: &str = "write I/O trace";

/// Facts about the traced job.
#[derive(Debug, Clone, Default)]
pub struct TraceAbout {
    /// Program and version.
    pub program: String,
    /// The command line.
    pub command: Option<String>,
    /// When the job began, in nanoseconds since 1970; omitted if runs are to be compared.
    pub started_unix_ns: Option<u64>,
    /// Other facts: plan, memory, threads.
    pub job: serde_json::Value,
}

/// Summary of a complete trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSummary {
    /// Requests recorded.
    pub requests: u64,
    /// Threads that submitted these requests.
    pub threads: u32,
    /// Drives that served these requests, in the order of the drives' numbers.
    pub drives: Vec<String>,
    /// Length of the trace.
    pub bytes: u64,
}

/// A trace that is being written. All times count from its start.
pub(super) struct Trace {
    out: BufWriter<File>,
    header: Header,
    json_bytes: usize,
    pub(super) start_ns: u64,
    requests: u64,
    in_flight: u64,
    phase: u32,
    phase_start_ns: u64,
    requests_before_phase: u64,
    /// When the last request or thread of the phase ended, so far.
    quiet_since_ns: u64,
    threads: HashMap<ThreadId, Thread>,
    threads_count: u32,
    drives: Vec<u64>,
    files: HashMap<FileId, (u32, u8)>,
    inodes: HashMap<(u64, u64), u32>,
}

#[derive(Serialize)]
struct Header {
    format: &'static str,
    program: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_unix_ns: Option<u64>,
    drives: Vec<DriveName>,
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    job: serde_json::Value,
}

#[derive(Serialize, Clone)]
struct DriveName {
    name: String,
}

/// One record of the file, in the order of its fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Record {
    reaped: u64,
    offset_bytes: u64,
    pub(super) submit_ns: u64,
    complete_ns: u64,
    think_ns: u64,
    busy_ns: u64,
    outstanding: u32,
    len_bytes: u32,
    file: u32,
    thread: u16,
    drive: u8,
    pub(super) op: u8,
}

impl Record {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        let longs = [
            self.reaped,
            self.offset_bytes,
            self.submit_ns,
            self.complete_ns,
            self.think_ns,
            self.busy_ns,
        ];
        for (place, value) in out[..48].chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        let words = [self.outstanding, self.len_bytes, self.file];
        for (place, value) in out[48..60].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        out[60..62].copy_from_slice(&self.thread.to_le_bytes());
        (out[62], out[63]) = (self.drive, self.op);
        out
    }
}

/// A moment of a thread.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    time_ns: u64,
    /// Time that the thread had waited until this moment.
    blocked_ns: u64,
}

/// A thread of the trace: its number, its live queues, and the clock that the format defines.
#[derive(Debug, Default)]
struct Thread {
    number: u16,
    queues: usize,
    submitted: u64,
    reaped: u64,
    blocked_ns: u64,
    /// Time and CPU time at its last event, if the system reports CPU time.
    ran: Option<(u64, u64)>,
    /// The last submission, or the phase's start.
    at_submit: Mark,
    /// The last completion taken, or the phase's start.
    at_reap: Mark,
}

impl Thread {
    fn start_phase(&mut self, start_ns: u64) {
        self.blocked_ns = 0;
        self.at_submit = Mark {
            time_ns: start_ns,
            blocked_ns: 0,
        };
        self.at_reap = self.at_submit;
    }

    fn mark(&self, now_ns: u64) -> Mark {
        Mark {
            time_ns: now_ns,
            blocked_ns: self.blocked_ns,
        }
    }

    /// Time since `mark` that was not spent waiting for completions.
    fn busy_since(&self, mark: Mark, now_ns: u64) -> u64 {
        now_ns
            .saturating_sub(mark.time_ns)
            .saturating_sub(self.blocked_ns - mark.blocked_ns)
    }

    /// A record with the thread's fields at `now_ns`.
    fn record(&self, now_ns: u64) -> Record {
        let outstanding = self.submitted - self.reaped;
        Record {
            reaped: self.reaped,
            submit_ns: now_ns,
            think_ns: self.busy_since(self.at_reap, now_ns),
            busy_ns: self.busy_since(self.at_submit, now_ns),
            outstanding: u32::try_from(outstanding).unwrap_or(u32::MAX),
            thread: self.number,
            ..Record::default()
        }
    }

    fn submit(&mut self, now_ns: u64) -> Record {
        let record = self.record(now_ns);
        self.submitted += 1;
        self.at_submit = self.mark(now_ns);
        record
    }

    /// Counts time in which the thread did not run as blocked, whatever it waited for.
    fn tick(&mut self, now_ns: u64, cpu_ns: u64) {
        if let Some((then_ns, then_cpu_ns)) = self.ran {
            let ran_ns = cpu_ns.saturating_sub(then_cpu_ns);
            self.blocked_ns += now_ns.saturating_sub(then_ns).saturating_sub(ran_ns);
        }
        self.ran = Some((now_ns, cpu_ns));
    }

    fn block(&mut self, from_ns: u64, to_ns: u64) {
        if self.ran.is_some() {
            // The thread was not running then, and that time has been counted.
            return;
        }
        self.blocked_ns += to_ns.saturating_sub(from_ns);
    }

    fn reap(&mut self, now_ns: u64) {
        self.reaped += 1;
        self.at_reap = self.mark(now_ns);
    }
}

fn failed(error: &io::Error) -> Error {
    Error::io(OPERATION, error).hint("the job itself went on; record it again elsewhere")
}

impl Trace {
    pub(super) fn new(file: File, about: TraceAbout, start_ns: u64) -> Result<Self> {
        let header = Header {
            format: "outcore-io-trace",
            program: about.program,
            command: about.command,
            started_unix_ns: about.started_unix_ns,
            drives: Vec::new(),
            job: about.job,
        };
        let bare_bytes = header_json(&header)?.len() + DRIVES_JSON_BYTES;
        let json_bytes = (PREAMBLE_BYTES + bare_bytes).next_multiple_of(RECORD_BYTES);
        let mut trace = Trace {
            out: BufWriter::with_capacity(BUFFER_BYTES, file),
            header,
            json_bytes: json_bytes - PREAMBLE_BYTES,
            start_ns,
            requests: 0,
            in_flight: 0,
            phase: 0,
            phase_start_ns: 0,
            requests_before_phase: 0,
            quiet_since_ns: 0,
            threads: HashMap::new(),
            threads_count: 0,
            drives: Vec::new(),
            files: HashMap::new(),
            inodes: HashMap::new(),
        };
        trace.write_header()?;
        Ok(trace)
    }

    /// Writes the header (again), with the same length as the first time.
    fn write_header(&mut self) -> Result<()> {
        let mut json = header_json(&self.header)?;
        if json.len() >= self.json_bytes {
            // The names are too long together, so their numbers replace them.
            for (number, drive) in self.header.drives.iter_mut().enumerate() {
                drive.name = format!("d{number}");
            }
            json = header_json(&self.header)?;
        }
        json.resize(self.json_bytes - 1, b' ');
        json.push(b'\n');
        let json_bytes = u32::try_from(json.len())
            .map_err(|_| Error::usage(OPERATION, "the header is longer than 4 GiB"))?;
        let mut write = || -> io::Result<()> {
            self.out.seek(SeekFrom::Start(0))?;
            self.out.write_all(&MAGIC)?;
            self.out.write_all(&VERSION.to_le_bytes())?;
            self.out.write_all(&(RECORD_BYTES as u16).to_le_bytes())?;
            self.out.write_all(&json_bytes.to_le_bytes())?;
            self.out.write_all(&json)?;
            self.out.seek(SeekFrom::End(0))?;
            Ok(())
        };
        write().map_err(|e| failed(&e))
    }

    fn write(&mut self, record: &Record) -> Result<()> {
        self.out.write_all(&record.encode()).map_err(|e| failed(&e))
    }

    /// Number of the drive that holds `file_system`; a new drive gets the name of `dir`.
    pub(super) fn drive_of(&mut self, file_system: u64, dir: &Path) -> Result<u8> {
        if let Some(number) = self.drives.iter().position(|known| *known == file_system) {
            return Ok(number as u8);
        }
        if self.drives.len() == usize::from(DRIVE_NONE) {
            return Ok(DRIVE_NONE);
        }
        self.drives.push(file_system);
        self.header.drives.push(DriveName {
            name: dir.display().to_string(),
        });
        self.write_header()?;
        Ok(self.drives.len() as u8 - 1)
    }

    pub(super) fn opened(&mut self, id: FileId, facts: &FileFacts, path: &Path) -> Result<()> {
        let drive = self.drive_of(facts.file_system, path.parent().unwrap_or(path))?;
        let next = self.inodes.len() as u32;
        let inode = (facts.file_system, facts.inode);
        let number = *self.inodes.entry(inode).or_insert(next);
        self.files.insert(id, (number, drive));
        Ok(())
    }

    /// Adds a thread that has a queue, or performs one operation.
    pub(super) fn join(&mut self, id: ThreadId) -> Result<()> {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.queues += 1;
            return Ok(());
        }
        let Ok(number) = u16::try_from(self.threads_count) else {
            let cause = format!("more than {} threads submitted requests", u16::MAX);
            return Err(Error::usage(OPERATION, cause).hint("record a smaller job"));
        };
        if self.in_flight == 0 && self.requests > self.requests_before_phase {
            self.start_phase()?;
        }
        let mut thread = Thread {
            number,
            queues: 1,
            ..Thread::default()
        };
        thread.start_phase(self.phase_start_ns);
        self.threads_count += 1;
        self.threads.insert(id, thread);
        Ok(())
    }

    /// Restarts all threads' clocks at the time when the last earlier operation was over.
    fn start_phase(&mut self) -> Result<()> {
        self.phase += 1;
        self.phase_start_ns = self.quiet_since_ns;
        self.requests_before_phase = self.requests;
        for thread in self.threads.values_mut() {
            thread.start_phase(self.phase_start_ns);
        }
        self.write(&Record {
            op: KIND_PHASE,
            file: self.phase,
            submit_ns: self.phase_start_ns,
            reaped: self.requests,
            ..Record::default()
        })
    }

    /// Removes a queue of a thread; the thread ends with its last queue.
    pub(super) fn leave(&mut self, id: ThreadId, now_ns: u64) -> Result<()> {
        let Some(thread) = self.threads.get_mut(&id) else {
            return Ok(());
        };
        thread.queues -= 1;
        if thread.queues > 0 {
            return Ok(());
        }
        let end = Record {
            op: KIND_THREAD_END,
            outstanding: 0,
            ..thread.record(now_ns)
        };
        self.threads.remove(&id);
        if self.in_flight == 0 {
            self.quiet_since_ns = now_ns;
        }
        self.write(&end)
    }

    /// The record of a request at submission, without its end.
    pub(super) fn submit(
        &mut self,
        id: ThreadId,
        place: TraceSubject,
        now_ns: u64,
    ) -> Result<Option<Record>> {
        let Some(thread) = self.threads.get_mut(&id) else {
            return Ok(None);
        };
        let none = (u32::MAX, DRIVE_NONE);
        let (file, drive) = self.files.get(&place.file).copied().unwrap_or(none);
        let len_bytes = u32::try_from(place.len_bytes).map_err(|_| {
            let cause = format!("a request of {} bytes", place.len_bytes);
            Error::usage(OPERATION, cause)
        })?;
        self.in_flight += 1;
        Ok(Some(Record {
            op: place.kind,
            offset_bytes: place.offset_bytes,
            len_bytes,
            file,
            drive,
            ..thread.submit(now_ns)
        }))
    }

    /// Writes the record of a request whose completion its thread has taken.
    pub(super) fn complete(&mut self, id: ThreadId, record: Record, now_ns: u64) -> Result<()> {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.reap(now_ns);
        }
        self.requests += 1;
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.quiet_since_ns = now_ns;
        }
        self.write(&Record {
            complete_ns: now_ns,
            ..record
        })
    }

    /// Notes how long a thread has run so far.
    pub(super) fn tick(&mut self, id: ThreadId, now_ns: u64, cpu_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.tick(now_ns, cpu_ns);
        }
    }

    pub(super) fn block(&mut self, id: ThreadId, from_ns: u64, to_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.block(from_ns, to_ns);
        }
    }

    /// Ends the trace. If requests are still in flight, the trace has no records of them and no end
    /// mark.
    pub(super) fn finish(mut self, now_ns: u64) -> Result<TraceSummary> {
        if self.in_flight == 0 {
            let mut left: Vec<(u16, ThreadId)> = Vec::new();
            for (id, thread) in &mut self.threads {
                thread.queues = 1;
                left.push((thread.number, *id));
            }
            left.sort_unstable_by_key(|(number, _)| *number);
            for (_, id) in left {
                self.leave(id, now_ns)?;
            }
            self.write(&Record {
                op: KIND_END,
                submit_ns: now_ns,
                reaped: self.requests,
                ..Record::default()
            })?;
        }
        self.out.flush().map_err(|e| failed(&e))?;
        let bytes = self.out.stream_position().map_err(|e| failed(&e))?;
        let names = self.header.drives.into_iter().map(|drive| drive.name);
        Ok(TraceSummary {
            requests: self.requests,
            threads: self.threads_count,
            drives: names.collect(),
            bytes,
        })
    }
}

/// The fields of a request that its record repeats.
#[derive(Debug, Clone, Copy)]
pub(super) struct TraceSubject {
    pub(super) kind: u8,
    pub(super) file: FileId,
    pub(super) offset_bytes: u64,
    pub(super) len_bytes: u64,
}

fn header_json(header: &Header) -> Result<Vec<u8>> {
    serde_json::to_vec(header).map_err(|e| Error::new(Kind::Io, OPERATION, e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_busy_while_it_runs_and_blocked_while_it_waits_for_whatever() {
        let mut thread = Thread::default();
        thread.tick(1_000, 500);
        thread.submit(1_000);
        // The thread ran for 200 of 1,000, whether it waited for a drive or for another thread.
        thread.tick(2_000, 700);
        thread.block(1_500, 2_000);
        thread.reap(2_000);
        thread.tick(2_100, 800);
        let record = thread.submit(2_100);
        assert_eq!((record.think_ns, record.busy_ns), (100, 300));
    }
}
