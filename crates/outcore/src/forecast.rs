//! Predictions of a plan: bytes and time of each phase, and their text.
//!
//! Contract: a [`PhasePlan`] has the amounts of a phase by their place. Their time follows from the
//! job's [`Layout`]: that of the slowest drive, or of the processors if they take longer. A byte
//! count is an estimate, an upper bound or unknown ([`Forecast`]), and so is the time.

use std::fmt;

use crate::layout::{Bound, Layout, Moves};
use outcore_io::drive::rates::RatesOrigin;
use outcore_io::memory::BLOCK_BYTES;
use outcore_io::units;

/// A spread output is proposed if the job then takes less than this share of the time.
const SPREAD_WORTH: f64 = 0.9;

/// What a plan predicts about a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forecast {
    /// This number, except for border blocks and facts that a sample cannot show.
    About(u64),
    /// At most this number, which phases round up to whole blocks; the data decide.
    AtMost(u64),
    /// Unknown in advance.
    Unknown,
}

impl Forecast {
    /// Nothing is moved.
    pub const NOTHING: Forecast = Forecast::About(0);

    /// The number, or its upper bound; `None` if it is unknown.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Forecast::About(bytes) | Forecast::AtMost(bytes) => Some(bytes),
            Forecast::Unknown => None,
        }
    }

    /// Whether the actual number may be lower.
    pub fn is_bound(self) -> bool {
        matches!(self, Forecast::AtMost(_))
    }

    /// A bound rounded up to whole blocks, because drives move whole blocks; others unchanged.
    fn in_blocks(self) -> Forecast {
        match self {
            Forecast::AtMost(bytes) => Forecast::AtMost(bytes.next_multiple_of(BLOCK_BYTES as u64)),
            forecast => forecast,
        }
    }

    /// The sum of both.
    pub fn and(self, other: Forecast) -> Forecast {
        match (self.bytes().zip(other.bytes()), self, other) {
            (None, ..) => Forecast::Unknown,
            (Some((a, b)), Forecast::About(_), Forecast::About(_)) => Forecast::About(a + b),
            (Some((a, b)), ..) => Forecast::AtMost(a + b),
        }
    }
}

impl From<u64> for Forecast {
    fn from(bytes: u64) -> Self {
        Forecast::About(bytes)
    }
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forecast::About(bytes) => f.write_str(&units::bytes(*bytes)),
            Forecast::AtMost(bytes) => write!(f, "at most {}", units::bytes(*bytes)),
            Forecast::Unknown => f.write_str("an amount that is not known in advance"),
        }
    }
}

/// The work of a phase, by the place of its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amounts {
    /// Read from the inputs.
    pub input: Forecast,
    /// Read from scratch.
    pub scratch_read: Forecast,
    /// Written to scratch.
    pub scratch_written: Forecast,
    /// Written to the output.
    pub output: Forecast,
    /// Requests that move all of these bytes.
    pub requests: f64,
    /// Time of the processors; they work while drives move data.
    pub computing_seconds: f64,
    /// The share of the time, from 0 to 1, in which writes wait for all reads: 1 if the whole input
    /// is one piece.
    pub serial_share: f64,
}

impl Amounts {
    /// Nothing.
    pub const NOTHING: Amounts = Amounts {
        input: Forecast::NOTHING,
        scratch_read: Forecast::NOTHING,
        scratch_written: Forecast::NOTHING,
        output: Forecast::NOTHING,
        requests: 0.0,
        computing_seconds: 0.0,
        serial_share: 0.0,
    };

    /// A phase that reads inputs and writes the output, and does not compute.
    pub fn of_files(input: Forecast, output: Forecast, requests: f64) -> Self {
        Amounts {
            input: input.in_blocks(),
            output: output.in_blocks(),
            requests,
            ..Amounts::NOTHING
        }
    }

