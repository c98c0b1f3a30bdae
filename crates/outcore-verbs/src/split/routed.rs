//! `split --splitters` and `split --random`: parts by the range of a key, or at random.
//!
//! Contract: that of [`outcore::primitives::route`]. Splitters are items of the input's kind: one
//! file of records, lines or rows in ascending order. The report has the totals of the parts.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::dataset::{Dataset, Mode, TypedFiles};
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

/// The maximum number of splitters of records or lines. Splitters stay in memory.
const SPLITTERS_MAX: usize = 100_000;

/// The parts that a pass has written.
pub(super) struct Made {
    /// The number of all items.
    pub(super) items: u64,
    pub(super) parts: Vec<PathBuf>,
    /// The totals of each part; none if parts were cut.
    pub(super) totals: Vec<PartTotals>,
}

impl Made {
    fn of(totals: Vec<PartTotals>, parts: Vec<PathBuf>) -> Self {
        Made {
            items: totals.iter().map(|part| part.items).sum(),
            parts,
            totals,
        }
    }
}

/// Files of records, and their type.
pub(super) struct Typed {
    pub(super) inputs: Vec<ResolvedInput>,
    pub(super) decided: Decided,
}

/// The input of a pass.
pub(super) struct PartInput {
    /// Its files, if they are records.
    pub(super) typed: Option<Typed>,
    pub(super) data_bytes: u64,
}

/// Whether outcore chooses a part for each item, instead of cutting the input.
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
                .hint("a splitter is the border between two parts: for 8 parts give 7 splitters"));
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
) -> Result<Made> {
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
    Ok(Made::of(totals, parts))
}

/// Routes records.
pub(super) fn records(
    host: &dyn Host,
    job: &LineJob,
    args: &SplitArgs,
    typed: Typed,
    request: &SplitRequest<'_>,
) -> Result<Made> {
    let Typed { inputs, decided } = typed;
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
    let typed = TypedFiles {
        files: inputs.iter().map(ResolvedInput::to_sort).collect(),
        item: decided,
    };
    let dataset = Dataset::zip(&[typed])?;
    let mut execution = dataset.execute(Arc::new(allowed), Mode::Run);
    let (totals, _) = execution.route(&to, &files)?;
    Ok(Made::of(totals, files.paths))
}

/// The names of this many parts, which sort in their order.
pub(super) fn part_names(args: &SplitArgs, count: usize) -> Vec<PathBuf> {
    let digits = (count.max(100) - 1).to_string().len();
    let name = |part: usize| name_of_part(&args.output, &format!("{part:0digits$}"));
    (0..count).map(name).collect()
}
