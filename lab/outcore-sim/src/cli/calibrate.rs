//! `sim calibrate`: fits a drive of the simulator to a measured one.
//!
//! Contract: the drive as TOML goes to `-o` (an existing file is overwritten only with `--force`)
//! or to standard output, the table of the fit to standard error. If a figure is off by more than
//! [`OFF_MAX`], the exit code is 1: the drive is written, but it is not the one that was measured.

use std::path::PathBuf;

use clap::Args;
use outcore_io::drive::paths;
use outcore_io::{Error, Result};

use super::json;
use super::run::new_file;
use crate::calibrate::{calibrate, read_targets};
use crate::presets::preset;

/// Largest deviation of a figure for which the exit code is 0.
const OFF_MAX: f64 = 0.1;

/// `sim calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Output of `outcore drives probe`: drives.toml, or its JSON Lines (--json), which fit better;
    /// or the JSON report of `outcore bench io`.
    pub probe: PathBuf,
    /// The name of the drive in that file. Default: the first one.
    #[arg(long)]
    pub drive: Option<String>,
    /// The preset that gives the geometry and the policies.
    #[arg(long, default_value = "p41")]
    pub base: String,
    /// Write the drive to this TOML file, for --ssd.
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Overwrite the TOML file if it exists.
    #[arg(long)]
    pub force: bool,
    /// Print the fit as JSON Lines instead.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(args: &CalibrateArgs) -> Result<u8> {
    let text = paths::read_text("read probe", &args.probe)?;
    let found = read_targets(&text).map_err(|error| error.path(&args.probe))?;
    let chosen = match &args.drive {
        None => found.first(),
        Some(name) => found.iter().find(|targets| targets.name == *name),
    };
    let names: Vec<&str> = found.iter().map(|targets| targets.name.as_str()).collect();
    let targets = chosen.ok_or_else(|| {
        Error::usage("calibrate drive", "there is no measured drive of that name")
            .hint(format!("there are {}", names.join(", ")))
    })?;
    let base = preset(&args.base)?;
    let output = new_file(args.output.as_ref(), args.force)?;
    let fitted = calibrate(&base.scaled(256, 32)?, targets)?;
    for fit in &fitted.fits {
        if args.json {
            say!("{}", json(fit)?);
        } else {
            eprintln!(
                "{:<40} measured {:>14.0}, fitted {:>14.0} ({:+.1} %){}",
                fit.figure,
                fit.target,
                fit.simulated,
                (fit.simulated / fit.target - 1.0) * 100.0,
                if fit.is_held_back { ", held back" } else { "" }
            );
        }
    }
    let is_off = fitted.worst() > OFF_MAX;
    if is_off {
        eprintln!(
            "warning: the fit is off by {:.0} %: another --base may suit the drive better",
            fitted.worst() * 100.0
        );
    }
    let drive = format!(
        "# Fitted to {}: flash.read, flash.program, flash.bus, host.pcie_lane_rate, host.command_interval,\n# host.command_overhead, and the rates of a throttle. All else is of {}, at a fraction of its size.\n{}",
        targets.name,
        args.base,
        fitted.config.to_toml()?
    );
    match output {
        Some(file) => file.write(drive)?,
        None if !args.json => crate::say::text(&drive),
        None => {}
    }
    Ok(u8::from(is_off))
}
