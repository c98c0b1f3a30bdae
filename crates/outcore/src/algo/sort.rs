//! External samplesort: input files in, one sorted output, whole or not at all.
//!
//! Model: PALID (Li, Khan, Dhulipala, SPAA 2025), section 4: sample, splitters, one distribution
//! pass with per-thread bucket buffers, then each bucket is read, sorted in memory and written at
//! its final offset while the next ones load. Oversized buckets are distributed again; buckets of
//! equal elements are not sorted.
//!
//! Contract: the output is the input's elements ordered by key, then by their bytes (or by their
//! place in the input if stable). Its bytes depend on the input and the options alone. Inputs are
//! only read, unless the caller asked for them to be freed. On any failure nothing is left behind.
//!
//! Bounds: memory as planned ([`super::plan`]); I/O 2 reads and 2 writes of the data, less what
//! stays in memory, plus the sample; one more of each for every further level.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::bucket::{Bucket, Home, Segment, verify_segment};
use super::classify::Classifier;
use super::distribute::{Cut, Shared, Source, distribute};
use super::elements::{Bare, Elements, Records};
use super::in_memory::SortKeys;
use super::leaf::{self, Leaf, Leaves, Sink, Turns};
use super::plan::{SPLIT_SLOTS, SortPlan, SortSize, plan_sort};
use crate::data::bare::{BareClass, BareOrder};
use crate::data::order::{Order, OrderOptions, TieBreak};
use crate::data::record::RecordFormat;
use crate::drive::{Access, Op};
use crate::error::{Error, Kind, Result};
use crate::job::Job;
use crate::memory::{BLOCK_BYTES, Pool};
use crate::stream::sample::{random, sample};
use crate::stream::source::{Blocks, InputPart};
use crate::stream::writer::Writer;
use crate::units;
use crate::volume::Volume;
use crate::volume::output::{Output, ShardPlan, parent_of};
use crate::volume::scratch::Scratch;

/// Segments that are looked at to split a bucket again.
const SPLIT_SAMPLE_SEGMENTS: usize = 64;
/// Elements taken from each.
const SPLIT_SAMPLE_ELEMENTS: usize = 512;
/// Fewest buckets of a split: see [`Classifier::from_sample`].
const SPLIT_BUCKETS_MIN: usize = 8;

/// Options of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SortOptions {
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys keep their order in the input.
    pub stable: bool,
    /// One element a key: the first of them in the order.
    pub unique: bool,
    /// Replace an output that exists.
    pub replace: bool,
    /// Give blocks of the input back to the file system once they have been read. Data that are
    /// then only in memory or on scratch are lost if the job fails.
    pub delete_input: bool,
}

/// A file to be sorted.
#[derive(Debug, Clone)]
pub struct SortInput {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes in front of the data.
    pub header_bytes: u64,
    /// Bytes of data; the rest of the file if not given.
    pub data_bytes: Option<u64>,
}

impl SortInput {
    /// A file that is all data.
    pub fn raw(path: impl Into<PathBuf>) -> Self {
        SortInput {
            path: path.into(),
            header_bytes: 0,
            data_bytes: None,
        }
    }
}

/// Makes the bytes in front of the data of an output of so many elements; always as many bytes
/// as for the largest number it was ever asked for.
pub type MakeHeader = Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>;

/// Where the result goes.
pub enum SortOutput {
    /// One file, with a header if there is a maker of one.
    File {
        /// Its name.
        path: PathBuf,
        /// For formats that have one.
        header: Option<MakeHeader>,
    },
    /// Several files of nearly equal length, in order, that appear together.
    Shards {
        /// Their names.
        paths: Vec<PathBuf>,
        /// The name of the list of them.
        manifest: PathBuf,
    },
    /// A pipe.
    Pipe(Mutex<Box<dyn Write + Send>>),
}

/// One phase of a job that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: &'static str,
    /// How long it took.
    pub seconds: f64,
}

/// What a sort did.
#[derive(Debug, Clone)]
pub struct SortSummary {
    /// Elements in the output.
    pub records: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// Times that the data were read and written.
    pub passes: u32,
    /// Most scratch in use at once.
    pub scratch_bytes: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<(String, u64, u64)>,
    /// The plan it followed.
    pub plan: Option<SortPlan>,
}

