//! The jobs themselves: from a request to one run of the engine and a reply.
//!
//! Contract: nothing here knows of the interpreter; all of it runs on the job's own thread. As the
//! command does, everything that can be refused without work is refused before any is done
//! ([`outcore_front`]), and on any failure nothing is left behind.

use std::path::{Path, PathBuf};

use outcore::job::Job;
use outcore::key::NpyHeader;
use outcore::read::text_kind::TextKind;
use outcore::shuffle::Shuffled;
use outcore::sort::plan::SortPlan;
use outcore::sort::{self, SortOptions};
use outcore::{Error, Result};
use outcore::{Input, Output};
use outcore_front::inputs::{self, ResolvedInput, Source, Streams};
use outcore_front::job::settle_sort;
use outcore_front::output::{self, Consent, Holds, Sink, Target};
use outcore_front::recording::{Recording, RecordingRequest};
use outcore_front::records::{self, Decided};
use outcore_front::resources::Resources;
use outcore_front::staging::Reads;
use outcore_front::text;
use outcore_front::text::output::{Dress, Pending};
use outcore_front::what::{Asked, What};

use crate::datasets::{Datasets, Use};
use crate::reply::{self, Trace};
use crate::request;
use crate::run::{PROGRAM, Run};

/// Everything that is settled before a sort starts.
struct Prepared {
    resources: Resources,
    recording: Option<Recording>,
    inputs: Vec<ResolvedInput>,
    target: Option<Target>,
    decided: Decided,
    options: SortOptions,
    job: Job,
    plan: SortPlan,
}

/// How a job uses files that are read by the engine, and written; `replace` if onto its input.
fn by_engine(force: bool, replace: bool) -> Use {
    Use {
        is_in_place: replace,
        ..Use::of_engine(force)
    }
}

