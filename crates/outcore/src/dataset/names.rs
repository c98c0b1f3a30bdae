//! File names: patterns, manifests of shards, and NumPy arrays.
//!
//! Contract: the name of an existing file means that file, whatever characters it has. Otherwise
//! `*` and `?` in its last part match any characters, or one character, and the files are in the
//! order of their names. The name of a manifest means its shards, in order; each must be the one
//! that was written with the manifest. Reads only manifests and the headers of arrays.

use std::any::TypeId;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::ends::Input;
use crate::key::{Endian, KeyKind, NpyHeader, Number, NumberType, RecordFormat};
use outcore_io::drive::paths;
use outcore_io::output::{MANIFEST_SUFFIX, Manifest, parent_of};
use outcore_io::{Error, Result, units};

const OPEN: &str = "open input";
/// Number of bytes of a file that determine the length of its header.
const PREFIX_BYTES: u64 = 16;

/// The files that a name means.
pub(super) fn paths_of(name: &Path) -> Result<Vec<PathBuf>> {
    let named = matching(name)?;
    let mut paths = Vec::with_capacity(named.len());
    for path in named {
        match path
            .as_os_str()
            .as_encoded_bytes()
            .ends_with(MANIFEST_SUFFIX.as_bytes())
        {
            true => paths.extend(shards_of(&path)?),
            false => paths.push(path),
        }
    }
    Ok(paths)
}

/// The shards of a manifest.
fn shards_of(manifest: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for shard in Manifest::read(manifest)?.shards {
        let path = &shard.path;
        let facts = paths::facts(path).map_err(|error| Error::io(OPEN, &error).path(path))?;
        shard.check(&facts).map_err(|cause| {
            Error::usage(OPEN, cause)
                .path(path)
                .hint("if these shards do belong together, name them one by one")
        })?;
        paths.push(shard.path);
    }
    Ok(paths)
}

/// The files that a name or a pattern matches.
fn matching(name: &Path) -> Result<Vec<PathBuf>> {
    let pattern = name.file_name().map(|last| last.as_encoded_bytes());
    let is_pattern = pattern.is_some_and(|last| last.iter().any(|byte| b"*?".contains(byte)));
    let (Some(pattern), true) = (pattern, is_pattern && !name.exists()) else {
        return Ok(vec![name.to_path_buf()]);
    };
    let dir = parent_of(name);
    let failed = |error: std::io::Error| Error::io(OPEN, &error).path(dir);
    let mut found = Vec::new();
    for entry in paths::entries(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if matches(pattern, entry.file_name().as_encoded_bytes()) {
            found.push(name.with_file_name(entry.file_name()));
        }
    }
    found.sort();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::usage(OPEN, "no file matches this pattern")
            .path(name)
            .hint("in the last part of the name, `*` matches any characters and `?` matches one")),
    }
}

/// Whether `name` matches `pattern`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|taken| matches(rest, &name[taken..])),
        (Some((b'?', rest)), Some((_, name))) => matches(rest, name),
        (Some((byte, rest)), Some((first, name))) => byte == first && matches(rest, name),
        _ => false,
    }
}

/// Requirements on the elements of files.
pub(super) struct Elements {
    /// Bytes of one element.
    bytes: usize,
    /// The only format that arrays may have; `None` accepts any format of that length.
    format: Option<RecordFormat>,
}

