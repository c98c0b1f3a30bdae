//! Named drives, with the provenance of every value.
//!
//! Contract: a preset is a TOML file that [`DriveConfig::from_toml`] reads. Every value carries a
//! mark with its source (datasheet, fitted or guessed). The preset also has the published figures
//! that it was checked against. Vendors do not publish the internal geometry and latencies of
//! commercial drives; these values are chosen to reproduce the published figures, and marked
//! accordingly.

use outcore_io::units::{self, nearest};
use outcore_io::{Error, Result};

use crate::config::DriveConfig;
use crate::drive::{Caching, QueueConfig};
use crate::mqsim::mqsim_defaults;
use crate::report::Summary;
use crate::run::{RunOptions, run};
use crate::workload::{Addresses, FlowConfig, Origin, Pace, Sizes, Synthetic};

/// Source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// The vendor's data sheet.
    Datasheet,
    /// Chosen to reproduce published figures.
    Fitted,
    /// Typical for the technology and the year.
    Guessed,
    /// The simulator's default for every drive: also a guess, or a disabled feature.
    Default,
    /// From MQSim's default drive.
    Mqsim,
}

/// A published figure.
#[derive(Debug, Clone, Copy)]
pub struct Published {
    /// The workload of the figure.
    pub workload: Figure,
    /// Bytes per second, or requests per second.
    pub value: f64,
}

/// The workloads for which data sheets give figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// 128 KiB sequential reads, bytes per second.
    SequentialRead,
    /// 128 KiB sequential writes, bytes per second.
    SequentialWrite,
    /// 4 KiB random reads, requests per second.
    RandomRead,
    /// 4 KiB random writes, requests per second, sustained.
    RandomWrite,
}

/// A named drive.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Name.
    pub name: &'static str,
    /// Product.
    pub product: &'static str,
    text: &'static str,
    /// Figures to compare with.
    pub published: &'static [Published],
}

/// One value of a preset and its source.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Value {
    /// Table of the configuration.
    pub table: String,
    /// Key in that table.
    pub key: String,
    /// The value as it is written.
    pub value: String,
    /// Source of the value.
    pub provenance: Provenance,
    /// A remark about the value; often empty.
    pub note: String,
}

/// The settings in the tables of a drive's TOML whose mark names a provenance.
fn settings(text: &str, provenance_of: impl Fn(&str) -> Option<Provenance>) -> Vec<Value> {
    let mut table = "";
    let mut values = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            table = name;
            continue;
        }
        let (setting, mark) = line.split_once('#').unwrap_or((line, ""));
        let (mark, note) = mark.split_once(':').unwrap_or((mark, ""));
        if let Some((key, value)) = setting.split_once('=')
            && let Some(provenance) = provenance_of(mark.trim())
            && !table.is_empty()
        {
            values.push(Value {
                table: table.to_owned(),
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
                provenance,
                note: note.trim().to_owned(),
            });
        }
    }
    values
}

const fn published(workload: Figure, value: f64) -> Published {
    Published { workload, value }
}

