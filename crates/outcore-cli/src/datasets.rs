//! `@name` where a command takes a file: read and written where it lies, or copied.
//!
//! Contract: with a volume named (`--volume`, `OUTCORE_VOLUME`), `@name` (or `@name/inside`) in the place of
//! a file, as the flags' definition has it, is replaced by a file that stands for it
//! ([`outcore_formats::staging`]); one that the command writes ([`OUTPUTS`]) is a sealed dataset when the
//! command has succeeded, and absent otherwise. What would change an input in its place is refused:
//! datasets are sealed. Without a volume a dataset is an error, unless there is a file of that name.
//!
//! Names are found and replaced as values of the flags that they were given to ([`Resolved`]): the words of
//! the command line are never searched or changed.
//!
//! A command that reads through the engine reads the dataset itself ([`reads_in_place`]), and finds name,
//! length and head in a stand-in; of its flags those of [`READ_BY_ENGINE`]. All others get a copy, and so do
//! compressed text and files inside of a dataset. `put`, `get` and `cp` need none of this. A signal stops a
//! copy as it stops a command.

use std::any::TypeId;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Arg, ArgMatches};
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
    files: Resolved,
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
/// Flags whose files go through the engine in commands that read in place. The files of all other flags
/// (lists of names, sources of randomness) are read by the command itself.
const READ_BY_ENGINE: [&str; 5] = ["inputs", "files", "against", "zip", "positions"];

/// A value that names a dataset.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    /// The flag that it was given to.
    flag: String,
    name: OsString,
    is_output: bool,
}

/// What of a command's arguments are files whose names begin with `@`.
#[derive(Debug, Default)]
struct Marked {
    /// Each once for a flag.
    marks: Vec<Mark>,
    /// An input that the command would change.
    changed: Option<OsString>,
    /// Whether outputs may be replaced.
    is_forced: bool,
}

impl Marked {
    /// By the definition of the flags: a word behind `--from-key` is no file, whatever it begins with.
    fn among(root: &clap::Command, found: &ArgMatches) -> Self {
        let mut marked = Marked::default();
        let (mut command, mut matches) = (root, found);
        while let Some((name, inner)) = matches.subcommand() {
            let Some(subcommand) = command.find_subcommand(name) else {
                break;
            };
            (command, matches) = (subcommand, inner);
        }
        let is_set = |id: &str| matches!(matches.try_get_one::<bool>(id), Ok(Some(true)));
        let changed = match command.get_name() {
            "append" => Some("dir"),
            _ => IN_PLACE.into_iter().any(is_set).then_some("inputs"),
        };
        marked.is_forced = is_set("force");
        for flag in command.get_arguments().filter(|flag| takes_file(flag)) {
            let id = flag.get_id().as_str();
            let values = matches.try_get_raw(id).ok().flatten();
            for value in values.into_iter().flatten() {
                if !Named::is_mark(Path::new(value)) {
                    continue;
                }
                let mark = Mark {
                    flag: id.to_string(),
                    name: value.to_os_string(),
                    is_output: flag.get_long().is_some_and(|long| OUTPUTS.contains(&long)),
                };
                if changed == Some(id) {
                    marked.changed = Some(value.to_os_string());
                }
                if !marked.marks.contains(&mark) {
                    marked.marks.push(mark);
                }
            }
        }
        marked
    }

    /// Fails where datasets are named and no volume is; a file of that name is meant if it is there.
    fn refuse_without_volume(&self) -> Result<()> {
        let mut names: Vec<&OsString> = self.marks.iter().map(|mark| &mark.name).collect();
        names.sort();
        let mut names = names.into_iter();
        names.try_for_each(|name| staging::refuse_without_volume(Path::new(name)))
    }
}

/// Whether a flag's values are names of files; that of the volume is no dataset on it.
fn takes_file(flag: &Arg) -> bool {
    flag.get_value_parser().type_id() == TypeId::of::<PathBuf>() && flag.get_id() != "volume"
}

/// Reads the values of flags as names of files, those of datasets as the files that stand for them.
#[derive(Debug, Clone, Default)]
struct Resolved(Arc<HashMap<(String, OsString), PathBuf>>);

impl TypedValueParser for Resolved {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &clap::Command,
        flag: Option<&Arg>,
        value: &OsStr,
    ) -> std::result::Result<PathBuf, clap::Error> {
        let place = flag.map(|flag| (flag.get_id().to_string(), value.to_os_string()));
        match place.and_then(|place| self.0.get(&place)) {
            Some(path) => Ok(path.clone()),
            None => PathBufValueParser::new().parse_ref(command, flag, value),
        }
    }
}

