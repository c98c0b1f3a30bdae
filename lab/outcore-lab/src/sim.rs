//! `outcore sim`: the simulator's own command, extended with the engine's sort, which the simulator
//! cannot call.
//!
//! Contract: the cost per record is measured only when a plan asks for it.

use outcore::Result;
use outcore_front::record_cost;
use outcore_sim::cli::SimCommand;
use outcore_sim::plan::cpu::CpuCost;
use outcore_terminal::files::FileNames;
use outcore_terminal::session::Terminal;

/// Runs the subcommand.
pub(crate) fn run(terminal: &Terminal, mut command: SimCommand) -> Result<u8> {
    let input = match &mut command {
        SimCommand::Replay(args) => Some(&mut args.trace),
        SimCommand::Run(args) => args.trace.as_mut(),
        SimCommand::Calibrate(args) => Some(&mut args.probe),
        _ => None,
    };
    if let Some(name) = input {
        *name = terminal.files.copied(name)?.into_owned();
    }
    let measure = |record_bytes| {
        let note = "measuring what a record costs to sort on this machine, a few seconds";
        terminal.reporter.note(note);
        let found = record_cost::measure(record_bytes, &|| terminal.interrupt.check())?;
        Ok(CpuCost {
            distribute_ns: found.distribute_ns,
            sort_ns: found.sort_ns,
        })
    };
    outcore_sim::cli::run(&command, &measure)
}
