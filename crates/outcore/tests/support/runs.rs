//! Jobs for tests: the parameters of a sort, run on drives in memory, with the guarantees checked
//! afterwards.
//!
//! Contract: [`Sort::on_ram`] sets up drives `/d0` to `/d7`, and [`Sort::on_files`] directories
//! `d0` to `d7`. Both run the sort and check the guarantees of every run, successful or not. Inputs
//! are unchanged, only inputs and published output are left, all memory is returned, and the limit
//! was never exceeded.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outcore::IoMode;
use outcore::job::{ComputeCosts, DriveRates, Job, JobOptions, JobSize, Layout, ScratchDrive};
use outcore::key::RecordFormat;
use outcore::sort::plan::{SortPlan, SortSize, plan_sort};
use outcore::sort::{SortOptions, SortSummary, sort};
use outcore::{Input, Output};
use outcore::{Kind, Result};
use outcore_io::drive::Device;
use outcore_io::drive::late::Engine;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::{RamDevice, RamOptions};

use super::watchdog::Watchdog;

/// The destination of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// One file, `/d0/out`, with this many bytes of header.
    File { header_bytes: usize },
    /// This many shards, `/d{i}/out-{i}`, rotating over the drives, and a manifest.
    Shards(usize),
    /// A pipe.
    Pipe,
}

/// A sort to test.
#[derive(Debug, Clone)]
pub struct Sort {
    /// The record format.
    pub format: RecordFormat,
    /// Options of the sort.
    pub options: SortOptions,
    /// The destination of the result.
    pub target: Target,
    /// Bytes before the data of each input.
    pub header_bytes: usize,
    /// The data, one file each: input i is `/d{i mod drives}/in-{i}`.
    pub inputs: Vec<Vec<u8>>,
    /// The memory limit; raised to the smallest one for which there is a plan.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Drives for scratch.
    pub drives: usize,
    /// Seed of the job and the device.
    pub seed: u64,
    /// Room on all drives together.
    pub capacity_bytes: u64,
    /// Whether the test itself changes inputs while they are read.
    pub is_disturbed: bool,
    /// The parent of the drives' directories.
    pub root: PathBuf,
}

/// The files of a device, seen from outside.
pub trait Files {
    /// The bytes of a file, if it exists.
    fn get(&self, path: &Path) -> Option<Vec<u8>>;
    /// Names of all files, sorted.
    fn list(&self) -> Vec<PathBuf>;
}

impl Files for RamDevice {
    fn get(&self, path: &Path) -> Option<Vec<u8>> {
        self.get(path)
    }

    fn list(&self) -> Vec<PathBuf> {
        self.list()
    }
}

/// A directory of the operating system.
pub struct Folder(pub PathBuf);

impl Files for Folder {
    fn get(&self, path: &Path) -> Option<Vec<u8>> {
        fs::read(path).ok()
    }

    /// Files, and private directories, below the directory.
    fn list(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut dirs = vec![self.0.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let is_dir = path.is_dir();
                let is_private = path
                    .file_name()
                    .unwrap()
                    .as_encoded_bytes()
                    .starts_with(b".");
                if !is_dir || is_private {
                    files.push(path.clone());
                }
                if is_dir {
                    dirs.push(path);
                }
            }
        }
        files.sort();
        files
    }
}

/// The result of a run.
pub struct Ran {
    /// The result of [`sort`].
    pub result: Result<SortSummary>,
    /// The data written, shards one after another, without header; `None` without an output.
    pub output: Option<Vec<u8>>,
    /// A description of the run.
    pub what: String,
}

/// A pipe into memory.
#[derive(Clone, Default)]
pub struct PipeEnd(pub Arc<Mutex<Vec<u8>>>);

