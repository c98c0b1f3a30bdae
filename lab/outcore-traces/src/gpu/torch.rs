//! PyTorch profiler (Kineto) traces: JSON in Chrome's trace-event form.
//!
//! Contract: the text is parsed as a stream; only the current event is held. A kernel is an event
//! with `cat` "kernel" (older versions write "Kernel") and a duration. `ts` and `dur` are
//! microseconds with decimals, parsed digit by digit: a floating-point time since 1970 would lose
//! 250 ns. `args` must have `grid` and `block`; stream, registers and shared memory may be missing.
//! The events are in `traceEvents`, or the whole text is their list.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;

use outcore_io::{Error, Result};
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::gpu::{GpuFormat, Kernel, Sink};
use crate::lines::parse_time;
use crate::skips::{FormatPart, Reason};
use crate::source::{self, Bytes};

const NS_PER_US: u64 = 1_000;

/// Reads the kernels of `bytes`.
pub(crate) fn read(bytes: Bytes, path: &Path, sink: &mut Sink<'_>) -> Result<()> {
    let context = Context {
        path,
        events: RefCell::new(Events {
            sink,
            number: 0,
            stopped: None,
        }),
    };
    let mut json = serde_json::Deserializer::from_reader(bytes);
    let parsed = Document(&context)
        .deserialize(&mut json)
        .and_then(|()| json.end());
    if let Some(error) = context.events.into_inner().stopped {
        return Err(error);
    }
    parsed.map_err(|error| match error.classify() {
        serde_json::error::Category::Io => source::read_error(&error.into(), path, 0),
        serde_json::error::Category::Data if error.to_string().contains("`traceEvents`") => {
            let cause = format!("the file is not a trace of PyTorch: {error}");
            Error::corrupt("read PyTorch trace", cause)
                .path(path)
                .hint("prof.export_chrome_trace(\"trace.json\") of torch.profiler writes one")
        }
        _ => Error::corrupt("read PyTorch trace", format!("damaged JSON: {error}"))
            .path(path)
            .hint("the profiler was probably stopped while it wrote the file; record it again"),
    })
}

/// State shared by the visitors.
struct Context<'a, 'b> {
    path: &'a Path,
    events: RefCell<Events<'a, 'b>>,
}

struct Events<'a, 'b> {
    sink: &'a mut Sink<'b>,
    /// Number of the event, from 1.
    number: u64,
    /// The error with which the reader itself stopped the parser.
    stopped: Option<Error>,
}

impl Context<'_, '_> {
    /// Processes one event; an error stops the parser.
    fn take(&self, event: Event) -> std::result::Result<(), &'static str> {
        let mut events = self.events.borrow_mut();
        events.number += 1;
        if let Err(error) = events.event(event, self.path) {
            events.stopped = Some(error);
            return Err("stopped");
        }
        Ok(())
    }
}

impl Events<'_, '_> {
    fn event(&mut self, event: Event, path: &Path) -> Result<()> {
        if !event.is_kernel() {
            self.sink.tally.ignored += 1;
            return Ok(());
        }
        match event.kernel(self.sink) {
            Ok(kernel) => self.sink.kernel(kernel),
            Err(reason) => {
                let name = event.name.unwrap_or_default();
                let what = FormatPart {
                    part: "event",
                    format: GpuFormat::Torch.title(),
                };
                self.sink
                    .tally
                    .bad(reason, path, self.number, 0, name.as_bytes(), what)
            }
        }
    }
}

/// The fields of an event that a kernel needs.
#[derive(Default)]
struct Event {
    category: Option<String>,
    phase: Option<String>,
    name: Option<String>,
    start: Option<Box<RawValue>>,
    duration: Option<Box<RawValue>>,
    args: Option<Box<RawValue>>,
}

/// The resources of a kernel; other arguments are skipped.
#[derive(Deserialize)]
struct Args {
    grid: Option<[u32; 3]>,
    block: Option<[u32; 3]>,
    #[serde(default)]
    stream: Option<u64>,
    #[serde(default, rename = "registers per thread")]
    registers: Option<u32>,
    #[serde(default, rename = "shared memory")]
    shared_bytes: Option<u64>,
}

