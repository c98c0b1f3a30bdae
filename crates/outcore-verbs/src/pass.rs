//! A pass over a stream of lines or records: `head`, `tail`, `sample` and a part of `shuffle`.
//!
//! Contract: each input is read once, without a copy. If the result depends on the number of
//! records, the records of files are counted first. The result goes to standard output, or to a
//! file that appears whole; the header of CSV, or header lines, come first.

use std::path::Path;

use clap::Args;
use outcore::job::Job;
use outcore::read::sample::is_drawn;
use outcore::{Forecast, Result};
use outcore_front::inputs::Source;
use outcore_front::text::header::HeaderRule;
use outcore_front::text::header_files::take_headers;
use outcore_front::text::output::{Dress, LineWriter};
use outcore_front::text::reader::{BLOCK_BYTES, Frame, RecordReader, plain_files};
use outcore_front::text::take::{Counted, Records};
use outcore_front::what::{Asked, What};
use outcore_io::units;
use serde_json::json;

use crate::explain::FilePass;
use crate::host::{Host, watch};
use crate::lines::{LineRequest, Overwrite, Stream, what_is_moved};
use crate::option::lines::{HeaderArgs, LineArgs, RowArgs, Rows};
use crate::option::tables::TableArgs;
use crate::option::{FileArgs, RecordingArgs, TypeArgs, memory_request};
use crate::report::{Moved, Phase, Place, Stopwatch, WriteSummary};

/// The records that are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Taken {
    /// The first ones.
    First(u64),
    /// This many, chosen from all.
    Chosen(u64),
    /// All but this many at the end.
    AllBut(u64),
    /// The last ones.
    Last(u64),
    /// All but this many at the front.
    AfterFirst(u64),
    /// This many, chosen with replacement.
    Repeated(u64),
    /// Each record with this probability.
    Drawn {
        /// The probability.
        rate: f64,
        /// The seed of the draws.
        seed: u64,
    },
}

impl Taken {
    /// The largest number of records that a pass takes from `all` records.
    fn count(self, all: u64) -> u64 {
        match self {
            Taken::First(count) | Taken::Chosen(count) | Taken::Last(count) => count.min(all),
            Taken::AllBut(count) | Taken::AfterFirst(count) => all.saturating_sub(count),
            Taken::Repeated(count) => count * u64::from(all > 0),
            Taken::Drawn { rate, seed } => (0..all)
                .filter(|place| is_drawn(seed, *place, rate))
                .count() as u64,
        }
    }

    /// The records to be counted before files are read.
    fn counted(self) -> Option<Counted> {
        match self {
            Taken::First(_) | Taken::Chosen(_) | Taken::AfterFirst(_) | Taken::Drawn { .. } => None,
            Taken::AllBut(_) | Taken::Repeated(_) => Some(Counted::All),
            Taken::Last(count) => Some(Counted::Last(count)),
        }
    }
}

/// The options of a verb that takes some lines, records or rows, except for those that choose which
/// ones.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TakeArgs {
    /// Memory to use. Default: half of the free memory
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::parse_bytes, help_heading = "Resources")]
    pub(crate) memory_bytes: Option<u64>,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) header: HeaderArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

impl TakeArgs {
    /// The kind of `files`; `names_columns` makes them a table. Rejects options that do not apply
    /// to that kind.
    pub(crate) fn what(
        &self,
        host: &dyn Host,
        files: &FileArgs,
        names_columns: bool,
    ) -> Result<What> {
        let asked = Asked {
            inputs: &files.inputs,
            output: files.output.as_deref(),
            is_records: self.record.is_typed(),
            is_lines: self.lines.is_lines(),
            text: self.rows.text_flags()?.kind(),
            is_table: self.tables.is_given() || names_columns || host.kept_table().is_some(),
            piped: self.tables.piped(),
            ..Asked::default()
        };
        what_is_moved(host, asked, self.lines)
    }

