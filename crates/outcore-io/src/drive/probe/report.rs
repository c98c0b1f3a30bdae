//! The results of a probe: values for `drives.toml`, a table for people, and the groups of drives.
//!
//! Contract: pure; nothing is measured here. Every value for the drives file was measured, and the
//! notes list any doubts about it.

use std::fmt;

use serde::Serialize;

use crate::config::{DriveSet, DriveSpec, GroupSpec};
use crate::error::Result;
use crate::units;

/// Results for one drive.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriveProbe {
    /// The drive as it is written to `drives.toml`.
    pub spec: DriveSpec,
    /// Sequential reads of 1 MiB: (requests in flight, bytes per second).
    pub read_by_depth: Vec<(u32, u64)>,
    /// Random reads of 4 KiB: (requests in flight, reads per second).
    pub iops_by_depth: Vec<(u32, u64)>,
    /// Size of the file used for the measurement.
    pub file_bytes: u64,
    /// Whether the file is in memory.
    pub is_in_memory: bool,
    /// The name of the same drive under which it was measured.
    pub same_as: Option<String>,
    /// Caveats for the reader of these figures.
    pub notes: Vec<String>,
}

/// All drives at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Together {
    /// Reads of all drives at the same time, bytes per second.
    pub read_bytes_per_s: u64,
    /// Writes of all drives at the same time.
    pub write_bytes_per_s: u64,
    /// Reads as a share of the sum of the single drives.
    pub read_share: f64,
    /// Writes as a share of the sum of the single drives.
    pub write_share: f64,
}

/// Results for all drives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeReport {
    /// The drives, in the order in which the user named them.
    pub drives: Vec<DriveProbe>,
    /// All drives at once, if there is more than one.
    pub together: Option<Together>,
    /// Limits that drives share.
    pub groups: Vec<GroupSpec>,
    /// Processors of this machine; each drive uses one thread.
    pub processors: usize,
    /// Duration of the probe.
    pub seconds: f64,
}

impl DriveProbe {
    pub(super) fn new(spec: &DriveSpec, is_direct: bool, is_in_memory: bool) -> Self {
        let mut spec = spec.clone();
        spec.group = None;
        spec.direct_io = Some(is_direct);
        DriveProbe {
            spec,
            read_by_depth: Vec::new(),
            iops_by_depth: Vec::new(),
            file_bytes: 0,
            is_in_memory,
            same_as: None,
            notes: Vec::new(),
        }
    }

    pub(super) fn add_notes(&mut self) {
        if self.is_in_memory {
            self.notes.push(
                "this file system is in memory (tmpfs): its files take memory, and its rates are not \
                 those of a drive"
                    .to_string(),
            );
        } else if self.spec.direct_io != Some(true) {
            self.notes.push(
                "buffered: reads come from the page cache, so read figures are guesses".to_string(),
            );
        } else {
            self.notes.push(format!(
                "the write test used only {}, which may fit in the drive's own cache: sustained writes may be slower",
                units::bytes(self.file_bytes)
            ));
        }
        if !self.spec.features.iter().any(|name| name == "io_uring") {
            self.notes.push(
                "io_uring is not available: pread and pwrite in threads were measured".to_string(),
            );
        }
    }

    /// The same drive under another name.
    pub(super) fn of_same_file_system(&self, spec: &DriveSpec) -> Self {
        let mut same = self.clone();
        same.spec.name.clone_from(&spec.name);
        same.spec.dir.clone_from(&spec.dir);
        same.spec.weight = spec.weight;
        same.spec.capacity_limit_bytes = spec.capacity_limit_bytes;
        same.same_as = Some(self.spec.name.clone());
        same.notes = vec![format!(
            "same file system as `{}`: using both gives no speed-up",
            self.spec.name
        )];
        same
    }
}

