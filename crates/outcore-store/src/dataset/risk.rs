//! The state of a dataset's redundancy: the effect of one more lost drive.
//!
//! Contract: [`DatasetVolume::risk_of`] looks at which drives are present and at the lengths of the
//! files there. It reads no data; [`DatasetVolume::scrub`] does.
//!
//! Bounds: one look at each file.

use serde::Serialize;

use super::DatasetVolume;
use super::manifest::Manifest;
use outcore_io::drive::folder;

/// The effect of one more lost drive on a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hazard {
    /// Nothing: it can be read without any one drive.
    None,
    /// It has no redundancy: the part on each drive exists only there.
    Single,
    /// Its redundancy is incomplete: it can be read, and one more lost drive would lose it.
    Incomplete,
    /// It cannot be read.
    Unreadable,
}

impl Hazard {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Hazard::None => "none",
            Hazard::Single => "single",
            Hazard::Incomplete => "incomplete",
            Hazard::Unreadable => "unreadable",
        }
    }
}

/// A hazard and the drives that it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Risk {
    /// The hazard.
    pub hazard: Hazard,
    /// The drives that are missing or have lost the dataset's file; with [`Hazard::Single`], the
    /// drives that hold the dataset.
    pub drives: Vec<String>,
}

impl DatasetVolume {
    /// The effect of one more lost drive on a dataset.
    pub fn risk_of(&self, manifest: &Manifest) -> Risk {
        let shares = manifest.shares.iter().enumerate();
        let used: Vec<_> = shares.filter(|(_, share)| share.len_bytes > 0).collect();
        let is_lost = |index: usize, len_bytes: u64| {
            let is_absent = self.absent.get(index).is_none_or(Option::is_some);
            let found = || folder::len_bytes(&self.share_path(&manifest.id, index));
            is_absent || found().is_none_or(|found| found < len_bytes)
        };
        let lost = used
            .iter()
            .filter(|(index, share)| is_lost(*index, share.len_bytes));
        let lost: Vec<String> = lost.map(|(_, share)| share.drive.clone()).collect();
        let is_alone = manifest.redundancy.is_none();
        let hazard = match (is_alone, lost.len()) {
            (true, 0) if used.is_empty() => Hazard::None,
            (true, 0) => {
                return Risk {
                    hazard: Hazard::Single,
                    drives: used.iter().map(|(_, share)| share.drive.clone()).collect(),
                };
            }
            (false, 0) => Hazard::None,
            (false, 1) => Hazard::Incomplete,
            _ => Hazard::Unreadable,
        };
        Risk {
            hazard,
            drives: lost,
        }
    }
}
