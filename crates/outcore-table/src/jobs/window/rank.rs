//! The place of a row in its group.
//!
//! Contract: a rank follows from that of the row before it. Pure.

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

    /// That of the next row of the group, which has the same order or not.
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

    /// Which row is the first of the group, of rows among which this is number `row`; nothing if it
    /// came before them.
    pub(super) fn first_row(self, row: usize) -> Option<usize> {
        row.checked_sub(usize::try_from(self.number - 1).ok()?)
    }
}
