//! The order of GNU `sort` in the C locale, as keys.
//!
//! Contract: a [`GnuSort`] holds the options of `sort(1)`. [`GnuOrder::new`] resolves inherited
//! options and rejects incompatible ones. The order is exactly that of coreutils 9 (built for
//! x86-64, where `-g` has 64 bits of mantissa) under `LC_ALL=C`, with two exceptions. Incompatible
//! options are rejected with our own messages. `-R` groups equal keys, as in GNU sort, but in an
//! order that its seed determines. [`debug`] shows the keys of a line.
//!
//! A line is cut into its keys ([`fields`]), and each becomes a part of the line's key:
//! - text as it is, or filtered (`-d -f -i`);
//! - numbers (`-n`, `-h`) as exact decimals of any length;
//! - `-g` as the bits of a long double ([`float`]);
//! - `-V` as chunks ([`version`]);
//! - `-M` and `-R` as a number.
//!
//! A line that is its own key is reported as such and costs nothing. Every line has a key.
//!
//! Source: the manual of coreutils, section "sort invocation"; the behaviour of the program.

pub mod debug;
pub mod fields;
pub(crate) mod float;
mod parse;
pub(crate) mod version;

pub use parse::of_old_form;

use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::{Error, Result};
use twox_hash::XxHash3_64;

use fields::{Separator, Span, is_blank};
use outcore::key::encode::{self, Decimal, append_decimal, append_string, complement};

const CHOOSE: &str = "choose order";

/// The comparison of text: at most one of these per key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kinds {
    numeric: bool,
    general: bool,
    human: bool,
    month: bool,
    version: bool,
    random: bool,
}

/// The ordering options `bdfghiMnrRV`, of one key or of all keys without options of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ordering {
    kinds: Kinds,
    dictionary: bool,
    printing: bool,
    fold: bool,
    /// Blanks before the start are ignored.
    blanks_at_start: bool,
    /// Blanks before the end are ignored.
    blanks_at_end: bool,
    /// Whether the order is reversed.
    pub reverse: bool,
}

/// The position within a key where an option was given: `b` applies to the start, the end, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionScope {
    /// After the first position.
    Start,
    /// After the second position.
    End,
    /// For all keys.
    Both,
}

impl Ordering {
    /// Whether values are compared by their bytes, in either direction.
    pub(crate) fn is_of_bytes(&self) -> bool {
        let forward = Ordering {
            reverse: false,
            ..*self
        };
        forward == Ordering::default()
    }

    /// Sets the option of a letter. Returns false for an unknown letter.
    pub fn set(&mut self, letter: u8, place: OptionScope) -> bool {
        match letter {
            b'b' => {
                self.blanks_at_start |= place != OptionScope::End;
                self.blanks_at_end |= place != OptionScope::Start;
            }
            b'd' => self.dictionary = true,
            b'f' => self.fold = true,
            b'g' => self.kinds.general = true,
            b'h' => self.kinds.human = true,
            b'i' => self.printing = true,
            b'M' => self.kinds.month = true,
            b'n' => self.kinds.numeric = true,
            b'r' => self.reverse = true,
            b'R' => self.kinds.random = true,
            b'V' => self.kinds.version = true,
            _ => return false,
        }
        true
    }

    /// Whether leading blanks of a column's value are ignored.
    pub(crate) fn skips_blanks(&self) -> bool {
        self.blanks_at_start
    }

    /// Whether no option is set, except possibly `r`.
    fn is_plain(&self) -> bool {
        let mut other = *self;
        other.reverse = false;
        other == Ordering::default()
    }

    fn kind(&self) -> Kind {
        let kinds = &self.kinds;
        match () {
            () if kinds.numeric => Kind::Numeric,
            () if kinds.general => Kind::General,
            () if kinds.human => Kind::Human,
            () if kinds.month => Kind::Month,
            () if kinds.random => Kind::Random,
            () if kinds.version => Kind::Version,
            () => Kind::Text,
        }
    }

    /// Fails for options that select different orders.
    fn check(&self) -> Result<()> {
        let kinds = &self.kinds;
        let rest = kinds.version || kinds.random || self.dictionary || self.printing;
        let numbers = [kinds.numeric, kinds.general, kinds.human, kinds.month, rest];
        let count = numbers.iter().filter(|is_set| **is_set).count();
        if count <= 1 {
            return Ok(());
        }
        let cause = format!("options '-{}' are incompatible", self.letters());
        Err(Error::usage(CHOOSE, cause).hint("a key is compared in one way: keep one of them"))
    }

    /// The letters that select the order.
    fn letters(&self) -> String {
        let kinds = &self.kinds;
        let letters = [
            ('d', self.dictionary),
            ('f', self.fold),
            ('g', kinds.general),
            ('h', kinds.human),
            // -d ignores everything that -i ignores.
            ('i', self.printing && !self.dictionary),
            ('M', kinds.month),
            ('n', kinds.numeric),
            ('R', kinds.random),
            ('V', kinds.version),
        ];
        let set = letters.iter().filter(|(_, is_set)| *is_set);
        set.map(|(letter, _)| letter).collect()
    }
}

