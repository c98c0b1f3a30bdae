"""The native module: one function a job."""

from ._wire import (
    GenerateReply,
    GenerateRequest,
    PlanReply,
    SortReply,
    SortRequest,
    Tell,
    VerifyReply,
    VerifyRequest,
)

__all__ = ["__version__", "generate", "plan", "sort", "verify"]

__version__: str

def sort(request: SortRequest, tell: Tell | None) -> SortReply: ...
def plan(request: SortRequest) -> PlanReply: ...
def generate(request: GenerateRequest, tell: Tell | None) -> GenerateReply: ...
def verify(request: VerifyRequest, tell: Tell | None) -> VerifyReply: ...
