//! The jobs themselves: a request becomes one run of the engine and a reply.
//!
//! Contract: nothing here depends on the interpreter; all of it runs on the job's own thread. As in
//! the command, every check that needs no work comes before any work ([`outcore_front`]). A failure
//! leaves nothing behind.

use std::path::Path;

use outcore::job::Job;
use outcore::key::NpyHeader;
use outcore::read::text_kind::TextKind;
use outcore::shuffle::Shuffled;
use outcore::{Error, Result};
use outcore::{Input, Output};
use outcore_front::inputs::{self, ResolvedInput};
use outcore_front::output::{Sink, Target};
use outcore_front::records::{self};
use outcore_front::resources::Resources;
use outcore_front::staging::Reads;
use outcore_front::text;
use outcore_front::text::output::{Dress, Pending};
use outcore_front::what::{Asked, What};

use crate::datasets::{Datasets, Use};
use crate::request;
use crate::run::Run;

/// The kind of the files of `request`.
pub(crate) fn what(mut request: request::Asked, run: &Run) -> Result<&'static str> {
    let how = Use {
        reads: Reads::Head,
        ..Use::of_engine(false)
    };
    let named = request.inputs.clone();
    let first = request.inputs.first_mut();
    let datasets = Datasets::stage(&request.resources, how, first, [], run)?;
    let resources = datasets.resources(&request.resources, true, run)?;
    // The copy of a dataset has another name.
    let of_name = || named.first().and_then(|name| TextKind::of_name(name));
    let is_dataset = named.first() != request.inputs.first();
    let asked = Asked {
        inputs: &request.inputs,
        is_records: request.is_records,
        is_lines: request.is_lines,
        text: is_dataset.then(of_name).flatten(),
        is_table: request.is_table,
        ..Asked::default()
    };
    Ok(match asked.what(resources.names())? {
        What::Lines | What::Fastq => "lines",
        What::Csv => "csv",
        What::JsonLines => "jsonl",
        What::Records => "records",
        What::Array => "array",
        What::Table => "table",
        What::CsvTable => "csv_table",
        What::JsonTable => "jsonl_table",
        What::View => "view",
    })
}

fn to_sort(inputs: &[ResolvedInput]) -> Vec<Input> {
    inputs.iter().map(ResolvedInput::to_sort).collect()
}

/// The destination of lines, compressed if the name asks for it.
pub(crate) fn open_lines(
    job: &Job,
    target: &Target,
    replace: bool,
    dress: &Dress,
) -> Result<(Output, Pending)> {
    text::output::open(job, target, replace, dress, no_pipe)
}

/// Nothing here is written to a pipe: [`Streams::Refused`] has already rejected that.
pub(crate) fn no_pipe(_path: Option<&Path>) -> Result<Sink> {
    Err(Error::usage("create output", "it is not a regular file").hint("write a file"))
}

/// Opens the order of a shuffle for reading records; also returns the header of an empty `.npy`
/// file.
pub(crate) fn order(mut request: request::Order, run: &Run) -> Result<(Shuffled, Option<Vec<u8>>)> {
    let how = Use::of_engine(false);
    let datasets = Datasets::stage(&request.resources, how, &mut request.inputs, [], run)?;
    let resources = datasets.resources(&request.resources, true, run)?;
    // Its files stay open after the copies of datasets are removed.
    order_of_files(&request, &resources, run)
}

fn order_of_files(
    request: &request::Order,
    resources: &Resources,
    run: &Run,
) -> Result<(Shuffled, Option<Vec<u8>>)> {
    let inputs = inputs::open_files(&request.inputs, resources.names())?;
    let decided = records::decide(&request.records.to_request_without_keys()?, &inputs)?;
    let header = match &decided.header {
        Some(header) => Some(header.clone()),
        // Records without a NumPy dtype are returned as bytes.
        None => NpyHeader::of_format(&decided.format, 0).ok(),
    };
    let job = run.job(resources, Vec::new());
    let record_bytes = decided.format.record_bytes();
    let seed = request.resources.seed();
    let shuffled = Shuffled::open(&job, &to_sort(&inputs), record_bytes, seed, request.epoch)?;
    Ok((shuffled, header.map(|header| header.encode(0))))
}
