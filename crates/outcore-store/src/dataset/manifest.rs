//! The manifest of a dataset: its description, its layout, and the means to verify it.
//!
//! Contract: a manifest is [metadata](outcore_io::metadata) with a checksum, so a flipped bit in it
//! is also detected. It is valid only for the dataset, the volume and the drive that it names. It
//! contains everything that reading needs: the layout at the time of writing (a volume's weights
//! may change later), lengths, and the positions of index and checksums. The data are followed by
//! the index of a packed directory. The checksums start at the next checksum block, with 8 bytes
//! per checksum block.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CHECKSUM_BLOCK_BYTES_MAX;
use super::pack::Attributes;
use crate::mapping::{Redundancy, STRIPE_BYTES_MAX, STRIPE_BYTES_MIN, StripeMap, StripeMember};
use outcore_io::checksum::{BlockLocation, block_checksum};
use outcore_io::error::Result;
use outcore_io::memory::block_ceil;
use outcore_io::metadata::{Form, Owner};

/// Versions of manifests: without redundancy, and with redundancy.
const VERSION: u32 = 2;
const VERSION_WITH_REDUNDANCY: u32 = 3;
const FORM: Form = Form {
    kind: "dataset manifest",
    version: VERSION_WITH_REDUNDANCY,
    version_min: VERSION,
    operation: "read manifest of a dataset",
    len_bytes_max: 16 << 20,
    remedy: "put the dataset again; `outcore volume scrub` lists all damage",
    upgrade: "get the dataset with the version of outcore that stored it, and put it into a new volume",
};
/// Longer lengths would overflow.
const LEN_BYTES_MAX: u64 = 1 << 56;

/// Kind of contents of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contents {
    /// The bytes of one file.
    File,
    /// Many files, and an index of them.
    Directory,
}

/// A dataset's part on one drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The drive's name.
    pub drive: String,
    /// The drive's weight in the layout.
    pub weight: f64,
    /// The drive's capacity in the layout.
    pub capacity_bytes: u64,
    /// Length of the file on the drive.
    pub len_bytes: u64,
}

impl Share {
    /// The share on a drive that the layout does not use.
    pub(super) fn unused(drive: &str) -> Self {
        Share {
            drive: drive.to_string(),
            weight: 1.0,
            capacity_bytes: 0,
            len_bytes: 0,
        }
    }

    /// Whether the layout uses the drive. Otherwise there is no file of the dataset on it.
    pub(super) fn is_used(&self) -> bool {
        self.capacity_bytes > 0
    }
}

/// The description of a sealed dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// One more than the generation of the dataset that it replaced. The copy with the larger
    /// generation is newer.
    pub generation: u64,
    /// The dataset's name.
    pub name: String,
    /// Name of its files on the drives.
    pub id: String,
    /// Kind of its contents.
    pub contents: Contents,
    /// Bytes of data, without index and checksums.
    pub len_bytes: u64,
    /// Packed files; 1 for a file.
    pub files: u64,
    /// Bytes of the index that follows the data.
    pub index_bytes: u64,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Drive of the first stripe.
    pub start_drive: usize,
    /// How the data of a lost drive can be computed.
    #[serde(default, skip_serializing_if = "Redundancy::is_none")]
    pub redundancy: Redundancy,
    /// Checksum of the checksums.
    pub sums_checksum: u64,
    /// Its part on each drive, in the volume's order.
    pub shares: Vec<Share>,
    /// Attributes of the file that it holds, if it is a file.
    #[serde(default)]
    pub attributes: Option<Attributes>,
}

impl Manifest {
    /// Reads the copy at `path` of the manifest of the dataset `name`; `place` names the drive.
    ///
    /// # Errors
    /// Corrupt: damaged, or written for another owner. Usage: another version. I/O.
    pub(super) fn read(path: &Path, name: &str, place: &str) -> Result<Self> {
        let owner = Owner {
            name,
            place: Some(place),
        };
        let manifest = FORM.read::<Manifest>(path, owner)?.body;
        match manifest.is_sound() && manifest.name == name {
            true => Ok(manifest),
            false => Err(FORM.damage("its sizes do not agree").path(path)),
        }
    }

    /// The bytes of a copy for the drive that `place` names.
    ///
    /// # Errors
    /// None in practice: numbers and names are always text.
    pub(super) fn seal(&self, place: &str) -> Result<Vec<u8>> {
        let owner = Owner {
            name: &self.name,
            place: Some(place),
        };
        let version = match self.redundancy {
            Redundancy::None => VERSION,
            _ => VERSION_WITH_REDUNDANCY,
        };
        Form { version, ..FORM }.seal(owner, self)
    }

    /// Whether all figures are safe to compute with.
    fn is_sound(&self) -> bool {
        let is_stripe = self.stripe_bytes.is_power_of_two()
            && (STRIPE_BYTES_MIN..=STRIPE_BYTES_MAX).contains(&self.stripe_bytes);
        let is_len = self.len_bytes <= LEN_BYTES_MAX && self.index_bytes <= LEN_BYTES_MAX;
        is_stripe && is_len && !self.shares.is_empty()
    }

