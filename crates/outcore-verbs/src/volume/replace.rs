//! `volume replace`.
//!
//! Contract: the drives file names the new directory once the drive is whole there. Contents
//! that were given up are reported, and the command then ends with an error.

use outcore::{Error, Result};
use outcore_front::volumes;
use outcore_io::units;
use outcore_store::dataset::replace::Replacement;
use outcore_store::dataset::transfer::TransferResources;

use super::page::{ReplaceArgs, ReplacementReport};
use super::state::list_damages;
use super::{Phase, drives_file, open, resources, watched};
use crate::host::{Host, Weight};
use crate::report::{Listed, Moved, Place, Stopwatch};
use crate::verb::{Verb, Words};

/// `replace`: rebuilds a drive.
pub(super) struct Replace;

impl Verb for Replace {
    const NAME: &'static str = "volume replace";
    type Args = ReplaceArgs;
    type Report = ReplacementReport;
    const PHASES: &'static [Weight] = &[("rebuild", 1.0)];

    fn run(host: &dyn Host, args: &ReplaceArgs) -> Result<ReplacementReport> {
        let stopwatch = Stopwatch::start();
        let resources = resources(host)?;
        let device = resources.device();
        let volume = &open(host, &device)?;
        let drives_file = drives_file(host)?;
        let wanted = Replacement {
            drive: &args.drive,
            dir: &args.dir,
            gives_up: args.force,
        };
        let phase = Phase {
            weights: Self::PHASES,
            bytes: volume.bytes_on(&args.drive),
            rate: &args.rate,
        };
        let replaced = watched(host, &resources, phase, |watch| {
            let resources = TransferResources {
                device: &device,
                budget: &volumes::budget(),
                watch,
            };
            volumes::replace(volume, drives_file, wanted, resources)
        })?;
        if let Some(aside) = &replaced.set_aside {
            host.remark(&format!(
                "the folder of the old drive is now {}: remove it when nothing in it is needed",
                aside.display()
            ));
        }
        if replaced.was_done {
            host.remark(
                "the drive is already replaced, so nothing was left to do; `outcore volume scrub` \
                 looks for damage",
            );
        }
        let moved = Moved {
            written_bytes: replaced.rebuilt_bytes,
            passes: 1,
            ..Moved::default()
        };
        Ok(ReplacementReport {
            used: stopwatch.stop(moved, &[], &resources, None),
            drive: args.drive.clone(),
            dir: Place(replaced.dir),
            rebuilt_bytes: replaced.rebuilt_bytes,
            damages: Listed(list_damages(host, replaced.damages)),
        })
    }

    fn say(_args: &ReplaceArgs, report: &ReplacementReport, words: &mut Words) {
        words.lines(&Self::headline(report));
    }

    fn headline(report: &ReplacementReport) -> String {
        format!(
            "drive {} is in {}, {} rebuilt in {}: {}",
            report.drive,
            report.dir.0.display(),
            units::bytes(report.rebuilt_bytes),
            units::seconds(report.used.seconds),
            units::rate_decimal(report.rebuilt_bytes as f64 / report.used.seconds.max(1e-9))
        )
    }

    fn fault(report: &ReplacementReport) -> Option<Error> {
        let count = report.damages.0.len();
        let cause = match count {
            0 => return None,
            1 => {
                "1 part of the drive's data could not be computed from the other drives".to_owned()
            }
            count => format!(
                "{} parts of the drive's data could not be computed from the other drives",
                units::count(count as u64)
            ),
        };
        Some(Error::corrupt("replace drive", cause).hint("put these datasets again"))
    }
}
