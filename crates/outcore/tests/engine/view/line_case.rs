//! A view of lines to test: its order, its text, and its expected contents.
//!
//! Contract: the expected text comes from the definition of the order (`compare_items`) and the
//! standard library's stable sort.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use outcore::Input;
use outcore::job::Job;
use outcore::key::sort_key::{NoKey, SharedKey, SortKey, Tie, compare_items};
use outcore::runs::{BuildOptions, BuildSummary, LineType, SortedView, ViewReader, build};
use outcore::{Error, Result};
use outcore_io::drive::Device;
use outcore_io::drive::testing::{RamDevice, RamOptions};

use super::kit::{DIR, job_on};
use crate::lines::texts::{TEXTS, Text, text};

/// An order for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TestOrder {
    pub(super) by: By,
    pub(super) descending: bool,
    pub(super) tie: Tie,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Lines are their own keys.
    Line,
    /// By their length modulo 5: many ties.
    Length,
    /// By the text after the first space, or by the whole line if it has no space.
    Second,
}

impl SortKey for TestOrder {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        match self.by {
            By::Line => key.extend_from_slice(line),
            By::Length => key.push((line.len() % 5) as u8),
            By::Second => {
                let blank = line.iter().position(|&byte| byte == b' ');
                key.extend_from_slice(&line[blank.map_or(0, |at| at + 1)..]);
            }
        }
        Ok(())
    }

    fn is_item(&self) -> bool {
        self.by == By::Line
    }

    fn is_descending(&self) -> bool {
        self.descending
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

/// A view of lines to test.
#[derive(Debug, Clone)]
pub(super) struct LineCase {
    pub(super) order: TestOrder,
    pub(super) terminator: u8,
    /// For the sorted file: the terminator, and the bytes before the first line.
    pub(super) file_terminator: u8,
    pub(super) front: Vec<u8>,
    pub(super) kinds: Vec<Text>,
    pub(super) bytes: usize,
    /// Whether the last line of each input is terminated.
    pub(super) is_ended: bool,
    pub(super) run_bytes: u64,
    pub(super) drives: usize,
    pub(super) threads: usize,
    pub(super) memory_bytes: u64,
    pub(super) seed: u64,
}

pub(super) const BYTES: TestOrder = TestOrder {
    by: By::Line,
    descending: false,
    tie: Tie::Bytes,
};

impl LineCase {
    pub(super) fn of(kind: Text, bytes: usize, run_bytes: u64) -> Self {
        LineCase {
            order: BYTES,
            terminator: b'\n',
            file_terminator: b'\n',
            front: Vec::new(),
            kinds: vec![kind],
            bytes,
            is_ended: true,
            run_bytes,
            drives: 1,
            threads: 1,
            memory_bytes: 64 << 20,
            seed: 5,
        }
    }

    pub(super) fn inputs(&self) -> Vec<Vec<u8>> {
        let kinds = self.kinds.iter().enumerate();
        let inputs = kinds.map(|(index, kind)| {
            let seed = self.seed + index as u64;
            let mut input = text(*kind, self.bytes, self.terminator, seed);
            if !self.is_ended && input.len() > 1 {
                input.pop();
                if input.last() == Some(&self.terminator) {
                    input.push(b'x');
                }
            }
            input
        });
        inputs.collect()
    }

    /// The lines of some inputs in order.
    pub(super) fn sorted(&self, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        for input in inputs.iter().filter(|input| !input.is_empty()) {
            let whole = input.strip_suffix(&[self.terminator]).unwrap_or(input);
            let split = whole.split(|byte| *byte == self.terminator);
            lines.extend(split.map(<[u8]>::to_vec));
        }
        lines.sort_by(|a, b| compare_items(&self.order, a, b).unwrap());
        lines
    }

    pub(super) fn what(&self) -> LineType {
        LineType {
            file_terminator: self.file_terminator,
            front: self.front.as_slice().into(),
            ..LineType::ordered(self.terminator, "test".into(), Arc::new(self.order))
        }
    }

    pub(super) fn orders(&self) -> impl Fn(&str) -> Result<SharedKey> + use<> {
        let order: SharedKey = Arc::new(self.order);
        move |name: &str| match name {
            "test" => Ok(Arc::clone(&order)),
            _ => Err(Error::usage("open view", "another order")),
        }
    }

    pub(super) fn options(&self) -> BuildOptions {
        BuildOptions {
            run_bytes: Some(self.run_bytes),
            ..BuildOptions::default()
        }
    }

    pub(super) fn job(&self, device: Arc<dyn Device>) -> Job {
        job_on(device, self.drives, self.threads, self.memory_bytes)
    }

    pub(super) fn ram(&self) -> (RamDevice, Vec<Input>) {
        let ram = RamDevice::new(RamOptions {
            seed: self.seed,
            ..RamOptions::default()
        });
        let mut inputs = Vec::new();
        for (index, input) in self.inputs().into_iter().enumerate() {
            let path = PathBuf::from(format!("/d0/in{index}"));
            ram.put(&path, input);
            inputs.push(Input::raw(&path));
        }
        (ram, inputs)
    }

    pub(super) fn build(&self, job: &Job, inputs: &[Input]) -> Result<(SortedView, BuildSummary)> {
        build(job, inputs, Path::new(DIR), self.what(), self.options())
    }

    pub(super) fn open(&self, job: &Job) -> Result<SortedView> {
        SortedView::open_with(job, DIR.as_ref(), &self.orders())
    }

    pub(super) fn text_of(&self, lines: &[Vec<u8>]) -> Vec<u8> {
        let ended = lines
            .iter()
            .map(|line| [&line[..], &[self.file_terminator]].concat());
        ended.collect::<Vec<_>>().concat()
    }
}

/// The rest of a range, in reads of odd sizes.
pub(super) fn read_left(reader: &mut ViewReader) -> Vec<u8> {
    let mut all = vec![0; reader.left_bytes() as usize];
    let mut done = 0;
    for step in [1usize, 7, 4096, 999, 100_000].into_iter().cycle() {
        if done == all.len() {
            break;
        }
        let to = (done + step).min(all.len());
        done += reader.read(&mut all[done..to]).unwrap();
    }
    assert_eq!(reader.read(&mut [0; 10]).unwrap(), 0);
    all
}

pub(super) fn any_case() -> impl Strategy<Value = LineCase> {
    let order = (
        prop_oneof![Just(By::Line), Just(By::Length), Just(By::Second)],
        any::<bool>(),
        prop_oneof![
            Just(Tie::Bytes),
            Just(Tie::BytesDescending),
            Just(Tie::Position)
        ],
    )
        .prop_map(|(by, descending, tie)| TestOrder {
            by,
            descending,
            tie,
        });
    let kinds = prop::collection::vec(prop::sample::select(TEXTS.to_vec()), 1..4);
    let run_bytes = prop_oneof![100u64..500, 300u64..3000, 3000u64..50_000, Just(1 << 30)];
    let ends = (
        prop_oneof![Just(b'\n'), Just(0u8)],
        prop_oneof![Just(b'\n'), Just(0u8)],
    );
    let front = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 1..40),
        prop::collection::vec(any::<u8>(), 4000..9000),
    ];
    (
        (order, (ends, front), kinds),
        (0usize..60_000, any::<bool>(), run_bytes),
        (1usize..9, 1usize..4, (64u64..200, any::<u32>())),
    )
        .prop_map(
            |(
                (order, ((terminator, file_terminator), front), kinds),
                (bytes, is_ended, run_bytes),
                (drives, threads, (memory_mib, seed)),
            )| {
                LineCase {
                    order,
                    terminator,
                    file_terminator,
                    front,
                    kinds,
                    bytes,
                    is_ended,
                    // A test has at most hundreds of runs.
                    run_bytes: run_bytes.max(bytes as u64 / 400),
                    drives,
                    threads,
                    memory_bytes: memory_mib << 20,
                    seed: u64::from(seed),
                }
            },
        )
}
