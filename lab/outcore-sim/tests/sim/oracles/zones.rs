//! Zoned namespaces: which writes are possible, and that nothing is ever moved.
//!
//! Contract: as in the parent module.

use super::*;
use outcore_sim::drive::{Done, Status};
use outcore_sim::quantities::MS;

const PAGE_SECTORS: u64 = 16;
/// Two blocks of 16 pages.
const ZONE_SECTORS: u64 = 2 * 16 * PAGE_SECTORS;

/// Four planes, one namespace of zones.
fn zoned() -> DriveConfig {
    let mut config = small();
    config.precondition = false;
    let f = &mut config.flash;
    (f.channels, f.chips, f.dies, f.planes) = (2, 1, 1, 2);
    (f.blocks, f.pages) = (32, 16);
    f.erase = Time(3 * MS);
    config.namespaces.sizes = vec![Size(0)];
    config.zones.namespaces = vec![0];
    config.zones.blocks = 2;
    config
}

struct Step {
    op: Op,
    lba: u64,
    sectors: u64,
}

fn write(lba: u64, sectors: u64) -> Step {
    let op = Op::Write;
    Step { op, lba, sectors }
}

fn reset(zone: u64) -> Step {
    Step {
        op: Op::Trim,
        lba: zone * ZONE_SECTORS,
        sectors: ZONE_SECTORS,
    }
}

/// A flow that makes one step after another, or `depth` at a time.
fn steps(steps: &[Step], depth: u32) -> FlowConfig {
    let mut flow = flow(0.0, 1, 16, 1);
    flow.origin = Origin::List(List {
        items: steps
            .iter()
            .map(|step| ListItem {
                at: 0,
                op: step.op,
                lba: step.lba,
                sectors: step.sectors as u32,
            })
            .collect(),
        depth,
        rounds: 1,
        file: None,
    });
    flow
}

fn logged(config: &DriveConfig, flow: FlowConfig) -> (Outcome, Vec<Done>) {
    let options = RunOptions {
        keep_log: true,
        ..RunOptions::default()
    };
    let mut outcome = run(config, &[flow], &options).unwrap();
    let log = std::mem::take(&mut outcome.log);
    (outcome, log)
}

/// A flow that writes its zones one after the other, again and again.
fn log_structured(sectors: u32, depth: u32, requests: u64) -> FlowConfig {
    let mut flow = flow(0.0, depth, sectors, requests);
    if let Origin::Synthetic(spec) = &mut flow.origin {
        spec.addresses = Addresses::Streaming;
    }
    flow
}

#[test]
fn a_write_that_a_zone_does_not_allow_fails_with_the_status_of_nvme() {
    let mut config = zoned();
    config.zones.active = 2;
    let zone = ZONE_SECTORS;
    let cases = [
        (write(0, 16), Status::Success),
        (write(32, 16), Status::ZoneInvalidWrite), // beyond the pointer
        (write(16, 32), Status::Success),
        (write(16, 16), Status::ZoneInvalidWrite), // written already
        (write(48, 8), Status::ZoneInvalidWrite),  // half a mapping unit
        (write(zone, 16), Status::Success),
        (write(2 * zone, 16), Status::TooManyActiveZones),
        (write(48, zone - 48), Status::Success), // to the end of the zone, which is then full
        (write(0, 16), Status::ZoneIsFull),
        (write(2 * zone, 16), Status::Success),
        (write(3 * zone, 16), Status::TooManyActiveZones),
        (write(2 * zone + 16, zone), Status::ZoneBoundary),
        (reset(1), Status::Success),
        (write(3 * zone, 16), Status::Success),
        (reset(0), Status::Success),
        (write(2 * zone + 16, 16), Status::Success),
    ];
    let (steps_of, expected): (Vec<Step>, Vec<Status>) = cases.into_iter().unzip();
    let (outcome, log) = logged(&config, steps(&steps_of, 1));
    let seen: Vec<Status> = log.iter().map(|done| done.status).collect();
    assert_eq!(seen, expected);
    let failed = expected.iter().filter(|status| **status != Status::Success);
    let summary = &outcome.summary;
    assert_eq!(summary.total.failed, failed.count() as u64);
    assert!(
        summary
            .warnings
            .iter()
            .any(|text| text.contains("Zone Is Full")),
        "{:?}",
        summary.warnings
    );
}

