//! What a stage does with lines alone.
//!
//! Contract: CSV is looked at before it is sorted, merged or checked; a check names a file as the caller
//! knows it; lines without a step are copied as they are, if every file but the last ends its last line.

use outcore::algo::lines::{Disorder, check_lines};
use outcore::algo::sequence::Table;
use outcore::algo::sequence::write::produce;
use outcore::algo::sort::SortOutput;
use outcore::data::RecordFormat;
use outcore::data::expr::Schema;
use outcore::{Error, Result};
use outcore_formats::content::Recognition;
use outcore_formats::inputs::{self, Input};
use outcore_formats::spool::{Spool, unpack_packed};
use outcore_formats::text::compress::Compression;
use outcore_formats::text::csv_files::{CsvSort, SortedCsv};
use outcore_formats::text::output::Dress;

use super::super::consume;
use super::super::ending::{Ending, LinesHow};
use super::{Done, Stage};
use crate::run::Run;

impl Stage {
    /// The error with the name that the caller knows of a file that was unpacked.
    pub(super) fn explain(&self, error: Error) -> Error {
        inputs::explain(self.inputs.iter().map(|input| &input.source), error)
    }

    /// Unpacks what is compressed to scratch.
    pub(in crate::dataset) fn unpack_files(&mut self, run: &Run) -> Result<()> {
        let inputs = std::mem::take(&mut self.inputs);
        let (means, beside) = (&self.means, &self.beside);
        let job = run.job(means, Vec::new());
        let packed = (inputs, self.recognition);
        self.inputs = unpack_packed(&job, means, beside, packed, &mut self.spool)?;
        self.recognition = Recognition::ANYTHING;
        Ok(())
    }

    /// How an input is compressed, if it is to be unpacked.
    pub(in crate::dataset) fn packed(&self, input: &Input) -> Option<Compression> {
        self.recognition.packed(&input.source.name, input.content)
    }

    /// How the lines look that are written. CSV is looked at, and made ready.
    pub(in crate::dataset) fn dress(&mut self, run: &Run) -> Result<Dress> {
        let (ending, dress) = match self.ending.take() {
            Some(Ending::SortCsv(csv, how)) => {
                let found = self.settle_csv(&csv, run)?;
                let how = LinesHow {
                    options: found.options(how.options),
                    ..how
                };
                (Ending::SortLines(Box::new(found.order), how), found.dress)
            }
            Some(Ending::ShuffleCsv(csv, step)) => {
                let found = self.settle_csv(&csv, run)?;
                self.terminator = found.terminator();
                (Ending::Shuffle(step), found.dress)
            }
            other => {
                self.ending = other;
                return Ok(Dress::default());
            }
        };
        self.ending = Some(ending);
        Ok(dress)
    }

    fn settle_csv(&mut self, csv: &CsvSort, run: &Run) -> Result<SortedCsv> {
        self.unpack_files(run)?;
        let job = run.job(&self.means, Vec::new());
        let (means, beside) = (&self.means, &self.beside);
        let make = || Spool::beside(&job, means, beside);
        csv.settle_inputs(&job, &mut self.inputs, &mut self.spool, make)
    }

    /// The first line that is not in the order of the last step, a sort, if there is one; with the name
    /// that the caller knows its file by.
    pub(in crate::dataset) fn disorder(&mut self, run: &Run) -> Result<Option<Disorder>> {
        self.dress(run)?;
        let Some(Ending::SortLines(order, how)) = self.ending.take() else {
            return Err(Error::usage("check lines", "no order is asked about"));
        };
        self.unpack_files(run)?;
        let job = self.job(run)?;
        let found = check_lines(&job, &self.files(), order.as_ref(), how.options);
        let found = found.map_err(|error| self.explain(error))?;
        Ok(found.map(|disorder| {
            let sources = self.inputs.iter().map(|input| &input.source);
            let source = sources
                .into_iter()
                .find(|source| source.path == disorder.path);
            Disorder {
                path: source.map_or(disorder.path, |source| source.name.clone()),
                ..disorder
            }
        }))
    }

    /// Lines one after another, as `cat` has them.
    pub(super) fn copy_lines(
        &mut self,
        output: &SortOutput,
        replace: bool,
        run: &Run,
    ) -> Result<Done> {
        self.unpack_files(run)?;
        let job = self.job(run)?;
        let joined = self.inputs.len().saturating_sub(1);
        for input in &self.inputs[..joined] {
            if !consume::ends_its_last_line(&job, &input.source.path, self.terminator)? {
                return Err(Error::usage("copy lines", "its last line has no end")
                    .path(&input.source.name)
                    .hint("end it, or sort or shuffle the lines, which ends it in the output"));
            }
        }
        let mut lines = consume::count_ends(&self.job(run)?, &self.files(), self.terminator)?;
        if let Some(last) = self.inputs.last() {
            lines += u64::from(!consume::ends_its_last_line(
                &job,
                &last.source.path,
                self.terminator,
            )?);
        }
        let bytes = RecordFormat::parse_type("u8")?;
        let table = Table::read(&self.files(), &bytes, Schema::of_format(&bytes));
        let done = produce(&self.job(run)?, &table, output, replace)?;
        Ok(Done {
            records: lines,
            ..done.into()
        })
    }
}
