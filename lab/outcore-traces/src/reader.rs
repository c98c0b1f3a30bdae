//! A block trace as an iterator of requests, independent of its format and compression.
//!
//! Contract: files of any length are read in constant memory. Corrupt lines are skipped and
//! counted, or an error with file and line if the caller chooses so. Several files (one per CPU
//! from blktrace, or the parts of a trace) are merged by time, stably; each file keeps its own
//! order. Issues and completions, which give the response times of requests, are merged as well,
//! since they may be in the files of two CPUs. Nothing is sorted, so traces that are not ordered by
//! time stay unordered. A file without any request is an error at its end, and so is a binary file
//! that ends inside a record. Cost: one pass, no allocation per line.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Read;
use std::path::{Path, PathBuf};

use outcore_io::drive::paths;
use outcore_io::{Error, Result, units};

use crate::formats::blktrace::{self, AHEAD_EVENTS, EventReader};
use crate::formats::records::{Layout, RecordReader};
use crate::formats::{Clock, Format, LineParser, Names, Parsed, detect, names_of_all};
use crate::io_trace::{Entry, Flaw, Frames};
use crate::lines::{Line, Lines};
use crate::request::Request;
use crate::skips::{FormatPart, OnError, Reason, Skips, Tally, cut_short, excerpt};
use crate::source::{self, Bytes};
use crate::stages::{Meter, ResponseTimes, Stage, Timing};

/// Longest line of a text trace; only names of processes and files are long.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Bytes of a bad record that a report shows.
const EXCERPT_BYTES: usize = 16;

/// Minimum number of events of each file that are searched for the stage that counts.
const AHEAD_EVENTS_MIN: usize = 64;

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
    /// The next item of each file, if there are several.
    heads: BinaryHeap<Reverse<(u64, usize, OrderedItem)>>,
    is_primed: bool,
    is_done: bool,
    requests: u64,
}

/// A line or event that matters: a request, or the end of one.
#[derive(Debug, Clone, Copy)]
struct Item {
    request: Option<Request>,
    timing: Timing,
}

impl Item {
    /// The item of a parsed line or event; `None` if it does not matter.
    fn of(request: Option<Request>, timing: Timing) -> Option<Self> {
        (request.is_some() || timing != Timing::Unknown).then_some(Item { request, timing })
    }

    fn time_ns(&self) -> u64 {
        let event_ns = || self.timing.time_ns().unwrap_or(0);
        self.request
            .map_or_else(event_ns, |request| request.time_ns)
    }
}

/// An item that does not take part in the heap's order, which depends only on time and file.
#[derive(Debug, Clone, Copy)]
struct OrderedItem(Item);

impl PartialEq for OrderedItem {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for OrderedItem {}

impl PartialOrd for OrderedItem {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedItem {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// State that all files of a trace share.
struct Shared {
    tally: Tally,
    names: Names,
    meter: Meter,
}

/// One file.
struct Source {
    path: PathBuf,
    format: Format,
    body: Body,
    /// The stage of the requests in the first bytes of a text, if the format leaves a choice.
    stage_ahead: Option<Stage>,
}

enum Body {
    Text(Lines<Bytes>, Box<LineParser>),
    Blktrace(EventReader<Bytes>),
    Records(RecordReader<Bytes>),
    Outcore(Frames<Bytes>),
}

impl TraceReader {
    /// Opens one trace; `-` is standard input. For a blktrace file `NAME.blktrace.N`, packed or
    /// not, or for the `NAME` or `NAME.blktrace` of such files, it opens the files of all CPUs.
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
                meter: Meter::default(),
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
        self.sources.iter().map(|source| source.body.bytes()).sum()
    }

    /// A note on how the trace is read, if there is one.
    pub fn note(&self) -> Option<&'static str> {
        if self.format() == Format::OracleGeneral {
            return Some(
                "the format has neither addresses nor operations, so each object is a read at its number times 512 bytes",
            );
        }
        self.sources.first()?.stage()?.note()
    }

    /// Response times of the requests so far, from issue to completion. `None` if the trace has
    /// none.
    pub fn response(&self) -> Option<ResponseTimes> {
        self.shared.meter.times()
    }

    /// The name of device `number`, if the format has names (MSR: host and disk; fio: file).
    pub fn device_name(&self, number: u32) -> Option<&str> {
        self.shared.names.name(number)
    }

    fn step(&mut self) -> Result<Option<Request>> {
        while let Some(item) = self.next_item()? {
            self.shared.meter.add(item.timing);
            if item.request.is_some() {
                return Ok(item.request);
            }
            self.shared.tally.ignored += 1;
        }
        Ok(None)
    }

    fn next_item(&mut self) -> Result<Option<Item>> {
        if let [source] = &mut self.sources[..] {
            return source.next(&mut self.shared);
        }
        if !self.is_primed {
            self.is_primed = true;
            for index in 0..self.sources.len() {
                self.refill(index)?;
            }
        }
        let Some(Reverse((_, index, OrderedItem(item)))) = self.heads.pop() else {
            return Ok(None);
        };
        self.refill(index)?;
        Ok(Some(item))
    }

