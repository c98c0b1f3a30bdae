//! The steps of a measurement, shown one after the other.
//!
//! Contract: with `--json`, each step is a `progress` event. On a terminal, a spinner shows it.
//! Otherwise it is a line, if the user asked for more messages. The spinner is removed with its
//! [`Steps`].

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::report::Reporter;

/// See the module.
pub struct Steps<'a> {
    reporter: &'a Reporter,
    spinner: Option<ProgressBar>,
}

impl<'a> Steps<'a> {
    /// No step has been shown yet.
    pub fn new(reporter: &'a Reporter) -> Self {
        Steps {
            reporter,
            spinner: reporter.shows_progress().then(spinner),
        }
    }

    /// Shows a step.
    pub fn show(&self, step: &str) {
        self.reporter.event("progress", json!({"phase": step}));
        match &self.spinner {
            // The spinner turns with each message, not on a thread of its own.
            Some(spinner) => {
                spinner.set_message(step.to_string());
                spinner.tick();
            }
            None => self.reporter.detail(step),
        }
    }
}

/// A spinner whose message is cut to the terminal's width.
fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    match ProgressStyle::with_template("{spinner} {wide_msg}") {
        Ok(style) => spinner.with_style(style),
        Err(_) => spinner,
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
    }
}
