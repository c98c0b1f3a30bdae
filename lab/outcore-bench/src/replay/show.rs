//! The report of a replay.
//!
//! Contract: pure. The report holds a summary of the trace (the columns of Table 2 in Falcon,
//! USENIX ATC 2017), the changes that made it fit these drives, rates and latencies of each drive,
//! and requests per second over time.

use hdrhistogram::Histogram;
use outcore_chart::{Axis, Chart, Series, Shape};
use outcore_io::units::{self, Unit};
use outcore_store::batch::DriveMeter;
use outcore_traces::adapt::Changes;

use super::array::Array;
use super::{Outcome, ReplayOptions, Speed};
use crate::io::target::Target;
use outcore_report::{Cell, Report, Section, Table};

pub(super) fn report(
    options: &ReplayOptions,
    targets: &[Target],
    array: &Array,
    outcome: &Outcome,
) -> Report {
    let name = options
        .trace
        .file_name()
        .unwrap_or(options.trace.as_os_str());
    let name = name.to_string_lossy().into_owned();
    let mut report = Report::new("replay", format!("{name} on {}", drives_text(targets)));
    let seconds = outcome.seconds.max(1e-9);
    let bytes = array.bytes;
    let mut all = array.read_ns.clone();
    for more in [&array.write_ns, &array.flush_ns, &array.trim_ns] {
        let _ = all.add(more);
    }
    let requests = all.len();
    let quantile = |q: f64| seconds_at(&all, q);
    let iops = requests as f64 / seconds;
    report.headline(
        "requests",
        iops,
        Unit::Iops,
        format!(
            "{} per second, {} in total",
            Unit::Iops.show(iops),
            units::count(requests)
        ),
    );
    report.headline(
        "rate",
        bytes as f64 / seconds,
        Unit::BytesPerS,
        format!("{} moved", units::bytes(bytes)),
    );
    report.headline(
        "median latency",
        quantile(0.5),
        Unit::Seconds,
        latency_note(options),
    );
    report.headline(
        "p99 latency",
        quantile(0.99),
        Unit::Seconds,
        format!("p99.9 {}", Unit::Seconds.show(quantile(0.999))),
    );
    facts(options, array, outcome, &mut report);
    report.section(drives(targets, array, seconds));
    report.section(timeline(outcome));
    report.section(trace(&name, array, outcome));
    report
}

fn drives_text(targets: &[Target]) -> String {
    match targets {
        [one] => one.name.clone(),
        many => format!("{} drives", many.len()),
    }
}

fn latency_note(options: &ReplayOptions) -> &'static str {
    match options.speed {
        Speed::Max => "from submission to completion",
        Speed::Times(_) => "from when it was due to its completion",
    }
}

fn facts(options: &ReplayOptions, array: &Array, outcome: &Outcome, report: &mut Report) {
    report.option(
        "speed",
        match options.speed {
            Speed::Max => "as fast as the drives answer".to_owned(),
            Speed::Times(times) => format!("{} that of the trace", Unit::Times.show(times)),
        },
    );
    if let Some(depth) = options.depth {
        report.option("in flight at most", depth.to_string());
    }
    report.option("stripe", units::bytes(options.stripe_bytes));
    report.option("pieces at most", units::bytes(options.request_bytes_max));
    let changes = &outcome.changes;
    report.verdict.push(adapted(changes));
    if changes.widened_writes > 0 {
        report.verdict.push(format!(
            "{} writes were not aligned to 4 KiB; each became a read and a write of its blocks.",
            changes.widened_writes
        ));
    }
    if array.refused_trims > 0 {
        report.verdict.push(format!(
            "{} trims were left out because the drives do not support them.",
            array.refused_trims
        ));
    }
    if let Some(behind) = &outcome.behind {
        report.verdict.push(format!(
            "The drives could not keep up: {:.0} overdue requests were waiting on average in the last third of \
             the time, {:.0} in the first, {} at most; the last request completed {} after it was due. \
             Latency counts from when a request was due.",
            behind.last,
            behind.first,
            units::count(behind.most),
            units::seconds(behind.tail_s),
        ));
    } else if outcome.late > 0 {
        report.verdict.push(format!(
            "{} requests were released more than 1 ms after they were due. The drives kept up; this machine \
             was too slow to release them in time. Latency counts from when a request was due.",
            units::count(outcome.late)
        ));
    }
    if let Some(response) = &outcome.summary.response {
        report
            .verdict
            .push(format!("Response times in the trace: {response}."));
    }
    for note in &outcome.summary.notes {
        report.verdict.push(format!("{note}."));
    }
    let skipped = &outcome.summary.skipped;
    if skipped.total() > 0 {
        report
            .verdict
            .push(format!("Lines that could not be read: {skipped}."));
    }
}

