//! `@name` in place of a file: read and written on the volume, or copied.
//!
//! Contract: if a volume is given (`--volume`, `OUTCORE_VOLUME`), `@name` (or `@name/inside`) is a
//! dataset wherever a command takes the name of a data file. Each command asks [`Files`] what its
//! names mean, once: [`Files::output`] for what it writes, which is a sealed dataset when the
//! command has succeeded and absent otherwise; [`Files::copied`] for what it reads past the engine;
//! and, through [`Names`], [`find`] for all other inputs, which are read in place. A dataset is
//! never changed in place. Without a volume a dataset is an error, unless there is a file of that
//! name. The first use of a dataset opens the volume. A signal stops a copy as it stops a command.
//!
//! [`find`]: outcore_front::inputs::find

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outcore::Result;
use outcore_front::inputs::{Names, Source};
use outcore_front::resources::Resources;
use outcore_front::staging::{PackedDirectory, Staging, Work, refuse_without_volume, sealed_error};
use outcore_io::drive::Device;
use outcore_store::dataset::Named;

/// The services that datasets need from the command or from Python.
pub trait DatasetHost {
    /// The device that the volume is opened on.
    ///
    /// # Errors Invalid settings.
    fn device(&self) -> Result<Arc<dyn Device>>;

    /// From now on messages call the file at `path` by `name`.
    fn call(&self, path: &Path, name: &Path);

    /// Copies `bytes` with `work`, shows the progress, and stops at the user's request.
    ///
    /// # Errors
    /// What `work` fails with.
    fn copy(&self, bytes: u64, work: &Work<'_>) -> Result<()>;
}

/// The meaning of the names of files for one command.
#[derive(Clone)]
pub struct Files<H> {
    drives_file: Option<PathBuf>,
    /// Whether scratch goes to the volume's drives if no others are given.
    lends_drives: bool,
    host: H,
    /// Nothing until a dataset is used.
    staging: Arc<Mutex<Option<Staging>>>,
}

impl<H: DatasetHost> Files<H> {
    /// With the datasets of the volume of `drives_file`, if there is one.
    pub fn new(drives_file: Option<PathBuf>, lends_drives: bool, host: H) -> Self {
        Files {
            drives_file,
            lends_drives,
            host,
            staging: Arc::default(),
        }
    }

    /// The drives file of the volume, if there is one.
    pub fn volume(&self) -> Option<&Path> {
        self.drives_file.as_deref()
    }

    fn staging(&self) -> MutexGuard<'_, Option<Staging>> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the volume if `name` is that of a dataset; nothing for a file.
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
            None => Staging::begin(self.host.device()?, drives_file)?,
        };
        let opened = staging.insert(opened);
        let given = what(opened)?;
        for (path, name) in opened.names() {
            self.host.call(path, name);
        }
        Ok(Some(given))
    }

    /// The path at which the command writes `name`; `replace` allows it to exist already.
    ///
    /// # Errors A dataset that cannot be written, or that exists.
    pub fn output<'a>(&self, name: &'a Path, replace: bool) -> Result<Cow<'a, Path>> {
        let made = self.ask(name, |staging| staging.output(name, replace))?;
        Ok(made.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    /// The directory in which the command writes the files of `name`; `replace` allows it to exist
    /// already.
    ///
    /// # Errors
    /// As [`Files::output`].
    pub fn output_dir<'a>(&self, name: &'a Path, replace: bool) -> Result<Cow<'a, Path>> {
        let made = self.ask(name, |staging| staging.output_dir(name, replace))?;
        Ok(made.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    /// The directory that is packed in `name`, if that is a dataset; its files are read in place.
    ///
    /// # Errors
    /// There is no such dataset, or it is one file; damage.
    pub fn packed(&self, name: &Path) -> Result<Option<PackedDirectory>> {
        self.ask(name, |staging| staging.packed(name))
    }

    /// A path of the file system at which `name` can be read: for a dataset, that of a copy.
    ///
    /// # Errors
    /// There is no such dataset; damage; no room for a copy.
    pub fn copied<'a>(&self, name: &'a Path) -> Result<Cow<'a, Path>> {
        let made = self.ask(name, |staging| staging.copied(name, &self.copying()))?;
        Ok(made.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    /// Fails if `name`, which the command would change in place, is a dataset.
    ///
    /// # Errors
    /// Usage.
    pub fn refuse_change(&self, name: &Path) -> Result<()> {
        match self.ask(name, |_| Ok(()))? {
            Some(()) => Err(sealed_error(name)),
            None => Ok(()),
        }
    }

    /// The same resources, whose files include the datasets that have been named.
    ///
    /// # Errors
    /// The volume cannot be opened.
    pub fn add_to(&self, resources: Resources) -> Result<Resources> {
        match &*self.staging() {
            Some(staging) => staging.files(self.lends_drives).add_to(resources),
            None => Ok(resources),
        }
    }

    /// Stores the files that the command has made as datasets.
    ///
    /// # Errors
    /// The name is taken, no room.
    pub fn finish(&self) -> Result<()> {
        let staging = self.staging().take();
        staging.map_or(Ok(()), |staging| staging.finish(&self.copying()))
    }

    fn copying(&self) -> impl Fn(u64, &Work<'_>) -> Result<()> {
        |bytes, work| self.host.copy(bytes, work)
    }
}

impl<H: DatasetHost> Names for Files<H> {
    fn input(&self, name: &Path) -> Result<Option<Source>> {
        self.ask(name, |staging| staging.source(name, &self.copying()))
    }
}
