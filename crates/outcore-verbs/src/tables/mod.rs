//! Verbs on tables, and the part that they share with verbs that also take other inputs.
//!
//! Contract: [`outcore_front::what`] decides which inputs are tables, and [`crate::kinds`] which
//! options apply to tables. Each verb turns its options into a [`Request`] and calls [`run`], which
//! decides on the names and the format of the output, makes a job, runs the job of
//! [`outcore_table::jobs`], and makes the report, which has the fields of all jobs on tables.
//! Standard input is copied to scratch, where it can be read in parts and more than once. A table
//! on standard output is streamed.
//!
//! | file | holds |
//! |---|---|
//! | [`inputs`] | what is read: kinds, columns, keys, copies |
//! | [`text`] | CSV and JSON lines as tables |
//! | [`outputs`] | names and formats of what is written |
//! | [`request`] | what a verb is asked for |
//! | [`mod@run`] | the run of a job |
//! | [`report`] | the report of a job |
//! | `convert`, `dedup`, `diff`, `group`, `info`, `join`, `window` | the verbs |

pub(crate) mod convert;
pub(crate) mod dedup;
pub(crate) mod diff;
pub(crate) mod group;
pub(crate) mod info;
pub mod inputs;
pub(crate) mod join;
pub mod outputs;
pub mod report;
pub mod request;
pub mod run;
pub mod text;
pub(crate) mod window;

pub(crate) use crate::report::WriteSummary;
pub use inputs::{READ, reads};
pub(crate) use inputs::{check_tables, keys_of, on_bad_row, unpacked};
pub(crate) use outputs::{Outputs, reading};
pub use request::Request;
pub use run::{Ran, run};
pub(crate) use run::{run_to, run_with};
