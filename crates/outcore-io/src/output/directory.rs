//! A set of files with a directory of its own: created as a whole, or added to an existing
//! directory.
//!
//! Contract: [`StagedOutput::stage_directory`] stages the files of a directory.
//! - A new directory is made in a private directory of its parent, with all folders and files, and
//!   appears by one rename. No reader ever sees a part of it, and leftovers of a killed job do not
//!   disturb the next one.
//! - In an existing directory the files and their list appear by a commit record, the list first.
//!   Missing folders are made, and removed again if the set is given up.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::set::is_folder;
use super::{ManifestText, Room, ShardPlan, StagedOutput, refuse_repeats, sweep};
use crate::drive::{PrivateDir, parent_of};
use crate::error::{Error, Result};
use crate::port::Volume;
use crate::threads;

const CREATE: &str = "create output";
/// The directory during its construction.
const TREE: &str = "tree";

/// The directory that belongs to a set alone.
#[derive(Debug)]
pub(super) struct SetDir {
    pub(super) path: PathBuf,
    /// Whether the directory is new: it is built in the first private directory and appears by a
    /// rename.
    pub(super) is_new: bool,
}

/// Directories that were made for files. They are removed, if empty, when the files are not
/// published.
#[derive(Debug, Default)]
pub(super) struct MadeDirs(Vec<PathBuf>);

impl MadeDirs {
    /// Makes the missing directories of `plans` below `root`.
    fn make(root: &Path, plans: &[ShardPlan]) -> Result<Self> {
        let mut made = MadeDirs::default();
        for plan in plans {
            let dir = parent_of(&plan.path);
            let above = dir.ancestors().take_while(|dir| *dir != root);
            let mut above: Vec<&Path> = above.filter(|dir| dir.starts_with(root)).collect();
            above.reverse();
            for dir in above {
                match fs::create_dir(dir) {
                    Ok(()) => made.0.push(dir.to_path_buf()),
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(Error::io("create directory", &error).path(dir)),
                }
            }
        }
        Ok(made)
    }
}

impl Drop for MadeDirs {
    fn drop(&mut self) {
        for dir in self.0.iter().rev() {
            // Removes only empty directories.
            let _ = fs::remove_dir(dir);
        }
    }
}

impl StagedOutput {
    /// Stages the files of `plans`, all in the directory `dir` or its folders. They are published
    /// together with the file `list` in that directory. See the module.
    ///
    /// # Errors
    /// The errors of [`StagedOutput::stage`]; usage: the name belongs to something else.
    pub fn stage_directory(
        volume: &Volume,
        dir: &Path,
        list: &str,
        plans: Vec<ShardPlan>,
        replace: bool,
        room: Room,
    ) -> Result<Self> {
        refuse_repeats(&plans)?;
        let is_missing = || fs::symlink_metadata(dir).is_err();
        if is_missing() {
            let (parent, name) = (parent_of(dir), dir.file_name().unwrap_or_default());
            sweep(volume, parent)?;
            let private_dir = volume.device().claim_private_dir(parent, name)?;
            if private_dir.is_on_disk() {
                let mut output = StagedOutput::empty(Some(dir.join(list)), replace);
                output.set_dir = Some(SetDir {
                    path: dir.to_path_buf(),
                    is_new: true,
                });
                output.dirs.push(private_dir);
                for plan in plans {
                    output.stage_file(volume, plan, room, 0)?;
                }
                return Ok(output);
            }
        } else if !dir.is_dir() {
            return Err(Error::usage(CREATE, "a file has the name of the directory")
                .path(dir)
                .hint("name another directory"));
        } else {
            sweep_folders(volume, dir)?;
        }
        let made = MadeDirs::make(dir, &plans)?;
        let mut output = Self::stage(volume, plans, Some(dir.join(list)), replace, room)?;
        output.made = made;
        output.set_dir = Some(SetDir {
            path: dir.to_path_buf(),
            is_new: false,
        });
        Ok(output)
    }

    /// Publishes a new directory with all of its files and its manifest.
    pub(super) fn publish_new_directory(
        self,
        volume: &Volume,
        dir: &Path,
        manifest: ManifestText<'_>,
    ) -> Result<()> {
        let Some(first) = self.dirs.first() else {
            return Ok(());
        };
        let tree = first.path().join(TREE);
        let inside = |path: &Path| path.strip_prefix(dir).unwrap_or(path).to_path_buf();
        let mut folders = BTreeSet::from([PathBuf::from(TREE)]);
        for shard in &self.shards {
            let name = Path::new(TREE).join(inside(&shard.plan.path));
            let above = name.ancestors().skip(1);
            let above = above.filter(|dir| !dir.as_os_str().is_empty());
            folders.extend(above.map(Path::to_path_buf));
        }
        // In this order every folder comes after its parent.
        for folder in &folders {
            first.make_folder(folder)?;
        }
        first.write_file("manifest", manifest.text)?;
        let mut renames = vec![(
            first.path().join("manifest"),
            tree.join(inside(manifest.path)),
        )];
        let shards = self.shards.iter();
        renames.extend(shards.map(|shard| {
            let name = inside(&shard.plan.path);
            (shard.staged_path.clone(), tree.join(name))
        }));
        threads::each("outcore-publish", &renames, |(from, to)| {
            volume.device().rename(from, to, false)
        })?;
        let folders: Vec<PathBuf> = folders.into_iter().collect();
        threads::each("outcore-sync", &folders, |folder| first.sync_folder(folder))?;
        first.publish_dir(TREE, dir)?;
        for shard in &self.shards {
            volume.close(&shard.file);
        }
        self.dirs.iter().for_each(PrivateDir::release);
        Ok(())
    }
}

/// Removes what dead jobs have left in a directory and its folders, and folders that only those
/// jobs made. Returns whether there was anything.
fn sweep_folders(volume: &Volume, dir: &Path) -> Result<bool> {
    let swept = volume.device().sweep_private_dirs(dir)?;
    let failed = |error: std::io::Error| Error::io("list directory", &error).path(dir);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && is_folder(&path) && sweep_folders(volume, &path)? {
            // Removes only empty directories.
            let _ = fs::remove_dir(path);
        }
    }
    Ok(!swept.is_empty())
}