impl Write for PipeEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Short writes, as with pipes.
        let len = bytes.len().min(10_007);
        self.0.lock().unwrap().extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sort {
    /// A plain sort of one input on one drive and one thread, with as little memory as possible.
    pub fn of(format: &RecordFormat, input: Vec<u8>) -> Self {
        Sort {
            format: format.clone(),
            options: SortOptions::default(),
            target: Target::File { header_bytes: 0 },
            header_bytes: 0,
            inputs: vec![input],
            memory_bytes: 0,
            threads: 1,
            drives: 1,
            seed: 1,
            capacity_bytes: 1 << 40,
            is_disturbed: false,
            root: "/".into(),
        }
    }

    /// All data, one input after another.
    pub fn data(&self) -> Vec<u8> {
        self.inputs.concat()
    }

    /// Divides one input into `count` files at element boundaries, of unequal length.
    pub fn split_input(mut self, count: usize) -> Self {
        let data = self.data();
        let record_bytes = self.format.record_bytes();
        let records = data.len() / record_bytes;
        let cut = |i: usize| records * i * i / (count * count) * record_bytes;
        self.inputs = (0..count)
            .map(|i| data[cut(i)..cut(i + 1)].to_vec())
            .collect();
        self
    }

    fn size(&self) -> SortSize {
        // NaNs with different bits are one key, but different scalars.
        let is_one_key = (self.options.stable || self.options.unique) && self.format.has_floats();
        let is_scalar = self.format.scalar().is_some() && !is_one_key;
        SortSize {
            job: JobSize {
                data_bytes: self.inputs.iter().map(|input| input.len() as u64).sum(),
                memory_bytes: self.memory_bytes,
                held_bytes: 0,
                threads: self.threads,
                drive_count: self.drives,
                layout: Layout::even(DriveRates::ASSUMED, self.drives).into(),
                costs: ComputeCosts::ASSUMED,
            },
            element_bytes: self.format.record_bytes(),
            is_scalar,
            is_ordered: self.options.stable && !is_scalar,
        }
    }

    fn plan_in(&self, memory_bytes: u64) -> outcore::Result<SortPlan> {
        let size = self.size();
        let job = JobSize {
            memory_bytes,
            ..size.job
        };
        plan_sort(SortSize { job, ..size })
    }

    /// The smallest memory from `memory_bytes` on, to 64 KiB, for which there is a plan.
    pub fn least_memory(&self) -> u64 {
        let size = self.size();
        let is_enough = |memory_bytes| self.plan_in(memory_bytes).is_ok();
        let (mut below, mut enough) = (1 << 20, size.memory_bytes.max(4 << 20));
        if is_enough(size.memory_bytes.max(1 << 20)) {
            return size.memory_bytes.max(1 << 20);
        }
        while !is_enough(enough) {
            below = enough;
            enough *= 2;
        }
        while enough - below > 64 << 10 {
            let middle = (below + enough) / 2;
            if is_enough(middle) {
                enough = middle;
            } else {
                below = middle;
            }
        }
        enough
    }

    /// The plan of this sort.
    pub fn plan(&self) -> SortPlan {
        self.plan_in(self.least_memory()).unwrap()
    }

    /// Puts the inputs on new drives.
    pub fn make_device(&self) -> RamDevice {
        let device = RamDevice::new(RamOptions {
            seed: self.seed,
            capacity_bytes: self.capacity_bytes,
            short_one_in: 7,
        });
        for (index, input) in self.inputs.iter().enumerate() {
            device.put(self.input_path(index), self.with_header(input));
        }
        device
    }

    fn with_header(&self, input: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xAB; self.header_bytes];
        bytes.extend_from_slice(input);
        bytes
    }

    /// The path of an input.
    pub fn input_path(&self, index: usize) -> PathBuf {
        self.drive(index).join(format!("in-{index}"))
    }

    fn drive(&self, index: usize) -> PathBuf {
        self.root.join(format!("d{}", index % self.drives))
    }

    fn out_path(&self) -> PathBuf {
        self.drive(0).join("out")
    }

    fn manifest_path(&self) -> PathBuf {
        self.drive(0).join("out.outcore.json")
    }

    fn shard_path(&self, index: usize) -> PathBuf {
        self.drive(index).join(format!("out-{index}"))
    }

    /// A job for this sort on `device`.
    pub fn job(&self, device: Arc<dyn Device>) -> Job {
        let drives = (0..self.drives)
            .map(|index| ScratchDrive {
                name: format!("drive{index}"),
                dir: self.drive(index),
                weight: 1.0,
                limit_bytes: u64::MAX,
            })
            .collect();
        let options = JobOptions {
            memory_bytes: self.least_memory(),
            threads: self.threads,
            drives,
            scratch_limit_bytes: u64::MAX,
            seed: self.seed,
            costs: ComputeCosts::ASSUMED,
            ..JobOptions::default()
        };
        Job::on(options, device)
    }

    fn output(&self, pipe: &PipeEnd) -> Output {
        match self.target {
            Target::File { header_bytes: 0 } => Output::File {
                path: self.out_path(),
                header: None,
            },
            Target::File { header_bytes } => Output::File {
                path: self.out_path(),
                header: Some(Arc::new(move |_| vec![0xCD; header_bytes])),
            },
            Target::Shards(count) => Output::Shards {
                paths: (0..count).map(|index| self.shard_path(index)).collect(),
                manifest: self.manifest_path(),
            },
            Target::Pipe => Output::Pipe(Mutex::new(Box::new(pipe.clone()))),
        }
    }

    /// The published data, if there are any.
    pub fn published(&self, files: &dyn Files) -> Option<Vec<u8>> {
        match self.target {
            Target::File { header_bytes } => {
                let bytes = files.get(&self.out_path())?;
                assert!(bytes[..header_bytes].iter().all(|&byte| byte == 0xCD));
                Some(bytes[header_bytes..].to_vec())
            }
            Target::Shards(count) => {
                let mut data = Vec::new();
                for index in 0..count {
                    data.extend(files.get(&self.shard_path(index))?);
                }
                Some(data)
            }
            Target::Pipe => None,
        }
    }

    /// Runs on new drives.
    pub fn on_ram(&self) -> Ran {
        let device = self.make_device();
        let job = self.job(Arc::new(device.clone()));
        self.run(&device, &job)
    }

    /// Runs on real files in a new directory.
    pub fn on_files(&self, engine: Engine, mode: IoMode) -> Ran {
        let dir = tempfile::tempdir().unwrap();
        let here = Sort {
            root: dir.path().to_path_buf(),
            ..self.clone()
        };
        for index in 0..self.drives {
            fs::create_dir(here.drive(index)).unwrap();
        }
        for (index, input) in self.inputs.iter().enumerate() {
            fs::write(here.input_path(index), self.with_header(input)).unwrap();
        }
        let job = here.job(Arc::new(OsDevice::with_engine(mode, engine)));
        here.run(&Folder(here.root.clone()), &job)
    }

    /// Runs `job`, whose device has these `files`, and checks the guarantees of all runs.
    pub fn run(&self, files: &dyn Files, job: &Job) -> Ran {
        let _watchdog = Watchdog::new(self.describe(), Duration::from_secs(120));
        let old = self.published(files);
        let inputs: Vec<Input> = (0..self.inputs.len())
            .map(|index| Input {
                header_bytes: self.header_bytes as u64,
                ..Input::raw(self.input_path(index))
            })
            .collect();
        let pipe = PipeEnd::default();
        let result = sort(job, &inputs, self.output(&pipe), &self.format, self.options);
        let output = match self.target {
            Target::Pipe => Some(std::mem::take(&mut *pipe.0.lock().unwrap())),
            _ => self.published(files),
        };
        if result.is_err() && self.target != Target::Pipe {
            assert!(output == old, "no output, or the old one, after a failure");
        }
        self.check_left_over(files, output.is_some());
        assert_eq!(job.budget.used_bytes(), 0, "all memory is given back");
        assert!(job.budget.peak_bytes() <= job.budget.limit_bytes());
        Ran {
            result,
            output,
            what: self.describe(),
        }
    }

    fn check_left_over(&self, files: &dyn Files, has_output: bool) {
        let mut expected: Vec<PathBuf> = Vec::new();
        for (index, input) in self.inputs.iter().enumerate() {
            let path = self.input_path(index);
            if !self.options.delete_input && !self.is_disturbed {
                let bytes = files.get(&path).unwrap();
                assert!(
                    bytes == self.with_header(input),
                    "{} is as it was",
                    path.display()
                );
            }
            expected.push(path);
        }
        match self.target {
            Target::File { .. } if has_output => expected.push(self.out_path()),
            Target::Shards(count) if has_output => {
                expected.extend((0..count).map(|index| self.shard_path(index)));
                expected.push(self.manifest_path());
            }
            _ => {}
        }
        expected.sort();
        assert_eq!(files.list(), expected, "nothing is left over");
    }

    /// One line with all parameters for running it again.
    pub fn describe(&self) -> String {
        format!(
            "{} {:?} to {:?}, {} bytes in {} inputs (+{}), {} of memory, {} threads, {} drives, \
             seed {}",
            self.format,
            self.options,
            self.target,
            self.size().data_bytes,
            self.inputs.len(),
            self.header_bytes,
            self.memory_bytes,
            self.threads,
            self.drives,
            self.seed
        )
    }
}

