//! Checks the dependencies between the packages of the workspace, read from their manifests.
//!
//! Contract: every kind of dependency counts (normal, build, development, per target), by the name
//! of the package, so that renaming hides nothing. A package that is missing from the table is a
//! finding, because its place must be decided. An entry without a package is also a finding. The
//! fuzz package is a separate workspace and may use all packages.

use toml::{Table, Value};

use super::tree::Tree;
use super::{Finding, Severity};

/// Each package, by its folder, and those of our packages that it may use.
const PACKAGES: [(&str, &[&str]); 22] = [
    ("crates/outcore-io", &[]),
    ("crates/outcore-cloud", &["outcore-io"]),
    ("crates/outcore-store", &["outcore-io"]),
    ("crates/outcore", ENGINE_BELOW),
    ("lab/outcore-chart", &["outcore-io"]),
    ("lab/outcore-report", &["outcore-io", "outcore-chart"]),
    ("lab/outcore-traces", &["outcore-io"]),
    (
        "lab/outcore-sim",
        &[
            "outcore-io",
            "outcore-store",
            "outcore",
            "outcore-chart",
            "outcore-report",
            "outcore-traces",
        ],
    ),
    ("lab/outcore-gen", ENGINE),
    ("crates/outcore-table", ENGINE),
    ("crates/outcore-graph", ENGINE),
    ("crates/outcore-vector", ENGINE),
    ("crates/outcore-front", BELOW_FRONT),
    ("crates/outcore-verbs", BELOW_VERBS),
    ("crates/outcore-mount", BELOW_MOUNT),
    ("lab/outcore-bench", BELOW_BENCH),
    ("crates/outcore-terminal", BELOW_TERMINAL),
    ("crates/outcore-cli", BELOW_CLI),
    ("lab/outcore-lab", BELOW_LAB),
    ("examples", BELOW_MOUNT),
    ("python", BELOW_PYTHON),
    ("xtask", &[]),
];
/// Packages that may use more in their tests: whole jobs on simulated drives and their traces, and
/// the command that starts another.
const FOR_TESTS: [(&str, &[&str]); 3] = [
    ("crates/outcore-cli", &["outcore-traces"]),
    ("lab/outcore-lab", &["outcore-cli"]),
    ("lab/outcore-traces", &["outcore"]),
];
const ENGINE_BELOW: &[&str] = &["outcore-io", "outcore-store"];
const ENGINE: &[&str] = &["outcore-io", "outcore-store", "outcore"];
const BELOW_FRONT: &[&str] = &[
    "outcore-io",
    "outcore-cloud",
    "outcore-store",
    "outcore",
    "outcore-table",
    "outcore-graph",
    "outcore-vector",
];
const BELOW_MOUNT: &[&str] = &[
    "outcore-io",
    "outcore-store",
    "outcore",
    "outcore-table",
    "outcore-graph",
    "outcore-vector",
    "outcore-front",
];
const BELOW_VERBS: &[&str] = &[
    "outcore-io",
    "outcore-store",
    "outcore",
    "outcore-table",
    "outcore-graph",
    "outcore-vector",
    "outcore-front",
    "outcore-gen",
];
const BELOW_BENCH: &[&str] = &[
    "outcore-io",
    "outcore-store",
    "outcore",
    "outcore-table",
    "outcore-graph",
    "outcore-vector",
    "outcore-chart",
    "outcore-front",
    "outcore-gen",
    "outcore-report",
    "outcore-traces",
];
const BELOW_TERMINAL: &[&str] = &[
    "outcore-io",
    "outcore-store",
    "outcore",
    "outcore-table",
    "outcore-graph",
    "outcore-vector",
    "outcore-front",
    "outcore-gen",
    "outcore-verbs",
];
/// The crates that are not part of the lab.
const BELOW_CLI: &[&str] = &[
    "outcore-io",
    "outcore-store",
    "outcore",
    "outcore-table",
    "outcore-graph",
    "outcore-vector",
    "outcore-front",
    "outcore-gen",
    "outcore-verbs",
    "outcore-terminal",
    "outcore-mount",
];
const BELOW_LAB: &[&str] = &[
    "outcore-io",
    "outcore-store",
    "outcore",
    "outcore-front",
    "outcore-terminal",
    "outcore-traces",
    "outcore-report",
    "outcore-sim",
    "outcore-bench",
];
const BELOW_PYTHON: &[&str] = &[
    "outcore-io",
    "outcore-store",
    "outcore",
    "outcore-table",
    "outcore-graph",
    "outcore-vector",
    "outcore-front",
    "outcore-gen",
    "outcore-verbs",
    "outcore-sim",
    "outcore-terminal",
    "outcore-cli",
    "outcore-lab",
];
/// This file, for findings about its own list.
const OWN_PATH: &str = "xtask/src/tidy/crates.rs";
const FUZZ: &str = "fuzz";
const FOR_TEST: &str = "dev-dependencies";
const KINDS: [&str; 3] = ["dependencies", FOR_TEST, "build-dependencies"];
const WHY: &str = "io < store < engine < table, graph, vector < front < verbs, mount, bench; verbs < terminal < cli, lab < python; \
                   io < chart, traces < sim < lab; bench < lab; engine < gen < verbs, bench: each crate must make sense to a \
                   reader of those below it alone";

