"""Verbs on records and tables: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, SupportsIndex, overload

from ._arguments import Keys, Paths, Record, Size, StrPath
from ._column import Expression, Expressions
from ._held import TableSource
from ._progress import Watcher
from ._reports import UniqueSummary, WriteSummary
from ._words import Option, run_on_tables

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._table import Table

#: The option of the command for each keyword; where verbs differ, the key begins with the name of the verb.
_OPTIONS: dict[str, Option] = {
    "bloom": Option("columns", "--bloom", None),
    "merge.by": Option("keys", "--by", None),
    "by": Option("listed", "by", ()),
    "by_count": Option("flag", "--by-count", False),
    "codec": Option("text", "--codec", None),
    "columns": Option("columns", "--columns", None),
    "condition": Option("text", "condition", ...),
    "csv": Option("flag", "--csv", False),
    "descending": Option("flag", "--descending", False),
    "drives": Option("drives", "--drive", ()),
    "dst": Option("path", "--output", None),
    "dtype": Option("dtype", "--type", None),
    "explain": Option("flag", "--explain", False),
    "expression": Option("text", "expression", ...),
    "force": Option("flag", "--force", False),
    "group_rows": Option("number", "--group-rows", None),
    "header": Option("unless", "--no-header", True),
    "infer": Option("flag", "--infer", False),
    "io": Option("text", "--io", None),
    "jsonl": Option("flag", "--jsonl", False),
    "key": Option("texts", "--key", None),
    "memory": Option("size", "--memory", None),
    "null": Option("texts", "--null", None),
    "on_error": Option("text", "--on-error", None),
    "parts": Option("number", "--parts", None),
    "record": Option("record", "--record", None),
    "record_io": Option("path", "--record-io", None),
    "schema": Option("schema", "--schema", None),
    "scratch_limit": Option("size", "--scratch-limit", None),
    "separator": Option("text", "--field-separator", None),
    "stable": Option("flag", "--stable", False),
    "threads": Option("number", "--threads", None),
    "union": Option("flag", "--union", False),
    "where": Option("expressions", "--where", ()),
    "zip": Option("paths", "--zip", ()),
}


@overload
def map(
    src: TableSource, expression: Expression, dst: StrPath, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def map(
    src: TableSource, expression: Expression, dst: None = None, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> Table: ...


def map(
    src: TableSource, expression: Expression, dst: StrPath | None = None, *, zip: Paths = (),
    where: Expressions = (), dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, memory: Size | None = None, threads: SupportsIndex | None = None,
    io: str | None = None, drives: Paths = (), scratch_limit: Size | None = None,
    record_io: StrPath | None = None, explain: bool = False, force: bool = False, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, infer: bool = False,
    null: Keys | None = None, on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None, csv: bool = False, jsonl: bool = False, header: bool = True,
    separator: str | None = None, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Compute a number from each record, or columns from each row of a table.

    The output has one number for each record of the input, or the row with its new columns, in the same
    order. It appears whole or not at all.

    Give each computed column a name: before it with =, or after it with `as`. It replaces a column of the
    same name, and later expressions may read it. All other columns are kept (columns= selects some). `a as b`
    renames column a.

    Records and tables share one language of expressions. Operators: + - * / // % ** & | ^ ~ << >>, == != <> <
    <= > >=, and, or, not, x in (...), x between a and b, s like p, x is null, and case when c then a else b
    end. Texts, times and nulls are for tables; for records they are errors.

    For records, a plain number is x; the keys of other records are key0, key1; fields of .npy have their
    names; index is the position. Integers wrap around, as in NumPy. x[0] is an element of a vector, and in
    `map`, x alone stands for all elements.

    For tables, names stand for columns (put unusual names in backquotes), st.a for the field a of the objects
    st, and index for the position of the row. Next to a column of dates or times, a text in quotes is a date
    or a time. A comparison with null is neither true nor false. try_i64(x) gives null if i64(x) fails.

    Numbers: abs(x), sqrt(x), exp(x), log(x), log2(x), floor(x), ceil(x), round(x[, digits]), isnan(x),
    hash(x)

    Choices: min(a, ...), max(a, ...), where(condition, a, b), isin(x, ...)

    Choices of tables: is_null(x), is_not_null(x), coalesce(a, ...), nullif(a, b)

    Texts of tables: contains(s, part), starts_with(s, part), ends_with(s, part), like(s, pattern), ilike(s,
    pattern), lower(s), upper(s), length(s), substr(s, first[, count]), trim(s[, characters]), ltrim(s[,
    characters]), rtrim(s[, characters]), replace(s, from, to), split_part(s, separator, number), concat(a,
    ...), regexp_matches(s, pattern[, options]), regexp_replace(s, pattern, to[, options]), regexp_extract(s,
    pattern[, group])

    Dates and times of tables: year(t), quarter(t), month(t), week(t), day(t), dayofyear(t), weekday(t),
    hour(t), minute(t), second(t), time_bucket(width, t[, origin]), date_trunc(unit, t), date_diff(unit, a,
    b), epoch(t), strftime(t, format), strptime(s, format), try_strptime(s, format)

    Casts: i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, bool, text, date, timestamp, interval, decimal

    Examples:
        >>> outcore.map("keys.bin", "x * 2 + 1", "out.bin", dtype="u64")
        >>> outcore.map("log.bin", "f32(key1) / 100", "seconds.bin", record=16, key=["0:8:u64", "8:8:u64"])
        >>> outcore.map("a.npy", "x * y", "products.npy", zip="b.npy")
        >>> outcore.map("orders.parquet", "total = price * n, year = year(time)", "out.parquet")
        >>> outcore.map("t.parquet", "size = case when n > 9 then 'large' else 'small' end", "u.parquet")

    Args:
        src: Files to read, in order, as one input: raw records, .npy, a manifest (.outcore.json) of shards,
            or tables: files of Parquet, Arrow, CSV (.csv) or JSON lines (.jsonl), and directories of them.
        expression: What to compute.
        dst: Output: a file (.npy gets a header), or one shard per drive if the name contains {drive}. Without
            it the result is a `Table`.
        zip: Files of the same number of records, which are zipped with `src`. The numbers of the first are y,
            and those of the second are z; fields of records are x.key0, y.key0.
        where: Keep only records for which this is true; several conditions must all be true.
        force: Replace existing files.
        key, csv, jsonl, header, separator: As in `comm`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("map", WriteSummary, ("write",), _OPTIONS, locals())


@overload
def filter(
    src: TableSource, condition: Expression, dst: StrPath, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def filter(
    src: TableSource, condition: Expression, dst: None = None, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, columns: Keys | None = None, union: bool = False,
    codec: str | None = None, group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> Table: ...


def filter(
    src: TableSource, condition: Expression, dst: StrPath | None = None, *, zip: Paths = (),
    where: Expressions = (), dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, memory: Size | None = None, threads: SupportsIndex | None = None,
    io: str | None = None, drives: Paths = (), scratch_limit: Size | None = None,
    record_io: StrPath | None = None, explain: bool = False, force: bool = False, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, infer: bool = False,
    null: Keys | None = None, on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None, csv: bool = False, jsonl: bool = False, header: bool = True,
    separator: str | None = None, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Keep the records, or rows of a table, for which an expression is true.

    The output has whole records or rows, in input order. It appears whole or not at all.

    Row groups of a table that cannot match are not read.

    Expressions are those of `map`.

    Examples:
        >>> outcore.filter("keys.bin", "x > 10 and x % 2 == 0", "even.bin", dtype="u64")
        >>> outcore.filter("log.bin", "key0 >= 1700000000", "recent.bin", record=64, key="0:8:u64")
        >>> outcore.filter("logs/", "country in ('de', 'fr') and time >= '2024-01-01'", "some.parquet")
        >>> outcore.filter("t.parquet", "price * n > 100 and url is not null", "large.parquet")

    Args:
        condition: The condition.
        key, csv, jsonl, header, separator: As in `comm`.
        src, dst, zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("filter", WriteSummary, ("write",), _OPTIONS, locals())


@overload
def merge(
    src: TableSource, dst: StrPath, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, by: Keys | None = None, descending: bool = False,
    stable: bool = False, columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def merge(
    src: TableSource, dst: None = None, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, by: Keys | None = None, descending: bool = False,
    stable: bool = False, columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> Table: ...


def merge(
    src: TableSource, dst: StrPath | None = None, *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, by: Keys | None = None, descending: bool = False,
    stable: bool = False, columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    csv: bool = False, jsonl: bool = False, header: bool = True, separator: str | None = None,
    volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Merge files that are already sorted.

    Each input must be in the order that `sort` gives it; the output has the records of all inputs in that
    order. Without stable=True, all bytes of a record decide between equal keys, also in the inputs. A merge
    reads and writes the data once, while a sort does so twice. If an input is not sorted, the error names the
    record or row. `Lines.merge` merges lines.

    Examples:
        >>> outcore.merge(["monday.bin", "tuesday.bin"], "both.bin", dtype="u64")
        >>> outcore.merge("runs.outcore.json", "all.bin", record=100, key="0:10")
        >>> outcore.merge(["monday.parquet", "tuesday.parquet"], "both.parquet", by=["host", "time:desc"])

    Args:
        by: Columns by which all files are sorted, as in `sort`.
        descending: The largest keys come first.
        stable: Equal keys keep the order of the inputs.
        key, csv, jsonl, header, separator: As in `comm`.
        src, dst, zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("merge", WriteSummary, ("write",), _OPTIONS, locals())


@overload
def count_by(
    src: TableSource, dst: StrPath, by: Keys = (), *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, by_count: bool = False, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, infer: bool = False,
    null: Keys | None = None, on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False,
    jsonl: bool = False, header: bool = True, separator: str | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> UniqueSummary: ...


@overload
def count_by(
    src: TableSource, dst: None = None, by: Keys = (), *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, by_count: bool = False, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, infer: bool = False,
    null: Keys | None = None, on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False,
    jsonl: bool = False, header: bool = True, separator: str | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> UniqueSummary | Table: ...


def count_by(
    src: TableSource, dst: StrPath | None = None, by: Keys = (), *, zip: Paths = (), where: Expressions = (),
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    memory: Size | None = None, threads: SupportsIndex | None = None, io: str | None = None,
    drives: Paths = (), scratch_limit: Size | None = None, record_io: StrPath | None = None,
    explain: bool = False, force: bool = False, by_count: bool = False, columns: Keys | None = None,
    union: bool = False, codec: str | None = None, group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None, schema: str | Mapping[str, str] | None = None, infer: bool = False,
    null: Keys | None = None, on_error: Literal["fail", "skip", "null"] | None = None, csv: bool = False,
    jsonl: bool = False, header: bool = True, separator: str | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> UniqueSummary | Table:
    """Count how often each value occurs.

    The report has each value and its count, in the order of the values. With `dst` they are written as
    records of the value and an 8-byte count. Values are counted in memory, or with a sort if there are too
    many distinct ones; explain=True shows which of the two applies. For tables, `by` is one column or
    several, and the result is a table of these columns and `count`. `group_by` has other aggregates.

    `unique` with count= counts whole records of any kind, and lines.

    Examples:
        >>> outcore.count_by("keys.bin", by="x % 10", dtype="u64")
        >>> outcore.count_by("keys.bin", "counts.npy", "x", dtype="u64")
        >>> outcore.count_by("t.parquet", "counts.csv", "country,lang", by_count=True)

    Args:
        dst: Output file for records of value and count (.npy gets the fields value and count). Without it,
            counts of a table are a `Table`; others are in the report.
        by: The value to count; x is a plain number. For tables, names of columns.
        by_count: Put the most frequent values first.
        key, csv, jsonl, header, separator: As in `comm`.
        src, zip, where, force: As in `map`.
        dtype, record, memory, threads, io, drives, scratch_limit, record_io, explain, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, volume, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return run_on_tables("count-by", UniqueSummary, ("sample", "count"), _OPTIONS, locals())


__all__ = [
    "map",
    "filter",
    "merge",
    "count_by",
]
