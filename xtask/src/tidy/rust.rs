//! Collects once what the checks need from each Rust source.
//!
//! Contract: a source that does not parse is a finding and is skipped by the other checks. Lines
//! count from 1. Test code is everything under `#[test]` or a `cfg` that mentions `test`, and all
//! of a crate's `tests`, `benches` and `examples`.

use std::ops::RangeInclusive;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::offers::Offers;
use super::tokens::TokenFacts;
use super::tree::Tree;
use super::{Finding, Severity};

/// A named value with a type: field, parameter, constant.
#[derive(Debug, Clone)]
pub(super) struct Value {
    /// Its own name.
    pub name: String,
    /// Its full name: `Struct.field`, `function(parameter)`, `CONSTANT`.
    pub item: String,
    /// Line of the name.
    pub line: usize,
    /// Whether its type is a number, or a collection or option of numbers.
    pub is_number: bool,
}

/// A parameter whose type contains a tuple.
#[derive(Debug, Clone)]
pub(super) struct TupleParameter {
    /// `function(parameter)`.
    pub item: String,
    /// Line of its type.
    pub line: usize,
}

/// A name that `pub use` re-exports.
#[derive(Debug, Clone)]
pub(super) struct Export {
    /// The name.
    pub name: String,
    /// The first name of its path.
    pub first: String,
}

/// A `mod name;` that refers to another file.
#[derive(Debug, Clone)]
pub(super) struct ModuleFile {
    /// The module's name.
    pub name: String,
    /// The modules of this file that contain it.
    pub inside: Vec<String>,
    /// Path given by an attribute.
    pub path: Option<String>,
    /// Whether only tests compile it.
    pub is_test: bool,
}

/// A name that a `use` brings into scope.
#[derive(Debug, Clone)]
pub(super) struct Import {
    /// The path as written, with `crate`, `self` and `super`; for a glob, the path before `*`.
    pub path: Vec<String>,
    /// Its name in this file; `None` for a glob.
    pub name: Option<String>,
    /// Whether others may import it from here.
    pub is_public: bool,
    /// Line of the `use`.
    pub line: usize,
    /// The modules of this file that contain it.
    pub inside: Vec<String>,
}

/// One source.
#[derive(Debug)]
pub(super) struct Source {
    /// Path relative to the root.
    pub path: String,
    /// Facts from its tokens.
    pub tokens: TokenFacts,
    /// The names that it offers and takes.
    pub offers: Offers,
    /// Fields, parameters and constants.
    pub values: Vec<Value>,
    /// Parameters of functions whose types contain tuples.
    pub tuple_parameters: Vec<TupleParameter>,
    /// Modules in files of their own.
    pub modules: Vec<ModuleFile>,
    /// Names that `pub use` re-exports.
    pub exports: Vec<Export>,
    /// Every name that a `use` brings into scope, at any level.
    pub imports: Vec<Import>,
    /// The text by lines.
    pub lines: Vec<String>,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl Source {
    fn of(path: &str, text: &str) -> Result<Source, (usize, String)> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let is_shebang = text.starts_with("#!") && !text.starts_with("#![");
        let code = if is_shebang {
            format!("//{text}")
        } else {
            text.to_owned()
        };
        let stream: TokenStream = code
            .parse()
            .map_err(|e: proc_macro2::LexError| (e.span().start().line, e.to_string()))?;
        let file = syn::parse2::<syn::File>(stream.clone())
            .map_err(|e| (e.span().start().line, e.to_string()))?;
        let mut reader = Reader::default();
        if is_test(&file.attrs) {
            reader.test_lines.push(1..=usize::MAX);
        }
        reader.visit_file(&file);
        Ok(Source {
            path: path.to_owned(),
            offers: Offers::of(&file, stream.clone(), text),
            tokens: TokenFacts::of(stream),
            values: reader.values,
            tuple_parameters: reader.tuple_parameters,
            modules: reader.modules,
            exports: exports(&file),
            imports: reader.imports,
            lines: text.lines().map(str::to_owned).collect(),
            test_lines: reader.test_lines,
        })
    }

