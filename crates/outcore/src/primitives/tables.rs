//! Consumers of tables: the typed consumers, selected by the items' run-time type.
//!
//! Contract: each works like the function of the same name for typed sequences, for numbers of ten
//! types ([`Table::numbers`]) or whole records. Floats are ordered as in a sort: all NaNs last.

use std::cmp::Ordering;
use std::sync::Mutex;

use super::aggregate::{Reduction, Scalar, reduce_table};
use super::distribute::{BucketFiles, distribute_bytes};
use super::gather::gather;
use super::group::sort_items;
use super::producer::Producer;
use super::scan::{Inclusion, scan};
use super::select::{first, histogram, top_k_for};
use super::summary::Summary;
use super::table::{BatchStep, Numbers, Table};
use crate::ends::{Output, make_dir};
use crate::job::Job;
use crate::key::expr::with_type;
use crate::key::expr::{BATCH_ROWS, CastType, Expr, Program, Rows};
use crate::key::record::{Endian, Number, NumberType};
use outcore_io::{Error, Result, units};

/// How many sorted numbers are read back at once.
const TOP_CHUNK: u64 = 1 << 14;

/// The operator of prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanOp {
    /// Sums, in the items' type: integers wrap around.
    Sum,
    /// Products, in the items' type: integers wrap around.
    Product,
    /// The smallest so far.
    Min,
    /// The largest so far.
    Max,
}

/// Operators of prefixes for a type.
trait Prefix: bytemuck::Pod + Send + Sync {
    fn identity(op: ScanOp) -> Self;
    fn apply(op: ScanOp, a: Self, b: Self) -> Self;
    fn compare(a: &Self, b: &Self) -> Ordering;
    fn to_f64(self) -> f64;
    fn scalar(self) -> Scalar;
    /// This number with its bytes reversed.
    fn turned(self) -> Self;
}

macro_rules! integer_prefix {
    ($($t:ty),*) => {$(
        impl Prefix for $t {
            fn identity(op: ScanOp) -> Self {
                match op {
                    ScanOp::Sum => 0,
                    ScanOp::Product => 1,
                    ScanOp::Min => <$t>::MAX,
                    ScanOp::Max => <$t>::MIN,
                }
            }
            fn apply(op: ScanOp, a: Self, b: Self) -> Self {
                match op {
                    ScanOp::Sum => a.wrapping_add(b),
                    ScanOp::Product => a.wrapping_mul(b),
                    ScanOp::Min => a.min(b),
                    ScanOp::Max => a.max(b),
                }
            }
            fn compare(a: &Self, b: &Self) -> Ordering { a.cmp(b) }
            fn to_f64(self) -> f64 { self as f64 }
            fn scalar(self) -> Scalar { Scalar::Int(i128::from(self)) }
            fn turned(self) -> Self { self.swap_bytes() }
        }
    )*};
}
integer_prefix!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! float_prefix {
    ($($t:ty, $scalar:path);*) => {$(
        impl Prefix for $t {
            fn identity(op: ScanOp) -> Self {
                match op {
                    ScanOp::Sum => 0.0,
                    ScanOp::Product => 1.0,
                    ScanOp::Min => <$t>::INFINITY,
                    ScanOp::Max => <$t>::NEG_INFINITY,
                }
            }
            fn apply(op: ScanOp, a: Self, b: Self) -> Self {
                match op {
                    ScanOp::Sum => a + b,
                    ScanOp::Product => a * b,
                    ScanOp::Min if a.is_nan() || a < b => a,
                    ScanOp::Max if a.is_nan() || a > b => a,
                    ScanOp::Min | ScanOp::Max => b,
                }
            }
            fn compare(a: &Self, b: &Self) -> Ordering {
                match (a.is_nan(), b.is_nan()) {
                    (true, true) => a.to_bits().cmp(&b.to_bits()),
                    (false, false) => a.total_cmp(b),
                    (a, b) => a.cmp(&b),
                }
            }
            fn to_f64(self) -> f64 { f64::from(self) }
            fn scalar(self) -> Scalar { $scalar(self) }
            fn turned(self) -> Self { Self::from_bits(self.to_bits().swap_bytes()) }
        }
    )*};
}
float_prefix!(f32, Scalar::Float32; f64, Scalar::Float);

/// The number that `item` is: an item of `kind` in the byte order of this machine, from a table of
/// numbers ([`Table::numbers`]).
///
/// # Panics
/// If `item` has another length than such a number.
pub fn scalar_of(kind: NumberType, item: &[u8]) -> Scalar {
    with_type!(kind, T => T::scalar(bytemuck::pod_read_unaligned(item)))
}

