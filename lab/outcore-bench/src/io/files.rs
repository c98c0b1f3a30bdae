//! Three servers from the view of programs: threads that create, open, read, append to and delete
//! files.
//!
//! Contract: the operations, sizes and numbers of threads of Filebench's fileserver, webserver and
//! webproxy, from blocking threads. Each file is wholly on one drive, alternating between the
//! drives. As in Filebench, open and close count as operations. Unlike in Filebench, all files
//! begin at the mean size instead of sizes spread around it, and there are only [`FILES`] of them,
//! so that they are made quickly. Files are read and written past the page cache if the file system
//! supports it. The measurement needs permission to write and uses only its own directories.
//! Source: Falcon (ATC 2017) Fig. 19; Filebench's workloads fileserver.f, webserver.f, webproxy.f.
//!
//! Bounds: threads x [`IO_BYTES`] of buffers; [`FILES`] x their size on the drives, and at most
//! [`FILE_BYTES_MAX`] per file.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use outcore::IoMode;
use outcore::{Error, Result};
use outcore_chart::{Axis, Chart, Series, Shape};
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::{Access, Completion, Device, FileId, FileSystem, Op, Queue, Request};
use outcore_io::memory::{Budget, Pool};
use outcore_io::units::Unit;

use super::IoOptions;
use super::field::Field;
use super::target::{Target, Whose};
use crate::load::{in_threads, latencies};
use crate::watch::Watch;
use outcore_report::{Cell, Section, Table};

/// Number of files of a server.
const FILES: usize = 1000;
/// Bytes per read or write, and per append.
const IO_BYTES: u64 = 128 << 10;
const APPEND_BYTES: u64 = 16 << 10;
/// A file of at least this length is not appended to.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Length at which a log restarts.
const LOG_BYTES_MAX: u64 = 64 << 20;
const OPERATION: &str = "measure server mix";

/// One step of a server's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Create a file, write all of it, close it.
    Make,
    /// Create a file, append to it, close it.
    MakeShort,
    /// Open a file, append, close.
    Append,
    /// Open a file, read all of it, close it.
    Read,
    /// Delete a file.
    Delete,
    /// Query the length of a file.
    Stat,
    /// Append to the log that all threads share.
    Log,
}

impl Step {
    /// The number of Filebench's operations in it.
    const fn operations(self) -> u64 {
        match self {
            Step::Make | Step::MakeShort | Step::Append | Step::Read => 3,
            Step::Delete | Step::Stat | Step::Log => 1,
        }
    }
}

/// A server.
struct Server {
    name: &'static str,
    file_bytes: u64,
    threads: usize,
    steps: &'static [Step],
}

const READS_5: [Step; 8] = [
    Step::Delete,
    Step::MakeShort,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Log,
];
const READS_10: [Step; 11] = [
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Read,
    Step::Log,
];
const SERVERS: [Server; 3] = [
    Server {
        name: "fileserver",
        file_bytes: 128 << 10,
        threads: 50,
        steps: &[
            Step::Make,
            Step::Append,
            Step::Read,
            Step::Delete,
            Step::Stat,
        ],
    },
    Server {
        name: "webserver",
        file_bytes: 16 << 10,
        threads: 100,
        steps: &READS_10,
    },
    Server {
        name: "webproxy",
        file_bytes: 16 << 10,
        threads: 100,
        steps: &READS_5,
    },
];

