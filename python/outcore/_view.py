"""Sorted views: sorted data that are merged while they are read.

A view is a directory; `View` opens it, in any number of processes. NumPy is needed to look at
records, not to build a view.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex, Union, overload

from ._arguments import SEED, path_text, resources_of
from ._arrays import gathered, is_same
from ._errors import UsageError, usage
from ._reports import ViewSummary
from ._sorted_view import SortedView, reopened
from ._words import Option, report_on_tables

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

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
        NotFoundError: There is no view, or one of its runs is missing.
        CorruptError: The view differs from what was written.
    """

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of a record; bytes if it has none."""
        from ._numpy import numpy

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
        from ._numpy import numpy

        array = numpy.frombuffer(self._read(start, stop), self.dtype)
        columns = self._info["columns"]
        return array if columns is None else array.reshape(-1, columns)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """All records in one array, if they fit in the allowed memory."""
        from ._numpy import numpy

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
        """The position of the first record whose key is not before `key`, as with `bisect_left`; or
        the positions for many keys.

        A key of several numbers or strings is a tuple of them. Many keys are a list of keys, or an
        array: of whole records, of which only the keys are compared, or of numbers if the records are
        numbers. They are looked up together, with many reads in flight.

        Args:
            key: A key, or a list or array of keys.
            side: `"left"`, or `"right"` for the position after the last record that has the key.
        """
        from ._numpy import numpy

        if not isinstance(key, (list, numpy.ndarray)):
            return self._ranks([self._record_of(key)], side)[0]
        if isinstance(key, list):
            records = [self._record_of(one) for one in key]
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
            raise usage("search view", f"a value does not fit in {array.dtype}", "convert it")
        size, data = self._info["record_bytes"], array.tobytes()
        records = [data[at : at + size] for at in range(0, len(data), size)]
        shape = key.shape if columns is None else key.shape[:-1]
        return numpy.array(self._ranks(records, side), numpy.int64).reshape(shape)

    def _record_of(self, key: Key) -> bytes:
        """A record with this key."""
        text = _key_text(key)
        try:
            record: bytes = self._native.record_of(text)
        except UsageError as error:
            if text.startswith("0x"):
                error.reword(f"`{text}`", repr(key))
            raise
        return record

    def batches(self, size: SupportsIndex | None = None) -> Iterator[npt.NDArray[Any]]:
        """All records in order, in arrays of `size`; of about 64 MiB if not given."""
        for start, stop in self._steps(size, self._info["record_bytes"]):
            yield self._array(start, stop)


class LineView(SortedView):
    """Lines in order, merged while they are read; made by `sort_view` with `lines=True`.

    `len(view)` is the number of lines, `view[i]` a line, `view[i:j]` a list of them; lines are
    bytes without their terminator. Arguments, errors, threads and pickling are those of `View`. In
    a view of CSV, lines are records, and may contain newlines.
    """

    _KIND = "lines"

    @property
    def header(self) -> bytes:
        """The bytes before the first line in the sorted file: the header of CSV, or nothing."""
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
        """The position of the first line whose key is not before that of `line`, or the positions
        for many lines.

        Args:
            line: A line, or many, which are looked up together.
            side: `"left"`, or `"right"` for the position after the last line that has the key.
        """
        if isinstance(line, (bytes, str)):
            return self._ranks([os.fsencode(line)], side)[0]
        from ._numpy import numpy

        return numpy.array(self._ranks([os.fsencode(one) for one in line], side), numpy.int64)

    def batches(self, size: SupportsIndex | None = None) -> Iterator[list[bytes]]:
        """All lines in order, in lists of `size`; of about 64 MiB if not given."""
        mean_bytes = self._info["bytes"] // max(1, self._info["records"])
        for start, stop in self._steps(size, max(1, mean_bytes)):
            yield self._lines(start, stop)


def _key_text(key: Key) -> str:
    """A key in the form of the command line."""
    if isinstance(key, tuple):
        return ",".join(_key_text(part) for part in key)
    if isinstance(key, str):
        key = key.encode()
    if isinstance(key, bytes):
        return "0x" + key.hex()
    # NumPy scalars have another `repr`.
    return repr(key.item() if hasattr(key, "item") else key)


def built(
    name: str, kind: type[ViewSummary], phases: tuple[str, ...], options: Mapping[str, Option], given: dict[str, Any]
) -> View | LineView | TableView:
    """The view that a verb builds of these arguments."""
    dst = path_text(given["dst"])
    if dst.startswith("@") and not os.path.isdir(dst):
        hint = "name a directory; its inputs may be datasets"
        raise usage("build view", f"a view is not a dataset ({dst})", hint)
    report = report_on_tables(name, kind, phases, options, given)
    asked = resources_of(given["memory"], given["threads"], given["drives"], given["io"], None, SEED, given["volume"])
    if report.type == "table":
        from ._table_view import TableView

        return reopened(TableView, dst, asked, None, None)
    if report.type == "lines":
        return reopened(LineView, dst, asked, None, None)
    return reopened(View, dst, asked, None, None)
