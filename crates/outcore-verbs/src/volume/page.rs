//! The options and the reports of the verbs on volumes.
//!
//! Contract: each option and each field is defined here alone, with its name, type, default and
//! help.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore_front::volumes::Moved as Transferred;
use outcore_io::units;
use outcore_store::dataset::Throttle;

use crate::option::RecordingArgs;
use crate::report::{JobSummary, Listed, Name, Place, report};

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

/// Create an empty volume over the directories of a drives file
///
/// Makes a folder `outcore-volume` in each directory. The directories must exist: one that is
/// missing is often a drive that is not mounted.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Stripe size: a power of two from 4KiB to 4MiB
    #[arg(long = "stripe", value_name = "SIZE", default_value = "1MiB", value_parser = units::parse_bytes)]
    pub(crate) stripe_bytes: u64,
    /// How many drives may be lost: 0, or 1 at the cost of one drive's room
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1))]
    pub(crate) parity: u32,
    /// Keep a copy of everything on another drive, so that one drive may be lost
    #[arg(long, conflicts_with = "parity")]
    pub(crate) mirror: bool,
}

/// Rebuild a lost drive in another directory
///
/// Computes the contents of the drive from the other drives, verifies them, and writes them to the
/// new directory, which then takes the drive's place in the drives file. The drive keeps its name.
/// The new directory may be the same one, on a new drive that is mounted there. A command that
/// was killed continues when it is repeated.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// The drive to replace, by its name in the drives file
    #[arg(value_name = "OLD")]
    pub(crate) drive: String,
    /// The directory that takes its place, on another drive
    #[arg(value_name = "NEW", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Give up contents that no other drive can replace: all of them, if the volume has neither
    /// parity nor a mirror
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) rate: RateArgs,
}

/// Add drives to a volume
///
/// A new drive gets a label and the manifests, and the drives file names it. Datasets stay where
/// they are; new ones use the drive, in proportion to its weight. `volume rebalance` moves the
/// others. Naming a drive that is being removed cancels its removal. A command that was killed
/// continues when it is repeated.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Directories on new drives, or names that the drives file has already
    #[arg(required = true, value_name = "DRIVE", value_hint = ValueHint::DirPath)]
    pub(crate) drives: Vec<PathBuf>,
}

/// Remove a drive from a volume
///
/// Datasets that use the drive are written anew without it: from the drive, or, if it is missing,
/// from the other drives. Then the command removes its label, and its name from the drives file.
/// From the start, new datasets do not use the drive. A missing drive then does not prevent writes,
/// and outcore ignores its contents if it comes back. A command that was killed continues when it
/// is repeated; `volume add` cancels the removal of a drive that is present.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The drive to remove, by its name in the drives file
    #[arg(value_name = "DRIVE")]
    pub(crate) drive: String,
    /// Give up datasets that cannot be read without the drive, if it is missing
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) rate: RateArgs,
}

/// Move datasets so that every drive has its share by weight
///
/// Each dataset whose bytes are on the wrong drives is written anew under its name, and its old
/// files are then removed. The dataset can be read all the time. A command that was killed
/// continues when it is repeated.
#[derive(Debug, Args)]
pub(crate) struct RebalanceArgs {
    #[command(flatten)]
    pub(crate) rate: RateArgs,
}

/// A limit on the rate of a pass over datasets.
#[derive(Debug, Args)]
pub(crate) struct RateArgs {
    /// Limit on bytes per second, such as 200MB/s, so that other jobs have the rest
    #[arg(long = "limit", value_name = "RATE", value_parser = units::parse_positive_rate)]
    pub(crate) limit_bytes_per_s: Option<u64>,
}

impl RateArgs {
    /// The limit, from now on.
    pub(crate) fn throttle(&self) -> Option<Throttle> {
        self.limit_bytes_per_s.map(Throttle::new)
    }
}

/// Show the drives of a volume, and what is at risk
///
/// For each drive, it shows the directory, the bytes of datasets, the share by weight if that
/// differs, and the free bytes. Datasets that cannot be read, or whose redundancy is incomplete,
/// are listed with the drives that are missing or have lost parts of them.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {}

