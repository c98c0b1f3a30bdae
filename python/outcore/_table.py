"""Tables: Parquet and Arrow files, and tables of pyarrow, Polars, pandas and DuckDB, larger than memory.

    >>> import outcore
    >>> outcore.dedup("docs.parquet", "clean.parquet", by="url")
    >>> table = outcore.table("logs/*.parquet").filter("country == 'de'").sort(by="time:desc")
    >>> frame = table.to_polars()

A `Table` is files, or the result of a step: each step writes an Arrow file of its own, which is
removed with the `Table`. Tables of other libraries come in and go out through the Arrow PyCapsule
interface (`__arrow_c_stream__`), batch by batch.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, overload

from . import _arguments as arguments
from . import _kinds
from . import _part_verbs
from . import _row_verbs
from . import _table_verbs
from . import _verbs
from ._column import Column, Expression, expression_text
from ._column import text as literal
from ._equivalents import of_keyword, unknown_attribute
from ._errors import usage
from ._held import MEANS, ArrowStream, Held, Place, TableSource
from ._held import files, is_held, quoted, resources_of, spooled, text_of, texts
from ._libraries import library
from ._preview import ROWS, Preview
from ._progress import Watcher
from ._reports import WriteSummary

_SEED = 1
#: Files whose contents decide on their kind.
_LOOKED_AT = 16
#: Endings of names of tables.
_ENDINGS = (".parquet", ".arrow", ".arrows", ".feather", ".csv", ".tsv", ".jsonl", ".ndjson")
#: Functions of groups that are written without a column.
_BARE = ("count", "row_number", "rank", "dense_rank")
#: The options of text.
_OF_TEXT = ("schema", "separator", "null", "on_error")


def table(
    src: TableSource | Iterable[ArrowStream],
    *,
    columns: Iterable[str] | None = None,
    union: bool = False,
    schema: str | Mapping[str, str] | None = None,
    separator: str | None = None,
    null: str | Iterable[str] = (),
    on_error: str = "fail",
    memory: arguments.Size | None = None,
    threads: SupportsIndex | None = None,
    drives: arguments.Paths = (),
    io: str | None = None,
    scratch_limit: arguments.Size | None = None,
    progress: Watcher | bool | None = None,
) -> Table:
    """A table as the start of steps.

    Args:
        src: Files of Parquet, Arrow, CSV (`.csv`, `.tsv`) or JSON lines (`.jsonl`, `.ndjson`), the last two also
            compressed, directories or patterns of them, in order, as one table; or a table of another library, which is
            written to an Arrow file first. A list of tables is the rows of all of them.
        columns: Keep these columns, in this order; the others are not read. `"st.a"` is the field `a` of objects `st`.
        union: Files may lack columns, which are null there, or have columns of other types, which get a common type: the
            wider integer, a float, a decimal with all digits, the finer timestamp. Nothing is rounded.
        schema: Types of columns of CSV and JSON lines: `{"id": "i64", "price": "decimal(12,2)"}`, or the same as the text
            `"id:i64,price:decimal(12,2)"`. Types of other columns are inferred from a sample.
        separator: The byte between fields of CSV; by default that of a sample of the records, which a warning names if it is
            not the usual one.
        null: Texts of CSV fields that are null, in addition to empty fields: `"NA"`, `["NA", "-"]`,
            or `"pandas"` for the list of `pandas.read_csv`.
        on_error: The treatment of rows of CSV and JSON lines that do not have the columns, or
            values of their types: `"fail"` is an error, `"skip"` leaves them out, and `"null"`
            reads such values as null. A warning has their number.
        memory, threads, drives, io, scratch_limit, progress: As in `sort`, for every step. Results
            of steps are on the first of `drives`, or in the directory of temporary files
            (`TMPDIR`).

    Raises: What `sort` raises.
    """
    given = dict(locals())
    src = arguments.looked_at_twice(given.pop("src"))
    said = {name: value for name, value in given.items() if value is not None and value not in ((), "fail")}
    if not union:
        del said["union"]
    if columns is not None:
        said["columns"] = texts("columns", columns)
    if not isinstance(null, str) and null:
        said["null"] = texts("null", null)
    if isinstance(src, (list, tuple)) and any(map(is_held, src)):
        return _stacked(src, said)
    if isinstance(src, Table):
        _kinds.check(table, _kinds.HELD, given)
        shape = {**src._shape(), **({} if columns is None else {"columns": said["columns"]})}
        means = {name: value for name, value in said.items() if name in MEANS}
        return Table(src._inputs, {**shape, **means}, src._place, src.summary)
    # Invalid values are errors here, before the table is used.
    is_text_said = any(name in said for name in _OF_TEXT)
    resources_of(said), text_of(said)
    made = spooled(src, said)
    if made is None:
        _check_source(src)
    opened = Table(files(src), said) if made is None else Table([made[0]], said, made[1])
    if made is None:
        _check_lines(opened, given)
    if is_text_said:
        _check_text(opened, made is not None, given)
    return opened


def _stacked(sources: Iterable[Any], said: Mapping[str, Any]) -> Table:
    """The rows of several tables, in order. Only tables that are read with options of their own are copied."""
    means = {name: value for name, value in said.items() if name in MEANS}
    opened = [one if isinstance(one, Table) else table(one, **means) for one in sources]
    parts = [_table_verbs.convert(one) if one._shape() else one for one in opened]
    places = [one._place for one in parts if one._place is not None]
    # The files must exist as long as the table.
    place = Place(means, places) if places else None
    return Table([name for one in parts for name in one._inputs], said, place)


def _check_source(src: object) -> None:
    """Rejects data in memory that has rows or columns, but is not a table."""
    name = type(src).__qualname__
    hint = None
    if isinstance(src, list) and src and isinstance(src[0], Mapping):
        name = f"list of {type(src[0]).__qualname__}"
        hint = "pyarrow.Table.from_pylist(...) or pandas.DataFrame(...) makes a table of it"
    elif isinstance(src, Mapping):
        hint = "pyarrow.table(...) or pandas.DataFrame(...) makes a table of it"
    elif hasattr(src, "__array__"):
        hint = "pandas.DataFrame(...) makes a table of it, and numpy.save a file for outcore.open"
    if hint is not None:
        raise usage("open table", f"an object of type {name} is neither a table nor the name of a file", hint)


def _check_lines(opened: Table, given: dict[str, Any]) -> None:
    """Rejects files of this machine that hold lines of text or an array. Names decide for all others."""
    for name in opened._inputs[:_LOOKED_AT]:
        if "://" in name or os.path.isdir(name) or name.endswith(_ENDINGS):
            continue
        kind = _kinds.what([name], resources_of(given), table=True)
        if kind == _kinds.ARRAY:
            raise usage("open table", f"the file is an array, not a table ({name})", "outcore.open reads it")
        if kind == _kinds.LINES:
            cause = f"the file is lines of text or raw records, not a table ({name})"
            hint = "outcore.open reads lines with lines=True, and records with dtype="
            raise usage("open table", cause, hint)


def _check_text(opened: Table, held: bool, given: dict[str, Any]) -> None:
    """Rejects options of text if no file is text of that kind."""
    kinds = [_kinds.HELD] if held else []
    for name in () if held else opened._inputs[:_LOOKED_AT]:
        kinds.append(_kinds.what([name], resources_of(given), table=True))
    # It is enough that the option applies to one of several files.
    for argument in _OF_TEXT:
        if not any(kind in _kinds.RULES["table"][argument] for kind in kinds):
            _kinds.check(table, kinds[0], {argument: given[argument]})


class Table(Held):
    """A table and the steps that made it; see `table`. Each step runs at once and returns another
    table. It has the arguments, defaults and errors of the function with the same name."""

    def sort(
        self,
        by: arguments.Keys = (),
        *,
        descending: bool = False,
        stable: bool = False,
        unique: bool = False,
    ) -> Table:
        """The rows in the order of columns, the most significant first: `"time:desc"` is largest
        first, and `"name:nulls-first"` has nulls first. Without names, all columns count. With
        `unique`, one row of each key."""
        return _verbs.sort(self, by=self._keys(by), descending=descending, stable=stable, unique=unique)

    def unique(self, by: arguments.Keys = ()) -> Table:
        """One row of each key, in the order of the keys; `dedup` keeps the order of the input."""
        return _verbs.unique(self, by=self._keys(by))

    def dedup(
        self, by: arguments.Keys = (), *, keep: str = "first", removed: arguments.StrPath | None = None
    ) -> Table:
        """One row of each key; the kept rows stay in their order, as by `dedup`."""
        return _table_verbs.dedup(self, by=by, keep=keep, removed=removed)

    def dedup_near(
        self,
        column: str,
        jaccard: float = 0.8,
        *,
        shingles: str = "words:5",
        hashes: SupportsIndex = 128,
        seed: SupportsIndex = _SEED,
        keep: str = "first",
        removed: arguments.StrPath | None = None,
    ) -> Table:
        """The rows without those whose text in a column is nearly the same as that of a row that is
        kept: `dedup` with `near`."""
        return _table_verbs.dedup(
            self,
            near=column,
            jaccard=jaccard,
            shingles=shingles,
            hashes=hashes,
            seed=seed,
            keep=keep,
            removed=removed,
        )

    def merge(self, by: arguments.Keys = (), *, descending: bool = False) -> Table:
        """The rows of all files, merged in the order of columns. Each file must already be in that
        order. It takes one read and one write. A file that is not in order is a `CorruptError` that
        names its row."""
        return _row_verbs.merge(self, by=by, descending=descending)

    def count_by(self, by: arguments.Keys, *, by_count: bool = False) -> Table:
        """How often each value of columns occurs, in the order of the values, or with `by_count`
        the most frequent first: the columns, followed by `count`."""
        made = _row_verbs.count_by(self, by=texts("by", by), by_count=by_count)
        assert isinstance(made, Table)
        return made

    def dedup_substring(
        self,
        column: str,
        length: SupportsIndex = 50,
        *,
        tokens: bool = False,
        removed: arguments.StrPath | None = None,
    ) -> Table:
        """The rows without passages of a text that have already occurred: `dedup` with
        `substring`."""
        return _table_verbs.dedup(self, substring=length, of=column, tokens=tokens, removed=removed)

    def group_by(self, by: arguments.Keys = (), *aggregates: str, **named: str) -> Table:
        """A row of aggregates for each group of rows, as by `group_by`: `group_by("country", "count",
        total="sum(price * qty)")`. Without `by`, all rows are one group."""
        for word in ("agg", "aggregates"):
            if not isinstance(named.get(word, ""), str):
                hint = 'group_by takes them itself: group_by("country", "count", total="sum(price)")'
                raise usage("read arguments", f"{word}= is the name of one aggregate", hint)
        return _table_verbs.group_by(self, by=by, aggregates=self._named("aggregates", aggregates, named))

    def window(
        self,
        by: arguments.Keys,
        *functions: str,
        order: arguments.Keys = (),
        first: SupportsIndex | None = None,
        **named: str,
    ) -> Table:
        """The rows with more columns, which depend on a row's place in its group, as by `window`:
        `window("user", "row_number", order="time", before="lag(page)")`."""
        added = self._named("functions", functions, named)
        if not added and first is None:
            step = 'write window("country", "row_number", order="time"), or first=3 for the first rows of each group'
            raise usage("read arguments", "no window function is given", step)
        return _table_verbs.window(self, by=by, order=order, added=added, first=first)

    def join(
        self,
        other: TableSource,
        on: arguments.Keys = (),
        *,
        how: str | None = None,
        asof: str | None = None,
        tolerance: str | float | None = None,
        suffix: str = "_right",
        ordered: bool = True,
    ) -> Table:
        """The rows joined with those of another table, as by `join`. Each table has its own options
        for reading."""
        if isinstance(other, (list, tuple)) and any(map(is_held, other)):
            step = "join one after the other: t.join(a, on=\"id\").join(b, on=\"id\")"
            raise usage("join tables", "a join takes one other table, not several", step)
        return _table_verbs.join(
            self, other, on=on, how=how, asof=asof, tolerance=tolerance, suffix=suffix, ordered=ordered
        )

    def diff(self, other: TableSource, by: arguments.Keys = ()) -> Table:
        """The differences between this table and another one, as by `diff`."""
        return _table_verbs.diff(self, other, by=by)

    def shuffle(
        self, seed: SupportsIndex = _SEED, *, epoch: SupportsIndex = 0, by: arguments.Keys = ()
    ) -> Table:
        """The rows in a random order, which depends only on `seed` and `epoch`. Rows with equal
        values in the columns `by` stay together, in the order of the input."""
        return _verbs.shuffle(self, seed=seed, epoch=epoch, by=by)

    def filter(self, *conditions: Expression) -> Table:
        """The rows for which all conditions are true: `"price * n > 100 and country in ('de', 'fr')"`. Row groups that
        cannot match are not read. `help(outcore.map)` describes the expressions."""
        if any(one is None for one in conditions):
            raise usage("filter", "the condition is None", 'give one: "price > 100", or outcore.col("price") > 100')
        condition, *further = conditions or ("true",)
        return _row_verbs.filter(self, condition, where=further)

    def map(self, *unnamed: object, **columns: Expression | bool | int | float) -> Table:
        """The rows with computed columns: `map(total="price * n")`. A computed column replaces one
        with the same name."""
        if unnamed:
            hint = 'name it as a keyword: map(total="price * n"), or map(**columns) for a dictionary'
            raise usage("read arguments", "a computed column needs a name", hint)
        numbers = {name: literal(given) for name, given in columns.items() if isinstance(given, (bool, int, float))}
        texts_of = {name: numbers.get(name) or expression_text(given) for name, given in columns.items()}
        computed = [f"{quoted(name)} = {text}" for name, text in texts_of.items()]
        return _row_verbs.map(self, ", ".join(computed))

    def select(self, *columns: str) -> Table:
        """The rows with only these columns, in this order. This reads nothing."""
        if len(columns) == 1 and not isinstance(columns[0], str) and isinstance(columns[0], Iterable):
            columns = tuple(columns[0])
        columns = tuple(str(column) if isinstance(column, Column) else column for column in columns)
        given = {**self._given, "columns": texts("columns", columns)}
        return Table(self._inputs, given, self._place, self.summary)

    def head(self, rows: SupportsIndex = 10) -> Table:
        """The first rows. Only these are read."""
        return _part_verbs.head(self, count=rows)

    def sample(self, rows: SupportsIndex, *, seed: SupportsIndex = _SEED) -> Table:
        """Random rows, in the order of the input; each set of this size is equally likely. For a share of the rows,
        use `outcore.sample(table, rate=0.1)`."""
        if isinstance(rows, float):
            hint = "sample(10) draws 10 rows, and outcore.sample(table, rate=0.1) a tenth of them"
            raise usage("sample", f"{rows} is not a number of rows", hint)
        return _part_verbs.sample(self, count=rows, seed=seed)

    def write(
        self,
        dst: arguments.StrPath,
        *,
        codec: str | None = None,
        group_rows: SupportsIndex | None = None,
        bloom: arguments.Keys | None = None,
        parts: SupportsIndex | None = None,
        force: bool = False,
    ) -> WriteSummary:
        """Writes a file of Parquet, Arrow, CSV or JSON lines, or a directory of `parts`, whole or not at all, as by
        `convert`."""
        return _table_verbs.convert(
            self, dst, codec=codec, group_rows=group_rows, bloom=bloom, parts=parts, force=force
        )

    # Type checkers know the attributes.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The batches for another library: `pyarrow.table(t)`, `polars.DataFrame(t)`."""
        if any(map(_is_packed, self._inputs)):
            # Files that are unpacked for a step exist only as long as the step.
            return _table_verbs.convert(self).__arrow_c_stream__(requested_schema)
        return super().__arrow_c_stream__(requested_schema)

    def tail(self, rows: SupportsIndex) -> Table:
        """The last rows."""
        return _part_verbs.tail(self, count=rows)

    @functools.cached_property
    def schema(self) -> Mapping[str, str]:
        """The columns and their types, as in `outcore.info`. For text, the types of its first rows."""
        return self._preview.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema)

    @functools.cached_property
    def _rows(self) -> int:
        columns = self.columns[:1]
        # One column is enough to count the rows of text. For Parquet and Arrow, no column is read.
        return int(_table_verbs.info(self.select(*columns) if columns else self).records)

    def __len__(self) -> int:
        """The number of rows. Parquet and Arrow files store it; text is read once."""
        return self._rows

    def __bool__(self) -> bool:
        """True, with rows or without: `if table` reads nothing."""
        return True

    def __contains__(self, name: object) -> bool:
        """Whether there is a column of this name."""
        return name in self.columns

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Not supported: columns have different types."""
        hint = 't.to_pandas() is a frame in memory, and t.to_arrow()["price"].to_numpy() a column'
        raise usage("make array", "a table is not an array", hint)

    @overload
    def __getitem__(self, at: slice) -> Table: ...
    @overload
    def __getitem__(self, at: str | list[str]) -> Table: ...
    def __getitem__(self, at: slice | str | list[str]) -> Table:
        """Rows `table[i:j]`, or columns: `table["id"]`, `table[["id", "price"]]`. A slice also reads the rows before
        its first one."""
        if isinstance(at, str):
            return self.select(at)
        if isinstance(at, list):
            return self.select(*at)
        if isinstance(at, Column):
            raise usage("take rows", "a table has no condition as an index", "filter(condition) keeps the rows for which it holds")
        if isinstance(at, bool) or hasattr(at, "dtype") and at.dtype == bool:
            cause = "a table has no truth values as an index, and == between tables compares no rows"
            raise usage("take rows", cause, 't.filter(outcore.col("country") == "Spain") keeps rows')
        if isinstance(at, tuple) or isinstance(at, slice) and isinstance(at.start or at.stop, str):
            step = 't[["id", "price"]] takes columns, t[10:20] rows, and t.select("id", "price")[10:20] both'
            raise usage("take rows", "a table has no columns and rows in one index, and no range of columns", step)
        if not isinstance(at, slice):
            kind = type(at).__name__
            raise usage(
                "take rows",
                f"a table has no {kind} as an index",
                "take rows with table[i:j], columns with table['name'], and a row with table[i:i + 1]",
            )
        if at.step not in (None, 1):
            raise usage("take rows", f"a step of {at.step}", "take rows with table[i:j]")
        if at.start is None and at.stop is not None and operator.index(at.stop) >= 0:
            return self.head(at.stop)
        if at.stop is None and at.start is not None and operator.index(at.start) < 0:
            return self.tail(-operator.index(at.start))
        start, stop, _ = at.indices(len(self))
        if (start, stop) == (0, len(self)):
            return self
        return self.head(stop).tail(max(stop - start, 0))

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` of all rows, in memory."""
        return self.reader().read_all()

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` of all rows, in memory."""
        library("pandas", "make a DataFrame")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A `polars.DataFrame` of all rows, in memory."""
        return library("polars", "make a DataFrame").DataFrame(self)

    def batches(self) -> Iterator[Any]:
        """The rows in order, as record batches of pyarrow."""
        return iter(self.reader())

    def reader(self) -> Any:
        """A `pyarrow.RecordBatchReader` over the rows."""
        return library("pyarrow", "read record batches").RecordBatchReader.from_stream(self)

    @functools.cached_property
    def _preview(self) -> Preview:
        first = self.head(ROWS)
        assert first._place is not None
        schema = {column.name: column.type for column in _table_verbs.info(first).columns}
        path = first._place.path("first.jsonl")
        _table_verbs.convert(first, path)
        return Preview.of(schema, Path(path).read_bytes())

    def _keys(self, by: arguments.Keys) -> arguments.Keys:
        """The given columns. Without any, all columns of a table of text, because text without columns is lines."""
        by = str(by) if isinstance(by, Column) else by
        is_text = any(_is_text(name) for name in self._inputs)
        return [quoted(name) for name in self.columns] if is_text and not by else by

    def _named(self, name: str, given: Iterable[str], named: Mapping[str, str]) -> list[str]:
        """Expressions, some with the names of their results."""
        wrong = next((one for one in given if isinstance(one, Mapping)), None)
        if wrong is not None:
            hint = 'write group_by("country", total="sum(price)")'
            raise usage("read arguments", f"{wrong!r} is a dictionary, but aggregates are texts", hint)
        function, example = (self.window, "lag(price)") if name == "functions" else (self.group_by, "sum(price)")
        for made, text in named.items():
            use = of_keyword(function, made)
            is_column = isinstance(text, str) and text.isidentifier() and text not in _BARE and text in self
            if use is not None and (not isinstance(text, str) or is_column):
                raise TypeError(f"{made}= is not a keyword of {function.__name__}; {use}")
            if isinstance(text, bool):
                cause = f"{made}={text} is not a result, and {function.__name__} has no such keyword"
                raise usage("read arguments", cause, f"leave {made}= out")
            if not isinstance(text, str):
                kind = type(text).__name__
                hint = f'write it as a text: {made}="{example}"'
                raise usage("read arguments", f"{made}= is of the type {kind}, not a text", hint)
            if is_column:
                hint = f'give a function of it: {made}="{example.replace("price", text)}"'
                raise usage("read arguments", f"{made}={text!r} is only the name of a column", hint)
        return texts(name, given) + [f"{made}={text}" for made, text in named.items()]

    def _title(self) -> str:
        """A description in a line."""
        names = ", ".join(map(os.path.basename, self._inputs[:3]))
        return f"outcore.Table of {names if self._place is None else 'a step'}"

    def __repr__(self) -> str:
        return self._preview.text(self._title())

    def _repr_html_(self) -> str:
        return self._preview.html(self._title())


def _is_text(name: str) -> bool:
    """Whether a file has the name of CSV or JSON lines, which may be compressed."""
    return name.removesuffix(".gz").removesuffix(".zst").endswith((".csv", ".tsv", ".jsonl", ".ndjson"))


def _is_packed(name: str) -> bool:
    """Whether a file, or one in a directory, has the name of a compressed file."""
    if not os.path.isdir(name):
        return name.endswith((".gz", ".zst", ".bz2", ".xz"))
    found = os.walk(name)
    return any(_is_packed(os.path.join(place, file)) for place, _, files in found for file in files)