impl Resolved {
    /// The definition of a command and of all below it, with names resolved.
    fn in_command(&self, command: clap::Command) -> clap::Command {
        let resolve = |flag: Arg| match takes_file(&flag) {
            true => flag.value_parser(self.clone()),
            false => flag,
        };
        command
            .mut_args(resolve)
            .mut_subcommands(|below| self.in_command(below))
    }
}

/// Finds files for the datasets among the arguments; nothing if there are none, or the command knows them
/// itself.
///
/// # Errors
/// No volume, or none of that name; no such dataset; a dataset that would be changed; damage; no room.
pub(crate) fn stage(
    cli: &Cli,
    (root, matches): (&clap::Command, &ArgMatches),
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
    let marked = match takes_files {
        true => Marked::among(root, matches),
        false => Marked::default(),
    };
    if marked.marks.is_empty() {
        return Ok(None);
    }
    let Some(drives_file) = cli.common.volume.as_ref() else {
        return marked.refuse_without_volume().map(|()| None);
    };
    if let Some(name) = &marked.changed {
        let cause = format!("{}: a dataset is sealed", name.to_string_lossy());
        return Err(Error::usage("change input", cause)
            .hint("write another dataset: -o @OTHER; -o with --force replaces one"));
    }
    let device = means::without_flags()?.device();
    let mut staging = Staging::begin(device, drives_file)?;
    let is_in_place = reads_in_place(&cli.command);
    let mut files = HashMap::with_capacity(marked.marks.len());
    for mark in marked.marks {
        let name = Path::new(&mark.name);
        let reads = match is_in_place && READ_BY_ENGINE.contains(&mark.flag.as_str()) {
            true => Reads::ByEngine,
            false => Reads::Otherwise,
        };
        let path = match mark.is_output {
            true => staging.output(name, marked.is_forced)?,
            false => staging.input(name, reads, &copying(watcher))?,
        };
        files.insert((mark.flag, mark.name), path);
    }
    Ok(Some(Staged {
        files: Resolved(Arc::new(files)),
        staging,
        // A view lays its runs on the drives that it is given: they would not be in the dataset.
        lends_drives: !matches!(cli.command, Command::View(_)),
    }))
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
    /// The definition of the arguments, in which names of datasets are files.
    pub(crate) fn in_command(&self, command: clap::Command) -> clap::Command {
        self.files.in_command(command)
    }

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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn marked(arguments: &[&str]) -> Vec<(String, String, bool)> {
        let mut root = Cli::command();
        let matches = root.try_get_matches_from_mut(arguments).unwrap();
        let marks = Marked::among(&root, &matches).marks.into_iter();
        let text = |name: OsString| name.into_string().unwrap();
        marks
            .map(|mark| (mark.flag, text(mark.name), mark.is_output))
            .collect()
    }

    #[test]
    fn names_are_values_of_flags_however_these_are_written() {
        let input = |name: &str| ("inputs".to_string(), name.to_string(), false);
        let output = |name: &str| ("output".to_string(), name.to_string(), true);
        for (arguments, wanted) in [
            // The separator is `o`, and @a the input.
            (
                &["outcore", "sort", "-k1,1", "-to", "@a", "-o", "@c"][..],
                vec![input("@a"), output("@c")],
            ),
            (
                &["outcore", "sort", "-to@a", "@b", "@b", "--output=@c"],
                vec![input("@b"), output("@c")],
            ),
            (
                &["outcore", "sort", "-so@c", "--", "@a"],
                vec![input("@a"), output("@c")],
            ),
            (&["outcore", "sort", "-t", "@", "-k", "1", "x@y"], vec![]),
        ] {
            assert_eq!(marked(arguments), wanted, "{arguments:?}");
        }
    }

    #[test]
    fn a_name_is_resolved_where_it_was_given_and_nowhere_else() {
        let place = ("inputs".to_string(), OsString::from("@a"));
        let files = Resolved(Arc::new(HashMap::from([(
            place,
            PathBuf::from("/stand-in"),
        )])));
        let arguments = ["outcore", "sort", "@a", "-o", "@a", "-T", "@a"];
        let matches = files
            .in_command(Cli::command())
            .try_get_matches_from(arguments);
        let matches = matches.unwrap();
        let sort = matches.subcommand_matches("sort").unwrap();
        let path = |id: &str| sort.get_one::<PathBuf>(id).unwrap().clone();
        assert_eq!(path("inputs"), Path::new("/stand-in"));
        assert_eq!(path("output"), Path::new("@a"));
        assert_eq!(path("temporary_dirs"), Path::new("@a"));
    }
}
