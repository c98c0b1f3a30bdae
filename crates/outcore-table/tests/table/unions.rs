//! Files with different columns, as one table.
//!
//! Contract: the expected result for each pair of types is written out.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int8Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, StringViewArray,
};
use arrow_schema::DataType;
use outcore_table::input::InputOptions;

use super::files::{all, by_arrow, ids, numbers};

#[test]
fn files_that_differ_are_named_and_united_where_asked() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().join("1.parquet"), dir.path().join("2.parquet")];
    by_arrow(&paths[0], &[numbers(0, 10)], 10);
    by_arrow(&paths[1], &[numbers(10, 10).project(&[0]).unwrap()], 10);
    let error = all(&InputOptions::default(), &paths, 8 << 20)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`word`") && error.contains("2.parquet") && error.contains("1.parquet"),
        "{error}"
    );
    let union = InputOptions {
        is_union: true,
        ..InputOptions::default()
    };
    let found = all(&union, &paths, 8 << 20).unwrap();
    assert_eq!(ids(&found), (0..20).collect::<Vec<_>>());
    assert_eq!(found["word"].null_count(), 10);
    let turned = dir.path().join("3.parquet");
    by_arrow(&turned, &[numbers(20, 10).project(&[1, 0]).unwrap()], 10);
    let found = all(
        &InputOptions::default(),
        &[paths[0].clone(), turned],
        8 << 20,
    )
    .unwrap();
    assert_eq!(ids(&found)[10..], (20..30).collect::<Vec<_>>());
}

#[test]
fn united_numbers_become_those_of_the_wider_type_and_nulls_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let write = |name: &str, array: ArrayRef| {
        let batch = RecordBatch::try_from_iter_with_nullable([("id", array, true)]).unwrap();
        by_arrow(&path(name), &[batch], 10);
    };
    write("32", Arc::new(Int32Array::from(vec![Some(i32::MIN), None])));
    write("64", Arc::new(Int64Array::from(vec![Some(i64::MAX), None])));
    write("real", Arc::new(Float64Array::from(vec![Some(0.5), None])));
    let union = InputOptions {
        is_union: true,
        ..InputOptions::default()
    };
    for names in [["32", "64"], ["64", "32"]] {
        let found = all(&union, &names.map(path), 8 << 20).unwrap();
        assert_eq!(*found.schema().field(0).data_type(), DataType::Int64);
        let mut ids: Vec<_> = found["id"].as_primitive::<Int64Type>().iter().collect();
        ids.sort();
        assert_eq!(ids, [None, None, Some(i32::MIN.into()), Some(i64::MAX)]);
    }
    let found = all(&union, &["32", "real"].map(path), 8 << 20).unwrap();
    let reals: Vec<_> = found["id"].as_primitive::<Float64Type>().iter().collect();
    assert_eq!(reals, [Some(f64::from(i32::MIN)), None, Some(0.5), None]);
    // An integer becomes a float if a float holds it exactly; any other integer is reported.
    write(
        "even",
        Arc::new(Int64Array::from(vec![Some(1 << 60), None])),
    );
    let found = all(&union, &["even", "real"].map(path), 8 << 20).unwrap();
    let reals: Vec<_> = found["id"].as_primitive::<Float64Type>().iter().collect();
    assert_eq!(reals, [Some((1u64 << 60) as f64), None, Some(0.5), None]);
    let error = all(&union, &["64", "real"].map(path), 8 << 20).unwrap_err();
    for part in ["`id`", "i64", "f64", "9223372036854775807", "64"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert!(all(&InputOptions::default(), &["32", "64"].map(path), 8 << 20).is_err());
}

