//! Tables: what commands for several kinds of input do with Parquet and Arrow.
//!
//! Contract: each command turns its flags into a request of [`outcore_verbs::tables`], and reports
//! as the verbs do.

mod report;
mod view;

use outcore_verbs::tables::{READ, Request, keys_of, reads, text};

pub(crate) use view::{view_append, view_build, view_cat, view_materialize, view_order};
