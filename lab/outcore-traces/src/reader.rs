//! A block trace as an iterator of requests, independent of its format and compression.
//!
//! Contract: files of any length are read in constant memory. Corrupt lines are skipped and
//! counted, or an error with file and line if the caller chooses so. Several files (one per CPU
//! from blktrace, or the parts of a trace) are merged by time, stably; each file keeps its own
//! order. Nothing is sorted, so traces that are not ordered by time stay so. A file without any
//! request is an error at its end. Cost: one pass, no allocation per line.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;
use std::path::{Path, PathBuf};

use outcore_io::{Error, Result};

use crate::formats::blktrace::{self, Event, EventReader, Stage};
use crate::formats::{Clock, Format, LineParser, Names, detect, names_of_all};
use crate::io_trace::{Entry, Flaw, Frames};
use crate::lines::{Line, Lines};
use crate::request::Request;
use crate::skips::{OnError, Reason, Skips, Tally, excerpt};
use crate::source::{self, Bytes};

/// Longest line of a text trace; only names of processes and files are long.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Options for reading a trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOptions {
    /// The format; if `None`, it is guessed from the content.
    pub format: Option<Format>,
    /// What to do with lines that cannot be read.
    pub on_error: OnError,
    /// Nanoseconds per unit of the time field, for traces that use a different unit from their
    /// format's. Such times may have decimals in every text format.
    pub time_unit_ns: Option<u64>,
}

/// The requests of one trace, in the order of the file; several files are merged by time.
pub struct TraceReader {
    sources: Vec<Source>,
    shared: Shared,
    /// The next request of each file, if there are several.
    heads: BinaryHeap<Reverse<(u64, usize, OrderedRequest)>>,
    is_primed: bool,
    is_done: bool,
    requests: u64,
}

/// A request that does not take part in the heap's order, which depends only on time and file.
#[derive(Debug, Clone, Copy)]
struct OrderedRequest(Request);

impl PartialEq for OrderedRequest {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for OrderedRequest {}

impl PartialOrd for OrderedRequest {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedRequest {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// State that all files of a trace share.
struct Shared {
    tally: Tally,
    names: Names,
}

/// One file.
struct Source {
    path: PathBuf,
    format: Format,
    body: Body,
}

enum Body {
    Text(Lines<Bytes>, Box<LineParser>),
    Blktrace(EventReader<Bytes>),
    Outcore(Frames<Bytes>),
}

impl TraceReader {
    /// Opens one trace; `-` is standard input. For a blktrace file `NAME.blktrace.N`, or for the
    /// `NAME` or `NAME.blktrace` of such files, it opens the files of all CPUs.
    ///
    /// # Errors
    /// The file cannot be read, its compression is unknown, or its format is not recognised.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self> {
        let path = path.as_ref();
        let per_cpu = per_cpu_files(path)?;
        if per_cpu.is_empty() {
            Self::open_many(&[path], options)
        } else {
            Self::open_many(&per_cpu, options)
        }
    }

    /// Opens the parts of one trace and merges them by time. Empty files are skipped.
    ///
    /// # Errors
    /// As [`TraceReader::open`]; also if the parts have different formats.
    pub fn open_many<P: AsRef<Path>>(paths: &[P], options: &ReadOptions) -> Result<Self> {
        let mut sources = Vec::new();
        for path in paths {
            let path = path.as_ref();
            sources.extend(Source::new(source::open(path)?, path, options)?);
        }
        let first_path = paths.first().map_or(Path::new(""), |path| path.as_ref());
        Self::from_sources(sources, first_path, options)
    }

    /// Reads a trace from a stream, decompressing it if needed; `name` appears in messages.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn from_stream(
        stream: impl Read + Send + 'static,
        name: impl AsRef<Path>,
        options: &ReadOptions,
    ) -> Result<Self> {
        let name = name.as_ref();
        let bytes = source::decompress(Box::new(stream), name)?;
        Self::from_sources(
            Source::new(bytes, name, options)?.into_iter().collect(),
            name,
            options,
        )
    }

