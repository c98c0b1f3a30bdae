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
use outcore::{Error, Result};
use serde_json::json;

use crate::cli::Cli;
use crate::cli::deferred::whole;
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
        render(command, &mut page)?;
        return print(context, &page, started);
    };
    let mut pages = Vec::new();
    collect(&command, "outcore", &mut pages)?;
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
                .hint("check the directory and its permissions")
        })?;
        context.reporter.detail(&path.display().to_string());
    }
    let summary = Summary::since(started).with("pages", json!(pages.len()));
    context.reporter.summary(&summary);
    Ok(0)
}

/// The pages of a command and of those below it, by file name.
fn collect(command: &clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let mut page = Vec::new();
    render(command.clone(), &mut page)?;
    pages.push((format!("{name}.1"), page));
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        if below.get_name() != "help" {
            collect(below, &format!("{name}-{}", below.get_name()), pages)?;
        }
    }
    Ok(())
}

fn render(command: clap::Command, page: &mut Vec<u8>) -> Result<()> {
    Man::new(command)
        .render(page)
        .map_err(|error| Error::io("write man page", &error))
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