/// The named drives.
pub const PRESETS: [Preset; 8] = [
    Preset {
        name: "mqsim-default",
        product: "MQSim's default drive",
        text: "",
        published: &[],
    },
    Preset {
        name: "pm9a3",
        product: "Samsung PM9A3 3.84 TB U.2 (PCIe 4.0 x4)",
        text: include_str!("presets/pm9a3.toml"),
        published: &[
            published(Figure::SequentialRead, 6.8e9),
            published(Figure::SequentialWrite, 4.0e9),
            published(Figure::RandomRead, 1.0e6),
            published(Figure::RandomWrite, 180e3),
        ],
    },
    Preset {
        name: "pm1733",
        product: "Samsung PM1733 3.84 TB U.2 (PCIe 4.0 x4)",
        text: include_str!("presets/pm1733.toml"),
        published: &[
            published(Figure::SequentialRead, 7.0e9),
            published(Figure::SequentialWrite, 3.8e9),
            published(Figure::RandomRead, 1.5e6),
            published(Figure::RandomWrite, 135e3),
        ],
    },
    Preset {
        name: "p41",
        product: "SK hynix Platinum P41 1 TB (PCIe 4.0 x4)",
        text: include_str!("presets/p41.toml"),
        published: &[
            published(Figure::SequentialRead, 7.0e9),
            published(Figure::SequentialWrite, 6.5e9),
            published(Figure::RandomRead, 1.4e6),
        ],
    },
    Preset {
        name: "970pro",
        product: "Samsung 970 PRO 512 GB (PCIe 3.0 x4)",
        text: include_str!("presets/970pro.toml"),
        published: &[
            published(Figure::SequentialRead, 3.5e9),
            published(Figure::SequentialWrite, 2.3e9),
            published(Figure::RandomRead, 370e3),
        ],
    },
    Preset {
        name: "pm963",
        product: "Samsung PM963 960 GB (PCIe 3.0 x4)",
        text: include_str!("presets/pm963.toml"),
        published: &[
            published(Figure::SequentialRead, 2.0e9),
            published(Figure::SequentialWrite, 1.2e9),
            published(Figure::RandomRead, 430e3),
            published(Figure::RandomWrite, 40e3),
        ],
    },
    Preset {
        name: "activesort-openssd",
        product: "OpenSSD as in ActiveSort (SATA2)",
        text: include_str!("presets/activesort-openssd.toml"),
        published: &[
            published(Figure::SequentialRead, 137.07e6),
            published(Figure::SequentialWrite, 61.04e6),
        ],
    },
    Preset {
        name: "throttled",
        product: "a loop drive under the block throttle, 50 MB/s each way",
        text: include_str!("presets/throttled.toml"),
        published: &[
            published(Figure::SequentialRead, 50e6),
            published(Figure::SequentialWrite, 50e6),
        ],
    },
];

