//! Checks in one pass whether lines are in order.
//!
//! Contract: the files are one input, one after another. The result is the first line that may not
//! follow the line before it. With `unique`, lines of equal keys may not follow one another.
//!
//! Bounds: reads the input once; [`BLOCKS`] blocks and two lines of memory.

use std::path::PathBuf;
use std::sync::Arc;

use super::files::{FileReader, FileSizes, INPUT, LineFile};
use super::merge::lines_bytes_max;
use super::{LineSortOptions, OnNoKey};
use crate::ends::Input;
use crate::ends::{check_unchanged, open_inputs};
use crate::job::Job;
use crate::key::sort_key::Rank;
use crate::key::sort_key::SortKey;
use crate::read_back::{Keyed, LineOrder};
use outcore_io::Result;
use outcore_io::drive::Access;
use outcore_io::memory::{BLOCK_BYTES, Ledger};
use outcore_io::port::Volume;

/// Largest number of bytes of a line to show.
const SHOWN_BYTES: usize = 4096;
/// Blocks in memory: the current one and those that are read ahead.
const BLOCKS: usize = 8;

/// The first line that is out of order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disorder {
    /// The file with the line.
    pub path: PathBuf,
    /// The number of the line in that file, from 1.
    pub line_number: u64,
    /// The line without its terminator, or its first bytes.
    pub line: Vec<u8>,
}

/// The first line of `inputs` that is out of order, if there is one.
///
/// # Errors
/// The errors of [`super::sort_lines`] for the inputs.
pub fn check_lines(
    job: &Job,
    inputs: &[Input],
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<Option<Disorder>> {
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let parts = open_inputs(&volume, inputs, 1, Access::Read)?;
    let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
    job.control.begin_phase("check", data_bytes);
    let memory_bytes = job.budget.free_bytes();
    let mut sizes = FileSizes {
        block_bytes: (memory_bytes as usize / 8 / BLOCKS / BLOCK_BYTES * BLOCK_BYTES)
            .clamp(16 << 10, 1 << 20),
        ahead: BLOCKS - 1,
        lines_bytes_max: 0,
    };
    let left_bytes = memory_bytes.saturating_sub(sizes.pool_bytes(1));
    sizes.lines_bytes_max = lines_bytes_max(left_bytes, order);
    let ledger = Ledger::new("check of lines")
        .always(INPUT, sizes.pool_bytes(1))
        .during("check", "lines and keys", 0)
        .filled("check", "lines and keys", memory_bytes);
    let job = &job.under(&ledger)?;
    let is_whole = order.is_item();
    let rank = Rank::new(order);
    let wanted = LineOrder {
        order,
        unique: options.unique,
    };
    let (mut last, mut last_key) = (Vec::new(), Vec::new());
    let mut key = Vec::new();
    let mut is_first = true;
    for part in &parts {
        let mut reader = FileReader::new(job, &volume, sizes, 1)?;
        let mut files = [LineFile::new(part, 0, options)];
        while reader.advance(&mut files, 0)? {
            let file = &files[0];
            if !is_whole && let Err(why) = reader.key(file, order, &mut key) {
                match options.on_no_key {
                    OnNoKey::Skip => continue,
                    OnNoKey::Fail if why.is_blank() => continue,
                    OnNoKey::Fail => return Err(reader.no_key(file, &why)),
                }
            }
            let line = file.line();
            let before = Keyed {
                line: &last,
                key: &last_key,
            };
            let is_behind = is_first || wanted.follows(&rank, before, Keyed { line, key: &key });
            if !is_behind {
                return Ok(Some(Disorder {
                    path: file.part().file.path.to_path_buf(),
                    line_number: reader.line_number(file)?,
                    line: line[..line.len().min(SHOWN_BYTES)].to_vec(),
                }));
            }
            is_first = false;
            reader.take_line(&mut files, 0, &mut last);
            std::mem::swap(&mut last_key, &mut key);
        }
    }
    check_unchanged(&volume, &parts, false)?;
    Ok(None)
}
