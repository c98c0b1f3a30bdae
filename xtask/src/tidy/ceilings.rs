//! Ceilings on the breaches per file, for rules that the tree does not keep everywhere yet.
//!
//! Contract: `xtask/ceilings.toml` has one table per rule, which maps a file to its number of
//! breaches, or to `{ count = N, reason = "..." }`. The rules in [`WITH_REASON`] need the reason,
//! because their breaches are there to stay. More breaches are an error. Fewer are also an error:
//! the list must then be lowered (`cargo xtask tidy --lower`), so that it only shrinks. A file that
//! is not listed must keep the rule. Only the rules in [`RULES`] may be listed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::tree::Tree;
use super::{Finding, Severity};

const LIST: &str = "xtask/ceilings.toml";

/// The rules that may have ceilings.
const RULES: [&str; 4] = ["comment-width", "flag-words", "std-fs", "tuple-parameters"];

/// The rules whose ceilings each need a reason of at least [`REASON_CHARS_MIN`] characters.
const WITH_REASON: [&str; 1] = ["std-fs"];
const REASON_CHARS_MIN: usize = 10;

const OPENING: &str = "\
# How many breaches of each rule a file may have. `cargo xtask tidy --lower` rewrites this list
# with the present numbers where they are lower. Numbers never rise and files are never added.
";

/// The breaches that a file may have, and why it may.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Ceiling {
    count: usize,
    reason: Option<String>,
}

impl Ceiling {
    /// A value of the list; `None` if it is neither a number above 0 nor a table with one.
    fn of(value: &toml::Value) -> Option<Self> {
        let (count, reason) = match value.as_table() {
            None => (value, None),
            Some(table)
                if table
                    .keys()
                    .all(|key| ["count", "reason"].contains(&&**key)) =>
            {
                (table.get("count")?, table.get("reason"))
            }
            Some(_) => return None,
        };
        let count = usize::try_from(count.as_integer()?).ok()?;
        let reason = match reason {
            None => None,
            Some(reason) => Some(reason.as_str()?.to_owned()),
        };
        (count > 0).then_some(Ceiling { count, reason })
    }

    fn has_reason(&self) -> bool {
        let reason = self.reason.as_deref().unwrap_or_default();
        reason.trim().chars().count() >= REASON_CHARS_MIN
    }
}

/// Breaches per file, by rule.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Ceilings {
    rules: BTreeMap<String, BTreeMap<String, Ceiling>>,
}

impl Ceilings {
    /// Reads the list; a tree without one has no ceilings.
    ///
    /// # Errors
    /// The list is not valid TOML, contains an unknown rule, holds something other than numbers, or
    /// lacks a reason.
    pub(super) fn of(tree: &Tree) -> Result<Ceilings, String> {
        let text = tree.text(LIST).unwrap_or_default();
        let table: toml::Table = text.parse().map_err(|e| format!("{LIST}: {e}"))?;
        let mut ceilings = Ceilings::default();
        for (rule, files) in &table {
            if !RULES.contains(&rule.as_str()) {
                return Err(format!("{LIST}: {rule} is not a rule that has ceilings"));
            }
            let Some(files) = files.as_table() else {
                return Err(format!("{LIST}: {rule} is not a table"));
            };
            let mut counts = BTreeMap::new();
            for (path, value) in files {
                let Some(ceiling) = Ceiling::of(value) else {
                    return Err(format!("{LIST}: {rule}: {path} needs a number above 0"));
                };
                if WITH_REASON.contains(&rule.as_str()) && !ceiling.has_reason() {
                    return Err(format!(
                        "{LIST}: {rule}: {path} needs `{{ count = {}, reason = \"...\" }}`",
                        ceiling.count
                    ));
                }
                counts.insert(path.clone(), ceiling);
            }
            ceilings.rules.insert(rule.clone(), counts);
        }
        Ok(ceilings)
    }

    /// Counts the findings of all rules that have ceilings.
    pub(super) fn counted(findings: &[Finding]) -> Ceilings {
        let mut counted = Ceilings::default();
        for finding in findings.iter().filter(|f| RULES.contains(&f.check)) {
            let files = counted.rules.entry(finding.check.to_owned()).or_default();
            let ceiling: &mut Ceiling = files.entry(finding.path.clone()).or_default();
            ceiling.count += 1;
        }
        counted
    }

    /// The lower of both numbers for each file of the list.
    fn lowered(&self, counted: &Ceilings) -> Ceilings {
        let mut lowered = Ceilings::default();
        for (rule, files) in &self.rules {
            let files = files.iter().map(|(path, ceiling)| {
                let count = counted.count(rule, path).min(ceiling.count);
                let reason = ceiling.reason.clone();
                (path.clone(), Ceiling { count, reason })
            });
            let files: BTreeMap<String, Ceiling> =
                files.filter(|(_, ceiling)| ceiling.count > 0).collect();
            if !files.is_empty() {
                lowered.rules.insert(rule.clone(), files);
            }
        }
        lowered
    }

