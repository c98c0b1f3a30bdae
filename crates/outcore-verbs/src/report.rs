//! Reports of verbs: values with names, for programs, people and documentation.
//!
//! Contract: each verb has one report, a struct that the macro `report` defines. Its fields are
//! those of the command's `summary` event and of what Python returns. Their comments are the
//! documentation of both ([`Described`]). Processor time is that of the process during the job.
//! Memory is the largest resident size that the process has had. Both come from the kernel
//! ([`outcore_front::cost`]); nothing is sampled.

use std::cell::Cell;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Instant;

use outcore::DriveTraffic as Traffic;
use outcore::job::{DriveRates, RatesOrigin};
use outcore::sort::plan::PartitionPlan;
use outcore::{Phase as EnginePhase, PhasePlan};
use outcore_front::cost::{bandwidth_fraction, cpu_seconds, peak_rss_bytes};
use outcore_front::resources::Resources;
use outcore_io::units;
use serde::{Serialize, Serializer};

/// A field of a report.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type in Python.
    pub python_type: String,
    /// Its documentation.
    pub doc: &'static str,
    /// Whether the fields of another report take its place.
    pub is_flat: bool,
    /// Whether it is [`Listed`].
    pub is_listed: bool,
    /// The report that is its value, or the type of its items.
    pub class: Option<Class>,
}

/// The description of a report.
#[derive(Debug, Clone)]
pub struct Class {
    /// Its name.
    pub name: &'static str,
    /// Its documentation.
    pub doc: &'static str,
    /// Its fields, in order.
    pub fields: Vec<Field>,
}

impl Class {
    /// The description of the report `T`.
    pub fn of<T: Described>() -> Self {
        Class {
            name: T::NAME,
            doc: T::DOC,
            fields: T::fields(),
        }
    }
}

/// A report that describes itself.
pub trait Described {
    /// Its name, which is also that of the class in Python.
    const NAME: &'static str;
    /// Its documentation.
    const DOC: &'static str;

    /// Its fields, in order.
    fn fields() -> Vec<Field>;
}

/// The name of a field, without the `r#` that Rust may need.
pub(crate) fn plain(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
}

/// A type of fields.
pub(crate) trait FieldType {
    /// Whether the summary event has the number of its items instead.
    const IS_LISTED: bool = false;

    /// Its name in Python.
    fn python_type() -> String;

    /// The report that is its value, or a part of its value.
    fn class() -> Option<Class> {
        None
    }
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
    Name: "str",
}

impl<T: FieldType> FieldType for Option<T> {
    fn python_type() -> String {
        format!("{} | None", T::python_type())
    }

    fn class() -> Option<Class> {
        T::class()
    }
}

impl<T: FieldType> FieldType for Vec<T> {
    fn python_type() -> String {
        format!("tuple[{}, ...]", T::python_type())
    }

    fn class() -> Option<Class> {
        T::class()
    }
}

thread_local! {
    /// Whether reports are serialised as values for a program.
    static ARE_VALUES: Cell<bool> = const { Cell::new(false) };
}

/// The result of `write`, which serialises reports as values for a program: paths are bytes, which
/// can hold any name, and [`Listed`] fields are complete.
pub fn as_values<T>(write: impl FnOnce() -> T) -> T {
    let before = ARE_VALUES.replace(true);
    let written = write();
    ARE_VALUES.set(before);
    written
}

/// The list that a verb reports. A program gets it as a value. The command prints an event for each
/// item, and its summary has their number.
#[derive(Debug, Clone)]
pub(crate) struct Listed<T>(pub Vec<T>);

impl<T: Serialize> Serialize for Listed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match ARE_VALUES.get() {
            true => self.0.serialize(serializer),
            false => serializer.serialize_u64(self.0.len() as u64),
        }
    }
}

impl<T: FieldType> FieldType for Listed<T> {
    const IS_LISTED: bool = true;

    fn python_type() -> String {
        Vec::<T>::python_type()
    }

    fn class() -> Option<Class> {
        T::class()
    }
}

/// A name that the command writes with a mark (`@keys`), and that a program gets without the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// Names without marks.
    pub plain: String,
    /// Names with marks, as the command writes them.
    pub marked: String,
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match ARE_VALUES.get() {
            true => &self.plain,
            false => &self.marked,
        })
    }
}

/// The path of a file. It is serialised as text, or as bytes inside [`as_values`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(pub PathBuf);

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use std::os::unix::ffi::OsStrExt;
        match ARE_VALUES.get() {
            true => serializer.serialize_bytes(self.0.as_os_str().as_bytes()),
            false => serializer.collect_str(&self.0.display()),
        }
    }
}