/// Checks every package manifest.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        if folder == FUZZ || file.is_fixture() {
            continue;
        }
        let manifest: Table = match file.text.parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                let what = format!("not TOML: {error}");
                findings.push(finding(
                    &file.path,
                    1,
                    "",
                    what,
                    "make it a manifest".to_owned(),
                ));
                continue;
            }
        };
        if !manifest.contains_key("package") {
            continue;
        }
        let Some((_, allowed)) = PACKAGES.iter().find(|(known, _)| *known == folder) else {
            let what = format!("the package in `{folder}` has no place in the house");
            let fix = "give it one in xtask/src/tidy/crates.rs and ARCHITECTURE.md".to_owned();
            findings.push(finding(&file.path, 1, folder, what, fix));
            continue;
        };
        let more = FOR_TESTS.iter().find(|(known, _)| *known == folder);
        let for_tests = more.map_or(&[][..], |(_, packages)| packages);
        for (kind, name, package) in dependencies(&manifest) {
            let is_allowed = allowed.contains(&package.as_str())
                || kind == FOR_TEST && for_tests.contains(&package.as_str());
            if package.starts_with("outcore") && !is_allowed {
                let line = line_of(&file.text, &name);
                let what = format!("`{folder}` depends on `{package}`");
                let fix = match allowed {
                    [] => "depend on no other package of ours".to_owned(),
                    allowed => format!("keep to {}", allowed.join(", ")),
                };
                findings.push(finding(&file.path, line, &package, what, fix));
            }
        }
    }
    if tree.text(OWN_PATH).is_some() {
        findings.extend(places_of_none(tree));
    }
    findings
}

/// Folders in the table that contain no package.
fn places_of_none(tree: &Tree) -> impl Iterator<Item = Finding> {
    let folders = PACKAGES.iter().map(|(folder, _)| *folder);
    let missing = folders.filter(|folder| tree.text(&format!("{folder}/Cargo.toml")).is_none());
    missing.map(|folder| {
        let what = format!("`{folder}` has a place in the house but no package");
        finding(OWN_PATH, 1, folder, what, "remove its place".to_owned())
    })
}

/// One of our packages, and the packages that it needs.
#[derive(Debug)]
pub(super) struct Package {
    /// Its name.
    pub name: String,
    /// Path of its manifest.
    pub manifest: String,
    /// The packages that it depends on, directly, in any way.
    pub needs: Vec<String>,
}

impl Package {
    /// Its folder, followed by `/`; empty at the root.
    pub(super) fn folder(&self) -> &str {
        self.manifest.strip_suffix("Cargo.toml").unwrap_or_default()
    }
}

/// All packages of the tree whose manifests can be read.
pub(super) fn packages(tree: &Tree) -> Vec<Package> {
    let mut packages = Vec::new();
    for file in tree.files().iter().filter(|file| !file.is_fixture()) {
        if file.path != "Cargo.toml" && !file.path.ends_with("/Cargo.toml") {
            continue;
        }
        let Ok(manifest) = file.text.parse::<Table>() else {
            continue;
        };
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"));
        if let Some(name) = name.and_then(Value::as_str) {
            let needs = dependencies(&manifest).into_iter();
            packages.push(Package {
                name: name.to_owned(),
                manifest: file.path.clone(),
                needs: needs.map(|(_, _, package)| package).collect(),
            });
        }
    }
    packages
}

