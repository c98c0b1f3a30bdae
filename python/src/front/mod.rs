//! From what a caller names to what the engine wants: settings, inputs, formats, outputs.
//!
//! Contract: nothing here knows of Python, and nothing here reads or writes records. The rules and
//! the words are those of the command, so that both refuse the same requests with the same text;
//! what only a command has (streams, standard output) is refused here and says so.

pub(crate) mod format;
pub(crate) mod inputs;
pub(crate) mod means;
pub(crate) mod target;
