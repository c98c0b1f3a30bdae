//! Finds files that nothing reaches: sources that no crate compiles, and pages and examples that no
//! other file mentions.
//!
//! Contract: a source is alive if a chain of `mod` (with `#[path]`), or an `include!`, leads to it
//! from a crate root. Crate roots are those that cargo finds by itself and those in a manifest. A
//! page under `docs/`, an example and a script are alive if another file links to them or contains
//! their path. A mention in a manifest is not enough, because readers do not start there. The same
//! walk finds the files that only tests compile.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::links;
use super::rust::{ModuleFile, Sources};
use super::tree::{TextFile, Tree, joined};
use super::{Finding, Severity};

/// The sources that are compiled, and which of them only for tests.
#[derive(Debug)]
pub(super) struct Modules {
    /// For each path, whether only tests compile the file.
    reached: BTreeMap<String, bool>,
}

impl Modules {
    /// Follows the modules of every package in the tree.
    pub(super) fn of(tree: &Tree, sources: &Sources) -> Modules {
        let mut modules = Modules {
            reached: BTreeMap::new(),
        };
        for root in roots(tree) {
            let is_test = ["/tests/", "/benches/", "/examples/"]
                .iter()
                .any(|f| root.contains(f));
            modules.follow(sources, &root, is_test, true);
        }
        modules
    }

    /// Whether a crate compiles the file.
    pub(super) fn is_reached(&self, path: &str) -> bool {
        self.reached.contains_key(path)
    }

    /// Whether only tests compile the file.
    pub(super) fn is_test_file(&self, path: &str) -> bool {
        self.reached.get(path).copied().unwrap_or(false)
    }

    fn follow(&mut self, sources: &Sources, path: &str, is_test: bool, is_root: bool) {
        match self.reached.get(path) {
            Some(known) if !known || is_test => return,
            _ => {}
        }
        self.reached.insert(path.to_owned(), is_test);
        let Some(source) = sources.get(path) else {
            return;
        };
        for include in &source.tokens.includes {
            self.follow(sources, &joined(folder_of(path), include), is_test, true);
        }
        for module in &source.modules {
            for place in places_of(path, is_root, module) {
                if sources.get(&place).is_some() {
                    self.follow(sources, &place, is_test || module.is_test, false);
                }
            }
        }
    }
}

/// Checks sources, pages, examples and scripts.
pub(super) fn check(tree: &Tree, sources: &Sources, modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources
        .all()
        .iter()
        .filter(|source| !modules.is_reached(&source.path))
    {
        findings.push(finding(
            &source.path,
            "no crate compiles this file",
            "declare it with `mod`, name it in a manifest, or delete it",
        ));
    }
    let linked = linked_pages(tree);
    for file in tree.files().iter().filter(|file| must_be_named(&file.path)) {
        if !linked.contains(&file.path) && !is_named(tree, file) {
            findings.push(finding(
                &file.path,
                "no other file links to this one or names it",
                "link it where a reader would look for it, or delete it",
            ));
        }
    }
    findings
}

fn finding(path: &str, what: &str, fix: &str) -> Finding {
    Finding {
        path: path.to_owned(),
        line: 1,
        check: "dead-file",
        item: String::new(),
        what: what.to_owned(),
        why: "unreferenced files rot",
        fix: fix.to_owned(),
        severity: Severity::Error,
    }
}

