//! `volume put`, `get` and `cp`: copy data in and out.
//!
//! Contract: a trace never replaces the data that are moved. The data are read once and written
//! once.

use std::path::Path;
use std::sync::Arc;

use outcore::job::Control;
use outcore::{Error, Result};
use outcore_front::inputs::{STDIN_NAME, is_stdout};
use outcore_front::output::Target;
use outcore_front::streams::StreamReader;
use outcore_front::volumes::{self, Moved as Transferred};
use outcore_io::drive::objects::is_object;
use outcore_io::units;
use outcore_store::dataset::transfer::TransferResources;
use outcore_store::dataset::{DatasetVolume, Named, Watch};
use serde_json::json;

use super::page::{CpArgs, GetArgs, PutArgs, TransferSummary};
use super::{open, resources};
use crate::host::{Host, Kept, Weight, watch};
use crate::option::RecordingArgs;
use crate::report::{Moved, Stopwatch};
use crate::verb::{Verb, Words};

const PHASES: &[Weight] = &[("copy", 1.0)];

/// `put`: stores a dataset.
pub(super) struct Put;

impl Verb for Put {
    const NAME: &'static str = "volume put";
    type Args = PutArgs;
    type Report = TransferSummary;
    const PHASES: &'static [Weight] = PHASES;

    fn run(host: &dyn Host, args: &PutArgs) -> Result<TransferSummary> {
        let name = volumes::named(&args.name)?;
        let transfer = Transfer {
            source: &args.source,
            target: &args.name,
            force: args.force,
            record_io: &args.record_io,
        };
        transfer.run(host, |volume, resources, control| {
            if args.source.as_os_str() != "-" {
                return volumes::put(volume, &args.source, &name, args.force, resources);
            }
            let input = StreamReader::standard_input(|| control.check());
            let failed = |error| Error::io("open input", &error).path(STDIN_NAME);
            let mut input = input.map_err(failed)?;
            volumes::put_from(volume, &mut input, &name, args.force, resources)
        })
    }

    fn say(_args: &PutArgs, report: &TransferSummary, words: &mut Words) {
        words.lines(&report.headline());
    }
    fn headline(report: &TransferSummary) -> String {
        report.headline()
    }
}

/// `get`: reads a dataset.
pub(super) struct Get;

impl Verb for Get {
    const NAME: &'static str = "volume get";
    type Args = GetArgs;
    type Report = TransferSummary;
    const PHASES: &'static [Weight] = PHASES;

    fn run(host: &dyn Host, args: &GetArgs) -> Result<TransferSummary> {
        let name = volumes::named(&args.name)?;
        if Named::parse(&args.target)?.is_some() {
            let cause = "get writes a file or a directory, but this is the name of a dataset";
            return Err(Error::usage("create output", cause)
                .path(&args.target)
                .hint("copy a dataset with `outcore volume cp`; a file of that name is ./@NAME"));
        }
        let transfer = Transfer {
            source: &args.name,
            target: &args.target,
            force: args.force,
            record_io: &args.record_io,
        };
        transfer.run(host, |volume, resources, control| {
            if !is_stdout(&args.target) {
                return volumes::get(volume, &name, &args.target, args.force, resources);
            }
            let mut output = host.open_pipe(None, control)?;
            volumes::get_into(volume, &name, &mut output, resources)
        })
    }

    fn headline(report: &TransferSummary) -> String {
        report.headline()
    }

    fn takes_stdout(args: &GetArgs) -> bool {
        is_stdout(&args.target)
    }
}

/// `cp`: copies between files and datasets, or from one dataset to another.
pub(super) struct Cp;

impl Verb for Cp {
    const NAME: &'static str = "volume cp";
    type Args = CpArgs;
    type Report = TransferSummary;
    const PHASES: &'static [Weight] = PHASES;

    fn run(host: &dyn Host, args: &CpArgs) -> Result<TransferSummary> {
        let transfer = Transfer {
            source: &args.source,
            target: &args.target,
            force: args.force,
            record_io: &args.record_io,
        };
        transfer.run(host, |volume, resources, _| {
            volumes::copy(volume, &args.source, &args.target, args.force, resources)
        })
    }

    fn headline(report: &TransferSummary) -> String {
        report.headline()
    }
}

/// The source and the destination of a copy.
struct Transfer<'a> {
    source: &'a Path,
    target: &'a Path,
    force: bool,
    record_io: &'a RecordingArgs,
}

impl Transfer<'_> {
    /// Does the work, which the host watches.
    fn run(
        &self,
        host: &dyn Host,
        work: impl FnOnce(&DatasetVolume, TransferResources<'_>, &Arc<Control>) -> Result<Transferred>,
    ) -> Result<TransferSummary> {
        let stopwatch = Stopwatch::start();
        if let Some(object) = [self.source, self.target]
            .into_iter()
            .find(|name| is_object(name))
        {
            let cause = "a volume exchanges files with this machine, not with an object store";
            return Err(Error::usage("copy dataset", cause)
                .path(object)
                .hint("with the vendor's tool, download the object before `put`, or upload the file after `get`"));
        }
        let output = Target::File(self.target.to_path_buf());
        let is_file = Named::parse(self.target)?.is_none() && !is_stdout(self.target);
        let kept = Kept {
            target: is_file.then_some(&output),
            files: &[self.source.to_path_buf()],
            force: self.force,
            ..Kept::default()
        };
        let resources = host.start(resources(host)?, self.record_io.path(), kept)?;
        let device = resources.device();
        let volume = open(host, &device)?;
        let notes = volumes::degraded_notes(&volume);
        notes.iter().for_each(|note| host.note(note));
        let control = &host.adopt(resources.job(Vec::new())).control;
        let total_bytes = volumes::bytes_of(&volume, self.source);
        control.begin_phase("copy", total_bytes);
        host.begin(json!({"bytes": total_bytes}));
        let budget = volumes::budget();
        let moved = watch(host, control, PHASES, || {
            let resources = TransferResources {
                device: &device,
                budget: &budget,
                watch: Watch {
                    check: &|| control.check(),
                    advance: &|bytes| control.advance(bytes),
                    throttle: None,
                },
            };
            work(&volume, resources, control)
        })?;
        if let Some(first) = &moved.left_out.first {
            let what = match moved.left_out.count {
                1 => "1 socket, pipe or device was".to_owned(),
                count => format!("{} sockets, pipes or devices were", units::count(count)),
            };
            let first = first.display();
            host.remark(&format!(
                "{what} left out, since they hold no data: {first}"
            ));
        }
        let traffic = Moved {
            read_bytes: moved.bytes,
            written_bytes: moved.bytes,
            passes: 1,
            ..Moved::default()
        };
        let used = stopwatch.stop(traffic, &[], &resources, host.end_trace()?);
        Ok(TransferSummary::of(&moved, used))
    }
}
