//! Output that is absent or complete: staged in private directories, published by rename.
//!
//! Contract: a [`StagedOutput`] is one file or several shards (contiguous ranges of the output,
//! each a file). All files are written in private directories next to their final places, truncated
//! to length, synced, then renamed. One file appears by one rename. Several files appear by a
//! commit record. Before the record is durable, no file is there. Afterwards the output exists: if
//! the job dies while renaming, the next sweep finishes its renames. A manifest
//! ([metadata](crate::metadata) with a checksum, which lists shards with lengths and times of their
//! last change) is renamed last and describes the set as a whole.
//!
//! Only one job at a time writes a set. Until the set is published, the job claims, in the name of
//! the set, the private directory next to the manifest. If the manifest lists shards, the job also
//! claims the private directories next to the shards. A manifest detects shards of another
//! generation by their lengths and times ([`ManifestShard::check`]).
//!
//! A set may have a directory of its own ([`directory`]), with a list of its files ([`FileSet`]). A
//! set that replaces another removes the files that only the old list names, and nothing else.
//!
//! The name of an output may be a link only if one file is the whole output; the file behind the
//! link is written ([`file_behind`]). Existing files are replaced only on request. Dropping an
//! unpublished output removes it.

mod directory;
mod list;
mod new_dir;
mod publication;
mod set;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use directory::{MadeDirs, SetDir};
pub use list::{MANIFEST_SUFFIX, Manifest, ManifestShard};
pub use new_dir::NewDir;
pub use publication::publish_together;
pub use set::{FileSet, SET_LIST, check_published};

use crate::checksum::bytes_checksum;
use crate::drive::link::{file_behind, real_path, refuse_link};
pub use crate::drive::parent_of;
use crate::drive::{Access, PrivateDir, Rename};
use crate::error::{Error, Kind, Result};
use crate::memory::{Budget, Pool, block_ceil, block_floor};
use crate::port::{Volume, VolumeFile};
use crate::threads;
use crate::transfers::{Transfers, no_buffer};

const CREATE: &str = "create output";
/// From this length on, the directory in which files are made is synced, so that a sweep recognises
/// it after a power loss.
const SYNCED_BYTES: u64 = 16 << 20;

/// Prefix of the name of a file of an unpublished output, in its private directory.
pub const STAGED_PREFIX: &str = "output-";
/// Prefix of the name, in a private directory, of a file that is removed with its old set.
const REPLACED_PREFIX: &str = "replaced-";

/// How exactly the output's length is known before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// The output will have the planned length: staging fails if the drive has too little room.
    Exactly,
    /// The output may be shorter: room is reserved only if the drive has it.
    AtMost,
}

/// One file of an output before it is written.
#[derive(Debug, Clone)]
pub struct ShardPlan {
    /// The published name of the file.
    pub path: PathBuf,
    /// Leading bytes that are not data (a `.npy` header).
    pub header: Vec<u8>,
    /// First byte of the output's data that the file holds.
    pub start_bytes: u64,
    /// Bytes of data that the file holds.
    pub len_bytes: u64,
}

/// One file of an output that is being written.
#[derive(Debug)]
pub struct Shard {
    /// The plan of the file.
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
    /// The index of each private directory, by the real name of the directory that contains it.
    places: HashMap<PathBuf, usize>,
    /// Files of the old set that this one does not replace, each with the index of the private
    /// directory next to it.
    removed: Vec<(PathBuf, usize)>,
    replace: bool,
    /// The directory that belongs to the set alone.
    set_dir: Option<SetDir>,
    /// The private directories are declared earlier and so dropped first, because they are inside
    /// these directories.
    made: MadeDirs,
}

/// A manifest and its content.
#[derive(Clone, Copy)]
struct ManifestText<'a> {
    path: &'a Path,
    text: &'a [u8],
}

/// Removes what dead jobs have left in the directory of an output; the directory must exist.
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

