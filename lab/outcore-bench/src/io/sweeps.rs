//! Sweeps over block sizes, threads, depths and numbers of drives, with everything else fixed.
//!
//! Contract: every point is one measurement. A setting that the drives do not accept (512-byte
//! blocks on 4 KiB sectors) is shown as a dash. All results are kept for the verdict. Source: the
//! LLNL poster's tables with peak and speed-up; PALID Fig. 8a, 8b; Falcon Fig. 16, 18.

use std::cell::RefCell;

use outcore::Result;
use outcore_chart::{Axis, Chart, Scale, Series};
use outcore_io::drive::Op;
use outcore_io::units::Unit;

use super::field::{Field, Measured, Shot};
use super::{IoOptions, target::Target};
use outcore_report::{Cell, Section, Table};

/// Bytes of a random request, unless swept.
pub(super) const SMALL_BYTES: u64 = 4096;
/// Bytes of a sequential request, unless swept.
pub(super) const LARGE_BYTES: u64 = 1 << 20;
/// Requests in flight per drive, unless swept.
pub(super) const SMALL_DEPTH: u32 = 32;
pub(super) const LARGE_DEPTH: u32 = 8;

/// The drives, and the results so far.
pub(super) struct Sweep<'f, 'a> {
    field: &'f Field<'a>,
    is_full: bool,
    has_writes: bool,
    findings: RefCell<Vec<Measured>>,
}

impl<'f, 'a> Sweep<'f, 'a> {
    pub(super) fn new(options: &IoOptions, field: &'f Field<'a>) -> Self {
        Sweep {
            field,
            is_full: options.is_full,
            has_writes: field
                .targets
                .iter()
                .all(|target: &Target| target.is_writable),
            findings: RefCell::new(Vec::new()),
        }
    }

    /// All results.
    pub(super) fn into_findings(self) -> Vec<Measured> {
        self.findings.into_inner()
    }

    fn measure(&self, shot: Shot) -> Result<Option<Measured>> {
        let what = format!(
            "{}, {}, {} in flight, {} thread{}, {} drive{}",
            shot.name(),
            Unit::Bytes.show(shot.block_bytes as f64),
            shot.depth,
            shot.threads,
            plural(shot.threads as usize),
            shot.drives,
            plural(shot.drives)
        );
        self.field.watch().say(&what);
        let measured = self.field.measure(shot)?;
        if let Some(measured) = &measured {
            self.findings.borrow_mut().push(measured.clone());
        }
        Ok(measured)
    }

    fn patterns(&self) -> Vec<(Op, bool)> {
        let mut patterns = vec![(Op::Read, false), (Op::Read, true)];
        if self.has_writes {
            patterns.extend([(Op::Write, false), (Op::Write, true)]);
        }
        patterns
    }

