//! Function calls in user input: `sum(bytes)`, or with a name for the result `total=sum(bytes)` or
//! `sum(bytes) as total`.
//!
//! Contract: [`Call::parse`] splits such a text and knows no functions. Text in backquotes is
//! always a name. Pure.

use outcore::key::column::Outside;

/// A function call, and the name of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call<'t> {
    /// The text before `=` or after `as`, or else the whole text.
    pub(super) name: &'t str,
    /// The function's name.
    pub(super) word: &'t str,
    /// The text between the parentheses, if there are any.
    pub(super) inner: Option<&'t str>,
}

impl<'t> Call<'t> {
    /// # Errors
    /// A sentence about the fault of the text.
    pub(super) fn parse(text: &'t str) -> Result<Self, String> {
        let text = text.trim();
        if let Some((front, name)) = split_alias(text) {
            let call = Call::parse(front)?;
            return match call.name == front {
                true => Ok(Call { name, ..call }),
                false => Err(format!("`{text}` has two names")),
            };
        }
        let (head, inner) = match split_at(text, '(') {
            None => (text, None),
            Some((head, rest)) => {
                let inner = rest.strip_suffix(')').ok_or_else(|| behind(text))?;
                refuse_several(text, inner)?;
                (head, Some(inner.trim()))
            }
        };
        let (name, word) = match split_at(head, '=') {
            Some((name, word)) => (name.trim(), word.trim()),
            None => (text, head.trim()),
        };
        if name.is_empty() {
            return Err(match text {
                "" => "a function is missing".to_owned(),
                _ => format!("`{text}` has no name before `=`"),
            });
        }
        Ok(Call {
            name,
            word,
            inner: inner.filter(|inner| !inner.is_empty()),
        })
    }
}

/// Fails if the parenthesis of the call `text` ends within `inner`, so that there are several
/// calls.
fn refuse_several(text: &str, inner: &str) -> Result<(), String> {
    let (mut depth, mut quote) = (0, None);
    for letter in inner.chars() {
        match (quote, letter) {
            (Some(open), _) => quote = Some(open).filter(|open| *open != letter),
            (None, '`' | '\'' | '"') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Err(alone(text)),
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
    }
    Ok(())
}

/// The fault of a text that computes with the results of functions.
fn alone(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if lower.contains(") filter") {
        return format!("`{text}`: choose rows inside: sum(where(condition, C, null))");
    }
    if lower.contains(") over") {
        return format!("`{text}`: `outcore window` computes from the rows of a group");
    }
    format!(
        "`{text}` is not one function: compute with the results in `outcore map`, or compare them \
         in `outcore filter`"
    )
}

/// The fault of a call that does not end in `)`.
fn behind(text: &str) -> String {
    let Some((call, behind)) = text.rsplit_once(')') else {
        return format!("`{text}` has no `)`");
    };
    match behind.trim() {
        behind if behind.eq_ignore_ascii_case("as") => {
            format!("`{text}` has no name after `{behind}`")
        }
        name if name
            .chars()
            .all(|letter| letter.is_alphanumeric() || letter == '_') =>
        {
            format!("`{name}` follows `{call})`; write {name}={call}) to name the result")
        }
        _ => alone(text),
    }
}

/// Splits at the last ` as `, into the text before it and the name after it.
fn split_alias(text: &str) -> Option<(&str, &str)> {
    const AS: &str = " as ";
    let mut outside = Outside::default();
    let is_alias = |(at, letter): &(usize, char)| {
        let is_outside = outside.is_outside(*letter);
        let found = text.get(*at..*at + AS.len());
        is_outside && found.is_some_and(|found| found.eq_ignore_ascii_case(AS))
    };
    let (at, _) = text.char_indices().filter(is_alias).last()?;
    let (front, name) = (text[..at].trim_end(), text[at + AS.len()..].trim());
    let is_name = split_at(name, '(').is_none() && split_at(name, '=').is_none();
    (is_name && !name.is_empty()).then_some((front, name))
}

/// Splits at the first `letter` outside of backquotes.
fn split_at(text: &str, letter: char) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let found = |(_, other): &(usize, char)| {
        is_quoted ^= *other == '`';
        *other == letter && !is_quoted
    };
    let (at, _) = text.char_indices().find(found)?;
    Some((&text[..at], &text[at + letter.len_utf8()..]))
}
