"""Verbs: a function for each.

Made from the definition of the verbs in `crates/outcore-verbs`; `OUTCORE_GENERATE=1 cargo test --workspace --test
generated` makes it anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, SupportsIndex

from ._arguments import Keys, LinesHow, Paths, Record, Size, StrPath
from ._held import TableSource
from ._progress import Watcher
from ._reports import CommSummary, GenSummary, SampleSummary, ShuffleSummary, SortSummary, SplitSummary, UniqueSummary, VerifyReport, WriteSummary
from ._words import Option, report_on_tables, run, run_on_tables

if TYPE_CHECKING:
    import numpy.typing as npt

    from ._table import Table

#: The words of keywords; a verb that differs has its name in front.
_OPTIONS: dict[str, Option] = {
    "against": Option("paths", "--against", ()),
    "all_repeated": Option("flag", "--all-repeated", False),
    "ascii": Option("flag", "--ascii", False),
    "bloom": Option("columns", "--bloom", None),
    "by": Option("texts", "--by", None),
    "by_lines": Option("number", "--by-lines", None),
    "bytes": Option("size", "--bytes", None),
    "check_chars": Option("number", "--check-chars", None),
    "codec": Option("text", "--codec", None),
    "columns": Option("columns", "--columns", None),
    "count": Option("flag", "--count", False),
    "csv": Option("flag", "--csv", False),
    "descending": Option("flag", "--descending", False),
    "dictionary_order": Option("flag", "--dictionary-order", False),
    "dist": Option("text", "--dist", "uniform"),
    "drives": Option("drives", "--drive", ()),
    "dst": Option("path", "--output", None),
    "dtype": Option("dtype", "--type", None),
    "epoch": Option("number", "--epoch", 0),
    "explain": Option("flag", "--explain", False),
    "first": Option("number", "--first", None),
    "force": Option("flag", "--force", False),
    "gen.count": Option("number", "--count", ...),
    "gen.seed": Option("number", "--seed", 1),
    "general_numeric_sort": Option("flag", "--general-numeric-sort", False),
    "group_rows": Option("number", "--group-rows", None),
    "head.count": Option("number", "--count", 10),
    "header": Option("unless", "--no-header", True),
    "human_numeric_sort": Option("flag", "--human-numeric-sort", False),
    "ignore_case": Option("flag", "--ignore-case", False),
    "ignore_leading_blanks": Option("flag", "--ignore-leading-blanks", False),
    "ignore_nonprinting": Option("flag", "--ignore-nonprinting", False),
    "infer": Option("flag", "--infer", False),
    "io": Option("text", "--io", None),
    "jsonl": Option("flag", "--jsonl", False),
    "keep_order": Option("flag", "--keep-order", False),
    "key": Option("texts", "--key", None),
    "line_key": Option("texts", "-k", None),
    "lines": Option("lines", "--lines", False),
    "memory": Option("size", "--memory", None),
    "month_sort": Option("flag", "--month-sort", False),
    "not_both": Option("flag", "--not-both", False),
    "not_left": Option("flag", "--not-left", False),
    "not_right": Option("flag", "--not-right", False),
    "null": Option("texts", "--null", None),
    "numeric_sort": Option("flag", "--numeric-sort", False),
    "on_error": Option("text", "--on-error", None),
    "parts": Option("number", "--parts", None),
    "random_sort": Option("flag", "--random-sort", False),
    "rate": Option("value", "--rate", None),
    "record": Option("record", "--record", None),
    "record_io": Option("path", "--record-io", None),
    "repeated": Option("flag", "--repeated", False),
    "replace": Option("flag", "--replace", False),
    "sample.count": Option("number", "--count", None),
    "sample.seed": Option("number", "--seed", 1),
    "schema": Option("schema", "--schema", None),
    "scratch_limit": Option("size", "--scratch-limit", None),
    "seed": Option("number", "--seed", None),
    "separator": Option("text", "--field-separator", None),
    "shuffle.count": Option("number", "--count", None),
    "shuffle.seed": Option("number", "--seed", 1),
    "skewed": Option("flag", "--skewed", False),
    "skip_chars": Option("number", "--skip-chars", None),
    "skip_fields": Option("number", "--skip-fields", None),
    "split.seed": Option("number", "--seed", 1),
    "stable": Option("flag", "--stable", False),
    "tail.count": Option("number", "--count", 10),
    "threads": Option("number", "--threads", None),
    "ties": Option("flag", "--ties", False),
    "total": Option("flag", "--total", False),
    "train": Option("value", "--train", None),
    "union": Option("flag", "--union", False),
    "unique": Option("flag", "--unique", False),
    "version_sort": Option("flag", "--version-sort", False),
    "with_replacement": Option("flag", "--with-replacement", False),
    "zero_terminated": Option("flag", "--zero-terminated", False),
}


def sort(
    src: TableSource,
    dst: StrPath | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    descending: bool = False,
    stable: bool = False,
    unique: bool = False,
    line_key: Keys | None = None,
    separator: str | None = None,
    ignore_leading_blanks: bool = False,
    dictionary_order: bool = False,
    ignore_case: bool = False,
    general_numeric_sort: bool = False,
    human_numeric_sort: bool = False,
    ignore_nonprinting: bool = False,
    month_sort: bool = False,
    numeric_sort: bool = False,
    random_sort: bool = False,
    version_sort: bool = False,
    lines: LinesHow = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    by: Keys | None = None,
    header: bool = True,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    drives: Paths = (),
    scratch_limit: Size | None = None,
    force: bool = False,
    replace: bool = False,
    explain: bool = False,
    seed: SupportsIndex | None = None,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SortSummary | Table:
    """The verb, for the function of the same name that documents it."""
    return run_on_tables("sort", SortSummary, ("distribute", "sort"), _OPTIONS, locals())


def unique(
    src: TableSource,
    dst: StrPath | None = None,
    *,
    force: bool = False,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    count: bool = False,
    repeated: bool = False,
    unique: bool = False,
    all_repeated: bool = False,
    keep_order: bool = False,
    skip_fields: SupportsIndex | None = None,
    skip_chars: SupportsIndex | None = None,
    check_chars: SupportsIndex | None = None,
    descending: bool = False,
    line_key: Keys | None = None,
    separator: str | None = None,
    ignore_leading_blanks: bool = False,
    general_numeric_sort: bool = False,
    human_numeric_sort: bool = False,
    month_sort: bool = False,
    numeric_sort: bool = False,
    random_sort: bool = False,
    version_sort: bool = False,
    lines: LinesHow = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    by: Keys | None = None,
    header: bool = True,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    drives: Paths = (),
    scratch_limit: Size | None = None,
    explain: bool = False,
    record_io: StrPath | None = None,
    dictionary_order: bool = False,
    ignore_nonprinting: bool = False,
    ignore_case: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> UniqueSummary | Table:
    """Keep one of each line or record, in order, or count them.

    The output is that of `sort -u`; with count=, that of `sort | uniq -c`, or for records each record
    followed by an 8-byte count. With keys (-k, or by= for CSV and JSON lines), one line or record is kept for
    each key: of lines, the first in the input.

    outcore compares all lines of the input, as `sort | uniq` does, and not only neighbours. The options of
    GNU uniq (-c -d -D -u -i -f -s -w -z) have its meaning; with -f, -s or -w, the part of a line that they
    leave is its key, and lines are in the order of their keys.

    Args:
        src: Files to read, in order, as one input: lines, .npy, or raw records with dtype=; - is standard
            input, which is the default. Compressed lines (gzip, zstd, bzip2 or xz, detected by content) are
            decompressed.
        dst: Output file; lines are compressed if its name ends in .gz, .zst, .bz2 or .xz. Default: standard
            output. Without it the result is a `Table`.
        force: Replace an existing output.
        dtype: Record type: u8..u128, i8..i64, f32 or f64, with the suffix `be` for big-endian (u64be); a
            vector such as f32x32; bytes such as bytes16; a NumPy dtype such as <u8, uint64 (u8 alone is one
            byte) or "[('id', '<u4'), ('name', '|S8')]"; or gensort (100 bytes, of which the first 10 are the
            key). .npy files carry their type. Any dtype of NumPy's says it too. `u8` and `i8` mean one thing
            here and another to NumPy, and are rejected.
        record: Record size in bytes, for records without a type of their own. A tuple gives the keys as well:
            `(100, "0:10")`.
        key: Sort key: OFFSET:LEN[:TYPE][:desc] in bytes, where TYPE is bytes (the default) or a number type;
            for structured .npy the name of a field, NAME[:desc]. Repeat for secondary keys; most significant
            first. Default: the whole record.
        count: Put the number of equal lines before each line, or the number of equal records after each
            record.
        repeated: Keep only lines, records or keys that occur more than once, one of each.
        unique: Keep only lines, records or keys that occur once.
        all_repeated: Keep all lines whose key occurs more than once, and not only one of each.
        keep_order: Keep the lines in the order of the input, as `awk '!seen[$0]++'` does: the first of each,
            or of those that are kept. A table keeps the first row of each key in its place.
        skip_fields: Do not compare the first N fields. A field is a run of blanks and what follows it up to
            the next blank.
        skip_chars: Do not compare the first N bytes, counted behind the fields that are skipped.
        check_chars: Compare at most N bytes of a line.
        descending: Reverse the key order (largest first).
        line_key: Sort key from POS1 to the end of POS2, or of the line: F[.C][OPTS], field and byte counted
            from 1, OPTS out of [bdfghiMnRrV]. Repeat for secondary keys; most significant first.
        separator: Field separator, one byte (\\0 for NUL). Default: a field begins with the blanks in front
            of it.
        ignore_leading_blanks: Ignore leading blanks in keys.
        general_numeric_sort: Compare as floating-point numbers, as strtold reads them: exponents,
            hexadecimal, inf, nan.
        human_numeric_sort: Compare numbers with units: 2K before 1G; in a key the letter h, and -h if the
            program is called `sort`.
        month_sort: Compare as names of months, JAN to DEC.
        numeric_sort: Compare as decimal numbers of any length.
        random_sort: Random order that keeps equal keys together; differs in each run unless seed= or
            random_source= is given.
        version_sort: Compare version numbers within names.
        lines: Treat the input as lines, whatever it looks like and is called. Otherwise outcore rejects
            binary data (NULs, Parquet, Arrow, .npz, UTF-16, ...), and .npy files are records. Compressed
            files (gzip, zstd, bzip2, xz, detected by content) are decompressed either way. `True` takes text
            alone for lines, and `"any"` any bytes.
        zero_terminated: Lines end with NUL instead of newline.
        csv: Input is CSV: quoted fields may hold separators and newlines, and the first line names the
            columns and stays first. -t sets the separator (default: that of a sample of the records).
        jsonl: Input is JSON lines: one JSON value per line. Types are ordered null, false, true, numbers,
            strings, arrays, objects.
        by: Sort key: name or number (from 1) of a column; for JSON lines a path such as .user.id or .tags[0].
            After colons: asc, desc, nulls-first or nulls-last, as in price:desc; for CSV also the letters of
            -k, as in price:nr. Null is an empty field of CSV. Repeat for secondary keys; most significant
            first.
        header: If it is `False`: The CSV has no header line.
        columns: Keep these columns, in this order; the others are not read. st.a is the field a of objects
            st. A name in backquotes may hold commas, or be empty.
        union: Let files of one table lack columns, which are null there, or have columns of other types,
            which get a common type: the wider integer, a float, a decimal with all digits, the finer
            timestamp.
        codec: Compression of OUT: zstd, snappy, lz4, gzip, brotli or none, with a level as in zstd:9.
            Default: zstd:1 for Parquet, lz4 for Arrow.
        group_rows: Maximum number of rows in a row group.
        bloom: Columns that get a bloom filter, in Parquet.
        schema: Read CSV or JSON lines as a table with these types: bool, i8 to u64, f32, f64, text, date,
            time, timestamp[us,UTC], decimal(12,2), list<TYPE>, struct<NAME:TYPE>. Types of other columns are
            inferred from a sample.
        infer: Read CSV or JSON lines as a table, with column types inferred from a sample. Default where OUT
            is Parquet or Arrow, and for commands that take only tables.
        null: Texts of CSV fields that are null, besides empty fields, as in NA,NULL. The name pandas stands
            for the list of pandas.read_csv.
        on_error: What to do with rows of CSV and JSON lines that do not have the columns, or values of their
            types (and, where lines are sorted by a field, with lines that lack it).
        parts: Write N Parquet files of equal numbers of rows to the directory OUT.
        memory: Memory to use, such as 2GiB; resident memory exceeds it by at most 64 MiB. Default: half of
            the free memory.
        threads: Number of compute threads. Default: one for each processor.
        io: I/O mode: direct (O_DIRECT), buffered, or auto (direct where the file system supports it).
            Default: auto.
        drives: A directory on a drive; repeat for more drives. Scratch is spread over all of them, and so is
            an output with {drive} in its name. Default: scratch goes beside the output, or to /var/tmp if the
            output is in memory.
        scratch_limit: Limit on scratch space, over all drives together. Default: all free space.
        explain: Print the plan (passes and buffers; by hashing or by sorting), then run.
        record_io: Record every read, write and sync of this run, with times, in FILE (an I/O trace; see
            docs/formats/io-trace.md). FILE appears only if the run succeeds; an existing file needs
            force=True.
        dictionary_order: Compare blanks, letters and digits only.
        ignore_nonprinting: Compare printable characters only.
        ignore_case: Compare lower-case letters as upper-case.
        volume: The drives file of a volume: where a file is taken, `"@name"` is a dataset on it. By default
            that of `OUTCORE_VOLUME`.
        progress: `True` for a bar, or a function that is called with a `Progress` a few times a second. What
            it raises stops the job.

    Raises: What `sort` raises.
    """
    return run_on_tables("unique", UniqueSummary, ("sample", "count"), _OPTIONS, locals())


def comm(
    left: TableSource,
    right: TableSource,
    dst: StrPath | None = None,
    *,
    not_left: bool = False,
    not_right: bool = False,
    not_both: bool = False,
    total: bool = False,
    by: Keys | None = None,
    lines: LinesHow = False,
    zero_terminated: bool = False,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    csv: bool = False,
    jsonl: bool = False,
    header: bool = True,
    separator: str | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    drives: Paths = (),
    scratch_limit: Size | None = None,
    force: bool = False,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> CommSummary | Table:
    """Compare two inputs: lines or rows of the first alone, of the second alone, of both.

    For lines the output is that of `comm <(sort LEFT) <(sort RIGHT)` in the C locale: three columns, with
    tabs in front of the second and third. The inputs need not be sorted, so there is no check_order=. A line
    that is 3 times in LEFT and 2 times in RIGHT is 2 times in both and once in LEFT alone.

    Tables, CSV and JSON lines are compared by row, and one column of the three is kept, for example with -12.
    Null is equal to null.

    Args:
        left: The first input: a file of lines or a table; - is standard input. Compressed lines are
            decompressed.
        right: The second input.
        dst: Output: a file of lines, compressed if its name ends in .gz, .zst, .bz2 or .xz, or a table.
            Default: standard output. Without it the result is a `Table`.
        not_left: Leave out the first column: what LEFT alone has.
        not_right: Leave out the second column: what RIGHT alone has.
        not_both: Leave out the third column: what both have.
        total: Write the numbers of lines of the three columns at the end.
        by: Key column by which rows of both tables are matched; repeat for several. Default: all columns.
            Rows of both are written as LEFT has them.
        csv: Input is CSV, whatever its name: quoted fields may hold separators and newlines, and the first
            line of each file names the columns.
        jsonl: Input is JSON lines, whatever its name: one JSON object per line.
        header: If it is `False`: The CSV has no header line; its columns are called 1, 2, and so on.
        separator: Separator of CSV fields. Default: that of a sample of the records.
        explain: Print the plan (passes, buffers, predicted traffic and time), then run.
        lines, zero_terminated, columns, union, codec, group_rows, bloom, schema, infer, null, on_error,
            parts, memory, threads, io, drives, scratch_limit, force, record_io, volume, progress: As in
            `unique`.

    Raises: What `sort` raises.
    """
    return run_on_tables("comm", CommSummary, ("distribute", "sort"), _OPTIONS, locals())


def shuffle(
    src: TableSource,
    dst: StrPath | None = None,
    *,
    force: bool = False,
    replace: bool = False,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    count: SupportsIndex | None = None,
    seed: SupportsIndex = 1,
    epoch: SupportsIndex = 0,
    by: Keys | None = None,
    lines: LinesHow = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    header: bool = True,
    separator: str | None = None,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    drives: Paths = (),
    scratch_limit: Size | None = None,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> ShuffleSummary | Table:
    """Shuffle lines or records into a uniformly random order.

    Every order is equally likely. The same seed and epoch give the same output from the same input, whatever
    the number of threads and drives and the memory.

    Args:
        replace: Let the output replace an input: OUT is one of the inputs.
        count: Write so many lines, records or rows, chosen at random, and no more, as `shuf -n` does. Lines
            and records that are written are held in memory.
        seed: Random seed.
        epoch: Number of the epoch: each one gives an independent order for the same seed.
        by: Keep rows of a table together that have equal values in these columns, in the order of the input;
            the groups come in a random order. Repeat for several columns.
        csv: Input is CSV, whatever its name: quoted fields may hold separators and newlines. The first line
            of each file names the columns, and comes first in every output, once.
        jsonl: Input is JSON lines, whatever its name: one JSON value per line.
        separator, explain: As in `comm`.
        src, dst, force, dtype, record, key, lines, zero_terminated, header, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, memory, threads, io, drives,
            scratch_limit, record_io, volume, progress: As in `unique`.

    Raises: What `sort` raises.
    """
    return run_on_tables("shuffle", ShuffleSummary, ("distribute", "shuffle"), _OPTIONS, locals())


def head(
    src: TableSource,
    dst: StrPath | None = None,
    *,
    force: bool = False,
    count: SupportsIndex = 10,
    by: Keys | None = None,
    memory: Size | None = None,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    lines: LinesHow = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    header: bool = True,
    separator: str | None = None,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Print the first lines, records or rows of the input.

    Reads no more than it needs; for all but the last ones, files are read twice. Several files are read as
    one.

    Rows of tables are printed with tabs between their columns; with -o they are written as a table.

    Args:
        count: Number of lines or records to print; with a minus, as in -5, all but so many at the end.
        by: Take the first rows in the order of this column, or with COLUMN:desc the last ones; repeat for
            several columns. Needs -o.
        memory: Memory to use. Default: half of the free memory.
        explain: Print the plan (predicted traffic and time), then run.
        separator: As in `comm`.
        csv, jsonl: As in `shuffle`.
        src, dst, force, dtype, record, key, lines, zero_terminated, header, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, record_io, volume, progress: As in
            `unique`.

    Raises: What `sort` raises.
    """
    return run_on_tables("head", WriteSummary, ("head",), _OPTIONS, locals())


