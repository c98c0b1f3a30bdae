//! Collects facts from the tokens of a Rust source: paths, strings, `unsafe`, includes, ignored
//! tests.
//!
//! Contract: works on tokens rather than on the syntax tree, so that it also sees the bodies of
//! macros. It ignores comments, and paths in strings. It tracks modules written inside the file,
//! because `super` has another meaning there.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

/// A path as written, up to the last name: `crate::drive::Device`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathUse {
    /// Line of its first name.
    pub line: usize,
    /// The names, including `crate`, `self` and `super`.
    pub segments: Vec<String>,
    /// The modules of the same file that contain the path.
    pub inside: Vec<String>,
}

/// A string or byte string as written, including quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// Line on which it begins.
    pub line: usize,
    /// The literal.
    pub literal: String,
}

/// Everything that the walk collects.
#[derive(Debug, Default)]
pub(super) struct TokenFacts {
    /// Paths of at least two names.
    pub paths: Vec<PathUse>,
    /// Lines with `unsafe`.
    pub unsafes: Vec<usize>,
    /// Lines with an attribute that permits unsafe code.
    pub unsafe_permits: Vec<usize>,
    /// Files in `include!`.
    pub includes: Vec<String>,
    /// Lines of `#[ignore]`.
    pub ignores: Vec<usize>,
    /// Strings of code and macros, except for those of documentation.
    pub texts: Vec<Text>,
}

impl TokenFacts {
    /// Collects from a whole file.
    pub(super) fn of(stream: TokenStream) -> TokenFacts {
        let mut facts = TokenFacts::default();
        facts.walk(stream, &mut Vec::new());
        facts
    }

    fn walk(&mut self, stream: TokenStream, inside: &mut Vec<String>) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        for index in 0..tokens.len() {
            match &tokens[index] {
                TokenTree::Ident(word) => self.note_word(&tokens, index, word, inside),
                // The names in `a::{b, c}` were collected with their path.
                TokenTree::Group(_) if index > 2 && is_double_colon(&tokens, index - 2) => {}
                TokenTree::Literal(literal) if !is_documentation(&tokens, index) => {
                    let text = literal.to_string();
                    if text.contains('"') {
                        let line = literal.span().start().line;
                        self.texts.push(Text {
                            line,
                            literal: text,
                        });
                    }
                }
                TokenTree::Group(group) => {
                    let module = inline_module(&tokens, index);
                    let is_module = module.is_some();
                    inside.extend(module);
                    self.walk(group.stream(), inside);
                    if is_module {
                        inside.pop();
                    }
                }
                _ => {}
            }
        }
    }

    fn note_word(&mut self, tokens: &[TokenTree], index: usize, word: &Ident, inside: &[String]) {
        let name = word.to_string();
        let line = word.span().start().line;
        let next = tokens.get(index + 1);
        match name.as_str() {
            "unsafe" => self.unsafes.push(line),
            "allow" | "expect" | "warn" if names(next, "unsafe_code") => {
                self.unsafe_permits.push(line);
            }
            "ignore" if is_attribute(tokens, index) => self.ignores.push(line),
            _ => {}
        }
        if name == "include"
            && is_punct(next, '!')
            && let Some(group @ TokenTree::Group(_)) = tokens.get(index + 2)
        {
            self.includes.extend(literal_in(group));
        }
        if starts_path(tokens, index) && is_double_colon(tokens, index + 1) {
            collect_paths(
                &tokens[index..],
                line,
                &mut Vec::new(),
                inside,
                &mut self.paths,
            );
        }
    }
}

/// Whether the literal at `index` is the text of a doc comment, which the lexer turns into
/// `#[doc = "text"]`.
fn is_documentation(tokens: &[TokenTree], index: usize) -> bool {
    index == 2
        && matches!(&tokens[0], TokenTree::Ident(word) if word == "doc")
        && is_punct(tokens.get(1), '=')
}

/// The name of the module whose body is the group at `index`.
fn inline_module(tokens: &[TokenTree], index: usize) -> Option<String> {
    let [TokenTree::Ident(keyword), TokenTree::Ident(name)] = &tokens[index.checked_sub(2)?..index]
    else {
        return None;
    };
    (keyword == "mod").then(|| name.to_string())
}

fn names(group: Option<&TokenTree>, lint: &str) -> bool {
    let Some(TokenTree::Group(group)) = group else {
        return false;
    };
    group
        .stream()
        .into_iter()
        .any(|t| matches!(&t, TokenTree::Ident(word) if word == lint))
}

