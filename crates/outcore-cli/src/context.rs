//! What every subcommand gets from its caller.
//!
//! Contract: made once from the flags, and passed down; nothing here is global.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use outcore::Result;
use outcore::job::{Control, Job};
use outcore_front::inputs::{Names, Streams};
use outcore_front::output::Sink;
use outcore_front::resources::{Resources, ResourcesRequest};
use outcore_front::staging::PackedDirectory;
use outcore_terminal::progress;
use outcore_terminal::resources::of_request;
use outcore_terminal::session::Terminal;
use outcore_verbs::host::{Host, Kept, Weight};
use outcore_verbs::report::IoTrace;
use serde_json::Value;

use crate::cli::RecordingArgs;
use crate::cli::kinds::Given;
use crate::pipe;

/// The terminal, which it dereferences to, and the options of the run; every subcommand gets it.
#[derive(Clone)]
pub(crate) struct Context {
    /// The options on the command line.
    pub(crate) given: Arc<Given>,
    /// How it talks, whether it is stopped, what names of files mean.
    pub(crate) terminal: Terminal,
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

    fn names(&self) -> &dyn Names {
        &self.files
    }

    fn output<'a>(&self, name: &'a Path, replace: bool) -> Result<Cow<'a, Path>> {
        self.files.output(name, replace)
    }

    fn output_dir<'a>(&self, name: &'a Path, replace: bool) -> Result<Cow<'a, Path>> {
        self.files.output_dir(name, replace)
    }

    fn packed(&self, name: &Path) -> Result<Option<PackedDirectory>> {
        self.files.packed(name)
    }

    fn refuse_change(&self, name: &Path) -> Result<()> {
        self.files.refuse_change(name)
    }

    fn streams(&self) -> Streams {
        Streams::Taken
    }

    fn open_pipe(&self, path: Option<&Path>, control: &Arc<Control>) -> Result<Sink> {
        // The wait for a reader may come before the work is watched.
        control.cancel_with(self.interrupt.flag());
        pipe::open(path, control)
    }

    fn check(&self) -> Result<()> {
        self.interrupt.check()
    }

    fn adopt(&self, job: Job) -> Job {
        // The wait for a writer may come before the work is watched.
        job.control.cancel_with(self.interrupt.flag());
        job
    }

    fn load(&self, request: &ResourcesRequest) -> Result<Resources> {
        of_request(request)
    }

    fn with_datasets(&self, resources: Resources) -> Result<Resources> {
        self.files.add_to(resources)
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
        // Why there is none is said when the command ends, after its summary.
        Ok(self.reporter.recorder().finish())
    }

    fn begin(&self, fields: Value) {
        self.reporter.event("begin", fields);
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

    fn prints(&self) -> bool {
        !self.reporter.is_json()
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

    fn do_watched(
        &self,
        control: &Control,
        weights: &[Weight],
        work: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        progress::watch(&self.reporter, &self.interrupt, control, weights, work)
    }
}

impl Context {
    /// The resources of the run, once it has named all that it reads and writes.
    ///
    /// # Errors
    /// As [`Host::start`].
    pub(crate) fn start(
        &self,
        resources: Resources,
        record_io: &RecordingArgs,
        kept: Kept<'_>,
    ) -> Result<Resources> {
        Host::start(self, resources, record_io.path(), kept)
    }
}
