//! `gen` of tables for experiments.
//!
//! Contract: the bytes depend only on the kind of table, the number of rows, the seed and the
//! format.

use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use outcore::{Error, Result};
use outcore_front::inputs::is_stdout;
use outcore_front::output::check_is_file_name;
use outcore_front::resources::Resources;
use outcore_gen::{Sample, SampleKind};
use outcore_table::input::{TextOptions, check_local};
use outcore_table::jobs::{self, MakeRows};
use outcore_table::output::{Codec, OutputOptions, TableFormat};

use super::{GenArgs, GenFormat};
use crate::host::Host;
use crate::option::tables::TableArgs;
use crate::report::WriteSummary;
use crate::tables::Request;
use crate::tables::outputs::{Outputs, outputs_of};
use crate::tables::run::run_with;

/// Endings of the names of plain text files.
const LINE_ENDINGS: [&str; 2] = ["txt", "log"];

/// Writes a table of a kind.
///
/// # Errors
/// Usage; the errors of writing.
pub(super) fn generate(
    host: &dyn Host,
    args: &GenArgs,
    kind: SampleKind,
    resources: Resources,
) -> Result<WriteSummary> {
    check(args, kind)?;
    if writes_lines(args, kind) && !kind.has_lines() {
        let cause = format!("{kind} have no form as lines of text");
        return Err(Error::usage("generate", cause)
            .hint("let the output end in .csv, .jsonl, .parquet or .arrow"));
    }
    let tables = TableArgs {
        parts: args.parts,
        codec: args.codec.clone(),
        to: args.to.and_then(GenFormat::of_table),
        ..TableArgs::default()
    };
    let text = TextOptions::default();
    let request = Request {
        inputs: &[],
        output: Some(&args.output),
        tables: &tables,
        force: args.force,
        replace: false,
        keeps_journal: false,
        record_io: &args.record_io,
        is_explained: args.explain,
        text: &text,
    };
    let are_lines = writes_lines(args, kind);
    let outputs = match are_lines {
        true => lines_of(host, args)?,
        false => outputs_of(host, &request)?,
    };
    let maker = Maker {
        sample: Sample::new(kind, args.seed, args.records)?,
        rows_count: args.records,
        lines: are_lines.then(Sample::lines_schema),
    };
    let ran = run_with(host, &request, resources, outputs, |job, ends| {
        jobs::make(job, &maker, ends.outputs, ends.writes)
    })?;
    Ok(ran.report)
}

/// Fails for options that only records take.
fn check(args: &GenArgs, kind: SampleKind) -> Result<()> {
    let given = [
        (args.distribution.is_some(), "--dist"),
        (args.ascii, "--ascii"),
        (args.skewed, "--skewed"),
        (args.first.is_some(), "--first"),
        (!args.drives.drives.is_empty(), "--drive"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => {
            let cause = format!("{option} is for records, but {kind} is a table");
            Err(Error::usage("generate", cause).hint(format!("leave {option} out")))
        }
        None => Ok(()),
    }
}

/// Whether the output is lines of text.
pub(super) fn writes_lines(args: &GenArgs, kind: SampleKind) -> bool {
    match (is_stdout(&args.output), args.to) {
        (true, None) => kind.has_lines(),
        (true, to) => to == Some(GenFormat::Text),
        (false, _) => has_line_ending(&args.output),
    }
}

fn has_line_ending(name: &Path) -> bool {
    let ending = name.extension().and_then(|ending| ending.to_str());
    match ending {
        Some("gz" | "zst") => has_line_ending(Path::new(name.file_stem().unwrap_or_default())),
        Some(ending) => LINE_ENDINGS.contains(&ending),
        None => false,
    }
}

/// The output if it is lines.
fn lines_of(host: &dyn Host, args: &GenArgs) -> Result<Outputs> {
    let wrong = |cause: &str, hint: &str| {
        let error = Error::usage("generate", cause);
        Err(error.path(&args.output).hint(hint))
    };
    let name = if is_stdout(&args.output) {
        PathBuf::from("-")
    } else {
        if args.to.is_some() {
            return wrong(
                "--to is the format of standard output, but the output is a file",
                "leave --to out, since the name already selects the format, or leave -o out",
            );
        }
        check_local("create output", &args.output)?;
        check_is_file_name("create output", &args.output)?;
        host.names().output(&args.output, args.force)?.into_owned()
    };
    if args.parts.is_some() {
        return wrong(
            "--parts writes a directory of Parquet files, but this is text",
            "name a directory, or leave --parts out",
        );
    }
    let codec = args.codec.as_deref().map(Codec::parse).transpose()?;
    let writes = OutputOptions::new(TableFormat::Lines).named(&name, codec)?;
    Ok(Outputs {
        files: vec![name],
        writes,
    })
}

/// The rows of a sample, or its lines.
struct Maker {
    sample: Sample,
    rows_count: u64,
    lines: Option<SchemaRef>,
}

impl MakeRows for Maker {
    fn schema(&self) -> &SchemaRef {
        self.lines.as_ref().unwrap_or(self.sample.schema())
    }

    fn rows_count(&self) -> u64 {
        self.rows_count
    }

    fn row_bytes(&self) -> u64 {
        self.sample.row_bytes()
    }

    fn rows(&self, numbers: Range<u64>) -> Result<RecordBatch> {
        match self.lines {
            None => self.sample.batch(numbers),
            Some(_) => {
                let lines = self.sample.lines(numbers)?;
                lines.ok_or_else(|| Error::usage("generate", "it has no form as lines"))
            }
        }
    }
}
