//! What a dataset of lines reads, and what is asked of lines alone.
//!
//! Contract: a [`LineSource`] is the files as a front knows them. Files that are compressed are
//! unpacked when a step has to read them more than once. Lines without a step are copied as they
//! are, if every file but the last ends its last line; a check names a file as the caller knows it.

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
    /// As they are now.
    fn files(&self) -> Vec<Input>;

    /// Whether some have to be unpacked before a step can read them.
    fn is_packed(&self) -> bool {
        false
    }

    /// Unpacks what is compressed, to scratch for a result in `beside`.
    ///
    /// # Errors
    /// What reading and writing fail with.
    fn unpack(&mut self, _job: &Job, _beside: &Path) -> Result<()> {
        Ok(())
    }

    /// Bytes of scratch that unpacked files take.
    fn scratch_bytes(&self) -> u64 {
        0
    }

    /// What an earlier pass wrote takes the place of the files.
    ///
    /// # Errors
    /// Files that cannot be looked at.
    fn replace(&mut self, files: &[PathBuf]) -> Result<()>;

    /// What the user calls a file.
    fn name_of(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// Files that are what they are.
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
    /// Unpacks what is compressed to scratch.
    ///
    /// # Errors
    /// What reading and writing fail with.
    pub fn unpack_files(&mut self) -> Result<()> {
        let (job, beside) = (self.job()?, self.beside().to_path_buf());
        match &mut self.items {
            Items::Lines { source, .. } => source.unpack(&job, &beside),
            Items::Records(_) => Ok(()),
        }
    }

    /// The error with the name that the caller knows of a file that was unpacked.
    pub(super) fn explain_error(&self, error: Error) -> Error {
        let Items::Lines { source, .. } = &self.items else {
            return error;
        };
        match error.file_path().map(|path| (path, source.name_of(path))) {
            Some((path, name)) if path != name => error.path(name),
            _ => error,
        }
    }

    /// Makes a last step ready that depends on what the files hold.
    ///
    /// # Errors
    /// What looking at them fails with.
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

    /// The first line that is not in the order of the last step, a sort, if there is one.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] where the last step is not a sort of lines; what reading fails with.
    pub fn disorder(&mut self) -> Result<Option<Disorder>> {
        self.take_steps()?;
        self.settle_late()?;
        let Some(Step::SortLines { order, options, .. }) = self.ending.take() else {
            return Err(Error::usage("check lines", "no order is asked about"));
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

    /// Lines one after another, as `cat` has them.
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
                return Err(Error::usage("copy lines", "its last line has no end")
                    .path(source.name_of(&file.path))
                    .hint("end it, or sort or shuffle the lines, which ends it in the output"));
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

/// Number of lines in files; a last one without an end counts.
///
/// # Errors
/// What reading fails with.
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
