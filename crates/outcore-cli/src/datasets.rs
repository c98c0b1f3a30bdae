//! `@name` where a command takes a file: read and written where it lies, or copied.
//!
//! Contract: with a volume named (`--volume`, `OUTCORE_VOLUME`), `@name` (or `@name/inside`) in the place of
//! a file, as the flags' definition has it, is replaced by a file in a private directory on the volume's
//! first drive; one that the command writes ([`OUTPUTS`]) is a sealed dataset when the command has
//! succeeded, and absent otherwise. The directory is removed at the end, or swept by the next run. What would
//! change an input in its place is refused: datasets are sealed. Without a volume a dataset is an error,
//! unless there is a file of that name.
//!
//! In place: what the engine publishes becomes a dataset as it is written, on all drives
//! ([`outcore::volume::dataset::device`]); what a command makes otherwise (compressed text, say) is a file
//! that is put on the volume behind it. A command that reads through the engine reads the dataset itself
//! ([`reads_in_place`]), and finds name, length and head in a stand-in. All others get a copy, and so do
//! packed text, CSV, small datasets and files inside of one. `put`, `get` and `cp` need none of this.
//!
//! A signal stops a copy as it stops a command. Bounds: room for copies on the first drive.

use std::any::TypeId;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::CommandFactory;
use outcore::drive::{Device, PrivateDir};
use outcore::job::Control;
use outcore::memory::Budget;
use outcore::volume::dataset::transfer::Means;
use outcore::volume::dataset::{DatasetVolume, Named, Watch};
use outcore::{Error, Result};
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
    lends_drives: bool,
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
        Command::Head(_) | Command::Sample(_) | Command::Split(_) => true,
        Command::Verify(args) => has_type(&args.record),
        _ => false,
    }
}

/// Flags whose files a command writes.
const OUTPUTS: [&str; 2] = ["output", "record-io"];
/// Flags that change the inputs themselves.
const IN_PLACE: [&str; 2] = ["replace", "delete_input"];

/// What of a command's arguments are files whose names begin with `@`.
#[derive(Debug, Default)]
struct Marked {
    inputs: HashSet<OsString>,
    outputs: HashSet<OsString>,
    /// An input that the command would change.
    changed: Option<OsString>,
}

impl Marked {
    /// By the definition of the flags: a word behind `--from-key` is no file, whatever it begins with.
    fn among(arguments: &[OsString]) -> Self {
        let mut marked = Marked::default();
        let mut root = Cli::command();
        let Ok(found) = root.try_get_matches_from_mut(arguments) else {
            return marked;
        };
        let (mut command, mut matches) = (&root, &found);
        while let Some((name, inner)) = matches.subcommand() {
            let Some(subcommand) = command.find_subcommand(name) else {
                break;
            };
            (command, matches) = (subcommand, inner);
        }
        let is_set = |id: &&str| matches!(matches.try_get_one::<bool>(id), Ok(Some(true)));
        let changed = match command.get_name() {
            "append" => Some("dir"),
            _ => IN_PLACE.iter().any(is_set).then_some("inputs"),
        };
        for flag in command.get_arguments() {
            let is_path = flag.get_value_parser().type_id() == TypeId::of::<PathBuf>();
            let id = flag.get_id().as_str();
            let values = matches.try_get_raw(id).ok().flatten();
            for value in values.into_iter().flatten() {
                if !is_path || id == "volume" || !Named::is_mark(Path::new(value)) {
                    continue;
                }
                let is_output = flag.get_long().is_some_and(|long| OUTPUTS.contains(&long));
                let files = match is_output {
                    true => &mut marked.outputs,
                    false => &mut marked.inputs,
                };
                files.insert(value.to_os_string());
                if changed == Some(id) {
                    marked.changed = Some(value.to_os_string());
                }
            }
        }
        marked
    }

