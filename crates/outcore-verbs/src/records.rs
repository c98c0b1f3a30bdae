//! The common part of verbs on records: opening inputs, and copying streams.
//!
//! Contract: [`outcore_front::records`] decides on the type of the records. Copies of streams are
//! removed when their spool is dropped.

use outcore::Result;
use outcore_front::inputs::{self, ResolvedInput, Source};
use outcore_front::output::Target;
use outcore_front::records::{self, TypeRequest};
use outcore_front::resources::Resources;
use outcore_front::spool::{self, Spool};

use crate::host::{Host, watch};

/// Opens the inputs: first the files, so that a wrong one is reported before the command waits for
/// a stream; then copies of the streams.
///
/// # Errors
/// A file cannot be read; the records have no type, or several.
pub(crate) fn open_all(
    host: &dyn Host,
    request: &TypeRequest,
    resources: &Resources,
    sources: Vec<Source>,
    target: &Target,
) -> Result<(Vec<ResolvedInput>, Option<Spool>)> {
    let look = |source: &Source| match source.is_stream() {
        true => Ok(None),
        false => inputs::look(source.clone()).map(Some),
    };
    let looked: Result<Vec<Option<ResolvedInput>>> = sources.iter().map(look).collect();
    let looked = looked?;
    let files: Vec<ResolvedInput> = looked.iter().flatten().cloned().collect();
    if files.len() == sources.len() {
        return Ok((files, None));
    }
    let from_flags = records::named(request)?;
    let is_known = from_flags.is_some() || files.iter().any(|file| file.npy.is_some());
    if is_known && !files.is_empty() {
        records::decide(request, &files)?;
    }
    let job = host.adopt(resources.job(Vec::new()));
    let limit_bytes = resources.scratch_limit_bytes();
    let mut spool = Spool::make(&job, &spool::dir_for(resources, target)?, limit_bytes)?;
    let mut inputs = Vec::with_capacity(sources.len());
    for (source, input) in sources.iter().zip(looked) {
        let input = match input {
            Some(input) => input,
            None => {
                let copy = || spool.copy_records(&job, source, is_known);
                let copied = watch(host, &job.control, &[], copy)?;
                inputs::look(copied)?
            }
        };
        inputs.push(input);
    }
    Ok((inputs, Some(spool)))
}
