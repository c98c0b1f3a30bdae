//! The common part of verbs on lines: inputs that become files, outputs of any kind, one job.
//!
//! Contract: [`LineJob::prepare`] finds the inputs; chooses the output and makes all checks that
//! need no work; copies streams and unpacks compressed files to scratch; and makes a job, in this
//! order. A failure leaves nothing behind. Without a name, input is standard input and output
//! standard output.

use std::path::{Path, PathBuf};

use outcore::job::Job;
use outcore::key::{NpyHeader, RecordFormat};
use outcore::read::text_kind::TextKind;
use outcore::sort::lines::{LineSortOptions, LineSummary};
use outcore::{DriveTraffic, Error, Input, Output, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{self, ResolvedInput, Source, bytes_of};
use outcore_front::output::{self as targets, Consent, Holds, Sink, Target};
use outcore_front::records::{self, TypeRequest};
use outcore_front::resources::Resources;
use outcore_front::spool::{self, LateSpool, Spool};
use outcore_front::text::csv_files::{CsvSort, Look, SortedCsv};
use outcore_front::text::fastq_files::{RECORD_END, framed};
use outcore_front::text::header::HeaderRule;
use outcore_front::text::header_files::take_headers;
use outcore_front::text::json_files::skip_marks;
use outcore_front::text::output::{self as text_output, Dress, Pending, PlainFor, not_one_file};
use outcore_front::text::reader::Frame;
use outcore_front::what::{Asked, What};
use outcore_io::drive::paths::{self, FileKey, Metadata};
use outcore_io::units;
use serde_json::{Value, json};

use crate::host::{Host, Kept, check_output_named, watch};
use crate::option::RecordingArgs;
use crate::option::lines::{FormatArgs, LineArgs, Rows};
use crate::report::{Moved, Phase, Place, Plan, Stopwatch, WriteSummary};
use crate::resumed::{Resuming, may_exist, refuse_copies};
use crate::scratch::{note_scratch, scratch_drives};

/// The request of a command on lines.
pub(crate) struct LineRequest<'a> {
    /// Names of inputs; none for standard input.
    pub inputs: &'a [PathBuf],
    /// Name of the output; none for standard output.
    pub output: Option<&'a Path>,
    /// The files that the output may replace.
    pub overwrite: Overwrite,
    /// The destination of a trace.
    pub record_io: &'a RecordingArgs,
    /// Whether a trace that exists may be replaced.
    pub force: bool,
    /// Whether the input is records. Streams may then be arrays, and outputs shards.
    pub takes_records: bool,
    /// Whether the input is FASTQ, whose records are framed on scratch.
    pub frames_fastq: bool,
    /// An option that requires inputs that are read in place, and a plain file as output.
    pub plain_for: Option<PlainFor>,
    /// The data other than text that may be read as lines.
    pub recognition: Recognition,
}

impl LineRequest<'_> {
    /// How the input is recognised as lines, if it may be lines.
    fn lines(&self) -> Option<Recognition> {
        (!self.takes_records).then_some(self.recognition)
    }

    /// The contents of the output.
    fn holds(&self) -> Holds {
        match (self.takes_records, self.recognition.takes_packed) {
            (true, _) => Holds::Records,
            (false, true) => Holds::Bytes,
            (false, false) => Holds::Lines,
        }
    }

    /// The inputs. For GNU sort, a manifest is a file like any other.
    fn find(&self, host: &dyn Host) -> Result<Vec<Source>> {
        let known = host.names();
        match (self.holds(), self.inputs) {
            (Holds::Bytes, []) => inputs::find_as_named(&[PathBuf::from("-")], known),
            (Holds::Bytes, names) => inputs::find_as_named(names, known),
            (_, names) => find(host, names),
        }
    }

    /// Starts to record the run's I/O, if that is wanted.
    fn start_recording(
        &self,
        host: &dyn Host,
        resources: Resources,
        sources: &[Source],
        target: &Target,
    ) -> Result<Resources> {
        let kept = Kept {
            sources,
            target: Some(target),
            force: self.force,
            ..Kept::default()
        };
        host.start(resources, self.record_io.path(), kept)
    }
}

