//! Finding values in text that is known to be JSON.
//!
//! Contract: [`find`] leads several paths into one value in a single scan. It does not check the grammar: the text
//! must be one JSON value (RFC 8259), or what is found may be wrong (it never panics and always ends). Of equal names in an object the
//! last counts.
//!
//! Bounds: one pass over the text; no memory but for names with escapes.

/// One step into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Name(String),
    Index(usize),
}

/// Paths that are led at once.
pub(super) const PATHS_MAX: usize = 8;

/// Writes the text of the value that each of `paths` leads to into `found`, nothing for one that leads nowhere.
/// Of both there are [`PATHS_MAX`] at most. False if a name on the way is not UTF-8.
pub(super) fn find<'a>(text: &'a [u8], paths: &[&[Step]], found: &mut [Option<&'a [u8]>]) -> bool {
    found.fill(None);
    let mut scan = Scan {
        text,
        at: 0,
        found,
        has_good_names: true,
    };
    scan.skip_space();
    let all = ((1_u16 << paths.len()) - 1) as u8;
    scan.value(paths, all, 0);
    scan.has_good_names
}

/// Where a scan is.
struct Scan<'a, 'f> {
    text: &'a [u8],
    at: usize,
    found: &'f mut [Option<&'a [u8]>],
    has_good_names: bool,
}

impl<'a> Scan<'a, '_> {
    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
    }

    /// Leads the paths of the set `led`, of which `depth` steps are taken, into the value that begins here; what lies
    /// behind it comes next.
    fn value(&mut self, paths: &[&[Step]], led: u8, depth: usize) {
        let start = self.at;
        let (mut ended, mut going_on) = (0_u8, 0_u8);
        each(led, |path| match paths[path].len() == depth {
            true => ended |= 1 << path,
            false => going_on |= 1 << path,
        });
        match self.byte() {
            Some(b'{') if going_on != 0 => self.members(paths, going_on, depth),
            Some(b'[') if going_on != 0 => self.elements(paths, going_on, depth),
            _ => self.skip_value(),
        }
        let value = &self.text[start..self.at.min(self.text.len())];
        each(ended, |path| self.found[path] = Some(value));
    }

    fn members(&mut self, paths: &[&[Step]], led: u8, depth: usize) {
        self.at += 1;
        loop {
            self.skip_space();
            match self.byte() {
                Some(b',') => self.at += 1,
                Some(b'"') => {
                    let name_at = self.at;
                    self.skip_string();
                    let name = &self.text[name_at..self.at.min(self.text.len())];
                    self.has_good_names &= name.is_ascii() || std::str::from_utf8(name).is_ok();
                    self.skip_space();
                    self.at += usize::from(self.byte() == Some(b':'));
                    self.skip_space();
                    let mut taken = 0;
                    each(led, |path| {
                        if let Step::Name(wanted) = &paths[path][depth]
                            && is_name(name, wanted)
                        {
                            taken |= 1 << path;
                            self.found[path] = None;
                        }
                    });
                    match taken {
                        0 => self.skip_value(),
                        taken => self.value(paths, taken, depth + 1),
                    }
                }
                // The brace; or what is no JSON.
                _ => break,
            }
        }
        self.at += 1;
    }

    fn elements(&mut self, paths: &[&[Step]], led: u8, depth: usize) {
        self.at += 1;
        let mut index = 0;
        loop {
            self.skip_space();
            match self.byte() {
                Some(b',') => self.at += 1,
                None | Some(b']' | b'}') => break,
                Some(_) => {
                    let mut taken = 0;
                    each(led, |path| {
                        taken |= u8::from(paths[path][depth] == Step::Index(index)) << path;
                    });
                    match taken {
                        0 => self.skip_value(),
                        taken => self.value(paths, taken, depth + 1),
                    }
                    index += 1;
                }
            }
        }
        self.at += 1;
    }

    fn skip_value(&mut self) {
        match self.byte() {
            Some(b'"') => self.skip_string(),
            Some(b'{' | b'[') => self.skip_container(),
            _ => {
                let ends = |byte: &u8| {
                    matches!(
                        byte,
                        b',' | b']' | b'}' | b':' | b'"' | b' ' | b'\t' | b'\n' | b'\r'
                    )
                };
                let rest = self.text.get(self.at..).unwrap_or_default();
                let len = rest.iter().position(ends).unwrap_or(rest.len());
                // At least one byte, so that every scan ends.
                self.at += len.max(1);
            }
        }
    }

    /// To behind the bracket that closes the one here.
    fn skip_container(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.byte() {
            match byte {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// To behind the quote that ends the string here.
    fn skip_string(&mut self) {
        self.at += 1;
        loop {
            self.at = quote_or_escape(self.text, self.at);
            match self.byte() {
                Some(b'\\') => self.at += 2,
                // The quote; or the end of what is no JSON.
                _ => break,
            }
        }
        self.at += 1;
    }
}

/// Where the next quote or backslash is, from `at` on; the length of the text if there is none. Eight bytes at a time:
/// most names and values are too short for a call of `memchr` to be worth it.
#[inline(always)]
fn quote_or_escape(text: &[u8], mut at: usize) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let zero_bytes = |word: u64| word.wrapping_sub(LOW) & !word & (LOW << 7);
    while let Some(&bytes) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(bytes);
        let quotes = zero_bytes(word ^ (LOW * u64::from(b'"')));
        let escapes = zero_bytes(word ^ (LOW * u64::from(b'\\')));
        // The lowest bit is right; those above it may not be.
        let hits = quotes | escapes;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or_default();
    let hit = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    hit.map_or(text.len(), |hit| at + hit)
}

/// Calls `visit` with each path of a set.
fn each(mut set: u8, mut visit: impl FnMut(usize)) {
    while set != 0 {
        visit(set.trailing_zeros() as usize);
        set &= set - 1;
    }
}

/// Whether `quoted`, a JSON string with its quotes, is `wanted`.
fn is_name(quoted: &[u8], wanted: &str) -> bool {
    if !quoted.contains(&b'\\') {
        return quoted.len() == wanted.len() + 2 && quoted[1..].starts_with(wanted.as_bytes());
    }
    serde_json::from_slice::<String>(quoted).is_ok_and(|name| name == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Values with few names, so that paths lead somewhere.
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

    /// By definition.
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
            // Numbers as they are read back.
            let value: Value = serde_json::from_str(&text).unwrap();
            let steps: Vec<&[Step]> = paths.iter().map(Vec::as_slice).collect();
            let mut found = vec![None; paths.len()];
            prop_assert!(find(text.as_bytes(), &steps, &mut found));
            for (path, found) in paths.iter().zip(found) {
                let found = found.map(|text| serde_json::from_slice::<Value>(text).unwrap());
                prop_assert_eq!(found.as_ref(), led(&value, path), "{:?}", path);
            }
        }

        #[test]
        fn a_scan_of_anything_ends(text in "[a\"\\\\{}\\[\\],: 1]{0,40}", paths in prop::collection::vec(any_path(), 1..4)) {
            let steps: Vec<&[Step]> = paths.iter().map(Vec::as_slice).collect();
            find(text.as_bytes(), &steps, &mut vec![None; paths.len()]);
        }
    }
}
