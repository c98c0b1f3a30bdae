//! Sorts on real files: both engines, direct and buffered, sets of files, leftovers of a crash.
//!
//! Contract: the guarantees on drives in memory also hold on files; only the output is left behind.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outcore::IoMode;
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::RecordFormat;
use outcore::sort::{SortOptions, SortSummary, sort};
use outcore::{Input, Output};
use outcore::{Kind, Result};
use outcore_io::drive::late::Engine;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::{FaultDevice, FaultPlan};
use outcore_io::drive::{Access, Device, FileSystem};
use outcore_io::output::Manifest;

use crate::support::oracle;
use crate::support::patterns::{Payload, Values, fill};
use crate::support::runs::{Files, Folder, PipeEnd, Sort, assert_same};
use crate::support::watchdog::Watchdog;

/// Whether files here support direct I/O; prints a message if not.
fn takes_direct(dir: &Path) -> bool {
    let device = OsDevice::new(IoMode::Direct);
    let path = dir.join("probe");
    let file = device.open(&path, Access::Create);
    let _ = fs::remove_file(&path);
    if let Err(error) = &file {
        eprintln!("skipped direct I/O: {error}");
    }
    file.is_ok()
}

/// All combinations of engine and I/O mode that work here.
pub(crate) fn ways(dir: &Path) -> Vec<(Engine, IoMode)> {
    let mut ways = Vec::new();
    let is_uring = OsDevice::new(IoMode::Buffered).engine() == Engine::Uring;
    if !is_uring {
        eprintln!("skipped io_uring: this kernel or container does not let us make a ring");
    }
    let engines = [Engine::Uring, Engine::Psync];
    let is_direct = takes_direct(dir);
    for engine in engines
        .into_iter()
        .filter(|e| is_uring || *e == Engine::Psync)
    {
        ways.push((engine, IoMode::Buffered));
        if is_direct {
            ways.extend([(engine, IoMode::Direct), (engine, IoMode::Auto)]);
        }
    }
    ways
}

fn job(
    dir: &Path,
    drives: usize,
    memory_bytes: u64,
    threads: usize,
    device: Arc<dyn Device>,
) -> Job {
    let drive = |index: usize| {
        let dir = dir.join(format!("drive{index}"));
        fs::create_dir_all(&dir).unwrap();
        ScratchDrive {
            name: format!("drive{index}"),
            dir,
            weight: 1.0,
            limit_bytes: u64::MAX,
        }
    };
    let options = JobOptions {
        memory_bytes,
        threads,
        drives: (0..drives).map(drive).collect(),
        ..JobOptions::default()
    };
    Job::on(options, device)
}

/// All files below `dir`, sorted.
fn list(dir: &Path) -> Vec<PathBuf> {
    Folder(dir.to_path_buf()).list()
}

#[test]
fn every_way_of_io_gives_the_oracles_output_and_leaves_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    for (turn, (engine, mode)) in ways(dir.path()).into_iter().enumerate() {
        for (text, values) in [
            ("u64", Values::Uniform),
            ("f32be", Values::Special),
            ("gensort", Values::Zipf),
            ("16/0:8:u64", Values::Few(20)),
        ] {
            let _watchdog = Watchdog::new(
                format!("{engine:?} {mode:?} {text}"),
                Duration::from_secs(120),
            );
            let format = RecordFormat::parse_type(text).unwrap();
            let records = 1_000_003 / format.record_bytes();
            let data = fill(&format, values, Payload::Random, turn as u64, records);
            let cut = data.len() / 3 / format.record_bytes() * format.record_bytes();
            let inputs = [dir.path().join("in-0"), dir.path().join("in-1")];
            fs::write(&inputs[0], &data[..cut]).unwrap();
            fs::write(&inputs[1], &data[cut..]).unwrap();
            let options = SortOptions {
                stable: turn % 2 == 1,
                ..SortOptions::default()
            };
            let memory_bytes = Sort {
                threads: 2,
                drives: 3,
                options,
                ..Sort::of(&format, data.clone())
            }
            .least_memory();
            let device = Arc::new(OsDevice::with_engine(mode, engine));
            let job = job(dir.path(), 2, memory_bytes, 2, device);
            let out = dir.path().join("out");
            let output = Output::File {
                path: out.clone(),
                header: None,
            };
            let summary = sort(
                &job,
                &inputs.clone().map(Input::raw),
                output,
                &format,
                options,
            );
            let summary = summary.unwrap_or_else(|error| panic!("{engine:?} {mode:?}: {error}"));
            assert_eq!(summary.records as usize, records);
            let expected = oracle::sorted(&data, &format, options);
            assert_same(
                &fs::read(&out).unwrap(),
                &expected,
                format.record_bytes(),
                text,
            );
            assert_eq!(
                list(dir.path()),
                [&inputs[..], std::slice::from_ref(&out)].concat()
            );
            assert_eq!(job.budget.used_bytes(), 0);
            fs::remove_file(out).unwrap();
        }
    }
}

