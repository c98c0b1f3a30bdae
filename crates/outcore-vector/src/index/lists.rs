//! An index with lists: the rows of a base grouped by their nearest centroid, so that a search can
//! read a part of them.
//!
//! Contract: each row of the base is in the list of its nearest centroid, unchanged, with its row
//! number. Rows ascend within a list. [`build_lists`] clusters the base with
//! [`kmeans`](mod@crate::kmeans), and then groups its rows with one sort by the engine, within the
//! job's memory. The index is absent or whole, and its bytes depend only on the base and the
//! options. Source: IVF (Sivic and Zisserman, "Video Google", ICCV 2003; Jégou, Douze, Schmid,
//! "Product Quantization for Nearest Neighbor Search", PAMI 2011).
//!
//! N.B. The lists contain whole rows, not one-byte codes: a list is read in one piece, and its rows
//! are measured directly in f64. Codes would need a quarter of the bytes, but also a random read of
//! the base for each row that they cannot rule out.
//!
//! Layout:
//!
//! - the header of [`super`]
//! - the centroids as f64
//! - the first row of each list and the end of the last, as u64
//! - zeros up to a multiple of 4096 bytes
//! - the rows, each after its number (u64), its list (u32), and its checksum (u32), which is seeded
//!   by the number, the list and the base
//!
//! Bounds: the passes of k-means, one more read of the base, and a sort of its rows. The index has
//! the length of the base plus 16 bytes per row.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use outcore::key::RecordFormat;
use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::producer::{Emit, Maker, Produced, Producer};
use outcore::primitives::sorted::sort_made;
use outcore::primitives::{Batch, Summary};
use outcore::sort::SortOptions;
use outcore::states::{Column, PassState};
use outcore::{Error, Job, MakeHeader, Output, Result};
use outcore_io::checksum::{BlockLocation, block_checksum, bytes_checksum};
use outcore_io::memory::Reservation;
use outcore_io::metadata::Owner;
use outcore_io::units;

use super::{BaseFacts, Built, FORM, HEADER_BYTES, NAME, Noted, modified_ns};
use crate::format::{Container, Element, LIST_HEADER_BYTES, VectorFile, source_of, start};
use crate::kmeans::{Batches, Clustering, KmeansOptions, LabelSpace, Labeller, kmeans};

/// The most lists.
const LISTS_MAX: usize = 1 << 16;
/// A base with more rows per list is clustered in batches.
const ROWS_A_LIST: u64 = 1024;
/// The most passes over a smaller base.
const ITERATIONS_MAX: u32 = 20;
/// The most batches for a larger base, and the rows of a batch.
const BATCHES_MAX: u32 = 100;
const BATCH_ROWS: usize = 1 << 14;
const BATCH_ROWS_A_LIST: usize = 16;
const OPERATION: &str = "index vectors";

/// How rows are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListOptions {
    /// The number of lists.
    pub lists: usize,
    /// Whether rows are grouped by direction, for searches with the cosine.
    pub is_spherical: bool,
    /// The seed of the first centroids.
    pub seed: u64,
}

impl ListOptions {
    /// Groups rows into this many lists by Euclidean distance.
    pub fn new(lists: usize) -> Self {
        ListOptions {
            lists,
            is_spherical: false,
            seed: 1,
        }
    }
}

/// The metadata of lists in an index.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFacts {
    lists: usize,
    is_spherical: bool,
    /// The checksum of the centroids and of the starts of lists.
    tables_checksum: u64,
}

/// Bytes of the tables for this many lists, padded.
fn tables_bytes(lists: usize, dimension: usize) -> u64 {
    let numbers = lists as u64 * dimension as u64 + lists as u64 + 1;
    (numbers * size_of::<f64>() as u64).next_multiple_of(HEADER_BYTES as u64)
}