    fn refill(&mut self, index: usize) -> Result<()> {
        if let Some(item) = self.sources[index].next(&mut self.shared)? {
            self.heads
                .push(Reverse((item.time_ns(), index, OrderedItem(item))));
        }
        Ok(())
    }

    /// The error at the end of a trace whose lines were all readable but contained no request.
    fn nothing_in_it(&self) -> Error {
        let (format, seen) = (self.format(), units::count(self.ignored()));
        let part = format.part();
        let error = Error::usage(
            "read trace",
            format!("none of its {seen} {part}s is a request in the format {format}"),
        );
        let error = match self.paths().next() {
            Some(path) => error.path(path),
            None => error,
        };
        match format {
            Format::Blktrace | Format::Blkparse | Format::Simplessd => error.hint(
                "a request is an event that was queued (Q), issued (D) or completed (C): record with `blktrace -a queue`, or name the files of all CPUs",
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

/// Chooses the events that count as requests in all files: queued events if any file has one,
/// otherwise issued events if any file has one, otherwise completions.
fn choose_stage(sources: &mut [Source]) -> Result<()> {
    let events_max = (AHEAD_EVENTS / sources.len().max(1)).max(AHEAD_EVENTS_MIN);
    let mut found = None;
    for source in sources.iter_mut() {
        let ahead = match &mut source.body {
            Body::Blktrace(events) => events
                .look_ahead(events_max)
                .map_err(|error| source::read_error(&error, &source.path, events.bytes()))?,
            _ => source.stage_ahead,
        };
        found = Stage::earlier(found, ahead);
        if found == Some(Stage::Queued) {
            break;
        }
    }
    let Some(stage) = found else {
        return Ok(());
    };
    for source in sources {
        match &mut source.body {
            Body::Blktrace(events) => events.take(stage),
            Body::Text(_, parser) => parser.take(stage),
            Body::Records(_) | Body::Outcore(_) => {}
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
        let mut stage_ahead = None;
        let body = match format {
            Format::Blktrace => {
                if let Some(version) = blktrace::other_version(&head) {
                    return Err(other_version(version, path));
                }
                Body::Blktrace(EventReader::new(bytes, clock.unit_ns))
            }
            Format::VscsiBinary | Format::OracleGeneral => {
                let layout = Layout::of(format, &head).ok_or_else(|| no_layout(&head, path))?;
                Body::Records(RecordReader::new(bytes, layout, clock.unit_ns))
            }
            Format::Outcore if options.time_unit_ns.is_some() => {
                return Err(
                    Error::usage("open trace", "outcore's own traces count nanoseconds")
                        .path(path)
                        .hint("leave out `--time-unit`"),
                );
            }
            Format::Outcore => Body::Outcore(Frames::new(bytes, path)?),
            _ => {
                let parser = LineParser::new(format, clock);
                stage_ahead = parser.look_ahead(&head);
                Body::Text(Lines::new(bytes, LINE_BYTES_MAX), Box::new(parser))
            }
        };
        Ok(Some(Source {
            path: path.to_path_buf(),
            format,
            body,
            stage_ahead,
        }))
    }

    /// The stage whose events count as requests, if the format leaves a choice.
    fn stage(&self) -> Option<Stage> {
        match &self.body {
            Body::Blktrace(events) => Some(events.stage()),
            Body::Text(_, parser) => parser.stage(),
            Body::Records(_) | Body::Outcore(_) => None,
        }
    }

    /// The next item of this file.
    fn next(&mut self, shared: &mut Shared) -> Result<Option<Item>> {
        let Source {
            path, format, body, ..
        } = self;
        let what = FormatPart {
            part: format.part(),
            format: format.title(),
        };
        if let Body::Text(lines, parser) = body {
            return next_of_text(lines, parser, path, what, shared);
        }
        loop {
            let next = body.next_record();
            let Some(next) =
                next.map_err(|error| source::read_error(&error, path, body.bytes()))?
            else {
                return Ok(None);
            };
            match next.parsed {
                Ok(request) => match Item::of(request, next.timing) {
                    Some(item) => return Ok(Some(item)),
                    None => shared.tally.ignored += 1,
                },
                Err(Reason::Truncated) => {
                    let error = cut_short(what.part, what.format, next.number, next.start_bytes);
                    return Err(error.path(&*path));
                }
                Err(reason) => {
                    let (number, start) = (next.number, next.start_bytes);
                    let tally = &mut shared.tally;
                    tally.bad(reason, path, number, start, &next.excerpt, what)?;
                }
            }
        }
    }
}

/// An event or record of a binary file.
struct NextRecord {
    parsed: Parsed,
    timing: Timing,
    /// Its number, from 1.
    number: u64,
    start_bytes: u64,
    /// Its first bytes, where a report shows them.
    excerpt: Vec<u8>,
}

impl Body {
    /// Bytes read so far.
    fn bytes(&self) -> u64 {
        match self {
            Body::Text(lines, _) => lines.bytes(),
            Body::Blktrace(events) => events.bytes(),
            Body::Records(records) => records.bytes(),
            Body::Outcore(frames) => frames.bytes(),
        }
    }

    /// The next event or record of a binary file; `None` at its end.
    fn next_record(&mut self) -> std::io::Result<Option<NextRecord>> {
        let mut timing = Timing::Unknown;
        let event_bytes;
        let (parsed, number, start_bytes, bytes): (Parsed, u64, u64, &[u8]) = match self {
            Body::Text(..) => return Ok(None),
            Body::Blktrace(events) => {
                let Some(event) = events.next()? else {
                    return Ok(None);
                };
                (timing, event_bytes) = (event.timing, event.bytes);
                let (number, start_bytes) = (events.number(), events.start_bytes());
                (event.parsed, number, start_bytes, &event_bytes)
            }
            Body::Records(records) => {
                let Some(parsed) = records.next()? else {
                    return Ok(None);
                };
                let (number, start_bytes) = (records.number(), records.start_bytes());
                (parsed, number, start_bytes, records.record())
            }
            Body::Outcore(frames) => {
                let parsed = match frames.next() {
                    Ok(None) => return Ok(None),
                    Ok(Some(Entry::Request(record))) => Ok(Some(record.request())),
                    Ok(Some(_)) => Ok(None),
                    Err(Flaw::Bad(reason)) => Err(reason),
                    Err(Flaw::Io(error)) => return Err(error),
                };
                (parsed, frames.number(), frames.start_bytes(), b"")
            }
        };
        let excerpt = match parsed {
            Ok(_) => Vec::new(),
            Err(_) => bytes[..bytes.len().min(EXCERPT_BYTES)].to_vec(),
        };
        Ok(Some(NextRecord {
            parsed,
            timing,
            number,
            start_bytes,
            excerpt,
        }))
    }
}

fn next_of_text(
    lines: &mut Lines<Bytes>,
    parser: &mut LineParser,
    path: &Path,
    what: FormatPart,
    shared: &mut Shared,
) -> Result<Option<Item>> {
    loop {
        let (number, start) = (lines.number() + 1, lines.bytes());
        let (line, parsed) = match lines.next() {
            Ok(None) => return Ok(None),
            Ok(Some(Line::Text(line))) => (line, parser.parse(line, number, &mut shared.names)),
            Ok(Some(Line::TooLong(line))) => (line, Err(Reason::LineTooLong)),
            Err(error) => return Err(source::read_error(&error, path, start)),
        };
        match parsed {
            Ok(request) => match Item::of(request, parser.timing()) {
                Some(item) => return Ok(Some(item)),
                None => shared.tally.ignored += 1,
            },
            Err(Reason::Decimals) => {
                return Err(decimals(what.format, number, line).path(path).offset(start));
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
    .hint(
        "`--format disksim` reads DiskSim's milliseconds; `--time-unit` says what another trace counts: s, ms, us, ns, 100ns",
    )
}

fn other_version(version: u32, path: &Path) -> Error {
    Error::usage(
        "open trace",
        format!("blktrace version {version} is not supported, only version 7"),
    )
    .path(path)
}

/// The error for a file whose records have none of the layouts of the named format.
fn no_layout(head: &[u8], path: &Path) -> Error {
    let start = &head[..head.len().min(EXCERPT_BYTES)];
    Error::corrupt(
        "open trace",
        format!(
            "no record is of vscsi's version 1 or 2; the file starts with `{}`",
            excerpt(start)
        ),
    )
    .path(path)
    .offset(0)
    .hint(format!(
        "without `--format` the content decides; known are {}",
        names_of_all()
    ))
}

fn unknown(head: &[u8], path: &Path) -> Error {
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if let Some(version) = blktrace::other_version(head) {
        return other_version(version, path);
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

/// The per-CPU files of the blktrace run that `path` belongs to, packed or not; empty if there is
/// none. If a file exists in several forms, the plain form counts.
fn per_cpu_files(path: &Path) -> Result<Vec<PathBuf>> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Ok(Vec::new());
    };
    let stem = match unpacked_name(name).rsplit_once('.') {
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
    let Ok(entries) = paths::entries(folder) else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io("list folder", &error).path(folder))?;
        let file = entry.file_name();
        let cpu = file
            .to_str()
            .and_then(|file| unpacked_name(file).strip_prefix(&stem)?.strip_prefix('.'));
        if let Some(cpu) = cpu.filter(|cpu| is_cpu(cpu)) {
            files.push((cpu.parse::<u32>().unwrap_or(u32::MAX), entry.path()));
        }
    }
    files.sort();
    files.dedup_by_key(|(cpu, _)| *cpu);
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

fn is_cpu(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A file's name without the ending of a packed file.
fn unpacked_name(name: &str) -> &str {
    [".gz", ".zst"]
        .into_iter()
        .find_map(|end| name.strip_suffix(end))
        .unwrap_or(name)
}
