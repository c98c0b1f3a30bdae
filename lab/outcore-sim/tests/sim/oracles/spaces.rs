//! Namespaces and placement handles: what shares blocks, and what that costs.
//!
//! Contract: as in the parent module.

use super::*;
use outcore_sim::config::Isolation;

const PAGE_SECTORS: u32 = 16;
const PAGE_BYTES: u64 = 8192;
/// Pages of the namespace that is overwritten at random.
const HOT_PAGES: u64 = 256;

/// A drive of one plane with two namespaces: a small one, and one with all the rest.
fn divided() -> DriveConfig {
    let mut config = small();
    let f = &mut config.flash;
    (f.channels, f.chips, f.dies, f.planes) = (1, 1, 1, 1);
    (f.blocks, f.pages, f.over_provisioning) = (256, 32, 0.2);
    config.gc.policy = GcPolicy::Greedy;
    config.gc.threshold = 0.02;
    config.gc.concurrent = 2;
    config.namespaces.sizes = vec![Size(HOT_PAGES * PAGE_BYTES), Size(0)];
    config
}

/// Writes of two lifetimes to a full drive: one flow overwrites the small namespace at random, the
/// other overwrites the large one from end to end, and has the placement handle `handle`.
fn two_lifetimes(handle: u16) -> Vec<FlowConfig> {
    let mut hot = flow(0.0, 4, PAGE_SECTORS, 30_000);
    hot.queue.occupancy = 1.0;
    let mut cold = hot.clone();
    (cold.queue.namespace, cold.queue.handle) = (1, handle);
    if let Origin::Synthetic(spec) = &mut cold.origin {
        spec.addresses = Addresses::Streaming;
    }
    vec![hot, cold]
}

fn steady(config: &DriveConfig, flows: &[FlowConfig]) -> Outcome {
    let options = RunOptions {
        warm_up: 30_000,
        ..RunOptions::default()
    };
    run(config, flows, &options).unwrap()
}

#[test]
fn writes_of_two_lifetimes_amplify_less_if_they_have_a_handle_each() {
    let mut config = divided();
    config.fdp.handles = 2;
    let mixed = steady(&config, &two_lifetimes(0)).summary;
    let apart = steady(&config, &two_lifetimes(1)).summary;
    assert!(mixed.write_amplification > 1.3, "{mixed:?}");
    assert!(apart.write_amplification < 1.03, "{apart:?}");
    // A block of the sequential flow is obsolete as a whole before it is collected.
    assert_eq!(apart.handles[1].moved_units, 0);
    assert_eq!(apart.namespaces[1].moved_units, 0);
    assert_eq!(mixed.handles[1].host_units, 0);
    // Without placement, collection mostly moves data that lives long.
    assert!(mixed.namespaces[1].moved_units > 4 * mixed.namespaces[0].moved_units);
}

#[test]
fn the_parts_of_a_drive_add_up_to_the_drive() {
    for isolation in [Isolation::Persistent, Isolation::Initial] {
        let mut config = divided();
        config.fdp.handles = 3;
        config.fdp.isolation = isolation;
        let mut flows = two_lifetimes(2);
        flows[1].queue.namespace = 0;
        let summary = simulate(&config, &flows).summary;
        let counters = &summary.counters;
        for parts in [&summary.namespaces, &summary.handles] {
            let host: u64 = parts.iter().map(|part| part.host_units).sum();
            let moved: u64 = parts.iter().map(|part| part.moved_units).sum();
            assert_eq!((host, moved), (counters.user_units, counters.moved_units));
        }
        let names: Vec<&str> = summary
            .handles
            .iter()
            .map(|part| part.name.as_str())
            .collect();
        match isolation {
            Isolation::Persistent => assert_eq!(names, ["0", "1", "2"]),
            Isolation::Initial => assert_eq!(names, ["0", "1", "2", "collected"]),
        }
        assert_eq!(summary.handles[1].host_units, 0);
        assert_eq!(summary.namespaces[1].host_units, 0);
    }
}

#[test]
fn a_namespace_of_everything_and_one_handle_change_nothing() {
    let mut config = divided();
    config.namespaces.sizes = Vec::new();
    // The host sees whole pages.
    config.flash.over_provisioning = 0.25;
    let flow = [flow(0.3, 8, PAGE_SECTORS, 20_000)];
    let plain = simulate(&config, &flow).summary;
    assert!(plain.namespaces.is_empty() && plain.handles.is_empty());
    config.namespaces.sizes = vec![Size(0)];
    let whole = simulate(&config, &flow).summary;
    config.fdp.handles = 1;
    let placed = simulate(&config, &flow).summary;
    assert_eq!(
        (&plain.digest, &plain.digest),
        (&whole.digest, &placed.digest)
    );
}

#[test]
fn flows_of_one_namespace_see_the_same_data() {
    let mut config = divided();
    config.precondition = false;
    let list = |op: Op, at: u64| {
        let mut list = flow(0.0, 1, PAGE_SECTORS, 1);
        list.origin = Origin::List(List {
            items: (0..100)
                .map(|page| ListItem {
                    at,
                    op,
                    lba: page * u64::from(PAGE_SECTORS),
                    sectors: PAGE_SECTORS,
                })
                .collect(),
            depth: 0,
            rounds: 1,
            file: None,
        });
        list
    };
    let unwritten = |namespace: u16| {
        let writes = list(Op::Write, 0);
        let mut reads = list(Op::Read, 1000 * 1000 * US);
        reads.queue.namespace = namespace;
        simulate(&config, &[writes, reads])
            .summary
            .counters
            .unwritten_reads
    };
    assert_eq!((unwritten(0), unwritten(1)), (0, 100));
}

#[test]
fn flows_that_name_parts_the_drive_lacks_are_refused() {
    let mut config = divided();
    let refused = |config: &DriveConfig, flow: &FlowConfig| {
        let error = run(config, std::slice::from_ref(flow), &RunOptions::default());
        error.unwrap_err().to_string()
    };
    let mut flow = flow(0.0, 1, PAGE_SECTORS, 1);
    flow.queue.namespace = 2;
    let error = refused(&config, &flow);
    assert!(
        error.contains("names namespace 2, but there are only 2"),
        "{error}"
    );
    (flow.queue.namespace, flow.queue.handle) = (1, 1);
    let error = refused(&config, &flow);
    assert!(
        error.contains("names handle 1, but the drive has no"),
        "{error}"
    );
    flow.queue.handle = 0;
    flow.queue.ids[0] = vec![0];
    let error = refused(&config, &flow);
    assert!(error.contains("names parts of the flash"), "{error}");
    config.namespaces.sizes[1] = Size(1 << 40);
    flow.queue.ids[0].clear();
    let error = refused(&config, &flow);
    assert!(error.contains("the namespaces take"), "{error}");
}
