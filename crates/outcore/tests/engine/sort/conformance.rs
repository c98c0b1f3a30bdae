//! Every case of the conformance kit, on drives in memory; and the kit itself.
//!
//! Contract: the engine and the oracle sort each case, and both outputs are the same bytes. The
//! table in `tests/conformance/cases.json` equals that of `support::cases` (`OUTCORE_BLESS=1`
//! writes it). The kit in Python makes the same data in the same order.

use std::path::Path;
use std::process::Command;

use crate::support::cases::{Case, CaseLine, cases};
use crate::support::runs::{Sort, assert_same};
use crate::support::{is_long, oracle};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance");

#[test]
fn the_engine_agrees_with_the_oracle_on_every_case() {
    let mut lines = Vec::new();
    for case in cases() {
        let input = case.input();
        let format = case.record_format();
        let expected = oracle::sorted(&input, &format, case.options());
        lines.push(case.line(&input, &expected));
        let mut sort = Sort::of(&format, input);
        sort.options = case.options();
        let (summary, output) = sort.on_ram().unwrap();
        assert_same(&output, &expected, format.record_bytes(), &case.name());
        assert_eq!(
            summary.records as usize * format.record_bytes(),
            expected.len()
        );
    }
    check_table(&lines);
}

/// One case per line, so that differences are readable.
fn check_table(lines: &[CaseLine]) {
    let path = Path::new(DIR).join("cases.json");
    if std::env::var_os("OUTCORE_BLESS").is_some() {
        let texts: Vec<String> = lines
            .iter()
            .map(|line| serde_json::to_string(line).unwrap())
            .collect();
        std::fs::write(&path, format!("[\n{}\n]\n", texts.join(",\n"))).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let known: Vec<CaseLine> = serde_json::from_str(&text).unwrap();
    assert_eq!(known.len(), lines.len(), "OUTCORE_BLESS=1 writes the table");
    for (known, line) in known.iter().zip(lines) {
        assert_eq!(known, line, "OUTCORE_BLESS=1 writes the table");
    }
}

#[test]
fn cases_have_names_of_their_own() {
    let mut names: Vec<String> = cases().iter().map(Case::name).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn the_kit_in_python_makes_the_same_data_and_the_same_order() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_string());
    let limit = if is_long() { "10000000" } else { "700" };
    let script = Path::new(DIR).join("conformance.py");
    let Ok(output) = Command::new(&python).arg(script).arg(limit).output() else {
        println!("SKIP: no {python} (set PYTHON to one)");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("cases agree"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{text}");
}
