"""What goes to the native module and what comes back: dictionaries with fixed keys.

The keys are those of `src/request.rs` and `src/reply.rs`. Nothing outside the package sees these.
"""

from __future__ import annotations

import builtins
from typing import Callable, TypedDict, Union

#: Takes phase, bytes done, bytes in all, bytes read, bytes written, seconds, the slowest drive.
Tell = Callable[[str, int, int, int, int, float, Union[str, None]], None]


class ResourcesRequest(TypedDict):
    """What a job may use; `None` where the environment, a file or a default decides."""

    memory: str | None
    threads: int | None
    io: str | None
    drives: list[str]
    scratch_limit: str | None
    seed: int
    volume: str | None


class GraphConvertRequest(TypedDict):
    """Edges to convert to a graph."""

    inputs: list[str]
    output: str
    format: str | None
    undirected: bool
    weights: bool
    weight_column: str | None
    relabel: str | None
    is_table: bool
    columns: list[str]
    no_header: bool
    dedup: bool
    drop_loops: bool
    vertices: int | None
    force: bool
    resources: ResourcesRequest


class GraphKernelRequest(TypedDict):
    """What to compute on a graph; what a kernel does not take is 0."""

    graph: str
    kernel: str
    number: int
    alpha: float
    tolerance: float
    iterations: int
    targets: list[tuple[int, float]]
    resources: ResourcesRequest


class KnnRequest(TypedDict):
    """Neighbours to find; without queries, of the rows of the base."""

    base: str
    queries: str | None
    type_name: str | None
    k: int
    metric: str
    subset: str | None
    condition: str | None
    tables: list[str]
    index: str | None
    nprobe: int | None
    recall_queries: int
    resources: ResourcesRequest


class VectorConvertRequest(TypedDict):
    """Vectors to write in another format, or those in a column of a table."""

    input: str
    type_name: str | None
    output: str
    element: str | None
    is_table: bool
    column: str | None
    force: bool
    resources: ResourcesRequest


class IndexRequest(TypedDict):
    """Vectors to index."""

    base: str
    type_name: str | None
    output: str
    nlist: int | None
    spherical: bool
    seed: int
    force: bool
    resources: ResourcesRequest


class RangeRequest(TypedDict):
    """Rows within a radius to find; without queries, among the rows of the base."""

    base: str
    queries: str | None
    type_name: str | None
    radius: float
    metric: str
    subset: str | None
    condition: str | None
    tables: list[str]
    is_pairs: bool
    resources: ResourcesRequest


class KmeansRequest(TypedDict):
    """Vectors to cluster; `init` is `k-means++`, `k-means||`, `random` or a file."""

    base: str
    type_name: str | None
    k: int
    init: str
    batch_rows: int | None
    patience: int | None
    row_counts: list[int] | None
    is_partial: bool
    iterations: int
    tolerance: float
    runs: int
    seed: int
    spherical: bool
    checkpoint: str | None
    resources: ResourcesRequest


class LabelRequest(TypedDict):
    """Vectors to label by the nearest of some centroids."""

    base: str
    type_name: str | None
    centroids: str
    spherical: bool
    output: str
    force: bool
    resources: ResourcesRequest


class RecordsRequest(TypedDict):
    """What the records are; at most one of `name`, `descr` and `record_bytes` is given."""

    name: str | None
    descr: str | None
    columns: int | None
    record_bytes: int | None
    keys: list[str]


class SortRequest(TypedDict):
    """A sort, or the plan of one."""

    inputs: list[str]
    output: str | None
    records: RecordsRequest
    resources: ResourcesRequest
    descending: bool
    stable: bool
    unique: bool
    force: bool
    replace: bool
    record_io: str | None


CsvRows = tuple[Union[int, None], bool]
"""How records of CSV are read: the byte between fields, if it is given, and whether there is a header."""


class ShuffleRequest(TypedDict):
    """A shuffle."""

    inputs: list[str]
    output: str
    records: RecordsRequest
    lines: bool
    insists: bool
    csv: CsvRows | None
    resources: ResourcesRequest
    epoch: int
    force: bool
    replace: bool
    record_io: str | None


class OrderRequest(TypedDict):
    """The order of a shuffle, to read records in."""

    inputs: list[str]
    records: RecordsRequest
    resources: ResourcesRequest
    epoch: int


class GenerateRequest(TypedDict):
    """Records to generate."""

    output: str
    count: int
    records: RecordsRequest
    resources: ResourcesRequest
    distribution: str
    ascii: bool
    skewed: bool
    first: int | None
    force: bool
    record_io: str | None


class VerifyRequest(TypedDict):
    """Files to check."""

    inputs: list[str]
    against: list[str]
    records: RecordsRequest
    resources: ResourcesRequest
    descending: bool
    unique: bool
    ties: bool
    force: bool
    record_io: str | None


