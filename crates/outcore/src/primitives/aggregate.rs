//! Reductions of tables by name or by expression, for the command and Python.
//!
//! Contract: as [`reduce`](mod@super::reduce), grain by grain, so the result has the same bits for
//! any threads and memory. Sums of integers are exact (128 bits); sums of floats are `f64` in eight
//! lanes. Minimum and maximum of floats are NaN if there is a NaN. An expression of `a` and `b`
//! reduces adjacent values, pair by pair, and must be associative.

use std::fmt;

use super::reduce::fold_grains;
use super::summary::Summary;
use super::table::{Table, TableSpace};
use crate::job::Job;
use crate::key::expr::with_type;
use crate::key::expr::{BATCH_ROWS, ColumnType, Program, Rows, Schema, Space};
use crate::key::record::NumberType;
use outcore_io::{Error, Result};

/// A reduction of all items.
#[derive(Debug, Clone, PartialEq)]
pub enum Reduction {
    /// Sum of all items.
    Sum,
    /// The number of items.
    Count,
    /// The smallest item.
    Min,
    /// The largest item.
    Max,
    /// The sum divided by the number of items.
    Mean,
    /// An associative expression of `a` and `b`.
    Expression(String),
}

impl Reduction {
    /// Parses `sum`, `count`, `min`, `max`, `mean`, or an expression.
    pub fn parse(text: &str) -> Self {
        match text.trim() {
            "sum" => Reduction::Sum,
            "count" => Reduction::Count,
            "min" => Reduction::Min,
            "max" => Reduction::Max,
            "mean" => Reduction::Mean,
            other => Reduction::Expression(other.to_string()),
        }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reduction::Sum => "sum",
            Reduction::Count => "count",
            Reduction::Min => "min",
            Reduction::Max => "max",
            Reduction::Mean => "mean",
            Reduction::Expression(text) => text,
        })
    }
}

/// A result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// An exact integer.
    Int(i128),
    /// A float.
    Float(f64),
    /// An `f32` result, printed with the digits of an `f32`.
    Float32(f32),
    /// The minimum, maximum, mean or reduction of no items.
    None,
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Int(value) => value.fmt(f),
            // Prints as many digits as distinguish a float from its neighbours, in a form that is
            // never mistaken for an integer.
            Scalar::Float(value) => write!(f, "{value:?}"),
            Scalar::Float32(value) => write!(f, "{value:?}"),
            Scalar::None => f.write_str("none"),
        }
    }
}

/// The reductions of some items.
#[derive(Debug, Clone, Copy)]
struct Partial {
    count: u64,
    int_sum: i128,
    float_sum: f64,
    least: Scalar,
    greatest: Scalar,
    /// Bits of the reduction by expression.
    reduced: Option<u64>,
}

impl Partial {
    const EMPTY: Partial = Partial {
        count: 0,
        int_sum: 0,
        float_sum: 0.0,
        least: Scalar::None,
        greatest: Scalar::None,
        reduced: None,
    };
}

/// Numbers that can be reduced by name.
trait Item: bytemuck::Pod {
    fn sums(items: &[Self]) -> (i128, f64);
    fn bounds(items: &[Self]) -> (Scalar, Scalar);
    fn scalar(self) -> Scalar;
}

macro_rules! small_integer {
    ($($t:ty, $wide:ty);*) => {$(
        impl Item for $t {
            fn sums(items: &[Self]) -> (i128, f64) {
                // The sum of a batch of such small numbers fits in 64 bits.
                let sum: $wide = items.iter().map(|item| <$wide>::from(*item)).sum();
                (i128::from(sum), 0.0)
            }
            fn bounds(items: &[Self]) -> (Scalar, Scalar) {
                integer_bounds(items)
            }
            fn scalar(self) -> Scalar {
                Scalar::Int(i128::from(self))
            }
        }
    )*};
}
small_integer!(u8, u64; u16, u64; u32, u64; i8, i64; i16, i64; i32, i64);

