//! The output of the command: data on standard output, everything else on standard error; JSON
//! Lines on demand.
//!
//! Contract: a [`Reporter`] is made from the flags and passed down. With `--json` each event is one
//! line `{"v":1,"event":...}` on standard output, or on standard error where standard output
//! carries data; then nothing else is printed. An error is one line `outcore: error: ...` and one
//! line `hint: ...`. A failed write to standard output is an error when the command ends
//! ([`Stdout::check`]), except if the reader went away. A failed write to standard error is
//! ignored, because there is no place left to report it.
//!
//! Events: `begin` (what will be done), `progress`, `plan`, `summary` (always with records,
//! seconds, read_bytes, written_bytes, cpu_seconds, peak_rss_bytes, passes, bandwidth_fraction),
//! `error`.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use outcore::{Control, Error, Kind, Phase as EnginePhase};
use outcore_verbs::report::Phase;
use outcore_verbs::verb::Words;
use serde_json::{Value, json};

use crate::common::{ColorWhen, Common};
use crate::measure::{Summary, phases_table};
use crate::recorder::Recorder;
use crate::stdout::Stdout;

/// Version of the events.
const VERSION: u32 = 1;

/// The output of the command.
#[derive(Debug, Clone)]
pub struct Reporter {
    command: &'static str,
    is_json: bool,
    is_quiet: bool,
    is_verbose: bool,
    is_colored: bool,
    /// Standard output carries data, so events go to standard error.
    is_stdout_taken: bool,
    /// The command was called by the name of GNU sort, and prints its messages in that form.
    is_gnu: bool,
    stdout: Stdout,
    recorder: Recorder,
    /// Paths of files, and the names that the user gave them.
    names: Arc<Mutex<Vec<(String, String)>>>,
}

