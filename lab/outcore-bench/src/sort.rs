//! `outcore bench sort`: a sort larger than memory compared with one in memory, over distributions,
//! drives and sizes.
//!
//! Contract: inputs of 64-bit numbers are generated on the drives, sorted by the engine with
//! [`SortBenchOptions::memory_bytes`], and removed again. The comparison is a plain sort in memory:
//! read the file, sort with all threads (one key range per thread, with voracious_radix_sort, the
//! fastest library that we know), write the file and sync. The time of its sorting alone is also
//! reported. The comparison is omitted for data larger than the given memory, so its line ends
//! there.
//!
//! Source: PALID (Li, Khan, Dhulipala, SPAA 2025): Fig. 9 (distributions x SSDs against a sort in
//! memory) and Fig. 10 (time against size across the memory limit).
//!
//! Bounds: three times the data in space on the drives together. The sort in memory needs the
//! memory of the data.

use std::fs::File;
use std::io::{Read, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::IoMode;
use outcore::sort::{SortOptions, sort};
use outcore::{Error, Kind, Result};
use outcore_chart::{Axis, Chart, Scale, Series, Shape};
use outcore_gen::Distribution;
use outcore_io::drive::paths;
use outcore_io::threads::spawn_scoped;
use outcore_io::units::{self, Unit};
use voracious_radix_sort::RadixSort;

use crate::bench_dirs::{BenchDirs, DirOptions, RECORD_BYTES, TYPE};
use crate::watch::Watch;
use outcore_report::{Cell, Column, Report, Section, Table};

const OPERATION: &str = "measure sort";
/// Keys sampled per thread to divide the key range.
const SAMPLES_PER_THREAD: usize = 256;

/// Options of the measurement.
#[derive(Debug, Clone)]
pub struct SortBenchOptions {
    /// A directory on each drive.
    pub dirs: Vec<PathBuf>,
    /// Bytes of data for the distributions.
    pub data_bytes: u64,
    /// Memory of the engine's sort, and limit of the sort in memory in the comparison by size.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Distributions of keys.
    pub distributions: Vec<Distribution>,
    /// Direct or buffered.
    pub io: IoMode,
}

/// Runs the measurement.
///
/// # Errors
/// Usage, no space, memory, errors of the drives, interrupted. Nothing is left behind.
pub fn run(options: &SortBenchOptions, watch: Watch<'_>) -> Result<Report> {
    let started = Instant::now();
    let bench = Bench::new(options, watch)?;
    let mut report = Report::new(
        "bench sort",
        format!(
            "Sorting {} in {} of memory",
            units::bytes(options.data_bytes),
            units::bytes(options.memory_bytes)
        ),
    );
    report.option("type", TYPE);
    report.option("data", units::bytes(options.data_bytes));
    report.option("memory", units::bytes(options.memory_bytes));
    report.option("threads", options.threads.to_string());
    for dir in &options.dirs {
        report.option("drive", dir.display().to_string());
    }
    let by_distribution = bench.by_distribution(&mut report)?;
    report.section(by_distribution);
    let by_size = bench.by_size(&mut report)?;
    report.section(by_size);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// A running measurement.
struct Bench<'a> {
    options: &'a SortBenchOptions,
    watch: Watch<'a>,
    bench_dirs: BenchDirs<'a>,
}

/// Times of one sort in memory.
#[derive(Debug, Clone, Copy)]
struct InMemory {
    /// Sorting alone.
    sort_s: f64,
    /// Including reading and writing.
    all_s: f64,
}

impl<'a> Bench<'a> {
    fn new(options: &'a SortBenchOptions, watch: Watch<'a>) -> Result<Self> {
        if options.data_bytes < RECORD_BYTES {
            return Err(Error::usage(OPERATION, "there is nothing to sort"));
        }
        let dirs = DirOptions {
            dirs: &options.dirs,
            memory_bytes: options.memory_bytes,
            threads: options.threads,
            io: options.io,
        };
        Ok(Bench {
            options,
            watch,
            bench_dirs: BenchDirs::make(OPERATION, &dirs, watch)?,
        })
    }

    /// Seconds of the engine's sort; the input must exist.
    fn sort(&self, drives: usize) -> Result<f64> {
        let bench_dirs = &self.bench_dirs;
        let (job, inputs) = (bench_dirs.job(drives), bench_dirs.inputs(drives));
        let options = SortOptions {
            replace: true,
            ..SortOptions::default()
        };
        let output = bench_dirs.output(drives, "sorted");
        let done = bench_dirs.watch.over(&job, || {
            sort(&job, &inputs, output, &bench_dirs.format, options)
        });
        bench_dirs.remove(drives, "sorted");
        Ok(done?.seconds)
    }

    /// Sorts in memory as a plain program does.
    fn sort_in_memory(&self, data_bytes: u64) -> Result<InMemory> {
        self.watch.check()?;
        let (input, output) = (
            &self.bench_dirs.inputs(1)[0].path,
            &self.bench_dirs.paths(1, "plain")[0],
        );
        let started = Instant::now();
        let mut keys = vec![0_u64; (data_bytes / RECORD_BYTES) as usize];
        read_all(input, bytemuck::cast_slice_mut(&mut keys))?;
        let sorting = Instant::now();
        sort_with_threads(&mut keys, self.options.threads);
        let sort_s = sorting.elapsed().as_secs_f64();
        let written = write_all(output, bytemuck::cast_slice(&keys));
        let all_s = started.elapsed().as_secs_f64();
        self.bench_dirs.remove(1, "plain");
        written?;
        self.watch.check()?;
        Ok(InMemory { sort_s, all_s })
    }

    /// 1, 2, 4 and so on, up to all drives.
    fn drive_counts(&self) -> Vec<usize> {
        let all = self.bench_dirs.count();
        let mut counts: Vec<usize> = (0..)
            .map(|power| 1 << power)
            .take_while(|count| *count < all)
            .collect();
        counts.push(all);
        counts
    }

    fn by_distribution(&self, report: &mut Report) -> Result<Section> {
        let data_bytes = self.options.data_bytes / RECORD_BYTES * RECORD_BYTES;
        let mut section = Section::new(
            "distributions",
            "Distributions and drives",
            "Time to sort, including input and output, by distribution of the keys and number of \
             drives. For comparison: a radix sort in memory with all threads, without and with \
             reading and writing its file. PALID Fig. 9.",
        );
        let counts = self.drive_counts();
        let mut table = Table::new("distributions", "Time to sort", &[("keys", Unit::Count)]);
        let mut series = Vec::new();
        let mut add = |name: String| {
            table.columns.push(Column {
                name: name.clone(),
                unit: Unit::Seconds,
            });
            series.push(Series::new(name, Vec::new()));
        };
        add("in memory, sorting alone".to_owned());
        add("in memory".to_owned());
        for count in &counts {
            add(format!(
                "{count} drive{}",
                if *count == 1 { "" } else { "s" }
            ));
        }
        table.columns.push(Column {
            name: "all drives over in memory".to_owned(),
            unit: Unit::Times,
        });
        let mut names = Vec::new();
        for distribution in &self.options.distributions {
            let mut times: Vec<Option<f64>> = Vec::new();
            for count in &counts {
                let drives = units::counted(*count as u64, "drive");
                self.watch
                    .say(&format!("{distribution}: generate on {drives}"));
                self.bench_dirs
                    .generate(*count, *distribution, data_bytes)?;
                if *count == 1 {
                    self.watch.say(&format!("{distribution}: sort in memory"));
                    let plain = self
                        .fits(data_bytes)
                        .then(|| self.sort_in_memory(data_bytes));
                    let plain = plain.transpose()?;
                    times.push(plain.map(|plain| plain.sort_s));
                    times.push(plain.map(|plain| plain.all_s));
                }
                self.watch.say(&format!("{distribution}: sort on {drives}"));
                times.push(Some(self.sort(*count)?));
                self.bench_dirs.remove_input(*count);
            }
            let place = names.len() as f64;
            for (line, time) in series.iter_mut().zip(&times) {
                line.points.extend(time.map(|time| (place, time)));
            }
            let last = times.last().copied().flatten();
            let ratio = last.zip(times[1]).map(|(drives, memory)| drives / memory);
            let name = distribution.to_string();
            if names.is_empty()
                && let Some(seconds) = last
            {
                let rate = data_bytes as f64 / seconds;
                report.headline(
                    "sort",
                    rate,
                    Unit::BytesPerS,
                    format!("{name} keys, all drives"),
                );
            }
            let mut row = vec![Cell::from(name.as_str())];
            row.extend(times.into_iter().map(Cell::from));
            row.push(ratio.into());
            table.row(row);
            names.push(name);
        }
        section.tables.push(table);
        section.charts.push(Chart {
            id: "sort-distributions".to_owned(),
            title: format!("Time to sort {}", units::bytes(data_bytes)),
            x: Axis::of_names("keys", names),
            y: Axis::new("time", Unit::Seconds),
            shape: Shape::Bars,
            series,
        });
        Ok(section)
    }

    /// Whether the sort in memory is attempted.
    fn fits(&self, data_bytes: u64) -> bool {
        let text = paths::system_text("/proc/meminfo").unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        // The sort needs the memory of the data twice.
        kib.is_some_and(|kib| data_bytes.saturating_mul(5) / 2 < kib << 10)
    }

    fn by_size(&self, report: &mut Report) -> Result<Section> {
        let memory_bytes = self.options.memory_bytes;
        let mut section = Section::new(
            "sizes",
            "Across the memory limit",
            "Time to sort uniform keys on all drives by size, from a quarter of the memory to more \
             than all of it. The sort in memory may use as much memory as outcore: its line ends \
             where the data no longer fit. PALID Fig. 10.",
        );
        let mut table = Table::new(
            "sizes",
            "Time by size",
            &[
                ("data", Unit::Bytes),
                ("of memory", Unit::Times),
                ("outcore", Unit::Seconds),
                ("rate", Unit::BytesPerS),
                ("in memory", Unit::Seconds),
            ],
        );
        let all = self.bench_dirs.count();
        let (mut ours, mut plain) = (Vec::new(), Vec::new());
        for quarters in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] {
            let data_bytes = memory_bytes / 4 * quarters / RECORD_BYTES * RECORD_BYTES;
            if data_bytes > self.options.data_bytes.max(memory_bytes) {
                break;
            }
            let size = units::bytes(data_bytes);
            self.watch.say(&format!("{size}: sort in memory"));
            let mut in_memory = None;
            if data_bytes <= memory_bytes && self.fits(data_bytes) {
                self.bench_dirs
                    .generate(1, Distribution::Whole, data_bytes)?;
                in_memory = Some(self.sort_in_memory(data_bytes)?.all_s);
            }
            self.watch.say(&format!("{size}: sort"));
            if in_memory.is_none() || all > 1 {
                self.bench_dirs.remove_input(1);
                self.bench_dirs
                    .generate(all, Distribution::Whole, data_bytes)?;
            }
            let seconds = self.sort(all)?;
            self.bench_dirs.remove_input(all);
            ours.push((data_bytes as f64, seconds));
            plain.extend(in_memory.map(|seconds| (data_bytes as f64, seconds)));
            table.row([
                Cell::from(data_bytes as f64),
                (data_bytes as f64 / memory_bytes as f64).into(),
                seconds.into(),
                (data_bytes as f64 / seconds).into(),
                in_memory.into(),
            ]);
        }
        if let Some((bytes, seconds)) = ours.last() {
            report.verdict.push(format!(
                "{} in {} of memory: {}, {}.",
                units::bytes(*bytes as u64),
                units::bytes(memory_bytes),
                units::seconds(*seconds),
                Unit::BytesPerS.show(bytes / seconds)
            ));
        }
        let times = || ours.iter().chain(&plain).map(|point| point.1);
        let limit = memory_bytes as f64;
        let limit = vec![
            (limit, times().fold(f64::MAX, f64::min)),
            (limit, times().fold(0.0, f64::max)),
        ];
        section.charts.push(Chart {
            id: "sort-sizes".to_owned(),
            title: format!(
                "Time by size, with {} of memory",
                units::bytes(memory_bytes)
            ),
            x: Axis::new("data", Unit::Bytes).on(Scale::Log2),
            y: Axis::new("time", Unit::Seconds).on(Scale::Log10),
            series: vec![
                Series::new("outcore", ours),
                Series::new("in memory", plain),
                Series::reference("memory limit", limit),
            ],
            ..Chart::default()
        });
        section.tables.push(table);
        Ok(section)
    }
}

