//! Drives by name, with the provenance of every value.
//!
//! Contract: a preset is a TOML text that [`DriveConfig::from_toml`] reads; each carries a list of
//! where its values are from (datasheet, fitted or guessed) and the published figures that it was
//! checked against. Internal geometry and latencies of commercial drives are not published: they
//! are chosen so that the published figures come out, and say so.

use outcore::error::{Error, Result};

use crate::config::DriveConfig;
use crate::mqsim::mqsim_defaults;
use crate::units::nearest;

/// Where a value is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// The vendor's data sheet.
    Datasheet,
    /// Chosen so that published figures come out.
    Fitted,
    /// Typical for the technology and the year.
    Guessed,
}

/// A published figure.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// What was measured.
    pub workload: Figure,
    /// Bytes a second, or requests a second.
    pub value: f64,
}

/// The workloads that data sheets give figures for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// 128 KiB sequential reads, bytes a second.
    SequentialRead,
    /// 128 KiB sequential writes, bytes a second.
    SequentialWrite,
    /// 4 KiB random reads, requests a second.
    RandomRead,
    /// 4 KiB random writes, requests a second, sustained.
    RandomWrite,
}

/// A drive by name.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Name.
    pub name: &'static str,
    /// Product.
    pub product: &'static str,
    text: &'static str,
    /// What is known, by group of keys.
    pub provenance: &'static [(&'static str, Provenance)],
    /// Figures to compare with.
    pub published: &'static [Published],
}

const COMMON: &str = r#"
precondition = true
[cache]
capacity = "256MiB"
rate = "3200MT/s"
burst = "8B"
row = "8KiB"
[mapping]
unit = "4KiB"
allocation = "dynamic"
resident = true
pack_wait = "30us"
[scheduling]
policy = "priority"
suspension = "program_erase"
suspend_program_if_left = "50us"
suspend_erase_if_left = "200us"
[gc]
policy = "greedy"
threshold = 0.03
hard_threshold = 0.01
preemptible = true
static_wear_levelling = true
wear_threshold = 200
"#;

