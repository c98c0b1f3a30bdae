//! Who may import whom inside the engine, and what other crates may see of it.
//!
//! Contract: a module of `crates/outcore/src` names only modules of its own layer or of layers
//! before it, however it writes the path (`crate::`, `super::`, a name re-exported by `lib.rs`,
//! inside macros, in unit tests too: a test that needs a higher layer belongs in `tests/`).
//! `lib.rs` is the facade and may name all. The engine never names the simulator; the simulator
//! sees the engine up to its drives; applications see nothing private.

use super::dead::Modules;
use super::rust::{Source, Sources};
use super::tokens::PathUse;
use super::{Finding, Severity};

const ENGINE: &str = "crates/outcore/src/";
const SIMULATOR: &str = "crates/outcore-sim/src/";
const APPLICATIONS: &str = "crates/outcore-apps/";

/// The layers, from the ground up; modules of one entry may name each other.
const LAYERS: [&[&str]; 9] = [
    &[
        "error", "units", "config", "checksum", "metadata", "threads",
    ],
    &["memory"],
    &["drive"],
    &["volume"],
    &["data"],
    &["stream"],
    &["job"],
    &["algo"],
    &["dataset"],
];
const ORDER: &str = "error units config checksum metadata threads < memory < drive < volume < data < stream < job < algo < dataset";
const WHY: &str = "requests flow down and buffers flow up; an arrow the other way ties two layers \
                   into one";

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Checks every path in the sources.
pub(super) fn check(sources: &Sources, modules: &Modules) -> Vec<Finding> {
    let root = sources.get("crates/outcore/src/lib.rs");
    let mut findings = Vec::new();
    for source in sources.all() {
        if source.path.starts_with(ENGINE) {
            check_engine(source, root, &mut findings);
        } else if source.path.starts_with(SIMULATOR) && !modules.is_test_file(&source.path) {
            check_simulator(source, root, &mut findings);
        } else if source.path.starts_with(APPLICATIONS) {
            check_application(source, &mut findings);
        }
    }
    findings
}

fn check_engine(source: &Source, root: Option<&Source>, findings: &mut Vec<Finding>) {
    let Some(module) = source.module_path() else {
        return;
    };
    for path in &source.tokens.paths {
        if path.segments[0] == "outcore_sim" {
            let what = "the engine names the simulator".to_owned();
            findings.push(finding(
                source,
                path,
                what,
                "let the simulator implement `Device`",
            ));
        }
    }
    let Some(own) = module.first() else { return };
    let Some(layer) = layer_of(own) else {
        findings.push(Finding {
            path: source.path.clone(),
            line: 1,
            check: "layers",
            item: own.clone(),
            what: format!("`{own}` belongs to no layer"),
            why: WHY,
            fix: format!("move it into a layer ({ORDER}) or extend xtask/src/tidy/layers.rs"),
            severity: Severity::Error,
        });
        return;
    };
    for path in &source.tokens.paths {
        let Some(target) = target_of(&module, path) else {
            continue;
        };
        let Some(named) = resolve(&target, root) else {
            let what = format!("`crate::{target}` hides the layer that it comes from");
            findings.push(finding(source, path, what, "write `crate::<layer>::...`"));
            continue;
        };
        if layer_of(&named).is_some_and(|named| named > layer) {
            let what = format!("`{own}` imports `{named}`, which stands above it");
            findings.push(finding(source, path, what, &format!("keep to {ORDER}")));
        }
    }
}

/// The first name below the crate's root that a path leads to; `None` if it stays outside it.
fn target_of(module: &[String], path: &PathUse) -> Option<String> {
    let mut segments = path.segments.iter().map(String::as_str).peekable();
    if segments.next_if_eq(&"crate").is_some() {
        return segments.next().map(str::to_owned);
    }
    let mut base: Vec<&str> = module
        .iter()
        .chain(&path.inside)
        .map(String::as_str)
        .collect();
    let is_relative = segments.next_if_eq(&"self").is_some();
    let mut is_above = false;
    while segments.next_if_eq(&"super").is_some() {
        base.pop();
        is_above = true;
    }
    if !is_relative && !is_above {
        return None;
    }
    base.extend(segments);
    base.first().map(|name| (*name).to_owned())
}

/// The layer's module behind a name of the crate's root.
fn resolve(name: &str, root: Option<&Source>) -> Option<String> {
    if layer_of(name).is_some() || name == "*" {
        return Some(name.to_owned());
    }
    let exports = &root?.exports;
    exports
        .iter()
        .find(|(export, _)| export == name)
        .map(|(_, module)| module.clone())
}

