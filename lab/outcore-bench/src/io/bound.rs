//! Finds what limits the rates (processor, depth, drive, link or memory), and which settings are
//! enough.
//!
//! Contract: pure except for [`Limits::measure`], which copies memory for a moment and reads the
//! drives' links from /sys. The bound of a measurement is the first of these that applies:
//! - processor: its threads ran nearly all the time;
//! - link: the drives' links are nearly full;
//! - memory: it moved most of the rate at which memory can be copied;
//! - queue: with half the requests in flight, the rate was clearly lower;
//! - the drives: with more requests in flight the rate was no higher, or with half of them it was
//!   as high.
//!
//! A limit below the measured rate cannot be the bound, so the next one is examined; if none is
//! left, the bound is unknown. The recommended setting is the one with the fewest threads, then
//! bytes in flight, that reaches [`ENOUGH`] of the best rate.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outcore::Result;
use outcore_io::drive::paths;
use outcore_io::threads::spawn_scoped;
use outcore_io::units::Unit;

use super::field::{Field, Measured};
use super::sweeps::{SMALL_BYTES, plural};
use super::target::{Target, number_of};
use outcore_report::{Cell, Report, Section, Table};

const ENOUGH: f64 = 0.95;
/// Share of its time for which a thread runs if it never waits.
const BUSY: f64 = 0.9;
/// Share of a link's nominal rate that data reach.
const LINK_FULL: f64 = 0.85;
const MEMORY_FULL: f64 = 0.7;
const COPY_BYTES: usize = 32 << 20;
const COPY_TIME: Duration = Duration::from_millis(300);

/// Limits of the machine around the drives.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    processors: usize,
    /// Bytes per second that all processors together copy.
    copied_bytes_per_s: f64,
    /// Nominal rate of each drive's link, if the system knows it.
    links_bytes_per_s: Vec<Option<f64>>,
}

impl Limits {
    pub(super) fn measure(field: &Field<'_>) -> Result<Self> {
        if !field.step() {
            return Ok(Limits::default());
        }
        field.watch().say("memory bandwidth");
        field.watch().check()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let rates: Vec<f64> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..processors)
                .map(|_| spawn_scoped(scope, "outcore-copy", copy))
                .collect();
            running
                .into_iter()
                .filter_map(|thread| thread.ok()?.join().ok())
                .collect()
        });
        Ok(Limits {
            processors,
            copied_bytes_per_s: rates.iter().sum(),
            links_bytes_per_s: field.targets.iter().map(link_of).collect(),
        })
    }

    /// Sum of all links, if all are known and each drive has its own.
    fn links_sum(&self) -> Option<f64> {
        self.links_bytes_per_s.iter().copied().sum()
    }

    pub(super) fn section(&self, field: &Field<'_>) -> Section {
        let mut section = Section::new(
            "limits",
            "Host limits",
            "How fast all processors together can copy memory, and the nominal rate of each drive's \
             link.",
        );
        let mut table = Table::new(
            "limits",
            "Limits",
            &[("what", Unit::Count), ("at most", Unit::BytesPerS)],
        );
        let name = format!("memory copy, {} threads", self.processors);
        table.row([Cell::from(name), self.copied_bytes_per_s.into()]);
        for (target, link) in field.targets.iter().zip(&self.links_bytes_per_s) {
            table.row([
                Cell::from(format!("link of {}", target.name)),
                (*link).into(),
            ]);
        }
        section.tables.push(table);
        if self.links_bytes_per_s.iter().any(Option::is_none) {
            section.notes.push(
                "The system does not report the rate of some links (virtual disks, memory, SATA)."
                    .to_owned(),
            );
        }
        section
    }
}

fn copy() -> f64 {
    let from = vec![1_u8; COPY_BYTES];
    let mut to = vec![0_u8; COPY_BYTES];
    let started = Instant::now();
    let mut bytes = 0;
    while started.elapsed() < COPY_TIME {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        bytes += COPY_BYTES;
    }
    bytes as f64 / started.elapsed().as_secs_f64()
}

/// The nominal rate of the PCIe link of the drive that holds a target.
fn link_of(target: &Target) -> Option<f64> {
    let node = PathBuf::from(format!(
        "/sys/dev/block/{}",
        number_of(target.facts.file_system)
    ));
    let mut dir = paths::real(node).ok()?;
    while dir.parent().is_some_and(|parent| parent != Path::new("/")) {
        if let Some(rate) = pcie_rate(&dir) {
            return Some(rate);
        }
        dir.pop();
    }
    None
}

fn pcie_rate(dir: &Path) -> Option<f64> {
    let read = |name: &str| paths::system_text(dir.join(name));
    pcie_bytes_per_s(&read("current_link_speed")?, &read("current_link_width")?)
}

