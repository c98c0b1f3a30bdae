//! Predicts a sort on several equal machines with a network between them.
//!
//! Model: two stages, one after the other, as `outcore.ray` runs them.
//! - *Partition*: each node reads its share of the input, cuts it into ranges of the key, and
//!   writes them to its own drives.
//! - *Sort*: each node fetches its ranges from the drives of all nodes, sorts each range in memory,
//!   and writes it.
//!
//! The network moves the data once, except for the part that stays on its node. If the input and
//! the output are in an object store, they cross the link as well. A stage takes the longest of
//! four times: drives, link, computation and memory bus. Drives read and write at the same time,
//! and a link sends and receives at the same time.
//!
//! Not modelled: skew between nodes, failures, the network's core (every node has its whole rate),
//! start-up, the scheduler, and the time of single requests. So a prediction is a lower bound.
//!
//! Contract: a pure function of its arguments, except for the rates of the drive, which are
//! simulated. Money is in the unit of the given prices.

use outcore_io::{Error, Result};
use serde::Serialize;

use super::{DISTRIBUTE_CROSSINGS, Phase, SORT_CROSSINGS, SortJob, array_of, check};
use crate::config::DriveConfig;

/// The place of the input and the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Store {
    /// The nodes' own drives, spread evenly.
    #[default]
    Drives,
    /// An object store behind the link, as fast as the link.
    Objects,
}

/// Prices of a cloud.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Prices {
    /// A node for an hour.
    pub(crate) node_hour: f64,
    /// A thousand requests that read from the object store.
    pub(crate) get_thousand: f64,
    /// A thousand requests that write to it.
    pub(crate) put_thousand: f64,
}

/// The machines without their drives, and the prices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cluster {
    /// Number of machines.
    pub(crate) nodes: u32,
    /// Rate of a node's link, each way at the same time.
    pub(crate) link_bytes_per_s: u64,
    /// The place of the data.
    pub(crate) store: Store,
    /// Prices; all 0 if unknown.
    pub(crate) prices: Prices,
}

/// A predicted sort on a cluster.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ClusterPlan {
    /// Number of machines.
    pub(crate) nodes: u32,
    /// Bytes of the input per node.
    pub(crate) node_bytes: u64,
    /// Ranges of the key per node, each of which fits in its memory.
    pub(crate) ranges_per_node: u64,
    /// Bytes of a part: the bytes of one range in one piece of the input. A piece fills the memory.
    pub(crate) part_bytes: u64,
    /// The two stages.
    pub(crate) stages: Vec<Phase>,
    /// Total time.
    pub(crate) seconds: f64,
    /// `io`, `link`, `cpu` or `memory`: the one with the largest total.
    pub(crate) bottleneck: &'static str,
    /// Price of the nodes for that time.
    pub(crate) nodes_cost: f64,
    /// Price of the requests to the object store.
    pub(crate) requests_cost: f64,
    /// Requests that read, and write, the object store.
    pub(crate) gets: u64,
    /// See `gets`.
    pub(crate) puts: u64,
}

/// Share of a node's memory that holds a range while it is sorted, and a piece while it is
/// partitioned; the rest is for buffers and the second copy that a sort needs.
const RANGE_SHARE: f64 = 0.4;
/// Bytes of a request to the object store: ranged reads, and parts of an upload.
const GET_BYTES: u64 = 8 << 20;
const PUT_BYTES: u64 = 16 << 20;

/// What one node moves in a stage.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    read_bytes: f64,
    written_bytes: f64,
    received_bytes: f64,
    sent_bytes: f64,
    memory_bytes: f64,
    computing_ns: f64,
}

/// The rates of one node.
#[derive(Debug, Clone, Copy)]
struct Node {
    read_bytes_per_s: f64,
    write_bytes_per_s: f64,
    ceiling_bytes_per_s: f64,
    link_bytes_per_s: f64,
    memory_bytes_per_s: f64,
    cores: f64,
}

