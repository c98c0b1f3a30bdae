//! Configuration: the user's settings, their sources, and the defaults.
//!
//! Contract: each setting is taken from the first of these sources that has it: command-line flag,
//! environment (`OUTCORE_MEMORY`), configuration file, default. The setting remembers its source
//! for `outcore config show`. The file is `OUTCORE_CONFIG`, or else `outcore/config.toml` under
//! `XDG_CONFIG_HOME` or `~/.config`; an empty `OUTCORE_CONFIG` means no file. An unknown key in a
//! file is an error, and an unknown `OUTCORE_` variable is a warning ([`Environment::unknown`]).
//! Both messages name the nearest known key or variable, so no setting is ignored silently. A
//! [`Config`] is a value; nothing here is global.
//!
//! ```toml
//! memory = "2GiB"
//! threads = 8
//! io = "direct"              # auto, direct, buffered
//! scratch_limit = "500GiB"
//! drives = ["/mnt/nvme0", "/mnt/nvme1"]    # or "drives.toml"
//! resume_days = 7            # how long a killed job can be resumed
//! ```

mod drives;
mod machine;
mod source;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use drives::{DriveSet, DriveSpec, GroupSpec};
pub use machine::{Defaults, free_memory_bytes};
pub use source::Environment;

use crate::error::{Error, Result};
use crate::units;
use source::{ConfigFile, DriveList};

/// The largest number of threads that a user can ask for.
pub(crate) const THREADS_MAX: usize = 4096;

/// The environment variables that set something, in the order shown to users.
pub(crate) const VARIABLES: [&str; 7] = [
    "OUTCORE_MEMORY",
    "OUTCORE_THREADS",
    "OUTCORE_IO",
    "OUTCORE_SCRATCH_LIMIT",
    "OUTCORE_DRIVES",
    "OUTCORE_RESUME_DAYS",
    "OUTCORE_CONFIG",
];

/// Days for which a killed job can be resumed, by default.
const RESUME_DAYS: u64 = 7;

/// How files are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IoMode {
    /// Direct if the file system supports it, otherwise buffered.
    #[default]
    Auto,
    /// Bypasses the page cache; an error if that is impossible.
    Direct,
    /// Through the page cache.
    Buffered,
}

impl IoMode {
    /// Every mode, in the order shown to users.
    pub const ALL: [IoMode; 3] = [IoMode::Auto, IoMode::Direct, IoMode::Buffered];

    /// The word in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            IoMode::Auto => "auto",
            IoMode::Direct => "direct",
            IoMode::Buffered => "buffered",
        }
    }
}

impl fmt::Display for IoMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for IoMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        IoMode::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| {
                Error::usage("read I/O mode", format!("unknown mode `{text}`"))
                    .hint("known modes: auto, direct, buffered")
            })
    }
}

/// The source of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A flag of the command, or an argument of the caller.
    Flag,
    /// An environment variable.
    Environment(&'static str),
    /// A configuration file, with the line if it is known.
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: Option<usize>,
    },
    /// The built-in default.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag => f.write_str("flag"),
            Source::Environment(name) => write!(f, "the environment ({name})"),
            Source::File {
                path,
                line: Some(line),
            } => write!(f, "{}:{line}", path.display()),
            Source::File { path, line: None } => write!(f, "{}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A value and its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// The source of the value.
    pub source: Source,
}

/// Settings from the command line or the calling program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// Memory a job may use.
    pub memory_bytes: Option<u64>,
    /// Compute threads.
    pub threads: Option<usize>,
    /// How files are read and written.
    pub io: Option<IoMode>,
    /// Directories on drives, or drives files ending in `.toml`; empty means not set.
    pub drives: Vec<PathBuf>,
    /// The most scratch space on all drives together.
    pub scratch_limit_bytes: Option<u64>,
}

