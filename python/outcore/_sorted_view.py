"""The common part of sorted views of records, lines and tables.

Contract: a view is a range of an open directory. It opens again in a forked or another process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, SupportsIndex, TypeVar

from . import _outcore
from ._arguments import SEED, Size, StrPath, path_text, resources_of
from ._errors import usage
from ._requests import ResourcesRequest
from ._units import whole

_BATCH_BYTES = 64 << 20
_V = TypeVar("_V", bound="SortedView")


class SortedView:
    """The common part of views of records and of lines."""

    #: The kind of its contents.
    _KIND = "records"

    def __init__(
        self, path: StrPath, *, memory: Size | None = None, io: str | None = None
    ) -> None:
        resources = resources_of(memory, None, (), io, None, SEED)
        self._open(path_text(path), resources, None, None)

    def _open(
        self,
        path: str,
        resources: ResourcesRequest,
        start: int | None,
        stop: int | None,
        native: _outcore.View | None = None,
    ) -> None:
        self._path, self._asked = path, resources
        self._held = _outcore.View.open(path, resources) if native is None else native
        self._process_id = os.getpid()
        self._info = self._held.info()
        kind = "lines" if self._info["terminator"] is not None else "records"
        if self._info["type"] == "table":
            kind = "rows of a table"
        if kind != self._KIND:
            other = {"lines": "LineView", "records": "View"}.get(kind, "TableView")
            raise usage("open view", f"it holds {kind}", f"open it with {other}")
        self._start = 0 if start is None else start
        self._stop = self._info["records"] if stop is None else stop

    @property
    def _native(self) -> _outcore.View:
        """The open view; a forked child opens its own."""
        if self._process_id != os.getpid():
            self._held = _outcore.View.open(self._path, self._asked)
            self._process_id = os.getpid()
        return self._held

    def __reduce__(self) -> tuple[Any, ...]:
        return reopened, (type(self), self._path, self._asked, self._start, self._stop)

    def __repr__(self) -> str:
        what = self._KIND if self._KIND != "records" else f"records of {self._info['type']}"
        return f"<outcore.{type(self).__name__} {self._path!r}: {len(self)} {what}>"

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def path(self) -> str:
        """The view's directory."""
        return self._path

    @property
    def type(self) -> str:
        """The type of a record, in outcore's words: `"u64"`, `"gensort"`, `"lines"`, `"table"`."""
        return self._info["type"]

    @property
    def runs(self) -> int:
        """The number of sorted runs that are merged."""
        return self._info["runs"]

    def split(self: _V, parts: SupportsIndex) -> list[_V]:
        """Views of equal parts, one after another, one for each worker."""
        count = whole("parts", parts)
        if count < 1:
            raise usage("split view", f"{count} parts", "give at least 1")
        borders = [self._start + len(self) * part // count for part in range(count + 1)]
        return [
            reopened(type(self), self._path, self._asked, start, stop, self._native)
            for start, stop in zip(borders, borders[1:])
        ]

    def _index(self, at: SupportsIndex) -> int:
        if not hasattr(at, "__index__"):
            kind = type(at).__qualname__
            raise TypeError(f"a view takes whole numbers and slices, not {kind}: view.search(key) finds a key")
        index = at.__index__()
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"record {at} of a view that has {len(self)}")
        return index

    def _range(self, at: slice) -> tuple[int, int, int]:
        start, stop, step = at.indices(len(self))
        if step < 0:
            hint = "read it forwards and turn the result round: view[i:j][::-1]"
            raise usage("slice view", f"a step of {step}", hint)
        return start, max(start, stop), step

    def _steps(self, size: SupportsIndex | None, record_bytes: int) -> Iterator[tuple[int, int]]:
        step = max(1, _BATCH_BYTES // record_bytes) if size is None else whole("size", size)
        if step < 1:
            raise usage("read batches", "a size of 0", "give at least 1")
        for start in range(0, len(self), step):
            yield start, min(start + step, len(self))

    def _read(self, start: int, stop: int) -> bytearray:
        return self._native.read(self._start + start, self._start + stop)

    def _ranks(self, keys: list[bytes], side: str) -> list[int]:
        """The positions of keys in this part of the view."""
        if side not in ("left", "right"):
            raise usage("search view", f"side is {side!r}", 'give "left" or "right"')
        found = memoryview(self._native.lookup(keys, side == "right")).cast("Q")
        return [min(max(rank, self._start), self._stop) - self._start for rank in found]


def reopened(
    kind: type[_V],
    path: str,
    resources: ResourcesRequest,
    start: int | None,
    stop: int | None,
    native: _outcore.View | None = None,
) -> _V:
    view = kind.__new__(kind)
    view._open(path, resources, start, stop, native)
    return view