/// Defines a report: a struct whose fields are all reported, each with the comment that documents
/// it. A field in brackets has a report whose fields become fields of this one.
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
                /// The part of the report that all verbs share.
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
                        doc: "The part of the report that all verbs share.",
                        is_flat: true,
                        is_listed: false,
                        class: <$flat_type as $crate::report::FieldType>::class(),
                    },)?
                    $($crate::report::Field {
                        name: $crate::report::plain(stringify!($field)),
                        python_type: <$type as $crate::report::FieldType>::python_type(),
                        doc: concat!($($field_doc, "\n",)*),
                        is_flat: false,
                        is_listed: <$type as $crate::report::FieldType>::IS_LISTED,
                        class: <$type as $crate::report::FieldType>::class(),
                    },)*
                ]
            }
        }

        impl $crate::report::FieldType for $name {
            fn python_type() -> String {
                stringify!($name).to_owned()
            }

            fn class() -> Option<$crate::report::Class> {
                Some($crate::report::Class::of::<$name>())
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
    /// The traffic of the drives, from the engine's counts.
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
        /// Seconds that the plan predicted; none without a prediction, or if the speed of a drive
        /// is assumed.
        predicted_seconds: Option<f64>,
        /// Bytes read that the plan predicted.
        predicted_read_bytes: Option<u64>,
        /// Bytes written that the plan predicted.
        predicted_written_bytes: Option<u64>,
        /// Whether the predictions are only upper bounds.
        predicted_is_bound: bool,
        /// The resource that bounds the predicted time, as in "drive-1 bounds it: the output is
        /// there".
        predicted_bound: Option<String>,
    }
}

impl Phase {
    /// Phases as the engine reports them.
    pub fn of_engine<'a>(phases: impl IntoIterator<Item = &'a EnginePhase>) -> Vec<Phase> {
        let phases = phases.into_iter().map(|phase| {
            let plan = phase.predicted.as_ref();
            Phase {
                name: phase.name.to_owned(),
                seconds: phase.seconds,
                read_bytes: phase.read_bytes,
                written_bytes: phase.written_bytes,
                predicted_seconds: plan.and_then(PhasePlan::measured_seconds),
                predicted_read_bytes: plan.and_then(|plan| plan.read_bytes.bytes()),
                predicted_written_bytes: plan.and_then(|plan| plan.written_bytes.bytes()),
                predicted_is_bound: plan.is_some_and(PhasePlan::is_bound),
                predicted_bound: plan
                    .filter(|plan| plan.measured_seconds().is_some())
                    .and_then(|plan| Some(plan.bound.as_ref()?.to_string())),
            }
        });
        phases.collect()
    }
}

report! {
    /// A trace that was recorded.
    pub struct IoTrace {
        /// The file.
        path: Place,
        /// Reads, writes and syncs in the trace.
        requests: u64,
        /// Bytes that these moved.
        bytes: u64,
    }
}

report! {
    /// The part of the report that all verbs share.
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
        /// The largest resident memory of the process.
        peak_rss_bytes: Option<u64>,
        /// The number of times that the data were read, or generated.
        passes: u32,
        /// Share of the drives' measured bandwidth that was used; none if a drive was not measured.
        bandwidth_fraction: Option<f64>,
        /// Bytes that each drive served.
        drives: Vec<DriveTraffic>,
        /// The trace of the job's own reads and writes, if one was recorded.
        io_trace: Option<IoTrace>,
    }
}

impl JobSummary {
    /// The share of the drives' bandwidth that was used, in words, where it is known.
    pub(crate) fn bandwidth_text(&self) -> Option<String> {
        let percent = self.bandwidth_fraction? * 100.0;
        Some(format!(
            "  {percent:.0} % of the drives' measured bandwidth"
        ))
    }

    /// The amount and the rate of the reads, in words.
    pub(crate) fn read_text(&self) -> String {
        format!(
            "read {} in {}: {}",
            units::bytes(self.read_bytes),
            units::seconds(self.seconds),
            units::rate_decimal(self.read_bytes as f64 / self.seconds.max(1e-9))
        )
    }
}

report! {
    /// The assumed rates of a drive and of the processors, and their source.
    pub struct Rates {
        /// Bytes per second that a drive reads.
        read_bytes_per_s: f64,
        /// Bytes per second that a drive writes.
        write_bytes_per_s: f64,
        /// Requests per second that a drive serves.
        requests_per_s: f64,
        /// "assumed; not measured", "from the drives file" or "measured on" a day.
        origin: String,
        /// The origin of the costs of computing; none if the plan leaves them out.
        computing_origin: Option<String>,
    }
}

