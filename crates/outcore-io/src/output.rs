//! StagedOutput that is absent or complete: staged in private directories, published by rename.
//!
//! Contract: an [`StagedOutput`] is one file or several shards (contiguous ranges of the output, each a
//! file). All are written inside private directories beside their final places, cut to length,
//! synced, then renamed. One file appears by one rename. Several appear by a commit record: once
//! the record is durable the output exists, and whoever sweeps the directories of a job that died
//! while renaming finishes its renames; before that, nothing is there. A manifest ([metadata](crate::metadata)
//! with a checksum, listing shards with lengths and times of their last change) is renamed last and names
//! the set as a whole.
//!
//! One job at a time writes a set: the private directory beside the manifest is claimed in its name until
//! the set is published, and where the manifest lists shards, so are those beside the shards. A manifest
//! tells shards of another generation by their lengths and times ([`ManifestShard::check`]).
//!
//! A name may be a link only where one file is the whole output: then the file behind it is written
//! ([`file_behind`]). Existing files are replaced only if asked for. Dropping an unpublished output removes it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::drive::link::{file_behind, refuse_link};
pub use crate::drive::parent_of;
use crate::drive::{Access, PrivateDir};
use crate::error::{Error, Kind, Result};
use crate::metadata::{Form, Owner};
use crate::port::{Volume, VolumeFile};
use crate::threads;

const CREATE: &str = "create output";
/// Files of this length are worth a sync of the directory in which they are made: it is found after a power loss.
const SYNCED_BYTES: u64 = 16 << 20;
/// Suffix of the manifest of a sharded output.
pub const MANIFEST_SUFFIX: &str = ".outcore.json";

/// What the name of a file of an unpublished output begins with, in its private directory.
pub const STAGED_PREFIX: &str = "output-";

const FORM: Form = Form {
    kind: "manifest of shards",
    version: 2,
    operation: "read manifest",
    len_bytes_max: 64 << 20,
    remedy: "sort again, or name the shards themselves in order",
    upgrade: "name the shards themselves in order, or sort again",
};

/// What is known of an output's length before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It will be as long as planned: a drive without that room is refused.
    Exactly,
    /// It may be shorter: room is reserved only where there is as much.
    AtMost,
}

/// One file of an output before it is written.
#[derive(Debug, Clone)]
pub struct ShardPlan {
    /// Its name once published.
    pub path: PathBuf,
    /// Bytes at its front that are not data (a `.npy` header).
    pub header: Vec<u8>,
    /// First byte of the output's data that it holds.
    pub start_bytes: u64,
    /// Bytes of data that it holds.
    pub len_bytes: u64,
}

/// One file of an output that is being written.
#[derive(Debug)]
pub struct Shard {
    /// What it will be.
    pub plan: ShardPlan,
    /// The unfinished file.
    pub file: VolumeFile,
    staged_path: PathBuf,
}

/// An output that is not yet published.
#[derive(Debug)]
pub struct StagedOutput {
    shards: Vec<Shard>,
    manifest: Option<PathBuf>,
    dirs: Vec<PrivateDir>,
    /// Which of them is in a directory, by the one name that it really has.
    places: HashMap<PathBuf, usize>,
    replace: bool,
}

/// The published description of a sharded output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The shards in order.
    pub shards: Vec<ManifestShard>,
}

impl Manifest {
    /// Reads the manifest at `path`, which was written there under that name.
    ///
    /// # Errors
    /// Corrupt: not what was written, or written under another name. Usage: another version. I/O.
    pub fn read(path: &Path) -> Result<Self> {
        Ok(FORM.read(path, Owner::of(&name_of(path)))?.body)
    }

    /// As [`Manifest::read`], of bytes that were read there.
    ///
    /// # Errors
    /// Corrupt, usage.
    pub fn open(path: &Path, bytes: &[u8]) -> Result<Self> {
        Ok(FORM.open(path, Owner::of(&name_of(path)), bytes)?.body)
    }

