//! Text to [`Expr`]: precedence climbing over a handful of tokens.
//!
//! Contract: one pass, no backtracking. Nesting and the number of values are limited, so that
//! neither reading a text nor walking or dropping what was read exhausts the stack: a chain of
//! operators is a tree as deep as it has values. Errors are those of [`Cursor`].

use super::cursor::{Cursor, is_in_name};
use super::{Binary, Expr, Unary};
use outcore_io::Result;

/// Deepest nesting of brackets, operators and calls.
const DEPTH_MAX: usize = 128;
/// Most values, operators with one operand and calls of an expression.
const PARTS_MAX: usize = 1000;
/// What errors advise.
const HINT: &str = "write as in Python: x * 2 + 1, x > 10 and x % 2 == 0";
/// What to do about an expression beyond the limits.
const SPLIT: &str = "split it into several steps, each of which calls what it makes x";

/// Binary operators: text, what it is, how tightly it binds.
const BINARY: [(&str, Binary, u8); 23] = [
    ("or", Binary::Or, 1),
    ("||", Binary::Or, 1),
    ("and", Binary::And, 2),
    ("&&", Binary::And, 2),
    ("<<", Binary::ShiftLeft, 8),
    (">>", Binary::ShiftRight, 8),
    ("<=", Binary::LessEqual, 4),
    (">=", Binary::GreaterEqual, 4),
    ("==", Binary::Equal, 4),
    ("!=", Binary::NotEqual, 4),
    ("<", Binary::Less, 4),
    (">", Binary::Greater, 4),
    ("=", Binary::Equal, 4),
    ("|", Binary::BitOr, 5),
    ("^", Binary::BitXor, 6),
    ("&", Binary::BitAnd, 7),
    ("+", Binary::Add, 9),
    ("-", Binary::Subtract, 9),
    ("**", Binary::Power, 12),
    ("*", Binary::Multiply, 10),
    ("//", Binary::FloorDivide, 10),
    ("/", Binary::Divide, 10),
    ("%", Binary::Modulo, 10),
];
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const SIGN: u8 = 11;
const POWER: u8 = 12;

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Expr> {
    let mut parser = Parser {
        cursor: Cursor::new(text, HINT),
        depth: 0,
        parts: 0,
    };
    let expr = parser.expression(0)?;
    parser.cursor.skip_space();
    if !parser.cursor.is_at_end() {
        return Err(parser.cursor.wrong("an operator is missing"));
    }
    Ok(expr)
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    depth: usize,
    parts: usize,
}

