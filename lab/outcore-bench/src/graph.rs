//! `outcore bench graph`: algorithms on one graph, on one drive and on several.
//!
//! Contract: an R-MAT graph is generated and converted once, on the first drive. For 1, 2, 4, ...
//! drives, and for all, the measurement makes a volume on them and puts the graph there as a
//! dataset. Components, a breadth-first search, PageRank and a k-core then read it in place. A time
//! covers only the algorithm, with results in memory. The floor of an algorithm is the time in
//! which the engine reads the same number of bytes of tiles from these drives without computing.
//!
//! Source: Falcon (Kumar and Huang, ATC 2017), whose figures have the same four algorithms on
//! volumes of increasing numbers of SSDs.
//!
//! Bounds: space for the pairs of the edges, scratch, and twice the graph; one of the copies is
//! spread over all drives.

use std::path::PathBuf;
use std::time::Instant;

use outcore::job::Job;
use outcore::key::RecordFormat;
use outcore::{Error, Input, IoMode, Output, Result, primitives};
use outcore_chart::{Axis, Chart, Scale, Series};
use outcore_front::volumes::Sealed;
use outcore_gen::{Distribution, GenerateOptions, GenerateRequest, Generator, generate};
use outcore_graph::convert::{ConvertOptions, convert};
use outcore_graph::edges::ReadOptions;
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::graph::Graph;
use outcore_graph::graph::files::GraphFiles;
use outcore_graph::kernels::{PageRankOptions, bfs, components, k_core, pagerank};
use outcore_io::drive::paths;
use outcore_io::units::{self, Unit};

use crate::bench_dirs::{BenchDirs, DirOptions};
use crate::load::powers_up_to;
use crate::striped::Striped;
use crate::watch::Watch;
use outcore_report::{Cell, Report, Section, Table};

const OPERATION: &str = "measure graphs";
/// Largest scale: vertices have four bytes.
const SCALE_MAX: u32 = 31;
const PAGERANK_ITERATIONS: u32 = 10;
const CORE_K: u32 = 16;
const DATASET: &str = "@graph";
/// Names in the private directories; the part of a volume has the number of drives as its name.
const EDGES: &str = "input";
const GRAPH: &str = "0";

/// Options of the measurement.
#[derive(Debug, Clone)]
pub struct GraphBenchOptions {
    /// A directory on each drive.
    pub dirs: Vec<PathBuf>,
    /// The graph has 2^`scale` vertices.
    pub scale: u32,
    /// Edges per vertex.
    pub factor: u64,
    /// Memory of each job.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Direct or buffered.
    pub io: IoMode,
}

/// The algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Components,
    Search,
    PageRank,
    Core,
}

impl Kernel {
    const ALL: [Kernel; 4] = [
        Kernel::Components,
        Kernel::Search,
        Kernel::PageRank,
        Kernel::Core,
    ];

    fn name(self) -> &'static str {
        match self {
            Kernel::Components => "components",
            Kernel::Search => "BFS",
            Kernel::PageRank => "PageRank, 10 iterations",
            Kernel::Core => "k-core (k = 16)",
        }
    }

    /// Runs the algorithm. Returns a number that does not depend on the placement of the graph.
    fn run(self, job: &Job, graph: &Graph, source: u32) -> Result<u64> {
        let sum = |values: &[u32]| values.iter().map(|value| u64::from(*value)).sum();
        Ok(match self {
            Kernel::Components => sum(&components(job, graph)?),
            Kernel::Search => sum(&bfs(job, graph, source)?.levels),
            Kernel::PageRank => {
                let options = PageRankOptions {
                    tolerance: Some(0.0),
                    iterations_max: PAGERANK_ITERATIONS,
                    ..PageRankOptions::default()
                };
                let ranks = pagerank(job, graph, options)?.ranks;
                ranks.iter().fold(0, |all, rank| all ^ rank.to_bits())
            }
            Kernel::Core => sum(&k_core(job, graph, CORE_K)?),
        })
    }
}

/// Time of one algorithm on some drives.
#[derive(Debug, Clone, Copy)]
struct Time {
    seconds: f64,
    read_bytes: u64,
}

/// Results on some drives.
struct Found {
    drives: usize,
    /// Bytes per second at which the engine reads the tiles.
    read_rate: f64,
    times: Vec<Time>,
}

