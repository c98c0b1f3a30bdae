//! Aggregates of groups: their functions, operands and result types.
//!
//! Contract: [`Aggregate::parse`] reads an aggregate from user input. [`Aggregate::field_of`]
//! determines its result type for a column of a table, or the reason that it has none. Types follow
//! DuckDB's SQL if Parquet has the type: sums of integers have 64 bits, sums of decimals 38 digits.
//! A result that does not fit is an error; nothing wraps.

use arrow_schema::{DataType, Field, TimeUnit};
use outcore::key::column::{arguments, column_name, listed};
use outcore_io::{Error, Result};

use super::GROUP;
use super::operand::Operand;
use crate::equal::plain_type;
use crate::jobs::call::Call;
use crate::notation::notation;

/// The function of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AggregateKind {
    /// The number of rows or, with a column, of its values that are not null.
    Count,
    /// The sum of values that are not null; null if there are none.
    Sum,
    /// The mean of the values that are not null, as a float.
    Mean,
    /// The least value that is not null; NaN is larger than all numbers.
    Min,
    /// The greatest value that is not null.
    Max,
    /// The value in the group's first row in the input, null or not.
    First,
    /// The value in the group's last row.
    Last,
    /// The value in the first row in which [`Aggregate::by`] is least. Rows in which either is null
    /// are ignored.
    ArgMin,
    /// The value in the first row in which [`Aggregate::by`] is greatest.
    ArgMax,
    /// The number of distinct values that are not null.
    CountDistinct,
    /// The value that exceeds this part (from 0 to 1) of the values, interpolated linearly between
    /// two values. The result is a float; for decimals and times it has their type. A decimal is
    /// truncated after its last digit, a time is rounded, and a date becomes a timestamp.
    Quantile(f64),
    /// The first value, in ascending order, that at least this part of the values do not exceed. It
    /// works for any type with an order.
    QuantileDisc(f64),
}

/// An aggregate of a column, or of an expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// The function.
    pub kind: AggregateKind,
    /// The operand; `None` to count rows.
    pub of: Option<Operand>,
    /// The operand that chooses the row, for [`AggregateKind::ArgMin`] and
    /// [`AggregateKind::ArgMax`].
    pub by: Option<Operand>,
    /// The name of the result column.
    pub name: String,
}

impl Aggregate {
    /// Counts the rows of each group, in a column named `count`.
    pub fn count() -> Self {
        Aggregate {
            kind: AggregateKind::Count,
            of: None,
            by: None,
            name: "count".to_owned(),
        }
    }

