//! Private directories for data between two passes.
//!
//! Contract: one directory on each named drive, or one next to the output. They are removed when
//! the value is dropped, or, after a kill, when the directory is swept. They are made when first
//! needed.

use std::path::{Path, PathBuf};

use super::resources::ResourceProvider;
use crate::ends::{Input, Output};
use crate::primitives::BucketFiles;
use outcore_io::Result;
use outcore_io::drive::PrivateDir;
use outcore_io::output::MANIFEST_SUFFIX;

/// See the module.
#[derive(Default)]
pub(super) struct Scratch {
    dirs: Vec<PrivateDir>,
    places: u32,
}

impl Scratch {
    /// A new place: one file, or one shard per drive.
    pub(super) fn place(
        &mut self,
        resources: &dyn ResourceProvider,
        beside: &Path,
        is_sharded: bool,
    ) -> Result<PassOutput> {
        self.make(resources, beside)?;
        let name = format!("items-{}", self.places);
        self.places += 1;
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let paths = self.dirs.iter().map(|dir| dir.path().join(&name));
        let mut paths: Vec<PathBuf> = paths.map(absolute).collect();
        if !is_sharded {
            paths.truncate(1);
        }
        Ok(PassOutput { paths })
    }

    /// Names for `count` buckets, spread over the drives.
    pub(super) fn bucket_files(
        &mut self,
        resources: &dyn ResourceProvider,
        beside: &Path,
        count: usize,
    ) -> Result<BucketFiles> {
        self.make(resources, beside)?;
        let first = self.places as usize;
        self.places += count as u32 + 1;
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        // Names that a sweep recognises as ours.
        let path = |bucket: usize| {
            let dir = &self.dirs[bucket % self.dirs.len()];
            absolute(dir.path().join(format!("part-{}", first + bucket)))
        };
        let manifest = format!("part-{}{MANIFEST_SUFFIX}", first + count);
        let manifest = self.dirs[0].path().join(manifest);
        Ok(BucketFiles {
            paths: (0..count).map(path).collect(),
            manifest: Some(absolute(manifest)),
            replace: false,
            header: None,
        })
    }

    /// Makes the directories, unless they exist already.
    fn make(&mut self, resources: &dyn ResourceProvider, beside: &Path) -> Result<()> {
        let job = resources.job(beside)?;
        job.control.check()?;
        if self.dirs.is_empty() {
            for parent in resources.scratch_dirs(beside)? {
                job.device.sweep_private_dirs(&parent)?;
                self.dirs.push(job.device.make_private_dir(&parent)?);
            }
        }
        Ok(())
    }
}

/// The output of a pass between two others.
pub(super) struct PassOutput {
    pub(super) paths: Vec<PathBuf>,
}

impl PassOutput {
    /// This place as the output of the pass that writes it.
    pub(super) fn output(&self) -> Output {
        match &self.paths[..] {
            [path] => Output::File {
                path: path.clone(),
                header: None,
            },
            paths => Output::Shards {
                paths: paths.to_vec(),
                manifest: paths[0].with_extension(MANIFEST_SUFFIX.trim_start_matches('.')),
            },
        }
    }

    /// This place as the inputs of the pass that reads it.
    pub(super) fn files(&self) -> Vec<Input> {
        self.paths.iter().map(Input::raw).collect()
    }
}
