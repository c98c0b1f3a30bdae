//! The layout of a job: which drive holds which part of its inputs, scratch and output, and the
//! time that a phase therefore takes.
//!
//! Contract: a [`Layout`] is a value without I/O of its own. [`Layout::time`] adds up the bytes of
//! a phase on each drive and divides them by the rates of that drive. Reads and writes of a drive
//! overlap. While a drive moves bytes, it also serves their requests, up to its number of requests
//! per second. The slowest drive, or the slowest limit that several drives share, determines the
//! time. Directories on one physical drive are one drive.
//!
//! Model: PALID (SPAA 2025, section 2) counts the I/O of D equal drives. Here each drive counts
//! with its own bytes and rates, because a file is on one drive.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use outcore_io::drive::rates::{DriveRates, DriveSpeed, GroupSpeed, RatesOrigin, Speeds, bits};
use outcore_io::drive::{Device, physical_drive};
use outcore_io::output::parent_of;
use outcore_io::port::ScratchDrive;
use outcore_io::units;

/// Drives count as equally slow if they need at least this share of the slowest drive's time.
const ALIKE: f64 = 0.95;

/// A part of the inputs, on one drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPlace {
    /// The file system.
    pub file_system: u64,
    /// A directory on the file system.
    pub dir: PathBuf,
    /// Bytes of the inputs on this drive.
    pub bytes: u64,
}

/// The files that a job writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OutputPlaces {
    /// The files are unknown; the layout assumes them on the drives of the scratch.
    #[default]
    Unknown,
    /// On the drives for scratch, in the same shares.
    Scratch,
    /// A pipe.
    Pipe,
    /// Files of about equal length.
    Files(Vec<PathBuf>),
}

/// Bytes that a phase moves, by their place.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moves {
    /// Read from the inputs.
    pub input_bytes: f64,
    /// Read from scratch.
    pub scratch_read_bytes: f64,
    /// Written to scratch.
    pub scratch_written_bytes: f64,
    /// Written to the output.
    pub output_bytes: f64,
    /// Requests that move these bytes.
    pub requests: f64,
    /// The share of the time, from 0 to 1, in which writes wait for all reads.
    pub serial_share: f64,
}

/// What determines the time of a phase.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// One drive.
    Drive {
        /// The name of the drive.
        name: Arc<str>,
        /// Why this drive has more to do than the others.
        role: Role,
    },
    /// All drives that move data.
    AllDrives,
    /// The limit that some drives share.
    Group,
    /// The processors.
    Processors,
}

/// What a drive holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The inputs.
    Inputs,
    /// Scratch.
    Scratch,
    /// The output.
    Output,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Drive { name, role } => {
                let role = match role {
                    Role::Inputs => "the inputs are there",
                    Role::Scratch => "most of the scratch is there",
                    Role::Output => "the output is there",
                };
                write!(f, "{name} bounds it: {role}")
            }
            Bound::AllDrives => f.write_str("all drives bound it alike"),
            Bound::Group => f.write_str("the limit that drives share bounds it"),
            Bound::Processors => f.write_str("the processors bound it"),
        }
    }
}

/// The time of a phase, and what determines it.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseTime {
    /// Seconds.
    pub seconds: f64,
    /// `None` if nothing is moved.
    pub bound: Option<Bound>,
    /// Whether the speed of each drive that moves data is known.
    pub is_measured: bool,
}

/// Shared values, written as the value alone.
pub(crate) mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the value.
    pub(crate) fn serialize<T: Serialize + ?Sized, S: Serializer>(
        value: &Arc<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        T::serialize(value, to)
    }

    /// Reads the value.
    pub(crate) fn deserialize<'de, T: ?Sized, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Arc<T>, D::Error>
    where
        Box<T>: Deserialize<'de>,
    {
        Box::<T>::deserialize(from).map(Arc::from)
    }
}

/// One drive: its speed, and its shares of the job's bytes, from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct DriveShare {
    #[serde(with = "shared")]
    name: Arc<str>,
    physical: u64,
    speed: DriveSpeed,
    #[serde(with = "bits")]
    inputs: f64,
    #[serde(with = "bits")]
    scratch: f64,
    #[serde(with = "bits")]
    output: f64,
}

