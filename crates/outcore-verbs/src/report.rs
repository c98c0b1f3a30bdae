//! Reports of verbs: values with names, for programs, people and documentation.
//!
//! Contract: each verb has one report, a struct that the macro `report` defines. Its fields are
//! those of the command's `summary` event and of what Python returns. Their comments are the
//! documentation of both ([`Described`]). Processor time is that of the process during the job,
//! memory the most it ever had resident; the kernel is asked for both ([`outcore_front::cost`]),
//! nothing is sampled.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Instant;

use outcore::Phase as EnginePhase;
use outcore_front::cost::{
    DriveTraffic as Traffic, bandwidth_fraction, cpu_seconds, peak_rss_bytes,
};
use outcore_front::resources::Resources;
use outcore_io::units;
use serde::{Serialize, Serializer};

/// A field of a report.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type, as Python writes it.
    pub python_type: String,
    /// Its documentation.
    pub doc: &'static str,
    /// Whether it holds the fields of another report in its place.
    pub is_flat: bool,
}

/// A report that describes itself.
pub trait Described {
    /// Its name, which is that of Python's class.
    const NAME: &'static str;
    /// Its documentation.
    const DOC: &'static str;

    /// Its fields, in order.
    fn fields() -> Vec<Field>;
}

/// A type of fields.
pub(crate) trait FieldType {
    /// As Python writes it.
    fn python_type() -> String;
}

macro_rules! field_types {
    ($($rust:ty: $python:literal,)*) => {
        $(impl FieldType for $rust {
            fn python_type() -> String {
                $python.to_owned()
            }
        })*
    };
}

field_types! {
    bool: "bool",
    u32: "int",
    u64: "int",
    usize: "int",
    f64: "float",
    String: "str",
    Place: "Path",
}

impl<T: FieldType> FieldType for Option<T> {
    fn python_type() -> String {
        format!("{} | None", T::python_type())
    }
}

impl<T: FieldType> FieldType for Vec<T> {
    fn python_type() -> String {
        format!("tuple[{}, ...]", T::python_type())
    }
}

thread_local! {
    /// Whether paths are written as bytes.
    static ARE_PATHS_EXACT: Cell<bool> = const { Cell::new(false) };
}

/// The result of `write`, which writes paths as bytes. Formats that have bytes keep any name so.
pub fn with_exact_paths<T>(write: impl FnOnce() -> T) -> T {
    let before = ARE_PATHS_EXACT.replace(true);
    let written = write();
    ARE_PATHS_EXACT.set(before);
    written
}

/// The path of a file. It is written as text, and as bytes inside [`with_exact_paths`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(pub PathBuf);

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use std::os::unix::ffi::OsStrExt;
        match ARE_PATHS_EXACT.get() {
            true => serializer.serialize_bytes(self.0.as_os_str().as_bytes()),
            false => serializer.collect_str(&self.0.display()),
        }
    }
}

