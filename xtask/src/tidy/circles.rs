//! Finds circles of imports: files of one crate, its folders, or packages, that need each other.
//!
//! Contract: two files of one crate are tied when one uses an item of the other: by `use`, by a
//! path in code, or inside a macro. A circle is a set of at least two files each of which leads to
//! every other one (a strongly connected component). Each circle is one finding, placed at its
//! first file by name, with the item `circle of N files`. An exception therefore holds only for a
//! circle of that size. The rule, in order:
//! 1. Test code (test files, and lines under `#[test]` or `cfg(test)`) ties nothing.
//! 2. `mod x;` ties nothing, and neither does a re-export (`pub use x::Y`, `pub(crate) use`): a
//!    module that only declares and re-exports has no arrows of its own.
//! 3. A name that a file gets from elsewhere leads to its definition: `super::Y`, if the parent has
//!    `use x::Y`, is an arrow to `x`.
//! 4. A file may use names that the modules around it define (`super::Y`, defined there), because a
//!    child can access even its parent's private items and counts as a part of it. A parent that
//!    uses a name of its child is tied.
//!
//! The same arrows tie rooms: an arrow between two files is one between the first folders or files
//! in which their paths differ. A circle of rooms has the check `room-circles` and lists its rooms.
//!
//! Methods are not seen: a call through a value does not tie files by itself. Between packages
//! every kind of dependency counts, including those of tests, for which cargo allows circles.

use std::collections::{BTreeMap, BTreeSet};

use super::crates;
use super::dead::Modules;
use super::rust::{Source, Sources};
use super::tree::Tree;
use super::{Finding, Severity};

const WHY: &str = "files that need each other can only be understood, tested and moved together";
/// Maximum number of re-exports that are followed to reach a definition.
const REEXPORTS_MAX: usize = 8;
/// Maximum number of arrows of a circle that are printed.
const ARROWS_SHOWN: usize = 12;

/// Checks the files of every crate, and the packages.
pub(super) fn check(tree: &Tree, sources: &Sources, modules: &Modules) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.all() {
        if let Some((root, _)) = source.path.split_once("/src/")
            && modules.is_reached(&source.path)
            && !modules.is_test_file(&source.path)
        {
            crates.entry(root).or_default().push(source);
        }
    }
    for files in crates.values() {
        let names = Names::of(files);
        let arrows: Vec<_> = files.iter().map(|file| names.arrows_of(file)).collect();
        for circle in circles(&arrows) {
            findings.push(circle_of_files(&circle, files, &arrows));
        }
        findings.extend(circles_of_rooms(files, &arrows));
    }
    findings.extend(check_packages(tree));
    findings
}

/// The files that one file uses, each with the first line of a use.
type Arrows = BTreeMap<usize, usize>;

/// The modules of one crate that are files, by their paths.
struct Names<'a> {
    files: BTreeMap<Vec<String>, (usize, &'a Source)>,
}

