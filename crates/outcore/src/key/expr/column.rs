//! Columns and the loops over them.
//!
//! Contract: a register is space for the values of a batch, of any type, aligned to 8 bytes. It has
//! one value per row, or `width` adjacent values per row of a program over vectors. Each loop is
//! one operation over whole columns. Branches depend only on the operation and the type, and are
//! outside of the loop.

use std::cmp::Ordering;

use super::ColumnType;
use super::divide::{Divisor, divide};
use super::functions::Function;
use super::registers::{Guard, map1, map2, view, view_mut};
use super::tree::{Binary, Unary};
use super::types::order_of;
use crate::key::record::{Endian, Number, NumberType};

/// Largest number of rows of a batch.
pub(crate) const BATCH_ROWS: usize = 1024;

/// Rows of the inputs, as stored in memory.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'b> {
    /// Position of the first in the whole input.
    pub first: u64,
    /// Number of rows, at most [`BATCH_ROWS`].
    pub count: usize,
    /// The records of each input, one after another.
    pub inputs: &'b [&'b [u8]],
}

/// A column of results.
#[derive(Debug, Clone, Copy)]
pub struct Column<'s> {
    /// The type of the column's values.
    pub kind: ColumnType,
    /// The values, in the byte order of this machine, aligned to 8 bytes.
    pub bytes: &'s [u8],
}

/// The registers of one thread for one program.
#[derive(Debug, Clone)]
pub struct Space {
    pub(super) registers: Vec<Vec<u64>>,
}

/// One operation of a program; `to` is always a separate register.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Load {
        to: usize,
        input: usize,
        field: Field,
        /// Whether the field has one number for each element of a vector, or a single number for
        /// all.
        is_vector: bool,
    },
    Index {
        to: usize,
    },
    Cast {
        to: usize,
        a: usize,
        from: ColumnType,
        into: ColumnType,
    },
    Arithmetic {
        to: usize,
        operator: Binary,
        kind: NumberType,
        a: usize,
        b: usize,
        /// Conditions of a row under which the operation's result matters.
        guards: Vec<Guard>,
    },
    /// `//` or `%` of integers by a constant.
    DivideBy {
        to: usize,
        operator: Binary,
        kind: NumberType,
        a: usize,
        divisor: Divisor,
    },
    Compare {
        to: usize,
        operator: Binary,
        kind: NumberType,
        a: usize,
        b: usize,
    },
    /// Compares a column of `u64` with one of signed integers.
    CompareMixed {
        to: usize,
        operator: Binary,
        unsigned: usize,
        signed: usize,
    },
    /// Compares a column of 64-bit integers with one of `f64`.
    CompareReal {
        to: usize,
        operator: Binary,
        is_unsigned: bool,
        whole: usize,
        real: usize,
    },
    Logic {
        to: usize,
        operator: Binary,
        a: usize,
        b: usize,
    },
    Single {
        to: usize,
        operator: Unary,
        kind: ColumnType,
        a: usize,
    },
    Function {
        to: usize,
        function: Function,
        kind: NumberType,
        a: usize,
    },
    Choose {
        to: usize,
        bytes: usize,
        condition: usize,
        a: usize,
        b: usize,
    },
}

/// Calls `$body` with `$t` as the type of `$kind`, which never has 128 bits; half-precision numbers
/// are loaded as `f32`.
macro_rules! with_type {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind {
            NumberType::U8 => {
                type $t = u8;
                $body
            }
            NumberType::U16 => {
                type $t = u16;
                $body
            }
            NumberType::U32 => {
                type $t = u32;
                $body
            }
            NumberType::U64 | NumberType::U128 => {
                type $t = u64;
                $body
            }
            NumberType::I8 => {
                type $t = i8;
                $body
            }
            NumberType::I16 => {
                type $t = i16;
                $body
            }
            NumberType::I32 => {
                type $t = i32;
                $body
            }
            NumberType::I64 => {
                type $t = i64;
                $body
            }
            NumberType::F16 | NumberType::F32 => {
                type $t = f32;
                $body
            }
            NumberType::F64 => {
                type $t = f64;
                $body
            }
        }
    };
}
pub(crate) use with_type;

