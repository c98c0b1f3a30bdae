//! `@name` and objects such as `s3://bucket/key` in place of a file.
//!
//! Contract: if a volume is given (`--volume`, `OUTCORE_VOLUME`), `@name` (or `@name/inside`) is a
//! dataset wherever a command takes the name of a data file. Each command asks [`Files`] once for
//! the meaning of its names. [`FileNames::output`] is for outputs: a dataset is sealed when the
//! command has succeeded, and absent otherwise. [`FileNames::copied`] is for inputs that the
//! command reads without the engine. All other inputs are read in place; [`find`] finds them
//! through [`Names`]. A dataset is never changed in place. Without a volume a dataset is an error,
//! unless there is a file of that name. The first use of a dataset opens the volume. A signal stops
//! a copy as it stops a command.
//!
//! Objects are also read in place. A result for an object is a file until the command has
//! succeeded; [`Files::finish`] then uploads it ([`outcore_front::object_outputs`]). A command
//! loads its settings ([`Files::set`]) before it names its outputs.
//!
//! [`find`]: outcore_front::inputs::find

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use outcore::Result;
use outcore_front::inputs::{Names, Source, object_named, objects_like};
use outcore_front::object_outputs::ObjectStaging;
use outcore_front::objects::no_directory;
use outcore_front::resources::Resources;
use outcore_front::staging::{PackedDirectory, Staging, Work, refuse_without_volume, sealed_error};
use outcore_io::drive::Device;
use outcore_io::drive::objects::is_object;
use outcore_store::dataset::Named;

/// The services that datasets need from the command or from Python.
pub trait DatasetHost {
    /// The settings, except for those of the command line, with the device on which the volume and
    /// objects are opened.
    ///
    /// # Errors
    /// Invalid settings.
    fn resources(&self) -> Result<Resources>;

    /// From now on, messages use `name` for the file at `path`.
    fn call(&self, path: &Path, name: &Path);

    /// Reports a note that the user should see.
    fn note(&self, text: &str);

    /// Copies `bytes` with `work`, shows the progress, and stops at the user's request.
    ///
    /// # Errors
    /// The errors of `work`.
    fn copy(&self, bytes: u64, work: &Work<'_>) -> Result<()>;
}

/// Fails if `name` is an object, for a command that writes a directory of files.
///
/// # Errors
/// Usage.
pub(crate) fn refuse_object(name: &Path) -> Result<()> {
    match is_object(name) {
        true => Err(no_directory(name)),
        false => Ok(()),
    }
}

/// The meaning of the names of inputs and outputs.
pub trait FileNames: Names {
    /// The drives file of the volume, if there is one.
    fn volume(&self) -> Option<&Path>;

    /// The path at which the command writes `name`; `replace` allows it to exist already.
    ///
    /// # Errors
    /// A dataset that cannot be written, or that exists.
    fn output<'a>(&self, name: &'a Path, replace: bool) -> Result<Cow<'a, Path>>;

    /// The directory in which the command writes the files of `name`; `replace` allows it to exist
    /// already.
    ///
    /// # Errors
    /// As [`FileNames::output`].
    fn output_dir<'a>(&self, name: &'a Path, replace: bool) -> Result<Cow<'a, Path>>;

    /// The directory that is packed in `name`, if that is a dataset; its files are read in place.
    ///
    /// # Errors
    /// There is no such dataset, or it is one file; damage.
    fn packed(&self, name: &Path) -> Result<Option<PackedDirectory>>;

    /// A path of the file system at which `name` can be read: for a dataset, that of a copy.
    ///
    /// # Errors
    /// There is no such dataset; damage; no room for a copy.
    fn copied<'a>(&self, name: &'a Path) -> Result<Cow<'a, Path>>;

    /// Fails if `name`, which the command would change in place, is a dataset.
    ///
    /// # Errors
    /// Usage.
    fn refuse_change(&self, name: &Path) -> Result<()>;

    /// These resources, with the named datasets among their files.
    ///
    /// # Errors
    /// The volume cannot be opened.
    fn add_to(&self, resources: Resources) -> Result<Resources>;
}

/// The names of files for one command.
#[derive(Clone)]
pub struct Files<H> {
    drives_file: Option<PathBuf>,
    /// Whether scratch goes to the volume's drives if no others are given.
    lends_drives: bool,
    host: H,
    /// Nothing until a dataset is used.
    staging: Arc<Mutex<Option<Staging>>>,
    /// Nothing before the first result for an object.
    objects: Arc<Mutex<Option<ObjectStaging>>>,
    /// The settings of the command, once they are known.
    settings: Arc<Mutex<Option<Resources>>>,
    /// The device of the host, once it is needed.
    device: Arc<OnceLock<Arc<dyn Device>>>,
}

