//! Algorithms on data larger than memory, each a page long, on outcore's primitives.
//!
//! Contract: each file is one algorithm that reads like its description; nothing here knows how
//! blocks are read or where scratch is. The tests run every one against the standard library.

mod bfs;
mod deduplicate;
mod histogram;
mod inverted_index;
mod join;
mod kth_largest;
mod label_propagation;
mod prefix_sums;
mod samplesort;
mod semisort;
mod shuffle;
mod word_count;

pub use bfs::bfs;
pub use deduplicate::deduplicate;
pub use histogram::histogram_of;
pub use inverted_index::inverted_index;
pub use join::join;
pub use kth_largest::kth_largest;
pub use label_propagation::label_propagation;
pub use prefix_sums::prefix_sums;
pub use samplesort::samplesort;
pub use semisort::semisort;
pub use shuffle::global_shuffle;
pub use word_count::word_count;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use outcore::{Error, Job, Output, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{FilesOnly, Streams, find};
use outcore_front::text::reader::{Frame, RecordReader};
use outcore_io::drive::PrivateDir;

/// One file, without a header.
fn to_file(path: &Path) -> Output {
    Output::File {
        path: path.to_path_buf(),
        header: None,
    }
}

/// A directory next to `path` for intermediate files; it is removed with the value.
fn private_dir(job: &Job, path: &Path) -> Result<PrivateDir> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    job.device
        .make_private_dir(parent.unwrap_or(Path::new(".")))
}

/// The lines of a text as they come.
fn lines<'a>(job: &'a Job, of: &Path) -> Result<RecordReader<'a>> {
    let sources = find(&[of.to_path_buf()], Streams::Refused, &FilesOnly)?;
    let frame = Frame::Terminator(b'\n');
    let text = Recognition::default();
    Ok(RecordReader::new(job, sources, frame, text))
}

/// A function that appends bytes.
type Put<'a> = &'a mut dyn FnMut(&[u8]) -> Result<()>;

/// Makes a file of the bytes that `work` writes.
fn make(path: &Path, work: impl FnOnce(Put<'_>) -> Result<()>) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("write", &error).path(path);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    work(&mut |bytes| file.write_all(bytes).map_err(failed))?;
    let file = file
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)
}