/// Arithmetic of one type, with NumPy semantics.
trait Value: bytemuck::Pod + PartialOrd {
    fn plus(self, b: Self) -> Self;
    fn minus(self, b: Self) -> Self;
    fn times(self, b: Self) -> Self;
    fn divided(self, b: Self) -> Self;
    fn floor_divided(self, b: Self) -> Self;
    fn modulo(self, b: Self) -> Self;
    fn power(self, b: Self) -> Self;
    fn bit_and(self, b: Self) -> Self;
    fn bit_or(self, b: Self) -> Self;
    fn bit_xor(self, b: Self) -> Self;
    fn shifted_left(self, b: Self) -> Self;
    fn shifted_right(self, b: Self) -> Self;
    fn least(self, b: Self) -> Self;
    fn greatest(self, b: Self) -> Self;
    /// NaN is larger than all numbers.
    fn is_less(self, b: Self) -> bool;
    fn is_same(self, b: Self) -> bool;
    fn negated(self) -> Self;
    fn inverted(self) -> Self;
    fn of_bool(value: bool) -> Self;
    fn apply(self, function: Function) -> Self;
    fn hash(self) -> u64;
    fn is_true(self) -> bool;
}

macro_rules! integer {
    ($($t:ty),*) => {$(
        #[allow(unused_comparisons)]
        impl Value for $t {
            fn plus(self, b: Self) -> Self { self.wrapping_add(b) }
            fn minus(self, b: Self) -> Self { self.wrapping_sub(b) }
            fn times(self, b: Self) -> Self { self.wrapping_mul(b) }
            fn divided(self, b: Self) -> Self { self.floor_divided(b) }
            fn floor_divided(self, b: Self) -> Self {
                if b == 0 {
                    return 0;
                }
                let (quotient, rest) = (self.wrapping_div(b), self.wrapping_rem(b));
                if rest != 0 && (rest < 0) != (b < 0) { quotient.wrapping_sub(1) } else { quotient }
            }
            fn modulo(self, b: Self) -> Self {
                if b == 0 {
                    return 0;
                }
                let rest = self.wrapping_rem(b);
                if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
            }
            /// `b` is at least 0: negative exponents are rejected before ([`Step::fault`]).
            fn power(self, b: Self) -> Self {
                let (mut base, mut left, mut result) = (self, b as u64, 1 as Self);
                while left > 0 {
                    if left & 1 == 1 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                result
            }
            fn bit_and(self, b: Self) -> Self { self & b }
            fn bit_or(self, b: Self) -> Self { self | b }
            fn bit_xor(self, b: Self) -> Self { self ^ b }
            fn shifted_left(self, b: Self) -> Self {
                if b >= 0 && (b as u64) < u64::from(Self::BITS) { self << b } else { 0 }
            }
            fn shifted_right(self, b: Self) -> Self {
                if b >= 0 && (b as u64) < u64::from(Self::BITS) {
                    self >> b
                } else if self < 0 {
                    (0 as Self).wrapping_sub(1)
                } else {
                    0
                }
            }
            fn least(self, b: Self) -> Self { self.min(b) }
            fn greatest(self, b: Self) -> Self { self.max(b) }
            fn is_less(self, b: Self) -> bool { self < b }
            fn is_same(self, b: Self) -> bool { self == b }
            fn negated(self) -> Self { self.wrapping_neg() }
            fn inverted(self) -> Self { !self }
            fn of_bool(value: bool) -> Self { value as Self }
            fn apply(self, function: Function) -> Self {
                match function {
                    Function::Abs if self < 0 => self.wrapping_neg(),
                    _ => self,
                }
            }
            fn hash(self) -> u64 { hash_of_bits(self as u64) }
            fn is_true(self) -> bool { self != 0 }
        }
    )*};
}
integer!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! float {
    ($($t:ty),*) => {$(
        impl Value for $t {
            fn plus(self, b: Self) -> Self { self + b }
            fn minus(self, b: Self) -> Self { self - b }
            fn times(self, b: Self) -> Self { self * b }
            fn divided(self, b: Self) -> Self { self / b }
            fn floor_divided(self, b: Self) -> Self {
                if b == 0.0 {
                    return self / b;
                }
                // An exact division, so that rounding cannot lead to an adjacent integer.
                let rest = self % b;
                let mut quotient = (self - rest) / b;
                if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as Self).copysign(self / b);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }
            fn modulo(self, b: Self) -> Self {
                let rest = self % b;
                if rest == 0.0 {
                    (0.0 as Self).copysign(b)
                } else if (rest < 0.0) != (b < 0.0) {
                    rest + b
                } else {
                    rest
                }
            }
            fn power(self, b: Self) -> Self { self.powf(b) }
            fn bit_and(self, _: Self) -> Self { self }
            fn bit_or(self, _: Self) -> Self { self }
            fn bit_xor(self, _: Self) -> Self { self }
            fn shifted_left(self, _: Self) -> Self { self }
            fn shifted_right(self, _: Self) -> Self { self }
            fn least(self, b: Self) -> Self {
                if b.is_nan() || self < b { self } else { b }
            }
            fn greatest(self, b: Self) -> Self {
                if self.is_nan() || self > b { self } else { b }
            }
            fn is_less(self, b: Self) -> bool { (self < b) | (b.is_nan() & !self.is_nan()) }
            fn is_same(self, b: Self) -> bool { (self == b) | (self.is_nan() & b.is_nan()) }
            fn negated(self) -> Self { -self }
            fn inverted(self) -> Self { self }
            fn of_bool(value: bool) -> Self { if value { 1.0 } else { 0.0 } }
            fn apply(self, function: Function) -> Self {
                match function {
                    Function::Abs => self.abs(),
                    Function::Sqrt => self.sqrt(),
                    Function::Exp => self.exp(),
                    Function::Log => self.ln(),
                    Function::Log2 => self.log2(),
                    Function::Floor => self.floor(),
                    Function::Ceil => self.ceil(),
                    Function::Round => self.round_ties_even(),
                    _ => self,
                }
            }
            fn hash(self) -> u64 { hash_of_bits(u64::from(self.to_bits())) }
            fn is_true(self) -> bool { self != 0.0 }
        }
    )*};
}
float!(f32, f64);

