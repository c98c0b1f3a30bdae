//! `sort`: lines, records or rows in the order of their keys.
//!
//! Contract: settings come first; then the kind of the input decides which module sorts it. Text
//! that is not a table is sorted as lines, with the options of GNU sort and its output. Inputs with
//! a type are records, and Parquet and Arrow are tables. A failure leaves nothing behind.

mod consumed;
mod lines;
mod page;
pub(crate) mod records;
pub mod step;
#[cfg(feature = "tables")]
mod table;

use std::path::PathBuf;

use outcore::Result;
use outcore_front::inputs::{self, Source};
use outcore_front::resources::Resources;
use outcore_front::what::{Asked, What};
use outcore_io::drive::paths;
use outcore_io::units;

pub(crate) use page::{SortArgs, SortSummary};

use crate::host::{Host, Weight};
use crate::lines::note_header;
use crate::option::lines::FormatArgs;
use crate::option::{SEED, resources_request};
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say, say_checksum};

/// The verb.
pub(crate) struct Sort;

impl Verb for Sort {
    const NAME: &'static str = "sort";
    const INPUTS: Inputs = Inputs::Any;
    type Args = SortArgs;
    type Report = SortSummary;
    const PHASES: &'static [Weight] = &records::WEIGHTS;

    fn run(host: &dyn Host, args: &SortArgs) -> Result<SortSummary> {
        let resources = resources_of(host, args)?;
        let what = what_is_sorted(host, args)?;
        if what.is_table() {
            #[cfg(feature = "tables")]
            return table::sort(host, args, resources);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        if what.is_text() {
            let found = match what {
                What::Lines => found(host, args)?,
                _ => Some(None),
            };
            if let Some(found) = found {
                let mut text = args.text.clone();
                text.settle(what);
                note_csv(host, args, &text);
                return lines::sort(host, args, &text, resources, found);
            }
            host.given().applies_to(What::Array)?;
        }
        records::sort(host, args, resources)
    }

    fn say(args: &SortArgs, report: &SortSummary, words: &mut Words) {
        if args.dry_run {
            return;
        }
        match report.is_sorted {
            None => say_sorted(args, report, words),
            Some(_) if report.wrote.unit != "record" => {
                say(&report.wrote, &Said::of("checked"), false, words);
            }
            Some(is_sorted) => {
                if is_sorted {
                    let records = units::counted(report.wrote.used.records, "record");
                    words.lines(&format!("{records} in order"));
                }
                words.detail(&report.wrote.used.read_text());
                words.phases(&report.wrote.phases, false);
            }
        }
    }

    fn headline(report: &SortSummary) -> String {
        headline(&report.wrote, &Said::of("sorted"))
    }

    fn takes_stdout(args: &SortArgs) -> bool {
        // Without a name, lines go to standard output.
        let output = args.output.as_deref();
        let is_stdout = output.map_or(!args.is_check(), inputs::is_stdout);
        is_stdout && !args.replace && !args.dry_run
    }

    fn is_right(report: &SortSummary) -> bool {
        report.is_sorted != Some(false)
    }
}

/// Reports what was sorted.
fn say_sorted(args: &SortArgs, report: &SortSummary, words: &mut Words) {
    let wrote = &report.wrote;
    let what = match (&*wrote.unit, args.unique, args.gnu.merge) {
        ("row", true, _) => "kept",
        ("line" | "read", _, true) => "merged",
        _ => "sorted",
    };
    let mut said = Said::of(what);
    if wrote.unit == "record" {
        said.notes = records::notes(args, wrote);
    }
    say(wrote, &said, args.explain, words);
    if wrote.unit == "record" {
        words.are_for_watchers = false;
        records::details(wrote, words);
    }
    say_checksum(report.checksum.as_deref(), words);
}

/// The settings; GNU sort's names for some of them have the same meaning.
fn resources_of(host: &dyn Host, args: &SortArgs) -> Result<Resources> {
    let mut flags = args.job.resources.clone();
    flags.memory_bytes = flags.memory_bytes.or(args.gnu.buffer_bytes);
    flags.threads = flags.threads.or(args.gnu.parallel);
    let mut drives = args.job.drives.clone();
    // GNU sort opens temporary directories only when it needs them, and most sorts need none.
    let dirs = args.gnu.temporary_dirs.iter();
    let dirs = dirs.filter(|dir| !host.is_gnu() || dir.is_dir());
    drives.drives.extend(dirs.cloned());
    let seed = args.seed.unwrap_or(SEED);
    let request = resources_request(&flags, &drives, args.job.scratch.limit_bytes, seed)?;
    let resources = host.load(&request)?.for_data(bytes_of_files(&args.inputs));
    Ok(resources.measuring(args.explain || args.dry_run))
}

/// Bytes of the inputs, if all of them are files.
fn bytes_of_files(inputs: &[PathBuf]) -> Option<u64> {
    let bytes = inputs.iter().map(|input| {
        let metadata = paths::facts(input).ok()?;
        metadata.is_file().then_some(metadata.len())
    });
    let bytes: Option<u64> = bytes.sum();
    bytes.filter(|_| !inputs.is_empty())
}

/// The kind of the input; rejects options that do not apply to it.
fn what_is_sorted(host: &dyn Host, args: &SortArgs) -> Result<What> {
    let is_typed = args.record.is_typed();
    let flags = args.text.text_flags(args.order.separator()?);
    let mut keys = args.record.keys.iter();
    let has_record_key = !args.text.is_given() && keys.any(|key| key.contains(':'));
    let asked = Asked {
        inputs: &args.inputs,
        output: args.output.as_deref(),
        is_records: is_typed || has_record_key,
        is_lines: args.lines.is_lines(),
        text: flags.kind(),
        is_table: args.tables.is_given(),
        piped: args.tables.piped(),
        by: &args.text.by,
        is_text_order: args.order.is_of_lines(),
    };
    let what = match host.is_gnu() && !is_typed {
        // For GNU sort everything is lines, whatever the name is.
        true => flags.kind().map_or(What::Lines, What::rows),
        false => host.what(asked)?,
    };
    let is_told_by_name = flags.kind().is_none() && args.text.by.is_empty();
    let what = match what {
        // Without a column, GNU sort's rules apply.
        What::Csv | What::JsonLines if is_told_by_name => What::Lines,
        What::Records => args.record.kind_of(what),
        what => what,
    };
    host.check_options(what, asked)?;
    Ok(what)
}

/// Notes that the header of CSV is an ordinary line, for users who sort lines without naming an
/// order.
fn note_csv(host: &dyn Host, args: &SortArgs, text: &FormatArgs) {
    let is_said = lines::has_said_lines(args, text) || args.is_check();
    if !host.is_gnu() && !is_said {
        note_header(host, &args.inputs);
    }
}

/// The inputs, if they had to be examined; nothing if one of them is a NumPy array after all.
fn found(host: &dyn Host, args: &SortArgs) -> Result<Option<Option<Vec<Source>>>> {
    let is_said = args.lines.is_lines() || args.order.is_given() || args.gnu.is_given();
    if host.is_gnu() || is_said || args.lines.zero_terminated || args.inputs.is_empty() {
        return Ok(Some(None));
    }
    let mut sources = inputs::find(&args.inputs, host.streams(), host.names())?;
    for source in sources.iter_mut().filter(|source| !source.is_stream()) {
        let input = inputs::look(source.clone())?;
        if input.npy.is_some() {
            return Ok(None);
        }
        *source = input.source;
    }
    Ok(Some(Some(sources)))
}
