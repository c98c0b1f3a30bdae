//! Sources of settings: environment variables and the configuration file.
//!
//! Contract: the environment is a value, so tests and callers can supply their own. The file's keys
//! are checked against the known ones, and every value keeps its line number. Errors are one line
//! with the file, the line and, for an unknown word, the nearest known one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::{IoMode, Setting, Source, VARIABLES};
use crate::error::{Error, Result};
use crate::units::nearest;

/// Environment variables, as a value.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Self {
        Environment(std::env::vars_os().collect())
    }

    /// The variable's value; an empty value counts as not set.
    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.0
            .get(&OsString::from(name))
            .filter(|value| !value.is_empty())
    }

    /// The variable's value, parsed by `parse`.
    pub(super) fn read<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T>,
    ) -> Result<Option<Setting<T>>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let value = parse(&value.to_string_lossy()).map_err(|error| {
            let renamed = Error::usage(format!("read {name}"), error.cause());
            match error.next_step() {
                Some(hint) => renamed.hint(hint),
                None => renamed,
            }
        })?;
        Ok(Some(Setting {
            value,
            source: Source::Environment(name),
        }))
    }

    /// One sentence about each `OUTCORE_` variable that sets nothing; `also_known` are the caller's
    /// own variables. Such a variable may belong to another program or be misspelled, so the caller
    /// warns about it once.
    pub fn unknown(&self, also_known: &[&str]) -> Vec<String> {
        let known: Vec<&str> = VARIABLES.iter().chain(also_known).copied().collect();
        let names = self.0.keys().map(|name| name.to_string_lossy());
        let names = names.filter(|name| name.starts_with("OUTCORE_"));
        let unknown = names.filter(|name| !known.contains(&name.as_ref()));
        unknown
            .map(|name| {
                format!(
                    "unknown variable `{name}` has no effect; {}",
                    did_you_mean(&name, &known)
                )
            })
            .collect()
    }

    /// The configuration file to read, and whether it must exist.
    pub(super) fn config_path(&self) -> Option<(PathBuf, bool)> {
        if let Some(path) = self.0.get(&OsString::from("OUTCORE_CONFIG")) {
            return (!path.is_empty()).then(|| (PathBuf::from(path), true));
        }
        let base = match self.get("XDG_CONFIG_HOME").map(PathBuf::from) {
            Some(base) if base.is_absolute() => base,
            _ => PathBuf::from(self.get("HOME")?).join(".config"),
        };
        Some((base.join("outcore").join("config.toml"), false))
    }

    /// The directory for data that can be recomputed, if there is one.
    pub fn cache_dir(&self) -> Option<PathBuf> {
        let base = match self.get("XDG_CACHE_HOME").map(PathBuf::from) {
            Some(base) if base.is_absolute() => base,
            _ => PathBuf::from(self.get("HOME")?).join(".cache"),
        };
        Some(base.join("outcore"))
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        Environment(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

/// The configuration file's content.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileContent {
    pub(super) memory: Option<Spanned<SizeText>>,
    pub(super) threads: Option<Spanned<usize>>,
    pub(super) io: Option<Spanned<IoText>>,
    pub(super) scratch_limit: Option<Spanned<SizeText>>,
    pub(super) drives: Option<Spanned<DriveList>>,
    pub(super) resume_days: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct SizeText(#[serde(with = "super::drives::text::size")] pub(super) Option<u64>);

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct IoText(pub(super) IoMode);

impl TryFrom<String> for IoText {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse().map(IoText)
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a directory, a drives file, or a list of them")]
pub(super) enum DriveList {
    One(PathBuf),
    Many(Vec<PathBuf>),
}

/// A parsed configuration file.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    text: String,
    pub(super) content: FileContent,
}

const READ_FILE: &str = "read configuration";

impl ConfigFile {
    fn parse(path: PathBuf, text: String) -> Result<Self> {
        let content =
            toml::from_str(&text).map_err(|error| file_error(READ_FILE, &path, &text, &error))?;
        Ok(ConfigFile {
            path,
            text,
            content,
        })
    }

    /// The file that the environment points to, if there is one.
    pub(super) fn load(environment: &Environment) -> Result<Option<Self>> {
        let Some((path, must_exist)) = environment.config_path() else {
            return Ok(None);
        };
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(path, text).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(None),
            Err(error) => Err(Error::io(READ_FILE, &error)
                .path(path)
                .hint(match must_exist {
                    true => "correct OUTCORE_CONFIG, or set it empty to use no file",
                    false => "let this user read it, or set OUTCORE_CONFIG empty to use no file",
                })),
        }
    }

    /// A value of the file with its line.
    pub(super) fn take<T, U>(
        &self,
        value: &Option<Spanned<T>>,
        get: impl Fn(&T) -> U,
    ) -> Option<Setting<U>> {
        let value = value.as_ref()?;
        let line = Some(line_at(&self.text, value.span().start));
        let source = Source::File {
            path: self.path.clone(),
            line,
        };
        Some(Setting {
            value: get(value.get_ref()),
            source,
        })
    }
}

/// The line that contains a byte of `text`, counted from 1.
fn line_at(text: &str, offset_bytes: usize) -> usize {
    let before = &text.as_bytes()[..offset_bytes.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// A TOML error as one line with the file, its line, and the nearest key for an unknown one.
pub(super) fn file_error(
    operation: &str,
    path: &Path,
    text: &str,
    error: &toml::de::Error,
) -> Error {
    let line = error
        .span()
        .map(|span| format!("line {}: ", line_at(text, span.start)));
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    let is_unknown = message.starts_with("unknown field `");
    // The message quotes the unknown key first, then every known key.
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (cause, hint) = match quoted.split_first() {
        Some((key, known)) if is_unknown => {
            (format!("unknown key `{key}`"), did_you_mean(key, known))
        }
        _ => (message, "correct the file at that line".to_string()),
    };
    Error::usage(operation, format!("{}{cause}", line.unwrap_or_default()))
        .path(path)
        .hint(hint)
}

fn did_you_mean(word: &str, known: &[&str]) -> String {
    let meant = nearest(word, known).map(|near| format!("did you mean `{near}`? "));
    format!("{}known: {}", meant.unwrap_or_default(), known.join(", "))
}
