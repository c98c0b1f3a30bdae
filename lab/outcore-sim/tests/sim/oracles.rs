//! Checks the model against arithmetic that can be done by hand.
//!
//! Contract: each test derives its expected value independently of the model. Time is an integer,
//! so most comparisons are exact.
mod collection;
mod slc;
mod spaces;
mod zones;

use std::sync::atomic::{AtomicU64, Ordering};

use outcore_sim::config::{Allocation, DriveConfig, GcPolicy, Suspension};
use outcore_sim::drive::{Caching, Op, QueueConfig};
use outcore_sim::quantities::{NS, Size, Time, Transfers, US};
use outcore_sim::run::{Outcome, RunOptions, Watch, run};
use outcore_sim::workload::{
    Addresses, FlowConfig, List, ListItem, Origin, Pace, Sizes, Synthetic,
};

fn small() -> DriveConfig {
    let mut config = DriveConfig {
        precondition: true,
        ..DriveConfig::default()
    };
    config.flash.blocks = 64;
    config.flash.pages = 64;
    config
}

fn flow(read_ratio: f64, depth: u32, sectors: u32, requests: u64) -> FlowConfig {
    FlowConfig {
        name: "flow".to_owned(),
        queue: QueueConfig {
            caching: Caching::Off,
            occupancy: 0.7,
            ..QueueConfig::default()
        },
        origin: Origin::Synthetic(Synthetic {
            working_set: 1.0,
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

/// A flow whose reads touch only data that preconditioning has written.
fn written_part(mut flow: FlowConfig, share: f64) -> FlowConfig {
    flow.queue.working_set = share;
    flow
}

fn simulate(config: &DriveConfig, flows: &[FlowConfig]) -> Outcome {
    let outcome = run(config, flows, &RunOptions::default()).unwrap();
    let total = &outcome.summary.total;
    assert_eq!(total.requests, total.generated, "serviced is not generated");
    outcome
}

#[test]
fn a_read_alone_takes_the_sum_of_its_parts() {
    let mut config = small();
    config.flash.bus = Transfers(400_000_000);
    let read = written_part(flow(1.0, 1, 8, 500), 0.6);
    let seen = simulate(&config, &[read]).summary.total.mean_response_ns;
    // Link, 4 lanes of 1 GB/s: doorbells 2+28 bytes (including that of the previous completion),
    // fetch 32, entry 72+28, data 32 packets of 156, completion 16+28. Flash: command 290, array 75
    // us and 20 ns, 4096 bytes at 400 MB/s.
    let link = 8.0 + 8.0 + 8.0 + 25.0 + 1248.0 + 11.0;
    let flash = 290.0 + 75_020.0 + 10_240.0;
    assert!(
        (seen - (link + flash)).abs() < 1.0,
        "{seen} instead of {}",
        link + flash
    );
}

#[test]
fn a_write_without_cache_takes_the_sum_of_its_parts() {
    let mut config = small();
    config.flash.bus = Transfers(400_000_000);
    // Whole pages, so that nothing has to be merged, and few of them, so that nothing is collected.
    let seen = simulate(&config, &[flow(0.0, 1, 16, 50)])
        .summary
        .total
        .mean_response_ns;
    let link = 8.0 + 8.0 + 8.0 + 25.0 + 8.0 + 2496.0 + 11.0;
    let flash = 361.0 + 20_480.0 + 750_000.0;
    assert!(
        (seen - (link + flash)).abs() < 1.0,
        "{seen} instead of {}",
        link + flash
    );
}

#[test]
fn the_flash_buses_bound_the_read_bandwidth() {
    let mut config = small();
    config.flash.channels = 2;
    config.flash.chips = 4;
    config.flash.bus = Transfers(200_000_000);
    let read = written_part(flow(1.0, 256, 16, 20_000), 0.6);
    let summary = simulate(&config, &[read]).summary;
    let ceiling = 2.0 * 200e6;
    let share = summary.total.bytes_per_s / ceiling;
    assert!(share < 1.0 && share > 0.95, "{share}");
}

#[test]
fn the_link_bounds_the_read_bandwidth() {
    let mut config = small();
    config.host.pcie_lanes = 1;
    config.flash.bus = Transfers(1_600_000_000);
    let read = written_part(flow(1.0, 256, 16, 20_000), 0.6);
    let summary = simulate(&config, &[read]).summary;
    // 128 of 156 bytes of a packet are payload; every 8 KiB are followed by a completion of 44
    // bytes.
    let ceiling = 1e9 * 8192.0 / (64.0 * 156.0 + 44.0 + 32.0);
    let share = summary.total.bytes_per_s / ceiling;
    assert!(share < 1.001 && share > 0.97, "{share}");
}

#[test]
fn the_arrays_bound_the_read_rate() {
    let mut config = small();
    config.flash.channels = 4;
    config.flash.chips = 1;
    config.flash.dies = 1;
    config.flash.planes = 1;
    config.flash.bus = Transfers(1_600_000_000);
    let read = written_part(flow(1.0, 64, 8, 20_000), 0.6);
    let iops = simulate(&config, &[read]).summary.total.iops;
    // One read at a time per die: command, array, data.
    let service_ns = 290.0 + 75_020.0 + 2_560.0;
    let share = iops / (4.0 * 1e9 / service_ns);
    assert!(share < 1.0 && share > 0.97, "{share}");
}

#[test]
fn littles_law_holds() {
    for depth in [1, 4, 32, 128] {
        let read = written_part(flow(0.7, depth, 8, 30_000), 0.6);
        let total = simulate(&small(), &[read]).summary.total;
        let inside = total.iops * total.mean_response_ns * 1e-9;
        let off = (inside / f64::from(depth) - 1.0).abs();
        assert!(off < 0.05, "{inside} inside at depth {depth}");
    }
}

#[test]
fn rates_end_with_the_last_request_and_not_with_the_drain_of_the_cache() {
    let config = small();
    let mut write = flow(0.0, 64, 8, 4_000);
    write.queue.caching = Caching::Write;
    let options = RunOptions {
        keep_log: true,
        ..RunOptions::default()
    };
    let outcome = run(&config, std::slice::from_ref(&write), &options).unwrap();
    let total = &outcome.summary.total;
    let last = outcome.log.iter().map(|done| done.completed).max().unwrap();
    assert_eq!(total.rates_over_ns, last / 1000);
    assert!(
        total.sim_end_ns > total.rates_over_ns,
        "the cache was written to flash"
    );
    let iops = 4_000.0 / (last as f64 * 1e-12);
    assert!(
        (total.iops / iops - 1.0).abs() < 1e-9,
        "{} {iops}",
        total.iops
    );
    assert!((total.bytes_per_s / (iops * 4096.0) - 1.0).abs() < 1e-9);
    assert_eq!(outcome.summary.flows[0].iops, total.iops);
    // The same holds after a warm-up, counted from its end.
    let options = RunOptions {
        warm_up: 1_000,
        ..options
    };
    let warm = run(&config, &[write], &options).unwrap();
    let first = outcome.log.len() - warm.log.len();
    let total = &warm.summary.total;
    assert!((1_000..1_200).contains(&first), "{first}");
    let rate = total.requests as f64 / (total.rates_over_ns as f64 * 1e-9);
    assert!(
        (total.iops / rate - 1.0).abs() < 1e-3,
        "{} {rate}",
        total.iops
    );
}

#[test]
fn the_longest_response_is_exact_and_no_percentile_exceeds_it() {
    let mut config = small();
    config.precondition = true;
    let options = RunOptions {
        keep_log: true,
        ..RunOptions::default()
    };
    let outcome = run(&config, &[flow(0.5, 33, 8, 20_000)], &options).unwrap();
    let response = |done: &outcore_sim::drive::Done| (done.completed - done.enqueued) / 1000;
    let longest = outcome.log.iter().map(response).max().unwrap();
    let total = &outcome.summary.total;
    assert_eq!(total.max_response_ns, longest);
    assert!(total.p9999_response_ns <= longest);
    let mut all: Vec<u64> = outcome.log.iter().map(response).collect();
    all.sort_unstable();
    let p99 = all[all.len() * 99 / 100] as f64;
    assert!(
        (total.p99_response_ns as f64 / p99 - 1.0).abs() < 0.01,
        "three digits"
    );
}

#[test]
fn dies_of_a_chip_work_at_the_same_time() {
    let mut one = small();
    one.flash.channels = 1;
    one.flash.chips = 1;
    one.flash.dies = 1;
    one.flash.planes = 1;
    let mut four = one.clone();
    four.flash.dies = 4;
    let rate = |config: &DriveConfig| {
        let read = written_part(flow(1.0, 64, 1, 10_000), 0.5);
        simulate(config, &[read]).summary.total.iops
    };
    let gain = rate(&four) / rate(&one);
    assert!(gain > 3.5 && gain < 4.01, "{gain}");
}

#[test]
fn suspending_programs_shortens_reads() {
    let mut config = small();
    let mixed = || vec![written_part(flow(0.5, 16, 16, 10_000), 0.6)];
    let without = simulate(&config, &mixed()).summary;
    config.scheduling.suspension = Suspension::ProgramErase;
    config.flash.suspend_program = Time(5 * US);
    let with = simulate(&config, &mixed()).summary;
    assert!(
        with.counters.suspensions > 100,
        "{}",
        with.counters.suspensions
    );
    assert!(with.total.p50_response_ns < without.total.p50_response_ns);
}

#[test]
fn a_short_window_after_a_warm_up_sees_the_rate_of_a_long_one() {
    let mut config = small();
    config.precondition = false;
    config.scheduling.suspension = Suspension::ProgramErase;
    config.flash.suspend_program = Time(5 * US);
    let window = |requests: u64| {
        let mut writes = flow(0.1, 16, 16, 20_000);
        writes.queue.caching = Caching::Write;
        let options = RunOptions {
            warm_up: 20_000 - requests,
            ..RunOptions::default()
        };
        run(&config, &[writes], &options).unwrap().summary
    };
    let (short, long) = (window(1_000), window(10_000));
    assert!(long.counters.suspensions > 0);
    // The cache is equally full when counting begins and when the last request has been served.
    let ratio = short.total.iops / long.total.iops;
    assert!((ratio - 1.0).abs() < 0.1, "{ratio}");
    for (name, share) in [short, long]
        .iter()
        .flat_map(|summary| &summary.breakdown.utilisation)
    {
        assert!(*share < 1.01, "{name} {share}");
    }
}

#[test]
fn fine_units_and_free_choice_multiply_the_rate_of_small_writes() {
    let mut config = small();
    config.flash.page = Size(16384);
    let rate = |unit: u64, allocation: Allocation| {
        let mut config = config.clone();
        config.mapping.unit = Size(unit);
        config.mapping.allocation = allocation;
        let summary = simulate(&config, &[flow(0.0, 256, 8, 20_000)]).summary;
        (summary.total.iops, summary.counters.merge_reads)
    };
    let (coarse, merges) = rate(0, Allocation::Static);
    let (fine, fine_merges) = rate(4096, Allocation::Static);
    let (dynamic, _) = rate(4096, Allocation::Dynamic);
    assert!(merges > 10_000 && fine_merges == 0);
    assert!(dynamic > 3.0 * coarse, "{dynamic} against {coarse}");
    assert!(dynamic > fine, "{dynamic} against {fine}");
}

#[test]
fn pages_wait_for_company_behind_programs_but_not_on_an_idle_die() {
    let mut config = small();
    config.precondition = false;
    config.flash.page = Size(16384);
    config.mapping.unit = Size(4096);
    config.mapping.pack_wait = Time(30 * US);
    (config.flash.channels, config.flash.chips) = (2, 1);
    // Units programmed per unit written, and the mean response.
    let padded = |depth: u32| {
        let summary = simulate(&config, &[flow(0.0, depth, 8, 20_000)]).summary;
        (summary.write_amplification, summary.total.mean_response_ns)
    };
    let (alone, response) = padded(1);
    assert!((alone - 4.0).abs() < 0.01, "{alone}");
    assert!(response < 850_000.0, "{response}");
    // Two writes per plane are too few to fill a page of four units; sixteen are enough.
    let ((some, _), (many, _)) = (padded(16), padded(128));
    println!("{some} and {many}");
    assert!(some > 1.5 && many < 1.05, "{some} and {many}");
}

#[test]
fn every_allocation_unit_and_collection_keeps_its_books_under_overwriting() {
    for allocation in [
        Allocation::Static,
        Allocation::Dynamic,
        Allocation::RestrictedChannel,
        Allocation::RestrictedDie,
    ] {
        for unit in [0, 4096, 512] {
            for policy in [
                GcPolicy::Greedy,
                GcPolicy::Rga,
                GcPolicy::Fifo,
                GcPolicy::Random,
            ] {
                let mut config = small();
                config.flash.channels = 2;
                config.flash.chips = 1;
                config.flash.pages = 16;
                config.flash.over_provisioning = 0.25;
                config.mapping.allocation = allocation;
                config.mapping.unit = Size(unit);
                config.mapping.pack_wait = Time(20 * US);
                config.gc.policy = policy;
                config.gc.threshold = 0.1;
                let mut writes = flow(0.3, 16, 8, 6_000);
                writes.queue.occupancy = 0.8;
                writes.queue.caching = Caching::Write;
                simulate(&config, &[writes]);
            }
        }
    }
}

#[test]
fn a_mapping_cache_costs_reads_and_writes_of_the_table() {
    let mut config = small();
    config.mapping.resident = false;
    config.mapping.cache = Size(16 << 10);
    let summary = simulate(&config, &[flow(0.5, 16, 16, 20_000)]).summary;
    let counters = &summary.counters;
    assert!(counters.map_misses > counters.map_hits);
    assert!(counters.map_reads > 1_000 && counters.map_writes > 1_000);
}

#[test]
fn a_mapping_cache_smaller_than_what_is_in_flight_blocks_nobody() {
    for cache in [0, 64, 4096] {
        for (depth, sectors) in [(64, 8), (1, 2048), (16, 2048)] {
            for read_ratio in [0.0, 0.5, 1.0] {
                let mut config = small();
                config.mapping.resident = false;
                config.mapping.cache = Size(cache);
                let mut mixed = flow(read_ratio, depth, sectors, 100);
                mixed.queue.occupancy = 0.3;
                let counters = simulate(&config, &[mixed]).summary.counters;
                assert!(counters.map_misses > 0 && counters.map_reads > 0);
            }
        }
    }
}

#[test]
fn equal_seeds_give_equal_digests_and_others_do_not() {
    let digest = |seed: i32| {
        let mut flows = vec![flow(0.5, 32, 8, 5_000)];
        if let Origin::Synthetic(spec) = &mut flows[0].origin {
            spec.seed = seed;
        }
        simulate(&small(), &flows).summary.digest
    };
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
}

#[test]
fn the_digest_of_a_run_is_the_same_on_every_machine() {
    let summary = simulate(&small(), &[flow(0.5, 32, 8, 5_000)]).summary;
    // N.B. This digest changes only with a deliberate change of the model, never with machine,
    // build or thread.
    assert_eq!(summary.digest, "111f80500d09ebff");
}

#[test]
fn a_workload_without_a_request_is_said_to_be_empty() {
    let mut flow = flow(1.0, 1, 16, 0);
    flow.origin = Origin::List(List {
        items: Vec::new(),
        depth: 1,
        rounds: 1,
        file: None,
    });
    let summary = simulate(&small(), &[flow]).summary;
    let text = summary.warnings.join(" ");
    assert!(text.contains("the workload is empty"), "{text}");
}

#[test]
fn trimmed_units_are_read_without_flash_and_need_no_collection() {
    let mut config = small();
    config.precondition = false;
    let item = |op: Op, lba: u64| ListItem {
        at: 0,
        op,
        lba,
        sectors: 16,
    };
    let writes = (0..64).map(|at| item(Op::Write, at * 16));
    let trims = (0..64).map(|at| item(Op::Trim, at * 16));
    let reads = (0..64).map(|at| item(Op::Read, at * 16));
    let mut flow = flow(1.0, 1, 16, 0);
    let items = writes.chain(trims).chain(reads).collect();
    flow.origin = Origin::List(List {
        items,
        depth: 1,
        rounds: 1,
        file: None,
    });
    let summary = simulate(&config, &[flow]).summary;
    let counters = &summary.counters;
    assert_eq!(counters.page_programs, 64);
    assert_eq!(counters.page_reads, 0);
    assert_eq!(counters.completed, 192);
    // Trims move no data.
    let bytes = summary.total.bytes_per_s * summary.total.sim_end_ns as f64 * 1e-9;
    assert!((bytes / (128.0 * 8192.0) - 1.0).abs() < 1e-4, "{bytes}");
}

#[test]
fn reads_of_an_empty_drive_are_said_to_need_no_flash() {
    let mut config = small();
    let warned = |config: &DriveConfig| {
        let summary = simulate(config, &[flow(1.0, 4, 8, 200)]).summary;
        summary
            .warnings
            .iter()
            .any(|text| text.contains("precondition"))
    };
    assert!(!warned(&config));
    config.precondition = false;
    assert!(warned(&config));
}

#[test]
fn the_time_of_a_read_alone_is_broken_down_into_its_parts() {
    let mut config = small();
    config.flash.bus = Transfers(400_000_000);
    let read = written_part(flow(1.0, 1, 8, 500), 0.6);
    let summary = simulate(&config, &[read]).summary;
    let time = &summary.breakdown;
    assert_eq!(time.wait_die_ns + time.wait_bus_ns, 0.0);
    assert!((time.array_ns - 75_020.0).abs() < 0.1, "{}", time.array_ns);
    assert!(
        (time.bus_ns - 290.0 - 10_240.0).abs() < 0.1,
        "{}",
        time.bus_ns
    );
    assert!((time.flash_ns - time.array_ns - time.bus_ns).abs() < 0.1);
    assert_eq!(time.collection_share, 0.0);
    // Flash and link times add up to the response.
    let whole = summary.total.mean_response_ns;
    assert!(
        (time.flash_ns + time.link_ns - whole).abs() < 10.0,
        "{whole}"
    );
}

#[test]
fn a_drive_without_a_sector_is_refused() {
    let mut config = small();
    let f = &mut config.flash;
    (f.blocks, f.pages, f.page) = (1, 1, Size(512));
    f.over_provisioning = 0.9;
    for precondition in [false, true] {
        config.precondition = precondition;
        let flows = [flow(1.0, 4, 1, 100)];
        let error = run(&config, &flows, &RunOptions::default()).unwrap_err();
        assert!(error.to_string().contains("not one sector"), "{error}");
    }
}

#[test]
fn energy_is_the_sum_of_what_was_done() {
    let mut config = small();
    config.energy.idle_watts = 2.0;
    let read = written_part(flow(1.0, 4, 8, 1_000), 0.6);
    let summary = simulate(&config, &[read]).summary;
    // A read moves its 4096 bytes over a bus and the link.
    let a_read_nj =
        config.energy.read_nj + 4096.0 * (config.energy.bus_byte_nj + config.energy.link_byte_nj);
    let idle_joules = 2.0 * summary.total.sim_end_ns as f64 * 1e-9;
    let expected = 1_000.0 * a_read_nj * 1e-9 + idle_joules;
    let off = summary.energy_joules / expected - 1.0;
    assert!(off.abs() < 1e-4, "{} and {expected}", summary.energy_joules);
}