    fn from_sources(mut sources: Vec<Source>, path: &Path, options: &ReadOptions) -> Result<Self> {
        let Some(first) = sources.first() else {
            return Err(Error::usage("open trace", "the file is empty").path(path));
        };
        if let Some(other) = sources.iter().find(|source| source.format != first.format) {
            return Err(Error::usage(
                "open trace",
                format!(
                    "the parts are of different formats: {} and {}",
                    first.format, other.format
                ),
            )
            .path(&other.path)
            .hint("`--format` names one for all of them"));
        }
        choose_stage(&mut sources)?;
        Ok(TraceReader {
            sources,
            shared: Shared {
                tally: Tally::new(options.on_error),
                names: Names::default(),
            },
            heads: BinaryHeap::new(),
            is_primed: false,
            is_done: false,
            requests: 0,
        })
    }

    /// The format, given or detected.
    pub fn format(&self) -> Format {
        self.sources
            .first()
            .map_or(Format::Spc, |source| source.format)
    }

    /// The files of the trace.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.sources.iter().map(|source| source.path.as_path())
    }

    /// Requests returned so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Lines skipped so far.
    pub fn skips(&self) -> &Skips {
        &self.shared.tally.skips
    }

    /// Valid lines so far that are no requests: headers, comments, file opens, other events.
    pub fn ignored(&self) -> u64 {
        self.shared.tally.ignored
    }

    /// Decompressed bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.sources.iter().map(Source::bytes).sum()
    }

    /// A note on how the trace is read, if there is one.
    pub fn note(&self) -> Option<&'static str> {
        let is_issued = |source: &Source| match &source.body {
            Body::Blktrace(events) => events.stage() == Stage::Issued,
            _ => false,
        };
        self.sources.iter().any(is_issued).then_some(
            "no event says when a request was queued (Q), so each counts from when it was issued to the drive (D), after merging",
        )
    }

    /// The name of device `number`, if the format has names (MSR: host and disk; fio: file).
    pub fn device_name(&self, number: u32) -> Option<&str> {
        self.shared.names.name(number)
    }

    fn step(&mut self) -> Result<Option<Request>> {
        if let [source] = &mut self.sources[..] {
            return source.next(&mut self.shared);
        }
        if !self.is_primed {
            self.is_primed = true;
            for index in 0..self.sources.len() {
                self.refill(index)?;
            }
        }
        let Some(Reverse((_, index, OrderedRequest(request)))) = self.heads.pop() else {
            return Ok(None);
        };
        self.refill(index)?;
        Ok(Some(request))
    }

    fn refill(&mut self, index: usize) -> Result<()> {
        if let Some(request) = self.sources[index].next(&mut self.shared)? {
            self.heads
                .push(Reverse((request.time_ns, index, OrderedRequest(request))));
        }
        Ok(())
    }

    /// The error at the end of a trace whose lines were all readable but contained no request.
    fn nothing_in_it(&self) -> Error {
        let (format, seen) = (self.format(), self.ignored());
        let part = format.part();
        let error = Error::usage(
            "read trace",
            format!("there is no request in it: none of {seen} {part}s of {format} is one"),
        );
        let error = match self.paths().next() {
            Some(path) => error.path(path),
            None => error,
        };
        match format {
            Format::Blktrace => error.hint(
                "a request is an event that was queued (Q) or issued (D): record with `blktrace -a queue`, or name the files of all CPUs",
            ),
            _ => error.hint(format!(
                "is it the right file? `--format` names another format ({})",
                names_of_all()
            )),
        }
    }

    /// The error at the end of a file without a readable line: it is not a trace of this format.
    fn nothing_read(&self) -> Option<Error> {
        let skips = self.skips();
        if self.requests > 0 {
            return None;
        }
        if skips.total() == 0 {
            return Some(self.nothing_in_it());
        }
        let mut error = Error::corrupt(
            "read trace",
            format!(
                "none of {} lines could be read as {}",
                skips.total(),
                self.format()
            ),
        );
        if let Some(place) = skips.places().first() {
            error = error
                .path(&place.path)
                .offset(place.offset_bytes)
                .hint(format!(
                    "line {}: {}: `{}`; `--format` names another format ({})",
                    place.line,
                    place.reason,
                    place.excerpt,
                    names_of_all()
                ));
        }
        Some(error)
    }
}

