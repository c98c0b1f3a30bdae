//! Expressions compiled for a schema: types resolved, constants folded, one step per operation.
//!
//! Contract: invalid expressions are rejected here, so running can fail only for an operand without
//! a result ([`super::check`]). Types are those of [`super::types`]. Equal loads are shared. A
//! program over vectors computes their elements together: each column has `width` values per row.

use super::check::Fault;
use super::column::{BATCH_ROWS, Column, Field, Rows, Space, Step, float_operation, holds};
use super::functions::{Function, for_tables};
use super::registers::Guard;
use super::tree::{Binary, Expr, Unary};
use super::types::{
    Beside, Constant, Operand, beside_floats, beside_wholes, check_fits, common, divisor, floats,
    folded, mixed, order_of, whole_and_real, wrong,
};
use super::{COMPILE, ColumnType, INDEX, Schema};
use crate::key::record::NumberType;
use outcore_io::{Error, Result, units};

/// Largest number of steps and constants of a program, which bounds its space.
const REGISTERS_MAX: usize = 256;
/// Why an integer has no negative power, and what to use instead.
const NEGATIVE_POWER: &str = "an integer cannot be raised to a negative power";
const AS_FLOAT: &str = "compute with floats: f64(x) ** -1, or 1 / x";
/// Why an integer cannot be divided by zero, and what to do.
const BY_ZERO: &str = "an integer divided by zero has no value";
const NOT_BY_ZERO: &str =
    "choose a value for it, as in where(y == 0, 0, x // y), or compute with floats: f64(x) // y";
/// The next step for a number that is used as a condition.
const COMPARED: &str = "compare it with something, for example n > 0";

/// An expression that is ready to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    pub(super) steps: Vec<Step>,
    constants: Vec<(usize, Constant)>,
    /// Casts of constants.
    once: Vec<Step>,
    registers: usize,
    result: usize,
    kind: ColumnType,
    /// Number of values per row in each column.
    width: usize,
    /// Whether the positions of rows are those in the input.
    has_index: bool,
}

/// The error of `y = x * 2`, which names a column of a table.
fn named_value(expr: &Expr, error: Error) -> Error {
    match expr {
        Expr::Binary(Binary::Equal, one, _) => match &**one {
            Expr::Column(name) if error.cause() == format!("`{name}` is unknown") => error.hint(
                format!("records have no columns: write the value alone, without `{name} =`"),
            ),
            _ => error,
        },
        _ => error,
    }
}

/// A program, and the vector that makes it a program over vectors.
struct Compiled {
    program: Program,
    /// The name of the vector, and its number of elements.
    vector: Option<(String, usize)>,
}

impl Program {
    /// Compiles `expr` for records of `schema`: one value per record.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for unknown names, incompatible types, literals that do not fit, and
    /// vectors.
    pub fn compile(expr: &Expr, schema: &Schema) -> Result<Self> {
        Self::compiled(expr, schema).and_then(Self::without_vector)
    }

    /// The program, unless a vector makes it a program over vectors.
    fn without_vector(compiled: Compiled) -> Result<Self> {
        let Some((name, count)) = compiled.vector else {
            return Ok(compiled.program);
        };
        let cause = format!(
            "`{name}` is a vector of {}, but one value is needed",
            units::counted(count as u64, "number")
        );
        Err(Error::usage(COMPILE, cause).hint(format!(
            "choose elements: {name}[0] is the first, {name}[{}] the last",
            count - 1
        )))
    }

    /// As [`Program::compile`], but vectors are allowed: operations work element by element and
    /// produce [`Program::width`] values per record.
    ///
    /// # Errors
    /// The errors of [`Program::compile`], and vectors of different lengths.
    pub(crate) fn compile_elementwise(expr: &Expr, schema: &Schema) -> Result<Self> {
        Self::compiled(expr, schema).map(|compiled| compiled.program)
    }

    /// The program, and the vector that makes it a program over vectors.
    fn compiled(expr: &Expr, schema: &Schema) -> Result<Compiled> {
        let mut compiler = Compiler::new(schema);
        let operand = compiler.expression(expr);
        let operand = operand.map_err(|error| named_value(expr, error))?;
        let result = compiler.settle(operand)?;
        Ok(compiler.finish(result.0, result.1))
    }

