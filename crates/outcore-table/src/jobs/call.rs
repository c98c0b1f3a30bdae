//! What people ask for of columns: `sum(bytes)`, or with a name of its own `total=sum(bytes)`.
//!
//! Contract: [`Call::parse`] takes such a text apart and knows no function; [`split`] cuts a list of them at its commas. Pure.

/// A function that is called, and what its result is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call<'t> {
    /// What stands in front of `=`, or the whole text.
    pub(super) name: &'t str,
    /// The function.
    pub(super) word: &'t str,
    /// What stands between the parentheses, if that is anything.
    pub(super) inner: Option<&'t str>,
}

impl<'t> Call<'t> {
    /// # Errors
    /// What is wrong with the text, as a sentence.
    pub(super) fn parse(text: &'t str) -> Result<Self, String> {
        let text = text.trim();
        let (head, inner) = match text.split_once('(') {
            None => (text, None),
            Some((head, rest)) => {
                let inner = rest.strip_suffix(')');
                let inner = inner.ok_or_else(|| format!("`{text}` has no `)`"))?;
                (head, Some(inner.trim()))
            }
        };
        let (name, word) = match head.split_once('=') {
            Some((name, word)) => (name.trim(), word.trim()),
            None => (text, head.trim()),
        };
        if name.is_empty() {
            return Err(match text {
                "" => "a function is missing".to_owned(),
                _ => format!("`{text}` has no name in front of `=`"),
            });
        }
        Ok(Call {
            name,
            word,
            inner: inner.filter(|inner| !inner.is_empty()),
        })
    }
}

/// The calls of a list with commas between them.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |letter| {
        depth += match letter {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        letter == ',' && depth == 0
    })
}
