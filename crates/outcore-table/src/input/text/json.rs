//! Parses JSON lines into rows of columns, in one pass over the bytes.
//!
//! Contract: [`Rows::take`] reads a line with one object and appends a row to every selected
//! column, or reports the line's fault. It accepts the syntax of RFC 8259, as the JSON library does
//! (a test compares them), and also `NaN`, `Infinity` and `-Infinity`. It rejects an object that
//! repeats a name, because one of the values would be lost; objects of unselected columns may
//! repeat names. A field that an object lacks is null. Scalars are parsed from their text by the
//! parsers of CSV fields, so no digit is lost. After an error no batch can be built.
//!
//! N.B. The JSON library unescapes texts, skips unselected values, and describes faults. The values
//! that it makes are not used, because it makes a number a float before the type of the number's
//! column is known. arrow-json is not used because it accepts objects without commas and takes the
//! last of two values of a name; a separate check for these is slow.
//!
//! Complexity: reads each byte once, and looks up each name that is not the next column.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBufferBuilder};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use outcore::read::json::strict;
use outcore_io::{Error, Result};
use serde::de::{Deserialize as _, IgnoredAny};
use serde_json::value::RawValue;

use super::PARSE;
use super::column::{Misfit, Values, values_of};

/// The fault of a line.
enum Fault {
    /// It is not one JSON object; the JSON library has the details.
    Syntax,
    /// A text with an invalid escape.
    Escape { error: serde_json::Error, at: usize },
    /// A name that occurs twice in the object.
    Twice { name: String, at: usize },
    /// A field that no column has: its name, after the names of its enclosing fields.
    Unknown(Vec<String>),
    /// A value that does not have its column's type.
    Misfit(Misfit),
    /// A list, an object or a scalar where the column holds another of the three.
    Mixed(Misfit),
}

impl Fault {
    /// Adds the field or list `name` that encloses the value.
    fn inside(mut self, name: &str) -> Self {
        match &mut self {
            Fault::Unknown(names) => names.insert(0, name.to_owned()),
            Fault::Misfit(Misfit { column, .. }) | Fault::Mixed(Misfit { column, .. }) => {
                let dot = if column.is_empty() { "" } else { "." };
                column.insert_str(0, &format!("{name}{dot}"));
            }
            Fault::Syntax | Fault::Escape { .. } | Fault::Twice { .. } => {}
        }
        self
    }

    /// The error for the user, without its place in the file.
    fn error(self, line: &str) -> Error {
        let wrong =
            |cause| Error::corrupt(PARSE, format!("not JSON: {cause}")).hint("correct the line");
        let strict = strict(line.as_bytes());
        let strict = strict.as_deref().and_then(|line| str::from_utf8(line).ok());
        let line = strict.unwrap_or(line);
        // A line that is not JSON is reported as such, even if another fault comes first.
        if !line.trim_ascii_start().starts_with('{') {
            return not_one_object();
        }
        if let Err(error) = serde_json::from_str::<HashMap<Cow<'_, str>, IgnoredAny>>(line) {
            return match error.is_eof() || error.to_string().starts_with("trailing characters") {
                true => not_one_object(),
                false => wrong(cause_of(&error, 0)),
            };
        }
        match self {
            Fault::Syntax => not_one_object(),
            Fault::Escape { error, at } => wrong(cause_of(&error, at))
                .hint("correct the line; --on-error null reads such texts as null"),
            Fault::Twice { name, at } => wrong(format!(
                "the name \"{name}\" occurs twice at column {}",
                at + 1
            )),
            Fault::Unknown(names) => {
                let cause = format!("no row of the sample has the field `{}`", names.join("."));
                Error::corrupt(PARSE, cause).hint(match &names[..] {
                    [name] => format!("name its type with --schema: '{name}:text'"),
                    _ => format!(
                        "give the type of `{}`, with all its fields, in --schema",
                        names[0]
                    ),
                })
            }
            Fault::Misfit(misfit) => misfit.error(),
            Fault::Mixed(misfit) => misfit
                .error()
                .hint("write this field as one type in all rows"),
        }
    }
}

