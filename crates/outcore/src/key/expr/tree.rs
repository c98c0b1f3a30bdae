//! The tree of an expression, which both evaluators walk.
//!
//! Contract: plain data. A chain of operators is a tree as deep as its number of values, at most
//! [`super::parse::PARTS_MAX`]; brackets and calls nest a tenth as deep.

use super::functions::{Cast, CastType, Function};

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// No value; only in tables.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A number with a point or an exponent, as written.
    Number(String),
    /// A text in quotes.
    Text(String),
    /// A field of a record or a column of a table; with points, a field of an object.
    Column(String),
    /// One element of a vector or of a list, counted from 0.
    Element(Box<Expr>, usize),
    /// `-x`, `~x`, `not x`.
    Unary(Unary, Box<Expr>),
    /// Two operands.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `x is null`, or `is not null` if the flag is false.
    IsNull(Box<Expr>, bool),
    /// `x in (...)`, or `not in` if the flag is false.
    In(Box<Expr>, Vec<Expr>, bool),
    /// `x between a and b`, inclusive.
    Between(Box<Between>),
    /// The first value whose condition holds.
    Case(Box<Case>),
    /// A function.
    Call(Function, Vec<Expr>),
    /// A conversion to another type.
    Cast(Cast, Box<Expr>),
}

/// `value between least and most`, or `not between` if `is_so` is false.
#[derive(Debug, Clone, PartialEq)]
pub struct Between {
    /// The value to compare.
    pub value: Expr,
    /// The lower end.
    pub least: Expr,
    /// The upper end.
    pub most: Expr,
    /// Whether the value must be between the ends, or must not be.
    pub is_so: bool,
}

/// `case when c then a else b end`; with `of`, conditions are values to compare it with.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The value that is compared with the values after `when`.
    pub of: Option<Expr>,
    /// The arms in order; at least one.
    pub arms: Vec<Arm>,
    /// The result if no arm holds; null by default.
    pub otherwise: Option<Expr>,
}

/// `when condition then value`.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// A condition, or a value to compare with.
    pub condition: Expr,
    /// The result if the condition holds.
    pub value: Expr,
}

/// An expression and the name of its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The values.
    pub value: Expr,
    /// Whether the expression was written as `value as name`.
    pub is_alias: bool,
}

/// Unary operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unary {
    Negate,
    Invert,
    Not,
}

/// Binary operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
    Least,
    Greatest,
}

impl Binary {
    /// Whether the operator is a comparison.
    pub const fn is_comparison(self) -> bool {
        use Binary::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(
            self,
            Less | LessEqual | Greater | GreaterEqual | Equal | NotEqual
        )
    }

    /// The equivalent comparison with exchanged operands.
    #[must_use]
    pub const fn exchanged(self) -> Self {
        match self {
            Binary::Less => Binary::Greater,
            Binary::LessEqual => Binary::GreaterEqual,
            Binary::Greater => Binary::Less,
            Binary::GreaterEqual => Binary::LessEqual,
            same => same,
        }
    }

    /// The notation of the operator.
    pub const fn sign(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::FloorDivide => "//",
            Binary::Modulo => "%",
            Binary::Power => "**",
            Binary::BitAnd => "&",
            Binary::BitOr => "|",
            Binary::BitXor => "^",
            Binary::ShiftLeft => "<<",
            Binary::ShiftRight => ">>",
            Binary::Less => "<",
            Binary::LessEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterEqual => ">=",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Least => "min",
            Binary::Greatest => "max",
        }
    }
}

impl Expr {
    /// The expression cast to `to`.
    pub fn cast(self, to: CastType) -> Self {
        let cast = Cast {
            to,
            is_tried: false,
        };
        Expr::Cast(cast, Box::new(self))
    }

    /// The columns and fields of objects that the expression reads, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.visit(&mut |expr| {
            if let Expr::Column(name) = expr
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        });
        names
    }

    /// Calls `work` with this expression and all expressions in it.
    pub fn visit<'e>(&'e self, work: &mut impl FnMut(&'e Expr)) {
        work(self);
        match self {
            Expr::Null
            | Expr::Bool(_)
            | Expr::Int(_)
            | Expr::Number(_)
            | Expr::Text(_)
            | Expr::Column(_) => {}
            Expr::Element(inner, _)
            | Expr::Unary(_, inner)
            | Expr::IsNull(inner, _)
            | Expr::Cast(_, inner) => inner.visit(work),
            Expr::Binary(_, one, other) => {
                one.visit(work);
                other.visit(work);
            }
            Expr::In(inner, values, _) => {
                inner.visit(work);
                values.iter().for_each(|value| value.visit(work));
            }
            Expr::Between(between) => {
                between.value.visit(work);
                between.least.visit(work);
                between.most.visit(work);
            }
            Expr::Case(case) => case.visit(work),
            Expr::Call(_, values) => values.iter().for_each(|value| value.visit(work)),
        }
    }
}

impl Case {
    fn visit<'e>(&'e self, work: &mut impl FnMut(&'e Expr)) {
        self.of.iter().for_each(|of| of.visit(work));
        for arm in &self.arms {
            arm.condition.visit(work);
            arm.value.visit(work);
        }
        self.otherwise.iter().for_each(|value| value.visit(work));
    }
}
