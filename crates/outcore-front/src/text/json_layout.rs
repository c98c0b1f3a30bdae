//! Finds values in lines of JSON with a similar layout.
//!
//! Contract: [`Layout::find`] finds the same values as [`super::json_scan::find`] for paths that
//! are single names, and checks the same grammar. For text that is not an object, or not JSON, it
//! returns that it cannot decide. The bytes between the values of a line (names, colons, commas,
//! blanks) are mostly the same in all lines of a file. They are compared with those of the learnt
//! line, sixteen bytes at a time, and parsed only if they differ.
//!
//! Source: Li et al., "Mison: a fast JSON parser for data analytics" (VLDB 2017), which predicts
//! the positions of fields from earlier lines.
//!
//! Bounds: one pass over a line; a layout holds at most [`MEMBERS_MAX`] names of [`LEAD_BYTES_MAX`]
//! bytes.

use std::ops::Range;

use super::json_scan::{PATHS_MAX, byte, each, is_name, skip_space, skip_string, skip_value};

/// Maximum number of members whose names are remembered.
const MEMBERS_MAX: usize = 64;
/// Maximum number of bytes before a value that are remembered.
const LEAD_BYTES_MAX: usize = 256;
/// Number of bytes that are compared at a time.
const FIRST_BYTES: usize = size_of::<u128>();

/// The layout of a line.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The names of the requested values.
    names: Vec<String>,
    members: Vec<Member>,
}

/// The bytes before a value.
#[derive(Debug)]
struct Member {
    /// From the end of the previous value, or the beginning of the line, to the value.
    lead: Box<[u8]>,
    /// Its first bytes, and a mask of those that exist.
    first: u128,
    mask: u128,
    /// The set of requested names that equal its name.
    led: u8,
}

impl Member {
    fn new(lead: &[u8], led: u8) -> Self {
        let padded = |byte: &dyn Fn(usize) -> u8| u128::from_le_bytes(std::array::from_fn(byte));
        Member {
            lead: lead.into(),
            first: padded(&|at| lead.get(at).copied().unwrap_or(0)),
            mask: padded(&|at| lead.get(at).map_or(0, |_| u8::MAX)),
            led,
        }
    }

    /// Whether `rest` begins with it.
    #[inline(always)]
    fn leads(&self, rest: &[u8]) -> bool {
        match rest.first_chunk() {
            Some(&first) => {
                (u128::from_le_bytes(first) ^ self.first) & self.mask == 0
                    && (self.lead.len() <= FIRST_BYTES
                        || rest[FIRST_BYTES..].starts_with(&self.lead[FIRST_BYTES..]))
            }
            None => rest.starts_with(&self.lead),
        }
    }

    /// Its name, including quotes.
    fn quoted(&self) -> &[u8] {
        let first = self.lead.iter().position(|byte| *byte == b'"');
        let last = self.lead.iter().rposition(|byte| *byte == b'"');
        match (first, last) {
            (Some(first), Some(last)) => &self.lead[first..=last],
            _ => &[],
        }
    }
}

impl Layout {
    /// Learns the layout of a line, to find the values of `names`. Returns `None` for a line that
    /// is not an object.
    ///
    /// # Panics
    /// If there are more than [`PATHS_MAX`] names.
    pub(super) fn of(line: &[u8], names: Vec<String>) -> Option<Self> {
        assert!(names.len() <= PATHS_MAX);
        let nothing = Layout {
            names,
            members: Vec::new(),
        };
        let mut members = Vec::new();
        let (mut from, mut is_kept) = (0, true);
        let is_object = nothing.each_value(line, |value, led| {
            let lead = &line[from..value.start];
            is_kept &= members.len() < MEMBERS_MAX && lead.len() <= LEAD_BYTES_MAX;
            if is_kept {
                members.push(Member::new(lead, led));
            }
            from = value.end;
        });
        is_object.then_some(Layout { members, ..nothing })
    }

    /// Writes the text of the value of each name into `found`, `None` for a missing one. Returns
    /// false if the layout does not decide.
    pub(super) fn find<'a>(&self, line: &'a [u8], found: &mut [Option<&'a [u8]>]) -> bool {
        found.fill(None);
        self.each_value(line, |value, led| {
            if led != 0 {
                each(led, |name| found[name] = line.get(value.clone()));
            }
        })
    }

    /// Calls `visit` with each value of an object, and the set of names that equal its name.
    /// Returns false if the text is not an object.
    #[inline(always)]
    fn each_value(&self, line: &[u8], mut visit: impl FnMut(Range<usize>, u8)) -> bool {
        let (mut at, mut next) = (0, 0);
        loop {
            let led = match self.members.get(next) {
                Some(member) if member.leads(&line[at..]) => {
                    at = skip_space(line, at + member.lead.len());
                    next += 1;
                    member.led
                }
                _ => match self.read_lead(line, &mut at) {
                    Lead::Value(led, number) => {
                        next = number.map_or(next.max(1), |number| number + 1);
                        led
                    }
                    Lead::End(is_good) => return is_good,
                },
            };
            let end = skip_value(line, at);
            if end > line.len() {
                return false;
            }
            visit(at..end, led);
            at = end;
        }
    }

