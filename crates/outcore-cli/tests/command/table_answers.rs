//! A few generated tables through every job, beside the answers of DuckDB and pyarrow.
//!
//! Contract: as `benches/peers/table_answers.py`, which does the same with thousands of them (`make test-tables`). Skips, saying
//! so, where `PYTHON` has no DuckDB or no pyarrow.

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
