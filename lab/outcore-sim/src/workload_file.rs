//! Workloads as TOML: one table per flow, quantities with units.
//!
//! Contract: an unknown key is an error with the line and the nearest known key. An invalid value
//! is an error that names the flow and the key. Missing keys have the defaults of [`FlowFile`]:
//! random reads of 4 KiB, 64 in flight, on a full drive.

use outcore_io::units::nearest;
use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::config::toml_error;
use crate::drive::{Caching, QueueConfig};
use crate::quantities::{NS, SECOND, Size, Time, show_time};
use crate::workload::{Addresses, FlowConfig, Origin, Pace, Sizes, Synthetic};

const OPERATION: &str = "read workload";

/// How addresses are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Anywhere in the range.
    #[default]
    Uniform,
    /// Sequential.
    Streaming,
    /// `1 - hot` of the requests go to the first `hot` of the range.
    HotCold,
}

/// Priority class of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Goes before everything else.
    Urgent,
    /// Weight of four turns.
    #[default]
    High,
    /// Weight of two turns.
    Medium,
    /// Weight of one turn.
    Low,
}

/// One flow of a workload file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FlowFile {
    /// Name in reports.
    pub name: String,
    /// Share of reads.
    pub read: f64,
    /// Bytes per request; the mean if `deviation` is not 0.
    pub size: Size,
    /// Standard deviation of the size.
    pub deviation: Size,
    /// Requests in flight; 0 if `interval` is given.
    pub depth: u32,
    /// Mean time between Poisson arrivals, instead of `depth`.
    pub interval: Time,
    /// How addresses are chosen.
    pub pattern: Pattern,
    /// Share of the range that is hot.
    pub hot: f64,
    /// Start addresses are multiples of this; 0 means multiples of the size.
    pub align: Size,
    /// Requests to make; 0 if `stop` ends the flow.
    pub requests: u64,
    /// Time after which no request is made, instead of `requests`; 0 means no limit.
    pub stop: Time,
    /// Share of the flow's range that is touched.
    pub working_set: f64,
    /// Share of the range that holds data before the run.
    pub occupancy: f64,
    /// Number of its namespace.
    pub namespace: u16,
    /// Placement handle of its writes.
    pub handle: u16,
    /// Its writes to zones are appends.
    pub append: bool,
    /// Use of the drive's cache.
    pub caching: Caching,
    /// Priority class.
    pub class: Class,
    /// Channels that the flow's data may use; empty means all, as for the next three.
    pub channels: Vec<u32>,
    /// Chips within a channel.
    pub chips: Vec<u32>,
    /// Dies within a chip.
    pub dies: Vec<u32>,
    /// Planes within a die.
    pub planes: Vec<u32>,
    /// Seed.
    pub seed: i32,
}

impl Default for FlowFile {
    fn default() -> Self {
        FlowFile {
            name: "flow".to_owned(),
            read: 1.0,
            size: Size(4096),
            deviation: Size(0),
            depth: 64,
            interval: Time(0),
            pattern: Pattern::Uniform,
            hot: 0.2,
            align: Size(0),
            requests: 100_000,
            stop: Time(0),
            working_set: 1.0,
            occupancy: 1.0,
            namespace: 0,
            handle: 0,
            append: false,
            caching: Caching::Write,
            class: Class::High,
            channels: Vec::new(),
            chips: Vec::new(),
            dies: Vec::new(),
            planes: Vec::new(),
            seed: 1,
        }
    }
}

/// A workload file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadFile {
    /// The flows, each with a queue pair of its own.
    pub flow: Vec<FlowFile>,
}

impl WorkloadFile {
    /// Reads a workload.
    ///
    /// # Errors
    /// Invalid TOML, an unknown key or an invalid value.
    pub fn from_toml(text: &str) -> Result<Self> {
        let file: WorkloadFile =
            toml::from_str(text).map_err(|error| toml_error(OPERATION, text, &error))?;
        if file.flow.is_empty() {
            return Err(Error::usage(OPERATION, "there is no flow")
                .hint("begin each with a line `[[flow]]`"));
        }
        file.flows()?;
        Ok(file)
    }

    /// A workload of one flow with all defaults.
    pub fn one() -> Self {
        WorkloadFile {
            flow: vec![FlowFile::default()],
        }
    }

    /// The same workload with `key` of every flow set to `value`; `1.key` sets it in one flow only.
    ///
    /// # Errors
    /// An unknown key or flow, or a value that does not fit.
    pub fn set(&self, key: &str, value: &str) -> Result<Self> {
        let file = self.set_unchecked(key, value)?;
        file.flows()?;
        Ok(file)
    }

