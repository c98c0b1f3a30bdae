//! Reads edges from text directly, without writing them to files first.
//!
//! Contract: a pass over [`LineFiles::source`] gives its pieces to [`LineFiles::each`], which
//! passes on the edges of each line once. If pieces cut a line, its edge goes to the caller that
//! brings the last part ([`CutLines`]). For a piece of a sample, it passes on only the edges of
//! whole lines; these lines come again later. [`LineFiles::sample`] reads some places of the files
//! before the pass. After all pieces, [`LineFiles::finish`] counts the edges. Invalid edges are
//! errors, as in [`super::text`].
//!
//! Bounds: only what [`CutLines`] keeps.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use outcore::primitives::Batch;
use outcore::primitives::batch::Source;
use outcore::{Error, Input, Job, Result};
use outcore_io::drive::paths::{self, Metadata};

use super::borders::{CutLines, WholeEnds, whole_lines};
use super::formats::{EdgeFormat, format_of, header_of, weights_of};
use super::item::{Edge, fail};
use super::syntax::Syntax;
use super::text::{Place, first_not_an_edge};
use super::{DataSpan, PLACES, READ, ReadOptions, SamplePlaces, check_entries, look_at_places};
use crate::format::weight::WeightType;

/// Files of text.
#[derive(Debug)]
pub(crate) struct LineFiles {
    files: Vec<LineFile>,
    cut: CutLines,
    /// The type of the weights, if there are any.
    pub(crate) weights: Option<WeightType>,
    /// The number of vertices in a header.
    pub(crate) vertices: Option<u64>,
    /// Whether a header marks edges as undirected, and whether another marks them as directed.
    pub(crate) is_undirected: bool,
    pub(crate) is_mixed: bool,
    /// Comments.
    skipped: AtomicU64,
}

/// A file of text.
#[derive(Debug)]
struct LineFile {
    path: PathBuf,
    header_bytes: u64,
    syntax: Syntax,
    /// The number of edges that its head states.
    entries: Option<u64>,
    /// Its range among the bytes of all files.
    text: Range<u64>,
    /// Edges and bytes so far.
    edges: AtomicU64,
    bytes: AtomicU64,
}

/// The result of a sample.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sampled {
    /// The largest id in the sample.
    pub(crate) largest: Option<u64>,
    /// The approximate number of edges in all files.
    pub(crate) edges: u64,
}

impl LineFiles {
    /// Opens the files if they are text.
    ///
    /// # Errors
    /// As [`super::read_edges`], for errors in the heads of the files.
    pub(crate) fn open(
        job: &Job,
        paths: &[PathBuf],
        options: &ReadOptions,
    ) -> Result<Option<Self>> {
        let format = format_of(paths, options)?;
        let is_text = matches!(
            format,
            EdgeFormat::Text | EdgeFormat::MatrixMarket | EdgeFormat::Csv
        );
        if !is_text {
            return Ok(None);
        }
        let (mut headers, mut files) = (Vec::new(), Vec::new());
        let mut at_bytes = 0;
        for path in paths {
            let Some(facts) = paths::facts(path).ok().filter(Metadata::is_file) else {
                return Ok(None);
            };
            let header = header_of(job, path, format, options)?;
            let end_bytes = at_bytes + facts.len().saturating_sub(header.bytes);
            files.push(LineFile {
                path: path.clone(),
                header_bytes: header.bytes,
                syntax: header.syntax,
                entries: header.entries,
                text: at_bytes..end_bytes,
                edges: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
            });
            at_bytes = end_bytes;
            headers.push(header);
        }
        let is_undirected = headers.iter().any(|header| header.is_undirected);
        let weights = weights_of(&headers);
        for file in &mut files {
            file.syntax = file.syntax.with_weights(weights);
        }
        Ok(Some(LineFiles {
            files,
            cut: CutLines::default(),
            weights,
            vertices: headers.iter().filter_map(|header| header.vertices).max(),
            is_undirected,
            is_mixed: is_undirected && !headers.iter().all(|header| header.is_undirected),
            skipped: AtomicU64::new(headers.iter().map(|header| header.skipped).sum()),
        }))
    }

