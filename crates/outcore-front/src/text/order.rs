//! An order of lines as text, so that it can be stored in a file.
//!
//! Contract: an [`OrderSpec`] holds the user's description of the order of lines: options of GNU
//! sort, columns of CSV, or paths of JSON. [`OrderSpec::name`] is its text, from which
//! [`order_of_name`] creates the same order again. The text is JSON, and empty for the order of
//! bytes. For people, an [`OrderSpec`] is displayed as its options.

use std::fmt;
use std::sync::Arc;

use outcore::key::sort_key::{ByteOrder, SharedKey};
use outcore::runs::LineType;
use outcore::{Error, Result};
use serde::{Deserialize, Serialize};

use super::csv::{ColumnOptions, Columns};
use super::gnu::{GnuOrder, GnuSort, Key, OptionScope, Ordering};
use super::json::JsonFields;

const CHOOSE: &str = "choose order";

/// The user's description of an order of lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrderSpec {
    /// Keys in the notation of `sort -k`, the most significant first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Letters of GNU sort for lines, and for keys without letters of their own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub letters: String,
    /// The byte between fields; without it, fields begin at blanks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub separator: Option<u8>,
    /// Paths of fields of JSON lines, or columns of CSV, instead of keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
    /// The lines are records of CSV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csv: Option<CsvSpec>,
    /// Largest first.
    #[serde(skip_serializing_if = "is_false")]
    pub descending: bool,
    /// Lines of equal keys keep the order of the input.
    #[serde(skip_serializing_if = "is_false")]
    pub stable: bool,
    /// Selects one of the orders of `-R`.
    #[serde(skip_serializing_if = "is_zero")]
    pub seed: u64,
}

/// How records of CSV are parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvSpec {
    /// The byte between fields.
    pub separator: u8,
    /// The names of columns in the header; `None` without a header.
    pub names: Option<Vec<String>>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl OrderSpec {
    /// The order.
    ///
    /// # Errors
    /// Usage for invalid or incompatible options.
    pub fn to_order(&self) -> Result<SharedKey> {
        if *self == OrderSpec::default() {
            return Ok(Arc::new(ByteOrder));
        }
        if let Some(csv) = &self.csv {
            let order = Columns::new(&ColumnOptions {
                by: &self.by,
                names: csv.names.as_deref(),
                separator: csv.separator,
                global: self.global()?,
                stable: self.stable,
                seed: self.seed,
            })?;
            return Ok(Arc::new(order));
        }
        if !self.by.is_empty() {
            if !self.keys.is_empty() || !self.letters.is_empty() || self.separator.is_some() {
                return Err(
                    Error::usage(CHOOSE, "letters and separators are not for JSON lines").hint(
                        "values compare by their types; for descending order write .price:desc",
                    ),
                );
            }
            let order = JsonFields::new(&self.by, self.descending, self.stable)?;
            return Ok(Arc::new(order));
        }
        let keys: Result<Vec<Key>> = self.keys.iter().map(|key| Key::parse(key)).collect();
        let order = GnuOrder::new(&GnuSort {
            keys: keys?,
            global: self.global()?,
            separator: self.separator,
            stable: self.stable,
            unique: false,
            seed: self.seed,
        })?;
        Ok(Arc::new(order))
    }

    /// The ordering of the letters.
    fn global(&self) -> Result<Ordering> {
        let mut global = Ordering::default();
        for letter in self.letters.bytes() {
            if !global.set(letter, OptionScope::Both) {
                let cause = format!("`{}` is not a letter of an order", char::from(letter));
                return Err(
                    Error::usage(CHOOSE, cause).hint("use the letters of GNU sort: bdfghiMnRrV")
                );
            }
        }
        global.reverse |= self.descending;
        Ok(global)
    }

    /// Whether lines are JSON values, ordered by their fields.
    pub(super) fn is_json(&self) -> bool {
        self.csv.is_none() && !self.by.is_empty()
    }

    /// Lines in this order.
    ///
    /// # Errors
    /// As [`OrderSpec::to_order`].
    pub(crate) fn to_lines(&self, terminator: u8) -> Result<LineType> {
        Ok(LineType::ordered(
            terminator,
            self.name()?,
            self.to_order()?,
        ))
    }

    /// Its text.
    ///
    /// # Errors
    /// None in practice, because the text is made in memory.
    pub fn name(&self) -> Result<String> {
        if *self == OrderSpec::default() {
            return Ok(String::new());
        }
        let text = serde_json::to_string(self);
        text.map_err(|error| Error::usage(CHOOSE, error.to_string()))
    }

    /// The specification in a text.
    ///
    /// # Errors
    /// Usage for an unknown text.
    pub fn of_name(name: &str) -> Result<Self> {
        if name.is_empty() {
            return Ok(OrderSpec::default());
        }
        serde_json::from_str(name).map_err(|error| {
            Error::usage(
                CHOOSE,
                format!("`{name}` is not an order of lines: {error}"),
            )
            .hint("use the version of outcore that wrote it, or a newer one")
        })
    }
}

