//! Each drive while all work together: rate, latency, requests in flight, alarms.
//!
//! Contract: two loads on the engine's volume, from one thread: 4 KiB at random and 1 MiB in order.
//! The volume's own meters separate, per drive, submission latency (from submission to the start of
//! the transfer) from device latency (from there to its end). The mean number in flight follows
//! from Little's law: transfers per second times mean device latency. A drive whose median device
//! latency is [`SLOW_RATIO`] times that of the others raises an alarm by name. Source: Falcon Fig.
//! 5 and 9.

use std::sync::Arc;

use outcore::Result;
use outcore_chart::{Axis, Chart, Series, Shape};
use outcore_io::drive::Device;
use outcore_io::drive::queue::Latencies;
use outcore_io::units::Unit;
use outcore_store::batch::DriveMeter;

use super::field::Field;
use super::striped::{ReadLoad, open_wide, reads, volume_over};
use super::sweeps::{LARGE_BYTES, LARGE_DEPTH, SMALL_BYTES, SMALL_DEPTH};
use outcore_report::{Cell, Section, Table};

/// A drive is slow if its latency exceeds that of the others by this factor.
const SLOW_RATIO: f64 = 1.5;

/// The report's section, and a sentence for each drive that is slower than the others.
pub(super) fn each_drive(
    field: &Field<'_>,
    device: &Arc<dyn Device>,
) -> Result<(Section, Vec<String>)> {
    let mut section = Section::new(
        "each",
        "Each drive",
        "Each drive of one volume with stripes of 64 KiB, while one thread loads all of them. \
         Stack latency is from submission to the start of a transfer, device latency from there to \
         its end. A drive whose median device latency is 1.5 times that of the others is called \
         slow. Falcon Fig. 5, 9.",
    );
    let mut alarms = Vec::new();
    let drives = field.targets.len();
    for (id, name, is_random, block_bytes, depth) in [
        ("each-random", "random read", true, SMALL_BYTES, SMALL_DEPTH),
        (
            "each-sequential",
            "sequential read",
            false,
            LARGE_BYTES,
            LARGE_DEPTH,
        ),
    ] {
        if !field.step() {
            continue;
        }
        field.watch().say(&format!("each drive, {name}"));
        let in_flight = depth as usize * drives;
        let volume = volume_over(device, field.targets, open_wide(in_flight * 16))?;
        let load = ReadLoad {
            is_random,
            block_bytes,
            in_flight,
            limit_s: field.step_s(),
        };
        let seen = reads(&volume, load, field.watch())?;
        let block = Unit::Bytes.show(block_bytes as f64);
        let what = format!("{name} of {block}");
        let table = table(id, &format!("{what}, {in_flight} in flight"));
        alarms.extend(look(
            field,
            &seen.meters,
            seen.seconds,
            &what,
            table,
            &mut section,
        ));
        if drives > 1 {
            section.charts.push(chart(field, &seen.meters, id, &what));
        }
    }
    Ok((section, alarms))
}

fn table(id: &str, title: &str) -> Table {
    Table::new(
        id,
        title,
        &[
            ("drive", Unit::Count),
            ("rate", Unit::BytesPerS),
            ("transfers", Unit::Iops),
            ("requests per transfer", Unit::Count),
            ("in flight, mean", Unit::Count),
            ("in flight, most", Unit::Count),
            ("submission p50", Unit::Seconds),
            ("submission p99", Unit::Seconds),
            ("device p50", Unit::Seconds),
            ("device p99", Unit::Seconds),
            ("device p99.9", Unit::Seconds),
            ("device max", Unit::Seconds),
            ("alarm", Unit::Count),
        ],
    )
}

fn look(
    field: &Field<'_>,
    meters: &[DriveMeter],
    seconds: f64,
    what: &str,
    mut table: Table,
    section: &mut Section,
) -> Vec<String> {
    let medians: Vec<f64> = meters.iter().map(|meter| at(&meter.device, 50.0)).collect();
    let slow = slow_ones(&medians);
    let mut alarms = Vec::new();
    let whole = meters.iter().map(|meter| meter.read_bytes).sum::<u64>() as f64 / seconds;
    for (index, meter) in meters.iter().enumerate() {
        let name = &field.targets[index].name;
        let transfers = meter.transfers as f64 / seconds;
        table.row([
            Cell::from(name.as_str()),
            (meter.read_bytes as f64 / seconds).into(),
            transfers.into(),
            (meter.pieces as f64 / meter.transfers.max(1) as f64).into(),
            (transfers * meter.device.mean_ns() as f64 / 1e9).into(),
            (meter.depth_max as f64).into(),
            at(&meter.stack, 50.0).into(),
            at(&meter.stack, 99.0).into(),
            medians[index].into(),
            at(&meter.device, 99.0).into(),
            at(&meter.device, 99.9).into(),
            (meter.device.max_ns() as f64 / 1e9).into(),
            Cell::from(if slow[index] { "SLOW" } else { "" }),
        ]);
        if slow[index] {
            alarms.push(format!(
                "Drive {name} is slow: its median latency for a {what} is {}; the median of all drives \
                 is {}. Striped requests wait for it, so it limits the volume: all {} drives together \
                 reach {}, this drive {}. A smaller weight in the drives file gives it fewer \
                 stripes.",
                Unit::Seconds.show(medians[index]),
                Unit::Seconds.show(usual(&medians)),
                meters.len(),
                Unit::BytesPerS.show(whole),
                Unit::BytesPerS.show(meter.read_bytes as f64 / seconds),
            ));
        }
    }
    section.tables.push(table);
    alarms
}

fn chart(field: &Field<'_>, meters: &[DriveMeter], id: &str, what: &str) -> Chart {
    let names = field
        .targets
        .iter()
        .map(|target| target.name.clone())
        .collect();
    let line = |name: &str, value: &dyn Fn(&DriveMeter) -> f64| {
        let points = meters.iter().enumerate();
        Series::new(
            name,
            points
                .map(|(index, meter)| (index as f64, value(meter)))
                .collect(),
        )
    };
    Chart {
        id: id.to_owned(),
        title: format!("Latency by drive, {what}"),
        x: Axis::of_names("", names),
        y: Axis::new("latency", Unit::Seconds),
        shape: Shape::Bars,
        series: vec![
            line("submission, p99", &|meter| at(&meter.stack, 99.0)),
            line("device, median", &|meter| at(&meter.device, 50.0)),
            line("device, p99", &|meter| at(&meter.device, 99.0)),
        ],
    }
}

fn at(latencies: &Latencies, percent: f64) -> f64 {
    latencies.percentile_ns(percent) as f64 / 1e9
}

/// The usual latency of the drives; with two drives, the latency of the faster one.
fn usual(medians: &[f64]) -> f64 {
    let mut sorted = medians.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
        .get(sorted.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(0.0)
}

/// Which of the drives are slow compared with the others.
fn slow_ones(medians: &[f64]) -> Vec<bool> {
    let usual = usual(medians);
    let is_slow = |value: &f64| medians.len() > 1 && *value > SLOW_RATIO * usual;
    medians.iter().map(is_slow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_drive_is_told_from_its_like() {
        assert_eq!(
            slow_ones(&[1.0, 1.1, 10.0, 0.9]),
            [false, false, true, false]
        );
        assert_eq!(slow_ones(&[1.0, 2.0]), [false, true]);
        assert_eq!(slow_ones(&[5.0]), [false]);
        assert_eq!(slow_ones(&[1.0, 1.2, 1.4]), [false; 3]);
    }
}
