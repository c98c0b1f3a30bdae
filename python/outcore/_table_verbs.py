"""Verbs on tables: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, SupportsIndex, overload

from ._arguments import Keys, Paths, Size, StrPath
from ._held import TableSource
from ._progress import Watcher
from ._reports import DedupSummary, DiffSummary, InfoReport, WriteSummary
from ._words import Option, report_on_tables, run_on_tables

if TYPE_CHECKING:
    from ._table import Table

#: The option of the command for each keyword; where verbs differ, the key begins with the name of the verb.
_OPTIONS: dict[str, Option] = {
    "added": Option("texts", "--add", None),
    "aggregates": Option("texts", "--agg", None),
    "asof": Option("text", "--asof", None),
    "bloom": Option("columns", "--bloom", None),
    "by": Option("keys", "--by", None),
    "codec": Option("text", "--codec", None),
    "columns": Option("columns", "--columns", None),
    "csv": Option("flag", "--csv", False),
    "drives": Option("drives", "--drive", ()),
    "dst": Option("path", "--output", None),
    "explain": Option("flag", "--explain", False),
    "first": Option("number", "--first", None),
    "force": Option("flag", "--force", False),
    "group_rows": Option("number", "--group-rows", None),
    "hashes": Option("number", "--hashes", 128),
    "header": Option("unless", "--no-header", True),
    "how": Option("text", "--how", None),
    "io": Option("text", "--io", None),
    "jaccard": Option("value", "--jaccard", 0.8),
    "jsonl": Option("flag", "--jsonl", False),
    "keep": Option("text", "--keep", "first"),
    "memory": Option("size", "--memory", None),
    "near": Option("text", "--near", None),
    "null": Option("texts", "--null", None),
    "of": Option("text", "--of", None),
    "on": Option("columns", "--on", None),
    "on_error": Option("text", "--on-error", None),
    "order": Option("keys", "--order", None),
    "ordered": Option("unless", "--unordered", True),
    "parts": Option("number", "--parts", None),
    "record_io": Option("path", "--record-io", None),
    "removed": Option("path", "--removed", None),
    "resume": Option("flag", "--resume", False),
    "schema": Option("schema", "--schema", None),
    "scratch_limit": Option("size", "--scratch-limit", None),
    "seed": Option("number", "--seed", 1),
    "separator": Option("text", "--field-separator", None),
    "shingles": Option("text", "--shingles", "words:5"),
    "substring": Option("number", "--substring", None),
    "suffix": Option("text", "--suffix", "_right"),
    "threads": Option("number", "--threads", None),
    "tokens": Option("flag", "--tokens", False),
    "tolerance": Option("value", "--tolerance", None),
    "union": Option("flag", "--union", False),
}


@overload
def convert(
    src: TableSource, dst: StrPath, *, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), force: bool = False, explain: bool = False, record_io: StrPath | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def convert(
    src: TableSource, dst: None = None, *, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), force: bool = False, explain: bool = False, record_io: StrPath | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> Table: ...


def convert(
    src: TableSource, dst: StrPath | None = None, *, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), force: bool = False, explain: bool = False, record_io: StrPath | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Copy tables between Parquet, Arrow, CSV and JSON lines, with other columns, another codec or in parts.

    Rows keep their order, columns their types, and the schema its metadata. `dst` appears whole or not at
    all.

    Examples:
        >>> outcore.convert("t.arrow", "t.parquet")
        >>> outcore.convert("t.csv.gz", "t.parquet", schema="id:i64,price:decimal(12,2)")
        >>> outcore.convert("logs/", "logs.parquet", columns=["time", "country", "url"])
        >>> outcore.convert("t.parquet", "small.parquet", codec="zstd:9")
        >>> outcore.convert("t.parquet", "parts/", parts=8)

    Args:
        src: Files of Parquet, Arrow, CSV or JSON lines, or directories of them, in order, as one table.
        dst: Output: .parquet, .arrow or .feather (Arrow file), .arrows (Arrow stream), .csv, .tsv or .jsonl,
            these also with .gz or .zst, or a directory with parts=. Without it the result is a `Table`.
        csv, jsonl, header, separator: As in `comm`.
        columns, union, codec, group_rows, bloom, schema, null, on_error, parts, memory, threads, io, drives,
            force, explain, record_io, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("convert", WriteSummary, ("copy",), _OPTIONS, locals())


def info(
    src: TableSource, *, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> InfoReport:
    """Report the rows, columns and row groups of tables.

    Reads only the metadata of files, and all of CSV and JSON lines.

    Examples:
        >>> outcore.info("t.parquet")

    Args:
        schema: Types of columns of CSV and JSON lines; the types of others are inferred from a sample.
        csv, jsonl, header, separator: As in `comm`.
        src: As in `convert`.
        null, volume, progress: As in `sort`.
        on_error: As in `verify`.

    Raises: What `sort` raises.
    """
    return report_on_tables("info", InfoReport, ("read",), _OPTIONS, locals())


@overload
def dedup(
    src: TableSource, dst: StrPath, by: Keys | None = None, *, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    force: bool = False, explain: bool = False, keep: str = "first", near: str | None = None,
    jaccard: float = 0.8, shingles: str = "words:5", hashes: SupportsIndex = 128, seed: SupportsIndex = 1,
    substring: SupportsIndex | None = None, tokens: bool = False, of: str | None = None,
    removed: StrPath | None = None, resume: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> DedupSummary: ...


@overload
def dedup(
    src: TableSource, dst: None = None, by: Keys | None = None, *, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    force: bool = False, explain: bool = False, keep: str = "first", near: str | None = None,
    jaccard: float = 0.8, shingles: str = "words:5", hashes: SupportsIndex = 128, seed: SupportsIndex = 1,
    substring: SupportsIndex | None = None, tokens: bool = False, of: str | None = None,
    removed: StrPath | None = None, resume: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> Table: ...


def dedup(
    src: TableSource, dst: StrPath | None = None, by: Keys | None = None, *, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    force: bool = False, explain: bool = False, keep: str = "first", near: str | None = None,
    jaccard: float = 0.8, shingles: str = "words:5", hashes: SupportsIndex = 128, seed: SupportsIndex = 1,
    substring: SupportsIndex | None = None, tokens: bool = False, of: str | None = None,
    removed: StrPath | None = None, resume: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> DedupSummary | Table:
    """Remove duplicate rows from tables, and keep the others in input order.

    One row of each key is kept: the first in the input, the last, or the best by another column. `dst` has
    the kept rows in the order of the input. Only the key columns go through scratch.

    Without by=, rows are duplicates if all their columns are equal. Nulls equal each other. For distinct rows
    in the order of their keys, use `unique`, which also works on lines, CSV and JSON lines.

    near= finds rows whose texts are nearly the same: MinHash signatures are cut into bands, and rows that
    have a band in common belong together. The chance that two texts share a band rises steeply where their
    Jaccard similarity (the number of shingles that both have, divided by the number that either has) reaches
    jaccard=. Shingles are 5 words, in lower case and without punctuation. The result depends only on the
    rows, the options and seed=. With near=, removed rows get a column duplicate_of: the number of the row
    that was kept, from 0. Without near=, removed rows are unchanged and in input order; the row that was kept
    instead is the row of `dst` with the same values in the columns of by=.

    substring= removes passages of texts instead of rows. A passage is removed if it has already occurred, in
    an earlier row or earlier in the same row, and has at least this many bytes, or with tokens= this many
    tokens (separated by white space). Tokens must match exactly; the white space between them makes no
    difference, and the white space after the last token of a passage is removed with it. The first occurrence
    stays. Every row stays, even if its text becomes empty. removed= has one row per passage: row, start and
    length (in bytes), first_row (the row where its beginning occurred first) and text.

    Examples:
        >>> outcore.dedup("docs.parquet", "clean.parquet", "url")
        >>> outcore.dedup("crawl/", "clean.parquet", "url", keep="fetched:desc")
        >>> outcore.dedup("docs.parquet", "clean.parquet", "text", removed="duplicates.parquet")
        >>> outcore.dedup("t.parquet", "t2.parquet", memory="512MiB", keep="last")
        >>> outcore.dedup("docs.parquet", "clean.parquet", near="text", jaccard=0.8, removed="near.parquet")
        >>> outcore.dedup("docs.parquet", "clean.parquet", substring=50, tokens=True, of="text")

    Args:
        dst: Output: .parquet, .arrow or .feather (Arrow file), .arrows (Arrow stream), .csv, .tsv or .jsonl,
            these also with .gz or .zst. Without it the result is a `Table`.
        by: Columns that make two rows duplicates. Default: all columns.
        force: Replace existing outputs.
        keep: Which row of each key to keep: first, last, or COLUMN for the row with the smallest value in
            this column (COLUMN:desc for the largest).
        near: Remove rows whose texts in this column are nearly the same.
        jaccard: Minimum similarity of near duplicates, above 0 and up to 1.
        shingles: Shingles for the comparison of texts: words:N, or chars:N for languages without spaces.
        hashes: Number of hashes in a signature: more hashes find near duplicates more reliably, and take
            longer.
        seed: Random seed of the hashes.
        substring: Remove passages of at least this many bytes (with tokens=, tokens) that have already
            occurred; 50 is usual.
        tokens: Measure passages in tokens, which are separated by white space, instead of bytes.
        of: The column of the texts.
        removed: Write the removed rows or passages to this table.
        csv, jsonl, header, separator: As in `comm`.
        src: As in `convert`.
        columns, union, codec, group_rows, bloom, schema, null, on_error, parts, memory, threads, io, drives,
            scratch_limit, record_io, explain, resume, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("dedup", DedupSummary, ("distribute", "sort", "copy"), _OPTIONS, locals())


