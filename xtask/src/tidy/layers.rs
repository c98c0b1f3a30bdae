//! Checks the imports inside the crates.
//!
//! Contract: a module of one of the crates in [`ROOMS`] uses only modules of its own layer or of
//! lower layers. This holds for every form of a path (`crate::`, `super::`, a name re-exported by
//! `lib.rs`), inside macros, and in unit tests: a test that needs a higher layer belongs in
//! `tests/`. `lib.rs` is the facade and may use all modules. A layer lists no module that does not
//! exist. [`super::crates`] checks the arrows between crates.

use super::rust::{Source, Sources};
use super::tokens::PathUse;
use super::{Finding, Severity};

/// The crates whose modules are arranged in layers, by folder, each from the bottom up. Modules of
/// one entry may use each other.
const ROOMS: [(&str, &[&[&str]]); 20] = [
    (
        "crates/outcore-io/",
        &[
            &[
                "error", "stop", "units", "config", "checksum", "metadata", "nodes", "threads",
            ],
            &["memory"],
            &["drive"],
            &["port"],
            &["transfers"],
            &["output", "scratch", "consumed", "journal"],
        ],
    ),
    (
        "crates/outcore-store/",
        &[
            &["mapping", "slab"],
            &["stripe", "serving", "batch", "striped"],
            &["dataset", "load"],
        ],
    ),
    (
        "crates/outcore-cloud/",
        &[
            &["address"],
            &["environment"],
            &["fault"],
            &["cloud"],
            &["get", "open"],
            &["queue", "upload"],
            &["device"],
        ],
    ),
    (
        "crates/outcore/",
        &[
            &["key"],
            &["read", "writer", "states"],
            &["layout"],
            &["forecast"],
            &["job"],
            &["ends"],
            &["verify"],
            &["read_back"],
            &["partition"],
            &["sort", "passes"],
            &["merge", "shuffle"],
            &["runs"],
            &["primitives"],
            &["dataset"],
        ],
    ),
    (
        "crates/outcore-table/",
        &[
            &["fault"],
            &["notation"],
            &["schema", "equal"],
            &["common"],
            &["rows"],
            &["input", "output"],
            &["expr", "stream"],
            &["jobs"],
        ],
    ),
    (
        "crates/outcore-graph/",
        &[
            &["format"],
            &["edges"],
            &["convert", "graph"],
            &["kernels", "results", "ids", "export"],
        ],
    ),
    (
        "crates/outcore-vector/",
        &[
            &["format", "exact", "product"],
            &["scan", "results", "convert"],
            &["kmeans"],
            &["index"],
            &["knn"],
        ],
    ),
    (
        "crates/outcore-front/",
        &[
            &[
                "allocator",
                "blocks",
                "compress",
                "cost",
                "objects",
                "record_cost",
                "result_tables",
                "speeds",
                "spelling",
                "streams",
                "table_edges",
                "table_vectors",
                "volumes",
            ],
            &["content"],
            &["inputs"],
            &["records", "resources"],
            &["output"],
            &["spool"],
            &["text"],
            &[
                "dataset",
                "job",
                "object_outputs",
                "recording",
                "split",
                "staging",
                "view",
                "what",
            ],
        ],
    ),
    (
        "crates/outcore-mount/",
        &[&["blocks", "mountpoint"], &["files"]],
    ),
    (
        "crates/outcore-verbs/",
        &[
            &["bars", "synonym"],
            &["option", "kinds", "usage", "datasets"],
            &["report"],
            &["host"],
            &["explain", "resumed", "scratch", "verb"],
            &["columns", "wording", "lines", "records"],
            &["pass", "tables"],
            &[OTHERS],
            &["sort", "tail"],
            &["unique"],
        ],
    ),
    (
        "crates/outcore-cli/",
        &[
            &["cli", "floor", "lab", "pipe"],
            &["resources"],
            &["context"],
            &["commands"],
        ],
    ),
    (
        "crates/outcore-terminal/",
        &[
            &[
                "closed",
                "common",
                "measure",
                "pages",
                "recorder",
                "resources",
                "screen",
                "signals",
                "stdout",
            ],
            &["page_check", "report"],
            &["docs", "progress", "steps"],
            &["files"],
            &["session"],
        ],
    ),
    (
        "python/",
        &[
            &["capsule", "command", "errors", "fork", "request"],
            &["run"],
            &["datasets", "sim", "table", "verb", "volume"],
            &["dataset", "graph", "jobs", "view"],
            &["functions", "order", "sampler"],
        ],
    ),
    (
        "lab/outcore-sim/",
        &[
            &[
                "allegro",
                "event",
                "flow_order",
                "hot",
                "quantities",
                "rng",
                "say",
            ],
            &["config"],
            &["workload"],
            &["drive"],
            &["report"],
            &["flows"],
            &["mqsim", "plot", "requests", "workload_file"],
            &["fit", "run"],
            &["array", "presets", "sweep"],
            &["activesort", "calibrate", "device", "gpu", "plan"],
            &["policies"],
            &["cli"],
        ],
    ),
    (
        "lab/outcore-bench/",
        &[
            &["load", "watch"],
            &["bench_dirs"],
            &["io", "primitives", "sort", "striped", "view"],
            &["graph", "replay", "vectors"],
            &["args"],
        ],
    ),
    (
        "lab/outcore-lab/",
        &[&["cli"], &["bench", "help", "sim"], &["replay"]],
    ),
    (
        "lab/outcore-traces/",
        &[
            &["lines", "request", "skips", "source", "stages"],
            &["adapt", "gpu", "io_trace"],
            &["formats", "replay_plan"],
            &["reader", "write"],
            &["summary"],
        ],
    ),
    (
        "lab/outcore-gen/",
        &[
            &["distribution", "gensort", "random"],
            &["generator", "sample"],
            &["generate"],
        ],
    ),
    ("lab/outcore-chart/", &[&["chart"], &["axis"], &["draw"]]),
    ("lab/outcore-report/", &[&["report"]]),
];
/// In a layer, this mark means all modules that no layer names. The layer of the verbs uses it,
/// so that no verb is listed here.
const OTHERS: &str = "...";
/// This file, for findings about its own list.
const OWN_PATH: &str = "xtask/src/tidy/layers.rs";
const WHY: &str = "requests flow down and buffers flow up; an arrow the other way ties two layers \
                   into one";

