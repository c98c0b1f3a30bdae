//! What the commands on lines share: inputs made into files, outputs of any kind, one job.
//!
//! Contract: [`LineJob::prepare`] does, in this order: inputs found; output chosen, with all that
//! can be refused without work; streams copied and compressed files unpacked to scratch; a job
//! made. On any failure nothing is left behind. Without a name, input is standard input and output
//! standard output. The summary is told to people on a terminal, or where they ask for more: in a
//! pipeline these commands are as silent as those whose place they take.

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::job::{Job, ScratchDrive};
use outcore::key::{NpyHeader, RecordFormat};
use outcore::sort::lines::LineSummary;
use outcore::{Error, Phase, Result};
use outcore::{Input, Output};
use outcore_front::content::Recognition;
use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_front::inputs::{self, ResolvedInput, Source, Streams, bytes_of, key_of};
use outcore_front::output::{self as targets, Consent, Holds, Sink, Target};
use outcore_front::records::{self, TypeRequest};
use outcore_front::resources::{Resources, default_scratch_dir};
use outcore_front::spool::{self, Spool};
use outcore_front::text::csv_files::{CsvSort, Look, SortedCsv};
use outcore_front::text::json_files::skip_marks;
use outcore_front::text::output::{self as text_output, Dress, Pending, not_one_file};
use outcore_front::text::reader::Frame;
use outcore_front::what::{Asked, What};
use outcore_io::units;
use serde_json::{Value, json};

use crate::cli::RecordingArgs;
use crate::cli::lines::{LineArgs, Rows};
use crate::context::Context;
use crate::measure::{Summary, drives_json, phases_json, plan_json, rate_text};
use crate::pipe;
use crate::progress::watch;
use outcore_verbs::host::{Host, Kept};

/// What a command on lines is asked for.
pub(crate) struct LineRequest<'a> {
    /// Names of inputs; none for standard input.
    pub(crate) inputs: &'a [PathBuf],
    /// Name of the output; none for standard output.
    pub(crate) output: Option<&'a Path>,
    /// What the output may replace.
    pub(crate) overwrite: Overwrite,
    pub(crate) record_io: &'a RecordingArgs,
    /// Whether a trace that exists may be replaced.
    pub(crate) force: bool,
    /// Whether the input is records: arrays from streams, and outputs in shards.
    pub(crate) takes_records: bool,
    /// What else may be taken for lines.
    pub(crate) recognition: Recognition,
}

impl LineRequest<'_> {
    /// How the input is taken for lines, if it is.
    fn lines(&self) -> Option<Recognition> {
        (!self.takes_records).then_some(self.recognition)
    }

    /// What the output holds.
    fn holds(&self) -> Holds {
        match (self.takes_records, self.recognition.takes_packed) {
            (true, _) => Holds::Records,
            (false, true) => Holds::Bytes,
            (false, false) => Holds::Lines,
        }
    }

    /// The inputs. To GNU sort a manifest is a file like any other.
    fn find(&self, context: &Context) -> Result<Vec<Source>> {
        let known = &context.files;
        match (self.holds(), self.inputs) {
            (Holds::Bytes, []) => inputs::find_as_named(&[PathBuf::from("-")], known),
            (Holds::Bytes, names) => inputs::find_as_named(names, known),
            (_, names) => find(context, names),
        }
    }

    /// Begins to record the run's I/O, if that is wanted.
    fn start_recording(
        &self,
        context: &Context,
        resources: Resources,
        (sources, target): (&[Source], &Target),
    ) -> Result<Resources> {
        let kept = Kept {
            sources,
            target: Some(target),
            force: self.force,
            ..Kept::default()
        };
        context.start(resources, self.record_io, kept)
    }
}

/// What an output may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// Any file, inputs included, as GNU sort does.
    Anything,
    /// Files that are not inputs.
    Others,
    /// Nothing.
    Nothing,
}

impl Overwrite {
    /// As `--force` says.
    pub(crate) fn of(force: bool) -> Self {
        match force {
            true => Overwrite::Others,
            false => Overwrite::Nothing,
        }
    }
}