/// Writes an index with lists of `base` to `path`.
///
/// # Errors
/// Usage: more lists than rows, ids instead of vectors, an infinite number or NaN, an existing
/// output that may not be replaced. Memory: the centroids do not fit. No space. Errors of reading
/// and writing.
pub fn build_lists(
    job: &Job,
    base: &VectorFile,
    path: &Path,
    replace: bool,
    options: &ListOptions,
) -> Result<Built> {
    let lists = options.lists;
    if lists == 0 || lists > LISTS_MAX || lists as u64 > base.rows {
        let rows = units::counted(base.rows, "row");
        let cause = format!("{lists} lists were requested, and the base has {rows}");
        return Err(Error::usage(OPERATION, cause)
            .path(&base.path)
            .hint("choose --nlist between 1 and the number of rows, at most 65536"));
    }
    let facts = BaseFacts::of(job, base)?;
    let has_many_rows = base.rows / lists as u64 > ROWS_A_LIST;
    let clusters = KmeansOptions {
        batches: has_many_rows.then(|| Batches::new(BATCH_ROWS.max(BATCH_ROWS_A_LIST * lists))),
        max_iterations: match has_many_rows {
            true => BATCHES_MAX,
            false => ITERATIONS_MAX,
        },
        seed: options.seed,
        is_spherical: options.is_spherical,
        ..KmeansOptions::new(lists)
    };
    let mut clustered = Clustered::empty(lists, base.dimension, options.is_spherical);
    if !job.restore_state(&mut clustered)? {
        clustered.clustering = kmeans(job, base, &clusters)?;
        job.keep_state(&mut clustered)?;
    }
    let clustering = clustered.clustering;
    let held_bytes = 2 * tables_bytes(lists, base.dimension);
    let _held = job.budget.reserve("lists", held_bytes)?;
    let mut tables: Vec<u8> = Vec::new();
    tables.extend(clustering.centroids.iter().flat_map(|x| x.to_le_bytes()));
    let mut end = 0_u64;
    tables.extend_from_slice(&end.to_le_bytes());
    for rows in &clustering.row_counts {
        end += rows;
        tables.extend_from_slice(&end.to_le_bytes());
    }
    let fingerprint = facts.fingerprint;
    let noted = Noted {
        base: facts.clone(),
        lists: Some(ListFacts {
            lists,
            is_spherical: options.is_spherical,
            tables_checksum: bytes_checksum(&tables),
        }),
    };
    let mut header = FORM.seal(Owner::of(NAME), &noted)?;
    header.resize(HEADER_BYTES, 0);
    header.extend_from_slice(&tables);
    header.resize(
        HEADER_BYTES + tables_bytes(lists, base.dimension) as usize,
        0,
    );
    drop(tables);
    let header_bytes = header.len() as u64;
    let make: MakeHeader = Arc::new(move |_| header.clone());
    let output = Output::File {
        path: path.to_path_buf(),
        header: Some(make),
    };
    let (mut read_bytes, passes) = (clustering.read_bytes, clustering.passes);
    let mut phases = clustering.phases.clone();
    let grouped = Grouped {
        base,
        labeller: Labeller::new(job, base, &clustering)?,
        fingerprint,
    };
    drop(clustering);
    let item_bytes = grouped.item_bytes();
    let by_list = RecordFormat::new(item_bytes, vec!["8:4:u32".parse()?, "0:8:u64".parse()?])?;
    let sort = SortOptions {
        replace,
        ..SortOptions::default()
    };
    let done = sort_made(job, &grouped, &output, &by_list, sort)?;
    read_bytes += done.read_bytes;
    phases.extend(done.phases);
    if modified_ns(job, &base.path)? != facts.modified_ns {
        job.device.remove(path)?;
        return Err(super::changed(&base.path));
    }
    Ok(Built {
        summary: Summary {
            records_in: base.rows,
            records: done.records,
            passes: passes + done.passes,
            read_bytes,
            written_bytes: done.written_bytes,
            phases,
            drives: done.drives,
            ..Summary::default()
        },
        index_bytes: header_bytes + base.rows * item_bytes as u64,
    })
}

/// The centroids of an index, before its rows are grouped.
struct Clustered {
    clustering: Clustering,
}

impl Clustered {
    fn empty(lists: usize, dimension: usize, is_spherical: bool) -> Self {
        Clustered {
            clustering: Clustering {
                centroids: vec![0.0; lists * dimension],
                row_counts: vec![0; lists],
                inertia: f64::NAN,
                iterations: 0,
                has_converged: false,
                is_spherical,
                passes: 0,
                read_bytes: 0,
                phases: Vec::new(),
            },
        }
    }
}

impl PassState for Clustered {
    const NAME: &'static str = "index with lists";
    type Facts = ();

    fn facts(&self) {}

    fn take(&mut self, (): ()) {}

    fn columns(&mut self) -> Vec<Column<'_>> {
        let Clustering {
            centroids,
            row_counts,
            ..
        } = &mut self.clustering;
        vec![Column::of(centroids), Column::of(row_counts)]
    }
}

/// Rows, with their lists before them.
struct Grouped<'b> {
    base: &'b VectorFile,
    labeller: Labeller<'b>,
    fingerprint: u64,
}

/// The checksum of a row.
fn checksum(row: u64, list: u32, numbers: &[u8], fingerprint: u64) -> u32 {
    let place = BlockLocation {
        drive: list,
        address_bytes: row,
        run: fingerprint,
    };
    block_checksum(place, numbers) as u32
}

/// A thread's space for labelling rows, and the labels of a batch.
struct Labels {
    space: LabelSpace,
    labels: Vec<u32>,
}

impl Grouped<'_> {
    fn make(
        &self,
        Labels { space, labels }: &mut Labels,
        batch: Batch<'_>,
        out: &mut Emit<'_>,
    ) -> Result<Produced> {
        let item_bytes = self.item_bytes();
        labels.clear();
        let bytes = batch.bytes(0);
        self.labeller
            .label(space, batch.first, bytes, |list| labels.push(list as u32))?;
        let rows = bytes.chunks_exact(self.base.row_bytes());
        for ((row, bytes), list) in (batch.first..).zip(rows).zip(&*labels) {
            if !out.reserve(item_bytes)? {
                return Ok(Produced::Overflow);
            }
            let numbers = self.base.numbers(row, bytes)?;
            let place = &mut out.free()[..item_bytes];
            place[..8].copy_from_slice(&row.to_le_bytes());
            place[8..12].copy_from_slice(&list.to_le_bytes());
            let sum = checksum(row, *list, numbers, self.fingerprint);
            place[12..16].copy_from_slice(&sum.to_le_bytes());
            place[16..].copy_from_slice(numbers);
            out.filled(item_bytes);
        }
        Ok(Produced::All)
    }
}