impl Parser<'_> {
    fn expression(&mut self, least: u8) -> Result<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let cause = format!("the expression is nested more than {DEPTH_MAX} deep");
            return Err(self.cursor.wrong(&cause).hint(SPLIT));
        }
        let mut left = self.operand(least)?;
        let mut compared = false;
        while let Some((text, operator, binds)) = self.cursor.operator(&BINARY) {
            if binds < least {
                break;
            }
            if binds == COMPARE && std::mem::replace(&mut compared, true) {
                return Err(self
                    .cursor
                    .wrong("comparisons cannot be chained, join them with `and`"));
            }
            self.cursor.advance(text.len());
            // Powers bind from the right: 2 ** 3 ** 2 is 2 ** 9.
            let right = self.expression(if binds == POWER { SIGN } else { binds + 1 })?;
            left = Expr::Binary(operator, Box::new(left), Box::new(right));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operand(&mut self, least: u8) -> Result<Expr> {
        self.cursor.skip_space();
        self.parts += 1;
        if self.parts > PARTS_MAX {
            let cause = format!("the expression has more than {PARTS_MAX} values");
            return Err(self.cursor.wrong(&cause).hint(SPLIT));
        }
        let unary = |operator, inner| Ok(Expr::Unary(operator, Box::new(inner)));
        if self.cursor.take("-") {
            return match self.expression(SIGN)? {
                Expr::Int(value) => Ok(Expr::Int(-value)),
                Expr::Float(value) => Ok(Expr::Float(-value)),
                inner => unary(Unary::Negate, inner),
            };
        }
        if self.cursor.take("+") {
            return self.expression(SIGN);
        }
        if self.cursor.take("~") {
            let inner = self.expression(SIGN)?;
            return unary(Unary::Invert, inner);
        }
        if self.cursor.rest().starts_with('!') && !self.cursor.rest().starts_with("!=") {
            self.cursor.advance(1);
            let inner = self.expression(NOT.max(least))?;
            return unary(Unary::Not, inner);
        }
        if self.cursor.take("(") {
            let inner = self.expression(0)?;
            if !self.cursor.take(")") {
                return Err(self.cursor.wrong("`)` is missing"));
            }
            return Ok(inner);
        }
        match self.cursor.rest().chars().next() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if is_in_name(c) => self.word(least),
            _ => Err(self.cursor.wrong("a value is missing")),
        }
    }

    fn word(&mut self, least: u8) -> Result<Expr> {
        let rest = self.cursor.rest();
        let len = rest
            .find(|c: char| !is_in_name(c) && c != '.')
            .unwrap_or(rest.len());
        let word = &rest[..len];
        self.cursor.advance(len);
        match word {
            _ if word.eq_ignore_ascii_case("not") => {
                let inner = self.expression(NOT.max(least))?;
                return Ok(Expr::Unary(Unary::Not, Box::new(inner)));
            }
            "true" | "True" => return Ok(Expr::Bool(true)),
            "false" | "False" => return Ok(Expr::Bool(false)),
            _ => {}
        }
        if self.cursor.take("(") {
            let mut arguments = Vec::new();
            while !self.cursor.take(")") {
                if !arguments.is_empty() && !self.cursor.take(",") {
                    return Err(self.cursor.wrong("`)` or `,` is missing"));
                }
                arguments.push(self.expression(0)?);
            }
            return Ok(Expr::Call(word.to_string(), arguments));
        }
        if !self.cursor.take("[") {
            return Ok(Expr::Name(word.to_string(), None));
        }
        self.cursor.skip_space();
        match (self.number()?, self.cursor.take("]")) {
            (Expr::Int(element), true) => {
                let element =
                    usize::try_from(element).map_err(|_| self.cursor.wrong("no such element"))?;
                Ok(Expr::Name(word.to_string(), Some(element)))
            }
            _ => Err(self
                .cursor
                .wrong("an element is a number in brackets, as in x[0],")),
        }
    }

    fn number(&mut self) -> Result<Expr> {
        let rest = self.cursor.rest();
        let mut len = 0;
        let bytes = rest.as_bytes();
        let is_hex = rest.starts_with("0x") || rest.starts_with("0X");
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
                Err(_) => digits.parse().ok().map(Expr::Float),
            },
        };
        let value = value.ok_or_else(|| self.cursor.wrong("this is not a number"))?;
        self.cursor.advance(len);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        fn show(expr: &Expr) -> String {
            match expr {
                Expr::Int(value) => value.to_string(),
                Expr::Float(value) => format!("{value:?}"),
                Expr::Bool(value) => value.to_string(),
                Expr::Name(name, None) => name.clone(),
                Expr::Name(name, Some(element)) => format!("{name}[{element}]"),
                Expr::Unary(operator, inner) => format!("({operator:?} {})", show(inner)),
                Expr::Binary(operator, a, b) => format!("({} {operator:?} {})", show(a), show(b)),
                Expr::Call(name, arguments) => {
                    let arguments: Vec<String> = arguments.iter().map(show).collect();
                    format!("{name}({})", arguments.join(","))
                }
            }
        }
        show(&parse(text).unwrap())
    }

    #[test]
    fn operators_bind_as_in_python() {
        assert_eq!(shown("1+2*x"), "(1 Add (2 Multiply x))");
        assert_eq!(shown("-x ** 2"), "(Negate (x Power 2))");
        assert_eq!(shown("2 ** 3 ** 2"), "(2 Power (3 Power 2))");
        assert_eq!(shown("2 ** -1"), "(2 Power -1)");
        assert_eq!(shown("a - b - c"), "((a Subtract b) Subtract c)");
        assert_eq!(
            shown("not x > 1 and y or z"),
            "(((Not (x Greater 1)) And y) Or z)"
        );
        assert_eq!(shown("x & 3 == 1"), "((x BitAnd 3) Equal 1)");
        assert_eq!(shown("x >> 2 + 1"), "(x ShiftRight (2 Add 1))");
        assert_eq!(shown("orange or x"), "(orange Or x)");
        assert_eq!(shown("!(x != 0x1F)"), "(Not (x NotEqual 31))");
        assert_eq!(shown("max(x[2], 1e-3)"), "max(x[2],0.001)");
        assert_eq!(shown("1_000 // pos.a"), "(1000 FloorDivide pos.a)");
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place() {
        for text in [
            "",
            "1 +",
            "(x",
            "x x",
            "1 < x < 3",
            "f(1 2)",
            "x[",
            "3q",
            "x[-1]",
            "@",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Usage, "{text}");
            assert!(error.next_step().is_some(), "{text}");
        }
        let error = parse("x + )").unwrap_err();
        assert!(error.cause().contains("character 5"), "{error}");
    }

    #[test]
    fn no_expression_exhausts_the_stack() {
        let many = 30_000;
        for text in [
            format!("x{}", "+x".repeat(many)),
            format!("x{}", " + x*2".repeat(many)),
            format!("x{}", "**x".repeat(many)),
            format!("x{}", " and x".repeat(many)),
            format!("{}x{}", "(".repeat(many), ")".repeat(many)),
            format!("{}x{}", "(".repeat(many), "+x)".repeat(many)),
            format!("{}x{}", "abs(".repeat(many), ")".repeat(many)),
            format!("max({}x)", "x,".repeat(many)),
            format!("{}x", "-".repeat(many)),
            format!("{}x", "~".repeat(many)),
            format!("{}x", "!".repeat(many)),
            format!("{}x", "not ".repeat(many)),
            "(".repeat(many),
        ] {
            let error = parse(&text).unwrap_err();
            let is_told = error.cause().contains("more than 1000 values")
                || error.cause().contains("nested more than 128 deep");
            assert!(is_told, "{error}");
            assert!(error.to_string().len() < 400, "{error}");
            assert!(error.next_step().unwrap().contains("several steps"));
        }
        // What is within the limits is read, walked and dropped.
        for text in [
            format!("x{}", "+x".repeat(999)),
            format!("{}x{}", "(".repeat(127), ")".repeat(127)),
            format!("{}x", "-".repeat(127)),
        ] {
            assert_eq!(parse(&text).unwrap(), parse(&text).unwrap().clone());
        }
    }
}