    /// Rates of reads and writes by block size, on all drives from one thread.
    pub(super) fn block_sizes(&self) -> Result<Section> {
        let mut section = Section::new(
            "blocks",
            "Block sizes",
            "All drives from one thread, 8 requests in flight on each for sequential and 32 for \
             random ones. After the LLNL poster's block transfers.",
        );
        let every = if self.is_full { 1 } else { 2 };
        let blocks: Vec<u64> = (9..=24)
            .step_by(every)
            .chain([24])
            .map(|power| 1 << power)
            .collect();
        let mut blocks = blocks;
        blocks.dedup();
        if !blocks.contains(&SMALL_BYTES) {
            blocks.push(SMALL_BYTES);
            blocks.sort_unstable();
        }
        let patterns = self.patterns();
        let mut table = Table::new("blocks", "Rate by block size", &[("block", Unit::Bytes)]);
        let mut iops = Table::new(
            "blocks-iops",
            "Requests per second by block size",
            &[("block", Unit::Bytes)],
        );
        let mut lines: Vec<Series> = Vec::new();
        for (op, is_random) in &patterns {
            let name = Shot::new(*op, *is_random, 1, 1, 1).name();
            add_column(&mut table, name, Unit::BytesPerS);
            add_column(&mut iops, name, Unit::Iops);
            lines.push(Series::new(name, Vec::new()));
        }
        for block_bytes in blocks {
            let mut row = vec![Cell::from(block_bytes as f64)];
            let mut iops_row = row.clone();
            for ((op, is_random), line) in patterns.iter().zip(&mut lines) {
                let depth = if *is_random { SMALL_DEPTH } else { LARGE_DEPTH };
                let shot = Shot::new(*op, *is_random, block_bytes, depth, self.drives());
                let measured = self.measure(shot)?;
                let rate = measured.as_ref().map(|m| m.moved.bytes_per_s());
                line.points
                    .extend(rate.map(|rate| (block_bytes as f64, rate)));
                row.push(rate.into());
                iops_row.push(measured.map(|m| m.moved.requests_per_s()).into());
            }
            table.row(row);
            iops.row(iops_row);
        }
        let mut peak = vec![Cell::from("peak")];
        peak.extend(lines.iter().map(|line| Cell::from(highest(line))));
        table.row(peak);
        section.charts.push(Chart {
            id: "blocks".to_owned(),
            title: "Rate by block size".to_owned(),
            x: Axis::new("block", Unit::Bytes).on(Scale::Log2),
            y: Axis::new("all drives together", Unit::BytesPerS),
            series: lines,
            ..Chart::default()
        });
        section.tables.extend([table, iops]);
        Ok(section)
    }

    /// The poster's matrix: each pattern with each number of threads, by block size.
    pub(super) fn matrix(&self) -> Result<Section> {
        let mut section = Section::new(
            "matrix",
            "Threads, block size and pattern",
            "All drives, by pattern, number of threads and block size: 8 requests in flight per thread \
             and drive for sequential and 32 for random ones. After the LLNL poster's matrix.",
        );
        let (threads, powers): (&[u32], &[u32]) = match self.is_full {
            true => (&[1, 4, 16], &[12, 14, 16, 18, 20, 22]),
            false => (&[1, 4], &[12, 16, 20]),
        };
        let title = "Rate by pattern, threads and block size";
        let mut table = Table::new("matrix", title, &[("pattern", Unit::Count)]);
        table.is_map = true;
        let blocks = powers.iter().map(|power| 1u64 << power);
        for block_bytes in blocks.clone() {
            let name = Unit::Bytes.show(block_bytes as f64);
            add_column(&mut table, &name, Unit::BytesPerS);
        }
        let mut lines = Vec::new();
        for (op, is_random) in self.patterns() {
            let depth = if is_random { SMALL_DEPTH } else { LARGE_DEPTH };
            for count in threads {
                let pattern = Shot::new(op, is_random, 1, 1, 1).name();
                let name = format!("{pattern}, {count} thread{}", plural(*count as usize));
                let mut row = vec![Cell::from(name.as_str())];
                let mut points = Vec::new();
                for block_bytes in blocks.clone() {
                    let measured = self.measure(Shot {
                        threads: *count,
                        ..Shot::new(op, is_random, block_bytes, depth, self.drives())
                    })?;
                    let rate = measured.map(|m| m.moved.bytes_per_s());
                    points.extend(rate.map(|rate| (block_bytes as f64, rate)));
                    row.push(rate.into());
                }
                lines.push(Series::new(name, points));
                table.row(row);
            }
        }
        section.charts.push(Chart {
            id: "matrix".to_owned(),
            title: title.to_owned(),
            x: Axis::new("block", Unit::Bytes).on(Scale::Log2),
            y: Axis::new("all drives together", Unit::BytesPerS),
            series: lines,
            ..Chart::default()
        });
        section.tables.push(table);
        Ok(section)
    }

