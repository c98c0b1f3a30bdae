//! A raw striped volume: one range of bytes over many drives, for in-place reads and writes.
//!
//! Contract: threads share a [`StripedVolume`]. Each makes its own [`Submitter`] (with its ring and
//! its lanes) and passes it batches; threads of the volume may serve them ([`Servers`]).
//! [`StripeMap`] determines where bytes are stored, in one file or block device per drive. There
//! are no checksums for data written in place; sealed datasets ([`crate::dataset`]) have them.
//! Slots of a drive are counted over all submitters, and over all drives of a controller if they
//! share slots.
//!
//! Bounds: no buffers of its own. Files stay open as long as the volume or one of its submitters
//! lives.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::batch::Submitter;
use crate::mapping::{StripeMap, StripeMember};
use crate::serving::ServerThreads;
use crate::serving::Shared;
use outcore_io::drive::queue::{TAGS_DEFAULT, TagPool};
use outcore_io::drive::{Access, Device, FileId, PrivateDir, QueueLimits};
use outcore_io::error::{Error, Result};
use outcore_io::port::TransferFault;
use outcore_io::threads;
use outcore_io::units;

use crate::stripe::ABSENT;
pub use crate::stripe::{BackPressure, Servers, StripeOptions, StripedDrive};

/// A drive of a volume, before it is opened.
#[derive(Debug, Clone)]
pub struct Member {
    /// The name in messages and reports.
    pub name: String,
    /// A file, or a block device.
    pub path: PathBuf,
    /// Whether it is absent: it has its place in the layout, is not opened, and its transfers fail.
    pub is_absent: bool,
    /// Share of the stripes, relative to the others.
    pub weight: f64,
    /// Bytes of the file or device to use; all by default.
    pub capacity_bytes: Option<u64>,
    /// Present or future length of the file, if that is less than the capacity: a sealed dataset
    /// fills only the front of the room in its layout.
    pub file_bytes: Option<u64>,
    /// Its slots; [`TAGS_DEFAULT`] by default.
    pub tags: Option<usize>,
    /// Its controller, and the slots that all drives of the controller share.
    pub controller: Option<(String, usize)>,
}

impl Member {
    /// A file or block device with an equal share.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Member {
            name: path.display().to_string(),
            path,
            is_absent: false,
            weight: 1.0,
            capacity_bytes: None,
            file_bytes: None,
            tags: None,
            controller: None,
        }
    }
}

/// Many drives as one range of bytes. Clones share it.
#[derive(Clone)]
pub struct StripedVolume(Arc<Shared>);

impl StripedVolume {
    /// Opens existing files or block devices.
    ///
    /// # Errors
    /// A file or device that cannot be opened (the kernel rejects a mounted device); an invalid
    /// layout.
    pub fn open(
        device: Arc<dyn Device>,
        members: &[Member],
        options: StripeOptions,
    ) -> Result<Self> {
        Self::on(device, members, options, Access::Update, Vec::new())
    }

    /// Like [`StripedVolume::open`], for reading only; writes fail.
    ///
    /// # Errors
    /// The errors of [`StripedVolume::open`].
    pub fn open_for_reading(
        device: Arc<dyn Device>,
        members: &[Member],
        options: StripeOptions,
    ) -> Result<Self> {
        Self::on(device, members, options, Access::Read, Vec::new())
    }

    /// Makes one file per member, with room for its capacity; none may exist. Either all are made
    /// or none.
    ///
    /// # Errors
    /// Usage for a member without a capacity; no room; an invalid layout.
    pub fn create(
        device: Arc<dyn Device>,
        members: &[Member],
        options: StripeOptions,
    ) -> Result<Self> {
        Self::on(device, members, options, Access::Create, Vec::new())
    }

    /// Makes files of `capacity_bytes` in private directories inside `dirs`. They are removed with
    /// the volume, or by the next sweep after a crash.
    ///
    /// # Errors
    /// A directory that is not writable; no room; an invalid layout.
    pub fn temporary(
        device: Arc<dyn Device>,
        dirs: &[PathBuf],
        capacity_bytes: u64,
        options: StripeOptions,
    ) -> Result<Self> {
        let mut private = Vec::new();
        let mut members = Vec::new();
        for dir in dirs {
            device.sweep_private_dirs(dir)?;
            let made = device.make_private_dir(dir)?;
            members.push(Member {
                name: dir.display().to_string(),
                capacity_bytes: Some(capacity_bytes),
                ..Member::new(made.path().join("volume"))
            });
            private.push(made);
        }
        Self::on(device, &members, options, Access::Create, private)
    }

