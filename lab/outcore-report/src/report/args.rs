//! The options that say where a report is written.
//!
//! Contract: plain data; [`ReportArgs::saver`] rejects what could not be written.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore_io::Result;

use super::save::Saver;

/// Files for a report, in addition to the terminal.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// Write the report to FILE; the ending determines the format: .html (one file with its
    /// charts), .json, .csv or .txt. Repeat for more
    #[arg(short, long = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub outputs: Vec<PathBuf>,
    /// Write each chart as an SVG file into DIR
    #[arg(long = "charts", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub charts_dir: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
}

impl ReportArgs {
    /// Prepares the files.
    ///
    /// # Errors
    /// As [`Saver::new`].
    pub fn saver(&self) -> Result<Saver> {
        Saver::new(&self.outputs, self.charts_dir.as_deref(), self.force)
    }
}
