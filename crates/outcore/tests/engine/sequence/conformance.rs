//! Every case of the conformance kit through the engine.
//!
//! Contract: written files are read back, one after another; results that are not items are written
//! as the command prints them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::IoMode;
use outcore::dataset::{Context, Dataset, ItemType, Mode, Step};
use outcore::job::{Job, ScratchDrive};
use outcore::key::RecordFormat;
use outcore::key::expr::Schema;
use outcore::key::sort_key::{NoKey, SortKey};
use outcore::primitives::gather::InMemory;
use outcore::primitives::group::group;
use outcore::primitives::tables::{
    ScanOp, distribute_table, find_table, histogram_table, scan_table, top_table,
};
use outcore::primitives::write::produce;
use outcore::primitives::{
    BucketFiles, Grouping, Inclusion, Reduction, Table, gather, read, reduce_by_key, reduce_table,
    segmented_reduce,
};
use outcore::shuffle::{ShuffleOptions, Unit, shuffle};
use outcore::sort::lines::{LineSortOptions, merge_lines, sort_lines};
use outcore::sort::{SortOptions, sort};
use outcore::{Input, Output, Sequence};

use self::kit::{Case, cases};
use super::kit::options;

#[path = "../../conformance/primitives.rs"]
mod kit;

/// Lines in byte order, ascending or descending.
struct Bytes {
    is_descending: bool,
}

impl SortKey for Bytes {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> Result<(), NoKey> {
        key.extend_from_slice(line);
        Ok(())
    }

    fn is_item(&self) -> bool {
        true
    }

    fn is_descending(&self) -> bool {
        self.is_descending
    }
}

/// A case on drives that are directories.
struct Driver<'a> {
    case: &'a Case,
    drives: Vec<PathBuf>,
    job: Job,
}

