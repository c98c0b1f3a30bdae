//! What every subcommand gets from its caller.
//!
//! Contract: made once from the flags, and passed down; nothing here is global.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::Result;
use outcore::job::Job;
use outcore::read::text_kind::TextKind;
use outcore_front::output::Target;
use outcore_front::resources::{Resources, is_in_memory};
use outcore_front::what::{Asked, What};

use crate::cli::RecordingArgs;
use crate::cli::kinds::Given;
use crate::datasets::Files;
use crate::recorder::Kept;
use crate::report::Reporter;
use crate::signals::Interrupt;

/// What every subcommand gets.
#[derive(Clone)]
pub(crate) struct Context {
    /// Drives file of the volume, if one is named.
    pub(crate) volume: Option<PathBuf>,
    /// The options on the command line.
    pub(crate) given: Arc<Given>,
    /// What names of files mean.
    pub(crate) files: Files,
    /// How it talks.
    pub(crate) reporter: Reporter,
    /// Whether the user asked to stop.
    pub(crate) interrupt: Interrupt,
}

impl Context {
    /// What the run works with, once it has said all that it reads and writes: datasets are among
    /// the files of the device, and its I/O is recorded if that is wanted.
    ///
    /// # Errors
    /// The volume cannot be opened; a trace that must not be written; more inputs than the memory
    /// has room for.
    pub(crate) fn start(
        &self,
        resources: Resources,
        record_io: &RecordingArgs,
        kept: Kept<'_>,
    ) -> Result<Resources> {
        resources.expect(kept.sources);
        let resources = resources.holding_inputs(kept.sources.len())?;
        let resources = self.files.add_to(resources)?;
        let trace = record_io
            .path()
            .map(|name| self.files.output(name, kept.force));
        let trace = trace.transpose()?;
        self.reporter
            .recorder()
            .start(resources, trace.as_deref(), kept)
    }

    /// The kind of the input that `asked` describes.
    ///
    /// # Errors
    /// As [`Asked::what`].
    pub(crate) fn what(&self, asked: Asked<'_>) -> Result<What> {
        asked.what(&self.files)
    }

    /// Whether the inputs are Parquet or Arrow.
    ///
    /// # Errors
    /// As [`Asked::what`].
    pub(crate) fn is_table(&self, inputs: &[PathBuf]) -> Result<bool> {
        let asked = Asked {
            inputs,
            ..Asked::default()
        };
        Ok(self.what(asked)? == What::Table)
    }

    /// Fails for an option that is not for inputs of this kind, as which `asked` was answered.
    ///
    /// # Errors
    /// Usage, with the option's name.
    pub(crate) fn check_options(&self, what: What, asked: Asked<'_>) -> Result<()> {
        let mut kinds = vec![what];
        if what.is_table() {
            // Tables of several formats are one input.
            let further = asked.inputs.iter().skip(1);
            kinds.extend(further.map(|name| {
                let kind = asked.text.or_else(|| TextKind::of_name(name));
                kind.map_or(What::Table, What::table_of)
            }));
        }
        self.given.applies_to_one_of(&kinds)
    }

    /// Says where scratch goes if that is neither a drive that was named nor beside the output.
    pub(crate) fn note_scratch(&self, resources: &Resources, target: &Target, job: &Job) {
        if let ([], [drive]) = (resources.specs(), job.options.drives.as_slice()) {
            let beside = target.dir();
            let cause = match is_in_memory(&beside) {
                true => "is in memory",
                false => "is not writable",
            };
            self.reporter.note(&format!(
                "scratch goes to {}, since {} {cause}; name another place with --drive",
                drive.dir.display(),
                beside.display()
            ));
        }
    }
}
