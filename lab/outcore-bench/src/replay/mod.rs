//! `outcore replay`: replays a trace of block requests on these drives.
//!
//! Contract: any format of `outcore_traces`, streamed, of any length.
//! - Requests are adapted to the array (wrapped or scaled into it, widened to 4 KiB, split), and
//!   each change is counted. Lines that cannot be read are skipped, counted and shown.
//! - Requests are released as fast as the drives complete them, with a fixed number in flight
//!   (closed loop), or at the times of the trace divided by a speed-up (open loop). outcore's own
//!   traces keep the dependencies of their threads.
//! - Writes go only to our own files, which are removed again, or to an empty device with consent.
//! - A flush makes all drives durable. A trim frees the blocks (a hole in a file, a discard on a
//!   device); later reads there cost nothing until the range is written again.
//!
//! In the open loop, latency counts from the time at which a request was due, so that a drive that
//! falls behind cannot hide it.
//!
//! Source: Kumar and Huang, "Falcon", ATC 2017: Table 2 and the replays of section 4.

mod array;
mod backlog;
mod flush_worker;
mod pace;
mod show;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use outcore::IoMode;
use outcore::{Error, Result};
use outcore_io::drive::Device;
use outcore_io::drive::os::OsDevice;
use outcore_store::striped::{Member, StripeOptions, StripedVolume};
use outcore_traces::adapt::{AdaptOptions, Adapted, Changes, Fit};
use outcore_traces::{Format, OnError, ReadOptions, Summary, TraceReader};

use crate::io::striped::member_of;
use crate::io::target::{self, Consent, Target, Whose};
use crate::watch::Watch;
use array::Array;
use backlog::Behind;
use outcore_report::Report;

/// Block size that every drive accepts.
const BLOCK_BYTES: u64 = 4096;
const OPERATION: &str = "replay trace";

/// How offsets are mapped into the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FitTo {
    /// Modulo the array's size.
    #[default]
    Wrap,
    /// In proportion; reads the trace twice.
    Scale,
}

/// The speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Speed {
    /// As fast as the drives complete requests.
    #[default]
    Max,
    /// A multiple of the recorded speed.
    Times(f64),
}

impl std::str::FromStr for Speed {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "max" {
            return Ok(Speed::Max);
        }
        let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>();
        match number
            .ok()
            .filter(|times| times.is_finite() && *times > 0.0)
        {
            Some(times) => Ok(Speed::Times(times)),
            None => Err(
                Error::usage("read speed", format!("`{text}` is not a speed"))
                    .hint("write max, or how many times as fast as recorded: 1, 2.5"),
            ),
        }
    }
}

/// Options of a replay.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// The trace; `-` is standard input.
    pub trace: PathBuf,
    /// Its format, if the content does not identify it.
    pub format: Option<Format>,
    /// Nanoseconds per unit of its times, if that differs from the format's own.
    pub time_unit_ns: Option<u64>,
    /// What to do with lines that cannot be read.
    pub on_error: OnError,
    /// Directories or devices of the array.
    pub targets: Vec<PathBuf>,
    /// Whether a device may be written.
    pub is_write_ok: bool,
    /// Largest size of the file on each drive.
    pub file_bytes: u64,
    /// Direct or buffered.
    pub io: IoMode,
    /// The speed.
    pub speed: Speed,
    /// Maximum number of requests in flight; by default 32 per drive with [`Speed::Max`].
    pub depth: Option<usize>,
    /// How offsets are mapped into the array.
    pub fit: FitTo,
    /// Number of equal parts of the array, which the trace's devices take round-robin.
    pub regions: u32,
    /// Stripe size over the drives.
    pub stripe_bytes: u64,
    /// Requests are split into pieces of at most this size.
    pub request_bytes_max: u64,
    /// Stop after this many requests of the trace.
    pub requests_max: u64,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions {
            trace: PathBuf::new(),
            format: None,
            time_unit_ns: None,
            on_error: OnError::Skip,
            targets: Vec::new(),
            is_write_ok: false,
            file_bytes: 1 << 30,
            io: IoMode::Auto,
            speed: Speed::Max,
            depth: None,
            fit: FitTo::Wrap,
            regions: 1,
            stripe_bytes: 64 << 10,
            request_bytes_max: 512 << 10,
            requests_max: u64::MAX,
        }
    }
}

impl ReplayOptions {
    fn read_options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format,
            on_error: self.on_error,
            time_unit_ns: self.time_unit_ns,
        }
    }

    fn check(&self) -> Result<()> {
        let bad = |cause: String, hint: &str| Err(Error::usage(OPERATION, cause).hint(hint));
        for (name, bytes) in [
            ("stripe", self.stripe_bytes),
            ("largest request", self.request_bytes_max),
        ] {
            if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) || bytes > 4 << 20 {
                let cause = format!("a {name} of {bytes} bytes");
                return bad(cause, "give a multiple of 4KiB, up to 4MiB");
            }
        }
        if self.depth == Some(0) {
            let cause = "a depth of 0 lets nothing through".to_owned();
            return bad(cause, "give at least 1, or leave it out");
        }
        Ok(())
    }
}

/// Summarises the requests of the trace that would be replayed, without any drive.
///
/// # Errors
/// The trace cannot be read, or its format is not recognised.
pub fn summary(options: &ReplayOptions) -> Result<Summary> {
    let mut reader = TraceReader::open(&options.trace, &options.read_options())?;
    Summary::of_first(&mut reader, options.requests_max)
}

