//! `shuffle`: lines, records or rows in a uniformly random order.
//!
//! Contract: a given type, or a NumPy array, means records, and columns mean a table; all else is
//! lines, or records of CSV after their header. The order comes from [`outcore::shuffle`] and
//! depends only on seed, epoch and input.

mod page;
#[cfg(feature = "tables")]
mod table;

use outcore::job::{ItemHash, JobSize, OutputPlaces};
use outcore::primitives::PartTotals;
use outcore::read::sample::random;
use outcore::shuffle::{ShuffleOptions, ShuffleSize, Unit, plan_shuffle, shuffle};
use outcore::{Input, Output, Result};
use outcore_front::inputs::{ResolvedInput, look, refuse_streams};
use outcore_front::output::{Consent, Target, check_room, header_for, loses_header};
use outcore_front::records;
use outcore_front::resources::Resources;
use outcore_front::text::csv_files::Look;
use outcore_front::text::fastq_files::{self, RECORD_END};
use outcore_front::text::output::{Dress, Pending, PlainFor};
use outcore_front::text::sample::choose_in_random_order;
use outcore_front::what::Asked;
use serde_json::json;

use page::{ShuffleArgs, ShuffleSummary};

use crate::host::{Host, Weight};
use crate::lines::{LineDone, LineJob, LineRequest, Overwrite, find, format_beside, what_is_moved};
use crate::option::lines::Rows;
use crate::option::{checksum_text, plain_for};
use crate::pass::{LinePass, PassRequest, Taken};
use crate::report::{Phase, Plan, WriteSummary};
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say, say_checksum};

/// The verb.
pub(crate) struct Shuffle;

/// The verb in the report.
const SAID: Said<'static> = Said::of("shuffled");

impl Verb for Shuffle {
    const NAME: &'static str = "shuffle";
    const INPUTS: Inputs = Inputs::Any;
    type Args = ShuffleArgs;
    type Report = ShuffleSummary;
    const PHASES: &'static [Weight] = &[("distribute", 1.0), ("shuffle", 1.0)];

    fn run(host: &dyn Host, args: &ShuffleArgs) -> Result<ShuffleSummary> {
        let request = args.job.request(args.seed)?;
        let resources = host.load(&request)?;
        let resources = resources.measuring(args.explain || args.dry_run);
        let flags = args.rows.text_flags()?;
        let asked = Asked {
            inputs: &args.files.inputs,
            output: args.files.output.as_deref(),
            is_records: args.record.is_typed(),
            is_lines: args.lines.is_lines(),
            text: flags.kind(),
            is_table: args.tables.is_given() || !args.by.is_empty() || host.kept_table().is_some(),
            piped: args.tables.piped(),
            ..Asked::default()
        };
        let what = what_is_moved(host, asked, args.lines)?;
        let (wrote, totals) = match what.is_table() {
            #[cfg(feature = "tables")]
            true => (table::shuffle(host, args, resources)?, None),
            #[cfg(not(feature = "tables"))]
            true => return Err(crate::verb::without_tables()),
            false => {
                let mut rows = args.rows.clone();
                rows.settle(what);
                match args.records {
                    Some(count) => (shuffle_some(host, args, rows.to_rows()?, count)?, None),
                    None => shuffle_files(host, args, &rows.to_rows()?, resources)?,
                }
            }
        };
        Ok(ShuffleSummary {
            wrote,
            seed: args.seed,
            epoch: args.epoch,
            checksum: totals.map(checksum_text),
        })
    }

    fn say(args: &ShuffleArgs, report: &ShuffleSummary, words: &mut Words) {
        if !args.dry_run {
            say(&report.wrote, &SAID, args.explain, words);
            say_checksum(report.checksum.as_deref(), words);
        }
    }

    fn headline(report: &ShuffleSummary) -> String {
        headline(&report.wrote, &SAID)
    }

