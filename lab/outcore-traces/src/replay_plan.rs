//! Decides when each request of a trace is released: the pure part of a replay.
//!
//! Contract: no clocks, no threads, no I/O. The caller asks which requests may start, sends them to
//! drives or to a simulator, and reports completions. There are three ways:
//! - [`OpenLoop`] releases by the trace's times, independent of the drives.
//! - [`ClosedLoop`] keeps a number of requests in flight and ignores times.
//! - [`DependentLoop`] replays outcore's own traces. Each request waits for the same completions as
//!   its thread did.
//!
//! Memory: a batch; for the dependent loop the requests that were read but not yet released
//! ([`READ_AHEAD`], at most [`READ_AHEAD_MAX`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::iter::Peekable;

use outcore_io::{Error, Kind, Result};

use crate::io_trace::{Entry, Record};
use crate::request::Request;

/// Entries that [`DependentLoop`] reads ahead of the released ones.
pub(crate) const READ_AHEAD: usize = 1 << 16;

/// Maximum number of entries that it reads ahead, reached if all of them wait for a later one.
pub(crate) const READ_AHEAD_MAX: usize = 1 << 20;

/// Requests to submit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Release time, in nanoseconds after the replay's start.
    pub release_ns: u64,
    /// The requests, in the order of the trace.
    pub requests: Vec<Request>,
}

/// Releases requests at the trace's times.
///
/// A batch holds the requests within `window_ns` of its first one, at most `requests_max`. It is
/// released at the time of its last request, so no request starts early. Times must have been
/// rebased (`adapt`). If a request has an earlier time than the request before it, both are
/// released together, and the later one in the trace is counted.
pub struct OpenLoop<I: Iterator<Item = Result<Request>>> {
    inner: Peekable<I>,
    window_ns: u64,
    requests_max: usize,
    last_ns: u64,
    late: u64,
}

impl<I: Iterator<Item = Result<Request>>> OpenLoop<I> {
    /// Batches of `window_ns` (0: only equal times) with at most `requests_max` requests (at least
    /// 1).
    pub fn new(inner: I, window_ns: u64, requests_max: usize) -> Self {
        OpenLoop {
            inner: inner.peekable(),
            window_ns,
            requests_max: requests_max.max(1),
            last_ns: 0,
            late: 0,
        }
    }

    /// Requests that were released later than their time because the trace is not sorted.
    pub fn late(&self) -> u64 {
        self.late
    }
}

impl<I: Iterator<Item = Result<Request>>> Iterator for OpenLoop<I> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = match self.inner.next()? {
            Ok(request) => request,
            Err(error) => return Some(Err(error)),
        };
        let until_ns = first
            .time_ns
            .max(self.last_ns)
            .saturating_add(self.window_ns);
        let mut requests = Vec::new();
        let mut next = Some(first);
        while let Some(request) = next {
            self.late += u64::from(request.time_ns < self.last_ns);
            self.last_ns = self.last_ns.max(request.time_ns);
            requests.push(request);
            next = if requests.len() < self.requests_max {
                // An error remains in front for the next call.
                self.inner
                    .next_if(|next| matches!(next, Ok(next) if next.time_ns <= until_ns))
                    .and_then(Result::ok)
            } else {
                None
            };
        }
        Some(Ok(Batch {
            release_ns: self.last_ns,
            requests,
        }))
    }
}

/// Keeps `depth` requests in flight, as fast as the drives complete them.
pub struct ClosedLoop<I> {
    inner: I,
    depth: usize,
    in_flight: usize,
    is_done: bool,
}

impl<I: Iterator<Item = Result<Request>>> ClosedLoop<I> {
    /// Keeps at most `depth` (at least 1) requests in flight.
    pub fn new(inner: I, depth: usize) -> Self {
        ClosedLoop {
            inner,
            depth: depth.max(1),
            in_flight: 0,
            is_done: false,
        }
    }

    /// The requests that may start now that `completed` more requests are complete. Call it with 0
    /// first.
    ///
    /// # Errors
    /// The first error of the trace.
    pub fn completed(&mut self, completed: usize) -> Result<Vec<Request>> {
        self.in_flight = self.in_flight.saturating_sub(completed);
        let mut requests = Vec::new();
        while self.in_flight < self.depth && !self.is_done {
            match self.inner.next() {
                Some(request) => {
                    requests.push(request?);
                    self.in_flight += 1;
                }
                None => self.is_done = true,
            }
        }
        Ok(requests)
    }

    /// Whether everything was released and completed.
    pub fn is_finished(&self) -> bool {
        self.is_done && self.in_flight == 0
    }
}

