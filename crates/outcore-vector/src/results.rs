//! Writes results to files: ids, distances, labels and centroids, in the formats of vectors.
//!
//! Contract: an array in memory becomes one file, absent or whole, through the engine's writer.
//! Several results appear together. Arrays larger than memory are written while they are computed
//! ([`RowsWriter`]). The extension determines the format. Ids are written as the format's integers;
//! an id that does not fit is an error before anything is written.

use std::ops::Range;
use std::path::Path;

use outcore::primitives::Summary;
use outcore::primitives::sized_files::{SizedFile, SizedFiles};
use outcore::primitives::write::{FileBytes, stage_together};
use outcore::{Error, Job, Result};
use outcore_io::memory::Reservation;

use crate::format::{Container, Element, VectorFile};

/// The id that means no row. As a signed number it is -1, as in faiss.
pub const NO_ROW: u64 = u64::MAX;

/// An array of a result.
#[derive(Debug, Clone, Copy)]
pub enum Array<'a> {
    /// Ids: i64 in `.npy` and raw numbers, i32 in other formats; -1 for no row.
    Ids(&'a [u64]),
    /// Labels: i32.
    Labels(&'a [i32]),
    /// Numbers: f64 in `.npy` if they are `wide`, f32 otherwise.
    Floats {
        /// The numbers.
        numbers: &'a [f64],
        /// Whether formats with f64 use it.
        wide: bool,
    },
}

impl Array<'_> {
    fn len(&self) -> usize {
        match self {
            Array::Ids(ids) => ids.len(),
            Array::Labels(labels) => labels.len(),
            Array::Floats { numbers, .. } => numbers.len(),
        }
    }

    /// Some of its numbers.
    fn part(&self, range: Range<usize>) -> Self {
        match *self {
            Array::Ids(ids) => Array::Ids(&ids[range]),
            Array::Labels(labels) => Array::Labels(&labels[range]),
            Array::Floats { numbers, wide } => Array::Floats {
                numbers: &numbers[range],
                wide,
            },
        }
    }

    fn element(&self, path: &Path) -> Element {
        match (VectorFile::element_of_name(path), self) {
            (Some(told), _) => told,
            (None, Array::Ids(_)) => Element::I64,
            (None, Array::Labels(_)) => Element::I32,
            (None, Array::Floats { wide: true, .. }) => Element::F64,
            (None, Array::Floats { wide: false, .. }) => Element::F32,
        }
    }
}

/// The number type that a file named `path` has if it holds `array`. Callers ask before they
/// compute the array, so that a wrong name fails early.
///
/// # Errors
/// Usage: an extension for other numbers.
pub fn check_name(path: &Path, array: Array<'_>) -> Result<Element> {
    let element = array.element(path);
    let is_fitting = match array {
        Array::Ids(_) | Array::Labels(_) => element.is_id(),
        Array::Floats { .. } => element.is_float(),
    };
    if !is_fitting {
        let cause = format!("a file of this name holds {}", element.name());
        return Err(Error::usage("create output", cause)
            .path(path)
            .hint("for ids and labels use .ibin, .ivecs or .npy; for distances and centroids .fbin, .fvecs or .npy"));
    }
    Ok(element)
}

/// An array and the file that it becomes.
#[derive(Debug, Clone, Copy)]
pub struct ResultFile<'a> {
    /// Its path, whose extension determines the format.
    pub path: &'a Path,
    /// Its array.
    pub array: Array<'a>,
    /// Numbers per row; `None` for a one-dimensional array.
    pub dimension: Option<usize>,
}

