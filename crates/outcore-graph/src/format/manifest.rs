//! The manifest of a graph: its sizes, how it was made, and the checksums of its small files.
//!
//! Contract: `graph.json`, [metadata](outcore_io::metadata) with a checksum, is written last and
//! read first.

use serde::{Deserialize, Serialize};

use super::weight::WeightType;
use outcore_io::metadata::Form;

/// Name of the manifest in the graph's directory.
pub(crate) const NAME: &str = "graph.json";

pub(crate) const OPEN: &str = "open graph";

pub(crate) const FORM: Form = Form {
    kind: "graph",
    version: 1,
    operation: OPEN,
    len_bytes_max: 1 << 20,
    remedy: "convert the edges again: `outcore graph convert`",
    upgrade: "convert the edges again: `outcore graph convert`",
};

/// What the manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Another number for other edges and options: the seed of all checksums.
    pub id: u64,
    /// Vertices are 0 to this.
    pub vertices: u64,
    /// Edges, each counted once.
    pub edges: u64,
    /// Edges from a vertex to itself.
    pub loops: u64,
    /// Whether an edge has a direction.
    pub directed: bool,
    /// Whether edges have weights.
    pub weighted: bool,
    /// How weights are stored; as floats of four bytes if it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_type: Option<WeightType>,
    /// Whether parallel edges were merged.
    pub dedup: bool,
    /// Whether `names` has the original ids.
    pub relabelled: bool,
    /// Chunks of `tiles`.
    pub chunks: u64,
    /// The lists of targets, or of neighbours.
    pub out: ListManifest,
    /// The lists of sources, where edges are directed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<ListManifest>,
    /// The checksum of `names`, where these are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names_sum: Option<u64>,
    /// The blocks of `names`, where these are strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_names: Option<NamesManifest>,
}

impl Manifest {
    /// How weights are stored, if there are any.
    pub fn weights(&self) -> Option<WeightType> {
        self.weighted
            .then(|| self.weight_type.unwrap_or(WeightType::F32))
    }
}

/// What it says of names that are strings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesManifest {
    /// Blocks.
    pub blocks: u64,
    /// The checksum of the index.
    pub index_sum: u64,
}

/// What it says of the lists of one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListManifest {
    /// Blocks.
    pub blocks: u64,
    /// The largest degree.
    pub degree_max: u32,
    /// The checksum of the index.
    pub index_sum: u64,
    /// The checksum of the degrees.
    pub degrees_sum: u64,
}
