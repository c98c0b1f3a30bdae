//! Page sizes of Parquet, and the memory for compressing pages.
//!
//! Contract: [`Pages::of`] divides the memory of a row group. The library keeps a context of
//! Zstandard for each column from the column's first page to the end of the group. A context takes
//! 0.2 to 0.6 MiB at level 1, and about 17 times the page size at level 19, so 17 MiB for a page of
//! 1 MiB. So pages are small enough that contexts leave half of the memory to rows.
//!
//! With too many columns for that, pages end only with their group: a finished column frees its
//! context before the next one needs its own. Columns that fill a page earlier are counted, and the
//! group ends with the second of them ([`EARLY_COLUMNS_MAX`]). So contexts fit into memory even if
//! many columns fill one after another, each for a stretch of rows.
//!
//! Complexity: a few steps.

/// The default size of a page, and of a dictionary.
const PAGE_BYTES: u64 = 1 << 20;
/// The least size of a page, even with little memory.
const PAGE_MIN_BYTES: u64 = 16 << 10;
/// Pages that a column has open while it is written, including its dictionary and level buffers.
const PAGES_OPEN: u64 = 4;
/// Contexts may take 1/`CONTEXTS_SHARE` of a row group's memory.
const CONTEXTS_SHARE: u64 = 2;
/// If pages end with their group, a page is at most 1/`PAGES_OF_GROUP` of the group.
const PAGES_OF_GROUP: u64 = 2;
/// A group ends when this many columns have ended a page that compression made shorter.
pub(super) const EARLY_COLUMNS_MAX: usize = 2;
/// The most columns with a context in that case: the columns counted by [`EARLY_COLUMNS_MAX`], two
/// whose incompressible pages fill the group, and the one that is being ended.
const EARLY_COLUMNS: u64 = EARLY_COLUMNS_MAX as u64 + 3;
/// Memory of a context at a high level, in addition to the part that grows with its page.
const HIGH_LEVEL_BYTES: u64 = 1280 << 10;
/// The longest page that needs a larger context, except at the highest levels.
const WHOLE_PAGE_BYTES: u64 = 4 << 20;

/// Page sizes and context memory of a row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages {
    /// The size at which a page, or a dictionary, ends.
    pub(super) page_bytes: u64,
    /// Whether pages end only with their group, however many rows they have.
    pub(super) are_whole: bool,
    /// Memory of compression contexts until the group ends.
    pub(super) contexts_bytes: u64,
}

impl Pages {
    /// Divides a row group of `group_bytes` with `columns` columns; `zstd_level` is `None` without
    /// Zstandard.
    pub(super) fn of(zstd_level: Option<i32>, columns: u64, group_bytes: u64) -> Self {
        let columns = columns.max(1);
        let usual_bytes = group_bytes / (PAGES_OPEN * columns);
        let mut pages = Pages {
            page_bytes: usual_bytes.clamp(PAGE_MIN_BYTES, PAGE_BYTES),
            are_whole: false,
            contexts_bytes: 0,
        };
        let Some(level) = zstd_level else {
            return pages;
        };
        loop {
            pages.contexts_bytes = columns * context_bytes(level, pages.page_bytes);
            if pages.contexts_bytes <= group_bytes / CONTEXTS_SHARE {
                return pages;
            }
            if pages.page_bytes == PAGE_MIN_BYTES {
                break;
            }
            pages.page_bytes = (pages.page_bytes / 2).max(PAGE_MIN_BYTES);
        }
        let whole = Pages {
            page_bytes: (group_bytes / PAGES_OF_GROUP).max(PAGE_MIN_BYTES),
            are_whole: true,
            contexts_bytes: whole_bytes(level, columns),
        };
        match whole.contexts_bytes < pages.contexts_bytes {
            true => whole,
            false => pages,
        }
    }

