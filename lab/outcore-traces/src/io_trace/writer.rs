//! Writes outcore's I/O trace, and implements the clock that a submitting thread keeps for it.
//!
//! Contract: one `write_all` of 64 bytes per entry (pass a `BufWriter`); counts requests for the
//! end mark. [`ThreadClock`] is the reference for the four dependency fields; the engine's own
//! recorder computes the same values.

use std::io::{self, Write};

use crate::io_trace::{
    Entry, FORMAT_NAME, Header, IoOp, MAGIC, PREAMBLE_BYTES, RECORD_BYTES, Record, VERSION,
};

/// Writes a trace.
pub struct Writer<W: Write> {
    out: W,
    requests: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the header, padded to a multiple of 64 bytes.
    ///
    /// # Errors
    /// The stream fails, or the header's JSON is longer than 4 GiB.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        let header = Header {
            format: FORMAT_NAME.into(),
            ..header.clone()
        };
        let mut json = serde_json::to_vec(&header)?;
        // Blanks are white space in JSON. The line end helps readers who print the text.
        let padded = (PREAMBLE_BYTES + json.len() + 1).next_multiple_of(RECORD_BYTES);
        json.resize(padded - PREAMBLE_BYTES - 1, b' ');
        json.push(b'\n');
        let json_bytes = u32::try_from(json.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the header is too long"))?;
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&(RECORD_BYTES as u16).to_le_bytes())?;
        out.write_all(&json_bytes.to_le_bytes())?;
        out.write_all(&json)?;
        Ok(Writer { out, requests: 0 })
    }

    /// Adds a completed request.
    ///
    /// # Errors
    /// The stream fails.
    pub fn request(&mut self, record: &Record) -> io::Result<()> {
        self.requests += 1;
        self.put(&Entry::Request(*record))
    }

    /// Marks that everything before it is complete and that `phase` begins.
    ///
    /// # Errors
    /// The stream fails.
    pub fn phase(&mut self, phase: u32, time_ns: u64) -> io::Result<()> {
        let requests = self.requests;
        self.put(&Entry::Phase {
            phase,
            time_ns,
            requests,
        })
    }

    /// Marks the end of `thread` with its clock `clock`. All its requests must have been recorded.
    ///
    /// # Errors
    /// The stream fails.
    pub fn thread_end(&mut self, thread: u16, clock: &ThreadClock, time_ns: u64) -> io::Result<()> {
        let (think_ns, busy_ns) = clock.busy_at(time_ns);
        let reaped = clock.reaped;
        self.put(&Entry::ThreadEnd {
            thread,
            time_ns,
            reaped,
            think_ns,
            busy_ns,
        })
    }

    /// Writes the end mark, flushes, and returns the stream.
    ///
    /// # Errors
    /// The stream fails.
    pub fn finish(mut self, time_ns: u64) -> io::Result<W> {
        let requests = self.requests;
        self.put(&Entry::End { time_ns, requests })?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Adds any entry unchanged.
    pub(crate) fn put(&mut self, entry: &Entry) -> io::Result<()> {
        self.out.write_all(&entry.encode())
    }
}

/// A submitting thread's record of its own dependencies.
///
/// Call `blocked` for each wait for completions, `reaped` for each completion taken, and
/// `submitted` for each request. Times are nanoseconds of the trace's clock and never run backwards
/// within a thread.
#[derive(Debug, Clone, Default)]
pub struct ThreadClock {
    submitted: u64,
    reaped: u64,
    /// Time spent blocked since the start of the phase.
    blocked_ns: u64,
    /// Time and blocked time at the last submission or at the phase's start.
    at_submit: (u64, u64),
    /// Time and blocked time at the last taken completion or at the phase's start.
    at_reap: (u64, u64),
}

/// The dependency fields of a submission, kept with the request until it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// [`Record::submit_ns`].
    pub submit_ns: u64,
    /// [`Record::reaped`].
    pub reaped: u64,
    /// [`Record::outstanding`].
    pub outstanding: u32,
    /// [`Record::think_ns`].
    pub think_ns: u64,
    /// [`Record::busy_ns`].
    pub busy_ns: u64,
}

impl ThreadClock {
    /// A phase begins at `now_ns`; busy times restart there.
    pub fn phase(&mut self, now_ns: u64) {
        self.blocked_ns = 0;
        self.at_submit = (now_ns, 0);
        self.at_reap = (now_ns, 0);
    }

    /// The thread waited for completions from `from_ns` to `to_ns`.
    pub fn blocked(&mut self, from_ns: u64, to_ns: u64) {
        self.blocked_ns += to_ns.saturating_sub(from_ns);
    }

    /// The thread took one completion.
    pub fn reaped(&mut self, now_ns: u64) {
        self.reaped += 1;
        self.at_reap = (now_ns, self.blocked_ns);
    }

    /// The thread submits a request.
    pub fn submitted(&mut self, now_ns: u64) -> Submission {
        let (think_ns, busy_ns) = self.busy_at(now_ns);
        let submission = Submission {
            submit_ns: now_ns,
            reaped: self.reaped,
            outstanding: self.outstanding(),
            think_ns,
            busy_ns,
        };
        self.submitted += 1;
        self.at_submit = (now_ns, self.blocked_ns);
        submission
    }

    /// Busy time since the last taken completion, and since the last submission.
    fn busy_at(&self, now_ns: u64) -> (u64, u64) {
        let busy = |(time_ns, blocked_ns): (u64, u64)| {
            now_ns
                .saturating_sub(time_ns)
                .saturating_sub(self.blocked_ns - blocked_ns)
        };
        (busy(self.at_reap), busy(self.at_submit))
    }

    fn outstanding(&self) -> u32 {
        u32::try_from(self.submitted.saturating_sub(self.reaped)).unwrap_or(u32::MAX)
    }
}

impl Submission {
    /// The record of this submission, complete at `complete_ns`.
    pub fn record(&self, thread: u16, drive: u8, file: u32, op: IoOp, complete_ns: u64) -> Record {
        Record {
            thread,
            drive,
            file,
            op,
            is_failed: false,
            offset_bytes: 0,
            len_bytes: 0,
            submit_ns: self.submit_ns,
            complete_ns,
            reaped: self.reaped,
            outstanding: self.outstanding,
            think_ns: self.think_ns,
            busy_ns: self.busy_ns,
        }
    }
}
