//! The order in which MQSim starts flows, for `compat`.
//!
//! Contract: MQSim keeps its objects in a `std::unordered_map` by name and starts them in the order
//! of its iteration. [`start_order`] repeats that map for the objects of a drive: its hash, its
//! bucket counts, and the places of new nodes. The order is that of libstdc++ on 64-bit machines,
//! with which MQSim's own Makefile builds. Time is linear in the objects, about one per chip.
//!
//! Sources: the names are those of CMU-SAFARI/MQSim at 7ec40e3; the hash is Appleby's MurmurHash64A
//! with the seed of libstdc++; the bucket counts were printed by a program built with GCC 12.

const HASH_SEED: u64 = 0xc70f_6907;
const HASH_FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
/// Numbers of buckets. The map goes to the next number when an element does not fit into the
/// current one.
const BUCKET_COUNTS: [usize; 16] = [
    1, 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10_273, 20_753, 42_043, 85_229, 172_933,
    351_061,
];

/// The flash chips of a drive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chips {
    pub(crate) channels: u32,
    pub(crate) per_channel: u32,
}

/// The source of a flow, as the name of its object contains it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    Generator,
    /// A trace, with the path in the workload file.
    Trace(&'a str),
}

/// The numbers of the flows in the order in which MQSim starts them.
pub(crate) fn start_order<'a>(chips: Chips, flows: impl Iterator<Item = Source<'a>>) -> Vec<usize> {
    let mut map = Map::default();
    map.insert("SSDDevice", None);
    for channel in 0..chips.channels {
        for chip in 0..chips.per_channel {
            map.insert(&format!("SSDDevice.Channel.{channel}.Chip.{chip}"), None);
        }
    }
    for part in [
        "SSDDevice.PHY",
        "SSDDevice.FTL",
        "SSDDevice.FTL.TSU",
        "SSDDevice.FTL.AddressMappingUnit",
        "SSDDevice.FTL.GCandWLUnit",
        "SSDDevice.DataCache",
        "SSDDevice.HostInterface",
        "Host",
        "Host.PCIeLink",
    ] {
        map.insert(part, None);
    }
    for (number, flow) in flows.enumerate() {
        let name = match flow {
            Source::Generator => format!("Host.IO_Flow.Synth.No_{number}"),
            Source::Trace(path) => format!("Host.IO_Flow.Trace.{path}"),
        };
        map.insert(&name, Some(number));
    }
    map.flows()
}

fn mixed(value: u64) -> u64 {
    value ^ (value >> 47)
}

fn hash(name: &[u8]) -> u64 {
    let mut hash = HASH_SEED ^ (name.len() as u64).wrapping_mul(HASH_FACTOR);
    let (words, rest) = name.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(HASH_FACTOR);
        hash ^= mixed(word).wrapping_mul(HASH_FACTOR);
        hash = hash.wrapping_mul(HASH_FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(HASH_FACTOR);
    }
    mixed(mixed(hash).wrapping_mul(HASH_FACTOR))
}

/// An object of the map.
struct Node {
    hash: u64,
    flow: Option<usize>,
    next: Option<usize>,
}

/// The head or the node that precedes the first node of a bucket in the list of all nodes.
#[derive(Clone, Copy)]
enum Before {
    Head,
    Node(usize),
}

/// A hash map whose nodes are one list, in which every bucket is a run.
#[derive(Default)]
struct Map {
    nodes: Vec<Node>,
    head: Option<usize>,
    buckets: Vec<Option<Before>>,
}

impl Map {
    fn bucket(&self, node: usize) -> usize {
        (self.nodes[node].hash % self.buckets.len() as u64) as usize
    }

    fn insert(&mut self, name: &str, flow: Option<usize>) {
        if self.nodes.len() >= self.buckets.len().max(1) || self.buckets.is_empty() {
            self.grow();
        }
        self.nodes.push(Node {
            hash: hash(name.as_bytes()),
            flow,
            next: None,
        });
        self.link(self.nodes.len() - 1);
    }

    /// Puts a node at the beginning of its bucket, or of the list if the bucket is empty.
    fn link(&mut self, node: usize) {
        let bucket = self.bucket(node);
        match self.buckets[bucket] {
            Some(Before::Head) => {
                self.nodes[node].next = self.head;
                self.head = Some(node);
            }
            Some(Before::Node(before)) => {
                self.nodes[node].next = self.nodes[before].next;
                self.nodes[before].next = Some(node);
            }
            None => {
                self.nodes[node].next = self.head;
                if let Some(first) = self.head {
                    let bucket = self.bucket(first);
                    self.buckets[bucket] = Some(Before::Node(node));
                }
                self.head = Some(node);
                self.buckets[bucket] = Some(Before::Head);
            }
        }
    }

    /// Takes the next number of buckets. The nodes enter the new buckets in the order of the list.
    /// If a node's bucket is not empty, the node goes directly after the one that precedes the
    /// bucket's first node.
    fn grow(&mut self) {
        let larger = BUCKET_COUNTS
            .iter()
            .find(|count| **count > self.nodes.len().max(1));
        let Some(&count) = larger else {
            return;
        };
        let mut rest = self.head.take();
        self.buckets = vec![None; count];
        while let Some(node) = rest {
            rest = self.nodes[node].next;
            self.link(node);
        }
    }

    /// The flows in the order of the list.
    fn flows(&self) -> Vec<usize> {
        let nodes = std::iter::successors(self.head, |node| self.nodes[*node].next);
        nodes.filter_map(|node| self.nodes[node].flow).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The orders of a C++ program that inserts the same names.
    #[test]
    fn flows_start_in_the_order_of_the_map_of_libstdcxx() {
        let cases: [(u32, u32, &[usize]); 8] = [
            (1, 1, &[1, 0]),
            (2, 2, &[2, 1, 0]),
            (8, 4, &[5, 4, 2, 1, 7, 0, 3, 6]),
            (3, 5, &[3, 2, 1, 0]),
            (16, 8, &[4, 3, 2, 1, 0]),
            (32, 16, &[6, 3, 2, 7, 1, 0, 4, 5]),
            (64, 64, &[7, 6, 4, 1, 2, 5, 0, 3]),
            (
                4,
                2,
                &[12, 11, 14, 13, 5, 8, 0, 1, 9, 2, 15, 3, 7, 4, 6, 10],
            ),
        ];
        for (channels, per_channel, order) in cases {
            let chips = Chips {
                channels,
                per_channel,
            };
            let flows = order.iter().map(|_| Source::Generator);
            assert_eq!(start_order(chips, flows), order, "{chips:?}");
        }
    }
}
