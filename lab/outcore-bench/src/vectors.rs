//! `outcore bench vectors`: jobs on a file of vectors, with increasing numbers of threads and
//! drives.
//!
//! Contract: vectors of 32 f32 around some centres are generated once, on the first drive. For 1,
//! 2, 4, ... drives, and for all, the measurement makes a volume on them and puts the vectors there
//! as a dataset. For each number of threads it times four jobs: the nearest neighbours of some of
//! the vectors, clusters (one iteration and the final distances), a sort by the first number, and a
//! lookup of keys in the sorted file. Scratch and the sorted file are on the same drives. Results
//! that differ between numbers of drives or threads are an error.
//!
//! The floor of neighbours and clusters is the time in which the engine reads the same number of
//! bytes without computing. For a sort it is the time in which the engine copies as many bytes; for
//! a lookup, the time in which it gathers as many from random places. Each is measured on the same
//! drives with the same number of threads.
//!
//! Source: the LLNL poster "Threading Opportunities in High-Performance Flash-Memory Storage",
//! whose figures have kNN, k-means, external sort and binary search over such vectors.
//!
//! Bounds: twice the vectors in space on the first drive, and three times on all drives together.

use std::path::PathBuf;
use std::time::Instant;

use outcore::job::Job;
use outcore::key::RecordFormat;
use outcore::primitives::gather::gather;
use outcore::primitives::{Side, lookup, read, sum, write};
use outcore::sort::{SortOptions, sort};
use outcore::{Error, Input, IoMode, Output, Result};
use outcore_chart::{Axis, Chart, Scale, Series};
use outcore_front::volumes::Sealed;
use outcore_gen::{Distribution, GenerateOptions, GenerateRequest, Generator, generate};
use outcore_io::units::{self, Unit};
use outcore_vector::format::{Container, Element, VectorFile};
use outcore_vector::kmeans::{Init, KmeansOptions, kmeans};
use outcore_vector::knn::{KnnOptions, Metric, knn};

use crate::bench_dirs::{BenchDirs, DirOptions};
use crate::load::powers_up_to;
use crate::striped::Striped;
use crate::watch::Watch;
use outcore_report::{Cell, Report, Section, Table};

const OPERATION: &str = "measure vectors";
const TYPE: &str = "f32x32";
const DIMENSION: usize = 32;
const VECTOR_BYTES: u64 = 128;
const CENTRES: u64 = 64;
/// Neighbours per query.
const K: usize = 10;
const CLUSTERS: usize = 16;
const DATASET: &str = "@vectors";
const BASE: &str = "input";
const SORTED: &str = "sorted";
const COPY: &str = "copy";

/// Options of the measurement.
#[derive(Debug, Clone)]
pub struct VectorsBenchOptions {
    /// A directory on each drive.
    pub dirs: Vec<PathBuf>,
    /// Bytes of the vectors.
    pub data_bytes: u64,
    /// Number of vectors whose neighbours are searched.
    pub queries: usize,
    /// Number of keys that are looked up.
    pub keys: usize,
    /// Memory of each job.
    pub memory_bytes: u64,
    /// Largest number of threads.
    pub threads_max: usize,
    /// Direct or buffered.
    pub io: IoMode,
}

/// The jobs, in this order, because a lookup needs the sorted file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measured {
    Neighbours,
    Clusters,
    Sort,
    Lookup,
}

impl Measured {
    const ALL: [Measured; 4] = [
        Measured::Neighbours,
        Measured::Clusters,
        Measured::Sort,
        Measured::Lookup,
    ];

    fn id(self) -> &'static str {
        match self {
            Measured::Neighbours => "knn",
            Measured::Clusters => "kmeans",
            Measured::Sort => "sort",
            Measured::Lookup => "lookup",
        }
    }

    fn name(self, options: &VectorsBenchOptions) -> String {
        match self {
            Measured::Neighbours => {
                let queries = units::counted(options.queries as u64, "query");
                format!("kNN, {}", queries.replace("querys", "queries"))
            }
            Measured::Clusters => format!("k-means, {CLUSTERS} clusters, 1 iteration"),
            Measured::Sort => "sort by the first number".to_owned(),
            Measured::Lookup => format!("lookup of {}", units::counted(options.keys as u64, "key")),
        }
    }
}

/// Time of one job.
#[derive(Debug, Clone, Copy)]
struct Time {
    seconds: f64,
    /// Bytes read and written.
    moved_bytes: u64,
    /// Bytes per second that the engine moves in this way without computing.
    floor_rate: f64,
}