/// Seconds of one drive in a phase.
struct Busy<'a> {
    drive: &'a DriveShare,
    seconds: f64,
    reading: f64,
    writing: f64,
    role: Role,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    drives: Vec<DriveShare>,
    lanes: usize,
    can_spread: bool,
}

impl Layout {
    /// `drive_count` drives of these rates, over which everything is spread evenly.
    pub fn even(rates: DriveRates, drive_count: usize) -> Self {
        Layout::even_of(DriveSpeed { rates, group: None }, drive_count)
    }

    /// Like `even`, for drives of this speed.
    pub fn even_of(speed: DriveSpeed, drive_count: usize) -> Self {
        let count = drive_count.max(1);
        let share = 1.0 / count as f64;
        let drives = (0..count as u64).map(|number| DriveShare {
            name: format!("drive {number}").into(),
            physical: number,
            speed,
            inputs: share,
            scratch: share,
            output: share,
        });
        Layout {
            drives: drives.collect(),
            lanes: count,
            can_spread: false,
        }
    }

    /// The layout of a job on `device`, whose scratch goes to `scratch`.
    pub fn new(
        device: &dyn Device,
        speeds: &Speeds,
        inputs: &[InputPlace],
        outputs: &OutputPlaces,
        scratch: &[ScratchDrive],
    ) -> Self {
        let mut made = Making {
            speeds,
            lanes: Vec::new(),
            known: Vec::new(),
            drives: Vec::new(),
        };
        let all_weights: f64 = scratch.iter().map(|drive| drive.weight).sum();
        for drive in scratch {
            let file_system = device.file_system(&drive.dir).unwrap_or_default();
            made.lanes.push(file_system);
            let share = made.drive(file_system, &drive.dir, Some(&drive.name));
            share.scratch += drive.weight / all_weights.max(f64::MIN_POSITIVE);
        }
        let all_bytes: u64 = inputs.iter().map(|input| input.bytes).sum();
        for input in inputs {
            made.meet(input.file_system);
            let share = made.drive(input.file_system, &input.dir, None);
            share.inputs += input.bytes as f64 / all_bytes.max(1) as f64;
        }
        match outputs {
            OutputPlaces::Pipe => {}
            OutputPlaces::Unknown | OutputPlaces::Scratch => {
                for drive in &mut made.drives {
                    drive.output = drive.scratch;
                }
            }
            OutputPlaces::Files(files) => {
                for file in files {
                    let dir = parent_of(file);
                    let file_system = device.file_system(dir).unwrap_or_default();
                    made.meet(file_system);
                    made.drive(file_system, dir, None).output += 1.0 / files.len() as f64;
                }
            }
        }
        if made.drives.is_empty() {
            return Layout::even(DriveRates::ASSUMED, 1);
        }
        Layout {
            drives: made.drives,
            lanes: made.lanes.len(),
            can_spread: false,
        }
    }

    /// This layout for a job that can write one part of its output per drive.
    #[must_use]
    pub fn of_spreadable_output(self, can_spread: bool) -> Self {
        Layout { can_spread, ..self }
    }

    /// Drives as a volume counts them: directories for scratch, and further file systems.
    pub fn lane_count(&self) -> usize {
        self.lanes
    }

    /// The mean rates of the job's drives, with the least certain of the drives' origins.
    pub fn rates(&self) -> DriveRates {
        let rates: Vec<_> = self.drives.iter().map(|drive| drive.speed.rates).collect();
        DriveRates::mean(&rates)
    }

    /// The mean number of requests per second of a drive.
    pub(crate) fn requests_per_s(&self) -> f64 {
        let all: f64 = self
            .drives
            .iter()
            .map(|drive| drive.speed.rates.requests_per_s)
            .sum();
        all / self.drives.len() as f64
    }

