//! Runs one drive and its flows from the start to the last event.
//!
//! Contract: [`run`] builds the drive, preconditions it if the configuration asks for it, executes
//! every event and checks that nothing is left over. The same inputs give the same
//! [`Summary::digest`](crate::report::Summary) on every machine.
//!
//! With a warm-up, everything that is reported begins after the warm-up and ends with the last
//! request. The drive is then in the steady state of its own load, reached by writing. Data that
//! the drive's cache still has to write at the end is not counted, because the cache held the same
//! amount when the counting began.
//!
//! Rates end with the last request in every run. Without a warm-up the counters of the drive (write
//! amplification, energy, wear, utilisation) continue to the last event.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use outcore_io::{Error, Result};

use crate::config::DriveConfig;
use crate::drive::need::check_log;
use crate::drive::{Done, Drive, Status};
use crate::fit::{self, Fit};
use crate::flows::Flows;
use crate::report::Summary;
use crate::workload::{FlowConfig, Origin};

/// Events between two calls of [`Watch`]: less than a millisecond.
pub(crate) const WATCH_EVENTS: u32 = 4096;

/// Events between two checks for the end of the warm-up or of the flows. These ends are precise to
/// this many events.
const WARM_UP_EVENTS: u32 = 64;

/// Asks regularly whether a run should continue, for callers that may be interrupted.
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn() -> Result<()> + Send + Sync>);

impl Watch {
    /// Ends the run with the error that `go_on` returns.
    pub fn new(go_on: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Watch(Arc::new(go_on))
    }

    pub(crate) fn check(&self) -> Result<()> {
        (self.0)()
    }
}

impl Default for Watch {
    fn default() -> Self {
        Watch::new(|| Ok(()))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// Options of a run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// Keep every completed request.
    pub keep_log: bool,
    /// Requests that are served before counting begins, to within a few. Times are counted from
    /// there until the last request has been served. Requests in flight at that point count in
    /// full.
    pub warm_up: u64,
    /// Treatment of requests that reach beyond the drive.
    pub fit: Fit,
    /// Warnings from reading the input.
    pub warnings: Vec<String>,
    /// Asked during the run whether to continue.
    pub watch: Watch,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Results.
    pub summary: Summary,
    /// Completed requests, if [`RunOptions::keep_log`] is set.
    pub log: Vec<Done>,
    /// Wall-clock seconds of the event loop alone, without the warm-up.
    pub loop_seconds: f64,
}

/// Requests that a flow will make; 0 if only its end time is known.
fn expected_requests(flow: &FlowConfig) -> u64 {
    match &flow.origin {
        Origin::Synthetic(spec) => spec.requests,
        Origin::List(list) => list.items.len() as u64,
    }
}

/// Warns about requests that failed or never ended, and about workloads that measure nothing.
fn warn(drive: &Drive, host: &Flows, lost: u64, warnings: &mut Vec<String>) {
    if lost > 0 {
        warnings.push(format!(
            "{lost} requests never finished: MQSim drops operations that meet a block under collection, and compat = \"mqsim\" reproduces that"
        ));
    }
    for flow in host.stats() {
        for ((_, name), count) in Status::ERRORS.iter().zip(flow.failed) {
            if count > 0 {
                warnings.push(format!(
                    "{count} requests of flow `{}` failed: {name}",
                    flow.name
                ));
            }
        }
    }
    if drive.stats().completed == 0 && lost == 0 {
        warnings.push("no request was made: the workload is empty".to_owned());
    }
    if drive.stats().unwritten_reads > drive.stats().page_reads {
        warnings.push(
            "most reads were of data that were never written, so they needed no flash: precondition = \
             true fills the drive first"
                .to_owned(),
        );
    }
}

/// Simulates `flows` on one drive.
///
/// # Errors
/// An invalid configuration or flow; a list that reaches beyond the drive ([`RunOptions::fit`]); a
/// run that cannot end (the error names the resource that blocks it); flows that end within the
/// warm-up; an error from [`RunOptions::watch`].
pub fn run(config: &DriveConfig, flows: &[FlowConfig], options: &RunOptions) -> Result<Outcome> {
    let queues: Vec<_> = flows.iter().map(|flow| flow.queue.clone()).collect();
    if options.keep_log {
        let requests = flows.iter().map(expected_requests);
        let requests = requests.fold(0, u64::saturating_add);
        check_log(requests, size_of::<Done>() as u64)?;
    }
    let mut drive = Drive::new(config, &queues)?;
    let (flows, fitted) = fit::lists(flows, config, &drive, options.fit)?;
    let flows = flows.as_ref();
    drive.expect_units(if config.precondition {
        u64::MAX
    } else {
        let counts = flows.iter().map(expected_requests);
        counts.fold(0, u64::saturating_add)
    });
    if config.precondition {
        drive.precondition(flows)?;
    }
    let mut host = Flows::new(flows, &drive, options.keep_log);
    host.start(&mut drive);
    let mut started = Instant::now();
    let mut measured_from = (options.warm_up == 0).then_some(0);
    let mut measured = None;
    let events = if options.warm_up == 0 {
        WATCH_EVENTS
    } else {
        WARM_UP_EVENTS
    };
    let mut unwatched = WATCH_EVENTS;
    'events: loop {
        if unwatched >= WATCH_EVENTS {
            options.watch.check()?;
            unwatched = 0;
        }
        unwatched += events;
        if measured_from.is_none() && drive.stats().completed >= options.warm_up {
            measured_from = Some(drive.now());
            drive.restart_counters();
            host.restart_counters();
            started = Instant::now();
        }
        for _ in 0..events {
            if !drive.step(&mut host)? {
                break 'events;
            }
        }
        if let Some(from) = measured_from
            && options.warm_up > 0
            && measured.is_none()
            && host.have_ended()
        {
            drive.settle_counters();
            measured = Some(Summary::new(&config.name, from, host.stats(), &drive));
        }
    }
    let loop_seconds = started.elapsed().as_secs_f64();
    let lost = drive.check_idle()?;
    let measured_from = measured_from.ok_or_else(|| {
        let served = drive.stats().completed;
        Error::usage(
            "run workload",
            format!("the flows end within the warm-up, after {served} requests"),
        )
        .hint("use more requests, or a shorter warm-up")
    })?;
    let mut warnings = options.warnings.clone();
    warnings.extend(fitted);
    warn(&drive, &host, lost, &mut warnings);
    let mut summary =
        measured.unwrap_or_else(|| Summary::new(&config.name, measured_from, host.stats(), &drive));
    summary.lost_requests = lost;
    summary.warnings = warnings;
    Ok(Outcome {
        summary,
        log: host.take_log(),
        loop_seconds,
    })
}
