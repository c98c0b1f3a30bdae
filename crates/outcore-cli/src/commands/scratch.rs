//! `outcore scratch list|clean`: private directories of jobs, alive or dead.
//!
//! Contract: looks only at the directories named (by default the configured drives, or the current
//! directory) and only at names that the engine makes. A directory whose lock is held belongs to a
//! running job and is never touched; see [`outcore::drive::private_dir`].

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::drive::private_dir;
use outcore::{Error, Result, units};
use outcore_formats::means::{Means, check_dir};
use serde_json::json;

use super::Context;
use crate::cli::ScratchCommand;
use crate::means;
use crate::measure::Summary;

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &ScratchCommand) -> Result<u8> {
    let started = Instant::now();
    let means = means::without_flags()?;
    let count = match command {
        ScratchCommand::List { dirs } => list(context, &dirs_of(&means, dirs)?)?,
        ScratchCommand::Clean { dirs } => clean(context, &dirs_of(&means, dirs)?)?,
    };
    let summary = Summary::since(started).with("directories", json!(count));
    context.reporter.summary(&summary);
    Ok(0)
}

fn dirs_of(means: &Means, named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let drives = &means.config.drives.value.drives;
    let dirs: Vec<PathBuf> = match (named, drives.as_slice()) {
        ([], []) => vec![PathBuf::from(".")],
        ([], drives) => drives.iter().map(|drive| drive.dir.clone()).collect(),
        (named, _) => named.to_vec(),
    };
    for dir in &dirs {
        check_dir("look for scratch", dir)?;
    }
    Ok(dirs)
}

fn list(context: &Context, dirs: &[PathBuf]) -> Result<usize> {
    let mut count = 0;
    for dir in dirs {
        for (path, is_alive) in private_dir::list(dir)? {
            count += 1;
            let size_bytes = bytes_in(&path);
            let state = if is_alive { "in use" } else { "left over" };
            context.reporter.event(
                "scratch",
                json!({
                    "path": path.display().to_string(),
                    "in_use": is_alive,
                    "bytes": size_bytes,
                }),
            );
            context.reporter.data(&format!(
                "{}\t{state}\t{}\n",
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
        let left = private_dir::list(dir)?;
        if let Some((path, _)) = left.iter().find(|(_, is_alive)| !is_alive) {
            let cause = "a left-over directory cannot be removed yet";
            return Err(Error::new(outcore::Kind::Io, "clean scratch", cause)
                .path(path)
                .hint("check permissions, and that all drives of its job are mounted"));
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
