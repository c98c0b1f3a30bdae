"""The results of the native module: dictionaries with fixed keys, which `src/view.rs` and
`src/volume.rs` set.

Nothing outside the package sees these.
"""

from __future__ import annotations

import builtins
from typing import TypedDict


class ViewInfo(TypedDict):
    """The properties of a view."""

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


class MeasuredReply(TypedDict):
    """The rates of one thread."""

    workload: str
    bytes_per_s: float
    requests_per_s: float
    p50_us: float
    p99_us: float
