//! Datasets as files of a job: read in place, written next to it, copied if necessary.
//!
//! Contract: a [`Staging`] is one job's view of a volume.
//! - A dataset of one file is read in place: its [`Source`] has its length, its head and its bytes,
//!   and the job's device opens it by its name ([`Datasets::mount`]).
//! - A file packed in a dataset, and any data that programs must read as a file, is copied into a
//!   private directory on the first present drive. The staging removes that directory when it is
//!   dropped; after a kill, the next run removes it.
//! - An output gets a path in that directory. A file that the engine publishes there becomes a
//!   sealed dataset immediately. Other results of a job (such as compressed text) are files, which
//!   [`Staging::finish`] puts into the volume.
//!
//! Bounds: room for copies on the first drive.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{Error, Result};
use outcore_io::config::Environment;
use outcore_io::drive::objects::is_object;
use outcore_io::drive::{Device, PrivateDir};
use outcore_io::memory::Budget;
use outcore_store::dataset::device::DatasetDevice;
use outcore_store::dataset::pack::{EntryKind, Index};
use outcore_store::dataset::transfer;
use outcore_store::dataset::{DatasetVolume, Named, Watch};

use crate::inputs::{Names, Source};
use crate::resources::{Resources, ResourcesRequest};
use crate::volumes::{self, Sealed};

/// A copy to be made, observed through the given watch.
pub type Work<'a> = dyn Fn(Watch<'_>) -> Result<()> + 'a;
/// Makes a copy that is observed, shows progress, and stops on request.
pub type Copy<'a> = dyn Fn(u64, &Work<'_>) -> Result<()> + 'a;

/// How a job reads a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Only its head.
    Head,
    /// Through the engine, except for its head.
    ByEngine,
    /// As a file of the system.
    Otherwise,
}

/// One job's view of a volume; see the module.
pub struct Staging {
    device: Arc<dyn Device>,
    volume: DatasetVolume,
    budget: Budget,
    dir: PrivateDir,
    drives_file: PathBuf,
    replace: bool,
    /// The inputs so far, by the names that the user gave.
    inputs: Vec<(PathBuf, Source)>,
    outputs: Vec<(PathBuf, Named)>,
    /// Files in the private directory, with the user's names for them.
    names: Vec<(PathBuf, PathBuf)>,
}

/// Fails for a `name` in the form of a dataset's if no volume is given. An existing file of that
/// name takes precedence.
///
/// # Errors
/// Usage.
pub fn refuse_without_volume(name: &Path) -> Result<()> {
    if name.exists() || !matches!(Named::parse(name), Ok(Some(_))) {
        return Ok(());
    }
    let name = name.display();
    let cause = format!("{name} is a dataset, but no volume is given");
    Err(Error::usage("open volume", cause).hint(format!(
        "use --volume drives.toml, or set OUTCORE_VOLUME; a file of that name is ./{name}"
    )))
}

/// The error for a dataset or an object that would be modified in place.
pub fn sealed_error(name: &Path) -> Error {
    if is_object(name) {
        let cause = "objects are not changed in place";
        return Error::usage("change input", cause)
            .path(name)
            .hint("write another object; -o with --force replaces an existing one");
    }
    Error::usage(
        "change input",
        "a dataset is sealed, so it cannot be changed in place",
    )
    .path(name)
    .hint("write another dataset: -o @OTHER; -o with --force replaces an existing one")
}

/// The error for a directory in a dataset where a file is required.
fn directory_error(name: &Path) -> Error {
    let name = name.display();
    Error::usage("open input", format!("{name} is a directory of files")).hint(format!(
        "name one file in it, as in {name}/FILE (`outcore volume ls {name}` lists them), or copy \
         them all to DIR with `outcore volume get {name} DIR`"
    ))
}

impl Staging {
    /// Notes about drives of the volume.
    pub fn notes(&self) -> Vec<String> {
        volumes::degraded_notes(&self.volume)
    }

    /// For a job on `device` that uses datasets of the volume of `drives_file`.
    ///
    /// # Errors
    /// The volume cannot be opened or written.
    pub fn begin(device: Arc<dyn Device>, drives_file: &Path) -> Result<Self> {
        let volume = volumes::open(&device, drives_file)?;
        let first = volume.present_drives().next();
        let first_dir = first.map(|drive| drive.dir.clone());
        let first_dir = first_dir
            .ok_or_else(|| Error::usage("open volume", "all of its drives are missing"))?;
        // Killed runs leave scratch on any of the drives.
        for drive in volume.present_drives() {
            device.sweep_private_dirs(&drive.dir)?;
        }
        Ok(Staging {
            dir: device.make_private_dir(&first_dir)?,
            budget: volumes::budget(),
            drives_file: drives_file.to_path_buf(),
            replace: false,
            inputs: Vec::new(),
            outputs: Vec::new(),
            names: Vec::new(),
            volume,
            device,
        })
    }

