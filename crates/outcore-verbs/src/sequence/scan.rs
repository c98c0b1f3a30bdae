//! `scan`: prefix sums, products, minima and maxima.
//!
//! Contract: number i of the output combines the numbers up to i, in their own type.

use clap::{Args, ValueEnum};
use outcore::Result;
use outcore::dataset::Step;
use outcore::primitives::Inclusion;
use outcore::primitives::tables::ScanOp;

use super::args::{InputArgs, MapStep, OutputArgs};
use super::write::{Steps, WRITE, WriteRequest, say_written, write};
use crate::host::{Host, Weight};
use crate::report::WriteSummary;
use crate::verb::Verb;

/// Write prefix sums, products, minima or maxima
///
/// Number i of the output combines the numbers up to i, in their own type. Integers wrap around,
/// so cast small types first: --map 'u64(x)'.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// The operation
    #[arg(value_name = "OP", value_enum)]
    pub(crate) op: ScanOpArg,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) step: MapStep,
    /// Exclusive scan: start with the identity, and leave each number out of its own result
    #[arg(long, help_heading = "Steps")]
    pub(crate) exclusive: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The operation of a prefix sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScanOpArg {
    /// Running sums
    Sum,
    /// Running products
    Product,
    /// The smallest so far
    Min,
    /// The largest so far
    Max,
}

/// `scan`.
pub(crate) struct Scan;

impl Verb for Scan {
    const NAME: &'static str = "scan";
    type Args = ScanArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = WRITE;

    fn run(host: &dyn Host, args: &ScanArgs) -> Result<WriteSummary> {
        let op = match args.op {
            ScanOpArg::Sum => ScanOp::Sum,
            ScanOpArg::Product => ScanOp::Product,
            ScanOpArg::Min => ScanOp::Min,
            ScanOpArg::Max => ScanOp::Max,
        };
        let inclusion = match args.exclusive {
            true => Inclusion::Exclusive,
            false => Inclusion::Inclusive,
        };
        let map = args.step.map.iter().cloned().map(Step::Map);
        let steps = map.chain([Step::Scan(op, inclusion)]).collect();
        write(
            host,
            &WriteRequest {
                what: Scan::NAME,
                input: &args.input,
                output: &args.output,
                steps: Steps::Known(steps),
                made: None,
            },
        )
    }

    say_written!("scanned");
}
