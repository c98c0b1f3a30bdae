//! Finds public names that have no user outside their crate.
//!
//! Contract: in every library below `crates/` and `lab/`, each `pub` function, type, trait,
//! constant, module, re-export and inherent method must be used. The rule compares names, not
//! paths: a name that equals a used one counts as used. A finding is therefore always true, and
//! some unused names remain unseen. A name is used in three cases:
//! 1. A source outside the library's own modules takes the name from something (`a::name`,
//!    `a.name`, `use a::{name}`), in a package that depends on the library in any way. Such sources
//!    are other crates, the package's own binary, tests, benches, examples and the fuzz targets. A
//!    word in fenced Rust code of a page or a comment also counts, because that is a program of its
//!    own.
//! 2. It appears in the signature of something that is used: a parameter, a result, a bound, a
//!    public field, a variant's field, or the methods of a trait. The compiler requires such a type
//!    to be public.
//! 3. It belongs to the facade, which is for programs outside this repository: a name at the root
//!    of `crates/outcore`, a method of such a type, and a name in the signature of either.
//!
//! The rule does not check fields (a struct that callers write out must have all of them public) or
//! names that a macro generates. Test code is exempt.

use std::collections::BTreeSet;

use super::crates;
use super::dead::Modules;
use super::offers::{Public, words_of_examples};
use super::rust::{Source, Sources};
use super::tree::Tree;
use super::{Finding, Severity};

const FACADE: &str = "crates/outcore/src/lib.rs";
const ROOMS: [&str; 2] = ["crates/", "lab/"];
const WHY: &str = "what is public is read, kept and documented for users that it does not have";

/// A library crate and its possible users.
#[derive(Debug)]
struct Library<'a> {
    /// Its folder, followed by `/`.
    folder: &'a str,
    /// The folders of its package and of all packages that depend on it.
    users: Vec<&'a str>,
    /// The files of its own modules, except for those of tests.
    modules: Vec<&'a Source>,
    /// Names that sources outside these modules take from others.
    taken_outside: BTreeSet<&'a str>,
}

impl<'a> Library<'a> {
    /// Its public names outside of test code.
    fn publics(&self) -> impl Iterator<Item = (&'a Source, &'a Public)> {
        self.modules.iter().flat_map(|source| {
            let publics = source.offers.publics.iter();
            let kept = publics.filter(|public| !source.is_test_line(public.line));
            kept.map(|public| (*source, public))
        })
    }

    /// The names that the type `name` exposes as associated types of traits.
    fn associated(&self, name: &str) -> impl Iterator<Item = &'a String> {
        let sources = self.modules.iter();
        let all = sources.flat_map(|source| &source.offers.associated);
        all.filter(move |(owner, _)| owner == name)
            .flat_map(|(_, exposes)| exposes)
    }
}

/// For each library, its names that are known to be used.
type Seen<'a> = Vec<BTreeSet<&'a str>>;

/// Checks every library below [`ROOMS`].
pub(super) fn check(tree: &Tree, sources: &Sources, modules: &Modules) -> Vec<Finding> {
    let packages = crates::packages(tree);
    let libraries = libraries(tree, sources, modules, &packages);
    let mut facade: Seen<'_> = vec![BTreeSet::new(); libraries.len()];
    for import in sources.get(FACADE).iter().flat_map(|root| &root.imports) {
        for (library, names) in libraries.iter().zip(&mut facade) {
            if import.is_public && library.users.iter().any(|user| FACADE.starts_with(user)) {
                names.extend(import.name.as_deref());
            }
        }
    }
    let of_facade = |seen: &Seen<'_>, at: usize, public: &Public| {
        seen[at].contains(public.owner.as_ref().unwrap_or(&public.name).as_str())
    };
    let facade = spread(&libraries, facade, of_facade);
    let is_used = |seen: &Seen<'_>, at: usize, public: &Public| {
        let name = public.name.as_str();
        let is_exposed = public.owner.is_none() && seen[at].contains(name);
        is_exposed || of_facade(&facade, at, public) || libraries[at].taken_outside.contains(name)
    };
    let seen = spread(&libraries, facade.clone(), is_used);
    let mut findings = Vec::new();
    for (at, library) in libraries.iter().enumerate() {
        let unused = library
            .publics()
            .filter(|(_, public)| !is_used(&seen, at, public));
        findings.extend(unused.map(|(source, public)| finding(source, public)));
    }
    findings
}

