//! The options and the reports of the verbs on the machine.
//!
//! Contract: each option and each field is defined here alone, with its name, type, default and
//! help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use outcore::IoMode;
use outcore_io::units;

use crate::report::{JobSummary, Listed, Place, report};

/// Measure bandwidth, IOPS by queue depth, alignment, features and shared limits of drives
///
/// Measures each drive alone, then all together, on a file in a private directory that is removed
/// afterwards. The result is a drives file, which --drives takes.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// A directory on each drive, or a drives file (.toml) to measure again
    #[arg(required = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dirs: Vec<PathBuf>,
    /// File to write, for --drives; its name ends in .toml
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE")]
    pub(crate) io: Option<IoMode>,
    /// Size of the file on each drive, at most a quarter of the free space
    #[arg(long = "size", value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_bytes)]
    pub(crate) file_bytes: u64,
    /// Time for each step; there are about seven steps per drive
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::parse_duration)]
    pub(crate) step: Duration,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// List scratch directories (.outcore-*) and say whether a running job owns them
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Directories to search, and the directories directly inside them, or places of a store such
    /// as s3://bucket. Default: the configured drives, or the current directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dirs: Vec<PathBuf>,
}

/// Remove scratch directories (.outcore-*) that no running job owns
///
/// Every job does this by itself in the directories that it uses. If a killed job was
/// publishing several files, that is finished first. Jobs that can be resumed stay, unless
/// --resumable is given. In a store, uploads of ended jobs are aborted.
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Also remove what jobs that can be resumed have left
    #[arg(long)]
    pub(crate) resumable: bool,
    /// Directories to search, and the directories directly inside them, or places of a store such
    /// as s3://bucket. Default: the configured drives, or the current directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dirs: Vec<PathBuf>,
}

/// List every setting and where it comes from
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {}

report! {
    /// A rate with a number of requests in flight.
    pub(crate) struct RateAtDepth {
        /// Requests in flight.
        depth: u32,
        /// Bytes or requests per second.
        per_s: u64,
    }
}

report! {
    /// A drive that was measured.
    pub(crate) struct MeasuredDrive {
        /// Its name.
        name: String,
        /// A directory on the drive.
        dir: Place,
        /// Bytes per second of sequential reads.
        read_bytes_per_s: Option<u64>,
        /// Bytes per second of sequential writes.
        write_bytes_per_s: Option<u64>,
        /// Random reads of 4 KiB per second at the best depth.
        read_iops: Option<u64>,
        /// The smallest number of requests in flight that reaches nearly all of the bandwidth.
        depth: Option<u32>,
        /// Whether direct I/O works in the directory.
        is_direct: bool,
        /// Alignment of offsets and lengths for direct I/O.
        alignment_bytes: Option<u64>,
        /// Alignment of buffers for direct I/O.
        memory_alignment_bytes: Option<u64>,
        /// Features of the system, such as `io_uring`.
        features: Vec<String>,
        /// The group of drives that share a limit.
        group: Option<String>,
        /// Sequential reads of 1 MiB: bytes per second (`per_s`) by requests in flight (`depth`).
        read_by_depth: Vec<RateAtDepth>,
        /// Random reads of 4 KiB: reads per second (`per_s`) by requests in flight (`depth`).
        iops_by_depth: Vec<RateAtDepth>,
        /// Size of the file that was measured.
        file_bytes: u64,
        /// Whether the file is in memory.
        is_in_memory: bool,
        /// An earlier name of the same drive.
        same_as: Option<String>,
        /// Doubts about these figures.
        notes: Vec<String>,
    }
}

report! {
    /// The bandwidth of all drives at the same time.
    pub(crate) struct TogetherRates {
        /// Bytes per second of reads.
        read_bytes_per_s: u64,
        /// Bytes per second of writes.
        write_bytes_per_s: u64,
        /// Reads as a share of the sum of the single drives.
        read_share: f64,
        /// Writes as a share of the sum of the single drives.
        write_share: f64,
    }
}

report! {
    /// A limit that drives share.
    pub(crate) struct DriveGroup {
        /// Its name.
        name: String,
        /// Bytes per second of reads of all its drives.
        read_bytes_per_s: Option<u64>,
        /// Bytes per second of writes of all its drives.
        write_bytes_per_s: Option<u64>,
    }
}

report! {
    /// The measurements of drives.
    pub(crate) struct ProbeReport {
        [used: JobSummary],
        /// The drives; each is an event `drive`.
        members: Listed<MeasuredDrive>,
        /// All drives at the same time; none if there is only one. `read_bytes_per_s`,
        /// `write_bytes_per_s`, and these as shares of the sum of the single drives (`read_share`,
        /// `write_share`).
        together: Option<TogetherRates>,
        /// Limits that drives share: `name`, `read_bytes_per_s` and `write_bytes_per_s`.
        groups: Vec<DriveGroup>,
        /// The file that was written; none if the result went to standard output.
        output: Option<Place>,
        /// The drives file, as text.
        drives_file: String,
        /// The measurements as a table for people.
        text: String,
    }
}

report! {
    /// A job that can be resumed.
    pub(crate) struct ResumableJob {
        /// The command that continues it.
        command: String,
        /// The time since its last checkpoint.
        age_seconds: Option<u64>,
        /// The part of the job that is done, of 100.
        done_percent: Option<u64>,
    }
}

report! {
    /// A directory or an upload that a job has made for itself.
    pub(crate) struct ScratchEntry {
        /// The directory, or the object of the upload.
        path: Place,
        /// Whether a running job uses it.
        in_use: bool,
        /// The input file, if the only copy of some of its parts is here.
        kept_for: Option<Place>,
        /// The job that can be resumed with it: `command`, `age_seconds` and `done_percent`.
        resume: Option<ResumableJob>,
        /// The reason why it is never removed.
        left_alone: Option<String>,
        /// Bytes that its files occupy.
        bytes: u64,
    }
}

report! {
    /// The scratch on some drives.
    pub(crate) struct ScratchListing {
        [used: JobSummary],
        /// Directories and uploads; each is an event `scratch`.
        directories: Listed<ScratchEntry>,
    }
}

report! {
    /// A directory or an upload that was removed.
    pub(crate) struct RemovedScratch {
        /// The directory, or the object of the upload.
        path: Place,
    }
}

report! {
    /// The scratch that was removed.
    pub(crate) struct ScratchRemoval {
        [used: JobSummary],
        /// Directories and uploads; each is an event `removed`.
        directories: Listed<RemovedScratch>,
    }
}

report! {
    /// A setting.
    pub(crate) struct Setting {
        /// Its name in the file of settings.
        key: String,
        /// The value, written as in that file.
        value: String,
        /// The source of the value.
        source: String,
    }
}

report! {
    /// All settings.
    pub(crate) struct Settings {
        [used: JobSummary],
        /// The settings; each is an event `setting`.
        settings: Listed<Setting>,
        /// The file that was read; none if no file exists.
        file: Option<Place>,
    }
}
