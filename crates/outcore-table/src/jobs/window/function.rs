//! Window functions: what can be computed from a row's place in its group.
//!
//! Contract: [`WindowColumn::parse`] reads a column from user input. [`WindowColumn::field`]
//! determines its type for a table, or the reason that it has none. Names and results are those of
//! SQL's window functions.

use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, Schema};
use outcore::key::column::{column_name, listed};
use outcore_io::{Error, Result};

use super::WINDOW;
use crate::equal::plain_type;
use crate::jobs::call::Call;
use crate::jobs::group::sum_type;
use crate::notation::notation;
use crate::schema::FieldPlace;

/// The largest distance of `lag` and `lead`.
const REACH_MAX: usize = 1 << 20;

/// A function of a row and its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowFunction {
    /// The row's number in its group, from 1.
    RowNumber,
    /// The number of the first row with the same values in the order columns.
    Rank,
    /// Like [`WindowFunction::Rank`], but counts distinct values of these columns.
    DenseRank,
    /// The value of a column this many rows before in the same group; null if there is no such row.
    Lag(String, usize),
    /// The value of a column this many rows after in the same group; null if there is no such row.
    Lead(String, usize),
    /// The value of a column in the group's first row.
    First(String),
    /// The sum of a column from the group's first row to this one. Nulls are ignored; the sum is
    /// null until there is another value.
    CumulativeSum(String),
    /// The least value of a column among these rows; NaN is larger than all numbers.
    CumulativeMin(String),
    /// The greatest value of a column among these rows.
    CumulativeMax(String),
}

/// A computed column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowColumn {
    /// Its function.
    pub function: WindowFunction,
    /// Its name.
    pub name: String,
}

impl WindowColumn {
    /// The column whose values it copies, if it does.
    pub(super) fn copied(&self) -> Option<&String> {
        match &self.function {
            WindowFunction::Lag(name, _)
            | WindowFunction::Lead(name, _)
            | WindowFunction::First(name)
            | WindowFunction::CumulativeMin(name)
            | WindowFunction::CumulativeMax(name) => Some(name),
            _ => None,
        }
    }

    /// Reads a column: `row_number`, `lag(amount)`, `lead(amount,2)`, or with a name as in
    /// `previous=lag(amount)`. Without a name, the text itself is the name.
    ///
    /// # Errors
    /// Usage: an unknown function, a missing column, a distance that is not an integer.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |cause: String| {
            Error::usage("read window functions", cause).hint(
                "write row_number, rank, dense_rank, lag(C), lag(C,2), lead(C), first(C), cum_sum(C), cum_min(C) \
                 or cum_max(C), and NAME=lag(C) for another name",
            )
        };
        let Call { name, word, inner } = Call::parse(text).map_err(wrong)?;
        // Names of functions have no case, as in expressions.
        let called = word.to_ascii_lowercase();
        let word = called.as_str();
        let column = || inner.ok_or_else(|| wrong(format!("`{}` names no column", text.trim())));
        let reached = || {
            let column = column()?;
            let Some((front, rows)) = column.rsplit_once(',') else {
                return Ok((column_name(column), 1));
            };
            if column.ends_with('`') {
                return Ok((column_name(column), 1));
            }
            if let Some(ahead) = rows.trim().strip_prefix('-')
                && ahead.parse::<u64>().is_ok()
            {
                let other = if word == "lag" { "lead" } else { "lag" };
                return Err(wrong(format!("`{}` has a negative distance", text.trim()))
                    .hint(format!("write {other}({}, {ahead})", front.trim())));
            }
            let rows = rows.trim().parse().ok();
            let rows = rows.filter(|rows| (1..=REACH_MAX).contains(rows));
            let rows = rows.ok_or_else(|| {
                let text = text.trim();
                wrong(match front.contains(',') {
                    true => format!(
                        "`{text}` takes a column and a distance, and no value for the edges"
                    ),
                    false => format!("`{text}`: the distance must be from 1 to 1048576 rows"),
                })
            })?;
            Ok((column_name(front.trim()), rows))
        };
        let alone = |function: WindowFunction| match inner {
            None => Ok(function),
            Some(_) => Err(wrong(format!("`{word}` takes no column"))),
        };
        let function = match word {
            "row_number" => alone(WindowFunction::RowNumber)?,
            "rank" => alone(WindowFunction::Rank)?,
            "dense_rank" => alone(WindowFunction::DenseRank)?,
            "lag" => reached().map(|(column, rows)| WindowFunction::Lag(column, rows))?,
            "lead" => reached().map(|(column, rows)| WindowFunction::Lead(column, rows))?,
            "first" => WindowFunction::First(column_name(column()?)),
            "cum_sum" => WindowFunction::CumulativeSum(column_name(column()?)),
            "cum_min" => WindowFunction::CumulativeMin(column_name(column()?)),
            "cum_max" => WindowFunction::CumulativeMax(column_name(column()?)),
            _ => {
                let error = wrong(format!("there is no window function `{word}`"));
                let is_computed = word.contains(['+', '-', '*', '/', '%']);
                let operand = word.rsplit(['+', '-', '*', '/', '%', ' ']).next();
                let word = operand.filter(|_| is_computed).unwrap_or(word);
                return Err(match equivalent(word) {
                    None if is_computed => error.hint(
                        "a function stands alone: `outcore map` computes with its result, as in 'share = price / total'",
                    ),
                    Some(step) => error.hint(step),
                    None => error,
                });
            }
        };
        let name = name.strip_suffix("()").unwrap_or(name);
        Ok(WindowColumn {
            function,
            name: column_name(name),
        })
    }

    /// Reads several columns, separated by commas.
    ///
    /// # Errors
    /// As [`WindowColumn::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        listed(text).map(WindowColumn::parse).collect()
    }

    /// The column that it is computed from.
    pub(super) fn column(&self) -> Option<&str> {
        match &self.function {
            WindowFunction::RowNumber | WindowFunction::Rank | WindowFunction::DenseRank => None,
            WindowFunction::Lag(column, _)
            | WindowFunction::Lead(column, _)
            | WindowFunction::First(column)
            | WindowFunction::CumulativeSum(column)
            | WindowFunction::CumulativeMin(column)
            | WindowFunction::CumulativeMax(column) => Some(column),
        }
    }

    /// Returns its field in a table of `schema`, and the place of the column that it is computed
    /// from.
    ///
    /// # Errors
    /// Usage: a missing column, a column without a sum, or one whose values have no order.
    pub(super) fn field(&self, schema: &Schema) -> Result<(Field, Option<FieldPlace>)> {
        let Some(column) = self.column() else {
            let field = Field::new(&self.name, DataType::Int64, false);
            return Ok((field, None));
        };
        let place = FieldPlace::of(schema, column, WINDOW)?;
        let of = place.field(schema, column);
        let field = match self.function {
            WindowFunction::CumulativeSum(_) => {
                let plain = plain_type(of.data_type());
                let sum = sum_type(&plain).ok_or_else(|| {
                    let cause = format!(
                        "`{}`: column `{column}` is of type {}",
                        self.name,
                        notation(of.data_type())
                    );
                    Error::usage(WINDOW, cause).hint("choose a column of numbers")
                })?;
                Field::new(&self.name, sum, true)
            }
            WindowFunction::CumulativeMin(_) | WindowFunction::CumulativeMax(_) => {
                let sorted = SortField::new(of.data_type().clone());
                if !RowConverter::supports_fields(&[sorted]) {
                    let cause = format!(
                        "`{}`: column `{column}` is of type {}, which has no order",
                        self.name,
                        notation(of.data_type())
                    );
                    return Err(Error::usage(WINDOW, cause).hint("choose another column"));
                }
                Field::clone(&of).with_name(&self.name).with_nullable(true)
            }
            WindowFunction::First(_) => Field::clone(&of).with_name(&self.name),
            _ => Field::clone(&of).with_name(&self.name).with_nullable(true),
        };
        Ok((field, Some(place)))
    }
}