    fn count(&self, rule: &str, path: &str) -> usize {
        let files = self.rules.get(rule);
        files
            .and_then(|files| files.get(path))
            .map_or(0, |ceiling| ceiling.count)
    }

    /// Removes the findings of files that keep to their ceiling; adds faults of the list.
    pub(super) fn apply(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let counted = Ceilings::counted(&findings);
        let mut kept: Vec<Finding> = findings
            .into_iter()
            .filter(|finding| {
                let is_within = self.count(finding.check, &finding.path)
                    >= counted.count(finding.check, &finding.path);
                !(RULES.contains(&finding.check) && is_within)
            })
            .collect();
        for (rule, files) in &self.rules {
            for (path, ceiling) in files {
                let count = counted.count(rule, path);
                if count < ceiling.count {
                    kept.push(too_high(rule, path, count, ceiling.count));
                }
            }
        }
        kept
    }

    /// The list as the text of its file.
    fn text(&self) -> String {
        let mut text = OPENING.to_owned();
        for (rule, files) in &self.rules {
            let _ = writeln!(text, "\n[{rule}]");
            for (path, Ceiling { count, reason }) in files {
                let _ = match reason {
                    None => writeln!(text, "\"{path}\" = {count}"),
                    Some(reason) => {
                        let reason = toml::Value::from(reason.as_str());
                        writeln!(
                            text,
                            "\"{path}\" = {{ count = {count}, reason = {reason} }}"
                        )
                    }
                };
            }
        }
        text
    }
}

/// The list with the present numbers where they are lower: its path and its text.
///
/// # Errors
/// As [`Ceilings::of`].
pub(super) fn lowered(tree: &Tree, findings: &[Finding]) -> Result<(&'static str, String), String> {
    let listed = Ceilings::of(tree)?;
    Ok((LIST, listed.lowered(&Ceilings::counted(findings)).text()))
}

fn too_high(rule: &str, path: &str, count: usize, ceiling: usize) -> Finding {
    Finding {
        path: LIST.to_owned(),
        line: 1,
        check: "tidy-list",
        item: String::new(),
        what: format!("{path} has {count} breaches of {rule}; the list allows {ceiling}"),
        why: "a ceiling above the present number hides the next breach",
        fix: "run `cargo xtask tidy --lower`".to_owned(),
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(count: usize) -> Vec<Finding> {
        let finding = Finding {
            check: "flag-words",
            path: "a.rs".to_owned(),
            ..too_high("", "", 0, 0)
        };
        vec![finding; count]
    }

    fn list(text: &str) -> Result<Ceilings, String> {
        Ceilings::of(&Tree::of(&[(LIST, text)]))
    }

    #[test]
    fn as_many_breaches_as_listed_pass_and_any_other_number_is_found() {
        let ceilings = list("[flag-words]\n'a.rs' = 2").unwrap();
        assert!(ceilings.apply(findings(2)).is_empty());
        assert_eq!(ceilings.apply(findings(3)).len(), 3);
        let fewer = ceilings.apply(findings(1));
        assert_eq!((fewer.len(), fewer[0].check), (1, "tidy-list"));
        assert_eq!(ceilings.apply(findings(0)).len(), 1);
        assert_eq!(list("").unwrap().apply(findings(1)).len(), 1);
    }

    #[test]
    fn the_list_is_lowered_and_never_raised() {
        let text = "[flag-words]\n'a.rs' = 2\n'b.rs' = 1";
        let tree = Tree::of(&[(LIST, text)]);
        let (_, lower) = lowered(&tree, &findings(1)).unwrap();
        assert_eq!(lower, format!("{OPENING}\n[flag-words]\n\"a.rs\" = 1\n"));
        let (_, same) = lowered(&tree, &findings(5)).unwrap();
        assert_eq!(same, format!("{OPENING}\n[flag-words]\n\"a.rs\" = 2\n"));
    }

    #[test]
    fn other_rules_and_other_values_give_no_verdict() {
        let cases = [
            "[std-fs]\n'a.rs' = 1",
            "[std-fs]\n'a.rs' = { count = 1, reason = 'so' }",
            "[std-fs]\n'a.rs' = { count = 1, because = 'it is a program' }",
        ];
        for text in cases {
            assert!(list(text).is_err(), "{text}");
        }
        for text in ["[units]\n'a.rs' = 1", "[std-fs]\n'a.rs' = 0", "std-fs = 1"] {
            assert!(list(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_reason_is_kept_when_its_number_is_lowered() {
        let line = |count| format!("\"a.rs\" = {{ count = {count}, reason = \"opens a socket\" }}");
        let tree = Tree::of(&[(LIST, &*format!("[std-fs]\n{}", line(2)))]);
        let findings = findings(1).into_iter().map(|finding| Finding {
            check: "std-fs",
            ..finding
        });
        let (_, lower) = lowered(&tree, &findings.collect::<Vec<_>>()).unwrap();
        assert_eq!(lower, format!("{OPENING}\n[std-fs]\n{}\n", line(1)));
    }
}
