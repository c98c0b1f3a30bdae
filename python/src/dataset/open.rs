//! An opened dataset: that of the engine, and the state that Python's half of the job needs.
//!
//! Contract: files are examined, datasets on volumes are opened, and every step is settled before
//! anything is read. Exceptions of the caller's code are kept.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use outcore::Result;
use outcore::dataset::{Execution, Mode, ResourceProvider};
use outcore_front::dataset::{Allowed, LineFiles, Opened as Files, Request, open};
use outcore_front::inputs::Source;
use outcore_front::resources::Resources;
use outcore_front::staging::Reads;
use outcore_front::text::output::Dress;
use outcore_verbs::sort::step::{LineOrder, LineStep};

use super::said::{Dataset, Raised};
use super::steps::Maker;
use crate::datasets::{Datasets, Use};
use crate::request::{self, recognition};
use crate::run::Run;

/// See the module.
pub(super) struct Opened {
    pub(super) execution: Execution,
    pub(super) resources: Resources,
    /// The given settings.
    asked: request::Resources,
    /// The datasets on volumes among its files.
    pub(super) datasets: Datasets,
    /// The files with the names that the user gave.
    pub(super) sources: Vec<Source>,
    /// The files, if they contain lines.
    pub(super) lines: Option<LineFiles>,
    /// The byte that ends a line.
    pub(super) terminator: u8,
    dress: Arc<Mutex<Dress>>,
    raised: Raised,
}

impl Opened {
    /// Opens the files for `mode`; no step is taken yet.
    pub(super) fn begin(
        mut request: Dataset,
        raised: Raised,
        mode: Mode,
        run: &Run,
    ) -> Result<Self> {
        let zipped = request.zipped.iter_mut().flat_map(|one| &mut one.inputs);
        let read = request.inputs.iter_mut().chain(zipped);
        let how = Use {
            reads: match mode {
                Mode::Types => Reads::Head,
                Mode::Plans | Mode::Run => Reads::ByEngine,
            },
            ..Use::of_engine(false)
        };
        let datasets = Datasets::stage(&request.resources, how, read, [], run)?;
        let resources = datasets.resources(&request.resources, true, run)?;
        let Files {
            dataset,
            sources,
            lines,
        } = open(&what_is_read(&request)?, &resources)?;
        let dress = Arc::default();
        let maker = Maker {
            lines: lines.as_ref(),
            terminator: request.terminator,
            raised: &raised,
            dress: &dress,
        };
        let steps = request.steps.into_iter().map(|step| maker.make(step));
        let steps: Vec<_> = steps.collect::<Result<_>>()?;
        let allowed = allowed(&resources, run);
        Ok(Opened {
            execution: dataset.and(steps).execute(allowed, mode),
            resources,
            asked: request.resources,
            datasets,
            sources,
            lines,
            terminator: request.terminator,
            dress,
            raised,
        })
    }

    /// Names the output, which may be a dataset. Call it before anything is written.
    pub(super) fn stage_output(
        &mut self,
        path: &mut PathBuf,
        force: bool,
        run: &Run,
    ) -> Result<()> {
        self.datasets.output(&self.asked, path, force, run)?;
        self.resources = self.datasets.resources(&self.asked, true, run)?;
        if let Some(lines) = &self.lines {
            lines.set_resources(&self.resources);
        }
        self.execution.set_resources(allowed(&self.resources, run));
        Ok(())
    }

    /// The form of the written lines. CSV is examined, and prepared for the pass.
    pub(super) fn dress(&mut self) -> Result<Dress> {
        self.execution.settle_late()?;
        let dress = self.dress.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(dress.clone())
    }

    /// The store for exceptions of the caller's code.
    pub(super) fn raised(&self) -> Raised {
        self.raised.clone()
    }
}

fn allowed(resources: &Resources, run: &Run) -> Arc<dyn ResourceProvider> {
    Arc::new(Allowed {
        resources: resources.clone(),
        control: Arc::clone(&run.control),
    })
}

fn what_is_read(request: &Dataset) -> Result<Request> {
    if let Some(count) = request.count {
        return Ok(Request::Count(count));
    }
    if request.lines {
        let steps = request.steps.iter();
        let steps = steps.map(|step| step.line_step(request.terminator));
        let steps: Vec<LineStep> = steps.filter_map(Result::transpose).collect::<Result<_>>()?;
        let separator = steps.iter().find_map(|step| step.separator);
        return Ok(Request::Lines {
            inputs: request.inputs.clone(),
            terminator: request.terminator,
            recognition: recognition(request.insists, request.terminator, separator),
            is_json: steps
                .iter()
                .any(|step| matches!(step.order, LineOrder::Json(_))),
        });
    }
    let mut groups = vec![(request.inputs.clone(), request.records.to_request()?)];
    for zipped in &request.zipped {
        groups.push((zipped.inputs.clone(), zipped.records.to_request()?));
    }
    Ok(Request::Records(groups))
}
