//! Parallel primitives on data larger than memory: map, filter, reduce and similar ones.
//!
//! These primitives offer what ParlayLib (Blelloch, Anderson, Dhulipala, SPAA 2020) offers for
//! memory and PALID (SPAA 2025, section 4) for drives. A [`Sequence`] over files or generated
//! values is refined lazily. One of the functions below then consumes it, in one pass that writes
//! nothing in between.
//!
//! ```
//! use outcore::primitives::{Sequence, reduce, tabulate};
//! use outcore::IoMode;
//! use outcore::job::{Job, JobOptions};
//!
//! # fn main() -> outcore::Result<()> {
//! let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
//! let job = Job::new(limits, IoMode::Auto);
//! let even = tabulate(1_000_000, |i| i).filter(|x| x % 2 == 0);
//! assert_eq!(reduce(&job, &even.map(|x| x * x), 0, u64::wrapping_add)?, 166_666_166_667_000_000);
//! # Ok(())
//! # }
//! ```
//!
//! - [`batch`]: [`Sequence`]: sources, `map`, `filter`, `flat_map`, `zip`
//! - [`reduce`](mod@reduce): any monoid: `reduce`, `map_reduce`, `fold`; `count`, `sum`, `min`,
//!   `max`, `mean`
//! - [`write`](mod@write): to a file, to shards, to a pipe
//! - [`scan`](mod@scan): prefix sums, inclusive and exclusive
//! - [`select`]: `first`, `find_if`, `top_k`, `top_k_each`, `histogram`
//! - [`distribute`](mod@distribute): files by bucket, `partition`
//! - [`route`]: parts by key ranges or at random, with checksums, for other machines
//! - [`group`]: `count_by`, `unique`: by hash or by sort
//! - `by_key`: `segmented_reduce`, `reduce_by_key`, `group_by_key`: consecutive items with one key
//! - `by_index`: `for_each_batch` with a state per thread, `reduce_by_index`, `histogram_by_index`
//! - [`sorted`]: `sort_items`: sorts the results of a pass, with no file in between
//! - [`rearrange`]: `reverse`, `windows`, `merge` of sorted files
//! - `map_to`: `map_files_to`: a function from file to file
//! - [`gather`](mod@gather): elements by position; all items in memory
//! - [`gather_to`](mod@gather_to): the same from a file of positions to a file
//! - [`lookup`](mod@lookup): the ranks of keys in sorted files
//! - [`appended`]: files that grow at their end while something else is computed
//! - [`files`]: a function on each of many files
//! - [`table`], `aggregate`, [`tables`]: the same with types that are known only at run time:
//!   expressions
//! - `pieces`, `pass`, `append`, `ahead`, [`producer`]: the internals: what is read next, sizes,
//!   order

pub(crate) mod aggregate;
mod ahead;
mod append;
pub mod appended;
pub mod batch;
pub mod bucketer;
mod by_index;
pub(crate) mod by_key;
mod count_table;
pub mod distribute;
mod expand;
pub mod files;
pub mod gather;
pub mod gather_to;
pub mod group;
pub mod lookup;
mod map_to;
mod ordered;
mod pass;
mod pieces;
pub mod producer;
pub mod rearrange;
pub mod reduce;
pub mod route;
pub mod scan;
pub mod select;
pub mod sized_files;
pub mod sorted;
pub(crate) mod sources;
mod summary;
pub mod table;
pub mod tables;
pub mod write;

pub use aggregate::{Reduction, Scalar, reduce_table};
pub use batch::{Batch, Sequence, read, tabulate};
pub use by_index::{for_each_batch, histogram_by_index, reduce_by_index};
pub use by_key::{group_by_key, reduce_by_key, segmented_reduce};
pub use distribute::{BucketFiles, distribute, distribute_indexed, partition};
pub use files::{LoadedFile, map_files};
pub use gather::{collect, gather, gather_each, gather_ranges};
pub use group::{GroupPlan, GroupSummary, GroupedBy, Grouping, count_by, unique};
pub use lookup::{Side, build_index, lookup, lookup_indexed, lookup_read_bytes};
pub use map_to::map_files_to;
pub(crate) use map_to::written_chunks_bytes;
pub use rearrange::{merge, reverse, windows};
pub use reduce::{count, fold, fold_with_summary, map_reduce, max, mean, min, reduce, sum};
pub use route::{LineRanges, PartTotals, RecordRanges, RecordRoute, random_part};
pub use scan::{Inclusion, scan};
pub use select::{find_if, first, histogram, top_k, top_k_each};
pub use sources::{plan_files, plan_merge_of_lines};
pub use summary::{PassPlan, Summary};
pub use table::Table;
pub use write::write;
