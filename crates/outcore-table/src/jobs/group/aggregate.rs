//! What is asked of groups: which value of which column, and of which type it is.
//!
//! Contract: [`Aggregate::parse`] reads an aggregate as people write it; [`Output::of`] settles its
//! type for a column of a table, or says why there is none. Types follow SQL as DuckDB has it,
//! where Parquet has the type: sums of integers have 64 bits, sums of decimals 38 digits, and what
//! does not fit in is an error, never wrapped.

use arrow_schema::{DataType, Field, TimeUnit};
use outcore::key::column::{arguments, column_name, listed};
use outcore_io::{Error, Result};

use super::GROUP;
use super::operand::Operand;
use crate::equal::plain_type;
use crate::jobs::call::Call;

/// A value of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AggregateKind {
    /// Rows, or with a column those where it is not null.
    Count,
    /// The sum of values that are not null; null if there are none.
    Sum,
    /// Their mean, as a float.
    Mean,
    /// The least value that is not null; NaN is larger than all numbers.
    Min,
    /// The greatest.
    Max,
    /// The value of the group's first row in the input, null or not.
    First,
    /// The value of the last row.
    Last,
    /// The value where [`Aggregate::by`] is least, of the first such row; rows where either is null
    /// are left out.
    ArgMin,
    /// The same where it is greatest.
    ArgMax,
    /// Distinct values that are not null.
    CountDistinct,
    /// The value below which this part (from 0 to 1) of the values lies, between two values in a
    /// straight line: a float, of decimals and times one of them (a decimal is cut off behind its
    /// last digit, a time rounded, a date has a time).
    Quantile(f64),
    /// The first of the values in order that this part of them does not exceed: of any type that
    /// has an order.
    QuantileDisc(f64),
}

/// An aggregate of a column, or of an expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// What is wanted.
    pub kind: AggregateKind,
    /// Of what; nothing to count rows.
    pub of: Option<Operand>,
    /// What chooses the row, for [`AggregateKind::ArgMin`] and [`AggregateKind::ArgMax`].
    pub by: Option<Operand>,
    /// What the column of results is called.
    pub name: String,
}

impl Aggregate {
    /// Rows of each group, as a column called `count`.
    pub fn count() -> Self {
        Aggregate {
            kind: AggregateKind::Count,
            of: None,
            by: None,
            name: "count".to_owned(),
        }
    }

    /// An aggregate as people write it: `count`, `sum(price * qty)`, `quantile(ms,0.9)`, or with a
    /// name of its own `total=sum(bytes)`. Without one it is called as it is written.
    ///
    /// # Errors
    /// Usage: no such aggregate, no column, a quantile that is not between 0 and 1.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |cause: String| {
            Error::usage("read aggregates", cause).hint(
                "write count, sum(C), mean(C), min(C), max(C), first(C), last(C), arg_min(C,BY), arg_max(C,BY), \
                 count_distinct(C), median(C), quantile(C,0.9) or quantile_disc(C,0.9), and NAME=sum(C) for another name",
            )
        };
        let Call { name, word, inner } = Call::parse(text).map_err(wrong)?;
        let (mut by, mut part) = (None, 0.5);
        let of = match (word, inner) {
            ("quantile" | "quantile_disc", Some(inner)) => {
                let (of, written) = inner
                    .rsplit_once(',')
                    .ok_or_else(|| wrong(format!("`{text}` does not say which quantile")))?;
                let written: Option<f64> = written.trim().parse().ok();
                let written = written.filter(|part| (0.0..=1.0).contains(part));
                part =
                    written.ok_or_else(|| wrong(format!("`{text}`: not a number from 0 to 1")))?;
                Some(of.trim())
            }
            ("arg_min" | "arg_max" | "min_by" | "max_by", Some(inner)) => {
                let two: Vec<&str> = arguments(inner).collect();
                let &[of, order] = &two[..] else {
                    let cause = "takes two columns: the one whose value is wanted, and the one that is compared";
                    return Err(wrong(format!("`{text}`: {word} {cause}")));
                };
                by = Some(order);
                Some(of.trim())
            }
            ("count", Some("*")) => None,
            (_, of) => of,
        };
        let kind = match word {
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
            _ => return Err(wrong(format!("there is no aggregate `{word}`"))),
        };
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

    /// The names that it reads which can be nothing but columns.
    pub fn columns(&self) -> impl Iterator<Item = String> {
        let operands = self.of.iter().chain(&self.by);
        operands.filter_map(Operand::column)
    }

    /// Several, with commas between them.
    ///
    /// # Errors
    /// As [`Aggregate::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        listed(text).map(Aggregate::parse).collect()
    }

    /// The field of its results, of a column of type `data_type`.
    ///
    /// # Errors
    /// Usage: there is no such aggregate of that type.
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

    /// The field of its results, of the column `field`; what is one of its values is so with all
    /// that the column says of them.
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

    /// The type of what lies between two values.
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
        let cause = format!("`{}`: `{operand}` is of type {of}", self.name);
        Error::usage(GROUP, cause).hint(
            "choose a column of numbers, or min, max, first, last, count, count_distinct or quantile_disc",
        )
    }
}

/// The type of sums of values of a type, if they have any.
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

#[cfg(test)]
mod tests {
    use super::*;

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
