//! `outcore volume create|status|scrub`: directories on many drives as one place for datasets.
//!
//! Contract: `create` labels the directories of a drives file, `status` shows what is on each,
//! `scrub` reads everything and names what is not what was written or belongs to nothing (exit code
//! 4 if there is any); see [`outcore_store::dataset`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use outcore::job::Control;
use outcore::{Error, Kind, Result};
use outcore_front::volumes;
use outcore_io::config::DriveSet;
use outcore_io::drive::Device;
use outcore_io::units;
use outcore_store::dataset::orphans::Orphan;
use outcore_store::dataset::reader::Damage;
use outcore_store::dataset::{DatasetVolume, Watch, drives_of};
use serde_json::json;

use crate::context::Context;
use crate::measure::Summary;
use crate::progress::watch;
use crate::resources;

/// The drives file of the volume that is meant.
fn drives_file(context: &Context) -> Result<&Path> {
    context.volume.as_deref().ok_or_else(|| {
        Error::usage("open volume", "no volume is named")
            .hint("name its drives file with --volume drives.toml, or set OUTCORE_VOLUME")
    })
}

/// Opens it on `device`.
pub(super) fn open(context: &Context, device: &Arc<dyn Device>) -> Result<DatasetVolume> {
    volumes::open(device, drives_file(context)?)
}

/// Runs `create`: labels the directories.
pub(super) fn create(context: &Context, stripe_bytes: u64) -> Result<u8> {
    let started = Instant::now();
    let device = resources::without_flags()?.device();
    let set = DriveSet::read(drives_file(context)?)?;
    let seed = volumes::fresh_seed();
    let made = DatasetVolume::create(device, drives_of(&set), stripe_bytes, seed)?;
    let text = format!(
        "volume {} over {}, stripes of {}",
        made.id(),
        units::counted(made.drives().len() as u64, "drive"),
        units::bytes(made.stripe_bytes())
    );
    context.reporter.human(&text);
    let summary = Summary::since(started).with("volume", json!(made.id()));
    context.reporter.summary(&summary);
    Ok(0)
}

/// Runs `status`: what is on each drive.
pub(super) fn status(context: &Context) -> Result<u8> {
    let started = Instant::now();
    let volume = &open(context, &resources::without_flags()?.device())?;
    let drives = volume.status()?;
    for drive in &drives {
        context.reporter.event("drive", json!(drive));
        let free = match drive.is_present {
            true => format!("{} free", units::bytes(drive.free_bytes)),
            false => "missing".to_string(),
        };
        context.reporter.data(&format!(
            "{}\t{}\t{} used\t{free}\n",
            drive.drive,
            drive.dir.display(),
            units::bytes(drive.used_bytes),
        ));
    }
    tell_absent(context, volume);
    let names = volume.names()?;
    let manifests = names.iter().map(|name| volume.manifest(name));
    let manifests: Vec<_> = manifests.collect();
    let datasets = manifests.len();
    let damaged = manifests.iter().filter(|found| found.is_err()).count();
    let found = manifests.iter().flatten();
    let unreachable = found.filter(|found| !volume.absent_of(found).is_empty());
    let unreachable = unreachable.count();
    let orphans = volume.orphans()?;
    let summary = Summary::since(started)
        .with("volume", json!(volume.id()))
        .with("datasets", json!(datasets))
        .with("damaged", json!(damaged))
        .with("unreachable", json!(unreachable))
        .with("orphans", json!(orphans.len()));
    context.reporter.summary(&summary);
    context.reporter.human(&format!(
        "volume {}: {datasets} dataset{}, stripes of {}",
        volume.id(),
        if datasets == 1 { "" } else { "s" },
        units::bytes(volume.stripe_bytes())
    ));
    if unreachable > 0 {
        context.reporter.human(&format!(
            "{unreachable} of them cannot be read without what is missing: `outcore volume ls` says which"
        ));
    }
    if damaged > 0 {
        context.reporter.human(&format!(
            "{damaged} of them cannot be read: `outcore volume scrub` says which"
        ));
    }
    tell_orphans(context, &orphans);
    Ok(0)
}

/// Says which drives are not there.
pub(super) fn tell_absent(context: &Context, volume: &DatasetVolume) {
    for (drive, error) in volume.absent() {
        let (name, dir, why) = (&drive.name, drive.dir.display(), error.cause());
        let is_missing = error.raw_errno() == Some(rustix::io::Errno::NOENT.raw_os_error());
        let found = match error.kind() {
            Kind::Corrupt => format!("the label of drive {name} cannot be used: {error}"),
            _ if is_missing => format!("drive {name} is missing ({dir}: {why}): mount it"),
            _ => format!("drive {name} cannot be read ({dir}: {why})"),
        };
        let text = format!(
            "{found}. What is not on it can be read; nothing is written or removed until it is back"
        );
        context.reporter.note(&text);
    }
}

