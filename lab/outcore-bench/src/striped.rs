//! One file or directory as a dataset, striped over some of the measured drives.
//!
//! Contract: [`Striped::put`] makes a volume on the drives and copies the data there. Jobs on
//! [`Striped::mount`] read the data in place, under the dataset's name. Dropping the value removes
//! the volume.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{Device, Result};
use outcore_front::volumes::{self, Sealed};
use outcore_io::drive::folder;
use outcore_io::drive::queue::TAGS_DEFAULT;
use outcore_store::dataset::device::DatasetDevice;
use outcore_store::dataset::transfer::TransferResources;
use outcore_store::dataset::{DatasetVolume, Named, VolumeDrive, Watch as TransferWatch};

use crate::bench_dirs::BenchDirs;

const STRIPE_BYTES: u64 = 1 << 20;

/// The dataset; see the module.
pub(crate) struct Striped {
    pub(crate) volume: DatasetVolume,
    pub(crate) name: Named,
    mark: &'static str,
    device: Arc<dyn Device>,
    places: Vec<PathBuf>,
}

impl Striped {
    /// Puts `from` as the dataset `mark`, which begins with `@`, on the first `drives` drives.
    ///
    /// # Errors
    /// No space, errors of the drives, interrupted.
    pub(crate) fn put(
        mark: &'static str,
        bench_dirs: &BenchDirs<'_>,
        drives: usize,
        from: &Path,
    ) -> Result<Self> {
        let watch = bench_dirs.watch;
        let places = bench_dirs.paths(drives, &drives.to_string());
        let members = places.iter().enumerate().map(|(number, place)| {
            folder::make_dir(place)?;
            Ok(VolumeDrive {
                name: format!("d{number}"),
                dir: place.clone(),
                weight: 1.0,
                limit_bytes: u64::MAX,
                tags: TAGS_DEFAULT,
                controller: None,
            })
        });
        let members: Vec<VolumeDrive> = members.collect::<Result<_>>()?;
        let device = bench_dirs.job(1).device;
        let seed = volumes::fresh_seed();
        let volume = DatasetVolume::create(Arc::clone(&device), members, STRIPE_BYTES, seed)?;
        let striped = Striped {
            volume,
            name: volumes::named(mark.as_ref())?,
            mark,
            device,
            places,
        };
        let budget = volumes::budget();
        let resources = TransferResources {
            device: &striped.device,
            budget: &budget,
            watch: TransferWatch {
                check: &|| watch.check(),
                advance: &|_| (),
                throttle: None,
            },
        };
        volumes::put(&striped.volume, from, &striped.name, false, resources)?;
        Ok(striped)
    }

    /// A device on which the dataset is a file of the same name.
    pub(crate) fn mount(&self, sealed: &Sealed) -> Arc<DatasetDevice> {
        let device = Arc::clone(&self.device);
        let mounted = DatasetDevice::new(device, self.volume.clone(), volumes::budget());
        Arc::new(mounted.with_input(self.mark, sealed.name()))
    }
}

impl Drop for Striped {
    fn drop(&mut self) {
        for place in &self.places {
            // Remaining files are removed with the private directory.
            let _ = folder::remove_dirs(place);
        }
    }
}
