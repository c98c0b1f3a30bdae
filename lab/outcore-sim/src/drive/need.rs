//! Computes the memory that the model of a drive takes, before any of it is allocated.
//!
//! Contract: [`check`] rejects drives that do not fit into the machine's memory. The error gives
//! the amount, the free memory, and a size that fits. The tables of the model grow only with the
//! flash ([`super`] has the bytes per mapping unit); filling also holds lists of units. Memory that
//! grows with the operations in flight is not counted.

use std::mem::size_of;

use outcore_io::units::{bytes, bytes_exact};
use outcore_io::{Error, Kind, Result};

use super::blocks::Block;
use super::params::Params;
use crate::config::DriveConfig;

/// Bytes per unit, a number of four bytes, in a list that grows by doubling.
const LIST_BYTES: u64 = 8;

/// How much is simulated at the same time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtOnce {
    /// Number of drives with tables of their own.
    pub(crate) drives: u64,
    /// Number of drives that are filled at the same moment.
    pub(crate) filling: u64,
}

impl AtOnce {
    /// One drive, filled if its configuration says so.
    pub(crate) fn one(config: &DriveConfig) -> Self {
        AtOnce {
            drives: 1,
            filling: u64::from(config.precondition),
        }
    }
}

/// Bytes of the tables of one drive, and of the lists that filling it needs.
fn bytes_of(p: &Params) -> (u64, u64) {
    let blocks = u64::from(p.plane_count) * u64::from(p.blocks);
    let slots = blocks * u64::from(p.pages) * u64::from(p.slots);
    let units = (slots as f64 * (1.0 - p.over_provisioning)) as u64;
    let written_bytes = match p.unit_sectors {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => 8,
    };
    let reverse_bytes = slots * 4 + slots / 8;
    let tables_bytes =
        blocks * size_of::<Block>() as u64 + reverse_bytes + units * (4 + written_bytes);
    (tables_bytes, units * LIST_BYTES)
}

/// Rejects simulations for which this machine has too little memory.
///
/// # Errors
/// Out of memory, with the needed and the free amount.
pub(crate) fn check(config: &DriveConfig, at_once: AtOnce) -> Result<()> {
    match outcore_io::config::free_memory_bytes() {
        Some(free_bytes) => check_in(config, at_once, free_bytes),
        None => Ok(()),
    }
}

fn check_in(config: &DriveConfig, at_once: AtOnce, free_bytes: u64) -> Result<()> {
    config.validate()?;
    let (tables_bytes, lists_bytes) = bytes_of(&Params::new(config, 1));
    let need_bytes = tables_bytes
        .saturating_mul(at_once.drives)
        .saturating_add(lists_bytes.saturating_mul(at_once.filling));
    if need_bytes <= free_bytes {
        return Ok(());
    }
    let flash_bytes = config.physical_bytes();
    let drives = match at_once.drives {
        1 => "the drive".to_owned(),
        drives => format!("{drives} drives"),
    };
    let cause = format!(
        "{drives} of {} would take {} of memory, but only {} are free",
        bytes(flash_bytes),
        bytes(need_bytes),
        bytes(free_bytes)
    );
    let share = free_bytes as f64 * 0.9 / need_bytes as f64;
    let fitting_bytes = (share * flash_bytes as f64) as u64;
    // A preset that is scaled down keeps at least this many blocks and pages.
    let f = &config.flash;
    let planes = u64::from(f.channels) * u64::from(f.chips) * u64::from(f.dies * f.planes);
    let least_pages = u64::from(f.blocks.min(128)) * u64::from(f.pages.min(32));
    let least_bytes = planes * least_pages * f.page.0;
    let hint = match fitting_bytes >= least_bytes {
        true => {
            // A round number, but not less than the minimum.
            let round_bytes = (1 << fitting_bytes.max(1).ilog2()).max(least_bytes);
            format!(
                "simulate less flash at the same speed: --drive-size {} of a preset, or fewer flash.blocks",
                bytes_exact(round_bytes)
            )
        }
        false => {
            let drives = at_once.drives.saturating_mul(fitting_bytes) / least_bytes.max(1);
            format!(
                "simulate fewer drives of the smallest size: --drives {} --drive-size {}",
                drives.max(1),
                bytes_exact(least_bytes)
            )
        }
    };
    Err(Error::new(Kind::Memory, "simulate drive", cause).hint(hint))
}

/// Rejects a log of requests for which there is too little memory.
///
/// # Errors
/// Out of memory, with the needed and the free amount.
pub(crate) fn check_log(requests: u64, request_bytes: u64) -> Result<()> {
    let Some(free_bytes) = outcore_io::config::free_memory_bytes() else {
        return Ok(());
    };
    let need_bytes = requests.saturating_mul(request_bytes);
    if need_bytes <= free_bytes {
        return Ok(());
    }
    let cause = format!(
        "the log of {requests} requests would take {} of memory, but only {} are free",
        bytes(need_bytes),
        bytes(free_bytes)
    );
    Err(Error::new(Kind::Memory, "run workload", cause)
        .hint("make fewer requests, or keep none of them"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::preset;

    #[test]
    fn a_drive_that_memory_cannot_hold_is_rejected_with_a_size_that_fits() {
        let p41 = preset("p41").unwrap();
        let free_bytes = 1 << 30;
        for drives in [1, 30] {
            let at_once = AtOnce { drives, filling: 1 };
            let whole = p41.sized(u64::MAX).unwrap();
            let error = check_in(&whole, at_once, free_bytes).unwrap_err();
            assert_eq!(error.kind(), Kind::Memory);
            assert!(error.cause().contains("1.00 GiB are free"), "{error}");
            // The command in the hint works when it is typed.
            let hint = error.next_step().unwrap();
            let size = hint.split("--drive-size ").nth(1).unwrap();
            let size = size.split(' ').next().unwrap();
            let size_bytes = outcore_io::units::parse_bytes(size).unwrap();
            let fitting = p41.sized(size_bytes).unwrap();
            assert!(fitting.physical_bytes() <= size_bytes * 9 / 8, "{size}");
            check_in(&fitting, at_once, free_bytes).unwrap();
        }
        let at_once = AtOnce {
            drives: 4096,
            filling: 1,
        };
        let small = p41.sized(1).unwrap();
        let error = check_in(&small, at_once, free_bytes).unwrap_err();
        let hint = error.next_step().unwrap();
        let drives = hint.split("--drives ").nth(1).unwrap();
        let drives = drives.split(' ').next().unwrap().parse().unwrap();
        let at_once = AtOnce { drives, filling: 1 };
        assert!(drives > 1, "{hint}");
        check_in(&small, at_once, free_bytes).unwrap();
    }

    #[test]
    fn the_tables_of_a_drive_take_what_is_reckoned() {
        let mut config = preset("p41").unwrap().sized(8 << 30).unwrap();
        config.precondition = false;
        let (tables_bytes, _) = bytes_of(&Params::new(&config, 1));
        let units = config.physical_bytes() / 4096;
        let per_unit = tables_bytes as f64 / units as f64;
        assert!((8.0..10.0).contains(&per_unit), "{per_unit}");
    }
}
