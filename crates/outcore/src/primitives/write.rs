//! Writes a sequence to a file, to shards, or to a pipe, complete or not at all.
//!
//! Contract: the output holds the items in the order of the sequence; its bytes depend only on the
//! sources and the functions. If each position yields one item, any thread writes pieces at their
//! final place and without a copy ([`Writer`]). If the number of items is known only afterwards
//! (`filter`, `flat_map`), and for pipes, the items are appended in order ([`super::append`]). Each
//! shard then holds the results of one stretch of the input, so that all drives write at once. For
//! a single output, all drives are read in parallel as far as memory holds the results
//! ([`super::ahead`]).
//!
//! Bounds: I/O is one read of the sources and one write of the result.

use std::path::Path;

use bytemuck::Pod;

use super::ahead::Run;
use super::append::{self, Appender, At, InSequence, Placing, areas_for};
use super::batch::{Sequence, Yield};
use super::pass::{BESIDE, Demand, Geometry, Pass, RESULTS, shield};
use super::pieces::{Lanes, OpenSources};
use super::producer::{Emit, Producer, Typed};
use super::sized_files::{SizedFile, SizedFiles};
use super::summary::{PassPlan, Summary, plan_phase};
use crate::ends::{MakeHeader, Output};
use crate::ends::{refuse_existing, stage_output};
use crate::forecast::Forecast;
use crate::job::Job;
use crate::partition::task::write_in_place;
use crate::writer::Writer;
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Pool};
use outcore_io::output::{Room, ShardPlan, StagedOutput};
use outcore_io::port::Volume;

/// Areas for results per thread: one being filled, some in flight.
const AREAS: usize = 4;
/// Slots for border blocks in flight.
const EDGE_SLOTS: usize = 128;

/// Writes `sequence` to `output`.
///
/// # Errors
/// [`crate::Kind::Usage`] for an existing output (unless `replace`), for sequences that cannot be
/// zipped and for functions that panic; the errors of reading and writing. No output remains then.
pub fn write<S>(job: &Job, sequence: &S, output: &Output, replace: bool) -> Result<Summary>
where
    S: Sequence,
    S::Item: Pod,
{
    produce(job, &Typed(sequence), output, replace)
}

/// Writes the items of `producer` to `output`; see [`write`].
///
/// # Errors
/// The errors of [`write`].
pub fn produce(
    job: &Job,
    producer: &dyn Producer,
    output: &Output,
    replace: bool,
) -> Result<Summary> {
    let is_placed = producer.yields() == Yield::One && !matches!(output, Output::Pipe(_));
    match is_placed {
        true => write_placed(job, producer, output, replace, Direction::Forward),
        false => write_appended(job, producer, output, replace),
    }
}

