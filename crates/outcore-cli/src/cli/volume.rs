//! The flags of `volume create`, `status` and `scrub`.
//!
//! Contract: definitions only.

use std::path::PathBuf;

use clap::Subcommand;
use outcore_io::units;

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
}
