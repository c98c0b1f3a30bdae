//! Options that many verbs have, each defined once: its name, type, help and default.
//!
//! Contract: pure definitions and readers of single values, no I/O. Sizes have units (`4GiB`,
//! `4GB`). The environment, the file and the defaults set the values that no option sets (see
//! [`outcore_io::config`]). The command reads them as flags and Python as keywords; both read every
//! value here.

pub mod lines;
pub mod tables;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum, ValueHint};
use outcore::IoMode;
use outcore::key::RecordFormat;
use outcore::key::column::{listed, quoted};
use outcore::passes::JobOption;
use outcore::primitives::PartTotals;
use outcore::{Error, Result};
use outcore_front::inputs::is_stdout;
use outcore_front::records::TypeRequest;
use outcore_front::resources::ResourcesRequest;
use outcore_front::text::output::PlainFor;
use outcore_front::text::said_twice;
use outcore_front::what::What;
use outcore_io::config::Flags;
use outcore_io::stop::Stop;
use outcore_io::units;

/// The seed of verbs without an option for it. It never changes the output.
pub const SEED: u64 = 1;

/// Resources of any job: memory, threads and the I/O mode.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Resources")]
pub struct ResourceArgs {
    /// Memory to use, such as 2GiB; resident memory exceeds it by at most 64 MiB. Default: half
    /// of the free memory
    #[arg(long = "memory", value_name = "SIZE", value_parser = units::parse_bytes)]
    pub memory_bytes: Option<u64>,
    /// Number of compute threads. Default: one for each processor
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// I/O mode: direct (O_DIRECT), buffered, or auto (direct where the file system supports it).
    /// Default: auto
    #[arg(long, value_name = "MODE")]
    pub io: Option<IoMode>,
}

/// The drives.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Resources")]
pub struct DriveArgs {
    /// A directory on a drive; repeat for more drives. outcore spreads scratch, and an output with
    /// {drive} in its name, over all of them. Default: scratch goes next to the output, or to
    /// /var/tmp if the output is in memory
    #[arg(long = "drive", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub drives: Vec<PathBuf>,
    /// File that describes the drives, as written by `outcore drives probe`
    #[arg(long = "drives", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub drives_file: Option<PathBuf>,
}

/// The room for scratch.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Resources")]
pub struct ScratchArgs {
    /// Limit on scratch space, over all drives together. Default: all free space
    #[arg(long = "scratch-limit", value_name = "SIZE", value_parser = units::parse_bytes)]
    pub limit_bytes: Option<u64>,
}

/// The resources of a job, and a record of its reads and writes.
#[derive(Debug, Clone, Default, Args)]
pub struct JobArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub resources: ResourceArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub drives: DriveArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub scratch: ScratchArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub record_io: RecordingArgs,
}

impl JobArgs {
    /// The resources of the job, with this seed.
    ///
    /// # Errors
    /// As [`resources_request`].
    pub fn request(&self, seed: u64) -> Result<ResourcesRequest> {
        let limit_bytes = self.scratch.limit_bytes;
        resources_request(&self.resources, &self.drives, limit_bytes, seed)
    }
}

/// The type of the records.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Records")]
pub(crate) struct TypeArgs {
    /// Record type: u8..u128, i8..i64, f32 or f64, with the suffix `be` for big-endian (u64be); a
    /// vector such as f32x32; bytes such as bytes16; a NumPy dtype such as <u8, uint64 (u8 alone is
    /// one byte) or "[('id', '<u4'), ('name', '|S8')]"; or gensort (100 bytes, of which the first
    /// 10 are the key). .npy files carry their type
    #[arg(long = "type", value_name = "TYPE", conflicts_with = "record_bytes")]
    pub format: Option<RecordType>,
    /// Record size in bytes, for records without a type of their own
    #[arg(long = "record", value_name = "SIZE", value_parser = parse_record_bytes)]
    pub record_bytes: Option<usize>,
    /// Sort key: OFFSET:LEN[:TYPE][:desc] in bytes, where TYPE is bytes (the default) or a number
    /// type; for structured .npy the name of a field, NAME[:desc]. Repeat for secondary keys;
    /// most significant first. Default: the whole record
    #[arg(long = "key", value_name = "KEY")]
    pub keys: Vec<String>,
}

