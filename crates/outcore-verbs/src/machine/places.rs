//! The places where a verb looks for scratch.
//!
//! Contract: the places are the given directories, by default the configured drives or the current
//! directory, and the directories inside them. A directory with two names is one place.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use outcore::{Error, Result};
use outcore_front::resources::{Resources, check_dir};
use outcore_io::drive::private_dir;
use outcore_io::drive::real_dir;

/// A directory to search.
pub(super) struct ScratchPlace {
    dir: PathBuf,
    /// The user did not name it, so a running job may have removed it by now.
    is_inside: bool,
}

impl ScratchPlace {
    /// The result of `look` there; nothing if the directory no longer exists.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Path) -> Result<Vec<T>>) -> Result<Vec<T>> {
        match look(&self.dir) {
            Err(error) if self.is_inside && is_gone(&error) => Ok(Vec::new()),
            found => found,
        }
    }
}

fn is_gone(error: &Error) -> bool {
    error.raw_errno() == Some(rustix::io::Errno::NOENT.raw_os_error())
}

/// The places in the directories that the user `named`.
pub(super) fn places_of(resources: &Resources, named: &[PathBuf]) -> Result<Vec<ScratchPlace>> {
    let drives = &resources.config.drives.value.drives;
    let dirs: Vec<PathBuf> = match (named, drives.as_slice()) {
        ([], []) => vec![PathBuf::from(".")],
        ([], drives) => drives.iter().map(|drive| drive.dir.clone()).collect(),
        (named, _) => named.to_vec(),
    };
    let mut found = Vec::new();
    for dir in dirs {
        check_dir("look for scratch", &dir)?;
        let inside = private_dir::places_in(&dir);
        found.push(ScratchPlace {
            dir,
            is_inside: false,
        });
        found.extend(inside.into_iter().map(|dir| ScratchPlace {
            dir,
            is_inside: true,
        }));
    }
    let mut seen = BTreeSet::new();
    found.retain(|place| seen.insert(real_dir(&place.dir).unwrap_or_else(|| place.dir.clone())));
    Ok(found)
}
