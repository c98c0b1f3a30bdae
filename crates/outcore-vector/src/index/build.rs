//! Builds the index of a base in one pass of the engine's writer.
//!
//! Contract: any thread writes a row's record at its place, so the index's bytes depend only on the
//! base. An infinite number or NaN is an error with its row. The index is absent or whole.
//!
//! Bounds: one read of the base and one write of the index; memory is the engine's window of pieces
//! and one row per thread.

use std::path::Path;
use std::sync::Arc;

use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::producer::{Emit, Maker, Produced, Producer};
use outcore::primitives::write::produce;
use outcore::primitives::{Batch, Summary};
use outcore::{Error, Job, MakeHeader, Output, Result};
use outcore_io::metadata::Owner;

use super::{BaseFacts, FORM, HEADER_BYTES, IndexFile, NAME, Noted, record};
use crate::format::{Element, VectorFile, refuse_vector_name, source_of};
use crate::scan::{show_copy, strange};

/// A new index.
#[derive(Debug)]
pub struct Built {
    /// The I/O of the job.
    pub summary: Summary,
    /// Bytes of the index.
    pub index_bytes: u64,
}

/// Writes the index of `base` to `path`.
///
/// # Errors
/// Usage: a base for which an index would not be smaller, an infinite number or NaN, an existing
/// output that may not be replaced. Errors of reading and writing.
pub fn build(job: &Job, base: &VectorFile, path: &Path, replace: bool) -> Result<Built> {
    check(base)?;
    refuse_vector_name(path)?;
    let facts = BaseFacts::of(job, base)?;
    let noted = Noted {
        base: facts.clone(),
        lists: None,
    };
    let mut header = FORM.seal(Owner::of(NAME), &noted)?;
    header.resize(HEADER_BYTES, 0);
    let make: MakeHeader = Arc::new(move |_| header.clone());
    let output = Output::File {
        path: path.to_path_buf(),
        header: Some(make),
    };
    let index = IndexFile::of(path, base, facts);
    let records = index.records();
    show_copy(
        job,
        "read -> codes of a byte -> write",
        base,
        records.header_bytes + records.data_bytes(),
    );
    let summary = produce(
        job,
        &Records {
            base,
            index: &index,
        },
        &output,
        replace,
    )?;
    index
        .check_base(job)
        .inspect_err(|_| drop(job.device.remove(path)))?;
    let records = index.records();
    Ok(Built {
        summary,
        index_bytes: records.header_bytes + records.data_bytes(),
    })
}

/// Fails if an index of such vectors is useless.
fn check(base: &VectorFile) -> Result<()> {
    let (cause, hint) = match base.element {
        Element::F32 | Element::F64 | Element::F16 => return Ok(()),
        Element::I8 | Element::U8 => (
            "an index without lists would not be smaller than the file itself",
            "search the file without an index, or make an index with lists: --nlist",
        ),
        Element::I32 | Element::I64 => (
            "it holds ids, not vectors",
            "convert it to f32 with `outcore vector convert`",
        ),
    };
    let cause = format!("it holds {}: {cause}", base.type_name());
    Err(Error::usage("index vectors", cause)
        .path(&base.path)
        .hint(hint))
}

/// The records of all rows.
struct Records<'b> {
    base: &'b VectorFile,
    index: &'b IndexFile,
}

impl Records<'_> {
    fn make(&self, wide: &mut [f64], batch: Batch<'_>, out: &mut Emit<'_>) -> Result<Produced> {
        let item_bytes = self.item_bytes();
        if !out.reserve(batch.count * item_bytes)? {
            return Ok(Produced::Overflow);
        }
        let rows = batch.bytes(0).chunks_exact(self.base.row_bytes());
        let places = out.free()[..batch.count * item_bytes].chunks_exact_mut(item_bytes);
        for (row, (bytes, place)) in (batch.first..).zip(rows.zip(places)) {
            let numbers = self.base.numbers(row, bytes)?;
            if let Some(column) = record::encode(self.base.element, numbers, wide, place) {
                return Err(strange(self.base, row, column, wide[column]));
            }
            record::seal(place, self.index.facts.fingerprint, row);
        }
        out.filled(batch.count * item_bytes);
        Ok(Produced::All)
    }
}

impl Producer for Records<'_> {
    fn sources(&self) -> Vec<Source> {
        vec![source_of(self.base)]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        self.index.records().row_bytes()
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        let mut space = vec![0.0; self.base.dimension];
        Box::new(move |batch, out| self.make(&mut space, batch, out))
    }

    fn space_bytes(&self) -> usize {
        self.base.dimension * size_of::<f64>()
    }

    fn steps(&self) -> String {
        "read -> index".to_string()
    }
}
