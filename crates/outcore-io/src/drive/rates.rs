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
//! A drive is probed until two rounds agree, at most [`ROUNDS_MAX`] times. The best value of each
//! figure counts, because other work on the machine only makes drives look slower. Results of a
//! busy machine are kept for an hour. If the time of a job differs much from its plan's prediction,
//! the caller drops the results ([`RatesCache::forget`]).
//!
//! The cache is one small file. If the file is damaged, or cannot be read or written, nothing is
//! remembered; that is never an error.
//!
//! Bounds: a round of a probe takes about half a second and at most 128 MiB per drive; the cache
//! forgets after [`KEPT_DAYS`].

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
/// Seconds after which a measurement on a busy machine is repeated.
const BUSY_KEPT_SECONDS: u64 = 60 * 60;
/// Rounds of a probe, and the largest difference at which two rounds agree.
const ROUNDS_MAX: usize = 3;
const ROUNDS_AGREE: f64 = 0.1;
/// A machine is busy if its load per processor exceeds this, or if something waited for I/O for a
/// larger share of the time than this.
const BUSY_LOAD: f64 = 0.75;
const BUSY_WAITING: f64 = 0.2;
const DAY_SECONDS: u64 = 24 * 60 * 60;
/// Largest number of file systems in the cache.
const ENTRIES_MAX: usize = 256;
/// Duration of one step of the short probe.
const STEP_SECONDS: f64 = 0.1;
const FILE_BYTES: u64 = 128 << 20;
/// A plan is far off if its prediction is wrong by this factor. Shorter jobs than the minimum are
/// not judged.
const FAR_OFF: f64 = 2.0;
const JUDGED_SECONDS_MIN: f64 = 2.0;

/// Floats stored as their bits, because the text of a float may be read back as another float.
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
        /// Whether other work kept the machine busy at that time.
        is_busy: bool,
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

    /// The better of both, figure by figure.
    fn best_of(&self, other: &DriveRates) -> DriveRates {
        DriveRates {
            read_bytes_per_s: self.read_bytes_per_s.max(other.read_bytes_per_s),
            write_bytes_per_s: self.write_bytes_per_s.max(other.write_bytes_per_s),
            requests_per_s: self.requests_per_s.max(other.requests_per_s),
            origin: self.origin,
        }
    }

    /// Whether both rates are about the same.
    fn agrees_with(&self, other: &DriveRates) -> bool {
        let is_near = |a: f64, b: f64| (a / b - 1.0).abs() <= ROUNDS_AGREE;
        is_near(self.read_bytes_per_s, other.read_bytes_per_s)
            && is_near(self.write_bytes_per_s, other.write_bytes_per_s)
    }

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

/// The speed of one drive of a job.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct DriveSpeed {
    /// The rates of the drive itself.
    pub rates: DriveRates,
    /// The limit that the drive shares with other drives.
    pub group: Option<GroupSpeed>,
}

/// The limit that the drives of a group share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GroupSpeed {
    /// The number of the limit; drives with the same number share the limit.
    pub number: usize,
    /// Reads of all drives of the group together, bytes per second; infinite if there is no limit.
    #[serde(with = "bits")]
    pub read_bytes_per_s: f64,
    /// Writes of all drives of the group together, in the same way.
    #[serde(with = "bits")]
    pub write_bytes_per_s: f64,
    /// Reads and writes together, in the same way.
    #[serde(with = "bits")]
    pub both_bytes_per_s: f64,
}

/// Gives the speed of the drive that holds a place.
pub trait SpeedSource: Send + Sync {
    /// The speed of the drive with this file system; `dir` is a directory on it.
    fn speed(&self, file_system: u64, dir: &Path) -> DriveSpeed;

    /// Drops measured speeds after a plan with these speeds was far off.
    fn forget(&self) {}
}

impl SpeedSource for DriveRates {
    fn speed(&self, _file_system: u64, _dir: &Path) -> DriveSpeed {
        DriveSpeed {
            rates: *self,
            group: None,
        }
    }
}

/// The speeds of all drives that a job may use. By default all are [`DriveRates::ASSUMED`].
#[derive(Clone)]
pub struct Speeds {
    source: Arc<dyn SpeedSource>,
}

impl Speeds {
    /// The speeds that `source` reports.
    pub fn new(source: impl SpeedSource + 'static) -> Self {
        Speeds {
            source: Arc::new(source),
        }
    }

    /// The speed of the drive with this file system; `dir` is a directory on it.
    pub fn of(&self, file_system: u64, dir: &Path) -> DriveSpeed {
        self.source.speed(file_system, dir)
    }