    /// A path for `name` in a directory of its own, so that the extension is preserved.
    fn path_for(&mut self, name: &Path, named: &Named) -> Result<PathBuf> {
        let dir = self.dir.create_dir(&self.names.len().to_string())?;
        let inside = named.inside.as_deref();
        let inside = inside.and_then(|inside| inside.rsplit('/').next());
        let path = dir.join(inside.unwrap_or(&named.dataset));
        self.names.push((path.clone(), name.to_path_buf()));
        Ok(path)
    }

    /// The input that `name` means: the dataset itself, or a copy of the file packed in one.
    ///
    /// # Errors
    /// The dataset does not exist or is a whole directory; damage; no room for a copy.
    pub fn source(&mut self, name: &Path, copy: &Copy<'_>) -> Result<Source> {
        if let Some((_, known)) = self.inputs.iter().find(|(known, _)| known == name) {
            return Ok(known.clone());
        }
        let named = volumes::named(name)?;
        let source = match Sealed::of(&self.volume, &named)? {
            Some(sealed) => Source::of_dataset(name, sealed),
            None if named.inside.is_none() => return Err(directory_error(name)),
            None => Source::of_copy(name, &self.copied(name, copy)?)?,
        };
        self.inputs.push((name.to_path_buf(), source.clone()));
        Ok(source)
    }

    /// The directory that is packed in `name`. The job reads its files in place.
    ///
    /// # Errors
    /// As [`Sealed::packed`].
    pub fn packed(&mut self, name: &Path) -> Result<PackedDirectory> {
        let (sealed, index) = Sealed::packed(&self.volume, &volumes::named(name)?)?;
        let source = Source::of_dataset(name, sealed.clone());
        self.inputs.push((name.to_path_buf(), source));
        Ok(PackedDirectory {
            path: name.to_path_buf(),
            sealed,
            index,
        })
    }

    /// The path by which a job reads `name`: the name itself if only the job's device opens it.
    ///
    /// # Errors
    /// As [`Staging::source`].
    pub fn input(&mut self, name: &Path, reads: Reads, copy: &Copy<'_>) -> Result<PathBuf> {
        match reads {
            Reads::Otherwise => self.copied(name, copy),
            Reads::Head | Reads::ByEngine => Ok(self.source(name, copy)?.path),
        }
    }

    /// A copy of a dataset, of a directory packed in one, or of a file in such a directory.
    ///
    /// # Errors
    /// The dataset does not exist; damage; no room for a copy.
    pub fn copied(&mut self, name: &Path, copy: &Copy<'_>) -> Result<PathBuf> {
        let named = volumes::named(name)?;
        let path = self.path_for(name, &named)?;
        copy(volumes::bytes_of(&self.volume, name), &|watch| {
            let resources = self.transfer(watch);
            volumes::get(&self.volume, &named, &path, false, resources).map(|_| ())
        })?;
        Ok(path)
    }

    /// The path at which a job writes a dataset; with `replace` the dataset may exist already.
    ///
    /// # Errors
    /// The name is taken and may not be replaced; a drive of the volume is missing.
    pub fn output(&mut self, name: &Path, replace: bool) -> Result<PathBuf> {
        let named = volumes::named(name)?;
        if named.inside.is_some() {
            return Err(sealed_error(name));
        }
        self.volume.check_complete("write dataset")?;
        self.replace = replace;
        if !replace && self.volume.contains(&named.dataset) {
            let cause = format!("@{} already exists", named.dataset);
            return Err(Error::usage("create output", cause)
                .hint("allow replacing it with --force, or name another dataset"));
        }
        let path = self.path_for(name, &named)?;
        self.outputs.push((path.clone(), named));
        Ok(path)
    }

    /// The existing directory in which a job writes the files of a dataset.
    ///
    /// # Errors
    /// As [`Staging::output`].
    pub fn output_dir(&mut self, name: &Path, replace: bool) -> Result<PathBuf> {
        let path = self.output(name, replace)?;
        if let Ok(inside) = path.strip_prefix(self.dir.path()) {
            self.dir.create_dir(&inside.to_string_lossy())?;
        }
        Ok(path)
    }