impl Event {
    fn is_kernel(&self) -> bool {
        self.category
            .as_deref()
            .is_some_and(|text| text.eq_ignore_ascii_case("kernel"))
            && self.phase.as_deref().is_none_or(|phase| phase == "X")
    }

    fn kernel(&self, sink: &mut Sink<'_>) -> std::result::Result<Kernel, Reason> {
        let name = self.name.as_deref().ok_or(Reason::Missing)?;
        let time = |value: &Option<Box<RawValue>>| {
            let text = value
                .as_ref()
                .ok_or(Reason::Missing)?
                .get()
                .trim_matches('"');
            parse_time(text.as_bytes(), NS_PER_US).ok_or(Reason::Time)
        };
        let (start_ns, duration_ns) = (time(&self.start)?, time(&self.duration)?);
        let args = self.args.as_ref().ok_or(Reason::Missing)?;
        let args: Args = serde_json::from_str(args.get()).map_err(|_| Reason::Number)?;
        Ok(Kernel {
            name: sink.name(name),
            grid: args.grid.ok_or(Reason::Missing)?,
            block: args.block.ok_or(Reason::Missing)?,
            start_ns: Some(start_ns),
            duration_ns: Some(duration_ns),
            stream: args.stream.unwrap_or(0),
            registers: args.registers.unwrap_or(0),
            shared_bytes: args.shared_bytes.unwrap_or(0),
        })
    }
}