/// Defines a report: a struct whose fields are all reported, each with the comment that documents
/// it. One in brackets holds a report whose fields stand among its own.
macro_rules! report {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident {
            $([$flat:ident: $flat_type:ty],)?
            $($(#[doc = $field_doc:literal])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, serde::Serialize)]
        $vis struct $name {
            $(
                /// What every verb reports.
                #[serde(flatten)]
                $vis $flat: $flat_type,
            )?
            $($(#[doc = $field_doc])* $vis $field: $type,)*
        }

        impl $crate::report::Described for $name {
            const NAME: &'static str = stringify!($name);
            const DOC: &'static str = concat!($($doc, "\n",)*);

            fn fields() -> Vec<$crate::report::Field> {
                vec![
                    $($crate::report::Field {
                        name: stringify!($flat),
                        python_type: <$flat_type as $crate::report::FieldType>::python_type(),
                        doc: "What every verb reports.",
                        is_flat: true,
                    },)?
                    $($crate::report::Field {
                        name: stringify!($field),
                        python_type: <$type as $crate::report::FieldType>::python_type(),
                        doc: concat!($($field_doc, "\n",)*),
                        is_flat: false,
                    },)*
                ]
            }
        }

        impl $crate::report::FieldType for $name {
            fn python_type() -> String {
                stringify!($name).to_owned()
            }
        }
    };
}

pub(crate) use report;

report! {
    /// Bytes that a drive served.
    pub struct DriveTraffic {
        /// The drive's name, or a directory on it.
        name: String,
        /// Bytes read.
        read_bytes: u64,
        /// Bytes written.
        written_bytes: u64,
    }
}

impl DriveTraffic {
    /// What drives served, as the engine counts it.
    pub fn of(traffic: &[Traffic]) -> Vec<DriveTraffic> {
        let traffic = traffic.iter().map(|drive| DriveTraffic {
            name: drive.name.clone(),
            read_bytes: drive.read_bytes,
            written_bytes: drive.written_bytes,
        });
        traffic.collect()
    }
}

report! {
    /// A part of a job: what it did, and what its plan predicted.
    pub struct Phase {
        /// Its name.
        name: String,
        /// Wall time in seconds.
        seconds: f64,
        /// Bytes read.
        read_bytes: u64,
        /// Bytes written.
        written_bytes: u64,
        /// Seconds that the plan predicted; none where it predicted none.
        predicted_seconds: Option<f64>,
        /// Bytes read that the plan predicted.
        predicted_read_bytes: Option<u64>,
        /// Bytes written that the plan predicted.
        predicted_written_bytes: Option<u64>,
        /// Whether the plan predicted only that it will not be more.
        predicted_is_bound: bool,
    }
}

impl Phase {
    /// Phases as the engine reports them.
    pub fn of_engine<'a>(phases: impl IntoIterator<Item = &'a EnginePhase>) -> Vec<Phase> {
        let phases = phases.into_iter().map(|phase| Phase {
            name: phase.name.to_owned(),
            seconds: phase.seconds,
            read_bytes: phase.read_bytes,
            written_bytes: phase.written_bytes,
            predicted_seconds: phase.predicted.and_then(|plan| plan.seconds),
            predicted_read_bytes: phase.predicted.and_then(|plan| plan.read_bytes.bytes()),
            predicted_written_bytes: phase.predicted.and_then(|plan| plan.written_bytes.bytes()),
            predicted_is_bound: phase.predicted.is_some_and(|plan| plan.is_bound()),
        });
        phases.collect()
    }
}

report! {
    /// A trace that was recorded.
    pub struct IoTrace {
        /// The file.
        path: Place,
        /// Reads, writes and syncs in it.
        requests: u64,
        /// Bytes that they moved.
        bytes: u64,
    }
}

report! {
    /// What every verb reports.
    pub struct JobSummary {
        /// Records, lines or rows of the result.
        records: u64,
        /// Wall time in seconds.
        seconds: f64,
        /// Bytes read.
        read_bytes: u64,
        /// Bytes written.
        written_bytes: u64,
        /// Processor time in seconds, of all threads.
        cpu_seconds: f64,
        /// The most memory that the process ever had resident.
        peak_rss_bytes: Option<u64>,
        /// Times that the data were read, or made.
        passes: u32,
        /// Share of the drives' measured bandwidth that was used; none where a drive was not
        /// measured.
        bandwidth_fraction: Option<f64>,
        /// Bytes that each drive served.
        drives: Vec<DriveTraffic>,
        /// The trace of the job's own reads and writes, if one was recorded.
        io_trace: Option<IoTrace>,
    }
}

impl JobSummary {
    /// The share of the drives' bandwidth that was used, in words, where it is known.
    pub fn bandwidth_text(&self) -> Option<String> {
        let percent = self.bandwidth_fraction? * 100.0;
        Some(format!(
            "  {percent:.0} % of the drives' measured bandwidth"
        ))
    }

    /// How much was read, and how fast, in words.
    pub fn read_text(&self) -> String {
        format!(
            "read {} in {}: {}",
            units::bytes(self.read_bytes),
            units::seconds(self.seconds),
            units::rate_decimal(self.read_bytes as f64 / self.seconds.max(1e-9))
        )
    }
}

/// What a job moved, as its verb counts it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moved {
    /// Records, lines or rows of the result.
    pub(crate) records: u64,
    /// Bytes read.
    pub(crate) read_bytes: u64,
    /// Bytes written.
    pub(crate) written_bytes: u64,
    /// Times that the data were read, or made.
    pub(crate) passes: u32,
}

/// Measures what a job takes, from when it is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    started: Instant,
    cpu_seconds: f64,
}

impl Stopwatch {
    /// Starts.
    pub(crate) fn start() -> Self {
        Stopwatch {
            started: Instant::now(),
            cpu_seconds: cpu_seconds(),
        }
    }

    /// What the job took, whose drives served `traffic`.
    pub(crate) fn stop(
        self,
        moved: Moved,
        traffic: &[Traffic],
        resources: &Resources,
        io_trace: Option<IoTrace>,
    ) -> JobSummary {
        let seconds = self.started.elapsed().as_secs_f64();
        let set = &resources.config.drives.value;
        JobSummary {
            records: moved.records,
            seconds,
            read_bytes: moved.read_bytes,
            written_bytes: moved.written_bytes,
            cpu_seconds: cpu_seconds() - self.cpu_seconds,
            peak_rss_bytes: peak_rss_bytes(),
            passes: moved.passes,
            bandwidth_fraction: bandwidth_fraction(traffic, seconds, set),
            drives: DriveTraffic::of(traffic),
            io_trace,
        }
    }
}