/// The drives that are known by name.
pub const PRESETS: [Preset; 6] = [
    Preset {
        name: "mqsim-default",
        product: "MQSim's default drive",
        text: "",
        provenance: &[("everything", Provenance::Guessed)],
        published: &[],
    },
    Preset {
        name: "pm9a3",
        product: "Samsung PM9A3 3.84 TB U.2 (PCIe 4.0 x4)",
        text: r#"
name = "pm9a3"
[host]
pcie_lanes = 4
pcie_lane_rate = "2.1GB/s"
fetch_depth = 1024
queue_entries = 4096
command_interval = "950ns"
command_overhead = "8us"
[flash]
cell = "tlc"
channels = 8
chips = 4
dies = 2
planes = 4
blocks = 1120
pages = 832
page = "16KiB"
read = ["47us", "50us", "55us"]
program = ["560us", "560us", "560us"]
erase = "3.5ms"
suspend_program = "5us"
suspend_erase = "20us"
bus = "1200MT/s"
multiplane_same_page = false
over_provisioning = 0.11
"#,
        provenance: &[
            (
                "host.pcie_lanes, interface, capacity",
                Provenance::Datasheet,
            ),
            (
                "flash.read, flash.program, flash.bus, command times",
                Provenance::Fitted,
            ),
            (
                "channels, chips, dies, planes, blocks, over-provisioning, cache",
                Provenance::Guessed,
            ),
        ],
        published: &[
            Published {
                workload: Figure::SequentialRead,
                value: 6.8e9,
            },
            Published {
                workload: Figure::SequentialWrite,
                value: 4.0e9,
            },
            Published {
                workload: Figure::RandomRead,
                value: 1.0e6,
            },
            Published {
                workload: Figure::RandomWrite,
                value: 180e3,
            },
        ],
    },
    Preset {
        name: "pm1733",
        product: "Samsung PM1733 3.84 TB U.2 (PCIe 4.0 x4)",
        text: r#"
name = "pm1733"
[host]
pcie_lanes = 4
pcie_lane_rate = "2.15GB/s"
fetch_depth = 2048
queue_entries = 4096
command_interval = "640ns"
command_overhead = "6us"
[flash]
cell = "tlc"
channels = 16
chips = 4
dies = 2
planes = 2
blocks = 1120
pages = 832
page = "16KiB"
read = ["50us", "60us", "70us"]
program = ["780us", "780us", "780us"]
erase = "3.5ms"
suspend_program = "5us"
suspend_erase = "20us"
bus = "800MT/s"
multiplane_same_page = false
over_provisioning = 0.12
"#,
        provenance: &[
            (
                "host.pcie_lanes, interface, capacity",
                Provenance::Datasheet,
            ),
            (
                "flash.read, flash.program, flash.bus, command times",
                Provenance::Fitted,
            ),
            (
                "channels, chips, dies, planes, blocks, over-provisioning, cache",
                Provenance::Guessed,
            ),
        ],
        published: &[
            Published {
                workload: Figure::SequentialRead,
                value: 7.0e9,
            },
            Published {
                workload: Figure::SequentialWrite,
                value: 3.8e9,
            },
            Published {
                workload: Figure::RandomRead,
                value: 1.5e6,
            },
            Published {
                workload: Figure::RandomWrite,
                value: 135e3,
            },
        ],
    },
    Preset {
        name: "p41",
        product: "SK hynix Platinum P41 1 TB (PCIe 4.0 x4)",
        text: r#"
name = "p41"
[host]
pcie_lanes = 4
pcie_lane_rate = "2.16GB/s"
fetch_depth = 1024
queue_entries = 4096
command_interval = "690ns"
command_overhead = "5us"
[flash]
cell = "slc"
channels = 4
chips = 4
dies = 2
planes = 4
blocks = 400
pages = 1408
page = "16KiB"
read = ["40us"]
program = ["140us"]
erase = "3.5ms"
suspend_program = "5us"
suspend_erase = "20us"
bus = "1800MT/s"
multiplane_same_page = false
over_provisioning = 0.09
"#,
        provenance: &[
            (
                "host.pcie_lanes, interface, capacity",
                Provenance::Datasheet,
            ),
            (
                "flash.read, flash.program (its SLC cache), command times",
                Provenance::Fitted,
            ),
            (
                "channels, chips, dies, planes, blocks, over-provisioning, bus",
                Provenance::Guessed,
            ),
        ],
        published: &[
            Published {
                workload: Figure::SequentialRead,
                value: 7.0e9,
            },
            Published {
                workload: Figure::SequentialWrite,
                value: 6.5e9,
            },
            Published {
                workload: Figure::RandomRead,
                value: 1.4e6,
            },
        ],
    },
    Preset {
        name: "970pro",
        product: "Samsung 970 PRO 512 GB (PCIe 3.0 x4)",
        text: r#"
name = "970pro"
[host]
pcie_lanes = 4
pcie_lane_rate = "1.07GB/s"
fetch_depth = 512
queue_entries = 1024
command_interval = "2.6us"
command_overhead = "7us"
[flash]
cell = "mlc"
channels = 8
chips = 2
dies = 2
planes = 2
blocks = 1024
pages = 512
page = "16KiB"
read = ["45us", "60us"]
program = ["230us", "320us"]
erase = "3.5ms"
suspend_program = "5us"
suspend_erase = "20us"
bus = "667MT/s"
multiplane_same_page = false
over_provisioning = 0.09
"#,
        provenance: &[
            (
                "host.pcie_lanes, interface, capacity, two bits a cell",
                Provenance::Datasheet,
            ),
            (
                "flash.read, flash.program, command times",
                Provenance::Fitted,
            ),
            (
                "channels, chips, dies, planes, blocks, over-provisioning, bus",
                Provenance::Guessed,
            ),
        ],
        published: &[
            Published {
                workload: Figure::SequentialRead,
                value: 3.5e9,
            },
            Published {
                workload: Figure::SequentialWrite,
                value: 2.3e9,
            },
            Published {
                workload: Figure::RandomRead,
                value: 370e3,
            },
        ],
    },
    Preset {
        name: "pm963",
        product: "Samsung PM963 960 GB (PCIe 3.0 x4)",
        text: r#"
name = "pm963"
[host]
pcie_lanes = 4
pcie_lane_rate = "0.62GB/s"
fetch_depth = 512
queue_entries = 1024
command_interval = "2.2us"
command_overhead = "10us"
[flash]
cell = "tlc"
channels = 8
chips = 4
dies = 1
planes = 2
blocks = 1424
pages = 768
page = "16KiB"
read = ["75us", "85us", "95us"]
program = ["600us", "600us", "600us"]
erase = "5ms"
suspend_program = "10us"
suspend_erase = "30us"
bus = "533MT/s"
multiplane_same_page = false
over_provisioning = 0.11
"#,
        provenance: &[
            (
                "host.pcie_lanes, interface, capacity",
                Provenance::Datasheet,
            ),
            (
                "flash.read, flash.program, command times",
                Provenance::Fitted,
            ),
            (
                "channels, chips, dies, planes, blocks, over-provisioning, bus",
                Provenance::Guessed,
            ),
        ],
        published: &[
            Published {
                workload: Figure::SequentialRead,
                value: 2.0e9,
            },
            Published {
                workload: Figure::SequentialWrite,
                value: 1.2e9,
            },
            Published {
                workload: Figure::RandomRead,
                value: 430e3,
            },
            Published {
                workload: Figure::RandomWrite,
                value: 40e3,
            },
        ],
    },
];

