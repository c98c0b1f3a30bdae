//! Checks that every source begins with its contract: its purpose and its guarantees.
//!
//! Contract: the first thing in a `.rs` file (after a shebang) is a `//!` comment of two lines or
//! more; the first in a `.py` file (after comments) is a docstring.

use super::tree::Tree;
use super::{Finding, Severity, python};

const CONTRACT_LINES_MIN: usize = 2;

/// Checks every Rust and Python source.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().iter().filter(|file| !file.is_fixture()) {
        let fault = match file.extension() {
            "rs" => rust_fault(&file.text),
            "py" if !python::has_docstring(&file.text) => Some("no docstring opens the file"),
            _ => None,
        };
        if let Some(fault) = fault {
            findings.push(Finding {
                path: file.path.clone(),
                line: 1,
                check: "contract",
                item: String::new(),
                what: fault.to_owned(),
                why: "a reader of a file must learn what it promises before how it does it",
                fix: "open with purpose, source (paper and section), invariants, and bounds on \
                      memory and I/O"
                    .to_owned(),
                severity: Severity::Error,
            });
        }
    }
    findings
}

fn rust_fault(text: &str) -> Option<&'static str> {
    let is_shebang = |line: &&str| line.starts_with("#!") && !line.starts_with("#![");
    let lines = text
        .lines()
        .skip_while(|line| line.trim().is_empty() || is_shebang(line));
    let said = lines
        .take_while(|line| line.starts_with("//!"))
        .filter(|line| line.len() > "//! ".len())
        .count();
    match said {
        0 => Some("no `//!` contract opens the file"),
        said if said < CONTRACT_LINES_MIN => Some("the contract is a single line"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn a_file_without_a_contract_is_found() {
        for text in [
            "",
            "fn f() {}",
            "use a;\n//! late\n//! later",
            "//! One line.\n//!\nfn f() {}",
        ] {
            assert_eq!(found("a.rs", text), 1, "{text}");
        }
        assert_eq!(found("a.py", "import os\n"), 1);
        assert_eq!(found("python/outcore/__init__.py", ""), 1);
    }

    #[test]
    fn a_file_with_a_contract_passes() {
        assert_eq!(
            found(
                "a.rs",
                "//! What it is.\n//!\n//! Contract: so.\n\nuse a;\n"
            ),
            0
        );
        assert_eq!(
            found(
                "a.py",
                "#!/usr/bin/env python3\n\"\"\"What it is for.\"\"\"\n"
            ),
            0
        );
    }
}
