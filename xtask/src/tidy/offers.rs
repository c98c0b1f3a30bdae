//! Collects the names that a Rust source offers to others, and those that it takes from others.
//!
//! Contract: the syntax gives the `pub` names and the names in their signatures. The tokens, which
//! include the bodies of macros, give the names that the source takes from others. Names that a
//! macro generates are not seen.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A public name of one source.
#[derive(Debug)]
pub(super) struct Public {
    /// The name for users.
    pub name: String,
    /// The type whose method or constant this is.
    pub owner: Option<String>,
    /// Line of the name.
    pub line: usize,
    /// Names in its signature.
    pub exposes: BTreeSet<String>,
}

/// The names that one source offers to others, and those that it uses.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// Its public names.
    pub publics: Vec<Public>,
    /// Names that the source takes from others, also in macros.
    pub taken: BTreeSet<String>,
    /// Identifiers in the fenced programs of its comments.
    pub words_of_examples: BTreeSet<String>,
    /// Types, with the names that their implementations of traits expose as associated types.
    pub associated: Vec<(String, BTreeSet<String>)>,
}

impl Offers {
    /// Collects from a file's syntax, its tokens and its text.
    pub(super) fn of(file: &syn::File, stream: TokenStream, text: &str) -> Offers {
        let mut facts = Offers::default();
        facts.visit_file(file);
        taken(stream, false, &mut facts.taken);
        let comments = text.lines().filter_map(|line| {
            let line = line.trim_start();
            line.strip_prefix("//!").or(line.strip_prefix("///"))
        });
        facts.words_of_examples = words_of_examples(comments)
            .into_iter()
            .map(str::to_owned)
            .collect();
        facts
    }

    fn add(&mut self, name: &syn::Ident, owner: Option<&str>, exposes: BTreeSet<String>) {
        self.publics.push(Public {
            name: name.to_string(),
            owner: owner.map(str::to_owned),
            line: name.span().start().line,
            exposes,
        });
    }

    fn reexport(&mut self, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => self.reexport(&path.tree),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.reexport(tree)),
            syn::UseTree::Name(name) => self.add(&name.ident, None, BTreeSet::new()),
            syn::UseTree::Rename(rename) => {
                self.add(
                    &rename.rename,
                    None,
                    BTreeSet::from([rename.ident.to_string()]),
                );
            }
            syn::UseTree::Glob(_) => {}
        }
    }
}

impl<'ast> Visit<'ast> for Offers {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if is_public(&item.vis) {
            self.add(
                &item.sig.ident,
                None,
                named(|n| n.visit_signature(&item.sig)),
            );
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if is_public(&item.vis) {
            let exposes = named(|names| {
                names.visit_generics(&item.generics);
                let fields = item.fields.iter().filter(|field| is_public(&field.vis));
                fields.for_each(|field| names.visit_type(&field.ty));
            });
            self.add(&item.ident, None, exposes);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if is_public(&item.vis) {
            self.add(
                &item.ident,
                None,
                named(|n| visit::visit_item_enum(n, item)),
            );
        }
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        if is_public(&item.vis) {
            self.add(
                &item.ident,
                None,
                named(|n| visit::visit_item_union(n, item)),
            );
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if is_public(&item.vis) {
            self.add(
                &item.ident,
                None,
                named(|n| visit::visit_item_trait(n, item)),
            );
        }
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        if is_public(&item.vis) {
            self.add(
                &item.ident,
                None,
                named(|n| visit::visit_item_type(n, item)),
            );
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if is_public(&item.vis) {
            self.add(&item.ident, None, named(|n| n.visit_type(&item.ty)));
        }
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        if is_public(&item.vis) {
            self.add(&item.ident, None, named(|n| n.visit_type(&item.ty)));
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if is_public(&item.vis) {
            self.reexport(&item.tree);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_public(&item.vis) {
            self.add(&item.ident, None, BTreeSet::new());
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let Some(owner) = owner_of(&item.self_ty) else {
            return;
        };
        for inner in &item.items {
            match inner {
                syn::ImplItem::Fn(inner) if is_public(&inner.vis) => {
                    let exposes = named(|n| n.visit_signature(&inner.sig));
                    self.add(&inner.sig.ident, Some(&owner), exposes);
                }
                syn::ImplItem::Const(inner) if is_public(&inner.vis) => {
                    let exposes = named(|n| n.visit_type(&inner.ty));
                    self.add(&inner.ident, Some(&owner), exposes);
                }
                // An associated type of an implementation is visible to users of the implementing
                // type.
                syn::ImplItem::Type(inner) if item.trait_.is_some() => {
                    let exposes = named(|n| n.visit_type(&inner.ty));
                    self.associated.push((owner.clone(), exposes));
                }
                _ => {}
            }
        }
    }
}

/// The last names of the paths to types, traits and constants in a part of the syntax.
#[derive(Default)]
struct Named(BTreeSet<String>);

impl<'ast> Visit<'ast> for Named {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        self.0.insert(segment.ident.to_string());
        visit::visit_path_segment(self, segment);
    }

    fn visit_block(&mut self, _: &'ast syn::Block) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn named(visit: impl FnOnce(&mut Named)) -> BTreeSet<String> {
    let mut names = Named::default();
    visit(&mut names);
    names.0
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn owner_of(kind: &syn::Type) -> Option<String> {
    match kind {
        syn::Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
        syn::Type::Reference(inner) => owner_of(&inner.elem),
        _ => None,
    }
}

/// Collects the names that a source takes from others: names after `::` or `.`, and names in the
/// braces of an import.
fn taken(stream: TokenStream, is_import: bool, found: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let is_sign = |at: Option<usize>, sign: char| {
        let token = at.and_then(|at| tokens.get(at));
        matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
    };
    for (at, token) in tokens.iter().enumerate() {
        let (last, last_but_one) = (at.checked_sub(1), at.checked_sub(2));
        let is_below = is_sign(last, ':') && is_sign(last_but_one, ':');
        // Two dots are followed by the end of a range.
        let is_member = is_sign(last, '.') && !is_sign(last_but_one, '.');
        match token {
            TokenTree::Ident(word) if is_below || is_member || is_import => {
                found.insert(word.to_string());
            }
            TokenTree::Group(group) => taken(group.stream(), is_below, found),
            _ => {}
        }
    }
}

/// Identifiers in the fenced Rust code of comments and pages. A fence without a language counts as
/// Rust.
pub(super) fn words_of_examples<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let (mut is_inside, mut is_rust) = (false, false);
    for line in lines {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_inside = !is_inside;
            is_rust = is_inside && ["", "rust", "no_run"].contains(&language);
        } else if is_rust {
            let words = line.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
            found.extend(words);
        }
    }
    found
}