fn check_simulator(source: &Source, root: Option<&Source>, findings: &mut Vec<Finding>) {
    let highest = layer_of("drive").unwrap_or_default();
    for path in &source.tokens.paths {
        if path.segments[0] != "outcore" || source.is_test_line(path.line) {
            continue;
        }
        let named = resolve(&path.segments[1], root);
        if named
            .as_deref()
            .and_then(layer_of)
            .is_some_and(|named| named > highest)
        {
            let what = format!("the simulator imports `outcore::{}`", path.segments[1]);
            findings.push(finding(
                source,
                path,
                what,
                "keep to `outcore::drive` and below",
            ));
        }
    }
}

fn check_application(source: &Source, findings: &mut Vec<Finding>) {
    for path in &source.tokens.paths {
        if path.segments[0] == "outcore" && path.segments.iter().any(|name| name.starts_with("__"))
        {
            let what = format!("`{}` is not of the public API", path.segments.join("::"));
            findings.push(finding(
                source,
                path,
                what,
                "make the engine's public API sufficient",
            ));
        }
    }
}

fn finding(source: &Source, path: &PathUse, what: String, fix: &str) -> Finding {
    Finding {
        path: source.path.clone(),
        line: path.line,
        check: "layers",
        item: path.segments.join("::"),
        what,
        why: WHY,
        fix: fix.to_owned(),
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let tree = Tree::of(files);
        let sources = Sources::of(&tree);
        let modules = Modules::of(&tree, &sources);
        assert!(sources.unreadable().is_empty());
        check(&sources, &modules)
            .into_iter()
            .map(|f| (f.path, f.line))
            .collect()
    }

    fn engine(file: &str, text: &str) -> Vec<usize> {
        let lib = "pub mod drive;\npub use error::Error;\npub use algo::{sort, plan as outline};";
        let path = format!("crates/outcore/src/{file}");
        found(&[("crates/outcore/src/lib.rs", lib), (&path, text)])
            .into_iter()
            .map(|(_, line)| line)
            .collect()
    }

    #[test]
    fn an_import_from_above_is_found_however_it_is_written() {
        let bad = [
            "use crate::volume::Volume;",
            "use crate::{error::Error, volume};",
            "use super::super::stream::Reader;",
            "fn f() { crate::algo::sort(); }",
            "fn f() { vec![crate::job::Job::new()]; }",
            "use crate::sort;",
            "use crate::outline;",
            "macro_rules! m { () => { $crate::data::Record } }",
            "mod tests { use super::super::super::volume::Volume; }",
        ];
        for text in bad {
            assert_eq!(engine("drive/queue.rs", text), [1], "{text}");
        }
        assert_eq!(engine("memory.rs", "use super::drive::Device;"), [1]);
        assert_eq!(engine("drive/mod.rs", "use super::volume::Volume;"), [1]);
    }

    #[test]
    fn imports_from_below_and_within_a_layer_pass() {
        let good = [
            "use crate::error::Error;",
            "use crate::Error;",
            "use crate::{memory::Buf, config, drive::Device};",
            "use super::Device;",
            "mod tests { use super::*; use super::super::probe; }",
            "use std::sync::Arc; use rustix::io;",
        ];
        for text in good {
            assert_eq!(engine("drive/queue.rs", text), [0; 0], "{text}");
        }
        assert_eq!(engine("error.rs", "use crate::units::Bytes;"), [0; 0]);
        assert_eq!(
            engine("algo/sort.rs", "use crate::job::Job; use super::plan;"),
            [0; 0]
        );
    }

    #[test]
    fn a_module_of_no_layer_and_a_name_of_no_module_are_found() {
        assert_eq!(engine("helpers.rs", "fn f() {}"), [1]);
        assert_eq!(engine("drive/queue.rs", "use crate::Mystery;"), [1]);
    }

    #[test]
    fn the_engine_never_names_the_simulator() {
        assert_eq!(
            engine("drive/mod.rs", "fn f() {\n outcore_sim::Ssd::new(); }"),
            [2]
        );
        assert_eq!(engine("lib.rs", "pub use outcore_sim::Ssd;"), [1]);
    }

    #[test]
    fn the_simulator_sees_the_engine_up_to_its_drives() {
        let lib = ("crates/outcore/src/lib.rs", "pub use algo::sort;");
        let path = "crates/outcore-sim/src/lib.rs";
        let seen = |text| found(&[lib, (path, text)]).len();
        assert_eq!(seen("use outcore::volume::Volume;"), 1);
        assert_eq!(seen("use outcore::sort;"), 1);
        assert_eq!(
            seen("use outcore::drive::Device; use outcore::memory::Buf;"),
            0
        );
        assert_eq!(
            seen("#[cfg(test)] mod tests { use outcore::volume::Volume; }"),
            0
        );
    }

    #[test]
    fn applications_use_nothing_private() {
        let path = "crates/outcore-apps/src/lib.rs";
        assert_eq!(found(&[(path, "use outcore::__private::Queue;")]).len(), 1);
        assert_eq!(found(&[(path, "use outcore::algo::sort;")]).len(), 0);
    }
}