    /// Whether there is no text at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.len_bytes() == 0)
    }

    /// The source for a pass over all of them.
    pub(crate) fn source(&self) -> Source {
        let inputs = self.files.iter().map(|file| Input {
            path: file.path.clone(),
            header_bytes: file.header_bytes,
            data_bytes: Some(file.len_bytes()),
        });
        Source {
            inputs: inputs.collect(),
            element_bytes: 1,
            align_bytes: 1,
            count: 0,
        }
    }

    /// Samples places of all files. Unreadable places and invalid edges are left to the pass.
    pub(crate) fn sample(&self) -> Sampled {
        let places = PLACES / self.files.len().max(1);
        let mut sampled = Sampled::default();
        for file in &self.files {
            let (mut edges, mut bytes) = (0u64, 0);
            let data = DataSpan {
                at_bytes: file.header_bytes,
                len_bytes: file.len_bytes(),
            };
            let places = SamplePlaces {
                item_bytes: 1,
                count: places,
            };
            look_at_places(&file.path, data, places, |at_bytes, piece| {
                let borders = file.borders(file.text.start + at_bytes, piece.len());
                let whole = whole_lines(piece, borders, file.syntax.line_end());
                let whole = whole.unwrap_or_default();
                bytes += whole.len() as u64;
                let _ = file.syntax.each_edge(&piece[whole], |edge| {
                    let largest = edge.source.max(edge.target);
                    sampled.largest = sampled.largest.max(Some(largest));
                    edges += 1;
                });
            });
            let share = u128::from(file.len_bytes()) * u128::from(edges) / u128::from(bytes.max(1));
            sampled.edges += share as u64;
        }
        sampled
    }

    /// Passes on the edges of a piece; a line that is not an edge fails the pass.
    pub(crate) fn each(&self, batch: &Batch<'_>, mut take: impl FnMut(Edge)) {
        let file = self.file_at(batch.first);
        let piece = batch.bytes(0);
        if batch.is_sample {
            let borders = file.borders(batch.first, piece.len());
            if let Some(whole) = whole_lines(piece, borders, file.syntax.line_end()) {
                file.each_edge(batch.first + whole.start as u64, &piece[whole], &mut take);
            }
            // The lines of a sample come again later.
            return;
        }
        let mut edges = 0;
        let mut count = |edge| {
            edges += 1;
            take(edge);
        };
        let done = self.cut.each(
            batch.first,
            piece,
            &file.text,
            file.syntax.line_end(),
            |at_bytes, lines| {
                let skipped = file.each_edge(at_bytes, lines, &mut count);
                self.skipped.fetch_add(skipped, Ordering::Relaxed);
                Ok(())
            },
        );
        if let Err(error) = done {
            fail(error.path(&file.path))
        }
        file.edges.fetch_add(edges, Ordering::Relaxed);
        file.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }

    /// Returns the file that contains the byte at this offset among all files.
    fn file_at(&self, at_bytes: u64) -> &LineFile {
        let behind = self
            .files
            .partition_point(|file| file.text.start <= at_bytes);
        &self.files[behind.saturating_sub(1)]
    }

    /// Comments skipped so far.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Returns the number of edges.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`] for a file whose number of edges differs from its head, or that
    /// has changed.
    pub(crate) fn finish(&self) -> Result<u64> {
        let mut all = 0;
        for file in &self.files {
            if file.bytes.load(Ordering::Relaxed) != file.len_bytes() || !self.cut.is_over() {
                let cause = "a part of the file was not read";
                return Err(Error::corrupt(READ, cause)
                    .path(&file.path)
                    .hint("convert again while no program writes to it"));
            }
            let edges = file.edges.load(Ordering::Relaxed);
            check_entries(&file.path, file.entries, edges)?;
            all += edges;
        }
        Ok(all)
    }
}

impl LineFile {
    fn len_bytes(&self) -> u64 {
        self.text.end - self.text.start
    }

    /// Whether a piece begins at the start of the file, and whether it ends at its end.
    fn borders(&self, first_bytes: u64, len_bytes: usize) -> WholeEnds {
        let end_bytes = first_bytes + len_bytes as u64;
        WholeEnds {
            has_begin: first_bytes == self.text.start,
            has_end: end_bytes == self.text.end,
        }
    }

    /// Passes on the edges of whole lines, and counts comments.
    fn each_edge(&self, at_bytes: u64, lines: &[u8], take: impl FnMut(Edge)) -> u64 {
        match self.syntax.each_edge(lines, take) {
            Ok(skipped) => skipped,
            Err((from, fault)) => {
                let at_bytes = at_bytes - self.text.start + from as u64;
                let place = Place {
                    path: &self.path,
                    at_bytes: self.header_bytes + at_bytes,
                    line_end: self.syntax.line_end(),
                };
                let header_bytes = self.header_bytes;
                fail(first_not_an_edge(&self.syntax, header_bytes, &fault, place))
            }
        }
    }
}
