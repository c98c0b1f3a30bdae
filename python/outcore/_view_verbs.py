"""Verbs on sorted views: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, SupportsIndex, overload

from ._arguments import Keys, LinesHow, Paths, Record, Size, StrPath
from ._held import TableSource
from ._progress import Watcher
from ._reports import ViewSummary
from ._view import LineView, View, built
from ._words import Option

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._table_view import TableView

#: The option of the command for each keyword; where verbs differ, the key begins with the name of the verb.
_OPTIONS: dict[str, Option] = {
    "by": Option("keys", "--by", None),
    "columns": Option("columns", "--columns", None),
    "csv": Option("flag", "--csv", False),
    "descending": Option("flag", "--descending", False),
    "drives": Option("drives", "--drive", ()),
    "dst": Option("path", "--output", None),
    "dtype": Option("dtype", "--type", None),
    "explain": Option("flag", "--explain", False),
    "fastq": Option("flag", "--fastq", False),
    "force": Option("flag", "--force", False),
    "header": Option("unless", "--no-header", True),
    "infer": Option("flag", "--infer", False),
    "io": Option("text", "--io", None),
    "jsonl": Option("flag", "--jsonl", False),
    "key": Option("texts", "--key", None),
    "lines": Option("lines", "--lines", False),
    "memory": Option("size", "--memory", None),
    "null": Option("texts", "--null", None),
    "on_error": Option("text", "--on-error", None),
    "order": Option("letters", "--order", ""),
    "record": Option("record", "--record", None),
    "record_io": Option("path", "--record-io", None),
    "resume": Option("flag", "--resume", False),
    "run_size": Option("size", "--run-size", None),
    "schema": Option("schema", "--schema", None),
    "separator": Option("text", "--field-separator", None),
    "stable": Option("flag", "--stable", False),
    "threads": Option("number", "--threads", None),
    "union": Option("flag", "--union", False),
    "zero_terminated": Option("flag", "--zero-terminated", False),
}


@overload
def sort_view(
    src: TableSource, dst: StrPath, *, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, order: str = "", descending: bool = False, stable: bool = False,
    separator: str | None = None, lines: Literal[True, "any"], zero_terminated: bool = False,
    csv: bool = False, jsonl: bool = False, fastq: bool = False, by: Keys | None = None, header: bool = True,
    columns: Keys | None = None, union: bool = False, schema: str | Mapping[str, str] | None = None,
    infer: bool = False, null: Keys | None = None, on_error: Literal["fail", "skip", "null"] | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), run_size: Size | None = None, resume: bool = False, force: bool = False,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> LineView: ...


@overload
def sort_view(
    src: TableSource, dst: StrPath, *, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, order: str = "", descending: bool = False, stable: bool = False,
    separator: str | None = None, lines: Literal[False] = False, zero_terminated: bool = False,
    csv: Literal[True], jsonl: bool = False, fastq: bool = False, by: Keys | None = None, header: bool = True,
    columns: Keys | None = None, union: bool = False, schema: str | Mapping[str, str] | None = None,
    infer: bool = False, null: Keys | None = None, on_error: Literal["fail", "skip", "null"] | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), run_size: Size | None = None, resume: bool = False, force: bool = False,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> LineView: ...


@overload
def sort_view(
    src: TableSource, dst: StrPath, *, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, order: str = "", descending: bool = False, stable: bool = False,
    separator: str | None = None, lines: Literal[False] = False, zero_terminated: bool = False,
    csv: Literal[False] = False, jsonl: Literal[True], fastq: bool = False, by: Keys | None = None,
    header: bool = True, columns: Keys | None = None, union: bool = False,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    run_size: Size | None = None, resume: bool = False, force: bool = False, explain: bool = False,
    record_io: StrPath | None = None, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> LineView: ...


@overload
def sort_view(
    src: TableSource, dst: StrPath, *, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, order: str = "", descending: bool = False, stable: bool = False,
    separator: str | None = None, lines: Literal[False] = False, zero_terminated: bool = False,
    csv: Literal[False] = False, jsonl: Literal[False] = False, fastq: bool = False, by: Keys,
    header: bool = True, columns: Keys | None = None, union: bool = False,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    run_size: Size | None = None, resume: bool = False, force: bool = False, explain: bool = False,
    record_io: StrPath | None = None, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> TableView: ...


@overload
def sort_view(
    src: TableSource, dst: StrPath, *, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, order: str = "", descending: bool = False, stable: bool = False,
    separator: str | None = None, lines: Literal[False] = False, zero_terminated: bool = False,
    csv: Literal[False] = False, jsonl: Literal[False] = False, fastq: bool = False, by: None = None,
    header: bool = True, columns: Keys | None = None, union: bool = False,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    run_size: Size | None = None, resume: bool = False, force: bool = False, explain: bool = False,
    record_io: StrPath | None = None, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> View: ...


def sort_view(
    src: TableSource, dst: StrPath, *, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, order: str = "", descending: bool = False, stable: bool = False,
    separator: str | None = None, lines: LinesHow = False, zero_terminated: bool = False, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, by: Keys | None = None, header: bool = True,
    columns: Keys | None = None, union: bool = False, schema: str | Mapping[str, str] | None = None,
    infer: bool = False, null: Keys | None = None, on_error: Literal["fail", "skip", "null"] | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), run_size: Size | None = None, resume: bool = False, force: bool = False,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> View | LineView | TableView:
    """Build a view of files.

    The order is that of `sort`. The view appears whole or not at all; inputs are only read. Options, content
    and name decide what the input is, as for `sort`: CSV and JSON lines are a table once by= names a column,
    and text with csv= or jsonl=.

    Examples:
        >>> outcore.sort_view("keys.bin", "keys.view", dtype="u64", memory="2GiB")
        >>> outcore.sort_view("big.dat", "/mnt/a/big.view", dtype="gensort", drives=["/mnt/a", "/mnt/b"])
        >>> outcore.sort_view("words.txt", "words.view", lines=True)
        >>> outcore.sort_view("events.jsonl.zst", "events.view", jsonl=True, by=[".user.id", ".time"])
        >>> outcore.sort_view("sales.csv", "sales.view", csv=True, by=["region", "price:nr"])
        >>> outcore.sort_view("sales.parquet", "sales.view", by=["region", "price:desc"])

    Args:
        src: Files to sort, in order: raw records, .npy, a manifest (.outcore.json) of shards, lines
            (compressed ones are decompressed to scratch), or Parquet and Arrow and directories of them.
        dst: The view's directory; its parent must exist.
        schema: Read CSV or JSON lines as a table with these types (see `convert`); types of other columns are
            inferred from a sample.
        run_size: Size of a sorted run. Default: the largest size that fits in memory; for numbers two thirds
            of that, as long as there are at most 64 runs.
        resume: Keep the finished runs, next to the view. If the job is killed or fails, the same command with
            resume= continues after them. For lines and records in files, and for runs in the view's
            directory. outcore keeps the runs for 7 days (OUTCORE_RESUME_DAYS).
        force: Replace an existing view.
        dtype, record, key, order, descending, stable, separator, lines, zero_terminated, csv, jsonl, fastq,
            by, header, columns, union, null, memory, threads, io, drives, explain, record_io, volume,
            progress: As in `sort`.
        infer: As in `split`.
        on_error: As in `verify`.

    Raises: What `sort` raises.
    """
    return built("view build", ViewSummary, ("sort runs", "merge runs"), _OPTIONS, locals())


__all__ = [
    "sort_view",
]
