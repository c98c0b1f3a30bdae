//! Columns of tables as the edges of a graph. This module connects `outcore-table` and
//! `outcore-graph`, which do not depend on each other.
//!
//! Contract: two columns are the ids of the ends of edges, either both whole numbers or both
//! strings. A third column has the weights, if there are any. If no columns are named, the first
//! two are the ids, and the third has the weights.

use std::path::PathBuf;

use outcore::{Error, Job, Result};
use outcore_graph::edges::rows::{EdgeBatch, EdgeIds, EdgeRows, RowWeights, TakeEdges};
use outcore_graph::format::weight::WeightType;
use outcore_table::input::{InputOptions, TableInput};
use outcore_table::jobs::{PlainBatch, PlainColumns, PlainType, PlainValues};

const READ: &str = "read edges";

/// The columns of edges.
#[derive(Debug, Clone, Default)]
pub struct EdgeColumns {
    /// The source and the target; if empty, the first two columns.
    pub ends: Vec<String>,
    /// Whether there are weights.
    pub is_weighted: bool,
    /// The column of the weights; if absent, the third one.
    pub weight: Option<String>,
    /// How the graph stores weights; if absent, in the type of the column.
    pub weight_type: Option<WeightType>,
}

/// The edges of tables.
pub struct TableEdges {
    columns: PlainColumns,
    are_names: bool,
    weights: Option<WeightType>,
}

impl TableEdges {
    /// Opens the tables in `paths`.
    ///
    /// # Errors
    /// As [`PlainColumns::open`]; usage if the ends are not two columns of the same kind.
    pub fn open(job: &Job, paths: &[PathBuf], chosen: &EdgeColumns) -> Result<Self> {
        let is_weighted = chosen.is_weighted || chosen.weight.is_some();
        let mut names = chosen.ends.clone();
        if names.is_empty() || is_weighted && chosen.weight.is_none() {
            let table = TableInput::open(job, paths, &InputOptions::default())?;
            let fields = table.schema().fields().iter();
            let all: Vec<String> = fields.map(|field| field.name().clone()).collect();
            if names.is_empty() {
                names.extend(all.iter().take(2).cloned());
            }
            if is_weighted && chosen.weight.is_none() {
                names.extend(all.get(2).cloned());
            }
        }
        names.extend(chosen.weight.clone());
        if names.len() != 2 + usize::from(is_weighted) {
            let cause = match chosen.ends.len() {
                0 => "the table has too few columns".to_owned(),
                count => format!("--columns names {count} columns for the ends of edges"),
            };
            return Err(Error::usage(READ, cause).hint(
                "name two columns with --columns SOURCE,TARGET, and the column of weights with --weights",
            ));
        }
        let columns = PlainColumns::open(job, paths, &names, usize::from(is_weighted))?;
        let are_names = match columns.types() {
            [
                PlainType::Whole | PlainType::Unsigned,
                PlainType::Whole | PlainType::Unsigned,
                ..,
            ] => false,
            [PlainType::Text, PlainType::Text, ..] => true,
            _ => {
                let cause = format!(
                    "one of `{}` and `{}` has numbers, the other strings",
                    names[0], names[1]
                );
                return Err(Error::usage(READ, cause).hint("name two columns of one type"));
            }
        };
        let stored = match columns.types() {
            [_, _, PlainType::Float32] => WeightType::F32,
            [_, _, PlainType::Whole] => WeightType::I64,
            _ => WeightType::F64,
        };
        Ok(TableEdges {
            columns,
            are_names,
            weights: is_weighted.then(|| chosen.weight_type.unwrap_or(stored)),
        })
    }
}

fn ids<'b>(values: &'b PlainValues<'_>) -> EdgeIds<'b> {
    match values {
        PlainValues::Whole(numbers) => EdgeIds::Numbers(numbers),
        PlainValues::Text(names) => EdgeIds::Names(names),
        PlainValues::Unsigned(numbers) => EdgeIds::Unsigned(numbers),
        // The columns of ends are never floats.
        PlainValues::Float32(_) | PlainValues::Float64(_) => EdgeIds::Numbers(&[]),
    }
}

/// Passes rows to `take` as edges.
fn show(batch: &PlainBatch<'_>, position: u64, take: &mut TakeEdges<'_>) -> Result<()> {
    let [source, target, weights @ ..] = &batch.columns[..] else {
        return Ok(());
    };
    let weights = weights.first().and_then(|weights| match weights {
        PlainValues::Float32(weights) => Some(RowWeights::F32(weights)),
        PlainValues::Float64(weights) => Some(RowWeights::F64(weights)),
        PlainValues::Whole(weights) => Some(RowWeights::I64(weights)),
        PlainValues::Unsigned(_) | PlainValues::Text(_) => None,
    });
    let edges = EdgeBatch {
        path: batch.path,
        first_row: batch.first_row,
        ends: [ids(source), ids(target)],
        weights,
    };
    take(&edges, position)
}

impl EdgeRows for TableEdges {
    fn count(&self) -> u64 {
        self.columns.rows_count()
    }

    fn are_names(&self) -> bool {
        self.are_names
    }

    fn weights(&self) -> Option<WeightType> {
        self.weights
    }

    fn memory_bytes(&self) -> u64 {
        self.columns.memory_bytes()
    }

    fn read_bytes(&self) -> u64 {
        self.columns.read_bytes()
    }

    fn sample(&self, take: &mut TakeEdges<'_>) -> Result<()> {
        self.columns
            .sample(&mut |batch, position| show(batch, position, take))
    }

    fn make(&self, take: &mut TakeEdges<'_>) -> Result<()> {
        self.columns
            .make(&mut |batch, position| show(batch, position, take))
    }
}