/// One `-k`: its range and its comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Key {
    span: Span,
    ordering: Ordering,
    /// Whether it was written as `+POS1 [-POS2]`.
    is_of_old_form: bool,
}

/// The options of `sort` that determine the order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GnuSort {
    /// `-k`, the most significant first.
    pub keys: Vec<Key>,
    /// `-b -d -f -g -h -i -M -n -r -R -V`.
    pub global: Ordering,
    /// `-t`; without it, fields begin at blanks.
    pub separator: Option<u8>,
    /// `-s`: lines of equal keys keep their order.
    pub stable: bool,
    /// `-u`: only the first line of equal ones; implies the effect of `-s`.
    pub unique: bool,
    /// Selects one of the orders of `-R`.
    pub seed: u64,
}

/// The comparison of a key's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Numeric,
    General,
    Human,
    Month,
    Random,
    Version,
}

/// The replacement of each byte; [`GONE`] for ignored ones.
type Filter = Box<[u16; 256]>;
const GONE: u16 = 0x100;

/// The resolved comparison of one key of several.
#[derive(Debug)]
pub(crate) struct Compare {
    kind: Kind,
    filter: Option<Filter>,
    /// Whether its direction is opposite to that of the order as a whole.
    is_turned: bool,
    /// Whether it is the last part of the key.
    is_last: bool,
    seed: u64,
}

/// A resolved key.
#[derive(Debug)]
struct Part {
    span: Span,
    compare: Compare,
}

/// Lines in the order of GNU `sort`.
#[derive(Debug)]
pub struct GnuOrder {
    parts: Vec<Part>,
    separator: Separator,
    is_descending: bool,
    tie: Tie,
}

impl GnuSort {
    /// The keys, each with its inherited options; the whole line if there are only global options.
    fn settled_keys(&self) -> Vec<Key> {
        let mut keys = self.keys.clone();
        for key in &mut keys {
            if key.ordering == Ordering::default() {
                key.ordering = self.global;
                key.span.skips_blanks_at_start = self.global.blanks_at_start;
                key.span.skips_blanks_at_end = self.global.blanks_at_end;
            }
        }
        if keys.is_empty() && !self.global.is_plain() {
            keys.push(Key::whole(self.global));
        }
        keys
    }
}

impl GnuOrder {
    /// Resolves the options.
    ///
    /// # Errors
    /// Usage for incompatible options.
    pub fn new(sort: &GnuSort) -> Result<Self> {
        let keys = sort.settled_keys();
        // Without keys, only the bytes of the line remain, which -s and -u do not change.
        let is_last_resort = !(sort.stable || sort.unique);
        let is_descending = match keys.first() {
            Some(first) => first.ordering.reverse,
            None => sort.global.reverse,
        };
        let part = |(index, key): (usize, &Key)| {
            let is_turned = key.ordering.reverse != is_descending;
            let is_last = index + 1 == keys.len();
            let compare = Compare::new(&key.ordering, is_turned, is_last, sort.seed)?;
            Ok(Part {
                span: key.span,
                compare,
            })
        };
        let parts: Result<Vec<Part>> = keys.iter().enumerate().map(part).collect();
        Ok(GnuOrder {
            parts: parts?,
            separator: match sort.separator {
                Some(byte) => Separator::Byte(byte),
                None => Separator::Blanks,
            },
            is_descending,
            tie: Tie::of(!is_last_resort, sort.global.reverse),
        })
    }
}

