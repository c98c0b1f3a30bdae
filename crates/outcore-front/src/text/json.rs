//! JSON lines: a field of each line as a key.
//!
//! Contract: a line is one JSON value (RFC 8259).
//! - A [`Path`] leads to a field: `.user.id`, `.tags[0]`, `."a name with dots"`.
//! - The order over all types is null, false, true, numbers, strings, arrays, objects. Numbers
//!   compare by value, exactly, at any length; strings by their code points; arrays and objects by
//!   their text.
//! - If an object repeats a name, the last one counts.
//! - A line that is not JSON, or has no such field, has no key; a blank line is not a record.
//! - Fields other than the keys may contain values that JSON forbids but programs write: `NaN`,
//!   `Infinity`, halves of surrogate pairs.
//! - Lines are never changed.
//!
//! If every path is a single name, fields are found by the layout of an earlier line ([`Layout`]),
//! which leads to the same values. If the layout does not fit, the line is scanned; only the scan
//! reports errors.

use std::sync::OnceLock;

use outcore::key::column::{listed, quoted};
use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::read::json::strict;
use outcore::{Error, Result};
use serde::de::IgnoredAny;

use super::json_layout::Layout;
use super::json_scan::{PATHS_MAX, Step, find};
use super::{FieldOrder, append_whole};
use outcore::key::encode::{Decimal, append_decimal, append_string, complement, digits_len};

const READ: &str = "read path";

/// A path to a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

impl Path {
    /// The path to the field with this name.
    fn named(name: String) -> Self {
        Path {
            text: name.clone(),
            steps: vec![Step::Name(name)],
        }
    }

    /// Parses `.user.id`; the first dot may be omitted.
    ///
    /// # Errors
    /// Usage for an invalid path.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::usage(READ, format!("`{text}` leads nowhere"))
                .hint("write it as .user.id, .tags[0] or .\"a name with dots\"")
        };
        let mut steps = Vec::new();
        let mut rest = text;
        if !rest.starts_with(['.', '[']) {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Name(rest[..end].to_string()));
            rest = &rest[end..];
        }
        while !rest.is_empty() {
            if let Some(behind) = rest.strip_prefix('[') {
                let (index, behind) = behind.split_once(']').ok_or_else(wrong)?;
                steps.push(Step::Index(index.parse().map_err(|_| wrong())?));
                rest = behind;
            } else if let Some(behind) = rest.strip_prefix(".\"") {
                let (name, behind) = behind.split_once('"').ok_or_else(wrong)?;
                steps.push(Step::Name(name.to_string()));
                rest = behind;
            } else {
                let behind = rest.strip_prefix('.').ok_or_else(wrong)?;
                let end = behind.find(['.', '[']).unwrap_or(behind.len());
                steps.push(Step::Name(behind[..end].to_string()));
                rest = &behind[end..];
            }
        }
        let is_empty = |step: &Step| matches!(step, Step::Name(name) if name.is_empty());
        // A dot alone is the whole value.
        if text == "." {
            steps.clear();
        } else if steps.is_empty() || steps.iter().any(is_empty) {
            return Err(wrong());
        }
        Ok(Path {
            text: text.to_string(),
            steps,
        })
    }
}

/// Returns `path`, the rest of `key`. Fails if it contains a colon outside quotes.
fn check_order<'p>(path: &'p str, key: &str) -> Result<&'p str> {
    let mut is_quoted = false;
    let colon = path.find(|letter| {
        is_quoted ^= letter == '"';
        letter == ':' && !is_quoted
    });
    let Some(at) = colon else {
        return Ok(path);
    };
    let cause = match &path[at + 1..] {
        "" => format!("nothing follows a colon in `{key}`"),
        word => format!("`{word}` is not an order of `{}`", &path[..at]),
    };
    Err(Error::usage("choose column", cause).hint(
        "write asc, desc, nulls-first or nulls-last after the colon: values of JSON have their \
         types. A name with a colon is written as in .\"a:b\"",
    ))
}