/// The whole text: an object with `traceEvents`, or the list itself.
struct Document<'c, 'a, 'b>(&'c Context<'a, 'b>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `traceEvents`, or a list of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut has_events = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                has_events = true;
                map.next_value_seed(List(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if has_events {
            Ok(())
        } else {
            Err(de::Error::missing_field("traceEvents"))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> std::result::Result<(), A::Error> {
        List(self.0).visit_seq(seq)
    }
}

/// The list of events.
struct List<'c, 'a, 'b>(&'c Context<'a, 'b>);

impl<'de> DeserializeSeed<'de> for List<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        while let Some(event) = seq.next_element::<Event>()? {
            self.0.take(event).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Event, A::Error> {
        let mut event = Event::default();
        // Once the category is known to be another one, the rest is skipped without a copy.
        let mut is_other = false;
        while let Some(key) = map.next_key::<Key>()? {
            if is_other {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            match key {
                Key::Category => {
                    event.category = map.next_value::<Text>()?.0;
                    is_other = event
                        .category
                        .as_deref()
                        .is_some_and(|text| !text.eq_ignore_ascii_case("kernel"));
                }
                Key::Phase => event.phase = map.next_value::<Text>()?.0,
                Key::Name => event.name = map.next_value::<Text>()?.0,
                Key::Start => event.start = Some(map.next_value()?),
                Key::Duration => event.duration = Some(map.next_value()?),
                Key::Args => event.args = Some(map.next_value()?),
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(event)
    }
}

/// The keys of an event that are used.
#[derive(Deserialize)]
#[serde(field_identifier)]
enum Key {
    #[serde(rename = "cat")]
    Category,
    #[serde(rename = "ph")]
    Phase,
    #[serde(rename = "name")]
    Name,
    #[serde(rename = "ts")]
    Start,
    #[serde(rename = "dur")]
    Duration,
    #[serde(rename = "args")]
    Args,
    #[serde(other)]
    Other,
}

/// A string, or nothing if the event has a value of another type.
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Text(serde_json::from_str(raw.get()).ok()))
    }
}

#[cfg(test)]
mod tests {
    use crate::gpu::read_text;
    use crate::skips::{OnError, Reason};

    const KERNEL: &str = r#"{"ph":"X","cat":"kernel","name":"gemm<float>(float*, int)","pid":0,
        "tid":7,"ts":1712195495505582.988,"dur":4.928,"args":{"External id":112,"queued":0,
        "device":0,"stream":7,"registers per thread":30,"shared memory":48,
        "blocks per SM":5.3,"grid":[4,106,1],"block":[128,2,1]}}"#;

    #[test]
    fn a_kernel_is_read_to_the_nanosecond() {
        let json = format!(
            r#"{{"schemaVersion":1,"deviceProperties":[{{"id":0}}],
            "traceEvents":[{{"ph":"M","name":"process_name","ts":0,"args":{{"name":"python"}}}},
            {{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":1,"dur":2,"args":{{"a":[[],{{}}]}}}},
            {KERNEL}],"traceName":"x.json"}}"#
        );
        let (kernels, report) = read_text(&json, OnError::Fail).unwrap();
        let kernel = &kernels[0];
        assert_eq!(&*kernel.name, "gemm<float>(float*, int)");
        assert_eq!((kernel.grid, kernel.block), ([4, 106, 1], [128, 2, 1]));
        assert_eq!(kernel.start_ns, Some(1_712_195_495_505_582_988));
        assert_eq!(kernel.duration_ns, Some(4_928));
        assert_eq!(
            (kernel.stream, kernel.registers, kernel.shared_bytes),
            (7, 30, 48)
        );
        assert_eq!((kernel.blocks(), kernel.threads_per_block()), (424, 256));
        assert_eq!((report.kernels, report.ignored, report.names), (1, 2, 1));
    }

    #[test]
    fn json_of_another_kind_is_no_trace() {
        let json = "{\"price\": 1}\n{\"price\": 2}\n";
        let error = read_text(json, OnError::Fail).unwrap_err().to_string();
        assert!(
            error.contains("not a trace of PyTorch: missing field `traceEvents`"),
            "{error}"
        );
        assert!(error.contains("export_chrome_trace"), "{error}");
    }

    #[test]
    fn the_order_of_keys_and_the_form_of_the_list_do_not_matter() {
        let json = r#"[{"args":{"block":[1,2,3],"grid":[4,5,6]},"dur":"2","ts":10,"name":"k",
            "cat":"Kernel","ph":"X"}, {"cat":7,"name":"k"}, {}]"#;
        let (kernels, report) = read_text(json, OnError::Fail).unwrap();
        assert_eq!(
            (kernels[0].start_ns, kernels[0].duration_ns),
            (Some(10_000), Some(2_000))
        );
        assert_eq!((kernels[0].stream, kernels[0].registers), (0, 0));
        assert_eq!((report.kernels, report.ignored), (1, 2));
    }

    #[test]
    fn a_kernel_with_a_hole_is_skipped_counted_and_named() {
        let bad = [
            KERNEL.replace("\"grid\"", "\"grit\""),
            KERNEL.replace("4.928", "-4.928"),
            KERNEL.replace("[128,2,1]", "[128,2]"),
            KERNEL.replace("\"dur\"", "\"duration\""),
            KERNEL.replace("\"ts\":1712195495505582.988", "\"ts\":1e300"),
        ];
        let json = format!("[{},{KERNEL}]", bad.join(","));
        let (kernels, report) = read_text(&json, OnError::Skip).unwrap();
        assert_eq!(kernels.len(), 1);
        let count = |reason| report.skipped.count(reason);
        assert_eq!(
            (
                count(Reason::Missing),
                count(Reason::Time),
                count(Reason::Number)
            ),
            (2, 2, 1)
        );
        let error = read_text(&json, OnError::Fail).unwrap_err().to_string();
        assert!(
            error.contains("event 1 as") && error.contains("gemm<float>"),
            "{error}"
        );
    }

    #[test]
    fn damaged_json_is_an_error_with_line_and_column() {
        let json = format!("{{\"traceEvents\": [\n{KERNEL},\n");
        let error = read_text(&json, OnError::Skip).unwrap_err().to_string();
        assert!(error.contains("line 6 column 0"), "{error}");
        for json in [
            "{}",
            "{\"traceEvents\":3}",
            "{\"a\":[1,2}",
            "[1]",
            "[{}] x",
            "{",
        ] {
            let error = read_text(json, OnError::Skip).unwrap_err();
            assert_eq!(error.kind(), outcore_io::Kind::Corrupt, "{json}: {error}");
        }
    }
}
