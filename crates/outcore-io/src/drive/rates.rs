//! Speeds of a job's drives, for plans: measured rates if available, and their date. The cache also
//! remembers processor costs that other modules measure and name.
//!
//! Contract: [`RatesCache::assess`] gives each drive the rates of the first of these sources that
//! has them:
//! - the drives file
//! - the cache, by file system
//! - a short probe, if the caller allows one; the cache then remembers the result
//! - [`DriveRates::ASSUMED`]
//!
//! A plan that uses the rates reports their source ([`RatesOrigin`]). Rates never change what a job
//! writes, only how it works.
//!
//! The cache is one small file. If the file is damaged, or cannot be read or written, nothing is
//! remembered; that is never an error.
//!
//! Bounds: a probe takes about half a second and at most 128 MiB per drive; the cache forgets after
//! [`KEPT_DAYS`].

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::Device;
use super::probe::{ProbeOptions, probe_on};
use crate::config::DriveSpec;
use crate::error::Result;
use crate::units;

/// Days after which a drive is measured again.
pub(crate) const KEPT_DAYS: u64 = 90;
const DAY_SECONDS: u64 = 24 * 60 * 60;
/// Largest number of file systems in the cache.
const ENTRIES_MAX: usize = 256;
/// Duration of one step of the short probe.
const STEP_SECONDS: f64 = 0.1;
const FILE_BYTES: u64 = 128 << 20;

/// Floats as their bits: the text of a float need not be read as the same float.
pub mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the bits.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(value.to_bits())
    }

    /// Reads the bits.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }
}

/// The rates that one drive sustains.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DriveRates {
    /// Sequential reads, bytes per second.
    #[serde(with = "bits")]
    pub read_bytes_per_s: f64,
    /// Sequential writes, bytes per second.
    #[serde(with = "bits")]
    pub write_bytes_per_s: f64,
    /// Small random requests per second.
    #[serde(with = "bits")]
    pub requests_per_s: f64,
    /// Source of the figures.
    pub origin: RatesOrigin,
}

/// Source of a drive's rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RatesOrigin {
    /// Not measured.
    Assumed,
    /// A short probe.
    Probed {
        /// Time of the probe, in seconds since 1970.
        unix_s: u64,
    },
    /// The drives file.
    DrivesFile,
}

impl DriveRates {
    /// A medium NVMe drive, for drives of unknown speed.
    pub const ASSUMED: DriveRates = DriveRates {
        read_bytes_per_s: 1.5e9,
        write_bytes_per_s: 1.5e9,
        requests_per_s: 60e3,
        origin: RatesOrigin::Assumed,
    };

    /// The mean of several drives, with the least certain of their origins.
    pub fn mean(drives: &[DriveRates]) -> DriveRates {
        let mean = |of: fn(&DriveRates) -> f64| {
            drives.iter().map(of).sum::<f64>() / drives.len().max(1) as f64
        };
        match drives.iter().map(|drive| drive.origin).min() {
            None => DriveRates::ASSUMED,
            Some(origin) => DriveRates {
                read_bytes_per_s: mean(|drive| drive.read_bytes_per_s),
                write_bytes_per_s: mean(|drive| drive.write_bytes_per_s),
                requests_per_s: mean(|drive| drive.requests_per_s),
                origin,
            },
        }
    }

    /// Seconds that `drive_count` such drives need to read and write these bytes in these requests.
    /// Reads and writes overlap, so the longer of the two counts.
    pub fn seconds(
        &self,
        (read_bytes, written_bytes): (f64, f64),
        requests: f64,
        drive_count: usize,
    ) -> f64 {
        let reading = read_bytes / self.read_bytes_per_s;
        let writing = written_bytes / self.write_bytes_per_s;
        (reading.max(writing) + requests / self.requests_per_s) / drive_count.max(1) as f64
    }

    /// The rates of the drives file, if it has both read and write bandwidth.
    fn of_spec(spec: &DriveSpec) -> Option<DriveRates> {
        let (read, write) = (spec.read_bytes_per_s?, spec.write_bytes_per_s?);
        let requests = spec
            .read_iops
            .map_or(Self::ASSUMED.requests_per_s, |iops| iops as f64);
        Some(DriveRates {
            read_bytes_per_s: read as f64,
            write_bytes_per_s: write as f64,
            requests_per_s: requests.max(1.0),
            origin: RatesOrigin::DrivesFile,
        })
    }
}

