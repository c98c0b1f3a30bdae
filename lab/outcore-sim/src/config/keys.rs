//! Access to configuration values by key: changes one setting, and reports errors with the line and
//! the nearest known key.
//!
//! Contract: a key is the path of a value in the TOML form (`flash.channels`). The new value is
//! checked as if it had been written in the file.

use outcore_io::units::nearest;
use outcore_io::{Error, Result};

use super::DriveConfig;

const OPERATION: &str = "set drive parameter";

impl DriveConfig {
    /// The same drive with one value changed, such as `flash.channels` to `16` or `flash.read` to
    /// `45us` (for all page classes).
    ///
    /// # Errors
    /// An unknown key (the error contains the nearest known one), or a value that does not fit.
    pub fn set(&self, key: &str, value: &str) -> Result<Self> {
        let config = self.set_unchecked(key, value)?;
        config.validate()?;
        Ok(config)
    }

    /// Like [`DriveConfig::set`], without a check whether such a drive is possible.
    fn set_unchecked(&self, key: &str, value: &str) -> Result<Self> {
        let wrong = |cause: String| Error::usage(OPERATION, cause);
        let mut whole = toml::Table::try_from(self).map_err(|error| wrong(error.to_string()))?;
        let parts: Vec<&str> = key.split('.').collect();
        let paths = paths_of(&whole);
        let mut at = &mut whole;
        let (last, tables) = parts.split_last().unwrap_or((&key, &[]));
        for part in tables {
            let known: Vec<String> = at.keys().cloned().collect();
            at = match at.get_mut(*part) {
                Some(toml::Value::Table(table)) => table,
                _ => return Err(unknown(key, part, &known, &paths)),
            };
        }
        let known: Vec<String> = at.keys().cloned().collect();
        let Some(old) = at.get_mut(*last) else {
            return Err(unknown(key, last, &known, &paths));
        };
        if old.is_table() {
            return Err(wrong(format!("`{key}` is a table, not a value"))
                .hint(format!("name a key in it, such as `{key}.{}`", first(old))));
        }
        let mut new = toml::from_str::<toml::Table>(&format!("v = {value}"))
            .ok()
            .and_then(|mut table| table.remove("v"))
            .unwrap_or_else(|| toml::Value::String(value.to_owned()));
        if old.is_array() && !new.is_array() {
            new = toml::Value::Array(vec![new]);
        }
        if let (toml::Value::Float(_), toml::Value::Integer(whole)) = (&old, &new) {
            new = toml::Value::Float(*whole as f64);
        }
        *old = new;
        toml::Value::Table(whole)
            .try_into()
            .map_err(|error: toml::de::Error| {
                let message = error.message().replace('\n', " ");
                wrong(format!("{key} = {value}: {message}"))
            })
    }

    /// Applies settings of the form `key=value`, in order. The drive has to be possible only after
    /// the last of them.
    ///
    /// # Errors
    /// As [`DriveConfig::set`], and a setting without `=`.
    pub fn set_all<S: AsRef<str>>(&self, settings: &[S]) -> Result<Self> {
        let mut config = self.clone();
        for setting in settings {
            let (key, value) = split_setting(setting.as_ref())?;
            config = config.set_unchecked(key, value)?;
        }
        config.validate()?;
        Ok(config)
    }
}

/// Splits `key=value`.
pub(crate) fn split_setting(setting: &str) -> Result<(&str, &str)> {
    setting
        .split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .filter(|(key, value)| !key.is_empty() && !value.is_empty())
        .ok_or_else(|| {
            Error::usage(OPERATION, format!("`{setting}` is not a setting"))
                .hint("write it as KEY=VALUE, such as flash.channels=16 or flow.depth=1,16,64")
        })
}

fn first(table: &toml::Value) -> String {
    let keys = table.as_table().map(toml::Table::keys);
    keys.and_then(|mut keys| keys.next().cloned())
        .unwrap_or_default()
}

