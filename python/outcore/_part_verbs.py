"""Verbs that take parts of lines, records and tables: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, SupportsIndex, overload

from ._arguments import Keys, LinesHow, Paths, Record, Size, StrPath
from ._held import TableSource
from ._progress import Watcher
from ._reports import SampleSummary, SplitSummary, WriteSummary
from ._words import Option, report_on_tables, run_on_tables

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._table import Table

#: The option of the command for each keyword; where verbs differ, the key begins with the name of the verb.
_OPTIONS: dict[str, Option] = {
    "bloom": Option("columns", "--bloom", None),
    "by": Option("keys", "--by", None),
    "by_lines": Option("number", "--by-lines", None),
    "bytes": Option("size", "--bytes", None),
    "codec": Option("text", "--codec", None),
    "columns": Option("columns", "--columns", None),
    "comment": Option("texts", "--comment", None),
    "count": Option("number", "--count", 10),
    "sample.count": Option("number", "--count", None),
    "csv": Option("flag", "--csv", False),
    "drives": Option("drives", "--drive", ()),
    "dst": Option("path", "--output", None),
    "dtype": Option("dtype", "--type", None),
    "explain": Option("flag", "--explain", False),
    "fastq": Option("flag", "--fastq", False),
    "filter": Option("text", "--filter", None),
    "force": Option("flag", "--force", False),
    "group_rows": Option("number", "--group-rows", None),
    "header": Option("unless", "--no-header", True),
    "header_lines": Option("number", "--header", None),
    "infer": Option("flag", "--infer", False),
    "io": Option("text", "--io", None),
    "jsonl": Option("flag", "--jsonl", False),
    "key": Option("texts", "--key", None),
    "line_bytes": Option("size", "--line-bytes", None),
    "lines": Option("lines", "--lines", False),
    "memory": Option("size", "--memory", None),
    "null": Option("texts", "--null", None),
    "on_error": Option("text", "--on-error", None),
    "parts": Option("number", "--parts", None),
    "random": Option("flag", "--random", False),
    "rate": Option("value", "--rate", None),
    "record": Option("record", "--record", None),
    "record_io": Option("path", "--record-io", None),
    "schema": Option("schema", "--schema", None),
    "seed": Option("number", "--seed", 1),
    "separator": Option("text", "--field-separator", None),
    "splitters": Option("path", "--splitters", None),
    "threads": Option("number", "--threads", None),
    "train": Option("value", "--train", None),
    "union": Option("flag", "--union", False),
    "with_replacement": Option("flag", "--with-replacement", False),
    "zero_terminated": Option("flag", "--zero-terminated", False),
}


@overload
def head(
    src: TableSource, dst: StrPath, *, force: bool = False, count: SupportsIndex = 10, by: Keys | None = None,
    memory: Size | None = None, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def head(
    src: TableSource, dst: None = None, *, force: bool = False, count: SupportsIndex = 10,
    by: Keys | None = None, memory: Size | None = None, dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, lines: LinesHow = False,
    zero_terminated: bool = False, header_lines: SupportsIndex | None = None, comment: Keys | None = None,
    csv: bool = False, jsonl: bool = False, fastq: bool = False, header: bool = True,
    separator: str | None = None, columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> Table: ...


def head(
    src: TableSource, dst: StrPath | None = None, *, force: bool = False, count: SupportsIndex = 10,
    by: Keys | None = None, memory: Size | None = None, dtype: npt.DTypeLike | None = None,
    record: Record | None = None, key: Keys | None = None, lines: LinesHow = False,
    zero_terminated: bool = False, header_lines: SupportsIndex | None = None, comment: Keys | None = None,
    csv: bool = False, jsonl: bool = False, fastq: bool = False, header: bool = True,
    separator: str | None = None, columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Take the first lines, records or rows of the input.

    Reads no more than it needs. With a negative N, it reads files twice. Several files are read as one.

    Rows of tables are printed in the format of the first input: those of Parquet and Arrow as CSV, or as JSON
    lines if a column has lists or objects.

    Examples:
        >>> outcore.head("keys.bin", "some.bin", count=1000000, dtype="u64")
        >>> outcore.head("t.parquet", columns=["url", "time"])
        >>> outcore.head("logs/", "some.parquet", count=1000000)
        >>> outcore.head("logs/", "largest.parquet", count=100, by=["bytes:desc", "time"])

    Args:
        count: Number of lines, records or rows to print; a negative number takes all but that many at the
            end.
        by: Take the first rows in the order of these columns; COLUMN:desc is descending.
        memory: Memory to use. Default: half of the free memory.
        key, separator: As in `comm`.
        csv, jsonl, fastq: As in `shuffle`.
        force, dtype, record, lines, zero_terminated, header_lines, comment, header, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, explain, record_io, volume, progress: As
            in `sort`.
        src, dst: As in `unique`.

    Raises: What `sort` raises.
    """
    return run_on_tables("head", WriteSummary, ("head",), _OPTIONS, locals())