/// Says that there are files that no dataset has.
pub(super) fn tell_orphans(context: &Context, orphans: &[Orphan]) {
    if let Some(text) = about_orphans(orphans) {
        context.reporter.human(&format!(
            "{text}: `outcore volume scrub --remove-orphans` frees their room"
        ));
    }
}

fn about_orphans(orphans: &[Orphan]) -> Option<String> {
    let bytes = units::bytes(orphans.iter().map(|orphan| orphan.len_bytes).sum());
    match orphans.len() {
        0 => None,
        1 => Some(format!("a file of {bytes} belongs to no dataset")),
        count => {
            let count = units::count(count as u64);
            Some(format!("{count} files of {bytes} belong to no dataset"))
        }
    }
}

/// Prints each damage.
fn say_damages(context: &Context, damages: &[Damage]) {
    for damage in damages {
        context.reporter.event("damage", json!(damage));
        let dataset = match damage.dataset.as_str() {
            "" => "-".to_string(),
            name => format!("@{name}"),
        };
        let repaired = match damage.is_repaired {
            true => ", written anew from another drive",
            false => "",
        };
        context.reporter.data(&format!(
            "{dataset}\tdrive {}\t{}\tat byte {}, {}{repaired}\n",
            damage.drive,
            damage.path,
            damage.offset_bytes,
            units::counted(damage.len_bytes, "byte")
        ));
    }
}

/// Runs `scrub`: reads the datasets `names`, or all, and says what is damaged.
pub(super) fn scrub(context: &Context, names: &[PathBuf], remove_orphans: bool) -> Result<u8> {
    let started = Instant::now();
    let volume = &open(context, &resources::without_flags()?.device())?;
    let names = names.iter();
    let names = names.map(|name| volumes::named(name).map(|named| named.dataset));
    let names = &names.collect::<Result<Vec<String>>>()?[..];
    if remove_orphans {
        let freed_bytes = volume.remove_orphans()?;
        let text = format!("{} of orphans freed", units::bytes(freed_bytes));
        context.reporter.human(&text);
    }
    let control = Control::default();
    let all = match names {
        [] => volume.names()?,
        names => names.to_vec(),
    };
    // What cannot be read is found out below.
    let manifests = all.iter().filter_map(|name| volume.manifest(name).ok());
    let bytes: u64 = manifests.map(|manifest| manifest.payload_bytes()).sum();
    control.begin_phase("scrub", bytes);
    let weights = [("scrub", 1.0)];
    let damages = watch(
        &context.reporter,
        &context.interrupt,
        &control,
        &weights,
        || {
            let watched = Watch {
                check: &|| control.check(),
                advance: &|bytes| control.advance(bytes),
            };
            volume.scrub(names, &volumes::budget(), watched)
        },
    )?;
    say_damages(context, &damages);
    let orphans = match names {
        [] => volume.orphans()?,
        _ => Vec::new(),
    };
    for orphan in &orphans {
        context.reporter.event("orphan", json!(orphan));
        context.reporter.data(&format!(
            "-\tdrive {}\t{}\tbelongs to no dataset, {}\n",
            orphan.drive,
            orphan.path.display(),
            units::counted(orphan.len_bytes, "byte")
        ));
    }
    let summary = Summary {
        read_bytes: bytes,
        passes: 1,
        ..Summary::since(started)
    };
    context.reporter.summary(
        &summary
            .with("damages", json!(damages.len()))
            .with("orphans", json!(orphans.len())),
    );
    let is_left = damages.iter().any(|damage| !damage.is_repaired);
    match damages.len() {
        count @ 1.. => Err(Error::corrupt(
            "scrub volume",
            format!(
                "{} not what was written",
                match count {
                    1 => "one place is".to_string(),
                    _ => format!("{} places are", units::count(count as u64)),
                }
            ),
        )
        .hint(match is_left {
            true => "put these datasets again; a drive that is named twice should be replaced",
            false => "all of it was written anew from copies on other drives; a drive that is named again \
                      should be replaced",
        })),
        0 if !orphans.is_empty() => Err(Error::corrupt(
            "scrub volume",
            about_orphans(&orphans).unwrap_or_default(),
        )
        .hint(
            "a manifest was lost: put that dataset again; `outcore volume scrub --remove-orphans` frees \
             the room",
        )),
        0 => {
            let text = format!("{} read, all as it was written", units::bytes(bytes));
            context.reporter.human(&text);
            Ok(0)
        }
    }
}
