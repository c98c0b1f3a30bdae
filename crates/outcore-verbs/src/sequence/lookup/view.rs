//! Lookups in views, and in files of sorted lines as if they were views.
//!
//! Contract: as in [`super`]. Keys and results are in memory.

use std::path::{Path, PathBuf};

use outcore::dataset::{ItemType, Summary as Done};
use outcore::job::Job;
use outcore::key::{NpyHeader, RecordFormat};
use outcore::primitives::Side;
use outcore::primitives::gather::InMemory;
use outcore::primitives::write::produce;
use outcore::runs::{LineType, SortedView};
use outcore::{Error, Output, Phase, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{self, ResolvedInput, Source, Streams};
use outcore_front::output::{self, Consent, Holds, Target};
use outcore_front::resources::Resources;
use outcore_front::spool::{Spool, unpack_packed};
use outcore_front::view;
use outcore_io::memory::Reservation;
use outcore_io::output::parent_of;
use serde_json::json;

use super::super::input::resources_of;
use super::keys::{Keys, bytes_of};
use super::{LOOKUP, LookupArgs, LookupSummary, side_of, write_found};
use crate::host::{Host, Kept, watch};
use crate::report::{Moved, Phase as PhaseReport, Place, Stopwatch, WriteSummary};

const NEWLINE: u8 = b'\n';

/// The writes, after these phases.
fn after(mut phases: Vec<Phase>, written: Done) -> Done {
    phases.extend(written.phases.iter().cloned());
    Done { phases, ..written }
}

/// Looks up keys in a view, or in a file of lines as if it were a view.
///
/// # Errors
/// Usage; lines that are not in order; errors of reading and writing.
pub(super) fn in_view(host: &dyn Host, args: &LookupArgs, is_view: bool) -> Result<LookupSummary> {
    let stopwatch = Stopwatch::start();
    check(args)?;
    let force = args.files.input.force;
    let resources = resources_of(host, &args.files.input)?;
    let mut files = vec![args.keys.clone()];
    if !is_view {
        files.extend(args.files.input.inputs.iter().cloned());
    }
    let sources = inputs::find(&files, Streams::Refused, host.names())?;
    let end = if args.zero_terminated { 0 } else { NEWLINE };
    let recognition = Recognition {
        takes_nuls: args.zero_terminated,
        ..Recognition::default()
    };
    if !is_view {
        for source in &sources {
            inputs::look_at_lines(source.clone(), recognition)?;
        }
    }
    let (name, target) = target_of(host, args, is_view, &sources, &resources)?;
    let kept = Kept {
        sources: &sources,
        target: Some(&target),
        force,
        ..Kept::default()
    };
    let resources = host.start(resources, args.files.input.job.record_io.path(), kept)?;
    let place = &args.files.input.inputs[0];
    let resources = resources.measuring(args.files.input.explain);
    let job = host.adopt(resources.pass_job(Vec::new()));
    begin(host, &job, place, target.name());
    let opened = match is_view {
        true => Some(refuse_table(view::open(&job, place)?)?),
        false => None,
    };
    let header = header_for(args, &name, &target, opened.as_ref())?;
    let to = target.to_sort(header, |path| host.open_pipe(path, &job.control))?;
    let mut texts = Texts {
        host,
        job: &job,
        resources: &resources,
        spool: None,
    };
    let found = watch(host, &job.control, &[], || {
        let view = match opened {
            Some(view) => view,
            None => {
                let file = texts.one_file(place, recognition)?;
                SortedView::of_sorted_lines(&job, &file, &LineType::of_bytes(end))?
            }
        };
        let keys = texts.keys_for(&view, &args.keys)?;
        let asked = Asked::read(&job, &args.keys, &keys, &view)?;
        let keys = asked.keys();
        let written = match (args.values, is_view) {
            (true, true) => write_values(&job, &view, &keys, &to, force)?,
            (true, false) => write_lines(&job, &view, &keys, end, &to, force)?,
            (false, _) => write_ranks(&job, &view, &keys, side_of(args), &to, force)?,
        };
        Ok(Found {
            records: view.len(),
            keys: keys.len() as u64,
            read_bytes: view.traffic_bytes().0,
            written,
        })
    });
    let found = found.map_err(|error| inputs::explain(&sources, error))?;
    let moved = Moved {
        records: found.keys,
        read_bytes: found.read_bytes,
        written_bytes: found.written.written_bytes,
        passes: u32::from(!is_view),
    };
    let unit = if is_view { "record" } else { "line" };
    let trace = host.end_trace()?;
    Ok(LookupSummary {
        wrote: WriteSummary {
            used: stopwatch.stop(moved, &[], &resources, trace),
            unit: unit.to_owned(),
            output: Some(Place(host.name_of(target.name()))),
            records_in: Some(found.records),
            data_bytes: 0,
            output_bytes: None,
            files: target.files().len() as u64,
            scratch_bytes: Some(texts.spool.as_ref().map_or(0, |spool| spool.bytes)),
            skipped: 0,
            phases: PhaseReport::of_engine(&found.written.phases),
            plan: None,
            notes: Vec::new(),
        },
        keys: found.keys,
    })
}

/// The result of a lookup.
struct Found {
    records: u64,
    keys: u64,
    read_bytes: u64,
    written: Done,
}

/// Reports the lookup before it begins.
fn begin(host: &dyn Host, job: &Job, place: &Path, output: &Path) {
    host.begin(json!({
        "inputs": [place.display().to_string()],
        "output": output.display().to_string(),
        "type": "view",
        "memory_bytes": job.options.memory_bytes,
        "threads": job.options.threads,
    }));
}

/// The destination of the result, by its name.
fn target_of(
    host: &dyn Host,
    args: &LookupArgs,
    is_view: bool,
    sources: &[Source],
    resources: &Resources,
) -> Result<(PathBuf, Target)> {
    let force = args.files.input.force;
    let name = host.names().output(&args.files.output.output, force)?;
    // The kind of a view is known only after it has been opened. Until then, the name of the output
    // decides.
    let extension = args.files.output.output.extension();
    let is_array = is_view && extension.is_some_and(|end| end == "npy");
    let holds = match args.values && !is_array {
        true => Holds::Lines,
        false => Holds::Records,
    };
    let (specs, streams) = (resources.specs(), host.streams());
    let target = output::choose_new(Some(&name), sources, specs, force, streams, holds)?;
    Ok((name.into_owned(), target))
}

/// The header of the output for an open view, or for lines. Fails if the name of the output does
/// not match.
fn header_for(
    args: &LookupArgs,
    name: &Path,
    target: &Target,
    view: Option<&SortedView>,
) -> Result<Option<NpyHeader>> {
    let made = match (args.values, view.map(SortedView::format)) {
        (false, _) => Some(RecordFormat::parse_type("u64")?),
        (true, format) => format.flatten().cloned(),
    };
    let holds = made.as_ref().map_or(Holds::Lines, |_| Holds::Records);
    holds.check_name(name)?;
    let consent = Consent {
        force: args.files.input.force,
        ..Consent::default()
    };
    output::check_terminal(target, holds, consent)?;
    match made {
        Some(format) => output::header_for(target, &[], &ItemType::from(format)),
        None => Ok(None),
    }
}

/// Files of text that are read in place, or decompressed first.
struct Texts<'a> {
    host: &'a dyn Host,
    job: &'a Job,
    resources: &'a Resources,
    /// The decompressed files.
    spool: Option<Spool>,
}

