//! External samplesort: input files in, one sorted output, complete or absent.
//!
//! Model: PALID (Li, Khan, Dhulipala, SPAA 2025), section 4: sample, splitters, one distribution
//! pass with per-thread bucket buffers. Then each bucket is read, sorted in memory and written at
//! its final offset while the next ones load. Oversized buckets are distributed again; buckets of
//! equal elements are not sorted.
//!
//! Contract: the output is the input's elements ordered by key, then by their bytes (or by their
//! position in the input if stable). Its bytes depend only on the input and the options. Inputs are
//! only read, unless the caller asked for them to be freed. No output remains after a failure.
//!
//! Bounds: memory as planned ([`crate::sort::plan`]). I/O is 2 reads and 2 writes of the data,
//! minus the data that stay in memory, plus the sample; each further level adds one read and one
//! write.

mod distribute;
pub(crate) mod elements;
pub(crate) mod in_memory;
pub mod lines;
pub(crate) mod loser_tree;
pub mod plan;
pub(crate) mod radix;
pub(crate) mod shared;
pub(crate) mod source;
mod split;
pub(crate) mod splitters;
mod task;

use self::distribute::join_restored;
use self::elements::{Elements, Records, Scalars, Wholes};
use self::plan::{SortPlan, SortSize, plan_sort};
use self::radix::Item;
use self::shared::Shared;
use self::source::{Amount, Files, Source};
use self::split::split_oversized;
use self::splitters::KeySplitters;
use self::task::sort_buckets;
use crate::ends::{DriveTraffic, Input, Output, Phase, Phases};
use crate::job::{Job, JobSize, Layout};
use crate::key::check::{CheckOptions, PartTotals};
use crate::key::order::{Order, OrderOptions};
use crate::key::record::RecordFormat;
use crate::key::scalar::{ScalarClass, ScalarOrder};
use crate::key::sort_key::Tie;
use crate::key::whole::WholeOrder;
use crate::partition::Partition;
use crate::partition::checkpoint::Checkpoints;
use crate::partition::driver::{Ends, ReadBack, Served, Unnamed};
use crate::partition::restored::{Division, IdentityOption};
use crate::partition::resumed::{
    Reading, Resumed, StageRequest, Staged, check_memory, refused, sum_of,
};
use crate::read_back::{self, ExpectedRecords, Tally};
use outcore_io::consumed::Consumed;
use outcore_io::drive::Access;
use outcore_io::output::{Room, StagedOutput};
use outcore_io::{Error, Result};

/// The reservation for the steps before a sort, in addition to its plan.
const BESIDE: &str = "steps before the sort";

/// Options of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SortOptions {
    /// Largest keys first.
    pub descending: bool,
    /// Equal keys keep their order in the input.
    pub stable: bool,
    /// One element per key: the first in the order.
    pub unique: bool,
    /// Whether an existing output is replaced.
    pub replace: bool,
    /// Frees blocks of the input once they have been read, if scratch needs their room. If the job
    /// fails, data that are then only in memory or on scratch are lost. The input is marked before
    /// its first block is freed (see [`outcore_io::consumed`]); the code that removes the input
    /// afterwards removes the marker.
    pub delete_input: bool,
}

/// The result of a sort.
#[derive(Debug, Clone, Default)]
pub struct SortSummary {
    /// Elements in the output.
    pub records: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// How often data were read and written: the maximum over the data.
    pub passes: u32,
    /// Most scratch in use at once.
    pub scratch_bytes: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<DriveTraffic>,
    /// The plan that the sort followed.
    pub plan: Option<SortPlan>,
    /// The totals of the output, if they were asked for.
    pub totals: Option<PartTotals>,
}

impl SortSummary {
    /// This summary with the totals of a tally, if there is one.
    fn with(self, tally: Option<&Tally>) -> Self {
        SortSummary {
            totals: tally.map(Tally::totals),
            ..self
        }
    }
}

