//! Tables that are read back before they get their names.
//!
//! Contract: a [`Tally`] sums the hashes of the rows of an input as they are read, before the
//! engine moves them. The output is written to a private directory next to its place
//! ([`Unchecked`]). It is then read back, and its number of rows, their checksum and their order
//! are compared ([`super::verify`]). Only if they agree, it gets its name. The checksum depends on
//! the values, so the output is Parquet or Arrow, which keep the types of the columns.
//!
//! Bounds: one more read of the output, in the memory of the job; a batch of rows per reader while
//! the input is read.

use std::path::PathBuf;

use arrow_schema::{DataType, SchemaRef, TimeUnit};
use outcore::Job;
use outcore_io::drive::PrivateDir;
use outcore_io::drive::link::file_behind;
use outcore_io::output::parent_of;
use outcore_io::{Error, Kind, Result, units};

use super::tally::{Tally, plain_schema};
use super::verify::{Codecs, TableCheck, check, is_alike};
use crate::equal::{has_part, value_notation};
use crate::input::{InputOptions, TableInput};
use crate::notation::notation;
use crate::output::{OutputOptions, TableFormat, refuse_existing};

/// The operation that errors name.
const VERIFY_OUTPUT: &str = "verify output";
/// The folder of the output in the private directory.
const FOLDER: &str = "tree";

/// An output that has no name yet.
pub(super) struct Unchecked {
    pub(super) tally: Tally,
    /// The file to write, and how.
    pub(super) outputs: Vec<PathBuf>,
    pub(super) writes: OutputOptions,
    /// The name of the output.
    to: PathBuf,
    is_replacing: bool,
    _dir: PrivateDir,
}

impl Unchecked {
    /// The place for the output of a job that copies the rows of `input`; `None` unless the job
    /// reads its output back.
    ///
    /// # Errors
    /// Usage: an output that is not one file of Parquet or Arrow, or exists; columns of types that
    /// it does not have. The system's error.
    pub(super) fn begin(
        job: &Job,
        input: &TableInput,
        outputs: &[PathBuf],
        writes: &OutputOptions,
    ) -> Result<Option<Self>> {
        if !job.options.verify_output {
            return Ok(None);
        }
        let ([output], None, None) = (outputs, &writes.stream, &writes.directory) else {
            return Err(refused("only an output that is one file can be verified"));
        };
        if !matches!(writes.format, TableFormat::Parquet | TableFormat::ArrowFile) {
            let cause = "of tables, only Parquet and Arrow files can be verified";
            return Err(refused(cause).path(output));
        }
        check_types(input.schema(), writes.format)?;
        refuse_existing(outputs, writes.is_replacing)?;
        let to = file_behind("create output", output)?;
        let parent = parent_of(&to);
        job.device.sweep_private_dirs(parent)?;
        let dir = job.device.make_private_dir(parent)?;
        dir.make_folder(FOLDER.as_ref())?;
        let place = dir.path().join(FOLDER);
        Ok(Some(Unchecked {
            tally: Tally::of(input.schema())?,
            outputs: vec![place.join(to.file_name().unwrap_or_default())],
            writes: writes.clone(),
            is_replacing: writes.is_replacing,
            to,
            _dir: dir,
        }))
    }

    /// Compares the written output with what was read, and gives it its name. Returns the bytes
    /// that were read for that.
    ///
    /// # Errors
    /// Corrupt: the output differs. The system's error.
    pub(super) fn publish(self, job: &Job) -> Result<u64> {
        let found = self.check(job).map_err(|error| self.as_difference(error))?;
        let seen = self.tally.seen();
        let difference = match (found.rows == seen.rows, found.first_unordered) {
            (false, _) => {
                let [is, was] = [found.rows, seen.rows].map(|rows| units::counted(rows, "row"));
                Some(format!("it differs: it has {is}, but {was} were read"))
            }
            (true, Some(row)) => Some(format!("it differs: row {row} belongs before the previous")),
            (true, None) if found.checksum != seen.checksum => {
                Some("it differs: the checksum of its rows is not that of the input".to_owned())
            }
            (true, None) => None,
        };
        match (difference, &self.outputs[..]) {
            (Some(cause), _) => Err(self.differs(cause)),
            (None, [output]) => {
                job.device.rename(output, &self.to, self.is_replacing)?;
                Ok(found.read_bytes)
            }
            (None, _) => Ok(found.read_bytes),
        }
    }

    /// Reads the output back.
    fn check(&self, job: &Job) -> Result<TableCheck> {
        // Only these columns: a directory such as `year=2024` above the file would add one.
        let names = self.tally.schema.fields().iter();
        let reads = InputOptions {
            columns: Some(names.map(|field| field.name().clone()).collect()),
            ..InputOptions::default()
        };
        let input = TableInput::open(job, &self.outputs, &reads)?;
        let schema = plain_schema(input.schema());
        let mut pairs = self.tally.schema.fields().iter().zip(schema.fields());
        if let Some((was, is)) = pairs.find(|(was, is)| !is_alike(was, is)) {
            let cause = format!(
                "column `{}` is {} in the input and {} in the output, so it cannot be verified",
                was.name(),
                value_notation(was.data_type()),
                value_notation(is.data_type())
            );
            return Err(refused(&cause));
        }
        let codecs = Codecs::of(&schema, &self.writes.sorted_by)?;
        check(job, &input, &codecs)
    }

    /// An output that cannot be read is not what was written.
    fn as_difference(&self, error: Error) -> Error {
        match error.kind() {
            Kind::Corrupt => self.differs(format!("it differs: {}", error.cause())),
            Kind::Usage if error.operation() != VERIFY_OUTPUT => {
                self.differs(format!("it differs: {}", error.cause()))
            }
            _ => error,
        }
    }

    fn differs(&self, cause: String) -> Error {
        Error::new(Kind::Corrupt, VERIFY_OUTPUT, cause)
            .path(&self.to)
            .hint("nothing was published; check the drive and the memory, then run it again")
    }
}

/// The error for an output that cannot be verified.
pub(super) fn refused(cause: &str) -> Error {
    Error::usage(VERIFY_OUTPUT, cause).hint("leave out the check of the output")
}

/// Fails for columns whose values Parquet stores in another type.
fn check_types(schema: &SchemaRef, format: TableFormat) -> Result<()> {
    let is_changed = |data_type: &DataType| {
        has_part(data_type, &|part| match part {
            DataType::Date64 => true,
            DataType::Time32(unit) | DataType::Timestamp(unit, _) => *unit == TimeUnit::Second,
            _ => false,
        })
    };
    let mut fields = schema.fields().iter();
    match fields.find(|field| format == TableFormat::Parquet && is_changed(field.data_type())) {
        None => Ok(()),
        Some(field) => {
            let (name, data_type) = (field.name(), notation(field.data_type()));
            let cause = format!("Parquet stores column `{name}`, {data_type}, in another type");
            Err(refused(&cause))
        }
    }
}