class SimDriveRequest(TypedDict):
    """A drive to simulate; one of `preset` and `file`."""

    preset: str | None
    file: str | None
    size: str
    settings: list[str]
    mqsim: bool


class SimRunRequest(TypedDict):
    """A workload on one drive; at most one of `workload`, `flows` and `trace`."""

    drive: SimDriveRequest
    workload: str | None
    flows: list[list[tuple[str, str]]]
    trace: str | None
    format: str | None
    depth: int | None
    fit: str
    keep: bool


class SimReplayRequest(TypedDict):
    """A trace on an array."""

    drive: SimDriveRequest
    trace: str
    drives: int | None
    shared: str | None
    stripe: str | None
    fill: float
    fit: str
    window: float | None
    cpu: float
    format: str | None
    speedup: float
    depth: int | None
    limit: int


class SimPlanRequest(TypedDict):
    """A sort to predict."""

    drive: SimDriveRequest
    size: str
    memory: str
    record_bytes: int
    cores: int
    drives: int
    shared: str | None
    memory_rate: str | None
    cpu_from: str | None
    distribute_ns: float | None
    sort_ns: float | None


class WhereStep(TypedDict):
    """Keeps some items."""

    condition: str


class MapStep(TypedDict):
    """Makes a number of each item."""

    expression: str


class CallStep(TypedDict):
    """Makes other items with a function from the bytes of a batch, keeps some, or makes any number."""

    function: Callable[[bytes], bytes]
    records: RecordsRequest
    filters: bool
    expands: bool


class FlatMapStep(TypedDict):
    """Makes several numbers of each item."""

    expressions: list[str]


class EnumerateStep(TypedDict):
    """Items behind their positions."""

    numbered: RecordsRequest


class WindowsStep(TypedDict):
    """Items with those behind them."""

    window: int


class ReverseStep(TypedDict):
    """The last item first."""

    is_reversed: bool


class MergeStep(TypedDict):
    """Files that are each in order, in one order."""

    merge_by: RecordsRequest | None
    descending: bool
    stable: bool


class SortStep(TypedDict):
    """Records in order; of another order than their own with `records`."""

    records: RecordsRequest | None
    descending: bool
    stable: bool
    unique: bool


class SortLinesStep(TypedDict):
    """Lines in order."""

    line_keys: list[str]
    letters: str
    separator: int | None
    by: list[str]
    is_csv: bool
    has_header: bool
    skips: bool
    merges: bool
    descending: bool
    stable: bool
    unique: bool
    counts: bool


class ShuffleStep(TypedDict):
    """All items in a random order."""

    shuffle_seed: int
    epoch: int
    csv: CsvRows | None


class UniqueStep(TypedDict):
    """One of each item, in order, or how many there are; of records, `counted` says what that is."""

    is_counted: bool
    counted: RecordsRequest | None


class ScanStep(TypedDict):
    """Prefixes of numbers."""

    operator: str
    exclusive: bool


StepRequest = Union[
    WhereStep,
    MapStep,
    CallStep,
    SortStep,
    SortLinesStep,
    ShuffleStep,
    UniqueStep,
    ScanStep,
    FlatMapStep,
    EnumerateStep,
    WindowsStep,
    ReverseStep,
    MergeStep,
]


class Zipped(TypedDict):
    """Files that are read side by side with others."""

    inputs: list[str]
    records: RecordsRequest


class DatasetRequest(TypedDict):
    """Files, or the numbers below `count`; what they hold and what is done to each item."""

    inputs: list[str]
    records: RecordsRequest
    lines: bool
    insists: bool
    terminator: int
    count: int | None
    zipped: list[Zipped]
    resources: ResourcesRequest
    steps: list[StepRequest]


class WriteTo(TypedDict):
    """Where a result goes."""

    output: str
    force: bool


class WriteParts(TypedDict):
    """Where the parts of a result go."""

    outputs: list[str]
    manifest: str
    force: bool


class ViewLinesRequest(TypedDict):
    """Lines of a view, and their order but for its direction."""

    line_keys: list[str]
    letters: str
    separator: int | None
    by: list[str]
    terminator: int
    insists: bool
    is_csv: bool
    has_header: bool


class ViewBuildRequest(TypedDict):
    """A sorted view to build."""

    inputs: list[str]
    output: str
    records: RecordsRequest
    lines: ViewLinesRequest | None
    resources: ResourcesRequest
    descending: bool
    stable: bool
    force: bool


class TableViewBuildRequest(TypedDict):
    """A sorted view of a table to build."""

    inputs: list[str]
    output: str
    by: list[str]
    descending: bool
    columns: list[str] | None
    union: bool
    schema: str | None
    resources: ResourcesRequest
    force: bool


class ViewInfo(TypedDict):
    """What a view is."""

    records: int
    record_bytes: int
    bytes: int
    type: str
    terminator: int | None
    front: builtins.bytes
    descr: str | None
    columns: int | None
    runs: int
    descending: bool
    stable: bool


