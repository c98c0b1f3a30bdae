"""Lazy datasets over files: steps now, one pass for each question asked.

    >>> import outcore
    >>> keys = outcore.open("keys-*.bin", dtype="u64", memory="2GiB")
    >>> keys.filter(outcore.x % 2 == 0).map(outcore.x * 3).sum()

Steps in text or over `outcore.x` and `outcore.col` stay in Rust at full speed. A function gets a
NumPy array of a whole batch and gives one back; it is called from several threads, and works on
all cores where it releases the interpreter.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex, Union

from . import _api as api
from . import _outcore
from . import _summary as summary
from ._column import Column
from ._errors import usage
from ._progress import Watcher, telling
from ._records import records
from ._summary import GenSummary, SortSummary
from ._wire import DatasetRequest, StepRequest, WriteTo

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    _Array = npt.NDArray[Any]
    _BatchFunction = Callable[[_Array], _Array]

Expression = Union[str, Column]
Paths = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]


def open(
    src: Paths,
    *,
    dtype: npt.DTypeLike | None = None,
    record: api.Record | None = None,
    memory: api.Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
) -> Dataset:
    """A dataset over files; nothing is read but headers.

    Args:
        src: Files in order, as if they were one: raw records, `.npy`, the manifest of shards, or a
            pattern (`"part-*.bin"`, sorted by name).
        dtype, record: What a record is, as in `sort`.
        memory, threads, drives, io: What each pass may use, as in `sort`.

    Raises: What `sort` raises.
    """
    request = DatasetRequest(
        inputs=_found(src),
        records=records(dtype, record, None),
        means=api._means(memory, threads, drives, io, None, api._SEED),
        steps=[],
    )
    return Dataset(request, _dtype_of(dtype), (dtype, record))


class Dataset:
    """Records of files and what is done to each; see `open`."""

    def __init__(
        self, request: DatasetRequest, dtype: np.dtype[Any] | None, source: tuple[Any, Any]
    ) -> None:
        self._request = request
        self._source = source
        name, item_bytes, self._steps = _outcore.describe(request)
        self._dtype = dtype if dtype is not None else _dtype_named(name, item_bytes, request)

    @property
    def dtype(self) -> np.dtype[Any]:
        """What an item is, to NumPy."""
        return self._dtype

    def __repr__(self) -> str:
        return f"<outcore.Dataset: {self._steps}>"

    def filter(self, condition: Expression | _BatchFunction) -> Dataset:
        """The items for which `condition` is true: an expression, or a function from a batch to a
        mask. In order."""
        if isinstance(condition, (str, Column)):
            return self._then("where", str(condition), self._dtype)
        dtype, mask_of = self._dtype, condition

        def keep(data: bytes) -> bytes:
            import numpy

            items = numpy.frombuffer(data, dtype)
            kept: bytes = items[numpy.asarray(mask_of(items), dtype=bool)].tobytes()
            return kept

        return self._call(keep, dtype, filters=True)

    def map(self, f: Expression | _BatchFunction, dtype: npt.DTypeLike | None = None) -> Dataset:
        """What `f` makes of each item: an expression, or a function from a batch to an array as
        long. A function's `dtype` is found out with an empty batch unless it is given."""
        if isinstance(f, (str, Column)):
            return self._then("map", str(f), None)
        import numpy

        before, function = self._dtype, f
        if dtype is None:
            after = numpy.asarray(function(numpy.empty(0, before))).dtype
        else:
            after = numpy.dtype(dtype)

        def apply(data: bytes) -> bytes:
            items = numpy.frombuffer(data, before)
            made = numpy.asarray(function(items)).astype(after, copy=False)
            if len(made) != len(items):
                raise ValueError(f"a batch of {len(items)} items became {len(made)}: use filter")
            return made.tobytes()

        return self._call(apply, after, filters=False)

    def sum(self) -> Any:
        """Sum of all numbers: exact for integers, whatever its size."""
        return self.reduce("sum")

    def count(self) -> int:
        """Number of items."""
        return int(self.reduce("count"))

    def min(self) -> Any:
        """The smallest number; NaN if there is one; `None` of nothing."""
        return self.reduce("min")

    def max(self) -> Any:
        """The largest number; NaN if there is one; `None` of nothing."""
        return self.reduce("max")

    def mean(self) -> float | None:
        """Mean of all numbers; `None` of nothing."""
        found: float | None = self.reduce("mean")
        return found

    def reduce(
        self, how: str | Callable[[Any, Any], Any], progress: Watcher | bool | None = None
    ) -> Any:
        """All numbers folded to one: by name (`"sum"`, `"count"`, `"min"`, `"max"`, `"mean"`), by an
        associative expression of `a` and `b` (`"a ^ b"`), or by a function of two values, which
        folds what it makes of each batch (a NumPy ufunc folds batches itself)."""
        if isinstance(how, str):
            with telling(progress, ("reduce",)) as tell:
                return _outcore.reduce(self._request, [how], tell)[0]
        fold = getattr(how, "reduce", None)
        found: Any = None
        for batch in self:
            if len(batch) == 0:
                continue
            values = [fold(batch)] if callable(fold) else batch.tolist()
            for value in values:
                found = value if found is None else how(found, value)
        return found

    def write(
        self,
        dst: api.StrPath,
        *,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> GenSummary:
        """Writes all items, in order; the output appears whole or not at all."""
        return self._write(dst, "items", force, progress)

    def unique(
        self,
        dst: api.StrPath,
        *,
        counts: bool = False,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> GenSummary:
        """Writes each distinct item once, sorted; with `counts`, each followed by how often it
        occurs (8 bytes)."""
        return self._write(dst, "counts" if counts else "unique", force, progress)

    def sort(self, dst: api.StrPath, **options: Any) -> SortSummary:
        """Sorts the files as they are; options are those of `outcore.sort`."""
        if self._request["steps"]:
            raise usage("sort", "the dataset has steps", "write it first, then sort the file")
        dtype, record = self._source
        return api.sort(self._request["inputs"], dst, dtype=dtype, record=record, **options)

    def explain(self) -> str:
        """What a pass over it would do."""
        return _outcore.explain(self._request, "consume")

    def __iter__(self) -> Iterator[_Array]:
        """All items in order, in batches."""
        import numpy

        for data in _outcore.batches(self._request):
            yield numpy.frombuffer(data, self._dtype)

    def _write(
        self, dst: api.StrPath, how: str, force: bool, progress: Watcher | bool | None
    ) -> GenSummary:
        to = WriteTo(output=os.fsdecode(dst), force=bool(force))
        with telling(progress, ("write",)) as tell:
            return summary.generated_of(_outcore.write(self._request, to, how, tell))

    def _then(self, kind: str, expression: str, dtype: np.dtype[Any] | None) -> Dataset:
        step = StepRequest(
            kind=kind, expression=expression, function=None, records=None, filters=kind == "where"
        )
        return Dataset(self._with(step), dtype, self._source)

    def _call(
        self, function: Callable[[bytes], bytes], dtype: np.dtype[Any], filters: bool
    ) -> Dataset:
        step = StepRequest(
            kind="call",
            expression=None,
            function=function,
            records=records(dtype, None, None),
            filters=filters,
        )
        return Dataset(self._with(step), dtype, self._source)

    def _with(self, step: StepRequest) -> DatasetRequest:
        return DatasetRequest(
            inputs=self._request["inputs"],
            records=self._request["records"],
            means=self._request["means"],
            steps=[*self._request["steps"], step],
        )


def _found(src: Paths) -> list[str]:
    names = api._paths(src)
    if isinstance(src, str) and glob.has_magic(src) and not os.path.exists(src):
        names = sorted(glob.glob(src))
        if not names:
            raise usage("open input", f"no file is called {src}", "check the pattern")
    return names


def _dtype_of(dtype: npt.DTypeLike | None) -> np.dtype[Any] | None:
    """The dtype that was given, where it is one of NumPy's."""
    if dtype is None or isinstance(dtype, str):
        return None
    import numpy

    return numpy.dtype(dtype)


def _dtype_named(name: str, item_bytes: int, request: DatasetRequest) -> np.dtype[Any]:
    """NumPy's dtype for a type of the engine's."""
    import numpy

    number, _, columns = name.partition("x")
    is_big = number.endswith("be")
    number = number.removesuffix("be").removesuffix("le")
    kinds = {"u": "u", "i": "i", "f": "f"}
    if number[:1] in kinds and number[1:].isdigit() and int(number[1:]) <= 64:
        code = f"{'>' if is_big else '<'}{number[0]}{int(number[1:]) // 8}"
        return numpy.dtype((code, (int(columns),))) if columns else numpy.dtype(code)
    if not request["steps"] and request["inputs"][0].endswith(".npy"):
        of_file: np.dtype[Any] = numpy.load(request["inputs"][0], mmap_mode="r").dtype
        return of_file
    return numpy.dtype(f"V{item_bytes}")