#[test]
fn a_dictionary_beside_plain_texts_is_united_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let write = |name: &str, array: ArrayRef| {
        let batch = RecordBatch::try_from_iter_with_nullable([("word", array, true)]).unwrap();
        by_arrow(&path(name), &[batch], 10);
    };
    let words = [Some("b"), None, Some("a"), Some("b")];
    write("plain", Arc::new(StringArray::from_iter(words)));
    write("view", Arc::new(StringViewArray::from_iter(words)));
    write("8", Arc::new(DictionaryArray::<Int8Type>::from_iter(words)));
    write(
        "32",
        Arc::new(DictionaryArray::<Int32Type>::from_iter(words)),
    );
    let union = InputOptions {
        is_union: true,
        ..InputOptions::default()
    };
    let dictionary = |keys| DataType::Dictionary(Box::new(keys), Box::new(DataType::Utf8));
    for (names, wanted) in [
        (["plain", "8"], DataType::Utf8),
        (["8", "plain"], DataType::Utf8),
        (["8", "32"], dictionary(DataType::Int32)),
        (["32", "8"], dictionary(DataType::Int32)),
        (["view", "32"], DataType::Utf8View),
        (["plain", "view"], DataType::Utf8View),
    ] {
        let paths: Vec<PathBuf> = names.iter().map(|name| path(name)).collect();
        let found = all(&union, &paths, 8 << 20).unwrap();
        assert_eq!(*found.schema().field(0).data_type(), wanted, "{names:?}");
        let texts = arrow_cast::cast(&found["word"], &DataType::Utf8).unwrap();
        let texts: Vec<_> = texts.as_string::<i32>().iter().collect();
        assert_eq!(texts, [words, words].concat(), "{names:?}");
    }
    let twice = [path("8"), path("8")];
    let found = all(&union, &twice, 8 << 20).unwrap();
    assert!(matches!(
        found["word"].data_type(),
        DataType::Dictionary(..)
    ));
    write("number", Arc::new(Int32Array::from(vec![1])));
    let error = all(&union, &["8", "number"].map(path), 8 << 20).unwrap_err();
    assert!(
        error.to_string().contains("no type can hold all values"),
        "{error}"
    );
}

#[test]
fn united_times_and_decimals_keep_all_digits_and_what_has_no_room_is_named() {
    use DataType::{Decimal128, Timestamp};
    use arrow_schema::TimeUnit::{Microsecond, Nanosecond, Second};
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let texts = |texts: &[&str], data_type: &DataType| -> ArrayRef {
        let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        arrow_cast::cast(&texts, data_type).unwrap()
    };
    let (day, far) = ("2024-02-29", "9999-12-31");
    let columns = [
        ("day", texts(&[day], &DataType::Date32)),
        ("far", texts(&[far], &DataType::Date32)),
        ("s", texts(&[day], &Timestamp(Second, None))),
        ("us", texts(&[day], &Timestamp(Microsecond, None))),
        ("ns", texts(&[day], &Timestamp(Nanosecond, None))),
        ("2", texts(&["1.25"], &Decimal128(5, 2))),
        ("3", texts(&["1.125"], &Decimal128(9, 3))),
    ];
    for (name, array) in columns {
        let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
        by_arrow(&path(name), &[batch], 10);
    }
    let union = InputOptions {
        is_union: true,
        ..InputOptions::default()
    };
    let united = |names: [&str; 2]| all(&union, &names.map(path), 8 << 20);
    for (names, wanted) in [
        (["day", "us"], [day, day]),
        (["us", "far"], [day, far]),
        (["s", "ns"], [day, day]),
        (["2", "3"], ["1.250", "1.125"]),
    ] {
        let found = united(names).unwrap();
        let expected = texts(&wanted, found["c"].data_type());
        assert!(found["c"] == expected, "{names:?}: {:?}", found["c"]);
    }
    assert_eq!(
        *united(["2", "3"]).unwrap()["c"].data_type(),
        Decimal128(9, 3)
    );
    // In nanoseconds, times end in 2262.
    let error = united(["ns", "far"]).unwrap_err().to_string();
    assert!(error.contains("`c`") && error.contains("far"), "{error}");
}
