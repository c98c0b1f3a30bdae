//! Files that stand for datasets, for the time of one job.
//!
//! Contract: a [`Staging`] makes a private directory on the first drive of a volume that is there and gives a path in it
//! for each dataset that a job reads or writes; the directory is removed with it, or swept by the next run.
//! What the engine alone reads is a stand-in (see [`volumes::stand_in`]), the rest a copy; so are
//! compressed text, by name or content, which is unpacked where it lies, and files inside of one. What the engine publishes is a sealed dataset as it is
//! published ([`DatasetFiles::means`]); what a job makes otherwise (compressed text, say) is a file, that
//! [`Staging::finish`] puts. A volume is needed only where a dataset is named.
//!
//! Bounds: room for copies on the first drive.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::config::Environment;
use outcore::drive::{Device, PrivateDir};
use outcore::memory::Budget;
use outcore::volume::dataset::transfer;
use outcore::volume::dataset::{DatasetVolume, Named, Watch};
use outcore::{Error, Result};

use crate::content::{Content, HEAD_BYTES, Recognition};
use crate::means::{Means, MeansRequest};
use crate::volumes::{self, DatasetFiles};

/// A copy to be made, watched as it is told.
pub type Work<'a> = dyn Fn(Watch<'_>) -> Result<()> + 'a;
/// How a copy of so many bytes is made: watched, shown, stopped.
pub type Copy<'a> = dyn Fn(u64, &Work<'_>) -> Result<()> + 'a;

/// What a job reads of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Its head at most.
    Head,
    /// All of it, through the engine, but for its head.
    ByEngine,
    /// All of it, as a file of the system.
    Otherwise,
}

/// See the module.
pub struct Staging {
    device: Arc<dyn Device>,
    volume: DatasetVolume,
    budget: Budget,
    dir: PrivateDir,
    drives_file: PathBuf,
    replace: bool,
    inputs: Vec<(PathBuf, String)>,
    outputs: Vec<(PathBuf, Named)>,
    /// All files that stand for datasets, and what they were named.
    names: Vec<(PathBuf, PathBuf)>,
}

/// Fails for `name`, which begins as that of a dataset, where no volume is named; a file of that name is
/// meant if it is there.
///
/// # Errors
/// Usage.
pub fn refuse_without_volume(name: &Path) -> Result<()> {
    if name.exists() || !matches!(Named::parse(name), Ok(Some(_))) {
        return Ok(());
    }
    let name = name.display();
    let cause = format!("{name} names a dataset, and no volume is named");
    Err(Error::usage("open volume", cause).hint(format!(
        "use --volume drives.toml, or set OUTCORE_VOLUME; a file of that name is ./{name}"
    )))
}