impl Default for DriveRates {
    fn default() -> Self {
        DriveRates::ASSUMED
    }
}

impl fmt::Display for DriveRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} read, {} written a drive ({})",
            units::rate(self.read_bytes_per_s),
            units::rate(self.write_bytes_per_s),
            self.origin
        )
    }
}

impl fmt::Display for RatesOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RatesOrigin::Assumed => f.write_str("assumed; not measured"),
            RatesOrigin::Probed { unix_s } => write!(f, "measured on {}", date(*unix_s)),
            RatesOrigin::DrivesFile => f.write_str("from the drives file"),
        }
    }
}

/// The day of a time, as `2026-11-23` (UTC). The Gregorian calendar repeats every 400 years of
/// 146,097 days; years are counted from March, so that a leap day ends one (Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", 2013).
fn date(unix_s: u64) -> String {
    let days = unix_s / DAY_SECONDS + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Results of short probes, by file system.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Remembered {
    #[serde(rename = "file_system", default)]
    entries: Vec<Entry>,
    /// Processor costs.
    #[serde(default)]
    cost: Vec<Cost>,
}

/// One kind of processor work, named by the module that measured it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Cost {
    name: String,
    item_ns: f64,
    byte_ns: f64,
    unix_s: u64,
}

/// One file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    id: u64,
    read_bytes_per_s: u64,
    write_bytes_per_s: u64,
    requests_per_s: u64,
    unix_s: u64,
}

/// Storage for probe results between runs.
#[derive(Debug)]
pub struct RatesCache {
    path: Option<PathBuf>,
    /// Contents of the file, once it has been read or written.
    known: Mutex<Option<Remembered>>,
}

impl RatesCache {
    /// The cache in the file `path`; `None` remembers nothing.
    pub fn new(path: Option<PathBuf>) -> Self {
        RatesCache {
            path,
            known: Mutex::default(),
        }
    }

    /// The rates of `drives`, each from its best source. With `may_probe`, drives of unknown speed
    /// are measured; a drive that cannot be measured gets assumed rates.
    pub fn assess(
        &self,
        device: &Arc<dyn Device>,
        drives: &[DriveSpec],
        may_probe: Option<ProbeOptions<'_>>,
    ) -> Vec<DriveRates> {
        let now_s = now_s();
        let mut remembered = self.read(now_s);
        let known = remembered.entries.len();
        let rates = drives.iter().map(|spec| {
            if let Some(rates) = DriveRates::of_spec(spec) {
                return rates;
            }
            let Ok(id) = device.file_system(&spec.dir) else {
                return DriveRates::ASSUMED;
            };
            if let Some(entry) = remembered.entries.iter().find(|entry| entry.id == id) {
                return entry.rates();
            }
            let measured = may_probe.map(|options| measure(device, spec, options));
            match measured {
                Some(Ok(Some(rates))) => {
                    let entry = Entry::of(id, rates, now_s);
                    let rates = entry.rates();
                    remembered.entries.push(entry);
                    rates
                }
                _ => DriveRates::ASSUMED,
            }
        });
        let rates: Vec<DriveRates> = rates.collect();
        if remembered.entries.len() > known {
            self.write(&mut remembered);
        }
        rates
    }

    /// The costs of the work of these names, in core nanoseconds per item or byte, with the day of
    /// measurement. A remembered cost is used first. Otherwise, if the caller allows it, `measure`
    /// runs and its result is remembered. `None` if nothing is known.
    pub fn costs<const N: usize>(
        &self,
        names: [&str; N],
        measure: Option<impl FnOnce() -> Result<[(f64, f64); N]>>,
    ) -> Option<([(f64, f64); N], RatesOrigin)> {
        let now_s = now_s();
        let mut remembered = self.read(now_s);
        let known = names.map(|name| remembered.cost.iter().find(|cost| cost.name == name));
        let oldest_s = known.iter().flatten().map(|cost| cost.unix_s).min();
        if let (true, Some(unix_s)) = (known.iter().all(Option::is_some), oldest_s) {
            let costs =
                known.map(|cost| cost.map_or((0.0, 0.0), |cost| (cost.item_ns, cost.byte_ns)));
            return Some((costs, RatesOrigin::Probed { unix_s }));
        }
        let found = measure.and_then(|measure| measure().ok())?;
        remembered.cost = names
            .iter()
            .zip(found)
            .map(|(name, (item_ns, byte_ns))| Cost {
                name: (*name).to_string(),
                item_ns,
                byte_ns,
                unix_s: now_s,
            })
            .collect();
        self.write(&mut remembered);
        Some((found, RatesOrigin::Probed { unix_s: now_s }))
    }

