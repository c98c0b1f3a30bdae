//! One thread on a striped volume: `volume_load SECONDS STRIPE PATH...` measures random and
//! sequential reads and writes, and prints a line of JSON for each. `make bench-volume` runs it.
//!
//! A path is a directory (temporary files of FILE_BYTES are made in it) or a block device, whose
//! contents are lost. Environment variables:
//! - DEPTH: requests in flight
//! - MERGE=0: no merging
//! - MERGE_BYTES: the longest merged transfer
//! - REQUESTS: the maximum number of requests
//! - ONLY: a text; only workloads whose names contain it run
//! - FILL=0: skip the first write of all blocks, because the files are already full
//! - SERVERS: the number of threads of the volume that serve while there are more than 16 requests
//!   per drive (0 for none); by default the volume decides

use std::path::PathBuf;
use std::sync::Arc;

use outcore_io::config::IoMode;
use outcore_io::drive::Op;
use outcore_io::drive::os::OsDevice;
use outcore_io::{Error, Result, units};
use outcore_store::load::{VolumeLoad, run};
use outcore_store::striped::{Member, Servers, StripeOptions, StripedVolume};

fn setting(name: &str, default: &str) -> Result<u64> {
    units::parse_bytes(&std::env::var(name).unwrap_or_else(|_| default.to_string()))
}

/// Number of threads of this process. Each of them could have been woken.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

fn main() -> Result<()> {
    let usage = || Error::usage("measure volume", "volume_load SECONDS STRIPE PATH...");
    let mut words = std::env::args().skip(1);
    let seconds: f64 = words
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or_else(usage)?;
    let servers = match std::env::var("SERVERS") {
        Err(_) => Servers::Auto,
        Ok(count) => match units::parse_bytes(&count)? {
            0 => Servers::Never,
            count => Servers::Always(count as usize),
        },
    };
    let options = StripeOptions {
        stripe_bytes: units::parse_bytes(&words.next().ok_or_else(usage)?)?,
        servers,
        is_merging: setting("MERGE", "1")? != 0,
        merge_bytes_max: Some(setting("MERGE_BYTES", "512KiB")? as usize),
        ..StripeOptions::default()
    };
    let paths: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let device = Arc::new(OsDevice::new(IoMode::Auto));
    let volume = if paths.iter().all(|path| path.is_dir()) {
        StripedVolume::temporary(device, &paths, setting("FILE_BYTES", "64MiB")?, options)?
    } else {
        let members: Vec<Member> = paths.iter().map(Member::new).collect();
        StripedVolume::open(device, &members, options)?
    };
    let load = VolumeLoad {
        op: Op::Write,
        block_bytes: 1 << 20,
        depth: setting("DEPTH", "256")? as usize,
        is_random: false,
        limit_ns: (seconds * 1e9) as u64,
        limit_bytes: u64::MAX,
        seed: 1,
    };
    // A file system reads unwritten blocks without the drive and journals the first write of each,
    // so first write all blocks once.
    let fill = VolumeLoad {
        depth: 64,
        limit_ns: u64::MAX,
        limit_bytes: volume.len_bytes(),
        ..load
    };
    if setting("FILL", "1")? != 0 {
        run(&volume, &fill, &|| Ok(()))?;
    }
    let only = std::env::var("ONLY").unwrap_or_default();
    for (name, op, is_random, block_bytes) in [
        ("random read 4k", Op::Read, true, 4096),
        ("random write 4k", Op::Write, true, 4096),
        ("sequential read 64k", Op::Read, false, 64 << 10),
        ("sequential write 64k", Op::Write, false, 64 << 10),
    ] {
        if !name.contains(&only) {
            continue;
        }
        let load = VolumeLoad {
            op,
            is_random,
            block_bytes,
            limit_bytes: setting("REQUESTS", "1TiB")?.saturating_mul(block_bytes as u64),
            ..load
        };
        let moved = run(&volume, &load, &|| Ok(()))?;
        println!(
            "{{\"workload\":\"{name}\",\"mb_s\":{:.1},\"requests\":{},\"transfers\":{},\"mean_us\":{:.2},\"p50_us\":{:.1},\"p99_us\":{:.1},\"cpu_s\":{:.2},\"threads\":{}}}",
            moved.bytes_per_s() / 1e6,
            moved.requests,
            moved.transfers(),
            moved.latency.mean_ns() as f64 / 1e3,
            moved.latency.percentile_ns(50.0) as f64 / 1e3,
            moved.latency.percentile_ns(99.0) as f64 / 1e3,
            moved.cpu_seconds.unwrap_or(0.0),
            threads(),
        );
    }
    Ok(())
}