impl Ran {
    /// The output of a run that must succeed.
    pub fn unwrap(self) -> (SortSummary, Vec<u8>) {
        match self.result {
            Ok(summary) => (summary, self.output.unwrap()),
            Err(error) => panic!("{error}: {}", self.what),
        }
    }

    /// The kind of failure, if it failed.
    pub fn kind(&self) -> Option<Kind> {
        self.result.as_ref().err().map(outcore::Error::kind)
    }
}

/// Compares output with the expected bytes, without printing megabytes.
pub fn assert_same(output: &[u8], expected: &[u8], record_bytes: usize, what: &str) {
    if output == expected {
        return;
    }
    let records = |bytes: &[u8]| bytes.len() as f64 / record_bytes as f64;
    let first = output
        .chunks(record_bytes)
        .zip(expected.chunks(record_bytes))
        .position(|(a, b)| a != b);
    let at = |bytes: &[u8], index: usize| {
        let from = index * record_bytes;
        let to = (from + record_bytes.min(64)).min(bytes.len());
        format!("{:02x?}", &bytes[from.min(to)..to])
    };
    let detail = first.map_or(String::new(), |index| {
        format!(
            "record {index}: {} instead of {}",
            at(output, index),
            at(expected, index)
        )
    });
    panic!(
        "{what}: {} records instead of {}; {detail}",
        records(output),
        records(expected)
    );
}
