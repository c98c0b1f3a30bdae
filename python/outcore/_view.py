"""Sorted views: sorted data that are merged while they are read.

A view is a directory; `View` opens it, in as many processes as one likes. NumPy is needed to look at
records, not to build a view.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Union, overload

from . import _kinds
from . import _outcore
from ._arguments import (
    SEED,
    Keys,
    LinesHow,
    Paths,
    Record,
    Size,
    StrPath,
    insists,
    resources_of,
    path_text,
    path_texts,
    texts,
)
from ._arrays import gathered, is_same
from ._errors import usage
from ._held import is_held
from ._progress import Watcher, telling
from ._records import records
from ._sorted_view import SortedView, reopened
from ._units import whole
from ._requests import ViewBuildRequest, ViewLinesRequest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._held import TableSource
    from ._table_view import TableView

Key = Union[str, bytes, int, float, "tuple[Any, ...]"]




class View(SortedView):
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
            index = self._index(at)
            return self._array(index, index + 1)[0]
        start, stop, step = self._range(at)
        return self._array(start, stop)[::step]

    def _array(self, start: int, stop: int) -> npt.NDArray[Any]:
        import numpy

        array = numpy.frombuffer(self._read(start, stop), self.dtype)
        columns = self._info["columns"]
        return array if columns is None else array.reshape(-1, columns)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """All records in one array, if they fit into the memory allowed."""
        import numpy

        columns = self._info["columns"]
        as_read = self.dtype if columns is None else numpy.dtype((self.dtype, (columns,)))
        parts = (batch.tobytes() for batch in self.batches())
        least_bytes = len(self) * as_read.itemsize
        return gathered(parts, self._asked, least_bytes, as_read, dtype, copy)

    @overload
    def search(self, key: Key, side: str = "left") -> int: ...

    @overload
    def search(
        self, key: npt.NDArray[Any] | list[Any], side: str = "left"
    ) -> npt.NDArray[np.int64]: ...

    def search(self, key: Any, side: str = "left") -> int | npt.NDArray[np.int64]:
        """The place of the first record whose key is not before `key`, as `bisect_left` has it; or of many.

        A key of several numbers or strings is a tuple of them. Many keys are a list of such, or an array: of whole records, of which
        only the keys count, or of the numbers that are the records. They are looked up together, with many reads in flight.

        Args:
            key: A key, or a list or array of keys.
            side: `"left"`, or `"right"` for the place behind the last record that has the key.
        """
        import numpy

        if not isinstance(key, (list, numpy.ndarray)):
            return self._ranks([self._native.record_of(_key_text(key))], side)[0]
        if isinstance(key, list):
            records = [self._native.record_of(_key_text(one)) for one in key]
            return numpy.array(self._ranks(records, side), numpy.int64)
        columns = self._info["columns"]
        is_plain = self.dtype.names is None and self.dtype.kind in "uif"
        if not is_plain and key.dtype != self.dtype:
            hint = f"give records of {self.dtype}, or a list of keys"
            raise usage("search view", f"an array of {key.dtype}", hint)
        if is_plain and key.dtype.kind not in "uifb":
            raise usage("search view", f"an array of {key.dtype}", "give numbers, or a list of keys")
        if columns is not None and (key.ndim == 0 or key.shape[-1] != columns):
            raise usage("search view", f"an array of shape {key.shape}", f"give rows of {columns}")
        array = key.astype(self.dtype, order="C")
        if is_plain and not is_same(key, array):
            raise usage("search view", f"a value that {array.dtype} does not hold", "convert it")
        size, data = self._info["record_bytes"], array.tobytes()
        records = [data[at : at + size] for at in range(0, len(data), size)]
        shape = key.shape if columns is None else key.shape[:-1]
        return numpy.array(self._ranks(records, side), numpy.int64).reshape(shape)

    def batches(self, size: SupportsIndex | None = None) -> Iterator[npt.NDArray[Any]]:
        """All records in order, in arrays of `size`; of about 64 MiB if not given."""
        for start, stop in self._steps(size, self._info["record_bytes"]):
            yield self._array(start, stop)


class LineView(SortedView):
    """Lines in order, merged while they are read; made by `sort_view` with `lines=True`.

    `len(view)` is the number of lines, `view[i]` a line, `view[i:j]` a list of them; lines are bytes
    without their end. Arguments, errors, threads and pickling are as `View` has them. Of a view of CSV
    lines are records, and may hold newlines.
    """

    _KIND = "lines"

    @property
    def header(self) -> bytes:
        """What stands before the first line in the sorted file: the header of CSV, or nothing."""
        return self._info["front"]

    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...

    @overload
    def __getitem__(self, at: SupportsIndex) -> bytes: ...

    def __getitem__(self, at: slice | SupportsIndex) -> list[bytes] | bytes:
        if not isinstance(at, slice):
            index = self._index(at)
            return self._lines(index, index + 1)[0]
        start, stop, step = self._range(at)
        return self._lines(start, stop)[::step]

    def _lines(self, start: int, stop: int) -> list[bytes]:
        if start == stop:
            return []
        end = bytes([self._info["terminator"] or 0])
        return bytes(self._read(start, stop)).removesuffix(end).split(end)

    @overload
    def search(self, line: bytes | str, side: str = "left") -> int: ...

    @overload
    def search(
        self, line: list[bytes] | list[str], side: str = "left"
    ) -> npt.NDArray[np.int64]: ...

    def search(
        self, line: bytes | str | list[bytes] | list[str], side: str = "left"
    ) -> int | npt.NDArray[np.int64]:
        """The place of the first line whose key is not before that of `line`, or those of many lines.

        Args:
            line: A line, or many, which are looked up together.
            side: `"left"`, or `"right"` for the place behind the last line that has the key.
        """
        if isinstance(line, (bytes, str)):
            return self._ranks([os.fsencode(line)], side)[0]
        import numpy

        return numpy.array(self._ranks([os.fsencode(one) for one in line], side), numpy.int64)

    def batches(self, size: SupportsIndex | None = None) -> Iterator[list[bytes]]:
        """All lines in order, in lists of `size`; of about 64 MiB if not given."""
        mean_bytes = self._info["bytes"] // max(1, self._info["records"])
        for start, stop in self._steps(size, max(1, mean_bytes)):
            yield self._lines(start, stop)


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


@overload
def sort_view(
    src: Paths,
    dst: StrPath,
    *,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    lines: Literal[False] = False,
    descending: bool = False,
    stable: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    force: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> View: ...


@overload
def sort_view(
    src: Paths,
    dst: StrPath,
    *,
    key: Keys | None = None,
    lines: Literal[True, "any"],
    separator: str | None = None,
    order: str = "",
    by: Keys | None = None,
    csv: bool = False,
    header: bool = True,
    zero_terminated: bool = False,
    descending: bool = False,
    stable: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    force: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> LineView: ...


@overload
def sort_view(
    src: Paths,
    dst: StrPath,
    *,
    csv: Literal[True],
    by: Keys,
    lines: LinesHow = False,
    separator: str | None = None,
    order: str = "",
    header: bool = True,
    descending: bool = False,
    stable: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    force: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> LineView: ...


@overload
def sort_view(
    src: Paths | TableSource,
    dst: StrPath,
    *,
    by: Keys,
    columns: Iterable[str] | None = None,
    union: bool = False,
    schema: str | Mapping[str, str] | None = None,
    descending: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    force: bool = False,
    progress: Watcher | bool | None = None,
) -> TableView: ...


def sort_view(
    src: Paths | TableSource,
    dst: StrPath,
    *,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    lines: LinesHow = False,
    separator: str | None = None,
    order: str = "",
    by: Keys | None = None,
    csv: bool = False,
    header: bool = True,
    zero_terminated: bool = False,
    columns: Iterable[str] | None = None,
    union: bool = False,
    schema: str | Mapping[str, str] | None = None,
    descending: bool = False,
    stable: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    force: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> View | LineView | TableView:
    """Sorts files into a view: the last merge happens while it is read.

    Building a view and reading it once moves two reads and one write of the data, where `sort` and
    reading its result move three and two.

    Args:
        src: Files to sort, in order: raw records, `.npy`, the manifest of shards, lines, or a table as in `table`, of which
            the result is a `TableView`. What files hold is told as by `sort`.
        dst: The view's directory; its last part is made.
        dtype: What a record is, as for `sort`.
        record: In place of `dtype`, the size of a record in bytes, or that and its keys.
        key: The fields or places to sort by, as for `sort`; for lines, keys as GNU sort's `-k` has
            them, the most significant first: `"2,2n"`.
        lines: The files are text, whatever they are called; the result is a `LineView`. Compressed and binary files are treated
            as in `open`; `"any"` takes any bytes for lines.
        separator: Of lines, the byte between fields, as `-t`; without it fields begin where blanks do.
        order: Of lines, letters of GNU sort for lines and keys without their own: `"n"`, `"V"`.
        by: Of JSON lines, paths of fields: `".user.id"`, or `".price:desc"` for the largest first.
            With `csv`, names of columns or their numbers from 1: `"price:nr"`. The words of tables
            (`asc`, `desc`, `nulls-first`, `nulls-last`) may follow colons, too. Of tables, columns.
        columns, union, schema: Of tables, as in `table`.
        csv: The lines are records of CSV; quotes may hold separators and newlines. `separator` is
            by default that of a sample of the records.
        header: The first line of each file of CSV names its columns; `LineView.header` has it.
        zero_terminated: Lines end with NUL, not newline.
        descending: Largest first.
        stable: Equal keys keep the order of the input.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        drives: Directories on drives, or a `drives.toml`; runs are spread over all of them.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        force: Replace a view that exists.
        volume: The drives file of a volume, of which `src` may name datasets, as for `sort`.
        progress: `True` for a bar, or a function that is called with a `Progress`.

    Raises:
        UsageError: The request makes no sense, or something is in the way.
        MemoryBudgetError: The memory allowed is too little.
        NoSpaceError: Too little room for the runs.
        KeyboardInterrupt: Ctrl-C; nothing is left behind.
    """
    given = dict(locals())
    resources = resources_of(memory, threads, drives, io, None, SEED, volume)
    asked = None
    kind = _kinds.HELD
    if not is_held(src):
        kind = _kinds.what(
            path_texts(src),  # type: ignore[arg-type]
            resources,
            records=dtype is not None or record is not None,
            lines=bool(lines),
            csv=csv,
            table=columns is not None or union or schema is not None,
            by=[] if lines else texts(by),
            text_order=bool(order),
        )
    if lines and by is not None and not csv:
        kind = _kinds.JSON
    if kind in (_kinds.CSV, _kinds.JSON) and by is None and not csv:
        kind = _kinds.LINES
    _kinds.check(sort_view, kind, given)
    if kind in _kinds.TABLES:
        from ._table_view import build

        how = {"memory": memory, "threads": threads, "drives": drives, "io": io}
        shape = {"columns": columns, "union": union, "schema": schema, "separator": separator}
        chosen = (by or (), bool(descending), bool(force))
        return build(src, dst, chosen, {**how, **shape}, progress)
    is_text = kind in _kinds.TEXT
    if is_text:
        if csv and (by is None or zero_terminated):
            hint = "name columns with by=, or leave csv out; its records end with newlines"
            raise usage("sort", "CSV without a column, or with NULs", hint)
        asked = _lines_request(key, separator, order, by, zero_terminated)
        asked["is_csv"], asked["has_header"] = kind == _kinds.CSV, bool(header)
        asked["insists"] = insists(lines)
    request = ViewBuildRequest(
        inputs=path_texts(src),  # type: ignore[arg-type]
        output=path_text(dst),
        records=records(dtype, record, None if is_text else key),
        lines=asked,
        resources=resources,
        descending=bool(descending),
        stable=bool(stable),
        force=bool(force),
    )
    with telling(progress, ("sort runs", "merge runs")) as tell:
        native = _outcore.view_build(request, tell)
    opened: type[View] | type[LineView] = LineView if is_text else View
    return reopened(opened, path_text(dst), resources, None, None, native)


def _lines_request(
    key: Keys | None,
    separator: str | None,
    order: str,
    by: Keys | None,
    zero_terminated: bool,
) -> ViewLinesRequest:
    if key is not None and by is not None:
        raise usage("sort", "keys both by key and by by", "give one of the two")
    if separator is not None and len(os.fsencode(separator)) != 1:
        raise usage("sort", "the separator is not one byte", "give one character of ASCII")
    return ViewLinesRequest(
        line_keys=texts(key),
        letters=order,
        separator=None if separator is None else os.fsencode(separator)[0],
        by=texts(by),
        terminator=0 if zero_terminated else ord("\n"),
        insists=False,
        is_csv=False,
        has_header=False,
    )
