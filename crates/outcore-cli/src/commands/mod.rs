//! The subcommands, one file each. Each takes its flags and returns the exit code, or the error
//! that decides on it.
//!
//! Contract: nothing here ends the process, and everything is printed through the
//! [`Reporter`](outcore_terminal::report::Reporter).

pub(crate) mod demo;
pub(crate) mod verb;
