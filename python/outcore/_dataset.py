"""Lazy datasets over files: steps are cheap, and each question runs them.

    >>> import outcore
    >>> keys = outcore.open("keys-*.bin", dtype="u64", memory="2GiB")
    >>> keys.filter(outcore.x % 2 == 0).map(outcore.x * 3).sum()

Steps that go item by item fuse into one pass that writes nothing in between. `sort`, `shuffle`,
`unique`, `count_by`, `reverse`, `merge` and `scan` need all items. The result of the last step goes
straight to the output. The results of other steps go to private scratch, which is removed once the
question is answered.

Steps in text or over `outcore.x` and `outcore.col` stay in Rust at full speed. A function gets a
NumPy array of a whole batch and returns one. It is called from several threads, and runs on all
cores if it releases the interpreter. An exception in it stops the job and is raised again; as after
Ctrl-C, nothing is left behind.
"""

from __future__ import annotations

import functools
import io
import math
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Union

from . import _arguments as arguments
from . import _outcore
from ._arrays import gathered, is_same
from ._column import Column, Expression
from ._equivalents import unknown_attribute
from ._errors import usage
from ._lazy import Lazy
from ._preview import ROWS
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
#: Functions of all items, and the names of the reductions that do the same.
_BUILT_IN: dict[Any, str] = {sum: "sum", min: "min", max: "max", len: "count"}
#: Number types of the engine that NumPy also writes as a letter and bits.
_KINDS = "uif"
#: A size that the header of a file hardly exceeds.
_HEADER_MAX = 64 << 10