/// Sorts by key ranges, one per thread; needs the memory of the keys once more.
fn sort_with_threads(keys: &mut [u64], threads: usize) {
    let step = (keys.len() / (SAMPLES_PER_THREAD * threads)).max(1);
    let mut sample: Vec<u64> = keys.iter().copied().step_by(step).collect();
    sample.sort_unstable();
    let mut bounds: Vec<u64> = (1..threads)
        .filter_map(|at| sample.get(at * sample.len() / threads).copied())
        .collect();
    bounds.dedup();
    let all = &*keys;
    let ranges: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let sorting: Vec<_> = (0..=bounds.len())
            .map(|at| {
                let from = at.checked_sub(1).map_or(0, |before| bounds[before]);
                let to = bounds.get(at).copied();
                let sort = move || {
                    let is_in = |key: &u64| *key >= from && to.is_none_or(|to| *key < to);
                    let mut range: Vec<u64> = all.iter().copied().filter(is_in).collect();
                    range.voracious_sort();
                    range
                };
                // If the system has no thread for it, this thread does the work.
                spawn_scoped(scope, "outcore-bench", sort).map_err(|_| sort())
            })
            .collect();
        sorting
            .into_iter()
            .map(|started| match started {
                // Keys that a thread lost must not look sorted.
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(sorted) => sorted,
            })
            .collect()
    });
    let mut rest = keys;
    for range in &ranges {
        let (front, back) = std::mem::take(&mut rest).split_at_mut(range.len());
        front.copy_from_slice(range);
        rest = back;
    }
}

