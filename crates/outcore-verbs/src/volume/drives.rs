//! `volume add`, `remove` and `rebalance`: drives join and leave, and datasets move.
//!
//! Contract: the drives file names a new drive before the volume uses it, and an old drive until
//! the volume no longer uses it. Datasets that were given up are reported, and the command then
//! ends with an error.

use outcore::{Error, Result};
use outcore_front::volumes;
use outcore_io::units;
use outcore_store::dataset::transfer::TransferResources;
use outcore_store::dataset::{DatasetVolume, Watch};

use super::page::{
    AddArgs, AdditionReport, DriveRemovalReport, RebalanceArgs, RebalanceReport, RemoveArgs,
};
use super::state::list_damages;
use super::{Phase, advice, drives_file, open, resources, unequal, watched};
use crate::host::{Host, Weight};
use crate::report::{Listed, Moved, Stopwatch};
use crate::verb::{Verb, Words};

/// The traffic of rewriting datasets with this many bytes.
fn moved(bytes: u64) -> Moved {
    Moved {
        read_bytes: bytes,
        written_bytes: bytes,
        passes: 1,
        ..Moved::default()
    }
}

/// The number of datasets and the rate, in words.
fn moved_text(datasets: u64, bytes: u64, seconds: f64) -> String {
    format!(
        "{} of {} moved in {}: {}",
        units::counted(datasets, "dataset"),
        units::bytes(bytes),
        units::seconds(seconds),
        units::rate_decimal(bytes as f64 / seconds.max(1e-9))
    )
}

/// `add`: drives join.
pub(super) struct Add;

impl Verb for Add {
    const NAME: &'static str = "volume add";
    type Args = AddArgs;
    type Report = AdditionReport;
    const PHASES: &'static [Weight] = &[];

    fn run(host: &dyn Host, args: &AddArgs) -> Result<AdditionReport> {
        let stopwatch = Stopwatch::start();
        let resources = resources(host)?;
        let device = resources.device();
        let control = &host.adopt(resources.job(Vec::new())).control;
        let watch = Watch {
            check: &|| control.check(),
            ..Watch::NOBODY
        };
        let mut added = Vec::with_capacity(args.drives.len());
        for wanted in &args.drives {
            added.push(volumes::add_drive(
                &device,
                drives_file(host)?,
                wanted,
                watch,
            )?);
        }
        let (unequal, unequal_bytes) = unequal(&open(host, &device)?.moves()?);
        Ok(AdditionReport {
            used: stopwatch.stop(Moved::default(), &[], &resources, None),
            added,
            unequal,
            unequal_bytes,
        })
    }

    fn say(_args: &AddArgs, report: &AdditionReport, words: &mut Words) {
        words.lines(&Self::headline(report));
        words.lines(&advice(report.unequal, report.unequal_bytes).unwrap_or_default());
    }

    fn headline(report: &AdditionReport) -> String {
        match &report.added[..] {
            [one] => format!("drive {one} is part of the volume"),
            drives => format!("drives {} are part of the volume", drives.join(", ")),
        }
    }
}

/// `remove`: a drive leaves.
pub(super) struct Remove;

impl Verb for Remove {
    const NAME: &'static str = "volume remove";
    type Args = RemoveArgs;
    type Report = DriveRemovalReport;
    const PHASES: &'static [Weight] = &[("move", 1.0)];

    fn run(host: &dyn Host, args: &RemoveArgs) -> Result<DriveRemovalReport> {
        let stopwatch = Stopwatch::start();
        let resources = resources(host)?;
        let device = resources.device();
        let volume = &open(host, &device)?;
        let file = drives_file(host)?;
        let phase = Phase {
            weights: Self::PHASES,
            bytes: volume.bytes_beside(&args.drive),
            rate: &args.rate,
        };
        let removed = watched(host, &resources, phase, |watch| {
            let resources = TransferResources {
                device: &device,
                budget: &volumes::budget(),
                watch,
            };
            volumes::remove_drive(volume, file, &args.drive, args.force, resources)
        })?;
        if let Some(left) = &removed.left {
            host.remark(&format!(
                "{} has files that belong to no dataset: remove it when nothing in it is needed",
                left.display()
            ));
        }
        let bytes = removed.moved.bytes;
        Ok(DriveRemovalReport {
            used: stopwatch.stop(moved(bytes), &[], &resources, None),
            drive: args.drive.clone(),
            moved: removed.moved.datasets,
            moved_bytes: bytes,
            damages: Listed(list_damages(host, removed.damages)),
        })
    }

    fn say(_args: &RemoveArgs, report: &DriveRemovalReport, words: &mut Words) {
        words.lines(&Self::headline(report));
    }

    fn headline(report: &DriveRemovalReport) -> String {
        let moved = moved_text(report.moved, report.moved_bytes, report.used.seconds);
        format!("drive {} has left the volume, {moved}", report.drive)
    }

    fn fault(report: &DriveRemovalReport) -> Option<Error> {
        let cause = match report.damages.0.len() {
            0 => return None,
            count => format!("{} given up", units::counted(count as u64, "dataset")),
        };
        Some(Error::corrupt("remove drive", cause).hint("put these datasets again"))
    }
}

/// `rebalance`: datasets move.
pub(super) struct Rebalance;

impl Verb for Rebalance {
    const NAME: &'static str = "volume rebalance";
    type Args = RebalanceArgs;
    type Report = RebalanceReport;
    const PHASES: &'static [Weight] = &[("move", 1.0)];

    fn run(host: &dyn Host, args: &RebalanceArgs) -> Result<RebalanceReport> {
        let stopwatch = Stopwatch::start();
        let resources = resources(host)?;
        let volume: &DatasetVolume = &open(host, &resources.device())?;
        let phase = Phase {
            weights: Self::PHASES,
            bytes: unequal(&volume.moves()?).1,
            rate: &args.rate,
        };
        let found = watched(host, &resources, phase, |watch| {
            volume.rebalance(&volumes::budget(), watch)
        })?;
        Ok(RebalanceReport {
            used: stopwatch.stop(moved(found.bytes), &[], &resources, None),
            moved: found.datasets,
            moved_bytes: found.bytes,
        })
    }

    fn say(_args: &RebalanceArgs, report: &RebalanceReport, words: &mut Words) {
        words.lines(&Self::headline(report));
    }

    fn headline(report: &RebalanceReport) -> String {
        match report.moved {
            0 => "every drive has its share: nothing to move".to_owned(),
            count => moved_text(count, report.moved_bytes, report.used.seconds),
        }
    }
}
