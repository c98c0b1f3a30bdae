"""The native module: one function per job."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

from ._replies import MeasuredReply, ViewInfo
from ._requests import (
    AskedRequest,
    CsvRows,
    DatasetRequest,
    OrderRequest,
    ResourcesRequest,
    SimPlanRequest,
    SimReplayRequest,
    SimRunRequest,
    TextRequest,
    Tell,
    WriteParts,
    WriteTo,
)

__all__ = [
    "Batches",
    "GraphSampler",
    "Order",
    "SimRun",
    "View",
    "__version__",
    "batches",
    "check_lines",
    "count_lines",
    "describe",
    "explain",
    "find",
    "fold",
    "gather",
    "graph_edges",
    "graph_ids",
    "graph_names",
    "graph_vertices",
    "head_lines",
    "histogram",
    "memory_bytes",
    "partition",
    "reduce",
    "sample_lines",
    "search_sorted",
    "sim_plan",
    "sim_presets",
    "sim_replay",
    "run_command",
    "run_verb",
    "sim_run",
    "sorted_lines",
    "split_lines",
    "table_spool",
    "table_stream",
    "top",
    "unknown_variables",
    "volume_bench",
    "volume_read",
    "volume_write",
    "what",
    "write",
]

__version__: str

def graph_edges(dir: str, resources: ResourcesRequest) -> bytearray: ...
def graph_ids(dir: str, resources: ResourcesRequest) -> bytearray: ...
def graph_names(dir: str, vertices: list[int] | None, resources: ResourcesRequest) -> list[str]: ...
def graph_vertices(dir: str, names: list[str], resources: ResourcesRequest) -> list[int | None]: ...
def what(request: AskedRequest) -> str: ...
def run_command(words: list[str], is_lab: bool) -> int: ...
def run_verb(
    name: str, words: list[str], volume: str | None, kept: str | None, tell: Tell | None, given: dict[str, bytes] | None = None
) -> tuple[dict[str, Any], str, dict[str, tuple[str, bytearray]]]: ...
def sim_run(request: SimRunRequest) -> SimRun: ...
def sim_replay(request: SimReplayRequest) -> str: ...
def sim_plan(request: SimPlanRequest) -> str: ...
def sim_presets() -> str: ...
def volume_write(drives_file: str, name: str, data: bytes, force: bool) -> tuple[dict[str, Any], str]: ...
def volume_read(drives_file: str, name: str, offset_bytes: int, size_bytes: int | None) -> bytes: ...
def volume_bench(drives_file: str, seconds: float, size: str) -> list[MeasuredReply]: ...

@final
class Order:
    def __new__(cls, request: OrderRequest) -> Order: ...
    @property
    def count(self) -> int: ...
    @property
    def record_bytes(self) -> int: ...
    @property
    def stretch(self) -> int: ...
    @property
    def header(self) -> bytes | None: ...
    def read(self, start: int, count: int) -> bytearray: ...

@final
class SimRun:
    @property
    def summary(self) -> str: ...
    @property
    def request_count(self) -> int: ...
    def requests(self) -> bytes: ...
    def svg(self, view: str) -> str: ...

def describe(request: DatasetRequest) -> tuple[str, int, str, bytes | None]: ...
def explain(request: DatasetRequest, consumer: str) -> str: ...
def reduce(
    request: DatasetRequest, how: list[str], tell: Tell | None
) -> list[int | float | None]: ...
def fold(
    request: DatasetRequest,
    of_batch: Callable[[bytes], Any],
    both: Callable[[Any, Any], Any],
    tell: Tell | None,
) -> Any: ...
def top(
    request: DatasetRequest, count: int, smallest: bool, tell: Tell | None
) -> list[int | float]: ...
def histogram(
    request: DatasetRequest, bins: int, range: tuple[float, float] | None, tell: Tell | None
) -> tuple[tuple[float, float], list[int]]: ...
def find(request: DatasetRequest, condition: str, tell: Tell | None) -> int | None: ...
def gather(request: DatasetRequest, positions: bytes, tell: Tell | None) -> bytearray: ...
def search_sorted(
    request: DatasetRequest, keys: bytes, right: bool, index: str | None, tell: Tell | None
) -> bytearray: ...
def count_lines(request: DatasetRequest, tell: Tell | None) -> tuple[int, int]: ...
def head_lines(
    request: DatasetRequest, count: int, csv: CsvRows | None, tell: Tell | None
) -> list[bytes]: ...
def sample_lines(
    request: DatasetRequest, count: int, seed: int, csv: CsvRows | None, tell: Tell | None
) -> tuple[list[bytes], int]: ...
def check_lines(
    request: DatasetRequest, tell: Tell | None
) -> tuple[Path, int, bytes] | None: ...
def split_lines(
    request: DatasetRequest,
    pattern: str,
    parts: int | None,
    lines: int,
    force: bool,
    csv: CsvRows | None,
    tell: Tell | None,
) -> tuple[list[Path], int]: ...
def write(request: DatasetRequest, to: WriteTo, tell: Tell | None) -> tuple[dict[str, Any], str]: ...
def partition(
    request: DatasetRequest,
    bucket: str | Callable[[bytes], bytes],
    to: WriteParts,
    tell: Tell | None,
) -> list[int]: ...
def memory_bytes(resources: ResourcesRequest) -> int: ...
def unknown_variables() -> list[str]: ...
def batches(request: DatasetRequest) -> Batches: ...

@final
class Batches:
    """The bytes of batches, in order."""

    @property
    def skipped(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __next__(self) -> bytes: ...

def sorted_lines(path: str, terminator: int, resources: ResourcesRequest) -> View: ...

@final
class GraphSampler:
    @staticmethod
    def open(dir: str, is_in: bool, resources: ResourcesRequest) -> GraphSampler: ...
    def neighbours(
        self, vertices: bytes, fanouts: list[int | None], seed: int
    ) -> tuple[bytes, bytes, bytes, list[int]]: ...

@final
class View:
    @staticmethod
    def open(dir: str, resources: ResourcesRequest) -> View: ...
    def info(self) -> ViewInfo: ...
    def read(self, start: int, stop: int) -> bytearray: ...
    def lookup(self, keys: list[bytes], counts_equal: bool) -> bytearray: ...
    def record_of(self, text: str) -> bytes: ...
    def keys(self) -> list[str]: ...
    def stream(self, start: int, stop: int) -> object: ...
    def find(self, key: object) -> tuple[int, int]: ...

def table_spool(source: object, path: str, resources: ResourcesRequest, tell: Tell | None) -> int:
    """Writes the batches of another library's table to an Arrow file; returns the number of
    rows."""

def table_stream(
    inputs: list[str],
    columns: list[str] | None,
    union: bool,
    text: TextRequest,
    resources: ResourcesRequest,
    held: object,
) -> object:
    """The batches of a table as a capsule, which holds `held` until they have been read."""
