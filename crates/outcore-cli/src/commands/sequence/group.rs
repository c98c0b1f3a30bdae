//! Distinct values and records, and how often each occurs: `count-by`, and `unique` on records.
//!
//! Contract: a plan made from a sample says whether they are found by hash, in one read, or by a
//! sort ([`outcore::primitives::group`]); `--explain` shows it, the summary says what was done.
//! Values are told apart by their bytes and come in their order. Counts go to a file as records, or
//! to standard output as text; in a summary there are at most [`GROUPS_MAX`] of them.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use outcore::Output;
use outcore::dataset::Step;
use outcore::key::NumberType;
use outcore::primitives::group::{GroupPlan, GroupSummary, group, plan_group};
use outcore::primitives::tables::scalar_of;
use outcore::primitives::{GroupedBy, Grouping};
use outcore::{Error, Result};
use outcore_front::inputs::Streams;
use outcore_front::output::{self, Consent, Holds, Sink, Target};
use outcore_front::records;
use outcore_front::resources::Resources;
use outcore_io::units;
use serde_json::{Value, json};

use super::input::{self, Prepared};
use super::{begin, finish, plan_json, scalar_json};
use crate::cli::sequence::{CountByArgs, InputArgs};
use crate::context::Context;
use crate::measure::{Summary, rate_text};
use crate::pipe::CLOSED_PIPE;
use crate::progress::watch;
use crate::{pipe, resources};

/// Bytes of a count.
const COUNT_BYTES: usize = 8;
/// Groups in a summary at most: it is one line, made in memory.
const GROUPS_MAX: usize = 1 << 16;

/// What is asked for.
pub(crate) struct GroupRequest<'a> {
    /// The command, in messages.
    pub(crate) what: &'static str,
    pub(crate) input: &'a InputArgs,
    pub(crate) scratch_limit_bytes: Option<u64>,
    /// Standard output without one.
    pub(crate) output: Option<&'a Path>,
    pub(crate) grouping: Grouping,
}

/// Runs `outcore count-by`.
pub(super) fn count_by(context: &Context, args: &CountByArgs) -> Result<u8> {
    let request = GroupRequest {
        what: "count-by",
        input: &args.input,
        scratch_limit_bytes: args.scratch.limit_bytes,
        output: args.output.as_deref(),
        grouping: Grouping::Counted,
    };
    let is_text = args.output.is_none();
    run(context, &request, Some(&args.expression), is_text)
}

/// Distinct records, as records.
pub(crate) fn of_records(context: &Context, request: &GroupRequest<'_>) -> Result<u8> {
    run(context, request, None, false)
}

fn run(
    context: &Context,
    request: &GroupRequest<'_>,
    by: Option<&String>,
    is_text: bool,
) -> Result<u8> {
    let input = request.input;
    let resources = resources::load(
        &input.resources,
        &input.drives,
        request.scratch_limit_bytes,
        resources::SEED,
    )?;
    let target = target_of(context, request, &resources, is_text)?;
    let mut prepared = input::prepare(context, input, resources, Some(&target))?;
    if let Some(by) = by {
        prepared.execution.then(Step::Map(by.clone()))?;
    }
    if input.explain || input.dry_run {
        let (job, table) = (&prepared.job, prepared.table()?);
        let (reporter, interrupt) = (&context.reporter, &context.interrupt);
        let plan = watch(reporter, interrupt, &job.control, &[], || {
            let what = (table.format(), request.grouping);
            plan_group(job, table, what, request.what)
        })?;
        if show(context, input, &plan) {
            return Ok(0);
        }
    }
    begin(context, &prepared, (!is_text).then_some(&target))?;
    let groups = Arc::new(Mutex::new(Vec::new()));
    let to = match is_text {
        true => text_output(context, &prepared, &groups)?,
        false => record_output(request, &prepared, &target)?,
    };
    let (job, table) = (&prepared.job, prepared.table()?);
    // Text is made of numbers of this machine.
    let table = &match is_text {
        true => table.numbers()?.0,
        false => table.clone(),
    };
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let weights = [("sample", 0.02), ("count", 1.0)];
    let done = watch(reporter, interrupt, &job.control, &weights, || {
        group(
            job,
            table,
            table.format(),
            request.grouping,
            (&to, input.force),
        )
    });
    let groups = std::mem::take(&mut *groups.lock().unwrap_or_else(PoisonError::into_inner));
    let done = match done {
        Err(_) if groups.len() > GROUPS_MAX => {
            let cause = format!("more than {GROUPS_MAX} values are too many for a summary");
            return Err(Error::usage("count", cause).hint("write them to a file with -o"));
        }
        Err(error) if pipe::is_closed(&target, &error) => return Ok(CLOSED_PIPE),
        done => done?,
    };
    tell(
        context,
        request,
        &mut prepared,
        &done,
        |summary| match is_text {
            true => summary.with("groups", Value::Array(groups)),
            false => summary.with("output", json!(target.name().display().to_string())),
        },
    )
}

