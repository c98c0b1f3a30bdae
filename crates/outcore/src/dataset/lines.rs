//! The input of a dataset of lines, and consumers only for lines.
//!
//! Contract: a [`LineSource`] represents the files as a front end knows them. Compressed files are
//! unpacked if a step reads them more than once. Lines without a step are copied unchanged, if
//! every file except for the last one ends with a terminator. Checks report a file by the name that
//! the caller knows.

use std::path::{Path, PathBuf};

use super::execution::Execution;
use super::step::Step;
use super::{Items, Mode};
use crate::ends::{Input, Output};
use crate::job::Job;
use crate::key::RecordFormat;
use crate::key::expr::Schema;
use crate::primitives::Summary;
use crate::primitives::sources::data_bytes_of;
use crate::primitives::write::produce;
use crate::primitives::{Table, fold, gather, read};
use crate::sort::lines::{Disorder, check_lines};
use outcore_io::{Error, Result};

/// Files of lines.
pub trait LineSource: Send {
    /// The current files.
    fn files(&self) -> Vec<Input>;

    /// Whether some must be unpacked before a step can read them.
    fn is_packed(&self) -> bool {
        false
    }

    /// Unpacks compressed files to the scratch for a result in the directory `beside`.
    ///
    /// # Errors
    /// The errors of reading and writing.
    fn unpack(&mut self, _job: &Job, _beside: &Path) -> Result<()> {
        Ok(())
    }

    /// Bytes of scratch that unpacked files take.
    fn scratch_bytes(&self) -> u64 {
        0
    }

    /// Replaces the files with the output of an earlier pass.
    ///
    /// # Errors
    /// Files that cannot be examined.
    fn replace(&mut self, files: &[PathBuf]) -> Result<()>;

    /// The user's name for a file.
    fn name_of(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// Plain files.
#[derive(Debug, Clone)]
pub(crate) struct PlainLines(pub Vec<Input>);

impl LineSource for PlainLines {
    fn files(&self) -> Vec<Input> {
        self.0.clone()
    }

    fn replace(&mut self, files: &[PathBuf]) -> Result<()> {
        self.0 = files.iter().map(Input::raw).collect();
        Ok(())
    }
}

impl Execution {
    /// Unpacks compressed files to scratch.
    ///
    /// # Errors
    /// The errors of reading and writing.
    pub fn unpack_files(&mut self) -> Result<()> {
        let (job, beside) = (self.job()?, self.beside().to_path_buf());
        match &mut self.items {
            Items::Lines { source, .. } => source.unpack(&job, &beside),
            Items::Records(_) => Ok(()),
        }
    }

    /// The error with the caller's name for an unpacked file.
    pub(super) fn explain_error(&self, error: Error) -> Error {
        let Items::Lines { source, .. } = &self.items else {
            return error;
        };
        match error.file_path().map(|path| (path, source.name_of(path))) {
            Some((path, name)) if path != name => error.path(name),
            _ => error,
        }
    }

    /// Prepares a last step that depends on the contents of the files.
    ///
    /// # Errors
    /// The errors of examining them.
    pub fn settle_late(&mut self) -> Result<()> {
        let late = match self.ending.take() {
            Some(Step::Late(late)) if self.mode == Mode::Run => late,
            other => {
                self.ending = other;
                return Ok(());
            }
        };
        self.unpack_files()?;
        let settled = late.settle(&self.job()?)?;
        if let Items::Lines { terminator, .. } = &mut self.items {
            *terminator = settled.terminator;
        }
        self.ending = Some(settled.step);
        Ok(())
    }

    /// The first line that is out of order, if there is one. The last step, a sort, gives the
    /// order.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] if the last step is not a sort of lines; the errors of reading.
    pub fn disorder(&mut self) -> Result<Option<Disorder>> {
        self.take_steps()?;
        self.settle_late()?;
        let Some(Step::SortLines { order, options, .. }) = self.ending.take() else {
            return Err(Error::usage("check lines", "no order to check is given"));
        };
        self.unpack_files()?;
        let found = check_lines(&self.job()?, &self.files(), order.as_ref(), options);
        let found = found.map_err(|error| self.explain_error(error))?;
        Ok(found.map(|disorder| Disorder {
            path: match &self.items {
                Items::Lines { source, .. } => source.name_of(&disorder.path),
                Items::Records(_) => disorder.path,
            },
            ..disorder
        }))
    }

    /// Copies the lines one after another, as `cat` does.
    pub(super) fn copy_lines(&mut self, output: &Output, replace: bool) -> Result<Summary> {
        self.unpack_files()?;
        let Items::Lines { source, terminator } = &self.items else {
            return Err(Error::usage(
                "copy lines",
                "the dataset has records, not lines",
            ));
        };
        let (files, job) = (source.files(), self.job()?);
        let mut lines = count_ends(&job, &files, *terminator)?;
        for (number, file) in files.iter().enumerate() {
            let is_ended = ends_its_last_line(&job, file, *terminator)?;
            if !is_ended && number + 1 < files.len() {
                return Err(
                    Error::usage("copy lines", "its last line has no terminator")
                        .path(source.name_of(&file.path))
                        .hint(
                            "terminate it, or sort or shuffle the lines: the output then has the \
                             terminator",
                        ),
                );
            }
            lines += u64::from(!is_ended);
        }
        let bytes = RecordFormat::parse_type("u8")?;
        let table = Table::read(&files, &bytes, Schema::of_format(&bytes));
        let done = produce(&self.job()?, &table, output, replace)?;
        Ok(Summary {
            records: lines,
            ..done
        })
    }
}

/// Number of lines in files; an unterminated last line counts.
///
/// # Errors
/// The errors of reading.
pub fn count_lines(job: &Job, files: &[Input], terminator: u8) -> Result<u64> {
    let mut lines = count_ends(job, files, terminator)?;
    for file in files {
        lines += u64::from(!ends_its_last_line(job, file, terminator)?);
    }
    Ok(lines)
}

fn count_ends(job: &Job, files: &[Input], terminator: u8) -> Result<u64> {
    let step = |count, byte| count + u64::from(byte == terminator);
    fold(job, &read::<u8>(files), 0, step, |a, b| a + b)
}

/// Whether a file is empty or its last byte ends a line.
fn ends_its_last_line(job: &Job, file: &Input, terminator: u8) -> Result<bool> {
    let file = std::slice::from_ref(file);
    match data_bytes_of(job, file, 1)?.checked_sub(1) {
        None => Ok(true),
        Some(last) => Ok(gather(job, file, 1, &[last])?.0 == [terminator]),
    }
}
