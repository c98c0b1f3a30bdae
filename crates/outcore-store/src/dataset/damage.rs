//! Damage of a dataset, and its place on the drives.
//!
//! Contract: a [`Damage`] names the drive, the file there and the offset in it.

use std::path::Path;

use serde::Serialize;

use super::manifest::Manifest;
use crate::mapping::StripeExtent;
use crate::striped::StripedVolume;
use outcore_io::error::Error;

/// A checksum block that is damaged or unreadable; or the rest of a file after some byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The dataset.
    pub dataset: String,
    /// The drive.
    pub drive: String,
    /// The file on it.
    pub path: String,
    /// First byte of the checksum block in that file.
    pub offset_bytes: u64,
    /// Bytes of the checksum block.
    pub len_bytes: u64,
    /// Whether the bytes have been rewritten from other drives, as is possible for labels,
    /// manifests, and datasets with redundancy.
    pub is_repaired: bool,
}

impl Damage {
    /// The damage of the `len_bytes` bytes that start at `offset_bytes`, in a dataset stored on
    /// `striped`.
    pub(super) fn at(
        manifest: &Manifest,
        striped: &StripedVolume,
        offset_bytes: u64,
        len_bytes: usize,
    ) -> Self {
        let (index, at_bytes) = place_of(striped, offset_bytes, len_bytes);
        Damage {
            dataset: manifest.name.clone(),
            drive: manifest.shares[index].drive.clone(),
            path: striped.drives()[index].path.display().to_string(),
            offset_bytes: at_bytes,
            len_bytes: len_bytes as u64,
            is_repaired: false,
        }
    }

    /// The damage of a whole file.
    pub(super) fn of_file(dataset: &str, drive: &str, path: &Path, len_bytes: u64) -> Self {
        Damage {
            dataset: dataset.to_string(),
            drive: drive.to_string(),
            path: path.display().to_string(),
            offset_bytes: 0,
            len_bytes,
            is_repaired: false,
        }
    }

    /// As the error of a read.
    pub(crate) fn to_error(&self) -> Error {
        Error::corrupt(
            "read dataset",
            format!(
                "@{} is damaged: it differs from what was written",
                self.dataset
            ),
        )
        .drive(&self.drive)
        .path(&self.path)
        .offset(self.offset_bytes)
        .hint("`outcore volume scrub` lists all damage; put the dataset again")
    }
}

/// The drive on which a range begins, and its offset in the file there.
pub(super) fn place_of(
    striped: &StripedVolume,
    offset_bytes: u64,
    len_bytes: usize,
) -> (usize, u64) {
    let mut first: Option<StripeExtent> = None;
    let map = striped.map();
    map.split(offset_bytes, len_bytes, usize::MAX, |piece| {
        first.get_or_insert(piece);
    });
    first.map_or((0, 0), |piece| (piece.drive_index, piece.offset_bytes))
}