/// Writes the prefixes of the numbers of `table` to `output`, in the numbers' byte order.
///
/// # Errors
/// The errors of [`scan`](super::scan()), and usage for records that are not numbers.
pub fn scan_table(
    job: &Job,
    table: &Table,
    op: ScanOp,
    inclusion: Inclusion,
    output: &Output,
    replace: bool,
) -> Result<Summary> {
    let (table, number) = table.plain_numbers()?;
    let is_native = number == Number::new(number.kind, Endian::NATIVE);
    with_type!(number.kind, T => {
        let numbers = Numbers::<T>::of(&table);
        let identity = T::identity(op);
        match is_native {
            true => scan(job, &numbers, identity, |a, b| T::apply(op, a, b), inclusion, output, replace),
            false => {
                let apply = |a: T, b: T| T::apply(op, a.turned(), b.turned()).turned();
                scan(job, &numbers, identity.turned(), apply, inclusion, output, replace)
            }
        }
    })
}

/// The `k` largest numbers of `table` in descending order, or the smallest in ascending order.
///
/// # Errors
/// The errors of [`top_k`](super::top_k), and usage for records that are not numbers.
pub fn top_table(
    job: &Job,
    table: &Table,
    k: usize,
    smallest: bool,
) -> Result<(Vec<Scalar>, Summary)> {
    top_table_for(job, table, k, smallest, 0)
}

/// Like [`top_table`], for a caller that makes `more_bytes` from each number; leaves memory for
/// these.
///
/// # Errors
/// The errors of [`top_table`].
pub fn top_table_for(
    job: &Job,
    table: &Table,
    k: usize,
    smallest: bool,
    more_bytes: u64,
) -> Result<(Vec<Scalar>, Summary)> {
    let more_bytes = more_bytes + size_of::<Scalar>() as u64;
    let (table, kind) = table.numbers()?;
    with_type!(kind, T => {
        let compare = |a: &T, b: &T| match smallest {
            true => T::compare(b, a),
            false => T::compare(a, b),
        };
        let (best, summary) = top_k_for(job, &Numbers::<T>::of(&table), k, compare, more_bytes)?;
        Ok((best.into_iter().map(T::scalar).collect(), summary))
    })
}

/// The numbers of [`top_table`], one after another, by a sort: for more of them than memory holds.
/// Removes its files.
///
/// # Errors
/// The errors of [`top_table`], [`sort`](mod@crate::sort) and `each`.
pub fn top_by_sort(
    job: &Job,
    table: &Table,
    k: u64,
    smallest: bool,
    each: &mut dyn FnMut(Scalar) -> Result<()>,
) -> Result<Summary> {
    let (table, kind) = table.numbers()?;
    let pipe = Output::Pipe(Mutex::new(Box::new(std::io::sink())));
    let dir = make_dir(job, &pipe)?;
    let (sorted, mut total) = sort_items(job, &table, table.format(), !smallest, &dir)?;
    let k = k.min(total.records);
    let item_bytes = table.item_bytes();
    for from in (0..k).step_by(TOP_CHUNK as usize) {
        let positions: Vec<u64> = (from..k.min(from + TOP_CHUNK)).collect();
        let inputs = std::slice::from_ref(&sorted);
        let (bytes, read) = gather(job, inputs, item_bytes, &positions)?;
        total = total.and(Summary { passes: 0, ..read });
        for item in bytes.chunks_exact(item_bytes) {
            each(scalar_of(kind, item))?;
        }
    }
    total.passes += 1;
    Ok(Summary {
        records: k,
        ..total
    })
}

/// The position of the first record of `table` for which `condition` is true. No earlier step may
/// filter.
///
/// # Errors
/// The errors of [`first`], and usage for an invalid expression.
pub fn find_table(job: &Job, table: &Table, condition: &str) -> Result<(Option<u64>, Summary)> {
    let table = table
        .positions_where(condition)?
        .filter(&format!("x != {}", u64::MAX))?;
    first(job, &Numbers::<u64>::of(&table))
}

/// The range of a histogram and the counts of its equal bins.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Smallest and largest value that is counted.
    pub range: (f64, f64),
    /// The counts. A value on a border counts for the bin above, except for the last border.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Where a bin begins and the previous one ends.
    pub fn border(&self, bin: usize) -> f64 {
        border(self.range.0, self.range.1, self.counts.len(), bin)
    }
}

/// Where a bin begins, even if the range is wider than any number.
fn border(low: f64, high: f64, bins: usize, bin: usize) -> f64 {
    match ((high - low) * bins as f64).is_finite() {
        true => low + (high - low) * bin as f64 / bins as f64,
        false => {
            let share = bin as f64 / bins as f64;
            low * (1.0 - share) + high * share
        }
    }
}

