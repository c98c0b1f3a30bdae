//! Turns the user's inputs of a lazy dataset into those of [`outcore::dataset`].
//!
//! Contract: [`open`] examines the files, decides the type of their records, and reads nothing
//! else. [`LineFiles`] handles two cases that the engine does not know: files of lines that are
//! compressed, and CSV, whose header names the columns ([`CsvStep`]). [`Allowed`] holds the user's
//! settings.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outcore::Input;
use outcore::Result;
use outcore::dataset::{
    Dataset, LateStep, LineSource, ResourceProvider, Settled, Step, TypedFiles,
};
use outcore::job::{Control, Job, OutputPlaces};
use outcore::sort::lines::LineSortOptions;
use outcore_io::port::ScratchDrive;

use crate::content::Recognition;
use crate::inputs::{self, FilesOnly, ResolvedInput, Source, Streams};
use crate::output::{Target, check_room};
use crate::records::{self, TypeRequest};
use crate::resources::{Resources, default_scratch_dir};
use crate::spool::{Spool, unpack_packed};
use crate::text::csv_files::{COUNT_COLUMN, CsvSort};
use crate::text::json_files::skip_input_marks;
use crate::text::output::Dress;

/// The user's settings, and the observer of the job.
#[derive(Debug, Clone)]
pub struct Allowed {
    /// The settings.
    pub resources: Resources,
    /// How jobs are observed and stopped.
    pub control: Arc<Control>,
}

impl ResourceProvider for Allowed {
    fn job(&self, beside: &Path) -> Result<Job> {
        let drives = self.resources.named_drives(0)?;
        let mut job = self.resources.pass_job(drives);
        job.control = Arc::clone(&self.control);
        if job.options.outputs == OutputPlaces::Unknown {
            job.options.outputs = OutputPlaces::Files(vec![beside.join("result")]);
        }
        Ok(job)
    }

    fn scratch_drives(&self, scratch_bytes: u64, beside: &Path) -> Result<Vec<ScratchDrive>> {
        self.resources.scratch_drives(scratch_bytes, beside)
    }

    fn scratch_dirs(&self, beside: &Path) -> Result<Vec<PathBuf>> {
        let named = self.resources.specs().iter().map(|drive| drive.dir.clone());
        let named: Vec<PathBuf> = named.collect();
        match named.is_empty() {
            true => Ok(vec![default_scratch_dir(beside)?]),
            false => Ok(named),
        }
    }

    fn check_room(&self, files: &[PathBuf], data_bytes: u64) -> Result<()> {
        let target = Target::Shards {
            paths: files.to_vec(),
            manifest: PathBuf::new(),
        };
        check_room(self.resources.device().as_ref(), &target, data_bytes)
    }
}

/// The inputs as the user gives them.
#[derive(Debug, Clone)]
pub enum Request {
    /// The records of files; several groups of files are zipped.
    Records(Vec<(Vec<PathBuf>, TypeRequest)>),
    /// No files: the numbers from 0 up to and excluding this one.
    Count(u64),
    /// The lines of files.
    Lines {
        /// Their names.
        inputs: Vec<PathBuf>,
        /// The byte that ends a line.
        terminator: u8,
        /// The data that may be read as lines.
        recognition: Recognition,
        /// Whether they are JSON values; a byte order mark is then skipped.
        is_json: bool,
    },
}

/// An opened dataset.
pub struct Opened {
    /// The dataset without any step.
    pub dataset: Dataset,
    /// The files of the first group.
    pub sources: Vec<Source>,
    /// The files, if they hold lines.
    pub lines: Option<LineFiles>,
}

/// Examines the files of the request.
///
/// # Errors
/// Files that are missing or hold something else; unknown types.
pub fn open(request: &Request, resources: &Resources) -> Result<Opened> {
    match request {
        Request::Count(count) => Ok(Opened {
            dataset: Dataset::count_up(*count)?,
            sources: Vec::new(),
            lines: None,
        }),
        Request::Lines {
            inputs: names,
            terminator,
            recognition,
            is_json,
        } => {
            let sources = inputs::find(names, Streams::Refused, resources.names())?;
            let look = |source| inputs::look_at_lines(source, *recognition);
            let inputs = sources.clone().into_iter().map(look);
            let mut inputs = inputs.collect::<Result<Vec<_>>>()?;
            if *is_json {
                skip_input_marks(&mut inputs)?;
            }
            let files = LineFiles::new(inputs, *recognition, *is_json, resources);
            Ok(Opened {
                dataset: Dataset::lines(files.clone(), *terminator),
                sources,
                lines: Some(files),
            })
        }
        Request::Records(groups) => {
            let mut sources = Vec::new();
            let mut opened = Vec::with_capacity(groups.len());
            for (names, types) in groups {
                let inputs = inputs::open_files(names, resources.names())?;
                let item = records::decide(types, &inputs)?;
                if sources.is_empty() {
                    sources = inputs.iter().map(|input| input.source.clone()).collect();
                }
                opened.push(TypedFiles {
                    files: inputs.iter().map(ResolvedInput::to_sort).collect(),
                    item,
                });
            }
            Ok(Opened {
                dataset: Dataset::zip(&opened)?,
                sources,
                lines: None,
            })
        }
    }
}