@overload
def group_by(
    src: TableSource, dst: StrPath, by: Keys | None = None, *, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, force: bool = False,
    explain: bool = False, aggregates: Keys | None = None, resume: bool = False,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def group_by(
    src: TableSource, dst: None = None, by: Keys | None = None, *, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, force: bool = False,
    explain: bool = False, aggregates: Keys | None = None, resume: bool = False,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> Table: ...


def group_by(
    src: TableSource, dst: StrPath | None = None, by: Keys | None = None, *, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, force: bool = False,
    explain: bool = False, aggregates: Keys | None = None, resume: bool = False,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Group the rows of tables by columns, and compute sums, counts and other values of each group.

    `dst` has one row for each group, in the order of the groups' columns. Without by=, all rows are one
    group. If there are few groups, they are combined in memory; if there are many, the rows are sorted
    through scratch.

    Aggregates: count, count(C), sum(C), mean(C), min(C), max(C), first(C), last(C), count_distinct(C),
    median(C), quantile(C,0.9), quantile_disc(C,0.9), arg_min(C,BY), arg_max(C,BY). C and BY are columns or
    expressions, as map takes them; a text that is the name of a column means this column. arg_min gives the
    value of C in the first row where BY is smallest, among the rows where neither is null. All aggregates
    except for count, first and last leave nulls out. Sums of integers have 64 bits and sums of decimals 38
    digits; a larger sum is an error. Null is a group of its own. median and quantile interpolate between two
    values. They give floats for integers and floats, decimals of the column's type for decimals, and times
    for dates and times. quantile_disc gives one of the values, which may have any type with an order. first
    and last follow the input order. The output is the same for any memory and threads.

    Examples:
        >>> outcore.group_by("t.parquet", "g.parquet", "country")
        >>> outcore.group_by("t.parquet", "g.parquet", "country", aggregates="sum(bytes),count,mean(ms)")
        >>> outcore.group_by("t.parquet", aggregates="sum(price * qty) as sales,arg_max(name, price)")

    Args:
        by: Columns to group by; append :desc to a column to put its largest values first. st.a is the field a
            of objects st. Default: all rows are one group.
        aggregates: What to compute of each group, as in sum(bytes) or total=sum(bytes). Default: count.
        csv, jsonl, header, separator: As in `comm`.
        src: As in `convert`.
        dst, force: As in `dedup`.
        columns, union, codec, group_rows, bloom, schema, null, on_error, memory, threads, io, drives,
            scratch_limit, record_io, explain, resume, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("group-by", WriteSummary, ("distribute", "sort"), _OPTIONS, locals())


@overload
def window(
    src: TableSource, dst: StrPath, by: Keys | None = None, *, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    force: bool = False, explain: bool = False, order: Keys | None = None, added: Keys | None = None,
    first: SupportsIndex | None = None, resume: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def window(
    src: TableSource, dst: None = None, by: Keys | None = None, *, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    force: bool = False, explain: bool = False, order: Keys | None = None, added: Keys | None = None,
    first: SupportsIndex | None = None, resume: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> Table: ...


def window(
    src: TableSource, dst: StrPath | None = None, by: Keys | None = None, *, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    force: bool = False, explain: bool = False, order: Keys | None = None, added: Keys | None = None,
    first: SupportsIndex | None = None, resume: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Add columns to tables: numbers, ranks, neighbours and running sums of rows within groups.

    `dst` has all columns and those of added=. Rows are in the order of the groups, and within a group in the
    order of order=; rows that are equal in both keep the order of the input.

    Functions: row_number, rank, dense_rank, lag(C), lag(C,2), lead(C), lead(C,2), first(C), cum_sum(C),
    cum_min(C) and cum_max(C). Ranks follow the columns of order=, and equal rows share a rank. lag and lead
    are null if the group has no such row. cum_sum, cum_min and cum_max are the sum, the smallest and the
    largest value up to the row, without nulls. Sums of integers have 64 bits and sums of decimals 38 digits;
    a larger sum is an error. Null is a group of its own. The output is the same for any memory and threads.
    `windows` is for sequences of numbers.

    Examples:
        >>> outcore.window("t.parquet", "w.parquet", "country", order="bytes:desc", added="rank,dense_rank")
        >>> outcore.window("t.parquet", "latest.parquet", "user", order="time:desc", first=1)

    Args:
        by: Columns of the groups; append :desc to a column to put its largest values first. Default: all rows
            are one group.
        order: Columns that order the rows of a group; append :desc to a column to put its largest values
            first. Default: input order.
        added: What to add, as in rank or previous=lag(amount).
        first: Write only the first N rows of each group.
        csv, jsonl, header, separator: As in `comm`.
        src: As in `convert`.
        dst, force: As in `dedup`.
        columns, union, codec, group_rows, bloom, schema, null, on_error, parts, memory, threads, io, drives,
            scratch_limit, record_io, explain, resume, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("window", WriteSummary, ("distribute", "sort"), _OPTIONS, locals())


@overload
def join(
    left: TableSource, right: TableSource, dst: StrPath, on: Keys | None = None, *, how: str | None = None,
    asof: str | None = None, tolerance: str | float | None = None, suffix: str = "_right",
    ordered: bool = True, columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, force: bool = False,
    explain: bool = False, resume: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def join(
    left: TableSource, right: TableSource, dst: None = None, on: Keys | None = None, *,
    how: str | None = None, asof: str | None = None, tolerance: str | float | None = None,
    suffix: str = "_right", ordered: bool = True, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, force: bool = False,
    explain: bool = False, resume: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> Table: ...


def join(
    left: TableSource, right: TableSource, dst: StrPath | None = None, on: Keys | None = None, *,
    how: str | None = None, asof: str | None = None, tolerance: str | float | None = None,
    suffix: str = "_right", ordered: bool = True, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, force: bool = False,
    explain: bool = False, resume: bool = False, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Join two tables by columns that they have in common.

    Both tables are sorted together through scratch, so neither has to fit in memory. `dst` appears whole or
    not at all.

    `dst` has the columns of `left`, then those of `right` without its on= columns. It is in the order of the
    on= columns, nulls last; within a key, rows are in the order of `left`, and the partners of a row in the
    order of `right`. It is the same for any memory and threads. A null equals nothing, not even another null.

    asof= finds one partner for each row of `left`: among the rows of `right` with its key, the last one whose
    value in the column is not greater. Rows without a partner are kept, with nulls; how="inner" leaves them
    out.

    Columns of different types are compared by value in a common type: integers and floats, decimals of any
    scale, texts, dictionaries, dates, timestamps of any unit. Nothing is rounded: a value that does not fit
    in the common type is an error. A key may have more rows than fit in memory.

    ordered=False keeps `right` in memory if it fits, and looks up the rows of `left` in it. This saves the
    sort, and `dst` is in the order of `left`. If `right` does not fit, or with how="right", full or asof=,
    both tables are sorted.

    Examples:
        >>> outcore.join("orders.parquet", "customers.parquet", "all.parquet", "customer_id")
        >>> outcore.join("orders.parquet", "customers.parquet", "all.parquet", "customer_id=id", how="left")
        >>> outcore.join("docs.parquet", "blocked.parquet", "kept.parquet", "url", how="anti")

    Args:
        left: The left table: a file of Parquet, Arrow, CSV or JSON lines, or a directory of them.
        right: The right table.
        on: Columns to join on: NAME, or `left`=`right` if the names differ.
        how: Which rows to write: inner, left, right, full, semi (rows of `left` that have a partner) or anti
            (rows of `left` that have none). Default: inner, and left with asof=.
        asof: As-of join: the partner is the last row of `right` whose value in this column is not greater.
        tolerance: Maximum distance of the partner of asof=: a number, or a duration such as 5min.
        suffix: Suffix for the name of a column of `right` if `left` has a column of that name.
        ordered: `False` means: Write rows in any order: faster if `right` fits in two fifths of the memory.
        csv, jsonl, header, separator: As in `comm`.
        dst: As in `dedup`.
        columns, union, codec, group_rows, bloom, schema, null, on_error, memory, threads, io, drives,
            scratch_limit, record_io, force, explain, resume, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("join", WriteSummary, ("distribute", "sort"), _OPTIONS, locals())


@overload
def diff(
    left: TableSource, right: TableSource, dst: StrPath, by: Keys | None = None, *,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, force: bool = False,
    explain: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> DiffSummary: ...


@overload
def diff(
    left: TableSource, right: TableSource, dst: None = None, by: Keys | None = None, *,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, force: bool = False,
    explain: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> Table: ...


def diff(
    left: TableSource, right: TableSource, dst: StrPath | None = None, by: Keys | None = None, *,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False, jsonl: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (),
    scratch_limit: Size | None = None, record_io: StrPath | None = None, force: bool = False,
    explain: bool = False, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> DiffSummary | Table:
    """Compare two tables by key: rows in only one of them, rows that changed, and in which columns.

    Rows with the same key are compared in the order of their bytes. The order of the tables does not matter.
    Null is equal to null. Both tables may be larger than memory.

    `dst` has the columns diff (left, right or changed), diff_columns (the columns that differ) and those of
    by=. It has each other column twice, as NAME_left and NAME_right. Rows are in the order of the key.

    Examples:
        >>> outcore.diff("old.parquet", "new.parquet", by="id")
        >>> outcore.diff("old.csv", "new.csv", "changes.csv", "id")

    Args:
        right: The right table, with the same columns.
        dst: Write the differences as a table: .parquet, .arrow, .feather, .arrows, .csv, .tsv or .jsonl.
            Without it the result is a `Table`.
        by: Key columns to match rows on. Default: all columns. A row is then in both tables or in only one;
            none is reported as `changed`.
        explain: Print the plan of each sort on `sys.stderr`, then run.
        csv, jsonl, header, separator: As in `comm`.
        left: As in `join`.
        columns, union, codec, group_rows, bloom, schema, null, on_error, memory, threads, io, drives,
            scratch_limit, record_io, force, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("diff", DiffSummary, ("distribute", "sort", "compare"), _OPTIONS, locals())


__all__ = [
    "convert",
    "info",
    "dedup",
    "group_by",
    "window",
    "join",
    "diff",
]
