//! The passes of a dataset as text, with the plan of the first one.
//!
//! Contract: reads only headers and a sample. The results of earlier passes do not exist yet, so
//! later passes have no plan.

use super::Items;
use super::execution::{Execution, grouping};
use super::step::Step;
use crate::primitives::group::plan_group;
use crate::primitives::producer::Producer;
use crate::primitives::rearrange::plan_merge;
use crate::primitives::scan::plan_scan;
use crate::primitives::write::{Fate, plan_of};
use crate::primitives::{PassPlan, plan_merge_of_lines};
use crate::sort::lines::{plan_lines, sample_lines};
use outcore_io::Result;

impl Execution {
    /// The item type after all steps (its name and size; empty for lines), and the steps.
    ///
    /// # Errors
    /// The errors of [`Execution::take_all_steps`].
    pub fn describe(&mut self) -> Result<(String, usize, String)> {
        self.take_all_steps()?;
        let steps = self.steps_text();
        Ok(match &self.items {
            Items::Records(records) => {
                let format = records.table.format();
                (format.to_string(), format.record_bytes(), steps)
            }
            Items::Lines { .. } => ("lines".to_string(), 0, steps),
        })
    }

    /// The passes up to `consumer` as text, with the plan of the first one.
    ///
    /// # Errors
    /// The errors of [`Execution::take_steps`]; too little memory.
    pub fn explain(&mut self, consumer: &str) -> Result<String> {
        self.take_steps()?;
        let before = self.passes.join("\n");
        let last = match (&self.ending, &self.items) {
            (Some(ending), _) => self.plan_of(ending)?,
            (None, Items::Lines { .. }) => format!("read lines -> {consumer}"),
            (None, Items::Records(records)) if !before.is_empty() => {
                format!("{} -> {consumer}", Producer::steps(&records.table))
            }
            (None, Items::Records(records)) => {
                plan_of(&self.job()?, &records.table, consumer, &[Fate::Open])?.to_string()
            }
        };
        Ok(match before.is_empty() {
            true => last,
            false => format!("{before}\n{last}"),
        })
    }

    /// The plan of the next pass, into `outs` files: for a step that needs all items, if one is
    /// left, otherwise for the steps that end with `consumer`.
    ///
    /// # Errors
    /// The errors of [`plan_of`].
    pub fn plan(&self, consumer: &str, fates: &[Fate], outs: usize) -> Result<PassPlan> {
        let (job, table) = (self.job()?, self.table()?);
        match &self.ending {
            Some(Step::Scan(..)) => plan_scan(&job, table, outs),
            Some(Step::Merge { .. }) => plan_merge(&job, table),
            _ => plan_of(&job, table, consumer, fates),
        }
    }

    /// Steps as text.
    fn steps_text(&self) -> String {
        let mut texts = self.passes.clone();
        texts.push(self.what());
        texts.join(", then ")
    }

    fn what(&self) -> String {
        match &self.items {
            Items::Records(records) => Producer::steps(&records.table),
            Items::Lines { .. } => "read lines".to_string(),
        }
    }

    /// The plan of a step; a short description if the step reads the results of other steps.
    pub(super) fn plan_of(&self, ending: &Step) -> Result<String> {
        let text = self.text_of(ending);
        let is_refined = match &self.items {
            Items::Records(records) => records.is_refined,
            Items::Lines { source, .. } => source.is_packed(),
        };
        if !self.passes.is_empty() || is_refined && ending.reads_files() {
            return Ok(text);
        }
        let plan = match ending {
            Step::Sort { by, options } => {
                let format = match by {
                    Some(by) => &by.format,
                    None => self.table()?.format(),
                };
                self.settle_sort(None, format, *options)?.1.to_string()
            }
            Step::SortLines {
                merges: true,
                options,
                ..
            } => {
                let plan = plan_merge_of_lines(&self.job()?, &self.files(), options.unique)?;
                return Ok(plan.to_string());
            }
            Step::SortLines { order, options, .. } => {
                let size = sample_lines(&self.job()?, &self.files(), order.as_ref(), *options)?;
                plan_lines(size)?.to_string()
            }
            Step::Shuffle { .. } => self.settle_shuffle(None, self.unit())?.1.to_string(),
            Step::Unique | Step::Count { .. } => {
                let (job, table) = (self.job()?, self.table()?);
                return Ok(plan_group(
                    &job,
                    table,
                    table.format(),
                    grouping(ending),
                    how_of(ending),
                )?
                .to_string());
            }
            Step::Reverse | Step::Scan(..) | Step::Merge { .. } => {
                return Ok(self.plan(how_of(ending), &[Fate::Written], 1)?.to_string());
            }
            // The step's columns are known only after all files have been examined.
            _ => return Ok(text),
        };
        Ok(format!("{text}\n{plan}"))
    }

    pub(super) fn text_of(&self, ending: &Step) -> String {
        format!("{} -> {}", self.what(), how_of(ending))
    }
}

/// A short description of a step.
fn how_of(ending: &Step) -> &'static str {
    match ending {
        Step::Sort { options, .. } if options.unique => "sort, one per key",
        Step::Sort { .. } => "sort",
        Step::SortLines {
            options, merges, ..
        } => match (merges, options.unique, options.count) {
            (_, _, true) => "count each",
            (false, false, _) => "sort",
            (false, true, _) => "sort, one per key",
            (true, false, _) => "merge",
            (true, true, _) => "merge, one per key",
        },
        Step::Late(step) => step.text(),
        Step::Shuffle { .. } => "shuffle",
        Step::Unique => "unique",
        Step::Count { .. } => "count each",
        Step::Scan(..) => "scan",
        Step::Filter(_) => "filter",
        Step::Map(_) => "map",
        Step::Call { .. } => "function",
        Step::FlatMap(_) => "flat_map",
        Step::Enumerate { .. } => "enumerate",
        Step::Windows(_) => "windows",
        Step::Reverse => "reverse",
        Step::Merge { .. } => "merge",
    }
}
