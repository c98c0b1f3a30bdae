//! Text to a tree: precedence climbing over a handful of tokens.
//!
//! Contract: one pass, no backtracking. Nesting and the number of parts are limited, so that
//! neither reading a text nor walking a tree exhausts the stack. Errors name the place as a count
//! of characters from 1.

use outcore::key::column::quoted;
use outcore::key::expr::{Cursor, is_in_name};
use outcore_io::{Error, Result};

use super::{Node, Operator};

/// Deepest nesting of brackets, operators and calls.
const DEPTH_MAX: usize = 100;
/// Most parts of an expression.
const PARTS_MAX: usize = 1000;
/// What errors advise.
const HINT: &str = "write for example: price * n > 100 and country in ('de', 'fr')";

/// Operators: text, meaning, how tightly they bind.
const BINARY: [(&str, Operator, u8); 19] = [
    ("or", Operator::Or, 1),
    ("||", Operator::Or, 1),
    ("and", Operator::And, 2),
    ("&&", Operator::And, 2),
    ("<=", Operator::LessEqual, COMPARE),
    (">=", Operator::GreaterEqual, COMPARE),
    ("==", Operator::Equal, COMPARE),
    ("!=", Operator::NotEqual, COMPARE),
    ("<>", Operator::NotEqual, COMPARE),
    ("=", Operator::Equal, COMPARE),
    ("<", Operator::Less, COMPARE),
    (">", Operator::Greater, COMPARE),
    ("+", Operator::Add, 5),
    ("-", Operator::Subtract, 5),
    ("*", Operator::Multiply, 6),
    ("//", Operator::FloorDivide, 6),
    ("/", Operator::Divide, 6),
    ("%", Operator::Modulo, 6),
    ("mod", Operator::Modulo, 6),
];
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const SIGN: u8 = 7;
/// Words that are not columns.
const WORDS: [&str; 8] = ["and", "or", "not", "in", "is", "null", "true", "false"];

/// A whole text.
pub(super) fn expression(text: &str) -> Result<Node> {
    let mut parser = Parser::new(text);
    let node = parser.expression(0)?;
    parser.end()?;
    Ok(node)
}

