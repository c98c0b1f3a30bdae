//! Watches a running job: progress for people and programs, and the way to stop it.
//!
//! Contract: [`watch`] runs the work on the calling thread; a signal cancels the job, and a panic
//! is an error. If progress is shown, a second thread draws a bar at 10 Hz or, with `--json`,
//! prints one `progress` event per second; it ends with the work. If the system cannot start the
//! thread, a note says so and the work goes on. The estimate of the time left uses the given
//! weights of the phases, and assumes that the speed stays constant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use outcore::job::{Control, Progress};
use outcore::{Error, Kind, Result};
use outcore_io::threads::spawn_scoped;
use outcore_io::units;
use serde_json::json;

use outcore_verbs::host::Weight;

use crate::report::Reporter;
use crate::screen::{USUAL_COLUMNS, columns_of_stderr};
use crate::signals::Interrupt;

const DRAW_EVERY: Duration = Duration::from_millis(100);
const EVENT_EVERY: Duration = Duration::from_secs(1);
/// Rates are means over about this time.
const RATE_WINDOW_SECONDS: f64 = 1.0;
/// Units of the bar.
const BAR_STEPS: u64 = 1000;

/// Runs `work`, shows its progress, prints its notes, and cancels it when a signal arrives.
///
/// # Errors Those of `work`; [`outcore::Kind::Interrupted`] if it failed after a signal.
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
        false => {
            // Without a bar, notes are shown as they come.
            show_notes(reporter, control);
            let notes = reporter.clone();
            control.on_note(move |note| notes.note(&note.to_string()));
            work()
        }
    });
    show_notes(reporter, control);
    // A write that was abandoned because of the signal has an error of its own.
    match result {
        Err(error) if control.is_cancelled() && error.kind() != Kind::Interrupted => {
            Err(Error::interrupted())
        }
        other => other,
    }
}

fn show_notes(reporter: &Reporter, control: &Control) {
    let notes = control.take_notes();
    notes.iter().for_each(|note| reporter.note(note));
}