impl Texts<'_> {
    /// The files with the name `name`.
    fn files(&mut self, name: &Path, how: Recognition) -> Result<Vec<ResolvedInput>> {
        let names = [name.to_path_buf()];
        let sources = inputs::find(&names, Streams::Refused, self.host.names())?;
        let look = |source| inputs::look_at_lines(source, how);
        let looked = sources.into_iter().map(look).collect::<Result<Vec<_>>>()?;
        let beside = parent_of(name);
        unpack_packed(
            self.job,
            self.resources,
            beside,
            looked,
            how,
            &mut self.spool,
        )
    }

    /// The keys in the file `name`, in the form for a search in `view`.
    fn keys_for(&mut self, view: &SortedView, name: &Path) -> Result<Vec<ResolvedInput>> {
        match view.what().lines() {
            Some(lines) => {
                let how = Recognition {
                    takes_nuls: lines.terminator == 0,
                    ..Recognition::default()
                };
                self.files(name, how)
            }
            None => inputs::open_files(&[name.to_path_buf()], self.host.names()),
        }
    }

    /// The single file with the name `name`.
    fn one_file(&mut self, name: &Path, how: Recognition) -> Result<PathBuf> {
        match &self.files(name, how)?[..] {
            [one] => Ok(one.source.path.clone()),
            _ => Err(Error::usage(LOOKUP, "several files of lines").hint("name one sorted file")),
        }
    }
}

/// Rejects options that do not apply to a view or to lines.
fn check(args: &LookupArgs) -> Result<()> {
    let refused = |cause: &str, hint: &str| Err(Error::usage(LOOKUP, cause).hint(hint));
    match args.files.input.inputs.len() {
        1 if args.files.input.inputs[0].as_os_str() == "-" => refused(
            "sorted lines must be in a file, not in a stream",
            "name one sorted file",
        ),
        1 => Ok(()),
        _ => refused("several files of lines", "name one sorted file"),
    }
}

/// Fails for a view of a table, whose keys are not in files of records or lines.
fn refuse_table(view: SortedView) -> Result<SortedView> {
    match view.what().rows() {
        None => Ok(view),
        Some(_) => Err(Error::usage(LOOKUP, "the view holds a table")
            .path(view.info().dir)
            .hint("find rows by key with `outcore view cat --key`")),
    }
}