def tail(
    src: TableSource,
    dst: StrPath | None = None,
    *,
    force: bool = False,
    count: SupportsIndex = 10,
    memory: Size | None = None,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    lines: LinesHow = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    header: bool = True,
    separator: str | None = None,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> WriteSummary | Table:
    """Print the last lines, records or rows of the input.

    Several files are read as one. Of lines and records in files, only the end is read. Of CSV and compressed
    files, all is read twice; of a stream, the last records are held in memory.

    Rows of tables are printed with tabs between their columns; with -o they are written as a table.

    Args:
        count: Number of lines or records to print; with a plus, as in +5, all from that one on.
        separator: As in `comm`.
        memory, explain: As in `head`.
        csv, jsonl: As in `shuffle`.
        src, dst, force, dtype, record, key, lines, zero_terminated, header, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, record_io, volume, progress: As in
            `unique`.

    Raises: What `sort` raises.
    """
    return run_on_tables("tail", WriteSummary, ("tail",), _OPTIONS, locals())


def sample(
    src: TableSource,
    dst: StrPath | None = None,
    *,
    force: bool = False,
    count: SupportsIndex | None = None,
    rate: float | None = None,
    with_replacement: bool = False,
    seed: SupportsIndex = 1,
    memory: Size | None = None,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    lines: LinesHow = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    header: bool = True,
    separator: str | None = None,
    columns: Keys | None = None,
    union: bool = False,
    codec: str | None = None,
    group_rows: SupportsIndex | None = None,
    bloom: Keys | None = None,
    schema: str | Mapping[str, str] | None = None,
    infer: bool = False,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    parts: SupportsIndex | None = None,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SampleSummary | Table:
    """Print randomly chosen lines, records or rows, in input order.

    Reads the input once and keeps only the sample in memory, or with rate= nothing. Every sample of that size
    is equally likely; the same seed gives the same sample.

    Args:
        count: Number of lines or records to print; all of them, if there are fewer.
        rate: Print each line or record with this probability, between 0 and 1. The sample may be of any size.
        with_replacement: Draw each of the lines or records from all of them, so that one may be printed
            several times, one after another. Streams are not possible, since they are counted first.
        memory: Memory for the sample. Default: half of the free memory.
        separator: As in `comm`.
        explain: As in `head`.
        seed, csv, jsonl: As in `shuffle`.
        src, dst, force, dtype, record, key, lines, zero_terminated, header, columns, union, codec,
            group_rows, bloom, schema, infer, null, on_error, parts, record_io, volume, progress: As in
            `unique`.

    Raises: What `sort` raises.
    """
    return run_on_tables("sample", SampleSummary, ("sample",), _OPTIONS, locals())


def split(
    src: TableSource,
    dst: StrPath,
    *,
    parts: SupportsIndex | None = None,
    by_lines: SupportsIndex | None = None,
    bytes: Size | None = None,
    train: float | None = None,
    by: Keys | None = None,
    seed: SupportsIndex = 1,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    lines: LinesHow = False,
    zero_terminated: bool = False,
    csv: bool = False,
    jsonl: bool = False,
    header: bool = True,
    separator: str | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    drives: Paths = (),
    force: bool = False,
    columns: Keys | None = None,
    union: bool = False,
    schema: str | Mapping[str, str] | None = None,
    infer: bool = False,
    codec: str | None = None,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> SplitSummary:
    """Split files into parts of whole lines, records or rows.

    The parts, concatenated, are the input. With -n, parts of records differ by at most one record; a line
    belongs to the part in which its first byte lies, as with `split -n l/K`, so that parts are of nearly
    equal length and some may be empty. Every part of CSV begins with the header. All parts appear at the end,
    or none.

    With train=, the parts are called train and test. With by=, rows keep their order within a partition, the
    columns of by= are in the names of directories and not in the files, and no more than one file is written
    at a time, so memory does not grow with their number.

    Args:
        src: Files to split, in order, as one input. Default: standard input.
        dst: File name pattern: {part} becomes the part number, from 0; with by=, the name of a directory.
            Parts of lines are compressed if it ends in .gz, .zst, .bz2 or .xz; parts of records get a header
            if it ends in .npy.
        parts: Number of parts.
        by_lines: Number of lines, records or rows in each part; the last part may have fewer.
        bytes: Tables only: approximate stored size of each part.
        train: Tables only: write a random SHARE of the rows, such as 0.9, to the part train, and the rest to
            the part test.
        by: Tables only: write a directory for each value of this column, as in OUT/country=de/part-0.parquet;
            repeat for nested directories.
        seed: Random seed of train=.
        force: Replace existing parts.
        columns: Keep these columns, in this order; the others are not read.
        union: Let files of one table lack columns, or have columns of other types; see `outcore convert`.
        schema: Read CSV or JSON lines as a table with these column types; see `outcore convert`.
        infer: Read CSV or JSON lines as a table, with column types inferred from a sample.
        codec: Compression of the parts; see `outcore convert`.
        on_error: What to do with rows of CSV and JSON lines that do not have the columns, or values of their
            types.
        separator: As in `comm`.
        explain: As in `head`.
        csv, jsonl: As in `shuffle`.
        dtype, record, key, lines, zero_terminated, header, memory, threads, io, drives, null, record_io,
            volume, progress: As in `unique`.

    Raises: What `sort` raises.
    """
    return report_on_tables("split", SplitSummary, ("split",), _OPTIONS, locals())


def gen(
    dtype: npt.DTypeLike,
    dst: StrPath,
    count: SupportsIndex,
    *,
    dist: str = "uniform",
    seed: SupportsIndex = 1,
    ascii: bool = False,
    skewed: bool = False,
    first: SupportsIndex | None = None,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    drives: Paths = (),
    force: bool = False,
    explain: bool = False,
    record_io: StrPath | None = None,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> GenSummary:
    """Generate records for tests and measurements.

    The records depend only on type, count, distribution and seed.

    Args:
        dtype: Record type, as in `sort dtype=`; gensort makes the records of sortbenchmark.org's gensort 1.5,
            byte for byte; SIZE/KEY[,KEY...] makes records with keys as in `sort key=`. Any dtype of NumPy's
            says it too. `u8` and `i8` mean one thing here and another to NumPy, and are rejected.
        dst: Output: a file (.npy gets a header), - for standard output, or one shard per drive if the name
            contains {drive}.
        count: Number of records.
        dist: Distribution of the keys: uniform (the whole range: of floats all finite ones, so distances
            between vectors are infinite), uniform:MU (0 to MU), exponential:LAMBDA, zipf:S[:RANKS], normal
            and clusters:K (vectors around K centres; both of floats and of integers up to 32 bits),
            rmat:SCALE (edges of a graph of 2^SCALE vertices, for u32x2 and the like), kronecker:SCALE (the
            same with vertices in no order, as Graph500 has it), sorted, reversed, equal.
        ascii: Printable records.
        skewed: Keys that share prefixes.
        first: Number of the first record.
        force: Replace an existing file.
        explain: As in `head`.
        seed: As in `shuffle`.
        memory, threads, io, drives, record_io, volume, progress: As in `unique`.

    Raises: What `sort` raises.
    """
    return run("gen", GenSummary, ("generate",), _OPTIONS, locals())


def verify(
    src: Paths,
    *,
    against: Paths = (),
    by: Keys | None = None,
    columns: Keys | None = None,
    null: Keys | None = None,
    on_error: Literal["fail", "skip", "null"] | None = None,
    dtype: npt.DTypeLike | None = None,
    record: Record | None = None,
    key: Keys | None = None,
    descending: bool = False,
    unique: bool = False,
    ties: bool = False,
    explain: bool = False,
    memory: Size | None = None,
    threads: SupportsIndex | None = None,
    io: str | None = None,
    record_io: StrPath | None = None,
    force: bool = False,
    volume: StrPath | None = None,
    progress: Watcher | bool | None = None,
) -> VerifyReport:
    """Check that files are sorted, and that they hold the records of others.

    Reports the number of records, a checksum that does not depend on their order, and the number of equal
    keys, in the words of sortbenchmark.org's valsort. What is found is an answer, not an error: the command
    exits with 1 if a record is out of order, and Python's report has `ok`.

    With by=, a table must be in the order of these columns, and with unique=True no two rows may have equal
    keys. against= compares all rows, whatever their order, by their values.

    Args:
        src: Files to check, in order, as one input.
        against: Files that must hold the same records in any order: the input of the sort.
        by: Tables only: column of the expected order, COLUMN:desc for the largest first; repeat for several.
        columns: Tables only: look at these columns and no others.
        descending: Expect the reverse order (largest first).
        unique: Report equal keys as out of order.
        ties: Expect records with equal keys to be ordered by their bytes, as `sort` writes them without
            stable=True.
        force: Replace an existing trace.
        explain: As in `head`.
        on_error: As in `split`.
        null, dtype, record, key, memory, threads, io, record_io, volume, progress: As in `unique`.

    Raises: What `sort` raises.
    """
    return run("verify", VerifyReport, ("verify",), _OPTIONS, locals())


__all__ = [
    "unique",
    "comm",
    "shuffle",
    "head",
    "tail",
    "sample",
    "split",
    "gen",
    "verify",
]