/// The step for the function `word` of another language.
fn equivalent(word: &str) -> Option<&'static str> {
    Some(match word {
        "sum" | "mean" | "avg" | "count" | "median" => {
            "cum_sum(C) is a running sum; for one value per group, `outcore join` the result of \
             `outcore group-by`"
        }
        "cumsum" | "running_sum" => "write cum_sum(C)",
        "min" | "cummin" => "write cum_min(C)",
        "max" | "cummax" => "write cum_max(C)",
        "shift" => "write lag(C), or lead(C) for later rows",
        "diff" => "write before=lag(C), then `outcore map 'diff = C - before'`",
        "last" | "last_value" => "write first(C), in the opposite order",
        "first_value" => "write first(C)",
        "rownum" | "row" | "index" => "write row_number",
        "ntile" | "percent_rank" | "cume_dist" => "write row_number, and divide by a count",
        _ if word.starts_with("rolling") || word.starts_with("moving") => {
            "lag(C, 1), lag(C, 2) and lead(C, 1) are rows nearby; `outcore map` combines them"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_other_languages_lead_to_ours() {
        let list = WindowColumn::parse_list("ROW_NUMBER, LAG(x)").unwrap();
        assert_eq!(list[0].function, WindowFunction::RowNumber);
        assert_eq!(list[1].function, WindowFunction::Lag("x".to_owned(), 1));
        for (text, step) in [
            ("sum(x)", "outcore group-by"),
            ("lag(x, -2)", "write lead(x, 2)"),
            ("lead(x,-1)", "write lag(x, 1)"),
            ("rolling_mean(x, 3)", "rows nearby"),
            ("ntile(4)", "row_number"),
        ] {
            let error = WindowColumn::parse(text).unwrap_err();
            assert!(
                error.next_step().unwrap_or_default().contains(step),
                "{error}"
            );
        }
    }

    #[test]
    fn functions_are_read_as_people_write_them() {
        let list = WindowColumn::parse_list(
            "row_number, n=rank(), lag(a b),p=lead(x, 3), first(y),s=cum_sum(z)",
        );
        let list = list.unwrap();
        let names: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["row_number", "n", "lag(a b)", "p", "first(y)", "s"]);
        assert_eq!(list[1].function, WindowFunction::Rank);
        assert_eq!(list[2].function, WindowFunction::Lag("a b".to_owned(), 1));
        assert_eq!(list[3].function, WindowFunction::Lead("x".to_owned(), 3));
        for wrong in [
            "",
            "lag",
            "lag()",
            "lag(x",
            "lag(x,0)",
            "lag(x,y)",
            "lag(x,2000000)",
            "rank(x)",
            "ntile(4)",
            "=rank",
        ] {
            assert!(WindowColumn::parse(wrong).is_err(), "{wrong}");
        }
    }
}
