//! Watching a job while it runs: progress for people and programs, and the way to stop it.
//!
//! Contract: [`watch`] runs the work on the calling thread; a signal cancels the job, and a panic
//! is an error. Where progress is shown, one more thread beside it draws a bar at 10 Hz or, with
//! `--json`, prints a `progress` event a second; it ends with the work. Where the system has no
//! thread for it, a note says so and the work goes on. The estimate of the time left takes the
//! phases' weights as given and the speed so far as constant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outcore::job::{Control, Progress};
use outcore::{Error, Result};
use outcore_io::threads::spawn_scoped;
use outcore_io::units;
use serde_json::json;

use outcore_verbs::host::Weight;

use crate::report::Reporter;
use crate::signals::Interrupt;

const DRAW_EVERY: Duration = Duration::from_millis(100);
const EVENT_EVERY: Duration = Duration::from_secs(1);
/// Rates are means over about this long.
const RATE_WINDOW_SECONDS: f64 = 1.0;
/// Units of the bar.
const BAR_STEPS: u64 = 1000;

/// Runs `work`, shows how far it is, says what it noted, and cancels it when a signal comes.
///
/// # Errors
/// What `work` fails with; [`outcore::Kind::Interrupted`] if it failed after a signal came.
pub fn watch<T>(
    reporter: &Reporter,
    interrupt: &Interrupt,
    control: &Control,
    weights: &[Weight],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    interrupt.check()?;
    control.cancel_with(interrupt.flag());
    let result = control.guarded(|| match reporter.shows_progress() || reporter.is_json() {
        true => work_watched(reporter, control, weights, work),
        false => work(),
    });
    control
        .take_notes()
        .iter()
        .for_each(|note| reporter.note(note));
    // A write that was given up for the signal's sake failed in its own words.
    match result {
        Err(_) if control.is_cancelled() => Err(Error::interrupted()),
        other => other,
    }
}

/// Runs `work` with a thread beside it that shows how far it is.
fn work_watched<T>(
    reporter: &Reporter,
    control: &Control,
    weights: &[Weight],
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = || Watcher::new(reporter, weights).run(control, &is_over);
        let watcher = match spawn_scoped(scope, "outcore-watch", look) {
            Ok(watcher) => watcher,
            Err(error) => {
                // The work needs no watching to be right.
                reporter.note(&format!(
                    "{}: {}; the job goes on without progress",
                    error.operation(),
                    error.cause()
                ));
                return work();
            }
        };
        let over = Over(&is_over, watcher.thread().clone());
        let result = work();
        drop(over);
        result
    })
}

/// Ends the watcher however the work ends.
struct Over<'a>(&'a AtomicBool, std::thread::Thread);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

struct Watcher<'a> {
    reporter: &'a Reporter,
    weights: &'a [Weight],
    bar: Option<ProgressBar>,
    started: Instant,
    rates: Rates,
}

impl<'a> Watcher<'a> {
    fn new(reporter: &'a Reporter, weights: &'a [Weight]) -> Self {
        let bar = reporter.shows_progress().then(|| make_bar(reporter));
        Watcher {
            reporter,
            weights,
            bar,
            started: Instant::now(),
            rates: Rates::default(),
        }
    }

