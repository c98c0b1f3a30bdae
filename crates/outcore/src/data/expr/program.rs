//! Expressions compiled for a schema: types decided, constants folded, one step an operation.
//!
//! Contract: what has no meaning is refused here, so running cannot fail. Types follow NumPy's
//! promotion; a literal has no type of its own until it meets a column (NEP 50). Equal loads are
//! shared.

use super::column::{BATCH_ROWS, Column, FUNCTIONS, Function, Rows, Space, Step};
use super::divide::Divisor;
use super::{Binary, COMPILE, ColumnType, Expr, INDEX, Schema, Unary};
use crate::data::record::NumberType;
use crate::error::{Error, Result};

/// Most steps and constants of a program: bounds its space.
const REGISTERS_MAX: usize = 256;

/// An expression that is ready to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    steps: Vec<Step>,
    constants: Vec<(usize, Constant)>,
    /// Casts of constants.
    once: Vec<Step>,
    registers: usize,
    result: usize,
    kind: ColumnType,
}

/// A value that does not depend on the row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Constant {
    Int(i128),
    Float(f64),
    Bool(bool),
}

/// An operand while compiling.
#[derive(Debug, Clone, Copy)]
enum Operand {
    Constant(Constant),
    Column(usize, ColumnType),
}

impl Program {
    /// Compiles `expr` for records of `schema`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for unknown names, types that do not go together, literals that do not
    /// fit.
    pub fn compile(expr: &Expr, schema: &Schema) -> Result<Self> {
        let mut compiler = Compiler {
            schema,
            program: Program {
                steps: Vec::new(),
                constants: Vec::new(),
                once: Vec::new(),
                registers: 0,
                result: 0,
                kind: ColumnType::Bool,
            },
        };
        let operand = compiler.expression(expr)?;
        let (result, kind) = compiler.settle(operand)?;
        let mut program = compiler.program;
        (program.result, program.kind) = (result, kind);
        Ok(program)
    }

    /// As [`Program::compile`], for a condition: numbers count as true unless they are zero.
    ///
    /// # Errors
    /// As [`Program::compile`].
    pub fn compile_condition(expr: &Expr, schema: &Schema) -> Result<Self> {
        let cast = Expr::Call("bool".to_string(), vec![expr.clone()]);
        Self::compile(&cast, schema)
    }

    /// What it computes.
    pub fn kind(&self) -> ColumnType {
        self.kind
    }

    /// Bytes of its space.
    pub fn space_bytes(&self) -> usize {
        self.registers * BATCH_ROWS * 8
    }

    /// Space for one thread.
    pub fn space(&self) -> Space {
        let mut registers = vec![vec![0; BATCH_ROWS]; self.registers];
        for (register, constant) in &self.constants {
            // As the widest of their kind; a cast makes the type that is needed.
            let bits = match constant {
                Constant::Int(value) => *value as u64,
                Constant::Float(value) => value.to_bits(),
                Constant::Bool(value) => u64::from_ne_bytes([u8::from(*value); 8]),
            };
            registers[*register].fill(bits);
        }
        let mut space = Space { registers };
        let rows = Rows {
            first: 0,
            count: BATCH_ROWS,
            inputs: &[],
        };
        self.once
            .iter()
            .for_each(|step| step.run(&mut space, &rows));
        space
    }

    /// The results for `rows`.
    ///
    /// # Panics
    /// When there are more than [`BATCH_ROWS`] rows, or the inputs are not those of the schema.
    pub fn run<'s>(&self, space: &'s mut Space, rows: &Rows<'_>) -> Column<'s> {
        assert!(rows.count <= BATCH_ROWS, "a batch has at most 1024 rows");
        for step in &self.steps {
            step.run(space, rows);
        }
        let bytes: &[u8] = bytemuck::cast_slice(&space.registers[self.result]);
        Column {
            kind: self.kind,
            bytes: &bytes[..rows.count * self.kind.bytes()],
        }
    }

    fn register(&mut self) -> Result<usize> {
        self.registers += 1;
        if self.registers > REGISTERS_MAX {
            return Err(Error::usage(COMPILE, "it is too long").hint("split it into several steps"));
        }
        Ok(self.registers - 1)
    }
}