    /// The bytes of the manifest that will be `path`.
    fn seal(&self, path: &Path) -> Result<Vec<u8>> {
        FORM.seal(Owner::of(&name_of(path)), self)
    }
}

/// What a manifest says that it is called.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// One shard of a [`Manifest`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestShard {
    /// Absolute path.
    #[serde(
        serialize_with = "crate::metadata::paths::write_path",
        deserialize_with = "crate::metadata::paths::read_path"
    )]
    pub path: PathBuf,
    /// Length of the file.
    pub len_bytes: u64,
    /// When it was last written to, in nanoseconds since 1970; nothing where that was not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
}

impl ManifestShard {
    /// Why the file that has the shard's name now is not the one that was written with the manifest.
    pub fn check(&self, found: &std::fs::Metadata) -> std::result::Result<(), String> {
        use std::os::unix::fs::MetadataExt;
        if found.len() != self.len_bytes {
            return Err(format!(
                "a shard of {} bytes where the manifest says {}",
                found.len(),
                self.len_bytes
            ));
        }
        let now_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        match self.modified_ns {
            Some(then_ns) if i128::from(then_ns) != now_ns => {
                Err("the shard was written at another time than the manifest says".to_string())
            }
            _ => Ok(()),
        }
    }
}

/// The one name of a directory, whichever of its names this is; the same where it has none on this machine.
fn real_name(dir: &Path) -> PathBuf {
    std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf())
}

/// Removes what others have left in the directory of an output, which has to be there.
fn sweep(volume: &Volume, parent: &Path) -> Result<()> {
    let swept = volume.device().sweep_private_dirs(parent);
    swept.map(drop).map_err(|error| match error.raw_errno() {
        Some(errno) if errno == rustix::io::Errno::NOENT.raw_os_error() => {
            Error::errno(CREATE, errno)
                .path(parent)
                .hint("make the directory first, or check the path")
        }
        Some(errno) if errno == rustix::io::Errno::NOTDIR.raw_os_error() => {
            Error::usage(CREATE, "its directory is a file")
                .path(parent)
                .hint("give another name")
        }
        _ => error,
    })
}

/// Two files of one name would leave one.
fn refuse_repeats(plans: &[ShardPlan]) -> Result<()> {
    let mut known = HashSet::new();
    for plan in plans {
        if !known.insert(&plan.path) {
            return Err(Error::usage(CREATE, "two shards have the same name")
                .path(&plan.path)
                .hint("give each its own name or directory"));
        }
    }
    Ok(())
}

impl StagedOutput {
    /// Stages the files of `plans`, which are published together. `manifest` names the set, where it is one.
    pub fn stage(
        volume: &Volume,
        plans: Vec<ShardPlan>,
        manifest: Option<PathBuf>,
        replace: bool,
        room: Room,
    ) -> Result<Self> {
        let mut plans = plans;
        let is_alone = plans.len() == 1 && manifest.is_none();
        for plan in plans.iter_mut().filter(|_| is_alone) {
            plan.path = file_behind(CREATE, &plan.path)?;
        }
        refuse_repeats(&plans)?;
        let mut output = StagedOutput {
            shards: Vec::new(),
            manifest,
            dirs: Vec::new(),
            places: HashMap::new(),
            replace,
        };
        let device = volume.device();
        let manifest = output.manifest.clone();
        let set = manifest.as_deref().and_then(Path::file_name);
        if let (Some(manifest), Some(set)) = (&manifest, set) {
            // Its own directory comes first: a rename cannot leave the file system.
            let parent = parent_of(manifest).to_path_buf();
            sweep(volume, &parent)?;
            output.dirs.push(device.claim_private_dir(&parent, set)?);
            output.places.insert(real_name(&parent), 0);
        }
        if let Some(manifest) = &manifest {
            refuse_link(CREATE, manifest)?;
        }
        for plan in plans {
            output.add(volume, plan, room)?;
        }
        Ok(output)
    }