/// Read all datasets, or those named, and report damage
///
/// Exits with 4 if anything is damaged; drive, file and offset go to standard output. Without
/// names, orphans (files that belong to no dataset) are reported too. Damaged or lost labels and
/// copies of manifests are restored from other drives. On a volume with parity or a mirror, damaged
/// data are restored as well.
#[derive(Debug, Args)]
pub(crate) struct ScrubArgs {
    /// Datasets to read. Default: all
    #[arg(value_name = "@NAME")]
    pub(crate) names: Vec<PathBuf>,
    /// Remove orphans: files that belong to no dataset
    #[arg(long, alias = "remove-strays", conflicts_with = "names")]
    pub(crate) remove_orphans: bool,
    #[command(flatten)]
    pub(crate) rate: RateArgs,
}

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
    /// A packed directory to list
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
    pub(crate) source: PathBuf,
    /// A file, or @NAME
    #[arg(value_name = "TO", value_hint = ValueHint::AnyPath)]
    pub(crate) target: PathBuf,
    /// Replace what exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

report! {
    /// A volume that was made.
    pub(crate) struct VolumeReport {
        [used: JobSummary],
        /// The identity of the volume.
        volume: String,
        /// The number of drives that it uses.
        drive_count: u64,
        /// Bytes of a stripe.
        stripe_bytes: u64,
        /// What replaces a lost drive: `none`, `parity` or `mirror`.
        redundancy: String,
    }
}

report! {
    /// A drive that was replaced.
    pub(crate) struct ReplacementReport {
        [used: JobSummary],
        /// Its name.
        drive: String,
        /// Its new directory.
        dir: Place,
        /// Bytes that were rebuilt, without those of earlier runs.
        rebuilt_bytes: u64,
        /// Contents that were given up; each is an event `damage`.
        damages: Listed<Damage>,
    }
}

report! {
    /// Drives that joined a volume.
    pub(crate) struct AdditionReport {
        [used: JobSummary],
        /// Their names.
        added: Vec<String>,
        /// The number of datasets that `rebalance` would move.
        unequal: u64,
        /// Bytes of data of these datasets.
        unequal_bytes: u64,
    }
}

report! {
    /// A drive that left a volume.
    pub(crate) struct DriveRemovalReport {
        [used: JobSummary],
        /// Its name.
        drive: String,
        /// The number of datasets that were written anew, without those of earlier runs.
        moved: u64,
        /// Bytes of data of these datasets.
        moved_bytes: u64,
        /// Datasets that were given up; each is an event `damage`.
        damages: Listed<Damage>,
    }
}

report! {
    /// Datasets that were moved.
    pub(crate) struct RebalanceReport {
        [used: JobSummary],
        /// The number of datasets that were moved.
        moved: u64,
        /// Bytes of data of these datasets.
        moved_bytes: u64,
    }
}

report! {
    /// What one more lost drive would cost a dataset.
    pub(crate) struct DatasetRisk {
        /// The dataset.
        name: Name,
        /// Bytes of data.
        bytes: u64,
        /// `none` if it can be read without any one drive, `single` if each of `drives` holds a
        /// part of it alone, `incomplete` if its redundancy is incomplete, `unreadable` if it
        /// cannot be read.
        risk: String,
        /// The drives that are missing or have lost its file; for `single`, the drives that hold
        /// the only copy of a part.
        drives: Vec<String>,
        /// Whether `rebalance` would move it.
        is_unequal: bool,
    }
}

report! {
    /// A drive of a volume.
    pub(crate) struct DriveStatus {
        /// Its name.
        drive: String,
        /// Its directory.
        dir: Place,
        /// Whether it is present: mounted, with its label.
        is_present: bool,
        /// Bytes of datasets on it.
        used_bytes: u64,
        /// Free bytes on its file system.
        free_bytes: u64,
        /// Bytes of datasets that it would have if `rebalance` could move all of them.
        share_bytes: u64,
        /// `full` if it takes new data, `leaving` if it is being removed, `lost` if it was missing
        /// when its removal began.
        standing: String,
    }
}

