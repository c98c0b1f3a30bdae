//! The engine's own I/O trace (`docs/formats/io-trace.md`) replayed in closed loop.
//!
//! Model: `outcore_traces::replay_plan::DependentLoop`. A request is released when its thread has
//! computed for the recorded time, both since its previous request and since the completion that it
//! waited for. Computation takes `cpu_scale` times the recorded time. `window_scale` lets a thread
//! have that many times the recorded requests in flight, because the engine's windows grow with the
//! number of drives. Syncs take no time, because the simulated drives have no volatile state to
//! lose.
//!
//! Invariants: everything in the trace is released and completed, or the replay is an error that
//! reports what is missing. Bounds: those of `SubmissionOrder` and `DependentLoop`.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::Path;

use outcore_io::{Error, Result, units};
use outcore_traces::io_trace::{Entry, IoOp, Reader, Record, SubmissionOrder};
use outcore_traces::replay_plan::DependentLoop;

use super::{
    Array, ArrayConfig, ArrayRequest, Between, Finished, OPERATION, Placement, ReplayReport,
};
use crate::drive::Op;
use crate::fit::Fit;
use crate::quantities::{NS, Ps};

/// Changes to a recorded job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedOptions {
    /// Requests that a thread may have in flight, as a multiple of the recorded ones; at least 1.
    pub window_scale: f64,
    /// Computation time as a multiple of the recorded one; 0 leaves only I/O.
    pub cpu_scale: f64,
}

impl Default for RecordedOptions {
    fn default() -> Self {
        RecordedOptions {
            window_scale: 1.0,
            cpu_scale: 1.0,
        }
    }
}

/// Makes every request wait for fewer completions, and scales computation.
struct Changed<'a, I> {
    inner: I,
    options: RecordedOptions,
    /// The last `reaped` of each thread; it never falls.
    reaped: Vec<u64>,
    /// Total computation so far.
    busy_ns: &'a Cell<u64>,
}

impl<I: Iterator<Item = Result<Entry>>> Changed<'_, I> {
    fn scaled(&self, ns: u64) -> u64 {
        (ns as f64 * self.options.cpu_scale) as u64
    }

    fn change(&mut self, mut record: Record) -> Record {
        record.think_ns = self.scaled(record.think_ns);
        record.busy_ns = self.scaled(record.busy_ns);
        self.busy_ns
            .set(self.busy_ns.get().saturating_add(record.busy_ns));
        let more = self.options.window_scale - 1.0;
        if more > 0.0 {
            let window = u64::from(record.outstanding) + 1;
            let earlier = (more * window as f64) as u64;
            let thread = usize::from(record.thread);
            if self.reaped.len() <= thread {
                self.reaped.resize(thread + 1, 0);
            }
            let reaped = record.reaped.saturating_sub(earlier);
            record.reaped = reaped.max(self.reaped[thread]);
            self.reaped[thread] = record.reaped;
        }
        record
    }
}

impl<I: Iterator<Item = Result<Entry>>> Iterator for Changed<'_, I> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.inner.next()?.map(|entry| match entry {
            Entry::Request(record) => Entry::Request(self.change(record)),
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
                think_ns: self.scaled(think_ns),
                busy_ns: self.scaled(busy_ns),
            },
            mark => mark,
        }))
    }
}

fn request(number: u64, record: &Record) -> ArrayRequest {
    let (op, bytes) = match record.op {
        IoOp::Read => (Op::Read, u64::from(record.len_bytes)),
        IoOp::Write => (Op::Write, u64::from(record.len_bytes)),
        IoOp::Trim => (Op::Trim, u64::from(record.len_bytes)),
        IoOp::Sync => (Op::Trim, 0),
    };
    ArrayRequest {
        number,
        drive: u32::from(record.drive),
        file: record.file,
        op,
        offset_bytes: record.offset_bytes,
        bytes,
    }
}