    /// Stages one more file, whose name no other has.
    ///
    /// # Errors
    /// As [`StagedOutput::stage`].
    pub fn add(&mut self, volume: &Volume, plan: ShardPlan, room: Room) -> Result<()> {
        let device = volume.device();
        // The same shards can be a set with another directory first, and its manifest there. Other
        // manifests give their files names that no other set has.
        let manifest = self.manifest.clone();
        let set = manifest.as_deref().and_then(Path::file_name);
        let set = set.filter(|name| {
            let name = name.as_encoded_bytes();
            name.ends_with(MANIFEST_SUFFIX.as_bytes())
        });
        refuse_link(CREATE, &plan.path)?;
        let index = self.shards.len();
        let parent = parent_of(&plan.path).to_path_buf();
        // One directory by two names is one.
        let name = real_name(&parent);
        let dir_index = match self.places.get(&name) {
            Some(&found) => found,
            None => {
                sweep(volume, &parent)?;
                let made = match set {
                    Some(set) => device.claim_private_dir(&parent, set),
                    None => device.make_private_dir(&parent),
                };
                self.dirs.push(made?);
                self.places.insert(name, self.dirs.len() - 1);
                self.dirs.len() - 1
            }
        };
        let staged_path = self.dirs[dir_index]
            .path()
            .join(format!("{STAGED_PREFIX}{index}"));
        let file = volume.open(&staged_path, Access::Create)?;
        let full_bytes = plan.header.len() as u64 + plan.len_bytes;
        if full_bytes >= SYNCED_BYTES {
            self.dirs[dir_index].sync()?;
        }
        // Reserving the space finds a full drive before the work; where it only makes the
        // file long, direct writes inside it can still run side by side.
        if full_bytes > 0 {
            device
                .allocate(file.id, full_bytes)
                .or_else(|error| match (room, error.kind()) {
                    (Room::AtMost, Kind::NoSpace) => device.set_len(file.id, full_bytes),
                    _ => Err(error),
                })
                .map_err(|error| {
                    let error = if error.kind() == Kind::NoSpace {
                        error.hint(format!("the output needs {full_bytes} bytes there"))
                    } else {
                        error
                    };
                    error.path(&plan.path)
                })?;
        }
        self.shards.push(Shard {
            plan,
            file,
            staged_path,
        });
        Ok(())
    }

    /// Its private directories.
    pub fn dirs(&self) -> impl Iterator<Item = &PrivateDir> {
        self.dirs.iter()
    }

    /// The files in order.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Cuts the files to length (`len_bytes` of data in the last, where it turned out shorter
    /// than planned), syncs and publishes them.
    pub fn publish(self, volume: &Volume, written_bytes: u64) -> Result<()> {
        let len = |shard: &Shard| {
            let end_bytes = written_bytes.min(shard.plan.start_bytes + shard.plan.len_bytes);
            end_bytes.saturating_sub(shard.plan.start_bytes)
        };
        let lens: Vec<u64> = self.shards.iter().map(len).collect();
        self.publish_each(volume, &lens)
    }

    /// Cuts each file to its own length of data, syncs and publishes them.
    pub fn publish_each(mut self, volume: &Volume, lens_bytes: &[u64]) -> Result<()> {
        self.cut(volume, lens_bytes)?;
        if let Some(manifest) = self.manifest.clone() {
            let text = self.shards_text(volume, &manifest)?;
            return self.publish_set(volume, Some((&manifest, &text)));
        }
        if self.shards.len() > 1 {
            return self.publish_set(volume, None);
        }
        for shard in &self.shards {
            volume
                .device()
                .rename(&shard.staged_path, &shard.plan.path, self.replace)?;
            volume.close(&shard.file);
        }
        self.dirs.iter().for_each(PrivateDir::release);
        Ok(())
    }