/// A set of three shards in two directories, its manifest in a third.
struct Set {
    dir: tempfile::TempDir,
    format: RecordFormat,
    data: Vec<u8>,
}

impl Set {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let format = RecordFormat::parse_type("u64").unwrap();
        let data = fill(&format, Values::Uniform, Payload::Random, 3, 20_000);
        for name in ["a", "b", "m"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("in"), &data).unwrap();
        Set { dir, format, data }
    }

    fn shards(&self) -> Vec<PathBuf> {
        ["a/0", "b/1", "b/2"]
            .map(|name| self.dir.path().join(name))
            .to_vec()
    }

    fn manifest(&self) -> PathBuf {
        self.dir.path().join("m/set")
    }

    fn run(&self, device: Arc<dyn Device>) -> Result<SortSummary> {
        let job = job(self.dir.path(), 1, 16 << 20, 1, device);
        let output = Output::Shards {
            paths: self.shards(),
            manifest: self.manifest(),
        };
        let inputs = [Input::raw(self.dir.path().join("in"))];
        sort(&job, &inputs, output, &self.format, SortOptions::default())
    }

    /// Number of existing files of the set.
    fn count(&self) -> usize {
        let files = self.shards().into_iter().chain([self.manifest()]);
        files.filter(|path| path.exists()).count()
    }

    fn check_whole(&self) {
        let manifest = Manifest::read(&self.manifest()).unwrap();
        let mut data = Vec::new();
        for shard in &manifest.shards {
            let bytes = fs::read(&shard.path).unwrap();
            assert_eq!(bytes.len() as u64, shard.len_bytes);
            data.extend(bytes);
        }
        let expected = oracle::sorted(&self.data, &self.format, SortOptions::default());
        assert_same(&data, &expected, 8, "set");
        let names: Vec<PathBuf> = manifest
            .shards
            .into_iter()
            .map(|shard| shard.path)
            .collect();
        assert_eq!(names, self.shards());
    }

    /// Sweeps all directories, as the next run in any of them does.
    fn sweep(&self) {
        let device = OsDevice::new(IoMode::Auto);
        for name in ["b", "m", "a", "b"] {
            device
                .sweep_private_dirs(&self.dir.path().join(name))
                .unwrap();
        }
    }

    fn check_swept(&self) {
        let mut expected = self.shards();
        expected.extend([self.manifest(), self.dir.path().join("in")]);
        expected.sort();
        assert_eq!(list(self.dir.path()), expected);
    }
}

#[test]
fn a_manifest_with_a_flipped_bit_a_cut_or_anothers_name_is_refused() {
    let set = Set::new();
    set.run(Arc::new(OsDevice::new(IoMode::Auto))).unwrap();
    let path = set.manifest();
    let whole = fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len() * 8)
        .map(|bit| {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        })
        .collect();
    damaged.extend((0..whole.len()).map(|len| whole[..len].to_vec()));
    damaged.push([&whole[..], b"\n"].concat());
    for bytes in damaged {
        let error = Manifest::open(&path, &bytes).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert_eq!(error.file_path(), Some(path.as_path()), "{error}");
        assert!(error.next_step().unwrap().contains("name the shards"));
    }
    let other = path.with_file_name("other");
    fs::write(&other, &whole).unwrap();
    let error = Manifest::read(&other).unwrap_err().to_string();
    assert!(error.contains("describes `set`, not `other`"), "{error}");
    // A manifest of a version without checksums.
    fs::write(&path, br#"{"version": 1, "shards": []}"#).unwrap();
    let error = Manifest::read(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert!(error.to_string().contains("version 1"), "{error}");
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(Manifest::read(&path).is_err());
    fs::write(&path, whole).unwrap();
    set.check_whole();
}

#[test]
fn a_set_of_files_appears_whole_or_not_at_all_whatever_fails() {
    for n in 1.. {
        let set = Set::new();
        let plan: FaultPlan = format!("eio@{n}").parse().unwrap();
        let faulty = Arc::new(FaultDevice::new(
            Arc::new(OsDevice::new(IoMode::Auto)),
            plan,
        ));
        match set.run(Arc::clone(&faulty) as Arc<dyn Device>) {
            Ok(_) => set.check_whole(),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Io, "{error}");
                assert_eq!(set.count(), 0, "{error}");
            }
        }
        if faulty.operations() < n {
            set.check_swept();
            return;
        }
    }
}