/// Sorts `inputs`, in the given order, into `output`.
///
/// # Errors
/// [`Kind::Usage`] for requests that make no sense, [`Kind::Memory`] if the plan does not fit,
/// [`Kind::NoSpace`], [`Kind::Io`], [`Kind::Corrupt`] (scratch that rotted, input that changed),
/// [`Kind::Interrupted`].
pub fn sort(
    job: &Job,
    inputs: &[SortInput],
    output: SortOutput,
    format: &RecordFormat,
    options: SortOptions,
) -> Result<SortSummary> {
    let bare = BareOrder::of(format, options.descending);
    match bare {
        Some(order) => match order.class() {
            BareClass::U32 => run(job, inputs, output, options, &Bare::<u32>::new(order)),
            BareClass::U64 => run(job, inputs, output, options, &Bare::<u64>::new(order)),
            BareClass::U128 => run(job, inputs, output, options, &Bare::<u128>::new(order)),
        },
        None => {
            let tie = if options.stable {
                TieBreak::Position
            } else {
                TieBreak::Bytes
            };
            let order = Order::new(
                format,
                OrderOptions {
                    descending: options.descending,
                    tie,
                },
            );
            run(job, inputs, output, options, &Records::new(order))
        }
    }
}

/// The plan that [`sort`] would follow for data of `data_bytes` on `drive_count` drives.
pub fn plan(
    job: &Job,
    data_bytes: u64,
    format: &RecordFormat,
    options: SortOptions,
    drive_count: usize,
) -> Result<SortPlan> {
    let is_bare = format.bare().is_some();
    plan_sort(SortSize {
        data_bytes,
        element_bytes: format.record_bytes(),
        is_bare,
        is_ordered: options.stable && !is_bare,
        memory_bytes: job.options.memory_bytes,
        threads: job.options.threads,
        drive_count: drive_count.max(1),
    })
}

/// The phases of a run, timed one after another.
struct Phases {
    started: Instant,
    current: Instant,
    ended: Vec<Phase>,
}

impl Phases {
    fn start() -> Self {
        let now = Instant::now();
        Phases {
            started: now,
            current: now,
            ended: Vec::new(),
        }
    }

    fn end(&mut self, name: &'static str) {
        let now = Instant::now();
        self.ended.push(Phase {
            name,
            seconds: (now - self.current).as_secs_f64(),
        });
        self.current = now;
    }
}

fn run<E>(
    job: &Job,
    inputs: &[SortInput],
    output: SortOutput,
    options: SortOptions,
    elements: &E,
) -> Result<SortSummary>
where
    E: Elements,
    E::Key: SortKeys + Into<u128>,
{
    let mut phases = Phases::start();
    let drives = scratch_drives(job, &output);
    let volume = Volume::new(Arc::clone(&job.device), &drives)?;
    let element_bytes = elements.element_bytes();
    let parts = open_inputs(&volume, inputs, element_bytes, options)?;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    let staged = stage_output(&volume, &output, options, data_bytes, element_bytes)?;
    let plan = plan_sort(SortSize {
        data_bytes,
        element_bytes,
        is_bare: elements.is_bare(),
        is_ordered: options.stable && !elements.is_bare(),
        memory_bytes: job.options.memory_bytes,
        threads: job.options.threads,
        drive_count: volume.drives().len(),
    })?;
    // A bucket that is too large goes to scratch even where all should have fitted.
    let scratch = match plan.levels > 0 || data_bytes > plan.leaf_bytes_max as u64 {
        true => Some(make_scratch(job, &volume, &drives, &plan)?),
        false => None,
    };
    phases.end("prepare");
    let (slot_bytes, slots) = (plan.segment_bytes, plan.segment_slots());
    let shared = Shared {
        job,
        volume: &volume,
        scratch: scratch.as_ref(),
        elements,
        plan: &plan,
        segment_pool: Pool::new(&job.budget, "buckets in memory", slot_bytes, slots)?,
        resident_credit: AtomicI64::new(plan.resident_segments as i64),
        run: random(job.options.seed, data_bytes),
        abort: AtomicBool::new(false),
        delete_input: options.delete_input,
    };
    let classifier = sample_input(&shared, &parts)?;
    phases.end("sample");
    let buckets = distribute_input(&shared, &parts, Cut::Keys(classifier))?;
    let buckets = split_oversized(&shared, buckets)?;
    phases.end("distribute");
    let written = sort_buckets(&shared, buckets, staged.as_ref(), &output, options)?;
    phases.end("sort");
    if let Some(staged) = staged {
        job.control.begin_phase("publish", 0);
        staged.publish(&volume, written * element_bytes as u64)?;
    }
    drop(shared);
    let scratch_bytes = scratch.as_ref().map_or(0, Scratch::peak_bytes);
    drop(scratch);
    phases.end("publish");
    Ok(summarise(&volume, phases, written, scratch_bytes, plan))
}

