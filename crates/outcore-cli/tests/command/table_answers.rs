//! A few generated tables through every job, compared with the answers of DuckDB and pyarrow.
//!
//! Contract: as `benches/peers/table_answers.py`, which does the same with thousands of tables
//! (`make test-tables`). If `PYTHON` has no DuckDB or no pyarrow, the tests are skipped with a
//! message.

use std::path::Path;
use std::process::Command;

use crate::support::TestDir;

#[test]
fn every_job_on_tables_gives_what_duckdb_and_pyarrow_give() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_string());
    let probe = Command::new(&python)
        .args(["-c", "import duckdb, pyarrow.parquet"])
        .output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("SKIP: {python} has no DuckDB or no pyarrow (set PYTHON to one that has both)");
        return;
    }
    let place = TestDir::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let done = Command::new(&python)
        .arg("-B")
        .arg(root.join("benches/peers/table_answers.py"))
        .args([
            "--outcore",
            env!("CARGO_BIN_EXE_outcore"),
            "--schemas",
            "12",
        ])
        .args(["--workers", "1", "--dir"])
        .arg(place.dir())
        .output()
        .unwrap();
    let (told, failed) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(done.status.success(), "{told}{failed}");
    assert!(told.contains("12 schemas, 156 jobs"), "{told}{failed}");
}

#[test]
fn zeros_and_nans_are_one_key_in_every_job_and_what_json_has_not_is_refused() {
    let place = TestDir::new();
    place.write(
        "f.csv",
        b"f,id\n0.0,0\n-0.0,1\nNaN,2\ninf,3\n-1.5,4\nNaN,5\n",
    );
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    run("convert f.csv -o f.parquet --schema f:f64,id:i64").ok();
    run("dedup f.parquet --by f -o kept.csv").ok();
    assert_eq!(
        place.read("kept.csv"),
        b"f,id\n0.0,0\nNaN,2\ninf,3\n-1.5,4\n"
    );
    run("sort -s f.parquet --by f -o sorted.csv").ok();
    let sorted = "f,id\n-1.5,4\n0.0,0\n-0.0,1\ninf,3\nNaN,2\nNaN,5\n";
    assert_eq!(place.read("sorted.csv"), sorted.as_bytes());
    run("unique f.parquet --by f -o distinct.csv").ok();
    assert_eq!(
        place
            .read("distinct.csv")
            .iter()
            .filter(|byte| **byte == b'\n')
            .count(),
        5
    );

    for (line, cause) in [
        ("{\"a\":1 \"b\":2}", "not JSON"),
        ("{\"a\":1,\"a\":5}", "occurs twice"),
        ("{\"a\":2,}", "trailing comma"),
    ] {
        place.write("t.jsonl", format!("{{\"a\":1}}\n{line}\n").as_bytes());
        run("convert t.jsonl -o t.parquet").fails(4, &["line 2", cause], "correct");
    }
    place.write(
        "t.jsonl",
        b"{\"a\":1}\n{\"a\":2.5}\n{\"a\":9007199254740993}\n",
    );
    run("convert t.jsonl -o t.csv --infer").ok();
    assert_eq!(place.read("t.csv"), b"a\n1\n2.5\n9007199254740993\n");
}

#[test]
fn patterns_are_the_files_that_they_match_and_addresses_are_refused() {
    let place = TestDir::new();
    for (name, row) in [("b", 2), ("a", 1), ("c", 3)] {
        place.write(&format!("{name}.csv"), format!("x\n{row}\n").as_bytes());
    }
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    run("convert [ab].csv -o ab.parquet").ok();
    run("convert ab.parquet -o x.csv").ok();
    assert_eq!(place.read("x.csv"), b"x\n1\n2\n");
    run("convert *.txt -o y.parquet").fails(2, &["*.txt"], "pattern");
    run("convert hdfs://bucket/x.parquet -o y.parquet").fails(2, &["hdfs://"], "copy");
    run("convert ab.parquet -o hdfs://bucket/y.parquet").fails(2, &["hdfs://"], "copy");
    run("convert ab.parquet -o y.parquet --schema x:i8").fails(2, &["--schema"], "map");
    assert!(!place.path("y.parquet").exists());
}