/// The value of `hash` for a number's bits: splitmix64's mixing.
pub fn hash_of_bits(bits: u64) -> u64 {
    let mut z = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Step {
    fn target(&self) -> usize {
        match *self {
            Step::Load { to, .. }
            | Step::Index { to }
            | Step::Cast { to, .. }
            | Step::Arithmetic { to, .. }
            | Step::DivideBy { to, .. }
            | Step::Compare { to, .. }
            | Step::CompareMixed { to, .. }
            | Step::CompareReal { to, .. }
            | Step::Logic { to, .. }
            | Step::Single { to, .. }
            | Step::Function { to, .. }
            | Step::Choose { to, .. } => to,
        }
    }

    /// Runs the step for all rows, `width` values each.
    pub(super) fn run(&self, space: &mut Space, rows: &Rows<'_>, width: usize) {
        let n = rows.count * width;
        let mut target = std::mem::take(&mut space.registers[self.target()]);
        let (to, registers) = (&mut target[..], &space.registers);
        match *self {
            Step::Load {
                input,
                field,
                is_vector,
                ..
            } => load(
                to,
                rows.inputs[input],
                field,
                Lanes::new(n, width, is_vector),
            ),
            Step::Index { .. } => {
                for (offset, to) in to[..n].chunks_exact_mut(width).enumerate() {
                    to.fill(rows.first + offset as u64);
                }
            }
            Step::Cast { a, from, into, .. } => cast(to, &registers[a], from, into, n),
            Step::Arithmetic {
                operator,
                kind,
                a,
                b,
                ..
            } => with_type!(kind, T => {
                arithmetic::<T>(operator, view_mut(to, n), view(&registers[a], n), view(&registers[b], n));
            }),
            Step::DivideBy {
                operator,
                kind,
                a,
                ref divisor,
                ..
            } => divide(to, &registers[a], operator, kind, divisor, n),
            Step::Compare {
                operator,
                kind,
                a,
                b,
                ..
            } => with_type!(kind, T => {
                compare::<T>(operator, view_mut(to, n), view(&registers[a], n), view(&registers[b], n));
            }),
            Step::CompareMixed {
                operator,
                unsigned,
                signed,
                ..
            } => {
                let (a, b) = (view(&registers[unsigned], n), view(&registers[signed], n));
                compare_mixed(operator, view_mut(to, n), a, b);
            }
            Step::CompareReal {
                operator,
                is_unsigned,
                whole,
                real,
                ..
            } => {
                let (whole, real) = (&registers[whole], view(&registers[real], n));
                let to = view_mut(to, n);
                match is_unsigned {
                    true => compare_real::<u64>(operator, to, view(whole, n), real),
                    false => compare_real::<i64>(operator, to, view(whole, n), real),
                }
            }
            Step::Logic { operator, a, b, .. } => {
                let (a, b) = (view(&registers[a], n), view(&registers[b], n));
                logic(operator, view_mut(to, n), a, b);
            }
            Step::Single {
                operator, kind, a, ..
            } => single(to, &registers[a], operator, kind, n),
            Step::Function {
                function, kind, a, ..
            } => apply(to, &registers[a], function, kind, n),
            Step::Choose {
                bytes,
                condition,
                a,
                b,
                ..
            } => {
                let condition: &[u8] = view(&registers[condition], n);
                let (a, b) = (&registers[a], &registers[b]);
                match bytes {
                    1 => choose::<u8>(to, condition, a, b),
                    2 => choose::<u16>(to, condition, a, b),
                    4 => choose::<u32>(to, condition, a, b),
                    _ => choose::<u64>(to, condition, a, b),
                }
            }
        }
        space.registers[self.target()] = target;
    }
}

/// A number in each record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Field {
    pub(super) offset_bytes: usize,
    pub(super) record_bytes: usize,
    pub(super) number: Number,
}