impl<'a> Names<'a> {
    fn of(files: &[&'a Source]) -> Self {
        let mut names = BTreeMap::new();
        for (index, file) in files.iter().enumerate() {
            if let Some(path) = file.module_path() {
                // A library and a binary of one folder share the root: the library has the modules.
                names.entry(path).or_insert((index, *file));
            }
        }
        Names { files: names }
    }

    fn arrows_of(&self, source: &Source) -> Arrows {
        let mut arrows = Arrows::new();
        let Some(module) = source.module_path() else {
            return arrows;
        };
        let above: Vec<usize> = (0..=module.len())
            .filter_map(|depth| self.files.get(&module[..depth]))
            .map(|(index, _)| *index)
            .collect();
        let mut add = |target: Option<usize>, line: usize| {
            if let Some(target) = target.filter(|target| !above.contains(target)) {
                let first_line = arrows.entry(target).or_insert(line);
                *first_line = line.min(*first_line);
            }
        };
        let mut public_lines = BTreeSet::new();
        for import in &source.imports {
            if import.is_public {
                public_lines.insert(import.line);
            }
            if source.is_test_line(import.line) || import.is_public {
                continue;
            }
            let path = self.absolute(source, &module, &import.inside, &import.path);
            match import.name {
                Some(_) => add(path.and_then(|path| self.definition(&path)), import.line),
                None => add(
                    path.and_then(|path| self.files.get(&path).map(|(index, _)| *index)),
                    import.line,
                ),
            }
        }
        let reexports = spans_of_reexports(source, &public_lines);
        for path in &source.tokens.paths {
            let is_reexport = reexports.iter().any(|span| span.contains(&path.line));
            if source.is_test_line(path.line) || is_reexport {
                continue;
            }
            let absolute = self.absolute(source, &module, &path.inside, &path.segments);
            add(absolute.and_then(|path| self.definition(&path)), path.line);
        }
        arrows
    }

    /// A path from the crate's root, if it leads into this crate.
    fn absolute(
        &self,
        source: &Source,
        module: &[String],
        inside: &[String],
        path: &[String],
    ) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let mut base: Vec<String> = module.iter().chain(inside).cloned().collect();
        match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => {}
            "super" => {
                base.pop();
            }
            name => {
                let child = module
                    .iter()
                    .cloned()
                    .chain([name.to_owned()])
                    .collect::<Vec<_>>();
                if self.files.contains_key(&child) {
                    return Some(child.into_iter().chain(rest.iter().cloned()).collect());
                }
                // A module that a `use` of this file has brought into scope.
                let import = source
                    .imports
                    .iter()
                    .find(|import| import.name.as_deref() == Some(name) && import.path.len() > 1)?;
                let is_relative = matches!(import.path[0].as_str(), "crate" | "self" | "super");
                if !is_relative {
                    return None;
                }
                let target = self.absolute(source, module, &import.inside, &import.path)?;
                return Some(target.into_iter().chain(rest.iter().cloned()).collect());
            }
        }
        let mut rest = rest;
        while let Some((next, behind)) = rest.split_first()
            && next == "super"
        {
            base.pop();
            rest = behind;
        }
        Some(base.into_iter().chain(rest.iter().cloned()).collect())
    }

    /// The file that defines the target of a path; `None` if the path ends at a module.
    fn definition(&self, path: &[String]) -> Option<usize> {
        let mut path = path.to_vec();
        for _ in 0..REEXPORTS_MAX {
            let depth = (0..=path.len())
                .rev()
                .find(|depth| self.files.contains_key(&path[..*depth]))?;
            let (index, file) = self.files.get(&path[..depth])?;
            let name = path.get(depth)?;
            let module = path[..depth].to_vec();
            let import = file
                .imports
                .iter()
                .find(|import| import.name.as_ref() == Some(name) && import.inside.is_empty());
            let Some(import) = import else {
                return Some(*index);
            };
            let Some(target) = self.absolute(file, &module, &[], &import.path) else {
                return Some(*index);
            };
            if target == path {
                return Some(*index);
            }
            path = target
                .into_iter()
                .chain(path[depth + 1..].iter().cloned())
                .collect();
        }
        None
    }
}

/// The lines of each re-export, which may span several.
fn spans_of_reexports(
    source: &Source,
    first_lines: &BTreeSet<usize>,
) -> Vec<std::ops::RangeInclusive<usize>> {
    let end_of = |first: usize| {
        let rest = source.lines.iter().enumerate().skip(first - 1);
        let mut ends = rest.filter(|(_, line)| line.contains(';'));
        ends.next().map_or(first, |(index, _)| index + 1)
    };
    first_lines
        .iter()
        .map(|first| *first..=end_of(*first))
        .collect()
}

fn circle_of_files(circle: &[usize], files: &[&Source], arrows: &[Arrows]) -> Finding {
    let first = circle[0];
    let name_of = |file: usize| {
        let path = &files[file].path;
        path.split_once("/src/")
            .map_or(path.as_str(), |(_, inner)| inner)
    };
    let mut shown = Vec::new();
    for from in circle {
        for (to, line) in arrows[*from].iter().filter(|(to, _)| circle.contains(to)) {
            shown.push(format!("{}:{line} names {}", name_of(*from), name_of(*to)));
        }
    }
    let more = shown.len().saturating_sub(ARROWS_SHOWN);
    shown.truncate(ARROWS_SHOWN);
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    let names: Vec<_> = circle.iter().map(|file| name_of(*file)).collect();
    let item = format!("circle of {} files", circle.len());
    Finding {
        path: files[first].path.clone(),
        line: 1,
        check: "circles",
        what: format!("`{item}`: {} ({})", names.join(", "), shown.join("; ")),
        item,
        why: WHY,
        fix: "move what both need into a file of its own, or into the lower of the two".to_owned(),
        severity: Severity::Error,
    }
}

