//! Changes of drives files that keep everything else in them, including comments.
//!
//! Contract: a changed file replaces the old one as a whole, durably; a link to it stays a link. A
//! change is written only if the new text has the intended meaning; otherwise it is an error and
//! the file stays as it is.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::super::source::file_error;
use super::{DriveSet, DriveSpec, READ};
use crate::error::{Error, Result};

const CHANGE: &str = "change drives file";
/// The line that begins a drive's section of a drives file.
const HEADER: &str = "[[drive]]";

/// The byte ranges of the directories in the text of a drives file.
#[derive(Deserialize)]
struct DirSpans {
    #[serde(rename = "drive", default)]
    drives: Vec<DirSpan>,
}

#[derive(Deserialize)]
struct DirSpan {
    name: Option<String>,
    dir: toml::Spanned<String>,
}

impl DriveSet {
    /// The drives file `text` with another directory for the drive `name`; everything else,
    /// including comments, stays as it is.
    ///
    /// Errors (usage): there is no such drive; errors of [`DriveSet::parse`].
    pub(super) fn with_dir(text: &str, path: &Path, name: &str, dir: &Path) -> Result<String> {
        let set = Self::parse(text, path)?;
        let spans: DirSpans =
            toml::from_str(text).map_err(|error| file_error(READ, path, text, &error))?;
        let index = set.drives.iter().position(|drive| drive.name == name);
        let found = index.and_then(|index| spans.drives.get(index));
        let (Some(found), Some(dir)) = (found, dir.to_str()) else {
            let cause = format!(
                "`{}` cannot be the directory of drive `{name}`",
                dir.display()
            );
            return Err(Error::usage(CHANGE, cause).path(path));
        };
        // Without a name in the file, the drive would be named after its new directory.
        let named = match found.name {
            Some(_) => String::new(),
            None => format!("\nname = {}", toml::Value::from(name)),
        };
        let mut changed = text.to_owned();
        let value = format!("{}{named}", toml::Value::from(dir));
        changed.replace_range(found.dir.span(), &value);
        Self::parse(&changed, path)?;
        Ok(changed)
    }

    /// Sets the directory of the drive `name` to `dir` in the drives file at `path`. A drive that
    /// already has this directory stays unchanged.
    ///
    /// Errors: as [`DriveSet::read`] and [`DriveSet::with_dir`]; I/O if the file cannot be written.
    pub fn move_drive(path: &Path, name: &str, dir: &Path) -> Result<()> {
        let set = Self::read(path)?;
        let mut known = set.drives.iter().filter(|drive| drive.name == name);
        let is_there = |known: &Path| match (fs::canonicalize(known), fs::canonicalize(dir)) {
            (Ok(known), Ok(dir)) => known == dir,
            _ => false,
        };
        if known.any(|drive| is_there(&drive.dir)) {
            return Ok(());
        }
        Self::rewrite(path, |text| Self::with_dir(text, path, name, dir))
    }

    /// Appends a drive with its name and directory to the drives file at `path`, unless it has a
    /// drive of that name.
    ///
    /// Errors: as [`DriveSet::read`]; the directory is not UTF-8, or the file lists its drives in a
    /// form that cannot be extended; I/O if the file cannot be written.
    pub fn add_drive(path: &Path, drive: &DriveSpec) -> Result<()> {
        let set = Self::read(path)?;
        if set.drives.iter().any(|known| known.name == drive.name) {
            return Ok(());
        }
        let refused = |cause: String| {
            let line = format!("dir = \"{}\"", drive.dir.display());
            Error::usage(CHANGE, cause).path(path).hint(format!(
                "add the drive to the file yourself: `{HEADER}` with `{line}`"
            ))
        };
        let Some(dir) = drive.dir.to_str() else {
            return Err(refused(
                "the directory of the drive is not UTF-8".to_string(),
            ));
        };
        let (name, dir) = (toml::Value::from(&drive.name[..]), toml::Value::from(dir));
        Self::rewrite(path, |text| {
            let text = format!(
                "{}\n\n{HEADER}\nname = {name}\ndir = {dir}\n",
                text.trim_end()
            );
            match Self::parse(&text, path) {
                Ok(changed) if changed.drives.len() == set.drives.len() + 1 => Ok(text),
                Ok(_) => Err(refused("the drives file cannot be extended".to_string())),
                Err(error) => Err(refused(error.cause().to_string())),
            }
        })
    }

