"""The rows of a Parquet set in a random order that each epoch changes, for training.

    >>> rows = outcore.ShuffledTable("shuffled/", seed=7, columns=["url", "text"])
    >>> for batch in rows.with_epoch(3).batches(1024, shard=0, shards=8):
    ...     ...

An epoch's order goes through the row groups in a random order, and through the rows of each group
in a random order. If the set was written by `shuffle`, neighbouring rows are independent, so this
is as good as another shuffle and needs no second copy. The order depends only on the seed, the
epoch and the row groups: it is the same in all processes, on all machines and after a restart.

Columns and types are those of `outcore.table`, also INT96 timestamps and the columns of directory names
(`country=de/`).

Memory: the columns of one row group and of one batch. All footers are read when it is opened.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import os
import random
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

from . import _arguments as arguments
from ._errors import UsageError, failed, usage
from ._libraries import library
from ._held import Held, files, texts
from ._units import whole

_READ = "read a Parquet set"
_DAMAGED = "the file is damaged or was cut short: copy or write it again"
#: The unit of INT96 timestamps, unless a schema of the writer gives another one.
_UNIT = "us"
#: The endings of names of tables in directories, as for `outcore.table`.
_PARQUET_ENDS = (".parquet", ".pq", ".parq")
_ARROW_ENDS = (".arrow", ".arrows", ".feather", ".ipc")


class ShuffledTable:
    """Rows of Parquet files in a random order: `len`, and batches for any number of readers.

    Args:
        src: Parquet files, directories or patterns of them. A directory is read with all below it, except for names
            that begin with `.` or `_`; a directory such as `_day=7` is read. Files are taken in the order of their names.
        seed, epoch: Choose the order.
        columns: Keep these columns, in this order; the others are not read. Names of directories such as
            `country=de` are also columns.

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
        chosen = None if columns is None else texts("columns", columns)
        #: File, number in it and rows of each row group.
        self._groups: list[tuple[str, int, int]] = []
        sources = arguments.path_texts(src)
        paths = _parquet_files(sources)
        own: set[str] = set()
        for path in paths:
            with _opened(path) as file:
                own.update(file.schema_arrow.names)
                sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
            self._groups += [(path, number, rows) for number, rows in enumerate(sizes) if rows]
        schema = _schema_of(sources)
        if chosen is not None and not chosen:
            raise usage(_READ, "no column is chosen", f"the columns are: {', '.join(schema.names)}")
        for name in chosen or []:
            if name not in schema.names:
                known = ", ".join(schema.names)
                raise usage(_READ, f"there is no column `{name}`", f"the columns are: {known}")
        if chosen is not None:
            schema = library("pyarrow", _READ).schema([schema.field(name) for name in chosen])
        #: The columns and types of a batch, and the names of the columns that are stored in the files.
        self._schema, self._own = schema, [name for name in dict.fromkeys(schema.names) if name in own]
        #: The values of the other columns, by file.
        self._directories = _directory_values(paths, [field for field in schema if field.name not in own])
        self._rows = sum(rows for _, _, rows in self._groups)
        if not self._rows:
            raise usage(_READ, "the files have no rows", "check which files are named")
        self._draw()

    def _draw(self) -> None:
        """The order of the row groups, and the position in the order at which each of them begins."""
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
        """The seed of its orders."""
        return self._seed

    @property
    def epoch(self) -> int:
        """The number of this order among those of the seed."""
        return self._epoch

    def with_epoch(self, epoch: SupportsIndex) -> ShuffledTable:
        """The same rows in another order, independent of this one."""
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
            shard, shards: This reader's part of the order, and the number of parts. Each row is in
                exactly one part. Parts differ by at most one row.
            start: Rows of this part to skip, for a restart; skipped row groups are not read.
            drop_last: Leave out a last batch that has fewer rows.
        """
        rows, part, parts = whole("size", size), whole("shard", shard), whole("shards", shards)
        if rows == 0 or not part < parts:
            cause = f"batches of {rows} rows, shard {part} of {parts}"
            raise usage(_READ, cause, "count shards from 0, and give batches at least 1 row")
        first, last = len(self) * part // parts, len(self) * (part + 1) // parts
        return self._between(rows, min(first + whole("start", start), last), last, arguments.truth("drop_last", drop_last))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries."""
        return _rows_of(self, [(0, 1)])

    def to_hf(self, *, shards: SupportsIndex = 64) -> Any:
        """A `datasets.IterableDataset` of Hugging Face over the rows of this epoch, as dictionaries.

        Args:
            shards: The number of parts that workers and nodes
                (`datasets.distributed.split_dataset_by_node`) can share; one of them reads each
                part.

        The order is that of this epoch: use `with_epoch(n).to_hf()` for another one.
        """
        count = min(max(whole("shards", shards), 1), len(self))
        datasets = library("datasets", _READ)
        # `datasets` passes each worker some elements of the list.
        shares = [(shard, count) for shard in range(count)]
        return datasets.IterableDataset.from_generator(_rows_of, gen_kwargs={"rows": self, "shares": shares})

    def _between(self, size_rows: int, first: int, last: int, drop_last: bool) -> Iterator[Any]:
        """Batches of the positions from `first` to `last`; after the last position of the order
        comes the first again."""
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
        pyarrow = library("pyarrow", _READ)
        columns = {}
        with _opened(path) as file:
            is_there = number < file.num_row_groups and set(self._own) <= set(file.schema_arrow.names)
            if not is_there or file.metadata.row_group(number).num_rows != rows:
                cause = "the file changed after the set was opened"
                raise failed(_READ, "corrupt", cause, path, hint="open the set again")
            _check_values(file, path, number)
            for unit, names in _units_of(file, [self._schema.field(name) for name in self._own]).items():
                opened = contextlib.nullcontext(file) if unit == _UNIT else _opened(path, unit)
                with opened as source, _named(path):
                    # pyarrow must not start threads here, because loaders fork processes.
                    table = source.read_row_group(number, columns=names, use_threads=False)
                for name in names:
                    columns[name] = table[name]
                    _check_rows(path, number, rows, len(columns[name]))
            _check_lists(file, path, number, columns)
        arrays = []
        for field in self._schema:
            column = columns.get(field.name)
            if column is None:
                value = pyarrow.scalar(self._directories[path][field.name], field.type)
                column = pyarrow.chunked_array([pyarrow.repeat(value, rows)])
            with _named(path):
                arrays.append(column if column.type == field.type else column.cast(field.type))
        places = list(range(rows))
        self._random(group).shuffle(places)
        return pyarrow.Table.from_arrays(arrays, schema=self._schema).take(places)


