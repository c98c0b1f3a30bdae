//! The SLC cache: burst, cliff and folding on a drive of one plane, by closed formulas.
//!
//! Contract: as in the parent module.

use super::*;
use outcore_sim::config::Cell;
use outcore_sim::drive::Done;
use outcore_sim::quantities::MS;

/// Pages of a block with three bits, and with one.
const PAGES: u64 = 48;
const SLC_PAGES: u64 = PAGES / 3;
const SLC_BLOCKS: u64 = 8;
const BURST: u64 = SLC_BLOCKS * SLC_PAGES;

fn one_plane() -> DriveConfig {
    let mut config = small();
    config.precondition = false;
    let f = &mut config.flash;
    (f.channels, f.chips, f.dies, f.planes) = (1, 1, 1, 1);
    (f.blocks, f.pages, f.cell) = (128, PAGES as u32, Cell::Tlc);
    f.over_provisioning = 0.25;
    f.read = vec![Time(50 * US)];
    f.program = vec![Time(600 * US)];
    f.erase = Time(3 * MS);
    config.slc.blocks = SLC_BLOCKS as u32;
    config.slc.read = Time(20 * US);
    config.slc.program = Time(100 * US);
    config
}

/// Writes of whole pages to consecutive addresses: at the times that `arrival` returns, or `depth`
/// at a time.
fn writes(count: u64, arrival: impl Fn(u64) -> u64, depth: u32) -> FlowConfig {
    let mut writes = flow(0.0, 1, 16, 1);
    writes.origin = Origin::List(List {
        items: (0..count)
            .map(|at| ListItem {
                at: arrival(at),
                op: Op::Write,
                lba: at * 16,
                sectors: 16,
            })
            .collect(),
        depth,
        rounds: 1,
        file: None,
    });
    writes
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

fn response(done: &Done) -> u64 {
    done.completed - done.enqueued
}

#[test]
fn a_burst_has_the_program_time_of_one_bit_and_ends_where_the_cache_is_full() {
    let config = one_plane();
    let (outcome, log) = logged(&config, writes(BURST + 1, |_| 0, 1));
    let mut without = config.clone();
    without.slc.blocks = 0;
    let (slow, slow_log) = logged(&without, writes(BURST + 1, |_| 0, 1));
    let fast = response(&log[1]);
    assert!(
        log[1..BURST as usize]
            .iter()
            .all(|done| response(done) == fast)
    );
    // Everything but the program takes equally long.
    assert_eq!(response(&slow_log[1]) - fast, 500 * US);
    assert!(response(&log[BURST as usize]) > response(&slow_log[1]));
    assert_eq!(outcome.summary.counters.slc_units, BURST);
    let counters = &slow.summary.counters;
    assert_eq!((counters.slc_units, counters.folds), (0, 0));
}

#[test]
fn sustained_writes_pay_for_the_folding() {
    let config = one_plane();
    let cycles = 40;
    let count = BURST + cycles * (SLC_PAGES + 1);
    let (outcome, log) = logged(&config, writes(count, |_| 0, 1));
    let mut without = config.clone();
    without.slc.blocks = 0;
    let (_, slow_log) = logged(&without, writes(2, |_| 0, 1));
    let (fast, slow) = (response(&log[1]), response(&slow_log[1]));
    // A cycle consists of the fold of a block (reads, programs and erase with their transfers), one
    // write that starts the fold, and the fast writes that fill the freed block.
    let transfer = 8192 / 2 * 6 * NS;
    let read = 290 * NS + (20 * US + 20 * NS) + transfer;
    let program = 361 * NS + transfer + 600 * US;
    let erase = 220 * NS + 3 * MS;
    let cycle = SLC_PAGES * (read + program) + erase + slow + SLC_PAGES * fast;
    let sustained = log[log.len() - 1].completed - log[BURST as usize - 1].completed;
    let off = sustained as f64 / (cycles * cycle) as f64 - 1.0;
    assert!(off.abs() < 0.02, "{off}");
    // Every folded page is programmed twice.
    let counters = &outcome.summary.counters;
    assert_eq!(counters.moved_units, counters.folds * SLC_PAGES);
    assert_eq!(
        counters.page_programs,
        counters.user_units + counters.moved_units
    );
}

#[test]
fn idle_time_restores_the_burst() {
    let pause = 10_000 * MS;
    let arrival = |at| at * MS + if at < BURST { 0 } else { pause };
    let (outcome, log) = logged(&one_plane(), writes(2 * BURST, arrival, 0));
    let fast = response(&log[1]);
    assert!(log.iter().all(|done| response(done) == fast));
    let counters = &outcome.summary.counters;
    // The drive folds all of its blocks after the last request as well.
    assert_eq!(counters.slc_units, 2 * BURST);
    assert_eq!(counters.folds, 2 * SLC_BLOCKS);
    let end = outcome.summary.total.sim_end_ns * NS;
    let last = log.iter().map(|done| done.completed).max().unwrap();
    assert!(end > last + 100 * MS, "the default of slc.idle");

    let mut busy = one_plane();
    busy.slc.idle = Time(20_000 * MS);
    let (outcome, log) = logged(&busy, writes(2 * BURST, arrival, 0));
    assert!(response(&log[BURST as usize]) > fast + 500 * US);
    assert!(outcome.summary.counters.slc_units < 2 * BURST);
}

#[test]
fn data_that_is_overwritten_in_the_cache_is_not_folded() {
    let config = one_plane();
    // Every page is written twice, so half of the blocks are obsolete when the drive folds them.
    let half = BURST / 2;
    let mut flow = writes(BURST, |_| 0, 1);
    if let Origin::List(list) = &mut flow.origin {
        for (at, item) in list.items.iter_mut().enumerate() {
            item.lba = at as u64 % half * 16;
        }
    }
    let (outcome, _) = logged(&config, flow);
    let counters = &outcome.summary.counters;
    assert_eq!(counters.folds, SLC_BLOCKS);
    assert_eq!(counters.moved_units, half);
    assert_eq!(counters.page_reads, half);
}

#[test]
fn pages_of_the_cache_are_read_with_the_time_of_one_bit() {
    let config = one_plane();
    let mut flow = writes(2 * SLC_PAGES, |at| at * MS, 0);
    if let Origin::List(list) = &mut flow.origin {
        let reads = list.items.clone().into_iter().map(|item| ListItem {
            at: item.at + 50 * MS,
            op: Op::Read,
            ..item
        });
        // The reads come before and after the folding in idle time.
        let later = reads.clone().map(|item| ListItem {
            at: item.at + 10_000 * MS,
            ..item
        });
        list.items = list
            .items
            .iter()
            .copied()
            .chain(reads)
            .chain(later)
            .collect();
    }
    let (_, log) = logged(&config, flow);
    let count = 2 * SLC_PAGES as usize;
    let (early, late) = (&log[count..2 * count], &log[2 * count..]);
    for (early, late) in early.iter().zip(late) {
        assert_eq!(response(late) - response(early), 30 * US);
    }
}

#[test]
fn a_full_drive_has_a_smaller_cache() {
    let slc_units = |occupancy: f64| {
        let mut config = one_plane();
        config.precondition = true;
        config.flash.over_provisioning = 0.08;
        let mut flow = writes(BURST, |_| 0, 1);
        flow.queue.occupancy = occupancy;
        logged(&config, flow).0.summary.counters.slc_units
    };
    assert_eq!(slc_units(0.5), BURST);
    let full = slc_units(1.0);
    assert!(full < BURST, "{full}");
}

#[test]
fn idle_time_makes_room_on_a_drive_whose_blocks_are_all_in_use() {
    let mut config = one_plane();
    config.flash.over_provisioning = 0.4;
    // Half of the data is overwritten at random until collection keeps the free blocks at its
    // threshold. Then there is a pause, and a burst.
    let pages = 128 * PAGES * 6 / 10;
    let before = 3 * pages;
    let burst = |idle: u64| {
        let mut config = config.clone();
        config.slc.idle = Time(idle);
        let mut flow = writes(
            before + BURST,
            |at| at * 2 * MS + 60_000 * MS * (at / before),
            0,
        );
        if let Origin::List(list) = &mut flow.origin {
            let mut place = 1u64;
            for item in &mut list.items {
                place = place
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                item.lba = (place >> 33) % (pages / 2) * 16;
            }
        }
        let (_, log) = logged(&config, flow);
        let fastest = log.iter().map(response).min().unwrap();
        let burst = &log[before as usize..];
        burst
            .iter()
            .filter(|done| response(done) == fastest)
            .count() as u64
    };
    let rested = burst(100 * MS);
    assert!(rested >= BURST - SLC_PAGES, "{rested}");
    let tired = burst(3_000_000 * MS);
    assert!(tired < BURST / 2, "{tired}");
}
