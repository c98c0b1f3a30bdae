"""The plan of a sort: the verb `sort`, which only makes the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

from . import _verbs
from . import _kinds
from ._arguments import SEED, Keys, Paths, Record, Size, StrPath, path_texts, resources_of
from ._errors import usage
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
    given = dict(locals())
    names = path_texts(src)
    resources = resources_of(memory, threads, drives, io, scratch_limit, SEED, volume)
    kind = _kinds.what(names, resources, records=dtype is not None or record is not None)
    if kind not in _kinds.RECORD_KINDS:
        what = "text" if kind in _kinds.TEXT else "a table" if kind in _kinds.TABLES else kind
        hint = "give dtype= or record= if it holds records; explain=True of sort shows the plan of text and tables"
        raise usage("plan", f"only sorts of records are planned here, and the input is {what} ({names[0]})", hint)
    report = plan_of_verb("sort", SortSummary, _verbs._OPTIONS, given)
    assert report.plan is not None
    return report.plan
