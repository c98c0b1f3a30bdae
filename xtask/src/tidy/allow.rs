//! The list of exceptions: `xtask/tidy.toml`.
//!
//! Contract: an entry has a check, a place (`path` for the whole file, `path::item` for one item in
//! it) and a reason of at least ten characters. An entry that excuses nothing is a finding. `hard`
//! findings (a file above 900 lines) cannot be excused.
//!
//! ```toml
//! [[allow]]
//! check = "units"
//! place = "crates/outcore/src/drive/recording.rs::Entry.size"
//! reason = "the field's name in the trace format"
//! ```

use std::cell::Cell;

use super::tree::Tree;
use super::{Finding, Severity};

const LIST: &str = "xtask/tidy.toml";
const REASON_CHARS_MIN: usize = 10;

/// Checks that no entry can excuse.
const HARD: [&str; 2] = ["file-length-limit", "tidy-list"];

/// The exceptions in force.
#[derive(Debug)]
pub(super) struct Allowances {
    entries: Vec<Entry>,
    wrong: Vec<Finding>,
}

#[derive(Debug)]
struct Entry {
    check: String,
    place: String,
    line: usize,
    is_used: Cell<bool>,
}

impl Allowances {
    /// Reads the list; a tree without one has no exceptions.
    ///
    /// # Errors
    /// The list is not valid TOML.
    pub(super) fn of(tree: &Tree) -> Result<Allowances, String> {
        let text = tree.text(LIST).unwrap_or_default();
        let table: toml::Table = text.parse().map_err(|e| format!("{LIST}: {e}"))?;
        let lines: Vec<usize> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.trim() == "[[allow]]")
            .map(|(index, _)| index + 1)
            .collect();
        let mut allowances = Allowances {
            entries: Vec::new(),
            wrong: Vec::new(),
        };
        let listed = table.get("allow").and_then(toml::Value::as_array);
        for (index, entry) in listed.into_iter().flatten().enumerate() {
            let line = lines.get(index).copied().unwrap_or(1);
            let field = |name| {
                entry
                    .get(name)
                    .and_then(toml::Value::as_str)
                    .unwrap_or_default()
            };
            let (check, place, reason) = (field("check"), field("place"), field("reason"));
            if reason.trim().chars().count() < REASON_CHARS_MIN {
                let what = format!("{place} is excused from {check} without a reason");
                allowances
                    .wrong
                    .push(list_finding(line, what, "say why it must be so"));
            }
            allowances.entries.push(Entry {
                check: check.to_owned(),
                place: place.to_owned(),
                line,
                is_used: Cell::new(false),
            });
        }
        Ok(allowances)
    }

    /// The number of exceptions.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Removes excused findings; adds faults of the list itself.
    pub(super) fn apply(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let mut kept: Vec<_> = findings.into_iter().filter(|f| !self.excuses(f)).collect();
        kept.extend(self.wrong.iter().cloned());
        for entry in self.entries.iter().filter(|entry| !entry.is_used.get()) {
            let what = format!("{} needs no exception from {}", entry.place, entry.check);
            kept.push(list_finding(entry.line, what, "delete the entry"));
        }
        kept
    }

    fn excuses(&self, finding: &Finding) -> bool {
        if HARD.contains(&finding.check) {
            return false;
        }
        let whole = format!("{}::{}", finding.path, finding.item);
        let mut is_excused = false;
        for entry in self
            .entries
            .iter()
            .filter(|entry| entry.check == finding.check)
        {
            if entry.place == finding.path || entry.place == whole {
                entry.is_used.set(true);
                is_excused = true;
            }
        }
        is_excused
    }
}

fn list_finding(line: usize, what: String, fix: &str) -> Finding {
    Finding {
        path: LIST.to_owned(),
        line,
        check: "tidy-list",
        item: String::new(),
        what,
        why: "an exception that nobody needs or understands hides the next breach",
        fix: fix.to_owned(),
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(check: &'static str, path: &str, item: &str) -> Finding {
        Finding {
            path: path.into(),
            item: item.into(),
            check,
            ..list_finding(7, "w".into(), "f")
        }
    }

    fn list(entries: &str) -> Allowances {
        Allowances::of(&Tree::of(&[(LIST, entries)])).unwrap()
    }

    #[test]
    fn an_entry_excuses_its_item_and_nothing_else() {
        let allowances = list(
            "[[allow]]\ncheck = 'units'\nplace = 'a.rs::S.size'\nreason = 'named by the format'\n",
        );
        let left = allowances.apply(vec![
            finding("units", "a.rs", "S.size"),
            finding("units", "a.rs", "S.len"),
            finding("units", "b.rs", "S.size"),
            finding("words", "a.rs", "S.size"),
        ]);
        let left: Vec<_> = left.iter().map(|f| (f.check, f.path.as_str())).collect();
        assert_eq!(
            left,
            [("units", "a.rs"), ("units", "b.rs"), ("words", "a.rs")]
        );
    }

    #[test]
    fn an_entry_without_use_or_without_reason_is_found() {
        let allowances = list("\n[[allow]]\ncheck = 'units'\nplace = 'a.rs'\nreason = 'so'\n");
        let found = allowances.apply(Vec::new());
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|f| f.line == 2 && f.check == "tidy-list"));
    }

    #[test]
    fn the_hard_limit_on_length_cannot_be_excused() {
        let allowances = list(
            "[[allow]]\ncheck='file-length-limit'\nplace='a.rs'\nreason='it is long, so what'\n",
        );
        let found = allowances.apply(vec![finding("file-length-limit", "a.rs", "")]);
        assert!(found.iter().any(|f| f.path == "a.rs"));
    }

    #[test]
    fn a_broken_list_gives_no_verdict() {
        assert!(Allowances::of(&Tree::of(&[(LIST, "[[allow]")])).is_err());
    }
}