/// The files that the job both writes and reads.
///
/// # Errors
/// The trace cannot be read.
fn scratch_files(path: &Path) -> Result<HashSet<u32>> {
    let mut read = HashSet::new();
    let mut written = HashSet::new();
    for entry in Reader::open(path)? {
        if let Entry::Request(record) = entry? {
            match record.op {
                IoOp::Read => read.insert(record.file),
                IoOp::Write => written.insert(record.file),
                IoOp::Trim | IoOp::Sync => false,
            };
        }
    }
    read.retain(|file| written.contains(file));
    Ok(read)
}

/// Replays the trace at `path` on an array.
///
/// # Errors
/// The trace cannot be read or misses records, a request does not fit, or the array cannot be
/// built.
pub fn replay_recorded(
    config: &ArrayConfig,
    path: &Path,
    options: RecordedOptions,
) -> Result<ReplayReport> {
    let sane = |value: f64, least: f64| value.is_finite() && (least..=1e6).contains(&value);
    if !sane(options.window_scale, 1.0) || !sane(options.cpu_scale, 0.0) {
        return Err(Error::usage(
            OPERATION,
            "the window can be scaled by 1 and more, computation by 0 and more",
        ));
    }
    if config.fit == Fit::Scale {
        return Err(
            Error::usage(OPERATION, "a job's files cannot be scaled: they are whole")
                .hint("--drive-size makes the drives larger, --fit wrap reuses their space"),
        );
    }
    let mut reader = Reader::open(path)?;
    let mut warnings = Vec::new();
    let drives = reader.header().drives.len();
    let busy_ns = Cell::new(0);
    let entries = Changed {
        inner: SubmissionOrder::new(reader.by_ref()),
        options,
        reaped: Vec::new(),
        busy_ns: &busy_ns,
    };
    let mut plan = DependentLoop::new(entries);
    let mut array = Array::new(config)?;
    if config.placement == Placement::Whole {
        array.stripe_files(scratch_files(path)?);
    }
    play(&mut plan, &mut array)?;
    plan.check_finished().map_err(|error| error.path(path))?;
    let end = array.now().max(plan.end_ns().saturating_mul(NS));
    if !reader.is_complete() {
        warnings.push("the trace has no end mark: its job was stopped early".to_owned());
    }
    if drives != config.drives as usize && options.window_scale == 1.0 {
        warnings.push(format!(
            "recorded on {}, replayed on {} with the recorded windows (--window scales them)",
            units::counted(drives as u64, "drive"),
            config.drives
        ));
    }
    let mut report = array.report(end, Between::Computation, warnings)?;
    report.computation_seconds = busy_ns.get() as f64 / 1e9;
    Ok(report)
}

fn play<I: Iterator<Item = Result<Entry>>>(
    plan: &mut DependentLoop<I>,
    array: &mut Array,
) -> Result<()> {
    let mut finished: Vec<Finished> = Vec::new();
    let mut released = 0;
    loop {
        let due_ns = plan.next_due_ns()?;
        let due = due_ns.map(|ns| ns.saturating_mul(NS));
        let next = array.next_at();
        if let (Some(due_ns), Some(due)) = (due_ns, due)
            && next.is_none_or(|next| due <= next)
        {
            if let Some((release_ns, record)) = plan.release(due_ns)? {
                // Completions are reported in whole nanoseconds, rounded up.
                let at = release_ns.saturating_mul(NS).max(array.now());
                let at = next.map_or(at, |next| at.min(next));
                released += 1;
                array.submit(at, &request(released, &record), u64::from(record.thread))?;
            }
            continue;
        }
        if next.is_none() || (due.is_none() && array.is_idle()) {
            return Ok(());
        }
        array.run_until(due.unwrap_or(Ps::MAX), &mut finished)?;
        for done in finished.drain(..) {
            plan.completed(done.tag as u16, done.at.div_ceil(NS))?;
        }
    }
}
