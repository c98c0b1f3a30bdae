//! Imports MQSim's two input files and its ASCII traces.
//!
//! Contract: the keys are those that MQSim 7ec40e3 writes. A key that MQSim ignores or misreads
//! causes a warning that explains what MQSim does instead. An unknown key is an error with the line
//! and the nearest known key. Values are checked. Nothing is guessed: if a flow omits a key that
//! MQSim would read from uninitialised memory, the import fails.
//!
//! Source of keys, defaults and misreadings: CMU-SAFARI/MQSim at 7ec40e3, from its source and from
//! runs.

mod flows;

use std::path::Path;

use outcore_io::drive::paths;
use outcore_io::units::nearest;
use outcore_io::{Error, Result};
use roxmltree::{Document, Node};

use crate::config::{Cell, Compat, DriveConfig, GcPolicy, Interface, Policy, Sharing, Suspension};
pub use flows::{ascii_trace_from_text, import_workload, workload_from_text};

use crate::quantities::{NS, Rate, Size, Time, Transfers};

const OPERATION: &str = "read MQSim input";

/// A file being imported: its text positions and the warnings so far.
struct Import<'a> {
    document: &'a Document<'a>,
    path: &'a Path,
    warnings: &'a mut Vec<String>,
}

/// The meaning of a key of the device file in MQSim.
enum Meaning {
    /// MQSim uses it.
    Used,
    /// MQSim reads it without effect, or does not read it at all, for this reason.
    Ignored(&'static str),
}

const HOST_KEYS: [&str; 5] = [
    "PCIe_Lane_Bandwidth",
    "PCIe_Lane_Count",
    "SATA_Processing_Delay",
    "Enable_ResponseTime_Logging",
    "ResponseTime_Logging_Period_Length",
];

const DEVICE_KEYS: [&str; 42] = [
    "Seed",
    "Enabled_Preconditioning",
    "Memory_Type",
    "HostInterface_Type",
    "IO_Queue_Depth",
    "Queue_Fetch_Size",
    "Caching_Mechanism",
    "Data_Cache_Sharing_Mode",
    "Data_Cache_Capacity",
    "Data_Cache_DRAM_Row_Size",
    "Data_Cache_DRAM_Data_Rate",
    "Data_Cache_DRAM_Data_Busrt_Size",
    "Data_Cache_DRAM_tRCD",
    "Data_Cache_DRAM_tCL",
    "Data_Cache_DRAM_tRP",
    "Address_Mapping",
    "Ideal_Mapping_Table",
    "CMT_Capacity",
    "CMT_Sharing_Mode",
    "Plane_Allocation_Scheme",
    "Transaction_Scheduling_Policy",
    "Overprovisioning_Ratio",
    "GC_Exec_Threshold",
    "GC_Block_Selection_Policy",
    "Use_Copyback_for_GC",
    "Preemptible_GC_Enabled",
    "GC_Hard_Threshold",
    "Dynamic_Wearleveling_Enabled",
    "Static_Wearleveling_Enabled",
    "Static_Wearleveling_Threshold",
    "Preferred_suspend_erase_time_for_read",
    "Prefered_suspend_erase_time_for_read",
    "Preferred_suspend_erase_time_for_write",
    "Preferred_suspend_write_time_for_read",
    "Flash_Channel_Count",
    "Flash_Channel_Width",
    "Channel_Transfer_Rate",
    "Chip_No_Per_Channel",
    "Flash_Comm_Protocol",
    "Flash_Parameter_Set",
    "Data_Cache_DRAM_Data_Burst_Size",
    "Flash_Channel_Number",
];

const FLASH_KEYS: [&str; 18] = [
    "Flash_Technology",
    "CMD_Suspension_Support",
    "Page_Read_Latency_LSB",
    "Page_Read_Latency_CSB",
    "Page_Read_Latency_MSB",
    "Page_Program_Latency_LSB",
    "Page_Program_Latency_CSB",
    "Page_Program_Latency_MSB",
    "Block_Erase_Latency",
    "Block_PE_Cycles_Limit",
    "Suspend_Erase_Time",
    "Suspend_Program_Time",
    "Die_No_Per_Chip",
    "Plane_No_Per_Die",
    "Block_No_Per_Plane",
    "Page_No_Per_Block",
    "Page_Capacity",
    "Page_Metadat_Capacity",
];

fn device_meaning(key: &str, compat: bool) -> Meaning {
    let only_compat = |reason| {
        if compat {
            Meaning::Ignored(reason)
        } else {
            Meaning::Used
        }
    };
    match key {
        "Dynamic_Wearleveling_Enabled"
        | "Static_Wearleveling_Enabled"
        | "Static_Wearleveling_Threshold" => {
            only_compat("it never reaches the collector, which levels wear by its own defaults")
        }
        "Preferred_suspend_erase_time_for_read" => {
            only_compat("MQSim looks for it under the name `Prefered_suspend_erase_time_for_read`")
        }
        "Prefered_suspend_erase_time_for_read"
        | "Preferred_suspend_erase_time_for_write"
        | "Preferred_suspend_write_time_for_read"
        | "CMD_Suspension_Support"
        | "Suspend_Erase_Time"
        | "Suspend_Program_Time" => only_compat("suspension never happens"),
        "Block_PE_Cycles_Limit" => Meaning::Ignored("blocks never wear out"),
        "Page_Metadat_Capacity" => Meaning::Ignored("the spare area is never transferred"),
        "Enable_ResponseTime_Logging" | "ResponseTime_Logging_Period_Length" => {
            Meaning::Ignored("it only concerns MQSim's own log file")
        }
        "Data_Cache_DRAM_Data_Burst_Size" => {
            Meaning::Ignored("MQSim spells it `Data_Cache_DRAM_Data_Busrt_Size`")
        }
        "Flash_Channel_Number" => Meaning::Ignored("the key is `Flash_Channel_Count`"),
        "Seed" => only_compat("the collector has a seed of its own"),
        _ => Meaning::Used,
    }
}

impl<'a> Import<'a> {
    fn line(&self, node: Node<'_, '_>) -> u32 {
        self.document.text_pos_at(node.range().start).row
    }

