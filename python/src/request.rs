//! What the Python side asks for: dictionaries as values with types.
//!
//! Contract: the Python side has checked types and filled in defaults; here nothing has one. Keys
//! and types are told once more in `outcore/_outcore.pyi`.

use std::path::PathBuf;

use pyo3::FromPyObject;

use crate::front::format::TypeRequest;
use crate::front::means::MeansRequest;

/// What a job may use.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Means {
    memory: Option<String>,
    threads: Option<usize>,
    io: Option<String>,
    drives: Vec<PathBuf>,
    scratch_limit: Option<String>,
    seed: u64,
}

impl From<Means> for MeansRequest {
    fn from(means: Means) -> Self {
        MeansRequest {
            memory: means.memory,
            threads: means.threads,
            io: means.io,
            drives: means.drives,
            scratch_limit: means.scratch_limit,
            seed: means.seed,
        }
    }
}

/// What the records are.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Records {
    name: Option<String>,
    descr: Option<String>,
    columns: Option<u64>,
    record_bytes: Option<usize>,
    keys: Vec<String>,
}

impl From<Records> for TypeRequest {
    fn from(records: Records) -> Self {
        TypeRequest {
            name: records.name,
            descr: records.descr.map(|descr| (descr, records.columns)),
            record_bytes: records.record_bytes,
            keys: records.keys,
        }
    }
}

/// A sort, or the plan of one. Without an output only a plan can be made.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Sort {
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) records: Records,
    pub(crate) means: Means,
    pub(crate) descending: bool,
    pub(crate) stable: bool,
    pub(crate) unique: bool,
    pub(crate) force: bool,
    pub(crate) replace: bool,
}

/// Records to generate.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Generate {
    pub(crate) output: PathBuf,
    pub(crate) count: u64,
    pub(crate) records: Records,
    pub(crate) means: Means,
    pub(crate) distribution: String,
    pub(crate) ascii: bool,
    pub(crate) skewed: bool,
    pub(crate) first: Option<u128>,
    pub(crate) force: bool,
}

/// Files to check.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Verify {
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) against: Vec<PathBuf>,
    pub(crate) records: Records,
    pub(crate) means: Means,
    pub(crate) descending: bool,
    pub(crate) unique: bool,
    pub(crate) ties: bool,
}
