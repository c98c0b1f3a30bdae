//! Drives and their groups, as described in `drives.toml`.
//!
//! Contract: a [`DriveSet`] lists directories on drives and the known facts about each drive,
//! measured by `outcore drives probe` or written by hand. Everything except for the directory is
//! optional; missing facts are measured or guessed later. These are errors:
//! - an unknown key; the message names its line and the nearest known key
//! - a drive's group that no `[[group]]` declares
//! - a name used twice, because messages and `{drive}` in output names use the names
//!
//! A file that outcore writes from a set gives an equal set when it is read. Sizes and rates are
//! text with a unit or plain integers (bytes, bytes per second).
//!
//! ```toml
//! [[drive]]
//! name = "nvme0"
//! dir = "/mnt/nvme0/scratch"
//! group = "switch0"
//! read_bandwidth = "7GB/s"
//! write_bandwidth = "6GB/s"
//!
//! [[group]]
//! name = "switch0"
//! read_bandwidth = "12GB/s"
//! ```

mod edit;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::source::file_error;
use crate::error::{Error, Result};
use crate::units::nearest;

const READ: &str = "read drives file";

/// One drive: a directory on it, and the known facts about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// The name used in messages and output names. Default: the last part of the directory.
    #[serde(default)]
    pub name: String,
    /// A directory on the drive. Relative paths are relative to the drives file, if there is one.
    pub dir: PathBuf,
    /// The drive's group. Drives of one group share a bandwidth limit (controller, switch, disk);
    /// see [`GroupSpec`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Share of the scratch data relative to the other drives; above 0. Default: by free space and
    /// measured speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// The most scratch bytes to hold on this drive.
    #[serde(
        rename = "capacity_limit",
        default,
        skip_serializing_if = "Option::is_none",
        with = "text::size"
    )]
    pub capacity_limit_bytes: Option<u64>,
    /// Sequential read bandwidth.
    #[serde(
        rename = "read_bandwidth",
        default,
        skip_serializing_if = "Option::is_none",
        with = "text::rate"
    )]
    pub read_bytes_per_s: Option<u64>,
    /// Sequential write bandwidth.
    #[serde(
        rename = "write_bandwidth",
        default,
        skip_serializing_if = "Option::is_none",
        with = "text::rate"
    )]
    pub write_bytes_per_s: Option<u64>,
    /// Random 4 KiB reads per second at the best depth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_iops: Option<u64>,
    /// Random 4 KiB writes per second at the best depth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_iops: Option<u64>,
    /// The smallest queue depth that reaches nearly all of the bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Whether direct I/O works in the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_io: Option<bool>,
    /// Alignment of offsets and lengths for direct I/O; a power of two.
    #[serde(
        rename = "alignment",
        default,
        skip_serializing_if = "Option::is_none",
        with = "text::size"
    )]
    pub alignment_bytes: Option<u64>,
    /// Alignment of buffers for direct I/O; a power of two.
    #[serde(
        rename = "memory_alignment",
        default,
        skip_serializing_if = "Option::is_none",
        with = "text::size"
    )]
    pub memory_alignment_bytes: Option<u64>,
    /// Other features that the probe found, by its names (`io_uring`, `iopoll`,
    /// `registered-buffers`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

impl DriveSpec {
    /// A drive given only by its directory, and named after the directory's last part.
    pub fn from_dir(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        DriveSpec {
            name: name_of(&dir),
            dir,
            ..Default::default()
        }
    }
}

/// A limit that the drives of a group share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// The name that drives refer to.
    pub name: String,
    /// Read bandwidth of all drives of the group together.
    #[serde(
        rename = "read_bandwidth",
        default,
        skip_serializing_if = "Option::is_none",
        with = "text::rate"
    )]
    pub read_bytes_per_s: Option<u64>,
    /// Write bandwidth of all drives of the group together.
    #[serde(
        rename = "write_bandwidth",
        default,
        skip_serializing_if = "Option::is_none",
        with = "text::rate"
    )]
    pub write_bytes_per_s: Option<u64>,
    /// Requests that all drives of the group together have in flight at most (a controller's own
    /// queue).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
}

/// All drives to use, in order, and their groups.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSet {
    /// The drives; empty if the user named none.
    #[serde(rename = "drive", default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveSpec>,
    /// Limits that drives share.
    #[serde(rename = "group", default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSpec>,
}

