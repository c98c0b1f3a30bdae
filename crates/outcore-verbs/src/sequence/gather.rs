//! `gather`: the records at given positions, in the order given.
//!
//! Contract: positions are read in sorted order, each block once. The positions need not fit in
//! memory.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::dataset::ItemType;
use outcore::key::RecordFormat;
use outcore::primitives::gather_to;
use outcore::{Error, Input, Output, Result};
use outcore_front::inputs::{self, ResolvedInput};
use outcore_front::records::{self, TypeRequest};
use outcore_io::memory::block_ceil;

use super::args::{PassArgs, has_files};
use super::input::Prepared;
use super::write::{Pass, Steps, WriteRequest, plan_picked, write_with};
use crate::host::Host;
use crate::report::WriteSummary;

/// Bytes of a file of positions that are looked at.
const TEXT_BYTES: usize = 4096;
/// Bytes of a place: the index of a position in the list of positions.
const PLACE_BYTES: u64 = size_of::<u64>() as u64;

/// Write the records at given positions, in the order given
///
/// Positions are read in sorted order, each block once, at full queue depth.
#[derive(Debug, Args)]
pub(crate) struct GatherArgs {
    /// File of positions, counted from 0: u64, or .npy of any integers
    ///
    /// The positions need not fit in memory: outcore sorts them, reads the records in ascending
    /// order, and sorts the records back.
    #[arg(long = "at", visible_alias = "index", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) positions: PathBuf,
    /// Type of positions without a header: u64, i64, u32, i32, u16, i16, u8 or i8 [default: u64]
    #[arg(long = "at-type", value_name = "TYPE", value_parser = RecordFormat::parse_type)]
    pub(crate) positions_type: Option<RecordFormat>,
    #[command(flatten)]
    pub(crate) files: PassArgs,
}

has_files!(GatherArgs);

/// `gather`.
pub(crate) struct Gather;

impl Pass for Gather {
    const NAME: &'static str = "gather";
    const DONE: &'static str = "gathered";
    type Args = GatherArgs;

    fn of_records(host: &dyn Host, args: &GatherArgs) -> Result<WriteSummary> {
        args.files.input.check_as_they_are(
            Self::NAME,
            "gather reads records at their positions in the files",
            "gather first, then filter",
        )?;
        // The device must also know the file of positions.
        let positions = std::slice::from_ref(&args.positions);
        let positions = inputs::open_files(positions, host.names())?;
        let force = args.files.input.force;
        if args.positions_type.is_none()
            && let Some(text) = positions.iter().find(|input| is_numbers(input))
        {
            let cause = "positions are u64 or an array of NumPy, but this is text";
            return Err(Error::usage("read arguments", cause)
                .path(&text.source.name)
                .hint("numpy.save writes the numbers of numpy.loadtxt as .npy"));
        }
        let at = positions_of(args.positions_type.as_ref(), &positions)?;
        let consume = |prepared: &mut Prepared, output: Output| {
            let files: Vec<Input> = positions.iter().map(ResolvedInput::to_sort).collect();
            let positions = at.table(&files);
            prepared.execution.gather_to(&positions, &output, force)
        };
        let at_bytes: u64 = positions.iter().map(|input| input.data_bytes).sum();
        let count = at_bytes / at.format.record_bytes() as u64;
        let planned = |prepared: &Prepared| {
            let item_bytes = prepared.table()?.format().record_bytes();
            let is_at_once = gather_to::fits(&prepared.job, count, item_bytes);
            plan_picked(prepared, "gather", |data_bytes| {
                // The pass reads one block per position, but no block more than once.
                let each_bytes = block_ceil(item_bytes as u64);
                let read_bytes = count.saturating_mul(each_bytes).min(data_bytes);
                let written_bytes = count.saturating_mul(item_bytes as u64);
                // There are two sorts: one of places and positions, one of places and elements.
                // Each goes through scratch and writes a file.
                let sorted_bytes =
                    count.saturating_mul(2 * (2 * PLACE_BYTES + PLACE_BYTES + item_bytes as u64));
                let more_bytes = if is_at_once { 0 } else { sorted_bytes };
                let moved = |bytes: u64| bytes.saturating_add(more_bytes);
                (moved(read_bytes).into(), moved(written_bytes).into())
            })
        };
        let request = WriteRequest {
            what: Self::NAME,
            files: &args.files,
            steps: Steps::Picked(&planned),
            made: None,
        };
        write_with(host, &request, consume)
    }
}

/// Whether a file has lines of digits.
fn is_numbers(input: &ResolvedInput) -> bool {
    let head = input.source.head(TEXT_BYTES).unwrap_or_default();
    let is_of_text = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_whitespace();
    input.npy.is_none() && head.contains(&b'\n') && head.iter().all(is_of_text)
}

/// The type of the positions in files: from their headers, from the caller, or `u64`.
fn positions_of(named: Option<&RecordFormat>, inputs: &[ResolvedInput]) -> Result<ItemType> {
    let is_array = inputs.iter().any(|input| input.npy.is_some());
    let format = match (named, is_array) {
        (Some(format), _) => Some(format.clone()),
        (None, true) => None,
        (None, false) => Some(RecordFormat::parse_type("u64")?),
    };
    let request = TypeRequest {
        format,
        ..TypeRequest::default()
    };
    records::decide(&request, inputs)
}