/// A crate whose modules are arranged in layers.
#[derive(Clone, Copy)]
struct Room<'a> {
    layers: &'a [&'a [&'a str]],
    root: Option<&'a Source>,
}

impl Room<'_> {
    fn layer_of(&self, module: &str) -> Option<usize> {
        let layer_with = |name| self.layers.iter().position(|layer| layer.contains(&name));
        layer_with(module).or_else(|| layer_with(OTHERS))
    }

    /// Whether a layer names the module.
    fn names(&self, module: &str) -> bool {
        self.layers.iter().any(|layer| layer.contains(&module))
    }

    /// The layers in a readable form.
    fn order(&self) -> String {
        let layers: Vec<String> = self.layers.iter().map(|layer| layer.join(" ")).collect();
        layers.join(" < ")
    }
}

/// The layers of the crate in `folder`.
fn room_of<'a>(sources: &'a Sources, folder: &str) -> Option<Room<'a>> {
    let (_, layers) = ROOMS.iter().find(|(known, _)| *known == folder)?;
    let root = sources.get(&format!("{folder}src/lib.rs"));
    Some(Room { layers, root })
}

/// Checks every path in the sources.
pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.all() {
        let folder = ROOMS.iter().map(|(folder, _)| *folder).find(|folder| {
            let inside = source.path.strip_prefix(folder);
            inside.is_some_and(|inside| inside.starts_with("src/"))
        });
        if let Some(room) = folder.and_then(|folder| room_of(sources, folder)) {
            check_room(source, room, &mut findings);
        }
    }
    if sources.get(OWN_PATH).is_some() {
        findings.extend(missing_modules(sources));
    }
    findings
}

/// Modules in a layer that do not exist.
fn missing_modules(sources: &Sources) -> Vec<Finding> {
    let named = ROOMS.iter().flat_map(|(folder, layers)| {
        let modules = layers.iter().flat_map(|layer| layer.iter());
        modules.map(move |module| (*folder, *module))
    });
    let is_there = |(folder, module): &(&str, &str)| {
        if *module == OTHERS {
            return true;
        }
        let files = [
            format!("{folder}src/{module}.rs"),
            format!("{folder}src/{module}/mod.rs"),
        ];
        files.iter().any(|file| sources.get(file).is_some())
    };
    named
        .filter(|entry| !is_there(entry))
        .map(|(folder, module)| Finding {
            path: OWN_PATH.to_owned(),
            line: 1,
            check: "layers",
            item: module.to_owned(),
            what: format!("`{folder}` has no module `{module}`, which a layer names"),
            why: "a list that names what is gone no longer describes the layers",
            fix: "take the entry out".to_owned(),
            severity: Severity::Error,
        })
        .collect()
}

