//! One pass over a file of vectors, on all threads.
//!
//! Contract (PALID, SPAA 2025, section 3, file streamer): [`Scan::run`] reads the file ahead and
//! passes each piece of it, whole rows, to one of the threads, in no order. Each thread has a state
//! of its own, and all states are returned. The file may not change during the pass. NaN and
//! infinite numbers are errors with file and row; [`Tile`] detects them from the norm of each row,
//! which every job needs anyway.
//!
//! Bounds: one read of the file; memory is [`Scan::memory_bytes`] per thread, reserved as "pieces
//! of vectors".

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use outcore::job::{Layout, OutputPlaces};
use outcore::primitives::PassPlan;
use outcore::read::source::{Blocks, InputPart};
use outcore::{Amounts, Error, Forecast, Job, Kind, Phase, PhasePlan, Result};
use outcore_io::drive::Access;
use outcore_io::memory::Pool;
use outcore_io::port::Volume;
use outcore_io::{threads, units};

use crate::format::{Element, VectorFile};
use crate::product::{Matrix, squares_of};

/// The length of one read, or one row if it is longer.
const PIECE_BYTES: usize = 1 << 20;
/// Pieces that a thread has in memory.
const WINDOW: usize = 6;
/// The least number of pieces, with little memory.
const WINDOW_MIN: usize = 2;
const PIECE_BYTES_MIN: usize = 64 << 10;
/// Rows that are multiplied at a time.
pub(crate) const TILE_ROWS: usize = 512;
const PURPOSE: &str = "pieces of vectors";

/// A pass that is planned.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'f> {
    file: &'f VectorFile,
    piece_bytes: usize,
    window: usize,
    threads: usize,
}

/// Consecutive rows of a file, in memory.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// The file.
    pub file: &'a VectorFile,
    /// The number of the first row.
    pub first: u64,
    /// The rows, in the form of the file.
    pub bytes: &'a [u8],
}

impl<'f> Scan<'f> {
    /// Threads that are useful for a pass over `file`.
    pub(crate) fn threads_wanted(job: &Job, file: &VectorFile) -> usize {
        let pieces = file
            .data_bytes()
            .div_ceil(PIECE_BYTES.max(file.row_bytes()) as u64);
        let useful = usize::try_from(pieces).unwrap_or(usize::MAX);
        job.options.threads.min(useful).max(1)
    }