    /// The entries that are not too old.
    fn read(&self, now_s: u64) -> Remembered {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_with(|| {
            let text = self.path.as_ref().map(fs::read_to_string);
            text.and_then(|text| toml::from_str(&text.ok()?).ok())
                .unwrap_or_default()
        });
        let mut remembered = known.clone();
        let is_recent = |unix_s| now_s.saturating_sub(unix_s) < KEPT_DAYS * DAY_SECONDS;
        remembered
            .entries
            .retain(|entry| is_recent(entry.unix_s) && entry.is_possible());
        remembered.cost.retain(|cost| {
            let is_possible = |ns: f64| ns.is_finite() && ns >= 0.0;
            is_recent(cost.unix_s) && is_possible(cost.item_ns) && is_possible(cost.byte_ns)
        });
        remembered
    }

    /// Stores the newest entries, up to the limits; ignores failures.
    fn write(&self, remembered: &mut Remembered) {
        let entries = &mut remembered.entries;
        entries.drain(..entries.len().saturating_sub(ENTRIES_MAX));
        let Some(path) = &self.path else { return };
        let _ = toml::to_string(remembered).map(|text| replace(path, &text));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(remembered.clone());
    }
}

impl Entry {
    fn of(id: u64, rates: DriveRates, unix_s: u64) -> Self {
        Entry {
            id,
            read_bytes_per_s: rates.read_bytes_per_s as u64,
            write_bytes_per_s: rates.write_bytes_per_s as u64,
            requests_per_s: rates.requests_per_s as u64,
            unix_s,
        }
    }

    fn rates(&self) -> DriveRates {
        DriveRates {
            read_bytes_per_s: self.read_bytes_per_s as f64,
            write_bytes_per_s: self.write_bytes_per_s as f64,
            requests_per_s: self.requests_per_s as f64,
            origin: RatesOrigin::Probed {
                unix_s: self.unix_s,
            },
        }
    }

    fn is_possible(&self) -> bool {
        self.read_bytes_per_s > 0 && self.write_bytes_per_s > 0 && self.requests_per_s > 0
    }
}

fn now_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Replaces the file with one that contains this text.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    fs::write(&new, text)?;
    fs::rename(&new, path).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