    fn wrong(&self, node: Node<'_, '_>, cause: String) -> Error {
        Error::usage(OPERATION, format!("line {}: {cause}", self.line(node))).path(self.path)
    }

    fn check_key(&self, node: Node<'_, '_>, known: &[&str]) -> Result<()> {
        let key = node.tag_name().name();
        if known.contains(&key) {
            return Ok(());
        }
        let error = self.wrong(node, format!("`{key}` is not a key of MQSim"));
        Err(match nearest(key, known) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error,
        })
    }

    fn text(&self, node: Node<'a, 'a>) -> &'a str {
        node.text().unwrap_or("").trim()
    }

    fn unsigned(&self, node: Node<'a, 'a>) -> Result<u64> {
        let text = self.text(node);
        text.parse().map_err(|_| {
            self.wrong(
                node,
                format!("{} is `{text}`, not a whole number", node.tag_name().name()),
            )
        })
    }

    fn small(&self, node: Node<'a, 'a>) -> Result<u32> {
        let value = self.unsigned(node)?;
        u32::try_from(value).map_err(|_| {
            self.wrong(
                node,
                format!("{} is {value}, which is too large", node.tag_name().name()),
            )
        })
    }

    fn real(&self, node: Node<'a, 'a>) -> Result<f64> {
        let text = self.text(node);
        text.parse::<f64>()
            .ok()
            .filter(|value| value.is_finite())
            .ok_or_else(|| {
                self.wrong(
                    node,
                    format!("{} is `{text}`, not a number", node.tag_name().name()),
                )
            })
    }

    fn flag(&self, node: Node<'a, 'a>) -> bool {
        !self.text(node).eq_ignore_ascii_case("false")
    }

    fn choice<T: Copy>(&self, node: Node<'a, 'a>, choices: &[(&str, T)]) -> Result<T> {
        let text = self.text(node);
        if let Some((_, value)) = choices
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text))
        {
            return Ok(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let error = self.wrong(
            node,
            format!(
                "{} is `{text}`, not one of {}",
                node.tag_name().name(),
                names.join(", ")
            ),
        );
        Err(match nearest(text, &names) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error,
        })
    }

    fn warn(&mut self, node: Node<'_, '_>, what: &str) {
        let warning = format!(
            "{}, line {}: {}: {what}",
            self.path.display(),
            self.line(node),
            node.tag_name().name()
        );
        self.warnings.push(warning);
    }
}

