//! `outcore demo`: generates data larger than memory, sorts and verifies them, and reports the
//! speed.
//!
//! Contract: everything happens in one private directory inside `--dir`, which is removed at the
//! end, also after a failure. The drive's own speed is measured just before and just after the sort
//! (see [`crate::floor`]); the sort is compared with twice the mean.

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::Summary as Done;
use outcore::job::Job;
use outcore::key::{CheckOptions, RecordFormat};
use outcore::sort::{self, SortOptions, SortSummary};
use outcore::verify::{VerifyReport, checksum_of, verify};
use outcore::{Error, Kind, Result};
use outcore::{Input, Output};
use outcore_front::cost::bandwidth_fraction;
use outcore_front::resources::{Resources, check_dir, free_bytes};
use outcore_gen::{GenerateOptions, GenerateRequest, Generator, generate};
use outcore_io::units;
use serde_json::json;

use crate::cli::{DemoArgs, ResourceArgs};
use crate::context::Context;
use crate::floor::{self, Floor};
use crate::measure::{Summary, rate_text};
use crate::progress::watch;
use crate::resources;
use outcore_verbs::host::Weight;

/// The records of the demo.
const TYPE: &str = "u64";
const RECORD_BYTES: u64 = 8;
/// Input, scratch and output exist at the same time for a while.
const ROOM_FACTOR: u64 = 3;

struct Demo<'a> {
    context: &'a Context,
    resources: Resources,
    format: RecordFormat,
    records: u64,
    input: PathBuf,
    output: PathBuf,
    copy: PathBuf,
}

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &DemoArgs) -> Result<u8> {
    let started = Instant::now();
    let flags = ResourceArgs {
        memory_bytes: Some(args.memory_bytes),
        threads: args.threads,
        io: args.io,
    };
    let resources = resources::without_drives(&flags)?;
    check_dir("run demo", &args.dir)?;
    check_room(&args.dir, args.data_bytes)?;
    let records = args.data_bytes / RECORD_BYTES;
    context.reporter.event(
        "begin",
        json!({
            "dir": args.dir.display().to_string(),
            "type": TYPE,
            "records": records,
            "data_bytes": records * RECORD_BYTES,
            "memory_bytes": args.memory_bytes,
            "threads": resources.config.threads.value,
        }),
    );
    say(
        context,
        "demo",
        &format!(
            "{} of random {TYPE} in {} of memory, in {}",
            units::bytes(records * RECORD_BYTES),
            units::bytes(args.memory_bytes),
            args.dir.display()
        ),
    );
    let device = resources.job(Vec::new()).device;
    device.sweep_private_dirs(&args.dir)?;
    let private_dir = device.make_private_dir(&args.dir)?;
    let demo = Demo {
        context,
        resources,
        format: RecordFormat::parse_type(TYPE)?,
        records,
        input: private_dir.path().join("input.bin"),
        output: private_dir.path().join("sorted.bin"),
        copy: private_dir.path().join("copy.bin"),
    };
    demo.run(started)?;
    Ok(0)
}