#[test]
fn zones_that_are_written_and_reset_in_turn_move_nothing() {
    for (unit, sectors) in [(0, 16), (4096, 8), (4096, 24), (2048, 4)] {
        let mut config = zoned();
        config.precondition = true;
        config.mapping.unit = Size(unit);
        // Five times the drive.
        let requests = 5 * 32 * 16 * 4 * PAGE_SECTORS / u64::from(sectors);
        let mut flow = log_structured(sectors, 8, requests);
        flow.queue.occupancy = 1.0;
        let summary = simulate(&config, &[flow]).summary;
        let counters = &summary.counters;
        assert_eq!(summary.total.failed, 0, "{:?}", summary.warnings);
        assert_eq!((counters.moved_units, counters.collections), (0, 0));
        assert_eq!(summary.write_amplification, 1.0, "unit {unit}, {sectors}");
        let zones = 32 * 16 * 4 * PAGE_SECTORS / ZONE_SECTORS;
        assert!(counters.zone_resets > 4 * zones, "{}", counters.zone_resets);
        assert!(counters.block_erases >= 2 * (counters.zone_resets - 1));
    }
}

#[test]
fn a_reset_takes_an_erase_and_leaves_nothing_to_read() {
    let config = zoned();
    let read = Step {
        op: Op::Read,
        ..write(0, 16)
    };
    let read_again = Step {
        op: Op::Read,
        ..write(0, 16)
    };
    let list = [
        write(0, ZONE_SECTORS),
        read,
        reset(0),
        reset(0),
        read_again,
        write(0, 16),
    ];
    let (outcome, log) = logged(&config, steps(&list, 1));
    let response = |at: usize| log[at].completed - log[at].enqueued;
    assert!(
        (3 * MS..3 * MS + 20 * US).contains(&response(2)),
        "{}",
        response(2)
    );
    assert!(response(3) < 20 * US, "an empty zone has nothing to erase");
    assert!(response(1) > 75 * US && response(4) < 20 * US);
    let counters = &outcome.summary.counters;
    assert_eq!(counters.unwritten_reads, 1);
    assert_eq!((counters.zone_resets, counters.block_erases), (1, 2));
    assert_eq!(outcome.summary.total.failed, 0);
}

#[test]
fn appends_fill_a_zone_in_the_order_in_which_they_come() {
    let config = zoned();
    let appends: Vec<Step> = (0..8).map(|_| write(0, 64)).collect();
    let mut flow = steps(&appends, 8);
    flow.queue.append = true;
    let (outcome, log) = logged(&config, flow);
    assert_eq!(outcome.summary.total.failed, 0);
    let mut places: Vec<u64> = log.iter().map(|done| done.lba).collect();
    places.sort_unstable();
    assert_eq!(places, (0..8).map(|at| at * 64).collect::<Vec<u64>>());
}

#[test]
fn with_a_cache_a_write_waits_for_no_program() {
    let mut flow = steps(&[write(0, 16)], 1);
    let response = |flow: &FlowConfig| {
        let (_, log) = logged(&zoned(), flow.clone());
        log[0].completed - log[0].enqueued
    };
    let programmed = response(&flow);
    flow.queue.caching = Caching::Write;
    let cached = response(&flow);
    assert!(
        programmed > 750 * US && cached < 20 * US,
        "{programmed} {cached}"
    );
}

#[test]
fn the_drive_closes_the_zone_that_was_written_longest_ago() {
    let mut config = zoned();
    config.zones.open = 2;
    let of_zone = |zone: u64, page: u64| write(zone * ZONE_SECTORS + page * 16, 16);
    let list = [
        of_zone(0, 0),
        of_zone(1, 0),
        of_zone(0, 1),
        of_zone(2, 0), // closes 1
        of_zone(0, 2),
        of_zone(1, 1), // closes 2
    ];
    let (outcome, _) = logged(&config, steps(&list, 1));
    assert_eq!(outcome.summary.total.failed, 0);
    assert_eq!(outcome.summary.counters.zone_closes, 2);
}

#[test]
fn zones_keep_their_blocks_beside_a_namespace_that_collects() {
    let mut config = zoned();
    config.precondition = true;
    config.flash.blocks = 64;
    config.flash.over_provisioning = 0.25;
    config.namespaces.sizes = vec![Size(0), Size(0)];
    let mut random = flow(0.0, 8, 16, 20_000);
    random.queue.namespace = 1;
    random.queue.occupancy = 1.0;
    let mut log = log_structured(16, 8, 20_000);
    log.queue.occupancy = 1.0;
    let summary = simulate(&config, &[log, random]).summary;
    assert_eq!(summary.total.failed, 0, "{:?}", summary.warnings);
    let [zones, others] = &summary.namespaces[..] else {
        panic!("{} namespaces", summary.namespaces.len());
    };
    assert_eq!((zones.moved_units, zones.write_amplification), (0, 1.0));
    assert!(others.write_amplification > 1.1, "{others:?}");
}

#[test]
fn flows_share_the_zones_of_a_namespace_in_equal_parts() {
    let config = zoned();
    let flows = [log_structured(16, 4, 3000), log_structured(16, 4, 3000)];
    let summary = simulate(&config, &flows).summary;
    assert_eq!(summary.total.failed, 0, "{:?}", summary.warnings);
    let mut config = config;
    config.zones.blocks = 30;
    let error = run(&config, &flows, &RunOptions::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("fewer than two zones"), "{error}");
}