/// A field to sort by.
#[derive(Debug)]
struct Field {
    path: Path,
    /// Whether its direction is opposite to that of the order as a whole.
    is_turned: bool,
    order: FieldOrder,
}

/// JSON lines in the order of fields.
#[derive(Debug)]
pub struct JsonFields {
    fields: Vec<Field>,
    is_descending: bool,
    tie: Tie,
    /// The layout of the first line that was an object; never set if a path is not a single name.
    layout: OnceLock<Layout>,
}

impl JsonFields {
    /// Creates the order by `paths`, lists separated by commas. A path may end with `:desc` (or
    /// `:r`), `:asc`, `:nulls-first` or `:nulls-last`; `reverse` applies to paths without a
    /// direction. Ties keep the order of the input if `is_stable`.
    ///
    /// # Errors
    /// Usage for an invalid path.
    pub fn new(paths: &[String], reverse: bool, is_stable: bool) -> Result<Self> {
        let mut fields = Vec::new();
        for text in paths.iter().flat_map(|list| listed(list)) {
            let quoted = quoted(text);
            let (mut rest, mut order) = (text, FieldOrder::default());
            if let Some((_, orders)) = &quoted {
                rest = orders;
            }
            while let Some((front, word)) = rest.rsplit_once(':')
                && order.take(if word == "r" { "desc" } else { word }, text)?
            {
                rest = front;
            }
            fields.push(Field {
                path: match quoted {
                    Some((name, _)) if rest.is_empty() => Path::named(name),
                    _ => Path::parse(check_order(rest, text)?)?,
                },
                is_turned: order.is_descending.unwrap_or(reverse),
                order,
            });
        }
        let is_descending = fields.first().is_some_and(|first| first.is_turned);
        for field in &mut fields {
            field.is_turned = field.is_turned != is_descending;
        }
        Ok(JsonFields {
            fields,
            is_descending,
            tie: Tie::of(is_stable, reverse),
            layout: OnceLock::new(),
        })
    }
}

/// As [`find`], for a line with numbers that JSON forbids, such as NaN, in fields that are no keys.
/// Returns `None` if the line is not JSON even without them.
fn find_strictly<'l>(
    line: &'l [u8],
    paths: &[&[Step]],
    found: &mut [Option<&'l [u8]>],
) -> Option<std::result::Result<(), NoKey>> {
    let strict = strict(line)?;
    serde_json::from_slice::<IgnoredAny>(&strict).ok()?;
    let mut in_strict = [None; PATHS_MAX];
    find(&strict, paths, &mut in_strict[..paths.len()]);
    for (found, value) in found.iter_mut().zip(in_strict) {
        // `strict` has the length of `line`, so a value is at the same offset in both.
        *found = value.and_then(|value: &[u8]| {
            let from = value.as_ptr() as usize - strict.as_ptr() as usize;
            line.get(from..from + value.len())
        });
        if *found != value {
            let cause = "its key has a value that JSON does not have, such as NaN";
            return Some(Err(NoKey(cause.to_owned())));
        }
    }
    Some(Ok(()))
}

