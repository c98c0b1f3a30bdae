//! The conformance kit of joins: two tables of CSV, and the result of joining them.
//!
//! Contract: the outputs in `joins.json` are those of DuckDB, in the order that the documentation
//! of `join` guarantees. The engine (`crates/outcore-table/tests/table/joins.rs`), the command and
//! Python (`python/tests/test_conformance.py`) run all cases.

use serde_json::Value;

/// A join.
pub(crate) struct Case(Value);

/// All joins.
pub(crate) fn cases() -> Vec<Case> {
    let all: Vec<Value> = serde_json::from_str(include_str!("joins.json")).unwrap();
    all.into_iter().map(Case).collect()
}

impl Case {
    /// `name`, `how`, `left`, `right`, `expected`, and `schema` if the types cannot be inferred
    /// from the texts.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap()
    }

    /// The columns of the key.
    pub(crate) fn on(&self) -> Vec<&str> {
        let on = self.0["on"].as_array().unwrap().iter();
        on.map(|name| name.as_str().unwrap()).collect()
    }
}
