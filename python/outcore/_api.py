"""The plan of a sort: the verb `sort`, which only makes the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

from . import _verbs
from ._arguments import Keys, Paths, Record, Size, StrPath
from ._reports import Plan, SortSummary
from ._words import plan_of_verb

if TYPE_CHECKING:
    import numpy.typing as npt


def plan(
    src: Paths,
    dst: StrPath | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: Size | None = None,
    force: bool = False,
    replace: bool = False,
    volume: StrPath | None = None,
) -> Plan:
    """The plan of `sort`: passes, buckets, bytes, seconds. Only headers are read.

    Args and errors are those of `sort`.
    """
    report = plan_of_verb("sort", SortSummary, _verbs._OPTIONS, locals())
    assert report.plan is not None
    return report.plan
