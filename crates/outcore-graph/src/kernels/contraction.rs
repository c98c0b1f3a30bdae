//! Connected components of graphs whose vertices do not fit into memory: removes vertices from the
//! graph a bundle at a time.
//!
//! Contract: the labels are those of [`components`](fn@super::components), on scratch.
//!
//! Source: after Sibeyn, "External Connected Components" (SWAT 2004), who removes vertices in
//! bundles, from the largest vertex down, so that the rest is a smaller graph with the same
//! components.
//!
//! A bundle is a range of vertices whose state fits into memory. Its edges are those whose larger
//! end is in it. Edges inside the bundle unite its vertices. An edge to a vertex below the bundle
//! becomes the *link* of its set. If the set already has a link, the new edge is replaced by an
//! edge between the link and the new edge's end below the bundle. That edge belongs to a bundle
//! further down. After all bundles are removed, they are labelled from the smallest vertex up. A
//! set without a link gets its smallest vertex as label. A set with a link gets the label of the
//! link: the set requested this label when its bundle was removed.
//!
//! Bounds: eight bytes per vertex of a bundle. I/O is one read of the tiles, eight bytes per edge
//! to scratch and back for each bundle to which the edge moves, and twice eight bytes per set. In
//! the worst case an edge moves to all bundles.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use outcore::{Context, Error, Input, Job, Kind, Result, ScratchDrive};
use outcore_io::drive::{Access, PrivateDir};
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::units;

use crate::format::NO_VERTEX;
use crate::graph::Graph;
use crate::graph::plan::{EdgeReads, KernelPlan};
use outcore::primitives::appended::{AppendedFile, Appender, append_to, write_files};

const KERNEL: &str = "connected components";
/// Memory per vertex of the current bundle.
const VERTEX_BYTES: u64 = 8;
/// The most bundles.
const BUNDLES_MAX: u64 = 512;
/// The length of a buffer of an output file.
const BUFFER_BYTES: usize = 16 << 10;
/// Memory per output file.
const FILE_BYTES: u64 = 4 * BUFFER_BYTES as u64;
/// Memory for reading and writing tiles, pairs and labels.
const READING_BYTES: u64 = 6 << 20;
/// The number of recently written edges that are remembered, so that they are not written again.
const RECENT: usize = 1 << 12;

/// Labels of vertices on scratch, four bytes each; the file is removed when this is dropped.
#[derive(Debug)]
pub struct LabelFile {
    pub(crate) path: PathBuf,
    pub(crate) vertices: u64,
    _dir: PrivateDir,
}

impl LabelFile {
    /// The input of a pass over the labels.
    pub fn input(&self) -> Input {
        Input::raw(&self.path)
    }

    /// Number of vertices.
    pub fn vertices(&self) -> u64 {
        self.vertices
    }
}

/// The number of vertices per bundle, so that its state and the files of all bundles fit into
/// memory.
fn bundle_vertices(job: &Job, vertices: u64) -> Result<u64> {
    let threads = job.options.threads.max(1) as u64;
    let free_bytes = job.budget.free_bytes();
    let rest_bytes = free_bytes.saturating_sub(READING_BYTES + threads * (1 << 20));
    // Each bundle has two open files at a time.
    let needed_bytes =
        |bundles: u64| vertices.div_ceil(bundles) * VERTEX_BYTES + 2 * bundles * FILE_BYTES;
    let fits = |bundles: &u64| needed_bytes(*bundles) <= rest_bytes;
    match (1..=BUNDLES_MAX).find(fits) {
        Some(bundles) => Ok(vertices.div_ceil(bundles).max(1)),
        None => {
            let least_bytes = (1..=BUNDLES_MAX).map(needed_bytes).min().unwrap_or(0);
            let least_bytes = least_bytes + READING_BYTES + threads * (1 << 20);
            let cause = format!(
                "{} need at least {} of memory for bundles, but only {} are left",
                units::counted(vertices, "vertex"),
                units::bytes(least_bytes),
                units::bytes(free_bytes)
            );
            let enough_bytes = least_bytes + job.budget.used_bytes();
            let enough = units::bytes(enough_bytes.next_multiple_of(1 << 20));
            Err(Error::new(Kind::Memory, KERNEL, cause)
                .hint(format!("allow at least {enough} with --memory")))
        }
    }
}