    /// This layout with the output spread over the drives for scratch. `None` if the job cannot
    /// write the output there, or if the output is already there.
    pub fn with_spread_output(&self) -> Option<Self> {
        let spread = self.drives.iter().filter(|drive| drive.scratch > 0.0);
        let is_spread = |drive: &DriveShare| (drive.output - drive.scratch).abs() < 1e-6;
        let has_output = self.drives.iter().any(|drive| drive.output > 0.0);
        if !self.can_spread
            || spread.count() < 2
            || !has_output
            || self.drives.iter().all(is_spread)
        {
            return None;
        }
        let mut other = self.clone();
        for drive in &mut other.drives {
            drive.output = drive.scratch;
        }
        Some(other)
    }

    /// The seconds that drives need for `moves`.
    pub(crate) fn moving_seconds(&self, moves: &Moves) -> f64 {
        let busy = self.drives.iter().map(|drive| drive.busy(moves).seconds);
        busy.fold(self.group_seconds(moves), f64::max)
    }

    /// The time that drives need for `moves`, while processors compute for `computing_seconds`.
    pub fn time(&self, moves: &Moves, computing_seconds: f64) -> PhaseTime {
        let busy: Vec<Busy<'_>> = self.drives.iter().map(|drive| drive.busy(moves)).collect();
        let slowest = busy.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let slowest_seconds = slowest.map_or(0.0, |drive| drive.seconds);
        let group_seconds = self.group_seconds(moves);
        let moving_seconds = slowest_seconds.max(group_seconds);
        let longest = |of: fn(&Busy<'_>) -> f64| busy.iter().map(of).fold(0.0, f64::max);
        let serial_seconds = longest(|drive| drive.reading) + longest(|drive| drive.writing);
        let moving_seconds =
            moves.serial_share * serial_seconds + (1.0 - moves.serial_share) * moving_seconds;
        let seconds = moving_seconds.max(computing_seconds);
        let active = busy.iter().filter(|drive| drive.seconds > 0.0);
        let is_alike = |drive: &Busy<'_>| drive.seconds >= ALIKE * slowest_seconds;
        let active_count = active.clone().count();
        let bound = match slowest {
            _ if seconds <= 0.0 => None,
            _ if computing_seconds >= seconds => Some(Bound::Processors),
            _ if group_seconds > slowest_seconds => Some(Bound::Group),
            Some(_) if active_count > 1 && active.clone().all(is_alike) => Some(Bound::AllDrives),
            Some(busy) => Some(Bound::Drive {
                name: Arc::clone(&busy.drive.name),
                role: busy.role,
            }),
            None => None,
        };
        let is_known = |busy: &Busy<'_>| {
            busy.drive.speed.rates.origin != RatesOrigin::Assumed || busy.seconds == 0.0
        };
        PhaseTime {
            seconds,
            bound,
            is_measured: busy.iter().all(is_known),
        }
    }

    /// The longest time of a limit that drives share.
    fn group_seconds(&self, moves: &Moves) -> f64 {
        let seconds = |group: GroupSpeed| {
            let members = self.drives.iter().filter(|drive| {
                let number = drive.speed.group.map(|of| of.number);
                number == Some(group.number)
            });
            let (mut read_bytes, mut written_bytes) = (0.0, 0.0);
            for drive in members {
                read_bytes += drive.read_bytes(moves);
                written_bytes += drive.written_bytes(moves);
            }
            (read_bytes / group.read_bytes_per_s)
                .max(written_bytes / group.write_bytes_per_s)
                .max((read_bytes + written_bytes) / group.both_bytes_per_s)
        };
        let groups = self.drives.iter().filter_map(|drive| drive.speed.group);
        groups.map(seconds).fold(0.0, f64::max)
    }
}

impl DriveShare {
    fn read_bytes(&self, moves: &Moves) -> f64 {
        self.inputs * moves.input_bytes + self.scratch * moves.scratch_read_bytes
    }

    fn written_bytes(&self, moves: &Moves) -> f64 {
        self.scratch * moves.scratch_written_bytes + self.output * moves.output_bytes
    }