fn integer_bounds<T: Item + Ord>(items: &[T]) -> (Scalar, Scalar) {
    match (items.iter().min(), items.iter().max()) {
        (Some(least), Some(greatest)) => (least.scalar(), greatest.scalar()),
        _ => (Scalar::None, Scalar::None),
    }
}

impl Item for u64 {
    fn sums(items: &[Self]) -> (i128, f64) {
        // Two halves, so that the sums of a batch fit in 64 bits and the loop is vectorised.
        let halves = items.iter().fold((0_u64, 0_u64), |(low, high), item| {
            (low + (item & 0xFFFF_FFFF), high + (item >> 32))
        });
        (i128::from(halves.0) + (i128::from(halves.1) << 32), 0.0)
    }

    fn bounds(items: &[Self]) -> (Scalar, Scalar) {
        integer_bounds(items)
    }

    fn scalar(self) -> Scalar {
        Scalar::Int(i128::from(self))
    }
}

impl Item for i64 {
    fn sums(items: &[Self]) -> (i128, f64) {
        let halves = items.iter().fold((0_u64, 0_i64), |(low, high), item| {
            (low + (*item as u64 & 0xFFFF_FFFF), high + (item >> 32))
        });
        (i128::from(halves.0) + (i128::from(halves.1) << 32), 0.0)
    }

    fn bounds(items: &[Self]) -> (Scalar, Scalar) {
        integer_bounds(items)
    }

    fn scalar(self) -> Scalar {
        Scalar::Int(i128::from(self))
    }
}

macro_rules! float_item {
    ($($t:ty, $scalar:path);*) => {$(
        impl Item for $t {
            fn sums(items: &[Self]) -> (i128, f64) {
                let (lanes, rest) = items.as_chunks::<8>();
                let mut sums = [0.0_f64; 8];
                for lane in lanes {
                    for (sum, item) in sums.iter_mut().zip(lane) {
                        *sum += f64::from(*item);
                    }
                }
                let rest: f64 = rest.iter().map(|item| f64::from(*item)).sum();
                (0, sums.iter().sum::<f64>() + rest)
            }
            fn bounds(items: &[Self]) -> (Scalar, Scalar) {
                let pick = |take: fn($t, $t) -> bool| {
                    let best = items.iter().copied().reduce(|a, b| {
                        if a.is_nan() || take(a, b) { a } else { b }
                    });
                    best.map_or(Scalar::None, $scalar)
                };
                (pick(|a, b| a < b), pick(|a, b| a > b))
            }
            fn scalar(self) -> Scalar {
                $scalar(self)
            }
        }
    )*};
}
float_item!(f32, Scalar::Float32; f64, Scalar::Float);

/// Reduces the numbers of `table`, all of `reductions` in one pass.
///
/// # Errors
/// [`crate::Kind::Usage`] for records that are not numbers and for more than one expression; the
/// errors of reading.
pub fn reduce_table(
    job: &Job,
    table: &Table,
    reductions: &[Reduction],
) -> Result<(Vec<Scalar>, Summary)> {
    let only_counts = reductions.iter().all(|wanted| *wanted == Reduction::Count);
    let (table, kind) = match only_counts {
        true => (table.clone(), NumberType::U8),
        false => table.numbers()?,
    };
    let reducer = Reducer::new(kind, reductions)?;
    let (found, summary) = fold_grains(
        job,
        table.sources(),
        table.space_estimate_bytes() + reducer.space_bytes(),
        || (table.make_space(), reducer.space()),
        |(table_space, space): &mut (TableSpace, Option<ReduceSpace>), batch| {
            let mut partial = Partial::EMPTY;
            table.run(table_space, batch, &mut |rows| {
                reducer.update(&mut partial, space.as_mut(), rows);
                Ok(())
            })?;
            Ok(partial)
        },
        &|a, b| reducer.combine(a, b),
    )?;
    let found = found.unwrap_or(Partial::EMPTY);
    let scalars = reductions
        .iter()
        .map(|wanted| reducer.answer(&found, wanted));
    Ok((scalars.collect(), summary))
}