/// The files that an output may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// Any file, inputs included, as GNU sort does.
    Anything,
    /// Files that are not inputs.
    Others,
    /// An input, and no other file.
    Input,
    /// Nothing.
    Nothing,
}

impl Overwrite {
    /// The choice that `--force` makes.
    pub(crate) fn of(force: bool) -> Self {
        match force {
            true => Overwrite::Others,
            false => Overwrite::Nothing,
        }
    }

    /// The choice that `--force` and `--replace` make.
    pub(crate) fn of_consent(consent: Consent) -> Self {
        match (consent.force, consent.replace) {
            (true, true) => Overwrite::Anything,
            (false, true) => Overwrite::Input,
            (force, false) => Overwrite::of(force),
        }
    }
}

/// Bytes of copies of inputs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopiedBytes {
    /// Bytes of scratch that they take.
    pub held: u64,
    /// Bytes that were written to make them.
    pub written: u64,
}

/// Everything that is decided before lines are read.
pub(crate) struct LineJob {
    /// The resources of the job.
    pub resources: Resources,
    /// Inputs with the names that the user gave.
    pub sources: Vec<Source>,
    /// Files with their text.
    pub files: Vec<Source>,
    /// Bytes of the files.
    pub data_bytes: u64,
    /// The word for its items, in the plural.
    items: &'static str,
    /// The destination of the result.
    pub target: Target,
    /// Whether the output may take the place of another file.
    pub replace: bool,
    /// The engine's job.
    pub job: Job,
    /// Copies, which are removed on drop.
    spool: Option<Spool>,
    stopwatch: Stopwatch,
}

/// The inputs that were found, and the chosen output.
struct Settled {
    stopwatch: Stopwatch,
    sources: Vec<Source>,
    target: Target,
}

impl LineJob {
    /// Decides everything.
    pub(crate) fn prepare(
        host: &dyn Host,
        resources: Resources,
        request: &LineRequest<'_>,
    ) -> Result<Self> {
        Self::prepare_found(host, resources, request, None)
    }

    /// As [`LineJob::prepare`], for a job whose output is not a single file; the job itself checks
    /// the output's name. Inputs are copied and unpacked, or read as streams.
    pub(crate) fn prepare_parts(
        host: &dyn Host,
        resources: Resources,
        request: &LineRequest<'_>,
        is_copied: bool,
    ) -> Result<Self> {
        let stopwatch = Stopwatch::start();
        let sources = request.find(host)?;
        let settled = Settled {
            stopwatch,
            sources,
            target: Target::Pipe(None),
        };
        Self::prepare_settled(host, resources, request, settled, is_copied)
    }

    /// As [`LineJob::prepare`], for inputs that may have been `found` already.
    pub(crate) fn prepare_found(
        host: &dyn Host,
        resources: Resources,
        request: &LineRequest<'_>,
        found: Option<Vec<Source>>,
    ) -> Result<Self> {
        let stopwatch = Stopwatch::start();
        let sources = found.map_or_else(|| request.find(host), Ok)?;
        let target = choose_target(host, request, &sources, &resources, request.holds())?;
        let settled = Settled {
            stopwatch,
            sources,
            target,
        };
        Self::prepare_settled(host, resources, request, settled, true)
    }

    fn prepare_settled(
        host: &dyn Host,
        resources: Resources,
        request: &LineRequest<'_>,
        settled: Settled,
        is_copied: bool,
    ) -> Result<Self> {
        let Settled {
            stopwatch,
            sources,
            target,
        } = settled;
        // Wrong drives are reported before the command waits for a stream.
        resources.named_drives(0)?;
        if let Some(plain_for) = request.plain_for {
            refuse_copies(&sources, request.lines(), plain_for)?;
        }
        let resources = request.start_recording(host, resources, &sources, &target)?;
        let (files, spool) = match (request.frames_fastq, is_copied) {
            (true, _) => to_framed_files(host, request, &resources, &sources, &target)?,
            (false, true) => to_files(host, &resources, &sources, &target, request.lines())?,
            (false, false) => (sources.clone(), None),
        };
        let data_bytes = bytes_of(&files)?;
        let drives = scratch_drives(&resources, &target, data_bytes)?;
        let mut job = host.adopt(resources.planned_job(drives));
        note_scratch(host, &resources, &target, &job);
        let spooled_bytes = spool.as_ref().map_or(0, |spool| spool.bytes);
        job.options.scratch_limit_bytes -= spooled_bytes.min(job.options.scratch_limit_bytes);
        Ok(LineJob {
            resources,
            sources,
            files,
            data_bytes,
            items: if request.frames_fastq {
                "reads"
            } else {
                "lines"
            },
            target,
            replace: request.overwrite != Overwrite::Nothing,
            job,
            spool,
            stopwatch,
        })
    }

