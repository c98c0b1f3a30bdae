//! A function on each of many whole files: the file mapper.
//!
//! Contract (PALID, SPAA 2025, section 3, file mapper): [`map_files`] loads each file into memory,
//! calls the function with its data on any thread, and returns the results in the order of the
//! files. While a thread works on one file, its next one is read, from the drive with the fewest
//! requests. A function that fails or panics fails the job with its own message and the file's
//! name.
//!
//! Bounds: one read of the files. Memory is that of the current files: at most [`FILES_A_THREAD`]
//! per thread, and as many as the job's memory holds. At least one must fit.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::pass::shield;
use super::summary::Summary;
use crate::ends::{Input, Phases, check_unchanged, input_places, open_inputs};
use crate::forecast::{Amounts, Forecast, PhasePlan};
use crate::job::thread_group::ThreadGroup;
use crate::job::{Job, OutputPlaces};
use crate::read::by_drive::ByDrive;
use crate::read::source::{InputPart, became_shorter};
use outcore_io::drive::Access;
use outcore_io::memory::{Buf, Pool, block_ceil, block_floor};
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::Transfers;
use outcore_io::{Kind, Result};

/// The name of the phase.
pub(super) const PHASE: &str = "map files";
/// Files per thread: one to work on, one that is being read.
const FILES_A_THREAD: usize = 2;
/// Length of a read.
const READ_BYTES: usize = 4 << 20;
/// How long a thread waits for memory before it checks again.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A file whose data are in memory.
#[derive(Debug, Clone, Copy)]
pub struct LoadedFile<'a> {
    /// The index of the file among the inputs.
    pub index: usize,
    /// The name of the file.
    pub path: &'a Path,
    /// The data of the file, without its header.
    pub bytes: &'a [u8],
}

