//! Records what `--delete-input` has freed of the inputs, and reports it if the job fails.
//!
//! Contract: [`Consumed`] records how much room the inputs occupy before the job. The room that
//! they lack afterwards has been freed, and reads as zeros. Once the output is in place, the verb
//! removes the consumed inputs. The verb removes a name only if the name still leads to the file
//! that was opened, so it never removes the output. Then it removes the markers next to the inputs
//! (see [`outcore_io::consumed`]). Only metadata is read.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use outcore::{Error, Kind, Result};
use outcore_front::inputs::{ResolvedInput, Source};
use outcore_front::output::Target;
use outcore_io::consumed::{check_links, marker_of, unmark};
use outcore_io::drive::{folder, paths};
use outcore_io::units;

/// Names that are listed in full.
const NAMES_MAX: usize = 3;
/// The unit in which the kernel counts occupied room.
const STAT_BLOCK_BYTES: u64 = 512;

/// The inputs as they were before the job.
pub(super) struct Consumed(Vec<(PathBuf, u64)>, Vec<PathBuf>);

/// Fails if an input is not a file that could be removed.
pub(super) fn check(sources: &[Source]) -> Result<()> {
    let refuse = |cause: &str, source: &Source| {
        Err(Error::usage("delete input", cause)
            .path(&source.name)
            .hint("leave --delete-input out"))
    };
    for (index, source) in sources.iter().enumerate() {
        if source.is_stream() || source.start_bytes > 0 {
            return refuse("the input is not a file that could be removed", source);
        }
        if sources[..index].iter().any(|other| other.key == source.key) {
            return refuse(
                "the input is given twice, so it cannot be removed after the first read",
                source,
            );
        }
        if let Ok(found) = paths::facts(&source.path) {
            check_links(&source.name, &found)?;
        }
    }
    Ok(())
}

impl Consumed {
    /// Examines the inputs before the job.
    pub(super) fn before(inputs: &[ResolvedInput]) -> Self {
        let paths = inputs.iter().map(|input| &input.source.path);
        let occupied = paths
            .clone()
            .map(|path| (path.clone(), occupied_bytes(path)));
        let occupied = occupied.collect();
        Consumed(occupied, paths.map(|path| marker_of(path)).collect())
    }

    /// The error of the job, with the state of the inputs and the next step.
    pub(super) fn explain(&self, error: Error) -> Error {
        let state = self.state();
        let hint = match (error.kind(), error.next_step()) {
            (Kind::Interrupted, _) => format!("no output was left behind; {state}"),
            (_, Some(hint)) => format!("{hint}; {state}"),
            (_, None) => state,
        };
        error.hint(hint)
    }

    /// Whether the inputs are whole, or else how much of them has been freed.
    pub(super) fn state(&self) -> String {
        let mut freed: Vec<(&Path, u64)> = Vec::new();
        for (path, before_bytes) in &self.0 {
            let freed_bytes = before_bytes.saturating_sub(occupied_bytes(path));
            if freed_bytes > 0 {
                freed.push((path, freed_bytes));
            }
        }
        if freed.is_empty() {
            return "--delete-input had freed nothing yet: the inputs are whole".to_string();
        }
        let freed_bytes = freed.iter().map(|(_, bytes)| bytes).sum();
        let all_bytes = self.0.iter().map(|(_, bytes)| bytes).sum();
        let mut names: Vec<String> = freed
            .iter()
            .take(NAMES_MAX)
            .map(|(path, _)| path.display().to_string())
            .collect();
        if freed.len() > NAMES_MAX {
            names.push(format!("{} more", freed.len() - NAMES_MAX));
        }
        format!(
            "--delete-input had freed {} of {}: {} kept the length, but parts are zeros now; restore \
             from the source, then remove the marker ({}): scratch with parts of the rest stays as \
             long as the marker exists",
            units::bytes(freed_bytes),
            units::bytes(all_bytes),
            names.join(", "),
            marker_of(freed[0].0).display()
        )
    }
}

/// The room that a file takes on its drive; nothing if the file is gone.
fn occupied_bytes(path: &Path) -> u64 {
    paths::facts(path).map_or(0, |facts| facts.blocks() * STAT_BLOCK_BYTES)
}

/// Removes the inputs, their manifests and their markers, except for an input that the output has
/// replaced.
pub(super) fn remove(consumed: &Consumed, inputs: &[ResolvedInput], target: &Target) -> Result<()> {
    let outputs = target.files().iter().chain(target.manifest());
    let outputs: Vec<_> = outputs.filter_map(|path| paths::key(path)).collect();
    let is_output = |key| outputs.contains(&key);
    for input in inputs {
        let source = &input.source;
        if source.key.is_some() && paths::key(&source.path) == source.key {
            remove_file(&source.path)?;
        }
        // Several shards share a manifest.
        if let Some(manifest) = &source.manifest
            && paths::key(manifest).is_some_and(|key| !is_output(key))
        {
            remove_file(manifest)?;
        }
    }
    // The names of the markers were computed while the inputs existed.
    consumed.1.iter().try_for_each(|marker| unmark(marker))
}

fn remove_file(path: &Path) -> Result<()> {
    folder::remove_file(path)
        .map_err(|error| error.hint("the output is complete; remove the remaining inputs yourself"))
}
