//! `outcore bench view`: compares a sorted view with a sort that writes its result and one in
//! memory.
//!
//! Contract: records of 4 KiB with 10-byte keys are generated on the drives. Each method ends when
//! all sorted data has been read once:
//! - the sort writes its result, which is then read;
//! - the view is built, and merged while it is read;
//! - the plain program reads the input into memory, sorts references, writes the file and reads it.
//!
//! Data that may stay in memory stays there. The methods alternate, and medians are shown. Bytes
//! are counted at the drives. The plain program is omitted for data larger than the memory.
//!
//! Source: ActiveSort (Lee et al.), Table 2 (bytes read and written) and Fig. 3 (time against
//! memory, from half of the data to more than all of it), with the paper's records.
//!
//! Bounds: three times the data in space on the drives together; memory is the largest requested
//! amount.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outcore::IoMode;
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::RecordFormat;
use outcore::runs::{BuildOptions, SortedView, build};
use outcore::sort::{SortOptions, sort};
use outcore::{Error, Result};
use outcore::{Input, Output};
use outcore_chart::{Axis, Chart, Series, Shape};
use outcore_gen::{Distribution, GenerateOptions, GenerateRequest, Generator, generate};
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::{Device, PrivateDir, folder};
use outcore_io::units::{self, Unit};
use rustix::fs::{Advice, fadvise};

use crate::watch::Watch;
use outcore_report::{Cell, Report, Section, Table};

mod files;

use files::SortedFiles;

const OPERATION: &str = "measure view";
const TYPE: &str = "4096/0:10";
const RECORD_BYTES: usize = 4096;
const KEY_BYTES: usize = 10;
/// Default amounts of memory, as shares of the data.
const SHARES: [f64; 6] = [0.5, 0.75, 1.0, 1.25, 1.5, 2.0];
const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// Bytes per write of the plain program.
const WRITE_BYTES: usize = 4 << 20;
/// How long random reads of each length run, and their largest number.
const RANDOM_FOR: Duration = Duration::from_secs(1);
const RANDOM_MAX: u64 = 500;
const RANDOM_RECORDS: [u64; 3] = [1, 64, 4096];

/// Options of the measurement.
#[derive(Debug, Clone)]
pub struct ViewBenchOptions {
    /// A directory on each drive.
    pub dirs: Vec<PathBuf>,
    /// Bytes of data.
    pub data_bytes: u64,
    /// Amounts of memory to measure; if empty, shares of the data from half to twice.
    pub memory_bytes: Vec<u64>,
    /// Threads.
    pub threads: usize,
    /// Number of rounds per method.
    pub rounds: usize,
    /// Direct or buffered.
    pub io: IoMode,
}

/// Runs the measurement.
///
/// # Errors
/// Usage, no space, memory, errors of the drives, interrupted. Nothing is left behind.
pub fn run(options: &ViewBenchOptions, watch: Watch<'_>) -> Result<Report> {
    let started = Instant::now();
    let bench = Bench::new(options, watch)?;
    let data = units::bytes(bench.data_bytes);
    let mut report = Report::new("bench view", format!("Sorting {data} and reading it once"));
    report.option("type", TYPE);
    report.option("data", data);
    report.option("threads", options.threads.to_string());
    report.option("rounds", options.rounds.to_string());
    for dir in &options.dirs {
        report.option("drive", dir.display().to_string());
    }
    bench.generate()?;
    let turns = bench.by_memory()?;
    report.section(moved(&turns, bench.data_bytes));
    let by_memory = against_memory(&turns, bench.data_bytes, &mut report);
    report.section(by_memory);
    let least = turns
        .first()
        .map_or(MEMORY_BYTES_MIN, |turn| turn.memory_bytes);
    report.section(bench.reading(least)?);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Cost of sorting and reading once with one method.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    seconds: f64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Cost {
    /// The cost with the median time.
    fn median(mut costs: Vec<Cost>) -> Option<Cost> {
        costs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        costs.get(costs.len() / 2).copied()
    }
}

/// Costs of the methods with one amount of memory.
struct Comparison {
    memory_bytes: u64,
    eager: Cost,
    view: Cost,
    plain: Option<Cost>,
}

/// Private directories on all drives; dropping the value removes them.
struct Bench<'a> {
    options: &'a ViewBenchOptions,
    watch: Watch<'a>,
    device: Arc<dyn Device>,
    bench_dirs: Vec<PrivateDir>,
    format: RecordFormat,
    data_bytes: u64,
}

