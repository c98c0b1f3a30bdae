//! An open graph, as kernels read it.
//!
//! Contract: opening reads and verifies the manifest and the indexes of the lists. The indexes stay
//! in the job's memory; their size is about a thousandth of that of the lists. Kernels read edges
//! on demand, through the engine's read-ahead: all edges ([`scan`]), the lists of some vertices
//! ([`lists`]), or the cheaper of both ([`frontier`]). Every chunk and block is verified when it is
//! read.

pub mod files;
pub(crate) mod frontier;
pub(crate) mod held;
pub mod lists;
pub mod names;
pub mod plan;
pub(crate) mod resident;
pub mod scan;
pub mod state;
pub(crate) mod weights;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use outcore::primitives::for_each_batch;
use outcore::{Error, Input, Job, Phase, Result, primitives};
use outcore_io::checksum::bytes_checksum;
use outcore_io::memory::Reservation;
use outcore_io::units;

use files::GraphFiles;

use crate::format::Part;
use crate::format::list::{LIST_BLOCK_BYTES, ListIndex};
use crate::format::manifest::{FORM, ListManifest, Manifest};

use crate::format::names::NAME_BLOCK_BYTES;
use crate::format::tile::CHUNK_BYTES;

/// A choice of a vertex's edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Edges that leave it; all edges if they are undirected.
    Out,
    /// Edges that come to it.
    In,
    /// All edges.
    Both,
}

/// A graph; see the module.
#[derive(Debug)]
pub struct Graph {
    files: GraphFiles,
    manifest: Manifest,
    out: ListIndex,
    sources: Option<ListIndex>,
    /// The reads of edges so far.
    phases: Mutex<Vec<Phase>>,
    _held: Reservation,
}

impl Graph {
    /// Opens the graph in `dir`.
    ///
    /// # Errors
    /// [`outcore::Kind::Corrupt`] for damaged files, [`outcore::Kind::Memory`] if the indexes do
    /// not fit; errors of reading.
    pub fn open(job: &Job, dir: &Path) -> Result<Self> {
        Graph::open_files(job, GraphFiles::in_dir(dir))
    }

    /// Opens the graph in these files.
    ///
    /// # Errors
    /// As [`Graph::open`].
    pub fn open_files(job: &Job, files: GraphFiles) -> Result<Self> {
        let manifest = files.manifest()?;
        check_lengths(&files, &manifest)?;
        let lists = std::iter::once(&manifest.out).chain(&manifest.sources);
        let blocks: u64 = lists.map(|lists| lists.blocks).sum();
        let held = job.budget.reserve("index of a graph", blocks * 4)?;
        let index = |part, lists: &ListManifest| {
            let name = format!("{}.index", name_of(part));
            let firsts = load_numbers(job, &files, &name, lists.blocks, lists.index_sum)?;
            Ok(ListIndex::new(firsts))
        };
        let out = index(Part::Out, &manifest.out)?;
        let sources = manifest.sources.as_ref();
        let sources = sources.map(|lists| index(Part::In, lists)).transpose()?;
        Ok(Graph {
            files,
            manifest,
            out,
            sources,
            phases: Mutex::default(),
            _held: held,
        })
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The number of vertices.
    pub fn vertices(&self) -> usize {
        self.manifest.vertices as usize
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        self.files.place()
    }

    /// The files that kernels read: first the manifest or, if the graph is packed, the file that
    /// contains all others.
    pub fn inputs(&self) -> Vec<Input> {
        let own = self.files.is_packed().then(|| Input::raw(self.dir()));
        let manifest = own.unwrap_or_else(|| self.files.input(GraphFiles::MANIFEST));
        let parts = [Part::Tiles, Part::Out, Part::In].into_iter();
        let parts = parts.filter(|part| *part != Part::In || self.sources.is_some());
        std::iter::once(manifest)
            .chain(parts.map(|part| self.part_input(part)))
            .collect()
    }

    /// Bytes of its tiles, which a pass over all edges reads.
    pub fn tile_bytes(&self) -> u64 {
        self.manifest.chunks * CHUNK_BYTES as u64
    }

    /// Bytes of its lists, in all directions.
    pub(crate) fn list_bytes(&self) -> u64 {
        let lists = std::iter::once(&self.manifest.out).chain(&self.manifest.sources);
        let blocks: u64 = lists.map(|lists| lists.blocks).sum();
        blocks * LIST_BLOCK_BYTES as u64
    }

    /// Returns the degree of each vertex. In undirected graphs, an edge from a vertex to itself
    /// counts once.
    ///
    /// # Errors
    /// As [`Graph::open`]; the caller has reserved four bytes per vertex.
    pub fn degrees(&self, job: &Job, direction: Direction) -> Result<Vec<u32>> {
        let load = |part: Part, lists: &ListManifest| {
            let name = format!("{}.degrees", name_of(part));
            load_numbers(
                job,
                &self.files,
                &name,
                self.manifest.vertices,
                lists.degrees_sum,
            )
        };
        let out = || load(Part::Out, &self.manifest.out);
        let sources = self.manifest.sources.as_ref();
        match (direction, sources) {
            (Direction::Out, _) | (_, None) => out(),
            (Direction::In, Some(lists)) => load(Part::In, lists),
            (Direction::Both, Some(lists)) => {
                let mut both = out()?;
                for (sum, more) in both.iter_mut().zip(load(Part::In, lists)?) {
                    *sum = sum.saturating_add(more);
                }
                Ok(both)
            }
        }
    }

    fn index(&self, part: Part) -> &ListIndex {
        match (part, &self.sources) {
            (Part::In, Some(sources)) => sources,
            _ => &self.out,
        }
    }

    /// The lists with the edges of `direction`.
    fn parts(&self, direction: Direction) -> &'static [Part] {
        match (direction, self.manifest.directed) {
            (Direction::Out, _) | (_, false) => &[Part::Out],
            (Direction::In, true) => &[Part::In],
            (Direction::Both, true) => &[Part::Out, Part::In],
        }
    }

