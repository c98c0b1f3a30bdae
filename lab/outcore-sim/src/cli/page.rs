//! Reports of runs, sweeps and replays: figures, tables and charts for a page.
//!
//! Contract: pure, except for the date and the machine that every report has. All times are those
//! of the simulation.

use std::time::Instant;

use outcore_chart::{Axis, Chart, Series, Shape};
use outcore_io::units::{self, Unit};
use outcore_report::{Cell, Report, Section, Table};

use crate::array::ReplayReport;
use crate::drive::Done;
use crate::plot::{View, chart_of};
use crate::report::{FlowSummary, Summary};
use crate::sweep::show::chart_of as sweep_chart;
use crate::sweep::{Metric, Point};

const NS: f64 = 1e-9;
const US: f64 = 1e-6;

/// An option of the run, for the reader: its name, and its value as text.
pub(super) struct Given {
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl Given {
    pub(super) fn new(name: &'static str, value: String) -> Self {
        Given { name, value }
    }
}

/// The circumstances of a simulation: its options, and when it began.
pub(super) struct Asked {
    pub(super) options: Vec<Given>,
    pub(super) began: Instant,
}

fn begun(command: &str, title: String, asked: &Asked) -> Report {
    let mut report = Report::new(command, title);
    report.seconds = asked.began.elapsed().as_secs_f64();
    for option in asked
        .options
        .iter()
        .filter(|option| !option.value.is_empty())
    {
        report.option(option.name, option.value.as_str());
    }
    report
}

/// The page of `sim run`: one summary per scenario. `log` has the requests of all flows in the
/// order of `names`.
pub(super) fn of_run(
    summaries: &[Summary],
    names: &[String],
    log: &[Done],
    asked: &Asked,
) -> Report {
    let drive = summaries.first().map_or("a drive", |first| &first.drive);
    let mut report = begun("sim run", format!("{drive}, simulated"), asked);
    for summary in summaries {
        headlines(&mut report, &summary.total);
        report.verdict.extend(limits(summary));
    }
    let mut flows = Section::new(
        "flows",
        "Requests",
        "Each flow is a stream of requests. The response time is counted from the submission queue to the completion.",
    );
    let rows = summaries.iter().flat_map(|summary| {
        let total = (summary.flows.len() > 1).then_some(&summary.total);
        summary.flows.iter().chain(total)
    });
    flows.tables.push(table_of(rows));
    if !log.is_empty() {
        for (id, view) in [
            ("latency", View::Latency),
            ("response", View::Response),
            ("iops", View::Iops),
        ] {
            let chart = chart_of(drive, names, log, view);
            flows.charts.push(Chart {
                id: id.to_owned(),
                ..chart
            });
        }
    }
    report.section(flows);
    for summary in summaries {
        if !summary.namespaces.is_empty() || !summary.handles.is_empty() {
            report.section(parts(summary));
        }
        report.section(times(summary));
    }
    report
}

fn headlines(report: &mut Report, total: &FlowSummary) {
    let note = format!(
        "{} in {}",
        units::counted(total.requests, "request"),
        Unit::Seconds.show(total.rates_over_ns as f64 * NS)
    );
    report.headline("requests", total.iops, Unit::Iops, note);
    let note = "both directions together";
    report.headline("rate", total.bytes_per_s, Unit::BytesPerS, note);
    let note = "from the submission queue to the completion";
    report.headline(
        "mean response",
        total.mean_response_ns * NS,
        Unit::Seconds,
        note,
    );
    let p9999 = Unit::Seconds.show(total.p9999_response_ns as f64 * NS);
    report.headline(
        "p99 response",
        total.p99_response_ns as f64 * NS,
        Unit::Seconds,
        format!("p99.99 {p9999}"),
    );
}

/// Sentences about the limits of the run.
fn limits(summary: &Summary) -> Vec<String> {
    let used = &summary.breakdown.utilisation;
    let busiest = used.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let mut lines: Vec<String> = busiest
        .map(|(name, share)| {
            format!(
                "The busiest part: {name}, in use for {:.1} % of the time.",
                share * 100.0
            )
        })
        .into_iter()
        .collect();
    if summary.write_amplification > 1.0005 {
        lines.push(format!(
            "The flash programs {:.2} times what the host writes.",
            summary.write_amplification
        ));
    }
    lines
}

fn table_of<'a>(rows: impl Iterator<Item = &'a FlowSummary>) -> Table {
    let columns = [
        ("flow", Unit::Count),
        ("requests", Unit::Count),
        ("IOPS", Unit::Iops),
        ("rate", Unit::BytesPerS),
        ("mean", Unit::Seconds),
        ("p50", Unit::Seconds),
        ("p99", Unit::Seconds),
        ("p99.9", Unit::Seconds),
        ("p99.99", Unit::Seconds),
        ("longest", Unit::Seconds),
    ];
    let mut table = Table::new("flows", "Rates and response times", &columns);
    for flow in rows {
        let ns = |value: u64| Cell::from(value as f64 * NS);
        table.row([
            Cell::from(flow.name.as_str()),
            Cell::from(flow.requests as f64),
            Cell::from(flow.iops),
            Cell::from(flow.bytes_per_s),
            Cell::from(flow.mean_response_ns * NS),
            ns(flow.p50_response_ns),
            ns(flow.p99_response_ns),
            ns(flow.p999_response_ns),
            ns(flow.p9999_response_ns),
            ns(flow.max_response_ns),
        ]);
    }
    table
}

