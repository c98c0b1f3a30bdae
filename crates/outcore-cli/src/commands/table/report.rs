//! What a command on tables did, as it is told.
//!
//! Contract: for people a line or a few, for programs the summary of verbs on tables.

use outcore_table::jobs::{self};
use outcore_verbs::tables::{self, Ran, Request};
use outcore_verbs::verb::Words;
use outcore_verbs::wording::{Said, say as say_report};
use serde_json::json;

use crate::context::Context;

/// What a job did.
pub(super) struct Done {
    said: Said<'static>,
    table: jobs::TableSummary,
}

impl tables::report::Done for Done {
    fn table(&self) -> &jobs::TableSummary {
        &self.table
    }
}

impl Done {
    pub(super) fn new(what: &'static str, table: jobs::TableSummary) -> Self {
        Done {
            said: Said::of(what),
            table,
        }
    }
}

/// Says what was done.
pub(super) fn say_done(context: &Context, request: &Request<'_>, ran: Ran<Done>) -> u8 {
    let mut words = Words::default();
    say_report(
        &ran.report,
        &ran.done.said,
        request.is_explained,
        &mut words,
    );
    context.reporter.report(json!(ran.report), &words);
    0
}