    /// Parses the bytes between two values, or before the first, and moves to the beginning of the
    /// next value.
    fn read_lead(&self, line: &[u8], at: &mut usize) -> Lead {
        let open = skip_space(line, *at);
        let from = skip_space(line, open + 1);
        match (byte(line, open), *at) {
            (Some(b'}'), 1..) => return Lead::End(from == line.len()),
            (Some(b','), 1..) => {}
            (Some(b'{'), 0) if byte(line, from) == Some(b'}') => {
                return Lead::End(skip_space(line, from + 1) == line.len());
            }
            (Some(b'{'), 0) => {}
            _ => return Lead::End(false),
        }
        if byte(line, from) != Some(b'"') {
            return Lead::End(false);
        }
        let passed = skip_string(line, from);
        let Some(name) = line.get(from..passed.end) else {
            return Lead::End(false);
        };
        let colon = skip_space(line, passed.end);
        let is_utf8 = passed.is_ascii || std::str::from_utf8(name).is_ok();
        if byte(line, colon) != Some(b':') || !is_utf8 {
            return Lead::End(false);
        }
        *at = skip_space(line, colon + 1);
        let wanted = self.names.iter().enumerate();
        let led = wanted.fold(0, |led, (number, wanted)| {
            led | u8::from(is_name(name, wanted, passed.has_escape)) << number
        });
        let number = self
            .members
            .iter()
            .position(|member| member.quoted() == name);
        Lead::Value(led, number)
    }
}

/// The item after a value, or before the first one.
enum Lead {
    /// A name: the set of requested names that equal it, and its index in the layout.
    Value(u8, Option<usize>),
    /// Nothing more; true if that ends an object.
    End(bool),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::json_scan::{Step, find};
    use super::*;

    /// Lines that are objects, mostly with the same names.
    fn any_object() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec![
            "a",
            "b",
            "a long name, of more bytes",
            ", ",
            "\u{e9}",
            "\\u0061",
            "",
        ]);
        let space = prop::sample::select(vec!["", "", "", " ", "\t", " \r\n"]);
        let member = (name, any_value(), space).prop_map(|(name, value, space)| {
            format!("{space}\"{name}\"{space}:{space}{value}{space}")
        });
        let lead = prop::sample::select(vec!["", "\"a\": 1, \"b\": \"c\", "]);
        (lead, prop::collection::vec(member, 0..4)).prop_map(|(lead, members)| {
            let members = members.join(",");
            let lead = if members.is_empty() { "" } else { lead };
            format!("{{{lead}{members}}}")
        })
    }

    /// Values as text.
    fn any_value() -> impl Strategy<Value = String> {
        prop_oneof![
            prop::sample::select(vec![
                "null",
                "true",
                "false",
                "{}",
                "[]",
                "{\"a\":1}",
                "[\"a\", {\"b\":1}]"
            ])
            .prop_map(str::to_owned),
            any::<i64>().prop_map(|value| value.to_string()),
            any::<i16>().prop_map(|value| format!("{value}.5e2")),
            "[ab:,{}\u{e9}]{0,20}".prop_map(|text| format!("\"{text}\"")),
            Just("\"\\u0061\"".to_owned()),
        ]
    }

    /// Bytes that make most objects invalid when they are inserted.
    fn any_damage() -> impl Strategy<Value = Vec<u8>> {
        let parts: Vec<&[u8]> = vec![
            b"\"", b"\\", b"{", b"}", b"]", b",", b":", b" ", b"\x01", b"0", b"e", b"\xff", b"x",
        ];
        let part = prop::sample::select(parts);
        prop::collection::vec(part, 0..3).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn a_layout_of_another_line_finds_what_a_scan_finds(
            learnt in any_object(), line in any_object(), cut in 0..200_usize, gone in 0..3_usize, damage in any_damage(),
        ) {
            let names = ["a", "a long name, of more bytes"].map(str::to_owned);
            let paths = names.clone().map(|name| [Step::Name(name)]);
            let paths = paths.each_ref().map(|path| &path[..]);
            let layout = Layout::of(learnt.as_bytes(), names.into()).unwrap();
            let mut line = line.into_bytes();
            let cut = cut.min(line.len());
            line.splice(cut..(cut + gone).min(line.len()), damage);
            let (mut scanned, mut found) = ([None; 2], [None; 2]);
            let is_object = line.trim_ascii_start().first() == Some(&b'{');
            let scan = find(&line, &paths, &mut scanned);
            let is_told = layout.find(&line, &mut found);
            prop_assert_eq!(is_told, is_object && scan.is_json && scan.has_good_names, "{}", line.escape_ascii());
            prop_assert!(!is_told || found == scanned, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn a_layout_is_learnt_of_objects_and_is_bounded() {
        let of =
            |line: &str| Layout::of(line.as_bytes(), Vec::new()).map(|layout| layout.members.len());
        for line in ["", "[1]", "1", "{\"a\"}", "{\"a\":1", "{\"a\":1}}", "{,}"] {
            assert_eq!(of(line), None, "{line}");
        }
        assert_eq!(of("{}"), Some(0));
        assert_eq!(of("{\"a\": {\"b\": 1}, \"c\": 2}"), Some(2));
        let long = "n".repeat(LEAD_BYTES_MAX);
        assert_eq!(of(&format!("{{\"a\":1,\"{long}\":2,\"c\":3}}")), Some(1));
        let many = (0..2 * MEMBERS_MAX).map(|name| format!("\"{name}\":0"));
        let many = format!("{{{}}}", many.collect::<Vec<_>>().join(","));
        assert_eq!(of(&many), Some(MEMBERS_MAX));
        let mut found = [None];
        let last = (2 * MEMBERS_MAX - 1).to_string();
        let layout = Layout::of(many.as_bytes(), vec![last]).unwrap();
        assert!(layout.find(many.as_bytes(), &mut found) && found == [Some(&b"0"[..])]);
    }

    #[test]
    fn the_lead_of_a_first_member_is_none_of_a_later_one() {
        let names = vec!["a".to_owned()];
        let layout = Layout::of(b"{\"a\":1}", names).unwrap();
        assert!(!layout.find(b"{\"b\":2{\"a\":1}", &mut [None]));
    }
}