impl TypeArgs {
    /// Whether these options say that the input is records.
    pub(crate) fn is_typed(&self) -> bool {
        self.format.is_some() || self.record_bytes.is_some()
    }

    /// The kind that decides which options apply to records of the kind `what`: an array if the
    /// records may have named fields.
    pub(crate) fn kind_of(&self, what: What) -> What {
        let has_fields = match &self.format {
            Some(RecordType::Described { descr, .. }) => descr.starts_with('['),
            _ => false,
        };
        match has_fields || what == What::Array {
            true => What::Array,
            false => What::Records,
        }
    }

    /// These options, with the fields in the lists of `--by` as keys.
    ///
    /// # Errors
    /// Usage: keys are given twice; an order that does not exist for fields.
    pub(crate) fn ordered_by(&self, by: &[String]) -> Result<Self> {
        if by.is_empty() {
            return Ok(self.clone());
        }
        if !self.keys.is_empty() {
            return Err(Error::usage(
                "read arguments",
                "keys are given both with --key and with --by",
            )
            .hint("use --by for fields by their names, --key for bytes of a record"));
        }
        let keys = by.iter().flat_map(|list| listed(list)).map(field_key);
        Ok(TypeArgs {
            keys: keys.collect::<Result<_>>()?,
            ..self.clone()
        })
    }

    /// As [`TypeArgs::to_request`], for a verb that needs no keys.
    pub(crate) fn to_request_without_keys(&self) -> TypeRequest {
        let mut request = self.to_request();
        if request.record_bytes.is_some() && request.keys.is_empty() {
            request.keys.push("0:1".to_owned());
        }
        request
    }

    /// The options in the form of the rules for records.
    pub(crate) fn to_request(&self) -> TypeRequest {
        let (format, descr) = match self.format.clone() {
            Some(RecordType::Named(format)) => (Some(format), None),
            Some(RecordType::Described { descr, row_shape }) => (None, Some((descr, row_shape))),
            None => (None, None),
        };
        TypeRequest {
            format,
            descr,
            record_bytes: self.record_bytes,
            keys: self.keys.clone(),
        }
    }
}

/// The treatment of rows that cannot be read, and of lines without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Fail, and name the first
    Fail,
    /// Leave them out, and count them
    Skip,
    /// Tables: read values that do not fit as null, and count them
    Null,
}

/// Null texts of CSV and bad rows, for verbs that only read tables.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "CSV and JSON lines")]
pub(crate) struct BadRowArgs {
    /// Texts of CSV fields that are null, in addition to empty fields, as in NA,NULL. `pandas` is
    /// the list of pandas.read_csv
    #[arg(long, value_name = "TEXT,...", value_delimiter = ',')]
    pub null: Vec<String>,
    /// What to do with rows of CSV and JSON lines that do not have the columns, or values of their
    /// types
    #[arg(long, value_name = "WHAT", value_enum)]
    pub on_error: Option<OnError>,
}

/// The type of a record, given as text.
#[derive(Debug, Clone)]
pub(crate) enum RecordType {
    /// A name, or a NumPy code.
    Named(RecordFormat),
    /// A dtype in the form of the header of a `.npy` file.
    Described {
        /// The `descr` of the header.
        descr: String,
        /// The shape of a row, if a record is an array.
        row_shape: Vec<u64>,
    },
}

