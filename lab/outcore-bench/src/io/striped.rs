//! The engine's striped volume under load: one submitting thread, whole requests, meters per drive.
//!
//! Contract: the loads are those of [`outcore_store::load`]. The stripe sweep measures sequential
//! 64 KiB requests over stripes from 4 KiB on, with and without merging of neighbours (Falcon Fig.
//! 17). Small stripes cost nothing only if neighbours are merged again before they reach a drive.
//!
//! Bounds: memory is the number of requests in flight times their length.

use std::sync::Arc;

use outcore::Result;
use outcore_chart::{Axis, Chart, Scale, Series};
use outcore_io::drive::{Device, Op};
use outcore_io::units::Unit;
use outcore_store::batch::DriveMeter;
use outcore_store::load::{VolumeLoad, VolumeMoved, run};
use outcore_store::striped::{BackPressure, Member, StripeOptions, StripedVolume};

use super::IoOptions;
use super::field::Field;
use super::target::Target;
use crate::watch::Watch;
use outcore_report::{Cell, Section, Table};

/// Bytes per request of the stripe sweep, as in the paper.
const REQUEST_BYTES: u64 = 64 << 10;

/// A read-only volume over the measured files.
pub(super) fn volume_over(
    device: &Arc<dyn Device>,
    targets: &[Target],
    options: StripeOptions,
) -> Result<StripedVolume> {
    let members: Vec<Member> = targets.iter().map(member_of).collect();
    StripedVolume::open_for_reading(Arc::clone(device), &members, options)
}

/// A target as a drive of a volume.
pub(crate) fn member_of(target: &Target) -> Member {
    Member {
        name: target.name.clone(),
        capacity_bytes: Some(target.place.start_bytes + target.place.span_bytes),
        ..Member::new(&target.path)
    }
}

/// Options with room for `in_flight` requests that all go to one drive.
pub(super) fn open_wide(in_flight: usize) -> StripeOptions {
    let marks = BackPressure {
        high: in_flight + 1,
        low: in_flight,
    };
    StripeOptions {
        drive_pressure: marks,
        volume_pressure: Some(marks),
        ..StripeOptions::default()
    }
}

/// Reads of one thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadLoad {
    pub(super) is_random: bool,
    pub(super) block_bytes: u64,
    /// Requests in flight, counted before they are split.
    pub(super) in_flight: usize,
    pub(super) limit_s: f64,
}

/// Reads for a while from one thread.
pub(super) fn reads(
    volume: &StripedVolume,
    load: ReadLoad,
    watch: Watch<'_>,
) -> Result<VolumeMoved> {
    let load = VolumeLoad {
        op: Op::Read,
        block_bytes: load.block_bytes as usize,
        depth: load.in_flight,
        is_random: load.is_random,
        limit_ns: (load.limit_s * 1e9) as u64,
        limit_bytes: u64::MAX,
        seed: 1,
    };
    run(volume, &load, &|| watch.check())
}

/// Sequential 64 KiB requests over stripes of all sizes.
pub(super) fn stripes(
    options: &IoOptions,
    field: &Field<'_>,
    device: &Arc<dyn Device>,
) -> Result<Section> {
    let mut section = Section::new(
        "stripes",
        "Stripe sizes",
        "Sequential reads of 64 KiB from one thread over a volume of all drives, 16 requests in \
         flight on each, by stripe: with adjacent requests merged before they reach a drive, and \
         without merging. Compare Falcon (USENIX ATC 2017), Figure 17.",
    );
    let mut table = Table::new(
        "stripes",
        "64 KiB reads by stripe",
        &[
            ("stripe", Unit::Bytes),
            ("merged", Unit::BytesPerS),
            ("requests per transfer", Unit::Count),
            ("not merged", Unit::BytesPerS),
            ("speed-up from merging", Unit::Times),
        ],
    );
    let every = if options.is_full { 1 } else { 2 };
    let mut series = [
        Series::new("neighbours merged", Vec::new()),
        Series::new("not merged", Vec::new()),
    ];
    let in_flight = 16 * field.targets.len();
    for power in (12..=22).step_by(every) {
        let stripe_bytes = 1_u64 << power;
        let mut rates = [None, None];
        let mut pieces = None;
        field.watch().say(&format!(
            "stripes of {}",
            Unit::Bytes.show(stripe_bytes as f64)
        ));
        for (at, is_merging) in [true, false].into_iter().enumerate() {
            if !field.step() {
                continue;
            }
            let layout = StripeOptions {
                stripe_bytes,
                is_merging,
                ..open_wide(in_flight * 16)
            };
            let volume = volume_over(device, field.targets, layout)?;
            let load = ReadLoad {
                is_random: false,
                block_bytes: REQUEST_BYTES,
                in_flight,
                limit_s: field.step_s(),
            };
            let seen = reads(&volume, load, field.watch())?;
            rates[at] = Some(seen.bytes_per_s());
            series[at]
                .points
                .push((stripe_bytes as f64, seen.bytes_per_s()));
            if is_merging {
                let sum = |of: fn(&DriveMeter) -> u64| seen.meters.iter().map(of).sum::<u64>();
                pieces = Some(sum(|m| m.pieces) as f64 / sum(|m| m.transfers).max(1) as f64);
            }
        }
        let gain = rates[0].zip(rates[1]).map(|(merged, plain)| merged / plain);
        table.row([
            Cell::from(stripe_bytes as f64),
            rates[0].into(),
            pieces.into(),
            rates[1].into(),
            gain.into(),
        ]);
    }
    section.charts.push(Chart {
        id: "stripes".to_owned(),
        title: "64 KiB reads in order, by stripe".to_owned(),
        x: Axis::new("stripe", Unit::Bytes).on(Scale::Log2),
        y: Axis::new("all drives together", Unit::BytesPerS),
        series: series.to_vec(),
        ..Chart::default()
    });
    section.tables.push(table);
    Ok(section)
}
