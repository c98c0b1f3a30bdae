//! Finds columns by name, and reports how the schemas of two tables differ.
//!
//! Contract: names match exactly; the error for a missing name suggests the nearest one. A
//! [`FieldPlace`] is a column or, for a name such as `st.a`, the field `a` of the objects `st`.
//! [`agree`] reports which column of two schemas differs, with both types. Metadata of schemas and
//! fields is ignored, and so are the names that lists give their elements.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use arrow_select::take::take;
use outcore::key::column::key_hint;
use outcore::key::expr::foreign_column;
use outcore_io::units::nearest;
use outcore_io::{Error, Result};

use crate::fault;
use crate::notation::{notation, type_of};

/// Returns the place of the column `name`.
///
/// # Errors
/// Usage: there is no such column; the hint is the nearest name.
pub(crate) fn column_index(schema: &Schema, name: &str, operation: &str) -> Result<usize> {
    let known = |field: &FieldRef| field.name() == name;
    if let Some(index) = schema.fields().iter().position(known) {
        return Ok(index);
    }
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    let error = Error::usage(operation, format!("there is no column `{name}`"));
    let mut colons = name.match_indices(':').map(|(at, _)| name.split_at(at));
    if let Some((column, orders)) = colons.find(|(column, _)| names.contains(column)) {
        let mut words = orders[1..].split(':');
        return Err(error.hint(match words.find(|word| !is_order(word)) {
            None => format!("write `{column}` alone: these columns have no order and no type here"),
            Some(order) => format!(
                "`{order}` is neither a type nor an order of `{column}`: write desc, asc, nulls-first or nulls-last after the colon, or a type such as f64 or i64"
            ),
        }));
    }
    if let Some(hint) = foreign_column(name, &names).or_else(|| key_hint(name, &names)) {
        return Err(error.hint(hint));
    }
    Err(match nearest(name, &names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None if names.is_empty() => error.hint(
            "the table has no columns; in JSON lines, each line is one object; jq -c '.[]' converts an array",
        ),
        None => error.hint(format!("the columns are {}", listed(&names))),
    })
}

/// Whether the word after the colon of a key is an order or a type.
fn is_order(word: &str) -> bool {
    matches!(word, "asc" | "desc" | "r" | "nulls-first" | "nulls-last") || type_of(word).is_ok()
}

/// The place of a column: at the root of a table, or inside objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldPlace {
    /// Index among the columns of the table.
    pub(crate) root: usize,
    /// Index among the fields of each nested object; empty for the column itself.
    inside: Vec<usize>,
}