impl Node {
    fn stage(&self, name: &str, moved: Moved) -> Phase {
        let both = moved.read_bytes + moved.written_bytes;
        let reads = moved.read_bytes / self.read_bytes_per_s;
        let writes = moved.written_bytes / self.write_bytes_per_s;
        let io_seconds = reads.max(writes).max(both / self.ceiling_bytes_per_s);
        let link_seconds = moved.received_bytes.max(moved.sent_bytes) / self.link_bytes_per_s;
        let cpu_seconds = moved.computing_ns / 1e9 / self.cores;
        let memory_seconds = moved.memory_bytes / self.memory_bytes_per_s;
        let longest = io_seconds.max(link_seconds).max(cpu_seconds);
        Phase {
            name: name.to_owned(),
            io_seconds,
            cpu_seconds,
            memory_seconds,
            link_seconds,
            seconds: longest.max(memory_seconds),
        }
    }
}

/// Predicts `job` on a cluster. The job has the size of the whole input. Each node has the memory
/// and the cores of the job, and `drives` drives like `drive` with a shared ceiling (0 means none).
///
/// # Errors
/// Usage for a job or a cluster that makes no sense; a memory in which no record can be sorted.
pub(crate) fn plan_cluster(
    job: &SortJob,
    drive: &DriveConfig,
    drives: u32,
    shared_bytes_per_s: u64,
    cluster: &Cluster,
) -> Result<ClusterPlan> {
    check(job, drives)?;
    for (what, value) in [
        ("number of nodes", u64::from(cluster.nodes)),
        ("rate of the link", cluster.link_bytes_per_s),
    ] {
        if value == 0 {
            return Err(Error::usage("plan sort", format!("the {what} is 0")));
        }
    }
    let unbounded = |rate: u64| match rate {
        0 => f64::INFINITY,
        rate => rate as f64,
    };
    let rates = array_of(drive, drives, shared_bytes_per_s)?.rates();
    let node = Node {
        read_bytes_per_s: rates.read_bytes_per_s * f64::from(drives),
        write_bytes_per_s: rates.write_bytes_per_s * f64::from(drives),
        ceiling_bytes_per_s: unbounded(shared_bytes_per_s),
        link_bytes_per_s: cluster.link_bytes_per_s as f64,
        memory_bytes_per_s: unbounded(job.memory_bytes_per_s),
        cores: f64::from(job.cores),
    };
    let node_bytes = job.size_bytes.div_ceil(u64::from(cluster.nodes));
    let stages = stages_of(job, cluster, &node, node_bytes as f64);
    let sum = |of: fn(&Phase) -> f64| stages.iter().map(of).sum::<f64>();
    let seconds = sum(|stage| stage.seconds);
    let range_bytes = ((job.memory_bytes as f64 * RANGE_SHARE) as u64).max(1);
    let ranges_per_node = node_bytes.div_ceil(range_bytes);
    let ranges = ranges_per_node.saturating_mul(cluster.nodes.into()).max(1);
    let (gets, puts) = match cluster.store {
        Store::Drives => (0, 0),
        Store::Objects => (
            job.size_bytes.div_ceil(GET_BYTES),
            job.size_bytes.div_ceil(PUT_BYTES),
        ),
    };
    let prices = cluster.prices;
    let by_total = [
        ("io", sum(|stage| stage.io_seconds)),
        ("link", sum(|stage| stage.link_seconds)),
        ("cpu", sum(|stage| stage.cpu_seconds)),
        ("memory", sum(|stage| stage.memory_seconds)),
    ];
    let longest = by_total.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    Ok(ClusterPlan {
        nodes: cluster.nodes,
        node_bytes,
        ranges_per_node,
        part_bytes: range_bytes.min(node_bytes) / ranges,
        stages,
        seconds,
        bottleneck: longest.map_or("io", |(name, _)| name),
        nodes_cost: prices.node_hour * f64::from(cluster.nodes) * seconds / 3600.0,
        requests_cost: (gets as f64 * prices.get_thousand + puts as f64 * prices.put_thousand)
            / 1000.0,
        gets,
        puts,
    })
}

