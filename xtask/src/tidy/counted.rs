//! Rules whose breaches are counted per file, against the ceilings of [`super::ceilings`].
//!
//! Contract: each rule gives one finding per breach. Test code and fixtures are exempt, except for
//! the width of comments, which applies everywhere.
//!
//! | rule | breach |
//! |---|---|
//! | `comment-width` | a comment line of a `.rs` file with more than 100 characters |
//! | `flag-words` | a string of a crate below the front that contains a `--flag` |
//! | `std-fs` | a path through `std::fs` in a crate above `outcore-io` |
//! | `tuple-parameters` | a parameter of a function whose type holds a tuple |

use super::dead::Modules;
use super::rust::{Source, Sources};
use super::tree::{TextFile, Tree};
use super::{Finding, Severity};

const COMMENT_CHARS_MAX: usize = 100;
/// The crates that know neither commands nor options.
const BELOW_THE_FRONT: [&str; 6] = [
    "crates/outcore-io/",
    "crates/outcore-store/",
    "crates/outcore/",
    "crates/outcore-table/",
    "crates/outcore-graph/",
    "crates/outcore-vector/",
];
/// The crate that opens files for all others.
const OPENS_FILES: &str = "crates/outcore-io/";
/// Folders whose programs are shipped.
const SHIPPED: [&str; 3] = ["crates/", "lab/", "python/"];

/// Checks all four rules.
pub(super) fn check(tree: &Tree, sources: &Sources, modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        if file.extension() == "rs" && !file.is_fixture() {
            wide_comments(file, &mut findings);
        }
    }
    for source in sources.all() {
        if !modules.is_test_file(&source.path) {
            flag_words(source, &mut findings);
            std_fs(source, &mut findings);
            tuple_parameters(source, &mut findings);
        }
    }
    findings
}

fn wide_comments(file: &TextFile, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        let chars_count = line.chars().count();
        if line.trim_start().starts_with("//") && chars_count > COMMENT_CHARS_MAX {
            findings.push(Finding {
                what: format!("a comment of {chars_count} columns"),
                why: "two files stand next to each other on a screen of 200 columns",
                fix: format!("break it at {COMMENT_CHARS_MAX}"),
                ..finding("comment-width", &file.path, index + 1)
            });
        }
    }
}

fn flag_words(source: &Source, findings: &mut Vec<Finding>) {
    if !BELOW_THE_FRONT.iter().any(|f| source.path.starts_with(f)) {
        return;
    }
    for text in &source.tokens.texts {
        let Some(flag) = flag_in(&text.literal).filter(|_| !source.is_test_line(text.line)) else {
            continue;
        };
        findings.push(Finding {
            item: flag.to_owned(),
            what: format!("the string names the command's `{flag}`"),
            why: "callers from Python and Rust do not know the command's flags",
            fix: "name the option as a value that each face spells".to_owned(),
            ..finding("flag-words", &source.path, text.line)
        });
    }
}

/// The first `--word` of a text.
fn flag_in(text: &str) -> Option<&str> {
    let is_inner = |sign: char| sign.is_ascii_alphanumeric() || sign == '-' || sign == '_';
    text.match_indices("--").find_map(|(at, _)| {
        let begins = !text[..at].ends_with(is_inner);
        let word = &text[at + 2..];
        let is_word = begins && word.starts_with(|sign: char| sign.is_ascii_lowercase());
        let length_bytes = word.find(|sign| !is_inner(sign)).unwrap_or(word.len());
        is_word.then(|| &text[at..at + 2 + length_bytes])
    })
}

