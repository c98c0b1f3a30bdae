//! Distinct values and records, and how often each occurs: `count-by`, and `unique` of records.
//!
//! Contract: a plan that is made from a sample decides whether distinct values are found with a
//! hash table, in one read, or by a sort ([`outcore::primitives::group`]). The report says which of
//! the two was used. Values are equal if their bytes are equal, and the results are in the order of
//! the values. Counts go to a file as records, or to standard output as text; a report has at most
//! [`GROUPS_MAX`] of them. A terminal shows up to [`BARS_MAX`] counts as bars.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, ValueHint};
use outcore::Output;
use outcore::dataset::{Step, Summary as Done};
use outcore::key::NumberType;
use outcore::primitives::group::{GroupPlan, group, plan_group};
use outcore::primitives::tables::scalar_of;
use outcore::primitives::{GroupedBy, Grouping};
use outcore::{Error, Result};
use outcore_front::output::{self, Consent, Holds, Sink, Target};
use outcore_front::records;
use outcore_front::resources::Resources;
use outcore_io::units;
use serde_json::{Value, json};

use super::args::{InputArgs, RowsArgs, TABLES_TOO, parse_expression};
use super::input::{self, Prepared, is_table, resources_of};
use super::number::{Number, ValueCount};
use super::run::plan_json;
use crate::bars::{Bar, chart};
use crate::host::{Host, Weight, check_output_named, watch};
use crate::report::{WriteSummary, report};
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{self, Said};

const COUNT_BY_EXAMPLES: &str = "\
Examples:
  outcore count-by 'x % 10' keys.bin --type u64
  outcore count-by key0 log.bin --record 16 --key 0:4:u32 | sort -k2,2nr | head
  outcore count-by x keys.bin --type u64 -o counts.npy
  outcore sort counts.npy --key count:desc -o by-frequency.npy
  outcore count-by country,lang t.parquet -o counts.csv --by-count

`outcore unique --count` counts whole records of any kind, and lines.";

/// Count how often each value occurs
///
/// Prints each value and its count, in the order of the values; with -o, writes them as records of
/// the value and an 8-byte count. Values are counted in memory, or with a sort if there are too
/// many distinct ones; --explain shows which of the two applies. For tables, EXPR is one column or
/// several separated by commas, and OUT is a table of these columns and `count`. `outcore group-by`
/// has other aggregates.
#[derive(Debug, Args)]
#[command(
    after_long_help = COUNT_BY_EXAMPLES,
    mut_arg("inputs", |arg| arg.help(TABLES_TOO)),
    mut_arg("parts", |option| option.hide(true)),
)]
pub(crate) struct CountByArgs {
    /// The value to count; x is a plain number. For tables, names of columns
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) by: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Put the most frequent values first
    #[arg(long, help_heading = "Tables (Parquet and Arrow)")]
    pub(crate) by_count: bool,
    #[command(flatten)]
    pub(crate) rows: RowsArgs,
    /// Output file for records of value and count (.npy gets the fields value and count), or -
    /// for standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, help_heading = "Files")]
    pub(crate) output: Option<PathBuf>,
}

/// Bytes of a count.
const COUNT_BYTES: usize = 8;
/// The largest number of groups in a report, which is one line and made in memory.
const GROUPS_MAX: usize = 1 << 16;
/// Counts that a terminal shows as bars at most.
const BARS_MAX: usize = 200;
const PHASES: &[Weight] = &[("sample", 0.02), ("count", 1.0)];

/// The request.
pub(crate) struct GroupRequest<'a> {
    /// The verb, in messages.
    pub what: &'static str,
    /// The input.
    pub input: &'a InputArgs,
    /// The destination of the result; standard output if there is none.
    pub output: Option<&'a Path>,
    /// Whether equal records are counted.
    pub grouping: Grouping,
}