@overload
def tail(
    src: TableSource, dst: StrPath, *, force: bool = False, count: SupportsIndex = 10,
    memory: Size | None = None, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary: ...


@overload
def tail(
    src: TableSource, dst: None = None, *, force: bool = False, count: SupportsIndex = 10,
    memory: Size | None = None, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> Table: ...


def tail(
    src: TableSource, dst: StrPath | None = None, *, force: bool = False, count: SupportsIndex = 10,
    memory: Size | None = None, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Print the last lines, records or rows of the input.

    Several files are read as one. outcore reads only the end of plain lines and records. It reads CSV and
    compressed files twice, and holds the last records of a stream in memory.

    Examples:
        >>> outcore.tail("keys.bin", "some.bin", count=1000000, dtype="u64")
        >>> outcore.tail("t.parquet", columns=["url", "time"])

    Args:
        count: Number of lines, records or rows to print.
        key, separator: As in `comm`.
        memory: As in `head`.
        csv, jsonl, fastq: As in `shuffle`.
        force, dtype, record, lines, zero_terminated, header_lines, comment, header, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, explain, record_io, volume, progress: As
            in `sort`.
        src, dst: As in `unique`.

    Raises: What `sort` raises.
    """
    return run_on_tables("tail", WriteSummary, ("tail",), _OPTIONS, locals())


@overload
def sample(
    src: TableSource, dst: StrPath, *, force: bool = False, count: SupportsIndex | None = None,
    rate: float | None = None, with_replacement: bool = False, seed: SupportsIndex = 1,
    memory: Size | None = None, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SampleSummary: ...


@overload
def sample(
    src: TableSource, dst: None = None, *, force: bool = False, count: SupportsIndex | None = None,
    rate: float | None = None, with_replacement: bool = False, seed: SupportsIndex = 1,
    memory: Size | None = None, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> Table: ...


def sample(
    src: TableSource, dst: StrPath | None = None, *, force: bool = False, count: SupportsIndex | None = None,
    rate: float | None = None, with_replacement: bool = False, seed: SupportsIndex = 1,
    memory: Size | None = None, dtype: npt.DTypeLike | None = None, record: Record | None = None,
    key: Keys | None = None, lines: LinesHow = False, zero_terminated: bool = False,
    header_lines: SupportsIndex | None = None, comment: Keys | None = None, csv: bool = False,
    jsonl: bool = False, fastq: bool = False, header: bool = True, separator: str | None = None,
    columns: Keys | None = None, union: bool = False, codec: str | None = None,
    group_rows: SupportsIndex | None = None, bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None, infer: bool = False, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, parts: SupportsIndex | None = None,
    explain: bool = False, record_io: StrPath | None = None, volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SampleSummary | Table:
    """Take randomly chosen lines, records or rows, in input order.

    Reads the input once, and keeps only the sample in memory; with rate=, it keeps nothing in memory. Every
    sample of that size is equally likely; the same seed gives the same sample.

    Examples:
        >>> outcore.sample("train.jsonl", "some.jsonl", count=100000, seed=7)
        >>> outcore.sample("keys.bin", "bootstrap.bin", count=1000000, with_replacement=True, dtype="u64")
        >>> outcore.sample("docs.parquet", "some.parquet", count=100000)

    Args:
        count: Number of lines, records or rows to print; all of them, if there are fewer.
        rate: Print each line or record with this probability, between 0 and 1. The sample may be of any size.
        with_replacement: Draw with replacement: a line or record may be printed several times in a row.
            Streams are rejected, since the input must be counted first.
        key, separator: As in `comm`.
        memory: As in `head`.
        seed, csv, jsonl, fastq: As in `shuffle`.
        force, dtype, record, lines, zero_terminated, header_lines, comment, header, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, explain, record_io, volume, progress: As
            in `sort`.
        src, dst: As in `unique`.

    Raises: What `sort` raises.
    """
    return run_on_tables("sample", SampleSummary, ("sample",), _OPTIONS, locals())


def split(
    src: TableSource, dst: StrPath, *, parts: SupportsIndex | None = None,
    by_lines: SupportsIndex | None = None, bytes: Size | None = None, line_bytes: Size | None = None,
    filter: str | None = None, train: float | None = None, by: Keys | None = None,
    splitters: StrPath | None = None, random: bool = False, seed: SupportsIndex = 1,
    dtype: npt.DTypeLike | None = None, record: Record | None = None, key: Keys | None = None,
    lines: LinesHow = False, zero_terminated: bool = False, header_lines: SupportsIndex | None = None,
    comment: Keys | None = None, csv: bool = False, jsonl: bool = False, fastq: bool = False,
    header: bool = True, separator: str | None = None, memory: Size | None = None,
    threads: SupportsIndex | None = None, io: str | None = None, drives: Paths = (), force: bool = False,
    columns: Keys | None = None, union: bool = False, schema: str | Mapping[str, str] | None = None,
    infer: bool = False, codec: str | None = None, null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None, explain: bool = False,
    record_io: StrPath | None = None, volume: StrPath | None = None, progress: Watcher | bool | None = None,
) -> SplitSummary:
    """Split files into parts of whole lines, records or rows.

    The parts, concatenated, are the input. With parts=, parts of records differ by at most one record; a line
    belongs to the part that contains its first byte, so parts have nearly equal lengths and some may be
    empty. Every part of CSV begins with the header. All parts appear together at the end, or none. With
    splitters= and random=, parts keep the input order, and the report has the number and a checksum of the
    items of each part. The checksums are those of `verify`, or of `verify lines=` for lines, and add up to
    the checksum of the whole.

    With filter=, part numbers have five digits unless the number of parts is given, and a part may have the
    name of an existing file only with force=True. With train=, the parts are called train and test. With by=,
    rows keep their order within a partition, and the columns of by= are in the names of directories and not
    in the files. Files are written one at a time, so memory does not grow with their number. With splitters=
    and random=, all parts are open at the same time.

    Examples:
        >>> outcore.split("big.jsonl.gz", "part-{part}.jsonl.zst", parts=4)
        >>> outcore.split("table.csv", "table-{part}.csv", line_bytes="256MiB")
        >>> outcore.split("t.parquet", "part-{part}.parquet", bytes="256MiB")
        >>> outcore.split("t.parquet", "by-country", by="country")
        >>> outcore.split("keys.bin", "range-{part}.bin", splitters="borders.bin", dtype="u64")
        >>> outcore.split("train.jsonl", "fold-{part}.jsonl", parts=5, random=True, seed=7)

    Args:
        src: Files to split, in order, as one input.
        dst: File name pattern: {part} becomes the part number, from 0; with by=, the name of a directory.
            Parts of lines are compressed if the pattern ends in .gz, .zst, .bz2 or .xz; parts of records get
            a header if the pattern ends in .npy.
        parts: Number of parts.
        by_lines: Number of lines, records or rows in each part; the last part may have fewer.
        bytes: Exactly this many bytes in each part, regardless of line ends; the last part may have fewer.
            For tables, the approximate stored size of each part.
        line_bytes: As many whole lines as fit in this many bytes, including the header of CSV. A longer line
            is cut; a longer record of CSV or JSON gets a part of its own.
        filter: Write no files: pipe each part, one after the other, to this shell command, with the part's
            name in $FILE. A command that fails stops the split.
        train: Tables only: write a random SHARE of the rows, such as 0.9, to the part train, and the rest to
            the part test.
        by: Tables only: write a directory for each value of this column, as in
            `dst`/country=de/part-0.parquet. Several columns are separated by commas; each is nested in the
            one before. With splitters=, the key: columns of tables, or fields of JSON lines.
        splitters: Write each record, line or row to the part of its key. The file holds splitters: records,
            lines or rows of the input's kind, in ascending order. Part 0 has the keys before the first
            splitter, the next part those before the second one, and so on. Equal keys share a part.
        random: Write each record, line or row to a part that is chosen at random, instead of cutting.
        seed: Random seed of train= and random=.
        force: Replace existing parts.
        columns: Keep these columns, in this order; the others are not read.
        union: Accept files with different columns; see `convert`.
        schema: Read CSV or JSON lines as a table with these column types; see `convert`.
        infer: Read CSV or JSON lines as a table, with column types inferred from a sample.
        codec: Compression of the parts; see `convert`.
        key, separator: As in `comm`.
        csv, jsonl, fastq: As in `shuffle`.
        dtype, record, lines, zero_terminated, header_lines, comment, header, memory, threads, io, drives,
            null, explain, record_io, volume, progress: As in `sort`.
        on_error: As in `verify`.

    Raises: What `sort` raises.
    """
    return report_on_tables("split", SplitSummary, ("split",), _OPTIONS, locals())


__all__ = [
    "head",
    "tail",
    "sample",
    "split",
]
