//! Hashes of rows by their values, for checksums that do not depend on the order of rows.
//!
//! Contract: [`RowSums`] hashes rows of one schema of plain types, as [`value_type`] makes them.
//! The hash of a row begins with the XXH3-64 of the names and types of all columns, as
//! [`value_notation`] writes types, with a zero byte after each name and type. So tables with equal
//! bytes in other types have other hashes. Columns count in the order of their names, whatever
//! their order in the table. Each column replaces the hash with the XXH3-64 of the value, with the
//! hash so far as the seed. For a null, it is the XXH3-64 of no bytes, with the inverted hash so
//! far as the seed. A value of fixed size has Arrow's bytes, a truth value is one byte, and a text
//! or a binary value has its bytes. So texts of all types are alike, and floats count by their
//! bits. A value of a nested type has the bytes of a row of [`RowCodec`] with this column alone.
//!
//! Bounds: 8 bytes per row of a batch; for nested columns, rows of about [`NESTED_BYTES`].
//!
//! [`value_type`]: crate::equal::value_type
//! [`value_notation`]: crate::equal::value_notation

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use outcore::sort::lines::rows::RowBatch;
use outcore_io::Result;
use twox_hash::XxHash3_64;

use super::RowCodec;
use crate::equal::value_notation;
use crate::fault;

const HASH: &str = "hash rows";
/// About this many bytes of nested values are encoded at once.
const NESTED_BYTES: usize = 1 << 20;

/// Hashes rows. See the module.
pub(crate) struct RowSums {
    /// The columns in the order of their names.
    columns: Vec<HashedColumn>,
    /// The hash of a row before its first column.
    start: u64,
}

/// A column, by its place in the schema.
struct HashedColumn {
    place: usize,
    form: ColumnForm,
}

/// How the values of a column are hashed.
enum ColumnForm {
    Null,
    Bool,
    Fixed { width_bytes: usize },
    Bytes,
    Nested(Box<RowCodec>),
}

impl RowSums {
    /// For rows of this schema, which has plain types.
    ///
    /// # Errors
    /// As [`RowCodec::new`].
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let mut fields: Vec<_> = schema.fields().iter().enumerate().collect();
        fields.sort_by_key(|(_, field)| field.name());
        let columns = fields.iter().map(|(place, field)| {
            Ok(HashedColumn {
                place: *place,
                form: form_of(field)?,
            })
        });
        Ok(RowSums {
            columns: columns.collect::<Result<Vec<_>>>()?,
            start: XxHash3_64::oneshot(text_of(fields.iter().map(|(_, field)| *field)).as_bytes()),
        })
    }

    /// Replaces `hashes` with the hash of each row of a batch of the schema.
    ///
    /// # Errors
    /// As [`RowCodec::encode`].
    pub(crate) fn hash(&self, batch: &RecordBatch, hashes: &mut Vec<u64>) -> Result<()> {
        hashes.clear();
        hashes.resize(batch.num_rows(), self.start);
        for column in &self.columns {
            column.form.hash(batch.column(column.place), hashes)?;
        }
        Ok(())
    }
}

/// The names and types of columns.
fn text_of<'f>(fields: impl Iterator<Item = &'f FieldRef>) -> String {
    let texts = fields.map(|field| {
        let of_type = value_notation(field.data_type());
        format!("{}\0{of_type}\0", field.name())
    });
    texts.collect()
}

fn form_of(field: &Field) -> Result<ColumnForm> {
    Ok(match field.data_type() {
        DataType::Null => ColumnForm::Null,
        DataType::Boolean => ColumnForm::Bool,
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Utf8View
        | DataType::BinaryView => ColumnForm::Bytes,
        DataType::FixedSizeBinary(width) => ColumnForm::Fixed {
            width_bytes: *width as usize,
        },
        data_type => match data_type.primitive_width() {
            Some(width_bytes) => ColumnForm::Fixed { width_bytes },
            None => {
                let alone = Arc::new(Schema::new(vec![field.clone().with_nullable(true)]));
                ColumnForm::Nested(Box::new(RowCodec::new(&alone, &[])?))
            }
        },
    })
}

