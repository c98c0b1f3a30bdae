//! The engine's striped volume under load: one submitting thread, whole requests, meters by drive.
//!
//! Contract: a closed loop of [`VolumeLoad::in_flight`] requests through one
//! [`outcore::volume::batch::Submitter`]. The stripe sweep measures sequential 64 KiB requests over
//! stripes from 4 KiB on, with and without merging of neighbours (Falcon Fig. 17): small stripes cost
//! nothing only if neighbours are merged again before a drive sees them.
//!
//! Bounds: memory is requests in flight times their length.

use std::sync::Arc;
use std::time::Instant;

use outcore::drive::queue::Class;
use outcore::drive::{Device, Op};
use outcore::error::Result;
use outcore::memory::{Budget, Pool};
use outcore::volume::batch::{DriveMeter, VolumeRequest};
use outcore::volume::striped::{BackPressure, Member, StripeOptions, StripedVolume};
use outcore_chart::{Axis, Chart, Scale, Series, Unit};

use super::IoOptions;
use super::field::Field;
use super::target::Target;
use crate::Watch;
use crate::report::{Cell, Section, Table};

const OPERATION: &str = "measure volume";
/// Bytes of a request of the stripe sweep, as in the paper.
const REQUEST_BYTES: usize = 64 << 10;

/// What one thread asks of a volume for a while.
#[derive(Debug, Clone, Copy)]
pub(super) struct VolumeLoad {
    pub(super) op: Op,
    pub(super) is_random: bool,
    pub(super) block_bytes: usize,
    /// Requests, before they are split.
    pub(super) in_flight: usize,
    pub(super) limit_s: f64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct VolumeSeen {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) meters: Vec<DriveMeter>,
}

impl VolumeSeen {
    pub(super) fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }

    pub(super) fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9)
    }
}

/// A volume over the measured files, for reading alone.
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

/// Enough for `in_flight` requests that all go to one drive.
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

/// Runs the load.
pub(super) fn run(
    volume: &StripedVolume,
    load: VolumeLoad,
    watch: Watch<'_>,
) -> Result<VolumeSeen> {
    let mut submitter = volume.submitter()?;
    let budget = Budget::new((load.in_flight * load.block_bytes.next_multiple_of(4096)) as u64);
    let pool = Pool::new(&budget, OPERATION, load.block_bytes, load.in_flight)?;
    let mut bufs: Vec<_> = std::iter::from_fn(|| pool.take())
        .map(|mut slot| slot.split_to(load.block_bytes))
        .collect();
    let blocks = (volume.len_bytes() / load.block_bytes as u64).max(1);
    let mut random = 1_u64;
    let mut issued = 0;
    let mut batch = Vec::with_capacity(load.in_flight);
    let mut done = Vec::with_capacity(load.in_flight);
    let mut seen = VolumeSeen {
        requests: 0,
        bytes: 0,
        seconds: 0.0,
        meters: Vec::new(),
    };
    let started = Instant::now();
    loop {
        watch.check()?;
        let is_over = started.elapsed().as_secs_f64() >= load.limit_s;
        for buf in bufs.drain(..).filter(|_| !is_over) {
            let block = match load.is_random {
                true => {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (random >> 24) % blocks
                }
                false => issued % blocks,
            };
            batch.push(VolumeRequest {
                token: issued,
                op: load.op,
                class: Class::Foreground,
                offset_bytes: block * load.block_bytes as u64,
                buf,
            });
            issued += 1;
        }
        submitter.submit(&mut batch);
        if submitter.in_flight() == 0 && batch.is_empty() {
            break;
        }
        submitter.poll(Some(std::time::Duration::from_millis(50)), &mut done)?;
        for completion in done.drain(..) {
            if let Some(fault) = &completion.fault {
                return Err(volume.explain(fault));
            }
            seen.requests += 1;
            seen.bytes += completion.buf.len() as u64;
            bufs.push(completion.buf);
        }
    }
    seen.seconds = started.elapsed().as_secs_f64();
    seen.meters = submitter.meters().cloned().collect();
    Ok(seen)
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
         flight on each, by stripe: with neighbours merged before a drive sees them, and as they \
         come. Falcon Fig. 17.",
    );
    let mut table = Table::new(
        "stripes",
        "64 KiB reads by stripe",
        &[
            ("stripe", Unit::Bytes),
            ("merged", Unit::BytesPerS),
            ("pieces a transfer", Unit::Count),
            ("as they come", Unit::BytesPerS),
            ("merged over as they come", Unit::Times),
        ],
    );
    let every = if options.is_full { 1 } else { 2 };
    let mut series = [
        Series::new("neighbours merged", Vec::new()),
        Series::new("as they come", Vec::new()),
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
            let load = VolumeLoad {
                op: Op::Read,
                is_random: false,
                block_bytes: REQUEST_BYTES,
                in_flight,
                limit_s: field.step_s(),
            };
            let seen = run(&volume, load, field.watch())?;
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
