"""Jobs on tables as functions: each reads tables and writes one, or gives a `Table` if no file is named.

    >>> outcore.unique("events/*.parquet", "users.parquet", by="user")
    >>> table = outcore.count_by(frame, by="country", by_count=True)

All of them take what `table` takes: names of files, and tables of pyarrow, Polars, pandas and DuckDB. Their `options` are those
of `table`: `columns`, `union`, `schema`, `null`, `on_error`, `memory`, `threads`, `drives` and so on.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

from . import _arguments as arguments
from ._table import Table, TableSource, TableSummary, _check_no_codec, _join, _texts, table

#: What is done, and how: the name of a job and what it is asked.
_Job = tuple[str, dict[str, Any]]


def unique(
    src: TableSource,
    dst: arguments.StrPath | None = None,
    by: arguments.Keys = (),
    *,
    codec: str | None = None,
    force: bool = False,
    **options: Any,
) -> TableSummary | Table:
    """One row of each key, in the order of the keys; `dedup` keeps the order of the input.

    Args:
        src: As in `table`.
        dst: The file to write, as in `Table.write`; without it a `Table` is returned.
        by: The columns of the key; all if none is named.
        codec, force: As in `Table.write`.
        options: As in `table`.

    Raises: What `sort` raises.
    """
    return _done(table(src, **options), ("unique", {"by": _texts("by", by)}), dst, codec, force)


def merge(
    src: TableSource,
    dst: arguments.StrPath | None = None,
    by: arguments.Keys = (),
    *,
    descending: bool = False,
    codec: str | None = None,
    force: bool = False,
    **options: Any,
) -> TableSummary | Table:
    """The rows of files that are in the order of columns already, in that order: one read and one write.

    Args:
        src: Files, each of which is in order.
        descending: Columns are largest first.
        dst, by, codec, force, options: As in `unique`.

    Raises: What `sort` raises; CorruptError: a file is not in order.
    """
    job = ("merge", {"by": _texts("by", by), "descending": bool(descending)})
    return _done(table(src, **options), job, dst, codec, force)


def count_by(
    src: TableSource,
    dst: arguments.StrPath | None = None,
    by: arguments.Keys = (),
    *,
    by_count: bool = False,
    codec: str | None = None,
    force: bool = False,
    **options: Any,
) -> TableSummary | Table:
    """How often each value of columns occurs: the columns, and behind them `count`.

    Args:
        by_count: The most frequent first, not in the order of the values.
        src, dst, by, codec, force, options: As in `unique`.

    Raises: What `sort` raises.
    """
    job = ("count_by", {"by": _texts("by", by), "descending": bool(by_count)})
    return _done(table(src, **options), job, dst, codec, force)


def shuffle_table(
    src: TableSource,
    dst: arguments.StrPath | None = None,
    *,
    seed: SupportsIndex = 1,
    epoch: SupportsIndex = 0,
    by: arguments.Keys = (),
    codec: str | None = None,
    force: bool = False,
    **options: Any,
) -> TableSummary | Table:
    """All rows in a random order, which depends on `seed` and `epoch` alone: `ShuffledTable` reads what this writes.

    Args:
        seed, epoch: Choose the order.
        by: Rows with equal values in these columns stay together, in the order of the input.
        src, dst, codec, force, options: As in `unique`.

    Raises: What `sort` raises.
    """
    order = {"seed": arguments.number("seed", seed), "epoch": arguments.number("epoch", epoch)}
    job = ("shuffle", {**order, "by": _texts("by", by)})
    return _done(table(src, **options), job, dst, codec, force)


def group_by(
    src: TableSource,
    dst: arguments.StrPath | None = None,
    by: arguments.Keys = (),
    aggregates: arguments.Keys = ("count",),
    *,
    codec: str | None = None,
    force: bool = False,
    **options: Any,
) -> TableSummary | Table:
    """A row of aggregates for each group of rows, in the order of the groups' columns.

    Args:
        aggregates: `"count"`, `"total=sum(bytes)"` and the others of `outcore group-by --help`.
        src, dst, by, codec, force, options: As in `unique`.

    Raises: What `sort` raises.
    """
    job = ("group_by", {"by": _texts("by", by), "aggregates": _texts("aggregates", aggregates)})
    return _done(table(src, **options), job, dst, codec, force)


def join(
    left: TableSource,
    right: TableSource | Table,
    dst: arguments.StrPath | None = None,
    on: arguments.Keys = (),
    *,
    how: str | None = None,
    asof: str | None = None,
    tolerance: SupportsIndex | float | str | None = None,
    suffix: str = "_right",
    ordered: bool = True,
    codec: str | None = None,
    force: bool = False,
    **options: Any,
) -> TableSummary | Table:
    """Two tables joined by columns that are equal.

    Args:
        left, right: As in `table`; `columns` and `schema` are those of the left one.
        on, how, asof, tolerance, suffix, ordered: As in `Table.join`.
        dst, codec, force, options: As in `unique`.

    Raises: What `sort` raises.
    """
    opened = table(left, **options)
    other = _other(right, options, ("union", "null", "on_error"))
    asked = _join(on, how, asof, tolerance, suffix, ordered)
    return _done(opened, ("join", {"right": other._as_right(), "join": asked}), dst, codec, force)


def diff(
    left: TableSource,
    right: TableSource | Table,
    dst: arguments.StrPath | None = None,
    by: arguments.Keys = (),
    *,
    codec: str | None = None,
    force: bool = False,
    **options: Any,
) -> TableSummary | Table:
    """What differs between two tables of the same columns; the result is that of `Table.diff`, and has no rows where they are
    the same.

    Args:
        left, right: As in `table`.
        by: The columns that say which rows are to be the same; all if none is named.
        dst, codec, force, options: As in `unique`.

    Raises: What `sort` raises.
    """
    opened = table(left, **options)
    other = _other(right, options, ("columns", "union", "schema", "separator", "null", "on_error"))
    job = ("diff", {"right": other._as_right(), "by": _texts("by", by)})
    return _done(opened, job, dst, codec, force)


def _other(right: TableSource | Table, options: dict[str, Any], kept: tuple[str, ...]) -> Table:
    """The second table of a job, with what says how to work, and of the rest with what is `kept`."""
    if isinstance(right, Table):
        return right
    shape = {"columns", "union", "schema", "separator", "null", "on_error"} - set(kept)
    return table(right, **{name: value for name, value in options.items() if name not in shape})


def _done(
    opened: Table, job: _Job, dst: arguments.StrPath | None, codec: str | None, force: bool
) -> TableSummary | Table:
    name, asked = job
    if dst is None:
        _check_no_codec(name, codec)
        return opened._step(name, **asked)
    return opened._run(name, arguments.path_text(dst), codec=codec, force=bool(force), **asked)
