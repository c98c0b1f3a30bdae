//! Results of graphs and of vector searches as tables. This module connects `outcore-table`,
//! `outcore-graph` and `outcore-vector`, which do not depend on each other.
//!
//! Contract: one value per vertex becomes the columns `vertex`, `name` if vertices have other ids,
//! and `value`. Values that are vertices are vertex numbers, so that they can be joined with
//! `vertex`. Rows of vertices become one column each. -1 means none, as in arrays. Results for rows
//! of vectors become the column `row`, with the number of the row, and columns with the results.
//! The file is either complete or absent.
//!
//! Bounds: [`ROWS_AT_ONCE`] rows and their names.

use std::ops::Range;

use outcore::primitives::Summary;
use outcore::{Context, Job, Result};
use outcore_graph::format::NO_VERTEX;
use outcore_graph::graph::names::Names;
use outcore_graph::kernels::LabelFile;
use outcore_graph::results::{Value, Values};
use outcore_table::jobs::{
    ColumnValues, NewTable, PlainType, TakeColumns, write_columns, write_columns_beside,
};
use outcore_vector::format::VectorFile;
use outcore_vector::kmeans::{self, Clustering, LabelOutput};
use outcore_vector::results::stage_all;

use crate::table_vectors::TablePlace;
pub use outcore_table::jobs::{has_columns, is_table_name};

/// Rows that are processed together.
const ROWS_AT_ONCE: usize = 1 << 16;

/// The columns of vertices.
fn vertices_of(
    job: &Job,
    vertices: Range<usize>,
    names: Option<&Names>,
) -> Result<Vec<ColumnValues>> {
    let mut columns = vec![ColumnValues::Whole(
        vertices.clone().map(|vertex| vertex as i64).collect(),
    )];
    let ids: Vec<u32> = vertices.map(|vertex| vertex as u32).collect();
    columns.extend(names.map(|names| named(job, &ids, names)).transpose()?);
    Ok(columns)
}

/// The names of vertices.
fn named(job: &Job, vertices: &[u32], names: &Names) -> Result<ColumnValues> {
    Ok(match names.numbers() {
        Some(numbers) => {
            let ids = vertices.iter().map(|vertex| numbers[*vertex as usize]);
            ColumnValues::Unsigned(ids.collect())
        }
        None => {
            let held = names.held(job, vertices.to_vec())?;
            let names = vertices.iter().map(|vertex| held.get(*vertex).to_owned());
            ColumnValues::Text(names.collect())
        }
    })
}

/// The columns of a result with values of a given type.
fn columns_of(names: Option<&Names>, value: PlainType) -> Vec<(&'static str, PlainType)> {
    let name = names.map(|names| match names.numbers() {
        Some(_) => ("name", PlainType::Unsigned),
        None => ("name", PlainType::Text),
    });
    std::iter::once(("vertex", PlainType::Whole))
        .chain(name)
        .chain([("value", value)])
        .collect()
}

/// Writes one value per vertex.
///
/// # Errors
/// As [`write_columns`]; [`outcore::Kind::Memory`] if names do not fit.
pub fn write_values(
    job: &Job,
    to: TablePlace<'_>,
    values: &Values,
    names: Option<&Names>,
) -> Result<u64> {
    let of = match values {
        Values::Floats(_) => PlainType::Float64,
        _ => PlainType::Whole,
    };
    let columns = columns_of(names, of);
    let table = NewTable {
        path: to.path,
        is_replacing: to.replace,
        columns: &columns,
    };
    write_columns(job, &table, |take| {
        for first in (0..values.len()).step_by(ROWS_AT_ONCE) {
            let vertices = first..values.len().min(first + ROWS_AT_ONCE);
            let mut columns = vertices_of(job, vertices.clone(), names)?;
            let all = vertices.map(|vertex| values.get(vertex));
            columns.push(match of {
                PlainType::Float64 => ColumnValues::Float64(all.map(float).collect()),
                _ => ColumnValues::Whole(all.map(whole).collect()),
            });
            take(columns)?;
        }
        Ok(())
    })
}

fn float(value: Value) -> f64 {
    match value {
        Value::Float(number) => number,
        Value::Whole(number) => number as f64,
    }
}

fn whole(value: Value) -> i64 {
    match value {
        Value::Whole(number) => number,
        Value::Float(number) => number as i64,
    }
}

/// Writes the labels of components that are on scratch.
///
/// # Errors
/// As [`write_values`]; a failed read.
pub fn write_labels(
    job: &Job,
    to: TablePlace<'_>,
    labels: &LabelFile,
    names: Option<&Names>,
) -> Result<u64> {
    let columns = columns_of(names, PlainType::Whole);
    let table = NewTable {
        path: to.path,
        is_replacing: to.replace,
        columns: &columns,
    };
    write_columns(job, &table, |take| {
        let mut first = 0;
        let stored = Context::of_job(job).read_inputs::<u32>(&[labels.input()]);
        stored.for_each_in_order(|labels| {
            for labels in labels.chunks(ROWS_AT_ONCE) {
                let mut columns = vertices_of(job, first..first + labels.len(), names)?;
                let values = labels.iter().map(|label| i64::from(*label));
                columns.push(ColumnValues::Whole(values.collect()));
                take(columns)?;
                first += labels.len();
            }
            Ok(())
        })?;
        Ok(())
    })
}

