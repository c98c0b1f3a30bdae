//! Decides when the requests of a trace are submitted to the array.
//!
//! Contract: the plans of `outcore_traces::replay_plan` decide, on the device's clock; this module
//! connects them with drives. Every released request returns before a [`Player`] is done. If the
//! drives do not keep up with an open loop, it stops reading the trace while [`WAITING_MAX`]
//! requests wait, so memory is bounded. Requests that are released after their time are counted as
//! late, and [`super::backlog`] decides whether the drives were the reason.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use outcore::Result;
use outcore_io::drive::Device;
use outcore_traces::adapt::{AdaptOptions, Adapted};
use outcore_traces::io_trace::{Entry, Reader, SubmissionOrder};
use outcore_traces::replay_plan::{ClosedLoop, DependentLoop, OpenLoop};
use outcore_traces::summary::Builder;
use outcore_traces::{Request, Summary, TraceReader};

use super::array::{Array, DEPTH, Done};
use super::backlog::Backlog;
use super::{Outcome, ReplayOptions, Speed};
use crate::watch::Watch;

/// Maximum number of requests that may wait for a buffer.
const WAITING_MAX: usize = 16_384;
/// Maximum number of requests that are released together.
const BATCH_MAX: usize = 1024;
const WAIT_MAX: Duration = Duration::from_millis(50);
/// A request with a longer delay counts as late.
const LATE_NS: u64 = 1_000_000;
const TIMELINE_PARTS_MAX: usize = 240;

/// A trace that is summarised while it is read.
pub(super) struct Tee {
    reader: TraceReader,
    builder: Builder,
    left: u64,
}

impl Tee {
    /// At most `requests_max` requests of `reader`.
    pub(super) fn new(reader: TraceReader, requests_max: u64) -> Self {
        Tee {
            reader,
            builder: Builder::new(),
            left: requests_max,
        }
    }

    fn summary(&self) -> Summary {
        let mut summary = self.builder.clone().finish();
        summary.add_reader(&self.reader);
        summary
    }
}

impl Iterator for Tee {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let next = self.reader.next()?;
        if let Ok(request) = &next {
            self.builder.add(request);
        }
        Some(next)
    }
}

/// Requests, with a record of which writes were widened.
struct Marked<'a, I> {
    inner: &'a mut Adapted<I>,
    widened: Rc<RefCell<VecDeque<bool>>>,
}

impl<I: Iterator<Item = Result<Request>>> Iterator for Marked<'_, I> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        let before = self.inner.changes().widened_writes;
        let next = self.inner.next()?;
        if next.is_ok() {
            let is_widened = self.inner.changes().widened_writes > before;
            self.widened.borrow_mut().push_back(is_widened);
        }
        Some(next)
    }
}

/// Completed requests in equal parts of the time; the number of parts is bounded.
struct Timeline {
    part_ns: u64,
    counts: Vec<u64>,
}

impl Timeline {
    fn new() -> Self {
        Timeline {
            part_ns: 10_000_000,
            counts: Vec::new(),
        }
    }

    fn add(&mut self, at_ns: u64) {
        while at_ns / self.part_ns >= TIMELINE_PARTS_MAX as u64 {
            self.counts = self
                .counts
                .chunks(2)
                .map(|pair| pair.iter().sum())
                .collect();
            self.part_ns *= 2;
        }
        let part = (at_ns / self.part_ns) as usize;
        if self.counts.len() <= part {
            self.counts.resize(part + 1, 0);
        }
        self.counts[part] += 1;
    }
}

/// Plays a trace on an array.
pub(super) struct Player<'a> {
    device: Arc<dyn Device>,
    array: &'a mut Array,
    options: &'a ReplayOptions,
    watch: Watch<'a>,
    start_ns: u64,
    timeline: Timeline,
    complete: Vec<Done>,
    late: u64,
    backlog: Backlog,
}

