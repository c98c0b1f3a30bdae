//! Packs sorted keys into tiles and lists.
//!
//! Contract: [`KeyWriter`] is the pipe that the sort writes to. It takes keys in order, from one
//! thread at a time. [`Packing`] puts each edge into the list of its key. Tiles are made from the
//! lists of sources or, for undirected edges, from the list of the larger end. With `dedup`, the
//! first of the keys that differ only in the weight is kept. Failures are stored here, because a
//! pipe can only report that it is broken.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use outcore::primitives::appended::{Appended, AppendedFile, Appender};
use outcore::{Error, Job, Result};
use outcore_io::port::VolumeFile;

use super::key::{EdgeKey, KeyShape, Placed};
use crate::format::Part;
use crate::format::list::{LIST_BLOCK_BYTES, ListFiles, ListPacker};
use crate::format::manifest::{ListManifest, Manifest};
use crate::format::row::TileRow;
use crate::format::tile::edge_words;
use crate::format::weight::WeightType;

/// A file of a graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct GraphFile {
    pub(super) name: &'static str,
    part: Part,
    kind: FileKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Edges,
    Index,
    Degrees,
}

const fn file(name: &'static str, part: Part, kind: FileKind) -> GraphFile {
    GraphFile { name, part, kind }
}

impl FileKind {
    /// Bytes of a buffer, for a job with this much memory.
    fn buffer_bytes(self, memory_bytes: u64) -> usize {
        match self {
            // Enough for packing to continue while the writer waits for a processor.
            FileKind::Edges if memory_bytes >= 256 << 20 => 1 << 20,
            FileKind::Edges => 256 << 10,
            FileKind::Index => 16 << 10,
            FileKind::Degrees => 64 << 10,
        }
    }
}

/// The files of a graph, in the order of [`Packing`].
pub(super) const FILES: [GraphFile; 7] = [
    file("tiles", Part::Tiles, FileKind::Edges),
    file("out", Part::Out, FileKind::Edges),
    file("out.index", Part::Out, FileKind::Index),
    file("out.degrees", Part::Out, FileKind::Degrees),
    file("in", Part::In, FileKind::Edges),
    file("in.index", Part::In, FileKind::Index),
    file("in.degrees", Part::In, FileKind::Degrees),
];

/// The kind of the graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct GraphKind {
    pub(super) weights: Option<WeightType>,
    pub(super) is_directed: bool,
    pub(super) dedup: bool,
}

/// A graph's id in its checksums, and its number of vertices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) id: u64,
    pub(super) vertices: u64,
}

/// Returns the size of the graph once all keys have been made.
pub(super) type SizesOf = Box<dyn FnMut() -> Result<Sizes> + Send>;

/// The numbers of vertices and edges of a graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct GraphSize {
    pub(super) vertices: u64,
    pub(super) edges: u64,
}

impl GraphKind {
    /// Whether it has this file.
    pub(super) fn has(self, file: &GraphFile) -> bool {
        file.part != Part::In || self.is_directed
    }

    /// The approximate length of the file for a graph of this size.
    pub(super) fn about_bytes(self, file: &GraphFile, size: GraphSize) -> u64 {
        let directions = match (file.part, self.is_directed) {
            (Part::Out, false) => 2,
            _ => 1,
        };
        let edges_bytes = directions * size.edges * 4 * edge_words(self.weights) as u64;
        match file.kind {
            FileKind::Edges => edges_bytes + edges_bytes / 16,
            FileKind::Index => edges_bytes / 1000,
            FileKind::Degrees => size.vertices * 4,
        }
    }
}

/// Lists that are being written to their files.
struct Lists {
    packer: ListPacker,
    files: ListsOut,
}

struct ListsOut {
    blocks: AppendedFile,
    index: AppendedFile,
    degrees: AppendedFile,
    degree_max: u32,
}

impl ListFiles for ListsOut {
    fn block(&mut self, block: &[u8]) -> Result<()> {
        debug_assert_eq!(block.len(), LIST_BLOCK_BYTES);
        self.blocks.append(block)
    }

    fn first(&mut self, vertex: u32) -> Result<()> {
        self.index.append(&vertex.to_le_bytes())
    }

    fn degree(&mut self, degree: u32) -> Result<()> {
        self.degree_max = self.degree_max.max(degree);
        self.degrees.append(&degree.to_le_bytes())
    }
}