/// What was written to namespaces and with placement handles, and what was moved there.
fn parts(summary: &Summary) -> Section {
    let mut section = Section::new(
        "parts",
        "Namespaces and placement handles",
        "Collection moves data of a namespace, or from blocks of a placement handle. \
         Write amplification counts what is written to flash per unit of the host, without slots \
         that stay empty.",
    );
    for (id, what, parts) in [
        ("namespaces", "namespace", &summary.namespaces),
        ("handles", "placement handle", &summary.handles),
    ] {
        if parts.is_empty() {
            continue;
        }
        let columns = [
            (what, Unit::Count),
            ("written units", Unit::Count),
            ("moved units", Unit::Count),
            ("write amplification", Unit::Count),
        ];
        let mut table = Table::new(id, "Writes and moves", &columns);
        for part in parts {
            table.row([
                Cell::from(part.name.as_str()),
                Cell::from(part.host_units as f64),
                Cell::from(part.moved_units as f64),
                Cell::from(part.write_amplification),
            ]);
        }
        section.tables.push(table);
    }
    section
}

/// Where the time of a run goes, and how busy the parts of the drive are.
fn times(summary: &Summary) -> Section {
    let time = &summary.breakdown;
    let mut section = Section::new(
        "times",
        "Where the time goes",
        "Mean times: of the link, per request; all others, per flash operation of the host.",
    );
    let columns = [("part", Unit::Count), ("mean time", Unit::Seconds)];
    let mut parts = Table::new("times", "Mean times", &columns);
    for (part, ns) in [
        ("link", time.link_ns),
        ("queued for the die", time.wait_die_ns),
        ("waiting for the bus", time.wait_bus_ns),
        ("on the bus", time.bus_ns),
        ("in the flash array", time.array_ns),
    ] {
        parts.row([Cell::from(part), Cell::from(ns * NS)]);
    }
    section.tables.push(parts);
    let columns = [("resource", Unit::Count), ("used", Unit::Share)];
    let mut used = Table::new("used", "Use of the drive's parts", &columns);
    for (name, share) in &time.utilisation {
        used.row([Cell::from(*name), Cell::from(*share)]);
    }
    section.tables.push(used);
    section.charts.push(bars(
        "used",
        "Use of the drive's parts",
        time.utilisation.iter().map(|(name, share)| Part {
            name: (*name).to_owned(),
            value: *share,
        }),
        Unit::Share,
    ));
    section.notes.push(format!(
        "Garbage collection and wear levelling use {:.1} % of the dies' time. The run takes {:.3} J.",
        time.collection_share * 100.0,
        summary.energy_joules
    ));
    section
}

struct Part {
    name: String,
    value: f64,
}

fn bars(id: &str, title: &str, parts: impl Iterator<Item = Part>, unit: Unit) -> Chart {
    let parts: Vec<Part> = parts.collect();
    let values = parts.iter().enumerate();
    let points = values.map(|(at, part)| (at as f64, part.value)).collect();
    Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        x: Axis::of_names("", parts.iter().map(|part| part.name.clone()).collect()),
        y: Axis::new("", unit),
        series: vec![Series::new("", points)],
        shape: Shape::Bars,
    }
}

