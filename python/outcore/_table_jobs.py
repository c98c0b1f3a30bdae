"""Jobs on tables as functions: each reads tables and writes one, or gives a `Table` if no file is named.

    >>> outcore.merge("days/*.parquet", "all.parquet", by="time")
    >>> table = outcore.count_by(frame, by="country", by_count=True)

All of them take what `table` takes: names of files, and tables of pyarrow, Polars, pandas and DuckDB. Their `options` are those
of `table`: `columns`, `union`, `schema`, `null`, `on_error`, `memory`, `threads`, `drives` and so on.
"""

from __future__ import annotations

from typing import Any

from . import _arguments as arguments
from ._held import TableSource, texts
from ._reports import WriteSummary
from ._table import Table, check_no_codec, table

#: What is done, and how: the name of a job and what it is asked.
_Job = tuple[str, dict[str, Any]]


def merge(
    src: TableSource,
    dst: arguments.StrPath | None = None,
    by: arguments.Keys = (),
    *,
    descending: bool = False,
    codec: str | None = None,
    force: bool = False,
    **options: Any,
) -> WriteSummary | Table:
    """The rows of files that are in the order of columns already, in that order: one read and one write.

    Args:
        src: Files, each of which is in order.
        descending: Columns are largest first.
        dst: The file to write, as in `Table.write`; without it a `Table` is returned.
        by: The columns of the key.
        codec, force: As in `Table.write`.
        options: As in `table`.

    Raises: What `sort` raises; CorruptError: a file is not in order.
    """
    job = ("merge", {"by": texts("by", by), "descending": bool(descending)})
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
) -> WriteSummary | Table:
    """How often each value of columns occurs: the columns, and behind them `count`.

    Args:
        by_count: The most frequent first, not in the order of the values.
        src, dst, by, codec, force, options: As in `merge`.

    Raises: What `sort` raises.
    """
    job = ("count_by", {"by": texts("by", by), "descending": bool(by_count)})
    return _done(table(src, **options), job, dst, codec, force)


def _done(
    opened: Table, job: _Job, dst: arguments.StrPath | None, codec: str | None, force: bool
) -> WriteSummary | Table:
    name, asked = job
    if dst is None:
        check_no_codec(name, codec)
        return opened._step(name, **asked)
    return opened._run(name, arguments.path_text(dst), codec=codec, force=bool(force), **asked)