impl<'a> Bench<'a> {
    fn new(options: &'a ViewBenchOptions, watch: Watch<'a>) -> Result<Self> {
        if options.dirs.is_empty() {
            return Err(Error::usage(OPERATION, "no directory is given")
                .hint("name a directory on each drive"));
        }
        let data_bytes = options.data_bytes / RECORD_BYTES as u64 * RECORD_BYTES as u64;
        if data_bytes == 0 || options.rounds == 0 {
            return Err(Error::usage(OPERATION, "there is nothing to sort"));
        }
        let device: Arc<dyn Device> = Arc::new(OsDevice::new(options.io));
        let mut bench_dirs = Vec::new();
        for dir in &options.dirs {
            device.sweep_private_dirs(dir)?;
            bench_dirs.push(device.make_private_dir(dir)?);
        }
        Ok(Bench {
            options,
            watch,
            device,
            bench_dirs,
            format: RecordFormat::parse_type(TYPE)?,
            data_bytes,
        })
    }

    fn job(&self, memory_bytes: u64) -> Job {
        let scratch = self
            .bench_dirs
            .iter()
            .map(|dir| ScratchDrive::new(dir.path()));
        let options = JobOptions {
            memory_bytes,
            threads: self.options.threads,
            drives: scratch.collect(),
            ..JobOptions::default()
        };
        Job::on(options, Arc::clone(&self.device))
    }

    /// One file of that name on each drive.
    fn paths(&self, name: &str) -> Vec<PathBuf> {
        let bench_dirs = self.bench_dirs.iter();
        bench_dirs.map(|dir| dir.path().join(name)).collect()
    }

    fn manifest(&self, name: &str) -> PathBuf {
        self.bench_dirs[0]
            .path()
            .join(format!("{name}.outcore.json"))
    }

    fn output(&self, name: &str) -> Output {
        let mut paths = self.paths(name);
        match paths.len() {
            1 => Output::File {
                path: paths.remove(0),
                header: None,
            },
            _ => Output::Shards {
                manifest: self.manifest(name),
                paths,
            },
        }
    }

    fn remove(&self, name: &str) {
        for path in self.paths(name).iter().chain([&self.manifest(name)]) {
            // A file that does not exist needs no removal; any other is removed with its directory.
            let _ = folder::remove_file(path);
        }
    }

    fn inputs(&self) -> Vec<Input> {
        let paths = self.paths("input").into_iter();
        paths.map(Input::raw).collect()
    }

    fn generate(&self) -> Result<()> {
        self.watch.say("generate");
        let records = self.data_bytes / RECORD_BYTES as u64;
        let options = GenerateOptions {
            distribution: Distribution::Whole,
            seed: 1,
            records,
        };
        let request = GenerateRequest {
            generator: Generator::new(&self.format, options)?,
            records,
            output: self.output("input"),
            replace: true,
        };
        let job = self.job(MEMORY_BYTES_MIN);
        self.watch
            .over(&job, || generate(&job, &request))
            .map(|_| ())
    }

    /// Alternates between all methods, for each amount of memory.
    fn by_memory(&self) -> Result<Vec<Comparison>> {
        let mut memories = self.options.memory_bytes.clone();
        if memories.is_empty() {
            let of_data = |share: &f64| (share * self.data_bytes as f64) as u64;
            memories.extend(SHARES.iter().map(of_data));
        }
        memories
            .iter_mut()
            .for_each(|bytes| *bytes = (*bytes).max(MEMORY_BYTES_MIN));
        memories.sort_unstable();
        memories.dedup();
        let mut turns = Vec::new();
        for memory_bytes in memories {
            let fits = self.data_bytes <= memory_bytes;
            let (mut eager, mut view, mut plain) = (Vec::new(), Vec::new(), Vec::new());
            for round in 1..=self.options.rounds {
                let memory = units::bytes(memory_bytes);
                let say = |way: &str| self.watch.say(&format!("{memory}, round {round}: {way}"));
                say("sort");
                eager.push(self.eager(memory_bytes)?);
                self.remove("sorted");
                say("view");
                view.push(self.view(memory_bytes)?);
                if fits {
                    say("in memory");
                    plain.push(self.plain()?);
                }
            }
            if let (Some(eager), Some(view)) = (Cost::median(eager), Cost::median(view)) {
                turns.push(Comparison {
                    memory_bytes,
                    eager,
                    view,
                    plain: Cost::median(plain),
                });
            }
        }
        Ok(turns)
    }