impl Staging {
    /// For a job on `device` that names datasets of the volume of `drives_file`.
    ///
    /// # Errors
    /// The volume cannot be opened, or written to.
    pub fn begin(device: Arc<dyn Device>, drives_file: &Path) -> Result<Self> {
        let volume = volumes::open(&device, drives_file)?;
        let home = volume.present_drives().next();
        let home = home.map(|drive| drive.dir.clone());
        let home =
            home.ok_or_else(|| Error::usage("open volume", "none of its drives is there"))?;
        // Killed runs leave scratch on any of them.
        for drive in volume.present_drives() {
            device.sweep_private_dirs(&drive.dir)?;
        }
        Ok(Staging {
            dir: device.make_private_dir(&home)?,
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

    /// A path for `name`, in a directory of its own, so that what a name says of its contents stays.
    fn path_for(&mut self, name: &Path, named: &Named) -> Result<PathBuf> {
        let dir = self.dir.create_dir(&self.names.len().to_string())?;
        let inside = named.inside.as_deref();
        let inside = inside.and_then(|inside| inside.rsplit('/').next());
        let path = dir.join(inside.unwrap_or(&named.dataset));
        self.names.push((path.clone(), name.to_path_buf()));
        Ok(path)
    }

    /// The file in the place of a dataset that is read.
    ///
    /// # Errors
    /// There is no such dataset, it is a whole directory, damage, no room for a copy.
    pub fn input(&mut self, name: &Path, reads: Reads, copy: &Copy<'_>) -> Result<PathBuf> {
        let named = volumes::named(name)?;
        let path = self.path_for(name, &named)?;
        if reads != Reads::Otherwise && volumes::is_one_file(&self.volume, &named)? {
            volumes::stand_in(&self.volume, &named, &path, &self.budget)?;
            if reads == Reads::Head || !is_packed(&path)? {
                self.inputs.push((path.clone(), named.dataset));
                return Ok(path);
            }
            std::fs::remove_file(&path)
                .map_err(|error| Error::io("remove stand-in", &error).path(&path))?;
        }
        copy(volumes::bytes_of(&self.volume, name), &|watch| {
            let means = self.transfer(watch);
            volumes::get(&self.volume, &named, &path, false, means).map(|_| ())
        })?;
        Ok(path)
    }

    /// The file in the place of a dataset that is written, and with `replace` may be there already.
    ///
    /// # Errors
    /// The name is taken, and must not be; a drive of the volume is missing.
    pub fn output(&mut self, name: &Path, replace: bool) -> Result<PathBuf> {
        let named = volumes::named(name)?;
        self.volume.check_complete("write dataset")?;
        self.replace = replace;
        if !replace && self.volume.contains(&named.dataset) {
            let cause = format!("there is a @{} already", named.dataset);
            return Err(Error::usage("create output", cause)
                .hint("allow replacing it with --force, or name another"));
        }
        let path = self.path_for(name, &named)?;
        self.outputs.push((path.clone(), named));
        Ok(path)
    }

    fn transfer<'a>(&'a self, watch: Watch<'a>) -> transfer::Means<'a> {
        transfer::Means {
            device: &self.device,
            budget: &self.budget,
            watch,
        }
    }

    /// The files that stand for datasets, and what these were named.
    pub fn names(&self) -> &[(PathBuf, PathBuf)] {
        &self.names
    }

    /// The datasets that the engine reads and writes as files; with `lends_drives`, scratch goes to the
    /// volume's drives where no others are named.
    pub fn files(&self, lends_drives: bool) -> DatasetFiles {
        let outputs = self.outputs.iter();
        let whole = outputs.filter(|(_, name)| name.inside.is_none());
        DatasetFiles {
            drives_file: self.drives_file.clone(),
            inputs: self.inputs.clone(),
            outputs: whole
                .map(|(path, name)| (path.clone(), name.dataset.clone()))
                .collect(),
            replace: self.replace,
            // A mount point without its drive is no place for scratch.
            lends_drives: lends_drives && self.volume.absent().next().is_none(),
        }
    }

    /// Puts what the job has made as files.
    ///
    /// # Errors
    /// The name is taken, no room.
    pub fn finish(self, copy: &Copy<'_>) -> Result<()> {
        for (path, name) in self.outputs.iter().filter(|(path, _)| path.exists()) {
            copy(volumes::bytes_of(&self.volume, path), &|watch| {
                let means = self.transfer(watch);
                volumes::put(&self.volume, path, name, self.replace, means).map(|_| ())
            })?;
        }
        Ok(())
    }
}

/// Whether the file at `path`, or its stand-in, would be unpacked before its lines are read.
fn is_packed(path: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head));
    read.map_err(|error| Error::io("look at stand-in", &error).path(path))?;
    let packed = Recognition::default().packed(path, Content::of(&head));
    Ok(packed.is_some())
}

impl DatasetFiles {
    /// What a job of `request` may use, with the datasets among its files.
    ///
    /// # Errors
    /// As [`Means::load`] and [`volumes::open`].
    pub fn means(&self, request: &mut MeansRequest, environment: &Environment) -> Result<Means> {
        let mut means = Means::load(request, environment)?;
        if self.lends_drives && means.specs().is_empty() {
            // Where the data are, scratch goes too.
            request.flags.drives = vec![self.drives_file.clone()];
            means = Means::load(request, environment)?;
        }
        let device = self.mount(&means.device())?;
        Ok(means.on(device))
    }
}