    /// Plans a pass over `file` that leaves this much memory for each thread, and this much for all
    /// together.
    ///
    /// # Errors
    /// Memory: not even small pieces fit.
    pub fn plan(
        job: &Job,
        file: &'f VectorFile,
        beside_bytes: u64,
        shared_bytes: u64,
    ) -> Result<Self> {
        let row_bytes = file.row_bytes();
        let threads = Self::threads_wanted(job, file);
        let mut scan = Scan {
            file,
            piece_bytes: PIECE_BYTES.max(row_bytes),
            window: WINDOW,
            threads,
        };
        let free_bytes = job.budget.free_bytes();
        let wanted = |scan: &Scan<'_>| {
            (scan.memory_bytes() + beside_bytes) * scan.threads as u64 + shared_bytes
        };
        while wanted(&scan) > free_bytes {
            if scan.window > WINDOW_MIN {
                scan.window -= 1;
            } else if scan.piece_bytes > PIECE_BYTES_MIN.max(row_bytes) {
                scan.piece_bytes = (scan.piece_bytes / 2).max(row_bytes);
            } else if scan.threads > 1 {
                scan.threads -= 1;
            } else {
                let cause = format!(
                    "{} bytes are needed, but only {free_bytes} are free",
                    wanted(&scan)
                );
                return Err(Error::new(Kind::Memory, "plan a pass over vectors", cause)
                    .path(&file.path)
                    .hint("allow more with --memory"));
            }
        }
        Ok(scan)
    }

    /// The file.
    pub(crate) fn file(&self) -> &'f VectorFile {
        self.file
    }

    /// Shows the plan of a phase that reads this many bytes in this way, at most `passes` times;
    /// `steps` describes it in words.
    pub(crate) fn show(
        &self,
        job: &Job,
        name: &'static str,
        steps: &str,
        read_bytes: u64,
        passes: u32,
    ) {
        let layout = layout_of(job, self.file);
        let once = plan_phase(&layout, name, read_bytes);
        let amounts = once.amounts().at_most_times(passes);
        let phase = once.redone(amounts, &layout);
        let steps = match once.seconds {
            Some(seconds) if passes > 1 => {
                format!("{steps}; each takes {}", units::seconds(seconds))
            }
            _ => steps.to_string(),
        };
        job.control.show_plan(&PassPlan {
            steps,
            reads: passes,
            data_bytes: read_bytes,
            piece_bytes: self.piece_bytes as u64,
            window: self.window,
            threads: self.threads,
            phases: vec![phase],
            layout,
        });
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    fn slot_bytes(&self) -> usize {
        // Reads begin and end at block borders.
        self.piece_bytes.next_multiple_of(4096) + 2 * 4096
    }

    /// Memory of a thread: its reads, and a tile.
    pub fn memory_bytes(&self) -> u64 {
        Pool::total_bytes(self.slot_bytes(), self.window) + Tile::memory_bytes(self.file)
    }

    /// Reads the file, and passes each piece to `visit` with the thread's state, which `state`
    /// created.
    ///
    /// # Errors
    /// Errors of `state`, `visit` and reading; corrupt for a file that changes.
    pub fn run<S: Send>(
        &self,
        job: &Job,
        phase: &str,
        state: impl Fn() -> Result<S> + Sync,
        visit: impl Fn(&mut S, Piece<'_>) -> Result<()> + Sync,
    ) -> Result<Passed<S>> {
        let all = 0..self.file.rows;
        self.run_ranges(job, phase, std::slice::from_ref(&all), state, visit)
    }

    /// Like [`Scan::run`], for some ranges of rows; each piece is inside one of them.
    ///
    /// # Errors
    /// As [`Scan::run`].
    pub(crate) fn run_ranges<S: Send>(
        &self,
        job: &Job,
        phase: &str,
        ranges: &[Range<u64>],
        state: impl Fn() -> Result<S> + Sync,
        visit: impl Fn(&mut S, Piece<'_>) -> Result<()> + Sync,
    ) -> Result<Passed<S>> {
        let file = self.file;
        let row_bytes = file.row_bytes() as u64;
        let volume = Volume::new(Arc::clone(&job.device), &[])?;
        let opened = volume.open(&file.path, Access::Read)?;
        if opened.facts.len_bytes < file.header_bytes + file.data_bytes() {
            return Err(changed(file));
        }
        let parts = ranges.iter().map(|range| InputPart {
            file: opened.clone(),
            data_at_bytes: file.header_bytes + range.start * row_bytes,
            data_len_bytes: (range.end - range.start) * row_bytes,
            first_position: file.first_row + range.start,
        });
        let parts: Vec<InputPart> = parts.collect();
        let planned_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
        let started = Instant::now();
        job.control.begin_phase(phase, planned_bytes);
        let blocks = Blocks::new(parts, file.row_bytes(), self.piece_bytes);
        let stopped = AtomicBool::new(false);
        let check = || match stopped.load(Ordering::Relaxed) {
            true => Err(Error::interrupted()),
            false => job.control.check(),
        };
        let work = |_| {
            let mut state = state()?;
            let pool = Pool::new(&job.budget, PURPOSE, self.slot_bytes(), self.window)?;
            blocks.read_each(&volume, &pool, check, |block, bytes| {
                let piece = Piece {
                    file,
                    first: block.position,
                    bytes,
                };
                visit(&mut state, piece)?;
                job.control.advance(block.payload_bytes as u64);
                job.control.watch(&volume);
                Ok(())
            })?;
            Ok(state)
        };
        let guarded = |thread| work(thread).inspect_err(|_| stopped.store(true, Ordering::Relaxed));
        let results = match self.threads {
            1 => vec![guarded(0)],
            threads => threads::together("outcore-vector", threads, guarded)?,
        };
        let states = first_failure(results)?;
        volume.check_unchanged(&opened, false)?;
        let read_bytes = volume.traffic_bytes().0;
        volume.close(&opened);
        Ok(Passed {
            states,
            read_bytes,
            seconds: started.elapsed().as_secs_f64(),
            planned_bytes,
            layout: layout_of(job, file),
        })
    }
}

/// The result of a pass.
#[derive(Debug)]
pub struct Passed<S> {
    /// The state of each thread.
    pub states: Vec<S>,
    /// Bytes read.
    pub read_bytes: u64,
    seconds: f64,
    planned_bytes: u64,
    layout: Layout,
}

impl<S> Passed<S> {
    /// Returns the pass as a phase of a job, with its plan.
    pub(crate) fn phase(&self, name: &'static str) -> Phase {
        Phase {
            name,
            seconds: self.seconds,
            read_bytes: self.read_bytes,
            written_bytes: 0,
            predicted: Some(plan_phase(&self.layout, name, self.planned_bytes)),
        }
    }
}

/// The layout of a job that reads `file`.
fn layout_of(job: &Job, file: &VectorFile) -> Layout {
    let place = job.input_place(&file.path, file.data_bytes());
    job.layout(&[place], &OutputPlaces::Unknown)
}

/// Plans a phase that reads this much in pieces.
fn plan_phase(layout: &Layout, name: &'static str, read_bytes: u64) -> PhasePlan {
    let requests = read_bytes as f64 / PIECE_BYTES as f64;
    let amounts = Amounts::of_files(read_bytes.into(), Forecast::NOTHING, requests);
    PhasePlan::new(name, amounts, layout)
}

/// Plans a phase that reads at most the whole of `file` this many times.
pub(crate) fn plan_at_most(
    job: &Job,
    name: &'static str,
    file: &VectorFile,
    passes: u32,
) -> PhasePlan {
    let most_bytes = file.data_bytes().saturating_mul(passes.into());
    let requests = most_bytes as f64 / PIECE_BYTES as f64;
    let amounts = Amounts::of_files(Forecast::AtMost(most_bytes), Forecast::NOTHING, requests);
    PhasePlan::new(name, amounts, &layout_of(job, file))
}

/// Shows the plan of a pass of the engine's writer that reads `file` and writes this much.
pub(crate) fn show_copy(job: &Job, steps: &str, file: &VectorFile, written_bytes: u64) {
    let read_bytes = file.data_bytes();
    job.control.show_plan(&PassPlan::of_files(
        job,
        layout_of(job, file),
        steps,
        "write",
        read_bytes,
        read_bytes.into(),
        written_bytes.into(),
    ));
}

/// Adds a phase; merges it with the last one if that has the same name.
pub(crate) fn add_phase(phases: &mut Vec<Phase>, phase: Phase) {
    let Some(last) = phases.last_mut().filter(|last| last.name == phase.name) else {
        phases.push(phase);
        return;
    };
    last.seconds += phase.seconds;
    last.read_bytes += phase.read_bytes;
    last.written_bytes += phase.written_bytes;
    let sum = last.predicted.take().zip(phase.predicted);
    last.predicted = sum.map(|(earlier, later)| earlier.and(&later));
}

/// Returns all results, or the failure that stopped the others.
pub(crate) fn first_failure<T>(results: Vec<Result<T>>) -> Result<Vec<T>> {
    let failures = || results.iter().filter_map(|result| result.as_ref().err());
    let cause = failures().find(|error| error.kind() != Kind::Interrupted);
    match cause.or(failures().next()) {
        Some(error) => Err(error.clone()),
        None => results.into_iter().collect(),
    }
}

fn changed(file: &VectorFile) -> Error {
    let cause = "the file changed while it was read: it became shorter";
    Error::changed_input("read vectors", cause).path(&file.path)
}

/// A thread's space for rows in f32 with their norms.
pub(crate) struct Tile {
    numbers: Vec<f32>,
    /// The sum of squares of each row.
    squares: Vec<f32>,
    wide: Vec<f64>,
}

/// Some rows as f32.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// The number of the first row.
    pub(crate) first: u64,
    /// Their numbers.
    pub(crate) matrix: Matrix<'a>,
    /// The sum of squares of each row, in f32; finite unless the vector is beyond the range of f32.
    pub(crate) squares: &'a [f32],
    piece: Piece<'a>,
    from: usize,
}

impl Tile {
    /// The memory of a tile.
    pub(crate) fn memory_bytes(file: &VectorFile) -> u64 {
        (TILE_ROWS * (file.dimension + 1) * size_of::<f32>() + file.dimension * size_of::<f64>())
            as u64
    }

    pub(crate) fn new(file: &VectorFile) -> Self {
        Tile {
            numbers: Vec::new(),
            squares: vec![0.0; TILE_ROWS],
            wide: vec![0.0; file.dimension],
        }
    }

    /// Passes the rows of `piece` to `work`, a tile at a time, with a buffer for one row as f64.
    ///
    /// # Errors
    /// Usage: NaN or an infinite number. Corrupt: a row of another dimension. Errors of `work`.
    pub(crate) fn each(
        &mut self,
        piece: Piece<'_>,
        mut work: impl FnMut(Rows<'_>, &mut [f64]) -> Result<()>,
    ) -> Result<()> {
        let file = piece.file;
        let (row_bytes, dimension) = (file.row_bytes(), file.dimension);
        let rows = piece.bytes.len() / row_bytes;
        if file.lead_bytes() > 0 {
            for row in 0..rows {
                file.numbers(
                    piece.first + row as u64,
                    &piece.bytes[row * row_bytes..][..row_bytes],
                )?;
            }
        }
        let in_place = match (file.element, cfg!(target_endian = "little")) {
            (Element::F32, true) => bytemuck::try_cast_slice::<u8, f32>(piece.bytes).ok(),
            _ => None,
        };
        let mut from = 0;
        while from < rows {
            let count = TILE_ROWS.min(rows - from);
            let matrix = match in_place {
                Some(numbers) => Matrix {
                    numbers: &numbers[from * row_bytes / 4 + file.lead_bytes() / 4..],
                    rows: count,
                    dimension,
                    stride: row_bytes / 4,
                },
                None => {
                    self.numbers.resize(count * dimension, 0.0);
                    for (row, out) in self.numbers.chunks_exact_mut(dimension).enumerate() {
                        let bytes = &piece.bytes[(from + row) * row_bytes..][..row_bytes];
                        file.element.decode_f32(&bytes[file.lead_bytes()..], out);
                    }
                    Matrix::dense(&self.numbers, dimension)
                }
            };
            let squares = &mut self.squares[..count];
            squares_of(matrix, squares);
            let rows = Rows {
                first: piece.first + from as u64,
                matrix,
                squares,
                piece,
                from,
            };
            // If f64 cannot represent the square of a number, its square as an f32 is infinite or
            // 0.
            let is_strange = |square: &f32| !square.is_finite() || *square == 0.0;
            if let Some(at) = squares.iter().position(is_strange) {
                rows.check(at, &mut self.wide)?;
            }
            work(rows, &mut self.wide)?;
            from += count;
        }
        Ok(())
    }
}

impl Rows<'_> {
    /// Returns one of the rows as f64, exactly as in the file.
    #[inline(always)]
    pub(crate) fn exact(&self, index: usize, out: &mut [f64]) {
        let (file, row_bytes) = (self.piece.file, self.piece.file.row_bytes());
        let bytes = &self.piece.bytes[(self.from + index) * row_bytes..][..row_bytes];
        file.element.decode_f64(&bytes[file.lead_bytes()..], out);
    }

    /// Fails for the first row at or after `at` with numbers from which distances cannot be
    /// computed.
    fn check(&self, at: usize, wide: &mut [f64]) -> Result<()> {
        for index in at..self.matrix.rows {
            if self.squares[index].is_finite() && self.squares[index] != 0.0 {
                continue;
            }
            self.exact(index, wide);
            if let Some(column) = strange_in(wide) {
                let row = self.first + index as u64;
                return Err(strange(self.piece.file, row, column, wide[column]));
            }
        }
        Ok(())
    }
}

/// From this size on, sums of squares may be infinite.
const NUMBER_MAX: f64 = 1e100;
/// If no number of a row is larger than this, the squares may be 0.
const NUMBER_MIN: f64 = 1e-100;

/// The column of a number that is NaN, infinite or too large for distances, or of the largest
/// number in a row of tiny numbers.
pub(crate) fn strange_in(row: &[f64]) -> Option<usize> {
    let mut largest = (0, 0.0);
    for (column, number) in row.iter().enumerate() {
        let size = number.abs();
        if size.is_nan() || size >= NUMBER_MAX {
            return Some(column);
        }
        if size > largest.1 {
            largest = (column, size);
        }
    }
    is_out_of_range(largest.1).then_some(largest.0)
}

/// Whether distances cannot be computed from a row with this largest number.
#[inline(always)]
pub(crate) fn is_out_of_range(largest: f64) -> bool {
    largest != 0.0 && !(NUMBER_MIN..NUMBER_MAX).contains(&largest)
}

/// The error for such a number.
pub(crate) fn strange(file: &VectorFile, row: u64, column: usize, number: f64) -> Error {
    let (cause, hint) = match number.is_finite() {
        true => (
            format!(
                "row {row} has {number:e} in column {column}, whose square is beyond double precision"
            ),
            "scale the vectors so that their numbers are between 1e-100 and 1e100",
        ),
        false => (
            format!("row {row} has {number} in column {column}"),
            "replace or remove vectors that are not all finite numbers",
        ),
    };
    Error::usage("read vectors", cause)
        .path(&file.path)
        .hint(hint)
}

/// Loads all vectors of a file as f64; the caller reserves their memory.
///
/// # Errors
/// As [`Scan::run`]; usage for NaN or an infinite number.
pub fn load(job: &Job, file: &VectorFile) -> Result<Vec<f64>> {
    let scan = Scan::plan(job, file, 0, 0)?;
    let state = || Ok((Tile::new(file), Vec::new()));
    let passed = scan.run(job, "read vectors", state, |(tile, found), piece| {
        let mut all = Vec::with_capacity(piece.bytes.len() / file.row_bytes() * file.dimension);
        tile.each(piece, |rows, wide| {
            for index in 0..rows.matrix.rows {
                rows.exact(index, wide);
                all.extend_from_slice(wide);
            }
            Ok(())
        })?;
        found.push((piece.first, all));
        Ok(())
    })?;
    let mut pieces: Vec<(u64, Vec<f64>)> = passed
        .states
        .into_iter()
        .flat_map(|(_, found)| found)
        .collect();
    pieces.sort_by_key(|(first, _)| *first);
    let mut vectors = Vec::with_capacity(file.rows as usize * file.dimension);
    pieces
        .iter()
        .for_each(|(_, numbers)| vectors.extend_from_slice(numbers));
    Ok(vectors)
}