    /// The time of the drive, and whether most of these bytes are inputs, scratch or output.
    fn busy(&self, moves: &Moves) -> Busy<'_> {
        let rates = &self.speed.rates;
        let (read_bytes, written_bytes) = (self.read_bytes(moves), self.written_bytes(moves));
        let reading = read_bytes / rates.read_bytes_per_s;
        let writing = written_bytes / rates.write_bytes_per_s;
        let all_bytes = moves.input_bytes
            + moves.scratch_read_bytes
            + moves.scratch_written_bytes
            + moves.output_bytes;
        let share = (read_bytes + written_bytes) / all_bytes.max(1.0);
        let role = match reading >= writing {
            true if 2.0 * self.inputs * moves.input_bytes >= read_bytes => Role::Inputs,
            false if 2.0 * self.output * moves.output_bytes >= written_bytes => Role::Output,
            _ => Role::Scratch,
        };
        let requesting = share * moves.requests / rates.requests_per_s;
        Busy {
            drive: self,
            seconds: reading.max(writing).max(requesting),
            reading,
            writing,
            role,
        }
    }
}

/// A layout that is being made.
struct Making<'a> {
    speeds: &'a Speeds,
    /// File systems of the drives that a volume would have.
    lanes: Vec<u64>,
    /// The places of file systems. Each file system is looked up in the kernel once.
    known: Vec<Known>,
    drives: Vec<DriveShare>,
}

/// A file system, and the index of its drive.
struct Known {
    file_system: u64,
    drive: usize,
}

impl Making<'_> {
    /// Counts a further file system as a drive.
    fn meet(&mut self, file_system: u64) {
        if !self.lanes.contains(&file_system) {
            self.lanes.push(file_system);
        }
    }

    /// The drive of a file system.
    fn drive(&mut self, file_system: u64, dir: &Path, name: Option<&str>) -> &mut DriveShare {
        let mut known = self.known.iter();
        if let Some(known) = known.find(|known| known.file_system == file_system) {
            return &mut self.drives[known.drive];
        }
        let physical = physical_drive(file_system);
        let mut drives = self.drives.iter();
        let index = drives.position(|drive| drive.physical == physical);
        let index = index.unwrap_or_else(|| {
            let name = name.map_or_else(|| dir.display().to_string(), str::to_string);
            self.drives.push(DriveShare {
                name: name.into(),
                physical,
                speed: self.speeds.of(file_system, dir),
                inputs: 0.0,
                scratch: 0.0,
                output: 0.0,
            });
            self.drives.len() - 1
        });
        self.known.push(Known {
            file_system,
            drive: index,
        });
        &mut self.drives[index]
    }
}