/// Converts `16.0 GT/s PCIe` and `4` to bytes per second.
fn pcie_bytes_per_s(speed: &str, width: &str) -> Option<f64> {
    let transfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let lanes: f64 = width.trim().parse().ok()?;
    // The first two generations send ten bits per eight, later ones 130 per 128.
    let coding = if transfers < 6.0 { 0.8 } else { 128.0 / 130.0 };
    Some(transfers * 1e9 * lanes * coding / 8.0)
}

/// The limit of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Processor,
    Link,
    Memory,
    Queue,
    Drives,
    Unknown,
}

impl Bound {
    fn text(self) -> &'static str {
        match self {
            Bound::Processor => "bound by the processor",
            Bound::Link => "bound by the link",
            Bound::Memory => "bound by memory bandwidth",
            Bound::Queue => {
                "bound by the requests in flight: the rate still rises at the largest depth"
            }
            Bound::Drives => "bound by the drives",
            Bound::Unknown => "no bound was found",
        }
    }
}

/// The value that decides between settings: requests per second for small random blocks, otherwise
/// bytes.
fn value(measured: &Measured) -> f64 {
    match measured.shot.is_random {
        true => measured.moved.requests_per_s(),
        false => measured.moved.bytes_per_s(),
    }
}

/// Whether a rate nearly reaches a limit without exceeding it, which would refute the limit.
fn is_held_by(rate: f64, limit: f64, share: f64) -> bool {
    rate >= share * limit && rate <= limit
}

fn bound_of(best: &Measured, like: &[&Measured], limits: &Limits) -> Bound {
    let rate = best.moved.bytes_per_s();
    if best.cpu_share().is_some_and(|share| share >= BUSY) {
        return Bound::Processor;
    }
    let all = best.moved.cpu_seconds.unwrap_or(0.0) / best.moved.seconds.max(1e-9);
    if all >= BUSY * limits.processors as f64 {
        return Bound::Processor;
    }
    if limits
        .links_sum()
        .is_some_and(|link| is_held_by(rate, link, LINK_FULL))
    {
        return Bound::Link;
    }
    if is_held_by(rate, limits.copied_bytes_per_s, MEMORY_FULL) {
        return Bound::Memory;
    }
    let in_flight = |m: &Measured| m.shot.depth * m.shot.threads;
    let same_block = |m: &&&Measured| m.shot.block_bytes == best.shot.block_bytes;
    let deepest = like.iter().filter(same_block).map(|m| in_flight(m)).max();
    let shallower = like
        .iter()
        .filter(same_block)
        .filter(|m| in_flight(m) * 2 <= in_flight(best));
    let before = shallower.map(|m| value(m)).fold(0.0, f64::max);
    if deepest == Some(in_flight(best)) && before > 0.0 && before < ENOUGH * value(best) {
        return Bound::Queue;
    }
    // The drives are known to be the limit only if more requests in flight were no faster, or if
    // half of them were as fast.
    let bytes = |m: &Measured| u64::from(in_flight(m)) * m.shot.block_bytes;
    let is_level = |m: &&Measured| {
        bytes(m) > bytes(best) || (bytes(m) * 2 <= bytes(best) && value(m) >= ENOUGH * value(best))
    };
    match like.iter().any(is_level) {
        true => Bound::Drives,
        false => Bound::Unknown,
    }
}

/// The cheapest setting that reaches enough of the best rate.
fn enough<'m>(like: &[&'m Measured], best: f64) -> Option<&'m Measured> {
    let cost = |m: &Measured| {
        let shot = m.shot;
        (
            shot.threads,
            u64::from(shot.depth) * shot.block_bytes,
            shot.block_bytes,
        )
    };
    let good = like.iter().filter(|m| value(m) >= ENOUGH * best);
    good.min_by_key(|m| cost(m)).copied()
}