fn wrong(cause: impl Into<String>) -> Error {
    Error::usage(COMPILE, cause).hint("cast it to a type that fits, as in i64(x)")
}

struct Compiler<'a> {
    schema: &'a Schema,
    program: Program,
}

impl Compiler<'_> {
    fn expression(&mut self, expr: &Expr) -> Result<Operand> {
        match expr {
            Expr::Int(value) => Ok(Operand::Constant(Constant::Int(*value))),
            Expr::Float(value) => Ok(Operand::Constant(Constant::Float(*value))),
            Expr::Bool(value) => Ok(Operand::Constant(Constant::Bool(*value))),
            Expr::Name(name, element) => self.name(name, *element),
            Expr::Unary(operator, inner) => {
                let inner = self.expression(inner)?;
                self.unary(*operator, inner)
            }
            Expr::Binary(operator, a, b) => {
                let a = self.expression(a)?;
                let b = self.expression(b)?;
                self.binary(*operator, a, b)
            }
            Expr::Call(name, arguments) => self.call(name, arguments),
        }
    }

    fn name(&mut self, name: &str, element: usize) -> Result<Operand> {
        if name == INDEX && self.schema.has_index {
            let to = self.program.register()?;
            self.program.steps.push(Step::Index { to });
            return Ok(Operand::Column(to, ColumnType::Number(NumberType::U64)));
        }
        let (input, offset_bytes, number) = self.schema.find(name, element)?;
        if number.kind == NumberType::U128 {
            return Err(Error::usage(COMPILE, "expressions have no 128-bit numbers")
                .hint("use two u64 fields: --record 16 --key 0:8:u64 --key 8:8:u64"));
        }
        let kind = ColumnType::Number(number.kind);
        let load = |to| Step::Load {
            to,
            input,
            offset_bytes,
            record_bytes: self.schema.record_bytes[input],
            number,
        };
        let same = |step: &&Step| matches!(step, Step::Load { to, .. } if **step == load(*to));
        if let Some(Step::Load { to, .. }) = self.program.steps.iter().find(same) {
            return Ok(Operand::Column(*to, kind));
        }
        let to = self.program.register()?;
        let step = load(to);
        self.program.steps.push(step);
        Ok(Operand::Column(to, kind))
    }

    /// An operand as a column: a literal alone is an `i64` (`u64` where it needs it) or an `f64`.
    fn settle(&mut self, operand: Operand) -> Result<(usize, ColumnType)> {
        let kind = match operand {
            Operand::Column(register, kind) => return Ok((register, kind)),
            Operand::Constant(Constant::Bool(_)) => ColumnType::Bool,
            Operand::Constant(Constant::Float(_)) => ColumnType::Number(NumberType::F64),
            Operand::Constant(Constant::Int(value)) => match i64::try_from(value) {
                Ok(_) => ColumnType::Number(NumberType::I64),
                Err(_) => ColumnType::Number(NumberType::U64),
            },
        };
        Ok((self.as_kind(operand, kind)?, kind))
    }

    /// The register of `operand` as a column of `kind`.
    fn as_kind(&mut self, operand: Operand, into: ColumnType) -> Result<usize> {
        let is_constant = matches!(operand, Operand::Constant(_));
        let (a, from) = match operand {
            Operand::Column(register, kind) => (register, kind),
            Operand::Constant(constant) => {
                let register = self.program.register()?;
                self.program.constants.push((register, constant));
                let kind = match constant {
                    Constant::Bool(_) => ColumnType::Bool,
                    Constant::Float(_) => ColumnType::Number(NumberType::F64),
                    Constant::Int(value) => {
                        check_fits(value, into)?;
                        match value < 0 {
                            true => ColumnType::Number(NumberType::I64),
                            false => ColumnType::Number(NumberType::U64),
                        }
                    }
                };
                (register, kind)
            }
        };
        if from == into {
            return Ok(a);
        }
        let to = self.program.register()?;
        let step = Step::Cast { to, a, from, into };
        match is_constant {
            true => self.program.once.push(step),
            false => self.program.steps.push(step),
        }
        Ok(to)
    }

    fn unary(&mut self, operator: Unary, operand: Operand) -> Result<Operand> {
        if operator == Unary::Not {
            let a = self.as_kind(operand, ColumnType::Bool)?;
            return self.single(operator, ColumnType::Bool, a);
        }
        if let Operand::Constant(Constant::Int(value)) = operand {
            let folded = match operator {
                Unary::Negate => value.checked_neg(),
                _ => Some(!value),
            };
            if let Some(value) = folded {
                return Ok(Operand::Constant(Constant::Int(value)));
            }
        }
        let (a, kind) = self.settle(operand)?;
        match (operator, kind) {
            (Unary::Negate, ColumnType::Bool) => Err(wrong("`-` of a truth value")),
            (Unary::Invert, ColumnType::Number(number)) if number.is_float() => {
                Err(wrong(format!("`~` of {kind}")))
            }
            _ => self.single(operator, kind, a),
        }
    }

    fn single(&mut self, operator: Unary, kind: ColumnType, a: usize) -> Result<Operand> {
        let to = self.program.register()?;
        self.program.steps.push(Step::Single {
            to,
            operator,
            kind,
            a,
        });
        Ok(Operand::Column(to, kind))
    }

    fn binary(&mut self, operator: Binary, a: Operand, b: Operand) -> Result<Operand> {
        use Binary::{And, BitAnd, BitOr, BitXor, Divide, Or, ShiftLeft, ShiftRight};
        if let (Operand::Constant(Constant::Int(a)), Operand::Constant(Constant::Int(b))) = (a, b)
            && let Some(value) = folded(operator, a, b)
        {
            return Ok(Operand::Constant(Constant::Int(value)));
        }
        let is_bool = |operand| {
            matches!(
                operand,
                Operand::Column(_, ColumnType::Bool) | Operand::Constant(Constant::Bool(_))
            )
        };
        let is_logic = matches!(operator, And | Or);
        let is_bits = matches!(operator, BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight);
        if is_logic || (is_bits && is_bool(a) && is_bool(b)) {
            let a = self.as_kind(a, ColumnType::Bool)?;
            let b = self.as_kind(b, ColumnType::Bool)?;
            let to = self.program.register()?;
            self.program.steps.push(Step::Logic { to, operator, a, b });
            return Ok(Operand::Column(to, ColumnType::Bool));
        }
        if is_comparison(operator) {
            return self.compare(operator, a, b);
        }
        let mut kind = common(a, b);
        if operator == Divide && !kind.is_float() {
            kind = NumberType::F64;
        }
        if is_bits && kind.is_float() {
            return Err(wrong("bits of floats"));
        }
        let a = self.as_kind(a, ColumnType::Number(kind))?;
        if let Some(divisor) = divisor(operator, kind, b)? {
            let to = self.program.register()?;
            self.program.steps.push(Step::DivideBy {
                to,
                operator,
                kind,
                a,
                divisor,
            });
            return Ok(Operand::Column(to, ColumnType::Number(kind)));
        }
        let b = self.as_kind(b, ColumnType::Number(kind))?;
        let to = self.program.register()?;
        self.program.steps.push(Step::Arithmetic {
            to,
            operator,
            kind,
            a,
            b,
        });
        Ok(Operand::Column(to, ColumnType::Number(kind)))
    }

    fn compare(&mut self, operator: Binary, a: Operand, b: Operand) -> Result<Operand> {
        // A literal beyond the type of the column decides the comparison by its side.
        let beyond = |column: Operand, literal: Operand| match (column, literal) {
            (Operand::Column(_, kind), Operand::Constant(Constant::Int(value))) => {
                match kind.number().is_float() || check_fits(value, kind).is_ok() {
                    true => None,
                    false => Some(value > 0),
                }
            }
            _ => None,
        };
        let decided = |is_less: bool, is_greater: bool| match operator {
            Binary::Less | Binary::LessEqual => is_less,
            Binary::Greater | Binary::GreaterEqual => is_greater,
            Binary::NotEqual => true,
            _ => false,
        };
        if let Some(is_above) = beyond(a, b) {
            return Ok(Operand::Constant(Constant::Bool(decided(
                is_above, !is_above,
            ))));
        }
        if let Some(is_above) = beyond(b, a) {
            return Ok(Operand::Constant(Constant::Bool(decided(
                !is_above, is_above,
            ))));
        }
        if let Some((unsigned, signed, operator)) = mixed(operator, a, b) {
            let signed = self.as_kind(signed, ColumnType::Number(NumberType::I64))?;
            let unsigned = self.as_kind(unsigned, ColumnType::Number(NumberType::U64))?;
            let to = self.program.register()?;
            self.program.steps.push(Step::CompareMixed {
                to,
                operator,
                unsigned,
                signed,
            });
            return Ok(Operand::Column(to, ColumnType::Bool));
        }
        let kind = common(a, b);
        let a = self.as_kind(a, ColumnType::Number(kind))?;
        let b = self.as_kind(b, ColumnType::Number(kind))?;
        let to = self.program.register()?;
        self.program.steps.push(Step::Compare {
            to,
            operator,
            kind,
            a,
            b,
        });
        Ok(Operand::Column(to, ColumnType::Bool))
    }

    fn call(&mut self, name: &str, arguments: &[Expr]) -> Result<Operand> {
        let operands: Result<Vec<Operand>> = arguments
            .iter()
            .map(|argument| self.expression(argument))
            .collect();
        let operands = operands?;
        match (name, &operands[..]) {
            ("min", [a, b]) => self.binary(Binary::Least, *a, *b),
            ("max", [a, b]) => self.binary(Binary::Greatest, *a, *b),
            ("where" | "if", [condition, a, b]) => self.choose(*condition, *a, *b),
            (_, [operand]) => {
                if let Some(into) = cast_named(name) {
                    return self.cast(*operand, into);
                }
                let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
                let (_, function) = found.ok_or_else(|| unknown(name, 1))?;
                self.function(*function, *operand)
            }
            _ => Err(unknown(name, operands.len())),
        }
    }

    fn cast(&mut self, operand: Operand, into: ColumnType) -> Result<Operand> {
        let settled = self.settle(operand)?;
        let column = Operand::Column(settled.0, settled.1);
        let register = self.as_kind(column, into)?;
        Ok(Operand::Column(register, into))
    }

    fn function(&mut self, function: Function, operand: Operand) -> Result<Operand> {
        let (_, kind) = self.settle(operand)?;
        let number = kind.number();
        let wants_float = !matches!(
            function,
            Function::Abs | Function::Hash | Function::Floor | Function::Ceil | Function::Round
        );
        let number = match wants_float && !number.is_float() {
            true => NumberType::F64,
            false => number,
        };
        let a = self.as_kind(operand, ColumnType::Number(number))?;
        let to = self.program.register()?;
        self.program.steps.push(Step::Function {
            to,
            function,
            kind: number,
            a,
        });
        let kind = match function {
            Function::IsNan => ColumnType::Bool,
            Function::Hash => ColumnType::Number(NumberType::U64),
            _ => ColumnType::Number(number),
        };
        Ok(Operand::Column(to, kind))
    }

    fn choose(&mut self, condition: Operand, a: Operand, b: Operand) -> Result<Operand> {
        let kind = ColumnType::Number(common(a, b));
        let condition = self.as_kind(condition, ColumnType::Bool)?;
        let a = self.as_kind(a, kind)?;
        let b = self.as_kind(b, kind)?;
        let to = self.program.register()?;
        self.program.steps.push(Step::Choose {
            to,
            bytes: kind.bytes(),
            condition,
            a,
            b,
        });
        Ok(Operand::Column(to, kind))
    }
}

