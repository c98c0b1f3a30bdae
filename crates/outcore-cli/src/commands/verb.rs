//! Verbs of `outcore-verbs`.
//!
//! Contract: a verb's report becomes the summary event and lines on standard error, once its
//! results are stored as datasets and objects. The exit code is 1 if a check failed, that of the
//! error in a report if there is one, and that of a closed pipe if its reader went away.

use outcore::Result;

use crate::cli::verb::VerbCommand;
use crate::context::Context;
use crate::pipe::{self, CLOSED_PIPE};

/// Runs the verb; returns the exit code.
pub(crate) fn run(context: &Context, verb: &VerbCommand) -> Result<u8> {
    match verb.run(context) {
        Ok(answer) => {
            let is_done = answer.is_right && answer.fault.is_none();
            if is_done && !context.reporter.recorder().has_failed() {
                context.files.finish()?;
            }
            context.reporter.report(answer.report, &answer.words);
            match answer.fault {
                Some(fault) => Err(fault),
                None => Ok(u8::from(!answer.is_right)),
            }
        }
        Err(error) if pipe::is_closed_by(&error) => Ok(CLOSED_PIPE),
        Err(error) => Err(error),
    }
}
