//! The inputs of a view: the files that users name, and the type of their records.
//!
//! Contract: [`ViewSources::of`] decides on the kind of a view's inputs as `outcore sort` does, and
//! [`ViewSources::further`] checks that added data match the view. Streams, and records of CSV that
//! span lines, are copied to scratch. Compressed lines are decompressed to scratch.

use outcore::Input;
use outcore::job::{Job, JobSize, OutputPlaces};
use outcore::key::RecordFormat;
use outcore::read::text_kind::TextKind;
use outcore::runs::{BuildOptions, LineType, ViewSize, ViewType, size_of_lines};
use outcore::{Error, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{self, ResolvedInput, Source, bytes_of};
use outcore_front::output::Target;
use outcore_front::records::{self, TypeRequest};
use outcore_front::resources::Resources;
use outcore_front::spool::{LateSpool, Spool};
use outcore_front::text::order::OrderSpec;
use outcore_front::text::view_files::{self, ViewText};
use outcore_front::what::What;

use super::holds_all;
use super::page::{ViewAppendArgs, ViewBuildArgs};
use crate::host::{Host, watch};
use crate::lines::{self, text_input};
use crate::option::lines::FormatArgs;
use crate::records::open_all;

/// A view has records unless the user asks for lines. Inputs whose type is not known may be lines.
fn or_lines(error: Error) -> Error {
    match (error.operation(), error.next_step()) {
        (records::CHOOSE, Some(hint)) => {
            let hint = format!("{hint}; if they are lines, pass --lines");
            error.hint(hint)
        }
        _ => error,
    }
}

/// Fails for files of text that would be read as numbers: text whose length is a multiple of the
/// record passes every other check.
fn refuse_text(looked: &[ResolvedInput], format: &RecordFormat) -> Result<()> {
    let files = looked.iter().filter(|input| input.npy.is_none());
    let mut files = files.map(|input| &input.source);
    let is_of_text = |source: &&Source| format.scalar().is_some() && records::is_text(source);
    match files.find(is_of_text) {
        Some(file) => Err(Error::usage(
            "add to view",
            format!("this is text, but the view holds {format}"),
        )
        .path(&file.name)
        .hint("add files of records, or build a view of the text")),
        None => Ok(()),
    }
}

/// Files of lines.
struct Lines<'a> {
    sources: &'a [Source],
    beside: &'a Target,
    recognition: Recognition,
}

/// The request for a new view.
pub(super) struct Asked<'a> {
    /// The kind of its inputs.
    pub(super) what: What,
    /// How text is read, according to the kind.
    pub(super) text: &'a FormatArgs,
    /// The target next to which copies are made.
    pub(super) beside: &'a Target,
}

/// The inputs of a new view.
pub(super) struct ViewSources {
    pub(super) what: ViewType,
    pub(super) files: Vec<Input>,
    /// Files of lines with the names that the user gave.
    pub(super) named: Vec<Source>,
    pub(super) data_bytes: u64,
    pub(super) spool: Option<Spool>,
}

impl ViewSources {
    /// The files of a new view.
    pub(super) fn of(
        host: &dyn Host,
        args: &ViewBuildArgs,
        asked: &Asked<'_>,
        resources: &Resources,
        sources: Vec<Source>,
    ) -> Result<Self> {
        let Asked {
            what,
            text: flags,
            beside,
        } = asked;
        if args.unique {
            return Err(holds_all());
        }
        if what.is_text() {
            flags.check(&args.order, args.lines)?;
            let mut spec = OrderSpec {
                by: flags.by.clone(),
                ..args.order.to_spec(args.descending, args.stable)?
            };
            spec.keys.extend(args.record.keys.iter().cloned());
            let is_open = !args.order.is_given() && !flags.is_given() && !args.lines.is_lines();
            if is_open {
                let names: Vec<_> = sources.iter().map(|source| source.name.clone()).collect();
                lines::note_header(host, &names);
            }
            let recognition = args.lines.recognition(args.order.separator()?);
            let recognition = recognition.telling_header(is_open);
            let (terminator, has_header) = (args.lines.terminator(), !flags.no_header);
            let from = Lines {
                sources: &sources,
                beside,
                recognition,
            };
            return ViewSources::lines(host, resources, from, |job, files, spool| {
                let make = || Spool::beside(job, resources, &beside.dir());
                let text = match flags.csv {
                    true => ViewText::Csv { has_header },
                    false => ViewText::Lines { terminator },
                };
                view_files::settle(spec, text, job, files, LateSpool { spool, make })
            });
        }
        let request = args.record.ordered_by(&flags.by)?.to_request();
        let open = || {
            let (looked, spool) = open_all(host, &request, resources, sources, beside)?;
            let decided = records::decide(&request, &looked)?;
            Ok(ViewSources::records(decided.format, &looked, spool))
        };
        open().map_err(or_lines)
    }

