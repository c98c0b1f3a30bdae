//! Handles requests that reach beyond the drives on which they are played.
//!
//! Contract: [`Fit::Refuse`], the default, makes such a workload an error that names the request.
//! [`Fit::Wrap`] and [`Fit::Scale`] work as in `outcore replay --fit`; the caller that applies them
//! reports how many requests were changed. `compat = "mqsim"` wraps, as MQSim does.

use std::borrow::Cow;
use std::str::FromStr;

use outcore_io::units::bytes as shown;
use outcore_io::{Error, Result};

use crate::config::{Compat, DriveConfig};
use crate::drive::{Drive, Op};
use crate::workload::{FlowConfig, ListItem, Origin, Synthetic};

const OPERATION: &str = "fit workload to drive";
const SECTOR_BYTES: u64 = 512;
/// Scaled offsets keep their position inside a block of this size.
const BLOCK_BYTES: u64 = 4096;

/// How addresses are brought into the drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Fit {
    /// A request that does not fit is an error
    #[default]
    Refuse,
    /// Offsets beyond the end wrap around to the start
    Wrap,
    /// All offsets are scaled in proportion
    Scale,
}

impl FromStr for Fit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "refuse" => Ok(Fit::Refuse),
            "wrap" => Ok(Fit::Wrap),
            "scale" => Ok(Fit::Scale),
            other => {
                let cause = format!("`{other}` is not a way to fit a trace to the drives");
                Err(Error::usage("read options", cause).hint("use refuse, wrap or scale"))
            }
        }
    }
}

/// The name of an operation.
pub(crate) fn name_of(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Trim => "trim",
    }
}

/// Scales offsets up to `span_bytes` proportionally to `room_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) span_bytes: u64,
    pub(crate) room_bytes: u64,
}

impl Scale {
    /// The scaled `offset_bytes`; `None` if `bytes` are more than the room.
    pub(crate) fn offset(self, offset_bytes: u64, bytes: u64) -> Option<u64> {
        let room_blocks = u128::from(self.room_bytes / BLOCK_BYTES);
        let span_blocks = u128::from(self.span_bytes.div_ceil(BLOCK_BYTES).max(1));
        let block = u128::from(offset_bytes / BLOCK_BYTES) * room_blocks / span_blocks;
        let scaled = block as u64 * BLOCK_BYTES + offset_bytes % BLOCK_BYTES;
        let most = self.room_bytes.checked_sub(bytes)?;
        if scaled <= most {
            return Some(scaled);
        }
        // Moves back from the end, if possible to the same position in a block.
        let back = most - most % BLOCK_BYTES + offset_bytes % BLOCK_BYTES;
        Some(if back <= most {
            back
        } else {
            back.saturating_sub(BLOCK_BYTES)
        })
    }
}

/// The end of a request of a list, in sectors of the flow's range.
fn end(item: &ListItem) -> u64 {
    item.lba.saturating_add(u64::from(item.sectors))
}

