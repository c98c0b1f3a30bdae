//! Files that are made from the definition of the verbs: each must be as it would be made now.
//!
//! `OUTCORE_GENERATE=1 cargo test --workspace --test generated` makes them anew.

mod python;

use std::fs;
use std::path::Path;

/// Fails if the file at `name` of the repository is not `text`; writes it if that is asked for.
fn check(name: &str, text: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(name);
    if std::env::var_os("OUTCORE_GENERATE").is_some() {
        fs::write(&path, text).unwrap();
        return;
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let line = found.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(
        found == text,
        "{name} is stale at line {}: OUTCORE_GENERATE=1 cargo test --workspace --test generated",
        line.unwrap_or(0) + 1
    );
}

#[test]
fn functions_and_reports_of_python_are_those_of_the_verbs() {
    check("python/outcore/_verbs.py", &python::module());
}
