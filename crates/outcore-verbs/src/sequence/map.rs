//! `map`, `filter` and `flat-map`: numbers that are computed from each record, and records for
//! which a condition holds.
//!
//! Contract: the output is in the order of the input. Expressions of tables are those of
//! `outcore_table::expr`.

use clap::Args;
use outcore::Result;
use outcore::dataset::Step;

use super::args::{PassArgs, RowsArgs, TABLES_TOO, has_files, parse_expression};
#[cfg(feature = "tables")]
use super::table::{self, Ends};
use super::write::{Pass, Steps};
#[cfg(feature = "tables")]
use crate::host::Host;
#[cfg(feature = "tables")]
use crate::report::WriteSummary;
use crate::verb::Inputs;

const MAP_EXAMPLES: &str = "\
Examples:
  outcore map 'x * 2 + 1' keys.bin -o out.bin --type u64
  outcore map 'f32(key1) / 100' log.bin -o seconds.bin --record 16 --key 0:8:u64 --key 8:8:u64
  outcore map 'x * y' a.npy --zip b.npy -o products.npy
  outcore map 'hash(index) % 100' --integers 1e9 -o random.bin
  outcore map 'total = price * n, year = year(time)' orders.parquet -o out.parquet
  outcore map \"size = case when n > 9 then 'large' else 'small' end\" t.parquet -o u.parquet

Give each computed column a name: before it with =, or after it with `as`. It replaces a column of the same name, and
later expressions may read it. All other columns are kept (--columns selects some). `a as b` renames column a.";

const FILTER_EXAMPLES: &str = "\
Examples:
  outcore filter 'x > 10 and x % 2 == 0' keys.bin -o even.bin --type u64
  outcore filter 'key0 >= 1700000000' log.bin -o recent.bin --record 64 --key 0:8:u64
  outcore filter \"country in ('de', 'fr') and time >= '2024-01-01'\" logs/ -o some.parquet
  outcore filter 'price * n > 100 and url is not null' t.parquet -o large.parquet

Row groups of a table that cannot match are not read.";

const FLAT_MAP_EXAMPLES: &str = "\
Examples:
  outcore flat-map 'x, x + 1' keys.bin -o both.bin --type u64
  outcore flat-map key0,key1 edges.bin -o ends.bin --record 16 --key 0:8:u64 --key 8:8:u64";

/// Compute a number from each record, or columns from each row of a table
///
/// The output has one number for each record of the input, or the row with its new columns, in the
/// same order. It appears whole or not at all.
#[derive(Debug, Args)]
#[command(after_long_help = super::expressions::help(MAP_EXAMPLES), mut_arg("inputs", |arg| arg.help(TABLES_TOO)))]
pub(crate) struct MapArgs {
    /// What to compute
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) expression: String,
    #[command(flatten)]
    pub(crate) files: PassArgs,
    #[command(flatten)]
    pub(crate) rows: RowsArgs,
}

/// Keep the records, or rows of a table, for which an expression is true
///
/// The output has whole records or rows, in input order. It appears whole or not at all.
#[derive(Debug, Args)]
#[command(after_long_help = super::expressions::help(FILTER_EXAMPLES), mut_arg("inputs", |arg| arg.help(TABLES_TOO)))]
pub(crate) struct FilterArgs {
    /// The condition
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) condition: String,
    #[command(flatten)]
    pub(crate) files: PassArgs,
    #[command(flatten)]
    pub(crate) rows: RowsArgs,
}

/// Compute several numbers from each record
///
/// The output has the values of all expressions for the first record, then those for the second,
/// and so on. All expressions must have the same type.
#[derive(Debug, Args)]
#[command(after_long_help = FLAT_MAP_EXAMPLES)]
pub(crate) struct FlatMapArgs {
    /// What to compute: expressions, separated by commas
    #[arg(value_name = "EXPR,EXPR...", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) expressions: String,
    #[command(flatten)]
    pub(crate) files: PassArgs,
}

has_files!(MapArgs, FilterArgs, FlatMapArgs);

/// `map`.
pub(crate) struct Map;

impl Pass for Map {
    const NAME: &'static str = "map";
    const INPUTS: Inputs = Inputs::Any;
    const DONE: &'static str = "mapped";
    type Args = MapArgs;

    fn steps(args: &MapArgs) -> Result<Steps<'_>> {
        Ok(Steps::Known(vec![Step::Map(args.expression.clone())]))
    }

    fn rows(args: &MapArgs) -> Option<&RowsArgs> {
        Some(&args.rows)
    }

    #[cfg(feature = "tables")]
    fn of_rows(host: &dyn Host, ends: &Ends<'_>, args: &MapArgs) -> Result<WriteSummary> {
        table::map(host, ends, &args.expression)
    }
}

/// `filter`.
pub(crate) struct Filter;

impl Pass for Filter {
    const NAME: &'static str = "filter";
    const INPUTS: Inputs = Inputs::Any;
    const DONE: &'static str = "kept";
    type Args = FilterArgs;

    fn steps(args: &FilterArgs) -> Result<Steps<'_>> {
        Ok(Steps::Known(vec![Step::Filter(args.condition.clone())]))
    }

    fn rows(args: &FilterArgs) -> Option<&RowsArgs> {
        Some(&args.rows)
    }

    #[cfg(feature = "tables")]
    fn of_rows(host: &dyn Host, ends: &Ends<'_>, args: &FilterArgs) -> Result<WriteSummary> {
        table::filter(host, ends, &args.condition)
    }
}

/// `flat-map`.
pub(crate) struct FlatMap;

impl Pass for FlatMap {
    const NAME: &'static str = "flat-map";
    const ALIASES: &'static [&'static str] = &["flat_map"];
    const DONE: &'static str = "mapped";
    type Args = FlatMapArgs;

    fn steps(args: &FlatMapArgs) -> Result<Steps<'_>> {
        let expressions = expressions_of(&args.expressions);
        Ok(Steps::Known(vec![Step::FlatMap(expressions)]))
    }
}

/// Splits expressions at commas, except for commas within parentheses.
fn expressions_of(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let parts = text.split(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    parts.map(|part| part.trim().to_string()).collect()
}
