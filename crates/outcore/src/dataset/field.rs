//! Orders of lines by fields: `field(2).numeric()`.
//!
//! Contract: fields are counted from 1. Without a separator, fields are separated by any number of
//! spaces and tabs. With a separator, a field is the text between two separators. A missing field
//! is empty. Text compares by its bytes. Numbers are decimal, of any length, with a sign and a
//! fraction, and compare exactly; text that does not begin with a number counts as 0. Lines with
//! equal fields are in the order of their bytes.

use crate::key::encode::{Decimal, append_decimal, append_string, complement};
use crate::key::sort_key::{NoKey, SortKey};

/// A field of a line, and how it compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    number: usize,
    separator: Option<u8>,
    is_numeric: bool,
    is_descending: bool,
}

/// Field `number` of a line, from 1.
///
/// # Panics
/// If `number` is 0.
pub fn field(number: usize) -> Field {
    assert!(number > 0, "fields are counted from 1");
    Field {
        number,
        separator: None,
        is_numeric: false,
        is_descending: false,
    }
}

impl Field {
    /// Compares by numeric value.
    #[must_use]
    pub fn numeric(mut self) -> Self {
        self.is_numeric = true;
        self
    }

    /// Puts the largest first.
    #[must_use]
    pub fn descending(mut self) -> Self {
        self.is_descending = true;
        self
    }

    /// Uses this byte as the separator.
    #[must_use]
    pub fn separated_by(mut self, byte: u8) -> Self {
        self.separator = Some(byte);
        self
    }

    /// Compares by this field; ties are compared by `next`.
    #[must_use]
    pub fn then(self, next: Field) -> Fields {
        Fields(vec![self, next])
    }

    fn of<'l>(&self, line: &'l [u8]) -> &'l [u8] {
        let skipped = self.number - 1;
        let found = match self.separator {
            Some(separator) => line.split(|byte| *byte == separator).nth(skipped),
            None => line
                .split(|byte| matches!(byte, b' ' | b'\t'))
                .filter(|field| !field.is_empty())
                .nth(skipped),
        };
        found.unwrap_or_default()
    }

    /// Appends a self-terminating key: it is no prefix of another key.
    fn append(&self, line: &[u8], key: &mut Vec<u8>) {
        let from = key.len();
        let text = self.of(line);
        match self.is_numeric {
            true => {
                let unsigned = text.strip_prefix(b"+").unwrap_or(text);
                append_decimal(&Decimal::at_front_of(unsigned), key);
            }
            false => append_string(text, key),
        }
        if self.is_descending {
            complement(&mut key[from..]);
        }
    }
}

/// Several fields, the most significant first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields(Vec<Field>);

impl Fields {
    /// Compares by `next` if all of these fields are equal.
    #[must_use]
    pub fn then(mut self, next: Field) -> Self {
        self.0.push(next);
        self
    }
}

impl From<Field> for Fields {
    fn from(field: Field) -> Self {
        Fields(vec![field])
    }
}

impl SortKey for Fields {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> Result<(), NoKey> {
        self.0.iter().for_each(|field| field.append(line, key));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(order: &Fields, line: &str) -> Vec<u8> {
        let mut key = Vec::new();
        order.append_key(line.as_bytes(), &mut key).unwrap();
        key
    }

    #[test]
    fn numbers_compare_by_their_exact_values() {
        let order = Fields::from(field(1).numeric());
        let ascending = [
            "-123456789012345678901234567891",
            "-123456789012345678901234567890",
            "-10",
            "-9.5",
            "-0.001",
            "word",
            "0.00099",
            "0.001",
            "1",
            "1.5",
            "9",
            "10",
            "10.25",
            "123456789012345678901234567890",
        ];
        for pair in ascending.windows(2) {
            assert!(key(&order, pair[0]) < key(&order, pair[1]), "{pair:?}");
        }
        for (a, b) in [("007", "7"), ("7.0", "+7"), ("-0", "0.00"), ("", "x")] {
            assert_eq!(key(&order, a), key(&order, b), "{a} {b}");
        }
    }

    #[test]
    fn fields_are_compared_one_after_another_in_their_own_direction() {
        let order = field(2).descending().then(field(1).numeric());
        assert!(key(&order, "2 b") < key(&order, "1 a"));
        assert!(key(&order, "9  a") < key(&order, "10\ta"));
        // A field that is a prefix of another comes first in ascending order and last in descending
        // order.
        assert!(key(&order, "1 ab") < key(&order, "1 a"));
        let csv = Fields::from(field(2).separated_by(b','));
        assert!(key(&csv, "x,,c") < key(&csv, "x,\0,c"));
        assert!(key(&csv, "x") < key(&csv, "x,a"));
    }
}