/// What the files of `request` hold.
pub(crate) fn what(mut request: request::Asked, run: &Run) -> Result<&'static str> {
    let how = Use {
        reads: Reads::Head,
        ..Use::of_engine(false)
    };
    let named = request.inputs.clone();
    let first = request.inputs.first_mut();
    let datasets = Datasets::stage(&request.resources, how, first, [], run)?;
    let resources = datasets.resources(&request.resources, true, run)?;
    let text = request.is_csv.then_some(TextKind::Csv);
    // A dataset that is copied is called otherwise.
    let of_name = || named.first().and_then(|name| TextKind::of_name(name));
    let is_dataset = named.first() != request.inputs.first();
    let asked = Asked {
        inputs: &request.inputs,
        output: request.output.as_deref(),
        is_records: request.is_records,
        is_lines: request.is_lines,
        text: text.or_else(|| is_dataset.then(of_name).flatten()),
        is_table: request.is_table,
        piped: None,
        by: &request.by,
        is_text_order: request.is_text_order,
    };
    Ok(match asked.what(resources.names())? {
        What::Lines => "lines",
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

/// Sorts as `request` says.
pub(crate) fn sort(mut request: request::Sort, run: &Run) -> Result<reply::Sorted> {
    let datasets = stage_sort(&mut request, run)?;
    let resources = datasets.resources(&request.resources, true, run)?;
    datasets.finish(sort_files(request, resources, run)?, run)
}

fn stage_sort(request: &mut request::Sort, run: &Run) -> Result<Datasets> {
    let how = by_engine(request.force, request.replace);
    let written = request.output.iter_mut().chain(&mut request.record_io);
    Datasets::stage(&request.resources, how, &mut request.inputs, written, run)
}

fn sort_files(request: request::Sort, resources: Resources, run: &Run) -> Result<reply::Sorted> {
    let cost = reply::Cost::start();
    let Prepared {
        resources,
        recording,
        inputs,
        target,
        decided,
        options,
        job,
        plan,
    } = prepare(request, resources, run)?;
    let target = target.ok_or_else(|| {
        Error::usage("create output", "no output given").hint("name a file for the result")
    })?;
    let header = output::header_for(&target, &inputs, &decided)?;
    let output = target.to_sort(header, no_pipe)?;
    let done = sort::sort(&job, &to_sort(&inputs), output, &decided.format, options)?;
    let trace = finish(recording)?;
    let name = target.name().as_os_str().to_owned();
    let set = &resources.config.drives.value;
    let used = cost.used((done.records, done.passes), &done.drives, set, trace);
    Ok(reply::Sorted::new(&done, &plan, name, used))
}

/// The plan of a sort.
pub(crate) fn plan(mut request: request::Sort, run: &Run) -> Result<reply::Plan> {
    let datasets = stage_sort(&mut request, run)?;
    let resources = datasets.resources(&request.resources, true, run)?;
    prepare(request, resources, run).map(|prepared| (&prepared.plan).into())
}

fn prepare(request: request::Sort, resources: Resources, run: &Run) -> Result<Prepared> {
    let sources = inputs::find(&request.inputs, Streams::Refused, resources.names())?;
    let consent = Consent {
        force: request.force,
        replace: request.replace,
    };
    let specs = resources.specs();
    let how = (Streams::Refused, Holds::Records);
    let choose = |name: &PathBuf| output::choose(Some(name), &sources, specs, consent, how);
    let target = request.output.as_ref().map(choose).transpose()?;
    let reads = (sources.as_slice(), target.as_ref());
    let trace = record_request(&request.record_io, request.force, reads);
    let resources = resources.holding_inputs(sources.len())?;
    let (recording, resources) = Recording::start(resources, &trace)?;
    let inputs: Result<Vec<ResolvedInput>> = sources.into_iter().map(inputs::look).collect();
    let inputs = inputs?;
    let decided = records::decide(&request.records.to_request()?, &inputs)?;
    let options = SortOptions {
        descending: request.descending,
        stable: request.stable,
        unique: request.unique,
        replace: request.force || request.replace,
        delete_input: false,
    };
    let (job, plan) = settle_sort(
        &resources,
        &inputs,
        target.as_ref(),
        &decided.format,
        options,
    )?;
    Ok(Prepared {
        job: run.watched(job),
        resources,
        recording,
        inputs,
        target,
        decided,
        options,
        plan,
    })
}

fn to_sort(inputs: &[ResolvedInput]) -> Vec<Input> {
    inputs.iter().map(ResolvedInput::to_sort).collect()
}

/// Where lines go, compressed if the name says so.
pub(crate) fn open_lines(
    job: &Job,
    target: &Target,
    replace: bool,
    dress: &Dress,
) -> Result<(Output, Pending)> {
    text::output::open(job, target, replace, dress, no_pipe)
}

/// Nothing here is written to a pipe: [`Streams::Refused`] has refused it before.
pub(crate) fn no_pipe(_path: Option<&Path>) -> Result<Sink> {
    Err(Error::usage("create output", "it is not a regular file").hint("write a file"))
}

/// What `record_io` asks for.
fn record_request<'a>(
    path: &'a Option<PathBuf>,
    force: bool,
    (sources, target): (&'a [Source], Option<&'a Target>),
) -> RecordingRequest<'a> {
    RecordingRequest {
        path: path.as_deref(),
        force,
        sources,
        target,
        files: &[],
        program: PROGRAM,
        command: None,
    }
}

fn finish(recording: Option<Recording>) -> Result<Option<Trace>> {
    let Some(recording) = recording else {
        return Ok(None);
    };
    let path = recording.path().as_os_str().to_owned();
    let done = recording.finish()?;
    Ok(Some(Trace::new(path, &done)))
}

/// Opens the order of a shuffle, to read records in; and the header of a `.npy` file of no records.
pub(crate) fn order(mut request: request::Order, run: &Run) -> Result<(Shuffled, Option<Vec<u8>>)> {
    let how = Use::of_engine(false);
    let datasets = Datasets::stage(&request.resources, how, &mut request.inputs, [], run)?;
    let resources = datasets.resources(&request.resources, true, run)?;
    // Its files stay open when those in the place of datasets are gone.
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
        // What NumPy has no dtype for is handed out as bytes.
        None => NpyHeader::of_format(&decided.format, 0).ok(),
    };
    let job = run.job(resources, Vec::new());
    let record_bytes = decided.format.record_bytes();
    let seed = request.resources.seed();
    let shuffled = Shuffled::open(&job, &to_sort(&inputs), record_bytes, seed, request.epoch)?;
    Ok((shuffled, header.map(|header| header.encode(0))))
}
