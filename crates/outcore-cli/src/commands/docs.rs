//! `outcore completions` and `outcore man`: made from the definition of the flags, so never stale.
//!
//! Contract: text on standard output, or one page a command in a directory. Pages that exist are
//! replaced only with `--force`. A reader that goes away ends it quietly.

use std::fs;
use std::path::Path;
use std::time::Instant;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use outcore::{Error, Result};
use serde_json::json;

use crate::cli::Cli;
use crate::cli::deferred::whole;
use crate::cli::help::{Closing, closing_of};
use crate::context::Context;
use crate::measure::Summary;
use crate::pipe::CLOSED_PIPE;

/// Prints the completion script of a shell.
pub(crate) fn completions(context: &Context, shell: Shell) -> Result<u8> {
    let started = Instant::now();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut whole(Cli::command), "outcore", &mut script);
    print(context, &script, started)
}

/// Prints the main page, or writes all pages into `dir`.
pub(crate) fn man(context: &Context, dir: Option<&Path>, is_forced: bool) -> Result<u8> {
    let started = Instant::now();
    let mut command = whole(Cli::command);
    command.build();
    let Some(dir) = dir else {
        let mut page = Vec::new();
        render(&command, "", &mut page)?;
        return print(context, &page, started);
    };
    let mut pages = Vec::new();
    collect(&command, "", &mut pages)?;
    if let Some((name, _)) = pages
        .iter()
        .find(|(name, _)| !is_forced && dir.join(name).exists())
    {
        return Err(Error::usage("write man pages", "a page exists already")
            .path(dir.join(name))
            .hint("replace pages with --force, or name another directory"));
    }
    for (name, page) in &pages {
        let path = dir.join(name);
        fs::write(&path, page).map_err(|error| {
            Error::io("write man pages", &error)
                .path(&path)
                .hint("make the directory first, or check its permissions")
        })?;
        context.reporter.detail(&path.display().to_string());
    }
    let summary = Summary::since(started).with("pages", json!(pages.len()));
    context.reporter.summary(&summary);
    Ok(0)
}

/// The pages of a command and of those below it, by file name; `path` is its name below the root.
fn collect(command: &clap::Command, path: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let mut page = Vec::new();
    render(command, path, &mut page)?;
    let name = format!("outcore {path}").trim_end().replace(' ', "-");
    pages.push((format!("{name}.1"), page));
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        if below.get_name() != "help" {
            let path = format!("{path} {}", below.get_name());
            collect(below, path.trim_start(), pages)?;
        }
    }
    Ok(())
}

/// A page, with its examples as they are typed, which the library would fill and hyphenate.
fn render(command: &clap::Command, path: &str, page: &mut Vec<u8>) -> Result<()> {
    let Closing { examples, rest } = closing_of(command, path);
    let has_flags = command.get_arguments().any(|flag| !flag.is_hide_set());
    let has_commands = command.get_subcommands().any(|below| !below.is_hide_set());
    let man = Man::new(command.clone());
    let write = |page: &mut Vec<u8>| {
        man.render_title(page)?;
        man.render_name_section(page)?;
        man.render_synopsis_section(page)?;
        man.render_description_section(page)?;
        let mut roff = Roff::default();
        if !examples.is_empty() {
            roff.control("SH", ["EXAMPLES"]);
        }
        for (number, paragraph) in examples.iter().enumerate() {
            // The section's own heading says what the first one's does.
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
    };
    write(page).map_err(|error| Error::io("write man page", &error))
}

/// Text on standard output.
fn print(context: &Context, text: &[u8], started: Instant) -> Result<u8> {
    let stdout = context.reporter.stdout();
    stdout.write(text);
    if stdout.is_closed() {
        return Ok(CLOSED_PIPE);
    }
    context.reporter.summary(&Summary::since(started));
    Ok(0)
}