/// Sorts `inputs`, in the given order, into `output`.
///
/// # Errors
/// [`Kind::Usage`] for invalid requests, [`Kind::Memory`] if the plan does not fit,
/// [`Kind::NoSpace`], [`Kind::Io`], [`Kind::Corrupt`] (damaged scratch, changed input),
/// [`Kind::Interrupted`].
pub fn sort(
    job: &Job,
    inputs: &[Input],
    output: Output,
    format: &RecordFormat,
    options: SortOptions,
) -> Result<SortSummary> {
    sort_from(job, &Files(inputs), &output, format, options)
}

/// Sorts the elements of a source; see [`sort`].
pub(crate) fn sort_from(
    job: &Job,
    source: &impl Source,
    output: &Output,
    format: &RecordFormat,
    options: SortOptions,
) -> Result<SortSummary> {
    format.check_order()?;
    match scalar_order(format, options) {
        Some(order) => match order.class() {
            ScalarClass::U32 => run(
                job,
                source,
                output,
                options,
                format,
                &Scalars::<u32>::new(order),
            ),
            ScalarClass::U64 => run(
                job,
                source,
                output,
                options,
                format,
                &Scalars::<u64>::new(order),
            ),
            ScalarClass::U128 => run(
                job,
                source,
                output,
                options,
                format,
                &Scalars::<u128>::new(order),
            ),
        },
        None => {
            if let Some(order) = whole_order(format, options) {
                return run(job, source, output, options, format, &Wholes::new(order));
            }
            let tie = if options.stable {
                Tie::Position
            } else {
                Tie::Bytes
            };
            let order = Order::new(
                format,
                OrderOptions {
                    descending: options.descending,
                    tie,
                },
            );
            run(job, source, output, options, format, &Records::new(order))
        }
    }
}

/// The plan that [`sort`] would follow for data of `data_bytes` on the drives of `layout`.
pub fn plan(
    job: &Job,
    data_bytes: u64,
    format: &RecordFormat,
    options: SortOptions,
    layout: Layout,
) -> Result<SortPlan> {
    format.check_order()?;
    let is_scalar =
        scalar_order(format, options).is_some() || whole_order(format, options).is_some();
    plan_sort(SortSize {
        job: JobSize::of(
            job,
            data_bytes,
            layout.of_spreadable_output(!options.unique),
        ),
        element_bytes: format.record_bytes(),
        is_scalar,
        is_ordered: options.stable && !is_scalar,
    })
}

/// Scalars that are sorted as integers. `None` for floats if their positions count or if one of
/// each is kept, because NaNs with different bits are one key and different integers.
fn scalar_order(format: &RecordFormat, options: SortOptions) -> Option<ScalarOrder> {
    let is_one_key = (options.stable || options.unique) && format.has_floats();
    ScalarOrder::of(format, options.descending).filter(|_| !is_one_key)
}

/// Records that are sorted as integers; `None` if their positions count, or if one record per key
/// is kept.
fn whole_order(format: &RecordFormat, options: SortOptions) -> Option<WholeOrder> {
    let order = WholeOrder::of(format, options.descending)?;
    let is_whole = !options.stable && (!options.unique || order.covers_record());
    is_whole.then_some(order)
}