/// The destination of the items of a pass; each variant except for the last two names the phase of
/// that pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The items are folded to one or a few values: nothing is written.
    Folded(&'static str),
    /// The pass ends at the first match.
    Sought(&'static str),
    /// The items are written to files that a function selects.
    Distributed(&'static str),
    /// The items are written.
    Written,
    /// Unknown yet: they may be written or not.
    Open,
}

/// The plan of passes over the same sources, one per element of `fates`; the last one ends with
/// `consumer`. Opens the sources and reads nothing.
///
/// # Errors
/// The errors of [`write`].
pub fn plan_of(
    job: &Job,
    producer: &dyn Producer,
    consumer: &str,
    fates: &[Fate],
) -> Result<PassPlan> {
    let volume = Volume::new(std::sync::Arc::clone(&job.device), &[])?;
    let sources = OpenSources::open(&volume, &producer.sources(), Lanes::Drives)?;
    let demand = demand_of(producer, 1, job, false);
    let sizes = Geometry::new(job, &sources, demand)?;
    let element_bytes = sources.open.iter().map(|source| source.element_bytes).max();
    let data_bytes = sources.read_bytes();
    let written = written_by(producer, sources.count);
    let layout = sources.layout(job);
    let phase = |fate: &Fate| {
        let (name, (read, written)) = match *fate {
            Fate::Folded(name) => (name, (data_bytes.into(), Forecast::NOTHING)),
            Fate::Sought(name) => (name, (Forecast::AtMost(data_bytes), Forecast::NOTHING)),
            Fate::Distributed(name) => (name, (data_bytes.into(), written)),
            Fate::Written => (producer.phase(), (data_bytes.into(), written)),
            Fate::Open => {
                let most = written.bytes().map_or(Forecast::Unknown, Forecast::AtMost);
                (producer.phase(), (data_bytes.into(), most))
            }
        };
        plan_phase(name, &sources, sizes.items, read, written, &layout)
    };
    Ok(PassPlan {
        steps: format!("{} -> {consumer}", producer.steps()),
        reads: fates.len() as u32,
        data_bytes,
        piece_bytes: sizes.items * element_bytes.unwrap_or(0) as u64,
        window: sizes.window,
        threads: sizes.threads,
        phases: fates.iter().map(phase).collect(),
        layout,
    })
}

/// Total bytes of the items that `producer` makes for `count` positions, as far as they are known
/// in advance.
pub(crate) fn written_by(producer: &dyn Producer, count: u64) -> Forecast {
    let bytes = count * producer.item_bytes() as u64;
    match producer.yields() {
        Yield::One => Forecast::About(bytes),
        Yield::AtMostOne => Forecast::AtMost(bytes),
        Yield::Any => Forecast::Unknown,
    }
}

/// Memory for the results of `producer` besides the reads.
pub(crate) fn demand_of(
    producer: &dyn Producer,
    outs: usize,
    job: &Job,
    is_arranged: bool,
) -> Demand {
    let times = areas_for(producer.yields(), is_arranged);
    let threads = job.options.threads.max(1);
    let chunks = Appender::memory_bytes(outs, threads, chunk_bytes(job, outs));
    Demand {
        out_bytes: producer.item_bytes() * times,
        areas: AREAS,
        fixed_bytes: chunks + (EDGE_SLOTS * BLOCK_BYTES) as u64,
        thread_bytes: producer.space_bytes() as u64,
    }
}

/// Size of the outputs' chunks: large, but together at most a quarter of the memory.
pub(crate) fn chunk_bytes(job: &Job, outs: usize) -> usize {
    let slots = outs + job.options.threads.max(1) * 4;
    let share = job.budget.limit_bytes() / 4 / slots as u64;
    let bytes = share.clamp(BLOCK_BYTES as u64, 1 << 20);
    1 << bytes.ilog2()
}

/// The order in which items are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The first one first.
    Forward,
    /// The last one first.
    Backward,
}

/// Writes items at their final place, by any thread; only for producers with one item per position,
/// and for files.
pub(crate) fn write_placed(
    job: &Job,
    producer: &dyn Producer,
    output: &Output,
    replace: bool,
    direction: Direction,
) -> Result<Summary> {
    let item_bytes = producer.item_bytes();
    let pass = open_placed(job, producer, output)?;
    let count = pass.count();
    let data_bytes = count * item_bytes as u64;
    let staged = stage_output(
        &pass.volume,
        output,
        replace,
        Room::Exactly,
        data_bytes,
        item_bytes,
    )?;
    let Some(staged) = staged else {
        return write_appended(job, producer, output, replace);
    };
    write_staged(pass, producer, staged, &[], output, direction)
}

/// A file that is written from memory.
#[derive(Debug, Clone, Copy)]
pub struct FileBytes<'a> {
    /// The path of the file.
    pub path: &'a Path,
    /// The content of the file.
    pub bytes: &'a [u8],
}

