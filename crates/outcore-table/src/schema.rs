//! Schemas: a column by its name, what differs between two tables, the schema of several.
//!
//! Contract: names are matched to the letter; one that is missing is answered with the nearest that is
//! there. A [`FieldPlace`] is a column, or by a name such as `st.a` the field `a` of objects `st`. [`agree`] says of two schemas which column differs and how, in words that name both types. Metadata
//! of a schema and of fields make no difference, nor does what lists call their elements. [`united`] has the columns of
//! all, in the order in which they are first met, each in the narrowest type that has all values of its types; a column that
//! some lack may be null.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow_select::take::take;
use outcore_io::units::nearest;
use outcore_io::{Error, Result};

use crate::fault;

/// The place of the column `name`.
///
/// # Errors
/// Usage: there is none; the nearest name is the hint.
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
    if let Some((column, order)) = name.rsplit_once(':')
        && names.contains(&column)
    {
        let hint = format!(
            "`{order}` is not an order of `{column}`: write desc, asc, nulls-first or nulls-last after the colon"
        );
        return Err(error.hint(hint));
    }
    Err(match nearest(name, &names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("the columns are {}", listed(&names))),
    })
}

/// Where a column is: at the root of a table, or inside of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldPlace {
    /// Among the columns of the table.
    pub(crate) root: usize,
    /// Among the fields of the objects there, and of the objects in these; empty for the column itself.
    inside: Vec<usize>,
}

