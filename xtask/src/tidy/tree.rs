//! The files that the checks read: all that git keeps or would keep, as text.
//!
//! Contract: paths are relative to the root, separated by `/`, sorted, without duplicates. For
//! files of another encoding or above 1 MiB, only the name is known. Outside a git checkout (a
//! source archive) the folder is walked, except for build outputs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Folders that are skipped where git is not available.
const BUILD_FOLDERS: [&str; 9] = [
    ".git",
    "target",
    ".venv",
    "dist",
    "build",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    "artifacts",
];

/// One file that is text.
#[derive(Debug)]
pub(super) struct TextFile {
    /// Path relative to the root.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl TextFile {
    /// The extension of the name, without its dot.
    pub(super) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Whether the file is test material, not our own prose or program.
    pub(super) fn is_fixture(&self) -> bool {
        self.path
            .split('/')
            .any(|part| part == "fixtures" || part == "snapshots")
    }
}

/// The repository as the checks see it.
#[derive(Debug)]
pub struct Tree {
    files: Vec<TextFile>,
    names: BTreeSet<String>,
    /// Paths that belong to this machine and must not be written down; each ends with `/`.
    machine_places: Vec<String>,
}

impl Tree {
    /// Reads the repository at `root`.
    ///
    /// # Errors
    /// A folder that could not be listed or a file that could not be read, with its name.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let names = match listed_by_git(root) {
            Some(names) => names,
            None => walked(root)?,
        };
        let mut files = Vec::new();
        for name in &names {
            let path = root.join(name);
            let length_bytes = path.metadata().map_or(0, |facts| facts.len());
            if length_bytes > TEXT_BYTES_MAX {
                continue;
            }
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                // Removed since it was listed, such as the output of a test that runs at the same
                // time.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("{}: {error}", path.display())),
            };
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(TextFile {
                    path: name.clone(),
                    text,
                });
            }
        }
        Ok(Tree {
            files,
            names,
            machine_places: machine_places(root),
        })
    }

    /// A tree from `(path, text)` pairs, for tests of the checks.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let names = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        let mut files: Vec<_> = files
            .iter()
            .map(|(path, text)| TextFile {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            })
            .collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Tree {
            files,
            names,
            machine_places: Vec::new(),
        }
    }

    /// Every file that is text, sorted by path.
    pub(super) fn files(&self) -> &[TextFile] {
        &self.files
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        let at = self
            .files
            .binary_search_by(|file| file.path.as_str().cmp(path))
            .ok()?;
        Some(&self.files[at].text)
    }

    /// Whether `path` is a file of the tree, or a folder that holds one.
    pub(super) fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.names.contains(path)
            || self
                .names
                .range(folder.clone()..)
                .next()
                .is_some_and(|n| n.starts_with(&folder))
    }

    /// Paths of this machine: the checkout and the user's home.
    pub(super) fn machine_places(&self) -> &[String] {
        &self.machine_places
    }
}

/// Tracked files, and files that are neither tracked nor ignored; `None` if git cannot list them.
fn listed_by_git(root: &Path) -> Option<BTreeSet<String>> {
    let listing = Command::new("git")
        // Listing is allowed even if another user owns the checkout (containers).
        .args(["-c", "safe.directory=*", "-C"])
        .arg(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .ok()?;
    if !listing.status.success() {
        return None;
    }
    let listing = String::from_utf8(listing.stdout).ok()?;
    let is_there = |name: &&str| !name.is_empty() && root.join(name).is_file();
    Some(
        listing
            .split('\0')
            .filter(is_there)
            .map(str::to_owned)
            .collect(),
    )
}

fn walked(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let place = root.join(&folder);
        let listing = place
            .read_dir()
            .map_err(|e| format!("{}: {e}", place.display()))?;
        for entry in listing.flatten() {
            let name = entry.file_name();
            let path = folder.join(&name);
            if entry.path().is_dir() {
                if !BUILD_FOLDERS.iter().any(|skipped| name == *skipped) {
                    folders.push(path);
                }
            } else if let Some(path) = path.to_str() {
                names.insert(path.replace('\\', "/"));
            }
        }
    }
    Ok(names)
}

/// The paths of the checkout and of the home folder, unless every machine has them.
fn machine_places(root: &Path) -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let root = root.canonicalize().ok();
    let is_telling = |path: &PathBuf| path.components().count() > 2;
    let as_prefix = |path: PathBuf| {
        path.to_str()
            .map(|p| format!("{}/", p.trim_end_matches('/')))
    };
    [root, home]
        .into_iter()
        .flatten()
        .filter(is_telling)
        .filter_map(as_prefix)
        .collect()
}

/// `path` relative to `folder`, with `.` and `..` resolved.
pub(super) fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_files_are_left_out_and_new_ones_are_read() {
        let root = crate::repository_root().unwrap();
        let tree = Tree::read(&root).unwrap();
        assert!(
            tree.text("xtask/src/tidy/tree.rs")
                .is_some_and(|text| text.contains("fn walked"))
        );
        assert!(
            tree.files()
                .iter()
                .all(|file| !file.path.starts_with("target/"))
        );
        assert!(tree.files().is_sorted_by(|a, b| a.path < b.path));
    }

    #[test]
    fn without_git_the_walk_finds_the_sources_and_leaves_builds_out() {
        let root = crate::repository_root().unwrap();
        let names = walked(&root).unwrap();
        assert!(names.contains("xtask/src/tidy/tree.rs"));
        assert!(names.iter().all(|name| !name.starts_with("target/")));
    }

    #[test]
    fn a_folder_is_held_if_a_file_in_it_is() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs-old/b.md", "")]);
        assert!(tree.holds("docs") && tree.holds("docs/a.md") && tree.holds(""));
        assert!(!tree.holds("doc") && !tree.holds("docs/b.md"));
    }
}