/// Counts the numbers of `table` in `bins` equal bins of `range`, or of the numbers' own range.
///
/// # Errors
/// The errors of [`histogram`], and usage for records that are not numbers or an invalid range.
pub fn histogram_table(
    job: &Job,
    table: &Table,
    bins: usize,
    range: Option<(f64, f64)>,
) -> Result<(Histogram, Summary)> {
    let (table, kind) = table.numbers()?;
    let ((low, high), before) = match range {
        Some(range) => (range, None),
        None => {
            let both = [Reduction::Min, Reduction::Max];
            let (found, summary) = reduce_table(job, &table, &both)?;
            ((to_f64(found[0]), to_f64(found[1])), Some(summary))
        }
    };
    if !(low <= high && low.is_finite() && high.is_finite()) {
        let cause = format!("a range from {low} to {high}");
        return Err(Error::usage("histogram", cause).hint("give one: --range 0:100"));
    }
    let width = high - low;
    let scale = bins as f64 / width;
    let part = if width.is_finite() { 1.0 } else { 0.5 };
    let place_of = |value: f64| match width.is_finite() && scale.is_finite() {
        true => (value - low) * scale,
        // The width of a very wide range overflows, and so does the scale of a very narrow one.
        false => (value * part - low * part) / (high * part - low * part) * bins as f64,
    };
    let (counts, summary) = with_type!(kind, T => {
        histogram(job, &Numbers::<T>::of(&table), bins, |item| {
            let value = T::to_f64(*item);
            if !(low <= value && value <= high) {
                return None;
            }
            if low == high {
                return Some(0);
            }
            let near = (place_of(value) as usize).min(bins - 1);
            // Rounding may have selected an adjacent bin.
            let begins = |bin: usize| border(low, high, bins, bin) <= value;
            Some(match near {
                bin if !begins(bin) => bin.saturating_sub(1),
                bin if bin + 1 < bins && begins(bin + 1) => bin + 1,
                bin => bin,
            })
        })?
    });
    let range = (low, high);
    let summary = match before {
        Some(before) => before.and(summary),
        None => summary,
    };
    Ok((Histogram { range, counts }, summary))
}

fn to_f64(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::Int(value) => value as f64,
        Scalar::Float(value) => value,
        Scalar::Float32(value) => f64::from(value),
        Scalar::None => 0.0,
    }
}

/// Writes each record of `table` to the file whose number `bucket`, an expression, computes;
/// returns the number of records in each. A condition selects file 0 or 1.
///
/// # Errors
/// The errors of [`distribute`](super::distribute()), and usage for an invalid expression.
pub fn distribute_table(
    job: &Job,
    table: &Table,
    bucket: &str,
    files: &BucketFiles,
) -> Result<(Vec<u64>, Summary)> {
    let bucket: Expr = bucket.parse()?;
    let expr = bucket.cast(CastType::Number(NumberType::I64));
    let schema = table.schema().clone();
    if schema.record_bytes.len() > 1 {
        let cause = "distribute does not take records of several files side by side";
        return Err(Error::usage("distribute", cause).hint("write them with zip first"));
    }
    let program = Program::compile(&expr, &schema)?;
    let item_bytes = table.item_bytes();
    let buckets_of = |first: u64, items: &[u8], into: &mut Vec<u32>| {
        let mut space = program.space();
        for (number, part) in items.chunks(BATCH_ROWS * item_bytes).enumerate() {
            let rows = Rows {
                first: first + (number * BATCH_ROWS) as u64,
                count: part.len() / item_bytes,
                inputs: &[part],
            };
            let column = program.run(&mut space, &rows)?;
            let buckets: &[i64] = bytemuck::cast_slice(column.bytes);
            let count = files.paths.len() as i64;
            if let Some(part) = buckets.iter().find(|part| !(0..count).contains(*part)) {
                return Err(no_part(*part, count));
            }
            into.extend(buckets.iter().map(|bucket| bucket_of(*bucket)));
        }
        Ok(())
    };
    distribute_bytes(job, table, &buckets_of, files)
}

/// Writes each record of `table` to the file whose number `step` computes: an `i64` for each record
/// of a batch. Returns the number of records in each.
///
/// # Errors
/// The errors of [`distribute_table`] and of `step`.
pub fn distribute_by(
    job: &Job,
    table: &Table,
    step: &dyn BatchStep,
    files: &BucketFiles,
) -> Result<(Vec<u64>, Summary)> {
    let item_bytes = table.item_bytes();
    let buckets_of = |first: u64, items: &[u8], into: &mut Vec<u32>| {
        let made = step.run(first, items)?;
        let buckets = made.as_chunks::<8>().0;
        if buckets.len() * item_bytes != items.len() {
            let cause = format!(
                "{} for {}",
                units::counted(buckets.len() as u64, "bucket"),
                units::counted((items.len() / item_bytes) as u64, "item")
            );
            return Err(Error::usage("distribute", cause).hint("map each item to one number"));
        }
        into.extend(
            buckets
                .iter()
                .map(|bucket| bucket_of(i64::from_ne_bytes(*bucket))),
        );
        Ok(())
    };
    distribute_bytes(job, table, &buckets_of, files)
}

/// The error for a part that does not exist.
fn no_part(part: i64, count: i64) -> Error {
    let there = match count {
        1 => "there is 1 part, number 0".to_owned(),
        _ => format!("there are {count} parts, 0 to {}", count - 1),
    };
    let cause = format!("the expression gives part {part}, but {there}");
    Error::usage("choose part", cause)
        .hint("allow more parts, or take the number modulo the number of parts")
}

/// The bucket as an index; an invalid number is beyond all buckets.
fn bucket_of(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
