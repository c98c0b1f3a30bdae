//! Finds values in JSON.
//!
//! Contract: [`find`] follows several paths into one value in a single scan, and checks the grammar
//! (RFC 8259) on the way. In JSON it finds the values at any depth. In other text it may find
//! anything, but it never panics and always ends. If an object repeats a name, the last one counts.
//!
//! Bounds: one pass over the text; no memory except for names with escapes; a stack as deep as the
//! paths have steps, plus [`NESTING_MAX`] values.

use std::ops::ControlFlow;

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    Index(usize),
}

/// Maximum number of paths that are followed at a time.
pub(super) const PATHS_MAX: usize = 8;

/// Depth of nested values whose grammar is checked, counted from the last step of a path.
const NESTING_MAX: usize = 64;

/// Results of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scanned {
    /// Whether the text is JSON. Always false if its values are nested more deeply than is checked.
    pub(super) is_json: bool,
    /// Whether all names on the way are UTF-8.
    pub(super) has_good_names: bool,
}

/// Writes the text of the value at each of `paths` into `found`, `None` for a path that leads
/// nowhere. Each has at most [`PATHS_MAX`] entries.
pub(super) fn find<'a>(
    text: &'a [u8],
    paths: &[&[Step]],
    found: &mut [Option<&'a [u8]>],
) -> Scanned {
    found.fill(None);
    let mut scan = Scan {
        text,
        found,
        nesting: 0,
        is_deep: false,
        has_good_names: true,
    };
    let all = ((1_u16 << paths.len()) - 1) as u8;
    let at = scan.value(skip_space(text, 0), paths, all, 0);
    Scanned {
        is_json: skip_space(text, at) == text.len() && !scan.is_deep,
        has_good_names: scan.has_good_names,
    }
}

/// A scan. The position in the text is passed between functions, so that it stays in a register.
/// Each function takes the position at which it begins. It returns the position after the bytes
/// that it has scanned, or [`nowhere`] in invalid JSON.
struct Scan<'a, 'f> {
    text: &'a [u8],
    found: &'f mut [Option<&'a [u8]>],
    nesting: usize,
    is_deep: bool,
    has_good_names: bool,
}

/// A position beyond the end of the text, returned for invalid JSON.
#[cold]
fn nowhere(text: &[u8]) -> usize {
    text.len() + 1
}

#[inline(always)]
pub(super) fn byte(text: &[u8], at: usize) -> Option<u8> {
    text.get(at).copied()
}

#[inline(always)]
pub(super) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = byte(text, at) {
        at += 1;
    }
    at
}

/// The position after the value at `at`, whose grammar is checked; the end of the text if the value
/// is invalid or nested too deeply.
#[inline(always)]
pub(super) fn skip_value(text: &[u8], at: usize) -> usize {
    match byte(text, at) {
        Some(b'"') => skip_string(text, at).end,
        Some(b'-' | b'0'..=b'9') => skip_number(text, at),
        _ => skip_other(text, at),
    }
}

/// The position after a value that is neither a string nor a number.
fn skip_other(text: &[u8], at: usize) -> usize {
    let mut scan = Scan {
        text,
        found: &mut [],
        nesting: 0,
        is_deep: false,
        has_good_names: true,
    };
    let end = scan.skip_value(at);
    match scan.is_deep {
        true => nowhere(text),
        false => end,
    }
}

impl Scan<'_, '_> {
    /// Follows the paths of the set `led` into the value at `start`; the first `depth` steps of
    /// these paths are done.
    fn value(&mut self, start: usize, paths: &[&[Step]], led: u8, depth: usize) -> usize {
        let (mut ended, mut going_on) = (0_u8, 0_u8);
        each(led, |path| match paths[path].len() == depth {
            true => ended |= 1 << path,
            false => going_on |= 1 << path,
        });
        let at = match byte(self.text, start) {
            Some(b'{') if going_on != 0 => self.members(start, paths, going_on, depth),
            Some(b'[') if going_on != 0 => self.elements(start, paths, going_on, depth),
            _ => self.skip_value(start),
        };
        let value = self.text.get(start..at);
        each(ended, |path| self.found[path] = value);
        at
    }

