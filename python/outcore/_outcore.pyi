"""The native module: one function a job."""

from ._wire import (
    GenerateReply,
    GenerateRequest,
    OrderRequest,
    PlanReply,
    ShuffleReply,
    ShuffleRequest,
    SortReply,
    SortRequest,
    Tell,
    VerifyReply,
    VerifyRequest,
)

__all__ = ["Order", "__version__", "generate", "plan", "shuffle", "sort", "verify"]

__version__: str

def sort(request: SortRequest, tell: Tell | None) -> SortReply: ...
def plan(request: SortRequest) -> PlanReply: ...
def shuffle(request: ShuffleRequest, tell: Tell | None) -> ShuffleReply: ...
def generate(request: GenerateRequest, tell: Tell | None) -> GenerateReply: ...
def verify(request: VerifyRequest, tell: Tell | None) -> VerifyReply: ...

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