/// Memory of a key in addition to its bytes.
const KEY_BYTES: u64 = 32;

/// Keys in memory.
struct Asked {
    _held: Reservation,
    bytes: Vec<u8>,
    /// The end of each key, and the number of bytes between two keys.
    ends: Vec<usize>,
    between: usize,
}

impl Asked {
    /// The keys in a file, in the form of the view: records, or lines.
    fn read(job: &Job, path: &Path, files: &[ResolvedInput], view: &SortedView) -> Result<Self> {
        if let Some(format) = view.format() {
            let bytes = Keys::of_records(path, files, format)?.read_all(job)?;
            let step = format.record_bytes();
            let count = (bytes.len() / step) as u64;
            return Ok(Asked {
                _held: hold(job, path, bytes.len(), count)?,
                ends: (step..=bytes.len()).step_by(step).collect(),
                bytes,
                between: 0,
            });
        }
        let end = view
            .what()
            .lines()
            .map_or(NEWLINE, |lines| lines.terminator);
        let mut bytes = bytes_of(job, path, files)?;
        // Keys of a view of CSV may have its header in front.
        let front = view.front();
        if !front.is_empty() && bytes.starts_with(front) {
            bytes.drain(..front.len());
        }
        if bytes.last().is_some_and(|last| *last != end) {
            bytes.push(end);
        }
        let count = bytes.iter().filter(|byte| **byte == end).count();
        Ok(Asked {
            _held: hold(job, path, bytes.len(), count as u64)?,
            ends: (0..bytes.len()).filter(|at| bytes[*at] == end).collect(),
            bytes,
            between: 1,
        })
    }

    /// Each key. Call it once.
    fn keys(&self) -> Vec<&[u8]> {
        let mut from = 0;
        let each = self.ends.iter().map(|end| {
            let key = &self.bytes[from..*end];
            from = end + self.between;
            key
        });
        each.collect()
    }
}

/// Reserves the memory of `count` keys with this many bytes in total.
fn hold(job: &Job, path: &Path, len_bytes: usize, count: u64) -> Result<Reservation> {
    let held = job
        .budget
        .reserve("keys", len_bytes as u64 + count * KEY_BYTES);
    held.map_err(|error| {
        error
            .path(path)
            .hint("allow more with --memory, or look up in several runs")
    })
}

/// Writes the ranks of keys.
fn write_ranks(
    job: &Job,
    view: &SortedView,
    keys: &[&[u8]],
    side: Side,
    output: &Output,
    force: bool,
) -> Result<Done> {
    let (ranks, phase) = view.lookup(keys, side == Side::Right)?;
    let found = InMemory {
        bytes: bytemuck::cast_slice(&ranks),
        item_bytes: size_of::<u64>(),
    };
    let written = write_found(job, &found, output, force, Done::default())?;
    Ok(after(vec![phase], written))
}

/// Writes the records or lines of a view that are equal to keys.
fn write_values(
    job: &Job,
    view: &SortedView,
    keys: &[&[u8]],
    output: &Output,
    force: bool,
) -> Result<Done> {
    let (mut bytes, phases) = view.values(keys)?;
    let front = match view.what().lines() {
        Some(_) => view.front(),
        None => &[],
    };
    bytes.splice(..0, front.iter().copied());
    let _held = job
        .budget
        .reserve("records that were found", bytes.len() as u64)?;
    let found = InMemory {
        bytes: &bytes,
        item_bytes: view.unit_bytes(),
    };
    Ok(after(phases, produce(job, &found, output, force)?))
}

/// Writes the lines that are equal to keys, as often as the file has them. In the order of bytes,
/// these lines are the keys themselves.
fn write_lines(
    job: &Job,
    view: &SortedView,
    keys: &[&[u8]],
    end: u8,
    output: &Output,
    force: bool,
) -> Result<Done> {
    let (ranks, first) = view.lookup(keys, false)?;
    let (ends, second) = view.lookup(keys, true)?;
    let count = |(from, to): (&u64, &u64)| to.saturating_sub(*from);
    let each = || keys.iter().zip(ranks.iter().zip(&ends).map(count));
    let found_bytes: u64 = each()
        .map(|(key, count)| count * (key.len() as u64 + 1))
        .sum();
    let _held = job.budget.reserve("lines that were found", found_bytes)?;
    let mut bytes = Vec::with_capacity(found_bytes as usize);
    for (key, count) in each() {
        for _ in 0..count {
            bytes.extend_from_slice(key);
            bytes.push(end);
        }
    }
    let found = InMemory {
        bytes: &bytes,
        item_bytes: 1,
    };
    let written = produce(job, &found, output, force)?;
    Ok(after(vec![first, second], written))
}
