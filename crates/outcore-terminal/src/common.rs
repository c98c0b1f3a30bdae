//! The flags of every command.
//!
//! Contract: only definitions; [`Common::of_words`] reads the flags that an error about other
//! arguments needs.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// Flags of every command.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Print JSON Lines (begin, progress, summary, error; see docs/json.md): on standard output,
    /// or on standard error if standard output carries data
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        display_order = 900,
        help_heading = "Messages"
    )]
    pub json: bool,
    /// Print errors only
    #[arg(
        short,
        long,
        global = true,
        hide_short_help = true,
        display_order = 901,
        help_heading = "Messages",
        conflicts_with = "verbose"
    )]
    pub quiet: bool,
    /// Print more: settings, phases and drives
    #[arg(
        short,
        long,
        global = true,
        hide_short_help = true,
        display_order = 902,
        help_heading = "Messages"
    )]
    pub verbose: bool,
    /// Drives file of the volume that holds the datasets (@NAME), as written by `outcore drives
    /// probe`
    #[arg(
        long,
        global = true, hide_short_help = true,
        display_order = 899,
        help_heading = "Volume",
        value_name = "FILE",
        env = outcore_front::volumes::VOLUME_VARIABLE,
        value_hint = ValueHint::FilePath
    )]
    pub volume: Option<PathBuf>,
    /// When to use colours
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        display_order = 903,
        help_heading = "Messages",
        value_name = "WHEN",
        value_enum,
        default_value = "auto"
    )]
    pub color: ColorWhen,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Common {
    /// The flags that matter for an error about arguments that could not be read.
    pub fn of_words(words: &[OsString]) -> Self {
        let mut flags = words.iter().take_while(|word| *word != "--");
        Common {
            json: flags.any(|word| word == "--json"),
            quiet: false,
            verbose: false,
            volume: None,
            color: ColorWhen::Auto,
        }
    }
}
