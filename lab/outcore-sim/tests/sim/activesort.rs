//! Compares ActiveSort's published figures with the simulated drive's.
//!
//! Contract: the simulation agrees within 5 % with Tables 1 and 2 of Lee et al., and with the
//! totals of the paper. A modern drive, offloaded run formation and several drives change the
//! result in the expected direction.

use outcore_sim::activesort::MergeDrive;
use outcore_sim::activesort::merge::{MergeJob, Order, merge};
use outcore_sim::activesort::sort::{
    Array, Method, SortJob, TABLE_1_MB_PER_S, TABLE_2_MB, modern_cores, modern_dma, paper_job,
    sort, table_1, table_2,
};
use outcore_sim::presets::preset;

fn within(seen: f64, wanted: f64, share: f64) -> bool {
    (seen / wanted - 1.0).abs() <= share
}

#[test]
fn tables_1_and_2_come_out_within_5_percent() {
    let drive = MergeDrive::prototype();
    let one = table_1(&drive).unwrap();
    let two = table_2(&drive).unwrap();
    println!("{one:?} {two:?}");
    for (seen, wanted) in one.iter().zip(TABLE_1_MB_PER_S) {
        assert!(within(*seen, wanted, 0.05), "table 1: {seen} for {wanted}");
    }
    for (seen, wanted) in two.iter().zip(TABLE_2_MB) {
        assert!(within(*seen, wanted, 0.05), "table 2: {seen} for {wanted}");
    }
}

#[test]
fn no_other_number_of_prefetches_fits_table_1() {
    let rate = |prefetch_max, runs| {
        let mut drive = MergeDrive::prototype();
        drive.prefetch_max = prefetch_max;
        let job = MergeJob {
            record_bytes: 4096,
            records: 200_000,
            runs,
            order: Order::Random,
            plain: false,
            seed: 1,
        };
        merge(&drive, &job).unwrap().bytes_per_s / 1e6
    };
    let random = TABLE_1_MB_PER_S[3];
    let (three, four, five) = (rate(3, 128), rate(4, 128), rate(5, 128));
    println!("3: {three:.1}, 4: {four:.1}, 5: {five:.1}");
    println!(
        "4 with 32 runs: {:.1}, with 8: {:.1}",
        rate(4, 32),
        rate(4, 8)
    );
    assert!(within(four, random, 0.05));
    assert!(!within(three, random, 0.05) && !within(five, random, 0.05));
}

#[test]
fn the_papers_totals_follow_from_its_tables() {
    // 2048 MB at the rates of Table 1: 72.4 s instead of 111.9 s.
    let drive = MergeDrive::prototype();
    let job = SortJob {
        data_bytes: 2_048_000_000,
        ..paper_job(64_000_000, Order::Random)
    };
    let array = Array::default();
    let active = sort(&drive, &array, &job, Method::ActiveSort).unwrap();
    let plain = sort(&drive, &array, &job, Method::Conventional).unwrap();
    println!("{} {}", active.seconds, plain.seconds);
    assert!(within(active.seconds, 72.4, 0.05), "{active:?}");
    assert!(within(plain.seconds, 111.9, 0.05), "{plain:?}");
}

#[test]
fn data_that_fits_into_memory_needs_no_merge() {
    let drive = MergeDrive::prototype();
    let job = paper_job(3 << 30, Order::Random);
    for method in [Method::Conventional, Method::ActiveSort] {
        let report = sort(&drive, &Array::default(), &job, method).unwrap();
        assert_eq!((report.runs, report.merge), (1, None));
        assert_eq!(report.read_bytes, 2 * job.data_bytes);
    }
}