    /// Whether the line is test code according to this file alone.
    pub(super) fn is_test_line(&self, line: usize) -> bool {
        self.test_lines.iter().any(|range| range.contains(&line))
            || ["tests", "benches", "examples"]
                .iter()
                .any(|f| self.path.split('/').any(|p| p == *f))
    }

    /// The source as a module of its crate: `src/drive/queue.rs` is `drive`, `queue`.
    pub(super) fn module_path(&self) -> Option<Vec<String>> {
        let (_, inner) = self.path.split_once("/src/")?;
        let mut parts: Vec<_> = inner
            .strip_suffix(".rs")?
            .split('/')
            .map(str::to_owned)
            .collect();
        let last = parts.last().map_or("", String::as_str);
        if last == "mod" || (parts.len() == 1 && (last == "lib" || last == "main")) {
            parts.pop();
        }
        Some(parts)
    }
}

/// All Rust sources of the tree.
#[derive(Debug)]
pub(super) struct Sources {
    sources: Vec<Source>,
    unreadable: Vec<Finding>,
}

impl Sources {
    /// Parses every `.rs` file that is not a fixture.
    pub(super) fn of(tree: &Tree) -> Sources {
        let mut sources = Sources {
            sources: Vec::new(),
            unreadable: Vec::new(),
        };
        for file in tree
            .files()
            .iter()
            .filter(|f| f.extension() == "rs" && !f.is_fixture())
        {
            match Source::of(&file.path, &file.text) {
                Ok(source) => sources.sources.push(source),
                Err((line, error)) => sources.unreadable.push(Finding {
                    path: file.path.clone(),
                    line: line.max(1),
                    check: "parse",
                    item: String::new(),
                    what: format!("not Rust: {error}"),
                    why: "a source that cannot be read cannot be checked",
                    fix: "make it compile".to_owned(),
                    severity: Severity::Error,
                }),
            }
        }
        sources
    }

    /// The sources, sorted by path.
    pub(super) fn all(&self) -> &[Source] {
        &self.sources
    }

    /// One source by path.
    pub(super) fn get(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    /// A finding for each source that does not parse.
    pub(super) fn unreadable(&self) -> Vec<Finding> {
        self.unreadable.clone()
    }
}

/// Visits the syntax tree of one file.
#[derive(Debug, Default)]
struct Reader {
    values: Vec<Value>,
    tuple_parameters: Vec<TupleParameter>,
    modules: Vec<ModuleFile>,
    imports: Vec<Import>,
    test_lines: Vec<RangeInclusive<usize>>,
    inside: Vec<String>,
    test_depth: usize,
    /// The type whose `impl` is being read.
    owner: Option<String>,
    /// Whether a trait defined elsewhere dictates names.
    is_dictated: bool,
}

impl Reader {
    fn function(&mut self, signature: &syn::Signature) {
        if self.is_dictated {
            return;
        }
        let own = signature.ident.to_string();
        let name = self
            .owner
            .as_ref()
            .map_or(own.clone(), |owner| format!("{owner}::{own}"));
        for input in &signature.inputs {
            let syn::FnArg::Typed(input) = input else {
                continue;
            };
            let parameter = match &*input.pat {
                syn::Pat::Ident(parameter) => {
                    let item = format!("{name}({})", parameter.ident);
                    self.value(&parameter.ident, item, &input.ty);
                    parameter.ident.to_string()
                }
                _ => "_".to_owned(),
            };
            if holds_tuple(&input.ty) {
                self.tuple_parameters.push(TupleParameter {
                    item: format!("{name}({parameter})"),
                    line: input.ty.span().start().line,
                });
            }
        }
    }