fn check_room(source: &Source, room: Room<'_>, findings: &mut Vec<Finding>) {
    let Some(module) = source.module_path() else {
        return;
    };
    let Some(own) = module.first() else { return };
    let Some(layer) = room.layer_of(own) else {
        findings.push(Finding {
            path: source.path.clone(),
            line: 1,
            check: "layers",
            item: own.clone(),
            what: format!("`{own}` belongs to no layer"),
            why: WHY,
            fix: format!(
                "move it into a layer ({}) or extend xtask/src/tidy/layers.rs",
                room.order()
            ),
            severity: Severity::Error,
        });
        return;
    };
    for path in &source.tokens.paths {
        let Some(target) = target_of(&module, path) else {
            continue;
        };
        let Some(named) = resolve(&target, room) else {
            let what = format!("`crate::{target}` hides the layer that it comes from");
            findings.push(finding(source, path, what, "write `crate::<layer>::...`"));
            continue;
        };
        if room.layer_of(&named).is_some_and(|named| named > layer) {
            let what = format!("`{own}` imports `{named}`, which is above it");
            let fix = format!("keep to {}", room.order());
            findings.push(finding(source, path, what, &fix));
        }
    }
}

/// The first name below the crate's root that a path leads to; `None` if the path stays outside the
/// crate.
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

/// The layer's module to which a name at the crate's root belongs.
fn resolve(name: &str, room: Room<'_>) -> Option<String> {
    if room.names(name) || name == "*" {
        return Some(name.to_owned());
    }
    let exports = &room.root?.exports;
    let export = exports.iter().find(|export| export.name == name);
    let module = export.map(|export| export.first.clone());
    module.or_else(|| room.names(OTHERS).then(|| name.to_owned()))
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
        assert!(sources.unreadable().is_empty());
        check(&sources)
            .into_iter()
            .map(|f| (f.path, f.line))
            .collect()
    }

    fn engine(file: &str, text: &str) -> Vec<usize> {
        let lib = "pub use outcore_io::Error;\npub use sort::{sort, plan as outline};";
        inside("crates/outcore/src", lib, file, text)
    }

    fn drives(file: &str, text: &str) -> Vec<usize> {
        let lib = "pub use error::Error;\npub use output::{stage as outline};";
        inside("crates/outcore-io/src", lib, file, text)
    }

    fn inside(folder: &str, lib: &str, file: &str, text: &str) -> Vec<usize> {
        let (root, path) = (format!("{folder}/lib.rs"), format!("{folder}/{file}"));
        found(&[(&root, lib), (&path, text)])
            .into_iter()
            .map(|(_, line)| line)
            .collect()
    }

    #[test]
    fn an_import_from_above_is_found_however_it_is_written() {
        let bad = [
            "use crate::port::Port;",
            "use crate::{error::Error, output};",
            "use super::super::scratch::Scratch;",
            "fn f() { crate::output::stage(); }",
            "fn f() { vec![crate::consumed::Consumed::new()]; }",
            "use crate::outline;",
            "macro_rules! m { () => { $crate::output::Output } }",
            "mod tests { use super::super::super::port::Port; }",
        ];
        for text in bad {
            assert_eq!(drives("drive/queue.rs", text), [1], "{text}");
        }
        assert_eq!(drives("memory.rs", "use super::drive::Device;"), [1]);
        assert_eq!(drives("drive/mod.rs", "use super::port::Port;"), [1]);
        assert_eq!(engine("key/order.rs", "use crate::sort;"), [1]);
        assert_eq!(engine("read/source.rs", "use crate::job::Job;"), [1]);
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
            assert_eq!(drives("drive/queue.rs", text), [0; 0], "{text}");
        }
        assert_eq!(drives("error.rs", "use crate::units::Bytes;"), [0; 0]);
        let text = "use crate::job::Job; use super::plan; use crate::Error;";
        assert_eq!(engine("sort/lines/mod.rs", text), [0; 0]);
    }

    #[test]
    fn a_module_without_a_name_is_in_the_layer_of_the_others() {
        let verbs = |file, text| {
            inside(
                "crates/outcore-verbs/src",
                "pub use sort::Sort;",
                file,
                text,
            )
        };
        assert_eq!(verbs("new.rs", "use crate::{host, tables, comm};"), [0; 0]);
        assert_eq!(verbs("new.rs", "use crate::Sort;"), [1]);
        assert_eq!(verbs("host.rs", "use crate::new::New;"), [1]);
    }

    #[test]
    fn a_layer_that_names_a_module_that_does_not_exist_is_found() {
        let fakes: Vec<String> = ROOMS
            .iter()
            .flat_map(|(folder, layers)| {
                let modules = layers.iter().flat_map(|layer| layer.iter());
                modules.map(move |module| format!("{folder}src/{module}/mod.rs"))
            })
            .collect();
        let mut files: Vec<(&str, &str)> = fakes.iter().map(|path| (path.as_str(), "")).collect();
        files.push((OWN_PATH, ""));
        assert_eq!(found(&files), []);
        // The first file is missing.
        assert_eq!(found(&files[1..]), [(OWN_PATH.to_owned(), 1)]);
    }

    #[test]
    fn a_module_of_no_layer_and_a_name_of_no_module_are_found() {
        assert_eq!(engine("helpers.rs", "fn f() {}"), [1]);
        assert_eq!(drives("drive/queue.rs", "use crate::Mystery;"), [1]);
    }
}