/// Writes files from memory that the caller publishes together.
///
/// # Errors
/// [`crate::Kind::Usage`] for an existing file, unless `replace`; the errors of writing. No output
/// remains then.
pub fn stage_together(job: &Job, files: &[FileBytes<'_>], replace: bool) -> Result<SizedFiles> {
    let new = files.iter().map(|file| SizedFile {
        path: file.path,
        len_bytes: file.bytes.len() as u64,
    });
    let new: Vec<SizedFile<'_>> = new.collect();
    let mut together = SizedFiles::create(job, &new, replace)?;
    for (number, file) in files.iter().enumerate() {
        together.write(number, 0, file.bytes)?;
    }
    Ok(together)
}

/// Writes the items of `producer` to the file `output`, and further files from memory; either all
/// of them appear or none. Only for producers with one item per position.
///
/// # Errors
/// The errors of [`stage_together`].
///
/// # Panics
/// If the output is not a file, or the producer does not make one item per position.
pub fn produce_beside(
    job: &Job,
    producer: &dyn Producer,
    output: &Output,
    beside: &[FileBytes<'_>],
    replace: bool,
) -> Result<Summary> {
    assert_eq!(producer.yields(), Yield::One);
    let Output::File { path, header } = output else {
        panic!("the output must be a file");
    };
    let all = std::iter::once(path.as_path()).chain(beside.iter().map(|file| file.path));
    refuse_existing(all, replace)?;
    let pass = open_placed(job, producer, output)?;
    let count = pass.count();
    let data_bytes = count * producer.item_bytes() as u64;
    let mut plans = vec![ShardPlan {
        path: path.clone(),
        header: header.as_ref().map_or_else(Vec::new, |make| make(count)),
        start_bytes: 0,
        len_bytes: data_bytes,
    }];
    let mut start_bytes = data_bytes;
    for FileBytes { path, bytes } in beside {
        plans.push(ShardPlan {
            path: path.to_path_buf(),
            header: Vec::new(),
            start_bytes,
            len_bytes: bytes.len() as u64,
        });
        start_bytes += bytes.len() as u64;
    }
    let staged = StagedOutput::stage(&pass.volume, plans, None, replace, Room::Exactly)?;
    let rest: Vec<&[u8]> = beside.iter().map(|file| file.bytes).collect();
    write_staged(pass, producer, staged, &rest, output, Direction::Forward)
}

/// A pass whose items are written at their final place.
fn open_placed<'j>(job: &'j Job, producer: &dyn Producer, output: &Output) -> Result<Pass<'j>> {
    let demand = Demand {
        out_bytes: producer.item_bytes(),
        areas: AREAS,
        fixed_bytes: (EDGE_SLOTS * BLOCK_BYTES) as u64,
        thread_bytes: producer.space_bytes() as u64,
    };
    let sources = producer.sources();
    let lanes = match sources.iter().all(|source| source.element_bytes == 0) {
        // Nothing is read, so the drives of the outputs are to be kept busy.
        true => Lanes::Stretches(outs_of(output)),
        false => Lanes::Drives,
    };
    Pass::open(job, &sources, lanes, demand)
}

/// Writes the items of `producer` in `pass`, and then `rest`, to staged files, and publishes them.
fn write_staged(
    pass: Pass<'_>,
    producer: &dyn Producer,
    staged: StagedOutput,
    rest: &[&[u8]],
    output: &Output,
    direction: Direction,
) -> Result<Summary> {
    let (item_bytes, align_bytes) = (producer.item_bytes(), producer.align_bytes());
    let count = pass.count();
    let data_bytes = count * item_bytes as u64;
    pass.begin_phase(producer.phase(), data_bytes.into());
    let edge_pool = Pool::new(&pass.budget, BESIDE, BLOCK_BYTES, EDGE_SLOTS)?;
    let writer = Writer::new(&staged, edge_pool);
    let state = || {
        let (bytes, areas) = (pass.sizes.area_bytes, pass.sizes.areas);
        let pool = Pool::new(&pass.budget, RESULTS, bytes, areas)?;
        Ok((pool, producer.maker()))
    };
    pass.each_piece(
        state,
        |(pool, make), reader, loaded| {
            let mut area = reader.area(pool)?;
            let len = loaded.piece.count * item_bytes;
            let at_bytes = match direction {
                Direction::Forward => loaded.piece.first * item_bytes as u64,
                Direction::Backward => {
                    data_bytes - loaded.piece.first * item_bytes as u64 - len as u64
                }
            };
            let phase = writer.phase(at_bytes);
            // If a header leaves items unaligned, they are made at an aligned place and then moved.
            let start = match phase.is_multiple_of(align_bytes) {
                true => phase,
                false => 0,
            };
            let mut emit = Emit::bounded(&mut area[start..]);
            shield(|| make(loaded.batch(), &mut emit))?;
            if direction == Direction::Backward {
                turn_round(&mut area[start..start + len], item_bytes);
            }
            if start != phase {
                area.copy_within(start..start + len, phase);
            }
            write_in_place(&writer, reader.transfers.port(), area, phase, len, at_bytes)?;
            reader.start()
        },
        |_, _| Ok(()),
    )?;
    let mut port = pass.volume.port()?;
    write_header(&writer, &mut port, &staged, output, count);
    let mut end_bytes = data_bytes;
    for bytes in rest {
        writer.write_copied(&mut port, bytes, end_bytes)?;
        end_bytes += bytes.len() as u64;
    }
    writer.finish(&mut port, end_bytes)?;
    pass.check_sources()?;
    pass.publish(|volume| staged.publish(volume, end_bytes))?;
    Ok(pass.summary(count, 0))
}