#[test]
fn on_a_modern_drive_copying_cores_are_the_bottleneck_and_dma_is_not() {
    let config = preset("pm9a3").unwrap().config().unwrap();
    let job = SortJob {
        data_bytes: 64_000_000_000,
        record_bytes: 4096,
        memory_bytes: 8_000_000_000,
        order: Order::Random,
    };
    let array = Array::default();
    let rate = |cpu| {
        let drive = MergeDrive::modern(&config, cpu).unwrap();
        let report = sort(&drive, &array, &job, Method::ActiveSort).unwrap();
        report.merge.unwrap()
    };
    let (copying, dma) = (rate(modern_cores()), rate(modern_dma()));
    assert!(copying.cpu_used > 0.95, "{copying:?}");
    assert!(dma.bytes_per_s > 1.2 * copying.bytes_per_s, "{dma:?}");
    assert!(dma.link_used > 0.95 && dma.cpu_used < 0.2, "{dma:?}");
    let offloaded = |cpu| {
        let drive = MergeDrive::modern(&config, cpu).unwrap();
        sort(&drive, &array, &job, Method::Offloaded).unwrap()
    };
    assert_eq!(offloaded(modern_dma()).link_bytes, job.data_bytes);
}

#[test]
fn several_drives_merge_faster_until_the_host_or_the_ceiling_binds() {
    let config = preset("pm9a3").unwrap().config().unwrap();
    let drive = MergeDrive::modern(&config, modern_dma()).unwrap();
    let job = SortJob {
        data_bytes: 64_000_000_000,
        record_bytes: 4096,
        memory_bytes: 8_000_000_000,
        order: Order::Random,
    };
    let seconds = |array: Array| {
        let report = sort(&drive, &array, &job, Method::ActiveSort).unwrap();
        report.output_seconds
    };
    let one = seconds(Array::default());
    let drives = 8;
    let eight = seconds(Array {
        drives,
        ..Array::default()
    });
    assert!(within(one / eight, 8.0, 0.05), "{one} {eight}");
    let host_merge_ns = 400.0;
    let host = seconds(Array {
        drives,
        host_merge_ns,
        ..Array::default()
    });
    assert!(within(host, 64e9 / 4096.0 * 400e-9, 0.01), "{host}");
    let shared_bytes_per_s = 10_000_000_000;
    let shared = seconds(Array {
        drives,
        shared_bytes_per_s,
        ..Array::default()
    });
    assert!(within(shared, 6.4, 0.01), "{shared}");
}

#[test]
fn a_throttled_drive_moves_no_more_than_its_throttle_lets_through() {
    let config = preset("throttled").unwrap().config().unwrap();
    let mut free = config.clone();
    (free.throttle.read.0, free.throttle.write.0) = (0, 0);
    let job = SortJob {
        data_bytes: 4_000_000_000,
        record_bytes: 4096,
        memory_bytes: 1_000_000_000,
        order: Order::Random,
    };
    let sorted = |config, method, drives| {
        let drive = MergeDrive::modern(config, modern_dma()).unwrap();
        let array = Array {
            drives,
            ..Array::default()
        };
        sort(&drive, &array, &job, method).unwrap()
    };
    // 50 MB/s in each direction: three reads and two writes of 4 GB take 400 s, two reads and one
    // write 240 s.
    let plain = sorted(&config, Method::Conventional, 1);
    assert!(within(plain.seconds, 400.0, 0.01), "{plain:?}");
    let merging = sorted(&config, Method::ActiveSort, 1);
    assert!(within(merging.seconds, 240.0, 0.01), "{merging:?}");
    let four = sorted(&config, Method::ActiveSort, 4);
    assert!(within(four.seconds, 60.0, 0.01), "{four:?}");
    // The drive's own reads and writes do not pass the throttle, so its runs take as long without
    // it.
    let offloaded = sorted(&config, Method::Offloaded, 1);
    let unthrottled = sorted(&free, Method::Offloaded, 1);
    assert_eq!(offloaded.sort_seconds, unthrottled.sort_seconds);
    assert!(
        within(offloaded.output_seconds, 80.0, 0.01),
        "{offloaded:?}"
    );
    assert!(unthrottled.output_seconds < 10.0, "{unthrottled:?}");
}
