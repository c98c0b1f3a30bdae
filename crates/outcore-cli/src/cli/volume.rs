//! The flags of `volume` and of the commands below it.
//!
//! Contract: definitions only. [`outcore_front::volumes`] defines what a name means.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use outcore_front::inputs::is_stdout;
use outcore_io::units;

use super::RecordingArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Create an empty volume over the directories of a drives file
    ///
    /// Makes a folder `outcore-volume` in each directory.
    Create {
        /// Stripe size: a power of two from 4KiB to 4MiB
        #[arg(long = "stripe", value_name = "SIZE", default_value = "1MiB", value_parser = units::parse_bytes)]
        stripe_bytes: u64,
    },
    /// Show the drives of a volume: used and free space, and which are missing
    Status,
    /// Read all datasets, or those named, and report damage
    ///
    /// Exits with 4 if anything is damaged; drive, file and offset go to standard output. Without
    /// names, orphans (files that belong to no dataset) are reported too. Damaged or lost labels
    /// and copies of manifests are restored from other drives.
    Scrub {
        /// Datasets to read. Default: all
        #[arg(value_name = "@NAME")]
        names: Vec<PathBuf>,
        /// Remove orphans: files that belong to no dataset
        #[arg(long, alias = "remove-strays", conflicts_with = "names")]
        remove_orphans: bool,
    },
    Put(PutArgs),
    Get(GetArgs),
    Ls(LsArgs),
    Rm(RmArgs),
    Cp(CpArgs),
}

impl VolumeCommand {
    /// Whether standard output gets a dataset.
    pub(crate) fn takes_stdout(&self) -> bool {
        matches!(self, VolumeCommand::Get(args) if is_stdout(&args.target))
    }
}

const PUT_EXAMPLES: &str = "\
Examples:
  outcore volume put keys.bin @keys --volume drives.toml
  outcore volume put images/ @images --volume drives.toml
  producer | outcore volume put - @log --volume drives.toml";

const GET_EXAMPLES: &str = "\
Examples:
  outcore volume get @keys keys.bin --volume drives.toml
  outcore volume get @images images --volume drives.toml
  outcore volume get @images/cat/0001.png - --volume drives.toml | display";

/// Store a file, a directory or standard input as a dataset
///
/// The dataset is striped over all drives, checksummed and sealed. A directory is packed with an
/// index, so that its files can be read by name; symbolic links stay links, and sockets, pipes
/// and devices are left out and counted. Permissions and times are kept.
#[derive(Debug, Args)]
#[command(after_long_help = PUT_EXAMPLES)]
pub(crate) struct PutArgs {
    /// A file, a directory, or - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) source: PathBuf,
    /// The dataset
    #[arg(value_name = "@NAME")]
    pub(crate) name: PathBuf,
    /// Replace a dataset of that name
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// Read a dataset, or one file of a packed directory
#[derive(Debug, Args)]
#[command(after_long_help = GET_EXAMPLES)]
pub(crate) struct GetArgs {
    /// The dataset, or @NAME/FILE for a file packed in it
    #[arg(value_name = "@NAME")]
    pub(crate) name: PathBuf,
    /// The file to write, the directory to make, or - for standard output
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) target: PathBuf,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// List the datasets of a volume, or the files packed in one
///
/// Marks a dataset that needs a missing drive.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// A packed directory to look into
    #[arg(value_name = "@NAME")]
    pub(crate) name: Option<PathBuf>,
}

/// Remove datasets from a volume
#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// The datasets
    #[arg(required = true, value_name = "@NAME")]
    pub(crate) names: Vec<PathBuf>,
}

/// Copy between files and datasets, or from one dataset to another
#[derive(Debug, Args)]
pub(crate) struct CpArgs {
    /// A file, or @NAME
    #[arg(value_name = "FROM", value_hint = ValueHint::AnyPath)]
    pub(crate) from: PathBuf,
    /// A file, or @NAME
    #[arg(value_name = "TO", value_hint = ValueHint::AnyPath)]
    pub(crate) to: PathBuf,
    /// Replace what exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}
