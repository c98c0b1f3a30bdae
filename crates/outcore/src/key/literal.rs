//! Python literals in `.npy` headers: dicts, lists, tuples, strings, integers, booleans.
//!
//! Contract: a small recursive-descent parser. The input is untrusted, so nesting is limited, and
//! every failure is a reason with its position, never a panic. Memory: proportional to the text.

use std::ops::Range;

/// Deepest nesting; a structured dtype needs three levels for each struct inside another.
const DEPTH_MAX: usize = 64;

/// A parsed literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Literal {
    Text(String),
    Integer(u64),
    Bool(bool),
    None,
    List(Vec<Literal>),
    Tuple(Vec<Literal>),
    Dict(Vec<Entry>),
}

/// A key of a dict and its value, with the value's position in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Literal,
    pub(super) value: Literal,
    pub(super) span: Range<usize>,
}

/// Parses one literal that fills the text, except for white space.
pub(super) fn parse(text: &str) -> Result<Literal, String> {
    let mut parser = Parser { text, at: 0 };
    let literal = parser.literal(0)?;
    parser.skip_space();
    if parser.at < text.len() {
        return Err(parser.fault("nothing more"));
    }
    Ok(literal)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn fault(&self, wanted: &str) -> String {
        match self.text[self.at..].chars().next() {
            Some(found) => format!(
                "found `{found}` at character {} instead of {wanted}",
                self.at
            ),
            None => format!("the text ends where {wanted} must follow"),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Reads white space, and `byte` if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, String> {
        if depth > DEPTH_MAX {
            return Err(format!("the text is nested deeper than {DEPTH_MAX} levels"));
        }
        self.skip_space();
        match self.peek() {
            Some(quote @ (b'\'' | b'"')) => self.string(quote).map(Literal::Text),
            Some(b'0'..=b'9') => self.integer(),
            Some(b'{') => self.dict(depth),
            Some(b'[') => self
                .items(b']', depth)
                .map(|(items, _)| Literal::List(items)),
            Some(b'(') => self.parenthesis(depth),
            _ => self.word(),
        }
    }

    fn string(&mut self, quote: u8) -> Result<String, String> {
        self.at += 1;
        let mut value = String::new();
        let mut chars = self.text[self.at..].char_indices();
        while let Some((offset, char)) = chars.next() {
            if char == quote as char {
                self.at += offset + 1;
                return Ok(value);
            }
            if char != '\\' {
                value.push(char);
                continue;
            }
            match chars.next() {
                Some((_, escaped @ ('\\' | '\'' | '"'))) => value.push(escaped),
                _ => {
                    return Err(format!(
                        "unknown escape in a string at character {}",
                        self.at
                    ));
                }
            }
        }
        Err("a string is not closed".to_string())
    }

    fn integer(&mut self) -> Result<Literal, String> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        let value = digits
            .parse()
            .map_err(|_| format!("the number {digits} is too large"))?;
        // Python 2 wrote long integers as 3L.
        self.at += usize::from(self.peek() == Some(b'L'));
        Ok(Literal::Integer(value))
    }

    fn word(&mut self) -> Result<Literal, String> {
        let words = [
            ("True", Literal::Bool(true)),
            ("False", Literal::Bool(false)),
            ("None", Literal::None),
        ];
        for (word, literal) in words {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(literal);
            }
        }
        Err(self.fault("a value"))
    }

    /// Items up to `end`, and whether a comma followed the last one.
    fn items(&mut self, end: u8, depth: usize) -> Result<(Vec<Literal>, bool), String> {
        self.at += 1;
        let mut items = Vec::new();
        let mut has_comma = false;
        while !self.take(end) {
            if !items.is_empty() && !has_comma {
                return Err(self.fault("a comma"));
            }
            items.push(self.literal(depth + 1)?);
            has_comma = self.take(b',');
        }
        Ok((items, has_comma))
    }

    /// `(x)` is `x`; with a comma, or no item, it is a tuple.
    fn parenthesis(&mut self, depth: usize) -> Result<Literal, String> {
        let (mut items, has_comma) = self.items(b')', depth)?;
        match items.pop() {
            Some(only) if items.is_empty() && !has_comma => Ok(only),
            Some(last) => {
                items.push(last);
                Ok(Literal::Tuple(items))
            }
            None => Ok(Literal::Tuple(items)),
        }
    }

    fn dict(&mut self, depth: usize) -> Result<Literal, String> {
        self.at += 1;
        let mut entries = Vec::new();
        let mut has_comma = true;
        while !self.take(b'}') {
            if !has_comma {
                return Err(self.fault("a comma"));
            }
            let key = self.literal(depth + 1)?;
            if !self.take(b':') {
                return Err(self.fault("a colon"));
            }
            self.skip_space();
            let start = self.at;
            let value = self.literal(depth + 1)?;
            let span = start..self.at;
            entries.push(Entry { key, value, span });
            has_comma = self.take(b',');
        }
        Ok(Literal::Dict(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_literals_of_headers_are_read() {
        let text = "{'a': [('x', '<u8', (2,)), (\"y\", '|S3')], 'b': False, 'c': (3L,), }";
        let Literal::Dict(entries) = parse(text).unwrap() else {
            panic!("no dict")
        };
        assert_eq!(
            &text[entries[0].span.clone()],
            "[('x', '<u8', (2,)), (\"y\", '|S3')]"
        );
        assert_eq!(entries[1].value, Literal::Bool(false));
        assert_eq!(entries[2].value, Literal::Tuple(vec![Literal::Integer(3)]));
        assert_eq!(parse("(5)").unwrap(), Literal::Integer(5));
        assert_eq!(parse("()").unwrap(), Literal::Tuple(vec![]));
        assert_eq!(
            parse(r"'it\'s'").unwrap(),
            Literal::Text("it's".to_string())
        );
    }

    #[test]
    fn broken_literals_are_refused_with_a_reason() {
        for text in [
            "",
            "{",
            "{'a'}",
            "{'a': 1 'b': 2}",
            "[1 2]",
            "'x",
            "1 2",
            "-1",
            "f(x)",
            "'\\n'",
        ] {
            assert!(!parse(text).unwrap_err().is_empty(), "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).unwrap_err().contains("nested"));
        assert!(
            parse("99999999999999999999999")
                .unwrap_err()
                .contains("too large")
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[\\[\\](){}'\",:0-9a-zµTrueFalsL \\\\]{0,40}") {
            let _ = parse(&text);
        }
    }
}