/// Every dependency as `(kind, name in the manifest, name of the package)`.
fn dependencies(manifest: &Table) -> Vec<(&'static str, String, String)> {
    let mut found = Vec::new();
    let targets = manifest.get("target").and_then(Value::as_table);
    let scopes = targets
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    for scope in scopes.chain([manifest]) {
        for kind in KINDS {
            for (name, entry) in scope
                .get(kind)
                .and_then(Value::as_table)
                .into_iter()
                .flatten()
            {
                let package = entry.get("package").and_then(Value::as_str).unwrap_or(name);
                found.push((kind, name.clone(), package.to_owned()));
            }
        }
    }
    found
}

fn line_of(text: &str, name: &str) -> usize {
    let is_entry = |line: &str| {
        let key = line.trim_start().trim_matches('[');
        key.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with([' ', '=', '.', ']']))
            || key.ends_with(&format!("dependencies.{name}]"))
    };
    text.lines().position(is_entry).map_or(1, |index| index + 1)
}

fn finding(path: &str, line: usize, item: &str, what: String, fix: String) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        check: "layers",
        item: item.to_owned(),
        what,
        why: WHY,
        fix,
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &str, rest: &str) -> Vec<usize> {
        let path = format!("{folder}/Cargo.toml");
        let text = format!("[package]\nname = 'x'\n{rest}");
        check(&Tree::of(&[(&path, &text)]))
            .iter()
            .map(|f| f.line)
            .collect()
    }

    #[test]
    fn a_dependency_upwards_is_found_in_every_form() {
        let bad = [
            "[dependencies]\noutcore-sim = { path = '../outcore-sim' }",
            "[dev-dependencies]\noutcore-sim.workspace = true",
            "[build-dependencies]\nother = { package = 'outcore-sim', version = '1' }",
            "[dependencies.outcore-sim]\n",
            "[target.'cfg(unix)'.dependencies]\noutcore-sim = '1'",
        ];
        for text in bad {
            assert_eq!(found("crates/outcore", text).len(), 1, "{text}");
        }
        assert_eq!(found("crates/outcore", bad[1]), [4]);
        assert_eq!(
            found("lab/outcore-traces", "[dependencies]\noutcore-front = '1'"),
            [4]
        );
        assert_eq!(
            found("lab/outcore-bench", "[dependencies]\noutcore-cli = '1'"),
            [4]
        );
        for lab in [
            "outcore-sim",
            "outcore-bench",
            "outcore-chart",
            "outcore-report",
            "outcore-lab",
        ] {
            let needs = format!("[dependencies]\n{lab} = '1'");
            assert_eq!(found("crates/outcore-cli", &needs), [4], "{lab}");
        }
    }

    #[test]
    fn dependencies_downwards_pass() {
        let tests = "[dev-dependencies]\noutcore.workspace = true";
        assert_eq!(found("lab/outcore-traces", tests), [0; 0]);
        let below = "[dependencies]\noutcore.workspace = true\nserde = '1'";
        assert_eq!(found("lab/outcore-traces", below), [4]);
        for folder in ["crates/outcore-mount", "lab/outcore-gen", "python"] {
            assert_eq!(found(folder, below), [0; 0], "{folder}");
        }
        assert_eq!(
            found("lab/outcore-lab", "[dependencies]\noutcore-sim = '1'"),
            [0; 0]
        );
        let for_tests = "[dev-dependencies]\noutcore-cli.workspace = true";
        assert_eq!(found("lab/outcore-lab", for_tests), [0; 0]);
        assert_eq!(found("fuzz", "[dependencies]\noutcore-cli = '1'"), [0; 0]);
    }

    #[test]
    fn a_package_without_a_place_and_a_place_without_a_package_are_found() {
        assert_eq!(found("crates/outcore-extra", ""), [1]);
        let manifest = "[package]\nname = 'outcore-io'\n";
        let tree = Tree::of(&[("crates/outcore-io/Cargo.toml", manifest), (OWN_PATH, "")]);
        let findings = check(&tree);
        assert_eq!(findings.len(), PACKAGES.len() - 1);
        assert!(findings.iter().all(|finding| finding.path == OWN_PATH));
    }
}
