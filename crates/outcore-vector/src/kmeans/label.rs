//! Writes or returns the cluster of each row.
//!
//! Contract: one pass of the engine's writer; the file is absent or whole. A label is the number of
//! the nearest centroid, as in [`super::kmeans`].
//!
//! Bounds: one read of the base; four or eight bytes are written per row.

use std::path::Path;
use std::sync::Arc;

use outcore::dataset::stream::stream;
use outcore::primitives::batch::{Source, Yield};
use outcore::primitives::producer::{Emit, Maker, Produced, Producer};
use outcore::primitives::write::{produce, produce_beside};
use outcore::primitives::{Batch, Summary};
use outcore::{Job, MakeHeader, Output, Result};
use outcore_io::memory::Reservation;

use super::Clustering;
use super::centroids::{Centroids, Space};
use crate::format::{Container, Element, VectorFile, source_of};
use crate::results::{Array, Encoded, ResultFile, check_name};
use crate::scan::{Piece, Tile, show_copy};

/// The output for labels.
#[derive(Debug, Clone, Copy)]
pub struct LabelOutput<'a> {
    /// The file, whose extension determines the format.
    pub path: &'a Path,
    /// Whether existing files may be replaced.
    pub replace: bool,
    /// Other files that appear together with it, such as centroids.
    pub beside: &'a [ResultFile<'a>],
}

/// Writes the cluster of each row of `base` as a number: i32 in `.npy`, `.ibin` or raw numbers. All
/// files of the output appear together.
///
/// # Errors
/// Usage: an extension for other numbers, an existing output that may not be replaced. Errors of
/// reading and writing.
pub fn write_labels(
    job: &Job,
    base: &VectorFile,
    clustering: &Clustering,
    output: &LabelOutput<'_>,
) -> Result<Summary> {
    let path = output.path;
    let element = check_name(path, Array::Labels(&[]))?;
    let to = VectorFile::to_write(path, element, 1, base.rows)?;
    let header = match to.container {
        Container::Npy => to.flat_header(),
        _ => to.header(),
    };
    let header: Option<MakeHeader> = match header.is_empty() {
        true => None,
        false => Some(Arc::new(move |_| header.clone())),
    };
    let file = Output::File {
        path: path.to_path_buf(),
        header,
    };
    let labels = Labels {
        to: &to,
        labeller: Labeller::new(job, base, clustering)?,
    };
    show_copy(
        job,
        "read -> the nearest centroid of each vector -> write",
        base,
        to.header_bytes + to.data_bytes(),
    );
    let beside = Encoded::of(job, output.beside)?;
    produce_beside(job, &labels, &file, &beside.files(), output.replace)
}

/// Calls `take` with the clusters of the rows of `base`, in their order.
///
/// # Errors
/// Errors of reading and of `take`.
pub fn each_label(
    job: &Job,
    base: &VectorFile,
    clustering: &Clustering,
    take: &mut dyn FnMut(&[i32]) -> Result<()>,
) -> Result<Summary> {
    let to = VectorFile {
        path: base.path.clone(),
        container: Container::Raw,
        element: Element::I32,
        dimension: 1,
        rows: base.rows,
        header_bytes: 0,
        first_row: 0,
    };
    let labels = Labels {
        to: &to,
        labeller: Labeller::new(job, base, clustering)?,
    };
    show_copy(
        job,
        "read -> the nearest centroid of each vector -> write",
        base,
        to.data_bytes(),
    );
    let (mut bytes, mut clusters) = (Vec::new(), Vec::new());
    stream(
        job,
        |output| produce(job, &labels, &output, false),
        |more| {
            bytes.extend_from_slice(more);
            let (whole, rest) = bytes.as_chunks::<4>();
            clusters.clear();
            clusters.extend(whole.iter().map(|label| i32::from_le_bytes(*label)));
            let taken_bytes = bytes.len() - rest.len();
            bytes.drain(..taken_bytes);
            take(&clusters)
        },
    )
}

/// Finds the nearest centroids of rows.
pub(crate) struct Labeller<'a> {
    base: &'a VectorFile,
    centroids: Centroids,
    _held: Reservation,
}

/// A thread's space for labelling rows.
pub(crate) struct LabelSpace {
    tile: Tile,
    space: Space,
}

impl<'a> Labeller<'a> {
    /// Creates a labeller for rows of `base`, with the centroids of `clustering`.
    ///
    /// # Errors
    /// Memory: the centroids do not fit.
    pub(crate) fn new(job: &Job, base: &'a VectorFile, clustering: &Clustering) -> Result<Self> {
        let (numbers, dimension) = (clustering.centroids.clone(), base.dimension);
        let held_bytes = Centroids::memory_bytes(clustering.row_counts.len(), dimension);
        Ok(Labeller {
            _held: job.budget.reserve("centroids", held_bytes)?,
            base,
            centroids: Centroids::new(numbers, dimension, clustering.is_spherical),
        })
    }

    pub(crate) fn space(&self) -> LabelSpace {
        LabelSpace {
            tile: Tile::new(self.base),
            space: Space::new(self.centroids.count()),
        }
    }

    pub(crate) fn space_bytes(&self) -> usize {
        (Tile::memory_bytes(self.base) + Space::memory_bytes(self.centroids.count())) as usize
    }

    /// Calls `each` with the clusters of the rows in `bytes`, in order; the first one is row
    /// `first`.
    ///
    /// # Errors
    /// Usage: NaN or an infinite number. Corrupt: a row of another dimension.
    pub(crate) fn label(
        &self,
        LabelSpace { tile, space }: &mut LabelSpace,
        first: u64,
        bytes: &[u8],
        mut each: impl FnMut(usize),
    ) -> Result<()> {
        let piece = Piece {
            file: self.base,
            first,
            bytes,
        };
        tile.each(piece, |rows, wide| {
            let each = |_: usize, cluster: usize, _: f64, _: &[f64]| {
                each(cluster);
                Ok(())
            };
            self.centroids.nearest(&rows, space, each, wide)
        })
    }
}

/// Writes rows as labels.
struct Labels<'a> {
    to: &'a VectorFile,
    labeller: Labeller<'a>,
}

impl Labels<'_> {
    fn make(
        &self,
        space: &mut LabelSpace,
        batch: Batch<'_>,
        out: &mut Emit<'_>,
    ) -> Result<Produced> {
        let item_bytes = self.item_bytes();
        if !out.reserve(batch.count * item_bytes)? {
            return Ok(Produced::Overflow);
        }
        let lead = self.to.lead();
        let mut places = out.free()[..batch.count * item_bytes].chunks_exact_mut(item_bytes);
        self.labeller
            .label(space, batch.first, batch.bytes(0), |cluster| {
                if let Some(place) = places.next() {
                    let (before, place) = place.split_at_mut(lead.len());
                    before.copy_from_slice(&lead);
                    // There are at most 2^20 clusters.
                    match self.to.element {
                        Element::I64 => place.copy_from_slice(&(cluster as i64).to_le_bytes()),
                        _ => place.copy_from_slice(&(cluster as i32).to_le_bytes()),
                    }
                }
            })?;
        out.filled(batch.count * item_bytes);
        Ok(Produced::All)
    }
}

impl Producer for Labels<'_> {
    fn sources(&self) -> Vec<Source> {
        vec![source_of(self.labeller.base)]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        self.to.row_bytes()
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        let mut space = self.labeller.space();
        Box::new(move |batch, out| self.make(&mut space, batch, out))
    }

    fn space_bytes(&self) -> usize {
        self.labeller.space_bytes()
    }

    fn steps(&self) -> String {
        "read -> nearest centroid".to_string()
    }
}