impl FromStr for RecordType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // NumPy writes an array of a dtype as `(descr, (2, 3))`.
        let array = text
            .strip_prefix('(')
            .and_then(|rest| rest.strip_suffix("))"));
        if let Some((descr, shape)) = array.and_then(|inside| inside.rsplit_once(", (")) {
            let sizes = shape.split(',').map(str::trim);
            let sizes = sizes.filter(|size| !size.is_empty()).map(str::parse);
            let row_shape = sizes.collect::<std::result::Result<_, _>>().map_err(|_| {
                Error::usage(
                    "read dtype",
                    format!("`({shape})` is not the shape of an array"),
                )
                .hint("write whole numbers separated by commas")
            })?;
            let descr = descr.to_owned();
            return Ok(RecordType::Described { descr, row_shape });
        }
        if text.starts_with(['[', '\'']) {
            return Ok(RecordType::Described {
                descr: text.to_owned(),
                row_shape: Vec::new(),
            });
        }
        RecordFormat::parse_type(text).map(RecordType::Named)
    }
}

/// The name of standard output.
pub(crate) const STDOUT: &str = "-";

/// A field and its order, in the form of keys of records.
fn field_key(text: &str) -> Result<String> {
    let (name, orders) = match quoted(text) {
        Some((name, "")) => (name, None),
        Some((name, rest)) => (name, Some(rest.strip_prefix(':').unwrap_or(rest))),
        None => match text.split_once(':') {
            Some((name, orders)) => (name.to_owned(), Some(orders)),
            None => (text.to_owned(), None),
        },
    };
    let mut is_descending = None;
    for word in orders.into_iter().flat_map(|orders| orders.split(':')) {
        let said = match word {
            "desc" | "r" => is_descending.replace(true),
            "asc" => is_descending.replace(false),
            _ => {
                let cause = match word {
                    "" => format!("nothing follows a colon in the key `{text}`"),
                    word => format!("`{word}` is not an order of the field `{name}`"),
                };
                return Err(Error::usage("read arguments", cause)
                    .hint("write asc or desc: fields have their types, and no nulls"));
            }
        };
        if said.is_some() {
            return Err(said_twice(text, "asc or desc"));
        }
    }
    Ok(match is_descending {
        Some(true) => format!("{name}:desc"),
        Some(false) | None => name,
    })
}

/// Where lines or records come from and go to.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FileArgs {
    /// Files to read, in order, as one input: lines, tables, .npy, or raw records with --type; - is
    /// standard input, which is the default. Compressed lines (gzip, zstd, bzip2 or xz, detected
    /// by content) are decompressed
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,
    /// Output file; lines are compressed if its name ends in .gz, .zst, .bz2 or .xz. Default:
    /// standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub force: bool,
}

impl FileArgs {
    /// Whether standard output carries the result.
    pub(crate) fn is_to_stdout(&self) -> bool {
        self.output.as_deref().is_none_or(is_stdout)
    }
}

/// Whether a job keeps a journal.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ResumeArgs {
    /// Keep a journal. If the job is killed or fails, the same command with --resume continues it
    /// and writes the same bytes. For lines, records and tables that go from files to one file.
    /// outcore keeps what it has done for 7 days (OUTCORE_RESUME_DAYS)
    #[arg(long, help_heading = "Files")]
    pub(crate) resume: bool,
}

/// Whether a job in passes keeps its state.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct PassResumeArgs {
    /// Keep the state after passes, next to the output. If the job is killed or fails, the same
    /// command with --resume continues after the last state and writes the same bytes. outcore
    /// keeps the state for 7 days (OUTCORE_RESUME_DAYS)
    #[arg(long, help_heading = "Files", requires = "output")]
    pub(crate) resume: bool,
}

impl PassResumeArgs {
    /// The verb `name` and its `options`, if the job keeps its state.
    pub(crate) fn of(self, name: &str, mut options: Vec<JobOption>) -> Option<Vec<JobOption>> {
        options.insert(
            0,
            JobOption {
                name: "command",
                value: name.to_owned(),
            },
        );
        self.resume.then_some(options)
    }
}