/// Everything a job takes from its surroundings, each with its source.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Memory a job may use.
    pub memory_bytes: Setting<u64>,
    /// Compute threads, 1 to [`THREADS_MAX`].
    pub threads: Setting<usize>,
    /// How files are read and written.
    pub io: Setting<IoMode>,
    /// Drives for scratch; an empty set means the directory of the output.
    pub drives: Setting<DriveSet>,
    /// The most scratch space on all drives together.
    pub scratch_limit_bytes: Setting<Option<u64>>,
    /// How many days after its last checkpoint a killed job can be resumed.
    pub resume_days: Setting<u64>,
    /// The configuration file, if one was read.
    pub file: Option<PathBuf>,
}

/// One line of `outcore config show`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigRow {
    /// Key in the configuration file.
    pub key: &'static str,
    /// The value in force, as it would be written in the file.
    pub value: String,
    /// The source of the value.
    pub source: String,
}

impl Config {
    /// Merges flags, environment variables, the configuration file that they name, and defaults.
    ///
    /// Errors: usage for an unknown key or an impossible value; I/O if a file that the user named
    /// cannot be read.
    pub fn load(flags: &Flags, environment: &Environment, defaults: &Defaults) -> Result<Self> {
        let file = ConfigFile::load(environment)?;
        let in_file =
            |pick: &dyn Fn(&ConfigFile) -> Option<Setting<u64>>| file.as_ref().and_then(pick);
        let memory_bytes = first(
            flags.memory_bytes,
            environment.read("OUTCORE_MEMORY", units::parse_bytes)?,
            in_file(&|file| file.take(&file.content.memory, |size| size.0.unwrap_or_default())),
            defaults.memory_bytes,
        );
        let scratch_limit_bytes = first(
            flags.scratch_limit_bytes.map(Some),
            environment.read("OUTCORE_SCRATCH_LIMIT", |text| {
                units::parse_bytes(text).map(Some)
            })?,
            file.as_ref()
                .and_then(|file| file.take(&file.content.scratch_limit, |size| size.0)),
            None,
        );
        let threads = first(
            flags.threads,
            environment.read("OUTCORE_THREADS", parse_threads)?,
            file.as_ref()
                .and_then(|file| file.take(&file.content.threads, |threads| *threads)),
            defaults.threads.clamp(1, THREADS_MAX),
        );
        check_threads(&threads)?;
        let io = first(
            flags.io,
            environment.read("OUTCORE_IO", str::parse)?,
            file.as_ref()
                .and_then(|file| file.take(&file.content.io, |io| io.0)),
            IoMode::Auto,
        );
        let drives = load_drives(flags, environment, file.as_ref())?;
        let resume_days = first(
            None,
            environment.read("OUTCORE_RESUME_DAYS", parse_days)?,
            in_file(&|file| file.take(&file.content.resume_days, |days| *days)),
            RESUME_DAYS,
        );
        let file = file.map(|file| file.path);
        Ok(Config {
            memory_bytes,
            threads,
            io,
            drives,
            scratch_limit_bytes,
            resume_days,
            file,
        })
    }

    /// The settings as text, in the order shown to users.
    pub fn rows(&self) -> Vec<ConfigRow> {
        let row = |key, value, source: &Source| ConfigRow {
            key,
            value,
            source: source.to_string(),
        };
        let limit = self.scratch_limit_bytes.value;
        let dirs = self.drives.value.drives.iter();
        let dirs: Vec<String> = dirs.map(|drive| drive.dir.display().to_string()).collect();
        let drives = if dirs.is_empty() {
            "next to the output".to_string()
        } else {
            dirs.join(", ")
        };
        vec![
            row(
                "memory",
                units::bytes_exact(self.memory_bytes.value),
                &self.memory_bytes.source,
            ),
            row(
                "threads",
                self.threads.value.to_string(),
                &self.threads.source,
            ),
            row("io", self.io.value.to_string(), &self.io.source),
            row(
                "scratch_limit",
                limit.map_or("none".to_string(), units::bytes_exact),
                &self.scratch_limit_bytes.source,
            ),
            row("drives", drives, &self.drives.source),
            row(
                "resume_days",
                self.resume_days.value.to_string(),
                &self.resume_days.source,
            ),
        ]
    }
}