/// The report's section.
pub(super) fn servers(options: &IoOptions, field: &Field<'_>) -> Result<Section> {
    let mut section = Section::new(
        "servers",
        "Servers",
        "Files that are created, opened, read, appended to and deleted by many blocking threads, \
         in the proportions of Filebench's fileserver, webserver and webproxy. As in Filebench, \
         opening and closing count as operations. Falcon Fig. 19.",
    );
    let is_own = |target: &Target| target.whose == Whose::Own && target.is_writable;
    if !options.is_write_ok || !field.targets.iter().all(is_own) {
        return Ok(section);
    }
    let mut table = Table::new(
        "servers",
        "Servers",
        &[
            ("server", Unit::Count),
            ("threads", Unit::Count),
            ("operations", Unit::Iops),
            ("read", Unit::BytesPerS),
            ("written", Unit::BytesPerS),
            ("file read, p50", Unit::Seconds),
            ("file read, p99", Unit::Seconds),
            ("file written, p50", Unit::Seconds),
            ("file written, p99", Unit::Seconds),
        ],
    );
    let mut points = Vec::new();
    for (at, server) in SERVERS.iter().enumerate() {
        if !field.step() {
            continue;
        }
        field.watch().say(&format!("server: {}", server.name));
        let seen = Mix::new(field, server)?.run()?;
        let rate = |count: u64| count as f64 / seen.seconds.max(1e-9);
        points.push((at as f64, rate(seen.operations)));
        let quantile = |histogram: &Histogram<u64>, q: f64| -> Cell {
            let value = histogram.value_at_quantile(q) as f64 / 1e9;
            (!histogram.is_empty()).then_some(value).into()
        };
        table.row([
            Cell::from(server.name),
            (server.threads as f64).into(),
            rate(seen.operations).into(),
            rate(seen.read_bytes).into(),
            rate(seen.written_bytes).into(),
            quantile(&seen.read_ns, 0.5),
            quantile(&seen.read_ns, 0.99),
            quantile(&seen.write_ns, 0.5),
            quantile(&seen.write_ns, 0.99),
        ]);
    }
    section.charts.push(Chart {
        id: "servers".to_owned(),
        title: "Operations per second of each server".to_owned(),
        x: Axis::of_names("", SERVERS.iter().map(|s| s.name.to_owned()).collect()),
        y: Axis::new("operations per second", Unit::Iops),
        shape: Shape::Bars,
        series: vec![Series::new("server", points)],
    });
    section.tables.push(table);
    Ok(section)
}

/// Results of a server's threads.
struct Seen {
    operations: u64,
    read_bytes: u64,
    written_bytes: u64,
    seconds: f64,
    /// Latency of open, read all, close.
    read_ns: Histogram<u64>,
    /// Latency of create, write all, close.
    write_ns: Histogram<u64>,
}

impl Seen {
    fn new() -> Self {
        Seen {
            operations: 0,
            read_bytes: 0,
            written_bytes: 0,
            seconds: 0.0,
            read_ns: latencies(),
            write_ns: latencies(),
        }
    }

    fn add(&mut self, other: &Seen) {
        self.operations += other.operations;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.seconds = self.seconds.max(other.seconds);
        // Both have the same bounds, so this cannot fail.
        let _ = self.read_ns.add(&other.read_ns);
        let _ = self.write_ns.add(&other.write_ns);
    }
}

/// Which files exist and which do not. A thread takes its current file out.
#[derive(Default)]
struct Names {
    there: Vec<usize>,
    missing: Vec<usize>,
}

/// A running server.
struct Mix<'a> {
    watch: Watch<'a>,
    targets: &'a [Target],
    step_s: f64,
    server: &'static Server,
    device: OsDevice,
    /// A directory of our own on each drive.
    dirs: Vec<PathBuf>,
    names: Mutex<Names>,
    log: FileId,
    log_bytes: AtomicU64,
    /// A thread has failed, so the others may stop.
    is_broken: AtomicBool,
}

impl Drop for Mix<'_> {
    fn drop(&mut self) {
        self.device.close(self.log);
        // A file that is missing or cannot be removed is removed with the directory.
        let _ = self.device.remove(&self.log_path());
        for file in 0..FILES {
            let _ = self.device.remove(&self.path(file).1);
        }
    }
}