/// Finds a preset; an unknown name is an error that names the nearest.
pub fn preset(name: &str) -> Result<&'static Preset> {
    if let Some(found) = PRESETS.iter().find(|preset| preset.name == name) {
        return Ok(found);
    }
    let names = PRESETS.map(|preset| preset.name);
    let error = Error::usage(
        "find preset",
        format!("`{name}` is not one of {}", names.join(", ")),
    );
    Err(match nearest(name, names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    })
}

impl Preset {
    /// The configuration of the drive at its full size.
    pub fn config(&self) -> Result<DriveConfig> {
        if self.text.is_empty() {
            let mut config = mqsim_defaults(crate::config::Compat::None);
            config.name = self.name.to_owned();
            return Ok(config);
        }
        // Top-level keys of the preset have to come before the tables of the common part.
        let (name, tables) = self
            .text
            .trim_start()
            .split_once('\n')
            .unwrap_or((self.text, ""));
        DriveConfig::from_toml(&format!("{name}{COMMON}{tables}"))
    }

    /// The same drive with smaller planes: parallelism and times are the same, a run builds and
    /// fills it in a moment. At least 128 blocks of 32 pages stay: with fewer the collector's
    /// reserve would eat the over-provisioning. An erase takes as much less time as a block has
    /// fewer pages, so that erasing costs the same a page.
    pub fn scaled(&self, blocks: u32, pages: u32) -> Result<DriveConfig> {
        let mut config = self.config()?;
        let flash = &mut config.flash;
        let before = u64::from(flash.pages);
        flash.blocks = flash.blocks.min(blocks.max(128));
        flash.pages = flash.pages.min(pages.max(32));
        flash.erase.0 = flash.erase.0 * u64::from(flash.pages) / before;
        Ok(config)
    }

    /// The same drive with about `flash_bytes` of flash (see [`Preset::scaled`]): from 128 blocks of
    /// 32 pages a plane up to its full size.
    pub fn sized(&self, flash_bytes: u64) -> Result<DriveConfig> {
        let full = self.config()?;
        if flash_bytes >= full.physical_bytes() {
            return Ok(full);
        }
        let f = &full.flash;
        let planes = u64::from(f.channels) * u64::from(f.chips * f.dies * f.planes);
        let pages = flash_bytes / (planes * f.page.0).max(1);
        // Blocks first: collection needs many of them more than it needs long ones.
        let blocks = (pages / 64).clamp(128, u64::from(f.blocks));
        let a_block = pages.div_ceil(blocks).clamp(32, u64::from(f.pages));
        self.scaled(blocks as u32, a_block as u32)
    }
}

