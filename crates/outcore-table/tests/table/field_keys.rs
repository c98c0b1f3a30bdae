//! Fields of objects as keys of orders, groups, pairs and directories.
//!
//! Contract: a job by the field `st.a` has the same result as by the column `flat`, which has the
//! same values, and the table keeps its columns. The jobs themselves have tests of their own.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};
use outcore::runs::BuildOptions;
use outcore::{Job, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::view::build;
use outcore_table::jobs::{
    ColumnPair, Join, JoinKind, Keep, TableEnds, TableOrder, TableSummary, Window, WindowColumn,
    dedup, diff, join, merge, partition, shuffle, sort, top, unique, verify, window,
};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;

use crate::common::{self, Draw, read_parquet, write_parquet};

/// Objects `st` with a number `a` and a text `b`, some of them null; a column `flat` with the same
/// numbers; lists; and the row's number.
fn objects(rows: usize, seed: u64) -> RecordBatch {
    let mut draw = Draw::new(seed);
    let is_there: Vec<bool> = (0..rows).map(|_| !draw.one_in(6)).collect();
    let number = |draw: &mut Draw| (!draw.one_in(6)).then(|| draw.below(40) as i64 - 20);
    let numbers: Vec<Option<i64>> = (0..rows).map(|_| number(&mut draw)).collect();
    let values = numbers.iter().zip(&is_there);
    let flat: Int64Array = values
        .map(|(number, is_there)| number.filter(|_| *is_there))
        .collect();
    let inner: ArrayRef = Arc::new(Int64Array::from(numbers));
    let words = (0..rows).map(|_| ["x", "", "Straße"][draw.below(3)]);
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(words));
    let fields = vec![
        Arc::new(Field::new("a", DataType::Int64, true)),
        Arc::new(Field::new("b", DataType::Utf8, false)),
    ];
    let nulls = Some(NullBuffer::from(is_there));
    let objects = StructArray::new(fields.into(), vec![inner, words], nulls);
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..rows).map(|row| Some(vec![Some(row as i64)])),
    );
    let columns: [(&str, ArrayRef); 4] = [
        ("st", Arc::new(objects)),
        ("flat", Arc::new(flat)),
        ("lists", Arc::new(lists)),
        (
            "row",
            Arc::new(Int64Array::from_iter_values(0..rows as i64)),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// Files in a directory of their own.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(batches: &[&RecordBatch]) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (number, batch) in batches.iter().enumerate() {
            write_parquet(&folder.path(&format!("in-{number}.parquet")), batch, 70);
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the output of `work` for the first file.
    fn run<T>(
        &self,
        work: impl Fn(&Job, &TableEnds<'_>) -> Result<T>,
    ) -> Result<(T, Option<RecordBatch>)> {
        let writes = OutputOptions {
            is_replacing: true,
            ..OutputOptions::new(TableFormat::Parquet)
        };
        let (inputs, outputs) = ([self.path("in-0.parquet")], [self.path("out.parquet")]);
        let ends = TableEnds {
            inputs: &inputs,
            reads: &InputOptions::default(),
            outputs: &outputs,
            writes: &writes,
        };
        let job = common::job(64 << 20, 2);
        let done = work(&job, &ends)?;
        assert_eq!(job.budget.used_bytes(), 0);
        let out = outputs[0].exists().then(|| read_parquet(&outputs[0]));
        Ok((done, out))
    }
}

fn order(names: &[&str]) -> TableOrder {
    let keys = names.iter().map(|name| KeyColumn::parse(name).unwrap());
    TableOrder {
        keys: keys.collect(),
        is_stable: true,
        ..TableOrder::default()
    }
}

/// A job by the given columns.
type ByNames = fn(&Job, &TableEnds<'_>, &[&str]) -> Result<TableSummary>;

#[test]
fn a_job_by_a_field_does_what_it_does_by_a_column_of_the_same_values() {
    let jobs: &[(&str, ByNames)] = &[
        ("sort", |job, ends, names| sort(job, ends, &order(names))),
        ("unique", |job, ends, names| {
            unique(job, ends, &order(names))
        }),
        ("top", |job, ends, names| {
            top(job, ends, &order(names).keys, 77)
        }),
        ("dedup", |job, ends, names| {
            let by = (&order(names).keys[..], &Keep::Last);
            dedup(job, ends, by, None).map(|done| done.table)
        }),
        ("dedup, best", |job, ends, names| {
            let keep = Keep::Best(order(names).keys);
            dedup(job, ends, (&[KeyColumn::new("st.b")], &keep), None).map(|done| done.table)
        }),
        ("shuffle", |job, ends, names| {
            let names = names.iter().map(|name| name.split(':').next().unwrap());
            let groups: Vec<_> = names.map(KeyColumn::new).collect();
            shuffle(job, ends, (7, 0), &groups)
        }),
        ("window", |job, ends, names| {
            let wanted = Window {
                by: order(&names[..1]).keys,
                order: order(&names[1..]).keys,
                columns: WindowColumn::parse_list("rank,lag(st.a),first(st.b),s=cum_sum(st.a)")?,
                first: None,
            };
            window(job, ends, &wanted)
        }),
    ];
    let folder = Folder::with(&[&objects(1_500, 3)]);
    for (what, work) in jobs {
        let by = |names: &[&str]| {
            let (_, out) = folder.run(|job, ends| work(job, ends, names)).unwrap();
            out.unwrap()
        };
        for (fields, columns) in [
            (["st.a", "st.b"], ["flat", "st.b"]),
            (["st.a:desc", "row"], ["flat:desc", "row"]),
            (
                ["st.a:nulls-first", "row:desc"],
                ["flat:nulls-first", "row:desc"],
            ),
        ] {
            let (out, wanted) = (by(&fields), by(&columns));
            assert_eq!(out, wanted, "{what} by {fields:?}");
            assert_eq!(
                &out.schema().fields()[..4],
                objects(1, 1).schema().fields().as_ref()
            );
        }
    }
}

#[test]
fn sorted_files_are_merged_and_verified_by_a_field() {
    let folder = Folder::with(&[&objects(900, 5), &objects(700, 6)]);
    let by_field = order(&["st.a:desc", "row"]);
    for number in 0..2 {
        let input = [folder.path(&format!("in-{number}.parquet"))];
        let output = [folder.path(&format!("sorted-{number}.parquet"))];
        let sorted = |job: &Job, ends: &TableEnds<'_>| {
            let ends = TableEnds {
                inputs: &input,
                outputs: &output,
                ..*ends
            };
            sort(job, &ends, &by_field)
        };
        folder.run(sorted).unwrap();
    }
    let sorted = [
        folder.path("sorted-0.parquet"),
        folder.path("sorted-1.parquet"),
    ];
    let merged = |by: &TableOrder| {
        let (_, out) = folder
            .run(|job, ends| {
                merge(
                    job,
                    &TableEnds {
                        inputs: &sorted,
                        ..*ends
                    },
                    by,
                )
            })
            .unwrap();
        out.unwrap()
    };
    let out = merged(&by_field);
    assert_eq!(out.num_rows(), 1_600);
    assert_eq!(out, merged(&order(&["flat:desc", "row"])));
    let check = |inputs: &[PathBuf]| {
        let reads = InputOptions::default();
        let job = common::job(64 << 20, 2);
        verify(&job, (inputs, &reads), &by_field.keys, None)
            .unwrap()
            .0
            .first_unordered
    };
    assert_eq!(check(&[folder.path("out.parquet")]), None);
    assert!(check(&[folder.path("in-0.parquet")]).is_some());
}

#[test]
fn rows_are_paired_by_fields() {
    let (left, right) = (objects(300, 8), objects(200, 9));
    let folder = Folder::with(&[&left, &right]);
    let rights = [folder.path("in-1.parquet")];
    let joined = |on: &str, kind: JoinKind, is_unordered: bool| {
        let wanted = Join {
            on: vec![ColumnPair::parse(on).unwrap()],
            kind,
            is_unordered,
            columns: Some(["row", "row_right"].map(str::to_owned).to_vec())
                .filter(|_| !matches!(kind, JoinKind::Semi | JoinKind::Anti)),
            ..Join::default()
        };
        let (_, out) = folder
            .run(|job, ends| join(job, ends, (&rights, ends.reads), &wanted))
            .unwrap();
        out.unwrap()
    };
    for (_, kind) in JoinKind::ALL {
        for is_unordered in [false, true] {
            let wanted = joined("flat", kind, is_unordered);
            for on in ["st.a", "st.a=flat", "flat=st.a"] {
                assert_eq!(joined(on, kind, is_unordered), wanted, "{kind:?} on {on}");
            }
        }
    }
}

/// A row of the right table without a partner keeps its key in the columns of that table.
#[test]
fn no_key_is_lost_where_one_side_has_it_in_objects() {
    let left = objects(40, 8);
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![1_000, 2_000]));
    let right = RecordBatch::try_from_iter([("flat", keys)]).unwrap();
    let folder = Folder::with(&[&left, &right]);
    let rights = [folder.path("in-1.parquet")];
    let full = |on: &str| {
        let wanted = Join {
            on: vec![ColumnPair::parse(on).unwrap()],
            kind: JoinKind::Full,
            ..Join::default()
        };
        let (_, out) = folder
            .run(|job, ends| join(job, ends, (&rights, ends.reads), &wanted))
            .unwrap();
        out.unwrap()
    };
    let numbers = |batch: &RecordBatch, name: &str| {
        let found = batch[name].as_primitive::<Int64Type>().iter().flatten();
        found.filter(|key| *key >= 1_000).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&full("st.a=flat"), "flat_right"), [1_000, 2_000]);
    assert_eq!(numbers(&full("flat=flat"), "flat"), [1_000, 2_000]);
}