    /// The poster's table: threads as rows, depths as columns, with peak and speed-up.
    pub(super) fn threads_and_depths(&self) -> Result<Section> {
        let mut section = Section::new(
            "depths",
            "Threads and depth",
            "Random requests of 4 KiB and sequential requests of 1 MiB, by number of threads and queue \
             depth (per thread and drive). The speed-up compares the peak with one thread at queue \
             depth 1, as in the LLNL poster.",
        );
        let (threads, depths): (&[u32], &[u32]) = match self.is_full {
            true => (
                &[1, 2, 4, 8, 16, 32, 64],
                &[1, 2, 4, 8, 16, 32, 64, 128, 256],
            ),
            false => (&[1, 2, 4], &[1, 4, 16, 64, 128]),
        };
        let large_depths: &[u32] = if self.is_full {
            &[1, 2, 4, 8, 16, 32]
        } else {
            &[1, 4, 16]
        };
        let large_threads: &[u32] = if self.is_full { threads } else { &[1, 2] };
        let ops: &[Op] = if self.has_writes {
            &[Op::Read, Op::Write]
        } else {
            &[Op::Read]
        };
        for op in ops {
            let shot = Shot::new(*op, true, SMALL_BYTES, 1, self.drives());
            let is_write = *op == Op::Write;
            // Without time for more, writes are swept only by depth.
            let threads = if is_write && !self.is_full {
                &threads[..1]
            } else {
                threads
            };
            self.threads_by_depths(&mut section, shot, threads, depths)?;
            let shot = Shot::new(*op, false, LARGE_BYTES, 1, self.drives());
            let threads = if is_write && !self.is_full {
                &large_threads[..1]
            } else {
                large_threads
            };
            self.threads_by_depths(&mut section, shot, threads, large_depths)?;
        }
        Ok(section)
    }

    fn threads_by_depths(
        &self,
        section: &mut Section,
        shot: Shot,
        threads: &[u32],
        depths: &[u32],
    ) -> Result<()> {
        let name = shot.name();
        let unit = if shot.is_random {
            Unit::Iops
        } else {
            Unit::BytesPerS
        };
        let what = if shot.is_random {
            "requests per second"
        } else {
            "rate"
        };
        let id = format!("depths-{}", name.replace(' ', "-"));
        let block = Unit::Bytes.show(shot.block_bytes as f64);
        let title = format!("{name} of {block}: {what} by depth");
        let mut table = Table::new(&id, &title, &[("threads", Unit::Count)]);
        table.is_map = true;
        for depth in depths {
            add_column(&mut table, &format!("{depth} in flight"), unit);
        }
        add_column(&mut table, "peak", unit);
        add_column(&mut table, "speed-up", Unit::Count);
        let mut lines = Vec::new();
        let mut base = None;
        for count in threads {
            let mut row = vec![Cell::from(f64::from(*count))];
            let mut points = Vec::new();
            for depth in depths {
                let measured = self.measure(Shot {
                    depth: *depth,
                    threads: *count,
                    ..shot
                })?;
                let value = measured.map(|m| match shot.is_random {
                    true => m.moved.requests_per_s(),
                    false => m.moved.bytes_per_s(),
                });
                points.extend(value.map(|value| (f64::from(*depth), value)));
                row.push(value.into());
            }
            base = base.or(points.first().map(|point| point.1));
            let name = format!("{count} thread{}", plural(*count as usize));
            let line = Series::new(name, points);
            let peak = highest(&line);
            lines.push(line);
            row.push(peak.into());
            row.push(Cell::Other(peak / base.unwrap_or(f64::NAN), Unit::Times));
            table.row(row);
        }
        section.charts.push(Chart {
            id,
            title: format!("{name}, {block}"),
            x: Axis::new("queue depth, per thread and drive", Unit::Count).on(Scale::Log2),
            y: Axis::new(what, unit),
            series: lines,
            ..Chart::default()
        });
        section.tables.push(table);
        Ok(())
    }

