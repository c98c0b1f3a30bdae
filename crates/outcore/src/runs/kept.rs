//! Builds a view in steps, so that a killed run continues.
//!
//! Contract: [`build_kept`] sorts the input into runs as [`super::build`] does, a few runs per
//! step. The view grows in the private directory of a [`KeptPasses`]: each step publishes its runs
//! and the manifest there, all or none. Before that, the journal gets a [`Step`]: how many runs the
//! view then has, and where the next one begins in the input. So a run that continues knows how far
//! the view has come, whenever the run before was killed. At the end the directory gets the name of
//! the view by one rename.
//!
//! Limits: the input is files that can be read again, the runs are in the view's own directory, and
//! a reader can merge all of them without a merge before. A step is long enough that its beginning
//! and its end, in which not all areas are in use, take a small part of its time. A killed run
//! repeats one step.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::SortedView;
use super::build::{From, Request, finish, orders_of};
use super::built::{BuildSummary, Built};
use super::manifest::{self, Manifest, NAME};
use super::step::{EndStep, Place, StepEnd};
use super::types::{BuildOptions, ViewType};
use crate::ends::{Input, open_inputs};
use crate::job::Job;
use crate::partition::restored::Identity;
use crate::passes::KeptPasses;
use crate::states::GIVE_UP;
use outcore_io::drive::{Access, paths};
use outcore_io::journal::Progress;
use outcore_io::port::Volume;
use outcore_io::{Error, Result};

/// The end of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Step {
    /// The view's id.
    view: String,
    /// The number of its runs after the step.
    runs_count: u64,
    /// The number of their records.
    records: u64,
    /// Where the next run begins.
    next: Place,
}

/// Builds a view of `inputs` as [`super::build`] does, in the directory that `kept` has for it, or
/// continues the build of a killed run. Then the view gets its name, which no file may have.
///
/// # Errors
/// The errors of [`super::build`] and of [`KeptPasses::publish_folder`]. Usage: the view exists, or
/// has too many runs. Corrupt: the journal is damaged.
pub fn build_kept(
    job: &Job,
    kept: &KeptPasses,
    inputs: &[Input],
    what: impl Into<ViewType>,
    options: BuildOptions,
) -> Result<(SortedView, BuildSummary)> {
    let what = what.into();
    if let ViewType::Records(format) = &what {
        format.check_order()?;
    }
    if !job.options.drives.is_empty() {
        let cause = "only a view whose runs are in its own directory can be resumed";
        return Err(Error::usage("resume", cause).hint("name no drives, or keep no journal"));
    }
    let building = Building {
        job,
        kept,
        dir: kept.result(),
        inputs,
        what: &what,
        options: BuildOptions {
            replace: true,
            keeps_runs: false,
            ..options
        },
        steps: RefCell::new(kept.notes()?),
    };
    if let Some(remark) = kept.states().take_remark() {
        job.control.note(remark);
    }
    let built = match building.published()? {
        Some(built) => built,
        None => building.run()?,
    };
    let kept_dir = kept.publish_folder()?;
    let view = finish(job, kept.output(), built, &orders_of(&what));
    drop(kept_dir);
    view
}

struct Building<'a> {
    job: &'a Job,
    kept: &'a KeptPasses,
    /// The directory in which the view grows.
    dir: PathBuf,
    inputs: &'a [Input],
    what: &'a ViewType,
    options: BuildOptions,
    /// The ends of steps in the journal.
    steps: RefCell<Vec<Step>>,
}