impl ColumnForm {
    fn hash(&self, column: &ArrayRef, hashes: &mut [u64]) -> Result<()> {
        match self {
            ColumnForm::Null => hashes.iter_mut().for_each(|hash| *hash = of_null(*hash)),
            ColumnForm::Bool => {
                let values = column
                    .as_boolean()
                    .values()
                    .iter()
                    .map(|bit| [u8::from(bit)]);
                each(column.as_ref(), values, hashes);
            }
            ColumnForm::Fixed { width_bytes } => fixed(column, *width_bytes, hashes),
            ColumnForm::Bytes => match column.data_type() {
                DataType::Utf8 => bytes(column.as_string::<i32>(), hashes),
                DataType::LargeUtf8 => bytes(column.as_string::<i64>(), hashes),
                DataType::Binary => bytes(column.as_binary::<i32>(), hashes),
                DataType::LargeBinary => bytes(column.as_binary::<i64>(), hashes),
                DataType::Utf8View => {
                    let views = column.as_string_view();
                    let values = (0..views.len()).map(|row| views.value(row).as_bytes());
                    each(column.as_ref(), values, hashes);
                }
                _ => {
                    let views = column.as_binary_view();
                    let values = (0..views.len()).map(|row| views.value(row));
                    each(column.as_ref(), values, hashes);
                }
            },
            ColumnForm::Nested(codec) => nested(codec, column, hashes)?,
        }
        Ok(())
    }
}

fn of_null(hash: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(!hash, &[])
}

/// Adds one value to the hash of each row.
fn each(column: &dyn Array, values: impl Iterator<Item = impl AsRef<[u8]>>, hashes: &mut [u64]) {
    let pairs = hashes.iter_mut().zip(values);
    let Some(nulls) = column
        .logical_nulls()
        .filter(|nulls| nulls.null_count() > 0)
    else {
        return pairs.for_each(|(hash, value)| {
            *hash = XxHash3_64::oneshot_with_seed(*hash, value.as_ref());
        });
    };
    for ((hash, value), is_valid) in pairs.zip(nulls.iter()) {
        *hash = match is_valid {
            true => XxHash3_64::oneshot_with_seed(*hash, value.as_ref()),
            false => of_null(*hash),
        };
    }
}

fn bytes<T: ByteArrayType>(column: &GenericByteArray<T>, hashes: &mut [u64]) {
    let data = column.value_data();
    let ends = column.value_offsets().windows(2);
    let values = ends.map(|ends| {
        let [from, to] = [ends[0], ends[1]].map(arrow_buffer::ArrowNativeType::as_usize);
        &data[from..to]
    });
    each(column, values, hashes);
}

fn fixed(column: &ArrayRef, width_bytes: usize, hashes: &mut [u64]) {
    let data = column.to_data();
    let from = data.offset() * width_bytes;
    let values = &data.buffers()[0][from..from + column.len() * width_bytes];
    let column = column.as_ref();
    // A length known to the compiler keeps the hash of small values inline.
    match width_bytes {
        0 => each(column, (0..column.len()).map(|_| [0_u8; 0]), hashes),
        1 => each(column, values.as_chunks::<1>().0.iter(), hashes),
        2 => each(column, values.as_chunks::<2>().0.iter(), hashes),
        4 => each(column, values.as_chunks::<4>().0.iter(), hashes),
        8 => each(column, values.as_chunks::<8>().0.iter(), hashes),
        16 => each(column, values.as_chunks::<16>().0.iter(), hashes),
        width_bytes => each(column, values.chunks_exact(width_bytes), hashes),
    }
}