/// Adds to `seen` the names in the signatures of used names, repeatedly, until nothing is new. A
/// signature uses names of its own library or of those that this one depends on.
fn spread<'a>(
    libraries: &[Library<'a>],
    mut seen: Seen<'a>,
    is_used: impl Fn(&Seen<'a>, usize, &Public) -> bool,
) -> Seen<'a> {
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for (at, library) in libraries.iter().enumerate() {
            for (_, public) in library.publics() {
                if !is_used(&seen, at, public) {
                    continue;
                }
                for name in public
                    .exposes
                    .iter()
                    .chain(library.associated(&public.name))
                {
                    for (below, names) in libraries.iter().zip(&mut seen) {
                        is_changed |= below.users.contains(&library.folder) && names.insert(name);
                    }
                }
            }
        }
    }
    seen
}

/// The libraries of the tree, with the names that sources outside each of them use.
fn libraries<'a>(
    tree: &'a Tree,
    sources: &'a Sources,
    modules: &Modules,
    packages: &'a [crates::Package],
) -> Vec<Library<'a>> {
    let pages = tree.files().iter().filter(|file| file.extension() == "md");
    let in_pages: BTreeSet<&str> = pages
        .flat_map(|page| words_of_examples(page.text.lines()))
        .collect();
    let mut libraries = Vec::new();
    for package in packages {
        let folder = package.folder();
        let is_looked_at = ROOMS.iter().any(|room| folder.starts_with(room));
        if !is_looked_at || sources.get(&format!("{folder}src/lib.rs")).is_none() {
            continue;
        }
        let mut library = Library {
            folder,
            users: users_of(&package.name, packages),
            modules: Vec::new(),
            taken_outside: in_pages.clone(),
        };
        let own = format!("{folder}src/");
        for source in sources.all() {
            let Some(user) = package_of(source, packages) else {
                continue;
            };
            if !library.users.contains(&user) {
                continue;
            }
            let (taken, offers) = (&mut library.taken_outside, &source.offers);
            taken.extend(offers.words_of_examples.iter().map(String::as_str));
            let inner = source.path.strip_prefix(&own);
            if inner.is_none_or(|inner| inner == "main.rs" || inner.starts_with("bin/")) {
                taken.extend(offers.taken.iter().map(String::as_str));
            } else if !modules.is_test_file(&source.path) {
                library.modules.push(source);
            }
        }
        libraries.push(library);
    }
    libraries
}

/// The folder of the package that a source belongs to.
fn package_of<'a>(source: &Source, packages: &'a [crates::Package]) -> Option<&'a str> {
    let folders = packages.iter().map(crates::Package::folder);
    folders
        .filter(|folder| source.path.starts_with(folder))
        .max_by_key(|folder| folder.len())
}

/// The folders of a package and of all packages that depend on it, directly or not.
fn users_of<'a>(name: &str, packages: &'a [crates::Package]) -> Vec<&'a str> {
    let mut names = BTreeSet::from([name]);
    loop {
        let before_count = names.len();
        for package in packages {
            if package
                .needs
                .iter()
                .any(|need| names.contains(need.as_str()))
            {
                names.insert(&package.name);
            }
        }
        if names.len() == before_count {
            break;
        }
    }
    let users = packages
        .iter()
        .filter(|package| names.contains(package.name.as_str()));
    users.map(crates::Package::folder).collect()
}