    fn on(
        device: Arc<dyn Device>,
        members: &[Member],
        options: StripeOptions,
        access: Access,
        dirs: Vec<PrivateDir>,
    ) -> Result<Self> {
        let mut drives = Vec::with_capacity(members.len());
        let opened = open_all(device.as_ref(), members, &options, access, &mut drives);
        let laid_out = opened.and_then(|()| {
            let members: Vec<StripeMember> = drives
                .iter()
                .map(|drive| StripeMember {
                    capacity_bytes: drive.capacity_bytes,
                    weight: drive.weight,
                })
                .collect();
            StripeMap::with_redundancy(
                &members,
                options.stripe_bytes,
                options.start_drive,
                options.redundancy,
            )
        });
        match laid_out {
            Ok(map) => Ok(StripedVolume(Arc::new(Shared {
                device,
                map,
                drives,
                options,
                servers: ServerThreads::default(),
                _dirs: dirs,
            }))),
            Err(error) => {
                for drive in drives.iter().filter(|drive| drive.file != ABSENT) {
                    device.close(drive.file);
                    if access == Access::Create {
                        // The first failure is the one to report.
                        let _ = device.remove(&drive.path);
                    }
                }
                Err(error)
            }
        }
    }

    /// Bytes of the volume, without parity.
    pub fn len_bytes(&self) -> u64 {
        self.0.map.len_bytes()
    }

    /// Its layout.
    pub fn map(&self) -> &StripeMap {
        &self.0.map
    }

    /// Its drives, in order.
    pub fn drives(&self) -> &[StripedDrive] {
        &self.0.drives
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.device
    }

    /// Number of running server threads; see [`StripeOptions::servers`].
    pub fn server_threads(&self) -> usize {
        self.0.servers.count()
    }

    /// Access for the calling thread.
    ///
    /// # Errors
    /// The queue cannot be made.
    pub fn submitter(&self) -> Result<Submitter> {
        Submitter::new(Arc::clone(&self.0))
    }

    /// Access with slots of its own, as many as usual. For a thread that waits for this submitter
    /// while another submitter of the thread holds slots.
    ///
    /// # Errors
    /// The queue cannot be made.
    pub(crate) fn submitter_apart(&self) -> Result<Submitter> {
        Submitter::apart(Arc::clone(&self.0))
    }

    /// Makes all written data durable.
    ///
    /// # Errors
    /// The first drive that fails, by name.
    pub fn sync(&self) -> Result<()> {
        threads::each("outcore-sync", self.drives(), |drive| {
            let synced = match drive.file {
                ABSENT => Ok(()),
                file => self.0.device.sync(file),
            };
            synced.map_err(|error| error.drive(&drive.name))
        })
    }

    /// Frees the blocks of a range on all drives that it touches; later reads return zeros there.
    ///
    /// # Errors
    /// The first drive that fails, by name; `EOPNOTSUPP` if its file system or device does not
    /// support holes.
    ///
    /// # Panics
    /// If the range extends beyond the volume.
    pub fn punch(&self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        // Consecutive stripes of a drive are adjacent on it, so this is one range per drive.
        let mut ranges: Vec<Option<(u64, u64)>> = vec![None; self.drives().len()];
        self.map()
            .split(offset_bytes, len_bytes as usize, usize::MAX, |piece| {
                let end_bytes = piece.offset_bytes + piece.len_bytes as u64;
                let range = &mut ranges[piece.drive_index];
                *range = Some((
                    range.map_or(piece.offset_bytes, |(from, _)| from),
                    end_bytes,
                ));
            });
        for (drive, range) in self.drives().iter().zip(ranges) {
            let Some((from_bytes, end_bytes)) = range else {
                continue;
            };
            let punched = self
                .0
                .device
                .punch(drive.file, from_bytes, end_bytes - from_bytes);
            punched.map_err(|error| error.drive(&drive.name))?;
        }
        Ok(())
    }

    /// The error for a failed transfer, with its place.
    pub fn explain(&self, fault: &TransferFault) -> Error {
        self.0.explain(fault)
    }
}