report! {
    /// The result of finding different lines, records, rows or values, or of counting them.
    pub(crate) struct UniqueSummary {
        [wrote: WriteSummary],
        /// The method that found equal records or values: `hash` or `sort`; none for lines and
        /// rows.
        by: Option<String>,
        /// Each value and its count, in the order of the values; none if they were printed or
        /// written, and for `unique`.
        groups: Option<Vec<ValueCount>>,
    }
}

/// The verb.
pub(crate) struct CountBy;

impl Verb for CountBy {
    const NAME: &'static str = "count-by";
    const INPUTS: Inputs = Inputs::Any;
    const ALIASES: &'static [&'static str] = &["count_by"];
    type Args = CountByArgs;
    type Report = UniqueSummary;
    const PHASES: &'static [Weight] = PHASES;

    fn run(host: &dyn Host, args: &CountByArgs) -> Result<UniqueSummary> {
        if is_table(host, &args.input, &args.rows)? {
            #[cfg(feature = "tables")]
            {
                let ends = super::table::Ends {
                    input: &args.input,
                    output: args.output.as_deref(),
                    rows: &args.rows,
                };
                let columns = &args.by;
                let wrote = super::table::count_by(host, &ends, columns, args.by_count)?;
                return Ok(UniqueSummary::of(wrote));
            }
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        let request = GroupRequest {
            what: CountBy::NAME,
            input: &args.input,
            output: args.output.as_deref(),
            grouping: Grouping::Counted,
        };
        run(host, &request, Some(&args.by))
    }

    fn say(args: &CountByArgs, report: &UniqueSummary, words: &mut Words) {
        if report.is_of_rows() {
            wording::say(&report.wrote, &said(report), args.input.explain, words);
        } else if !args.input.dry_run {
            say(CountBy::NAME, report, args.input.explain, words);
        }
    }

    fn headline(report: &UniqueSummary) -> String {
        match report.is_of_rows() {
            true => wording::headline(&report.wrote, &said(report)),
            false => headline(CountBy::NAME, report),
        }
    }

    fn takes_stdout(args: &CountByArgs) -> bool {
        let output = args.output.as_deref();
        output.is_some_and(|output| args.input.is_written_to_stdout(output))
            || args.rows.tables.to.is_some()
    }
}

impl UniqueSummary {
    /// The summary for lines, rows, or records that were sorted.
    pub(crate) fn of(wrote: WriteSummary) -> Self {
        UniqueSummary {
            wrote,
            by: None,
            groups: None,
        }
    }

    fn is_of_rows(&self) -> bool {
        self.wrote.unit == "row"
    }
}

/// The counts of a table in words.
fn said(report: &UniqueSummary) -> Said<'static> {
    let values = units::counted(report.wrote.used.records, "value");
    let rows = units::counted(report.wrote.records_in.unwrap_or(0), "row");
    Said::amount("counted", format!("{values} in {rows}"))
}

/// The result of the verb `what` on records, in a line.
pub(crate) fn headline(what: &str, report: &UniqueSummary) -> String {
    let used = &report.wrote.used;
    format!(
        "{what}: {} in, {} different, by {}, {} in {}: {}",
        units::counted(report.wrote.records_in.unwrap_or(0), "record"),
        units::count(used.records),
        report.by.as_deref().unwrap_or_default(),
        units::bytes(used.read_bytes),
        units::seconds(used.seconds),
        units::rate_decimal(used.read_bytes as f64 / used.seconds.max(1e-9)),
    )
}

/// Reports the result of the verb `what` on records. If standard output has the result, only users
/// who asked for more see this line.
pub(crate) fn say(what: &str, report: &UniqueSummary, is_explained: bool, words: &mut Words) {
    let text = headline(what, report);
    match report.wrote.files {
        0 => words.detail(&text),
        _ => words.lines(&text),
    }
    words.lines(&report.wrote.used.bandwidth_text().unwrap_or_default());
    words.phases(&report.wrote.phases, is_explained);
}

