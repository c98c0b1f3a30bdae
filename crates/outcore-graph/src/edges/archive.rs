//! Reads ZIP archives of arrays, as NumPy writes them, as a stream.
//!
//! Contract: members may be stored or deflated, in archives of any length. A member outside the
//! file, a truncated one, or one with a wrong checksum is an error of corrupt data.
//!
//! N.B. The crate `zip` 9.8 (no default features, `deflate-flate2`) reads through `Read + Seek`, so
//! members could not pass through the engine's read-ahead and device as they do here. It also adds
//! nine crates and 131 KiB to a stripped binary.
//!
//! Source: PKWARE's APPNOTE, section 4.3; section 4.5.3 for archives beyond 4 GiB.
//!
//! Bounds: one read of each member, unpacked as a stream.

use std::io::Write as _;
use std::path::Path;

use flate2::Crc;
use flate2::write::DeflateDecoder;
use outcore::{Context, Error, Input, Job, Result};
use outcore_io::drive::paths;

use super::READ;

const END_BYTES: usize = 22;
/// The longest comment, the end of the directory, and the records before it in large archives.
const TAIL_BYTES: u64 = 65_535 + END_BYTES as u64 + 20 + 56;
const LOCAL_BYTES: usize = 30;
const ENTRY_BYTES: usize = 46;
/// The longest directory; the few arrays of a matrix never need more.
const DIRECTORY_BYTES_MAX: u64 = 1 << 20;
/// The place of an array in the archive.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    is_deflated: bool,
    packed_bytes: u64,
    crc: u32,
    local_at_bytes: u64,
}

pub(super) fn corrupt(path: &Path, cause: impl Into<String>) -> Error {
    Error::corrupt(READ, cause)
        .path(path)
        .hint("write the matrix again with scipy.sparse.save_npz")
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u64::from(u16::from_le_bytes([bytes[0], bytes[1]])))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u16_at(bytes, at)? | u16_at(bytes, at + 2)? << 16)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u32_at(bytes, at)? | u32_at(bytes, at + 4)? << 32)
}

/// Reads some bytes of a file.
fn bytes_of(job: &Job, path: &Path, at_bytes: u64, len_bytes: u64) -> Result<Vec<u8>> {
    let input = Input {
        path: path.to_path_buf(),
        header_bytes: at_bytes,
        data_bytes: Some(len_bytes),
    };
    Context::of_job(job).read_inputs::<u8>(&[input]).collect()
}

/// Lists the arrays in the archive.
pub(super) fn members_of(job: &Job, path: &Path) -> Result<Vec<Member>> {
    let found = paths::facts(path).map_err(|error| Error::io(READ, &error).path(path))?;
    let tail_bytes = found.len().min(TAIL_BYTES);
    let none = || corrupt(path, "it is not a ZIP archive, or it is cut short");
    if tail_bytes < END_BYTES as u64 {
        return Err(none());
    }
    let tail = bytes_of(job, path, found.len() - tail_bytes, tail_bytes)?;
    let end = (0..=tail.len() - END_BYTES)
        .rev()
        .find(|at| tail[*at..].starts_with(b"PK\x05\x06"))
        .ok_or_else(none)?;
    let mut directory = (u32_at(&tail, end + 16), u32_at(&tail, end + 12));
    // Numbers that do not fit are in a longer record before this one.
    if directory.0 == Some(u32::MAX.into()) || directory.1 == Some(u32::MAX.into()) {
        let large = (0..end)
            .rev()
            .find(|at| tail[*at..].starts_with(b"PK\x06\x06"));
        let large = large.ok_or_else(none)?;
        directory = (u64_at(&tail, large + 48), u64_at(&tail, large + 40));
    }
    let (Some(at_bytes), Some(len_bytes)) = directory else {
        return Err(none());
    };
    let is_inside = at_bytes
        .checked_add(len_bytes)
        .is_some_and(|end| end <= found.len());
    if !is_inside || len_bytes > DIRECTORY_BYTES_MAX {
        return Err(corrupt(path, "its directory is outside the file"));
    }
    let entries = bytes_of(job, path, at_bytes, len_bytes)?;
    let (mut members, mut at) = (Vec::new(), 0);
    while entries
        .get(at..)
        .is_some_and(|rest| rest.starts_with(b"PK\x01\x02"))
    {
        let (member, next) = member_at(&entries, at)
            .ok_or_else(|| corrupt(path, "an entry of its directory is cut short"))?;
        let is_inside = member
            .local_at_bytes
            .checked_add(member.packed_bytes)
            .is_some_and(|end| end <= found.len());
        if !is_inside {
            return Err(corrupt(
                path,
                format!("`{}` is outside the file", member.name),
            ));
        }
        members.push(member);
        at = next;
    }
    Ok(members)
}