impl Producer for Grouped<'_> {
    fn sources(&self) -> Vec<Source> {
        vec![source_of(self.base)]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        LIST_HEADER_BYTES + self.base.dimension * self.base.element.bytes()
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        let mut space = Labels {
            space: self.labeller.space(),
            labels: Vec::new(),
        };
        Box::new(move |batch, out| self.make(&mut space, batch, out))
    }

    fn space_bytes(&self) -> usize {
        // The labels of a batch take less memory than its rows, and the rows are counted as a
        // window.
        self.labeller.space_bytes() + (1 << 20)
    }

    fn steps(&self) -> String {
        "read -> nearest centroid".to_string()
    }
}

/// An index with lists that matches its base.
#[derive(Debug)]
pub(crate) struct ListFile {
    facts: BaseFacts,
    base: PathBuf,
    /// Whether centroids are directions.
    pub(crate) is_spherical: bool,
    /// The centroids, as a file of vectors.
    pub(crate) centroids: VectorFile,
    /// All rows, list after list.
    pub(crate) rows: VectorFile,
    limits: Vec<u64>,
    _held: Reservation,
}

impl ListFile {
    /// Opens the index at `path`, of this many bytes, with the metadata `lists` and the base's
    /// `facts`.
    pub(super) fn open(
        job: &Job,
        path: &Path,
        len_bytes: u64,
        base: &VectorFile,
        facts: BaseFacts,
        lists: ListFacts,
    ) -> Result<Self> {
        let damage = |cause: &str| FORM.damage(cause.to_string()).path(path);
        let (count, dimension) = (lists.lists, base.dimension);
        if !(1..=LISTS_MAX).contains(&count) {
            return Err(damage("it has an impossible number of lists"));
        }
        let filled_bytes = tables_bytes(count, dimension);
        let part = |container, element, rows, header_bytes| VectorFile {
            path: path.to_path_buf(),
            container,
            element,
            dimension,
            rows,
            header_bytes,
            first_row: 0,
        };
        let header_bytes = HEADER_BYTES as u64;
        let centroids = part(Container::Raw, Element::F64, count as u64, header_bytes);
        let rows_at = header_bytes + filled_bytes;
        let rows = part(Container::Lists, base.element, base.rows, rows_at);
        super::check_len(path, &rows, len_bytes)?;
        let held = job.budget.reserve("lists", (count as u64 + 1) * 8)?;
        let _read = job.budget.reserve("lists", filled_bytes)?;
        let tables_bytes = centroids.data_bytes() as usize + (count + 1) * 8;
        let tables = start::bytes_of(job, path, header_bytes, tables_bytes)?;
        if bytes_checksum(&tables) != lists.tables_checksum {
            return Err(damage(
                "its centroids are damaged: they differ from what was written",
            ));
        }
        let (limits, _) = tables[centroids.data_bytes() as usize..].as_chunks::<8>();
        let limits: Vec<u64> = limits
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        if limits.last() != Some(&base.rows) || !limits.is_sorted() {
            return Err(damage("its lists do not contain all rows of the base"));
        }
        Ok(ListFile {
            facts,
            base: base.path.clone(),
            is_spherical: lists.is_spherical,
            centroids,
            rows,
            limits,
            _held: held,
        })
    }

    /// The number of lists.
    pub(crate) fn count(&self) -> usize {
        self.limits.len() - 1
    }

    /// The places of the rows of a list.
    pub(crate) fn places(&self, list: usize) -> Range<u64> {
        self.limits[list]..self.limits[list + 1]
    }

    /// The list that contains the row at a place.
    pub(crate) fn list_at(&self, place: u64) -> usize {
        self.limits.partition_point(|limit| *limit <= place) - 1
    }

    /// Returns the row number in the base for a row of `list`, from the bytes at its place.
    ///
    /// # Errors
    /// Corrupt: the row is damaged.
    pub(crate) fn row_of(&self, list: usize, bytes: &[u8]) -> Result<u64> {
        let (lead, numbers) = bytes.split_at(LIST_HEADER_BYTES);
        let (words, _) = lead.as_chunks::<4>();
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let row = u64::from(word(1)) << 32 | u64::from(word(0));
        let sum = checksum(row, list as u32, numbers, self.facts.fingerprint);
        match word(2) as usize == list && row < self.facts.rows && word(3) == sum {
            true => Ok(row),
            false => Err(FORM
                .damage(format!(
                    "a row of list {list} is damaged: it differs from what was written"
                ))
                .path(&self.rows.path)),
        }
    }

    /// Fails if the base has changed since the index was opened.
    pub(crate) fn check_base(&self, job: &Job) -> Result<()> {
        match modified_ns(job, &self.base)? == self.facts.modified_ns {
            true => Ok(()),
            false => Err(super::changed(&self.base)),
        }
    }
}
