//! Collection and wear: compares write amplification with formulas and models, and checks what
//! collection moves and when it stops.
//!
//! Contract: as in the parent module.

use super::*;

#[test]
fn greedy_collection_amplifies_uniform_writes_as_the_formula_says() {
    let mut config = small();
    config.flash.channels = 1;
    config.flash.chips = 1;
    config.flash.dies = 1;
    config.flash.planes = 1;
    config.flash.blocks = 512;
    config.flash.pages = 64;
    config.flash.over_provisioning = 0.2;
    config.gc.policy = GcPolicy::Greedy;
    config.gc.threshold = 0.01;
    config.gc.concurrent = 2;
    let capacity = 512 * 64 * 8 / 10;
    // Each write is a whole unit; the drive is full and its capacity is written four times.
    let mut writes = flow(0.0, 8, 16, 4 * capacity);
    writes.queue.occupancy = 1.0;
    let counters = simulate(&config, &[writes]).summary.counters;
    let amplification = 1.0 + counters.moved_units as f64 / counters.user_units as f64;
    let naive = naive_greedy(512, 64, 0.8, 5);
    assert!(
        (amplification / naive - 1.0).abs() < 0.03,
        "{amplification} instead of {naive}"
    );
    // Desnoyers' closed form (SYSTOR 2012), for blocks without a reserve and many pages:
    // A = alpha / (alpha + W(-alpha e^-alpha)), alpha = physical / logical.
    let alpha = (512.0 - 5.0 - 2.0) / (512.0 * 0.8);
    let mut w = -0.3f64;
    let target = -alpha * f64::exp(-alpha);
    for _ in 0..200 {
        let e = w.exp();
        w -= (w * e - target) / (e * (w + 1.0));
    }
    let formula = alpha / (alpha + w);
    assert!(
        (amplification / formula - 1.0).abs() < 0.08,
        "{amplification} instead of {formula}"
    );
}

/// Write amplification of uniform writes of whole units on one plane, in the steady state that they
/// reach.
fn amplification_by(policy: GcPolicy, choices: u32) -> f64 {
    let mut config = small();
    let f = &mut config.flash;
    (f.channels, f.chips, f.dies, f.planes) = (1, 1, 1, 1);
    (f.blocks, f.pages, f.over_provisioning) = (D_BLOCKS, D_PAGES, 1.0 - D_LOAD);
    config.gc.policy = policy;
    config.gc.choices = choices;
    config.gc.threshold = (f64::from(D_RESERVE) + 0.5) / f64::from(D_BLOCKS);
    config.gc.concurrent = 2;
    config.precondition = false;
    let units = (f64::from(D_BLOCKS * D_PAGES) * D_LOAD) as u64;
    let mut writes = flow(0.0, 8, 16, 8 * units);
    writes.queue.occupancy = 1.0;
    let options = RunOptions {
        warm_up: 5 * units,
        ..RunOptions::default()
    };
    let counters = run(&config, &[writes], &options).unwrap().summary.counters;
    1.0 + counters.moved_units as f64 / counters.user_units as f64
}

const D_BLOCKS: u32 = 256;
const D_PAGES: u32 = 32;
const D_LOAD: f64 = 0.8;
const D_RESERVE: u32 = 5;