/// Finds the smallest vertex of each vertex's component, with one bundle in memory and everything
/// else in `scratch`. Bundles have the given number of vertices, or as many as fit.
///
/// # Errors
/// [`outcore::Kind::Memory`] if not even bundles fit; errors of reading and writing.
pub fn components_by_bundles(
    job: &Job,
    graph: &Graph,
    scratch: &Path,
    bundle: Option<u64>,
) -> Result<LabelFile> {
    let vertices = graph.vertices() as u64;
    let bundle = match bundle {
        Some(bundle) => bundle.max(1),
        None => bundle_vertices(job, vertices)?,
    };
    job.device.sweep_private_dirs(scratch)?;
    let dir = job.device.make_private_dir(scratch)?;
    let root = std::path::absolute(dir.path()).unwrap_or_default();
    let bundles = vertices.div_ceil(bundle) as usize;
    // Files are created while others are written, so the drive must be known before.
    let drive = ScratchDrive::new(&root);
    let volume = Volume::new(Arc::clone(&job.device), &[drive])?;
    let work = Work {
        job,
        volume: Arc::new(volume),
        root,
        vertices,
        bundle,
        next_file: Mutex::new(0),
    };
    let mut files = BundleFiles {
        edges: vec![Vec::new(); bundles],
        asks: vec![Vec::new(); bundles],
        answers: vec![Vec::new(); bundles],
        roots: Vec::new(),
    };
    let state_bytes = bundle * VERTEX_BYTES;
    let _state = job.budget.reserve("vertices of a bundle", state_bytes)?;
    let files_bytes = 2 * bundles as u64 * FILE_BYTES;
    let reads = EdgeReads::Bundles(bundles as u64);
    KernelPlan::new(job, graph, KERNEL, state_bytes, files_bytes, reads).show();
    job.control.begin_phase("distribute", graph.tile_bytes());
    work.distribute(graph, &mut files)?;
    job.control.begin_phase("contract", vertices);
    for number in (0..bundles).rev() {
        let roots = work.contract(number, &mut files)?;
        files.roots.push(roots);
    }
    files.roots.reverse();
    job.control.begin_phase("label", vertices);
    let path = work.new_path();
    append_to(job, &path, |labels| {
        (0..bundles).try_for_each(|number| work.label(number, &mut files, labels))
    })?;
    Ok(LabelFile {
        path,
        vertices,
        _dir: dir,
    })
}

/// A pair of vertices that goes to the bundle of one of them.
type Pair = [u32; 2];

/// The scratch files of each bundle.
struct BundleFiles {
    /// Edges whose larger end is in the bundle, as (larger, smaller).
    edges: Vec<Vec<PathBuf>>,
    /// Its vertices that are links, each with the root whose link it is.
    asks: Vec<Vec<PathBuf>>,
    /// Its roots with links, and the labels of these links.
    answers: Vec<Vec<PathBuf>>,
    /// The root of each vertex.
    roots: Vec<PathBuf>,
}

struct Work<'a> {
    job: &'a Job,
    volume: Arc<Volume>,
    root: PathBuf,
    vertices: u64,
    bundle: u64,
    next_file: Mutex<u64>,
}

/// Output files for pairs, one per bundle, created at the first pair.
struct PairFiles<'w> {
    work: &'w Work<'w>,
    appender: &'w Appender,
    open: Vec<Option<(VolumeFile, AppendedFile)>>,
}

/// A file that is complete.
struct Ended {
    bundle: usize,
    file: VolumeFile,
    len_bytes: u64,
}