/// Runs the measurement.
///
/// # Errors
/// Usage, no space, memory, errors of the drives, interrupted; corrupt if a result differs from
/// that on fewer drives. Nothing is left behind.
pub fn run(options: &GraphBenchOptions, watch: Watch<'_>) -> Result<Report> {
    let started = Instant::now();
    if !(1..=SCALE_MAX).contains(&options.scale) || options.factor == 0 {
        return Err(Error::usage(OPERATION, "there is no such graph")
            .hint("--scale is from 1 to 31, and --factor at least 1"));
    }
    let home = DirOptions {
        dirs: &options.dirs,
        memory_bytes: options.memory_bytes,
        threads: options.threads,
        io: options.io,
    };
    let bench_dirs = BenchDirs::make(OPERATION, &home, watch)?;
    let bench = Bench {
        options,
        bench_dirs: &bench_dirs,
    };
    let dir = bench.make_graph()?;
    let mut all: Vec<Found> = Vec::new();
    let mut results: Option<Vec<u64>> = None;
    for drives in powers_up_to(bench_dirs.count()) {
        let (found, values) = bench.measure(&dir, drives)?;
        if *results.get_or_insert_with(|| values.clone()) != values {
            let cause = format!(
                "results on {} differ from those on one",
                units::counted(drives as u64, "drive")
            );
            return Err(Error::corrupt(OPERATION, cause).hint("please report it"));
        }
        all.push(found);
    }
    let mut report = Report::new(
        "bench graph",
        format!("An R-MAT graph of scale {} on drives", options.scale),
    );
    report.option("scale", options.scale.to_string());
    report.option("edges per vertex", options.factor.to_string());
    report.option("memory", units::bytes(options.memory_bytes));
    report.option("threads", options.threads.to_string());
    for dir in &options.dirs {
        report.option("drive", dir.display().to_string());
    }
    tell(&mut report, &all);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

struct Bench<'b> {
    options: &'b GraphBenchOptions,
    bench_dirs: &'b BenchDirs<'b>,
}

impl Bench<'_> {
    /// Makes the graph on the first drive.
    fn make_graph(&self) -> Result<PathBuf> {
        let (options, bench_dirs) = (self.options, self.bench_dirs);
        let first = |name: &str| bench_dirs.paths(1, name).remove(0);
        let (pairs, dir) = (first(EDGES), first(GRAPH));
        let job = bench_dirs.job(1);
        bench_dirs.watch.say("generate edges");
        let records = options.factor << options.scale;
        let format = RecordFormat::parse_type("u32x2")?;
        let made = GenerateOptions {
            distribution: Distribution::Rmat {
                scale: options.scale,
            },
            seed: 1,
            records,
        };
        let request = GenerateRequest {
            generator: Generator::new(&format, made)?,
            records,
            output: Output::File {
                path: pairs.clone(),
                header: None,
            },
            replace: true,
        };
        bench_dirs.watch.over(&job, || generate(&job, &request))?;
        bench_dirs.watch.say("convert");
        let edges = ConvertOptions {
            read: ReadOptions {
                format: Some(EdgeFormat::Pairs32),
                ..ReadOptions::default()
            },
            vertices: Some(1 << options.scale),
            // The k-core is not defined for loops.
            drop_loops: true,
            ..ConvertOptions::default()
        };
        bench_dirs.watch.over(&job, || {
            convert(&job, std::slice::from_ref(&pairs), &dir, &edges)
        })?;
        bench_dirs.remove(1, EDGES);
        Ok(dir)
    }

    /// Runs all algorithms on the first `drives` drives. Returns the times and the results.
    fn measure(&self, dir: &std::path::Path, drives: usize) -> Result<(Found, Vec<u64>)> {
        let (bench_dirs, watch) = (self.bench_dirs, self.bench_dirs.watch);
        watch.say(&format!("{drives} drives: put the graph there"));
        let striped = Striped::put(DATASET, bench_dirs, drives, dir)?;
        let (sealed, index) = Sealed::packed(&striped.volume, &striped.name)?;
        let manifest = index.find(GraphFiles::MANIFEST)?;
        let manifest = sealed.read(manifest.offset_bytes, manifest.len_bytes as usize)?;
        let entries = index.listed();
        let stretches = entries.map(|entry| {
            let end_bytes = entry.offset_bytes + entry.len_bytes;
            (entry.text(), entry.offset_bytes..end_bytes)
        });
        let files = GraphFiles::packed(DATASET, manifest, stretches);
        let mounted = striped.mount(&sealed);
        let options = bench_dirs.job(drives).options;
        let job = Job::on(options, mounted);
        let graph = Graph::open_files(&job, files)?;
        let source = busiest(&job, &graph)?;
        let tiles = index.find("tiles")?;
        let tiles = Input {
            path: DATASET.into(),
            header_bytes: tiles.offset_bytes,
            data_bytes: Some(tiles.len_bytes / 8 * 8),
        };
        watch.say(&format!("{drives} drives: read"));
        let started = Instant::now();
        let read = || primitives::sum(&job, &primitives::read::<u64>(std::slice::from_ref(&tiles)));
        std::hint::black_box(watch.over(&job, read)?);
        let read_rate = graph.tile_bytes() as f64 / started.elapsed().as_secs_f64();
        let (mut times, mut values) = (Vec::new(), Vec::new());
        for kernel in Kernel::ALL {
            watch.say(&format!("{drives} drives: {}", kernel.name()));
            let before_bytes = bytes_read();
            let started = Instant::now();
            values.push(watch.over(&job, || kernel.run(&job, &graph, source))?);
            times.push(Time {
                seconds: started.elapsed().as_secs_f64(),
                read_bytes: bytes_read().saturating_sub(before_bytes),
            });
        }
        Ok((
            Found {
                drives,
                read_rate,
                times,
            },
            values,
        ))
    }
}

