"""The requests to the native module: dictionaries with the fixed keys of `src/request.rs`.

Nothing outside the package sees these.
"""

from __future__ import annotations

from typing import Callable, TypedDict, Union

#: Takes phase, bytes done, bytes in all, bytes read, bytes written, seconds, the slowest drive.
Tell = Callable[[str, int, int, int, int, float, Union[str, None]], None]


class ResourcesRequest(TypedDict):
    """The resources of a job; `None` if the environment, a file or a default decides."""

    memory: str | None
    threads: int | None
    io: str | None
    drives: list[str]
    scratch_limit: str | None
    seed: int
    volume: str | None


class AskedRequest(TypedDict):
    """The options that decide on the kind of files."""

    inputs: list[str]
    is_records: bool
    is_lines: bool
    is_table: bool
    resources: ResourcesRequest


class RecordsRequest(TypedDict):
    """The type of the records; at most one of `name`, `descr` and `record_bytes` is given."""

    name: str | None
    descr: str | None
    row_shape: list[int]
    record_bytes: int | None
    keys: list[str]


CsvRows = tuple[Union[int, None], bool]
"""How records of CSV are read: the byte between fields, if it is given, and whether there is a header."""


class OrderRequest(TypedDict):
    """The order of a shuffle for reading records."""

    inputs: list[str]
    records: RecordsRequest
    resources: ResourcesRequest
    epoch: int


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
    time_unit: str | None
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
    time_unit: str | None
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
    """Computes a number for each item."""

    expression: str


class CallStep(TypedDict):
    """Calls a function with the bytes of a batch: it makes other items, keeps some items, or makes any number of
    items."""

    function: Callable[[bytes], bytes]
    records: RecordsRequest
    filters: bool
    expands: bool


class FlatMapStep(TypedDict):
    """Computes several numbers for each item."""

    expressions: list[str]


class EnumerateStep(TypedDict):
    """Items with their positions in front."""

    numbered: RecordsRequest


class WindowsStep(TypedDict):
    """Each item with the items that follow it."""

    window: int


class ReverseStep(TypedDict):
    """The last item first."""

    is_reversed: bool


class MergeStep(TypedDict):
    """Merges files that are already in order."""

    merge_by: RecordsRequest | None
    descending: bool
    stable: bool


class SortStep(TypedDict):
    """Sorts records; `records` gives an order other than that of their type."""

    records: RecordsRequest | None
    descending: bool
    stable: bool
    unique: bool


class SortLinesStep(TypedDict):
    """Lines in order: options of the verb `sort`, in words."""

    sort: list[str]
    merges: bool
    counts: bool


class ShuffleStep(TypedDict):
    """All items in a random order."""

    shuffle_seed: int
    epoch: int
    csv: CsvRows | None


class UniqueStep(TypedDict):
    """One of each item, in order, or with its count; for records, `counted` is the type of the result."""

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
    """Files that are zipped with others."""

    inputs: list[str]
    records: RecordsRequest


class DatasetRequest(TypedDict):
    """Files, or the numbers below `count`; their type, and the steps on each item."""

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
    """The destination of a result."""

    output: str
    force: bool


class WriteParts(TypedDict):
    """The destinations of the parts of a result."""

    outputs: list[str]
    manifest: str
    force: bool


class TextRequest(TypedDict):
    """How CSV and JSON lines become a table."""

    schema: str | None
    separator: int | None
    null: list[str]
    on_error: str
