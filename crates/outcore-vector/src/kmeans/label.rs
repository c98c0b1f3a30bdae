//! The cluster of each row, as a file.
//!
//! Contract: one pass of the engine's writer; the file is absent or whole. Labels are those of the nearest centroid, as in
//! [`super::kmeans`].
//!
//! Bounds: one read of the base, four or eight bytes a row written.

use std::path::Path;
use std::sync::Arc;

use outcore::primitives::batch::{Leaf, Yield};
use outcore::primitives::producer::{Emit, Produced, Producer};
use outcore::primitives::write::produce;
use outcore::primitives::{Batch, Summary};
use outcore::{Input, Job, MakeHeader, Output, Result};

use super::centroids::{Centroids, Space};
use super::{Clustering, scaled};
use crate::format::{Container, Element, VectorFile};
use crate::results::{Array, check_name};
use crate::scan::{Piece, Tile};

/// Writes the number of its cluster for each row of `base`: i32 in `.npy`, `.ibin` or bare.
///
/// # Errors
/// Usage: a name whose format is for other numbers, an output that exists and may not be replaced. What reading and writing
/// fail with.
pub fn write_labels(
    job: &Job,
    base: &VectorFile,
    clustering: &Clustering,
    (path, replace): (&Path, bool),
) -> Result<Summary> {
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
    let output = Output::File {
        path: path.to_path_buf(),
        header,
    };
    let (numbers, dimension) = (clustering.centroids.clone(), base.dimension);
    let held_bytes = Centroids::memory_bytes(clustering.row_counts.len(), dimension);
    let _held = job.budget.reserve("centroids", held_bytes)?;
    let labels = Labels {
        base,
        to: &to,
        centroids: Centroids::new(numbers, dimension, clustering.is_spherical),
        is_spherical: clustering.is_spherical,
    };
    produce(job, &labels, &output, replace)
}

/// Rows as labels.
struct Labels<'a> {
    base: &'a VectorFile,
    to: &'a VectorFile,
    centroids: Centroids,
    is_spherical: bool,
}

impl Producer for Labels<'_> {
    type Space = (Tile, Space);

    fn leaves(&self) -> Vec<Leaf> {
        vec![Leaf {
            inputs: vec![Input {
                path: self.base.path.clone(),
                header_bytes: self.base.header_bytes,
                data_bytes: Some(self.base.data_bytes()),
            }],
            element_bytes: self.base.row_bytes(),
            align_bytes: 1,
            count: 0,
        }]
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

    fn space(&self) -> (Tile, Space) {
        (Tile::new(self.base), Space::new(self.centroids.count()))
    }

    fn space_bytes(&self) -> usize {
        (Tile::memory_bytes(self.base) + Space::memory_bytes(self.centroids.count())) as usize
    }

    fn produce(
        &self,
        (tile, space): &mut (Tile, Space),
        batch: Batch<'_>,
        out: &mut Emit<'_>,
    ) -> Result<Produced> {
        let item_bytes = self.item_bytes();
        if !out.reserve(batch.count * item_bytes)? {
            return Ok(Produced::Overflow);
        }
        let lead = self.to.lead();
        let piece = Piece {
            file: self.base,
            first: batch.first,
            bytes: batch.bytes(0),
        };
        let mut places = out.free()[..batch.count * item_bytes].chunks_exact_mut(item_bytes);
        tile.each(piece, |rows, wide| {
            let first = rows.first;
            let each = |_: usize, cluster: usize, _: f64, _: &[f64]| {
                if let Some(place) = places.next() {
                    let (before, place) = place.split_at_mut(lead.len());
                    before.copy_from_slice(&lead);
                    // At most 2^20 clusters.
                    match self.to.element {
                        Element::I64 => place.copy_from_slice(&(cluster as i64).to_le_bytes()),
                        _ => place.copy_from_slice(&(cluster as i32).to_le_bytes()),
                    }
                }
                Ok(())
            };
            let scale = scaled(self.base, first, self.is_spherical);
            self.centroids.nearest(&rows, space, each, (wide, scale))
        })?;
        out.filled(batch.count * item_bytes);
        Ok(Produced::All)
    }

    fn steps(&self) -> String {
        "read -> nearest centroid".to_string()
    }
}
