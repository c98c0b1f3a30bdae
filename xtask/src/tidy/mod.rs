//! tidy checks the house rules that no compiler checks, as a program and as a test.
//!
//! Contract: [`check`] is pure over a [`Tree`] (every file that git would keep, read once). It
//! returns all breaches, sorted by place; each is one line with the place, the breach, the reason
//! and the remedy. Exceptions are listed in `xtask/tidy.toml`, each with a reason. An exception
//! that excuses nothing is itself a breach, so the list contains only what is needed. Rules that
//! the tree does not keep everywhere yet have a ceiling per file in `xtask/ceilings.toml`. Bounds:
//! the whole repository's text in memory (files above 1 MiB are skipped); some seconds in the build
//! that the tests use.
//!
//! - `layers`: allowed imports, in the engine and between crates ([`layers`], [`crates`])
//! - `circles`: files and packages must not depend on each other in circles ([`circles`])
//! - `room-circles`: no circles of folders or Python modules ([`circles`], [`python_circles`])
//! - `comment-width` and others: breaches counted against a ceiling ([`counted`], [`ceilings`])
//! - `file-length`, `function-length`: files of 700 lines, at most 900; Python bodies of 100
//!   ([`lengths`])
//! - `units`: the name of a size or a time ends with its unit ([`units`])
//! - `unsafe`: `unsafe` only in listed files ([`unsafety`])
//! - `polls`: only `outcore-io` submits and polls ([`polls`])
//! - `contract`: a file begins with its contract ([`contracts`])
//! - `dead-file`: every source is compiled, every page and example is reachable from another file
//!   ([`dead`])
//! - `unused-public`: every public name has a user outside its crate ([`publics`])
//! - `words`: no marks of unfinished work ([`words`])
//! - `links`: links between our own pages resolve ([`links`])
//! - `lists`: a blank line before each list of a page, a term above its definition ([`lists`])
//! - `paths`: no paths of a single machine ([`words`])

mod allow;
mod ceilings;
mod circles;
mod contracts;
mod counted;
mod crates;
mod dead;
mod layers;
mod lengths;
mod links;
mod lists;
mod offers;
mod polls;
mod publics;
mod python;
mod python_circles;
mod rust;
mod tokens;
mod tree;
mod units;
mod unsafety;
mod words;

use std::fmt;

pub use tree::Tree;

/// Severity of a breach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Fails the run.
    Error,
    /// Is only printed.
    Warning,
}

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// File, relative to the root, with `/`.
    pub path: String,
    /// Line, from 1; 1 for a breach of the whole file.
    pub line: usize,
    /// Name of the rule, as in the allow-list.
    pub check: &'static str,
    /// The function, field or word; the allow-list calls it `path::item`.
    pub item: String,
    /// The breach.
    pub what: String,
    /// The reason for the rule.
    pub why: &'static str,
    /// The remedy.
    pub fix: String,
    /// Whether it fails the run.
    pub severity: Severity,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = if self.severity == Severity::Warning {
            "warning: "
        } else {
            ""
        };
        write!(
            f,
            "{}:{}: {weight}[{}] {}; {}; do: {}",
            self.path, self.line, self.check, self.what, self.why, self.fix
        )
    }
}

/// Results of a run.
#[derive(Debug)]
pub struct Report {
    /// Breaches that no allowance excuses, sorted by place.
    pub findings: Vec<Finding>,
    /// Files read.
    pub files_count: usize,
    /// Allowances in force.
    pub allowances_count: usize,
}

/// Runs every check over the tree.
///
/// # Errors
/// A list of exceptions cannot be read; then no verdict is possible.
pub fn check(tree: &Tree) -> Result<Report, String> {
    let allowances = allow::Allowances::of(tree)?;
    let ceilings = ceilings::Ceilings::of(tree)?;
    let mut findings = ceilings.apply(allowances.apply(breaches(tree)));
    findings.sort_by(|a, b| (&a.path, a.line, a.check).cmp(&(&b.path, b.line, b.check)));
    Ok(Report {
        findings,
        files_count: tree.files().len(),
        allowances_count: allowances.count(),
    })
}

/// The path of the list of ceilings, and its text with the present numbers where they are lower.
///
/// # Errors
/// A list of exceptions cannot be read.
pub fn lowered_ceilings(tree: &Tree) -> Result<(&'static str, String), String> {
    let allowances = allow::Allowances::of(tree)?;
    ceilings::lowered(tree, &allowances.apply(breaches(tree)))
}

/// Every breach, excused or not.
fn breaches(tree: &Tree) -> Vec<Finding> {
    let sources = rust::Sources::of(tree);
    let modules = dead::Modules::of(tree, &sources);
    let mut findings = sources.unreadable();
    findings.extend(layers::check(&sources));
    findings.extend(crates::check(tree));
    findings.extend(circles::check(tree, &sources, &modules));
    findings.extend(python_circles::check(tree));
    findings.extend(counted::check(tree, &sources, &modules));
    findings.extend(lengths::check(tree));
    findings.extend(units::check(tree, &sources, &modules));
    findings.extend(unsafety::check(&sources));
    findings.extend(polls::check(&sources));
    findings.extend(contracts::check(tree));
    findings.extend(dead::check(tree, &sources, &modules));
    findings.extend(publics::check(tree, &sources, &modules));
    findings.extend(words::check(tree, &sources));
    findings.extend(links::check(tree));
    findings.extend(lists::check(tree));
    findings
}
