//! `volume create`, `status` and `scrub`.
//!
//! Contract: the report of a scrub has the damage that it found, and the command then ends with an
//! error.

use outcore::{Error, Result};
use outcore_front::volumes;
use outcore_io::config::DriveSet;
use outcore_io::units;
use outcore_store::dataset::damage::Damage as Found;
use outcore_store::dataset::manifest::Manifest;
use outcore_store::dataset::{DatasetVolume, NewVolume, drives_of};
use outcore_store::mapping::Redundancy;
use serde_json::json;

use super::page::{
    CreateArgs, Damage, DatasetRisk, DriveStatus, Orphan, ScrubArgs, ScrubReport, StatusArgs,
    VolumeReport, VolumeStatus,
};
use super::{
    Orphans, Phase, advice, drives_file, named, open, remark_absent, remark_damaged, resources,
    unequal, watched,
};
use crate::host::{Host, Weight};
use crate::report::{Listed, Moved, Name, Place, Stopwatch};
use crate::verb::{Verb, Words};

/// `create`: labels the directories.
pub(super) struct Create;

impl Verb for Create {
    const NAME: &'static str = "volume create";
    type Args = CreateArgs;
    type Report = VolumeReport;
    const PHASES: &'static [Weight] = &[];

    fn run(host: &dyn Host, args: &CreateArgs) -> Result<VolumeReport> {
        let stopwatch = Stopwatch::start();
        let resources = resources(host)?;
        let drives = drives_of(&DriveSet::read(drives_file(host)?)?);
        let seed = volumes::fresh_seed();
        let new = NewVolume {
            stripe_bytes: args.stripe_bytes,
            redundancy: match (args.mirror, args.parity) {
                (true, _) => Redundancy::Mirror,
                (false, 0) => Redundancy::None,
                (false, _) => Redundancy::Parity,
            },
            seed,
        };
        let made = DatasetVolume::create_with(resources.device(), drives, new)?;
        Ok(VolumeReport {
            used: stopwatch.stop(Moved::default(), &[], &resources, None),
            volume: made.id().to_owned(),
            drive_count: made.drives().len() as u64,
            stripe_bytes: made.stripe_bytes(),
            redundancy: made.redundancy().name().to_owned(),
        })
    }

    fn headline(report: &VolumeReport) -> String {
        format!(
            "volume {} over {}, stripes of {}{}",
            report.volume,
            units::counted(report.drive_count, "drive"),
            units::bytes(report.stripe_bytes),
            with_redundancy(&report.redundancy)
        )
    }
}

/// `status`: the state of each drive.
pub(super) struct Status;

impl Verb for Status {
    const NAME: &'static str = "volume status";
    type Args = StatusArgs;
    type Report = VolumeStatus;
    const PHASES: &'static [Weight] = &[];

    fn run(host: &dyn Host, _args: &StatusArgs) -> Result<VolumeStatus> {
        let stopwatch = Stopwatch::start();
        let resources = resources(host)?;
        let volume = &open(host, &resources.device())?;
        let members = volume.status()?.into_iter().map(|drive| DriveStatus {
            drive: drive.drive,
            dir: Place(drive.dir),
            is_present: drive.is_present,
            used_bytes: drive.used_bytes,
            free_bytes: drive.free_bytes,
            share_bytes: drive.share_bytes,
            standing: drive.standing.name().to_owned(),
        });
        let members: Vec<DriveStatus> = members.collect();
        // A dataset that cannot be read now is not moved.
        let moves = volume.moves().unwrap_or_default();
        for drive in &members {
            host.item(
                "drive",
                json!(drive),
                &line_of_drive(drive, !moves.is_empty()),
            );
        }
        remark_absent(host, volume);
        remark_damaged(host, volume);
        let names = volume.names()?;
        let manifests: Vec<_> = names.iter().map(|name| volume.manifest(name)).collect();
        let found = || manifests.iter().flatten();
        let unreachable = found().filter(|found| !volume.is_readable(found));
        let is_at_risk =
            |found: &&Manifest| volume.is_readable(found) && !volume.absent_of(found).is_empty();
        let orphans = Orphans::of(&volume.orphans()?);
        let risks = found().map(|found| risk_of(volume, found, &moves));
        let risks: Vec<DatasetRisk> = risks.collect();
        for risk in &risks {
            host.item("risk", json!(risk), &line_of_risk(risk));
        }
        let (unequal, unequal_bytes) = unequal(&moves);
        Ok(VolumeStatus {
            used: stopwatch.stop(Moved::default(), &[], &resources, None),
            members: Listed(members),
            volume: volume.id().to_owned(),
            stripe_bytes: volume.stripe_bytes(),
            redundancy: volume.redundancy().name().to_owned(),
            at_risk: found().filter(is_at_risk).count() as u64,
            datasets: manifests.len() as u64,
            damaged: manifests.iter().filter(|found| found.is_err()).count() as u64,
            unreachable: unreachable.count() as u64,
            orphans: orphans.files,
            orphan_bytes: orphans.bytes,
            risks: Listed(risks),
            unequal,
            unequal_bytes,
        })
    }

