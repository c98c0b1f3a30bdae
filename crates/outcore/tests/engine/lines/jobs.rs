//! Jobs on lines for tests: the parameters of a sort, run on drives in memory. Each run checks the
//! guarantees: inputs are unchanged, nothing is left over, all memory is returned.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outcore::Result;
use outcore::job::{ComputeCosts, Job, JobOptions, JobSize, ScratchDrive};
use outcore::key::sort_key::{ByteOrder, NoKey, SortKey, Tie, compare_items};
use outcore::sort::lines::{
    LineSize, LineSortOptions, LineSummary, plan_lines, sample_lines, sort_lines,
};
use outcore::{Input, Output};
use outcore_io::drive::Device;
use outcore_io::drive::testing::{RamDevice, RamOptions};

use crate::support::runs::{Files, PipeEnd};
use crate::support::watchdog::Watchdog;

/// Orders for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestOrder {
    /// Lines are their own keys.
    Bytes { descending: bool },
    /// By the bytes after the first space; lines without one have no key.
    Second { descending: bool, tie: Tie },
    /// By the number of bytes, modulo 3.
    Length { descending: bool, tie: Tie },
}

impl SortKey for TestOrder {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        match self {
            TestOrder::Bytes { .. } => ByteOrder.append_key(line, key),
            TestOrder::Second { .. } => {
                let blank = line.iter().position(|&byte| byte == b' ');
                let at = blank.ok_or_else(|| NoKey("it has no second field".into()))?;
                key.extend_from_slice(&line[at + 1..]);
                Ok(())
            }
            TestOrder::Length { .. } => {
                key.push((line.len() % 3) as u8);
                Ok(())
            }
        }
    }

    fn is_item(&self) -> bool {
        matches!(self, TestOrder::Bytes { .. })
    }

    fn is_descending(&self) -> bool {
        match self {
            TestOrder::Bytes { descending }
            | TestOrder::Second { descending, .. }
            | TestOrder::Length { descending, .. } => *descending,
        }
    }

    fn tie(&self) -> Tie {
        match self {
            TestOrder::Bytes { .. } => Tie::Bytes,
            TestOrder::Second { tie, .. } | TestOrder::Length { tie, .. } => *tie,
        }
    }
}

/// A sort of lines to test.
#[derive(Clone)]
pub struct LineJob {
    pub order: TestOrder,
    pub options: LineSortOptions,
    /// One file each: input i is `/d{i mod drives}/in-{i}`.
    pub inputs: Vec<Vec<u8>>,
    pub to_pipe: bool,
    /// Raised to the smallest memory for which there is a plan.
    pub memory_bytes: u64,
    pub threads: usize,
    pub drives: usize,
    pub seed: u64,
    pub capacity_bytes: u64,
}

/// The result of a run.
pub struct LineRan {
    pub result: Result<LineSummary>,
    pub output: Option<Vec<u8>>,
    pub what: String,
}

impl LineRan {
    /// The output of a run that must succeed.
    pub fn unwrap(self) -> (LineSummary, Vec<u8>) {
        match self.result {
            Ok(summary) => (summary, self.output.unwrap()),
            Err(error) => panic!("{error}: {}", self.what),
        }
    }
}

impl std::fmt::Debug for LineJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lens: Vec<usize> = self.inputs.iter().map(Vec::len).collect();
        write!(
            f,
            "{:?} {:?}, inputs of {lens:?} bytes, pipe {}, at least {} of memory, {} threads, {} \
             drives, seed {}",
            self.order,
            self.options,
            self.to_pipe,
            self.memory_bytes,
            self.threads,
            self.drives,
            self.seed
        )
    }
}

impl LineJob {
    /// A plain sort of one input on one drive and one thread, with as little memory as possible.
    pub fn of(order: TestOrder, input: Vec<u8>) -> Self {
        LineJob {
            order,
            options: LineSortOptions::default(),
            inputs: vec![input],
            to_pipe: false,
            memory_bytes: 0,
            threads: 1,
            drives: 1,
            seed: 1,
            capacity_bytes: 1 << 40,
        }
    }

    /// The lines of all inputs, without terminators.
    pub fn lines(&self) -> Vec<&[u8]> {
        let mut lines = Vec::new();
        for input in &self.inputs {
            let mut rest = &input[..];
            while !rest.is_empty() {
                let end = rest
                    .iter()
                    .position(|&byte| byte == self.options.terminator);
                let end = end.unwrap_or(rest.len());
                lines.push(&rest[..end]);
                rest = &rest[(end + 1).min(rest.len())..];
            }
        }
        lines
    }

    /// The expected output: by a naive sort of the lines that have keys.
    pub fn expected(&self) -> Vec<u8> {
        let mut lines = self.lines();
        lines.retain(|line| self.order.append_key(line, &mut Vec::new()).is_ok());
        lines.sort_by(|a, b| compare_items(&self.order, a, b).unwrap());
        let key = |line: &[u8]| {
            let mut key = Vec::new();
            self.order.append_key(line, &mut key).unwrap();
            key
        };
        let mut out = Vec::new();
        let is_unique = self.options.unique || self.options.count;
        for group in lines.chunk_by(|a, b| is_unique && key(a) == key(b)) {
            if self.options.count {
                out.extend_from_slice(format!("{:>7} ", group.len()).as_bytes());
            }
            out.extend_from_slice(group[0]);
            out.push(self.options.terminator);
        }
        out
    }

    fn drive(&self, index: usize) -> PathBuf {
        Path::new("/").join(format!("d{}", index % self.drives))
    }

