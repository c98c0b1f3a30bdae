//! Imports MQSim's workload file and its ASCII traces; the parent module has the contract.
//!
//! Contract: a key that MQSim ignores causes a warning; an unknown key is an error with its line.

use std::path::Path;

use outcore_io::{Error, Result};
use roxmltree::Node;

use super::{Import, parse, read};
use crate::config::Compat;
use crate::drive::{Caching, Op, QueueConfig};
use crate::quantities::NS;
use crate::workload::{Addresses, FlowConfig, List, ListItem, Origin, Pace, Sizes, Synthetic};

const FLOW_KEYS: [&str; 27] = [
    "Priority_Class",
    "Device_Level_Data_Caching_Mode",
    "Channel_IDs",
    "Chip_IDs",
    "Die_IDs",
    "Plane_IDs",
    "Initial_Occupancy_Percentage",
    "Working_Set_Percentage",
    "Synthetic_Generator_Type",
    "Read_Percentage",
    "Address_Distribution",
    "Percentage_of_Hot_Region",
    "Generated_Aligned_Addresses",
    "Address_Alignment_Unit",
    "Request_Size_Distribution",
    "Average_Request_Size",
    "Variance_Request_Size",
    "Seed",
    "Average_No_of_Reqs_in_Queue",
    "Bandwidth",
    "Intensity",
    "Stop_Time",
    "Total_Requests_To_Generate",
    "File_Path",
    "Percentage_To_Be_Executed",
    "Relay_Count",
    "Time_Unit",
];

/// Reads an MQSim workload file: the flows of every scenario.
pub fn import_workload(
    path: &Path,
    compat: Compat,
    warnings: &mut Vec<String>,
) -> Result<Vec<Vec<FlowConfig>>> {
    let text = read(path)?;
    workload_from_text(path, &text, compat, warnings)
}

/// [`import_workload`] from text.
pub fn workload_from_text(
    path: &Path,
    text: &str,
    compat: Compat,
    warnings: &mut Vec<String>,
) -> Result<Vec<Vec<FlowConfig>>> {
    let document = parse(path, text)?;
    let mut import = Import {
        document: &document,
        path,
        warnings,
    };
    let root = document.root_element();
    if root.tag_name().name() != "MQSim_IO_Scenarios" {
        return Err(import.wrong(root, "the root must be MQSim_IO_Scenarios".to_owned()));
    }
    let mut scenarios = Vec::new();
    for scenario in root.children().filter(Node::is_element) {
        import.check_key(scenario, &["IO_Scenario"])?;
        let mut flows = Vec::new();
        for node in scenario.children().filter(Node::is_element) {
            import.check_key(
                node,
                &[
                    "IO_Flow_Parameter_Set_Synthetic",
                    "IO_Flow_Parameter_Set_Trace_Based",
                ],
            )?;
            let number = flows.len();
            flows.push(import_flow(&mut import, node, number, compat)?);
        }
        if flows.is_empty() {
            return Err(import.wrong(scenario, "the scenario has no flow".to_owned()));
        }
        scenarios.push(flows);
    }
    if scenarios.is_empty() {
        return Err(import.wrong(root, "there is no IO_Scenario".to_owned()));
    }
    Ok(scenarios)
}

/// Numbers of a flow, as far as the file gives them.
#[derive(Default)]
struct Numbers {
    working_set: Option<u64>,
    depth: Option<u32>,
    by_rate: Option<bool>,
    bytes_per_second: Option<u64>,
    read: Option<u64>,
    addresses: Option<u8>,
    hot: u64,
    aligned: bool,
    align: u32,
    normal: bool,
    size_sectors: Option<u32>,
    deviation: u32,
    seed: Option<i32>,
    stop_ns: u64,
    requests: u64,
    file: Option<String>,
    percent: u64,
    rounds: u32,
}