    /// Removes the drive `name` from the drives file at `path`, if the file lists it.
    ///
    /// Errors: as [`DriveSet::read`]; the file lists its drives in a form that cannot be changed;
    /// I/O if it cannot be written.
    pub fn remove_drive(path: &Path, name: &str) -> Result<()> {
        let set = Self::read(path)?;
        let Some(index) = set.drives.iter().position(|drive| drive.name == name) else {
            return Ok(());
        };
        let mut wanted = set;
        wanted.drives.remove(index);
        Self::rewrite(path, |text| {
            let text = without_part(text, index);
            match Self::parse(&text, path) {
                Ok(found) if found == wanted => Ok(text),
                _ => Err(
                    Error::usage(CHANGE, format!("drive `{name}` cannot be taken out"))
                        .path(path)
                        .hint("remove the drive from the file yourself"),
                ),
            }
        })
    }

    /// Replaces the file at `path` with the result of `change` on its text.
    fn rewrite(path: &Path, change: impl FnOnce(&str) -> Result<String>) -> Result<()> {
        let failed = |error: std::io::Error| Error::io(CHANGE, &error).path(path);
        // A link stays a link.
        let file = fs::canonicalize(path).map_err(failed)?;
        let text = change(&fs::read_to_string(&file).map_err(failed)?)?;
        let staged = file.with_extension("toml.new");
        let permissions = fs::metadata(&file).map_err(failed)?.permissions();
        fs::write(&staged, text).map_err(failed)?;
        fs::set_permissions(&staged, permissions).map_err(failed)?;
        let written = fs::File::open(&staged).and_then(|file| file.sync_all());
        written.map_err(failed)?;
        fs::rename(&staged, &file).map_err(failed)
    }
}

/// The text of a drives file without the section of the drive at `index`, which ends at the next
/// header.
fn without_part(text: &str, index: usize) -> String {
    let mut drives = 0;
    let mut is_left_out = false;
    let lines = text.split_inclusive('\n').filter(|line| {
        let line = line.trim_start();
        if line.starts_with('[') {
            is_left_out = line.starts_with(HEADER) && drives == index;
            drives += usize::from(line.starts_with(HEADER));
        }
        !is_left_out
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_added_and_removed_and_all_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("drives.toml");
        let text = "# ours\n[[drive]]\ndir = \"a\" # first\n\n[[group]]\nname = \"g\"\n\n\
                    [[drive]]\ndir = \"b\"\nweight = 2.0\n";
        fs::write(&path, text).unwrap();
        let new = DriveSpec::from_dir(dir.path().join("c"));
        DriveSet::add_drive(&path, &new).unwrap();
        DriveSet::add_drive(&path, &new).unwrap();
        let set = DriveSet::read(&path).unwrap();
        assert_eq!(set.drives.len(), 3);
        assert_eq!(set.drives[2].dir, dir.path().join("c"));
        DriveSet::remove_drive(&path, "b").unwrap();
        DriveSet::remove_drive(&path, "none").unwrap();
        let set = DriveSet::read(&path).unwrap();
        let names: Vec<&str> = set.drives.iter().map(|drive| &drive.name[..]).collect();
        assert_eq!(names, ["a", "c"]);
        let left = fs::read_to_string(&path).unwrap();
        assert!(left.contains("# ours") && left.contains("# first") && left.contains("[[group]]"));
    }

    #[test]
    fn a_file_of_another_form_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("drives.toml");
        let text = "drive = [{ dir = \"a\" }, { dir = \"b\" }]\n";
        fs::write(&path, text).unwrap();
        assert!(DriveSet::add_drive(&path, &DriveSpec::from_dir("c")).is_err());
        assert!(DriveSet::remove_drive(&path, "b").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}
