//! Expressions compiled for a schema: types decided, constants folded, one step an operation.
//!
//! Contract: what has no meaning is refused here, so running can fail only for a value that an
//! operation has no result for: an integer to a negative power. Types are those of
//! [`super::types`]. Equal loads are shared. A program over vectors computes their elements side by
//! side: each column has `width` values a row.

use super::column::{BATCH_ROWS, Column, FUNCTIONS, Function, Rows, Space, Step, folded_float};
use super::types::{
    Constant, Operand, check_fits, common, divisor, floats, folded, is_comparison, mixed, wrong,
};
use super::{Binary, COMPILE, ColumnType, Expr, INDEX, Schema, Unary};
use crate::key::record::NumberType;
use outcore_io::{Error, Result};

/// Most steps and constants of a program: bounds its space.
const REGISTERS_MAX: usize = 256;
/// Why an integer has no negative power, and what does.
const NEGATIVE_POWER: &str = "an integer cannot be raised to a negative power";
const AS_FLOAT: &str = "compute with floats: f64(x) ** -1, or 1 / x";

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
    /// Values that each row has in each column.
    width: usize,
    /// Whether the positions of rows are those in the input.
    has_index: bool,
}

impl Program {
    /// Compiles `expr` for records of `schema`: one value for each.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for unknown names, types that do not go together, literals that do
    /// not fit, and vectors.
    pub fn compile(expr: &Expr, schema: &Schema) -> Result<Self> {
        let (program, vector) = Self::compiled(expr, schema)?;
        let Some((name, count)) = vector else {
            return Ok(program);
        };
        let cause = format!("`{name}` is a vector of {count} numbers, where one value is wanted");
        Err(Error::usage(COMPILE, cause).hint(format!(
            "choose elements: {name}[0] is the first, {name}[{}] the last",
            count - 1
        )))
    }

    /// As [`Program::compile`], but vectors are allowed: operations work element by element and
    /// make [`Program::width`] values of each record.
    ///
    /// # Errors
    /// As [`Program::compile`], and for vectors of different lengths.
    pub(crate) fn compile_elementwise(expr: &Expr, schema: &Schema) -> Result<Self> {
        Self::compiled(expr, schema).map(|(program, _)| program)
    }

    /// The program, and the vector that makes it one of vectors.
    fn compiled(expr: &Expr, schema: &Schema) -> Result<(Self, Option<(String, usize)>)> {
        let mut compiler = Compiler {
            schema,
            vector: None,
            program: Program {
                steps: Vec::new(),
                constants: Vec::new(),
                once: Vec::new(),
                registers: 0,
                result: 0,
                kind: ColumnType::Bool,
                width: 1,
                has_index: schema.has_index,
            },
        };
        let operand = compiler.expression(expr)?;
        let (result, kind) = compiler.settle(operand)?;
        let mut program = compiler.program;
        (program.result, program.kind) = (result, kind);
        program.width = compiler.vector.as_ref().map_or(1, |(_, count)| *count);
        Ok((program, compiler.vector))
    }

    /// As [`Program::compile`], for a condition: numbers count as true unless they are zero.
    ///
    /// # Errors
    /// As [`Program::compile`].
    pub(crate) fn compile_condition(expr: &Expr, schema: &Schema) -> Result<Self> {
        let cast = Expr::Call("bool".to_string(), vec![expr.clone()]);
        Self::compile(&cast, schema)
    }

    /// What it computes.
    pub fn kind(&self) -> ColumnType {
        self.kind
    }

    /// How many values of that kind it makes of each record.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Most rows that it takes at once.
    pub(crate) fn rows_max(&self) -> usize {
        (BATCH_ROWS / self.width).max(1)
    }

    /// Whether [`Program::run`] can fail.
    pub(crate) fn can_fail(&self) -> bool {
        self.steps.iter().any(Step::may_fail)
    }

    /// Bytes of its space.
    pub(crate) fn space_bytes(&self) -> usize {
        self.registers * self.rows_max() * self.width * 8
    }