class PhaseReply(TypedDict):
    """A part of a job."""

    name: str
    seconds: float
    read_bytes: int
    written_bytes: int
    predicted_seconds: float | None
    predicted_read_bytes: int | None
    predicted_written_bytes: int | None
    predicted_is_bound: bool


class DriveReply(TypedDict):
    """What a drive did."""

    name: str
    read_bytes: int
    written_bytes: int


class RatesReply(TypedDict):
    """How fast a plan takes a drive and the processors to be."""

    read_bytes_per_s: float
    write_bytes_per_s: float
    requests_per_s: float
    origin: str
    computing_origin: str


class PlanReply(TypedDict):
    """How a sort will be done."""

    passes: int
    bucket_count: int
    segment_bytes: int
    read_block_bytes: int
    bucket_bytes_max: int
    resident_bytes: int
    scratch_bytes: int
    predicted_read_bytes: int
    predicted_written_bytes: int
    predicted_seconds: float
    drive_count: int
    rates: RatesReply
    text: str


class TraceReply(TypedDict):
    """A trace that was recorded."""

    path: str
    requests: int
    bytes: int


class UsedReply(TypedDict):
    """What every job says about itself."""

    records: int
    seconds: float
    read_bytes: int
    written_bytes: int
    cpu_seconds: float
    peak_rss_bytes: int | None
    passes: int
    bandwidth_fraction: float | None
    drives: list[DriveReply]
    io_trace: TraceReply | None


class JobReply(TypedDict):
    """What every job gives back."""

    used: UsedReply


class SortReply(JobReply):
    """What a sort did."""

    output: str
    data_bytes: int
    scratch_bytes: int
    phases: list[PhaseReply]
    plan: PlanReply


class ShuffleReply(JobReply):
    """What a shuffle did."""

    output: str
    data_bytes: int
    scratch_bytes: int
    phases: list[PhaseReply]
    plan_text: str


class GenerateReply(JobReply):
    """What was generated."""

    output: str
    phases: list[PhaseReply]


class WriteReply(JobReply):
    """What a dataset wrote."""

    output: str
    skipped: int
    phases: list[PhaseReply]


class VerifyReply(JobReply):
    """What a look at all records found."""

    phases: list[PhaseReply]
    ordered: bool
    unordered: int
    first_unordered: int | None
    duplicate_keys: int
    checksum: str
    same_records: bool | None
    against_records: int | None
    against_checksum: str | None
    ok: bool
    text: str


class MovedReply(TypedDict):
    """What a transfer of a volume moved."""

    bytes: int
    files: int
    left_out: int


class EntryReply(TypedDict):
    """A dataset, or a file packed in one."""

    name: str
    bytes: int
    files: int
    is_directory: bool
    missing_drives: list[str]


class VolumeDriveReply(TypedDict):
    """A drive of a volume."""

    drive: str
    dir: str
    is_present: bool
    used_bytes: int
    free_bytes: int


class DamageReply(TypedDict):
    """Bytes that are not what was written."""

    dataset: str
    drive: str
    path: str
    offset_bytes: int
    len_bytes: int
    is_repaired: bool


class MeasuredReply(TypedDict):
    """What one thread reached."""

    workload: str
    bytes_per_s: float
    requests_per_s: float
    p50_us: float
    p99_us: float


class RightRequest(TypedDict):
    """The second table of a job on two."""

    inputs: list[str]
    columns: list[str] | None
    union: bool
    schema: str | None


class JoinRequest(TypedDict):
    """How two tables are joined."""

    on: list[str]
    how: str
    asof: str | None
    tolerance: str | None
    suffix: str
    unordered: bool


class NearRequest(TypedDict):
    """Which texts are nearly the same."""

    column: str
    jaccard: float
    shingles: str
    hashes: int


class SubstringRequest(TypedDict):
    """Which passages of texts are cut."""

    column: str
    units_count: int
    tokens: bool


class TableRequest(TypedDict):
    """A job on a table."""

    job: str
    inputs: list[str]
    output: str
    by: list[str]
    descending: bool
    stable: bool
    keep: str
    removed: str | None
    epoch: int
    rows: int
    conditions: list[str]
    computed: list[str]
    aggregates: list[str]
    order: list[str]
    added: list[str]
    first: int | None
    right: RightRequest | None
    join: JoinRequest | None
    near: NearRequest | None
    substring: SubstringRequest | None
    columns: list[str] | None
    union: bool
    schema: str | None
    codec: str | None
    group_rows: int | None
    force: bool
    resources: ResourcesRequest


class TableReply(TypedDict):
    """What a job on a table did."""

    rows_in: int
    rows_out: int
    removed: int | None
    seconds: float
    read_bytes: int
    written_bytes: int
    scratch_bytes: int
    output_bytes: int
    passes: int