/// Reads the entry of the directory at `at`, and returns the place of the next one.
fn member_at(entries: &[u8], at: usize) -> Option<(Member, usize)> {
    let name_bytes = u16_at(entries, at + 28)? as usize;
    let extra_bytes = u16_at(entries, at + 30)? as usize;
    let comment_bytes = u16_at(entries, at + 32)? as usize;
    let name_at = at + ENTRY_BYTES;
    let name = entries.get(name_at..name_at + name_bytes)?;
    let extra = entries.get(name_at + name_bytes..name_at + name_bytes + extra_bytes)?;
    let mut packed_bytes = u32_at(entries, at + 20)?;
    let mut local_at_bytes = u32_at(entries, at + 42)?;
    let is_long = u32_at(entries, at + 24)? == u64::from(u32::MAX);
    // Numbers that do not fit are in the extra field 1, in this order.
    let mut field = 0;
    while field + 4 <= extra.len() {
        let (id, len_bytes) = (u16_at(extra, field)?, u16_at(extra, field + 2)? as usize);
        if id == 1 {
            let mut number_at = field + 4 + if is_long { 8 } else { 0 };
            for number in [&mut packed_bytes, &mut local_at_bytes] {
                if *number == u64::from(u32::MAX) {
                    *number = u64_at(extra, number_at)?;
                    number_at += 8;
                }
            }
        }
        field += 4 + len_bytes;
    }
    let is_deflated = match u16_at(entries, at + 10)? {
        0 => false,
        8 => true,
        _ => return None,
    };
    let member = Member {
        name: String::from_utf8_lossy(name).into_owned(),
        is_deflated,
        packed_bytes,
        crc: u32_at(entries, at + 16)? as u32,
        local_at_bytes,
    };
    Some((member, name_at + name_bytes + extra_bytes + comment_bytes))
}

/// Passes on the bytes of a member while they are unpacked.
struct Unpacked<F> {
    crc: Crc,
    take: F,
    failure: Option<Error>,
}

impl<F: FnMut(&[u8]) -> Result<()>> std::io::Write for Unpacked<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.crc.update(bytes);
        match (self.take)(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.failure = Some(error);
                Err(std::io::Error::other("what was unpacked was not taken"))
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Passes all bytes of a member to `take`, in order.
pub(super) fn unpack(
    job: &Job,
    path: &Path,
    member: &Member,
    take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let damaged = || {
        corrupt(
            path,
            format!("`{}` is damaged: its checksum differs", member.name),
        )
    };
    let local = bytes_of(job, path, member.local_at_bytes, LOCAL_BYTES as u64)?;
    let skipped = match (u16_at(&local, 26), u16_at(&local, 28)) {
        (Some(name), Some(extra)) if local.starts_with(b"PK\x03\x04") => name + extra,
        _ => return Err(damaged()),
    };
    let input = Input {
        path: path.to_path_buf(),
        header_bytes: member.local_at_bytes + LOCAL_BYTES as u64 + skipped,
        data_bytes: Some(member.packed_bytes),
    };
    let mut plain = Unpacked {
        crc: Crc::new(),
        take,
        failure: None,
    };
    let packed = Context::of_job(job).read_inputs::<u8>(&[input]);
    let done = match member.is_deflated {
        false => {
            let mut write = |bytes: &[u8]| plain.write_all(bytes).map_err(|_| damaged());
            let read = packed.for_each_in_order(&mut write);
            plain.failure.take().map_or(read, Err)?
        }
        true => {
            let mut decoder = DeflateDecoder::new(plain);
            let read =
                packed.for_each_in_order(|bytes| decoder.write_all(bytes).map_err(|_| damaged()));
            let ended = decoder.try_finish();
            if let Some(error) = decoder.get_mut().failure.take() {
                return Err(error);
            }
            let read = read?;
            ended.map_err(|_| damaged())?;
            plain = decoder.finish().map_err(|_| damaged())?;
            read
        }
    };
    match plain.crc.sum() == member.crc {
        true => Ok(done.read_bytes),
        false => Err(damaged()),
    }
}

/// Returns the array with this name.
pub(super) fn member<'m>(path: &Path, members: &'m [Member], name: &str) -> Result<&'m Member> {
    let found = members.iter().find(|member| member.name == name);
    found.ok_or_else(|| corrupt(path, format!("it has no array `{name}`")))
}