impl PairFiles<'_> {
    fn push(&mut self, bundle: usize, pairs: &[Pair]) -> Result<()> {
        if bundle >= self.open.len() {
            self.open.resize_with(bundle + 1, || None);
        }
        let (file, mut appended) = match self.open[bundle].take() {
            Some(open) => open,
            None => {
                let path = self.work.new_path();
                let file = self.work.volume.open(&path, Access::Create)?;
                let appended = self
                    .appender
                    .file(self.work.job, &file, BUFFER_BYTES, false)?;
                (file, appended)
            }
        };
        appended.append(bytemuck::cast_slice(pairs))?;
        self.open[bundle] = Some((file, appended));
        Ok(())
    }

    fn finish(self) -> Result<Vec<Ended>> {
        let mut ended = Vec::new();
        for (bundle, open) in self.open.into_iter().enumerate() {
            if let Some((file, appended)) = open {
                let len_bytes = appended.finish()?.len_bytes;
                ended.push(Ended {
                    bundle,
                    file,
                    len_bytes,
                });
            }
        }
        Ok(ended)
    }
}

/// The sets of a bundle's vertices.
struct Sets {
    start: u32,
    parents: Vec<u32>,
    /// The link of each root.
    links: Vec<u32>,
}

impl Sets {
    fn find(&mut self, mut at: usize) -> usize {
        loop {
            let parent = self.parents[at] as usize;
            let above = self.parents[parent];
            if parent == above as usize {
                return parent;
            }
            self.parents[at] = above;
            at = above as usize;
        }
    }

    /// Processes an edge of the bundle; returns the remaining edge between vertices below the
    /// bundle, if there is one.
    fn take(&mut self, [high, low]: Pair) -> Option<Pair> {
        let a = self.find((high - self.start) as usize);
        if low < self.start {
            return self.link(a, low);
        }
        let b = self.find((low - self.start) as usize);
        if a == b {
            return None;
        }
        let (root, other) = (a.min(b), a.max(b));
        self.parents[other] = root as u32;
        match self.links[other] {
            NO_VERTEX => None,
            link => self.link(root, link),
        }
    }

    /// Links a root to a vertex below the bundle; returns the remaining edge, as [`Sets::take`]
    /// does.
    fn link(&mut self, root: usize, low: u32) -> Option<Pair> {
        let link = self.links[root];
        self.links[root] = link.min(low);
        match link {
            NO_VERTEX => None,
            link if link == low => None,
            link => Some([link.max(low), link.min(low)]),
        }
    }
}