    /// The inputs that are added to a view of the kind `what`.
    pub(super) fn further(
        host: &dyn Host,
        args: &ViewAppendArgs,
        resources: &Resources,
        sources: Vec<Source>,
        what: &ViewType,
    ) -> Result<Self> {
        let beside = Target::File(args.dir.clone());
        match what {
            ViewType::Lines(lines) => {
                let recognition = Recognition {
                    insists_lines: args.is_lines,
                    takes_nuls: lines.terminator == 0,
                    takes_packed: false,
                    tells_header: false,
                };
                let from = Lines {
                    sources: &sources,
                    beside: &beside,
                    recognition,
                };
                ViewSources::lines(host, resources, from, |job, files, spool| {
                    let make = || Spool::beside(job, resources, &beside.dir());
                    view_files::settle_further(lines, job, files, LateSpool { spool, make })?;
                    Ok(lines.clone())
                })
            }
            ViewType::Rows(_) => {
                Err(Error::usage("add to view", "it holds a table").hint("a bug: please report it"))
            }
            ViewType::Records(format) => {
                let request = TypeRequest {
                    format: Some(format.clone()),
                    ..TypeRequest::default()
                };
                let (looked, spool) = open_all(host, &request, resources, sources, &beside)?;
                looked
                    .iter()
                    .try_for_each(|input| check_type(input, format))?;
                refuse_text(&looked, format)?;
                Ok(ViewSources::records(format.clone(), &looked, spool))
            }
        }
    }

    /// The sizes that the plan of a view needs.
    pub(super) fn size(&self, job: &Job, options: BuildOptions) -> Result<ViewSize> {
        match &self.what {
            ViewType::Lines(lines) => size_of_lines(job, &self.files, lines, options),
            ViewType::Rows(_) => {
                Err(Error::usage("plan view", "it holds a table").hint("a bug: please report it"))
            }
            ViewType::Records(format) => Ok(ViewSize {
                job: JobSize::of(
                    job,
                    self.data_bytes,
                    job.layout(&[], &OutputPlaces::Scratch),
                ),
                record_bytes: format.record_bytes(),
                is_scalar: options.order.sorts_scalars(format),
                lines: None,
                keeps_runs: options.keeps_runs,
                run_bytes: options.run_bytes,
            }),
        }
    }

    fn records(format: RecordFormat, looked: &[ResolvedInput], spool: Option<Spool>) -> Self {
        ViewSources {
            what: ViewType::Records(format),
            files: looked.iter().map(ResolvedInput::to_sort).collect(),
            named: Vec::new(),
            data_bytes: looked.iter().map(|input| input.data_bytes).sum(),
            spool,
        }
    }

    /// Files of lines, which `settle` examines; an input that is not a regular file is copied.
    fn lines(
        host: &dyn Host,
        resources: &Resources,
        from: Lines<'_>,
        settle: impl FnOnce(&Job, &mut [Source], &mut Option<Spool>) -> Result<LineType>,
    ) -> Result<Self> {
        let (mut named, mut spool) = lines::to_files(
            host,
            resources,
            from.sources,
            from.beside,
            Some(from.recognition),
        )?;
        let job = host.adopt(resources.job(Vec::new()));
        let settled = watch(host, &job.control, &[], || {
            settle(&job, &mut named, &mut spool)
        });
        let what = settled.map_err(|error| inputs::explain(&named, error))?;
        Ok(ViewSources {
            what: what.into(),
            files: named.iter().map(text_input).collect(),
            data_bytes: bytes_of(&named)?,
            named,
            spool,
        })
    }
}

/// Fails if a file holds other data than the view: a table, text, or a NumPy array of other
/// records. If the key is the whole record, the header must have the same type. Otherwise the key
/// is at positions in a record, and only the size of the records must be the same.
fn check_type(input: &ResolvedInput, format: &RecordFormat) -> Result<()> {
    let name = &input.source.name;
    let refused = |cause: String| Error::usage("append to view", cause).path(name);
    let text = || {
        let kind = TextKind::of_name(name).filter(|_| input.content.is_text());
        kind.map(|kind| What::rows(kind).plural())
    };
    if let Some(other) = input.content.other_than_records(name).or_else(text) {
        let cause = format!("the file is {other}, but the view has {format}");
        return Err(refused(cause).hint("append records of the view's type"));
    }
    let Some(header) = &input.npy else {
        return format
            .records_in(input.data_bytes)
            .map(drop)
            .map_err(|error| {
                let hint = format!("append records of the view's type, {format}");
                refused(error.cause().to_owned()).hint(hint)
            });
    };
    let is_whole = matches!(format.keys(), [key] if key.len_bytes == format.record_bytes());
    let is_same = match is_whole {
        true => header.format == *format,
        false => header.format.record_bytes() == format.record_bytes(),
    };
    if is_same {
        return Ok(());
    }
    let cause = format!(
        "its header says {}, but the view has {format}",
        header.format
    );
    Err(refused(cause).hint("build another view for records of another type"))
}
