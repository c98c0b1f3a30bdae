//! The jobs themselves: from a request to one run of the engine and a reply.
//!
//! Contract: nothing here knows of the interpreter; all of it runs on the job's own thread. As the
//! command does, everything that can be refused without work is refused before any is done, and on
//! any failure nothing is left behind.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::algo::generate::{GenerateRequest, generate as run_generate};
use outcore::algo::plan::SortPlan;
use outcore::algo::sort::{self, SortInput, SortOptions};
use outcore::algo::verify::{checksum_of, verify as run_verify};
use outcore::config::Environment;
use outcore::data::{CheckOptions, CheckReport, Distribution, GenerateOptions, Generator};
use outcore::data::{GensortOptions, RecordFormat};
use outcore::job::{Control, Job, ScratchDrive};
use outcore::volume::output::parent_of;
use outcore::{Error, Result};

use crate::front::format::{self, Decided};
use crate::front::inputs::{self, Input};
use crate::front::means::{Means, MeansRequest};
use crate::front::target::{self, Consent, Target};
use crate::{reply, request};

/// Everything that is settled before a sort starts.
struct Prepared {
    inputs: Vec<Input>,
    target: Option<Target>,
    decided: Decided,
    options: SortOptions,
    job: Job,
    plan: SortPlan,
}

/// Sorts as `request` says.
pub(crate) fn sort(
    request: request::Sort,
    environment: &Environment,
    control: &Arc<Control>,
) -> Result<reply::Sorted> {
    let cost = reply::Cost::start();
    let Prepared {
        inputs,
        target,
        decided,
        options,
        job,
        plan,
    } = prepare(request, environment, control)?;
    let target = target.ok_or_else(|| {
        Error::usage("create output", "no output is named").hint("name a file for the result")
    })?;
    let header = target::header_for(&target, &inputs, &decided)?;
    let files: Vec<SortInput> = inputs.iter().map(Input::to_sort).collect();
    let output = target.to_sort(header);
    let done = sort::sort(&job, &files, output, &decided.format, options)?;
    let name = target.name().as_os_str().to_owned();
    Ok(reply::Sorted::new(&done, &plan, name, &cost))
}

/// The plan of a sort.
pub(crate) fn plan(
    request: request::Sort,
    environment: &Environment,
    control: &Arc<Control>,
) -> Result<reply::Plan> {
    prepare(request, environment, control).map(|prepared| (&prepared.plan).into())
}

fn prepare(
    request: request::Sort,
    environment: &Environment,
    control: &Arc<Control>,
) -> Result<Prepared> {
    let means = Means::load(&MeansRequest::from(request.means), environment)?;
    let inputs = inputs::find(&request.inputs)?;
    let consent = Consent {
        force: request.force,
        replace: request.replace,
    };
    let choose = |name: &PathBuf| target::choose(name, &inputs, means.specs(), consent);
    let target = request.output.as_ref().map(choose).transpose()?;
    let decided = format::decide(&request.records.into(), &inputs)?;
    let options = SortOptions {
        descending: request.descending,
        stable: request.stable,
        unique: request.unique,
        replace: request.force || request.replace,
        delete_input: false,
    };
    let named = means.named_drives(0)?;
    let beside = target.as_ref().map_or(PathBuf::from("."), Target::dir);
    let files = target.as_ref().map_or(&[][..], Target::files);
    let drive_count = count_drives(&named, &beside, files, &inputs);
    let data_bytes = inputs.iter().map(|input| input.data_bytes).sum();
    let mut job = means.job(named, control);
    let plan = sort::plan(&job, data_bytes, &decided.format, options, drive_count)?;
    job.options.drives = means.scratch_drives(&plan, &beside)?;
    Ok(Prepared {
        inputs,
        target,
        decided,
        options,
        job,
        plan,
    })
}

/// As the engine counts: each named drive, then each further file system.
fn count_drives(
    named: &[ScratchDrive],
    beside: &Path,
    outputs: &[PathBuf],
    inputs: &[Input],
) -> usize {
    let file_system = |path: &Path| std::fs::metadata(path).ok().map(|facts| facts.dev());
    let scratch: Vec<&Path> = match named {
        [] => vec![beside],
        drives => drives.iter().map(|drive| drive.dir.as_path()).collect(),
    };
    let mut seen: Vec<u64> = scratch.iter().filter_map(|dir| file_system(dir)).collect();
    let mut count = scratch.len();
    let files = inputs.iter().map(|input| input.path.as_path());
    let outputs = outputs.iter().map(|path| parent_of(path));
    for found in files.chain(outputs).filter_map(file_system) {
        if !seen.contains(&found) {
            seen.push(found);
            count += 1;
        }
    }
    count
}