fn parse<'a>(path: &Path, text: &'a str) -> Result<Document<'a>> {
    Document::parse(text).map_err(|error| {
        Error::usage(OPERATION, format!("line {}: {error}", error.pos().row)).path(path)
    })
}

fn read(path: &Path) -> Result<String> {
    paths::read_text(OPERATION, path)
}

/// Reads an MQSim device file.
pub fn import_drive(
    path: &Path,
    compat: Compat,
    warnings: &mut Vec<String>,
) -> Result<DriveConfig> {
    let text = read(path)?;
    drive_from_text(path, &text, compat, warnings)
}

/// [`import_drive`] from text.
pub fn drive_from_text(
    path: &Path,
    text: &str,
    compat: Compat,
    warnings: &mut Vec<String>,
) -> Result<DriveConfig> {
    let document = parse(path, text)?;
    let mut import = Import {
        document: &document,
        path,
        warnings,
    };
    let root = document.root_element();
    if root.tag_name().name() != "Execution_Parameter_Set" {
        return Err(import.wrong(root, "the root must be Execution_Parameter_Set".to_owned()));
    }
    let mut config = mqsim_defaults(compat);
    for part in root.children().filter(Node::is_element) {
        match part.tag_name().name() {
            "Host_Parameter_Set" => import_host(&mut import, part, &mut config)?,
            "Device_Parameter_Set" => import_device(&mut import, part, &mut config)?,
            _ => import.check_key(part, &["Host_Parameter_Set", "Device_Parameter_Set"])?,
        }
    }
    config.validate().map_err(|error| error.path(path))?;
    if config.flash.planes > 4 && compat == Compat::Mqsim {
        return Err(Error::usage(
            OPERATION,
            "MQSim has command times for at most 4 planes per die and reads past them beyond that",
        )
        .path(path)
        .hint("use compat = \"none\" for more planes"));
    }
    Ok(config)
}

/// MQSim's own defaults.
pub(crate) fn mqsim_defaults(compat: Compat) -> DriveConfig {
    let mut config = DriveConfig {
        compat,
        name: "mqsim".to_owned(),
        seed: 123,
        precondition: true,
        ..DriveConfig::default()
    };
    config.host.pcie_lane_rate = Rate(400_000_000);
    config.cache.capacity = Size(512 << 20);
    config.mapping.resident = false;
    config.scheduling.policy = Policy::OutOfOrder;
    config.scheduling.suspension = Suspension::Erase;
    config.gc.preemptible = true;
    config.gc.static_wear_levelling = true;
    config.gc.concurrent = 10;
    config.flash.bus = Transfers(300_000_000);
    config
}

fn import_host<'a>(
    import: &mut Import<'a>,
    part: Node<'a, 'a>,
    config: &mut DriveConfig,
) -> Result<()> {
    for node in part.children().filter(Node::is_element) {
        import.check_key(node, &HOST_KEYS)?;
        match node.tag_name().name() {
            "PCIe_Lane_Bandwidth" => {
                let gigabytes = import.real(node)?;
                if gigabytes <= 0.0 {
                    return Err(
                        import.wrong(node, "PCIe_Lane_Bandwidth must be positive".to_owned())
                    );
                }
                config.host.pcie_lane_rate = Rate((gigabytes * 1e9).round() as u64);
            }
            "PCIe_Lane_Count" => config.host.pcie_lanes = import.small(node)?,
            "SATA_Processing_Delay" => {
                config.host.sata_delay = Time(import.unsigned(node)?.saturating_mul(NS))
            }
            key => {
                if let Meaning::Ignored(reason) = device_meaning(key, true)
                    && import.flag(node)
                    && key == "Enable_ResponseTime_Logging"
                {
                    import.warn(node, reason);
                }
            }
        }
    }
    Ok(())
}

