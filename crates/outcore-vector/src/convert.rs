//! Converts vectors from one format to another.
//!
//! Contract: one pass of the engine's writer. Each row is written at its place, with the same
//! numbers, or the nearest that the new type has. A NaN, or a number outside the range of the new
//! type, is an error that reports its row. The output is absent or whole.
//!
//! Bounds: one read and one write; memory is the engine's window of pieces and one row per thread.

use std::path::Path;
use std::sync::Arc;

use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::producer::{Emit, Maker, Produced, Producer};
use outcore::primitives::write::produce;
use outcore::primitives::{Batch, Summary};
use outcore::{Error, Job, MakeHeader, Output, Result};

use crate::format::{Element, VectorFile, source_of};
use crate::scan::show_copy;

/// Writes the vectors of `from` to `path`. The extension determines the format; other extensions
/// give raw numbers. The number type is that of the extension, or else `element`, or else that of
/// `from`.
///
/// # Errors
/// Usage: NaN, a number outside the range of the new type, an extension that `element` does not
/// fit, an existing output that may not be replaced. Errors of reading and writing.
pub fn convert(
    job: &Job,
    from: &VectorFile,
    path: &Path,
    replace: bool,
    element: Option<Element>,
) -> Result<(VectorFile, Summary)> {
    let told = VectorFile::element_of_name(path);
    let element = element.or(told).unwrap_or(from.element);
    let to = VectorFile::to_write(path, element, from.dimension, from.rows)?;
    let header = to.header();
    let header: Option<MakeHeader> = match header.is_empty() {
        true => None,
        false => Some(Arc::new(move |_| header.clone())),
    };
    let output = Output::File {
        path: path.to_path_buf(),
        header,
    };
    let rows = Converted { from, to: &to };
    show_copy(
        job,
        "read -> convert -> write",
        from,
        to.header_bytes + to.data_bytes(),
    );
    let summary = produce(job, &rows, &output, replace)?;
    Ok((to, summary))
}

/// Converts the rows of one file to those of another.
struct Converted<'f> {
    from: &'f VectorFile,
    to: &'f VectorFile,
}

impl Converted<'_> {
    fn refused(&self, row: u64, value: f64) -> Error {
        let cause = match value.is_finite() {
            true => format!(
                "row {row} has {}, which is outside the range of {}",
                match value.abs() < 1e16 {
                    true => value.to_string(),
                    false => format!("{value:e}"),
                },
                self.to.element.name()
            ),
            false => format!("row {row} has {value}"),
        };
        Error::usage("convert vectors", cause)
            .path(&self.from.path)
            .hint("choose a wider kind of number, or remove such vectors")
    }
}

impl Converted<'_> {
    fn make(&self, wide: &mut [f64], batch: Batch<'_>, out: &mut Emit<'_>) -> Result<Produced> {
        let item_bytes = self.item_bytes();
        if !out.reserve(batch.count * item_bytes)? {
            return Ok(Produced::Overflow);
        }
        let lead = self.to.lead();
        let rows = batch.bytes(0).chunks_exact(self.from.row_bytes());
        let places = out.free()[..batch.count * item_bytes].chunks_exact_mut(item_bytes);
        for (row, (bytes, place)) in (batch.first..).zip(rows.zip(places)) {
            let numbers = self.from.numbers(row, bytes)?;
            let (before, place) = place.split_at_mut(lead.len());
            before.copy_from_slice(&lead);
            self.from.element.decode_f64(numbers, wide);
            let places = place.chunks_exact_mut(self.to.element.bytes());
            for (value, place) in wide.iter().zip(places) {
                if !value.is_finite() || !self.to.element.encode(*value, place) {
                    return Err(self.refused(row, *value));
                }
            }
        }
        out.filled(batch.count * item_bytes);
        Ok(Produced::All)
    }
}

impl Producer for Converted<'_> {
    fn sources(&self) -> Vec<Source> {
        vec![source_of(self.from)]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        self.to.row_bytes()
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        let mut space = vec![0.0; self.from.dimension];
        Box::new(move |batch, out| self.make(&mut space, batch, out))
    }

    fn space_bytes(&self) -> usize {
        self.from.dimension * size_of::<f64>()
    }

    fn steps(&self) -> String {
        "read -> convert".to_string()
    }
}