fn target_of(
    context: &Context,
    request: &GroupRequest<'_>,
    resources: &Resources,
    is_text: bool,
) -> Result<Target> {
    let force = request.input.force;
    let Some(name) = request.output else {
        let target = Target::Pipe(None);
        if !is_text {
            let consent = Consent {
                force,
                replace: false,
            };
            output::check_terminal(&target, Holds::Records, consent)?;
        }
        return Ok(target);
    };
    let sources = input::sources(context, request.input)?;
    let name = context.files.output(name, force)?;
    let how = (Streams::Taken, Holds::Records);
    let target = output::choose_new(Some(&name), &sources, resources.specs(), force, how)?;
    match &target {
        Target::Shards { manifest, .. } => Err(Error::usage(
            "create output",
            "distinct records go into one file, not into shards: how many there are is known last",
        )
        .path(manifest)
        .hint(
            "leave {drive} out of the name; scratch is spread over the drives all the same, and \
             `outcore sort` makes shards of the result",
        )),
        _ => Ok(target),
    }
}

/// Shows the plan; true if that is all.
fn show(context: &Context, input: &InputArgs, plan: &GroupPlan) -> bool {
    let reporter = &context.reporter;
    if !input.dry_run {
        reporter.human(&plan.to_string());
        return false;
    }
    reporter.data(&format!("{plan}\n"));
    let mut fields = plan_json(&plan.pass);
    let more = json!({
        "by": name_of(plan.by),
        "items": plan.items,
        "distinct": plan.distinct,
        "distinct_max": plan.held,
    });
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    reporter.event("plan", fields);
    reporter.summary(&Summary::default());
    true
}

fn name_of(by: GroupedBy) -> &'static str {
    match by {
        GroupedBy::Hash => "hash",
        GroupedBy::Sort => "sort",
    }
}

/// A file of records, or records to standard output.
fn record_output(
    request: &GroupRequest<'_>,
    prepared: &Prepared,
    target: &Target,
) -> Result<Output> {
    let item = prepared.execution.item()?;
    let is_array = |path: &Path| path.extension().is_some_and(|end| end == "npy");
    let header = match (target, request.grouping) {
        (Target::File(path), Grouping::Counted) if is_array(path) => {
            Some(records::counted_header(&item).map_err(|error| error.path(path))?)
        }
        _ => output::header_for(target, &prepared.inputs, &item)?,
    };
    let control = &prepared.job.control;
    target.to_sort(header, |path| pipe::open(path, control))
}

/// Lines of value and count, or both in a summary.
fn text_output(
    context: &Context,
    prepared: &Prepared,
    groups: &Arc<Mutex<Vec<Value>>>,
) -> Result<Output> {
    let (_, kind) = prepared.table()?.numbers()?;
    let to = match context.reporter.is_json() {
        true => To::Summary(Arc::clone(groups)),
        false => To::Pipe(pipe::open(None, &prepared.job.control)?),
    };
    let texts = Texts {
        kind,
        group_bytes: kind.bytes() + COUNT_BYTES,
        rest: Vec::new(),
        to,
    };
    Ok(Output::Pipe(Mutex::new(Box::new(texts))))
}

enum To {
    Pipe(Sink),
    Summary(Arc<Mutex<Vec<Value>>>),
}

/// Makes text of records of a value and a count.
struct Texts {
    kind: NumberType,
    group_bytes: usize,
    /// Of a record that is not yet whole.
    rest: Vec<u8>,
    to: To,
}

impl Write for Texts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole_bytes = self.rest.len() / self.group_bytes * self.group_bytes;
        let groups = self.rest[..whole_bytes].chunks_exact(self.group_bytes);
        let groups = groups.map(|group| {
            let (value, count) = group.split_at(self.group_bytes - COUNT_BYTES);
            let count = count.try_into().map_or(0, u64::from_le_bytes);
            (scalar_of(self.kind, value), count)
        });
        match &mut self.to {
            To::Pipe(pipe) => {
                let lines = groups.map(|(value, count)| format!("{value}\t{count}\n"));
                pipe.write_all(lines.collect::<String>().as_bytes())?;
            }
            To::Summary(all) => {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                let groups = groups
                    .map(|(value, count)| json!({"value": scalar_json(value), "count": count}));
                all.extend(groups);
                if all.len() > GROUPS_MAX {
                    return Err(io::Error::other("more values than a summary has"));
                }
            }
        }
        self.rest.drain(..whole_bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Pipe(pipe) => pipe.flush(),
            To::Summary(_) => Ok(()),
        }
    }
}

fn tell(
    context: &Context,
    request: &GroupRequest<'_>,
    prepared: &mut Prepared,
    done: &GroupSummary,
    more: impl FnOnce(Summary) -> Summary,
) -> Result<u8> {
    let pass = &done.pass;
    let told = finish(context, prepared, pass, |summary| {
        more(summary.with("by", json!(name_of(done.by))))
    });
    let text = format!(
        "{}: {} in, {} different, by {}, {} in {}: {}",
        request.what,
        units::counted(pass.records_in, "record"),
        units::count(pass.records),
        name_of(done.by),
        units::bytes(pass.read_bytes),
        units::seconds(pass.seconds),
        rate_text(pass.read_bytes, pass.seconds),
    );
    match request.output {
        Some(_) => context.reporter.human(&text),
        None => context.reporter.detail(&text),
    }
    told
}
