//! Replays a trace file of any kind: the engine's own, JSON Lines, or a block trace of another
//! tool.
//!
//! Contract: the content decides the kind. Options that do not apply to a kind are ignored, except
//! that a unit for the times of a block trace is an error for other kinds. If the array has as many
//! drives as were recorded, files stay on their drives; otherwise they are striped, and the windows
//! of requests grow with the number of drives, as in the engine.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use outcore_io::drive::paths;
use outcore_io::units::parse_bytes;
use outcore_io::{Error, Result};
use outcore_traces::Format;
use outcore_traces::io_trace::{MAGIC, Reader};

use super::block::{BlockOptions, replay_block};
use super::recorded::{RecordedOptions, replay_recorded};
use super::{ArrayConfig, OPERATION, Placement, ReplayReport, read_trace, replay};
use crate::config::DriveConfig;
use crate::fit::Fit;
use crate::run::Watch;

/// The files that a replay stripes over all drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stripe {
    /// All, in units of 1 MiB, if the number of drives differs from the recorded one; otherwise
    /// none.
    #[default]
    Auto,
    /// The files that the job both writes and reads. Inputs and outputs stay whole, each on one
    /// drive, as the engine stores them. Devices of other traces stay whole as well.
    Scratch,
    /// All, in units of this many bytes.
    Unit(u64),
}

impl FromStr for Stripe {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "auto" => Stripe::Auto,
            "none" => Stripe::Scratch,
            size => Stripe::Unit(parse_bytes(size)?),
        })
    }
}

/// How a trace file is replayed.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Number of drives in the array; if absent, as many as were recorded, or one.
    pub drives: Option<u32>,
    /// Bytes per second that all drives together can move; 0 means no limit.
    pub shared_bytes_per_s: u64,
    /// Which files are striped over the drives.
    pub stripe: Stripe,
    /// Share of every drive that holds data before the replay.
    pub fill: f64,
    /// Treatment of requests that do not fit on the drives.
    pub fit: Fit,
    /// Factor for the recorded number of requests in flight (the engine's traces). If absent, the
    /// number of drives divided by the recorded number.
    pub window_scale: Option<f64>,
    /// Computation time as a multiple of the recorded one (the engine's traces).
    pub cpu_scale: f64,
    /// How a block trace is read and played.
    pub block: BlockOptions,
    /// Asked regularly whether to continue.
    pub watch: Watch,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions {
            drives: None,
            shared_bytes_per_s: 0,
            stripe: Stripe::default(),
            fill: 0.5,
            fit: Fit::Refuse,
            window_scale: None,
            cpu_scale: 1.0,
            block: BlockOptions::default(),
            watch: Watch::default(),
        }
    }
}

/// The kind of trace in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Recorded,
    JsonLines,
    Block,
}

/// The kind of the file at `path`, whose block-trace format the caller may know.
fn kind_of(path: &Path, format: Option<Format>) -> Result<Kind> {
    let mut head = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(4096).read_to_end(&mut head))
        .map_err(|error| Error::io("read trace", &error).path(path))?;
    if head.starts_with(&MAGIC) {
        return Ok(Kind::Recorded);
    }
    let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
    // A binary block trace may begin with any byte.
    let format = format.or_else(|| outcore_traces::detect(&head, head.len() < 4096));
    Ok(match format {
        Some(Format::Outcore) => Kind::Recorded,
        None if first == Some(&b'{') => Kind::JsonLines,
        _ => Kind::Block,
    })
}

/// Replays the trace at `path` on drives like `drive`.
///
/// # Errors
/// A file that is not a trace (the error has the place); invalid options; a replay that cannot end
/// (the error names what is stuck); an error from [`FileOptions::watch`].
pub fn replay_file(path: &Path, drive: DriveConfig, options: &FileOptions) -> Result<ReplayReport> {
    let kind = kind_of(path, options.block.format)?;
    if kind != Kind::Block && options.block.time_unit_ns.is_some() {
        let cause = "the trace counts nanoseconds: outcore's own, or JSON Lines";
        return Err(Error::usage(OPERATION, cause)
            .path(path)
            .hint("leave out `--time-unit`"));
    }
    let recorded = match kind {
        Kind::Recorded => Reader::open(path)?.header().drives.len().max(1) as u32,
        _ => 1,
    };
    let drives = options.drives.unwrap_or(recorded);
    let mut config = ArrayConfig::new(drive, drives);
    config.shared_bytes_per_s = options.shared_bytes_per_s;
    config.fill = options.fill;
    config.fit = options.fit;
    config.watch = options.watch.clone();
    config.placement = match options.stripe {
        Stripe::Unit(stripe_bytes) => Placement::Striped { stripe_bytes },
        Stripe::Scratch if kind == Kind::Recorded => Placement::Whole,
        Stripe::Auto if kind == Kind::Recorded && drives != recorded => config.placement,
        Stripe::Auto if kind == Kind::Block && drives != recorded => config.placement,
        Stripe::Scratch | Stripe::Auto => Placement::Recorded,
    };
    let report = match kind {
        Kind::Recorded => {
            let by_drives = (f64::from(drives) / f64::from(recorded)).max(1.0);
            let options = RecordedOptions {
                window_scale: options.window_scale.unwrap_or(by_drives),
                cpu_scale: options.cpu_scale,
            };
            replay_recorded(&config, path, options)
        }
        Kind::JsonLines => {
            let text = paths::read_text(OPERATION, path)?;
            let trace = read_trace(&text).map_err(|error| error.path(path))?;
            replay(&config, &trace)
        }
        Kind::Block => replay_block(&config, path, &options.block),
    };
    report.map_err(|error| match error.file_path() {
        None => error.path(path),
        Some(_) => error,
    })
}