fn not_one_object() -> Error {
    Error::corrupt(PARSE, "the line is not one JSON object")
        .hint("write one object on each line, for example with jq -c")
}

/// Formats the JSON library's message about a text that begins at a byte of the line. The library's
/// line number is dropped, because the error has its own.
fn cause_of(error: &serde_json::Error, at: usize) -> String {
    let cause = error.to_string();
    let cause = cause
        .rsplit_once(" at line")
        .map_or(&*cause, |(cause, _)| cause);
    format!("{cause} at column {}", at + error.column())
}

type Taken<T = ()> = std::result::Result<T, Fault>;

/// A line, and the read position in it.
struct Line<'l> {
    text: &'l str,
    at: usize,
    /// Whether values that do not fit become null, and the values that became null.
    fills: bool,
    filled_count: u64,
    first_filled: Option<Fault>,
}

/// The number of values that became null, and the fault of the first.
pub(super) struct Filled {
    pub(super) count: u64,
    pub(super) first: Error,
}

/// A scalar, or the bracket that opens a list or an object.
enum Token<'l> {
    Null,
    /// A text without quotes and escapes, or a number or truth value as it is written.
    Scalar(Cow<'l, str>),
    List,
    Object,
}

impl<'l> Line<'l> {
    fn of(text: &'l str, fills: bool) -> Self {
        Line {
            text,
            at: 0,
            fills,
            filled_count: 0,
            first_filled: None,
        }
    }

    /// Counts a value that becomes null, or fails if that is not allowed.
    fn fill(&mut self, fault: Fault) -> Taken {
        if !self.fills {
            return Err(fault);
        }
        self.filled_count += 1;
        self.first_filled.get_or_insert(fault);
        Ok(())
    }

    /// Skips blanks, and returns the next byte without reading it.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Reads `byte` if it is the next one.
    fn reads(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Whether another item follows, rather than the bracket `close` that ends the list or object.
    fn goes_on(&mut self, close: u8) -> Taken<bool> {
        match self.peek() {
            Some(byte @ (b',' | b']' | b'}')) if byte == b',' || byte == close => {
                self.at += 1;
                Ok(byte == b',')
            }
            _ => Err(Fault::Syntax),
        }
    }

    fn token(&mut self) -> Taken<Token<'l>> {
        let first = self.peek().ok_or(Fault::Syntax)?;
        let second = self.text.as_bytes().get(self.at + 1).copied();
        let mut word = |word: &str, token| {
            let is_there = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
            self.at += word.len();
            is_there.then_some(token).ok_or(Fault::Syntax)
        };
        match first {
            b'"' => self.string().map(Token::Scalar),
            b'-' if second == Some(b'I') => word("-Infinity", Token::Scalar("-inf".into())),
            b'-' | b'0'..=b'9' => self.number().map(Token::Scalar),
            // As Python and JavaScript write them.
            b'N' => word("NaN", Token::Scalar("NaN".into())),
            b'I' => word("Infinity", Token::Scalar("inf".into())),
            b'n' => word("null", Token::Null),
            b't' => word("true", Token::Scalar("true".into())),
            b'f' => word("false", Token::Scalar("false".into())),
            b'[' => word("[", Token::List),
            b'{' => word("{", Token::Object),
            _ => Err(Fault::Syntax),
        }
    }