/// The flows with their lists fitted to `drive`, and the warnings about changed requests.
///
/// # Errors
/// [`Fit::Refuse`] with a request beyond the flow's part of the drive; the error names it. A
/// request that is larger than the drive.
pub(crate) fn lists<'a>(
    flows: &'a [FlowConfig],
    config: &DriveConfig,
    drive: &Drive,
    fit: Fit,
) -> Result<(Cow<'a, [FlowConfig]>, Vec<String>)> {
    let mut fitted = Cow::Borrowed(flows);
    let mut said = Vec::new();
    for (at, flow) in flows.iter().enumerate() {
        let (first, last) = drive.queue_sectors(at as u16);
        let room = last - first + 1;
        let list = match &flow.origin {
            Origin::List(list) => list,
            Origin::Synthetic(spec) => {
                generated(&flow.name, spec, room)?;
                continue;
            }
        };
        let shown_room = shown(room.saturating_mul(SECTOR_BYTES));
        let furthest = list.items.iter().map(end).max().unwrap_or(0);
        let beyond = list.items.iter().filter(|item| end(item) > room).count();
        let fit = match config.compat {
            Compat::Mqsim => Fit::Wrap,
            Compat::None => fit,
        };
        match fit {
            Fit::Refuse => {
                let Some(number) = list.items.iter().position(|item| end(item) > room) else {
                    continue;
                };
                return Err(refused(&flow.name, number, &list.items[number], &shown_room)
                    .hint(format!(
                        "{beyond} of {} requests reach beyond it, up to {}: --drive-size makes the drive larger; --fit wrap or --fit scale moves the requests into it",
                        list.items.len(),
                        shown(furthest.saturating_mul(SECTOR_BYTES)),
                    )));
            }
            Fit::Wrap => {
                if beyond > 0 {
                    said.push(format!(
                        "{}: {beyond} of {} requests are beyond the {shown_room} that the flow has, up to {}; their addresses wrap",
                        flow.name,
                        list.items.len(),
                        shown(furthest.saturating_mul(SECTOR_BYTES)),
                    ));
                }
            }
            Fit::Scale => {
                let scale = Scale {
                    span_bytes: furthest.saturating_mul(SECTOR_BYTES),
                    room_bytes: room.saturating_mul(SECTOR_BYTES),
                };
                let mut list = list.clone();
                for (number, item) in list.items.iter_mut().enumerate() {
                    let bytes = u64::from(item.sectors) * SECTOR_BYTES;
                    let offset = item.lba.saturating_mul(SECTOR_BYTES);
                    item.lba = scale.offset(offset, bytes).ok_or_else(|| {
                        refused(&flow.name, number, item, &shown_room)
                            .hint("--drive-size makes the drive larger")
                    })? / SECTOR_BYTES;
                }
                said.push(format!(
                    "{}: the addresses of {} requests were scaled from {} to {shown_room}",
                    flow.name,
                    list.items.len(),
                    shown(scale.span_bytes),
                ));
                fitted.to_mut()[at].origin = Origin::List(list);
            }
        }
    }
    Ok((fitted, said))
}

/// Rejects a generator whose requests do not fit into the `room` sectors that its flow may touch.
fn generated(flow: &str, spec: &Synthetic, room: u64) -> Result<()> {
    let sectors = u64::from(spec.sizes.mean());
    if sectors <= room {
        return Ok(());
    }
    Err(Error::usage(
        OPERATION,
        format!(
            "{flow}: requests of {} are larger than the {} of the drive that the flow may touch",
            shown(sectors * SECTOR_BYTES),
            shown(room.saturating_mul(SECTOR_BYTES)),
        ),
    )
    .hint("use smaller requests, a larger working_set or a larger drive (--drive-size)"))
}

