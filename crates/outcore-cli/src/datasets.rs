//! `@name` where a command takes a file: read and written where it lies, or copied.
//!
//! Contract: with a volume named (`--volume`, `OUTCORE_VOLUME`), `@name` (or `@name/inside`) is a
//! dataset wherever a command takes the name of a file of data. Each command asks [`Files`] what
//! its names mean, once: [`Files::output`] for what it writes, which is a sealed dataset when the
//! command has succeeded and absent otherwise; [`Files::copied`] for what it reads past the engine;
//! and, through [`Names`], [`find`] for all other inputs, which are read where they lie. A dataset
//! is never changed in its place. Without a volume a dataset is an error, unless there is a file of
//! that name. The volume is opened with the first dataset that is named. A signal stops a copy as
//! it stops a command.
//!
//! [`find`]: outcore_front::inputs::find

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outcore::Result;
use outcore::job::Control;
use outcore_front::inputs::{Names, Source};
use outcore_front::resources::Resources;
use outcore_front::staging::{PackedDirectory, Staging, Work, refuse_without_volume, sealed_error};
use outcore_store::dataset::{Named, Watch};

use crate::progress::watch;
use crate::report::Reporter;
use crate::resources;
use crate::signals::Interrupt;

/// What the names of files mean to one command.
#[derive(Clone)]
pub(crate) struct Files {
    drives_file: Option<PathBuf>,
    /// Whether scratch goes to the volume's drives where no others are named.
    lends_drives: bool,
    reporter: Reporter,
    interrupt: Interrupt,
    /// Nothing until a dataset is named.
    staging: Arc<Mutex<Option<Staging>>>,
}

impl Files {
    /// With the datasets of the volume of `drives_file`, if one is named.
    pub(crate) fn new(
        drives_file: Option<PathBuf>,
        lends_drives: bool,
        (reporter, interrupt): (&Reporter, &Interrupt),
    ) -> Self {
        Files {
            drives_file,
            lends_drives,
            reporter: reporter.clone(),
            interrupt: interrupt.clone(),
            staging: Arc::default(),
        }
    }

    fn staging(&self) -> MutexGuard<'_, Option<Staging>> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the volume, if `name` is that of a dataset; nothing for a file.
    fn ask<T>(
        &self,
        name: &Path,
        what: impl FnOnce(&mut Staging) -> Result<T>,
    ) -> Result<Option<T>> {
        if !Named::is_mark(name) {
            return Ok(None);
        }
        let Some(drives_file) = &self.drives_file else {
            return refuse_without_volume(name).map(|()| None);
        };
        let mut staging = self.staging();
        let opened = match staging.take() {
            Some(opened) => opened,
            None => Staging::begin(resources::without_flags()?.device(), drives_file)?,
        };
        let opened = staging.insert(opened);
        let given = what(opened)?;
        for (path, name) in opened.names() {
            self.reporter.call(path, name);
        }
        Ok(Some(given))
    }

    /// The path at which the command writes `name`; `replace` says whether it may be there already.
    ///
    /// # Errors
    /// A dataset that cannot be written, or is there.
    pub(crate) fn output<'a>(&self, name: &'a Path, replace: bool) -> Result<Cow<'a, Path>> {
        let made = self.ask(name, |staging| staging.output(name, replace))?;
        Ok(made.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    /// The directory that is packed in `name`, if that is a dataset; its files are read where they
    /// lie.
    ///
    /// # Errors
    /// There is no such dataset, or it is one file; damage.
    pub(crate) fn packed(&self, name: &Path) -> Result<Option<PackedDirectory>> {
        self.ask(name, |staging| staging.packed(name))
    }

    /// A path of the system by which `name` is read: of a dataset, that of a copy.
    ///
    /// # Errors
    /// There is no such dataset; damage; no room for a copy.
    pub(crate) fn copied<'a>(&self, name: &'a Path) -> Result<Cow<'a, Path>> {
        let made = self.ask(name, |staging| staging.copied(name, &self.copying()))?;
        Ok(made.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    /// Fails if `name`, which the command would change in its place, is a dataset.
    ///
    /// # Errors
    /// Usage.
    pub(crate) fn refuse_change(&self, name: &Path) -> Result<()> {
        match self.ask(name, |_| Ok(()))? {
            Some(()) => Err(sealed_error(name)),
            None => Ok(()),
        }
    }

    /// The same means with the datasets that have been named among their files.
    ///
    /// # Errors
    /// The volume cannot be opened.
    pub(crate) fn add_to(&self, resources: Resources) -> Result<Resources> {
        match &*self.staging() {
            Some(staging) => staging.files(self.lends_drives).add_to(resources),
            None => Ok(resources),
        }
    }

    /// Puts what the command has made as a file.
    ///
    /// # Errors
    /// The name is taken, no room.
    pub(crate) fn finish(&self) -> Result<()> {
        let staging = self.staging().take();
        staging.map_or(Ok(()), |staging| staging.finish(&self.copying()))
    }

    /// Copies bytes, showing progress and stopping when a signal comes.
    fn copying(&self) -> impl Fn(u64, &Work<'_>) -> Result<()> {
        let (reporter, interrupt) = (&self.reporter, &self.interrupt);
        move |bytes, work| {
            let control = Control::default();
            control.begin_phase("copy", bytes);
            // The events of a command begin with its own.
            let is_stopped = || interrupt.check();
            let is_cancelled = || control.check();
            let check: &dyn Fn() -> Result<()> = match reporter.is_json() {
                true => &is_stopped,
                false => &is_cancelled,
            };
            let told = Watch {
                check,
                advance: &|bytes| control.advance(bytes),
            };
            match reporter.is_json() {
                true => work(told),
                false => watch(reporter, interrupt, &control, &[("copy", 1.0)], || {
                    work(told)
                }),
            }
        }
    }
}

impl Names for Files {
    fn input(&self, name: &Path) -> Result<Option<Source>> {
        self.ask(name, |staging| staging.source(name, &self.copying()))
    }
}