fn unknown(name: &str, arguments: usize) -> Error {
    let functions = FUNCTIONS.iter().map(|(name, _)| *name);
    let known: Vec<&str> = functions.chain(["min", "max", "where"]).collect();
    let cause = format!("no function `{name}` of {arguments} values");
    Error::usage(COMPILE, cause).hint(format!("known: {}, and types: u8(x)", known.join(", ")))
}

fn cast_named(name: &str) -> Option<ColumnType> {
    if name == "bool" {
        return Some(ColumnType::Bool);
    }
    let mut kinds = NumberType::ALL.into_iter();
    let kind = kinds.find(|kind| kind.name() == name && *kind != NumberType::U128)?;
    Some(ColumnType::Number(kind))
}

fn is_comparison(operator: Binary) -> bool {
    use Binary::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    matches!(
        operator,
        Less | LessEqual | Greater | GreaterEqual | Equal | NotEqual
    )
}

/// Whole numbers are computed exactly while there are no columns.
fn folded(operator: Binary, a: i128, b: i128) -> Option<i128> {
    match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        Binary::ShiftLeft => u32::try_from(b)
            .ok()
            .filter(|b| *b < 100)
            .and_then(|b| a.checked_mul(1 << b)),
        Binary::ShiftRight => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)),
        Binary::FloorDivide => a.checked_div(b).map(|quotient| match floored(a, b) {
            true => quotient - 1,
            false => quotient,
        }),
        Binary::Modulo => a.checked_rem(b).map(|rest| match floored(a, b) {
            true => rest + b,
            false => rest,
        }),
        Binary::BitAnd => Some(a & b),
        Binary::BitOr => Some(a | b),
        Binary::BitXor => Some(a ^ b),
        Binary::Least => Some(a.min(b)),
        Binary::Greatest => Some(a.max(b)),
        _ => None,
    }
}