impl<'a> Player<'a> {
    pub(super) fn new(
        device: &Arc<dyn Device>,
        array: &'a mut Array,
        options: &'a ReplayOptions,
        watch: Watch<'a>,
    ) -> Self {
        Player {
            device: Arc::clone(device),
            array,
            options,
            watch,
            start_ns: device.now_ns(),
            timeline: Timeline::new(),
            complete: Vec::new(),
            late: 0,
            backlog: Backlog::new(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.device.now_ns() - self.start_ns
    }

    /// Waits for completions. Returns their number.
    fn poll(&mut self, wait: Duration) -> Result<usize> {
        self.watch.check()?;
        self.complete.clear();
        self.array.poll(wait.min(WAIT_MAX), &mut self.complete)?;
        for done in &self.complete {
            self.timeline.add(done.at_ns - self.start_ns);
        }
        Ok(self.complete.len())
    }

    fn outcome(self, summary: Summary, changes: outcore_traces::adapt::Changes) -> Outcome {
        let end_ns = self.now_ns();
        let at_once = DEPTH * self.array.drives();
        Outcome {
            summary,
            changes,
            late: self.late,
            behind: self.backlog.behind(end_ns, at_once as u64),
            seconds: end_ns as f64 / 1e9,
            timeline: (self.timeline.part_ns as f64 / 1e9, self.timeline.counts),
        }
    }

    /// Plays a block trace, at its times or as fast as possible.
    pub(super) fn block(mut self, mut adapted: Adapted<Tee>) -> Result<Outcome> {
        let widened = Rc::new(RefCell::new(VecDeque::new()));
        let mut marked = Marked {
            inner: &mut adapted,
            widened: Rc::clone(&widened),
        };
        match self.options.speed {
            Speed::Max => self.closed(&mut marked, &widened)?,
            Speed::Times(_) => self.open(&mut marked, &widened)?,
        }
        let (summary, changes) = (adapted.inner().summary(), *adapted.changes());
        Ok(self.outcome(summary, changes))
    }

    fn submit(&mut self, request: &Request, widened: &RefCell<VecDeque<bool>>, released_ns: u64) {
        let is_widened = widened.borrow_mut().pop_front().unwrap_or(false);
        self.array
            .submit(request, is_widened, 0, self.start_ns + released_ns);
    }

    fn closed(
        &mut self,
        requests: &mut dyn Iterator<Item = Result<Request>>,
        widened: &RefCell<VecDeque<bool>>,
    ) -> Result<()> {
        let depth = self.options.depth.unwrap_or(DEPTH * self.array.drives());
        let mut plan = ClosedLoop::new(requests, depth);
        let mut ready = plan.completed(0)?;
        loop {
            let now_ns = self.now_ns();
            for request in &ready {
                self.submit(request, widened, now_ns);
            }
            if plan.is_finished() {
                return Ok(());
            }
            let completed = self.poll(WAIT_MAX)?;
            ready = plan.completed(completed)?;
        }
    }

    fn open(
        &mut self,
        requests: &mut dyn Iterator<Item = Result<Request>>,
        widened: &RefCell<VecDeque<bool>>,
    ) -> Result<()> {
        let depth = self.options.depth.unwrap_or(usize::MAX);
        let mut plan = OpenLoop::new(requests, 0, BATCH_MAX);
        let mut next = plan.next().transpose()?;
        let mut in_flight = 0;
        // The next batch was due, but too many requests waited or were in flight.
        let mut is_held = false;
        while next.is_some() || !self.array.is_idle() {
            let now_ns = self.now_ns();
            self.backlog.sample(now_ns, in_flight as u64);
            let mut wait = WAIT_MAX;
            while let Some(batch) = &next {
                if batch.release_ns > now_ns {
                    wait = Duration::from_nanos(batch.release_ns - now_ns);
                    break;
                }
                if self.array.waiting() >= WAITING_MAX || in_flight >= depth {
                    is_held = true;
                    break;
                }
                let is_late = now_ns - batch.release_ns > LATE_NS;
                if is_late {
                    self.late += batch.requests.len() as u64;
                }
                self.backlog.released(batch.release_ns, is_held && is_late);
                is_held = false;
                for request in &batch.requests {
                    self.submit(request, widened, batch.release_ns);
                    in_flight += 1;
                }
                next = plan.next().transpose()?;
            }
            self.backlog.sample(now_ns, in_flight as u64);
            in_flight -= self.poll(wait)?;
        }
        Ok(())
    }

    /// Plays outcore's own trace with the dependencies of its threads.
    pub(super) fn dependent(mut self, adapt: AdaptOptions) -> Result<Outcome> {
        let scale = match self.options.speed {
            Speed::Max => 0.0,
            Speed::Times(times) => 1.0 / times,
        };
        let builder = RefCell::new(Builder::new());
        let entries = SubmissionOrder::new(Reader::open(&self.options.trace)?);
        let entries = entries.map(|entry| {
            let entry = paced(entry?, scale);
            if let Entry::Request(record) = &entry {
                builder.borrow_mut().add(&record.request());
            }
            Ok(entry)
        });
        let mut plan = DependentLoop::new(entries);
        // Entries pass the adapter one at a time; a request longer than a buffer becomes several.
        let fed = Rc::new(Cell::new(None));
        let feed = Rc::clone(&fed);
        let feed = std::iter::from_fn(move || feed.take().map(Ok));
        let options = AdaptOptions {
            speedup: 1.0,
            ..adapt
        };
        let mut adapted = Adapted::new(feed, options)?;
        // Number of pieces that are still under way, by record.
        let mut owners: HashMap<u64, (u16, u32)> = HashMap::new();
        let mut owner = 0;
        loop {
            let now_ns = self.now_ns();
            while let Some((release_ns, record)) = plan.release(now_ns)? {
                fed.set(Some(record.request()));
                let before = adapted.changes().widened_writes;
                let mut pieces = 0;
                while let Some(request) = adapted.next().transpose()? {
                    let is_widened = adapted.changes().widened_writes > before;
                    let released_ns = self.start_ns + release_ns;
                    self.array.submit(&request, is_widened, owner, released_ns);
                    pieces += 1;
                }
                if pieces == 0 {
                    plan.completed(record.thread, now_ns)?;
                } else {
                    owners.insert(owner, (record.thread, pieces));
                    owner += 1;
                }
            }
            if plan.is_finished() {
                break;
            }
            let due_ns = plan.next_due_ns()?;
            if due_ns.is_none() && self.array.is_idle() {
                plan.check_finished()?;
                break;
            }
            let wait_ns = due_ns.map_or(u64::MAX, |due_ns| due_ns.saturating_sub(self.now_ns()));
            self.poll(Duration::from_nanos(wait_ns))?;
            for done in &self.complete {
                let Some((thread, pieces)) = owners.get_mut(&done.tag) else {
                    continue;
                };
                *pieces -= 1;
                if *pieces == 0 {
                    plan.completed(*thread, done.at_ns - self.start_ns)?;
                    owners.remove(&done.tag);
                }
            }
        }
        drop(plan);
        let mut summary = builder.into_inner().finish();
        summary.format = outcore_traces::Format::Outcore.name().into();
        let changes = *adapted.changes();
        Ok(self.outcome(summary, changes))
    }
}

/// The entry with scaled computation times.
fn paced(entry: Entry, scale: f64) -> Entry {
    let scaled = |ns: u64| (ns as f64 * scale) as u64;
    match entry {
        Entry::Request(mut record) => {
            record.think_ns = scaled(record.think_ns);
            record.busy_ns = scaled(record.busy_ns);
            Entry::Request(record)
        }
        Entry::ThreadEnd {
            thread,
            time_ns,
            reaped,
            think_ns,
            busy_ns,
        } => Entry::ThreadEnd {
            thread,
            time_ns,
            reaped,
            think_ns: scaled(think_ns),
            busy_ns: scaled(busy_ns),
        },
        mark => mark,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_keeps_every_count_in_few_parts() {
        let mut timeline = Timeline::new();
        for at in 0..100_000_u64 {
            timeline.add(at * 1_000_000);
        }
        assert!(timeline.counts.len() <= TIMELINE_PARTS_MAX);
        assert_eq!(timeline.counts.iter().sum::<u64>(), 100_000);
        assert_eq!(timeline.part_ns % 10_000_000, 0);
    }
}