    /// Learns that a job took `actual_s` and that its plan predicted `predicted_s`. Drops the
    /// measured speeds if the plan was far off.
    pub fn judge(&self, predicted_s: f64, actual_s: f64) {
        let is_long = predicted_s.max(actual_s) >= JUDGED_SECONDS_MIN;
        let ratio = predicted_s / actual_s.max(f64::MIN_POSITIVE);
        if is_long && !(1.0 / FAR_OFF..=FAR_OFF).contains(&ratio) {
            self.source.forget();
        }
    }
}

impl Default for Speeds {
    fn default() -> Self {
        Speeds::new(DriveRates::ASSUMED)
    }
}

impl fmt::Debug for Speeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Speeds")
    }
}

impl fmt::Display for DriveRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} read, {} written per drive ({})",
            units::rate_decimal(self.read_bytes_per_s),
            units::rate_decimal(self.write_bytes_per_s),
            self.origin
        )
    }
}

impl fmt::Display for RatesOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RatesOrigin::Assumed => f.write_str("assumed; not measured"),
            RatesOrigin::Probed { unix_s, is_busy } => {
                let busy = if *is_busy { " while it was busy" } else { "" };
                write!(f, "measured on {}{busy}", date(*unix_s))
            }
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
    #[serde(default)]
    is_busy: bool,
}