fn run<E>(
    job: &Job,
    source: &impl Source,
    output: &Output,
    options: SortOptions,
    format: &RecordFormat,
    elements: &E,
) -> Result<SortSummary>
where
    E: Elements,
    E::Key: Item + Into<u128>,
{
    if options.unique && matches!(output, Output::Shards { .. }) {
        return Err(
            Error::usage("plan sort", "--unique cannot write one shard per drive")
                .hint("write one file, or drop --unique"),
        );
    }
    let mut phases = Phases::start();
    let element_bytes = elements.element_bytes();
    let is_ordered = options.stable && !elements.is_scalar();
    if job.options.resume.is_some() && options.delete_input {
        return Err(refused("a sort that frees its inputs cannot be resumed"));
    }
    let identity = match job.options.resume {
        Some(_) => options_of(format, options),
        None => Vec::new(),
    };
    let tally = tally_of(job, format)?;
    let resumed = Resumed::begin(job, output, identity)?;
    let whole_job = &resumed.job(job);
    let job = whole_job;
    let access = match options.delete_input {
        true => Access::Update,
        false => Access::Read,
    };
    let ends = Ends::open(job, source.files(), output, element_bytes, access)?;
    let amount = source.amount(job, &ends)?;
    let data_bytes = amount.data_bytes;
    let _beside = job.budget.reserve(BESIDE, amount.beside_bytes)?;
    let (staged, mut resumed) = resumed.stage(job, &ends, request_of(&amount, options))?;
    if let Some(finished) = resumed.finished {
        return Ok(SortSummary {
            records: finished.items,
            ..SortSummary::default()
        });
    }
    let layout = ends
        .layout(job, &output.places())
        .of_spreadable_output(!options.unique);
    let job_size = resumed.size(JobSize::of(job, data_bytes, layout));
    let mut plan = plan_sort(SortSize {
        job: job_size.clone(),
        element_bytes,
        is_scalar: elements.is_scalar(),
        is_ordered,
    })?;
    if let Some(read_bytes) = amount.made_of_bytes {
        plan.reads_no_sample();
        plan.reads_instead(read_bytes.into());
    }
    job.control.show_plan(&plan);
    check_memory(job, &plan.ledger())?;
    let planned = job.under(&plan.ledger())?;
    let job = &planned;
    let scratch = resumed.scratch(job, &ends, plan.scratch_bytes, plan.distributions > 0)?;
    // Freeing the blocks of data that stay in memory saves no room, and a kill would lose the data.
    let is_consumed = options.delete_input && plan.distributions > 0;
    let paths = source.files().iter().map(|input| input.path.as_path());
    let consumed = is_consumed.then(|| Consumed::new(paths));
    phases.end("prepare", &ends.volume);
    let (volume, threads) = (&ends.volume, plan.size.threads);
    let sizes = plan.segment_sizes();
    let mut shared = Shared {
        partition: Partition::new(job, volume, &scratch, sizes, threads, data_bytes)?,
        elements,
        plan: &plan,
        consumed: consumed.map(|consumed| (consumed, staged.as_ref())),
        read: read_back::of_read(job, &tally, options.unique),
        kept: read_back::of_kept(job, &tally, options.unique),
    };
    job.control.begin_phase("sample", 0);
    let sample = source.sample(&shared, &ends)?;
    let splitters = choose_splitters(&shared, &sample)?;
    if let (Some(staged), true) = (&staged, plan.distributions > 0) {
        shared.partition.checkpoints =
            checkpoints_of(&mut resumed, &shared, staged, job_size, &sample, &splitters)?;
    }
    drop(sample);
    phases.end("sample", &ends.volume);
    let buckets = match shared.continued() {
        Some(continued) if !continued.left.needs_input => {
            join_restored(&shared, &splitters, Vec::new())?
        }
        _ => source.distribute(&shared, &ends, &splitters)?,
    };
    let (buckets, splits) = split_oversized(&shared, buckets)?;
    phases.end("distribute", &ends.volume);
    let written = sort_buckets(&shared, buckets, &ends, staged.as_ref(), options.unique)?;
    phases.end("sort", &ends.volume);
    let journal = shared.partition.checkpoints.take().map(Checkpoints::end);
    drop(shared);
    let unnamed = Unnamed {
        journal,
        read_back: read_back_of(whole_job, tally.as_ref(), format, options),
        ..Unnamed::of(staged, written)
    };
    let (scratch, predicted) = (scratch.into_made(), &plan.phases);
    // The memory of the sort is free for the check of the output.
    drop(planned);
    let served = ends.close(whole_job, phases, unnamed, scratch, is_consumed, predicted)?;
    Ok(summary(served, written.items, splits, plan).with(tally.as_ref()))
}

/// The request for the output of a sort of this amount.
fn request_of(amount: &Amount, options: SortOptions) -> StageRequest {
    StageRequest {
        replace: options.replace,
        room: match options.unique || !amount.is_exact() {
            true => Room::AtMost,
            false => Room::Exactly,
        },
        data_bytes: amount.most_bytes,
    }
}

