//! Finds marks of unfinished work, and paths that exist only on one machine.
//!
//! Contract: unfinished work (marks in comments, ignored tests) is searched in sources, scripts and
//! build files, including tests. Paths of this machine are searched in every text except for
//! fixtures. The code below assembles the words from parts, so that this file does not find itself.
//! Clippy finds macros for unfinished code and calls that panic (`[workspace.lints]`).

use super::rust::{Source, Sources};
use super::tree::{TextFile, Tree};
use super::{Finding, Severity};

/// Marks of unfinished work.
const MARKS: [&str; 3] = [
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("HA", "CK"),
];
/// Python's own mark of a missing implementation.
const MARK_PYTHON: &str = concat!("NotImplemented", "Error");
/// Folders of the machines on which this project is developed.
const PLACES: [&str; 3] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp", "/oc/"),
];

const WHY_UNFINISHED: &str = "what is committed is finished; a user meets the gap first";
const WHY_PLACE: &str = "nobody else has this path";

/// Checks sources, scripts and pages.
pub(super) fn check(tree: &Tree, sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.all() {
        ignored(source, &mut findings);
    }
    for file in tree.files().iter().filter(|file| !file.is_fixture()) {
        if is_program(file) {
            marks(file, &mut findings);
        }
        places(file, tree.machine_places(), &mut findings);
    }
    findings
}

fn is_program(file: &TextFile) -> bool {
    let is_make = file.path.ends_with("Makefile") || file.path == ".ci/run";
    is_make
        || matches!(
            file.extension(),
            "rs" | "py" | "pyi" | "sh" | "toml" | "mk" | "yml"
        )
}

fn ignored(source: &Source, findings: &mut Vec<Finding>) {
    for line in &source.tokens.ignores {
        let fix = "run it, or let it skip by itself and print `SKIP: reason`";
        let what = "an ignored test".to_owned();
        findings.push(finding(
            &source.path,
            *line,
            "ignore",
            what,
            WHY_UNFINISHED,
            fix,
        ));
    }
}

fn marks(file: &TextFile, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        let python = (file.extension() == "py").then_some(MARK_PYTHON);
        for mark in MARKS.into_iter().chain(python) {
            if has_word(line, mark) {
                let (what, fix) = (format!("`{mark}`"), "finish it, or write what is true");
                findings.push(finding(
                    &file.path,
                    index + 1,
                    mark,
                    what,
                    WHY_UNFINISHED,
                    fix,
                ));
            }
        }
    }
}

fn places(file: &TextFile, own: &[String], findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        let all = PLACES.into_iter().chain(own.iter().map(String::as_str));
        if let Some(place) = all.into_iter().find(|place| has_path(line, place)) {
            let what = format!("a path of one machine: `{place}`");
            let fix = "write it relative to the repository, or take it from the caller";
            findings.push(finding(&file.path, index + 1, place, what, WHY_PLACE, fix));
        }
    }
}

/// Whether `word` is in the line without adjacent letters.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |sign: Option<char>| sign.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next())
    })
}

/// Whether the line contains the full path of a place, with or without a path below it.
fn has_path(line: &str, place: &str) -> bool {
    let bare = place.trim_end_matches('/');
    line.match_indices(bare).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + bare.len()..].chars().next();
        let is_whole = !before.is_some_and(|c| c.is_alphanumeric() || "._-~$}*)]/".contains(c));
        let is_deep = bare.matches('/').count() > 1;
        is_whole
            && match after {
                Some('/') => true,
                Some(sign) => is_deep && !sign.is_alphanumeric() && !"_-.".contains(sign),
                None => is_deep,
            }
    })
}

fn finding(
    path: &str,
    line: usize,
    item: &str,
    what: String,
    why: &'static str,
    fix: &str,
) -> Finding {
    let check = if why == WHY_PLACE { "paths" } else { "words" };
    Finding {
        path: path.to_owned(),
        line,
        check,
        item: item.to_owned(),
        what,
        why,
        fix: fix.to_owned(),
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let tree = Tree::of(&[("crates/a/Cargo.toml", "[package]\nname='a'"), (path, text)]);
        check(&tree, &Sources::of(&tree))
            .into_iter()
            .map(|f| (f.check, f.line))
            .collect()
    }

    #[test]
    fn ignored_tests_are_found() {
        let text = "#[test]\n#[ignore]\nfn h() {}\n";
        assert_eq!(found("crates/a/tests/t.rs", text), [("words", 2)]);
    }

    #[test]
    fn marks_of_unfinished_work_are_found_in_every_program() {
        for mark in MARKS {
            assert_eq!(
                found("crates/a/src/lib.rs", &format!("// {mark}: later")),
                [("words", 1)]
            );
            assert_eq!(
                found("scripts/x.sh", &format!("\n# {mark}")),
                [("words", 2)]
            );
            assert_eq!(found("Makefile", &format!("# ({mark})")), [("words", 1)]);
        }
        let raise = format!("def f():\n    raise {MARK_PYTHON}\n");
        assert_eq!(found("python/outcore/x.py", &raise), [("words", 2)]);
        let template = format!("mktemp -d t.{0}{0}", MARKS[1]);
        assert_eq!(found("scripts/x.sh", &template), []);
    }

    #[test]
    fn paths_of_one_machine_are_found_in_every_text() {
        for place in PLACES {
            for text in [
                format!("see {place}x"),
                format!("\"{place}x\""),
                format!("={place}y"),
            ] {
                assert_eq!(found("docs/a.md", &text), [("paths", 1)], "{text}");
            }
            let fixture = format!("see {place}x");
            assert_eq!(found("crates/a/tests/fixtures/t.json", &fixture), []);
        }
        let own = "/srv/someone/code/".to_owned();
        assert!(has_path("cd /srv/someone/code && make", &own));
        assert!(!has_path("cd /srv/someone/codes", &own));
    }

    #[test]
    fn paths_that_only_look_alike_pass() {
        let text = format!(
            "~{0}x a{0} $HOME{0}y {1}core/x",
            PLACES[0],
            PLACES[2].trim_end_matches("c/")
        );
        assert_eq!(found("docs/a.md", &text), []);
    }
}