impl FieldPlace {
    /// What `name` stands for: the column that is called so, or else a field of objects, each name behind a point.
    ///
    /// # Errors
    /// As [`column_index`]; where objects have no such field, the hint is one that they have.
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
                    let hint =
                        format!("`{front}` is {data_type}, and only objects (Struct) have fields");
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
            None => error.hint(format!("the fields are {}", listed(&fields))),
        })
    }

    /// The place of a column at the root; nothing for one inside of objects.
    pub(crate) fn column(&self) -> Option<usize> {
        self.inside.is_empty().then_some(self.root)
    }

    /// What is there, called `name`; it may be null where what it is in may be.
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

    /// The values that are there in a column of the root; null where what they are in is.
    ///
    /// # Errors
    /// Corrupt: values that are no objects.
    pub(crate) fn values(&self, root: &ArrayRef) -> Result<ArrayRef> {
        let mut values = Arc::clone(root);
        for &place in &self.inside {
            let Some(objects) = values.as_struct_opt() else {
                let cause = format!("objects are expected, and these are {}", values.data_type());
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

/// The place of the field that is called `name`, or that a part of the name in front of a point calls; the others go to `inside`.
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

/// The fields of all objects among `fields`, each with the names of those that it is in.
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

/// The first names, and how many more there are.
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

/// Whether values of the two types are the same but for what lists call their elements, and maps their entries,
/// which programs do not agree about.
fn is_same_type(one: &DataType, other: &DataType) -> bool {
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

/// The fields inside a nested type.
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

/// The same values as another type that [`is_same_type`] calls the same, or with dictionaries looked up where
/// `data_type` has plain values in their place.
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
            "values of type {} where {data_type} is expected",
            array.data_type()
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

/// Whether the table at `path` has the columns of `first`, which is the schema of `first_path`.
///
/// # Errors
/// Usage: it names the first column that differs, with both types.
pub(crate) fn agree(first: &Schema, first_path: &Path, other: &Schema, path: &Path) -> Result<()> {
    let differs = |cause: String| {
        Error::usage("read tables", cause)
            .path(path)
            .hint("read the files apart, or unite their columns with --union")
    };
    let first_path = first_path.display();
    for field in first.fields() {
        let name = field.name();
        let Some((_, found)) = other.column_with_name(name) else {
            return Err(differs(format!(
                "column `{name}` of {first_path} is missing"
            )));
        };
        if !is_same_type(field.data_type(), found.data_type()) {
            return Err(differs(format!(
                "column `{name}` is {} and in {first_path} {}",
                found.data_type(),
                field.data_type()
            )));
        }
    }
    let is_more = |field: &&FieldRef| first.column_with_name(field.name()).is_none();
    match other.fields().iter().find(is_more) {
        Some(more) => Err(differs(format!(
            "column `{}` ({}) is not in {first_path}",
            more.name(),
            more.data_type()
        ))),
        None => Ok(()),
    }
}

/// Whether a schema names two columns alike, which no column could be asked for by its name then.
pub(crate) fn check_names(schema: &Schema) -> Result<()> {
    let mut known = HashMap::new();
    for field in schema.fields() {
        if known.insert(field.name(), ()).is_some() {
            let cause = format!("two columns are called `{}`", field.name());
            return Err(Error::usage("read tables", cause).hint("rename one of them first"));
        }
    }
    Ok(())
}

/// The narrowest type that has all values of both, for types of numbers, texts and bytes, and for nulls beside anything. A
/// dictionary beside another type is what it stands for.
fn wider(one: &DataType, other: &DataType) -> Option<DataType> {
    if is_same_type(one, other) || *other == DataType::Null {
        return Some(one.clone());
    }
    if *one == DataType::Null {
        return Some(other.clone());
    }
    match (one, other) {
        (DataType::Dictionary(_, values), DataType::Dictionary(_, other)) => {
            return wider(values, other);
        }
        (DataType::Dictionary(_, values), plain) | (plain, DataType::Dictionary(_, values)) => {
            return wider(values, plain);
        }
        _ => {}
    }
    let bits = |kind: &DataType| kind.primitive_width().map(|bytes| 8 * bytes);
    let is_either = |kind: DataType| *one == kind || *other == kind;
    let (wide, narrow) = match bits(one) >= bits(other) {
        true => (one, other),
        false => (other, one),
    };
    match (wide, narrow) {
        (wide, narrow) if wide.is_integer() && narrow.is_integer() => {
            if wide.is_signed_integer() == narrow.is_signed_integer()
                || (wide.is_signed_integer() && bits(wide) > bits(narrow))
            {
                return Some(wide.clone());
            }
            // One with a sign that has more bits than the one without.
            match bits(wide)? {
                8 => Some(DataType::Int16),
                16 => Some(DataType::Int32),
                32 => Some(DataType::Int64),
                _ => None,
            }
        }
        (wide, narrow) if wide.is_floating() && narrow.is_floating() => Some(wide.clone()),
        (wide, narrow) if wide.is_floating() || narrow.is_floating() => {
            let whole = if wide.is_floating() { narrow } else { wide };
            let digits = bits(whole).filter(|_| whole.is_integer())?;
            // Of so many bits all whole numbers are floats: 11 in 16, 24 in 32 and 53 in 64.
            match digits {
                8 if is_either(DataType::Float16) => Some(DataType::Float16),
                8 | 16 if !is_either(DataType::Float64) => Some(DataType::Float32),
                8 | 16 | 32 => Some(DataType::Float64),
                _ => None,
            }
        }
        (DataType::Decimal128(one, scale), DataType::Decimal128(other, other_scale)) => {
            let least = |digits: &u8, scale: &i8| i16::from(*digits) - i16::from(*scale);
            let scale_both = (*scale).max(*other_scale);
            let digits = least(one, scale).max(least(other, other_scale)) + i16::from(scale_both);
            let digits = u8::try_from(digits).ok().filter(|&digits| digits <= 38)?;
            Some(DataType::Decimal128(digits, scale_both))
        }
        (one, other) => {
            // Of two of one family, the one that comes first here has all values of the other.
            let families = [
                [DataType::LargeUtf8, DataType::Utf8View, DataType::Utf8],
                [
                    DataType::LargeBinary,
                    DataType::BinaryView,
                    DataType::Binary,
                ],
            ];
            let family = families
                .into_iter()
                .find(|family| family.contains(one) && family.contains(other))?;
            family.into_iter().find(|kind| kind == one || kind == other)
        }
    }
}

/// The same values as a type that [`united`] has chosen.
///
/// # Errors
/// As [`retyped`].
pub(crate) fn widened(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type().is_nested() || array.data_type().equals_datatype(data_type) {
        return retyped(array, data_type);
    }
    cast(array, data_type).map_err(|error| fault::arrow("unite tables", &error))
}

/// The columns of all of `schemas`; a column may be null where it may in one of them, or one lacks it.
///
/// # Errors
/// Usage: two of one name have types without one that has all values of both; it names both files.
pub(crate) fn united(schemas: &[(SchemaRef, &Path)]) -> Result<SchemaRef> {
    let mut fields: Vec<(FieldRef, &Path, usize)> = Vec::new();
    for (schema, path) in schemas {
        for field in schema.fields() {
            let known = fields
                .iter_mut()
                .find(|(known, ..)| known.name() == field.name());
            let Some((known, first_path, count)) = known else {
                fields.push((Arc::clone(field), path, 1));
                continue;
            };
            let Some(both) = wider(known.data_type(), field.data_type()) else {
                let cause = format!(
                    "column `{}` is {} and in {} {}",
                    field.name(),
                    field.data_type(),
                    first_path.display(),
                    known.data_type()
                );
                return Err(Error::usage("unite tables", cause)
                    .path(path)
                    .hint("no type has all values of both: convert one of them first, or leave the column out"));
            };
            if both != *known.data_type() {
                *known = Arc::new(Field::clone(known).with_data_type(both));
            }
            *count += 1;
            if field.is_nullable() && !known.is_nullable() {
                *known = as_nullable(known);
            }
        }
    }
    let fields = fields.into_iter().map(|(field, _, count)| {
        if count < schemas.len() {
            as_nullable(&field)
        } else {
            field
        }
    });
    let fields: Vec<FieldRef> = fields.collect();
    let metadata = schemas.first().map(|(schema, _)| schema.metadata().clone());
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        metadata.unwrap_or_default(),
    )))
}

fn as_nullable(field: &Field) -> FieldRef {
    Arc::new(field.clone().with_nullable(true))
}

#[cfg(test)]
mod tests {
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
        assert!(error.contains("`nr` is not an order of `time`"), "{error}");
    }

    #[test]
    fn what_differs_is_named_with_file_column_and_both_types() {
        let one = schema(&[("a", DataType::Int64)]);
        let other = schema(&[("a", DataType::Utf8)]);
        let (here, there) = (Path::new("1.parquet"), Path::new("2.parquet"));
        let error = agree(&one, here, &other, there).unwrap_err().to_string();
        for part in ["`a`", "Int64", "Utf8", "1.parquet", "2.parquet"] {
            assert!(error.contains(part), "{part} in {error}");
        }
        let more = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
        assert!(agree(&one, here, &more, there).is_err());
        assert!(agree(&more, here, &one, there).is_err());
    }

    #[test]
    fn united_columns_have_all_values_of_both_types_or_are_refused() {
        use DataType::*;
        let dictionary = |keys, values| Dictionary(Box::new(keys), Box::new(values));
        for (one, other, both) in [
            (Int32, Int64, Some(Int64)),
            (UInt8, Int8, Some(Int16)),
            (UInt32, Int64, Some(Int64)),
            (UInt64, Int8, None),
            (Int32, Float32, Some(Float64)),
            (Int16, Float32, Some(Float32)),
            (UInt8, Float16, Some(Float16)),
            (Int16, Float16, Some(Float32)),
            (Int32, Float64, Some(Float64)),
            (Int64, Float64, None),
            (Float32, Float64, Some(Float64)),
            (Null, Utf8, Some(Utf8)),
            (Utf8, LargeUtf8, Some(LargeUtf8)),
            (Utf8, Utf8View, Some(Utf8View)),
            (BinaryView, LargeBinary, Some(LargeBinary)),
            (Utf8, Binary, None),
            (dictionary(Int32, Utf8), Utf8, Some(Utf8)),
            (dictionary(Int8, Utf8), LargeUtf8, Some(LargeUtf8)),
            (dictionary(Int8, Utf8), dictionary(Int32, Utf8), Some(Utf8)),
            (
                dictionary(Int8, Utf8),
                dictionary(Int8, Utf8),
                Some(dictionary(Int8, Utf8)),
            ),
            (dictionary(Int8, Utf8), Null, Some(dictionary(Int8, Utf8))),
            (dictionary(Int8, Int16), Int64, Some(Int64)),
            (dictionary(Int8, Utf8), Int64, None),
            (Utf8, Int64, None),
            (Boolean, Int8, None),
            (Date32, Int32, None),
            (Decimal128(5, 2), Decimal128(4, 0), Some(Decimal128(6, 2))),
            (Decimal128(38, 0), Decimal128(5, 2), None),
        ] {
            assert_eq!(wider(&one, &other), both, "{one} and {other}");
            assert_eq!(wider(&other, &one), both, "{other} and {one}");
        }
    }

    #[test]
    fn united_columns_may_be_null_where_one_table_lacks_them() {
        let one = schema(&[("a", DataType::Int64)]);
        let other = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
        let (here, there) = (Path::new("1"), Path::new("2"));
        let all = united(&[(one, here), (other, there)]).unwrap();
        assert!(!all.field(0).is_nullable() && all.field(1).is_nullable());
    }
}