fn summarise(
    volume: &Volume,
    phases: Phases,
    records: u64,
    scratch_bytes: u64,
    plan: SortPlan,
) -> SortSummary {
    let (read_bytes, written_bytes) = volume.traffic_bytes();
    let drives = volume.drives().into_iter().map(|drive| {
        let traffic = drive.traffic();
        let read_bytes = traffic.read_bytes.load(Ordering::Relaxed);
        (
            drive.name.clone(),
            read_bytes,
            traffic.written_bytes.load(Ordering::Relaxed),
        )
    });
    SortSummary {
        records,
        seconds: phases.started.elapsed().as_secs_f64(),
        read_bytes,
        written_bytes,
        passes: plan.levels + 1,
        scratch_bytes,
        drives: drives.collect(),
        phases: phases.ended,
        plan: Some(plan),
    }
}

/// The drives named for scratch, or the directory of the output (of the process, for a pipe).
fn scratch_drives(job: &Job, output: &SortOutput) -> Vec<(String, PathBuf, f64)> {
    if !job.options.drives.is_empty() {
        let named = job.options.drives.iter();
        return named
            .map(|drive| (drive.name.clone(), drive.dir.clone(), drive.weight))
            .collect();
    }
    let dir = match output {
        SortOutput::File { path, .. } => parent_of(path),
        SortOutput::Shards { paths, .. } => paths.first().map_or(Path::new("."), |p| parent_of(p)),
        SortOutput::Pipe(_) => Path::new("."),
    };
    vec![(dir.display().to_string(), dir.to_path_buf(), 1.0)]
}

fn open_inputs(
    volume: &Volume,
    inputs: &[SortInput],
    element_bytes: usize,
    options: SortOptions,
) -> Result<Vec<InputPart>> {
    let access = if options.delete_input {
        Access::Update
    } else {
        Access::Read
    };
    let mut parts = Vec::with_capacity(inputs.len());
    let mut first_position = 0;
    for input in inputs {
        let file = volume.open(&input.path, access)?;
        let behind = file.facts.len_bytes.checked_sub(input.header_bytes);
        let data_len_bytes = match (behind, input.data_bytes) {
            (Some(behind), Some(data)) if data <= behind => data,
            (Some(behind), None) => behind,
            _ => {
                let cause = format!("the file ends after {} bytes", file.facts.len_bytes);
                return Err(Error::corrupt("read input", cause)
                    .path(&input.path)
                    .hint("its header promises more data: copy it again"));
            }
        };
        let left_over = data_len_bytes % element_bytes as u64;
        if left_over != 0 {
            let cause = format!(
                "{data_len_bytes} bytes are no multiple of the record's {element_bytes}: \
                 {left_over} are left over"
            );
            return Err(Error::usage("read input", cause)
                .path(&input.path)
                .hint("check --type or --record, or whether the file is complete"));
        }
        let part = InputPart {
            file,
            data_at_bytes: input.header_bytes,
            data_len_bytes,
            first_position,
        };
        first_position += data_len_bytes / element_bytes as u64;
        parts.push(part);
    }
    Ok(parts)
}