/// Replays outcore's own trace in a closed loop over its dependencies.
///
/// A request is released at the later of two times. The first is the release of its thread's
/// previous request plus the time for which the thread was busy in between (`busy_ns`). The second
/// is the moment of its thread's `reaped`-th completion plus the time for which the thread then
/// computed (`think_ns`). At the beginning of a phase, the phase's start replaces both.
///
/// A phase starts when everything before it is complete. If requests complete at their recorded
/// times, no request is released later than recorded. If a thread took completions only by waiting
/// for them, its requests are released exactly at their recorded times.
pub struct DependentLoop<I> {
    inner: Option<I>,
    threads: BTreeMap<u16, Thread>,
    /// Known releases, earliest first: time, arrival, thread.
    due: BinaryHeap<Reverse<(u64, u64, u16)>>,
    arrivals: u64,
    read_ahead: usize,
    in_flight: u64,
    /// A phase mark or the trace's end was read: nothing after it may start before everything
    /// before it has completed.
    is_at_barrier: bool,
    now_ns: u64,
    /// When the current phase started.
    phase_ns: u64,
    /// End of the job so far: the latest completion or end of a thread.
    end_ns: u64,
}

/// A thread in the replay.
#[derive(Debug, Default)]
struct Thread {
    waiting: VecDeque<Step>,
    /// Whether the front of `waiting` is in `due`.
    is_front_due: bool,
    last_release_ns: u64,
    /// Completions before the phase.
    phase_reaped: u64,
    /// Times of completion `kept_from + 1` and those after it; no step waits for earlier ones.
    completions: VecDeque<u64>,
    kept_from: u64,
}

/// The next step of a thread.
#[derive(Debug, Clone, Copy)]
enum Step {
    Submit(Record),
    /// The thread ends after this much computation.
    End {
        reaped: u64,
        think_ns: u64,
        busy_ns: u64,
    },
}

impl Step {
    fn dependency(&self) -> (u64, u64, u64) {
        match self {
            Step::Submit(record) => (record.reaped, record.think_ns, record.busy_ns),
            Step::End {
                reaped,
                think_ns,
                busy_ns,
            } => (*reaped, *think_ns, *busy_ns),
        }
    }
}

impl Thread {
    /// The release time of the front, if everything that it waits for has happened.
    fn release_ns(&self, phase_ns: u64) -> Option<u64> {
        let (reaped, think_ns, busy_ns) = self.waiting.front()?.dependency();
        let base_ns = if reaped <= self.phase_reaped {
            phase_ns
        } else {
            let index = usize::try_from(reaped.checked_sub(self.kept_from + 1)?).ok()?;
            *self.completions.get(index)?
        };
        let after_submit = self.last_release_ns.saturating_add(busy_ns);
        Some(base_ns.saturating_add(think_ns).max(after_submit))
    }

    /// Forgets completions that no later step can wait for, because `reaped` never falls in a
    /// thread.
    fn forget(&mut self, reaped: u64) {
        while self.kept_from + 1 < reaped && self.completions.pop_front().is_some() {
            self.kept_from += 1;
        }
    }

    fn completed(&self) -> u64 {
        self.kept_from + self.completions.len() as u64
    }
}

impl<I: Iterator<Item = Result<Entry>>> DependentLoop<I> {
    /// Replays `inner`, which must be in order of submission (`io_trace::SubmissionOrder`).
    pub fn new(inner: I) -> Self {
        DependentLoop {
            inner: Some(inner),
            threads: BTreeMap::new(),
            due: BinaryHeap::new(),
            arrivals: 0,
            read_ahead: 0,
            in_flight: 0,
            is_at_barrier: false,
            now_ns: 0,
            phase_ns: 0,
            end_ns: 0,
        }
    }

    /// The time at which the next request is due, as far as it is known now; `None` if everything
    /// waits for completions, or the replay is over.
    ///
    /// # Errors
    /// The first error of the trace, or a trace that needs more than [`READ_AHEAD_MAX`] entries in
    /// memory.
    pub fn next_due_ns(&mut self) -> Result<Option<u64>> {
        self.advance()?;
        Ok(self.due.peek().map(|Reverse((time_ns, _, _))| *time_ns))
    }

