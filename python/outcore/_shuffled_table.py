"""The rows of a Parquet set in a random order that each epoch changes, for training.

    >>> rows = outcore.ShuffledTable("shuffled/", seed=7, columns=["url", "text"])
    >>> for batch in rows.with_epoch(3).batches(1024, shard=0, shards=8):
    ...     ...

An epoch's order goes through the row groups in a random order, and through the rows of each group in a
random order. Where the set was written by `shuffle`, neighbouring rows have nothing in common, so
that this is as good as another shuffle and needs no second copy. The order depends on the seed, the epoch,
and the row groups alone: processes, machines and restarts agree on it.

Memory: the columns of one row group and of one batch. Footers are read once, when it is opened.
"""

from __future__ import annotations

import bisect
import itertools
import os
import random
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

from . import _arguments as arguments
from . import _outcore
from ._errors import failed, usage
from ._libraries import library
from ._held import AS_IT_IS, files, texts
from ._units import whole

_READ = "read a Parquet set"
_LIST_END = ".outcore.json"


class ShuffledTable:
    """Rows of Parquet files in a random order: `len`, and batches for any number of readers.

    Args:
        src: Parquet files, directories or patterns of them. A directory is read with all below it, but for names that
            begin with `.` or `_`. Files are taken in the order of their names.
        seed, epoch: Choose the order.
        columns: Keep these columns, in this order; the others are not read.

    It can be pickled. pyarrow is needed.

    Raises:
        UsageError: There are no files or no rows, a column is missing, or the files have different columns.
        CorruptError: A file is damaged, or changed after it was opened; a directory does not hold
            what its list says.
        IoError: A file cannot be read.
    """

    def __init__(
        self,
        src: arguments.Paths,
        *,
        seed: SupportsIndex = 1,
        epoch: SupportsIndex = 0,
        columns: Iterable[str] | None = None,
    ) -> None:
        self._seed, self._epoch = arguments.number("seed", seed), arguments.number("epoch", epoch)
        self._columns = None if columns is None else texts("columns", columns)
        #: File, number in it and rows of each row group.
        self._groups: list[tuple[str, int, int]] = []
        schema = None
        for path in _parquet_files(src):
            with _opened(path) as file:
                found = file.schema_arrow.remove_metadata()
                if schema is None:
                    schema = found
                elif not found.equals(schema):
                    cause = f"{path} has other columns or types than the files before it"
                    raise usage(_READ, cause, "name files of one table, or convert them first")
                sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            self._groups += [(path, number, rows) for number, rows in enumerate(sizes) if rows]
        assert schema is not None  # There is a file.
        for name in self._columns or []:
            if name not in schema.names:
                known = ", ".join(schema.names)
                raise usage(_READ, f"there is no column `{name}`", f"the columns are: {known}")
        self._rows = sum(rows for _, _, rows in self._groups)
        if not self._rows:
            raise usage(_READ, "the files have no rows", "check which files are named")
        self._draw()

    def _draw(self) -> None:
        """The order of the row groups, and where in the order each of them begins."""
        self._order = list(range(len(self._groups)))
        self._random("groups").shuffle(self._order)
        sizes = (self._groups[group][2] for group in self._order)
        self._starts = list(itertools.accumulate(sizes, initial=0))[:-1]

    def _random(self, what: object) -> random.Random:
        return random.Random(f"outcore {self._seed} {self._epoch} {what}")

    def __len__(self) -> int:
        """Rows of an epoch."""
        return self._rows

    @property
    def seed(self) -> int:
        """What chooses its orders."""
        return self._seed

    @property
    def epoch(self) -> int:
        """Which of the orders of the seed this is."""
        return self._epoch

    def with_epoch(self, epoch: SupportsIndex) -> ShuffledTable:
        """The same rows in another order, which is independent of this one."""
        other = object.__new__(ShuffledTable)
        other.__dict__.update(self.__dict__, _epoch=arguments.number("epoch", epoch))
        other._draw()
        return other

    def batches(
        self,
        size: SupportsIndex,
        *,
        shard: SupportsIndex = 0,
        shards: SupportsIndex = 1,
        start: SupportsIndex = 0,
        drop_last: bool = False,
    ) -> Iterator[Any]:
        """Tables of pyarrow of `size` rows; the last may have fewer.

        Args:
            size: Rows in a batch.
            shard, shards: This reader's part of the order, and how many there are: each row is in exactly one part. Parts
                differ by at most one row.
            start: Rows of this part to pass over, for a restart; row groups that are passed over are not read.
            drop_last: Leave out a last batch that has fewer rows.
        """
        rows, part, parts = whole("size", size), whole("shard", shard), whole("shards", shards)
        if rows == 0 or not part < parts:
            cause = f"batches of {rows} rows, shard {part} of {parts}"
            raise usage(_READ, cause, "count shards from 0, and give batches at least 1 row")
        first, last = len(self) * part // parts, len(self) * (part + 1) // parts
        return self._between(rows, min(first + whole("start", start), last), last, bool(drop_last))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries."""
        return _rows_of(self, [(0, 1)])

    def to_hf(self, *, shards: SupportsIndex = 64) -> Any:
        """A `datasets.IterableDataset` of Hugging Face over the rows of this epoch, as dictionaries.

        Args:
            shards: In how many parts workers and nodes (`datasets.distributed.split_dataset_by_node`) can share it; each part
                is read by one of them.

        The order is that of this epoch: use `with_epoch(n).to_hf()` for another one.
        """
        count = min(max(whole("shards", shards), 1), len(self))
        datasets = library("datasets", _READ)
        # It hands each worker some elements of the list.
        shares = [(shard, count) for shard in range(count)]
        return datasets.IterableDataset.from_generator(_rows_of, gen_kwargs={"rows": self, "shares": shares})

    def _between(self, size_rows: int, first: int, last: int, drop_last: bool) -> Iterator[Any]:
        """Batches of the places from `first` to `last`; behind the last place of the order comes the first again."""
        pyarrow = library("pyarrow", _READ)
        held: list[Any] = []
        count = 0
        while first < last:
            place = first % self._rows
            nth = bisect.bisect_right(self._starts, place) - 1
            group = self._group(self._order[nth])
            at = place - self._starts[nth]
            stop = min(len(group), at + last - first)
            first += stop - at
            while at < stop:
                here = min(size_rows - count, stop - at)
                held.append(group.slice(at, here))
                at, count = at + here, count + here
                if count == size_rows:
                    yield pyarrow.concat_tables(held)
                    held, count = [], 0
        if held and not drop_last:
            yield pyarrow.concat_tables(held)

    def _group(self, group: int) -> Any:
        """A row group, in the order of this epoch."""
        path, number, rows = self._groups[group]
        with _opened(path) as file:
            is_there = number < file.num_row_groups
            if not is_there or file.metadata.row_group(number).num_rows != rows:
                cause = "the file changed after the set was opened"
                raise failed(_READ, "corrupt", cause, path, hint="open the set again")
            # Not on threads of pyarrow, which loaders fork beside.
            table = file.read_row_group(number, columns=self._columns, use_threads=False)
        if self._columns is not None:
            table = table.select(self._columns)
        places = list(range(rows))
        self._random(group).shuffle(places)
        return table.replace_schema_metadata(None).take(places)


def _rows_of(rows: ShuffledTable, shares: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    for shard, shards in shares:
        for batch in rows.batches(1024, shard=shard, shards=shards):
            yield from batch.to_pylist()


def _opened(path: str) -> Any:
    pyarrow, parquet = library("pyarrow", _READ), library("pyarrow.parquet", _READ)
    try:
        return parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        hint = "name Parquet files; write this one again if it is one"
        raise failed(_READ, "corrupt", str(error), path, hint=hint) from error
    except OSError as error:
        cause = error.strerror or str(error)
        raise failed(_READ, "io", cause, path, errno=error.errno, hint="check the path") from error


def _check_list(folder: str) -> None:
    """Rejects a directory that does not hold what a list in it says."""
    resources = arguments.resources_of(None, None, (), None, None, 1)
    # The engine compares the two where it opens a table.
    _outcore.table_stream([folder], None, False, AS_IT_IS, resources, None)


def _parquet_files(src: arguments.Paths) -> list[str]:
    found = []
    for name in files(src):
        if not os.path.isdir(name):
            found.append(name)
            continue
        below, has_list = [], False
        for folder, folders, names in os.walk(name):
            folders[:] = [inner for inner in folders if not inner.startswith((".", "_"))]
            below += [os.path.join(folder, file) for file in names if file.endswith(".parquet")]
            has_list |= any(file.startswith("_") and file.endswith(_LIST_END) for file in names)
        if has_list:
            _check_list(name)
        found += sorted(path for path in below if not os.path.basename(path).startswith((".", "_")))
    if not found:
        raise usage(_READ, "there is no Parquet file", "name files, or a directory with `.parquet` files")
    return found
