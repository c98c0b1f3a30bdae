//! `drives probe`: measures drives with [`outcore_io::drive::probe`], and writes the results for
//! `--drives`.
//!
//! Contract: the drives file goes to the output; without one the report has it, and the command
//! prints it. A file that must not be replaced is rejected before anything is measured.
//! Directories are written as absolute paths, so that the file may be anywhere.

use std::path::{Path, PathBuf};

use outcore::{Error, Result};
use outcore_front::cost::ProcessTraffic;
use outcore_front::resources::{ResourcesRequest, check_dir};
use outcore_io::config::DriveSet;
use outcore_io::drive::probe::{DriveProbe, ProbeOptions, ProbeReport as Measured, probe};
use outcore_io::drive::{NewFile, real_dir};
use outcore_io::units;
use serde_json::json;

use super::page::{DriveGroup, MeasuredDrive, ProbeArgs, ProbeReport, RateAtDepth, TogetherRates};
use crate::host::Host;
use crate::option::{DriveArgs, ResourceArgs, SEED, resources_request};
use crate::report::{Listed, Moved, Place, Stopwatch};
use crate::verb::{Verb, Words};

const PROBE: &str = "probe drive";

/// The verb.
pub(super) struct Probe;

impl Verb for Probe {
    const NAME: &'static str = "drives probe";
    type Args = ProbeArgs;
    type Report = ProbeReport;

    fn run(host: &dyn Host, args: &ProbeArgs) -> Result<ProbeReport> {
        let stopwatch = Stopwatch::start();
        let before = ProcessTraffic::so_far();
        let resources = host.load(&request(args)?)?;
        let output = args.output.as_deref();
        let file = output.map(|path| new_file(path, args.force)).transpose()?;
        let drives = drives_of(&args.dirs)?;
        let names = drives.drives.iter().map(|drive| drive.name.as_str());
        host.begin(json!({"drives": names.collect::<Vec<_>>()}));
        let control = &host.adopt(resources.job(Vec::new())).control;
        let is_cancelled = || control.is_cancelled();
        let mut measured = None;
        host.do_in_steps(&mut |show| {
            let options = ProbeOptions {
                io: resources.config.io.value,
                file_bytes: args.file_bytes,
                step_seconds: args.step.as_secs_f64(),
                watch: Some(show),
                is_cancelled: Some(&is_cancelled),
            };
            measured = Some(probe(&drives.drives, options)?);
            Ok(())
        })?;
        let measured = measured.ok_or_else(Error::interrupted)?;
        let members: Vec<MeasuredDrive> = measured.drives.iter().map(member).collect();
        for drive in &members {
            host.item("drive", json!(drive), "");
        }
        let drives_file = measured.drive_set().to_text()?;
        if let Some(file) = &file {
            file.write(drives_file.clone())?;
        }
        let traffic = ProcessTraffic::so_far();
        let moved = Moved {
            read_bytes: traffic.read_bytes - before.read_bytes,
            written_bytes: traffic.written_bytes - before.written_bytes,
            passes: 1,
            ..Moved::default()
        };
        Ok(ProbeReport {
            used: stopwatch.stop(moved, &[], &resources, None),
            members: Listed(members),
            together: together(&measured),
            groups: groups(&measured),
            output: args.output.clone().map(Place),
            drives_file,
            text: measured.to_string().trim_end().to_owned(),
        })
    }

    fn say(_args: &ProbeArgs, report: &ProbeReport, words: &mut Words) {
        words.lines(&report.text);
        match &report.output {
            None => words.data.clone_from(&report.drives_file),
            Some(Place(path)) => words.lines(&format!(
                "written to {}; use it with --drives",
                path.display()
            )),
        }
    }

    fn headline(report: &ProbeReport) -> String {
        let drives = units::counted(report.members.0.len() as u64, "drive");
        format!(
            "{drives} measured in {}",
            units::seconds(report.used.seconds)
        )
    }
}

fn request(args: &ProbeArgs) -> Result<ResourcesRequest> {
    let resources = ResourceArgs {
        io: args.io,
        ..ResourceArgs::default()
    };
    resources_request(&resources, &DriveArgs::default(), None, SEED)
}

/// The given drives, with absolute directories.
fn drives_of(dirs: &[PathBuf]) -> Result<DriveSet> {
    let mut set = DriveSet::from_arguments(dirs)?;
    for drive in &mut set.drives {
        check_dir(PROBE, &drive.dir)?;
        let real = real_dir(&drive.dir);
        drive.dir =
            real.ok_or_else(|| Error::usage(PROBE, "the directory is gone").path(&drive.dir))?;
    }
    Ok(set)
}

fn new_file(path: &Path, is_forced: bool) -> Result<NewFile> {
    const WRITE: &str = "write drives file";
    if path.extension().is_none_or(|end| end != "toml") {
        return Err(Error::usage(WRITE, "its name must end in .toml")
            .path(path)
            .hint(
                "give it a name that ends in .toml, such as drives.toml, so that --drives can tell \
                 it from a directory",
            ));
    }
    NewFile::at(WRITE, path, is_forced)
}

fn member(drive: &DriveProbe) -> MeasuredDrive {
    let rates = |rates: &[(u32, u64)]| {
        let rates = rates.iter().map(|(depth, per_s)| RateAtDepth {
            depth: *depth,
            per_s: *per_s,
        });
        rates.collect()
    };
    let spec = &drive.spec;
    MeasuredDrive {
        name: spec.name.clone(),
        dir: Place(spec.dir.clone()),
        read_bytes_per_s: spec.read_bytes_per_s,
        write_bytes_per_s: spec.write_bytes_per_s,
        read_iops: spec.read_iops,
        depth: spec.depth,
        is_direct: spec.direct_io == Some(true),
        alignment_bytes: spec.alignment_bytes,
        memory_alignment_bytes: spec.memory_alignment_bytes,
        features: spec.features.clone(),
        group: spec.group.clone(),
        read_by_depth: rates(&drive.read_by_depth),
        iops_by_depth: rates(&drive.iops_by_depth),
        file_bytes: drive.file_bytes,
        is_in_memory: drive.is_in_memory,
        same_as: drive.same_as.clone(),
        notes: drive.notes.clone(),
    }
}

fn together(measured: &Measured) -> Option<TogetherRates> {
    measured.together.map(|rates| TogetherRates {
        read_bytes_per_s: rates.read_bytes_per_s,
        write_bytes_per_s: rates.write_bytes_per_s,
        read_share: rates.read_share,
        write_share: rates.write_share,
    })
}

fn groups(measured: &Measured) -> Vec<DriveGroup> {
    let groups = measured.groups.iter().map(|group| DriveGroup {
        name: group.name.clone(),
        read_bytes_per_s: group.read_bytes_per_s,
        write_bytes_per_s: group.write_bytes_per_s,
    });
    groups.collect()
}