    fn run(mut self, control: &Control, is_over: &AtomicBool) {
        let mut told = self.started;
        while !is_over.load(Ordering::Acquire) {
            std::thread::park_timeout(DRAW_EVERY);
            if self.bar.is_some() {
                self.draw(&control.progress(), control.is_cancelled());
            }
            if self.reporter.is_json() && told.elapsed() >= EVENT_EVERY {
                told = Instant::now();
                self.tell(&control.progress());
            }
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn draw(&mut self, progress: &Progress, is_cancelled: bool) {
        let elapsed_seconds = self.started.elapsed().as_secs_f64();
        let (read_rate, write_rate) = self.rates.update(progress, elapsed_seconds);
        let fraction = fraction_done(progress, self.weights);
        let Some(bar) = &self.bar else {
            return;
        };
        if is_cancelled {
            bar.set_message("stopping");
            return;
        }
        bar.set_position((fraction.unwrap_or(0.0) * BAR_STEPS as f64) as u64);
        let left_seconds = seconds_left(fraction, elapsed_seconds);
        bar.set_message(line(progress, (read_rate, write_rate), left_seconds));
    }

    fn tell(&mut self, progress: &Progress) {
        let elapsed_seconds = self.started.elapsed().as_secs_f64();
        let (read_rate, write_rate) = self.rates.update(progress, elapsed_seconds);
        let fraction = fraction_done(progress, self.weights);
        self.reporter.event(
            "progress",
            json!({
                "phase": progress.phase,
                "done_bytes": progress.done_bytes,
                "total_bytes": progress.total_bytes,
                "read_bytes": progress.read_bytes,
                "written_bytes": progress.written_bytes,
                "read_bytes_per_s": read_rate,
                "write_bytes_per_s": write_rate,
                "seconds": elapsed_seconds,
                "fraction": fraction,
                "eta_seconds": seconds_left(fraction, elapsed_seconds),
                "slowest_drive": progress.slowest_drive,
            }),
        );
    }
}

fn make_bar(reporter: &Reporter) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(BAR_STEPS), ProgressDrawTarget::stderr());
    let template = if reporter.is_colored() {
        "{bar:24.cyan/dim} {percent:>3} %  {msg}"
    } else {
        "{bar:24} {percent:>3} %  {msg}"
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// Rates of reading and writing, smoothed.
#[derive(Debug, Default)]
struct Rates {
    seen: Option<(f64, u64, u64)>,
    read_bytes_per_second: f64,
    write_bytes_per_second: f64,
}

impl Rates {
    /// Takes a look at `elapsed_seconds`; gives the rates of reading and writing.
    fn update(&mut self, progress: &Progress, elapsed_seconds: f64) -> (f64, f64) {
        let (before_seconds, read_before, written_before) = self.seen.unwrap_or((0.0, 0, 0));
        let step_seconds = elapsed_seconds - before_seconds;
        if step_seconds > 0.0 {
            let window_seconds = elapsed_seconds.min(RATE_WINDOW_SECONDS);
            let share = (step_seconds / window_seconds).min(1.0);
            let mix = |old: f64, bytes: u64| old + share * (bytes as f64 / step_seconds - old);
            let read_bytes = progress.read_bytes.saturating_sub(read_before);
            let written_bytes = progress.written_bytes.saturating_sub(written_before);
            self.read_bytes_per_second = mix(self.read_bytes_per_second, read_bytes);
            self.write_bytes_per_second = mix(self.write_bytes_per_second, written_bytes);
            self.seen = Some((elapsed_seconds, progress.read_bytes, progress.written_bytes));
        }
        (self.read_bytes_per_second, self.write_bytes_per_second)
    }
}

/// How much of the whole job is done; nothing in a phase without a weight or a size.
fn fraction_done(progress: &Progress, weights: &[Weight]) -> Option<f64> {
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let index = weights
        .iter()
        .position(|(name, _)| *name == progress.phase)?;
    let before: f64 = weights[..index].iter().map(|(_, weight)| weight).sum();
    let within = match progress.total_bytes {
        0 => 0.0,
        bytes => (progress.done_bytes as f64 / bytes as f64).min(1.0),
    };
    (total > 0.0).then(|| (before + weights[index].1 * within) / total)
}

/// Time left if the rest goes as fast as the part that is done; nothing in the first moments.
fn seconds_left(fraction: Option<f64>, elapsed_seconds: f64) -> Option<f64> {
    let fraction = fraction.filter(|fraction| *fraction > 0.01)?;
    Some(elapsed_seconds * (1.0 - fraction) / fraction)
}

/// What stands beside the bar: phase, rates of reading and writing, the drive that the others wait
/// for, time left.
fn line(progress: &Progress, rates: (f64, f64), left_seconds: Option<f64>) -> String {
    let mut line = format!(
        "{}  read {}  write {}",
        progress.phase,
        units::rate(rates.0),
        units::rate(rates.1)
    );
    if let Some(name) = &progress.slowest_drive {
        line.push_str(&format!("  slowest: {name}"));
    }
    if let Some(left_seconds) = left_seconds {
        line.push_str(&format!("  {} left", time_text(left_seconds)));
    }
    line
}

/// A time that is no more than an estimate: whole seconds.
fn time_text(time_seconds: f64) -> String {
    if time_seconds < 99.0 {
        format!("{:.0} s", time_seconds.max(1.0))
    } else {
        units::seconds(time_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(phase: &str, done_bytes: u64) -> Progress {
        Progress {
            phase: phase.to_string(),
            done_bytes,
            total_bytes: 100,
            read_bytes: 1000,
            written_bytes: 0,
            slowest_drive: None,
        }
    }

    #[test]
    fn phases_add_up_to_the_whole_job_and_give_the_time_left() {
        let weights = [("distribute", 1.0), ("sort", 3.0)];
        assert_eq!(
            fraction_done(&progress("distribute", 50), &weights),
            Some(0.125)
        );
        assert_eq!(fraction_done(&progress("sort", 100), &weights), Some(1.0));
        assert_eq!(fraction_done(&progress("publish", 0), &weights), None);
        assert_eq!(seconds_left(Some(0.25), 10.0), Some(30.0));
        assert_eq!(seconds_left(Some(0.0), 10.0), None);
    }

    #[test]
    fn a_drive_that_the_others_wait_for_is_named() {
        let even = progress("sort", 50);
        let plain = line(&even, (0.0, 0.0), Some(12.0));
        assert!(plain.starts_with("sort  read ") && plain.ends_with("  12 s left"));
        assert!(!plain.contains("slowest"));
        let slow = Progress {
            slowest_drive: Some("nvme1".to_string()),
            ..even
        };
        let named = line(&slow, (0.0, 0.0), Some(12.0));
        assert!(named.ends_with("  slowest: nvme1  12 s left"), "{named}");
    }

    #[test]
    fn rates_follow_what_was_moved() {
        let mut rates = Rates::default();
        assert_eq!(rates.update(&progress("sort", 0), 1.0), (1000.0, 0.0));
        assert_eq!(rates.update(&progress("sort", 0), 2.0), (0.0, 0.0));
    }

    #[test]
    fn a_failure_after_a_cancellation_is_an_interruption() {
        let control = Control::default();
        let common = crate::common::Common {
            json: false,
            quiet: true,
            verbose: false,
            volume: None,
            color: crate::common::ColorWhen::Never,
        };
        let reporter = Reporter::new("sort", &common);
        let result: Result<()> = watch(&reporter, &Interrupt::default(), &control, &[], || {
            control.cancel();
            Err(Error::usage("write", "gave up"))
        });
        assert_eq!(result.unwrap_err().kind(), outcore::Kind::Interrupted);
    }
}
