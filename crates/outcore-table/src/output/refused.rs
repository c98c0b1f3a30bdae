//! Errors of the job for values that the libraries refuse to write.
//!
//! Contract: a value that a format cannot hold is a usage error, never damage.

use arrow_schema::ArrowError;
use outcore_io::{Error, Kind};
use parquet::errors::ParquetError;

use super::WRITE;
use crate::fault;

pub(super) fn given_up() -> Error {
    Error::new(
        Kind::Interrupted,
        WRITE,
        "another part of the output has failed",
    )
    .hint("nothing was left behind")
}

pub(super) fn unwritable(error: &ParquetError) -> Error {
    no_damage(
        fault::parquet(WRITE, error),
        "leave the column out, or write an Arrow file",
    )
}

pub(super) fn unwritable_arrow(error: &ArrowError) -> Error {
    no_damage(
        fault::arrow(WRITE, error),
        "leave the column out, or write Parquet",
    )
}

/// Converts a refusal to write from a corrupt-data error to a usage error.
fn no_damage(told: Error, hint: &str) -> Error {
    if told.kind() != Kind::Corrupt {
        return told;
    }
    Error::usage(WRITE, told.cause().to_owned()).hint(hint)
}
