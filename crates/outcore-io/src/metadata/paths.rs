//! Paths in metadata: text if they are UTF-8, otherwise a list of bytes.
//!
//! Contract: a path is read back exactly as it was written, whatever its bytes. The functions are
//! for `serialize_with` and `deserialize_with` of a field.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Spelled {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for Spelled {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Spelled::Text(text.to_owned()),
            None => Spelled::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<Spelled> for PathBuf {
    fn from(spelled: Spelled) -> Self {
        match spelled {
            Spelled::Text(text) => text.into(),
            Spelled::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

/// Writes a path.
///
/// # Errors
/// Those of the serializer.
pub fn write_path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    Spelled::from(path).serialize(to)
}

/// Reads a path.
///
/// # Errors
/// Those of the deserializer.
pub fn read_path<'d, D: Deserializer<'d>>(from: D) -> Result<PathBuf, D::Error> {
    Spelled::deserialize(from).map(PathBuf::from)
}

/// Writes a list of paths.
///
/// # Errors
/// Those of the serializer.
pub fn write_paths<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| Spelled::from(path.as_path())))
}

/// Reads a list of paths.
///
/// # Errors
/// Those of the deserializer.
pub fn read_paths<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    let spelled = Vec::<Spelled>::deserialize(from)?;
    Ok(spelled.into_iter().map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Note {
        #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
        path: PathBuf,
        #[serde(serialize_with = "write_paths", deserialize_with = "read_paths")]
        more: Vec<PathBuf>,
    }

    #[test]
    fn a_path_of_any_bytes_is_read_as_it_was_written() {
        let odd = PathBuf::from(OsString::from_vec(b"/d\xff/a".to_vec()));
        let note = Note {
            path: odd.clone(),
            more: vec!["/plain".into(), odd],
        };
        let text = serde_json::to_string(&note).unwrap();
        assert!(text.contains("\"/plain\""), "{text}");
        assert_eq!(serde_json::from_str::<Note>(&text).unwrap(), note);
        let plain = r#"{"path":"/a","more":["/b"]}"#;
        let read: Note = serde_json::from_str(plain).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), plain);
    }
}
