//! Fields of objects as columns: selected, in expressions, and in groups.
//!
//! Contract: the expected results are written out for a table of four rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::Field;
use outcore::Kind;
use outcore_table::expr::Expr;
use outcore_table::jobs::{Aggregate, copy, group_by, select};
use outcore_table::rows::KeyColumn;

use super::select::{TableFiles, selection};

/// Objects `st` with a number `a` and objects `deep`, which contain a text named `w.x`; the third
/// of four rows is null.
fn objects() -> RecordBatch {
    let inner: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
    let word: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    let field = |name: &str, array: &ArrayRef, is_nullable| {
        Arc::new(Field::new(name, array.data_type().clone(), is_nullable))
    };
    let deep: ArrayRef = Arc::new(StructArray::from(vec![(
        field("w.x", &word, false),
        Arc::clone(&word),
    )]));
    let fields = vec![field("a", &inner, true), field("deep", &deep, false)];
    let nulls = NullBuffer::from(vec![true, true, false, true]);
    let objects = StructArray::new(fields.into(), vec![inner, deep], Some(nulls));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4));
    let columns = [
        ("st", Arc::new(objects) as ArrayRef, true),
        ("id", ids, false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

#[test]
fn fields_of_objects_are_columns_where_they_are_chosen() {
    let place = TableFiles::with(&[objects()], 3);
    let names = ["st.deep.w.x", "id", "st.a", "st"];
    let wanted = selection(&["id >= 1"], "");
    let every = selection(&[], "");
    for (wanted, from) in [(Some(&wanted), 1), (Some(&every), 0), (None, 0)] {
        let (_, out) = place
            .run(Some(&names), |job, ends| match wanted {
                Some(wanted) => select(job, ends, wanted),
                None => copy(job, ends),
            })
            .unwrap();
        let schema = out.schema();
        let found = schema.fields().iter().map(|field| field.name().as_str());
        assert_eq!(found.collect::<Vec<_>>(), names);
        let words: Vec<_> = out["st.deep.w.x"].as_string::<i32>().iter().collect();
        assert_eq!(words, [Some("a"), Some("b"), None, Some("d")][from..]);
        let inner: Vec<_> = out["st.a"].as_primitive::<Int64Type>().iter().collect();
        assert_eq!(inner, [Some(1), None, None, Some(4)][from..]);
    }
    for (names, cause) in [
        (&["st.b"][..], "no field `st.b`"),
        (&["st.deep.w"], "no field `st.deep.w`"),
        (&["id.a"], "no column `id.a`"),
        (&["st.a", "st.a"], "two columns"),
    ] {
        let error = place.run(Some(names), copy).unwrap_err().to_string();
        assert!(error.contains(cause), "{error}");
    }
}

#[test]
fn expressions_reach_into_objects() {
    let place = TableFiles::with(&[objects()], 3);
    let ids = |conditions: &[&str]| {
        let wanted = selection(conditions, "");
        let (_, out) = place
            .run(None, |job, ends| select(job, ends, &wanted))
            .unwrap();
        assert_eq!(out.num_columns(), 2, "objects stay as they are");
        out["id"].as_primitive::<Int64Type>().values().to_vec()
    };
    assert_eq!(ids(&["st.a > 3"]), [3]);
    assert_eq!(ids(&["st.a >= 1 and id < 3"]), [0]);
    assert_eq!(ids(&["st.a is null"]), [1, 2]);
    assert_eq!(ids(&["`st`.`a` is not null", "st.a != 4"]), [0]);
    for name in ["st.deep.w.x", "st.deep.`w.x`", "`st.deep.w.x`"] {
        assert_eq!(ids(&[&format!("{name} in ('b', 'c')")]), [1], "{name}");
    }
    let wanted = selection(&[], "twice = st.a * 2, id = length(st.deep.w.x)");
    let (done, out) = place
        .run(Some(&["twice", "st.a"]), |job, ends| {
            select(job, ends, &wanted)
        })
        .unwrap();
    assert_eq!(done.rows_out, 4);
    let numbers = |name: &str| {
        let column = out[name].as_primitive::<Int64Type>();
        column.iter().collect::<Vec<_>>()
    };
    assert_eq!(numbers("twice"), [Some(2), None, None, Some(8)]);
    assert_eq!(numbers("st.a"), [Some(1), None, None, Some(4)]);
    assert_eq!(numbers("id"), [Some(1), Some(1), None, Some(1)]);
    for (text, cause) in [
        ("st.b > 3", "there is no field `st.b`"),
        ("st.a.b > 3", "there is no field `st.a.b`"),
        ("id.a > 3", "there is no column `id.a`"),
        ("st. > 3", "the name of a field is missing"),
        ("st.` > 3", "the second backquote is missing"),
    ] {
        let checked = Expr::parse(text).and_then(|expr| expr.check(&objects().schema()));
        let error = checked.unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{text}");
        assert!(error.to_string().contains(cause), "{text}: {error}");
    }
}

#[test]
fn a_column_with_a_point_in_its_name_comes_before_a_field() {
    let batch = objects();
    let ids = Arc::clone(&batch["id"]);
    let columns = [("st.a", ids), ("st", Arc::clone(&batch["st"]))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let holds = Expr::parse("st.a == 2").unwrap().holds(&batch).unwrap();
    assert_eq!(
        holds.values().iter().collect::<Vec<_>>(),
        [false, false, true, false]
    );
}

#[test]
fn groups_are_made_of_fields_of_objects() {
    let place = TableFiles::with(&[objects(), objects()], 3);
    let aggregates = Aggregate::parse_list("sum(st.a),n=count,id=max(st.deep.w.x)").unwrap();
    let keys = [KeyColumn::new("st.a").descending()];
    let (_, out) = place
        .run(None, |job, ends| group_by(job, ends, &keys, &aggregates))
        .unwrap();
    let schema = out.schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["st.a", "sum(st.a)", "n", "id"]);
    let numbers = |name: &str| {
        let column = out[name].as_primitive::<Int64Type>();
        column.iter().collect::<Vec<_>>()
    };
    assert_eq!(numbers("st.a"), [Some(4), Some(1), None]);
    assert_eq!(numbers("sum(st.a)"), [Some(8), Some(2), None]);
    assert_eq!(numbers("n"), [Some(2), Some(2), Some(4)]);
    let texts: Vec<_> = out["id"].as_string::<i32>().iter().collect();
    assert_eq!(texts, [Some("d"), Some("a"), Some("b")]);
    let keys = [KeyColumn::new("st.c")];
    let error = place.run(None, |job, ends| group_by(job, ends, &keys, &aggregates));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("there is no field `st.c`"), "{error}");
}