fn stage_output(
    volume: &Volume,
    output: &SortOutput,
    options: SortOptions,
    data_bytes: u64,
    element_bytes: usize,
) -> Result<Option<Output>> {
    let count = data_bytes / element_bytes as u64;
    let (plans, manifest) = match output {
        SortOutput::Pipe(_) => return Ok(None),
        SortOutput::File { path, header } => {
            let header = header.as_ref().map_or_else(Vec::new, |make| make(count));
            let plan = ShardPlan {
                path: path.clone(),
                header,
                start_bytes: 0,
                len_bytes: data_bytes,
            };
            (vec![plan], None)
        }
        SortOutput::Shards { .. } if options.unique => {
            return Err(
                Error::usage("plan sort", "--unique cannot write one shard a drive")
                    .hint("write one file, or drop --unique"),
            );
        }
        SortOutput::Shards { paths, manifest } => {
            let border = |shard: usize| {
                let border = u128::from(count) * shard as u128 / paths.len() as u128;
                border as u64 * element_bytes as u64
            };
            let plans = paths.iter().enumerate().map(|(index, path)| ShardPlan {
                path: path.clone(),
                header: Vec::new(),
                start_bytes: border(index),
                len_bytes: border(index + 1) - border(index),
            });
            (plans.collect(), Some(manifest.clone()))
        }
    };
    if !options.replace {
        let taken = plans
            .iter()
            .map(|plan| &plan.path)
            .chain(&manifest)
            .find(|path| path.exists());
        if let Some(path) = taken {
            return Err(Error::usage("create output", "it exists already")
                .path(path)
                .hint("allow overwriting with --force, or sort in place with --replace"));
        }
    }
    Output::stage(volume, plans, manifest, options.replace).map(Some)
}

/// Scratch on the drives of the job, after a look at their free space.
fn make_scratch(
    job: &Job,
    volume: &Volume,
    drives: &[(String, PathBuf, f64)],
    plan: &SortPlan,
) -> Result<Scratch> {
    let mut seen = Vec::new();
    let mut free_bytes = 0u64;
    let mut listed = Vec::new();
    for (name, dir, _) in drives {
        let file_system = job.device.file_system(dir)?;
        if !seen.contains(&file_system) {
            seen.push(file_system);
            let here = job.device.free_bytes(dir)?;
            free_bytes = free_bytes.saturating_add(here);
            listed.push(format!("{name} has {}", units::bytes(here)));
        }
    }
    if free_bytes < plan.scratch_bytes {
        let cause = format!(
            "about {} of scratch are needed and {}",
            units::bytes(plan.scratch_bytes),
            listed.join(", ")
        );
        return Err(Error::new(Kind::NoSpace, "plan scratch", cause)
            .hint("free some space, add a --drive or allow more --memory"));
    }
    if job.options.scratch_limit_bytes < plan.scratch_bytes {
        let cause = format!(
            "about {} of scratch are needed and the limit is {}",
            units::bytes(plan.scratch_bytes),
            units::bytes(job.options.scratch_limit_bytes)
        );
        return Err(Error::new(Kind::NoSpace, "plan scratch", cause)
            .hint("raise --scratch-limit or --memory"));
    }
    let dirs: Vec<PathBuf> = drives.iter().map(|(_, dir, _)| dir.clone()).collect();
    Scratch::create(
        volume,
        &dirs,
        job.options.scratch_limit_bytes,
        plan.scratch_bytes,
        job.options.seed,
    )
}

/// Splitters from random places of the input.
fn sample_input<E: Elements>(
    shared: &Shared<'_, E>,
    parts: &[InputPart],
) -> Result<Classifier<E::Key>> {
    let (job, plan, elements) = (shared.job, shared.plan, shared.elements);
    job.control.begin_phase("sample", 0);
    let mut sampled = sample(
        shared.volume,
        &job.budget,
        parts,
        elements.element_bytes(),
        plan.sample_reads,
        plan.sample_read_bytes,
        job.options.seed,
    )?;
    // Bare numbers are looked at as native integers, which a Vec<u8> need not be aligned for.
    let mut keys = Vec::new();
    let mut space = Vec::new();
    let mut aligned: Vec<u128> = Vec::new();
    for piece in sampled.chunks_mut(elements.element_bytes() * 512) {
        aligned.resize(piece.len().div_ceil(size_of::<u128>()), 0);
        let bytes = &mut bytemuck::cast_slice_mut::<u128, u8>(&mut aligned)[..piece.len()];
        bytes.copy_from_slice(piece);
        elements.encode(bytes)?;
        keys.extend_from_slice(elements.keys(bytes, 0, &mut space)?);
    }
    keys.sort_unstable();
    Ok(Classifier::from_sample(&keys, plan.bucket_count))
}