/// Writes several arrays to files that appear together.
///
/// # Errors
/// As [`write`].
pub fn write_all(job: &Job, files: &[ResultFile<'_>], replace: bool) -> Result<Summary> {
    stage_all(job, files, replace)?.publish()
}

/// Writes the arrays to staged files; the caller makes them appear.
///
/// # Errors
/// As [`write`].
pub fn stage_all(job: &Job, files: &[ResultFile<'_>], replace: bool) -> Result<SizedFiles> {
    let encoded = Encoded::of(job, files)?;
    stage_together(job, &encoded.files(), replace)
}

/// Arrays as the bytes of their files.
pub(crate) struct Encoded<'a> {
    paths: Vec<&'a Path>,
    bytes: Vec<Vec<u8>>,
    _held: Reservation,
}

impl<'a> Encoded<'a> {
    /// Encodes these arrays.
    ///
    /// # Errors
    /// Usage: an extension for other numbers, ids that do not fit. Memory.
    pub(crate) fn of(job: &Job, files: &[ResultFile<'a>]) -> Result<Self> {
        let mut plans = Vec::new();
        for ResultFile {
            path,
            array,
            dimension,
        } in files
        {
            let element = check_name(path, *array)?;
            let columns = dimension.unwrap_or(1);
            let rows = (array.len() / columns) as u64;
            let file = VectorFile::to_write(path, element, columns, rows)?;
            let header = header_of(&file, *dimension);
            plans.push((file, header, *array));
        }
        let len_of = |(file, header, _): &(VectorFile, Vec<u8>, Array<'_>)| {
            header.len() as u64 + file.data_bytes()
        };
        let held = job
            .budget
            .reserve("results", plans.iter().map(len_of).sum())?;
        let mut bytes = Vec::with_capacity(plans.len());
        for plan in plans {
            let len_bytes = len_of(&plan) as usize;
            let (file, mut encoded, array) = plan;
            encoded.reserve_exact(len_bytes - encoded.len());
            encode(&file, array, &mut encoded)?;
            bytes.push(encoded);
        }
        Ok(Encoded {
            paths: files.iter().map(|file| file.path).collect(),
            bytes,
            _held: held,
        })
    }

    /// Each file and its bytes.
    pub(crate) fn files(&self) -> Vec<FileBytes<'_>> {
        let files = self.paths.iter().zip(&self.bytes);
        files
            .map(|(path, bytes)| FileBytes { path, bytes })
            .collect()
    }
}

/// A file of numbers that are written while they are computed.
#[derive(Debug, Clone, Copy)]
pub struct NewRows<'a> {
    /// Its path, whose extension determines the format.
    pub path: &'a Path,
    /// Its kind of array; the numbers are ignored.
    pub kind: Array<'a>,
    /// Numbers per row; `None` for a one-dimensional array.
    pub dimension: Option<usize>,
    /// The number of rows, or of numbers in a one-dimensional array.
    pub rows: u64,
    /// The largest possible id.
    pub id_max: u64,
}

/// Numbers that are encoded at a time, or one row if it is longer.
const ENCODED_NUMBERS: usize = 16 << 10;

/// Files of numbers that are written while they are computed, and may exceed the memory; all appear
/// together.
pub struct RowsWriter {
    together: SizedFiles,
    /// Each file, and the rows written so far.
    files: Vec<(VectorFile, u64)>,
    bytes: Vec<u8>,
}

