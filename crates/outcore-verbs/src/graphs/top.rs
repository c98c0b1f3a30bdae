//! The vertices with the largest values, by their original ids.
//!
//! Contract: equal values are in the order of vertices. Values that are vertices are called by
//! their original ids, too.

use std::fmt;

use outcore::{Job, Result};
use outcore_graph::graph::names::{HeldNames, Names};
use outcore_graph::results::{self, Value, Values};
use serde::Serialize;

use crate::report::FieldType;

/// The id of a vertex, or its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Told {
    /// An id that is a number.
    Id(u64),
    /// An id that is a name.
    Name(String),
    /// A whole number.
    Whole(i64),
    /// A float.
    Float(f64),
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Id(id) => id.fmt(f),
            Told::Name(name) => name.fmt(f),
            Told::Whole(number) => number.fmt(f),
            Told::Float(number) => number.fmt(f),
        }
    }
}

/// A vertex and its value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Ranked(Told, Told);

impl fmt::Display for Ranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}", self.0, self.1)
    }
}

impl FieldType for Ranked {
    fn python_type() -> String {
        "tuple[int | str, int | float | str | None]".to_owned()
    }
}

/// The vertices with the largest values, and what they are called.
pub(super) struct Top {
    best: Vec<(usize, Value)>,
    /// Values are vertices, too.
    of_vertices: bool,
    names: Option<HeldNames>,
    is_text: bool,
}

impl Top {
    /// So many of `values`.
    pub(super) fn of(
        job: &Job,
        values: &Values,
        count: usize,
        names: Option<&Names>,
    ) -> Result<Self> {
        let (best, of_vertices) = (results::top(values, count), values.are_vertices());
        let mut vertices: Vec<u32> = best.iter().map(|(vertex, _)| *vertex as u32).collect();
        if of_vertices {
            vertices.extend(best.iter().filter_map(|(_, value)| value.vertex()));
        }
        let held = names.map(|names| names.held(job, vertices));
        Ok(Top {
            best,
            of_vertices,
            names: held.transpose()?,
            is_text: names.is_some_and(|names| names.numbers().is_none()),
        })
    }

    fn id(&self, vertex: u32) -> Told {
        match &self.names {
            Some(held) if self.is_text => Told::Name(held.get(vertex).to_owned()),
            Some(held) => Told::Id(held.get(vertex).parse().unwrap_or_default()),
            None => Told::Id(vertex.into()),
        }
    }

    /// Pairs of a vertex and its value.
    pub(super) fn ranked(&self) -> Vec<Ranked> {
        let pairs = self.best.iter().map(|(vertex, value)| {
            let told = match (value, value.vertex().filter(|_| self.of_vertices)) {
                (_, Some(other)) => self.id(other),
                (Value::Whole(number), None) => Told::Whole(*number),
                (Value::Float(number), None) => Told::Float(*number),
            };
            Ranked(self.id(*vertex as u32), told)
        });
        pairs.collect()
    }
}
