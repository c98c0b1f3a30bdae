//! Limits the length of files and functions, so that a reader can grasp them.
//!
//! Contract: a `.rs` or `.py` file above 700 lines is a warning unless listed, above 900 an error
//! that no list excuses. A Python function's body above 100 lines is an error unless listed. Clippy
//! checks the functions of Rust (`too_many_lines`).

use super::tree::Tree;
use super::{Finding, Severity, python};

const FILE_LINES: usize = 700;
const FILE_LINES_MAX: usize = 900;
const BODY_LINES_MAX: usize = 100;

/// Checks files and functions.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_code = |extension: &str| matches!(extension, "rs" | "py");
    for file in tree
        .files()
        .iter()
        .filter(|f| is_code(f.extension()) && !f.is_fixture())
    {
        let file_lines = file.text.lines().count();
        if file_lines > FILE_LINES {
            findings.push(long_file(&file.path, file_lines));
        }
        if file.extension() == "py" {
            for function in python::functions(&file.text) {
                let name = &function.name;
                findings.extend(long_body(
                    &file.path,
                    name,
                    function.line,
                    function.body_lines,
                ));
            }
        }
    }
    findings
}

fn long_file(path: &str, file_lines: usize) -> Finding {
    let is_hard = file_lines > FILE_LINES_MAX;
    Finding {
        path: path.to_owned(),
        line: FILE_LINES + 1,
        check: if is_hard {
            "file-length-limit"
        } else {
            "file-length"
        },
        item: String::new(),
        what: format!(
            "{file_lines} lines; {FILE_LINES} is the goal and {FILE_LINES_MAX} the limit"
        ),
        why: "a file is one idea that is read in one sitting",
        fix: "split it where the idea splits".to_owned(),
        severity: if is_hard {
            Severity::Error
        } else {
            Severity::Warning
        },
    }
}

fn long_body(path: &str, name: &str, line: usize, body_lines: usize) -> Option<Finding> {
    (body_lines > BODY_LINES_MAX).then(|| Finding {
        path: path.to_owned(),
        line,
        check: "function-length",
        item: name.to_owned(),
        what: format!("`{name}` has {body_lines} lines, {BODY_LINES_MAX} are allowed"),
        why: "a function is read at a glance",
        fix: "give its steps names of their own".to_owned(),
        severity: Severity::Error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(&'static str, Severity, String)> {
        let tree = Tree::of(&[(path, text)]);
        let findings = check(&tree);
        findings
            .into_iter()
            .map(|f| (f.check, f.severity, f.item))
            .collect()
    }

    #[test]
    fn long_files_warn_and_longer_ones_fail() {
        let lines = |count| "//\n".repeat(count);
        assert!(found("a.rs", &lines(700)).is_empty());
        assert_eq!(found("a.rs", &lines(701))[0].1, Severity::Warning);
        let hard = found("a.rs", &lines(901));
        assert_eq!(
            (hard[0].0, hard[0].1),
            ("file-length-limit", Severity::Error)
        );
        assert_eq!(found("a.py", &"#\n".repeat(901)).len(), 1);
    }

    #[test]
    fn a_long_body_is_found() {
        let python = |count| format!("def f():\n{}\nx = 1\n", "    g()\n".repeat(count));
        assert!(found("a.py", &python(100)).is_empty());
        assert_eq!(found("a.py", &python(101))[0].2, "f");
    }
}