impl Building<'_> {
    /// The end of a job whose killed run has given the view its name: only a plan is missing.
    fn published(&self) -> Result<Option<Built>> {
        let output = self.kept.output();
        let Some(view) = Manifest::look(self.job, output)? else {
            return match output.exists() {
                true => Err(Error::usage("build view", "it exists already")
                    .path(output)
                    .hint("name another directory, or remove it first")),
                false => Ok(None),
            };
        };
        let is_its = |step: &Step| view.is_called(&step.view);
        if !self.steps.borrow().iter().any(is_its) || self.dir.join(NAME).exists() {
            return Err(Error::usage("build view", "the view exists already")
                .path(output.join(NAME))
                .hint("name another directory, or remove it first"));
        }
        let what = "the killed run had put its view in place; nothing is left to do";
        self.job.control.note(what.to_owned());
        let request = self.request(self.inputs, None, None);
        request.planned(self.job, self.what).map(Some)
    }

    /// Takes the steps that are left.
    fn run(&self) -> Result<Built> {
        let dir = &self.dir;
        self.kept.make_result_folder()?;
        let first = self.identity()?;
        let mut whole: Option<Built> = None;
        loop {
            // Each step opens the inputs again.
            if let Some(difference) = first.difference(&self.identity()?, None) {
                let cause = format!("an input changed while it was read: {difference}");
                return Err(Error::corrupt("read input", cause).hint(GIVE_UP));
            }
            let old = manifest::tidy(self.job, dir)?;
            let place = self.place_after(old.as_ref())?;
            let rest = place.rest_of(self.inputs);
            if old.is_some() && rest.is_empty() {
                break;
            }
            let shape = old
                .as_ref()
                .map(|old| old.shape(&dir.join(NAME), &orders_of(self.what)));
            let end_step = |end: StepEnd| self.end_step(place, end);
            let request = self.request(&rest, old.as_ref(), Some(&end_step));
            let built = request.run(self.job, self.what, shape.transpose()?)?;
            whole = Some(match whole {
                Some(before) => before.and(built),
                None => built,
            });
        }
        match whole {
            Some(built) => Ok(built),
            // A killed run had finished the last step.
            None => self
                .request(self.inputs, None, None)
                .planned(self.job, self.what),
        }
    }

    /// Which files the inputs are.
    fn identity(&self) -> Result<Identity> {
        let volume = Volume::new(Arc::clone(&self.job.device), &[])?;
        let parts = open_inputs(&volume, self.inputs, 1, Access::Read)?;
        parts.iter().for_each(|part| volume.close(&part.file));
        Ok(Identity::of(&parts, Vec::new()))
    }

    /// A step that sorts `rest` after the view `old`.
    fn request<'r>(
        &'r self,
        rest: &'r [Input],
        old: Option<&'r Manifest>,
        end_step: Option<EndStep<'r>>,
    ) -> Request<'r> {
        Request {
            from: From::Files(rest),
            dir: &self.dir,
            options: self.options,
            old,
            appends: old.is_some(),
            end_step,
        }
    }

    /// The place at which the run after those of `view` begins.
    fn place_after(&self, view: Option<&Manifest>) -> Result<Place> {
        let Some(view) = view else {
            return Ok(Place::first(self.inputs));
        };
        let steps = self.steps.borrow();
        let mut steps = steps.iter().rev();
        // Another run may have noted a step with as many runs of other lengths.
        let is_its = |step: &&Step| {
            view.is_called(&step.view)
                && view.runs.len() as u64 == step.runs_count
                && view.records == step.records
        };
        let cause = "the journal of the killed job is damaged: it does not say how far the view is";
        let damaged = || Error::corrupt("resume", cause).hint(GIVE_UP);
        steps.find(is_its).map(|step| step.next).ok_or_else(damaged)
    }

    /// Records the end of a step that began at `from`.
    fn end_step(&self, from: Place, end: StepEnd) -> Result<()> {
        let step = Step {
            view: end.view,
            runs_count: end.runs_count,
            records: end.records,
            next: end.next.map_or(
                Place {
                    file: self.inputs.len(),
                    at_bytes: 0,
                },
                |next| Place {
                    file: from.file + next.file,
                    ..next
                },
            ),
        };
        self.kept.note(&step, self.progress(step.next))?;
        self.steps.borrow_mut().push(step);
        Ok(())
    }

    /// How far the job is at a place.
    fn progress(&self, place: Place) -> Progress {
        let mut progress = Progress::default();
        for (file, input) in self.inputs.iter().enumerate() {
            let len_bytes = match input.data_bytes {
                Some(len_bytes) => len_bytes,
                None => paths::facts(&input.path)
                    .map_or(0, |facts| facts.len().saturating_sub(input.header_bytes)),
            };
            progress.total_bytes += len_bytes;
            progress.done_bytes += match file.cmp(&place.file) {
                Ordering::Less => len_bytes,
                Ordering::Equal => place.at_bytes.saturating_sub(input.header_bytes),
                Ordering::Greater => 0,
            };
        }
        progress
    }
}
