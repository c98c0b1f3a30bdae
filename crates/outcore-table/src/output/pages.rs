//! How large pages of Parquet are, and how much memory compresses them.
//!
//! Contract: [`Pages::of`] divides the memory of a row group. The library keeps a context of
//! Zstandard for each column from the column's first page to the end of the group: 0.2 to 0.6 MiB
//! at level 1, and at level 19 some 17 times its page, 17 MiB for one of a MiB. So pages are as
//! large as leaves half of the memory to rows. Where columns are too many for that, a page ends
//! only with its group: a column that is done gives its context back before the next one needs its
//! own. Columns that fill a page before are counted, and the group ends with the second of them
//! ([`EARLY_COLUMNS_MAX`]): so many that fill one after another, each for a stretch of rows, hold
//! no more contexts than there is memory for.
//!
//! Complexity: a few steps.

/// A page by default, and a dictionary.
const PAGE_BYTES: u64 = 1 << 20;
/// A page has this at least, even where memory is small.
const PAGE_MIN_BYTES: u64 = 16 << 10;
/// Pages that a column has open at once, dictionary and level buffers included, while it is
/// written.
const PAGES_OPEN: u64 = 4;
/// The part of a row group's memory that contexts may take.
const CONTEXTS_SHARE: u64 = 2;
/// Where pages end with their group, a page is this part of the group at most,
const PAGES_OF_GROUP: u64 = 2;
/// and the group ends when so many columns have ended one that compression made shorter.
pub(super) const EARLY_COLUMNS_MAX: usize = 2;
/// Columns that have a context then: these, two whose pages stayed as long as they were, which fill
/// the group, and the one that is being ended.
const EARLY_COLUMNS: u64 = EARLY_COLUMNS_MAX as u64 + 3;
/// What a context of a high level takes beside what grows with its page, at most.
const HIGH_LEVEL_BYTES: u64 = 1280 << 10;
/// How long such a page is where it is compressed, at most: longer ones need no larger context, but
/// at the highest levels.
const WHOLE_PAGE_BYTES: u64 = 4 << 20;

/// Pages of the columns of a row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages {
    /// A page, and a dictionary, is ended when it has this.
    pub(super) page_bytes: u64,
    /// Whether pages end with their group, however many rows they have.
    pub(super) are_whole: bool,
    /// What contexts of compression take until the group ends.
    pub(super) contexts_bytes: u64,
}

impl Pages {
    /// For `columns` columns in a row group of `group_bytes`, which Zstandard compresses if it has
    /// a level.
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

    /// The memory that an open row group takes at least.
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

/// What contexts take where pages end with their group.
fn whole_bytes(level: i32, columns: u64) -> u64 {
    columns.min(EARLY_COLUMNS) * context_bytes(level, WHOLE_PAGE_BYTES)
}

/// What a context of Zstandard takes at most that has compressed pages which were ended at
/// `page_bytes`, and are up to twice as long.
fn context_bytes(level: i32, page_bytes: u64) -> u64 {
    // Measured (version 1.5.7): so many times the page at most, up to an end, since windows are no
    // longer than a page. At high levels tables of one length come to 17 times the page.
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
                // Nor is twice as much counted, where a high level makes it dear.
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
