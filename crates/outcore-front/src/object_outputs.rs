//! Results that become objects of stores.
//!
//! Contract: a result for an object is first a file in a private directory
//! ([`ObjectStaging::output`]). When the job has succeeded, [`ObjectStaging::finish`] uploads it;
//! until then the store has nothing new, and an older object stays. If an upload fails or is
//! stopped, each result that is not in the store stays in a directory that only its owner can read,
//! next to the private directory, and the error names it. The private directory is removed at the
//! end, or by the next run after a kill.
//!
//! N.B. the engine writes a result from several threads and at many places at once. An upload would
//! need a part in memory for each of these places, so the result passes through a drive.
//!
//! Bounds: room for the results on the drive of the private directory; the parts of an upload,
//! within the memory of the settings.

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{Error, Result};
use outcore_io::drive::objects::UploadWatch;
use outcore_io::drive::{Access, Device, PrivateDir};

use crate::objects::stores_of;
use crate::output::check_placeholders;
use crate::resources::{Resources, default_scratch_dir};
use crate::staging::Copy;

const CREATE: &str = "create output";
/// First part of the name of a directory with a result whose upload failed.
const KEPT: &str = "outcore-kept-";

/// The results of a job that become objects.
pub struct ObjectStaging {
    device: Arc<dyn Device>,
    parent: PathBuf,
    dir: PrivateDir,
    memory_bytes: u64,
    outputs: Vec<ObjectOutput>,
}

/// A file, and the object that it becomes.
struct ObjectOutput {
    file: PathBuf,
    object: PathBuf,
    replace: bool,
}

impl ObjectStaging {
    /// For a job with the settings of `resources`: the private directory is on their first drive,
    /// or in the current directory.
    ///
    /// # Errors
    /// Usage: no place for files. I/O: the directory cannot be made.
    pub fn begin(resources: &Resources) -> Result<Self> {
        let device = resources.device();
        let parent = match resources.specs().first() {
            Some(drive) => drive.dir.clone(),
            None => default_scratch_dir(Path::new("."))?,
        };
        device.sweep_private_dirs(&parent)?;
        Ok(ObjectStaging {
            dir: device.make_private_dir(&parent)?,
            parent,
            device,
            memory_bytes: resources.config.memory_bytes.value,
            outputs: Vec::new(),
        })
    }

    /// The path at which a job writes the object `name`; with `replace` it may exist already.
    ///
    /// # Errors
    /// Usage: it exists, its place takes no objects, its name has a placeholder. I/O: access is
    /// denied, there is no such place.
    pub fn output(&mut self, name: &Path, replace: bool) -> Result<PathBuf> {
        check_placeholders(name, &[])?;
        stores_of(&self.device, CREATE, name)?.check_new(name, replace)?;
        // Each file has a directory of its own, so that its name keeps the extension.
        let dir = self.dir.create_dir(&self.outputs.len().to_string())?;
        let file = dir.join(name.file_name().unwrap_or(name.as_os_str()));
        self.outputs.push(ObjectOutput {
            file: file.clone(),
            object: name.to_path_buf(),
            replace,
        });
        Ok(file)
    }

    /// The files with the names of their objects.
    pub fn names(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let outputs = self.outputs.iter();
        outputs.map(|output| (output.file.as_path(), output.object.as_path()))
    }

    /// Uploads what the job has made.
    ///
    /// # Errors
    /// An object exists by now and may not be replaced; I/O; a stop. Nothing of the failed object
    /// stays in the store, and the results stay as files.
    pub fn finish(self, copy: &Copy<'_>) -> Result<()> {
        for (place, output) in self.outputs.iter().enumerate() {
            // A job that only makes a plan writes nothing.
            if !output.file.exists() {
                continue;
            }
            if let Err(error) = self.upload(output, copy) {
                return Err(self.keep(place, error));
            }
        }
        Ok(())
    }

    fn upload(&self, output: &ObjectOutput, copy: &Copy<'_>) -> Result<()> {
        let file = self.device.open(&output.file, Access::Read)?;
        let facts = self.device.facts(file);
        self.device.close(file);
        copy(facts?.len_bytes, &|watch| {
            let stores = stores_of(&self.device, CREATE, &output.object)?;
            let told = UploadWatch {
                check: watch.check,
                advance: watch.advance,
            };
            let (file, object) = (&output.file, &output.object);
            stores.upload(file, object, output.replace, self.memory_bytes, told)
        })
    }

    /// Keeps the results from the one at `first` on, and adds their names to the error.
    fn keep(&self, first: usize, error: Error) -> Error {
        let places = (first..self.outputs.len()).filter(|place| self.outputs[*place].file.exists());
        let told = places.map(|place| match self.keep_one(place) {
            Ok(path) => format!("the result is kept in {}", path.display()),
            Err(failure) => format!("the result could not be kept: {failure}"),
        });
        let told: Vec<String> = told.collect();
        error.hint_left(&told.join("; "))
    }

    /// Moves the directory of a result out of the private directory; returns the path of the
    /// result. The directory is closed to other users, since the result was never meant for this
    /// place.
    fn keep_one(&self, place: usize) -> Result<PathBuf> {
        // The keys of a hasher are random, so no file has this name.
        let number = RandomState::new().hash_one(place);
        let dir = self.parent.join(format!("{KEPT}{number:016x}"));
        self.dir.publish_dir(place.to_string(), &dir)?;
        let name = self.outputs[place].file.file_name().unwrap_or_default();
        Ok(dir.join(name))
    }
}