#[test]
fn a_field_names_directories_and_the_objects_stay_in_the_files() {
    let batch = objects(400, 4);
    let folder = Folder::with(&[&batch]);
    let dir = folder.path("out");
    std::fs::create_dir(&dir).unwrap();
    let keys = ["st.b".to_owned()];
    let work = |job: &Job, ends: &TableEnds<'_>| {
        partition(
            job,
            &TableEnds {
                outputs: &[],
                ..*ends
            },
            &keys,
            &dir,
            "part.parquet",
        )
    };
    let ((done, paths), _) = folder.run(work).unwrap();
    assert_eq!((done.rows_out, paths.len()), (400, 4));
    for path in paths {
        let out = read_parquet(&path);
        assert_eq!(out.schema().fields(), batch.schema().fields());
        let value = path
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap();
        let value = value.strip_prefix("st.b=").unwrap().to_owned();
        let objects = out["st"].as_struct();
        let words = objects.column(1).as_string::<i32>();
        for row in 0..out.num_rows() {
            let word = objects.is_valid(row).then(|| words.value(row));
            let name = match word {
                None => "__HIVE_DEFAULT_PARTITION__",
                Some("Straße") => "Stra%C3%9Fe",
                Some(word) => word,
            };
            assert!(
                value == name || value == "Straße" && word == Some("Straße"),
                "{value}"
            );
        }
    }
}