/// The files to remove when the set of `files` replaces the set that `list` describes: unchanged
/// files of the old set that are not among `files`.
pub fn replaced_files(list: &Path, files: &[PathBuf]) -> Vec<PathBuf> {
    if !is_list(list) || !list.exists() {
        return Vec::new();
    }
    // An unreadable list names no files.
    let Ok(old) = FileSet::read(list) else {
        return Vec::new();
    };
    let name_of = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        real_path(parent_of(path)).join(name)
    };
    let kept: HashSet<PathBuf> = files.iter().map(|path| name_of(path)).collect();
    let replaced = old
        .unchanged_files()
        .filter(|path| !kept.contains(&name_of(path)));
    replaced.map(Path::to_path_buf).collect()
}

/// Whether a file of that name is a list of files.
fn is_list(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(MANIFEST_SUFFIX.as_bytes())
}

/// Checksum of the end of a written file of `len_bytes`.
fn tail_checksum(volume: &Volume, file: &VolumeFile, len_bytes: u64) -> Result<u64> {
    let start_bytes = list::tail_start(len_bytes);
    if start_bytes == len_bytes {
        return Ok(bytes_checksum(&[]));
    }
    let at_bytes = block_floor(start_bytes);
    let wanted_bytes = block_ceil(len_bytes - at_bytes) as usize;
    let budget = Budget::new(wanted_bytes as u64);
    let pool = Pool::new(&budget, "end of a file", wanted_bytes, 1)?;
    let mut transfers: Transfers<()> = Transfers::new(volume)?;
    transfers.read(file, at_bytes, pool.take().ok_or_else(no_buffer)?, ());
    let arrival = transfers.next(|| Ok(()))?.ok_or_else(no_buffer)?;
    let tail = (start_bytes - at_bytes) as usize..(len_bytes - at_bytes) as usize;
    match arrival.len_bytes >= tail.end {
        true => Ok(bytes_checksum(&arrival.buf[tail])),
        false => {
            Err(Error::corrupt("publish output", "a written file is too short").path(&file.path))
        }
    }
}

/// Fails if two files have one name, because only one would remain.
fn refuse_repeats(plans: &[ShardPlan]) -> Result<()> {
    let mut known = HashSet::new();
    for plan in plans {
        if !known.insert(&plan.path) {
            return Err(Error::usage(CREATE, "two shards have the same name")
                .path(&plan.path)
                .hint("give each shard its own name or directory"));
        }
    }
    Ok(())
}

/// An output whose files are written, and the length of data of each.
pub struct WrittenOutput {
    /// The output.
    pub output: StagedOutput,
    /// The lengths, in the order of the files.
    pub lens_bytes: Vec<u64>,
}