/// Chooses the events that count as requests: the queued ones, or, if no file has any, the issued
/// ones.
fn choose_stage(sources: &mut [Source]) -> Result<()> {
    let mut stage = None;
    for source in sources.iter_mut() {
        let Body::Blktrace(events) = &mut source.body else {
            continue;
        };
        let ahead = events.look_ahead();
        let ahead =
            ahead.map_err(|error| source::read_error(&error, &source.path, events.bytes()))?;
        if ahead == Some(Stage::Queued) {
            return Ok(());
        }
        stage = stage.or(ahead);
    }
    for source in sources {
        if let (Body::Blktrace(events), Some(stage)) = (&mut source.body, stage) {
            events.take(stage);
        }
    }
    Ok(())
}

impl Iterator for TraceReader {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        match self.step() {
            Ok(Some(request)) => {
                self.requests += 1;
                Some(Ok(request))
            }
            Ok(None) => {
                self.is_done = true;
                self.nothing_read().map(Err)
            }
            Err(error) => {
                self.is_done = true;
                Some(Err(error))
            }
        }
    }
}

impl Source {
    /// Detects the format; `None` for an empty file.
    fn new(bytes: Bytes, path: &Path, options: &ReadOptions) -> Result<Option<Self>> {
        let (head, is_whole, bytes) = source::peek(bytes, path)?;
        if head.is_empty() {
            return Ok(None);
        }
        let format = match options.format {
            Some(format) => format,
            None => detect(&head, is_whole).ok_or_else(|| unknown(&head, path))?,
        };
        let clock = options.time_unit_ns.map_or(format.clock(), Clock::of_unit);
        let body = match format {
            Format::Blktrace => {
                if let Some(version) = blktrace::other_version(&head) {
                    return Err(Error::usage(
                        "open trace",
                        format!("blktrace version {version} is not supported, only version 7"),
                    )
                    .path(path));
                }
                Body::Blktrace(EventReader::new(bytes, clock.unit_ns))
            }
            Format::Outcore if options.time_unit_ns.is_some() => {
                return Err(
                    Error::usage("open trace", "outcore's own traces count nanoseconds")
                        .path(path)
                        .hint("leave out `--time-unit`"),
                );
            }
            Format::Outcore => Body::Outcore(Frames::new(bytes, path)?),
            _ => Body::Text(
                Lines::new(bytes, LINE_BYTES_MAX),
                Box::new(LineParser::new(format, clock)),
            ),
        };
        Ok(Some(Source {
            path: path.to_path_buf(),
            format,
            body,
        }))
    }

    fn bytes(&self) -> u64 {
        match &self.body {
            Body::Text(lines, _) => lines.bytes(),
            Body::Blktrace(events) => events.bytes(),
            Body::Outcore(frames) => frames.bytes(),
        }
    }