    /// Space for one thread.
    pub fn space(&self) -> Space {
        let mut registers = vec![vec![0; self.rows_max() * self.width]; self.registers];
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
            count: self.rows_max(),
            inputs: &[],
        };
        let steps = self.once.iter();
        steps.for_each(|step| step.run(&mut space, &rows, self.width));
        space
    }

    /// The results for `rows`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for an integer to a negative power.
    ///
    /// # Panics
    /// When there are more than [`Program::rows_max`] rows, or the inputs are not those of the
    /// schema.
    pub fn run<'s>(&self, space: &'s mut Space, rows: &Rows<'_>) -> Result<Column<'s>> {
        assert!(rows.count <= self.rows_max(), "a batch has its most rows");
        let values = rows.count * self.width;
        for step in &self.steps {
            if let Some(found) = step.negative_power(space, values) {
                return Err(self.no_power(rows, found));
            }
            step.run(space, rows, self.width);
        }
        let bytes: &[u8] = bytemuck::cast_slice(&space.registers[self.result]);
        Ok(Column {
            kind: self.kind,
            bytes: &bytes[..values * self.kind.bytes()],
        })
    }

    fn no_power(&self, rows: &Rows<'_>, (at, exponent): (usize, i64)) -> Error {
        let place = match self.has_index {
            true => format!(" of item {}", rows.first + (at / self.width) as u64),
            false => String::new(),
        };
        let cause = format!("the exponent{place} is {exponent}, and {NEGATIVE_POWER}");
        Error::usage("compute expression", cause).hint(AS_FLOAT)
    }

    fn register(&mut self) -> Result<usize> {
        self.registers += 1;
        if self.registers > REGISTERS_MAX {
            let cause =
                format!("the expression needs more than {REGISTERS_MAX} intermediate columns");
            return Err(Error::usage(COMPILE, cause).hint("split it into several steps"));
        }
        Ok(self.registers - 1)
    }
}

struct Compiler<'a> {
    schema: &'a Schema,
    /// The first vector that was named, and its length.
    vector: Option<(String, usize)>,
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

    fn name(&mut self, name: &str, element: Option<usize>) -> Result<Operand> {
        if name == INDEX && self.schema.has_index {
            let to = self.program.register()?;
            self.program.steps.push(Step::Index { to });
            return Ok(Operand::Column(to, ColumnType::Number(NumberType::U64)));
        }
        let (field, number) = self.schema.find(name)?;
        if number.kind == NumberType::U128 {
            return Err(Error::usage(COMPILE, "expressions have no 128-bit numbers")
                .hint("use two u64 fields: --record 16 --key 0:8:u64 --key 8:8:u64"));
        }
        let is_vector = element.is_none() && field.count > 1;
        if is_vector {
            self.widen(name, field.count)?;
        }
        let element = element.unwrap_or(0);
        if element >= field.count {
            let cause = format!(
                "there is no {name}[{element}]: `{name}` has {}",
                field.count
            );
            return Err(Error::usage(COMPILE, cause).hint("elements are counted from 0"));
        }
        let (input, record_bytes) = (field.input, self.schema.record_bytes[field.input]);
        let offset_bytes = field.offset_bytes + element * number.bytes();
        // Halves are computed with as singles.
        let kind = ColumnType::Number(match number.kind {
            NumberType::F16 => NumberType::F32,
            kind => kind,
        });
        let load = |to| Step::Load {
            to,
            input,
            offset_bytes,
            record_bytes,
            number,
            is_vector,
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

    /// Notes that a vector takes part.
    fn widen(&mut self, name: &str, count: usize) -> Result<()> {
        match &self.vector {
            Some((other, others)) if *others != count => {
                let cause = format!(
                    "`{other}` has {others} numbers and `{name}` has {count}, so they do not pair up"
                );
                Err(Error::usage(COMPILE, cause).hint(format!("choose elements: {name}[0]")))
            }
            Some(_) => Ok(()),
            None => {
                self.vector = Some((name.to_string(), count));
                Ok(())
            }
        }
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
        if let (Operand::Constant(Constant::Float(value)), Unary::Negate) = (operand, operator) {
            return Ok(Operand::Constant(Constant::Float(-value)));
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
        if let Some((a, b)) = floats(operator, a, b) {
            let value = folded_float(operator, a, b);
            return Ok(Operand::Constant(Constant::Float(value)));
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
        if operator == Binary::Power
            && !kind.is_float()
            && matches!(b, Operand::Constant(Constant::Int(value)) if value < 0)
        {
            return Err(Error::usage(COMPILE, NEGATIVE_POWER).hint(AS_FLOAT));
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
    let is_none = |kind| matches!(kind, NumberType::U128 | NumberType::F16);
    let kind = kinds.find(|kind| kind.name() == name && !is_none(*kind))?;
    Some(ColumnType::Number(kind))
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
        let column = program.run(&mut space, &rows).unwrap();
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
                let column = program.run(&mut space, &rows).unwrap();
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