    /// The files in the engine's form.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        self.files.iter().map(text_input).collect()
    }

    /// The output for the engine.
    pub(crate) fn open_output(&self, host: &dyn Host, dress: &Dress) -> Result<(Output, Pending)> {
        self.open_output_through(host, dress, |sink| sink)
    }

    /// An output that the engine writes itself, as a job with a journal needs.
    ///
    /// # Errors
    /// Usage: it must be compressed, or is not a file.
    pub(crate) fn open_file(
        &self,
        dress: &Dress,
        plain_for: PlainFor,
    ) -> Result<(Output, Pending)> {
        text_output::open_file(&self.target, dress, plain_for)
    }

    /// The output for the engine; if it is a pipe, `before` wraps it.
    pub(crate) fn open_output_through(
        &self,
        host: &dyn Host,
        dress: &Dress,
        before: impl Fn(Sink) -> Sink,
    ) -> Result<(Output, Pending)> {
        let pipe = |path: Option<&Path>| host.open_pipe(path, &self.job.control).map(&before);
        text_output::open(&self.job, &self.target, self.replace, dress, pipe)
    }

    /// Reserves the output's memory while outcore makes a plan that it only shows.
    pub(crate) fn set_aside(&self, dress: &Dress) -> Result<Option<Job>> {
        text_output::set_aside(&self.job, &self.target, dress)
    }

    /// Prepares the job for `plain_for`, if the user gave such an option. For a journal, the lines
    /// have this `order`, and a note says whether this run continues a killed one, or could
    /// continue it.
    ///
    /// # Errors
    /// Usage: copies of the inputs had to be made.
    pub(crate) fn keep_plain(
        &mut self,
        host: &dyn Host,
        plain_for: Option<PlainFor>,
        order: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        if let Some(plain_for) = plain_for.filter(|_| self.spool.is_some()) {
            let cause = match plain_for {
                PlainFor::Resume => {
                    "records that span lines are copied to scratch, and a killed run loses the copy"
                }
                PlainFor::VerifyOutput => {
                    "records that span lines are copied to scratch, so only a copy can be checked"
                }
            };
            return Err(plain_for.refuse(cause, ""));
        }
        let is_asked = plain_for == Some(PlainFor::Resume);
        self.job.options.verify_output = plain_for == Some(PlainFor::VerifyOutput);
        self.resuming(is_asked).begin(host);
        if is_asked {
            let options = self.resources.resume_options(host.call(), order()?);
            self.job.options.resume = Some(options);
        }
        Ok(())
    }

    /// The request for a journal.
    pub(crate) fn resuming(&self, is_asked: bool) -> Resuming<'_> {
        Resuming {
            is_asked,
            target: &self.target,
        }
    }

    /// Prepares files of CSV for a sort.
    pub(crate) fn settle_csv(
        &mut self,
        host: &dyn Host,
        csv: &CsvSort,
        look: Look,
    ) -> Result<SortedCsv> {
        let (mut files, mut spool) = (self.files.clone(), self.spool.take());
        let make = || {
            let dir = spool::dir_for(&self.resources, &self.target)?;
            Spool::make(&self.job, &dir, self.job.options.scratch_limit_bytes)
        };
        let settled = self.watch(host, || {
            let spool = LateSpool {
                spool: &mut spool,
                make,
            };
            csv.settle(&self.job, &mut files, spool, look)
        });
        (self.files, self.spool) = (files, spool);
        settled
    }

    /// Removes the header lines of `rule` from the files, whose lines end with `end`. Returns the
    /// header lines.
    ///
    /// # Errors
    /// A file cannot be read; files with different headers.
    pub(crate) fn settle_header(
        &mut self,
        host: &dyn Host,
        rule: &HeaderRule,
        end: u8,
    ) -> Result<Vec<u8>> {
        let mut files = self.files.clone();
        let header = self.watch(host, || take_headers(&self.job, &mut files, end, rule))?;
        self.files = files;
        Ok(header)
    }

    /// Skips the byte order marks of files of JSON lines.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn settle_json(&mut self) -> Result<()> {
        skip_marks(&mut self.files)
    }

    /// The name under which the user knows a file of [`LineJob::files`].
    pub(crate) fn name_of<'a>(&'a self, path: &'a Path) -> &'a Path {
        let file = self.files.iter().find(|file| file.path == path);
        file.map_or(path, |file| &file.name)
    }

    /// The copies of inputs.
    pub(crate) fn copies(&self) -> CopiedBytes {
        let spool = self.spool.as_ref();
        spool.map_or_else(CopiedBytes::default, |spool| CopiedBytes {
            held: spool.bytes,
            written: spool.written_bytes,
        })
    }

    /// The error with the name that the user gave.
    pub(crate) fn explain(&self, error: Error) -> Error {
        inputs::explain(&self.files, error)
    }

    /// Runs the work and shows its progress, until a signal arrives.
    pub(crate) fn watch<T>(&self, host: &dyn Host, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let done = watch(host, &self.job.control, &[], work);
        done.map_err(|error| self.explain(error))
    }

    /// Reports the job before it begins.
    pub(crate) fn begin(&self, host: &dyn Host, more: Value) {
        let names: Vec<String> = self
            .sources
            .iter()
            .map(|source| source.name.display().to_string())
            .collect();
        let mut fields = json!({
            "inputs": names,
            "output": self.target.name().display().to_string(),
            "type": self.items,
            "data_bytes": self.data_bytes,
            "memory_bytes": self.resources.config.memory_bytes.value,
            "threads": self.resources.config.threads.value,
            "io": self.resources.config.io.value.name(),
        });
        if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
            fields.extend(more);
        }
        host.begin(fields);
    }
}