/// The order in a text.
///
/// # Errors
/// Usage for an unknown text.
pub fn order_of_name(name: &str) -> Result<SharedKey> {
    OrderSpec::of_name(name)?.to_order()
}

impl fmt::Display for OrderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == OrderSpec::default() {
            return write!(f, "by their bytes");
        }
        let mut words = Vec::new();
        if let Some(csv) = &self.csv {
            words.push("--csv".to_string());
            words.extend(csv.names.is_none().then(|| "--no-header".to_string()));
        }
        let separator = self
            .separator
            .or(self.csv.as_ref().map(|csv| csv.separator));
        if let Some(byte) = separator {
            words.push(format!("-t '{}'", byte.escape_ascii()));
        }
        if !self.letters.is_empty() {
            words.push(format!("-{}", self.letters));
        }
        words.extend(self.descending.then(|| "-r".to_string()));
        words.extend(self.stable.then(|| "-s".to_string()));
        words.extend(self.keys.iter().map(|key| format!("-k {key}")));
        words.extend(self.by.iter().map(|path| format!("--by {path}")));
        write!(f, "{}", words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_makes_the_same_order_again_and_people_see_options() {
        let spec = OrderSpec {
            keys: vec!["2,2n".into(), "1".into()],
            separator: Some(b'\t'),
            descending: true,
            stable: true,
            ..OrderSpec::default()
        };
        assert_eq!(OrderSpec::of_name(&spec.name().unwrap()).unwrap(), spec);
        assert_eq!(spec.to_string(), "-t '\\t' -r -s -k 2,2n -k 1");
        let order = order_of_name(&spec.name().unwrap()).unwrap();
        let key = |line: &[u8]| {
            let mut key = Vec::new();
            order.append_key(line, &mut key).unwrap();
            key
        };
        // A key with letters of its own keeps its direction, as in GNU sort.
        assert!(key(b"b\t9") < key(b"a\t10") && !order.is_descending());
        assert_eq!(OrderSpec::default().name().unwrap(), "");
        assert!(order_of_name("").unwrap().is_item());
    }

    #[test]
    fn an_order_of_csv_keeps_its_columns_and_how_they_are_told_apart() {
        let spec = OrderSpec {
            by: vec!["price:n".into(), "2".into()],
            csv: Some(CsvSpec {
                separator: b';',
                names: Some(vec!["id".into(), "name".into(), "price".into()]),
            }),
            stable: true,
            ..OrderSpec::default()
        };
        assert_eq!(OrderSpec::of_name(&spec.name().unwrap()).unwrap(), spec);
        assert_eq!(spec.to_string(), "--csv -t ';' -s --by price:n --by 2");
        let order = order_of_name(&spec.name().unwrap()).unwrap();
        let key = |line: &[u8]| {
            let mut key = Vec::new();
            order.append_key(line, &mut key).unwrap();
            key
        };
        assert!(key(b"1;\"b;\nb\";9") < key(b"0;a;10"));
        assert!(key(b"1;\"a\"\"\";9") < key(b"0;b;9"));
        let none = OrderSpec {
            by: vec!["cost".into()],
            ..spec
        };
        assert!(none.to_order().is_err());
    }

    #[test]
    fn what_is_no_order_is_refused() {
        for name in [
            "x",
            "{\"keyz\":[]}",
            "{\"keys\":[\"0\"]}",
            "{\"letters\":\"q\"}",
        ] {
            assert!(order_of_name(name).is_err(), "{name}");
        }
        let mixed = OrderSpec {
            by: vec![".a".into()],
            letters: "n".into(),
            ..OrderSpec::default()
        };
        assert!(mixed.to_order().is_err());
    }
}
