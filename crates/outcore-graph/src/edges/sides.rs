//! The rows and columns of a matrix as vertices.
//!
//! Contract: row i and column i of a square matrix are one vertex. If the caller asks for it, rows
//! and columns of any matrix are different vertices, and rows come first. Otherwise a matrix that
//! is not square is rejected.

use std::path::Path;

use outcore::{Error, Result};
use outcore_io::units;

use super::READ;

/// The vertices of a matrix.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatrixSides {
    pub(super) vertices: u64,
    /// The vertex of the first column.
    pub(super) target_from: u64,
}

impl MatrixSides {
    /// The vertices of a matrix with this many rows and columns.
    ///
    /// # Errors
    /// [`outcore::Kind::Usage`] for a matrix that is not square, unless rows and columns are
    /// different vertices.
    pub(super) fn new(path: &Path, rows: u64, columns: u64, is_bipartite: bool) -> Result<Self> {
        if is_bipartite {
            return Ok(MatrixSides {
                vertices: rows.saturating_add(columns),
                target_from: rows,
            });
        }
        match rows == columns {
            true => Ok(MatrixSides {
                vertices: rows,
                target_from: 0,
            }),
            false => {
                let cause = format!(
                    "it has {} and {}: row i and column i are not the same vertex",
                    units::counted(rows, "row"),
                    units::counted(columns, "column")
                );
                Err(Error::usage(READ, cause).path(path).hint(
                    "pass --bipartite (bipartite=True in Python) if rows and columns are different vertices",
                ))
            }
        }
    }
}