/// Adds the headlines, the bound of each kind of load, and one setting for each.
pub(super) fn conclude(
    findings: &[Measured],
    limits: &Limits,
    field: &Field<'_>,
    report: &mut Report,
) {
    let drives = field.targets.len();
    let mut settings = Vec::new();
    for name in [
        "sequential read",
        "random read",
        "sequential write",
        "random write",
    ] {
        let like: Vec<&Measured> = findings
            .iter()
            .filter(|m| m.shot.name() == name && m.shot.drives == drives)
            .filter(|m| !m.shot.is_random || m.shot.block_bytes == SMALL_BYTES)
            .collect();
        let Some(best) = like
            .iter()
            .copied()
            .max_by(|a, b| value(a).total_cmp(&value(b)))
        else {
            continue;
        };
        let Some(chosen) = enough(&like, value(best)) else {
            continue;
        };
        let unit = if best.shot.is_random {
            Unit::Iops
        } else {
            Unit::BytesPerS
        };
        report.headline(name, value(best), unit, setting(best));
        let mut sentence = format!(
            "{}: {}{}, {}",
            capital(name),
            unit.show(value(best)),
            if best.shot.is_random {
                " requests/s"
            } else {
                ""
            },
            bound_of(best, &like, limits).text()
        );
        if let Some(cpu) = best.cpu_us_per_request() {
            sentence.push_str(&format!("; {cpu:.1} us of processor time per request"));
        }
        report.verdict.push(format!("{sentence}."));
        settings.push(format!("{name}: {}", setting(chosen)));
        if name == "random read" {
            report.headline(
                "latency, random read",
                chosen.latency_s(0.5),
                Unit::Seconds,
                format!(
                    "median at the recommended setting; p99 {}",
                    Unit::Seconds.show(chosen.latency_s(0.99))
                ),
            );
        }
    }
    if !settings.is_empty() {
        report.verdict.push(format!(
            "Recommended setting (the smallest that reaches 95 % of the best): {}.",
            settings.join("; ")
        ));
    }
}

fn setting(measured: &Measured) -> String {
    let shot = &measured.shot;
    format!(
        "{} blocks, queue depth {}, {} thread{}",
        Unit::Bytes.show(shot.block_bytes as f64),
        shot.depth,
        shot.threads,
        plural(shot.threads as usize)
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use outcore_io::drive::Op;
    use outcore_io::drive::load::Moved;

    use super::super::field::Shot;
    use super::*;

    fn measured(depth: u32, requests: u64, cpu_seconds: f64) -> Measured {
        Measured {
            shot: Shot::new(Op::Read, true, 4096, depth, 1),
            moved: Moved {
                bytes: requests * 4096,
                requests,
                seconds: 1.0,
                cpu_seconds: Some(cpu_seconds),
            },
            lanes: Vec::new(),
        }
    }

    fn limits(link: Option<f64>) -> Limits {
        Limits {
            processors: 8,
            copied_bytes_per_s: 20e9,
            links_bytes_per_s: vec![link],
        }
    }

    #[test]
    fn the_bound_is_named_after_what_is_used_up() {
        let all = [
            measured(1, 100_000, 0.1),
            measured(32, 400_000, 0.5),
            measured(64, 405_000, 0.5),
        ];
        let like: Vec<&Measured> = all.iter().collect();
        assert_eq!(bound_of(&all[2], &like, &limits(None)), Bound::Drives);
        assert_eq!(bound_of(&all[1], &like[..2], &limits(None)), Bound::Queue);
        assert_eq!(bound_of(&all[2], &like, &limits(Some(1.8e9))), Bound::Link);
        let busy = measured(64, 405_000, 0.95);
        assert_eq!(bound_of(&busy, &like, &limits(None)), Bound::Processor);
        let much = measured(64, 4_000_000, 0.5);
        assert_eq!(bound_of(&much, &like, &limits(None)), Bound::Memory);
    }

    #[test]
    fn a_limit_below_the_measured_rate_is_never_named_as_its_bound() {
        let slow = [measured(32, 400_000, 0.5), measured(64, 405_000, 0.5)];
        let like: Vec<&Measured> = slow.iter().collect();
        // 1.66 GB/s over a link with a nominal rate of 1.5.
        assert_eq!(
            bound_of(&slow[1], &like, &limits(Some(1.5e9))),
            Bound::Drives
        );
        // 24.6 GB/s, while memory was copied at 20.
        let fast = [measured(32, 5_900_000, 0.5), measured(64, 6_000_000, 0.5)];
        let like: Vec<&Measured> = fast.iter().collect();
        assert_eq!(bound_of(&fast[1], &like, &limits(None)), Bound::Drives);
        assert_eq!(
            bound_of(&fast[1], &like[1..], &limits(None)),
            Bound::Unknown
        );
        assert_eq!(Bound::Unknown.text(), "no bound was found");
    }

    #[test]
    fn the_setting_that_is_enough_is_the_shallowest() {
        let all = [
            measured(64, 405_000, 0.5),
            measured(32, 400_000, 0.5),
            measured(1, 100_000, 0.1),
        ];
        let like: Vec<&Measured> = all.iter().collect();
        assert_eq!(enough(&like, 405_000.0).map(|m| m.shot.depth), Some(32));
    }

    #[test]
    fn links_are_rated_after_their_coding() {
        let rate = |speed, width| pcie_bytes_per_s(speed, width).unwrap() / 1e9;
        assert!((rate("16.0 GT/s PCIe\n", "4\n") - 7.877).abs() < 0.01);
        assert!((rate("5.0 GT/s PCIe", "4") - 2.0).abs() < 0.01);
        assert_eq!(pcie_bytes_per_s("Unknown", "0"), None);
    }
}