/// The results of `f` for each of `inputs`, in their order. Files are processed in no fixed order.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use outcore::primitives::map_files;
/// use outcore::Input;
/// use outcore::IoMode;
/// use outcore::job::{Job, JobOptions};
///
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("a"), "one\ntwo\n")?;
/// std::fs::write(dir.path().join("b"), "three\n")?;
/// let inputs = ["a", "b"].map(|name| Input::raw(dir.path().join(name)));
/// let limits = JobOptions { memory_bytes: 16 << 20, ..JobOptions::default() };
/// let job = Job::new(limits, IoMode::Auto);
/// let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
/// let (counts, _) = map_files(&job, &inputs, |file| Ok(lines(file.bytes)))?;
/// assert_eq!(counts, [2, 1]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The errors of `f`; [`Kind::Usage`] if it panics; [`Kind::Memory`] for a file that does not fit
/// in memory; the errors of reading.
pub fn map_files<R: Send>(
    job: &Job,
    inputs: &[Input],
    f: impl Fn(LoadedFile<'_>) -> Result<R> + Sync,
) -> Result<(Vec<R>, Summary)> {
    let mut phases = Phases::start();
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let none = Forecast::NOTHING;
    let (results, plan) = each_file(job, &volume, inputs, none, || Ok(()), |(), file| f(file))?;
    phases.end(PHASE, &volume);
    let summary = Summary::of_pass(
        &volume,
        phases,
        &[plan],
        inputs.len() as u64,
        results.len() as u64,
        0,
    );
    Ok((results, summary))
}

/// The results of `f` for each of `inputs`; `f` also receives the thread's state from `state`. The
/// prediction is for a phase that writes `written`.
pub(super) fn each_file<T, R: Send>(
    job: &Job,
    volume: &Volume,
    inputs: &[Input],
    written: Forecast,
    state: impl Fn() -> Result<T> + Sync,
    f: impl Fn(&mut T, LoadedFile<'_>) -> Result<R> + Sync,
) -> Result<(Vec<R>, PhasePlan)> {
    let parts = open_inputs(volume, inputs, 1, Access::Read)?;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    job.control.begin_phase(PHASE, data_bytes);
    let files = Files {
        job,
        volume,
        parts: &parts,
        thread_group: ThreadGroup::new(job, parts.len() as u64),
        left: Mutex::new(Left::of(&parts)),
        changed: Condvar::new(),
    };
    let results = files.thread_group.run_for_all(|_| {
        let mut state = state()?;
        let mut reader = FileReader::new(&files)?;
        let mut results = Vec::new();
        while let Some(file) = reader.next()? {
            let part = &parts[file.index];
            let loaded = LoadedFile {
                index: file.index,
                path: &part.file.path,
                bytes: file.bytes(),
            };
            let result = shield(|| f(&mut state, loaded)).map_err(|error| {
                let has_path = error.file_path().is_some();
                if has_path {
                    error
                } else {
                    error.path(&part.file.path)
                }
            })?;
            results.push((file.index, result));
            job.control.advance(part.data_len_bytes);
            job.control.watch(volume);
            drop(file);
            files.give_back();
        }
        Ok(results)
    })?;
    check_unchanged(volume, &parts, false)?;
    let mut by_file: Vec<Option<R>> = parts.iter().map(|_| None).collect();
    for (index, result) in results.into_iter().flatten() {
        by_file[index] = Some(result);
    }
    let amounts = Amounts::of_files(data_bytes.into(), written, parts.len() as f64);
    let layout = job.layout(&input_places(&parts), &OutputPlaces::Unknown);
    let plan = PhasePlan::new(PHASE, amounts, &layout);
    Ok((by_file.into_iter().flatten().collect(), plan))
}

/// The files of a job, each handed out once.
struct Files<'a> {
    job: &'a Job,
    volume: &'a Volume,
    parts: &'a [InputPart],
    thread_group: ThreadGroup<'a>,
    left: Mutex<Left>,
    changed: Condvar,
}

struct Left {
    /// Indices of the files.
    files: ByDrive<usize>,
    /// Number of files that use memory now.
    in_hand: usize,
}

impl Left {
    fn of(parts: &[InputPart]) -> Self {
        let files = parts.iter().enumerate();
        Left {
            files: ByDrive::of(files.map(|(index, part)| (part.file.drive_index, index))),
            in_hand: 0,
        }
    }
}

/// The result of [`Files::claim`].
enum Claim {
    File(Loading),
    /// No memory is free until another thread has finished a file.
    Later,
    Never,
}

impl Files<'_> {
    /// The next file for the thread of `port`, with memory for it, from the drive with the fewest
    /// requests.
    fn claim(&self, port: &Port) -> Result<Claim> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let has_files = left.in_hand > 0;
        let Some((files, index)) = left
            .files
            .next(port)
            .and_then(|files| files.front().copied().map(|index| (files, index)))
        else {
            return Ok(Claim::Never);
        };
        let part = &self.parts[index];
        let place = place_of(part);
        let len_bytes = (place.end - place.start) as usize;
        let buf = match len_bytes {
            0 => None,
            _ => match Pool::new(&self.job.budget, "a whole file", len_bytes, 1) {
                Ok(pool) => pool.take(),
                Err(error) if error.kind() == Kind::Memory && has_files => {
                    return Ok(Claim::Later);
                }
                Err(error) => return Err(error.path(&part.file.path)),
            },
        };
        files.pop_front();
        left.in_hand += 1;
        Ok(Claim::File(Loading {
            index,
            skip_bytes: (part.data_at_bytes - place.start) as usize,
            payload_bytes: part.data_len_bytes as usize,
            left: buf,
            done: Vec::new(),
            missing: 0,
        }))
    }

    /// Releases a file's memory.
    fn give_back(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.in_hand -= 1;
        drop(left);
        self.changed.notify_all();
    }

    fn wait(&self) {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout(left, LOOK_EVERY));
    }
}