/// A device whose renames to one name always fail.
struct Stuck {
    inner: OsDevice,
    name: &'static str,
}

impl FileSystem for Stuck {
    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        if to.ends_with(self.name) {
            return Err(outcore::Error::errno("publish output", 5).path(to));
        }
        self.inner.rename(from, to, replace)
    }

    fn open(&self, path: &Path, access: Access) -> Result<outcore_io::drive::FileId> {
        self.inner.open(path, access)
    }

    fn close(&self, file: outcore_io::drive::FileId) {
        self.inner.close(file);
    }

    fn facts(&self, file: outcore_io::drive::FileId) -> Result<outcore_io::drive::FileFacts> {
        self.inner.facts(file)
    }

    fn set_len(&self, file: outcore_io::drive::FileId, len_bytes: u64) -> Result<()> {
        self.inner.set_len(file, len_bytes)
    }

    fn allocate(&self, file: outcore_io::drive::FileId, len_bytes: u64) -> Result<()> {
        self.inner.allocate(file, len_bytes)
    }

    fn punch(&self, file: outcore_io::drive::FileId, offset: u64, len_bytes: u64) -> Result<()> {
        self.inner.punch(file, offset, len_bytes)
    }

    fn sync(&self, file: outcore_io::drive::FileId) -> Result<()> {
        self.inner.sync(file)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        self.inner.file_system(dir)
    }

    fn make_private_dir(&self, parent: &Path) -> Result<outcore_io::drive::PrivateDir> {
        self.inner.make_private_dir(parent)
    }

    fn reopen_private_dir(&self, path: &Path) -> Result<Option<outcore_io::drive::PrivateDir>> {
        self.inner.reopen_private_dir(path)
    }

    fn sweep_private_dirs(&self, parent: &Path) -> Result<Vec<PathBuf>> {
        self.inner.sweep_private_dirs(parent)
    }
}

