//! Writes reports to files; the extension of the name selects the format.
//!
//! Contract: [`Saver::new`] rejects files that could not be written before anything is measured (an
//! unknown format, an existing file or chart, a missing directory). A file appears only when it is
//! complete.

use std::path::{Path, PathBuf};

use outcore_io::drive::{NewFile, folder, paths};
use outcore_io::{Error, Result};

use super::Report;

const OPERATION: &str = "write report";

/// The format of a report file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Json,
    Csv,
    Text,
}

/// The files that a report is written to.
#[derive(Debug, Clone, Default)]
pub struct Saver {
    files: Vec<(NewFile, Form)>,
    charts_dir: Option<PathBuf>,
    is_forced: bool,
}

impl Saver {
    /// Prepares files, each in the format of its extension (`.html`, `.json`, `.csv`, `.txt`), and
    /// a directory for the charts as single SVG files. A missing directory is created. Existing
    /// files are replaced only with `is_forced`.
    ///
    /// # Errors
    /// Usage: an unknown extension, an existing file, a missing directory; I/O: the directory for
    /// charts cannot be created or read.
    pub fn new(files: &[PathBuf], charts_dir: Option<&Path>, is_forced: bool) -> Result<Self> {
        let mut saver = Saver {
            charts_dir: charts_dir.map(Path::to_path_buf),
            is_forced,
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
            let file = NewFile::at(OPERATION, path, is_forced)?;
            saver.files.push((file, form));
        }
        if let Some(dir) = charts_dir {
            check_charts(dir, is_forced)?;
        }
        Ok(saver)
    }

    /// Whether there is anything to write.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.charts_dir.is_none()
    }

    /// Writes all of them. Returns their names.
    ///
    /// # Errors
    /// I/O, no space.
    pub fn write(&self, report: &Report) -> Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        for (file, form) in &self.files {
            let text = match form {
                Form::Html => report.to_html()?,
                Form::Json => format!("{:#}\n", report.to_json()),
                Form::Csv => report.to_csv(),
                Form::Text => report.to_text(),
            };
            file.write(text)?;
            written.push(file.path().to_path_buf());
        }
        if let Some(dir) = &self.charts_dir {
            for chart in report.charts() {
                let path = dir.join(format!("{}.svg", chart.id));
                NewFile::at(OPERATION, &path, self.is_forced)?.write(chart.svg()?)?;
                written.push(path);
            }
        }
        Ok(written)
    }
}

/// Creates the directory. Charts that exist there are not ours.
fn check_charts(dir: &Path, is_forced: bool) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(OPERATION, &error).path(dir);
    folder::make_dirs(dir)?;
    for entry in paths::entries(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|end| end == "svg") {
            NewFile::at(OPERATION, &path, is_forced)?;
        }
    }
    Ok(())
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
        let error = Saver::new(&[], Some(&at("charts")), false).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        let again = Saver::new(&names, Some(&at("charts")), true).unwrap();
        assert_eq!(again.write(&sample()).unwrap(), written);
        for (name, charts) in [
            ("r.pdf", None),
            ("no/r.html", None),
            ("n.csv", Some("r.txt/charts")),
        ] {
            let charts = charts.map(at);
            assert!(
                Saver::new(&[at(name)], charts.as_deref(), false).is_err(),
                "{name}"
            );
        }
    }
}
