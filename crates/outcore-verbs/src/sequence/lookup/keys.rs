//! The keys of a lookup, in files of their own.
//!
//! Contract: keys have the type of the records that are searched. In an array whose header names
//! its fields, it is enough if the same keys are in the same places. They are read as a whole, or
//! in groups if they do not fit in memory.

use std::path::Path;

use outcore::job::Job;
use outcore::key::{KeyField, RecordFormat};
use outcore::primitives::{collect, read};
use outcore::{Error, Input, Kind, Result};
use outcore_front::inputs::ResolvedInput;
use outcore_front::records::{self, TypeRequest};
use outcore_io::units;

/// Keys in files, one after another.
pub(super) struct Keys<'a> {
    path: &'a Path,
    inputs: &'a [ResolvedInput],
    key_bytes: usize,
    /// How many there are.
    pub(super) count: u64,
}

impl<'a> Keys<'a> {
    /// The keys in `inputs`, named `path`, for a search in records of `format`.
    ///
    /// # Errors
    /// Usage: records of another type.
    pub(super) fn of_records(
        path: &'a Path,
        inputs: &'a [ResolvedInput],
        format: &RecordFormat,
    ) -> Result<Self> {
        let request = TypeRequest {
            format: Some(format.clone()),
            ..TypeRequest::default()
        };
        let decided = match records::decide(&TypeRequest::default(), inputs) {
            // An array whose header names all fields, including the keys of the order.
            Ok(decided) if has_keys_of(&decided.format, format) => Ok(()),
            _ => records::decide(&request, inputs).map(drop),
        };
        decided.map_err(|error| match error.kind() {
            Kind::Usage => error.hint("give keys of the same type as the records"),
            _ => error,
        })?;
        let key_bytes = format.record_bytes();
        Ok(Keys {
            path,
            inputs,
            key_bytes,
            count: data_bytes(inputs) / key_bytes as u64,
        })
    }

    /// All keys. If the memory is too small, an error reports that.
    pub(super) fn read_all(&self, job: &Job) -> Result<Vec<u8>> {
        bytes_of(job, self.path, self.inputs)
    }

    /// `count` keys that start with key `first`.
    pub(super) fn read(&self, job: &Job, first: u64, count: u64) -> Result<Vec<u8>> {
        let key_bytes = self.key_bytes as u64;
        let (mut skip_bytes, mut left_bytes) = (first * key_bytes, count * key_bytes);
        let mut parts = Vec::new();
        for input in self.inputs {
            let here_bytes = input.data_bytes.saturating_sub(skip_bytes).min(left_bytes);
            if here_bytes > 0 {
                parts.push(Input {
                    path: input.source.path.clone(),
                    header_bytes: input.header_bytes + skip_bytes,
                    data_bytes: Some(here_bytes),
                });
            }
            skip_bytes = skip_bytes.saturating_sub(input.data_bytes);
            left_bytes -= here_bytes;
        }
        collect(job, &read::<u8>(&parts))
    }
}

fn data_bytes(inputs: &[ResolvedInput]) -> u64 {
    inputs.iter().map(|input| input.data_bytes).sum()
}

/// Whether records have the same keys as others, at the same places.
fn has_keys_of(records: &RecordFormat, others: &RecordFormat) -> bool {
    let is_same = |a: &KeyField, b: &KeyField| {
        (a.offset_bytes, a.len_bytes, a.kind) == (b.offset_bytes, b.len_bytes, b.kind)
    };
    records.record_bytes() == others.record_bytes()
        && others
            .keys()
            .iter()
            .all(|key| records.keys().iter().any(|own| is_same(own, key)))
}

/// All bytes of keys.
///
/// # Errors
/// Memory: the keys take more than half of it.
pub(super) fn bytes_of(job: &Job, path: &Path, inputs: &[ResolvedInput]) -> Result<Vec<u8>> {
    let data_bytes = data_bytes(inputs);
    if data_bytes > job.budget.free_bytes() / 2 {
        let cause = format!("the keys take {}", units::bytes(data_bytes));
        return Err(Error::new(Kind::Memory, "plan lookup", cause)
            .path(path)
            .hint("allow more with --memory, or look up in several runs"));
    }
    let files: Vec<Input> = inputs.iter().map(ResolvedInput::to_sort).collect();
    collect(job, &read::<u8>(&files))
}