impl Rates {
    /// The report of the engine's rates.
    pub fn of(rates: &DriveRates, costs: Option<RatesOrigin>) -> Self {
        Rates {
            read_bytes_per_s: rates.read_bytes_per_s,
            write_bytes_per_s: rates.write_bytes_per_s,
            requests_per_s: rates.requests_per_s,
            origin: rates.origin.to_string(),
            computing_origin: costs.map(|origin| origin.to_string()),
        }
    }
}

report! {
    /// The plan of a distribution and a sort.
    pub struct Plan {
        /// Times that the data are read and written.
        passes: u32,
        /// Buckets of one distribution.
        bucket_count: usize,
        /// Bytes of a write to scratch.
        segment_bytes: usize,
        /// Bytes of a read of the input.
        read_block_bytes: usize,
        /// Reads of the input that are under way at once.
        reads_in_flight: usize,
        /// Bytes of the largest bucket that is sorted at once.
        bucket_bytes_max: usize,
        /// Bytes of the data that may stay in memory between the phases.
        resident_bytes: usize,
        /// Approximate bytes of scratch that will be written.
        scratch_bytes: u64,
        /// Bytes that will be read.
        predicted_read_bytes: u64,
        /// Bytes that will be written.
        predicted_written_bytes: u64,
        /// Seconds that the job will take at `rates`.
        predicted_seconds: f64,
        /// Drives that share the scratch.
        drive_count: usize,
        /// The assumed rates of drives and processors.
        rates: Rates,
        /// The plan in words.
        text: String,
    }
}

impl Plan {
    /// The report of a plan of the engine, whose words are `text`.
    pub fn of(plan: &PartitionPlan, text: &dyn Display) -> Self {
        Plan {
            passes: plan.distributions + 1,
            bucket_count: plan.bucket_count,
            segment_bytes: plan.segment_bytes,
            read_block_bytes: plan.read_block_bytes,
            reads_in_flight: plan.reads_in_flight,
            bucket_bytes_max: plan.bucket_bytes_max,
            resident_bytes: plan.resident_segments * plan.segment_bytes,
            scratch_bytes: plan.scratch_bytes,
            predicted_read_bytes: plan.predicted_read_bytes,
            predicted_written_bytes: plan.predicted_written_bytes,
            predicted_seconds: plan.predicted_seconds,
            drive_count: plan.job.drive_count,
            rates: Rates::of(&plan.job.layout.rates(), Some(plan.job.costs.origin)),
            text: text.to_string(),
        }
    }
}

report! {
    /// The result of a verb that writes.
    pub struct WriteSummary {
        [used: JobSummary],
        /// What `records` counts: `line`, `record` or `row`.
        unit: String,
        /// The file, the manifest of its shards, or the directory of its parts; none if no output
        /// was given.
        output: Option<Place>,
        /// Records, lines or rows that were read; none if they were not counted.
        records_in: Option<u64>,
        /// Bytes of the inputs.
        data_bytes: u64,
        /// Bytes of the files that were written; none if they were not counted.
        output_bytes: Option<u64>,
        /// Files that were written.
        files: u64,
        /// Most bytes of scratch in use at once, copies of streams included; none if they were not
        /// counted.
        scratch_bytes: Option<u64>,
        /// Lines that were left out because they have no key.
        skipped: u64,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
        /// The plan of the distribution; none if there was none, or several.
        plan: Option<Plan>,
        /// Rows and values of CSV and JSON lines that were left out, or read as null: one sentence
        /// per file.
        notes: Vec<String>,
    }
}

impl WriteSummary {
    /// The report of a job that wrote nothing and counts items called `unit`.
    pub(crate) fn of_nothing(used: JobSummary, unit: &str) -> Self {
        WriteSummary {
            used,
            unit: unit.to_owned(),
            output: None,
            records_in: None,
            data_bytes: 0,
            output_bytes: None,
            files: 0,
            scratch_bytes: Some(0),
            skipped: 0,
            phases: Vec::new(),
            plan: None,
            notes: Vec::new(),
        }
    }
}

/// The traffic of a job, as its verb counts it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moved {
    /// Records, lines or rows of the result.
    pub records: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The number of times that the data were read, or generated.
    pub passes: u32,
}

/// Measures the cost of a job since its creation.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    started: Instant,
    cpu_seconds: f64,
}

impl Stopwatch {
    /// Starts.
    pub fn start() -> Self {
        Stopwatch {
            started: Instant::now(),
            cpu_seconds: cpu_seconds(),
        }
    }

    /// Wall time so far.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// The cost of the job, whose drives served `traffic`.
    pub fn stop(
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
