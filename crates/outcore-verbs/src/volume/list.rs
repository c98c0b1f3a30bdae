//! `volume ls` and `rm`.
//!
//! Contract: `ls` lists everything that it can read, and then fails with the first error, if there
//! was one.

use outcore::{Error, Result};
use outcore_front::volumes;
use outcore_io::units;
use outcore_store::dataset::DatasetVolume;
use outcore_store::dataset::manifest::{Contents, Manifest};
use outcore_store::dataset::pack::{self, Entry, EntryKind};
use outcore_store::dataset::transfer;
use serde_json::json;

use super::page::{DatasetEntry, LsArgs, RemovalReport, RmArgs, VolumeListing};
use super::{Orphans, named, open, remark_absent, resources};
use crate::host::{Host, Weight};
use crate::report::{Listed, Moved, Name, Stopwatch};
use crate::verb::{Verb, Words};

/// `ls`: the datasets, or the files packed in one.
pub(super) struct Ls;

impl Verb for Ls {
    const NAME: &'static str = "volume ls";
    type Args = LsArgs;
    type Report = VolumeListing;
    const PHASES: &'static [Weight] = &[];

    fn run(host: &dyn Host, args: &LsArgs) -> Result<VolumeListing> {
        let stopwatch = Stopwatch::start();
        let resources = resources(host)?;
        let volume = open(host, &resources.device())?;
        remark_absent(host, &volume);
        let mut entries = Vec::new();
        let mut list = |entry: DatasetEntry| {
            host.item("dataset", json!(entry), &line_of(&entry));
            entries.push(entry);
        };
        match &args.name {
            Some(path) => {
                let manifest = volume.manifest(&volumes::named(path)?.dataset)?;
                let index = transfer::index_of(&volume, &manifest, &volumes::budget())?;
                index.listed().map(packed).for_each(list);
            }
            None => {
                let mut damaged = None;
                for name in volume.names()? {
                    match volume.manifest(&name) {
                        Ok(found) => list(dataset(&volume, &found)),
                        Err(error) => drop(damaged.get_or_insert(error)),
                    }
                }
                damaged.map_or(Ok(()), Err)?;
            }
        }
        Ok(VolumeListing {
            used: stopwatch.stop(Moved::default(), &[], &resources, None),
            entries: Listed(entries),
        })
    }

    fn say(_args: &LsArgs, _report: &VolumeListing, _words: &mut Words) {}

    fn headline(report: &VolumeListing) -> String {
        match report.entries.0.len() {
            1 => "1 entry".to_owned(),
            count => format!("{} entries", units::count(count as u64)),
        }
    }
}

/// A dataset of `volume`.
fn dataset(volume: &DatasetVolume, found: &Manifest) -> DatasetEntry {
    let contents = match (found.contents, found.files) {
        (Contents::File, _) => "file".to_owned(),
        (Contents::Directory, 1) => "1 file in a directory".to_owned(),
        (Contents::Directory, count) => units::counted(count, "file"),
    };
    let missing = volume.absent_of(found).into_iter();
    DatasetEntry {
        name: Name {
            plain: found.name.clone(),
            marked: format!("@{}", found.name),
        },
        bytes: found.len_bytes,
        files: found.files,
        contents,
        is_directory: found.contents == Contents::Directory,
        missing_drives: missing.map(str::to_owned).collect(),
        is_readable: volume.is_readable(found),
    }
}

/// A file that is packed in a dataset.
fn packed(entry: &Entry) -> DatasetEntry {
    let name = entry.text();
    let (end, contents) = match &entry.kind {
        EntryKind::File => ("", "file".to_owned()),
        EntryKind::Directory => ("/", "empty directory".to_owned()),
        EntryKind::Link { target } => ("", format!("link to {}", pack::escape(target))),
    };
    DatasetEntry {
        name: Name {
            marked: format!("{name}{end}"),
            plain: name,
        },
        bytes: entry.len_bytes,
        files: 1,
        contents,
        is_directory: entry.kind == EntryKind::Directory,
        missing_drives: Vec::new(),
        is_readable: true,
    }
}

fn line_of(entry: &DatasetEntry) -> String {
    let needs = match entry.missing_drives.as_slice() {
        [] => String::new(),
        missing if entry.is_readable => format!("\twithout {}, missing", missing.join(", ")),
        missing => format!("\tneeds {}, missing", missing.join(", ")),
    };
    let size = units::bytes(entry.bytes);
    format!("{}\t{size}\t{}{needs}\n", entry.name.marked, entry.contents)
}

/// `rm`: removes datasets.
pub(super) struct Rm;

impl Verb for Rm {
    const NAME: &'static str = "volume rm";
    type Args = RmArgs;
    type Report = RemovalReport;
    const PHASES: &'static [Weight] = &[];

    fn run(host: &dyn Host, args: &RmArgs) -> Result<RemovalReport> {
        let stopwatch = Stopwatch::start();
        let resources = resources(host)?;
        let volume = open(host, &resources.device())?;
        let mut freed_bytes = 0;
        for named in named(&args.names)? {
            if let Some(inside) = named.inside {
                let cause = format!(
                    "@{}/{inside}: a dataset is sealed, so its files cannot be changed",
                    named.dataset
                );
                return Err(Error::usage("remove", cause)
                    .hint("remove the whole dataset, or put the directory again with --force"));
            }
            freed_bytes += volume.remove(&named.dataset)?;
        }
        let orphans = Orphans::of(&volume.orphans()?);
        Ok(RemovalReport {
            used: stopwatch.stop(Moved::default(), &[], &resources, None),
            freed_bytes,
            orphans: orphans.files,
            orphan_bytes: orphans.bytes,
        })
    }

    fn say(_args: &RmArgs, report: &RemovalReport, words: &mut Words) {
        words.lines(&Self::headline(report));
        let orphans = Orphans {
            files: report.orphans,
            bytes: report.orphan_bytes,
        };
        words.lines(&orphans.advice().unwrap_or_default());
    }

    fn headline(report: &RemovalReport) -> String {
        format!("{} freed", units::bytes(report.freed_bytes))
    }
}