    fn part_path(&self, part: Part) -> PathBuf {
        self.files.path(name_of(part))
    }

    fn part_input(&self, part: Part) -> Input {
        self.files.input(name_of(part))
    }
}

/// Fails for files of the wrong length.
fn check_lengths(files: &GraphFiles, manifest: &Manifest) -> Result<()> {
    let mut wanted = vec![("tiles".to_owned(), manifest.chunks, CHUNK_BYTES)];
    let lists = [
        (Part::Out, Some(&manifest.out)),
        (Part::In, manifest.sources.as_ref()),
    ];
    for (part, lists) in lists {
        let (name, Some(lists)) = (name_of(part), lists) else {
            continue;
        };
        wanted.push((name.to_owned(), lists.blocks, LIST_BLOCK_BYTES));
        wanted.push((format!("{name}.index"), lists.blocks, size_of::<u32>()));
        let degrees = format!("{name}.degrees");
        wanted.push((degrees, manifest.vertices, size_of::<u32>()));
    }
    if manifest.names_sum.is_some() {
        wanted.push(("names".to_owned(), manifest.vertices, size_of::<u64>()));
    }
    if let Some(names) = &manifest.text_names {
        wanted.push(("names".to_owned(), names.blocks, NAME_BLOCK_BYTES));
        wanted.push(("names.index".to_owned(), names.blocks, size_of::<u32>()));
    }
    for (name, count, item_bytes) in wanted {
        let found_bytes = files.len_bytes(&name)?;
        let wanted_bytes = count.saturating_mul(item_bytes as u64);
        if found_bytes != wanted_bytes {
            let cause = format!(
                "it has {}, not {wanted_bytes}",
                units::counted(found_bytes, "byte")
            );
            return Err(damaged(&files.path(&name), cause));
        }
    }
    Ok(())
}

fn name_of(part: Part) -> &'static str {
    match part {
        Part::Tiles => "tiles",
        Part::Out => "out",
        Part::In => "in",
    }
}

/// The error for a damaged file.
fn damaged(path: &Path, cause: impl Into<String>) -> Error {
    FORM.damage(cause).path(path)
}

/// Reads a file of this many numbers, with this checksum.
fn load_numbers(
    job: &Job,
    files: &GraphFiles,
    name: &str,
    count: u64,
    sum: u64,
) -> Result<Vec<u32>> {
    let numbers: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
    if count > 0 {
        let sequence = primitives::read::<u32>(&[files.input(name)]);
        let put = |_: &mut (), first: u64, batch: &[u32]| {
            let places = numbers.get(first as usize..).unwrap_or_default();
            for (place, number) in places.iter().zip(batch) {
                place.store(*number, Ordering::Relaxed);
            }
            Ok(())
        };
        for_each_batch(job, &sequence, 0, || (), put)?;
    }
    let numbers: Vec<u32> = numbers.into_iter().map(AtomicU32::into_inner).collect();
    match bytes_checksum(bytemuck::cast_slice(&numbers)) == sum {
        true => Ok(numbers),
        false => Err(damaged(
            &files.path(name),
            "it is damaged: it differs from what was written",
        )),
    }
}