/// The mean-field limit of d-choices collection under uniform writes (B. Van Houdt, SIGMETRICS
/// 2013). `share[i]` of the blocks have `i` valid pages. A collection takes the block with the
/// fewest valid pages among `choices` random blocks, moves its `j` valid pages and fills it up with
/// new writes. Each write makes a random valid page obsolete. With `skips_valid` only blocks with
/// obsolete pages are drawn, as in the drive.
fn mean_field(choices: u32, pages: usize, load: f64, skips_valid: bool) -> f64 {
    let mean = load * pages as f64;
    let mut share = vec![0.0; pages + 1];
    share[mean as usize] = 1.0 - mean.fract();
    share[mean as usize + 1] = mean.fract();
    let step = 0.02;
    let mut moved = 0.0;
    for _ in 0..3_000 {
        let drawn = if skips_valid { pages } else { pages + 1 };
        let mut at_least: Vec<f64> = share[..drawn].to_vec();
        for i in (0..drawn - 1).rev() {
            at_least[i] += at_least[i + 1];
        }
        let all = at_least[0];
        let power = |i: usize| {
            let tail = at_least.get(i).map_or(0.0, |tail| tail / all);
            tail.powi(choices as i32)
        };
        let taken: Vec<f64> = (0..=pages).map(|i| power(i) - power(i + 1)).collect();
        moved = (0..=pages).map(|i| i as f64 * taken[i]).sum();
        let worn = |i: usize| share.get(i).map_or(0.0, |share| i as f64 * share);
        let flow = (pages as f64 - moved) / mean;
        let next = (0..=pages).map(|i| {
            let filled = f64::from(u8::from(i == pages));
            share[i] + step * (filled - taken[i] + flow * (worn(i + 1) - worn(i)))
        });
        share = next.collect();
    }
    pages as f64 / (pages as f64 - moved)
}

#[test]
fn d_choices_amplify_as_the_mean_field_says_between_random_and_greedy() {
    // Blocks that are kept free, and the two blocks that are being filled, hold no load.
    let load = D_LOAD * f64::from(D_BLOCKS) / f64::from(D_BLOCKS - D_RESERVE - 2);
    let mut before = f64::INFINITY;
    let mut first = 0.0;
    for choices in [1, 2, 5] {
        let seen = amplification_by(GcPolicy::Rga, choices);
        let expected = mean_field(choices, D_PAGES as usize, load, true);
        println!("{choices} choices: {seen:.3}, mean field {expected:.3}");
        assert!(
            (seen / expected - 1.0).abs() < 0.06,
            "{choices} choices: {seen} instead of {expected}"
        );
        assert!(seen < before, "{choices} choices: {seen} after {before}");
        before = seen;
        if choices == 1 {
            first = seen;
        }
    }
    // A single choice has a closed form and is the random policy; choosing among all blocks is the
    // greedy policy.
    assert!((mean_field(1, 32, load, false) * (1.0 - load) - 1.0).abs() < 1e-6);
    let random = amplification_by(GcPolicy::RandomP, 0);
    assert!(
        (first / random - 1.0).abs() < 0.04,
        "{first} against {random}"
    );
    let greedy = amplification_by(GcPolicy::Greedy, 0);
    let all = amplification_by(GcPolicy::Rga, D_BLOCKS);
    println!("random {random:.3}, all choices {all:.3}, greedy {greedy:.3}");
    assert!((all / greedy - 1.0).abs() < 0.03, "{all} against {greedy}");
    assert!(greedy < before, "{greedy} after {before}");
}

#[test]
fn a_state_made_by_writing_is_measured_alone_and_amplifies_as_the_one_made_by_arithmetic() {
    let mut config = small();
    config.flash.channels = 2;
    config.flash.chips = 1;
    config.flash.blocks = 128;
    config.flash.pages = 32;
    config.flash.over_provisioning = 0.2;
    let measured = |precondition: bool, warm_up: u64, requests: u64| {
        let mut config = config.clone();
        config.precondition = precondition;
        let mut writes = flow(0.0, 8, 16, requests);
        writes.queue.occupancy = 1.0;
        let options = RunOptions {
            warm_up,
            keep_log: true,
            ..RunOptions::default()
        };
        run(&config, &[writes], &options)
    };
    let (by_writing, all) = (measured(false, 100_000, 150_000).unwrap(), 150_000);
    let total = &by_writing.summary.total;
    assert_eq!(total.requests, total.generated);
    assert!(total.requests < all - 90_000 && total.requests > all - 110_000);
    assert_eq!(by_writing.log.len() as u64, total.requests);
    let first = by_writing.log.first().unwrap().completed / NS;
    let last = by_writing.log.last().unwrap().completed / NS;
    assert!(total.sim_end_ns >= last - first && total.sim_end_ns < last);
    let by_arithmetic = measured(true, 0, 50_000).unwrap();
    let amplification = [&by_writing, &by_arithmetic].map(|run| run.summary.write_amplification);
    assert!(
        (amplification[0] / amplification[1] - 1.0).abs() < 0.15 && amplification[0] > 1.5,
        "{amplification:?}"
    );
    let error = measured(true, 200_000, 150_000).unwrap_err().to_string();
    assert!(error.contains("warm-up"), "{error}");
}