    /// Releases the next request due at `now_ns` or before, and returns its release time.
    ///
    /// # Errors
    /// As [`DependentLoop::next_due_ns`].
    pub fn release(&mut self, now_ns: u64) -> Result<Option<(u64, Record)>> {
        loop {
            self.advance()?;
            let Some(Reverse((time_ns, _, number))) = self.due.peek().copied() else {
                return Ok(None);
            };
            if time_ns > now_ns {
                return Ok(None);
            }
            self.due.pop();
            self.now_ns = self.now_ns.max(time_ns);
            let Some(thread) = self.threads.get_mut(&number) else {
                continue;
            };
            let step = thread.waiting.pop_front();
            thread.is_front_due = false;
            self.read_ahead -= 1;
            let released = match step {
                Some(Step::Submit(record)) => {
                    thread.last_release_ns = time_ns;
                    thread.forget(record.reaped);
                    self.in_flight += 1;
                    Some((time_ns, record))
                }
                Some(Step::End { .. }) | None => {
                    self.end_ns = self.end_ns.max(time_ns);
                    None
                }
            };
            self.enqueue_front(number);
            if released.is_some() {
                return Ok(released);
            }
        }
    }

    /// Reports that a request of `thread` completed at `now_ns`. Completions must be reported in
    /// order of time.
    ///
    /// # Errors
    /// The thread has no request in flight.
    pub fn completed(&mut self, thread: u16, now_ns: u64) -> Result<()> {
        let known = self.threads.get_mut(&thread).filter(|_| self.in_flight > 0);
        let Some(state) = known else {
            return Err(Error::usage(
                "replay I/O trace",
                format!("a completion for thread {thread}, which has no request in flight"),
            ));
        };
        state.completions.push_back(now_ns);
        self.in_flight -= 1;
        self.now_ns = self.now_ns.max(now_ns);
        self.end_ns = self.end_ns.max(now_ns);
        self.enqueue_front(thread);
        Ok(())
    }

    /// End of the job in the replay, up to its current state.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Whether the whole trace was released and completed.
    pub fn is_finished(&self) -> bool {
        self.inner.is_none() && self.read_ahead == 0 && self.in_flight == 0
    }

    /// The error for a replay that has nothing due and nothing in flight before its end.
    ///
    /// # Errors
    /// Always, unless the replay is finished.
    pub fn check_finished(&self) -> Result<()> {
        if self.is_finished() {
            return Ok(());
        }
        let stuck = self
            .threads
            .iter()
            .find(|(_, thread)| !thread.waiting.is_empty());
        let cause = match stuck {
            Some((number, thread)) => format!(
                "thread {number} waits for completion {}, but only {} can come",
                thread.waiting.front().map_or(0, |step| step.dependency().0),
                thread.completed()
            ),
            None => format!("{} requests are still in flight", self.in_flight),
        };
        Err(Error::new(Kind::Corrupt, "replay I/O trace", cause)
            .hint("the trace misses records; record it again"))
    }

    /// Queues a thread's next step as due once its time is known.
    fn enqueue_front(&mut self, number: u16) {
        let Some(thread) = self.threads.get_mut(&number) else {
            return;
        };
        if thread.is_front_due {
            return;
        }
        if let Some(release_ns) = thread.release_ns(self.phase_ns) {
            thread.is_front_due = true;
            self.due.push(Reverse((release_ns, self.arrivals, number)));
            self.arrivals += 1;
        }
    }

    /// Reads the trace up to the next barrier. Passes the barrier when everything before it has
    /// completed.
    fn advance(&mut self) -> Result<()> {
        loop {
            if self.is_at_barrier {
                if self.read_ahead > 0 || self.in_flight > 0 {
                    return Ok(());
                }
                self.start_phase();
            }
            let Some(inner) = &mut self.inner else {
                return Ok(());
            };
            let is_stuck = self.due.is_empty() && self.in_flight == 0;
            if self.read_ahead >= READ_AHEAD_MAX && is_stuck {
                return Err(Error::new(
                    Kind::Memory,
                    "replay I/O trace",
                    format!("more than {READ_AHEAD_MAX} requests wait for one that comes later"),
                )
                .hint("the trace misses records; record it again"));
            }
            if self.read_ahead >= READ_AHEAD && !is_stuck {
                return Ok(());
            }
            match inner.next() {
                None => self.inner = None,
                Some(entry) => self.take(entry?),
            }
        }
    }

    fn take(&mut self, entry: Entry) {
        let (number, step) = match entry {
            Entry::Request(record) => (record.thread, Step::Submit(record)),
            Entry::ThreadEnd {
                thread,
                reaped,
                think_ns,
                busy_ns,
                ..
            } => (
                thread,
                Step::End {
                    reaped,
                    think_ns,
                    busy_ns,
                },
            ),
            Entry::Phase { .. } => {
                self.is_at_barrier = true;
                return;
            }
            Entry::End { .. } => {
                self.inner = None;
                return;
            }
        };
        let phase_ns = self.phase_ns;
        let thread = self.threads.entry(number).or_insert_with(|| Thread {
            last_release_ns: phase_ns,
            ..Thread::default()
        });
        thread.waiting.push_back(step);
        self.read_ahead += 1;
        self.enqueue_front(number);
    }

