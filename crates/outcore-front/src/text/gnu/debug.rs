//! `sort --debug`: shows the bytes of each line that form its keys, and the options without effect.
//!
//! Contract: [`Debug::write_line`] writes a line in readable form (a tab is `>`), below it a row
//! per key with its part underlined, then a row for the whole line if the line breaks ties.
//! [`Debug::warnings`] lists options without effect, or with a different effect from the one that
//! users often expect. Rows and words are those of GNU `sort` in the C locale. For a key that
//! compares as a number or month, the part that was parsed as such is underlined.
//!
//! Source: the manual of coreutils, "sort invocation", `--debug`; the behaviour of the program.

use std::ops::Range;

use super::fields::Separator;
use super::{GnuSort, Key, Kind, Ordering, float, month, past_blanks, unit_order};
use outcore::key::encode::{Decimal, digits_len};

/// The keys to show; see the module.
#[derive(Debug)]
pub struct Debug {
    keys: Vec<Key>,
    global: Ordering,
    /// Whether the only key is the whole line, with the global options.
    is_global_only: bool,
    separator: Option<u8>,
    is_last_resort: bool,
}

impl Debug {
    /// For lines in the order of `sort`.
    pub fn new(sort: &GnuSort) -> Self {
        Debug {
            keys: sort.settled_keys(),
            global: sort.global,
            is_global_only: sort.keys.is_empty(),
            separator: sort.separator,
            is_last_resort: !(sort.stable || sort.unique),
        }
    }

    /// Appends the rows for a line.
    pub fn write_line(&self, line: &[u8], out: &mut Vec<u8>) {
        let shown = |byte: &u8| if *byte == b'\t' { b'>' } else { *byte };
        out.extend(line.iter().map(shown));
        out.push(b'\n');
        for key in &self.keys {
            underline(line, self.part(key, line), out);
        }
        if self.keys.is_empty() || self.is_last_resort {
            underline(line, 0..line.len(), out);
        }
    }

    /// The part of a line that a key uses.
    fn part(&self, key: &Key, line: &[u8]) -> Range<usize> {
        let separator = self.separator.map_or(Separator::Blanks, Separator::Byte);
        let part = key.span.range(line, separator);
        let text = &line[part.clone()];
        let word = past_blanks(text);
        let from = part.end - word.len();
        let len = match key.ordering.kind() {
            Kind::Numeric => decimal_len(word, false),
            Kind::Human => decimal_len(word, true),
            Kind::General => float::len(word),
            Kind::Month if month(word) > 0 => 3,
            Kind::Month => 0,
            Kind::Text | Kind::Random | Kind::Version => return part,
        };
        from..from + len
    }

    /// Warnings about the options, one per line.
    pub fn warnings(&self) -> Vec<String> {
        let mut said = vec!["text ordering performed using simple byte comparison".to_string()];
        let mut unused = self.global;
        let (mut has_number, mut spans, mut spans_general) = (false, false, false);
        for (number, key) in (1..).zip(&self.keys) {
            let ordering = &key.ordering;
            let is_number = is_number(ordering);
            has_number |= is_number;
            let start = key.span.start.unwrap_or_default();
            let end = key.span.end;
            if key.is_of_old_form {
                let (mut old, mut new) = (
                    format!("+{}", start.fields),
                    format!("-k {}", start.fields.saturating_add(1)),
                );
                if let Some(end) = end {
                    let fields = end.fields.saturating_add(1);
                    old.push_str(&format!(" -{fields}"));
                    new.push_str(&format!(",{fields}"));
                }
                said.push(format!(
                    "obsolescent key '{old}' used; consider '{new}' instead"
                ));
            }
            let is_empty =
                key.span.start.is_some() && end.is_some_and(|end| end.fields < start.fields);
            if is_empty {
                said.push(format!("key {number} has zero width and will be ignored"));
            }
            if !is_empty && !self.is_global_only && self.has_leading_blanks(key) {
                said.push(format!(
                    "leading blanks are significant in key {number}; consider also specifying 'b'"
                ));
            }
            if !self.is_global_only && is_number && end.is_none_or(|end| start.fields < end.fields)
            {
                said.push(format!("key {number} is numeric and spans multiple fields"));
                match ordering.kinds.general {
                    true => spans_general = true,
                    false => spans = true,
                }
            }
            unused.forget(ordering);
        }
        let meaning = match self.separator {
            Some(b'.') if spans || spans_general => Some(("'.'", "decimal point")),
            Some(b'-') if spans || spans_general => Some(("'-'", "minus sign")),
            Some(b'+') if spans_general => Some(("'+'", "plus sign")),
            _ => None,
        };
        if let Some((separator, meaning)) = meaning {
            said.push(format!(
                "field separator {separator} is treated as a {meaning} in numbers"
            ));
        }
        if has_number && meaning.is_none_or(|(_, meaning)| meaning != "decimal point") {
            said.push("numbers use '.' as a decimal point in this locale".to_string());
        }
        said.extend(self.of_unused(unused));
        said
    }

