//! The options of `outcore-lab`, defined once: parsing, help, man pages and completions use them.
//!
//! Contract: pure definitions. The options of each command are defined next to its code, in
//! [`outcore_bench::args`] and [`outcore_sim::cli`].

use clap::{Parser, Subcommand};
use outcore_bench::args::{BenchCommand, ReplayArgs};
use outcore_sim::cli::SimCommand;
use outcore_terminal::common::Common;
use outcore_terminal::docs::{CompletionsArgs, ManArgs};

const AFTER_HELP: &str = "\
First steps:
  outcore bench io /mnt/nvme0 -o report.html      what a drive sustains, in about a minute
  outcore replay trace.csv.gz --summary           what is in a block trace
  outcore sim run --preset pm9a3                  a drive that you do not have

`outcore bench`, `outcore replay` and `outcore sim` start this program with the same arguments.

Exit codes and settings are those of outcore; see `outcore --help`.";

/// Measure drives, replay block traces on them, and simulate SSDs
#[derive(Debug, Parser)]
#[command(name = "outcore-lab", version, after_long_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Benchmark drives, and outcore on them: tables, charts and an HTML report
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Replay a block trace on drives, or summarise it
    ///
    /// Requests go to files that the command makes and removes again, or to an empty device.
    Replay(Box<ReplayArgs>),
    /// Simulate SSDs, arrays of SSDs, and a GPU inside the storage
    #[command(subcommand)]
    Sim(Box<SimCommand>),
    Completions(CompletionsArgs),
    Man(ManArgs),
}
