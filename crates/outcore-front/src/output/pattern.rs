//! Names of several outputs, made from one pattern with a placeholder.
//!
//! Contract: names are bytes, which need not be UTF-8; everything except for placeholders stays
//! unchanged.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use outcore_io::output::MANIFEST_SUFFIX;

/// Whether `placeholder` is in `name`.
pub(crate) fn has_placeholder(name: &Path, placeholder: &str) -> bool {
    let name = name.as_os_str();
    name != filled_in(name, placeholder, "")
}

/// `pattern` with `value` in place of each `placeholder`.
pub(crate) fn filled_in(pattern: &OsStr, placeholder: &str, value: &str) -> OsString {
    let next = |rest: &[u8]| {
        let mut windows = rest.windows(placeholder.len());
        windows.position(|window| window == placeholder.as_bytes())
    };
    let mut rest = pattern.as_bytes();
    let mut name = Vec::with_capacity(rest.len());
    while let Some(at) = next(rest) {
        name.extend_from_slice(&rest[..at]);
        name.extend_from_slice(value.as_bytes());
        rest = &rest[at + placeholder.len()..];
    }
    name.extend_from_slice(rest);
    OsString::from_vec(name)
}

/// The name of the manifest of the files of `pattern`: its file name without the placeholder and
/// the separator next to it.
pub(super) fn manifest_name(pattern: &Path, placeholder: &str) -> OsString {
    const TIES: &[u8] = b"-_.";
    let mut name = pattern.file_name().unwrap_or_default().to_os_string();
    for tie in ["-", "_", ".", ""] {
        name = filled_in(&name, &format!("{tie}{placeholder}"), "");
    }
    let bytes = name.as_bytes();
    let ties = bytes.iter().take_while(|byte| TIES.contains(byte)).count();
    let mut name = match &bytes[ties..] {
        [] => OsString::from("sorted"),
        rest => OsStr::from_bytes(rest).to_os_string(),
    };
    name.push(MANIFEST_SUFFIX);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_text_are_filled_in_too() {
        let pattern = OsStr::from_bytes(b"d\xff/s-{drive}.bin");
        let path = Path::new(pattern);
        assert!(has_placeholder(path, "{drive}") && !has_placeholder(path, "{part}"));
        assert_eq!(
            filled_in(pattern, "{drive}", "a").as_bytes(),
            b"d\xff/s-a.bin"
        );
        let odd = Path::new(OsStr::from_bytes(b"\xff-{drive}.bin"));
        let manifest = manifest_name(odd, "{drive}");
        assert_eq!(manifest.as_bytes(), b"\xff.bin.outcore.json");
    }
}