/// The paths of all values in a table and in its tables.
fn paths_of(table: &toml::Table) -> Vec<String> {
    let mut paths = Vec::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => {
                paths.extend(paths_of(inner).iter().map(|path| format!("{key}.{path}")));
            }
            _ => paths.push(key.clone()),
        }
    }
    paths
}

/// Keys of flows that are often taken for keys of drives.
const OF_FLOWS: [&str; 6] = ["depth", "interval", "pattern", "read", "requests", "size"];

/// The error for an unknown `part` of `key`. `known` has the possible keys in its place, and
/// `paths` all keys of a drive.
fn unknown(key: &str, part: &str, known: &[String], paths: &[String]) -> Error {
    let place = match part == key {
        true => String::new(),
        false => format!(" in `{key}`"),
    };
    let error = Error::usage(OPERATION, format!("unknown key `{part}`{place}"));
    if OF_FLOWS.contains(&key) {
        return error.hint(format!(
            "it is a key of flows: write flow.{key} in a sweep, or --flow {key}=..."
        ));
    }
    let ends_in_key = |path: &&String| path.ends_with(&format!(".{key}"));
    if let Some(path) = paths.iter().find(ends_in_key) {
        return error.hint(format!("did you mean `{path}`?"));
    }
    match nearest(part, &known.iter().map(String::as_str).collect::<Vec<_>>()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("known are {}", known.join(", "))),
    }
}

/// Turns an error of the TOML reader into one with line, key and nearest known key.
pub(crate) fn toml_error(operation: &str, text: &str, error: &toml::de::Error) -> Error {
    let message = error.message().to_owned();
    let line = error
        .span()
        .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let place = line
        .map(|line| format!("line {line}: "))
        .unwrap_or_default();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let hint = if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        quoted.next().and_then(|word| {
            let known: Vec<&str> = quoted.collect();
            nearest(word, &known).map(|known| format!("did you mean `{known}`?"))
        })
    } else {
        None
    };
    let error = Error::usage(operation, format!("{place}{}", message.replace('\n', " ")));
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_set_by_its_name() {
        let config = DriveConfig::default();
        let set = config
            .set_all(&[
                "flash.channels=16",
                "flash.read=45us",
                "gc.threshold=0",
                "name=x",
            ])
            .unwrap();
        assert_eq!(set.flash.channels, 16);
        assert_eq!(set.flash.read, [crate::quantities::Time(45_000_000)]);
        assert_eq!((set.gc.threshold, set.name.as_str()), (0.0, "x"));
        let list = config.set("flash.read", "[\"1us\", \"2us\"]").unwrap();
        assert_eq!(list.flash.read.len(), 2);
    }

    #[test]
    fn settings_of_one_drive_may_come_in_any_order() {
        let settings = ["zones.namespaces=0", "namespaces.sizes=[\"1GiB\", \"0B\"]"];
        let config = DriveConfig::default().set_all(&settings).unwrap();
        assert_eq!(config.zones.namespaces, [0]);
        assert_eq!(config.namespaces.sizes.len(), 2);
        let error = DriveConfig::default().set_all(&settings[..1]).unwrap_err();
        assert!(error.to_string().contains("namespaces.sizes"), "{error}");
    }

    #[test]
    fn a_wrong_setting_says_what_is_wrong_with_it() {
        let config = DriveConfig::default();
        for (setting, says) in [
            ("flash.chanels=3", "did you mean `channels`?"),
            ("flsh.channels=3", "did you mean `flash`?"),
            ("channels=3", "did you mean `flash.channels`?"),
            ("channels=3", "unknown key `channels`;"),
            ("flash=3", "is a table"),
            ("flash.channels=many", "flash.channels = many"),
            (
                "flash.channels=0",
                "flash.channels is 0; it must be at least 1",
            ),
            ("flash.dies=0", "flash.dies is 0; it must be at least 1"),
            (
                "flash.planes=1000000000",
                "flash.planes is 1000000000; at most 64",
            ),
            ("flash.erase=3 bananas", "75us"),
            ("flash.channels", "not a setting"),
        ] {
            let error = config.set_all(&[setting]).unwrap_err().to_string();
            assert!(error.contains(says), "{setting}: {error}");
        }
    }
}