    fn value(&mut self, ident: &syn::Ident, item: String, kind: &syn::Type) {
        self.values.push(Value {
            name: ident.to_string(),
            item,
            line: ident.span().start().line,
            is_number: is_number(kind),
        });
    }

    fn fields(&mut self, owner: &str, fields: &syn::Fields) {
        for field in fields {
            if let Some(ident) = &field.ident {
                self.value(ident, format!("{owner}.{ident}"), &field.ty);
            }
        }
    }

    fn module(&mut self, item: &syn::ItemMod) {
        let path = item
            .attrs
            .iter()
            .find(|a| a.path().is_ident("path"))
            .and_then(text_of);
        self.modules.push(ModuleFile {
            name: item.ident.to_string(),
            inside: self.inside.clone(),
            path,
            is_test: self.test_depth > 0 || is_test(&item.attrs),
        });
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let is_test = is_test(attributes(item));
        if is_test {
            self.test_lines
                .push(item.span().start().line..=item.span().end().line);
            self.test_depth += 1;
        }
        visit::visit_item(self, item);
        self.test_depth -= usize::from(is_test);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() {
            self.module(item);
        } else {
            self.inside.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.inside.pop();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let (owner, is_dictated) = (self.owner.take(), self.is_dictated);
        self.is_dictated = false;
        self.function(&item.sig);
        visit::visit_item_fn(self, item);
        (self.owner, self.is_dictated) = (owner, is_dictated);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = self.owner.replace(name_of(&item.self_ty));
        let is_dictated = std::mem::replace(&mut self.is_dictated, item.trait_.is_some());
        visit::visit_item_impl(self, item);
        (self.owner, self.is_dictated) = (owner, is_dictated);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_test(&item.attrs) {
            self.test_lines
                .push(item.span().start().line..=item.span().end().line);
        }
        self.function(&item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let owner = self.owner.replace(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.owner = owner;
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, syn::Visibility::Inherited);
        let line = item.span().start().line;
        let first = self.imports.len();
        imported(&item.tree, &mut Vec::new(), &mut self.imports);
        for import in &mut self.imports[first..] {
            (import.is_public, import.line) = (is_public, line);
            import.inside.clone_from(&self.inside);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.fields(&item.ident.to_string(), &item.fields);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        for variant in &item.variants {
            self.fields(
                &format!("{}::{}", item.ident, variant.ident),
                &variant.fields,
            );
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.value(&item.ident, item.ident.to_string(), &item.ty);
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.value(&item.ident, item.ident.to_string(), &item.ty);
        visit::visit_item_static(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        if !self.is_dictated {
            let owner = self.owner.clone().unwrap_or_default();
            self.value(&item.ident, format!("{owner}::{}", item.ident), &item.ty);
        }
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        let owner = self.owner.clone().unwrap_or_default();
        self.value(&item.ident, format!("{owner}::{}", item.ident), &item.ty);
    }
}

/// Whether these attributes turn the following item into test code.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && asks_for_test(list.tokens.clone()),
        syn::Meta::NameValue(_) => false,
    })
}

/// Whether a `cfg` can hold only in tests, or has `test` among its choices, outside `not`.
fn asks_for_test(condition: TokenStream) -> bool {
    let mut is_negated = false;
    condition.into_iter().any(|token| {
        let was_negated = std::mem::replace(&mut is_negated, false);
        match token {
            TokenTree::Ident(word) => {
                is_negated = word == "not";
                word == "test"
            }
            TokenTree::Group(group) => !was_negated && asks_for_test(group.stream()),
            _ => false,
        }
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The string of `#[name = "text"]`.
fn text_of(attribute: &syn::Attribute) -> Option<String> {
    let value = &attribute.meta.require_name_value().ok()?.value;
    let syn::Expr::Lit(syn::ExprLit {
        lit: syn::Lit::Str(text),
        ..
    }) = value
    else {
        return None;
    };
    Some(text.value())
}

fn name_of(kind: &syn::Type) -> String {
    match kind {
        syn::Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
        syn::Type::Reference(inner) => Some(name_of(&inner.elem)),
        _ => None,
    }
    .unwrap_or_default()
}

/// Whether a type is a number, or contains only numbers.
fn is_number(kind: &syn::Type) -> bool {
    const NUMBERS: [&str; 14] = [
        "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize",
        "f32", "f64",
    ];
    const HOLDERS: [&str; 7] = ["Option", "Vec", "Box", "Cell", "NonZero", "VecDeque", "Arc"];
    match kind {
        syn::Type::Reference(inner) => is_number(&inner.elem),
        syn::Type::Slice(inner) => is_number(&inner.elem),
        syn::Type::Array(inner) => is_number(&inner.elem),
        syn::Type::Paren(inner) => is_number(&inner.elem),
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            let name = last.ident.to_string();
            let is_plain = NUMBERS.contains(&name.as_str())
                || name.starts_with("AtomicU")
                || name.starts_with("AtomicI")
                || name.starts_with("NonZeroU");
            is_plain || (HOLDERS.contains(&name.as_str()) && holds_number(&last.arguments))
        }),
        _ => false,
    }
}

fn holds_number(arguments: &syn::PathArguments) -> bool {
    let syn::PathArguments::AngleBracketed(list) = arguments else {
        return false;
    };
    list.args
        .iter()
        .any(|a| matches!(a, syn::GenericArgument::Type(kind) if is_number(kind)))
}

/// Whether a type is a tuple of values, or contains one. Parameters of closures do not count.
fn holds_tuple(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Tuple(tuple) => tuple.elems.len() > 1,
        syn::Type::Reference(inner) => holds_tuple(&inner.elem),
        syn::Type::Slice(inner) => holds_tuple(&inner.elem),
        syn::Type::Array(inner) => holds_tuple(&inner.elem),
        syn::Type::Paren(inner) => holds_tuple(&inner.elem),
        syn::Type::Path(path) => path.path.segments.iter().any(|segment| {
            let syn::PathArguments::AngleBracketed(list) = &segment.arguments else {
                return false;
            };
            let mut arguments = list.args.iter();
            arguments.any(|a| matches!(a, syn::GenericArgument::Type(kind) if holds_tuple(kind)))
        }),
        _ => false,
    }
}

/// Names that the file's own `pub use` re-exports.
fn exports(file: &syn::File) -> Vec<Export> {
    let mut found = Vec::new();
    for item in &file.items {
        if let syn::Item::Use(item) = item {
            exported(&item.tree, None, &mut found);
        }
    }
    found
}

fn exported(tree: &syn::UseTree, first: Option<&str>, found: &mut Vec<Export>) {
    match tree {
        syn::UseTree::Path(path) => {
            let name = path.ident.to_string();
            let is_root = name == "crate" || name == "self";
            let next = first.map_or((!is_root).then_some(name.as_str()), Some);
            exported(&path.tree, next, found);
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                exported(tree, first, found);
            }
        }
        syn::UseTree::Name(name) => {
            let name = name.ident.to_string();
            found.push(Export {
                first: first.unwrap_or(&name).to_owned(),
                name,
            });
        }
        syn::UseTree::Rename(rename) => {
            let from = first.map_or_else(|| rename.ident.to_string(), str::to_owned);
            found.push(Export {
                name: rename.rename.to_string(),
                first: from,
            });
        }
        _ => {}
    }
}

/// Every name that one `use` brings into scope, by its path as written.
fn imported(tree: &syn::UseTree, path: &mut Vec<String>, found: &mut Vec<Import>) {
    let depth = path.len();
    let mut add = |path: &[String], name: Option<String>| {
        found.push(Import {
            path: path.to_vec(),
            name,
            is_public: false,
            line: 0,
            inside: Vec::new(),
        });
    };
    match tree {
        syn::UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            imported(&inner.tree, path, found);
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                imported(tree, path, found);
            }
        }
        syn::UseTree::Name(name) if name.ident == "self" => add(path, path.last().cloned()),
        syn::UseTree::Name(name) => {
            path.push(name.ident.to_string());
            add(path, path.last().cloned());
        }
        syn::UseTree::Rename(rename) => {
            path.push(rename.ident.to_string());
            add(path, Some(rename.rename.to_string()));
        }
        syn::UseTree::Glob(_) => add(path, None),
    }
    path.truncate(depth);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of("crates/outcore/src/drive/queue.rs", text).unwrap()
    }

    #[test]
    fn test_code_is_known_by_its_attributes() {
        let source = source(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n#[test]\nfn c() {}\n\
             #[cfg(not(test))]\nfn d() {}\n#[cfg(any(test, feature = \"x\"))]\nfn e() {}\n",
        );
        let test: Vec<_> = (1..=11).filter(|line| source.is_test_line(*line)).collect();
        assert_eq!(test, [2, 3, 4, 5, 6, 7, 10, 11]);
    }

    #[test]
    fn numbers_are_told_from_types_that_carry_their_unit() {
        let source = source(
            "struct S { a: u64, b: Option<f64>, c: Vec<u32>, d: Duration, e: [u8; 4], f: Bytes,\n\
             g: Option<Bytes>, h: &'static [u64], i: AtomicU64 }\n\
             impl Other for S { fn f(size: usize) {} const SIZE: usize = 1; }",
        );
        let numbers: Vec<_> = source
            .values
            .iter()
            .filter(|v| v.is_number)
            .map(|v| v.name.as_str())
            .collect();
        assert_eq!(numbers, ["a", "b", "c", "e", "h", "i"]);
        assert!(
            source
                .values
                .iter()
                .all(|v| v.name != "size" && v.name != "SIZE")
        );
    }

    #[test]
    fn tuples_are_found_within_the_types_of_parameters() {
        let source = source(
            "fn f(a: (u8, u8), b: &[(u8, u8)], (c, d): (u8, u8), e: Vec<u8>, g: ()) {}\n\
             impl T for S { fn h(a: (u8, u8)) {} }\n\
             fn i(call: impl Fn((u8, u8)), k: Option<(u8, u8)>) {}",
        );
        let items = source.tuple_parameters.iter().map(|p| p.item.as_str());
        assert_eq!(items.collect::<Vec<_>>(), ["f(a)", "f(b)", "f(_)", "i(k)"]);
    }

    #[test]
    fn names_brought_up_are_traced_to_their_module() {
        let source = source("pub use error::{Error, Kind as K};\npub use crate::drive::Device;");
        let expected = [("Error", "error"), ("K", "error"), ("Device", "drive")];
        let found: Vec<_> = source
            .exports
            .iter()
            .map(|export| (export.name.as_str(), export.first.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn module_paths_follow_the_folders() {
        let path = |path: &str| Source::of(path, "").unwrap().module_path();
        assert_eq!(path("crates/a/src/lib.rs"), Some(vec![]));
        assert_eq!(
            path("crates/a/src/drive/mod.rs"),
            Some(vec!["drive".to_owned()])
        );
        assert_eq!(
            path("crates/a/src/drive/queue.rs"),
            Some(vec!["drive".to_owned(), "queue".to_owned()])
        );
        assert_eq!(path("crates/a/tests/x.rs"), None);
    }

    #[test]
    fn a_source_that_does_not_parse_is_a_finding_with_its_line() {
        let sources = Sources::of(&Tree::of(&[(
            "crates/a/src/lib.rs",
            "fn f() {}\nfn fn() {}\n",
        )]));
        let found = sources.unreadable();
        assert_eq!(
            (found.len(), found[0].line, found[0].check),
            (1, 2, "parse")
        );
    }
}
