//! Checks that this repository keeps the house rules.
//!
//! Contract: fails if there is a finding, and prints every finding as `cargo xtask tidy` does.

use xtask::tidy::{self, Severity, Tree};

#[test]
fn the_tree_is_tidy() {
    let root = xtask::repository_root().unwrap();
    let report = tidy::check(&Tree::read(&root).unwrap()).unwrap();
    assert!(
        report.files_count > 10,
        "only {} files seen in {root:?}",
        report.files_count
    );
    let (errors, warnings): (Vec<_>, Vec<_>) = report
        .findings
        .iter()
        .partition(|finding| finding.severity == Severity::Error);
    for finding in &warnings {
        println!("{finding}");
    }
    let listed: String = errors
        .iter()
        .map(|finding| format!("\n{finding}"))
        .collect();
    assert!(errors.is_empty(), "{} findings:{listed}", errors.len());
}
