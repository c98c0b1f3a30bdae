//! `sort` of lines: the results of GNU sort with the same options, at the speed of the drives.
//!
//! Contract: options that exclude each other are rejected before anything is read. `-c` and `-C`
//! only read; for disorder the exit code is 1, with GNU's words on standard error. `-m` merges as
//! it reads. [`GnuOrder`] decides on the order, and the engine does the work. Long CSV that goes to
//! a file is first sorted as if each line were a record. If that fails, all records are scanned and
//! the sort runs again.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use outcore::job::ItemHash;
use outcore::key::sort_key::{SharedKey, SortKey};
use outcore::primitives::{PassPlan, plan_files, plan_merge_of_lines};
use outcore::sort::lines::{
    LineSortOptions, LineSummary, check_lines, merge_lines, plan_lines, sample_lines, sort_lines,
};
use outcore::{Error, Forecast, Kind, Phase, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{self, Source, Streams};
use outcore_front::output::{Consent, Sink, Target};
use outcore_front::resources::Resources;
use outcore_front::streams::StreamReader;
use outcore_front::text::csv_files::{CsvSort, Look};
use outcore_front::text::fastq::FastqOrder;
use outcore_front::text::fastq_files;
use outcore_front::text::gnu::debug::Debug;
use outcore_front::text::gnu::{GnuOrder, GnuSort};
use outcore_front::text::json::JsonFields;
use outcore_front::text::output::{Dress, PlainFor};
use outcore_front::volumes::fresh_seed;
use serde_json::json;

use super::page::{SortArgs, SortSummary};
use crate::host::Host;
use crate::lines::{LineDone, LineJob, LineRequest, Overwrite, fastq_options};
use crate::option::lines::{CheckHow, FormatArgs};
use crate::option::{OnError, plain_for};
use crate::report::Phase as ReportedPhase;

/// Bytes of a line that a message shows.
const SHOWN_BYTES: usize = 4096;
const READ: &str = "read arguments";
const READ_NAMES: &str = "read names of inputs";

/// Notes that scratch needs no compression program.
fn note_compression(host: &dyn Host, args: &SortArgs) {
    if args.gnu.compress_program.is_some() {
        host.detail("--compress-program is not needed: scratch is not compressed");
    }
}

/// Sorts, merges or checks lines, CSV and JSON lines; `text` has the kind that was recognised.
pub(super) fn sort(
    host: &dyn Host,
    args: &SortArgs,
    text: &FormatArgs,
    resources: Resources,
    found: Option<Vec<Source>>,
) -> Result<SortSummary> {
    // An invalid option is reported before anything is read.
    let seed = random_seed(host, args)?;
    let order = order_of(args, text, seed)?;
    let plain_for = plain_for(args.journal, args.check_output);
    plain_for.map_or(Ok(()), |plain_for| check_plain(args, plain_for))?;
    let inputs = input_names(host, args)?;
    refuse_several(args, &inputs)?;
    note_locale(host);
    note_compression(host, args);
    let debug = debug_of(host, args)?;
    let in_place = match inputs.as_slice() {
        [one] if args.replace => Some(one.as_path()),
        _ => None,
    };
    if let Some(input) = in_place {
        host.names().refuse_change(input)?;
    }
    let request = LineRequest {
        inputs: &inputs,
        output: args.output.as_deref().or(in_place),
        overwrite: overwrite_of(host, args, text),
        record_io: &args.job.record_io,
        force: args.force,
        takes_records: false,
        frames_fastq: text.fastq,
        plain_for,
        recognition: recognition_of(host, args, text)?,
    };
    let unit = if text.fastq { "read" } else { "line" };
    let is_resumed = args.journal.resume;
    let mut lines = LineJob::prepare_found(host, resources, &request, found)?;
    let options = LineSortOptions {
        terminator: args.lines.terminator(),
        unique: args.unique,
        replace: lines.replace,
        on_no_key: args.tables.on_no_key(&text.by)?,
        ..LineSortOptions::default()
    };
    let look = look_at(args, &lines);
    if text.jsonl {
        lines.settle_json()?;
    }
    let csv = text.csv.then(|| csv_of(args, text, seed)).transpose()?;
    let as_found = lines.files.clone();
    let settled = csv.as_ref().map(|csv| lines.settle_csv(host, csv, look));
    let settled = settled.transpose()?;
    let header = lines.settle_header(host, &args.header.rule(), options.terminator)?;
    let plain = match text.fastq {
        true => fastq_files::dress(),
        false => dress_of(&request, header),
    };
    let options = fastq_options(text, options);
    let (order, dress, options) = match &settled {
        Some(csv) => (&csv.order as &dyn SortKey, &csv.dress, csv.options(options)),
        None => (order.as_ref() as &dyn SortKey, &plain, options),
    };
    if args.is_check() {
        return check(host, args, lines, order, options);
    }
    let merge_plan = || plan_merge_of_lines(&lines.job, &lines.inputs(), options.unique);
    let merge_plan = args.gnu.merge.then(merge_plan).transpose()?;
    if args.explain || args.dry_run {
        let _output = lines.set_aside(dress)?;
        let plan = plan_text(host, &lines, merge_plan.as_ref(), order, options)?;
        if args.dry_run {
            host.print_plan(&plan, json!({"text": plan}));
            return Ok(SortSummary::of(lines.report(
                host,
                unit,
                LineDone::default(),
            )?));
        }
        host.show_plan(&plan);
    }
    lines.keep_plain(host, plain_for, || identity_of(host, args, text))?;
    lines.job.options.sums_items = args.sums.checksum.then_some(ItemHash::Usual);
    lines.begin(host, json!({}));
    let run = |lines: &LineJob, dress: &Dress, order: &dyn SortKey, options| {
        run(host, args, lines, dress, order, options, debug.as_ref())
    };
    let mut done = run(&lines, dress, order, options);
    if let (Some(csv), Look::Ends, Err(error)) = (&csv, look, &done)
        && is_of_input(&lines, error)
    {
        // A record spans lines, or there is an error that only a scan of all records can explain.
        lines.files = as_found;
        let csv = lines.settle_csv(host, csv, Look::Whole)?;
        done = run(&lines, &csv.dress, &csv.order, csv.options(options));
    }
    let resuming = lines.resuming(is_resumed);
    let mut summary = done.map_err(|error| resuming.explain(host, error))?;
    if let Some(plan) = &merge_plan {
        plan.beside(&mut summary.phases);
    }
    let done = LineDone::of_sort(&summary);
    Ok(SortSummary::of(lines.report(host, unit, done)?).with_totals(summary.totals))
}

/// Sorts or merges lines into the output.
fn run(
    host: &dyn Host,
    args: &SortArgs,
    lines: &LineJob,
    dress: &Dress,
    order: &dyn SortKey,
    options: LineSortOptions,
    debug: Option<&Arc<Debug>>,
) -> Result<LineSummary> {
    let (output, pending) = match plain_for(args.journal, args.check_output) {
        Some(plain_for) => lines.open_file(dress, plain_for)?,
        None => lines.open_output_through(host, dress, |sink| match debug {
            Some(debug) => Underlined::before(sink, debug, options.terminator),
            None => sink,
        })?,
    };
    let run = if args.gnu.merge {
        merge_lines
    } else {
        sort_lines
    };
    lines.watch(host, || {
        pending.finish(run(&lines.job, &lines.inputs(), output, order, options))
    })
}

/// Rejects forms of a sort that cannot be resumed, or whose output cannot be verified.
fn check_plain(args: &SortArgs, plain_for: PlainFor) -> Result<()> {
    let is_resumed = plain_for == PlainFor::Resume;
    let is_to_stdout = match args.output.as_deref() {
        Some(output) => inputs::is_stdout(output),
        None => !args.replace,
    };
    let has_seed = args.seed.is_some() || args.gnu.random_source.is_some();
    let (cause, hint) = if args.gnu.merge && is_resumed {
        ("a merge cannot be resumed", "leave -m out")
    } else if args.gnu.merge {
        ("the output of a merge cannot be verified", "leave -m out")
    } else if args.gnu.debug && is_resumed {
        (
            "--debug goes to a pipe, which cannot be continued",
            "leave --debug out",
        )
    } else if args.gnu.debug {
        (
            "--debug writes more than the lines of the input",
            "leave --debug out",
        )
    } else if is_to_stdout {
        return Err(plain_for.not_one_file());
    } else if is_resumed && is_random(args) && !has_seed {
        (
            "-R has another order in each run",
            "choose an order with --seed",
        )
    } else {
        return Ok(());
    };
    Err(plain_for.refuse(cause, hint))
}

/// Whether the order may be random.
fn is_random(args: &SortArgs) -> bool {
    let has_letter = |key: &String| key.contains('R');
    let mut keys = args.order.line_keys.iter().chain(&args.record.keys);
    args.order.is_random() || keys.any(has_letter) || args.text.by.iter().any(has_letter)
}

/// The order and the form of the lines, as text. Two runs of one job have the same text.
fn identity_of(host: &dyn Host, args: &SortArgs, text: &FormatArgs) -> Result<String> {
    let mut spec = args.order.to_spec(args.descending, args.stable)?;
    spec.keys.extend(args.record.keys.iter().cloned());
    spec.by.clone_from(&text.by);
    let mut words = text.said(&args.header, &spec);
    if let Some(path) = &args.gnu.random_source {
        // Two runs are the same job if the bytes of the file are equal; its name does not matter.
        let seed = seed_of(host, path)?;
        words = format!("{words} --random-source {} --seed {seed}", path.display());
    }
    if is_random(args)
        && args.gnu.random_source.is_none()
        && let Some(seed) = args.seed
    {
        words = format!("{words} --seed {seed}");
    }
    Ok(words)
}

/// The plan in words: of the merge, or else of the sort.
fn plan_text(
    host: &dyn Host,
    lines: &LineJob,
    merge_plan: Option<&PassPlan>,
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<String> {
    if let Some(plan) = merge_plan {
        return Ok(plan.to_string());
    }
    let size = lines.watch(host, || {
        sample_lines(&lines.job, &lines.inputs(), order, options)
    })?;
    plan_lines(size).map(|plan| plan.to_string())
}

/// The files that the output may replace. With an option that GNU sort does not have, or on a host
/// without streams, the rule of all other commands applies.
fn overwrite_of(host: &dyn Host, args: &SortArgs, text: &FormatArgs) -> Overwrite {
    let is_of_gnu = !text.csv && !text.jsonl && !text.fastq;
    match host.streams() {
        Streams::Refused => Overwrite::of_consent(Consent {
            force: args.force,
            replace: args.replace,
        }),
        Streams::Taken if is_of_gnu || args.force || args.replace => Overwrite::Anything,
        Streams::Taken => Overwrite::Nothing,
    }
}

/// How much of CSV files is scanned before the sort: little, if a failed sort shows none of its
/// output and can be repeated.
fn look_at(args: &SortArgs, lines: &LineJob) -> Look {
    let is_only_sorted = !args.is_check() && !args.gnu.merge && !args.explain && !args.dry_run;
    // A resumed sort must not find records that span lines in a place that the killed sort did not
    // scan.
    let is_repeatable = matches!(lines.target, Target::File(_))
        && !args.gnu.debug
        && plain_for(args.journal, args.check_output).is_none();
    match is_only_sorted && is_repeatable && args.tables.on_error != Some(OnError::Skip) {
        true => Look::Ends,
        false => Look::Whole,
    }
}

/// Whether the contents of an input may be the cause of an error. A sort that reads records as
/// lines may also need another amount of scratch.
fn is_of_input(lines: &LineJob, error: &Error) -> bool {
    let mut files = lines.files.iter();
    let is_in = |path: &Path| files.any(|file| file.path == path || file.name == path);
    match error.kind() {
        Kind::Corrupt => error.file_path().is_some_and(is_in),
        Kind::NoSpace => true,
        _ => false,
    }
}

/// The data that may be read as lines.
fn recognition_of(host: &dyn Host, args: &SortArgs, text: &FormatArgs) -> Result<Recognition> {
    Ok(match host.is_gnu() && !text.is_given() {
        // For GNU sort, bytes of any kind are lines, including those of compressed files.
        true => Recognition::ANYTHING,
        false => args
            .lines
            .recognition(args.order.separator()?)
            .telling_header(!has_said_lines(args, text) && !args.is_check()),
    })
}

/// Whether an option shows that the user knows how the first line is treated.
pub(super) fn has_said_lines(args: &SortArgs, text: &FormatArgs) -> bool {
    args.lines.is_lines() || args.header.is_given() || args.order.is_given() || text.is_given()
}

/// The form of lines that are not CSV, after `header`. For GNU sort, the name of the output has no
/// meaning.
fn dress_of(request: &LineRequest<'_>, header: Vec<u8>) -> Dress {
    Dress {
        header,
        is_plain: request.recognition.takes_packed,
        ..Dress::default()
    }
}

/// Rejects several inputs of a check: each of them would have an order of its own.
fn refuse_several(args: &SortArgs, inputs: &[PathBuf]) -> Result<()> {
    let Some(extra) = inputs.get(1).filter(|_| args.is_check()) else {
        return Ok(());
    };
    let letter = if args.gnu.check_silently { 'C' } else { 'c' };
    let cause = format!(
        "extra operand '{}' not allowed with -{letter}",
        extra.display()
    );
    Err(Error::usage(READ, cause).hint("check one file at a time"))
}

/// The order of lines. The order of CSV is known only after the header has been read.
pub(super) fn order_of(args: &SortArgs, text: &FormatArgs, seed: u64) -> Result<SharedKey> {
    text.check(&args.order, args.lines)?;
    if text.jsonl {
        if args.order.is_given() {
            return Err(
                Error::usage(READ, "letters and separators are not for JSON lines")
                    .hint("values compare by their types; for descending order write .price:desc"),
            );
        }
        let is_stable = args.stable || args.unique;
        let order = JsonFields::new(&text.by, args.descending, is_stable)?;
        return Ok(Arc::new(order));
    }
    if text.fastq {
        let is_stable = args.stable || args.unique;
        let order = FastqOrder::new(&text.by, args.descending, is_stable)?;
        return Ok(Arc::new(order));
    }
    Ok(Arc::new(GnuOrder::new(&gnu_sort(args, seed)?)?))
}

/// The options of GNU sort.
fn gnu_sort(args: &SortArgs, seed: u64) -> Result<GnuSort> {
    let mut sort = args.order.to_sort(args.descending, &args.record.keys)?;
    for key in &args.gnu.old_keys {
        if let Some(key) = sort.keys.get_mut(*key) {
            *key = key.of_old_form();
        }
    }
    sort.stable = args.stable;
    sort.unique = args.unique;
    sort.seed = seed;
    Ok(sort)
}

/// The seed of `-R`. Without an option it differs in each run, as in GNU sort.
fn random_seed(host: &dyn Host, args: &SortArgs) -> Result<u64> {
    match (&args.gnu.random_source, args.seed) {
        (Some(path), _) => seed_of(host, path),
        (None, Some(seed)) => Ok(seed),
        (None, None) => Ok(fresh_seed()),
    }
}

/// Notes on a terminal that the locale's order is not used.
fn note_locale(host: &dyn Host) {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_COLLATE", "LANG"].into_iter().find_map(set);
    // The locales POSIX, C and C.UTF-8 order lines by their bytes.
    let is_by_bytes = |locale: &String| locale == "POSIX" || locale.split('.').next() == Some("C");
    if let Some(locale) = locale.filter(|locale| !is_by_bytes(locale))
        && host.has_watchers()
    {
        host.note(&format!(
            "lines are compared by their bytes, as under LC_ALL=C, not by the rules of {locale}"
        ));
    }
}

/// The output of `--debug`, after its warnings; nothing without it.
fn debug_of(host: &dyn Host, args: &SortArgs) -> Result<Option<Arc<Debug>>> {
    if !args.gnu.debug {
        return Ok(None);
    }
    let debug = Debug::new(&gnu_sort(args, 0)?);
    for warning in debug.warnings() {
        host.say(&format!("sort: {warning}"));
    }
    Ok(Some(Arc::new(debug)))
}

/// Lines with their keys underlined, on the way to a pipe.
struct Underlined {
    debug: Arc<Debug>,
    terminator: u8,
    /// The beginning of the next line.
    line: Vec<u8>,
    below: Sink,
}

impl Underlined {
    fn before(below: Sink, debug: &Arc<Debug>, terminator: u8) -> Sink {
        Box::new(Underlined {
            debug: Arc::clone(debug),
            terminator,
            line: Vec::new(),
            below,
        })
    }
}

impl Write for Underlined {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut shown = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == self.terminator) {
            match part.strip_suffix(&[self.terminator]) {
                Some(end) => {
                    self.line.extend_from_slice(end);
                    self.debug.write_line(&self.line, &mut shown);
                    self.line.clear();
                }
                None => self.line.extend_from_slice(part),
            }
        }
        self.below.write_all(&shown)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.below.flush()
    }
}

