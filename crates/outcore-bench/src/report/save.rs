//! Reports as files: the end of the name says in which form.
//!
//! Contract: [`Saver::new`] refuses before anything is measured what could not be written after it
//! (an unknown form, a file that exists, a directory that does not). A file appears whole, by a
//! rename of a neighbour of its name.

use std::io::Write;
use std::path::{Path, PathBuf};

use outcore::error::{Error, Result};

use super::Report;

const OPERATION: &str = "write report";

/// In which form a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Json,
    Csv,
    Text,
}

/// Where a report goes when it is done.
#[derive(Debug, Clone, Default)]
pub struct Saver {
    files: Vec<(PathBuf, Form)>,
    charts_dir: Option<PathBuf>,
}

impl Saver {
    /// Files, each in the form that its name ends with (`.html`, `.json`, `.csv`, `.txt`), and a
    /// directory for the charts as single SVG files, made where it is missing. Files that exist are replaced
    /// with `is_forced` only.
    ///
    /// # Errors
    /// Usage: a name that ends otherwise, a file that exists, no directory for it.
    pub fn new(files: &[PathBuf], charts_dir: Option<&Path>, is_forced: bool) -> Result<Self> {
        let mut saver = Saver {
            charts_dir: charts_dir.map(Path::to_path_buf),
            ..Saver::default()
        };
        for path in files {
            let end = path.extension().and_then(|end| end.to_str()).unwrap_or("");
            let form = match end {
                "html" | "htm" => Form::Html,
                "json" => Form::Json,
                "csv" => Form::Csv,
                "txt" => Form::Text,
                other => {
                    return Err(Error::usage(OPERATION, format!("unknown form `{other}`"))
                        .path(path)
                        .hint("the name ends in .html, .json, .csv or .txt"));
                }
            };
            check(path, is_forced)?;
            saver.files.push((path.clone(), form));
        }
        if let Some(dir) = &saver.charts_dir
            && !dir.is_dir()
        {
            check(dir, false)?;
        }
        Ok(saver)
    }

    /// Whether there is anything to write.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.charts_dir.is_none()
    }

    /// Writes all of them; gives their names.
    ///
    /// # Errors
    /// I/O, no space.
    pub fn write(&self, report: &Report) -> Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        for (path, form) in &self.files {
            let text = match form {
                Form::Html => report.to_html()?,
                Form::Json => format!("{:#}\n", report.to_json()),
                Form::Csv => report.to_csv(),
                Form::Text => report.to_text(),
            };
            put(path, &text)?;
            written.push(path.clone());
        }
        if let Some(dir) = &self.charts_dir {
            std::fs::create_dir_all(dir).map_err(|error| Error::io(OPERATION, &error).path(dir))?;
            for chart in report.charts() {
                let path = dir.join(format!("{}.svg", chart.id));
                put(&path, &chart.svg()?)?;
                written.push(path);
            }
        }
        Ok(written)
    }
}

fn check(path: &Path, is_forced: bool) -> Result<()> {
    if path.exists() && !is_forced {
        return Err(Error::usage(OPERATION, "it exists already")
            .path(path)
            .hint("allow overwriting with --force"));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    if dir.is_some_and(|dir| !dir.is_dir()) {
        return Err(Error::usage(OPERATION, "its directory does not exist")
            .path(path)
            .hint("make it first"));
    }
    Ok(())
}

fn put(path: &Path, text: &str) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(OPERATION, &error).path(path);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let staged = PathBuf::from(name);
    let done = std::fs::File::create(&staged)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| std::fs::rename(&staged, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&staged);
    }
    done.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn files_are_written_in_the_form_of_their_names_and_never_over_others_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let names = ["r.html", "r.json", "r.csv", "r.txt"].map(at);
        let saver = Saver::new(&names, Some(&at("charts")), false).unwrap();
        let written = saver.write(&sample()).unwrap();
        assert_eq!(written.len(), 5);
        let json = std::fs::read_to_string(at("r.json")).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        assert!(
            std::fs::read_to_string(at("charts/blocks.svg"))
                .unwrap()
                .contains("<style>")
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 5);
        assert!(Saver::new(&names, None, false).is_err());
        assert!(Saver::new(&names, None, true).is_ok());
        for (name, charts) in [
            ("r.pdf", None),
            ("no/r.html", None),
            ("n.csv", Some("no/charts")),
        ] {
            let charts = charts.map(Path::new);
            assert!(Saver::new(&[at(name)], charts, false).is_err(), "{name}");
        }
    }
}
