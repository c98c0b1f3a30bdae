//! The commands `completions` and `man`: made from the definition of the flags, so they are always
//! up to date.
//!
//! Contract: text on standard output, or one page per command in a directory. Existing pages are
//! replaced only with `--force`. If the reader goes away, the command ends without a message.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Command, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use outcore::{Error, Result};
use outcore_io::drive::{NewFile, paths};
use serde_json::json;

use crate::measure::Summary;
use crate::pages::{Closing, Contents, closing_of};
use crate::report::Reporter;
use crate::stdout::CLOSED_PIPE;

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Print the man page of the program, or write the pages of all commands to a directory
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory for the pages, one for each command
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Replace existing pages
    #[arg(long, requires = "dir")]
    pub force: bool,
}

/// Prints the completion script of a shell for `root`, which must not be built yet.
pub fn completions(reporter: &Reporter, mut root: Command, args: &CompletionsArgs) -> u8 {
    let started = Instant::now();
    let mut script = Vec::new();
    let name = root.get_name().to_string();
    clap_complete::generate(args.shell, &mut root, name, &mut script);
    print(reporter, &script, started)
}

/// Prints the main page of `root`, which must not be built yet, or writes all pages into a
/// directory.
///
/// # Errors
/// A page exists and may not be replaced, or cannot be written.
pub fn man(
    reporter: &Reporter,
    mut root: Command,
    contents: Contents,
    args: &ManArgs,
) -> Result<u8> {
    let started = Instant::now();
    root.build();
    let all = Pages {
        root: root.get_name(),
        contents,
    };
    let Some(dir) = &args.dir else {
        let page = all.render(&root, "")?;
        return Ok(print(reporter, &page, started));
    };
    if !dir.exists()
        && let program = root.get_name()
        && let Some(name) = dir
            .to_str()
            .map(|name| name.trim_end_matches(".1"))
            .map(|name| name.strip_prefix(&format!("{program}-")).unwrap_or(name))
            .filter(|name| root.find_subcommand(name).is_some())
    {
        let cause = format!("{name} is a command, and this takes a directory");
        return Err(Error::usage("write man pages", cause).hint(format!(
            "{program} {name} --help has its options; {program} man | man -l - shows the page"
        )));
    }
    let mut pages = Vec::new();
    all.collect(&root, "", &mut pages)?;
    if let Some((name, _)) = pages
        .iter()
        .find(|(name, _)| !args.force && dir.join(name).exists())
    {
        return Err(Error::usage("write man pages", "a page exists already")
            .path(dir.join(name))
            .hint("replace pages with --force, or name another directory"));
    }
    paths::facts(dir).map_err(|error| {
        Error::io("write man pages", &error)
            .path(dir)
            .hint("make the directory first, or check its permissions")
    })?;
    for (name, page) in &pages {
        let path = dir.join(name);
        NewFile::at("write man pages", &path, args.force)?.write(page)?;
        reporter.detail(&path.display().to_string());
    }
    let summary = Summary::since(started).with("pages", json!(pages.len()));
    reporter.summary(&summary);
    Ok(0)
}

/// The pages of a command, whose name is `root`.
struct Pages<'a> {
    root: &'a str,
    contents: Contents,
}

/// A file with a page.
type Page = (String, Vec<u8>);

impl Pages<'_> {
    /// The pages of a command and of those below it, by file name; `path` is its name below the
    /// root.
    fn collect(&self, command: &Command, path: &str, pages: &mut Vec<Page>) -> Result<()> {
        let name = format!("{} {path}", self.root);
        let name = name.trim_end().replace(' ', "-");
        pages.push((format!("{name}.1"), self.render(command, path)?));
        for below in command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
        {
            if below.get_name() != "help" {
                let path = format!("{path} {}", below.get_name());
                self.collect(below, path.trim_start(), pages)?;
            }
        }
        Ok(())
    }

    fn render(&self, command: &Command, path: &str) -> Result<Vec<u8>> {
        let mut page = Vec::new();
        let closing = closing_of(command, path, self.contents);
        match write_page(command, closing, &mut page) {
            Ok(()) => Ok(page),
            Err(error) => Err(Error::io("write man page", &error)),
        }
    }
}

/// A page, with its examples unchanged; the library would wrap and hyphenate them.
fn write_page(command: &Command, closing: Closing, page: &mut Vec<u8>) -> std::io::Result<()> {
    let Closing { examples, rest } = closing;
    let has_flags = command.get_arguments().any(|flag| !flag.is_hide_set());
    let has_commands = command.get_subcommands().any(|below| !below.is_hide_set());
    let man = Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    let mut roff = Roff::default();
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for (number, paragraph) in examples.iter().enumerate() {
        // The heading of the section has the same text as the first heading.
        let lines = paragraph.lines().skip(usize::from(number == 0));
        roff.control("PP", []).control("nf", []);
        for line in lines {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff.to_writer(page)?;
    if has_flags {
        man.render_options_section(page)?;
    }
    if has_commands {
        man.render_subcommands_section(page)?;
    }
    let mut roff = Roff::default();
    if !rest.is_empty() {
        roff.control("SH", ["NOTES"]);
    }
    for paragraph in &rest {
        roff.control("PP", []).text([roman(paragraph)]);
    }
    roff.to_writer(page)?;
    match command.get_version() {
        Some(_) => man.render_version_section(page),
        None => Ok(()),
    }
}

/// Prints text on standard output; returns the exit code.
fn print(reporter: &Reporter, text: &[u8], started: Instant) -> u8 {
    let stdout = reporter.stdout();
    stdout.write(text);
    if stdout.is_closed() {
        return CLOSED_PIPE;
    }
    reporter.summary(&Summary::since(started));
    0
}
