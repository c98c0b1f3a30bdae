//! `@name` where a function takes a file.
//!
//! Contract: with a volume (`volume=`, or `OUTCORE_VOLUME`), the files of a request whose names
//! begin with `@` are datasets ([`outcore_front::staging`]). Inputs are read in place, or copied.
//! An output is a sealed dataset once the job has succeeded, and absent otherwise. Errors and
//! replies have the names that the user gave ([`Run::name_of`]). Without a volume a dataset is an
//! error, unless there is a file of that name.

use std::path::{Path, PathBuf};

use outcore::Result;
use outcore_front::resources::Resources;
use outcore_front::staging::{self, PackedDirectory, Reads, Staging, Work, sealed_error};
use outcore_front::volumes::VOLUME_VARIABLE;
use outcore_store::dataset::{Named, Watch};

use crate::request;
use crate::run::Run;

/// How a job uses its files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    /// How it reads its inputs.
    pub(crate) reads: Reads,
    /// Whether it changes an input in place.
    pub(crate) is_in_place: bool,
    /// Whether outputs may be replaced.
    pub(crate) force: bool,
}

impl Use {
    /// The use of most jobs.
    pub(crate) fn of_engine(force: bool) -> Self {
        Use {
            reads: Reads::ByEngine,
            is_in_place: false,
            force,
        }
    }
}

/// The datasets among a job's files.
#[derive(Default)]
pub(crate) struct Datasets(Option<Staging>);

/// Copies, watched by `run`.
fn copying(run: &Run) -> impl Fn(u64, &Work<'_>) -> Result<()> {
    move |bytes, work| {
        run.control.begin_phase("copy", bytes);
        work(Watch {
            check: &|| run.control.check(),
            advance: &|bytes| run.control.advance(bytes),
            throttle: None,
        })
    }
}

impl Datasets {
    /// Replaces the names of datasets in `read` and `written`.
    ///
    /// # Errors
    /// No volume, or no volume with that name; no such dataset, or one that must not be
    /// written; damage; no room.
    pub(crate) fn stage<'a>(
        resources: &request::Resources,
        how: Use,
        read: impl IntoIterator<Item = &'a mut PathBuf>,
        written: impl IntoIterator<Item = &'a mut PathBuf>,
        run: &Run,
    ) -> Result<Self> {
        let mut datasets = Datasets::default();
        let read: Vec<&mut PathBuf> = read.into_iter().collect();
        for path in read.iter().filter(|_| how.is_in_place) {
            if datasets.begin(resources, path, run)?.is_some() {
                let hint = "write another dataset; --force replaces an existing one";
                return Err(sealed_error(path).hint(hint));
            }
        }
        for path in written {
            datasets.output(resources, path, how.force, run)?;
        }
        for path in read {
            let Some(staging) = datasets.begin(resources, path, run)? else {
                continue;
            };
            let file = staging.input(path, how.reads, &copying(run))?;
            run.call(&file, path);
            *path = file;
        }
        Ok(datasets)
    }

    /// Replaces `path`, which is written, if it names a dataset.
    ///
    /// # Errors
    /// As [`Datasets::stage`].
    pub(crate) fn output(
        &mut self,
        resources: &request::Resources,
        path: &mut PathBuf,
        force: bool,
        run: &Run,
    ) -> Result<()> {
        if let Some(staging) = self.begin(resources, path, run)? {
            let file = staging.output(path, force)?;
            run.call(&file, path);
            *path = file;
        }
        Ok(())
    }

    /// The directory that is packed in the dataset `path`, if it names one, to be read in place.
    ///
    /// # Errors
    /// As [`Datasets::stage`]; a dataset that is not a directory.
    pub(crate) fn packed(
        &mut self,
        resources: &request::Resources,
        path: &Path,
        run: &Run,
    ) -> Result<Option<PackedDirectory>> {
        let staging = self.begin(resources, path, run)?;
        staging.map(|staging| staging.packed(path)).transpose()
    }

    /// The staging of datasets, if `path` names one.
    fn begin(
        &mut self,
        resources: &request::Resources,
        path: &Path,
        run: &Run,
    ) -> Result<Option<&mut Staging>> {
        if !Named::is_mark(path) {
            return Ok(None);
        }
        let by_variable = || run.environment.get(VOLUME_VARIABLE).map(PathBuf::from);
        let Some(drives_file) = resources.volume.clone().or_else(by_variable) else {
            return staging::refuse_without_volume(path).map(|()| None);
        };
        if self.0.is_none() {
            let device = resources.load(&run.environment)?.device();
            self.0 = Some(Staging::begin(device, &drives_file)?);
        }
        Ok(self.0.as_mut())
    }

    /// The resources of the job. With `lends_drives`, scratch goes to the volume's drives if no
    /// others are given.
    ///
    /// # Errors
    /// Invalid settings; the volume cannot be opened.
    pub(crate) fn resources(
        &self,
        resources: &request::Resources,
        lends_drives: bool,
        run: &Run,
    ) -> Result<Resources> {
        match &self.0 {
            None => resources.load(&run.environment),
            Some(staging) => {
                let files = staging.files(lends_drives);
                files.resources(&resources.to_request()?, &run.environment)
            }
        }
    }

    /// Turns the files that the job has made into datasets.
    ///
    /// # Errors
    /// A file that cannot become a dataset.
    pub(crate) fn put(self, run: &Run) -> Result<()> {
        self.0
            .map_or(Ok(()), |staging| staging.finish(&copying(run)))
    }
}
