"""The native module: one function a job."""

from collections.abc import Iterator
from typing import final

from ._wire import (
    DatasetRequest,
    GenerateReply,
    GenerateRequest,
    OrderRequest,
    PlanReply,
    ShuffleReply,
    ShuffleRequest,
    SimPlanRequest,
    SimReplayRequest,
    SimRunRequest,
    SortReply,
    SortRequest,
    Tell,
    VerifyReply,
    VerifyRequest,
    WriteTo,
)

__all__ = [
    "Batches",
    "Order",
    "SimRun",
    "__version__",
    "batches",
    "describe",
    "explain",
    "generate",
    "plan",
    "reduce",
    "shuffle",
    "sim_plan",
    "sim_presets",
    "sim_replay",
    "sim_run",
    "sort",
    "verify",
    "write",
]

__version__: str

def sort(request: SortRequest, tell: Tell | None) -> SortReply: ...
def plan(request: SortRequest) -> PlanReply: ...
def shuffle(request: ShuffleRequest, tell: Tell | None) -> ShuffleReply: ...
def generate(request: GenerateRequest, tell: Tell | None) -> GenerateReply: ...
def verify(request: VerifyRequest, tell: Tell | None) -> VerifyReply: ...
def sim_run(request: SimRunRequest) -> SimRun: ...
def sim_replay(request: SimReplayRequest) -> str: ...
def sim_plan(request: SimPlanRequest) -> str: ...
def sim_presets() -> str: ...

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
def describe(request: DatasetRequest) -> tuple[str, int, str]: ...
def explain(request: DatasetRequest, consumer: str) -> str: ...
def reduce(
    request: DatasetRequest, how: list[str], tell: Tell | None
) -> list[int | float | None]: ...
def write(
    request: DatasetRequest, to: WriteTo, how: str, tell: Tell | None
) -> GenerateReply: ...
def batches(request: DatasetRequest) -> Batches: ...

class Batches:
    """The bytes of batches, in order."""

    def __iter__(self) -> Iterator[bytes]: ...
    def __next__(self) -> bytes: ...