/// Results with this many threads on this many drives.
struct Found {
    drives: usize,
    threads: usize,
    times: Vec<Time>,
}

/// Runs the measurement.
///
/// # Errors
/// Usage, no space, memory, errors of the drives, interrupted; corrupt if results differ. Nothing
/// is left behind.
pub fn run(options: &VectorsBenchOptions, watch: Watch<'_>) -> Result<Report> {
    let started = Instant::now();
    let rows = options.data_bytes / VECTOR_BYTES;
    let least = options.queries.max(K).max(CLUSTERS) as u64;
    if rows < least || options.queries == 0 || options.keys == 0 {
        let cause = format!(
            "{} are too few, or there is nothing to look for",
            units::counted(rows, "vector")
        );
        return Err(Error::usage(OPERATION, cause)
            .hint("give more --size, and --queries and --keys of 1 or more"));
    }
    let home = DirOptions {
        dirs: &options.dirs,
        memory_bytes: options.memory_bytes,
        threads: options.threads_max,
        io: options.io,
    };
    let bench_dirs = BenchDirs::make(OPERATION, &home, watch)?;
    let bench = Bench {
        options,
        bench_dirs: &bench_dirs,
        rows,
        by_first: RecordFormat::new(VECTOR_BYTES as usize, vec!["0:4:f32".parse()?])?,
    };
    let base = bench.make_base()?;
    let mut all: Vec<Found> = Vec::new();
    let mut results: Option<Vec<u64>> = None;
    for drives in powers_up_to(bench_dirs.count()) {
        watch.say(&format!("{drives} drives: put the vectors there"));
        let striped = Striped::put(DATASET, &bench_dirs, drives, &base)?;
        let sealed = Sealed::of(&striped.volume, &striped.name)?;
        let sealed = sealed.ok_or_else(|| {
            Error::corrupt(OPERATION, "the dataset of vectors is not a single file").hint(
                "measure again, and let nothing else change the datasets of these directories",
            )
        })?;
        for threads in powers_up_to(options.threads_max) {
            let mut job = bench_dirs.job(drives).options;
            job.threads = threads;
            let job = Job::on(job, striped.mount(&sealed));
            let (found, values) = bench.measure(&job, drives)?;
            if *results.get_or_insert_with(|| values.clone()) != values {
                let cause = format!(
                    "results on {} with {} differ from those on one with one",
                    units::counted(drives as u64, "drive"),
                    units::counted(threads as u64, "thread")
                );
                return Err(Error::corrupt(OPERATION, cause).hint("please report it"));
            }
            all.push(found);
        }
        bench_dirs.remove(drives, SORTED);
    }
    let size = units::bytes(rows * VECTOR_BYTES);
    let mut report = Report::new(
        "bench vectors",
        format!("{size} of vectors of {TYPE} on drives"),
    );
    report.option("vectors", units::count(rows));
    report.option("type", TYPE);
    report.option("memory", units::bytes(options.memory_bytes));
    report.option("queries", options.queries.to_string());
    report.option("keys", options.keys.to_string());
    for dir in &options.dirs {
        report.option("drive", dir.display().to_string());
    }
    tell(&mut report, options, &all);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

struct Bench<'b> {
    options: &'b VectorsBenchOptions,
    bench_dirs: &'b BenchDirs<'b>,
    rows: u64,
    /// Vectors in the order of their first number.
    by_first: RecordFormat,
}