/// The engine's result for lines, or for records.
#[derive(Debug, Default)]
pub(crate) struct LineDone {
    /// Lines or records of the result.
    pub records: u64,
    /// Lines or records that were read; none if they were not counted.
    pub records_in: Option<u64>,
    /// Lines that were left out because they have no key.
    pub skipped: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Most bytes of scratch in use at once.
    pub scratch_bytes: u64,
    /// The number of times that the data were read, or generated.
    pub passes: u32,
    /// The traffic of each drive.
    pub drives: Vec<DriveTraffic>,
    /// The result of each phase next to its plan.
    pub phases: Vec<Phase>,
    /// The plan of the distribution, if there was one.
    pub plan: Option<Plan>,
}

impl LineDone {
    /// The result that corresponds to the engine's summary of a sort of lines.
    pub(crate) fn of_sort(summary: &LineSummary) -> Self {
        LineDone {
            records: summary.lines_out,
            records_in: Some(summary.lines_in),
            skipped: summary.skipped,
            read_bytes: summary.read_bytes,
            written_bytes: summary.written_bytes,
            scratch_bytes: summary.scratch_bytes,
            passes: summary.passes,
            drives: summary.drives.clone(),
            phases: Phase::of_engine(&summary.phases),
            plan: summary.plan.as_ref().map(|plan| Plan::of(plan, plan)),
        }
    }
}

impl LineJob {
    /// The report of the result `done`, which counts items called `unit`.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub(crate) fn report(
        &self,
        host: &dyn Host,
        unit: &str,
        done: LineDone,
    ) -> Result<WriteSummary> {
        if done.skipped > 0 {
            let skipped = units::counted(done.skipped, unit);
            host.note(&format!("left out {skipped} without a key"));
        }
        let copies = self.copies();
        let moved = Moved {
            records: done.records,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes + copies.written,
            passes: done.passes,
        };
        let trace = host.end_trace()?;
        Ok(WriteSummary {
            used: self
                .stopwatch
                .stop(moved, &done.drives, &self.resources, trace),
            unit: unit.to_owned(),
            output: Some(Place(host.name_of(self.target.name()))),
            records_in: done.records_in,
            data_bytes: self.data_bytes,
            output_bytes: None,
            files: self.target.files().len() as u64,
            scratch_bytes: Some(done.scratch_bytes + copies.held),
            skipped: done.skipped,
            phases: done.phases,
            plan: done.plan,
            notes: Vec::new(),
        })
    }
}