/// The changes as a sentence, without those that did not occur.
fn adapted(changes: &Changes) -> String {
    let (taken, given) = (units::count(changes.taken), units::count(changes.given));
    let mut sentence = match changes.taken == changes.given {
        true => format!("All {taken} requests of the trace were replayed."),
        false => format!("The {taken} requests of the trace were replayed as {given}."),
    };
    let changed: Vec<String> = [
        (
            changes.mapped,
            "had offsets beyond the volume and were remapped",
        ),
        (
            changes.widened_reads + changes.widened_writes,
            "were widened to blocks of 4 KiB",
        ),
        (changes.split, "were split"),
        (changes.cut, "were cut off at the end of the volume"),
        (changes.dropped, "were dropped because they were empty"),
        (changes.early, "had times before that of the first request"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{} {what}", units::count(count)))
    .collect();
    if !changed.is_empty() {
        sentence.push_str(&format!(" Of these, {}.", changed.join("; ")));
    }
    if changes.widened_bytes > 0 {
        let more = units::bytes(changes.widened_bytes);
        sentence.push_str(&format!(" Widening added {more}."));
    }
    sentence
}

fn seconds_at(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e9
}

/// Completed whole requests by kind.
fn whole_requests(array: &Array, seconds: f64) -> Table {
    let mut table = Table::new(
        "requests",
        "Whole requests",
        &[
            ("requests", Unit::Count),
            ("count", Unit::Count),
            ("a second", Unit::Iops),
            ("mean", Unit::Seconds),
            ("p50", Unit::Seconds),
            ("p90", Unit::Seconds),
            ("p99", Unit::Seconds),
            ("p99.9", Unit::Seconds),
            ("max", Unit::Seconds),
        ],
    );
    for ((name, histogram), longest_ns) in [
        ("reads", &array.read_ns),
        ("writes", &array.write_ns),
        ("flushes", &array.flush_ns),
        ("trims", &array.trim_ns),
    ]
    .into_iter()
    .zip(array.longest_ns)
    {
        if histogram.is_empty() {
            continue;
        }
        let mut row = vec![
            Cell::from(name),
            (histogram.len() as f64).into(),
            (histogram.len() as f64 / seconds).into(),
            (histogram.mean() / 1e9).into(),
        ];
        row.extend([0.5, 0.9, 0.99, 0.999].map(|q| Cell::from(seconds_at(histogram, q))));
        row.push((longest_ns as f64 / 1e9).into());
        table.row(row);
    }
    table
}

fn drives(targets: &[Target], array: &Array, seconds: f64) -> Section {
    let mut section = Section::new(
        "drives",
        "Requests and drives",
        "The latency of a whole request runs from its release (in an open loop from when it was due) to \
         its completion. By drive, submission latency runs from submission to the start of a transfer \
         and device latency from there to its end. One request may become transfers on several drives, \
         and adjacent requests may become one transfer.",
    );
    section.tables.push(whole_requests(array, seconds));
    let mut table = Table::new(
        "drives",
        "By drive",
        &[
            ("drive", Unit::Count),
            ("IOPS", Unit::Iops),
            ("read", Unit::BytesPerS),
            ("written", Unit::BytesPerS),
            ("most in flight", Unit::Count),
            ("submission p50", Unit::Seconds),
            ("submission p99", Unit::Seconds),
            ("device p50", Unit::Seconds),
            ("device p90", Unit::Seconds),
            ("device p99", Unit::Seconds),
            ("device p99.9", Unit::Seconds),
            ("device max", Unit::Seconds),
        ],
    );
    let of = |meter: &DriveMeter, percent: f64| meter.device.percentile_ns(percent) as f64 / 1e9;
    let stack = |meter: &DriveMeter, percent: f64| meter.stack.percentile_ns(percent) as f64 / 1e9;
    let mut series = [
        Series::new("median", Vec::new()),
        Series::new("p99", Vec::new()),
    ];
    for (at, (target, meter)) in targets.iter().zip(array.meters()).enumerate() {
        let mut row = vec![
            Cell::from(target.name.as_str()),
            (meter.transfers as f64 / seconds).into(),
            (meter.read_bytes as f64 / seconds).into(),
            (meter.written_bytes as f64 / seconds).into(),
            (meter.depth_max as f64).into(),
            stack(meter, 50.0).into(),
            stack(meter, 99.0).into(),
        ];
        row.extend([50.0, 90.0, 99.0, 99.9].map(|percent| Cell::from(of(meter, percent))));
        row.push((meter.device.max_ns() as f64 / 1e9).into());
        table.row(row);
        series[0].points.push((at as f64, of(meter, 50.0)));
        series[1].points.push((at as f64, of(meter, 99.0)));
    }
    section.tables.push(table);
    if targets.len() > 1 {
        section.charts.push(Chart {
            id: "drives".to_owned(),
            title: "Device latency by drive".to_owned(),
            x: Axis::of_names(
                "",
                targets.iter().map(|target| target.name.clone()).collect(),
            ),
            y: Axis::new("latency", Unit::Seconds),
            shape: Shape::Bars,
            series: series.to_vec(),
        });
    }
    section
}

fn timeline(outcome: &Outcome) -> Section {
    let mut section = Section::new("timeline", "Over time", "Requests completed per second.");
    let (part_s, counts) = &outcome.timeline;
    if counts.len() > 1 {
        let points = counts.iter().enumerate();
        let points = points.map(|(at, count)| (at as f64 * part_s, *count as f64 / part_s));
        section.charts.push(Chart {
            id: "timeline".to_owned(),
            title: "Requests per second".to_owned(),
            x: Axis::new("time", Unit::Seconds),
            y: Axis::new("requests per second", Unit::Iops),
            series: vec![Series::new("requests", points.collect())],
            ..Chart::default()
        });
    }
    section
}

fn trace(name: &str, array: &Array, outcome: &Outcome) -> Section {
    let summary = &outcome.summary;
    let mut section = Section::new(
        "trace",
        "The trace",
        "The trace as it was recorded. The first columns are those of Table 2 in Falcon (USENIX ATC 2017).",
    );
    let mut table = Table::new(
        "trace",
        "Trace summary",
        &[
            ("trace", Unit::Count),
            ("read", Unit::Share),
            ("smallest", Unit::Bytes),
            ("largest", Unit::Bytes),
            ("data", Unit::Bytes),
            ("requests", Unit::Count),
            ("duration", Unit::Seconds),
            ("footprint", Unit::Bytes),
            ("devices", Unit::Count),
            ("skipped lines", Unit::Count),
        ],
    );
    table.row([
        Cell::from(name),
        (summary.read_percent / 100.0).into(),
        (summary.size_min_bytes as f64).into(),
        (summary.size_max_bytes as f64).into(),
        (summary.data_bytes() as f64).into(),
        (summary.requests as f64).into(),
        (summary.duration_ns() as f64 / 1e9).into(),
        (summary.footprint_bytes as f64).into(),
        (summary.devices as f64).into(),
        (summary.skipped.total() as f64).into(),
    ]);
    section.tables.push(table);
    let changes = &outcome.changes;
    let mut table = Table::new(
        "changes",
        "What was changed to fit",
        &[("change", Unit::Count), ("requests", Unit::Count)],
    );
    for (what, count) in [
        ("taken from the trace", changes.taken),
        ("given to the drives", changes.given),
        ("reads widened to 4 KiB", changes.widened_reads),
        (
            "writes widened to 4 KiB, read first",
            changes.widened_writes,
        ),
        ("split", changes.split),
        ("remapped into the volume", changes.mapped),
        ("cut to the volume", changes.cut),
        ("dropped as empty", changes.dropped),
        ("trims that the drives do not take", array.refused_trims),
        ("earlier than the first", changes.early),
        ("released late", outcome.late),
        ("reads of widened writes", array.extra_reads),
    ] {
        table.row([Cell::from(what), (count as f64).into()]);
    }
    section.tables.push(table);
    for place in summary.skipped.places() {
        section.notes.push(format!("skipped: {place}"));
    }
    section
}