    /// These amounts, moved at most `pass_count` times.
    #[must_use]
    pub fn at_most_times(&self, pass_count: u32) -> Self {
        let most = |forecast: Forecast| match (forecast, pass_count) {
            (_, 1) | (Forecast::Unknown | Forecast::NOTHING, _) => forecast,
            (Forecast::About(bytes) | Forecast::AtMost(bytes), _) => {
                Forecast::AtMost(bytes.saturating_mul(pass_count.into()))
            }
        };
        Amounts {
            input: most(self.input),
            scratch_read: most(self.scratch_read),
            scratch_written: most(self.scratch_written),
            output: most(self.output),
            requests: self.requests * f64::from(pass_count),
            computing_seconds: self.computing_seconds * f64::from(pass_count),
            serial_share: self.serial_share,
        }
    }

    fn read_bytes(&self) -> Forecast {
        self.input.and(self.scratch_read)
    }

    fn written_bytes(&self) -> Forecast {
        self.scratch_written.and(self.output)
    }

    /// The bytes, if all are known or bounded.
    pub(crate) fn moves(&self) -> Option<Moves> {
        let bytes = |forecast: Forecast| forecast.bytes().map(|bytes| bytes as f64);
        Some(Moves {
            input_bytes: bytes(self.input)?,
            scratch_read_bytes: bytes(self.scratch_read)?,
            scratch_written_bytes: bytes(self.scratch_written)?,
            output_bytes: bytes(self.output)?,
            requests: self.requests,
            serial_share: self.serial_share,
        })
    }

    /// The sum of both.
    fn and(&self, other: &Amounts) -> Amounts {
        Amounts {
            input: self.input.and(other.input),
            scratch_read: self.scratch_read.and(other.scratch_read),
            scratch_written: self.scratch_written.and(other.scratch_written),
            output: self.output.and(other.output),
            requests: self.requests + other.requests,
            computing_seconds: self.computing_seconds + other.computing_seconds,
            serial_share: self.serial_share.max(other.serial_share),
        }
    }
}

/// The prediction for a phase, or for several consecutive phases of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasePlan {
    /// The phase's name.
    pub name: &'static str,
    /// Bytes read from all drives.
    pub read_bytes: Forecast,
    /// Bytes written to all drives, and to a pipe.
    pub written_bytes: Forecast,
    /// The duration; an upper bound if one of the byte counts is a bound, `None` if one is unknown.
    pub seconds: Option<f64>,
    /// The bound of the duration, if it is known.
    pub bound: Option<Bound>,
    amounts: Amounts,
    is_measured: bool,
}

impl PhasePlan {
    /// A phase that does `amounts` of work in a job of this layout.
    pub fn new(name: &'static str, amounts: Amounts, layout: &Layout) -> Self {
        let time = amounts
            .moves()
            .map(|moves| layout.time(&moves, amounts.computing_seconds));
        PhasePlan {
            name,
            read_bytes: amounts.read_bytes(),
            written_bytes: amounts.written_bytes(),
            seconds: time.as_ref().map(|time| time.seconds),
            bound: time.as_ref().and_then(|time| time.bound.clone()),
            amounts,
            is_measured: time.as_ref().is_some_and(|time| time.is_measured),
        }
    }

    /// The duration, unless it rests on drives whose speed is only assumed.
    pub fn measured_seconds(&self) -> Option<f64> {
        self.seconds.filter(|_| self.is_measured)
    }

    /// The work of the phase.
    pub fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    /// This prediction for a job of another layout, or with other amounts.
    pub fn redone(&self, amounts: Amounts, layout: &Layout) -> Self {
        PhasePlan::new(self.name, amounts, layout)
    }

    /// This prediction for a job whose layout is not known.
    #[must_use]
    pub fn of_unknown_time(self) -> Self {
        PhasePlan {
            seconds: None,
            bound: None,
            ..self
        }
    }