/// The circles among the rooms of one folder.
fn circles_of_rooms(files: &[&Source], arrows: &[Arrows]) -> Vec<Finding> {
    let mut floors: BTreeMap<Vec<String>, Floor> = BTreeMap::new();
    for (from, targets) in arrows.iter().enumerate() {
        for (to, line) in targets {
            let (Some(own), Some(other)) = (files[from].module_path(), files[*to].module_path())
            else {
                continue;
            };
            let shared = own.iter().zip(&other).take_while(|(a, b)| a == b).count();
            if let (Some(room), Some(target)) = (own.get(shared), other.get(shared)) {
                let floor = floors.entry(own[..shared].to_vec()).or_default();
                let place = format!("{}:{line}", files[from].path);
                floor.tie(room, target, place);
            }
        }
    }
    floors.values().flat_map(Floor::circles).collect()
}

/// Rooms next to each other, and their imports of each other.
#[derive(Debug, Default)]
pub(super) struct Floor {
    names: Vec<String>,
    arrows: Vec<Arrows>,
    /// The first place of each arrow, by the indices of its rooms.
    places: BTreeMap<(usize, usize), String>,
}

impl Floor {
    /// Adds an import found at `place` (`path:line`).
    pub(super) fn tie(&mut self, from: &str, to: &str, place: String) {
        let (from, to) = (self.number(from), self.number(to));
        self.arrows[from].entry(to).or_insert(1);
        self.places.entry((from, to)).or_insert(place);
    }

    fn number(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.arrows.push(Arrows::new());
            self.names.len() - 1
        })
    }

    /// One finding per circle; its item lists the rooms.
    pub(super) fn circles(&self) -> Vec<Finding> {
        let finding = |circle: Vec<usize>| {
            let mut names: Vec<_> = circle.iter().map(|at| self.names[*at].as_str()).collect();
            names.sort_unstable();
            let inside = self
                .places
                .iter()
                .filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
            let shown: Vec<String> = inside
                .map(|((from, to), place)| {
                    let (from, to) = (&self.names[*from], &self.names[*to]);
                    format!("{from} names {to} at {place}")
                })
                .collect();
            let first = self
                .places
                .iter()
                .find(|((from, to), _)| self.names[*from] == names[0] && circle.contains(to));
            let path = first.map_or("", |(_, place)| place.as_str());
            let path = path.split(':').next().unwrap_or_default();
            Finding {
                path: path.to_owned(),
                line: 1,
                check: "room-circles",
                what: format!("a circle of {} ({})", names.join(", "), shown.join("; ")),
                item: names.join(" "),
                why: "rooms that need each other can only be understood and moved together",
                fix: "move what both need below them".to_owned(),
                severity: Severity::Error,
            }
        };
        circles(&self.arrows).into_iter().map(finding).collect()
    }
}

fn check_packages(tree: &Tree) -> Vec<Finding> {
    let packages = crates::packages(tree);
    let place = |name: &str| packages.iter().position(|package| package.name == name);
    let arrows: Vec<Arrows> = packages
        .iter()
        .map(|package| {
            package
                .needs
                .iter()
                .filter_map(|name| Some((place(name)?, 1)))
                .collect()
        })
        .collect();
    let finding = |circle: Vec<usize>| {
        let names: Vec<_> = circle
            .iter()
            .map(|at| packages[*at].name.as_str())
            .collect();
        let item = format!("circle of {} packages", circle.len());
        Finding {
            path: packages[circle[0]].manifest.clone(),
            line: 1,
            check: "circles",
            what: format!("`{item}`: {}", names.join(", ")),
            item,
            why: WHY,
            fix: "move what both need into the lower one".to_owned(),
            severity: Severity::Error,
        }
    };
    circles(&arrows).into_iter().map(finding).collect()
}

/// Strongly connected components of more than one node, each sorted, in the order of their first
/// nodes.
fn circles(arrows: &[Arrows]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..arrows.len()).map(|from| reach(arrows, from)).collect();
    let mut found = Vec::new();
    let mut is_done = vec![false; arrows.len()];
    for node in 0..arrows.len() {
        if is_done[node] || !reached[node].contains(&node) {
            continue;
        }
        let circle: Vec<usize> = reached[node]
            .iter()
            .copied()
            .filter(|other| reached[*other].contains(&node))
            .collect();
        for member in &circle {
            is_done[*member] = true;
        }
        found.push(circle);
    }
    found
}