    /// Reads an aggregate: `count`, `sum(price * qty)`, `quantile(ms,0.9)`, or with a name as in
    /// `total=sum(bytes)`. Without a name, the text itself is the name.
    ///
    /// # Errors
    /// Usage: an unknown aggregate, a missing column, a quantile that is not between 0 and 1.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |cause: String| {
            Error::usage("read aggregates", cause).hint(
                "write count, sum(C), mean(C), min(C), max(C), first(C), last(C), arg_min(C,BY), arg_max(C,BY), \
                 count_distinct(C), median(C), quantile(C,0.9) or quantile_disc(C,0.9), and NAME=sum(C) for another name",
            )
        };
        let Call { name, word, inner } = Call::parse(text).map_err(wrong)?;
        // Names of functions have no case, as in expressions.
        let called = word.to_ascii_lowercase();
        let word = called.as_str();
        let (mut by, mut part) = (None, 0.5);
        let of = match (word, inner) {
            ("quantile" | "quantile_disc", Some(inner)) => {
                let (of, written) = inner
                    .rsplit_once(',')
                    .ok_or_else(|| wrong(format!("`{text}` does not name a quantile")))?;
                let written: Option<f64> = written.trim().parse().ok();
                let written = written.filter(|part| (0.0..=1.0).contains(part));
                part =
                    written.ok_or_else(|| wrong(format!("`{text}`: not a number from 0 to 1")))?;
                if let Some((of, other)) = of.rsplit_once(',')
                    && other.trim().parse::<f64>().is_ok()
                {
                    let (of, other) = (of.trim(), other.trim());
                    return Err(wrong(format!("`{text}`: {word} takes one share"))
                        .hint(format!("write {word}({of}, {other}), {word}({of}, {part})")));
                }
                Some(of.trim())
            }
            ("arg_min" | "arg_max" | "min_by" | "max_by", Some(inner)) => {
                let two: Vec<&str> = arguments(inner).collect();
                let &[of, order] = &two[..] else {
                    let cause = "takes two columns: the one whose value is returned, and the one \
                                 that is compared";
                    return Err(wrong(format!("`{text}`: {word} {cause}")));
                };
                by = Some(order);
                Some(of.trim())
            }
            ("count", Some("*")) => None,
            ("count", Some(inner)) if of_distinct(inner).is_some() => {
                let of = of_distinct(inner).unwrap_or_default();
                let cause = format!("`{text}` is SQL for counting different values");
                return Err(wrong(cause).hint(format!("write count_distinct({of})")));
            }
            ("first" | "last", Some(inner)) if ordered(inner).is_some() => {
                let (of, order) = ordered(inner).unwrap_or_default();
                let cause = format!("`{text}`: an order is part of arg_min and arg_max");
                return Err(wrong(cause).hint(match word {
                    "first" => format!("write arg_min({of}, {order})"),
                    _ => format!("write arg_max({of}, {order})"),
                }));
            }
            (_, of) => of,
        };
        let kind = kind_of(word, part).ok_or_else(|| {
            let error = wrong(format!("there is no aggregate `{word}`"));
            match equivalent(word) {
                Some(step) => error.hint(step),
                None => error,
            }
        })?;
        let is_empty = |one: Option<&str>| one.is_some_and(|one| one.trim().is_empty());
        if of.is_none() && kind != AggregateKind::Count || is_empty(of) || is_empty(by) {
            return Err(wrong(format!("`{text}` names no column")));
        }
        Ok(Aggregate {
            kind,
            of: of.map(Operand::parse),
            by: by.map(Operand::parse),
            name: column_name(name),
        })
    }

    /// Names in its operands that can only be columns.
    pub fn columns(&self) -> impl Iterator<Item = String> {
        let operands = self.of.iter().chain(&self.by);
        operands.filter_map(Operand::column)
    }

    /// Reads several aggregates, separated by commas.
    ///
    /// # Errors
    /// As [`Aggregate::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        listed(text).map(Aggregate::parse).collect()
    }

    /// Returns the field of its results for a column of type `data_type`.
    ///
    /// # Errors
    /// Usage: the aggregate does not exist for that type.
    pub(super) fn field(&self, data_type: Option<&DataType>) -> Result<Field> {
        let (result, is_nullable) = match (self.kind, data_type) {
            (AggregateKind::Count | AggregateKind::CountDistinct, _) | (_, None) => {
                (DataType::Int64, false)
            }
            (AggregateKind::Sum, Some(of)) => (self.sum_type(of)?, true),
            (AggregateKind::Mean, Some(of)) => match self.sum_type(of)? {
                DataType::Duration(_) => return Err(self.unfit(of)),
                _ => (DataType::Float64, true),
            },
            (AggregateKind::Quantile(_), Some(of)) => (self.quantile_type(of)?, true),
            (_, Some(of)) => (of.clone(), true),
        };
        Ok(Field::new(&self.name, result, is_nullable))
    }

    /// Returns the field of its results for the column `field`. If the result is one of the
    /// column's values, it keeps the field's metadata.
    ///
    /// # Errors
    /// As [`Aggregate::field`].
    pub(super) fn field_of(&self, field: &Field) -> Result<Field> {
        let plain = plain_type(field.data_type());
        let made = self.field(Some(&plain))?;
        Ok(match self.kind {
            AggregateKind::Min
            | AggregateKind::Max
            | AggregateKind::First
            | AggregateKind::Last
            | AggregateKind::ArgMin
            | AggregateKind::ArgMax
            | AggregateKind::QuantileDisc(_) => {
                field.clone().with_name(&self.name).with_nullable(true)
            }
            _ => made,
        })
    }

    fn sum_type(&self, of: &DataType) -> Result<DataType> {
        sum_type(of).ok_or_else(|| self.unfit(of))
    }

    /// Returns the type of interpolated values.
    fn quantile_type(&self, of: &DataType) -> Result<DataType> {
        Ok(match of {
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
            of if of.is_integer() || of.is_floating() => DataType::Float64,
            DataType::Timestamp(..)
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Duration(_)
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => of.clone(),
            of => return Err(self.unfit(of)),
        })
    }

    fn unfit(&self, of: &DataType) -> Error {
        let operand = self.of.as_ref().map(ToString::to_string);
        let operand = operand.unwrap_or_default();
        let cause = format!("`{}`: `{operand}` is of type {}", self.name, notation(of));
        Error::usage(GROUP, cause).hint(
            "choose a column of numbers, or min, max, first, last, count, count_distinct or quantile_disc",
        )
    }
}

/// Returns the type of sums of values of a type, if it has sums.
pub(in crate::jobs) fn sum_type(of: &DataType) -> Option<DataType> {
    Some(match of {
        DataType::Boolean => DataType::Int64,
        of if of.is_signed_integer() => DataType::Int64,
        of if of.is_unsigned_integer() => DataType::UInt64,
        of if of.is_floating() => DataType::Float64,
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => DataType::Decimal128(38, *scale),
        DataType::Decimal256(_, scale) => DataType::Decimal256(76, *scale),
        DataType::Duration(unit) => DataType::Duration(*unit),
        _ => return None,
    })
}