/// Whether the word is the first one or follows a comma in brackets: `#[ignore]`,
/// `cfg_attr(x, ignore)`.
fn is_attribute(tokens: &[TokenTree], index: usize) -> bool {
    let is_first = index == 0 || is_punct(tokens.get(index - 1), ',');
    let is_last = tokens.len() == index + 1 || is_punct(tokens.get(index + 1), '=');
    let is_equated = is_punct(tokens.get(index + 1), '=')
        && matches!(tokens.get(index + 2), Some(TokenTree::Literal(_)));
    is_first && is_last && (tokens.len() == 1 || is_equated || index > 0)
}

fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

fn is_double_colon(tokens: &[TokenTree], index: usize) -> bool {
    is_punct(tokens.get(index), ':') && is_punct(tokens.get(index + 1), ':')
}

/// Whether a path begins here: not after `a::`, but after a leading `::` (`::outcore::sort`).
fn starts_path(tokens: &[TokenTree], index: usize) -> bool {
    if index < 2 || !is_double_colon(tokens, index - 2) {
        return true;
    }
    let before = index.checked_sub(3).and_then(|at| tokens.get(at));
    !matches!(before, Some(TokenTree::Ident(_))) && !is_punct(before, '>')
}

/// Collects `a::b::c`, and every path of `a::{b, c::d}`.
fn collect_paths(
    tokens: &[TokenTree],
    line: usize,
    prefix: &mut Vec<String>,
    inside: &[String],
    paths: &mut Vec<PathUse>,
) {
    let depth = prefix.len();
    let mut at = 0;
    let mut branches = false;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(word) => prefix.push(word.to_string()),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && at > 0 => {
                branches = true;
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for branch in inner.split(|token| is_punct(Some(token), ',')) {
                    let line = branch
                        .first()
                        .map_or(line, |token| token.span().start().line);
                    collect_paths(branch, line, prefix, inside, paths);
                }
            }
            _ => break,
        }
        if !is_double_colon(tokens, at + 1) {
            break;
        }
        at += 3;
    }
    if !branches && prefix.len() > 1 {
        paths.push(PathUse {
            line,
            segments: prefix.clone(),
            inside: inside.to_vec(),
        });
    }
    prefix.truncate(depth);
}

/// The text of the only string in a macro's brackets.
fn literal_in(group: &TokenTree) -> Option<String> {
    let TokenTree::Group(group) = group else {
        return None;
    };
    let literal = group.stream().into_iter().next()?.to_string();
    Some(literal.strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> TokenFacts {
        TokenFacts::of(text.parse().unwrap())
    }

    fn paths(text: &str) -> Vec<String> {
        facts(text)
            .paths
            .iter()
            .map(|path| path.segments.join("::"))
            .collect()
    }

    #[test]
    fn grouped_imports_are_taken_apart() {
        let text = "use crate::{drive::{Device, queue as q}, volume, error::*};";
        let expected = [
            "crate::drive::Device",
            "crate::drive::queue",
            "crate::volume",
            "crate::error",
        ];
        assert_eq!(paths(text), expected);
    }

    #[test]
    fn paths_in_code_and_in_macros_are_seen_and_those_in_strings_are_not() {
        let text =
            r#"fn f() { vec![crate::algo::sort::<u64>(x)]; "crate::job::x"; ::outcore::a(); }"#;
        assert_eq!(paths(text), ["crate::algo::sort", "outcore::a"]);
    }

    #[test]
    fn strings_are_seen_in_code_and_macros_and_documentation_is_not() {
        let facts = facts("//! a\n/// \"b\"\nfn f() { g(\"c\"); h!(\"d\", b\"e\", 'f', 1) }");
        let texts: Vec<_> = facts.texts.iter().map(|t| t.literal.as_str()).collect();
        assert_eq!(texts, ["\"c\"", "\"d\"", "b\"e\""]);
        assert!(facts.texts.iter().all(|text| text.line == 3));
    }

    #[test]
    fn modules_within_the_file_are_followed() {
        let facts = facts("mod a { mod b { use super::super::x; } } use super::y;");
        assert_eq!(facts.paths[0].inside, ["a", "b"]);
        assert!(facts.paths[1].inside.is_empty());
    }

    #[test]
    fn every_form_of_unsafe_is_seen() {
        let text = "#[unsafe(no_mangle)] unsafe fn f() { unsafe { g() } }\n\
                    unsafe impl Send for S {}\n#![allow(unsafe_code)]";
        let facts = facts(text);
        assert_eq!(facts.unsafes.len(), 4);
        assert_eq!(facts.unsafe_permits, [3]);
    }

    #[test]
    fn ignored_tests_are_seen_in_every_form() {
        let text = "#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n\
                    #[cfg_attr(miri, ignore)]\nfn c() { ignore(d); let ignore = 1; }";
        assert_eq!(facts(text).ignores, [1, 3, 5]);
    }
}
