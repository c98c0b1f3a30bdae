//! The subcommands, one file each. Each takes its flags and gives the exit code, or the error that
//! decides it.
//!
//! Contract: nothing here ends the process or prints past the [`Reporter`](crate::report::Reporter).

pub(crate) mod bench;
pub(crate) mod config;
mod consumed;
pub(crate) mod demo;
pub(crate) mod docs;
pub(crate) mod drives;
pub(crate) mod generate;
pub(crate) mod head;
pub(crate) mod replay;
pub(crate) mod scratch;
pub(crate) mod sequence;
pub(crate) mod shuffle;
pub(crate) mod sim;
pub(crate) mod sort;
mod sort_lines;
pub(crate) mod split;
pub(crate) mod store;
pub(crate) mod unique;
pub(crate) mod verify;
pub(crate) mod volume;

use std::path::PathBuf;
pub(crate) mod view;

use crate::report::Reporter;
use crate::signals::Interrupt;

/// What every subcommand gets.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Drives file of the volume, if one is named.
    pub(crate) volume: Option<PathBuf>,
    /// How it talks.
    pub(crate) reporter: Reporter,
    /// Whether the user asked to stop.
    pub(crate) interrupt: Interrupt,
}