    /// Whether leading blanks of a field count, which is rarely intended.
    fn has_leading_blanks(&self, key: &Key) -> bool {
        let (span, ordering) = (&key.span, &key.ordering);
        let skips_anyway = is_number(ordering) || ordering.kinds.month;
        let start_bytes = span.start.unwrap_or_default().bytes;
        let end_bytes = span.end.map_or(0, |end| end.bytes);
        // -k1.x,1.y counts from the start of the line.
        let is_of_line = end_bytes > 0 && span.end.is_some_and(|end| end.fields == 0);
        let counts_at_start = !span.skips_blanks_at_start && (!skips_anyway || start_bytes > 0);
        let counts_at_end = !span.skips_blanks_at_end && end_bytes > 0;
        self.separator.is_none() && !is_of_line && (counts_at_start || counts_at_end)
    }

    /// The warnings about global options that no key uses.
    fn of_unused(&self, mut unused: Ordering) -> Vec<String> {
        let mut said = Vec::new();
        let is_turned = unused.reverse && !self.keys.is_empty();
        if self.is_last_resort || !is_turned {
            unused.reverse = false;
        }
        let letters = unused.all_letters();
        match letters.len() {
            0 => {}
            1 => said.push(format!("option '-{letters}' is ignored")),
            _ => said.push(format!("options '-{letters}' are ignored")),
        }
        if is_turned && self.is_last_resort {
            said.push("option '-r' only applies to last-resort comparison".to_string());
        }
        said
    }
}

impl Ordering {
    /// Removes the options of a key.
    fn forget(&mut self, key: &Ordering) {
        let (mine, its) = (&mut self.kinds, &key.kinds);
        mine.numeric &= !its.numeric;
        mine.general &= !its.general;
        mine.human &= !its.human;
        mine.month &= !its.month;
        mine.version &= !its.version;
        mine.random &= !its.random;
        // -d ignores everything that -i ignores, so only one of them counts.
        let is_same = self.dictionary == key.dictionary && (self.dictionary || key.printing);
        self.dictionary &= !is_same;
        self.printing &= !is_same;
        self.fold &= !key.fold;
        self.blanks_at_start &= !key.blanks_at_start;
        self.blanks_at_end &= !key.blanks_at_end;
        self.reverse &= !key.reverse;
    }

    /// All letters that are set.
    fn all_letters(&self) -> String {
        let kinds = &self.kinds;
        let letters = [
            ('b', self.blanks_at_start || self.blanks_at_end),
            ('d', self.dictionary),
            ('f', self.fold),
            ('g', kinds.general),
            ('h', kinds.human),
            ('i', self.printing && !self.dictionary),
            ('M', kinds.month),
            ('n', kinds.numeric),
            ('R', kinds.random),
            ('r', self.reverse),
            ('V', kinds.version),
        ];
        let set = letters.iter().filter(|(_, is_set)| *is_set);
        set.map(|(letter, _)| letter).collect()
    }
}

fn is_number(ordering: &Ordering) -> bool {
    let kinds = &ordering.kinds;
    kinds.numeric || kinds.general || kinds.human
}

/// Length of the number at the front, including its unit if that counts; 0 if there is none.
fn decimal_len(text: &[u8], has_unit: bool) -> usize {
    let number = Decimal::at_front_of(text);
    if number.whole.is_empty() && number.fraction.is_empty() {
        return 0;
    }
    let mut len = usize::from(number.is_negative) + number.whole.len();
    if text.get(len) == Some(&b'.') {
        len += 1 + digits_len(&text[len + 1..]);
    }
    let unit = text.get(len).filter(|_| has_unit);
    len + usize::from(unit.is_some_and(|unit| unit_order(*unit) > 0))
}