/// Everything that is settled before lines are read.
pub(crate) struct LineJob {
    pub(crate) resources: Resources,
    /// Inputs as they were named.
    pub(crate) sources: Vec<Source>,
    /// Files with their text.
    pub(crate) files: Vec<Source>,
    pub(crate) data_bytes: u64,
    pub(crate) target: Target,
    /// Whether the output may take the place of another file.
    pub(crate) replace: bool,
    pub(crate) job: Job,
    /// Copies; gone when dropped.
    spool: Option<Spool>,
    started: Instant,
}

impl LineJob {
    /// Settles everything.
    pub(crate) fn prepare(
        context: &Context,
        resources: Resources,
        request: &LineRequest<'_>,
    ) -> Result<Self> {
        Self::prepare_found(context, resources, request, None)
    }

    /// The same where the inputs may have been `found` already.
    pub(crate) fn prepare_found(
        context: &Context,
        resources: Resources,
        request: &LineRequest<'_>,
        found: Option<Vec<Source>>,
    ) -> Result<Self> {
        let started = Instant::now();
        let sources = found.map_or_else(|| request.find(context), Ok)?;
        let target = choose_target(context, request, (&sources, &resources), request.holds())?;
        // Wrong drives are told before a stream is waited for.
        resources.named_drives(0)?;
        let resources = request.start_recording(context, resources, (&sources, &target))?;
        let (files, spool) = to_files(context, &resources, &sources, &target, request.lines())?;
        let data_bytes = bytes_of(&files)?;
        let drives = scratch_drives(&resources, &target, data_bytes)?;
        let mut job = resources.planned_job(drives, &target.dir());
        context.note_scratch(&resources, &target, &job);
        let spooled_bytes = spool.as_ref().map_or(0, |spool| spool.bytes);
        job.options.scratch_limit_bytes -= spooled_bytes.min(job.options.scratch_limit_bytes);
        Ok(LineJob {
            resources,
            sources,
            files,
            data_bytes,
            target,
            replace: request.overwrite != Overwrite::Nothing,
            job,
            spool,
            started,
        })
    }