/// The first value that is set, with its source.
fn first<T>(
    flag: Option<T>,
    environment: Option<Setting<T>>,
    file: Option<Setting<T>>,
    default: T,
) -> Setting<T> {
    let flag = flag.map(|value| Setting {
        value,
        source: Source::Flag,
    });
    flag.or(environment).or(file).unwrap_or(Setting {
        value: default,
        source: Source::Default,
    })
}

fn parse_days(text: &str) -> Result<u64> {
    text.trim().parse().map_err(|_| {
        Error::usage("read days", format!("`{text}` is not a number of days"))
            .hint("give a whole number, such as 7; 0 keeps nothing")
    })
}

fn parse_threads(text: &str) -> Result<usize> {
    text.trim().parse().map_err(|_| {
        Error::usage(
            "read threads",
            format!("`{text}` is not a number of threads"),
        )
        .hint(threads_hint())
    })
}

fn check_threads(threads: &Setting<usize>) -> Result<()> {
    if (1..=THREADS_MAX).contains(&threads.value) {
        return Ok(());
    }
    let mut cause = format!("{} is not a valid number of threads", threads.value);
    if threads.source != Source::Flag {
        cause.push_str(&format!(", set by {}", threads.source));
    }
    Err(Error::usage("read threads", cause).hint(threads_hint()))
}

fn threads_hint() -> String {
    format!("give 1 to {THREADS_MAX} threads, or leave the setting out to use all processors")
}