/// A file of text in the engine's form.
pub(crate) fn text_input(file: &Source) -> Input {
    Input {
        path: file.path.clone(),
        header_bytes: file.start_bytes,
        data_bytes: None,
    }
}

/// Inputs that are read as streams, without copies: lines, or records of one length.
pub(crate) struct Stream {
    /// The resources of the job.
    pub resources: Resources,
    /// The inputs.
    pub sources: Vec<Source>,
    /// The destination of the result.
    pub target: Target,
    /// The rule that ends a line or a record.
    pub frame: Frame,
    /// The data that may be read as lines.
    pub recognition: Recognition,
    /// The kind of the input, in words.
    pub what: String,
    /// The header of an output that is an array.
    pub array: Option<ArrayHeader>,
}

/// The header of an array that has some of the records of the input.
pub(crate) struct ArrayHeader {
    header: NpyHeader,
    /// Records that are read.
    records: u64,
}

impl ArrayHeader {
    /// The header of an output of `records` records of `sources`; nothing if it is not an array.
    fn of(types: &TypeRequest, sources: &[Source], target: &Target) -> Result<Option<Self>> {
        let path = match target {
            Target::File(path) if path.extension().is_some_and(|end| end == "npy") => path,
            _ => return Ok(None),
        };
        if sources.iter().any(Source::is_stream) {
            let cause = "the number of rows for its header is not known while a stream is read";
            return Err(Error::usage("create output", cause)
                .path(path)
                .hint("write raw records: name it .bin"));
        }
        let looked: Result<Vec<ResolvedInput>> =
            sources.iter().cloned().map(inputs::look).collect();
        let looked = looked?;
        let decided = records::decide(types, &looked)?;
        let data_bytes: u64 = looked.iter().map(|input| input.data_bytes).sum();
        let header = targets::header_for(target, &looked, &decided)?;
        Ok(header.map(|header| ArrayHeader {
            header,
            records: data_bytes / decided.format.record_bytes() as u64,
        }))
    }

    /// The bytes of the header. `taken` computes the number of records in the output from the
    /// number of records in the input.
    pub(crate) fn encode_some(&self, taken: impl FnOnce(u64) -> u64) -> Vec<u8> {
        self.header.encode(taken(self.records))
    }
}

impl Stream {
    /// Decides on the inputs and the destination of the result.
    pub(crate) fn prepare(
        host: &dyn Host,
        resources: Resources,
        request: &LineRequest<'_>,
        types: &TypeRequest,
        terminator: u8,
        rows: &Rows,
    ) -> Result<Self> {
        let sources = find(host, request.inputs)?;
        let format = format_beside(host, rows, types, &sources, request.recognition)?;
        let holds = match &format {
            Some(_) => Holds::Records,
            None => Holds::Lines,
        };
        let target = choose_target(host, request, &sources, &resources, holds)?;
        let (frame, what) = match &format {
            Some(format) => (Frame::Bytes(format.record_bytes()), format.to_string()),
            None => (frame_of(rows, terminator), rows.plural().to_string()),
        };
        let array = match &format {
            Some(_) => {
                note_lost_header(host, &sources, &target)?;
                ArrayHeader::of(types, &sources, &target)?
            }
            None => None,
        };
        let resources = request.start_recording(host, resources, &sources, &target)?;
        Ok(Stream {
            resources,
            sources,
            target,
            frame,
            recognition: request.recognition,
            what,
            array,
        })
    }
}

/// Notes that arrays lose their header on the way to standard output.
fn note_lost_header(host: &dyn Host, sources: &[Source], target: &Target) -> Result<()> {
    let is_read_once = sources.iter().any(Source::is_stream);
    if *target != Target::Pipe(None) || is_read_once || !targets::is_redirected() {
        return Ok(());
    }
    let looked: Result<Vec<ResolvedInput>> = sources.iter().cloned().map(inputs::look).collect();
    if let Some(lost) = targets::loses_header(target, &looked?, None) {
        host.note(&lost);
    }
    Ok(())
}

