//! One thread on eight in-memory drives, one of them ten times slower: shows which requests wait
//! for it. `make bench-volume` runs it. Prints a line of JSON; times are those of the drives'
//! virtual clock, so the figures are the same in every run.
//!
//! First eight streams of random reads, one per drive; then striped reads that touch every drive.
//! Source: Falcon (ATC 2017), section 4.4: a slow drive delays only its own requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use outcore_io::Result;
use outcore_io::drive::Op;
use outcore_io::drive::queue::Class;
use outcore_io::drive::testing::{RamDevice, RamOptions};
use outcore_io::memory::{Budget, Pool};
use outcore_store::batch::{Submitter, VolumeRequest};
use outcore_store::striped::{Member, StripeOptions, StripedVolume};

const DRIVES: usize = 8;
const SLOW: usize = 3;
const DEPTH: usize = 30;
const STRIPE_BYTES: u64 = 64 << 10;
const SPAN_NS: u64 = 200_000_000;

fn volume(has_slow: bool) -> Result<StripedVolume> {
    let device = RamDevice::new(RamOptions {
        short_one_in: 0,
        ..RamOptions::default()
    });
    let members: Vec<Member> = (0..DRIVES)
        .map(|drive| Member {
            capacity_bytes: Some(4 << 20),
            ..Member::new(PathBuf::from(format!("/drive{drive}/volume")))
        })
        .collect();
    if has_slow {
        device.slow_down(format!("/drive{SLOW}"), 10);
    }
    let options = StripeOptions {
        stripe_bytes: STRIPE_BYTES,
        ..StripeOptions::default()
    };
    StripedVolume::create(Arc::new(device), &members, options)
}

/// Keeps `DEPTH` requests per stream in flight for a while; returns the requests done per stream,
/// and the submitter. `place` maps a request number to its stream and length.
fn run(
    volume: &StripedVolume,
    streams: usize,
    len_bytes: usize,
    place: impl Fn(usize, u64) -> u64,
) -> Result<(Vec<u64>, Submitter)> {
    let pool = Pool::new(
        &Budget::new(1 << 30),
        "measure volume",
        len_bytes,
        DEPTH * streams,
    )?;
    let mut submitter = volume.submitter()?;
    let device = Arc::clone(volume.device());
    let mut counts = vec![0; streams];
    let mut number = 0;
    let mut batch = Vec::new();
    let mut done = Vec::new();
    let mut free: Vec<usize> = (0..DEPTH * streams).map(|at| at % streams).collect();
    while device.now_ns() < SPAN_NS {
        for stream in free.drain(..) {
            let Some(mut slot) = pool.take() else {
                unreachable!("a buffer for each request in flight");
            };
            batch.push(VolumeRequest {
                token: stream as u64,
                op: Op::Read,
                class: Class::Foreground,
                offset_bytes: place(stream, number),
                buf: slot.split_to(len_bytes),
            });
            number += 1;
        }
        submitter.submit(&mut batch);
        submitter.poll(Some(Duration::from_millis(1)), &mut done)?;
        for completion in done.drain(..) {
            counts[completion.token as usize] += 1;
            free.push(completion.token as usize);
        }
    }
    Ok((counts, submitter))
}

fn main() -> Result<()> {
    let rows = (4 << 20) / STRIPE_BYTES;
    // Stripe n is on drive n modulo the number of drives.
    let alone = |stream: usize, number: u64| {
        let row = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (row % rows * DRIVES as u64 + stream as u64) * STRIPE_BYTES
    };
    let (even, _) = run(&volume(false)?, DRIVES, 4096, alone)?;
    let (uneven, submitter) = run(&volume(true)?, DRIVES, 4096, alone)?;
    let others = || (0..DRIVES).filter(|drive| *drive != SLOW);
    let kept = others().map(|drive| uneven[drive] as f64 / even[drive] as f64);
    let meters: Vec<_> = submitter.meters().collect();
    let stack_ns = others().map(|drive| meters[drive].stack.percentile_ns(99.0));
    let row_bytes = DRIVES as u64 * STRIPE_BYTES;
    let striped = |_: usize, number: u64| number % rows * row_bytes;
    let (even_rows, _) = run(&volume(false)?, 1, row_bytes as usize, striped)?;
    let (uneven_rows, _) = run(&volume(true)?, 1, row_bytes as usize, striped)?;
    println!(
        "{{\"others_keep\":{:.3},\"stack_p99_us\":{:.1},\"slow_keeps\":{:.3},\"striped_keeps\":{:.3}}}",
        kept.fold(f64::INFINITY, f64::min),
        stack_ns.max().unwrap_or(0) as f64 / 1e3,
        uneven[SLOW] as f64 / even[SLOW] as f64,
        uneven_rows[0] as f64 / even_rows[0] as f64,
    );
    Ok(())
}