impl Device for Stuck {
    fn queue(&self, depth_max: usize) -> Result<Box<dyn outcore_io::drive::Queue>> {
        self.inner.queue(depth_max)
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
}

#[test]
fn a_set_whose_renames_stick_is_put_in_place_by_the_next_sweep() {
    for name in ["a/0", "b/1", "b/2", "m/set"] {
        let set = Set::new();
        let stuck = Stuck {
            inner: OsDevice::new(IoMode::Auto),
            name,
        };
        let error = set.run(Arc::new(stuck)).unwrap_err();
        assert!(error.next_step().is_some_and(|hint| hint.contains("whole")));
        assert_eq!(set.count(), 3);
        set.sweep();
        set.check_whole();
        set.check_swept();
    }
}

#[test]
fn shards_are_valid_input_again() {
    let set = Set::new();
    set.run(Arc::new(OsDevice::new(IoMode::Auto))).unwrap();
    let inputs: Vec<Input> = set.shards().into_iter().map(Input::raw).collect();
    let job = job(
        set.dir.path(),
        1,
        16 << 20,
        1,
        Arc::new(OsDevice::new(IoMode::Auto)),
    );
    let pipe = PipeEnd::default();
    let output = Output::Pipe(Mutex::new(Box::new(pipe.clone())));
    let options = SortOptions {
        descending: true,
        ..SortOptions::default()
    };
    sort(&job, &inputs, output, &set.format, options).unwrap();
    let expected = oracle::sorted(&set.data, &set.format, options);
    assert_same(&pipe.0.lock().unwrap(), &expected, 8, "shards again");
}

/// A pipe whose reader is gone.
struct Broken(usize);

impl Write for Broken {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        let len = self.0.min(bytes.len());
        self.0 -= len;
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_job_cleanly() {
    let set = Set::new();
    for threads in [1, 3] {
        for room in [0, 5, 70_000, 159_999] {
            let _watchdog = Watchdog::new("broken pipe", Duration::from_secs(60));
            let device = Arc::new(OsDevice::new(IoMode::Auto));
            let job = job(set.dir.path(), 1, 8 << 20, threads, device);
            let output = Output::Pipe(Mutex::new(Box::new(Broken(room))));
            let inputs = [Input::raw(set.dir.path().join("in"))];
            let result = sort(&job, &inputs, output, &set.format, SortOptions::default());
            assert_eq!(result.unwrap_err().kind(), Kind::Io);
            assert_eq!(list(set.dir.path()), [set.dir.path().join("in")]);
        }
    }
}

#[test]
fn sorting_a_file_onto_itself_replaces_it_at_the_end() {
    let set = Set::new();
    let path = set.dir.path().join("in");
    let run = |replace| {
        let device = Arc::new(OsDevice::new(IoMode::Auto));
        let job = job(set.dir.path(), 1, 4 << 20, 1, device);
        let output = Output::File {
            path: path.clone(),
            header: None,
        };
        let options = SortOptions {
            replace,
            ..SortOptions::default()
        };
        sort(&job, &[Input::raw(&path)], output, &set.format, options)
    };
    let refused = run(false).unwrap_err();
    assert_eq!(refused.kind(), Kind::Usage);
    assert!(fs::read(&path).unwrap() == set.data, "untouched");
    run(true).unwrap();
    let expected = oracle::sorted(&set.data, &set.format, SortOptions::default());
    assert_same(&fs::read(&path).unwrap(), &expected, 8, "in place");
    assert_eq!(list(set.dir.path()), [path]);
}

#[test]
fn what_is_no_plain_file_is_refused_by_name() {
    let set = Set::new();
    let missing = set.dir.path().join("missing");
    let fifo = set.dir.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    for (path, kind) in [
        (set.dir.path().to_path_buf(), Kind::Usage),
        (missing, Kind::Io),
        (fifo.clone(), Kind::Usage),
        (PathBuf::from("/dev/null"), Kind::Usage),
        // The reported length of this file is 0.
        (PathBuf::from("/proc/self/status"), Kind::Usage),
    ] {
        let device = Arc::new(OsDevice::new(IoMode::Auto));
        let job = job(set.dir.path(), 1, 16 << 20, 1, device);
        let output = Output::File {
            path: set.dir.path().join("out"),
            header: None,
        };
        let input = [Input::raw(&path)];
        let error = sort(&job, &input, output, &set.format, SortOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.file_path(), Some(path.as_path()), "{error}");
        assert!(error.next_step().is_some(), "{error}");
    }
    assert_eq!(list(set.dir.path()), [fifo, set.dir.path().join("in")]);
}

#[test]
fn shards_of_one_name_are_refused() {
    let set = Set::new();
    let device = Arc::new(OsDevice::new(IoMode::Auto));
    let job = job(set.dir.path(), 1, 16 << 20, 1, device);
    let shard = set.dir.path().join("shard");
    let output = Output::Shards {
        paths: vec![shard.clone(), shard.clone()],
        manifest: set.dir.path().join("all.outcore.json"),
    };
    let input = [Input::raw(set.dir.path().join("in"))];
    let error = sort(&job, &input, output, &set.format, SortOptions::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage, "{error}");
    assert_eq!(error.file_path(), Some(shard.as_path()));
    assert_eq!(list(set.dir.path()), [set.dir.path().join("in")]);
}

#[test]
fn data_that_fit_need_no_right_to_make_scratch() {
    let set = Set::new();
    let device = Arc::new(OsDevice::new(IoMode::Auto));
    let input = set.dir.path().join("in");
    let mut job = job(set.dir.path(), 1, 64 << 20, 1, device);
    // No directory can be made inside a file.
    job.options.drives[0].dir = input.clone();
    let piped: Mutex<Box<dyn std::io::Write + Send>> = Mutex::new(Box::new(std::io::sink()));
    let input = [Input::raw(&input)];
    let output = Output::Pipe(piped);
    let summary = sort(&job, &input, output, &set.format, SortOptions::default()).unwrap();
    assert_eq!((summary.passes, summary.scratch_bytes), (1, 0));
}

#[test]
fn input_that_may_be_freed_is_freed_and_sorted_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let format = RecordFormat::parse_type("u64").unwrap();
    let data = fill(&format, Values::Uniform, Payload::Random, 5, 500_000);
    let path = dir.path().join("in");
    fs::write(&path, &data).unwrap();
    let device = Arc::new(OsDevice::new(IoMode::Auto));
    let job = job(dir.path(), 1, 5 << 20, 2, device);
    let options = SortOptions {
        delete_input: true,
        ..SortOptions::default()
    };
    let out = dir.path().join("out");
    let output = Output::File {
        path: out.clone(),
        header: None,
    };
    let again = Output::File {
        path: dir.path().join("again"),
        header: None,
    };
    // The data must stay readable under the other name.
    let twin = dir.path().join("twin");
    fs::hard_link(&path, &twin).unwrap();
    let refused = sort(&job, &[Input::raw(&path)], again, &format, options).unwrap_err();
    assert_eq!(refused.kind(), Kind::Usage, "{refused}");
    assert!(refused.cause().contains("2 names"), "{refused}");
    assert_eq!(fs::read(&twin).unwrap(), data);
    fs::remove_file(&twin).unwrap();
    assert_eq!(list(dir.path()), std::slice::from_ref(&path));
    sort(&job, &[Input::raw(&path)], output, &format, options).unwrap();
    let expected = oracle::sorted(&data, &format, options);
    assert_same(&fs::read(out).unwrap(), &expected, 8, "freed input");
}
