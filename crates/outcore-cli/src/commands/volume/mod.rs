//! `outcore volume`: directories on many drives as one place for datasets.
//!
//! Contract: [`datasets`] moves data in and out, and [`state`] makes and checks the volume.

mod datasets;
mod state;

use outcore::Result;

use crate::cli::volume::VolumeCommand;
use crate::context::Context;

/// Runs the subcommand; gives its exit code.
pub(crate) fn run(context: &Context, command: &VolumeCommand) -> Result<u8> {
    match command {
        VolumeCommand::Create { stripe_bytes } => state::create(context, *stripe_bytes),
        VolumeCommand::Status => state::status(context),
        VolumeCommand::Scrub {
            names,
            remove_orphans,
        } => state::scrub(context, names, *remove_orphans),
        VolumeCommand::Put(args) => datasets::put(context, args),
        VolumeCommand::Get(args) => datasets::get(context, args),
        VolumeCommand::Ls(args) => datasets::list(context, args),
        VolumeCommand::Rm(args) => datasets::remove(context, args),
        VolumeCommand::Cp(args) => datasets::copy(context, args),
    }
}
