//! A verb, run from the command line.
//!
//! Contract: its report is the summary event and lines on standard error; the exit code is 1 where
//! a check found what should not be.

use outcore::Result;
use outcore_verbs::verb::{Verb, Words};

use crate::context::Context;

/// Runs the verb; gives the exit code.
pub(crate) fn run<V: Verb>(context: &Context, args: &V::Args) -> Result<u8> {
    let told = V::run(context, args)?;
    let mut words = Words::default();
    V::say(args, &told, &mut words);
    context.reporter.told(&told, &words);
    Ok(u8::from(!V::is_right(&told)))
}