/// `name = expression, ...`.
pub(super) fn assignments(text: &str) -> Result<Vec<(String, Node)>> {
    let mut parser = Parser::new(text);
    let mut made = Vec::new();
    loop {
        let named = parser.name()?;
        let is_assigned = parser.cursor.take("=") && !parser.cursor.rest().starts_with('=');
        let name = named.filter(|_| is_assigned);
        let name = name.ok_or_else(|| {
            let cause = "a computed column needs a name";
            Error::usage(
                "read expression",
                format!("{cause}: `{}`", parser.cursor.shown()),
            )
            .hint("write name = expression, for example total = price * n")
        })?;
        made.push((name, parser.expression(0)?));
        if !parser.cursor.take(",") {
            parser.end()?;
            return Ok(made);
        }
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    depth: usize,
    parts: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Parser {
            cursor: Cursor::new(text, HINT),
            depth: 0,
            parts: 0,
        }
    }

    fn end(&mut self) -> Result<()> {
        self.cursor.skip_space();
        match self.cursor.is_at_end() {
            true => Ok(()),
            false => Err(self.cursor.wrong("an operator is missing")),
        }
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        match self.cursor.take(token) {
            true => Ok(()),
            false => Err(self.cursor.wrong(&format!("`{token}` is missing"))),
        }
    }

    fn expression(&mut self, least: u8) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self
                .cursor
                .wrong(&format!("it is nested more than {DEPTH_MAX} deep")));
        }
        let mut left = self.operand(least)?;
        let mut is_compared = false;
        loop {
            if least <= COMPARE
                && let Some(tested) = self.test(&left)?
            {
                left = tested;
                is_compared = true;
                continue;
            }
            let Some((text, operator, binds)) = self.cursor.operator(&BINARY) else {
                break;
            };
            if binds < least {
                break;
            }
            if binds == COMPARE && std::mem::replace(&mut is_compared, true) {
                return Err(self
                    .cursor
                    .wrong("comparisons do not chain")
                    .hint("write a < b and b < c"));
            }
            self.cursor.advance(text.len());
            self.count()?;
            let right = self.expression(binds + 1)?;
            left = Node::Binary(operator, Box::new(left), Box::new(right));
        }
        self.depth -= 1;
        Ok(left)
    }

    /// `is null`, `in (...)` and their opposites, after an operand.
    fn test(&mut self, left: &Node) -> Result<Option<Node>> {
        let of = || Box::new(left.clone());
        if self.cursor.take_word("is") {
            let is_so = !self.cursor.take_word("not");
            return match self.cursor.take_word("null") {
                true => Ok(Some(Node::IsNull(of(), is_so))),
                false => Err(self.cursor.wrong("`null` is missing")),
            };
        }
        let before = self.cursor.at();
        let is_so = !self.cursor.take_word("not");
        if self.cursor.take_word("in") {
            self.expect("(")?;
            let values = self.list(")")?;
            return Ok(Some(Node::IsIn(of(), values, is_so)));
        }
        self.cursor.set_back(before);
        Ok(None)
    }

    fn list(&mut self, close: &str) -> Result<Vec<Node>> {
        let mut values = Vec::new();
        if self.cursor.take(close) {
            return Ok(values);
        }
        loop {
            values.push(self.expression(0)?);
            if self.cursor.take(close) {
                return Ok(values);
            }
            self.expect(",")?;
        }
    }

    fn count(&mut self) -> Result<()> {
        self.parts += 1;
        match self.parts > PARTS_MAX {
            true => Err(self
                .cursor
                .wrong(&format!("it has more than {PARTS_MAX} parts"))),
            false => Ok(()),
        }
    }

    fn operand(&mut self, least: u8) -> Result<Node> {
        self.count()?;
        if self.cursor.take_word("not") || self.take_not() {
            if least > NOT {
                return Err(self.cursor.wrong("`not` needs brackets around it"));
            }
            return Ok(Node::Not(Box::new(self.expression(NOT)?)));
        }
        if self.cursor.take("-") {
            return Ok(match self.expression(SIGN)? {
                Node::Integer(number) => Node::Integer(-number),
                Node::Number(number) if !number.starts_with('-') => {
                    Node::Number(format!("-{number}"))
                }
                node => Node::Negative(Box::new(node)),
            });
        }
        if self.cursor.take("(") {
            let node = self.expression(0)?;
            self.expect(")")?;
            return Ok(node);
        }
        self.cursor.skip_space();
        let rest = self.cursor.rest();
        match rest.chars().next() {
            Some('\'' | '"') => self.text().map(Node::Text),
            Some(first) if first.is_ascii_digit() || first == '.' => self.number(),
            _ => self.named(),
        }
    }

    /// `!` that is not part of `!=`.
    fn take_not(&mut self) -> bool {
        self.cursor.skip_space();
        let is_there = self.cursor.rest().starts_with('!') && !self.cursor.rest().starts_with("!=");
        self.cursor.advance(usize::from(is_there));
        is_there
    }

    /// A word, a column or a call.
    fn named(&mut self) -> Result<Node> {
        let is_quoted = self.cursor.rest().starts_with('`');
        if !is_quoted {
            if self.cursor.take_word("null") {
                return Ok(Node::Null);
            }
            if self.cursor.take_word("true") {
                return Ok(Node::Boolean(true));
            }
            if self.cursor.take_word("false") {
                return Ok(Node::Boolean(false));
            }
        }
        let Some(name) = self.name()? else {
            return Err(self.cursor.wrong("a value is missing"));
        };
        if !is_quoted && self.cursor.take("(") {
            return Ok(Node::Call(name, self.list(")")?));
        }
        Ok(Node::Column(name + &self.fields()?))
    }

    /// The names of fields of objects, each behind a point that follows at once.
    fn fields(&mut self) -> Result<String> {
        let mut path = String::new();
        loop {
            let rest = self.cursor.rest();
            let Some(field) = rest.strip_prefix('.') else {
                return Ok(path);
            };
            let len = field.find(|c| !is_in_name(c)).unwrap_or(field.len());
            let name = match field.starts_with('`') {
                true => {
                    self.cursor.advance(1);
                    self.name()?.unwrap_or_default()
                }
                false => {
                    self.cursor.advance(1 + len);
                    field[..len].to_owned()
                }
            };
            if name.is_empty() {
                return Err(self.cursor.wrong("the name of a field is missing"));
            }
            path = path + "." + &name;
        }
    }

    /// A name, in backquotes if it is none of letters, digits and `_`.
    fn name(&mut self) -> Result<Option<String>> {
        self.cursor.skip_space();
        let rest = self.cursor.rest();
        if rest.starts_with('`') {
            let Some((name, behind)) = quoted(rest) else {
                return Err(self.cursor.wrong("the second backquote is missing"));
            };
            self.cursor.advance(rest.len() - behind.len());
            return Ok(Some(name));
        }
        let len = rest.find(|c| !is_in_name(c)).unwrap_or(rest.len());
        let name = &rest[..len];
        let is_word = WORDS.iter().any(|word| name.eq_ignore_ascii_case(word));
        if name.is_empty() || is_word || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        self.cursor.advance(len);
        Ok(Some(name.to_owned()))
    }

    /// A text in quotes, which are written twice inside of it.
    fn text(&mut self) -> Result<String> {
        let mut chars = self.cursor.rest().char_indices();
        let quote = chars.next().map_or('\'', |(_, quote)| quote);
        let mut text = String::new();
        while let Some((at, c)) = chars.next() {
            if c != quote {
                text.push(c);
                continue;
            }
            let mut ahead = chars.clone();
            if ahead.next().is_some_and(|(_, next)| next == quote) {
                text.push(quote);
                chars = ahead;
                continue;
            }
            self.cursor.advance(at + c.len_utf8());
            return Ok(text);
        }
        Err(self
            .cursor
            .wrong("the closing quote is missing for the text"))
    }

    fn number(&mut self) -> Result<Node> {
        let rest = self.cursor.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| {
            let is_digit = |byte: &&u8| byte.is_ascii_digit() || **byte == b'_';
            bytes[from.min(bytes.len())..]
                .iter()
                .take_while(is_digit)
                .count()
        };
        let mut len = digits(0);
        let mut is_whole = true;
        if bytes.get(len) == Some(&b'.') {
            is_whole = false;
            len += 1 + digits(len + 1);
        }
        if matches!(bytes.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
            let exponent = digits(len + 1 + sign);
            if exponent > 0 {
                is_whole = false;
                len += 1 + sign + exponent;
            }
        }
        let text = rest[..len].replace('_', "");
        let is_known = match is_whole {
            true => text.parse::<i128>().is_ok(),
            false => text.parse::<f64>().is_ok(),
        };
        if !is_known || rest[len..].starts_with(is_in_name) {
            return Err(self.cursor.wrong("this is not a number"));
        }
        self.cursor.advance(len);
        Ok(match is_whole {
            true => Node::Integer(text.parse().unwrap_or(0)),
            false => Node::Number(text),
        })
    }
}