/// The values of a batch: `n` in total and `width` from each record. For a vector, these are
/// adjacent values. Otherwise, they are copies of one value.
#[derive(Clone, Copy)]
struct Lanes {
    n: usize,
    width: usize,
    is_vector: bool,
}

impl Lanes {
    fn new(n: usize, width: usize, is_vector: bool) -> Self {
        Lanes {
            n,
            width,
            is_vector,
        }
    }
}

/// Gathers the values. Half precision becomes single precision.
fn load(to: &mut [u64], bytes: &[u8], field: Field, lanes: Lanes) {
    gather(to, bytes, field, lanes);
    if field.number.kind != NumberType::F16 {
        return;
    }
    let places: &mut [u8] = bytemuck::cast_slice_mut(to);
    // The loop goes backwards, so that a single-precision value overwrites only half-precision
    // values that have already been read.
    for at in (0..lanes.n).rev() {
        let half = half::f16::from_ne_bytes([places[2 * at], places[2 * at + 1]]);
        places[4 * at..4 * at + 4].copy_from_slice(&half.to_f32().to_ne_bytes());
    }
}

/// Like `load`, but the numbers stay as in the file, except for their byte order.
fn gather(to: &mut [u64], bytes: &[u8], field: Field, lanes: Lanes) {
    let Field {
        offset_bytes,
        record_bytes,
        number,
    } = field;
    let Lanes {
        n,
        width,
        is_vector,
    } = lanes;
    let size = number.bytes();
    let is_native = number.endian == Endian::NATIVE || size == 1;
    let out: &mut [u8] = &mut bytemuck::cast_slice_mut(to)[..n * size];
    let is_dense = record_bytes == size * width && (is_vector || width == 1);
    if is_native && is_dense {
        out.copy_from_slice(&bytes[..n * size]);
        return;
    }
    let records = bytes.chunks_exact(record_bytes);
    let step_bytes = if is_vector { size } else { 0 };
    macro_rules! gather {
        ($bytes:literal) => {{
            let out = out.as_chunks_mut::<$bytes>().0;
            if width == 1 {
                for (to, record) in out.iter_mut().zip(records) {
                    to.copy_from_slice(&record[offset_bytes..offset_bytes + $bytes]);
                    if !is_native {
                        to.reverse();
                    }
                }
                return;
            }
            for (row, record) in out.chunks_exact_mut(width).zip(records) {
                for (element, to) in row.iter_mut().enumerate() {
                    let from = offset_bytes + element * step_bytes;
                    to.copy_from_slice(&record[from..from + $bytes]);
                    if !is_native {
                        to.reverse();
                    }
                }
            }
        }};
    }
    match size {
        1 => gather!(1),
        2 => gather!(2),
        4 => gather!(4),
        _ => gather!(8),
    }
}