/// A row with a part of a line underlined.
fn underline(line: &[u8], part: Range<usize>, out: &mut Vec<u8>) {
    out.resize(out.len() + columns(&line[..part.start]), b' ');
    match columns(&line[part]) {
        0 => out.extend_from_slice(b"^ no match for key"),
        width => out.resize(out.len() + width, b'_'),
    }
    out.push(b'\n');
}

/// Number of columns of the bytes: zero for unprintable bytes, except for tabs.
fn columns(text: &[u8]) -> usize {
    let takes = |byte: &&u8| **byte == b'\t' || !byte.is_ascii_control();
    text.iter().filter(takes).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::gnu::OptionScope;

    fn sort(letters: &str, keys: &[&str], separator: Option<u8>, stable: bool) -> GnuSort {
        let mut sort = GnuSort {
            separator,
            stable,
            ..GnuSort::default()
        };
        for letter in letters.bytes() {
            assert!(sort.global.set(letter, OptionScope::Both));
        }
        sort.keys = keys.iter().map(|key| Key::parse(key).unwrap()).collect();
        sort
    }

    #[track_caller]
    fn check(letters: &str, keys: &[&str], line: &str, rows: &[&str]) {
        let debug = Debug::new(&sort(letters, keys, None, true));
        let mut out = Vec::new();
        debug.write_line(line.as_bytes(), &mut out);
        let out = String::from_utf8(out).unwrap();
        let got: Vec<&str> = out.lines().skip(1).collect();
        assert_eq!(got, rows, "{letters} {keys:?} {line}");
    }

    #[test]
    fn keys_are_underlined_as_far_as_they_were_read() {
        check("", &[], "ab", &["__"]);
        check("", &["2,2", "1,1"], "ab cd e", &["  ___", "__"]);
        check("", &["2,2"], "ab", &["  ^ no match for key"]);
        check("n", &[], "  -12.50x", &["  ______"]);
        check("n", &[], "x", &["^ no match for key"]);
        check("", &["1h"], "3.5Ki", &["____"]);
        check("", &["1g"], "-1.5e+3x", &["_______"]);
        check("", &["2M"], "x  febr", &["   ___"]);
        check("b", &[], "  a", &["  _"]);
        check("", &["1.2b"], "1 2", &[" __"]);
        check("", &["2"], "a\tb", &[" __"]);
        let debug = Debug::new(&sort("", &["2,2"], Some(b'\t'), false));
        let mut out = Vec::new();
        debug.write_line(b"a\tb", &mut out);
        assert_eq!(out, b"a>b\n  _\n___\n");
    }

    #[test]
    fn options_without_effect_are_told() {
        let warnings = |letters, keys: &[&str], separator, stable| {
            let said = Debug::new(&sort(letters, keys, separator, stable)).warnings();
            said[1..].join("\n")
        };
        for (letters, keys, separator, stable, wanted) in [
            ("", &[][..], None, false, ""),
            ("r", &[], None, false, ""),
            ("rM", &["1,1"], None, false, ""),
            (
                "",
                &["2,1"],
                None,
                true,
                "key 1 has zero width and will be ignored",
            ),
            (
                "",
                &["2"],
                None,
                true,
                "leading blanks are significant in key 1; consider also specifying 'b'",
            ),
            (
                "r",
                &["1,1b"],
                None,
                false,
                "leading blanks are significant in key 1; consider also specifying 'b'\noption '-r' only applies to last-resort comparison",
            ),
            ("rf", &["1b,1"], None, true, "options '-fr' are ignored"),
            (
                "b",
                &["1,1bn"],
                None,
                false,
                "numbers use '.' as a decimal point in this locale\noption '-b' is ignored",
            ),
            (
                "",
                &["1n"],
                Some(b'.'),
                false,
                "key 1 is numeric and spans multiple fields\nfield separator '.' is treated as a decimal point in numbers",
            ),
        ] {
            assert_eq!(
                warnings(letters, keys, separator, stable),
                wanted,
                "{letters} {keys:?}"
            );
        }
    }
}
