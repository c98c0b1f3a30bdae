//! The flags of `group-by`.
//!
//! Contract: as [`super`].

use clap::Args;

use super::tables::TableFileArgs;

const GROUP_BY_EXAMPLES: &str = "\
Examples:
  outcore group-by t.parquet -o g.parquet --by country
  outcore group-by t.parquet -o g.parquet --by country --agg 'sum(bytes),count,mean(ms)'
  outcore group-by logs/ -o g.parquet --by day --by url --agg 'n=count,users=count_distinct(user)'
  outcore group-by t.parquet -o g.parquet --by host:desc --agg 'median(ms),quantile(ms,0.99)'

Aggregates: count, count(C), sum(C), mean(C), min(C), max(C), first(C), last(C), count_distinct(C),
median(C), quantile(C,0.9), quantile_disc(C,0.9). All but count, first and last leave nulls out. Sums
of integers have 64 bits and sums of decimals 38 digits; one that is larger is an error. Null is a
group of its own. median and quantile interpolate between two values: floats for integers
and floats, decimals of the column's type for decimals, times for dates and times. quantile_disc is
one of the values, of any type that has an order. first and last go by the order of the input. The output is the same for any memory and threads.";

/// Group the rows of tables by columns, and compute sums, counts and other values of each group
///
/// OUT has one row for each group, in the order of the groups' columns. Rows are put together in
/// memory where groups are few, and sorted through scratch where they are many.
#[derive(Debug, Args)]
#[command(after_long_help = GROUP_BY_EXAMPLES)]
pub(crate) struct GroupByArgs {
    #[command(flatten)]
    pub(crate) files: TableFileArgs,
    /// Columns to group by, with :desc for the largest first; repeat for several. st.a is the field
    /// a of objects st
    #[arg(long, value_name = "COLUMN", required = true)]
    pub(crate) by: Vec<String>,
    /// What to compute of each group, as in sum(bytes) or total=sum(bytes). Default: count
    #[arg(long = "agg", value_name = "AGG,...")]
    pub(crate) aggregates: Vec<String>,
}
