"""Tables: Parquet and Arrow files, and tables of pyarrow, Polars, pandas and DuckDB, larger than memory.

    >>> import outcore
    >>> outcore.dedup("docs.parquet", "clean.parquet", by="url")
    >>> table = outcore.table("logs/*.parquet").filter("country == 'de'").sort(by="time:desc")
    >>> frame = polars.DataFrame(table)

A `Table` is files, or what a step made of them: each step writes an Arrow file of its own, which goes with the
`Table`. Tables of other libraries come in and go out through the Arrow PyCapsule interface
(`__arrow_c_stream__`), batch by batch.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, SupportsIndex, Union, runtime_checkable

from . import _arguments as arguments
from . import _kinds
from . import _outcore
from ._errors import usage
from ._progress import Watcher, telling
from ._units import whole
from ._replies import TableReply
from ._requests import JoinRequest, NearRequest, ResourcesRequest, RightRequest, SubstringRequest
from ._requests import TextRequest

_SEED = 1
#: Text as its sample and its columns have it.
_AS_IT_IS: TextRequest = {"schema": None, "separator": None, "null": [], "on_error": "fail"}
#: Files that are looked at for what they hold.
_LOOKED_AT = 16


@runtime_checkable
class ArrowStream(Protocol):
    """What hands out record batches: tables and readers of pyarrow, frames of Polars and pandas, relations
    of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with an Arrow stream."""


#: What jobs on tables read.
TableSource = Union[arguments.Paths, ArrowStream]


@dataclass(frozen=True)
class TableSummary:
    """What a job on a table did."""

    rows_in: int
    rows_out: int
    #: Rows that `dedup` left out, or passages that `dedup_substring` cut; `None` of other jobs.
    removed: int | None
    seconds: float
    read_bytes: int
    written_bytes: int
    #: Most scratch in use at once.
    scratch_bytes: int
    output_bytes: int
    passes: int
    #: What was left out of CSV and JSON lines or read as null, a sentence per file (`on_error`).
    bad_rows: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain numbers."""
        return asdict(self)


