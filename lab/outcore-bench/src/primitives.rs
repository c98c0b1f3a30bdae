//! `outcore bench primitives`: map, filter, reduce, scan and shuffle by size.
//!
//! Contract: for each size, an input of uniform 64-bit numbers is generated on the drives, one
//! shard on each. It goes through every primitive with [`PrimitivesOptions::memory_bytes`] of
//! memory. The input and all outputs are then removed. A time covers the whole job, including the
//! sync and rename of the output.
//!
//! Source: PALID (Li, Khan, Dhulipala, SPAA 2025), Fig. 11 (time of the primitives against size).
//!
//! Bounds: three times the space of the largest data, on all drives together.

use std::path::PathBuf;
use std::time::Instant;

use outcore::IoMode;
use outcore::primitives::{Inclusion, Sequence, read, scan, sum, write};
use outcore::shuffle::{ShuffleOptions, Unit as ShuffleUnit, shuffle};
use outcore::{Error, Result};
use outcore_chart::{Axis, Chart, Scale, Series};
use outcore_gen::Distribution;
use outcore_io::units::{self, Unit};

use crate::bench_dirs::{BenchDirs, DirOptions, RECORD_BYTES, TYPE};
use crate::watch::Watch;
use outcore_report::{Cell, Column, Report, Section, Table};

const OPERATION: &str = "measure primitives";
const OUTPUT: &str = "output";
/// Sizes in quarters of the memory.
const QUARTERS: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Options of the measurement.
#[derive(Debug, Clone)]
pub struct PrimitivesOptions {
    /// A directory on each drive.
    pub dirs: Vec<PathBuf>,
    /// Bytes of the largest data; the smallest is a quarter of the memory.
    pub data_bytes_max: u64,
    /// Memory of each job.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Direct or buffered.
    pub io: IoMode,
}

/// The primitives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Primitive {
    Map,
    Filter,
    Reduce,
    Scan,
    Shuffle,
}

impl Primitive {
    const ALL: [Primitive; 5] = [
        Primitive::Map,
        Primitive::Filter,
        Primitive::Reduce,
        Primitive::Scan,
        Primitive::Shuffle,
    ];

    fn name(self) -> &'static str {
        match self {
            Primitive::Map => "map",
            Primitive::Filter => "filter",
            Primitive::Reduce => "reduce",
            Primitive::Scan => "scan",
            Primitive::Shuffle => "shuffle",
        }
    }

    /// Seconds of the primitive; the input must exist.
    fn run(self, bench_dirs: &BenchDirs<'_>) -> Result<f64> {
        let drives = bench_dirs.count();
        let (job, inputs) = (bench_dirs.job(drives), bench_dirs.inputs(drives));
        let numbers = read::<u64>(&inputs);
        let output = bench_dirs.output(drives, OUTPUT);
        let started = Instant::now();
        let done = bench_dirs.watch.over(&job, || match self {
            Primitive::Map => {
                let mapped = numbers.map(|x| x.wrapping_mul(3).wrapping_add(1));
                write(&job, &mapped, &output, true).map(|_| ())
            }
            Primitive::Filter => {
                let kept = numbers.filter(|x| x % 2 == 0);
                write(&job, &kept, &output, true).map(|_| ())
            }
            Primitive::Reduce => {
                std::hint::black_box(sum(&job, &numbers)?);
                Ok(())
            }
            Primitive::Scan => scan(
                &job,
                &numbers,
                0,
                u64::wrapping_add,
                Inclusion::Inclusive,
                &output,
                true,
            )
            .map(|_| ()),
            Primitive::Shuffle => {
                let options = ShuffleOptions {
                    unit: ShuffleUnit::Records {
                        record_bytes: RECORD_BYTES as usize,
                    },
                    seed: 1,
                    epoch: 0,
                    replace: true,
                };
                shuffle(&job, &inputs, output, options).map(|_| ())
            }
        });
        let seconds = started.elapsed().as_secs_f64();
        bench_dirs.remove(drives, OUTPUT);
        done.map(|()| seconds)
    }
}