impl Bench<'_> {
    /// Makes the vectors on the first drive.
    fn make_base(&self) -> Result<PathBuf> {
        let bench_dirs = self.bench_dirs;
        let path = bench_dirs.paths(1, BASE).remove(0);
        bench_dirs.watch.say("generate vectors");
        let made = GenerateOptions {
            distribution: Distribution::Clusters { centres: CENTRES },
            seed: 1,
            records: self.rows,
        };
        let request = GenerateRequest {
            generator: Generator::new(&RecordFormat::parse_type(TYPE)?, made)?,
            records: self.rows,
            output: Output::File {
                path: path.clone(),
                header: None,
            },
            replace: true,
        };
        let job = bench_dirs.job(1);
        bench_dirs.watch.over(&job, || generate(&job, &request))?;
        Ok(path)
    }

    /// The positions of this many vectors, spread over the file.
    fn places(&self, count: usize) -> Vec<u64> {
        let draw = |at: usize| outcore::read::sample::random(7, at as u64) % self.rows;
        (0..count).map(draw).collect()
    }

    /// Seconds of a job, and its result.
    fn time<T>(&self, job: &Job, work: impl FnOnce() -> Result<T>) -> Result<(f64, T)> {
        let started = Instant::now();
        let done = self.bench_dirs.watch.over(job, work)?;
        Ok((started.elapsed().as_secs_f64(), done))
    }

    /// Bytes per second at which the engine reads the vectors, and at which it copies them.
    fn floors(&self, job: &Job, drives: usize, input: &[Input]) -> Result<(f64, f64)> {
        let numbers = read::<u64>(input);
        let (seconds, total) = self.time(job, || sum(job, &numbers))?;
        std::hint::black_box(total);
        let read_rate = (self.rows * VECTOR_BYTES) as f64 / seconds;
        let copy = self.bench_dirs.output(drives, COPY);
        let (seconds, copied) = self.time(job, || write(job, &numbers, &copy, true))?;
        let copy_rate = (copied.read_bytes + copied.written_bytes) as f64 / seconds;
        self.bench_dirs.remove(drives, COPY);
        Ok((read_rate, copy_rate))
    }

    /// Runs all jobs. Returns their times, and numbers for the results that are equal on any
    /// drives.
    fn measure(&self, job: &Job, drives: usize) -> Result<(Found, Vec<u64>)> {
        let (bench_dirs, threads) = (self.bench_dirs, job.options.threads);
        let data_bytes = self.rows * VECTOR_BYTES;
        let say = |what: &str| {
            let drives = units::counted(drives as u64, "drive");
            let threads = units::counted(threads as u64, "thread");
            bench_dirs
                .watch
                .say(&format!("{drives}, {threads}: {what}"));
        };
        let base = VectorFile {
            path: DATASET.into(),
            container: Container::Raw,
            element: Element::F32,
            dimension: DIMENSION,
            rows: self.rows,
            header_bytes: 0,
            first_row: 0,
        };
        let input = [Input {
            path: DATASET.into(),
            header_bytes: 0,
            data_bytes: Some(data_bytes),
        }];
        say("read and copy");
        let (read_rate, copy_rate) = self.floors(job, drives, &input)?;
        say("neighbours");
        let queries = VectorFile {
            rows: self.options.queries as u64,
            ..base.clone()
        };
        let options = KnnOptions::new(K, Metric::L2);
        let (knn_seconds, found) = self.time(job, || knn(job, &base, &queries, &options))?;
        let neighbours = found.ids.iter().fold(0_u64, |all, id| {
            all.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(*id)
        });
        say("clusters");
        let options = KmeansOptions {
            init: Init::RandomRows,
            max_iterations: 1,
            tolerance: 0.0,
            ..KmeansOptions::new(CLUSTERS)
        };
        let (kmeans_seconds, clusters) = self.time(job, || kmeans(job, &base, &options))?;
        say("sort");
        let output = bench_dirs.output(drives, SORTED);
        let options = SortOptions {
            replace: true,
            ..SortOptions::default()
        };
        let (sort_seconds, sorted) =
            self.time(job, || sort(job, &input, output, &self.by_first, options))?;
        say("lookup");
        let (keys, _) = gather(
            job,
            &input,
            VECTOR_BYTES as usize,
            &self.places(self.options.keys),
        )?;
        let shards = bench_dirs.paths(drives, SORTED);
        let shards: Vec<Input> = shards.into_iter().map(Input::raw).collect();
        let (lookup_seconds, (ranks, looked_up)) = self.time(job, || {
            lookup(job, &shards, &self.by_first, &keys, Side::Left)
        })?;
        say("random reads");
        let places = self.places(self.options.keys);
        let (gather_seconds, (_, gathered)) =
            self.time(job, || gather(job, &shards, VECTOR_BYTES as usize, &places))?;
        let time = |seconds, moved_bytes, floor_rate| Time {
            seconds,
            moved_bytes,
            floor_rate,
        };
        let sort_bytes = sorted.read_bytes + sorted.written_bytes;
        let gather_rate = gathered.read_bytes as f64 / gather_seconds;
        let found = Found {
            drives,
            threads,
            times: vec![
                time(knn_seconds, found.read_bytes, read_rate),
                time(kmeans_seconds, clusters.read_bytes, read_rate),
                time(sort_seconds, sort_bytes, copy_rate),
                time(lookup_seconds, looked_up.read_bytes, gather_rate),
            ],
        };
        let ranks = ranks
            .iter()
            .fold(0_u64, |all, rank| all.wrapping_add(*rank));
        let values = vec![
            neighbours,
            clusters.inertia.to_bits(),
            sorted.records,
            ranks,
        ];
        Ok((found, values))
    }
}

