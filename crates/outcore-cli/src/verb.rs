//! A verb, run from the command line.
//!
//! Contract: its report is the summary event and lines on standard error; the exit code is 1 where
//! a check found what should not be, and that of a closed pipe where the reader of one went away.

use outcore::Result;
use outcore_verbs::verb::{Verb, Words};

use crate::context::Context;
use crate::pipe::{self, CLOSED_PIPE};

/// Runs the verb; gives the exit code.
pub(crate) fn run<V: Verb>(context: &Context, args: &V::Args) -> Result<u8> {
    let told = match V::run(context, args) {
        Ok(told) => told,
        Err(error) if pipe::is_closed_by(&error) => return Ok(CLOSED_PIPE),
        Err(error) => return Err(error),
    };
    let mut words = Words::default();
    V::say(args, &told, &mut words);
    context.reporter.told(&told, &words);
    Ok(u8::from(!V::is_right(&told)))
}