fn import_device<'a>(
    import: &mut Import<'a>,
    part: Node<'a, 'a>,
    config: &mut DriveConfig,
) -> Result<()> {
    let compat = config.compat == Compat::Mqsim;
    for node in part.children().filter(Node::is_element) {
        import.check_key(node, &DEVICE_KEYS)?;
        let key = node.tag_name().name();
        if let Meaning::Ignored(reason) = device_meaning(key, compat) {
            import.warn(node, reason);
        }
        match key {
            "Flash_Parameter_Set" => import_flash(import, node, config)?,
            "Seed" => config.seed = import.small(node)?.min(i32::MAX as u32) as i32,
            "Enabled_Preconditioning" => config.precondition = import.flag(node),
            "Memory_Type" => import.choice(node, &[("FLASH", ())])?,
            "HostInterface_Type" => {
                config.host.interface = import.choice(
                    node,
                    &[("NVME", Interface::Nvme), ("SATA", Interface::Sata)],
                )?;
                if config.host.interface == Interface::Sata && config.compat == Compat::Mqsim {
                    return Err(import.wrong(
                        node,
                        "MQSim's SATA front end is not reproduced; use NVME, or go without compat"
                            .to_owned(),
                    ));
                }
            }
            "IO_Queue_Depth" => config.host.queue_entries = import.small(node)? & 0xffff,
            "Queue_Fetch_Size" => config.host.fetch_depth = import.small(node)? & 0xffff,
            "Flash_Comm_Protocol" => import.choice(node, &[("NVDDR2", ())])?,
            "Flash_Channel_Count" => config.flash.channels = import.small(node)?,
            "Flash_Channel_Width" => config.flash.bus_bytes = import.small(node)?,
            "Channel_Transfer_Rate" => import_bus_rate(import, node, config)?,
            "Chip_No_Per_Channel" => config.flash.chips = import.small(node)?,
            "Overprovisioning_Ratio" => config.flash.over_provisioning = import.real(node)?,
            _ => {
                import_cache(import, node, config)?;
                import_mapping(import, node, config)?;
                import_collection(import, node, config)?;
            }
        }
    }
    Ok(())
}

fn import_bus_rate<'a>(
    import: &mut Import<'a>,
    node: Node<'a, 'a>,
    config: &mut DriveConfig,
) -> Result<()> {
    let rate = import.unsigned(node)?;
    if rate == 0 {
        return Err(import.wrong(node, "Channel_Transfer_Rate must not be zero".to_owned()));
    }
    config.flash.bus = Transfers(rate.saturating_mul(1_000_000));
    if config.compat == Compat::Mqsim && 1000 % rate != 0 {
        let effect = match 1000 / rate {
            0 => "transfers take no time".to_owned(),
            ns => format!("it acts like {} MT/s", 1000 / ns),
        };
        import.warn(
            node,
            &format!("MQSim cuts the time of a transfer to whole nanoseconds: {effect}"),
        );
    }
    Ok(())
}

