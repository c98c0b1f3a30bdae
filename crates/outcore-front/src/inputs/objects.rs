//! Inputs that are not files of the system: objects and datasets.
//!
//! Contract: [`object_named`] finds one object, and [`objects_like`] those of a pattern. Both
//! return nothing for other names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::Result;
use outcore_io::drive::Device;
use outcore_io::drive::objects::{is_object, is_object_pattern};

use super::{OPEN, Source};
use crate::objects::{ObjectSource, stores_of};
use crate::volumes::Sealed;

impl Source {
    /// The dataset `sealed`, with the name that the user gave.
    pub(crate) fn of_dataset(name: &Path, sealed: Sealed) -> Self {
        Source {
            name: name.to_path_buf(),
            path: name.to_path_buf(),
            key: Some(sealed.key()),
            identity: None,
            start_bytes: 0,
            manifest: None,
            sealed: Some(sealed),
            object: None,
            content: None,
        }
    }

    /// The object `name` of the stores of `device`.
    ///
    /// # Errors
    /// As [`ObjectSource::find`].
    pub(crate) fn of_object(device: &Arc<dyn Device>, name: &Path) -> Result<Self> {
        let object = ObjectSource::find(device, name)?;
        Ok(Source {
            name: name.to_path_buf(),
            path: name.to_path_buf(),
            key: Some(object.key()),
            identity: Some(object.identity()),
            start_bytes: 0,
            manifest: None,
            sealed: None,
            object: Some(object),
            content: None,
        })
    }
}

/// The object that `name` means; `None` for the name of a file or a dataset.
///
/// # Errors
/// As [`ObjectSource::find`].
pub fn object_named(device: &Arc<dyn Device>, name: &Path) -> Result<Option<Source>> {
    let is_object = is_object(name);
    is_object
        .then(|| Source::of_object(device, name))
        .transpose()
}

/// The objects that the pattern `name` means; `None` for anything else.
///
/// # Errors
/// As [`Names::matching`].
pub fn objects_like(device: &Arc<dyn Device>, name: &Path) -> Result<Option<Vec<PathBuf>>> {
    match is_object_pattern(name) {
        true => stores_of(device, OPEN, name)?.matching(name).map(Some),
        false => Ok(None),
    }
}
