//! Generated records for tests, measurements and examples of outcore.
//!
//! A [`Generator`] makes record `n` of a format as a pure function of `n`: keys in the
//! distributions of PALID (SPAA 2025, section 5), or the records of sortbenchmark.org's gensort,
//! byte for byte. [`generate()`] writes them to a file, to shards or to a pipe, through the
//! engine's public API.
//!
//! ```
//! use outcore::{IoMode, Job, JobOptions, Output, RecordFormat};
//! use outcore_gen::{GenerateOptions, GenerateRequest, Generator, generate};
//!
//! # fn main() -> outcore::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| outcore::Error::io("make a directory", &e))?;
//! # let path = dir.path().join("keys.bin");
//! let mut options = GenerateOptions::default();
//! options.distribution = "zipf:1.2".parse()?;
//! let request = GenerateRequest {
//!     generator: Generator::new(&RecordFormat::parse_type("u64")?, options)?,
//!     records: 1000,
//!     output: Output::File { path, header: None },
//!     replace: false,
//! };
//! let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
//! let job = Job::new(limits, IoMode::Auto);
//! assert_eq!(generate(&job, &request)?.records, 1000);
//! # Ok(())
//! # }
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `generator` | [`Generator`]: the records of a format by number |
//! | `distribution` | [`Distribution`]: the distributions of keys, as text and as values |
//! | `gensort` | the records of gensort |
//! | `random` | random numbers by position, Zipf's distribution |
//! | `generate` | [`generate()`]: writes the records |
//! | `sample` | example tables, with the feature `tables` |

mod distribution;
mod generate;
mod generator;
mod gensort;
mod random;
#[cfg(feature = "tables")]
mod sample;

pub use distribution::Distribution;
pub use generate::{GenerateRequest, generate};
pub use generator::{GenerateOptions, Generator, GensortRequest, generator};
#[cfg(feature = "tables")]
pub use sample::{Sample, SampleKind};