impl Work<'_> {
    fn new_path(&self) -> PathBuf {
        let mut next = self
            .next_file
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        self.root.join(format!("part-{}", *next))
    }

    fn bundle_of(&self, vertex: u32) -> usize {
        (u64::from(vertex) / self.bundle) as usize
    }

    /// The first vertex of a bundle, and its number of vertices.
    fn bounds(&self, number: usize) -> (u32, usize) {
        let start = number as u64 * self.bundle;
        let count = self.bundle.min(self.vertices - start);
        (start as u32, count as usize)
    }

    /// Runs `work`, which writes pairs to files, and adds the files to `lists`.
    fn write_pairs(
        &self,
        lists: &mut [Vec<PathBuf>],
        work: impl FnOnce(&Mutex<PairFiles<'_>>) -> Result<()>,
    ) -> Result<()> {
        let ended = write_files(self.job, &self.volume, |appender| {
            let files = Mutex::new(PairFiles {
                work: self,
                appender: &appender,
                open: Vec::new(),
            });
            work(&files)?;
            files
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner)
                .finish()
        })?;
        for Ended {
            bundle,
            file,
            len_bytes,
        } in ended
        {
            self.volume.device().set_len(file.id, len_bytes)?;
            self.volume.close(&file);
            lists[bundle].push(file.path.to_path_buf());
        }
        Ok(())
    }

    /// Passes on all pairs in files, and removes the files.
    fn read_pairs(
        &self,
        paths: Vec<PathBuf>,
        mut take: impl FnMut(Pair) -> Result<()>,
    ) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let inputs: Vec<Input> = paths.iter().map(Input::raw).collect();
        let pairs = Context::of_job(self.job).read_inputs::<Pair>(&inputs);
        pairs.for_each_in_order(|pairs| pairs.iter().try_for_each(|pair| take(*pair)))?;
        paths
            .iter()
            .try_for_each(|path| self.job.device.remove(path))
    }

    /// Writes each edge to the bundle of its larger end.
    fn distribute(&self, graph: &Graph, files: &mut BundleFiles) -> Result<()> {
        let bundles = files.edges.len();
        self.write_pairs(&mut files.edges, |out| {
            graph.scan(self.job, |segment| {
                let mut of: Vec<Vec<Pair>> = vec![Vec::new(); bundles];
                for (target, source) in segment.edges() {
                    let (high, low) = (target.max(source) as u32, target.min(source) as u32);
                    if high != low {
                        of[self.bundle_of(high)].push([high, low]);
                    }
                }
                let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
                let some = of.iter().enumerate().filter(|(_, pairs)| !pairs.is_empty());
                some.into_iter()
                    .try_for_each(|(bundle, pairs)| out.push(bundle, pairs))
            })
        })
    }

    /// Removes a bundle; returns the file with the root of each of its vertices.
    fn contract(&self, number: usize, files: &mut BundleFiles) -> Result<PathBuf> {
        let (start, count) = self.bounds(number);
        let mut sets = Sets {
            start,
            parents: (0..count as u32).collect(),
            links: vec![NO_VERTEX; count],
        };
        let paths = std::mem::take(&mut files.edges[number]);
        self.write_pairs(&mut files.edges, |out| {
            let mut recent = vec![[0; 2]; RECENT];
            self.read_pairs(paths, |pair| {
                let Some([high, low]) = sets.take(pair) else {
                    return Ok(());
                };
                let slot = (high.wrapping_mul(0x9E37_79B1) ^ low) as usize % RECENT;
                if recent[slot] == [high, low] {
                    return Ok(());
                }
                recent[slot] = [high, low];
                let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
                out.push(self.bundle_of(high), &[[high, low]])
            })
        })?;
        // A parent is not larger than its children, so its root is final before theirs.
        for at in 0..count {
            sets.parents[at] = sets.parents[sets.parents[at] as usize];
        }
        let path = self.new_path();
        append_to(self.job, &path, |roots| {
            roots.append(bytemuck::cast_slice(&sets.parents))
        })?;
        self.write_pairs(&mut files.asks, |out| {
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            let linked = sets.links.iter().zip(&sets.parents).enumerate();
            let linked = linked
                .filter(|(at, (link, parent))| **link != NO_VERTEX && **parent as usize == *at);
            for (at, (link, _)) in linked {
                out.push(self.bundle_of(*link), &[[*link, start + at as u32]])?;
            }
            Ok(())
        })?;
        self.job.control.check()?;
        self.job.control.advance(count as u64);
        Ok(path)
    }

    /// Labels a bundle: appends its labels, and answers the requests for them.
    fn label(
        &self,
        number: usize,
        files: &mut BundleFiles,
        labels_file: &mut AppendedFile,
    ) -> Result<()> {
        let (start, count) = self.bounds(number);
        let mut labels = vec![NO_VERTEX; count];
        let answers = std::mem::take(&mut files.answers[number]);
        self.read_pairs(answers, |[root, label]| {
            labels[(root - start) as usize] = label;
            Ok(())
        })?;
        let path = &files.roots[number];
        let mut roots: Vec<u32> = Vec::with_capacity(count);
        let stored = Context::of_job(self.job).read_inputs::<u32>(&[Input::raw(path)]);
        stored.for_each_in_order(|some| {
            roots.extend_from_slice(some);
            Ok(())
        })?;
        self.job.device.remove(path)?;
        for (at, root) in roots.iter().enumerate() {
            labels[at] = match (*root as usize == at, labels[at]) {
                (true, NO_VERTEX) => start + at as u32,
                (true, label) => label,
                // A root comes before the other vertices of its set.
                (false, _) => labels[*root as usize],
            };
        }
        drop(roots);
        labels_file.append(bytemuck::cast_slice(&labels))?;
        let asks = std::mem::take(&mut files.asks[number]);
        self.write_pairs(&mut files.answers, |out| {
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            self.read_pairs(asks, |[link, root]| {
                let label = labels[(link - start) as usize];
                out.push(self.bundle_of(root), &[[root, label]])
            })
        })?;
        self.job.control.check()?;
        self.job.control.advance(count as u64);
        Ok(())
    }
}