    /// As [`StagedOutput::publish`], with a manifest of the caller's own in place of the list of shards.
    pub fn publish_under(self, volume: &Volume, manifest: &[u8]) -> Result<()> {
        let len = |shard: &Shard| shard.plan.len_bytes;
        let lens: Vec<u64> = self.shards.iter().map(len).collect();
        self.publish_each_under(volume, &lens, manifest)
    }

    /// The same where each file has a length of its own.
    ///
    /// # Errors
    /// As [`StagedOutput::publish`].
    pub fn publish_each_under(
        mut self,
        volume: &Volume,
        lens_bytes: &[u64],
        manifest: &[u8],
    ) -> Result<()> {
        self.cut(volume, lens_bytes)?;
        match self.manifest.clone() {
            Some(path) => self.publish_set(volume, Some((&path, manifest))),
            None => Err(Error::usage("publish output", "no manifest was staged")),
        }
    }

    /// Cuts each file to its own length of data, and syncs them all.
    fn cut(&mut self, volume: &Volume, lens_bytes: &[u64]) -> Result<()> {
        for (shard, len_bytes) in self.shards.iter_mut().zip(lens_bytes) {
            shard.plan.len_bytes = *len_bytes;
            let full_bytes = shard.plan.header.len() as u64 + shard.plan.len_bytes;
            volume.device().set_len(shard.file.id, full_bytes)?;
        }
        self.sync_all(volume)
    }

    fn sync_all(&self, volume: &Volume) -> Result<()> {
        threads::each("outcore-sync", &self.shards, |shard| {
            volume.device().sync(shard.file.id)
        })
    }

    /// The manifest that lists the shards. They are synced: nothing changes them any more.
    fn shards_text(&self, volume: &Volume, path: &Path) -> Result<Vec<u8>> {
        let entry_of = |shard: &Shard| {
            let facts = volume.device().facts(shard.file.id)?;
            let path = &shard.plan.path;
            Ok(ManifestShard {
                path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
                len_bytes: shard.plan.header.len() as u64 + shard.plan.len_bytes,
                modified_ns: i64::try_from(facts.modified_ns)
                    .ok()
                    .filter(|&modified_ns| modified_ns != 0),
            })
        };
        let shards: Result<Vec<ManifestShard>> = self.shards.iter().map(entry_of).collect();
        Manifest { shards: shards? }.seal(path)
    }

    /// Publishes several files at once, and the manifest that names them, if there is one.
    fn publish_set(self, volume: &Volume, manifest: Option<(&Path, &[u8])>) -> Result<()> {
        let Some(first) = self.dirs.first() else {
            return Ok(());
        };
        let mut renames: Vec<(PathBuf, PathBuf)> = self
            .shards
            .iter()
            .map(|shard| (shard.staged_path.clone(), shard.plan.path.clone()))
            .collect();
        if let Some((path, text)) = manifest {
            first.write_file("manifest", text)?;
            renames.push((first.path().join("manifest"), path.to_path_buf()));
        }
        PrivateDir::commit(&self.dirs, &renames, self.replace)?;
        // From here on the output exists: whoever finds the record finishes the renames.
        let rename = |(from, to): &(PathBuf, PathBuf)| {
            let device = volume.device();
            let again = |first| device.rename(from, to, self.replace).map_err(|_| first);
            device.rename(from, to, self.replace).or_else(again)
        };
        // One that fails does not hold up the others. The manifest is renamed last.
        let (files, manifest) = renames.split_at(self.shards.len());
        let done = [files, manifest].map(|pairs| threads::each("outcore-publish", pairs, rename));
        if let Some(error) = done.into_iter().find_map(Result::err) {
            self.dirs.into_iter().for_each(PrivateDir::leave);
            return Err(error.hint(
                "the output is whole: a run of outcore with the same output directories, or \
                 `outcore scratch clean`, puts the rest of it in place",
            ));
        }
        for shard in &self.shards {
            volume.close(&shard.file);
        }
        self.dirs.iter().for_each(PrivateDir::release);
        Ok(())
    }
}