/// The blocks of a file that contain its data.
fn place_of(part: &InputPart) -> Range<u64> {
    match part.data_len_bytes {
        0 => 0..0,
        len_bytes => block_floor(part.data_at_bytes)..block_ceil(part.data_at_bytes + len_bytes),
    }
}

/// A file that is being read, or has been read.
struct Loading {
    index: usize,
    skip_bytes: usize,
    payload_bytes: usize,
    /// Memory that is not being read into.
    left: Option<Buf>,
    /// Contiguous loaded pieces, by offset.
    done: Vec<(usize, Buf)>,
    missing: usize,
}

impl Loading {
    /// Joins all pieces, once none is missing.
    fn join(&mut self) {
        self.done.sort_unstable_by_key(|(at, _)| *at);
        let joined = self.done.drain(..).map(|(_, buf)| buf);
        self.left = joined.reduce(|mut front, behind| {
            front.join(behind);
            front
        });
    }

    fn bytes(&self) -> &[u8] {
        let all = self.left.as_deref().unwrap_or_default();
        match self.payload_bytes {
            0 => &[],
            len_bytes => &all[self.skip_bytes..self.skip_bytes + len_bytes],
        }
    }
}

/// One thread's files.
struct FileReader<'a> {
    files: &'a Files<'a>,
    /// Each read has the number of the file and the offset in the file's memory.
    reads: Transfers<(usize, usize)>,
    loading: VecDeque<Loading>,
    is_over: bool,
}

impl<'a> FileReader<'a> {
    fn new(files: &'a Files<'a>) -> Result<Self> {
        Ok(FileReader {
            files,
            reads: Transfers::new(files.volume)?,
            loading: VecDeque::new(),
            is_over: false,
        })
    }

    /// Waits for the next loaded file; `None` at the end.
    fn next(&mut self) -> Result<Option<Loading>> {
        loop {
            self.files.thread_group.check()?;
            self.fill()?;
            let ready = self.loading.iter().position(|file| file.missing == 0);
            if let Some(mut file) = ready.and_then(|index| self.loading.remove(index)) {
                // The file's slot is used for another file while this one is processed.
                self.fill()?;
                file.join();
                return Ok(Some(file));
            }
            if !self.loading.is_empty() {
                self.reads.wait()?;
                self.settle()?;
            } else if self.is_over {
                return Ok(None);
            } else {
                self.files.wait();
            }
        }
    }

    /// Starts to read files as long as there is room.
    fn fill(&mut self) -> Result<()> {
        while !self.is_over && self.loading.len() < FILES_A_THREAD {
            match self.files.claim(self.reads.port())? {
                Claim::File(file) => self.start(file),
                Claim::Later => break,
                Claim::Never => self.is_over = true,
            }
        }
        self.reads.start()?;
        self.settle()
    }

    fn start(&mut self, mut file: Loading) {
        let part = &self.files.parts[file.index];
        let from = place_of(part).start;
        let mut at = 0;
        if let Some(mut left) = file.left.take() {
            while !left.is_empty() {
                let piece = left.split_to(left.len().min(READ_BYTES));
                let len_bytes = piece.len();
                let at_bytes = from + at as u64;
                self.reads
                    .read(&part.file, at_bytes, piece, (file.index, at));
                file.missing += 1;
                at += len_bytes;
            }
        }
        self.loading.push_back(file);
    }

    /// Collects completed reads.
    fn settle(&mut self) -> Result<()> {
        while let Some(read) = self.reads.take()? {
            let (index, at) = read.what;
            let part = &self.files.parts[index];
            let Some(file) = self.loading.iter_mut().find(|file| file.index == index) else {
                continue;
            };
            let wanted = (file.skip_bytes + file.payload_bytes).min(at + read.buf.len());
            if at + read.len_bytes < wanted {
                let end_bytes = place_of(part).start + (at + read.len_bytes) as u64;
                return Err(became_shorter(part, end_bytes));
            }
            file.done.push((at, read.buf));
            file.missing -= 1;
        }
        Ok(())
    }
}