/// The first distribution, from the input's files.
fn distribute_input<E: Elements>(
    shared: &Shared<'_, E>,
    parts: &[InputPart],
    cut: Cut<E::Key>,
) -> Result<Vec<Bucket>> {
    let plan = shared.plan;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    shared.job.control.begin_phase("distribute", data_bytes);
    let blocks = Blocks::new(
        parts.to_vec(),
        shared.elements.element_bytes(),
        plan.read_block_bytes,
    );
    let resident_bytes = (plan.resident_segments * plan.segment_payload_bytes) as u64;
    let resident_below = if resident_bytes >= data_bytes {
        usize::MAX
    } else {
        // Buckets are about equal, so this many fill the credit; what they lack in a lopsided
        // sample is only a little more scratch.
        (u128::from(resident_bytes) * cut.bucket_count() as u128 / u128::from(data_bytes)) as usize
    };
    let source = Source::Blocks(&blocks);
    let keep_partials = plan.levels <= 1;
    let buckets = distribute(shared, &source, &cut, 0, resident_below, keep_partials)?;
    for part in parts {
        let now = shared.job.device.facts(part.file.id)?.len_bytes;
        if now != part.file.facts.len_bytes {
            let cause = format!(
                "the file changed while it was read: {} bytes before, {now} now",
                part.file.facts.len_bytes
            );
            return Err(Error::corrupt("read input", cause)
                .path(&part.file.path)
                .hint("sort a copy that nobody changes"));
        }
    }
    Ok(buckets)
}

/// Distributes buckets that are too large for the memory again, until none is; keeps the order.
fn split_oversized<E: Elements>(
    shared: &Shared<'_, E>,
    buckets: Vec<Bucket>,
) -> Result<Vec<Bucket>> {
    let leaf_bytes_max = shared.plan.leaf_bytes_max as u64;
    let element_bytes = shared.elements.element_bytes() as u64;
    let mut done = Vec::new();
    let mut left: VecDeque<Bucket> = buckets.into();
    while let Some(bucket) = left.pop_front() {
        let bytes = bucket.count * element_bytes;
        if bucket.copies_of.is_some() || bytes <= leaf_bytes_max {
            if bucket.count > 0 {
                done.push(bucket);
            }
            continue;
        }
        let parts = if bucket.depth < shared.elements.depth_end() {
            split_by_key(shared, bucket)?
        } else if shared.plan.size.is_ordered {
            split_by_position(shared, bucket)?
        } else {
            split_equal(bucket, leaf_bytes_max, element_bytes)
        };
        parts
            .into_iter()
            .rev()
            .for_each(|part| left.push_front(part));
    }
    Ok(done)
}

/// Buckets for a split of `bytes`, as many as there are buffers for.
fn split_bucket_count<E>(shared: &Shared<'_, E>, bytes: u64) -> usize {
    let plan = shared.plan;
    let free = shared.segment_pool.free_slots() / plan.size.threads;
    // An equality bucket may come with each splitter.
    let affordable = free.saturating_sub(plan.writes_in_flight).max(SPLIT_SLOTS) / 2;
    let wanted = bytes.div_ceil((plan.leaf_bytes_max / 2) as u64);
    (wanted as usize).clamp(SPLIT_BUCKETS_MIN, affordable.max(SPLIT_BUCKETS_MIN))
}

fn split_by_key<E: Elements>(shared: &Shared<'_, E>, bucket: Bucket) -> Result<Vec<Bucket>> {
    let bytes = bucket.count * shared.elements.element_bytes() as u64;
    let mut keys = sample_bucket(shared, &bucket)?;
    keys.sort_unstable();
    let cut = Cut::Keys(Classifier::from_sample(
        &keys,
        split_bucket_count(shared, bytes),
    ));
    let depth = bucket.depth;
    let source = Source::Segments(Mutex::new(bucket.segments.into()));
    distribute(shared, &source, &cut, depth, 0, false)
}