#[test]
fn tables_are_compared_by_a_field() {
    let left = objects(60, 2);
    let mut columns = left.columns().to_vec();
    let rows = left["row"].as_primitive::<Int64Type>();
    columns[3] = Arc::new(rows.unary::<_, Int64Type>(|row| if row == 7 { -1 } else { row }));
    let right = RecordBatch::try_new(left.schema(), columns).unwrap();
    let folder = Folder::with(&[&left, &right]);
    let rights = [folder.path("in-1.parquet")];
    let compared = |by: &str| {
        let keys = [KeyColumn::new(by)];
        let work = |job: &Job, ends: &TableEnds<'_>| diff(job, ends, (&rights, ends.reads), &keys);
        let (done, out) = folder.run(work).unwrap();
        (
            (
                done.left_rows,
                done.right_rows,
                done.equal_rows + done.changed_rows,
            ),
            out.unwrap(),
        )
    };
    let ((left_rows, right_rows, paired), out) = compared("st.a");
    assert_eq!((left_rows, right_rows, paired), compared("flat").0);
    let schema = out.schema();
    let names: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(names[..4], ["diff", "diff_columns", "st.a", "st_left"]);
    let keys = out["st.a"].as_primitive::<Int64Type>();
    assert!(
        out["flat_left"]
            .as_primitive::<Int64Type>()
            .iter()
            .eq(keys.iter())
    );
}

#[test]
fn a_view_is_searched_by_a_field() {
    let batch = objects(500, 11);
    let folder = Folder::with(&[&batch]);
    let dir = folder.path("view");
    std::fs::create_dir(&dir).unwrap();
    let by = TableOrder {
        is_stable: false,
        ..order(&["st.a:desc", "row"])
    };
    let job = common::job(64 << 20, 2);
    let inputs = [folder.path("in-0.parquet")];
    let reads = InputOptions::default();
    let options = BuildOptions {
        run_bytes: Some(3_000),
        ..BuildOptions::default()
    };
    let (view, _) = build(&job, (&inputs, &reads), &by, &dir, options).unwrap();
    let flat = batch["flat"].as_primitive::<Int64Type>();
    for (text, key) in [("3", Some(3)), ("-20", Some(-20)), ("", None)] {
        let found = view.find(&view.key_of(text).unwrap()).unwrap();
        let wanted = flat.iter().filter(|value| *value == key).count();
        assert_eq!((found.end - found.start) as usize, wanted, "{text}");
    }
}

#[test]
fn what_is_no_field_is_named() {
    let folder = Folder::with(&[&objects(20, 3)]);
    for (name, parts) in [
        ("st.aa", ["no field `st.aa`", "did you mean `st.a`?"]),
        ("st.a.b", ["no field `st.a.b`", "did you mean `st.a`?"]),
        (
            "lists.item",
            ["no column `lists.item`", "only structs have fields"],
        ),
        ("rwo", ["no column `rwo`", "did you mean `row`?"]),
    ] {
        let error = folder
            .run(|job, ends| sort(job, ends, &order(&[name])))
            .unwrap_err();
        let error = error.to_string();
        for part in parts {
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}

#[test]
fn a_key_that_is_not_read_is_said_to_be_left_out() {
    let folder = Folder::with(&[&objects(20, 3)]);
    let reads = InputOptions {
        columns: Some(vec!["row".to_owned()]),
        ..InputOptions::default()
    };
    for name in ["flat", "st.a"] {
        let work = |job: &Job, ends: &TableEnds<'_>| {
            let ends = TableEnds {
                reads: &reads,
                ..*ends
            };
            sort(job, &ends, &order(&[name]))
        };
        let error = folder.run(work).unwrap_err().to_string();
        let told = format!("the table has `{name}`, but --columns leaves it out");
        assert!(error.contains(&told), "{error}");
    }
}