    /// Sorts, and reads the result, which remains.
    fn eager(&self, memory_bytes: u64) -> Result<Cost> {
        let job = self.job(memory_bytes);
        let options = SortOptions {
            replace: true,
            ..SortOptions::default()
        };
        let sorted = self.watch.over(&job, || {
            sort(
                &job,
                &self.inputs(),
                self.output("sorted"),
                &self.format,
                options,
            )
        })?;
        let read = SortedFiles::open(self, "sorted")?.read_all()?;
        Ok(Cost {
            seconds: sorted.seconds + read.seconds,
            read_bytes: sorted.read_bytes + read.read_bytes,
            written_bytes: sorted.written_bytes,
        })
    }

    /// Builds a view and reads it; nothing of it remains.
    fn view(&self, memory_bytes: u64) -> Result<Cost> {
        let (dir, view, mut cost) = self.build(memory_bytes, true)?;
        let control = &view.job().control;
        let output = Output::Pipe(Mutex::new(Box::new(std::io::sink())));
        let read = self.watch.over(view.job(), || {
            control.check()?;
            view.write_to(0..view.len(), &output, false)
        })?;
        drop(dir);
        cost.seconds += read.seconds;
        cost.read_bytes += read.read_bytes;
        cost.written_bytes += read.written_bytes;
        Ok(cost)
    }

    fn build(&self, memory_bytes: u64, keeps_runs: bool) -> Result<(ViewDir, SortedView, Cost)> {
        let job = self.job(memory_bytes);
        let dir = self.bench_dirs[0].path().join("view");
        folder::make_dir(&dir)?;
        let mut made = ViewDir {
            paths: vec![dir.clone()],
        };
        let options = BuildOptions {
            keeps_runs,
            ..BuildOptions::default()
        };
        let (view, built) = self.watch.over(&job, || {
            build(&job, &self.inputs(), &dir, &self.format, options)
        })?;
        let runs = view.info().runs.into_iter();
        made.paths.extend(runs.map(|(path, _, _)| path));
        let cost = Cost {
            seconds: built.seconds,
            read_bytes: built.read_bytes,
            written_bytes: built.written_bytes,
        };
        Ok((made, view, cost))
    }

    /// A plain program in memory: reads, sorts references, writes; then the file is read.
    fn plain(&self) -> Result<Cost> {
        self.watch.check()?;
        let output = &self.paths("plain")[0];
        let started = Instant::now();
        let mut records = Vec::with_capacity(self.data_bytes as usize);
        for path in self.paths("input") {
            let read = File::open(&path).and_then(|mut file| {
                file.read_to_end(&mut records)?;
                // The next round must also read it from the drive.
                fadvise(&file, 0, None, Advice::DontNeed)?;
                Ok(())
            });
            read.map_err(|error| Error::io(OPERATION, &error).path(&path))?;
        }
        let mut order: Vec<&[u8]> = records.chunks_exact(RECORD_BYTES).collect();
        order.sort_by(|a, b| a[..KEY_BYTES].cmp(&b[..KEY_BYTES]).then_with(|| a.cmp(b)));
        let written = File::create(output).and_then(|file| {
            let mut file = BufWriter::with_capacity(WRITE_BYTES, file);
            order.iter().try_for_each(|record| file.write_all(record))?;
            file.flush()?;
            file.get_ref().sync_all()
        });
        written.map_err(|error| Error::io(OPERATION, &error).path(output))?;
        let seconds = started.elapsed().as_secs_f64();
        drop(order);
        drop(records);
        let files = SortedFiles::open_at(self, std::slice::from_ref(output))?;
        let read = files.read_all()?;
        drop(files);
        self.remove("plain");
        Ok(Cost {
            seconds: seconds + read.seconds,
            read_bytes: self.data_bytes + read.read_bytes,
            written_bytes: self.data_bytes,
        })
    }