/// Equal elements whose order in the input counts are told apart by their place in it.
fn split_by_position<E: Elements>(shared: &Shared<'_, E>, bucket: Bucket) -> Result<Vec<Bucket>> {
    let bytes = bucket.count * shared.elements.element_bytes() as u64;
    let count = split_bucket_count(shared, bytes);
    let pieces = bucket
        .segments
        .iter()
        .flat_map(|segment| segment.pieces.iter());
    let mut positions: Vec<u64> = pieces.map(|piece| piece.position).collect();
    positions.sort_unstable();
    let mut starts: Vec<u64> = (0..count)
        .map(|cut| positions[cut * positions.len() / count])
        .collect();
    starts.dedup();
    let depth = bucket.depth;
    let source = Source::Segments(Mutex::new(bucket.segments.into()));
    distribute(shared, &source, &Cut::Positions(starts), depth, 0, false)
}

/// Equal elements in any order: a list of segments is cut anywhere.
fn split_equal(bucket: Bucket, leaf_bytes_max: u64, element_bytes: u64) -> Vec<Bucket> {
    let mut parts: Vec<Bucket> = Vec::new();
    let mut open_bytes = u64::MAX;
    for segment in bucket.segments {
        let bytes = u64::from(segment.payload_bytes);
        if open_bytes.saturating_add(bytes) > leaf_bytes_max {
            let depth = bucket.depth;
            parts.push(Bucket {
                segments: Vec::new(),
                count: 0,
                depth,
                copies_of: None,
            });
            open_bytes = 0;
        }
        open_bytes += bytes;
        if let Some(part) = parts.last_mut() {
            part.count += bytes / element_bytes;
            part.segments.push(segment);
        }
    }
    parts
}

/// Keys at the bucket's depth from some of its segments.
fn sample_bucket<E: Elements>(shared: &Shared<'_, E>, bucket: &Bucket) -> Result<Vec<E::Key>> {
    let element_bytes = shared.elements.element_bytes();
    let chosen = bucket.segments.len().min(SPLIT_SAMPLE_SEGMENTS);
    let pool = Pool::new(&shared.job.budget, "sample", shared.plan.segment_bytes, 1)?;
    let mut port = shared.volume.port()?;
    let mut keys = Vec::new();
    let mut space = Vec::new();
    for index in 0..chosen {
        shared.check()?;
        let segment = &bucket.segments[index * bucket.segments.len() / chosen];
        let read = read_segment(shared, segment, &pool, &mut port)?;
        let payload = match (&segment.home, &read) {
            (Home::Memory(buf), _) => &buf[..segment.payload_bytes as usize],
            (_, Some(buf)) => &buf[..segment.payload_bytes as usize],
            _ => continue,
        };
        let count = payload.len() / element_bytes;
        let all = shared.elements.keys(payload, bucket.depth, &mut space)?;
        let taken = count.min(SPLIT_SAMPLE_ELEMENTS);
        keys.extend((0..taken).map(|sample| all[sample * count / taken]));
    }
    Ok(keys)
}

/// Reads a segment from scratch, alone; nothing for one in memory.
fn read_segment<E>(
    shared: &Shared<'_, E>,
    segment: &Segment,
    pool: &Pool,
    port: &mut crate::volume::Port,
) -> Result<Option<crate::memory::Buf>> {
    let Home::Scratch { place, checksum } = segment.home else {
        return Ok(None);
    };
    let scratch = shared.scratch()?;
    let Some(mut slot) = pool.take() else {
        return Ok(None);
    };
    let buf = slot.split_to(segment.stored_bytes());
    port.submit(scratch.file(place), Op::Read, place.offset_bytes, buf, 0);
    let mut finished = Vec::new();
    while finished.is_empty() {
        shared.check()?;
        port.poll(true, &mut finished)?;
    }
    let Some(transfer) = finished.pop() else {
        return Ok(None);
    };
    if let Some(fault) = transfer.fault {
        return Err(shared.volume.explain(&fault));
    }
    let payload = &transfer.buf[..segment.payload_bytes as usize];
    verify_segment(scratch, shared.run, place, checksum, payload)?;
    Ok(Some(transfer.buf))
}