impl StagedOutput {
    /// Stages the files of `plans`, which are published together. `manifest` names the manifest, if
    /// the files are a set.
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
        let mut output = StagedOutput::empty(manifest, replace);
        let device = volume.device();
        let manifest = output.manifest.clone();
        let set = manifest.as_deref().and_then(Path::file_name);
        if let (Some(manifest), Some(set)) = (&manifest, set) {
            // The manifest's directory comes first, because a rename cannot leave the file system.
            let parent = parent_of(manifest).to_path_buf();
            sweep(volume, &parent)?;
            output.dirs.push(device.claim_private_dir(&parent, set)?);
            output.places.insert(real_path(&parent), 0);
        }
        if let Some(manifest) = &manifest {
            refuse_link(CREATE, manifest)?;
        }
        for plan in plans {
            output.add(volume, plan, room)?;
        }
        output.note_replaced(volume)?;
        Ok(output)
    }

    /// Stages one file in `dir`, a private directory next to it. If a dead job has left the file
    /// unfinished, the file keeps its contents.
    ///
    /// # Errors
    /// As [`StagedOutput::stage`].
    pub fn stage_in(
        volume: &Volume,
        mut plan: ShardPlan,
        replace: bool,
        room: Room,
        dir: PrivateDir,
    ) -> Result<Self> {
        plan.path = file_behind(CREATE, &plan.path)?;
        refuse_link(CREATE, &plan.path)?;
        let mut output = StagedOutput::empty(None, replace);
        let name = real_path(parent_of(&plan.path));
        output.places.insert(name, 0);
        output.dirs.push(dir);
        output.stage_file(volume, plan, room, 0)?;
        Ok(output)
    }

    fn empty(manifest: Option<PathBuf>, replace: bool) -> Self {
        StagedOutput {
            shards: Vec::new(),
            manifest,
            dirs: Vec::new(),
            places: HashMap::new(),
            removed: Vec::new(),
            replace,
            set_dir: None,
            made: MadeDirs::default(),
        }
    }

    /// Notes the files of the replaced set that are still part of that set and not part of this
    /// one.
    fn note_replaced(&mut self, volume: &Volume) -> Result<()> {
        let Some(list) = self.manifest.clone().filter(|_| self.replace) else {
            return Ok(());
        };
        let shards = self.shards.iter();
        let kept: Vec<PathBuf> = shards.map(|shard| shard.plan.path.clone()).collect();
        for path in replaced_files(&list, &kept) {
            let dir_index = self.dir_beside(volume, &path)?;
            self.removed.push((path, dir_index));
        }
        Ok(())
    }

    /// Stages one more file, whose name must be new.
    ///
    /// # Errors
    /// The errors of [`StagedOutput::stage`].
    pub fn add(&mut self, volume: &Volume, plan: ShardPlan, room: Room) -> Result<()> {
        refuse_link(CREATE, &plan.path)?;
        let dir_index = self.dir_beside(volume, &plan.path)?;
        self.stage_file(volume, plan, room, dir_index)
    }

    /// The private directory next to the file that is, or will be, `path`.
    fn dir_beside(&mut self, volume: &Volume, path: &Path) -> Result<usize> {
        let device = volume.device();
        // The name of the set is needed because another set may contain the same shards, with its
        // manifest in another directory. Manifests of other kinds give their files names that no
        // other set has.
        let manifest = self.manifest.clone();
        let set = manifest.as_deref().filter(|list| is_list(list));
        let set = set.and_then(Path::file_name);
        let parent = parent_of(path).to_path_buf();
        // A directory with two names counts once.
        let name = real_path(&parent);
        if let Some(&found) = self.places.get(&name) {
            return Ok(found);
        }
        sweep(volume, &parent)?;
        let made = match set {
            Some(set) => device.claim_private_dir(&parent, set),
            None => device.make_private_dir(&parent),
        };
        self.dirs.push(made?);
        self.places.insert(name, self.dirs.len() - 1);
        Ok(self.dirs.len() - 1)
    }

    /// Stages a file in one of the private directories.
    fn stage_file(
        &mut self,
        volume: &Volume,
        plan: ShardPlan,
        room: Room,
        dir_index: usize,
    ) -> Result<()> {
        let device = volume.device();
        let index = self.shards.len();
        let staged_path = self.dirs[dir_index]
            .path()
            .join(format!("{STAGED_PREFIX}{index}"));
        let dir = &self.dirs[dir_index];
        let access = match dir.is_kept() && staged_path.exists() {
            true => Access::Update,
            false => Access::Create,
        };
        let file = volume.open(&staged_path, access)?;
        let full_bytes = plan.header.len() as u64 + plan.len_bytes;
        if full_bytes >= SYNCED_BYTES {
            self.dirs[dir_index].sync()?;
        }
        // Reserving the space detects a full drive before the work starts. If the reservation only
        // extends the file, direct writes inside the file can still run in parallel.
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

    /// Makes everything that was written durable; no write may be in flight.
    ///
    /// # Errors
    /// The device's error.
    pub fn sync(&self, volume: &Volume) -> Result<()> {
        self.sync_all(volume)
    }

    /// The private directories of the output.
    pub fn dirs(&self) -> impl Iterator<Item = &PrivateDir> {
        self.dirs.iter()
    }

    /// The files in order.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Truncates the files to length (`len_bytes` of data in the last one, which may be shorter
    /// than planned), syncs and publishes them.
    pub fn publish(self, volume: &Volume, written_bytes: u64) -> Result<()> {
        let len = |shard: &Shard| {
            let end_bytes = written_bytes.min(shard.plan.start_bytes + shard.plan.len_bytes);
            end_bytes.saturating_sub(shard.plan.start_bytes)
        };
        let lens: Vec<u64> = self.shards.iter().map(len).collect();
        self.publish_each(volume, &lens)
    }

    /// Truncates each file to its own length of data, syncs and publishes them.
    pub fn publish_each(mut self, volume: &Volume, lens_bytes: &[u64]) -> Result<()> {
        self.cut(volume, lens_bytes)?;
        if let Some(manifest) = self.manifest.clone() {
            let text = self.shards_text(volume, &manifest)?;
            let manifest = ManifestText {
                path: &manifest,
                text: &text,
            };
            return self.publish_set(volume, Some(manifest));
        }
        if self.shards.len() > 1 {
            return self.publish_set(volume, None);
        }
        self.publish_alone(volume).map(drop)
    }

    /// As [`StagedOutput::publish`] for a single file, which `vouch` sees when it is finished and
    /// synced. Returns the private directories; dropping them removes them.
    ///
    /// # Errors
    /// The errors of [`StagedOutput::publish`] and of `vouch`.
    pub fn publish_vouched(
        mut self,
        volume: &Volume,
        written_bytes: u64,
        vouch: impl FnOnce(&VolumeFile) -> Result<()>,
    ) -> Result<Vec<PrivateDir>> {
        self.cut(volume, &[written_bytes])?;
        if let [shard] = &self.shards[..] {
            vouch(&shard.file)?;
        }
        self.publish_alone(volume)
    }

    /// Gives the files their names; returns the private directories, which are not kept any more.
    fn publish_alone(mut self, volume: &Volume) -> Result<Vec<PrivateDir>> {
        for shard in &self.shards {
            volume
                .device()
                .rename(&shard.staged_path, &shard.plan.path, self.replace)?;
            volume.close(&shard.file);
        }
        self.dirs.iter().for_each(PrivateDir::release);
        Ok(std::mem::take(&mut self.dirs))
    }

    /// Publishes several outputs, none of them a set, at once. Each file is truncated to its own
    /// length of data. A file of another volume is closed by that volume.
    ///
    /// # Errors
    /// The errors of [`StagedOutput::publish`]; either all outputs appear or none.
    pub fn publish_all(outputs: Vec<WrittenOutput>, volume: &Volume) -> Result<()> {
        let mut all: Option<StagedOutput> = None;
        for WrittenOutput {
            mut output,
            lens_bytes,
        } in outputs
        {
            output.cut(volume, &lens_bytes)?;
            match &mut all {
                Some(all) => {
                    all.shards.append(&mut output.shards);
                    all.dirs.append(&mut output.dirs);
                }
                None => all = Some(output),
            }
        }
        all.map_or(Ok(()), |all| all.publish_set(volume, None))
    }

    /// Whether the output is a set with a list.
    pub fn is_set(&self) -> bool {
        self.manifest.is_some()
    }

    /// As [`StagedOutput::publish`], with the caller's own manifest in place of the list of shards.
    pub fn publish_under(self, volume: &Volume, manifest: &[u8]) -> Result<()> {
        let len = |shard: &Shard| shard.plan.len_bytes;
        let lens: Vec<u64> = self.shards.iter().map(len).collect();
        self.publish_each_under(volume, &lens, manifest)
    }

    /// Like [`StagedOutput::publish_under`], but with a separate length for each file.
    ///
    /// # Errors
    /// The errors of [`StagedOutput::publish`].
    pub fn publish_each_under(
        mut self,
        volume: &Volume,
        lens_bytes: &[u64],
        manifest: &[u8],
    ) -> Result<()> {
        self.cut(volume, lens_bytes)?;
        match self.manifest.clone() {
            Some(path) => {
                let manifest = ManifestText {
                    path: &path,
                    text: manifest,
                };
                self.publish_set(volume, Some(manifest))
            }
            None => Err(Error::usage("publish output", "no manifest was staged")),
        }
    }

    /// Truncates each file to its own length of data, and syncs them all.
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

    /// The manifest that lists the shards. They are synced and do not change any more.
    fn shards_text(&self, volume: &Volume, path: &Path) -> Result<Vec<u8>> {
        // Tables are read by directory, and their lists move with the directory.
        let set_dir = Some(parent_of(path)).filter(|_| list::is_of_directory(path));
        let entry_of = |shard: &Shard| {
            let path = &shard.plan.path;
            let len_bytes = shard.plan.header.len() as u64 + shard.plan.len_bytes;
            let inside = set_dir.and_then(|dir| match parent_of(path) == dir {
                true => path.file_name().map(Path::new),
                false => path.strip_prefix(dir).ok(),
            });
            if let Some(inside) = inside {
                return Ok(ManifestShard {
                    path: inside.to_path_buf(),
                    len_bytes,
                    modified_ns: None,
                    tail_checksum: Some(tail_checksum(volume, &shard.file, len_bytes)?),
                });
            }
            let facts = volume.device().facts(shard.file.id)?;
            Ok(ManifestShard {
                path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
                len_bytes,
                tail_checksum: None,
                modified_ns: i64::try_from(facts.modified_ns)
                    .ok()
                    .filter(|&modified_ns| modified_ns != 0),
            })
        };
        let shards: Result<Vec<ManifestShard>> = self.shards.iter().map(entry_of).collect();
        Manifest { shards: shards? }.seal(path)
    }

    /// Publishes several files at once, with the manifest that names them, if there is one.
    fn publish_set(self, volume: &Volume, manifest: Option<ManifestText<'_>>) -> Result<()> {
        if let (Some(SetDir { path, is_new: true }), Some(manifest)) = (&self.set_dir, manifest) {
            let path = path.clone();
            return self.publish_new_directory(volume, &path, manifest);
        }
        let Some(first) = self.dirs.first() else {
            return Ok(());
        };
        let shards = self.shards.iter().map(|shard| Rename {
            from: shard.staged_path.clone(),
            to: shard.plan.path.clone(),
        });
        let mut renames: Vec<Rename> = shards.collect();
        let removed = self.removed.iter().enumerate();
        renames.extend(removed.map(|(number, (path, dir_index))| {
            let aside = format!("{REPLACED_PREFIX}{number}");
            Rename {
                from: path.clone(),
                to: self.dirs[*dir_index].path().join(aside),
            }
        }));
        let mut list = Vec::new();
        if let Some(ManifestText { path, text }) = manifest {
            first.write_file("manifest", text)?;
            list.push(Rename {
                from: first.path().join("manifest"),
                to: path.to_path_buf(),
            });
        }
        // The manifest is renamed last. The manifest of a directory is renamed first, so that it
        // does not match the directory until all files are in place.
        let order = match self.set_dir {
            Some(_) => [&list[..], &renames[..]],
            None => [&renames[..], &list[..]],
        };
        publish_together(volume.device().as_ref(), self.dirs, order, self.replace)?;
        for shard in &self.shards {
            volume.close(&shard.file);
        }
        let folders = self
            .removed
            .iter()
            .map(|(path, _)| parent_of(path).to_path_buf());
        let folders: HashSet<PathBuf> = folders.collect();
        if let Some(SetDir { path: root, .. }) = &self.set_dir {
            for folder in folders {
                // Removes only folders of the old set, and only if they are empty.
                let above = folder.ancestors().take_while(|dir| dir != root);
                let _ = above
                    .map(std::fs::remove_dir)
                    .take_while(std::io::Result::is_ok)
                    .count();
            }
        }
        Ok(())
    }
}