/// The vertex with the most edges; a search from it reaches most of the graph.
fn busiest(job: &Job, graph: &Graph) -> Result<u32> {
    let _held = job.budget.reserve("degrees", graph.vertices() as u64 * 4)?;
    let degrees = graph.degrees(job, outcore_graph::graph::Direction::Out)?;
    let best = degrees
        .iter()
        .enumerate()
        .max_by_key(|(_, degree)| **degree);
    Ok(best.map_or(0, |(vertex, _)| vertex as u32))
}

/// Bytes that this process has read from drives.
fn bytes_read() -> u64 {
    let text = paths::system_text("/proc/self/io").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes:"));
    line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
}

/// Adds tables and charts of the results.
fn tell(report: &mut Report, all: &[Found]) {
    let Some(first) = all.first() else { return };
    let mut section = Section::new(
        "drives",
        "By drives",
        "The same graph on more and more drives: the time of each algorithm, how many times as \
         fast it is as on the first drive, what it read per second, and its floor (the time in \
         which the engine reads as many bytes and does nothing else) as a share of its time. \
         Falcon, ATC 2017.",
    );
    let mut rates = Table::new(
        "rates",
        "Reading alone",
        &[
            ("drives", Unit::Count),
            ("rate", Unit::BytesPerS),
            ("times one", Unit::Times),
        ],
    );
    for found in all {
        rates.row([
            Cell::from(found.drives as f64),
            found.read_rate.into(),
            (found.read_rate / first.read_rate).into(),
        ]);
    }
    section.tables.push(rates);
    let mut lines = Vec::new();
    for (at, kernel) in Kernel::ALL.iter().enumerate() {
        let mut table = Table::new(
            ["components", "bfs", "pagerank", "core"][at],
            kernel.name(),
            &[
                ("drives", Unit::Count),
                ("time", Unit::Seconds),
                ("times one", Unit::Times),
                ("read", Unit::Bytes),
                ("rate", Unit::BytesPerS),
                ("of the floor", Unit::Share),
            ],
        );
        for found in all {
            let Time {
                seconds,
                read_bytes,
            } = found.times[at];
            let floor_s = read_bytes as f64 / found.read_rate;
            table.row([
                Cell::from(found.drives as f64),
                seconds.into(),
                (first.times[at].seconds / seconds).into(),
                (read_bytes as f64).into(),
                (read_bytes as f64 / seconds).into(),
                (floor_s / seconds).into(),
            ]);
        }
        if let Some(last) = all.last() {
            let note = format!("on {}", units::counted(last.drives as u64, "drive"));
            report.headline(kernel.name(), last.times[at].seconds, Unit::Seconds, note);
        }
        section.tables.push(table);
        let points = all
            .iter()
            .map(|found| (found.drives as f64, found.times[at].seconds));
        lines.push(Series::new(kernel.name(), points.collect()));
    }
    section.charts.push(Chart {
        id: "graph-drives".to_owned(),
        title: "Time by drives".to_owned(),
        x: Axis::new("drives", Unit::Count).on(Scale::Log2),
        y: Axis::new("time", Unit::Seconds).on(Scale::Log10),
        series: lines,
        ..Chart::default()
    });
    report.section(section);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_algorithms_run_on_one_two_and_three_drives_and_nothing_stays() {
        let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let options = GraphBenchOptions {
            dirs: dirs.iter().map(|dir| dir.path().to_path_buf()).collect(),
            scale: 12,
            factor: 8,
            memory_bytes: 64 << 20,
            threads: 2,
            io: IoMode::Auto,
        };
        let report = run(&options, Watch::none()).unwrap();
        let json = report.to_json();
        let tables = json["sections"][0]["tables"].as_array().unwrap();
        assert_eq!(tables.len(), 1 + Kernel::ALL.len());
        for table in tables {
            let rows = table["rows"].as_array().unwrap();
            let drives: Vec<f64> = rows.iter().map(|row| row[0].as_f64().unwrap()).collect();
            assert_eq!(drives, [1.0, 2.0, 3.0]);
            assert!(rows.iter().all(|row| row[1].as_f64().unwrap() > 0.0));
        }
        for dir in &dirs {
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        let none = GraphBenchOptions {
            scale: 40,
            ..options
        };
        assert!(run(&none, Watch::none()).is_err());
    }
}