/// The constant that integers of `kind` are divided by, unless it is zero.
fn divisor(operator: Binary, kind: NumberType, b: Operand) -> Result<Option<Divisor>> {
    match (operator, b) {
        (Binary::FloorDivide | Binary::Modulo, Operand::Constant(Constant::Int(value)))
            if !kind.is_float() =>
        {
            check_fits(value, ColumnType::Number(kind))?;
            Ok(Divisor::new(value))
        }
        _ => Ok(None),
    }
}

/// Whether a quotient that is cut lies above the one that is rounded down.
fn floored(a: i128, b: i128) -> bool {
    a % b != 0 && (a < 0) != (b < 0)
}

fn check_fits(value: i128, kind: ColumnType) -> Result<()> {
    let number = kind.number();
    let bits = number.bytes() as u32 * 8;
    let (least, greatest) = match number.is_signed_integer() {
        _ if number.is_float() || kind == ColumnType::Bool => (i128::MIN, i128::MAX),
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    };
    // Registers hold 64 bits, whatever comes of them.
    let is_wide = value < i128::from(i64::MIN) || value > i128::from(u64::MAX);
    if (least..=greatest).contains(&value) && !is_wide {
        return Ok(());
    }
    Err(wrong(format!("{value} is no {kind}")))
}

/// One of them `u64`, the other signed: the operator with the unsigned one first.
fn mixed(operator: Binary, a: Operand, b: Operand) -> Option<(Operand, Operand, Binary)> {
    let number = |operand| match operand {
        Operand::Column(_, kind) => Some(kind.number()),
        Operand::Constant(_) => None,
    };
    let swapped = match operator {
        Binary::Less => Binary::Greater,
        Binary::LessEqual => Binary::GreaterEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterEqual => Binary::LessEqual,
        same => same,
    };
    match (number(a)?, number(b)?) {
        (NumberType::U64, other) if other.is_signed_integer() => Some((a, b, operator)),
        (other, NumberType::U64) if other.is_signed_integer() => Some((b, a, swapped)),
        _ => None,
    }
}

