//! Jobs for tests: a sort in numbers, run on drives in memory, with the promises checked after it.
//!
//! Contract: [`Sort::on_ram`] sets up drives `/d0` to `/d7`, runs, and checks what holds for every
//! run, failed or not: inputs are unchanged, nothing but inputs and published output is left, all
//! memory is given back and never more than the limit was taken.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outcore::algo::plan::{SortPlan, SortSize, plan_sort};
use outcore::algo::sort::{SortInput, SortOptions, SortOutput, SortSummary, sort};
use outcore::data::RecordFormat;
use outcore::drive::Device;
use outcore::drive::ram::{RamDevice, RamOptions};
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::{Kind, Result};

use super::watchdog::Watchdog;

/// Where the result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// One file, `/d0/out`, with so many bytes of header.
    File { header_bytes: usize },
    /// So many shards, `/d{i}/out-{i}`, going round over the drives, and a manifest.
    Shards(usize),
    /// A pipe.
    Pipe,
}

/// A sort to be tested.
#[derive(Debug, Clone)]
pub struct Sort {
    /// What the records are.
    pub format: RecordFormat,
    /// Of the sort.
    pub options: SortOptions,
    /// Where the result goes.
    pub target: Target,
    /// Bytes in front of the data of each input.
    pub header_bytes: usize,
    /// The data, one file each: input i is `/d{i mod drives}/in-{i}`.
    pub inputs: Vec<Vec<u8>>,
    /// The memory cap; raised to what the plan needs at least.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// Drives for scratch.
    pub drives: usize,
    /// Of the job and the device.
    pub seed: u64,
    /// Room on all drives together.
    pub capacity_bytes: u64,
    /// The test itself changes inputs while they are read.
    pub is_disturbed: bool,
}

/// What a run gave.
pub struct Ran {
    /// As [`sort`] returned.
    pub result: Result<SortSummary>,
    /// The data written, shards one after another, without header; none if there is no output.
    pub output: Option<Vec<u8>>,
    /// The drives afterwards.
    pub device: RamDevice,
    /// What was run.
    pub what: String,
}

/// A pipe into memory.
#[derive(Clone, Default)]
pub struct PipeEnd(pub Arc<Mutex<Vec<u8>>>);

