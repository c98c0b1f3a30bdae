//! An inverted index: for each term, the documents that have it.
//!
//! Pairs of term and document, each once and in order, are the postings. Counting terms and a scan
//! over the counts say where those of each term begin.

use std::path::Path;

use outcore::Result;
use outcore::algo::sequence::{Inclusion, Sequence, count_by, read, scan, unique, write};
use outcore::algo::sort::SortInput;
use outcore::data::RecordFormat;
use outcore::job::Job;

/// Reads (term, document) pairs of `u32` from `pairs`. Writes the documents of all terms, one term
/// after another, to `postings` (`u32`), and for each term itself and where its documents begin to
/// `terms` (two `u64`). Gives the number of terms.
///
/// # Errors
/// What the passes fail with.
pub fn inverted_index(job: &Job, pairs: &Path, terms: &Path, postings: &Path) -> Result<u64> {
    let dir = job
        .device
        .make_private_dir(terms.parent().unwrap_or(Path::new(".")))?;
    let step = |name: &str| dir.path().join(name);

    let all = read::<[u32; 2]>(&[SortInput::raw(pairs)]);
    let by_term = RecordFormat::parse_type("u32x2")?;
    unique(
        job,
        &all,
        &by_term,
        (&crate::to_file(&step("pairs")), false),
    )?;
    let sorted = || read::<[u32; 2]>(&[SortInput::raw(step("pairs"))]);
    let documents = sorted().map(|[_, document]| document);
    write(job, &documents, &crate::to_file(postings), false)?;

    let term_of = sorted().map(|[term, _]| u64::from(term));
    let format = RecordFormat::parse_type("u64")?;
    let counted = crate::to_file(&step("counts"));
    let found = count_by(job, &term_of, &format, (&counted, false))?;
    let counts = read::<[u64; 2]>(&[SortInput::raw(step("counts"))]);
    // The counts of the terms before one say where its documents begin.
    let starts = crate::to_file(&step("starts"));
    let lengths = counts.map(|[_, count]| count);
    scan(
        job,
        &lengths,
        0,
        u64::wrapping_add,
        Inclusion::Exclusive,
        (&starts, false),
    )?;
    let index = read::<[u64; 2]>(&[SortInput::raw(step("counts"))])
        .zip(read::<u64>(&[SortInput::raw(step("starts"))]))
        .map(|([term, _], start): ([u64; 2], u64)| [term, start]);
    write(job, &index, &crate::to_file(terms), false)?;
    Ok(found.pass.records)
}