impl Driver<'_> {
    fn put(&self, name: &str, further: u64) -> Vec<Input> {
        let put = |(number, bytes): (usize, Vec<u8>)| {
            let drive = &self.drives[number % self.drives.len()];
            let path = drive.join(format!("{name}-{number}"));
            std::fs::write(&path, bytes).unwrap();
            Input::raw(path)
        };
        let files = self.case.files(further).into_iter().enumerate();
        files.map(put).collect()
    }

    fn outputs(&self) -> Vec<PathBuf> {
        let drives = if self.case.is_sharded() {
            self.drives.len()
        } else {
            1
        };
        self.drives[..drives]
            .iter()
            .map(|drive| drive.join("out"))
            .collect()
    }

    fn output(&self) -> Output {
        let mut paths = self.outputs();
        match self.case.is_sharded() {
            true => Output::Shards {
                manifest: self.drives[0].join("out.outcore.json"),
                paths,
            },
            false => Output::File {
                path: paths.remove(0),
                header: None,
            },
        }
    }

    fn written(&self) -> Vec<u8> {
        let outputs = self.outputs();
        outputs
            .iter()
            .flat_map(|path| std::fs::read(path).unwrap())
            .collect()
    }

    fn run(&self) -> Vec<u8> {
        let inputs = self.put("in", 0);
        match self.case.is_lines() {
            true => self.run_lines(&inputs),
            false => self.run_records(&inputs),
        }
    }

    fn run_lines(&self, inputs: &[Input]) -> Vec<u8> {
        let (case, job, output) = (self.case, &self.job, self.output());
        let sorts = case.text("do") == "sort";
        let options = LineSortOptions {
            unique: case.text("do") == "unique" || sorts && case.is("unique"),
            count: case.text("do") == "count",
            ..LineSortOptions::default()
        };
        let order = Bytes {
            is_descending: sorts && case.is("descending"),
        };
        match case.text("do") {
            "shuffle" => self.shuffle(
                inputs,
                Unit::Lines {
                    terminator: b'\n',
                    drops_blanks: false,
                },
            ),
            "merge" => drop(merge_lines(job, inputs, output, &order, options).unwrap()),
            _ => drop(sort_lines(job, inputs, output, &order, options).unwrap()),
        }
        self.written()
    }

    fn shuffle(&self, inputs: &[Input], unit: Unit) {
        let options = ShuffleOptions {
            unit,
            seed: self.case.number("shuffle_seed"),
            epoch: self.case.number("epoch"),
            replace: false,
        };
        shuffle(&self.job, inputs, self.output(), options).unwrap();
    }

    fn run_records(&self, inputs: &[Input]) -> Vec<u8> {
        let (case, job) = (self.case, &self.job);
        let format = RecordFormat::parse_type(case.text("type")).unwrap();
        let table = Table::read(inputs, &format, Schema::of_format(&format));
        let output = || (self.output(), false);
        let produced = |table: &Table| produce(job, table, &self.output(), false).unwrap();
        let lines = |numbers: Vec<String>| -> Vec<u8> {
            let ended = numbers.into_iter().map(|number| number + "\n");
            ended.collect::<String>().into_bytes()
        };
        match case.text("do") {
            "map" => {
                produced(&table.map(&case.expression()).unwrap());
            }
            "filter" => drop(produced(&table.filter(&case.condition()).unwrap())),
            "reduce" | "map_reduce" => {
                let how = [Reduction::parse(case.text("how"))];
                let table = match case.text("do") {
                    "reduce" => table,
                    _ => table.map(&case.expression()).unwrap(),
                };
                let (found, _) = reduce_table(job, &table, &how).unwrap();
                return lines(found.iter().map(ToString::to_string).collect());
            }
            "scan" => {
                let op = match case.text("op") {
                    "sum" => ScanOp::Sum,
                    "product" => ScanOp::Product,
                    "min" => ScanOp::Min,
                    _ => ScanOp::Max,
                };
                let inclusion = match case.is("exclusive") {
                    true => Inclusion::Exclusive,
                    false => Inclusion::Inclusive,
                };
                let (output, replace) = output();
                scan_table(job, &table, op, inclusion, &output, replace).unwrap();
            }
            "sort" => {
                let options = SortOptions {
                    descending: case.is("descending"),
                    unique: case.is("unique"),
                    ..SortOptions::default()
                };
                sort(job, inputs, self.output(), &format, options).unwrap();
            }
            "shuffle" => {
                let record_bytes = format.record_bytes();
                self.shuffle(inputs, Unit::Records { record_bytes });
            }
            "histogram" => {
                let range = (case.number("low") as f64, case.number("high") as f64);
                let bins = case.number("bins") as usize;
                let (found, _) = histogram_table(job, &table, bins, Some(range)).unwrap();
                return lines(found.counts.iter().map(ToString::to_string).collect());
            }
            "top" => {
                let (k, smallest) = (case.number("k") as usize, case.is("smallest"));
                let (found, _) = top_table(job, &table, k, smallest).unwrap();
                return lines(found.iter().map(ToString::to_string).collect());
            }
            "find" => {
                let (found, _) = find_table(job, &table, &case.condition()).unwrap();
                return lines(found.iter().map(ToString::to_string).collect());
            }
            "partition" => return self.partition(&table),
            "gather" => {
                let item_bytes = format.record_bytes();
                let (bytes, _) = gather(job, inputs, item_bytes, &case.positions()).unwrap();
                let bytes = &bytes;
                let (output, replace) = output();
                produce(job, &InMemory { bytes, item_bytes }, &output, replace).unwrap();
            }
            "zip" => {
                let further = self.put("other", 1);
                let other = Table::read(&further, &format, Schema::of_format(&format));
                produced(&Table::zip(&[table, other]).unwrap());
            }
            "reverse" => self.step(inputs, Step::Reverse),
            "merge" => self.merge(inputs),
            "reduce_by_key" | "segmented_reduce" => self.count_pairs(inputs),
            "windows" => self.step(inputs, Step::Windows(case.number("length") as usize)),
            "flat_map" => {
                let both = vec!["x".to_string(), case.expression()];
                self.step(inputs, Step::FlatMap(both));
            }
            "enumerate" => {
                let made = ItemType::from(format.clone()).numbered().unwrap();
                self.step(inputs, Step::Enumerate { made });
            }
            what => {
                let grouping = match what {
                    "unique" => Grouping::Unique,
                    _ => Grouping::Counted,
                };
                let (output, replace) = output();
                group(job, &table, &format, grouping, &output, replace).unwrap();
            }
        }
        self.written()
    }

    /// As a dataset whose type is known at compile time, or at run time.
    fn merge(&self, inputs: &[Input]) {
        if self.case.text("type") == "u64" {
            let items = Context::of_job(&self.job).read_inputs::<u64>(inputs);
            items.merge().write_to(self.output(), false).unwrap();
            return;
        }
        let options = SortOptions::default();
        self.step(inputs, Step::Merge { by: None, options });
    }

    /// The number of occurrences of each number: pairs of a number and 1, summed by number or over
    /// consecutive equal numbers.
    fn count_pairs(&self, inputs: &[Input]) {
        let pairs = read::<u64>(inputs).map(|x| [x, 1_u64]);
        let sum = |a: [u64; 2], b: [u64; 2]| [a[0], a[1] + b[1]];
        let (job, output) = (&self.job, self.output());
        let done = match self.case.text("do") {
            "segmented_reduce" => {
                segmented_reduce(job, &pairs, |a, b| a[0] == b[0], sum, &output, false)
            }
            _ => {
                let by_first = RecordFormat::parse_record(16, &["0:8:u64"]).unwrap();
                reduce_by_key(job, &pairs, &by_first, sum, &output, false)
            }
        };
        done.unwrap();
    }

    /// Writes a dataset of one step.
    fn step(&self, inputs: &[Input], step: Step) {
        let format = RecordFormat::parse_type(self.case.text("type")).unwrap();
        let dataset = Dataset::records(inputs, format.into()).then(step);
        let context = Context::of_job(&self.job);
        let mut execution = dataset.execute(Arc::new(context), Mode::Run);
        execution.take_steps().unwrap();
        execution.write(self.output(), false).unwrap();
    }

    fn partition(&self, table: &Table) -> Vec<u8> {
        let parts = self.case.number("parts");
        let home = &self.drives[0];
        let files = BucketFiles {
            paths: (0..parts)
                .map(|part| home.join(format!("part-{part}")))
                .collect(),
            manifest: Some(home.join("parts.outcore.json")),
            replace: false,
            header: None,
        };
        distribute_table(&self.job, table, &format!("x % {parts}"), &files).unwrap();
        let paths = files.paths.iter();
        paths
            .flat_map(|path| std::fs::read(path).unwrap())
            .collect()
    }
}

fn drives_in(dir: &Path, count: u64) -> Vec<PathBuf> {
    let make = |number| {
        let drive = dir.join(format!("d{number}"));
        std::fs::create_dir(&drive).unwrap();
        drive
    };
    (0..count).map(make).collect()
}

#[test]
fn the_engine_gives_what_naive_oracles_give_in_every_case() {
    for case in cases() {
        let dir = tempfile::tempdir().unwrap();
        let drives = drives_in(dir.path(), case.number("drives"));
        let mut options = options(2, 24 << 10);
        options.drives = drives.iter().map(ScratchDrive::new).collect();
        let job = Job::new(options, IoMode::Auto);
        let driver = Driver {
            case: &case,
            drives,
            job,
        };
        case.check(&driver.run());
    }
}