/// The drives of the first source that names any. If no source does, `drives.toml` next to the
/// configuration file, if it exists.
fn load_drives(
    flags: &Flags,
    environment: &Environment,
    file: Option<&ConfigFile>,
) -> Result<Setting<DriveSet>> {
    if !flags.drives.is_empty() {
        let value = DriveSet::from_arguments(&flags.drives)?;
        return Ok(Setting {
            value,
            source: Source::Flag,
        });
    }
    if let Some(list) = environment.get("OUTCORE_DRIVES") {
        let dirs: Vec<PathBuf> = std::env::split_paths(list)
            .filter(|dir| !dir.as_os_str().is_empty())
            .collect();
        let value = DriveSet::from_arguments(&dirs)?;
        return Ok(Setting {
            value,
            source: Source::Environment("OUTCORE_DRIVES"),
        });
    }
    if let Some(file) = file {
        let base = file.path.parent().unwrap_or(Path::new(""));
        let in_file = file.take(&file.content.drives, |drives| match drives {
            DriveList::One(path) => vec![base.join(path)],
            DriveList::Many(paths) => paths.iter().map(|path| base.join(path)).collect(),
        });
        if let Some(Setting {
            value: paths,
            source,
        }) = in_file
        {
            return Ok(Setting {
                value: DriveSet::from_arguments(&paths)?,
                source,
            });
        }
    }
    if let Some((path, _)) = environment.config_path() {
        let path = path.with_file_name("drives.toml");
        if path.is_file() {
            let value = DriveSet::read(&path)?;
            return Ok(Setting {
                value,
                source: Source::File { path, line: None },
            });
        }
    }
    Ok(Setting {
        value: DriveSet::default(),
        source: Source::Default,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const DEFAULTS: Defaults = Defaults {
        memory_bytes: 1 << 30,
        threads: 3,
    };

    fn load(flags: &Flags, variables: &[(&str, &str)]) -> Result<Config> {
        let environment = variables.iter().copied().collect();
        Config::load(flags, &environment, &DEFAULTS)
    }

    /// A home directory that contains this configuration file.
    fn home(config: &str) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".config/outcore")).unwrap();
        fs::write(home.path().join(".config/outcore/config.toml"), config).unwrap();
        home
    }

    #[test]
    fn without_anything_the_defaults_hold() {
        let config = load(&Flags::default(), &[]).unwrap();
        assert_eq!(
            config.memory_bytes,
            Setting {
                value: 1 << 30,
                source: Source::Default
            }
        );
        assert_eq!(config.threads.value, 3);
        assert_eq!(config.io.value, IoMode::Auto);
        assert!(config.drives.value.drives.is_empty());
        assert_eq!(config.scratch_limit_bytes.value, None);
        assert_eq!(config.file, None);
    }

    #[test]
    fn flags_win_over_the_environment_over_the_file_over_the_default() {
        let home = home("memory = \"1GiB\"\nthreads = 5\n\nio = \"direct\"\n");
        let variables = [
            ("HOME", home.path().to_str().unwrap()),
            ("OUTCORE_MEMORY", "2GiB"),
            ("OUTCORE_THREADS", "6"),
        ];
        let flags = Flags {
            memory_bytes: Some(3 << 30),
            ..Default::default()
        };
        let config = load(&flags, &variables).unwrap();
        let path = home.path().join(".config/outcore/config.toml");
        assert_eq!(
            config.memory_bytes,
            Setting {
                value: 3 << 30,
                source: Source::Flag
            }
        );
        assert_eq!(config.threads.value, 6);
        assert_eq!(
            config.threads.source,
            Source::Environment("OUTCORE_THREADS")
        );
        assert_eq!(config.io.value, IoMode::Direct);
        assert_eq!(
            config.io.source,
            Source::File {
                path: path.clone(),
                line: Some(4)
            }
        );
        assert_eq!(config.scratch_limit_bytes.source, Source::Default);
        assert_eq!(config.file, Some(path.clone()));
        let rows = config.rows();
        assert_eq!(
            (rows[0].key, rows[0].value.as_str(), rows[0].source.as_str()),
            ("memory", "3GiB", "flag")
        );
        assert_eq!(rows[2].source, format!("{}:4", path.display()));
        assert_eq!(rows[4].value, "next to the output");
    }

    #[test]
    fn the_file_is_found_by_variable_then_xdg_then_home() {
        let home = home("threads = 7");
        let other = tempfile::tempdir().unwrap();
        let file = other.path().join("my.toml");
        fs::write(&file, "threads = 8").unwrap();
        let home_path = home.path().to_str().unwrap();
        let xdg = home.path().join(".config");
        let threads =
            |variables: &[(&str, &str)]| load(&Flags::default(), variables).unwrap().threads.value;
        assert_eq!(threads(&[("HOME", home_path)]), 7);
        assert_eq!(threads(&[("XDG_CONFIG_HOME", xdg.to_str().unwrap())]), 7);
        assert_eq!(
            threads(&[("XDG_CONFIG_HOME", "relative"), ("HOME", home_path)]),
            7
        );
        assert_eq!(
            threads(&[
                ("HOME", home_path),
                ("OUTCORE_CONFIG", file.to_str().unwrap())
            ]),
            8
        );
        assert_eq!(threads(&[("HOME", home_path), ("OUTCORE_CONFIG", "")]), 3);
        let error = load(&Flags::default(), &[("OUTCORE_CONFIG", "/nowhere/x.toml")]).unwrap_err();
        assert_eq!(error.kind(), crate::error::Kind::Io);
        assert!(error.to_string().contains("/nowhere/x.toml"));
    }

    #[test]
    fn drives_come_from_flags_variable_file_or_the_neighbouring_drives_file() {
        let home = home("drives = [\"/a\", \"b\"]");
        let dir = home.path().join(".config/outcore");
        let variables = [("HOME", home.path().to_str().unwrap())];
        let config = load(&Flags::default(), &variables).unwrap();
        let dirs: Vec<_> = config
            .drives
            .value
            .drives
            .iter()
            .map(|drive| drive.dir.clone())
            .collect();
        assert_eq!(dirs, [PathBuf::from("/a"), dir.join("b")]);

        let with_list = [variables[0], ("OUTCORE_DRIVES", "/x:/y:")];
        let config = load(&Flags::default(), &with_list).unwrap();
        assert_eq!(config.drives.value.drives.len(), 2);
        let flags = Flags {
            drives: vec!["/z".into()],
            ..Default::default()
        };
        let config = load(&flags, &with_list).unwrap();
        assert_eq!(config.drives.value.drives[0].name, "z");

        fs::write(dir.join("config.toml"), "").unwrap();
        fs::write(
            dir.join("drives.toml"),
            "[[drive]]\ndir = \"/q\"\ndepth = 8\n",
        )
        .unwrap();
        let config = load(&Flags::default(), &variables).unwrap();
        assert_eq!(config.drives.value.drives[0].depth, Some(8));
        assert_eq!(
            config.drives.source,
            Source::File {
                path: dir.join("drives.toml"),
                line: None
            }
        );
        fs::write(dir.join("config.toml"), "drives = \"drives.toml\"").unwrap();
        let config = load(&Flags::default(), &variables).unwrap();
        assert_eq!(config.drives.value.drives[0].depth, Some(8));
    }

    #[test]
    fn unknown_keys_are_errors_and_variables_are_warned_of_with_the_nearest() {
        let home = home("memory = \"1GiB\"\ntreads = 5\n");
        let error = load(
            &Flags::default(),
            &[("HOME", home.path().to_str().unwrap())],
        )
        .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("line 2: unknown key `treads`"), "{text}");
        assert!(text.contains("did you mean `threads`?"), "{text}");
        let variables = [
            ("OUTCORE_COLOR", "never"),
            ("OUTCORE_IO", "auto"),
            ("OUTCORE_MEMROY", "1GiB"),
            ("OTHER", "x"),
        ];
        load(&Flags::default(), &variables).unwrap();
        let environment: Environment = variables.into_iter().collect();
        let unknown = environment.unknown(&["OUTCORE_COLOR"]);
        assert_eq!(unknown.len(), 1, "{unknown:?}");
        assert!(
            unknown[0].contains("`OUTCORE_MEMROY` has no effect; did you mean `OUTCORE_MEMORY`?"),
            "{unknown:?}"
        );
    }

    #[test]
    fn impossible_values_name_their_place() {
        let refused = |variables: &[(&str, &str)], wanted: &str| {
            let text = load(&Flags::default(), variables).unwrap_err().to_string();
            assert!(text.contains(wanted), "{text} lacks {wanted}");
            assert!(!text.contains('\n'), "{text}");
        };
        refused(
            &[("OUTCORE_MEMORY", "2G")],
            "read OUTCORE_MEMORY: unknown unit `G`; write 2GiB",
        );
        refused(
            &[("OUTCORE_THREADS", "many")],
            "read OUTCORE_THREADS: `many` is not a number of threads; give 1 to",
        );
        refused(
            &[("OUTCORE_THREADS", "0")],
            "set by the environment (OUTCORE_THREADS)",
        );
        refused(
            &[("OUTCORE_RESUME_DAYS", "a week")],
            "read OUTCORE_RESUME_DAYS: `a week` is not a number of days; give a whole number",
        );
        refused(
            &[("OUTCORE_IO", "fast")],
            "known modes: auto, direct, buffered",
        );
        for (config, wanted) in [
            ("memory = \"2G\"", "line 1"),
            ("\nio = \"fast\"", "line 2"),
            ("\n\nthreads = \"two\"", "line 3"),
            ("memory = ", "line 1"),
            ("drives = 3", "line 1"),
        ] {
            let home = home(config);
            refused(&[("HOME", home.path().to_str().unwrap())], wanted);
        }
    }
}