impl Elements {
    /// Values of type `T`. If `T` is a number, arrays must have that type; otherwise only the
    /// length must match.
    pub(super) fn of_type<T: 'static>() -> Result<Self> {
        let numbers = [
            (TypeId::of::<u8>(), NumberType::U8),
            (TypeId::of::<u16>(), NumberType::U16),
            (TypeId::of::<u32>(), NumberType::U32),
            (TypeId::of::<u64>(), NumberType::U64),
            (TypeId::of::<u128>(), NumberType::U128),
            (TypeId::of::<i8>(), NumberType::I8),
            (TypeId::of::<i16>(), NumberType::I16),
            (TypeId::of::<i32>(), NumberType::I32),
            (TypeId::of::<i64>(), NumberType::I64),
            (TypeId::of::<f32>(), NumberType::F32),
            (TypeId::of::<f64>(), NumberType::F64),
        ];
        let known = numbers.iter().find(|(id, _)| *id == TypeId::of::<T>());
        let format =
            known.map(|(_, kind)| RecordFormat::numbers(Number::new(*kind, Endian::NATIVE), 1));
        Ok(Elements {
            bytes: size_of::<T>(),
            format: format.transpose()?,
        })
    }

    /// Records of `format`. Keys given by offsets may be any part of an array's elements.
    pub(super) fn of_format(format: &RecordFormat) -> Self {
        let is_numbers = match format.keys() {
            [key] => key.kind != KeyKind::Bytes && key.len_bytes == format.record_bytes(),
            _ => false,
        };
        Elements {
            bytes: format.record_bytes(),
            format: is_numbers.then(|| format.clone()),
        }
    }

    /// Whether an array with `header` contains these elements; the directions of the order are
    /// ignored.
    fn are_in(&self, header: &NpyHeader) -> bool {
        let found = &header.format;
        let is_same = |format: &RecordFormat| match (format.keys(), found.keys()) {
            ([one], [other]) => one.kind == other.kind && one.len_bytes == other.len_bytes,
            _ => false,
        };
        // An array of bytes also matches one-byte numbers.
        let are_bytes = |format: &RecordFormat| {
            let is_bytes = found.keys().iter().all(|key| key.kind == KeyKind::Bytes);
            let byte = Number::new(NumberType::U8, Endian::NATIVE);
            let mut kinds = format.keys().iter().map(|key| key.kind);
            is_bytes && kinds.all(|kind| kind == KeyKind::Numbers(byte))
        };
        let is_as_long = found.record_bytes() == self.bytes;
        let format = self.format.as_ref();
        is_as_long && format.is_none_or(|format| is_same(format) || are_bytes(format))
    }
}

/// Files of `elements`, without their headers if they are arrays.
pub(super) fn inputs_of(paths: &[PathBuf], elements: &Elements) -> Result<Vec<Input>> {
    paths
        .iter()
        .map(
            |path| match path.extension().is_some_and(|end| end == "npy") {
                true => array(path, elements),
                false => Ok(Input::raw(path)),
            },
        )
        .collect()
}

fn array(path: &Path, elements: &Elements) -> Result<Input> {
    let failed = |error: std::io::Error| Error::io(OPEN, &error).path(path);
    let mut file = File::open(path).map_err(failed)?;
    let mut header = Vec::new();
    let mut front = file.by_ref().take(PREFIX_BYTES);
    front.read_to_end(&mut header).map_err(failed)?;
    let len_bytes = NpyHeader::len_bytes(&header).map_err(|error| error.path(path))?;
    let mut rest = file.take((len_bytes - header.len()) as u64);
    rest.read_to_end(&mut header).map_err(failed)?;
    let header = NpyHeader::parse(&header).map_err(|error| error.path(path))?;
    let record_bytes = header.format.record_bytes();
    if !elements.are_in(&header) {
        let wanted = match &elements.format {
            Some(format) => format.to_string(),
            None => format!(
                "values of {}",
                units::counted(elements.bytes as u64, "byte")
            ),
        };
        let cause = format!("its header says {}, not {wanted}", header.format);
        return Err(Error::usage(OPEN, cause)
            .path(path)
            .hint("read it as values of the type in its header"));
    }
    Ok(Input {
        path: path.to_path_buf(),
        header_bytes: header.header_bytes as u64,
        data_bytes: Some(header.rows * record_bytes as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_the_names_that_it_looks_like() {
        let cases = [
            ("keys-*.bin", "keys-0.bin", true),
            ("keys-*.bin", "keys-.bin", true),
            ("keys-*.bin", "keys-0.bin.old", false),
            ("?", "a", true),
            ("?", "", false),
            ("*a*b", "xaybab", true),
            ("*a*b", "xayba", false),
        ];
        for (pattern, name, expected) in cases {
            let found = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }
}