fn refused(flow: &str, number: usize, item: &ListItem, room: &str) -> Error {
    Error::usage(
        OPERATION,
        format!(
            "{flow}: request {} ({} of {} at {}) reaches beyond the {room} of the drive",
            number + 1,
            name_of(item.op),
            shown(u64::from(item.sectors) * SECTOR_BYTES),
            shown(item.lba.saturating_mul(SECTOR_BYTES)),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::QueueConfig;
    use crate::run::{Outcome, RunOptions, run};
    use crate::workload::List;
    use proptest::prelude::*;

    const DRIVE: &str = "[flash]\nblocks = 64\npages = 64\n";

    fn run_at(lbas: &[u64], compat: Compat, fit: Fit) -> Result<Outcome> {
        let mut drive = DriveConfig::from_toml(DRIVE)?;
        drive.compat = compat;
        let item = |lba: &u64| ListItem {
            at: 0,
            op: Op::Write,
            lba: *lba,
            sectors: 8,
        };
        let flow = FlowConfig {
            name: "trace".to_owned(),
            queue: QueueConfig::default(),
            origin: Origin::List(List {
                items: lbas.iter().map(item).collect(),
                depth: 1,
                rounds: 1,
                file: None,
            }),
        };
        let options = RunOptions {
            fit,
            keep_log: true,
            ..RunOptions::default()
        };
        run(&drive, &[flow], &options)
    }

    #[test]
    fn a_request_beyond_the_drive_is_refused_by_its_number_unless_it_is_fitted() {
        let lbas = [0, 1 << 50, 8, 1 << 51];
        let error = run_at(&lbas, Compat::None, Fit::Refuse).unwrap_err();
        let (text, hint) = (error.to_string(), error.next_step().unwrap_or_default());
        assert!(text.contains("request 2 (write of 4.00 KiB"), "{text}");
        assert!(
            hint.contains("2 of 4 requests") && hint.contains("--fit wrap"),
            "{hint}"
        );
        assert!(hint.contains("--drive-size"), "{hint}");
        for (compat, fit) in [(Compat::None, Fit::Wrap), (Compat::Mqsim, Fit::Refuse)] {
            let summary = run_at(&lbas, compat, fit).unwrap().summary;
            assert_eq!(summary.total.requests, 4);
            let said = &summary.warnings[0];
            assert!(said.contains("2 of 4 requests are beyond"), "{said}");
        }
        for fit in [Fit::Refuse, Fit::Wrap] {
            let inside = run_at(&[0, 8, 800], Compat::None, fit).unwrap();
            assert!(inside.summary.warnings.is_empty());
        }
    }

    #[test]
    fn scaled_requests_keep_their_order_and_end_inside() {
        let lbas = [0, 1 << 40, (1 << 41) + 3, 1 << 50];
        let outcome = run_at(&lbas, Compat::None, Fit::Scale).unwrap();
        let seen: Vec<u64> = outcome.log.iter().map(|done| done.lba).collect();
        assert!(seen.windows(2).all(|two| two[0] < two[1]), "{seen:?}");
        assert_eq!((seen[0], seen[2] % 8), (0, 3), "the place inside a block");
        let drive = DriveConfig::from_toml(DRIVE).unwrap();
        let spare_bytes = drive.physical_bytes() as f64 * drive.flash.over_provisioning;
        let capacity_bytes = drive.physical_bytes() - spare_bytes as u64;
        assert!(seen[3] + 8 <= capacity_bytes / SECTOR_BYTES, "{seen:?}");
        assert!(outcome.summary.warnings[0].contains("4 requests were scaled"));
    }

    #[test]
    fn generated_requests_stay_inside_what_their_flow_may_touch_or_are_refused() {
        use crate::workload_file::WorkloadFile;
        let drive = DriveConfig::from_toml(DRIVE).unwrap();
        let flows = |settings: &[(&str, &str)]| {
            let mut file = WorkloadFile::one().set("requests", "2000").unwrap();
            for (key, value) in settings {
                file = file.set(key, value).unwrap();
            }
            file.flows().unwrap()
        };
        let options = RunOptions {
            keep_log: true,
            ..RunOptions::default()
        };
        let tiny = [("size", "1GiB"), ("working_set", "0.001")];
        let error = run(&drive, &flows(&tiny), &options).unwrap_err();
        assert!(error.to_string().contains("larger than the"), "{error}");
        let queue = QueueConfig::default();
        let end = Drive::new(&drive, &[queue]).unwrap().queue_sectors(0).1 + 1;
        for pattern in ["uniform", "hot_cold", "streaming"] {
            let settings = [
                ("pattern", pattern),
                ("hot", "0.9"),
                ("size", "4MiB"),
                ("deviation", "2MiB"),
                ("align", "512B"),
            ];
            let log = run(&drive, &flows(&settings), &options).unwrap().log;
            let furthest = log.iter().map(|done| done.lba + u64::from(done.sectors));
            assert!(furthest.max().unwrap() <= end, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn what_is_scaled_stays_inside(
            span_bytes in 1u64.., room in 1u64..1 << 40, at in 0.0f64..1.0, bytes in 1u64..1 << 30,
        ) {
            let room_bytes = room * SECTOR_BYTES;
            let offset = (span_bytes as f64 * at) as u64;
            let scale = Scale { span_bytes, room_bytes };
            match scale.offset(offset, bytes) {
                Some(found) => prop_assert!(found + bytes <= room_bytes),
                None => prop_assert!(bytes > room_bytes),
            }
        }
    }
}