impl SortKey for JsonFields {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        append_whole(key, |key| self.append_all(line, key))
    }

    fn is_descending(&self) -> bool {
        self.is_descending
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

impl JsonFields {
    /// Appends the keys of all fields.
    fn append_all(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        let mut found = [None; PATHS_MAX];
        if let Some(layout) = self.layout.get()
            && layout.find(line, &mut found)
        {
            let mut fields = self.fields.iter().zip(found);
            return fields.try_for_each(|(field, value)| self.append_field(field, value, key));
        }
        self.append_scanned(line, key)
    }

    /// Appends them by a scan of the line, and learns its layout if none has been learnt.
    fn append_scanned(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Err(NoKey::blank());
        }
        for fields in self.fields.chunks(PATHS_MAX) {
            let mut paths: [&[Step]; PATHS_MAX] = [&[]; PATHS_MAX];
            for (steps, field) in paths.iter_mut().zip(fields) {
                *steps = &field.path.steps;
            }
            let mut found = [None; PATHS_MAX];
            let found = &mut found[..fields.len()];
            let scanned = find(line, &paths[..fields.len()], found);
            if !scanned.is_json {
                // Serde's parser reports the error, and checks values at any depth.
                if let Err(error) = serde_json::from_slice::<IgnoredAny>(line) {
                    find_strictly(line, &paths[..fields.len()], found)
                        .ok_or_else(|| NoKey(format!("it is not JSON: {error}")))??;
                }
            }
            if !scanned.has_good_names {
                return Err(NoKey("it is not JSON: a name is not UTF-8".to_owned()));
            }
            for (field, value) in fields.iter().zip(found) {
                self.append_field(field, *value, key)?;
            }
        }
        if self.layout.get().is_none() {
            self.learn(line);
        }
        Ok(())
    }

    /// Learns the layout of a line if all paths are single names.
    fn learn(&self, line: &[u8]) {
        let name = |field: &Field| match &field.path.steps[..] {
            [Step::Name(name)] => Some(name.clone()),
            _ => None,
        };
        let names: Option<Vec<String>> = self.fields.iter().map(name).collect();
        if let Some(names) = names.filter(|names| names.len() <= PATHS_MAX)
            && let Some(layout) = Layout::of(line, names)
        {
            // Another thread may have learnt the layout of another line, which is equally good.
            let _ = self.layout.set(layout);
        }
    }

    fn append_field(
        &self,
        field: &Field,
        value: Option<&[u8]>,
        key: &mut Vec<u8>,
    ) -> std::result::Result<(), NoKey> {
        let path = &field.path.text;
        let value = value.ok_or_else(|| NoKey(format!("it has no field {path}")))?;
        let is_null = value == b"null";
        field.order.append_null(is_null, self.is_descending, key);
        let start = key.len();
        append_value(value, path, key)?;
        if field.is_turned {
            complement(&mut key[start..]);
        }
        Ok(())
    }
}

/// Appends the value at `path` by its type, then its content.
fn append_value(value: &[u8], path: &str, key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
    let class = match value.first() {
        Some(b'n') => 0,
        Some(b'f') => 1,
        Some(b't') => 2,
        Some(b'"') => 4,
        Some(b'[') => 5,
        Some(b'{') => 6,
        _ => 3,
    };
    key.push(class);
    if class < 4 {
        if class == 3 {
            append_decimal(&number(value), key);
        }
        return Ok(());
    }
    let text = std::str::from_utf8(value)
        .map_err(|error| NoKey(format!("it is not JSON: {path} is not UTF-8: {error}")))?;
    match class {
        4 if !text.contains('\\') => append_string(&value[1..value.len() - 1], key),
        4 => {
            let string: String = serde_json::from_str(text)
                .map_err(|error| NoKey(format!("it is not JSON: {error}")))?;
            append_string(string.as_bytes(), key);
        }
        _ => append_string(value, key),
    }
    Ok(())
}

