//! `@name` where a command takes a file: copied out before it runs, put back behind it.
//!
//! Contract: with a volume named (`--volume`, `OUTCORE_VOLUME`), an argument `@name` (or `@name/inside`) of
//! a command that takes files is replaced by a file in a private directory on the volume's first drive; one
//! behind `-o` or `--output` is put on the volume when the command has succeeded, as a sealed dataset,
//! and is absent otherwise. The directory is removed at the end, or swept by the next run.
//!
//! N.B. the copy is the price for commands that read files by their names; `put`, `get` and `cp` go
//! straight to the drives. Bounds: room for the copies on the first drive.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::Result;
use outcore::drive::{Device, PrivateDir};
use outcore::memory::Budget;
use outcore::volume::dataset::transfer::Means;
use outcore::volume::dataset::{DatasetVolume, Named, Watch};
use outcore_formats::volumes;

use crate::cli::{Cli, Command};
use crate::means;

/// Copies of datasets, for the time of one command.
pub(crate) struct Staged {
    /// The command's arguments, with files in the place of datasets.
    pub(crate) arguments: Vec<OsString>,
    device: Arc<dyn Device>,
    volume: DatasetVolume,
    budget: Budget,
    dir: PrivateDir,
    outputs: Vec<(PathBuf, Named)>,
    replace: bool,
}

/// Replaces datasets among the arguments; nothing if there are none, or the command knows them itself.
///
/// # Errors
/// No volume of that name, no such dataset, damage, no room.
pub(crate) fn stage(cli: &Cli, arguments: &[OsString]) -> Result<Option<Staged>> {
    let takes_files = !matches!(
        cli.command,
        Command::Volume(_)
            | Command::Put(_)
            | Command::Get(_)
            | Command::Ls(_)
            | Command::Rm(_)
            | Command::Cp(_)
    );
    let is_any = arguments.iter().any(|word| dataset_in(word).is_some());
    let Some(drives_file) = cli.common.volume.as_ref().filter(|_| takes_files && is_any) else {
        return Ok(None);
    };
    let device = means::without_flags()?.device();
    let volume = volumes::open(&device, drives_file)?;
    let home = &volume.drives()[0].dir;
    device.sweep_private_dirs(home)?;
    let mut staged = Staged {
        arguments: Vec::with_capacity(arguments.len()),
        dir: device.make_private_dir(home)?,
        budget: volumes::budget(),
        outputs: Vec::new(),
        replace: arguments.iter().any(|word| word == "--force"),
        volume,
        device,
    };
    for word in arguments {
        let replaced = match dataset_in(word) {
            Some((prefix, name)) => staged.replace(prefix, name)?,
            None => word.clone(),
        };
        staged.arguments.push(replaced);
    }
    Ok(Some(staged))
}

/// What an argument is before the dataset that it names: nothing, `-o` or `--output=`.
fn dataset_in(word: &OsStr) -> Option<(&[u8], &Path)> {
    let bytes = word.as_bytes();
    let prefix: &[u8] = [&b"--output="[..], &b"-o"[..]]
        .into_iter()
        .find(|prefix| bytes.starts_with(prefix))
        .unwrap_or_default();
    let name = Path::new(OsStr::from_bytes(&bytes[prefix.len()..]));
    let is_dataset = matches!(Named::parse(name), Ok(Some(_)));
    is_dataset.then_some((prefix, name))
}

impl Staged {
    fn means(&self) -> Means<'_> {
        Means {
            device: &self.device,
            budget: &self.budget,
            watch: Watch::NOBODY,
        }
    }

    /// The argument that stands for a dataset.
    fn replace(&mut self, prefix: &[u8], name: &Path) -> Result<OsString> {
        let named = volumes::named(name)?;
        let last = self.arguments.last();
        let is_output = !prefix.is_empty() || last.is_some_and(|w| w == "-o" || w == "--output");
        // Its own directory each, so that the name, which may say what is in it, stays.
        let dir = self.dir.path().join(self.arguments.len().to_string());
        std::fs::create_dir(&dir)
            .map_err(|error| outcore::Error::io("make scratch directory", &error).path(&dir))?;
        let inside = named
            .inside
            .as_deref()
            .and_then(|inside| inside.rsplit('/').next());
        let path = dir.join(inside.unwrap_or(&named.dataset));
        if is_output {
            if !self.replace && self.volume.contains(&named.dataset) {
                let cause = format!("there is a @{} already", named.dataset);
                return Err(outcore::Error::usage("create output", cause)
                    .hint("allow replacing it with --force, or name another"));
            }
            self.outputs.push((path.clone(), named));
        } else {
            volumes::get(&self.volume, &named, &path, false, self.means())?;
        }
        let mut word = prefix.to_vec();
        word.extend_from_slice(path.as_os_str().as_bytes());
        Ok(OsString::from_vec(word))
    }

    /// Puts what the command has made.
    ///
    /// # Errors
    /// The name is taken, no room.
    pub(crate) fn finish(self) -> Result<()> {
        for (path, name) in &self.outputs {
            if path.exists() {
                volumes::put(&self.volume, path, name, self.replace, self.means())?;
            }
        }
        Ok(())
    }
}
