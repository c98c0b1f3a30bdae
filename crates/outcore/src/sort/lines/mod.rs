//! Lines in order: sorted, deduplicated, counted, merged, checked.
//!
//! [`sort_lines`] is the external samplesort of [`crate::sort`] for records of any length, in the
//! order of any [`SortKey`]. Splitters are strings, buckets are lists of segments with whole lines,
//! and a bucket is sorted by reference, eight bytes at a time. If one line per key is wanted and
//! few lines differ, they are counted in tables as they are read.
//!
//! [`sort_rows`] is the same for rows of any bytes that a program generates and consumes
//! ([`rows`]).
//!
//! An unterminated last line of a file is terminated in the output, as the standard tools do.

mod arrange;
mod bucket;
mod check;
mod context;
mod distinct;
mod distribute;
mod emit;
mod files;
mod line_bytes;
mod made;
mod mark;
mod merge;
mod offset_value;
mod place;
mod plan;
mod refs;
mod row_journal;
pub mod rows;
mod sample;
mod sides;
mod sort;
mod sort_task;
mod split;
mod splitters;
mod table;

pub use check::{Disorder, check_lines};
pub use made::{RowSortOptions, sort_rows, sort_rows_with};
pub use merge::{merge_lines, merge_passes};
pub use place::select_lines;
pub(crate) use plan::lines_text;
pub use plan::{LinePlan, LineSize, LongLine, plan_lines};
pub use row_journal::{Claimed, RowJournal, RowOption};
pub use sides::{SideCounts, Sides};
pub use sort::{sample_lines, sort_lines};

pub(crate) use arrange::{KEY_HEAD_BYTES, key_ref, sort_keys, to_line};
pub(crate) use context::line_number;
pub(crate) use emit::{Counts, Gather};
pub(crate) use offset_value::Coding;
pub(crate) use refs::{AnyTie, REF_BYTES, Ref, sort_refs};
pub(crate) use sort::sample_lengths;

use crate::ends::{DriveTraffic, Phase};
use crate::key::check::PartTotals;
use outcore_io::output::Room;

/// Handling of lines without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnNoKey {
    /// The job fails with an error that names the line.
    #[default]
    Fail,
    /// Lines without a key are skipped and counted.
    Skip,
}

/// Which lines, or records, are written, by the number of occurrences of their key in the whole
/// input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Occurrences {
    /// All lines.
    #[default]
    Any,
    /// Lines whose key occurs more than once.
    Repeated,
    /// Lines whose key occurs once.
    Once,
}

impl Occurrences {
    /// Whether a key that occurs `count` times is wanted.
    #[inline(always)]
    pub fn has(self, count: u64) -> bool {
        match self {
            Occurrences::Any => true,
            Occurrences::Repeated => count > 1,
            Occurrences::Once => count == 1,
        }
    }
}

/// Handling of the input positions of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Places {
    /// Nothing.
    #[default]
    None,
    /// Each line is written after its position; among equal keys the first comes first.
    Added,
    /// Lines that begin with their positions are written without them.
    Removed,
}

/// How lines are sorted, besides their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineSortOptions {
    /// The byte that ends a line.
    pub terminator: u8,
    /// The byte that ends a line where messages count lines, if a sorted line may contain several
    /// such lines. The terminator also ends one.
    pub inner_end: Option<u8>,
    /// The separator of CSV fields, if each line is assumed to be a whole record and this has not
    /// been checked: a record that spans lines is then an error of kind
    /// [`Corrupt`](crate::Kind::Corrupt).
    pub csv_separator: Option<u8>,
    /// One line per key: the first in the order.
    pub unique: bool,
    /// One line per key, preceded by the number of lines of that key, as in `uniq -c`.
    pub count: bool,
    /// Which keys are wanted. Without `unique` and `count`, all lines of these keys are written.
    pub occurrences: Occurrences,
    /// The inputs are two sides, which are compared; see [`Sides`].
    pub sides: Option<Sides>,
    /// Handling of the input positions of lines; see [`select_lines`].
    pub places: Places,
    /// Writes counts as the first field of CSV with this separator, instead of padding them like
    /// `uniq -c`.
    pub count_separator: Option<u8>,
    /// Whether an existing output is replaced.
    pub replace: bool,
    /// Handling of lines without a key.
    pub on_no_key: OnNoKey,
    /// Whether a sort of whole lines skips blank lines, because they are not rows of JSON Lines. An
    /// order that makes keys from lines reports them with
    /// [`NoKey::blank`](crate::key::sort_key::NoKey::blank).
    pub drops_blanks: bool,
}

impl Default for LineSortOptions {
    fn default() -> Self {
        LineSortOptions {
            terminator: b'\n',
            inner_end: None,
            csv_separator: None,
            unique: false,
            count: false,
            occurrences: Occurrences::Any,
            sides: None,
            places: Places::None,
            count_separator: None,
            replace: false,
            on_no_key: OnNoKey::Fail,
            drops_blanks: false,
        }
    }
}

impl LineSortOptions {
    /// Whether one line per key is written.
    fn is_unique(&self) -> bool {
        self.unique || self.count || self.sides.is_some()
    }

    /// Bytes that are put before each line when it is read.
    fn mark_bytes(&self) -> usize {
        match (self.sides, self.places) {
            (Some(_), _) => sides::MARK_BYTES,
            (None, Places::Added) => mark::MARK_BYTES,
            (None, Places::None | Places::Removed) => 0,
        }
    }

    /// Leading bytes of each line that are not written.
    fn hidden_bytes(&self) -> usize {
        match (self.sides, self.places) {
            (Some(_), _) => sides::MARK_BYTES,
            (None, Places::Removed) => mark::MARK_BYTES,
            (None, Places::None | Places::Added) => 0,
        }
    }

    /// Whether lines may be omitted, so that the length of the output is unknown in advance.
    fn is_thinned(&self) -> bool {
        self.is_unique() || self.occurrences != Occurrences::Any || self.places != Places::None
    }

    /// Whether the output has more than the lines of the input. Its maximum size is then known only
    /// after the distribution.
    fn adds_bytes(&self) -> bool {
        self.count || self.mark_bytes() > 0
    }

    /// The room for the output.
    fn room(&self) -> Room {
        match self.is_thinned() {
            true => Room::AtMost,
            false => Room::Exactly,
        }
    }

    /// Whether the lines of a key are counted when one of them is written.
    fn has_counts(&self) -> bool {
        self.count || (self.unique && self.occurrences != Occurrences::Any)
    }

    /// The text before lines.
    fn counts(&self) -> Counts {
        if let Some(sides) = self.sides {
            return Counts::Columns(sides.separator);
        }
        match (self.count, self.count_separator) {
            (false, _) => Counts::None,
            (true, None) => Counts::Padded,
            (true, Some(separator)) => Counts::Column(separator),
        }
    }
}

/// The result of a sort or merge of lines.
#[derive(Debug, Clone, Default)]
pub struct LineSummary {
    /// Lines read, without blank lines that are not records.
    pub lines_in: u64,
    /// Lines written.
    pub lines_out: u64,
    /// Lines skipped because they have no key.
    pub skipped: u64,
    /// For two compared sides: the lines of only one, and those of both.
    pub sides: SideCounts,
    /// Bytes of the output.
    pub bytes_out: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// How often data were read and written.
    pub passes: u32,
    /// Most scratch in use at once.
    pub scratch_bytes: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<DriveTraffic>,
    /// The plan of a sort.
    pub plan: Option<LinePlan>,
    /// The totals of the output, if they were asked for.
    pub totals: Option<PartTotals>,
}
