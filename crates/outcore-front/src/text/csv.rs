//! CSV: records that may span lines, and a column of them as a key.
//!
//! Contract: records and fields are those of [`outcore::read::csv`]. [`Columns`] orders records by
//! columns. Records are never changed; quotes are removed only from their keys.

use outcore::key::column::{key_hint, listed, quoted};
use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::read::csv::{fields, is_blank, value};
use outcore::read::separator::number;
use outcore::{Error, Result};

use super::gnu::{Compare, OptionScope, Ordering, past_blanks};
use super::{FieldOrder, append_whole, said_twice};

pub(crate) use outcore::read::csv::BYTE_ORDER_MARK;
pub use outcore::read::csv::Framer;

const CHOOSE: &str = "choose column";

/// The columns in a header; a byte order mark in front of it is ignored.
///
/// # Errors
/// Usage for a header with an unterminated quote.
pub fn names(header: &[u8], separator: u8) -> Result<Vec<String>> {
    let header = header.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header);
    let header = header.strip_suffix(b"\n").unwrap_or(header);
    let name = |field: &[u8]| {
        let mut unquoted = Vec::new();
        value(field, &mut unquoted)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .ok_or_else(|| {
                Error::usage("read header", open_quote().0).hint("correct the first line")
            })
    };
    fields(header, separator).map(name).collect()
}

fn open_quote() -> NoKey {
    NoKey("a quote is not closed".to_string())
}

/// A column to order by, and how.
#[derive(Debug)]
struct Column {
    index: usize,
    compare: Compare,
    order: FieldOrder,
    /// Whether leading blanks of its value are ignored.
    skips_blanks: bool,
    /// Its name in the notation of the user, if its values are compared as text.
    text_name: Option<String>,
}

/// A column as the user requested it.
#[derive(Debug)]
struct Chosen {
    index: usize,
    name: String,
    ordering: Ordering,
    order: FieldOrder,
}

/// Records in the order of columns; without any, in the order of their bytes.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<Column>,
    separator: u8,
    /// Whether records have several fields, so that a blank line is not a record.
    is_wide: bool,
    is_descending: bool,
    tie: Tie,
}

/// The user's choice of columns.
#[derive(Debug, Clone)]
pub struct ColumnOptions<'a> {
    /// `NAME`, or a number from 1, or several separated by commas. After colons follow, in any
    /// order, letters of its own or a type, `asc` or `desc`, and `nulls-first` or `nulls-last`. An
    /// empty field is a null.
    pub by: &'a [String],
    /// The names in the header; `None` without one.
    pub names: Option<&'a [String]>,
    /// The byte between fields.
    pub separator: u8,
    /// Ordering of columns without letters of their own.
    pub global: Ordering,
    /// Ties keep the order of the input.
    pub stable: bool,
    /// Seed of `R`.
    pub seed: u64,
}

impl Columns {
    /// Resolves the columns.
    ///
    /// # Errors
    /// Usage for missing columns and incompatible letters.
    pub fn new(options: &ColumnOptions<'_>) -> Result<Self> {
        let mut chosen = Vec::new();
        for list in options.by {
            // A name in the header may contain commas.
            if let Ok(one) = choose(list, options) {
                chosen.push(one);
                continue;
            }
            for by in listed(list) {
                chosen.push(choose(by, options)?);
            }
        }
        let is_descending = match chosen.first() {
            Some(first) => first.ordering.reverse,
            None => options.global.reverse,
        };
        let count = chosen.len();
        let is_wide = match options.names {
            Some(names) => names.len() > 1,
            None => chosen.iter().any(|chosen| chosen.index > 0),
        };
        let column = |(at, chosen): (usize, Chosen)| {
            let is_turned = chosen.ordering.reverse != is_descending;
            let is_last = at + 1 == count;
            let compare = Compare::new(&chosen.ordering, is_turned, is_last, options.seed)?;
            Ok(Column {
                text_name: chosen.ordering.is_of_bytes().then_some(chosen.name),
                index: chosen.index,
                compare,
                order: chosen.order,
                skips_blanks: chosen.ordering.skips_blanks(),
            })
        };
        let columns: Result<Vec<Column>> = chosen.into_iter().enumerate().map(column).collect();
        Ok(Columns {
            columns: columns?,
            separator: options.separator,
            is_wide,
            is_descending,
            tie: Tie::of(options.stable, options.global.reverse),
        })
    }
}