class Dataset(Lazy):
    """Records of files, and the steps on them; see `outcore.open`."""

    def __init__(
        self, request: DatasetRequest, dtype: np.dtype[Any] | Dataset | None
    ) -> None:
        super().__init__(request)
        #: The first dataset before this one that has the same items.
        self._like: Dataset | None = (dtype._like or dtype) if isinstance(dtype, Dataset) else None
        #: The NumPy type of an item; nothing if the engine knows it.
        self._named = None if isinstance(dtype, Dataset) else dtype

    @property
    def _dtype(self) -> np.dtype[Any]:
        return (self._like or self)._dtype_of_items

    @functools.cached_property
    def _dtype_of_items(self) -> np.dtype[Any]:
        # Computed late: code that needs no array needs no NumPy.
        return self._dtype_of_engine() if self._named is None else self._named

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an item in NumPy."""
        return self._dtype

    # Steps.

    def filter(self, condition: Expression | _BatchFunction) -> Dataset:
        """The items for which `condition` is true, in order. `condition` is an expression, or a
        function from a batch to a mask."""
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
        """The result of `f` for each item. `f` is an expression, or a function from a batch to an
        array of the same length. Unless `dtype` is given, the `dtype` of a function is found with
        an empty batch.

        An expression over vectors works element by element, as NumPy does: for rows of 16 numbers,
        `x * 2` returns rows of 16, and `x[0] * 2` one number. All other expressions, such as
        conditions of `filter`, need elements."""
        if isinstance(f, (str, Column)):
            return Dataset(self._with(MapStep(expression=str(f))), None)
        from ._numpy import numpy

        before, function = self._dtype, f
        after = self._dtype_made(function, dtype)

        def apply(data: bytes) -> bytes:
            items = numpy.frombuffer(data, before)
            made = numpy.asarray(function(items)).astype(after.base, copy=False)
            if made.ndim == 0:
                cause = f"the function made one value of a batch of {len(items):,} items"
                hint = "return an array with one element per item; map_reduce combines one value per batch"
                raise usage("map", cause, hint)
            if len(made) != len(items):
                cause = f"a batch of {len(items):,} items became {len(made):,}"
                raise usage("map", cause, "use filter to leave items out, and flat_map for other numbers of items")
            return made.tobytes()

        return self._call(apply, after)

    def flat_map(
        self,
        f: Expression | Sequence[Expression] | _BatchFunction,
        dtype: npt.DTypeLike | None = None,
    ) -> Dataset:
        """All results of `f` for each item, one after another. `f` is one or several expressions of
        one type, or a function from a batch to an array of any length. A function may be called
        twice for a batch, so its effects should be idempotent; its `dtype` is as in `map`."""
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
        """Each item with its position, from 0: the fields `position` and `value`."""
        from ._numpy import numpy

        dtype = numpy.dtype([("position", "<u8"), ("value", self._dtype)])
        step = EnumerateStep(numbered=records(dtype, None, None))
        return Dataset(self._with(step), dtype)

    def windows(self, length: SupportsIndex) -> Dataset:
        """Each item with the items that follow it, combined as by `zip`. `length` is the number of
        items in all, 2 to 8. The items are read once, or up to `length` times if `length` - 1 of
        them take more than 4 KiB."""
        step = WindowsStep(window=whole("length", length))
        return Dataset(self._with(step), self._side_by_side([self._dtype] * whole("length", length)))

    def reverse(self) -> Dataset:
        """The last item first."""
        return Dataset(self._with(ReverseStep(is_reversed=True)), self)

    def zip(self, *others: Dataset) -> Dataset:
        """The items of several datasets of the same length side by side; must come before any step.

        Plain numbers are `x`, `y`, `z` in expressions, fields of records `x.name`, `y.name`. In
        NumPy, an item is a row if all datasets have the same dtype; otherwise it has the fields
        `x`, `y`, `z`.
        """
        if not all(isinstance(other, Dataset) for other in others):
            hint = 'open files first: d.zip(outcore.open("b.npy"))'
            raise usage("zip", "only datasets are zipped", hint)
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
        """The items of files that are already in order, merged into one order: this takes one pass,
        while a sort takes two. The options are those of `sort`. A file that is not in order
        is an error."""
        step = MergeStep(
            merge_by=None if key is None else records(self._dtype, None, key),
            descending=arguments.truth("descending", descending),
            stable=arguments.truth("stable", stable),
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
        """The items in the order of `outcore.sort`, with the same options."""
        step = SortStep(
            records=None if key is None else records(self._dtype, None, key),
            descending=arguments.truth("descending", descending),
            stable=arguments.truth("stable", stable),
            unique=arguments.truth("unique", unique),
        )
        return Dataset(self._with(step), self)

    def shuffle(self, seed: SupportsIndex = arguments.SEED, *, epoch: SupportsIndex = 0) -> Dataset:
        """The items in a random order; every order is equally likely. The order depends only on the
        seed, the epoch and the items. Another epoch gives another, independent order."""
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
        """The fold of all numbers up to each one, in their own type. Integers wrap around, so use
        `map("u64(x)")` first for small types. `exclusive` leaves each number out of its own
        fold."""
        return Dataset(self._with(ScanStep(operator=op, exclusive=arguments.truth("exclusive", exclusive))), None)

    # Questions.

    def sum(self) -> Any:
        """Sum of all numbers: exact for integers, whatever its size."""
        return self.reduce("sum")

    def count(self) -> int:
        """Number of items."""
        return int(self.reduce("count"))

    def min(self) -> Any:
        """The smallest number; NaN if there is one; `None` if there are no items."""
        return self.reduce("min")

    def max(self) -> Any:
        """The largest number; NaN if there is one; `None` if there are no items."""
        return self.reduce("max")

    def mean(self) -> float | None:
        """Mean of all numbers; `None` if there are no items."""
        found: float | None = self.reduce("mean")
        return found

    def reduce(
        self,
        how: str | Callable[[Any, Any], Any],
        of_batch: Callable[[_Array], Any] | None = None,
        *,
        progress: Watcher | bool | None = None,
    ) -> Any:
        """All items folded to one value; `None` if there are no items.

        Args:
            how: A name (`"sum"`, `"count"`, `"min"`, `"max"`, `"mean"`), an expression of `a` and `b`
                (`"a ^ b"`), or a function of two values. It must be associative; it need not commute.
            of_batch: If `how` is a function: a function that turns the array of a batch into a
                value, on several threads. Without it, a NumPy ufunc folds the array itself, and any
                other function folds its items one after another.
            progress: As in `sort`.
        """
        how = _BUILT_IN.get(how, how) if callable(how) and of_batch is None else how
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
        """The results of `f` for the items, folded with `op`, in one pass with all earlier steps;
        `None` if there are no items.

        Args:
            f: An expression, which computes a number for each item; or a function that turns the
                array of a batch into one value of any kind, on several threads.
            op: The operation that combines two values, as in `reduce`; if `f` is a function, a
                function of two values. It must be associative; it need not commute.
            progress: As in `sort`.

            >>> import collections, operator
            >>> keys = outcore.open("keys.bin", dtype="u64")
            >>> keys.map_reduce("x * x", "sum")
            >>> keys.map_reduce(lambda batch: collections.Counter((batch % 7).tolist()), operator.add)
        """
        if isinstance(f, (str, Column)):
            return self.map(f).reduce(op, progress=progress)
        if isinstance(op, str):
            hint = "give a function of two values as op; or use map(f).reduce(op), if f computes a number for each item"
            raise usage("map_reduce", f"`{op}` cannot fold values that a function returns", hint)
        return self.reduce(op, of_batch=f, progress=progress)

    def head(self, k: SupportsIndex = 10) -> _Array:
        """The first `k` items; outcore reads no more than it needs."""
        from ._numpy import numpy

        count = whole("k", k)
        for batch in self.batches(count) if count else ():
            return batch
        return numpy.empty(0, self._dtype)

    def _first_items(self) -> Iterable[Any]:
        return self.head(ROWS)

    def sample(self, k: SupportsIndex, seed: SupportsIndex = arguments.SEED) -> _Array:
        """`k` random items in the order of the dataset; every choice is equally likely. If there
        are fewer items, all of them. The items that pass the filters are counted first."""
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
        """Writes each item to one of several files, which keep the order and appear together;
        returns the number of items in each file.

        Args:
            how: The number of the file, from 0, as an expression, or as a function from a batch to
                an array of numbers of the same length. A condition is 1 if it is true.
            pattern: The names of the files. `{part}` becomes the number, with as many digits as the
                last number has; files that end in `.npy` get a header.
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
            force=arguments.truth("force", force),
        )
        bucket = str(how) if isinstance(how, (str, Column)) else self._numbering(how)
        with telling(progress, ("distribute",)) as tell:
            return _outcore.partition(self._request, bucket, to, tell)

    def _dtype_made(
        self, function: _BatchFunction, dtype: npt.DTypeLike | None
    ) -> np.dtype[Any]:
        """The dtype of a function's results, found with an empty batch unless it is given."""
        from ._numpy import numpy

        if dtype is not None:
            return numpy.dtype(dtype)
        made = numpy.asarray(function(numpy.frombuffer(b"", self._dtype)))
        return numpy.dtype((made.dtype, made.shape[1:]))

    @staticmethod
    def _side_by_side(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
        """Items of several datasets: a row if all have the same dtype, otherwise fields."""
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
            found = _outcore.top(self._request, whole("k", k), arguments.truth("smallest", smallest), tell)
        return numpy.array(found, self._dtype)

    # Type checkers know the attributes.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name)

    def histogram(
        self, bins: SupportsIndex = 10, range: tuple[float, float] | None = None
    ) -> tuple[_Array, _Array]:
        """The counts of bins of equal width and their borders, as in `numpy.histogram`. Without a
        range, the items are read twice."""
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
        """The position of the first item for which `condition` is true. It cannot follow a filter."""
        if not isinstance(condition, (str, Column)):
            cause = f"an object of type {type(condition).__qualname__} is not an expression"
            raise usage("find", cause, "write one in text, or with outcore.x and outcore.col")
        with telling(None, ("find",)) as tell:
            return _outcore.find(self._request, str(condition), tell)

    def gather(self, positions: npt.ArrayLike | Sequence[int]) -> _Array:
        """The items at `positions`, counted from 0, in the order given. The result is in memory."""
        from ._numpy import numpy

        at = numpy.asarray(positions)
        if at.size and (at.dtype.kind not in "ui" or at.min() < 0):
            raise usage("gather", "a position is negative or not a whole number", "give integers from 0")
        with telling(None, ("gather",)) as tell:
            data = _outcore.gather(self._request, at.astype(numpy.uint64).tobytes(), tell)
        return numpy.frombuffer(data, self._dtype)

    def searchsorted(
        self, values: npt.ArrayLike, side: str = "left", *, index: arguments.StrPath | None = None
    ) -> npt.NDArray[np.int64]:
        """The ranks of `values` among the items, which must be in ascending order, as in
        `numpy.searchsorted`.

        Args:
            values: Numbers that fit the items' type.
            side: `"left"` for the number of items that are less, `"right"` for the number of items
                that are not greater.
            index: A file with the first item of each block of the files, which is made if it does
                not exist. With it, one block is read for each value.

        A few blocks of 4 KiB are read for each value, with many reads in flight.
        """
        from ._numpy import numpy

        if side not in ("left", "right"):
            raise usage("look up keys", f"side is {side!r}", 'give "left" or "right"')
        given = numpy.asarray(values)
        try:
            with numpy.errstate(invalid="ignore"):
                keys = numpy.ascontiguousarray(given, self._dtype)
        except (OverflowError, TypeError, ValueError) as error:
            raise usage("look up keys", str(error), f"give numbers that fit in {self._dtype}") from None
        if given.dtype.kind in "uifb" and keys.dtype.kind in "uif" and not is_same(given, keys):
            raise usage("look up keys", f"a value does not fit in {keys.dtype}", "convert it")
        path = None if index is None else os.path.abspath(os.fspath(index))
        with telling(None, ("look up",)) as tell:
            data = _outcore.search_sorted(self._request, keys.tobytes(), side == "right", path, tell)
        return numpy.frombuffer(data, numpy.uint64).astype(numpy.int64).reshape(given.shape)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> _Array:
        """All items in one array, if they fit in the allowed memory: `numpy.asarray(dataset)`."""
        least_bytes = 0 if self._request["steps"] else self._files_bytes()
        parts = _outcore.batches(self._request)
        return gathered(parts, self._request["resources"], least_bytes, self._dtype, dtype, copy)

    def _files_bytes(self) -> int:
        """Bytes of the files, without possible headers; 0 for an input that is not a file."""
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
    """The manifest of files whose names contain `{part}`, with the name that the command gives it."""
    for tie in ("-", "_", ".", ""):
        pattern = pattern.replace(tie + "{part}", "")
    return f"{pattern}.outcore.json"