    /// Compares reads of a view with reads of the sorted file.
    fn reading(&self, memory_bytes: u64) -> Result<Section> {
        let mut section = Section::new(
            "reading",
            "Reading",
            "Reads of a sorted view compared with reads of the file that a sort wrote, on one \
             thread. Random places are sought one after another, with nothing cached.",
        );
        let columns = [
            ("measure", Unit::Count),
            ("sorted view", Unit::Seconds),
            ("sorted file", Unit::Seconds),
        ];
        let mut table = Table::new("reading", "Reading", &columns);
        self.watch.say("sort, to be read");
        let eager = self.eager(memory_bytes)?;
        let files = SortedFiles::open(self, "sorted")?;
        self.watch.say("view, to be read");
        let (_dir, built, cost) = self.build(memory_bytes, false)?;
        let view_dir = built.info().dir;
        drop(built);
        let started = Instant::now();
        let view = SortedView::open(&self.job(memory_bytes), &view_dir)?;
        let mut reader = view.reader(view.reader_bytes(1))?;
        let mut record = vec![0; RECORD_BYTES];
        reader.seek(0..view.len())?;
        reader.read(&mut record)?;
        let first_s = started.elapsed().as_secs_f64();
        let full = |times: &str| -> Result<f64> {
            self.watch.say(&format!("{times} full read"));
            let output = Output::Pipe(Mutex::new(Box::new(std::io::sink())));
            let write = || view.write_to(0..view.len(), &output, false);
            Ok(self.watch.over(view.job(), write)?.seconds)
        };
        let file_s = files.read_all()?.seconds;
        let sort_s = (eager.seconds - file_s).max(0.0);
        let mut row = |what: &str, view: f64, file: f64| {
            table.row([Cell::from(what), view.into(), file.into()]);
        };
        row(
            "from the input to the first record",
            cost.seconds + first_s,
            sort_s,
        );
        drop(reader);
        row("first full read", full("first")?, file_s);
        row(
            "second full read",
            full("second")?,
            files.read_all()?.seconds,
        );
        let mut reader = view.reader(view.reader_bytes(1))?;
        let mut out = Vec::new();
        for len in RANDOM_RECORDS
            .into_iter()
            .filter(|len| 4 * len <= view.len())
        {
            self.watch.say(&format!("random ranges of {len}"));
            let sought = self.random(view.len(), len, |range| {
                out.resize(len as usize * RECORD_BYTES, 0);
                reader.seek(range)?;
                reader.read(&mut out).map(|_| ())
            })?;
            let read = self.random(view.len(), len, |range| files.read(range).map(|_| ()))?;
            let per_s = |rate| Cell::Other(rate, Unit::PerS);
            let what = format!("ranges of {len} at random places, per second");
            table.row([Cell::from(what), per_s(sought), per_s(read)]);
        }
        section.tables.push(table);
        drop(files);
        self.remove("sorted");
        Ok(section)
    }

    /// Reads of random ranges per second.
    fn random(
        &self,
        records: u64,
        len_records: u64,
        mut read: impl FnMut(Range<u64>) -> Result<()>,
    ) -> Result<f64> {
        let started = Instant::now();
        let mut count = 0;
        while count < RANDOM_MAX && started.elapsed() < RANDOM_FOR {
            self.watch.check()?;
            let from =
                outcore::read::sample::random(len_records, count) % (records - len_records + 1);
            read(from..from + len_records)?;
            count += 1;
        }
        Ok(count as f64 / started.elapsed().as_secs_f64())
    }
}

/// A view's directory and runs; dropping the value removes them.
struct ViewDir {
    paths: Vec<PathBuf>,
}

impl Drop for ViewDir {
    fn drop(&mut self) {
        for path in &self.paths {
            // Remaining files are removed with the private directory around it.
            let _ = match path.is_dir() {
                true => folder::remove_dirs(path),
                false => folder::remove_file(path),
            };
        }
    }
}

const EAGER: &str = "sort, then read";
const VIEW: &str = "sorted view, read";
const PLAIN: &str = "in memory, then read";