report! {
    /// The state of a volume.
    pub(crate) struct VolumeStatus {
        [used: JobSummary],
        /// The drives; each is an event `drive`.
        members: Listed<DriveStatus>,
        /// The identity of the volume.
        volume: String,
        /// Bytes of a stripe.
        stripe_bytes: u64,
        /// What replaces a lost drive: `none`, `parity` or `mirror`.
        redundancy: String,
        /// The number of datasets.
        datasets: u64,
        /// The number of datasets that are damaged and cannot be read.
        damaged: u64,
        /// The number of datasets that need a missing drive.
        unreachable: u64,
        /// The number of datasets that can be read although a drive is missing, and that another
        /// missing drive would make unreadable.
        at_risk: u64,
        /// The number of files that belong to no dataset.
        orphans: u64,
        /// Bytes of these files.
        orphan_bytes: u64,
        /// The datasets and what one more lost drive would cost; each is an event `risk`.
        risks: Listed<DatasetRisk>,
        /// The number of datasets that `rebalance` would move.
        unequal: u64,
        /// Bytes of data of these datasets.
        unequal_bytes: u64,
    }
}

report! {
    /// A damaged range of bytes.
    pub(crate) struct Damage {
        /// The dataset; empty where the label of a drive is damaged.
        dataset: String,
        /// The drive.
        drive: String,
        /// The file on the drive.
        path: String,
        /// The position in the file where the damaged part begins; a checksum covers this part.
        offset_bytes: u64,
        /// Bytes of this part.
        len_bytes: u64,
        /// Whether it has been restored from other drives: labels and manifests, and the data of a
        /// volume with parity or a mirror.
        is_repaired: bool,
    }
}

report! {
    /// A file on a drive that belongs to no dataset.
    pub(crate) struct Orphan {
        /// The drive.
        drive: String,
        /// The file on the drive.
        path: Place,
        /// Its length.
        len_bytes: u64,
    }
}

report! {
    /// The result of reading all datasets.
    pub(crate) struct ScrubReport {
        [used: JobSummary],
        /// Checksum blocks and files that are damaged or cannot be read; each is an event `damage`.
        damages: Listed<Damage>,
        /// Files that belong to no dataset, since its manifest is lost; each is an event `orphan`.
        orphans: Listed<Orphan>,
        /// Bytes of orphans that were removed; none if that was not requested.
        freed_bytes: Option<u64>,
    }
}

report! {
    /// The result of a transfer between files and datasets.
    pub struct TransferSummary {
        [used: JobSummary],
        /// Bytes of data.
        bytes: u64,
        /// Files and symbolic links.
        files: u64,
        /// Sockets, pipes and devices of a directory that were left out, since they hold no data.
        left_out: u64,
    }
}

impl TransferSummary {
    /// The data that were moved, and the cost.
    pub fn of(moved: &Transferred, used: JobSummary) -> Self {
        TransferSummary {
            used,
            bytes: moved.bytes,
            files: moved.files,
            left_out: moved.left_out.count,
        }
    }

    /// The same in a line.
    pub fn headline(&self) -> String {
        format!(
            "{} in {}, {}: {}",
            units::bytes(self.bytes),
            units::counted(self.files, "file"),
            units::seconds(self.used.seconds),
            units::rate_decimal(self.bytes as f64 / self.used.seconds.max(1e-9))
        )
    }
}

report! {
    /// A dataset, or a file, a symbolic link or an empty directory packed in one.
    pub(crate) struct DatasetEntry {
        /// Its name. In names of packed files, `\xHH` replaces unprintable bytes.
        name: Name,
        /// Bytes of data.
        bytes: u64,
        /// Packed files; 1 for a file.
        files: u64,
        /// Its kind, in words.
        contents: String,
        /// Whether it is a packed directory, or an empty directory in one.
        is_directory: bool,
        /// Missing drives that hold a part of it.
        missing_drives: Vec<String>,
        /// Whether it can be read as a whole without the missing drives.
        is_readable: bool,
    }
}

report! {
    /// The datasets of a volume, or the files that are packed in one.
    pub(crate) struct VolumeListing {
        [used: JobSummary],
        /// The datasets in the order of their names, or the files packed in one dataset; each is an
        /// event `dataset`.
        entries: Listed<DatasetEntry>,
    }
}

report! {
    /// The result of removing datasets.
    pub(crate) struct RemovalReport {
        [used: JobSummary],
        /// Bytes of the drives that are free again.
        freed_bytes: u64,
        /// The number of files that belong to no dataset.
        orphans: u64,
        /// Bytes of these files.
        orphan_bytes: u64,
    }
}