impl<'a> Mix<'a> {
    fn new(field: &Field<'a>, server: &'static Server) -> Result<Self> {
        let is_direct = field.targets.iter().all(|target| target.facts.is_direct);
        let dirs = field
            .targets
            .iter()
            .filter_map(|target| target.path.parent());
        let mut mix = Mix {
            watch: field.watch(),
            targets: field.targets,
            step_s: field.step_s(),
            server,
            device: OsDevice::new(if is_direct {
                IoMode::Direct
            } else {
                IoMode::Buffered
            }),
            dirs: dirs.map(PathBuf::from).collect(),
            names: Mutex::default(),
            log: FileId(u32::MAX),
            log_bytes: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
        };
        mix.log = mix.device.open(&mix.log_path(), Access::Create)?;
        Ok(mix)
    }

    fn log_path(&self) -> PathBuf {
        self.dirs[0].join("log")
    }

    /// Drive and name of a file.
    fn path(&self, file: usize) -> (usize, PathBuf) {
        let drive = file % self.dirs.len();
        (drive, self.dirs[drive].join(format!("file-{file}")))
    }

    fn run(&self) -> Result<Seen> {
        let gate = Barrier::new(self.server.threads);
        let results = in_threads(self.server.threads, |number| {
            let done = self.work(number, &gate);
            if done.is_err() {
                self.is_broken.store(true, Ordering::Relaxed);
            }
            done
        });
        let mut all = Seen::new();
        for result in results {
            all.add(&result?);
        }
        Ok(all)
    }

    /// The work of one thread: makes its part of the files, waits for the others, and does its
    /// steps until the time is over.
    fn work(&self, number: usize, gate: &Barrier) -> Result<Seen> {
        let ready = self.prepare(number);
        // Every thread arrives here before any may fail; otherwise the others would wait forever.
        gate.wait();
        let mut hand = ready?;
        let mut seen = Seen::new();
        let mut random = number as u64 + 1;
        let started = Instant::now();
        'all: loop {
            for step in self.server.steps {
                let is_over = started.elapsed().as_secs_f64() >= self.step_s;
                if is_over || self.is_broken.load(Ordering::Relaxed) {
                    break 'all;
                }
                self.watch.check()?;
                self.step(*step, &mut hand, &mut random, &mut seen)?;
            }
        }
        seen.seconds = started.elapsed().as_secs_f64();
        Ok(seen)
    }

    fn prepare(&self, number: usize) -> Result<Hand> {
        let mut hand = Hand::new(&self.device)?;
        for file in (number..FILES).step_by(self.server.threads) {
            self.watch.check()?;
            let (drive, path) = self.path(file);
            let id = self.device.open(&path, Access::Create)?;
            let written = hand.write(id, drive, 0, self.server.file_bytes);
            self.device.close(id);
            written.map_err(|error| error.path(&path))?;
            self.put(file, true);
        }
        Ok(hand)
    }

    /// Takes a file that exists, or one that does not.
    fn take(&self, is_there: bool, random: &mut u64) -> Option<usize> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let list = match is_there {
            true => &mut names.there,
            false => &mut names.missing,
        };
        if list.is_empty() {
            return None;
        }
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = (*random >> 33) as usize % list.len();
        Some(list.swap_remove(at))
    }

    fn put(&self, file: usize, is_there: bool) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        match is_there {
            true => names.there.push(file),
            false => names.missing.push(file),
        }
    }

    fn step(&self, step: Step, hand: &mut Hand, random: &mut u64, seen: &mut Seen) -> Result<()> {
        let started = Instant::now();
        if step == Step::Log {
            let at_bytes = self.log_bytes.fetch_add(APPEND_BYTES, Ordering::Relaxed);
            hand.write(self.log, 0, at_bytes % LOG_BYTES_MAX, APPEND_BYTES)?;
            seen.written_bytes += APPEND_BYTES;
            seen.operations += step.operations();
            return Ok(());
        }
        let is_making = matches!(step, Step::Make | Step::MakeShort);
        // Nothing can be created or deleted at the moment, because other threads hold the files.
        let Some(file) = self.take(!is_making, random) else {
            return Ok(());
        };
        let (drive, path) = self.path(file);
        let done = self.on_file(step, hand, drive, &path, seen);
        self.put(file, step != Step::Delete);
        done.map_err(|error| error.drive(&self.targets[drive].name).path(&path))?;
        let ns = started.elapsed().as_nanos() as u64;
        match step {
            Step::Read => seen.read_ns.saturating_record(ns),
            Step::Make | Step::MakeShort => seen.write_ns.saturating_record(ns),
            _ => {}
        }
        seen.operations += step.operations();
        Ok(())
    }

    fn on_file(
        &self,
        step: Step,
        hand: &mut Hand,
        drive: usize,
        path: &Path,
        seen: &mut Seen,
    ) -> Result<()> {
        if step == Step::Delete {
            return self.device.remove(path);
        }
        let access = match step {
            Step::Make | Step::MakeShort => Access::Create,
            Step::Append => Access::Update,
            _ => Access::Read,
        };
        let id = self.device.open(path, access)?;
        let moved = self.device.facts(id).and_then(|facts| match step {
            Step::Make => hand.write(id, drive, 0, self.server.file_bytes),
            Step::MakeShort => hand.write(id, drive, 0, APPEND_BYTES),
            Step::Append if facts.len_bytes + APPEND_BYTES <= FILE_BYTES_MAX => {
                hand.write(id, drive, facts.len_bytes, APPEND_BYTES)
            }
            Step::Read => hand.read(id, drive, facts.len_bytes),
            _ => Ok(0),
        });
        self.device.close(id);
        match step {
            Step::Read => seen.read_bytes += moved?,
            _ => seen.written_bytes += moved?,
        }
        Ok(())
    }
}

