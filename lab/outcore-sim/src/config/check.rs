//! Checks that every value of a configuration is within its bounds, before anything is built.
//!
//! Contract: an error names the key, its value and the possible values. Zero is rejected where the
//! model would compute a time or a rate that no drive has. It is accepted where it has a meaning:
//! - the feature is absent: `cache.capacity`, `slc.blocks`, `fdp.handles`, `host.command_overhead`
//!   and `command_interval`, delays of SATA, `flash.suspend_*`, `suspend_*_if_left`,
//!   `mapping.pack_wait`, the DRAM's `t_*`, `flash.over_provisioning`, energies, `wear_threshold`;
//! - no limit: `throttle.read`, `throttle.write`, `zones.open`, `zones.active`;
//! - the default: `mapping.unit` (a page), `gc.choices` (log2 of the blocks);
//! - the minimum: `gc.threshold` and `gc.hard_threshold` (one block), `mapping.cache` (one entry).

use outcore_io::units::rate_exact;
use outcore_io::{Error, Result};

use super::{Compat, DriveConfig, Interface, parse_order};
use crate::quantities::{Rate, SECOND, Time, show_time};

/// Maximum number of pages, and of mapping entries, of a drive.
const ENTRIES_MAX: u64 = u32::MAX as u64 - 2;

/// The longest duration and the lowest rates. Within these bounds no sum of a run exceeds 64 bits.
const TIME_MAX: Time = Time(3600 * SECOND);
const RATE_MIN: Rate = Rate(1_000_000);
const THROTTLE_MIN: Rate = Rate(1_000);

pub(super) fn wrong<T>(cause: String) -> Result<T> {
    Err(Error::usage("check drive configuration", cause))
}

impl DriveConfig {
    /// Rejects configurations that cannot be simulated.
    ///
    /// # Errors
    /// The first value that is out of bounds, with its key.
    pub fn validate(&self) -> Result<()> {
        self.check_counts()?;
        self.check_sizes()?;
        self.check_times()?;
        self.check_rates()?;
        self.check_shares()?;
        if self.host.interface == Interface::Sata && self.compat == Compat::Mqsim {
            return wrong(
                "MQSim's SATA front end is not reproduced; use compat = \"none\" for SATA"
                    .to_owned(),
            );
        }
        if self.slc.blocks > 0 && self.compat == Compat::Mqsim {
            return wrong(
                "MQSim has no SLC cache; use compat = \"none\" for slc.blocks".to_owned(),
            );
        }
        if self.slc.blocks > 0 && self.flash.pages < self.flash.cell.bits() as u32 {
            return wrong(format!(
                "flash.pages is {}; a block with one bit per cell would have no page",
                self.flash.pages
            ));
        }
        self.check_spaces()?;
        parse_order(&self.mapping.order)?;
        Ok(())
    }