fn import_flow<'a>(
    import: &mut Import<'a>,
    part: Node<'a, 'a>,
    number: usize,
    compat: Compat,
) -> Result<FlowConfig> {
    let mut queue = QueueConfig::default();
    let mut numbers = Numbers {
        percent: 100,
        rounds: 1,
        ..Numbers::default()
    };
    for node in part.children().filter(Node::is_element) {
        import.check_key(node, &FLOW_KEYS)?;
        match node.tag_name().name() {
            "Priority_Class" => {
                queue.class = import.choice(
                    node,
                    &[("URGENT", 0), ("HIGH", 1), ("MEDIUM", 2), ("LOW", 3)],
                )?;
            }
            "Device_Level_Data_Caching_Mode" => {
                queue.caching = import.choice(
                    node,
                    &[
                        ("TURNED_OFF", Caching::Off),
                        ("WRITE_CACHE", Caching::Write),
                        ("READ_CACHE", Caching::Read),
                        ("WRITE_READ_CACHE", Caching::WriteRead),
                    ],
                )?;
            }
            "Channel_IDs" => queue.ids[0] = import_ids(import, node)?,
            "Chip_IDs" => queue.ids[1] = import_ids(import, node)?,
            "Die_IDs" => queue.ids[2] = import_ids(import, node)?,
            "Plane_IDs" => queue.ids[3] = import_ids(import, node)?,
            "Initial_Occupancy_Percentage" => {
                queue.occupancy = import.unsigned(node)?.min(100) as f64 / 100.0;
            }
            _ => import_number(import, node, &mut numbers, compat)?,
        }
    }
    let origin = if part.tag_name().name() == "IO_Flow_Parameter_Set_Trace_Based" {
        let Some(file) = &numbers.file else {
            return Err(import.wrong(part, "File_Path is missing".to_owned()));
        };
        let near = import.path.parent().map(|parent| parent.join(file));
        let path = near
            .filter(|path| path.exists())
            .unwrap_or_else(|| file.into());
        let mut items = read_ascii_trace(&path)?;
        if numbers.rounds == 1 {
            items.truncate((numbers.percent as f64 / 100.0 * items.len() as f64) as usize);
        }
        Origin::List(List {
            items,
            depth: 0,
            rounds: numbers.rounds,
            file: numbers.file.clone(),
        })
    } else {
        let spec = finish_synthetic(import, part, &numbers)?;
        queue.working_set = spec.working_set;
        Origin::Synthetic(spec)
    };
    Ok(FlowConfig {
        name: format!("flow {number}"),
        queue,
        origin,
    })
}

fn import_ids<'a>(import: &Import<'a>, node: Node<'a, 'a>) -> Result<Vec<u32>> {
    let text = import.text(node);
    let mut ids = Vec::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let id = part.parse().map_err(|_| {
            import.wrong(
                node,
                format!("{} has `{part}`, not a number", node.tag_name().name()),
            )
        })?;
        ids.push(id);
    }
    // MQSim keeps the ids in a set.
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Err(import.wrong(node, format!("{} is empty", node.tag_name().name())));
    }
    Ok(ids)
}