/// A number in JSON's notation.
fn number(text: &[u8]) -> Decimal<'_> {
    let mut number = Decimal::at_front_of(text);
    if let Some(b'e' | b'E') = text.get(number.len_bytes()) {
        let rest = &text[number.len_bytes() + 1..];
        let is_negative = rest.first() == Some(&b'-');
        let digits = rest
            .strip_prefix(b"-")
            .or(rest.strip_prefix(b"+"))
            .unwrap_or(rest);
        let magnitude = digits[..digits_len(digits)]
            .iter()
            .fold(0_i64, |sum, digit| {
                sum.saturating_mul(10)
                    .saturating_add(i64::from(digit - b'0'))
            });
        // The limit is half the range of `i64`, so that adding the number of digits cannot
        // overflow.
        let magnitude = magnitude.min(i64::MAX / 2);
        number.exponent = if is_negative { -magnitude } else { magnitude };
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore::key::sort_key::compare_items;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn order(paths: &[&str]) -> JsonFields {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_string()).collect();
        JsonFields::new(&paths, false, true).unwrap()
    }

    fn key_of(path: &str, line: &str) -> std::result::Result<Vec<u8>, NoKey> {
        let mut key = Vec::new();
        order(&[path]).append_key(line.as_bytes(), &mut key)?;
        Ok(key)
    }

    #[test]
    fn the_order_over_all_types_is_the_documented_one() {
        let ordered = [
            "null",
            "false",
            "true",
            "-1e400",
            "-2",
            "-1.5",
            "0",
            "1e-400",
            "0.5",
            "10",
            "1e2",
            "123456789012345678901",
            "123456789012345678902",
            "1e400",
            "\"\"",
            "\"\\u0000\"",
            "\"10\"",
            "\"9\"",
            "\"a\"",
            "\"a\\u0001\"",
            "\"b\"",
            "[]",
            "{}",
        ];
        for pair in ordered.windows(2) {
            let line = |value: &str| format!("{{\"x\": {value}}}");
            let (a, b) = (line(pair[0]), line(pair[1]));
            assert!(
                key_of(".x", &a).unwrap() < key_of(".x", &b).unwrap(),
                "{pair:?}"
            );
        }
        assert_eq!(key_of(".x", "{\"x\":1.50e1}"), key_of(".x", "{\"x\":15}"));
        assert_eq!(
            key_of(".x", "{\"x\":\"\\u0061\"}"),
            key_of(".x", "{\"x\":\"a\"}")
        );
    }

    #[test]
    fn paths_lead_through_objects_and_arrays_and_say_where_they_do_not() {
        let line = "{\"user\": {\"id\": 7, \"a.b\": [1, {\"c\": 2}]}, \"user\": {\"id\": 8, \"a.b\": [1, {\"c\": 3}]}}";
        let seven = key_of(".", "8").unwrap();
        assert_eq!(key_of(".user.id", line).unwrap(), seven, "the last counts");
        assert_eq!(key_of("user.id", line).unwrap(), seven);
        assert_eq!(
            key_of(".user.\"a.b\"[1].c", line).unwrap(),
            key_of(".", "3").unwrap()
        );
        for path in [".user.name", ".user.id.x", ".user[0]", ".user.\"a.b\"[2]"] {
            let NoKey(why) = key_of(path, line).unwrap_err();
            assert!(why.contains(path), "{why}");
        }
        for wrong in ["{\"user\"", "{} {}", "{\"user\": \"\u{1}\"}", "[1,]"] {
            assert!(
                key_of(".user", wrong).unwrap_err().0.contains("not JSON"),
                "{wrong}"
            );
        }
        for path in ["", "..", ".a..b", "a[x]", "a[", ".\"a"] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
    }

    #[test]
    fn more_fields_than_one_scan_leads_count_in_their_order() {
        let count = 2 * PATHS_MAX + 3;
        let paths: Vec<String> = (0..count).map(|field| format!(".f{field}")).collect();
        let order = JsonFields::new(&paths, false, true).unwrap();
        // All fields are equal except for one, and those after it run in the opposite direction.
        for differs in 0..count {
            let line = |is_more: bool| {
                let fields = (0..count).rev().map(|field| {
                    let number = match field.cmp(&differs) {
                        Ordering::Less => 5,
                        Ordering::Equal => 5 + i32::from(is_more),
                        Ordering::Greater => 5 - i32::from(is_more),
                    };
                    format!("\"f{field}\":{number}")
                });
                format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
            };
            let compared = compare_items(&order, line(false).as_bytes(), line(true).as_bytes());
            assert_eq!(compared, Ok(Ordering::Less), "{differs}");
        }
    }

    #[test]
    fn names_and_values_that_are_looked_at_are_utf_8() {
        for line in [&b"{\"\xff\":1,\"a\":2}"[..], b"{\"a\":\"\xff\"}"] {
            let NoKey(why) = order(&[".a"])
                .append_key(line, &mut Vec::new())
                .unwrap_err();
            assert!(why.contains("not JSON"), "{why}");
        }
    }

    #[test]
    fn directions_and_nulls_go_where_the_words_say() {
        let lines = ["{\"a\":1}", "{\"a\":null}", "{\"a\":2}"];
        for (by, wanted) in [
            (".a", [1, 0, 2]),
            (".a:asc", [1, 0, 2]),
            (".a:desc", [2, 0, 1]),
            (".a:r", [2, 0, 1]),
            (".a:nulls-last", [0, 2, 1]),
            (".a:desc:nulls-first", [1, 2, 0]),
            (".a:nulls-first:desc", [1, 2, 0]),
            (".a:desc:nulls-last", [2, 0, 1]),
        ] {
            let order = order(&[by]);
            let mut sorted = lines;
            sorted.sort_by(|x, y| compare_items(&order, x.as_bytes(), y.as_bytes()).unwrap());
            assert_eq!(sorted, wanted.map(|at| lines[at]), "{by}");
        }
        // A later field is ordered in the opposite direction to the first one.
        let both = order(&[".b", ".a:desc:nulls-first"]);
        let line = |a: &str| format!("{{\"a\":{a},\"b\":0}}").into_bytes();
        for pair in ["null", "2", "1"].windows(2) {
            let compared = compare_items(&both, &line(pair[0]), &line(pair[1]));
            assert_eq!(compared, Ok(Ordering::Less), "{pair:?}");
        }
    }

    #[test]
    fn lines_of_any_layout_have_the_keys_and_the_errors_of_a_first_line() {
        let lines: [&[u8]; 14] = [
            b"{\"a\": 1, \"b\": \"x\"}",
            b"{\"a\": 2, \"b\": \"y\"}",
            b"{\"b\": \"y\", \"a\": 2}",
            b"{\"a\": 2, \"more\": {\"a\": 3}, \"b\": null}\r",
            b"{\"a\": 2, \"b\": \"y\", \"a\": 3}",
            b"{\"\\u0061\": 2e1, \"b\": \"\\u00e9\"}",
            b"{\"a\": 2}",
            b"{\"a\": 2, \"b\": \"y\"",
            b"{\"a\": 02, \"b\": \"y\"}",
            b"{\"a\": 2, \"b\": \"\xff\"}",
            b"{\"a\": 2, \"b\": \"y\", \"\xff\": 1}",
            b"[1]",
            b"",
            b"{\"a\": 2, \"b\": \"y\"} x",
        ];
        let learnt = order(&[".a", ".b"]);
        let deep = format!(
            "{{\"a\": 2, \"c\": {}{}, \"b\": 1}}",
            "[".repeat(99),
            "]".repeat(99)
        );
        for line in lines.into_iter().chain([deep.as_bytes()]) {
            let (mut key, mut first) = (vec![7], vec![7]);
            let made = learnt.append_key(line, &mut key);
            let wanted = order(&[".a", ".b"]).append_key(line, &mut first);
            assert_eq!((made, key), (wanted, first), "{}", line.escape_ascii());
        }
        assert!(learnt.layout.get().is_some());
        let further = order(&[".a.b"]);
        further
            .append_key(b"{\"a\":{\"b\":1}}", &mut Vec::new())
            .unwrap();
        assert!(further.layout.get().is_none());
    }

    proptest! {
        #[test]
        fn several_fields_compare_one_after_the_other(a in ("[a-c]{0,2}", -3_i32..3), b in ("[a-c]{0,2}", -3_i32..3)) {
            let line = |(name, number): &(String, i32)| format!("{{\"name\":\"{name}\",\"n\":{number}}}").into_bytes();
            let order = order(&[".name:r", ".n"]);
            let compared = compare_items(&order, &line(&a), &line(&b));
            let wanted = b.0.cmp(&a.0).then(a.1.cmp(&b.1));
            prop_assert_eq!(compared, Ok(wanted));
            prop_assert!(wanted != Ordering::Equal || a == b);
        }
    }
}