/// The sources with these names: standard input if there are none.
pub fn find(host: &dyn Host, names: &[PathBuf]) -> Result<Vec<Source>> {
    let stdin = [PathBuf::from("-")];
    inputs::find(
        if names.is_empty() { &stdin } else { names },
        host.streams(),
        host.names(),
    )
}

/// Notes that the header of the first CSV file among `inputs` is treated as an ordinary line.
pub(crate) fn note_header(host: &dyn Host, inputs: &[PathBuf]) {
    let is_csv = |name: &&PathBuf| TextKind::of_name(name) == Some(TextKind::Csv);
    if let Some(name) = inputs.iter().find(is_csv) {
        host.note(&format!(
            "{} is sorted as lines, header included; --by COLUMN sorts its rows",
            name.display()
        ));
    }
}

/// `options` for records of FASTQ, which are framed; unchanged for other text.
pub(crate) fn fastq_options(text: &FormatArgs, options: LineSortOptions) -> LineSortOptions {
    match text.fastq {
        true => LineSortOptions {
            terminator: RECORD_END,
            inner_end: Some(b'\n'),
            ..options
        },
        false => options,
    }
}

/// The format of the records, if flags or the beginnings of files give it; none for lines. Files
/// must agree with the flags, and contain whole records.
pub(crate) fn format_of(
    types: &TypeRequest,
    sources: &[Source],
    recognition: Recognition,
) -> Result<Option<RecordFormat>> {
    if recognition.insists_lines {
        return match types.keys.is_empty() {
            true => Ok(None),
            false => Err(Error::usage(
                "read arguments",
                "--key is for records, and --lines for lines",
            )
            .hint("leave one of the two out")),
        };
    }
    let is_named = records::named(types)?.is_some();
    let mut looked = Vec::with_capacity(sources.len());
    for source in sources.iter().filter(|source| !source.is_stream()) {
        looked.push(inputs::look(source.clone())?);
    }
    let has_keys = !types.keys.is_empty();
    match is_named || has_keys || looked.iter().any(|input| input.npy.is_some()) {
        true => records::decide(types, &looked).map(|decided| Some(decided.format)),
        false => Ok(None),
    }
}

/// The format of the records as in [`format_of`], unless `rows` makes them rows.
pub(crate) fn format_beside(
    host: &dyn Host,
    rows: &Rows,
    types: &TypeRequest,
    sources: &[Source],
    recognition: Recognition,
) -> Result<Option<RecordFormat>> {
    let format = format_of(types, sources, recognition)?;
    match (rows, &format) {
        (_, None) => {}
        (Rows::Csv(_) | Rows::Json | Rows::Fastq, Some(_)) => {
            let cause = "text, but the input is fixed-size records";
            return Err(Error::usage("read arguments", cause)
                .hint("name files of one kind; leave --csv, --jsonl and --fastq out for records"));
        }
        (Rows::Lines, Some(_)) => host.given().applies_to(What::Array)?,
    }
    Ok(format)
}

/// The rule that ends a record of `rows`.
pub(crate) fn frame_of(rows: &Rows, terminator: u8) -> Frame {
    match rows {
        Rows::Csv(csv) => Frame::Csv {
            separator: csv.separator,
            has_header: csv.has_header,
        },
        Rows::Json => Frame::Json(terminator),
        Rows::Fastq => Frame::Fastq,
        Rows::Lines => Frame::Terminator(terminator),
    }
}

/// The kind of the input of a command that keeps rows unchanged; rejects options that do not apply
/// to it. If lines end with NUL, text that is CSV or JSON lines only by its name is lines.
pub(crate) fn what_is_moved(host: &dyn Host, asked: Asked<'_>, lines: LineArgs) -> Result<What> {
    let what = match host.what(asked)? {
        What::Csv | What::JsonLines if asked.text.is_none() && lines.zero_terminated => What::Lines,
        what => what,
    };
    host.check_options(what, asked)?;
    Ok(what)
}