impl FieldPlace {
    /// Resolves `name`: the column of that name or, failing that, a field of objects, with points
    /// between names.
    ///
    /// # Errors
    /// As [`column_index`]; if objects lack the field, the hint is one of their fields.
    pub(crate) fn of(schema: &Schema, name: &str, operation: &str) -> Result<Self> {
        let mut inside = Vec::new();
        if let Some(root) = place_among(schema.fields(), name, &mut inside) {
            return Ok(FieldPlace { root, inside });
        }
        let mut fields = Vec::new();
        add_fields_inside(schema.fields(), "", &mut fields);
        let mut fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        fields.retain(|field| {
            let mut objects = name.match_indices('.').map(|(at, _)| &name[..=at]);
            objects.any(|objects| field.starts_with(objects))
        });
        if fields.is_empty() {
            let mut fronts = name.match_indices('.').map(|(at, _)| &name[..at]);
            return match fronts.find_map(|front| schema.column_with_name(front)) {
                Some((_, column)) => {
                    let (front, data_type) = (column.name(), column.data_type());
                    let kind = notation(data_type);
                    let part = name.rsplit('.').next().unwrap_or(name);
                    let hint = match data_type.is_temporal() {
                        true => format!("write {part}({front}) for a part of a time"),
                        false => format!("`{front}` is {kind}, but only structs have fields"),
                    };
                    Err(Error::usage(operation, format!("there is no column `{name}`")).hint(hint))
                }
                None => {
                    column_index(schema, name, operation).map(|root| FieldPlace { root, inside })
                }
            };
        }
        let error = Error::usage(operation, format!("there is no field `{name}`"));
        Err(match nearest(name, &fields) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None if fields.is_empty() => error.hint("the object has no fields"),
            None => error.hint(format!("the fields are {}", listed(&fields))),
        })
    }

    /// Returns the place of a column at the root, or `None` for a field inside objects.
    pub(crate) fn column(&self) -> Option<usize> {
        self.inside.is_empty().then_some(self.root)
    }

    /// Returns the field at this place, renamed to `name`; it is nullable if an enclosing object
    /// is.
    pub(crate) fn field(&self, schema: &Schema, name: &str) -> FieldRef {
        let mut field = &schema.fields()[self.root];
        let mut is_nullable = field.is_nullable();
        for &place in &self.inside {
            if let DataType::Struct(fields) = field.data_type() {
                field = &fields[place];
                is_nullable |= field.is_nullable();
            }
        }
        match self.inside.is_empty() {
            true => Arc::clone(field),
            false => {
                let own = Field::clone(field).with_name(name);
                Arc::new(own.with_nullable(is_nullable))
            }
        }
    }

    /// Returns the values at this place in a root column; they are null if an enclosing object is
    /// null.
    ///
    /// # Errors
    /// Corrupt: values that are not objects.
    pub(crate) fn values(&self, root: &ArrayRef) -> Result<ArrayRef> {
        let mut values = Arc::clone(root);
        for &place in &self.inside {
            let Some(objects) = values.as_struct_opt() else {
                let cause = format!("expected objects, found {}", notation(values.data_type()));
                return Err(Error::corrupt("read tables", cause).hint("write the file again"));
            };
            let inner = objects.column(place);
            let nulls = NullBuffer::union(objects.nulls(), inner.nulls());
            values = match objects.nulls() {
                None => Arc::clone(inner),
                Some(_) => {
                    let data = inner.to_data().into_builder().nulls(nulls).build();
                    make_array(data.map_err(|error| fault::arrow("read tables", &error))?)
                }
            };
        }
        Ok(values)
    }
}

/// Finds the field called `name`, or the field whose name is the part of `name` before a point.
/// Appends the places of the remaining fields to `inside`.
fn place_among(fields: &Fields, name: &str, inside: &mut Vec<usize>) -> Option<usize> {
    if let Some((place, _)) = fields.find(name) {
        return Some(place);
    }
    name.match_indices('.').find_map(|(at, _)| {
        let (place, field) = fields.find(&name[..at])?;
        let DataType::Struct(below) = field.data_type() else {
            return None;
        };
        let found = place_among(below, &name[at + 1..], inside)?;
        inside.insert(0, found);
        Some(place)
    })
}

/// Adds the names of the fields of all objects among `fields`, each with the names of its enclosing
/// objects.
fn add_fields_inside(fields: &Fields, before: &str, names: &mut Vec<String>) {
    for field in fields {
        let name = format!("{before}{}", field.name());
        if let DataType::Struct(below) = field.data_type() {
            let behind = name + ".";
            let inside = below
                .iter()
                .map(|field| format!("{behind}{}", field.name()));
            names.extend(inside);
            add_fields_inside(below, &behind, names);
        }
    }
}