/// Whether the output is checked before it appears.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct VerifyOutputArgs {
    /// Before the output gets its name, read it back from its drive, and compare its number of
    /// items, checksum and order with those of the input. If they differ, there is no output. For
    /// lines and records that go from files to a plain file or shards
    #[arg(long, help_heading = "Files", conflicts_with = "resume")]
    pub(crate) verify_output: bool,
}

/// Whether the checksum of the output is reported.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ChecksumArgs {
    /// Report the checksum of the items as `verify` computes it for records, and `verify --lines`
    /// for lines, from the same pass: the output is not read again. A record of CSV counts as one
    /// line, and a header does not count. For lines and records of up to 1 MiB
    #[arg(long, help_heading = "Files", conflicts_with_all = ["resume", "verify_output"])]
    pub(crate) checksum: bool,
}

/// A checksum in a report.
pub(crate) fn checksum_text(totals: PartTotals) -> String {
    format!("{:x}", totals.checksum)
}

/// The option for which a job needs plain files, if one is given.
pub(crate) fn plain_for(journal: ResumeArgs, check: VerifyOutputArgs) -> Option<PlainFor> {
    match (journal.resume, check.verify_output) {
        (true, _) => Some(PlainFor::Resume),
        (_, true) => Some(PlainFor::VerifyOutput),
        _ => None,
    }
}

/// Whether plans are shown.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Plan")]
pub struct PlanArgs {
    /// Print the plan, then run
    #[arg(long)]
    pub explain: bool,
}

/// A record of what the run itself reads and writes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Recording")]
pub struct RecordingArgs {
    /// Record every read, write and sync of this run, with times, in FILE (an I/O trace; see
    /// docs/formats/io-trace.md). FILE appears only if the run succeeds; an existing file needs
    /// --force
    #[arg(long = "record-io", value_name = "FILE", value_hint = ValueHint::FilePath)]
    trace: Option<PathBuf>,
}

impl RecordingArgs {
    /// The file for the trace.
    pub fn path(&self) -> Option<&Path> {
        self.trace.as_deref()
    }
}

/// The options of a run on graphs or vectors: its resources, plans and trace.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub resources: ResourceArgs,
    /// Replace existing outputs
    #[arg(long, help_heading = "Files")]
    pub force: bool,
    #[command(flatten)]
    pub plan: PlanArgs,
    #[command(flatten)]
    pub record_io: RecordingArgs,
}

/// The resources of a run whose only output is a trace, and what it shows.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub record_io: RecordingArgs,
    /// Replace an existing trace
    #[arg(long, help_heading = "Recording", requires = "trace")]
    pub force: bool,
}

/// A record's size in bytes, as a plain number or with a unit.
fn parse_record_bytes(text: &str) -> Result<usize> {
    let bytes = units::parse_bytes(text)?;
    usize::try_from(bytes).map_err(|_| {
        Error::usage("read record size", format!("{bytes} bytes")).hint("a record has at most 1MiB")
    })
}

/// A number of records: `1000000`, `1_000_000` or `1e6`.
pub(crate) fn parse_count(text: &str) -> Result<u64> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let (mantissa, exponent) = digits
        .split_once(['e', 'E'])
        .unwrap_or((digits.as_str(), "0"));
    let is_whole = |text: &str| !text.is_empty() && text.bytes().all(|sign| sign.is_ascii_digit());
    let number = mantissa
        .parse::<u64>()
        .ok()
        .filter(|_| is_whole(mantissa) && is_whole(exponent));
    let power = exponent.parse().ok().and_then(|e| 10_u64.checked_pow(e));
    number
        .zip(power)
        .and_then(|(number, power)| number.checked_mul(power))
        .ok_or_else(|| {
            let is_count = is_whole(mantissa) && is_whole(exponent);
            let invalid = |why| Error::usage("read count", format!("invalid count `{text}`{why}"));
            match (is_count, text.strip_suffix('%')) {
                (true, _) => invalid(": it is larger than 2^64 - 1").hint("give a smaller number"),
                (false, Some(_)) => {
                    invalid("").hint("a share of the input is `outcore sample --rate 0.1`")
                }
                (false, None) if text.contains('/') => {
                    invalid("").hint("give the number alone, as in -n 3")
                }
                (false, None) if text.starts_with('-') => {
                    invalid(": it is negative").hint("give a number from 0 on")
                }
                (false, None) => invalid("").hint("write 1000000, 1_000_000 or 1e6"),
            }
        })
}