    /// As [`Program::compile`], for a condition.
    ///
    /// # Errors
    /// The errors of [`Program::compile`], and values that are not truth values.
    pub(crate) fn compile_condition(expr: &Expr, schema: &Schema) -> Result<Self> {
        let mut compiler = Compiler::new(schema);
        let operand = compiler.expression(expr)?;
        if compiler.vector.is_some() {
            let result = compiler.settle(operand)?;
            return Self::without_vector(compiler.finish(result.0, result.1));
        }
        let result = compiler.truth(operand)?;
        Ok(compiler.finish(result, ColumnType::Bool).program)
    }

    /// The type of the program's results.
    pub fn kind(&self) -> ColumnType {
        self.kind
    }

    /// Number of results per record.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Largest number of rows per call.
    pub(crate) fn rows_max(&self) -> usize {
        (BATCH_ROWS / self.width).max(1)
    }

    /// Whether [`Program::run`] can fail.
    pub(crate) fn can_fail(&self) -> bool {
        self.steps.iter().any(Step::may_fail)
    }

    /// Bytes of the program's space.
    pub(crate) fn space_bytes(&self) -> usize {
        self.registers * self.rows_max() * self.width * 8
    }

    /// Space for one thread.
    pub fn space(&self) -> Space {
        let mut registers = vec![vec![0; self.rows_max() * self.width]; self.registers];
        for (register, constant) in &self.constants {
            // Stored in the widest type of their kind; a cast converts to the type that is needed.
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
    /// [`crate::Kind::Usage`] for an integer divided by zero or raised to a negative power, if that
    /// matters.
    ///
    /// # Panics
    /// If there are more than [`Program::rows_max`] rows, or the inputs do not match the schema.
    pub fn run<'s>(&self, space: &'s mut Space, rows: &Rows<'_>) -> Result<Column<'s>> {
        assert!(rows.count <= self.rows_max(), "a batch has its most rows");
        let values = rows.count * self.width;
        for step in &self.steps {
            if let Some(fault) = step.fault(space, values) {
                return Err(self.without_value(rows, step, fault));
            }
            step.run(space, rows, self.width);
        }
        let bytes: &[u8] = bytemuck::cast_slice(&space.registers[self.result]);
        Ok(Column {
            kind: self.kind,
            bytes: &bytes[..values * self.kind.bytes()],
        })
    }

    fn without_value(&self, rows: &Rows<'_>, step: &Step, fault: Fault) -> Error {
        let place = match self.has_index {
            true => format!(" of item {}", rows.first + (fault.at / self.width) as u64),
            false => String::new(),
        };
        let is_power = matches!(
            step,
            Step::Arithmetic {
                operator: Binary::Power,
                ..
            }
        );
        let (cause, hint) = match is_power {
            true => {
                let exponent = fault.operand;
                let cause = format!("the exponent{place} is {exponent}, and {NEGATIVE_POWER}");
                (cause, AS_FLOAT)
            }
            false => (
                format!("the divisor{place} is 0, and {BY_ZERO}"),
                NOT_BY_ZERO,
            ),
        };
        Error::usage("compute expression", cause).hint(hint)
    }

    pub(super) fn register(&mut self) -> Result<usize> {
        self.registers += 1;
        if self.registers > REGISTERS_MAX {
            let cause =
                format!("the expression needs more than {REGISTERS_MAX} intermediate columns");
            return Err(Error::usage(COMPILE, cause).hint("split it into several steps"));
        }
        Ok(self.registers - 1)
    }
}

pub(super) struct Compiler<'a> {
    schema: &'a Schema,
    /// The first vector in the expression, and its length.
    vector: Option<(String, usize)>,
    /// The guards of the part that is being compiled.
    pub(super) guards: Vec<Guard>,
    pub(super) program: Program,
}

impl<'a> Compiler<'a> {
    fn new(schema: &'a Schema) -> Self {
        Compiler {
            schema,
            vector: None,
            guards: Vec::new(),
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
        }
    }

    /// The program with its result, and the vector that it is over.
    fn finish(self, result: usize, kind: ColumnType) -> Compiled {
        let width = self.vector.as_ref().map_or(1, |(_, count)| *count);
        let program = Program {
            result,
            kind,
            width,
            ..self.program
        };
        Compiled {
            program,
            vector: self.vector,
        }
    }

