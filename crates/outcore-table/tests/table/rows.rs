//! Rows decode to the batches they were made from, and sort in the order of `arrow-ord`.
//!
//! Contract: schemas and values are random, and a failure prints its seed. The twin of the order is
//! `arrow-ord`'s comparison of columns. Damaged rows give an error or other rows, never a panic.

use std::sync::Arc;

use crate::common::{self, Draw, Kinds};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, Float64Array, Int64Array, ListArray,
    RecordBatch, StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_ord::sort::{LexicographicalComparator, SortColumn};
use arrow_schema::{DataType, Field, Fields, Schema, SortOptions, UnionFields, UnionMode};
use outcore::sort::lines::rows::RowBatch;
use outcore_table::rows::{KeyColumn, RowCodec, key_of};
use proptest::prelude::*;

fn encoded(codec: &RowCodec, batch: &RecordBatch) -> RowBatch {
    let mut rows = RowBatch::default();
    codec.encode(batch, &mut rows).unwrap();
    assert_eq!(rows.len(), batch.num_rows());
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_of_any_schema_turn_back_into_their_batches(seed in any::<u64>(), rows in 0usize..60) {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 6, Kinds::All);
        let batch = common::batch(&mut draw, &schema, rows);
        let codec = RowCodec::new(&schema, &[]).unwrap();
        let out = encoded(&codec, &batch);
        let apart: Vec<&[u8]> = out.iter().collect();
        prop_assert_eq!(&codec.decode(&apart).unwrap(), &batch);
        // In any order.
        let mut places: Vec<usize> = (0..rows).collect();
        places.sort_by_cached_key(|_| draw.word());
        let shuffled: Vec<&[u8]> = places.iter().map(|&place| apart[place]).collect();
        let back = codec.decode(&shuffled).unwrap();
        for (row, &place) in places.iter().enumerate() {
            prop_assert_eq!(back.slice(row, 1), batch.slice(place, 1));
        }
    }

    #[test]
    fn keys_compare_as_arrow_orders_columns(seed in any::<u64>(), rows in 2usize..50) {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 4, Kinds::All);
        let batch = common::batch(&mut draw, &schema, rows);
        let mut keys = Vec::new();
        let mut columns = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            let options = SortOptions { descending: draw.one_in(2), nulls_first: draw.one_in(2) };
            // A type without an order in arrow-ord is only compared with itself.
            let column = SortColumn { values: common::as_key(batch.column(index)), options: Some(options) };
            if LexicographicalComparator::try_new(std::slice::from_ref(&column)).is_err() {
                continue;
            }
            keys.push(KeyColumn {
                is_descending: options.descending,
                is_nulls_first: options.nulls_first,
                ..KeyColumn::new(field.name())
            });
            columns.push(column);
        }
        prop_assume!(!keys.is_empty());
        let codec = RowCodec::new(&schema, &keys).unwrap();
        let out = encoded(&codec, &batch);
        let apart: Vec<&[u8]> = out.iter().collect();
        let order = LexicographicalComparator::try_new(&columns).unwrap();
        for one in 0..rows {
            for other in 0..rows {
                let found = key_of(apart[one]).cmp(&key_of(apart[other]));
                prop_assert_eq!(found, order.compare(one, other), "{:?} {} {}", keys, one, other);
            }
        }
        prop_assert_eq!(codec.decode(&apart).unwrap(), batch);
    }

    #[test]
    fn damaged_rows_are_an_error_or_other_rows_and_never_a_panic(seed in any::<u64>()) {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 4, Kinds::All);
        let batch = common::batch(&mut draw, &schema, 8);
        let keys = [KeyColumn::new(schema.field(0).name())];
        let codec = RowCodec::new(&schema, &keys[draw.below(2)..]).unwrap();
        let out = encoded(&codec, &batch);
        let mut damaged: Vec<Vec<u8>> = out.iter().map(<[u8]>::to_vec).collect();
        for _ in 0..4 {
            let row = draw.below(damaged.len());
            let row = &mut damaged[row];
            if row.is_empty() || draw.one_in(4) {
                row.truncate(row.len() / 2);
                continue;
            }
            let at = draw.below(row.len());
            row[at] ^= 1 << draw.below(8);
        }
        let apart: Vec<&[u8]> = damaged.iter().map(Vec::as_slice).collect();
        let _ = codec.decode(&apart);
    }
}