    fn takes_stdout(args: &ShuffleArgs) -> bool {
        args.files.is_to_stdout() && !args.dry_run
    }
}

/// Some lines or records in a random order.
fn shuffle_some(
    host: &dyn Host,
    args: &ShuffleArgs,
    rows: Rows,
    count: u64,
) -> Result<WriteSummary> {
    let pass = LinePass::prepare(
        host,
        PassRequest {
            files: &args.files,
            record: &args.record,
            lines: args.lines,
            rows,
            header: args.header.rule(),
            memory_bytes: args.job.resources.memory_bytes,
            record_io: &args.job.record_io,
            name: Shuffle::NAME,
            taken: Taken::Chosen(count),
            is_explained: args.explain,
        },
    )?;
    let (end, limit_bytes) = (pass.end(), pass.memory_bytes());
    let seed = match args.epoch {
        0 => args.seed,
        epoch => random(args.seed, epoch),
    };
    pass.run(host, |reader, writer, _| {
        let kept = choose_in_random_order(reader, count, seed, limit_bytes)?;
        for record in &kept {
            writer.put(record)?;
            writer.put(end.as_slice())?;
        }
        Ok(kept.len() as u64)
    })
}

/// The input and the output of a shuffle.
struct Prepared {
    unit: Unit,
    hash: ItemHash,
    inputs: Vec<Input>,
    output: Output,
    pending: Option<Pending>,
    what: String,
}

/// Shuffles lines or records.
fn shuffle_files(
    host: &dyn Host,
    args: &ShuffleArgs,
    rows: &Rows,
    resources: Resources,
) -> Result<(WriteSummary, Option<PartTotals>)> {
    let plain_for = plain_for(args.journal, args.check_output);
    let types = args.record.to_request_without_keys();
    let is_open = matches!(rows, Rows::Lines) && !args.header.is_given();
    let recognition = args.lines.recognition(rows.separator());
    let recognition = recognition.telling_header(is_open);
    let sources = find(host, &args.files.inputs)?;
    if args.dry_run {
        refuse_streams(&sources, "plan shuffle")?;
    }
    let has_type = format_beside(host, rows, &types, &sources, recognition)?.is_some();
    let request = LineRequest {
        inputs: &args.files.inputs,
        output: args.files.output.as_deref(),
        overwrite: Overwrite::of_consent(Consent {
            force: args.files.force,
            replace: args.replace,
        }),
        record_io: &args.job.record_io,
        force: args.files.force,
        takes_records: has_type,
        frames_fastq: matches!(rows, Rows::Fastq),
        plain_for,
        recognition,
    };
    let is_resumed = args.journal.resume;
    let unit = if has_type { "record" } else { rows.unit() };
    let mut job = LineJob::prepare(host, resources, &request)?;
    let prepared = match has_type {
        true => prepare_records(host, args, &job)?,
        false => prepare_lines(host, args, rows, &mut job)?,
    };
    if args.explain || args.dry_run {
        let plan = plan_shuffle(size_of(&job, prepared.unit))?;
        if args.dry_run {
            host.print_plan(&plan, json!(Plan::of(&plan, &plan)));
            return Ok((job.report(host, unit, LineDone::default())?, None));
        }
        host.show_plan(&plan);
    }
    let options = ShuffleOptions {
        unit: prepared.unit,
        seed: args.seed,
        epoch: args.epoch,
        replace: job.replace,
    };
    let header = &args.header;
    job.keep_plain(host, plain_for, || {
        Ok(format!("{}, {header:?}", prepared.what))
    })?;
    job.job.options.sums_items = args.sums.checksum.then_some(prepared.hash);
    job.begin(
        host,
        json!({"type": prepared.what, "seed": args.seed, "epoch": args.epoch}),
    );
    let done = job.watch(host, || {
        let done = shuffle(&job.job, &prepared.inputs, prepared.output, options);
        match prepared.pending {
            Some(pending) => pending.finish(done),
            None => done,
        }
    });
    let resuming = job.resuming(is_resumed);
    let done = done.map_err(|error| resuming.explain(host, error))?;
    let totals = done.totals;
    let done = LineDone {
        records: done.records,
        records_in: Some(done.records),
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        scratch_bytes: done.scratch_bytes,
        passes: 1 + done.plan.distributions,
        drives: done.drives.clone(),
        phases: Phase::of_engine(&done.phases),
        plan: Some(Plan::of(&done.plan, &done.plan)),
        ..LineDone::default()
    };
    Ok((job.report(host, unit, done)?, totals))
}