def _rows_of(rows: ShuffledTable, shares: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    for shard, shards in shares:
        for batch in rows.batches(1024, shard=shard, shards=shards):
            yield from batch.to_pylist()


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Failures of pyarrow on a file, in the engine's form."""
    pyarrow = library("pyarrow", _READ)
    try:
        yield
    except pyarrow.ArrowNotImplementedError as error:
        hint = f"write the file in a form that pyarrow reads: outcore convert {path} -o new.parquet"
        raise usage(_READ, f"pyarrow cannot read {path}: {error}", hint) from error
    except pyarrow.ArrowInvalid as error:
        hint = "name Parquet files; if this is one, write it again"
        raise failed(_READ, "corrupt", str(error), path, hint=hint) from error
    except OSError as error:
        if error.errno is None:
            # pyarrow raises this for bytes that it cannot decode.
            raise failed(_READ, "corrupt", str(error), path, hint=_DAMAGED) from error
        cause = error.strerror or str(error)
        raise failed(_READ, "io", cause, path, errno=error.errno, hint="check the path") from error


def _opened(path: str, int96_unit: str = _UNIT) -> Any:
    """A file whose INT96 timestamps are of this unit."""
    parquet = library("pyarrow.parquet", _READ)
    with _named(path):
        return parquet.ParquetFile(
            path, coerce_int96_timestamp_unit=int96_unit, page_checksum_verification=True
        )


def _check_values(file: Any, path: str, number: int) -> None:
    """Rejects a row group if the numbers of values in its columns differ from its number of rows.
    pyarrow reads as many rows as the group declares. A column of lists may have any number of
    values; see `_check_lists`."""
    group = file.metadata.row_group(number)
    for leaf in range(group.num_columns):
        if file.schema.column(leaf).max_repetition_level == 0:
            _check_rows(path, number, group.num_rows, group.column(leaf).num_values)


def _check_lists(file: Any, path: str, number: int, columns: dict[str, Any]) -> None:
    """Rejects lists that do not have the number of values that the row group declares."""
    pyarrow, compute = library("pyarrow", _READ), library("pyarrow.compute", _READ)
    group = file.metadata.row_group(number)
    if any("." in name for name in file.schema_arrow.names):
        # If a name has a dot, the path of a leaf does not show which column the leaf belongs to.
        return
    for leaf in range(group.num_columns):
        known = file.schema.column(leaf)
        column = columns.get(known.path.partition(".")[0])
        if known.max_repetition_level != 1 or column is None:
            continue
        if not (pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type)):
            continue
        # The file counts an empty list, or a null, as one value.
        lengths = compute.fill_null(compute.list_value_length(column), 0)
        found = compute.sum(compute.max_element_wise(lengths, 1)).as_py()
        said = group.column(leaf).num_values
        if found != said:
            cause = f"row group {number} has {said} values of `{known.path}`, and its rows have {found}"
            raise failed(_READ, "corrupt", cause, path, hint=_DAMAGED)