    /// Like [`WorkloadFile::set`], without a check whether the flows are possible;
    /// [`WorkloadFile::flows`] checks that.
    ///
    /// # Errors
    /// An unknown key or flow, or a value of another type.
    pub(crate) fn set_unchecked(&self, key: &str, value: &str) -> Result<Self> {
        let mut file = self.clone();
        let (only, key) = match key.split_once('.') {
            Some((number, key)) => (
                Some(number.parse::<usize>().map_err(|_| {
                    Error::usage(OPERATION, format!("`{number}` is not a number of a flow"))
                })?),
                key,
            ),
            None => (None, key),
        };
        if only.is_some_and(|only| only >= file.flow.len()) {
            return Err(Error::usage(
                OPERATION,
                format!("there are only {} flows, counted from 0", file.flow.len()),
            ));
        }
        for (at, flow) in file.flow.iter_mut().enumerate() {
            if only.is_none_or(|only| only == at) {
                *flow = set_flow(flow, key, value)?;
            }
        }
        Ok(file)
    }

    /// The flows in the form that the simulator needs.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn flows(&self) -> Result<Vec<FlowConfig>> {
        self.flow
            .iter()
            .enumerate()
            .map(|(at, flow)| {
                flow.config().map_err(|cause| {
                    Error::usage(OPERATION, format!("flow {at} (`{}`): {cause}", flow.name))
                })
            })
            .collect()
    }
}

/// Options of fio, and the keys of a flow that mean the same.
const OF_FIO: [(&str, &str); 6] = [
    (
        "block_size",
        "size is the number of bytes of a request: size=4KiB",
    ),
    ("bs", "size is the number of bytes of a request: size=4KiB"),
    (
        "iodepth",
        "depth is the number of requests in flight: depth=32",
    ),
    ("qd", "depth is the number of requests in flight: depth=32"),
    ("rw", "read is the share of reads, from 0 to 1: read=0.7"),
    (
        "rwmixread",
        "read is the share of reads, from 0 to 1: read=0.7",
    ),
];

/// Every whole number below this is exact as an f64.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

fn set_flow(flow: &FlowFile, key: &str, value: &str) -> Result<FlowFile> {
    let wrong = |cause: String| Error::usage(OPERATION, cause);
    let mut table = toml::Table::try_from(flow).map_err(|error| wrong(error.to_string()))?;
    let known: Vec<String> = table.keys().cloned().collect();
    let Some(old) = table.get_mut(key) else {
        let error = wrong(format!("unknown key `{key}` of a flow"));
        if let Some((_, meant)) = OF_FIO.iter().find(|(word, _)| *word == key) {
            return Err(error.hint(*meant));
        }
        return Err(
            match nearest(key, &known.iter().map(String::as_str).collect::<Vec<_>>()) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!("known are {}", known.join(", "))),
            },
        );
    };
    let mut new = toml::from_str::<toml::Table>(&format!("v = {value}"))
        .ok()
        .and_then(|mut table| table.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    new = match (&*old, new) {
        (toml::Value::Float(_), toml::Value::Integer(whole)) => toml::Value::Float(whole as f64),
        // 1e6 is a whole number.
        (toml::Value::Integer(_), toml::Value::Float(whole))
            if whole.fract() == 0.0 && whole.abs() < EXACT_MAX =>
        {
            toml::Value::Integer(whole as i64)
        }
        (_, new) => new,
    };
    *old = new;
    let mut flow: FlowFile =
        toml::Value::Table(table)
            .try_into()
            .map_err(|error: toml::de::Error| {
                let error = wrong(format!(
                    "flow.{key} = {value}: {}",
                    error.message().replace('\n', " ")
                ));
                match value.split_once(',') {
                    Some((first, next)) if next.contains('=') => error.hint(format!(
                        "give each with an option of its own: {key}={first}"
                    )),
                    _ => error,
                }
            })?;
    // `depth` and `interval` exclude each other.
    match key {
        "depth" if flow.depth > 0 => flow.interval = Time(0),
        "interval" if flow.interval.0 > 0 => flow.depth = 0,
        _ => {}
    }
    Ok(flow)
}