/// All nodes reachable from `from`, which is included only if it is on a circle.
fn reach(arrows: &[Arrows], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for next in arrows[node].keys() {
            if reached.insert(*next) {
                open.push(*next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, String)> {
        found_by("circles", files)
    }

    fn found_by(check_name: &str, files: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut all = vec![("crates/a/Cargo.toml", "[package]\nname = 'a'")];
        all.extend_from_slice(files);
        let tree = Tree::of(&all);
        let sources = Sources::of(&tree);
        let modules = Modules::of(&tree, &sources);
        assert!(sources.unreadable().is_empty());
        let findings = check(&tree, &sources, &modules);
        let wanted = findings.into_iter().filter(|f| f.check == check_name);
        wanted.map(|f| (f.path, f.item)).collect()
    }

    fn is_circle(b: &str, c: &str) -> bool {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; pub use c::C;"),
            ("crates/a/src/b.rs", b),
            ("crates/a/src/c.rs", c),
        ];
        !found(&files).is_empty()
    }

    #[test]
    fn files_that_name_each_other_are_found_however_they_write_it() {
        let ways = [
            "use crate::c::C;",
            "use super::c::{D, C};",
            "fn f() { crate::c::g(); }",
            "use crate::c; fn f() { c::g(); }",
            "use crate::c as d; fn f() { d::g(); }",
            "use super::C;",
            "use crate::c::*;",
            "fn f() { vec![crate::c::g()]; }",
        ];
        for way in ways {
            assert!(is_circle(way, "use crate::b::B;"), "{way}");
            assert!(!is_circle(way, "use std::fs;"), "{way}");
        }
    }

    #[test]
    fn tests_declarations_and_reexports_tie_nothing() {
        let ways = [
            "#[cfg(test)] mod tests { use crate::c::C; }",
            "pub use crate::c::C;",
            "pub(crate) use super::c::{\n  C,\n  D,\n};",
            "use std::c::C;",
        ];
        for way in ways {
            assert!(!is_circle(way, "use crate::b::B;"), "{way}");
        }
    }

    #[test]
    fn a_child_may_name_its_parent_but_not_what_stands_beside_that() {
        let lib = ("crates/a/src/lib.rs", "mod b; mod d;");
        let calls = ("crates/a/src/b.rs", "mod c; fn helper() { c::f(); }");
        let child = ("crates/a/src/b/c.rs", "use super::helper; pub fn f() {}");
        assert_eq!(found(&[lib, child, calls]), []);
        let child = ("crates/a/src/b/c.rs", "use crate::d::g; pub fn f() {}");
        let beside = ("crates/a/src/d.rs", "use crate::b::helper; pub fn g() {}");
        let expected = (
            "crates/a/src/b.rs".to_owned(),
            "circle of 3 files".to_owned(),
        );
        assert_eq!(found(&[lib, child, calls, beside]), [expected]);
    }

    #[test]
    fn folders_that_need_each_other_are_found_where_no_files_do() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c;"),
            ("crates/a/src/b/mod.rs", "mod x; mod y;"),
            ("crates/a/src/b/x.rs", "use crate::c::C;"),
            ("crates/a/src/b/y.rs", ""),
            ("crates/a/src/c.rs", "use crate::b::y::Y;"),
        ];
        let expected = ("crates/a/src/b/x.rs".to_owned(), "b c".to_owned());
        assert_eq!(found(&files), []);
        assert_eq!(found_by("room-circles", &files), [expected]);
        let open = [files[0], files[1], files[2], files[3]];
        assert_eq!(found_by("room-circles", &open), []);
    }

    #[test]
    fn a_circle_over_three_files_is_one_finding() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; mod d; mod e;"),
            ("crates/a/src/b.rs", "use crate::c::C;"),
            ("crates/a/src/c.rs", "use crate::d::D;"),
            ("crates/a/src/d.rs", "use crate::b::B;"),
            ("crates/a/src/e.rs", "use crate::b::B;"),
        ];
        let expected = (
            "crates/a/src/b.rs".to_owned(),
            "circle of 3 files".to_owned(),
        );
        assert_eq!(found(&files), [expected]);
    }

    #[test]
    fn packages_that_need_each_other_for_tests_are_found() {
        let manifest = "[package]\nname = 'b'\n[dev-dependencies]\nc.workspace = true";
        let other = "[package]\nname = 'c'\n[dependencies]\nb.workspace = true";
        let files = [
            ("crates/b/Cargo.toml", manifest),
            ("crates/c/Cargo.toml", other),
        ];
        let expected = (
            "crates/b/Cargo.toml".to_owned(),
            "circle of 2 packages".to_owned(),
        );
        assert_eq!(found(&files), [expected]);
    }
}