fn prepare_lines(
    host: &dyn Host,
    args: &ShuffleArgs,
    rows: &Rows,
    job: &mut LineJob,
) -> Result<Prepared> {
    let (terminator, dress) = match rows {
        Rows::Csv(csv) => {
            let csv = job.settle_csv(host, csv, Look::Whole)?;
            (csv.terminator(), csv.dress)
        }
        Rows::Json => {
            job.settle_json()?;
            (args.lines.terminator(), Dress::default())
        }
        Rows::Fastq => (RECORD_END, fastq_files::dress()),
        Rows::Lines => {
            let terminator = args.lines.terminator();
            let header = job.settle_header(host, &args.header.rule(), terminator)?;
            let dress = Dress {
                header,
                ..Dress::default()
            };
            (terminator, dress)
        }
    };
    let (output, pending) = match plain_for(args.journal, args.check_output) {
        Some(plain_for) => job.open_file(&dress, plain_for)?,
        None => job.open_output(host, &dress)?,
    };
    Ok(Prepared {
        hash: ItemHash::Usual,
        unit: Unit::Lines {
            terminator,
            drops_blanks: matches!(rows, Rows::Json),
        },
        inputs: job.inputs(),
        output,
        pending: Some(pending),
        what: rows.plural().to_string(),
    })
}

fn prepare_records(host: &dyn Host, args: &ShuffleArgs, job: &LineJob) -> Result<Prepared> {
    let inputs: Result<Vec<ResolvedInput>> = job.files.iter().cloned().map(look).collect();
    let inputs = inputs?;
    let decided = records::decide(&args.record.to_request_without_keys(), &inputs)?;
    // A killed job has reserved the room.
    if !job.resuming(args.journal.resume).is_continued() {
        check_room(
            job.resources.device().as_ref(),
            &job.target,
            inputs.iter().map(|input| input.data_bytes).sum(),
        )?;
    }
    let header = header_for(&job.target, &inputs, &decided)?;
    if let Some(lost) = loses_header(&job.target, &inputs, header.as_ref()) {
        host.note(&lost);
    }
    if args.check_output.verify_output && matches!(job.target, Target::Pipe(_)) {
        return Err(PlainFor::VerifyOutput.not_one_file());
    }
    let open = |path: Option<&std::path::Path>| host.open_pipe(path, &job.job.control);
    Ok(Prepared {
        unit: Unit::Records {
            record_bytes: decided.format.record_bytes(),
        },
        hash: match decided.format.is_gensort() {
            true => ItemHash::Gensort,
            false => ItemHash::Usual,
        },
        inputs: inputs.iter().map(ResolvedInput::to_sort).collect(),
        output: job.target.to_sort(header, open)?,
        pending: None,
        what: decided.format.to_string(),
    })
}

fn size_of(job: &LineJob, unit: Unit) -> ShuffleSize {
    let layout = job.job.layout(&[], &OutputPlaces::Unknown);
    let can_spread = matches!(unit, Unit::Records { .. });
    ShuffleSize {
        job: JobSize::of(
            &job.job,
            job.data_bytes,
            layout.of_spreadable_output(can_spread),
        ),
        record_bytes: match unit {
            Unit::Records { record_bytes } => Some(record_bytes),
            Unit::Lines { .. } => None,
        },
        longest_bytes: None,
    }
}