impl DriveSet {
    /// Parses the text of a drives file. Errors name `path`, and relative directories are relative
    /// to its directory.
    ///
    /// Errors (usage): broken TOML, an unknown key, an impossible value, a name used twice, a group
    /// that is not declared.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut set: DriveSet =
            toml::from_str(text).map_err(|error| file_error(READ, path, text, &error))?;
        let base = path.parent().unwrap_or(Path::new(""));
        for drive in &mut set.drives {
            if drive.dir.as_os_str().is_empty() {
                return Err(Error::usage(READ, "a drive's `dir` is empty").path(path));
            }
            drive.dir = base.join(&drive.dir);
            if drive.name.is_empty() {
                drive.name = name_of(&drive.dir);
            }
        }
        set.check().map_err(|why| {
            Error::usage(READ, why)
                .path(path)
                .hint("correct the file, or let `outcore drives probe` write a new one")
        })?;
        Ok(set)
    }

    /// Reads a drives file.
    ///
    /// Errors: as [`DriveSet::parse`]; I/O if it cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| Error::io(READ, &error).path(path))?;
        Self::parse(&text, path)
    }

    /// The set that `--drive` arguments describe. Each argument is a directory, or a drives file
    /// ending in `.toml`. Directories get unique names, in order.
    pub fn from_arguments<P: AsRef<Path>>(arguments: &[P]) -> Result<Self> {
        let mut all = DriveSet::default();
        for argument in arguments {
            let argument = argument.as_ref();
            let is_file = argument.extension().is_some_and(|end| end == "toml");
            if is_file && !argument.is_dir() {
                let set = Self::read(argument)?;
                all.drives.extend(set.drives);
                all.groups.extend(set.groups);
            } else {
                all.push_dir(argument);
            }
        }
        all.check()
            .map_err(|why| Error::usage("read drives", why))?;
        Ok(all)
    }

    /// Adds a directory under a name that no other drive has.
    pub fn push_dir(&mut self, dir: &Path) {
        let mut drive = DriveSpec::from_dir(dir);
        let base = drive.name.clone();
        let mut number = 2;
        while self.drives.iter().any(|other| other.name == drive.name) {
            drive.name = format!("{base}-{number}");
            number += 1;
        }
        self.drives.push(drive);
    }

    /// The first fault of the set, as an error.
    fn check(&self) -> std::result::Result<(), String> {
        let mut names = HashSet::new();
        for drive in &self.drives {
            let name = &drive.name;
            if !names.insert(name) {
                return Err(format!("two drives are named `{name}`"));
            }
            if name.contains(['/', '\0', '\n']) || name == "." || name == ".." {
                return Err(format!("drive name `{name}` cannot be part of a file name"));
            }
            if drive
                .weight
                .is_some_and(|weight| !(weight.is_finite() && weight > 0.0))
            {
                return Err(format!("drive `{name}`: its weight must be above 0"));
            }
            let alignments = [drive.alignment_bytes, drive.memory_alignment_bytes];
            if alignments
                .iter()
                .flatten()
                .any(|bytes| !bytes.is_power_of_two())
            {
                return Err(format!("drive `{name}`: alignments are powers of two"));
            }
            let zero = [drive.read_bytes_per_s, drive.write_bytes_per_s].contains(&Some(0))
                || drive.depth == Some(0);
            if zero {
                return Err(format!(
                    "drive `{name}`: bandwidths and depth must be above 0"
                ));
            }
        }
        self.check_groups()
    }

    /// The first fault of the groups, as an error.
    fn check_groups(&self) -> std::result::Result<(), String> {
        let mut names = HashSet::new();
        for group in &self.groups {
            let name = &group.name;
            if !names.insert(name.as_str()) {
                return Err(format!("two groups are named `{name}`"));
            }
            let zero = [group.read_bytes_per_s, group.write_bytes_per_s].contains(&Some(0))
                || group.depth == Some(0);
            if zero {
                return Err(format!(
                    "group `{name}`: bandwidths and depth must be above 0"
                ));
            }
        }
        for drive in &self.drives {
            let Some(group) = &drive.group else { continue };
            if names.contains(group.as_str()) {
                continue;
            }
            let known: Vec<&str> = self.groups.iter().map(|group| &group.name[..]).collect();
            let meant = match nearest(group, &known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("add `[[group]]` with `name = \"{group}\"`"),
            };
            return Err(format!(
                "drive `{}`: there is no group `{group}`; {meant}",
                drive.name
            ));
        }
        Ok(())
    }

    /// The text of a drives file.
    pub fn to_text(&self) -> Result<String> {
        let body = toml::to_string(self)
            .map_err(|error| Error::usage("write drives file", error.to_string()))?;
        Ok(format!(
            "# Drives for outcore. Only `dir` is required; bandwidths are in bytes per second.\n\n{body}"
        ))
    }
}