/// Reverses the order of `items`.
fn turn_round(items: &mut [u8], item_bytes: usize) {
    let count = items.len() / item_bytes;
    let (front, behind) = items.split_at_mut(count.div_ceil(2) * item_bytes);
    let pairs = front.chunks_exact_mut(item_bytes);
    for (a, b) in pairs.zip(behind.chunks_exact_mut(item_bytes).rev()) {
        a.swap_with_slice(b);
    }
}

/// Writes the header of a file, if it has one.
pub(crate) fn write_header(
    writer: &Writer,
    port: &mut outcore_io::port::Port,
    staged: &StagedOutput,
    output: &Output,
    count: u64,
) {
    if let Output::File {
        header: Some(make), ..
    } = output
    {
        let mut header = make(count);
        header.resize(staged.shards()[0].plan.header.len(), b' ');
        writer.write_header(port, &header);
    }
}

fn write_appended(
    job: &Job,
    producer: &dyn Producer,
    output: &Output,
    replace: bool,
) -> Result<Summary> {
    let lanes = match outs_of(output) {
        1 => Lanes::InOrder(1),
        outs => Lanes::Stretches(outs),
    };
    append_in_lanes(job, producer, output, replace, lanes, None)
}

/// Number of files of `output`, each of which receives a stretch of the result.
pub(crate) fn outs_of(output: &Output) -> usize {
    match output {
        Output::Shards { paths, .. } => paths.len(),
        _ => 1,
    }
}

/// Appends the items of `producer`, after `in_sequence` has changed them in order, to `output`;
/// each file of `output` takes one of the stretches of `lanes`.
pub(crate) fn append_in_lanes(
    job: &Job,
    producer: &dyn Producer,
    output: &Output,
    replace: bool,
    lanes: Lanes,
    in_sequence: Option<&InSequence<'_>>,
) -> Result<Summary> {
    let item_bytes = producer.item_bytes();
    let outs = outs_of(output);
    let mut demand = demand_of(producer, outs, job, false);
    if matches!(output, Output::Pipe(_)) {
        // A pipe receives results directly from their areas.
        demand.fixed_bytes = 0;
    }
    let pass = Pass::open(job, &producer.sources(), lanes, demand)?;
    let data_bytes = match producer.yields() {
        Yield::Any => 0,
        _ => pass.count() * item_bytes as u64,
    };
    let staged = stage_output(
        &pass.volume,
        output,
        replace,
        Room::AtMost,
        data_bytes,
        item_bytes,
    )?;
    pass.begin_phase(producer.phase(), written_by(producer, pass.count()));
    let appender = match (&staged, output) {
        (Some(staged), _) => Appender::to_files(&pass, staged, chunk_bytes(job, outs))?,
        (None, Output::Pipe(pipe)) => Appender::to_pipe(&pass, pipe),
        (None, _) => return Ok(pass.summary(0, 0)),
    };
    let appender = match producer.yields() {
        Yield::Any => appender,
        _ => appender.holding(&pass, item_bytes)?,
    };
    let arrange = |_: &mut [u8], len: usize, at: At| {
        Ok(vec![Run {
            out: at.stretch,
            start: 0,
            len_bytes: len,
        }])
    };
    let placing = Placing {
        arrange: &arrange,
        in_sequence,
        fill_bytes: pass.sizes.items as usize * item_bytes,
    };
    append::run(&pass, producer, &appender, &placing)?;
    let lens = appender.finish(&pass.volume, header_of(output), item_bytes)?;
    pass.check_sources()?;
    let written_bytes: u64 = lens.iter().sum();
    let records = written_bytes / item_bytes as u64;
    match staged {
        Some(staged) => {
            pass.publish(|volume| staged.publish_each(volume, &lens))?;
            Ok(pass.summary(records, 0))
        }
        None => Ok(pass.summary(records, written_bytes)),
    }
}

/// The function for the header of one file.
pub(crate) fn header_of(output: &Output) -> Option<&MakeHeader> {
    match output {
        Output::File { header, .. } => header.as_ref(),
        _ => None,
    }
}