/// The page of `sim sweep`.
pub(super) fn of_sweep(drive: &str, points: &[Point], metric: Metric, asked: &Asked) -> Report {
    let mut report = begun("sim sweep", format!("{drive}, simulated"), asked);
    let mut section = Section::new(
        "points",
        "Points",
        "Each row is a run of its own, from the same start.",
    );
    let keys = points.first().map_or(&[][..], |point| &point.settings);
    let settings = keys
        .iter()
        .map(|setting| (setting.key.as_str(), Unit::Count));
    let figures = [
        ("IOPS", Unit::Iops),
        ("rate", Unit::BytesPerS),
        ("mean", Unit::Seconds),
        ("p99", Unit::Seconds),
        ("write amplification", Unit::Count),
    ];
    let columns: Vec<(&str, Unit)> = settings.chain(figures).collect();
    let mut table = Table::new("points", "Rates and response times", &columns);
    for point in points {
        let total = &point.summary.total;
        let settings = point.settings.iter();
        let settings = settings.map(|setting| Cell::from(setting.value.as_str()));
        table.row(settings.chain([
            Cell::from(total.iops),
            Cell::from(total.bytes_per_s),
            Cell::from(total.mean_response_ns * NS),
            Cell::from(total.p99_response_ns as f64 * NS),
            Cell::from(point.summary.write_amplification),
        ]));
    }
    section.tables.push(table);
    section.charts.push(Chart {
        id: "points".to_owned(),
        ..sweep_chart(points, metric)
    });
    report.section(section);
    report
}

/// The page of `sim replay`.
pub(super) fn of_replay(name: &str, replay: &ReplayReport, asked: &Asked) -> Report {
    let drives = units::counted(replay.drives.len() as u64, "simulated drive");
    let mut report = begun("sim replay", format!("{name} on {drives}"), asked);
    let moved = (replay.read_bytes + replay.write_bytes) as f64;
    let seconds = replay.seconds.max(1e-12);
    let note = units::counted(replay.requests, "request");
    report.headline("simulated time", replay.seconds, Unit::Seconds, note);
    report.headline(
        "rate",
        moved / seconds,
        Unit::BytesPerS,
        format!(
            "{} read, {} written",
            units::bytes(replay.read_bytes),
            units::bytes(replay.write_bytes)
        ),
    );
    let response = &replay.response_us;
    let note = format!("p99.99 {}", Unit::Seconds.show(response.p9999 * US));
    report.headline("p99 response", response.p99 * US, Unit::Seconds, note);
    report
        .verdict
        .push(format!("The limit: {}.", replay.bottleneck));
    let mut section = Section::new("responses", "Response times", "Times of whole requests.");
    let columns = [("percentile", Unit::Count), ("response", Unit::Seconds)];
    let mut table = Table::new("responses", "Response times", &columns);
    for (name, us) in [
        ("mean", response.mean),
        ("50 %", response.p50),
        ("99 %", response.p99),
        ("99.9 %", response.p999),
        ("99.99 %", response.p9999),
        ("longest", response.max),
    ] {
        table.row([Cell::from(name), Cell::from(us * US)]);
    }
    section.tables.push(table);
    section.notes.clone_from(&replay.warnings);
    report.section(section);
    report.section(drives_of(replay));
    report
}

fn drives_of(replay: &ReplayReport) -> Section {
    let mut section = Section::new(
        "drives",
        "Drives",
        "A drive is busy while it has a request. Its busiest resource shows what limits it.",
    );
    let columns = [
        ("drive", Unit::Count),
        ("moved", Unit::Bytes),
        ("busy", Unit::Share),
        ("mean response", Unit::Seconds),
        ("busiest resource", Unit::Count),
        ("used", Unit::Share),
        ("write amplification", Unit::Count),
    ];
    let mut table = Table::new("drives", "Drives", &columns);
    for (at, drive) in replay.drives.iter().enumerate() {
        table.row([
            Cell::from(at.to_string()),
            Cell::from(drive.bytes as f64),
            Cell::from(drive.busy),
            Cell::from(drive.mean_response_us * US),
            Cell::from(drive.resource.0.to_string()),
            Cell::from(drive.resource.1),
            Cell::from(drive.write_amplification),
        ]);
    }
    section.tables.push(table);
    let busy = replay.drives.iter().enumerate().map(|(at, drive)| Part {
        name: at.to_string(),
        value: drive.busy,
    });
    section.charts.push(bars(
        "busy",
        "Share of the time a drive is busy",
        busy,
        Unit::Share,
    ));
    section
}