    /// Reads a text; its opening quote is next.
    fn string(&mut self) -> Taken<Cow<'l, str>> {
        let (begin, bytes) = (self.at, self.text.as_bytes());
        let mut is_plain = true;
        self.at += 1;
        loop {
            self.at += plain_bytes(bytes.get(self.at..).unwrap_or_default());
            match bytes.get(self.at) {
                Some(b'"') => break,
                // Escapes are handled below.
                Some(b'\\') => {
                    is_plain = false;
                    self.at += 2;
                }
                _ => return Err(Fault::Syntax),
            }
        }
        self.at += 1;
        if is_plain {
            return Ok(Cow::Borrowed(&self.text[begin + 1..self.at - 1]));
        }
        let unescaped = serde_json::from_str(&self.text[begin..self.at]);
        unescaped
            .map(Cow::Owned)
            .map_err(|error| Fault::Escape { error, at: begin })
    }

    /// Reads a number, whose first byte is next.
    fn number(&mut self) -> Taken<Cow<'l, str>> {
        let (begin, bytes) = (self.at, self.text.as_bytes());
        let digits = |at: &mut usize| {
            let from = *at;
            while let Some(b'0'..=b'9') = bytes.get(*at) {
                *at += 1;
            }
            if *at > from {
                Ok(())
            } else {
                Err(Fault::Syntax)
            }
        };
        let mut at = begin + usize::from(bytes[begin] == b'-');
        match bytes.get(at) {
            Some(b'0') => at += 1,
            _ => digits(&mut at)?,
        }
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            digits(&mut at)?;
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            at += 1;
            at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
            digits(&mut at)?;
        }
        self.at = at;
        Ok(Cow::Borrowed(&self.text[begin..at]))
    }

    /// Skips a value, and returns its text.
    fn skip(&mut self) -> Taken<&'l str> {
        self.peek();
        let rest = &self.text[self.at..];
        let value_bytes = |text: &str| {
            let mut rest = serde_json::Deserializer::from_str(text);
            let value = <&RawValue>::deserialize(&mut rest);
            value.map(|value| value.get().len()).ok()
        };
        let in_strict = || {
            let strict = strict(rest.as_bytes())?;
            value_bytes(str::from_utf8(&strict).ok()?)
        };
        let len = value_bytes(rest).or_else(in_strict).ok_or(Fault::Syntax)?;
        self.at += len;
        Ok(&rest[..len])
    }
}

/// Counts the bytes before a quote, a backslash or a control character.
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let (words, rest) = bytes.as_chunks();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The high bit of a byte is set if the byte is less than the other one. The bit can be
        // wrong only in bytes after the first such byte.
        let is_less = |word: u64, than: u8| word.wrapping_sub(ONES * u64::from(than)) & !word;
        let is_equal = |byte: u8| is_less(word ^ (ONES * u64::from(byte)), 1);
        let found = (is_less(word, b' ') | is_equal(b'"') | is_equal(b'\\')) & HIGHS;
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..b' ');
    words.len() * 8 + rest.iter().take_while(is_plain).count()
}

/// Builds the values of a column.
enum Column {
    Scalar(Box<dyn Values>),
    List(Box<List>),
    Object(Box<Object>),
}