/// Finds a preset. The error for an unknown name contains the nearest known name.
pub fn preset(name: &str) -> Result<&'static Preset> {
    if let Some(found) = PRESETS.iter().find(|preset| preset.name == name) {
        return Ok(found);
    }
    let names = PRESETS.map(|preset| preset.name);
    let error = Error::usage(
        "find preset",
        format!("`{name}` is not one of {}", names.join(", ")),
    );
    Err(match nearest(name, &names) {
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
        DriveConfig::from_toml(self.text)
    }

    /// The configuration as TOML, with the marks of the values that have one.
    pub fn text(&self) -> Result<String> {
        if self.text.is_empty() {
            self.config()?.to_toml()
        } else {
            Ok(self.text.to_owned())
        }
    }

    /// Every value of the drive and its source: first the values in the preset's file with their
    /// marks, then the defaults.
    ///
    /// # Errors
    /// As [`Preset::config`].
    pub fn values(&self) -> Result<Vec<Value>> {
        let mut values = settings(self.text, |mark| match mark {
            "datasheet" => Some(Provenance::Datasheet),
            "fitted" => Some(Provenance::Fitted),
            "guessed" => Some(Provenance::Guessed),
            _ => None,
        });
        let mut all = settings(&self.config()?.to_toml()?, |_| Some(Provenance::Default));
        if self.text.is_empty() {
            let is_mqsims = |value: &&mut Value| {
                let is_ours = ["sata_", "command_"]
                    .iter()
                    .any(|p| value.key.starts_with(p));
                !is_ours
                    && !["throttle", "energy", "slc", "namespaces", "zones", "fdp"]
                        .contains(&value.table.as_str())
            };
            let mqsims = all.iter_mut().filter(is_mqsims);
            mqsims.for_each(|value| value.provenance = Provenance::Mqsim);
        }
        let is_new = |value: &Value| {
            !values
                .iter()
                .any(|known| known.table == value.table && known.key == value.key)
        };
        let more: Vec<Value> = all.into_iter().filter(is_new).collect();
        values.extend(more);
        Ok(values)
    }

    /// The same drive with smaller planes. Parallelism and times stay the same, and building and
    /// filling it takes a moment. It keeps at least 128 blocks of 32 pages.
    ///
    /// Quantities that do not shrink with a drive stay the same. Collection starts with as many
    /// free blocks as on the whole drive, up to [`FREE_BLOCKS`], because a plane needs a number of
    /// blocks, not a share, while it collects. On a smaller drive these blocks are a larger share
    /// and would use up the over-provisioning. Therefore the host sees less of the drive, so that
    /// its data fills the same share of the blocks that collection leaves.
    ///
    /// The time of an erase shrinks with the pages of a block, so that erasing costs the same per
    /// page. An erase may be suspended during the same share of its time. A read that waits for an
    /// erase without suspension therefore waits less than on the whole drive.
    pub fn scaled(&self, blocks: u32, pages: u32) -> Result<DriveConfig> {
        let mut config = self.config()?;
        let usable = usable_share(&config);
        let flash = &mut config.flash;
        let (whole_blocks, whole_pages) = (f64::from(flash.blocks), u64::from(flash.pages));
        flash.blocks = flash.blocks.min(blocks.max(128));
        flash.pages = flash.pages.min(pages.max(32));
        let shorter = |time: u64| time * u64::from(flash.pages) / whole_pages;
        let if_left = &mut config.scheduling.suspend_erase_if_left.0;
        *if_left = shorter(*if_left);
        flash.erase.0 = shorter(flash.erase.0);
        let blocks = f64::from(flash.blocks);
        let share_of =
            |share: f64, at_most: f64| share.max((share * whole_blocks).min(at_most) / blocks);
        config.gc.threshold = share_of(config.gc.threshold, FREE_BLOCKS);
        config.gc.hard_threshold = share_of(config.gc.hard_threshold, HARD_FREE_BLOCKS);
        let share = usable_share(&config) / usable;
        let over_provisioning = &mut config.flash.over_provisioning;
        *over_provisioning = 1.0 - (1.0 - *over_provisioning) * share;
        Ok(config)
    }

    /// As [`Preset::sized`] for a size that the user gave, which cannot exceed the product's.
    ///
    /// # Errors
    /// Usage: zero bytes of flash, or more than the drive has.
    pub fn of_size(&self, flash_bytes: u64) -> Result<DriveConfig> {
        const OPERATION: &str = "size drive";
        let whole_bytes = self.config()?.physical_bytes();
        if flash_bytes == 0 {
            let cause = "a drive of 0 bytes leaves no room";
            return Err(
                Error::usage(OPERATION, cause).hint("leave the size out: the default is 16GiB")
            );
        }
        // A size up to the default is accepted even for a smaller product, which is then simulated
        // as a whole. The nominal size of a product is a round number that differs slightly from
        // its flash.
        let most_bytes = DEFAULT_FLASH_BYTES.max(whole_bytes + whole_bytes / 8);
        if flash_bytes > most_bytes {
            let (asked, whole) = (units::bytes(flash_bytes), units::bytes(whole_bytes));
            let cause = format!(
                "{} has {whole} of flash, but {asked} are requested",
                self.name
            );
            let fitting = units::bytes_exact(whole_bytes >> 30 << 30);
            return Err(Error::usage(OPERATION, cause).hint(format!(
                "--drive-size {fitting} simulates all of it; --ssd takes a drive of any geometry"
            )));
        }
        self.sized(flash_bytes)
    }

    /// The same drive with about `flash_bytes` of flash (see [`Preset::scaled`]), from 128 blocks
    /// of 32 pages per plane up to its full size.
    pub fn sized(&self, flash_bytes: u64) -> Result<DriveConfig> {
        let full = self.config()?;
        if flash_bytes >= full.physical_bytes() {
            return Ok(full);
        }
        let f = &full.flash;
        let planes = u64::from(f.channels) * u64::from(f.chips * f.dies * f.planes);
        let pages = flash_bytes / (planes * f.page.0).max(1);
        // Keeps the number of blocks rather than their pages. For collection, many blocks matter
        // more than long blocks. With few blocks, the reserve of collection is a larger share than
        // on the drive itself.
        let blocks = (pages / 32).clamp(128, u64::from(f.blocks));
        let a_block = pages.div_ceil(blocks).clamp(32, u64::from(f.pages));
        self.scaled(blocks as u32, a_block as u32)
    }
}

/// The flash of a drive if the user gives no size.
const DEFAULT_FLASH_BYTES: u64 = 16 << 30;

/// Maximum number of free blocks per plane with which collection starts on a smaller drive. With
/// fewer, a drive with static allocation starves (4 instead of 8 cost pm9a3 at 16 GiB more than a
/// third of its sustained writes); with more, the drive loses room and gains little.
const FREE_BLOCKS: f64 = 8.0;