    /// The files as the engine wants them.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        self.files.iter().map(text_input).collect()
    }

    /// The output for the engine.
    pub(crate) fn open_output(&self, dress: &Dress) -> Result<(Output, Pending)> {
        self.open_output_through(dress, |sink| sink)
    }

    /// The same, with something before a pipe.
    pub(crate) fn open_output_through(
        &self,
        dress: &Dress,
        before: impl Fn(Sink) -> Sink,
    ) -> Result<(Output, Pending)> {
        let pipe = |path: Option<&Path>| pipe::open(path, &self.job.control).map(&before);
        text_output::open(&self.job, &self.target, self.replace, dress, pipe)
    }

    /// Takes the memory that the output will have, while a plan is made that is only shown.
    pub(crate) fn set_aside(&self, dress: &Dress) -> Result<Option<Job>> {
        text_output::set_aside(&self.job, &self.target, dress)
    }

    /// Makes files of CSV ready to be sorted.
    pub(crate) fn settle_csv(
        &mut self,
        context: &Context,
        csv: &CsvSort,
        look: Look,
    ) -> Result<SortedCsv> {
        let (mut files, mut spool) = (self.files.clone(), self.spool.take());
        let make = || {
            let dir = spool::dir_for(&self.resources, &self.target)?;
            Spool::make(&self.job, &dir, self.job.options.scratch_limit_bytes)
        };
        let settled = self.watch(context, || {
            csv.settle(&self.job, &mut files, (&mut spool, make), look)
        });
        (self.files, self.spool) = (files, spool);
        settled
    }

    /// Passes over the byte order marks of files of JSON lines.
    pub(crate) fn settle_json(&mut self) -> Result<()> {
        skip_marks(&mut self.files)
    }

    /// The name under which the user knows a file of [`LineJob::files`].
    pub(crate) fn name_of<'a>(&'a self, path: &'a Path) -> &'a Path {
        let file = self.files.iter().find(|file| file.path == path);
        file.map_or(path, |file| &file.name)
    }

    /// The error with the name that the user knows.
    pub(crate) fn explain(&self, error: Error) -> Error {
        inputs::explain(&self.files, error)
    }

    /// Runs the work with progress, until a signal comes.
    pub(crate) fn watch<T>(
        &self,
        context: &Context,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let (reporter, interrupt) = (&context.reporter, &context.interrupt);
        let done = watch(reporter, interrupt, &self.job.control, &[], work);
        done.map_err(|error| self.explain(error))
    }

    /// Says what will be done.
    pub(crate) fn begin(&self, context: &Context, more: Value) {
        let names: Vec<String> = self
            .sources
            .iter()
            .map(|source| source.name.display().to_string())
            .collect();
        let mut fields = json!({
            "inputs": names,
            "output": self.target.name().display().to_string(),
            "type": "lines",
            "data_bytes": self.data_bytes,
            "memory_bytes": self.resources.config.memory_bytes.value,
            "threads": self.resources.config.threads.value,
            "io": self.resources.config.io.value.name(),
        });
        if let (Some(fields), Value::Object(more)) = (fields.as_object_mut(), more) {
            fields.extend(more);
        }
        context.reporter.event("begin", fields);
    }

    /// Prints the plan of a job that was only to be planned.
    pub(crate) fn finish_planned(self, context: &Context, plan: &str, unit: &'static str) {
        context.reporter.data(&format!("{plan}\n"));
        let done = Done {
            what: "planned",
            unit,
            ..Done::default()
        };
        self.finish(context, done);
    }

    /// Tells what was done.
    pub(crate) fn finish(self, context: &Context, done: Done) {
        let traffic: Vec<DriveTraffic> = done.drives.iter().map(DriveTraffic::of).collect();
        let seconds = self.started.elapsed().as_secs_f64();
        let (spooled_bytes, copied_bytes) = self
            .spool
            .as_ref()
            .map_or((0, 0), |spool| (spool.bytes, spool.written_bytes));
        let summary = Summary {
            records: done.lines,
            seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes + copied_bytes,
            passes: done.passes,
            bandwidth_fraction: bandwidth_fraction(
                &traffic,
                seconds,
                &self.resources.config.drives.value,
            ),
            ..Summary::default()
        };
        let mut summary = summary
            .with("output", json!(self.target.name().display().to_string()))
            .with("scratch_bytes", json!(done.scratch_bytes + spooled_bytes))
            .with("drives", drives_json(&traffic));
        if !done.phases.is_empty() {
            summary = summary.with("phases", phases_json(&done.phases));
        }
        for (key, value) in done.more {
            summary = summary.with(key, value);
        }
        context.reporter.summary(&summary);
        if context.reporter.tells() {
            context.reporter.human(&format!(
                "{} {}, {}, in {}: {}",
                done.what,
                units::counted(done.lines, done.unit),
                units::bytes(self.data_bytes),
                units::seconds(seconds),
                rate_text(self.data_bytes, seconds),
            ));
            if let Some(text) = summary.bandwidth_text() {
                context.reporter.human(&format!("  {text}"));
            }
        }
        context.reporter.phases(&done.phases, false);
    }
}

/// A file of text as the engine wants it.
pub(crate) fn text_input(file: &Source) -> Input {
    Input {
        path: file.path.clone(),
        header_bytes: file.start_bytes,
        data_bytes: None,
    }
}

/// Inputs that are read as they come, without copies: lines, or records of one length.
pub(crate) struct Stream {
    pub(crate) resources: Resources,
    pub(crate) sources: Vec<Source>,
    pub(crate) target: Target,
    pub(crate) frame: Frame,
    /// What may be taken for lines.
    pub(crate) recognition: Recognition,
    /// What is read, in words.
    pub(crate) what: String,
    /// The header of an output that is an array.
    pub(crate) array: Option<ArrayHeader>,
}

/// The header of an array of some of the records that are read.
pub(crate) struct ArrayHeader {
    header: NpyHeader,
    /// Records that are read.
    records: u64,
}