fn import_cache<'a>(
    import: &mut Import<'a>,
    node: Node<'a, 'a>,
    config: &mut DriveConfig,
) -> Result<()> {
    let sharing = [
        ("SHARED", Sharing::Shared),
        ("EQUAL_PARTITIONING", Sharing::Equal),
    ];
    let cache = &mut config.cache;
    match node.tag_name().name() {
        "Caching_Mechanism" => {
            let simple = import.choice(node, &[("ADVANCED", false), ("SIMPLE", true)])?;
            if simple {
                import.warn(node, "MQSim stops with an error when a flow uses the simple cache; the advanced one is used");
            }
        }
        "Data_Cache_Sharing_Mode" => cache.sharing = import.choice(node, &sharing)?,
        "Data_Cache_Capacity" => cache.capacity = Size(import.unsigned(node)?),
        "Data_Cache_DRAM_Row_Size" => cache.row = Size(import.unsigned(node)?),
        "Data_Cache_DRAM_Data_Rate" => {
            cache.rate = Transfers(import.unsigned(node)?.saturating_mul(1_000_000));
        }
        "Data_Cache_DRAM_Data_Busrt_Size" => cache.burst = Size(import.unsigned(node)?),
        "Data_Cache_DRAM_tRCD" => cache.t_rcd = Time(import.unsigned(node)?.saturating_mul(NS)),
        "Data_Cache_DRAM_tCL" => cache.t_cl = Time(import.unsigned(node)?.saturating_mul(NS)),
        "Data_Cache_DRAM_tRP" => cache.t_rp = Time(import.unsigned(node)?.saturating_mul(NS)),
        _ => {}
    }
    Ok(())
}

fn import_mapping<'a>(
    import: &mut Import<'a>,
    node: Node<'a, 'a>,
    config: &mut DriveConfig,
) -> Result<()> {
    let mapping = &mut config.mapping;
    match node.tag_name().name() {
        "Address_Mapping" => {
            let hybrid = import.choice(node, &[("PAGE_LEVEL", false), ("HYBRID", true)])?;
            if hybrid {
                return Err(import.wrong(
                    node,
                    "MQSim's hybrid mapping is a stub that does nothing".to_owned(),
                ));
            }
        }
        "Ideal_Mapping_Table" => mapping.resident = import.flag(node),
        "CMT_Capacity" => mapping.cache = Size(import.unsigned(node)?),
        "CMT_Sharing_Mode" => {
            mapping.cache_sharing = import.choice(
                node,
                &[
                    ("SHARED", Sharing::Shared),
                    ("EQUAL_PARTITIONING", Sharing::Equal),
                ],
            )?;
        }
        "Plane_Allocation_Scheme" => {
            let order = import.text(node).to_ascii_uppercase();
            crate::config::parse_order(&order)
                .map_err(|error| import.wrong(node, error.cause().to_owned()))?;
            mapping.order = order;
        }
        "Transaction_Scheduling_Policy" => {
            let policies = [
                ("OUT_OF_ORDER", Some(Policy::OutOfOrder)),
                ("PRIORITY_OUT_OF_ORDER", Some(Policy::Priority)),
                ("FLIN", None),
            ];
            config.scheduling.policy = import
                .choice(node, &policies)?
                .ok_or_else(|| import.wrong(node, "FLIN is commented out in MQSim".to_owned()))?;
        }
        _ => {}
    }
    Ok(())
}

fn import_collection<'a>(
    import: &mut Import<'a>,
    node: Node<'a, 'a>,
    config: &mut DriveConfig,
) -> Result<()> {
    let compat = config.compat == Compat::Mqsim;
    let gc = &mut config.gc;
    match node.tag_name().name() {
        "GC_Exec_Threshold" => gc.threshold = import.real(node)?,
        "GC_Hard_Threshold" => gc.hard_threshold = import.real(node)?,
        "GC_Block_Selection_Policy" => {
            gc.policy = import.choice(
                node,
                &[
                    ("GREEDY", GcPolicy::Greedy),
                    ("RGA", GcPolicy::Rga),
                    ("RANDOM", GcPolicy::Random),
                    ("RANDOM_P", GcPolicy::RandomP),
                    ("RANDOM_PP", GcPolicy::RandomPp),
                    ("FIFO", GcPolicy::Fifo),
                ],
            )?;
        }
        "Use_Copyback_for_GC" => {
            let copyback = import.flag(node);
            if copyback {
                import.warn(node, "MQSim's copyback has no addresses and fails; pages are read and written instead");
            }
        }
        "Preemptible_GC_Enabled" => gc.preemptible = import.flag(node),
        "Dynamic_Wearleveling_Enabled" => gc.dynamic_wear_levelling = import.flag(node),
        "Static_Wearleveling_Enabled" => gc.static_wear_levelling = import.flag(node),
        "Static_Wearleveling_Threshold" => gc.wear_threshold = import.small(node)?,
        "Prefered_suspend_erase_time_for_read" | "Preferred_suspend_erase_time_for_read"
            if !compat =>
        {
            config.scheduling.suspend_erase_if_left =
                Time(import.unsigned(node)?.saturating_mul(NS));
        }
        "Preferred_suspend_write_time_for_read" if !compat => {
            config.scheduling.suspend_program_if_left =
                Time(import.unsigned(node)?.saturating_mul(NS));
        }
        _ => {}
    }
    Ok(())
}