fn import_number<'a>(
    import: &mut Import<'a>,
    node: Node<'a, 'a>,
    numbers: &mut Numbers,
    compat: Compat,
) -> Result<()> {
    match node.tag_name().name() {
        "Working_Set_Percentage" => numbers.working_set = Some(import.unsigned(node)?),
        "Synthetic_Generator_Type" => {
            numbers.by_rate =
                Some(import.choice(node, &[("QUEUE_DEPTH", false), ("BANDWIDTH", true)])?);
        }
        "Read_Percentage" => numbers.read = Some(import.unsigned(node)?),
        "Address_Distribution" => {
            numbers.addresses = Some(import.choice(
                node,
                &[
                    ("STREAMING", 0),
                    ("RANDOM_HOTCOLD", 1),
                    ("RANDOM_UNIFORM", 2),
                ],
            )?);
        }
        "Percentage_of_Hot_Region" => numbers.hot = import.unsigned(node)?,
        "Generated_Aligned_Addresses" => numbers.aligned = import.flag(node),
        "Address_Alignment_Unit" => numbers.align = import.small(node)?,
        "Request_Size_Distribution" => {
            numbers.normal = import.choice(node, &[("FIXED", false), ("NORMAL", true)])?;
        }
        "Average_Request_Size" => numbers.size_sectors = Some(import.small(node)?),
        "Variance_Request_Size" => numbers.deviation = import.small(node)?,
        "Seed" => numbers.seed = Some(import.small(node)?.min(i32::MAX as u32) as i32),
        "Average_No_of_Reqs_in_Queue" => numbers.depth = Some(import.small(node)?),
        "Bandwidth" => numbers.bytes_per_second = Some(import.unsigned(node)?),
        "Intensity" => {
            import.warn(
                node,
                "MQSim does not know this key; the rate is given by Bandwidth",
            );
        }
        "Stop_Time" => numbers.stop_ns = import.unsigned(node)?,
        "Total_Requests_To_Generate" => numbers.requests = import.unsigned(node)?,
        "File_Path" => numbers.file = Some(import.text(node).to_owned()),
        "Percentage_To_Be_Executed" => numbers.percent = import.unsigned(node)?.min(100),
        "Relay_Count" => numbers.rounds = import.small(node)?.max(1),
        "Time_Unit" => {
            let unit = import.choice(
                node,
                &[("NANOSECOND", 0), ("PICOSECOND", 1), ("MICROSECOND", 2)],
            )?;
            if unit != 0 {
                let what = "MQSim reads all times of a trace as nanoseconds";
                if compat == Compat::Mqsim {
                    import.warn(node, what);
                } else {
                    return Err(import.wrong(node, format!("{what}; convert the trace")));
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn finish_synthetic<'a>(
    import: &Import<'a>,
    part: Node<'a, 'a>,
    numbers: &Numbers,
) -> Result<Synthetic> {
    let missing = |key: &str| import.wrong(part, format!("{key} is missing"));
    let size = numbers
        .size_sectors
        .ok_or_else(|| missing("Average_Request_Size"))?;
    if size == 0 || size > 0xffff {
        return Err(import.wrong(
            part,
            format!("Average_Request_Size is {size}; it must be 1 to 65535"),
        ));
    }
    let by_rate = numbers
        .by_rate
        .ok_or_else(|| missing("Synthetic_Generator_Type"))?;
    let pace = if by_rate {
        let bandwidth = numbers
            .bytes_per_second
            .ok_or_else(|| missing("Bandwidth"))?;
        let requests_per_s = bandwidth / 512 / u64::from(size);
        if requests_per_s == 0 {
            return Err(import.wrong(
                part,
                "Bandwidth is less than one request per second".to_owned(),
            ));
        }
        Pace::Interval(1_000_000_000 / requests_per_s)
    } else {
        let depth = numbers
            .depth
            .ok_or_else(|| missing("Average_No_of_Reqs_in_Queue"))?;
        if depth == 0 {
            return Err(import.wrong(
                part,
                "Average_No_of_Reqs_in_Queue must not be zero".to_owned(),
            ));
        }
        Pace::Depth(depth)
    };
    let addresses = match numbers
        .addresses
        .ok_or_else(|| missing("Address_Distribution"))?
    {
        0 => Addresses::Streaming,
        1 => Addresses::HotCold {
            ratio: numbers.hot as f64 / 100.0,
        },
        _ => Addresses::Uniform,
    };
    let set = numbers.working_set.unwrap_or(100);
    let set = if (1..=100).contains(&set) { set } else { 100 };
    let align_sectors = if numbers.aligned { numbers.align } else { 0 };
    if numbers.aligned && numbers.align == 0 {
        return Err(import.wrong(part, "Address_Alignment_Unit must not be zero".to_owned()));
    }
    Ok(Synthetic {
        working_set: set as f64 / 100.0,
        pace,
        read_ratio: numbers.read.ok_or_else(|| missing("Read_Percentage"))? as f64 / 100.0,
        addresses,
        align_sectors,
        sizes: if numbers.normal {
            Sizes::Normal {
                mean: size,
                deviation: numbers.deviation,
            }
        } else {
            Sizes::Fixed(size)
        },
        seed: numbers.seed.ok_or_else(|| missing("Seed"))?,
        stop_at: numbers.stop_ns.saturating_mul(NS),
        requests: numbers.requests,
    })
}

/// Reads MQSim's ASCII trace: `time_ns device lsn sectors type`, type 1 = read, 0 = write.
pub(crate) fn read_ascii_trace(path: &Path) -> Result<Vec<ListItem>> {
    ascii_trace_from_text(&read(path)?).map_err(|error| error.path(path))
}

/// [`read_ascii_trace`] from text. Times must not decrease.
pub fn ascii_trace_from_text(text: &str) -> Result<Vec<ListItem>> {
    let mut items: Vec<ListItem> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |cause: String| {
            Error::usage("read MQSim trace", format!("line {}: {cause}", number + 1))
        };
        let mut fields = [""; 5];
        let mut count = 0;
        for field in line.split_ascii_whitespace() {
            if let Some(place) = fields.get_mut(count) {
                *place = field;
            }
            count += 1;
        }
        if count != fields.len() {
            return Err(wrong(format!("{count} fields instead of 5"))
                .hint("a line is `time_ns device first_sector sectors type`"));
        }
        let number_of = |at: usize, name: &str| {
            fields[at]
                .parse::<u64>()
                .map_err(|_| wrong(format!("{name} is `{}`", fields[at])))
        };
        let at = number_of(0, "the time").map_err(|error| {
            error.hint("MQSim's times are whole nanoseconds; `sim run --trace` takes `--time-unit`")
        })?;
        let at = at.saturating_mul(NS);
        let sectors = number_of(3, "the size")?;
        if sectors == 0 || sectors > u64::from(u16::MAX) {
            return Err(wrong(format!(
                "a request of {sectors} sectors; 1 to 65535 are possible"
            )));
        }
        let op = match fields[4] {
            "0" => Op::Write,
            "1" => Op::Read,
            other => {
                return Err(wrong(format!(
                    "type `{other}` is neither 0 (write) nor 1 (read)"
                )));
            }
        };
        if items.last().is_some_and(|last| last.at > at) {
            return Err(wrong("the time goes backwards".to_owned()).hint("sort the trace by time"));
        }
        items.push(ListItem {
            at,
            op,
            lba: number_of(2, "the address")?,
            sectors: sectors as u32,
        });
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_trace_line_that_is_wrong_is_named() {
        for (text, part) in [
            ("1 0 8 8\n", "line 1: 4 fields"),
            ("1 0 8 8 1\n5 0 x 8 1\n", "line 2: the address is `x`"),
            ("1 0 8 0 1\n", "0 sectors"),
            ("1 0 8 8 2\n", "type `2`"),
            ("9 0 8 8 1\n5 0 8 8 1\n", "goes backwards"),
        ] {
            let error = ascii_trace_from_text(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_unknown_key_of_a_flow_names_line_and_nearest_key() {
        let text = "<MQSim_IO_Scenarios><IO_Scenario>\n<IO_Flow_Parameter_Set_Synthetic>\n<Read_Percentge>1</Read_Percentge></IO_Flow_Parameter_Set_Synthetic></IO_Scenario></MQSim_IO_Scenarios>";
        let error = workload_from_text(Path::new("w.xml"), text, Compat::Mqsim, &mut Vec::new());
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("line 3") && error.contains("`Read_Percentage`"),
            "{error}"
        );
    }

    #[test]
    fn what_mqsim_would_read_uninitialised_is_an_error() {
        let text = "<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Synthetic><Seed>1</Seed></IO_Flow_Parameter_Set_Synthetic></IO_Scenario></MQSim_IO_Scenarios>";
        let error = workload_from_text(Path::new("w.xml"), text, Compat::Mqsim, &mut Vec::new());
        assert!(error.unwrap_err().to_string().contains("is missing"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "[<>/a-zA-Z_0-9 ,\\n]{0,300}") {
            let path = Path::new("x.xml");
            let _ = workload_from_text(path, &text, Compat::Mqsim, &mut Vec::new());
            let _ = super::super::drive_from_text(path, &text, Compat::Mqsim, &mut Vec::new());
            let _ = ascii_trace_from_text(&text);
        }
    }
}
