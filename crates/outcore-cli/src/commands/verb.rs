//! Verbs of `outcore-verbs`.
//!
//! Contract: a verb's results are stored as datasets and objects, unless its report has an error.
//! Then the report becomes the summary event and lines on standard error. The exit code is 1 if a
//! check failed. If the report has an error, the exit code is that of the error. If the reader of a
//! pipe went away, it is that of a closed pipe.

use outcore::Result;

use crate::cli::verb::VerbCommand;
use crate::context::Context;
use crate::pipe::{self, CLOSED_PIPE};

/// Runs the verb; returns the exit code.
pub(crate) fn run(context: &Context, verb: &VerbCommand) -> Result<u8> {
    match verb.run(context) {
        Ok(answer) => {
            if answer.fault.is_none() {
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
