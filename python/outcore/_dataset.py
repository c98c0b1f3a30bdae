"""Lazy datasets over files: steps now, work for each question asked.

    >>> import outcore
    >>> keys = outcore.open("keys-*.bin", dtype="u64", memory="2GiB")
    >>> keys.filter(outcore.x % 2 == 0).map(outcore.x * 3).sum()

Steps that go item by item fuse into one pass that writes nothing in between. `sort`, `shuffle`,
`unique`, `count_by`, `reverse`, `merge` and `scan` need all items: what they make goes straight to the output where they
come last, else to private scratch that is gone when the question is answered.

Steps in text or over `outcore.x` and `outcore.col` stay in Rust at full speed. A function gets a
NumPy array of a whole batch and gives one back; it is called from several threads, and works on
all cores where it releases the interpreter. What it raises stops the job and is raised again;
as after Ctrl-C, nothing is left behind.
"""

from __future__ import annotations

import functools
import io
import math
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Union

from . import _arguments as arguments
from . import _outcore
from ._arrays import gathered, is_same
from ._column import Column, Expression
from ._errors import usage
from ._lazy import Lazy
from ._progress import Watcher, telling
from ._records import records
from ._units import whole
from ._requests import (
    CallStep,
    DatasetRequest,
    EnumerateStep,
    FlatMapStep,
    MapStep,
    MergeStep,
    ReverseStep,
    ScanStep,
    SortStep,
    UniqueStep,
    WhereStep,
    WindowsStep,
    WriteParts,
    Zipped,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    _Array = npt.NDArray[Any]
    _BatchFunction = Callable[[_Array], _Array]

#: Names of the items of zipped inputs.
_NAMES = ("x", "y", "z", "w", "x4", "x5", "x6", "x7")
#: Numbers of the engine's that are letters and bits to NumPy too.
_KINDS = "uif"
#: Bytes that a header of a file hardly has more of.
_HEADER_MAX = 64 << 10


class Dataset(Lazy):
    """Records of files and what is done to each; see `outcore.open`."""

    def __init__(
        self, request: DatasetRequest, dtype: np.dtype[Any] | Dataset | None
    ) -> None:
        super().__init__(request)
        #: The first dataset before this one that has the same items.
        self._like: Dataset | None = (dtype._like or dtype) if isinstance(dtype, Dataset) else None
        #: What NumPy calls an item; nothing where the engine knows.
        self._named = None if isinstance(dtype, Dataset) else dtype

    @property
    def _dtype(self) -> np.dtype[Any]:
        return (self._like or self)._dtype_of_items

    @functools.cached_property
    def _dtype_of_items(self) -> np.dtype[Any]:
        # Asked for late: what needs no array needs no NumPy.
        return self._dtype_of_engine() if self._named is None else self._named

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an item in NumPy."""
        return self._dtype

    # Steps.

    def filter(self, condition: Expression | _BatchFunction) -> Dataset:
        """The items for which `condition` is true: an expression, or a function from a batch to a
        mask. In order."""
        if isinstance(condition, (str, Column)):
            return Dataset(self._with(WhereStep(condition=str(condition))), self)
        dtype, mask_of = self._dtype, condition

        def keep(data: bytes) -> bytes:
            from ._numpy import numpy

            items = numpy.frombuffer(data, dtype)
            kept: bytes = items[numpy.asarray(mask_of(items), dtype=bool)].tobytes()
            return kept

        return self._call(keep, dtype, filters=True)

    def map(self, f: Expression | _BatchFunction, dtype: npt.DTypeLike | None = None) -> Dataset:
        """What `f` makes of each item: an expression, or a function from a batch to an array as
        long. A function's `dtype` is found out with an empty batch unless it is given.

        An expression over vectors works element by element, as NumPy does: of rows of 16 numbers,
        `x * 2` makes rows of 16, and `x[0] * 2` one number. All other expressions, conditions of
        `filter` for example, are over elements."""
        if isinstance(f, (str, Column)):
            return Dataset(self._with(MapStep(expression=str(f))), None)
        from ._numpy import numpy

        before, function = self._dtype, f
        after = self._dtype_made(function, dtype)

        def apply(data: bytes) -> bytes:
            items = numpy.frombuffer(data, before)
            made = numpy.asarray(function(items)).astype(after.base, copy=False)
            if len(made) != len(items):
                raise ValueError(f"a batch of {len(items)} items became {len(made)}: use filter")
            return made.tobytes()

        return self._call(apply, after)

    def flat_map(
        self,
        f: Expression | Sequence[Expression] | _BatchFunction,
        dtype: npt.DTypeLike | None = None,
    ) -> Dataset:
        """All that `f` makes of each item, one after another: one or several expressions of one type,
        or a function from a batch to an array of any length. A function may be called twice for a
        batch, so its effects should be idempotent; its `dtype` is as in `map`."""
        if isinstance(f, (str, Column)):
            f = [f]
        if not callable(f):
            step = FlatMapStep(expressions=[str(expression) for expression in f])
            return Dataset(self._with(step), None)
        from ._numpy import numpy

        before, function = self._dtype, f
        after = self._dtype_made(function, dtype)

        def apply(data: bytes) -> bytes:
            made = numpy.asarray(function(numpy.frombuffer(data, before)))
            return made.astype(after.base, copy=False).tobytes()

        return self._call(apply, after, expands=True)

    def enumerate(self) -> Dataset:
        """Each item behind its position, from 0: the fields `position` and `value`."""
        from ._numpy import numpy

        dtype = numpy.dtype([("position", "<u8"), ("value", self._dtype)])
        step = EnumerateStep(numbered=records(dtype, None, None))
        return Dataset(self._with(step), dtype)

    def windows(self, length: SupportsIndex) -> Dataset:
        """Each item with those that follow it, as `zip` puts them together: `length` in all, 2 to 8. The
        items are read once, or up to `length` times where `length` - 1 of them have more than 4 KiB."""
        step = WindowsStep(window=whole("length", length))
        return Dataset(self._with(step), self._side_by_side([self._dtype] * whole("length", length)))

    def reverse(self) -> Dataset:
        """The last item first."""
        return Dataset(self._with(ReverseStep(is_reversed=True)), self)

    def zip(self, *others: Dataset) -> Dataset:
        """The items of several datasets side by side, which must have as many; before any step.

        Plain numbers are `x`, `y`, `z` in expressions, fields of records `x.name`, `y.name`. To
        NumPy an item is a row where all have one dtype, else it has the fields `x`, `y`, `z`.
        """
        zipped = [
            Zipped(inputs=other._request["inputs"], records=other._request["records"])
            for other in others
        ]
        if any(
            one._request["steps"] or one._request["zipped"] or not one._request["inputs"]
            for one in (self, *others)
        ):
            hint = "zip first and map afterwards, or write the mapped dataset to a file first"
            raise usage("zip", "only datasets of unmodified files can be zipped", hint)
        dtype = self._side_by_side([self._dtype, *(other._dtype for other in others)])
        return Dataset(DatasetRequest({**self._request, "zipped": zipped}), dtype)

    def merge(
        self, *, key: arguments.Keys | None = None, descending: bool = False, stable: bool = False
    ) -> Dataset:
        """The items of files that are each in order already, in one order: one pass, where a sort
        takes two. Options mean what they mean in `sort`; files that are not in order give a result
        that is not."""
        step = MergeStep(
            merge_by=None if key is None else records(self._dtype, None, key),
            descending=bool(descending),
            stable=bool(stable),
        )
        return Dataset(self._with(step), self)

    def sort(
        self,
        *,
        key: arguments.Keys | None = None,
        descending: bool = False,
        stable: bool = False,
        unique: bool = False,
    ) -> Dataset:
        """The items in order, as `outcore.sort` has it; its options mean the same."""
        step = SortStep(
            records=None if key is None else records(self._dtype, None, key),
            descending=bool(descending),
            stable=bool(stable),
            unique=bool(unique),
        )
        return Dataset(self._with(step), self)

    def shuffle(self, seed: SupportsIndex = arguments.SEED, *, epoch: SupportsIndex = 0) -> Dataset:
        """The items in a random order, every order being equally likely. It depends on seed, epoch
        and the items alone; another epoch is another, independent order."""
        return Dataset(self._with(self._shuffle_step(seed, epoch)), self)

    def unique(self) -> Dataset:
        """Each distinct item once, in order."""
        return Dataset(self._with(UniqueStep(is_counted=False, counted=None)), self)

    def count_by(self) -> Dataset:
        """Each distinct item and how often it occurs, in order: the fields `value` and `count`."""
        from ._numpy import numpy

        dtype = numpy.dtype([("value", self._dtype), ("count", "<u8")])
        step = UniqueStep(is_counted=True, counted=records(dtype, None, None))
        return Dataset(self._with(step), dtype)

    def scan(
        self, op: Literal["sum", "product", "min", "max"] = "sum", *, exclusive: bool = False
    ) -> Dataset:
        """The fold of all numbers up to each, in their own type: integers wrap around, so small
        ones want `map("u64(x)")` first. `exclusive` leaves each number out of its own fold."""
        return Dataset(self._with(ScanStep(operator=op, exclusive=bool(exclusive))), None)

    # Questions.

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
        self,
        how: str | Callable[[Any, Any], Any],
        of_batch: Callable[[_Array], Any] | None = None,
        *,
        progress: Watcher | bool | None = None,
    ) -> Any:
        """All items folded to one value; `None` of nothing.

        Args:
            how: A name (`"sum"`, `"count"`, `"min"`, `"max"`, `"mean"`), an expression of `a` and `b`
                (`"a ^ b"`), or a function of two values. It must be associative; it need not commute.
            of_batch: For a function `how`: what makes a value of the array of a batch, on several
                threads. Without it, a ufunc of NumPy folds the array itself, and any other function
                its items one after another.
            progress: As in `sort`.
        """
        with telling(progress, ("reduce",)) as tell:
            if isinstance(how, str):
                return _outcore.reduce(self._request, [how], tell)[0]
            dtype, both = self._dtype, how
            fold = of_batch or getattr(how, "reduce", None)

            def fold_batch(data: bytes) -> Any:
                from ._numpy import numpy

                items = numpy.frombuffer(data, dtype)
                return fold(items) if callable(fold) else functools.reduce(both, items.tolist())

            return _outcore.fold(self._request, fold_batch, both, tell)

    def map_reduce(
        self,
        f: Expression | Callable[[_Array], Any],
        op: str | Callable[[Any, Any], Any],
        *,
        progress: Watcher | bool | None = None,
    ) -> Any:
        """What `f` makes of the items, folded with `op`, in one pass with all steps before; `None` of
        nothing.

        Args:
            f: An expression, which makes a number of each item; or a function that makes one value,
                of any kind, of the array of a batch, on several threads.
            op: What puts two of them together, as `reduce` has it; for a function `f` a function of
                two values. It must be associative; it need not commute.
            progress: As in `sort`.

            >>> keys.map_reduce("x * x", "sum")
            >>> keys.map_reduce(lambda batch: collections.Counter((batch % 7).tolist()), operator.add)
        """
        if isinstance(f, (str, Column)):
            return self.map(f).reduce(op, progress=progress)
        if isinstance(op, str):
            hint = "give a function of two values; or map(f).reduce(op) for a number of each item"
            raise usage("map_reduce", f"values of Python's cannot be folded with `{op}`", hint)
        return self.reduce(op, of_batch=f, progress=progress)

    def head(self, k: SupportsIndex = 10) -> _Array:
        """The first `k` items; no more is read than is needed."""
        from ._numpy import numpy

        count = whole("k", k)
        for batch in self.batches(count) if count else ():
            return batch
        return numpy.empty(0, self._dtype)

    def sample(self, k: SupportsIndex, seed: SupportsIndex = arguments.SEED) -> _Array:
        """`k` items, every choice being equally likely, in the order of the dataset; all of them where
        there are fewer. What filters have left is counted first."""
        number, draw = whole("k", k), random.Random(whole("seed", seed))
        count = self.count()
        chosen = draw.sample(range(count), min(number, count))
        return self.gather(sorted(chosen))

    def partition(
        self,
        how: Expression | _BatchFunction,
        pattern: arguments.StrPath,
        parts: SupportsIndex = 2,
        *,
        force: bool = False,
        progress: Watcher | bool | None = None,
    ) -> list[int]:
        """Writes each item to one of several files, which keep its order and appear together; gives the
        number of items in each.

        Args:
            how: The number of the file, from 0; a condition is 1 where it is true. An expression, or
                a function from a batch to an array of numbers as long.
            pattern: The files' names, with `{part}` for the number, with as many digits as the last
                one has; files that end in `.npy` get a header.
            parts: How many files.
            force: Replace files that exist; never an input.
            progress: As in `sort`.
        """
        name = os.fsdecode(pattern)
        if "{part}" not in os.path.basename(name):
            raise usage("create output", "its name has no {part} in it", "write 'part-{part}.bin'")
        count = whole("parts", parts)
        digits = len(str(count - 1))
        to = WriteParts(
            outputs=[name.replace("{part}", f"{part:0{digits}}") for part in range(count)],
            manifest=_manifest_of(name),
            force=bool(force),
        )
        bucket = str(how) if isinstance(how, (str, Column)) else self._numbering(how)
        with telling(progress, ("distribute",)) as tell:
            return _outcore.partition(self._request, bucket, to, tell)

    def _dtype_made(
        self, function: _BatchFunction, dtype: npt.DTypeLike | None
    ) -> np.dtype[Any]:
        """The dtype of what a function makes, told from an empty batch unless it is given."""
        from ._numpy import numpy

        if dtype is not None:
            return numpy.dtype(dtype)
        made = numpy.asarray(function(numpy.frombuffer(b"", self._dtype)))
        return numpy.dtype((made.dtype, made.shape[1:]))

    @staticmethod
    def _side_by_side(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
        """Items of several datasets: a row where all have one dtype, else fields."""
        from ._numpy import numpy

        if all(dtype == dtypes[0] and dtype.kind in _KINDS for dtype in dtypes):
            return numpy.dtype((dtypes[0], (len(dtypes),)))
        return numpy.dtype(list(zip(_NAMES, dtypes)))

    def _numbering(self, function: _BatchFunction) -> Callable[[bytes], bytes]:
        """The function from the bytes of a batch to a number of 64 bits for each item."""
        if not callable(function):
            cause = f"an object of type {type(function).__qualname__} cannot number the files of items"
            raise usage("partition", cause, "give an expression, or a function of a batch")
        dtype = self._dtype

        def number(data: bytes) -> bytes:
            from ._numpy import numpy

            items = numpy.frombuffer(data, dtype)
            parts = numpy.asarray(function(items))
            if parts.shape != items.shape[:1] or parts.dtype.kind not in "bui":
                cause = f"an array of {parts.dtype} with the shape {parts.shape} came back"
                hint = f"give a whole number for each of the {len(items)} items"
                raise usage("partition", cause, hint)
            made: bytes = parts.astype("=i8").tobytes()
            return made

        return number

    def top(self, k: SupportsIndex, *, smallest: bool = False) -> _Array:
        """The `k` largest numbers, largest first; or the smallest, smallest first."""
        from ._numpy import numpy

        with telling(None, ("top",)) as tell:
            found = _outcore.top(self._request, whole("k", k), bool(smallest), tell)
        return numpy.array(found, self._dtype)

    def histogram(
        self, bins: SupportsIndex = 10, range: tuple[float, float] | None = None
    ) -> tuple[_Array, _Array]:
        """The counts of equal bins and their borders, as `numpy.histogram` has them. Without a
        range the items are read twice."""
        from ._numpy import numpy

        count = whole("bins", bins)
        if count == 0:
            raise usage("histogram", "no bins", "ask for at least one")
        with telling(None, ("histogram",)) as tell:
            (low, high), counts = _outcore.histogram(self._request, count, range, tell)
        if math.isfinite((high - low) * count):
            borders = numpy.linspace(low, high, count + 1)
        else:
            shares = numpy.arange(count + 1) / count
            borders = low * (1 - shares) + high * shares
        return numpy.array(counts, numpy.int64), borders

    def find(self, condition: Expression) -> int | None:
        """The position of the first item for which `condition` is true; before any filter."""
        if not isinstance(condition, (str, Column)):
            cause = f"an object of type {type(condition).__qualname__} is not an expression"
            raise usage("find", cause, "write one in text, or with outcore.x and outcore.col")
        with telling(None, ("find",)) as tell:
            return _outcore.find(self._request, str(condition), tell)

    def gather(self, positions: npt.ArrayLike | Sequence[int]) -> _Array:
        """The items at `positions`, counted from 0, in the order asked. The result is in memory."""
        from ._numpy import numpy

        at = numpy.asarray(positions)
        if at.size and (at.dtype.kind not in "ui" or at.min() < 0):
            raise usage("gather", "a position that is not a whole number from 0 on", "give integers")
        with telling(None, ("gather",)) as tell:
            data = _outcore.gather(self._request, at.astype(numpy.uint64).tobytes(), tell)
        return numpy.frombuffer(data, self._dtype)

    def searchsorted(
        self, values: npt.ArrayLike, side: str = "left", *, index: arguments.StrPath | None = None
    ) -> npt.NDArray[np.int64]:
        """The ranks of `values` among the items, which must ascend, as `numpy.searchsorted` has them.

        Args:
            values: Numbers that the items' type holds.
            side: `"left"` for the number of items that are less, `"right"` for those that are not greater.
            index: A file with the first item of each block of the files, which is made if it is not there: then one block is read
                for each value.

        A few blocks of 4 KiB are read for each value, all of them with many reads in flight.
        """
        from ._numpy import numpy

        if side not in ("left", "right"):
            raise usage("look up keys", f"side is {side!r}", 'give "left" or "right"')
        given = numpy.asarray(values)
        try:
            with numpy.errstate(invalid="ignore"):
                keys = numpy.ascontiguousarray(given, self._dtype)
        except (OverflowError, TypeError, ValueError) as error:
            raise usage("look up keys", str(error), f"give numbers that {self._dtype} holds") from None
        if given.dtype.kind in "uifb" and keys.dtype.kind in "uif" and not is_same(given, keys):
            raise usage("look up keys", f"a value that {keys.dtype} does not hold", "convert it")
        path = None if index is None else os.path.abspath(os.fspath(index))
        with telling(None, ("look up",)) as tell:
            data = _outcore.search_sorted(self._request, keys.tobytes(), side == "right", path, tell)
        return numpy.frombuffer(data, numpy.uint64).astype(numpy.int64).reshape(given.shape)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> _Array:
        """All items in one array, if they fit into the memory allowed: `numpy.asarray(dataset)`."""
        least_bytes = 0 if self._request["steps"] else self._files_bytes()
        parts = _outcore.batches(self._request)
        return gathered(parts, self._request["resources"], least_bytes, self._dtype, dtype, copy)

    def _files_bytes(self) -> int:
        """Bytes of the files, without what may be their headers; 0 of what is none."""
        files = [name for name in self._request["inputs"] if os.path.isfile(name)]
        return sum(max(os.path.getsize(name) - _HEADER_MAX, 0) for name in files)

    def __iter__(self) -> Iterator[_Array]:
        """All items in order, in batches of the engine's size."""
        from ._numpy import numpy

        for data in _outcore.batches(self._request):
            yield numpy.frombuffer(data, self._dtype)

    def batches(self, size: SupportsIndex) -> Iterator[_Array]:
        """All items in order, `size` at a time; the last batch may be shorter."""
        from ._numpy import numpy

        count = whole("size", size)
        if count == 0:
            raise usage("read dataset", "batches of nothing", "ask for at least one item")
        held: list[_Array] = []
        have = 0
        for batch in self:
            held.append(batch)
            have += len(batch)
            if have < count:
                continue
            items = numpy.concatenate(held) if len(held) > 1 else batch
            whole_batches = have // count * count
            for start in range(0, whole_batches, count):
                yield items[start : start + count]
            held, have = [items[whole_batches:]], have - whole_batches
        if have:
            yield numpy.concatenate(held)

    def _call(
        self,
        function: Callable[[bytes], bytes],
        dtype: np.dtype[Any],
        *,
        filters: bool = False,
        expands: bool = False,
    ) -> Dataset:
        made = records(dtype, None, None)
        step = CallStep(function=function, records=made, filters=filters, expands=expands)
        return Dataset(self._with(step), dtype)

    def _dtype_of_engine(self) -> np.dtype[Any]:
        """NumPy's dtype for the engine's type of the items."""
        from ._numpy import numpy

        if self._header is not None:
            none = numpy.load(io.BytesIO(self._header))
            return numpy.dtype((none.dtype, none.shape[1:])) if none.ndim > 1 else none.dtype
        number, _, columns = self._type.partition("x")
        is_big = number.endswith("be")
        number = number.removesuffix("be").removesuffix("le")
        if number[:1] in _KINDS and number[1:].isdigit() and int(number[1:]) <= 64:
            code = f"{'>' if is_big else '<'}{number[0]}{int(number[1:]) // 8}"
            return numpy.dtype((code, (int(columns),))) if columns else numpy.dtype(code)
        return numpy.dtype(f"V{self._item_bytes}")


def _manifest_of(pattern: str) -> str:
    """The manifest of files whose names have `{part}` in them, as the command names it."""
    for tie in ("-", "_", ".", ""):
        pattern = pattern.replace(tie + "{part}", "")
    return f"{pattern}.outcore.json"