/// Adds tables and charts of the results.
fn tell(report: &mut Report, options: &VectorsBenchOptions, all: &[Found]) {
    let Some(first) = all.first() else { return };
    let mut section = Section::new(
        "vectors",
        "By drives and threads",
        "The same vectors on more and more drives, and the same jobs with more and more threads: the time of each job, how \
         many times as fast it is as with one thread on one drive, the bytes that it read and wrote, and its floor as a share of its time. \
         The floor is the time in which the engine, with as many threads on these drives, only reads as many bytes (kNN, k-means), \
         only copies as many (sort), or only gathers as many from random places (lookup). The jobs are those of the LLNL poster \
         \"Threading Opportunities in High-Performance Flash-Memory Storage\".",
    );
    for (at, measured) in Measured::ALL.iter().enumerate() {
        let name = measured.name(options);
        let mut table = Table::new(
            measured.id(),
            &name,
            &[
                ("drives", Unit::Count),
                ("threads", Unit::Count),
                ("time", Unit::Seconds),
                ("times one", Unit::Times),
                ("moved", Unit::Bytes),
                ("rate", Unit::BytesPerS),
                ("of the floor", Unit::Share),
            ],
        );
        for found in all {
            let Time {
                seconds,
                moved_bytes,
                floor_rate,
            } = found.times[at];
            let moved = moved_bytes as f64;
            table.row([
                Cell::from(found.drives as f64),
                (found.threads as f64).into(),
                seconds.into(),
                (first.times[at].seconds / seconds).into(),
                moved.into(),
                (moved / seconds).into(),
                (moved / floor_rate / seconds).into(),
            ]);
        }
        section.tables.push(table);
        let best = all
            .iter()
            .min_by(|a, b| a.times[at].seconds.total_cmp(&b.times[at].seconds));
        if let Some(best) = best {
            let drives = units::counted(best.drives as u64, "drive");
            let threads = units::counted(best.threads as u64, "thread");
            let note = format!("on {drives} with {threads}");
            report.headline(&name, best.times[at].seconds, Unit::Seconds, note);
        }
        let lines = all.chunk_by(|a, b| a.drives == b.drives).map(|found| {
            let points = found
                .iter()
                .map(|found| (found.threads as f64, found.times[at].seconds));
            let drives = units::counted(found[0].drives as u64, "drive");
            Series::new(&drives, points.collect())
        });
        section.charts.push(Chart {
            id: format!("vectors-{}", measured.id()),
            title: name,
            x: Axis::new("threads", Unit::Count).on(Scale::Log2),
            y: Axis::new("time", Unit::Seconds).on(Scale::Log10),
            series: lines.collect(),
            ..Chart::default()
        });
    }
    report.section(section);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_run_on_one_and_two_drives_with_one_to_three_threads_and_nothing_stays() {
        let dirs: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
        let options = VectorsBenchOptions {
            dirs: dirs.iter().map(|dir| dir.path().to_path_buf()).collect(),
            data_bytes: 4 << 20,
            queries: 3,
            keys: 100,
            memory_bytes: 32 << 20,
            threads_max: 3,
            io: IoMode::Auto,
        };
        let report = run(&options, Watch::none()).unwrap();
        let json = report.to_json();
        let tables = json["sections"][0]["tables"].as_array().unwrap();
        assert_eq!(tables.len(), Measured::ALL.len());
        for table in tables {
            let rows = table["rows"].as_array().unwrap();
            let number = |row: &serde_json::Value, at: usize| row[at].as_f64().unwrap();
            let on: Vec<(f64, f64)> = rows
                .iter()
                .map(|row| (number(row, 0), number(row, 1)))
                .collect();
            let expected = [1.0, 2.0]
                .iter()
                .flat_map(|drives| [1.0, 2.0, 3.0].map(|threads| (*drives, threads)));
            assert_eq!(on, expected.collect::<Vec<_>>());
            for row in rows {
                assert!((2..7).all(|at| number(row, at) > 0.0), "{row}");
            }
        }
        assert_eq!(report.charts().count(), Measured::ALL.len());
        for dir in &dirs {
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        let none = VectorsBenchOptions {
            data_bytes: 100,
            ..options
        };
        assert!(run(&none, Watch::none()).is_err());
    }
}