fn cast(to: &mut [u64], a: &[u64], from: ColumnType, into: ColumnType, n: usize) {
    match (from, into) {
        (ColumnType::Bool, ColumnType::Bool) => to.copy_from_slice(a),
        (ColumnType::Bool, ColumnType::Number(kind)) => with_type!(kind, T => {
            map1(view_mut::<T>(to, n), view::<u8>(a, n), |a| T::of_bool(a != 0));
        }),
        (ColumnType::Number(kind), ColumnType::Bool) => with_type!(kind, A => {
            map1(view_mut::<u8>(to, n), view::<A>(a, n), |a| u8::from(a.is_true()));
        }),
        (ColumnType::Number(from), ColumnType::Number(into)) => {
            with_type!(from, A => with_type!(into, T => {
                map1(view_mut::<T>(to, n), view::<A>(a, n), |a| a as T);
            }));
        }
    }
}

/// The function of an operator on two floats.
pub fn float_operation(operator: Binary) -> fn(f64, f64) -> f64 {
    match operator {
        Binary::Add => f64::plus,
        Binary::Subtract => f64::minus,
        Binary::Multiply => f64::times,
        Binary::Divide => f64::divided,
        Binary::FloorDivide => f64::floor_divided,
        Binary::Modulo => f64::modulo,
        Binary::Power => f64::power,
        Binary::Least => f64::least,
        _ => f64::greatest,
    }
}

fn arithmetic<T: Value>(operator: Binary, to: &mut [T], a: &[T], b: &[T]) {
    match operator {
        Binary::Add => map2(to, a, b, T::plus),
        Binary::Subtract => map2(to, a, b, T::minus),
        Binary::Multiply => map2(to, a, b, T::times),
        Binary::Divide => map2(to, a, b, T::divided),
        Binary::FloorDivide => map2(to, a, b, T::floor_divided),
        Binary::Modulo => map2(to, a, b, T::modulo),
        Binary::Power => map2(to, a, b, T::power),
        Binary::BitAnd => map2(to, a, b, T::bit_and),
        Binary::BitOr => map2(to, a, b, T::bit_or),
        Binary::BitXor => map2(to, a, b, T::bit_xor),
        Binary::ShiftLeft => map2(to, a, b, T::shifted_left),
        Binary::ShiftRight => map2(to, a, b, T::shifted_right),
        Binary::Least => map2(to, a, b, T::least),
        _ => map2(to, a, b, T::greatest),
    }
}

