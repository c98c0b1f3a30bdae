//! `outcore volume put|get|ls|rm|cp`: datasets on a volume.
//!
//! Contract: [`outcore_front::volumes`] defines what a name means. A dataset appears whole or not
//! at all and is checked when it is read. Names go to standard output, one a line with tabs.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use outcore::job::Control;
use outcore::{Error, Result};
use outcore_front::inputs::{STDIN_NAME, is_stdout};
use outcore_front::output::Target;
use outcore_front::streams::StreamReader;
use outcore_front::volumes::{self, Moved};
use outcore_io::units;
use outcore_store::dataset::manifest::Contents;
use outcore_store::dataset::pack::{self, EntryKind};
use outcore_store::dataset::transfer::{self, TransferResources};
use outcore_store::dataset::{DatasetVolume, Named, Watch};
use serde_json::json;

use super::state::{open, tell_absent, tell_orphans};
use crate::cli::RecordingArgs;
use crate::cli::volume::{CpArgs, GetArgs, LsArgs, PutArgs, RmArgs};
use crate::context::Context;
use crate::measure::{Summary, rate_text};
use crate::pipe::CLOSED_PIPE;
use crate::progress::watch;
use crate::{pipe, resources};
use outcore_verbs::host::Kept;

/// Runs `put`.
pub(super) fn put(context: &Context, args: &PutArgs) -> Result<u8> {
    let name = volumes::named(&args.name)?;
    let trace = (&args.record_io, args.force);
    run_transfer(
        context,
        [&args.source, &args.name],
        trace,
        |volume, resources, control| {
            if args.source.as_os_str() != "-" {
                return volumes::put(volume, &args.source, &name, args.force, resources);
            }
            let input = StreamReader::standard_input(|| control.check());
            let failed = |error| Error::io("open input", &error).path(STDIN_NAME);
            let mut input = input.map_err(failed)?;
            volumes::put_from(volume, &mut input, &name, args.force, resources)
        },
    )
}

/// Runs `get`.
pub(super) fn get(context: &Context, args: &GetArgs) -> Result<u8> {
    let name = volumes::named(&args.name)?;
    let trace = (&args.record_io, args.force);
    let got = run_transfer(
        context,
        [&args.name, &args.target],
        trace,
        |volume, resources, control| {
            if !is_stdout(&args.target) {
                return volumes::get(volume, &name, &args.target, args.force, resources);
            }
            let mut output = pipe::open(None, control)?;
            volumes::get_into(volume, &name, &mut output, resources)
        },
    );
    match got {
        Err(error) if pipe::is_closed(&Target::Pipe(None), &error) => Ok(CLOSED_PIPE),
        other => other,
    }
}

/// Runs `cp`.
pub(super) fn copy(context: &Context, args: &CpArgs) -> Result<u8> {
    let trace = (&args.record_io, args.force);
    run_transfer(
        context,
        [&args.from, &args.to],
        trace,
        |volume, resources, _| volumes::copy(volume, &args.from, &args.to, args.force, resources),
    )
}

