//! Streams over a volume:
//! - blocks ([`source`]), and whole records of any length in order (`regions`)
//! - the records of CSV ([`csv`], [`separator`]) and of [`fastq`], JSON beyond the standard
//!   ([`json`]), the kinds of text ([`text_kind`])
//! - the ends of lines (`terminators`), and the length of the longest line (`longest`)
//! - random pieces for samples ([`sample`])

pub(crate) mod by_drive;
pub mod chunks;
pub mod csv;
pub mod fastq;
pub(crate) mod framing;
pub mod gather;
pub mod json;
pub(crate) mod longest;
pub mod regions;
pub mod sample;
pub mod separator;
pub mod source;
pub(crate) mod terminators;
pub mod text_kind;