/// The number of records to take: a number, or all but a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordCount {
    /// The number.
    pub count: u64,
    /// Whether this many are left out instead of taken.
    pub is_rest: bool,
}

/// A number as in [`parse_count`]. With a minus it means all but this many at the end, as in GNU
/// `head`.
pub(crate) fn parse_head_count(text: &str) -> Result<RecordCount> {
    let all_but = text.strip_prefix('-');
    Ok(RecordCount {
        count: parse_count(all_but.unwrap_or(text))?,
        is_rest: all_but.is_some(),
    })
}

/// The same for `tail`. With a plus, as in GNU `tail`, the number is that of the first record,
/// counted from 1. A minus has no effect.
pub(crate) fn parse_tail_count(text: &str) -> Result<RecordCount> {
    let from = text.strip_prefix('+');
    let count = parse_count(from.or(text.strip_prefix('-')).unwrap_or(text))?;
    Ok(RecordCount {
        count: match from {
            Some(_) => count.saturating_sub(1),
            None => count,
        },
        is_rest: from.is_some(),
    })
}

/// The resources of a job: the options here, then the environment, the file and the defaults. The
/// seed never changes the output.
///
/// # Errors
/// Usage: a name that is not that of a drives file.
pub fn resources_request(
    resources: &ResourceArgs,
    drive_args: &DriveArgs,
    scratch_limit_bytes: Option<u64>,
    seed: u64,
) -> Result<ResourcesRequest> {
    let mut drives = drive_args.drives.clone();
    if let Some(file) = &drive_args.drives_file {
        if file.extension().is_none_or(|end| end != "toml") {
            return Err(
                Error::usage("read drives file", "its name must end in .toml")
                    .path(file)
                    .hint("--drives takes a file; name a directory with --drive"),
            );
        }
        drives.push(file.clone());
    }
    let flags = Flags {
        memory_bytes: resources.memory_bytes,
        threads: resources.threads,
        io: resources.io,
        drives,
        scratch_limit_bytes,
    };
    Ok(ResourcesRequest {
        flags,
        seed,
        stop: Stop::default(),
    })
}

/// The same for a verb that can only set the memory.
///
/// # Errors
/// As [`resources_request`].
pub(crate) fn memory_request(memory_bytes: Option<u64>) -> Result<ResourcesRequest> {
    let resources = ResourceArgs {
        memory_bytes,
        ..ResourceArgs::default()
    };
    resources_request(&resources, &DriveArgs::default(), None, SEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_a_name_or_what_numpy_writes_for_a_dtype() {
        let request = |text: &str| {
            let format = Some(text.parse().unwrap());
            let args = TypeArgs {
                format,
                ..TypeArgs::default()
            };
            args.to_request()
        };
        assert_eq!(request("u64").format.unwrap().record_bytes(), 8);
        let fields = "[('id', '<u4'), ('at', '<i8', (2,))]";
        assert_eq!(request(fields).descr, Some((fields.to_owned(), Vec::new())));
        let row = request("('<f4', (3, 2))").descr;
        assert_eq!(row, Some(("'<f4'".to_owned(), vec![3, 2])));
        assert!("('<f4', (x,))".parse::<RecordType>().is_err());
        assert!("u65".parse::<RecordType>().is_err());
    }

    #[test]
    fn counts_are_read_with_groups_and_powers() {
        assert_eq!(parse_count("1_000").unwrap(), 1000);
        assert_eq!(parse_count("25e5").unwrap(), 2_500_000);
        for text in ["", "e6", "1.5", "-3", "1e20", "many"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }
}
