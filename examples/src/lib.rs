//! Algorithms on data larger than memory, each a page long, on outcore's primitives.
//!
//! Contract: each file is one algorithm that reads like its description; nothing here knows how
//! blocks are read or where scratch lies. The tests run every one against the standard library.

mod bfs;
mod deduplicate;
mod histogram;
mod inverted_index;
mod join;
mod kth_largest;
mod prefix_sums;
mod samplesort;
mod shuffle;
mod word_count;

pub use bfs::bfs;
pub use deduplicate::deduplicate;
pub use histogram::histogram_of;
pub use inverted_index::inverted_index;
pub use join::join;
pub use kth_largest::kth_largest;
pub use prefix_sums::prefix_sums;
pub use samplesort::samplesort;
pub use shuffle::global_shuffle;
pub use word_count::word_count;

use std::path::Path;

use outcore::algo::sort::SortOutput;

/// One file, without a header.
fn to_file(path: &Path) -> SortOutput {
    SortOutput::File {
        path: path.to_path_buf(),
        header: None,
    }
}
