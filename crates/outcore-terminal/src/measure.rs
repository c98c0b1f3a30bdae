//! The report of every command: records, time, processor, memory, traffic.
//!
//! Contract: [`Summary`] has the values that every command reports, with the order and the names of
//! the `summary` event. Numbers of the kernel are read on demand (see [`outcore_front::cost`]);
//! nothing is sampled.

use std::time::Instant;

use outcore_front::cost::{cpu_seconds, peak_rss_bytes};
use outcore_io::units;
use outcore_verbs::report::Phase;
use serde_json::{Map, Value, json};

/// Phases for people, as a table: `<=` if the plan has only an upper bound, `-` if it has no value.
pub(crate) fn phases_table(phases: &[Phase]) -> Vec<String> {
    let header = [
        "phase", "read", "planned", "written", "planned", "time", "planned",
    ];
    let rows = phases.iter().map(|phase| {
        let planned = |text: Option<String>| match text {
            Some(text) if phase.predicted_is_bound => format!("<={text}"),
            Some(text) => text,
            None => "-".to_owned(),
        };
        [
            phase.name.clone(),
            units::bytes(phase.read_bytes),
            planned(phase.predicted_read_bytes.map(units::bytes)),
            units::bytes(phase.written_bytes),
            planned(phase.predicted_written_bytes.map(units::bytes)),
            units::seconds(phase.seconds),
            planned(phase.predicted_seconds.map(units::seconds)),
        ]
    });
    let rows = std::iter::once(header.map(str::to_string)).chain(rows);
    let line = |[name, cells @ ..]: [String; 7]| {
        let cells = cells.map(|cell| format!("{cell:>10}"));
        format!("  {name:<10} {}", cells.join(" "))
    };
    rows.map(line).collect()
}

/// The result of a command.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Records of the result.
    pub records: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The number of times that the data were read, or generated.
    pub passes: u32,
    /// Share of the drives' bandwidth.
    pub bandwidth_fraction: Option<f64>,
    /// Values that only this command reports.
    pub more: Map<String, Value>,
}

impl Summary {
    /// A summary of a command without records, begun at `started`.
    pub fn since(started: Instant) -> Self {
        Summary {
            seconds: started.elapsed().as_secs_f64(),
            ..Summary::default()
        }
    }

    /// Adds a value that only this command reports.
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.more.insert(key.to_string(), value);
        self
    }

    /// The fields of the summary event.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("records".to_string(), json!(self.records));
        fields.insert("seconds".to_string(), json!(self.seconds));
        fields.insert("read_bytes".to_string(), json!(self.read_bytes));
        fields.insert("written_bytes".to_string(), json!(self.written_bytes));
        fields.insert("cpu_seconds".to_string(), json!(cpu_seconds()));
        fields.insert("peak_rss_bytes".to_string(), json!(peak_rss_bytes()));
        fields.insert("passes".to_string(), json!(self.passes));
        fields.insert(
            "bandwidth_fraction".to_string(),
            json!(self.bandwidth_fraction),
        );
        fields.extend(self.more.clone());
        Value::Object(fields)
    }
}

/// A rate as for drives: the data, counted once, over the whole time.
pub fn rate_text(bytes: u64, seconds: f64) -> String {
    units::rate_decimal(bytes as f64 / seconds.max(1e-9))
}