fn nested(codec: &RowCodec, column: &ArrayRef, hashes: &mut [u64]) -> Result<()> {
    let columns = vec![Arc::clone(column)];
    let alone = RecordBatch::try_new(Arc::clone(codec.schema()), columns);
    let alone = alone.map_err(|error| fault::arrow(HASH, &error))?;
    let lens_bytes = codec.measure(&alone)?;
    let mut rows = RowBatch::default();
    let mut from = 0;
    while from < lens_bytes.len() {
        let mut left_bytes = NESTED_BYTES;
        let fits = |len_bytes: &&usize| {
            let fits = **len_bytes <= left_bytes;
            left_bytes = left_bytes.saturating_sub(**len_bytes);
            fits
        };
        let count = lens_bytes[from..].iter().take_while(fits).count().max(1);
        rows.clear();
        codec.encode(&alone.slice(from, count), &mut rows)?;
        for (hash, bytes) in hashes[from..].iter_mut().zip(rows.iter()) {
            *hash = XxHash3_64::oneshot_with_seed(*hash, bytes);
        }
        from += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int32Type, TimestampMillisecondType};
    use arrow_array::{
        Int64Array, LargeListArray, ListArray, StringArray, StringViewArray, UInt64Array,
    };

    fn hashes_of(columns: Vec<(&str, ArrayRef)>) -> Vec<u64> {
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns
                .into_iter()
                .map(|(name, column)| (name, column, true)),
        );
        let batch = batch.unwrap();
        let mut hashes = vec![7];
        RowSums::new(&batch.schema())
            .unwrap()
            .hash(&batch, &mut hashes)
            .unwrap();
        hashes
    }

    #[test]
    fn a_row_has_the_documented_hash() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["ab", ""]));
        let start = XxHash3_64::oneshot(b"n\0i64\0t\0text\0");
        let first = XxHash3_64::oneshot_with_seed(start, &5_i64.to_le_bytes());
        let second = XxHash3_64::oneshot_with_seed(!start, &[]);
        let wanted = [
            XxHash3_64::oneshot_with_seed(first, b"ab"),
            XxHash3_64::oneshot_with_seed(second, b""),
        ];
        assert_eq!(hashes_of(vec![("n", numbers), ("t", texts)]), wanted);
    }

    #[test]
    fn slices_and_texts_of_other_types_have_the_hashes_of_their_values() {
        let texts = ["a", "long enough for a view of its own", "b", "c"];
        let numbers = [1, 2, 3, 4];
        let whole = hashes_of(vec![
            ("n", Arc::new(Int64Array::from(numbers.to_vec()))),
            ("t", Arc::new(StringArray::from(texts.to_vec()))),
        ]);
        let cut = hashes_of(vec![
            (
                "n",
                Int64Array::from(numbers.to_vec()).slice(1, 2).into_ref(),
            ),
            (
                "t",
                StringViewArray::from(texts.to_vec()).slice(1, 2).into_ref(),
            ),
        ]);
        assert_eq!(cut, whole[1..3]);
    }

    #[test]
    fn equal_bytes_of_other_types_and_names_have_other_hashes() {
        let numbers = Int64Array::from(vec![0, 1000]);
        let times: ArrayRef = Arc::new(numbers.reinterpret_cast::<TimestampMillisecondType>());
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![0, 1000]));
        let numbers: ArrayRef = Arc::new(numbers);
        let all = [
            hashes_of(vec![("n", Arc::clone(&numbers))]),
            hashes_of(vec![("m", numbers)]),
            hashes_of(vec![("n", times)]),
            hashes_of(vec![("n", unsigned)]),
        ];
        let mut first: Vec<u64> = all.iter().map(|hashes| hashes[0]).collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), all.len());
    }

    #[test]
    fn lists_of_all_layouts_have_the_hashes_of_their_values() {
        let values = || vec![Some(vec![Some(1), None]), None, Some(vec![])];
        let small = ListArray::from_iter_primitive::<Int32Type, _, _>(values());
        let large = LargeListArray::from_iter_primitive::<Int32Type, _, _>(values());
        let small = hashes_of(vec![("l", Arc::new(small))]);
        assert_eq!(small, hashes_of(vec![("l", Arc::new(large))]));
    }

    #[test]
    fn nulls_empty_values_and_neighbours_differ() {
        let lists = |values: Vec<Option<Vec<Option<i32>>>>| -> ArrayRef {
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(values))
        };
        let found = hashes_of(vec![(
            "l",
            lists(vec![
                None,
                Some(vec![]),
                Some(vec![None]),
                Some(vec![Some(0)]),
            ]),
        )]);
        let text = |text: Option<&str>| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
        let pair = |a, b| hashes_of(vec![("a", text(a)), ("b", text(b))])[0];
        let mut all = found;
        all.extend([
            pair(None, Some("")),
            pair(Some(""), None),
            pair(None, None),
            pair(Some("ab"), Some("c")),
            pair(Some("a"), Some("bc")),
        ]);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    trait IntoRef {
        fn into_ref(self) -> ArrayRef;
    }

    impl<A: Array + 'static> IntoRef for A {
        fn into_ref(self) -> ArrayRef {
            Arc::new(self)
        }
    }
}