impl ArrayHeader {
    /// The header of an output of `records` of the records of `sources`; nothing where it is no
    /// array.
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

    /// The bytes of the header, if at most `wanted` of the records are written.
    pub(crate) fn encode(&self, wanted: u64) -> Vec<u8> {
        self.header.encode(self.records.min(wanted))
    }
}

impl Stream {
    /// Settles what is read, and where the result goes.
    pub(crate) fn prepare(
        context: &Context,
        resources: Resources,
        request: &LineRequest<'_>,
        (types, terminator, rows): (&TypeRequest, u8, &Rows),
    ) -> Result<Self> {
        let sources = find(context, request.inputs)?;
        let format = format_beside(context, rows, types, (&sources, request.recognition))?;
        let holds = match &format {
            Some(_) => Holds::Records,
            None => Holds::Lines,
        };
        let target = choose_target(context, request, (&sources, &resources), holds)?;
        let (frame, what) = match &format {
            Some(format) => (Frame::Bytes(format.record_bytes()), format.to_string()),
            None => (frame_of(rows, terminator), "lines".to_string()),
        };
        let array = match &format {
            Some(_) => ArrayHeader::of(types, &sources, &target)?,
            None => None,
        };
        let resources = request.start_recording(context, resources, (&sources, &target))?;
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

/// The sources that names mean: standard input without any.
pub(crate) fn find(context: &Context, names: &[PathBuf]) -> Result<Vec<Source>> {
    let stdin = [PathBuf::from("-")];
    inputs::find(
        if names.is_empty() { &stdin } else { names },
        Streams::Taken,
        &context.files,
    )
}

/// What the records are, where flags or the beginnings of files say so; none for lines.
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
    if let Some(named) = records::named(types)? {
        return Ok(Some(named.format));
    }
    let mut looked = Vec::with_capacity(sources.len());
    for source in sources.iter().filter(|source| !source.is_stream()) {
        looked.push(inputs::look(source.clone())?);
    }
    let is_array = !types.keys.is_empty() || looked.iter().any(|input| input.npy.is_some());
    match is_array {
        true => records::decide(types, &looked).map(|decided| Some(decided.format)),
        false => Ok(None),
    }
}

/// What the records are, as [`format_of`] tells it, unless `rows` says that they are rows.
pub(crate) fn format_beside(
    context: &Context,
    rows: &Rows,
    types: &TypeRequest,
    (sources, recognition): (&[Source], Recognition),
) -> Result<Option<RecordFormat>> {
    let format = format_of(types, sources, recognition)?;
    match (rows, &format) {
        (_, None) => {}
        (Rows::Csv(_) | Rows::Json, Some(_)) => {
            let cause = "text, and the input is records of one length";
            return Err(Error::usage("read arguments", cause)
                .hint("name files of one kind; leave --csv and --jsonl out for records"));
        }
        (Rows::Lines, Some(_)) => context.given.applies_to(What::Array)?,
    }
    Ok(format)
}

/// Where the lines of `rows` end.
pub(crate) fn frame_of(rows: &Rows, terminator: u8) -> Frame {
    match rows {
        Rows::Csv(csv) => Frame::Csv {
            separator: csv.separator,
            has_header: csv.has_header,
        },
        Rows::Json => Frame::Json(terminator),
        Rows::Lines => Frame::Terminator(terminator),
    }
}

/// The kind of the input of a command that keeps rows as they are; rejects options that are not for
/// it. Text whose name alone makes it CSV or JSON lines is lines where lines end with NUL.
pub(crate) fn what_is_moved(context: &Context, asked: Asked<'_>, lines: LineArgs) -> Result<What> {
    let what = match context.what(asked)? {
        What::Csv | What::JsonLines if asked.text.is_none() && lines.zero_terminated => What::Lines,
        what => what,
    };
    context.check_options(what, asked)?;
    Ok(what)
}

/// What a command did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// In the past tense.
    pub(crate) what: &'static str,
    /// Lines of the result, or records.
    pub(crate) lines: u64,
    /// What one of them is called.
    pub(crate) unit: &'static str,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) passes: u32,
    /// (name, bytes read, bytes written) of each drive.
    pub(crate) drives: Vec<(String, u64, u64)>,
    /// What each phase did, beside its plan; none for what has none.
    pub(crate) phases: Vec<Phase>,
    /// What only this command reports.
    pub(crate) more: Vec<(&'static str, Value)>,
}

impl Done {
    /// As the engine's sort of lines tells it.
    pub(crate) fn of_sort(what: &'static str, summary: LineSummary) -> Self {
        let plan = summary.plan.as_ref().map(|plan| plan_json(plan));
        Done {
            what,
            lines: summary.lines_out,
            unit: "line",
            read_bytes: summary.read_bytes,
            written_bytes: summary.written_bytes,
            scratch_bytes: summary.scratch_bytes,
            passes: summary.passes,
            drives: summary.drives,
            more: vec![
                ("lines_in", json!(summary.lines_in)),
                ("skipped", json!(summary.skipped)),
                ("plan", json!(plan)),
            ],
            phases: summary.phases,
        }
    }
}

fn choose_target(
    context: &Context,
    request: &LineRequest<'_>,
    (sources, resources): (&[Source], &Resources),
    holds: Holds,
) -> Result<Target> {
    let Some(name) = request.output else {
        let target = Target::Pipe(None);
        targets::check_terminal(&target, holds, Consent::default())?;
        return Ok(target);
    };
    let name = context.files.output(name, request.force)?;
    let key = std::fs::metadata(&name)
        .ok()
        .filter(std::fs::Metadata::is_file)
        .map(|facts| key_of(&facts));
    let is_input = key.is_some() && sources.iter().any(|source| source.key == key);
    let consent = Consent {
        force: request.overwrite != Overwrite::Nothing,
        replace: is_input && request.overwrite == Overwrite::Anything,
    };
    let how = (Streams::Taken, holds);
    let (name, drives) = (Some(&*name), resources.specs());
    let target = match request.overwrite {
        Overwrite::Anything => targets::choose(name, sources, drives, consent, how)?,
        _ => targets::choose_new(name, sources, drives, consent.force, how)?,
    };
    match &target {
        Target::Shards { .. } if !request.takes_records => Err(not_one_file(&target)),
        _ => Ok(target),
    }
}

/// Drives for scratch: those named, or none where the engine's own choice, beside the output, is
/// right.
pub(crate) fn scratch_drives(
    resources: &Resources,
    target: &Target,
    data_bytes: u64,
) -> Result<Vec<ScratchDrive>> {
    let named = resources.named_drives(data_bytes)?;
    if !named.is_empty() {
        return Ok(named);
    }
    let beside = target.dir();
    // So little needs none.
    if data_bytes < resources.config.memory_bytes.value / 8 {
        return Ok(Vec::new());
    }
    let dir = default_scratch_dir(&beside)?;
    Ok(match dir == beside {
        true => Vec::new(),
        false => vec![ScratchDrive::new(dir)],
    })
}

/// Streams copied and, of `lines`, compressed files unpacked; all else where it is. What must not
/// be taken for lines is told before a stream is waited for.
pub(crate) fn to_files(
    context: &Context,
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
    let job = resources.job(Vec::new());
    let mut spool = Spool::make(
        &job,
        &spool::dir_for(resources, target)?,
        resources.scratch_limit_bytes(),
    )?;
    let mut files = Vec::with_capacity(sources.len());
    for (source, packed) in sources.iter().zip(packed) {
        let recognition = lines.unwrap_or_default();
        let copied = || match (packed, lines) {
            (Some(compression), _) => spool.unpack(&job, source, (compression, recognition)),
            (None, _) if !source.is_stream() => Ok(source.clone()),
            (None, Some(recognition)) => spool.copy_lines(&job, source, recognition),
            (None, None) => spool.copy_records(&job, source, true),
        };
        files.push(watch(
            &context.reporter,
            &context.interrupt,
            &job.control,
            &[],
            copied,
        )?);
    }
    Ok((files, Some(spool)))
}
