//! `volume`: directories on many drives as one place for datasets.
//!
//! Contract: [`outcore_front::volumes`] defines what a name means. Each verb opens the volume anew.
//! A dataset appears whole or not at all and is checked when it is read. Each listed dataset is
//! passed to [`Host::item`], and is a part of the report. `page.rs` has the options and the
//! reports, `state.rs` makes and checks the volume, `replace.rs` rebuilds a drive, `drives.rs` adds
//! and removes drives, `list.rs` lists and removes datasets, and `transfer.rs` moves them.

mod drives;
mod list;
mod page;
mod replace;
mod state;
mod transfer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{Error, Kind, Result};
use outcore_front::resources::{Resources, ResourcesRequest};
use outcore_front::volumes;
use outcore_io::drive::Device;
use outcore_io::units;
use outcore_store::dataset::manifest::Manifest;
use outcore_store::dataset::orphans::Orphan as Found;
use outcore_store::dataset::{DatasetVolume, Named, Watch};

use crate::host::{Host, Weight, watch};
use crate::verb::VerbVisitor;

use page::RateArgs;

pub use page::TransferSummary;

/// Shows each verb on volumes to `visitor`.
pub(crate) fn visit_verbs(visitor: &mut impl VerbVisitor) {
    visitor.visit::<state::Create>();
    visitor.visit::<state::Status>();
    visitor.visit::<state::Scrub>();
    visitor.visit::<replace::Replace>();
    visitor.visit::<drives::Add>();
    visitor.visit::<drives::Remove>();
    visitor.visit::<drives::Rebalance>();
    visitor.visit::<transfer::Put>();
    visitor.visit::<transfer::Get>();
    visitor.visit::<list::Ls>();
    visitor.visit::<list::Rm>();
    visitor.visit::<transfer::Cp>();
}

/// The drives file of the volume.
fn drives_file(host: &dyn Host) -> Result<&Path> {
    host.names().volume().ok_or_else(|| {
        Error::usage("open volume", "no volume is given")
            .hint("name its drives file with --volume drives.toml, or set OUTCORE_VOLUME")
    })
}

/// The resources of a verb on a volume, which no option sets.
fn resources(host: &dyn Host) -> Result<Resources> {
    host.load(&ResourcesRequest::default())
}

/// The volume, on `device`.
fn open(host: &dyn Host, device: &Arc<dyn Device>) -> Result<DatasetVolume> {
    volumes::open(device, drives_file(host)?)
}

/// The datasets with these names.
fn named(names: &[PathBuf]) -> Result<Vec<Named>> {
    names.iter().map(|name| volumes::named(name)).collect()
}

/// The only phase of a verb that reads or moves datasets.
struct Phase<'a> {
    weights: &'static [Weight],
    /// The bytes that it is expected to take.
    bytes: u64,
    rate: &'a RateArgs,
}

/// Does `work` with progress and at a limited rate, until the user stops it.
fn watched<T>(
    host: &dyn Host,
    resources: &Resources,
    phase: Phase<'_>,
    work: impl FnOnce(Watch<'_>) -> Result<T>,
) -> Result<T> {
    let Phase {
        weights,
        bytes,
        rate,
    } = phase;
    let control = &host.adopt(resources.job(Vec::new())).control;
    for (name, _) in weights {
        control.begin_phase(name, bytes);
    }
    let throttle = rate.throttle();
    watch(host, control, weights, || {
        work(Watch {
            check: &|| control.check(),
            advance: &|bytes| control.advance(bytes),
            throttle: throttle.as_ref(),
        })
    })
}

/// Reports which drives are missing.
fn remark_absent(host: &dyn Host, volume: &DatasetVolume) {
    for (drive, error) in volume.missing() {
        let (name, dir, why) = (&drive.name, drive.dir.display(), error.cause());
        let is_missing = error.raw_errno() == Some(rustix::io::Errno::NOENT.raw_os_error());
        let found = match error.kind() {
            Kind::Corrupt => format!("the label of drive {name} cannot be used: {error}"),
            _ if is_missing => {
                format!("drive {name} is missing ({dir}: {why}): mount it or replace it")
            }
            _ => format!("drive {name} cannot be read ({dir}: {why})"),
        };
        host.remark(&format!(
            "{found}. Datasets that do not need it, or that have parity or a mirror, can be read; \
             nothing is written or removed until the drive is back"
        ));
    }
}

/// Reports which drives have lost a folder.
fn remark_damaged(host: &dyn Host, volume: &DatasetVolume) {
    for (drive, path) in volume.damaged_drives() {
        host.remark(&format!(
            "drive {} is damaged: it has lost {}. `outcore volume scrub` makes the folder again; \
             nothing is written until then",
            drive.name,
            path.display()
        ));
    }
}

/// The number and the bytes of the datasets that a rebalance would move.
fn unequal(moves: &[Manifest]) -> (u64, u64) {
    let bytes = moves.iter().map(Manifest::payload_bytes).sum();
    (moves.len() as u64, bytes)
}

/// The command that makes drives equal, if they are not.
fn advice(unequal: u64, unequal_bytes: u64) -> Option<String> {
    (unequal > 0).then(|| {
        format!(
            "`outcore volume rebalance` moves {} of {}, so that every drive has its share",
            units::counted(unequal, "dataset"),
            units::bytes(unequal_bytes)
        )
    })
}

/// Files that belong to no dataset.
#[derive(Clone, Copy, Default)]
struct Orphans {
    files: u64,
    bytes: u64,
}

impl Orphans {
    fn of(found: &[Found]) -> Self {
        Orphans {
            files: found.len() as u64,
            bytes: found.iter().map(|orphan| orphan.len_bytes).sum(),
        }
    }

    /// The orphans in words, if there are any.
    fn text(self) -> Option<String> {
        let bytes = units::bytes(self.bytes);
        match self.files {
            0 => None,
            1 => Some(format!("a file of {bytes} belongs to no dataset")),
            count => {
                let count = units::count(count);
                Some(format!("{count} files of {bytes} belong to no dataset"))
            }
        }
    }

    /// The text, followed by the command that removes the orphans.
    fn advice(self) -> Option<String> {
        let text = self.text()?;
        Some(format!(
            "{text}: `outcore volume scrub --remove-orphans` frees their room"
        ))
    }
}
