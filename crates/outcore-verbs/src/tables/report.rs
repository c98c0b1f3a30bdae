//! The report of jobs on tables.
//!
//! Contract: a job on tables reports a [`WriteSummary`], alone or with fields of its own.

use std::path::Path;

use outcore_table::jobs::{self, DedupSummary, DiffSummary, SubstringSummary};

use crate::report::{JobSummary, Moved, Phase, Place, WriteSummary};

/// A result of the engine with the traffic of the job.
pub trait Done {
    /// The summary of the engine.
    fn table(&self) -> &jobs::TableSummary;

    /// The traffic of the job, as every verb counts it.
    fn moved(&self) -> Moved {
        let table = self.table();
        Moved {
            records: table.rows_out,
            read_bytes: table.read_bytes,
            written_bytes: table.written_bytes,
            passes: table.passes,
        }
    }
}

impl Done for jobs::TableSummary {
    fn table(&self) -> &jobs::TableSummary {
        self
    }
}

impl<T> Done for (jobs::TableSummary, T) {
    fn table(&self) -> &jobs::TableSummary {
        &self.0
    }
}

macro_rules! done {
    ($($result:ty),+) => {$(
        impl Done for $result {
            fn table(&self) -> &jobs::TableSummary {
                &self.table
            }
        }
    )+};
}

done!(DedupSummary, SubstringSummary, DiffSummary);

/// The report of the job that wrote `output`, with `notes` on the rows that were left out.
pub(crate) fn summary(
    used: JobSummary,
    output: Option<&Path>,
    data_bytes: u64,
    done: &jobs::TableSummary,
    notes: Vec<String>,
) -> WriteSummary {
    WriteSummary {
        used,
        unit: "row".to_owned(),
        output: output.map(|name| Place(name.to_path_buf())),
        records_in: Some(done.rows_in),
        data_bytes,
        output_bytes: Some(done.lens_bytes.iter().sum()),
        files: done.lens_bytes.len() as u64,
        scratch_bytes: Some(done.scratch_bytes),
        skipped: 0,
        phases: Phase::of_engine(&done.phases),
        plan: None,
        notes,
    }
}