/// Crate roots of every package: those that cargo finds by its rules, and those in manifests.
fn roots(tree: &Tree) -> BTreeSet<String> {
    let mut roots = BTreeSet::new();
    for file in tree.files() {
        let Some(folder) = file.path.strip_suffix("Cargo.toml") else {
            continue;
        };
        let Ok(manifest) = file.text.parse::<Table>() else {
            continue;
        };
        if !manifest.contains_key("package") {
            continue;
        }
        roots.extend(
            named_roots(&manifest)
                .iter()
                .map(|path| joined(folder, path)),
        );
        for known in ["src/lib.rs", "src/main.rs", "build.rs"] {
            roots.insert(format!("{folder}{known}"));
        }
        for known in ["src/bin/", "tests/", "examples/", "benches/"] {
            let prefix = format!("{folder}{known}");
            let inner = |file: &'_ TextFile| file.path.strip_prefix(&prefix).map(str::to_owned);
            for name in tree.files().iter().filter_map(inner) {
                if !name.contains('/') || (name.ends_with("/main.rs") && depth(&name) == 1) {
                    roots.insert(format!("{prefix}{name}"));
                }
            }
        }
    }
    roots
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

fn named_roots(manifest: &Table) -> Vec<String> {
    let path = |target: &Value| {
        target
            .get("path")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let build = manifest
        .get("package")
        .and_then(|p| p.get("build"))
        .and_then(Value::as_str);
    let mut named: Vec<String> = manifest.get("lib").and_then(path).into_iter().collect();
    named.extend(build.map(str::to_owned));
    for kind in ["bin", "test", "example", "bench"] {
        let targets = manifest
            .get(kind)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        named.extend(targets.filter_map(path));
    }
    named
}

/// The possible files of a module.
fn places_of(path: &str, is_root: bool, module: &ModuleFile) -> Vec<String> {
    let folder = folder_of(path);
    let stem = path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".rs");
    let own = if is_root || stem == "mod" {
        folder.to_owned()
    } else {
        joined(folder, stem)
    };
    let nested = joined(&own, &module.inside.join("/"));
    if let Some(named) = &module.path {
        let from = if module.inside.is_empty() {
            folder
        } else {
            &nested
        };
        return vec![joined(from, named)];
    }
    vec![
        joined(&nested, &format!("{}.rs", module.name)),
        joined(&nested, &format!("{}/mod.rs", module.name)),
    ]
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Pages, examples and scripts, which readers must be able to find.
fn must_be_named(path: &str) -> bool {
    let is_page = path.starts_with("docs/") && path.ends_with(".md");
    let is_program = [".rs", ".py", ".sh", ".ipynb"]
        .iter()
        .any(|ending| path.ends_with(ending));
    let is_test = path.contains("/tests/");
    let is_example = path.starts_with("examples/") || path.contains("/examples/");
    let is_module = path.ends_with("/mod.rs") || path.ends_with("/__init__.py");
    is_page
        || (is_program && !is_module && !is_test && (is_example || path.starts_with("scripts/")))
}

fn linked_pages(tree: &Tree) -> BTreeSet<String> {
    let mut linked = BTreeSet::new();
    for file in tree.files().iter().filter(|file| file.extension() == "md") {
        for link in links::links_of(&file.text) {
            let target = joined(folder_of(&file.path), link.file());
            if target != file.path {
                linked.insert(target);
            }
        }
    }
    linked
}

fn is_named(tree: &Tree, page: &TextFile) -> bool {
    let mut others = tree.files().iter().filter(|other| {
        other.path != page.path
            && !other.is_fixture()
            && !matches!(other.extension(), "toml" | "lock")
    });
    let name = page.path.rsplit('/').next().unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    let as_example = format!("--example {stem}");
    let as_import = format!("from {stem} import ");
    others.any(|other| {
        other.text.contains(&page.path)
            || other.text.contains(&as_example)
            || (other.extension() == "py" && other.text.contains(&as_import))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = ("crates/a/Cargo.toml", "[package]\nname = 'a'");

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        let sources = Sources::of(&tree);
        let modules = Modules::of(&tree, &sources);
        check(&tree, &sources, &modules)
            .into_iter()
            .map(|f| f.path)
            .collect()
    }

    #[test]
    fn a_source_that_no_mod_reaches_is_found() {
        let found = dead(&[
            MANIFEST,
            ("crates/a/src/lib.rs", "mod b; mod c { mod d; }"),
            ("crates/a/src/b.rs", "mod e; #[path = \"odd.rs\"] mod f;"),
            ("crates/a/src/b/e.rs", ""),
            ("crates/a/src/odd.rs", ""),
            ("crates/a/src/c/d.rs", "include!(\"table.rs\");"),
            ("crates/a/src/c/table.rs", ""),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/src/e.rs", ""),
            ("loose.rs", ""),
        ]);
        assert_eq!(
            found,
            ["crates/a/src/e.rs", "crates/a/src/lost.rs", "loose.rs"]
        );
    }

    #[test]
    fn roots_that_cargo_finds_and_that_a_manifest_names_are_alive() {
        let manifest = "[package]\nname='a'\n[[test]]\nname='t'\npath='../../tests/t.rs'";
        let found = dead(&[
            ("crates/a/Cargo.toml", manifest),
            ("crates/a/build.rs", ""),
            ("crates/a/src/bin/x.rs", ""),
            ("crates/a/src/bin/y/main.rs", ""),
            ("crates/a/tests/i.rs", "mod kit;"),
            ("crates/a/tests/kit/mod.rs", ""),
            ("crates/a/tests/kit/lost.rs", ""),
            ("tests/t.rs", ""),
            ("tests/u.rs", ""),
        ]);
        assert_eq!(found, ["crates/a/tests/kit/lost.rs", "tests/u.rs"]);
    }

    #[test]
    fn files_that_only_tests_compile_are_known() {
        let tree = Tree::of(&[
            MANIFEST,
            ("crates/a/src/lib.rs", "mod b; #[cfg(test)] mod oracle;"),
            ("crates/a/src/b.rs", ""),
            ("crates/a/src/oracle.rs", "mod deep;"),
            ("crates/a/src/oracle/deep.rs", ""),
        ]);
        let modules = Modules::of(&tree, &Sources::of(&tree));
        assert!(modules.is_test_file("crates/a/src/oracle/deep.rs"));
        assert!(!modules.is_test_file("crates/a/src/b.rs"));
    }

    #[test]
    fn a_page_example_or_script_that_nothing_names_is_found() {
        let found = dead(&[
            (
                "README.md",
                "[the guide](docs/guide.md), `cargo run --example quick`",
            ),
            (
                "docs/guide.md",
                "see [here](guide.md) and [more](deep/more.md#part)",
            ),
            ("docs/deep/more.md", ""),
            ("docs/lost.md", "[me](lost.md) docs/lost.md"),
            ("examples/quick.py", "'''x'''"),
            ("examples/slow.py", "'''x'''"),
            ("scripts/run.sh", "python scripts/count.py"),
            ("scripts/count.py", "from tally import Tally"),
            ("scripts/tally.py", ""),
            ("scripts/old.sh", ""),
            ("scripts/tests/test_run.py", "'''x'''"),
            ("Makefile", "run:\n\tscripts/run.sh"),
        ]);
        assert_eq!(
            found,
            ["docs/lost.md", "examples/slow.py", "scripts/old.sh"]
        );
    }

    #[test]
    fn a_manifest_alone_does_not_introduce_an_example() {
        let manifest = "[package]\nname='a'\n[[example]]\nname='q'\npath='../../examples/q.rs'";
        let files = [("crates/a/Cargo.toml", manifest), ("examples/q.rs", "")];
        assert_eq!(dead(&files), ["examples/q.rs"]);
    }
}