impl Demo<'_> {
    fn run(&self, started: Instant) -> Result<()> {
        let made = self.generate()?;
        let before = self.measure()?;
        let sorted = self.sort()?;
        let after = self.measure()?;
        self.verify()?;
        let seconds_once = (before.seconds + after.seconds) / 2.0;
        let remove_seconds = (before.remove_seconds + after.remove_seconds) / 2.0;
        let floor_seconds = 2.0 * seconds_once + remove_seconds;
        let ratio = sorted.seconds / floor_seconds.max(1e-9);
        let data_bytes = self.records * RECORD_BYTES;
        say(
            self.context,
            "drive",
            &format!(
                "reads and writes the same amount at the same time in {}: {} in each direction",
                units::seconds(seconds_once),
                rate_text(data_bytes, seconds_once)
            ),
        );
        say(
            self.context,
            "floor",
            &format!(
                "{}, which is twice the time of the drive and {} to remove scratch: the sort took {ratio:.2} times the floor",
                units::seconds(floor_seconds),
                units::seconds(remove_seconds),
            ),
        );
        if !before.is_direct {
            let note = "this file system has no direct I/O: the page cache was measured too";
            self.context.reporter.note(note);
        }
        let traffic = sorted.drives.clone();
        let set = &self.resources.config.drives.value;
        let summary = Summary {
            records: self.records,
            seconds: started.elapsed().as_secs_f64(),
            read_bytes: sorted.read_bytes,
            written_bytes: sorted.written_bytes,
            passes: sorted.passes,
            bandwidth_fraction: bandwidth_fraction(&traffic, sorted.seconds, set),
            ..Summary::default()
        };
        let summary = summary
            .with("generate_seconds", json!(made.seconds))
            .with("sort_seconds", json!(sorted.seconds))
            .with("floor_seconds", json!(floor_seconds))
            .with("floor_ratio", json!(ratio))
            .with("is_direct", json!(before.is_direct));
        self.context.reporter.summary(&summary);
        Ok(())
    }

    fn generate(&self) -> Result<Done> {
        let job = self.resources.job(Vec::new());
        let options = GenerateOptions {
            seed: 1,
            records: self.records,
            ..GenerateOptions::default()
        };
        let request = GenerateRequest {
            generator: Generator::new(&self.format, options)?,
            records: self.records,
            output: Output::File {
                path: self.input.clone(),
                header: None,
            },
            replace: false,
        };
        let made = self.watch(&job, &[("generate", 1.0)], || generate(&job, &request))?;
        let text = format!(
            "{} in {}: {}",
            units::counted(made.records, "record"),
            units::seconds(made.seconds),
            rate_text(made.written_bytes, made.seconds)
        );
        say(self.context, "generated", &text);
        Ok(made)
    }

    fn sort(&self) -> Result<SortSummary> {
        let job = self.resources.job(Vec::new());
        let output = Output::File {
            path: self.output.clone(),
            header: None,
        };
        let inputs = [Input::raw(&self.input)];
        let weights = [("distribute", 1.0), ("sort", 1.0)];
        let sorted = self.watch(&job, &weights, || {
            sort::sort(&job, &inputs, output, &self.format, SortOptions::default())
        })?;
        let text = format!(
            "in {}: {}; read {}, wrote {} in {}",
            units::seconds(sorted.seconds),
            rate_text(self.records * RECORD_BYTES, sorted.seconds),
            units::bytes(sorted.read_bytes),
            units::bytes(sorted.written_bytes),
            units::counted(sorted.passes.into(), "pass")
        );
        say(self.context, "sorted", &text);
        Ok(sorted)
    }

    fn measure(&self) -> Result<Floor> {
        let job = self.resources.job(Vec::new());
        self.watch(&job, &[("measure", 1.0)], || {
            floor::measure(&job, &self.input, &self.copy)
        })
    }

    fn verify(&self) -> Result<()> {
        let look = |path: &Path, is_sorted: bool| -> Result<VerifyReport> {
            let job = self.resources.job(Vec::new());
            let files = [Input::raw(path)];
            self.watch(&job, &[("verify", 1.0)], || match is_sorted {
                true => verify(&job, &files, &self.format, CheckOptions::default()),
                false => checksum_of(&job, &files, &self.format),
            })
        };
        let sorted = look(&self.output, true)?;
        let input = look(&self.input, false)?;
        if !sorted.check.is_ordered() || !sorted.check.has_records_of(&input.check) {
            let cause = "the output is not the sorted input";
            return Err(Error::new(Kind::CheckFailed, "verify demo", cause)
                .hint("a bug, or a drive or memory that loses bits: please report it"));
        }
        let text = format!(
            "in {}: in order, with all records of the input",
            units::seconds(sorted.seconds + input.seconds)
        );
        say(self.context, "verified", &text);
        Ok(())
    }

    fn watch<T>(
        &self,
        job: &Job,
        weights: &[Weight],
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let (reporter, interrupt) = (&self.context.reporter, &self.context.interrupt);
        watch(reporter, interrupt, &job.control, weights, work)
    }
}

fn check_room(dir: &Path, data_bytes: u64) -> Result<()> {
    let free_bytes = free_bytes(dir)?;
    let needed_bytes = data_bytes.saturating_mul(ROOM_FACTOR);
    if free_bytes >= needed_bytes {
        return Ok(());
    }
    let cause = format!(
        "{} are needed for a while, but only {} are free",
        units::bytes(needed_bytes),
        units::bytes(free_bytes)
    );
    Err(Error::new(Kind::NoSpace, "run demo", cause)
        .path(dir)
        .hint("give a smaller --size, or --dir on another drive"))
}

/// One line of the output.
fn say(context: &Context, what: &str, text: &str) {
    context.reporter.result(&format!("{what:<10} {text}\n"));
}