/// Does the work with progress, and says what was moved.
fn run_transfer(
    context: &Context,
    [source, target]: [&Path; 2],
    (record_io, force): (&RecordingArgs, bool),
    work: impl FnOnce(&DatasetVolume, TransferResources<'_>, &Arc<Control>) -> Result<Moved>,
) -> Result<u8> {
    let started = Instant::now();
    let output = Target::File(target.to_path_buf());
    let is_file = Named::parse(target)?.is_none() && !is_stdout(target);
    let kept = Kept {
        target: is_file.then_some(&output),
        files: &[source.to_path_buf()],
        force,
        ..Kept::default()
    };
    let resources = context.start(resources::without_flags()?, record_io, kept)?;
    let device = resources.device();
    let volume = open(context, &device)?;
    let control = Arc::new(Control::default());
    let total_bytes = volumes::bytes_of(&volume, source);
    control.begin_phase("copy", total_bytes);
    context
        .reporter
        .event("begin", json!({"bytes": total_bytes}));
    let budget = volumes::budget();
    let weights = [("copy", 1.0)];
    let moved = watch(
        &context.reporter,
        &context.interrupt,
        &control,
        &weights,
        || {
            let resources = TransferResources {
                device: &device,
                budget: &budget,
                watch: Watch {
                    check: &|| control.check(),
                    advance: &|bytes| control.advance(bytes),
                },
            };
            work(&volume, resources, &control)
        },
    )?;
    let summary = Summary {
        read_bytes: moved.bytes,
        written_bytes: moved.bytes,
        passes: 1,
        ..Summary::since(started)
    };
    let seconds = summary.seconds;
    let left_out = &moved.left_out;
    let summary = summary.with("files", json!(moved.files));
    let summary = summary.with("left_out", json!(left_out.count));
    context.reporter.summary(&summary);
    if let Some(first) = &left_out.first {
        let what = match left_out.count {
            1 => "1 socket, pipe or device was".to_string(),
            count => format!("{} sockets, pipes or devices were", units::count(count)),
        };
        let first = first.display();
        context.reporter.note(&format!(
            "{what} left out, since they hold no data: {first}"
        ));
    }
    context.reporter.human(&format!(
        "{} in {} file{}, {}: {}",
        units::bytes(moved.bytes),
        units::count(moved.files),
        if moved.files == 1 { "" } else { "s" },
        units::seconds(seconds),
        rate_text(moved.bytes, seconds)
    ));
    Ok(0)
}

/// Runs `ls`: all that can be read, and then the first error if there was one.
pub(super) fn list(context: &Context, args: &LsArgs) -> Result<u8> {
    let started = Instant::now();
    let volume = open(context, &resources::without_flags()?.device())?;
    tell_absent(context, &volume);
    let mut count = 0;
    let mut damaged = None;
    let mut say = |name: &str, bytes: u64, files: u64, kind: &str, missing: &[&str]| {
        count += 1;
        let fields = json!({
            "name": name, "bytes": bytes, "files": files, "contents": kind,
            "missing_drives": missing,
        });
        context.reporter.event("dataset", fields);
        let size = units::bytes(bytes);
        let needs = match missing {
            [] => String::new(),
            missing => format!("\tneeds {}, missing", missing.join(", ")),
        };
        let line = format!("{name}\t{size}\t{kind}{needs}\n");
        context.reporter.data(&line);
    };
    match &args.name {
        Some(path) => {
            let named = volumes::named(path)?;
            let manifest = volume.manifest(&named.dataset)?;
            let index = transfer::index_of(&volume, &manifest, &volumes::budget())?;
            for entry in index.listed() {
                let (name, kind) = match &entry.kind {
                    EntryKind::File => (entry.text(), "file".to_string()),
                    EntryKind::Directory => (entry.text() + "/", "empty directory".to_string()),
                    EntryKind::Link { target } => {
                        (entry.text(), format!("link to {}", pack::escape(target)))
                    }
                };
                say(&name, entry.len_bytes, 1, &kind, &[]);
            }
        }
        None => {
            for name in volume.names()? {
                let found = match volume.manifest(&name) {
                    Ok(found) => found,
                    Err(error) => {
                        damaged.get_or_insert(error);
                        continue;
                    }
                };
                let (name, bytes) = (format!("@{}", found.name), found.len_bytes);
                let missing = volume.absent_of(&found);
                match found.contents {
                    Contents::File => say(&name, bytes, 1, "file", &missing),
                    Contents::Directory => {
                        let files = match found.files {
                            1 => "1 file in a directory".to_string(),
                            count => units::counted(count, "file"),
                        };
                        say(&name, bytes, found.files, &files, &missing);
                    }
                }
            }
        }
    }
    if let Some(error) = damaged {
        return Err(error);
    }
    let summary = Summary::since(started).with("entries", json!(count));
    context.reporter.summary(&summary);
    Ok(0)
}

/// Runs `rm`.
pub(super) fn remove(context: &Context, args: &RmArgs) -> Result<u8> {
    let started = Instant::now();
    let volume = open(context, &resources::without_flags()?.device())?;
    let names: Result<Vec<_>> = args.names.iter().map(|name| volumes::named(name)).collect();
    let mut freed_bytes = 0;
    for named in names? {
        if let Some(inside) = named.inside {
            let cause = format!("@{}/{inside}: a dataset is sealed", named.dataset);
            return Err(outcore::Error::usage("remove", cause)
                .hint("remove the whole dataset, or put the directory again with --force"));
        }
        freed_bytes += volume.remove(&named.dataset)?;
    }
    let summary = Summary::since(started).with("freed_bytes", json!(freed_bytes));
    context.reporter.summary(&summary);
    let text = format!("{} freed", units::bytes(freed_bytes));
    context.reporter.human(&text);
    tell_orphans(context, &volume.orphans()?);
    Ok(0)
}