    /// The next request of this file.
    fn next(&mut self, shared: &mut Shared) -> Result<Option<Request>> {
        let Source { path, format, body } = self;
        let what = (format.part(), format.title());
        match body {
            Body::Text(lines, parser) => next_of_text(lines, parser, path, what, shared),
            Body::Blktrace(events) => loop {
                let event = events.next();
                let bytes = events.bytes();
                match event.map_err(|error| source::read_error(&error, path, bytes))? {
                    Event::End => return Ok(None),
                    Event::Parsed(Ok(Some(request)), _) => return Ok(Some(request)),
                    Event::Parsed(Ok(None), _) => shared.tally.ignored += 1,
                    Event::Parsed(Err(reason), event) => {
                        let (number, start) = (events.number(), events.start_bytes());
                        shared
                            .tally
                            .bad(reason, path, number, start, &event[..16], what)?;
                    }
                }
            },
            Body::Outcore(frames) => loop {
                match frames.next() {
                    Ok(None) => return Ok(None),
                    Ok(Some(Entry::Request(record))) => return Ok(Some(record.request())),
                    Ok(Some(_)) => shared.tally.ignored += 1,
                    Err(Flaw::Io(error)) => {
                        return Err(source::read_error(&error, path, frames.start_bytes()));
                    }
                    Err(Flaw::Bad(reason)) => {
                        let (number, start) = (frames.number(), frames.start_bytes());
                        shared.tally.bad(reason, path, number, start, b"", what)?;
                    }
                }
            },
        }
    }
}

fn next_of_text(
    lines: &mut Lines<Bytes>,
    parser: &mut LineParser,
    path: &Path,
    what: (&str, &str),
    shared: &mut Shared,
) -> Result<Option<Request>> {
    loop {
        let (number, start) = (lines.number() + 1, lines.bytes());
        let (line, parsed) = match lines.next() {
            Ok(None) => return Ok(None),
            Ok(Some(Line::Text(line))) => (line, parser.parse(line, number, &mut shared.names)),
            Ok(Some(Line::TooLong(line))) => (line, Err(Reason::LineTooLong)),
            Err(error) => return Err(source::read_error(&error, path, start)),
        };
        match parsed {
            Ok(Some(request)) => return Ok(Some(request)),
            Ok(None) => shared.tally.ignored += 1,
            Err(Reason::Decimals) => {
                return Err(decimals(what.1, number, line).path(path).offset(start));
            }
            Err(reason) => shared.tally.bad(reason, path, number, start, line, what)?,
        }
    }
}

/// The error for a time with decimals in a format that has none: all other times would be wrong by
/// the same factor.
fn decimals(format: &str, number: u64, line: &[u8]) -> Error {
    Error::corrupt(
        "read trace",
        format!(
            "line {number} has a time with decimals, but {format} counts whole units: `{}`",
            excerpt(line)
        ),
    )
    .hint("`--time-unit` sets the unit of its times: ms for DiskSim's, or s, us, ns, 100ns")
}

fn unknown(head: &[u8], path: &Path) -> Error {
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if let Some(version) = blktrace::other_version(head) {
        return Error::usage(
            "open trace",
            format!("blktrace version {version} is not supported, only version 7"),
        )
        .path(path);
    }
    Error::usage(
        "open trace",
        format!(
            "the format cannot be identified; the first line is `{}`",
            excerpt(first)
        ),
    )
    .path(path)
    .hint(format!("`--format` names it: {}", names_of_all()))
}

/// The per-CPU files of the blktrace run that `path` belongs to; empty if there is none.
fn per_cpu_files(path: &Path) -> Result<Vec<PathBuf>> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Ok(Vec::new());
    };
    let is_cpu = |cpu: &str| !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit());
    let stem = match name.rsplit_once('.') {
        Some((stem, cpu)) if stem.ends_with(".blktrace") && is_cpu(cpu) => stem.to_owned(),
        _ if path.exists() => return Ok(Vec::new()),
        Some((_, "blktrace")) => name.to_owned(),
        _ => format!("{name}.blktrace"),
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // If the folder cannot be listed, opening the file itself reports the error.
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("list folder", &error).path(folder))?;
        let file = entry.file_name();
        let cpu = file
            .to_str()
            .and_then(|file| file.strip_prefix(&stem)?.strip_prefix('.'));
        if let Some(cpu) = cpu.filter(|cpu| is_cpu(cpu)) {
            files.push((cpu.parse::<u32>().unwrap_or(u32::MAX), entry.path()));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}