/// Distinct records, as records.
///
/// # Errors
/// As [`outcore::primitives::group`].
pub(crate) fn of_records(host: &dyn Host, request: &GroupRequest<'_>) -> Result<UniqueSummary> {
    run(host, request, None)
}

/// Finds distinct values of the expression `by`, or distinct records without one.
fn run(host: &dyn Host, request: &GroupRequest<'_>, by: Option<&String>) -> Result<UniqueSummary> {
    let input = request.input;
    let is_text = by.is_some() && request.output.is_none();
    let resources = resources_of(host, input)?;
    let target = target_of(host, request, &resources, is_text)?;
    let mut prepared = input::prepare(host, input, resources, Some(&target))?;
    if let Some(by) = by {
        prepared.execution.then(Step::Map(by.clone()))?;
    }
    if input.is_planned() {
        let (job, table) = (&prepared.job, prepared.table()?);
        let plan = watch(host, &job.control, &[], || {
            plan_group(job, table, table.format(), request.grouping, request.what)
        })?;
        match input.dry_run {
            true => {
                host.print_plan(&plan, group_plan_json(&plan));
                let wrote = prepared.wrote(host, None, &Done::default())?;
                return Ok(UniqueSummary::of(wrote));
            }
            false => host.show_plan(&plan),
        }
    }
    let written = (!is_text).then_some(&target);
    prepared.begin(host, written)?;
    let groups = Arc::new(Mutex::new(Vec::new()));
    let to = match is_text {
        true => text_output(host, &prepared, &groups)?,
        false => record_output(host, request, &prepared, &target)?,
    };
    let (job, table) = (&prepared.job, prepared.table()?);
    // Text output needs numbers in the byte order of this machine.
    let table = &match is_text {
        true => table.numbers()?.0,
        false => table.clone(),
    };
    let done = watch(host, &job.control, PHASES, || {
        group(
            job,
            table,
            table.format(),
            request.grouping,
            &to,
            input.force,
        )
    });
    let groups = std::mem::take(&mut *groups.lock().unwrap_or_else(PoisonError::into_inner));
    let done = match done {
        Err(_) if groups.len() > GROUPS_MAX => {
            let cause = format!("more than {GROUPS_MAX} values are too many for a summary");
            return Err(Error::usage("count", cause).hint("write them to a file with -o"));
        }
        done => done?,
    };
    if let Some(columns) = host.terminal_columns().filter(|_| is_text && host.prints()) {
        let bars: Vec<Bar> = groups.iter().map(bar_of).collect();
        let mut pipe = host.open_pipe(None, &prepared.job.control)?;
        let drawn = pipe.write_all(chart(&bars, columns).as_bytes());
        let drawn = drawn.and_then(|()| pipe.flush());
        drawn.map_err(|error| Error::io("write", &error))?;
    }
    Ok(UniqueSummary {
        wrote: prepared.wrote(host, written, &done.pass)?,
        by: Some(name_of(done.by).to_owned()),
        groups: (is_text && !host.prints()).then_some(groups),
    })
}

fn target_of(
    host: &dyn Host,
    request: &GroupRequest<'_>,
    resources: &Resources,
    is_text: bool,
) -> Result<Target> {
    let force = request.input.force;
    let Some(name) = request.output else {
        let target = Target::Pipe(None);
        if !is_text {
            check_output_named(host)?;
            let consent = Consent {
                force,
                replace: false,
            };
            output::check_terminal(&target, Holds::Records, consent)?;
        }
        return Ok(target);
    };
    let sources = input::sources(host, request.input)?;
    let name = host.names().output(name, force)?;
    let (specs, streams) = (resources.specs(), host.streams());
    let name = Some(&*name);
    let target = output::choose_new(name, &sources, specs, force, streams, Holds::Records)?;
    match &target {
        Target::Shards { manifest, .. } => Err(Error::usage(
            "create output",
            "distinct records go to one file, not to shards: their number is known only at the end",
        )
        .path(manifest)
        .hint(
            "leave {drive} out of the name; scratch is still spread over the drives, and `outcore \
             sort` makes shards of the result",
        )),
        _ => Ok(target),
    }
}

