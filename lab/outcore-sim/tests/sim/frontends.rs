//! Checks front ends other than NVMe against arithmetic: SATA, and the block layer's throttle.
//!
//! Contract: each test derives its expected value independently of the model.
use outcore_sim::config::{Compat, DriveConfig, Interface};
use outcore_sim::drive::{Caching, QueueConfig};
use outcore_sim::presets::{Figure, measure, preset};
use outcore_sim::quantities::{Rate, Transfers};
use outcore_sim::report::FlowSummary;
use outcore_sim::run::{RunOptions, run};
use outcore_sim::workload::{Addresses, FlowConfig, Origin, Pace, Sizes, Synthetic};

fn sata() -> DriveConfig {
    let mut config = DriveConfig {
        precondition: true,
        ..DriveConfig::default()
    };
    config.host.interface = Interface::Sata;
    config.flash.blocks = 64;
    config.flash.pages = 64;
    config.flash.bus = Transfers(400_000_000);
    config
}

fn flow(read_ratio: f64, depth: u32, sectors: u32, requests: u64) -> FlowConfig {
    FlowConfig {
        name: "flow".to_owned(),
        queue: QueueConfig {
            caching: Caching::Off,
            occupancy: 0.7,
            working_set: 0.6,
            ..QueueConfig::default()
        },
        origin: Origin::Synthetic(Synthetic {
            working_set: 0.6,
            pace: Pace::Depth(depth),
            read_ratio,
            addresses: Addresses::Uniform,
            align_sectors: sectors,
            sizes: Sizes::Fixed(sectors),
            seed: 7,
            stop_at: 0,
            requests,
        }),
    }
}

fn total(config: &DriveConfig, flow: FlowConfig) -> FlowSummary {
    let total = run(config, &[flow], &RunOptions::default())
        .unwrap()
        .summary
        .total;
    assert_eq!(total.requests, total.generated);
    total
}

/// Nanoseconds of a frame of this many bytes at 600 MB/s, including its handshake of 1 us.
fn frame(bytes: f64) -> f64 {
    bytes / 0.6 + 1000.0
}

#[test]
fn a_sata_read_alone_takes_the_sum_of_its_frames_and_the_flash() {
    let seen = total(&sata(), flow(1.0, 1, 8, 300)).mean_response_ns;
    let link = frame(20.0) + 5000.0 + frame(28.0) + frame(4096.0) + frame(8.0);
    let flash = 290.0 + 75_020.0 + 10_240.0;
    assert!(
        (seen - link - flash).abs() < 2.0,
        "{seen} instead of {}",
        link + flash
    );
}

#[test]
fn a_sata_write_alone_takes_the_sum_of_its_frames_and_the_flash() {
    let seen = total(&sata(), flow(0.0, 1, 16, 50)).mean_response_ns;
    let link = frame(20.0) + 5000.0 + frame(28.0) + frame(8192.0) + frame(8.0);
    let flash = 361.0 + 20_480.0 + 750_000.0;
    assert!(
        (seen - link - flash).abs() < 2.0,
        "{seen} instead of {}",
        link + flash
    );
}

#[test]
fn the_sata_link_bounds_reads_and_carries_one_direction_at_a_time() {
    let request_ns = frame(20.0) + frame(28.0) + 131_072.0 / 0.6 + 16.0 * 1000.0 + frame(8.0);
    let ceiling = 131_072e9 / request_ns;
    let mut config = sata();
    config.flash.bus = Transfers(1_600_000_000);
    let reads = total(&config, flow(1.0, 32, 256, 3000)).bytes_per_s;
    assert!(
        reads / ceiling < 1.001 && reads / ceiling > 0.97,
        "{reads} {ceiling}"
    );
    let mixed = FlowConfig {
        queue: QueueConfig {
            caching: Caching::Write,
            ..flow(0.5, 32, 256, 3000).queue
        },
        ..flow(0.5, 32, 256, 3000)
    };
    let both = total(&config, mixed).bytes_per_s;
    assert!(both / ceiling < 1.001, "{both} {ceiling}");
}

#[test]
fn a_sata_drive_holds_32_commands() {
    let deep = total(&sata(), flow(1.0, 256, 8, 20_000));
    let outstanding = deep.iops * deep.mean_response_ns * 1e-9;
    assert!(outstanding < 32.01 && outstanding > 31.0, "{outstanding}");
    let wanted = deep.iops * deep.mean_end_to_end_ns * 1e-9;
    assert!(wanted > 250.0 && wanted < 257.0, "{wanted}");
}

#[test]
fn what_sata_cannot_do_is_refused() {
    let config = sata();
    let flows = [flow(1.0, 1, 8, 1), flow(1.0, 1, 8, 1)];
    let error = run(&config, &flows, &RunOptions::default()).unwrap_err();
    assert!(error.to_string().contains("one queue"), "{error}");
    let mut config = sata();
    config.compat = Compat::Mqsim;
    let error = run(&config, &flows[..1], &RunOptions::default()).unwrap_err();
    assert!(error.to_string().contains("SATA"), "{error}");
}

#[test]
fn a_throttled_drive_gives_its_rate_whatever_is_asked() {
    let mut config = preset("throttled").unwrap().scaled(256, 64).unwrap();
    for (read, write) in [(50_000_000, 50_000_000), (200_000_000, 100_000_000)] {
        config.throttle.read = Rate(read);
        config.throttle.write = Rate(write);
        let seen = measure(&config, Figure::SequentialRead).unwrap() / read as f64;
        assert!((seen - 1.0).abs() < 0.02, "{seen}");
        let seen = measure(&config, Figure::SequentialWrite).unwrap() / write as f64;
        assert!((seen - 1.0).abs() < 0.02, "{seen}");
    }
    // Without a limit the drive behind it is at least twenty times as fast.
    config.throttle.read = Rate(0);
    assert!(measure(&config, Figure::SequentialRead).unwrap() > 1e9);
}

#[test]
fn directions_of_a_throttled_drive_do_not_share_their_limit() {
    let config = preset("throttled").unwrap().scaled(256, 64).unwrap();
    let mut mixed = flow(0.5, 32, 256, 4000);
    mixed.queue.caching = Caching::Write;
    let rate = total(&config, mixed).bytes_per_s;
    assert!(rate > 90e6 && rate < 102e6, "{rate}");
}

#[test]
fn the_throttle_is_named_among_the_resources_of_a_drive_that_has_one() {
    let used = |name: &str| {
        let config = preset(name).unwrap().scaled(256, 64).unwrap();
        let reads = flow(1.0, 32, 256, 2000);
        let summary = run(&config, &[reads], &RunOptions::default()).unwrap();
        let mut resources = summary.summary.breakdown.utilisation.into_iter();
        resources.find(|(name, _)| *name == "throttle")
    };
    let share = used("throttled").unwrap().1;
    assert!(share > 0.95 && share < 1.05, "{share}");
    assert!(used("pm963").is_none());
}
