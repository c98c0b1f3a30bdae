//! Lines of files for Rust programs: `ctx.lines("log").sort_by(field(2).numeric())`.
//!
//! Contract: a [`Lines`] is a lazy [`Dataset`] of lines with its context. An unterminated last line
//! counts as a line, and steps terminate it.
//!
//! ```
//! use outcore::dataset::{Context, field};
//!
//! # fn main() -> outcore::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| outcore::Error::io("make a directory", &e))?;
//! # let here = |name: &str| dir.path().join(name);
//! # let failed = |error: std::io::Error| outcore::Error::io("write", &error);
//! # std::fs::write(here("log"), "a 10\nb 9\nc 100\n").map_err(failed)?;
//! let ctx = Context::builder().memory("64MiB").threads(2).build()?;
//! ctx.lines(here("log"))?.sort_by(field(2).numeric()).write(here("sorted"))?;
//! # let sorted = std::fs::read_to_string(here("sorted")).unwrap_or_default();
//! assert_eq!(sorted, "b 9\na 10\nc 100\n");
//! # Ok(())
//! # }
//! ```

use std::path::Path;
use std::sync::Arc;

use super::Dataset;
use super::context::Context;
use super::execution::{Execution, Mode};
use super::field::Fields;
use super::lines::{PlainLines, count_lines};
use super::step::Step;
use super::stream::stream;
use crate::ends::{Input, Output};
use crate::key::sort_key::{ByteOrder, SharedKey};
use crate::primitives::Summary;
use crate::sort::lines::LineSortOptions;
use outcore_io::Result;
use outcore_io::output::parent_of;

const TERMINATOR: u8 = b'\n';

/// Lines, and the steps on them; see the module.
#[must_use = "nothing is read before a consumer asks"]
pub struct Lines {
    context: Context,
    dataset: Dataset,
}

impl Lines {
    pub(super) fn new(context: &Context, inputs: Vec<Input>) -> Self {
        Lines {
            context: context.clone(),
            dataset: Dataset::lines(PlainLines(inputs), TERMINATOR),
        }
    }

    fn then(self, step: Step) -> Self {
        Lines {
            context: self.context,
            dataset: self.dataset.then(step),
        }
    }

    /// Sorts by bytes.
    pub fn sort(self) -> Self {
        self.sort_with(Arc::new(ByteOrder), LineSortOptions::default())
    }

    /// Sorts by fields; see [`field`](super::field()).
    pub fn sort_by(self, fields: impl Into<Fields>) -> Self {
        self.sort_with(Arc::new(fields.into()), LineSortOptions::default())
    }

    /// Sorts in any order, with options: one line per key, counts, lines without a key.
    pub fn sort_with(self, order: SharedKey, options: LineSortOptions) -> Self {
        self.then(Step::SortLines {
            order,
            options,
            merges: false,
        })
    }

    /// Merges the lines of files that are each in this order already.
    pub fn merge_by(self, fields: impl Into<Fields>) -> Self {
        self.then(Step::SortLines {
            order: Arc::new(fields.into()),
            options: LineSortOptions::default(),
            merges: true,
        })
    }

    /// Each distinct line once, in the order of the bytes.
    pub fn unique(self) -> Self {
        self.then(Step::Unique)
    }

    /// Each distinct line once, preceded by its count, in the order of the bytes.
    pub fn count_each(self) -> Self {
        self.then(Step::Count { counted: None })
    }

    /// A random order that depends only on `seed`.
    pub fn shuffle(self, seed: u64) -> Self {
        self.then(Step::Shuffle { seed, epoch: 0 })
    }

    fn execute(self, mode: Mode) -> Execution {
        self.dataset.execute(Arc::new(self.context), mode)
    }

    /// The passes that a consumer would make.
    ///
    /// # Errors
    /// Steps that cannot follow one another; the errors of reading a sample.
    pub fn explain(self) -> Result<String> {
        self.execute(Mode::Plans).explain("consume")
    }

    /// Number of lines.
    ///
    /// # Errors
    /// The errors of the passes.
    pub fn count(self) -> Result<u64> {
        let mut execution = self.execute(Mode::Run);
        execution.take_all_steps()?;
        count_lines(&execution.job()?, &execution.files(), TERMINATOR)
    }

    /// Writes all lines to a file that must not exist.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for an existing file; the errors of the passes. No output remains
    /// then.
    pub fn write(self, path: impl AsRef<Path>) -> Result<Summary> {
        self.write_file(path.as_ref(), false)
    }

    /// Writes all lines to a file, replacing an existing one.
    ///
    /// # Errors
    /// The errors of the passes; the file is then unchanged.
    pub fn write_over(self, path: impl AsRef<Path>) -> Result<Summary> {
        self.write_file(path.as_ref(), true)
    }

    fn write_file(self, path: &Path, replace: bool) -> Result<Summary> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let mut execution = self.execute(Mode::Run);
        execution.set_beside(parent_of(&path).to_path_buf());
        execution.take_steps()?;
        execution.write(Output::File { path, header: None }, replace)
    }

    /// Calls `each` with every line, without its terminator, in order, while the last step produces
    /// them; there is no file in between.
    ///
    /// # Errors
    /// The errors of `each` and of the passes.
    pub fn for_each(self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<Summary> {
        let mut execution = self.execute(Mode::Run);
        execution.take_steps()?;
        let job = execution.job()?;
        let mut front: Vec<u8> = Vec::new();
        let done = stream(
            &job,
            move |output| execution.write(output, false),
            |mut bytes| {
                while let Some(end) = bytes.iter().position(|byte| *byte == TERMINATOR) {
                    let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
                    match front.is_empty() {
                        true => each(line)?,
                        false => {
                            front.extend_from_slice(line);
                            each(&front)?;
                            front.clear();
                        }
                    }
                    bytes = rest;
                }
                front.extend_from_slice(bytes);
                Ok(())
            },
        )?;
        // The last line of a file that is read unchanged.
        match front.is_empty() {
            true => {}
            false => each(&front)?,
        }
        Ok(done)
    }
}