impl Write for PipeEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Short writes, as pipes do them.
        let len = bytes.len().min(10_007);
        self.0.lock().unwrap().extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sort {
    /// A plain sort of one input on one drive and one thread, with as little memory as can be.
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
        }
    }

    /// All data, one input after another.
    pub fn data(&self) -> Vec<u8> {
        self.inputs.concat()
    }

    /// Cuts one input into `count` files at element borders, of unequal length.
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
        let is_bare = self.format.bare().is_some();
        SortSize {
            data_bytes: self.inputs.iter().map(|input| input.len() as u64).sum(),
            element_bytes: self.format.record_bytes(),
            is_bare,
            is_ordered: self.options.stable && !is_bare,
            memory_bytes: self.memory_bytes,
            threads: self.threads,
            drive_count: self.drives,
        }
    }

    /// The least memory from `memory_bytes` on, to 64 KiB, with which it can be planned.
    pub fn least_memory(&self) -> u64 {
        let size = self.size();
        let is_enough = |memory_bytes| {
            plan_sort(SortSize {
                memory_bytes,
                ..size
            })
            .is_ok()
        };
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

    /// The plan that it would get.
    pub fn plan(&self) -> SortPlan {
        let memory_bytes = self.least_memory();
        plan_sort(SortSize {
            memory_bytes,
            ..self.size()
        })
        .unwrap()
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

    /// Where an input lies.
    pub fn input_path(&self, index: usize) -> PathBuf {
        format!("/d{}/in-{index}", index % self.drives).into()
    }

    fn shard_path(&self, index: usize) -> PathBuf {
        format!("/d{}/out-{index}", index % self.drives).into()
    }

    /// A job for this sort on `device`.
    pub fn job(&self, device: Arc<dyn Device>) -> Job {
        let drives = (0..self.drives)
            .map(|index| ScratchDrive {
                name: format!("drive{index}"),
                dir: format!("/d{index}").into(),
                weight: 1.0,
            })
            .collect();
        let options = JobOptions {
            memory_bytes: self.least_memory(),
            threads: self.threads,
            drives,
            scratch_limit_bytes: u64::MAX,
            seed: self.seed,
        };
        Job::on(options, device)
    }

    fn output(&self, pipe: &PipeEnd) -> SortOutput {
        match self.target {
            Target::File { header_bytes: 0 } => SortOutput::File {
                path: "/d0/out".into(),
                header: None,
            },
            Target::File { header_bytes } => SortOutput::File {
                path: "/d0/out".into(),
                header: Some(Arc::new(move |_| vec![0xCD; header_bytes])),
            },
            Target::Shards(count) => SortOutput::Shards {
                paths: (0..count).map(|index| self.shard_path(index)).collect(),
                manifest: "/d0/out.outcore.json".into(),
            },
            Target::Pipe => SortOutput::Pipe(Mutex::new(Box::new(pipe.clone()))),
        }
    }

    /// The data in what was published, if anything was.
    pub fn published(&self, device: &RamDevice) -> Option<Vec<u8>> {
        match self.target {
            Target::File { header_bytes } => {
                let bytes = device.get("/d0/out")?;
                assert!(bytes[..header_bytes].iter().all(|&byte| byte == 0xCD));
                Some(bytes[header_bytes..].to_vec())
            }
            Target::Shards(count) => {
                let mut data = Vec::new();
                for index in 0..count {
                    data.extend(device.get(self.shard_path(index))?);
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
        self.run(device, &job)
    }

    /// Runs `job`, whose device may be a wrapper of `device`, and checks what always holds.
    pub fn run(&self, device: RamDevice, job: &Job) -> Ran {
        let _watchdog = Watchdog::new(self.describe(), Duration::from_secs(120));
        let old = self.published(&device);
        let inputs: Vec<SortInput> = (0..self.inputs.len())
            .map(|index| SortInput {
                header_bytes: self.header_bytes as u64,
                ..SortInput::raw(self.input_path(index))
            })
            .collect();
        let pipe = PipeEnd::default();
        let result = sort(job, &inputs, self.output(&pipe), &self.format, self.options);
        let output = match self.target {
            Target::Pipe => Some(std::mem::take(&mut *pipe.0.lock().unwrap())),
            _ => self.published(&device),
        };
        if result.is_err() && self.target != Target::Pipe {
            assert!(output == old, "no output, or the old one, after a failure");
        }
        self.check_left_over(&device, output.is_some());
        assert_eq!(job.budget.used_bytes(), 0, "all memory is given back");
        assert!(job.budget.peak_bytes() <= job.budget.limit_bytes());
        Ran {
            result,
            output,
            device,
            what: self.describe(),
        }
    }

    fn check_left_over(&self, device: &RamDevice, has_output: bool) {
        let mut expected: Vec<PathBuf> = Vec::new();
        for (index, input) in self.inputs.iter().enumerate() {
            let path = self.input_path(index);
            if !self.options.delete_input && !self.is_disturbed {
                let bytes = device.get(&path).unwrap();
                assert!(
                    bytes == self.with_header(input),
                    "{} is as it was",
                    path.display()
                );
            }
            expected.push(path);
        }
        match self.target {
            Target::File { .. } if has_output => expected.push("/d0/out".into()),
            Target::Shards(count) if has_output => {
                expected.extend((0..count).map(|index| self.shard_path(index)));
                expected.push("/d0/out.outcore.json".into());
            }
            _ => {}
        }
        expected.sort();
        assert_eq!(device.list(), expected, "nothing is left over");
    }

    /// One line with all that it takes to run it again.
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
    /// The output of a run that must not fail.
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

/// Compares output with what is expected, without printing megabytes.
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