    /// A pass of the verb `name` over `files` of the kind `what`, which takes the records `taken`.
    pub(crate) fn pass<'a>(
        &'a self,
        host: &dyn Host,
        files: &'a FileArgs,
        what: What,
        name: &'static str,
        taken: Taken,
    ) -> Result<LinePass<'a>> {
        let mut rows = self.rows.clone();
        rows.settle(what);
        let request = PassRequest {
            files,
            record: &self.record,
            lines: self.lines,
            rows: rows.to_rows()?,
            header: self.header.rule(),
            memory_bytes: self.memory_bytes,
            record_io: &self.record_io,
            name,
            taken,
            is_explained: self.explain,
        };
        LinePass::prepare(host, request)
    }
}

/// The request of a pass.
pub(crate) struct PassRequest<'a> {
    /// The files that lines or records come from and go to.
    pub(crate) files: &'a FileArgs,
    /// The type of records.
    pub(crate) record: &'a TypeArgs,
    /// Whether the input is lines.
    pub(crate) lines: LineArgs,
    /// The kind of lines.
    pub(crate) rows: Rows,
    /// Lines in front of the records.
    pub(crate) header: HeaderRule,
    /// Memory to use.
    pub(crate) memory_bytes: Option<u64>,
    /// The destination of a trace.
    pub(crate) record_io: &'a RecordingArgs,
    /// The verb, and its phase.
    pub(crate) name: &'static str,
    /// The records that are taken.
    pub(crate) taken: Taken,
    /// Whether a plan is shown.
    pub(crate) is_explained: bool,
}

/// A pass that is ready to run.
pub(crate) struct LinePass<'a> {
    request: PassRequest<'a>,
    stream: Stream,
    stopwatch: Stopwatch,
}

impl<'a> LinePass<'a> {
    /// Decides on the inputs and the destination of the result.
    pub(crate) fn prepare(host: &dyn Host, request: PassRequest<'a>) -> Result<Self> {
        let stopwatch = Stopwatch::start();
        let resources = host.load(&memory_request(request.memory_bytes)?)?;
        let resources = resources.measuring(request.is_explained);
        let files = request.files;
        let asked = LineRequest {
            inputs: &files.inputs,
            output: files.output.as_deref(),
            overwrite: Overwrite::of(files.force),
            record_io: request.record_io,
            force: files.force,
            takes_records: false,
            frames_fastq: false,
            plain_for: None,
            recognition: request
                .lines
                .recognition(request.rows.separator())
                .telling_header(request.name == "sample" && matches!(request.rows, Rows::Lines)),
        };
        let types = request.record.to_request_without_keys();
        let terminator = request.lines.terminator();
        let stream = Stream::prepare(host, resources, &asked, &types, terminator, &request.rows)?;
        Ok(LinePass {
            request,
            stream,
            stopwatch,
        })
    }

    /// The byte that ends a record.
    pub(crate) fn end(&self) -> Option<u8> {
        self.stream.frame.end()
    }

