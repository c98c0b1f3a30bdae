//! NUMA nodes: which threads run near which drives.
//!
//! Contract: if the machine has several nodes, [`deal`] distributes threads over the nodes of the
//! drives. [`run_on`] restricts a thread to the processors of one node, so that memory that the
//! thread touches first belongs to that node. With one node, or drives of unknown nodes, nothing
//! changes. This is only an optimisation: a thread works correctly on any node.
//!
//! Bounds: reads a few small files of the system.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where the system describes its nodes.
const NODES: &str = "/sys/devices/system/node";

/// Whether this machine has several nodes; read once.
pub fn has_several() -> bool {
    static SEVERAL: OnceLock<bool> = OnceLock::new();
    *SEVERAL.get_or_init(|| are_several(Path::new(NODES)))
}

/// The node of each of `threads` threads that serve all drives, given the drives' nodes. A node
/// gets threads in proportion to its drives, and at most as many as it has usable processors. The
/// remaining threads have no node.
pub fn deal(drives: &[Option<usize>], threads: usize) -> Vec<Option<usize>> {
    deal_by(Path::new(NODES), drives, threads)
}

/// Restricts the calling thread to the usable processors of a node.
pub fn run_on(node: usize) {
    run_on_by(Path::new(NODES), node);
}

fn deal_by(nodes: &Path, drives: &[Option<usize>], threads: usize) -> Vec<Option<usize>> {
    let mut dealt = vec![None; threads];
    if !are_several(nodes) {
        return dealt;
    }
    // Per node: its drives, its processors, and its threads so far.
    let mut shares: BTreeMap<usize, (usize, u32, u32)> = BTreeMap::new();
    for node in drives.iter().flatten() {
        let share = shares.entry(*node).or_insert_with(|| {
            let processors = usable(nodes, *node).map_or(0, |processors| processors.count());
            (0, processors, 0)
        });
        share.0 += 1;
    }
    for thread in &mut dealt {
        let load =
            |(drives, _, threads): &(usize, u32, u32)| *drives * 1000 / (*threads as usize + 1);
        let open = shares.iter_mut().filter(|(_, share)| share.2 < share.1);
        let Some((node, share)) = open.rev().max_by_key(|(_, share)| load(share)) else {
            break;
        };
        share.2 += 1;
        *thread = Some(*node);
    }
    dealt
}

fn run_on_by(nodes: &Path, node: usize) {
    if !are_several(nodes) {
        return;
    }
    if let Some(processors) = usable(nodes, node).filter(|processors| processors.count() > 0) {
        sched_setaffinity(None, &processors).unwrap_or_default();
    }
}

fn are_several(nodes: &Path) -> bool {
    list(&nodes.join("online")).is_some_and(|online| online.len() > 1)
}

/// The processors of a node that the calling thread may use.
fn usable(nodes: &Path, node: usize) -> Option<CpuSet> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut usable = CpuSet::new();
    let of_node = list(&nodes.join(format!("node{node}/cpulist")))?;
    let known = of_node.into_iter().filter(|cpu| *cpu < CpuSet::MAX_CPU);
    for cpu in known.filter(|cpu| allowed.is_set(*cpu)) {
        usable.set(cpu);
    }
    Some(usable)
}

fn list(path: &Path) -> Option<Vec<usize>> {
    Some(parse_list(&fs::read_to_string(path).ok()?))
}

/// Numbers in the kernel's list format: `0-3,8,10-11`.
fn parse_list(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two nodes that share the processors that this thread may use.
    fn two_nodes(of_first: &str) -> (tempfile::TempDir, CpuSet) {
        let nodes = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(nodes.path().join(name), text).unwrap();
        for node in ["node0", "node1"] {
            fs::create_dir(nodes.path().join(node)).unwrap();
        }
        write("online", "0-1\n");
        write("node0/cpulist", of_first);
        write("node1/cpulist", "1000-1010\n");
        (nodes, sched_getaffinity(None).unwrap())
    }

    fn first_of(allowed: &CpuSet) -> usize {
        let mut all = 0..CpuSet::MAX_CPU;
        all.find(|cpu| allowed.is_set(*cpu)).unwrap()
    }

    #[test]
    fn threads_are_shared_by_drives_and_no_more_than_there_are_processors() {
        let allowed = sched_getaffinity(None).unwrap();
        let (nodes, _) = two_nodes(&format!("{}\n", first_of(&allowed)));
        let deal = |drives: &[Option<usize>], threads| deal_by(nodes.path(), drives, threads);
        assert_eq!(deal(&[Some(0), Some(0)], 3), [Some(0), None, None]);
        assert_eq!(
            deal(&[Some(1)], 2),
            [None, None],
            "none of its processors may be used"
        );
        assert_eq!(deal(&[None, None], 2), [None, None]);
        assert_eq!(deal(&[Some(7)], 1), [None], "an unknown node");
        fs::write(nodes.path().join("online"), "0\n").unwrap();
        assert_eq!(deal(&[Some(0)], 2), [None, None], "one node");
        if allowed.count() >= 2 {
            let mut two = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
            let (a, b) = (two.next().unwrap(), two.next().unwrap());
            let (nodes, _) = two_nodes(&format!("{a}\n"));
            fs::write(nodes.path().join("node1/cpulist"), format!("{b}\n")).unwrap();
            let drives = [Some(0), Some(1), Some(1)];
            assert_eq!(deal_by(nodes.path(), &drives, 3), [Some(1), Some(0), None]);
        }
    }

    #[test]
    fn a_thread_keeps_to_its_node_where_there_are_several() {
        let allowed = sched_getaffinity(None).unwrap();
        let first = first_of(&allowed);
        let (nodes, _) = two_nodes(&format!("{first},1000-1010\n"));
        let run = |node| {
            let run = || {
                run_on_by(nodes.path(), node);
                sched_getaffinity(None).unwrap()
            };
            std::thread::scope(|scope| scope.spawn(run).join().unwrap())
        };
        let kept = run(0);
        assert!(kept.is_set(first) && kept.count() == 1);
        assert_eq!(run(1), allowed, "none of its processors may be used");
        assert_eq!(run(7), allowed, "an unknown node");
        fs::write(nodes.path().join("online"), "0\n").unwrap();
        assert_eq!(run(0), allowed, "one node");
        assert_eq!(parse_list("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(parse_list("\n"), Vec::<usize>::new());
    }
}