/// Greedy collection in a few lines: one unit per write, uniform, without time.
fn naive_greedy(blocks: usize, pages: usize, load: f64, reserve: usize) -> f64 {
    let units = (blocks as f64 * pages as f64 * load) as usize;
    let mut state = 88172645463325252u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut place = vec![usize::MAX; units];
    let mut content = vec![usize::MAX; blocks * pages];
    let mut valid = vec![0usize; blocks];
    let mut full = vec![false; blocks];
    let mut free: std::collections::VecDeque<usize> = (0..blocks).collect();
    let mut open = [
        free.pop_front().unwrap() * pages,
        free.pop_front().unwrap() * pages,
    ];
    let (mut writes, mut moves) = (0u64, 0u64);
    for round in 0..6 * units {
        let unit = if round < units { round } else { random(units) };
        let mut todo = vec![(unit, 0)];
        let mut victim = None;
        while let Some((unit, kind)) = todo.pop() {
            if place[unit] != usize::MAX {
                valid[place[unit] / pages] -= 1;
                content[place[unit]] = usize::MAX;
            }
            place[unit] = open[kind];
            content[open[kind]] = unit;
            valid[open[kind] / pages] += 1;
            open[kind] += 1;
            if open[kind].is_multiple_of(pages) {
                full[open[kind] / pages - 1] = true;
                open[kind] = free.pop_front().unwrap() * pages;
            }
            let counted = round >= 3 * units;
            writes += u64::from(counted && kind == 0);
            moves += u64::from(counted && kind == 1);
            if todo.is_empty() {
                free.extend(victim.take());
                if free.len() < reserve {
                    let best = (0..blocks)
                        .filter(|b| full[*b])
                        .min_by_key(|b| valid[*b])
                        .unwrap();
                    full[best] = false;
                    victim = Some(best);
                    let range = best * pages..(best + 1) * pages;
                    todo.extend(
                        content[range]
                            .iter()
                            .filter(|u| **u != usize::MAX)
                            .map(|u| (*u, 1)),
                    );
                    if todo.is_empty() {
                        free.extend(victim.take());
                    }
                }
            }
        }
    }
    1.0 + moves as f64 / writes as f64
}

#[test]
fn collected_data_apart_from_new_data_saves_moves_where_some_is_hot() {
    let amplification = |separate: bool, ratio: f64| {
        let mut config = small();
        let f = &mut config.flash;
        (f.channels, f.chips, f.dies, f.planes) = (1, 1, 1, 1);
        (f.blocks, f.pages, f.over_provisioning) = (256, 32, 0.2);
        config.gc.policy = GcPolicy::Greedy;
        config.gc.threshold = 0.02;
        config.gc.concurrent = 2;
        config.gc.separate = separate;
        let mut writes = flow(0.0, 8, 16, 120_000);
        writes.queue.occupancy = 1.0;
        if let Origin::Synthetic(spec) = &mut writes.origin {
            spec.addresses = Addresses::HotCold { ratio };
        }
        let options = RunOptions {
            warm_up: 60_000,
            ..RunOptions::default()
        };
        let summary = run(&config, &[writes], &options).unwrap().summary;
        summary.write_amplification
    };
    let (hot, mixed) = (amplification(true, 0.1), amplification(false, 0.1));
    let (even, even_mixed) = (amplification(true, 0.5), amplification(false, 0.5));
    println!("hot {hot:.3}, mixed {mixed:.3}; uniform {even:.3}, mixed {even_mixed:.3}");
    assert!(hot < 0.9 * mixed, "{hot} and {mixed}");
    assert!(
        (even / even_mixed - 1.0).abs() < 0.05,
        "{even} and {even_mixed}"
    );
}