    /// The name of the data files of the dataset whose manifest is `text`, as far as a damaged
    /// manifest shows it.
    pub(super) fn id_in(text: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(text);
        let (_, rest) = text.split_once("\"id\": \"")?;
        let (id, _) = rest.split_once('"')?;
        let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| id.to_string())
    }

    /// This manifest with one share for each of `drives`, in their order. A drive that joined the
    /// volume later has an unused share, and one that left it has none. A manifest that uses other
    /// drives stays as it is.
    pub(super) fn aligned<'d>(self, drives: impl Iterator<Item = &'d str>) -> Self {
        let mut own = self.shares.iter().enumerate().peekable();
        let mut shares = Vec::new();
        // For each used share of this manifest, its new index.
        let mut places = vec![None; self.shares.len()];
        for drive in drives {
            while let Some((_, share)) = own.peek()
                && share.drive != drive
                && !share.is_used()
            {
                own.next();
            }
            match own.next_if(|(_, share)| share.drive == drive) {
                Some((at, share)) if share.is_used() => {
                    places[at] = Some(shares.len());
                    shares.push(share.clone());
                }
                _ => shares.push(Share::unused(drive)),
            }
        }
        if own.any(|(_, share)| share.is_used()) {
            return self;
        }
        let count = places.len();
        let after = (0..count).map(|step| (self.start_drive + step) % count.max(1));
        let start_drive = after.filter_map(|at| places[at]).next().unwrap_or(0);
        Manifest {
            start_drive,
            shares,
            ..self
        }
    }

    /// Bytes per checksum.
    pub(crate) fn checksum_block_bytes(&self) -> u64 {
        self.stripe_bytes.min(CHECKSUM_BLOCK_BYTES_MAX)
    }

    /// Bytes of data and index.
    pub fn payload_bytes(&self) -> u64 {
        self.len_bytes + self.index_bytes
    }

    /// Checksum blocks of data and index.
    pub(crate) fn checksum_blocks(&self) -> u64 {
        self.payload_bytes().div_ceil(self.checksum_block_bytes())
    }

    /// Offset of the checksums.
    pub fn sums_at_bytes(&self) -> u64 {
        self.checksum_blocks() * self.checksum_block_bytes()
    }

    /// Bytes of data, index and checksums in the shares, rounded up to a whole block.
    pub(crate) fn full_bytes(&self) -> u64 {
        self.sums_at_bytes() + block_ceil(self.checksum_blocks() * 8)
    }

    /// Valid bytes of a checksum block: the last one ends with the block in which the payload ends.
    pub(crate) fn checksum_block_len(&self, checksum_block: u64) -> usize {
        let start = checksum_block * self.checksum_block_bytes();
        let end = block_ceil(self.payload_bytes());
        end.saturating_sub(start).min(self.checksum_block_bytes()) as usize
    }

    /// Its layout on the drives.
    ///
    /// # Errors
    /// An invalid layout.
    pub fn map(&self) -> Result<StripeMap> {
        let member = |share: &Share| StripeMember {
            capacity_bytes: share.capacity_bytes,
            weight: share.weight,
        };
        let members: Vec<StripeMember> = self.shares.iter().map(member).collect();
        StripeMap::with_redundancy(
            &members,
            self.stripe_bytes,
            self.start_drive,
            self.redundancy,
        )
    }

    /// The seed of its checksums.
    pub fn run(&self) -> u64 {
        u64::from_str_radix(&self.id, 16).unwrap_or(0)
    }
}

/// Checksum of the checksum block at `offset_bytes` of the dataset with this run number.
pub(crate) fn checksum_block_checksum(run: u64, offset_bytes: u64, bytes: &[u8]) -> u64 {
    let place = BlockLocation {
        drive: 0,
        address_bytes: offset_bytes,
        run,
    };
    block_checksum(place, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            generation: 1,
            name: "x".into(),
            id: "00ff".into(),
            contents: Contents::File,
            len_bytes: 100_000,
            files: 1,
            index_bytes: 0,
            stripe_bytes: 1 << 20,
            start_drive: 1,
            redundancy: Redundancy::None,
            sums_checksum: 5,
            shares: vec![Share {
                drive: "a".into(),
                weight: 1.5,
                capacity_bytes: 1 << 30,
                len_bytes: 200_704,
            }],
            attributes: None,
        }
    }

    #[test]
    fn a_manifest_is_read_back_and_any_changed_figure_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        let text = manifest().seal("here").unwrap();
        std::fs::write(&path, &text).unwrap();
        assert_eq!(Manifest::read(&path, "x", "here").unwrap(), manifest());
        assert_eq!(Manifest::id_in(&text[..text.len() / 2]), None);
        let changed = String::from_utf8(text).unwrap().replace("100000", "100001");
        std::fs::write(&path, changed).unwrap();
        let error = Manifest::read(&path, "x", "here").unwrap_err();
        assert_eq!(error.kind(), outcore_io::Kind::Corrupt);
        assert_eq!(error.file_path(), Some(path.as_path()));
        // Correct by its checksum, but with impossible figures.
        let odd = Manifest {
            stripe_bytes: 0,
            ..manifest()
        };
        std::fs::write(&path, odd.seal("here").unwrap()).unwrap();
        assert!(Manifest::read(&path, "x", "here").is_err());
    }

    #[test]
    fn the_last_checksum_block_ends_with_the_payloads_last_block() {
        let manifest = manifest();
        assert_eq!(manifest.checksum_blocks(), 2);
        assert_eq!(manifest.checksum_block_len(0), 65536);
        assert_eq!(manifest.checksum_block_len(1), 102_400 - 65_536);
        assert_eq!(
            (manifest.sums_at_bytes(), manifest.full_bytes()),
            (131_072, 135_168)
        );
        assert_eq!(manifest.run(), 255);
    }
}
