//! Measures reads of a sorted view: the first record, everything by several threads, random ranges.
//!
//! ```text
//! cargo run --release -p outcore --example view_rates -- DIR MEMORY THREADS SEEKS
//! ```
//! Prints one JSON object. It has the seconds to open the view and to read the first record, and
//! the blocks read per run and seek. It also has two rates: records per second of a full read by
//! THREADS threads, each of which merges a part without writing it; and seeks per second between
//! random ranks on one thread.

use std::path::PathBuf;
use std::time::Instant;

use outcore::IoMode;
use outcore::job::{Job, JobOptions};
use outcore::read::sample::random;
use outcore::runs::SortedView;
use outcore::{Error, Result};
use outcore_io::units;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, memory, threads, seeks] = &words[..] else {
        return Err(Error::usage("read arguments", "DIR MEMORY THREADS SEEKS"));
    };
    let number = |text: &String| {
        let wrong = |_| Error::usage("read arguments", format!("`{text}` is not a number"));
        text.parse::<u64>().map_err(wrong)
    };
    let (threads, seeks) = (number(threads)?, number(seeks)?);
    let options = JobOptions {
        memory_bytes: units::parse_bytes(memory)?,
        threads: threads as usize,
        ..JobOptions::default()
    };
    let job = Job::new(options, IoMode::Auto);
    let started = Instant::now();
    let view = SortedView::open(&job, &PathBuf::from(dir))?;
    let open_seconds = started.elapsed().as_secs_f64();
    let mut reader = view.reader(view.reader_bytes(2))?;
    let mut record = vec![0; view.unit_bytes()];
    reader.seek(0..view.len())?;
    reader.read(&mut record)?;
    let first_seconds = started.elapsed().as_secs_f64();

    let before = reader.blocks_read();
    let started = Instant::now();
    for seek in 0..seeks {
        let rank = random(7, seek) % view.len().max(1);
        reader.seek(rank..(rank + 1).min(view.len()))?;
        reader.read(&mut record)?;
    }
    let seeks_per_s = seeks as f64 / started.elapsed().as_secs_f64();
    let runs = view.info().runs.len() as u64;
    let blocks = (reader.blocks_read() - before) as f64 / (seeks * runs).max(1) as f64;
    drop(reader);

    let memory_bytes = view.reader_bytes(threads as usize);
    let started = Instant::now();
    let read = |part: std::ops::Range<u64>| -> Result<()> {
        let mut reader = view.reader(memory_bytes)?;
        let mut out = vec![0; (256 << 10) / view.unit_bytes().min(256 << 10) * view.unit_bytes()];
        reader.seek(part)?;
        while reader.read(&mut out)? > 0 {}
        Ok(())
    };
    std::thread::scope(|scope| {
        let parts = view.split(threads).into_iter();
        let readers: Vec<_> = parts.map(|part| scope.spawn(|| read(part))).collect();
        let failed = |_| Err(Error::usage("read", "a thread panicked"));
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().unwrap_or_else(failed))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{{\"runs\":{runs},\"records\":{},\"open_seconds\":{open_seconds:.6},\"first_record_seconds\":\
         {first_seconds:.6},\"records_per_s\":{:.0},\"seeks_per_s\":{seeks_per_s:.1},\"blocks_per_run\":{blocks:.3}}}",
        view.len(),
        view.len() as f64 / seconds
    );
    Ok(())
}