fn read_all(path: &Path, bytes: &mut [u8]) -> Result<()> {
    File::open(path)
        .and_then(|mut file| file.read_exact(bytes))
        .map_err(|error| Error::io(OPERATION, &error).path(path))
}

fn write_all(path: &Path, bytes: &[u8]) -> Result<()> {
    File::create(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(|error| match Error::io(OPERATION, &error).path(path) {
            error if error.kind() == Kind::NoSpace => error.hint("give a smaller --size"),
            error => error,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sort_in_memory_sorts() {
        let mut keys: Vec<u64> = (0..10_000_u64)
            .map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40)
            .collect();
        keys.extend([7; 5000]);
        let mut wanted = keys.clone();
        wanted.sort_unstable();
        for threads in [1, 2, 5] {
            let mut sorted = keys.clone();
            sort_with_threads(&mut sorted, threads);
            assert!(sorted == wanted, "{threads}");
        }
        sort_with_threads(&mut [], 4);
    }

    #[test]
    fn both_figures_are_made_and_the_line_in_memory_ends_at_the_limit() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let options = SortBenchOptions {
            dirs: dirs.iter().map(|dir| dir.path().to_path_buf()).collect(),
            data_bytes: 96 << 20,
            memory_bytes: 64 << 20,
            threads: 2,
            distributions: vec!["zipf:1.2".parse().unwrap()],
            io: IoMode::Auto,
        };
        let report = run(&options, Watch::none()).unwrap();
        let json = report.to_json();
        let row = &json["sections"][0]["tables"][0]["rows"][0];
        assert_eq!(row.as_array().unwrap().len(), 6);
        assert!(
            row[3].as_f64().unwrap() > 0.0 && row[4].as_f64().unwrap() > 0.0,
            "{row}"
        );
        let sizes = json["sections"][1]["tables"][0]["rows"].as_array().unwrap();
        let has_plain: Vec<bool> = sizes.iter().map(|row| row[4].is_number()).collect();
        assert_eq!(has_plain, [true, true, true, true, false]);
        for dir in &dirs {
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
}