fn std_fs(source: &Source, findings: &mut Vec<Finding>) {
    let is_shipped = SHIPPED.iter().any(|folder| source.path.starts_with(folder));
    if !is_shipped || source.path.starts_with(OPENS_FILES) {
        return;
    }
    let imports_fs = source
        .imports
        .iter()
        .any(|import| import.name.as_deref() == Some("fs") && import.path == ["std", "fs"]);
    for path in &source.tokens.paths {
        let first: Vec<&str> = path.segments.iter().take(2).map(String::as_str).collect();
        let is_through = first == ["std", "fs"] || (imports_fs && first[0] == "fs");
        if is_through && !source.is_test_line(path.line) {
            findings.push(Finding {
                item: path.segments.join("::"),
                what: format!("`{}` goes past `FileSystem`", path.segments.join("::")),
                why: "faults and object stores work at that seam, and do not see this access",
                fix: "go through outcore-io".to_owned(),
                ..finding("std-fs", &source.path, path.line)
            });
        }
    }
}

fn tuple_parameters(source: &Source, findings: &mut Vec<Finding>) {
    for parameter in &source.tuple_parameters {
        if !source.is_test_line(parameter.line) {
            findings.push(Finding {
                item: parameter.item.clone(),
                what: format!("`{}` is a tuple", parameter.item),
                why: "values without names are swapped and misread",
                fix: "give them a struct with named fields".to_owned(),
                ..finding("tuple-parameters", &source.path, parameter.line)
            });
        }
    }
}

fn finding(check: &'static str, path: &str, line: usize) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        check,
        item: String::new(),
        what: String::new(),
        why: "",
        fix: String::new(),
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let tree = Tree::of(&[("crates/a/src/lib.rs", ""), (path, text)]);
        let sources = Sources::of(&tree);
        let modules = Modules::of(&tree, &sources);
        let findings = check(&tree, &sources, &modules);
        findings.into_iter().map(|f| (f.check, f.line)).collect()
    }

    #[test]
    fn comments_over_a_hundred_columns_are_found_in_every_form() {
        for mark in ["//", "///", "//!", "    //"] {
            let line = |chars: usize| format!("{mark}{}\n", "x".repeat(chars - mark.len()));
            assert_eq!(found("examples/a.rs", &line(100)), []);
            assert_eq!(found("examples/a.rs", &line(101)), [("comment-width", 1)]);
        }
        let code = format!("const A: &str = \"// {}\";\n", "x".repeat(200));
        assert_eq!(found("examples/a.rs", &code), []);
    }

    #[test]
    fn flags_are_found_in_strings_below_the_front_alone() {
        let text = "/// As `--memory`.\nfn f() { g(\"give --memory more\"); h(\"a--b\", \"--\"); }";
        let file = "crates/outcore/src/job/a.rs";
        assert_eq!(found(file, text), [("flag-words", 2)]);
        assert_eq!(found("crates/outcore-cli/src/a.rs", text), []);
        let test = format!("#[cfg(test)]\nmod tests {{ {text} }}");
        assert_eq!(found(file, &test), []);
    }

    #[test]
    fn files_opened_past_the_seam_are_found_however_they_are_named() {
        let ways = [
            "fn f() { std::fs::read(p); }",
            "use std::fs::File;",
            "use std::{fs::File, io};",
        ];
        let file = "crates/outcore-front/src/a.rs";
        for way in ways {
            assert_eq!(found(file, way), [("std-fs", 1)], "{way}");
            assert_eq!(found("crates/outcore-io/src/a.rs", way), [], "{way}");
        }
        let imported = "use std::fs;\nfn f() { fs::read(p); }";
        assert_eq!(found(file, imported), [("std-fs", 1), ("std-fs", 2)]);
        assert_eq!(found(file, "use rustix::fs;\nfn f() { fs::read(p); }"), []);
    }

    #[test]
    fn tuples_of_tests_and_of_traits_defined_elsewhere_pass() {
        let file = "crates/a/src/b.rs";
        assert_eq!(
            found(file, "fn f(a: (u8, u8)) {}"),
            [("tuple-parameters", 1)]
        );
        let test = "#[cfg(test)]\nmod tests { fn f(a: (u8, u8)) {} }";
        assert_eq!(found(file, test), []);
    }
}
