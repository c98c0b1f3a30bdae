//! The journals of jobs on tables that can be resumed.
//!
//! Contract: two runs are of the same job if they have the same files, the same order, and the same
//! columns and form of the output. A job that continues a killed run has the threads and the memory
//! of that run ([`RowJournal::job`]), so the caller divides the memory after [`begin`].

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use outcore::Job;
use outcore::sort::lines::{Claimed, RowJournal, RowOption};
use outcore_io::output::parent_of;
use outcore_io::{Error, Result};

use super::{TableEnds, TableSummary};
use crate::input::TableInput;
use crate::output::{OutputOptions, StagedFile};

/// An option of a job, with its name in words.
pub(super) fn option(name: &'static str, value: impl ToString) -> RowOption {
    RowOption {
        name,
        value: value.to_string(),
    }
}

/// Finds the killed run of a job of this kind with these options, if the job keeps a journal.
/// `kind` is the kind in words.
///
/// # Errors
/// Usage: the output is not one file; another run holds the journal. Memory.
pub(super) fn begin(
    job: &Job,
    ends: &TableEnds<'_>,
    kind: &str,
    mut options: Vec<RowOption>,
) -> Result<Option<RowJournal>> {
    if job.options.resume.is_none() {
        return Ok(None);
    }
    let writes = ends.writes;
    let ([output], None, None) = (ends.outputs, &writes.stream, &writes.directory) else {
        let cause = "only a job that writes one file can be resumed";
        return Err(Error::usage("resume", cause).hint("write one file"));
    };
    let reads = ends.reads;
    options.push(option("choice of columns", format!("{:?}", reads.columns)));
    options.push(option("rule for other columns", reads.is_union));
    if let Some(text) = &reads.text {
        let form = (text.kind, text.separator, text.is_without_header);
        let values = (&text.schema, &text.nulls, text.on_bad);
        options.push(option("form of text", format!("{form:?} {values:?}")));
    }
    let form = (writes.format, writes.codec, writes.group_rows_max);
    let filters = &writes.bloom_filters;
    options.push(option("form of output", format!("{form:?} {filters:?}")));
    RowJournal::begin(job, output, &scratch_dir(ends.outputs), kind, options)
}

/// The scratch directory for jobs without scratch drives: next to the output, and outside of a
/// directory that the output creates.
pub(super) fn scratch_dir(outputs: &[PathBuf]) -> PathBuf {
    let mut dir = outputs
        .first()
        .map_or(Path::new("."), |path| parent_of(path));
    while !dir.exists() && parent_of(dir) != dir {
        dir = parent_of(dir);
    }
    dir.to_path_buf()
}

/// The job, with the memory and the threads of the killed run.
pub(super) fn job(job: &Job, journal: Option<&RowJournal>) -> Job {
    journal.map_or_else(|| job.clone(), |journal| journal.job(job))
}

/// The staged output of a job on `inputs`, if the job keeps a journal. If the killed run had
/// already put its output in place, returns that run's numbers of rows instead.
///
/// # Errors
/// Usage: the killed run was another job.
pub(super) fn claim<'i>(
    job: &Job,
    inputs: impl IntoIterator<Item = &'i TableInput>,
    outputs: &[PathBuf],
    writes: &OutputOptions,
    journal: Option<&mut RowJournal>,
) -> Result<ControlFlow<TableSummary, Option<StagedFile>>> {
    let (Some(journal), [output]) = (journal, outputs) else {
        return Ok(ControlFlow::Continue(None));
    };
    let inputs = inputs.into_iter();
    let files: Vec<_> = inputs.flat_map(TableInput::open_files).collect();
    Ok(match journal.claim(job, &files, writes.is_replacing)? {
        Claimed::Finished { rows_in, rows_out } => ControlFlow::Break(TableSummary {
            rows_in,
            rows_out,
            ..TableSummary::default()
        }),
        Claimed::Dir(dir) => {
            let file = StagedFile::stage(job, output, writes.is_replacing, dir, journal)?;
            ControlFlow::Continue(Some(file))
        }
    })
}
