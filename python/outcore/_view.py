"""Sorted views: sorted data that are merged while they are read.

A view is a directory; `View` opens it, in as many processes as one likes. NumPy is needed to look at
records, not to build a view.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex, Union, overload

from . import _outcore
from ._api import _SEED, Keys, Paths, Record, Size, StrPath, _means, _path, _paths
from ._errors import usage
from ._progress import Watcher, telling
from ._records import records
from ._units import whole
from ._wire import MeansRequest, ViewBuildRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_BATCH_BYTES = 64 << 20
Key = Union[str, bytes, int, float, "tuple[Any, ...]"]


class View:
    """A sorted file that is merged while it is read.

    `len(view)` is the number of records, `view[i]` a record, `view[i:j]` a new NumPy array of them;
    several threads may read at once. A view is pickled as its path and range, so that each worker
    process opens it for itself.

    Args:
        path: The view's directory.
        memory: Memory for all reading, as `"2GiB"` or bytes; by default half of what is free.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.

    Raises:
        NotFoundError: No view is there, or a run of it is gone.
        CorruptError: The view is not what was written.
    """

    def __init__(
        self, path: StrPath, *, memory: Size | None = None, io: str | None = None
    ) -> None:
        means = _means(memory, None, (), io, None, _SEED)
        self._open(_path(path), means, None, None)

    def _open(
        self,
        path: str,
        means: MeansRequest,
        start: int | None,
        stop: int | None,
        native: _outcore.View | None = None,
    ) -> None:
        self._path, self._asked = path, means
        self._native = _outcore.View.open(path, means) if native is None else native
        self._info = self._native.info()
        self._start = 0 if start is None else start
        self._stop = self._info["records"] if stop is None else stop

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._path, self._asked, self._start, self._stop)

    def __repr__(self) -> str:
        return f"<outcore.View {self._path!r}: {len(self)} records of {self._info['type']}>"

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def path(self) -> str:
        """The view's directory."""
        return self._path

    @property
    def type(self) -> str:
        """What a record is, in outcore's words: `"u64"`, `"gensort"`."""
        return self._info["type"]

    @property
    def runs(self) -> int:
        """How many sorted runs are merged."""
        return self._info["runs"]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of a record; bytes where it has none."""
        import numpy

        descr = self._info["descr"]
        if descr is None:
            return numpy.dtype(f"V{self._info['record_bytes']}")
        return numpy.lib.format.descr_to_dtype(ast.literal_eval(descr))

    @overload
    def __getitem__(self, at: slice) -> npt.NDArray[Any]: ...

    @overload
    def __getitem__(self, at: SupportsIndex) -> Any: ...

    def __getitem__(self, at: slice | SupportsIndex) -> Any:
        if not isinstance(at, slice):
            index = at.__index__()
            if index < 0:
                index += len(self)
            if not 0 <= index < len(self):
                raise IndexError(f"record {at} of a view that has {len(self)}")
            return self._array(index, index + 1)[0]
        start, stop, step = at.indices(len(self))
        if step < 0:
            hint = "read it forwards and turn the array round: view[i:j][::-1]"
            raise usage("slice view", f"a step of {step}", hint)
        return self._array(start, max(start, stop))[::step]

    def _array(self, start: int, stop: int) -> npt.NDArray[Any]:
        import numpy

        data = self._native.read(self._start + start, self._start + stop)
        array = numpy.frombuffer(data, self.dtype)
        columns = self._info["columns"]
        return array if columns is None else array.reshape(-1, columns)

    def search(self, key: Key) -> int:
        """The place of the first record whose key is not before `key`, as `bisect_left` has it.

        A key of several numbers or strings is a tuple of them.
        """
        rank = self._native.search(_key_text(key))
        return min(max(rank, self._start), self._stop) - self._start

    def batches(self, size: SupportsIndex | None = None) -> Iterator[npt.NDArray[Any]]:
        """All records in order, in arrays of `size`; of about 64 MiB if not given."""
        record_bytes = self._info["record_bytes"]
        step = max(1, _BATCH_BYTES // record_bytes) if size is None else whole("size", size)
        if step < 1:
            raise usage("read batches", "a size of 0", "give at least 1")
        for start in range(0, len(self), step):
            yield self._array(start, min(start + step, len(self)))

    def split(self, parts: SupportsIndex) -> list[View]:
        """Views of equal parts, one after another, for so many workers."""
        count = whole("parts", parts)
        if count < 1:
            raise usage("split view", f"{count} parts", "give at least 1")
        borders = [self._start + len(self) * part // count for part in range(count + 1)]
        return [
            _reopen(self._path, self._asked, start, stop, self._native)
            for start, stop in zip(borders, borders[1:])
        ]


def _reopen(
    path: str,
    means: MeansRequest,
    start: int,
    stop: int,
    native: _outcore.View | None = None,
) -> View:
    view = View.__new__(View)
    view._open(path, means, start, stop, native)
    return view


def _key_text(key: Key) -> str:
    """A key as the command would be given it."""
    if isinstance(key, tuple):
        return ",".join(_key_text(part) for part in key)
    if isinstance(key, str):
        key = key.encode()
    if isinstance(key, bytes):
        return "0x" + key.hex()
    # Scalars of NumPy say themselves in other words.
    return repr(key.item() if hasattr(key, "item") else key)


def sort_view(
    src: Paths,
    dst: StrPath,
    *,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    descending: bool = False,
    stable: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    force: bool = False,
    progress: Watcher | bool | None = None,
) -> View:
    """Sorts files into a view: the last merge happens while it is read.

    Building a view and reading it once moves two reads and one write of the data, where `sort` and
    reading its result move three and two.

    Args:
        src: Files to sort, in order: raw records, `.npy`, or the manifest of shards.
        dst: The view's directory; its last part is made.
        dtype: What a record is, as for `sort`.
        record: In place of `dtype`, the size of a record in bytes, or that and its keys.
        key: The fields or places to sort by, as for `sort`.
        descending: Largest first.
        stable: Equal keys keep the order of the input.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        drives: Directories on drives, or a `drives.toml`; runs are spread over all of them.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        force: Replace a view that exists.
        progress: `True` for a bar, or a function that is called with a `Progress`.

    Raises:
        UsageError: The request makes no sense, or something is in the way.
        MemoryBudgetError: The memory allowed is too little.
        NoSpaceError: Too little room for the runs.
        KeyboardInterrupt: Ctrl-C; nothing is left behind.
    """
    means = _means(memory, threads, drives, io, None, _SEED)
    request = ViewBuildRequest(
        inputs=_paths(src),
        output=_path(dst),
        records=records(dtype, record, key),
        means=means,
        descending=bool(descending),
        stable=bool(stable),
        force=bool(force),
    )
    with telling(progress, ("sort runs", "merge runs")) as tell:
        native = _outcore.view_build(request, tell)
    view = View.__new__(View)
    view._open(_path(dst), means, None, None, native)
    return view