/// The function of this name; `part` is that of a quantile.
fn kind_of(word: &str, part: f64) -> Option<AggregateKind> {
    Some(match word {
        "count" => AggregateKind::Count,
        "sum" => AggregateKind::Sum,
        "mean" | "avg" => AggregateKind::Mean,
        "min" => AggregateKind::Min,
        "max" => AggregateKind::Max,
        "first" => AggregateKind::First,
        "last" => AggregateKind::Last,
        "arg_min" | "min_by" => AggregateKind::ArgMin,
        "arg_max" | "max_by" => AggregateKind::ArgMax,
        "count_distinct" => AggregateKind::CountDistinct,
        "median" | "quantile" => AggregateKind::Quantile(part),
        "quantile_disc" => AggregateKind::QuantileDisc(part),
        _ => return None,
    })
}

/// The aggregate for the function `word` of another language.
fn equivalent(word: &str) -> Option<String> {
    Some(match word {
        "nunique" | "n_unique" | "unique" | "distinct" | "approx_count_distinct" => {
            "write count_distinct(C)".to_owned()
        }
        "percentile" | "percentile_cont" | "quantile_cont" | "approx_quantile" => {
            "write quantile(C, 0.9)".to_owned()
        }
        "percentile_disc" => "write quantile_disc(C, 0.9)".to_owned(),
        "average" => "write mean(C)".to_owned(),
        "any" | "any_value" => "write first(C)".to_owned(),
        "len" | "size" | "n" | "n_rows" => "write count".to_owned(),
        "mode" => "count the values of a column with `outcore count-by`".to_owned(),
        "std" | "stddev" | "stdev" | "var" | "variance" => {
            "write m=mean(C), q=mean(C * C), then `outcore map 'std = sqrt(q - m ** 2)'`".to_owned()
        }
        _ => {
            let percent: u32 = word.strip_prefix('p')?.parse().ok()?;
            (percent <= 100)
                .then(|| format!("write quantile(C, {})", f64::from(percent) / 100.0))?
        }
    })
}

/// The value and the order of `price order by time`.
fn ordered(inner: &str) -> Option<(&str, &str)> {
    let at = inner.to_ascii_lowercase().find(" order by ")?;
    Some((inner[..at].trim(), inner[at + " order by ".len()..].trim()))
}

/// The operand `x` in SQL's `distinct x`.
fn of_distinct(inner: &str) -> Option<&str> {
    let (word, of) = inner.split_once(char::is_whitespace)?;
    word.eq_ignore_ascii_case("distinct").then_some(of.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates_of_other_languages_lead_to_ours() {
        assert_eq!(Aggregate::parse("SUM(x)").unwrap().kind, AggregateKind::Sum);
        for (text, step) in [
            ("nunique(x)", "count_distinct(C)"),
            ("p95(x)", "quantile(C, 0.95)"),
            ("percentile(x, 0.9)", "quantile(C, 0.9)"),
            ("std(x)", "mean(C * C)"),
            ("first(x order by t)", "arg_min(x, t)"),
            ("last(x ORDER BY t)", "arg_max(x, t)"),
            (
                "quantile(x, 0.5, 0.9)",
                "quantile(x, 0.5), quantile(x, 0.9)",
            ),
            (
                "sum(x) filter (where y > 1)",
                "sum(where(condition, C, null))",
            ),
            ("sum(x) over (partition by y)", "outcore window"),
        ] {
            let error = Aggregate::parse(text).unwrap_err();
            let shown = format!("{error}; {}", error.next_step().unwrap_or_default());
            assert!(shown.contains(step), "{text}: {shown}");
        }
    }

    #[test]
    fn aggregates_are_read_as_people_write_them() {
        let list = Aggregate::parse_list("count, sum(a b),p=quantile(x,0.9), median(y)").unwrap();
        let names: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["count", "sum(a b)", "p", "median(y)"]);
        assert_eq!(list[1].of, Some(Operand::parse("a b")));
        assert_eq!(list[2].kind, AggregateKind::Quantile(0.9));
        assert_eq!(list[3].kind, AggregateKind::Quantile(0.5));
        let list = Aggregate::parse_list("sum(x * (y + 1)) as t,arg_max(f(a, ','), b),n=count(*)");
        let list = list.unwrap();
        assert_eq!(list[0].name, "t");
        assert_eq!(list[1].of, Some(Operand::parse("f(a, ',')")));
        assert_eq!(list[1].by, Some(Operand::parse("b")));
        assert_eq!(list[2].of, None);
        for wrong in [
            "",
            "arg_min(x)",
            "arg_min(x,)",
            "arg_min(x,y,z)",
            "t=sum(x) as u",
            "sum(x) as ",
            "sum",
            "sum()",
            "sum(x",
            "total(x)",
            "quantile(x)",
            "quantile(x,2)",
            "=sum(x)",
        ] {
            assert!(Aggregate::parse(wrong).is_err(), "{wrong}");
        }
    }
}