impl<H: DatasetHost> Files<H> {
    /// With the datasets of the volume of `drives_file`, if there is one.
    pub fn new(drives_file: Option<PathBuf>, lends_drives: bool, host: H) -> Self {
        Files {
            drives_file,
            lends_drives,
            host,
            staging: Arc::default(),
            objects: Arc::default(),
            settings: Arc::default(),
            device: Arc::default(),
        }
    }

    fn staging(&self) -> MutexGuard<'_, Option<Staging>> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn objects(&self) -> MutexGuard<'_, Option<ObjectStaging>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, results for objects are staged with these settings of the command.
    pub fn set(&self, resources: &Resources) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = Some(resources.clone());
    }

    /// The settings of the command, or those without its options.
    fn settings(&self) -> Result<Resources> {
        let known = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone().map_or_else(|| self.host.resources(), Ok)
    }

    /// One device for all names, so that connections to stores are made once.
    fn device(&self) -> Result<Arc<dyn Device>> {
        if let Some(known) = self.device.get() {
            return Ok(Arc::clone(known));
        }
        let made = self.host.resources()?.device();
        Ok(Arc::clone(self.device.get_or_init(|| made)))
    }

    /// The file that becomes the object `name`; nothing for other names.
    fn object_output(&self, name: &Path, replace: bool) -> Result<Option<PathBuf>> {
        if !is_object(name) {
            return Ok(None);
        }
        let mut objects = self.objects();
        let begun = match objects.take() {
            Some(begun) => begun,
            None => ObjectStaging::begin(&self.settings()?)?,
        };
        let file = objects.insert(begun).output(name, replace)?;
        self.host.call(&file, name);
        Ok(Some(file))
    }

    /// Opens the volume if `name` is that of a dataset; returns nothing for a file.
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
            None => {
                let begun = Staging::begin(self.device()?, drives_file)?;
                begun.notes().iter().for_each(|note| self.host.note(note));
                begun
            }
        };
        let opened = staging.insert(opened);
        let given = what(opened)?;
        for (path, name) in opened.names() {
            self.host.call(path, name);
        }
        Ok(Some(given))
    }

    /// Stores the files that the command has made as datasets and objects.
    ///
    /// # Errors
    /// The name is taken, no room.
    pub fn finish(&self) -> Result<()> {
        let staging = self.staging().take();
        let stored = staging.map_or(Ok(()), |staging| staging.finish(&self.copying()));
        let objects = self.objects().take();
        let sent = objects.map_or(Ok(()), |objects| objects.finish(&self.copying()));
        match (stored, sent) {
            (Err(error), Err(other)) => Err(match other.next_step() {
                Some(left) => error.hint_left(left),
                None => error,
            }),
            (stored, sent) => stored.and(sent),
        }
    }

    fn copying(&self) -> impl Fn(u64, &Work<'_>) -> Result<()> {
        |bytes, work| self.host.copy(bytes, work)
    }
}

impl<H: DatasetHost> FileNames for Files<H> {
    fn volume(&self) -> Option<&Path> {
        self.drives_file.as_deref()
    }

    fn output<'a>(&self, name: &'a Path, replace: bool) -> Result<Cow<'a, Path>> {
        if let Some(file) = self.object_output(name, replace)? {
            return Ok(Cow::Owned(file));
        }
        let made = self.ask(name, |staging| staging.output(name, replace))?;
        Ok(made.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    fn output_dir<'a>(&self, name: &'a Path, replace: bool) -> Result<Cow<'a, Path>> {
        refuse_object(name)?;
        let made = self.ask(name, |staging| staging.output_dir(name, replace))?;
        Ok(made.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    fn packed(&self, name: &Path) -> Result<Option<PackedDirectory>> {
        self.ask(name, |staging| staging.packed(name))
    }

    fn copied<'a>(&self, name: &'a Path) -> Result<Cow<'a, Path>> {
        let made = self.ask(name, |staging| staging.copied(name, &self.copying()))?;
        Ok(made.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    fn refuse_change(&self, name: &Path) -> Result<()> {
        if is_object(name) {
            return Err(sealed_error(name));
        }
        match self.ask(name, |_| Ok(()))? {
            Some(()) => Err(sealed_error(name)),
            None => Ok(()),
        }
    }

    fn add_to(&self, resources: Resources) -> Result<Resources> {
        match &*self.staging() {
            Some(staging) => staging.files(self.lends_drives).add_to(resources),
            None => Ok(resources),
        }
    }
}

impl<H: DatasetHost> Names for Files<H> {
    fn input(&self, name: &Path) -> Result<Option<Source>> {
        if is_object(name) {
            return object_named(&self.device()?, name);
        }
        self.ask(name, |staging| staging.source(name, &self.copying()))
    }

    fn matching(&self, name: &Path) -> Result<Option<Vec<PathBuf>>> {
        match is_object(name) {
            true => objects_like(&self.device()?, name),
            false => Ok(None),
        }
    }
}