    fn start_phase(&mut self) {
        self.is_at_barrier = false;
        self.phase_ns = self.end_ns.max(self.now_ns);
        for thread in self.threads.values_mut() {
            thread.last_release_ns = self.phase_ns;
            thread.phase_reaped = thread.completed();
            thread.kept_from = thread.phase_reaped;
            thread.completions.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;
    use proptest::prelude::*;

    fn requests(times: &[u64]) -> Vec<Request> {
        let numbered = times.iter().zip(0_u64..);
        numbered
            .map(|(time_ns, offset_bytes)| Request {
                time_ns: *time_ns,
                device: 0,
                op: Op::Read,
                offset_bytes,
                len_bytes: 4096,
            })
            .collect()
    }

    fn ok(requests: &[Request]) -> impl Iterator<Item = Result<Request>> + '_ {
        requests.iter().map(|request| Ok(*request))
    }

    #[test]
    fn an_error_of_the_trace_comes_after_the_requests_before_it() {
        let mut list: Vec<Result<Request>> = ok(&requests(&[0, 0])).collect();
        list.push(Err(Error::interrupted()));
        let mut open = OpenLoop::new(list.clone().into_iter(), 10, 100);
        assert_eq!(
            open.next()
                .map(|batch| batch.map(|batch| batch.requests.len()).ok()),
            Some(Some(2))
        );
        assert!(matches!(open.next(), Some(Err(_))));
        assert!(open.next().is_none());
        let mut closed = ClosedLoop::new(list.into_iter(), 8);
        assert!(closed.completed(0).is_err());
    }

    #[test]
    fn a_replay_that_cannot_go_on_says_what_is_missing() {
        let record = Record {
            thread: 3,
            drive: 0,
            file: 0,
            op: crate::io_trace::IoOp::Read,
            is_failed: false,
            offset_bytes: 0,
            len_bytes: 1,
            submit_ns: 0,
            complete_ns: 1,
            reaped: 5,
            outstanding: 0,
            think_ns: 0,
            busy_ns: 0,
        };
        let mut plan = DependentLoop::new(std::iter::once(Ok(Entry::Request(record))));
        assert_eq!(plan.next_due_ns().ok(), Some(None));
        assert!(!plan.is_finished());
        let error = plan.check_finished().map_err(|error| error.to_string());
        assert!(
            error.is_err_and(|text| text.contains("thread 3 waits for completion 5, but only 0"))
        );
        assert!(plan.completed(3, 0).is_err(), "nothing is in flight");
    }

    proptest! {
        #[test]
        fn open_batches_keep_order_and_release_nothing_early(
            times in prop::collection::vec(0_u64..1000, 0..60), window in 0_u64..200, max in 1_usize..9)
        {
            let list = requests(&times);
            let mut open = OpenLoop::new(ok(&list), window, max);
            let batches: Vec<Batch> = open.by_ref().filter_map(Result::ok).collect();
            let all: Vec<Request> = batches.iter().flat_map(|b| b.requests.clone()).collect();
            prop_assert_eq!(&all, &list);
            prop_assert!(batches.is_sorted_by_key(|batch| batch.release_ns));
            let (mut highest, mut late) = (0, 0);
            for time in &times {
                late += u64::from(*time < highest);
                highest = highest.max(*time);
            }
            prop_assert_eq!(open.late(), late);
            for batch in &batches {
                prop_assert!((1..=max).contains(&batch.requests.len()));
                for request in &batch.requests {
                    prop_assert!(batch.release_ns >= request.time_ns);
                    prop_assert!(late > 0 || batch.release_ns - request.time_ns <= window);
                }
            }
        }

        #[test]
        fn a_closed_loop_never_has_more_in_flight_than_its_depth_nor_less_while_it_can(
            count in 0_usize..100, depth in 1_usize..20,
            steps in prop::collection::vec(1_usize..5, 1..200))
        {
            let list = requests(&vec![0; count]);
            let mut closed = ClosedLoop::new(ok(&list), depth);
            let mut released = closed.completed(0).unwrap();
            let mut in_flight = released.len();
            for step in steps {
                prop_assert_eq!(in_flight, depth.min(count - (released.len() - in_flight)));
                let step = step.min(in_flight);
                let more = closed.completed(step).unwrap();
                in_flight = in_flight - step + more.len();
                released.extend(more);
            }
            prop_assert_eq!(&released[..], &list[..released.len()]);
            prop_assert_eq!(closed.is_finished(), released.len() == count && in_flight == 0);
        }
    }
}