fn finding(source: &Source, public: &Public) -> Finding {
    let item = match &public.owner {
        Some(owner) => format!("{owner}::{}", public.name),
        None => public.name.clone(),
    };
    Finding {
        path: source.path.clone(),
        line: public.line,
        check: "unused-public",
        what: format!("`{item}` is public, and nobody outside its crate names it"),
        item,
        why: WHY,
        fix: "make it `pub(crate)`, `pub(super)` or private, and delete what is dead then"
            .to_owned(),
        severity: Severity::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: (&str, &str) = ("crates/low/Cargo.toml", "[package]\nname = 'low'");
    const HIGH: (&str, &str) = (
        "crates/high/Cargo.toml",
        "[package]\nname = 'high'\n[dependencies]\nlow = {}",
    );

    /// The unused names of `low`, whose root is `text`, in a tree that also has `others`.
    fn unused(text: &str, others: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![LOW, HIGH, ("crates/low/src/lib.rs", text)];
        files.extend(others);
        let tree = Tree::of(&files);
        let sources = Sources::of(&tree);
        assert!(sources.unreadable().is_empty());
        let modules = Modules::of(&tree, &sources);
        let findings = check(&tree, &sources, &modules);
        findings.into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn every_kind_of_name_that_nobody_takes_is_found_and_what_is_not_public_is_not_looked_at() {
        let text = "pub mod a { pub fn f() {} } pub struct S { pub field: u8 }\n\
                    impl S { pub fn m(&self) {} pub const C: u8 = 1; fn own() {} }\n\
                    pub enum E { A } pub trait T { fn t(); } pub type Y = u8; pub static Z: u8 = 1;\n\
                    pub use std::vec::{Vec as V, IntoIter}; pub(crate) fn g() {} fn h() {}\n\
                    #[cfg(test)] mod tests { pub fn i() {} }";
        let expected = [
            "a", "f", "S", "S::m", "S::C", "E", "T", "Y", "Z", "V", "IntoIter",
        ];
        assert_eq!(unused(text, &[]), expected);
        // The library's own modules and unit tests are not users.
        let own = ("crates/low/src/own.rs", "use crate::a::f; use crate::S;");
        assert_eq!(unused(text, &[own]), expected);
    }

    #[test]
    fn a_name_is_used_by_what_takes_it_from_something_in_a_package_that_depends_on_it() {
        let text = "pub fn f() {} pub struct S; impl S { pub fn m(&self) {} }";
        let users = [
            (
                "crates/high/src/lib.rs",
                "use low::{f, S}; fn g(s: S) { s.m() }",
            ),
            (
                "crates/low/tests/t.rs",
                "fn g() { vec![low::f(), low::S.m()]; }",
            ),
            (
                "crates/low/src/main.rs",
                "fn g() { low::f(); low::S::m(&x) }",
            ),
            ("docs/a.md", "```rust\nlow::f(); S.m();\n```\n"),
            (
                "crates/low/src/b.rs",
                "//! ```\n//! low::f(); S.m();\n//! ```\n",
            ),
        ];
        for user in users {
            assert_eq!(unused(text, &[user]), [""; 0], "{}", user.0);
        }
        let strangers = [
            (
                "crates/other/src/lib.rs",
                "use low::{f, S}; fn g(s: S) { s.m() }",
            ),
            ("crates/high/src/lib.rs", "fn f(m: u8) { let S = 0..m; }"),
            ("docs/a.md", "f and S.m\n```sh\nf S m\n```\n"),
        ];
        let package = ("crates/other/Cargo.toml", "[package]\nname = 'other'");
        for stranger in strangers {
            assert_eq!(
                unused(text, &[package, stranger]),
                ["f", "S", "S::m"],
                "{}",
                stranger.0
            );
        }
    }

    #[test]
    fn what_stands_in_the_signature_of_a_used_name_is_used_but_not_its_methods() {
        let text = "pub fn f<X: Bound>(a: A) -> Vec<B> { Inner }\n\
                    pub trait Bound { fn b() -> C; } pub struct A { pub d: D, e: E } pub enum B { F(F) }\n\
                    impl A { pub fn m(&self) -> G {} } impl Iterator for B { type Item = H; }\n\
                    pub struct C; pub struct D; pub struct E; pub struct F; pub struct G; pub struct H;\n\
                    pub struct Inner;";
        let user = ("crates/high/src/lib.rs", "use low::f;");
        assert_eq!(unused(text, &[user]), ["A::m", "E", "G", "Inner"]);
    }

    #[test]
    fn the_names_at_the_engines_root_their_methods_and_what_these_name_are_for_programs_outside() {
        let engine = "[package]\nname = 'outcore'\n[dependencies]\nlow = {}";
        let root = "mod job; pub use job::Job; pub use low::L;";
        let job = "pub struct Job; impl Job { pub fn m(&self) -> M {} }\n\
                   pub struct M; impl M { pub fn n(&self) {} } pub struct Apart;";
        let low = "pub struct L; impl L { pub fn l(&self) {} } pub struct K;";
        let files = [
            ("crates/outcore/Cargo.toml", engine),
            ("crates/outcore/src/lib.rs", root),
            ("crates/outcore/src/job.rs", job),
        ];
        assert_eq!(unused(low, &files), ["K", "Apart"]);
    }
}
