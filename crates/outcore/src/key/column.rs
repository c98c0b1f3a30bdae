//! The notation for column names.
//!
//! Contract: a name is written as it is. Between backquotes it may be empty or contain the
//! characters that separate names elsewhere; a backquote inside is doubled. Pure.

/// The notation of a column's name: plain, or between backquotes with inner backquotes doubled.
pub fn column_name(text: &str) -> String {
    match quoted(text) {
        Some((name, "")) => name,
        _ => text.to_owned(),
    }
}

/// A backquoted name at the beginning of `text`, and the text after it.
pub fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('`')?;
    let mut name = String::new();
    loop {
        let (front, behind) = rest.split_once('`')?;
        name += front;
        match behind.strip_prefix('`') {
            // A doubled backquote; two alone are an empty name.
            Some(behind) => {
                name.push('`');
                rest = behind;
            }
            None => return Some((name, behind)),
        }
    }
}

/// The parts of a list separated by commas outside of backquotes and brackets. Quoted strings
/// inside brackets may contain brackets.
pub fn listed(text: &str) -> impl Iterator<Item = &str> {
    let mut outside = Outside::default();
    text.split(move |letter| outside.is_outside(letter) && letter == ',')
}

/// The arguments of a call: the text between its brackets, split at commas.
pub fn arguments(text: &str) -> impl Iterator<Item = &str> {
    let mut outside = Outside {
        depth: 1,
        base: 1,
        quote: None,
    };
    text.split(move |letter| outside.is_outside(letter) && letter == ',')
}

/// Determines which letters of a text are outside of backquotes and brackets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outside {
    depth: i32,
    /// The depth that counts as outside; strings inside any brackets are quoted.
    base: i32,
    quote: Option<char>,
}

impl Outside {
    /// Whether the next letter is outside; the outermost brackets themselves are.
    pub fn is_outside(&mut self, letter: char) -> bool {
        let before = self.depth;
        match (self.quote, letter) {
            (Some(quote), _) => {
                self.quote = Some(quote).filter(|_| quote != letter);
                return false;
            }
            // A name outside of brackets may contain the other quote character.
            (None, '`') => self.quote = Some(letter),
            (None, '\'' | '"') if self.depth > 0 => self.quote = Some(letter),
            (None, '(') => self.depth += 1,
            (None, ')') => self.depth -= 1,
            _ => {}
        }
        before.min(self.depth) == self.base && self.quote.is_none()
    }
}

/// The hint for a `name` that is an expression, or that gives a column an order in another
/// notation. Such a notation is a minus before one of the columns `names`, or a word after a blank.
pub fn key_hint<N: AsRef<str>>(name: &str, names: &[N]) -> Option<String> {
    let is_known = |name: &&str| names.iter().any(|known| known.as_ref() == *name);
    if let Some(known) = name.strip_prefix('-').filter(is_known) {
        return Some(format!("a minus does not reverse; write {known}:desc"));
    }
    let is_call = name.ends_with(')') && name.contains('(');
    let compares = [
        " > ", " < ", " = ", " == ", " >= ", " <= ", " * ", " / ", " % ",
    ];
    if is_call || compares.iter().any(|operator| name.contains(operator)) {
        return Some(format!(
            "a key is a column: compute it first, outcore map 'key = {name}'"
        ));
    }
    let order = |word: &str| match word.to_ascii_lowercase().as_str() {
        "asc" | "ascending" => Some("asc"),
        "desc" | "descending" => Some("desc"),
        _ => None,
    };
    let apart = name.rsplit_once(' ');
    let (known, order) = match apart.filter(|(known, _)| is_known(&known.trim_end())) {
        Some((known, word)) => (known.trim_end(), order(word)?),
        None => ("COLUMN", order(name)?),
    };
    Some(format!("an order follows a colon: write {known}:{order}"))
}

/// The names in comma-separated lists.
pub fn column_names(lists: &[String]) -> Vec<String> {
    let names = lists.iter().flat_map(|list| listed(list));
    names.map(column_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_backquotes_hold_anything() {
        for (text, name) in [
            ("a", "a"),
            ("``", ""),
            ("`a:b`", "a:b"),
            ("`a``b`", "a`b"),
            ("````", "`"),
            ("`a", "`a"),
            ("`a`b", "`a`b"),
            ("", ""),
        ] {
            assert_eq!(column_name(text), name, "{text}");
        }
        assert_eq!(quoted("`a,b`:desc"), Some(("a,b".to_owned(), ":desc")));
        let parts: Vec<&str> = listed("it's,f(x == ',)', \"(\"),b").collect();
        assert_eq!(parts, ["it's", "f(x == ',)', \"(\")", "b"]);
        let parts: Vec<&str> = arguments("s + ',(', f(a, b)").collect();
        assert_eq!(parts, ["s + ',('", " f(a, b)"]);
        let parts: Vec<&str> = listed("a,`b,(`,f(x,y),``,").collect();
        assert_eq!(parts, ["a", "`b,(`", "f(x,y)", "``", ""]);
        let names = column_names(&["a,`b,c`".to_owned(), "``".to_owned()]);
        assert_eq!(names, ["a", "b,c", ""]);
    }
}