/// A small drive that is short of free blocks.
fn crowded() -> DriveConfig {
    let mut config = small();
    config.flash.channels = 2;
    config.flash.chips = 1;
    config.flash.dies = 2;
    config.flash.over_provisioning = 0.15;
    config.gc.threshold = 0.2;
    config.gc.hard_threshold = 0.05;
    config
}

#[test]
fn collection_that_lets_users_pass_shortens_their_requests() {
    let mean = |preemptible: bool| {
        let mut config = crowded();
        config.gc.preemptible = preemptible;
        let mut mixed = flow(0.7, 16, 16, 20_000);
        mixed.queue.occupancy = 0.9;
        let summary = simulate(&config, &[mixed]).summary;
        assert!(summary.counters.collections > 100);
        summary.total.mean_response_ns
    };
    let (lets_pass, does_not) = (mean(true), mean(false));
    assert!(2.0 * lets_pass < does_not, "{lets_pass} and {does_not}");
}

#[test]
fn static_wear_levelling_moves_what_is_cold_and_evens_the_erases() {
    let wear = |levels: bool| {
        let mut config = crowded();
        config.gc.static_wear_levelling = levels;
        config.gc.wear_threshold = 5;
        let mut writes = flow(0.0, 16, 16, 60_000);
        if let Origin::Synthetic(spec) = &mut writes.origin {
            spec.addresses = Addresses::HotCold { ratio: 0.1 };
        }
        let summary = simulate(&config, &[writes]).summary;
        let used = f64::from(summary.wear.erases_max) / f64::from(config.flash.endurance);
        assert_eq!(summary.wear.endurance_used, used);
        let spread = summary.wear.erases_max - summary.wear.erases_min;
        (summary.counters.wear_moves, spread)
    };
    let ((moves, even), (none, uneven)) = (wear(true), wear(false));
    assert!(moves > 50 && none == 0, "{moves} and {none}");
    assert!(even < uneven, "{even} and {uneven}");
}

/// The block that receives table pages is seldom full, and so seldom erased.
#[test]
fn static_wear_levelling_is_not_held_up_by_a_block_that_is_being_filled() {
    let mut config = crowded();
    config.mapping.resident = false;
    config.gc.static_wear_levelling = true;
    config.gc.wear_threshold = 5;
    let mut writes = flow(0.0, 16, 16, 60_000);
    writes.queue.occupancy = 0.7;
    if let Origin::Synthetic(spec) = &mut writes.origin {
        spec.addresses = Addresses::HotCold { ratio: 0.1 };
    }
    let summary = simulate(&config, &[writes]).summary;
    let moves = summary.counters.wear_moves;
    assert!(moves > 50, "{moves} moves, {:?}", summary.wear);
}

/// A collector that is asked for more free blocks than possible stops when a collection gains
/// nothing, instead of moving the same data forever.
#[test]
fn collection_comes_to_rest_when_it_gains_nothing() {
    let mut config = crowded();
    config.precondition = false;
    (config.flash.blocks, config.flash.pages) = (24, 4);
    config.flash.page = Size(16384);
    config.flash.over_provisioning = 0.5;
    config.gc.threshold = 0.9;
    config.gc.wear_threshold = 0;
    for policy in [
        GcPolicy::Greedy,
        GcPolicy::Rga,
        GcPolicy::Random,
        GcPolicy::Fifo,
    ] {
        for (unit, levels) in [(512, false), (4096, false), (0, true)] {
            config.gc.policy = policy;
            config.mapping.unit = Size(unit);
            config.gc.static_wear_levelling = levels;
            let writes = flow(0.0, 4, 8, 2_000);
            let options = RunOptions {
                watch: Watch::new(patience(2_000_000)),
                ..RunOptions::default()
            };
            let total = run(&config, &[writes], &options).unwrap().summary.total;
            assert_eq!(total.requests, 2_000);
        }
    }
}

/// Returns an error after about this many events.
fn patience(events: u64) -> impl Fn() -> outcore::Result<()> {
    let asked = AtomicU64::new(0);
    move || {
        if 4096 * asked.fetch_add(1, Ordering::Relaxed) < events {
            return Ok(());
        }
        Err(outcore::Error::usage("wait for the run", "it does not end"))
    }
}