    fn members(&mut self, start: usize, paths: &[&[Step]], led: u8, depth: usize) -> usize {
        let text = self.text;
        let mut at = skip_space(text, start + 1);
        if byte(text, at) == Some(b'}') {
            return at + 1;
        }
        loop {
            if byte(text, at) != Some(b'"') {
                return nowhere(text);
            }
            let passed = skip_string(text, at);
            let name = text.get(at..passed.end).unwrap_or_default();
            at = skip_space(text, passed.end);
            if byte(text, at) != Some(b':') {
                return nowhere(text);
            }
            at = skip_space(text, at + 1);
            let mut taken = 0;
            if led != 0 {
                self.has_good_names &= passed.is_ascii || std::str::from_utf8(name).is_ok();
                each(led, |path| {
                    if let Step::Name(wanted) = &paths[path][depth]
                        && is_name(name, wanted, passed.has_escape)
                    {
                        taken |= 1 << path;
                        self.found[path] = None;
                    }
                });
            }
            match self.item(at, paths, taken, depth, b'}') {
                ControlFlow::Continue(next) => at = next,
                ControlFlow::Break(end) => return end,
            }
        }
    }

    fn elements(&mut self, start: usize, paths: &[&[Step]], led: u8, depth: usize) -> usize {
        let text = self.text;
        let mut at = skip_space(text, start + 1);
        if byte(text, at) == Some(b']') {
            return at + 1;
        }
        let mut index = 0;
        loop {
            let mut taken = 0;
            each(led, |path| {
                taken |= u8::from(paths[path][depth] == Step::Index(index)) << path;
            });
            match self.item(at, paths, taken, depth, b']') {
                ControlFlow::Continue(next) => at = next,
                ControlFlow::Break(end) => return end,
            }
            index += 1;
        }
    }

    /// Processes the item at `at` of a container. The paths of the set `taken` lead into this item.
    /// Continues at the next item, or ends after `close`.
    #[inline(always)]
    fn item(
        &mut self,
        at: usize,
        paths: &[&[Step]],
        taken: u8,
        depth: usize,
        close: u8,
    ) -> ControlFlow<usize, usize> {
        let text = self.text;
        let at = match taken {
            0 => self.skip_value(at),
            taken => self.value(at, paths, taken, depth + 1),
        };
        let at = skip_space(text, at);
        match byte(text, at) {
            Some(b',') => ControlFlow::Continue(skip_space(text, at + 1)),
            Some(byte) if byte == close => ControlFlow::Break(at + 1),
            _ => ControlFlow::Break(nowhere(text)),
        }
    }

    #[inline(always)]
    fn skip_value(&mut self, at: usize) -> usize {
        let text = self.text;
        match byte(text, at) {
            Some(b'"') => skip_string(text, at).end,
            Some(b'-' | b'0'..=b'9') => skip_number(text, at),
            Some(b'{' | b'[') => self.skip_container(at),
            Some(b't') => skip_word(text, at, b"true"),
            Some(b'f') => skip_word(text, at, b"false"),
            Some(b'n') => skip_word(text, at, b"null"),
            _ => nowhere(text),
        }
    }

    fn skip_container(&mut self, at: usize) -> usize {
        if self.nesting == NESTING_MAX {
            self.is_deep = true;
            return skip_deep_container(self.text, at);
        }
        self.nesting += 1;
        let end = match byte(self.text, at) {
            Some(b'{') => self.members(at, &[], 0, 0),
            _ => self.elements(at, &[], 0, 0),
        };
        self.nesting -= 1;
        end
    }
}