/// Generates records as `request` says.
pub(crate) fn generate(
    request: request::Generate,
    environment: &Environment,
    control: &Arc<Control>,
) -> Result<reply::Generated> {
    let cost = reply::Cost::start();
    let means = MeansRequest::from(request.means);
    let seed = means.seed;
    let means = Means::load(&means, environment)?;
    let decided = format::named(&request.records.into())?
        .ok_or_else(|| Error::usage("generate", "no type is named").hint("give one: u64"))?;
    let distribution = request.distribution.parse()?;
    let gensort = GensortOptions {
        ascii: request.ascii,
        skewed: request.skewed,
        first: request.first.unwrap_or(0),
    };
    let options = GenerateOptions {
        distribution,
        seed,
        records: request.count,
    };
    let is_for_gensort = request.ascii || request.skewed || request.first.is_some();
    let gensort = (gensort, is_for_gensort);
    let generator = make_generator(&decided.format, options, gensort)?;
    let consent = Consent {
        force: request.force,
        replace: false,
    };
    let target = target::choose(&request.output, &[], means.specs(), consent)?;
    let job = means.job(means.named_drives(0)?, control);
    let generate = GenerateRequest {
        generator,
        records: request.count,
        output: target.to_sort(target::header_for(&target, &[], &decided)?),
        replace: request.force,
    };
    let done = run_generate(&job, &generate)?;
    Ok(reply::Generated {
        records: done.records,
        seconds: cost.seconds(),
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        cpu_seconds: cost.cpu_seconds(),
        peak_rss_bytes: reply::peak_rss_bytes(),
        passes: 1,
        bandwidth_fraction: None,
        output: target.name().as_os_str().to_owned(),
        drives: reply::drives(&done.drives),
    })
}

fn make_generator(
    format: &RecordFormat,
    options: GenerateOptions,
    (gensort, is_for_gensort): (GensortOptions, bool),
) -> Result<Generator> {
    if format.is_gensort() && options.distribution == Distribution::Whole {
        return Ok(Generator::gensort(gensort));
    }
    if is_for_gensort {
        let cause = "--ascii, --skewed and --first are for the records of gensort";
        return Err(Error::usage("generate", cause)
            .hint("use them with `outcore gen gensort` and without --dist"));
    }
    Generator::new(format, options)
}

/// Checks files as `request` says.
pub(crate) fn verify(
    request: request::Verify,
    environment: &Environment,
    control: &Arc<Control>,
) -> Result<reply::Verified> {
    let cost = reply::Cost::start();
    let means = Means::load(&MeansRequest::from(request.means), environment)?;
    let checked = inputs::find(&request.inputs)?;
    let against = match request.against.is_empty() {
        true => Vec::new(),
        false => inputs::find(&request.against)?,
    };
    let all: Vec<Input> = checked.iter().chain(&against).cloned().collect();
    let format = format::decide(&request.records.into(), &all)?.format;
    let options = CheckOptions {
        descending: request.descending,
        ties: request.ties,
        unique: request.unique,
        unordered: false,
    };
    let to_sort = |inputs: &[Input]| inputs.iter().map(Input::to_sort).collect::<Vec<_>>();
    // A job each, since what is left of a budget belongs to the one job.
    let job = || means.job(Vec::new(), control);
    let found = run_verify(&job(), &to_sort(&checked), &format, options)?;
    let other = match against.is_empty() {
        true => None,
        false => Some(checksum_of(&job(), &to_sort(&against), &format)?),
    };
    let (check, other_check) = (&found.check, other.as_ref().map(|other| &other.check));
    let same_records = other_check.map(|other| check.has_records_of(other));
    let read_bytes = other.as_ref().map_or(0, |other| other.read_bytes);
    let traffic = found
        .drives
        .iter()
        .chain(other.iter().flat_map(|other| &other.drives));
    Ok(reply::Verified {
        records: check.records,
        seconds: cost.seconds(),
        read_bytes: found.read_bytes + read_bytes,
        written_bytes: 0,
        cpu_seconds: cost.cpu_seconds(),
        peak_rss_bytes: reply::peak_rss_bytes(),
        passes: 1,
        bandwidth_fraction: None,
        ordered: check.is_ordered(),
        unordered: check.unordered,
        first_unordered: check.first_unordered,
        duplicate_keys: check.duplicate_keys,
        checksum: format!("{:x}", check.checksum),
        drives: reply::drives(traffic),
        ok: is_right(check, &format) && same_records != Some(false),
        same_records,
        against_records: other_check.map(|other| other.records),
        against_checksum: other_check.map(|other| format!("{:x}", other.checksum)),
        text: text_of(check, &format),
    })
}

/// valsort's verdict; it refuses to judge no records, which is right for its own only.
fn is_right(check: &CheckReport, format: &RecordFormat) -> bool {
    match format.is_gensort() {
        true => check.valsort_exit_code() == 0,
        false => check.is_ordered(),
    }
}

/// valsort's lines.
fn text_of(check: &CheckReport, format: &RecordFormat) -> String {
    match check.records {
        0 if !format.is_gensort() => {
            "Records: 0\nChecksum: 0\nDuplicate keys: 0\nSUCCESS - all records are in order\n"
                .to_string()
        }
        _ => check.valsort_text(),
    }
}
