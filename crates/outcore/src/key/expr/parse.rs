//! Text to [`Expr`]: precedence climbing over a handful of tokens.
//!
//! Contract: one pass, with look-ahead only for a word that may be a column or the beginning of a
//! longer construct. Nesting and the number of values are limited, so that reading a text, walking
//! its tree and dropping the tree never exhaust the stack. The limit on values is needed because a
//! chain of operators is a tree as deep as its number of values. Errors are those of [`Cursor`].
//! Words such as `case`, `between` and `end` are columns wherever they cannot be anything else.

use outcore_io::{Error, Result};

use super::calls::call;
use super::cursor::{Cursor, Operator, is_in_name};
use super::foreign;
use super::functions::{Cast, READ};
use super::tree::{Arm, Between, Binary, Case, Expr, Named, Unary};
use crate::key::column::quoted;

/// Deepest nesting of brackets, operators and calls.
const DEPTH_MAX: usize = 128;
/// Largest number of values, unary operators and calls of an expression.
pub(super) const PARTS_MAX: usize = 1000;
/// The hint of errors.
const HINT: &str = "write for example x * 2 + 1, x > 10 and x % 2 == 0, or country in ('de', 'fr')";
/// What to do about an expression beyond the limits.
const SPLIT: &str = "split it into several steps, each of which computes a part";

const fn binary(text: &'static str, meaning: Binary, strength: u8) -> Operator<Binary> {
    Operator {
        text,
        meaning,
        strength,
    }
}

const BINARY: [Operator<Binary>; 25] = [
    binary("or", Binary::Or, 1),
    binary("||", Binary::Or, 1),
    binary("and", Binary::And, 2),
    binary("&&", Binary::And, 2),
    binary("<=", Binary::LessEqual, COMPARE),
    binary(">=", Binary::GreaterEqual, COMPARE),
    binary("==", Binary::Equal, COMPARE),
    binary("!=", Binary::NotEqual, COMPARE),
    binary("<>", Binary::NotEqual, COMPARE),
    binary("<", Binary::Less, COMPARE),
    binary(">", Binary::Greater, COMPARE),
    binary("=", Binary::Equal, COMPARE),
    binary("|", Binary::BitOr, 5),
    binary("^", Binary::BitXor, 6),
    binary("&", Binary::BitAnd, 7),
    binary("<<", Binary::ShiftLeft, 8),
    binary(">>", Binary::ShiftRight, 8),
    binary("+", Binary::Add, 9),
    binary("-", Binary::Subtract, 9),
    binary("*", Binary::Multiply, 10),
    binary("//", Binary::FloorDivide, 10),
    binary("/", Binary::Divide, 10),
    binary("%", Binary::Modulo, 10),
    binary("mod", Binary::Modulo, 10),
    binary("**", Binary::Power, POWER),
];
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const SIGN: u8 = 11;
const POWER: u8 = 12;

/// Words that are columns only in backquotes.
const WORDS: [&str; 8] = ["and", "or", "not", "in", "is", "null", "true", "false"];
/// Words that come between or after operands.
const BEHIND: [&str; 10] = [
    "and", "or", "not", "in", "is", "mod", "between", "like", "ilike", "as",
];
/// The hint for users who write a cast in another notation.
const TYPES_CALLED: &str = "a type is a function here: i64(price), text(n), date(day)";
/// The hint for users who test a pattern with an operator.
const PATTERNS: &str = "regexp_matches(name, 'S.*') tests a pattern";

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text);
    let expr = parser.expression(0)?;
    parser.end()?;
    Ok(expr)
}