    /// What an argument is before the file that it names: nothing, `-o` or `--output=`.
    fn split<'w>(&self, word: &'w OsStr) -> Option<(&'w [u8], &'w OsStr)> {
        let bytes = word.as_bytes();
        let at = bytes.iter().position(|byte| *byte == b'@')?;
        let (prefix, name) = (&bytes[..at], OsStr::from_bytes(&bytes[at..]));
        let is_file = self.inputs.contains(name) || self.outputs.contains(name);
        (is_file && (prefix.is_empty() || prefix[0] == b'-')).then_some((prefix, name))
    }

    /// Whether the file behind `prefix`, or else behind the word `before`, is one that is written.
    fn is_output(&self, prefix: &[u8], before: Option<&OsString>, name: &OsStr) -> bool {
        if !self.inputs.contains(name) {
            return true;
        }
        let flag = match (prefix, before) {
            ([], None) => return false,
            ([], Some(before)) => before.as_bytes(),
            (prefix, _) => prefix.strip_suffix(b"=").unwrap_or(prefix),
        };
        let is_long = |name: &&str| flag.strip_prefix(b"--") == Some(name.as_bytes());
        OUTPUTS.iter().any(is_long)
            || flag.starts_with(b"-") && !flag.starts_with(b"--") && flag.ends_with(b"o")
    }

    /// Fails where datasets are named and no volume is; a file of that name is meant if it is there.
    fn refuse_without_volume(&self) -> Result<()> {
        let is_missing = |name: &&OsString| {
            let is_dataset = matches!(Named::parse(Path::new(name)), Ok(Some(_)));
            is_dataset && !Path::new(name).exists()
        };
        let mut names: Vec<&OsString> = self
            .inputs
            .union(&self.outputs)
            .filter(is_missing)
            .collect();
        names.sort();
        let Some(name) = names.first() else {
            return Ok(());
        };
        let name = name.to_string_lossy();
        let cause = format!("{name} names a dataset, and no volume is named");
        Err(Error::usage("open volume", cause).hint(format!(
            "use --volume drives.toml, or set OUTCORE_VOLUME; a file of that name is ./{name}"
        )))
    }
}

/// Replaces datasets among the arguments; nothing if there are none, or the command knows them itself.
///
/// # Errors
/// No volume, or none of that name; no such dataset; a dataset that would be changed; damage; no room.
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
    let has_mark = |word: &OsString| word.as_bytes().contains(&b'@');
    if !takes_files || !arguments.iter().any(has_mark) {
        return Ok(None);
    }
    let marked = Marked::among(arguments);
    let Some(drives_file) = cli.common.volume.as_ref() else {
        return marked.refuse_without_volume().map(|()| None);
    };
    if marked.inputs.is_empty() && marked.outputs.is_empty() {
        return Ok(None);
    }
    if let Some(name) = &marked.changed {
        let cause = format!("{}: a dataset is sealed", name.to_string_lossy());
        return Err(Error::usage("change input", cause)
            .hint("write another dataset: -o @OTHER; -o with --force replaces one"));
    }
    let device = means::without_flags()?.device();
    let volume = volumes::open(&device, drives_file)?;
    let home = &volume.drives()[0].dir;
    // Killed runs leave scratch on any of them.
    for drive in volume.drives() {
        device.sweep_private_dirs(&drive.dir)?;
    }
    let mut staged = Staged {
        arguments: Vec::with_capacity(arguments.len()),
        dir: device.make_private_dir(home)?,
        budget: volumes::budget(),
        drives_file: drives_file.clone(),
        reads_in_place: reads_in_place(&cli.command),
        // A view lays its runs on the drives that it is given: they would not be in the dataset.
        lends_drives: !matches!(cli.command, Command::View(_)),
        inputs: Vec::new(),
        outputs: Vec::new(),
        names: Vec::new(),
        replace: arguments.iter().any(|word| word == "--force"),
        volume,
        device,
    };
    for word in arguments {
        let replaced = match marked.split(word) {
            Some((prefix, name)) => {
                let is_output = marked.is_output(prefix, staged.arguments.last(), name);
                staged.replace(prefix, Path::new(name), is_output, watcher)?
            }
            None => word.clone(),
        };
        staged.arguments.push(replaced);
    }
    Ok(Some(staged))
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
    fn replace(
        &mut self,
        prefix: &[u8],
        name: &Path,
        is_output: bool,
        watcher: Watcher<'_>,
    ) -> Result<OsString> {
        let named = volumes::named(name)?;
        // Its own directory each, so that the name, which may say what is in it, stays.
        let dir = self.dir.path().join(self.arguments.len().to_string());
        std::fs::create_dir(&dir)
            .map_err(|error| Error::io("make scratch directory", &error).path(&dir))?;
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
                return Err(Error::usage("create output", cause)
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
            lends_drives: self.lends_drives,
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