impl Lists {
    fn finish(mut self, vertices: u32, lens_bytes: &mut Vec<u64>) -> Result<ListManifest> {
        let blocks = self.packer.finish(vertices, &mut self.files)?;
        let [edges, index, degrees]: [Appended; 3] = [
            self.files.blocks.finish()?,
            self.files.index.finish()?,
            self.files.degrees.finish()?,
        ];
        lens_bytes.extend([edges, index, degrees].map(|file| file.len_bytes));
        Ok(ListManifest {
            blocks,
            degree_max: self.files.degree_max,
            index_sum: index.sum,
            degrees_sum: degrees.sum,
        })
    }
}

/// The packers of a graph's files.
pub(super) struct Packing<K> {
    shape: KeyShape,
    kind: GraphKind,
    sizes_of: SizesOf,
    /// The output files, until the first key comes.
    files: Vec<AppendedFile>,
    sizes: Option<Sizes>,
    /// If parallel edges are merged: the last edge, and the kept edges of a list.
    last: Option<K>,
    kept: Vec<K>,
    tiles: Option<(TileRow, AppendedFile)>,
    out: Option<Lists>,
    sources: Option<Lists>,
    edges: u64,
    loops: u64,
    failure: Option<Error>,
}

/// The result of packing.
pub(super) struct Packed {
    pub(super) manifest: Manifest,
    /// Length of each file.
    pub(super) lens_bytes: Vec<u64>,
}