impl fmt::Display for Layout {
    /// The rates of the drives of this layout.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = self.rates();
        let read_rate = |drive: &DriveShare| drive.speed.rates.read_bytes_per_s;
        let write_rate = |drive: &DriveShare| drive.speed.rates.write_bytes_per_s;
        let is_alike = |drive: &DriveShare| {
            units::rate_decimal(read_rate(drive)) == units::rate_decimal(mean.read_bytes_per_s)
                && units::rate_decimal(write_rate(drive))
                    == units::rate_decimal(mean.write_bytes_per_s)
        };
        if self.drives.iter().all(is_alike) {
            return mean.fmt(f);
        }
        for (index, drive) in self.drives.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            let (read, write) = (
                units::rate_decimal(read_rate(drive)),
                units::rate_decimal(write_rate(drive)),
            );
            write!(f, "{comma}{} {read} read, {write} written", drive.name)?;
        }
        write!(f, " ({})", mean.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore_io::drive::rates::SpeedSource;
    use outcore_io::drive::testing::{RamDevice, RamOptions};

    const MB: f64 = 1e6;

    fn rates(mb_per_s: f64) -> DriveRates {
        DriveRates {
            read_bytes_per_s: mb_per_s * MB,
            write_bytes_per_s: mb_per_s * MB,
            requests_per_s: 1e9,
            origin: RatesOrigin::DrivesFile,
        }
    }

    fn layout(inputs: &[(&str, u64)], outputs: &[&str], drives: &[&str]) -> Layout {
        let device = RamDevice::new(RamOptions::default());
        let drives: Vec<_> = drives.iter().map(ScratchDrive::new).collect();
        let inputs: Vec<_> = inputs
            .iter()
            .map(|(dir, bytes)| InputPlace {
                file_system: outcore_io::drive::FileSystem::file_system(&device, Path::new(dir))
                    .unwrap(),
                dir: PathBuf::from(dir),
                bytes: *bytes,
            })
            .collect();
        let outputs = OutputPlaces::Files(outputs.iter().map(PathBuf::from).collect());
        let speeds = Speeds::new(rates(25.0));
        Layout::new(&device, &speeds, &inputs, &outputs, &drives).of_spreadable_output(true)
    }

    const FOUR: [&str; 4] = ["/a", "/b", "/c", "/d"];

    #[test]
    fn the_drive_of_the_only_output_bounds_the_last_phase() {
        let all = layout(&[("/a", 100)], &["/b/out"], &FOUR);
        let last = Moves {
            scratch_read_bytes: 100.0 * MB,
            output_bytes: 100.0 * MB,
            ..Moves::default()
        };
        let time = all.time(&last, 0.0);
        assert_eq!(time.seconds, 4.0);
        let said = time.bound.unwrap().to_string();
        assert_eq!(said, "/b bounds it: the output is there");
        let spread = all.with_spread_output().unwrap();
        let time = spread.time(&last, 0.0);
        assert_eq!((time.seconds, time.bound), (1.0, Some(Bound::AllDrives)));
        assert!(spread.with_spread_output().is_none());
    }

    #[test]
    fn reads_and_writes_of_one_drive_overlap_and_its_roles_add_up() {
        let all = layout(&[("/a", 100)], &["/a/out"], &FOUR);
        let first = Moves {
            input_bytes: 100.0 * MB,
            scratch_written_bytes: 80.0 * MB,
            ..Moves::default()
        };
        let time = all.time(&first, 0.0);
        assert_eq!(time.seconds, 4.0);
        let said = time.bound.unwrap().to_string();
        assert_eq!(said, "/a bounds it: the inputs are there");
        let both = Moves {
            scratch_written_bytes: 100.0 * MB,
            output_bytes: 50.0 * MB,
            ..Moves::default()
        };
        assert_eq!(all.time(&both, 0.0).seconds, 3.0);
        // 100 MB are read from one drive, then 50 MB are written to it.
        let in_turn = Moves {
            input_bytes: 100.0 * MB,
            output_bytes: 50.0 * MB,
            serial_share: 1.0,
            ..Moves::default()
        };
        assert_eq!(all.time(&in_turn, 0.0).seconds, 6.0);
        assert_eq!(all.time(&both, 9.0).bound, Some(Bound::Processors));
        assert_eq!(all.time(&Moves::default(), 0.0).bound, None);
    }

    #[test]
    fn directories_on_one_drive_are_one_drive() {
        let all = layout(&[("/a/x", 10)], &["/a/out"], &["/a/x", "/a/y"]);
        let scratch = Moves {
            scratch_written_bytes: 50.0 * MB,
            ..Moves::default()
        };
        assert_eq!(all.time(&scratch, 0.0).seconds, 2.0);
        assert_eq!(all.lane_count(), 2, "a volume serves both");
        assert!(all.with_spread_output().is_none());
    }

    #[test]
    fn a_limit_that_drives_share_counts() {
        struct Shared;
        impl SpeedSource for Shared {
            fn speed(&self, _file_system: u64, _dir: &Path) -> DriveSpeed {
                let group = GroupSpeed {
                    number: 0,
                    read_bytes_per_s: f64::INFINITY,
                    write_bytes_per_s: 20.0 * MB,
                    both_bytes_per_s: f64::INFINITY,
                };
                DriveSpeed {
                    rates: rates(25.0),
                    group: Some(group),
                }
            }
        }
        let device = RamDevice::new(RamOptions::default());
        let drives: Vec<_> = FOUR.iter().map(ScratchDrive::new).collect();
        let speeds = Speeds::new(Shared);
        let all = Layout::new(&device, &speeds, &[], &OutputPlaces::Pipe, &drives);
        let scratch = Moves {
            scratch_written_bytes: 100.0 * MB,
            scratch_read_bytes: 100.0 * MB,
            ..Moves::default()
        };
        let time = all.time(&scratch, 0.0);
        assert_eq!((time.seconds, time.bound), (5.0, Some(Bound::Group)));
    }
}
