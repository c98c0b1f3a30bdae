//! `outcore scratch list|clean`: private directories of jobs, alive or dead.
//!
//! Contract: looks only at the directories named (by default the configured drives, or the current
//! directory), at those directly inside them, where the files of a graph or a view are made, and only at names
//! that the engine makes. A directory whose lock is held belongs to a running job and is never touched, nor is
//! one that holds the only copy of something, or that only looks like one of ours (`-v` says why); see
//! [`outcore_io::drive::private_dir`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::{Error, Result};
use outcore_front::resources::{Resources, check_dir};
use outcore_io::drive::private_dir::{self, State};
use outcore_io::units;
use serde_json::json;

use crate::cli::ScratchCommand;
use crate::context::Context;
use crate::measure::Summary;
use crate::resources;

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &ScratchCommand) -> Result<u8> {
    let started = Instant::now();
    let resources = resources::without_flags()?;
    let count = match command {
        ScratchCommand::List { dirs } => list(context, &dirs_of(&resources, dirs)?)?,
        ScratchCommand::Clean { dirs } => clean(context, &dirs_of(&resources, dirs)?)?,
    };
    let summary = Summary::since(started).with("directories", json!(count));
    context.reporter.summary(&summary);
    Ok(0)
}

fn dirs_of(resources: &Resources, named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let drives = &resources.config.drives.value.drives;
    let dirs: Vec<PathBuf> = match (named, drives.as_slice()) {
        ([], []) => vec![PathBuf::from(".")],
        ([], drives) => drives.iter().map(|drive| drive.dir.clone()).collect(),
        (named, _) => named.to_vec(),
    };
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for dir in dirs {
        check_dir("look for scratch", &dir)?;
        let inside = dirs_in(&dir);
        found.extend(std::iter::once(dir).chain(inside));
    }
    // One directory by two names is one.
    found.retain(|dir| seen.insert(dir.canonicalize().unwrap_or_else(|_| dir.clone())));
    Ok(found)
}

/// The directories in `dir` that may be read, in order; nothing is reached by links.
fn dirs_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let is_dir = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let is_own = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(b".outcore-")
    };
    let dirs = entries
        .flatten()
        .filter(|entry| is_dir(entry) && !is_own(entry));
    let readable = dirs
        .map(|entry| entry.path())
        .filter(|path| std::fs::read_dir(path).is_ok());
    let mut dirs: Vec<PathBuf> = readable.collect();
    dirs.sort();
    dirs
}

fn list(context: &Context, dirs: &[PathBuf]) -> Result<usize> {
    let mut count = 0;
    for dir in dirs {
        for (path, state) in private_dir::list(dir)? {
            if tell_unknown(context, &path, &state) {
                continue;
            }
            count += 1;
            let size_bytes = bytes_in(&path);
            let kept_for = match &state {
                State::Kept(kept_for) => Some(kept_for.display().to_string()),
                _ => None,
            };
            let text = match (&state, &kept_for) {
                (State::InUse, _) => "in use".to_string(),
                (_, Some(kept_for)) => format!("kept for {kept_for}"),
                _ => "left over".to_string(),
            };
            context.reporter.event(
                "scratch",
                json!({
                    "path": path.display().to_string(),
                    "in_use": state == State::InUse,
                    "kept_for": kept_for,
                    "bytes": size_bytes,
                }),
            );
            context.reporter.data(&format!(
                "{}\t{text}\t{}\n",
                path.display(),
                units::bytes(size_bytes)
            ));
        }
    }
    if count == 0 {
        context.reporter.human("no scratch directories");
    }
    Ok(count)
}

/// Says of a directory that only looks like one of ours why it is left alone; whether it is one.
fn tell_unknown(context: &Context, path: &Path, state: &State) -> bool {
    let State::Unknown(cause) = state else {
        return false;
    };
    let text = format!("{}: left alone, since {cause}", path.display());
    context.reporter.detail(&text);
    true
}

fn clean(context: &Context, dirs: &[PathBuf]) -> Result<usize> {
    let mut count = 0;
    for dir in dirs {
        for path in private_dir::sweep(dir)? {
            count += 1;
            context
                .reporter
                .event("removed", json!({"path": path.display().to_string()}));
            context.reporter.data(&format!("{}\n", path.display()));
        }
        for (path, state) in private_dir::list(dir)? {
            tell_unknown(context, &path, &state);
            if let State::Kept(kept_for) = &state {
                context.reporter.note(&format!(
                    "{} stays: it holds the only copy of parts of {}, while that file has a marker",
                    path.display(),
                    kept_for.display()
                ));
            }
            if state == State::LeftOver {
                let cause = "a left-over directory cannot be removed yet";
                return Err(Error::new(outcore::Kind::Io, "clean scratch", cause)
                    .path(path)
                    .hint("check permissions, and that all drives of its job are mounted"));
            }
        }
    }
    context
        .reporter
        .human(&format!("removed {count} scratch directories"));
    Ok(count)
}

/// Bytes that the files of a directory occupy; what cannot be read counts nothing.
fn bytes_in(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|facts| facts.blocks() * 512)
        .sum()
}
