//! The files of a graph: in a directory, or packed into one file of the job's device, as in a
//! dataset with a packed directory.
//!
//! Contract: kernels read files by name, as stretches of the file that contains them, so a graph on
//! many drives is read in place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use outcore::{Error, Input, Result};
use outcore_io::drive::paths;
use outcore_io::metadata::Owner;

use crate::format::manifest::{FORM, Manifest, NAME, OPEN};

/// The files of a graph; see the module.
#[derive(Debug, Clone)]
pub struct GraphFiles {
    /// The directory, or the file that contains all others.
    place: PathBuf,
    packed: Option<Packed>,
}

#[derive(Debug, Clone)]
struct Packed {
    manifest: Vec<u8>,
    stretches: BTreeMap<String, Range<u64>>,
}

impl GraphFiles {
    /// The name of the manifest.
    pub const MANIFEST: &'static str = NAME;

    /// Files in a directory.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        GraphFiles {
            place: dir.into(),
            packed: None,
        }
    }

    /// Files in the file `path` of the job's device, each with its range of bytes; `manifest` is
    /// the contents of `graph.json`.
    pub fn packed(
        path: impl Into<PathBuf>,
        manifest: Vec<u8>,
        stretches: impl IntoIterator<Item = (String, Range<u64>)>,
    ) -> Self {
        GraphFiles {
            place: path.into(),
            packed: Some(Packed {
                manifest,
                stretches: stretches.into_iter().collect(),
            }),
        }
    }

    /// Whether they are ranges of one file.
    pub(crate) fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// The directory, or the file that contains all others.
    pub fn place(&self) -> &Path {
        &self.place
    }

    pub(crate) fn manifest(&self) -> Result<Manifest> {
        let path = self.path(NAME);
        let opened = match &self.packed {
            Some(packed) => FORM.open(&path, Owner::of(NAME), &packed.manifest)?,
            None => {
                self.check_place()?;
                FORM.read(&path, Owner::of(NAME))?
            }
        };
        Ok(opened.body)
    }

    /// Fails for an existing path that is not a graph.
    fn check_place(&self) -> Result<()> {
        let place = &self.place;
        let (cause, hint) = match paths::facts(place) {
            Ok(facts) if !facts.is_dir() => (
                "it is not a directory, but a graph is a directory",
                "make a graph of a file of edges with `outcore graph convert EDGES -o G.graph`",
            ),
            Ok(_) if !self.path(NAME).exists() => (
                "the directory has no graph.json, which every graph has",
                "name the directory that `outcore graph convert` has made, or convert the edges again",
            ),
            Ok(_) => return Ok(()),
            Err(error) => return Err(Error::io(OPEN, &error).path(place)),
        };
        Err(Error::usage(OPEN, cause).path(place).hint(hint))
    }

    /// The path of a file in errors.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// A file as input of a pass.
    pub(crate) fn input(&self, name: &str) -> Input {
        match &self.packed {
            None => Input::raw(self.path(name)),
            Some(packed) => {
                let stretch = packed.stretches.get(name).cloned().unwrap_or(0..0);
                Input {
                    path: self.place.clone(),
                    header_bytes: stretch.start,
                    data_bytes: Some(stretch.end - stretch.start),
                }
            }
        }
    }

    pub(crate) fn len_bytes(&self, name: &str) -> Result<u64> {
        let path = self.path(name);
        match &self.packed {
            None => paths::facts(&path)
                .map(|facts| facts.len())
                .map_err(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => FORM.damage("it is missing").path(&path),
                    _ => Error::io(OPEN, &error).path(&path),
                }),
            Some(packed) => match packed.stretches.get(name) {
                Some(stretch) => Ok(stretch.end - stretch.start),
                None => Err(FORM.damage("it is missing").path(&path)),
            },
        }
    }
}
