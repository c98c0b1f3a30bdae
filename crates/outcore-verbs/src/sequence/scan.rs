//! `scan`: prefix sums, products, minima and maxima.
//!
//! Contract: number i of the output combines the numbers up to i, in their own type.

use clap::{Args, ValueEnum};
use outcore::Result;
use outcore::dataset::Step;
use outcore::primitives::Inclusion;
use outcore::primitives::tables::ScanOp;

use super::args::{MapStep, PassArgs, has_files};
use super::write::{Pass, Steps};

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
    pub(crate) files: PassArgs,
    #[command(flatten)]
    pub(crate) step: MapStep,
    /// Exclusive scan: start with the identity, and leave each number out of its own result
    #[arg(long, help_heading = "Steps")]
    pub(crate) exclusive: bool,
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

has_files!(ScanArgs);

impl Pass for Scan {
    const NAME: &'static str = "scan";
    const DONE: &'static str = "scanned";
    type Args = ScanArgs;

    fn steps(args: &ScanArgs) -> Result<Steps<'_>> {
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
        let steps = map.chain([Step::Scan(op, inclusion)]);
        Ok(Steps::Known(steps.collect()))
    }
}