/// Files of lines, possibly compressed; shared with the dataset that reads them.
#[derive(Clone)]
pub struct LineFiles(Arc<Mutex<Files>>);

struct Files {
    inputs: Vec<ResolvedInput>,
    /// Any content is accepted once the files are copies on scratch.
    recognition: Recognition,
    is_json: bool,
    resources: Resources,
    beside: PathBuf,
    /// The decompressed contents of compressed files.
    spool: Option<Spool>,
}

impl LineFiles {
    /// Files that have been examined; `is_json` means that their lines are JSON values.
    pub fn new(
        inputs: Vec<ResolvedInput>,
        recognition: Recognition,
        is_json: bool,
        resources: &Resources,
    ) -> Self {
        LineFiles(Arc::new(Mutex::new(Files {
            inputs,
            recognition,
            is_json,
            resources: resources.clone(),
            beside: PathBuf::from("."),
            spool: None,
        })))
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the settings before anything is written.
    pub fn set_resources(&self, resources: &Resources) {
        self.files().resources = resources.clone();
    }

    /// The current inputs, and the data that may be read as lines.
    pub fn inputs(&self) -> (Vec<ResolvedInput>, Recognition) {
        let files = self.files();
        (files.inputs.clone(), files.recognition)
    }
}

impl LineSource for LineFiles {
    fn files(&self) -> Vec<Input> {
        self.files()
            .inputs
            .iter()
            .map(ResolvedInput::to_sort)
            .collect()
    }

    fn is_packed(&self) -> bool {
        let files = self.files();
        let packed =
            |input: &ResolvedInput| files.recognition.packed(&input.source.name, input.content);
        files.inputs.iter().any(|input| packed(input).is_some())
    }

    fn unpack(&mut self, job: &Job, beside: &Path) -> Result<()> {
        let mut files = self.files();
        files.beside = beside.to_path_buf();
        let (inputs, recognition) = (std::mem::take(&mut files.inputs), files.recognition);
        let Files {
            resources, spool, ..
        } = &mut *files;
        let mut unpacked = unpack_packed(job, resources, beside, inputs, recognition, spool)?;
        if files.is_json {
            skip_input_marks(&mut unpacked)?;
        }
        files.inputs = unpacked;
        files.recognition = Recognition::ANYTHING;
        Ok(())
    }

    fn scratch_bytes(&self) -> u64 {
        self.files().spool.as_ref().map_or(0, |spool| spool.bytes)
    }

    fn replace(&mut self, paths: &[PathBuf]) -> Result<()> {
        let sources = inputs::find(paths, Streams::Refused, &FilesOnly)?;
        let look = |source| inputs::look_at_lines(source, Recognition::ANYTHING);
        let mut files = self.files();
        files.inputs = sources.into_iter().map(look).collect::<Result<_>>()?;
        files.recognition = Recognition::ANYTHING;
        Ok(())
    }

    fn name_of(&self, path: &Path) -> PathBuf {
        let files = self.files();
        let mut sources = files.inputs.iter().map(|input| &input.source);
        let found = sources.find(|source| source.path == path);
        found.map_or(path, |source| &source.name).to_path_buf()
    }
}

/// The work of a step on CSV records.
#[derive(Debug, Clone, Copy)]
pub enum OfCsv {
    /// Sorts them by columns.
    Sort {
        /// Options: one record per key, counts, records without a key.
        options: LineSortOptions,
        /// Whether each file is already sorted.
        merges: bool,
    },
    /// Shuffles them.
    Shuffle {
        /// Seed of the order.
        seed: u64,
        /// Selects another order for the same seed.
        epoch: u64,
    },
}

/// A step on CSV, whose columns are known after its files have been examined.
pub struct CsvStep {
    /// How its records are read and sorted.
    pub csv: CsvSort,
    /// The operation.
    pub of: OfCsv,
    /// The files.
    pub files: LineFiles,
    /// The form of records in the output; known when the step is settled.
    pub dress: Arc<Mutex<Dress>>,
}

impl LateStep for CsvStep {
    fn text(&self) -> &'static str {
        match self.of {
            OfCsv::Shuffle { .. } => "shuffle",
            OfCsv::Sort { options, .. } if options.count => "count each",
            OfCsv::Sort { options, merges } => match (merges, options.unique) {
                (false, false) => "sort",
                (false, true) => "sort, one per key",
                (true, false) => "merge",
                (true, true) => "merge, one per key",
            },
        }
    }

    fn settle(&self, job: &Job) -> Result<Settled> {
        let mut files = self.files.files();
        let Files {
            inputs,
            resources,
            beside,
            spool,
            ..
        } = &mut *files;
        let make = || Spool::beside(job, resources, beside);
        let mut found = self.csv.settle_inputs(job, inputs, spool, make)?;
        if let OfCsv::Sort { options, .. } = self.of
            && options.count
        {
            found.put_column_first(COUNT_COLUMN)?;
        }
        let terminator = found.terminator();
        let step = match self.of {
            OfCsv::Sort { options, merges } => Step::SortLines {
                options: found.options(options),
                order: Arc::new(found.order),
                merges,
            },
            OfCsv::Shuffle { seed, epoch } => Step::Shuffle { seed, epoch },
        };
        *self.dress.lock().unwrap_or_else(PoisonError::into_inner) = found.dress;
        Ok(Settled { step, terminator })
    }
}