/// Free blocks per plane below which collection goes before everything.
const HARD_FREE_BLOCKS: f64 = 3.0;

/// Share of a plane's blocks that can be full of data at a time. The other blocks are those that
/// collection keeps free, the two that are being written, and one that is being collected. With
/// this rule and at least 256 blocks per plane, simulated write amplification varies with the size
/// by at most a tenth. With 128 blocks it is a sixth lower.
fn usable_share(config: &DriveConfig) -> f64 {
    const IN_USE: f64 = 3.0;
    let blocks = f64::from(config.flash.blocks);
    let free = (config.gc.threshold * blocks).max(f64::from(config.gc.concurrent));
    (1.0 - (free + IN_USE) / blocks).max(0.01)
}

/// Random reads of 4 KiB per second at each of `depths`, which shows how a drive saturates.
pub(crate) fn depth_curve(config: &DriveConfig, depths: &[u32]) -> Result<Vec<(u32, f64)>> {
    depths
        .iter()
        .map(|depth| {
            let requests = (2_000 * u64::from(*depth)).clamp(10_000, 200_000);
            Ok((*depth, random_reads(config, *depth, requests)?))
        })
        .collect()
}

fn random_reads(config: &DriveConfig, depth: u32, requests: u64) -> Result<f64> {
    let mut config = config.clone();
    config.precondition = true;
    let load = Load {
        reads: 1.0,
        sectors: 8,
        depth,
        requests,
        addresses: Addresses::Uniform,
    };
    Ok(load.run(&config, 0)?.total.iops)
}

/// A closed loop on a full drive.
struct Load {
    reads: f64,
    sectors: u32,
    depth: u32,
    requests: u64,
    addresses: Addresses,
}

impl Load {
    fn run(&self, config: &DriveConfig, warm_up: u64) -> Result<Summary> {
        let flow = FlowConfig {
            name: "load".to_owned(),
            queue: QueueConfig {
                caching: Caching::Write,
                occupancy: 1.0,
                ..QueueConfig::default()
            },
            origin: Origin::Synthetic(Synthetic {
                working_set: 1.0,
                pace: Pace::Depth(self.depth),
                read_ratio: self.reads,
                addresses: self.addresses,
                align_sectors: self.sectors,
                sizes: Sizes::Fixed(self.sectors),
                seed: 11,
                stop_at: 0,
                requests: self.requests,
            }),
        };
        let options = RunOptions {
            warm_up,
            ..RunOptions::default()
        };
        Ok(run(config, &[flow], &options)?.summary)
    }
}