/// `name = expression, expression as name, ...`.
pub(super) fn named(text: &str) -> Result<Vec<Named>> {
    let mut parser = Parser::new(text);
    let mut made = Vec::new();
    loop {
        made.push(parser.named()?);
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
            false => Err(self.unfinished()),
        }
    }

    /// The error for text after an operand that does not begin with an operator.
    fn unfinished(&self) -> Error {
        let error = self.cursor.wrong("an operator is missing");
        let rest = self.cursor.rest();
        match rest {
            _ if rest.starts_with("::") => error.hint(TYPES_CALLED),
            _ if rest.starts_with(['~', '!']) => error.hint(PATTERNS),
            _ => match foreign::operator(self.cursor.before().trim_end(), rest) {
                Some(step) => error.hint(step),
                None => error,
            },
        }
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        match self.cursor.take(token) {
            true => Ok(()),
            false => Err(self.cursor.wrong(&format!("`{token}` is missing"))),
        }
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        match self.cursor.take_word(word) {
            true => Ok(()),
            false => Err(self.cursor.wrong(&format!("`{word}` is missing"))),
        }
    }

    /// `name = expression` or `expression as name`.
    fn named(&mut self) -> Result<Named> {
        let before = self.cursor.at();
        if let Some(name) = self.name()?
            && self.cursor.take("=")
            && !self.cursor.rest().starts_with('=')
        {
            return Ok(Named {
                name,
                value: self.expression(0)?,
                is_alias: false,
            });
        }
        self.cursor.set_back(before);
        let value = self.expression(0)?;
        let name = match self.cursor.take_word("as") {
            true => self.name()?,
            false => None,
        };
        let name = name.ok_or_else(|| {
            let cause = format!("a computed column needs a name: `{}`", self.cursor.shown());
            Error::usage(READ, cause).hint(foreign::name(self.cursor.rest()))
        })?;
        Ok(Named {
            name,
            value,
            is_alias: true,
        })
    }

    fn expression(&mut self, least: u8) -> Result<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let cause = format!("the expression is nested more than {DEPTH_MAX} deep");
            return Err(self.cursor.wrong(&cause).hint(SPLIT));
        }
        self.cursor.skip_space();
        let from = self.cursor.at();
        let mut left = self.operand(least)?;
        let mut is_compared = false;
        loop {
            if least <= COMPARE && self.is_at_test() {
                self.note_comparison(&mut is_compared, &left)?;
                left = self.test(left)?;
                continue;
            }
            let Some(operator) = self.cursor.operator(&BINARY) else {
                break;
            };
            let Operator {
                text,
                meaning,
                strength: binds,
            } = operator;
            if binds < least {
                break;
            }
            if binds == COMPARE {
                self.note_comparison(&mut is_compared, &left)?;
            }
            let sign_at = self.cursor.at();
            self.cursor.advance(text.len());
            if text == "=" && self.is_at_pattern() {
                return Err(self.cursor.wrong("`=~` is not an operator").hint(PATTERNS));
            }
            // Powers bind from the right: 2 ** 3 ** 2 is 2 ** 9.
            let right = self.expression(if binds == POWER { SIGN } else { binds + 1 })?;
            if binds == COMPARE {
                self.check_compared(&left, &right)?;
            }
            if let (Binary::BitXor, Expr::Int(one), Expr::Int(other)) = (meaning, &left, &right) {
                let shown = self.cursor.before()[from..].trim_end();
                let [base, power] = [&shown[..sign_at - from], &shown[sign_at - from + 1..]];
                if foreign::are_decimal(base, power) {
                    let cause = format!("`{shown}` is {}: ^ is the exclusive or", one ^ other);
                    let (base, power) = (base.trim(), power.trim());
                    return Err(Error::usage(READ, cause).hint(format!("write {base} ** {power}")));
                }
            }
            left = Expr::Binary(meaning, Box::new(left), Box::new(right));
        }
        self.depth -= 1;
        Ok(left)
    }

    /// Whether a `~` and a text come next, which many languages write after `=` for a pattern.
    fn is_at_pattern(&self) -> bool {
        let pattern = self.cursor.rest().strip_prefix('~');
        pattern.is_some_and(|pattern| pattern.trim_start().starts_with(['\'', '"']))
    }

    /// Rejects comparisons with the same result in every row: those with null, and those of two
    /// texts (SQL puts names in double quotes).
    fn check_compared(&self, one: &Expr, other: &Expr) -> Result<()> {
        if matches!(one, Expr::Null) || matches!(other, Expr::Null) {
            let error = self
                .cursor
                .wrong("nothing equals null: the comparison ends");
            return Err(error.hint("write x is null, or x is not null"));
        }
        let (Expr::Text(one), Expr::Text(_)) = (one, other) else {
            return Ok(());
        };
        let cause = format!("`{one}` is a text here, not a column, and is compared with a text");
        Err(self
            .cursor
            .wrong(&cause)
            .hint("write a column's name without quotes, or in backquotes: `a b`"))
    }

    fn note_comparison(&mut self, is_compared: &mut bool, left: &Expr) -> Result<()> {
        if !std::mem::replace(is_compared, true) {
            return Ok(());
        }
        let joins_bits =
            |side: &Expr| matches!(side, Expr::Binary(Binary::BitAnd | Binary::BitOr, ..));
        let error = self.cursor.wrong("comparisons do not chain");
        Err(error.hint(match left {
            Expr::Binary(_, _, right) if joins_bits(right) => {
                "& and | join bits; `and` and `or` join conditions: a > 1 and b = 'x'"
            }
            _ => "write a < b and b < c",
        }))
    }

    /// Whether `is`, `in`, `between` or `like` comes next, with or without `not`.
    fn is_at_test(&mut self) -> bool {
        let before = self.cursor.at();
        let is_there = self.cursor.take_word("is") || {
            self.cursor.take_word("not");
            let mut words = ["in", "between", "like", "ilike"].into_iter();
            words.any(|word| self.cursor.take_word(word))
        };
        self.cursor.set_back(before);
        is_there
    }

    /// Parses the test that follows an operand; see [`Parser::is_at_test`].
    fn test(&mut self, left: Expr) -> Result<Expr> {
        if self.cursor.take_word("is") {
            let is_so = !self.cursor.take_word("not");
            let ours =
                |error: Error| error.hint("`is` tests for null; compare with =, as in name = 'x'");
            self.expect_word("null").map_err(ours)?;
            return Ok(Expr::IsNull(Box::new(left), is_so));
        }
        let is_so = !self.cursor.take_word("not");
        if self.cursor.take_word("in") {
            let ours = |error: Error| {
                error.hint(
                    "a list is in parentheses: in ('a', 'b'); contains(name, 'part') finds a part",
                )
            };
            self.expect("(").map_err(ours)?;
            let values = self.list()?;
            for value in &values {
                self.check_compared(&left, value)?;
            }
            return Ok(Expr::In(Box::new(left), values, is_so));
        }
        if self.cursor.take_word("between") {
            let least = self.expression(COMPARE + 1)?;
            self.expect_word("and")?;
            let most = self.expression(COMPARE + 1)?;
            return Ok(Expr::Between(Box::new(Between {
                value: left,
                least,
                most,
                is_so,
            })));
        }
        let name = match self.cursor.take_word("like") {
            true => "like",
            false => {
                self.expect_word("ilike")?;
                "ilike"
            }
        };
        let pattern = self.expression(COMPARE + 1)?;
        let matched = call(name, vec![left, pattern])?;
        Ok(match is_so {
            true => matched,
            false => Expr::Unary(Unary::Not, Box::new(matched)),
        })
    }

    /// Comma-separated values, including the final `)`.
    fn list(&mut self) -> Result<Vec<Expr>> {
        let mut values = Vec::new();
        if self.cursor.take(")") {
            return Ok(values);
        }
        loop {
            values.push(self.expression(0)?);
            if self.cursor.take(")") {
                return Ok(values);
            }
            if !self.cursor.take(",") {
                let error = self.cursor.wrong("`)` or `,` is missing");
                return Err(match self.cursor.has_word("from") {
                    true => error.hint(foreign::PARTS_OF_TIMES),
                    false => error,
                });
            }
        }
    }

    fn operand(&mut self, least: u8) -> Result<Expr> {
        self.cursor.skip_space();
        self.parts += 1;
        if self.parts > PARTS_MAX {
            let cause = format!("the expression has more than {PARTS_MAX} parts");
            return Err(self.cursor.wrong(&cause).hint(SPLIT));
        }
        if self.cursor.take_word("not") || self.take_not() {
            let inner = self.expression(NOT.max(least))?;
            return Ok(Expr::Unary(Unary::Not, Box::new(inner)));
        }
        if self.cursor.take("-") {
            return Ok(negated(self.expression(SIGN)?));
        }
        if self.cursor.take("+") {
            return self.expression(SIGN);
        }
        if self.cursor.take("~") {
            let inner = self.expression(SIGN)?;
            return Ok(Expr::Unary(Unary::Invert, Box::new(inner)));
        }
        if self.cursor.take("(") {
            let inner = self.expression(0)?;
            self.expect(")")?;
            return Ok(inner);
        }
        match self.cursor.rest().chars().next() {
            Some('\'' | '"') => self.text().map(Expr::Text),
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            _ => self.word(),
        }
    }

    /// A `!` that is not part of `!=`.
    fn take_not(&mut self) -> bool {
        let rest = self.cursor.rest();
        let is_there = rest.starts_with('!') && !rest.starts_with("!=");
        self.cursor.advance(usize::from(is_there));
        is_there
    }

    /// A word, a column, an element of one, or a call.
    fn word(&mut self) -> Result<Expr> {
        let is_quoted = self.cursor.rest().starts_with('`');
        if !is_quoted {
            let words = [
                ("null", Expr::Null),
                ("true", Expr::Bool(true)),
                ("false", Expr::Bool(false)),
            ];
            for (word, value) in words {
                if self.cursor.take_word(word) {
                    return Ok(value);
                }
            }
            if self.is_at_case() {
                return self.case();
            }
        }
        let Some(name) = self.name()? else {
            let error = self.cursor.wrong("a value is missing");
            return Err(
                match foreign::value(self.cursor.before(), self.cursor.rest()) {
                    Some(step) => error.hint(step),
                    None => error,
                },
            );
        };
        if !is_quoted && self.cursor.take("(") {
            let values = self.list();
            let is_cast = ["cast", "try_cast"]
                .iter()
                .any(|cast| name.eq_ignore_ascii_case(cast));
            if is_cast {
                let error = self.cursor.wrong("`cast` is not a function");
                return Err(error.hint(TYPES_CALLED));
            }
            return call(&name, values?);
        }
        if !is_quoted && Cast::named(&name).is_some() && self.is_at_text() {
            // `date '2024-01-01'`, as in SQL.
            let text = Expr::Text(self.text()?);
            return call(&name, vec![text]);
        }
        let column = Expr::Column(name + &self.fields()?);
        match self.cursor.take("[") {
            true => self.element(column),
            false => Ok(column),
        }
    }

    fn is_at_text(&mut self) -> bool {
        self.cursor.skip_space();
        self.cursor.rest().starts_with(['\'', '"'])
    }

    /// A number, `]`.
    fn element(&mut self, of: Expr) -> Result<Expr> {
        self.cursor.skip_space();
        let is_number = self.cursor.rest().starts_with(|c: char| c.is_ascii_digit());
        if is_number
            && let Expr::Int(element) = self.number()?
            && self.cursor.take("]")
        {
            let element = usize::try_from(element);
            let element = element.map_err(|_| self.cursor.wrong("no such element"))?;
            return Ok(Expr::Element(Box::new(of), element));
        }
        let error = self
            .cursor
            .wrong("an element is a number in brackets, as in x[0],");
        Err(match self.cursor.rest().chars().next() {
            Some(':') => {
                error.hint("substr(s, 1, 2) is a part of a text: its first two characters")
            }
            Some('\'' | '"') => error.hint(foreign::NAME_ALONE),
            _ => error,
        })
    }

    /// Whether the word `case` comes next, followed by text that can only be a value.
    fn is_at_case(&mut self) -> bool {
        let before = self.cursor.at();
        let mut is_there = self.cursor.take_word("case");
        if is_there {
            self.cursor.skip_space();
            let rest = self.cursor.rest();
            let is_value = |c: char| is_in_name(c) || matches!(c, '(' | '\'' | '"' | '`');
            is_there =
                rest.starts_with(is_value) && !BEHIND.iter().any(|word| self.cursor.has_word(word));
        }
        self.cursor.set_back(before);
        is_there
    }

    /// `case [of] when c then v ... [else v] end`.
    fn case(&mut self) -> Result<Expr> {
        self.cursor.take_word("case");
        let mut case = Case {
            of: None,
            arms: Vec::new(),
            otherwise: None,
        };
        if !self.cursor.take_word("when") {
            case.of = Some(self.expression(0)?);
            self.expect_word("when")?;
        }
        loop {
            let condition = self.expression(0)?;
            self.expect_word("then")?;
            let value = self.expression(0)?;
            case.arms.push(Arm { condition, value });
            if !self.cursor.take_word("when") {
                break;
            }
        }
        if self.cursor.take_word("else") {
            case.otherwise = Some(self.expression(0)?);
        }
        self.expect_word("end")?;
        Ok(Expr::Case(Box::new(case)))
    }

    /// The names of objects' fields, each after a point without a space before it.
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

    /// A name; in backquotes if it has characters other than letters, digits and `_`.
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

    /// A text in quotes, which are doubled inside it.
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

    fn number(&mut self) -> Result<Expr> {
        let rest = self.cursor.rest();
        let bytes = rest.as_bytes();
        let is_hex = rest.starts_with("0x") || rest.starts_with("0X");
        let mut len = 0;
        while len < bytes.len() {
            let c = bytes[len];
            let is_sign = matches!(c, b'+' | b'-')
                && !is_hex
                && len > 0
                && matches!(bytes[len - 1], b'e' | b'E');
            if !(c.is_ascii_alphanumeric() || c == b'_' || c == b'.' || is_sign) {
                break;
            }
            len += 1;
        }
        let digits = rest[..len].replace('_', "");
        let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            Some(hex) => i128::from_str_radix(hex, 16).ok().map(Expr::Int),
            None => match digits.parse() {
                Ok(value) => Some(Expr::Int(value)),
                // Words such as `inf` begin with a letter and are not numbers here.
                Err(_) => digits.parse::<f64>().ok().map(|_| Expr::Number(digits)),
            },
        };
        let value = value.filter(|_| !rest[len..].starts_with(is_in_name));
        let value = value.ok_or_else(|| {
            self.cursor.wrong("this is not a number").hint(
                "write numbers without units, such as 1_000_000; a text is written in quotes: '10.0.0.1'",
            )
        })?;
        self.cursor.advance(len);
        Ok(value)
    }
}

/// The negated value; a literal remains a literal.
fn negated(value: Expr) -> Expr {
    match value {
        Expr::Int(number) => Expr::Int(-number),
        Expr::Number(number) => Expr::Number(match number.strip_prefix('-') {
            Some(positive) => positive.to_owned(),
            None => format!("-{number}"),
        }),
        value => Expr::Unary(Unary::Negate, Box::new(value)),
    }
}
