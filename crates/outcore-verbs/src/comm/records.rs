//! `comm` of records.
//!
//! Contract: as [`super`]: one column of the three is kept, with the records in the order of their
//! key. Each input is sorted to scratch, and both are read in parallel. If the output is an array,
//! both are read twice, because its header has the number of records. Records are matched by key;
//! for records in both inputs, those of the first are written. The sorted files have no checksums.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use outcore::job::Job;
use outcore::key::{Order, OrderOptions, RecordFormat};
use outcore::sort::lines::SideCounts;
use outcore::sort::{self, SortOptions};
use outcore::{DriveTraffic, Error, Kind, Output, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{self, ResolvedInput, Source, Streams};
use outcore_front::job::settle_sort;
use outcore_front::output::{self, Consent, Holds, Target};
use outcore_front::records;
use outcore_front::resources::Resources;
use outcore_front::spool::dir_for;
use outcore_front::text::output::{Dress, LineWriter, not_one_file};
use outcore_front::text::reader::{Frame, RecordReader};
use outcore_io::units;
use serde_json::json;

use super::page::{CommArgs, CommSummary};
use crate::host::{Host, Kept, check_output_named, watch};
use crate::lines::find;
use crate::records::open_all;
use crate::report::{Moved, Phase, Place, Stopwatch, WriteSummary};
use crate::scratch::note_scratch;

/// The records of one column.
pub(super) fn comm(
    host: &dyn Host,
    args: &CommArgs,
    inputs: &[PathBuf; 2],
    resources: Resources,
) -> Result<CommSummary> {
    let stopwatch = Stopwatch::start();
    let column = args.only_shown("records")?;
    let sources = find(host, inputs)?;
    let left_sources = find(host, &inputs[..1])?.len();
    let target = target_of(host, args, &sources, &resources)?;
    resources.named_drives(0)?;
    let kept = Kept {
        sources: &sources,
        target: Some(&target),
        force: args.force,
        ..Kept::default()
    };
    let resources = host.start(resources, args.job.record_io.path(), kept)?;
    let types = args.record.ordered_by(&args.by)?.to_request();
    let (looked, spool) = open_all(host, &types, &resources, sources, &target)?;
    let decided = records::decide(&types, &looked)?;
    let header = output::header_for(&target, &looked, &decided)?;
    let format = &decided.format;
    let options = SortOptions::default();
    let (job, plan) = settle_sort(&resources, &looked, Some(&target), format, options, false)?;
    let mut job = host.adopt(job);
    note_scratch(host, &resources, &target, &job);
    let spooled_bytes = spool.as_ref().map_or(0, |spool| spool.bytes);
    let data_bytes: u64 = looked.iter().map(|input| input.data_bytes).sum();
    job.options.scratch_limit_bytes = room_beside(&job, spooled_bytes + data_bytes)?;
    if args.explain {
        host.show_plan(&plan);
    }
    let names = inputs.iter().map(|name| name.display().to_string());
    host.begin(json!({
        "inputs": names.collect::<Vec<_>>(),
        "output": target.name().display().to_string(),
        "type": format.to_string(),
    }));
    let parent = dir_for(&resources, &target)?;
    job.device.sweep_private_dirs(&parent)?;
    let dir = job.device.make_private_dir(&parent)?;
    let (left, right) = looked.split_at(left_sources);
    let Sorted {
        sources: sorted,
        mut moved,
        phases,
        traffic,
        scratch_bytes,
    } = sort_both(host, &job, [left, right], dir.path(), format)?;
    let compared = Compared {
        job: &job,
        sorted: &sorted,
        order: Order::new(format, OrderOptions::default()),
        record_bytes: format.record_bytes(),
    };
    job.control.begin_phase("compare", data_bytes);
    let counts = watch(host, &job.control, &[], || {
        let counted = match &header {
            Some(_) => compared.each(&mut |_, _| Ok(()))?,
            None => SideCounts::default(),
        };
        let header = header.as_ref();
        let dress = Dress {
            header: header
                .map_or_else(Vec::new, |header| header.encode(of_column(counted, column))),
            ..Dress::default()
        };
        let pipe = |path: Option<&Path>| host.open_pipe(path, &job.control);
        let mut writer = LineWriter::open(&job, &target, args.force, &dress, pipe)?;
        let counts = compared.each(&mut |found, record| match found == column {
            true => writer.put(record),
            false => Ok(()),
        })?;
        moved.written_bytes += writer.finish()?;
        Ok(counts)
    })?;
    moved.records = of_column(counts, column);
    moved.passes += 1;
    moved.read_bytes += data_bytes * if header.is_some() { 2 } else { 1 };
    let used = stopwatch.stop(moved, &traffic, &resources, host.end_trace()?);
    Ok(CommSummary {
        first: Some(counts.first),
        second: Some(counts.second),
        both: Some(counts.both),
        ..CommSummary::of(WriteSummary {
            output: Some(Place(host.name_of(target.name()))),
            records_in: Some(data_bytes / format.record_bytes() as u64),
            data_bytes,
            files: target.files().len() as u64,
            scratch_bytes: Some(scratch_bytes + data_bytes + spooled_bytes),
            phases,
            ..WriteSummary::of_nothing(used, "record")
        })
    })
}

/// Both inputs on scratch, and the cost of sorting them.
#[derive(Default)]
struct Sorted {
    sources: Vec<Vec<Source>>,
    moved: Moved,
    phases: Vec<Phase>,
    traffic: Vec<DriveTraffic>,
    scratch_bytes: u64,
}

/// Sorts each of two inputs into a file in `dir`.
fn sort_both(
    host: &dyn Host,
    job: &Job,
    sides: [&[ResolvedInput]; 2],
    dir: &Path,
    format: &RecordFormat,
) -> Result<Sorted> {
    let mut sorted = Sorted::default();
    // The next run removes scratch files with these names that a killed run has left.
    for (name, side) in ["scratch-0", "scratch-1"].into_iter().zip(sides) {
        let path = dir.join(name);
        let files: Vec<_> = side.iter().map(ResolvedInput::to_sort).collect();
        let output = Output::File {
            path: path.clone(),
            header: None,
        };
        let done = watch(host, &job.control, &[], || {
            sort::sort(job, &files, output, format, SortOptions::default())
        })?;
        sorted.moved.read_bytes += done.read_bytes;
        sorted.moved.written_bytes += done.written_bytes;
        sorted.moved.passes += done.passes;
        sorted.scratch_bytes = done.scratch_bytes.max(sorted.scratch_bytes);
        sorted.traffic.extend_from_slice(&done.drives);
        sorted.phases.extend(Phase::of_engine(&done.phases));
        let found = inputs::find(&[path], Streams::Refused, host.names())?;
        sorted.sources.push(found);
    }
    Ok(sorted)
}

/// The room for scratch that is left next to the copies of both inputs.
fn room_beside(job: &Job, copies_bytes: u64) -> Result<u64> {
    let limit_bytes = job.options.scratch_limit_bytes;
    limit_bytes.checked_sub(copies_bytes).ok_or_else(|| {
        let cause = format!(
            "the sorted copies of both inputs take {}, but only {} may be used",
            units::bytes(copies_bytes),
            units::bytes(limit_bytes)
        );
        Error::new(Kind::NoSpace, "sort to scratch", cause)
            .hint("name a drive with more room, or raise --scratch-limit")
    })
}

/// The destination of the records.
fn target_of(
    host: &dyn Host,
    args: &CommArgs,
    sources: &[Source],
    resources: &Resources,
) -> Result<Target> {
    let Some(name) = &args.output else {
        check_output_named(host)?;
        let target = Target::Pipe(None);
        output::check_terminal(&target, Holds::Records, Consent::default())?;
        return Ok(target);
    };
    let name = host.names().output(name, args.force)?;
    let (specs, streams) = (resources.specs(), host.streams());
    let (name, force) = (Some(&*name), args.force);
    let target = output::choose_new(name, sources, specs, force, streams, Holds::Records)?;
    match &target {
        Target::Shards { .. } => Err(not_one_file(&target)),
        _ => Ok(target),
    }
}

/// The number of records in a column.
fn of_column(counts: SideCounts, column: usize) -> u64 {
    [counts.first, counts.second, counts.both][column]
}

/// Both sorted inputs.
struct Compared<'a> {
    job: &'a Job,
    sorted: &'a [Vec<Source>],
    order: Order,
    record_bytes: usize,
}