impl<K: EdgeKey> Packing<K> {
    /// Writes to the staged `files`, in the order of [`FILES`].
    pub(super) fn new<'f>(
        job: &Job,
        appender: &Appender,
        shape: KeyShape,
        kind: GraphKind,
        sizes_of: SizesOf,
        files: impl Iterator<Item = &'f VolumeFile>,
    ) -> Result<Self> {
        let kinds = FILES.iter().filter(|file| kind.has(file));
        let memory_bytes = job.budget.limit_bytes();
        let files = kinds.zip(files).map(|(GraphFile { kind, .. }, file)| {
            let is_hashed = *kind != FileKind::Edges;
            appender.file(job, file, kind.buffer_bytes(memory_bytes), is_hashed)
        });
        Ok(Packing {
            shape,
            kind,
            sizes_of,
            files: files.collect::<Result<_>>()?,
            sizes: None,
            last: None,
            kept: Vec::new(),
            tiles: None,
            out: None,
            sources: None,
            edges: 0,
            loops: 0,
            failure: None,
        })
    }

    /// Creates the packers at the first call. By then all keys have been made, because the first
    /// one has come out of the sort.
    fn begin(&mut self) -> Result<Sizes> {
        if let Some(sizes) = self.sizes {
            return Ok(sizes);
        }
        let sizes = (self.sizes_of)()?;
        self.sizes = Some(sizes);
        let Sizes { id, vertices } = sizes;
        let weights = self.kind.weights;
        let mut files = std::mem::take(&mut self.files).into_iter();
        let tiles = files.next();
        self.tiles = tiles.map(|file| (TileRow::new(id, vertices, weights), file));
        let mut lists = |part| {
            let (blocks, index, degrees) = (files.next()?, files.next()?, files.next()?);
            Some(Lists {
                packer: ListPacker::new(id, part, weights),
                files: ListsOut {
                    blocks,
                    index,
                    degrees,
                    degree_max: 0,
                },
            })
        };
        self.out = lists(Part::Out);
        self.sources = lists(Part::In);
        Ok(sizes)
    }

    /// Takes keys in ascending order, in their form in memory.
    fn take_all(&mut self, keys: &[u8]) -> Result<()> {
        self.begin()?;
        match bytemuck::try_cast_slice(keys) {
            Ok(keys) => self.take_keys(keys),
            Err(_) => {
                let mut keys = keys.chunks_exact(size_of::<K>());
                keys.try_for_each(|key| self.take_keys(&[bytemuck::pod_read_unaligned(key)]))
            }
        }
    }

    fn take_keys(&mut self, keys: &[K]) -> Result<()> {
        let shape = self.shape;
        let mut lists = keys.chunk_by(|a, b| a.list(shape) == b.list(shape));
        if !self.kind.dedup {
            return lists.try_for_each(|list| self.take_list(list));
        }
        let mut kept = std::mem::take(&mut self.kept);
        for list in lists {
            kept.clear();
            for key in list {
                let edge = key.without_weight(shape);
                if self.last.replace(edge) != Some(edge) {
                    kept.push(*key);
                }
            }
            self.take_list(&kept)?;
        }
        self.kept = kept;
        Ok(())
    }

    /// Takes keys of one list.
    fn take_list(&mut self, keys: &[K]) -> Result<()> {
        let Some(first) = keys.first() else {
            return Ok(());
        };
        let shape = self.shape;
        let neighbour = |key: &K| key.neighbour(shape);
        let Placed { is_in, vertex, .. } = first.placed(shape);
        // Neighbours ascend.
        let tiled = match (self.kind.is_directed, is_in) {
            (true, true) => keys,
            (true, false) => &[],
            (false, _) => &keys[..keys.partition_point(|key| neighbour(key).0 <= vertex)],
        };
        if let Some((row, file)) = &mut self.tiles {
            self.edges += tiled.len() as u64;
            let after = tiled.partition_point(|key| neighbour(key).0 <= vertex);
            let before = tiled.partition_point(|key| neighbour(key).0 < vertex);
            self.loops += (after - before) as u64;
            row.extend(vertex, tiled, neighbour, &mut |chunk| file.append(chunk))?;
        }
        let lists = match is_in {
            true => &mut self.sources,
            false => &mut self.out,
        };
        match lists {
            Some(lists) => lists
                .packer
                .extend(vertex, keys, neighbour, &mut lists.files),
            None => Ok(()),
        }
    }

    /// Returns the stored failure, if there is one.
    pub(super) fn take_failure(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Ends all files.
    pub(super) fn finish(&mut self) -> Result<Packed> {
        let Sizes { id, vertices } = self.begin()?;
        let mut lens_bytes = Vec::new();
        let mut chunks = 0;
        if let Some((mut row, mut file)) = self.tiles.take() {
            chunks = row.finish(&mut |chunk| file.append(chunk))?;
            lens_bytes.push(file.finish()?.len_bytes);
        }
        let mut lists = |lists: &mut Option<Lists>| {
            let lists = lists.take();
            lists
                .map(|lists| lists.finish(vertices as u32, &mut lens_bytes))
                .transpose()
        };
        let out = lists(&mut self.out)?;
        let sources = lists(&mut self.sources)?;
        let out = out.ok_or_else(|| Error::usage("convert edges", "the lists were ended twice"))?;
        Ok(Packed {
            manifest: Manifest {
                id,
                vertices,
                edges: self.edges,
                loops: self.loops,
                directed: self.kind.is_directed,
                weighted: self.kind.weights.is_some(),
                // Four-byte floats are the manifest's default, so their type is left out.
                weight_type: self.kind.weights.filter(|of| *of != WeightType::F32),
                dedup: self.kind.dedup,
                relabelled: false,
                chunks,
                out,
                sources,
                names_sum: None,
                text_names: None,
            },
            lens_bytes,
        })
    }
}

/// The pipe that receives sorted keys.
pub(super) struct KeyWriter<K> {
    packing: Arc<Mutex<Packing<K>>>,
    /// The first bytes of a key that was split.
    rest: Vec<u8>,
}

impl<K: EdgeKey> KeyWriter<K> {
    pub(super) fn new(packing: &Arc<Mutex<Packing<K>>>) -> Self {
        KeyWriter {
            packing: Arc::clone(packing),
            rest: Vec::new(),
        }
    }
}

impl<K: EdgeKey> Write for KeyWriter<K> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut packing = self.packing.lock().unwrap_or_else(PoisonError::into_inner);
        let key_bytes = size_of::<K>();
        let mut taken = Ok(());
        let mut front = 0;
        if !self.rest.is_empty() {
            front = (key_bytes - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..front]);
            if self.rest.len() == key_bytes {
                taken = packing.take_all(&self.rest);
                self.rest.clear();
            }
        }
        let whole = front + (bytes.len() - front) / key_bytes * key_bytes;
        let taken = taken.and_then(|()| packing.take_all(&bytes[front..whole]));
        self.rest.extend_from_slice(&bytes[whole..]);
        match taken {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                packing.failure = Some(error);
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
