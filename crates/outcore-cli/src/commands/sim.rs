//! `outcore sim`: the simulator's own command, with the engine's sort for what it cannot reach.
//!
//! Contract: what a record costs is measured where a plan asks for it, and nowhere else.

use outcore::Result;
use outcore_front::record_cost;
use outcore_sim::cli::SimCommand;
use outcore_sim::plan::cpu::CpuCost;

use crate::context::Context;

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &mut SimCommand) -> Result<u8> {
    let input = match command {
        SimCommand::Replay(args) => Some(&mut args.trace),
        SimCommand::Run(args) => args.trace.as_mut(),
        SimCommand::Calibrate(args) => Some(&mut args.probe),
        _ => None,
    };
    if let Some(name) = input {
        *name = context.files.copied(name)?.into_owned();
    }
    let measure = |record_bytes| {
        let note = "measuring what a record costs to sort on this machine, a few seconds";
        context.reporter.note(note);
        let found = record_cost::measure(record_bytes, &|| context.interrupt.check())?;
        Ok(CpuCost {
            distribute_ns: found.distribute_ns,
            sort_ns: found.sort_ns,
        })
    };
    outcore_sim::cli::run(command, Some(&measure))
}