/// Runs `work` while a second thread shows its progress.
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
                // The work is correct without a watcher.
                reporter.note(&format!(
                    "{}: {}; the job continues without showing progress",
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

/// Ends the watcher, in whatever way the work ends.
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
    layout: Layout,
    started: Instant,
    rates: Rates,
}

impl<'a> Watcher<'a> {
    fn new(reporter: &'a Reporter, weights: &'a [Weight]) -> Self {
        let layout = Layout::now();
        let target = ProgressDrawTarget::stderr();
        let bar = reporter.shows_progress().then(|| {
            let bar = ProgressBar::with_draw_target(Some(BAR_STEPS), target);
            layout.apply(bar, reporter)
        });
        Watcher {
            reporter,
            weights,
            bar,
            layout,
            started: Instant::now(),
            rates: Rates::default(),
        }
    }

    fn run(mut self, control: &Control, is_over: &AtomicBool) {
        let mut told = self.started;
        while !is_over.load(Ordering::Acquire) {
            std::thread::park_timeout(DRAW_EVERY);
            if let Some(bar) = &self.bar {
                bar.suspend(|| show_notes(self.reporter, control));
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
        let Some(bar) = self.bar.take() else {
            return;
        };
        // After the user narrows the window, the progress is still one line.
        let layout = Layout::now();
        let bar = match layout == self.layout {
            true => bar,
            false => layout.apply(bar, self.reporter),
        };
        self.layout = layout;
        let bar = self.bar.insert(bar);
        if is_cancelled {
            bar.set_message("stopping");
            return;
        }
        bar.set_position((fraction.unwrap_or(0.0) * BAR_STEPS as f64) as u64);
        let left_seconds = seconds_left(fraction, elapsed_seconds);
        let parts = Parts {
            progress,
            read_bytes_per_second: read_rate,
            write_bytes_per_second: write_rate,
            left_seconds,
        };
        bar.set_message(parts.line(layout.message_columns));
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

/// The widths of a line of progress on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    bar_columns: usize,
    message_columns: usize,
}

impl Layout {
    /// The layout for the current width of the terminal.
    fn now() -> Layout {
        Layout::of(columns_of_stderr().unwrap_or(USUAL_COLUMNS))
    }

    fn of(terminal_columns: usize) -> Layout {
        let bar_columns = match terminal_columns {
            100.. => 24,
            60.. => 10,
            _ => 0,
        };
        // A space after the bar; three digits, ` %` and two spaces.
        let before = bar_columns + usize::from(bar_columns > 0) + 7;
        Layout {
            bar_columns,
            message_columns: terminal_columns.saturating_sub(before + 1),
        }
    }

    /// The bar, drawn in this layout.
    fn apply(self, bar: ProgressBar, reporter: &Reporter) -> ProgressBar {
        let color = if reporter.is_colored() {
            ".cyan/dim"
        } else {
            ""
        };
        let drawn = match self.bar_columns {
            0 => String::new(),
            columns => format!("{{bar:{columns}{color}}} "),
        };
        match ProgressStyle::with_template(&format!("{drawn}{{percent:>3}} %  {{msg}}")) {
            Ok(style) => bar.with_style(style.progress_chars("=> ")),
            Err(_) => bar,
        }
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
    /// Takes a sample at `elapsed_seconds`; returns the rates of reading and writing.
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

/// The fraction of the whole job that is done; nothing in a phase without a weight or a size.
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

/// The parts of a progress line next to the bar.
struct Parts<'a> {
    progress: &'a Progress,
    read_bytes_per_second: f64,
    write_bytes_per_second: f64,
    left_seconds: Option<f64>,
}

impl Parts<'_> {
    /// Phase, rates, the drive that the others wait for, and time left, in at most `columns`. If
    /// there is no room, the drive is left out first, then the rates, then the time.
    fn line(&self, columns: usize) -> String {
        let rates = format!(
            "read {}  write {}",
            units::rate(self.read_bytes_per_second),
            units::rate(self.write_bytes_per_second)
        );
        let slowest = self.progress.slowest_drive.as_ref();
        let mut parts = [
            Some(self.progress.phase.clone()),
            Some(rates),
            slowest.map(|name| format!("slowest: {name}")),
            self.left_seconds
                .map(|left| format!("{} left", time_text(left))),
        ];
        let text = |parts: &[Option<String>]| {
            let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
            parts.join("  ")
        };
        for part in [2, 1, 3] {
            if text(&parts).chars().count() > columns {
                parts[part] = None;
            }
        }
        text(&parts).chars().take(columns).collect()
    }
}

/// An estimated time, in whole seconds.
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
        let plain = parts(&even, 12.0).line(99);
        assert!(plain.starts_with("sort  read ") && plain.ends_with("  12 s left"));
        assert!(!plain.contains("slowest"));
        let slow = Progress {
            slowest_drive: Some("nvme1".to_string()),
            ..even
        };
        let named = parts(&slow, 12.0).line(99);
        assert!(named.ends_with("  slowest: nvme1  12 s left"), "{named}");
    }

    fn parts(progress: &Progress, left_seconds: f64) -> Parts<'_> {
        Parts {
            progress,
            read_bytes_per_second: 123.4e6,
            write_bytes_per_second: 99.9e6,
            left_seconds: Some(left_seconds),
        }
    }

    #[test]
    fn a_line_of_progress_fits_every_terminal() {
        let slow = Progress {
            slowest_drive: Some("/mnt/nvme1/with/a/long/name".to_string()),
            ..progress("distribute", 50)
        };
        for terminal_columns in 8..200 {
            let layout = Layout::of(terminal_columns);
            let line = parts(&slow, 1e4).line(layout.message_columns);
            let blank = usize::from(layout.bar_columns > 0);
            let columns = layout.bar_columns + blank + "100 %  ".len() + line.chars().count();
            assert!(columns < terminal_columns, "{terminal_columns}: {line}");
        }
        let narrow = parts(&slow, 12.0).line(Layout::of(40).message_columns);
        assert_eq!(narrow, "distribute  12 s left");
        let usual = parts(&slow, 12.0).line(Layout::of(80).message_columns);
        assert!(
            usual.contains("write ") && !usual.contains("slowest"),
            "{usual}"
        );
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
