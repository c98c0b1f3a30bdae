//! The place of a row in its group.
//!
//! Contract: each rank follows from that of the previous row. Pure.

/// The place of a row in its group; all numbers count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowRank {
    pub(super) number: i64,
    pub(super) rank: i64,
    pub(super) dense_rank: i64,
}

impl RowRank {
    pub(super) const FIRST: RowRank = RowRank {
        number: 1,
        rank: 1,
        dense_rank: 1,
    };

    /// The place of the next row of the group; `is_equal` if that row has the same order values as
    /// this one.
    pub(super) fn next(self, is_equal: bool) -> Self {
        let number = self.number + 1;
        match is_equal {
            true => RowRank { number, ..self },
            false => RowRank {
                number,
                rank: number,
                dense_rank: self.dense_rank + 1,
            },
        }
    }

    /// The index of the group's first row, if this is the place of row `row`; `None` if that first
    /// row comes before row 0.
    pub(super) fn first_row(self, row: usize) -> Option<usize> {
        row.checked_sub(usize::try_from(self.number - 1).ok()?)
    }
}