impl Compared<'_> {
    /// Passes each record with the number of its column to `take`; for records in both inputs, that
    /// of the first.
    fn each(&self, take: &mut dyn FnMut(usize, &[u8]) -> Result<()>) -> Result<SideCounts> {
        let mut sides = [self.side(0), self.side(1)];
        for side in &mut sides {
            side.advance()?;
        }
        let mut counts = SideCounts::default();
        let mut compared: u64 = 0;
        loop {
            compared += 1;
            if compared.is_multiple_of(1 << 16) {
                self.job.control.check()?;
            }
            let [left, right] = &mut sides;
            let order = match (left.is_there, right.is_there) {
                (false, false) => return Ok(counts),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (true, true) => self.order.compare_keys(&left.record, &right.record),
            };
            match order {
                Ordering::Less => {
                    counts.first += 1;
                    take(0, &left.record)?;
                }
                Ordering::Greater => {
                    counts.second += 1;
                    take(1, &right.record)?;
                }
                Ordering::Equal => {
                    counts.both += 1;
                    take(2, &left.record)?;
                }
            }
            if order != Ordering::Greater {
                left.advance()?;
            }
            if order != Ordering::Less {
                right.advance()?;
            }
        }
    }

    fn side(&self, side: usize) -> Side<'_> {
        let frame = Frame::Bytes(self.record_bytes);
        let sources = self.sorted.get(side).cloned().unwrap_or_default();
        Side {
            reader: RecordReader::new(self.job, sources, frame, Recognition::default()),
            record: Vec::with_capacity(self.record_bytes),
            is_there: false,
        }
    }
}

/// The next record of a sorted input.
struct Side<'a> {
    reader: RecordReader<'a>,
    record: Vec<u8>,
    is_there: bool,
}

impl Side<'_> {
    fn advance(&mut self) -> Result<()> {
        self.record.clear();
        self.is_there = false;
        while let Some(piece) = self.reader.next_piece()? {
            self.record.extend_from_slice(piece.bytes);
            if piece.is_last {
                self.is_there = true;
                break;
            }
        }
        Ok(())
    }
}