/// Whether a comparison holds.
pub(super) fn holds(operator: Binary, order: Ordering) -> bool {
    match operator {
        Binary::Less => order.is_lt(),
        Binary::LessEqual => order.is_le(),
        Binary::Greater => order.is_gt(),
        Binary::GreaterEqual => order.is_ge(),
        Binary::NotEqual => order.is_ne(),
        _ => order.is_eq(),
    }
}

fn compare<T: Value>(operator: Binary, to: &mut [u8], a: &[T], b: &[T]) {
    match operator {
        Binary::Less => map2(to, a, b, |a, b| u8::from(a.is_less(b))),
        Binary::LessEqual => map2(to, a, b, |a, b| u8::from(!b.is_less(a))),
        Binary::Greater => map2(to, a, b, |a, b| u8::from(b.is_less(a))),
        Binary::GreaterEqual => map2(to, a, b, |a, b| u8::from(!a.is_less(b))),
        Binary::NotEqual => map2(to, a, b, |a, b| u8::from(!a.is_same(b))),
        _ => map2(to, a, b, |a, b| u8::from(a.is_same(b))),
    }
}

fn logic(operator: Binary, to: &mut [u8], a: &[u8], b: &[u8]) {
    match operator {
        Binary::And | Binary::BitAnd => map2(to, a, b, |a, b| a & b),
        Binary::Or | Binary::BitOr => map2(to, a, b, |a, b| a | b),
        _ => map2(to, a, b, |a, b| a ^ b),
    }
}

/// Integers of both kinds, for which no 64-bit type holds all values.
fn compare_mixed(operator: Binary, to: &mut [u8], unsigned: &[u64], signed: &[i64]) {
    map2(to, unsigned, signed, |a, b| {
        u8::from(holds(operator, i128::from(a).cmp(&i128::from(b))))
    });
}

/// Integers and floats, without rounding.
fn compare_real<T: Copy + Into<i128>>(operator: Binary, to: &mut [u8], whole: &[T], real: &[f64]) {
    map2(to, whole, real, |a, b| {
        u8::from(holds(operator, order_of(a.into(), b)))
    });
}

fn single(to: &mut [u64], a: &[u64], operator: Unary, kind: ColumnType, n: usize) {
    match kind {
        ColumnType::Bool => map1(view_mut::<u8>(to, n), view::<u8>(a, n), |a| a ^ 1),
        ColumnType::Number(kind) => with_type!(kind, T => {
            let (to, a) = (view_mut::<T>(to, n), view::<T>(a, n));
            match operator {
                Unary::Negate => map1(to, a, T::negated),
                _ => map1(to, a, T::inverted),
            }
        }),
    }
}

fn apply(to: &mut [u64], a: &[u64], function: Function, kind: NumberType, n: usize) {
    with_type!(kind, T => {
        let a = view::<T>(a, n);
        match function {
            Function::Hash => map1(view_mut::<u64>(to, n), a, Value::hash),
            #[allow(clippy::eq_op)]
            Function::IsNan => map1(view_mut::<u8>(to, n), a, |a| u8::from(a != a)),
            // One loop per function, so that each can be vectorised.
            Function::Abs => map1(view_mut::<T>(to, n), a, |a| a.apply(Function::Abs)),
            Function::Sqrt => map1(view_mut::<T>(to, n), a, |a| a.apply(Function::Sqrt)),
            Function::Floor => map1(view_mut::<T>(to, n), a, |a| a.apply(Function::Floor)),
            Function::Ceil => map1(view_mut::<T>(to, n), a, |a| a.apply(Function::Ceil)),
            other => map1(view_mut::<T>(to, n), a, |a| a.apply(other)),
        }
    });
}

fn choose<T: bytemuck::Pod>(to: &mut [u64], condition: &[u8], a: &[u64], b: &[u64]) {
    let n = condition.len();
    let both = view::<T>(a, n).iter().zip(view::<T>(b, n));
    for ((to, condition), (a, b)) in view_mut::<T>(to, n).iter_mut().zip(condition).zip(both) {
        *to = if *condition != 0 { *a } else { *b };
    }
}
