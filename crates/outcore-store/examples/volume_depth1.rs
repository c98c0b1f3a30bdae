//! Latency of one request at a time: `volume_depth1 SECONDS STRIPE PATH...` reads random blocks of
//! 4 KiB of the files. It alternates between a striped volume and a plain ring that knows nothing
//! of volumes, in groups of 64 reads in one process, so that both see the same machine. Prints a
//! line of JSON: the median over all groups of the mean latency, for the volume and for the plain
//! ring, and the median ratio of adjacent groups. `make bench-volume` runs it.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};
use outcore_io::config::IoMode;
use outcore_io::drive::Op;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::queue::Class;
use outcore_io::memory::{Budget, Buf, Pool};
use outcore_io::{Error, Result, units};
use outcore_store::batch::{Submitter, VolumeRequest};
use outcore_store::mapping::StripeMap;
use outcore_store::striped::{Member, StripeOptions, StripedVolume};

const BLOCK_BYTES: usize = 4096;
const TURN_READS: u64 = 64;
const READ: &str = "read with a plain ring";

/// A plain system ring with one request.
struct PlainRing {
    ring: IoUring,
    files: Vec<File>,
    map: StripeMap,
}

impl PlainRing {
    fn read(&mut self, offset_bytes: u64, buf: &mut Buf) -> Result<()> {
        let mut place = None;
        self.map
            .split(offset_bytes, BLOCK_BYTES, BLOCK_BYTES, |piece| {
                place = Some(piece);
            });
        let Some(piece) = place else { return Ok(()) };
        let fd = types::Fd(self.files[piece.drive_index].as_raw_fd());
        let entry = opcode::Read::new(fd, buf.as_mut_ptr(), BLOCK_BYTES as u32)
            .offset(piece.offset_bytes)
            .build();
        let failed = |error: std::io::Error| Error::io(READ, &error);
        // SAFETY: the buffer and the file outlive the request, because the code waits for it here.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| Error::usage(READ, "the ring is full"))?;
        self.ring.submit_and_wait(1).map_err(failed)?;
        let answer = self.ring.completion().next();
        match answer.map(|answer| answer.result()) {
            Some(bytes) if bytes == BLOCK_BYTES as i32 => Ok(()),
            other => Err(Error::usage(READ, format!("answer {other:?}"))),
        }
    }
}

/// Reads a block through the volume.
fn read(submitter: &mut Submitter, offset_bytes: u64, buf: Buf) -> Result<Buf> {
    let mut batch = vec![VolumeRequest {
        token: 0,
        op: Op::Read,
        class: Class::Foreground,
        offset_bytes,
        buf,
    }];
    let mut done = Vec::new();
    submitter.submit(&mut batch);
    while done.is_empty() {
        submitter.poll(Some(Duration::from_millis(50)), &mut done)?;
    }
    match done.pop() {
        Some(completion) if completion.fault.is_none() => Ok(completion.buf),
        _ => Err(Error::usage("read volume", "a read failed")),
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<()> {
    let usage = || Error::usage("measure depth 1", "volume_depth1 SECONDS STRIPE PATH...");
    let mut words = std::env::args().skip(1);
    let seconds: f64 = words
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or_else(usage)?;
    let options = StripeOptions {
        stripe_bytes: units::parse_bytes(&words.next().ok_or_else(usage)?)?,
        ..StripeOptions::default()
    };
    let paths: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let members: Vec<Member> = paths.iter().map(Member::new).collect();
    let volume = StripedVolume::open(Arc::new(OsDevice::new(IoMode::Auto)), &members, options)?;
    let mut submitter = volume.submitter()?;
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let open = |path: &PathBuf| {
        OpenOptions::new()
            .read(true)
            .custom_flags(direct)
            .open(path)
    };
    let failed = |error: std::io::Error| Error::io(READ, &error);
    let mut ring = PlainRing {
        ring: IoUring::new(2).map_err(failed)?,
        files: paths
            .iter()
            .map(open)
            .collect::<std::io::Result<_>>()
            .map_err(failed)?,
        map: volume.map().clone(),
    };
    let pool = Pool::new(&Budget::new(u64::MAX), "measure", BLOCK_BYTES, 1)?;
    let mut buf = pool.take().ok_or_else(usage)?;
    let blocks = volume.len_bytes() / BLOCK_BYTES as u64;
    let mut random = 1u64;
    let mut next = || {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (random >> 20) % blocks * BLOCK_BYTES as u64
    };
    let (mut own_us, mut ring_us, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < seconds {
        let started = Instant::now();
        for _ in 0..TURN_READS {
            buf = read(&mut submitter, next(), buf)?;
        }
        let between = Instant::now();
        for _ in 0..TURN_READS {
            ring.read(next(), &mut buf)?;
        }
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / TURN_READS as f64;
        own_us.push(micros(between - started));
        ring_us.push(micros(between.elapsed()));
        ratios.push(own_us[own_us.len() - 1] / ring_us[ring_us.len() - 1]);
    }
    println!(
        "{{\"own_us\":{:.2},\"ring_us\":{:.2},\"ratio\":{:.4},\"turns\":{}}}",
        median(&mut own_us),
        median(&mut ring_us),
        median(&mut ratios),
        ratios.len()
    );
    Ok(())
}