/// The options of a sort of CSV.
pub(super) fn csv_of(args: &SortArgs, text: &FormatArgs, seed: u64) -> Result<CsvSort> {
    Ok(CsvSort {
        by: text.by.clone(),
        separator: args.order.separator()?,
        has_header: !text.no_header,
        global: args.order.global(args.descending),
        stable: args.stable || args.unique,
        seed,
    })
}

/// A number from the first bytes of a file.
fn seed_of(host: &dyn Host, path: &Path) -> Result<u64> {
    use std::hash::{DefaultHasher, Hasher};
    const BYTES_MAX: u64 = 1 << 20;
    let mut bytes = Vec::new();
    let failed = |error| {
        Error::io("read random source", &error)
            .path(path)
            .hint("check the path")
    };
    let file: Box<dyn Read + '_> = match host.names().input(path)? {
        Some(dataset) => dataset.open()?,
        None => Box::new(StreamReader::at(path, || host.check()).map_err(failed)?),
    };
    file.take(BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| host.check().err().unwrap_or(failed(error)))?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    Ok(hasher.finish())
}

/// The names of the inputs, from arguments or a file of names.
fn input_names(host: &dyn Host, args: &SortArgs) -> Result<Vec<PathBuf>> {
    let Some(list) = &args.gnu.files0_from else {
        let is_in_place = args.replace && args.output.is_none();
        return match (is_in_place, args.inputs.len()) {
            (true, 0 | 2..) => Err(Error::usage(READ, "--replace without -o")
                .hint("name one input, or the output with -o")),
            _ => Ok(args.inputs.clone()),
        };
    };
    let is_stdin = list.as_os_str() == "-";
    let failed = |error| {
        Error::io(READ_NAMES, &error)
            .path(list)
            .hint("check the path")
    };
    let stop = || host.check();
    let mut file: Box<dyn Read + '_> = match (is_stdin, host.names().input(list)?) {
        // The library's stream is unsuitable: it treats a closed stream as an empty one.
        (true, _) => Box::new(StreamReader::standard_input(stop).map_err(failed)?),
        (false, Some(dataset)) => dataset.open()?,
        (false, None) => Box::new(StreamReader::at(list, stop).map_err(failed)?),
    };
    let mut bytes = Vec::new();
    let read = file.read_to_end(&mut bytes);
    read.map_err(|error| host.check().err().unwrap_or(failed(error)))?;
    let wrong = |cause: String, hint: &str| Err(Error::usage(READ_NAMES, cause).hint(hint));
    let end = "end each name with a NUL, as find -print0 does";
    if bytes.is_empty() {
        return wrong(format!("no input from '{}'", list.display()), end);
    }
    let mut names = Vec::new();
    let whole = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    for (number, name) in (1..).zip(whole.split(|byte| *byte == 0)) {
        let name = PathBuf::from(OsStr::from_bytes(name));
        if name.as_os_str().is_empty() {
            let place = list.display();
            return wrong(
                format!("{place}:{number}: invalid zero-length file name"),
                end,
            );
        }
        if is_stdin && name.as_os_str() == "-" {
            let cause = "when reading file names from standard input, no file name of '-' allowed";
            return wrong(cause.to_string(), "put the names into a file");
        }
        names.push(name);
    }
    Ok(names)
}