/// Receives rows of ids, one after another, and a distance per row.
pub type TakeNear<'t> = dyn FnMut(&[u64], &[f64]) -> Result<()> + 't;

/// Writes rows of near vectors: one column for each of `ids`, and `distance`.
///
/// # Errors
/// As [`write_columns`].
pub fn write_near(
    job: &Job,
    to: TablePlace<'_>,
    ids: &[&str],
    find: impl FnOnce(&mut TakeNear<'_>) -> Result<()>,
) -> Result<u64> {
    let mut columns: Vec<(&str, PlainType)> =
        ids.iter().map(|id| (*id, PlainType::Whole)).collect();
    columns.push(("distance", PlainType::Float64));
    let width = ids.len().max(1);
    let table = NewTable {
        path: to.path,
        is_replacing: to.replace,
        columns: &columns,
    };
    write_columns(job, &table, |take: &mut TakeColumns<'_>| {
        find(&mut |ids, distances| {
            let rows = ids.chunks(ROWS_AT_ONCE * width);
            for (ids, distances) in rows.zip(distances.chunks(ROWS_AT_ONCE)) {
                let column = |place: usize| {
                    let ids = ids.iter().skip(place).step_by(width);
                    ColumnValues::Whole(ids.map(|id| *id as i64).collect())
                };
                let mut columns: Vec<ColumnValues> = (0..width).map(column).collect();
                columns.push(ColumnValues::Float64(distances.to_vec()));
                take(columns)?;
            }
            Ok(())
        })
    })
}

/// Writes the cluster of each row of `base`, as the columns `row` and `cluster` if the extension of
/// the output is that of a table. Its other files appear together with it.
///
/// # Errors
/// As [`write_columns`] and [`kmeans::write_labels`].
pub fn write_clusters(
    job: &Job,
    base: &VectorFile,
    clustering: &Clustering,
    output: &LabelOutput<'_>,
) -> Result<Summary> {
    if !has_columns(output.path) {
        return kmeans::write_labels(job, base, clustering, output);
    }
    let files = match output.beside {
        [] => None,
        beside => Some(stage_all(job, beside, output.replace)?),
    };
    let columns = [("row", PlainType::Whole), ("cluster", PlainType::Whole)];
    let (mut first, mut done) = (0, Summary::default());
    let table = NewTable {
        path: output.path,
        is_replacing: output.replace,
        columns: &columns,
    };
    write_columns_beside(job, &table, files, |take| {
        done = kmeans::each_label(job, base, clustering, &mut |clusters| {
            for clusters in clusters.chunks(ROWS_AT_ONCE) {
                let rows = first..first + clusters.len() as i64;
                first = rows.end;
                let clusters = clusters.iter().map(|cluster| i64::from(*cluster));
                take(vec![
                    ColumnValues::Whole(rows.collect()),
                    ColumnValues::Whole(clusters.collect()),
                ])?;
            }
            Ok(())
        })?;
        Ok(())
    })?;
    Ok(done)
}

/// Writes rows of vertices, by their original ids if there are any: one column for each of
/// `columns`.
///
/// # Errors
/// As [`write_values`].
pub fn write_rows(
    job: &Job,
    to: TablePlace<'_>,
    vertices: &[u32],
    columns: &[String],
    names: Option<&Names>,
) -> Result<u64> {
    let is_text = names.is_some_and(|names| names.numbers().is_none());
    let of = match is_text {
        true => PlainType::Text,
        false => PlainType::Whole,
    };
    let typed: Vec<(&str, PlainType)> = columns.iter().map(|name| (name.as_str(), of)).collect();
    let width = columns.len().max(1);
    let table = NewTable {
        path: to.path,
        is_replacing: to.replace,
        columns: &typed,
    };
    write_columns(job, &table, |take: &mut TakeColumns<'_>| {
        for rows in vertices.chunks((ROWS_AT_ONCE / width).max(1) * width) {
            let column = |place: usize| {
                let vertices = rows.iter().skip(place).step_by(width).copied();
                column_of(job, &vertices.collect::<Vec<u32>>(), names)
            };
            take((0..width).map(column).collect::<Result<_>>()?)?;
        }
        Ok(())
    })
}

/// The ids of vertices; individual vertices may be missing.
fn column_of(job: &Job, vertices: &[u32], names: Option<&Names>) -> Result<ColumnValues> {
    let is_one = |vertex: &u32| *vertex != NO_VERTEX;
    let numbers = names.map(Names::numbers);
    if let (Some(names), Some(None)) = (names, numbers) {
        let wanted: Vec<u32> = vertices.iter().filter(|v| is_one(v)).copied().collect();
        let held = names.held(job, wanted)?;
        let texts = vertices.iter().map(|vertex| match is_one(vertex) {
            true => held.get(*vertex).to_owned(),
            // A missing vertex is -1, as in results that are lines.
            false => "-1".to_owned(),
        });
        return Ok(ColumnValues::Text(texts.collect()));
    }
    let ids = vertices.iter().map(|vertex| match numbers.flatten() {
        _ if !is_one(vertex) => -1,
        Some(numbers) => numbers[*vertex as usize] as i64,
        None => i64::from(*vertex),
    });
    Ok(ColumnValues::Whole(ids.collect()))
}
