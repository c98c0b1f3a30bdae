"""What comes back from the native module: dictionaries with fixed keys, which are those of `src/reply.rs`.

Nothing outside the package sees these.
"""

from __future__ import annotations

import builtins
from typing import TypedDict


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
    reads_in_flight: int
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
