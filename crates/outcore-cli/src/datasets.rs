//! `@name` where a command takes a file: read and written where it lies, or copied.
//!
//! Contract: with a volume named (`--volume`, `OUTCORE_VOLUME`), an argument `@name` (or `@name/inside`) of
//! a command that takes files is replaced by a file in a private directory on the volume's first drive; one
//! behind `-o` or `--output` is a sealed dataset when the command has succeeded, and absent otherwise.
//! The directory is removed at the end, or swept by the next run.
//!
//! In place: what the engine publishes becomes a dataset as it is written, on all drives
//! ([`outcore::volume::dataset::device`]); what a command makes otherwise (compressed text, say) is a file
//! that is put on the volume behind it. A command that reads through the engine reads the dataset itself
//! ([`reads_in_place`]), and finds name, length and head in a stand-in. All others get a copy, and so do
//! packed text, CSV, small datasets and files inside of one. `put`, `get` and `cp` need none of this.
//!
//! A signal stops a copy as it stops a command. Bounds: room for copies on the first drive.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::Result;
use outcore::drive::{Device, PrivateDir};
use outcore::job::Control;
use outcore::memory::Budget;
use outcore::volume::dataset::transfer::Means;
use outcore::volume::dataset::{DatasetVolume, Named, Watch};
use outcore_formats::text::compress::Compression;
use outcore_formats::volumes::{self, DatasetFiles};

use crate::cli::{Cli, Command, TypeArgs};
use crate::means;
use crate::progress::watch;
use crate::report::Reporter;
use crate::signals::Interrupt;

/// Who is told how far a copy is, and who may stop it.
type Watcher<'a> = (&'a Reporter, &'a Interrupt);

/// Copies of datasets, for the time of one command.
pub(crate) struct Staged {
    /// The command's arguments, with files in the place of datasets.
    pub(crate) arguments: Vec<OsString>,
    device: Arc<dyn Device>,
    volume: DatasetVolume,
    budget: Budget,
    dir: PrivateDir,
    drives_file: PathBuf,
    reads_in_place: bool,
    inputs: Vec<(PathBuf, String)>,
    outputs: Vec<(PathBuf, Named)>,
    /// All files that stand for datasets, and what they were named.
    names: Vec<(String, String)>,
    replace: bool,
}

/// Whether the command reads all of its inputs through the engine, but for their heads.
fn reads_in_place(command: &Command) -> bool {
    let has_type = |record: &TypeArgs| {
        record.format.is_some() || record.record_bytes.is_some() || !record.keys.is_empty()
    };
    match command {
        Command::Sequence(_) => true,
        // The header of CSV is read where it lies.
        Command::Sort(args) => !args.delete_input && !args.replace && !args.text.csv,
        Command::Shuffle(_) | Command::Unique(_) => true,
        Command::Verify(args) => has_type(&args.record),
        _ => false,
    }
}

/// Replaces datasets among the arguments; nothing if there are none, or the command knows them itself.
///
/// # Errors
/// No volume of that name, no such dataset, damage, no room.
pub(crate) fn stage(
    cli: &Cli,
    arguments: &[OsString],
    watcher: Watcher<'_>,
) -> Result<Option<Staged>> {
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
        drives_file: drives_file.clone(),
        reads_in_place: reads_in_place(&cli.command),
        inputs: Vec::new(),
        outputs: Vec::new(),
        names: Vec::new(),
        replace: arguments.iter().any(|word| word == "--force"),
        volume,
        device,
    };
    for word in arguments {
        let replaced = match dataset_in(word) {
            Some((prefix, name)) => staged.replace(prefix, name, watcher)?,
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
    /// Copies `bytes`, showing how far it is and stopping when a signal comes.
    fn copy(
        &self,
        (reporter, interrupt): Watcher<'_>,
        bytes: u64,
        work: impl FnOnce(Means<'_>) -> Result<volumes::Moved>,
    ) -> Result<()> {
        let control = Control::default();
        control.begin_phase("copy", bytes);
        // The events of a command begin with its own.
        let is_stopped = || interrupt.check();
        let is_cancelled = || control.check();
        let check: &dyn Fn() -> Result<()> = match reporter.is_json() {
            true => &is_stopped,
            false => &is_cancelled,
        };
        let means = Means {
            device: &self.device,
            budget: &self.budget,
            watch: Watch {
                check,
                advance: &|bytes| control.advance(bytes),
            },
        };
        let moved = match reporter.is_json() {
            true => work(means),
            false => watch(reporter, interrupt, &control, &[("copy", 1.0)], || {
                work(means)
            }),
        };
        moved.map(|_| ())
    }

    /// The argument that stands for a dataset.
    fn replace(&mut self, prefix: &[u8], name: &Path, watcher: Watcher<'_>) -> Result<OsString> {
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
        let told = name.display().to_string();
        self.names.push((path.display().to_string(), told));
        if is_output {
            if !self.replace && self.volume.contains(&named.dataset) {
                let cause = format!("there is a @{} already", named.dataset);
                return Err(outcore::Error::usage("create output", cause)
                    .hint("allow replacing it with --force, or name another"));
            }
            self.outputs.push((path.clone(), named));
        } else if self.reads_in_place
            && Compression::of(&path).is_none()
            && volumes::is_read_in_place(&self.volume, &named)?
        {
            volumes::stand_in(&self.volume, &named, &path, &self.budget)?;
            self.inputs.push((path.clone(), named.dataset));
        } else {
            let bytes = volumes::bytes_of(&self.volume, name);
            self.copy(watcher, bytes, |means| {
                volumes::get(&self.volume, &named, &path, false, means)
            })?;
        }
        let mut word = prefix.to_vec();
        word.extend_from_slice(path.as_os_str().as_bytes());
        Ok(OsString::from_vec(word))
    }

    /// What the files are called in messages.
    pub(crate) fn names(&self) -> Vec<(String, String)> {
        self.names.clone()
    }

    /// The datasets that the command knows as files.
    pub(crate) fn files(&self) -> DatasetFiles {
        let whole = self
            .outputs
            .iter()
            .filter(|(_, name)| name.inside.is_none());
        DatasetFiles {
            drives_file: self.drives_file.clone(),
            inputs: self.inputs.clone(),
            outputs: whole
                .map(|(path, name)| (path.clone(), name.dataset.clone()))
                .collect(),
            replace: self.replace,
        }
    }

    /// Puts what the command has made as a file.
    ///
    /// # Errors
    /// The name is taken, no room.
    pub(crate) fn finish(self, watcher: Watcher<'_>) -> Result<()> {
        for (path, name) in &self.outputs {
            if path.exists() {
                let bytes = volumes::bytes_of(&self.volume, path);
                self.copy(watcher, bytes, |means| {
                    volumes::put(&self.volume, path, name, self.replace, means)
                })?;
            }
        }
        Ok(())
    }
}
