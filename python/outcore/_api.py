"""The functions of the package: arguments as Python programs give them, one native job each.

All arguments but paths are keywords, named like the flags of the command (`--scratch-limit` is
`scratch_limit=`), and mean the same. What is not given comes from the environment
(`OUTCORE_MEMORY`, ...), the configuration file or a default, as for the command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from . import _kinds
from . import _verbs
from ._arguments import (
    SEED,
    Keys,
    LinesHow,
    Paths,
    Record,
    Size,
    StrPath,
    insists,
    looked_at_twice,
    optional_path,
    path_text,
    path_texts,
    resources_of,
    texts,
)
from ._errors import usage
from ._held import is_held
from ._progress import Watcher
from ._reports import Plan, SortSummary
from ._words import plan_of_verb

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._held import TableSource
    from ._reports import WriteSummary
    from ._table import Table


@overload
def sort(
    src: Paths,
    dst: StrPath,
    *,
    lines: Literal[True, "any"],
    key: Keys | None = None,
    by: Keys | None = None,
    csv: bool = False,
    separator: str | None = None,
    header: bool = True,
    order: str = "",
    on_error: Literal["fail", "skip"] = "fail",
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: Size | None = None,
    force: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def sort(
    src: Paths,
    dst: StrPath,
    *,
    csv: Literal[True],
    by: Keys,
    lines: LinesHow = False,
    separator: str | None = None,
    header: bool = True,
    order: str = "",
    on_error: Literal["fail", "skip"] = "fail",
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: Size | None = None,
    force: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def sort(
    src: Paths,
    dst: StrPath,
    *,
    by: None = None,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: Size | None = None,
    force: bool = False,
    replace: bool = False,
    seed: SupportsIndex = SEED,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SortSummary: ...


@overload
def sort(
    src: TableSource,
    dst: StrPath,
    *,
    by: Keys,
    columns: Iterable[str] | None = None,
    union: bool = False,
    codec: str | None = None,
    schema: str | Mapping[str, str] | None = None,
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: Size | None = None,
    force: bool = False,
    progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def sort(
    src: TableSource,
    dst: None = None,
    *,
    by: Keys,
    columns: Iterable[str] | None = None,
    union: bool = False,
    codec: str | None = None,
    schema: str | Mapping[str, str] | None = None,
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: Size | None = None,
    force: bool = False,
    progress: Watcher | bool | None = None,
) -> Table: ...


def sort(
    src: Paths | TableSource,
    dst: StrPath | None = None,
    *,
    by: Keys | None = None,
    columns: Iterable[str] | None = None,
    union: bool = False,
    codec: str | None = None,
    schema: str | Mapping[str, str] | None = None,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    lines: LinesHow = False,
    csv: bool = False,
    separator: str | None = None,
    header: bool = True,
    order: str = "",
    on_error: Literal["fail", "skip"] = "fail",
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: Size | None = None,
    force: bool = False,
    replace: bool = False,
    seed: SupportsIndex = SEED,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Sorts files that may be far larger than memory.

    The order is by key, then by all bytes of the record, so the result depends on the input and
    these options alone. The output appears whole or not at all; inputs are only read.

    What the files hold follows from what is said of them, their content and their names, as for the command: files with
    a type and `.npy` are records, Parquet and Arrow are tables, and other text is lines. CSV and JSON lines are a table
    if `by` names a column, and lines without it. An argument that is not for what the files hold is an error.

    Args:
        src: Files to sort, in order: lines, raw records, `.npy`, the manifest of shards, or a table.
        dst: Where the result goes. A name that ends in `.npy` gets a header; one with `{drive}` in
            it becomes one shard a drive and a manifest.
        by: For tables: the columns to sort by, all if it is not given, the most significant first; `"time:desc"` is largest first,
            `"name:nulls-first"` has nulls first. `src` is then Parquet or Arrow files, or a table of
            another library, and the result is written to `dst`, or without one is a `Table`. With `lines`, paths of the fields of
            JSON lines, as in `Lines.sort`: `".user.id"`.
        columns, union, codec, schema: For tables, as in `table` and `Table.write`.
        dtype: What a record is: a name of outcore's (`"u64"`, `"f32x32"`, `"gensort"`), or anything
            that NumPy takes for a dtype (`np.float32`, `"<u8"`, structured dtypes). Taken from the
            header of `.npy` files.
        record: In place of `dtype`, the size of a record in bytes, or that and its keys:
            `(100, "0:10")`.
        key: The fields of a structured dtype to sort by, or places in the record
            (`OFFSET:LEN[:TYPE][:desc]`), the most significant first. `name:desc` is largest first. For lines,
            keys as GNU sort's `-k` has them: `"2,2n"`.
        lines: The files are lines, whatever they are called; `"any"` takes any bytes for lines. The result of a sort of
            lines is a `WriteSummary`.
        csv: The files are CSV that stays as it is written; `by` then has the words of `Lines.sort`.
        separator: The byte between fields of lines or CSV; for CSV by default that of a sample of the records.
        header: The first line of each file of CSV names its columns, and comes first.
        order: For lines, letters of GNU sort, as in `Lines.sort`.
        on_error: What becomes of a line without its key, as in `Lines.sort`.
        descending: Largest first.
        stable: Equal keys keep the order of the input.
        unique: Keep one record a key.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        drives: Directories on drives, or a `drives.toml`. Scratch is spread over all of them;
            without any it lies beside the output.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        scratch_limit: The most scratch space on all drives together.
        force: Replace an output that exists.
        replace: Sort onto an input: `dst` is one of `src`.
        seed: Chooses samples and the first drive; never changes the output.
        explain: Print the plan on standard error first.
        record_io: Record every read, write and sync of this run, with its times, in this file (an
            I/O trace). It appears once the run has succeeded; `force` replaces one that exists.
        volume: The drives file of a volume: where a file is taken, `"@name"` is a dataset on it, read
            and written in place on all drives, where scratch goes too unless `drives` are named. By
            default that of `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress` a few times a
            second. What it raises stops the job.

    Raises:
        UsageError: The request makes no sense, or something is in the way.
        MemoryBudgetError: The memory allowed is too little; the text says what would do.
        NoSpaceError: Too little room for scratch or output.
        IoError: The system failed an operation.
        CorruptError: Scratch rotted, or an input changed while it was read.
        KeyboardInterrupt: Ctrl-C; nothing is left behind.
    """
    given = dict(locals())
    src = looked_at_twice(src)

    resources = resources_of(memory, threads, drives, io, scratch_limit, seed, volume)
    kind = _kinds.HELD
    if not is_held(src):
        kind = _kinds.what(
            path_texts(src),  # type: ignore[arg-type]
            resources,
            output=optional_path(dst),
            records=dtype is not None or record is not None,
            lines=bool(lines),
            csv=csv,
            table=columns is not None or union or codec is not None or schema is not None,
            by=[] if lines else texts(by),
            text_order=bool(order),
        )
    if lines and by is not None and not csv:
        # Only JSON lines have fields without columns.
        kind = _kinds.JSON
    if kind in (_kinds.CSV, _kinds.JSON) and by is None and not csv:
        # Without a column it is what GNU sort sorts.
        kind = _kinds.LINES
    _kinds.check(sort, kind, given)
    if kind in _kinds.TABLES:
        how: dict[str, Any] = {
            "columns": columns,
            "union": union,
            "codec": codec,
            "schema": schema,
            "separator": separator,
            "on_error": None if on_error == "fail" else on_error,
            "drives": drives,
            "scratch_limit": scratch_limit,
            "progress": progress,
        }
        order_of_rows: dict[str, Any] = {"by": by, "descending": descending, "stable": stable, "unique": unique}
        means: dict[str, Any] = {"memory": memory, "threads": threads, "io": io, "force": force}
        return _verbs.sort(src, dst, **order_of_rows, **means, **how)
    if dst is None:
        raise usage("sort", "no output is named", "give a dst; only tables are sorted without one")
    if kind in _kinds.TEXT:
        from ._open import open_lines

        how_sure: LinesHow = "any" if insists(lines) else True
        text = open_lines(src, how_sure, resources)  # type: ignore[arg-type]
        done = text.sort(
            key,
            separator=separator,
            order=order,
            by=by,
            csv=kind == _kinds.CSV,
            header=header,
            on_error=on_error,
            descending=descending,
            stable=stable,
            unique=unique,
        )
        return done.write(dst, force=force, progress=progress)
    order_of_records: dict[str, Any] = {"key": key, "descending": descending, "stable": stable, "unique": unique}
    report = _verbs.sort(
        src,
        dst,
        dtype=dtype,
        record=record,
        memory=memory,
        threads=threads,
        drives=drives,
        io=io,
        scratch_limit=scratch_limit,
        force=force,
        replace=replace,
        seed=seed,
        explain=explain,
        record_io=record_io,
        volume=volume,
        progress=progress,
        **order_of_records,
    )
    assert isinstance(report, SortSummary)
    return report


def plan(
    src: Paths,
    dst: StrPath | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: Size | None = None,
    force: bool = False,
    replace: bool = False,
    volume: StrPath | None = None,
) -> Plan:
    """How `sort` would go about it: passes, buckets, bytes, seconds. Nothing is read but headers.

    Args and errors are those of `sort`.
    """
    report = plan_of_verb("sort", SortSummary, _verbs._OPTIONS, locals())
    assert report.plan is not None
    return report.plan
