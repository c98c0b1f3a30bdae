//! Output to a pipe, a terminal or another kind of standard output.
//!
//! Contract: as [`outcore_front::streams`], with errors that name the stream. If the reader went
//! away, the command ends without a message.

use std::path::Path;
use std::sync::Arc;

use outcore::job::Control;
use outcore::{Error, Result};
use outcore_front::output::Sink;
use outcore_front::streams::PipeWriter;

pub(crate) use outcore_terminal::stdout::CLOSED_PIPE;

/// The pipe at `path`, or standard output.
pub(crate) fn open(path: Option<&Path>, control: &Arc<Control>) -> Result<Sink> {
    let stop = Arc::clone(control);
    let check = move || stop.check();
    let opened = match path {
        Some(path) => PipeWriter::open(path, check),
        None => PipeWriter::standard_output(check),
    };
    let name = path.unwrap_or(Path::new("standard output"));
    let failed = |error| Error::io("open output", &error).path(name);
    match opened {
        Ok(writer) => Ok(Box::new(writer)),
        Err(error) => Err(control.check().err().unwrap_or(failed(error))),
    }
}

pub(crate) use outcore_verbs::host::is_closed as is_closed_by;