struct Reducer {
    kind: NumberType,
    wants_sums: bool,
    wants_bounds: bool,
    program: Option<Program>,
}

/// Space for reductions by expression: registers, and the columns of left and right.
struct ReduceSpace {
    registers: Space,
    left: Vec<u8>,
    right: Vec<u8>,
    reduced: Vec<u8>,
}

impl Reducer {
    fn new(kind: NumberType, reductions: &[Reduction]) -> Result<Self> {
        let has = |wanted: &[Reduction]| reductions.iter().any(|one| wanted.contains(one));
        let mut texts = reductions.iter().filter_map(|wanted| match wanted {
            Reduction::Expression(text) => Some(text),
            _ => None,
        });
        let program = match (texts.next(), texts.next()) {
            (Some(text), None) => Some(compile_reduction(text, kind)?),
            (None, _) => None,
            (Some(_), Some(_)) => {
                let cause = "several expressions cannot be reduced in one pass";
                return Err(Error::usage("reduce", cause).hint("give one expression at a time"));
            }
        };
        Ok(Reducer {
            kind,
            wants_sums: has(&[Reduction::Sum, Reduction::Mean]),
            wants_bounds: has(&[Reduction::Min, Reduction::Max]),
            program,
        })
    }

    fn space_bytes(&self) -> usize {
        let program = self.program.as_ref();
        program.map_or(0, |program| program.space_bytes() + 3 * BATCH_ROWS * 8)
    }

    fn space(&self) -> Option<ReduceSpace> {
        let program = self.program.as_ref()?;
        Some(ReduceSpace {
            registers: program.space(),
            left: Vec::new(),
            right: Vec::new(),
            reduced: Vec::new(),
        })
    }

    fn update(&self, partial: &mut Partial, space: Option<&mut ReduceSpace>, rows: &Rows<'_>) {
        partial.count += rows.count as u64;
        if !self.wants_sums && !self.wants_bounds && self.program.is_none() {
            return;
        }
        let bytes = &rows.inputs[0][..rows.count * self.kind.bytes()];
        with_type!(self.kind, T => {
            let items: &[T] = bytemuck::cast_slice(bytes);
            if self.wants_sums {
                let (int_sum, float_sum) = T::sums(items);
                partial.int_sum += int_sum;
                partial.float_sum += float_sum;
            }
            if self.wants_bounds {
                let (least, greatest) = T::bounds(items);
                partial.least = least_of(partial.least, least);
                partial.greatest = greatest_of(partial.greatest, greatest);
            }
        });
        if let (Some(program), Some(space)) = (&self.program, space) {
            let bits = reduce_column(program, space, bytes, self.kind.bytes());
            partial.reduced = match (partial.reduced, bits) {
                (Some(a), Some(b)) => Some(reduce_pair(program, &mut space.registers, a, b)),
                (one, None) | (None, one) => one,
            };
        }
    }

    fn combine(&self, a: Partial, b: Partial) -> Partial {
        let reduced = match (&self.program, a.reduced, b.reduced) {
            (Some(program), Some(a), Some(b)) => {
                Some(reduce_pair(program, &mut program.space(), a, b))
            }
            (_, one, None) | (_, None, one) => one,
            (None, ..) => None,
        };
        Partial {
            count: a.count + b.count,
            int_sum: a.int_sum + b.int_sum,
            float_sum: a.float_sum + b.float_sum,
            least: least_of(a.least, b.least),
            greatest: greatest_of(a.greatest, b.greatest),
            reduced,
        }
    }

    fn answer(&self, found: &Partial, wanted: &Reduction) -> Scalar {
        let is_float = self.kind.is_float();
        let sum = match is_float {
            true => found.float_sum,
            false => found.int_sum as f64,
        };
        match wanted {
            Reduction::Count => Scalar::Int(i128::from(found.count)),
            Reduction::Sum if is_float => Scalar::Float(sum),
            Reduction::Sum => Scalar::Int(found.int_sum),
            Reduction::Mean if found.count == 0 => Scalar::None,
            Reduction::Mean => Scalar::Float(sum / found.count as f64),
            Reduction::Min => found.least,
            Reduction::Max => found.greatest,
            Reduction::Expression(_) => found.reduced.map_or(Scalar::None, |bits| {
                let bytes = bits.to_ne_bytes();
                with_type!(self.kind, T => {
                    bytemuck::pod_read_unaligned::<T>(&bytes[..size_of::<T>()]).scalar()
                })
            }),
        }
    }
}