/// Fails for a name that several columns have.
fn refuse_repeated(name: &str, names: &[String]) -> Result<()> {
    let places = names.iter().enumerate().filter(|(_, known)| *known == name);
    let places: Vec<String> = places.map(|(index, _)| (index + 1).to_string()).collect();
    if places.len() < 2 {
        return Ok(());
    }
    let all = places.join(", ");
    let cause = format!("columns {all} have the same name, {name}");
    let hint = format!("use the number of the column: --by {}", places[0]);
    Err(Error::usage(CHOOSE, cause).hint(hint))
}

/// Finds a column and its comparison. The longest name in the header wins, so a name may contain
/// colons.
fn choose(by: &str, options: &ColumnOptions<'_>) -> Result<Chosen> {
    let place = |name: &str| {
        let named = options
            .names
            .and_then(|names| names.iter().position(|known| known == name));
        let number = || {
            let number = name.parse::<usize>().ok()?.checked_sub(1)?;
            let is_there = |names: &[String]| number < names.len();
            options.names.is_none_or(is_there).then_some(number)
        };
        named.or_else(number)
    };
    let quoted = quoted(by).filter(|_| place(by).is_none());
    let (mut rest, mut order) = match &quoted {
        Some((_, orders)) => (*orders, FieldOrder::default()),
        None => (by, FieldOrder::default()),
    };
    let mut own = None;
    let (index, name) = loop {
        let name = match &quoted {
            Some((name, _)) => Some(name.as_str()).filter(|_| rest.is_empty()),
            None => Some(rest),
        };
        if let Some((index, name)) = name.and_then(|name| Some((place(name)?, name))) {
            break (index, name);
        }
        match rest.rsplit_once(':') {
            Some((front, word)) if order.take(word, by)? => rest = front,
            Some((front, word)) if own.is_none() && own_ordering(word).is_some() => {
                own = own_ordering(word);
                rest = front;
            }
            _ => return Err(no_column(by, rest, options, place)),
        }
    };
    if own.is_some_and(|own| own.reverse) && order.is_descending.is_some() {
        return Err(said_twice(by, "asc or desc"));
    }
    let mut ordering = own.unwrap_or(options.global);
    if let Some(names) = options.names {
        refuse_repeated(name, names)?;
    }
    if let Some(is_descending) = order.is_descending {
        ordering.reverse = is_descending;
    }
    Ok(Chosen {
        index,
        name: name.to_owned(),
        ordering,
        order,
    })
}

/// The error if there is no column: the rest of `by` is neither a name nor an order after a name.
fn no_column(
    by: &str,
    rest: &str,
    options: &ColumnOptions<'_>,
    place: impl Fn(&str) -> Option<usize>,
) -> Error {
    if let Some((name, _)) = quoted(by).filter(|_| place(by).is_none()) {
        return match place(&name) {
            Some(_) => not_an_order(&name, rest.trim_start_matches(':')),
            None => missing(&name, options),
        };
    }
    let mut colons = by.match_indices(':');
    match colons.find(|(at, _)| place(&by[..*at]).is_some()) {
        Some((at, _)) => not_an_order(&by[..at], &by[at + 1..]),
        None => missing(rest, options),
    }
}

/// The ordering of a column's letters or of its type; `None` for other words.
fn own_ordering(word: &str) -> Option<Ordering> {
    let letters = match word {
        "" => return None,
        "text" | "string" | "utf8" => "",
        "f32" | "f64" | "float32" | "float64" | "float" | "double" => "g",
        _ if word.starts_with("decimal(") && word.ends_with(')') => "n",
        _ if is_whole(word) => "n",
        letters => letters,
    };
    let mut ordering = Ordering::default();
    let mut all = letters.bytes();
    all.all(|letter| ordering.set(letter, OptionScope::Both))
        .then_some(ordering)
}

/// Whether a word is a type of whole numbers, such as `u32` or `int64`.
fn is_whole(word: &str) -> bool {
    let bits = ["uint", "int", "u", "i"]
        .iter()
        .find_map(|front| word.strip_prefix(front));
    matches!(bits, Some("8" | "16" | "32" | "64"))
}

fn not_an_order(name: &str, letters: &str) -> Error {
    let cause = format!("`{letters}` is not an order of `{name}`");
    Error::usage(CHOOSE, cause).hint(
        "after the colon write a type of numbers or text, letters of sort (bdfghiMnrRV), asc, desc, nulls-first or \
         nulls-last",
    )
}

fn missing(by: &str, options: &ColumnOptions<'_>) -> Error {
    let hint = match options.names {
        Some(names) if names.iter().all(String::is_empty) => "its header is empty".to_string(),
        Some([only]) if let Some(separator) = likely_separator(only, options.separator) => {
            format!(
                "the header is one field, {only}; to split it, add -t '{}'",
                separator.escape_default()
            )
        }
        Some(names) => {
            key_hint(by, names).unwrap_or_else(|| format!("the header has {}", names.join(", ")))
        }
        None => "without a header columns have numbers, from 1".to_string(),
    };
    Error::usage(CHOOSE, format!("there is no column `{by}`")).hint(hint)
}