/// A short probe; `None` for a file system in memory, which is not a drive.
fn measure(
    device: &Arc<dyn Device>,
    spec: &DriveSpec,
    options: ProbeOptions<'_>,
) -> Result<Option<DriveRates>> {
    let options = ProbeOptions {
        file_bytes: FILE_BYTES.min(options.file_bytes),
        step_seconds: STEP_SECONDS.min(options.step_seconds),
        ..options
    };
    let report = probe_on(device, &[], std::slice::from_ref(spec), options)?;
    let found = report.drives.first().filter(|drive| !drive.is_in_memory);
    Ok(found.and_then(|drive| DriveRates::of_spec(&drive.spec)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::testing::{RamDevice, RamOptions};

    fn ram() -> Arc<dyn Device> {
        Arc::new(RamDevice::new(RamOptions {
            capacity_bytes: u64::MAX,
            ..RamOptions::default()
        }))
    }

    fn quick() -> Option<ProbeOptions<'static>> {
        Some(ProbeOptions {
            file_bytes: 8 << 20,
            step_seconds: 0.02,
            ..ProbeOptions::default()
        })
    }

    #[test]
    fn a_drive_is_measured_once_and_then_remembered_with_its_day() {
        let home = tempfile::tempdir().unwrap();
        let cache = RatesCache::new(Some(home.path().join("deep/rates.toml")));
        let drives = [DriveSpec::from_dir("/d0")];
        let unknown = cache.assess(&ram(), &drives, None);
        assert_eq!(unknown, [DriveRates::ASSUMED]);
        let measured = cache.assess(&ram(), &drives, quick());
        // The model writes more than 10 GB per second: see the tests of the probe.
        assert!(measured[0].write_bytes_per_s > 10e9, "{measured:?}");
        assert!(matches!(measured[0].origin, RatesOrigin::Probed { .. }));
        // Without permission to measure: from the cache.
        assert_eq!(cache.assess(&ram(), &drives, None), measured);
        let said = measured[0].to_string();
        assert!(said.contains("measured on 20"), "{said}");
        let nowhere = RatesCache::new(None).assess(&ram(), &drives, None);
        assert_eq!(nowhere, [DriveRates::ASSUMED]);
    }

    #[test]
    fn costs_are_measured_once_and_remembered_beside_the_drives() {
        let home = tempfile::tempdir().unwrap();
        let cache = RatesCache::new(Some(home.path().join("rates.toml")));
        let drives = [DriveSpec::from_dir("/d0")];
        let rates = cache.assess(&ram(), &drives, quick());
        let never = None::<fn() -> Result<[(f64, f64); 2]>>;
        assert_eq!(cache.costs(["a", "b"], never), None);
        let found = [(1.5, 0.25), (0.0, 3.0)];
        let measured = cache.costs(["a", "b"], Some(|| Ok(found))).unwrap();
        assert_eq!(measured.0, found);
        assert!(matches!(measured.1, RatesOrigin::Probed { .. }));
        assert_eq!(cache.costs(["a", "b"], never), Some(measured));
        assert_eq!(
            cache.costs(["a", "c"], never),
            None,
            "not all of them are known"
        );
        assert_eq!(cache.assess(&ram(), &drives, None), rates);
    }

    #[test]
    fn the_drives_file_comes_first_and_needs_both_rates() {
        let mut spec = DriveSpec::from_dir("/d0");
        spec.read_bytes_per_s = Some(7_000_000_000);
        let cache = RatesCache::new(None);
        let half = cache.assess(&ram(), std::slice::from_ref(&spec), None);
        assert_eq!(half, [DriveRates::ASSUMED]);
        spec.write_bytes_per_s = Some(5_000_000_000);
        let whole = cache.assess(&ram(), &[spec], quick());
        assert_eq!(whole[0].origin, RatesOrigin::DrivesFile);
        assert_eq!(whole[0].read_bytes_per_s, 7e9);
    }

    #[test]
    fn a_broken_old_or_foreign_cache_is_as_good_as_none() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("rates.toml");
        let drives = [DriveSpec::from_dir("/d0")];
        let id = ram().file_system(Path::new("/d0")).unwrap();
        let entry = |read: &str, unix_s: u64| {
            format!(
                "[[file_system]]\nid = {id}\nread_bytes_per_s = {read}\nwrite_bytes_per_s = 1\n\
                 requests_per_s = 1\nunix_s = {unix_s}\n"
            )
        };
        let (old, zero) = (entry("1", 1), entry("0", u64::MAX >> 1));
        for text in ["", "no toml [", &old, &zero] {
            fs::write(&path, text).unwrap();
            let cache = RatesCache::new(Some(path.clone()));
            assert_eq!(cache.assess(&ram(), &drives, None), [DriveRates::ASSUMED]);
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let cache = RatesCache::new(Some(path));
        let measured = cache.assess(&ram(), &drives, quick());
        assert!(matches!(measured[0].origin, RatesOrigin::Probed { .. }));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (unix_s, wanted) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_164_800, "2024-02-29"),
            (1_709_251_200, "2024-03-01"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date(unix_s), wanted);
        }
    }

    #[test]
    fn the_mean_is_as_certain_as_its_least_certain_drive() {
        let measured = DriveRates {
            read_bytes_per_s: 4.5e9,
            origin: RatesOrigin::DrivesFile,
            ..DriveRates::ASSUMED
        };
        let mean = DriveRates::mean(&[measured, DriveRates::ASSUMED]);
        assert_eq!(mean.read_bytes_per_s, 3e9);
        assert_eq!(mean.origin, RatesOrigin::Assumed);
        assert_eq!(DriveRates::mean(&[]), DriveRates::ASSUMED);
        assert_eq!(mean.seconds((3e9, 1.5e9), 60e3, 2), 1.0);
    }
}