impl ProbeReport {
    pub(super) fn new(drives: Vec<DriveProbe>) -> Self {
        ProbeReport {
            drives,
            together: None,
            groups: Vec::new(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            seconds: 0.0,
        }
    }

    /// Puts drives into a group with a limit.
    pub(super) fn add_group(
        &mut self,
        members: &[usize],
        read_bytes_per_s: u64,
        write_bytes_per_s: u64,
    ) {
        let name = format!("group{}", self.groups.len());
        for member in members {
            self.drives[*member].spec.group = Some(name.clone());
        }
        self.groups.push(GroupSpec {
            name,
            read_bytes_per_s: Some(read_bytes_per_s),
            write_bytes_per_s: Some(write_bytes_per_s),
            depth: None,
        });
    }

    /// Puts several names of one drive into a group with the rates of that drive.
    pub(super) fn group_twins(&mut self) {
        for twin in 0..self.drives.len() {
            let same_as = self.drives[twin].same_as.clone();
            let first = same_as.and_then(|name| {
                let mut drives = self.drives.iter();
                drives.position(|drive| drive.spec.name == name)
            });
            let Some(first) = first else { continue };
            if self.drives[first].spec.group.is_none() {
                let spec = &self.drives[first].spec;
                let read_bytes_per_s = spec.read_bytes_per_s.unwrap_or(1);
                let write_bytes_per_s = spec.write_bytes_per_s.unwrap_or(1);
                self.add_group(&[first], read_bytes_per_s, write_bytes_per_s);
            }
            self.drives[twin].spec.group = self.drives[first].spec.group.clone();
        }
    }

    /// The drives and groups as a drives file stores them.
    pub fn drive_set(&self) -> DriveSet {
        DriveSet {
            drives: self.drives.iter().map(|drive| drive.spec.clone()).collect(),
            groups: self.groups.clone(),
        }
    }
}

/// Finds which of `count` drives share limits, by testing pairs. If no pair does, although all
/// together fall short, the limit is common to all.
pub(super) fn find_groups(
    count: usize,
    mut is_shared: impl FnMut(usize, usize) -> Result<bool>,
) -> Result<Vec<Vec<usize>>> {
    let mut group_of: Vec<usize> = (0..count).collect();
    for first in 0..count {
        for second in first + 1..count {
            // Drives already known to be in one group need no further test.
            if group_of[first] != group_of[second] && is_shared(first, second)? {
                let (kept, gone) = (group_of[first], group_of[second]);
                group_of
                    .iter_mut()
                    .filter(|group| **group == gone)
                    .for_each(|group| *group = kept);
            }
        }
    }
    let members = |group: usize| -> Vec<usize> {
        (0..count)
            .filter(|drive| group_of[*drive] == group)
            .collect()
    };
    let groups: Vec<Vec<usize>> = (0..count)
        .map(members)
        .filter(|members| members.len() > 1)
        .collect();
    if groups.is_empty() && count > 1 {
        return Ok(vec![(0..count).collect()]);
    }
    Ok(groups)
}

/// Columns, each as wide as its widest cell; numbers are right-aligned.
fn table(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>]) -> fmt::Result {
    let width = |column: usize| -> usize {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            match column {
                0 => write!(f, "{cell:<width$}")?,
                _ => write!(f, "  {cell:>width$}")?,
            }
        }
        writeln!(f)?;
    }
    Ok(())
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bytes_per_s: Option<u64>| {
            bytes_per_s.map_or_else(|| "-".to_string(), |rate| units::rate_decimal(rate as f64))
        };
        let mut head: Vec<String> = ["drive", "read", "write", "depth", "align", "direct"]
            .map(String::from)
            .to_vec();
        let depths = self.drives.first().map(|drive| &drive.iops_by_depth);
        let depths = depths.into_iter().flatten();
        head.extend(depths.map(|(depth, _)| format!("IOPS@{depth}")));
        let mut rows = vec![head];
        for drive in &self.drives {
            let spec = &drive.spec;
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_string());
            let mut row = vec![
                spec.name.clone(),
                rate(spec.read_bytes_per_s),
                rate(spec.write_bytes_per_s),
                or_dash(spec.depth.map(|depth| depth.to_string())),
                or_dash(spec.alignment_bytes.map(|bytes| bytes.to_string())),
                String::from(if spec.direct_io == Some(true) {
                    "yes"
                } else {
                    "no"
                }),
            ];
            row.extend(
                drive
                    .iops_by_depth
                    .iter()
                    .map(|(_, iops)| units::count(*iops)),
            );
            rows.push(row);
        }
        table(f, &rows)?;
        if let Some(together) = self.together {
            writeln!(
                f,
                "all at once: read {} ({:.0} % of the sum), write {} ({:.0} % of the sum)",
                units::rate_decimal(together.read_bytes_per_s as f64),
                together.read_share * 100.0,
                units::rate_decimal(together.write_bytes_per_s as f64),
                together.write_share * 100.0,
            )?;
        }
        if self.drives.len() > self.processors && !self.groups.is_empty() {
            writeln!(
                f,
                "{} processors drove {} drives: a limit may come from the processors",
                self.processors,
                self.drives.len()
            )?;
        }
        for group in &self.groups {
            let members = self.drives.iter().map(|drive| &drive.spec);
            let members: Vec<&str> = members
                .filter(|spec| spec.group.as_ref() == Some(&group.name))
                .map(|spec| spec.name.as_str())
                .collect();
            writeln!(
                f,
                "{} ({}) share a ceiling: read {}, write {}",
                group.name,
                members.join(", "),
                rate(group.read_bytes_per_s),
                rate(group.write_bytes_per_s),
            )?;
        }
        for drive in &self.drives {
            for note in &drive.notes {
                writeln!(f, "{}: {note}", drive.spec.name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn groups(count: usize, shared: &[(usize, usize)]) -> Vec<Vec<usize>> {
        find_groups(count, |first, second| Ok(shared.contains(&(first, second)))).unwrap()
    }

    #[test]
    fn drives_that_hold_each_other_up_are_one_group_even_over_a_third() {
        assert_eq!(groups(4, &[(0, 2), (2, 3)]), [vec![0, 2, 3]]);
        assert_eq!(groups(5, &[(0, 1), (3, 4)]), [vec![0, 1], vec![3, 4]]);
        assert_eq!(groups(3, &[(1, 2)]), [vec![1, 2]]);
    }

    #[test]
    fn a_ceiling_that_no_pair_reaches_is_common_to_all() {
        assert_eq!(groups(3, &[]), [vec![0, 1, 2]]);
        assert!(groups(1, &[]).is_empty());
    }

    #[test]
    fn drives_known_to_be_together_are_not_measured_again() {
        let mut asked = 0;
        find_groups(4, |_, _| {
            asked += 1;
            Ok(true)
        })
        .unwrap();
        assert_eq!(asked, 3);
    }

    #[test]
    fn the_table_names_figures_ceilings_and_doubts() {
        let spec = |name: &str| DriveSpec {
            name: name.to_string(),
            read_bytes_per_s: Some(1_500_000_000),
            depth: Some(4),
            ..DriveSpec::from_dir(format!("/mnt/{name}"))
        };
        let mut first = DriveProbe::new(&spec("a"), true, false);
        first.iops_by_depth = vec![(1, 9000), (64, 300_000)];
        first.file_bytes = 1 << 30;
        first.add_notes();
        let mut memory = DriveProbe::new(&spec("b"), false, true);
        memory.add_notes();
        let twin = first.of_same_file_system(&spec("c"));
        let mut report = ProbeReport::new(vec![first, memory, twin]);
        report.together = Some(Together {
            read_bytes_per_s: 1_800_000_000,
            write_bytes_per_s: 1_000_000,
            read_share: 0.6,
            write_share: 1.0,
        });
        report.add_group(&[0, 1], 1_800_000_000, 1_000_000);
        let text = report.to_string();
        for wanted in [
            "drive       read  write  depth",
            "IOPS@64",
            "300,000",
            "1.50 GB/s",
            "all at once: read 1.80 GB/s (60 % of the sum), write 1.00 MB/s (100 % of the sum)",
            "group0 (a, b) share a ceiling: read 1.80 GB/s",
            "a: the write test used only 1.00 GiB",
            "b: this file system is in memory",
            "c: same file system as `a`",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        let set = report.drive_set();
        let again = DriveSet::parse(&set.to_text().unwrap(), Path::new("/drives.toml")).unwrap();
        assert_eq!(again, set);
        assert_eq!(set.drives[1].group.as_deref(), Some("group0"));
        report.processors = 2;
        assert!(report.to_string().contains("2 processors drove 3 drives"));
    }

    #[test]
    fn two_names_of_one_drive_share_a_group_that_can_do_what_it_can() {
        let spec = DriveSpec {
            read_bytes_per_s: Some(7),
            write_bytes_per_s: Some(5),
            ..DriveSpec::from_dir("/mnt/a")
        };
        let first = DriveProbe::new(&spec, true, false);
        let twin = first.of_same_file_system(&DriveSpec::from_dir("/mnt/b"));
        let other = DriveProbe::new(&DriveSpec::from_dir("/mnt/c"), true, false);
        let mut report = ProbeReport::new(vec![first, other, twin]);
        report.group_twins();
        let groups = report
            .drives
            .iter()
            .map(|drive| drive.spec.group.as_deref());
        assert!(groups.eq([Some("group0"), None, Some("group0")]));
        assert_eq!(report.groups[0].read_bytes_per_s, Some(7));
        assert_eq!(report.groups[0].write_bytes_per_s, Some(5));
    }
}