fn import_flash<'a>(
    import: &mut Import<'a>,
    part: Node<'a, 'a>,
    config: &mut DriveConfig,
) -> Result<()> {
    let compat = config.compat == Compat::Mqsim;
    let mut read = [75_000u64; 3];
    let mut program = [750_000u64; 3];
    for node in part.children().filter(Node::is_element) {
        import.check_key(node, &FLASH_KEYS)?;
        let key = node.tag_name().name();
        if let Meaning::Ignored(reason) = device_meaning(key, compat) {
            import.warn(node, reason);
        }
        let flash = &mut config.flash;
        match key {
            "Flash_Technology" => {
                flash.cell = import.choice(
                    node,
                    &[("SLC", Cell::Slc), ("MLC", Cell::Mlc), ("TLC", Cell::Tlc)],
                )?;
            }
            "CMD_Suspension_Support" => {
                config.scheduling.suspension = import.choice(
                    node,
                    &[
                        ("NONE", Suspension::None),
                        ("PROGRAM", Suspension::Program),
                        ("ERASE", Suspension::Erase),
                        ("PROGRAM_ERASE", Suspension::ProgramErase),
                    ],
                )?;
            }
            "Page_Read_Latency_LSB" => read[0] = import.unsigned(node)?,
            "Page_Read_Latency_CSB" => read[1] = import.unsigned(node)?,
            "Page_Read_Latency_MSB" => read[2] = import.unsigned(node)?,
            "Page_Program_Latency_LSB" => program[0] = import.unsigned(node)?,
            "Page_Program_Latency_CSB" => program[1] = import.unsigned(node)?,
            "Page_Program_Latency_MSB" => program[2] = import.unsigned(node)?,
            "Block_Erase_Latency" => flash.erase = Time(import.unsigned(node)?.saturating_mul(NS)),
            "Block_PE_Cycles_Limit" => flash.endurance = import.small(node)?,
            "Suspend_Erase_Time" => {
                flash.suspend_erase = Time(import.unsigned(node)?.saturating_mul(NS))
            }
            "Suspend_Program_Time" => {
                flash.suspend_program = Time(import.unsigned(node)?.saturating_mul(NS))
            }
            "Die_No_Per_Chip" => flash.dies = import.small(node)?,
            "Plane_No_Per_Die" => flash.planes = import.small(node)?,
            "Block_No_Per_Plane" => flash.blocks = import.small(node)?,
            "Page_No_Per_Block" => flash.pages = import.small(node)?,
            "Page_Capacity" => flash.page = Size(import.unsigned(node)?),
            _ => {}
        }
    }
    let pick = |times: [u64; 3], cell: Cell| -> Vec<Time> {
        let chosen: &[usize] = match cell {
            Cell::Slc => &[0],
            Cell::Mlc => &[0, 2],
            _ => &[0, 1, 2],
        };
        chosen
            .iter()
            .map(|at| Time(times[*at].saturating_mul(NS)))
            .collect()
    };
    config.flash.read = pick(read, config.flash.cell);
    config.flash.program = pick(program, config.flash.cell);
    Ok(())
}