impl Reporter {
    /// A reporter for `command` that obeys the flags.
    pub fn new(command: &'static str, common: &Common) -> Self {
        let is_colored = match common.color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => {
                let wants_none = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
                io::stderr().is_terminal() && !wants_none
            }
        };
        Reporter {
            command,
            is_json: common.json,
            is_quiet: common.quiet,
            is_verbose: common.verbose,
            is_colored,
            is_stdout_taken: false,
            is_gnu: false,
            stdout: Stdout::default(),
            recorder: Recorder::default(),
            names: Arc::default(),
        }
    }

    /// From now on, uses `name`, the user's name, for the file `path`.
    pub(crate) fn call(&self, path: &Path, name: &Path) {
        let pair = (path.display().to_string(), name.display().to_string());
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(&pair) {
            names.push(pair);
        }
    }

    /// A text about files, with the names that the user gave.
    fn named(&self, text: String) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names
            .iter()
            .fold(text, |text, (path, name)| text.replace(path, name))
    }

    /// This reporter, which from now on knows whether standard output carries data.
    pub fn with_stdout_taken(mut self, is_taken: bool) -> Self {
        self.is_stdout_taken = is_taken;
        self
    }

    /// This reporter, which from now on knows whether the command was called by the name of GNU
    /// sort.
    pub fn called_sort(mut self, is_called: bool) -> Self {
        self.is_gnu = is_called;
        self
    }

    /// Whether the command was called by the name of GNU sort.
    pub fn is_gnu(&self) -> bool {
        self.is_gnu
    }

    /// The exit code after an error: GNU sort has 1 for disorder and 2 for trouble.
    pub(crate) fn exit_code(&self, error: &Error) -> u8 {
        match error.kind() {
            Kind::CheckFailed | Kind::Interrupted => error.kind().exit_code(),
            _ if self.is_gnu => Kind::Usage.exit_code(),
            kind => kind.exit_code(),
        }
    }

    /// Whether events are printed.
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Whether the user asked for more output.
    pub(crate) fn is_verbose(&self) -> bool {
        self.is_verbose && !self.is_json
    }

    /// Whether a progress bar is wanted and can be shown.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.is_quiet && !self.is_json && !self.is_gnu && io::stderr().is_terminal()
    }

    /// Whether to report the result: on a terminal, or if the user asked for more. GNU sort is
    /// silent.
    pub fn tells(&self) -> bool {
        self.is_verbose() || (!self.is_gnu && io::stderr().is_terminal())
    }

    /// Whether lines may be coloured.
    pub(crate) fn is_colored(&self) -> bool {
        self.is_colored
    }

    /// Prints an event; nothing without `--json`. `fields` is an object.
    pub fn event(&self, name: &str, fields: Value) {
        if !self.is_json {
            return;
        }
        // Written by hand, so that people who read the line see version and event first.
        let head = format!(
            "{{\"v\":{VERSION},\"event\":{},\"command\":{}",
            json!(name),
            json!(self.command)
        );
        let text = match fields.to_string().strip_prefix('{') {
            Some("}") | None => format!("{head}}}\n"),
            Some(rest) => format!("{head},{rest}\n"),
        };
        let text = self.named(text);
        if self.is_stdout_taken {
            say(&mut io::stderr(), &text);
        } else {
            self.stdout.write(text.as_bytes());
        }
    }

    /// A line for people on standard error.
    pub fn human(&self, line: &str) {
        if !self.is_json && !self.is_quiet {
            say(&mut io::stderr(), &self.named(format!("{line}\n")));
        }
    }

    /// A line for users who asked for more.
    pub fn detail(&self, line: &str) {
        if self.is_verbose() {
            self.human(line);
        }
    }

    /// Shows each plan that a job makes, as soon as it is made.
    pub fn show_plans(&self, control: &Control) {
        let reporter = self.clone();
        control.on_plan(move |plan| reporter.plan(plan));
    }

    /// Shows a plan.
    pub fn plan(&self, plan: &dyn fmt::Display) {
        let text = plan.to_string();
        self.event("plan", json!({ "text": text }));
        self.human(&text);
    }

    /// The table of a job's phases next to its plan, for users who asked for more or, if it
    /// `is_explained`, for the plan.
    pub fn phases(&self, phases: &[EnginePhase], is_explained: bool) {
        self.show_phases(&Phase::of_engine(phases), is_explained);
    }

    fn show_phases(&self, phases: &[Phase], is_explained: bool) {
        if !phases.is_empty() && (is_explained || self.is_verbose()) {
            phases_table(phases)
                .iter()
                .for_each(|line| self.human(line));
        }
    }

    /// A note that the user should see, and that is not an error.
    pub fn note(&self, text: &str) {
        self.human(&format!("{} {text}", self.paint("note:", "36")));
    }

    /// The data of a command: text on standard output, unless `--json` prints events.
    pub fn data(&self, text: &str) {
        if !self.is_json {
            self.stdout.write(text.as_bytes());
        }
    }

    /// A result for people on standard output.
    pub fn result(&self, text: &str) {
        if !self.is_quiet {
            self.data(text);
        }
    }

    /// The stream for results.
    pub fn stdout(&self) -> &Stdout {
        &self.stdout
    }

    /// The recording of the run.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The summary of a command, as an event. It ends the recording.
    pub fn summary(&self, summary: &Summary) {
        let trace = self.recorder.finish();
        if !self.is_json {
            return;
        }
        let mut fields = summary.to_json();
        if let Some(trace) = trace {
            fields["io_trace"] = json!(trace);
        }
        self.event("summary", fields);
    }

    /// The report of a verb: its words, and the summary event.
    pub fn report(&self, report: Value, words: &Words) {
        self.data(&words.data);
        if !words.are_for_watchers || self.tells() {
            words.lines.iter().for_each(|line| self.human(line));
        }
        if self.is_json {
            self.event("summary", report);
        }
        words.details.iter().for_each(|line| self.detail(line));
        self.show_phases(&words.phases, words.are_phases_asked_for);
    }

    /// An error: one line with cause and place, and one with the next step.
    pub fn error(&self, error: &Error) {
        let message = message_of(error);
        self.event(
            "error",
            json!({
                "kind": error.kind().name(),
                "exit_code": self.exit_code(error),
                "message": message,
                "operation": error.operation(),
                "cause": error.cause(),
                "drive": error.drive_name(),
                "path": error.file_path().map(|path| path.display().to_string()),
                "offset_bytes": error.offset_bytes(),
                "errno": error.raw_errno(),
                "hint": error.next_step(),
            }),
        );
        // With --json, the error is printed for people as well: a person at the terminal should not
        // have to read JSON. It is not printed among the events, where each line must parse.
        if self.is_json && self.is_stdout_taken {
            return;
        }
        let is_disorder = error.kind() == Kind::CheckFailed;
        let mut text = match (self.is_gnu, error.kind()) {
            (false, _) => format!("outcore: {} {message}\n", self.paint("error:", "1;31")),
            (true, Kind::Usage | Kind::CheckFailed) => format!("sort: {}\n", error.cause()),
            (true, _) => format!("sort: {message}\n"),
        };
        if let Some(hint) = error.next_step().filter(|_| !(self.is_gnu && is_disorder)) {
            text.push_str(&format!("{} {hint}\n", self.paint("hint:", "36")));
        }
        say(&mut io::stderr(), &self.named(text));
    }

    fn paint(&self, text: &str, code: &str) -> String {
        if self.is_colored {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }
}

/// Ignores errors of the write: a reader that went away does not need the rest.
fn say(stream: &mut dyn Write, text: &str) {
    let _ = stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush());
}

/// The error's own line, without its hint.
fn message_of(error: &Error) -> String {
    let text = error.to_string();
    let hint = error.next_step().map(|hint| format!("; {hint}"));
    let text = match hint.and_then(|hint| text.strip_suffix(&hint).map(str::to_string)) {
        Some(message) => message,
        None => text,
    };
    text.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_is_not_part_of_the_message() {
        let error = Error::usage("read type", "unknown").hint("known: u64");
        assert_eq!(message_of(&error), "read type: unknown");
        assert_eq!(
            message_of(&Error::usage("read type", "a\nb")),
            "read type: a b"
        );
    }
}