fn open_all(
    device: &dyn Device,
    members: &[Member],
    options: &StripeOptions,
    access: Access,
    drives: &mut Vec<StripedDrive>,
) -> Result<()> {
    let mut controllers: HashMap<&str, Arc<TagPool>> = HashMap::new();
    for member in members {
        let named = |error: Error| error.drive(&member.name);
        let (file, limits) = match member.is_absent {
            true => (ABSENT, QueueLimits::default()),
            false => {
                let file = device.open(&member.path, access).map_err(named)?;
                (file, device.limits(file))
            }
        };
        let tags = member.tags.unwrap_or(TAGS_DEFAULT).min(limits.tags_max());
        let controller_tags = member.controller.as_ref().map(|(name, tags)| {
            let pool = controllers
                .entry(name)
                .or_insert_with(|| Arc::new(TagPool::new(*tags)));
            Arc::clone(pool)
        });
        let merge_bytes_max = limits.merge_bytes_max();
        drives.push(StripedDrive {
            name: member.name.clone(),
            path: member.path.clone(),
            file,
            capacity_bytes: 0,
            weight: member.weight,
            limits,
            transfer_bytes_max: options
                .merge_bytes_max
                .map_or(merge_bytes_max, |bytes| bytes.min(merge_bytes_max)),
            tags: Arc::new(TagPool::new(tags)),
            controller_tags,
        });
        let capacity_bytes = match member.is_absent {
            true => member.capacity_bytes.unwrap_or(0),
            false => room_of(device, member, file, access).map_err(named)?,
        };
        if let Some(drive) = drives.last_mut() {
            drive.capacity_bytes = capacity_bytes;
        }
    }
    Ok(())
}

fn room_of(device: &dyn Device, member: &Member, file: FileId, access: Access) -> Result<u64> {
    let own_bytes = member.file_bytes.or(member.capacity_bytes);
    if access == Access::Create {
        let Some((own_bytes, capacity_bytes)) = own_bytes.zip(member.capacity_bytes) else {
            let error = Error::usage("make volume", "the capacity of a drive is missing");
            return Err(error.path(&member.path));
        };
        if own_bytes > 0 {
            device.allocate(file, own_bytes)?;
        }
        return Ok(capacity_bytes);
    }
    let len_bytes = device.facts(file)?.len_bytes;
    match own_bytes {
        Some(wanted_bytes) if wanted_bytes > len_bytes => Err(Error::corrupt(
            "open volume",
            format!("{} long, not {wanted_bytes}", units::counted(len_bytes, "byte")),
        )
        .path(&member.path)
        .hint("the file was truncated after the volume was made: restore it, or make the volume again")),
        _ => Ok(member.capacity_bytes.unwrap_or(len_bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore_io::drive::testing::{RamDevice, RamOptions};

    fn dirs(drives: usize) -> Vec<PathBuf> {
        (0..drives)
            .map(|drive| PathBuf::from(format!("/d{drive}")))
            .collect()
    }

    #[test]
    fn a_temporary_volume_leaves_nothing() {
        let ram = RamDevice::new(RamOptions::default());
        let options = StripeOptions::default();
        let made = StripedVolume::temporary(Arc::new(ram.clone()), &dirs(3), 1 << 20, options);
        let volume = made.unwrap();
        assert_eq!(volume.len_bytes(), 3 << 20);
        assert_eq!(ram.list().len(), 3);
        drop(volume);
        assert_eq!(ram.list(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_full_drive_is_named_and_what_was_made_is_gone() {
        let ram = RamDevice::new(RamOptions {
            capacity_bytes: 3 << 20,
            ..RamOptions::default()
        });
        let members: Vec<Member> = dirs(4)
            .iter()
            .map(|dir| Member {
                name: dir.display().to_string(),
                capacity_bytes: Some(1 << 20),
                ..Member::new(dir.join("x"))
            })
            .collect();
        let device = Arc::new(ram.clone());
        let error = StripedVolume::create(device, &members, StripeOptions::default()).err();
        let error = error.unwrap();
        assert_eq!(error.kind(), outcore_io::Kind::NoSpace);
        assert_eq!(error.drive_name(), Some("/d3"));
        assert_eq!(ram.list(), Vec::<PathBuf>::new());
    }

    #[test]
    fn drives_of_one_controller_share_its_slots() {
        let ram = RamDevice::new(RamOptions::default());
        let members: Vec<Member> = dirs(3)
            .iter()
            .enumerate()
            .map(|(index, dir)| Member {
                capacity_bytes: Some(1 << 20),
                controller: (index > 0).then(|| ("switch".to_string(), 40)),
                ..Member::new(dir.join("x"))
            })
            .collect();
        let options = StripeOptions::default();
        let volume = StripedVolume::create(Arc::new(ram), &members, options).unwrap();
        let pools: Vec<_> = volume
            .drives()
            .iter()
            .map(|d| d.controller_tags.clone())
            .collect();
        assert!(pools[0].is_none());
        let (one, other) = (pools[1].clone().unwrap(), pools[2].clone().unwrap());
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(
            (one.limit(), volume.drives()[0].tags.limit()),
            (40, TAGS_DEFAULT)
        );
    }
}