    fn say(_args: &StatusArgs, report: &VolumeStatus, words: &mut Words) {
        words.lines(&Self::headline(report));
        for (count, why) in [
            (
                report.unreachable,
                "cannot be read while drives are missing: `outcore volume ls`",
            ),
            (report.damaged, "cannot be read: `outcore volume scrub`"),
        ] {
            if count > 0 {
                words.lines(&format!("{count} of them {why} shows which"));
            }
        }
        if report.at_risk > 0 {
            words.lines(&format!(
                "{} of them {} at risk: if one more drive fails, data are lost; rebuild the missing \
                 drive with `outcore volume replace`",
                report.at_risk,
                if report.at_risk == 1 { "is" } else { "are" }
            ));
        }
        for drive in report
            .members
            .0
            .iter()
            .filter(|drive| drive.standing != "full")
        {
            words.lines(&format!(
                "drive {} is being removed: repeat `outcore volume remove {}`",
                drive.drive, drive.drive
            ));
        }
        let is_single = |risk: &&DatasetRisk| risk.risk == "single";
        let single = report.risks.0.iter().filter(is_single).count() as u64;
        if single > 0 {
            words.lines(&format!(
                "{} without redundancy: if a drive is lost, the parts on that drive are lost",
                units::counted(single, "dataset")
            ));
        }
        words.lines(&advice(report.unequal, report.unequal_bytes).unwrap_or_default());
        let orphans = Orphans {
            files: report.orphans,
            bytes: report.orphan_bytes,
        };
        words.lines(&orphans.advice().unwrap_or_default());
    }

    fn headline(report: &VolumeStatus) -> String {
        format!(
            "volume {}: {}, stripes of {}{}",
            report.volume,
            units::counted(report.datasets, "dataset"),
            units::bytes(report.stripe_bytes),
            with_redundancy(&report.redundancy)
        )
    }
}

/// `scrub`: reads the given datasets, or all.
pub(super) struct Scrub;

impl Verb for Scrub {
    const NAME: &'static str = "volume scrub";
    type Args = ScrubArgs;
    type Report = ScrubReport;
    const PHASES: &'static [Weight] = &[("scrub", 1.0)];

    fn run(host: &dyn Host, args: &ScrubArgs) -> Result<ScrubReport> {
        let stopwatch = Stopwatch::start();
        let resources = resources(host)?;
        let volume = &open(host, &resources.device())?;
        let names = named(&args.names)?.into_iter().map(|named| named.dataset);
        let names = &names.collect::<Vec<String>>()[..];
        let freed_bytes = args.remove_orphans.then(|| volume.remove_orphans());
        let freed_bytes = freed_bytes.transpose()?;
        let all = match names {
            [] => volume.names()?,
            names => names.to_vec(),
        };
        // Datasets that cannot be read are reported below.
        let manifests = all.iter().filter_map(|name| volume.manifest(name).ok());
        let bytes: u64 = manifests.map(|manifest| manifest.payload_bytes()).sum();
        let phase = Phase {
            weights: Self::PHASES,
            bytes,
            rate: &args.rate,
        };
        let damages = watched(host, &resources, phase, |watch| {
            volume.scrub(names, &volumes::budget(), watch)
        })?;
        let damages = list_damages(host, damages);
        let orphans = match names {
            [] => volume.orphans()?,
            _ => Vec::new(),
        };
        let orphans = orphans.into_iter().map(|orphan| Orphan {
            drive: orphan.drive,
            path: Place(orphan.path),
            len_bytes: orphan.len_bytes,
        });
        let orphans: Vec<Orphan> = orphans.collect();
        for orphan in &orphans {
            let (drive, path) = (&orphan.drive, orphan.path.0.display());
            let bytes = units::counted(orphan.len_bytes, "byte");
            let line = format!("-\tdrive {drive}\t{path}\tbelongs to no dataset, {bytes}\n");
            host.item("orphan", json!(orphan), &line);
        }
        let moved = Moved {
            read_bytes: bytes,
            passes: 1,
            ..Moved::default()
        };
        Ok(ScrubReport {
            used: stopwatch.stop(moved, &[], &resources, None),
            damages: Listed(damages),
            orphans: Listed(orphans),
            freed_bytes,
        })
    }

    fn say(_args: &ScrubArgs, report: &ScrubReport, words: &mut Words) {
        if let Some(freed_bytes) = report.freed_bytes {
            words.lines(&format!("{} of orphans freed", units::bytes(freed_bytes)));
        }
        if Self::fault(report).is_none() {
            words.lines(&Self::headline(report));
        }
    }