def table(
    src: TableSource,
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
    """A table, to do something with.

    Args:
        src: Files of Parquet, Arrow, CSV (`.csv`, `.tsv`) or JSON lines (`.jsonl`, `.ndjson`), the last two also
            compressed, directories or patterns of them, in order, as one table; or a table of another library, which is
            written to an Arrow file first.
        columns: Keep these columns, in this order; the others are not read. `"st.a"` is the field `a` of objects `st`.
        union: Files may lack columns, which are null there, or have columns of other types, which get a common type: the
            wider integer, a float, a decimal with all digits, the finer timestamp. Nothing is rounded.
        schema: Types of columns of CSV and JSON lines: `{"id": "i64", "price": "decimal(12,2)"}`, or the same as the text
            `"id:i64,price:decimal(12,2)"`. Types of other columns are inferred from a sample.
        separator: The byte between fields of CSV; by default that of a sample of the records, which a warning names if it is
            not the usual one.
        null: Texts of CSV fields that are null, besides empty fields: `"NA"`, `["NA", "-"]`, or `"pandas"` for the list of
            `pandas.read_csv`.
        on_error: What becomes of rows of CSV and JSON lines that do not have the columns, or values of their types: `"fail"`,
            `"skip"` leaves them out, `"null"` reads such values as null. A warning says how many there were.
        memory, threads, drives, io, scratch_limit, progress: As in `sort`, of every step. What steps make lies on the
            first of `drives`, or where temporary files go (`TMPDIR`).

    Raises: What `sort` raises.
    """
    given = dict(locals())
    src = arguments.looked_at_twice(src)
    names = arguments.path_texts(drives)
    resources = arguments.resources_of(memory, threads, drives, io, scratch_limit, _SEED, None)
    chosen = None if columns is None else _texts("columns", columns)
    how = _How(resources, names[0] if names else None, progress)
    if isinstance(src, Table):
        _kinds.check(table, _kinds.HELD, given)
        kept = chosen or src._columns
        return Table(src._inputs, how, src._place, kept, src._union, src.summary, src._text)
    text = _text_of(schema, separator, null, on_error)
    opened = _open(src, how, chosen, (bool(union), text))
    if text != _AS_IT_IS:
        _check_text(opened, is_held(src), given)
    return opened


def _byte_of(separator: str | None) -> int | None:
    if separator is None:
        return None
    if len(os.fsencode(separator)) != 1:
        raise usage("open table", "the separator is not one byte", "give one character of ASCII")
    return os.fsencode(separator)[0]


def _check_text(opened: Table, held: bool, given: dict[str, Any]) -> None:
    """Rejects what is said of text where no file is text of that kind."""
    resources = opened._how.resources
    kinds = [_kinds.HELD] if held else []
    for name in () if held else opened._inputs[:_LOOKED_AT]:
        kinds.append(_kinds.what([name], resources, table=True))
    # One of several files is enough.
    for argument in ("schema", "separator", "null", "on_error"):
        if not any(kind in _kinds.RULES["table"][argument] for kind in kinds):
            _kinds.check(table, kinds[0], {argument: given[argument]})


def is_held(src: object) -> bool:
    """Whether `src` is a table, or one of another library, rather than the names of files."""
    if isinstance(src, Table) or hasattr(src, "__arrow_c_stream__"):
        return True
    return any(hasattr(src, name) for name in ("scanner", "to_reader", "fetch_arrow_reader"))


def _text_of(
    schema: str | Mapping[str, str] | None,
    separator: str | None,
    null: str | Iterable[str],
    on_error: str,
) -> TextRequest:
    if schema is not None and not isinstance(schema, str):
        quoted = ((name.replace("`", "``"), kind) for name, kind in schema.items())
        schema = ",".join(f"`{name}`:{kind}" for name, kind in quoted)
    nulls = [null] if isinstance(null, str) else _texts("null", null)
    between = _byte_of(separator)
    return {"schema": schema, "separator": between, "null": nulls, "on_error": on_error}


def _open(
    src: TableSource, how: _How, chosen: list[str] | None, shape: tuple[bool, TextRequest]
) -> Table:
    union, text = shape
    if isinstance(src, (str, os.PathLike)) or not hasattr(src, "__arrow_c_stream__"):
        stream = _reader_of(src)
        if stream is None:
            return Table(_files(src), how, None, chosen, union, None, text)
        src = stream
    place = _Place(how.dir)
    path = place.path("in.arrow")
    with telling(how.progress, ("take table",)) as tell:
        _outcore.table_spool(src, path, how.resources, tell)
    return Table([path], how, place, chosen, False, None)


@dataclass(frozen=True)
class _How:
    """With what steps are done."""

    resources: ResourcesRequest
    dir: str | None
    progress: Watcher | bool | None


class _Place:
    """A directory of its own, which goes with its holder. Readers of the directory above pass over its name."""

    def __init__(self, parent: str | None) -> None:
        self._dir = tempfile.mkdtemp(prefix=".outcore-table-", dir=parent)
        self._gone = weakref.finalize(self, shutil.rmtree, self._dir, True)

    def path(self, name: str) -> str:
        return os.path.join(self._dir, name)


class Table:
    """A table and the steps that made it; see `table`. Each step returns another one, and is done at once."""

    def __init__(
        self,
        inputs: list[str],
        how: _How,
        place: _Place | None,
        columns: list[str] | None,
        union: bool,
        summary: TableSummary | None,
        text: TextRequest = _AS_IT_IS,
    ) -> None:
        self._inputs = inputs
        self._how = how
        self._place = place
        self._columns = columns
        self._union = union
        self._text = text
        #: What the last step did; `None` before any.
        self.summary = summary

    def sort(
        self,
        by: arguments.Keys = (),
        *,
        descending: bool = False,
        stable: bool = False,
        unique: bool = False,
    ) -> Table:
        """In the order of columns, the most significant first: `"time:desc"` is largest first, `"name:nulls-first"` has
        nulls first; all columns if none is named. With `unique`, one row of each key."""
        keys = _texts("by", by)
        job = "unique" if unique else "sort"
        return self._step(job, by=keys, descending=bool(descending), stable=bool(stable))

    def unique(self, by: arguments.Keys = ()) -> Table:
        """One row of each key, in their order; see `dedup` for the order of the input."""
        return self._step("unique", by=_texts("by", by))

    def dedup(
        self, by: arguments.Keys = (), *, keep: str = "first", removed: arguments.StrPath | None = None
    ) -> Table:
        """Without the rows whose key a row that is kept has; the others stay where they are. `keep` is `"first"`,
        `"last"`, or a column: the row with its least value, or with `"score:desc"` its largest. What is left out goes
        to the file `removed`."""
        others = None if removed is None else arguments.path_text(removed)
        return self._step("dedup", by=_texts("by", by), keep=keep, removed=others)

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
        """Without the rows whose text is nearly that of a row that is kept, as MinHash signatures say.

        Args:
            column: The column of the text.
            jaccard: From which similarity on: the share of the shingles of two texts that both have.
            shingles: What texts are compared by: `"words:5"`, or `"chars:20"` for languages without blanks.
            hashes: Hashes of a text: more are surer and slower.
            seed: Chooses the hashes; nothing else is random.
            keep: `"first"` or `"last"`.
            removed: A file for the rows that are left out, with a column `duplicate_of`: the number of the row that was kept.
        """
        near: NearRequest = {
            "column": column,
            "jaccard": float(jaccard),
            "shingles": shingles,
            "hashes": whole("hashes", hashes),
        }
        others = None if removed is None else arguments.path_text(removed)
        number = arguments.number("seed", seed)
        return self._step("dedup", near=near, keep=keep, removed=others, seed=number)

    def merge(self, by: arguments.Keys = (), *, descending: bool = False) -> Table:
        """The rows of all files in the order of columns, in which each file is already: one read and one write. A file that
        is not in order is a `CorruptError` that names its row."""
        return self._step("merge", by=_texts("by", by), descending=bool(descending))

    def count_by(self, by: arguments.Keys, *, by_count: bool = False) -> Table:
        """How often each value of columns occurs, in the order of the values, or with `by_count` the most frequent
        first: the columns, and behind them `count`."""
        return self._step("count_by", by=_texts("by", by), descending=bool(by_count))

    def dedup_substring(
        self,
        column: str,
        length: SupportsIndex = 50,
        *,
        tokens: bool = False,
        removed: arguments.StrPath | None = None,
    ) -> Table:
        """Without the passages of a text that occur before.

        Args:
            column: The column of the text.
            length: Text of at least this many bytes that occurs before, in an earlier row or earlier in its own, is cut. The first
                occurrence stays, and so do all rows.
            tokens: The length counts tokens, which white space separates. Which white space that is makes no difference, and what
                comes behind the last token goes with it.
            removed: A file that says what was cut: `row`, `start` and `length` in bytes, `first_row`, where its beginning occurs
                before, and `text`.
        """
        number = whole("length", length)
        substring: SubstringRequest = {
            "column": column,
            "units_count": number,
            "tokens": bool(tokens),
        }
        others = None if removed is None else arguments.path_text(removed)
        return self._step("dedup", substring=substring, removed=others)

    def group_by(self, by: arguments.Keys, *aggregates: str, **named: str) -> Table:
        """A row of aggregates for each group of rows, in the order of the groups' columns: `group_by("country", "count",
        total="sum(bytes)")`. Without any, rows are counted. The aggregates are those of `outcore group-by --help`."""
        texts = _texts("aggregates", aggregates)
        texts += [f"{name}={text}" for name, text in named.items()]
        return self._step("group_by", by=_texts("by", by), aggregates=texts or ["count"])

    def window(
        self,
        by: arguments.Keys,
        *functions: str,
        order: arguments.Keys = (),
        first: SupportsIndex | None = None,
        **named: str,
    ) -> Table:
        """With columns that depend on a row's place in its group: `window("user", "row_number", order="time",
        before="lag(page)")`.

        Args:
            by: The columns of the groups; with none all rows are one group.
            functions: What is added; the functions are those of `outcore window --help`.
            order: The columns that order the rows of a group; the order of the table without any.
            first: How many of the first rows of each group are kept; all if not given.
            named: What is added, by the name of the column that it gets.

        Rows come in the order of `by`, and those of a group in that of `order`.
        """
        added = _texts("functions", functions)
        added += [f"{name}={text}" for name, text in named.items()]
        kept = None if first is None else whole("first", first)
        return self._step("window", by=_texts("by", by), order=_texts("order", order), added=added, first=kept)

    def join(
        self,
        other: TableSource | Table,
        on: arguments.Keys = (),
        *,
        how: str | None = None,
        asof: str | None = None,
        tolerance: SupportsIndex | float | str | None = None,
        suffix: str = "_right",
        ordered: bool = True,
    ) -> Table:
        """Joined with another table by the columns `on`: `"id"`, or `"id=user_id"` where the tables have different names.

        Args:
            other: The right table: as in `table`.
            on: The columns that are equal in rows that go together; nulls are equal to nothing.
            how: `"inner"`, `"left"`, `"right"`, `"full"`, `"semi"` (rows that have a partner) or `"anti"` (those that have
                none). `"inner"` if it is not given, and `"left"` with `asof`.
            asof: Each row gets one partner: the last row of `other` whose column `asof` is not greater.
            tolerance: How far back that may lie: a number, or a duration such as `"5min"`.
            suffix: What is put behind the name of a column of `other` if this table has a column of that name.
            ordered: Rows come in the order of `on`, nulls last; those of a key in the order of this table. Without it they may
                come in any order, which is faster if `other` fits into two fifths of the memory.
        """
        asked = _join(on, how, asof, tolerance, suffix, ordered)
        return self._with(other, "join", join=asked)

    def diff(self, other: TableSource | Table, by: arguments.Keys = ()) -> Table:
        """What differs between this table and another one, in the order of the key.

        Args:
            other: The right table, with the same columns: as in `table`.
            by: The columns that say which rows are to be the same, where null is equal to null; all columns if none is
                named, so that no row is changed. Rows of a key that comes several times are compared in the order of their
                bytes.

        The columns are `diff` (`"left"`, `"right"` or `"changed"`), `diff_columns` (those that differ, with commas
        between), then those of `by`, and each other one twice, as `NAME_left` and `NAME_right`.
        """
        return self._with(other, "diff", by=_texts("by", by))

    def shuffle(
        self, seed: SupportsIndex = _SEED, *, epoch: SupportsIndex = 0, by: arguments.Keys = ()
    ) -> Table:
        """In a random order, which depends on `seed` and `epoch` alone. Rows with equal values in the columns `by` stay
        together, in the order of the input."""
        numbers = arguments.number("seed", seed), arguments.number("epoch", epoch)
        return self._step("shuffle", seed=numbers[0], epoch=numbers[1], by=_texts("by", by))

    def filter(self, *conditions: str) -> Table:
        """The rows for which all conditions are true: `"price * n > 100 and country in ('de', 'fr')"`. Row groups that
        cannot match are not read. The expressions are those of `outcore filter --help`."""
        return self._step("select", conditions=_texts("conditions", conditions))

    def map(self, **columns: str) -> Table:
        """With columns that are computed: `map(total="price * n")`. One of a name that there is takes its place."""
        computed = [f"`{name}` = {text}" for name, text in columns.items()]
        return self._step("select", computed=computed)

    def select(self, *columns: str) -> Table:
        """With these columns alone, in this order. Nothing is read for it."""
        names = _texts("columns", columns)
        kept = self._inputs, self._how, self._place
        return Table(*kept, names, self._union, self.summary, self._text)

    def head(self, rows: SupportsIndex) -> Table:
        """The first rows; no more is read."""
        return self._step("head", rows=arguments.number("rows", rows))

    def sample(self, rows: SupportsIndex, *, seed: SupportsIndex = _SEED) -> Table:
        """Rows that are drawn, in the order of the input; each set of this size is as likely as any other."""
        number = arguments.number("rows", rows)
        return self._step("sample", rows=number, seed=arguments.number("seed", seed))

    def write(
        self,
        dst: arguments.StrPath,
        *,
        codec: str | None = None,
        group_rows: SupportsIndex | None = None,
        force: bool = False,
    ) -> TableSummary:
        """Writes `.parquet`, `.arrow`, `.feather`, `.arrows`, `.csv` or `.jsonl`, whole or not at all; text also with
        `.gz` or `.zst` behind.

        Args:
            dst: The file.
            codec: `"zstd:9"`, `"snappy"`, `"lz4"`, `"gzip"`, `"brotli"` or `"none"`.
            group_rows: Rows of a row group, at most.
            force: Replace a file that exists.
        """
        return self._run(
            "convert",
            arguments.path_text(dst),
            codec=codec,
            group_rows=None if group_rows is None else whole("group_rows", group_rows),
            force=bool(force),
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The batches for another library: `pyarrow.table(t)`, `polars.DataFrame(t)`."""
        if any(map(_is_packed, self._inputs)):
            # What is unpacked for a step goes with it.
            return self._step("convert").__arrow_c_stream__(requested_schema)
        what = self._inputs, self._columns, self._union, self._text, self._how.resources
        # The files must be there until the last batch has been read.
        return _outcore.table_stream(*what, self._place)

    def __iter__(self) -> Iterator[Any]:
        """The record batches, as pyarrow's."""
        return iter(self.reader())

    def reader(self) -> Any:
        """A `pyarrow.RecordBatchReader` over the rows."""
        try:
            import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            raise usage(
                "read batches",
                "pyarrow is not installed",
                "install it, or give the table to a library that takes __arrow_c_stream__",
            ) from None
        return pyarrow.RecordBatchReader.from_stream(self)

    def _with(self, other: TableSource | Table, job: str, **request: Any) -> Table:
        """A step of this table and another one."""
        right = other if isinstance(other, Table) else _open(other, self._how, None, (False, _AS_IT_IS))
        return self._step(job, right=right._as_right(), **request)

    def _as_right(self) -> RightRequest:
        return {
            "inputs": self._inputs,
            "columns": self._columns,
            "union": self._union,
            "text": self._text,
        }

    def _step(self, job: str, **request: Any) -> Table:
        place = _Place(self._how.dir)
        path = place.path(f"{job}.arrow")
        summary = self._run(job, path, **request)
        return Table([path], self._how, place, None, False, summary)

    def _run(self, job: str, output: str, seed: int = _SEED, **request: Any) -> TableSummary:
        asked: Any = {
            "job": job,
            "inputs": self._inputs,
            "output": output,
            "by": [],
            "descending": False,
            "stable": False,
            "keep": "first",
            "removed": None,
            "epoch": 0,
            "rows": 0,
            "conditions": [],
            "computed": [],
            "aggregates": [],
            "order": [],
            "added": [],
            "first": None,
            "right": None,
            "join": None,
            "near": None,
            "substring": None,
            "columns": self._columns,
            "union": self._union,
            "text": self._text,
            "codec": None,
            "group_rows": None,
            "force": False,
            "resources": {**self._how.resources, "seed": seed},
            **request,
        }
        with telling(self._how.progress, ("distribute", "sort", "copy")) as tell:
            reply: TableReply = _outcore.table_job(asked, tell)
        for said in reply["bad_rows"]:
            warnings.warn(said, stacklevel=4)
        return TableSummary(**reply)


def dedup(
    src: TableSource,
    dst: arguments.StrPath | None = None,
    by: arguments.Keys = (),
    *,
    keep: str = "first",
    removed: arguments.StrPath | None = None,
    columns: Iterable[str] | None = None,
    union: bool = False,
    codec: str | None = None,
    memory: arguments.Size | None = None,
    threads: SupportsIndex | None = None,
    drives: arguments.Paths = (),
    io: str | None = None,
    scratch_limit: arguments.Size | None = None,
    force: bool = False,
    progress: Watcher | bool | None = None,
) -> TableSummary | Table:
    """Removes duplicate rows from a table, and leaves the others where they are.

    Args:
        src: As in `table`.
        dst: The file to write, as in `Table.write`; without it a `Table` is returned.
        by: Columns that make two rows duplicates; all if none is named.
        keep: `"first"`, `"last"`, or a column: the row with its least value, or with `"score:desc"` its largest.
        removed: A file for the rows that are left out.
        columns, union, memory, threads, drives, io, scratch_limit, progress: As in `table`.
        codec, force: As in `Table.write`.

    Raises: What `sort` raises.
    """
    if dst is None:
        _check_no_codec("dedup", codec)
    opened = table(
        src,
        columns=columns,
        union=union,
        memory=memory,
        threads=threads,
        drives=drives,
        io=io,
        scratch_limit=scratch_limit,
        progress=progress,
    )
    if dst is None:
        return opened.dedup(by, keep=keep, removed=removed)
    return opened._run(
        "dedup",
        arguments.path_text(dst),
        by=_texts("by", by),
        keep=keep,
        removed=None if removed is None else arguments.path_text(removed),
        codec=codec,
        force=bool(force),
    )


def convert(
    src: TableSource,
    dst: arguments.StrPath,
    *,
    columns: Iterable[str] | None = None,
    union: bool = False,
    schema: str | Mapping[str, str] | None = None,
    null: str | Iterable[str] = (),
    on_error: str = "fail",
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    memory: arguments.Size | None = None,
    threads: SupportsIndex | None = None,
    force: bool = False,
    progress: Watcher | bool | None = None,
) -> TableSummary:
    """Writes a table in another format, with other columns or another codec.

    Args are those of `table` and `Table.write`.

    Raises: What `sort` raises.
    """
    opened = table(
        src,
        columns=columns,
        union=union,
        schema=schema,
        null=null,
        on_error=on_error,
        memory=memory,
        threads=threads,
        progress=progress,
    )
    return opened.write(dst, codec=codec, group_rows=group_rows, force=force)


def sort_table(
    src: TableSource,
    dst: arguments.StrPath | None,
    order: tuple[arguments.Keys, bool, bool, bool],
    output: tuple[str | None, bool],
    how: dict[str, Any],
) -> TableSummary | Table:
    """`outcore.sort` of a table: by, descending, stable, unique; codec, force."""
    by, descending, stable, unique = order
    if dst is None:
        _check_no_codec("sort", output[0])
    opened = table(src, **how)
    if dst is None:
        return opened.sort(by, descending=descending, stable=stable, unique=unique)
    return opened._run(
        "unique" if unique else "sort",
        arguments.path_text(dst),
        by=_texts("by", by),
        descending=descending,
        stable=stable,
        codec=output[0],
        force=output[1],
    )


def _check_no_codec(job: str, codec: str | None) -> None:
    """Rejects a codec where no file is named."""
    if codec is not None:
        raise usage(job, "codec cannot be used without dst", "give it to write of the Table")


def _join(
    on: arguments.Keys,
    how: str | None,
    asof: str | None,
    tolerance: SupportsIndex | float | str | None,
    suffix: str,
    ordered: bool,
) -> JoinRequest:
    return {
        "on": _texts("on", on),
        "how": how or ("left" if asof is not None else "inner"),
        "asof": asof,
        "tolerance": None if tolerance is None else str(tolerance),
        "suffix": suffix,
        "unordered": not ordered,
    }


def _reader_of(src: object) -> ArrowStream | None:
    """What reads a pyarrow dataset or scanner, or a relation of an older DuckDB."""
    scanned = src.scanner() if hasattr(src, "scanner") else src
    for name in ("to_reader", "fetch_arrow_reader"):
        make = getattr(scanned, name, None)
        reader = None if make is None else make()
        if isinstance(reader, ArrowStream):
            return reader
    return None


def _files(src: Any) -> list[str]:
    """Names, with patterns looked up."""
    files: list[str] = []
    for name in arguments.path_texts(src):
        if any(mark in name for mark in "*?[") and not os.path.lexists(name):
            found = sorted(glob.glob(name, recursive=True))
            if not found:
                raise usage("read tables", f"no file matches `{name}`", "check the pattern")
            files.extend(found)
        else:
            files.append(name)
    return files


def _is_packed(name: str) -> bool:
    """Whether a file, or one in a directory, is called as compressed ones are."""
    if not os.path.isdir(name):
        return name.endswith((".gz", ".zst", ".bz2", ".xz"))
    found = os.walk(name)
    return any(_is_packed(os.path.join(place, file)) for place, _, files in found for file in files)


def _texts(name: str, texts: Iterable[str]) -> list[str]:
    listed = [texts] if isinstance(texts, str) else list(texts)
    for text in listed:
        if not isinstance(text, str):
            kind = type(text).__name__
            raise usage("read arguments", f"{name} has a {kind}, not a text", "give texts")
    return listed