def _check_rows(path: str, number: int, said: int, found: int) -> None:
    if found != said:
        rows = "1 row" if found == 1 else f"{found} rows"
        cause = f"row group {number} has {rows}, and the file says {said}"
        raise failed(_READ, "corrupt", cause, path, hint=_DAMAGED)


def _units_of(file: Any, fields: list[Any]) -> dict[str, list[str]]:
    """The columns to read, by the unit of their INT96 timestamps in the table."""
    leaves = [file.schema.column(number) for number in range(len(file.schema))]
    of_int96 = [f"{leaf.path}." for leaf in leaves if leaf.physical_type == "INT96"]
    units: dict[str, list[str]] = {}
    for field in fields:
        unit = _UNIT
        if any(path.startswith(f"{field.name}.") for path in of_int96):
            found = [unit for unit in ("s", "ms", "us", "ns") if f"timestamp[{unit}" in str(field.type)]
            if len(found) > 1:
                cause = f"column `{field.name}` has INT96 timestamps of several units"
                raise usage(_READ, cause, "convert the files first: outcore convert FILES -o new.parquet")
            unit = found[0] if found else unit
        units.setdefault(unit, []).append(field.name)
    return units


def _schema_of(sources: list[str]) -> Any:
    """The columns and types of `outcore.table`, which compares the files with each other and with lists of parts."""
    pyarrow = library("pyarrow", _READ)
    try:
        return pyarrow.RecordBatchReader.from_stream(Held(sources, {})).schema.remove_metadata()
    except UsageError as error:
        if error.cause is None or "union" not in (error.hint or ""):
            raise
        hint = "convert them first: outcore convert --union FILES -o new.parquet"
        raise failed(_READ, "usage", error.cause, error.path or "", hint=hint) from None


def _directory_values(paths: list[str], fields: list[Any]) -> dict[str, dict[str, Any]]:
    """The values of the columns of directory names, by file."""
    if not fields:
        return {}
    pyarrow, dataset = library("pyarrow", _READ), library("pyarrow.dataset", _READ)
    partitioning = dataset.partitioning(pyarrow.schema(fields), flavor="hive")
    values = {}
    for path in paths:
        try:
            found = dataset.get_partition_keys(partitioning.parse(path))
        except ValueError as error:
            raise failed(_READ, "corrupt", str(error), path, hint="rename the directory") from error
        values[path] = {field.name: found.get(field.name) for field in fields}
    return values


def _parquet_files(sources: list[str]) -> list[str]:
    found = []
    for name in files(sources):
        if not os.path.isdir(name):
            found.append(name)
            continue
        below = []
        for folder, folders, names in os.walk(name, followlinks=True):
            folders[:] = [inner for inner in folders if not inner.startswith((".", "_")) or "=" in inner]
            tables = (file for file in names if not file.startswith((".", "_")))
            below += [
                os.path.join(folder, file) for file in tables if file.endswith((*_PARQUET_ENDS, *_ARROW_ENDS))
            ]
        found += sorted(below)
    arrow = next((path for path in found if path.endswith(_ARROW_ENDS)), None)
    if arrow is not None:
        hint = f"convert it: outcore convert {arrow} -o new.parquet"
        raise usage(_READ, f"{arrow} is an Arrow file, not a Parquet file", hint)
    if not found:
        raise usage(_READ, "there is no Parquet file", "name files, or a directory with `.parquet` files")
    return found