    fn headline(report: &ScrubReport) -> String {
        match Self::fault(report) {
            Some(fault) => fault.cause().to_owned(),
            None => {
                let read = units::bytes(report.used.read_bytes);
                format!("{read} read, undamaged")
            }
        }
    }

    fn fault(report: &ScrubReport) -> Option<Error> {
        const SCRUB: &str = "scrub volume";
        let orphans = &report.orphans.0;
        let is_left = report.damages.0.iter().any(|damage| !damage.is_repaired);
        let count = match report.damages.0.len() {
            0 => {
                let orphans = Orphans {
                    files: orphans.len() as u64,
                    bytes: orphans.iter().map(|orphan| orphan.len_bytes).sum(),
                };
                return Some(Error::corrupt(SCRUB, orphans.text()?).hint(
                    "a manifest was lost: put that dataset again; \
                     `outcore volume scrub --remove-orphans` frees the room",
                ));
            }
            1 => "one place is".to_owned(),
            count => format!("{} places are", units::count(count as u64)),
        };
        let hint = match is_left {
            true => "put these datasets again, and replace a drive that is listed more than once",
            false => {
                "all damage was repaired from other drives; if a later scrub lists a drive again, \
                 replace that drive"
            }
        };
        Some(Error::corrupt(SCRUB, format!("{count} damaged")).hint(hint))
    }
}

/// A drive as a line, with its share if the drives are unequal.
fn line_of_drive(drive: &DriveStatus, are_unequal: bool) -> String {
    let free = match (drive.standing.as_str(), drive.is_present) {
        ("leaving", true) => format!("{} free, leaving", units::bytes(drive.free_bytes)),
        (_, true) => format!("{} free", units::bytes(drive.free_bytes)),
        ("lost", false) => "lost, being removed".to_owned(),
        (_, false) => "missing".to_owned(),
    };
    let (name, dir) = (&drive.drive, drive.dir.0.display());
    let [used, share] = [drive.used_bytes, drive.share_bytes].map(units::bytes);
    let used = match are_unequal {
        true => format!("{used} used, share {share}"),
        false => format!("{used} used"),
    };
    format!("{name}\t{dir}\t{used}\t{free}\n")
}

/// The cost of a lost drive for a dataset, and whether the dataset is among the `moves`.
fn risk_of(volume: &DatasetVolume, found: &Manifest, moves: &[Manifest]) -> DatasetRisk {
    let risk = volume.risk_of(found);
    DatasetRisk {
        name: Name {
            plain: found.name.clone(),
            marked: format!("@{}", found.name),
        },
        bytes: found.len_bytes,
        risk: risk.hazard.name().to_owned(),
        drives: risk.drives,
        is_unequal: moves.iter().any(|moved| moved.name == found.name),
    }
}

/// The risk of a dataset as a line, if the dataset cannot be read, or if its redundancy is
/// incomplete.
fn line_of_risk(risk: &DatasetRisk) -> String {
    let (name, drives) = (&risk.name.marked, risk.drives.join(", "));
    match risk.risk.as_str() {
        "incomplete" => format!("{name}\twithout its part on {drives}: at risk\n"),
        "unreadable" => format!("{name}\twithout its part on {drives}: cannot be read\n"),
        _ => String::new(),
    }
}

/// The redundancy of a volume at the end of a line.
fn with_redundancy(redundancy: &str) -> String {
    match redundancy {
        "none" => String::new(),
        "mirror" => ", mirrored".to_owned(),
        other => format!(", {other}"),
    }
}

/// Reports each damage as an item.
pub(super) fn list_damages(host: &dyn Host, found: Vec<Found>) -> Vec<Damage> {
    let damages = found.into_iter().map(|damage| Damage {
        dataset: damage.dataset,
        drive: damage.drive,
        path: damage.path,
        offset_bytes: damage.offset_bytes,
        len_bytes: damage.len_bytes,
        is_repaired: damage.is_repaired,
    });
    let damages: Vec<Damage> = damages.collect();
    for damage in &damages {
        host.item("damage", json!(damage), &line_of_damage(damage));
    }
    damages
}

/// A damage as a line.
fn line_of_damage(damage: &Damage) -> String {
    let dataset = match damage.dataset.as_str() {
        "" => "-".to_owned(),
        name => format!("@{name}"),
    };
    let repaired = match damage.is_repaired {
        true => ", repaired from other drives",
        false => "",
    };
    let bytes = units::counted(damage.len_bytes, "byte");
    format!(
        "{dataset}\tdrive {}\t{}\tat byte {}, {bytes}{repaired}\n",
        damage.drive, damage.path, damage.offset_bytes,
    )
}