    pub(super) fn expression(&mut self, expr: &Expr) -> Result<Operand> {
        match expr {
            Expr::Null | Expr::IsNull(..) => Err(for_tables("`null`", "nulls")),
            Expr::Text(text) => Err(for_tables(&format!("the text '{text}'"), "texts")),
            Expr::Int(value) => Ok(Operand::Constant(Constant::Int(*value))),
            Expr::Number(text) => {
                let value = text.parse();
                let value = value.map_err(|_| wrong(format!("`{text}` is not a number")))?;
                Ok(Operand::Constant(Constant::Float(value)))
            }
            Expr::Bool(value) => Ok(Operand::Constant(Constant::Bool(*value))),
            Expr::Column(name) => self.name(name, None),
            Expr::Element(of, element) => match &**of {
                Expr::Column(name) => self.name(name, Some(*element)),
                _ => Err(wrong("only fields have elements")),
            },
            Expr::Unary(operator, inner) => {
                let inner = self.expression(inner)?;
                self.unary(*operator, inner)
            }
            Expr::Binary(operator @ (Binary::And | Binary::Or), a, b) => {
                let a = self.condition(a)?;
                let guard = Guard {
                    register: a,
                    is_so: *operator == Binary::And,
                };
                let b = self.guarded(guard, b)?;
                self.binary(*operator, Operand::Column(a, ColumnType::Bool), b)
            }
            Expr::Binary(operator, a, b) => {
                let a = self.expression(a)?;
                let b = self.expression(b)?;
                self.binary(*operator, a, b)
            }
            Expr::In(inner, values, is_so) => self.is_in(inner, values, *is_so),
            Expr::Between(between) => self.between(between),
            Expr::Case(case) => self.case(case),
            Expr::Call(function, values) => self.call(*function, values),
            Expr::Cast(cast, value) => self.cast_named(*cast, value),
        }
    }

    /// The register of an expression as truth values.
    pub(super) fn condition(&mut self, expr: &Expr) -> Result<usize> {
        let operand = self.expression(expr)?;
        self.truth(operand)
    }

    /// The register of `operand` as truth values. Files store these as `u8`, so a field of `u8` is
    /// one too: false if it is 0.
    pub(super) fn truth(&mut self, operand: Operand) -> Result<usize> {
        let is_literal = matches!(operand, Operand::Constant(_));
        let (register, kind) = self.settle(operand)?;
        match kind {
            ColumnType::Bool => {}
            ColumnType::Number(NumberType::U8) if !is_literal && self.are_truths(register) => {}
            ColumnType::Number(number) => {
                let cause = format!("expected a truth value, found {}", number.name());
                return Err(wrong(cause).hint(COMPARED));
            }
        }
        self.as_kind(Operand::Column(register, kind), ColumnType::Bool)
    }

    /// Whether the bytes in a register are truth values: values of a field, a choice of such
    /// values, or their combination by bits. Other results of arithmetic are numbers.
    fn are_truths(&self, register: usize) -> bool {
        use Binary::{BitAnd, BitOr, BitXor};
        self.program.steps.iter().any(|step| match step {
            Step::Load { to, .. } => *to == register,
            Step::Cast { to, from, .. } => *to == register && *from == ColumnType::Bool,
            Step::Arithmetic {
                to,
                operator: BitAnd | BitOr | BitXor,
                a,
                b,
                ..
            }
            | Step::Choose { to, a, b, .. } => {
                *to == register && self.are_truths(*a) && self.are_truths(*b)
            }
            _ => false,
        })
    }