/// Results of a replay.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Summary of the trace.
    summary: Summary,
    /// Changes to the requests.
    changes: Changes,
    /// Requests that were released after their time, in an open loop.
    late: u64,
    /// The backlog, if the drives did not keep up with an open loop.
    behind: Option<Behind>,
    /// Time from the first release to the last completion.
    seconds: f64,
    /// Completions over time: seconds per part, and one count per part.
    timeline: (f64, Vec<u64>),
}

/// Runs the replay.
///
/// # Errors
/// Usage (targets that must not be written, invalid sizes), errors of the trace or of the drives,
/// interrupted. Nothing is left behind.
pub fn run(options: &ReplayOptions, watch: Watch<'_>) -> Result<Report> {
    let started = Instant::now();
    options.check()?;
    // Before any drive is touched, because most mistakes are in the trace's name or format.
    let reader = TraceReader::open(&options.trace, &options.read_options())?;
    let format = reader.format();
    let device: Arc<dyn Device> = Arc::new(OsDevice::new(options.io));
    let targets = open_targets(&device, options, watch)?;
    let (volume, base_bytes) = volume_over(&device, &targets, options)?;
    let mut array = Array::new(volume, base_bytes, options.request_bytes_max)?;
    let volume_bytes = array.len_bytes();
    let adapt = AdaptOptions {
        speedup: match options.speed {
            Speed::Times(times) => times,
            Speed::Max => 1.0,
        },
        fit: fit_of(options, volume_bytes, watch)?,
        regions: options.regions,
        block_bytes: BLOCK_BYTES,
        request_bytes_max: Some(options.request_bytes_max),
        // A request longer than the volume is cut to it.
        longest_bytes: None,
    };
    watch.say("replay");
    let player = pace::Player::new(&device, &mut array, options, watch);
    let keeps_dependencies = options.depth.is_none() && options.requests_max == u64::MAX;
    let outcome = if format == Format::Outcore && keeps_dependencies {
        drop(reader);
        player.dependent(adapt)?
    } else {
        player.block(Adapted::new(
            pace::Tee::new(reader, options.requests_max),
            adapt,
        )?)?
    };
    let mut report = show::report(options, &targets, &array, &outcome);
    report.option("volume", outcore_io::units::bytes(volume_bytes));
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

fn fit_of(options: &ReplayOptions, volume_bytes: u64, watch: Watch<'_>) -> Result<Fit> {
    if options.fit == FitTo::Wrap {
        return Ok(Fit::Wrap { volume_bytes });
    }
    if options.trace.as_os_str() == "-" {
        return Err(Error::usage(
            OPERATION,
            "a stream cannot be read twice, as --fit scale must",
        )
        .hint("use --fit wrap, or a file"));
    }
    watch.say("look for the span of the trace");
    let mut reader = TraceReader::open(&options.trace, &options.read_options())?;
    let span_bytes = Summary::of(&mut reader)?.span_bytes;
    Ok(Fit::Scale {
        volume_bytes,
        span_bytes,
    })
}

/// Opens files of our own, which are filled, or empty devices.
fn open_targets(
    device: &Arc<dyn Device>,
    options: &ReplayOptions,
    watch: Watch<'_>,
) -> Result<Vec<Target>> {
    let consent = match options.is_write_ok {
        true => Consent::WriteElsewhere,
        false => Consent::ReadOnly,
    };
    let mut targets = target::open_all(device, &options.targets, options.file_bytes, consent)?;
    for target in &targets {
        let cause = match target.whose {
            Whose::Own => continue,
            Whose::BlockDevice if target.is_writable => continue,
            Whose::BlockDevice => "a device is only written to with --write-ok",
            Whose::File => "an existing file is never written to",
        };
        return Err(Error::usage(OPERATION, cause).path(&target.named).hint(
            "name a directory on each drive: files of its own are made there and removed again",
        ));
    }
    watch.say("lay out files to read");
    let spans = crate::io::lay_out(device, &targets, watch)?;
    for (target, span_bytes) in targets.iter_mut().zip(spans) {
        target.place.span_bytes = span_bytes;
    }
    Ok(targets)
}

/// The targets as one volume, and how much of its beginning must not be written.
fn volume_over(
    device: &Arc<dyn Device>,
    targets: &[Target],
    options: &ReplayOptions,
) -> Result<(StripedVolume, u64)> {
    let members: Vec<Member> = targets.iter().map(member_of).collect();
    let head_bytes = targets.iter().map(|target| target.place.start_bytes).max();
    let layout = StripeOptions {
        stripe_bytes: options.stripe_bytes,
        ..StripeOptions::default()
    };
    let volume = StripedVolume::open(Arc::clone(device), &members, layout)?;
    // Stripes alternate over the drives, so the first ones cover the heads of all drives.
    let head_bytes = head_bytes
        .unwrap_or(0)
        .next_multiple_of(options.stripe_bytes);
    let base_bytes = head_bytes * targets.len() as u64;
    if base_bytes + options.stripe_bytes > volume.len_bytes() {
        return Err(Error::usage(
            OPERATION,
            "the drives are too small to replay on",
        ));
    }
    Ok((volume, base_bytes))
}