/// One file system.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    id: u64,
    read_bytes_per_s: u64,
    write_bytes_per_s: u64,
    requests_per_s: u64,
    unix_s: u64,
    #[serde(default)]
    is_busy: bool,
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
        let is_busy = is_machine_busy();
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
                    let entry = Entry::of(id, rates, now_s, is_busy);
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

    /// The costs of the kinds of work with these names, in core nanoseconds per item or byte, with
    /// the day of measurement. A remembered cost is used first. Otherwise, if the caller allows it,
    /// `measure` runs and its result is remembered. `None` if nothing is known.
    pub fn costs<const N: usize>(
        &self,
        names: [&str; N],
        measure: Option<impl FnOnce() -> Result<[(f64, f64); N]>>,
    ) -> Option<([(f64, f64); N], RatesOrigin)> {
        let now_s = now_s();
        let mut remembered = self.read(now_s);
        let known = names.map(|name| remembered.cost.iter().find(|cost| cost.name == name));
        let oldest_s = known.iter().flatten().map(|cost| cost.unix_s).min();
        let is_busy = known.iter().flatten().any(|cost| cost.is_busy);
        if let (true, Some(unix_s)) = (known.iter().all(Option::is_some), oldest_s) {
            let costs =
                known.map(|cost| cost.map_or((0.0, 0.0), |cost| (cost.item_ns, cost.byte_ns)));
            return Some((costs, RatesOrigin::Probed { unix_s, is_busy }));
        }
        let is_busy = is_machine_busy();
        let found = measure.and_then(|measure| measure().ok())?;
        remembered.cost = names
            .iter()
            .zip(found)
            .map(|(name, (item_ns, byte_ns))| Cost {
                name: (*name).to_string(),
                item_ns,
                byte_ns,
                unix_s: now_s,
                is_busy,
            })
            .collect();
        self.write(&mut remembered);
        let unix_s = now_s;
        Some((found, RatesOrigin::Probed { unix_s, is_busy }))
    }

    /// Drops the rates of these file systems and all costs, so that the next plan that may measure
    /// does so.
    pub fn forget(&self, file_systems: &[u64]) {
        let mut remembered = self.read(now_s());
        let entries = &mut remembered.entries;
        entries.retain(|entry| !file_systems.contains(&entry.id));
        remembered.cost.clear();
        self.write(&mut remembered);
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
        let is_recent = |unix_s, is_busy| {
            let kept_s = match is_busy {
                true => BUSY_KEPT_SECONDS,
                false => KEPT_DAYS * DAY_SECONDS,
            };
            now_s.saturating_sub(unix_s) < kept_s
        };
        let entries = &mut remembered.entries;
        entries.retain(|entry| is_recent(entry.unix_s, entry.is_busy) && entry.is_possible());
        remembered.cost.retain(|cost| {
            let is_possible = |ns: f64| ns.is_finite() && ns >= 0.0;
            let has_costs = is_possible(cost.item_ns) && is_possible(cost.byte_ns);
            is_recent(cost.unix_s, cost.is_busy) && has_costs
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
    fn of(id: u64, rates: DriveRates, unix_s: u64, is_busy: bool) -> Self {
        Entry {
            id,
            read_bytes_per_s: rates.read_bytes_per_s as u64,
            write_bytes_per_s: rates.write_bytes_per_s as u64,
            requests_per_s: rates.requests_per_s as u64,
            unix_s,
            is_busy,
        }
    }

    fn rates(&self) -> DriveRates {
        DriveRates {
            read_bytes_per_s: self.read_bytes_per_s as f64,
            write_bytes_per_s: self.write_bytes_per_s as f64,
            requests_per_s: self.requests_per_s as f64,
            origin: RatesOrigin::Probed {
                unix_s: self.unix_s,
                is_busy: self.is_busy,
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
    let mut best: Option<DriveRates> = None;
    for _ in 0..ROUNDS_MAX {
        let report = probe_on(device, &[], std::slice::from_ref(spec), options)?;
        let drive = report.drives.first().filter(|drive| !drive.is_in_memory);
        let Some(found) = drive.and_then(|drive| DriveRates::of_spec(&drive.spec)) else {
            break;
        };
        let agrees = best.is_some_and(|best| best.agrees_with(&found));
        best = Some(best.map_or(found, |best| best.best_of(&found)));
        if agrees {
            break;
        }
    }
    Ok(best)
}

/// Whether other work keeps the machine busy.
fn is_machine_busy() -> bool {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let waiting = fs::read_to_string("/proc/pressure/io").unwrap_or_default();
    is_busy(&load, &waiting, processors)
}

/// Whether the machine is busy, according to the texts of `/proc/loadavg` and `/proc/pressure/io`.
fn is_busy(load: &str, waiting: &str, processors: usize) -> bool {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
    let load = number(load.split_whitespace().next()).unwrap_or(0.0);
    let mut words = waiting.split_whitespace();
    let percent = words.find_map(|word| number(word.strip_prefix("avg10=")));
    load > BUSY_LOAD * processors as f64 || percent.unwrap_or(0.0) > 100.0 * BUSY_WAITING
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
        // The rates come from the cache, because nothing may be measured.
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
    fn results_of_a_busy_machine_are_kept_for_an_hour_and_forgotten_ones_are_gone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("rates.toml");
        let drives = [DriveSpec::from_dir("/d0")];
        let id = ram().file_system(Path::new("/d0")).unwrap();
        let entry = |age_s: u64, is_busy: bool| {
            format!(
                "[[file_system]]\nid = {id}\nread_bytes_per_s = 7\nwrite_bytes_per_s = 7\n\
                 requests_per_s = 7\nunix_s = {}\nis_busy = {is_busy}\n",
                now_s() - age_s
            )
        };
        for (age_s, is_busy, is_kept) in [
            (60, true, true),
            (2 * BUSY_KEPT_SECONDS, true, false),
            (2 * BUSY_KEPT_SECONDS, false, true),
        ] {
            fs::write(&path, entry(age_s, is_busy)).unwrap();
            let cache = RatesCache::new(Some(path.clone()));
            let found = cache.assess(&ram(), &drives, None);
            assert_eq!(
                found[0] != DriveRates::ASSUMED,
                is_kept,
                "{age_s} {is_busy}"
            );
            let says_so = found[0].to_string().contains("while it was busy");
            assert_eq!(says_so, is_busy && is_kept);
            cache.forget(&[id]);
            assert_eq!(cache.assess(&ram(), &drives, None), [DriveRates::ASSUMED]);
        }
    }

    #[test]
    fn a_machine_is_busy_by_its_load_or_by_what_waits_for_its_drives() {
        let idle = "some avg10=0.00 avg60=3.10 avg300=9.00 total=1\nfull avg10=0.00";
        assert!(!is_busy("0.42 0.58 0.59 1/257 41", idle, 2));
        assert!(is_busy("1.92 0.58 0.59 1/257 41", idle, 2));
        assert!(!is_busy("1.92 0.58 0.59 1/257 41", idle, 8));
        let waiting = idle.replacen("avg10=0.00", "avg10=35.50", 1);
        assert!(is_busy("0.42 0.58 0.59 1/257 41", &waiting, 2));
        assert!(!is_busy("", "", 1));
    }

    #[test]
    fn only_speeds_with_which_a_long_job_was_far_off_are_dropped() {
        struct Counting(Arc<Mutex<u32>>);
        impl SpeedSource for Counting {
            fn speed(&self, _file_system: u64, _dir: &Path) -> DriveSpeed {
                DriveSpeed::default()
            }
            fn forget(&self) {
                *self.0.lock().unwrap() += 1;
            }
        }
        let dropped = Arc::new(Mutex::new(0));
        let speeds = Speeds::new(Counting(Arc::clone(&dropped)));
        for (predicted_s, actual_s) in [(3.0, 2.0), (2.0, 3.9), (0.1, 1.9), (1.9, 0.1)] {
            speeds.judge(predicted_s, actual_s);
        }
        assert_eq!(*dropped.lock().unwrap(), 0);
        speeds.judge(11.9, 2.65);
        speeds.judge(2.0, 5.0);
        assert_eq!(*dropped.lock().unwrap(), 2);
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
    }
}
