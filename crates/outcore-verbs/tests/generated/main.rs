//! Files that are made from the definition of the verbs. A test fails if a file differs from what
//! would be made now.
//!
//! Contract: nothing is written unless `OUTCORE_GENERATE` is set:
//! `OUTCORE_GENERATE=1 cargo test --workspace --test generated` makes them anew.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod examples;
mod json;
mod keywords;
mod plain;
mod python;
mod reports;

use std::fs;
use std::path::Path;

use clap::{Args as _, Command};
use outcore_verbs::verb::{Verb, VerbVisitor};
use outcore_verbs::visit_verbs;

/// Fails if the file at `name` of the repository is not `text`; writes it on request.
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

/// Fails if the text between the marks of `section` in the file at `name` is not `text`; writes it
/// on request. A mark is a comment between `open` and `close`.
fn check_section(name: &str, section: &str, (open, close): (&str, &str), text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    let whole = fs::read_to_string(path).unwrap();
    let mark = |end: &str| format!("{open} {section}: {end}{close}\n");
    let (before, rest) = whole.split_once(&mark("begin")).unwrap();
    let (_, after) = rest.split_once(&mark("end")).unwrap();
    let made = [before, &mark("begin"), text, &mark("end"), after].concat();
    check(name, &made);
}

/// The columns of a line of Python.
const LINE_COLUMNS: usize = 110;

/// A text in lines of at most [`LINE_COLUMNS`].
fn wrapped(text: &str, first: &str, rest: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > LINE_COLUMNS {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

#[test]
fn the_reference_of_json_has_the_fields_of_all_reports() {
    check_section(
        "docs/json.md",
        "reports",
        ("<!--", " -->"),
        &json::sections(),
    );
}

/// The options of all verbs, by their names in the definition.
#[derive(Default)]
struct Ids(Vec<String>);

impl VerbVisitor for Ids {
    fn visit<V: Verb>(&mut self) {
        let command = V::Args::augment_args(Command::new(V::NAME));
        let ids = command.get_arguments().map(|arg| arg.get_id().to_string());
        self.0.extend(ids);
    }
}

#[test]
fn what_python_says_otherwise_are_options_of_verbs() {
    let mut ids = Ids::default();
    visit_verbs(&mut ids);
    assert_eq!(keywords::unknown(&ids.0), Vec::<&str>::new());
}

#[test]
fn functions_and_reports_of_python_are_those_of_the_verbs() {
    let python::Package { modules, names } = python::package();
    let [
        of_lines,
        of_parts,
        of_rows,
        of_tables,
        of_records,
        of_views,
        of_volumes,
        of_machine,
    ] = modules;
    check_section("python/outcore/__init__.py", "verbs", ("#", ""), &names);
    check("python/outcore/_verbs.py", &of_lines);
    check("python/outcore/_part_verbs.py", &of_parts);
    check("python/outcore/_row_verbs.py", &of_rows);
    check("python/outcore/_table_verbs.py", &of_tables);
    check("python/outcore/_record_verbs.py", &of_records);
    check("python/outcore/_view_verbs.py", &of_views);
    check("python/outcore/_volume_verbs.py", &of_volumes);
    check("python/outcore/_machine_verbs.py", &of_machine);
    check("python/outcore/_array_options.py", &python::array_options());
    let [of_data, of_places] = reports::modules();
    check("python/outcore/_reports.py", &of_data);
    check("python/outcore/_place_reports.py", &of_places);
    let wrong = plain::wrong();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