/// A plan for programs.
fn group_plan_json(plan: &GroupPlan) -> Value {
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
    fields
}

fn name_of(by: GroupedBy) -> &'static str {
    match by {
        GroupedBy::Hash => "hash",
        GroupedBy::Sort => "sort",
    }
}

/// A file of records, or records to standard output.
fn record_output(
    host: &dyn Host,
    request: &GroupRequest<'_>,
    prepared: &Prepared,
    target: &Target,
) -> Result<Output> {
    let item = prepared.execution.item()?;
    let is_array = |path: &Path| path.extension().is_some_and(|end| end == "npy");
    let header = match (target, request.grouping) {
        (Target::File(path), grouping) if grouping.is_counted() && is_array(path) => {
            Some(records::counted_header(&item).map_err(|error| error.path(path))?)
        }
        _ => output::header_for(target, &prepared.inputs, &item)?,
    };
    let control = &prepared.job.control;
    target.to_sort(header, |path| host.open_pipe(path, control))
}

fn bar_of(group: &ValueCount) -> Bar {
    Bar {
        label: group.value.0.to_string(),
        count: group.count,
    }
}

/// Lines of value and count, or both in a summary.
fn text_output(
    host: &dyn Host,
    prepared: &Prepared,
    groups: &Arc<Mutex<Vec<ValueCount>>>,
) -> Result<Output> {
    let (_, kind) = prepared.table()?.numbers()?;
    let pipe = || host.open_pipe(None, &prepared.job.control);
    let to = match (host.prints(), host.terminal_columns()) {
        (true, None) => To::Pipe(pipe()?),
        (true, Some(_)) => To::Terminal {
            held: Arc::clone(groups),
            pipe: pipe()?,
        },
        (false, _) => To::Summary(Arc::clone(groups)),
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
    Summary(Arc<Mutex<Vec<ValueCount>>>),
    /// Values are held, to be drawn as bars. Once there are too many, they are written as lines.
    Terminal {
        held: Arc<Mutex<Vec<ValueCount>>>,
        pipe: Sink,
    },
}

/// Turns records of a value and a count into text.
struct Texts {
    kind: NumberType,
    group_bytes: usize,
    /// The bytes of an incomplete record.
    rest: Vec<u8>,
    to: To,
}

fn write_lines(pipe: &mut Sink, groups: impl Iterator<Item = ValueCount>) -> io::Result<()> {
    let lines = groups.map(|group| format!("{}\t{}\n", group.value.0, group.count));
    pipe.write_all(lines.collect::<String>().as_bytes())
}

impl Write for Texts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole_bytes = self.rest.len() / self.group_bytes * self.group_bytes;
        let groups = self.rest[..whole_bytes].chunks_exact(self.group_bytes);
        let groups = groups.map(|group| {
            let (value, count) = group.split_at(self.group_bytes - COUNT_BYTES);
            ValueCount {
                value: Number(scalar_of(self.kind, value)),
                count: count.try_into().map_or(0, u64::from_le_bytes),
            }
        });
        match &mut self.to {
            To::Pipe(pipe) => write_lines(pipe, groups)?,
            To::Summary(all) => {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend(groups);
                if all.len() > GROUPS_MAX {
                    return Err(io::Error::other("more values than a summary has"));
                }
            }
            To::Terminal { held, pipe } => {
                let mut all = held.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend(groups);
                if all.len() > BARS_MAX {
                    write_lines(pipe, all.drain(..))?;
                    drop(all);
                    let pipe = std::mem::replace(pipe, Box::new(io::sink()));
                    self.to = To::Pipe(pipe);
                }
            }
        }
        self.rest.drain(..whole_bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Pipe(pipe) | To::Terminal { pipe, .. } => pipe.flush(),
            To::Summary(_) => Ok(()),
        }
    }
}
