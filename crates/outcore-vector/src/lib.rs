//! Vectors for outcore: exact nearest neighbours and k-means over files far larger than memory.
//!
//! Every job is one or a few passes over a file of vectors ([`format`](mod@format)). Pieces are
//! read ahead on all threads ([`scan`]) and multiplied by the queries or centroids in memory, with
//! a register-blocked product. Products are in f32; comparisons that f32 cannot decide within its
//! proven error bound are repeated in f64. So results depend only on the data, not on the
//! processor, the number of threads or the memory.
//!
//! - [`format`](mod@format): files of vectors: NumPy's, fvecs and similar, big-ann's, raw numbers
//! - [`scan`]: one pass over a file on all threads
//! - [`exact`]: distances in f64 with a fixed order of summation, and the error bound of f32
//!   products
//! - [`index`](mod@index): one byte per number, with a bound on the error of these bytes; or
//!   rows in lists
//! - [`knn`]: the exact nearest neighbours of queries, all rows within a radius, all near pairs
//! - [`kmeans`](mod@kmeans): clusters, by passes over the base or by batches of its rows
//! - [`convert`](mod@convert): converts between formats
//! - [`results`]: writes small results to files
//!
//! ```
//! use outcore::{IoMode, Job, JobOptions};
//! use outcore_vector::format::VectorFile;
//! use outcore_vector::knn::{KnnOptions, Metric, knn};
//!
//! # fn main() -> outcore::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| outcore::Error::io("make a directory", &e))?;
//! # let (base, queries) = (dir.path().join("base.f32"), dir.path().join("queries.f32"));
//! # std::fs::write(&base, [0.0_f32, 0.0, 3.0, 4.0].map(f32::to_le_bytes).concat())
//! #     .and_then(|()| std::fs::write(&queries, [3.0_f32, 0.0].map(f32::to_le_bytes).concat()))
//! #     .map_err(|e| outcore::Error::io("write input", &e))?;
//! let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
//! let job = Job::new(limits, IoMode::Auto);
//! let base = VectorFile::open(&job, &base, Some("f32x2"))?;
//! let queries = VectorFile::open(&job, &queries, Some("f32x2"))?;
//! let found = knn(&job, &base, &queries, &KnnOptions::new(2, Metric::L2))?;
//! assert_eq!((found.ids, found.distances), (vec![0, 1], vec![9.0, 16.0]));
//! # Ok(())
//! # }
//! ```

pub mod convert;
pub mod exact;
pub mod format;
pub mod index;
pub mod kmeans;
pub mod knn;
mod product;
pub mod results;
pub mod scan;