impl Column {
    fn of(data_type: &DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::List(item) => Column::List(Box::new(List {
                item: Arc::clone(item),
                column: Column::of(item.data_type())?,
                ends: OffsetBufferBuilder::new(0),
                validity: NullBufferBuilder::new(0),
            })),
            DataType::Struct(fields) => Column::Object(Box::new(Object::of(fields, |_| true)?)),
            scalar => Column::Scalar(values_of(scalar)?),
        })
    }

    /// Reads the next value into the column of `field`.
    fn take(&mut self, line: &mut Line<'_>, field: &FieldRef) -> Taken {
        line.peek();
        let begin = line.at;
        let misfit = |text: &str| Misfit {
            column: String::new(),
            text: text.to_owned(),
            data_type: field.data_type().clone(),
        };
        let token = match line.token() {
            Ok(token) => token,
            // The whole text has been read.
            Err(fault @ Fault::Escape { .. }) if field.is_nullable() => {
                line.fill(fault)?;
                self.append_null();
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        match (self, token) {
            // A rejected value has already become null.
            (Column::Scalar(values), Token::Scalar(text)) => match values.append(&text) {
                true => Ok(()),
                false if !field.is_nullable() => Err(Fault::Misfit(misfit(&text))),
                false => line.fill(Fault::Misfit(misfit(&text))),
            },
            (_, Token::Null) if !field.is_nullable() => Err(Fault::Misfit(misfit("null"))),
            (column, Token::Null) => {
                column.append_null();
                Ok(())
            }
            (Column::List(list), Token::List) => list.take(line),
            (Column::Object(object), Token::Object) => object.take(line),
            (column, _) => {
                line.at = begin;
                let fault = Fault::Mixed(misfit(line.skip()?));
                if !field.is_nullable() {
                    return Err(fault);
                }
                line.fill(fault)?;
                column.append_null();
                Ok(())
            }
        }
    }

    fn append_null(&mut self) {
        match self {
            Column::Scalar(values) => values.append_null(),
            Column::List(list) => list.append_null(),
            Column::Object(object) => object.append_null(),
        }
    }

    fn finish(&mut self) -> std::result::Result<ArrayRef, ArrowError> {
        Ok(match self {
            Column::Scalar(values) => values.finish(),
            Column::List(list) => Arc::new(list.finish()?),
            Column::Object(object) => Arc::new(object.finish()?),
        })
    }
}

struct List {
    item: FieldRef,
    column: Column,
    /// The end of each list.
    ends: OffsetBufferBuilder<i32>,
    validity: NullBufferBuilder,
}

impl List {
    /// Reads the items after the opening bracket.
    fn take(&mut self, line: &mut Line<'_>) -> Taken {
        let mut items_count = 0;
        let mut goes_on = !line.reads(b']');
        while goes_on {
            let taken = self.column.take(line, &self.item);
            taken.map_err(|fault| fault.inside("item"))?;
            items_count += 1;
            goes_on = line.goes_on(b']')?;
        }
        self.ends.push_length(items_count);
        self.validity.append_non_null();
        Ok(())
    }

    fn append_null(&mut self) {
        self.ends.push_length(0);
        self.validity.append_null();
    }

    fn finish(&mut self) -> std::result::Result<ListArray, ArrowError> {
        let ends = std::mem::replace(&mut self.ends, OffsetBufferBuilder::new(0)).finish();
        let (items, validity) = (self.column.finish()?, self.validity.finish());
        ListArray::try_new(Arc::clone(&self.item), ends, items, validity)
    }
}

struct Object {
    fields: Fields,
    entries: Vec<Entry>,
    places: HashMap<String, usize>,
    /// The number of objects that have begun.
    number: u64,
    validity: NullBufferBuilder,
}

struct Entry {
    /// The builder of the values, if they are selected.
    column: Option<Column>,
    /// The number of the last object that had the field.
    seen_in: u64,
}

impl Object {
    /// Builds the selected fields, and reads the others without building them.
    fn of(fields: &Fields, is_wanted: impl Fn(usize) -> bool) -> Result<Self> {
        let entries = fields.iter().enumerate().map(|(place, field)| {
            let column = is_wanted(place).then(|| Column::of(field.data_type()));
            Ok(Entry {
                column: column.transpose()?,
                seen_in: 0,
            })
        });
        let names = fields.iter().map(|field| field.name().clone());
        Ok(Object {
            entries: entries.collect::<Result<_>>()?,
            places: names.zip(0..).collect(),
            fields: fields.clone(),
            number: 0,
            validity: NullBufferBuilder::new(0),
        })
    }

    /// Reads the fields after the opening brace.
    fn take(&mut self, line: &mut Line<'_>) -> Taken {
        self.number += 1;
        let (mut next, mut taken_count) = (0, 0);
        let mut goes_on = !line.reads(b'}');
        while goes_on {
            if line.peek() != Some(b'"') {
                return Err(Fault::Syntax);
            }
            let at = line.at;
            let name = line.string()?;
            if !line.reads(b':') {
                return Err(Fault::Syntax);
            }
            // Objects of one kind mostly have their fields in one order.
            let place = match self.fields.get(next) {
                Some(field) if *field.name() == name => Some(next),
                _ => self.places.get(&*name).copied(),
            };
            let Some(place) = place else {
                line.fill(Fault::Unknown(vec![name.into_owned()]))?;
                line.skip()?;
                goes_on = line.goes_on(b'}')?;
                continue;
            };
            let entry = &mut self.entries[place];
            if std::mem::replace(&mut entry.seen_in, self.number) == self.number {
                let name = name.into_owned();
                return Err(Fault::Twice { name, at });
            }
            match &mut entry.column {
                Some(column) => {
                    let was_filled = line.first_filled.is_some();
                    let taken = column.take(line, &self.fields[place]);
                    taken.map_err(|fault| fault.inside(&name))?;
                    if !was_filled {
                        let first = line.first_filled.take();
                        line.first_filled = first.map(|fault| fault.inside(&name));
                    }
                }
                None => _ = line.skip()?,
            }
            next = place + 1;
            taken_count += 1;
            goes_on = line.goes_on(b'}')?;
        }
        if taken_count < self.entries.len() {
            self.append_missing()?;
        }
        self.validity.append_non_null();
        Ok(())
    }

    /// Appends nulls for fields that the object lacks.
    fn append_missing(&mut self) -> Taken {
        for (entry, field) in self.entries.iter_mut().zip(&self.fields) {
            let Some(column) = entry.column.as_mut() else {
                continue;
            };
            if entry.seen_in == self.number {
                continue;
            }
            if !field.is_nullable() {
                return Err(Fault::Misfit(Misfit {
                    column: field.name().clone(),
                    text: "null".to_owned(),
                    data_type: field.data_type().clone(),
                }));
            }
            column.append_null();
        }
        Ok(())
    }

    fn append_null(&mut self) {
        for column in self
            .entries
            .iter_mut()
            .filter_map(|entry| entry.column.as_mut())
        {
            column.append_null();
        }
        self.validity.append_null();
    }

    fn columns(&mut self) -> std::result::Result<Vec<ArrayRef>, ArrowError> {
        let columns = self.entries.iter_mut();
        let columns = columns.filter_map(|entry| entry.column.as_mut());
        columns.map(Column::finish).collect()
    }

    fn finish(&mut self) -> std::result::Result<StructArray, ArrowError> {
        let rows_count = self.validity.len();
        let (columns, validity) = (self.columns()?, self.validity.finish());
        StructArray::try_new_with_length(self.fields.clone(), columns, validity, rows_count)
    }
}

/// Builds rows, one per line.
pub(super) struct Rows(Object);

impl Rows {
    /// Builds the selected fields.
    ///
    /// # Errors
    /// Usage: a type that cannot be parsed from text.
    pub(super) fn of(fields: &Fields, is_wanted: impl Fn(usize) -> bool) -> Result<Self> {
        Object::of(fields, is_wanted).map(Rows)
    }

    /// Appends a line.
    ///
    /// # Errors
    /// Corrupt: the line's fault.
    #[cfg(test)]
    pub(super) fn take(&mut self, text: &str) -> Result<()> {
        self.take_or_fill(text, false).map(|_| ())
    }

    /// Appends a line. If it `fills`, values that do not fit become null, and fields that no column
    /// has are ignored. Returns what became null.
    ///
    /// # Errors
    /// Corrupt: any other fault of the line.
    pub(super) fn take_or_fill(&mut self, text: &str, fills: bool) -> Result<Option<Filled>> {
        let mut line = Line::of(text, fills);
        let taken = match line.reads(b'{') {
            true => self.0.take(&mut line),
            false => Err(Fault::Syntax),
        };
        match taken {
            Ok(()) if line.peek().is_none() => {
                let count = line.filled_count;
                let first = line.first_filled.take();
                Ok(first.map(|fault| Filled {
                    count,
                    first: fault.error(text),
                }))
            }
            Ok(()) => Err(Fault::Syntax.error(text)),
            Err(fault) => Err(fault.error(text)),
        }
    }

    /// Returns the selected columns of all rows, in the order of the fields, and starts anew.
    ///
    /// # Errors
    /// None that a line could cause.
    pub(super) fn finish(&mut self) -> std::result::Result<Vec<ArrayRef>, ArrowError> {
        self.0.validity.finish();
        self.0.columns()
    }
}

#[cfg(test)]
mod tests;
