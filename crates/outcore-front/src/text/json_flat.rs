//! Finding values in a flat object of JSON that has been found to be one.
//!
//! Contract: [`find_flat`] finds what [`super::json_scan::find`] finds, in a line that this has found to be JSON and that is one
//! object without another in it and without escapes; of any other, and where a path leads nowhere, it says that it cannot tell.
//! There quotes are nothing but the ends of strings, and a string is a name if a colon follows.
//!
//! Bounds: two passes over the line by vectors; no memory.

use memchr::{memchr, memchr2};
use outcore::read::terminators::Terminators;

use super::json_scan::Step;

/// Writes the text of the value that each of `paths` leads to into `found`; false where one of them could not be told.
pub(super) fn find_flat<'a>(
    line: &'a [u8],
    paths: &[&[Step]],
    found: &mut [Option<&'a [u8]>],
) -> bool {
    if line.first() != Some(&b'{') || memchr2(b'{', b'\\', &line[1..]).is_some() {
        return false;
    }
    found.fill(None);
    let mut quotes = Terminators::of(b'"', line);
    while let (Some(open), Some(close)) = (quotes.next(), quotes.next()) {
        let behind = line[close + 1..].trim_ascii_start();
        let Some(behind) = behind.strip_prefix(b":") else {
            continue;
        };
        let name = &line[open + 1..close];
        for (path, found) in paths.iter().zip(&mut *found) {
            if let [Step::Name(wanted)] = path
                && wanted.as_bytes() == name
            {
                *found = Some(behind.trim_ascii_start());
            }
        }
    }
    found.iter_mut().all(|found| {
        *found = found.and_then(first_value);
        found.is_some()
    })
}

/// The value at the front of what follows a name, unless it is an array.
fn first_value(behind: &[u8]) -> Option<&[u8]> {
    let end = match behind.first()? {
        b'"' => memchr(b'"', &behind[1..])? + 2,
        b'[' => return None,
        _ => {
            let is_behind = |byte: &u8| matches!(byte, b',' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
            behind.iter().position(is_behind)?
        }
    };
    Some(&behind[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::json_scan::find;
    use super::*;

    proptest! {
        #[test]
        fn what_is_found_in_flat_objects_is_what_a_scan_finds(
            members in prop::collection::vec(("[ab]|, |:|\u{e9}", any_value()), 0..6),
            space in "[ \t\r\n]{0,2}",
        ) {
            let members = members.iter().map(|(name, value)| {
                format!("\"{name}\"{space}:{space}{value}{space}")
            });
            let line = format!("{{{space}{}}}{space}", members.collect::<Vec<_>>().join(","));
            let paths = ["a", ", "].map(|name| [Step::Name(name.to_owned())]);
            let steps = paths.each_ref().map(|path| &path[..]);
            let (mut scanned, mut found) = ([None; 2], [None; 2]);
            prop_assert!(find(line.as_bytes(), &steps, &mut scanned).is_json);
            if find_flat(line.as_bytes(), &steps, &mut found) {
                prop_assert_eq!(found, scanned);
            } else {
                let is_hard = line.contains(['\\', '[']) || line.matches('{').count() > 1;
                prop_assert!(is_hard || scanned.contains(&None), "{}", line);
            }
        }
    }

    /// Values as text.
    fn any_value() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("null".to_owned()),
            any::<bool>().prop_map(|value| value.to_string()),
            any::<i16>().prop_map(|value| format!("{value}.5e2")),
            "[ab:,{}\u{e9}]{0,3}|a|b|, ".prop_map(|text| format!("\"{text}\"")),
            Just("[\"a\", 1]".to_owned()),
            Just("{\"a\":1}".to_owned()),
            Just("\"\\u0061\"".to_owned()),
        ]
    }

    #[test]
    fn paths_that_go_further_than_a_name_are_not_told() {
        let (name, index) = (Step::Name("a".to_owned()), Step::Index(0));
        let is_told = |path: &[Step]| find_flat(b"{\"a\":1}", &[path], &mut [None]);
        assert!(is_told(std::slice::from_ref(&name)));
        assert!(!is_told(&[name, index.clone()]));
        assert!(!is_told(&[index]));
        assert!(!is_told(&[]));
    }
}
