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
