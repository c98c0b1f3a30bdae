//! Reads a file's list of vertices.
//!
//! Contract: [`read_ids`] reads a NumPy array (integers, one per row), or text with one id per
//! line. It skips empty lines and lines that begin with `#`. A negative or invalid id is an error
//! with its place. [`read_names`] reads the lines of text as names.
//!
//! Bounds: one read of the file. Its bytes and eight per id are in memory, as long as the
//! reservation is held.

use std::path::Path;

use outcore::{Context, Error, Input, Job, NpyHeader, Result};
use outcore_io::drive::paths;
use outcore_io::memory::Reservation;
use outcore_io::units;

use crate::edges::fields::line_end;

const READ: &str = "read vertices";
/// The longest header of an array.
const HEAD_BYTES: usize = 64 << 10;

/// Reads the ids in the file at `path`.
///
/// # Errors
/// [`outcore::Kind::Corrupt`] for an invalid id, [`outcore::Kind::Usage`] for an array without
/// integers, [`outcore::Kind::Memory`] if they do not fit; errors of reading.
pub fn read_ids(job: &Job, path: &Path) -> Result<(Vec<u64>, Reservation)> {
    let found = paths::facts(path).map_err(|error| {
        Error::io(READ, &error)
            .path(path)
            .hint("name a file with one id per line, or an array (.npy)")
    })?;
    // An id takes at least two bytes in text, and four in an array.
    let held = job.budget.reserve("ids of vertices", 5 * found.len())?;
    let mut head = vec![0; HEAD_BYTES];
    let head_bytes = job.device.read_head(path, &mut head)?;
    head.truncate(head_bytes);
    let ids = match NpyHeader::is_npy(&head) {
        true => array(job, path, &head)?,
        false => text(job, path)?,
    };
    Ok((ids, held))
}

/// Reads the names in the text file at `path`, one per line.
///
/// # Errors
/// [`outcore::Kind::Corrupt`] for a line that is not UTF-8, [`outcore::Kind::Memory`] if they do
/// not fit; errors of reading.
pub fn read_names(job: &Job, path: &Path) -> Result<(Vec<String>, Reservation)> {
    let found = paths::facts(path).map_err(|error| {
        Error::io(READ, &error)
            .path(path)
            .hint("name a file with one name per line")
    })?;
    // A name of one byte takes two in the file, and becomes a string.
    let held = job.budget.reserve("names of vertices", 16 * found.len())?;
    let bytes = Context::of_job(job)
        .read_inputs::<u8>(&[Input::raw(path)])
        .collect()?;
    let end = line_end(&bytes);
    let lines = bytes.split(|byte| *byte == end).enumerate();
    let lines = lines.map(|(number, line)| (number + 1, line.trim_ascii()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && line[0] != b'#');
    let name = |(number, line): (usize, &[u8])| match std::str::from_utf8(line) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(Error::corrupt(READ, format!("line {number} is not UTF-8"))
            .path(path)
            .hint("write one name per line")),
    };
    let names: Result<Vec<String>> = lines.map(name).collect();
    Ok((names?, held))
}

fn array(job: &Job, path: &Path, head: &[u8]) -> Result<Vec<u64>> {
    let header = NpyHeader::parse(head).map_err(|error| error.path(path))?;
    let input = Input {
        path: path.to_path_buf(),
        header_bytes: header.header_bytes as u64,
        data_bytes: None,
    };
    let inputs = [input];
    let context = Context::of_job(job);
    let wide = |numbers: Vec<u32>| numbers.into_iter().map(u64::from).collect();
    let signed = |number: i64| {
        u64::try_from(number).map_err(|_| {
            let cause = format!("the id {number} is negative");
            Error::corrupt(READ, cause)
                .path(path)
                .hint("ids are 0 or more")
        })
    };
    match (
        header.descr().trim_matches('\''),
        header.row_shape().iter().product::<u64>(),
    ) {
        ("<u4", 1) => Ok(wide(context.read_inputs::<u32>(&inputs).collect()?)),
        ("<u8", 1) => context.read_inputs::<u64>(&inputs).collect(),
        ("<i8", 1) => {
            let numbers = context.read_inputs::<i64>(&inputs).collect()?;
            numbers.into_iter().map(signed).collect()
        }
        ("<i4", 1) => {
            let numbers = context.read_inputs::<i32>(&inputs).collect()?;
            numbers.into_iter().map(|id| signed(id.into())).collect()
        }
        (other, columns) => {
            let cause = format!("it has {} of `{other}`", units::counted(columns, "column"));
            Err(Error::usage(READ, cause)
                .path(path)
                .hint("save one column of int64, uint64, int32 or uint32"))
        }
    }
}

fn text(job: &Job, path: &Path) -> Result<Vec<u64>> {
    let bytes = Context::of_job(job)
        .read_inputs::<u8>(&[Input::raw(path)])
        .collect()?;
    let end = line_end(&bytes);
    let lines = bytes.split(|byte| *byte == end).enumerate();
    let lines = lines.map(|(number, line)| (number + 1, line.trim_ascii()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && line[0] != b'#');
    let id = |(number, line): (usize, &[u8])| {
        let text = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
        text.parse::<u64>().map_err(|_| {
            let cause = format!("line {number} is not an id: `{text}`");
            Error::corrupt(READ, cause)
                .path(path)
                .hint("write one whole number (0 or more) per line")
        })
    };
    lines.map(id).collect()
}