/// Simulates the workload of a data sheet's figure.
pub fn measure(config: &DriveConfig, figure: Figure) -> Result<f64> {
    let (reads, sectors, depth, requests, addresses) = match figure {
        Figure::SequentialRead => (1.0, 256, 64, 20_000, Addresses::Streaming),
        // At most half of the drive.
        Figure::SequentialWrite => {
            let requests = (config.physical_bytes() / 262_144).min(20_000);
            (0.0, 256, 64, requests, Addresses::Streaming)
        }
        Figure::RandomRead => (1.0, 8, 512, 300_000, Addresses::Uniform),
        // An eighth of the drive, after enough writes to desynchronise its planes.
        Figure::RandomWrite => (
            0.0,
            8,
            256,
            config.physical_bytes() / 8_192,
            Addresses::Uniform,
        ),
    };
    let warm_up = match figure {
        Figure::RandomWrite => requests / 4 * 3,
        // The part that the drive's DRAM absorbs at once is not a sustained rate.
        Figure::SequentialWrite => requests / 4,
        _ => 0,
    };
    let mut config = config.clone();
    // Data sheets measure sequential writes on a fresh drive, and random writes on a full drive.
    config.precondition = figure != Figure::SequentialWrite;
    let load = Load {
        reads,
        sectors,
        depth,
        requests,
        addresses,
    };
    let total = load.run(&config, warm_up)?.total;
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
            let values = preset.values().unwrap();
            let marked = values.iter().filter(|value| {
                !matches!(value.provenance, Provenance::Default | Provenance::Mqsim)
            });
            let count = marked.count();
            assert!(
                values.len() > count + 10,
                "{} leaves values out",
                preset.name
            );
            let mut names: Vec<_> = values.iter().map(|v| (&v.table, &v.key)).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), values.len(), "{}", preset.name);
            let settings = preset.text.lines().filter(|line| {
                line.contains(" = ")
                    && !line.starts_with(['#', 'n'])
                    && !line.starts_with("precondition")
            });
            assert_eq!(
                count,
                settings.count(),
                "{} has a value without a mark",
                preset.name
            );
            let marks = ["datasheet", "fitted", "guessed"];
            for line in preset.text.lines().filter(|line| line.contains(" = ")) {
                let Some((_, mark)) = line.split_once("# ") else {
                    continue;
                };
                assert!(marks.iter().any(|known| mark.starts_with(known)), "{line}");
            }
        }
    }

    #[test]
    fn a_misspelt_preset_names_the_nearest() {
        let error = preset("pm9a4").unwrap_err().to_string();
        assert!(error.contains("did you mean `pm9a3`?"), "{error}");
    }

    #[test]
    fn drives_have_the_capacity_on_their_label() {
        let labels = [
            ("pm9a3", 3840),
            ("pm1733", 3840),
            ("p41", 1000),
            ("970pro", 512),
            ("pm963", 960),
        ];
        for (name, gigabytes) in labels {
            let config = preset(name).unwrap().config().unwrap();
            let seen = config.physical_bytes() as f64 * (1.0 - config.flash.over_provisioning);
            let label = f64::from(gigabytes) * 1e9;
            assert!((seen / label - 1.0).abs() < 0.002, "{name}: {seen}");
        }
    }

    #[test]
    fn a_drive_made_smaller_leaves_collection_as_large_a_share() {
        let full = preset("pm9a3").unwrap();
        let spare =
            |config: &DriveConfig| usable_share(config) / (1.0 - config.flash.over_provisioning);
        let (whole, small) = (full.config().unwrap(), full.scaled(128, 32).unwrap());
        assert!((spare(&whole) / spare(&small) - 1.0).abs() < 1e-9);
        assert!(small.flash.over_provisioning > whole.flash.over_provisioning);
        let same = full.scaled(whole.flash.blocks, whole.flash.pages).unwrap();
        let moved = same.flash.over_provisioning - whole.flash.over_provisioning;
        assert!(moved.abs() < 1e-12);
    }

    #[test]
    fn erases_are_suspended_however_small_the_drive_is_made() {
        for size in [(128, 32), (256, 64)] {
            let mut config = preset("pm9a3").unwrap().scaled(size.0, size.1).unwrap();
            config.scheduling.suspension = crate::config::Suspension::Erase;
            config.precondition = true;
            let load = Load {
                reads: 0.5,
                sectors: 8,
                depth: 64,
                requests: 300_000,
                addresses: Addresses::Uniform,
            };
            let counters = load.run(&config, 0).unwrap().counters;
            let (erases, suspended) = (counters.block_erases, counters.suspensions);
            assert!(erases > 100 && suspended > erases / 20, "{counters:?}");
        }
    }

    #[test]
    fn the_published_figures_come_out() {
        for preset in &PRESETS {
            for published in preset.published {
                // Random writes first bring a drive into its steady state; the smallest drive
                // represents all.
                let blocks = match published.workload {
                    Figure::RandomWrite if preset.name != "pm963" => continue,
                    Figure::RandomWrite => 256,
                    _ => 128,
                };
                let config = preset.scaled(blocks, 32).unwrap();
                let seen = measure(&config, published.workload).unwrap() / published.value;
                let name = preset.name;
                assert!((seen - 1.0).abs() < 0.07, "{name} {published:?}: {seen}");
            }
        }
    }

    #[test]
    fn random_reads_grow_with_depth_until_they_saturate() {
        let config = preset("pm9a3").unwrap().scaled(128, 32).unwrap();
        let curve = depth_curve(&config, &[1, 4, 16, 64, 512]).unwrap();
        assert!(curve.is_sorted_by(|a, b| a.1 < b.1), "{curve:?}");
        let (one, sixteen, many) = (curve[0].1, curve[2].1, curve[4].1);
        assert!(
            sixteen / one > 12.0 && sixteen / one < 16.5,
            "{one} {sixteen}"
        );
        assert!(many > 20.0 * one, "{many}");
    }
}