    /// An expression that matters only if `guard` holds.
    pub(super) fn guarded(&mut self, guard: Guard, expr: &Expr) -> Result<Operand> {
        self.guards.push(guard);
        let made = self.expression(expr);
        self.guards.pop();
        made
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
        // Half-precision numbers are computed in single precision.
        let kind = ColumnType::Number(match number.kind {
            NumberType::F16 => NumberType::F32,
            kind => kind,
        });
        let load = |to| Step::Load {
            to,
            input,
            field: Field {
                offset_bytes,
                record_bytes,
                number,
            },
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

    /// Records that a vector is used.
    fn widen(&mut self, name: &str, count: usize) -> Result<()> {
        match &self.vector {
            Some((other, others)) if *others != count => {
                let cause = format!(
                    "`{other}` has {} and `{name}` has {count}, so they do not pair up",
                    units::counted(*others as u64, "number")
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

    /// An operand as a column: a literal alone is an `i64` (`u64` if necessary) or an `f64`.
    pub(super) fn settle(&mut self, operand: Operand) -> Result<(usize, ColumnType)> {
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
    pub(super) fn as_kind(&mut self, operand: Operand, into: ColumnType) -> Result<usize> {
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

    pub(super) fn unary(&mut self, operator: Unary, operand: Operand) -> Result<Operand> {
        if operator == Unary::Not {
            let a = self.truth(operand)?;
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
            (Unary::Negate, ColumnType::Bool) => Err(wrong("`-` does not work on a truth value")),
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

    pub(super) fn binary(&mut self, operator: Binary, a: Operand, b: Operand) -> Result<Operand> {
        use Binary::{And, BitAnd, BitOr, BitXor, Divide, Or, ShiftLeft, ShiftRight};
        if let (Operand::Constant(Constant::Int(a)), Operand::Constant(Constant::Int(b))) = (a, b)
            && let Some(value) = folded(operator, a, b)
        {
            return Ok(Operand::Constant(Constant::Int(value)));
        }
        if let Some((a, b)) = floats(operator, a, b) {
            let value = float_operation(operator)(a, b);
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
            let (a, b) = (self.truth(a)?, self.truth(b)?);
            let to = self.program.register()?;
            self.program.steps.push(Step::Logic { to, operator, a, b });
            return Ok(Operand::Column(to, ColumnType::Bool));
        }
        if operator.is_comparison() {
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
        let is_divided = matches!(operator, Binary::FloorDivide | Binary::Modulo);
        if is_divided && !kind.is_float() && matches!(b, Operand::Constant(Constant::Int(0))) {
            return Err(Error::usage(COMPILE, BY_ZERO).hint(NOT_BY_ZERO));
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
            guards: self.guards.clone(),
        });
        Ok(Operand::Column(to, ColumnType::Number(kind)))
    }

    pub(super) fn compare(&mut self, operator: Binary, a: Operand, b: Operand) -> Result<Operand> {
        // A literal outside of the column type's range decides the comparison.
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
        if let Some(made) = self.compare_literal(operator, a, b)? {
            return Ok(made);
        }
        if let Some((whole, real, operator)) = whole_and_real(operator, a, b) {
            let (_, kind) = self.settle(whole)?;
            let whole = self.as_kind(whole, kind)?;
            let real = self.as_kind(real, ColumnType::Number(NumberType::F64))?;
            let to = self.program.register()?;
            self.program.steps.push(Step::CompareReal {
                to,
                operator,
                is_unsigned: kind.number() == NumberType::U64,
                whole,
                real,
            });
            return Ok(Operand::Column(to, ColumnType::Bool));
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

    /// Compares integers with a float literal, or floats with an integer literal, by exact value
    /// without rounding.
    fn compare_literal(
        &mut self,
        operator: Binary,
        a: Operand,
        b: Operand,
    ) -> Result<Option<Operand>> {
        let (column, constant, operator) = match (a, b) {
            (Operand::Constant(Constant::Int(whole)), Operand::Constant(Constant::Float(real))) => {
                return Ok(Some(decided(operator, whole, real)));
            }
            (Operand::Constant(Constant::Float(real)), Operand::Constant(Constant::Int(whole))) => {
                return Ok(Some(decided(operator.exchanged(), whole, real)));
            }
            (Operand::Column(..), Operand::Constant(constant)) => (a, constant, operator),
            (Operand::Constant(constant), Operand::Column(..)) => {
                (b, constant, operator.exchanged())
            }
            _ => return Ok(None),
        };
        let Operand::Column(_, kind) = column else {
            return Ok(None);
        };
        let is_float = kind.number().is_float();
        let (made, literal, operator) = match constant {
            Constant::Float(value) if !is_float => match beside_wholes(operator, value) {
                Beside::All(all) => (Some(all), constant, operator),
                Beside::Literal(operator, value) => (None, Constant::Int(value), operator),
            },
            Constant::Int(value) if is_float => {
                let is_single = kind.number() != NumberType::F64;
                match beside_floats(operator, value, is_single) {
                    Beside::All(all) => (Some(all), constant, operator),
                    Beside::Literal(operator, value) => (None, Constant::Float(value), operator),
                }
            }
            _ => return Ok(None),
        };
        if let Some(all) = made {
            return Ok(Some(Operand::Constant(Constant::Bool(all))));
        }
        self.compare(operator, column, Operand::Constant(literal))
            .map(Some)
    }

    pub(super) fn function(&mut self, function: Function, operand: Operand) -> Result<Operand> {
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
}

/// The result of comparing two literals.
fn decided(operator: Binary, whole: i128, real: f64) -> Operand {
    let is_so = holds(operator, order_of(whole, real));
    Operand::Constant(Constant::Bool(is_so))
}