fn stages_of(job: &SortJob, cluster: &Cluster, node: &Node, bytes: f64) -> Vec<Phase> {
    let records = bytes / job.record_bytes as f64;
    let leaving = bytes * (1.0 - 1.0 / f64::from(cluster.nodes));
    let of_store = |store| {
        if cluster.store == store { bytes } else { 0.0 }
    };
    let (own, remote) = (of_store(Store::Drives), of_store(Store::Objects));
    let partition = Moved {
        read_bytes: own,
        written_bytes: bytes,
        received_bytes: remote,
        memory_bytes: DISTRIBUTE_CROSSINGS * bytes,
        computing_ns: job.cpu.distribute_ns * records,
        ..Moved::default()
    };
    let sort = Moved {
        read_bytes: bytes,
        written_bytes: own,
        received_bytes: leaving,
        sent_bytes: leaving + remote,
        memory_bytes: SORT_CROSSINGS * bytes,
        computing_ns: job.cpu.sort_ns * records,
    };
    vec![node.stage("partition", partition), node.stage("sort", sort)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::cpu::CpuCost;
    use crate::presets::preset;

    fn job(size_bytes: u64) -> SortJob {
        SortJob {
            size_bytes,
            record_bytes: 100,
            memory_bytes: 128 << 30,
            cores: 16,
            cpu: CpuCost {
                distribute_ns: 40.0,
                sort_ns: 120.0,
            },
            memory_bytes_per_s: 0,
        }
    }

    fn cluster(nodes: u32, store: Store) -> Cluster {
        Cluster {
            nodes,
            link_bytes_per_s: 2_000_000_000,
            store,
            prices: Prices {
                node_hour: 1.0,
                get_thousand: 0.0004,
                put_thousand: 0.005,
            },
        }
    }

    /// A drive that reads and writes exactly 1 GB/s.
    fn drive() -> DriveConfig {
        let mut drive = preset("throttled").unwrap().scaled(128, 32).unwrap();
        drive.throttle.read.0 = 1_000_000_000;
        drive.throttle.write.0 = 1_000_000_000;
        drive
    }

    #[test]
    fn stages_take_the_longest_of_their_parts() {
        let plan = |nodes, store| {
            plan_cluster(
                &job(4_000_000_000_000),
                &drive(),
                4,
                0,
                &cluster(nodes, store),
            )
            .unwrap()
        };
        let own = plan(10, Store::Drives);
        let rate = 400e9 / own.stages[0].io_seconds;
        assert!(rate < 4.1e9, "{rate}");
        // 360 of 400 GB leave a node at 2 GB/s.
        assert!((own.stages[1].link_seconds - 180.0).abs() < 1e-6);
        assert_eq!(own.stages[0].link_seconds, 0.0);
        // 4e9 records of 120 ns on 16 cores.
        assert!((own.stages[1].cpu_seconds - 30.0).abs() < 1e-6);
        assert_eq!((own.gets, own.requests_cost), (0, 0.0));
        let remote = plan(10, Store::Objects);
        assert!((remote.stages[0].link_seconds - 200.0).abs() < 1e-6);
        assert!((remote.stages[1].link_seconds - 380.0).abs() < 1e-6);
        assert_eq!(remote.bottleneck, "link");
        assert!((remote.nodes_cost - 10.0 * remote.seconds / 3600.0).abs() < 1e-9);
        assert_eq!(remote.puts, 4_000_000_000_000u64.div_ceil(16 << 20));
        let alone = plan(1, Store::Drives);
        assert_eq!(alone.stages[1].link_seconds, 0.0);
    }

    #[test]
    fn more_nodes_have_smaller_parts_and_no_node_is_an_error() {
        let of = |nodes| {
            let cluster = cluster(nodes, Store::Drives);
            plan_cluster(&job(1_000_000_000_000_000), &drive(), 4, 0, &cluster)
        };
        let (ten, thousand) = (of(10).unwrap(), of(1000).unwrap());
        assert!(thousand.seconds < ten.seconds / 90.0);
        assert!(thousand.ranges_per_node < ten.ranges_per_node);
        assert!(thousand.part_bytes > 0);
        assert!(of(0).unwrap_err().to_string().contains("nodes is 0"));
    }
}