impl RowsWriter {
    /// Stages the files.
    ///
    /// # Errors
    /// As [`write`].
    pub fn create(job: &Job, files: &[NewRows<'_>], replace: bool) -> Result<Self> {
        let plans = files.iter().map(|file| {
            let element = check_name(file.path, file.kind)?;
            let columns = file.dimension.unwrap_or(1);
            let to = VectorFile::to_write(file.path, element, columns, file.rows)?;
            let header = header_of(&to, file.dimension);
            match matches!(file.kind, Array::Ids(_))
                && element == Element::I32
                && i32::try_from(file.id_max).is_err()
            {
                true => Err(too_large(&to, file.id_max)),
                false => Ok((to, header)),
            }
        });
        let plans: Vec<(VectorFile, Vec<u8>)> = plans.collect::<Result<_>>()?;
        let lens = plans.iter().map(|(file, header)| {
            let len_bytes = header.len() as u64 + file.data_bytes();
            SizedFile {
                path: &file.path,
                len_bytes,
            }
        });
        let mut together = SizedFiles::create(job, &lens.collect::<Vec<_>>(), replace)?;
        let mut begun = Vec::with_capacity(plans.len());
        for (number, (file, header)) in plans.into_iter().enumerate() {
            together.write(number, 0, &header)?;
            begun.push((file, header.len() as u64));
        }
        Ok(RowsWriter {
            together,
            files: begun,
            bytes: Vec::new(),
        })
    }

    /// Appends whole rows to the files: one array for each file, in their order.
    ///
    /// # Errors
    /// Usage: ids that do not fit. Errors of writing.
    pub fn append(&mut self, arrays: &[Array<'_>]) -> Result<()> {
        for (number, (array, (file, at_bytes))) in arrays.iter().zip(&mut self.files).enumerate() {
            let step = (ENCODED_NUMBERS / file.dimension).max(1) * file.dimension;
            for first in (0..array.len()).step_by(step) {
                self.bytes.clear();
                let part = array.part(first..array.len().min(first + step));
                encode(file, part, &mut self.bytes)?;
                self.together.write(number, *at_bytes, &self.bytes)?;
                *at_bytes += self.bytes.len() as u64;
            }
        }
        Ok(())
    }

    /// Makes the files appear.
    ///
    /// # Errors
    /// As [`write`].
    pub fn publish(self) -> Result<Summary> {
        self.together.publish()
    }
}

/// The first bytes of a file; without a dimension, those of a one-dimensional array.
fn header_of(file: &VectorFile, dimension: Option<usize>) -> Vec<u8> {
    match (file.container, dimension) {
        (Container::Npy, None) => file.flat_header(),
        _ => file.header(),
    }
}

/// Writes `array` to `path` in rows of `dimension`, or as a one-dimensional array without it.
///
/// # Errors
/// Usage: an extension for other numbers, ids that do not fit, an existing output that may not be
/// replaced. Memory. Errors of writing.
pub fn write(
    job: &Job,
    path: &Path,
    replace: bool,
    array: Array<'_>,
    dimension: Option<usize>,
) -> Result<Summary> {
    let file = ResultFile {
        path,
        array,
        dimension,
    };
    write_all(job, &[file], replace)
}

/// Appends the rows of `array` to `bytes`.
fn encode(file: &VectorFile, array: Array<'_>, bytes: &mut Vec<u8>) -> Result<()> {
    let lead = file.lead();
    let element_bytes = file.element.bytes();
    let mut number = [0; 8];
    for index in 0..array.len() {
        if index % file.dimension == 0 {
            bytes.extend_from_slice(&lead);
        }
        match (array, file.element) {
            (Array::Ids(ids), Element::I64) => number = ids[index].to_le_bytes(),
            (Array::Ids(ids), _) if ids[index] == NO_ROW => {
                number[..4].copy_from_slice(&(-1_i32).to_le_bytes());
            }
            (Array::Ids(ids), _) => {
                let id = i32::try_from(ids[index]).map_err(|_| too_large(file, ids[index]))?;
                number[..4].copy_from_slice(&id.to_le_bytes());
            }
            (Array::Labels(labels), Element::I64) => {
                number = i64::from(labels[index]).to_le_bytes();
            }
            (Array::Labels(labels), _) => {
                number[..4].copy_from_slice(&labels[index].to_le_bytes());
            }
            (Array::Floats { numbers, .. }, element) => {
                // A distance out of range becomes infinite.
                element.encode(numbers[index], &mut number[..element_bytes]);
            }
        }
        bytes.extend_from_slice(&number[..element_bytes]);
    }
    Ok(())
}

fn too_large(file: &VectorFile, id: u64) -> Error {
    let cause = format!("its format has ids of 32 bits, but {id} does not fit");
    Error::usage("create output", cause)
        .path(&file.path)
        .hint("write .npy, whose ids have 64 bits")
}