    /// This prediction under another name.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        PhasePlan { name, ..self }
    }

    /// Whether the actual bytes and time may be lower.
    pub fn is_bound(&self) -> bool {
        self.read_bytes.is_bound() || self.written_bytes.is_bound()
    }

    /// The sum of this phase and a later one.
    #[must_use]
    pub fn and(self, later: &PhasePlan) -> Self {
        PhasePlan {
            name: self.name,
            read_bytes: self.read_bytes.and(later.read_bytes),
            written_bytes: self.written_bytes.and(later.written_bytes),
            seconds: self.seconds.zip(later.seconds).map(|(a, b)| a + b),
            bound: self
                .bound
                .filter(|bound| later.bound.as_ref() == Some(bound)),
            amounts: self.amounts.and(&later.amounts),
            is_measured: self.is_measured && later.is_measured,
        }
    }

    /// The sum of all `phases`.
    pub(crate) fn total(phases: &[PhasePlan]) -> PhasePlan {
        let nothing = PhasePlan {
            name: "all",
            read_bytes: Forecast::NOTHING,
            written_bytes: Forecast::NOTHING,
            seconds: Some(0.0),
            bound: None,
            amounts: Amounts::NOTHING,
            is_measured: true,
        };
        phases.iter().fold(nothing, PhasePlan::and)
    }

    /// The time of the phase and what determines it, in words.
    fn bound_text(&self) -> String {
        let seconds = seconds_text(self.seconds, self.is_bound());
        match &self.bound {
            Some(bound) => format!("{}: {seconds}; {bound}", self.name),
            None => format!("{}: {seconds}", self.name),
        }
    }
}

fn seconds_text(seconds: Option<f64>, is_bound: bool) -> String {
    match seconds {
        Some(seconds) if is_bound => format!("at most {}", units::seconds(seconds)),
        Some(seconds) => units::seconds(seconds),
        None => "for a time that is not known in advance".to_string(),
    }
}

/// The prediction for `phases` as lines of a plan. It includes `scratch_bytes` of scratch if there
/// may be any, the rates, and the origin of the computing costs if they are counted. The lines
/// after the first are indented by four spaces. They say what bounds each phase, and what a spread
/// output would save.
pub fn predicted_text(
    phases: &[PhasePlan],
    scratch_bytes: Option<u64>,
    layout: &Layout,
    computing: Option<RatesOrigin>,
) -> String {
    let all = PhasePlan::total(phases);
    let scratch = scratch_bytes.map(|bytes| format!(", scratch {}", units::bytes(bytes)));
    let seconds = seconds_text(all.seconds, all.is_bound());
    let computing = match computing {
        None => "computing not counted".to_string(),
        Some(RatesOrigin::Assumed) => "computing assumed".to_string(),
        Some(origin) => format!("computing {origin}"),
    };
    let mut text = format!(
        "predicted: reads {}, writes {}{}, {seconds} at {layout}; {computing}",
        all.read_bytes,
        all.written_bytes,
        scratch.unwrap_or_default(),
    );
    let known = phases.iter().filter(|phase| phase.bound.is_some());
    for phase in known {
        text += &format!("\n    {}", phase.bound_text());
    }
    if let Some(seconds) = spread_seconds(phases, layout) {
        text += &format!(
            "\n    with {{drive}} in the output's name: {} in all",
            units::seconds(seconds)
        );
    }
    text
}

/// The time of all phases with the output spread over the drives, if that is worth it.
fn spread_seconds(phases: &[PhasePlan], layout: &Layout) -> Option<f64> {
    let spread = layout.with_spread_output()?;
    let writes_output = |phase: &PhasePlan| phase.amounts.output != Forecast::NOTHING;
    if !phases.iter().any(writes_output) {
        return None;
    }
    let now = PhasePlan::total(phases).seconds?;
    let redone: Vec<_> = phases
        .iter()
        .map(|phase| phase.redone(phase.amounts, &spread))
        .collect();
    let then = PhasePlan::total(&redone).seconds?;
    (then < SPREAD_WORTH * now).then_some(then)
}