/// The type that both become.
fn common(a: Operand, b: Operand) -> NumberType {
    let of_constant = |constant| match constant {
        Constant::Float(_) => NumberType::F64,
        Constant::Int(value) if i64::try_from(value).is_err() => NumberType::U64,
        Constant::Int(_) => NumberType::I64,
        Constant::Bool(_) => NumberType::U8,
    };
    match (a, b) {
        (Operand::Column(_, a), Operand::Column(_, b)) => promoted(a.number(), b.number()),
        (Operand::Constant(a), Operand::Constant(b)) => promoted(of_constant(a), of_constant(b)),
        (Operand::Column(_, kind), Operand::Constant(constant))
        | (Operand::Constant(constant), Operand::Column(_, kind)) => match constant {
            Constant::Float(_) if !kind.number().is_float() => NumberType::F64,
            Constant::Int(_) if kind == ColumnType::Bool => of_constant(constant),
            _ => kind.number(),
        },
    }
}

/// NumPy's promotion of two types.
fn promoted(a: NumberType, b: NumberType) -> NumberType {
    use NumberType::{F64, I16, I32, I64, U8, U16, U32};
    if a == b {
        return a;
    }
    let (a, b) = if a.bytes() >= b.bytes() {
        (a, b)
    } else {
        (b, a)
    };
    match (a.is_float(), b.is_float()) {
        (true, true) => F64,
        (true, false) => match b.bytes() {
            1 | 2 => a,
            _ => F64,
        },
        (false, true) => F64,
        (false, false) if a.is_signed_integer() == b.is_signed_integer() => a,
        // A wider signed type holds a narrower unsigned one.
        (false, false) if a.is_signed_integer() && a.bytes() > b.bytes() => a,
        (false, false) => {
            let unsigned = if a.is_signed_integer() { b } else { a };
            match unsigned {
                U8 => I16,
                U16 => I32,
                U32 => I64,
                _ => F64,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type and values of an expression over bytes 0 to 3.
    fn run(text: &str) -> (ColumnType, Vec<u8>) {
        let schema = Schema::of_number(NumberType::U8);
        let program = Program::compile(&text.parse().unwrap(), &schema).unwrap();
        let mut space = program.space();
        let rows = Rows {
            first: 0,
            count: 4,
            inputs: &[&[0, 1, 2, 3]],
        };
        let column = program.run(&mut space, &rows);
        (column.kind, column.bytes.to_vec())
    }

    #[test]
    fn dividing_by_a_constant_is_dividing_by_a_column_of_it() {
        let bits: [u64; 6] = [0, 1, 1000, u64::MAX, 1 << 63, 0x8080_8080_8080_8080];
        let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let is_whole = |kind: &NumberType| *kind != NumberType::U128 && !kind.is_float();
        for kind in NumberType::ALL.into_iter().filter(is_whole) {
            let schema = Schema::of_number(kind);
            let run = |text: &str| {
                let program = Program::compile(&text.parse().unwrap(), &schema).unwrap();
                let rows = Rows {
                    first: 0,
                    count: bytes.len() / kind.bytes(),
                    inputs: &[&bytes],
                };
                let mut space = program.space();
                let column = program.run(&mut space, &rows);
                (column.kind, column.bytes.to_vec())
            };
            for by in [0, 1, 2, 3, 7, 64, 100, -1, -2, -5, -128] {
                if by < 0 && !kind.is_signed_integer() {
                    continue;
                }
                for operator in ["//", "%"] {
                    let constant = run(&format!("x {operator} {by}"));
                    let column = run(&format!("x {operator} ((x & 0) + {by})"));
                    assert_eq!(constant, column, "{kind:?} {operator} {by}");
                }
            }
        }
    }

    #[test]
    fn whole_numbers_are_exact_and_without_a_type_until_they_meet_a_column() {
        let u8 = ColumnType::Number(NumberType::U8);
        for (text, expected) in [
            ("x + 7 // 2", [3, 4, 5, 6]),
            ("x + -7 % 4", [1, 2, 3, 4]),
            ("x + -(1 - 3)", [2, 3, 4, 5]),
            ("x + (2 ** 70 >> 69)", [2, 3, 4, 5]),
            ("x + max(-7 // 2, 3 & 6)", [2, 3, 4, 5]),
            ("x + (5 ^ 6 | 1)", [3, 4, 5, 6]),
        ] {
            assert_eq!(run(text), (u8, expected.to_vec()), "{text}");
        }
        let least = [i64::MIN.to_ne_bytes(); 4].concat();
        let i64 = ColumnType::Number(NumberType::I64);
        assert_eq!(run("-(2 ** 63)"), (i64, least));
        // Nothing to divide by: as columns have it.
        assert_eq!(run("x + 1 // 0").1[..8], [0; 8]);
    }
}