/// Skips a container; counts brackets of all kinds, and checks nothing else.
fn skip_deep_container(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = byte(text, at) {
        match byte {
            b'"' => {
                at = skip_string(text, at).end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

fn skip_word(text: &[u8], at: usize, word: &[u8]) -> usize {
    match text[at..].starts_with(word) {
        true => at + word.len(),
        false => nowhere(text),
    }
}

#[inline(always)]
fn skip_number(text: &[u8], mut at: usize) -> usize {
    at += usize::from(byte(text, at) == Some(b'-'));
    let first = byte(text, at);
    let mut end = skip_digits(text, at);
    let mut is_good = end == at + 1 || (end > at && first != Some(b'0'));
    if byte(text, end) == Some(b'.') {
        at = end + 1;
        end = skip_digits(text, at);
        is_good &= end > at;
    }
    if let Some(b'e' | b'E') = byte(text, end) {
        at = end + 1;
        at += usize::from(matches!(byte(text, at), Some(b'+' | b'-')));
        end = skip_digits(text, at);
        is_good &= end > at;
    }
    match is_good {
        true => end,
        false => nowhere(text),
    }
}

#[inline(always)]
fn skip_digits(text: &[u8], mut at: usize) -> usize {
    loop {
        // The upper bit of bytes that are not digits; as with `marks`, only the lowest one is
        // exact.
        let word = word_at(text, at) ^ (LOW * u64::from(b'0'));
        let others = (word.wrapping_add(LOW * 0x76) | word) & (LOW << 7);
        if others != 0 {
            return at + others.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
}

/// A string that was skipped.
pub(super) struct Passed {
    /// Position after its last quote.
    pub(super) end: usize,
    pub(super) has_escape: bool,
    pub(super) is_ascii: bool,
}

/// Skips the string that begins at `at`.
#[inline(always)]
pub(super) fn skip_string(text: &[u8], mut at: usize) -> Passed {
    let (mut seen, mut has_escape) = (0, false);
    at += 1;
    let end = loop {
        let word = word_at(text, at);
        let hits = marks(word);
        if hits == 0 {
            seen |= word;
            at += 8;
            continue;
        }
        let len = hits.trailing_zeros() / 8;
        seen |= word & !(u64::MAX << (8 * len));
        at += len as usize;
        match byte(text, at) {
            Some(b'"') => break at + 1,
            Some(b'\\') => at = skip_escape(text, at),
            _ => break nowhere(text),
        }
        has_escape = true;
    };
    Passed {
        end,
        has_escape,
        is_ascii: seen & (LOW << 7) == 0,
    }
}

fn skip_escape(text: &[u8], at: usize) -> usize {
    let rest = &text[at + 1..];
    match rest.first() {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at + 2,
        Some(b'u') if rest.len() > 4 && rest[1..5].iter().all(u8::is_ascii_hexdigit) => at + 6,
        _ => nowhere(text),
    }
}

/// A one in every byte.
const LOW: u64 = 0x0101_0101_0101_0101;

/// The eight bytes at `at`, the first one lowest; zeros beyond the end of the text.
#[inline(always)]
fn word_at(text: &[u8], at: usize) -> u64 {
    let rest = text.get(at..).unwrap_or_default();
    match (rest.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(&bytes), _) => u64::from_le_bytes(bytes),
        (None, Some(&bytes)) if !rest.is_empty() => {
            u64::from_le_bytes(bytes) >> (64 - 8 * rest.len())
        }
        _ => rest
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// The upper bit of bytes that are quotes, backslashes or control characters. The lowest such bit
/// is exact; those above it may not be.
#[inline(always)]
fn marks(word: u64) -> u64 {
    let below =
        |word: u64, limit: u8| word.wrapping_sub(LOW * u64::from(limit)) & !word & (LOW << 7);
    // With this bit inverted, a quote becomes the byte after the control characters, and these
    // remain control characters.
    below(word ^ (LOW * 2), b' ' + 1) | below(word ^ (LOW * u64::from(b'\\')), 1)
}

/// Calls `visit` with each path of a set.
#[inline(always)]
pub(super) fn each(mut set: u8, mut visit: impl FnMut(usize)) {
    while set != 0 {
        visit(set.trailing_zeros() as usize);
        set &= set - 1;
    }
}

/// Whether `quoted`, a JSON string including its quotes, equals `wanted`.
#[inline(always)]
pub(super) fn is_name(quoted: &[u8], wanted: &str, has_escape: bool) -> bool {
    match has_escape {
        false => quoted.len() == wanted.len() + 2 && quoted[1..].starts_with(wanted.as_bytes()),
        true => serde_json::from_slice::<String>(quoted).is_ok_and(|name| name == wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Values with few names, so that paths lead to something.
    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            "[a-b\"\\\\,:{}\\[\\] \u{e9}\u{1}]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab\u{e9}\"]{1,2}", inner, 0..4)
                    .prop_map(|map| Value::from(serde_json::Map::from_iter(map))),
            ]
        })
    }

    fn any_path() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            "[ab\u{e9}\"]{1,2}".prop_map(Step::Name),
            (0..3_usize).prop_map(Step::Index),
        ];
        prop::collection::vec(step, 0..4)
    }

    /// The result by definition.
    fn led<'v>(value: &'v Value, path: &[Step]) -> Option<&'v Value> {
        path.iter().try_fold(value, |value, step| match step {
            Step::Name(name) => value.as_object()?.get(name),
            Step::Index(index) => value.as_array()?.get(*index),
        })
    }

    proptest! {
        #[test]
        fn every_path_finds_what_a_parsed_value_has_there(
            value in any_value(), paths in prop::collection::vec(any_path(), 1..PATHS_MAX), is_pretty: bool,
        ) {
            let text = match is_pretty {
                true => serde_json::to_string_pretty(&value),
                false => serde_json::to_string(&value),
            };
            let text = text.unwrap();
            // Numbers in the form in which they are read back.
            let value: Value = serde_json::from_str(&text).unwrap();
            let steps: Vec<&[Step]> = paths.iter().map(Vec::as_slice).collect();
            let mut found = vec![None; paths.len()];
            let sound = Scanned { is_json: true, has_good_names: true };
            prop_assert_eq!(find(text.as_bytes(), &steps, &mut found), sound);
            for (path, found) in paths.iter().zip(found) {
                let found = found.map(|text| serde_json::from_slice::<Value>(text).unwrap());
                prop_assert_eq!(found.as_ref(), led(&value, path), "{:?}", path);
            }
        }

        #[test]
        fn what_is_json_is_what_a_parser_takes(value in any_value(), cut in 0..80_usize, put in any_bytes(), paths in prop::collection::vec(any_path(), 1..4)) {
            let mut text = serde_json::to_vec(&value).unwrap();
            let cut = cut.min(text.len());
            text.splice(cut..(cut + put.len() / 2).min(text.len()), put);
            check_grammar(&text, &paths);
        }

        #[test]
        fn a_scan_of_anything_ends(text in any_bytes(), paths in prop::collection::vec(any_path(), 1..4)) {
            check_grammar(&text, &paths);
        }
    }

    /// Bytes that JSON consists of, and bytes that it forbids.
    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let part = prop::sample::select(vec![
            &b"a"[..],
            b"\"",
            b"\\",
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b" ",
            b"\t",
            b"\x0c",
            b"\x1f",
            b"\x00",
            b"1",
            b"0",
            b"-",
            b"+",
            b".",
            b"e",
            b"\\u00e9",
            b"\\ud800",
            b"\\u00g0",
            b"\\n",
            b"\\x",
            b"true",
            b"false",
            b"null",
            b"nul",
            b"\"a\"",
            b"\"b\":",
            b"\xff",
            b"\x7f",
        ]);
        prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
    }

    #[track_caller]
    fn check_grammar(text: &[u8], paths: &[Vec<Step>]) {
        let steps: Vec<&[Step]> = paths.iter().map(Vec::as_slice).collect();
        let scanned = find(text, &steps, &mut vec![None; paths.len()]);
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
        assert_eq!(scanned.is_json, is_json, "{}", text.escape_ascii());
    }

    #[test]
    fn deep_values_are_passed_but_not_checked() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let path = [Step::Name("b".to_owned())];
        for (depth, is_json) in [
            (NESTING_MAX, true),
            (NESTING_MAX + 1, false),
            (100_000, false),
        ] {
            let text = format!("{{\"a\":{},\"b\":1}}", nested(depth));
            let mut found = [None];
            let scanned = find(text.as_bytes(), &[&path], &mut found);
            assert_eq!(
                (scanned.is_json, found),
                (is_json, [Some(&b"1"[..])]),
                "{depth}"
            );
        }
    }
}
