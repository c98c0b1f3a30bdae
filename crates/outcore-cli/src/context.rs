//! The context that every subcommand gets from its caller.
//!
//! Contract: made once from the flags, and passed down; nothing here is global.

use std::fmt::Display;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use outcore::Result;
use outcore::job::{Control, Job};
use outcore_front::inputs::Streams;
use outcore_front::output::Sink;
use outcore_front::resources::{Resources, ResourcesRequest};
use outcore_io::units;
use outcore_mount::{ServeOptions, serve};
use outcore_terminal::progress;
use outcore_terminal::resources::until;
use outcore_terminal::screen::columns_of_stdout;
use outcore_terminal::session::Terminal;
use outcore_terminal::steps::Steps;
use outcore_verbs::datasets::FileNames;
use outcore_verbs::host::{Host, Kept, Mounted, StepWork, Weight};
use outcore_verbs::report::IoTrace;
use serde_json::{Value, json};

use crate::cli::kinds::Given;
use crate::pipe;

/// The word that makes the program unmount a view when its standard input ends.
pub(crate) const GUARD: &str = "view-guard";

/// The context of every subcommand: the terminal, which it dereferences to, and the options of the
/// run.
#[derive(Clone)]
pub(crate) struct Context {
    /// The options on the command line.
    pub(crate) given: Arc<Given>,
    /// The output, the interrupt, and the meaning of file names.
    pub(crate) terminal: Terminal,
    /// The program that starts this command again, if it is known.
    pub(crate) program: Option<PathBuf>,
}

impl Deref for Context {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
}

impl Host for Context {
    fn given(&self) -> &Given {
        &self.given
    }

    fn names(&self) -> &dyn FileNames {
        &self.files
    }

    fn mount(&self, mounted: Mounted<'_>) -> Result<()> {
        let reporter = self.reporter.clone();
        let options = ServeOptions {
            file_name: mounted.name.to_owned(),
            is_direct: mounted.is_direct,
            threads: mounted.threads,
            guardian: self.program.as_ref().map(|program| {
                let mut command = Command::new(program);
                command.arg(GUARD);
                command
            }),
            tell: Box::new(move |error| reporter.error(error)),
        };
        let place = mounted.mountpoint.join(mounted.name);
        let len_bytes = mounted.view.len_bytes();
        let ready = || {
            let path = place.display().to_string();
            let fields = json!({"path": path, "bytes": len_bytes});
            self.reporter.event("mounted", fields);
            let bytes = units::bytes(len_bytes);
            let text = format!("{path} has {bytes}; Ctrl-C or umount ends it");
            self.reporter.human(&text);
        };
        let is_over = || self.interrupt.is_set();
        serve(
            Arc::new(mounted.view),
            mounted.mountpoint,
            options,
            ready,
            is_over,
        )
    }

    fn streams(&self) -> Streams {
        Streams::Taken
    }

    fn open_pipe(&self, path: Option<&Path>, control: &Arc<Control>) -> Result<Sink> {
        // The wait for a reader may begin before the work is watched.
        control.cancel_with(self.interrupt.flag());
        pipe::open(path, control)
    }

    fn check(&self) -> Result<()> {
        self.interrupt.check()
    }

    fn adopt(&self, job: Job) -> Job {
        // The wait for a writer may begin before the work is watched.
        job.control.cancel_with(self.interrupt.flag());
        job
    }

    fn load(&self, request: &ResourcesRequest) -> Result<Resources> {
        let resources = until(&self.interrupt, request)?;
        self.files.set(&resources);
        Ok(resources)
    }

    fn record(
        &self,
        resources: Resources,
        trace: Option<&Path>,
        kept: Kept<'_>,
    ) -> Result<Resources> {
        self.reporter.recorder().start(resources, trace, kept)
    }

    fn end_trace(&self) -> Result<Option<IoTrace>> {
        // The reason for a missing trace is reported when the command ends, after its summary.
        Ok(self.reporter.recorder().finish())
    }

    fn begin(&self, fields: Value) {
        self.reporter.event("begin", fields);
    }

    fn item(&self, event: &str, fields: Value, line: &str) {
        self.reporter.event(event, fields);
        self.reporter.data(line);
    }

    fn note(&self, text: &str) {
        self.reporter.note(text);
    }

    fn say(&self, line: &str) {
        self.reporter.human(line);
    }

    fn detail(&self, line: &str) {
        self.reporter.detail(line);
    }

    fn has_watchers(&self) -> bool {
        self.reporter.tells()
    }

    fn terminal_columns(&self) -> Option<usize> {
        columns_of_stdout()
    }

    fn prints(&self) -> bool {
        !self.reporter.is_json()
    }

    fn call(&self) -> String {
        let words = std::env::args_os().map(|word| quoted(&word.to_string_lossy()));
        words.collect::<Vec<_>>().join(" ")
    }

    fn is_gnu(&self) -> bool {
        self.reporter.is_gnu()
    }

    fn show_plan(&self, plan: &dyn Display) {
        self.reporter.plan(plan);
    }

    fn print_plan(&self, plan: &dyn Display, fields: Value) {
        self.reporter.data(&format!("{plan}\n"));
        self.reporter.event("plan", fields);
    }

    fn show_plans(&self, control: &Control) {
        self.reporter.show_plans(control);
    }

    fn do_in_steps(&self, work: &mut StepWork<'_>) -> Result<()> {
        let steps = Steps::new(&self.reporter);
        work(&|step| steps.show(step))
    }

    fn do_watched(
        &self,
        control: &Control,
        weights: &[Weight],
        work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        progress::watch(&self.reporter, &self.interrupt, control, weights, work)
    }
}

/// A word as it must be typed in a shell.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,+@%".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