impl SortKey for GnuOrder {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        if self.parts.is_empty() {
            key.extend_from_slice(line);
        }
        for part in &self.parts {
            part.compare
                .append(part.span.cut(line, self.separator), key);
        }
        Ok(())
    }

    fn is_item(&self) -> bool {
        match self.parts.as_slice() {
            [] => true,
            [only] => only.compare.is_plain() && only.span.is_whole_line(),
            _ => false,
        }
    }

    fn is_descending(&self) -> bool {
        self.is_descending
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

impl Compare {
    /// Resolves the comparison of a key. `is_turned` means that its direction is opposite to that
    /// of the order as a whole. `is_last` means that no further part follows. `seed` selects the
    /// order of `-R`.
    ///
    /// # Errors
    /// Usage for incompatible options.
    pub(crate) fn new(
        ordering: &Ordering,
        is_turned: bool,
        is_last: bool,
        seed: u64,
    ) -> Result<Self> {
        ordering.check()?;
        Ok(Compare {
            kind: ordering.kind(),
            filter: filter_of(ordering),
            is_turned,
            is_last,
            seed,
        })
    }

    /// Whether the key is the unchanged text.
    fn is_plain(&self) -> bool {
        self.kind == Kind::Text && self.filter.is_none() && self.ends_key()
    }

    fn ends_key(&self) -> bool {
        self.is_last && !self.is_turned
    }

    /// Appends the key of a text.
    pub(crate) fn append(&self, text: &[u8], key: &mut Vec<u8>) {
        let start = key.len();
        match (&self.filter, self.kind) {
            (None, _) => self.append_text(text, key),
            (Some(filter), Kind::Text) if self.ends_key() => key.extend(filtered(text, filter)),
            (Some(filter), Kind::Text) => append_filtered(text, filter, key),
            (Some(filter), _) => {
                let text: Vec<u8> = filtered(text, filter).collect();
                self.append_text(&text, key);
            }
        }
        if self.is_turned {
            complement(&mut key[start..]);
        }
    }

    fn append_text(&self, text: &[u8], key: &mut Vec<u8>) {
        match self.kind {
            Kind::Text if self.ends_key() => key.extend_from_slice(text),
            Kind::Text => append_string(text, key),
            Kind::Numeric => append_decimal(&Decimal::at_front_of(past_blanks(text)), key),
            Kind::General => float::append_float(text, key),
            Kind::Human => append_human(past_blanks(text), key),
            Kind::Month => key.push(month(past_blanks(text))),
            Kind::Version => version::append_version(text, key),
            Kind::Random => {
                let hash = XxHash3_64::oneshot_with_seed(self.seed, text);
                key.extend_from_slice(&hash.to_be_bytes());
                // Keeps different keys with the same hash apart.
                append_string(text, key);
            }
        }
    }
}

/// The text from its first nonblank byte to its end.
pub(crate) fn past_blanks(text: &[u8]) -> &[u8] {
    let first = text.iter().position(|byte| !is_blank(*byte));
    &text[first.unwrap_or(text.len())..]
}

/// With `-f`, letters compare as capitals; `-d` keeps blanks, letters and digits, `-i` keeps
/// printable bytes. `None` if only digits or months matter, which need no filter.
fn filter_of(ordering: &Ordering) -> Option<Filter> {
    let is_needed = ordering.fold || ordering.dictionary || ordering.printing;
    let matters = match ordering.kind() {
        Kind::Text | Kind::Human | Kind::Version | Kind::Random => true,
        Kind::Numeric | Kind::General | Kind::Month => false,
    };
    if !is_needed || !matters {
        return None;
    }
    let counts = |byte: u8| match (ordering.dictionary, ordering.printing) {
        (true, _) => byte.is_ascii_alphanumeric() || is_blank(byte),
        (false, true) => (b' '..=b'~').contains(&byte),
        (false, false) => true,
    };
    let mut filter = Box::new([GONE; 256]);
    for byte in (0..=u8::MAX).filter(|byte| counts(*byte)) {
        let becomes = match ordering.fold {
            true => byte.to_ascii_uppercase(),
            false => byte,
        };
        filter[usize::from(byte)] = u16::from(becomes);
    }
    Some(filter)
}

fn filtered<'a>(text: &'a [u8], filter: &'a Filter) -> impl Iterator<Item = u8> + 'a {
    let becomes = text.iter().map(|byte| filter[usize::from(*byte)]);
    becomes.filter(|byte| *byte != GONE).map(|byte| byte as u8)
}

/// As [`append_string`].
fn append_filtered(text: &[u8], filter: &Filter, key: &mut Vec<u8>) {
    for byte in filtered(text, filter) {
        append_escaped(byte, key);
    }
    key.extend_from_slice(&[0, 0]);
}

fn append_escaped(byte: u8, key: &mut Vec<u8>) {
    key.push(byte);
    if byte == 0 {
        key.push(encode::ESCAPED);
    }
}

/// Numbers are compared by their units first, then by their digits. The unit of a zero is ignored.
fn append_human(text: &[u8], key: &mut Vec<u8>) {
    const MIDDLE: u8 = 0x80;
    let number = Decimal::at_front_of(text);
    let digits = text
        .get(usize::from(number.is_negative)..)
        .unwrap_or_default();
    let mut behind = &digits[number.whole.len()..];
    if behind.first() == Some(&b'.') {
        behind = &behind[1 + number.fraction.len()..];
    }
    let is_zero = [number.whole, number.fraction]
        .iter()
        .all(|digits| digits.iter().all(|digit| *digit == b'0'));
    let unit = match behind.first() {
        Some(unit) if !is_zero => unit_order(*unit),
        _ => 0,
    };
    key.push(match number.is_negative {
        true => MIDDLE - unit,
        false => MIDDLE + unit,
    });
    append_decimal(&number, key);
}

fn unit_order(unit: u8) -> u8 {
    const UNITS: &[u8] = b"KMGTPEZYRQ";
    let unit = if unit == b'k' { b'K' } else { unit };
    let found = UNITS.iter().position(|known| *known == unit);
    found.map_or(0, |at| at as u8 + 1)
}

/// 1 to 12, or 0 for anything that is not a month.
fn month(text: &[u8]) -> u8 {
    const MONTHS: &[u8; 36] = b"JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC";
    let Some(name) = text.first_chunk::<3>() else {
        return 0;
    };
    let found = MONTHS
        .chunks_exact(3)
        .position(|month| month.eq_ignore_ascii_case(name));
    found.map_or(0, |at| at as u8 + 1)
}