/// ActiveSort's Table 2, for the smallest memory.
fn moved(turns: &[Comparison], data_bytes: u64) -> Section {
    let mut section = Section::new(
        "moved",
        "Bytes moved",
        "Bytes that the drives read and wrote until all sorted data had been read once, with the least \
         memory. ActiveSort's Table 2, with 2 GB of data and 1 GB of memory: NSORT read 6157 MB and \
         wrote 4106, ActiveSort 4100 and 2048.",
    );
    let Some(turn) = turns.first() else {
        return section;
    };
    let columns = [
        ("way", Unit::Count),
        ("read", Unit::Bytes),
        ("written", Unit::Bytes),
        ("reads of N", Unit::Times),
        ("writes of N", Unit::Times),
        ("time", Unit::Seconds),
    ];
    let memory = units::bytes(turn.memory_bytes);
    let title = format!("{} in {memory} of memory", units::bytes(data_bytes));
    let mut table = Table::new("moved", title, &columns);
    let ways = [
        (EAGER, Some(turn.eager)),
        (VIEW, Some(turn.view)),
        (PLAIN, turn.plain),
    ];
    let (mut names, mut reads, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for (name, cost) in ways {
        let Some(cost) = cost else { continue };
        let of_data = |bytes: u64| bytes as f64 / data_bytes as f64;
        table.row([
            Cell::from(name),
            (cost.read_bytes as f64).into(),
            (cost.written_bytes as f64).into(),
            of_data(cost.read_bytes).into(),
            of_data(cost.written_bytes).into(),
            cost.seconds.into(),
        ]);
        let place = names.len() as f64;
        reads.push((place, cost.read_bytes as f64));
        writes.push((place, cost.written_bytes as f64));
        names.push(name.to_owned());
    }
    section.tables.push(table);
    section.charts.push(Chart {
        id: "view-moved".to_owned(),
        title: format!("Bytes moved for {}", units::bytes(data_bytes)),
        x: Axis::of_names("", names),
        y: Axis::new("bytes", Unit::Bytes),
        shape: Shape::Bars,
        series: vec![Series::new("read", reads), Series::new("written", writes)],
    });
    section
}

/// ActiveSort's Fig. 3.
fn against_memory(turns: &[Comparison], data_bytes: u64, report: &mut Report) -> Section {
    let mut section = Section::new(
        "memory",
        "Time against memory",
        "Time until all sorted data had been read once, by memory: the sort writes its result \
         before it is read, the view is merged while it is read. A sort in memory is shown once \
         the data fit. ActiveSort's Fig. 3.",
    );
    let columns = [
        ("memory", Unit::Bytes),
        ("of data", Unit::Share),
        (EAGER, Unit::Seconds),
        (VIEW, Unit::Seconds),
        (PLAIN, Unit::Seconds),
        ("view is faster by", Unit::Times),
    ];
    let mut table = Table::new("memory", "Time by memory", &columns);
    let (mut eager, mut view, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for turn in turns {
        let share = turn.memory_bytes as f64 / data_bytes as f64;
        let plain_s = turn.plain.map(|cost| cost.seconds);
        eager.push((share, turn.eager.seconds));
        view.push((share, turn.view.seconds));
        plain.extend(plain_s.map(|seconds| (share, seconds)));
        table.row([
            Cell::from(turn.memory_bytes as f64),
            share.into(),
            turn.eager.seconds.into(),
            turn.view.seconds.into(),
            plain_s.into(),
            (turn.eager.seconds / turn.view.seconds).into(),
        ]);
    }
    if let Some(turn) = turns.first() {
        let faster = turn.eager.seconds / turn.view.seconds;
        let memory = units::bytes(turn.memory_bytes);
        report.headline(
            "view over sort",
            faster,
            Unit::Times,
            format!("with {memory} of memory"),
        );
        report.verdict.push(format!(
            "With {memory} of memory, a view and one read of it take {}, a sort and one read of its \
             result {}.",
            units::seconds(turn.view.seconds),
            units::seconds(turn.eager.seconds),
        ));
    }
    section.tables.push(table);
    section.charts.push(Chart {
        id: "view-memory".to_owned(),
        title: format!("Time to sort {} and read it once", units::bytes(data_bytes)),
        x: Axis::new("memory, of the data", Unit::Share),
        y: Axis::new("time", Unit::Seconds),
        series: vec![
            Series::new(EAGER, eager),
            Series::new(VIEW, view),
            Series::new(PLAIN, plain),
        ],
        ..Chart::default()
    });
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_times_of_all_ways_are_there_and_nothing_stays() {
        let memory = || tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dirs = [memory().unwrap(), memory().unwrap()];
        let options = ViewBenchOptions {
            dirs: dirs.iter().map(|dir| dir.path().into()).collect(),
            data_bytes: 100 << 20,
            memory_bytes: vec![64 << 20, 128 << 20],
            threads: 2,
            rounds: 1,
            io: IoMode::Auto,
        };
        let report = run(&options, Watch::none()).unwrap();
        let json = report.to_json();
        let table = |section: usize| &json["sections"][section]["tables"][0]["rows"];
        let reads_and_writes = |row: usize| {
            let cells = &table(0)[row];
            (cells[3].as_f64().unwrap(), cells[4].as_f64().unwrap())
        };
        // Data that stays in memory is neither written nor read again by the sort, nor read by the
        // view.
        let (reads, writes) = reads_and_writes(0);
        assert!((2.1..3.02).contains(&reads), "{reads}");
        assert!((1.1..2.02).contains(&writes), "{writes}");
        let (reads, writes) = reads_and_writes(1);
        assert!((1.1..2.02).contains(&reads), "{reads}");
        assert!((0.99..1.02).contains(&writes), "{writes}");
        let has_plain: Vec<bool> = (0..2).map(|row| table(1)[row][4].is_number()).collect();
        assert_eq!(has_plain, [false, true]);
        let rows = table(2).as_array().unwrap();
        assert_eq!(rows.len(), 3 + RANDOM_RECORDS.len());
        assert_eq!(report.charts().count(), 2);
        for dir in &dirs {
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
}