    fn transfer<'a>(&'a self, watch: Watch<'a>) -> transfer::TransferResources<'a> {
        transfer::TransferResources {
            device: &self.device,
            budget: &self.budget,
            watch,
        }
    }

    /// The files that replace datasets, with the user's names for these.
    pub fn names(&self) -> &[(PathBuf, PathBuf)] {
        &self.names
    }

    /// The datasets that have been used so far. With `lends_drives`, scratch goes to the volume's
    /// drives if no others are given.
    pub fn files(&self, lends_drives: bool) -> Datasets {
        let outputs = self.outputs.iter();
        let whole = outputs.filter(|(_, name)| name.inside.is_none());
        Datasets {
            drives_file: self.drives_file.clone(),
            inputs: self.inputs.clone(),
            outputs: whole.cloned().collect(),
            replace: self.replace,
            // A mount point without its drive is not a place for scratch.
            lends_drives: lends_drives && self.volume.absent().next().is_none(),
        }
    }

    /// Puts the files that the job has made into the volume.
    ///
    /// # Errors
    /// The name is taken; no room.
    pub fn finish(self, copy: &Copy<'_>) -> Result<()> {
        for (path, name) in self.outputs.iter().filter(|(path, _)| path.exists()) {
            copy(volumes::bytes_of(&self.volume, path), &|watch| {
                let resources = self.transfer(watch);
                volumes::put(&self.volume, path, name, self.replace, resources).map(|_| ())
            })?;
        }
        Ok(())
    }
}

/// A directory in a dataset: a file of the job's device that contains the directory's files one
/// after the other.
pub struct PackedDirectory {
    /// The path by which the job reads the dataset.
    pub path: PathBuf,
    sealed: Sealed,
    index: Index,
}

impl PackedDirectory {
    /// The files by name, with the ranges of their bytes.
    pub fn stretches(&self) -> impl Iterator<Item = (String, Range<u64>)> {
        let files = self.index.entries.iter();
        let files = files.filter(|entry| entry.kind == EntryKind::File);
        files.map(|entry| {
            let end_bytes = entry.offset_bytes + entry.len_bytes;
            (entry.text(), entry.offset_bytes..end_bytes)
        })
    }

    /// Reads a small file.
    ///
    /// # Errors
    /// No file has that name; a failed read; damage.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let entry = self.index.find(name)?;
        self.sealed
            .read(entry.offset_bytes, entry.len_bytes as usize)
    }
}

/// The datasets of a job.
#[derive(Debug, Clone)]
pub struct Datasets {
    drives_file: PathBuf,
    inputs: Vec<(PathBuf, Source)>,
    outputs: Vec<(PathBuf, Named)>,
    replace: bool,
    lends_drives: bool,
}

impl Datasets {
    /// The resources of a job of `request`, with the datasets among its files.
    ///
    /// # Errors
    /// As [`Resources::load`] and [`volumes::open`].
    pub fn resources(
        &self,
        request: &ResourcesRequest,
        environment: &Environment,
    ) -> Result<Resources> {
        self.add_to(Resources::load(request, environment)?)
    }

    /// These resources, with the datasets among the files of the device.
    ///
    /// # Errors
    /// The volume cannot be opened.
    pub fn add_to(&self, resources: Resources) -> Result<Resources> {
        let resources = match self.lends_drives && resources.specs().is_empty() {
            // Scratch goes to the drives of the data.
            true => resources.with_drives_of(&self.drives_file)?,
            false => resources,
        };
        let known: Arc<dyn Names + Send + Sync> = Arc::new(self.clone());
        Ok(resources
            .on_below(|below| self.mount(below))?
            .knowing(known))
    }

    /// The device of a job: `below` with the datasets.
    fn mount(&self, below: &Arc<dyn Device>) -> Result<Arc<dyn Device>> {
        let volume = volumes::open(below, &self.drives_file)?;
        let mut device = DatasetDevice::new(Arc::clone(below), volume, volumes::budget());
        for (_, source) in &self.inputs {
            if let Some(sealed) = &source.sealed {
                device = device.with_input(&source.path, sealed.name());
            }
        }
        for (path, name) in &self.outputs {
            device = device.with_output(path, volumes::new_dataset(name, self.replace)?);
        }
        Ok(Arc::new(device))
    }
}

impl Names for Datasets {
    fn input(&self, name: &Path) -> Result<Option<Source>> {
        let found = self.inputs.iter().find(|(known, _)| known == name);
        Ok(found.map(|(_, source)| source.clone()))
    }
}
