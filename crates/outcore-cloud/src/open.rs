//! The open objects of a device, by number.
//!
//! Contract: an [`Open`] object keeps the facts that it had when it was found, and the errors of
//! its reads. Its inode is made of its name and version.
//!
//! Bounds: some hundred bytes per open object, and an error per failed offset.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use outcore_io::Error;
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::{FileFacts, FileId};

use crate::cloud::Object;

/// The first number of an object. Numbers of datasets are above those of objects.
const FIRST_FILE: u32 = 1 << 30;
/// Numbers above belong to devices in front of this one.
const LAST_FILE: u32 = 1 << 31;

/// An open object.
pub(crate) struct Open {
    pub(crate) object: Object,
    pub(crate) facts: FileFacts,
    /// Failed reads, by offset.
    troubles: Mutex<HashMap<u64, Error>>,
}

impl Open {
    pub(crate) fn new(object: Object) -> Self {
        Open {
            facts: facts_of(&object),
            object,
            troubles: Mutex::default(),
        }
    }

    /// The error of a read of `offset_bytes`, if it failed.
    pub(crate) fn trouble(&self, offset_bytes: u64) -> Option<Error> {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.get(&offset_bytes).cloned()
    }

    /// Keeps the error of a read of `offset_bytes` for [`Device::explain`].
    pub(crate) fn note(&self, offset_bytes: u64, error: Error) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.insert(offset_bytes, error);
    }
}

/// The open objects by number.
#[derive(Default)]
pub(crate) struct Table(Mutex<Vec<Option<Arc<Open>>>>);

impl Table {
    pub(crate) fn get(&self, file: FileId) -> Option<Arc<Open>> {
        if !(FIRST_FILE..LAST_FILE).contains(&file.0) {
            return None;
        }
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.get((file.0 - FIRST_FILE) as usize)?.clone()
    }

    pub(crate) fn add(&self, opened: Open) -> FileId {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free = open.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            open.push(None);
            open.len() - 1
        });
        open[index] = Some(Arc::new(opened));
        FileId(FIRST_FILE + index as u32)
    }

    pub(crate) fn remove(&self, file: FileId) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = open.get_mut((file.0 - FIRST_FILE) as usize) {
            *slot = None;
        }
    }
}

/// A number for a text, in the range that no device of the system uses.
pub(crate) fn number_of(text: &str) -> u64 {
    bytes_checksum(text.as_bytes()) | 1 << 62
}

fn facts_of(object: &Object) -> FileFacts {
    let facts = &object.facts;
    let version = facts.e_tag.as_deref().or(facts.version.as_deref());
    let name = format!("{}\n{}", object.location, version.unwrap_or(""));
    let modified_ns = facts.last_modified.timestamp_nanos_opt().unwrap_or(0);
    FileFacts {
        len_bytes: facts.size,
        file_system: number_of(&object.address.place),
        inode: number_of(&name),
        modified_ns: i128::from(modified_ns),
        // A version is known by its ETag. Zero would mean that nothing is known.
        changed_ns: i128::from(modified_ns).max(1),
        is_direct: true,
        is_in_memory: false,
    }
}
