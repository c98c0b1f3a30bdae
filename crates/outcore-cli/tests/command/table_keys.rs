//! Tables whose rows are put together by keys: joined, and grouped.
//!
//! Contract: as [`crate::tables`].

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use serde_json::json;

use crate::support::TestDir;
use crate::tables::{batch, read, rows_of, write};

#[test]
fn two_tables_are_joined_by_the_columns_that_are_named() {
    let place = TestDir::new();
    let all = batch(400);
    write(&place.path("t.parquet"), &all);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values([3, 5, 5, 1_000_000]));
    let seen: ArrayRef = Arc::new(Int64Array::from_iter_values([1, 2, 3, 4]));
    let few = RecordBatch::try_from_iter([("n", numbers), ("seen", seen)]).unwrap();
    write(&place.path("few.parquet"), &few);
    let rows = |how: &str| {
        let common = "join t.parquet few.parquet -o j.parquet --on number=n --force --json";
        let arguments: Vec<&str> = common.split(' ').chain(["--how", how]).collect();
        let summary = place.run(&arguments).ok().event("summary");
        assert_eq!(summary["rows_in"], json!(404));
        summary["records"].as_u64().unwrap() as usize
    };
    let matches = |number: i64| rows_of(&all).iter().filter(|row| row.1 == number).count();
    let (threes, fives) = (matches(3), matches(5));
    let far = matches(1_000_000);
    let partners = threes + fives + far;
    assert!(partners > 0);
    assert_eq!(rows("semi"), partners);
    assert_eq!(rows("anti"), 400 - partners);
    let inner = threes + 2 * fives + far;
    assert_eq!(rows("inner"), inner);
    assert_eq!(rows("left"), inner + 400 - partners);
    let alone = [(threes, 1), (fives, 2), (far, 1)];
    let alone: usize = alone
        .iter()
        .map(|(found, rows)| if *found == 0 { *rows } else { 0 })
        .sum();
    assert_eq!(rows("right"), inner + alone);
    assert_eq!(rows("full"), inner + alone + 400 - partners);
    std::fs::remove_file(place.path("j.parquet")).unwrap();
    let refused = [
        (&["--on", "numbr=n"][..], "numbr", "`number`"),
        (&["--on", "name=n"], "`name`", "convert"),
        (&[], "go together", "--on"),
        (&["--on", "number=n", "--how", "outer"], "`outer`", "full"),
        (&["--on", "number=n", "--tolerance", "3"], "--asof", ""),
        (&["--on", "number=n", "--parts", "2"], "", ""),
    ];
    for (arguments, cause, hint) in refused {
        let is_parts = arguments.contains(&"--parts");
        let out = if is_parts { "x" } else { "x.parquet" };
        let common = ["join", "t.parquet", "few.parquet", "-o", out];
        place
            .run(&[&common, arguments].concat())
            .fails(2, &[cause], hint);
    }
    assert_eq!(place.names(), ["few.parquet", "t.parquet"]);
}

#[test]
fn groups_of_a_table_come_in_order_with_what_is_computed_of_each() {
    let place = TestDir::new();
    let all = batch(4_000);
    write(&place.path("t.parquet"), &all);
    let arguments =
        "group-by t.parquet -o g.parquet --by name --agg count --agg number=sum(number) --json";
    let answer = place.run(&arguments.split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(answer.event("summary")["rows_in"], json!(4_000));
    let mut expected: Vec<(Option<String>, i64)> = Vec::new();
    for (name, number) in rows_of(&all) {
        match expected.iter_mut().find(|group| group.0 == name) {
            Some(group) => group.1 += number,
            None => expected.push((name, number)),
        }
    }
    expected.sort_by_key(|(name, _)| (name.is_none(), name.clone()));
    assert!(read(&place.path("g.parquet")) == expected);
    let refused = [
        (&["--by", "nmae"][..], "nmae", "`name`"),
        (
            &["--by", "name", "--agg", "sum(name)"],
            "sum(name)",
            "count",
        ),
        (
            &["--by", "name", "--agg", "total(number)"],
            "`total`",
            "sum(C)",
        ),
        (&["--by", "name", "--parts", "2"], "", ""),
    ];
    for (arguments, cause, hint) in refused {
        let common = ["group-by", "t.parquet", "-o", "x"];
        let suffix = if arguments.contains(&"--parts") {
            "x"
        } else {
            "x.parquet"
        };
        let common = [common[0], common[1], common[2], suffix];
        place
            .run(&[&common, arguments].concat())
            .fails(2, &[cause], hint);
    }
    assert_eq!(place.names(), ["g.parquet", "t.parquet"]);
}