/// Simulates the workload that a data sheet's figure stands for.
pub fn measure(config: &DriveConfig, figure: Figure) -> Result<f64> {
    use crate::drive::{Caching, QueueConfig};
    use crate::run::{RunOptions, run};
    use crate::workload::{Addresses, FlowConfig, Origin, Pace, Sizes, Synthetic};
    let (reads, sectors, depth, requests, addresses) = match figure {
        Figure::SequentialRead => (1.0, 256, 64, 20_000, Addresses::Streaming),
        Figure::SequentialWrite => (0.0, 256, 64, 20_000, Addresses::Streaming),
        Figure::RandomRead => (1.0, 8, 512, 300_000, Addresses::Uniform),
        Figure::RandomWrite => (0.0, 8, 256, 400_000, Addresses::Uniform),
    };
    let mut config = config.clone();
    let sequential_writes = figure == Figure::SequentialWrite;
    // Data sheets give sequential writes to a fresh drive, random ones to a full one.
    config.precondition = !sequential_writes;
    let flow = FlowConfig {
        name: format!("{figure:?}"),
        queue: QueueConfig {
            caching: Caching::Write,
            occupancy: 1.0,
            ..QueueConfig::default()
        },
        origin: Origin::Synthetic(Synthetic {
            working_set: 1.0,
            pace: Pace::Depth(depth),
            read_ratio: reads,
            addresses,
            align_sectors: 8,
            sizes: Sizes::Fixed(sectors),
            seed: 11,
            stop_at: 0,
            requests,
        }),
    };
    let total = run(&config, &[flow], &RunOptions::default())?.summary.total;
    Ok(match figure {
        Figure::SequentialRead | Figure::SequentialWrite => total.bytes_per_s,
        Figure::RandomRead | Figure::RandomWrite => total.iops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_valid_drive_and_says_where_its_values_are_from() {
        for preset in &PRESETS {
            let config = preset.config().unwrap();
            assert_eq!(config.name, preset.name);
            assert!(!preset.provenance.is_empty());
        }
    }

    #[test]
    fn a_misspelt_preset_names_the_nearest() {
        let error = preset("pm9a4").unwrap_err().to_string();
        assert!(error.contains("did you mean `pm9a3`?"), "{error}");
    }

    #[test]
    fn random_reads_grow_with_depth_until_they_saturate() {
        let config = preset("pm9a3").unwrap().scaled(128, 32).unwrap();
        let rate = |depth: u32| read_rate(&config, depth);
        let (one, sixteen, many) = (rate(1), rate(16), rate(512));
        assert!(
            sixteen / one > 12.0 && sixteen / one < 16.5,
            "{one} {sixteen}"
        );
        assert!(many > 20.0 * one, "{many}");
    }

    fn read_rate(config: &DriveConfig, depth: u32) -> f64 {
        use crate::drive::{Caching, QueueConfig};
        use crate::run::{RunOptions, run};
        use crate::workload::{Addresses, FlowConfig, Origin, Pace, Sizes, Synthetic};
        let flow = FlowConfig {
            name: "reads".to_owned(),
            queue: QueueConfig {
                caching: Caching::Off,
                occupancy: 1.0,
                ..QueueConfig::default()
            },
            origin: Origin::Synthetic(Synthetic {
                working_set: 1.0,
                pace: Pace::Depth(depth),
                read_ratio: 1.0,
                addresses: Addresses::Uniform,
                align_sectors: 8,
                sizes: Sizes::Fixed(8),
                seed: 3,
                stop_at: 0,
                requests: 200 * u64::from(depth).max(20),
            }),
        };
        run(config, &[flow], &RunOptions::default())
            .unwrap()
            .summary
            .total
            .iops
    }
}
