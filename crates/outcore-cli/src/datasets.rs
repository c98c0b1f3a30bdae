//! `@name` where a command takes a file: read and written where it lies, or copied.
//!
//! Contract: with a volume named (`--volume`, `OUTCORE_VOLUME`), `@name` (or `@name/inside`) in the place of
//! a file, as the flags' definition has it, is replaced by a file that stands for it
//! ([`outcore_formats::staging`]); one that the command writes ([`OUTPUTS`]) is a sealed dataset when the
//! command has succeeded, and absent otherwise. What would change an input in its place is refused:
//! datasets are sealed. Without a volume a dataset is an error, unless there is a file of that name.
//!
//! A command that reads through the engine reads the dataset itself ([`reads_in_place`]), and finds name,
//! length and head in a stand-in. All others get a copy, and so do compressed text and files inside of a
//! dataset. `put`, `get` and `cp` need none of this. A signal stops a copy as it stops a command.

use std::any::TypeId;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use outcore::job::Control;
use outcore::volume::dataset::{Named, Watch};
use outcore::{Error, Result};
use outcore_formats::staging::{self, Reads, Staging, Work};
use outcore_formats::volumes::DatasetFiles;

use crate::cli::{Cli, Command, TypeArgs};
use crate::means;
use crate::progress::watch;
use crate::report::Reporter;
use crate::signals::Interrupt;

/// Who is told how far a copy is, and who may stop it.
type Watcher<'a> = (&'a Reporter, &'a Interrupt);

/// A command whose arguments name datasets.
pub(crate) struct Staged {
    /// The command's arguments, with files in the place of datasets.
    pub(crate) arguments: Vec<OsString>,
    staging: Staging,
    lends_drives: bool,
}

/// Whether the command reads all of its inputs through the engine, but for their heads.
fn reads_in_place(command: &Command) -> bool {
    let has_type = |record: &TypeArgs| {
        record.format.is_some() || record.record_bytes.is_some() || !record.keys.is_empty()
    };
    match command {
        Command::Sequence(_) => true,
        Command::Sort(args) => !args.delete_input && !args.replace,
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
        let mut names: Vec<&OsString> = self.inputs.union(&self.outputs).collect();
        names.sort();
        let mut names = names.into_iter();
        names.try_for_each(|name| staging::refuse_without_volume(Path::new(name)))
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
    let replace = arguments.iter().any(|word| word == "--force");
    let mut staged = Staged {
        arguments: Vec::with_capacity(arguments.len()),
        staging: Staging::begin(device, drives_file)?,
        // A view lays its runs on the drives that it is given: they would not be in the dataset.
        lends_drives: !matches!(cli.command, Command::View(_)),
    };
    let reads = match reads_in_place(&cli.command) {
        true => Reads::ByEngine,
        false => Reads::Otherwise,
    };
    for word in arguments {
        let replaced = match marked.split(word) {
            Some((prefix, name)) => {
                let is_output = marked.is_output(prefix, staged.arguments.last(), name);
                let name = Path::new(name);
                let path = match is_output {
                    true => staged.staging.output(name, replace)?,
                    false => staged.staging.input(name, reads, &copying(watcher))?,
                };
                let mut word = prefix.to_vec();
                word.extend_from_slice(path.as_os_str().as_bytes());
                OsString::from_vec(word)
            }
            None => word.clone(),
        };
        staged.arguments.push(replaced);
    }
    Ok(Some(staged))
}

/// Copies so many bytes, showing how far it is and stopping when a signal comes.
fn copying((reporter, interrupt): Watcher<'_>) -> impl Fn(u64, &Work<'_>) -> Result<()> {
    move |bytes, work| {
        let control = Control::default();
        control.begin_phase("copy", bytes);
        // The events of a command begin with its own.
        let is_stopped = || interrupt.check();
        let is_cancelled = || control.check();
        let check: &dyn Fn() -> Result<()> = match reporter.is_json() {
            true => &is_stopped,
            false => &is_cancelled,
        };
        let told = Watch {
            check,
            advance: &|bytes| control.advance(bytes),
        };
        match reporter.is_json() {
            true => work(told),
            false => watch(reporter, interrupt, &control, &[("copy", 1.0)], || {
                work(told)
            }),
        }
    }
}

impl Staged {
    /// What the files are called in messages.
    pub(crate) fn names(&self) -> Vec<(String, String)> {
        let told = |path: &PathBuf| path.display().to_string();
        let names = self.staging.names().iter();
        names.map(|(path, name)| (told(path), told(name))).collect()
    }

    /// The datasets that the command knows as files.
    pub(crate) fn files(&self) -> DatasetFiles {
        self.staging.files(self.lends_drives)
    }

    /// Puts what the command has made as a file.
    ///
    /// # Errors
    /// The name is taken, no room.
    pub(crate) fn finish(self, watcher: Watcher<'_>) -> Result<()> {
        self.staging.finish(&copying(watcher))
    }
}
