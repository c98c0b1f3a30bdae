//! What a command on tables is asked for.
//!
//! Contract: as the folder's.

use std::path::{Path, PathBuf};

use outcore_table::input::TextOptions;

use crate::cli::RecordingArgs;
use crate::cli::commands::FileArgs;
use crate::cli::sequence::InputArgs;
use crate::cli::tables::{TableArgs, TableFileArgs};

/// What all of these commands are asked for.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) inputs: &'a [PathBuf],
    pub(super) output: Option<&'a Path>,
    pub(super) tables: &'a TableArgs,
    pub(super) force: bool,
    /// The output may take the place of an input.
    pub(super) replace: bool,
    pub(super) record_io: &'a RecordingArgs,
    /// Plans are shown, and what became of them.
    pub(super) is_explained: bool,
    /// How text is read.
    pub(super) text: &'a TextOptions,
}

impl<'a> Request<'a> {
    /// The same with another output.
    pub(super) fn to(self, output: &'a Path) -> Self {
        Request {
            output: Some(output),
            ..self
        }
    }

    /// What a command for lines, records and tables is asked for.
    pub(super) fn of_files(
        files: &'a FileArgs,
        tables: &'a TableArgs,
        (record_io, is_explained): (&'a RecordingArgs, bool),
        text: &'a TextOptions,
    ) -> Self {
        Request {
            inputs: &files.inputs,
            output: files.output.as_deref(),
            tables,
            force: files.force,
            replace: false,
            record_io,
            is_explained,
            text,
        }
    }

    /// What a command for sequences of records and tables is asked for.
    pub(super) fn of_sequence(
        input: &'a InputArgs,
        output: Option<&'a Path>,
        tables: &'a TableArgs,
        text: &'a TextOptions,
    ) -> Self {
        Request {
            inputs: &input.inputs,
            output,
            tables,
            force: input.force,
            replace: false,
            record_io: &input.record_io,
            is_explained: input.explain,
            text,
        }
    }

    /// What a command for nothing but tables is asked for.
    pub(super) fn of(files: &'a TableFileArgs, text: &'a TextOptions) -> Self {
        Request {
            inputs: &files.inputs,
            output: Some(&files.output),
            tables: &files.tables,
            force: files.force,
            replace: false,
            record_io: &files.record_io,
            is_explained: files.plan.explain,
            text,
        }
    }
}