impl FlowFile {
    fn config(&self) -> std::result::Result<FlowConfig, String> {
        let sectors = |size: Size, key: &str| {
            let sectors = size.0 / 512;
            if size.0.is_multiple_of(512) && sectors <= 1 << 21 {
                Ok(sectors as u32)
            } else {
                Err(format!(
                    "{key} of {} bytes is not a multiple of 512 up to 1 GiB",
                    size.0
                ))
            }
        };
        for (key, value, least) in [
            ("read", self.read, 0.0),
            ("hot", self.hot, 0.0),
            ("occupancy", self.occupancy, 0.0),
            ("working_set", self.working_set, 1e-9),
        ] {
            if !(least..=1.0).contains(&value) {
                return Err(format!("{key} is {value}; it must be a share from 0 to 1"));
            }
        }
        let size = sectors(self.size, "size")?;
        if size == 0 {
            return Err("a request has at least 512 bytes".to_owned());
        }
        let pace = match (self.depth, self.interval.0) {
            (0, 0) => {
                return Err(
                    "depth is 0, and there is no interval: either depth or interval is needed"
                        .to_owned(),
                );
            }
            (0, ps) if !(NS..=3600 * SECOND).contains(&ps) => {
                return Err(format!(
                    "interval is {}; 1ns to an hour are possible",
                    show_time(ps)
                ));
            }
            (0, ps) => Pace::Interval(ps / NS),
            (depth, 0) if depth <= 65_535 => Pace::Depth(depth),
            (depth, 0) => return Err(format!("a depth of {depth} is more than 65535")),
            _ => return Err("depth and interval exclude each other".to_owned()),
        };
        if self.requests == 0 && self.stop.0 == 0 {
            return Err("requests is 0 and there is no stop; one of them is needed".to_owned());
        }
        if self.pattern == Pattern::HotCold && (self.hot == 0.0 || self.hot == 1.0) {
            return Err(format!(
                "hot is {}; hot_cold needs a share between 0 and 1",
                self.hot
            ));
        }
        let deviation = sectors(self.deviation, "deviation")?;
        Ok(FlowConfig {
            name: self.name.clone(),
            queue: QueueConfig {
                class: self.class as u8,
                caching: self.caching,
                ids: [
                    self.channels.clone(),
                    self.chips.clone(),
                    self.dies.clone(),
                    self.planes.clone(),
                ],
                working_set: self.working_set,
                occupancy: self.occupancy,
                namespace: self.namespace,
                handle: self.handle,
                append: self.append,
            },
            origin: Origin::Synthetic(Synthetic {
                working_set: self.working_set,
                pace,
                read_ratio: self.read,
                addresses: match self.pattern {
                    Pattern::Uniform => Addresses::Uniform,
                    Pattern::Streaming => Addresses::Streaming,
                    Pattern::HotCold => Addresses::HotCold { ratio: self.hot },
                },
                align_sectors: match sectors(self.align, "align")? {
                    0 => size,
                    align => align,
                },
                sizes: if deviation == 0 {
                    Sizes::Fixed(size)
                } else {
                    Sizes::Normal {
                        mean: size,
                        deviation,
                    }
                },
                seed: self.seed,
                stop_at: self.stop.0,
                requests: self.requests,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_flow_is_read_with_its_units() {
        let text = "[[flow]]\nname = \"a\"\nread = 0.7\nsize = \"16KiB\"\ninterval = \"10us\"\ndepth = 0\npattern = \"streaming\"\n[[flow]]\nclass = \"low\"\n";
        let flows = WorkloadFile::from_toml(text).unwrap().flows().unwrap();
        assert_eq!(flows.len(), 2);
        let Origin::Synthetic(spec) = &flows[0].origin else {
            panic!("no generator");
        };
        assert_eq!(spec.pace, Pace::Interval(10_000));
        assert_eq!((spec.sizes, spec.align_sectors), (Sizes::Fixed(32), 32));
        assert_eq!(flows[1].queue.class, 3);
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        for (text, says) in [
            ("", "no flow"),
            ("[[flow]]\ndeph = 3\n", "did you mean `depth`?"),
            ("[[flow]]\nread = 1.5\n", "flow 0 (`flow`): read is 1.5"),
            ("[[flow]]\nsize = \"100B\"\n", "multiple of 512"),
            (
                "[[flow]]\ndepth = 0\n",
                "depth is 0, and there is no interval",
            ),
            ("[[flow]]\nsize = \"0B\"\n", "at least 512 bytes"),
            ("[[flow]]\nrequests = 0\n", "requests is 0"),
            ("[[flow]]\npattern = \"hot_cold\"\nhot = 0.0\n", "hot is 0"),
            (
                "[[flow]]\ndepth = 0\ninterval = \"1ps\"\n",
                "interval is 1ps",
            ),
            (
                "[[flow]]\ndepth = 0\ninterval = \"61min\"\n",
                "interval is 3660s",
            ),
            ("[[flow]]\nworking_set = 0.0\n", "working_set is 0"),
            ("[[flow]]\ndepth = 70000\n", "65535"),
            ("[[flow]]\nsize = \"4 bananas\"\n", "line 2"),
        ] {
            let error = WorkloadFile::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn values_are_set_for_all_flows_or_one() {
        let two = WorkloadFile {
            flow: vec![FlowFile::default(), FlowFile::default()],
        };
        let set = two.set("depth", "7").unwrap().set("1.read", "0").unwrap();
        assert_eq!((set.flow[0].depth, set.flow[1].depth), (7, 7));
        assert_eq!((set.flow[0].read, set.flow[1].read), (1.0, 0.0));
        assert_eq!(two.set("interval", "5us").unwrap().flow[0].depth, 0);
        assert_eq!(two.set("requests", "1e3").unwrap().flow[0].requests, 1000);
        for (key, value, says) in [
            ("dept", "7", "did you mean `depth`?"),
            ("2.depth", "7", "only 2 flows"),
            ("size", "nothing", "4GiB"),
            ("read", "2", "share"),
            ("requests", "1.5", "expected u64"),
            ("read", "1,requests=100", "an option of its own: read=1"),
        ] {
            let error = two.set(key, value).unwrap_err().to_string();
            assert!(error.contains(says), "{key}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,200}") {
            let _ = WorkloadFile::from_toml(&text);
        }
    }
}