    pub fn input_path(&self, index: usize) -> PathBuf {
        self.drive(index).join(format!("in-{index}"))
    }

    pub fn sort_inputs(&self) -> Vec<Input> {
        let paths = (0..self.inputs.len()).map(|index| self.input_path(index));
        paths.map(Input::raw).collect()
    }

    /// Puts the inputs on new drives.
    pub fn make_device(&self) -> RamDevice {
        let device = RamDevice::new(RamOptions {
            seed: self.seed,
            capacity_bytes: self.capacity_bytes,
            short_one_in: 7,
        });
        for (index, input) in self.inputs.iter().enumerate() {
            device.put(self.input_path(index), input.clone());
        }
        device
    }

    fn job_with(&self, device: Arc<dyn Device>, memory_bytes: u64) -> Job {
        let drives = (0..self.drives).map(|index| ScratchDrive {
            name: format!("drive{index}"),
            dir: self.drive(index),
            weight: 1.0,
            limit_bytes: u64::MAX,
        });
        let options = JobOptions {
            memory_bytes,
            threads: self.threads,
            drives: drives.collect(),
            scratch_limit_bytes: u64::MAX,
            seed: self.seed,
            costs: ComputeCosts::ASSUMED,
            ..JobOptions::default()
        };
        Job::on(options, device)
    }

    /// The smallest memory, to 64 KiB, for which there is a plan.
    fn least_memory(&self) -> u64 {
        let device = Arc::new(self.make_device());
        let job = self.job_with(device, 1 << 30);
        let size = sample_lines(&job, &self.sort_inputs(), &self.order, self.options).unwrap();
        let is_enough = |memory_bytes| {
            let job = JobSize {
                memory_bytes,
                ..size.job.clone()
            };
            let size = LineSize {
                job,
                ..size.clone()
            };
            plan_lines(size).is_ok_and(|plan| plan.size.threads == self.threads)
        };
        let mut enough = 64 << 20;
        let mut below = self.memory_bytes.max(1 << 20);
        if is_enough(below) {
            return below;
        }
        while enough - below > 64 << 10 {
            let middle = (below + enough) / 2;
            match is_enough(middle) {
                true => enough = middle,
                false => below = middle,
            }
        }
        enough
    }

    /// A job for this sort on `device`.
    pub fn job(&self, device: Arc<dyn Device>) -> Job {
        self.job_with(device, self.least_memory())
    }

    pub fn out_path(&self) -> PathBuf {
        self.drive(0).join("out")
    }

    /// Runs on new drives.
    pub fn on_ram(&self) -> LineRan {
        let device = self.make_device();
        let job = self.job(Arc::new(device.clone()));
        self.run(&device, &job)
    }

    /// Runs `job`, whose device has these `files`, and checks the guarantees of all runs.
    pub fn run(&self, files: &dyn Files, job: &Job) -> LineRan {
        let what = self.describe(job);
        let _watchdog = Watchdog::new(what.clone(), Duration::from_secs(120));
        let pipe = PipeEnd::default();
        let output = match self.to_pipe {
            true => Output::Pipe(Mutex::new(Box::new(pipe.clone()))),
            false => Output::File {
                path: self.out_path(),
                header: None,
            },
        };
        let result = sort_lines(job, &self.sort_inputs(), output, &self.order, self.options);
        let output = match self.to_pipe {
            true => Some(std::mem::take(&mut *pipe.0.lock().unwrap())),
            false => files.get(&self.out_path()),
        };
        let mut expected: Vec<PathBuf> = Vec::new();
        for (index, input) in self.inputs.iter().enumerate() {
            let path = self.input_path(index);
            assert!(
                files.get(&path).as_ref() == Some(input),
                "inputs are as they were"
            );
            expected.push(path);
        }
        if !self.to_pipe {
            assert_eq!(
                output.is_some(),
                result.is_ok(),
                "output is absent or whole: {what}"
            );
            expected.extend(output.is_some().then(|| self.out_path()));
        }
        expected.sort();
        assert_eq!(files.list(), expected, "nothing is left over: {what}");
        assert_eq!(
            job.budget.used_bytes(),
            0,
            "all memory is given back: {what}"
        );
        LineRan {
            result,
            output,
            what,
        }
    }

    fn describe(&self, job: &Job) -> String {
        format!("{self:?} {} of memory", job.options.memory_bytes)
    }

    /// Runs on new drives and compares with the naive sort.
    pub fn check(&self) -> LineSummary {
        let ran = self.on_ram();
        let what = ran.what.clone();
        let (summary, output) = ran.unwrap();
        let expected = self.expected();
        if output != expected {
            let first = output.iter().zip(&expected).position(|(a, b)| a != b);
            let at = first.unwrap_or(output.len().min(expected.len()));
            let show = |bytes: &[u8]| {
                let from = at.saturating_sub(40);
                String::from_utf8_lossy(&bytes[from.min(bytes.len())..(at + 40).min(bytes.len())])
                    .into_owned()
            };
            panic!(
                "{what}: {} bytes instead of {}; at {at} {:?} instead of {:?}",
                output.len(),
                expected.len(),
                show(&output),
                show(&expected)
            );
        }
        assert_eq!(summary.bytes_out, expected.len() as u64, "{what}");
        assert_eq!(summary.lines_in, self.lines().len() as u64, "{what}");
        let terminator = self.options.terminator;
        let lines = expected.iter().filter(|&&byte| byte == terminator).count();
        assert_eq!(summary.lines_out, lines as u64, "{what}");
        summary
    }
}
