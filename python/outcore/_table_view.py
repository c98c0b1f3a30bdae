"""Sorted views of tables: rows in the order of columns that are merged while they are read.

    >>> import datetime
    >>> view = outcore.sort_view("logs/*.parquet", "logs.view", by=["country", "time:desc"])
    >>> view[1000:1010]                     # a pyarrow.Table
    >>> when = datetime.datetime(2024, 1, 31)
    >>> view.find(("de", when))             # the rows of a key
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, SupportsIndex

from ._errors import usage
from ._sorted_view import SortedView
from ._units import whole


class TableView(SortedView):
    """Rows of a table in order, merged while they are read; made by `sort_view` with `by`.

    `len(view)` is the number of rows, `view[i:j]` a `pyarrow.Table` of them, `view[i]` a row as a
    dict. Iterating gives record batches. Other libraries take the view itself:
    `polars.DataFrame(view)`, `outcore.table(view)`. Arguments, errors, threads and pickling are
    those of `View`. pyarrow is needed to look at rows, but not to pass them on.
    """

    _KIND = "rows of a table"

    @property
    def keys(self) -> list[str]:
        """The columns of the order, the most significant first."""
        return self._native.keys()

    @property
    def schema(self) -> Any:
        """The table's `pyarrow.Schema`."""
        return self.reader(0, 0).schema

    def reader(self, start: int = 0, stop: int | None = None) -> Any:
        """A `pyarrow.RecordBatchReader` over rows `start` to `stop`."""
        pyarrow = _pyarrow()
        return pyarrow.RecordBatchReader.from_stream(_Rows(self, start, stop))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for another library."""
        return self._native.stream(self._start, self._stop)

    def __iter__(self) -> Iterator[Any]:
        """The record batches, as pyarrow's."""
        return iter(self.reader())

    def __getitem__(self, at: slice | SupportsIndex) -> Any:
        if not isinstance(at, slice):
            index = self._index(at)
            return self.reader(index, index + 1).read_all().to_pylist()[0]
        start, stop, step = self._range(at)
        rows = self.reader(start, stop).read_all()
        return rows if step == 1 else rows.take(list(range(0, len(rows), step)))

    def batches(self, size: SupportsIndex | None = None) -> Iterator[Any]:
        """All rows in order, in tables of `size` rows; without `size`, in batches of some thousand rows."""
        if size is None:
            yield from self
            return
        step = whole("size", size)
        if step < 1:
            raise usage("read batches", "a size of 0", "give at least 1")
        for start in range(0, len(self), step):
            yield self[start : start + step]

    def search(self, key: Any, side: str = "left") -> int:
        """The position of the first row whose first columns of the order are not before `key`, as
        with `bisect_left`.

        Args:
            key: A value of the first column of the order, or a tuple of values of the first columns; `None` is null.
            side: `"left"`, or `"right"` for the position after the last row that has the key.
        """
        if side not in ("left", "right"):
            raise usage("search view", f"side is {side!r}", 'give "left" or "right"')
        return self._found(key)[side == "right"]

    def find(self, key: Any) -> Any:
        """The rows that have the key, as a `pyarrow.Table`; the key is as in `search`."""
        start, stop = self._found(key)
        return self[start:stop]

    def _found(self, key: Any) -> tuple[int, int]:
        pyarrow = _pyarrow()
        values = key if isinstance(key, tuple) else (key,)
        keys = self.keys
        if not 1 <= len(values) <= len(keys):
            hint = f"the view is in the order of {', '.join(keys)}"
            raise usage("search view", f"a key of {len(values)} values", hint)
        schema = self.schema
        arrays = []
        for name, value in zip(keys, values):
            kind = schema.field(name).type
            plain = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
            try:
                array = pyarrow.array([value], plain)
                arrays.append(array.cast(kind) if plain != kind else array)
            except (pyarrow.ArrowException, OverflowError) as error:
                cause = f"{value!r} is not a value of column `{name}`, which is {kind}"
                raise usage("search view", cause, "give a value of that type") from error
        row = pyarrow.Table.from_arrays(arrays, [f"key {at}" for at in range(len(arrays))])
        start, stop = self._native.find(row)
        inside = [min(max(place, self._start), self._stop) - self._start for place in (start, stop)]
        return inside[0], inside[1]


class _Rows:
    """A range of a view, for consumers of Arrow streams."""

    def __init__(self, view: TableView, start: int, stop: int | None) -> None:
        self._view = view
        self._from = view._start + start
        self._to = view._stop if stop is None else view._start + stop

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._view._native.stream(self._from, self._to)


def _pyarrow() -> Any:
    try:
        import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        hint = "install it, or give the view to a library that takes __arrow_c_stream__"
        raise usage("read view", "pyarrow is not installed", hint) from None
    return pyarrow
