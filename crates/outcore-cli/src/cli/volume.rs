//! The flags of `volume create`, `status` and `scrub`.
//!
//! Contract: definitions only.

use std::path::PathBuf;

use clap::Subcommand;
use outcore::units;

#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Make an empty volume over the directories of a drives file
    ///
    /// A folder `outcore-volume` is made in each directory. For example:
    /// outcore drives probe /mnt/nvme0 /mnt/nvme1 -o drives.toml;
    /// outcore volume create --volume drives.toml
    Create {
        /// Bytes of a stripe: a power of two from 4KiB to 4MiB
        #[arg(long = "stripe", value_name = "SIZE", default_value = "1MiB", value_parser = units::parse_bytes)]
        stripe_bytes: u64,
    },
    /// Show the drives of a volume, their room and what is on them, and which are missing
    Status,
    /// Read every dataset, or those named, and name what is not what was written
    ///
    /// Exits with 4 if something is damaged: drive, file and offset are on standard output. So are the
    /// files that belong to no dataset, if no datasets are named. Labels and copies of manifests that are
    /// damaged or lost are written anew from those on other drives.
    Scrub {
        /// Datasets; all if none is named
        #[arg(value_name = "@NAME")]
        names: Vec<PathBuf>,
        /// Remove the files that belong to no dataset
        #[arg(long, alias = "remove-strays", conflicts_with = "names")]
        remove_orphans: bool,
    },
}
