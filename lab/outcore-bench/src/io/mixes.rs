//! Writes through the page cache compared with direct ones, and the request mixes of three servers.
//!
//! Contract: runs only if writing is allowed on all drives, buffered writes only in directories;
//! otherwise the sections are empty. Every time includes the sync at its end, so that data that
//! only reached the page cache does not count as written. The written stretch is at most 128 MiB
//! per drive, so that this sync stays short. Source: Falcon Fig. 15 (buffered writes) and Fig. 19
//! (Filebench: fileserver, webserver, webproxy).

use std::sync::Arc;

use outcore::IoMode;
use outcore::Result;
use outcore_chart::{Axis, Chart, Series, Shape};
use outcore_io::drive::load::FileRange;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::{Device, Op};
use outcore_io::units::Unit;

use super::field::{Field, Measured, Shot};
use super::sweeps::{LARGE_BYTES, SMALL_BYTES};
use super::target::{Target, Whose};
use super::{IoOptions, LOAD_COLUMNS, load_row};
use outcore_report::{Cell, Section, Table};

const STRETCH_BYTES: u64 = 128 << 20;
/// Filebench's personalities as requests: name, share of reads, bytes per request, requests in
/// flight in total.
const SERVERS: [(&str, f64, u64, u32); 3] = [
    // One file of 128 KiB written, one appended to, one read.
    ("fileserver", 1.0 / 3.0, 128 << 10, 50),
    // Ten files of 16 KiB read, one log appended to.
    ("webserver", 10.0 / 11.0, 16 << 10, 100),
    // One file of 16 KiB written, five read.
    ("webproxy", 5.0 / 6.0, 16 << 10, 100),
];

fn may_write(options: &IoOptions, field: &Field<'_>) -> bool {
    options.is_write_ok && field.targets.iter().all(|target| target.is_writable)
}

/// Files that stay open on a device during the lifetime of this value.
struct Opened {
    device: Arc<dyn Device>,
    places: Vec<FileRange>,
}

impl Opened {
    fn all(field: &Field<'_>, io: IoMode) -> Result<Self> {
        let mut opened = Opened {
            device: Arc::new(OsDevice::new(io)),
            places: Vec::new(),
        };
        for target in field.targets {
            let file = target.open_with(&*opened.device)?;
            opened.places.push(FileRange {
                file,
                span_bytes: target.place.span_bytes.min(STRETCH_BYTES),
                ..target.place
            });
        }
        Ok(opened)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        for place in &self.places {
            self.device.close(place.file);
        }
    }
}

/// Writes of three sizes, direct and through the page cache.
pub(super) fn buffered_beside_direct(options: &IoOptions, field: &Field<'_>) -> Result<Section> {
    let mut section = Section::new(
        "buffered",
        "Buffered compared with direct",
        "The same writes past the page cache and through it, with one thread and 16 writes in flight \
         on each drive, over at most 128 MiB per drive. The sync at the end is included. Falcon Fig. 15.",
    );
    // A device that we have open for writing is opened exclusively, so it cannot be opened again as
    // buffered.
    let is_own = |target: &Target| target.whose == Whose::Own;
    if !may_write(options, field) || !field.targets.iter().all(is_own) {
        return Ok(section);
    }
    let modes = [IoMode::Auto, IoMode::Buffered];
    let opened = match field.is_rehearsal() {
        true => Vec::new(),
        false => {
            let opened = modes.iter().map(|io| Opened::all(field, *io));
            opened.collect::<Result<Vec<Opened>>>()?
        }
    };
    let mut table = Table::new(
        "buffered",
        "Writes",
        &[
            ("writes", Unit::Count),
            ("direct", Unit::BytesPerS),
            ("buffered", Unit::BytesPerS),
            ("direct over buffered", Unit::Times),
            ("CPU us/request, direct", Unit::Count),
            ("CPU us/request, buffered", Unit::Count),
        ],
    );
    let mut names = Vec::new();
    let mut series = vec![
        Series::new("direct", Vec::new()),
        Series::new("buffered", Vec::new()),
    ];
    for (is_random, block_bytes) in [(true, SMALL_BYTES), (true, 64 << 10), (false, LARGE_BYTES)] {
        let shot = Shot::new(Op::Write, is_random, block_bytes, 16, field.targets.len());
        let name = format!("{}, {}", shot.name(), Unit::Bytes.show(block_bytes as f64));
        field.watch().say(&format!("direct and buffered: {name}"));
        let mut both: Vec<Option<Measured>> = Vec::new();
        for (at, line) in series.iter_mut().enumerate() {
            let measured = match (field.step(), opened.get(at)) {
                (true, Some(opened)) => field.measure_on(&opened.device, &opened.places, shot)?,
                _ => None,
            };
            let rate = measured.as_ref().map(|m| m.moved.bytes_per_s());
            line.points
                .extend(rate.map(|rate| (names.len() as f64, rate)));
            both.push(measured);
        }
        let rate = |at: usize| Some(both[at].as_ref()?.moved.bytes_per_s());
        let cpu = |at: usize| both[at].as_ref()?.cpu_us_per_request();
        let ratio = rate(0)
            .zip(rate(1))
            .map(|(direct, buffered)| direct / buffered);
        table.row([
            Cell::from(name.as_str()),
            rate(0).into(),
            rate(1).into(),
            ratio.into(),
            cpu(0).into(),
            cpu(1).into(),
        ]);
        names.push(name);
    }
    section.charts.push(Chart {
        id: "buffered".to_owned(),
        title: "Direct and buffered writes".to_owned(),
        x: Axis::of_names("", names),
        y: Axis::new("rate, sync included", Unit::BytesPerS),
        shape: Shape::Bars,
        series,
    });
    section.tables.push(table);
    Ok(section)
}

/// The request mixes of Filebench's servers.
pub(super) fn filebench(options: &IoOptions, field: &Field<'_>) -> Result<Section> {
    let mut section = Section::new(
        "mixes",
        "Mixes of requests",
        "Reads and writes at random places in the proportions, sizes and numbers in flight of \
         Filebench's fileserver, webserver and webproxy, from one thread. They are the requests of \
         these servers without their files, and so also run on devices.",
    );
    if !may_write(options, field) {
        return Ok(section);
    }
    let mut table = Table::new("mixes", "Mixes", &LOAD_COLUMNS);
    let mut line = Vec::new();
    for (at, (name, read_share, block_bytes, in_flight)) in SERVERS.into_iter().enumerate() {
        let drives = field.targets.len();
        let shot = Shot {
            read_share,
            depth: in_flight.div_ceil(drives as u32),
            ..Shot::new(Op::Read, true, block_bytes, 1, drives)
        };
        field.watch().say(name);
        let measured = field.measure(shot)?;
        line.extend(
            measured
                .as_ref()
                .map(|m| (at as f64, m.moved.requests_per_s())),
        );
        let size = Unit::Bytes.show(block_bytes as f64);
        let label = format!("{name}: {size}, {:.0} % reads", read_share * 100.0);
        table.row(load_row(&label, measured.as_ref()));
    }
    section.charts.push(Chart {
        id: "mixes".to_owned(),
        title: "Requests per second of each mix".to_owned(),
        x: Axis::of_names(
            "",
            SERVERS.iter().map(|server| server.0.to_owned()).collect(),
        ),
        y: Axis::new("requests per second", Unit::Iops),
        shape: Shape::Bars,
        series: vec![Series::new("mix", line)],
    });
    section.tables.push(table);
    Ok(section)
}