fn compile_reduction(text: &str, kind: NumberType) -> Result<Program> {
    let schema = Schema {
        has_index: false,
        ..Schema::of_columns(&[("a", kind), ("b", kind)])
    };
    let program = Program::compile(&text.parse()?, &schema).map_err(|error| {
        let hint = "reduce with sum, count, min, max, mean, or an expression of a and b: a ^ b";
        Error::usage("reduce", error.cause()).hint(hint)
    })?;
    if program.can_fail() {
        let cause = format!("`{text}` raises integers to powers that may be negative");
        return Err(Error::usage("reduce", cause).hint("compute with floats: map to f64(x) first"));
    }
    if program.kind() == ColumnType::Number(kind) {
        return Ok(program);
    }
    let cause = format!("`{text}` of two {} is {}", kind.name(), program.kind());
    Err(Error::usage("reduce", cause).hint(format!("cast it back: {}({text})", kind.name())))
}

/// Reduces a column pair by pair until one value is left; returns its bits.
fn reduce_column(
    program: &Program,
    space: &mut ReduceSpace,
    items: &[u8],
    item_bytes: usize,
) -> Option<u64> {
    space.reduced.clear();
    space.reduced.extend_from_slice(items);
    while space.reduced.len() > item_bytes {
        let pairs = space.reduced.chunks_exact(2 * item_bytes);
        let odd = pairs.remainder().to_vec();
        space.left.clear();
        space.right.clear();
        for pair in pairs {
            let (a, b) = pair.split_at(item_bytes);
            space.left.extend_from_slice(a);
            space.right.extend_from_slice(b);
        }
        let rows = Rows {
            first: 0,
            count: space.left.len() / item_bytes,
            inputs: &[&space.left, &space.right],
        };
        // The program cannot fail; see [`compile_reduction`].
        let column = program.run(&mut space.registers, &rows).ok()?;
        space.reduced.clear();
        space.reduced.extend_from_slice(column.bytes);
        space.reduced.extend_from_slice(&odd);
    }
    to_bits(&space.reduced)
}

fn reduce_pair(program: &Program, registers: &mut Space, a: u64, b: u64) -> u64 {
    let item_bytes = program.kind().bytes();
    let (a, b) = (a.to_ne_bytes(), b.to_ne_bytes());
    let rows = Rows {
        first: 0,
        count: 1,
        inputs: &[&a[..item_bytes], &b[..item_bytes]],
    };
    let reduced = program.run(registers, &rows).ok();
    reduced
        .and_then(|column| to_bits(column.bytes))
        .unwrap_or(0)
}

fn to_bits(bytes: &[u8]) -> Option<u64> {
    let mut bits = [0; 8];
    bits.get_mut(..bytes.len())?.copy_from_slice(bytes);
    (!bytes.is_empty()).then(|| u64::from_ne_bytes(bits))
}

fn is_nan(value: Scalar) -> bool {
    match value {
        Scalar::Float(value) => value.is_nan(),
        Scalar::Float32(value) => value.is_nan(),
        _ => false,
    }
}

fn is_less(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => a < b,
        (Scalar::Float(a), Scalar::Float(b)) => a < b,
        (Scalar::Float32(a), Scalar::Float32(b)) => a < b,
        _ => false,
    }
}

fn least_of(a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::None, one) | (one, Scalar::None) => one,
        _ if is_nan(a) || (is_less(a, b) && !is_nan(b)) => a,
        _ => b,
    }
}

fn greatest_of(a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::None, one) | (one, Scalar::None) => one,
        _ if is_nan(a) || (is_less(b, a) && !is_nan(b)) => a,
        _ => b,
    }
}