    /// The least memory of an open row group.
    pub(super) fn group_min_bytes(zstd_level: Option<i32>, columns: u64) -> u64 {
        let columns = columns.max(1);
        let contexts_bytes = match zstd_level {
            Some(level) => {
                let all_bytes = columns * context_bytes(level, PAGE_MIN_BYTES);
                all_bytes.min(whole_bytes(level, columns))
            }
            None => 0,
        };
        PAGE_MIN_BYTES * PAGES_OPEN * columns + contexts_bytes
    }
}

/// Memory of contexts if pages end only with their group.
fn whole_bytes(level: i32, columns: u64) -> u64 {
    columns.min(EARLY_COLUMNS) * context_bytes(level, WHOLE_PAGE_BYTES)
}

/// The most memory of a Zstandard context for pages that end at `page_bytes` and are up to twice as
/// long.
fn context_bytes(level: i32, page_bytes: u64) -> u64 {
    // As measured for version 1.5.7: a multiple of the page size, up to a limit, because windows
    // are no longer than a page. At high levels, tables of a fixed length make a context 17 times
    // as large as the page.
    let len_bytes = 2 * page_bytes;
    let (times, most_kib) = match level {
        ..=1 => (6, 576),
        2 => (9, 768),
        3 => (17, 1280),
        4..=6 => (17, 3584),
        7..=8 => (17, 6656),
        9 => (17, 12_800),
        _ => (32, (17 * len_bytes + HIGH_LEVEL_BYTES) >> 10),
    };
    (times * len_bytes).min(most_kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_take_what_is_counted_at_most() {
        for level in 1..=22 {
            for page_bytes in [16u64, 32, 64, 128, 256, 512, 1024].map(|kib| kib << 10) {
                let mut compressor = zstd::bulk::Compressor::new(level).unwrap();
                compressor
                    .compress(&vec![0; 2 * page_bytes as usize])
                    .unwrap();
                let taken_bytes = compressor.context_mut().sizeof() as u64;
                let counted_bytes = context_bytes(level, page_bytes);
                assert!(taken_bytes <= counted_bytes, "{level} {page_bytes}");
                // Contexts of a high level for large pages are expensive, so the estimate must be
                // less than twice the measured memory.
                let is_dear = level >= 10 && page_bytes >= 128 << 10;
                assert!(
                    !is_dear || counted_bytes < 2 * taken_bytes,
                    "{level} {page_bytes}"
                );
            }
        }
    }

    #[test]
    fn contexts_leave_half_of_a_group_to_its_rows() {
        for level in [1, 3, 9, 19] {
            for columns in [1, 10, 100, 1000] {
                let least_bytes = Pages::group_min_bytes(Some(level), columns);
                for group_bytes in [least_bytes, 2 * least_bytes, 64 << 20, 1 << 30] {
                    let group_bytes = group_bytes.max(least_bytes);
                    let pages = Pages::of(Some(level), columns, group_bytes);
                    let left_bytes = group_bytes - pages.contexts_bytes;
                    assert!(pages.page_bytes >= PAGE_MIN_BYTES);
                    assert!(left_bytes >= PAGE_MIN_BYTES * PAGES_OPEN * columns);
                    if group_bytes >= 2 * least_bytes {
                        assert!(left_bytes >= group_bytes / 2, "{level} {columns} {pages:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn pages_are_smaller_for_high_levels_and_end_with_their_group_where_columns_are_many() {
        let group_bytes = 64 << 20;
        let usual = Pages::of(None, 10, group_bytes);
        assert_eq!((usual.page_bytes, usual.contexts_bytes), (PAGE_BYTES, 0));
        let low = Pages::of(Some(1), 10, group_bytes);
        assert_eq!((low.page_bytes, low.are_whole), (PAGE_BYTES, false));
        assert!(low.contexts_bytes > 10 * (100 << 10));
        let high = Pages::of(Some(19), 10, group_bytes);
        assert!(high.page_bytes < PAGE_BYTES && !high.are_whole);
        let wide = Pages::of(Some(1), 1000, group_bytes);
        assert!(wide.are_whole && wide.contexts_bytes < group_bytes / 8);
    }
}
