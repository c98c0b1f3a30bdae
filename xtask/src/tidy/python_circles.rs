//! Finds circles among the modules of the Python package.
//!
//! Contract: a module is tied to another one of `python/outcore` that it imports, at its top or
//! within a function, in any form (`from ._x import y`, `from . import _x`,
//! `from outcore._x import y`, `import outcore._x`). Imports under `if TYPE_CHECKING:` serve only
//! type checkers and tie nothing. `__init__.py` is the facade and may import all modules; no module
//! is tied to it.

use std::collections::BTreeSet;

use super::Finding;
use super::circles::Floor;
use super::python::blanked;
use super::tree::Tree;

const FOLDER: &str = "python/outcore/";
const FACADE: &str = "__init__";

/// Checks the package.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let modules: BTreeSet<&str> = tree
        .files()
        .iter()
        .filter_map(|file| file.path.strip_prefix(FOLDER)?.strip_suffix(".py"))
        .filter(|module| *module != FACADE)
        .collect();
    let mut floor = Floor::default();
    for file in tree.files() {
        let module = file.path.strip_prefix(FOLDER);
        let Some(module) = module.and_then(|path| path.strip_suffix(".py")) else {
            continue;
        };
        if !modules.contains(module) {
            continue;
        }
        for import in imports(&file.text) {
            if modules.contains(import.module.as_str()) && import.module != module {
                let place = format!("{}:{}", file.path, import.line);
                floor.tie(module, &import.module, place);
            }
        }
    }
    floor.circles()
}

/// One module that a source imports.
struct Import {
    module: String,
    line: usize,
}

/// Every module of the package that a source imports, outside `if TYPE_CHECKING:`.
fn imports(text: &str) -> Vec<Import> {
    let code = blanked(text);
    let mut found = Vec::new();
    let mut lines = code.lines().enumerate().peekable();
    let mut typing_indent = None;
    while let Some((index, line)) = lines.next() {
        let start = line.trim_start();
        let indent = line.len() - start.len();
        if typing_indent.is_some_and(|typing| !start.is_empty() && indent <= typing) {
            typing_indent = None;
        }
        if start.starts_with("if TYPE_CHECKING") {
            typing_indent = Some(indent);
        }
        if typing_indent.is_some() {
            continue;
        }
        let mut statement = start.to_owned();
        while statement.contains('(') && !statement.contains(')') {
            let Some((_, next)) = lines.next() else { break };
            statement.push_str(next);
        }
        let names = imported(&statement);
        found.extend(names.into_iter().map(|module| Import {
            module,
            line: index + 1,
        }));
    }
    found
}

/// The modules that one statement may import.
fn imported(statement: &str) -> Vec<String> {
    let first = |path: &str| path.split('.').next().unwrap_or_default().trim().to_owned();
    if let Some(rest) = statement.strip_prefix("import ") {
        let paths = rest.split(',').filter_map(|path| {
            let path = path.split_whitespace().next().unwrap_or_default();
            path.strip_prefix("outcore.").map(first)
        });
        return paths.collect();
    }
    let Some((from, names)) = statement
        .strip_prefix("from ")
        .and_then(|rest| rest.split_once(" import "))
    else {
        return Vec::new();
    };
    let from = from.trim();
    if from == "." || from == "outcore" {
        let names = names.trim_matches(['(', ')', ' ']).split(',');
        let names = names.filter_map(|name| name.split_whitespace().next());
        return names.map(str::to_owned).collect();
    }
    let inside = from.strip_prefix('.');
    let inside = inside.or_else(|| from.strip_prefix("outcore."));
    inside.map(first).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(a: &str, b: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("python/outcore/__init__.py", "from ._a import f\n"),
            ("python/outcore/_a.py", a),
            ("python/outcore/_b.py", b),
        ]);
        check(&tree).into_iter().map(|f| f.item).collect()
    }

    #[test]
    fn modules_that_import_each_other_are_found_in_every_form() {
        let ways = [
            "from ._b import g\n",
            "def f():\n    from ._b import g\n",
            "from . import _c, _b as b\n",
            "from outcore._b import (\n    g,\n)\n",
            "import outcore._b\n",
            "from . import (\n    _c,\n    _b,\n)\n",
        ];
        for way in ways {
            assert_eq!(found(way, "from ._a import f\n"), ["_a _b"], "{way}");
            assert!(found(way, "import numpy\n").is_empty(), "{way}");
        }
    }

    #[test]
    fn imports_for_types_and_words_in_strings_tie_nothing() {
        let typed = "if TYPE_CHECKING:\n    from ._b import g\n\nx = 1\n";
        assert!(found(typed, "from ._a import f\n").is_empty());
        let said = "\"\"\"\nfrom ._b import g\n\"\"\"\n# from ._b import g\n";
        assert!(found(said, "from ._a import f\n").is_empty());
    }
}
