//! Brings a trace from the order of completion, in which it is written, into the order of
//! submission.
//!
//! Contract: each thread's requests are returned by sequence number without gaps; marks keep their
//! place. A record is held back until its predecessors have arrived, at most [`WINDOW_RECORDS`] in
//! all. A missing or repeated number is an error. The exception is the end of a trace without an
//! end mark: requests that never completed have no record there.

use std::collections::{BTreeMap, VecDeque};

use outcore_io::{Error, Kind, Result};

use crate::io_trace::{Entry, Record};

/// Maximum number of records that are held back (64 MiB).
pub(crate) const WINDOW_RECORDS: usize = 1 << 20;

/// An iterator over the entries of `inner` in order of submission.
pub struct SubmissionOrder<I> {
    inner: I,
    threads: BTreeMap<u16, Held>,
    held: usize,
    ready: VecDeque<Entry>,
    is_done: bool,
}

/// The records of one thread that arrived too early.
#[derive(Debug, Default)]
struct Held {
    next: u64,
    early: BTreeMap<u64, Record>,
}

impl<I: Iterator<Item = Result<Entry>>> SubmissionOrder<I> {
    /// Orders the entries of a whole trace.
    pub fn new(inner: I) -> Self {
        SubmissionOrder {
            inner,
            threads: BTreeMap::new(),
            held: 0,
            ready: VecDeque::new(),
            is_done: false,
        }
    }

    fn take(&mut self, record: Record) -> Result<()> {
        let held = self.threads.entry(record.thread).or_default();
        let sequence = record.sequence();
        if sequence < held.next || held.early.insert(sequence, record).is_some() {
            return Err(broken(format!(
                "thread {} has two submissions with number {sequence}",
                record.thread
            )));
        }
        self.held += 1;
        while let Some(record) = held.early.remove(&held.next) {
            held.next += 1;
            self.held -= 1;
            self.ready.push_back(Entry::Request(record));
        }
        if self.held > WINDOW_RECORDS {
            return Err(Error::new(
                Kind::Memory,
                "order I/O trace",
                format!(
                    "more than {WINDOW_RECORDS} records came before a record that they must follow"
                ),
            )
            .hint("the trace misses a record; record it again"));
        }
        Ok(())
    }

    /// Checks at a mark that no record of `thread`, or of any thread, is held back.
    fn barrier(&self, thread: Option<u16>) -> Result<()> {
        let late = |(number, held): &(&u16, &Held)| {
            !held.early.is_empty() && thread.is_none_or(|thread| thread == **number)
        };
        match self.threads.iter().find(late) {
            None => Ok(()),
            Some((thread, held)) => Err(broken(format!(
                "submission {} of thread {thread} is missing before a mark",
                held.next
            ))),
        }
    }

    /// The trace stopped without an end mark: returns the remaining records as they are.
    fn drain(&mut self) {
        for held in self.threads.values_mut() {
            self.ready.extend(
                std::mem::take(&mut held.early)
                    .into_values()
                    .map(Entry::Request),
            );
        }
        self.held = 0;
        self.is_done = true;
    }

    fn step(&mut self) -> Result<()> {
        match self.inner.next() {
            None => self.drain(),
            Some(entry) => match entry? {
                Entry::Request(record) => self.take(record)?,
                mark @ (Entry::Phase { .. } | Entry::End { .. }) => {
                    self.barrier(None)?;
                    self.ready.push_back(mark);
                }
                mark @ Entry::ThreadEnd { thread, .. } => {
                    self.barrier(Some(thread))?;
                    self.ready.push_back(mark);
                }
            },
        }
        Ok(())
    }
}

fn broken(cause: String) -> Error {
    Error::corrupt("order I/O trace", cause).hint("the trace misses a record; record it again")
}

impl<I: Iterator<Item = Result<Entry>>> Iterator for SubmissionOrder<I> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(Ok(entry));
            }
            if self.is_done {
                return None;
            }
            if let Err(error) = self.step() {
                self.is_done = true;
                return Some(Err(error));
            }
        }
    }
}
