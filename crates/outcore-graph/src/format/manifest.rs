//! The manifest of a graph: its sizes, its options, and the checksums of its small files.
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
    version_min: 1,
    operation: OPEN,
    len_bytes_max: 1 << 20,
    remedy: "convert the edges again: `outcore graph convert`",
    upgrade: "convert the edges again: `outcore graph convert`",
};

/// The contents of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// A number that differs for other edges and options; it seeds all checksums.
    pub id: u64,
    /// The number of vertices.
    pub vertices: u64,
    /// The number of edges, each counted once.
    pub edges: u64,
    /// The number of edges from a vertex to itself.
    pub loops: u64,
    /// Whether edges have a direction.
    pub directed: bool,
    /// Whether edges have weights.
    pub weighted: bool,
    /// The type of weights; `None` means four-byte floats.
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
    /// The lists of sources, if edges are directed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<ListManifest>,
    /// The checksum of `names`, if these are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names_sum: Option<u64>,
    /// The blocks of `names`, if these are strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_names: Option<NamesManifest>,
}

impl Manifest {
    /// The type of the weights, if there are any.
    pub fn weights(&self) -> Option<WeightType> {
        self.weighted
            .then(|| self.weight_type.unwrap_or(WeightType::F32))
    }
}

/// The manifest of string names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamesManifest {
    /// The number of blocks.
    pub blocks: u64,
    /// The checksum of the index.
    pub index_sum: u64,
}

/// The manifest of the lists of one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListManifest {
    /// The number of blocks.
    pub blocks: u64,
    /// The largest degree.
    pub degree_max: u32,
    /// The checksum of the index.
    pub index_sum: u64,
    /// The checksum of the degrees.
    pub degrees_sum: u64,
}