/// The likely separator of a header that was parsed as a single name.
fn likely_separator(header: &str, separator: u8) -> Option<char> {
    let all = [';', '\t', '|', ','].into_iter();
    all.filter(|other| *other as u32 != u32::from(separator))
        .find(|other| header.contains(*other))
}

impl SortKey for Columns {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        append_whole(key, |key| self.append_all(line, key))
    }

    fn is_item(&self) -> bool {
        self.columns.is_empty()
    }

    fn is_descending(&self) -> bool {
        self.is_descending
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

impl Columns {
    /// The note about the first column that is compared as text although all its values in `lines`
    /// are numbers, if numbers would be in another order.
    pub(super) fn numbers_as_text<'l>(
        &self,
        lines: impl Iterator<Item = &'l [u8]>,
    ) -> Option<String> {
        let lines: Vec<&[u8]> = lines
            .filter(|line| !is_blank(line, self.separator))
            .collect();
        self.columns.iter().find_map(|column| {
            let name = column.text_name.as_ref()?;
            let mut values = Vec::with_capacity(lines.len());
            for line in &lines {
                let field = fields(line, self.separator).nth(column.index)?;
                let mut unquoted = Vec::new();
                let text = value(field, &mut unquoted)?.trim_ascii().to_vec();
                if !text.is_empty() {
                    values.push((number(&text)?, text));
                }
            }
            values.sort_by(|one, other| one.0.total_cmp(&other.0));
            let is_turned = |pair: &&[(f64, Vec<u8>)]| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1;
            let pair = values.windows(2).find(is_turned)?;
            let [less, more] = [0, 1].map(|at| String::from_utf8_lossy(&pair[at].1));
            Some(format!(
                "{name} is compared as text, so {more} comes before {less}; the key {name}:n compares numbers"
            ))
        })
    }

    fn append_all(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        if self.columns.is_empty() {
            key.extend_from_slice(line);
        } else if self.is_wide && is_blank(line, self.separator) {
            return Err(NoKey::blank());
        }
        for column in &self.columns {
            let Some(field) = fields(line, self.separator).nth(column.index) else {
                return Err(NoKey(format!("there is no column {}", column.index + 1)));
            };
            let mut unquoted = Vec::new();
            let value = value(field, &mut unquoted).ok_or_else(open_quote)?;
            column
                .order
                .append_null(value.is_empty(), self.is_descending, key);
            let text = match column.skips_blanks {
                true => past_blanks(value),
                false => value,
            };
            column.compare.append(text, key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore::key::sort_key::compare_items;

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_name() {
        for header in [&b"\xef\xbb\xbfid,name\n"[..], b"\xef\xbb\xbf\"id\",name"] {
            assert_eq!(names(header, b',').unwrap(), ["id", "name"]);
        }
    }

    #[test]
    fn columns_that_are_not_there_are_told_with_those_that_are() {
        let names = names(b"id,\"full name\",price\r\n", b',').unwrap();
        let settle = |by: &str| {
            let by = [by.to_string()];
            let options = ColumnOptions {
                by: &by,
                names: Some(&names),
                separator: b',',
                global: Ordering::default(),
                stable: false,
                seed: 1,
            };
            Columns::new(&options).map(|_| ())
        };
        for by in [
            "id",
            "full name",
            "price:nr",
            "3",
            "2:f",
            "id:n:desc",
            "3:desc:nulls-first",
        ] {
            settle(by).unwrap();
        }
        let error = settle("cost").unwrap_err();
        assert!(error.next_step().unwrap().contains("id, full name, price"));
        for by in ["price:x", "price:n:down"] {
            let hint = settle(by).unwrap_err();
            assert!(hint.next_step().unwrap().contains("nulls-first"), "{by}");
        }
    }

    #[test]
    fn a_name_of_several_columns_is_refused_with_their_numbers() {
        let names = ["a", "b", "a"].map(str::to_string);
        let settle = |by: &str| {
            let options = ColumnOptions {
                by: &[by.to_string()],
                names: Some(&names),
                separator: b',',
                global: Ordering::default(),
                stable: false,
                seed: 1,
            };
            Columns::new(&options).map(|_| ())
        };
        for by in ["a", "a:n", "a:desc"] {
            let error = settle(by).unwrap_err();
            assert!(error.to_string().contains("columns 1, 3"), "{error}");
            assert!(error.next_step().unwrap().contains("--by 1"), "{error}");
        }
        for by in ["b", "1", "3:n"] {
            settle(by).unwrap();
        }
    }

    #[test]
    fn a_header_with_another_separator_is_told_with_the_option_that_splits_it() {
        for (header, wanted) in [("a;b", "-t ';'"), ("a\tb", "-t '\\t'"), ("a|b", "-t '|'")] {
            let options = ColumnOptions {
                by: &["b".to_string()],
                names: Some(&[header.to_string()]),
                separator: b',',
                global: Ordering::default(),
                stable: false,
                seed: 1,
            };
            let error = Columns::new(&options).unwrap_err();
            assert!(error.next_step().unwrap().contains(wanted), "{error}");
        }
    }

    /// Sorts records of two columns by `by`; `global` are letters for all columns.
    fn sorted(by: &[&str], global: &str, records: &[&str]) -> Vec<String> {
        let by: Vec<String> = by.iter().map(ToString::to_string).collect();
        let mut letters = Ordering::default();
        assert!(
            global
                .bytes()
                .all(|letter| letters.set(letter, OptionScope::Both))
        );
        let order = Columns::new(&ColumnOptions {
            by: &by,
            names: Some(&["a".to_string(), "b".to_string()]),
            separator: b',',
            global: letters,
            stable: true,
            seed: 1,
        })
        .unwrap();
        let mut records: Vec<String> = records.iter().map(ToString::to_string).collect();
        records.sort_by(|x, y| compare_items(&order, x.as_bytes(), y.as_bytes()).unwrap());
        records
    }

    #[test]
    fn names_in_backquotes_may_be_empty_or_hold_colons() {
        let chosen = |by: &str| {
            let by = [by.to_owned()];
            let names = ["a:desc".to_owned(), String::new()];
            let options = ColumnOptions {
                by: &by,
                names: Some(&names),
                separator: b',',
                global: Ordering::default(),
                stable: true,
                seed: 1,
            };
            choose(&by[0], &options).map(|chosen| (chosen.index, chosen.ordering.reverse))
        };
        assert_eq!(chosen("`a:desc`").unwrap(), (0, false));
        assert_eq!(chosen("`a:desc`:desc").unwrap(), (0, true));
        assert_eq!(chosen("``:nr").unwrap(), (1, true));
        assert_eq!(chosen("``").unwrap(), (1, false));
        assert!(chosen("`b`").is_err() && chosen("`a:desc`b").is_err());
    }

    #[test]
    fn blanks_in_front_of_a_value_do_not_count_under_b_quoted_or_not() {
        let records = ["  c,1", "b,2", "\" a\",3", "\tb,1", "   ,0"];
        let plain = ["\tb,1", "   ,0", "  c,1", "\" a\",3", "b,2"];
        assert_eq!(sorted(&["a"], "", &records), plain);
        let wanted = ["   ,0", "\" a\",3", "b,2", "\tb,1", "  c,1"];
        assert_eq!(sorted(&["a"], "b", &records), wanted);
        assert_eq!(sorted(&["a:b"], "", &records), wanted);
        let both = ["   ,0", "\" a\",3", "\tb,1", "b,2", "  c,1"];
        assert_eq!(sorted(&["a:b", "b:n"], "", &records), both);
        // A column with letters of its own ignores the global ones, as in GNU sort.
        assert_eq!(sorted(&["a:f"], "b", &records), plain);
    }

    #[test]
    fn directions_and_empty_fields_go_where_the_words_say() {
        let records = ["10,x", ",y", "9,x", "9,"];
        let table: [(&[&str], &str, [&str; 4]); 8] = [
            (&["a:desc"], "n", ["10,x", "9,x", "9,", ",y"]),
            (&["a:n:desc"], "", ["10,x", "9,x", "9,", ",y"]),
            (&["a:nr"], "", ["10,x", "9,x", "9,", ",y"]),
            (&["a:desc"], "", ["9,x", "9,", "10,x", ",y"]),
            (&["a:n:nulls-last"], "", ["9,x", "9,", "10,x", ",y"]),
            (&["a:nulls-first:desc"], "n", [",y", "10,x", "9,x", "9,"]),
            (
                &["a:n:asc:nulls-last", "b:nulls-first"],
                "r",
                ["9,", "9,x", "10,x", ",y"],
            ),
            (
                &["a:n:desc", "b:nulls-last:asc"],
                "",
                ["10,x", "9,x", "9,", ",y"],
            ),
        ];
        for (by, global, wanted) in table {
            assert_eq!(sorted(by, global, &records), wanted, "{by:?} {global}");
        }
    }
}