/// The tally of a job that reads its output back, or reports the totals of its items.
///
/// # Errors
/// Usage: a resumed run has not read everything itself.
pub(crate) fn tally_of(job: &Job, format: &RecordFormat) -> Result<Option<Tally>> {
    let options = &job.options;
    if options.verify_output && options.resume.is_some() {
        let cause = "an output that a killed run has begun cannot be verified";
        return Err(refused(cause));
    }
    if options.sums_items.is_some() && options.resume.is_some() {
        return Err(refused("a killed run has seen items that are not summed"));
    }
    let is_summed = options.verify_output || options.sums_items.is_some();
    Ok(is_summed.then(|| Tally::of_records(format)))
}

/// The check of the sorted output, if the job reads it back.
fn read_back_of<'a>(
    job: &Job,
    tally: Option<&'a Tally>,
    format: &'a RecordFormat,
    options: SortOptions,
) -> Option<ReadBack<'a>> {
    let tally = tally.filter(|_| job.options.verify_output)?;
    let options = CheckOptions {
        descending: options.descending,
        ties: !options.stable && !options.unique,
        unique: options.unique,
        unordered: false,
        order_only: false,
    };
    Some(Box::new(move |job, volume, written| {
        let expected = ExpectedRecords {
            tally,
            format,
            options,
        };
        read_back::records(job, volume, written, &expected)
    }))
}

/// The result of a sort that followed `plan` and distributed data again `splits` times.
fn summary(served: Served, records: u64, splits: u32, plan: SortPlan) -> SortSummary {
    SortSummary {
        records,
        seconds: served.seconds,
        read_bytes: served.read_bytes,
        written_bytes: served.written_bytes,
        passes: match served.scratch_bytes {
            0 => 1,
            _ => 1 + splits + u32::from(plan.distributions > 0),
        },
        scratch_bytes: served.scratch_bytes,
        phases: served.phases,
        drives: served.drives,
        plan: Some(plan),
        totals: None,
    }
}

/// The options that determine the bytes of a sort's output.
fn options_of(format: &RecordFormat, options: SortOptions) -> Vec<IdentityOption> {
    vec![
        IdentityOption::kind("sort of records"),
        IdentityOption::of("type", format),
        IdentityOption::of("descending order", options.descending),
        IdentityOption::of("stable order", options.stable),
        IdentityOption::of("choice of one record per key", options.unique),
    ]
}

/// The checkpoints of a sort that keeps a journal.
fn checkpoints_of<'s, E: Elements>(
    resumed: &mut Staged,
    shared: &Shared<'s, E>,
    staged: &'s StagedOutput,
    size: JobSize,
    sample: &[u8],
    splitters: &KeySplitters<E::Key>,
) -> Result<Option<Checkpoints<'s>>> {
    let division = Division {
        sample_sum: sum_of(sample.chunks(shared.elements.element_bytes())),
        bucket_count: splitters.bucket_count(),
        is_reversed: false,
        longest: None,
    };
    let reading = Reading {
        is_counted: |bucket| shared.elements.is_scalar() && splitters.is_equal(bucket),
        is_whole: false,
    };
    resumed.checkpoints(&shared.partition, staged, size, division, reading)
}

/// The splitters of the input, chosen from a sample of its elements.
fn choose_splitters<E: Elements>(
    shared: &Shared<'_, E>,
    sample: &[u8],
) -> Result<KeySplitters<E::Key>> {
    let plan = shared.plan;
    let buckets_max = plan.bucket_count + plan.spare_buckets();
    let wanted = plan.bucket_count;
    let splitters = KeySplitters::choose(shared.elements, sample, true, 0, wanted, buckets_max)?;
    // An additional bucket takes one buffer per thread from the segments that may stay in memory. A
    // few buckets, which even the fewest splitters make, take the buffers for splits instead.
    let extra = splitters.bucket_count().saturating_sub(plan.bucket_count);
    shared.take_resident(extra.min(plan.spare_buckets()) * plan.size.threads);
    Ok(splitters)
}
