//! The speeds of the drives that a job uses, for its plan.
//!
//! Contract: a [`KnownSpeeds`] gives a drive the rates of the drives file, else those that an
//! earlier run measured. With `measures` it measures other drives when a plan first asks for them,
//! in the directory that the plan names. All other drives have assumed rates. Drives of a group of
//! the drives file share its limits. A volume is as fast as all named drives together.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use outcore::job::{DriveRates, DriveSpeed, SpeedSource};
use outcore_io::config::{DriveSet, DriveSpec, IoMode};
use outcore_io::drive::Device;
use outcore_io::drive::probe::ProbeOptions;
use outcore_io::drive::rates::{GroupSpeed, RatesCache};

/// File systems from this number on are volumes; no device number of the system is that large.
const VOLUMES_FROM: u64 = 1 << 63;

/// Speeds that were looked up, by file system.
pub(crate) type Found = Arc<Mutex<HashMap<u64, DriveSpeed>>>;

/// See the module.
pub(crate) struct KnownSpeeds {
    /// Rates of earlier runs.
    pub(crate) cache: RatesCache,
    /// The device of the drives.
    pub(crate) device: Arc<dyn Device>,
    /// The drives as the user named them.
    pub(crate) set: DriveSet,
    /// How drives are measured; `None` if they are not.
    pub(crate) measures: Option<IoMode>,
    /// The speeds so far.
    pub(crate) found: Found,
    /// Whether a directory is in memory and therefore on no drive.
    pub(crate) is_in_memory: fn(&Path) -> bool,
}

impl KnownSpeeds {
    fn look_up(&self, file_system: u64, dir: &Path) -> DriveSpeed {
        if file_system >= VOLUMES_FROM {
            return self.all_together();
        }
        let mut drives = self.set.drives.iter();
        let named = drives.find(|spec| {
            let here = self.device.file_system(&spec.dir);
            here.is_ok_and(|here| here == file_system)
        });
        let group = named.and_then(|spec| self.group_of(spec));
        let rates = match named {
            Some(spec) => self.rates(spec),
            None if (self.is_in_memory)(dir) => DriveRates::ASSUMED,
            None => self.rates(&DriveSpec::from_dir(dir)),
        };
        DriveSpeed { rates, group }
    }

    fn rates(&self, spec: &DriveSpec) -> DriveRates {
        let probe = self.measures.map(|io| ProbeOptions {
            io,
            ..ProbeOptions::default()
        });
        let specs = std::slice::from_ref(spec);
        let rates = self.cache.assess(&self.device, specs, probe);
        rates.first().copied().unwrap_or(DriveRates::ASSUMED)
    }

    /// The limit that the drive shares with others.
    fn group_of(&self, spec: &DriveSpec) -> Option<GroupSpeed> {
        let name = spec.group.as_ref()?;
        let mut groups = self.set.groups.iter();
        let number = groups.position(|group| group.name == *name)?;
        let group = &self.set.groups[number];
        let limit = |bytes: Option<u64>| bytes.map_or(f64::INFINITY, |bytes| bytes as f64);
        Some(GroupSpeed {
            number,
            read_bytes_per_s: limit(group.read_bytes_per_s),
            write_bytes_per_s: limit(group.write_bytes_per_s),
            both_bytes_per_s: f64::INFINITY,
        })
    }

    /// The rates of all named drives together.
    fn all_together(&self) -> DriveSpeed {
        let rates: Vec<_> = self
            .set
            .drives
            .iter()
            .map(|spec| self.rates(spec))
            .collect();
        let mean = DriveRates::mean(&rates);
        let count = rates.len().max(1) as f64;
        let rates = DriveRates {
            read_bytes_per_s: mean.read_bytes_per_s * count,
            write_bytes_per_s: mean.write_bytes_per_s * count,
            requests_per_s: mean.requests_per_s * count,
            ..mean
        };
        DriveSpeed { rates, group: None }
    }
}

impl SpeedSource for KnownSpeeds {
    fn speed(&self, file_system: u64, dir: &Path) -> DriveSpeed {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(speed) = found.get(&file_system) {
            return *speed;
        }
        let speed = self.look_up(file_system, dir);
        found.insert(file_system, speed);
        speed
    }

    fn forget(&self) {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let file_systems: Vec<u64> = found.keys().copied().collect();
        self.cache.forget(&file_systems);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore::job::RatesOrigin;
    use outcore_io::config::GroupSpec;
    use outcore_io::drive::testing::{RamDevice, RamOptions};

    #[test]
    fn drives_have_the_rates_of_their_file_and_a_volume_has_all_of_them() {
        let device: Arc<dyn Device> = Arc::new(RamDevice::new(RamOptions::default()));
        let spec = |dir: &str, rate: u64| DriveSpec {
            read_bytes_per_s: Some(rate),
            write_bytes_per_s: Some(rate),
            group: Some("switch".to_string()),
            ..DriveSpec::from_dir(dir)
        };
        let group = GroupSpec {
            name: "switch".to_string(),
            read_bytes_per_s: Some(150),
            ..GroupSpec::default()
        };
        let speeds = KnownSpeeds {
            cache: RatesCache::new(None),
            device: Arc::clone(&device),
            set: DriveSet {
                drives: vec![spec("/a", 100), spec("/b", 200)],
                groups: vec![group],
            },
            measures: None,
            found: Found::default(),
            is_in_memory: |_| false,
        };
        let here = |dir: &str| {
            let dir = Path::new(dir);
            speeds.speed(device.file_system(dir).unwrap(), dir)
        };
        let found = here("/b/elsewhere");
        assert_eq!(found.rates.read_bytes_per_s, 200.0);
        let group = found.group.unwrap();
        assert_eq!(group.read_bytes_per_s, 150.0);
        assert_eq!(group.write_bytes_per_s, f64::INFINITY);
        assert_eq!(here("/c").rates.origin, RatesOrigin::Assumed);
        let volume = speeds.speed(VOLUMES_FROM | 7, Path::new("@name"));
        assert_eq!(volume.rates.write_bytes_per_s, 300.0);
    }
}