    fn check_counts(&self) -> Result<()> {
        let f = &self.flash;
        for (key, value, least, most) in [
            ("flash.channels", f.channels, 1, 1024),
            ("flash.chips", f.chips, 1, 1024),
            ("flash.dies", f.dies, 1, 1024),
            ("flash.planes", f.planes, 1, 64),
            ("flash.blocks", f.blocks, 1, u32::MAX),
            ("flash.pages", f.pages, 1, u32::MAX),
            ("flash.bus_bytes", f.bus_bytes, 1, 64),
            ("flash.endurance", f.endurance, 1, u32::MAX),
            ("slc.blocks", self.slc.blocks, 0, f.blocks.saturating_sub(1)),
            ("host.queue_entries", self.host.queue_entries, 2, 65_536),
            ("host.fetch_depth", self.host.fetch_depth, 1, u32::MAX),
            ("host.pcie_lanes", self.host.pcie_lanes, 1, 32),
            ("gc.concurrent", self.gc.concurrent, 1, u32::MAX),
            ("gc.choices", self.gc.choices, 0, f.blocks),
        ] {
            if value < least {
                return wrong(format!("{key} is {value}; it must be at least {least}"));
            }
            if value > most {
                return wrong(format!("{key} is {value}; at most {most} are possible"));
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<()> {
        let page = self.flash.page.0;
        if !(512..=32_768).contains(&page) || !page.is_multiple_of(512) {
            return wrong(format!(
                "flash.page is {page} bytes; it must be 512 to 32768, in steps of 512"
            ));
        }
        let unit = match self.mapping.unit.0 {
            0 => page,
            unit => unit,
        };
        if unit < 512 || !unit.is_multiple_of(512) || !page.is_multiple_of(unit) {
            return wrong(format!(
                "mapping.unit of {unit} bytes does not divide a page of {page} bytes into sectors"
            ));
        }
        match self.physical_pages() {
            Some(pages) if pages.saturating_mul(page / unit) <= ENTRIES_MAX => {}
            _ => {
                return wrong(format!(
                    "the geometry has more than {ENTRIES_MAX} mapping units; use fewer flash.blocks or a larger mapping.unit"
                ));
            }
        }
        for (key, value) in [
            ("cache.burst", self.cache.burst.0),
            ("cache.row", self.cache.row.0),
            ("throttle.request", self.throttle.request.0),
        ] {
            if value == 0 {
                return wrong(format!("{key} must not be zero"));
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<()> {
        let (f, host) = (&self.flash, &self.host);
        for (key, times) in [("flash.read", &f.read), ("flash.program", &f.program)] {
            if times.is_empty() || times.len() > 4 {
                return wrong(format!(
                    "{key} needs 1 to 4 latencies, one per page class, but has {}",
                    times.len()
                ));
            }
            for time in times {
                longer_than_nothing(key, *time)?;
            }
        }
        longer_than_nothing("flash.erase", f.erase)?;
        longer_than_nothing("slc.read", self.slc.read)?;
        longer_than_nothing("slc.program", self.slc.program)?;
        longer_than_nothing("throttle.slice", self.throttle.slice)?;
        let scheduling = &self.scheduling;
        for (key, time) in [
            ("flash.suspend_program", f.suspend_program),
            ("flash.suspend_erase", f.suspend_erase),
            (
                "scheduling.suspend_program_if_left",
                scheduling.suspend_program_if_left,
            ),
            (
                "scheduling.suspend_erase_if_left",
                scheduling.suspend_erase_if_left,
            ),
            ("host.sata_frame", host.sata_frame),
            ("host.sata_delay", host.sata_delay),
            ("host.command_overhead", host.command_overhead),
            ("host.command_interval", host.command_interval),
            ("mapping.pack_wait", self.mapping.pack_wait),
            ("slc.idle", self.slc.idle),
            ("cache.t_rcd", self.cache.t_rcd),
            ("cache.t_cl", self.cache.t_cl),
            ("cache.t_rp", self.cache.t_rp),
        ] {
            at_most_an_hour(key, time)?;
        }
        Ok(())
    }

    fn check_rates(&self) -> Result<()> {
        for (key, rate, least) in [
            ("host.pcie_lane_rate", self.host.pcie_lane_rate, RATE_MIN),
            ("host.sata_rate", self.host.sata_rate, RATE_MIN),
            ("throttle.read", self.throttle.read, THROTTLE_MIN),
            ("throttle.write", self.throttle.write, THROTTLE_MIN),
        ] {
            let is_unlimited = rate.0 == 0 && key.starts_with("throttle");
            if rate < least && !is_unlimited {
                return wrong(format!(
                    "{key} is {}; it must be at least {}",
                    rate_exact(rate.0),
                    rate_exact(least.0)
                ));
            }
        }
        for (key, transfers) in [
            ("flash.bus", self.flash.bus),
            ("cache.rate", self.cache.rate),
        ] {
            if transfers.0 < RATE_MIN.0 {
                return wrong(format!("{key} must be at least 1MT/s"));
            }
        }
        Ok(())
    }

    fn check_shares(&self) -> Result<()> {
        for (key, value) in [
            ("flash.over_provisioning", self.flash.over_provisioning),
            ("gc.threshold", self.gc.threshold),
            ("gc.hard_threshold", self.gc.hard_threshold),
        ] {
            if !(0.0..1.0).contains(&value) {
                return wrong(format!(
                    "{key} is {value}; it must be at least 0 and below 1"
                ));
            }
        }
        let energy = &self.energy;
        for (key, value) in [
            ("energy.read_nj", energy.read_nj),
            ("energy.program_nj", energy.program_nj),
            ("energy.erase_nj", energy.erase_nj),
            ("energy.bus_byte_nj", energy.bus_byte_nj),
            ("energy.link_byte_nj", energy.link_byte_nj),
            ("energy.idle_watts", energy.idle_watts),
        ] {
            if !(0.0..=1e15).contains(&value) {
                return wrong(format!(
                    "{key} is {value}; it must not be negative or infinite"
                ));
            }
        }
        Ok(())
    }
}

fn longer_than_nothing(key: &str, time: Time) -> Result<()> {
    if time.0 == 0 {
        return wrong(format!("{key} is 0; no drive does it in no time"));
    }
    at_most_an_hour(key, time)
}

fn at_most_an_hour(key: &str, time: Time) -> Result<()> {
    if time > TIME_MAX {
        return wrong(format!(
            "{key} is {}; it must be at most an hour",
            show_time(time.0)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_values_are_refused_by_their_key_before_anything_is_allocated() {
        for (text, key) in [
            ("[flash]\ndies = 0\n", "flash.dies"),
            ("[flash]\nplanes = 1000000000\n", "flash.planes"),
            ("[flash]\nblocks = 4000000000\n", "flash.blocks"),
            ("[flash]\npage = \"500B\"\n", "flash.page"),
            (
                "[flash]\nover_provisioning = 1.5\n",
                "flash.over_provisioning",
            ),
            ("[flash]\nread = []\n", "flash.read"),
            ("[flash]\nread = [\"0ns\"]\n", "flash.read"),
            ("[flash]\nread = [\"45us\", \"0ns\"]\n", "flash.read"),
            ("[flash]\nprogram = [\"0ns\"]\n", "flash.program"),
            (
                "[flash]\nprogram = [\"1s\", \"1s\", \"1s\", \"1s\", \"1s\"]\n",
                "flash.program",
            ),
            ("[flash]\nerase = \"0ns\"\n", "flash.erase"),
            ("[flash]\nerase = \"5000s\"\n", "flash.erase"),
            ("[flash]\nbus = \"0.5MT/s\"\n", "flash.bus"),
            ("[flash]\nendurance = 0\n", "flash.endurance"),
            ("[mapping]\nunit = \"3KiB\"\n", "mapping.unit"),
            ("[mapping]\norder = \"CCWD\"\n", "CCWD"),
            ("[mapping]\npack_wait = \"4000s\"\n", "mapping.pack_wait"),
            ("[host]\nqueue_entries = 1\n", "host.queue_entries"),
            ("[host]\nqueue_entries = 4000000000\n", "host.queue_entries"),
            ("[host]\npcie_lane_rate = \"0B/s\"\n", "host.pcie_lane_rate"),
            (
                "[host]\ncommand_overhead = \"100min\"\n",
                "host.command_overhead",
            ),
            ("[cache]\nburst = \"0B\"\n", "cache.burst"),
            ("[gc]\nchoices = 4000000000\n", "gc.choices"),
            ("[gc]\nthreshold = nan\n", "gc.threshold"),
            ("[slc]\nblocks = 2048\n", "slc.blocks"),
            ("[slc]\nprogram = \"0ns\"\n", "slc.program"),
            ("[slc]\nidle = \"4000s\"\n", "slc.idle"),
            ("compat = \"mqsim\"\n[slc]\nblocks = 2\n", "slc.blocks"),
            ("[slc]\nblocks = 2\n[flash]\npages = 1\n", "flash.pages"),
            ("[zones]\nnamespaces = [0]\n", "zones.namespaces names 0"),
            ("[zones]\nopen = 3\nactive = 2\n", "zones.open"),
            ("[zones]\nblocks = 2000000\n", "zones.blocks"),
            ("[fdp]\nhandles = 129\n", "fdp.handles"),
            ("compat = \"mqsim\"\n[fdp]\nhandles = 2\n", "fdp.handles"),
            (
                "[namespaces]\nsizes = [\"0B\"]\n[mapping]\nresident = false\n",
                "namespaces.sizes needs",
            ),
            ("[throttle]\nread = \"1B/s\"\n", "throttle.read"),
            ("[throttle]\nrequest = \"0B\"\n", "throttle.request"),
            ("[energy]\nread_nj = -1.0\n", "energy.read_nj"),
            ("[energy]\nidle_watts = inf\n", "energy.idle_watts"),
        ] {
            let error = DriveConfig::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(key), "{text}: {error}");
        }
    }

    #[test]
    fn a_zero_that_means_something_is_taken() {
        let text = "[cache]\ncapacity = \"0B\"\nt_rcd = \"0ns\"\n[host]\ncommand_overhead = \"0ns\"\n\
                    [mapping]\nunit = \"0B\"\npack_wait = \"0ns\"\n[throttle]\nread = \"0B/s\"\n\
                    [gc]\nchoices = 0\nthreshold = 0.0\n[flash]\nsuspend_erase = \"0ns\"\n\
                    over_provisioning = 0.0\n[energy]\nread_nj = 0.0\n";
        DriveConfig::from_toml(text).unwrap();
    }
}