#[test]
fn floats_are_ordered_as_numbers_with_one_zero_and_nans_last() {
    let values = [
        f64::NEG_INFINITY,
        -1.0,
        -0.0,
        0.0,
        1.0,
        f64::INFINITY,
        f64::NAN,
        -f64::NAN,
    ];
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, false)]));
    let column = Arc::new(Float64Array::from(values.to_vec()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
    let codec = RowCodec::new(&schema, &[KeyColumn::new("x")]).unwrap();
    let mut out = encoded(&codec, &batch);
    out.clear();
    assert!(out.is_empty() && out.iter().next().is_none());
    codec.encode(&batch, &mut out).unwrap();
    let keys: Vec<_> = out.iter().map(key_of).collect();
    let equal: Vec<bool> = keys.windows(2).map(|pair| pair[0] == pair[1]).collect();
    assert!(keys.is_sorted());
    assert_eq!(equal, [false, false, true, false, false, false, true]);
    // The values are bit-identical.
    let apart: Vec<&[u8]> = out.iter().collect();
    let back = codec.decode(&apart).unwrap();
    let bits = |batch: &RecordBatch| -> Vec<u64> {
        let column = batch.column(0).as_primitive::<Float64Type>();
        column
            .values()
            .iter()
            .map(|value| value.to_bits())
            .collect()
    };
    assert_eq!(bits(&back), bits(&batch));
}

#[test]
fn elements_under_a_null_list_are_not_carried() {
    let values = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let nulls = NullBuffer::from(vec![true, false, true]);
    let field = Arc::new(Field::new("item", DataType::Int64, false));
    let offsets = OffsetBuffer::from_lengths([1, 2, 1]);
    let list = ListArray::new(field, offsets, values, Some(nulls));
    let schema = Arc::new(Schema::new(vec![Field::new(
        "l",
        list.data_type().clone(),
        true,
    )]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(list)]).unwrap();
    let codec = RowCodec::new(&schema, &[]).unwrap();
    let out = encoded(&codec, &batch);
    let back = codec.decode(&out.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(back, batch);
    let list = back.column(0).as_any().downcast_ref::<ListArray>().unwrap();
    assert_eq!(list.values().len(), 2);
}

#[test]
fn what_lies_under_nulls_of_structs_and_fixed_lists_makes_no_difference() {
    let nulls = || Some(NullBuffer::from(vec![true, false]));
    let numbers = |hidden: i64| Int64Array::from(vec![7, hidden]);
    let texts = |hidden: &str| StringArray::from(vec!["a", hidden]);
    let batch = |number: i64, text: &str| {
        let fields = Fields::from(vec![
            Field::new("may", DataType::Int64, true),
            Field::new("must", DataType::Utf8, false),
        ]);
        let columns: Vec<ArrayRef> = vec![Arc::new(numbers(number)), Arc::new(texts(text))];
        let members = StructArray::new(fields.clone(), columns, nulls());
        let outer = Fields::from(vec![Field::new("inner", DataType::Struct(fields), true)]);
        let nested = StructArray::new(outer, vec![Arc::new(members.clone())], None);
        let item = Arc::new(Field::new("item", DataType::Int64, true));
        let elements = Int64Array::from(vec![1, 2, number, number]);
        let fixed = FixedSizeListArray::new(item, 2, Arc::new(elements), nulls());
        let columns: [(&str, ArrayRef); 3] = [
            ("s", Arc::new(members)),
            ("n", Arc::new(nested)),
            ("f", Arc::new(fixed)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let (one, other) = (batch(1, "x"), batch(2, "longer"));
    assert_eq!(one, other);
    let codec = RowCodec::new(&one.schema(), &[]).unwrap();
    let rows = [encoded(&codec, &one), encoded(&codec, &other)];
    let [first, second] = rows.each_ref().map(|rows| rows.iter().collect::<Vec<_>>());
    assert_eq!(first, second);
    assert_eq!(codec.decode(&first).unwrap(), one);
}

#[test]
fn a_dictionary_with_too_many_values_for_its_keys_is_named() {
    let kind = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![Field::new("d", kind, false)]));
    let codec = RowCodec::new(&schema, &[]).unwrap();
    let mut out = RowBatch::default();
    for half in 0..2 {
        let words: Vec<String> = (0..100).map(|i| format!("{half}-{i}")).collect();
        let column: DictionaryArray<Int8Type> = words.iter().map(String::as_str).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).unwrap();
        codec.encode(&batch, &mut out).unwrap();
    }
    let apart: Vec<&[u8]> = out.iter().collect();
    assert_eq!(codec.decode(&apart[..100]).unwrap().num_rows(), 100);
    let error = codec.decode(&apart).unwrap_err().to_string();
    assert!(
        error.contains("200 distinct values") && error.contains("i8"),
        "{error}"
    );
}

#[test]
fn a_key_without_an_order_and_a_key_that_is_not_there_are_named() {
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let views = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::List(item)));
    let views = Field::new("views", views, true);
    let schema = Arc::new(Schema::new(vec![
        views,
        Field::new("id", DataType::Int64, true),
    ]));
    let error = RowCodec::new(&schema, &[KeyColumn::new("views")])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`views`") && error.contains("no order"),
        "{error}"
    );
    let error = RowCodec::new(&schema, &[KeyColumn::new("idd")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean `id`?"), "{error}");
}

#[test]
fn rows_without_columns_keep_their_number() {
    let schema = Arc::new(Schema::empty());
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(3));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), vec![], &options).unwrap();
    let codec = RowCodec::new(&schema, &[]).unwrap();
    let out = encoded(&codec, &batch);
    assert_eq!(
        codec
            .decode(&out.iter().collect::<Vec<_>>())
            .unwrap()
            .num_rows(),
        3
    );
}

#[test]
fn unions_are_carried_by_arrow_row() {
    let fields = UnionFields::try_new(
        vec![0, 1],
        vec![
            Field::new("i", DataType::Int64, true),
            Field::new("s", DataType::Utf8, true),
        ],
    )
    .unwrap();
    let types = vec![0i8, 1, 0].into();
    let children: Vec<arrow_array::ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(7), None, Some(9)])),
        Arc::new(StringArray::from(vec![None, Some("x"), None])),
    ];
    let union = arrow_array::UnionArray::try_new(fields.clone(), types, None, children).unwrap();
    let kind = DataType::Union(fields, UnionMode::Sparse);
    let schema = Arc::new(Schema::new(vec![Field::new("u", kind, true)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(union)]).unwrap();
    let codec = RowCodec::new(&schema, &[]).unwrap();
    let out = encoded(&codec, &batch);
    let back = codec.decode(&out.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(back, batch);
}