/// One thread's queue to the drives, with one request at a time.
struct Hand {
    // Declared first, so that it is dropped first and waits for the requests in flight.
    queue: Box<dyn Queue>,
    pool: Pool,
    done: Vec<Completion>,
}

impl Hand {
    fn new(device: &OsDevice) -> Result<Self> {
        let budget = Budget::new(IO_BYTES);
        Ok(Hand {
            queue: device.queue(1)?,
            pool: Pool::new(&budget, OPERATION, IO_BYTES as usize, 1)?,
            done: Vec::new(),
        })
    }

    fn read(&mut self, file: FileId, drive: usize, len_bytes: u64) -> Result<u64> {
        self.transfer(Op::Read, file, drive, 0..len_bytes)
    }

    fn write(&mut self, file: FileId, drive: usize, at_bytes: u64, len_bytes: u64) -> Result<u64> {
        self.transfer(Op::Write, file, drive, at_bytes..at_bytes + len_bytes)
    }

    /// Moves a range, one piece after another.
    fn transfer(
        &mut self,
        op: Op,
        file: FileId,
        drive_index: usize,
        range: Range<u64>,
    ) -> Result<u64> {
        let len_bytes = range.end - range.start;
        let mut moved_bytes = 0;
        while moved_bytes < len_bytes {
            let piece_bytes = (len_bytes - moved_bytes).min(IO_BYTES);
            let Some(mut slot) = self.pool.take() else {
                unreachable!("a hand has one transfer at a time");
            };
            self.queue.submit(Request {
                token: 0,
                op,
                file,
                drive_index,
                offset_bytes: range.start + moved_bytes,
                buf: slot.split_to(piece_bytes as usize).into(),
            });
            drop(slot);
            while self.done.is_empty() {
                self.queue
                    .complete(Some(Duration::from_millis(50)), &mut self.done)?;
            }
            for completion in self.done.drain(..) {
                let errno = match completion.result {
                    Ok(bytes) if bytes == completion.request.buf.len() => continue,
                    Ok(_) => rustix::io::Errno::IO.raw_os_error(),
                    Err(errno) => errno,
                };
                return Err(Error::errno(OPERATION, errno).offset(completion.request.offset_bytes));
            }
            moved_bytes += piece_bytes;
        }
        Ok(moved_bytes)
    }
}
