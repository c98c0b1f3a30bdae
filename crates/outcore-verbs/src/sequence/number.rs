//! Numbers of any type in reports.
//!
//! Contract: a number is written as a number, or as text if JSON has no such number: an integer of
//! more than 64 bits, an infinity, a NaN. The result for no records is null.

use outcore::primitives::Scalar;
use serde::{Serialize, Serializer};

use crate::report::{FieldType, report};

/// A result of any type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number(pub Scalar);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Scalar::Int(value) => match (u64::try_from(value), i64::try_from(value)) {
                (Ok(value), _) => serializer.serialize_u64(value),
                (_, Ok(value)) => serializer.serialize_i64(value),
                _ => serializer.collect_str(&value),
            },
            Scalar::Float(value) if value.is_finite() => serializer.serialize_f64(value),
            Scalar::Float32(value) if value.is_finite() => serializer.serialize_f32(value),
            Scalar::None => serializer.serialize_none(),
            other => serializer.collect_str(&other),
        }
    }
}

impl FieldType for Number {
    fn python_type() -> String {
        "int | float | str | None".to_owned()
    }
}

report! {
    /// A value, and how often it occurs.
    pub struct ValueCount {
        /// The value.
        value: Number,
        /// The number of its occurrences.
        count: u64,
    }
}