/// Runs the measurement.
///
/// # Errors
/// Usage, no space, memory, errors of the drives, interrupted. Nothing is left behind.
pub fn run(options: &PrimitivesOptions, watch: Watch<'_>) -> Result<Report> {
    let started = Instant::now();
    let sizes_bytes = sizes_bytes(options)?;
    let dirs = DirOptions {
        dirs: &options.dirs,
        memory_bytes: options.memory_bytes,
        threads: options.threads,
        io: options.io,
    };
    let bench_dirs = BenchDirs::make(OPERATION, &dirs, watch)?;
    let drives = bench_dirs.count();
    let mut found = Vec::new();
    for data_bytes in sizes_bytes {
        let size = units::bytes(data_bytes);
        watch.say(&format!("{size}: generate"));
        bench_dirs.generate(drives, Distribution::Whole, data_bytes)?;
        let mut times = Vec::new();
        for primitive in Primitive::ALL {
            watch.say(&format!("{size}: {}", primitive.name()));
            times.push(primitive.run(&bench_dirs)?);
        }
        bench_dirs.remove_input(drives);
        found.push(Times {
            data_bytes: data_bytes as f64,
            seconds: times,
        });
    }
    let mut report = Report::new(
        "bench primitives",
        format!(
            "Primitives in {} of memory",
            units::bytes(options.memory_bytes)
        ),
    );
    report.option("type", TYPE);
    report.option("memory", units::bytes(options.memory_bytes));
    report.option("threads", options.threads.to_string());
    for dir in &options.dirs {
        report.option("drive", dir.display().to_string());
    }
    tell(&mut report, &found, options.memory_bytes as f64);
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

fn sizes_bytes(options: &PrimitivesOptions) -> Result<Vec<u64>> {
    let sizes = QUARTERS
        .iter()
        .map(|quarters| options.memory_bytes / 4 * quarters / RECORD_BYTES * RECORD_BYTES)
        .take_while(|bytes| *bytes <= options.data_bytes_max);
    let sizes: Vec<u64> = sizes.filter(|bytes| *bytes > 0).collect();
    match sizes.is_empty() {
        false => Ok(sizes),
        true => Err(Error::usage(
            OPERATION,
            "the largest size is less than a quarter of the memory",
        )
        .hint("give more --size, or less --memory")),
    }
}

/// How long the primitives took on one size of data.
struct Times {
    data_bytes: f64,
    /// The time of each primitive, in the order of [`Primitive::ALL`].
    seconds: Vec<f64>,
}

/// Adds tables and charts of the results.
fn tell(report: &mut Report, found: &[Times], memory_bytes: f64) {
    let last = found.last();
    for (at, primitive) in Primitive::ALL.iter().enumerate() {
        if let Some(Times {
            data_bytes,
            seconds,
        }) = last
        {
            let note = format!("of {}", units::bytes(*data_bytes as u64));
            let rate = data_bytes / seconds[at];
            report.headline(primitive.name(), rate, Unit::BytesPerS, note);
        }
    }
    let mut section = Section::new(
        "primitives",
        "Time and rate by size",
        "Uniform 64-bit numbers on all drives, from a quarter of the memory to many times as much. \
         Map, scan and shuffle write as much as they read, filter writes half of it, and reduce \
         writes nothing. A shuffle of more data than memory writes them to scratch once. PALID \
         Fig. 11.",
    );
    let seconds = Measure {
        id: "times",
        title: "Time by size",
        label: "time",
        unit: Unit::Seconds,
        scale: Scale::Log10,
        value: |_, seconds| seconds,
    };
    let rates = Measure {
        id: "rates",
        title: "Data per second by size",
        label: "rate",
        unit: Unit::BytesPerS,
        scale: Scale::Linear,
        value: |bytes, seconds| bytes / seconds,
    };
    for measure in [seconds, rates] {
        section.tables.push(measure.table(found, memory_bytes));
        section.charts.push(measure.chart(found, memory_bytes));
    }
    report.section(section);
}

/// A figure that is derived from the times.
struct Measure {
    id: &'static str,
    title: &'static str,
    label: &'static str,
    unit: Unit,
    scale: Scale,
    /// Computes the figure from bytes and seconds.
    value: fn(f64, f64) -> f64,
}

impl Measure {
    fn table(&self, found: &[Times], memory_bytes: f64) -> Table {
        let columns = [("data", Unit::Bytes), ("of memory", Unit::Times)];
        let mut table = Table::new(self.id, self.title, &columns);
        table
            .columns
            .extend(Primitive::ALL.iter().map(|primitive| Column {
                name: primitive.name().to_owned(),
                unit: self.unit,
            }));
        for times in found {
            let data_bytes = times.data_bytes;
            let mut row = vec![Cell::from(data_bytes), (data_bytes / memory_bytes).into()];
            let seconds = times.seconds.iter();
            row.extend(seconds.map(|seconds| Cell::from((self.value)(data_bytes, *seconds))));
            table.row(row);
        }
        table
    }

    fn chart(&self, found: &[Times], memory_bytes: f64) -> Chart {
        let series = Primitive::ALL.iter().enumerate().map(|(at, primitive)| {
            let points = found.iter().map(|times| {
                let data_bytes = times.data_bytes;
                (data_bytes, (self.value)(data_bytes, times.seconds[at]))
            });
            Series::new(primitive.name(), points.collect())
        });
        let mut series: Vec<Series> = series.collect();
        let values = || series.iter().flat_map(|line| &line.points).map(|p| p.1);
        let lowest = match self.scale {
            Scale::Linear => 0.0,
            Scale::Log2 | Scale::Log10 => values().fold(f64::MAX, f64::min),
        };
        let highest = values().fold(0.0, f64::max);
        let limit = vec![(memory_bytes, lowest), (memory_bytes, highest)];
        series.push(Series::reference("memory limit", limit));
        Chart {
            id: format!("primitives-{}", self.id),
            title: self.title.to_owned(),
            x: Axis::new("data", Unit::Bytes).on(Scale::Log2),
            y: Axis::new(self.label, self.unit).on(self.scale),
            series,
            ..Chart::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_primitive_is_measured_at_every_size_and_nothing_stays() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let options = PrimitivesOptions {
            dirs: dirs.iter().map(|dir| dir.path().to_path_buf()).collect(),
            data_bytes_max: 48 << 20,
            memory_bytes: 32 << 20,
            threads: 2,
            io: IoMode::Auto,
        };
        let report = run(&options, Watch::none()).unwrap();
        let json = report.to_json();
        for table in 0..2 {
            let rows = &json["sections"][0]["tables"][table]["rows"];
            let rows = rows.as_array().unwrap();
            assert_eq!(rows.len(), 3, "8, 16 and 32 MiB");
            for row in rows {
                let numbers = row.as_array().unwrap();
                assert_eq!(numbers.len(), 2 + Primitive::ALL.len());
                assert!(
                    numbers.iter().all(|number| number.as_f64().unwrap() > 0.0),
                    "{row}"
                );
            }
        }
        assert_eq!(report.charts().count(), 2);
        for dir in &dirs {
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        let small = PrimitivesOptions {
            data_bytes_max: 1 << 20,
            ..options
        };
        assert!(run(&small, Watch::none()).is_err());
    }
}