    /// Memory that may be used.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.stream.resources.config.memory_bytes.value
    }

    /// The plan of the reads and writes.
    fn plan(&self, job: &Job) -> Result<FilePass> {
        let (stream, request) = (&self.stream, &self.request);
        let frame = stream.frame;
        let files = plain_files(&stream.sources, frame, stream.recognition)?;
        let element_bytes = match frame {
            Frame::Bytes(bytes) => bytes,
            Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } | Frame::Fastq => 1,
        };
        let steps = format!("read {} -> {}", stream.what, request.name);
        let files = files.as_deref();
        FilePass::plan(job, files, element_bytes, &steps, request.name, |bytes| {
            let (read, kept) = match frame {
                Frame::Bytes(record_bytes) => {
                    let kept_bytes =
                        request.taken.count(bytes / record_bytes as u64) * record_bytes as u64;
                    let read_bytes = kept_bytes.next_multiple_of(BLOCK_BYTES as u64).min(bytes);
                    (read_bytes.into(), kept_bytes.into())
                }
                Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } | Frame::Fastq => {
                    (Forecast::AtMost(bytes), Forecast::AtMost(bytes))
                }
            };
            match request.taken {
                Taken::First(_) => (read, kept),
                _ => (bytes.into(), kept),
            }
        })
    }

    /// Writes the records that are taken.
    pub(crate) fn take(self, host: &dyn Host) -> Result<WriteSummary> {
        let (end, limit_bytes) = (self.end(), self.memory_bytes());
        let taken = self.request.taken;
        self.run(host, |reader, writer, left| {
            let mut records = Records {
                reader,
                writer,
                end,
                limit_bytes,
            };
            match (taken, left) {
                (Taken::First(count) | Taken::Chosen(count) | Taken::Repeated(count), _) => {
                    records.copy(count)
                }
                (Taken::Drawn { rate, seed }, _) => records.copy_rate(rate, seed),
                (Taken::AfterFirst(count), _) => {
                    records.skip(count)?;
                    records.copy(u64::MAX)
                }
                (Taken::AllBut(count), Some(all)) => records.copy(all.saturating_sub(count)),
                (Taken::Last(count), Some(left)) => {
                    records.skip(left.saturating_sub(count))?;
                    records.copy(u64::MAX)
                }
                (Taken::AllBut(count), None) => records.copy_all_but(count),
                (Taken::Last(count), None) => records.copy_last(count),
            }
        })
    }

    /// Runs `work` with the reader, the writer, and the number of records that are left to read, if
    /// that is known. `work` returns the number of records that it wrote.
    pub(crate) fn run(
        self,
        host: &dyn Host,
        work: impl FnOnce(&mut RecordReader<'_>, &mut LineWriter, Option<u64>) -> Result<u64>,
    ) -> Result<WriteSummary> {
        let (stream, request) = (&self.stream, &self.request);
        let job = host.adopt(stream.resources.pass_job(Vec::new()));
        let names = stream.sources.iter();
        let names: Vec<String> = names
            .map(|source: &Source| source.name.display().to_string())
            .collect();
        let output = stream.target.name().display().to_string();
        host.begin(json!({"inputs": names, "output": output, "type": stream.what}));
        let pass = FilePass::begin(self.plan(&job), request.name, host, request.is_explained)?;
        job.control.begin_phase(request.name, 0);
        let (records, moved_bytes) = watch(host, &job.control, &[], || {
            let mut sources = stream.sources.clone();
            let (frame, recognition) = (stream.frame, stream.recognition);
            let mut rule = request.header.clone();
            let mut header = Vec::new();
            if !rule.is_empty() && plain_files(&sources, frame, recognition)?.is_some() {
                let end = frame.end().unwrap_or_default();
                header = take_headers(&job, &mut sources, end, &std::mem::take(&mut rule))?;
            }
            let counted = match request.taken.counted() {
                Some(counted) => counted.of(&job, &sources, frame, recognition, &rule)?,
                None => None,
            };
            let mut reader = RecordReader::new(&job, sources, frame, recognition)
                .with_header(rule)
                .after_header(header);
            let left = counted.map(|counted| {
                reader.skip_bytes(counted.skipped_bytes);
                reader.read_bytes = counted.read_bytes;
                counted.records
            });
            let header = match &stream.array {
                Some(array) => array.encode_some(|all| request.taken.count(all)),
                None => reader.header()?.to_vec(),
            };
            let dress = Dress {
                header,
                ..Dress::default()
            };
            let pipe = |path: Option<&Path>| host.open_pipe(path, &job.control);
            let force = request.files.force;
            let mut writer = LineWriter::open(&job, &stream.target, force, &dress, pipe)?;
            let records = work(&mut reader, &mut writer, left)?;
            let written_bytes = writer.finish()?;
            Ok((records, (reader.read_bytes, written_bytes)))
        })?;
        let (read_bytes, written_bytes) = moved_bytes;
        let moved = Moved {
            records,
            read_bytes,
            written_bytes,
            passes: 1,
        };
        let trace = host.end_trace()?;
        Ok(WriteSummary {
            used: self.stopwatch.stop(moved, &[], &stream.resources, trace),
            unit: match stream.frame {
                Frame::Bytes(_) => "record".to_owned(),
                Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } | Frame::Fastq => {
                    request.rows.unit().to_owned()
                }
            },
            output: Some(Place(host.name_of(stream.target.name()))),
            records_in: None,
            data_bytes: read_bytes,
            output_bytes: Some(written_bytes),
            files: stream.target.files().len() as u64,
            scratch_bytes: Some(0),
            skipped: 0,
            phases: Phase::of_engine(&pass.end(read_bytes, written_bytes)),
            plan: None,
            notes: Vec::new(),
        })
    }
}