    /// PALID's streamer, writer and random reader against the number of drives.
    pub(super) fn numbers_of_drives(&self) -> Result<Section> {
        let mut section = Section::new(
            "drives",
            "Number of drives",
            "One thread serves all drives: the streamer reads 4 MiB blocks in order, the writer \
             writes them, the random reader reads 4 KiB. Ideal is the rate of the first drive \
             times the number of drives. PALID Fig. 8a, 8b; Falcon Fig. 16, 18.",
        );
        let all = self.drives();
        let mut counts: Vec<usize> = match self.is_full || all <= 4 {
            true => (1..=all).collect(),
            false => (0..)
                .map(|power| 1 << power)
                .take_while(|count| *count < all)
                .collect(),
        };
        if counts.last() != Some(&all) {
            counts.push(all);
        }
        let mut kinds = vec![
            ("streamer", Op::Read, false),
            ("random reader", Op::Read, true),
        ];
        if self.has_writes {
            kinds.insert(1, ("writer", Op::Write, false));
        }
        let mut table = Table::new("drives", "By number of drives", &[("drives", Unit::Count)]);
        for (name, _, is_random) in &kinds {
            let unit = if *is_random {
                Unit::Iops
            } else {
                Unit::BytesPerS
            };
            add_column(&mut table, name, unit);
            add_column(&mut table, "of ideal", Unit::Share);
        }
        let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new(); kinds.len()];
        for count in counts {
            let mut row = vec![Cell::from(count as f64)];
            for ((_, op, is_random), line) in kinds.iter().zip(&mut lines) {
                let (block_bytes, depth) = match is_random {
                    true => (SMALL_BYTES, SMALL_DEPTH),
                    false => (4 << 20, 4),
                };
                let measured =
                    self.measure(Shot::new(*op, *is_random, block_bytes, depth, count))?;
                let value = measured.map(|m| match is_random {
                    true => m.moved.requests_per_s(),
                    false => m.moved.bytes_per_s(),
                });
                line.extend(value.map(|value| (count as f64, value)));
                let ideal = line.first().map(|first| first.1 * count as f64 / first.0);
                row.push(value.into());
                row.push(value.zip(ideal).map(|(value, ideal)| value / ideal).into());
            }
            table.row(row);
        }
        let chart = |id: &str, title: &str, unit: Unit, is_random: bool| {
            let mut series = Vec::new();
            for ((name, _, random), line) in kinds.iter().zip(&lines) {
                if *random != is_random {
                    continue;
                }
                let ideal = line.first().map(|first| {
                    line.iter()
                        .map(|p| (p.0, first.1 * p.0 / first.0))
                        .collect()
                });
                series.push(Series::new(*name, line.clone()));
                series.push(Series::reference(
                    format!("ideal {name}"),
                    ideal.unwrap_or_default(),
                ));
            }
            Chart {
                id: id.to_owned(),
                title: title.to_owned(),
                x: Axis::new("drives", Unit::Count),
                y: Axis::new("together", unit),
                series,
                ..Chart::default()
            }
        };
        if all > 1 {
            section
                .charts
                .push(chart("drives-rate", "Bandwidth", Unit::BytesPerS, false));
            section.charts.push(chart(
                "drives-iops",
                "Random reads of 4 KiB",
                Unit::Iops,
                true,
            ));
        } else {
            section
                .notes
                .push("One drive was named; with several, this shows how they scale.".to_owned());
        }
        section.tables.push(table);
        Ok(section)
    }

    fn drives(&self) -> usize {
        self.field.targets.len()
    }
}

pub(super) fn add_column(table: &mut Table, name: &str, unit: Unit) {
    table.columns.push(outcore_report::Column {
        name: name.to_owned(),
        unit,
    });
}

/// The highest value of a line.
pub(super) fn highest(line: &Series) -> f64 {
    let values = line.points.iter().map(|point| point.1);
    values.fold(f64::NAN, f64::max)
}

pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
