//! `--explain` of commands that read files once, from front to back, and have no plan of the
//! engine.
//!
//! Contract: before anything is read, [`FilePass::plan`] computes how many bytes will be read and
//! written, and how long the drives take for these transfers. `--explain` shows the plan
//! ([`FilePass::show`]), and [`FilePass::end`] returns the finished phase with its plan. The size
//! of streams and of decompressed files is not known in advance, and the plan says so.

use std::time::Instant;

use outcore::job::Job;
use outcore::primitives::{PassPlan, plan_files};
use outcore::{Forecast, Input, Phase, Result};

use crate::host::Host;

/// One pass over files, planned and timed.
pub(crate) struct FilePass {
    name: &'static str,
    steps: String,
    plan: Option<PassPlan>,
    started: Instant,
}

impl FilePass {
    /// Plans a pass over `files`, whose elements have `element_bytes`. `moved` gives the reads and
    /// writes for the bytes of the files. `files` is `None` if some inputs are streams or
    /// compressed.
    pub(crate) fn plan(
        job: &Job,
        files: Option<&[Input]>,
        element_bytes: usize,
        steps: &str,
        name: &'static str,
        moved: impl Fn(u64) -> (Forecast, Forecast),
    ) -> Result<Self> {
        let plan = match files {
            Some(files) => Some(plan_files(job, files, element_bytes, steps, name, moved)?),
            None => None,
        };
        Ok(FilePass {
            name,
            steps: steps.to_string(),
            plan,
            started: Instant::now(),
        })
    }

    /// Shows the plan.
    pub(crate) fn show(&self, host: &dyn Host) {
        match &self.plan {
            Some(plan) => host.show_plan(plan),
            None => {
                let unknown = "the amount of input is not known in advance";
                host.show_plan(&format!("{}\n  {unknown}", self.steps));
            }
        }
    }

    /// Continues with a planned pass, and shows the plan if the user asked for it. If the user did
    /// not ask, an error of the plan does not count: the files are then read without a plan.
    pub(crate) fn begin(
        planned: Result<Self>,
        name: &'static str,
        host: &dyn Host,
        is_explained: bool,
    ) -> Result<Self> {
        match planned {
            Ok(pass) if is_explained => {
                pass.show(host);
                Ok(pass)
            }
            Err(error) if is_explained => Err(error),
            planned => Ok(planned.unwrap_or_else(|_| FilePass {
                name,
                steps: String::new(),
                plan: None,
                started: Instant::now(),
            })),
        }
    }

    /// The pass is over and moved this many bytes.
    pub(crate) fn end(&self, read_bytes: u64, written_bytes: u64) -> Vec<Phase> {
        let mut phases = vec![Phase {
            name: self.name,
            seconds: self.started.elapsed().as_secs_f64(),
            read_bytes,
            written_bytes,
            predicted: None,
        }];
        if let Some(plan) = &self.plan {
            plan.beside(&mut phases);
        }
        phases
    }
}
