//! `split --splitters` and `split --random`: parts by the range of a key, or at random.
//!
//! Contract: that of [`outcore::primitives::route`]. Splitters are items of the input's kind: one
//! file of records, lines or rows in ascending order. The report has the totals of the parts.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::dataset::{Dataset, Mode};
use outcore::key::sort_key::{ByteOrder, SharedKey};
use outcore::primitives::{BucketFiles, LineRanges, PartTotals, RecordRanges, RecordRoute};
use outcore::{Error, Result};
use outcore_front::content::Recognition;
use outcore_front::dataset::Allowed;
use outcore_front::inputs::ResolvedInput;
use outcore_front::records::Decided;
use outcore_front::split::{LineRoute, SplitRequest, name_of_part, route};
use outcore_front::text::json::JsonFields;
use outcore_front::text::reader::{Frame, RecordReader};

use super::page::SplitArgs;
use crate::host::Host;
use crate::lines::{LineJob, find};

/// The most splitters of records and lines, which stay in memory.
const SPLITTERS_MAX: usize = 100_000;

/// What a pass made.
pub(super) struct Routed {
    pub(super) totals: Vec<PartTotals>,
    pub(super) parts: Vec<PathBuf>,
}

impl Routed {
    /// The number of items of all parts.
    pub(super) fn items(&self) -> u64 {
        self.totals.iter().map(|part| part.items).sum()
    }
}

/// Whether each item goes to a part of its own choice, instead of a cut.
pub(super) fn is_asked(args: &SplitArgs) -> bool {
    args.splitters.is_some() || args.random
}

/// Reads all splitters.
fn splitters(
    host: &dyn Host,
    job: &LineJob,
    args: &SplitArgs,
    frame: Frame,
) -> Result<Option<Vec<Vec<u8>>>> {
    let Some(path) = &args.splitters else {
        return Ok(None);
    };
    let sources = find(host, std::slice::from_ref(path))?;
    let mut reader = RecordReader::new(&job.job, sources, frame, Recognition::ANYTHING);
    let mut splitters = Vec::new();
    while let Some(splitter) = reader.next_record()? {
        splitters.push(splitter);
        if splitters.len() > SPLITTERS_MAX {
            return Err(Error::usage("read splitters", "more than 100000 splitters")
                .path(path)
                .hint("a splitter is the border of two parts: give one less than parts"));
        }
    }
    Ok(Some(splitters))
}

/// The number of random parts.
fn random_parts(args: &SplitArgs) -> usize {
    args.parts.unwrap_or(1) as usize
}

/// Routes lines.
pub(super) fn lines(
    host: &dyn Host,
    job: &LineJob,
    args: &SplitArgs,
    reader: &mut RecordReader<'_>,
    data_bytes: u64,
    request: SplitRequest<'_>,
) -> Result<Routed> {
    let frame = reader.frame();
    let order: SharedKey = match frame {
        Frame::Json(_) if !args.by.is_empty() => Arc::new(JsonFields::new(&args.by, false, true)?),
        _ => Arc::new(ByteOrder),
    };
    let splitters = splitters(host, job, args, frame)?;
    let to = match &splitters {
        Some(splitters) => LineRoute::Ranges(LineRanges::new(order.as_ref(), splitters)?),
        None => LineRoute::Random {
            seed: args.seed,
            parts: random_parts(args),
        },
    };
    let (totals, parts) = route(&job.job, reader, data_bytes, request, &to)?;
    Ok(Routed { totals, parts })
}

/// Routes records.
pub(super) fn records(
    host: &dyn Host,
    job: &LineJob,
    args: &SplitArgs,
    inputs: &[ResolvedInput],
    decided: Decided,
    request: &SplitRequest<'_>,
) -> Result<Routed> {
    let frame = Frame::Bytes(decided.format.record_bytes());
    let (to, count) = match splitters(host, job, args, frame)? {
        Some(splitters) => {
            let count = splitters.len() + 1;
            let ranges = RecordRanges::new(&decided.format, splitters)?;
            (RecordRoute::Ranges(ranges), count)
        }
        None => (RecordRoute::Random { seed: args.seed }, random_parts(args)),
    };
    let files = BucketFiles {
        paths: part_names(args, count),
        manifest: None,
        replace: request.replace,
        header: request.header.clone(),
    };
    let allowed = Allowed {
        resources: job.resources.clone(),
        control: Arc::clone(&job.job.control),
    };
    let inputs = inputs.iter().map(ResolvedInput::to_sort).collect();
    let dataset = Dataset::zip(&[(inputs, decided)])?;
    let mut execution = dataset.execute(Arc::new(allowed), Mode::Run);
    let (totals, _) = execution.route(&to, &files)?;
    Ok(Routed {
        totals,
        parts: files.paths,
    })
}

/// The names of this many parts, which sort in their order.
pub(super) fn part_names(args: &SplitArgs, count: usize) -> Vec<PathBuf> {
    let digits = (count.max(100) - 1).to_string().len();
    let name = |part: usize| name_of_part(&args.output, &format!("{part:0digits$}"));
    (0..count).map(name).collect()
}
