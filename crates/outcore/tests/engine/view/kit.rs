//! Views for tests, on drives in memory.
//!
//! Contract: a [`Case`] defines a sort. The view is in [`DIR`], further runs are on `/d1` and up,
//! its input is in `/d0/in`, and additions are in `/d0/more`.

use std::path::Path;
use std::sync::Arc;

use outcore::Input;
use outcore::Result;
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::RecordFormat;
use outcore::runs::{BuildOptions, BuildSummary, SortedView, ViewOrder, append, build};
use outcore::sort::SortOptions;
use outcore_io::drive::Device;
use outcore_io::drive::testing::{RamDevice, RamOptions};

use crate::support::oracle;
use crate::support::patterns::{Payload, Values, fill};

/// The directory of the view.
pub(crate) const DIR: &str = "/d0/view";

/// A view to test.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) format: RecordFormat,
    pub(crate) order: ViewOrder,
    pub(crate) values: Values,
    pub(crate) payload: Payload,
    pub(crate) records: usize,
    /// Wanted number of runs.
    pub(crate) runs: usize,
    pub(crate) drives: usize,
    pub(crate) threads: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) keeps_runs: bool,
    pub(crate) seed: u64,
}

impl Case {
    /// A case of `format` with moderate sizes.
    pub(crate) fn of(format: &str, records: usize, runs: usize) -> Self {
        Case {
            format: RecordFormat::parse_type(format).unwrap(),
            order: ViewOrder::default(),
            values: Values::Uniform,
            payload: Payload::Random,
            records,
            runs,
            drives: 1,
            threads: 1,
            memory_bytes: 64 << 20,
            keeps_runs: false,
            seed: 5,
        }
    }

    /// The data.
    pub(crate) fn input(&self) -> Vec<u8> {
        fill(
            &self.format,
            self.values,
            self.payload,
            self.seed,
            self.records,
        )
    }

    /// The data, sorted.
    pub(crate) fn sorted(&self, input: &[u8]) -> Vec<u8> {
        let options = SortOptions {
            descending: self.order.descending,
            stable: self.order.stable,
            ..SortOptions::default()
        };
        oracle::sorted(input, &self.format, options)
    }

    /// How the view is built.
    pub(crate) fn options(&self) -> BuildOptions {
        let run_bytes = self.records.div_ceil(self.runs.max(1)) * self.format.record_bytes();
        BuildOptions {
            order: self.order,
            replace: false,
            keeps_runs: self.keeps_runs,
            run_bytes: Some(run_bytes.max(1) as u64),
        }
    }

    /// Drives in memory.
    pub(crate) fn ram(&self) -> RamDevice {
        RamDevice::new(RamOptions {
            seed: self.seed,
            ..RamOptions::default()
        })
    }

    /// A job on a device.
    pub(crate) fn job(&self, device: Arc<dyn Device>) -> Job {
        job_on(device, self.drives, self.threads, self.memory_bytes)
    }

    /// Builds the view of `/d0/in`.
    pub(crate) fn build(&self, job: &Job) -> Result<(SortedView, BuildSummary)> {
        let input = [Input::raw("/d0/in")];
        build(job, &input, Path::new(DIR), &self.format, self.options())
    }

    /// Adds `/d0/more`.
    pub(crate) fn append(&self, job: &Job) -> Result<(SortedView, BuildSummary)> {
        let input = [Input::raw("/d0/more")];
        append(job, &input, Path::new(DIR), self.options())
    }
}

/// All bytes, from one reader from front to back.
pub(crate) fn read_all(view: &SortedView) -> Vec<u8> {
    let mut reader = view.reader(view.reader_bytes(1)).unwrap();
    reader.seek(0..view.len()).unwrap();
    let mut all = vec![0; view.len_bytes() as usize];
    let mut done = 0;
    while done < all.len() {
        let step = (all.len() - done).min(10_000.max(view.unit_bytes()));
        done += reader.read(&mut all[done..done + step]).unwrap();
    }
    assert_eq!(reader.read(&mut [0; 100]).unwrap(), 0);
    all
}

/// A job on a device, with scratch next to the view on the first drive.
pub(super) fn job_on(
    device: Arc<dyn Device>,
    drives: usize,
    threads: usize,
    memory_bytes: u64,
) -> Job {
    let drives = (0..drives).map(|drive| match drive {
        0 => ScratchDrive::new(DIR),
        drive => ScratchDrive::new(format!("/d{drive}")),
    });
    let options = JobOptions {
        memory_bytes,
        threads,
        drives: drives.collect(),
        ..JobOptions::default()
    };
    Job::on(options, device)
}