fn choose_target(
    host: &dyn Host,
    request: &LineRequest<'_>,
    sources: &[Source],
    resources: &Resources,
    holds: Holds,
) -> Result<Target> {
    let Some(name) = request.output else {
        check_output_named(host)?;
        let target = Target::Pipe(None);
        targets::check_terminal(&target, holds, Consent::default())?;
        return Ok(target);
    };
    let name = host.names().output(name, request.force)?;
    let key = paths::facts(&name)
        .ok()
        .filter(Metadata::is_file)
        .map(|facts| FileKey::of(&facts));
    let is_input = key.is_some() && sources.iter().any(|source| source.key == key);
    let consent = Consent {
        force: matches!(request.overwrite, Overwrite::Anything | Overwrite::Others)
            || may_exist(
                request.plain_for == Some(PlainFor::Resume),
                Some(&name),
                sources,
            )?,
        replace: is_input && matches!(request.overwrite, Overwrite::Anything | Overwrite::Input),
    };
    let streams = host.streams();
    let (name, drives) = (Some(&*name), resources.specs());
    let target = match request.overwrite {
        Overwrite::Anything | Overwrite::Input => {
            targets::choose(name, sources, drives, consent, streams, holds)?
        }
        _ => targets::choose_new(name, sources, drives, consent.force, streams, holds)?,
    };
    match &target {
        Target::Shards { .. } if !request.takes_records => Err(not_one_file(&target)),
        _ => Ok(target),
    }
}

/// Copies of FASTQ, in which each record ends with a NUL. The beginnings of files are checked
/// before the function waits for a stream.
fn to_framed_files(
    host: &dyn Host,
    request: &LineRequest<'_>,
    resources: &Resources,
    sources: &[Source],
    target: &Target,
) -> Result<(Vec<Source>, Option<Spool>)> {
    let recognition = request.recognition;
    for source in sources.iter().filter(|source| !source.is_stream()) {
        inputs::look_at_lines(source.clone(), recognition)?;
    }
    let job = host.adopt(resources.job(Vec::new()));
    let dir = spool::dir_for(resources, target)?;
    let mut spool = Spool::make(&job, &dir, resources.scratch_limit_bytes())?;
    let mut framed_one = |source| {
        watch(host, &job.control, &[], || {
            framed(&job, source, recognition, &mut spool)
        })
    };
    let files: Result<Vec<Source>> = sources.iter().map(&mut framed_one).collect();
    Ok((files?, Some(spool)))
}

/// Copies streams and, for `lines`, unpacks compressed files; other inputs stay in place. Inputs
/// that must not be read as lines are reported before the command waits for a stream.
pub(crate) fn to_files(
    host: &dyn Host,
    resources: &Resources,
    sources: &[Source],
    target: &Target,
    lines: Option<Recognition>,
) -> Result<(Vec<Source>, Option<Spool>)> {
    let packed = |source: &Source| match (source.is_stream(), lines) {
        (false, Some(recognition)) => {
            let input = inputs::look_at_lines(source.clone(), recognition)?;
            Ok(recognition.packed(&source.name, input.content))
        }
        (true, _) | (false, None) => Ok(None),
    };
    let packed: Result<Vec<_>> = sources.iter().map(packed).collect();
    let packed = packed?;
    let is_plain =
        |(source, packed): (&Source, &Option<_>)| !source.is_stream() && packed.is_none();
    if sources.iter().zip(&packed).all(is_plain) {
        return Ok((sources.to_vec(), None));
    }
    let job = host.adopt(resources.job(Vec::new()));
    let mut spool = Spool::make(
        &job,
        &spool::dir_for(resources, target)?,
        resources.scratch_limit_bytes(),
    )?;
    let mut files = Vec::with_capacity(sources.len());
    for (source, packed) in sources.iter().zip(packed) {
        let recognition = lines.unwrap_or_default();
        let copied = || match (packed, lines) {
            (Some(compression), _) => spool.unpack(&job, source, compression, recognition),
            (None, _) if !source.is_stream() => Ok(source.clone()),
            (None, Some(recognition)) => spool.copy_lines(&job, source, recognition),
            (None, None) => spool.copy_records(&job, source, true),
        };
        files.push(watch(host, &job.control, &[], copied)?);
    }
    Ok((files, Some(spool)))
}
