//! The request of a verb on tables.
//!
//! Contract: as in [`super`].

use std::path::{Path, PathBuf};

use outcore::Result;
use outcore_front::resources::Resources;
use outcore_front::what::Asked;
use outcore_table::input::TextOptions;

use super::inputs::{NoTable, tables_of};
use super::text;
use crate::host::Host;
use crate::option::tables::{TableArgs, TableFileArgs};
use crate::option::{FileArgs, RecordingArgs, SEED};

/// The options that all of these verbs share.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The tables.
    pub inputs: &'a [PathBuf],
    /// The destination of the result; nothing for standard output.
    pub output: Option<&'a Path>,
    /// How tables are read and written.
    pub tables: &'a TableArgs,
    /// A file that exists may be replaced.
    pub force: bool,
    /// The output may take the place of an input.
    pub replace: bool,
    /// Whether the job keeps a journal, and continues a killed run.
    pub keeps_journal: bool,
    /// The destination of a trace.
    pub record_io: &'a RecordingArgs,
    /// Whether plans are shown, and later their outcome.
    pub is_explained: bool,
    /// How text is read.
    pub text: &'a TextOptions,
}

impl<'a> Request<'a> {
    /// This request with another output.
    pub fn to(self, output: &'a Path) -> Self {
        Request {
            output: Some(output),
            ..self
        }
    }

    /// The request of a verb for lines, records and tables.
    pub(crate) fn of_any(
        files: &'a FileArgs,
        tables: &'a TableArgs,
        record_io: &'a RecordingArgs,
        is_explained: bool,
        text: &'a TextOptions,
    ) -> Self {
        Request {
            inputs: &files.inputs,
            output: files.output.as_deref(),
            tables,
            force: files.force,
            replace: false,
            keeps_journal: false,
            record_io,
            is_explained,
            text,
        }
    }

    /// The request of a verb for tables alone.
    pub fn of(files: &'a TableFileArgs, text: &'a TextOptions) -> Self {
        Request {
            inputs: &files.inputs,
            output: Some(&files.output),
            tables: &files.tables,
            force: files.force,
            replace: false,
            keeps_journal: false,
            record_io: &files.job.record_io,
            is_explained: files.plan.explain,
            text,
        }
    }
}

/// The options for reading the files of a verb that takes only tables, and its resources.
pub(crate) struct Settled {
    /// How text is read.
    pub(crate) text: TextOptions,
    /// The resources of the job.
    pub(crate) resources: Resources,
}

impl Settled {
    /// The options and resources of `files`; fails with `no_table` if they are not tables.
    pub(crate) fn of(
        host: &dyn Host,
        files: &TableFileArgs,
        no_table: NoTable<'_>,
    ) -> Result<Self> {
        let flags = files.text.flags()?;
        let asked = Asked {
            inputs: &files.inputs,
            text: flags.kind(),
            is_table: true,
            piped: files.tables.piped(),
            ..Asked::default()
        };
        tables_of(host, asked, no_table)?;
        let text = text::options(&files.tables, &flags, &files.inputs)?;
        let request = files.job.request(SEED)?;
        let resources = host.load(&request)?;
        Ok(Settled { text, resources })
    }
}
