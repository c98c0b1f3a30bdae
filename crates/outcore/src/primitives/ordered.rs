//! Items in order on one thread, for results that depend on earlier items.
//!
//! Contract: pieces are read ahead as in any pass. `visit` receives the items batch by batch, in
//! the order of the sequence, and its results are appended to the output.
//!
//! N.B. one thread: runs of items cross pieces, and joining them after parallel pieces would cost a
//! second pass over the result.
//!
//! Bounds: one read of the sources, one write of the results; memory is that of a pass with one
//! thread.

use std::collections::BTreeMap;

use super::append::Appender;
use super::batch::Yield;
use super::pass::{Demand, Loaded, Pass, RESULTS, shield};
use super::pieces::Lanes;
use super::producer::{Emit, Producer};
use super::summary::Summary;
use super::write::{chunk_bytes, header_of};
use crate::ends::{Output, stage_output};
use crate::forecast::Forecast;
use crate::job::Job;
use outcore_io::Result;
use outcore_io::memory::Pool;
use outcore_io::output::Room;

/// Approximate number of result bytes that are appended at once.
const RESULTS_BYTES: usize = 256 << 10;

/// Processing of items in order.
pub(crate) trait InOrder {
    /// Takes items, stored one after another, and appends the results.
    ///
    /// # Errors
    /// The errors of the caller's functions.
    fn visit(&mut self, items: &[u8], results: &mut Vec<u8>) -> Result<()>;

    /// Called after the last item.
    ///
    /// # Errors
    /// The errors of [`InOrder::visit`].
    fn end(&mut self, results: &mut Vec<u8>) -> Result<()>;
}

fn one_thread(job: &Job) -> Job {
    let mut job = job.clone();
    job.options.threads = 1;
    job
}

/// Passes the items of `producer` to `work` and appends its results to `output`, `result_bytes`
/// each.
pub(crate) fn append_in_order(
    job: &Job,
    producer: &dyn Producer,
    output: &Output,
    replace: bool,
    phase: &'static str,
    result_bytes: usize,
    work: &mut dyn InOrder,
) -> Result<Summary> {
    let job = &one_thread(job);
    let demand = Demand {
        out_bytes: producer.item_bytes(),
        areas: 1,
        thread_bytes: Appender::memory_bytes(1, 1, chunk_bytes(job, 1))
            + producer.space_bytes() as u64,
        ..Demand::default()
    };
    let pass = Pass::open(job, &producer.sources(), Lanes::Stretches(1), demand)?;
    let staged = stage_output(&pass.volume, output, replace, Room::AtMost, 0, result_bytes)?;
    let appender = match (&staged, output) {
        (Some(staged), _) => Appender::to_files(&pass, staged, chunk_bytes(job, 1))?,
        (None, Output::Pipe(pipe)) => Appender::to_pipe(&pass, pipe),
        (None, _) => return Ok(pass.summary(0, 0)),
    };
    // There are at most this many results.
    let most = match producer.yields() {
        Yield::Any => Forecast::Unknown,
        _ => Forecast::AtMost(pass.count() * result_bytes as u64),
    };
    let mut results = Vec::new();
    let mut reader = pass.reader()?;
    each_in_order(
        &pass,
        phase,
        most,
        producer,
        &mut reader,
        &mut |reader, items| {
            work.visit(items, &mut results)?;
            if results.len() >= RESULTS_BYTES {
                appender.append(reader, 0, &results)?;
                results.clear();
            }
            Ok(())
        },
    )?;
    shield(|| work.end(&mut results))?;
    appender.append(&mut reader, 0, &results)?;
    reader.drain()?;
    drop(reader);
    let lens = appender.finish(&pass.volume, header_of(output), result_bytes)?;
    pass.check_sources()?;
    let len_bytes: u64 = lens.iter().sum();
    match staged {
        Some(staged) => {
            pass.publish(|volume| staged.publish_each(volume, &lens))?;
            Ok(pass.summary(len_bytes / result_bytes as u64, 0))
        }
        None => Ok(pass.summary(len_bytes / result_bytes as u64, len_bytes)),
    }
}

/// Passes the items of `producer` to `visit`, batch by batch.
pub(crate) fn visit_in_order(
    job: &Job,
    producer: &dyn Producer,
    phase: &'static str,
    visit: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<Summary> {
    let job = &one_thread(job);
    let demand = Demand {
        out_bytes: producer.item_bytes(),
        areas: 1,
        thread_bytes: producer.space_bytes() as u64,
        ..Demand::default()
    };
    let pass = Pass::open(job, &producer.sources(), Lanes::Stretches(1), demand)?;
    let mut reader = pass.reader()?;
    let mut count = 0;
    each_in_order(
        &pass,
        phase,
        Forecast::NOTHING,
        producer,
        &mut reader,
        &mut |_, items| {
            count += items.len() / producer.item_bytes();
            visit(items)
        },
    )?;
    reader.drain()?;
    drop(reader);
    pass.check_sources()?;
    Ok(pass.summary(count as u64, 0))
}

fn each_in_order<'p>(
    pass: &'p Pass<'_>,
    phase: &'static str,
    written: Forecast,
    producer: &dyn Producer,
    reader: &mut super::pass::Reader<'p>,
    visit: &mut dyn FnMut(&mut super::pass::Reader<'p>, &[u8]) -> Result<()>,
) -> Result<()> {
    pass.begin_phase(phase, written);
    let pool = Pool::new(&pass.budget, RESULTS, pass.sizes.area_bytes, 1)?;
    let mut make = producer.maker();
    let mut waiting: BTreeMap<u64, Loaded> = BTreeMap::new();
    let mut next = 0;
    while let Some(loaded) = reader.next()? {
        waiting.insert(loaded.piece.order, loaded);
        while let Some(loaded) = waiting.remove(&next) {
            let mut area = reader.area(&pool)?;
            let mut visit = |items: &mut [u8]| visit(reader, items);
            let mut emit = Emit::streaming(&mut area, &mut visit);
            shield(|| {
                make(loaded.batch(), &mut emit)?;
                emit.finish()
            })?;
            reader.done(&loaded);
            next += 1;
        }
    }
    Ok(())
}