/// Lists the first names, and the number of the others.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether the two types differ at most in the names of list elements and map entries, on which
/// programs disagree.
pub(crate) fn is_same_type(one: &DataType, other: &DataType) -> bool {
    let is_same_field = |one: &Field, other: &Field| {
        one.is_nullable() == other.is_nullable() && is_same_type(one.data_type(), other.data_type())
    };
    match (one, other) {
        (DataType::Struct(one), DataType::Struct(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len()
                && pairs.all(|(one, other)| one.name() == other.name() && is_same_field(one, other))
        }
        (DataType::List(one), DataType::List(other))
        | (DataType::LargeList(one), DataType::LargeList(other)) => is_same_field(one, other),
        (DataType::FixedSizeList(one, count), DataType::FixedSizeList(other, other_count)) => {
            count == other_count && is_same_field(one, other)
        }
        (DataType::Map(one, is_sorted), DataType::Map(other, is_other_sorted)) => {
            let (one, other) = (children_of(one.data_type()), children_of(other.data_type()));
            let mut pairs = one.iter().zip(&other);
            is_sorted == is_other_sorted
                && one.len() == other.len()
                && pairs.all(|(one, other)| is_same_field(one, other))
        }
        _ => one == other,
    }
}

/// Returns the fields inside a nested type.
fn children_of(data_type: &DataType) -> Vec<FieldRef> {
    match data_type {
        DataType::Struct(fields) => fields.iter().cloned().collect(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![Arc::clone(field)],
        _ => Vec::new(),
    }
}

/// Converts the values to a type that [`is_same_type`] accepts. Dictionaries and runs are decoded
/// where `data_type` has plain values. Decimals get the width of `data_type`.
pub(crate) fn retyped(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    const SHAPE: &str = "read tables";
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    if let (DataType::Dictionary(..), false) = (array.data_type(), is_dictionary(data_type)) {
        let dictionary = array.as_any_dictionary();
        let values = take(dictionary.values().as_ref(), dictionary.keys(), None)
            .map_err(|error| fault::arrow(SHAPE, &error))?;
        return retyped(&values, data_type);
    }
    if let (DataType::RunEndEncoded(_, values), false) =
        (array.data_type(), data_type.is_run_ends_type())
    {
        let values = cast(array, values.data_type());
        return retyped(
            &values.map_err(|error| fault::arrow(SHAPE, &error))?,
            data_type,
        );
    }
    if array.data_type().is_decimal() && data_type.is_decimal() {
        return cast(array, data_type).map_err(|error| fault::arrow(SHAPE, &error));
    }
    let data = array.to_data();
    let kinds: Vec<DataType> = match data_type {
        DataType::Dictionary(_, values) => vec![(**values).clone()],
        nested => children_of(nested)
            .iter()
            .map(|field| field.data_type().clone())
            .collect(),
    };
    if kinds.len() != data.child_data().len() {
        let cause = format!(
            "values of type {} where {} is expected",
            notation(array.data_type()),
            notation(data_type)
        );
        return Err(Error::usage(SHAPE, cause).hint("a bug: please report it"));
    }
    let children = data.child_data().iter().zip(&kinds);
    let children = children.map(|(child, kind)| {
        let child = retyped(&make_array(child.clone()), kind)?;
        Ok(child.to_data())
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    let made = data
        .into_builder()
        .data_type(data_type.clone())
        .child_data(children)
        .build();
    Ok(make_array(
        made.map_err(|error| fault::arrow(SHAPE, &error))?,
    ))
}

fn is_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
}

/// What columns of two tables may differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widths {
    /// In nothing.
    Same,
    /// In the width of the offsets of texts and bytes, which readers of files convert.
    Any,
}

/// Whether both are texts, or both bytes, whatever the width of their offsets is.
fn are_same_but_for_width(one: &DataType, other: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let are_texts = |kind: &DataType| matches!(kind, Utf8 | LargeUtf8 | Utf8View);
    let are_bytes = |kind: &DataType| matches!(kind, Binary | LargeBinary | BinaryView);
    are_texts(one) && are_texts(other) || are_bytes(one) && are_bytes(other)
}

/// Checks that the table at `path` has the columns of `first`, the schema of `first_path`, except
/// for what `widths` allows.
///
/// # Errors
/// Usage: reports the first column that differs, with both types.
pub(crate) fn agree(
    first: &Schema,
    first_path: &Path,
    other: &Schema,
    path: &Path,
    widths: Widths,
) -> Result<()> {
    let differs = |cause: String| {
        Error::usage("read tables", cause)
            .path(path)
            .hint("read the files separately, or unite their columns with --union")
    };
    let first_path = first_path.display();
    for field in first.fields() {
        let name = field.name();
        let Some((_, found)) = other.column_with_name(name) else {
            return Err(differs(format!(
                "column `{name}` of {first_path} is missing"
            )));
        };
        let is_same_text =
            widths == Widths::Any && are_same_but_for_width(field.data_type(), found.data_type());
        if !is_same_text && !is_same_type(field.data_type(), found.data_type()) {
            return Err(differs(format!(
                "column `{name}` is {}, but in {first_path} it is {}",
                notation(found.data_type()),
                notation(field.data_type())
            )));
        }
    }
    let is_more = |field: &&FieldRef| first.column_with_name(field.name()).is_none();
    match other.fields().iter().find(is_more) {
        Some(more) => Err(differs(format!(
            "column `{}` ({}) is not in {first_path}",
            more.name(),
            notation(more.data_type())
        ))),
        None => Ok(()),
    }
}

/// Checks that no two columns have the same name, because neither could then be selected by name.
pub(crate) fn check_names(schema: &Schema) -> Result<()> {
    check_fields(schema.fields(), None)
}

/// Fails for two fields of one name in a table, or in the objects of the column `within`.
fn check_fields(fields: &Fields, within: Option<&str>) -> Result<()> {
    let mut known = HashSet::new();
    for field in fields {
        let name = field.name().as_str();
        if !known.insert(name) {
            let cause = match within {
                None => format!("two columns are called `{name}`"),
                Some(column) => format!("two fields of column `{column}` are called `{name}`"),
            };
            return Err(Error::usage("read tables", cause)
                .hint("name a column once; if the input has two, rename one of them first"));
        }
        check_nested(field.data_type(), within.unwrap_or(name))?;
    }
    Ok(())
}

/// Checks the objects inside values of a type in the same way.
fn check_nested(kind: &DataType, column: &str) -> Result<()> {
    match kind {
        DataType::Struct(fields) => check_fields(fields, Some(column)),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => check_nested(field.data_type(), column),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::SchemaRef;

    use super::*;

    fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
        let fields = columns.iter();
        let fields = fields.map(|(name, kind)| Field::new(*name, kind.clone(), false));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    #[test]
    fn a_column_that_is_missing_is_answered_with_the_nearest() {
        let table = schema(&[("country", DataType::Utf8), ("time", DataType::Int64)]);
        assert_eq!(column_index(&table, "time", "sort").unwrap(), 1);
        let error = column_index(&table, "contry", "sort")
            .unwrap_err()
            .to_string();
        assert!(error.contains("did you mean `country`?"), "{error}");
        let error = column_index(&table, "zzzzzzzz", "sort")
            .unwrap_err()
            .to_string();
        assert!(error.contains("`country`, `time`"), "{error}");
        let error = column_index(&table, "time:nr", "sort")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`nr` is neither a type nor an order of `time`"),
            "{error}"
        );
    }

    #[test]
    fn what_differs_is_named_with_file_column_and_both_types() {
        let one = schema(&[("a", DataType::Int64)]);
        let other = schema(&[("a", DataType::Utf8)]);
        let (here, there) = (Path::new("1.parquet"), Path::new("2.parquet"));
        let agree = |one, other| agree(one, here, other, there, Widths::Any);
        let error = agree(&one, &other).unwrap_err().to_string();
        for part in ["`a`", "i64", "text", "1.parquet", "2.parquet"] {
            assert!(error.contains(part), "{part} in {error}");
        }
        let more = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
        assert!(agree(&one, &more).is_err());
        assert!(agree(&more, &one).is_err());
    }

    #[test]
    fn texts_and_bytes_of_files_may_have_offsets_of_any_width() {
        let (here, there) = (Path::new("1.parquet"), Path::new("2.arrow"));
        let agree = |one: DataType, other: DataType, widths| {
            let (one, other) = (schema(&[("a", one)]), schema(&[("a", other)]));
            agree(&one, here, &other, there, widths).is_ok()
        };
        for (one, other) in [
            (DataType::Utf8, DataType::LargeUtf8),
            (DataType::Utf8View, DataType::Utf8),
            (DataType::Binary, DataType::LargeBinary),
        ] {
            assert!(agree(one.clone(), other.clone(), Widths::Any));
            assert!(!agree(one, other, Widths::Same));
        }
        assert!(!agree(DataType::Utf8, DataType::Binary, Widths::Any));
    }
}
