//! Checks that the lists of Markdown pages are lists on the site too.
//!
//! Contract: outside code, the first item of a list follows a blank line, a heading or a line of
//! HTML. After text or a block of code, Python-Markdown reads it as running text; GitHub does not.
//! A term of a glossary is on a line of its own above its definition, which begins with `:   `.
//! Pure.

use super::links::prose_lines;
use super::tree::Tree;
use super::{Finding, Severity};

/// Checks every page.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files().iter();
    let pages = pages.filter(|file| file.extension() == "md" && !file.is_fixture());
    pages
        .flat_map(|page| {
            faults(&page.text).into_iter().map(|fault| Finding {
                path: page.path.clone(),
                line: fault.line,
                check: "lists",
                item: fault.item,
                what: fault.what.to_owned(),
                why: "the site shows it as running text",
                fix: fault.fix.to_owned(),
                severity: Severity::Error,
            })
        })
        .collect()
}

/// A list that the site does not show.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    line: usize,
    item: String,
    what: &'static str,
    fix: &'static str,
}

fn faults(text: &str) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut is_in_list = false;
    let mut before = (0, String::new());
    for (line, prose) in prose_lines(text) {
        // The lines of code are left out.
        let is_next = before.0 + 1 == line;
        let above = if is_next { before.1.trim() } else { "```" };
        let is_term_joined = prose
            .split_once(" : ")
            .is_some_and(|(term, _)| is_term(term));
        if is_item(&prose) {
            let is_paragraph = !above.is_empty() && !above.starts_with(['#', '<']);
            if is_paragraph && !is_in_list {
                found.push(Fault {
                    line,
                    item: prose.trim().chars().take(20).collect(),
                    what: "a list follows a line of text or code",
                    fix: "put a blank line before the list",
                });
            }
            is_in_list = true;
        } else if prose.trim().is_empty() {
            is_in_list = false;
        } else if is_term_joined {
            found.push(Fault {
                line,
                item: prose.trim().chars().take(20).collect(),
                what: "a term and its definition are one line",
                fix: "begin the definition on the next line, with `:   `",
            });
        }
        before = (line, prose);
    }
    found
}

/// Whether a line begins an item of a list that is not in another list.
fn is_item(line: &str) -> bool {
    let text = line.trim_start();
    if line.len() - text.len() > 3 {
        return false;
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    match text.len() - rest.len() {
        0 => ["- ", "* ", "+ "].iter().any(|mark| text.starts_with(mark)),
        _ => rest.starts_with(". ") || rest.starts_with(") "),
    }
}

/// Whether a text is a few words without other marks, as a term of a glossary is.
fn is_term(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || " -_`".contains(c);
    !text.is_empty() && text.split(' ').count() <= 3 && text.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        faults(text).iter().map(|fault| fault.line).collect()
    }

    #[test]
    fn a_list_needs_a_blank_line_or_a_heading_before_it() {
        assert_eq!(lines("Three:\n- a\n- b\n"), [2]);
        assert_eq!(lines("It stops after\n64. It goes on.\n"), [2]);
        assert_eq!(lines("Three:\n\n- a\n  more\n- b\n\ntext\n1. c\n"), [8]);
        assert_eq!(lines("```\ntext\n- code\n```\n- c\n"), [5]);
        assert_eq!(lines("# Head\n- a\n- b\n\n<!-- x -->\n- d\n"), []);
        assert_eq!(lines("text\n-5 is a number\n12.5 too\n"), []);
    }

    #[test]
    fn a_term_is_above_its_definition() {
        assert_eq!(lines("row group : A part of a file.\n"), [1]);
        assert_eq!(lines("row group\n:   A part of a file.\n"), []);
        assert_eq!(lines("Use `a : b` here, or c.\n| x : y |\n"), []);
    }
}