/// The last part of a directory's name.
fn name_of(dir: &Path) -> String {
    match dir.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => "drive".to_string(),
    }
}

/// Sizes and rates in TOML: an integer, or text with a unit.
pub(super) mod text {
    use serde::{Deserialize, Deserializer, de};

    use crate::error::Result;

    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a number of bytes, or text with a unit such as \"4GiB\""
    )]
    enum Value {
        Integer(u64),
        Text(String),
    }

    fn read<'de, D: Deserializer<'de>>(
        deserializer: D,
        parse: fn(&str) -> Result<u64>,
    ) -> std::result::Result<Option<u64>, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Integer(value) => Ok(Some(value)),
            Value::Text(text) => parse(&text).map(Some).map_err(de::Error::custom),
        }
    }

    macro_rules! text_form {
        ($name:ident, $parse:ident, $print:ident) => {
            pub(crate) mod $name {
                use serde::{Deserializer, Serializer};

                use crate::units;

                pub(crate) fn serialize<S: Serializer>(
                    value: &Option<u64>,
                    serializer: S,
                ) -> std::result::Result<S::Ok, S::Error> {
                    match value {
                        Some(value) => serializer.serialize_str(&units::$print(*value)),
                        None => serializer.serialize_none(),
                    }
                }

                pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                    deserializer: D,
                ) -> std::result::Result<Option<u64>, D::Error> {
                    super::read(deserializer, units::$parse)
                }
            }
        };
    }

    text_form!(size, parse_bytes, bytes_exact);
    text_form!(rate, parse_positive_rate, rate_exact);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<DriveSet> {
        DriveSet::parse(text, Path::new("/etc/x/drives.toml"))
    }

    #[test]
    fn a_drives_file_is_read_with_units_and_names() {
        let text = r#"
            [[drive]]
            dir = "/mnt/nvme0"
            read_bandwidth = "7GB/s"
            write_bandwidth = 6000000000
            capacity_limit = "100GiB"
            alignment = 4096
            group = "switch0"

            [[drive]]
            name = "b"
            dir = "relative"
            weight = 2.5
            direct_io = false

            [[group]]
            name = "switch0"
            read_bandwidth = "12GB/s"
        "#;
        let set = parse(text).unwrap();
        assert_eq!(set.drives[0].name, "nvme0");
        assert_eq!(set.drives[0].read_bytes_per_s, Some(7_000_000_000));
        assert_eq!(set.drives[0].write_bytes_per_s, Some(6_000_000_000));
        assert_eq!(set.drives[0].capacity_limit_bytes, Some(100 << 30));
        assert_eq!(set.drives[1].dir, Path::new("/etc/x/relative"));
        assert_eq!(set.drives[1].direct_io, Some(false));
        assert_eq!(set.groups[0].read_bytes_per_s, Some(12_000_000_000));
        assert_eq!(parse("").unwrap(), DriveSet::default());
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_known_key() {
        let error = parse("[[drive]]\ndir = \"/a\"\nread_bandwith = \"1GB/s\"\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("line 3"), "{text}");
        assert!(text.contains("`read_bandwith`"), "{text}");
        assert!(text.contains("did you mean `read_bandwidth`?"), "{text}");
        assert!(text.contains("/etc/x/drives.toml"), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }

    #[test]
    fn impossible_values_are_refused_where_they_stand() {
        let refused = [
            (
                "[[drive]]\ndir = \"/a\"\nread_bandwidth = \"1G/s\"",
                "line 3",
            ),
            ("[[drive]]\ndir = \"/a\"\nread_bandwidth = -1", "line 3"),
            ("[[drive]]\nname = \"a\"", "line 1"),
            ("[[drive]\n", "line 1"),
            ("[[drive]]\ndir = \"/a\"\nweight = 0.0", "weight"),
            ("[[drive]]\ndir = \"/a\"\nalignment = 1000", "powers of two"),
            (
                "[[drive]]\ndir = \"/a\"\n[[drive]]\ndir = \"/b/a\"",
                "two drives are named `a`",
            ),
            ("[[drive]]\ndir = \"/a\"\nname = \"x/y\"", "file name"),
            ("[[drive]]\ndir = \"\"", "empty"),
            (
                "[[group]]\nname = \"g\"\n[[group]]\nname = \"g\"",
                "two groups",
            ),
            (
                "[[group]]\nname = \"g\"\ndepth = 0",
                "group `g`: bandwidths and depth must be above 0",
            ),
            ("[[group]]\nname = \"g\"\ndepht = 64", "line 3"),
        ];
        for (text, wanted) in refused {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), crate::error::Kind::Usage);
            assert!(error.to_string().contains(wanted), "{error} lacks {wanted}");
        }
    }

    #[test]
    fn a_group_that_is_not_declared_is_refused_and_the_nearest_named() {
        let drive = "[[drive]]\ndir = \"/a\"\ngroup = \"swich0\"\n";
        let error = parse(drive).unwrap_err().to_string();
        assert!(
            error.contains("drive `a`: there is no group `swich0`; add `[[group]]`"),
            "{error}"
        );
        let declared = format!("{drive}[[group]]\nname = \"switch0\"\ndepth = 64\n");
        let error = parse(&declared).unwrap_err().to_string();
        assert!(error.contains("did you mean `switch0`?"), "{error}");
        parse(&declared.replace("swich0", "switch0")).unwrap();
    }

    #[test]
    fn a_drive_gets_another_directory_and_all_else_stays() {
        let text =
            "# mine\n[[drive]]\ndir = '/a'  # first\n\n[[drive]]\nname = \"x\"\ndir = \"/b\"\n";
        let changed = |name, dir| {
            DriveSet::with_dir(text, Path::new("/etc/x/drives.toml"), name, Path::new(dir))
        };
        assert_eq!(
            changed("x", "/c d").unwrap(),
            text.replace("\"/b\"", "\"/c d\"")
        );
        let first = changed("a", "/new").unwrap();
        assert_eq!(first, text.replace("'/a'", "\"/new\"\nname = \"a\""));
        let error = changed("y", "/new").unwrap_err();
        assert_eq!(error.kind(), crate::error::Kind::Usage);
    }

    #[test]
    fn directories_given_as_arguments_get_unique_names() {
        let set = DriveSet::from_arguments(&["/a/scratch", "/b/scratch", "/"]).unwrap();
        let names: Vec<&str> = set.drives.iter().map(|drive| drive.name.as_str()).collect();
        assert_eq!(names, ["scratch", "scratch-2", "drive"]);
        let error = DriveSet::from_arguments(&["/nowhere/at/all.toml"]).unwrap_err();
        assert_eq!(error.kind(), crate::error::Kind::Io);
    }

    fn any_drive() -> impl Strategy<Value = DriveSpec> {
        let rates = any::<(Option<u32>, Option<u32>, Option<u64>, Option<bool>)>();
        let rest = (
            any::<Option<u8>>(),
            0u32..20,
            "[a-z\"\\\\ ]{0,8}",
            0.001f64..1e9,
        );
        (rates, rest).prop_map(
            |((read, write, limit, direct_io), (depth, shift, text, weight))| DriveSpec {
                dir: PathBuf::from(format!("/mnt/{text}x")),
                group: direct_io.map(|_| "g".to_string()),
                weight: depth.map(|_| weight),
                capacity_limit_bytes: limit.map(|limit| limit >> 1),
                read_bytes_per_s: read.map(|read| u64::from(read) + 1),
                write_bytes_per_s: write.map(|write| (u64::from(write) + 1) * 1000),
                read_iops: read.map(u64::from),
                depth: depth.map(|depth| u32::from(depth) + 1),
                direct_io,
                alignment_bytes: direct_io.map(|_| 1 << shift),
                features: vec![text; depth.map_or(0, |depth| usize::from(depth % 3))],
                ..Default::default()
            },
        )
    }

    proptest! {
        #[test]
        fn written_drives_are_read_back_equal(
            mut drives in proptest::collection::vec(any_drive(), 0..4), rate: Option<u32>,
        ) {
            for (index, drive) in drives.iter_mut().enumerate() {
                drive.name = format!("{index}");
            }
            let group = GroupSpec {
                name: "g".to_string(),
                read_bytes_per_s: rate.map(|rate| u64::from(rate) + 1),
                write_bytes_per_s: None,
                depth: rate.map(|rate| rate / 2 + 1),
            };
            let set = DriveSet { drives, groups: vec![group] };
            prop_assert_eq!(parse(&set.to_text().unwrap()).unwrap(), set);
        }
    }
}