/// Sorts all buckets and writes them; gives the number of elements written.
fn sort_buckets<E>(
    shared: &Shared<'_, E>,
    buckets: Vec<Bucket>,
    staged: Option<&Output>,
    output: &SortOutput,
    options: SortOptions,
) -> Result<u64>
where
    E: Elements,
    E::Key: SortKeys + Into<u128>,
{
    let element_bytes = shared.elements.element_bytes() as u64;
    let count: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    shared
        .job
        .control
        .begin_phase("sort", count * element_bytes);
    let mut list = make_leaves(shared, buckets, options.unique);
    if let Some(staged) = staged.filter(|_| !options.unique) {
        interleave(&mut list, staged, element_bytes);
    }
    let edge_pool = Pool::new(&shared.job.budget, "edge blocks", BLOCK_BYTES, 128)?;
    let writer = staged.map(|staged| Writer::new(staged, edge_pool));
    let sink = match (&writer, output) {
        (Some(writer), _) => Sink::Files(writer),
        (None, SortOutput::Pipe(pipe)) => Sink::Pipe(pipe),
        (None, _) => return Ok(0),
    };
    let leaves = Leaves {
        leaves: list
            .into_iter()
            .map(|leaf| Mutex::new(Some(leaf)))
            .collect(),
        next: AtomicUsize::new(0),
        sink,
        turns: Turns::default(),
        is_unique: options.unique,
    };
    leaf::run(shared, &leaves)?;
    let written = if options.unique {
        leaves.turns.placed().count
    } else {
        count
    };
    if let (Some(writer), Some(staged)) = (&writer, staged) {
        let mut port = shared.volume.port()?;
        if let SortOutput::File {
            header: Some(make), ..
        } = output
        {
            let mut header = make(written);
            header.resize(staged.shards()[0].plan.header.len(), b' ');
            writer.write_header(&mut port, &header);
        }
        writer.finish(shared.volume, &mut port, written * element_bytes)?;
    }
    if let SortOutput::Pipe(pipe) = output {
        let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
        pipe.flush()
            .map_err(|e| Error::io("write to the pipe", &e))?;
    }
    Ok(written)
}

/// Leaves in output order; copies of one element are cut into pieces that fit an area.
fn make_leaves<E: Elements>(
    shared: &Shared<'_, E>,
    buckets: Vec<Bucket>,
    is_unique: bool,
) -> Vec<Leaf> {
    let per_leaf = (shared.plan.leaf_bytes_max / shared.elements.element_bytes()) as u64;
    let mut leaves = Vec::with_capacity(buckets.len());
    let mut start = 0;
    for bucket in buckets {
        let Bucket {
            mut segments,
            count,
            depth,
            copies_of,
        } = bucket;
        let end = start + count;
        let step = if copies_of.is_some() && !is_unique {
            per_leaf
        } else {
            count
        };
        while start < end {
            leaves.push(Leaf {
                segments: std::mem::take(&mut segments),
                count: step.min(end - start),
                depth,
                start,
                copies_of: copies_of.clone(),
            });
            start += step.min(end - start);
        }
    }
    leaves
}

/// Takes turns among the files of the output, so that all of their drives write at once.
fn interleave(leaves: &mut [Leaf], staged: &Output, element_bytes: u64) {
    let shards = staged.shards();
    if shards.len() < 2 {
        return;
    }
    let mut rank = vec![0u64; shards.len()];
    let mut order: Vec<(u64, usize)> = Vec::with_capacity(leaves.len());
    for leaf in leaves.iter() {
        let at = leaf.start * element_bytes;
        let shard = shards
            .partition_point(|s| s.plan.start_bytes + s.plan.len_bytes <= at)
            .min(shards.len() - 1);
        order.push((rank[shard], shard));
        rank[shard] += 1;
    }
    let mut keys = order.into_iter();
    leaves.sort_by_cached_key(|_| keys.next());
}