fn check(
    host: &dyn Host,
    args: &SortArgs,
    lines: LineJob,
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<SortSummary> {
    lines.begin(host, json!({}));
    let started = Instant::now();
    let (plan, found) = lines.watch(host, || {
        let (files, steps) = (lines.inputs(), "read lines -> check");
        let plan = plan_files(&lines.job, &files, 1, steps, "check", |bytes| {
            (bytes.into(), Forecast::NOTHING)
        })?;
        let found = check_lines(&lines.job, &lines.inputs(), order, options)?;
        Ok((plan, found))
    })?;
    let Some(disorder) = found else {
        let done = checked(&lines, started, &plan);
        return Ok(SortSummary {
            wrote: lines.report(host, "line", done)?,
            is_sorted: Some(true),
            checksum: None,
        });
    };
    if args.gnu.check_silently || args.check == Some(CheckHow::Quiet) {
        return Ok(SortSummary {
            wrote: lines.report(host, "line", LineDone::default())?,
            is_sorted: Some(false),
            checksum: None,
        });
    }
    let name = lines.name_of(&disorder.path);
    let mut sources = lines.sources.iter();
    let is_stream = sources.any(|source| source.is_stream() && source.name == name);
    // GNU sort has no other name for standard input, even if it is a file.
    let is_unnamed =
        args.gnu.files0_from.is_none() && args.inputs.iter().all(|name| name.as_os_str() == "-");
    let name = match is_stream || (is_unnamed && host.is_gnu()) {
        true => "-".to_string(),
        false => name.display().to_string(),
    };
    let shown = &disorder.line[..disorder.line.len().min(SHOWN_BYTES)];
    // The message shows only the first line of a record of several lines.
    let end = |byte: &u8| Some(*byte) == options.inner_end;
    let shown = &shown[..shown.iter().position(end).unwrap_or(shown.len())];
    let text = String::from_utf8_lossy(shown);
    let cause = format!("{name}:{}: disorder: {text}", disorder.line_number);
    Err(Error::new(Kind::CheckFailed, "sort", cause).hint("sort it with the same options"))
}

/// The phases of a check that found no disorder, compared with its plan.
fn checked(lines: &LineJob, started: Instant, plan: &PassPlan) -> LineDone {
    let read_bytes = lines.job.control.progress().read_bytes;
    let phase = Phase {
        name: "check",
        seconds: started.elapsed().as_secs_f64(),
        read_bytes,
        written_bytes: 0,
        predicted: plan.phases.first().cloned(),
    };
    LineDone {
        passes: 1,
        read_bytes,
        phases: ReportedPhase::of_engine([&phase]),
        ..LineDone::default()
    }
}
